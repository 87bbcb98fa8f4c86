//! TATP over 100,000 subscribers, with the locks that FissLock's traces have: one for each row of the tables
//! subscriber, access info and special facility, and four for five subscribers over the rows of call forwarding, by
//! their hash.
//!
//! | transaction | share | locks |
//! | --- | --- | --- |
//! | get subscriber data | 35 % | subscriber, shared |
//! | get new destination | 10 % | special facility, and each call forwarding that fits, shared |
//! | get access data | 35 % | access info, shared |
//! | update subscriber data | 2 % | subscriber and special facility, exclusive |
//! | update location | 14 % | subscriber, exclusive |
//! | insert call forwarding | 2 % | subscriber and its special facilities, shared; call forwarding, exclusive |
//! | delete call forwarding | 2 % | subscriber, shared; call forwarding, exclusive |
//!
//! Subscribers are drawn as TATP says, not uniformly: `(random(0..=65535) | random(1..=n)) % n + 1`. Other fields are
//! uniform. A row that the transaction does not find has no lock: where nothing is left of it, as TATP's quarter and
//! more of failing reads, another subscriber is drawn. The tables are filled by a seed of their own and do not change:
//! whoever deletes a row takes the lock that whoever inserts it takes.

use super::{Generator, Transaction, Workload, of_mix, random};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::time::Duration;
use wayside_client::Mode::{Exclusive, Shared};

const MIX: [u32; 7] = [35, 10, 35, 2, 14, 2, 2];
/// Of TATP, for up to a million subscribers.
const SPREAD: u64 = 65_535;
/// Not a measurement's seed: the tables are the same in all.
const TABLES: u64 = 0x7A79;

/// The tables, as far as locks depend on them.
pub(super) struct Tatp {
    subscribers: u64,
    rows: Vec<Rows>,
    /// The first lock of call forwarding, how many there are, and all.
    forwarding: (u64, u64),
}

/// The rows of one subscriber: sets of types, from 1 to 4, as bits; with each the first row's lock.
struct Rows {
    access: u8,
    first_access: u64,
    facilities: u8,
    first_facility: u64,
    /// For each type of facility the hours at which a forwarding begins (0, 8, 16: a bit each), and how many each
    /// lasts.
    forwards: [(u8, [u8; 3]); 4],
}

impl Tatp {
    pub(super) fn new(subscribers: u64) -> Tatp {
        let mut random = random(TABLES, 0);
        let mut next = subscribers;
        let mut rows: Vec<Rows> = (0..subscribers).map(|_| Rows::fill(&mut random)).collect();
        for one in &mut rows {
            one.first_access = next;
            next += u64::from(one.access.count_ones());
        }
        for one in &mut rows {
            one.first_facility = next;
            next += u64::from(one.facilities.count_ones());
        }
        Tatp { subscribers, rows, forwarding: (next, subscribers * 4 / 5) }
    }

    fn forwarding(&self, subscriber: u64, kind: u8, hour: u8) -> u64 {
        let row = (subscriber * 4 + u64::from(kind)) * 3 + u64::from(hour);
        // Fibonacci hashing: its upper half is spread evenly.
        let hash = row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        self.forwarding.0 + hash % self.forwarding.1
    }
}

impl Rows {
    fn fill(random: &mut ChaCha8Rng) -> Rows {
        let mut rows =
            Rows { access: 0, first_access: 0, facilities: 0, first_facility: 0, forwards: [(0, [0; 3]); 4] };
        rows.access = some_of(4, random.random_range(1..=4), random);
        rows.facilities = some_of(4, random.random_range(1..=4), random);
        for kind in 0..4 {
            if rows.facilities >> kind & 1 == 1 {
                let hours = some_of(3, random.random_range(0..=3), random);
                rows.forwards[kind] = (hours, std::array::from_fn(|_| random.random_range(1..=8)));
            }
        }
        rows
    }

    fn access(&self, kind: u8) -> Option<u64> {
        place(self.access, kind).map(|place| self.first_access + place)
    }

    fn facility(&self, kind: u8) -> Option<u64> {
        place(self.facilities, kind).map(|place| self.first_facility + place)
    }
}

/// So many of the first `all` bits, any.
fn some_of(all: u8, count: u32, random: &mut ChaCha8Rng) -> u8 {
    let mut set = 0u8;
    while set.count_ones() < count {
        set |= 1 << random.random_range(0..all);
    }
    set
}

/// How many are in the set before this one, if it is in it.
fn place(set: u8, one: u8) -> Option<u64> {
    (set >> one & 1 == 1).then(|| u64::from((set & ((1 << one) - 1)).count_ones()))
}

impl Workload for Tatp {
    fn locks(&self) -> u64 {
        self.forwarding.0 + self.forwarding.1
    }

    fn generator(&self, seed: u64, client: u64) -> Box<dyn Generator + '_> {
        Box::new(Transactions { tables: self, random: random(seed, client) })
    }
}

struct Transactions<'t> {
    tables: &'t Tatp,
    random: ChaCha8Rng,
}

impl Transactions<'_> {
    fn subscriber(&mut self) -> u64 {
        let count = self.tables.subscribers;
        (self.random.random_range(0..=SPREAD) | self.random.random_range(1..=count)) % count
    }

    fn try_next(&mut self, kind: usize, into: &mut Transaction) {
        let tables = self.tables;
        let subscriber = self.subscriber();
        let rows = &tables.rows[subscriber as usize];
        let of_type: u8 = self.random.random_range(0..4);
        let hour: u8 = self.random.random_range(0..3);
        match kind {
            0 => into.ask(subscriber, Shared),
            1 => {
                let end: u8 = self.random.random_range(1..=24);
                if let Some(facility) = rows.facility(of_type) {
                    into.ask(facility, Shared);
                }
                let (hours, lasts) = rows.forwards[usize::from(of_type)];
                for begin in 0..=hour {
                    if hours >> begin & 1 == 1 && end < begin * 8 + lasts[usize::from(begin)] {
                        into.ask(tables.forwarding(subscriber, of_type, begin), Shared);
                    }
                }
            }
            2 => {
                if let Some(access) = rows.access(of_type) {
                    into.ask(access, Shared);
                }
            }
            3 => {
                into.ask(subscriber, Exclusive);
                if let Some(facility) = rows.facility(of_type) {
                    into.ask(facility, Exclusive);
                }
            }
            4 => into.ask(subscriber, Exclusive),
            _ => {
                into.ask(subscriber, Shared);
                if kind == 5 {
                    (0..4).filter_map(|kind| rows.facility(kind)).for_each(|facility| into.ask(facility, Shared));
                }
                if rows.facility(of_type).is_some() {
                    into.ask(tables.forwarding(subscriber, of_type, hour), Exclusive);
                }
            }
        }
    }
}

const KINDS: [&str; 7] = [
    "get subscriber data",
    "get new destination",
    "get access data",
    "update subscriber data",
    "update location",
    "insert call forwarding",
    "delete call forwarding",
];

impl Generator for Transactions<'_> {
    fn next(&mut self, _: Duration, into: &mut Transaction) {
        let kind = of_mix(&MIX, self.random.random_range(0..100));
        into.begin(KINDS[kind]);
        while into.requests.is_empty() {
            self.try_next(kind, into);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::statistics::fits;
    use super::*;

    const SUBSCRIBERS: u64 = 100_000;

    fn each(count: usize, mut look: impl FnMut(&Transaction)) {
        let tatp = Tatp::new(SUBSCRIBERS);
        let mut generator = tatp.generator(1, 0);
        let mut transaction = Transaction::empty();
        for _ in 0..count {
            generator.next(Duration::ZERO, &mut transaction);
            look(&transaction);
        }
    }

    #[test]
    fn the_mix_is_tatps() {
        let mut counts = [0; 7];
        each(400_000, |transaction| {
            counts[KINDS.iter().position(|kind| *kind == transaction.kind).unwrap()] += 1;
            let writes = transaction.requests.iter().any(|request| request.mode == Exclusive);
            assert_eq!(writes, !transaction.kind.starts_with("get") && may_write(transaction), "{transaction:?}");
        });
        assert!(fits(&counts, &MIX.map(f64::from)), "{counts:?}");
    }

    /// Whoever inserts or deletes a row of a facility that there is not has read that it is not.
    fn may_write(transaction: &Transaction) -> bool {
        !transaction.kind.ends_with("forwarding") || transaction.requests.iter().any(|one| one.mode == Exclusive)
    }

    /// FissLock's traces have 681,000 locks.
    #[test]
    fn there_are_as_many_locks_as_in_the_paper() {
        let locks = Tatp::new(SUBSCRIBERS).locks();
        assert!((locks as f64 / 681_000.0 - 1.0).abs() < 0.01, "{locks}");
    }

    /// How many pairs of `a` up to 65,535 and `b` from 1 to 100,000 have the bits `a | b`, for each number of 17 bits:
    /// pairs whose bits are among those, less those of subsets.
    fn pairs() -> Vec<f64> {
        let within = |holds: &dyn Fn(u64) -> bool| {
            let mut counts: Vec<f64> = (0..1u64 << 17).map(|number| f64::from(u8::from(holds(number)))).collect();
            for bit in 0..17 {
                (0..counts.len())
                    .filter(|number| number >> bit & 1 == 1)
                    .for_each(|n| counts[n] += counts[n ^ 1 << bit]);
            }
            counts
        };
        let (ones, others) = (within(&|n| n <= SPREAD), within(&|n| (1..=SUBSCRIBERS).contains(&n)));
        let mut pairs: Vec<f64> = ones.iter().zip(others).map(|(one, other)| one * other).collect();
        for bit in 0..17 {
            (0..pairs.len())
                .rev()
                .filter(|number| number >> bit & 1 == 1)
                .for_each(|n| pairs[n] -= pairs[n ^ 1 << bit]);
        }
        pairs
    }

    #[test]
    fn subscribers_are_drawn_as_tatp_says_and_not_uniformly() {
        let mut shares = vec![0.0; 1_000];
        for (bits, pairs) in pairs().iter().enumerate() {
            shares[bits % SUBSCRIBERS as usize / 100] += pairs;
        }
        let mut counts = vec![0; 1_000];
        each(1_000_000, |transaction| {
            let lock = transaction.requests[0].lock;
            // Those whose first lock is the subscriber's.
            if lock < SUBSCRIBERS {
                counts[lock as usize / 100] += 1;
            }
        });
        // Neighbours go together until there are enough of them to be counted.
        let (mut few, mut of_few) = (Vec::new(), Vec::new());
        let all = counts.iter().sum::<u64>() as f64 / shares.iter().sum::<f64>();
        let (mut count, mut share) = (0, 0.0);
        for index in 0..counts.len() {
            (count, share) = (count + counts[index], share + shares[index]);
            if share * all > 20.0 {
                few.push(count);
                of_few.push(share);
                (count, share) = (0, 0.0);
            }
        }
        assert!(few.len() > 100, "{}", few.len());
        assert!(fits(&few, &of_few));
        assert!(!fits(&few, &vec![1.0; few.len()]));
    }

    /// With each number of 17 bits its subscriber's rows, and how often it is drawn.
    fn weighed(tatp: &Tatp, mut look: impl FnMut(&Rows, f64)) {
        for (bits, pairs) in pairs().into_iter().enumerate() {
            look(&tatp.rows[bits % SUBSCRIBERS as usize], pairs);
        }
    }

    /// Whoever deletes a call forwarding draws its facility's type and its hour evenly, and finds those facilities that
    /// there are; whoever reads access data draws until there is some.
    #[test]
    fn types_and_hours_are_even_among_the_rows_that_there_are() {
        let tatp = Tatp::new(SUBSCRIBERS);
        let (mut of_rows, mut of_access) = ([0.0; 12], [0.0; 4]);
        weighed(&tatp, |rows, weight| {
            for kind in 0..4u8 {
                let place = usize::from(kind);
                if rows.facility(kind).is_some() {
                    of_rows[3 * place..][..3].iter_mut().for_each(|share| *share += weight);
                }
                if rows.access(kind).is_some() {
                    of_access[place] += weight;
                }
            }
        });
        let (mut rows, mut access) = ([0; 12], [0; 4]);
        each(1_000_000, |transaction| match (transaction.kind, &transaction.requests[..]) {
            ("delete call forwarding", [subscriber, row]) => {
                let is_it = |place: &u8| tatp.forwarding(subscriber.lock, place / 3, place % 3) == row.lock;
                rows[usize::from((0..12).find(is_it).expect("a row of that subscriber"))] += 1;
            }
            ("get access data", [row]) => {
                let subscriber = tatp.rows.partition_point(|rows| rows.first_access <= row.lock) - 1;
                let is_it = |kind: &u8| tatp.rows[subscriber].access(*kind) == Some(row.lock);
                access[usize::from((0..4).find(is_it).expect("a row of that subscriber"))] += 1;
            }
            _ => {}
        });
        assert!(fits(&rows, &of_rows) && fits(&access, &of_access), "{rows:?} {access:?}");
        let mut skewed = of_rows;
        skewed.iter_mut().step_by(3).for_each(|share| *share *= 1.2);
        assert!(!fits(&rows, &skewed), "{rows:?}");
    }

    #[test]
    fn the_hash_spreads_call_forwarding_evenly_and_keeps_a_subscribers_rows_apart() {
        let tatp = Tatp::new(SUBSCRIBERS);
        let (first, count) = tatp.forwarding;
        let mut counts = [0; 800];
        for subscriber in 0..SUBSCRIBERS {
            let mut locks: Vec<u64> = (0..12).map(|row| tatp.forwarding(subscriber, row / 3, row % 3)).collect();
            locks.iter().for_each(|lock| counts[((lock - first) * 800 / count) as usize] += 1);
            locks.sort_unstable();
            locks.dedup();
            assert_eq!(locks.len(), 12, "subscriber {subscriber}");
        }
        // 1.2 million rows: 1,500 each.
        assert!(counts.iter().all(|rows| (1_450..=1_550).contains(rows)), "{counts:?}");
    }

    #[test]
    fn transactions_take_the_locks_of_their_tables() {
        let tatp = Tatp::new(SUBSCRIBERS);
        let first_facility = tatp.rows[0].first_facility;
        each(100_000, |transaction| {
            let tables: Vec<u8> = transaction
                .requests
                .iter()
                .map(|request| match request.lock {
                    lock if lock < SUBSCRIBERS => 0,
                    lock if lock < first_facility => 1,
                    lock if lock < tatp.forwarding.0 => 2,
                    _ => 3,
                })
                .collect();
            let right = match transaction.kind {
                "get subscriber data" | "update location" => tables == [0],
                "get access data" => tables == [1],
                "get new destination" => tables[0] == 2 && tables[1..].iter().all(|table| *table == 3),
                "update subscriber data" => tables == [0] || tables == [0, 2],
                "insert call forwarding" => tables[0] == 0 && tables[1] == 2,
                _ => tables == [0] || tables == [0, 3],
            };
            assert!(right, "{transaction:?} {tables:?}");
        });
    }
}
