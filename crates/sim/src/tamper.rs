//! The core with a condition missing. The core itself is never built that way: a packet is rewritten on its way in so
//! that the condition holds, which comes to the same.

use wayside_protocol::memory::SwitchMemory;
use wayside_wire::{BODY, Entry, SlotBits, check, kind, service};

use crate::switch::{NAMESPACE, SharedSwitch};

/// A condition that the core does not check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreMutant {
    /// Packets of every epoch are taken.
    AnyEpoch,
    /// A RETENURE need not name the tenure.
    AnyTenure,
    /// A RETENURE need not know all joins.
    AnyJoins,
}

/// Makes the packet fulfil the condition.
pub fn fulfil(mutant: CoreMutant, switch: &SharedSwitch, packet: &mut [u8]) {
    let Ok(mut header) = check(packet) else { return };
    if mutant == CoreMutant::AnyEpoch {
        header.epoch = switch.epoch();
        return header.write(packet);
    }
    if (header.service, header.kind) != (service::LOCK, kind::lock::RETENURE) {
        return;
    }
    let mut entry = Entry::read(packet, BODY);
    if entry.slot >= switch.slots() {
        return;
    }
    let slot = switch.load_slot(NAMESPACE, entry.slot);
    if mutant == CoreMutant::AnyTenure {
        entry.tenure = slot.tenure;
    }
    entry.slot_bits = SlotBits { joins: slot.joins, ..SlotBits::from_u16(entry.slot_bits) }.to_u16();
    entry.write(packet, BODY);
}
