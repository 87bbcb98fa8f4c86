//! What is due when, but for the session's own timer. (Time, what) in order of time; whoever is named keeps its own due
//! time, and an entry whose time is no longer that is stale.
//!
//! A stale entry is skipped when it is due, and dropped when it is at the top and somebody asks what is next. One
//! behind another that is current may not come there for long, while a busy node adds 100,000 a second: so all of them
//! are dropped when they are most.

use crate::fifo::Fifo;
use crate::{RequestId, Time};
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

/// Whose timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// Retransmission or deadline of a request.
    Request(RequestId),
    /// Agent, limbo, claim or hand-over of a slot.
    Slot(u32),
}

/// Entries for each owner beyond which all stale ones are dropped: half of them at least, so a push costs little.
const EACH: usize = 2;
/// Entries that are no matter.
const FEW: usize = 64;

/// How far ahead the queue reaches, in microseconds: the first retransmissions, of which every request has one.
const NEAR: u64 = 8_000;

/// The heap, and before it a queue of what is near and comes in the order in which it is due: nearly everything does,
/// as first retransmissions all have the same delay.
///
/// Invariant: while nobody finds them crowded, both have at most `most` entries, and room for as many again.
#[derive(Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Time, Due)>>,
    queue: Fifo<(Time, Due)>,
    /// The first time for which one was set since [`Timers::next`].
    earliest: Option<Time>,
    owners: usize,
    /// What follows from that.
    most: usize,
}

impl Timers {
    /// Adds an entry; the older one of the same owner becomes stale.
    #[inline]
    pub fn set(&mut self, now: Time, at: Time, due: Due) {
        self.earliest = Some(self.earliest.map_or(at, |earliest| earliest.min(at)));
        let in_order = self.queue.last().is_none_or(|&(last, _)| last <= at);
        if in_order && at.since(now) <= NEAR {
            self.queue.push((at, due));
        } else {
            self.heap.push(Reverse((at, due)));
        }
    }

    /// Takes the first entry if it is due, stale or not.
    pub fn due(&mut self, now: Time) -> Option<(Time, Due)> {
        let far = self.heap.peek().map(|Reverse(entry)| *entry);
        let near = self.queue.first().copied();
        let first = near.into_iter().chain(far).min()?;
        if first.0 > now {
            return None;
        }
        if near == Some(first) {
            self.queue.pop();
        } else {
            self.heap.pop();
        }
        Some(first)
    }

    /// Time of the first entry that is current; [`Time::NEVER`], if there is none. Drops the stale ones before it, so
    /// that an uncontended lock leaves nothing behind to wake up for.
    #[inline]
    pub fn next(&mut self, is_current: impl Fn(Time, Due) -> bool) -> Time {
        self.earliest = None;
        let near = loop {
            match self.queue.first() {
                None => break Time::NEVER,
                Some(&(at, due)) if is_current(at, due) => break at,
                Some(_) => drop(self.queue.pop()),
            }
        };
        if self.heap.is_empty() { near } else { near.min(self.next_far(is_current)) }
    }

    #[inline(never)]
    fn next_far(&mut self, is_current: impl Fn(Time, Due) -> bool) -> Time {
        loop {
            match self.heap.peek() {
                None => return Time::NEVER,
                Some(&Reverse((at, due))) if is_current(at, due) => return at,
                Some(_) => drop(self.heap.pop()),
            }
        }
    }

    /// Whether there are many more entries than `owners` can have current ones, or less room than they may need.
    #[inline]
    pub fn is_crowded(&self, owners: usize) -> bool {
        self.queue.len().max(self.heap.len()) > self.most || owners > self.owners
    }

    /// Drops all stale entries, and makes room for those of as many owners until the next time.
    #[cold]
    pub fn drop_stale(&mut self, owners: usize, is_current: impl Fn(Time, Due) -> bool) {
        self.heap.retain(|&Reverse((at, due))| is_current(at, due));
        self.queue.retain(|&(at, due)| is_current(at, due));
        self.owners = self.owners.max(owners);
        self.most = EACH * self.owners + FEW;
        // For what is added until the next call: so the memory follows from the most owners alone.
        self.heap.reserve((2 * self.most).saturating_sub(self.heap.len()));
        self.queue.make_room(2 * self.most);
    }

    /// Whether one was set for before `time` since [`Timers::next`], or there are so many that stale ones should go.
    #[inline]
    pub fn want_a_look_before(&self, time: Time) -> bool {
        self.earliest.is_some_and(|earliest| earliest < time) || self.queue.len().max(self.heap.len()) > self.most
    }

    /// Whether there is none at all, not even a stale one.
    pub fn is_empty(&self) -> bool {
        self.queue.len() == 0 && self.heap.is_empty()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.heap.clear();
        self.queue.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_entries_behind_a_current_one_do_not_pile_up() {
        let mut timers = Timers::default();
        timers.drop_stale(2, |_, _| true);
        let room = timers.heap.capacity();
        for now in 0..100_000 {
            let (far, near) = (Time(now + 500_000), Time(now + 5_000));
            timers.set(Time(now), far, Due::Request(RequestId(now)));
            timers.set(Time(now), near, Due::Slot(1));
            // One that is current lies at the top, of each kind, for a hundred rounds.
            let first = now - now % 100;
            let is_current = |at, _| at == near || at == Time(first + 5_000) || at == Time(first + 500_000);
            if timers.is_crowded(2) {
                timers.drop_stale(2, is_current);
            }
            assert!(timers.next(is_current) <= near);
            let (heap, queue) = (timers.heap.len(), timers.queue.len());
            assert!(heap.max(queue) <= EACH * 2 + FEW, "{heap}, {queue} at {now}");
        }
        assert_eq!(timers.heap.capacity(), room);
        assert_eq!(timers.next(|at, _| at == Time(599_999)), Time(599_999), "the current one stays");
    }

    #[test]
    fn a_look_is_wanted_for_what_was_set_since_the_last_and_for_too_many() {
        let mut timers = Timers::default();
        timers.drop_stale(2, |_, _| true);
        assert!(!timers.want_a_look_before(Time(10)));
        for (at, wanted) in [(10, false), (20, false), (9, true), (11, true)] {
            timers.set(Time(0), Time(at), Due::Slot(0));
            assert_eq!(timers.want_a_look_before(Time(10)), wanted, "{at}");
        }
        timers.next(|_, _| true);
        assert!(!timers.want_a_look_before(Time(10)));
        for _ in timers.queue.len()..=EACH * 2 + FEW {
            assert!(!timers.want_a_look_before(Time(10)));
            timers.set(Time(0), Time(11), Due::Slot(0));
        }
        assert!(timers.want_a_look_before(Time(10)));
    }

    #[test]
    fn what_is_near_and_what_is_far_come_in_one_order() {
        let mut timers = Timers::default();
        let times = [5_000, 5_000, 900_000, 4_000, 6_000, 20_000, 7_000, 5_500];
        for (slot, at) in (0u32..).zip(times) {
            timers.set(Time(0), Time(at), Due::Slot(slot));
        }
        assert!(timers.queue.len() > 0 && !timers.heap.is_empty());
        assert_eq!(timers.due(Time(3_999)), None);
        let mut came = alloc::vec![];
        loop {
            let next = timers.next(|_, _| true);
            if next == Time::NEVER {
                break;
            }
            let (at, _) = timers.due(Time::NEVER).unwrap();
            assert_eq!(at, next);
            came.push(at.0);
        }
        let mut expected = times.to_vec();
        expected.sort_unstable();
        assert_eq!(came, expected);
    }

    #[test]
    fn what_is_cleared_is_gone_be_it_near_or_far() {
        let mut timers = Timers::default();
        assert!(timers.is_empty());
        for (slot, at) in [(1, NEAR), (2, NEAR + 1)] {
            timers.set(Time(0), Time(at), Due::Slot(slot));
            assert!(!timers.is_empty());
            timers.clear();
            assert!(timers.is_empty());
            assert_eq!(timers.due(Time::NEVER), None);
        }
    }

    /// What comes in order, and soon, is never sorted.
    #[test]
    fn the_queue_takes_what_is_near_and_in_order() {
        let mut timers = Timers::default();
        let far = |timers: &Timers| timers.heap.len();
        for at in [3, 3, NEAR] {
            timers.set(Time(0), Time(at), Due::Slot(0));
        }
        assert_eq!((timers.queue.len(), far(&timers)), (3, 0));
        timers.set(Time(0), Time(NEAR + 1), Due::Slot(0));
        timers.set(Time(0), Time(NEAR - 1), Due::Slot(0));
        assert_eq!((timers.queue.len(), far(&timers)), (3, 2));
    }

    #[test]
    fn it_is_crowded_by_entries_of_either_kind_and_by_owners() {
        let filled = |near: usize, far: usize| {
            let mut timers = Timers::default();
            timers.drop_stale(2, |_, _| true);
            (0..near).for_each(|_| timers.set(Time(0), Time(1), Due::Slot(0)));
            (0..far).for_each(|_| timers.set(Time(0), Time(NEAR + 1), Due::Slot(0)));
            timers
        };
        let most = EACH * 2 + FEW;
        assert!(!filled(most, most).is_crowded(2));
        assert!(filled(most + 1, 0).is_crowded(2) && filled(0, most + 1).is_crowded(2));
        assert!(filled(0, 0).is_crowded(3));
        let room = filled(0, 0);
        assert!(room.heap.capacity() >= 2 * most && room.queue.len() == 0);
    }
}
