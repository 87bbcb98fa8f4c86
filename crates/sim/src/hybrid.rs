//! What a batch of worlds must have seen in which some locks are queues, and all others are not: what either engine
//! does, and what they do together.

use crate::report::Counts;

/// Of faults,
const FAULTS: &[&str] = &[
    "lost",
    "chosen",
    "join-lost",
    "duplicated",
    "replayed",
    "corrupted",
    "flipped",
    "forged",
    "late",
    "partition",
    "crash",
    "pause",
    "leave",
    "controller",
    "switch",
    "store",
    "stall",
    "drain",
    "hand-over",
    "mute",
    "move",
    "policy",
    "aged",
    "budget",
    "flood",
];

/// of what nodes and applications were told,
const OUTCOMES: &[&str] = &[
    "granted by switch",
    "granted by agent",
    "granted locally",
    "granted with a row",
    "granted alone",
    "held at home",
    "rank handed over",
    "overtaken",
    "busy",
    "timed out",
    "cancelled",
    "downgraded",
    "several asked",
    "several granted",
    "several of both asked",
    "lost with the session",
    "session lost",
    "left",
    "epoch raised",
    "took over",
    "followed a turn",
    "another list",
    "slot frozen",
    "slot adopted",
    "lock server appointed",
    "part failed over",
    "served in order",
    "granted with time to spare",
    "left the switch for its priorities",
    "came back to the switch",
    "promoted",
    "demoted",
    "over budget",
    "told over budget",
];

/// and of what switches did.
const VERDICTS: &[&str] = &[
    "queue_granted",
    "queue_granted_again",
    "queue_waiting",
    "queue_released",
    "queue_overflowed",
    "queue_passed",
    "queue_pushed",
    "copied",
    "no_server",
    "lock moved to the switch",
    "lock moved to its server",
];

/// Those of all these that a batch has not seen.
pub fn missing(faults: &Counts, outcomes: &Counts, verdicts: &Counts) -> Vec<&'static str> {
    let lists = [(FAULTS, faults), (OUTCOMES, outcomes), (VERDICTS, verdicts)];
    let unseen = lists.into_iter().flat_map(|(names, counts)| {
        names.iter().copied().filter(|name| counts.get(name).is_none_or(|count| *count == 0))
    });
    unseen.collect()
}
