//! A hot spot that moves (FissLock 7.5), on packets: half of the requests are for 256 of a million locks, and every
//! some seconds for the next 256. With queues the plan has to notice, to give up those that nobody wants any more, and
//! to take the new ones in; fission has nothing to move. FissLock's own spot is ten times as large and moves every
//! 300 ms, which no plan follows that is made once a second: `calibrated/fisslock.rs` has it.

use super::client::{DEFAULT, Tenant};
use super::record::{apart, or_failed, rate};
use super::{Bench, Memory, NODES, SEED};
use crate::Error;
use crate::contest::driver::{BIN, Course, Outcome};
use crate::recovery::summary::{Spread, short};
use crate::workloads::hot_spot;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::time::Duration;

const LOCKS: u64 = 1_000_000;
const HOT: u64 = 256;
/// Room for a queue of each hot lock, and for some that are about to leave.
const CELLS: u32 = 1_024;
/// Of a record's timeline: so many of the driver's bins.
const TOGETHER: usize = 5;
pub(super) const BIN_MS: f64 = (BIN.as_millis() * TOGETHER as u128) as f64;
/// What is looked at at a time, to tell whether the plan has caught up: so many bins of the record.
const WINDOW: usize = 5;
/// It has when the switch grants so much of what it granted before.
const CAUGHT_UP: f64 = 0.9;

/// Who keeps the locks: as a table says it, and the plan of those with queues and a lock server.
const KEEPERS: [(&str, Option<&str>); 3] =
    [("fission", None), ("queues", Some("knapsack")), ("lock server", Some("none"))];

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MovesRun {
    keeper: String,
    round: u32,
    /// The spot moves so often, the first time in the middle of the first such time.
    every_ms: u64,
    /// Grants in bins of [`BIN_MS`], and those of the switch.
    grants: Vec<u32>,
    by_switch: Vec<u32>,
    overlaps: u64,
    stale_tokens: u64,
    failed: Option<String>,
}

/// What one move was like.
struct Move {
    /// Locks a second in the last quarter of the time before it, and in the first second after it.
    rates: [f64; 2],
    /// Of these, the switch's: hundredths.
    shares: [f64; 2],
    /// Until the plan had caught up, seconds.
    caught_up: Option<f64>,
}

impl MovesRun {
    fn of(keeper: &str, round: u32, every: Duration, outcome: Result<Outcome, Error>) -> MovesRun {
        let (outcome, failed) = apart(outcome);
        let sums = |bins: &[u32]| bins.chunks(TOGETHER).map(|bins| bins.iter().sum()).collect();
        MovesRun {
            keeper: keeper.into(),
            round,
            every_ms: every.as_millis() as u64,
            grants: outcome.as_ref().map_or_else(Vec::new, |outcome| sums(&outcome.timeline)),
            by_switch: outcome.as_ref().map_or_else(Vec::new, |outcome| sums(&outcome.timeline_of_switch)),
            overlaps: outcome.as_ref().map_or(0, |outcome| outcome.overlaps),
            stale_tokens: outcome.as_ref().map_or(0, |outcome| outcome.stale_tokens),
            failed,
        }
    }

    fn counts(&self) -> bool {
        self.failed.is_none() && self.overlaps + self.stale_tokens == 0 && self.grants.iter().any(|&count| count > 0)
    }

    /// Of these bins: locks a second, and the switch's hundredths.
    fn look(&self, bins: std::ops::Range<usize>) -> (f64, f64) {
        let sum = |all: &[u32]| all[bins.clone()].iter().map(|&count| f64::from(count)).sum::<f64>();
        let (grants, by_switch) = (sum(&self.grants), sum(&self.by_switch));
        (grants * 1e3 / (bins.len() as f64 * BIN_MS), 100.0 * by_switch / grants.max(1.0))
    }

    /// In their order. What is looked at before and after has to be within the run.
    fn moves(&self) -> impl Iterator<Item = Move> {
        let every = (self.every_ms as f64 / BIN_MS) as usize;
        let second = ((1e3 / BIN_MS) as usize).min(every / 2);
        let moves = (every / 2..self.grants.len()).step_by(every.max(1));
        moves.filter(move |&at| at + second <= self.grants.len()).map(move |at| {
            let (before, after) = (self.look(at - every / 4..at), self.look(at..at + second));
            let end = (at + every).min(self.grants.len());
            let is_caught_up = |&bin: &usize| self.look(bin..bin + WINDOW).1 >= CAUGHT_UP * before.1;
            let bin = (at..end.saturating_sub(WINDOW)).find(is_caught_up);
            Move {
                rates: [before.0, after.0],
                shares: [before.1, after.1],
                caught_up: bin.map(|bin| (bin - at) as f64 * BIN_MS / 1e3),
            }
        })
    }

    /// The timeline: seconds, and hundredths of the grants that are the switch's.
    pub(super) fn shares(&self) -> Vec<(f64, f64)> {
        self.points(|run, bins| run.look(bins).1)
    }

    /// The timeline: seconds, and locks a second.
    pub(super) fn rates(&self) -> Vec<(f64, f64)> {
        self.points(|run, bins| run.look(bins).0)
    }

    fn points(&self, look: impl Fn(&MovesRun, std::ops::Range<usize>) -> f64) -> Vec<(f64, f64)> {
        let at = |bin: usize| ((bin as f64 + 0.5) * BIN_MS / 1e3, look(self, bin..bin + 1));
        (0..self.grants.len()).map(at).collect()
    }

    pub(super) fn keeper(&self) -> &str {
        &self.keeper
    }
}

/// Of the first round, those that can be drawn.
pub(super) fn drawn(runs: &[MovesRun]) -> impl Iterator<Item = &MovesRun> {
    runs.iter().filter(|run| run.round == 0 && run.counts())
}

/// Runs that failed, and those in which a promise was broken.
pub(super) fn broken(runs: &[MovesRun]) -> impl Iterator<Item = String> {
    runs.iter().filter(|run| !run.counts()).map(|run| {
        let MovesRun { keeper, round, overlaps, stale_tokens, failed, .. } = run;
        let held = || format!("{overlaps} grants overlapped, {stale_tokens} tokens did not rise");
        format!("hot spot, {keeper}, round {}: {}", round + 1, failed.clone().unwrap_or_else(held))
    })
}

/// A line for each keeper, of all its moves; nothing if none was measured.
pub(super) fn table(runs: &[MovesRun]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let heads = [
        "keeper",
        "before a move, locks/s",
        "by the switch",
        "in the second after it, locks/s",
        "by the switch",
        "until the switch grants nine tenths of that again, s",
    ];
    let mut text = format!(
        "**A hot spot that moves** every {} s (FissLock 7.5): half of the requests are for {HOT} of {LOCKS} locks, all to \
         share; queues of {CELLS} cells in the switch, planned once a second.\n\n| {} |\n|{}\n",
        first.every_ms as f64 / 1e3,
        heads.join(" | "),
        " --- |".repeat(heads.len())
    );
    for (keeper, _) in KEEPERS {
        let is_its = |run: &&MovesRun| run.keeper == keeper && run.counts();
        let moves: Vec<Move> = runs.iter().filter(is_its).flat_map(MovesRun::moves).collect();
        if !runs.iter().any(|run| run.keeper == keeper) {
            continue;
        }
        let spread = |look: &dyn Fn(&Move) -> f64| Spread::of(moves.iter().map(look).collect());
        let (rates, shares) = (
            [0, 1].map(|at| or_failed(spread(&|one| one.rates[at]).map(rate))),
            [0, 1].map(|at| or_failed(spread(&|one| one.shares[at]).map(|share| format!("{:.0} %", share.median)))),
        );
        let late = moves.iter().filter(|one| one.caught_up.is_none()).count();
        let in_time = Spread::of(moves.iter().filter_map(|one| one.caught_up).collect());
        let caught_up = match in_time {
            _ if moves.iter().all(|one| one.shares[0] == 0.0) => "it grants none".into(),
            Some(Spread { least, median, most }) => {
                let late =
                    if late > 0 { format!("; {late} of {} not before the next", moves.len()) } else { "".into() };
                format!("{} ({} to {}){late}", short(median), short(least), short(most))
            }
            None => "not before the next".into(),
        };
        let _ =
            writeln!(text, "| {keeper} | {} | {} | {} | {} | {caught_up} |", rates[0], shares[0], rates[1], shares[1]);
    }
    text + "\n"
}

impl Bench<'_> {
    pub(super) fn follow(&self, round: u32, into: &mut Vec<MovesRun>) {
        let every = self.options.moves_every;
        let workload = hot_spot(LOCKS, HOT, every);
        for (keeper, plan) in KEEPERS {
            self.show(&format!("round {}: a hot spot that moves, {keeper}", round + 1));
            let course = Course {
                workload: &*workload,
                execution: Duration::ZERO,
                think: Duration::ZERO,
                bank: None,
                abort: None,
                is_sorted: true,
                nodes: NODES,
                clients: self.options.clients,
                seed: SEED,
                warm_up: every / 2,
                measured: every * self.options.moves,
            };
            let settings = match plan {
                Some(plan) => Memory { plan, cells: CELLS, think: Duration::ZERO }.settings(),
                None => format!("slots = {}", 2 * LOCKS.next_power_of_two()),
            };
            let served: &[&str] = if plan.is_some() { &[DEFAULT] } else { &[] };
            let outcome = self.drive(&settings, served, &course, |_| Tenant::ANY);
            into.push(MovesRun::of(keeper, round, every, outcome));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two moves, at 1 s and at 3 s; the switch's share is a half, falls to nothing, and comes back after 0.3 s.
    pub(in crate::queues) fn run(keeper: &str) -> MovesRun {
        let run = MovesRun::of(keeper, 0, Duration::from_secs(2), Err("made up".into()));
        let share = |bin: usize| if (10..13).contains(&bin) || (30..33).contains(&bin) { 0 } else { 500 };
        MovesRun { failed: None, grants: vec![1_000; 40], by_switch: (0..40).map(share).collect(), ..run }
    }

    #[test]
    fn a_table_says_what_a_move_costs_and_for_how_long() {
        let text = table(&[run("queues")]);
        // A window of half a second whose share is nine tenths of the half begins 0.3 s after the move.
        assert!(text.contains("| queues | 10 k | 50 % | 10 k | 35 % | 0.30 (0.30 to 0.30) |"), "{text}");
        assert!(!text.contains("fission"), "{text}");
        let mut late = run("queues");
        late.by_switch[10..30].fill(0);
        let text = table(&[late]);
        assert!(text.contains("; 1 of 2 not before the next"), "{text}");
        let mut none = run("lock server");
        none.by_switch.fill(0);
        assert!(table(&[none]).contains("| it grants none |"));
        let mut broken_run = run("queues");
        broken_run.overlaps = 1;
        assert_eq!(broken(&[broken_run]).count(), 1);
    }
}
