//! Wayside beside the lock services that people use today: the same lock requests, the same checks, on the same
//! machine, in turns.
//!
//! * `driver.rs` runs a workload over a service (`service.rs`), `witness.rs` checks it meanwhile, `cost.rs` reads what
//!   processors it took.
//! * `peers/`: the services, each a real server.
//! * This file: rounds. `record.rs`: what comes out; `table.rs` shows it to people, `page.rs` and `chart.rs` make the
//!   report, `change.rs` compares two records.
//!
//! In a round every service runs a workload once, for a second or two, with new clients; the round after begins with
//! the next service. Their servers stay up all the time, and have nothing to do while others are measured.

mod change;
mod chart;
pub(crate) mod driver;
mod page;
pub(crate) mod peers;
mod record;
pub(crate) mod service;
mod table;
mod witness;

pub use change::compare;
pub(crate) use page::escaped;
pub use page::{Records, page};
pub use peers::{About, names as service_names};
pub use record::{Contest, Played, Run};
pub(crate) use record::{QUANTILES, quantiles_us};
pub use table::put_contest;

use crate::knobs::{self, Machine};
use crate::workloads::{self, Named, Workload};
use crate::{Error, workloads::named};
use driver::Course;
use peers::{Conditions, Contestant, Entry};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What to measure.
#[derive(Clone, Debug)]
pub struct ContestOptions {
    /// The binary `wayside`, whose switch takes part.
    pub wayside: PathBuf,
    /// Names of workloads, with how their locks are acquired.
    pub games: Vec<Game>,
    /// Names of services; empty: every one that there is.
    pub services: Vec<String>,
    /// How often each service runs each workload.
    pub rounds: u32,
    /// How long a run is measured, after a warm-up of a fifth of that.
    pub measured: Duration,
    /// Sessions, or connections, with a thread each.
    pub nodes: usize,
}

/// A workload, and how it is run.
#[derive(Clone, Debug)]
pub struct Game {
    /// Its name in the catalogue.
    pub workload: String,
    /// Clients of all nodes.
    pub clients: usize,
    /// As the paper's clients do: in the program's order, and aborted after its time-out; otherwise sorted, and never.
    pub aborts: bool,
}

impl Game {
    fn sorted(workload: &str, clients: usize) -> Game {
        Game { workload: workload.into(), clients, aborts: false }
    }
}

/// So many clients everywhere: each needs a process of PostgreSQL, and FissLock has as many for single locks and TATP.
const CLIENTS: usize = 160;

impl ContestOptions {
    /// Every service, five rounds: an hour or more. Two rounds took more than 25 minutes on two slow processors.
    #[must_use]
    pub fn whole(wayside: PathBuf) -> ContestOptions {
        let workloads = [
            "update-heavy-uniform",
            "update-heavy-zipf",
            "read-mostly-zipf",
            "exclusive-500",
            "hot-spot",
            "tatp",
            "tpcc-low",
            "tpcc-high",
            "smallbank",
            "ycsb-t-0.99",
        ];
        // One client of each node first: what a lock takes where nobody waits for a processor.
        let mut games = vec![Game::sorted("update-heavy-uniform", 2)];
        games.extend(workloads.map(|workload| Game::sorted(workload, CLIENTS)));
        games.extend(["tatp", "tpcc-low"].map(|workload| Game { aborts: true, ..Game::sorted(workload, CLIENTS) }));
        let measured = Duration::from_millis(1_500);
        ContestOptions { wayside, games, services: Vec::new(), rounds: 5, measured, nodes: 2 }
    }

    /// Few clients, two workloads, once: half a minute, most of it for servers to start.
    #[must_use]
    pub fn short(wayside: PathBuf) -> ContestOptions {
        let games = ["update-heavy-zipf", "tpcc-high"].map(|workload| Game::sorted(workload, 16));
        let measured = Duration::from_millis(400);
        ContestOptions { wayside, games: games.into(), services: Vec::new(), rounds: 1, measured, nodes: 2 }
    }
}

/// Of all traces.
const SEED: u64 = 1;

/// Measures. A service that is not installed, and a run that fails, are in the record.
///
/// # Errors
/// If a name is unknown.
pub fn run_contest(options: &ContestOptions) -> Result<Contest, Error> {
    let began = Instant::now();
    let mut contest = Contest::new(Machine::look(), options.rounds, options.nodes, SEED);
    let mut stages = Vec::new();
    for game in &options.games {
        let named = named(&game.workload).ok_or_else(|| format!("no workload {:?}", game.workload))?;
        stages.push((game, named));
    }
    let contestants = start_all(options, &mut contest)?;
    let mut progress = Progress { all: stages.len() as u32 * options.rounds, done: 0 };
    for (index, (game, named)) in stages.iter().enumerate() {
        let workload = named.build();
        contest.played.push(played(game, named, &*workload, options));
        let course = course(game, named, &*workload, options);
        for round in 0..options.rounds {
            progress.show(named.name, round);
            let mut order: Vec<&Box<dyn Contestant>> = contestants.iter().collect();
            order.rotate_left(round as usize % contestants.len().max(1));
            for contestant in order {
                let load = knobs::load();
                let outcome = contestant.run(&course);
                let name = &contestant.about().name;
                contest.runs.push(Run::of(index, name, round, load, outcome));
            }
            progress.done += 1;
        }
    }
    contest.end(began.elapsed());
    Ok(contest)
}

fn start_all(options: &ContestOptions, contest: &mut Contest) -> Result<Vec<Box<dyn Contestant>>, Error> {
    let all: Vec<String> = peers::names().map(str::to_owned).collect();
    let clients = options.games.iter().map(|game| game.clients).max().unwrap_or(0);
    let conditions = Conditions { wayside: &options.wayside, nodes: options.nodes, clients };
    let mut contestants = Vec::new();
    if let Some(unknown) = options.services.iter().find(|name| !all.contains(name)) {
        return Err(format!("no service {unknown:?}"));
    }
    for name in if options.services.is_empty() { &all } else { &options.services } {
        // What the others show is worth keeping, even if one does not start.
        let entry = peers::start(name, &conditions).unwrap_or_else(Entry::LeftOut);
        match entry {
            Entry::Runs(contestant) => {
                contest.services.push(contestant.about().clone());
                contestants.push(contestant);
            }
            Entry::LeftOut(why) => contest.notes.push(format!("{name} is left out: {why}.")),
        }
    }
    if cfg!(not(feature = "peers")) {
        contest.notes.push("Other services are left out: this was built without the feature `peers`.".into());
    }
    Ok(contestants)
}

fn played(game: &Game, named: &Named, workload: &dyn Workload, options: &ContestOptions) -> Played {
    Played {
        workload: named.name.into(),
        about: named.about.into(),
        locks: workload.locks(),
        clients: game.clients,
        clients_of_paper: named.clients,
        execution_us: named.execution.as_micros() as u64,
        abort_ms: if game.aborts { named.abort.map(|abort| abort.as_millis() as u64) } else { None },
        is_sorted: !game.aborts,
        measured_ms: options.measured.as_millis() as u64,
    }
}

fn course<'w>(game: &Game, named: &Named, workload: &'w dyn Workload, options: &ContestOptions) -> Course<'w> {
    Course {
        workload,
        execution: named.execution,
        think: Duration::ZERO,
        abort: if game.aborts { named.abort } else { None },
        is_sorted: !game.aborts,
        nodes: options.nodes.min(game.clients),
        clients: game.clients,
        seed: SEED,
        warm_up: options.measured / 5,
        measured: options.measured,
    }
}

/// Every workload's name, and what it is.
#[must_use]
pub fn workload_list() -> String {
    workloads::all().iter().map(|named| format!("{:<20} {}\n", named.name, named.about)).collect()
}

/// How far it is, on a terminal; nothing anywhere else.
struct Progress {
    all: u32,
    done: u32,
}

impl Progress {
    fn show(&self, workload: &str, round: u32) {
        if std::io::stderr().is_terminal() {
            let percent = 100 * self.done / self.all.max(1);
            // Whoever closed it does not want to know.
            let _ = write!(std::io::stderr(), "\r{workload:<24} round {:<3} {percent:>3} %", round + 1);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if std::io::stderr().is_terminal() {
            let _ = write!(std::io::stderr(), "\r{:<48}\r", "");
        }
    }
}
