//! Which keys this process has on its session's lease, and those of which nobody knows whether it has: a write without
//! an answer may have had its effect, and nobody would give that key back as long as the session lives. A thread of its
//! own looks after these, and ends when there is none.
//!
//! And whether the keys are still there. They are read when the epoch of the session's switch rises: it has begun anew,
//! or another has taken its place. Keys of a switch that is alone, which serves them under the epoch of its locks, went
//! with its memory, and nobody is served under the new epoch before this process has heard of it. So from then on they
//! are in doubt, and for their owner as if they were lost, until they have been read. Other keys are in the memories of
//! several switches, and are lost if all of these are, once an operator has their groups begin anew.
//!
//! Invariants
//! * A version that a [`crate::LeasedKey`] has is not cleaned away, nor is anything of a name while one of it is being
//!   written: what is cleaned away is of this very session, has the value of the write without an answer, and is
//!   deleted by its version.
//! * A doubt stays until a switch has answered after the last packet of its write can have come.

use crate::Error;
use crate::guard::block_on_while;
use crate::session::{Connection, Session};
use crate::store::{Entry, Store};
use crate::wait::Asker;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};
use wayside_protocol::SessionInfo;
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
    /// Whether this version, which somebody has, is there under the epoch of now.
    Held(Box<[u8]>, Version),
}

/// Whether a version is there.
#[derive(Debug)]
pub(crate) struct Presence {
    /// Under which epoch of the session's switch it was there last; 0, which is none: it is not any more.
    seen_under: AtomicU32,
    /// Its switch is alone.
    is_alone: bool,
    /// What its owner was to give it since, perhaps without an answer.
    updates: Mutex<Vec<Box<[u8]>>>,
}

impl Presence {
    /// Of a version that was written when the session stood so, or later. Chains of several switches count the epochs
    /// of each group from 1, and a switch from where its clock was when it began first: so a version of an epoch that
    /// the session has seen is of a switch that is alone.
    fn of(version: Version, (session, begun_under): &(SessionInfo, u32)) -> Presence {
        let is_alone = version.epoch >= *begun_under;
        Presence { seen_under: session.epoch.into(), is_alone, updates: Mutex::default() }
    }

    /// Its owner is about to give it this value.
    pub(crate) fn may_become(&self, value: &[u8]) {
        self.updates.lock().push(value.into());
    }

    /// Whether what was read is its owner's.
    fn is_it(&self, version: Version, read: &Entry) -> bool {
        let is_update = || self.updates.lock().iter().any(|value| **value == *read.value.bytes());
        read.version == version || (read.is_own && is_update())
    }

    /// Whether its owner may rely on it under this epoch.
    pub(crate) fn holds_under(&self, epoch: u32) -> bool {
        let seen_under = self.seen_under.load(Relaxed);
        seen_under == epoch || (!self.is_alone && seen_under != 0)
    }

    /// Whether it is known not to be there.
    pub(crate) fn is_gone(&self) -> bool {
        self.seen_under.load(Relaxed) == 0
    }

    /// Whether it is to be read under this epoch.
    fn is_due(&self, epoch: u32) -> bool {
        ![0, epoch].contains(&self.seen_under.load(Relaxed))
    }

    /// It was read under this epoch, or a later one.
    fn was_read(&self, epoch: u32, is_there: bool) {
        self.seen_under.store(if is_there { epoch } else { 0 }, Relaxed);
    }
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
    held: Vec<(Version, Arc<Presence>)>,
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
    connection: OnceLock<Weak<Connection>>,
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
        self.change(name, |known| known.held.retain(|(held, _)| *held != version));
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
        let is_held = known.held.iter().any(|(held, _)| *held == version);
        if is_held { Some(true) } else { (known.begun == 0).then_some(false) }
    }

    /// Of a version that somebody has.
    fn presence(&self, name: &[u8], version: Version) -> Option<Arc<Presence>> {
        let state = self.state.lock();
        let held = state.keys.get(name)?.held.iter().find(|(held, _)| *held == version);
        held.map(|(_, presence)| presence.clone())
    }

    /// Reads whatever is not known yet to be there under this epoch of the session's switch.
    pub(crate) fn look_again(self: &Arc<Self>, epoch: u32) {
        let mut doubts = Vec::new();
        for (name, known) in &self.state.lock().keys {
            let due = known.held.iter().filter(|(_, presence)| presence.is_due(epoch));
            doubts.extend(due.map(|(version, _)| Doubt::Held(name.clone(), *version)));
        }
        doubts.into_iter().for_each(|doubt| self.doubt(doubt, Duration::ZERO));
    }

    /// Whose they are.
    pub(crate) fn are_of(&self, connection: &Arc<Connection>) {
        let _ = self.connection.set(Arc::downgrade(connection));
    }

    fn doubt(self: &Arc<Self>, doubt: Doubt, late: Duration) {
        let Some(connection) = self.connection.get().cloned() else { return };
        let now = Instant::now();
        let mut state = self.state.lock();
        let until = state.doubts.get(&doubt).map_or(now + late, |look| look.until.max(now + late));
        state.doubts.insert(doubt, Look { due: now, pause: PAUSES.0, until });
        self.changed.notify_one();
        if !state.is_cleaning {
            let leases = Arc::clone(self);
            let thread = thread::Builder::new().name("wayside-leases".into());
            // Without a thread the next doubt tries again.
            state.is_cleaning = thread.spawn(move || clean(&leases, &connection)).is_ok();
        }
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

    /// The next doubt that is due, and since when. `None`: there is none, and the thread ends.
    fn due(&self) -> Option<(Doubt, Instant)> {
        let mut state = self.state.lock();
        loop {
            let Some((doubt, look)) = state.doubts.iter().min_by_key(|(_, look)| look.due) else {
                state.is_cleaning = false;
                return None;
            };
            let due = look.due;
            if due <= Instant::now() {
                return Some((doubt.clone(), due));
            }
            self.changed.wait_until(&mut state, due);
        }
    }

    /// It was looked at, as was due then.
    fn looked(&self, doubt: &Doubt, due: Instant, is_settled: bool) {
        let (mut state, now) = (self.state.lock(), Instant::now());
        // Whoever has the same doubt since then wants it looked at again.
        let Some(look) = state.doubts.get_mut(doubt).filter(|look| look.due == due) else { return };
        if is_settled && look.until <= now {
            state.doubts.remove(doubt);
        } else {
            (look.due, look.pause) = (now + look.pause, (look.pause * 2).min(PAUSES.1));
        }
    }
}

impl Beginning<'_> {
    /// It has been written, since the session stood so.
    pub(crate) fn keep(&self, version: Version, before: &(SessionInfo, u32)) -> Arc<Presence> {
        let presence = Arc::new(Presence::of(version, before));
        self.leases.change(self.name, |known| known.held.push((version, presence.clone())));
        presence
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
    pub(crate) fn leases(&self) -> &Arc<Leases> {
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
        self.leases().doubt(Doubt::Written(name.into(), value.into()), late);
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
        self.leases().doubt(Doubt::Deleted(name.into(), version), Duration::ZERO);
    }

    /// Whether a switch has said what a doubt is about, and nothing is left of it now.
    async fn settle(&self, doubt: &Doubt) -> bool {
        let store = self.store().wait(GOODBYE);
        let deleted = match doubt {
            Doubt::Deleted(name, version) => store.delete_if_async(name, Condition::Version(*version)).await,
            Doubt::Written(name, value) => match store.get_async(name).await {
                Ok(Some(entry)) if entry.is_own && entry.value.bytes() == &**value => {
                    // After it was read: whoever has written it and is not known to has ended.
                    match self.leases().has(name, entry.version) {
                        Some(false) => store.delete_if_async(name, Condition::Version(entry.version)).await,
                        had => return had.is_some(),
                    }
                }
                read => return read.is_ok(),
            },
            Doubt::Held(name, version) => return self.reread(&store, name, *version).await,
        };
        deleted.is_ok()
    }

    /// Whether it is known by now whether a version is there, or what its owner has written since without an answer.
    async fn reread(&self, store: &Store<'_>, name: &[u8], version: Version) -> bool {
        let Some(presence) = self.leases().presence(name, version) else { return true };
        let Some(before) = self.info() else { return false };
        let is_there = match store.get_async(name).await {
            Ok(entry) => entry.is_some_and(|entry| presence.is_it(version, &entry)),
            Err(Error::NoStore) => false,
            Err(_) => return false,
        };
        presence.was_read(before.epoch, is_there);
        !is_there || self.info().is_some_and(|now| now.epoch == before.epoch)
    }

    /// Something has been written since the session stood so, and nobody reads it because of an epoch that began
    /// meanwhile.
    pub(crate) fn look_again_since(&self, (before, _): &(SessionInfo, u32)) {
        if let Some(now) = self.info().filter(|now| now.epoch != before.epoch) {
            self.leases().look_again(now.epoch);
        }
    }
}

/// Owners of a connection while [`Session::settle`] asks: that itself, and its question.
const OWN: usize = 2;

/// Until nothing is in doubt, or nobody else has the connection, which ends with it then.
fn clean(leases: &Leases, connection: &Weak<Connection>) {
    while let Some((doubt, due)) = leases.due() {
        let Some(connection) = connection.upgrade() else { return };
        let session = Session { connection, spread: None };
        let is_wanted = || Arc::strong_count(&session.connection) > OWN;
        let Some(is_settled) = block_on_while(session.settle(&doubt), is_wanted) else { return };
        leases.looked(&doubt, due, is_settled);
    }
}
