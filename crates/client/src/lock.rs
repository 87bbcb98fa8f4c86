//! Asking for one lock: blocking, trying, or as a future.

use crate::core::{Answer, Begun, Core, Terms};
use crate::engine::Engine;
use crate::guard::Guard;
use crate::observe::Watch;
use crate::request::Standing;
use crate::session::{Connection, Session};
use crate::{Error, Name, clock};
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use wayside_protocol::{Mode, Time};

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
}

impl<'s, 'n> LockRequest<'s, 'n> {
    pub(crate) fn new(session: &'s Session, name: Name<'n>) -> Self {
        LockRequest { session, name, terms: Terms::PLAIN }
    }

    /// Together with any number of other shared holders, instead of alone.
    pub fn shared(mut self) -> Self {
        self.terms.mode = Mode::Shared;
        self
    }

    /// How long to wait at most; without it, as long as the session lives.
    pub fn wait(mut self, most: Duration) -> Self {
        self.terms.wait = Some(most);
        self
    }

    /// How long to hold it at most, counted from the grant: then the guard is lost and the lock given back, however
    /// well the session is. Without it, as long as the session lives.
    pub fn ttl(mut self, longest: Duration) -> Self {
        self.terms.longest = Some(longest);
        self
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// [`Error::TimedOut`] after [`LockRequest::wait`], [`Error::Lost`] if the session is lost meanwhile,
    /// [`Error::Unavailable`] if there is no session and none to be had, [`Error::InvalidName`].
    pub fn acquire(self) -> Result<Guard, Error> {
        let mut watch = self.session.connection.engine.config.observer.watch(self.terms.mode);
        let acquired = self.acquire_watched(&mut watch);
        watch.ends(&acquired);
        acquired
    }

    fn acquire_watched(self, watch: &mut Watch) -> Result<Guard, Error> {
        let connection = &self.session.connection;
        let engine = &connection.engine;
        let name = self.name.named()?;
        let port = engine.check_out()?;
        let mut since = None;
        let begun = loop {
            match engine.visit(|core, now, _| {
                let deadline = self.terms.deadline(*since.get_or_insert(now), engine.patience());
                let begun = core.begin(now, name, &self.terms, deadline, Answer::Thread(&port));
                begun.inspect(|begun| begun.iter().for_each(|begun| watch.is(begun)))
            })? {
                Some(begun) => break begun,
                None => engine.await_session(self.terms.wait)?,
            }
        };
        engine.wait(&port, &port.socket, || begun.request.standing() != Standing::Waiting);
        conclude(connection, begun)
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
            name: self.name,
            terms: self.terms,
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
    name: Name<'n>,
    terms: Terms,
    state: State,
    /// From the first poll on.
    watch: Option<Watch>,
}

enum State {
    New { since: Option<Time> },
    Waiting(Begun),
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
        let engine = &this.connection.engine;
        let watch = this.watch.get_or_insert_with(|| engine.config.observer.watch(this.terms.mode));
        if let State::New { since } = &mut this.state {
            let name = this.name.named()?;
            let since = *since.get_or_insert_with(clock::now);
            let terms = &this.terms;
            match engine.begin_for_task(context, since, terms, |core, now, deadline, answer| {
                let begun = core.begin(now, name, terms, deadline, answer);
                begun.inspect(|begun| begun.iter().for_each(|begun| watch.is(begun)))
            }) {
                Poll::Ready(begun) => this.state = State::Waiting(begun?),
                Poll::Pending => return Poll::Pending,
            }
        }
        let State::Waiting(begun) = &this.state else { panic!("polled after it was ready") };
        begun.request.listen(context);
        if begun.request.standing() == Standing::Waiting {
            return Poll::Pending;
        }
        let State::Waiting(begun) = std::mem::replace(&mut this.state, State::Done) else { unreachable!("as above") };
        begun.request.forget_listeners();
        Poll::Ready(conclude(&this.connection, begun))
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        if let State::Waiting(begun) = std::mem::replace(&mut self.state, State::Done) {
            begun.request.forget_listeners();
            self.connection.engine.give_up(begun.id, begun.request);
        }
    }
}

/// The guard of a request that waits no more, or why there is none.
pub(crate) fn conclude(connection: &Arc<Connection>, begun: Begun) -> Result<Guard, Error> {
    if let Some(error) = failure(&begun) {
        connection.engine.give_up(begun.id, begun.request);
        return Err(error);
    }
    Ok(Guard::new(connection.clone(), begun))
}

pub(crate) fn failure(begun: &Begun) -> Option<Error> {
    match begun.request.standing() {
        Standing::Waiting | Standing::Held => None,
        Standing::Busy => Some(Error::Busy { holder: begun.request.holder() }),
        Standing::TimedOut => Some(Error::TimedOut),
        Standing::Lost | Standing::Released => Some(Error::Lost),
    }
}

impl Engine {
    /// Begins a request for a task, which is called when there is a session to begin it in.
    pub(crate) fn begin_for_task<T>(
        &self,
        context: &Context<'_>,
        since: Time,
        terms: &Terms,
        begin: impl FnOnce(&mut Core, Time, Option<Time>, Answer<'_>) -> Result<Option<T>, Error>,
    ) -> Poll<Result<T, Error>> {
        let deadline = terms.deadline(since, self.patience());
        let begun = self.visit(|core, now, _| {
            if let Some(begun) = begin(core, now, deadline, Answer::Task(&self.reactor))? {
                return Ok(Some(begun));
            }
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Err(Error::TimedOut);
            }
            self.verdict(core).transpose()?;
            if now >= clock::after(since, self.patience()) {
                return Err(self.unavailable());
            }
            core.newcomers.push(context.waker().clone());
            Ok(None)
        });
        self.entrust_timers();
        match begun {
            Ok(Some(begun)) => Poll::Ready(Ok(begun)),
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}
