//! The core with a condition missing. The core itself is never built that way: a packet is rewritten on its way in so
//! that the condition holds, which comes to the same; or the slot is, before the decision or after it.

use wayside_protocol::Handle;
use wayside_protocol::memory::{SlotWord, SwitchMemory};
use wayside_protocol::seal::{Direction, Period};
use wayside_wire::{Attempt, BODY, Entry, Header, SlotBits, SlotState, check, entry_at, kind, service};

use crate::seat::{Disk, SharedSwitch};

/// A condition that the core does not check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreMutant {
    /// Packets of every epoch are taken.
    AnyEpoch,
    /// A RETENURE or FREE need not name the tenure.
    AnyTenure,
    /// Nor know all joins.
    AnyJoins,
    /// Nor come from the agent.
    AnyAgent,
    /// A request may hop for ever.
    AnyHops,
    /// A batch goes on behind a slot that is held.
    BatchGoesOn,
    /// A RELEASE of a slot that nobody holds makes it held, by agent 0.
    SeizeByRelease,
    /// An exclusive request leaves its slot OPEN, whose agent is told that it decides alone.
    StayOpen,
    /// The holder's word is not read again after a slot was won for it.
    NoSecondLook,
    /// It goes on when its serving lease is over.
    NoServingLease,
    /// A switch hands over while it decides.
    HandBusy,
    /// A packet need not be signed.
    AnyTag,
    /// The JOIN that goes with a GRANT is signed for the GRANT's receiver.
    CopyForHolder,
    /// Queue: a RELEASE takes the oldest holder out, whatever it names.
    AnyTicket,
    /// Queue: what a third node says goes to whoever holds, whichever request it names.
    AnyFetched,
    /// Queue: every PUSH is the next one.
    AnyNumber,
    /// Queue: whatever a lock server says, it has nothing more.
    AnySettled,
    /// Queue: a lock is handed to its server while somebody holds it.
    HandHeld,
    /// Queue: the cells of a queue that drains are another one's.
    ReuseRegion,
    /// Chain: no lane knows its latest request: a write that is sent again is another write.
    ForgetLanes,
    /// Chain: a lane takes requests that came before its latest.
    OlderRequests,
    /// Chain: a switch takes versions that are older than its own.
    AnyVersion,
    /// Chain: what was overtaken is not passed on.
    DropOvertaken,
    /// Chain: sequences have 16 bits.
    ShortSequences,
    /// Chain: the head answers what failed.
    AnswerAtHead,
    /// Chain: any switch of a chain answers reads.
    ReadAnywhere,
    /// Chain: packets of every epoch of a group are taken.
    AnyGroupEpoch,
    /// Chain: a write is decided whatever epoch it was first sent in.
    AnyFirstEpoch,
    /// Chain: a switch goes on when its serving lease is over.
    NoChainLease,
}

impl CoreMutant {
    /// Whether it is the chain service's, whose worlds tamper by themselves.
    pub fn is_of_chain(self) -> bool {
        matches!(
            self,
            CoreMutant::ForgetLanes
                | CoreMutant::OlderRequests
                | CoreMutant::AnyVersion
                | CoreMutant::DropOvertaken
                | CoreMutant::ShortSequences
                | CoreMutant::AnswerAtHead
                | CoreMutant::ReadAnywhere
                | CoreMutant::AnyGroupEpoch
                | CoreMutant::AnyFirstEpoch
                | CoreMutant::NoChainLease
        )
    }
}

/// Makes the packet fulfil the condition.
pub fn fulfil(mutant: CoreMutant, switch: &SharedSwitch, disk: &Disk, packet: &mut [u8]) {
    let Ok(mut header) = check(packet) else { return };
    let is_lock = |kinds: &[u8]| header.service == service::LOCK && kinds.contains(&header.kind);
    match mutant {
        CoreMutant::AnyTag => {}
        CoreMutant::AnyEpoch => {
            header.epoch = switch.epoch();
            header.write(packet);
        }
        CoreMutant::AnyHops if is_lock(HOPPING) && header.position > 1 => {
            header.position = 1;
            header.write(packet);
        }
        CoreMutant::BatchGoesOn if is_lock(&[kind::lock::ACQUIRE]) && header.count > 1 => {
            unheld_first(switch, &header, packet);
        }
        CoreMutant::SeizeByRelease if is_lock(&[kind::lock::RELEASE]) => {
            return rewrite_slot(switch, &header, packet, |slot| {
                let state = if slot.state == SlotState::Unheld { SlotState::Managed } else { slot.state };
                SlotWord { state, ..slot }
            });
        }
        CoreMutant::AnyTenure | CoreMutant::AnyJoins | CoreMutant::AnyAgent if is_lock(&[kind::lock::RETENURE]) => {
            change(mutant, switch, &mut header, packet, BODY);
        }
        CoreMutant::AnyTenure | CoreMutant::AnyJoins | CoreMutant::AnyAgent if is_lock(&[kind::lock::FREE]) => {
            (0..usize::from(header.count)).for_each(|i| change(mutant, switch, &mut header, packet, entry_at(i)));
        }
        CoreMutant::AnyTicket | CoreMutant::AnyFetched | CoreMutant::AnyNumber | CoreMutant::AnySettled
            if header.service == service::QUEUE =>
        {
            line_up(mutant, switch, &mut header, packet);
        }
        _ => return,
    }
    sign(switch, disk, header.source, Direction::Up, packet);
}

/// [`CoreMutant::StayOpen`], once the switch has sent a request on that closed its slot: nothing else leaves a slot
/// MANAGED and an ACQUIRE for its agent, unless it was MANAGED before. `was`: the slot before.
pub fn reopen(switch: &SharedSwitch, was: SlotWord, packet: &[u8]) {
    let Ok(header) = check(packet) else { return };
    if (header.service, header.kind) == (service::LOCK, kind::lock::ACQUIRE) && was.state == SlotState::Open {
        let closed = SlotWord { state: SlotState::Managed, ..was };
        rewrite_slot(switch, &header, packet, |slot| if slot == closed { was } else { slot });
    }
}

/// Changes the slot that a packet is about.
fn rewrite_slot(switch: &SharedSwitch, header: &Header, packet: &[u8], change: impl FnOnce(SlotWord) -> SlotWord) {
    let entry = Entry::read(packet, BODY);
    if entry.slot < switch.slot_count(header.namespace) {
        let slot = switch.load_slot(header.namespace, entry.slot);
        switch.cas_slot(header.namespace, entry.slot, slot, change(slot));
    }
}

/// Requests that an agent's node sends back to the switch if it is not the agent.
const HOPPING: &[u8] = &[kind::lock::ACQUIRE, kind::lock::RELEASE, kind::lock::CANCEL, kind::lock::DOWNGRADE];

/// A RETENURE, or an entry of a FREE, as the slot wants it.
fn change(mutant: CoreMutant, switch: &SharedSwitch, header: &mut Header, packet: &mut [u8], at: usize) {
    let mut entry = Entry::read(packet, at);
    if entry.slot >= switch.slot_count(header.namespace) {
        return;
    }
    let slot = switch.load_slot(header.namespace, entry.slot);
    match mutant {
        CoreMutant::AnyAgent if slot.agent != 0 => {
            if header.kind == kind::lock::FREE {
                entry.holder = slot.agent;
                entry.write(packet, at);
            }
            header.source = slot.agent;
            return header.write(packet);
        }
        CoreMutant::AnyAgent => return,
        CoreMutant::AnyTenure => entry.tenure = slot.tenure,
        _ => {}
    }
    entry.slot_bits = SlotBits { joins: slot.joins, ..SlotBits::from_u16(entry.slot_bits) }.to_u16();
    entry.write(packet, at);
}

/// A packet of the queue service as the queue wants it.
fn line_up(mutant: CoreMutant, switch: &SharedSwitch, header: &mut Header, packet: &mut [u8]) {
    let mut attempt = Attempt::read(packet, BODY);
    let switch = switch.now();
    let Some(queue) = switch.queue(header.namespace, attempt.name) else { return };
    let from_server = [kind::queue::PUSH, kind::queue::SETTLE].contains(&header.kind);
    match mutant {
        CoreMutant::AnyFetched if header.kind == kind::queue::FETCHED => {
            let holds = switch.queued(header.namespace, attempt.name).into_iter().find(|first| first.holds);
            let Some(first) = holds else { return };
            (attempt.request, attempt.ticket, attempt.holder) = (first.request.0, first.ticket, first.holder);
        }
        CoreMutant::AnyTicket if header.kind == kind::queue::RELEASE => {
            let Some(first) = switch.queued(header.namespace, attempt.name).into_iter().find(|first| first.holds)
            else {
                return;
            };
            (attempt.request, attempt.ticket, attempt.holder) = (first.request.0, first.ticket, first.holder);
            header.source = first.holder;
        }
        CoreMutant::AnyNumber if header.kind == kind::queue::PUSH => attempt.number = queue.pushed + 1,
        CoreMutant::AnySettled if from_server => attempt.order = queue.given,
        _ => return,
    }
    attempt.write(packet, BODY);
    header.write(packet);
}

/// A batch in an order in which nothing stops it.
fn unheld_first(switch: &SharedSwitch, header: &Header, packet: &mut [u8]) {
    let count = usize::from(header.count);
    let mut entries: Vec<Entry> = (0..count).map(|index| Entry::read(packet, entry_at(index))).collect();
    if entries.iter().any(|entry| entry.slot >= switch.slot_count(header.namespace)) {
        return;
    }
    entries.sort_by_key(|entry| switch.load_slot(header.namespace, entry.slot).state != SlotState::Unheld);
    for (index, entry) in entries.iter().enumerate() {
        entry.write(packet, entry_at(index));
    }
}

/// [`CoreMutant::CopyForHolder`]: the JOIN's source is its holder.
pub fn sign_for_holder(switch: &SharedSwitch, disk: &Disk, join: &mut [u8]) {
    let Ok(header) = check(join) else { return };
    sign(switch, disk, header.source, Direction::Down, join);
}

/// As the switch's present keys of this handle do.
fn sign(switch: &SharedSwitch, disk: &Disk, handle: Handle, direction: Direction, packet: &mut [u8]) {
    let record = disk.session(handle).filter(|_| switch.authenticated());
    let Some((record, secret)) = record.and_then(|record| Some((record, record.secret?))) else { return };
    let period = Period { incarnation: record.incarnation, epoch: switch.epoch(), rotation: switch.rotation(handle) };
    secret.key(direction, period).sign(period.rotation, packet);
}
