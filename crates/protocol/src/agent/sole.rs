//! An agent in few words: that of a slot which nobody but this node has ever had to do with.
//!
//! ```text
//!   GRANT with AGENCY -> Keep --release--> Free --RETENURED--> gone
//!                          \                 /
//!                           `-> an agent <--'   as soon as anything else happens in the slot
//!                                |  ^
//!                             Rest, Keep        where it stays at home (home.rs): Rest <--> Keep, without a packet
//! ```
//!
//! Most locks are taken and given back without anybody else's wanting them. Their agents know of one hold, of their own
//! node, and later of the change *free* that they asked the switch for: this much is kept in the slot's book, and the
//! rest is what an agent begins with. It reminds nobody of its grant: that is known here.
//!
//! So it stays when the switch begins anew: a census suspends it, an adoption gives it another stamp, and a million
//! locks that nobody disputes need no million agents.

use super::{Agent, Change, Home, Party, Pending};
use crate::line::Rank;
use crate::{Handle, Mode, Port, Stamp, Time, Token};
use wayside_wire::{Entry, SlotBits, SlotState};

/// What is left to be done for the slot.
#[derive(Clone, Copy, Debug)]
pub enum Duty {
    /// This request of this node holds the only grant, by the switch.
    Keep { request: u64 },
    /// Nobody holds: the switch was asked to free the slot.
    Free { nonce: u64, pause: u64, due: Time },
    /// Nobody holds, and the slot is kept.
    Rest,
}

/// See above. Nobody has joined.
#[derive(Clone, Copy, Debug)]
pub struct Sole {
    pub stamp: Stamp,
    pub name: u64,
    pub holder: Handle,
    pub port: Port,
    pub mode: Mode,
    pub tryable: bool,
    /// The switch grants shared requests itself: the grant was one, and fresh.
    pub open: bool,
    /// A census has begun: it is not known yet who keeps the books.
    pub suspended: bool,
    /// The switch has named this node as agent. Of one that was adopted the controller alone has said so.
    pub confirmed: bool,
    /// Exclusive grants that the agent has made itself in this tenure.
    pub sequence: u8,
    pub home: Home,
    pub duty: Duty,
}

impl Sole {
    /// The hold, if there is one.
    pub fn party(&self) -> Option<Party> {
        let Sole { stamp, name, holder, port, mode, sequence, .. } = *self;
        match self.duty {
            Duty::Keep { request } => {
                let (rank, token) = (Rank::default(), Token::new(stamp, sequence));
                Some(Party { holder, request, name, mode, port, tries: false, rank, token })
            }
            Duty::Free { .. } | Duty::Rest => None,
        }
    }

    /// Whether it decides on a request of its own node.
    #[inline]
    pub fn is_usable(&self) -> bool {
        self.confirmed && !self.suspended && matches!(self.duty, Duty::Keep { .. } | Duty::Rest)
    }

    /// Whether it could be let go.
    #[inline]
    pub fn rests(&self) -> bool {
        matches!(self.duty, Duty::Rest) && !self.suspended
    }

    /// Whether the slot stays here when its hold ends. Of one that has its place among those that are kept the switch
    /// knows all that it has to know: it came to rest before.
    #[inline]
    pub fn stays(&self) -> bool {
        self.home.is_kept
    }

    #[inline]
    pub fn keeps(&self, id: u64) -> bool {
        matches!(self.duty, Duty::Keep { request } if request == id)
    }

    /// Whether the switch was asked to free the slot, by the change of this nonce.
    #[inline]
    pub fn frees_as(&self, nonce: u64) -> bool {
        matches!(self.duty, Duty::Free { nonce: own, .. } if own == nonce)
    }

    /// Whether a fresh grant of this stamp shows that the slot was freed as it asked.
    #[inline]
    pub fn gives_way_to(&self, stamp: Stamp) -> bool {
        matches!(self.duty, Duty::Free { .. }) && !self.suspended && self.stamp < stamp
    }

    /// It has been asked just now what became of that.
    #[inline]
    pub fn ask_again_at(&mut self, at: Time) {
        if let Duty::Free { due, .. } = &mut self.duty {
            *due = at;
        }
    }

    /// RETENURE, for *free*, and an entry of FREE.
    #[inline]
    pub fn freeing(&self, slot: u32, nonce: u64) -> Entry {
        let bits = SlotBits { state: SlotState::Unheld, transferred: false, tryable: false, joins: 0 };
        Entry {
            name: self.name,
            request: nonce,
            slot,
            tenure: self.stamp.tenure,
            holder: self.holder,
            slot_bits: bits.to_u16(),
            ..Entry::default()
        }
    }
}

impl Agent {
    /// Makes this (new or used) agent the one that `sole` stands for.
    pub fn write_out(&mut self, slot: u32, sole: &Sole) {
        let state = if sole.open { SlotState::Open } else { SlotState::Managed };
        self.reset(slot, sole.stamp, SlotBits { state, transferred: false, tryable: sole.tryable, joins: 0 });
        self.name = sole.name;
        self.holders.extend(sole.party());
        self.suspended = sole.suspended;
        self.confirmed = sole.confirmed;
        self.sequence = sole.sequence;
        self.home = sole.home;
        if let Duty::Free { nonce, pause, due } = sole.duty {
            self.pending = Some(Pending { change: Change::Free, nonce, joins: 0, pause, due, again: false });
        }
    }
}
