//! A record as people read it: a table for each workload, on a terminal and in the documentation.

use super::peers::About;
use super::record::{Contest, Played, Run};
use crate::Error;
use crate::figures::put_between;
use crate::recovery::summary::{Spread, short, thousands};
use crate::workloads::named;
use std::fmt;

/// What is looked at of a run, with its head.
type Look = (&'static str, fn(&Run) -> Option<f64>);

pub(super) const COLUMNS: [Look; 6] = [
    ("locks/s", Run::grants_a_second),
    ("grant p50, us", |run| run.grant_us(0.5)),
    ("grant p99, us", |run| run.grant_us(0.99)),
    ("transaction p50, us", |run| run.transaction_us(0.5)),
    ("transactions/s", Run::transactions_a_second),
    ("CPU us/lock", Run::cpu_us),
];

impl Played {
    /// Its name, and how it was run.
    pub(super) fn title(&self) -> String {
        let order = match self.abort_ms {
            Some(ms) => format!(", aborted after {ms} ms"),
            None => String::new(),
        };
        let think = match self.think_us {
            0 => String::new(),
            us => format!(", {us} us of think time"),
        };
        format!("{}, {} clients{think}{order}", self.workload, self.clients)
    }

    /// What it is, and how this differs from the paper: in the catalogue's words, where it still has it, since those of
    /// a record may have been mended. A name's trace stays what it is.
    pub(super) fn conditions(&self) -> String {
        let about = named(&self.workload).map_or(self.about.as_str(), |named| named.about);
        let order = if self.is_sorted { "locks in order" } else { "locks in the program's order" };
        let execution = match self.execution_us {
            0 => String::new(),
            us => format!(", {us} us of work under them"),
        };
        let locks = thousands(self.locks);
        let data = self.data.as_ref().map_or_else(String::new, |data| format!("; {data}, counted after each run"));
        format!("{about}: {locks} locks{data}; {order}{execution}; clients in the paper: {}", self.clients_of_paper)
    }
}

impl Contest {
    /// What stands in the place of cells where no run counts.
    pub(super) fn no_cells(&self, played: usize, service: &str) -> &'static str {
        let mut runs = self.runs_of(played, service).peekable();
        let are_too_slow = runs.peek().is_some() && runs.all(Run::is_too_slow);
        if are_too_slow { "nothing granted before the time-out" } else { "failed" }
    }
}

/// Heads of what stands in every row beside its figures, since no figure means anything without it.
pub(super) const UNDER: [&str; 4] = ["endpoint", "cores", "batching", "durable"];

/// What a service's words begin with: the gist of them, as they are written.
fn gist(words: &str) -> &str {
    words.split([',', ';', ':']).next().unwrap_or_default()
}

impl Contest {
    /// A service's cells in [`UNDER`]; the whole of it is in the table of services.
    pub(super) fn under(&self, service: &About) -> [String; 4] {
        let [endpoint, batching, durability] =
            [&service.endpoint, &service.batching, &service.durability].map(|words| gist(words).to_owned());
        [endpoint, format!("{} shared", self.machine.cores), batching, durability]
    }

    /// Threads of a service's servers, at most; what is not known is not shown.
    fn threads(&self, service: &str) -> String {
        let of = self.runs.iter().filter(|run| run.service == service);
        let most = of.filter_map(|run| run.server_threads).max();
        most.map_or_else(String::new, |threads| format!("; {threads} server threads"))
    }

    /// A service's cells in [`COLUMNS`], and what was aborted; None: it has no run that counts.
    pub(super) fn cells(&self, played: usize, service: &str) -> Option<Vec<String>> {
        if !self.runs_of(played, service).any(Run::counts) {
            return None;
        }
        // A short run may have grants, and no transaction that ended.
        let none = || String::from("none");
        let mut cells = Vec::new();
        for (_, look) in COLUMNS {
            cells.push(self.spread(played, service, look).map_or_else(none, figure));
        }
        if self.played[played].abort_ms.is_some() {
            let aborted = self.spread(played, service, |run| run.aborted().map(|part| 100.0 * part));
            cells.push(aborted.map_or_else(none, |aborted| format!("{aborted} %")));
        }
        Some(cells)
    }

    /// Heads of the cells.
    pub(super) fn heads(&self, played: usize) -> Vec<&'static str> {
        let aborted = self.played[played].abort_ms.map(|_| "aborted");
        COLUMNS.iter().map(|(head, _)| *head).chain(aborted).collect()
    }

    fn table(&self, played: usize) -> String {
        let heads = self.heads(played);
        let mut text = format!("| {} | {} | {} |\n", self.played[played].title(), UNDER.join(" | "), heads.join(" | "));
        text += &format!("|{}\n", " --- |".repeat(1 + UNDER.len() + heads.len()));
        for service in &self.services {
            let (name, under) = (&service.name, self.under(service).join(" | "));
            match self.cells(played, name) {
                Some(cells) => text += &format!("| {name} | {under} | {} |\n", cells.join(" | ")),
                None => {
                    let why = self.no_cells(played, name);
                    text += &format!("| {name} | {under} | {why} |{}\n", " |".repeat(heads.len() - 1));
                }
            }
        }
        text + "\n"
    }

    fn services_table(&self) -> String {
        let mut text = String::from(
            "| service | version | client | endpoint | cores | members | durable | batching | modes and waiting \
             | settings |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        );
        for one in &self.services {
            text += &format!("| {} |\n", self.of_service(one).join(" | "));
        }
        text + "\n"
    }

    /// What a reader has to know of a service.
    pub(super) fn of_service(&self, one: &About) -> [String; 10] {
        let cores = format!("{}, shared with clients and all others{}", self.machine.cores, self.threads(&one.name));
        let words = [&one.name, &one.version, &one.client, &one.endpoint, &cores].map(String::clone);
        let [name, version, client, endpoint, cores] = words;
        let words = [&one.durability, &one.batching, &one.modes, &one.settings].map(String::clone);
        let [durability, batching, modes, settings] = words;
        [name, version, client, endpoint, cores, one.members.to_string(), durability, batching, modes, settings]
    }

    /// Under what it was measured, in a sentence.
    pub(super) fn circumstances(&self) -> String {
        let machine = &self.machine;
        format!(
            "{}, {} cores that clients and servers share, nothing bound to a core; Linux {}{}; commit {}, {}; load {} \
             before and {} after; {} rounds, {:.0} s in all; seed {}, {} nodes with a thread each",
            machine.processor,
            machine.cores,
            machine.kernel,
            machine.besides(),
            machine.commit,
            machine.date,
            machine.load_before,
            self.load_after,
            self.rounds,
            self.seconds,
            self.seed,
            self.nodes,
        )
    }
}

/// Median, and least to most; thousands from ten of them on.
fn figure(spread: Spread) -> String {
    let one = |value: f64| if value >= 10_000.0 { format!("{:.0} k", value / 1e3) } else { short(value) };
    if spread.least == spread.most {
        return one(spread.median);
    }
    format!("{} ({} to {})", one(spread.median), one(spread.least), one(spread.most))
}

/// The page with the figures of `contest`, which is kept as `record`, in the place of those before.
///
/// # Errors
/// If it has no place for them.
pub fn put_contest(page: &str, contest: &Contest, record: &str) -> Result<String, Error> {
    let mut text = format!(
        "`{}`: {}. Medians, and in brackets the least and the most of the rounds. Every run: [{record}](../{record}).\n\n",
        contest.machine.command,
        contest.circumstances(),
    );
    text += &contest.services_table();
    for (index, played) in contest.played.iter().enumerate() {
        text += &format!("{}.\n\n{}", played.conditions(), contest.table(index));
    }
    contest.notes.iter().for_each(|note| text += &format!("* {note}\n"));
    contest.broken().for_each(|why| text += &format!("* BROKEN: {why}.\n"));
    put_between(page, &text)
}

impl fmt::Display for Contest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}.", self.circumstances())?;
        for service in &self.services {
            let [endpoint, _, batching, durability] = self.under(service);
            let threads = self.threads(&service.name);
            writeln!(f, "  {}: {endpoint}; batching: {batching}; durable: {durability}{threads}", service.name)?;
        }
        writeln!(f, "Median (least to most) of the rounds.\n")?;
        for (index, played) in self.played.iter().enumerate() {
            writeln!(f, "{}\n  {}", played.title(), played.conditions())?;
            let heads = self.heads(index);
            let name = self.services.iter().map(|service| service.name.len()).max().unwrap_or(0);
            write!(f, "  {:<name$}", "")?;
            heads.iter().try_for_each(|head| write!(f, " {head:>23}"))?;
            writeln!(f)?;
            for service in &self.services {
                write!(f, "  {:<name$}", service.name)?;
                match self.cells(index, &service.name) {
                    Some(cells) => cells.iter().try_for_each(|cell| write!(f, " {cell:>23}"))?,
                    None => write!(f, " {}", self.no_cells(index, &service.name))?,
                }
                writeln!(f)?;
            }
            writeln!(f)?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "* {note}"))?;
        self.broken().try_for_each(|why| writeln!(f, "* BROKEN: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;

    #[test]
    fn a_table_has_a_line_for_each_service_and_says_what_failed() {
        let mut contest = record(&[("redis", &[100.0, 200.0, 110.0]), ("etcd", &[9_000.0])]);
        contest.runs[3].failed = Some("no answer".into());
        let page =
            format!("{}{}", "<!-- figures: written by `wayside-bench --figures` -->\n", "<!-- end of figures -->\n");
        let text = super::put_contest(&page, &contest, "bench/runs/one.json").unwrap();
        let under = format!("| TCP | {} shared | none | none |", contest.machine.cores);
        let figures = "9090 (5000 to 10 k) | 110 (100 to 200) | 164 (149 to 298) |";
        assert!(text.contains(&format!("| redis {under} {figures}")), "{text}");
        assert!(text.contains(&format!("| etcd {under} failed |")), "{text}");
        assert!(text.contains("BROKEN: tatp, etcd, round 1: no answer."), "{text}");
        // The whole of it is in the table of services, with what was counted.
        assert!(text.contains("shared with clients and all others; 7 server threads | 1 | none: all is in memory |"));
        // Too slow for the time-out is not broken.
        let mut slow = contest.clone();
        (slow.runs[3].failed, slow.runs[3].grants) = (None, 0);
        assert!(slow.to_string().contains("nothing granted before the time-out") && slow.broken().count() == 0);
        let columns: Vec<usize> =
            text.lines().filter(|line| line.starts_with("| redis |")).map(|line| line.matches(" |").count()).collect();
        assert_eq!(columns, [10, 12], "services, and figures with what was aborted");
        let shown = contest.to_string();
        assert!(shown.contains("tatp, 2 clients, aborted after 10 ms"));
        assert!(shown.contains("  redis: TCP; batching: none; durable: none; 7 server threads\n"), "{shown}");
    }

    #[test]
    fn what_a_workload_is_is_said_as_the_catalogue_has_it_now() {
        let mut contest = record(&[("redis", &[100.0])]);
        (contest.played[0].workload, contest.played[0].about) = ("tpcc-low".into(), "as in NetLock 6.3".into());
        assert!(contest.played[0].conditions().contains("no paper's"), "{}", contest.played[0].conditions());
        contest.played[0].workload = "one that is no more".into();
        assert!(contest.played[0].conditions().starts_with("as in NetLock 6.3: "));
    }
}
