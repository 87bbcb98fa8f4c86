//! The core with a condition missing. The core itself is never built that way: a packet is rewritten on its way in so
//! that the condition holds, which comes to the same.

use wayside_protocol::Handle;
use wayside_protocol::memory::SwitchMemory;
use wayside_protocol::seal::{Direction, Period};
use wayside_wire::{BODY, Entry, SlotBits, check, kind, service};

use crate::seat::{Disk, SharedSwitch};

/// A condition that the core does not check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreMutant {
    /// Packets of every epoch are taken.
    AnyEpoch,
    /// A RETENURE need not name the tenure.
    AnyTenure,
    /// A RETENURE need not know all joins.
    AnyJoins,
    /// The holder's word is not read again after a slot was won for it.
    NoSecondLook,
    /// It goes on when its serving lease is over.
    NoServingLease,
    /// A packet need not be signed.
    AnyTag,
    /// The JOIN that goes with a GRANT is signed for the GRANT's receiver.
    CopyForHolder,
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
    if matches!(
        mutant,
        CoreMutant::AnyTag | CoreMutant::CopyForHolder | CoreMutant::NoSecondLook | CoreMutant::NoServingLease
    ) || mutant.is_of_chain()
    {
        if mutant == CoreMutant::AnyTag {
            sign(switch, disk, header.source, Direction::Up, packet);
        }
        return;
    }
    if mutant == CoreMutant::AnyEpoch {
        header.epoch = switch.epoch();
        header.write(packet);
        return sign(switch, disk, header.source, Direction::Up, packet);
    }
    if (header.service, header.kind) != (service::LOCK, kind::lock::RETENURE) {
        return;
    }
    let mut entry = Entry::read(packet, BODY);
    if entry.slot >= switch.slot_count(header.namespace) {
        return;
    }
    let slot = switch.load_slot(header.namespace, entry.slot);
    if mutant == CoreMutant::AnyTenure {
        entry.tenure = slot.tenure;
    }
    entry.slot_bits = SlotBits { joins: slot.joins, ..SlotBits::from_u16(entry.slot_bits) }.to_u16();
    entry.write(packet, BODY);
    sign(switch, disk, header.source, Direction::Up, packet);
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
