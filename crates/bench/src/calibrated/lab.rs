//! One run of the model: which testbed, which lock service, which workload; and the runs that were made already.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use wayside_switch::Budget;
use wayside_wire::Policy;

use super::costs::{Cost, Costs};
use super::engines::{Bed, Drtm, Dslr, Engine, Kind, Managers, Outage, Redlock, TestAndSet, Wayside};
use super::fabric::Fabric;
use super::world::{Outcome, Plan, run};
use crate::Error;
use crate::workloads::{Generator, HOT, Transaction, Workload};

/// Hosts as a paper has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Testbed {
    /// FissLock 7.1 and its artifact: 8 nodes with 10 cores of clients, of which 5 send and 5 receive, and one of a
    /// manager each; or as many of clients on 7 of them, and 8 of a lock server on the eighth.
    FissLock,
    /// NetLock 6.3: so many machines with clients, and so many with lock servers or memory. 8 cores each, of which a
    /// client's 4 send and 4 receive.
    NetLock(usize, usize),
    /// NetLock 6.3, isolation: ten machines with clients, of which one tenant has seven; the lock servers of both share
    /// two more. A quarter of their cores, since such a run has to be long.
    Tenants,
    /// FissLock 7.9: as above, besides a core of a Redis with the accounts, and where Redis has the locks, another one.
    Banking,
}

/// Of [`Testbed::Tenants`].
pub const MACHINES: usize = 10;
/// Those of the first tenant.
pub const FIRST_TENANT: usize = 7;

/// Lock services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// Ours: fission, readers first, as FissLock.
    Fission,
    /// Ours: fission, first come, first served, as is our default.
    FairFission,
    /// Ours: fission, where nodes keep the locks that they use: FissLock-Local.
    LocalFission,
    /// Ours: queues in the switch for the locks that a knapsack picks, and a lock server: NetLock.
    NetLock {
        /// Cells of all queues together, and queues at most.
        cells: u32,
        queues: usize,
        random: bool,
    },
    /// Ours: a queue in the switch for each lock, of as many cells as the plan gives, and a lock server.
    Queues,
    /// Ours: the same for the hottest locks alone; all others are the lock server's.
    HotQueues,
    /// Ours: queues in the switch for the hottest locks, without a lock server, and fission for all others.
    Hybrid,
    /// Ours: the lock server alone.
    Server,
    /// Ours: two tenants, each with a lock server alone, and each with so many requests a second at most.
    Tenants(Option<u32>),
    SrvLock,
    ParLock,
    Dslr,
    Drtm,
    NetChain,
    RedLock,
}

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    pub testbed: Testbed,
    pub peer: Peer,
    pub workload: &'static str,
    pub clients: usize,
    /// Nanoseconds that a transaction holds all its locks.
    pub execution: u64,
    /// Transactions take their locks in the order of their numbers, so that none waits in a circle.
    pub sorted: bool,
    /// Transactions ask for all their locks at once, as NetLock's clients do by its artifact. Two whose packets arrive
    /// between each other's may wait in a circle.
    pub at_once: bool,
    /// How much later than it is the workload takes it to be, in nanoseconds; NetLock knows of the time before.
    pub later: u64,
    /// The trace before it, with requests of another seed: locks' popularity is known then, not the requests to come.
    pub traced: bool,
    /// The switch fails.
    pub outage: Option<Outage>,
    /// Virtual nanoseconds that are measured, after a quarter as many; 0: as many as the lab's requests take.
    pub lasts: u64,
    /// Requests that are measured at least, however few the lab's runs have: what takes long to come to rest.
    pub least: u64,
}

impl Run {
    /// Without execution time, and with nothing particular.
    pub fn of(testbed: Testbed, peer: Peer, workload: &'static str, clients: usize) -> Run {
        Run {
            testbed,
            peer,
            workload,
            clients,
            execution: 0,
            sorted: false,
            at_once: false,
            later: 0,
            traced: false,
            outage: None,
            lasts: 0,
            least: 0,
        }
    }
}

/// Locks of clients of the second tenant are others.
pub(crate) struct Apart<'w>(pub(crate) &'w dyn Workload);

struct Moved<'w> {
    generator: Box<dyn Generator + 'w>,
    by: u64,
}

impl Workload for Apart<'_> {
    fn locks(&self) -> u64 {
        2 * self.0.locks()
    }

    fn generator(&self, seed: u64, client: u64) -> Box<dyn Generator + '_> {
        let is_first = client as usize % MACHINES < FIRST_TENANT;
        let by = if is_first { 0 } else { self.0.locks() };
        Box::new(Moved { generator: self.0.generator(seed, client), by })
    }
}

impl Generator for Moved<'_> {
    fn next(&mut self, at: Duration, into: &mut Transaction) {
        self.generator.next(at, into);
        into.requests.iter_mut().for_each(|request| request.lock += self.by);
    }
}

/// Whoever measures: the costs, how long, and what is known already.
pub struct Lab {
    pub costs: Costs,
    /// Requests for locks that a run measures, about.
    pub requests: u64,
    /// Of workloads and of pauses: a number from 1.
    pub seed: u64,
    workloads: HashMap<&'static str, Rc<Box<dyn Workload>>>,
    known: HashMap<Run, Rc<Outcome>>,
}

/// Cells of NetLock's switch: its artifact's.
pub const CELLS: u32 = 130_000;
/// FissLock 1 and 7.3: "less than 10,000" locks, about 1 % of a million.
pub const QUEUES: usize = 10_000;
/// FissLock's clients abort what takes longer than 10 ms.
const ABORT: u64 = 10_000_000;
/// NetLock's, by its artifact, what takes longer than 2 ms.
const ABORT_AT_ONCE: u64 = 2_000_000;
/// Locks of a transaction at most, where it asks for all at once: TPC-C's new orders have so many.
const MOST_LOCKS: usize = 16;
/// Slots of FissLock's switch, 7.2.
pub const SLOTS: u32 = 1_680_000;
/// A trace has so many times the requests of a run.
const TRACE: u64 = 4;
/// Virtual time of a run at most: slow peers do less in it.
const MOST: u64 = 400_000_000;

impl Lab {
    pub fn new(costs: Costs, requests: u64, seed: u64) -> Lab {
        Lab { costs, requests, seed, workloads: HashMap::new(), known: HashMap::new() }
    }

    fn workload(&mut self, name: &'static str) -> Result<Rc<Box<dyn Workload>>, Error> {
        if let Some(known) = self.workloads.get(name) {
            return Ok(known.clone());
        }
        let named = crate::workloads::named(name).ok_or_else(|| format!("there is no workload {name}"))?;
        let built = Rc::new(named.build());
        self.workloads.insert(name, built.clone());
        Ok(built)
    }

    /// Locks that a workload has.
    pub fn locks(&mut self, workload: &'static str) -> Result<u64, Error> {
        Ok(self.workload(workload)?.locks())
    }

    /// What a run measures, about.
    fn requests_of(&self, what: Run) -> u64 {
        (self.requests * if what.traced { TRACE } else { 1 }).max(what.least)
    }

    /// What comes of it, once.
    pub fn run(&mut self, what: Run) -> Result<Rc<Outcome>, Error> {
        if let Some(known) = self.known.get(&what) {
            return Ok(known.clone());
        }
        let workload = self.workload(what.workload)?;
        let outcome = self.play(what, &**workload).map_err(|error| format!("{what:?}: {error}"))?;
        let outcome = Rc::new(outcome);
        self.known.insert(what, outcome.clone());
        Ok(outcome)
    }

    /// What a run by a lock server alone shows of each lock: NetLock traces its workload before.
    fn demand(&mut self, what: Run) -> Result<Rc<Outcome>, Error> {
        self.run(Run { peer: Peer::SrvLock, later: 0, traced: true, outage: None, lasts: 0, ..what })
    }

    fn play(&mut self, what: Run, workload: &dyn Workload) -> Result<Outcome, Error> {
        let Run { testbed, peer, clients, execution, .. } = what;
        let bed = bed(testbed, peer, clients);
        let bed = if what.outage.is_some() { bed.with_office() } else { bed };
        let lanes = if what.at_once { MOST_LOCKS } else { 1 };
        let bed = bed.with_lanes(lanes);
        let locks_of_one = locks_of_one(workload);
        let plan = Plan {
            // A trace is of other requests than any run.
            seed: 2 * self.seed - u64::from(!what.traced),
            execution,
            store: (testbed == Testbed::Banking).then(|| bed.hosts.iter().sum::<usize>() - 1),
            // Who waits for RedLock has pauses of its own, longer than this.
            abort: (locks_of_one > 1.0 && testbed != Testbed::Banking).then_some(if what.at_once {
                ABORT_AT_ONCE
            } else {
                ABORT
            }),
            later: what.later,
            sorted: what.sorted,
            lanes,
            client: match testbed {
                Testbed::FissLock | Testbed::Banking => Cost::FissLockClient,
                Testbed::NetLock(..) | Testbed::Tenants => Cost::NetLockClient,
            },
            transactions: match what.lasts {
                0 => (self.requests_of(what) as f64 / locks_of_one) as u64,
                _ => u64::MAX,
            },
            most: if what.lasts == 0 { MOST } else { what.lasts },
        };
        let locks = workload.locks();
        let slots = locks.min(SLOTS.into()) as u32;
        let ours = |kind: &Kind| Wayside::new(&bed, kind, what.outage);
        match peer {
            Peer::Fission => self.over(&bed, ours(&Kind::Fission(Policy::ReadPreferring, slots))?, workload, plan),
            Peer::LocalFission => {
                self.over(&bed, ours(&Kind::Local(Policy::ReadPreferring, slots, locks))?, workload, plan)
            }
            Peer::FairFission => self.over(&bed, ours(&Kind::Fission(Policy::Fair, slots))?, workload, plan),
            Peer::NetLock { cells, queues, random } => {
                let demand = self.demand(what)?;
                let chosen = choose(&demand.demand, cells, queues, random.then_some(locks));
                self.over(&bed, ours(&Kind::Queue(chosen))?, workload, plan)
            }
            Peer::Queues => {
                let demand = self.demand(what)?;
                let cells_for =
                    |(&lock, &(_, most)): (&u64, &(u32, u32))| (lock, (most + 1).next_power_of_two().min(1_024));
                let mut all: Vec<(u64, u32)> = demand.demand.iter().map(cells_for).collect();
                all.sort_unstable();
                self.over(&bed, ours(&Kind::Queue(all))?, workload, plan)
            }
            Peer::HotQueues => self.over(&bed, ours(&Kind::Queue(hottest()))?, workload, plan),
            Peer::Hybrid => self.over(&bed, ours(&Kind::Hybrid(Policy::Fair, slots, hottest()))?, workload, plan),
            Peer::Server => self.over(&bed, ours(&Kind::Queue(Vec::new()))?, workload, plan),
            Peer::Tenants(rate) => {
                let budget = rate.map(|rate| Budget { rate, burst: rate / 100 });
                self.over(&bed, ours(&Kind::Tenants(FIRST_TENANT, budget))?, &Apart(workload), plan)
            }
            Peer::SrvLock | Peer::ParLock => self.over(&bed, Managers::new(&bed, locks), workload, plan),
            Peer::Dslr => self.over(&bed, Dslr::new(&bed), workload, plan),
            Peer::Drtm => self.over(&bed, Drtm::new(&bed, plan.seed), workload, plan),
            Peer::RedLock => self.over(&bed, Redlock::new(&bed, plan.seed), workload, plan),
            Peer::NetChain => self.over(&bed, TestAndSet::new(&bed, plan.seed), workload, plan),
        }
    }

    fn over<E: Engine>(&self, bed: &Bed, engine: E, workload: &dyn Workload, plan: Plan) -> Result<Outcome, Error> {
        let cores: Vec<usize> = bed.clients.iter().copied().step_by(plan.lanes).collect();
        run(Fabric::new(self.costs, &bed.hosts), engine, workload, &cores, plan)
    }
}

/// The first locks, of a workload in which everybody wants these, with cells for all clients and for readers who have
/// left before another one.
fn hottest() -> Vec<(u64, u32)> {
    (0..HOT).map(|lock| (lock, 1_024)).collect()
}

fn bed(testbed: Testbed, peer: Peer, clients: usize) -> Bed {
    let has_server =
        matches!(peer, Peer::NetLock { .. } | Peer::Queues | Peer::HotQueues | Peer::Server | Peer::SrvLock);
    match testbed {
        Testbed::FissLock if has_server => Bed::new(&[6, 6, 6, 6, 6, 6, 4], clients, 0, &[8]),
        Testbed::FissLock => Bed::new(&[5; 8], clients, 1, &[]),
        // Our lock server is one node: it has the cores of all of them.
        Testbed::NetLock(hosts, servers) if has_server => Bed::new(&vec![4; hosts], clients, 0, &[8 * servers]),
        Testbed::NetLock(hosts, servers) => Bed::new(&vec![4; hosts], clients, 0, &vec![8; servers]),
        // The last core is the store's.
        Testbed::Banking if peer == Peer::RedLock => Bed::new(&[5; 8], clients, 0, &[1, 1]),
        Testbed::Banking => Bed::new(&[5; 8], clients, 1, &[1]),
        Testbed::Tenants => Bed::new(&[1; MACHINES], clients, 0, &[4]).with_second_manager(),
    }
}

/// Locks of a transaction, on average.
fn locks_of_one(workload: &dyn Workload) -> f64 {
    const SAMPLES: usize = 1_000;
    let mut generator = workload.generator(0, 0);
    let mut one = Transaction::empty();
    let mut locks = 0;
    for _ in 0..SAMPLES {
        generator.next(Duration::ZERO, &mut one);
        locks += one.requests.len();
    }
    locks as f64 / SAMPLES as f64
}

/// Locks whose queues are in the switch, with their cells: NetLock's fractional knapsack by requests for each cell; or
/// any of so many locks (`among`), drawn by a seed, as the strawman does. `demand`: of each lock, requests and clients
/// at a time.
fn choose(demand: &HashMap<u64, (u32, u32)>, mut cells: u32, queues: usize, among: Option<u64>) -> Vec<(u64, u32)> {
    let order: Box<dyn Iterator<Item = (u64, u32)>> = match among {
        None => {
            let mut order: Vec<(u64, (u32, u32))> = demand.iter().map(|(&lock, &known)| (lock, known)).collect();
            order.sort_by(|(one, of_one), (other, of_other)| {
                let worth = |of: &(u32, u32)| f64::from(of.0) / f64::from(of.1);
                worth(of_other).total_cmp(&worth(of_one)).then(one.cmp(other))
            });
            Box::new(order.into_iter().map(|(lock, known)| (lock, known.1)))
        }
        Some(all) => {
            let mut random = ChaCha8Rng::seed_from_u64(all);
            let mut drawn = HashSet::new();
            let lock = (0..all).map(move |_| random.random_range(0..all)).filter(move |lock| drawn.insert(*lock));
            Box::new(lock.map(|lock| (lock, demand.get(&lock).map_or(1, |known| known.1))))
        }
    };
    let mut chosen = Vec::new();
    for (lock, most) in order.take(queues) {
        let given = most.min(cells).min(1_024);
        if given == 0 {
            break;
        }
        cells -= given;
        chosen.push((lock, given));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that takes long to come to rest is as long in the sensitivity as it is in the table.
    #[test]
    fn a_run_is_as_long_as_it_has_to_be_and_a_trace_longer_than_most() {
        let run = Run::of(Testbed::FissLock, Peer::SrvLock, "read-mostly-uniform", 16);
        for (requests, least, traced, expected) in
            [(8, 0, false, 8), (8, 20, false, 20), (30, 20, false, 30), (8, 0, true, 8 * TRACE), (8, 90, true, 90)]
        {
            let lab = Lab::new(Costs::of_sources(), requests, 1);
            assert_eq!(lab.requests_of(Run { least, traced, ..run }), expected);
        }
        let mut lab = Lab::new(Costs::of_sources(), 200, 1);
        let few = lab.run(run).unwrap();
        let many = lab.run(Run { least: 4_000, ..run }).unwrap();
        assert!(many.transactions >= 4_000 && few.transactions < 400, "{} and {}", few.transactions, many.transactions);
    }

    #[test]
    fn what_transactions_take_is_told_of_each_kind() {
        let mut lab = Lab::new(Costs::of_sources(), 6_000, 1);
        let outcome = lab.run(Run::of(Testbed::FissLock, Peer::SrvLock, "tpcc", 16)).unwrap();
        let all: u64 = outcome.of_kinds.values().map(|took| took.len()).sum();
        assert!(all == outcome.latencies.len() && all > 100, "{all}");
        // Fifteen locks and more, four and three: one after the other.
        let median = |kind| outcome.of_kinds[kind].value_at_quantile(0.5);
        assert!(median("new order") > 2 * median("payment") && median("payment") > median("order status"));
    }
}
