//! Which lines of the switch's decision table (docs/protocol.md, "Messages") were reached: what a packet asked for, in
//! which state its slot was, and what was decided. Whatever a correct world can reach must be reached by a batch.

use wayside_protocol::Handle;
use wayside_protocol::memory::{SlotWord, SwitchMemory};
use wayside_switch::{Action, Verdict};
use wayside_wire::{
    Attempt, BODY, DropReason, Entry, Header, Policy, SlotBits, SlotState, check, entry_flag, header_flag, kind,
    limits, service,
};

use crate::report::Counts;
use crate::seat::SharedSwitch;

macro_rules! lines {
    ($($line:ident $name:literal)*) => {
        #[derive(Clone, Copy, PartialEq, Eq)]
        enum Line { $($line),* }

        /// Every line, as a report names it.
        pub const LINES: &[&str] = &[$($name),*];
    };
}

lines! {
    GrantExclusive "ACQUIRE exclusive, UNHELD: GRANT"
    GrantShared "ACQUIRE shared, UNHELD: GRANT"
    Undone "ACQUIRE, holder expired when the slot was won: undone"
    NotUndone "ACQUIRE, holder expired, slot has moved on: GAP"
    Join "ACQUIRE shared, OPEN: joined"
    JoinOther "ACQUIRE shared of another name, OPEN: joined, not tryable"
    JoinDead "ACQUIRE shared, OPEN, holder expired when it had joined: JOIN alone"
    Saturated "ACQUIRE shared, OPEN, 4,095 joins: forwarded"
    TryBusy "ACQUIRE try, held by its name: BUSY"
    TryForwarded "ACQUIRE try, not tryable or of another name: forwarded"
    AgentDead "ACQUIRE, agent not LIVE: dropped"
    Closed "ACQUIRE exclusive, OPEN: closed, forwarded"
    ReadersFirst "ACQUIRE exclusive, OPEN, readers first: forwarded"
    Forwarded "ACQUIRE, MANAGED: forwarded"
    AcquireFrozen "ACQUIRE, FROZEN: RECOVERING"
    AcquireRecovering "ACQUIRE, switch recovering: RECOVERING"
    AcquireExhausted "ACQUIRE, last tenure: GAP"
    Hopped "ACQUIRE, 8 hops: BUSY, RETRY"
    BatchWhole "ACQUIRE of several: all granted"
    BatchPart "ACQUIRE of several: granted up to one that is held"
    BatchNone "ACQUIRE of several: the first is held"
    ReleaseUnheld "RELEASE, CANCEL or DOWNGRADE, UNHELD: RELEASED"
    ReleaseForwarded "RELEASE, held: forwarded"
    CancelForwarded "CANCEL, held: forwarded"
    DowngradeForwarded "DOWNGRADE, held: forwarded"
    ReleaseFrozen "RELEASE, CANCEL or DOWNGRADE, FROZEN: RECOVERING"
    ReleaseRecovering "RELEASE, CANCEL or DOWNGRADE, switch recovering: RECOVERING"
    ReleaseExhausted "RELEASE, CANCEL or DOWNGRADE, last tenure: GAP"
    ReleaseAgentDead "RELEASE, CANCEL or DOWNGRADE, agent not LIVE: dropped"
    Freed "RETENURE free: APPLIED"
    Transferred "RETENURE transfer: GRANT to the heir"
    TransferredQueue "RETENURE transfer with waiters: GRANT to the heir"
    Renewed "RETENURE renew: APPLIED"
    Reopened "RETENURE reopen: APPLIED"
    Refused "RETENURE, joins differ: REFUSED"
    HeirDead "RETENURE transfer, heir not LIVE: REFUSED, DEAD"
    HeirExpired "RETENURE transfer, heir expired when it was won: GAP"
    Claimed "RETENURE claim: APPLIED"
    ClaimRepeated "RETENURE claim, its own result: APPLIED again"
    TransferRepeated "RETENURE transfer, its own result: GRANT again"
    RetenureFrozen "RETENURE, FROZEN: RECOVERING"
    RetenureRecovering "RETENURE, switch recovering: RECOVERING"
    RetenureExhausted "RETENURE, last tenure: GAP"
    RetenureStale "RETENURE, another tenure or agent: STALE"
    FreedQuietly "FREE, QUIET: not answered"
    FreedOne "FREE: FREED"
    FreedSeveral "FREE of several: FREED"
    FreeOver "FREE, another tenure, agent or joins: FREED as it is"
    FreeRecovering "FREE, switch recovering: RECOVERING"
    Heartbeat "HEARTBEAT, LIVE, sequence higher: taken"
    HeartbeatOver "HEARTBEAT, not LIVE: EXPIRED"
    Relayed "from node to node: relayed"
    ToController "to the controller"
    ToldStale "another epoch: STALE"
}

/// Drops of the core that nobody causes who behaves, with the reason why.
pub const UNREACHED_DROPS: &[(&str, &str)] = &[
    ("none", "is not a drop"),
    ("unknown_namespace", "nodes keep to the namespace of their session, and a changed one has a wrong tag"),
    ("unknown_source", "the switch knows a session before its node does, but in two of 800,000 seeds: bad.cases"),
    ("bad_slot", "nodes know how many slots there are"),
    ("foreign_holder", "nodes speak for nodes of their namespace"),
    ("bad_state", "nodes ask for no such change"),
    ("lost_race", "takes 8 others between the steps of one decision: dataplane/cases/races.cases"),
    ("no_key", "needs a host that is let in no more: crates/daemon/tests/processes/enrolment.rs"),
    ("unknown_group", "is the chain service's, whose packets are dropped as of an unknown service"),
    ("wrong_place", "the same"),
    ("bad_value", "the same"),
    ("bad_lane", "the same"),
    ("no_server", "is the queue service's: queues.rs asks its own batches for it"),
    ("not_its_server", "the same"),
    ("no_queue", "the same"),
];

/// What a packet asks for, and of what: to be known before it becomes its answer.
pub struct Asked {
    /// Who sends it.
    pub source: Handle,
    /// What it is, if it is whole.
    pub header: Option<Header>,
    /// Of the queue service.
    pub attempt: Attempt,
    entry: Entry,
    /// Of the lock service: the slot before.
    pub slot: SlotWord,
    policy: Policy,
    serving: bool,
}

impl Asked {
    /// A packet that is to be decided on.
    pub fn of(packet: &[u8], switch: &SharedSwitch) -> Asked {
        let source = Header::read(packet).map_or(0, |header| header.source);
        let mut asked = Asked {
            source,
            header: check(packet).ok(),
            attempt: Attempt::default(),
            entry: Entry::default(),
            slot: SlotWord::unheld(0),
            policy: Policy::Fair,
            serving: switch.serving(),
        };
        if asked.header.is_some_and(|header| header.service == service::QUEUE) {
            asked.attempt = Attempt::read(packet, BODY);
        }
        let Some(header) = asked.header.filter(|header| header.service == service::LOCK) else { return asked };
        asked.entry = Entry::read(packet, BODY);
        if let Some(space) = switch.namespaces().iter().find(|space| space.id == header.namespace)
            && asked.entry.slot < space.slots
        {
            asked.slot = switch.load_slot(space.id, asked.entry.slot);
            asked.policy = space.policy;
        }
        asked
    }
}

/// How often each line was reached.
pub struct Decisions([u64; LINES.len()]);

impl Default for Decisions {
    fn default() -> Decisions {
        Decisions([0; LINES.len()])
    }
}

impl Decisions {
    /// A decision.
    pub fn note(&mut self, asked: &Asked, verdict: &Verdict, answer: &[u8]) {
        let Some(header) = &asked.header else { return };
        let line = match (header.service, header.kind) {
            (service::FABRIC, kind::fabric::HEARTBEAT) => heartbeat(verdict, answer),
            (service::FABRIC, _) => (verdict.action == Action::ToController).then_some(Line::ToController),
            (service::QUEUE, _) => return,
            (_, _) if verdict.reason == DropReason::StaleEpoch => {
                (verdict.action == Action::ToSender).then_some(Line::ToldStale)
            }
            (_, kind::lock::ACQUIRE) => acquire(asked, header, verdict, answer),
            (_, kind::lock::RELEASE | kind::lock::CANCEL | kind::lock::DOWNGRADE) => {
                release(asked, header, verdict, answer)
            }
            (_, kind::lock::RETENURE) => retenure(asked, header, verdict, answer),
            (_, kind::lock::FREE) => free(asked, header, verdict, answer),
            _ => match verdict.action {
                Action::ToNode { .. } => Some(Line::Relayed),
                Action::ToController => Some(Line::ToController),
                _ => None,
            },
        };
        if let Some(line) = line {
            self.0[line as usize] += 1;
        }
    }

    /// Adds them to others.
    pub fn add_to(&self, counts: &mut Counts) {
        for (name, count) in LINES.iter().zip(self.0) {
            *counts.entry(name).or_default() += count;
        }
    }
}

fn heartbeat(verdict: &Verdict, answer: &[u8]) -> Option<Line> {
    if verdict.action != Action::ToSender || verdict.reason != DropReason::None {
        return None;
    }
    let flags = Header::read(answer).ok()?.flags;
    Some(if flags & header_flag::EXPIRED != 0 { Line::HeartbeatOver } else { Line::Heartbeat })
}

fn acquire(asked: &Asked, header: &Header, verdict: &Verdict, answer: &[u8]) -> Option<Line> {
    match verdict.reason {
        DropReason::NotGranted => return Some(Line::Undone),
        DropReason::DestinationNotLive => return Some(Line::AgentDead),
        DropReason::None => {}
        _ => return None,
    }
    let (after, first) = (Header::read(answer).ok()?, Entry::read(answer, BODY));
    let shared = asked.entry.flags & entry_flag::EXCLUSIVE == 0;
    let tries = asked.entry.flags & entry_flag::TRY != 0;
    let open = asked.slot.state == SlotState::Open;
    Some(match after.kind {
        kind::lock::GRANT if header.count > 1 => {
            let granted = wayside_wire::entries(answer).filter(|entry| entry.flags & entry_flag::AGENCY != 0).count();
            match granted {
                0 => Line::BatchNone,
                all if all == usize::from(header.count) => Line::BatchWhole,
                _ => Line::BatchPart,
            }
        }
        kind::lock::GRANT if first.flags & entry_flag::JOINED != 0 => {
            if SlotBits::from_u16(first.slot_bits).tryable {
                Line::Join
            } else {
                Line::JoinOther
            }
        }
        kind::lock::GRANT => {
            if shared {
                Line::GrantShared
            } else {
                Line::GrantExclusive
            }
        }
        kind::lock::JOIN => Line::JoinDead,
        kind::lock::BUSY if after.flags & header_flag::RETRY != 0 => Line::Hopped,
        kind::lock::BUSY => Line::TryBusy,
        kind::lock::RECOVERING => {
            if asked.serving {
                Line::AcquireFrozen
            } else {
                Line::AcquireRecovering
            }
        }
        kind::lock::GAP if first.tenure == limits::MAX_TENURE => Line::AcquireExhausted,
        kind::lock::GAP => Line::NotUndone,
        kind::lock::ACQUIRE if tries => Line::TryForwarded,
        kind::lock::ACQUIRE if open && shared && asked.slot.joins == limits::MAX_JOINS => Line::Saturated,
        kind::lock::ACQUIRE if open && asked.policy == Policy::ReadPreferring => Line::ReadersFirst,
        kind::lock::ACQUIRE if open => Line::Closed,
        kind::lock::ACQUIRE => Line::Forwarded,
        _ => return None,
    })
}

fn release(asked: &Asked, header: &Header, verdict: &Verdict, answer: &[u8]) -> Option<Line> {
    match verdict.reason {
        DropReason::DestinationNotLive => return Some(Line::ReleaseAgentDead),
        DropReason::None => {}
        _ => return None,
    }
    Some(match Header::read(answer).ok()?.kind {
        kind::lock::RELEASED => Line::ReleaseUnheld,
        kind::lock::RECOVERING => {
            if asked.serving {
                Line::ReleaseFrozen
            } else {
                Line::ReleaseRecovering
            }
        }
        kind::lock::GAP => Line::ReleaseExhausted,
        kind::lock::RELEASE => Line::ReleaseForwarded,
        kind::lock::CANCEL => Line::CancelForwarded,
        kind::lock::DOWNGRADE => Line::DowngradeForwarded,
        _ => return (header.kind == kind::lock::ACQUIRE).then_some(Line::Forwarded),
    })
}

fn free(asked: &Asked, header: &Header, verdict: &Verdict, answer: &[u8]) -> Option<Line> {
    if verdict.reason != DropReason::None {
        return None;
    }
    if verdict.action == Action::Drop {
        return Some(Line::FreedQuietly);
    }
    if Header::read(answer).ok()?.kind == kind::lock::RECOVERING {
        return Some(Line::FreeRecovering);
    }
    let is_first_freed =
        asked.slot.held() && asked.slot.tenure.checked_add(1) == Some(Entry::read(answer, BODY).tenure);
    Some(match header.count {
        _ if !is_first_freed => Line::FreeOver,
        1 => Line::FreedOne,
        _ => Line::FreedSeveral,
    })
}

fn retenure(asked: &Asked, header: &Header, verdict: &Verdict, answer: &[u8]) -> Option<Line> {
    if verdict.reason != DropReason::None || verdict.action == Action::Drop {
        return None;
    }
    let after = Header::read(answer).ok()?;
    let wanted = SlotBits::from_u16(asked.entry.slot_bits);
    let claims = header.flags & header_flag::CLAIM != 0;
    let is_result = asked.slot.tenure == asked.entry.tenure.wrapping_add(1);
    Some(match after.kind {
        kind::lock::GRANT if is_result => Line::TransferRepeated,
        kind::lock::GRANT if header.position > 0 => Line::TransferredQueue,
        kind::lock::GRANT => Line::Transferred,
        kind::lock::GAP if Entry::read(answer, BODY).tenure == limits::MAX_TENURE => Line::RetenureExhausted,
        kind::lock::GAP => Line::HeirExpired,
        kind::lock::RECOVERING => {
            if asked.serving {
                Line::RetenureFrozen
            } else {
                Line::RetenureRecovering
            }
        }
        kind::lock::RETENURED if after.flags & header_flag::STALE_TENURE != 0 => Line::RetenureStale,
        kind::lock::RETENURED if after.flags & header_flag::DEAD != 0 => Line::HeirDead,
        kind::lock::RETENURED if after.flags & header_flag::REFUSED != 0 => Line::Refused,
        kind::lock::RETENURED if claims && is_result => Line::ClaimRepeated,
        kind::lock::RETENURED if claims => Line::Claimed,
        kind::lock::RETENURED if wanted.state == SlotState::Unheld => Line::Freed,
        kind::lock::RETENURED if wanted.state == SlotState::Open => Line::Reopened,
        kind::lock::RETENURED => Line::Renewed,
        _ => return None,
    })
}
