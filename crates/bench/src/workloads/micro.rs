//! The lock micro-benchmark: a transaction is one lock.
//!
//! FissLock 7.1 and 7.3: one million locks; half, a tenth or none of the requests are exclusive; uniform, or by Zipf's
//! law with exponent 0.90. Lock 0 is the most wanted one, lock 1 the next: ranks are not scattered. 7.6: the same with
//! more locks. 7.7: ten million objects that are spread evenly over fewer locks, object modulo locks.
//! NetLock 6.2: shared locks; exclusive ones, 55,000 or as few as 500. Of how many shared ones it says nothing: here of
//! 55,000, too.
//!
//! Zipf's law is sampled exactly, by rejection (`rand_distr`); FissLock's traces use YCSB's approximation of it.

use super::{Generator, Transaction, Workload, random};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Zipf};
use std::time::Duration;
use wayside_client::Mode;

/// Which objects are wanted how often.
#[derive(Clone, Copy, Debug)]
pub(super) enum Popularity {
    Uniform,
    /// By rank to this power.
    Zipf(f64),
    /// Half of the requests are for so many of them, the others for the rest.
    Hot(u64),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Micro {
    pub(super) objects: u64,
    pub(super) locks: u64,
    pub(super) popularity: Popularity,
    /// Exclusive requests, of a hundred.
    pub(super) writes: u32,
}

impl Workload for Micro {
    fn locks(&self) -> u64 {
        self.locks
    }

    fn generator(&self, seed: u64, client: u64) -> Box<dyn Generator + '_> {
        let objects = Objects::new(self.objects, self.popularity);
        Box::new(Requests { objects, locks: self.locks, writes: self.writes, random: random(seed, client) })
    }
}

/// Objects from 0 on, drawn by their popularity.
#[derive(Clone, Copy, Debug)]
pub(super) enum Objects {
    Uniform(u64),
    Zipf(Zipf<f64>, u64),
    Hot(u64, u64),
}

impl Objects {
    pub(super) fn new(count: u64, popularity: Popularity) -> Objects {
        match popularity {
            Popularity::Uniform => Objects::Uniform(count),
            Popularity::Hot(hot) => Objects::Hot(hot, count),
            Popularity::Zipf(exponent) => {
                let zipf = Zipf::new(count as f64, exponent).expect("objects there are, and an exponent above 0");
                Objects::Zipf(zipf, count)
            }
        }
    }

    pub(super) fn draw(&self, random: &mut ChaCha8Rng) -> u64 {
        match self {
            Objects::Uniform(count) => random.random_range(0..*count),
            Objects::Hot(hot, count) if random.random_range(0..2) == 0 => random.random_range(0..*hot.min(count)),
            Objects::Hot(hot, count) => random.random_range(*hot..*count),
            // Ranks begin at 1; the sum of rounding errors is not to lead beyond the last.
            Objects::Zipf(zipf, count) => (zipf.sample(random) as u64 - 1).min(count - 1),
        }
    }
}

struct Requests {
    objects: Objects,
    locks: u64,
    writes: u32,
    random: ChaCha8Rng,
}

impl Generator for Requests {
    fn next(&mut self, _: Duration, into: &mut Transaction) {
        let lock = self.objects.draw(&mut self.random) % self.locks;
        let writes = self.random.random_range(0..100) < self.writes;
        into.begin(if writes { "write" } else { "read" });
        into.ask(lock, if writes { Mode::Exclusive } else { Mode::Shared });
    }
}

#[cfg(test)]
mod tests {
    use super::super::statistics::{count_in, fits, zipf_classes};
    use super::*;

    const SAMPLES: usize = 1_000_000;

    fn drawn(workload: Micro) -> Vec<(u64, Mode)> {
        let mut generator = workload.generator(1, 0);
        let mut transaction = Transaction::empty();
        let mut one = || {
            generator.next(Duration::ZERO, &mut transaction);
            (transaction.requests[0].lock, transaction.requests[0].mode)
        };
        (0..SAMPLES).map(|_| one()).collect()
    }

    fn zipf(exponent: f64) -> Micro {
        Micro { objects: 1_000_000, locks: 1_000_000, popularity: Popularity::Zipf(exponent), writes: 50 }
    }

    #[test]
    fn zipf_is_zipf_with_its_own_exponent_and_no_other() {
        for exponent in [0.90, 0.99] {
            let drawn = drawn(zipf(exponent));
            let is_of = |exponent| {
                let classes = zipf_classes(1_000_000, exponent);
                let counts = count_in(&classes, drawn.iter().map(|(lock, _)| lock + 1));
                fits(&counts, &classes.iter().map(|class| class.1).collect::<Vec<_>>())
            };
            assert!(is_of(exponent), "{exponent}");
            assert!(!is_of(exponent - 0.01) && !is_of(exponent + 0.01), "{exponent}");
        }
    }

    #[test]
    fn uniform_is_uniform_and_zipf_is_not() {
        let counts = |workload| {
            let mut counts = vec![0; 1_000];
            drawn(workload).iter().for_each(|(lock, _)| counts[(lock / 1_000) as usize] += 1);
            counts
        };
        let even = [1.0; 1_000];
        assert!(fits(&counts(Micro { popularity: Popularity::Uniform, ..zipf(0.9) }), &even));
        assert!(!fits(&counts(zipf(0.1)), &even));
    }

    #[test]
    fn half_are_for_the_hot_ones_and_each_half_is_uniform() {
        let workload = Micro { objects: 116, locks: 116, popularity: Popularity::Hot(16), writes: 100 };
        let mut counts = vec![0; 116];
        drawn(workload).iter().for_each(|(lock, _)| counts[*lock as usize] += 1);
        let shares: Vec<f64> = (0..116).map(|lock| if lock < 16 { 1.0 / 16.0 } else { 1.0 / 100.0 }).collect();
        assert!(fits(&counts, &shares));
    }

    #[test]
    fn writes_are_as_many_as_they_should_be() {
        for writes in [50, 10] {
            let drawn = drawn(Micro { writes, ..zipf(0.9) });
            let exclusive = drawn.iter().filter(|(_, mode)| *mode == Mode::Exclusive).count() as u64;
            let counted = [exclusive, SAMPLES as u64 - exclusive];
            let shares = |writes: u32| [f64::from(writes), f64::from(100 - writes)];
            assert!(fits(&counted, &shares(writes)), "{counted:?}");
            assert!(!fits(&counted, &shares(writes + 1)), "{counted:?}");
        }
        assert!(drawn(Micro { writes: 0, ..zipf(0.9) }).iter().all(|(_, mode)| *mode == Mode::Shared));
    }

    #[test]
    fn objects_are_spread_evenly_over_fewer_locks() {
        let workload = Micro { objects: 10_000_000, locks: 1_000, popularity: Popularity::Uniform, writes: 10 };
        let mut counts = vec![0; 1_000];
        drawn(workload).iter().for_each(|(lock, _)| counts[*lock as usize] += 1);
        assert!(fits(&counts, &[1.0; 1_000]));
        // The most wanted objects have a lock each: what they share it with adds little.
        let hot = Micro { popularity: Popularity::Zipf(0.9), ..workload };
        let most = drawn(hot).iter().filter(|(lock, _)| *lock == 0).count() as f64 / SAMPLES as f64;
        let all: f64 = (1..=10_000_000u64).map(|rank| (rank as f64).powf(-0.9)).sum();
        let of_lock: f64 = (0..10_000u64).map(|index| ((index * 1_000 + 1) as f64).powf(-0.9)).sum::<f64>() / all;
        assert!((most / of_lock - 1.0).abs() < 0.02, "{most} {of_lock}");
    }
}
