//! What is due when. (Time, what) in order of time; whoever is named keeps its own due time, and an entry whose time is no
//! longer that is stale.
//!
//! A stale entry is skipped when it is due, and dropped when it is at the top and somebody asks what is next. One behind
//! the next heartbeat would not come there for long, while a busy node adds 100,000 a second: so all of them are dropped
//! when they are most.

use crate::{RequestId, Time};
use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Reverse;

/// Whose timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// Heartbeats, enrolment, leaving, the lease.
    Session,
    /// Retransmission or deadline of a request.
    Request(RequestId),
    /// Agent, limbo, claim or hand-over of a slot.
    Slot(u32),
}

/// Entries for each owner beyond which all stale ones are dropped: then three of four were, so a push costs little.
const EACH: usize = 4;
/// Entries that are no matter.
const FEW: usize = 64;

/// How far ahead the queue reaches, in microseconds: the first retransmissions, of which every request has one.
const NEAR: u64 = 8_000;

/// The heap, and before it a queue of what is near and comes in the order in which it is due: nearly everything does, as
/// first retransmissions all have the same delay.
///
/// Invariant: whenever somebody has asked what is next, both have at most `most` entries, and room for as many again.
#[derive(Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Time, Due)>>,
    queue: VecDeque<(Time, Due)>,
    most: usize,
}

impl Timers {
    /// Adds an entry; the older one of the same owner becomes stale.
    #[inline]
    pub fn set(&mut self, now: Time, at: Time, due: Due) {
        let in_order = self.queue.back().is_none_or(|&(last, _)| last <= at);
        if in_order && at.since(now) <= NEAR {
            self.queue.push_back((at, due));
        } else {
            self.heap.push(Reverse((at, due)));
        }
    }

    /// Takes the first entry if it is due, stale or not.
    pub fn due(&mut self, now: Time) -> Option<(Time, Due)> {
        let far = self.heap.peek().map(|Reverse(entry)| *entry);
        let near = self.queue.front().copied();
        let first = near.into_iter().chain(far).min()?;
        if first.0 > now {
            return None;
        }
        if near == Some(first) {
            self.queue.pop_front();
        } else {
            self.heap.pop();
        }
        Some(first)
    }

    /// Time of the first entry. Drops the stale ones before it, so that an uncontended lock leaves nothing behind to wake
    /// up for; and all of them, if there are many more entries than `owners` can have current ones.
    #[inline]
    pub fn next(&mut self, owners: usize, is_current: impl Fn(Time, Due) -> bool) -> Time {
        let near = loop {
            match self.queue.front() {
                None => break Time::NEVER,
                Some(&(at, due)) if is_current(at, due) => break at,
                Some(_) => self.queue.pop_front(),
            };
        };
        let far = loop {
            match self.heap.peek() {
                None => break Time::NEVER,
                Some(&Reverse((at, due))) if is_current(at, due) => break at,
                Some(_) => self.heap.pop(),
            };
        };
        let most = EACH * owners + FEW;
        if self.queue.len().max(self.heap.len()) > most || most > self.most {
            self.drop_stale(most, is_current);
        }
        near.min(far)
    }

    #[cold]
    fn drop_stale(&mut self, most: usize, is_current: impl Fn(Time, Due) -> bool) {
        self.heap.retain(|&Reverse((at, due))| is_current(at, due));
        self.queue.retain(|&(at, due)| is_current(at, due));
        // For what is added until the next call: so the memory follows from the most owners alone.
        self.most = self.most.max(most);
        self.heap.reserve((2 * self.most).saturating_sub(self.heap.len()));
        self.queue.reserve((2 * self.most).saturating_sub(self.queue.len()));
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
        timers.set(Time(0), Time(100_000_000), Due::Session);
        timers.next(2, |_, _| true);
        let room = (timers.heap.capacity(), timers.queue.capacity());
        for now in 0..100_000 {
            let (far, near) = (Time(now + 500_000), Time(now + 5_000));
            timers.set(Time(now), far, Due::Request(RequestId(now)));
            timers.set(Time(now), near, Due::Slot(1));
            // One that is current lies at the top, of each kind, for a hundred rounds.
            let first = now - now % 100;
            let is_current =
                |at, due| due == Due::Session || at == near || at == Time(first + 5_000) || at == Time(first + 500_000);
            assert!(timers.next(2, is_current) <= near);
            let (heap, queue) = (timers.heap.len(), timers.queue.len());
            assert!(heap.max(queue) <= EACH * 2 + FEW, "{heap}, {queue} at {now}");
        }
        assert_eq!((timers.heap.capacity(), timers.queue.capacity()), room);
        assert_eq!(timers.next(1, |at, _| at == Time(599_999)), Time(599_999), "the current one stays");
    }

    #[test]
    fn what_is_near_and_what_is_far_come_in_one_order() {
        let mut timers = Timers::default();
        let times = [5_000, 5_000, 900_000, 4_000, 6_000, 20_000, 7_000, 5_500];
        for (slot, at) in (0u32..).zip(times) {
            timers.set(Time(0), Time(at), Due::Slot(slot));
        }
        assert!(!timers.queue.is_empty() && !timers.heap.is_empty());
        assert_eq!(timers.due(Time(3_999)), None);
        let mut came = alloc::vec![];
        loop {
            let next = timers.next(times.len(), |_, _| true);
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
}
