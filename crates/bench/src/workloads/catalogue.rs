//! The workloads by their names.

use super::Workload;
use super::banking::Banking;
use super::hot_spot::HotSpot;
use super::micro::{Micro, Popularity};
use super::smallbank::SmallBank;
use super::tatp::Tatp;
use super::tpcc::{Grain, Programs, Tpcc};
use super::ycsb::YcsbT;
use std::time::Duration;

const MILLION: u64 = 1_000_000;
/// FissLock's and NetLock's clients abort what takes longer.
const ABORT: Duration = Duration::from_millis(10);
const STANDARD: [u32; 5] = [45, 43, 4, 4, 4];
/// New orders and payments alone, in their proportion.
const LOCAL_WRITES: [u32; 5] = [51, 49, 0, 0, 0];

/// A workload as a paper runs it.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// What to call it on the command line.
    pub name: &'static str,
    /// What it is, and where it is from.
    pub about: &'static str,
    /// Clients in the paper.
    pub clients: usize,
    /// How long all locks are held: the transaction's own work.
    pub execution: Duration,
    /// After how long the paper's clients abort.
    pub abort: Option<Duration>,
    /// Whether its locks guard accounts in a Redis, one each.
    pub has_accounts: bool,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Micro(Micro),
    HotSpot(HotSpot),
    Tatp(u64),
    Tpcc(Tpcc),
    SmallBank(SmallBank),
    YcsbT(YcsbT),
    Banking(Banking),
}

impl Named {
    /// That a Redis has for it.
    #[must_use]
    pub fn accounts(&self) -> u64 {
        match self.kind {
            Kind::Banking(banking) if self.has_accounts => banking.accounts,
            _ => 0,
        }
    }

    /// Fills its tables, if it has any.
    #[must_use]
    pub fn build(&self) -> Box<dyn Workload> {
        match self.kind {
            Kind::Micro(micro) => Box::new(micro),
            Kind::HotSpot(spot) => Box::new(spot),
            Kind::Tatp(subscribers) => Box::new(Tatp::new(subscribers)),
            Kind::Tpcc(tpcc) => Box::new(tpcc),
            Kind::SmallBank(bank) => Box::new(bank),
            Kind::YcsbT(ycsb) => Box::new(ycsb),
            Kind::Banking(banking) => Box::new(banking),
        }
    }
}

/// The workload of this name.
#[must_use]
pub fn named(name: &str) -> Option<Named> {
    all().into_iter().chain(rivalries()).find(|one| one.name == name)
}

/// Locks of those workloads that everybody wants.
pub const HOT: u64 = 16;

/// So few locks that everybody waits for everybody, or a few that everybody wants among many: of no paper, and left out
/// where all workloads are run. Their names have the locks last.
#[must_use]
pub fn rivalries() -> Vec<Named> {
    let (uniform, hot) = (Popularity::Uniform, Popularity::Hot(HOT));
    vec![
        micro("rivals-1", "one exclusive lock", 1, uniform, 100),
        micro("rivals-4", "4 exclusive locks", 4, uniform, 100),
        micro("rivals-16", "16 exclusive locks", 16, uniform, 100),
        micro("rivals-64", "64 exclusive locks", 64, uniform, 100),
        micro("rivals-256", "256 exclusive locks", 256, uniform, 100),
        micro("readers-1", "one lock, a tenth writes", 1, uniform, 10),
        micro("readers-4", "4 locks, a tenth writes", 4, uniform, 10),
        micro("readers-16", "16 locks, a tenth writes", 16, uniform, 10),
        micro("readers-64", "64 locks, a tenth writes", 64, uniform, 10),
        micro("readers-256", "256 locks, a tenth writes", 256, uniform, 10),
        micro("hot-writers-10016", "half of the requests for 16 of 10,016 exclusive locks", 10_016, hot, 100),
        micro("hot-readers-10016", "half of the requests for 16 of 10,016 locks, a tenth writes", 10_016, hot, 10),
    ]
}

/// Every workload.
#[must_use]
pub fn all() -> Vec<Named> {
    let zipf = Popularity::Zipf(0.90);
    let uniform = Popularity::Uniform;
    vec![
        micro("update-heavy-uniform", "half writes of 1 M locks, uniform; FissLock 7.3", MILLION, uniform, 50),
        micro("update-heavy-zipf", "half writes of 1 M locks, Zipf 0.90; FissLock 7.3", MILLION, zipf, 50),
        micro("read-mostly-uniform", "a tenth writes of 1 M locks, uniform; FissLock 7.3", MILLION, uniform, 10),
        micro("read-mostly-zipf", "a tenth writes of 1 M locks, Zipf 0.90; FissLock 7.3", MILLION, zipf, 10),
        micro("read-only-uniform", "reads of 1 M locks, uniform; FissLock 7.3", MILLION, uniform, 0),
        micro("read-only-zipf", "reads of 1 M locks, Zipf 0.90; FissLock 7.3", MILLION, zipf, 0),
        micro("shared", "shared locks alone: 55,000; NetLock 6.2", 55_000, uniform, 0),
        micro("exclusive-55k", "exclusive locks without contention: 55,000; NetLock 6.2", 55_000, uniform, 100),
        micro("exclusive-10k", "exclusive locks, 10,000; NetLock 6.2", 10_000, uniform, 100),
        micro("exclusive-8k", "exclusive locks under some contention: 8,000; NetLock 6.2", 8_000, uniform, 100),
        micro("exclusive-6k", "exclusive locks under some contention: 6,000; NetLock 6.2", 6_000, uniform, 100),
        micro("exclusive-4k", "exclusive locks under contention: 4,000; NetLock 6.2", 4_000, uniform, 100),
        micro("exclusive-2k", "exclusive locks under contention: 2,000; NetLock 6.2", 2_000, uniform, 100),
        micro("exclusive-500", "exclusive locks under contention: 500; NetLock 6.2", 500, uniform, 100),
        micro("exclusive-4", "exclusive locks, 4: everybody waits for everybody", 4, uniform, 100),
        micro("scale-2m", "read-mostly, uniform, 2 M locks; FissLock 7.6", 2 * MILLION, uniform, 10),
        micro("scale-5m", "read-mostly, uniform, 5 M locks; FissLock 7.6", 5 * MILLION, uniform, 10),
        micro("scale-10m", "read-mostly, uniform, 10 M locks; FissLock 7.6", 10 * MILLION, uniform, 10),
        micro("scale-100m", "read-mostly, uniform, 100 M locks", 100 * MILLION, uniform, 10),
        granularity("granularity-1k", "10 M objects over 1,000 locks, uniform; FissLock 7.7", 1_000, uniform),
        granularity("granularity-10k", "10 M objects over 10,000 locks, uniform; FissLock 7.7", 10_000, uniform),
        granularity("granularity-100k", "10 M objects over 100,000 locks, uniform; FissLock 7.7", 100_000, uniform),
        granularity("granularity-1m", "10 M objects over 1 M locks, uniform; FissLock 7.7", MILLION, uniform),
        granularity("granularity-1k-zipf", "10 M objects over 1,000 locks, Zipf 0.90; FissLock 7.7", 1_000, zipf),
        granularity("granularity-1m-zipf", "10 M objects over 1 M locks, Zipf 0.90; FissLock 7.7", MILLION, zipf),
        single(
            "hot-spot",
            "half of the reads of 1 M locks go to 2,500, which move every 300 ms; FissLock 7.5",
            Kind::HotSpot(HotSpot { locks: MILLION, hot: 2_500, moves: Duration::from_millis(300) }),
        ),
        Named {
            execution: Duration::from_micros(2),
            abort: Some(ABORT),
            ..single("tatp", "TATP's seven transactions, 100,000 subscribers; FissLock 7.4", Kind::Tatp(100_000))
        },
        tpcc("tpcc", "TPC-C's five transactions, 8 nodes of 1,200 warehouses; FissLock 7.4", 1_200, 1_200, STANDARD, 1),
        // Of no paper: FissLock's nodes, locks, work and clients, with NetLock's warehouses, which FissLock has not.
        tpcc(
            "tpcc-low",
            "a mix: FissLock's TPC-C with NetLock's 10 warehouses a node; no paper's",
            1_200,
            10,
            STANDARD,
            1,
        ),
        tpcc(
            "tpcc-high",
            "a mix: FissLock's TPC-C with NetLock's 1 warehouse a node; no paper's",
            1_200,
            1,
            STANDARD,
            1,
        ),
        rows("tpcc-rows-low", "TPC-C with a lock for each row, 10 nodes of 10 warehouses; NetLock 6.3", 10, 10),
        rows("tpcc-rows-high", "TPC-C with a lock for each row, 10 nodes of 1 warehouse; NetLock 6.3", 10, 1),
        rows("tpcc-rows-low-6", "TPC-C with a lock for each row, 6 nodes of 10 warehouses; NetLock 6.3", 6, 10),
        rows("tpcc-rows-high-6", "TPC-C with a lock for each row, 6 nodes of 1 warehouse; NetLock 6.3", 6, 1),
        standard(
            "tpcc-standard-low",
            "TPC-C with its own programs, a lock for each row, 10 nodes of 10 warehouses; no paper's",
            10,
        ),
        standard(
            "tpcc-standard-high",
            "TPC-C with its own programs, a lock for each row, 10 nodes of 1 warehouse; no paper's",
            1,
        ),
        tpcc(
            "tpcc-remote-24",
            "new orders with remote items, 8 x 24 warehouses; SwitchTx 5.1",
            192,
            24,
            LOCAL_WRITES,
            100,
        ),
        tpcc(
            "tpcc-remote-4",
            "new orders with remote items, 8 x 4 warehouses; SwitchTx 5.1",
            192,
            4,
            LOCAL_WRITES,
            100,
        ),
        smallbank("smallbank", "SmallBank, 24 M accounts, 4 % hot; DINT", 24 * MILLION),
        smallbank("smallbank-1m", "SmallBank, 1 M accounts, 4 % hot", MILLION),
        banking(
            "banking",
            "mobile banking, 1 M accounts, a tenth transfers, locks alone; FissLock 7.9",
            MILLION,
            false,
        ),
        banking("banking-redis", "mobile banking on a real Redis, 1 M accounts; FissLock 7.9", MILLION, true),
        banking("banking-redis-1k", "mobile banking on a real Redis, 1,000 accounts: contention", 1_000, true),
        ycsb("ycsb-t-0.80", "8 columns of 24 on 8 servers, Zipf 0.80; SwitchTx 5.1", 0.80),
        ycsb("ycsb-t-0.99", "8 columns of 24 on 8 servers, Zipf 0.99; SwitchTx 5.1", 0.99),
    ]
}

fn micro(name: &'static str, about: &'static str, locks: u64, popularity: Popularity, writes: u32) -> Named {
    let kind = Kind::Micro(Micro { objects: locks, locks, popularity, writes });
    single(name, about, kind)
}

/// FissLock's clients, who do nothing but ask.
fn single(name: &'static str, about: &'static str, kind: Kind) -> Named {
    Named { name, about, clients: 160, execution: Duration::ZERO, abort: None, has_accounts: false, kind }
}

fn granularity(name: &'static str, about: &'static str, locks: u64, popularity: Popularity) -> Named {
    let kind = Kind::Micro(Micro { objects: 10 * MILLION, locks, popularity, writes: 10 });
    single(name, about, kind)
}

fn tpcc(
    name: &'static str,
    about: &'static str,
    clients: usize,
    warehouses_of_node: u64,
    mix: [u32; 5],
    remote_lines: u32,
) -> Named {
    let (grain, programs) = (Grain::RANGES, Programs::Short);
    let kind = Kind::Tpcc(Tpcc { nodes: 8, warehouses_of_node, mix, remote_lines, grain, programs });
    Named { clients, execution: Duration::from_micros(10), abort: Some(ABORT), ..single(name, about, kind) }
}

/// NetLock's: transactions have no work of their own, and what takes longer than 2 ms is aborted by its artifact.
fn rows(name: &'static str, about: &'static str, nodes: u64, warehouses_of_node: u64) -> Named {
    let (grain, programs) = (Grain::ROWS, Programs::Short);
    let tpcc = Tpcc { nodes, warehouses_of_node, mix: STANDARD, remote_lines: 1, grain, programs };
    let abort = Some(Duration::from_millis(2));
    Named { clients: 16 * nodes as usize, abort, ..single(name, about, Kind::Tpcc(tpcc)) }
}

/// NetLock's warehouses with the standard's own programs, some of which take hundreds of locks: aborted by no time-out.
fn standard(name: &'static str, about: &'static str, warehouses_of_node: u64) -> Named {
    let (grain, programs) = (Grain::ROWS, Programs::Standard);
    let tpcc = Tpcc { nodes: 10, warehouses_of_node, mix: STANDARD, remote_lines: 1, grain, programs };
    Named { clients: 160, ..single(name, about, Kind::Tpcc(tpcc)) }
}

fn smallbank(name: &'static str, about: &'static str, accounts: u64) -> Named {
    single(name, about, Kind::SmallBank(SmallBank { accounts }))
}

fn banking(name: &'static str, about: &'static str, accounts: u64, has_accounts: bool) -> Named {
    Named { has_accounts, ..single(name, about, Kind::Banking(Banking { accounts })) }
}

fn ycsb(name: &'static str, about: &'static str, exponent: f64) -> Named {
    Named { clients: 384, ..single(name, about, Kind::YcsbT(YcsbT { records: MILLION, exponent })) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::Transaction;
    use wayside_client::Mode;

    #[test]
    fn netlocks_micro_benchmark_has_shared_locks_as_many_as_exclusive_ones() {
        let [shared, exclusive] = ["shared", "exclusive-55k"].map(|name| named(name).unwrap().build());
        assert_eq!(shared.locks(), exclusive.locks());
        for (workload, mode) in [(shared, Mode::Shared), (exclusive, Mode::Exclusive)] {
            let mut generator = workload.generator(1, 0);
            let mut transaction = Transaction::empty();
            for _ in 0..1_000 {
                generator.next(Duration::ZERO, &mut transaction);
                assert!(transaction.requests.iter().all(|request| request.mode == mode), "{transaction:?}");
            }
        }
    }

    /// A name says a paper's section only if it is that paper's.
    #[test]
    fn what_is_of_no_paper_says_so_and_what_is_of_one_is_as_it_has_it() {
        for name in ["tpcc-low", "tpcc-high"] {
            let about = named(name).unwrap().about;
            assert!(about.contains("no paper's") && !about.contains("6.3"), "{about}");
        }
        let locks = |name: &str| named(name).unwrap().build().locks();
        assert_eq!(locks("tpcc"), 8 * 1_200 * 121, "FissLock 7.4");
        assert_eq!((locks("tpcc-low"), locks("tpcc-high")), (8 * 10 * 121, 8 * 121));
        assert_eq!((locks("tpcc-rows-low"), locks("tpcc-rows-high")), (100 * 250_011, 10 * 250_011), "NetLock 6.3");
    }
}
