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
    /// How often it was, in vain, since the last page that counted;
    in_vain: u32,
    /// and in all.
    in_vain_in_all: u32,
}

/// So many times what is borne without a page, is borne of a whole report besides one for each page.
const ALL_IN_ALL: u32 = 4;

impl Pages {
    /// Of a number that is known, or is not.
    pub fn new(count: Option<u32>, due: Time) -> Pages {
        Pages { next: 0, come: 0, asked: 0, count, again: None, due, in_vain: 0, in_vain_in_all: 0 }
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

    /// What is under way is asked for again, now and after `pause`. False: it was in vain too often, more than `most`
    /// times since a page came, or for every page as if the others were to wait for ever. A question that goes late by
    /// more than that pause does not count: the controller was away, and so were the answers.
    pub fn ask_again(&mut self, now: Time, pause: u64, most: u32) -> bool {
        let counts = u32::from(now.since(self.due) < pause);
        self.in_vain += counts;
        self.in_vain_in_all += counts;
        self.due = now + pause;
        self.in_vain <= most && self.in_vain_in_all <= most.saturating_mul(ALL_IN_ALL).saturating_add(self.next)
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

    /// As one would that keeps all others waiting for as long as it may.
    #[test]
    fn who_has_every_page_asked_for_again_and_again_is_given_up() {
        const PAUSE: u64 = 50;
        let given_up_at = |questions: u64| {
            let (mut pages, mut now) = (Pages::new(None, Time(0)), 0);
            while let Some(page) = pages.ask(1) {
                for _ in 1..questions {
                    now += PAUSE;
                    if !pages.ask_again(Time(now), PAUSE, 20) {
                        return Some(page);
                    }
                }
                assert!(pages.take(page, false, &Config::default()));
            }
            None
        };
        assert_eq!([1, 2].map(given_up_at), [None; 2], "half of all may be lost");
        assert!(given_up_at(3).is_some_and(|page| page < 100) && given_up_at(20).is_some_and(|page| page < 10));
        assert_eq!(given_up_at(23), Some(0));
    }

    /// Twice for each page, and eight times besides one for each that has come.
    #[test]
    fn a_report_is_given_up_when_more_was_asked_in_vain_than_its_pages_allow() {
        let (mut pages, mut now) = (Pages::new(None, Time(50)), 0);
        let mut bears = |page| {
            assert_eq!(pages.ask(1), Some(page));
            let borne = [0; 2].map(|_| {
                now += 50;
                pages.ask_again(Time(now), 50, 2)
            });
            assert!(pages.take(page, false, &Config::default()));
            borne
        };
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(&mut bears), [[true; 2]; 7], "14 times, and 8 + 6 are borne");
        assert_eq!(bears(7), [true, false], "15 are, and not 16");
    }

    #[test]
    fn a_page_that_eight_have_overtaken_is_asked_for_once_more() {
        let (mut pages, config) = (Pages::new(Some(40), Time(0)), Config::default());
        assert_eq!(core::iter::from_fn(|| pages.ask(OF_ONE)).count(), 16);
        for page in 1..=8 {
            assert_eq!(pages.overtaken(), None, "before page {page}");
            assert!(pages.take(page, false, &config));
        }
        assert_eq!((pages.overtaken(), pages.overtaken()), (Some(0), None));
        assert!(pages.take(9, false, &config));
        assert_eq!(pages.overtaken(), None, "once");
        assert!(pages.take(0, false, &config));
        assert_eq!((pages.next, pages.overtaken()), (10, None), "nothing is overtaken");
        core::iter::from_fn(|| pages.ask(OF_ONE)).for_each(drop);
        (11..=18).for_each(|page| assert!(pages.take(page, false, &config)));
        assert_eq!((pages.overtaken(), pages.overtaken()), (Some(10), None), "each that is lost");
    }

    #[test]
    fn as_many_are_under_way_as_may_be_and_none_is_far_beyond_one_that_has_not_come() {
        let (mut pages, config) = (Pages::new(Some(100), Time(0)), Config::default());
        while let Some(page) = pages.ask(OF_ONE) {
            assert!(pages.asked - pages.next - pages.come.count_ones() <= OF_ONE);
            assert!(page == 0 || pages.take(page, false, &config));
        }
        assert_eq!((pages.asked, pages.missing().collect::<Vec<_>>()), (2 * OF_ONE, alloc::vec![0]));
        assert!(pages.take(0, false, &config));
        assert_eq!((pages.next, pages.come), (2 * OF_ONE, 0));
        let mut few = Pages::new(Some(4), Time(0));
        assert_eq!(core::iter::from_fn(|| few.ask(2)).collect::<Vec<_>>(), [0, 1]);
        assert!(few.take(1, false, &config));
        assert_eq!(core::iter::from_fn(|| few.ask(2)).collect::<Vec<_>>(), [2], "one for each that has come");
        assert_eq!(few.missing().collect::<Vec<_>>(), [0, 2]);
        assert_eq!(core::iter::from_fn(|| few.ask(3)).collect::<Vec<_>>(), [3], "and no more than there are");
    }

    #[test]
    fn a_question_is_in_vain_unless_who_asks_was_away_or_a_page_has_come() {
        let (mut pages, config) = (Pages::new(None, Time(100)), Config::default());
        pages.ask(1);
        assert!(pages.ask_again(Time(100), 50, 2) && pages.ask_again(Time(199), 50, 2), "no more than twice");
        assert_eq!(pages.due, Time(249));
        assert!(pages.ask_again(Time(299), 50, 2), "a whole pause late: nobody could have answered");
        assert!(pages.take(0, false, &config));
        assert!(pages.ask_again(Time(349), 50, 2) && pages.ask_again(Time(399), 50, 2), "counted anew");
        assert!(!pages.ask_again(Time(449), 50, 2), "the third time since a page came");
    }

    #[test]
    fn many_nodes_share_what_may_be_under_way() {
        assert_eq!([0, 1, 16, 32, 100, 1_000].map(window), [16, 16, 16, 8, 2, 1]);
    }
}
