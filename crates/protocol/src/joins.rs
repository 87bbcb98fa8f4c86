//! Which joins of a tenure an agent has heard of.

use alloc::vec::Vec;
use wayside_wire::limits;

/// Ordinals 1 to 4,095 as a set, and how many the switch has counted.
/// Invariant: `known` bits are 1, none of them above `expected`.
#[derive(Debug, Default)]
pub struct Joins {
    seen: Vec<u64>,
    known: u16,
    /// Joins that the switch has said there are; in MANAGED exactly so many, in OPEN at least.
    pub expected: u16,
}

impl Joins {
    /// None yet, and room for the first 127.
    pub fn with_room() -> Joins {
        Joins { seen: Vec::with_capacity(2), ..Joins::default() }
    }

    /// Starts a tenure of `expected` joins, none of them known. Keeps its memory.
    pub fn reset(&mut self, expected: u16) {
        self.seen.clear();
        (self.known, self.expected) = (0, expected);
    }

    /// Learns of an ordinal; false if it was known (or is none).
    pub fn learn(&mut self, ordinal: u16) -> bool {
        if ordinal == 0 || ordinal > limits::MAX_JOINS {
            return false;
        }
        let (word, bit) = (usize::from(ordinal / 64), 1 << (ordinal % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit != 0 {
            return false;
        }
        self.seen[word] |= bit;
        self.known += 1;
        self.expected = self.expected.max(ordinal);
        true
    }

    /// How many are known.
    pub fn known(&self) -> u16 {
        self.known
    }

    /// Whether every join that is known to exist is known.
    pub fn complete(&self) -> bool {
        self.known == self.expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_complete_when_every_ordinal_was_heard_of() {
        let mut joins = Joins::default();
        assert!(joins.complete());
        assert!(joins.learn(2));
        assert!(!joins.complete(), "ordinal 1 is missing");
        assert!(!joins.learn(2), "a duplicate teaches nothing");
        assert!(joins.learn(1));
        assert!(joins.complete());
        assert!(joins.learn(limits::MAX_JOINS));
        assert!(!joins.complete());
        assert!(!joins.learn(0) && !joins.learn(limits::MAX_JOINS + 1));
        joins.reset(3);
        assert!(!joins.complete());
        (1..=3).for_each(|ordinal| assert!(joins.learn(ordinal)));
        assert!(joins.complete());
    }
}
