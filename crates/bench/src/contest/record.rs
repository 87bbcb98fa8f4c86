//! What comes out: every run as it was, and under what.

use super::driver::{BIN, Outcome};
use super::peers::About;
use crate::Error;
use crate::knobs::{self, Machine};
use crate::recovery::summary::Spread;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Everything that was measured, and under what.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Contest {
    pub(crate) machine: Machine,
    /// As `/proc/loadavg` had it at the end.
    pub(super) load_after: String,
    /// Of the traces.
    pub(super) seed: u64,
    pub(super) rounds: u32,
    pub(super) nodes: usize,
    /// How long it all took.
    pub(super) seconds: f64,
    /// What took part.
    pub services: Vec<About>,
    /// In the order in which they were run.
    pub played: Vec<Played>,
    /// In the order in which they ran.
    pub runs: Vec<Run>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

/// A workload, and how it was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Played {
    /// Its name in the catalogue.
    pub workload: String,
    pub(super) about: String,
    pub(super) locks: u64,
    /// Clients of all nodes.
    pub clients: usize,
    pub(super) clients_of_paper: usize,
    pub(super) execution_us: u64,
    /// For how long all locks were held besides.
    #[serde(default)]
    pub think_us: u64,
    /// What the locks guarded; None: nothing.
    pub(super) data: Option<String>,
    /// After how long a transaction was aborted; None: never.
    pub abort_ms: Option<u64>,
    pub(super) is_sorted: bool,
    pub(super) measured_ms: u64,
}

/// One service's run of one workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Which of [`Contest::played`].
    pub played: usize,
    /// Name of the service.
    pub service: String,
    /// From 0.
    pub round: u32,
    /// As `/proc/loadavg` had it before.
    pub(super) load: String,
    /// How long it was measured; 0: it failed.
    pub(super) seconds: f64,
    /// Locks that were granted.
    pub grants: u64,
    /// Transactions that ended with all their locks.
    pub transactions: u64,
    /// Attempts that were aborted.
    pub(super) aborts: u64,
    /// From a request to its grant, microseconds, at each of [`QUANTILES`].
    pub(super) grant_us: Vec<f64>,
    /// From a transaction's first request to its last release, likewise.
    pub(super) transaction_us: Vec<f64>,
    /// Grants in each bin of [`BIN_MS`]; empty but for workloads that change.
    pub(super) timeline: Vec<u32>,
    /// Of the clients' process, in seconds of a processor.
    pub(super) client_cpu_s: f64,
    /// Of the servers'.
    pub(super) server_cpu_s: f64,
    /// That those had while clients were at work; None in records of before 2026-11-24, and of a run that failed.
    #[serde(default)]
    pub(super) server_threads: Option<u64>,
    /// Grants that overlapped another one that excludes them, and tokens that did not rise.
    pub overlaps: u64,
    pub(super) stale_tokens: u64,
    /// By how much all accounts have less together than before; None: there are none.
    pub(super) missing_money: Option<i64>,
    /// Why there are no figures.
    pub failed: Option<String>,
}

/// What is kept of a distribution: enough to draw it.
pub(crate) const QUANTILES: [f64; 31] = [
    0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9,
    0.92, 0.94, 0.96, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9999, 1.0,
];
pub(super) const BIN_MS: u64 = BIN.as_millis() as u64;
/// The workload whose throughput is looked at over time.
const CHANGES: &str = "hot-spot";

pub(crate) fn quantiles_us(nanos: &Histogram<u64>) -> Vec<f64> {
    let us = |quantile| (nanos.value_at_quantile(quantile) as f64 / 100.0).round() / 10.0;
    if nanos.is_empty() { Vec::new() } else { QUANTILES.map(us).to_vec() }
}

impl Run {
    pub(super) fn of(played: usize, service: &str, round: u32, load: String, outcome: Result<Outcome, Error>) -> Run {
        let run = Run {
            played,
            service: service.into(),
            round,
            load,
            seconds: 0.0,
            grants: 0,
            transactions: 0,
            aborts: 0,
            grant_us: Vec::new(),
            transaction_us: Vec::new(),
            timeline: Vec::new(),
            client_cpu_s: 0.0,
            server_cpu_s: 0.0,
            server_threads: None,
            overlaps: 0,
            stale_tokens: 0,
            missing_money: None,
            failed: None,
        };
        match outcome {
            Err(why) => Run { failed: Some(why), ..run },
            Ok(outcome) => Run {
                seconds: outcome.times.measured.as_secs_f64(),
                grants: outcome.grants.len(),
                transactions: outcome.transactions.len(),
                aborts: outcome.aborts,
                grant_us: quantiles_us(&outcome.grants),
                transaction_us: quantiles_us(&outcome.transactions),
                timeline: outcome.timeline,
                client_cpu_s: outcome.times.client_cpu.as_secs_f64(),
                server_cpu_s: outcome.times.server_cpu.as_secs_f64(),
                server_threads: Some(outcome.times.server_threads),
                overlaps: outcome.overlaps,
                stale_tokens: outcome.stale_tokens,
                missing_money: outcome.missing_money,
                ..run
            },
        }
    }

    /// Whether its figures count: it did not fail, something was granted, and the service kept its promise.
    pub(super) fn counts(&self) -> bool {
        let keeps = self.overlaps == 0 && self.stale_tokens == 0 && self.missing_money.unwrap_or(0) == 0;
        self.failed.is_none() && self.grants > 0 && keeps
    }

    /// Whether the service worked, and granted nothing in the time after which all transactions were aborted: it is too
    /// slow for that, and broke nothing.
    pub(super) fn is_too_slow(&self) -> bool {
        self.failed.is_none() && self.grants == 0 && self.aborts > 0
    }

    pub(super) fn grants_a_second(&self) -> Option<f64> {
        Some(self.grants as f64 / self.seconds)
    }

    pub(super) fn transactions_a_second(&self) -> Option<f64> {
        Some(self.transactions as f64 / self.seconds)
    }

    /// Of all attempts, those that were aborted.
    pub(super) fn aborted(&self) -> Option<f64> {
        let attempts = self.aborts + self.transactions;
        (attempts > 0).then(|| self.aborts as f64 / attempts as f64)
    }

    /// Of the grants, in microseconds, at one of [`QUANTILES`].
    pub(super) fn grant_us(&self, quantile: f64) -> Option<f64> {
        at(&self.grant_us, quantile)
    }

    /// Of the transactions, likewise.
    pub(super) fn transaction_us(&self, quantile: f64) -> Option<f64> {
        at(&self.transaction_us, quantile)
    }

    /// Processor time of clients and servers for each grant, in microseconds.
    pub(super) fn cpu_us(&self) -> Option<f64> {
        (self.grants > 0).then(|| 1e6 * (self.client_cpu_s + self.server_cpu_s) / self.grants as f64)
    }
}

fn at(of: &[f64], quantile: f64) -> Option<f64> {
    let index = QUANTILES.iter().position(|known| *known == quantile).expect("one that is kept");
    of.get(index).copied()
}

impl Contest {
    pub(super) fn new(machine: Machine, rounds: u32, nodes: usize, seed: u64) -> Contest {
        Contest {
            machine,
            load_after: String::new(),
            seed,
            rounds,
            nodes,
            seconds: 0.0,
            services: Vec::new(),
            played: Vec::new(),
            runs: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn end(&mut self, after: Duration) {
        self.seconds = after.as_secs_f64();
        self.load_after = knobs::load();
        for run in &mut self.runs {
            if self.played[run.played].workload != CHANGES {
                run.timeline.clear();
            }
        }
    }

    /// A service's runs of a workload.
    pub(super) fn runs_of(&self, played: usize, service: &str) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.played == played && run.service == service)
    }

    /// Of those of them that count.
    pub(super) fn spread(&self, played: usize, service: &str, look: impl Fn(&Run) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.runs_of(played, service).filter(|run| run.counts()).filter_map(look).collect())
    }

    /// What was not as it must be.
    pub fn broken(&self) -> impl Iterator<Item = String> {
        self.runs.iter().filter_map(|run| {
            let workload = &self.played[run.played].workload;
            let where_ = format!("{workload}, {}, round {}", run.service, run.round + 1);
            match run {
                Run { overlaps: 1.., .. } => Some(format!("{where_}: {} grants overlapped", run.overlaps)),
                Run { stale_tokens: 1.., .. } => Some(format!("{where_}: {} tokens did not rise", run.stale_tokens)),
                Run { missing_money: Some(missing), .. } if *missing != 0 => {
                    Some(format!("{where_}: {missing} of the accounts' money are missing"))
                }
                Run { failed: Some(why), .. } => Some(format!("{where_}: {why}")),
                run if run.is_too_slow() => None,
                Run { grants: 0, .. } => Some(format!("{where_}: nothing was granted")),
                _ => None,
            }
        })
    }

    /// As JSON, for other programs: a line for each run, so that records can be read and compared as text.
    ///
    /// # Panics
    /// Never: there is nothing in it that JSON has not.
    #[must_use]
    pub fn to_json(&self) -> String {
        let frame = Contest { runs: Vec::new(), ..self.clone() };
        let frame = serde_json::to_string_pretty(&frame).expect("numbers, words and lists");
        let runs = self.runs.iter().map(|run| serde_json::to_string(run).expect("numbers, words and lists"));
        let runs: Vec<String> = runs.map(|run| format!("    {run}")).collect();
        if runs.is_empty() {
            return frame;
        }
        frame.replacen("\"runs\": []", &format!("\"runs\": [\n{}\n  ]", runs.join(",\n")), 1)
    }

    /// A record that was kept.
    ///
    /// # Errors
    /// If it is none, or of another version of this program.
    pub fn from_json(text: &str) -> Result<Contest, Error> {
        serde_json::from_str(text).map_err(|error| format!("no record of lock services of this version: {error}"))
    }

    /// Of the code that was measured, short; empty outside a repository.
    #[must_use]
    pub fn commit(&self) -> &str {
        &self.machine.commit
    }

    /// A line for each run, for other programs: with what it was run under, so that no line needs another one.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut text = String::from(
            "workload,clients,abort_ms,think_us,service,endpoint,cores,server_threads,members,batching,durability,modes,\
             round,load,seconds,grants_per_s,transactions_per_s,aborted,grant_p50_us,grant_p90_us,grant_p99_us,\
             grant_p999_us,transaction_p50_us,transaction_p99_us,client_cpu_s,server_cpu_s,overlaps,stale_tokens,\
             missing_money,failed\n",
        );
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
        let whole = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        for run in &self.runs {
            let played = &self.played[run.played];
            let service = self.services.iter().find(|service| service.name == run.service);
            let of_service = |look: fn(&About) -> &str| quoted(service.map_or("", look));
            let figures = [
                run.grants_a_second().filter(|_| run.seconds > 0.0),
                run.transactions_a_second().filter(|_| run.seconds > 0.0),
                run.aborted(),
                run.grant_us(0.5),
                run.grant_us(0.9),
                run.grant_us(0.99),
                run.grant_us(0.999),
                run.transaction_us(0.5),
                run.transaction_us(0.99),
                Some(run.client_cpu_s),
                Some(run.server_cpu_s),
            ];
            let cells = [
                played.workload.clone(),
                played.clients.to_string(),
                whole(played.abort_ms),
                played.think_us.to_string(),
                run.service.clone(),
                of_service(|one| &one.endpoint),
                self.machine.cores.to_string(),
                whole(run.server_threads),
                whole(service.map(|one| one.members.into())),
                of_service(|one| &one.batching),
                of_service(|one| &one.durability),
                of_service(|one| &one.modes),
                (run.round + 1).to_string(),
                run.load.clone(),
                format!("{:.3}", run.seconds),
                figures.map(number).join(","),
                run.overlaps.to_string(),
                run.stale_tokens.to_string(),
                run.missing_money.map_or_else(String::new, |missing| missing.to_string()),
                quoted(run.failed.as_deref().unwrap_or_default()),
            ];
            text += &(cells.join(",") + "\n");
        }
        text
    }
}

/// A cell with whatever is in it; its own quotes and ends of lines are blanks.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace(['"', '\n'], " "))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A record with one workload, and services that took so many microseconds for a grant in each round.
    pub(in super::super) fn record(services: &[(&str, &[f64])]) -> Contest {
        let mut contest = Contest::new(Machine::look(), 1, 2, 1);
        contest.played.push(Played {
            workload: "tatp".into(),
            about: "a workload".into(),
            locks: 1,
            clients: 2,
            clients_of_paper: 3,
            execution_us: 2,
            think_us: 0,
            data: None,
            abort_ms: Some(10),
            is_sorted: false,
            measured_ms: 1_000,
        });
        for (name, rounds) in services {
            contest.services.push(About {
                name: (*name).into(),
                version: "Some 1".into(),
                client: "a <client>".into(),
                endpoint: "TCP, on loopback".into(),
                members: 1,
                durability: "none: all is in memory".into(),
                batching: "none".into(),
                modes: "all".into(),
                settings: "--port <1> --save \"\"".into(),
            });
            for (round, us) in (0..).zip(*rounds) {
                let mut run = Run::of(0, name, round, "1.0".into(), Err(String::new()));
                run.failed = None;
                run.seconds = 2.0;
                (run.grants, run.transactions, run.aborts) = ((2e6 / us) as u64, (1e6 / us) as u64, 5);
                run.grant_us = QUANTILES.map(|quantile| (us * (0.5 + quantile) * 10.0).round() / 10.0).to_vec();
                run.transaction_us = run.grant_us.clone();
                (run.client_cpu_s, run.server_cpu_s, run.server_threads) = (1.0, 0.5, Some(7));
                contest.runs.push(run);
            }
        }
        contest
    }

    #[test]
    fn a_record_is_read_back_as_it_was() {
        let contest = record(&[("redis", &[100.0, 110.0]), ("etcd", &[9_000.0])]);
        let read = Contest::from_json(&contest.to_json()).unwrap();
        assert_eq!((read.to_json(), read.to_csv()), (contest.to_json(), contest.to_csv()));
        assert_eq!(read.runs.len(), 3);
        assert_eq!(read.services, contest.services, "with what each was started with");
        assert_eq!(contest.to_json().lines().filter(|line| line.contains("\"round\":")).count(), 3, "a line each");
    }

    #[test]
    fn runs_that_broke_a_promise_or_failed_are_told_and_do_not_count() {
        let mut contest = record(&[("redis", &[100.0; 6])]);
        assert_eq!(contest.broken().count(), 0);
        contest.runs[0].overlaps = 1;
        contest.runs[1].stale_tokens = 1;
        contest.runs[2].failed = Some("gone".into());
        (contest.runs[3].grants, contest.runs[3].aborts) = (0, 0);
        contest.runs[4].missing_money = Some(-7);
        contest.runs[5].missing_money = Some(0);
        assert_eq!(contest.broken().count(), 5);
        assert_eq!(contest.runs.iter().filter(|run| run.counts()).count(), 1);
        // Who takes longer than the time-out has granted nothing, and broken nothing.
        contest.runs[3].aborts = 7;
        assert_eq!((contest.broken().count(), contest.runs[3].counts()), (4, false));
    }

    /// Cells of a line: commas within quotes are no ends.
    fn cells(line: &str) -> Vec<String> {
        let (mut cells, mut is_quoted) = (vec![String::new()], false);
        for letter in line.chars() {
            match letter {
                '"' => is_quoted = !is_quoted,
                ',' if !is_quoted => cells.push(String::new()),
                _ => cells.last_mut().unwrap().push(letter),
            }
        }
        cells
    }

    #[test]
    fn every_line_of_the_csv_has_every_column_and_what_its_service_is() {
        let contest = record(&[("redis", &[100.0, 110.0])]);
        let csv = contest.to_csv();
        let lines: Vec<Vec<String>> = csv.lines().map(cells).collect();
        assert!(lines.len() == 3 && lines.iter().all(|line| line.len() == lines[0].len()), "{csv}");
        let of = |line: &[String], head: &str| line[lines[0].iter().position(|one| one == head).unwrap()].clone();
        let cores = contest.machine.cores.to_string();
        for line in &lines[1..] {
            for (head, value) in [
                ("endpoint", "TCP, on loopback"),
                ("cores", cores.as_str()),
                ("server_threads", "7"),
                ("members", "1"),
                ("batching", "none"),
                ("durability", "none: all is in memory"),
                ("missing_money", ""),
                ("failed", ""),
            ] {
                assert_eq!(of(line, head), value, "{head}: {csv}");
            }
        }
        assert_eq!((of(&lines[1], "round"), of(&lines[2], "round")), ("1".into(), "2".into()));
        assert_eq!(of(&lines[1], "grants_per_s"), "10000.000");
    }

    /// Records of before a field was known are read, and their tables made.
    #[test]
    fn a_record_of_before_settings_were_kept_is_read() {
        let contest = record(&[("redis", &[100.0])]);
        let mut json: serde_json::Value = serde_json::from_str(&contest.to_json()).unwrap();
        assert!(json["services"][0].as_object_mut().unwrap().remove("settings").is_some(), "{json}");
        let before = Contest::from_json(&json.to_string()).unwrap();
        assert_eq!(before.services[0].settings, "");
    }

    #[test]
    fn a_record_of_before_threads_were_counted_is_read() {
        let contest = record(&[("redis", &[100.0])]);
        let json = contest.to_json().replace("\"server_threads\":7,", "");
        assert!(!json.contains("server_threads"), "{json}");
        let before = Contest::from_json(&json).unwrap();
        assert!(before.runs[0].server_threads.is_none() && before.to_csv().lines().count() == 2);
    }
}
