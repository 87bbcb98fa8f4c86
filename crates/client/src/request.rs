//! What a caller and the session share about one request: where it stands, and who wants to hear of changes.
//!
//! Invariants: `standing` changes only under the session's lock, Waiting -> Held -> Over or Waiting -> Over, never
//! back. Whoever waits first makes itself known (a listener here, or `Port::asleep`) and then looks at `standing`
//! once more; whoever changes it changes first and looks for waiters then. All four are sequentially consistent, so
//! one of the two sees the other. What else a grant brings is written before `standing`. Records are used again, so that acquiring allocates nothing: `text` keeps its room.

use crate::Name;
use crate::name::Named;
use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::task::{Context, Waker};
use wayside_protocol::{Mode, Path, Time, Token};

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Standing {
    Waiting,
    Held,
    /// A try that was refused; [`Request::holder`] says by whom.
    Busy,
    TimedOut,
    Lost,
    /// Given back by its owner.
    Released,
}

impl Standing {
    const ALL: [Standing; 6] =
        [Standing::Waiting, Standing::Held, Standing::Busy, Standing::TimedOut, Standing::Lost, Standing::Released];
}

const PATHS: [Path; 3] = [Path::Switch, Path::Agent, Path::Local];

/// A name as the caller wrote it, for people; packets carry the id.
pub(crate) struct Written {
    pub(crate) id: u64,
    /// Empty where the id itself is the name.
    pub(crate) text: String,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.text.is_empty() { self.id.fmt(f) } else { self.text.fmt(f) }
    }
}

/// One request and, once granted, one hold.
pub(crate) struct Request {
    pub(crate) name: Written,
    pub(crate) slot: u32,
    /// When it began to wait; a grant sets it to when it began to hold.
    since: AtomicU64,
    standing: AtomicU8,
    shared: AtomicBool,
    path: AtomicU8,
    holder: AtomicU16,
    token: AtomicU64,
    /// End of the hold's own time; the end of time where it has none.
    until: AtomicU64,
    listened: AtomicBool,
    listeners: Mutex<Vec<Waker>>,
}

impl Request {
    pub(crate) fn new() -> Request {
        Request {
            name: Written { id: 0, text: String::with_capacity(64) },
            slot: 0,
            since: AtomicU64::new(0),
            standing: AtomicU8::new(Standing::Waiting as u8),
            shared: AtomicBool::new(false),
            path: AtomicU8::new(0),
            holder: AtomicU16::new(0),
            token: AtomicU64::new(0),
            until: AtomicU64::new(u64::MAX),
            listened: AtomicBool::new(false),
            listeners: Mutex::default(),
        }
    }

    /// Makes it a new request. Nobody else has it.
    pub(crate) fn begin(&mut self, name: Named<'_>, slot: u32, mode: Mode, now: Time) {
        self.name.id = name.id;
        self.name.text.clear();
        if let Name::Text(text) = name.name {
            self.name.text.push_str(text);
        }
        self.slot = slot;
        *self.since.get_mut() = now.0;
        *self.standing.get_mut() = Standing::Waiting as u8;
        *self.shared.get_mut() = mode == Mode::Shared;
        *self.until.get_mut() = u64::MAX;
    }

    pub(crate) fn standing(&self) -> Standing {
        Standing::ALL[usize::from(self.standing.load(SeqCst))]
    }

    pub(crate) fn mode(&self) -> Mode {
        if self.shared.load(SeqCst) { Mode::Shared } else { Mode::Exclusive }
    }

    pub(crate) fn token(&self) -> Token {
        Token(self.token.load(Relaxed))
    }

    pub(crate) fn holder(&self) -> u16 {
        self.holder.load(Relaxed)
    }

    pub(crate) fn since(&self) -> Time {
        Time(self.since.load(Relaxed))
    }

    pub(crate) fn path(&self) -> Path {
        PATHS[usize::from(self.path.load(Relaxed))]
    }

    pub(crate) fn until(&self) -> Time {
        Time(self.until.load(Relaxed))
    }

    pub(crate) fn hold(&self, now: Time, token: Token, path: Path) {
        self.since.store(now.0, Relaxed);
        self.token.store(token.0, Relaxed);
        self.path.store(PATHS.iter().position(|&known| known == path).unwrap_or(0) as u8, Relaxed);
        // Last, and with the three before it: whoever sees it sees them.
        self.standing.store(Standing::Held as u8, SeqCst);
    }

    pub(crate) fn end(&self, standing: Standing) {
        self.standing.store(standing as u8, SeqCst);
    }

    pub(crate) fn refuse(&self, holder: u16) {
        self.holder.store(holder, Relaxed);
        self.end(Standing::Busy);
    }

    pub(crate) fn share(&self) {
        self.shared.store(true, SeqCst);
    }

    pub(crate) fn limit(&self, until: Time) {
        self.until.store(until.0, Relaxed);
    }

    /// Calls this task when the request changes. The caller looks at it again afterwards.
    pub(crate) fn listen(&self, context: &Context<'_>) {
        let mut listeners = self.listeners.lock();
        if !listeners.iter().any(|waker| waker.will_wake(context.waker())) {
            listeners.push(context.waker().clone());
        }
        self.listened.store(true, SeqCst);
    }

    /// After a change: takes the tasks to call.
    pub(crate) fn tell(&self, wakers: &mut Vec<Waker>) {
        if self.listened.load(SeqCst) && self.listened.swap(false, SeqCst) {
            wakers.append(&mut self.listeners.lock());
        }
    }

    /// Forgets the tasks, which may run their owners' code as they go: not under the session's lock.
    pub(crate) fn forget_listeners(&self) {
        let forgotten = std::mem::take(&mut *self.listeners.lock());
        drop(forgotten);
    }
}
