//! What is due when. A heap of (time, what); whoever is named keeps its own due time, and an entry whose time is no
//! longer that is stale.
//!
//! A stale entry is skipped when it is due, and dropped as soon as it comes to the top. One behind the next heartbeat
//! would not come there for long, while a busy node adds 100,000 a second: so all of them are dropped when they are most.

use crate::{RequestId, Time};
use alloc::collections::BinaryHeap;
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

/// The heap.
#[derive(Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Time, Due)>>,
}

impl Timers {
    /// Adds an entry; the older one of the same owner becomes stale.
    pub fn set(&mut self, at: Time, due: Due) {
        self.heap.push(Reverse((at, due)));
    }

    /// Time of the first entry.
    pub fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the first entry if it is due, stale or not.
    pub fn due(&mut self, now: Time) -> Option<(Time, Due)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }

    /// Drops stale entries from the top, so that an uncontended lock leaves nothing behind to wake up for; and all of
    /// them, if there are many more entries than `owners` can have current ones.
    pub fn drop_stale(&mut self, owners: usize, mut is_current: impl FnMut(Time, Due) -> bool) {
        while let Some(&Reverse((at, due))) = self.heap.peek() {
            if is_current(at, due) {
                break;
            }
            self.heap.pop();
        }
        let most = EACH * owners + FEW;
        if self.heap.len() > most {
            self.heap.retain(|&Reverse((at, due))| is_current(at, due));
        }
        // For what is added until the next call: so the memory follows from the most owners alone.
        if self.heap.capacity() < 2 * most {
            self.heap.reserve(2 * most - self.heap.len());
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.heap.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_entries_behind_a_current_one_do_not_pile_up() {
        let mut timers = Timers::default();
        timers.set(Time(1_000), Due::Session);
        timers.drop_stale(2, |_, _| true);
        let room = timers.heap.capacity();
        for at in 2_000..100_000 {
            timers.set(Time(at), Due::Slot(1));
            timers.drop_stale(2, |time, due| due == Due::Session || time == Time(at));
            assert!(timers.heap.len() <= EACH * 2 + FEW + 1, "{} at {at}", timers.heap.len());
        }
        assert_eq!(timers.heap.capacity(), room);
        assert_eq!(timers.due(Time(1_000)), Some((Time(1_000), Due::Session)));
        timers.drop_stale(1, |time, _| time == Time(99_999));
        assert_eq!(timers.next(), Some(Time(99_999)), "the current one stays");
    }
}
