//! What is due when. A heap of (time, what); whoever is named keeps its own due time, and an entry whose time is no
//! longer that is stale: it is skipped, and dropped as soon as it comes to the top.

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

    /// Drops stale entries from the top, so that an uncontended lock leaves nothing behind to wake up for.
    pub fn drop_stale(&mut self, mut is_current: impl FnMut(Time, Due) -> bool) {
        while let Some(&Reverse((at, due))) = self.heap.peek() {
            if is_current(at, due) {
                return;
            }
            self.heap.pop();
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.heap.clear();
    }
}
