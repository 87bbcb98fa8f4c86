//! Which locks are to have their queue in the switch, and how many cells each: the memory allocation of NetLock, as
//! functions of what was measured. docs/queue.md, "The plan".
//!
//! Invariants
//! * What is given has at most the cells, and the queues, of the room. No lock gets more than it asks for.
//! * Of locks that can be given a part, [`knapsack`] gives what serves the most requests of all ways to give so many
//!   cells: the sum of rate * given / wanted.
//! * A lock that has its queue in the switch keeps its region as it is, or is to get one of at least twice the cells or
//!   of at most a quarter, or leaves.

use super::config::{Allocation, Room};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};
use wayside_wire::mix;

/// A lock that is asked for less, in requests in 1,000 seconds, stays with its lock server.
pub const LEAST_RATE: u64 = 1_000;
/// One that has its queue in the switch is taken to be asked for so much more, in hundredths, than it is, and for what
/// may be chance besides: who would take its place must be worth the two moves.
const STAYS: u64 = 125;

/// A lock, as it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub name: u64,
    /// Requests in 1,000 seconds.
    pub rate: u64,
    /// Holders and waiters at a time.
    pub concurrency: u32,
    /// Cells of its queue in the switch, if it has one.
    pub region: Option<u32>,
}

/// A lock that may be given cells.
#[derive(Clone, Copy, Debug)]
struct Item {
    name: u64,
    rate: u64,
    /// At most so many.
    cells: u32,
    /// All of them or none.
    whole: bool,
}

/// Cells that a lock needs for all who hold or wait at a time, one more for the next, and room to grow before it has to
/// move: a power of two, so that what leaves makes room for what comes.
pub fn cells_for(concurrency: u32, room: &Room) -> u32 {
    concurrency.saturating_add(1).checked_next_power_of_two().unwrap_or(u32::MAX).min(room.most)
}

/// Requests for each cell, compared without a division: more is before less, and what stays whole before what does not.
fn by_density(one: &Item, other: &Item) -> Ordering {
    let (left, right) =
        (u128::from(one.rate) * u128::from(other.cells), u128::from(other.rate) * u128::from(one.cells));
    right.cmp(&left).then(other.whole.cmp(&one.whole)).then(one.name.cmp(&other.name))
}

/// Each what it asks for, one after the other, and whoever comes where less is left that.
fn give(items: impl Iterator<Item = Item>, room: &Room) -> BTreeMap<u64, u32> {
    let mut left = room.cells;
    let mut given = BTreeMap::new();
    for item in items {
        let cells = item.cells.min(left);
        if cells == 0 || given.len() >= room.queues as usize {
            break;
        }
        if !item.whole || cells == item.cells {
            left -= cells;
            given.insert(item.name, cells);
        }
    }
    given
}

/// The fractional knapsack: the densest first.
fn knapsack(mut items: Vec<Item>, room: &Room) -> BTreeMap<u64, u32> {
    items.sort_unstable_by(by_density);
    give(items.into_iter(), room)
}

/// Some, whichever: each name has a number, and the lowest are in the switch. Who is there stays.
fn random(mut items: Vec<Item>, room: &Room, seed: u64) -> BTreeMap<u64, u32> {
    items.sort_unstable_by_key(|item| (Reverse(item.whole), mix(item.name ^ seed)));
    give(items.into_iter(), room)
}

/// The names that are to have their queue in the switch, with their cells. None where nothing is planned.
pub fn plan(allocation: Allocation, candidates: &[Candidate], room: &Room, seed: u64) -> Option<BTreeMap<u64, u32>> {
    let is_random = allocation == Allocation::Random;
    let items = candidates.iter().filter_map(|candidate| {
        let Candidate { name, rate, concurrency, region } = *candidate;
        let wanted = cells_for(concurrency, room);
        match region {
            None => (rate >= LEAST_RATE).then_some(Item { name, rate, cells: wanted, whole: false }),
            Some(cells) => {
                let rate = rate.saturating_mul(STAYS) / 100 + by_chance(rate);
                let resizes = !is_random && resizes(cells, wanted);
                Some(Item { name, rate, cells: if resizes { wanted } else { cells }, whole: !resizes })
            }
        }
    });
    let items: Vec<Item> = items.collect();
    let mut given = match allocation {
        Allocation::Fixed => return None,
        Allocation::Knapsack => knapsack(items, room),
        Allocation::Random => random(items, room, seed),
    };
    for candidate in candidates {
        if let Some(region) = candidate.region {
            settle(&mut given, candidate.name, region, cells_for(candidate.concurrency, room));
        }
    }
    Some(given)
}

/// How much more or less than this rate may have been measured without a reason: of requests that come by chance, whose
/// rate is the mean of this second's and, by halves, of those before, the deviation is the root of a third; and of
/// hundreds of locks some are off by three times as much, upwards where others are off downwards.
fn by_chance(rate: u64) -> u64 {
    100 * rate.isqrt()
}

/// Whether a region is far from what its lock needs.
fn resizes(region: u32, wanted: u32) -> bool {
    wanted > region || wanted <= region / 4
}

/// A lock that was to get another region keeps the one that it has if the other is not much larger; and leaves, if
/// that has not the room any more.
fn settle(given: &mut BTreeMap<u64, u32>, name: u64, region: u32, wanted: u32) {
    let Some(cells) = given.get_mut(&name) else { return };
    if *cells >= region && *cells / 2 < region {
        *cells = region;
    } else if *cells < region && wanted > region {
        given.remove(&name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const ROOM: Room = Room { cells: 8, most: 64, queues: 64 };

    fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = mix(seed + 1) | 1;
        move |below| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        }
    }

    fn cold(name: u64, rate: u64, concurrency: u32) -> Candidate {
        Candidate { name, rate, concurrency, region: None }
    }

    fn here(name: u64, rate: u64, concurrency: u32, region: u32) -> Candidate {
        Candidate { name, rate, concurrency, region: Some(region) }
    }

    fn planned(candidates: &[Candidate], room: &Room) -> Vec<(u64, u32)> {
        plan(Allocation::Knapsack, candidates, room, 0).expect("a plan").into_iter().collect()
    }

    /// What is gained is compared in parts of the least common multiple of 1 to 8.
    const PARTS: u64 = 840;

    fn gain(items: &[Item], given: &BTreeMap<u64, u32>) -> u64 {
        let of = |item: &Item| {
            item.rate * u64::from(given.get(&item.name).copied().unwrap_or(0)) * (PARTS / u64::from(item.cells))
        };
        items.iter().map(of).sum()
    }

    /// Every way to give cells.
    fn best(items: &[Item], left: u32) -> u64 {
        let Some((item, others)) = items.split_first() else { return 0 };
        let ways = 0..=item.cells.min(left);
        let gain = |cells: u32| item.rate * u64::from(cells) * (PARTS / u64::from(item.cells));
        ways.map(|cells| gain(cells) + best(others, left - cells)).max().unwrap_or(0)
    }

    #[test]
    fn no_way_to_give_so_many_cells_serves_more() {
        for seed in 0..2_000 {
            let mut number = numbers(seed);
            let count = 1 + number(5);
            let item = |name| Item { name, rate: number(20), cells: 1 + number(8) as u32, whole: false };
            let items: Vec<Item> = (0..count).map(item).collect();
            let room = Room { cells: number(20) as u32, ..ROOM };
            let given = knapsack(items.clone(), &room);
            assert_eq!(gain(&items, &given), best(&items, room.cells), "{items:?} in {room:?}: {given:?}");
        }
    }

    /// Whatever was measured, and whatever lies there.
    #[test]
    fn no_plan_is_over_its_room_and_none_gives_more_than_is_asked_for() {
        for seed in 0..3_000 {
            let mut number = numbers(seed);
            let room = Room { cells: number(300) as u32, most: 1 + number(64) as u32, queues: number(20) as u32 };
            let mut candidate = |name| Candidate {
                name,
                rate: number(3) * number(1 << 40),
                concurrency: number(100) as u32,
                region: (number(2) == 0).then(|| 1 + number(u64::from(room.most)) as u32),
            };
            let candidates: Vec<Candidate> = (0..40).map(&mut candidate).collect();
            for allocation in [Allocation::Knapsack, Allocation::Random] {
                let given = plan(allocation, &candidates, &room, seed).expect("a plan");
                assert!(given.values().sum::<u32>() <= room.cells && given.len() <= room.queues as usize);
                for (name, cells) in given {
                    let Candidate { rate, concurrency, region, .. } = candidates[name as usize];
                    let most = cells_for(concurrency, &room).max(region.unwrap_or(0));
                    assert!((1..=most).contains(&cells) && (rate >= LEAST_RATE || region.is_some()));
                    if let Some(region) = region {
                        let is_near = cells < 2 * region && cells > region / 4;
                        assert!(!is_near || cells == region, "{region} to {cells}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_was_planned_is_what_is_planned_next() {
        for seed in 0..1_000 {
            let mut number = numbers(seed);
            let room = Room { cells: 1 + number(200) as u32, most: 16, queues: 64 };
            let mut candidates: Vec<Candidate> =
                (0..30).map(|name| cold(name, number(1 << 30), number(40) as u32)).collect();
            for allocation in [Allocation::Knapsack, Allocation::Random] {
                let mut before = None;
                // A lock may first have to leave for a larger region, or for want of room for its own.
                for _ in 0..4 {
                    let given = plan(allocation, &candidates, &room, seed).expect("a plan");
                    candidates.iter_mut().for_each(|known| known.region = given.get(&known.name).copied());
                    before = Some(given);
                }
                assert_eq!(plan(allocation, &candidates, &room, seed), before, "seed {seed}");
            }
        }
    }

    #[test]
    fn the_densest_go_first_and_the_last_gets_what_is_left() {
        // 3 of 4 cells at 1,000 a cell, before 8 at 900.
        let locks = [cold(1, 4_000, 3), cold(2, 7_200, 7), cold(3, 100, 0)];
        assert_eq!(planned(&locks, &ROOM), [(1, 4), (2, 4)]);
        assert_eq!(planned(&[cold(1, LEAST_RATE - 1, 0)], &ROOM), [], "rarely asked for");
        assert_eq!(planned(&[cold(1, LEAST_RATE, 0)], &ROOM), [(1, 1)]);
    }

    #[test]
    fn a_lock_that_is_there_leaves_only_for_what_is_a_quarter_denser_and_not_by_chance() {
        let room = Room { cells: 2, ..ROOM };
        let leaves = |rate, other| planned(&[here(1, rate, 1, 2), cold(2, other, 1)], &room) == [(2, 2)];
        assert!(!leaves(10_000_000, 12_500_000) && leaves(10_000_000, 13_000_000));
        assert!(!leaves(10_000, 22_000) && leaves(10_000, 23_000), "of ten in a second chance has a part");
        assert_eq!(planned(&[here(1, 0, 0, 2), cold(2, 500, 1)], &room), [(1, 2)], "for nothing it need not leave");
    }

    #[test]
    fn a_region_is_changed_only_for_one_that_is_much_larger_or_smaller() {
        assert_eq!(planned(&[here(1, 10_000, 3, 4)], &ROOM), [(1, 4)]);
        assert_eq!(planned(&[here(1, 10_000, 4, 4)], &ROOM), [(1, 8)]);
        assert_eq!(planned(&[here(1, 10_000, 4, 5)], &ROOM), [(1, 5)]);
        assert_eq!(planned(&[here(1, 10_000, 1, 7)], &ROOM), [(1, 7)]);
        assert_eq!(planned(&[here(1, 10_000, 0, 8)], &ROOM), [(1, 1)]);
        assert_eq!(planned(&[here(1, 10_000, 1, 8)], &ROOM), [(1, 2)]);
    }

    /// What came before it has taken the rest.
    #[test]
    fn a_lock_that_is_given_less_than_it_asked_for_keeps_its_region_or_leaves() {
        let settled = |cells, region, wanted| {
            let mut given = BTreeMap::from([(1, cells), (2, 5)]);
            settle(&mut given, 1, region, wanted);
            assert_eq!(given.get(&2), Some(&5), "another one's");
            settle(&mut given, 3, region, wanted);
            given.get(&1).copied()
        };
        assert_eq!([settled(4, 4, 8), settled(7, 4, 8)], [Some(4); 2], "not much larger");
        assert_eq!([settled(8, 4, 8), settled(9, 4, 16)], [Some(8), Some(9)], "twice as large");
        assert_eq!([settled(3, 4, 8), settled(1, 4, 8)], [None; 2], "not even what it has");
        assert_eq!([settled(2, 8, 2), settled(1, 8, 1)], [Some(2), Some(1)], "it needs no more");
    }

    #[test]
    fn a_random_plan_asks_nothing_about_rates() {
        let locks: Vec<Candidate> = (0..64).map(|name| cold(name, 1_000 * (name + 1), 0)).collect();
        let room = Room { cells: 16, ..ROOM };
        let of = |seed| plan(Allocation::Random, &locks, &room, seed).expect("a plan");
        assert!(of(1) != of(2) && of(1) == of(1) && of(1).len() == 16);
        let in_upper_half: usize = (0..100).map(|seed| of(seed).keys().filter(|name| **name >= 32).count()).sum();
        assert!((700..900).contains(&in_upper_half), "{in_upper_half} of 1,600");
        assert_eq!(plan(Allocation::Fixed, &locks, &room, 0), None);
        assert_eq!(
            vec![(1, 1)],
            plan(Allocation::Random, &[here(1, 0, 9, 1)], &room, 0).unwrap().into_iter().collect::<Vec<_>>()
        );
    }
}
