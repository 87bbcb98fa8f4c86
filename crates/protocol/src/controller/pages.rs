//! Pages of a REPORT or an ADOPT: several under way, each counted once, in whatever order they come.
//!
//! Invariants: every page below `next` has come, and none that was not asked for (or sent) counts. All have come when
//! `next` is their number, which the last one tells. At most 64 pages lie between `next` and the newest under way.

use super::Config;
use crate::{Mutant, Time};

/// Pages under way to or from one node, and to or from all of them: a page is 1,056 bytes, a socket has room for 90 of
/// them, and the switch's for 2,000.
const OF_ONE: u32 = 16;
const OF_ALL: u32 = 256;
/// A page that so many have overtaken is taken for lost, before its time is over.
const OVERTAKEN_BY: u32 = 8;

/// How many pages may be under way to or from each of so many nodes.
pub(super) fn window(nodes: usize) -> u32 {
    (OF_ALL / (nodes.max(1) as u32)).clamp(1, OF_ONE)
}

pub(super) struct Pages {
    /// The first that has not come.
    next: u32,
    /// Which of those from `next` on have come, one bit each.
    come: u64,
    /// Those below have been asked for.
    asked: u32,
    /// How many there are.
    count: Option<u32>,
    /// The page that was asked for once more because others have overtaken it.
    again: Option<u32>,
    /// When whatever is under way is asked for again.
    pub due: Time,
    /// How often it was, in vain, since the last page that counted.
    in_vain: u32,
}

impl Pages {
    /// Of a number that is known, or is not.
    pub fn new(count: Option<u32>, due: Time) -> Pages {
        Pages { next: 0, come: 0, asked: 0, count, again: None, due, in_vain: 0 }
    }

    /// The next page to ask for, while fewer than `window` are under way.
    pub fn ask(&mut self, window: u32) -> Option<u16> {
        let under_way = self.asked - self.next - self.come.count_ones();
        // Before the first has come it is not known whether there are more.
        let window = if self.next == 0 && self.come == 0 && self.count.is_none() { 1 } else { window };
        let has_room = under_way < window && self.asked < self.next + 2 * OF_ONE;
        if !has_room || self.count.is_some_and(|count| self.asked >= count) {
            return None;
        }
        let page = u16::try_from(self.asked).ok()?;
        self.asked += 1;
        Some(page)
    }

    /// A page has come. Whether it counts.
    pub fn take(&mut self, page: u16, last: bool, config: &Config) -> bool {
        let mut page = u32::from(page);
        let has_come = |pages: &Pages, page: u32| page < pages.next || pages.come >> (page - pages.next) & 1 != 0;
        if page < self.asked && has_come(self, page) && config.is_broken(Mutant::PagesTwice) {
            page = (self.next..self.asked).find(|page| !has_come(self, *page)).unwrap_or(page);
        }
        if page >= self.asked || has_come(self, page) {
            return false;
        }
        self.in_vain = 0;
        self.come |= 1 << (page - self.next);
        if last || page == u32::from(u16::MAX) {
            self.count = Some(page + 1);
        }
        let run = self.come.trailing_ones();
        self.come = self.come.checked_shr(run).unwrap_or(0);
        self.next += run;
        true
    }

    /// What is under way is asked for again, now and after `pause`. How often it was in vain. A question that goes late
    /// by more than that pause does not count: the controller was away, and so were the answers.
    pub fn ask_again(&mut self, now: Time, pause: u64) -> u32 {
        self.in_vain += u32::from(now.since(self.due) < pause);
        self.due = now + pause;
        self.in_vain
    }

    /// A page that seems to be lost, once.
    pub fn overtaken(&mut self) -> Option<u16> {
        let is_lost = self.come >> OVERTAKEN_BY != 0 && self.again != Some(self.next);
        is_lost.then(|| {
            self.again = Some(self.next);
            self.next as u16
        })
    }

    /// Those under way.
    pub fn missing(&self) -> impl Iterator<Item = u16> + use<> {
        let (next, come) = (self.next, self.come);
        let end = self.asked.min(self.count.unwrap_or(u32::MAX));
        (next..end).filter(move |page| come >> (page - next) & 1 == 0).map(|page| page as u16)
    }

    /// Whether all have come.
    pub fn are_complete(&self, config: &Config) -> bool {
        let last_has_come = || self.count.is_some() && config.is_broken(Mutant::AnyPage);
        self.count == Some(self.next) || last_has_come()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Pages of 0 to `count` through a network that loses, repeats and reorders as the dice say.
    fn run(count: u16, dice: &mut u64, config: &Config) -> u32 {
        let mut roll = |sides: u64| {
            *dice = wayside_wire::mix(*dice + 1);
            *dice % sides
        };
        let mut pages = Pages::new(None, Time(0));
        let (mut flying, mut got): (Vec<u16>, Vec<u32>) = (Vec::new(), alloc::vec![0; count.into()]);
        while !pages.are_complete(config) {
            flying.extend(core::iter::from_fn(|| pages.ask(OF_ONE)));
            assert!(flying.len() <= 64 && pages.asked - pages.next <= 64);
            if flying.is_empty() {
                flying.extend(pages.missing());
            }
            let page = flying.swap_remove(roll(flying.len() as u64) as usize);
            for _ in 0..roll(3) {
                if page < count && pages.take(page, page + 1 == count, config) {
                    got[usize::from(page)] += 1;
                }
            }
            flying.extend(pages.overtaken());
        }
        assert!(got.iter().all(|times| *times == 1), "each once: {got:?}");
        pages.asked
    }

    #[test]
    fn every_page_counts_once_whatever_is_lost_or_repeated() {
        let mut dice = 7;
        for count in [1, 2, 3, 17, 40, 300] {
            for _ in 0..200 {
                run(count, &mut dice, &Config::default());
            }
        }
    }

    #[test]
    fn one_page_takes_one_question() {
        let mut pages = Pages::new(None, Time(0));
        assert_eq!((pages.ask(OF_ONE), pages.ask(OF_ONE)), (Some(0), None));
        assert!(pages.take(0, true, &Config::default()) && pages.are_complete(&Config::default()));
    }

    #[test]
    fn nobody_counts_a_page_that_was_not_asked_for() {
        let mut pages = Pages::new(None, Time(0));
        pages.ask(1);
        assert!(!pages.take(1, true, &Config::default()) && !pages.take(u16::MAX, false, &Config::default()));
        assert!(!pages.are_complete(&Config::default()));
    }

    #[test]
    fn all_numbers_of_a_page_serve() {
        let (mut pages, config) = (Pages::new(None, Time(0)), Config::default());
        while let Some(page) = pages.ask(1) {
            assert!(pages.take(page, false, &config));
        }
        assert!(pages.are_complete(&config), "there is no page after 65,535");
        assert_eq!(pages.next, 1 << 16);
    }

    #[test]
    fn many_nodes_share_what_may_be_under_way() {
        assert_eq!([0, 1, 16, 32, 100, 1_000].map(window), [16, 16, 16, 8, 2, 1]);
    }
}
