//! `wayside lock`: runs COMMAND while it holds a lock, and ends it before the lock can be anybody else's.
//!
//! Four things see to that, each where the one before can't:
//! 1. The main thread: SIGTERM to COMMAND's group a fifth of the lease before the hold's deadline, SIGKILL a tenth
//!    before, and SIGKILL at once if the lock is found lost.
//! 2. The guardian, if the main thread does not run (stopped, starved): SIGKILL at that same tenth.
//! 3. The kernel and the guardian, if `wayside lock` is gone: SIGKILL (PR_SET_PDEATHSIG, the end of the pipe).
//! 4. COMMAND has the session's lifelines too: the switch takes the session for dead only when COMMAND's processes
//!    are, or after the lease.

mod child;
mod guardian;
mod lifeline;

use super::query::ask;
use super::signals::Signals;
use super::text::{lasted, shown};
use crate::answers::{Lock, Locks, Query, Session as SessionAnswer};
use crate::cli::LockArgs;
use crate::config::Shown;
use crate::failure::{Failure, exit};
use child::{Child, State};
use guardian::Guardian;
use lifeline::Lifeline;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use wayside_client::recipes::{Leadership, Membership, Permit};
use wayside_client::{Error, Guard, LeasedKey, Name, Session};

/// For the switch to answer an enrolment; then a wait goes on in another turn.
const PATIENCE: Duration = Duration::from_secs(3);

/// `wayside lock`; returns COMMAND's exit code.
pub fn lock(args: &LockArgs) -> Result<u8, Failure> {
    Name::Text(&args.name)
        .id()
        .map_err(|error| Failure::usage(format!("{error}; a lock's name has 1 to 1024 bytes")))?;
    let keeper = Keeper::start()?;
    let started = Instant::now();
    let session = begin(args)?;
    let guard = keeper.signals.unblocked(|| acquire(args, &session, started))?;
    say_shorter_lease(args, &session);
    let told = ("WAYSIDE_LOCK_TOKEN", guard.token().to_string());
    let (outcome, expired) = keeper.run(&session, &guard, &args.command, told, args.ttl)?;
    let released = guard.release();
    session.close();
    let name = shown(&args.name);
    let what = match (&outcome, released, args.ttl) {
        (Outcome::Exited(code), Ok(()), _) => return Ok(*code),
        (_, _, Some(ttl)) if expired => {
            let ttl = humantime::format_duration(ttl);
            format!("the longest hold of {name} (--ttl {ttl}) ended while the command ran")
        }
        _ => format!("lost {name} while the command ran"),
    };
    Err(Failure::new(
        exit::LOST,
        format!(
            "{what}: the command {}, and another may hold the lock; what it protects must refuse tokens below the \
             highest it has seen",
            outcome.fate()
        ),
    ))
}

/// Does not wait for the switch: the session's thread is to have the signals blocked, this one must hear Ctrl-C.
fn begin(args: &LockArgs) -> Result<Session, Failure> {
    let mut builder =
        Session::builder().endpoint(endpoints(args)).namespace(args.namespace.as_str()).patience(PATIENCE);
    // COMMAND keeps the session's lifeline alive, and that is one switch's.
    // And it has the lock once.
    builder = builder.only(args.name.as_str()).keep(0);
    if let Some(lease) = args.lease {
        builder = builder.lease(lease);
    }
    builder.begin().map_err(|error| Failure::of(&error))
}

/// The namespace's longest lease is the switch's to know.
fn say_shorter_lease(args: &LockArgs, session: &Session) {
    let given = session.info().map(|info| Duration::from_micros(info.lease));
    if let (Some(asked), Some(given)) = (args.lease, given)
        && given < asked
    {
        let (namespace, given) = (&args.namespace, Shown(given));
        // Nobody may be reading.
        let _ = writeln!(std::io::stderr(), "the lease is {given}: namespace {namespace} allows no longer one");
    }
}

fn endpoints(args: &LockArgs) -> String {
    args.endpoint.endpoints.to_string()
}

/// Waits as long as it was told to, through losses of the session and absences of the switch too. Without a limit it
/// waits for a switch that it has met; where none was to be found at first, the endpoint is more likely to be wrong.
fn acquire(args: &LockArgs, session: &Session, started: Instant) -> Result<Guard, Failure> {
    let mut met = false;
    let mut told = false;
    loop {
        let mut request = session.lock(args.name.as_str()).priority(args.priority);
        if args.shared {
            request = request.shared();
        }
        if let Some(wait) = args.wait {
            request = request.wait(wait.saturating_sub(started.elapsed()));
        }
        if let Some(ttl) = args.ttl {
            request = request.ttl(ttl);
        }
        match if args.try_ { request.try_lock() } else { request.acquire() } {
            Ok(guard) => return Ok(guard),
            Err(Error::Lost) => met = true,
            Err(error @ Error::Unavailable { .. }) => {
                if args.try_ || !(met || args.wait.is_some()) {
                    return Err(Failure::of(&error));
                }
                if !told {
                    told = true;
                    // Nobody may be reading.
                    let _ = writeln!(std::io::stderr(), "waiting: no Wayside switch answers at {}", endpoints(args));
                }
            }
            Err(Error::TimedOut) if session.info().is_none() => {
                let waited = args.wait.unwrap_or(PATIENCE);
                return Err(Failure::of(&Error::Unavailable {
                    endpoint: endpoints(args),
                    waited,
                    detail: String::new(),
                }));
            }
            Err(error) => return Err(refused(args, error)),
        }
    }
}

/// What COMMAND runs under.
pub trait Hold {
    /// Until when it is held unless the session's next heartbeat is acknowledged before.
    fn deadline(&self) -> Instant;
    /// Whether it is lost.
    fn is_lost(&self) -> bool;
}

macro_rules! hold {
    ($($held:ty),*) => { $(
        impl Hold for $held {
            fn deadline(&self) -> Instant {
                <$held>::deadline(self)
            }

            fn is_lost(&self) -> bool {
                <$held>::is_lost(self)
            }
        }
    )* };
}
hold!(Guard, LeasedKey, Permit, Leadership, Membership);

/// What sees to it that COMMAND ends with what it runs under.
pub struct Keeper {
    guardian: Guardian,
    pub signals: Signals,
}

impl Keeper {
    /// Before anything that starts a thread.
    pub fn start() -> Result<Keeper, Failure> {
        // Where whoever started this has it ignored, the kernel would reap COMMAND, and nobody hear of its end.
        // SAFETY: no handler.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        let guardian =
            Guardian::start().map_err(|error| Failure::system("can't start the guardian process", &error))?;
        Ok(Keeper { guardian, signals: Signals::block(child::FORWARDED.into_iter().chain([libc::SIGCHLD])) })
    }

    /// Runs COMMAND, which is told `told` in its environment, until it ends or the hold is about to. What became of it,
    /// and whether that was, or would have been, the time of `ttl` and not the session's end.
    pub fn run(
        &self,
        session: &Session,
        hold: &dyn Hold,
        command: &[OsString],
        told: (&str, String),
        ttl: Option<Duration>,
    ) -> Result<(Outcome, bool), Failure> {
        // The hold may be of any shard's session.
        let lifelines = session.infos().into_iter().filter_map(|(info, switch)| Lifeline::hold(&info, switch));
        let lifelines: Vec<Lifeline> = lifelines.collect();
        let inherited = lifelines.iter().map(AsRawFd::as_raw_fd).collect();
        let child = Child::start(command, told, inherited, self.guardian.first_order(hold.deadline()))?;
        let Keeper { guardian, signals } = self;
        let outcome = Watch { ttl, hold, guardian, signals, child: &child }.run(session);
        guardian.stand_down();
        match outcome.0 {
            Outcome::RunsOn => child.leave(),
            _ => child.reap(),
        }
        Ok(outcome)
    }
}

/// What became of COMMAND.
pub enum Outcome {
    Exited(u8),
    /// Ended because the lock was, or was about to be.
    Ended,
    /// It was to be, and could not: it is another user's, or in the kernel for good.
    RunsOn,
}

impl Outcome {
    /// For people: what has become of a command whose lock is lost.
    pub fn fate(&self) -> &'static str {
        match self {
            Outcome::Exited(_) | Outcome::Ended => "has been ended",
            Outcome::RunsOn => "could not be ended and still runs (another user's, as under sudo?)",
        }
    }
}

/// The exit code of what SIGKILL ended.
const KILLED: u8 = 128 + libc::SIGKILL as u8;

/// COMMAND and everything that looks after it.
struct Watch<'a> {
    ttl: Option<Duration>,
    hold: &'a dyn Hold,
    guardian: &'a Guardian,
    signals: &'a Signals,
    child: &'a Child,
}

impl Watch<'_> {
    /// Until COMMAND has ended; and whether that was, or would have been, the time of --ttl and not the session's end.
    fn run(&self, session: &Session) -> (Outcome, bool) {
        let begun = session.info();
        let leases = session.infos().into_iter().map(|(info, _)| Duration::from_micros(info.lease));
        let lease = leases.min().unwrap_or(Duration::from_millis(100));
        // A short --ttl must leave COMMAND most of it.
        let lease = lease.min(self.ttl.unwrap_or(lease));
        let (warning, margin) = (lease / 5, lease / 10);
        let look = (lease / 20).clamp(Duration::from_millis(1), Duration::from_millis(100));
        let mut warned = false;
        let mut expired = false;
        loop {
            let deadline = self.hold.deadline();
            let last = deadline.checked_sub(margin).unwrap_or(deadline);
            self.guardian.watch(self.child.group, last);
            let left = last.saturating_duration_since(Instant::now());
            // The hold goes on after all. What COMMAND makes of the warning is its own affair.
            warned &= left <= warning - margin;
            if !warned {
                expired = begun.is_some_and(|begun| outlives(session, begun.incarnation, deadline));
            }
            match self.child.state() {
                // The guardian was faster.
                State::Ended(KILLED) if left.is_zero() => return (Outcome::Ended, expired),
                State::Ended(code) if !warned && !self.hold.is_lost() => return (Outcome::Exited(code), expired),
                State::Ended(_) => return (Outcome::Ended, expired),
                State::Stopped => self.child.stop_along(),
                State::Running => {}
            }
            if left.is_zero() || self.hold.is_lost() {
                let is_over = (self.child.signal(libc::SIGKILL) && self.await_end()) || self.has_ended();
                return (if is_over { Outcome::Ended } else { Outcome::RunsOn }, expired);
            }
            if left <= warning - margin && !warned {
                warned = true;
                self.child.signal(libc::SIGTERM);
                // What is stopped must see it.
                self.child.signal(libc::SIGCONT);
            }
            match self.signals.next(look.min(left)) {
                None | Some(libc::SIGCHLD) => {}
                Some(signal) => {
                    self.child.signal(signal);
                }
            }
        }
    }

    /// After SIGKILL: a process in uninterruptible sleep may take its time, and the lock goes without it. False: it has
    /// taken too much.
    fn await_end(&self) -> bool {
        (0..1_000).any(|_| {
            let has_ended = self.has_ended();
            if !has_ended {
                self.signals.next(Duration::from_millis(10));
            }
            has_ended
        })
    }

    fn has_ended(&self) -> bool {
        matches!(self.child.state(), State::Ended(_))
    }
}

/// Whether the session is still that one, and would let the hold last beyond this deadline of it.
fn outlives(session: &Session, incarnation: u64, deadline: Instant) -> bool {
    // They may be the same moment, but for when each was translated from the session's clock.
    const TRANSLATION: Duration = Duration::from_millis(1);
    session.info().is_some_and(|info| info.incarnation == incarnation)
        && session.lease_end().is_some_and(|end| end > deadline + TRANSLATION)
}

/// Why there is no lock, for people: who has it, and since when.
fn refused(args: &LockArgs, error: Error) -> Failure {
    let code = args.conflict_exit_code.unwrap_or(exit::BUSY);
    let (what, holder) = match error {
        Error::Busy { holder } => ("busy", holder),
        Error::TimedOut => ("timed out", 0),
        Error::Deadlock { .. } | Error::OverBudget => return Failure::plain(code, error.to_string()),
        error => return Failure::of(&error),
    };
    Failure::plain(code, format!("{what}: {} is {}", shown(&args.name), describe(args, holder)))
}

fn describe(args: &LockArgs, agent: u16) -> String {
    let unknown = match agent {
        0 => "held or awaited by others",
        _ => "held by another",
    };
    let Ok(endpoints) = args.endpoint.endpoints.of_lock(Name::Text(&args.name)) else { return unknown.into() };
    let locks = ask::<Locks>(endpoints, &Query::Locks);
    if let Ok((_, answer)) = &locks {
        let ours = |lock: &&Lock| lock.name == args.name && lock.namespace == args.namespace;
        let holders: Vec<&Lock> = answer.locks.iter().filter(ours).filter(|lock| lock.state == "held").collect();
        if let Some(first) = holders.first() {
            let time = lasted(Duration::from_micros(first.since_us));
            let others = match holders.len() - 1 {
                0 => String::new(),
                others => format!(", and by {others} more"),
            };
            return format!("held by {} for {time}{others}", first.owner);
        }
    }
    if locks.is_err() || agent == 0 {
        return unknown.into();
    }
    match ask::<SessionAnswer>(endpoints, &Query::Node { handle: agent }) {
        Ok((_, session)) => format!("held or awaited at {}", session.owner()),
        Err(_) => unknown.into(),
    }
}
