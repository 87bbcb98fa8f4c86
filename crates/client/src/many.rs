//! Asking for several locks: all or none, in one order everywhere.

use crate::core::{Answer, Core, Terms};
use crate::engine::Engine;
use crate::errands::Errands;
use crate::guard::{Guard, Lost, block_on};
use crate::name::Named;
use crate::observe::Watch;
use crate::request::Begun;
use crate::session::{Connection, Session};
use crate::spread::{OfShard, Spread};
use crate::{Error, Name, clock};
use std::future::{Future, IntoFuture};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use wayside_protocol::{AcquireError, Mode, Time};

/// Several locks that are asked for.
///
/// ```no_run
/// # let session = wayside_client::Session::connect("127.0.0.1:7600")?;
/// let guards = session.lock_many(["accounts/7", "accounts/4"]).acquire()?;
/// # Ok::<(), wayside_client::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is asked for until `acquire`, `try_lock` or `.await`"]
pub struct ManyRequest<'s, 'n> {
    session: &'s Session,
    names: Result<Vec<Named<'n>>, Error>,
    terms: Terms,
}

impl<'s, 'n> ManyRequest<'s, 'n> {
    pub(crate) fn new(session: &'s Session, names: impl Iterator<Item = Name<'n>>) -> Self {
        // Not collected as a result: that would not make room at once.
        let mut named = Vec::with_capacity(names.size_hint().0);
        let outcome = names.into_iter().try_for_each(|name| {
            named.push(name.named()?);
            Ok(())
        });
        ManyRequest { session, names: outcome.map(|()| named), terms: Terms::PLAIN }
    }

    /// All of them shared, instead of exclusive.
    pub fn shared(mut self) -> Self {
        self.terms.mode = Mode::Shared;
        self
    }

    /// Before whom each is served where it has to wait: as
    /// [`LockRequest::priority`](crate::LockRequest::priority).
    pub fn priority(mut self, level: u8) -> Self {
        self.terms.set_priority(level);
        self
    }

    /// How long to wait at most for all of them together.
    pub fn wait(mut self, most: Duration) -> Self {
        self.terms.wait = Some(most);
        self
    }

    /// How long to hold each of them at most, counted from its own grant.
    pub fn ttl(mut self, longest: Duration) -> Self {
        self.terms.hold_at_most(longest);
        self
    }

    /// Waits for all of them. Where nobody holds any, up to 32 take one round trip.
    ///
    /// If one is lost while others are waited for, all are given back at once; one of another shard, when those of the
    /// next shard have come.
    ///
    /// # Errors
    /// Those of [`LockRequest::acquire`](crate::LockRequest::acquire); then none is held.
    pub fn acquire(self) -> Result<Guards, Error> {
        let mut watch = self.session.connection.engine.config.observer.watch(self.terms.mode);
        let acquired = self.acquire_unwatched().map(Guards::given);
        watch.ends_with(acquired.as_ref().map(Guards::each));
        acquired
    }

    fn acquire_unwatched(self) -> Result<Guards, Error> {
        self.terms.check()?;
        let names = self.names?;
        let Some(spread) = &self.session.spread else {
            return acquire_of(&self.session.connection, names, &self.terms, &mut None, None);
        };
        let start = clock::now();
        let mut since = None;
        loop {
            let taken = spread.divide(&names).and_then(|of_each| {
                of_each.into_iter().try_fold(Guards::default(), |taken, (connection, names)| {
                    let more = acquire_of(&connection, names, &self.terms, &mut since, Some(spread));
                    taken.and(more.map_err(|error| spread.anew(&connection, &error))?)
                })
            });
            match taken {
                // Nothing is held any more: whoever moves a name may wait for another one of these.
                Err(Error::Elsewhere) => {
                    let deadline = self.terms.deadline(start, self.session.connection.engine.patience());
                    spread.pause(deadline, start)?;
                }
                done => return done,
            }
        }
    }

    /// Takes them if all are to be had at once.
    ///
    /// # Errors
    /// Those of [`LockRequest::try_lock`](crate::LockRequest::try_lock); then none is held.
    pub fn try_lock(mut self) -> Result<Guards, Error> {
        self.terms.tries = true;
        self.acquire()
    }

    /// As [`ManyRequest::acquire`], as a future for any executor.
    pub fn acquire_async(self) -> AcquiringMany<'n> {
        let session = self.session;
        // Which shards have them is looked up before they are asked. Of what is no name, and of no names at all, the
        // task is told when it asks.
        let undivided = session.spread.clone().zip(self.names.as_ref().ok().cloned());
        AcquiringMany {
            connection: session.connection.clone(),
            names: self.names,
            is_divided: false,
            undivided,
            rest: Vec::new(),
            taken: Guards::default(),
            terms: self.terms,
            since: None,
            waited: None,
            watch: None,
            is_over: false,
        }
    }

    /// As [`ManyRequest::try_lock`], as a future.
    pub fn try_lock_async(mut self) -> AcquiringMany<'n> {
        self.terms.tries = true;
        self.acquire_async()
    }
}

/// Several locks of one shard. `since`: when the first of all was asked for.
fn acquire_of(
    connection: &Arc<Connection>,
    mut names: Vec<Named<'_>>,
    terms: &Terms,
    since: &mut Option<Time>,
    spread: Option<&Spread>,
) -> Result<Guards, Error> {
    let engine = &connection.engine;
    let (mut room, mut waited) = (Vec::with_capacity(names.len()), Waited::new(names.len()));
    let port = engine.check_out()?;
    let (now, outcome) = loop {
        let begun = engine.visit_and_look(
            Some(port.place),
            |core, now, _| {
                let deadline = terms.deadline(*since.get_or_insert(now), engine.patience());
                let answer = Answer::at(&port);
                Ok((core.begin_many(now, &mut names, terms, deadline, answer, &mut room)?, now))
            },
            |core, _, begun| {
                begun.map(|(begun, now)| {
                    waited.begun = begun;
                    (now, waited.look(core, connection))
                })
            },
        );
        match begun {
            Ok(outcome) => break outcome,
            Err(AcquireError::NoSession) if !spread.is_some_and(Spread::is_changing) => {
                engine.await_session(terms.wait)?;
            }
            Err(AcquireError::NoSession | AcquireError::Elsewhere) => return Err(Error::Elsewhere),
            Err(AcquireError::TooMany | AcquireError::Exhausted) => return Err(Error::TooMany),
        }
    };
    let look = |core: &mut Core, _: &mut Errands| waited.look(core, connection);
    engine.wait_unless(outcome, &port, &port.socket, now, look).inspect_err(|_| waited.give_up(engine))
}

impl<'n> IntoFuture for ManyRequest<'_, 'n> {
    type Output = Result<Guards, Error>;
    type IntoFuture = AcquiringMany<'n>;

    fn into_future(self) -> AcquiringMany<'n> {
        self.acquire_async()
    }
}

/// A pending acquire of several locks. Ready with all guards, or with why there are none.
#[must_use = "futures do nothing unless polled"]
pub struct AcquiringMany<'n> {
    /// Of the shard whose locks are asked for.
    connection: Arc<Connection>,
    names: Result<Vec<Named<'n>>, Error>,
    /// All of them, where there are several shards; and whether it is known which shards have them.
    undivided: Option<(Arc<Spread>, Vec<Named<'n>>)>,
    is_divided: bool,
    /// What is asked for when these are held, the next one last.
    rest: Vec<OfShard<'n>>,
    /// Of shards before.
    taken: Guards,
    terms: Terms,
    since: Option<Time>,
    waited: Option<Waited>,
    /// From the first poll on.
    watch: Option<Watch>,
    /// It was ready.
    is_over: bool,
}

impl Future for AcquiringMany<'_> {
    type Output = Result<Guards, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(!self.is_over, "polled after it was ready");
        if self.watch.is_none() {
            self.watch = Some(self.connection.engine.config.observer.watch(self.terms.mode));
        }
        let polled = self.poll_unwatched(context).map_ok(Guards::given);
        self.is_over = polled.is_ready();
        if let (Poll::Ready(acquired), Some(mut watch)) = (&polled, self.watch.take_if(|_| polled.is_ready())) {
            watch.ends_with(acquired.as_ref().map(Guards::each));
        }
        polled
    }
}

impl AcquiringMany<'_> {
    fn poll_unwatched(&mut self, context: &mut Context<'_>) -> Poll<Result<Guards, Error>> {
        if !self.connection.engine.is_here() {
            return Poll::Ready(Err(Error::Closed));
        }
        loop {
            if let Err(error) = self.divide() {
                return self.park(context, error);
            }
            let Poll::Ready(acquired) = self.poll_shard(context) else { return Poll::Pending };
            let acquired = acquired.map_err(|error| match &self.undivided {
                Some((spread, _)) => spread.anew(&self.connection, &error),
                None => error,
            });
            if let Err(Error::Elsewhere) = acquired {
                return self.park(context, Error::Elsewhere);
            }
            let taken = mem::take(&mut self.taken);
            let all = acquired.and_then(|guards| taken.and(guards));
            let Some((connection, names)) = self.rest.pop().filter(|_| all.is_ok()) else { return Poll::Ready(all) };
            self.taken = all?;
            (self.connection, self.names, self.waited) = (connection, Ok(names), None);
        }
    }

    /// Finds out which shards have them, unless that is known.
    fn divide(&mut self) -> Result<(), Error> {
        if let Some((spread, names)) = self.undivided.as_ref().filter(|_| !self.is_divided) {
            self.terms.check()?;
            let mut rest = spread.divide(names)?;
            rest.reverse();
            if let Some((connection, names)) = rest.pop() {
                (self.connection, self.names, self.rest) = (connection, Ok(names), rest);
            }
        }
        self.is_divided = true;
        Ok(())
    }

    /// Gives back what it has, and waits until each has a shard.
    fn park(&mut self, context: &Context<'_>, error: Error) -> Poll<Result<Guards, Error>> {
        (self.taken, self.waited, self.is_divided) = (Guards::default(), None, false);
        let since = *self.since.get_or_insert_with(clock::now);
        let deadline = self.terms.deadline(since, self.connection.engine.patience());
        match (&self.undivided, error) {
            (Some((spread, _)), Error::Elsewhere) => match spread.park(context.waker(), deadline, since) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            },
            (_, error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_shard(&mut self, context: &mut Context<'_>) -> Poll<Result<Guards, Error>> {
        let this = self;
        let engine = &this.connection.engine;
        let mut wakers = [(); 2].map(|()| Some(context.waker().clone()));
        let connection = &this.connection;
        let outcome = if let Some(waited) = &mut this.waited {
            let look =
                |core: &mut Core, errands: &mut _, ()| waited.look_for_task(core, connection, &mut wakers, errands);
            engine.visit_and_look(None, |_, _, _| (), look)
        } else {
            this.terms.check()?;
            let names = this.names.as_mut().map_err(|error| error.clone())?;
            let since = *this.since.get_or_insert_with(clock::now);
            let (mut room, mut waited) = (Vec::with_capacity(names.len()), Waited::new(names.len()));
            let terms = &this.terms;
            let outcome = engine.begin_for_task(
                context,
                since,
                terms,
                |core, now, deadline, answer| core.begin_many(now, names, terms, deadline, answer, &mut room),
                |core, errands, begun| {
                    waited.begun = begun;
                    waited.look_for_task(core, connection, &mut wakers, errands)
                },
            );
            match outcome {
                Poll::Ready(outcome) => {
                    let outcome = outcome?;
                    this.waited = Some(waited);
                    outcome
                }
                Poll::Pending => return Poll::Pending,
            }
        };
        let Some(outcome) = outcome else { return Poll::Pending };
        let waited = this.waited.replace(Waited::new(0)).expect("set above");
        Poll::Ready(outcome.inspect_err(|_| waited.give_up(engine)))
    }
}

impl Drop for AcquiringMany<'_> {
    fn drop(&mut self) {
        if let Some(waited) = &self.waited {
            waited.give_up(&self.connection.engine);
        }
    }
}

/// Requests that are granted one after the other, and how many of them were when they were looked at last: the others
/// wait, so that the first of them is the next that anything happens to; unless one is upset, of whichever all are
/// looked at.
struct Waited {
    begun: Vec<Begun>,
    held: usize,
    /// The session's when they were looked at last ([`Core::upsets`]).
    upsets: u64,
    /// A task waits.
    is_gathered: bool,
    /// With room for all, made before: nothing allocates while the session's lock is held.
    guards: Vec<Guard>,
}

impl Waited {
    fn new(count: usize) -> Waited {
        let guards = Vec::with_capacity(count);
        Waited { begun: Vec::new(), held: 0, upsets: u64::MAX, is_gathered: false, guards }
    }

    /// All guards, or why there are none; None while that is open.
    fn look(&mut self, core: &mut Core, connection: &Arc<Connection>) -> Option<Result<Guards, Error>> {
        if self.upsets != core.upsets {
            self.upsets = core.upsets;
            // Held before and over by its own time, or given up to end a deadlock while others are waited for.
            for &one in &self.begun {
                if let Some(Err(refused)) = core.book.of(one).outcome() {
                    return Some(Err(core.book.of(one).error(refused)));
                }
            }
        }
        while let Some(&next) = self.begun.get(self.held) {
            match core.book.of(next).outcome()? {
                Ok(_) => self.held += 1,
                Err(refused) => return Some(Err(core.book.of(next).error(refused))),
            }
        }
        self.guards.extend(self.begun.iter().map(|&one| {
            let request = core.book.of(one);
            Guard::new(connection.clone(), request.name, one, request.grant)
        }));
        Some(Ok(Guards { guards: mem::take(&mut self.guards), is_given: false }))
    }

    /// From the last to the first: none of those still to come is asked for.
    fn give_up(&self, engine: &Engine) {
        if let Some(first) = self.begun.first().filter(|_| self.is_gathered && engine.is_here()) {
            engine.visit(|core, _, errands| core.scatter(first.id, errands));
        }
        engine.give_up(self.begun.iter().rev().copied());
    }

    /// As [`Waited::look`]; while that is open the task is called when something happens to the next.
    fn look_for_task(
        &mut self,
        core: &mut Core,
        connection: &Arc<Connection>,
        [waker, gatherer]: &mut [Option<Waker>; 2],
        errands: &mut Errands,
    ) -> Option<Result<Guards, Error>> {
        let before = self.held;
        let outcome = self.look(core, connection);
        for begun in &self.begun[before..self.held] {
            errands.forget(&mut core.book.of(*begun).listeners);
        }
        self.is_gathered = outcome.is_none();
        match (&outcome, self.begun.first()) {
            (None, _) => core.gather(&self.begun, gatherer, errands),
            (Some(_), Some(first)) => core.scatter(first.id, errands),
            (Some(_), None) => {}
        }
        if let Some(&next) = self.begun.get(self.held) {
            let next = core.book.of(next);
            match outcome {
                None => next.listen(waker),
                Some(_) => errands.forget(&mut next.listeners),
            }
        }
        outcome
    }
}

/// Several locks that are held. Dropping them gives all of them back.
#[derive(Debug, Default)]
#[must_use = "the locks are given back when their guards are dropped"]
pub struct Guards {
    guards: Vec<Guard>,
    /// Those of some shards, while others are waited for, are not counted as held.
    is_given: bool,
}

impl Guards {
    /// One guard per name, in the order in which they were taken.
    pub fn each(&self) -> &[Guard] {
        &self.guards
    }

    /// The guard of `name`.
    #[must_use]
    pub fn of<'a>(&self, name: impl Into<Name<'a>>) -> Option<&Guard> {
        let id = name.into().id().ok()?;
        self.guards.iter().find(|guard| guard.name_id() == id)
    }

    /// The earliest deadline of them; None if there are none.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.guards.iter().map(Guard::deadline).min()
    }

    /// Whether one of them is lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.guards.iter().any(Guard::is_lost)
    }

    /// Sleeps until one of them is lost; for ever if there are none.
    pub fn lost(&self) {
        block_on(self.lost_async());
    }

    /// Ready when one of them is lost.
    pub fn lost_async(&self) -> impl Future<Output = ()> + Send + '_ {
        Lost::of(&self.guards)
    }

    /// Gives all of them back, and says whether all were held until now.
    ///
    /// # Errors
    /// [`Error::Lost`] if one was not.
    pub fn release(mut self) -> Result<(), Error> {
        if self.give_back() > 0 { Err(Error::Lost) } else { Ok(()) }
    }

    /// They are the caller's from now on.
    fn given(mut self) -> Guards {
        self.is_given = true;
        self
    }

    /// These and those of another shard, unless some of these were lost while the others were waited for.
    fn and(mut self, mut others: Guards) -> Result<Guards, Error> {
        if self.guards.is_empty() {
            return Ok(others);
        }
        if self.is_lost() {
            return Err(Error::Lost);
        }
        self.guards.append(&mut others.guards);
        Ok(self)
    }

    /// All of a shard at once: one visit of the session, and as few system calls as the transport allows. How many were
    /// lost.
    fn give_back(&mut self) -> usize {
        let mut lost = 0;
        for of_shard in self.guards.chunk_by_mut(|one, next| Arc::ptr_eq(one.connection(), next.connection())) {
            let connection = of_shard[0].connection().clone();
            let counted = if self.is_given { of_shard.len() } else { 0 };
            (0..counted).for_each(|_| connection.engine.config.observer.gave_back());
            lost += connection.engine.give_up(of_shard.iter_mut().map(Guard::take));
        }
        self.guards.clear();
        lost
    }
}

impl Drop for Guards {
    fn drop(&mut self) {
        self.give_back();
    }
}
