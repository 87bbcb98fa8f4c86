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
use alloc::vec::Vec;
use core::mem;
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

/// Cells that a table has at first: a power of two.
const CELLS_FIRST: usize = 128;

/// One place in the table. `id` 0: it is empty.
#[derive(Clone, Default)]
struct Cell {
    id: u64,
    request: Option<Request>,
}

/// All requests of a node: a table in which an id's low bits are its place, so that finding one takes a look and no hash.
///
/// Invariants: at most half of the cells are taken, so that a new id, which must have an empty one, is found after two
/// tries on average; ids whose cell is taken are left out. Only an id of the past may find its cell taken when it comes
/// back, as a grant that nobody waits for: it lies among the `strays`.
pub struct Requests {
    cells: Vec<Cell>,
    taken: usize,
    strays: SteadyMap<u64, Request>,
    next: u64,
    oldest: u64,
    end: u64,
}

impl Default for Requests {
    fn default() -> Self {
        let cells = alloc::vec![Cell::default(); CELLS_FIRST];
        Requests { cells, taken: 0, strays: SteadyMap::with_room(), next: 0, oldest: 0, end: 0 }
    }
}

impl Requests {
    /// Begins the ids of an incarnation; `counter` is 1, or higher where a test wants the end to be near.
    pub fn start(&mut self, incarnation: u64, counter: u64) {
        let base = incarnation << COUNTER_BITS;
        self.clear();
        self.next = base | counter.max(1);
        self.oldest = self.next;
        self.end = base | ((1 << COUNTER_BITS) - 1);
    }

    fn clear(&mut self) {
        self.cells.iter_mut().for_each(|cell| *cell = Cell::default());
        self.taken = 0;
        self.strays.clear();
    }

    fn place(&self, id: u64) -> usize {
        id as usize & (self.cells.len() - 1)
    }

    pub fn insert(&mut self, request: Request) -> Result<u64, AcquireError> {
        if self.len() >= MOST {
            return Err(AcquireError::TooMany);
        }
        if 2 * self.taken >= self.cells.len() {
            self.grow();
        }
        loop {
            if self.next >= self.end {
                return Err(AcquireError::Exhausted);
            }
            let id = self.next;
            self.next += 1;
            let place = self.place(id);
            if self.cells[place].id == 0 {
                self.cells[place] = Cell { id, request: Some(request) };
                self.taken += 1;
                return Ok(id);
            }
        }
    }

    /// Twice as many cells: ids that had different ones have different ones again.
    #[cold]
    fn grow(&mut self) {
        let cells = alloc::vec![Cell::default(); 2 * self.cells.len()];
        for cell in mem::replace(&mut self.cells, cells) {
            if cell.id != 0 {
                let place = self.place(cell.id);
                self.cells[place] = cell;
            }
        }
    }

    /// Remembers to give back a grant that nobody waits for.
    pub fn insert_returning(&mut self, id: u64, request: Request) -> bool {
        if self.len() >= MOST {
            return false;
        }
        self.strays.insert(id, request);
        true
    }

    #[inline]
    pub fn get(&self, id: u64) -> Option<&Request> {
        match self.cells.get(self.place(id)) {
            Some(cell) if cell.id == id => cell.request.as_ref(),
            _ => self.strays.get(&id),
        }
    }

    #[inline]
    pub fn get_mut(&mut self, id: u64) -> Option<&mut Request> {
        let place = self.place(id);
        match self.cells.get_mut(place) {
            Some(cell) if cell.id == id => cell.request.as_mut(),
            _ => self.strays.get_mut(&id),
        }
    }

    pub fn remove(&mut self, id: u64) -> Option<Request> {
        let place = self.place(id);
        match self.cells.get_mut(place) {
            Some(cell) if cell.id == id => {
                self.taken -= 1;
                cell.id = 0;
                cell.request.take()
            }
            _ => self.strays.remove(&id),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn len(&self) -> usize {
        self.taken + self.strays.len()
    }

    /// In an order that follows from their ids and their history alone.
    pub fn iter(&self) -> impl Iterator<Item = (RequestId, &Request)> {
        let cells = self.cells.iter().filter_map(|cell| cell.request.as_ref().map(|request| (cell.id, request)));
        let strays = self.strays.iter().map(|(&id, request)| (id, request));
        cells.chain(strays).map(|(id, request)| (RequestId(id), request))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut Request)> {
        let cells = self.cells.iter_mut().filter_map(|cell| {
            let id = cell.id;
            cell.request.as_mut().map(|request| (id, request))
        });
        cells.chain(self.strays.iter_mut().map(|(&id, request)| (id, request)))
    }

    /// Takes all of them out.
    pub fn drain(&mut self) -> Vec<(RequestId, Request)> {
        let all = self.iter().map(|(id, request)| (id, *request)).collect();
        self.clear();
        all
    }

    /// The oldest id that may still matter; every id is passed over once.
    pub fn oldest(&mut self) -> u64 {
        while self.oldest < self.next && self.get(self.oldest).is_none() {
            self.oldest += 1;
        }
        self.oldest
    }
}
