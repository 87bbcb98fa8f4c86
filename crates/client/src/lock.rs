//! Asking for one lock: blocking, trying, or as a future.

use crate::core::{Answer, Core, Terms};
use crate::engine::Engine;
use crate::errands::Errands;
use crate::fetch;
use crate::guard::Guard;
use crate::name::Named;
use crate::observe::Watch;
use crate::port::{CheckedOut, Place};
use crate::request::{Begun, Outcome, Refused};
use crate::session::{Connection, Session};
use crate::spread::Spread;
use crate::{Error, Name, NodeId, clock};
use std::future::{self, Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use wayside_protocol::{AcquireError, Mode, Time};

/// A lock that is asked for. [`LockRequest::acquire`] blocks; awaiting it does not.
///
/// ```no_run
/// # use std::time::Duration;
/// # let session = wayside_client::Session::connect("127.0.0.1:7600")?;
/// let guard = session.lock("orders/42").shared().wait(Duration::from_secs(5)).acquire()?;
/// # Ok::<(), wayside_client::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is asked for until `acquire`, `try_lock` or `.await`"]
pub struct LockRequest<'s, 'n> {
    session: &'s Session,
    name: Name<'n>,
    terms: Terms,
    /// What comes with it, of whom, and how that is asked.
    fetches: Option<(NodeId, &'n [u8])>,
}

impl<'s, 'n> LockRequest<'s, 'n> {
    pub(crate) fn new(session: &'s Session, name: Name<'n>) -> Self {
        LockRequest { session, name, terms: Terms::PLAIN, fetches: None }
    }

    /// Together with any number of other shared holders, instead of alone.
    pub fn shared(mut self) -> Self {
        self.terms.mode = Mode::Shared;
        self
    }

    /// Before whom it is served where it has to wait: 0 to 7, and the higher goes first; 4 unless told. Equals are
    /// served first come, first served, and nobody is overtaken more than a few times (docs/protocol.md, "Priorities";
    /// what queues in the switch make of it: docs/queue.md). Another number is [`Error::InvalidPriority`] when it is
    /// asked for.
    pub fn priority(mut self, level: u8) -> Self {
        self.terms.set_priority(level);
        self
    }

    /// One round trip for the lock and what it protects: the switch sends the grant on to the session `server`, which
    /// adds what it answers to `ask` and passes both here. [`Guard::fetched`] has that answer.
    ///
    /// The lock is had in any case, as without this: where there is no such server, or it does not answer within a few
    /// milliseconds, or the lock is not free at once, or is none whose queue is in the switch (docs/queue.md), it comes
    /// alone, and [`Guard::fetched`] says why.
    /// Up to 960 bytes may be asked, and answered. More is [`Error::FetchTooLarge`] when it is asked for.
    pub fn fetch(mut self, server: NodeId, ask: &'n [u8]) -> Self {
        self.fetches = Some((server, ask));
        self
    }

    /// Of what is asked: nothing, where locks are divided among shards, of which each has its own sessions.
    fn fetches(&self) -> Result<Option<(NodeId, &'n [u8])>, Error> {
        self.fetches.map_or(Ok(()), |(_, ask)| fetch::check(ask))?;
        Ok(self.fetches.filter(|_| self.session.spread.is_none()))
    }

    /// How long to wait at most; without it, as long as the session lives.
    pub fn wait(mut self, most: Duration) -> Self {
        self.terms.wait = Some(most);
        self
    }

    /// How long to hold it at most, counted from the grant: then the guard is lost and the lock given back, however
    /// well the session is. Without it, as long as the session lives.
    pub fn ttl(mut self, longest: Duration) -> Self {
        self.terms.hold_at_most(longest);
        self
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// [`Error::TimedOut`] after [`LockRequest::wait`], or [`Error::OverBudget`] if the namespace asked for too much
    /// meanwhile; [`Error::Deadlock`] if it was given up to end one; [`Error::Lost`] if the session is lost.
    /// [`Error::Unavailable`] if there is no session and none to be had, [`Error::Refused`] and [`Error::NotJoined`] if
    /// that is why. [`Error::InvalidName`], [`Error::InvalidPriority`], [`Error::FetchTooLarge`],
    /// [`Error::TooMany`]. [`Error::Closed`] after [`Session::close`], and in a process that was forked since;
    /// [`Error::System`] without another socket.
    pub fn acquire(self) -> Result<Guard, Error> {
        let Some(spread) = &self.session.spread else { return self.acquire_of(&self.session.connection, None, None) };
        let since = clock::now();
        loop {
            // What is no name is told as by any connection.
            let connection =
                self.name.id().map_or_else(|_| Ok(self.session.connection.clone()), |name| spread.of(name));
            let acquired = connection.and_then(|connection| {
                let acquired = self.acquire_of(&connection, Some(spread), Some(since));
                acquired.map_err(|error| spread.anew(&connection, &error))
            });
            match acquired {
                Err(Error::Elsewhere) => spread.pause(self.terms.deadline(since, self.patience()), since)?,
                acquired => return acquired,
            }
        }
    }

    fn patience(&self) -> Duration {
        self.session.connection.engine.patience()
    }

    /// Of the shard that has it, or of the only one.
    #[inline]
    fn acquire_of(
        &self,
        connection: &Arc<Connection>,
        spread: Option<&Spread>,
        since: Option<Time>,
    ) -> Result<Guard, Error> {
        let mut watch = connection.engine.config.observer.watch(self.terms.mode);
        let acquired = self.acquire_watched(connection, spread, since, &mut watch);
        watch.ends(&acquired);
        acquired
    }

    fn acquire_watched(
        &self,
        connection: &Arc<Connection>,
        spread: Option<&Spread>,
        mut since: Option<Time>,
        watch: &mut Watch,
    ) -> Result<Guard, Error> {
        self.terms.check()?;
        let fetches = self.fetches()?;
        let name = self.name.named()?;
        let engine = &connection.engine;
        let port = engine.check_out()?;
        let (begun, now, outcome) = loop {
            let begun = engine.visit_and_look(
                Some(port.place),
                |core, now, errands| {
                    let deadline = self.terms.deadline(*since.get_or_insert(now), engine.patience());
                    let begun = core.begin(now, name, &self.terms, deadline, Answer::at(&port), fetches)?;
                    errands.is_quick = fetches.is_none() && core.node.was_quick();
                    watch.is(begun, name.id, core);
                    Ok((begun, now))
                },
                |core, _, begun: Result<_, AcquireError>| {
                    begun.map(|(begun, now)| (begun, now, core.book.of(begun).outcome()))
                },
            );
            match begun {
                Ok(begun) => break begun,
                Err(AcquireError::NoSession) if !spread.is_some_and(Spread::is_changing) => {
                    engine.await_session(self.terms.wait)?;
                }
                Err(AcquireError::NoSession | AcquireError::Elsewhere) => return Err(Error::Elsewhere),
                Err(AcquireError::TooMany | AcquireError::Exhausted) => return Err(Error::TooMany),
            }
        };
        let look = |core: &mut Core, _: &mut Errands| core.book.of(begun).outcome();
        let outcome = engine.wait_unless(outcome, &port, &port.socket, now, look);
        conclude(connection, name.id, begun, outcome)
    }

    /// Takes the lock if it is to be had at once: one round trip.
    ///
    /// # Errors
    /// [`Error::Busy`] if it is held or awaited by others, and those of [`LockRequest::acquire`]; [`Error::TimedOut`]
    /// without an answer.
    pub fn try_lock(mut self) -> Result<Guard, Error> {
        self.terms.tries = true;
        self.acquire()
    }

    /// As [`LockRequest::acquire`], as a future for any executor. Nothing is sent before the first poll; dropping it
    /// takes the request back.
    pub fn acquire_async(self) -> Acquiring<'n> {
        Acquiring {
            connection: self.session.connection.clone(),
            spread: self.session.spread.clone(),
            name: self.name.named(),
            terms: self.terms,
            fetches: self.fetches(),
            state: State::New { since: None },
            watch: None,
        }
    }

    /// As [`LockRequest::try_lock`], as a future.
    pub fn try_lock_async(mut self) -> Acquiring<'n> {
        self.terms.tries = true;
        self.acquire_async()
    }
}

impl<'n> IntoFuture for LockRequest<'_, 'n> {
    type Output = Result<Guard, Error>;
    type IntoFuture = Acquiring<'n>;

    fn into_future(self) -> Acquiring<'n> {
        self.acquire_async()
    }
}

/// A pending acquire. Ready with the guard, or with why there is none.
#[must_use = "futures do nothing unless polled"]
pub struct Acquiring<'n> {
    connection: Arc<Connection>,
    /// Where there are several shards: which of them has it is looked up before it is asked.
    spread: Option<Arc<Spread>>,
    name: Result<Named<'n>, Error>,
    terms: Terms,
    fetches: Result<Option<(NodeId, &'n [u8])>, Error>,
    state: State,
    /// From the first poll on.
    watch: Option<Watch>,
}

enum State {
    New {
        since: Option<Time>,
    },
    /// With its name's id.
    Waiting(u64, Begun),
    Done,
}

impl Future for Acquiring<'_> {
    type Output = Result<Guard, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.poll_watched(context);
        if let (Poll::Ready(acquired), Some(mut watch)) = (&polled, self.watch.take_if(|_| polled.is_ready())) {
            watch.ends(acquired);
        }
        polled
    }
}

impl Acquiring<'_> {
    fn poll_watched(&mut self, context: &mut Context<'_>) -> Poll<Result<Guard, Error>> {
        let this = self;
        if !this.connection.engine.is_here() {
            return Poll::Ready(Err(Error::Closed));
        }
        if let (Some(spread), State::New { since }, Ok(name)) = (&this.spread, &mut this.state, &this.name) {
            let since = *since.get_or_insert_with(clock::now);
            match spread.of(name.id) {
                Ok(connection) => this.connection = connection,
                Err(Error::Elsewhere) => return this.park(context, since),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let engine = &this.connection.engine;
        let watch = this.watch.get_or_insert_with(|| engine.config.observer.watch(this.terms.mode));
        let mut waker = Some(context.waker().clone());
        let (name, outcome) = match this.state {
            State::New { ref mut since } => {
                this.terms.check()?;
                let name = this.name.clone()?;
                let fetches = this.fetches.clone()?;
                let since = *since.get_or_insert_with(clock::now);
                let terms = &this.terms;
                let begun = engine.begin_for_task(
                    context,
                    since,
                    terms,
                    |core, now, deadline, answer| {
                        let begun = core.begin(now, name, terms, deadline, answer, fetches)?;
                        watch.is(begun, name.id, core);
                        Ok(begun)
                    },
                    |core, errands, begun| (begun, core.look_for_task(begun, &mut waker, errands)),
                );
                match begun {
                    Poll::Ready(Ok((begun, outcome))) => {
                        this.state = State::Waiting(name.id, begun);
                        (name.id, outcome)
                    }
                    Poll::Ready(Err(error)) => {
                        return match this.spread.as_ref().map(|spread| spread.anew(&this.connection, &error)) {
                            Some(Error::Elsewhere) => this.park(context, since),
                            anew => Poll::Ready(Err(anew.unwrap_or(error))),
                        };
                    }
                    Poll::Pending => return Poll::Pending,
                }
            }
            State::Waiting(name, begun) => {
                let look = |core: &mut Core, errands: &mut _, ()| core.look_for_task(begun, &mut waker, errands);
                (name, engine.visit_and_look(None, |_, _, _| (), look))
            }
            State::Done => panic!("polled after it was ready"),
        };
        let Some(outcome) = outcome else { return Poll::Pending };
        let State::Waiting(_, begun) = std::mem::replace(&mut this.state, State::Done) else {
            unreachable!("as above")
        };
        Poll::Ready(conclude(&this.connection, name, begun, outcome))
    }
}

impl Acquiring<'_> {
    /// Waits until some shard has it.
    fn park(&self, context: &Context<'_>, since: Time) -> Poll<Result<Guard, Error>> {
        let Some(spread) = &self.spread else { return Poll::Ready(Err(Error::Elsewhere)) };
        let deadline = self.terms.deadline(since, self.connection.engine.patience());
        match spread.park(context.waker(), deadline, since) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        if let State::Waiting(_, begun) = self.state {
            self.connection.engine.give_up([begun].into_iter());
        }
    }
}

/// The guard of a request that was granted; otherwise the request is given up.
#[inline]
fn conclude(connection: &Arc<Connection>, name: u64, begun: Begun, outcome: Outcome) -> Result<Guard, Error> {
    match outcome {
        Ok(grant) => Ok(Guard::new(connection.clone(), name, begun, grant)),
        Err(refused) => Err(give_up(connection, begun, refused)),
    }
}

/// Why there is no guard, and there will be none.
#[cold]
fn give_up(connection: &Connection, begun: Begun, refused: Refused) -> Error {
    let error = connection.engine.visit(|core, _, _| core.book.of(begun).error(refused));
    connection.engine.give_up([begun].into_iter());
    error
}

impl Answer {
    /// At the port of the thread that will wait for it.
    #[inline]
    pub(crate) fn at(port: &CheckedOut<'_>) -> Answer {
        Answer { place: port.place, number: port.socket.number() }
    }
}

impl Core {
    /// What came of a task's request; where it waits, the task is called when that changes.
    fn look_for_task(&mut self, begun: Begun, waker: &mut Option<Waker>, errands: &mut Errands) -> Option<Outcome> {
        let request = self.book.of(begun);
        let outcome = request.outcome();
        match outcome {
            None => request.listen(waker),
            Some(_) => errands.forget(&mut request.listeners),
        }
        outcome
    }
}

impl Engine {
    /// Begins a request for a task, which is called when there is a session to begin it in. `look` as in
    /// [`Engine::visit_and_look`].
    pub(crate) fn begin_for_task<B, T>(
        &self,
        context: &Context<'_>,
        since: Time,
        terms: &Terms,
        begin: impl FnOnce(&mut Core, Time, Option<Time>, Answer) -> Result<B, AcquireError>,
        look: impl FnOnce(&mut Core, &mut Errands, B) -> T,
    ) -> Poll<Result<T, Error>> {
        let deadline = terms.deadline(since, self.patience());
        let answer = Answer { place: Place::REACTOR, number: self.reactor().socket.number() };
        let mut waker = Some(context.waker().clone());
        let begun = self.visit_and_look(
            None,
            |core, now, _| {
                match begin(core, now, deadline, answer) {
                    Ok(begun) => return Ok(Some(begun)),
                    Err(AcquireError::NoSession) => {}
                    Err(AcquireError::Elsewhere) => return Err(Error::Elsewhere),
                    Err(AcquireError::TooMany | AcquireError::Exhausted) => return Err(Error::TooMany),
                }
                if deadline.is_some_and(|deadline| now >= deadline) {
                    return Err(Error::TimedOut);
                }
                self.verdict(core).transpose()?;
                if now >= clock::after(since, self.patience()) {
                    return Err(self.lack(core));
                }
                core.newcomers.extend(waker.take());
                Ok(None)
            },
            |core, errands, begun| begun.map(|begun| begun.map(|begun| look(core, errands, begun))),
        );
        self.entrust_timers();
        match begun {
            Ok(Some(begun)) => Poll::Ready(Ok(begun)),
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// As [`Engine::await_session`], for a task.
    pub(crate) async fn await_session_async(&self, most: Option<Duration>) -> Result<(), Error> {
        if !self.is_here() {
            return Err(Error::Closed);
        }
        let (since, terms) = (clock::now(), Terms { wait: most, ..Terms::PLAIN });
        let is_there = |core: &mut Core, _, _, _| core.info().map(|_| ()).ok_or(AcquireError::NoSession);
        future::poll_fn(|context| self.begin_for_task(context, since, &terms, is_there, |_, _, ()| ())).await
    }
}
