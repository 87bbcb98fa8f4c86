//! Clients that run a workload's transactions against an engine, in virtual time.
//!
//! ```text
//!   Asking(i) ──core──► Waiting ──grant──► Asking(i + 1) … Executing ──► Releasing … ──► next, or paused
//!                         └── too long: cancelled ──► Releasing what is held ──► paused, then again
//! ```
//!
//! Or a client asks for all locks of a transaction at once, and waits until it has the last of them. An engine's client
//! has one lock at a time: so each of the world's is as many of the engine's, its *lanes*, as a transaction has locks.
//!
//! Invariants, looked at in every run; one that fails is the run's error, and no figure comes of it.
//! * A grant is of what its client waits for at that moment.
//! * Of a lock there is one exclusive holder, or any number of shared ones, by what clients were told.
//! * In the end every client has what it asked for, or has given it up: nobody waits for ever.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use hdrhistogram::Histogram;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use wayside_client::Mode;

use super::costs::Cost;
use super::engines::Engine;
use super::fabric::{Event, Fabric, Job, Place};
use crate::Error;
use crate::workloads::{Generator, Request, Transaction, Workload};

/// How a workload is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Of the workload and of pauses.
    pub seed: u64,
    /// How long all locks of a transaction are held. Nanoseconds.
    pub execution: u64,
    /// Or as long as it takes this core to read what is locked, and to write what is locked exclusively.
    pub store: Option<usize>,
    /// What takes longer is given up and tried again. Nanoseconds.
    pub abort: Option<u64>,
    /// How much later than it is the workload takes it to be. Nanoseconds.
    pub later: u64,
    /// Locks are asked for in the order of their numbers.
    pub sorted: bool,
    /// Clients of the engine for each one of the world's. More than one: it asks for so many locks at once, at most.
    pub lanes: usize,
    /// A client's own core time for each lock.
    pub client: Cost,
    /// Transactions that are measured, after a quarter as many that are not.
    pub transactions: u64,
    /// Virtual nanoseconds at most: less is measured where so many transactions take longer.
    pub most: u64,
}

/// What came of a run. Times are virtual, in nanoseconds.
pub struct Outcome {
    pub lasted: u64,
    pub transactions: u64,
    pub requests: u64,
    pub aborts: u64,
    /// From asking for a lock to holding it.
    pub grants: Histogram<u64>,
    /// From a transaction's first request to its last lock given back, tries that were given up included.
    pub latencies: Histogram<u64>,
    /// The same of each kind of transaction.
    pub of_kinds: HashMap<&'static str, Histogram<u64>>,
    /// What the engine has counted: shares.
    pub notes: Vec<(&'static str, f64)>,
    /// Most of what any core has worked, of all the time.
    pub busiest: f64,
    /// Of each lock: requests, and most clients that held it or waited for it at a time. From the very beginning.
    pub demand: HashMap<u64, (u32, u32)>,
    /// Requests of each client.
    pub of_clients: Vec<u64>,
    /// Grants in each millisecond. From the very beginning.
    pub timeline: Vec<u32>,
}

impl Outcome {
    /// Requests a second, in millions.
    pub fn requests_m(&self) -> f64 {
        self.requests as f64 * 1e3 / self.lasted as f64
    }

    /// Transactions a second, in millions.
    pub fn transactions_m(&self) -> f64 {
        self.transactions as f64 * 1e3 / self.lasted as f64
    }

    pub fn note(&self, name: &str) -> f64 {
        self.notes.iter().find(|(known, _)| *known == name).map_or(0.0, |(_, value)| *value)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// This request is next, or this and all after it.
    Asking(usize),
    Waiting,
    Executing,
    Releasing,
    Paused,
    Ended,
}

/// How far a transaction is with one of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Open,
    /// Since then.
    Asked(u64),
    Held,
    Over,
}

struct Client<'w> {
    core: usize,
    generator: Box<dyn Generator + 'w>,
    transaction: Transaction,
    state: State,
    /// Of each of the transaction's requests.
    progress: Vec<Progress>,
    /// Of the transaction's first try.
    begun: u64,
    /// Tries so far: an alarm of an earlier one means nothing.
    tries: u64,
    overdue: bool,
    aborting: bool,
    /// Locks whose leases ended before the transaction did: it cannot commit.
    lost: Vec<u64>,
}

#[derive(Default)]
struct Holders {
    shared: u32,
    exclusive: bool,
}

/// What an alarm is for: the low bits of its number.
const EXECUTED: u64 = 0;
const OVERDUE: u64 = 1;
const AGAIN: u64 = 2;
/// The first client asks so late.
const HEAD_START: u64 = 100_000;
/// Whoever has not ended so long after the rest waits for ever.
const PATIENCE: u64 = 2_000_000_000;

struct World<'w, E: Engine> {
    fabric: Fabric<E::Message>,
    engine: E,
    plan: Plan,
    clients: Vec<Client<'w>>,
    /// Of each lane, requests so far: a grant of an earlier one means nothing.
    asks: Vec<u64>,
    holders: HashMap<u64, Holders>,
    /// Clients that hold or wait for each lock.
    present: HashMap<u64, u32>,
    random: ChaCha8Rng,
    measuring: bool,
    ending: bool,
    ended: usize,
    outcome: Outcome,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("bounds and digits are fixed")
}

/// Runs a workload: clients on these cores, over that engine.
pub fn run<E: Engine>(
    fabric: Fabric<E::Message>,
    engine: E,
    workload: &dyn Workload,
    cores: &[usize],
    plan: Plan,
) -> Result<Outcome, Error> {
    let client = |(number, &core): (usize, &usize)| Client {
        core,
        generator: workload.generator(plan.seed, number as u64),
        transaction: Transaction::empty(),
        state: State::Paused,
        progress: Vec::new(),
        begun: 0,
        tries: 0,
        overdue: false,
        aborting: false,
        lost: Vec::new(),
    };
    let outcome = Outcome {
        lasted: 0,
        transactions: 0,
        requests: 0,
        aborts: 0,
        grants: histogram(),
        latencies: histogram(),
        of_kinds: HashMap::new(),
        notes: Vec::new(),
        busiest: 0.0,
        demand: HashMap::new(),
        of_clients: vec![0; cores.len()],
        timeline: Vec::new(),
    };
    let mut world = World {
        fabric,
        engine,
        plan,
        clients: cores.iter().enumerate().map(client).collect(),
        asks: vec![0; cores.len() * plan.lanes],
        holders: HashMap::new(),
        present: HashMap::new(),
        random: ChaCha8Rng::seed_from_u64(plan.seed),
        measuring: false,
        ending: false,
        ended: 0,
        outcome,
    };
    world.live()?;
    Ok(world.outcome)
}

impl<E: Engine> World<'_, E> {
    fn live(&mut self) -> Result<(), Error> {
        self.engine.start(&mut self.fabric);
        for client in 0..self.clients.len() {
            // When the lock server knows that it is one; not all at the same moment.
            let at = HEAD_START + self.random.random_range(0..self.fabric.costs.get(self.plan.client));
            self.pause(client, at);
        }
        let mut begun = 0;
        let warm = self.plan.transactions / 4;
        loop {
            self.step()?;
            let now = self.fabric.now;
            if !self.measuring && (self.outcome.transactions >= warm || now >= self.plan.most / 4) {
                (self.measuring, begun) = (true, now);
                self.outcome.transactions = 0;
            } else if self.measuring
                && (self.outcome.transactions >= self.plan.transactions || now >= begun + self.plan.most)
            {
                self.outcome.lasted = now - begun;
                self.outcome.notes = self.engine.notes();
                self.outcome.busiest = self.fabric.busiest();
                return self.end();
            }
        }
    }

    /// Nobody begins anything new, and all come to rest.
    fn end(&mut self) -> Result<(), Error> {
        (self.measuring, self.ending) = (false, true);
        let until = self.fabric.now + PATIENCE;
        while self.ended < self.clients.len() {
            self.step()?;
            if self.fabric.now > until {
                let waits = self.clients.iter().filter(|client| client.state != State::Ended).count();
                return Err(format!("{waits} clients never come to an end"));
            }
        }
        match self.holders.values().find(|holders| holders.exclusive || holders.shared > 0) {
            Some(_) => Err("a lock is held although all have ended".into()),
            None => Ok(()),
        }
    }

    fn step(&mut self) -> Result<(), Error> {
        let event = self.fabric.next().ok_or("nothing is planned, and clients wait")?;
        self.fabric.outside();
        match event {
            Event::AtSwitch(message) => self.engine.on_message(&mut self.fabric, Place::Switch, message),
            Event::AtCore(core, nanos, job) => self.fabric.at_core(core, nanos, job),
            Event::AtNic(host, nanos, message) => self.fabric.at_nic(host, nanos, message),
            Event::NicDone(host, message) => self.engine.on_message(&mut self.fabric, Place::Nic(host), message),
            Event::Free(core) => self.fabric.free(core),
            Event::Timer(who, number) => self.engine.on_timer(&mut self.fabric, who, number),
            Event::Alarm(client, number) => self.on_alarm(client, number),
            Event::Done(core) => {
                match self.fabric.take(core) {
                    Some(Job::Message(message)) => self.engine.on_message(&mut self.fabric, Place::Core(core), message),
                    Some(Job::Client(client)) => self.on_work(client)?,
                    Some(Job::Granted(lane, ask)) if self.asks[lane] == ask => self.on_granted(lane)?,
                    Some(Job::Stored(client, number)) => self.fabric.answer_of_store(client, number),
                    Some(Job::Granted(..)) | None => {}
                }
                self.settle()?;
                self.fabric.finish(core);
                return Ok(());
            }
        }
        self.settle()
    }

    /// What the engine has just told.
    fn settle(&mut self) -> Result<(), Error> {
        while let Some((lane, lock)) = self.fabric.expired.pop() {
            let one = &mut self.clients[lane / self.plan.lanes];
            let mut held = one.transaction.requests.iter().zip(&one.progress);
            if let Some((&request, _)) = held.find(|(request, at)| request.lock == lock && **at == Progress::Held) {
                one.lost.push(lock);
                self.let_go(request)?;
            }
        }
        while let Some((lane, at)) = self.fabric.grants.pop_front() {
            let core = self.clients[lane / self.plan.lanes].core;
            if at == Some(core) {
                self.on_granted(lane)?;
            } else {
                self.fabric.tell(core, lane, self.asks[lane]);
            }
        }
        Ok(())
    }

    // ---- a client ----

    /// Half of what a client does for a lock, for each of so many.
    fn own_work(&mut self, client: usize, locks: usize) {
        // From half of its mean to one and a half: without that, clients of a core would go in lockstep.
        let mean = self.fabric.costs.get(self.plan.client) / 2 * locks as u64;
        let nanos = self.random.random_range(mean / 2..=mean * 3 / 2);
        self.fabric.client_work(self.clients[client].core, nanos, client);
    }

    fn pause(&mut self, client: usize, nanos: u64) {
        let one = &mut self.clients[client];
        one.state = State::Paused;
        one.tries += 1;
        self.fabric.alarm(self.fabric.now + nanos, client, one.tries << 2 | AGAIN);
    }

    fn on_alarm(&mut self, client: usize, number: u64) {
        let one = &mut self.clients[client];
        if number >> 2 != one.tries {
            return;
        }
        match (number & 3, one.state) {
            (EXECUTED, State::Executing) => {
                one.state = State::Releasing;
                self.own_work(client, 1);
            }
            (AGAIN, State::Paused) => self.begin(client),
            (OVERDUE, State::Waiting) => {
                for index in 0..one.progress.len() {
                    self.cancel(client, index);
                }
                self.abort(client);
            }
            (OVERDUE, State::Asking(_)) => one.overdue = true,
            _ => {}
        }
    }

    /// The next transaction, or the same one again.
    fn begin(&mut self, client: usize) {
        let now = self.fabric.now;
        let one = &mut self.clients[client];
        if self.ending {
            one.state = State::Ended;
            self.ended += 1;
            return;
        }
        if !one.aborting {
            one.generator.next(Duration::from_nanos(now + self.plan.later), &mut one.transaction);
            one.begun = now;
            if self.plan.sorted {
                one.transaction.requests.sort_unstable_by_key(|request| request.lock);
            }
        }
        (one.overdue, one.aborting) = (false, false);
        one.lost.clear();
        one.progress.clear();
        one.progress.resize(one.transaction.requests.len(), Progress::Open);
        one.state = State::Asking(0);
        if let Some(abort) = self.plan.abort {
            self.fabric.alarm(now + abort, client, one.tries << 2 | OVERDUE);
        }
        let locks = self.at_once(client, 0).len();
        self.own_work(client, locks);
    }

    /// What goes out together, from this request on.
    fn at_once(&self, client: usize, first: usize) -> Range<usize> {
        let all = self.clients[client].progress.len();
        first..if self.plan.lanes > 1 { all } else { first + 1 }
    }

    /// The engine's client that has this request.
    fn lane(&self, client: usize, index: usize) -> usize {
        client * self.plan.lanes + index % self.plan.lanes
    }

    fn ask(&mut self, client: usize, index: usize) {
        let lane = self.lane(client, index);
        self.asks[lane] += 1;
        let one = &mut self.clients[client];
        one.progress[index] = Progress::Asked(self.fabric.now);
        let request = one.transaction.requests[index];
        let present = self.present.entry(request.lock).or_default();
        *present += 1;
        let (requests, most) = self.outcome.demand.entry(request.lock).or_default();
        (*requests, *most) = (*requests + 1, (*most).max(*present));
        self.engine.acquire(&mut self.fabric, lane, request);
    }

    /// If it is waited for.
    fn cancel(&mut self, client: usize, index: usize) {
        let lane = self.lane(client, index);
        let one = &mut self.clients[client];
        if let Progress::Asked(_) = one.progress[index] {
            one.progress[index] = Progress::Over;
            self.asks[lane] += 1;
            let request = one.transaction.requests[index];
            *self.present.entry(request.lock).or_default() -= 1;
            self.engine.cancel(&mut self.fabric, lane, request);
        }
    }

    /// A request that is held, if there is one.
    fn held(&self, client: usize) -> Option<usize> {
        self.clients[client].progress.iter().position(|at| *at == Progress::Held)
    }

    fn abort(&mut self, client: usize) {
        self.clients[client].aborting = true;
        self.outcome.aborts += u64::from(self.measuring);
        if self.held(client).is_some() {
            self.clients[client].state = State::Releasing;
            return self.own_work(client, 1);
        }
        self.after_abort(client);
    }

    fn after_abort(&mut self, client: usize) {
        let most = self.plan.abort.unwrap_or(1).max(1);
        let nanos = self.random.random_range(0..most);
        self.pause(client, nanos);
    }

    /// Its core has done half of a lock's work.
    fn on_work(&mut self, client: usize) -> Result<(), Error> {
        match self.clients[client].state {
            State::Asking(_) if self.clients[client].overdue => self.abort(client),
            State::Asking(first) => {
                let indices = self.at_once(client, first);
                if indices.len() > self.plan.lanes {
                    return Err(format!("a transaction has {} locks, more than lanes", indices.len()));
                }
                self.clients[client].state = State::Waiting;
                indices.for_each(|index| self.ask(client, index));
            }
            State::Releasing => {
                let index = self.held(client).ok_or("a client gives back what it has not")?;
                let lane = self.lane(client, index);
                let one = &mut self.clients[client];
                one.progress[index] = Progress::Over;
                let request = one.transaction.requests[index];
                if !one.lost.contains(&request.lock) {
                    self.let_go(request)?;
                    self.engine.release(&mut self.fabric, lane, request);
                }
                if self.held(client).is_some() {
                    self.own_work(client, 1);
                } else {
                    self.finish(client);
                }
            }
            other => return Err(format!("client {client} works although it is {other:?}")),
        }
        Ok(())
    }

    fn finish(&mut self, client: usize) {
        let one = &mut self.clients[client];
        if !one.lost.is_empty() && !one.aborting {
            one.aborting = true;
            self.outcome.aborts += u64::from(self.measuring);
        }
        if one.aborting {
            return self.after_abort(client);
        }
        self.outcome.transactions += 1;
        if self.measuring {
            let took = (self.fabric.now - one.begun).max(1);
            self.outcome.latencies.saturating_record(took);
            let of_kind = self.outcome.of_kinds.entry(one.transaction.kind).or_insert_with(histogram);
            of_kind.saturating_record(took);
        }
        one.tries += 1;
        self.begin(client);
    }

    fn on_granted(&mut self, lane: usize) -> Result<(), Error> {
        let client = lane / self.plan.lanes;
        let one = &mut self.clients[client];
        let waits = |(index, at): (usize, &Progress)| match at {
            Progress::Asked(since) if index % self.plan.lanes == lane % self.plan.lanes => Some((index, *since)),
            _ => None,
        };
        let Some((index, since)) = one.progress.iter().enumerate().find_map(waits) else {
            return Err(format!("client {client} is granted something, and is {:?}", one.state));
        };
        let Request { lock, mode } = one.transaction.requests[index];
        one.progress[index] = Progress::Held;
        self.asks[lane] += 1;
        let millisecond = (self.fabric.now / 1_000_000) as usize;
        self.outcome.timeline.resize(self.outcome.timeline.len().max(millisecond + 1), 0);
        self.outcome.timeline[millisecond] += 1;
        if self.measuring {
            self.outcome.requests += 1;
            self.outcome.of_clients[client] += 1;
            self.outcome.grants.saturating_record((self.fabric.now - since).max(1));
        }
        let holders = self.holders.entry(lock).or_default();
        if holders.exclusive || mode == Mode::Exclusive && holders.shared > 0 {
            return Err(format!("lock {lock} has two holders, {mode:?} the latter"));
        }
        match mode {
            Mode::Exclusive => holders.exclusive = true,
            Mode::Shared => holders.shared += 1,
        }
        if let Some(next) = one.progress.iter().position(|at| *at == Progress::Open) {
            one.state = State::Asking(next);
            self.own_work(client, 1);
        } else if one.progress.iter().all(|at| *at == Progress::Held) {
            self.execute(client);
        }
        Ok(())
    }

    /// It has all its locks.
    fn execute(&mut self, client: usize) {
        let one = &mut self.clients[client];
        one.state = State::Executing;
        let number = one.tries << 2 | EXECUTED;
        if let Some(core) = self.plan.store {
            let commands = |request: &Request| if request.mode == Mode::Exclusive { 2 } else { 1 };
            let commands: u64 = one.transaction.requests.iter().map(commands).sum();
            let nanos = commands * self.fabric.costs.get(Cost::Pipelined);
            self.fabric.ask_store(core, nanos, client, number);
        } else if self.plan.execution > 0 {
            self.fabric.alarm(self.fabric.now + self.plan.execution, client, number);
        } else {
            one.state = State::Releasing;
            self.own_work(client, 1);
        }
    }

    fn let_go(&mut self, request: Request) -> Result<(), Error> {
        *self.present.entry(request.lock).or_default() -= 1;
        let holders = self.holders.entry(request.lock).or_default();
        match request.mode {
            Mode::Exclusive if holders.exclusive => holders.exclusive = false,
            Mode::Shared if holders.shared > 0 => holders.shared -= 1,
            _ => return Err(format!("lock {} is given back, and not held", request.lock)),
        }
        if !holders.exclusive && holders.shared == 0 {
            self.holders.remove(&request.lock);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrated::costs::Costs;

    /// Services that are wrong.
    enum Wrong {
        /// Grants whatever is asked for.
        Generous,
        /// Grants nothing.
        Mute,
        /// Grants twice what was asked for once, and so what nobody waits for.
        Twofold,
    }

    impl Engine for Wrong {
        type Message = ();

        fn acquire(&mut self, fabric: &mut Fabric<()>, client: usize, _: Request) {
            let times = match self {
                Wrong::Generous => 1,
                Wrong::Mute => 0,
                Wrong::Twofold => 2,
            };
            (0..times).for_each(|_| fabric.granted(client));
        }

        fn release(&mut self, _: &mut Fabric<()>, _: usize, _: Request) {}
        fn cancel(&mut self, _: &mut Fabric<()>, _: usize, _: Request) {}
        fn on_message(&mut self, _: &mut Fabric<()>, _: Place, (): ()) {}
    }

    fn error(engine: Wrong, workload: &str) -> String {
        let workload = crate::workloads::named(workload).expect("it is known").build();
        let plan = Plan {
            seed: 1,
            execution: 0,
            store: None,
            abort: None,
            later: 0,
            sorted: false,
            lanes: 1,
            client: Cost::FissLockClient,
            transactions: 10_000,
            most: 100_000_000,
        };
        let fabric = Fabric::new(Costs::of_sources(), &[4]);
        let outcome = run(fabric, engine, &*workload, &[0, 1, 2, 3], plan);
        outcome.err().unwrap_or_default()
    }

    #[test]
    fn a_service_with_two_holders_of_a_lock_gives_no_figure() {
        assert!(error(Wrong::Generous, "exclusive-500").contains("has two holders"));
        assert_eq!(error(Wrong::Generous, "read-only-uniform"), "", "readers may");
    }

    #[test]
    fn a_service_that_forgets_its_clients_gives_no_figure() {
        assert_eq!(error(Wrong::Mute, "read-only-uniform"), "nothing is planned, and clients wait");
    }

    #[test]
    fn a_grant_that_nobody_waits_for_gives_no_figure() {
        assert!(error(Wrong::Twofold, "read-only-uniform").contains("is granted something, and is"));
    }
}
