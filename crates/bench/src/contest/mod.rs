//! Wayside beside the lock services that people use today: the same lock requests, the same checks, on the same
//! machine, in turns.
//!
//! * `driver.rs` runs a workload over a service (`service.rs`), `witness.rs` checks it meanwhile, `cost.rs` reads what
//!   processors it took. `bank.rs`: data that locks guard, in a real Redis, which tell at the end whether they did.
//! * `peers/`: the services, each a real server.
//! * This file: rounds. `record.rs`: what comes out; `table.rs` shows it to people; `page.rs`, `chart.rs` and `heat.rs`
//!   make the report, `change.rs` compares two records.
//!
//! In a round every service runs a workload once, for a second or two, with new clients; the round after begins with
//! the next service. Their servers stay up all the time, and have nothing to do while others are measured.

#[cfg_attr(not(feature = "peers"), path = "no_bank.rs")]
pub(crate) mod bank;
mod change;
mod chart;
pub(crate) mod driver;
mod heat;
mod page;
pub(crate) mod peers;
mod record;
pub(crate) mod service;
mod table;
mod witness;

pub use change::compare;
pub(crate) use change::{Better, Compared};
pub use page::{Records, page};
pub(crate) use page::{escaped, figures, wide};
pub use peers::{About, names as service_names};
pub use record::{Contest, Played, Run};
pub(crate) use record::{QUANTILES, quantiles_us, quoted};
pub use table::put_contest;

use crate::calibrated::CalibratedOptions;
use crate::kept::newest_packets;
use crate::knobs::{self, Machine};
use crate::workloads::{self, Named, Workload};
use crate::{Error, workloads::named};
use bank::Bank;
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
    /// What the papers report, by the model, for whoever wants both on a page. None: of what is measured alone.
    pub papers: Option<CalibratedOptions>,
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
    /// For how long a transaction holds all of its locks besides.
    pub think: Duration,
}

impl Game {
    fn sorted(workload: &str, clients: usize) -> Game {
        Game { workload: workload.into(), clients, aborts: false, think: Duration::ZERO }
    }
}

/// What is to be otherwise than [`ContestOptions::whole`] or [`ContestOptions::short`] have it. Some workloads or
/// services alone are measured without the papers' headlines.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// These workloads instead, locks in order; empty: as they are.
    pub workloads: Vec<String>,
    /// These services alone; empty: every one that there is.
    pub services: Vec<String>,
    /// So many clients in all workloads.
    pub clients: Option<usize>,
    /// So many rounds.
    pub rounds: Option<u32>,
    /// Think times, each of which every workload is run with; empty: none.
    pub thinks: Vec<Duration>,
}

/// So many clients everywhere: each needs a process of PostgreSQL, and FissLock has as many for single locks and TATP.
const CLIENTS: usize = 160;

impl ContestOptions {
    /// Every service, three rounds: an hour and a quarter ([`ContestOptions::expected`]).
    #[must_use]
    pub fn whole(wayside: PathBuf) -> ContestOptions {
        let workloads = [
            // FissLock 7.3.
            "update-heavy-uniform",
            "update-heavy-zipf",
            "read-mostly-uniform",
            "read-mostly-zipf",
            "read-only-uniform",
            "read-only-zipf",
            // NetLock 6.2, by contention.
            "shared",
            "exclusive-55k",
            "exclusive-4k",
            "exclusive-500",
            // FissLock 7.5.
            "hot-spot",
            // FissLock's two, and NetLock's.
            "tatp",
            "tpcc",
            "tpcc-rows-low",
            "tpcc-rows-high",
            // Others' transactions.
            "smallbank",
            "ycsb-t-0.80",
            "ycsb-t-0.99",
            "banking-redis",
        ];
        // One client of each node first: what a lock takes where nobody waits for a processor.
        let mut games = vec![Game::sorted("update-heavy-uniform", 2)];
        games.extend(workloads.map(|workload| Game::sorted(workload, CLIENTS)));
        games.push(Game { aborts: true, ..Game::sorted("tpcc-rows-high", CLIENTS) });
        let measured = Duration::from_millis(1_500);
        let papers = Some(papers(6_000, 1_500));
        ContestOptions { wayside, games, services: Vec::new(), rounds: 3, measured, nodes: 2, papers }
    }

    /// Few clients, three workloads, once: some minutes, most of them for servers to start.
    #[must_use]
    pub fn short(wayside: PathBuf) -> ContestOptions {
        let games = ["update-heavy-zipf", "tpcc-high", "banking-redis-1k"].map(|workload| Game::sorted(workload, 16));
        let measured = Duration::from_millis(400);
        let papers = Some(papers(500, 0));
        ContestOptions { wayside, games: games.into(), services: Vec::new(), rounds: 1, measured, nodes: 2, papers }
    }

    /// The same, as somebody wishes.
    #[must_use]
    pub fn with(mut self, wishes: &Wishes) -> ContestOptions {
        if !wishes.workloads.is_empty() {
            let clients = self.games.iter().map(|game| game.clients).max().unwrap_or(1);
            self.games = wishes.workloads.iter().map(|workload| Game::sorted(workload, clients)).collect();
        }
        if let Some(clients) = wishes.clients {
            self.games.iter_mut().for_each(|game| game.clients = clients);
        }
        if !wishes.thinks.is_empty() {
            let with_each = |game: Game| wishes.thinks.iter().map(move |&think| Game { think, ..game.clone() });
            self.games = self.games.into_iter().flat_map(with_each).collect();
        }
        self.rounds = wishes.rounds.unwrap_or(self.rounds);
        self.services.clone_from(&wishes.services);
        // Whoever asks for some of it is not to wait for what has none of that.
        if !wishes.workloads.is_empty() || !wishes.services.is_empty() {
            self.papers = None;
        }
        self
    }

    /// How long all of it takes about, where every service that is asked for is installed.
    #[must_use]
    pub fn expected(&self) -> Duration {
        let services: Vec<&str> = match self.services.as_slice() {
            [] => peers::names().collect(),
            some => some.iter().map(String::as_str).collect(),
        };
        let round: Duration = services.iter().map(|name| peers::warm_up(name, self.warm_up()) + self.measured).sum();
        let (games, count) = (self.games.len() as u32, services.len() as u32);
        // Filled once, and counted before the first run and after each.
        let accounts: u64 =
            self.games.iter().filter_map(|game| named(&game.workload)).map(|named| named.accounts()).sum();
        let counts = COUNT_OF_ONE * accounts as u32 * (count * self.rounds + 2);
        START_OF_ONE * count + (round + BESIDE * count) * games * self.rounds + counts
    }

    /// What is to be run and how long that takes about, for people.
    #[must_use]
    pub fn plan(&self) -> String {
        let services = if self.services.is_empty() { peers::names().count() } else { self.services.len() };
        let (games, rounds) = (self.games.len(), self.rounds);
        let time = approximate(self.expected());
        let papers = if self.papers.is_some() { " The papers' headlines, by a model, come then." } else { "" };
        format!("{games} workloads, {services} services, {rounds} rounds: {time} if all of them are installed.{papers}")
    }

    fn warm_up(&self) -> Duration {
        self.measured / 5
    }
}

/// Shorter runs than a record's, of one seed: some digits fewer, in some minutes.
fn papers(requests: u64, varied: u64) -> CalibratedOptions {
    CalibratedOptions { ids: Vec::new(), requests, varied, seeds: 1, packets: newest_packets() }
}

/// What a server takes to start, on average, and a run besides what it is told: for connections, and for what is still
/// under way at its end. On two processors.
const START_OF_ONE: Duration = Duration::from_millis(1_500);
const BESIDE: Duration = Duration::from_millis(750);
/// Of an account.
const COUNT_OF_ONE: Duration = Duration::from_micros(2);

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
    let mut progress = Progress { began, all: stages.len() as u32 * options.rounds, done: 0 };
    for (game, named) in &stages {
        let workload = named.build();
        let bank = match named.has_accounts.then(|| Bank::open(workload.locks())).transpose() {
            Ok(bank) => bank,
            Err(why) => {
                contest.notes.push(format!("{} is left out: {why}.", named.name));
                progress.all -= options.rounds;
                continue;
            }
        };
        let index = contest.played.len();
        contest.played.push(played(game, named, &*workload, bank.as_ref(), options));
        let course = course(game, named, &*workload, bank.as_ref(), options);
        for round in 0..options.rounds {
            progress.show(named.name, round);
            let mut order: Vec<&Box<dyn Contestant>> = contestants.iter().collect();
            order.rotate_left(round as usize % contestants.len().max(1));
            for contestant in order {
                let load = knobs::load();
                let name = &contestant.about().name;
                let outcome = contestant.run(&Course { warm_up: peers::warm_up(name, course.warm_up), ..course });
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

fn played(
    game: &Game,
    named: &Named,
    workload: &dyn Workload,
    bank: Option<&Bank>,
    options: &ContestOptions,
) -> Played {
    Played {
        workload: named.name.into(),
        about: named.about.into(),
        locks: workload.locks(),
        clients: game.clients,
        clients_of_paper: named.clients,
        execution_us: named.execution.as_micros() as u64,
        think_us: game.think.as_micros() as u64,
        data: bank.map(|bank| format!("an account for each lock, {}", bank.about())),
        abort_ms: if game.aborts { named.abort.map(|abort| abort.as_millis() as u64) } else { None },
        is_sorted: !game.aborts,
        measured_ms: options.measured.as_millis() as u64,
    }
}

fn course<'w>(
    game: &Game,
    named: &Named,
    workload: &'w dyn Workload,
    bank: Option<&'w Bank>,
    options: &ContestOptions,
) -> Course<'w> {
    Course {
        workload,
        execution: named.execution,
        think: game.think,
        bank,
        abort: if game.aborts { named.abort } else { None },
        is_sorted: !game.aborts,
        nodes: options.nodes.min(game.clients),
        clients: game.clients,
        seed: SEED,
        warm_up: options.warm_up(),
        measured: options.measured,
    }
}

/// Every workload's name, and what it is.
#[must_use]
pub fn workload_list() -> String {
    workloads::all().iter().map(|named| format!("{:<20} {}\n", named.name, named.about)).collect()
}

/// How far it is and how long it may still take, on a terminal; nothing anywhere else.
struct Progress {
    began: Instant,
    all: u32,
    done: u32,
}

impl Progress {
    fn show(&self, workload: &str, round: u32) {
        if std::io::stderr().is_terminal() {
            let percent = 100 * self.done / self.all.max(1);
            let each = self.began.elapsed() / self.done.max(1);
            let left = each * (self.all - self.done);
            let left = if self.done > 0 { format!("{} left", approximate(left)) } else { String::new() };
            // Whoever closed it does not want to know.
            let _ = write!(std::io::stderr(), "\r{workload:<24} round {:<3} {percent:>3} %  {left:<24}", round + 1);
        }
    }
}

fn approximate(time: Duration) -> String {
    match time.as_secs().div_ceil(60) {
        minutes @ 2.. => format!("about {minutes} minutes"),
        _ => format!("about {} seconds", time.as_secs()),
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if std::io::stderr().is_terminal() {
            let _ = write!(std::io::stderr(), "\r{:<64}\r", "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Services of a build that has all.
    const WITH_PEERS: u32 = 21;

    #[test]
    fn wishes_change_what_they_name_and_nothing_else() {
        let whole = || ContestOptions::whole("wayside".into());
        let same = whole().with(&Wishes::default());
        assert_eq!((same.games.len(), same.rounds, same.services.len()), (whole().games.len(), whole().rounds, 0));
        assert!(same.papers.is_some(), "a page is of both, unless somebody wants some of it");
        let thinks = [0, 5].map(Duration::from_micros);
        let wishes = Wishes {
            workloads: vec!["tatp".into(), "tpcc-low".into()],
            services: vec!["wayside-userspace".into()],
            clients: Some(7),
            rounds: Some(2),
            thinks: thinks.into(),
        };
        let some = whole().with(&wishes);
        let games: Vec<_> = some.games.iter().map(|game| (game.workload.as_str(), game.clients, game.think)).collect();
        let [none, five] = thinks;
        assert_eq!(games, [("tatp", 7, none), ("tatp", 7, five), ("tpcc-low", 7, none), ("tpcc-low", 7, five)]);
        assert_eq!((some.rounds, some.services.len(), some.papers.is_none()), (2, 1, true));
        let (long, short) = (whole().expected(), some.expected());
        assert!(short >= (some.measured + some.warm_up()) * 8 && short < long, "{short:?} of {long:?}");
    }

    #[test]
    fn the_whole_has_every_papers_benchmarks_as_they_have_them_and_takes_an_hour_and_a_quarter() {
        let whole = ContestOptions::whole("wayside".into());
        let is_run = |name: &str| whole.games.iter().any(|game| game.workload == name);
        for kind in ["update-heavy", "read-mostly", "read-only"] {
            assert!(is_run(&format!("{kind}-uniform")) && is_run(&format!("{kind}-zipf")), "{kind}");
        }
        for name in ["shared", "tpcc", "tpcc-rows-low", "tpcc-rows-high", "smallbank", "ycsb-t-0.80", "ycsb-t-0.99"] {
            assert!(is_run(name), "{name}");
        }
        assert!(whole.games.iter().filter(|game| game.workload.starts_with("exclusive-")).count() > 2, "contention");
        // With all services: those that are not built in would have their share.
        let built = peers::names().count() as u32;
        let all = whole.expected() * WITH_PEERS / built;
        assert!(all > Duration::from_secs(60 * 60) && all < Duration::from_secs(85 * 60), "{all:?}");
    }

    /// A curve's points are workloads of their own: how far locks, or the objects under each, can go.
    #[test]
    fn lock_scale_and_granularity_can_be_asked_for_by_name() {
        let curve = ["scale-2m", "scale-5m", "scale-10m", "scale-100m", "granularity-1k", "granularity-1m-zipf"];
        let wishes = Wishes { workloads: curve.map(str::to_owned).into(), ..Wishes::default() };
        let options = ContestOptions::short("wayside".into()).with(&wishes);
        let locks: Vec<u64> = options.games.iter().map(|game| named(&game.workload).unwrap().build().locks()).collect();
        assert_eq!(locks, [2_000_000, 5_000_000, 10_000_000, 100_000_000, 1_000, 1_000_000]);
    }

    #[test]
    fn every_workload_that_is_run_is_in_the_catalogue() {
        for options in [ContestOptions::whole("wayside".into()), ContestOptions::short("wayside".into())] {
            assert!(options.games.iter().all(|game| named(&game.workload).is_some()), "{:?}", options.games);
        }
    }
}
