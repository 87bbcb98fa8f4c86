//! Who holds locks, and who goes on acquiring others meanwhile.

use super::switches::{Process, without_settings};
use crate::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use wayside_client::{Builder, Error as LockError, Guard, Guards, Session, Wait};

/// Names of a call: eight packets.
const CALL: u64 = 256;
/// Locks that are awaited while the switch is away, and given back once it serves: the last is the last of all.
const PASSED_ON: u64 = 8;
/// Whoever waits longer for a lock waits in vain, and the trial has failed.
const PATIENCE: Duration = Duration::from_secs(90);
/// Locks that another node tries in vain.
const TRIED: u64 = 32;

/// Of sessions that are to outlive what breaks, however long that takes: what is measured is how long, not whether it
/// fits into the usual lease. Those that are to die have that one.
pub(super) const LONG: Duration = Duration::from_secs(60);

pub(super) fn connect(endpoints: &str) -> Result<Session, Error> {
    connected(endpoints, Session::builder().lease(LONG))
}

fn connected(endpoints: &str, session: Builder) -> Result<Session, Error> {
    let session = session.endpoint(endpoints).namespace("default").wait(Wait::Block);
    session.patience(Duration::from_secs(30)).connect().map_err(text)
}

fn text(error: LockError) -> Error {
    error.to_string()
}

/// A session of this process that holds the names from 0 on, each in a slot of its own.
pub(super) struct Holder {
    session: Session,
    count: u64,
    /// None while others have them.
    passed_on: Option<Guards>,
    kept: Vec<Guards>,
}

impl Holder {
    /// Takes `count` locks.
    pub(super) fn fill(endpoints: &str, count: u64) -> Result<Holder, Error> {
        Holder::fill_with(connect(endpoints)?, count)
    }

    fn fill_with(session: Session, count: u64) -> Result<Holder, Error> {
        let passed_on = session.lock_many(passed_on(count)).wait(PATIENCE).acquire().map_err(text)?;
        let mut others = (0..count).filter(|name| !is_passed_on(count, *name));
        let mut kept = Vec::new();
        loop {
            let names: Vec<u64> = others.by_ref().take(CALL as usize).collect();
            if names.is_empty() {
                break;
            }
            kept.push(session.lock_many(names).wait(PATIENCE).acquire().map_err(text)?);
        }
        Ok(Holder { session, count, passed_on: Some(passed_on), kept })
    }

    fn guards(&self) -> impl Iterator<Item = &Guard> {
        self.kept.iter().chain(&self.passed_on).flat_map(Guards::each)
    }

    /// Guards that are not valid any more.
    pub(super) fn lost(&self) -> u64 {
        self.count - self.guards().filter(|guard| !guard.is_lost()).count() as u64
    }

    /// Gives back what somebody awaits, which is done when `taken` has got it; takes it again once that has let it go.
    /// When it was passed on; an error if a token did not rise.
    pub(super) fn pass_on(&mut self, taker: Taker) -> Result<Instant, Error> {
        let mine = self.passed_on.take().ok_or("passed on already")?;
        let before = tokens(&mine);
        mine.release().map_err(text)?;
        let (at, between) = taker.taken()?;
        let mine = self.session.lock_many(passed_on(self.count)).wait(PATIENCE).acquire().map_err(text)?;
        let after = tokens(&mine);
        self.passed_on = Some(mine);
        let rises = |one: &[u64], other: &[u64]| one.iter().zip(other).all(|(one, other)| one < other);
        if between.len() != before.len() || !rises(&before, &between) || !rises(&between, &after) {
            return Err("a fencing token did not rise".into());
        }
        Ok(at)
    }

    /// Whether another session is refused all of some of the locks that this one keeps.
    pub(super) fn refuses(&self, other: &Session) -> Result<(), Error> {
        let mut kept = (0..self.count).filter(|name| !is_passed_on(self.count, *name));
        let step = (self.count / TRIED).max(1) as usize;
        let tried: Vec<u64> = kept.by_ref().step_by(step).collect();
        for name in tried {
            match other.lock(name).try_lock() {
                Err(LockError::Busy { .. }) => {}
                Ok(_) => return Err(format!("lock {name} has two holders")),
                Err(error) => return Err(format!("a try of lock {name}, which is held: {error}")),
            }
        }
        Ok(())
    }

    /// Gives all back; how many were its own to the end.
    pub(super) fn release(self) -> u64 {
        let Holder { passed_on, kept, .. } = self;
        let given = |guards: Guards| {
            let count = guards.each().len() as u64;
            if guards.release().is_ok() { count } else { 0 }
        };
        kept.into_iter().chain(passed_on).map(given).sum()
    }
}

/// The last one, and others in even distances before it.
fn passed_on(count: u64) -> Vec<u64> {
    (0..PASSED_ON).filter_map(|index| (count - 1).checked_sub(index * (count / PASSED_ON).max(1))).collect()
}

fn is_passed_on(count: u64, name: u64) -> bool {
    let back = count - 1 - name;
    let step = (count / PASSED_ON).max(1);
    back.is_multiple_of(step) && back / step < PASSED_ON
}

/// In the order of their names.
fn tokens(guards: &Guards) -> Vec<u64> {
    let mut tokens: Vec<(String, u64)> = guards.each().iter().map(|guard| (guard.name(), guard.token().0)).collect();
    tokens.sort_unstable();
    tokens.into_iter().map(|(_, token)| token).collect()
}

/// Another session that waits for the locks that the holder will pass on.
pub(super) struct Taker(JoinHandle<Result<(Instant, Vec<u64>), Error>>);

impl Taker {
    /// It asks now.
    pub(super) fn start(session: &Session, count: u64) -> Taker {
        let session = session.clone();
        Taker(thread::spawn(move || {
            let guards = session.lock_many(passed_on(count)).wait(PATIENCE).acquire().map_err(text)?;
            let at = Instant::now();
            let tokens = tokens(&guards);
            guards.release().map_err(text)?;
            Ok((at, tokens))
        }))
    }

    fn taken(self) -> Result<(Instant, Vec<u64>), Error> {
        self.0.join().unwrap_or_else(|_| Err("the one who waits panicked".into()))
    }
}

/// Takes all names from 0 on, a call after the other; when the last was there. They go with the session's end.
pub(super) fn take_all(session: Session, count: u64) -> Result<Instant, Error> {
    let holder = Holder::fill_with(session.clone(), count)?;
    let at = Instant::now();
    // Not one by one: what is measured next is not to wait for that.
    session.close();
    drop(holder);
    Ok(at)
}

/// Waits for one lock; when it came.
pub(super) fn wait_for(session: &Session, name: u64) -> JoinHandle<Result<Instant, Error>> {
    let session = session.clone();
    thread::spawn(move || {
        let guard = session.lock(name).wait(PATIENCE).acquire().map_err(text)?;
        let at = Instant::now();
        guard.release().map_err(text)?;
        Ok(at)
    })
}

/// A process of its own that holds locks, to be killed or stopped.
pub(super) struct HoldingProcess {
    process: Process,
    said: BufReader<ChildStdout>,
}

impl HoldingProcess {
    /// It holds `count` locks. Without a lifeline, its end is noticed by its lease, as on another host.
    pub(super) fn start(program: &Path, endpoint: &str, count: u64, lifeline: bool) -> Result<HoldingProcess, Error> {
        let mut command = Command::new(program);
        command.args(["bench", "hold", "--endpoint", endpoint, "--count", &count.to_string()]);
        without_settings(&mut command).stdin(Stdio::piped()).stdout(Stdio::piped());
        if !lifeline {
            command.env(wayside_client::SOCKET_VARIABLE, "/nowhere");
        }
        let mut process = Process::start(command)?;
        let said = process.child().stdout.take().ok_or("no pipe")?;
        let mut holding = HoldingProcess { process, said: BufReader::new(said) };
        let said = holding.line()?;
        if said == "held" { Ok(holding) } else { Err(format!("who was to hold {count} locks said {said:?}")) }
    }

    fn line(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        self.said.read_line(&mut line).map_err(|error| error.to_string())?;
        Ok(line.trim().to_owned())
    }

    pub(super) fn kill(&mut self) {
        self.process.kill();
    }

    pub(super) fn stop(&self) {
        self.process.signal(libc::SIGSTOP);
    }

    /// Lets it go on; how many of its guards are lost.
    pub(super) fn go_on(&mut self) -> Result<u64, Error> {
        self.process.signal(libc::SIGCONT);
        let asked = self.process.child().stdin.as_mut().map(|stdin| stdin.write_all(b"lost?\n"));
        asked.ok_or("no pipe")?.map_err(|error| error.to_string())?;
        self.line()?.parse().map_err(|_| "it did not say how many".into())
    }
}

/// The process that is killed or stopped: holds locks until its standard input ends, and says on every line how many it
/// has lost.
///
/// # Errors
/// If it does not get them.
pub fn hold(endpoint: &str, count: u64) -> Result<(), Error> {
    let holder = Holder::fill_with(connected(endpoint, Session::builder())?, count)?;
    // Its end is to be noticed by the lifeline, where it has one: that takes a millisecond to connect.
    thread::sleep(Duration::from_millis(20));
    println!("held");
    for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
        println!("{}", holder.lost());
    }
    Ok(())
}

/// When a lock was granted, and in which epoch of the switch.
pub(super) type Granted = (Instant, u32);

/// Threads of a session that acquire and release names that nobody else wants.
pub(super) struct Bystander {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Result<(), Error>>>,
}

struct Shared {
    session: Session,
    grants: Mutex<Vec<Granted>>,
    epoch: AtomicU32,
    over: AtomicBool,
    next: AtomicU64,
    /// Names are from here up to twice this.
    base: u64,
}

impl Bystander {
    /// `pause`: between one and the next; None: at once.
    pub(super) fn start(
        endpoints: &str,
        slots: u64,
        threads: usize,
        pause: Option<Duration>,
    ) -> Result<Bystander, Error> {
        let shared = Arc::new(Shared {
            session: connect(endpoints)?,
            grants: Mutex::new(Vec::with_capacity(1 << 20)),
            epoch: AtomicU32::new(0),
            over: AtomicBool::new(false),
            next: AtomicU64::new(0),
            base: slots / 2,
        });
        let run = |_| {
            let shared = shared.clone();
            thread::spawn(move || shared.run(pause))
        };
        let threads = (0..threads).map(run).collect();
        Ok(Bystander { shared, threads })
    }

    /// Of the newest grant.
    pub(super) fn epoch(&self) -> u32 {
        self.shared.epoch.load(Relaxed)
    }

    /// When that was.
    pub(super) fn latest(&self) -> Option<Instant> {
        self.shared.grants.lock().unwrap_or_else(PoisonError::into_inner).last().map(|(at, _)| *at)
    }

    /// All its grants, in order.
    pub(super) fn end(mut self) -> Result<Vec<Granted>, Error> {
        self.shared.over.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap_or_else(|_| Err("a bystander panicked".into()))?;
        }
        let mut grants = std::mem::take(&mut *self.shared.grants.lock().unwrap_or_else(PoisonError::into_inner));
        grants.sort_unstable();
        Ok(grants)
    }
}

impl Drop for Bystander {
    /// Where a trial has failed, nobody waits for its end.
    fn drop(&mut self) {
        self.shared.over.store(true, Relaxed);
    }
}

impl Shared {
    fn run(&self, pause: Option<Duration>) -> Result<(), Error> {
        while !self.over.load(Relaxed) {
            let name = self.base + self.next.fetch_add(1, Relaxed) % self.base;
            let guard = self
                .session
                .lock(name)
                .wait(PATIENCE)
                .acquire()
                .map_err(|error| format!("a bystander's acquire: {error}"))?;
            let epoch = guard.token().stamp().epoch;
            self.grants.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), epoch));
            self.epoch.fetch_max(epoch, Relaxed);
            guard.release().map_err(|error| format!("a bystander's release: {error}"))?;
            pause.into_iter().for_each(thread::sleep);
        }
        Ok(())
    }
}

/// The longest time between two grants that overlaps with this one.
pub(super) fn longest_gap(grants: &[Granted], from: Instant, to: Instant) -> Duration {
    let gaps = grants.windows(2).filter(|pair| pair[1].0 > from && pair[0].0 < to);
    gaps.map(|pair| pair[1].0 - pair[0].0).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_passed_on_is_what_is_left_out_of_the_rest() {
        for count in [1, 2, 8, 9, 100, 1_000] {
            let mut named: Vec<u64> = (0..count).filter(|name| is_passed_on(count, *name)).collect();
            named.reverse();
            assert_eq!(named, passed_on(count), "{count}");
            assert_eq!(named[0], count - 1);
        }
    }

    #[test]
    fn a_gap_counts_if_it_overlaps() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let grants: Vec<Granted> = [0, 10, 11, 31, 32].map(|ms| (at(ms), 1)).into();
        assert_eq!(longest_gap(&grants, at(5), at(12)), Duration::from_millis(20));
        assert_eq!(longest_gap(&grants, at(5), at(11)), Duration::from_millis(10));
        assert_eq!(longest_gap(&grants, at(40), at(50)), Duration::ZERO);
    }
}
