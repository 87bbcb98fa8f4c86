//! One process of a host: a session, and threads that ask for locks, or for keys, in every way there is, and write down
//! what they are told.

use crate::history::Writer;
use crate::{Service, keys, locks};
use fastrand::Rng;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use wayside_client::{Error, Session, Wait};

/// How a worker is started. The soak writes these, nobody else.
#[derive(Clone, Debug, clap::Args)]
pub struct WorkerArgs {
    /// Directory of histories
    #[arg(long)]
    pub histories: PathBuf,
    /// What begins the names of its histories
    #[arg(long)]
    pub name: String,
    #[arg(long, default_value = "locks")]
    pub service: Service,
    #[arg(long)]
    pub seed: u64,
    #[arg(long)]
    pub names: u64,
    /// A name that this worker asks for most often, and others now and then
    #[arg(long)]
    pub favourite: u64,
    /// Locks that it keeps, though it does not hold them
    #[arg(long)]
    pub keep: usize,
    #[arg(long)]
    pub threads: u64,
    /// Lease of sessions, in milliseconds
    #[arg(long)]
    pub lease_ms: u64,
}

/// For a switch that is being replaced, or a network that is away.
const PATIENCE: Duration = Duration::from_secs(10);

/// Works until the standard input ends.
pub fn run(args: &WorkerArgs) -> Result<(), String> {
    let stop = Arc::new(AtomicBool::new(false));
    let watched = stop.clone();
    thread::spawn(move || {
        // Nothing is ever written there.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        watched.store(true, Relaxed);
    });
    let session = loop {
        match Session::builder().keep(args.keep).wait(Wait::Block).patience(PATIENCE).connect() {
            Ok(session) => break session,
            Err(Error::Unavailable { .. }) if !stop.load(Relaxed) => {}
            Err(_) if stop.load(Relaxed) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        }
    };
    let operations = AtomicU64::new(0);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..args.threads)
            .map(|index| {
                let path = history_of(&args.histories, &args.name, index);
                let (session, stop, operations) = (&session, &stop, &operations);
                scope.spawn(move || {
                    let history = Writer::new(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                    let random = Rng::with_seed(args.seed << 8 | index);
                    Part { args, session, history, random, operations }.work(stop)
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?)
    })
}

fn history_of(directory: &Path, name: &str, thread: u64) -> PathBuf {
    directory.join(format!("{name}-{thread}.jsonl"))
}

/// What a thread has.
pub struct Part<'a> {
    pub args: &'a WorkerArgs,
    pub session: &'a Session,
    pub history: Writer,
    pub random: Rng,
    pub operations: &'a AtomicU64,
}

impl Part<'_> {
    /// One operation after the other, with short pauses.
    fn work(mut self, stop: &AtomicBool) -> Result<(), String> {
        while !stop.load(Relaxed) {
            let operation = self.operations.fetch_add(1, Relaxed);
            match self.args.service {
                Service::Locks => locks::asker::one(&mut self, operation),
                Service::Keys => keys::asker::one(&mut self, operation),
            }
            .map_err(|error| format!("a history can't be written: {error}"))?;
            thread::sleep(Duration::from_micros(self.random.u64(..3_000)));
        }
        Ok(())
    }
}

/// An error's kind.
pub fn word_of(error: &Error) -> String {
    let words = error.to_string();
    words.split([':', ';']).next().unwrap_or("?").to_owned()
}
