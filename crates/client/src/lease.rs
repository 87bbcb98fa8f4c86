//! Until when a session's holds are safe, for those who do not take its lock to ask.
//!
//! Invariants
//! * It is written with the session's lock held.
//! * Guards may have been told any end that has been published: the last one may be an earlier one. Where a lock server
//!   has granted something, the session ends with that, its own lease may be longer.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use wayside_protocol::{RequestId, Time};

/// A request id begins with the low bits of its session's incarnation.
const INCARNATION_SHIFT: u32 = 40;

#[derive(Default)]
pub(crate) struct Lease {
    /// 0 while there is no session. Written after `incarnation`, read before it.
    end: AtomicU64,
    /// Of the latest session.
    incarnation: AtomicU64,
    /// The latest end that was ever published.
    promised: AtomicU64,
}

impl Lease {
    /// No session: incarnation and end are 0.
    #[inline]
    pub(crate) fn publish(&self, incarnation: u64, end: Time) {
        if self.end.load(Relaxed) != end.0 {
            self.incarnation.store(incarnation, Relaxed);
            self.end.store(end.0, Release);
            self.promised.fetch_max(end.0, Relaxed);
        }
    }

    /// Of the session that gave out this id; long ago if there is none any more.
    #[inline]
    pub(crate) fn end_of(&self, id: RequestId) -> Time {
        let end = self.end.load(Acquire);
        let incarnation = self.incarnation.load(Relaxed);
        let is_its = incarnation << INCARNATION_SHIFT == id.0 >> INCARNATION_SHIFT << INCARNATION_SHIFT;
        if is_its { Time(end) } else { Time(0) }
    }

    /// Until when guards were told to be safe, whether the session lives or not.
    pub(crate) fn promised(&self) -> Time {
        Time(self.promised.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its lifeline must not close before that: the daemon gives all its locks away then.
    #[test]
    fn what_guards_were_told_is_promised_although_the_session_ends_before() {
        let lease = Lease::default();
        let id = RequestId(7 << INCARNATION_SHIFT | 1);
        lease.publish(7, Time(10));
        assert_eq!(lease.end_of(id), Time(10));
        // Granted by a lock server, whose holds end at 3.
        lease.publish(7, Time(3));
        assert_eq!((lease.end_of(id), lease.promised()), (Time(3), Time(10)));
        lease.publish(0, Time(0));
        assert_eq!((lease.end_of(id), lease.promised()), (Time(0), Time(10)));
        lease.publish(8, Time(12));
        assert_eq!((lease.end_of(id), lease.promised()), (Time(0), Time(12)));
    }
}
