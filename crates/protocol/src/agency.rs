//! What books are made of: agents, packets in limbo, claims, queues on their way to the next agent.
//!
//! Invariants: the memory of agents and limbos is kept for the next ones, and made when there are more books than ever
//! before. So a lock that comes and goes allocates nothing, nor does what a lost packet or a pause brings along: how
//! much memory there is follows from the most locks at a time alone.

use crate::agent::{Agent, Party};
use crate::books::{Book, Books, Place};
use crate::map::IdMap;
use crate::mutant::Mutant;
use crate::node::NodeConfig;
use crate::{Handle, Stamp, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;
use wayside_wire::Entry;

/// Agents whose memory is kept for reuse, with their limbos some 1,100 bytes each: a node that takes and gives back a
/// thousand locks in turn allocates nothing.
const SPARE_MOST: usize = 1_024;
/// Books for which memory is made at first.
const SPARE_FIRST: usize = 16;
/// Packets that a limbo has room for from the beginning: an ACQUIRE and what ends it, from each of four.
const LIMBO_ROOM: usize = 8;

/// A packet that names this node as agent while it is not.
#[derive(Clone, Copy, Debug)]
pub struct Stray {
    pub kind: u8,
    pub entry: Entry,
    pub hops: u16,
}

/// A RETENURE to oneself that is not answered yet.
#[derive(Debug)]
pub struct Claim {
    pub nonce: u64,
    pub tenure: u32,
    pub due: Time,
    pub pause: u64,
}

/// Waiters that the next agent has not acknowledged.
#[derive(Debug)]
pub struct Handing {
    pub to: Handle,
    /// The heir's, one tenure after this node's own.
    pub stamp: Stamp,
    pub waiters: Vec<Party>,
    pub arrived: usize,
    pub due: Time,
    pub attempts: u32,
}

/// All books of a node.
#[derive(Default)]
pub struct Agency {
    pub books: Books,
    #[expect(clippy::vec_box, reason = "boxes move between here and the books, and agents stay where they are")]
    spare: Vec<Box<Agent>>,
    spare_limbos: Vec<Vec<Stray>>,
    /// What [`Agency::slots_of`] hands out.
    slot_list: Vec<u32>,
}

impl Agency {
    /// Makes room for as many books again as there are, and agents and limbos for them; one more, for the moment in
    /// which one takes the place of another.
    #[cold]
    fn provide(&mut self) {
        let former = self.books.room();
        let room = (2 * former).max(SPARE_FIRST);
        self.books.make_room(room);
        self.slot_list.reserve(room);
        let provided = room.min(SPARE_MOST);
        let more = provided.saturating_sub(former) + usize::from(former == 0);
        self.spare.reserve((provided + 1).saturating_sub(self.spare.len()));
        self.spare.extend((0..more).map(|_| Box::new(Agent::with_room())));
        self.spare_limbos.reserve((provided + 1).saturating_sub(self.spare_limbos.len()));
        self.spare_limbos.extend((0..more).map(|_| Vec::with_capacity(LIMBO_ROOM)));
    }

    pub fn new_agent(&mut self) -> Box<Agent> {
        self.spare.pop().unwrap_or_else(|| Box::new(Agent::with_room()))
    }

    pub fn put_away(&mut self, agent: Box<Agent>) {
        if self.spare.len() <= SPARE_MOST {
            self.spare.push(agent);
        }
    }

    /// The place of the slot's book, which is made if there is none. As it is: plain, if nobody looked into it before.
    #[inline(always)]
    pub fn open(&mut self, slot: u32) -> Place {
        if self.books.is_full() {
            self.provide();
        }
        self.books.open(slot)
    }

    /// The slot's book, made if there is none, with its agent in full.
    pub fn book(&mut self, slot: u32) -> &mut Book {
        let place = self.open(slot);
        self.write_out(place)
    }

    /// The slot's book, with its agent in full.
    pub fn get(&mut self, slot: u32) -> Option<&mut Book> {
        let place = self.books.find(slot)?;
        Some(self.write_out(place))
    }

    /// Whatever a plain book does not have may be in this one from now on.
    fn write_out(&mut self, place: Place) -> &mut Book {
        let book = self.books.at_mut(place);
        book.plain = false;
        if let Some(sole) = book.sole.take() {
            let mut agent = self.spare.pop().unwrap_or_else(|| Box::new(Agent::with_room()));
            agent.write_out(book.slot, &sole);
            book.agent = Some(agent);
        }
        book
    }

    /// The slot's book, with room for a packet in limbo.
    pub fn book_with_limbo(&mut self, slot: u32) -> &mut Book {
        let place = self.open(slot);
        self.write_out(place);
        let book = self.books.at_mut(place);
        if book.limbo.capacity() == 0
            && let Some(spare) = self.spare_limbos.pop()
        {
            book.limbo = spare;
        }
        book
    }

    /// What was in the slot's limbo; given back empty to [`Agency::put_limbo_away`].
    pub fn take_limbo(&mut self, slot: u32) -> Vec<Stray> {
        let Some(book) = self.get(slot) else { return Vec::new() };
        book.limbo_due = None;
        book.seen = None;
        mem::take(&mut book.limbo)
    }

    pub fn put_limbo_away(&mut self, mut limbo: Vec<Stray>) {
        limbo.clear();
        if limbo.capacity() > 0 && self.spare_limbos.len() <= SPARE_MOST {
            self.spare_limbos.push(limbo);
        }
    }

    /// Empties a book for which nobody waits; what memory it has serves again.
    pub fn empty(&mut self, place: Place) {
        let book = self.books.at_mut(place);
        debug_assert_eq!(book.waits, 0, "whoever waits looks for its book");
        let agent = book.agent.take();
        let limbo = self.books.make_plain(place);
        agent.into_iter().for_each(|agent| self.put_away(agent));
        self.put_limbo_away(limbo);
    }

    /// Forgets a book that keeps nothing.
    #[inline]
    pub fn close(&mut self, place: Place) {
        if !self.books.at(place).plain {
            let limbo = self.books.make_plain(place);
            self.put_limbo_away(limbo);
        }
        self.books.close(place);
    }

    /// Slots whose books are like this, in order; given back to [`Agency::put_slots_away`].
    pub fn slots_of(&mut self, is_meant: impl Fn(&Book) -> bool) -> Vec<u32> {
        let mut slots = mem::take(&mut self.slot_list);
        slots.clear();
        slots.extend(self.books.iter().filter(|(_, book)| is_meant(book)).map(|(slot, _)| slot));
        slots.sort_unstable();
        slots
    }

    pub fn put_slots_away(&mut self, slots: Vec<u32>) {
        self.slot_list = slots;
    }

    pub fn clear(&mut self) {
        self.books.clear();
    }
}

/// Bits of a request id below those that name its session, and how many those are.
const COUNTER_BITS: u32 = 40;
const INCARNATION_BITS: u32 = 64 - COUNTER_BITS;

/// Sessions that are over: of every handle the latest, and with it those before. Whatever speaks for them is ignored: a
/// copy in flight, a place in a queue that comes along with an agency, a hold that was reported before they died.
/// However late it comes: the holder that an agent would grant it to is not there to give it back.
///
/// A handle is given again. What its next session asks for has higher ids, and a late copy of a DOWN says nothing about
/// that session.
#[derive(Default)]
pub struct Dead {
    latest: IdMap<Handle, u64>,
}

impl Dead {
    /// This session of the handle is over. False: that is known.
    pub fn note(&mut self, handle: Handle, incarnation: u64) -> bool {
        let known = self.latest.get(&handle).is_some_and(|latest| *latest >= incarnation);
        if !known {
            self.latest.insert(handle, incarnation);
        }
        !known
    }

    pub fn is_empty(&self) -> bool {
        self.latest.is_empty()
    }

    /// Whether the session that made this request is over.
    pub fn has(&self, handle: Handle, request: u64, config: &NodeConfig) -> bool {
        if config.is_broken(Mutant::DeadByHandle) {
            return self.latest.contains_key(&handle);
        }
        let is_earlier = |latest: u64| {
            let sessions = latest.wrapping_sub(request >> COUNTER_BITS) << COUNTER_BITS >> COUNTER_BITS;
            sessions < 1 << (INCARNATION_BITS - 1)
        };
        !self.is_empty() && self.latest.get(&handle).is_some_and(|latest| is_earlier(*latest))
    }

    pub fn clear(&mut self) {
        self.latest.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_are_the_latest_session_of_a_handle_and_those_before() {
        let config = NodeConfig::new(0);
        for incarnation in [9_u64, 1 << 24, 5 << 24 | 1] {
            let request = |incarnation: u64| incarnation << COUNTER_BITS | 17;
            let mut dead = Dead::default();
            assert!(dead.note(3, incarnation), "that is news");
            assert!(!dead.note(3, incarnation) && !dead.note(3, incarnation - 2));
            assert!(dead.has(3, request(incarnation), &config) && dead.has(3, request(incarnation - 5), &config));
            assert!(!dead.has(3, request(incarnation + 1), &config), "its next session lives");
            assert!(!dead.has(4, request(incarnation), &config), "another's lives");
        }
    }

    /// A request of half of all incarnations later may be of either side: it is taken for one of a session that lives.
    #[test]
    fn sessions_are_told_apart_by_half_of_their_numbers() {
        let (config, half) = (NodeConfig::new(0), 1_u64 << (INCARNATION_BITS - 1));
        let mut dead = Dead::default();
        assert!(dead.is_empty() && dead.note(3, half + 1));
        assert!(dead.has(3, 2 << COUNTER_BITS, &config), "one less than half before it");
        assert!(!dead.has(3, 1 << COUNTER_BITS, &config));
        dead.clear();
        assert!(dead.is_empty() && !dead.has(3, 2 << COUNTER_BITS, &config));
    }

    #[test]
    fn nothing_of_a_book_is_left_to_the_next_one_in_its_place() {
        let mut agency = Agency::default();
        for is_emptied in [true, false] {
            let book = agency.book(3);
            book.limbo_due = Some(Time(5));
            book.seen = Some(Default::default());
            book.agent = is_emptied.then(|| Box::new(Agent::with_room()));
            let place = agency.open(3);
            if is_emptied {
                agency.empty(place);
                let book = agency.books.at(place);
                assert!(book.plain && book.is_idle() && book.limbo_due.is_none() && book.seen.is_none());
            }
            agency.close(place);
            assert_eq!(agency.open(4), place);
            let book = agency.books.at(place);
            assert!(book.plain && book.is_idle() && book.agent.is_none());
            assert!(book.limbo_due.is_none() && book.seen.is_none());
            agency.close(place);
        }
    }

    #[test]
    fn a_limbo_that_is_taken_leaves_no_time_and_no_word_of_the_switch_behind() {
        let mut agency = Agency::default();
        let book = agency.book_with_limbo(3);
        assert!(book.keep(Stray { kind: 1, entry: Entry::default(), hops: 2 }));
        (book.limbo_due, book.seen) = (Some(Time(5)), Some(Default::default()));
        let limbo = agency.take_limbo(3);
        assert_eq!(limbo.iter().map(|stray| stray.hops).collect::<Vec<_>>(), [2]);
        let book = agency.book(3);
        assert!(book.limbo.is_empty() && book.limbo_due.is_none() && book.seen.is_none());
    }
}
