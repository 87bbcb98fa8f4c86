//! What NetLock's figures 12 to 14 show, on real packets and on two processors: which locks have their queue in the
//! switch (13), how many cells there are and for how long locks are held (14), and what priorities and budgets do for
//! tenants (12). What its testbed would do is a model's: `calibrated/`. Besides, how a plan follows a hot spot that
//! moves: `moves.rs`; which engine is better for locks that everybody wants: `contention.rs`; and what it saves to
//! fetch a row with its lock: `fetches.rs`.
//!
//! * `place.rs`: a switch for each run, at the hook or in userspace. `client.rs`: who asks.
//! * `record.rs`: what comes out, and its tables; `plot.rs` draws it.
//!
//! Runs of a round come one after the other, and in another order in the next round. Every run is checked as those of
//! lock services are (`contest/witness.rs`).

mod client;
mod contention;
mod fetches;
mod moves;
mod place;
mod plot;
mod record;

pub use record::{Queues, put_queues};

use crate::Error;
use crate::calibrated::{Apart, FIRST_TENANT, MACHINES};
use crate::contest::driver::{Course, Outcome, drive};
use crate::knobs::Machine;
use crate::workloads::{Named, Workload, named};
use client::{Clients, DEFAULT, NORMAL, SECOND, Tenant};
use place::Place;
use record::{MemoryRun, TenantRun};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What to measure.
#[derive(Clone, Debug)]
pub struct QueuesOptions {
    /// The binary `wayside`.
    pub wayside: PathBuf,
    /// How often each run is made.
    pub rounds: u32,
    /// Of [`PARTS`]; empty: all of them.
    pub parts: Vec<String>,
    /// Of figures 13 and 14: its name in the catalogue.
    pub workload: String,
    /// Clients of both nodes.
    pub clients: usize,
    /// Cells of the switch, ascending.
    pub cells: Vec<u32>,
    /// For how long locks are held besides.
    pub thinks: Vec<Duration>,
    /// For how long a plan learns before a run counts, and a second more for each `CELLS_A_SECOND` cells: a plan is
    /// made once a second, and follows what it measures within some of them.
    pub learning: Duration,
    /// How long a run is measured.
    pub measured: Duration,
    /// The same of tenants with priorities: the second one joins in the middle.
    pub tenants: Duration,
    /// How often a hot spot moves, in a run of so many times that.
    pub moves_every: Duration,
    /// As said at `moves_every`.
    pub moves: u32,
}

impl QueuesOptions {
    /// Three rounds, eighteen minutes.
    #[must_use]
    pub fn whole(wayside: PathBuf) -> QueuesOptions {
        QueuesOptions {
            wayside,
            rounds: 3,
            parts: Vec::new(),
            workload: "tpcc-low".into(),
            clients: 32,
            cells: vec![64, 256, 1_024, 4_096],
            thinks: [0, 1, 5, 20].map(Duration::from_millis).into(),
            learning: Duration::from_secs(4),
            measured: Duration::from_secs(2),
            tenants: Duration::from_secs(4),
            moves_every: Duration::from_secs(10),
            moves: 3,
        }
    }

    /// All parts but the model's, as little as shows that they work: some seconds.
    #[must_use]
    pub fn least(wayside: PathBuf) -> QueuesOptions {
        QueuesOptions {
            parts: ["memory", "priorities", "isolation", MOVES, FETCHES].map(str::to_owned).into(),
            workload: "tpcc-high".into(),
            clients: 8,
            cells: vec![256],
            thinks: vec![Duration::ZERO],
            learning: Duration::from_secs(2),
            measured: Duration::from_millis(400),
            tenants: Duration::from_millis(800),
            moves_every: Duration::from_secs(1),
            ..QueuesOptions::short(wayside)
        }
    }

    /// Once, and less of everything: two minutes.
    #[must_use]
    pub fn short(wayside: PathBuf) -> QueuesOptions {
        QueuesOptions {
            rounds: 1,
            cells: vec![64, 1_024],
            thinks: [0, 5].map(Duration::from_millis).into(),
            measured: Duration::from_secs(1),
            tenants: Duration::from_secs(2),
            moves_every: Duration::from_secs(6),
            moves: 1,
            ..QueuesOptions::whole(wayside)
        }
    }
}

/// What there is: figures 13 and 14, 12 (a), and 12 (b); a hot spot that moves (FissLock 7.5); and both engines under
/// contention, and locks that bring a row along, which no figure shows, and which are measured only if they are asked
/// for.
pub const PARTS: [&str; 6] = ["memory", "priorities", "isolation", MOVES, CONTENTION, FETCHES];
const MOVES: &str = "hot-spot";
const CONTENTION: &str = "contention";
const FETCHES: &str = "fetches";

/// Of all traces.
const SEED: u64 = 1;
/// Nodes of figures 13 and 14, and of priorities: a thread each.
const NODES: usize = 2;
/// Cells of one queue, at most.
const CELLS_OF_ONE: u32 = 16;
/// The lock server tells of 256 locks at a time, each of which needs two cells or more.
const CELLS_A_SECOND: u32 = 400;
/// Of runs without a plan.
const WARM_UP: Duration = Duration::from_millis(500);
/// Where all wait for each other: clients of each tenant, and for how long each holds.
const RIVALS: usize = 20;
const RIVALRY: &str = "exclusive-4";
const HOLD: Duration = Duration::from_millis(1);
/// The second tenant's, where priorities differ; the first has the lowest.
const URGENT: u8 = 7;
/// Of each of [`MACHINES`], whose locks are apart.
const CLIENTS_OF_MACHINE: usize = 4;
const APART: &str = "exclusive-55k";
/// Engines of tenants: settings of a namespace, and whether it needs a lock server.
const ENGINES: [(&str, &str, bool); 2] =
    [("fission", "slots = 131072", false), ("lock server", "engine = \"queue\"", true)];

/// A run of figures 13 and 14.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memory {
    /// `knapsack` or `random`; `none`: the lock server has every lock.
    plan: &'static str,
    cells: u32,
    think: Duration,
}

impl Memory {
    fn settings(self) -> String {
        let Memory { plan, cells, .. } = self;
        let own = format!("plan = \"{plan}\"\nroom = {cells}\ncells = {}\n", CELLS_OF_ONE.min(cells));
        format!("engine = \"queue\"\n{}", if plan == "none" { "" } else { &own })
    }

    fn warm_up(self, learning: Duration) -> Duration {
        if self.plan == "none" { WARM_UP } else { learning + Duration::from_secs((self.cells / CELLS_A_SECOND).into()) }
    }
}

/// Every amount of cells by both plans without thinking; by the knapsack with each think time; and none.
fn memories(options: &QueuesOptions) -> Vec<Memory> {
    let mut all = Vec::new();
    for &think in &options.thinks {
        all.push(Memory { plan: "none", cells: 0, think });
        all.extend(options.cells.iter().map(|&cells| Memory { plan: "knapsack", cells, think }));
    }
    all.extend(options.cells.iter().map(|&cells| Memory { plan: "random", cells, think: Duration::ZERO }));
    all
}

/// Measures all of it. A run that fails is in the record.
///
/// # Errors
/// If the workload or a part is unknown.
pub fn run_queues(options: &QueuesOptions) -> Result<Queues, Error> {
    let began = Instant::now();
    if let Some(unknown) = options.parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
        return Err(format!("no part {unknown:?}: there are {}", PARTS.join(", ")));
    }
    let is_named = |part: &str| options.parts.iter().any(|one| one == part);
    let is_wanted = |part: &str| options.parts.is_empty() || is_named(part);
    let workload = named(&options.workload).ok_or_else(|| format!("no workload {:?}", options.workload))?;
    let machine = Machine::look();
    let (place, why) = Place::find(MACHINES, 2);
    let mut record = Queues::new(machine, options, &workload, place.name());
    record.notes.extend(why.map(|why| format!("Not at the hook: {why}.")));
    let bench = Bench { options, place };
    let built = workload.build();
    let mut memories = if is_wanted("memory") { memories(options) } else { Vec::new() };
    for round in 0..options.rounds {
        if round > 0 && !memories.is_empty() {
            memories.rotate_left(1);
        }
        for &memory in &memories {
            bench.show(&format!("round {}: {}, {} cells", round + 1, memory.plan, memory.cells));
            let outcome = bench.remember(memory, &workload, &*built);
            record.memory.push(MemoryRun::of(memory, round, outcome));
        }
        if is_wanted(MOVES) {
            bench.follow(round, &mut record.moves);
        }
        if is_named(CONTENTION) {
            bench.contend(round, &mut record.contention);
        }
        if is_named(FETCHES) {
            bench.show(&format!("round {}: locks and rows", round + 1));
            record.fetches.push(bench.fetch(round));
        }
        for engine in ENGINES {
            bench.show(&format!("round {}: tenants, {}", round + 1, engine.0));
            if is_wanted("priorities") {
                for differ in [false, true] {
                    let tenants = bench.differentiate(engine, differ);
                    record.priorities.push(TenantRun::of(engine.0, differ, round, tenants));
                }
            }
            if is_wanted("isolation") {
                let free = bench.isolate(engine, None);
                let half = free.as_ref().map_or(0, half_of);
                let bounded =
                    if half == 0 { Err("no run without budgets".into()) } else { bench.isolate(engine, Some(half)) };
                record.isolation.extend([
                    TenantRun::of(engine.0, false, round, free),
                    TenantRun::of(engine.0, true, round, bounded),
                ]);
            }
        }
    }
    bench.show("");
    record.end(began.elapsed());
    Ok(record)
}

/// Half of all requests, a second: one tenant's share.
fn half_of(tenants: &Tenants) -> u32 {
    let grants: u64 = tenants.timelines.iter().flatten().map(|&count| u64::from(count)).sum();
    (grants as f64 / tenants.outcome.times.measured.as_secs_f64() / 2.0) as u32
}

/// What came of two tenants.
struct Tenants {
    outcome: Outcome,
    /// Grants of each over time.
    timelines: [Vec<u32>; 2],
}

impl Tenants {
    /// The nodes before this one are the first tenant's.
    fn of(outcome: Outcome, first: usize) -> Tenants {
        let sum = |nodes: &[Vec<u32>]| {
            let bins = nodes.first().map_or(0, Vec::len);
            (0..bins).map(|bin| nodes.iter().map(|node| node[bin]).sum()).collect()
        };
        let (one, other) = outcome.of_nodes.split_at(first.min(outcome.of_nodes.len()));
        let timelines = [sum(one), sum(other)];
        Tenants { outcome, timelines }
    }
}

struct Bench<'o> {
    options: &'o QueuesOptions,
    place: Place,
}

impl Bench<'_> {
    fn drive(
        &self,
        settings: &str,
        served: &[&str],
        course: &Course<'_>,
        tenant: impl Fn(usize) -> Tenant + Sync,
    ) -> Result<Outcome, Error> {
        let running = self.place.start(&self.options.wayside, settings, served)?;
        let endpoint = running.endpoint();
        let connect = async |node: crate::contest::driver::Node| Clients::connect(&endpoint, tenant(node.index));
        drive(course, &running.processes(), |node| running.enter(node.index), connect)
    }

    /// Figures 13 and 14.
    fn remember(&self, memory: Memory, named: &Named, workload: &dyn Workload) -> Result<Outcome, Error> {
        let course = Course {
            workload,
            execution: named.execution,
            think: memory.think,
            bank: None,
            abort: None,
            is_sorted: true,
            nodes: NODES,
            clients: self.options.clients,
            seed: SEED,
            warm_up: memory.warm_up(self.options.learning),
            measured: self.options.measured,
        };
        self.drive(&memory.settings(), &[DEFAULT], &course, |_| Tenant::ANY)
    }

    /// Figure 12 (a): two tenants want the same locks, and the second, which joins in the middle, wants them more
    /// urgently; or not.
    fn differentiate(&self, engine: (&str, &str, bool), differ: bool) -> Result<Tenants, Error> {
        let (_, settings, has_server) = engine;
        let workload = catalogue(RIVALRY)?.build();
        let course = Course {
            workload: &*workload,
            execution: Duration::ZERO,
            think: HOLD,
            bank: None,
            abort: None,
            is_sorted: true,
            nodes: NODES,
            clients: NODES * RIVALS,
            seed: SEED,
            warm_up: WARM_UP,
            measured: self.options.tenants,
        };
        let joins = WARM_UP + self.options.tenants / 2;
        let first = Tenant { priority: if differ { 0 } else { NORMAL }, ..Tenant::ANY };
        let second = Tenant { priority: if differ { URGENT } else { NORMAL }, joins, ..Tenant::ANY };
        let served: &[&str] = if has_server { &[DEFAULT] } else { &[] };
        let outcome = self.drive(settings, served, &course, |node| if node == 0 { first } else { second })?;
        Ok(Tenants::of(outcome, 1))
    }

    /// Figure 12 (b): seven machines of one tenant and three of another, each with so many requests a second at most.
    fn isolate(&self, engine: (&str, &str, bool), budget: Option<u32>) -> Result<Tenants, Error> {
        let (_, settings, has_server) = engine;
        let built = catalogue(APART)?.build();
        let course = Course {
            workload: &Apart(&*built),
            execution: Duration::ZERO,
            think: Duration::ZERO,
            bank: None,
            abort: None,
            is_sorted: true,
            nodes: MACHINES,
            clients: MACHINES * CLIENTS_OF_MACHINE,
            seed: SEED,
            warm_up: WARM_UP,
            measured: self.options.measured,
        };
        let rate = budget.map_or_else(String::new, |rate| format!("rate = {rate}\n"));
        let settings = format!("{settings}\n{rate}\n[[namespace]]\nname = \"{SECOND}\"\n{settings}\n{rate}");
        let second = Tenant { namespace: SECOND, ..Tenant::ANY };
        let served: &[&str] = if has_server { &[DEFAULT, SECOND] } else { &[] };
        let outcome =
            self.drive(&settings, served, &course, |node| if node < FIRST_TENANT { Tenant::ANY } else { second })?;
        Ok(Tenants::of(outcome, FIRST_TENANT))
    }

    /// How far it is, on a terminal; nothing anywhere else.
    fn show(&self, what: &str) {
        if std::io::stderr().is_terminal() {
            // Whoever closed it does not want to know.
            let _ = write!(std::io::stderr(), "\r{what:<60}");
        }
    }
}

fn catalogue(name: &str) -> Result<Named, Error> {
    named(name).ok_or_else(|| format!("no workload {name:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_measured_by_both_plans_and_with_each_think_time() {
        let options = QueuesOptions::whole("wayside".into());
        let all = memories(&options);
        let count = |plan| all.iter().filter(|memory| memory.plan == plan).count();
        assert_eq!((count("none"), count("knapsack"), count("random")), (4, 16, 4));
        assert!(all.iter().all(|memory| memory.plan != "random" || memory.think.is_zero()));
        assert!(all[1].settings().contains("room = 64\ncells = 16\n") && !all[0].settings().contains("plan"));
    }
}
