//! Slots whose agents this node keeps though nobody holds or waits there: so many at most.
//!
//! Invariants: `slots` has every slot that is kept, once at least; of others, what is left of earlier times there. Who
//! finds no place is not kept, but the next one finds one: the first in line that was not used since it was looked at
//! last is let go for it.

use crate::Time;
use alloc::collections::VecDeque;

/// Those looked at for one place.
pub const LOOKED_AT: usize = 8;
/// Those let go at a time, where all are: two batches of a system call,
pub const LET_GO_AT_ONCE: usize = 64;
/// and so long between, in microseconds.
pub const LET_GO_PAUSE: u64 = 1_000;

/// See the module's documentation.
pub struct Kept {
    most: usize,
    slots: VecDeque<u32>,
    /// Somebody has found no place.
    is_short: bool,
    due: Time,
}

impl Kept {
    /// Room for so many. 0: none is kept.
    pub fn new(most: usize) -> Kept {
        Kept { most, slots: VecDeque::new(), is_short: false, due: Time::NEVER }
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.most > 0
    }

    /// Whether one is to be let go for the next. Asked once.
    #[inline]
    pub fn is_short(&mut self) -> bool {
        core::mem::take(&mut self.is_short)
    }

    /// False: there is no place.
    pub fn enter(&mut self, slot: u32) -> bool {
        let has_room = self.slots.len() < self.most;
        if has_room {
            self.slots.push_back(slot);
        }
        self.is_short |= self.is_on() && !has_room;
        has_room
    }

    /// The first in line gives up its place.
    pub fn leave(&mut self) -> Option<u32> {
        self.slots.pop_front()
    }

    /// It has its place again, behind all others.
    pub fn stay(&mut self, slot: u32) {
        self.slots.push_back(slot);
    }

    /// None is kept from now on, and those that are, are let go.
    pub fn close(&mut self, now: Time) {
        self.most = 0;
        self.due = now;
    }

    /// When some are to be let go.
    #[inline]
    pub fn due(&self) -> Time {
        self.due
    }

    /// Some were let go.
    pub fn go_on(&mut self, now: Time) {
        self.due = if self.slots.is_empty() { Time::NEVER } else { now + LET_GO_PAUSE };
    }

    /// All are gone, with their agents.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.due = Time::NEVER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_than_so_many_places() {
        let mut kept = Kept::new(2);
        assert!(kept.is_on() && kept.enter(1) && kept.enter(2) && !kept.is_short());
        assert!(!kept.enter(3) && kept.is_short() && !kept.is_short());
        assert_eq!(kept.leave(), Some(1));
        kept.stay(1);
        assert_eq!((kept.leave(), kept.enter(3)), (Some(2), true));
    }

    #[test]
    fn without_any_none_is_kept_and_none_let_go() {
        let mut kept = Kept::new(0);
        assert!(!kept.is_on() && !kept.enter(1) && !kept.is_short());
        assert_eq!(kept.due(), Time::NEVER);
    }

    #[test]
    fn all_are_let_go_at_a_pace() {
        let mut kept = Kept::new(2);
        kept.enter(1);
        kept.close(Time(5));
        assert!(!kept.is_on() && !kept.enter(2));
        assert_eq!(kept.due(), Time(5));
        kept.go_on(Time(6));
        assert_eq!(kept.due(), Time(6) + LET_GO_PAUSE);
        kept.leave();
        kept.go_on(Time(9));
        assert_eq!(kept.due(), Time::NEVER);
    }

    #[test]
    fn what_was_kept_before_all_ended_has_no_place_any_more() {
        let mut kept = Kept::new(2);
        assert!(kept.enter(1) && kept.enter(2));
        kept.clear();
        assert_eq!(kept.leave(), None);
        assert!(kept.enter(3) && kept.enter(4), "there is room for as many again");
    }
}
