//! Guards: what a holder has in hand.
//!
//! A guard may be moved to another thread or task, dropped anywhere and at any time. If it is forgotten, its lock is
//! held until the session ends.

use crate::core::Begun;
use crate::request::{Request, Standing};
use crate::session::Connection;
use crate::{Error, clock};
use std::future::{self, Future};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;
use wayside_protocol::{Mode, Path, RequestId, Time, Token};

/// A lock that is held. Dropping it gives the lock back, without waiting for anybody.
///
/// What the lock protects is safe only until [`Guard::deadline`], which moves on with every heartbeat of the session,
/// and against a process that sleeps through it only if the resource checks [`Guard::token`]: it refuses tokens below
/// the highest it has seen.
#[must_use = "the lock is given back when its guard is dropped"]
pub struct Guard {
    connection: Arc<Connection>,
    id: RequestId,
    /// None once given back.
    request: Option<Arc<Request>>,
}

impl Guard {
    pub(crate) fn new(connection: Arc<Connection>, begun: Begun) -> Guard {
        Guard { connection, id: begun.id, request: Some(begun.request) }
    }

    fn request(&self) -> &Arc<Request> {
        self.request.as_ref().expect("taken only by release and drop, which consume the guard")
    }

    /// The fencing token: 63 bits. A later exclusive grant of the same name has a higher one, across restarts of the
    /// switch too; shared holders may have the same.
    #[must_use]
    pub fn token(&self) -> Token {
        self.request().token()
    }

    /// Shared or exclusive.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.request().mode()
    }

    /// Who granted it: the switch, the slot's agent on another node, or this process's own agent.
    #[must_use]
    pub fn path(&self) -> Path {
        self.request().path()
    }

    /// The name as it was asked for; a number in decimal.
    #[must_use]
    pub fn name(&self) -> String {
        self.request().name.to_string()
    }

    pub(crate) fn name_id(&self) -> u64 {
        self.request().name.id
    }

    fn end(&self) -> Time {
        self.connection.engine.lease_end().min(self.request().until())
    }

    /// Until when the lock is held unless the session's next heartbeat is acknowledged before: earlier than anybody
    /// else's grant. With a [`ttl`](crate::LockRequest::ttl), never later than its end.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        clock::instant(self.end()).unwrap_or_else(Instant::now)
    }

    /// Whether the lock is lost. Cheap (no system call): ask before every step that must not happen without it.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.request().standing() != Standing::Held || clock::now() >= self.end()
    }

    /// Sleeps until the lock is lost: for a thread that watches over the work of another one.
    pub fn lost(&self) {
        block_on(self.lost_async());
    }

    /// Ready when the lock is lost.
    pub fn lost_async(&self) -> impl Future<Output = ()> + Send + '_ {
        future::poll_fn(|context| self.poll_lost(context))
    }

    pub(crate) fn poll_lost(&self, context: &mut Context<'_>) -> Poll<()> {
        self.request().listen(context);
        if self.is_lost() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Makes an exclusive hold shared, in one step: nobody else can hold it exclusively in between. The token stays.
    /// Waits for the agent's answer: a round trip where that is another node.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub fn downgrade(&mut self) -> Result<(), Error> {
        let engine = &self.connection.engine;
        let request = self.request();
        let port = engine.check_out()?;
        let known = engine.visit(|core, now, _| {
            let home = core.requests.get_mut(&self.id)?.waiter.replace(port.clone());
            core.node.downgrade(now, self.id);
            Some(home.unwrap_or_else(|| engine.reactor.clone()))
        });
        // The answer comes to the port of the thread that acquired.
        let home = known.ok_or(Error::Lost)?;
        engine.wait(&port, &home.socket, || request.standing() != Standing::Held || request.mode() == Mode::Shared);
        if self.is_lost() { Err(Error::Lost) } else { Ok(()) }
    }

    /// As [`Guard::downgrade`], as a future. Dropping it does not take the downgrade back.
    pub async fn downgrade_async(&mut self) -> Result<(), Error> {
        let engine = &self.connection.engine;
        let known = engine.visit(|core, now, _| {
            core.node.downgrade(now, self.id);
            core.requests.contains_key(&self.id)
        });
        engine.entrust_timers();
        future::poll_fn(|context| {
            self.request().listen(context);
            let settled = !known || self.is_lost() || self.mode() == Mode::Shared;
            if settled { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        if self.is_lost() { Err(Error::Lost) } else { Ok(()) }
    }

    /// Gives the lock back, without waiting for an answer, and says whether it was held until now.
    ///
    /// # Errors
    /// [`Error::Lost`] if it was not: what was done under it may have met another holder.
    pub fn release(mut self) -> Result<(), Error> {
        let lost = self.is_lost();
        let known = self.give_back();
        if known && !lost { Ok(()) } else { Err(Error::Lost) }
    }

    fn give_back(&mut self) -> bool {
        self.request.take().is_some_and(|request| {
            self.connection.engine.config.observer.gave_back();
            self.connection.engine.give_up(self.id, request)
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut guard = f.debug_struct("Guard");
        guard.field("name", &self.name()).field("mode", &self.mode()).field("token", &self.token());
        guard.field("lost", &self.is_lost()).finish()
    }
}

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
