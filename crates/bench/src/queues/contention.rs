//! Which engine is better for locks that everybody wants: from one lock for all clients to some for each, held for no
//! time or for a while; writers alone, and mostly readers. And what a hybrid of the two wins where a few locks among
//! many are wanted by everybody: there the three are compared.
//!
//! By the model of `calibrated/rivals.rs`: two processors that clients and switch share show what a lock's work is, and
//! not how far it travels.

use super::Bench;
use crate::Error;
use crate::calibrated::{Keeper, RIVALS, Rivals};
use crate::recovery::summary::{Spread, short};
use crate::workloads::HOT;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Workloads, and how many locks each has; of writers, and mostly of readers.
const LOCKS: [u64; 5] = [1, 4, 16, 64, 256];
const KINDS: [(&str, [&str; 5]); 2] = [
    ("writers", ["rivals-1", "rivals-4", "rivals-16", "rivals-64", "rivals-256"]),
    ("a tenth writes", ["readers-1", "readers-4", "readers-16", "readers-64", "readers-256"]),
];
/// Half of the requests are for some of these.
const MIXED_LOCKS: u64 = 10_016;
const MIXED: [(&str, &str); 2] = [("writers", "hot-writers-10016"), ("a tenth writes", "hot-readers-10016")];
/// For how long a lock is held, microseconds.
const HOLDS: [u64; 4] = [0, 2, 10, 100];
/// Of a run.
const REQUESTS: u64 = 20_000;

/// Who keeps the locks, as a table says it.
const KEEPERS: [(Keeper, &str); 3] =
    [(Keeper::Fission, "fission"), (Keeper::Queues, "queues"), (Keeper::Server, "lock server")];
/// The same of those workloads: whose locks are queues that everybody wants, and who keeps the others.
const MIXED_KEEPERS: [(Keeper, &str); 4] = [
    (Keeper::Fission, "fission"),
    (Keeper::HotQueues, "queues, and the lock server"),
    (Keeper::Hybrid, "hybrid"),
    (Keeper::Server, "lock server"),
];
const MODEL: &str = "the model";

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ContentionRun {
    /// That it is the model's.
    place: String,
    kind: String,
    locks: u64,
    clients: usize,
    /// Microseconds.
    hold_us: u64,
    keeper: String,
    round: u32,
    /// Locks a second.
    rate: f64,
    p50_us: f64,
    p99_us: f64,
    failed: Option<String>,
}

impl ContentionRun {
    /// What it is of, and its locks a second, p50 and p99 in microseconds; None: it failed.
    pub(super) fn figures(&self) -> Option<(String, [f64; 3])> {
        let ContentionRun { kind, locks, clients, hold_us, keeper, rate, p50_us, p99_us, failed, .. } = self;
        let name = format!("{kind}, {clients} clients, {locks} locks held for {hold_us} us, {keeper}");
        failed.is_none().then_some((name, [*rate, *p50_us, *p99_us]))
    }
}

/// What a run is to be.
#[derive(Clone, Copy)]
struct Case {
    kind: usize,
    at: usize,
    hold_us: u64,
    keeper: usize,
}

impl Case {
    fn all(holds: &[u64]) -> impl Iterator<Item = Case> {
        let kinds = (0..KINDS.len()).flat_map(|kind| (0..LOCKS.len()).map(move |at| (kind, at)));
        let with_holds = kinds.flat_map(|(kind, at)| holds.iter().map(move |&hold_us| (kind, at, hold_us)));
        // One after the other, so that what disturbs the machine disturbs all.
        with_holds
            .flat_map(|(kind, at, hold_us)| (0..KEEPERS.len()).map(move |keeper| Case { kind, at, hold_us, keeper }))
    }

    fn workload(self) -> &'static str {
        KINDS[self.kind].1[self.at]
    }

    fn run(self, place: &str, clients: usize, round: u32, came: Result<[f64; 3], Error>) -> ContentionRun {
        let (figures, failed) = match came {
            Ok(figures) => (figures, None),
            Err(why) => ([0.0; 3], Some(why)),
        };
        let [rate, p50_us, p99_us] = figures;
        ContentionRun {
            place: place.into(),
            kind: KINDS[self.kind].0.into(),
            locks: LOCKS[self.at],
            clients,
            hold_us: self.hold_us,
            keeper: KEEPERS[self.keeper].1.into(),
            round,
            rate,
            p50_us,
            p99_us,
            failed,
        }
    }
}

impl Bench<'_> {
    /// All runs of a round.
    pub(super) fn contend(&self, round: u32, runs: &mut Vec<ContentionRun>) {
        let mut rivals = Rivals::new(REQUESTS, u64::from(round) + 1);
        for case in Case::all(&HOLDS) {
            self.show(&format!("round {}: {}, {MODEL}", round + 1, case.workload()));
            let came = rivals.contend(KEEPERS[case.keeper].0, case.workload(), 1_000 * case.hold_us);
            let came = came.map(|rivalry| [rivalry.rate, rivalry.p50_us, rivalry.p99_us]);
            runs.push(case.run(MODEL, RIVALS, round, came));
        }
        for (kind, workload, hold_us) in mixed() {
            for (keeper, name) in MIXED_KEEPERS {
                self.show(&format!("round {}: {workload}, {name}, {MODEL}", round + 1));
                let came = rivals.contend(keeper, workload, 1_000 * hold_us);
                let (figures, failed) = match came {
                    Ok(rivalry) => ([rivalry.rate, rivalry.p50_us, rivalry.p99_us], None),
                    Err(why) => ([0.0; 3], Some(why)),
                };
                let [rate, p50_us, p99_us] = figures;
                let (place, kind, keeper) = (MODEL.into(), kind.into(), name.into());
                let (locks, clients) = (MIXED_LOCKS, RIVALS);
                runs.push(ContentionRun {
                    place,
                    kind,
                    locks,
                    clients,
                    hold_us,
                    keeper,
                    round,
                    rate,
                    p50_us,
                    p99_us,
                    failed,
                });
            }
        }
    }
}

/// Kind, workload and hold of each line of that table.
fn mixed() -> impl Iterator<Item = (&'static str, &'static str, u64)> {
    MIXED.into_iter().flat_map(|(kind, workload)| HOLDS.map(|hold_us| (kind, workload, hold_us)))
}

/// The table, or nothing where nothing of it was measured.
pub(super) fn table(runs: &[ContentionRun]) -> String {
    let mut text = String::new();
    for place in places(runs) {
        let these: Vec<&ContentionRun> = runs.iter().filter(|run| run.place == place).collect();
        let clients = these.first().map_or(0, |run| run.clients);
        let _ = write!(
            text,
            "**Contention**, {place}, {clients} clients.\n\n| locks | of clients who | hold for, us | fission, locks/s | \
             queues | queues / fission | lock server | grant p50, us: fission | queues | p99: fission | queues |\n|{}\n",
            " --- |".repeat(11)
        );
        for (kind, _) in KINDS {
            for locks in LOCKS {
                for hold in holds(&these) {
                    let is_it =
                        |run: &&&ContentionRun| (run.kind == kind, run.locks, run.hold_us) == (true, locks, hold);
                    let of = |keeper: &str| -> Vec<&ContentionRun> {
                        let these = these.iter().filter(is_it).copied();
                        these.filter(|run| run.keeper == keeper && run.failed.is_none()).collect()
                    };
                    text += &line(kind, locks, hold, &of);
                }
            }
        }
        text += "\n";
        text += &mixed_table(place, clients, &these);
    }
    text
}

/// Of locks among which a few are wanted by everybody.
fn mixed_table(place: &str, clients: usize, runs: &[&ContentionRun]) -> String {
    let mut lines = String::new();
    for (kind, _, hold) in mixed() {
        let of = MIXED_KEEPERS.map(|(_, keeper)| {
            let is_it = |run: &&&ContentionRun| {
                (run.locks, run.hold_us) == (MIXED_LOCKS, hold) && run.kind == kind && run.keeper == keeper
            };
            runs.iter().filter(is_it).copied().filter(|run| run.failed.is_none()).collect::<Vec<_>>()
        });
        if of.iter().all(Vec::is_empty) {
            continue;
        }
        let [fission, queues, hybrid, server] = &of;
        let rates = [fission, queues, hybrid, server].map(|runs| median(runs, &|run| run.rate));
        let p50 = [fission, queues, hybrid].map(|runs| median(runs, &|run| run.p50_us));
        let p99 = [fission, queues, hybrid].map(|runs| median(runs, &|run| run.p99_us));
        let ratios = [ratio(hybrid, fission), ratio(hybrid, queues)];
        let cells = [&rates[..], &ratios, &p50, &p99].concat();
        let _ = writeln!(lines, "| {kind} | {hold} | {} |", cells.join(" | "));
    }
    if lines.is_empty() {
        return lines;
    }
    format!(
        "**Hot and cold**, {place}, {clients} clients, {MIXED_LOCKS} locks, half of the requests for {HOT} of them.\n\n| clients who | \
         hold for, us | fission, locks/s | queues, and the lock server | hybrid | lock server | hybrid / fission | \
         hybrid / queues | grant p50, us: fission | queues | hybrid | p99: fission | queues | hybrid |\n|{}\n{lines}\n",
        " --- |".repeat(14)
    )
}

fn line<'r>(kind: &str, locks: u64, hold: u64, of: &dyn Fn(&str) -> Vec<&'r ContentionRun>) -> String {
    let all = KEEPERS.map(|(_, keeper)| of(keeper));
    if all.iter().all(Vec::is_empty) {
        return String::new();
    }
    let [fission, queues, server] = &all;
    let cells = [
        median(fission, &|run| run.rate),
        median(queues, &|run| run.rate),
        ratio(queues, fission),
        median(server, &|run| run.rate),
        median(fission, &|run| run.p50_us),
        median(queues, &|run| run.p50_us),
        median(fission, &|run| run.p99_us),
        median(queues, &|run| run.p99_us),
    ];
    format!("| {locks} | {kind} | {hold} | {} |\n", cells.join(" | "))
}

fn median(runs: &[&ContentionRun], look: &dyn Fn(&ContentionRun) -> f64) -> String {
    let spread = Spread::of(runs.iter().map(|run| look(run)).collect());
    spread.map_or_else(
        || "failed".into(),
        |spread| match spread.median {
            many if many >= 10_000.0 => format!("{:.0} k", many / 1e3),
            few => short(few),
        },
    )
}

/// How many times the rate of the others, each of the same round.
fn ratio(runs: &[&ContentionRun], others: &[&ContentionRun]) -> String {
    let pairs = runs.iter().filter_map(|one| {
        let other = others.iter().find(|other| other.round == one.round)?;
        Some(one.rate / other.rate)
    });
    Spread::of(pairs.collect()).map_or_else(
        || "failed".into(),
        |Spread { least, median, most }| {
            if least == most { format!("{median:.2}x") } else { format!("{median:.2}x ({least:.2} to {most:.2})") }
        },
    )
}

fn places(runs: &[ContentionRun]) -> Vec<&str> {
    let mut places: Vec<&str> = Vec::new();
    for run in runs {
        if !places.contains(&run.place.as_str()) {
            places.push(&run.place);
        }
    }
    places
}

fn holds(runs: &[&ContentionRun]) -> Vec<u64> {
    let mut holds: Vec<u64> = runs.iter().map(|run| run.hold_us).collect();
    holds.sort_unstable();
    holds.dedup();
    holds
}

/// Why those that failed did.
pub(super) fn broken(runs: &[ContentionRun]) -> impl Iterator<Item = String> {
    runs.iter().filter_map(|run| {
        let ContentionRun { place, kind, locks, keeper, round, failed, .. } = run;
        let why = failed.as_ref()?;
        Some(format!("contention, {place}: {locks} locks, {kind}, {keeper}, round {}: {why}", round + 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::named;

    #[test]
    fn each_case_is_of_all_keepers_and_of_a_workload_that_there_is() {
        let all: Vec<Case> = Case::all(&HOLDS).collect();
        assert_eq!(all.len(), KINDS.len() * LOCKS.len() * HOLDS.len() * KEEPERS.len());
        for case in all {
            let locks = named(case.workload()).expect("it is in the catalogue").build().locks();
            assert_eq!(locks, LOCKS[case.at], "{}", case.workload());
        }
    }

    #[test]
    fn the_locks_among_which_some_are_hot_are_as_many_as_the_table_says() {
        for (_, workload, _) in mixed() {
            assert_eq!(named(workload).expect("it is in the catalogue").build().locks(), MIXED_LOCKS);
        }
    }

    #[test]
    fn a_table_has_ratios_of_the_same_round_and_says_what_failed() {
        let case = |keeper| Case { kind: 0, at: 2, hold_us: 10, keeper };
        let mut runs = Vec::new();
        for (round, rates) in [(0, [100.0, 150.0, 50.0]), (1, [200.0, 100.0, 60.0])] {
            runs.extend((0..3).map(|keeper| case(keeper).run(MODEL, 160, round, Ok([rates[keeper], 7.0, 9.0]))));
        }
        runs.push(case(1).run(MODEL, 160, 2, Err("it ended".into())));
        let text = table(&runs);
        let line = "| 16 | writers | 10 | 150 | 125 | 1.00x (0.50 to 1.50) | 55 | 7.0 | 7.0 | 9.0 | 9.0 |";
        assert!(text.contains(line), "{text}");
        assert_eq!(text.matches("| writers |").count(), 1, "{text}");
        assert_eq!(
            broken(&runs).collect::<Vec<_>>(),
            ["contention, the model: 16 locks, writers, queues, round 3: it ended"]
        );
        assert_eq!(table(&[]), "");
    }
}
