//! A slot as an entry shows it, and the way from a name to its slot.

use crate::{SlotState, limits, slot_bits};

/// An entry's `slot_bits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotBits {
    /// State of the slot.
    pub state: SlotState,
    /// The agency was handed over.
    pub transferred: bool,
    /// A try may be refused by the switch.
    pub tryable: bool,
    /// Joins of the slot, or the ordinal of one: 12 bits.
    pub joins: u16,
}

impl SlotBits {
    /// As a field holds them.
    #[inline]
    pub const fn to_u16(self) -> u16 {
        debug_assert!(self.joins <= limits::MAX_JOINS);
        let word = slot_bits::with_state(0, self.state as u8);
        let word = slot_bits::with_transferred(word, self.transferred as u8);
        let word = slot_bits::with_tryable(word, self.tryable as u8);
        slot_bits::with_joins(word, self.joins)
    }

    /// From a field: every value means something.
    #[inline]
    pub const fn from_u16(word: u16) -> SlotBits {
        SlotBits {
            state: SlotState::ALL[slot_bits::state(word) as usize],
            transferred: slot_bits::transferred(word) != 0,
            tryable: slot_bits::tryable(word) != 0,
            joins: slot_bits::joins(word),
        }
    }
}

impl Default for SlotBits {
    fn default() -> Self {
        SlotBits::from_u16(0)
    }
}

/// MurmurHash3's 64-bit finalizer: every bit of the input moves half of the output's.
#[inline]
pub const fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let x = (x ^ x >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ x >> 33
}

/// The 44 bits by which w1 of a slot remembers a name.
#[inline]
pub const fn name_hash(name: u64) -> u64 {
    mix(name) >> 20
}

/// The slot of a name in a namespace of `slots`, which is not 0.
#[inline]
pub const fn slot_of(name: u64, slots: u32) -> u32 {
    (name % slots as u64) as u32
}
