//! The report: one HTML page with everything in it, from records that were kept.

use super::record::Contest;
use super::table::UNDER;
use crate::Error;
use crate::calibrated::Calibrated;
use crate::growth::Growth;
use crate::keys::Keys;
use crate::knobs::Machine;
use crate::queues::Queues;
use crate::recovery::Recovery;
use crate::report::Report;
use std::fmt::Write;

const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 76rem; margin: 2rem auto; \
padding: 0 1.5rem; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.35rem; margin-top: 2.8rem; border-bottom: 1px solid #ccc; }
h3 { font-size: 1.1rem; margin-top: 2.2rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px; width: 100%; }
th, td { text-align: left; padding: .28rem .6rem; border-bottom: 1px solid #e4e4e4; vertical-align: top; }
th { background: #f4f4f4; } td.u { color: #666; font-size: 11px; } td.n { font-variant-numeric: tabular-nums; }
tr.best td { font-weight: 600; } .broken { color: #b00020; font-weight: 600; } .quiet { color: #666; }
svg { max-width: 100%; height: auto; } .wide { overflow-x: auto; }
pre { font-size: 12px; overflow-x: auto; background: #f7f7f7; padding: 1rem; }
nav a { margin-right: 1rem; } code { background: #f4f4f4; padding: 0 .2rem; }
@media (max-width: 60rem) { .wide table, .wide svg { min-width: 46rem; } h1 { font-size: 1.4rem; } }
@media print { h2, h3 { break-before: page; } }
";

/// What has to be known before anything is compared, whoever wins: a word for each, by which the documentation is
/// checked to say the same, and a sentence.
const UNFAIR: [(&str, &str); 16] = [
    (
        "round trips",
        "Every service is on one machine with its clients: no network is between them, which favours whoever makes many \
         round trips. All share the same processors, so a server that needs less of them leaves more to the clients.",
    ),
    (
        "fsync",
        "Wayside keeps locks in memory alone, as Redis here and PostgreSQL's advisory locks do. etcd and ZooKeeper write \
         every grant to a disk and wait for it (fsync); their variants in memory show what is left without that, and \
         are not what anybody runs.",
    ),
    (
        "one member",
        "All have one member each (RedLock: as it says). etcd and ZooKeeper are made for three or five, which survive \
         the loss of some; alone they answer faster and survive nothing.",
    ),
    (
        "veth",
        "Wayside at the hook runs on veth, within the sender's own system call: no card and no other process is waited \
         for. No peer can be there. Its userspace switch is a process of its own on loopback, as the peers are.",
    ),
    (
        "authentication",
        "Wayside's switches run with authentication off, so that no packet is signed, as no other service here encrypts \
         or signs anything (PostgreSQL trusts whoever connects). The product's default is on: wayside-hook-signed is \
         how it is had, with a tag checked on every packet, both ways.",
    ),
    (
        "no shared locks",
        "Redis, etcd and ZooKeeper have no shared locks by these ways: reads exclude each other there. Where reads are \
         many and locks few, that costs them concurrency which Wayside and PostgreSQL have.",
    ),
    (
        "not waited for",
        "Wayside's release is sent and not waited for, ZooKeeper's is made in the background by its library; the \
         others' are waited for.",
    ),
    (
        "1 to 3 ms",
        "Redis and RedLock do not queue: who finds a lock held sleeps for 1 to 3 ms, which is the least of what \
         libraries do. That saves the server from work, and is unfair to who waits.",
    ),
    (
        "token",
        "Wayside's and etcd's grants have a token that rises (of v3lock the revision of its answer); it is checked. \
         Redis, RedLock and PostgreSQL have none, and ZooKeeper's is not looked at: without one, what a client that was \
         paused still writes cannot be told from the next holder's.",
    ),
    (
        "a process for each client",
        "PostgreSQL has a connection and a process for each client, since its locks are a connection's. Nobody who has \
         160 clients would have it so: a pool would be faster, and could not hold locks across its transactions.",
    ),
    (
        "4 s",
        "wayside-userspace-queues and wayside-hook-queues have 4 s of learning before a run counts, so that their plan \
         knows what is asked for; the others have a fifth of the run.",
    ),
    (
        "4 %",
        "Servers stay up while others are measured. A Wayside switch with two million slots looks through them all the \
         time, which takes about 4 % of a processor each; the others take next to nothing. All are slowed by that, and \
         what is behind a Wayside switch's figure is not paid by it alone.",
    ),
    (
        "think time",
        "A think time below a millisecond is waited for by a task that lets others go on again and again: the processor \
         is busy meanwhile, so that CPU times of such runs say nothing, and whoever needs more of it is slowed more.",
    ),
    (
        "single locks",
        "A workload of single locks holds each for no time at all, so two clients of one node, who share a thread, are \
         never seen at once there: only tokens, and the two nodes, tell whether a service let both in. Transactions hold \
         their first locks while they wait for the next: there all clients are seen.",
    ),
    (
        "slots",
        "A Wayside switch has two million slots here, which are buckets of locks. Of a workload with more locks several \
         share one, and with it the node that keeps their queue: that is slower than as many slots as locks would be.",
    ),
    (
        "two threads",
        "Clients are tasks of two threads, for every service alike (of wayside-...-threads they are threads): one that \
         waits for a processor is no fault of the service.",
    ),
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

impl Records {
    /// Every run beside lock services, for other programs; None: there is no such record.
    #[must_use]
    pub fn runs_to_csv(&self) -> Option<String> {
        under_one_head(self.contests.iter().map(Contest::to_csv))
    }

    /// Every figure of the papers' headlines, likewise.
    #[must_use]
    pub fn papers_to_csv(&self) -> Option<String> {
        under_one_head(self.calibrated.iter().map(Calibrated::to_csv))
    }
}

/// Tables with the same head as one.
fn under_one_head(mut tables: impl Iterator<Item = String>) -> Option<String> {
    let mut all = tables.next()?;
    tables.for_each(|table| all += table.split_once('\n').map_or("", |(_, lines)| lines));
    Some(all)
}

/// A part of the page: what it is called, where a link leads, what is in it.
struct Section {
    title: String,
    id: String,
    body: String,
}

impl Records {
    fn sections(&self) -> Vec<Section> {
        let mut sections = Vec::new();
        let mut add = |title: &str, record: &str, body: String| {
            let id = format!("s{}", sections.len());
            let machine = Machine::of_record(record).map_or_else(String::new, |machine| {
                let (machine, command) = (escaped(&machine.to_string()), escaped(&machine.command));
                format!("<p class=\"quiet\">{machine}; by <code>{command}</code>.</p>\n")
            });
            sections.push(Section { title: title.into(), id, body: machine + &body });
        };
        for (index, contest) in self.contests.iter().enumerate() {
            let mut body = String::new();
            contest.write(&mut body, index);
            body += &raw(EVERY_RUN, &contest.to_csv());
            // It says itself what it was measured under.
            add(SERVICES, "", body);
        }
        for calibrated in &self.calibrated {
            let body = calibrated.to_html() + &raw(EVERY_FIGURE, &calibrated.to_csv());
            add(HEADLINES, &calibrated.to_json(), body);
        }
        for report in &self.reports {
            add("Against a bare echo", &report.to_json(), shown(report));
        }
        for keys in &self.keys {
            let body = shown(keys) + &wide(&keys.timelines_as_svg());
            add("Keys beside etcd and ZooKeeper", &keys.to_json(), body);
        }
        for growth in &self.growths {
            add("Cost as work grows", &growth.to_json(), shown(growth) + &wide(&growth.to_svg()));
        }
        for recovery in &self.recoveries {
            let drawings = wide(&recovery.timelines_as_svg()) + &wide(&recovery.growth_as_svg());
            let title = "How long locks are away when a switch or a node dies";
            add(title, &recovery.to_json(), shown(recovery) + &drawings);
        }
        for queues in &self.queues {
            let title = "What the switch's memory, priorities and budgets do";
            add(title, &queues.to_json(), shown(queues) + &wide(&queues.as_svg()));
        }
        sections
    }
}

const SERVICES: &str = "Beside what people use today";
const HEADLINES: &str = "Beside what the papers report";

const EVERY_RUN: &str = "Raw data: every run";
const EVERY_FIGURE: &str = "Raw data: every figure";

/// What all the rest of a section is made of, for whoever opens it.
fn raw(title: &str, csv: &str) -> String {
    format!("<details>\n<summary>{title}</summary>\n<pre>\n{}</pre>\n</details>\n", escaped(csv))
}

/// As on a terminal.
fn shown(record: &impl std::fmt::Display) -> String {
    format!("<pre>{}</pre>\n", escaped(&record.to_string()))
}

/// A page of these records.
#[must_use]
pub fn page(records: &Records) -> String {
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Wayside: figures</title>\n<style>\n{STYLE}</style>\
         </head>\n<body>\n<h1>Wayside: figures</h1>\n"
    );
    let sections = records.sections();
    let link = |section: &Section| format!("<a href=\"#{}\">{}</a>", section.id, escaped(&section.title));
    let _ = writeln!(html, "<nav>{}</nav>", sections.iter().map(link).collect::<Vec<_>>().join("\n"));
    for Section { title, id, body } in &sections {
        // Nothing can fail that is written to a string.
        let _ = writeln!(html, "<h2 id=\"{id}\">{}</h2>\n{body}", escaped(title));
    }
    html + "</body></html>\n"
}

/// On a narrow screen a table or a drawing is moved, and the page is not.
pub(crate) fn wide(html: &str) -> String {
    format!("<div class=\"wide\">\n{html}</div>\n")
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A median, and in brackets the least and the most: a line ends before the bracket or not at all, so that a table of
/// many columns is no wider than a page.
pub(crate) fn figures(text: &str) -> String {
    escaped(text).replace(' ', "&nbsp;").replace("&nbsp;(", " (")
}

/// A part of a section, and what its head has besides.
fn part(html: &mut String, attributes: &str, title: &str, body: &str) {
    let _ = writeln!(html, "<h3{attributes}>{}</h3>\n{body}", escaped(title));
}

fn list<'s>(items: impl Iterator<Item = &'s str>) -> String {
    let items: String = items.map(|item| format!("<li>{}</li>\n", escaped(item))).collect();
    format!("<ul>\n{items}</ul>\n")
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
        self.heat_maps().iter().for_each(|map| html.push_str(&wide(map)));
        part(html, "", "What is unfair", &list(UNFAIR.iter().map(|(_, sentence)| *sentence)));
        if !self.notes.is_empty() {
            html.push_str(&list(self.notes.iter().map(String::as_str)));
        }
        part(html, "", "The services", &wide(&self.services_as_html()));
        for (index, played) in self.played.iter().enumerate() {
            let conditions = format!("<p>{}.</p>\n", escaped(&played.conditions()));
            let id = format!(" id=\"w{record}-{index}\"");
            part(html, &id, &played.title(), &(conditions + &wide(&self.table_as_html(index))));
            let throughput = Some(self.throughput(index));
            let drawings = [throughput, self.grants(index), self.transactions(index), self.timeline(index)];
            drawings.iter().flatten().for_each(|drawing| html.push_str(&wide(drawing)));
        }
    }

    fn services_as_html(&self) -> String {
        let heads = [
            "service",
            "version",
            "client",
            "endpoint",
            "cores",
            "members",
            "durable",
            "batching",
            "modes, waiting",
            "settings",
        ];
        let cells = |one| self.of_service(one).map(|cell| format!("<td>{}</td>", escaped(&cell))).concat();
        let rows = self.services.iter().map(|one| format!("<tr>{}</tr>\n", cells(one)));
        let heads = heads.map(|head| format!("<th>{head}</th>")).concat();
        format!("<table><tr>{heads}</tr>\n{}</table>\n", rows.collect::<String>())
    }

    fn table_as_html(&self, played: usize) -> String {
        let heads = self.heads(played);
        let mut text = String::from("<table><tr><th>service</th>");
        UNDER.iter().chain(&heads).for_each(|head| text += &format!("<th>{}</th>", escaped(head)));
        text += "</tr>\n";
        for service in &self.services {
            text += &format!("<tr><td>{}</td>", escaped(&service.name));
            self.under(service).iter().for_each(|cell| text += &format!("<td class=\"u\">{}</td>", escaped(cell)));
            match self.cells(played, &service.name) {
                Some(cells) => cells.iter().for_each(|cell| text += &format!("<td class=\"n\">{}</td>", figures(cell))),
                None => {
                    let why = self.no_cells(played, &service.name);
                    text += &format!("<td class=\"broken\" colspan=\"{}\">{why}</td>", heads.len());
                }
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
    use serde_json::json;

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
        assert_eq!((opened, closed), (3, 3), "throughput, grants and transactions");
        assert_eq!(html.matches("<tr>").count(), html.matches("</tr>").count());
    }

    /// In every row, since nobody looks back for it.
    #[test]
    fn every_row_says_by_what_it_was_reached_with_what_together_and_what_it_keeps() {
        let contest = record(&[("redis", &[100.0, 200.0]), ("etcd", &[9_000.0])]);
        let cores = contest.machine.cores;
        let html = page(&contest.into());
        for service in ["redis", "etcd"] {
            let row = format!(
                "<tr><td>{service}</td><td class=\"u\">TCP</td><td class=\"u\">{cores} shared</td><td class=\"u\">none</td>\
                 <td class=\"u\">none</td><td class=\"n\">"
            );
            assert!(html.contains(&row), "{row}\n{html}");
        }
    }

    #[test]
    fn a_page_of_several_workloads_has_heat_maps_and_links_to_its_sections() {
        let mut contest = record(&[("redis", &[100.0])]);
        contest.played.push(contest.played[0].clone());
        let machine = contest.machine.to_string();
        let mut records = Records::from(contest);
        let calibrated = json!({
            "machine": records.contests[0].machine, "requests": [1, 0], "seeds": 1, "seconds": 1.0, "constants": [],
            "rows": [],
        });
        records.add(&calibrated.to_string()).unwrap();
        let html = page(&records);
        assert_eq!(html.matches("the darker, the nearer to the best").count(), 2);
        for (id, title) in [("s0", SERVICES), ("s1", HEADLINES)] {
            assert!(html.contains(&format!("<a href=\"#{id}\">{title}</a>")), "{html}");
            assert!(html.contains(&format!("<h2 id=\"{id}\">{title}</h2>")), "{html}");
        }
        let section = html.split("<h2 id=\"s1\">").nth(1).unwrap();
        assert!(section.contains(&escaped(&machine)), "of every kind the machine is shown: {section}");
    }

    /// Whoever has the page alone has every run, and what each service was started with.
    #[test]
    fn a_page_has_its_raw_data_and_its_inputs() {
        let contest = record(&[("redis", &[100.0, 200.0]), ("etcd", &[9_000.0])]);
        let csv = contest.to_csv();
        let figure =
            |name: &str| json!({ "name": name, "paper": 2.0, "ours": [3.0], "unit": "x", "short": [], "varied": [] });
        let figures = [figure("<a>"), figure("b")];
        let calibrated = json!({
            "machine": contest.machine, "requests": [1, 0], "seeds": 1, "seconds": 1.0, "constants": [],
            "rows": [{ "id": "N1", "what": "", "how": "simulated", "why": "", "figures": figures }],
        });
        let mut records = Records::from(contest);
        assert!(records.papers_to_csv().is_none());
        for _ in 0..2 {
            records.add(&calibrated.to_string()).unwrap();
        }
        let html = page(&records);
        let (services, papers) = html.split_once("<h2 id=\"s1\">").unwrap();
        assert!(services.contains(EVERY_RUN) && papers.contains(EVERY_FIGURE), "{html}");
        assert_eq!((csv.lines().count(), html.matches("<details>").count()), (4, 3));
        for line in csv.lines() {
            assert!(services.contains(&format!("\n{}\n", escaped(line))), "{line}\n{html}");
        }
        let of_papers = records.papers_to_csv().unwrap();
        assert_eq!(of_papers.lines().count(), 1 + 2 * 2, "one head: {of_papers}");
        for line in of_papers.lines() {
            assert!(papers.contains(&format!("\n{}\n", escaped(line))), "{line}\n{html}");
        }
        assert_eq!(services.matches("<td>--port &lt;1&gt; --save &quot;&quot;</td>").count(), 2, "{html}");
    }

    #[test]
    fn figures_are_broken_before_their_bracket_alone() {
        assert_eq!(figures("99 k (82 k to 107 k)"), "99&nbsp;k (82&nbsp;k&nbsp;to&nbsp;107&nbsp;k)");
        assert!(STYLE.contains("td.n {") && !STYLE.contains("nowrap"));
    }

    /// Whoever reads the documentation, and whoever reads a page alone.
    #[test]
    fn what_is_unfair_is_said_in_the_documentation_as_on_the_page() {
        let docs = include_str!("../../../../docs/figures.md");
        let unfair = docs.split("\n## ").find(|part| part.starts_with("What is unfair")).unwrap();
        let unfair = unfair.split_whitespace().collect::<Vec<_>>().join(" ");
        for (word, sentence) in UNFAIR {
            assert!(sentence.contains(word), "{word}: {sentence}");
            assert!(unfair.contains(word), "{word}: not in docs/figures.md");
        }
    }
}
