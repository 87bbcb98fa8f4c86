//! What a run did, and what a batch of runs did together.

use std::collections::BTreeMap;
use std::fmt;

use wayside_wire::mix;

use crate::decisions::{LINES, UNREACHED_DROPS};
use crate::schedule::{Filter, Kind, Mark};
use crate::{Options, Scale, ServiceKind, chain, hybrid, queues, shards};

/// How a run broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// S1, S2, S3, A1, A2, A3, L1, L2, or `vacuous`.
    pub invariant: &'static str,
    /// What was seen.
    pub story: String,
    /// World time in microseconds.
    pub at: u64,
}

/// Counts by name.
pub type Counts = BTreeMap<&'static str, u64>;

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Of the run.
    pub seed: u64,
    /// What it did.
    pub service: ServiceKind,
    /// Over every event in order: the same seed gives the same. Of several runs: of all of theirs, in any order.
    pub trace_hash: u64,
    /// Packets put on the wire.
    pub packets: u64,
    /// Locks asked for.
    pub operations: u64,
    /// World time that passed, in microseconds.
    pub duration: u64,
    /// Faults that fired; and for each condition that held, 1.
    pub faults: Counts,
    /// What nodes and applications were told.
    pub outcomes: Counts,
    /// Lines of the core's decision table.
    pub decisions: Counts,
    /// The switch's own counters, over all its lives.
    pub verdicts: Counts,
    /// The first invariant that broke.
    pub failure: Option<Failure>,
    /// What happened, in order, and when.
    pub happened: Vec<(u64, Mark)>,
}

/// Seeds from which on a batch must have reached everything that [`Outcome::missing`] asks for.
pub const BATCH: u64 = 5_000;

impl Options {
    /// The command that runs a seed so again, step by step. Rules that are broken have no flag.
    pub fn replay(&self, seed: u64) -> String {
        let service = match self.service {
            ServiceKind::Lock => "",
            ServiceKind::Chain => "--service chain ",
            ServiceKind::Queue => "--service queue ",
            ServiceKind::Hybrid => "--service hybrid ",
            ServiceKind::Shards => "--service shards ",
        };
        let mut text = format!("wayside sim {service}--seed {seed}");
        if let Some(Scale { nodes, names, packets }) = self.scale {
            text += &format!(" --nodes {nodes} --names {names} --packets {packets}");
        }
        let Filter { only, without } = &self.filter;
        if !without.is_empty() {
            text += &format!(" --without {without}");
        }
        if let Some(only) = only {
            text += &format!(" --only {only}");
        }
        text + " --trace"
    }
}

impl Outcome {
    /// Adds another run's counts.
    pub fn add(&mut self, other: &Outcome) {
        self.trace_hash = self.trace_hash.wrapping_add(mix(other.trace_hash));
        self.packets += other.packets;
        self.operations += other.operations;
        self.duration += other.duration;
        for (to, from) in [
            (&mut self.faults, &other.faults),
            (&mut self.outcomes, &other.outcomes),
            (&mut self.decisions, &other.decisions),
            (&mut self.verdicts, &other.verdicts),
        ] {
            for (name, count) in from {
                *to.entry(name).or_default() += count;
            }
        }
    }

    /// What a batch of `seeds` must have seen at least once to mean anything, and has not. Rare things are asked of
    /// large batches alone.
    pub fn missing(&self, seeds: u64) -> Vec<&'static str> {
        let is_large = seeds >= BATCH;
        let seen = |counts: &Counts, name: &str| counts.get(name).is_some_and(|count| *count > 0);
        if self.service == ServiceKind::Chain {
            let faults = chain::FAULTS.iter().filter(|name| !seen(&self.faults, name));
            let outcomes = chain::OUTCOMES.iter().filter(|name| !seen(&self.outcomes, name));
            let lines = chain::LINES.iter().filter(|name| is_large || !chain::RARE.contains(name));
            let lines = lines.filter(|name| !seen(&self.decisions, name));
            return faults.chain(outcomes).chain(lines).copied().collect();
        }
        if self.service == ServiceKind::Queue {
            return queues::missing(&self.faults, &self.outcomes, &self.verdicts);
        }
        if self.service == ServiceKind::Hybrid {
            return hybrid::missing(&self.faults, &self.outcomes, &self.verdicts);
        }
        if self.service == ServiceKind::Shards {
            let faults = shards::FAULTS.iter().filter(|name| !seen(&self.faults, name));
            return faults.chain(shards::OUTCOMES.iter().filter(|name| !seen(&self.outcomes, name))).copied().collect();
        }
        let is_of_locks = |kind: &&Kind| !(matches!(kind, Kind::Ask | Kind::Move) || kind.is_of_shards());
        let kinds = Kind::ALL.iter().filter(is_of_locks).map(|kind| kind.name());
        let faults = kinds.filter(|name| !seen(&self.faults, name));
        let outcomes = OUTCOMES.iter().copied().filter(|name| !seen(&self.outcomes, name));
        let rare = RARE_OUTCOMES.iter().copied().filter(|name| is_large && !seen(&self.outcomes, name));
        let lines = LINES
            .iter()
            .copied()
            .filter(|name| (is_large || !RARE_LINES.contains(name)) && !seen(&self.decisions, name));
        let is_unreached = |name: &str| UNREACHED_DROPS.iter().any(|(unreached, _)| *unreached == name);
        let drops = wayside_wire::DropReason::ALL.iter().map(|reason| reason.name());
        let drops = drops.filter(|name| is_large && !is_unreached(name) && !seen(&self.verdicts, name));
        faults.chain(outcomes).chain(rare).chain(lines).chain(drops).collect()
    }
}

/// Every answer that a correct world gives.
const OUTCOMES: &[&str] = &[
    "granted by switch",
    "granted by agent",
    "granted locally",
    "held at home",
    "lent",
    "taken along",
    "overtaken",
    "overtaken no more",
    "rank handed over",
    "busy",
    "timed out",
    "cancelled",
    "downgraded",
    "several asked",
    "several granted",
    "lost with the session",
    "session lost",
    "left",
    "session ended",
    "dismissed",
    "keys rotated",
    "slot frozen",
    "slot adopted",
    "slot recovered unheld",
    "epoch raised",
    "refused: no handle",
    "refused: other shards",
    "store failed",
    "controller not started",
    "decided between two steps",
    "promoted",
    "demoted",
    "moved to another switch",
    "handed over",
    "took over",
    "followed a turn",
    "over budget",
    "told over budget",
];

/// Those that take many seeds.
const RARE_OUTCOMES: &[&str] = &["last sequence of a tenure", "not asked: too many", "not asked: out of ids"];

/// And such lines of the decision table.
const RARE_LINES: &[&str] = &[
    "ACQUIRE, holder expired when the slot was won: undone",
    "ACQUIRE, holder expired, slot has moved on: GAP",
    "ACQUIRE shared, OPEN, holder expired when it had joined: JOIN alone",
    "ACQUIRE shared, OPEN, 4,095 joins: forwarded",
    "RETENURE transfer, heir expired when it was won: GAP",
    "RELEASE, CANCEL or DOWNGRADE, last tenure: GAP",
    "RETENURE, last tenure: GAP",
];

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:.6} s: {}", self.invariant, self.at as f64 / 1e6, self.story)
    }
}
