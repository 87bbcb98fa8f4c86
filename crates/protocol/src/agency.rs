//! What a node keeps about slots: their agents, packets in limbo, claims, queues on their way to the next agent.
//!
//! Invariants: a book exists only while it holds something; the memory of agents and limbos is kept for the next ones,
//! and made when there are more books than ever before. So a lock that comes and goes allocates nothing, nor does what
//! a lost packet or a pause brings along: how much memory there is follows from the most locks at a time alone.

use crate::agent::{Agent, Party};
use crate::map::{IdMap, SteadyMap};
use crate::{Handle, Stamp, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::Cell;
use core::mem;
use wayside_wire::{Entry, SlotBits};

/// Packets that one slot keeps in limbo; the rest is dropped, and its senders retransmit.
const LIMBO_MOST: usize = 64;
/// Agents whose memory is kept for reuse, with their limbos some 1,100 bytes each: a node that takes and gives back a thousand locks in turn
/// allocates nothing.
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

/// Everything about one slot.
#[derive(Debug, Default)]
pub struct Book {
    pub agent: Option<Box<Agent>>,
    /// Requests of this node that wait in this slot.
    pub waits: u32,
    pub limbo: Vec<Stray>,
    pub limbo_due: Option<Time>,
    /// The newest snapshot that named this node as agent while it was not.
    pub seen: Option<(Stamp, SlotBits)>,
    pub claim: Option<Claim>,
    pub handing: Option<Box<Handing>>,
    /// When a suspended agent that nobody adopts is forgotten.
    pub forget: Option<Time>,
    /// The time for which the slot's timer is set.
    pub due: Option<Time>,
}

impl Book {
    pub fn is_idle(&self) -> bool {
        self.agent.is_none()
            && self.waits == 0
            && self.limbo.is_empty()
            && self.claim.is_none()
            && self.handing.is_none()
    }

    /// The highest stamp that this node has served in the slot and still knows of.
    pub fn floor(&self) -> Stamp {
        // `Handing` has the stamp of the next agent, whose grants count.
        let handed =
            self.handing.as_ref().map_or(Stamp::default(), |h| Stamp { tenure: h.stamp.tenure - 1, ..h.stamp });
        self.agent.as_ref().map_or(handed, |agent| agent.stamp.max(handed))
    }

    pub fn next_due(&self) -> Option<Time> {
        const NEVER: Time = Time(u64::MAX);
        let agent = self.agent.as_ref().map_or(NEVER, |agent| agent.due());
        let claim = self.claim.as_ref().map_or(NEVER, |claim| claim.due);
        let handing = self.handing.as_ref().map_or(NEVER, |handing| handing.due);
        let rest = self.limbo_due.unwrap_or(NEVER).min(self.forget.unwrap_or(NEVER));
        let due = agent.min(claim).min(handing).min(rest);
        (due != NEVER).then_some(due)
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

/// Books by slot. A call of the node mostly speaks of one slot, again and again: that one is found without the map.
///
/// Invariants: `index` has the place of every slot with a book; all other places are `vacant`, and their books empty. `last` is a slot and its place, or a place beyond all.
#[derive(Default)]
pub struct Books {
    index: SteadyMap<u32, u32>,
    places: Vec<Book>,
    vacant: Vec<u32>,
    last: Cell<(u32, u32)>,
}

impl Books {
    #[inline]
    fn place(&self, slot: u32) -> Option<usize> {
        let (known, place) = self.last.get();
        if known == slot && (place as usize) < self.places.len() {
            return Some(place as usize);
        }
        let place = *self.index.get(&slot)?;
        self.last.set((slot, place));
        Some(place as usize)
    }

    pub fn get(&self, slot: u32) -> Option<&Book> {
        self.place(slot).map(|place| &self.places[place])
    }

    pub fn get_mut(&mut self, slot: u32) -> Option<&mut Book> {
        self.place(slot).map(|place| &mut self.places[place])
    }

    fn get_or_default(&mut self, slot: u32) -> &mut Book {
        let place = self.place(slot).unwrap_or_else(|| {
            let place = self.vacant.pop().unwrap_or(self.places.len() as u32);
            if place as usize == self.places.len() {
                self.places.push(Book::default());
            }
            self.index.insert(slot, place);
            self.last.set((slot, place));
            place as usize
        });
        &mut self.places[place]
    }

    fn remove(&mut self, slot: u32) -> Option<Book> {
        let place = self.index.remove(&slot)?;
        self.last.set((slot, u32::MAX));
        self.vacant.push(place);
        Some(mem::take(&mut self.places[place as usize]))
    }

    /// Makes room for as many books.
    fn make_room(&mut self, books: usize) {
        self.places.reserve(books.saturating_sub(self.places.len()));
        self.vacant.reserve(books.saturating_sub(self.vacant.len()));
    }

    fn clear(&mut self) {
        self.index.clear();
        self.places.clear();
        self.vacant.clear();
        self.last.set((0, u32::MAX));
    }

    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// In an order that follows from their slots and their history alone.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Book)> {
        self.index.iter().map(|(&slot, &place)| (slot, &self.places[place as usize]))
    }
}

/// All books of a node.
#[derive(Default)]
pub struct Agency {
    pub books: Books,
    /// Books for which agents and limbos were made.
    provided: usize,
    #[expect(clippy::vec_box, reason = "boxes move between here and the books, and agents stay where they are")]
    spare: Vec<Box<Agent>>,
    spare_limbos: Vec<Vec<Stray>>,
    /// What [`Agency::slots`] hands out.
    slot_list: Vec<u32>,
}

impl Agency {
    /// Makes agents and limbos for as many books again as there are; one agent more, for the moment in which one takes
    /// the place of another.
    #[cold]
    fn provide(&mut self) {
        let provided = (2 * self.books.len()).clamp(SPARE_FIRST, SPARE_MOST);
        let more = provided - self.provided;
        let agents = more + usize::from(self.provided == 0);
        self.spare.reserve((provided + 1).saturating_sub(self.spare.len()));
        self.spare.extend((0..agents).map(|_| Box::new(Agent::with_room())));
        self.spare_limbos.reserve((provided + 1).saturating_sub(self.spare_limbos.len()));
        self.spare_limbos.extend((0..agents).map(|_| Vec::with_capacity(LIMBO_ROOM)));
        self.slot_list.reserve(provided);
        self.books.make_room(provided);
        self.provided = provided;
    }

    pub fn new_agent(&mut self) -> Box<Agent> {
        self.spare.pop().unwrap_or_else(|| Box::new(Agent::with_room()))
    }

    pub fn put_away(&mut self, agent: Box<Agent>) {
        if self.spare.len() <= SPARE_MOST {
            self.spare.push(agent);
        }
    }

    pub fn book(&mut self, slot: u32) -> &mut Book {
        if self.books.len() == self.provided && self.provided < SPARE_MOST {
            self.provide();
        }
        self.books.get_or_default(slot)
    }

    pub fn get(&mut self, slot: u32) -> Option<&mut Book> {
        self.books.get_mut(slot)
    }

    /// The slot's book, with room for a packet in limbo.
    pub fn book_with_limbo(&mut self, slot: u32) -> &mut Book {
        self.book(slot);
        let spare = &mut self.spare_limbos;
        let book = self.books.get_or_default(slot);
        if book.limbo.capacity() == 0
            && let Some(spare) = spare.pop()
        {
            book.limbo = spare;
        }
        book
    }

    /// What was in the slot's limbo; given back empty to [`Agency::put_limbo_away`].
    pub fn take_limbo(&mut self, slot: u32) -> Vec<Stray> {
        let Some(book) = self.books.get_mut(slot) else { return Vec::new() };
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

    /// Forgets a book that keeps nothing.
    pub fn drop_book(&mut self, slot: u32) {
        if let Some(book) = self.books.remove(slot) {
            self.put_limbo_away(book.limbo);
        }
    }

    /// Slots with a book, in order; given back to [`Agency::put_slots_away`].
    pub fn slots(&mut self) -> Vec<u32> {
        let mut slots = mem::take(&mut self.slot_list);
        slots.clear();
        slots.extend(self.books.index.keys());
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

/// How long a dead handle's packets are ignored, in microseconds: handles rest 60 s before they are given again.
const DEAD_FOR: u64 = 45_000_000;

/// Handles whose session is over. Whatever speaks for them is ignored: a copy in flight, a place in a queue that comes
/// along with an agency, a hold that was reported before they died.
#[derive(Default)]
pub struct Dead {
    since: IdMap<Handle, Time>,
}

impl Dead {
    pub fn note(&mut self, handle: Handle, now: Time) {
        self.since.retain(|_, since| now.since(*since) < DEAD_FOR);
        self.since.insert(handle, now);
    }

    pub fn is_empty(&self) -> bool {
        self.since.is_empty()
    }

    pub fn has(&self, handle: Handle, now: Time) -> bool {
        !self.is_empty() && self.since.get(&handle).is_some_and(|since| now.since(*since) < DEAD_FOR)
    }

    pub fn clear(&mut self) {
        self.since.clear();
    }
}
