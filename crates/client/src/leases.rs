//! Which keys this process has on its session's lease, and those of which nobody knows whether it has: a write without
//! an answer may have had its effect, and nobody would give that key back as long as the session lives. A thread of its
//! own looks after these, and ends when there is none.
//!
//! Invariants
//! * A version that a [`crate::LeasedKey`] has is not cleaned away, nor is anything of a name while one of it is being
//!   written: what is cleaned away is of this very session, has the value of the write without an answer, and is
//!   deleted by its version.
//! * A doubt stays until a switch has answered after the last packet of its write can have come.

use crate::Error;
use crate::session::{Connection, Session};
use crate::wait::Asker;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};
use wayside_protocol::chain::{Condition, Version};

/// For one question; also for a deletion when a key is dropped or given back.
pub(crate) const GOODBYE: Duration = Duration::from_secs(1);
/// After which no packet of a write that was given up is under way any more.
const LATE: Duration = Duration::from_secs(10);
/// Between two looks: doubled each time.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// What nobody knows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Doubt {
    /// Whether this name has got this value, or will.
    Written(Box<[u8]>, Box<[u8]>),
    /// Whether this name's version has been deleted.
    Deleted(Box<[u8]>, Version),
}

/// When a doubt is looked at.
#[derive(Debug)]
struct Look {
    due: Instant,
    pause: Duration,
    /// What a switch says before is not the end.
    until: Instant,
}

/// What is known of a name.
#[derive(Debug, Default)]
struct Known {
    /// Writes under way.
    begun: usize,
    /// Versions that are had.
    held: Vec<Version>,
}

#[derive(Debug, Default)]
struct State {
    keys: BTreeMap<Box<[u8]>, Known>,
    doubts: BTreeMap<Doubt, Look>,
    is_cleaning: bool,
    /// Of barriers' names: who has entered there, and is not under way now.
    parties: BTreeMap<String, Vec<u64>>,
}

/// Of a connection.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    state: Mutex<State>,
    changed: Condvar,
}

/// A write to a name that is to be had.
pub(crate) struct Beginning<'l> {
    leases: &'l Leases,
    name: &'l [u8],
}

impl Leases {
    /// Until this is dropped nothing of the name is cleaned away.
    pub(crate) fn begin<'l>(&'l self, name: &'l [u8]) -> Beginning<'l> {
        self.state.lock().keys.entry(name.into()).or_default().begun += 1;
        Beginning { leases: self, name }
    }

    /// Nobody has this version any more.
    pub(crate) fn forget(&self, name: &[u8], version: Version) {
        self.change(name, |known| known.held.retain(|held| *held != version));
    }

    fn change(&self, name: &[u8], change: impl FnOnce(&mut Known)) {
        let mut state = self.state.lock();
        let Some(known) = state.keys.get_mut(name) else { return };
        change(known);
        if known.begun == 0 && known.held.is_empty() {
            state.keys.remove(name);
        }
    }

    /// Whether somebody has this version, or may have without being known to yet (`None`).
    fn has(&self, name: &[u8], version: Version) -> Option<bool> {
        let state = self.state.lock();
        let Some(known) = state.keys.get(name) else { return Some(false) };
        if known.held.contains(&version) { Some(true) } else { (known.begun == 0).then_some(false) }
    }

    /// Who enters a barrier of this name: one who has failed to, if there is one, since he may have a seat yet.
    pub(crate) fn party(&self, barrier: &str) -> u64 {
        let known = self.state.lock().parties.get_mut(barrier).and_then(Vec::pop);
        known.unwrap_or_else(crate::engine::seed)
    }

    /// He has failed to.
    pub(crate) fn party_again(&self, barrier: &str, party: u64) {
        self.state.lock().parties.entry(barrier.into()).or_default().push(party);
    }

    /// The next doubt that is due. `None`: there is none, and the thread ends.
    fn due(&self) -> Option<Doubt> {
        let mut state = self.state.lock();
        loop {
            let Some((doubt, look)) = state.doubts.iter().min_by_key(|(_, look)| look.due) else {
                state.is_cleaning = false;
                return None;
            };
            let due = look.due;
            if due <= Instant::now() {
                return Some(doubt.clone());
            }
            self.changed.wait_until(&mut state, due);
        }
    }

    fn looked(&self, doubt: &Doubt, is_settled: bool) {
        let (mut state, now) = (self.state.lock(), Instant::now());
        let Some(look) = state.doubts.get_mut(doubt) else { return };
        if is_settled && look.until <= now {
            state.doubts.remove(doubt);
        } else {
            (look.due, look.pause) = (now + look.pause, (look.pause * 2).min(PAUSES.1));
        }
    }
}

impl Beginning<'_> {
    /// It has been written.
    pub(crate) fn keep(&self, version: Version) {
        self.leases.change(self.name, |known| known.held.push(version));
    }
}

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        self.leases.change(self.name, |known| known.begun -= 1);
    }
}

/// Of a question under way: if whoever asked drops it, it is as if there were no answer.
pub(crate) struct Doubtful<'a> {
    session: &'a Session,
    name: &'a [u8],
    of: Of<'a>,
}

enum Of<'a> {
    Writing(&'a [u8]),
    Deleting(Version),
    /// It has ended.
    Nothing,
}

impl<'a> Doubtful<'a> {
    pub(crate) fn written(session: &'a Session, name: &'a [u8], value: &'a [u8]) -> Doubtful<'a> {
        Doubtful { session, name, of: Of::Writing(value) }
    }

    pub(crate) fn deleted(session: &'a Session, name: &'a [u8], version: Version) -> Doubtful<'a> {
        Doubtful { session, name, of: Of::Deleting(version) }
    }

    /// There is an answer, or this error.
    pub(crate) fn ends(mut self, error: Option<&Error>) {
        match (std::mem::replace(&mut self.of, Of::Nothing), error) {
            (Of::Writing(value), Some(error)) => self.session.doubt_written(self.name, value, error),
            (Of::Deleting(version), Some(error)) if *error != Error::Closed => {
                self.session.delete_later(self.name, version);
            }
            _ => {}
        }
    }
}

impl Drop for Doubtful<'_> {
    fn drop(&mut self) {
        match self.of {
            Of::Writing(value) => self.session.doubt_written(self.name, value, &Error::TimedOut),
            Of::Deleting(version) => self.session.delete_later(self.name, version),
            Of::Nothing => {}
        }
    }
}

impl Session {
    pub(crate) fn leases(&self) -> &Leases {
        &self.connection.leases
    }

    /// A write on the lease has ended so: whether it has left something, or will, is looked after.
    pub(crate) fn doubt_written(&self, name: &[u8], value: &[u8], error: &Error) {
        let late = match error {
            Error::TimedOut | Error::StoreFull | Error::Collision => LATE,
            // It has no effect later.
            Error::Unsure => Duration::ZERO,
            // It was not asked, or the key ends with the session.
            _ => return,
        };
        self.doubt(Doubt::Written(name.into(), value.into()), late);
    }

    /// Deletes what this process has written: now, or as soon as somebody answers. Whether it was there.
    pub(crate) async fn delete_leased(&self, asker: Asker, name: &[u8], version: Version) -> Result<bool, Error> {
        let doubt = Doubtful::deleted(self, name, version);
        let deleted = self.store().wait(GOODBYE).delete_if_by(asker, name, Condition::Version(version)).await;
        doubt.ends(deleted.as_ref().err());
        Ok(matches!(deleted?, crate::Written::Done(_)))
    }

    /// The same, by whom nobody waits for.
    pub(crate) fn delete_later(&self, name: &[u8], version: Version) {
        self.doubt(Doubt::Deleted(name.into(), version), Duration::ZERO);
    }

    fn doubt(&self, doubt: Doubt, late: Duration) {
        let now = Instant::now();
        let mut state = self.leases().state.lock();
        let until = state.doubts.get(&doubt).map_or(now + late, |look| look.until.max(now + late));
        state.doubts.insert(doubt, Look { due: now, pause: PAUSES.0, until });
        self.leases().changed.notify_one();
        if !state.is_cleaning {
            let (leases, connection) = (Arc::clone(&self.connection.leases), Arc::downgrade(&self.connection));
            let thread = thread::Builder::new().name("wayside-leases".into());
            // Without a thread the next doubt tries again.
            state.is_cleaning = thread.spawn(move || clean(&leases, &connection)).is_ok();
        }
    }

    /// Whether a switch has said what a doubt is about, and nothing is left of it now.
    fn settle(&self, doubt: &Doubt) -> bool {
        let store = self.store().wait(GOODBYE);
        let deleted = match doubt {
            Doubt::Deleted(name, version) => store.delete_if(name, Condition::Version(*version)),
            Doubt::Written(name, value) => match store.get(name) {
                Ok(Some(entry)) if entry.is_own && entry.value.bytes() == &**value => {
                    // After it was read: whoever has written it and is not known to has ended.
                    match self.leases().has(name, entry.version) {
                        Some(false) => store.delete_if(name, Condition::Version(entry.version)),
                        had => return had.is_some(),
                    }
                }
                read => return read.is_ok(),
            },
        };
        deleted.is_ok()
    }
}

/// Until nothing is in doubt, or the connection is no more.
fn clean(leases: &Leases, connection: &Weak<Connection>) {
    while let Some(doubt) = leases.due() {
        let Some(connection) = connection.upgrade() else { return };
        let is_settled = Session { connection, spread: None }.settle(&doubt);
        leases.looked(&doubt, is_settled);
    }
}
