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
use crate::books::Place;
use crate::line::{Priority, Rank};
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
    /// Before whom it is served, where it waits.
    pub priority: Priority,
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
    /// It is another shard's, or will be.
    Elsewhere,
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
        /// The grant of which it speaks, if it knows of one.
        grant: Option<Grant>,
    },
}

/// A grant as its holder knows it: tenure and sequence, and the ordinal of one that was a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub token: Token,
    pub ordinal: Option<u16>,
}

#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub name: u64,
    pub slot: u32,
    /// Where the book of its slot is, for as long as it waits there.
    pub book: Place,
    pub mode: Mode,
    pub tries: bool,
    pub priority: Priority,
    /// The namespace's budget has refused it, or one before it, or was known to be spent when it came.
    pub over_budget: bool,
    /// The switch did not grant it in a batch: it is asked for alone.
    pub alone: bool,
    pub port: Port,
    pub floor: Stamp,
    pub state: State,
    /// Since when it is in this state.
    pub since: Time,
    pub deadline: Time,
    /// When it is sent again or given up.
    pub due: Time,
    pub pause: u64,
    /// The next request of `lock_many`; 0: none.
    pub next: u64,
}

impl Request {
    pub fn waits(&self) -> bool {
        matches!(self.state, State::Parked | State::Waiting)
    }

    /// As a packet shows it that asks for it, or that gives up a wait.
    #[inline]
    pub fn asking(&self, id: u64, holder: Handle) -> Entry {
        let tries = if self.tries { entry_flag::TRY } else { 0 };
        Entry {
            name: self.name,
            request: id,
            slot: self.slot,
            holder,
            reply_port: self.port,
            flags: mode_flag(self.mode) | tries,
            sequence: Rank::newcomer(self.priority).to_byte(),
            ..Entry::default()
        }
    }

    /// As a packet of `epoch` shows it that speaks of its grant. An ordinal of an earlier epoch means nothing any more,
    /// as tenures have begun anew: it would be taken for another reader's.
    pub fn speaking(&self, id: u64, holder: Handle, epoch: u32, grant: Grant) -> Entry {
        let Grant { token, ordinal } = grant;
        let mut entry = self.asking(id, holder);
        entry.tenure = token.stamp().tenure;
        entry.sequence = token.sequence();
        entry.flags &= !entry_flag::TRY;
        if let Some(joins) = ordinal.filter(|_| token.stamp().epoch == epoch) {
            entry.flags |= entry_flag::JOINED;
            let bits = SlotBits { state: SlotState::Unheld, transferred: false, tryable: false, joins };
            entry.slot_bits = bits.to_u16();
        }
        entry
    }

    /// As a packet of `epoch` shows it: with its grant, if it gives one back.
    pub fn entry(&self, id: u64, holder: Handle, epoch: u32) -> Entry {
        match self.state {
            State::Returning { grant: Some(grant), .. } => self.speaking(id, holder, epoch, grant),
            _ => self.asking(id, holder),
        }
    }
}

/// Counter bits of a request id.
const COUNTER_BITS: u32 = 40;

/// Cells that a table has at first: a power of two.
const CELLS_FIRST: usize = 64;

/// One place in the table. An empty one has an id that belongs into another, so that no id is found in it.
#[derive(Clone)]
struct Cell {
    id: u64,
    request: Request,
}

impl Cell {
    const fn empty(place: usize) -> Cell {
        let request = Request {
            name: 0,
            slot: 0,
            book: 0,
            mode: Mode::Exclusive,
            tries: false,
            priority: Priority::NORMAL,
            over_budget: false,
            alone: false,
            port: 0,
            floor: Stamp { epoch: 0, tenure: 0 },
            state: State::Parked,
            since: Time(0),
            deadline: Time::NEVER,
            due: Time::NEVER,
            pause: 0,
            next: 0,
        };
        Cell { id: Self::elsewhere(place), request }
    }

    /// There is a neighbour to every place: tables are of even size.
    const fn elsewhere(place: usize) -> u64 {
        place as u64 ^ 1
    }
}

fn empty_cells(count: usize) -> Vec<Cell> {
    (0..count).map(Cell::empty).collect()
}

/// All requests of a node: a table in which an id's low bits are its place, so that finding one takes a look and no
/// hash.
///
/// Invariants: at most half of the cells are taken, so that a new id, which must have an empty one, is found after two
/// tries on average; ids whose cell is taken are left out. Only an id of the past may find its cell taken when it comes
/// back, as a grant that nobody waits for: it lies among the `strays`.
pub struct Requests {
    most: usize,
    /// As many as may be taken of these cells: half of them, and no more than `most`.
    room: usize,
    cells: Vec<Cell>,
    taken: usize,
    strays: SteadyMap<u64, Request>,
    next: u64,
    oldest: u64,
    end: u64,
    /// Until then the namespace's budget is spent, as the switch has said.
    pub over_until: Time,
}

impl Requests {
    /// None yet, and `most` at a time.
    pub fn new(most: usize) -> Requests {
        let cells = empty_cells(CELLS_FIRST);
        let room = most.min(cells.len() / 2);
        Requests {
            most,
            room,
            cells,
            taken: 0,
            strays: SteadyMap::with_room(),
            next: 0,
            oldest: 0,
            end: 0,
            over_until: Time(0),
        }
    }

    /// Begins the ids of an incarnation; `counter` is 1, or higher where a test wants the end to be near.
    pub fn start(&mut self, incarnation: u64, counter: u64) {
        let base = incarnation << COUNTER_BITS;
        self.clear();
        self.over_until = Time(0);
        self.next = base | counter.max(1);
        self.oldest = self.next;
        self.end = base | ((1 << COUNTER_BITS) - 1);
    }

    fn clear(&mut self) {
        self.cells.iter_mut().enumerate().for_each(|(place, cell)| cell.id = Cell::elsewhere(place));
        self.taken = 0;
        self.strays.clear();
    }

    #[inline]
    fn place(&self, id: u64) -> usize {
        id as usize & (self.cells.len() - 1)
    }

    /// A new id, and the cell that its request is to be written into.
    #[inline]
    pub fn add(&mut self) -> Result<(u64, &mut Request), AcquireError> {
        if self.taken >= self.room {
            self.grow()?;
        }
        loop {
            if self.next >= self.end {
                return Err(AcquireError::Exhausted);
            }
            let id = self.next;
            self.next += 1;
            let place = self.place(id);
            if self.place(self.cells[place].id) != place {
                let cell = &mut self.cells[place];
                cell.id = id;
                self.taken += 1;
                return Ok((id, &mut cell.request));
            }
        }
    }

    /// Twice as many cells: ids that had different ones have different ones again.
    #[cold]
    fn grow(&mut self) -> Result<(), AcquireError> {
        if self.taken >= self.most {
            return Err(AcquireError::TooMany);
        }
        let cells = empty_cells(2 * self.cells.len());
        self.room = self.most.min(cells.len() / 2);
        for (former, cell) in mem::replace(&mut self.cells, cells).into_iter().enumerate() {
            if cell.id as usize & (self.cells.len() / 2 - 1) == former {
                let place = self.place(cell.id);
                self.cells[place] = cell;
            }
        }
        Ok(())
    }

    /// The next id, which is nobody's yet.
    pub fn next_id(&self) -> u64 {
        self.next
    }

    /// Those below it have been given to requests of this node that are not here.
    pub fn skip_to(&mut self, id: u64) {
        self.next = self.next.max(id);
    }

    /// Remembers to give back a grant that nobody waits for.
    pub fn insert_returning(&mut self, id: u64, request: Request) -> bool {
        if self.strays.len() >= self.most {
            return false;
        }
        self.strays.insert(id, request);
        true
    }

    #[inline]
    pub fn get(&self, id: u64) -> Option<&Request> {
        let cell = &self.cells[self.place(id)];
        if cell.id == id { Some(&cell.request) } else { self.stray(id) }
    }

    #[inline]
    pub fn get_mut(&mut self, id: u64) -> Option<&mut Request> {
        let place = self.place(id);
        if self.cells[place].id == id { Some(&mut self.cells[place].request) } else { self.stray_mut(id) }
    }

    #[cold]
    fn stray(&self, id: u64) -> Option<&Request> {
        if self.strays.is_empty() { None } else { self.strays.get(&id) }
    }

    #[cold]
    fn stray_mut(&mut self, id: u64) -> Option<&mut Request> {
        if self.strays.is_empty() { None } else { self.strays.get_mut(&id) }
    }

    /// Forgets it, if it is there.
    #[inline]
    pub fn remove(&mut self, id: u64) {
        let place = self.place(id);
        if self.cells[place].id == id {
            self.taken -= 1;
            self.cells[place].id = Cell::elsewhere(place);
        } else if !self.strays.is_empty() {
            self.strays.remove(&id);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn len(&self) -> usize {
        self.taken + self.strays.len()
    }

    /// As many as there may be before more memory is needed.
    pub fn room(&self) -> usize {
        self.cells.len() / 2 + self.strays.room()
    }

    /// In an order that follows from their ids and their history alone.
    pub fn iter(&self) -> impl Iterator<Item = (RequestId, &Request)> {
        let taken = self.cells.iter().enumerate().filter(|(place, cell)| self.place(cell.id) == *place);
        let cells = taken.map(|(_, cell)| (cell.id, &cell.request));
        let strays = self.strays.iter().map(|(&id, request)| (id, request));
        cells.chain(strays).map(|(id, request)| (RequestId(id), request))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut Request)> {
        let mask = self.cells.len() - 1;
        let taken = self.cells.iter_mut().enumerate().filter(move |(place, cell)| cell.id as usize & mask == *place);
        let cells = taken.map(|(_, cell)| (cell.id, &mut cell.request));
        cells.chain(self.strays.iter_mut().map(|(&id, request)| (id, request)))
    }

    /// Takes all of them out.
    pub fn drain(&mut self) -> Vec<(RequestId, Request)> {
        let all = self.iter().map(|(id, request)| (id, *request)).collect();
        self.clear();
        all
    }

    /// The oldest id that may still matter. It never goes back, and every id costs one look at most: at itself, or,
    /// where more have gone by since than there are cells, at a cell.
    pub fn oldest(&mut self) -> u64 {
        if self.next - self.oldest > self.cells.len() as u64 {
            let ids = self.iter().map(|(RequestId(id), _)| id).filter(|id| *id >= self.oldest);
            self.oldest = ids.min().unwrap_or(self.next);
        }
        while self.oldest < self.next && self.get(self.oldest).is_none() {
            self.oldest += 1;
        }
        self.oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever comes out of a packet is looked for here.
    #[test]
    fn an_empty_cell_is_found_by_no_id() {
        let mut requests = Requests::new(1 << 20);
        requests.start(0xff_ffff, 1);
        let ids = [0, 1, 2, u64::MAX, u64::MAX - 1, 0xff_ffff << COUNTER_BITS];
        assert!(ids.iter().all(|&id| requests.get(id).is_none()), "before any");
        let (first, _) = requests.add().unwrap();
        let (second, _) = requests.add().unwrap();
        requests.remove(first);
        assert!(ids.iter().chain([&first]).all(|&id| requests.get(id).is_none()), "after the first is gone");
        assert_eq!(requests.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [second]);
        assert_eq!(requests.len(), 1);
    }

    #[test]
    fn the_oldest_id_is_that_of_the_oldest_request_however_many_came_after() {
        for more in [1, CELLS_FIRST as u64 / 4, 10 * CELLS_FIRST as u64] {
            let mut requests = Requests::new(1 << 20);
            requests.start(9, 1);
            let (kept, _) = requests.add().unwrap();
            let mut last = kept;
            for _ in 0..more {
                let (id, _) = requests.add().unwrap();
                requests.remove(id);
                last = id;
            }
            assert_eq!(requests.oldest(), kept, "with {more} after it");
            requests.remove(kept);
            assert_eq!(requests.oldest(), last + 1);
            let (next, _) = requests.add().unwrap();
            assert!(next > last);
            assert_eq!(requests.oldest(), next);
        }
    }

    #[test]
    fn there_are_never_more_than_there_may_be() {
        for most in [1, CELLS_FIRST / 2, CELLS_FIRST, 3 * CELLS_FIRST + 1] {
            let mut requests = Requests::new(most);
            requests.start(3, 1);
            let ids: Vec<u64> = (0..most).map(|_| requests.add().expect("there is room").0).collect();
            assert!(matches!(requests.add(), Err(AcquireError::TooMany)), "{most}");
            requests.remove(ids[0]);
            assert!(requests.add().is_ok() && requests.add().is_err());
        }
    }

    #[test]
    fn either_walk_finds_every_request_and_those_that_came_back() {
        let mut requests = Requests::new(1 << 20);
        requests.start(3, 1);
        let mut ids: Vec<u64> = (0..3 * CELLS_FIRST).map(|_| requests.add().unwrap().0).collect();
        requests.remove(ids.remove(5));
        let (id, stray) = waiting(&mut requests);
        ids.push(id);
        assert!(requests.insert_returning(7, stray));
        ids.push(7);
        ids.sort_unstable();
        let mut found: Vec<u64> = requests.iter().map(|(id, _)| id.0).collect();
        found.sort_unstable();
        assert_eq!(found, ids);
        let mut found: Vec<u64> = requests.iter_mut().map(|(id, _)| id).collect();
        found.sort_unstable();
        assert_eq!(found, ids);
    }

    /// It was said to the session before.
    #[test]
    fn a_budget_that_is_spent_is_no_matter_of_the_next_session() {
        let mut requests = Requests::new(8);
        requests.start(3, 1);
        requests.over_until = Time(900);
        requests.start(4, 1);
        assert_eq!(requests.over_until, Time(0));
    }

    #[test]
    fn a_table_that_grows_keeps_what_it_has() {
        let mut requests = Requests::new(1 << 20);
        requests.start(3, 1);
        let mut ids: Vec<u64> = Vec::new();
        for name in 0..10 * CELLS_FIRST as u64 {
            let (id, request) = requests.add().unwrap();
            request.name = name;
            ids.push(id);
        }
        assert!(ids.is_sorted() && requests.len() == ids.len());
        assert!(ids.iter().zip(0..).all(|(&id, name)| requests.get(id).is_some_and(|request| request.name == name)));
    }

    fn waiting(requests: &mut Requests) -> (u64, Request) {
        let (id, request) = requests.add().unwrap();
        (request.state, request.tries) = (State::Waiting, true);
        (id, *request)
    }

    /// What a RELEASE says is about the grant, not about the wish: its sequence, no TRY, and of its epoch the ordinal.
    #[test]
    fn who_speaks_of_a_grant_does_not_ask_for_one() {
        let mut requests = Requests::new(8);
        requests.start(3, 1);
        let (id, request) = waiting(&mut requests);
        let asked = request.entry(id, 7, 5);
        assert_eq!((asked.flags & entry_flag::TRY, asked.tenure), (entry_flag::TRY, 0));
        assert_eq!(asked.sequence, Rank::newcomer(Priority::NORMAL).to_byte());
        let token = Token::new(Stamp { epoch: 5, tenure: 11 }, 42);
        for (epoch, ordinal, joined) in [(5, Some(9), true), (6, Some(9), false), (5, None, false)] {
            let state = State::Returning { kind: 0, grant: Some(Grant { token, ordinal }) };
            let told = Request { state, ..request }.entry(id, 7, epoch);
            assert_eq!((told.tenure, told.sequence, told.flags & entry_flag::TRY), (11, 42, 0));
            assert_eq!(told.flags & entry_flag::JOINED != 0, joined);
            assert_eq!(SlotBits::from_u16(told.slot_bits).joins, if joined { 9 } else { 0 });
        }
    }

    #[test]
    fn the_ids_of_an_incarnation_come_to_an_end() {
        let last = (1 << COUNTER_BITS) - 2;
        let mut requests = Requests::new(8);
        requests.start(3, last);
        assert_eq!(requests.add().unwrap().0, 3 << COUNTER_BITS | last);
        assert!(matches!(requests.add(), Err(AcquireError::Exhausted)), "the next one is another incarnation's");
    }

    #[test]
    fn a_new_incarnation_has_nothing_of_the_one_before() {
        let mut requests = Requests::new(8);
        requests.start(3, 1);
        let (id, request) = waiting(&mut requests);
        assert!(requests.insert_returning(1 << COUNTER_BITS, request));
        assert!(!requests.is_empty() && requests.len() == 2);
        for begun_by in [3, 4] {
            requests.start(begun_by, 1);
            assert_eq!((requests.is_empty(), requests.len(), requests.iter().count()), (true, 0, 0));
            assert!(requests.get(id).is_none() && requests.get(1 << COUNTER_BITS).is_none());
            assert!((0..8).all(|_| requests.add().is_ok()), "the room is that of an empty table");
        }
    }

    /// As after weeks: the ids are far beyond the cells, whose places they have all the same.
    #[test]
    fn a_table_that_grows_late_keeps_what_it_has() {
        let mut requests = Requests::new(1 << 20);
        requests.start(3, 1);
        for _ in 0..100 * CELLS_FIRST {
            let (id, _) = requests.add().unwrap();
            requests.remove(id);
        }
        let ids: Vec<u64> = (0..2 * CELLS_FIRST).map(|_| requests.add().unwrap().0).collect();
        assert!(requests.cells.len() > 2 * CELLS_FIRST, "it has grown");
        assert!(ids.iter().all(|&id| requests.get(id).is_some()));
        assert_eq!(requests.iter().count(), ids.len());
    }

    #[test]
    fn a_grant_that_nobody_waits_for_is_kept_until_it_is_given_back() {
        let mut requests = Requests::new(2);
        requests.start(3, 1);
        let (own, request) = waiting(&mut requests);
        let [late, later, last] = [1, 2, 3].map(|number| 1 << COUNTER_BITS | number);
        let named = |name| Request { name, ..request };
        assert!(requests.insert_returning(late, named(8)) && requests.insert_returning(later, named(9)));
        assert!(!requests.insert_returning(last, named(10)), "as many as there may be requests");
        assert_eq!((requests.get(late).map(|r| r.name), requests.get(last).map(|r| r.name)), (Some(8), None));
        requests.get_mut(later).unwrap().name = 11;
        assert_eq!((requests.get(later).unwrap().name, requests.len()), (11, 3));
        requests.remove(late);
        assert!(requests.get(late).is_none() && requests.len() == 2);
        let mut all: Vec<u64> = requests.drain().into_iter().map(|(RequestId(id), _)| id).collect();
        all.sort_unstable();
        assert_eq!(all, [later, own]);
        assert!(requests.is_empty() && requests.get(own).is_none() && requests.drain().is_empty());
    }
}
