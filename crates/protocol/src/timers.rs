//! What is due when. (Time, what) in order of time; whoever is named keeps its own due time, and an entry whose time is no
//! longer that is stale.
//!
//! A stale entry is skipped when it is due, and dropped as soon as it comes to the top. One behind the next heartbeat
//! would not come there for long, while a busy node adds 100,000 a second: so all of them are dropped when they are most.

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
#[derive(Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Time, Due)>>,
    queue: VecDeque<(Time, Due)>,
}

impl Timers {
    /// Adds an entry; the older one of the same owner becomes stale.
    pub fn set(&mut self, now: Time, at: Time, due: Due) {
        let in_order = self.queue.back().is_none_or(|&(last, _)| last <= at);
        if in_order && at.since(now) <= NEAR {
            self.queue.push_back((at, due));
        } else {
            self.heap.push(Reverse((at, due)));
        }
    }

    /// Time of the first entry.
    pub fn next(&self) -> Option<Time> {
        let far = self.heap.peek().map(|Reverse((at, _))| *at);
        let near = self.queue.front().map(|(at, _)| *at);
        match (near, far) {
            (Some(near), Some(far)) => Some(near.min(far)),
            (near, far) => near.or(far),
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

    /// Drops stale entries from the top, so that an uncontended lock leaves nothing behind to wake up for; and all of
    /// them, if there are many more entries than `owners` can have current ones.
    pub fn drop_stale(&mut self, owners: usize, mut is_current: impl FnMut(Time, Due) -> bool) {
        while let Some(&(at, due)) = self.queue.front()
            && !is_current(at, due)
        {
            self.queue.pop_front();
        }
        while let Some(&Reverse((at, due))) = self.heap.peek()
            && !is_current(at, due)
        {
            self.heap.pop();
        }
        let most = EACH * owners + FEW;
        if self.heap.len() > most {
            self.heap.retain(|&Reverse((at, due))| is_current(at, due));
        }
        if self.queue.len() > most {
            self.queue.retain(|&(at, due)| is_current(at, due));
        }
        // For what is added until the next call: so the memory follows from the most owners alone.
        if self.heap.capacity() < 2 * most {
            self.heap.reserve(2 * most - self.heap.len());
        }
        if self.queue.capacity() < 2 * most {
            self.queue.reserve(2 * most - self.queue.len());
        }
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
        timers.drop_stale(2, |_, _| true);
        let room = (timers.heap.capacity(), timers.queue.capacity());
        for at in 2_000..100_000 {
            // Near and in order, near and not, far.
            let now = [at, at - 1, 0][at as usize % 3];
            timers.set(Time(now), Time(at - at % 3), Due::Slot(1));
            timers.drop_stale(2, |time, due| due == Due::Session || time == Time(at - at % 3));
            let (heap, queue) = (timers.heap.len(), timers.queue.len());
            assert!(heap.max(queue) <= EACH * 2 + FEW + 1, "{heap}, {queue} at {at}");
        }
        assert_eq!((timers.heap.capacity(), timers.queue.capacity()), room);
        timers.drop_stale(1, |time, _| time == Time(99_999));
        assert_eq!(timers.next(), Some(Time(99_999)), "the current one stays");
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
        while let Some(next) = timers.next() {
            let (at, _) = timers.due(Time(u64::MAX)).unwrap();
            assert_eq!(at, next);
            came.push(at.0);
        }
        let mut expected = times.to_vec();
        expected.sort_unstable();
        assert_eq!(came, expected);
    }
}
