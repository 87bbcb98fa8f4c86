//! Wayside's packets: constants, structs and words generated from `wire/messages.toml`, and the checks over them.
//!
//! A packet is a [`Header`], then either [`Header::count`] times an [`Entry`], or the one body of its kind ([`Body`]),
//! which in some services as many [`blocks`] follow. [`check`] says whether bytes are such a packet; after it, reads at
//! [`BODY`] and [`entry_at`] are within bounds.
#![no_std]
#![forbid(unsafe_code)]

#[path = "../../../wire/gen/wire.rs"]
mod generated;
mod packet;
mod slot;

pub use generated::*;
pub use packet::{BODY, blocks, body_of, check, entries, entry_at, packet_bytes, padded, text};
pub use slot::{SlotBits, mix, name_hash, slot_of};

impl Engine {
    /// Whether some of a namespace's locks are queues.
    #[inline]
    pub const fn has_queues(self) -> bool {
        matches!(self, Engine::Queue | Engine::Hybrid)
    }

    /// Whether some of a namespace's locks are slots.
    #[inline]
    pub const fn has_slots(self) -> bool {
        matches!(self, Engine::Fission | Engine::Hybrid)
    }
}
