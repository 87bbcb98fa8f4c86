//! A hot spot that moves: FissLock 7.5. Of a million locks 2,500 are hot and get half of the requests; the other half
//! is uniform over the remaining ones. After 300 ms the next 2,500 are hot. All requests are shared, as in FissLock's
//! traces.

use super::{Generator, Transaction, Workload, random};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::time::Duration;
use wayside_client::Mode;

#[derive(Clone, Copy, Debug)]
pub(super) struct HotSpot {
    pub(super) locks: u64,
    pub(super) hot: u64,
    pub(super) moves: Duration,
}

/// One that moves so often.
pub(crate) fn hot_spot(locks: u64, hot: u64, moves: Duration) -> Box<dyn Workload> {
    Box::new(HotSpot { locks, hot, moves })
}

impl HotSpot {
    /// The first hot lock at this time; the others follow it.
    fn first(&self, at: Duration) -> u64 {
        let moved = (at.as_nanos() / self.moves.as_nanos()) as u64;
        moved % (self.locks / self.hot) * self.hot
    }
}

impl Workload for HotSpot {
    fn locks(&self) -> u64 {
        self.locks
    }

    fn generator(&self, seed: u64, client: u64) -> Box<dyn Generator + '_> {
        Box::new(Requests { spot: *self, random: random(seed, client) })
    }
}

struct Requests {
    spot: HotSpot,
    random: ChaCha8Rng,
}

impl Generator for Requests {
    fn next(&mut self, at: Duration, into: &mut Transaction) {
        let HotSpot { locks, hot, .. } = self.spot;
        let first = self.spot.first(at);
        let is_hot = self.random.random_range(0..2) == 0;
        let lock = if is_hot {
            first + self.random.random_range(0..hot)
        } else {
            let cold = self.random.random_range(0..locks - hot);
            if cold < first { cold } else { cold + hot }
        };
        into.begin(if is_hot { "hot" } else { "cold" });
        into.ask(lock, Mode::Shared);
    }
}

#[cfg(test)]
mod tests {
    use super::super::statistics::fits;
    use super::*;

    #[test]
    fn half_of_the_requests_go_to_the_hot_spot_and_it_moves_and_returns() {
        let spot = HotSpot { locks: 1_000_000, hot: 2_500, moves: Duration::from_millis(300) };
        let mut generator = spot.generator(1, 0);
        let mut transaction = Transaction::empty();
        // 400 moves lead back to the beginning.
        for (at, first) in [(0, 0), (299, 0), (300, 2_500), (300 * 399, 997_500), (300 * 400, 0)] {
            let (mut hot, mut cold) = (vec![0u64; 25], vec![0u64; 100]);
            for _ in 0..200_000 {
                generator.next(Duration::from_millis(at), &mut transaction);
                let lock = transaction.requests[0].lock;
                match lock.checked_sub(first).filter(|place| *place < 2_500) {
                    Some(place) => hot[place as usize / 100] += 1,
                    None => cold[lock as usize / 10_000] += 1,
                }
            }
            let sum = |counts: &[u64]| counts.iter().sum::<u64>();
            assert!(fits(&[sum(&hot), sum(&cold)], &[1.0, 1.0]), "at {at} ms");
            assert!(fits(&hot, &[1.0; 25]), "at {at} ms");
            let mut even = [1.0; 100];
            even[first as usize / 10_000] -= 0.25;
            assert!(fits(&cold, &even), "at {at} ms");
        }
    }
}
