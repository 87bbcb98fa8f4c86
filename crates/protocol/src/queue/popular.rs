//! Which of a lock server's own locks are asked for most: a table of fixed size, however many names there are.
//!
//! The summary of Misra and Gries, of one window at a time: a name that is not in the full table takes one request
//! from each that is. What is told of a window counts for that window alone, so a report that is lost or comes twice
//! does no harm.
//!
//! Invariants
//! * The table has at most [`NAMES`] names.
//! * A count is at most the requests of its name in this window, and less than them by at most the window's requests
//!   divided by `NAMES + 1`: whatever has a larger share of them is in the table.

use crate::Time;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Names of the table: what has more than a four-thousandth of a lock server's requests is in it. By Zipf's law with
/// 0.9 over a million locks those are some 200 names; of a thousandth, 60.
pub(super) const NAMES: usize = 4_096;
/// Locks that are told of a window: a packet each, and no more than a tenant has places before the controller.
const TOLD: usize = 256;

/// A lock in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub name: u64,
    pub requests: u64,
    /// Holders and waiters, the most at a time.
    pub most: u32,
}

/// See the module's documentation.
pub(super) struct Popular {
    table: BTreeMap<u64, Asked>,
    /// Of this window.
    number: u64,
    since: Time,
    /// Windows are so long, or longer where nobody looks. Microseconds.
    length: u64,
    /// What is left to tell of the window before, and its length.
    left: Vec<Asked>,
    told_length: u64,
}

impl Popular {
    pub fn new(now: Time, length: u64) -> Popular {
        Popular { table: BTreeMap::new(), number: 1, since: now, length, left: Vec::new(), told_length: 0 }
    }

    /// A lock was asked for; with this request so many hold it or wait for it.
    pub fn ask(&mut self, name: u64, claims: usize) {
        let claims = claims as u32;
        if let Some(known) = self.table.get_mut(&name) {
            known.requests += 1;
            known.most = known.most.max(claims);
        } else if self.table.len() < NAMES {
            self.table.insert(name, Asked { name, requests: 1, most: claims });
        } else {
            // It takes as many steps as there are names, and as many requests have come for it: one for each, in the
            // long run.
            self.table.retain(|_, known| {
                known.requests -= 1;
                known.requests > 0
            });
        }
    }

    /// When [`Popular::next`] has something to tell.
    pub fn due(&self) -> Time {
        if self.left.is_empty() { self.since + self.length } else { self.since }
    }

    /// Ends the window if it is over. `queued`: who waits here for queues in the switch, which grants them.
    pub fn end_window(&mut self, now: Time, queued: impl Iterator<Item = (u64, usize)>) {
        if now < self.since + self.length {
            return;
        }
        let mut all: Vec<Asked> = core::mem::take(&mut self.table).into_values().collect();
        all.sort_unstable_by_key(|asked| (asked.requests, asked.name));
        let mut queued: Vec<Asked> =
            queued.map(|(name, most)| Asked { name, requests: 0, most: most as u32 }).collect();
        queued.sort_unstable_by_key(|asked| (asked.most, asked.name));
        let last = |all: Vec<Asked>| all.into_iter().rev().take(TOLD).rev();
        // What the network had no room for yet is older than this.
        self.left = last(queued).chain(last(all)).collect();
        self.told_length = now.since(self.since);
        self.number += 1;
        self.since = now;
    }

    /// A lock that is to be told: first the one that was asked for most. With its window's number and length.
    pub fn next(&mut self) -> Option<(Asked, u64, u64)> {
        self.left.pop().map(|asked| (asked, self.number - 1, self.told_length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: u64 = 1_000;

    fn told(popular: &mut Popular, now: u64, queued: &[(u64, usize)]) -> Vec<(Asked, u64, u64)> {
        popular.end_window(Time(now), queued.iter().copied());
        core::iter::from_fn(|| popular.next()).collect()
    }

    #[test]
    fn what_is_asked_for_most_is_told_first_and_each_window_for_itself() {
        let mut popular = Popular::new(Time(0), LENGTH);
        for (name, claims) in [(7, 1), (9, 1), (9, 3), (9, 2)] {
            popular.ask(name, claims);
        }
        assert_eq!(told(&mut popular, LENGTH - 1, &[]), [], "the window is not over");
        let (seven, nine) = (Asked { name: 7, requests: 1, most: 1 }, Asked { name: 9, requests: 3, most: 3 });
        assert_eq!(popular.due(), Time(LENGTH));
        assert_eq!(told(&mut popular, LENGTH + 5, &[]), [(nine, 1, LENGTH + 5), (seven, 1, LENGTH + 5)]);
        popular.ask(7, 1);
        let waits = Asked { name: 4, requests: 0, most: 6 };
        assert_eq!(told(&mut popular, 2 * LENGTH + 5, &[(4, 6)]), [(seven, 2, LENGTH), (waits, 2, LENGTH)]);
    }

    #[test]
    fn no_more_is_told_of_a_window_than_fits_and_what_is_left_is_due_at_once() {
        let mut popular = Popular::new(Time(0), LENGTH);
        for name in 0..2 * TOLD as u64 {
            (0..=name).for_each(|_| popular.ask(name, 1));
        }
        popular.end_window(Time(LENGTH), core::iter::empty());
        assert_eq!(popular.next().map(|(asked, ..)| asked.name), Some(2 * TOLD as u64 - 1));
        assert_eq!(popular.due(), Time(LENGTH));
        assert_eq!(core::iter::from_fn(|| popular.next()).count(), TOLD - 1);
        assert_eq!(popular.due(), Time(2 * LENGTH));
    }

    /// Names of which each was asked for once make room for one that is asked for more and more.
    #[test]
    fn a_name_that_comes_when_the_table_is_full_is_in_it_once_it_is_asked_for_often() {
        let mut popular = Popular::new(Time(0), LENGTH);
        (0..NAMES as u64).for_each(|name| popular.ask(name, 1));
        popular.ask(0, 1);
        (0..3).for_each(|_| popular.ask(9_999_999, 2));
        let told = told(&mut popular, LENGTH, &[]);
        let asked: Vec<(u64, u64)> = told.iter().map(|(asked, ..)| (asked.name, asked.requests)).collect();
        assert_eq!(asked, [(9_999_999, 2), (0, 1)], "the first of its requests has taken one from each");
    }

    #[test]
    fn of_those_that_wait_for_the_switch_the_longest_lines_are_told_and_first() {
        let mut popular = Popular::new(Time(0), LENGTH);
        let names = |told: Vec<(Asked, u64, u64)>| told.iter().map(|(asked, ..)| asked.name).collect::<Vec<_>>();
        assert_eq!(names(told(&mut popular, LENGTH, &[(4, 6), (5, 2), (6, 9)])), [6, 4, 5]);
        let many: Vec<(u64, usize)> = (0..2 * TOLD).map(|place| (place as u64, 2 * TOLD - place)).collect();
        assert_eq!(names(told(&mut popular, 2 * LENGTH, &many)), (0..TOLD as u64).collect::<Vec<_>>());
    }

    /// Against exact counts: the promise of the table, among far more names than it has room for.
    #[test]
    fn counts_are_short_by_less_than_a_four_thousandth_of_all_requests() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        for names in [10, 1_000, 100_000, 10_000_000] {
            let mut popular = Popular::new(Time(0), LENGTH);
            let mut exact: BTreeMap<u64, u64> = BTreeMap::new();
            const REQUESTS: u64 = 100_000;
            for _ in 0..REQUESTS {
                // A third for ten hot ones.
                let name = if random(3) == 0 { random(10) } else { random(names) };
                popular.ask(name, 1);
                *exact.entry(name).or_default() += 1;
                assert!(popular.table.len() <= NAMES);
            }
            for (name, count) in exact {
                let known = popular.table.get(&name).map_or(0, |asked| asked.requests);
                assert!(known <= count, "{known} of {count}");
                assert!(count - known <= REQUESTS / (NAMES as u64 + 1), "{known} of {count} among {names}");
            }
        }
    }

    /// Of a million locks, by Zipf's law with 0.9, 256 have 26 % of all requests at most. A second of 16,000 requests
    /// is enough to find nearly as much; with a quarter of the names, or of those that are told, it is not.
    #[test]
    fn most_of_what_is_worth_a_queue_is_told_in_a_window() {
        const LOCKS: usize = 1_000_000;
        let weights = (1..=LOCKS).map(|rank| (rank as f64).powf(-0.9));
        let sums: Vec<f64> = weights
            .scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        let mut popular = Popular::new(Time(0), LENGTH);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..16_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let drawn = (state >> 11) as f64 / (1u64 << 53) as f64 * sums[LOCKS - 1];
            popular.ask(sums.partition_point(|sum| *sum < drawn) as u64, 1);
        }
        let names = told(&mut popular, LENGTH, &[]);
        let share = |name: u64| {
            let before = if name == 0 { 0.0 } else { sums[name as usize - 1] };
            (sums[name as usize] - before) / sums[LOCKS - 1]
        };
        let worth: f64 = names.iter().map(|(asked, ..)| share(asked.name)).sum();
        assert!(worth > 0.23, "{} names with {worth:.3} of all requests", names.len());
    }
}
