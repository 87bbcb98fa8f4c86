//! Guards: what a holder has in hand.
//!
//! A guard may be moved to another thread or task ([`Guard::adopt`]), dropped anywhere and at any time. If it is
//! forgotten, its lock is held until the session ends.

use crate::core::Core;
use crate::errands::Errands;
use crate::port::Place;
use crate::request::{Begun, Grant, Request, Standing};
use crate::session::Connection;
use crate::{Error, clock, task};
use std::future::{self, Future};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use wayside_protocol::{Fetched, Mode, NotFetched, Path, Time, Token};

/// A lock that is held. Dropping it gives the lock back, without waiting for anybody.
///
/// What the lock protects is safe only until [`Guard::deadline`], which moves on with every heartbeat of the session,
/// and against a process that sleeps through it only if the resource checks [`Guard::token`]: it refuses tokens below
/// the highest it has seen.
#[must_use = "the lock is given back when its guard is dropped"]
pub struct Guard {
    connection: Arc<Connection>,
    name: u64,
    begun: Begun,
    grant: Grant,
    is_given_back: bool,
}

impl Guard {
    #[inline]
    pub(crate) fn new(connection: Arc<Connection>, name: u64, begun: Begun, grant: Grant) -> Guard {
        Guard { connection, name, begun, grant, is_given_back: false }
    }

    /// Looks at what the session knows of it, over or not; nothing, in a process that was forked since.
    fn look<R>(&self, look: impl FnOnce(&mut Request, &mut Errands) -> R) -> Option<R> {
        let engine = &self.connection.engine;
        let look = |core: &mut Core, _, errands: &mut _| look(core.book.of(self.begun), errands);
        engine.is_here().then(|| engine.visit(look))
    }

    /// The fencing token: 63 bits. A later exclusive grant of the same name has a higher one, across restarts of the
    /// switch too; shared holders may have the same.
    #[must_use]
    pub fn token(&self) -> Token {
        self.grant.token
    }

    /// Shared or exclusive; shared in a process that was forked since, where nothing is held.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.look(|request, _| request.mode).unwrap_or(Mode::Shared)
    }

    /// Who granted it: the switch, the slot's agent on another node, or this process's own agent.
    #[must_use]
    pub fn path(&self) -> Path {
        self.grant.path
    }

    /// The name as it was asked for; a number in decimal, as which it is known in a process that was forked since.
    #[must_use]
    pub fn name(&self) -> String {
        self.look(|request, _| request.label()).unwrap_or_else(|| self.name.to_string())
    }

    /// The calling thread, or the [`Task`](crate::Task) that it works for, holds the lock from now on, as far as
    /// deadlocks are concerned: for whoever gets a guard that another thread or task has acquired.
    pub fn adopt(&self) {
        let task = task::of_thread();
        self.look(|request, _| request.task = task);
    }

    /// What [`LockRequest::fetch`](crate::LockRequest::fetch) has brought along, once; or why the lock came alone, and
    /// the caller has to fetch by itself. What is there was read while the lock was held by this very guard.
    ///
    /// # Errors
    /// [`NotFetched`](crate::NotFetched): which is no reason to give the lock back.
    pub fn fetched(&mut self) -> Fetched {
        let engine = &self.connection.engine;
        let take = |core: &mut Core, _, _: &mut _| core.node.take_fetched(self.begun.id);
        if engine.is_here() { engine.visit(take) } else { Err(NotFetched::Direct) }
    }

    pub(crate) fn name_id(&self) -> u64 {
        self.name
    }

    fn end(&self) -> Time {
        self.connection.engine.lease_end(self.begun.id).min(self.grant.until)
    }

    /// Until when the lock is held unless the session's next heartbeat is acknowledged before: earlier than anybody
    /// else's grant. With a [`ttl`](crate::LockRequest::ttl), never later than its end.
    ///
    /// Do not keep it: while a host is suspended the lease goes on, and an [`Instant`] does not. [`Guard::is_lost`]
    /// knows.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        clock::instant(self.end()).unwrap_or_else(Instant::now)
    }

    /// Whether the lock is lost. Cheap (no system call): ask before every step that must not happen without it.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        clock::now() >= self.end()
    }

    /// Sleeps until the lock is lost: for a thread that watches over the work of another one.
    pub fn lost(&self) {
        block_on(self.lost_async());
    }

    /// Ready when the lock is lost.
    pub fn lost_async(&self) -> impl Future<Output = ()> + Send + '_ {
        Lost::of(std::slice::from_ref(self))
    }

    /// Makes an exclusive hold shared, in one step: nobody else can hold it exclusively in between. The token stays.
    /// Waits for the agent's answer: a round trip where that is another node.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub fn downgrade(&mut self) -> Result<(), Error> {
        let engine = &self.connection.engine;
        let port = engine.check_out()?;
        let (home, now, shared) = engine.visit_and_look(
            Some(port.place),
            |core, now, _| {
                // The answer comes to the port of the thread that acquired.
                let home = core.book.of(self.begun).waiter.replace(port.place).unwrap_or(Place::REACTOR);
                core.node.downgrade(now, self.begun.id);
                (home, now)
            },
            |core, _, (home, now)| (home, now, core.book.of(self.begun).downgraded()),
        );
        let look = |core: &mut Core, _: &mut _| core.book.of(self.begun).downgraded();
        // What comes for tasks has its readers, who tell this thread.
        let home = if home == Place::REACTOR { &port } else { engine.port(home) };
        engine.wait_unless(shared, &port, &home.socket, now, look)?;
        if self.is_lost() { Err(Error::Lost) } else { Ok(()) }
    }

    /// As [`Guard::downgrade`], as a future. Dropping it does not take the downgrade back.
    pub async fn downgrade_async(&mut self) -> Result<(), Error> {
        let engine = &self.connection.engine;
        if !engine.is_here() {
            return Err(Error::Closed);
        }
        engine.visit(|core, now, _| core.node.downgrade(now, self.begun.id));
        engine.entrust_timers();
        future::poll_fn(|context| {
            let mut waker = Some(context.waker().clone());
            let shared = self.look(|request, errands| {
                let shared = request.downgraded();
                match shared {
                    None => request.listen(&mut waker),
                    Some(_) => errands.forget(&mut request.listeners),
                }
                shared
            });
            shared.unwrap_or(Some(Err(Error::Closed))).map_or(Poll::Pending, Poll::Ready)
        })
        .await?;
        if self.is_lost() { Err(Error::Lost) } else { Ok(()) }
    }

    /// Gives the lock back, without waiting for an answer, and says whether it was held until now.
    ///
    /// # Errors
    /// [`Error::Lost`] if it was not: what was done under it may have met another holder.
    pub fn release(mut self) -> Result<(), Error> {
        let engine = &self.connection.engine;
        engine.config.observer.gave_back();
        self.is_given_back = true;
        if engine.give_up([self.begun].into_iter()) > 0 { Err(Error::Lost) } else { Ok(()) }
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// For who gives its request back himself, with others.
    pub(crate) fn take(&mut self) -> Begun {
        self.is_given_back = true;
        self.begun
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_given_back {
            let engine = &self.connection.engine;
            engine.config.observer.gave_back();
            engine.give_up([self.begun].into_iter());
        }
    }
}

impl Request {
    /// What came of a downgrade; None: nothing yet.
    fn downgraded(&self) -> Option<Result<(), Error>> {
        if self.standing != Standing::Held {
            Some(Err(Error::Lost))
        } else {
            (self.mode == Mode::Shared).then_some(Ok(()))
        }
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut guard = f.debug_struct("Guard");
        guard.field("name", &self.name()).field("mode", &self.mode()).field("token", &self.token());
        guard.field("lost", &self.is_lost()).finish()
    }
}

/// Between looks whether anybody still wants what is waited for.
const LOOK: Duration = Duration::from_millis(50);

/// Wakes a thread that waits for a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}

/// As [`block_on`], while somebody `wants` it: asked again and again as long as it is not ready.
pub(crate) fn block_on_while<T>(future: impl Future<Output = T>, wants: impl Fn() -> bool) -> Option<T> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(result);
        }
        if !wants() {
            return None;
        }
        thread::park_timeout(LOOK);
    }
}

/// Ready when one of these guards is lost. Polled anew with each turn of a task, and mostly dropped before: what it has
/// left with its guards goes with it.
pub(crate) struct Lost<'g> {
    guards: &'g [Guard],
    /// Under which its wakers are known there.
    number: u64,
    is_known: bool,
}

impl Lost<'_> {
    pub(crate) fn of(guards: &[Guard]) -> Lost<'_> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Lost { guards, number: NEXT.fetch_add(1, Relaxed), is_known: false }
    }
}

impl Future for Lost<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.guards.iter().any(Guard::is_lost) {
            return Poll::Ready(());
        }
        self.is_known = true;
        for guard in self.guards {
            let waker = context.waker().clone();
            // What it replaces is dropped without the session's lock.
            drop(guard.look(|request, _| request.watch(self.number, Some(waker))));
        }
        if self.guards.iter().any(Guard::is_lost) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Lost<'_> {
    fn drop(&mut self) {
        if self.is_known {
            for guard in self.guards.iter().filter(|guard| guard.connection.engine.is_here()) {
                drop(guard.look(|request, _| request.watch(self.number, None)));
            }
        }
    }
}
