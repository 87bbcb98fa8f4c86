//! Watches: what keys get, as it happens; blocking, or as futures.
//!
//! The protocol machine keeps asking by itself, on whichever thread drives it, and keeps what it is told until the
//! watch's owner takes it. A watch outlives its session: the next one goes on where that was.

use crate::Error;
use crate::clock;
use crate::core::{Core, Phase};
use crate::errands::Errands;
use crate::port::Place;
use crate::session::Connection;
use crate::wait::Asker;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;
use wayside_protocol::Time;
use wayside_protocol::chain::{Change, Glance, Scope, Seen, Value, Version, WatchId};
use wayside_wire::Refusal;

/// What a watch has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A key has got a value.
    Put {
        /// The key's name.
        name: Box<[u8]>,
        /// The value.
        value: Value,
        /// Since when it has it.
        version: Version,
        /// The version that it had before: of a key, no version that could be read lies between the two.
        before: Version,
    },
    /// A key has lost its value.
    Deleted {
        /// The key's name.
        name: Box<[u8]>,
        /// The version of that.
        version: Version,
        /// The version that it had before.
        before: Version,
    },
    /// A key has got a version, and its switch does not know its name any more: of a prefix that is watched it may be
    /// one, or not. So it is with keys that have outlived the daemon of a switch at the hook.
    Unnamed {
        /// The version.
        version: Version,
    },
    /// Something may have been missed: read again what matters. What is read from now on, and seen after this, leaves
    /// nothing out; what comes may be older than what is read, and versions tell.
    Reread,
}

/// A watch of a key or of a prefix. Dropping it ends it.
///
/// ```no_run
/// # let session = wayside_client::Session::connect("127.0.0.1:7600")?;
/// use wayside_client::Event;
///
/// let store = session.store();
/// let (limit, mut watch) = store.get_and_watch("config/limit")?;
/// println!("begins with {limit:?}");
/// loop {
///     match watch.next()? {
///         Event::Put { value, version, .. } => println!("{version}: {value:?}"),
///         Event::Deleted { version, .. } => println!("{version}: none"),
///         _ => println!("once more: {:?}", store.get("config/limit")?),
///     }
/// }
/// # #[allow(unreachable_code)]
/// # Ok::<(), wayside_client::Error>(())
/// ```
pub struct Watch {
    connection: Arc<Connection>,
    id: WatchId,
    /// Of the key, if it is one.
    name: Box<[u8]>,
    wait: Option<Duration>,
}

impl Watch {
    /// Begins, and waits until nothing is missed from then on.
    pub(crate) fn begin(
        connection: &Arc<Connection>,
        scope: Scope,
        name: &[u8],
        wait: Option<Duration>,
    ) -> Result<Watch, Error> {
        connection.engine.await_session(wait)?;
        let watch = Watch::new(connection, scope, name, wait);
        watch.wait_for(Watch::look_at_beginning)?;
        Ok(watch)
    }

    pub(crate) async fn begin_async(
        connection: &Arc<Connection>,
        scope: Scope,
        name: &[u8],
        wait: Option<Duration>,
    ) -> Result<Watch, Error> {
        connection.engine.await_session_async(wait).await?;
        let watch = Watch::new(connection, scope, name, wait);
        watch.wait_for_async(Watch::look_at_beginning).await?;
        Ok(watch)
    }

    fn new(connection: &Arc<Connection>, scope: Scope, name: &[u8], wait: Option<Duration>) -> Watch {
        let id = connection.engine.visit(|core, now, _| core.node.watch(now, scope));
        connection.engine.entrust_timers();
        Watch { connection: Arc::clone(connection), id, name: name.into(), wait }
    }

    /// How long [`Watch::next`] waits at most. Without it, as long as it takes.
    #[must_use]
    pub fn wait(mut self, most: Duration) -> Self {
        self.wait = Some(most);
        self
    }

    /// The next thing that happens.
    ///
    /// # Errors
    /// [`Error::TimedOut`], and [`Error::Refused`] and [`Error::NotJoined`] of a session that is to follow a lost one,
    /// after which it can be asked again; [`Error::Closed`], [`Error::TooManyWatches`], [`Error::NoStore`].
    #[expect(clippy::should_implement_trait, reason = "an iterator ends, and this does not")]
    pub fn next(&mut self) -> Result<Event, Error> {
        self.wait_for(Watch::look)
    }

    /// As [`Watch::next`], as a future for any executor. Dropping it loses nothing.
    ///
    /// # Errors
    /// Those of [`Watch::next`].
    pub async fn next_async(&mut self) -> Result<Event, Error> {
        self.wait_for_async(Watch::look).await
    }

    pub(crate) async fn next_by(&mut self, asker: Asker) -> Result<Event, Error> {
        match asker {
            Asker::Thread => self.next(),
            Asker::Task => self.next_async().await,
        }
    }

    fn wait_for<T>(&self, look: impl Fn(&Watch, &mut Core) -> Option<Result<T, Error>>) -> Result<T, Error> {
        let engine = &self.connection.engine;
        let port = engine.check_out()?;
        let seen = engine.visit_and_look(
            Some(port.place),
            |core, now, _| {
                core.watchers.enter(self.id, Some(port.place));
                core.node.await_watch(self.id, self.until(now));
                now
            },
            |core, _, now| look(self, core).ok_or(now),
        );
        let seen = seen.unwrap_or_else(|now| engine.wait(&port, &port.socket, now, |core, _| look(self, core)));
        engine.visit(|core, _, _| {
            core.watchers.leave(self.id);
            core.node.await_watch(self.id, Time::NEVER);
        });
        engine.entrust_timers();
        seen
    }

    async fn wait_for_async<T>(
        &self,
        look: impl Fn(&Watch, &mut Core) -> Option<Result<T, Error>>,
    ) -> Result<T, Error> {
        let engine = &self.connection.engine;
        if !engine.is_here() {
            return Err(Error::Closed);
        }
        engine.visit(|core, now, _| core.node.await_watch(self.id, self.until(now)));
        let seen = std::future::poll_fn(|context| {
            let seen = engine.visit_and_look(
                None,
                |_, _, _| (),
                |core, errands, ()| {
                    let seen = look(self, core);
                    if seen.is_none() {
                        core.watchers.listen(self.id, context.waker(), errands);
                    }
                    seen
                },
            );
            engine.entrust_timers();
            seen.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        engine.visit(|core, _, _| core.node.await_watch(self.id, Time::NEVER));
        seen
    }

    fn until(&self, now: Time) -> Time {
        self.wait.map_or(Time::NEVER, |wait| clock::after(now, wait))
    }

    fn look_at_beginning(&self, core: &mut Core) -> Option<Result<(), Error>> {
        if core.node.is_watching(self.id) {
            return Some(Ok(()));
        }
        // What some groups tell before the others watch is read afterwards.
        loop {
            match self.look(core)? {
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn look(&self, core: &mut Core) -> Option<Result<Event, Error>> {
        let (now, engine) = (core.latest, &self.connection.engine);
        match core.node.look_at_watch(now, self.id) {
            Glance::Seen(seen) => Some(Ok(self.event(seen))),
            // Another map of all shards may be told in a moment.
            Glance::Waiting if core.phase == Phase::Refused(Refusal::Shards) && engine.config.placed.is_some() => None,
            // It goes on with the next session, if there will be one.
            Glance::Waiting => Some(Err(engine.verdict(core)?.err()?)),
            Glance::TimedOut => Some(Err(Error::TimedOut)),
            Glance::Refused => Some(Err(Error::TooManyWatches)),
            Glance::NoStore => Some(Err(Error::NoStore)),
            Glance::Ended => Some(Err(Error::Closed)),
        }
    }

    fn event(&self, seen: Seen) -> Event {
        let Seen::Change(Change { name, version, before, value }) = seen else { return Event::Reread };
        let is_key = !self.name.is_empty();
        match (name.or_else(|| is_key.then(|| self.name.clone())), value) {
            (Some(name), Some(value)) => Event::Put { name, value, version, before },
            (Some(name), None) => Event::Deleted { name, version, before },
            (None, _) => Event::Unnamed { version },
        }
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("name", &String::from_utf8_lossy(&self.name)).finish_non_exhaustive()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.connection.engine.is_here() {
            return;
        }
        self.connection.engine.visit(|core, _, errands| {
            core.node.unwatch(self.id);
            core.watchers.end(self.id, errands);
        });
        self.connection.engine.entrust_timers();
    }
}

/// Who is to be told that a watch has seen something.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    /// Port of the thread that waits.
    threads: BTreeMap<WatchId, Place>,
    tasks: BTreeMap<WatchId, Vec<Waker>>,
}

impl Watchers {
    fn enter(&mut self, id: WatchId, place: Option<Place>) {
        if let Some(place) = place {
            self.threads.insert(id, place);
        }
    }

    fn leave(&mut self, id: WatchId) {
        self.threads.remove(&id);
    }

    fn listen(&mut self, id: WatchId, waker: &Waker, errands: &mut Errands) {
        let known = self.tasks.entry(id).or_default();
        if !known.iter().any(|known| known.will_wake(waker)) {
            errands.forget(known);
            known.push(waker.clone());
        }
    }

    fn end(&mut self, id: WatchId, errands: &mut Errands) {
        self.threads.remove(&id);
        if let Some(mut wakers) = self.tasks.remove(&id) {
            errands.forget(&mut wakers);
        }
    }

    /// There is something to see.
    pub(crate) fn tell(&mut self, id: WatchId, errands: &mut Errands) {
        if let Some(&place) = self.threads.get(&id) {
            errands.tell(place);
        }
        if let Some(wakers) = self.tasks.get_mut(&id).filter(|wakers| !wakers.is_empty()) {
            errands.wake(wakers);
        }
    }

    /// All of them are to look.
    pub(crate) fn tell_all(&mut self, errands: &mut Errands) {
        let ids: Vec<WatchId> = self.threads.keys().chain(self.tasks.keys()).copied().collect();
        ids.into_iter().for_each(|id| self.tell(id, errands));
    }
}
