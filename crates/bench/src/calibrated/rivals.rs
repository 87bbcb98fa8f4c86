//! Both engines where everybody waits for everybody: what a hybrid of the two could win, on hosts that have processors
//! for it.

use super::costs::Costs;
use super::lab::{Lab, Peer, Run, Testbed};
use crate::Error;

/// FissLock's: 20 on each of 8 nodes.
pub(crate) const RIVALS: usize = 160;

/// Who keeps the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeper {
    Fission,
    /// Each lock has its queue in the switch.
    Queues,
    Server,
    /// Those that everybody wants have their queue in the switch, and all others are the lock server's,
    HotQueues,
    /// or slots.
    Hybrid,
}

/// What came of a run.
pub(crate) struct Rivalry {
    /// Locks a second.
    pub(crate) rate: f64,
    /// From a request to its grant, microseconds.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

/// Runs of the model, which differ in who keeps the locks, how many there are and for how long they are held.
pub(crate) struct Rivals(Lab);

impl Rivals {
    /// Each of about so many requests; of another seed, other ones.
    pub(crate) fn new(requests: u64, seed: u64) -> Rivals {
        Rivals(Lab::new(Costs::of_sources(), requests, seed))
    }

    /// Transactions of this workload, each of which holds its lock for so many nanoseconds.
    pub(crate) fn contend(&mut self, keeper: Keeper, workload: &'static str, hold: u64) -> Result<Rivalry, Error> {
        let peer = match keeper {
            Keeper::Fission => Peer::FairFission,
            Keeper::Queues => Peer::Queues,
            Keeper::Server => Peer::Server,
            Keeper::HotQueues => Peer::HotQueues,
            Keeper::Hybrid => Peer::Hybrid,
        };
        let run = Run { execution: hold, ..Run::of(Testbed::FissLock, peer, workload, RIVALS) };
        let outcome = self.0.run(run)?;
        let us = |quantile| outcome.grants.value_at_quantile(quantile) as f64 / 1e3;
        Ok(Rivalry { rate: outcome.requests_m() * 1e6, p50_us: us(0.5), p99_us: us(0.99) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The model's own sanity: one lock that is held for a while is granted no faster than that allows, and by nobody
    /// much slower.
    #[test]
    fn one_lock_is_handed_on_within_a_few_hops_of_its_hold() {
        let mut rivals = Rivals::new(2_000, 1);
        for keeper in [Keeper::Fission, Keeper::Queues, Keeper::Server] {
            let held = rivals.contend(keeper, "rivals-1", 100_000).unwrap();
            assert!((8_000.0..10_000.0).contains(&held.rate), "{keeper:?}: {}", held.rate);
            assert!(held.p50_us > 10_000.0 && held.p99_us >= held.p50_us, "{keeper:?}: 159 are before it");
        }
    }
}
