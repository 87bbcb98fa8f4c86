//! Keys and values beside the stores that people use today for them: etcd and ZooKeeper with three members each, on the
//! same machine, in turns.
//!
//! * `stores/`: each store as real servers, and a client of it.
//! * `echoes.rs`: at the hook, against bare ways through as many switches; and how length and number of values matter.
//! * `driver.rs` reads or writes for a while; `failover.rs` looks at answers over time while a switch dies; `record.rs`
//!   has what comes out, and shows it; `plot.rs` draws.
//!
//! In a round every store is read and written by one client, and by many; the next round begins with the next store.
//! All servers stay up, and have nothing to do while others are measured but their heartbeats.

mod driver;
#[cfg(feature = "xdp")]
mod echoes;
mod failover;
mod plot;
mod record;
mod stores;

pub(crate) use failover::Failover;
pub(crate) use plot::groups;
pub use record::{Keys, put_keys};

use crate::Error;
use crate::knobs::{self, Machine};
use crate::recovery;
use driver::{Does, Load};
use record::Run;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use stores::{Conditions, Entry, Store};

/// What to measure.
#[derive(Clone, Debug)]
pub struct KeysOptions {
    /// The binary `wayside`, whose switches take part.
    pub wayside: PathBuf,
    /// Names of stores; empty: every one that there is.
    pub stores: Vec<String>,
    /// How often everything is measured.
    pub rounds: u32,
    /// How long a run is measured, after a warm-up of a fifth of that.
    pub measured: Duration,
    /// Keys that are read and written, each as often as any other.
    pub keys: usize,
    /// Of the runs with many.
    pub clients: usize,
    /// How long each comparison with echoes at the hook takes, where that is built in; 0: none.
    pub against_echoes: Duration,
    /// Keys of the stores that are compared with each other, each beside its echo.
    pub sizes: Vec<usize>,
    /// Numbers of groups with which a switch is killed, each once.
    pub failovers: Vec<u16>,
    /// Keys that are there then.
    pub failover_keys: usize,
    /// How long answers are counted before it is killed.
    pub before: Duration,
    /// And from then on.
    pub after: Duration,
}

impl KeysOptions {
    /// Every store, five rounds: some minutes.
    #[must_use]
    pub fn whole(wayside: PathBuf) -> KeysOptions {
        let measured = Duration::from_secs(1);
        let (before, after) = (Duration::from_secs(1), Duration::from_secs(8));
        KeysOptions {
            wayside,
            stores: Vec::new(),
            rounds: 5,
            measured,
            keys: 10_000,
            clients: 64,
            against_echoes: Duration::from_secs(10),
            sizes: vec![1_000, 100_000, 10_000_000],
            failovers: vec![1, 100],
            failover_keys: 10_000,
            before,
            after,
        }
    }

    /// Everything once, with as many keys and clients, but for 10 million keys, which take minutes to fill in: two
    /// minutes.
    #[must_use]
    pub fn brief(wayside: PathBuf) -> KeysOptions {
        KeysOptions {
            rounds: 1,
            measured: Duration::from_millis(500),
            against_echoes: Duration::from_secs(3),
            sizes: vec![1_000, 100_000, 1_000_000],
            after: Duration::from_secs(4),
            ..KeysOptions::whole(wayside)
        }
    }

    /// Once, with few keys: most of it for servers to start.
    #[must_use]
    pub fn short(wayside: PathBuf) -> KeysOptions {
        let measured = Duration::from_millis(300);
        let (before, after) = (Duration::from_millis(300), Duration::from_secs(3));
        KeysOptions {
            wayside,
            stores: Vec::new(),
            rounds: 1,
            measured,
            keys: 200,
            clients: 16,
            against_echoes: Duration::from_millis(300),
            sizes: vec![100, 1_000],
            failovers: vec![10],
            failover_keys: 100,
            before,
            after,
        }
    }
}

/// Threads of clients, where there are many.
const THREADS: usize = 2;

/// Measures. A store that is not installed, and a run that fails, are in the record.
///
/// # Errors
/// If a name is unknown, or a server does not start.
pub fn run_keys(options: &KeysOptions) -> Result<Keys, Error> {
    let began = Instant::now();
    let mut keys = Keys::new(Machine::look(), options);
    let stores = start_all(options, &mut keys)?;
    for store in &stores {
        tell(&format!("{}: {} keys", store.about().name, options.keys));
        store.fill(options.keys)?;
    }
    for round in 0..options.rounds {
        let mut order: Vec<&Box<dyn Store>> = stores.iter().collect();
        order.rotate_left(round as usize % stores.len().max(1));
        for store in order {
            tell(&format!("round {} of {}: {}", round + 1, options.rounds, store.about().name));
            for (does, clients) in
                [(Does::Read, 1), (Does::Write, 1), (Does::Read, options.clients), (Does::Write, options.clients)]
            {
                let load = Load {
                    does,
                    keys: options.keys,
                    threads: clients.min(THREADS),
                    clients,
                    warm_up: options.measured / 5,
                    measured: options.measured,
                    seed: u64::from(round),
                };
                let before = knobs::load();
                let outcome = store.run(&load);
                keys.runs.push(Run::of(&store.about().name, does, clients, round, before, outcome));
            }
        }
    }
    drop(stores);
    #[cfg(feature = "xdp")]
    if options.stores.is_empty() && !options.against_echoes.is_zero() {
        match echoes::measure(options, &mut keys.notes) {
            Ok(modes) => keys.modes = modes,
            Err(why) => keys.failures.push(format!("against echoes: {why}")),
        }
    }
    if recovery::switches::Etcd::version().is_none() {
        keys.notes.push("no switch was killed: etcd is not installed, in which chains have their records.".into());
    } else if options.stores.is_empty() {
        let span = failover::Span { before: options.before, after: options.after };
        for &groups in &options.failovers {
            tell(&format!("a switch dies: {}", plot::groups(groups)));
            match failover::record(&options.wayside, groups, options.failover_keys, span) {
                Ok(timeline) => keys.timelines.push(timeline),
                Err(why) => keys.failures.push(format!("a switch of {} dies: {why}", plot::groups(groups))),
            }
        }
    }
    tell("");
    keys.end(began.elapsed());
    Ok(keys)
}

fn start_all(options: &KeysOptions, keys: &mut Keys) -> Result<Vec<Box<dyn Store>>, Error> {
    let conditions = Conditions { wayside: &options.wayside, keys: options.keys, threads: THREADS };
    let names: Vec<String> = match options.stores.as_slice() {
        [] => stores::names().map(String::from).collect(),
        some => some.to_vec(),
    };
    let mut started = Vec::new();
    for name in names {
        tell(&format!("starting {name}"));
        match stores::start(&name, &conditions)? {
            Entry::Runs(store) => {
                keys.stores.push(store.about().clone());
                started.push(store);
            }
            Entry::LeftOut(why) => keys.notes.push(format!("{name} was left out: {why}.")),
        }
    }
    Ok(started)
}

/// What is going on, on a terminal.
fn tell(what: &str) {
    let mut err = std::io::stderr();
    if err.is_terminal() {
        let _ = write!(err, "\r\x1b[K{what}");
    }
}
