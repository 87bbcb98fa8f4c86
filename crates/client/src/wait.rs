//! Who waits for an answer, and how a thread does.

use crate::clock;
use std::time::Duration;
use wayside_protocol::Time;

/// Who waits for an answer. What takes several questions is written once, as a future: whoever waits with his thread
/// runs it by `block_on`, and asks in a way that has the answer as soon as it is polled, at the thread's own port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// Stands still meanwhile.
    Thread,
    /// Lets its thread do other things.
    Task,
}

/// How a thread waits for an answer: what it pays for a few microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Looks again and again: the shortest waits, at the price of a whole core while it waits.
    Spin,
    /// Sleeps until the packet comes: no processor time, and a wake-up (about 10 to 50 us on virtual machines) a wait.
    Block,
    /// Spins for 50 us, in which most undisputed locks are granted, then sleeps. On one processor it sleeps at once.
    #[default]
    Adaptive,
}

/// About the cost of one sleep and wake-up: who spins no longer than that loses at most half of it.
const ADAPTIVE_SPIN: Duration = Duration::from_micros(50);

impl Wait {
    /// Until when a wait that begins now spins.
    pub(crate) fn spins_until(self) -> Time {
        match self {
            Wait::Spin => Time(u64::MAX),
            Wait::Block => Time(0),
            Wait::Adaptive if one_processor() => Time(0),
            Wait::Adaptive => clock::after(clock::now(), ADAPTIVE_SPIN),
        }
    }
}

fn one_processor() -> bool {
    static ONE: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *ONE.get_or_init(|| std::thread::available_parallelism().is_ok_and(|count| count.get() == 1))
}
