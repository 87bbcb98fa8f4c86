//! Reads or writes keys for a while: a thread or two with clients as tasks on them, each with one request under way.

use crate::{Error, cost};
use futures_util::future::try_join_all;
use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of a value: as many as a key keeps.
pub(super) const VALUE: usize = 128;
/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(30);

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Does {
    Read,
    Write,
}

/// What to do, and how much of it at a time.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) does: Does,
    pub(super) keys: usize,
    pub(super) threads: usize,
    /// Of all threads.
    pub(super) clients: usize,
    pub(super) warm_up: Duration,
    pub(super) measured: Duration,
    pub(super) seed: u64,
}

/// What came of it.
pub(super) struct Outcome {
    /// From question to answer, nanoseconds.
    pub(super) took: Histogram<u64>,
    pub(super) measured: Duration,
    pub(super) client_cpu: Duration,
    pub(super) server_cpu: Duration,
}

/// One thread's way to a store, for all of its clients.
pub(super) trait Client {
    /// Reads a key, which has a value.
    async fn read(&self, key: usize) -> Result<(), Error>;

    /// Writes a key; done when the store's own library says so.
    async fn write(&self, key: usize, value: &[u8; VALUE]) -> Result<(), Error>;
}

/// A thread's place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) thread: usize,
    pub(super) clients: usize,
}

const CONNECTING: u8 = 0;
const WARMING: u8 = 1;
const MEASURING: u8 = 2;
const OVER: u8 = 3;

struct Shared<'l> {
    load: &'l Load,
    phase: AtomicU8,
    connected: AtomicUsize,
    failure: Mutex<Option<Error>>,
}

impl Shared<'_> {
    fn is_in(&self, phase: u8) -> bool {
        self.phase.load(SeqCst) == phase
    }

    /// The first failure is kept; everybody ends.
    fn fail(&self, why: Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.phase.store(OVER, SeqCst);
    }
}

/// Runs it. `enter` brings a thread to its place, `connect` its clients to the store; `servers` are the store's
/// processes.
pub(super) fn drive<C: Client>(
    load: &Load,
    servers: &[u32],
    enter: impl Fn(Place) + Sync,
    connect: impl AsyncFn(Place) -> Result<C, Error> + Sync,
) -> Result<Outcome, Error> {
    let shared = Shared { load, phase: CONNECTING.into(), connected: 0.into(), failure: Mutex::new(None) };
    let (tallies, times) = thread::scope(|scope| {
        let threads: Vec<_> = (0..load.threads)
            .map(|thread| {
                let clients = load.clients / load.threads + usize::from(thread < load.clients % load.threads);
                let place = Place { thread, clients };
                let (shared, enter, connect) = (&shared, &enter, &connect);
                scope.spawn(move || {
                    enter(place);
                    run_thread(shared, place, connect)
                })
            })
            .collect();
        let times = lead(&shared, servers);
        let tallies: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        (tallies, times)
    });
    let mut took = empty();
    for tally in tallies {
        match tally {
            Ok(tally) => took += tally,
            Err(_) => shared.fail("a thread of clients panicked".into()),
        }
    }
    if let Some(why) = shared.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(why);
    }
    let (measured, client_cpu, server_cpu) = times;
    Ok(Outcome { took, measured, client_cpu, server_cpu })
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, PATIENCE.as_nanos() as u64, 3).expect("bounds that fit")
}

/// Leads from phase to phase; how long it was measured, and the processor time of clients and servers meanwhile.
fn lead(shared: &Shared<'_>, servers: &[u32]) -> (Duration, Duration, Duration) {
    let began = Instant::now();
    while shared.connected.load(SeqCst) < shared.load.threads && !shared.is_in(OVER) {
        if began.elapsed() > PATIENCE {
            shared.fail("the store does not take all clients".into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    // A failure may have ended it, and stays.
    let go_on = |from, to| shared.phase.compare_exchange(from, to, SeqCst, SeqCst).is_ok();
    if !go_on(CONNECTING, WARMING) {
        return Default::default();
    }
    thread::sleep(shared.load.warm_up);
    let before = (cost::own(), cost::of_processes(servers));
    let counted = Instant::now();
    go_on(WARMING, MEASURING);
    thread::sleep(shared.load.measured);
    go_on(MEASURING, OVER);
    let measured = counted.elapsed();
    (measured, cost::own() - before.0, cost::of_processes(servers).saturating_sub(before.1))
}

fn run_thread<C: Client>(
    shared: &Shared<'_>,
    place: Place,
    connect: &impl AsyncFn(Place) -> Result<C, Error>,
) -> Histogram<u64> {
    let tally = RefCell::new(empty());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
        let done = runtime.block_on(async {
            let client = connect(place).await?;
            shared.connected.fetch_add(1, SeqCst);
            while shared.is_in(CONNECTING) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            try_join_all((0..place.clients).map(|number| run_client(shared, place, number, &client, &tally))).await
        });
        runtime.shutdown_timeout(Duration::from_millis(100));
        done
    });
    if let Err(why) = outcome {
        shared.fail(why);
    }
    tally.into_inner()
}

/// One client: a request after the other, to the end of the run.
async fn run_client<C: Client>(
    shared: &Shared<'_>,
    place: Place,
    number: usize,
    client: &C,
    tally: &RefCell<Histogram<u64>>,
) -> Result<(), Error> {
    let load = shared.load;
    let mut random = ChaCha8Rng::seed_from_u64(load.seed << 32 | (place.thread << 16 | number) as u64);
    let mut value = [b'.'; VALUE];
    while !shared.is_in(OVER) {
        let key = random.random_range(0..load.keys);
        let began = Instant::now();
        match load.does {
            Does::Read => client.read(key).await?,
            Does::Write => {
                value[..8].copy_from_slice(&random.random::<u64>().to_be_bytes());
                client.write(key, &value).await?;
            }
        }
        if shared.is_in(MEASURING) {
            tally.borrow_mut().saturating_record(began.elapsed().as_nanos() as u64);
        }
    }
    Ok(())
}

/// Writes every key once, some at a time.
pub(super) fn fill<C: Client>(
    keys: usize,
    enter: impl FnOnce() + Send,
    connect: impl AsyncFn() -> Result<C, Error> + Sync,
) -> Result<(), Error> {
    const AT_A_TIME: usize = 32;
    let filled = thread::scope(|scope| {
        let filling = scope.spawn(|| {
            enter();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| error.to_string())?;
            runtime.block_on(async {
                let client = connect().await?;
                for first in (0..keys).step_by(AT_A_TIME) {
                    let some = first..(first + AT_A_TIME).min(keys);
                    try_join_all(some.map(|key| client.write(key, &[b'.'; VALUE]))).await?;
                }
                Ok(())
            })
        });
        filling.join()
    });
    filled.unwrap_or_else(|_| Err("a client panicked".into()))
}
