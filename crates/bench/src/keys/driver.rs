//! Reads or writes keys for a while: a thread or two with clients as tasks on them, each with one request under way.

use crate::Error;
use crate::phases::{PATIENCE, Phases, Span, Times};
use futures_util::future::try_join_all;
use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of a value: as many as a key keeps.
pub(super) const VALUE: usize = 128;

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
    pub(super) times: Times,
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

/// Runs it. `enter` brings a thread to its place, `connect` its clients to the store; `servers` are the store's
/// processes.
pub(super) fn drive<C: Client>(
    load: &Load,
    servers: &[u32],
    enter: impl Fn(Place) + Sync,
    connect: impl AsyncFn(Place) -> Result<C, Error> + Sync,
) -> Result<Outcome, Error> {
    let span = Span { warm_up: load.warm_up, measured: load.measured };
    let (tallies, times) = Phases::new().drive(load.threads, span, servers, |phases, thread| {
        let clients = load.clients / load.threads + usize::from(thread < load.clients % load.threads);
        let place = Place { thread, clients };
        enter(place);
        let tally = RefCell::new(empty());
        phases.run(async {
            let client = connect(place).await?;
            phases.connected().await;
            let run = |number| run_client(load, phases, place, number, &client, &tally);
            try_join_all((0..place.clients).map(run)).await.map(drop)
        });
        tally.into_inner()
    })?;
    let took = tallies.into_iter().fold(empty(), |all, one| all + one);
    Ok(Outcome { took, times })
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, PATIENCE.as_nanos() as u64, 3).expect("bounds that fit")
}

/// One client: a request after the other, to the end of the run.
async fn run_client<C: Client>(
    load: &Load,
    phases: &Phases,
    place: Place,
    number: usize,
    client: &C,
    tally: &RefCell<Histogram<u64>>,
) -> Result<(), Error> {
    let mut random = ChaCha8Rng::seed_from_u64(load.seed << 32 | (place.thread << 16 | number) as u64);
    let mut value = [b'.'; VALUE];
    while !phases.is_over() {
        let key = random.random_range(0..load.keys);
        let began = Instant::now();
        match load.does {
            Does::Read => client.read(key).await?,
            Does::Write => {
                value[..8].copy_from_slice(&random.random::<u64>().to_be_bytes());
                client.write(key, &value).await?;
            }
        }
        if phases.counts() {
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
