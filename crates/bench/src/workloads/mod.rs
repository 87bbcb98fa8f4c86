//! Lock requests of benchmarks that papers report, made by seeded generators.
//!
//! A [`Workload`] is what all clients share (how many locks there are, tables); a [`Generator`] is one client's
//! sequence of transactions. The same seed and client give the same sequence, on every machine whose library rounds
//! powers alike: ChaCha8 with the client as its stream. So everybody who takes part in a measurement gets the same
//! requests.
//!
//! * `catalogue.rs` has the names, and with each the paper's number of clients, execution time and time-out.
//! * `micro.rs`: single locks; uniform, Zipf, objects over locks. `hot_spot.rs`: a hot spot that moves.
//! * `tatp.rs`, `tpcc.rs`, `smallbank.rs`, `ycsb.rs`, `banking.rs`: transactions.
//!
//! Invariants
//! * A transaction asks for no lock twice: where a table's rows share a lock, the stronger mode is asked for once.
//! * Its requests are in the order in which its program needs them, which may deadlock. Who takes it may sort them.

mod banking;
mod catalogue;
mod hot_spot;
mod micro;
mod smallbank;
#[cfg(test)]
mod statistics;
mod tatp;
mod tpcc;
mod ycsb;

pub use catalogue::{HOT, Named, all, named, rivalries};
pub(crate) use hot_spot::hot_spot;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::time::Duration;
use wayside_client::Mode;

/// A lock, and how it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// From 0 to below [`Workload::locks`].
    pub lock: u64,
    /// Shared to read, exclusive to write.
    pub mode: Mode,
}

/// Locks that are held together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Which of its benchmark's transactions.
    pub kind: &'static str,
    /// In the order of its program.
    pub requests: Vec<Request>,
}

impl Transaction {
    /// One with no requests yet, to be filled.
    #[must_use]
    pub fn empty() -> Transaction {
        Transaction { kind: "", requests: Vec::with_capacity(32) }
    }

    fn begin(&mut self, kind: &'static str) {
        self.kind = kind;
        self.requests.clear();
    }

    fn ask(&mut self, lock: u64, mode: Mode) {
        match self.requests.iter_mut().find(|request| request.lock == lock) {
            Some(known) if mode == Mode::Exclusive => known.mode = mode,
            Some(_) => {}
            None => self.requests.push(Request { lock, mode }),
        }
    }
}

/// What all clients of a benchmark share.
pub trait Workload: Send + Sync {
    /// Locks that there are.
    fn locks(&self) -> u64;

    /// The transactions of one client.
    fn generator(&self, seed: u64, client: u64) -> Box<dyn Generator + '_>;
}

/// One client's transactions.
pub trait Generator {
    /// Writes the next one; `at`: how long the run has lasted, which moves what moves by itself.
    fn next(&mut self, at: Duration, into: &mut Transaction);
}

/// A client's own random numbers.
fn random(seed: u64, client: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(client);
    random
}

/// The number of a table's row whose share `draw` (of a hundred) falls into; shares add up to 100.
fn of_mix(shares: &[u32], mut draw: u32) -> usize {
    for (index, share) in shares.iter().enumerate() {
        if draw < *share {
            return index;
        }
        draw -= share;
    }
    shares.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(workload: &dyn Workload, seed: u64, client: u64, count: usize) -> Vec<Transaction> {
        let mut generator = workload.generator(seed, client);
        let made = |index| {
            let mut transaction = Transaction::empty();
            generator.next(Duration::from_millis(index as u64), &mut transaction);
            transaction
        };
        (0..count).map(made).collect()
    }

    #[test]
    fn every_workload_is_the_same_for_a_seed_and_differs_between_clients() {
        for named in all() {
            let workload = named.build();
            let one = sequence(&*workload, 1, 1, 200);
            assert_eq!(one, sequence(&*named.build(), 1, 1, 200), "{}", named.name);
            assert_ne!(one, sequence(&*workload, 1, 2, 200), "{}: another client", named.name);
            assert_ne!(one, sequence(&*workload, 2, 1, 200), "{}: another seed", named.name);
        }
    }

    #[test]
    fn no_transaction_asks_for_a_lock_twice_or_for_none_or_for_one_that_there_is_not() {
        for named in all() {
            let workload = named.build();
            for transaction in sequence(&*workload, 7, 3, 2_000) {
                let mut locks: Vec<u64> = transaction.requests.iter().map(|request| request.lock).collect();
                assert!(!locks.is_empty(), "{}: {}", named.name, transaction.kind);
                assert!(locks.iter().all(|&lock| lock < workload.locks()), "{}: {locks:?}", named.name);
                locks.sort_unstable();
                assert!(locks.windows(2).all(|pair| pair[0] != pair[1]), "{}: {locks:?}", named.name);
            }
        }
    }

    #[test]
    fn the_stronger_mode_is_asked_for_once() {
        let mut transaction = Transaction::empty();
        for mode in [Mode::Shared, Mode::Exclusive, Mode::Shared] {
            transaction.ask(7, mode);
        }
        assert_eq!(transaction.requests, [Request { lock: 7, mode: Mode::Exclusive }]);
    }

    /// Records of different days are compared: with an upgrade of a library, too, traces have to stay what they are.
    #[test]
    fn traces_are_those_that_were_measured_with_before() {
        let digest = |name: &str| {
            let workload = named(name).unwrap().build();
            let made = sequence(&*workload, 1, 0, 1_000);
            let requests = made.iter().flat_map(|transaction| &transaction.requests);
            // FNV-1a over locks and modes.
            requests.fold(0xcbf2_9ce4_8422_2325u64, |hash, request| {
                let value = request.lock << 1 | u64::from(request.mode == Mode::Exclusive);
                (hash ^ value).wrapping_mul(0x100_0000_01b3)
            })
        };
        let known = [
            ("update-heavy-zipf", 0xcea86dd79d619bb1),
            ("tatp", 0xcef0b0d806003600),
            ("tpcc-low", 0x3206673c83434e71),
            ("smallbank", 0x37ac9d82b156e6c0),
            ("ycsb-t-0.99", 0xbfbda2e614876a63),
        ];
        let digests = known.map(|(name, _)| (name, digest(name)));
        assert_eq!(digests, known);
    }
}
