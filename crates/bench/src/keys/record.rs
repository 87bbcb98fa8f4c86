//! What comes out: every run as it was, and under what; tables of it.

use super::KeysOptions;
use super::driver::{Does, Outcome, VALUE};
use super::failover::{Failover, Timeline};
use super::plot::groups;
use super::stores::About;
use crate::Error;
use crate::contest::{Better, Compared};
use crate::figures::put_between;
use crate::knobs::{self, Machine};
use crate::recovery::summary::Spread;
use crate::report::{Bar, Mode, Ratio, Row};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Everything that was measured, and under what.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Keys {
    pub(super) machine: Machine,
    /// As `/proc/loadavg` had it at the end.
    load_after: String,
    rounds: u32,
    /// Keys that were read and written.
    keys: usize,
    /// Bytes of each value.
    value_bytes: usize,
    measured_ms: u64,
    /// How long it all took.
    seconds: f64,
    pub(super) stores: Vec<About>,
    /// In the order in which they ran.
    pub(super) runs: Vec<Run>,
    /// At the hook, against echoes.
    #[serde(default)]
    pub(super) modes: Vec<Mode>,
    /// While a switch dies.
    pub(super) timelines: Vec<Timeline>,
    /// What failed besides runs.
    pub(super) failures: Vec<String>,
    /// What was left out, and why.
    pub(super) notes: Vec<String>,
}

/// One store's run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Run {
    store: String,
    does: Does,
    clients: usize,
    /// From 0.
    round: u32,
    /// As `/proc/loadavg` had it before.
    load: String,
    /// How long it was measured; 0: it failed.
    seconds: f64,
    /// Requests that were answered.
    answered: u64,
    /// From question to answer, microseconds: median, 99th and 99.9th percentile.
    median_us: f64,
    p99_us: f64,
    p999_us: f64,
    /// Of the clients' process, in seconds of a processor.
    client_cpu_s: f64,
    /// Of the servers'.
    server_cpu_s: f64,
    /// Why there are no figures.
    failed: Option<String>,
}

impl Run {
    pub(super) fn of(
        store: &str,
        does: Does,
        clients: usize,
        round: u32,
        load: String,
        outcome: Result<Outcome, Error>,
    ) -> Run {
        let run = Run {
            store: store.into(),
            does,
            clients,
            round,
            load,
            seconds: 0.0,
            answered: 0,
            median_us: 0.0,
            p99_us: 0.0,
            p999_us: 0.0,
            client_cpu_s: 0.0,
            server_cpu_s: 0.0,
            failed: None,
        };
        let outcome = match outcome {
            Ok(outcome) if !outcome.took.is_empty() => outcome,
            Ok(_) => return Run { failed: Some("nothing was answered".into()), ..run },
            Err(why) => return Run { failed: Some(why), ..run },
        };
        let us = |quantile| (outcome.took.value_at_quantile(quantile) as f64 / 10.0).round() / 100.0;
        Run {
            seconds: outcome.times.measured.as_secs_f64(),
            answered: outcome.took.len(),
            median_us: us(0.5),
            p99_us: us(0.99),
            p999_us: us(0.999),
            client_cpu_s: outcome.times.client_cpu.as_secs_f64(),
            server_cpu_s: outcome.times.server_cpu.as_secs_f64(),
            ..run
        }
    }

    fn rate(&self) -> f64 {
        self.answered as f64 / self.seconds
    }
}

/// What is looked at, with its head.
type Look = (&'static str, fn(&Run) -> f64);

const OF_ONE: [Look; 3] = [
    ("median, us", |run| run.median_us),
    ("99th percentile, us", |run| run.p99_us),
    ("processor time of servers, us", |run| run.server_cpu_s * 1e6 / run.answered as f64),
];
const OF_MANY: [Look; 4] = [
    ("a second", Run::rate),
    ("median, us", |run| run.median_us),
    ("99th percentile, us", |run| run.p99_us),
    ("processor time of servers, us", |run| run.server_cpu_s * 1e6 / run.answered as f64),
];

/// Another store's run beside one of ours.
type Contrast = fn(&Run, &Run) -> f64;

/// The head of [`Keys::ratios`].
const COMPARED: &str = "\
| times | a read's median | a write's median | reads a second, the other way round | writes a second, likewise |
| --- | --- | --- | --- | --- |
";
/// What NetChain is published with: 170 and 2,350 us against 9.7, 0.15 M/s against 82 M/s.
const PAPER: &str = "| the paper: ZooKeeper / NetChain, three each | 17 | 240 | 500 | 500 |\n";

impl Keys {
    pub(super) fn new(machine: Machine, options: &KeysOptions) -> Keys {
        Keys {
            machine,
            load_after: String::new(),
            rounds: options.rounds,
            keys: options.keys,
            value_bytes: VALUE,
            measured_ms: options.measured.as_millis() as u64,
            seconds: 0.0,
            stores: Vec::new(),
            runs: Vec::new(),
            modes: Vec::new(),
            timelines: Vec::new(),
            failures: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn end(&mut self, took: Duration) {
        (self.load_after, self.seconds) = (knobs::load(), took.as_secs_f64());
    }

    /// What became of writes while a switch of all chains died: with few groups, and with many.
    pub(crate) fn failovers(&self) -> impl Iterator<Item = Failover> {
        self.timelines.iter().filter_map(Timeline::failover)
    }

    /// What was measured at the hook, against echoes.
    pub(crate) fn at_hook(&self) -> &[Mode] {
        &self.modes
    }

    /// What was measured.
    pub fn commit(&self) -> &str {
        &self.machine.commit
    }

    /// Runs that failed, and why.
    pub fn broken(&self) -> impl Iterator<Item = String> {
        let runs = self.runs.iter().filter_map(|run| {
            let why = run.failed.as_ref()?;
            Some(format!("{}, {:?} by {}, round {}: {why}", run.store, run.does, run.clients, run.round + 1))
        });
        runs.chain(self.failures.iter().cloned())
    }

    /// For people and programs.
    ///
    /// # Panics
    /// Never: it has numbers, words and lists.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers, words and lists")
    }

    /// A record that was kept.
    ///
    /// # Errors
    /// If it is none, or of another version of this program.
    pub fn from_json(text: &str) -> Result<Keys, Error> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// What another record may have, too.
    pub(crate) fn compared(&self) -> Vec<Compared> {
        let mut figures = Vec::new();
        for (does, clients) in self.kinds() {
            let looks: &[Look] = if clients == 1 { &OF_ONE } else { &OF_MANY };
            for About { name, .. } in &self.stores {
                for (head, look) in looks {
                    let values = self.good(name, does, clients).map(look).collect();
                    let better = if *head == OF_MANY[0].0 { Better::More } else { Better::Less };
                    figures.push(Compared {
                        name: format!("{does:?}, {clients} clients: {name}: {head}"),
                        values,
                        better,
                    });
                }
            }
        }
        for failover in self.failovers() {
            let Failover { away_ms, copying_away_ms, .. } = failover;
            for (what, ms) in [("chains go on", away_ms), ("another switch has copied", copying_away_ms)] {
                let name = format!("{}: no write until {what}, ms", groups(failover.groups));
                figures.push(Compared { name, values: vec![ms], better: Better::Less });
            }
        }
        figures
    }

    fn good<'k>(&'k self, store: &'k str, does: Does, clients: usize) -> impl Iterator<Item = &'k Run> {
        let is_it = move |run: &&Run| run.store == store && run.does == does && run.clients == clients;
        self.runs.iter().filter(is_it).filter(|run| run.failed.is_none())
    }

    fn spread(&self, store: &str, does: Does, clients: usize, look: Look) -> Option<Spread> {
        Spread::of(self.good(store, does, clients).map(look.1).collect())
    }

    /// What was done, in the order in which it was.
    fn kinds(&self) -> Vec<(Does, usize)> {
        let mut kinds: Vec<(Does, usize)> = Vec::new();
        for run in &self.runs {
            if !kinds.contains(&(run.does, run.clients)) {
                kinds.push((run.does, run.clients));
            }
        }
        kinds
    }

    fn table(&self, does: Does, clients: usize) -> String {
        let looks: &[Look] = if clients == 1 { &OF_ONE } else { &OF_MANY };
        let mut text = String::from("| store |");
        looks.iter().for_each(|(head, _)| text += &format!(" {head} |"));
        text += &format!("\n|{}\n", " --- |".repeat(looks.len() + 1));
        for About { name, .. } in &self.stores {
            text += &format!("| {name} |");
            for look in looks {
                let cell = self.spread(name, does, clients, *look).map_or_else(|| "failed".into(), figure);
                text += &format!(" {cell} |");
            }
            text += "\n";
        }
        text
    }

    /// Two stores' runs of the same round, so that whatever disturbed one disturbed the other.
    fn pairs(&self, theirs: &str, ours: &str, (does, clients): (Does, usize), look: Contrast) -> Option<Spread> {
        let pairs = self.good(theirs, does, clients).filter_map(|run| {
            let same = self.good(ours, does, clients).find(|own| own.round == run.round)?;
            Some(look(run, same))
        });
        Spread::of(pairs.collect())
    }

    /// What is compared: of one client a request's median, of many how many there are.
    fn contrasts(&self) -> [((Does, usize), Contrast); 4] {
        let many = self.kinds().iter().map(|kind| kind.1).max().unwrap_or(1);
        let slower: Contrast = |run, own| run.median_us / own.median_us;
        let fewer: Contrast = |run, own| own.rate() / run.rate();
        [
            ((Does::Read, 1), slower),
            ((Does::Write, 1), slower),
            ((Does::Read, many), fewer),
            ((Does::Write, many), fewer),
        ]
    }

    /// How many times as long, or as few, the others take as a chain of three.
    fn ratios(&self) -> String {
        let mut text = String::new();
        let names: Vec<&str> = self.stores.iter().map(|store| store.name.as_str()).collect();
        for ours in names.iter().filter(|name| name.starts_with("wayside") && name.ends_with("-3")) {
            for theirs in names.iter().filter(|name| !name.starts_with("wayside")) {
                text += &format!("| {theirs} / {ours} |");
                for (kind, look) in self.contrasts() {
                    let of = self.pairs(theirs, ours, kind, look);
                    text += &format!(" {} |", of.map_or_else(|| "?".into(), |spread| spread.to_string()));
                }
                text += "\n";
            }
        }
        if text.is_empty() { text } else { format!("{COMPARED}{text}{}", self.of_the_paper()) }
    }

    /// What the paper has of one of these lines; nothing where that was not measured.
    fn of_the_paper(&self) -> &'static str {
        let was_measured = |name: &str| self.stores.iter().any(|store| store.name == name);
        if was_measured("zookeeper-3") && was_measured("wayside-hook-3") { PAPER } else { "" }
    }

    fn circumstances(&self) -> String {
        let Machine { command, processor, cores, kernel, commit, date, load_before, .. } = &self.machine;
        format!(
            "`{command}`: {processor}, {cores} cores that clients and servers share, nothing bound to a core; Linux {kernel}; \
             commit {commit}, {date}; load {load_before} before and {} after; {} rounds of {} ms a run, {:.0} s in all; \
             {} keys, values of {} bytes",
            self.load_after, self.rounds, self.measured_ms, self.seconds, self.keys, self.value_bytes,
        )
    }

    /// Medians, and ratios with their bars.
    fn against_echoes(&self) -> String {
        let mut text = "At the hook, one client that spins, everything on one core in turns:\n\n".to_owned();
        text += "| of | operation | median, us | 99th percentile, us |\n| --- | --- | --- | --- |\n";
        for Mode { name, rows, .. } in &self.modes {
            for Row { operation, median_us, p99_us, .. } in rows {
                text += &format!("| {name} | {operation} | {median_us:.2} | {p99_us:.1} |\n");
            }
        }
        text +=
            "\n| of | ratio | of medians | of the rounds' medians, a tenth below to a tenth above | meant to be |\n";
        text += "| --- | --- | --- | --- | --- |\n";
        for Mode { name, ratios, .. } in &self.modes {
            for Ratio { what, of_medians, of_rounds, bar, .. } in ratios {
                let meant = match bar {
                    Some(bar @ Bar::AtMost(most)) => {
                        format!("at most {most}: {}", if bar.is_met_by(*of_medians) { "met" } else { "missed" })
                    }
                    _ => String::new(),
                };
                let (low, high) = (of_rounds.p10, of_rounds.p90);
                text += &format!("| {name} | {what} | {of_medians:.2} | {low:.2} to {high:.2} | {meant} |\n");
            }
        }
        let ratios = || self.modes.iter().flat_map(|mode| &mode.ratios);
        let met = ratios().filter(|ratio| ratio.bar.is_some_and(|bar| bar.is_met_by(ratio.of_medians))).count();
        let barred = ratios().filter(|ratio| ratio.bar.is_some()).count();
        text + &format!("\n{met} of {barred} ratios with a bar meet it.\n")
    }

    fn body(&self) -> String {
        let heads = "store | servers | by | cores | version | client | batching | what outlives crashes | reads";
        let mut text = format!("| {heads} |\n|{}\n", " --- |".repeat(9));
        for store in &self.stores {
            let cores = format!("{}, shared with clients and all others", self.machine.cores);
            // An old record does not say it.
            let batching = if store.batching.is_empty() { "?" } else { &store.batching };
            text += &format!(
                "| {} | {} | {} | {cores} | {} | {} | {batching} | {} | {} |\n",
                store.name, store.members, store.endpoint, store.version, store.client, store.durability, store.reads
            );
        }
        for (does, clients) in self.kinds() {
            let what = match does {
                Does::Read => "reads",
                Does::Write => "writes",
            };
            let who = if clients == 1 { "one client".into() } else { format!("{clients} clients") };
            text += &format!("\n{who}, {what}:\n\n{}", self.table(does, clients));
        }
        let ratios = self.ratios();
        if !ratios.is_empty() {
            text += &format!("\n{ratios}");
        }
        if !self.modes.is_empty() {
            text += &format!("\n{}", self.against_echoes());
        }
        text += "\n";
        for timeline in &self.timelines {
            text += &format!("* {}\n", timeline.gist());
        }
        self.notes.iter().for_each(|note| text += &format!("* {note}\n"));
        self.broken().for_each(|why| text += &format!("* BROKEN: {why}.\n"));
        text
    }
}

impl Timeline {
    fn gist(&self) -> String {
        let whole = self.whole_ms.map_or_else(
            || "and the chains were not whole again at the end".into(),
            |ms| format!("and all chains were whole again {:.1} s after it", ms / 1e3),
        );
        format!(
            "A switch of the chains is killed, with {} and {} keys: {:.0} ms without a read, {:.0} ms without a write \
             ({} of them ended `unsure`), {whole}.",
            groups(self.groups),
            self.keys,
            self.reads_gap_ms,
            self.writes_gap_ms,
            self.unsure,
        )
    }
}

/// Median, and least to most; thousands from ten of them on.
fn figure(spread: Spread) -> String {
    if spread.median < 10_000.0 {
        return spread.to_string();
    }
    let thousands = |value: f64| format!("{:.0} k", value / 1e3);
    format!("{} ({} to {})", thousands(spread.median), thousands(spread.least), thousands(spread.most))
}

/// The page with the figures of `keys`, which is kept as `record`, in the place of those before.
///
/// # Errors
/// If it has no place for them.
pub fn put_keys(page: &str, keys: &Keys, record: &str) -> Result<String, Error> {
    let text = format!(
        "{}. Medians, and in brackets the least and the most of the rounds. Every run: [{record}](../{record}).\n\n{}",
        keys.circumstances(),
        keys.body(),
    );
    let drawing = record.replace(".json", ".svg");
    let drawing = if keys.timelines.is_empty() {
        String::new()
    } else {
        format!("\n![Answers while a switch of the chains dies](../{drawing})\n")
    };
    put_between(page, &(text + &drawing))
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.\nMedian (least to most) of the rounds.\n\n{}", self.circumstances(), self.body())?;
        self.timelines.iter().try_for_each(|timeline| write!(f, "\n{timeline}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(store: &str, does: Does, clients: usize, round: u32, median_us: f64, answered: u64) -> Run {
        let run = Run::of(store, does, clients, round, String::new(), Err("made up".into()));
        Run { failed: None, seconds: 2.0, median_us, answered, p99_us: 9.0, ..run }
    }

    #[test]
    fn tables_have_medians_and_ratios_of_the_same_round() {
        let mut keys = Keys::new(Machine::look(), &KeysOptions::short("wayside".into()));
        for name in ["wayside-hook-3", "etcd-3"] {
            keys.stores.push(About {
                name: name.into(),
                version: String::new(),
                client: String::new(),
                endpoint: String::new(),
                members: 3,
                durability: String::new(),
                reads: String::new(),
                batching: "none".into(),
            });
        }
        for (round, ours, theirs) in [(0, 10.0, 100.0), (1, 20.0, 100.0), (2, 10.0, 400.0)] {
            keys.runs.push(run("wayside-hook-3", Does::Read, 1, round, ours, 50_000));
            keys.runs.push(run("etcd-3", Does::Read, 1, round, theirs, 5_000));
            keys.runs.push(run("wayside-hook-3", Does::Read, 64, round, ours, 90_000));
            keys.runs.push(run("etcd-3", Does::Read, 64, round, theirs, 3_000));
        }
        let text = keys.to_string();
        let cores = keys.machine.cores;
        let row = |store: &str, batching: &str| {
            format!("| {store} | 3 |  | {cores}, shared with clients and all others |  |  | {batching} |")
        };
        assert!(text.contains(&row("wayside-hook-3", "none")) && text.contains(&row("etcd-3", "none")), "{text}");
        let mut before: serde_json::Value = serde_json::from_str(&keys.to_json()).unwrap();
        before["stores"][0].as_object_mut().unwrap().remove("batching").unwrap();
        let before = Keys::from_json(&before.to_string()).unwrap().to_string();
        assert!(before.contains(&row("wayside-hook-3", "?")), "of before batching was told: {before}");
        assert!(text.contains("| etcd-3 / wayside-hook-3 | 10 (5.0 to 40) | ? | 30 | ? |"), "{text}");
        assert!(text.contains("| wayside-hook-3 | 45 k (45 k to 45 k) | 10 (10 to 20) | 9.0 |"), "{text}");
        keys.runs.push(Run { failed: Some("no answer".into()), ..run("etcd-3", Does::Write, 1, 0, 0.0, 0) });
        let text = keys.to_string();
        assert!(text.contains("BROKEN: etcd-3, Write by 1, round 1: no answer."), "{text}");
        assert!(text.contains("| etcd-3 | failed |"), "{text}");
        assert_eq!(Keys::from_json(&keys.to_json()).unwrap().runs.len(), keys.runs.len());
    }
}
