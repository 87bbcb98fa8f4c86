//! The workload: what the applications of a process do with their locks. Each task is one thread of one application.
//!
//! ```text
//!   Idle ──acquire, try, acquire_many──► Asking ──all granted──► Using ──(downgrade)──► released ──► Idle
//!                                          └── busy, timed out, cancelled, lost ────────────────────► Idle
//! ```

use wayside_protocol::{Acquire, Mode, RequestId};

use crate::clock::Clock;
use crate::dice::Dice;

/// What applications of a run like to do. Percentages and microseconds.
#[derive(Clone, Debug)]
pub struct Habits {
    /// Names in all; they share slots when there are fewer of those.
    pub names: u64,
    /// Slots of the namespace.
    pub slots: u32,
    /// Tasks of a process.
    pub tasks: u64,
    /// Requests that are shared.
    pub shared: u32,
    /// Requests that only try.
    pub tries: u32,
    /// Requests with a deadline.
    pub deadlines: u32,
    /// Waits that are cancelled if they last.
    pub cancels: u32,
    /// Exclusive holds that become shared.
    pub downgrades: u32,
    /// Requests for several names at once.
    pub many: u32,
    /// Longest hold.
    pub hold: u64,
    /// Longest pause between two operations.
    pub think: u64,
    /// Of those holds: as long as several leases.
    pub stuck: u32,
}

impl Habits {
    /// A seed's own.
    pub fn draw(dice: &mut Dice) -> Habits {
        let names = dice.between(1, 12);
        let mut sometimes = |percent: u32, low: u64, high: u64| {
            let value = dice.between(low, high) as u32;
            if dice.percent(percent) { value } else { 0 }
        };
        let (shared, tries) = (sometimes(80, 5, 95), sometimes(60, 5, 60));
        let (deadlines, cancels) = (sometimes(60, 5, 80), sometimes(60, 5, 60));
        let (downgrades, many, stuck) = (sometimes(50, 5, 50), sometimes(50, 5, 60), sometimes(40, 1, 20));
        Habits {
            names,
            slots: dice.between(1, 2 * names) as u32,
            tasks: dice.between(1, 6),
            shared,
            tries,
            deadlines,
            cancels,
            downgrades,
            many,
            hold: dice.magnitude(1, 10_000),
            think: dice.magnitude(1, 10_000),
            stuck,
        }
    }
}

/// Where a task is.
#[derive(Debug, Default)]
pub enum Stage {
    /// Does something else.
    #[default]
    Idle,
    /// Waits for the rest of these; cancels when it is woken before.
    Asking(Vec<RequestId>),
    /// Holds all of these.
    Using(Vec<RequestId>),
}

/// One thread of an application.
#[derive(Debug, Default)]
pub struct Task {
    /// Where it is.
    pub stage: Stage,
    /// How many of its requests are granted.
    pub granted: usize,
    /// One of them is exclusive, and may be downgraded.
    pub exclusive: Option<RequestId>,
    /// Counts its wake-ups: an earlier one is void.
    pub alarm: u64,
}

/// Draws the next wish: one or several names, in an order in which nobody can wait for each other.
pub fn wishes(habits: &Habits, dice: &mut Dice, port: u16, clock: &Clock, now: u64) -> Vec<Acquire> {
    let count = if dice.percent(habits.many) { dice.between(2, 5) } else { 1 };
    let mut names: Vec<u64> = (0..count).map(|_| name(habits, dice)).collect();
    names.sort_unstable_by_key(|name| (name % u64::from(habits.slots), *name));
    names.dedup();
    let try_ = names.len() == 1 && dice.percent(habits.tries);
    let patience = dice.magnitude(10, 500_000);
    let deadline = dice.percent(habits.deadlines).then(|| clock.at(now + patience));
    let mut wish = |name| Acquire {
        name,
        mode: if dice.percent(habits.shared) { Mode::Shared } else { Mode::Exclusive },
        try_,
        deadline,
        port,
    };
    names.into_iter().map(&mut wish).collect()
}

/// Half of the requests go to the first name; ids are spread so that they need not follow the slots' order.
fn name(habits: &Habits, dice: &mut Dice) -> u64 {
    let index = if dice.percent(50) { 0 } else { dice.below(habits.names) };
    1_000 + index * 7
}
