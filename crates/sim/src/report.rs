//! What a run did, and what a batch of runs did together.

use std::collections::BTreeMap;
use std::fmt;

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
    /// Over every event in order: the same seed gives the same.
    pub trace_hash: u64,
    /// Packets put on the wire.
    pub packets: u64,
    /// Locks asked for.
    pub operations: u64,
    /// World time that passed, in microseconds.
    pub duration: u64,
    /// Faults that fired.
    pub faults: Counts,
    /// What nodes and applications were told.
    pub outcomes: Counts,
    /// The switch's own counters, over all its lives.
    pub verdicts: Counts,
    /// The first invariant that broke.
    pub failure: Option<Failure>,
}

impl Outcome {
    /// The command that runs it again, step by step.
    pub fn replay(&self) -> String {
        format!("cargo run --release -p wayside-sim -- --seed {} --trace", self.seed)
    }

    /// Adds another run's counts.
    pub fn add(&mut self, other: &Outcome) {
        self.packets += other.packets;
        self.operations += other.operations;
        self.duration += other.duration;
        for (to, from) in [
            (&mut self.faults, &other.faults),
            (&mut self.outcomes, &other.outcomes),
            (&mut self.verdicts, &other.verdicts),
        ] {
            for (name, count) in from {
                *to.entry(name).or_default() += count;
            }
        }
    }

    /// What a batch must have seen at least once to mean anything, and has not.
    pub fn missing(&self) -> Vec<&'static str> {
        let seen = |name: &&str| {
            [&self.faults, &self.outcomes, &self.verdicts]
                .iter()
                .any(|counts| counts.get(*name).is_some_and(|n| *n > 0))
        };
        MUST_SEE.iter().copied().filter(|name| !seen(name)).collect()
    }
}

/// Every fault, every answer, every decision of the switch that a correct world reaches.
const MUST_SEE: &[&str] = &[
    "lost",
    "join lost",
    "duplicated",
    "replayed",
    "corrupted",
    "bits flipped",
    "forged",
    "late",
    "partition",
    "crash",
    "pause",
    "leave",
    "controller restart",
    "switch restart",
    "granted by switch",
    "granted by agent",
    "granted locally",
    "busy",
    "timed out",
    "cancelled",
    "downgraded",
    "lost with the session",
    "session lost",
    "left",
    "session ended",
    "keys rotated",
    "slot frozen",
    "slot adopted",
    "slot recovered unheld",
    "epoch raised",
    "granted",
    "joined",
    "closed",
    "forwarded",
    "recovering",
    "released",
    "freed",
    "transferred",
    "transfer_repeated",
    "renewed",
    "reopened",
    "claimed",
    "retenure_refused",
    "retenure_stale",
    "relayed",
    "heartbeat",
    "session_over",
    "stale_epoch",
    "stale_request",
    "holder_not_live",
    "bad_tag",
];

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:.6} s: {}", self.invariant, self.at as f64 / 1e6, self.story)
    }
}
