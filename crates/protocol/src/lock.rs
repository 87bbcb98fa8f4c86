//! The lock client: the requests of one node, from ACQUIRE to RELEASED.
//!
//! ```text
//!   Parked -> Waiting -> Held -> (gone, or Returning until RELEASED)
//!                 \-> timed out -> Returning until RELEASED
//! ```
//!
//! Invariants: ids rise and are never reused; a grant is taken only by a request that waits, and only above its floor;
//! whatever is granted to a request that does not wait is given back.

use crate::agent::mode_flag;
use crate::map::SteadyMap;
use crate::{Handle, Mode, Port, RequestId, Stamp, Time, Token};
use wayside_wire::{Entry, SlotBits, SlotState, entry_flag};

/// A wish for a lock.
#[derive(Clone, Copy, Debug)]
pub struct Acquire {
    /// Name id: below 2^63 as the user chose it, or a hash of a string with the top bit set.
    pub name: u64,
    /// Shared or exclusive.
    pub mode: Mode,
    /// Do not wait for others.
    pub try_: bool,
    /// When to give up.
    pub deadline: Option<Time>,
    /// Local port to send from and to be answered at.
    pub port: Port,
}

/// Why a wish was not even sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireError {
    /// There is no session (yet, or any more).
    NoSession,
    /// The node has as many requests as it may.
    TooMany,
    /// 2^40 requests in one session: enrol anew.
    Exhausted,
}

/// Where a grant was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// By the switch: half the way of a server's answer, no other node involved.
    Switch,
    /// By the agent on another node.
    Agent,
    /// By this node's own agent: no packet at all.
    Local,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waits for its turn in `lock_many`; nothing was sent, or only as a part of a batch.
    Parked,
    Waiting,
    Held {
        token: Token,
        agent: Handle,
        ordinal: Option<u16>,
        downgrading: bool,
    },
    /// Given back: RELEASE or CANCEL (`kind`), retransmitted until RELEASED.
    Returning {
        kind: u8,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub name: u64,
    pub slot: u32,
    pub mode: Mode,
    pub tries: bool,
    pub port: Port,
    pub floor: Stamp,
    pub state: State,
    /// Since when it is in this state.
    pub since: Time,
    pub deadline: Option<Time>,
    /// When it is sent again or given up.
    pub due: Time,
    pub pause: u64,
    /// The grant that it gives back: tenure, sequence, ordinal.
    pub grant: Option<(Token, Option<u16>)>,
    /// The next request of `lock_many`.
    pub next: Option<u64>,
    /// The switch did not grant it in a batch: it is asked for alone.
    pub alone: bool,
}

impl Request {
    pub fn waits(&self) -> bool {
        matches!(self.state, State::Parked | State::Waiting)
    }

    /// As a packet of `epoch` shows it; with its grant, if it speaks of one. An ordinal of an earlier epoch means nothing
    /// any more, as tenures have begun anew: it would be taken for another reader's.
    pub fn entry(&self, id: u64, holder: Handle, epoch: u32) -> Entry {
        let tries = if self.tries { entry_flag::TRY } else { 0 };
        let mut entry = Entry {
            name: self.name,
            request: id,
            slot: self.slot,
            holder,
            reply_port: self.port,
            flags: mode_flag(self.mode) | tries,
            ..Entry::default()
        };
        if let Some((token, ordinal)) = self.grant {
            entry.tenure = token.stamp().tenure;
            entry.sequence = token.sequence();
            entry.flags &= !entry_flag::TRY;
            if let Some(joins) = ordinal.filter(|_| token.stamp().epoch == epoch) {
                entry.flags |= entry_flag::JOINED;
                let bits = SlotBits { state: SlotState::Unheld, transferred: false, tryable: false, joins };
                entry.slot_bits = bits.to_u16();
            }
        }
        entry
    }
}

/// Counter bits of a request id.
const COUNTER_BITS: u32 = 40;
/// Requests of a node at a time.
const MOST: usize = 4 << 20;

/// All requests of a node.
#[derive(Default)]
pub struct Requests {
    map: SteadyMap<u64, Request>,
    next: u64,
    oldest: u64,
    end: u64,
}

impl Requests {
    /// Begins the ids of an incarnation; `counter` is 1, or higher where a test wants the end to be near.
    pub fn start(&mut self, incarnation: u64, counter: u64) {
        let base = incarnation << COUNTER_BITS;
        self.map.clear();
        self.next = base | counter.max(1);
        self.oldest = self.next;
        self.end = base | ((1 << COUNTER_BITS) - 1);
    }

    pub fn insert(&mut self, request: Request) -> Result<u64, AcquireError> {
        if self.next >= self.end {
            return Err(AcquireError::Exhausted);
        }
        if self.map.len() >= MOST {
            return Err(AcquireError::TooMany);
        }
        let id = self.next;
        self.next += 1;
        self.map.insert(id, request);
        Ok(id)
    }

    /// Remembers to give back a grant that nobody waits for.
    pub fn insert_returning(&mut self, id: u64, request: Request) -> bool {
        if self.map.len() >= MOST {
            return false;
        }
        self.map.insert(id, request);
        true
    }

    pub fn get(&self, id: u64) -> Option<&Request> {
        self.map.get(&id)
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut Request> {
        self.map.get_mut(&id)
    }

    pub fn remove(&mut self, id: u64) -> Option<Request> {
        self.map.remove(&id)
    }

    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    pub fn len(&self) -> usize {
        self.map.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (RequestId, &Request)> {
        self.map.iter().map(|(&id, request)| (RequestId(id), request))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut Request)> {
        self.map.iter_mut().map(|(&id, request)| (id, request))
    }

    pub fn drain(&mut self) -> impl Iterator<Item = (RequestId, Request)> + '_ {
        self.map.drain().map(|(id, request)| (RequestId(id), request))
    }

    /// The oldest id that may still matter; every id is passed over once.
    pub fn oldest(&mut self) -> u64 {
        while self.oldest < self.next && !self.map.contains_key(&self.oldest) {
            self.oldest += 1;
        }
        self.oldest
    }
}
