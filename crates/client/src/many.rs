//! Asking for several locks: all or none, in one order everywhere.

use crate::core::{Answer, Begun, Terms};
use crate::guard::{Guard, block_on};
use crate::lock::{conclude, failure};
use crate::name::Named;
use crate::observe::Watch;
use crate::request::Standing;
use crate::session::{Connection, Session};
use crate::{Error, Name, clock};
use std::future::{self, Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use wayside_protocol::{Mode, Time};

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
    names: Vec<Name<'n>>,
    terms: Terms,
}

impl<'s, 'n> ManyRequest<'s, 'n> {
    pub(crate) fn new(session: &'s Session, names: Vec<Name<'n>>) -> Self {
        ManyRequest { session, names, terms: Terms::PLAIN }
    }

    /// All of them shared, instead of exclusive.
    pub fn shared(mut self) -> Self {
        self.terms.mode = Mode::Shared;
        self
    }

    /// How long to wait at most for all of them together.
    pub fn wait(mut self, most: Duration) -> Self {
        self.terms.wait = Some(most);
        self
    }

    /// How long to hold each of them at most, counted from its own grant.
    pub fn ttl(mut self, longest: Duration) -> Self {
        self.terms.longest = Some(longest);
        self
    }

    /// Waits for all of them. Where nobody holds any, up to 32 take one round trip.
    ///
    /// # Errors
    /// Those of [`LockRequest::acquire`](crate::LockRequest::acquire); then none is held.
    pub fn acquire(self) -> Result<Guards, Error> {
        let mut watch = self.session.connection.engine.config.observer.watch(self.terms.mode);
        let acquired = self.acquire_unwatched();
        watch.ends_with(acquired.as_ref().map(Guards::each));
        acquired
    }

    fn acquire_unwatched(self) -> Result<Guards, Error> {
        let connection = &self.session.connection;
        let engine = &connection.engine;
        let mut names = named(&self.names)?;
        let port = engine.check_out()?;
        let mut since = None;
        let begun = loop {
            match engine.visit(|core, now, _| {
                let deadline = self.terms.deadline(*since.get_or_insert(now), engine.patience());
                core.begin_many(now, &mut names, &self.terms, deadline, Answer::Thread(&port))
            })? {
                Some(begun) => break begun,
                None => engine.await_session(self.terms.wait)?,
            }
        };
        engine.wait(&port, &port.socket, || is_settled(&begun));
        conclude_all(connection, begun)
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
        AcquiringMany {
            connection: self.session.connection.clone(),
            names: self.names,
            terms: self.terms,
            since: None,
            begun: None,
            watch: None,
        }
    }

    /// As [`ManyRequest::try_lock`], as a future.
    pub fn try_lock_async(mut self) -> AcquiringMany<'n> {
        self.terms.tries = true;
        self.acquire_async()
    }
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
    connection: Arc<Connection>,
    names: Vec<Name<'n>>,
    terms: Terms,
    since: Option<Time>,
    begun: Option<Vec<Begun>>,
    /// From the first poll on.
    watch: Option<Watch>,
}

impl Future for AcquiringMany<'_> {
    type Output = Result<Guards, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.watch.is_none() {
            self.watch = Some(self.connection.engine.config.observer.watch(self.terms.mode));
        }
        let polled = self.poll_unwatched(context);
        if let (Poll::Ready(acquired), Some(mut watch)) = (&polled, self.watch.take_if(|_| polled.is_ready())) {
            watch.ends_with(acquired.as_ref().map(Guards::each));
        }
        polled
    }
}

impl AcquiringMany<'_> {
    fn poll_unwatched(&mut self, context: &mut Context<'_>) -> Poll<Result<Guards, Error>> {
        let this = self;
        let engine = &this.connection.engine;
        if this.begun.is_none() {
            let mut names = named(&this.names)?;
            let since = *this.since.get_or_insert_with(clock::now);
            let terms = &this.terms;
            match engine.begin_for_task(context, since, terms, |core, now, deadline, answer| {
                core.begin_many(now, &mut names, terms, deadline, answer)
            }) {
                Poll::Ready(begun) => this.begun = Some(begun?),
                Poll::Pending => return Poll::Pending,
            }
        }
        let begun = this.begun.as_ref().expect("begun above");
        begun.iter().for_each(|one| one.request.listen(context));
        if !is_settled(begun) {
            return Poll::Pending;
        }
        let begun = this.begun.replace(Vec::new()).unwrap_or_default();
        begun.iter().for_each(|one| one.request.forget_listeners());
        Poll::Ready(conclude_all(&this.connection, begun))
    }
}

impl Drop for AcquiringMany<'_> {
    fn drop(&mut self) {
        for one in self.begun.take().unwrap_or_default() {
            one.request.forget_listeners();
            self.connection.engine.give_up(one.id, one.request);
        }
    }
}

/// Several locks that are held. Dropping them gives all of them back.
#[derive(Debug)]
#[must_use = "the locks are given back when their guards are dropped"]
pub struct Guards {
    guards: Vec<Guard>,
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
        future::poll_fn(|context| {
            let lost = self.guards.iter().filter(|guard| guard.poll_lost(context).is_ready()).count();
            if lost > 0 { Poll::Ready(()) } else { Poll::Pending }
        })
    }

    /// Gives all of them back, and says whether all were held until now.
    ///
    /// # Errors
    /// [`Error::Lost`] if one was not.
    pub fn release(self) -> Result<(), Error> {
        let outcomes: Vec<_> = self.guards.into_iter().map(Guard::release).collect();
        outcomes.into_iter().collect()
    }
}

fn named<'n>(names: &[Name<'n>]) -> Result<Vec<Named<'n>>, Error> {
    names.iter().map(|name| name.named()).collect()
}

/// All are held, or one of them cannot be had.
fn is_settled(begun: &[Begun]) -> bool {
    begun.iter().all(|one| one.request.standing() != Standing::Waiting)
        || begun.iter().any(|one| failure(one).is_some())
}

fn conclude_all(connection: &Arc<Connection>, begun: Vec<Begun>) -> Result<Guards, Error> {
    let failed = begun.iter().find_map(failure);
    if let Some(error) = failed {
        // From the last to the first: none of those still to come is asked for.
        for one in begun.into_iter().rev() {
            connection.engine.give_up(one.id, one.request);
        }
        return Err(error);
    }
    let guards = begun.into_iter().map(|one| conclude(connection, one)).collect::<Result<_, _>>()?;
    Ok(Guards { guards })
}
