//! A seeded world around Wayside's own parts: the C core that decides, the controller, nodes with their agents, and a
//! network that loses, repeats, delays and breaks packets, between processes that crash, stop and drift. Checkers that
//! know nothing of the protocol look for two holders, a token out of order, a waiter that is forgotten.
//!
//! One seed is one run. The same seed twice gives the same [`Outcome::trace_hash`]; a failure is a seed and a commit,
//! and [`shrink`] leaves of its happenings those alone that it takes. docs/simulator.md says how to use it.

mod agenda;
mod attacker;
mod batch;
mod chain;
mod clock;
pub mod command;
mod decisions;
mod dice;
mod faults;
mod host;
mod hybrid;
mod locks;
mod mishaps;
#[cfg(feature = "mutants")]
pub mod mutants;
mod network;
mod processes;
mod queues;
mod report;
mod run;
mod schedule;
mod seat;
mod service;
mod setup;
mod shards;
pub mod shrink;
mod small;
mod story;
mod tally;
#[cfg(feature = "mutants")]
mod tamper;
mod world;

pub use batch::{processors, run_all};
use clap::ValueEnum;
pub use report::{BATCH, Counts, Failure, Outcome};
pub use schedule::{Filter, Kind, Mark, Marks};
pub use small::{Fault, Small};
#[cfg(feature = "mutants")]
pub use tamper::CoreMutant;
use wayside_protocol::Mutant;

/// The commit that this was built from.
pub const COMMIT: &str = env!("WAYSIDE_COMMIT");

/// A world that is large instead of drawn.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Hosts, each with a node.
    pub nodes: usize,
    /// Names, each with a slot.
    pub names: u64,
    /// Packets of the safety phase.
    pub packets: u64,
}

/// What a world does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ServiceKind {
    /// Locks, at one switch or at two that stand by for each other.
    #[default]
    Lock,
    /// Keys with values, along chains of switches.
    Chain,
    /// Locks whose queues are in the switch, or at lock servers.
    Queue,
    /// Locks of which some are queues, and all others are not.
    Hybrid,
    /// Locks of several shards, of which some are added and drained.
    Shards,
}

impl ServiceKind {
    /// Whether some locks are queues.
    pub const fn has_queues(self) -> bool {
        matches!(self, ServiceKind::Queue | ServiceKind::Hybrid)
    }
}

/// How to run a seed.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Print every packet and event.
    pub chart: bool,
    /// What is run.
    pub service: ServiceKind,
    /// What may happen.
    pub filter: Filter,
    /// A large world.
    pub scale: Option<Scale>,
    /// A small world, of locks, with these faults.
    pub small: Option<Small>,
    /// What breaks later than this, in microseconds of the world's time, need not be found. Of locks.
    pub until: Option<u64>,
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
pub fn run(seed: u64, options: &Options) -> Outcome {
    match options.service {
        ServiceKind::Lock | ServiceKind::Queue | ServiceKind::Hybrid => {
            let mut world = world::World::new(seed, options.clone());
            let locks = locks::Locks::new(&mut world);
            run::Run::new(world, locks).live()
        }
        ServiceKind::Chain => chain::run(seed, options),
        ServiceKind::Shards => shards::run(seed, options),
    }
}
