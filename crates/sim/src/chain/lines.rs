//! Which lines of the table of docs/chain.md were reached. Whatever a correct world can reach must be reached by a
//! batch.

use wayside_protocol::chain::Key;
use wayside_switch::{Action, Verdict};
use wayside_wire::{BODY, DropReason, Effect, Outcome, check, kind, value_flag};

use crate::report::Counts;
use crate::tally::Tally;

/// What a packet asks for: to be known before it becomes its answer.
pub struct Asked {
    pub(super) kind: Option<u8>,
    /// Its group and key.
    pub(super) key: Option<(u16, Key)>,
}

/// How often each line was reached.
#[derive(Default)]
pub struct Lines(Tally);

/// Every line, as a report names it.
pub const LINES: &[&str] = &[
    "READ: done, with a value",
    "READ: done, without a value",
    "READ: missing",
    "READ: moved",
    "READ: recovering",
    "WRITE: moved",
    "WRITE: recovering",
    "WRITE: unsure",
    "APPLY: dropped: not_serving",
    "APPLY: dropped: stale_epoch",
    "APPLY: dropped: wrong_place",
    "WRITE: on, done",
    "WRITE: on, unmet",
    "WRITE alone: done",
    "WRITE alone: unmet",
    "WRITE: missing",
    "WRITE: no room",
    "WRITE: dropped: stale_request",
    "WRITE: dropped: lost_race",
    "DELETE: on, done",
    "DELETE: on, unmet",
    "DELETE alone: done",
    "DELETE: missing",
    "APPLY: on",
    "APPLY: answered done",
    "APPLY: answered unmet",
    "APPLY: missing",
    "APPLY: dropped: lost_race",
    "INSERT: to the daemon",
    "INSTALL: to the daemon",
    "MAP: to the daemon",
    "WATCH: to the daemon",
    "WATCH: moved",
    "WATCH: recovering",
];

/// Those that take many seeds.
pub const RARE: &[&str] = &["APPLY: dropped: lost_race"];

/// Faults that a batch must have seen.
pub const FAULTS: &[&str] = &[
    "lost",
    "chosen",
    "duplicated",
    "replayed",
    "corrupted",
    "flipped",
    "forged",
    "late",
    "partition",
    "crash",
    "pause",
    "stall",
    "overlap",
    "flood",
    "controller",
    "switch",
    "store",
    "drain",
];

/// Every answer that a correct world gives.
pub const OUTCOMES: &[&str] = &[
    "done",
    "done with a value",
    "unmet",
    "unmet, not shown any more",
    "refused: full",
    "refused: collision",
    "named",
    "timed out",
    "given up",
    "key made",
    "key removed",
    "key removed behind the head",
    "lease ended",
    "full",
    "collision",
    "decided between two steps",
    "unsure",
    "chain active",
    "switch left out",
    "switch joins",
    "no room for a group",
    "store failed",
    "watch begun",
    "event told",
    "reread told",
    "watch moved",
    "journal overrun",
];

impl Lines {
    /// A decision.
    pub fn note(&mut self, asked: &Asked, verdict: &Verdict, answer: &[u8]) {
        let Some(kind) = asked.kind else { return };
        if verdict.action == Action::Drop {
            if let Some(line) = dropped(kind, verdict.reason) {
                self.0.count(line);
            }
            return;
        }
        let Ok(header) = check(answer) else { return };
        if verdict.action == Action::ToController {
            return match kind {
                kind::chain::INSERT => self.0.count("INSERT: to the daemon"),
                kind::chain::INSTALL => self.0.count("INSTALL: to the daemon"),
                kind::chain::WATCH => self.0.count("WATCH: to the daemon"),
                _ => self.0.count("MAP: to the daemon"),
            };
        }
        let effect = Effect::read(answer, BODY);
        let Ok(outcome) = Outcome::try_from(effect.outcome) else { return };
        let present = effect.flags & value_flag::PRESENT != 0;
        let goes_on = header.kind == kind::chain::APPLY;
        let line = match (kind, outcome) {
            (kind::chain::READ, Outcome::Done) if present => "READ: done, with a value",
            (kind::chain::READ, Outcome::Done) => "READ: done, without a value",
            (kind::chain::READ, Outcome::Missing) => "READ: missing",
            (kind::chain::READ, Outcome::Moved) => "READ: moved",
            (kind::chain::READ, Outcome::Recovering) => "READ: recovering",
            (kind::chain::WRITE, Outcome::Done) if goes_on => "WRITE: on, done",
            (kind::chain::WRITE, Outcome::Unmet) if goes_on => "WRITE: on, unmet",
            (kind::chain::WRITE, Outcome::Done) => "WRITE alone: done",
            (kind::chain::WRITE, Outcome::Unmet) => "WRITE alone: unmet",
            (kind::chain::WRITE, Outcome::Missing) => "WRITE: missing",
            (kind::chain::WRITE, Outcome::NoRoom) => "WRITE: no room",
            (kind::chain::WRITE, Outcome::Moved) => "WRITE: moved",
            (kind::chain::WRITE, Outcome::Unsure) => "WRITE: unsure",
            (kind::chain::WRITE, Outcome::Recovering) => "WRITE: recovering",
            (kind::chain::DELETE, Outcome::Done) if goes_on => "DELETE: on, done",
            (kind::chain::DELETE, Outcome::Unmet) if goes_on => "DELETE: on, unmet",
            (kind::chain::DELETE, Outcome::Done) => "DELETE alone: done",
            (kind::chain::DELETE, Outcome::Missing) => "DELETE: missing",
            (kind::chain::WATCH, Outcome::Moved) => "WATCH: moved",
            (kind::chain::WATCH, Outcome::Recovering) => "WATCH: recovering",
            (kind::chain::APPLY, _) if goes_on => "APPLY: on",
            (kind::chain::APPLY, Outcome::Done) => "APPLY: answered done",
            (kind::chain::APPLY, Outcome::Unmet) => "APPLY: answered unmet",
            (kind::chain::APPLY, Outcome::Missing) => "APPLY: missing",
            _ => return,
        };
        self.0.count(line);
    }

    /// Adds them to others.
    pub fn add_to(&self, counts: &mut Counts) {
        self.0.add_to(counts);
    }
}

fn dropped(kind: u8, reason: DropReason) -> Option<&'static str> {
    Some(match (kind, reason) {
        (kind::chain::WRITE, DropReason::StaleRequest) => "WRITE: dropped: stale_request",
        (kind::chain::WRITE, DropReason::LostRace) => "WRITE: dropped: lost_race",
        (kind::chain::APPLY, DropReason::LostRace) => "APPLY: dropped: lost_race",
        (kind::chain::APPLY, DropReason::StaleEpoch) => "APPLY: dropped: stale_epoch",
        (kind::chain::APPLY, DropReason::WrongPlace) => "APPLY: dropped: wrong_place",
        (kind::chain::APPLY, DropReason::NotServing) => "APPLY: dropped: not_serving",
        _ => return None,
    })
}
