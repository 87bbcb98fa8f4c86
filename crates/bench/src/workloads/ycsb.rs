//! YCSB-T, as SwitchTx 5.1 has it: a table on each of 8 servers, records of 24 columns, and a lock for each column of
//! each record. A transaction reads, modifies and writes 8 of them, one on each server: the record by Zipf's law with
//! exponent 0.8 or 0.99, the column uniform. The paper does not say how many records there are: here a million on each
//! server.

use super::micro::{Objects, Popularity};
use super::{Generator, Transaction, Workload, random};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::time::Duration;
use wayside_client::Mode;

const SERVERS: u64 = 8;
const COLUMNS: u64 = 24;

#[derive(Clone, Copy, Debug)]
pub(super) struct YcsbT {
    /// On each server.
    pub(super) records: u64,
    pub(super) exponent: f64,
}

impl Workload for YcsbT {
    fn locks(&self) -> u64 {
        SERVERS * self.records * COLUMNS
    }

    fn generator(&self, seed: u64, client: u64) -> Box<dyn Generator + '_> {
        let objects = Objects::new(self.records, Popularity::Zipf(self.exponent));
        Box::new(Transactions { records: self.records, objects, random: random(seed, client) })
    }
}

struct Transactions {
    records: u64,
    objects: Objects,
    random: ChaCha8Rng,
}

impl Generator for Transactions {
    fn next(&mut self, _: Duration, into: &mut Transaction) {
        into.begin("read-modify-write");
        for server in 0..SERVERS {
            let record = self.objects.draw(&mut self.random);
            let column = self.random.random_range(0..COLUMNS);
            into.ask((server * self.records + record) * COLUMNS + column, Mode::Exclusive);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::statistics::{count_in, fits, zipf_classes};
    use super::*;

    #[test]
    fn every_server_has_one_key_by_zipf_and_a_column_of_any() {
        for exponent in [0.80, 0.99] {
            let ycsb = YcsbT { records: 100_000, exponent };
            let mut generator = ycsb.generator(1, 0);
            let mut transaction = Transaction::empty();
            let (mut ranks, mut columns) = (Vec::new(), [0u64; COLUMNS as usize]);
            for _ in 0..100_000 {
                generator.next(Duration::ZERO, &mut transaction);
                let servers: Vec<u64> =
                    transaction.requests.iter().map(|request| request.lock / COLUMNS / ycsb.records).collect();
                assert_eq!(servers, (0..SERVERS).collect::<Vec<_>>());
                for request in &transaction.requests {
                    assert_eq!(request.mode, Mode::Exclusive);
                    ranks.push(request.lock / COLUMNS % ycsb.records + 1);
                    columns[(request.lock % COLUMNS) as usize] += 1;
                }
            }
            assert!(fits(&columns, &[1.0; COLUMNS as usize]), "{columns:?}");
            let is_of = |exponent| {
                let classes = zipf_classes(ycsb.records, exponent);
                let counts = count_in(&classes, ranks.iter().copied());
                fits(&counts, &classes.iter().map(|class| class.1).collect::<Vec<_>>())
            };
            assert!(is_of(exponent) && !is_of(exponent - 0.02) && !is_of(exponent + 0.02), "{exponent}");
        }
    }
}
