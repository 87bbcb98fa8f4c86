//! One process of a host: a session, and threads that ask for locks of few names in every way there is, and write down
//! what they are told.

use crate::history::{self, Event, Writer};
use fastrand::Rng;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use wayside_client::{Error, Guard, Guards, Session, Wait};

/// How a worker is started. The soak writes these, nobody else.
#[derive(Clone, Debug, clap::Args)]
pub struct WorkerArgs {
    /// Directory of histories
    #[arg(long)]
    pub histories: PathBuf,
    /// What begins the names of its histories
    #[arg(long)]
    pub name: String,
    #[arg(long)]
    pub seed: u64,
    #[arg(long)]
    pub names: u64,
    #[arg(long)]
    pub threads: u64,
    /// Lease of sessions, in milliseconds
    #[arg(long)]
    pub lease_ms: u64,
}

/// For a switch that is being replaced, or a network that is away.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at a hold.
const LOOK: Duration = Duration::from_millis(5);

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
        match Session::builder().wait(Wait::Block).patience(PATIENCE).connect() {
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
                    Asker { args, session, history, random, operations }.work(stop)
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?)
    })
}

fn history_of(directory: &Path, name: &str, thread: u64) -> PathBuf {
    directory.join(format!("{name}-{thread}.jsonl"))
}

struct Asker<'a> {
    args: &'a WorkerArgs,
    session: &'a Session,
    history: Writer,
    random: Rng,
    operations: &'a AtomicU64,
}

/// What is held.
enum Held {
    One(Guard),
    Many(Guards),
}

impl Held {
    fn tokens(&self) -> Vec<u64> {
        match self {
            Held::One(guard) => vec![guard.token().0],
            Held::Many(guards) => guards.each().iter().map(|guard| guard.token().0).collect(),
        }
    }

    fn deadline(&self) -> Instant {
        match self {
            Held::One(guard) => guard.deadline(),
            Held::Many(guards) => guards.deadline().expect("there are some"),
        }
    }
}

impl Asker<'_> {
    fn work(mut self, stop: &AtomicBool) -> Result<(), String> {
        while !stop.load(Relaxed) {
            let operation = self.operations.fetch_add(1, Relaxed);
            self.one(operation).map_err(|error| format!("a history can't be written: {error}"))?;
            thread::sleep(Duration::from_micros(self.random.u64(..3_000)));
        }
        Ok(())
    }

    fn one(&mut self, operation: u64) -> io::Result<()> {
        let several = self.random.u8(..100) < 15;
        let exclusive = self.random.u8(..100) < 65;
        let mut names: Vec<u64> =
            (0..if several { 3 } else { 1 }).map(|_| self.random.u64(1..=self.args.names)).collect();
        self.history.write(history::now(), operation, Event::Ask { names: names.clone(), exclusive })?;
        let asked = self.ask(&names, several, exclusive);
        let held_at = history::now();
        let mut held = match asked {
            Ok(held) => held,
            Err(error) => return self.history.write(held_at, operation, Event::Denied { why: word_of(&error) }),
        };
        if let Held::Many(guards) = &held {
            // As they were taken: each name once.
            let order: Vec<u64> = guards.each().iter().filter_map(|guard| guard.name().parse().ok()).collect();
            if order != names {
                names = order;
                self.history.write(held_at, operation, Event::Ask { names, exclusive })?;
            }
        }
        let mut until = history::at(held.deadline());
        self.history.write(held_at, operation, Event::Held { tokens: held.tokens(), until })?;
        if !self.keep(&mut until, &held) {
            return self.history.write(history::now(), operation, Event::Lost { until });
        }
        if let Held::One(guard) = &mut held
            && exclusive
            && self.random.u8(..100) < 8
        {
            let at = history::now();
            if at >= history::at(guard.deadline()) {
                return self.history.write(at, operation, Event::Lost { until });
            }
            self.history.write(at, operation, Event::Downgrade)?;
            if guard.downgrade().is_err() || !self.keep(&mut until, &held) {
                return self.history.write(history::now(), operation, Event::Lost { until: until.max(at) });
            }
        }
        let deadline = history::at(held.deadline());
        let at = history::now();
        let event = if at < deadline { Event::GiveBack } else { Event::Lost { until } };
        self.history.write(at, operation, event)?;
        drop(held);
        Ok(())
    }

    fn ask(&mut self, names: &[u64], several: bool, exclusive: bool) -> Result<Held, Error> {
        let patience = Duration::from_millis(self.random.u64(1..self.args.lease_ms * 3));
        let (tries, waits) = (self.random.u8(..100) < 20, self.random.u8(..100) < 60);
        if several {
            let mut request = self.session.lock_many(names.iter().copied());
            if !exclusive {
                request = request.shared();
            }
            return match tries {
                true => request.try_lock(),
                false if waits => request.wait(patience).acquire(),
                false => request.acquire(),
            }
            .map(Held::Many);
        }
        let mut request = self.session.lock(names[0]);
        if !exclusive {
            request = request.shared();
        }
        match tries {
            true => request.try_lock(),
            false if waits => request.wait(patience).acquire(),
            false => request.acquire(),
        }
        .map(Held::One)
    }

    /// Holds for a while. False: it is lost, and was held until `until` at least.
    fn keep(&mut self, until: &mut u64, held: &Held) -> bool {
        // Mostly briefly; rarely beyond a lease, which heartbeats then carry.
        let longest = if self.random.u8(..100) < 2 { 2_000 * self.args.lease_ms } else { 8_000 };
        let end = history::now() + self.random.u64(..longest);
        loop {
            let deadline = history::at(held.deadline());
            let now = history::now();
            if now >= deadline {
                return false;
            }
            *until = deadline;
            if now >= end {
                return true;
            }
            thread::sleep(LOOK.min(Duration::from_micros(end - now)));
        }
    }
}

fn word_of(error: &Error) -> String {
    let words = error.to_string();
    words.split([':', ';']).next().unwrap_or("?").to_owned()
}
