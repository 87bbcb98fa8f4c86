//! The report: one HTML page with everything in it, from records that were kept.

use super::record::Contest;
use crate::Error;
use crate::calibrated::Calibrated;
use crate::growth::Growth;
use crate::keys::Keys;
use crate::queues::Queues;
use crate::recovery::Recovery;
use crate::report::Report;
use std::fmt::Write;

const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 76rem; margin: 2rem auto; \
padding: 0 1.5rem; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.25rem; margin-top: 2.8rem; border-bottom: 1px solid #ccc; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px; width: 100%; }
th, td { text-align: left; padding: .28rem .6rem; border-bottom: 1px solid #e4e4e4; vertical-align: top; }
th { background: #f4f4f4; } td.n { font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.best td { font-weight: 600; } .broken { color: #b00020; font-weight: 600; } .quiet { color: #666; }
svg { max-width: 100%; height: auto; } .wide { overflow-x: auto; } pre { font-size: 12px; overflow-x: auto; background: #f7f7f7; padding: 1rem; }
nav a { margin-right: 1rem; } code { background: #f4f4f4; padding: 0 .2rem; }
@media (max-width: 60rem) { .wide table, .wide svg { min-width: 46rem; } h1 { font-size: 1.4rem; } }
@media print { h2 { break-before: page; } }
";

/// What has to be known before anything is compared, whoever wins.
const UNFAIR: [&str; 8] = [
    "Every service is on one machine with its clients: no network is between them, which favours whoever makes many \
     round trips. All share the same processors, so a server that needs less of them leaves more to the clients.",
    "Wayside keeps locks in memory alone, as Redis here and PostgreSQL's advisory locks do. etcd and ZooKeeper write \
     every grant to a disk and wait for it; their variants in memory show what is left without that, and are not what \
     anybody runs.",
    "One member each (RedLock: as it says). etcd and ZooKeeper are made for three or five, which survive the loss of some; \
     alone they answer faster and survive nothing.",
    "Wayside at the hook runs on veth, within the sender's own system call: no card and no other process is waited for. \
     No peer can be there. Its userspace switch is a process of its own on loopback, as the peers are.",
    "Redis, etcd and ZooKeeper have no shared locks by these ways: reads exclude each other there. Where reads are many \
     and locks few, that costs them concurrency which Wayside and PostgreSQL have.",
    "Wayside's release is sent and not waited for, ZooKeeper's is made in the background by its library; the others' \
     are waited for.",
    "Redis and RedLock do not queue: who finds a lock held sleeps for 1 to 3 ms, which is the least of what libraries \
     do. That saves the server from work, and is unfair to who waits.",
    "Only Wayside's and etcd's grants have a token that rises; it is checked. Redis and RedLock have none: what a client \
     that was paused still writes cannot be told from the next holder's.",
];

/// What a page is made of.
#[derive(Debug, Default)]
pub struct Records {
    /// Of lock services beside each other.
    pub contests: Vec<Contest>,
    reports: Vec<Report>,
    recoveries: Vec<Recovery>,
    keys: Vec<Keys>,
    calibrated: Vec<Calibrated>,
    growths: Vec<Growth>,
    queues: Vec<Queues>,
}

impl Records {
    /// One more, of whatever kind it is.
    ///
    /// # Errors
    /// If it is none, or of another version of this program.
    pub fn add(&mut self, text: &str) -> Result<(), Error> {
        if let Ok(contest) = Contest::from_json(text) {
            self.contests.push(contest);
        } else if let Ok(recovery) = Recovery::from_json(text) {
            self.recoveries.push(recovery);
        } else if let Ok(keys) = Keys::from_json(text) {
            self.keys.push(keys);
        } else if let Ok(calibrated) = Calibrated::from_json(text) {
            self.calibrated.push(calibrated);
        } else if let Ok(growth) = Growth::from_json(text) {
            self.growths.push(growth);
        } else if let Ok(queues) = Queues::from_json(text) {
            self.queues.push(queues);
        } else {
            self.reports.push(Report::from_json(text)?);
        }
        Ok(())
    }
}

impl From<Contest> for Records {
    fn from(contest: Contest) -> Records {
        Records { contests: vec![contest], ..Records::default() }
    }
}

/// A page of these records.
#[must_use]
pub fn page(records: &Records) -> String {
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Wayside: figures</title>\n<style>\n{STYLE}</style>\
         </head>\n<body>\n<h1>Wayside: figures</h1>\n"
    );
    records.contests.iter().enumerate().for_each(|(index, contest)| contest.write(&mut html, index));
    for calibrated in &records.calibrated {
        section(&mut html, "The papers' headlines", &calibrated.to_html());
    }
    for report in &records.reports {
        section(&mut html, "Against a bare echo", &format!("<pre>{}</pre>\n", escaped(&report.to_string())));
    }
    for keys in &records.keys {
        let text = format!("<pre>{}</pre>\n{}\n", escaped(&keys.to_string()), wide(&keys.timelines_as_svg()));
        section(&mut html, "Keys beside etcd and ZooKeeper", &text);
    }
    for growth in &records.growths {
        let text = format!("<pre>{}</pre>\n{}\n", escaped(&growth.to_string()), wide(&growth.to_svg()));
        section(&mut html, "Cost as work grows", &text);
    }
    for recovery in &records.recoveries {
        let drawings = wide(&recovery.timelines_as_svg()) + &wide(&recovery.growth_as_svg());
        let text = format!("<pre>{}</pre>\n{drawings}\n", escaped(&recovery.to_string()));
        section(&mut html, "How long locks are away when a switch or a node dies", &text);
    }
    for queues in &records.queues {
        let text = format!("<pre>{}</pre>\n{}\n", escaped(&queues.to_string()), wide(&queues.as_svg()));
        section(&mut html, "What the switch's memory, priorities and budgets do", &text);
    }
    html + "</body></html>\n"
}

fn section(html: &mut String, title: &str, body: &str) {
    // Nothing can fail that is written to a string.
    let _ = writeln!(html, "<h2>{}</h2>\n{body}", escaped(title));
}

/// On a narrow screen a table or a drawing is moved, and the page is not.
pub(crate) fn wide(html: &str) -> String {
    format!("<div class=\"wide\">\n{html}</div>\n")
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Contest {
    fn write(&self, html: &mut String, record: usize) {
        let command = escaped(&self.machine.command);
        let _ = writeln!(
            html,
            "<p>The same lock requests to every service, in turns; each run is checked for locks that two clients held at \
             once. Medians of the rounds, and in brackets the least and the most.</p>\n<p class=\"quiet\">{}; by \
             <code>{command}</code>.</p>",
            escaped(&self.circumstances())
        );
        let broken: Vec<String> = self.broken().collect();
        let checked: u64 = self.runs.iter().map(|run| run.grants).sum();
        if broken.is_empty() {
            let counted = self.runs.iter().any(|run| run.missing_money.is_some());
            let money = if counted { ", and the accounts had the same money after each run as before" } else { "" };
            let _ = writeln!(html, "<p>No run failed, and of {checked} grants none overlapped another{money}.</p>");
        }
        broken.iter().for_each(|why| {
            let _ = writeln!(html, "<p class=\"broken\">{}</p>", escaped(why));
        });
        let links = self.played.iter().enumerate();
        let links =
            links.map(|(index, played)| format!("<a href=\"#w{record}-{index}\">{}</a>", escaped(&played.title())));
        let _ = writeln!(html, "<nav>{}</nav>", links.collect::<Vec<_>>().join("\n"));
        let list = |items: &mut dyn Iterator<Item = String>| {
            let items: String = items.map(|item| format!("<li>{}</li>\n", escaped(&item))).collect();
            format!("<ul>\n{items}</ul>\n")
        };
        section(html, "What is unfair", &list(&mut UNFAIR.iter().map(|&item| item.to_owned())));
        if !self.notes.is_empty() {
            html.push_str(&list(&mut self.notes.iter().cloned()));
        }
        section(html, "The services", &wide(&self.services_as_html()));
        for (index, played) in self.played.iter().enumerate() {
            let _ = writeln!(html, "<h2 id=\"w{record}-{index}\">{}</h2>", escaped(&played.title()));
            let _ = writeln!(html, "<p>{}.</p>", escaped(&played.conditions()));
            let drawings = [Some(self.throughput(index)), Some(self.distribution(index)), self.timeline(index)];
            html.push_str(&wide(&self.table_as_html(index)));
            drawings.iter().flatten().for_each(|drawing| html.push_str(&wide(drawing)));
        }
    }

    fn services_as_html(&self) -> String {
        let heads =
            ["service", "version", "client", "endpoint", "cores", "members", "durable", "batching", "modes, waiting"];
        let cells = |one| self.of_service(one).map(|cell| format!("<td>{}</td>", escaped(&cell))).concat();
        let rows = self.services.iter().map(|one| format!("<tr>{}</tr>\n", cells(one)));
        let heads = heads.map(|head| format!("<th>{head}</th>")).concat();
        format!("<table><tr>{heads}</tr>\n{}</table>\n", rows.collect::<String>())
    }

    fn table_as_html(&self, played: usize) -> String {
        let heads = self.heads(played);
        let mut text = String::from("<table><tr><th>service</th>");
        heads.iter().for_each(|head| text += &format!("<th>{}</th>", escaped(head)));
        text += "</tr>\n";
        for service in &self.services {
            text += &format!("<tr><td>{}</td>", escaped(&service.name));
            match self.cells(played, &service.name) {
                Some(cells) => cells.iter().for_each(|cell| text += &format!("<td class=\"n\">{}</td>", escaped(cell))),
                None => text += &format!("<td class=\"broken\" colspan=\"{}\">failed</td>", heads.len()),
            }
            text += "</tr>\n";
        }
        text + "</table>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;
    use super::*;

    #[test]
    fn a_page_needs_nothing_else_and_what_is_in_it_is_escaped() {
        let mut contest = record(&[("redis", &[100.0, 200.0]), ("etcd", &[9_000.0])]);
        contest.runs[2].failed = Some("<gone>".into());
        let html = page(&contest.into());
        assert!(html.contains("a &lt;client&gt;") && html.contains("&lt;gone&gt;") && !html.contains("<gone>"));
        for outside in ["<script", "<link", "src=", "@import", "url("] {
            assert!(!html.contains(outside), "{outside}");
        }
        let (opened, closed) = (html.matches("<svg").count(), html.matches("</svg>").count());
        assert_eq!((opened, closed), (2, 2));
        assert_eq!(html.matches("<tr>").count(), html.matches("</tr>").count());
    }
}
