//! What a node keeps about each slot, and how it is found.
//!
//! Invariants
//! * A book exists only while it holds something.
//! * A *plain* book has nothing but `waits`, `sole` and `due`; everything else in it is as [`Book::plain`] made it. It
//!   is plain until somebody looks at it for anything else, by [`Agency::get`](crate::agency::Agency::get), which
//!   writes its `sole` out as an agent: so in the uncontended way nobody makes, empties or looks through what others
//!   may have left.
//! * `sole` and `agent` are not both there.

use crate::agency::{Claim, Handing, Stray};
use crate::agent::{Agent, Sole};
use crate::{Handle, Mode, Stamp, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;
use wayside_wire::SlotBits;

/// Packets that one slot keeps in limbo; the rest is dropped, and its senders retransmit.
const LIMBO_MOST: usize = 64;

/// Everything about one slot.
#[derive(Debug)]
pub struct Book {
    pub slot: u32,
    /// Requests of this node that wait in this slot.
    pub waits: u32,
    pub plain: bool,
    /// The agent of a plain book.
    pub sole: Option<Sole>,
    /// The time for which the slot's timer is set.
    pub due: Time,
    pub agent: Option<Box<Agent>>,
    pub limbo: Vec<Stray>,
    pub limbo_due: Option<Time>,
    /// The newest snapshot that named this node as agent while it was not.
    pub seen: Option<(Stamp, SlotBits)>,
    pub claim: Option<Claim>,
    pub handing: Option<Box<Handing>>,
    /// When a suspended agent that nobody adopts is forgotten.
    pub forget: Option<Time>,
}

impl Book {
    const fn plain(slot: u32) -> Book {
        Book {
            slot,
            waits: 0,
            plain: true,
            sole: None,
            due: Time::NEVER,
            agent: None,
            limbo: Vec::new(),
            limbo_due: None,
            seen: None,
            claim: None,
            handing: None,
            forget: None,
        }
    }

    #[inline]
    pub fn is_idle(&self) -> bool {
        let kept = || self.agent.is_some() || !self.limbo.is_empty() || self.claim.is_some() || self.handing.is_some();
        self.waits == 0 && self.sole.is_none() && (self.plain || !kept())
    }

    /// The highest stamp that this node has served in the slot and still knows of.
    #[inline]
    pub fn floor(&self) -> Stamp {
        if self.plain {
            return self.sole.as_ref().map_or(Stamp::default(), |sole| sole.stamp);
        }
        // `Handing` has the stamp of the next agent, whose grants count.
        let handed =
            self.handing.as_ref().map_or(Stamp::default(), |h| Stamp { tenure: h.stamp.tenure - 1, ..h.stamp });
        self.agent.as_ref().map_or(handed, |agent| agent.stamp.max(handed))
    }

    /// Whether it keeps, since a census, no more than one hold of its own node, or nothing.
    pub fn is_suspended_alone(&self, me: Handle) -> bool {
        let sole = self.sole.as_ref().is_none_or(|sole| sole.suspended);
        let agent = self.agent.as_ref().is_none_or(|agent| agent.suspended && agent.is_alone(me));
        sole && agent && self.limbo.is_empty() && self.claim.is_none() && self.handing.is_none()
    }

    /// Whether it has a place among those that are kept.
    pub fn is_kept(&self) -> bool {
        let agent = self.agent.as_ref().map(|agent| agent.home.is_kept);
        agent.or_else(|| self.sole.as_ref().map(|sole| sole.home.is_kept)).unwrap_or(false)
    }

    /// Whether its agent could be let go.
    pub fn rests(&self) -> bool {
        let agent = self.agent.as_ref().is_some_and(|agent| agent.rests());
        self.waits == 0 && (agent || self.sole.as_ref().is_some_and(Sole::rests))
    }

    /// Whether its own node has not used it since this was asked last.
    pub fn is_unused(&mut self) -> bool {
        let agent = self.agent.as_mut().map(|agent| &mut agent.home);
        let home = agent.or_else(|| self.sole.as_mut().map(|sole| &mut sole.home));
        home.is_some_and(|home| !core::mem::take(&mut home.is_used))
    }

    /// The agent, in few words, where it rests and there is nothing else in the book.
    pub fn at_rest(&self, me: Handle) -> Option<Sole> {
        let agent = self.agent.as_ref()?;
        let is_plain = self.waits == 0 && self.limbo.is_empty() && self.limbo_due.is_none() && self.seen.is_none();
        let is_all = self.claim.is_none() && self.handing.is_none() && self.forget.is_none();
        if is_plain && is_all { agent.at_rest(me) } else { None }
    }

    /// Whether this node's own agent decides on a request of this node. An exclusive one closes an OPEN slot, at the
    /// switch.
    #[inline]
    pub fn decides(&self, mode: Mode) -> bool {
        let (usable, open) = match (&self.agent, &self.sole) {
            (Some(agent), _) => (agent.is_usable(), agent.is_open()),
            (None, Some(sole)) => (sole.is_usable(), sole.open),
            (None, None) => return false,
        };
        usable && !(open && mode == Mode::Exclusive)
    }

    pub fn next_due(&self) -> Time {
        let agent = self.agent.as_ref().map_or(Time::NEVER, |agent| agent.due());
        let claim = self.claim.as_ref().map_or(Time::NEVER, |claim| claim.due);
        let handing = self.handing.as_ref().map_or(Time::NEVER, |handing| handing.due);
        let rest = self.limbo_due.unwrap_or(Time::NEVER).min(self.forget.unwrap_or(Time::NEVER));
        agent.min(claim).min(handing).min(rest)
    }

    /// Keeps a packet for later; false if there is no room, or it is there.
    pub fn keep(&mut self, stray: Stray) -> bool {
        let same = |s: &Stray| {
            s.kind == stray.kind
                && s.entry.request == stray.entry.request
                && s.entry.holder == stray.entry.holder
                && s.entry.slot_bits == stray.entry.slot_bits
        };
        if let Some(kept) = self.limbo.iter_mut().find(|s| same(s)) {
            // Or a retransmission would keep its hops from ever reaching the limit.
            kept.hops = kept.hops.max(stray.hops);
            return false;
        }
        if self.limbo.len() >= LIMBO_MOST {
            return false;
        }
        self.limbo.push(stray);
        true
    }
}

/// Where a book lies. It stays there for as long as it exists.
pub type Place = u32;

/// Of a cell that has none.
const NOWHERE: Place = Place::MAX;

#[derive(Clone, Copy)]
struct Cell {
    slot: u32,
    place: Place,
}

/// Books by slot.
///
/// Invariants: `index` has the place of every slot with a book, in the first cell that was empty from the slot's home
/// on; at most half of its cells are taken, and none is between a slot's home and its cell that is empty. All other
/// places are `vacant`, and their books plain and empty. There is room for `room` books without more memory.
pub struct Books {
    index: Vec<Cell>,
    /// From a product to a cell.
    shift: u32,
    places: Vec<Book>,
    vacant: Vec<Place>,
    room: usize,
}

impl Default for Books {
    /// Without any room.
    fn default() -> Books {
        let index = alloc::vec![Cell { slot: 0, place: NOWHERE }; 2];
        Books { index, shift: u32::BITS - 1, places: Vec::new(), vacant: Vec::new(), room: 0 }
    }
}

impl Books {
    /// Where a slot is looked for first: neighbours, which are often taken together, and slots of one stride are spread
    /// by the golden ratio.
    #[inline]
    fn home(&self, slot: u32) -> usize {
        (slot.wrapping_mul(0x9e37_79b9) >> self.shift) as usize
    }

    #[inline]
    fn after(&self, cell: usize) -> usize {
        (cell + 1) & (self.index.len() - 1)
    }

    /// The slot's cell, or the empty one that would be it.
    #[inline]
    fn cell(&self, slot: u32) -> usize {
        let mut cell = self.home(slot);
        while self.index[cell].place != NOWHERE && self.index[cell].slot != slot {
            cell = self.after(cell);
        }
        cell
    }

    #[inline]
    pub fn find(&self, slot: u32) -> Option<Place> {
        let place = self.index[self.cell(slot)].place;
        (place != NOWHERE).then_some(place)
    }

    pub fn get(&self, slot: u32) -> Option<&Book> {
        self.find(slot).map(|place| self.at(place))
    }

    #[inline]
    pub fn at(&self, place: Place) -> &Book {
        &self.places[place as usize]
    }

    #[inline]
    pub fn at_mut(&mut self, place: Place) -> &mut Book {
        &mut self.places[place as usize]
    }

    /// What is at a place where the book of some request's slot has been, for as long as it waited.
    #[inline]
    pub fn get_at(&mut self, place: Place) -> Option<&mut Book> {
        self.places.get_mut(place as usize)
    }

    /// Whether another book needs more memory.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() >= self.room
    }

    /// The place of the slot's book: a new one, if it has none. Only where [`Books::is_full`] says no.
    #[inline]
    pub fn open(&mut self, slot: u32) -> Place {
        let cell = self.cell(slot);
        let known = self.index[cell].place;
        if known != NOWHERE {
            return known;
        }
        let place = self.vacant.pop().unwrap_or_else(|| self.add_place());
        self.places[place as usize].slot = slot;
        self.index[cell] = Cell { slot, place };
        place
    }

    #[cold]
    fn add_place(&mut self) -> Place {
        self.places.push(Book::plain(0));
        (self.places.len() - 1) as Place
    }

    /// Empties a book that keeps nothing; what memory it has left.
    pub fn make_plain(&mut self, place: Place) -> Vec<Stray> {
        let book = self.at_mut(place);
        let slot = book.slot;
        core::mem::replace(book, Book::plain(slot)).limbo
    }

    /// Forgets a plain book that keeps nothing.
    #[inline]
    pub fn close(&mut self, place: Place) {
        let book = self.at_mut(place);
        debug_assert!(book.plain && book.is_idle());
        book.due = Time::NEVER;
        let slot = book.slot;
        self.vacant.push(place);
        self.empty_cell(self.cell(slot));
    }

    /// Cells behind it that were taken because it was are moved up.
    #[inline]
    fn empty_cell(&mut self, mut hole: usize) {
        let mask = self.index.len() - 1;
        let mut next = self.after(hole);
        while self.index[next].place != NOWHERE {
            let home = self.home(self.index[next].slot);
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.index[hole] = self.index[next];
                hole = next;
            }
            next = self.after(next);
        }
        self.index[hole].place = NOWHERE;
    }

    /// Makes room for as many books, a power of two.
    pub fn make_room(&mut self, books: usize) {
        debug_assert!(books.is_power_of_two() && books > self.room);
        self.room = books;
        self.places.reserve(books.saturating_sub(self.places.len()));
        self.vacant.reserve(books.saturating_sub(self.vacant.len()));
        let cells = alloc::vec![Cell { slot: 0, place: NOWHERE }; 2 * books];
        self.shift = u32::BITS - cells.len().trailing_zeros();
        for Cell { slot, place } in core::mem::replace(&mut self.index, cells) {
            if place != NOWHERE {
                let cell = self.cell(slot);
                self.index[cell] = Cell { slot, place };
            }
        }
    }

    pub fn room(&self) -> usize {
        self.room
    }

    pub fn clear(&mut self) {
        self.index.iter_mut().for_each(|cell| cell.place = NOWHERE);
        self.places.clear();
        self.vacant.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.places.len() - self.vacant.len()
    }

    /// All places, those that are vacant among them: their books are plain, and keep nothing.
    pub fn places(&self) -> core::ops::Range<Place> {
        0..self.places.len() as Place
    }

    /// In an order that follows from their slots and their history alone.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Book)> {
        let taken = self.index.iter().filter(|cell| cell.place != NOWHERE);
        taken.map(|cell| (cell.slot, self.at(cell.place)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Duty, Home};
    use alloc::collections::BTreeMap;
    use wayside_wire::{Entry, SlotState};

    /// Against a map, with slots that meet in the index: few numbers, and strides of powers of two.
    #[test]
    fn every_book_is_found_at_its_place_for_as_long_as_it_exists() {
        for stride in [1, 3, 1 << 10, 1 << 26] {
            let (mut books, mut known) = (Books::default(), BTreeMap::<u32, Place>::new());
            let mut dice = 1u64;
            for _ in 0..20_000 {
                dice = wayside_wire::mix(dice + 1);
                let slot = (dice % 48) as u32 * stride;
                if dice >> 32 & 1 == 0 {
                    if books.is_full() {
                        books.make_room((2 * books.room()).max(1));
                    }
                    let place = books.open(slot);
                    assert_eq!(*known.entry(slot).or_insert(place), place);
                } else if let Some(place) = known.remove(&slot) {
                    books.close(place);
                }
                let found = |slot: u32| books.find(slot) == known.get(&slot).copied();
                assert!((0..48).all(|n| found(n * stride)), "stride {stride}");
                assert!(known.iter().all(|(&slot, &place)| books.at(place).slot == slot));
                assert_eq!(books.iter().count(), known.len());
            }
            assert!(books.places.len() <= 48, "places are used again");
        }
    }

    const STAMP: Stamp = Stamp { epoch: 7, tenure: 5 };

    fn stray(kind: u8, request: u64, holder: Handle, slot_bits: u16, hops: u16) -> Stray {
        Stray { kind, entry: Entry { request, holder, slot_bits, ..Entry::default() }, hops }
    }

    fn with_agent(suspended: bool) -> Book {
        let mut agent = Box::new(Agent::with_room());
        agent.reset(3, STAMP, SlotBits { state: SlotState::Managed, transferred: false, tryable: false, joins: 0 });
        agent.suspended = suspended;
        Book { plain: false, agent: Some(agent), ..Book::plain(3) }
    }

    fn with_sole(suspended: bool, open: bool) -> Book {
        let sole = Sole {
            stamp: STAMP,
            name: 1,
            holder: 1,
            port: 0,
            mode: Mode::Shared,
            tryable: true,
            open,
            suspended,
            confirmed: true,
            sequence: 0,
            home: Home::default(),
            duty: Duty::Keep { request: 9 },
        };
        Book { sole: Some(sole), ..Book::plain(3) }
    }

    fn handing(tenure: u32) -> Option<Box<Handing>> {
        let stamp = Stamp { tenure, ..STAMP };
        Some(Box::new(Handing { to: 2, stamp, waiters: Vec::new(), arrived: 0, due: Time(4), attempts: 0 }))
    }

    fn claim() -> Option<Claim> {
        Some(Claim { nonce: 1, tenure: 5, due: Time(3), pause: 1 })
    }

    #[test]
    fn limbo_keeps_every_packet_once_with_the_most_hops_of_its_copies() {
        let mut book = Book::plain(3);
        assert!(book.keep(stray(1, 10, 2, 0, 3)));
        assert!(!book.keep(stray(1, 10, 2, 0, 5)) && !book.keep(stray(1, 10, 2, 0, 1)));
        assert_eq!((book.limbo.len(), book.limbo[0].hops), (1, 5));
        for other in [stray(4, 10, 2, 0, 0), stray(1, 11, 2, 0, 0), stray(1, 10, 3, 0, 0), stray(1, 10, 2, 1, 0)] {
            assert!(book.keep(other), "{other:?}");
        }
        for request in book.limbo.len()..LIMBO_MOST {
            assert!(book.keep(stray(1, 100 + request as u64, 2, 0, 0)));
        }
        assert!(!book.keep(stray(1, 1, 2, 0, 0)), "there is no room");
        assert_eq!(book.limbo.len(), LIMBO_MOST);
    }

    #[test]
    fn a_floor_is_the_highest_stamp_that_was_served() {
        assert_eq!(Book::plain(3).floor(), Stamp::default());
        assert_eq!(with_sole(false, true).floor(), STAMP);
        assert_eq!(with_agent(false).floor(), STAMP);
        let handed = Book { plain: false, handing: handing(9), ..Book::plain(3) };
        assert_eq!(handed.floor(), Stamp { tenure: 8, ..STAMP }, "the heir's grants count");
        assert_eq!(Book { handing: handing(9), ..with_agent(false) }.floor(), Stamp { tenure: 8, ..STAMP });
        assert_eq!(Book { handing: handing(2), ..with_agent(false) }.floor(), STAMP);
    }

    #[test]
    fn a_node_decides_by_itself_unless_a_writer_finds_its_slot_open() {
        assert!(!Book::plain(3).decides(Mode::Shared));
        let open = with_sole(false, true);
        assert!(open.decides(Mode::Shared) && !open.decides(Mode::Exclusive));
        assert!(with_sole(false, false).decides(Mode::Exclusive));
        assert!(!with_sole(true, false).decides(Mode::Shared));
        assert!(with_agent(false).decides(Mode::Exclusive) && !with_agent(true).decides(Mode::Shared));
    }

    #[test]
    fn a_book_says_after_a_census_whether_it_has_more_than_a_hold_of_its_own_node() {
        assert!(Book::plain(3).is_suspended_alone(1));
        assert!(with_sole(true, false).is_suspended_alone(1) && !with_sole(false, false).is_suspended_alone(1));
        assert!(with_agent(true).is_suspended_alone(1) && !with_agent(false).is_suspended_alone(1));
        let mut limbo = with_agent(true);
        limbo.keep(stray(1, 10, 2, 0, 0));
        let claimed = Book { claim: claim(), ..with_agent(true) };
        let handed = Book { handing: handing(9), ..with_agent(true) };
        assert!([limbo, claimed, handed].iter().all(|book| !book.is_suspended_alone(1)));
    }

    #[test]
    fn a_book_is_idle_that_has_nothing() {
        assert!(Book::plain(3).is_idle());
        assert!(Book { plain: false, ..Book::plain(3) }.is_idle());
        let mut limbo = Book { plain: false, ..Book::plain(3) };
        limbo.keep(stray(1, 10, 2, 0, 0));
        let claimed = Book { plain: false, claim: claim(), ..Book::plain(3) };
        let handed = Book { plain: false, handing: handing(9), ..Book::plain(3) };
        let waits = Book { waits: 1, ..Book::plain(3) };
        let all = [limbo, claimed, handed, waits, with_sole(false, false), with_agent(false)];
        assert!(all.iter().all(|book| !book.is_idle()));
    }

    fn home(is_kept: bool, is_used: bool) -> Home {
        let mut home = Home::NEW;
        (home.is_kept, home.is_used) = (is_kept, is_used);
        home
    }

    #[test]
    fn an_agent_is_at_rest_where_there_is_nothing_else_in_its_book() {
        let resting = |is_kept| {
            let mut book = with_agent(false);
            book.agent.as_mut().expect("it has one").home = home(is_kept, true);
            book
        };
        let sole = resting(true).at_rest(1).expect("nobody holds or waits, and its node keeps it");
        assert_eq!((sole.stamp, sole.holder, sole.home.is_kept, sole.rests()), (STAMP, 1, true, true));
        let bits = SlotBits { state: SlotState::Managed, transferred: false, tryable: false, joins: 0 };
        let mut limbo = resting(true);
        limbo.keep(stray(1, 10, 2, 0, 0));
        let others = [
            resting(false),
            with_sole(false, false),
            limbo,
            Book { waits: 1, ..resting(true) },
            Book { limbo_due: Some(Time(2)), ..resting(true) },
            Book { seen: Some((STAMP, bits)), ..resting(true) },
            Book { claim: claim(), ..resting(true) },
            Book { handing: handing(9), ..resting(true) },
            Book { forget: Some(Time(1)), ..resting(true) },
        ];
        assert!(others.iter().all(|book| book.at_rest(1).is_none()));
    }

    /// By its agent or, where nobody else has had to do with it, in few words.
    #[test]
    fn a_book_knows_whether_it_is_kept_and_whether_its_node_has_used_it_since_it_was_asked() {
        let homes: [fn(Home) -> Book; 2] = [
            |home| {
                let mut book = with_agent(false);
                book.agent.as_mut().expect("it has one").home = home;
                book
            },
            |home| Book { sole: with_sole(false, false).sole.map(|sole| Sole { home, ..sole }), ..Book::plain(3) },
        ];
        for at in homes {
            assert!(at(home(true, false)).is_kept() && !at(home(false, true)).is_kept());
            let mut book = at(home(false, true));
            assert!(!book.is_unused() && book.is_unused() && book.is_unused());
        }
        let mut empty = Book::plain(3);
        assert!(!empty.is_kept() && !empty.is_unused(), "there is nothing to let go");
    }

    #[test]
    fn a_book_is_due_with_the_first_of_what_it_waits_for() {
        assert_eq!(Book::plain(3).next_due(), Time::NEVER);
        let book = || Book { claim: claim(), handing: handing(9), ..Book::plain(3) };
        assert_eq!(book().next_due(), Time(3));
        assert_eq!(Book { claim: None, ..book() }.next_due(), Time(4));
        assert_eq!(Book { limbo_due: Some(Time(2)), ..book() }.next_due(), Time(2));
        assert_eq!(Book { forget: Some(Time(1)), ..book() }.next_due(), Time(1));
    }

    fn with_room(books: usize) -> Books {
        let mut all = Books::default();
        all.make_room(books);
        all
    }

    #[test]
    fn a_place_that_is_used_again_has_nothing_of_its_former_book() {
        let mut books = with_room(2);
        let place = books.open(3);
        assert_eq!(books.get_at(place).map(|book| book.slot), Some(3));
        assert!(books.get_at(place + 1).is_none());
        let book = books.at_mut(place);
        (book.plain, book.due) = (false, Time(5));
        book.keep(stray(1, 10, 2, 0, 0));
        let kept = books.make_plain(place);
        assert_eq!(kept.len(), 1, "whoever empties it has its memory");
        assert!(books.at(place).plain && books.at(place).is_idle() && books.at(place).slot == 3);
        books.at_mut(place).due = Time(6);
        books.close(place);
        assert_eq!(books.open(4), place);
        assert_eq!((books.at(place).due, books.at(place).slot), (Time::NEVER, 4));
    }

    #[test]
    fn books_that_were_cleared_begin_anew() {
        let mut books = with_room(4);
        let former = books.open(3);
        books.open(4);
        books.close(former);
        books.clear();
        assert!(books.is_empty() && books.find(4).is_none());
        let places = [5, 6].map(|slot| books.open(slot));
        assert!(places[0] != places[1] && books.len() == 2);
        assert!(places.iter().zip([5, 6]).all(|(&place, slot)| books.at(place).slot == slot));
    }
}
