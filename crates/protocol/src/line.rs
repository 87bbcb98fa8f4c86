//! Who is served next: the one order of every line, an agent's and a lock server's (docs/protocol.md, "Priorities").
//!
//! Invariants
//! * A line is in the order in which it is served, and who stands in it stays before those behind it, wherever the line
//!   goes.
//! * A newcomer overtakes whoever at the line's end is of lower priority: never an equal, so equals are served first
//!   come, first served.
//! * Where writers go first, whoever wants to be alone overtakes those of its own priority who share, too.
//! * Where readers go first, whoever shares joins those who hold and share, unless somebody waits who is more urgent:
//!   nobody counts that, and who waits may starve. Of agents' locks the switch decides that, so their lines know
//!   nothing of it; a lock server's do.
//! * Each bears that [`OVERTAKEN_MOST`] times at most, or as often as its line's [`Order`] has it. After that it is
//!   overtaken by nobody, so it waits for those before it alone, and they do not become more: nobody starves.

use crate::mutant::Mutant;
use alloc::collections::VecDeque;
use wayside_wire::{Policy, limits};

/// How urgent a request is: 0 to 7, and the higher is served earlier. Unless told it is 4, so that there is room for
/// what is urgent and for what has time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// The lowest: for what has time.
    pub const LOWEST: Priority = Priority(0);
    /// That of whoever says nothing.
    pub const NORMAL: Priority = Priority(4);
    /// The highest.
    pub const HIGHEST: Priority = Priority(limits::MAX_PRIORITY);

    /// That of a level, 0 to 7; there are no others.
    pub const fn new(level: u8) -> Option<Priority> {
        if level <= Priority::HIGHEST.0 { Some(Priority(level)) } else { None }
    }

    /// 0 to 7.
    pub const fn level(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Priority {
        Priority::NORMAL
    }
}

/// What a line knows of one who waits in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rank {
    pub priority: Priority,
    /// How often somebody who came later was put before it.
    pub overtaken: u8,
}

/// Bits of a rank's byte that say the priority. 0 there is [`Priority::NORMAL`]: what versions before 1.8 send.
const PRIORITY_BITS: u32 = 3;

/// How often a waiter is overtaken at most, unless told otherwise: the lowest has a ninth of the grants however much is
/// asked for that is more urgent.
pub const OVERTAKEN_MOST: u8 = 8;
/// The most that may be told: the count has 5 bits in a packet.
pub const LONGEST_PATIENCE: u8 = (1 << (u8::BITS - PRIORITY_BITS)) - 1;

/// How often somebody is overtaken at most, as ENROLLED says it.
pub(crate) const fn patience_to_byte(most: u8) -> u8 {
    1 + if most < LONGEST_PATIENCE { most } else { LONGEST_PATIENCE }
}

/// The same, as it is read: versions before 1.10 say 0.
pub(crate) const fn patience_from_byte(byte: u8) -> u8 {
    match byte.checked_sub(1) {
        None => OVERTAKEN_MOST,
        Some(most) if most < LONGEST_PATIENCE => most,
        Some(_) => LONGEST_PATIENCE,
    }
}

impl Rank {
    /// Of one who comes now.
    pub const fn newcomer(priority: Priority) -> Rank {
        Rank { priority, overtaken: 0 }
    }

    /// As a packet has it: `sequence` of an entry that asks or waits, `cause` of an attempt.
    pub const fn to_byte(self) -> u8 {
        self.overtaken << PRIORITY_BITS | (self.priority.0 ^ Priority::NORMAL.0)
    }

    /// Any byte is one.
    pub const fn from_byte(byte: u8) -> Rank {
        Rank { priority: Priority((byte & Priority::HIGHEST.0) ^ Priority::NORMAL.0), overtaken: byte >> PRIORITY_BITS }
    }
}

/// Somebody in a line.
pub trait Ranked {
    fn rank(&self) -> Rank;
    fn rank_mut(&mut self) -> &mut Rank;
    /// Whether it wants to be alone.
    fn is_exclusive(&self) -> bool;
}

/// By what a line is ordered.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// How often each is overtaken at most.
    pub overtaken_most: u8,
    /// The namespace's.
    pub policy: Policy,
    pub mutant: Option<Mutant>,
}

impl Order {
    fn is_broken(self, mutant: Mutant) -> bool {
        cfg!(feature = "mutants") && self.mutant == Some(mutant)
    }

    fn is_of(self, policy: Policy) -> bool {
        self.policy == policy && !self.is_broken(Mutant::IgnorePolicy)
    }

    fn overtakes<T: Ranked>(self, newcomer: &T, before: &T) -> bool {
        let (writes, reads) = (newcomer.is_exclusive(), !before.is_exclusive());
        let goes_first = self.is_of(Policy::WritePreferring) && writes && reads;
        let (newcomer, other) = (newcomer.rank(), before.rank());
        let bears = other.overtaken < self.overtaken_most.min(LONGEST_PATIENCE) || self.is_broken(Mutant::NoPatience);
        let is_higher = newcomer.priority > other.priority
            || (newcomer.priority == other.priority && (goes_first || self.is_broken(Mutant::OvertakeEquals)));
        is_higher && bears && !self.is_broken(Mutant::IgnorePriority)
    }

    /// Where a newcomer belongs. `waits`: who is of the same line, where others stand between.
    fn place<T: Ranked>(self, line: &VecDeque<T>, newcomer: &T, waits: impl Fn(&T) -> bool) -> usize {
        let mut place = line.len();
        for (index, other) in line.iter().enumerate().rev() {
            if !waits(other) {
                continue;
            }
            if !self.overtakes(newcomer, other) {
                break;
            }
            place = index;
        }
        place
    }

    /// Puts a newcomer into its place; whomever it overtakes remembers that.
    pub fn line_up<T: Ranked>(self, line: &mut VecDeque<T>, newcomer: T, waits: impl Fn(&T) -> bool) {
        let place = self.place(line, &newcomer, &waits);
        for other in line.range_mut(place..) {
            if waits(other) {
                let rank = other.rank_mut();
                rank.overtaken = (rank.overtaken + 1).min(LONGEST_PATIENCE);
            }
        }
        line.insert(place, newcomer);
    }

    /// Whether a newcomer goes past all who wait to those who hold, all of whom share.
    pub fn joins<T: Ranked>(self, line: &VecDeque<T>, newcomer: &T, waits: impl Fn(&T) -> bool) -> bool {
        let is_outranked = || line.iter().any(|other| waits(other) && other.rank().priority > newcomer.rank().priority);
        self.is_of(Policy::ReadPreferring) && !newcomer.is_exclusive() && !is_outranked()
    }

    /// What comes with a waiter whose line goes elsewhere: all of its rank.
    pub fn handed_over(self, rank: Rank) -> Rank {
        let Rank { priority, overtaken } = rank;
        Rank {
            priority: if self.is_broken(Mutant::ForgetPriority) { Priority::NORMAL } else { priority },
            overtaken: if self.is_broken(Mutant::ForgetOvertaken) { 0 } else { overtaken },
        }
    }

    /// Whether nobody who waits would be before a newcomer.
    pub fn would_lead<T: Ranked>(self, line: &VecDeque<T>, newcomer: &T, waits: impl Fn(&T) -> bool) -> bool {
        let place = self.place(line, newcomer, &waits);
        !line.iter().take(place).any(waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    impl Ranked for (u32, Rank) {
        fn rank(&self) -> Rank {
            self.1
        }

        fn rank_mut(&mut self) -> &mut Rank {
            &mut self.1
        }

        /// Those of even numbers.
        fn is_exclusive(&self) -> bool {
            self.0.is_multiple_of(2)
        }
    }

    const ORDER: Order = Order { overtaken_most: 2, policy: Policy::Fair, mutant: None };

    fn of(level: u8) -> Rank {
        Rank::newcomer(Priority::new(level).expect("a level"))
    }

    fn line(levels: &[u8]) -> VecDeque<(u32, Rank)> {
        let mut line = VecDeque::new();
        (0..).zip(levels).for_each(|(number, level)| ORDER.line_up(&mut line, (number, of(*level)), |_| true));
        line
    }

    fn numbers(line: &VecDeque<(u32, Rank)>) -> Vec<u32> {
        line.iter().map(|(number, _)| *number).collect()
    }

    #[test]
    fn the_higher_is_served_earlier_and_equals_in_the_order_in_which_they_came() {
        assert_eq!(numbers(&line(&[4, 4, 4])), [0, 1, 2]);
        assert_eq!(numbers(&line(&[4, 0, 7, 4])), [2, 0, 3, 1]);
        assert_eq!(numbers(&line(&[0, 1, 2])), [2, 1, 0]);
        assert_eq!(numbers(&line(&[2, 1, 0])), [0, 1, 2]);
    }

    #[test]
    fn nobody_is_overtaken_more_often_than_it_bears() {
        let mut line = line(&[0, 7, 7, 7, 7]);
        assert_eq!(numbers(&line), [1, 2, 0, 3, 4], "after two it is nobody's to overtake");
        assert_eq!(line[2].1.overtaken, 2);
        ORDER.line_up(&mut line, (5, of(1)), |_| true);
        ORDER.line_up(&mut line, (6, of(7)), |_| true);
        assert_eq!(numbers(&line), [1, 2, 0, 3, 4, 6, 5], "who came behind it is overtaken still");
        assert_eq!(line.iter().map(|(_, rank)| rank.overtaken).collect::<Vec<_>>(), [0, 0, 2, 0, 0, 0, 1]);
    }

    #[test]
    fn who_is_not_of_the_line_is_passed_without_a_word() {
        let mut line = line(&[4, 4, 0, 4]);
        assert_eq!(numbers(&line), [0, 1, 3, 2]);
        let odd = |of: &(u32, Rank)| of.0 % 2 == 1;
        assert!(ORDER.would_lead(&line, &(9, of(5)), odd) && !ORDER.would_lead(&line, &(9, of(4)), odd));
        ORDER.line_up(&mut line, (5, of(5)), odd);
        assert_eq!(numbers(&line), [0, 5, 1, 3, 2]);
        assert_eq!(line.iter().map(|(_, rank)| rank.overtaken).collect::<Vec<_>>(), [0, 0, 1, 1, 1]);
    }

    #[test]
    fn a_rank_is_a_byte_and_every_byte_is_one() {
        assert_eq!(Rank::from_byte(0), Rank::default());
        assert_eq!(Rank::default(), Rank::newcomer(Priority::NORMAL));
        for byte in 0..=u8::MAX {
            let rank = Rank::from_byte(byte);
            assert!(rank.priority <= Priority::HIGHEST && rank.overtaken <= LONGEST_PATIENCE);
            assert_eq!(rank.to_byte(), byte);
        }
        assert_eq!(Priority::new(8), None);
        assert!((0..8).all(|level| Priority::new(level).is_some_and(|priority| priority.level() == level)));
    }

    #[test]
    fn a_patience_is_read_as_it_was_said_and_who_says_none_has_that_of_before() {
        for most in 0..=u8::MAX {
            assert_eq!(patience_from_byte(patience_to_byte(most)), most.min(LONGEST_PATIENCE));
            assert_ne!(patience_to_byte(most), 0);
            assert!(patience_from_byte(most) <= LONGEST_PATIENCE);
        }
        assert_eq!(patience_from_byte(0), 8);
    }

    /// However many come, and whatever they are: against counting who was put before whom.
    #[test]
    fn lines_that_chance_makes_keep_every_rule() {
        let mut dice = 7u64;
        let policies = [Policy::Fair, Policy::ReadPreferring, Policy::WritePreferring];
        let orders = [0, 1, 3, LONGEST_PATIENCE].into_iter().flat_map(|most| policies.map(|policy| (most, policy)));
        for (most, policy) in orders {
            let order = Order { overtaken_most: most, policy, mutant: None };
            let mut line: VecDeque<(u32, Rank)> = VecDeque::new();
            let mut passed = [0u8; 4_000];
            for number in 0..passed.len() as u32 {
                dice = wayside_wire::mix(dice + 1);
                let before = numbers(&line);
                order.line_up(&mut line, (number, of((dice % 8) as u8)), |_| true);
                let at = line.iter().position(|(known, _)| *known == number).expect("it is in the line");
                let (_, newcomer) = line[at];
                for &(other, rank) in line.iter().skip(at + 1) {
                    passed[other as usize] += 1;
                    let writes_first = policy == Policy::WritePreferring && number % 2 == 0 && other % 2 == 1;
                    assert!(rank.priority < newcomer.priority || (writes_first && rank.priority == newcomer.priority));
                    assert!(rank.overtaken == passed[other as usize] && rank.overtaken <= most);
                }
                // It was stopped by somebody, if it is not the first.
                assert!(at == 0 || !order.overtakes(&line[at], &line[at - 1]));
                line.remove(at);
                assert_eq!(numbers(&line), before, "nobody else has moved");
                line.insert(at, (number, newcomer));
                if dice >> 8 & 1 == 0 {
                    line.pop_front();
                }
            }
            assert!(most == 0 || passed.contains(&most));
        }
    }

    #[test]
    fn where_readers_go_first_they_join_unless_somebody_waits_who_is_more_urgent() {
        let (reader, writer) = (7, 8);
        let joins = |policy, number: u32, level: u8| {
            let line = VecDeque::from([(2, of(4)), (3, of(3)), (5, of(7))]);
            Order { policy, ..ORDER }.joins(&line, &(number, of(level)), |other| other.0 != 5)
        };
        for level in 0..=7 {
            assert_eq!(joins(Policy::ReadPreferring, reader, level), level >= 4, "{level}");
            assert!(!joins(Policy::ReadPreferring, writer, level));
            assert!(!joins(Policy::Fair, reader, level) && !joins(Policy::WritePreferring, reader, level));
        }
    }

    #[test]
    fn where_writers_go_first_they_overtake_readers_of_their_priority_and_no_more_often_than_is_borne() {
        let order = Order { policy: Policy::WritePreferring, ..ORDER };
        let mut line = VecDeque::new();
        for (number, level) in [(1, 4), (2, 4), (3, 5), (4, 4), (5, 4), (6, 5)] {
            order.line_up(&mut line, (number, of(level)), |_| true);
        }
        // 1 was overtaken by 2, and by 3, which is more urgent: by nobody else.
        assert_eq!(numbers(&line), [3, 2, 1, 6, 4, 5]);
        assert!(order.would_lead(&VecDeque::from([(1, of(4))]), &(2, of(4)), |_| true));
        assert!(!ORDER.would_lead(&VecDeque::from([(1, of(4))]), &(2, of(4)), |_| true));
    }
}
