//! A seeded world around Wayside's own parts: the C core that decides, the controller, nodes with their agents, and a
//! network that loses, repeats, delays and breaks packets, between processes that crash, stop and drift. Checkers that
//! know nothing of the protocol look for two holders, a token out of order, a waiter that is forgotten.
//!
//! One seed is one run. The same seed twice gives the same [`Outcome::trace_hash`]; a failure is a seed and a commit.

mod apps;
mod attacker;
mod chart;
mod checker;
mod clock;
mod dice;
mod faults;
mod host;
mod network;
mod report;
mod switch;
#[cfg(feature = "mutants")]
mod tamper;
mod world;

pub use report::{Counts, Failure, Outcome};
#[cfg(feature = "mutants")]
pub use tamper::CoreMutant;
use wayside_protocol::Mutant;

/// The commit that this was built from.
pub const COMMIT: &str = env!("WAYSIDE_COMMIT");

/// How to run a seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Print every packet and event.
    pub chart: bool,
    /// Break a rule. Needs the feature `mutants`.
    pub mutant: Option<Mutant>,
    /// Leave out a condition of the core.
    #[cfg(feature = "mutants")]
    pub core: Option<CoreMutant>,
    /// Do not look at agents' books: to know what only that shows.
    #[cfg(feature = "mutants")]
    pub books_unseen: bool,
}

/// Runs a seed.
pub fn run(seed: u64, options: Options) -> Outcome {
    world::World::new(seed, options).run()
}
