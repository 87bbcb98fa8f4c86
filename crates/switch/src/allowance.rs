//! What a switch in userspace sends for a namespace that has a budget, whatever its nodes ask for. The budget
//! (`dataplane/budget.h`) limits what they ask for anew, and nothing that gives back, hands over or says that a node
//! lives. But one thread answers all, and sending is most of what a packet costs it: a flood of these keeps it from
//! other tenants as much as one of requests. So there is a limit to what is sent, far above what the budget's requests
//! and their releases lead to.
//!
//! Invariants
//! * Charged is what has been decided on, so the tag has been checked: nobody spends what is another tenant's.
//! * What is over it is lost as on any network, answers and packets for other nodes alike, and is sent again.
//! * Heartbeats of all sessions that a tenant can have are within it.

use crate::layout::METER_CLOCK_SHIFT;
use crate::memory::Budget;
use crate::zeroed::Zeroable;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};
use wayside_protocol::Time;

/// Packets for each request that the budget admits: its answer and its agent's copy, the same for its release, and
/// what agents say to each other and to the switch when they hand a lock over.
const PACKETS_A_REQUEST: u64 = 8;
/// Packets a second besides: heartbeats of half of all handles, three in each lease of 2 s.
const PACKETS_A_SECOND: u64 = 50_000;
/// What may be sent at once, besides the packets of a burst of requests. Units of the meter: 20 ms.
const AHEAD: u64 = 20_000 << METER_CLOCK_SHIFT;

/// One namespace's. All zeros: it has no limit.
pub(crate) struct Allowance {
    /// When all that was sent will have been paid for: `WS_METER_CLOCK_SHIFT` has the unit.
    due: AtomicU64,
    /// Of a packet.
    cost: AtomicU64,
    /// How far `due` may be ahead of time.
    ahead: AtomicU64,
}

// SAFETY: it consists of atomic integers.
unsafe impl Zeroable for Allowance {}

impl Allowance {
    pub(crate) fn set(&self, budget: Option<Budget>) {
        self.cost.store(0, Release);
        let Some(Budget { rate, burst }) = budget else { return };
        let cost = (1_000_000 << METER_CLOCK_SHIFT) / (u64::from(rate) * PACKETS_A_REQUEST + PACKETS_A_SECOND);
        self.due.store(0, Release);
        self.ahead.store(AHEAD + cost * PACKETS_A_REQUEST * u64::from(burst), Release);
        self.cost.store(cost, Release); // Last: from here on it is charged.
    }

    /// Charges a packet. False, and nothing charged: it is not to be sent. Of workers that charge in the same moment
    /// each may send one too many.
    #[inline]
    pub(crate) fn admits(&self, now: Time) -> bool {
        let cost = self.cost.load(Relaxed);
        if cost == 0 {
            return true;
        }
        let (now, due) = (now.0 << METER_CLOCK_SHIFT, self.due.load(Relaxed));
        if due.max(now) + cost > now + self.ahead.load(Relaxed) {
            return false;
        }
        if due >= now || self.due.compare_exchange(due, now + cost, Relaxed, Relaxed).is_err() {
            self.due.fetch_add(cost, Relaxed);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn sent(allowance: &Allowance, from: u64, asked_each_us: u64) -> u64 {
        let moments = (from..from + SECOND).flat_map(|now| (0..asked_each_us).map(move |_| Time(now)));
        moments.filter(|now| allowance.admits(*now)).count() as u64
    }

    fn allowance(budget: Option<Budget>) -> Allowance {
        let allowance = Allowance { due: AtomicU64::new(0), cost: AtomicU64::new(0), ahead: AtomicU64::new(0) };
        allowance.set(budget);
        allowance
    }

    #[test]
    fn a_flood_is_sent_no_more_than_its_budget_allows() {
        let allowance = allowance(Some(Budget { rate: 10_000, burst: 100 }));
        let (a_second, at_once) = (130_000, 130_000 / 50 + 800);
        let first = sent(&allowance, SECOND, 2);
        assert!((a_second..=a_second + at_once + 200).contains(&first), "{first}");
        let next = sent(&allowance, 2 * SECOND, 2);
        assert!(next.abs_diff(a_second) < 200, "{next}: what was at once was at once once");
    }

    #[test]
    fn what_is_within_it_is_all_sent_and_what_was_not_spent_is_not_saved() {
        let allowance = allowance(Some(Budget { rate: 1_000_000, burst: 10_000 }));
        assert_eq!(sent(&allowance, SECOND, 1), SECOND);
        let later = 100 * SECOND;
        let at_once = (0..).take_while(|_| allowance.admits(Time(later))).count() as u64;
        assert!(at_once.abs_diff(8_050_000 / 50 + 80_000) < 3_000, "{at_once}");
    }

    #[test]
    fn without_a_budget_there_is_no_limit_and_one_can_be_taken_away() {
        let allowance = allowance(None);
        assert_eq!(sent(&allowance, SECOND, 3), 3 * SECOND);
        allowance.set(Some(Budget { rate: 1, burst: 32 }));
        assert!(sent(&allowance, SECOND, 3) < 60_000);
        allowance.set(None);
        assert_eq!(sent(&allowance, SECOND, 3), 3 * SECOND);
    }

    #[test]
    fn the_largest_budget_is_within_the_word() {
        let allowance = allowance(Some(Budget { rate: Budget::MAX_RATE, burst: Budget::MAX_BURST }));
        let hundred_years = 100 * 365 * 86_400 * SECOND;
        assert!(allowance.admits(Time(hundred_years)) && allowance.cost.load(Relaxed) > 0);
    }
}
