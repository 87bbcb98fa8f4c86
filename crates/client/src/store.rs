//! Keys and values, kept by switches: reading, writing, comparing and swapping; blocking, or as futures.

use crate::core::{Answer, Core, Terms};
use crate::errands::Errands;
use crate::guard::block_on;
use crate::leased::LeasedKey;
use crate::port::Place;
use crate::questions::Reply;
use crate::session::{Connection, Session};
use crate::wait::Asker;
use crate::watch::Watch;
use crate::{Error, clock};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use wayside_protocol::chain::{
    Answer as Answered, Ask, BadName, Condition, Ended, Key, Scope, Told, Value, Version, Wish,
};
use wayside_protocol::{AcquireError, RequestId, Time};
use wayside_wire::limits::{MAX_KEY_NAME_BYTES, MAX_VALUE_BYTES};

/// The namespace's keys. Names have 1 to 960 bytes, values up to 128; a key keeps its value as long as one switch of
/// its chain lives.
///
/// ```no_run
/// # let session = wayside_client::Session::connect("127.0.0.1:7600")?;
/// let store = session.store();
/// let version = store.put("config/limit", b"10")?;
/// let entry = store.get("config/limit")?.expect("it has just been written");
/// assert_eq!((entry.value.bytes(), entry.version), (&b"10"[..], version));
/// # Ok::<(), wayside_client::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Store<'s> {
    session: &'s Session,
    pub(crate) wait: Option<Duration>,
    is_leased: bool,
}

/// What a key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its value.
    pub value: Value,
    /// Since when: for [`Condition::Version`].
    pub version: Version,
    /// Whether it is there only as long as the session that wrote it: [`Store::leased`].
    pub is_leased: bool,
    /// And that is the session by which it was read.
    pub is_own: bool,
}

/// What became of a write that depends on a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It was done, and made this version.
    Done(Version),
    /// The condition did not hold, and nothing has changed. What the key had then; `Err`: an answer was lost, and it
    /// has been overwritten since.
    Unmet(Result<Option<Entry>, Overwritten>),
}

/// What became of [`Store::hold`]: the key, or what the condition met, as [`Written::Unmet`] has it.
pub type Held = Result<LeasedKey, Result<Option<Entry>, Overwritten>>;

/// What a condition met is not known any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overwritten;

impl<'s> Store<'s> {
    pub(crate) fn new(session: &'s Session) -> Self {
        Store { session, wait: None, is_leased: false }
    }

    /// What is written through this handle is there as long as this session: once it is over (closed, lost, or its
    /// process dead for the session's lease), the switch deletes the key, if it still has that version. A later write
    /// of anybody, or a deletion, is as long as it says itself. A session that takes the place of a lost one writes
    /// nothing again by itself.
    #[must_use]
    pub fn leased(mut self) -> Self {
        self.is_leased = true;
        self
    }

    fn write(&self, value: &[u8], condition: Condition) -> Result<Wish, Error> {
        let value = checked(value)?;
        Ok(if self.is_leased { Wish::Lease(value, condition) } else { Wish::Write(value, condition) })
    }

    /// How long each call waits at most. Without it, as long as the session lives.
    #[must_use]
    pub fn wait(mut self, most: Duration) -> Self {
        self.wait = Some(most);
        self
    }

    /// What a key has; `None`: no value.
    ///
    /// # Errors
    /// [`Error::InvalidName`], [`Error::TimedOut`], [`Error::Lost`], [`Error::NoStore`], and those of connecting.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Result<Option<Entry>, Error> {
        self.ask(name.as_ref(), Wish::Read).map(Answered::entry)
    }

    /// Gives a key this value. Its version.
    ///
    /// # Errors
    /// Those of [`Store::get`], [`Error::TooLarge`], [`Error::StoreFull`], [`Error::Collision`]. After
    /// [`Error::TimedOut`] and [`Error::Lost`] it may have been written, or be written yet, once.
    pub fn put(&self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Version, Error> {
        let wish = self.write(value.as_ref(), Condition::Always)?;
        self.ask(name.as_ref(), wish).map(|answer| answer.version)
    }

    /// Gives a key this value if the condition holds: compare-and-swap.
    ///
    /// # Errors
    /// Those of [`Store::put`].
    pub fn put_if(
        &self,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        condition: Condition,
    ) -> Result<Written, Error> {
        let wish = self.write(value.as_ref(), condition)?;
        self.ask(name.as_ref(), wish).map(Answered::written)
    }

    /// As [`Store::put_if`] on a lease, as a thing that can be asked whether it is lost, and that deletes the key
    /// when it is dropped. Otherwise what the condition met.
    ///
    /// After [`Error::TimedOut`] and the like, what it may have written, or may write yet, is deleted as soon as a
    /// switch answers: what has this value then, and is leased to this session, and is no other [`LeasedKey`]'s. So do
    /// not write the same value to the same key by [`Store::leased`] beside it.
    ///
    /// # Errors
    /// Those of [`Store::put`].
    pub fn hold(&self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>, condition: Condition) -> Result<Held, Error> {
        block_on(self.hold_by(Asker::Thread, name.as_ref(), value.as_ref(), condition))
    }

    /// As [`Store::hold`], as a future. Dropped before it is ready, it leaves nothing either; and the key, dropped,
    /// does not keep its thread until it is deleted, as [`LeasedKey`] says.
    ///
    /// # Errors
    /// Those of [`Store::put`].
    pub async fn hold_async(
        &self,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        condition: Condition,
    ) -> Result<Held, Error> {
        self.hold_by(Asker::Task, name.as_ref(), value.as_ref(), condition).await
    }

    pub(crate) async fn hold_by(
        &self,
        asker: Asker,
        name: &[u8],
        value: &[u8],
        condition: Condition,
    ) -> Result<Held, Error> {
        LeasedKey::begin(self.session, asker, self.wait, name, value, condition).await
    }

    /// Takes a key's value away. The version of that.
    ///
    /// # Errors
    /// Those of [`Store::put`].
    pub fn delete(&self, name: impl AsRef<[u8]>) -> Result<Version, Error> {
        self.ask(name.as_ref(), Wish::Delete(Condition::Always)).map(|answer| answer.version)
    }

    /// Takes a key's value away if the condition holds.
    ///
    /// # Errors
    /// Those of [`Store::put`].
    pub fn delete_if(&self, name: impl AsRef<[u8]>, condition: Condition) -> Result<Written, Error> {
        self.ask(name.as_ref(), Wish::Delete(condition)).map(Answered::written)
    }

    /// As [`Store::get`], as a future for any executor.
    ///
    /// # Errors
    /// Those of [`Store::get`].
    pub async fn get_async(&self, name: impl AsRef<[u8]>) -> Result<Option<Entry>, Error> {
        self.read(name.as_ref())?.await.map(Answered::entry)
    }

    /// As [`Store::put`], as a future.
    ///
    /// # Errors
    /// Those of [`Store::put`].
    pub async fn put_async(&self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Version, Error> {
        let wish = self.write(value.as_ref(), Condition::Always)?;
        self.begin(name.as_ref(), wish)?.await.map(|answer| answer.version)
    }

    /// As [`Store::put_if`], as a future.
    ///
    /// # Errors
    /// Those of [`Store::put`].
    pub async fn put_if_async(
        &self,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        condition: Condition,
    ) -> Result<Written, Error> {
        let wish = self.write(value.as_ref(), condition)?;
        self.begin(name.as_ref(), wish)?.await.map(Answered::written)
    }

    /// As [`Store::delete`], as a future.
    ///
    /// # Errors
    /// Those of [`Store::put`].
    pub async fn delete_async(&self, name: impl AsRef<[u8]>) -> Result<Version, Error> {
        self.begin(name.as_ref(), Wish::Delete(Condition::Always))?.await.map(|answer| answer.version)
    }

    /// As [`Store::delete_if`], as a future.
    ///
    /// # Errors
    /// Those of [`Store::put`].
    pub async fn delete_if_async(&self, name: impl AsRef<[u8]>, condition: Condition) -> Result<Written, Error> {
        self.begin(name.as_ref(), Wish::Delete(condition))?.await.map(Answered::written)
    }

    /// Watches a key: whatever it gets from now on is seen, in order, and nothing is left out silently.
    ///
    /// # Errors
    /// Those of [`Store::get`].
    pub fn watch(&self, name: impl AsRef<[u8]>) -> Result<Watch, Error> {
        let key = self.key(name.as_ref())?;
        Watch::begin(&self.session.connection, Scope::Key(key), name.as_ref(), self.wait)
    }

    /// Watches all keys whose names begin so: each key's versions in order, and those of each group of keys. Between
    /// groups there is no order.
    ///
    /// # Errors
    /// Those of [`Store::get`], [`Error::TooManyWatches`].
    pub fn watch_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Watch, Error> {
        Watch::begin(&self.session.connection, scope_of(prefix.as_ref())?, &[], self.wait)
    }

    /// What a key has, and all that comes after: watches first, then reads. What was read may be seen once more.
    ///
    /// # Errors
    /// Those of [`Store::get`].
    pub fn get_and_watch(&self, name: impl AsRef<[u8]>) -> Result<(Option<Entry>, Watch), Error> {
        let watch = self.watch(name.as_ref())?;
        Ok((self.get(name)?, watch))
    }

    /// As [`Store::watch`], as a future.
    ///
    /// # Errors
    /// Those of [`Store::watch`].
    pub async fn watch_async(&self, name: impl AsRef<[u8]>) -> Result<Watch, Error> {
        let key = self.key(name.as_ref())?;
        Watch::begin_async(&self.session.connection, Scope::Key(key), name.as_ref(), self.wait).await
    }

    /// As [`Store::watch_prefix`], as a future.
    ///
    /// # Errors
    /// Those of [`Store::watch_prefix`].
    pub async fn watch_prefix_async(&self, prefix: impl AsRef<[u8]>) -> Result<Watch, Error> {
        let scope = scope_of(prefix.as_ref())?;
        Watch::begin_async(&self.session.connection, scope, &[], self.wait).await
    }

    /// As [`Store::get_and_watch`], as a future.
    ///
    /// # Errors
    /// Those of [`Store::get`].
    pub async fn get_and_watch_async(&self, name: impl AsRef<[u8]>) -> Result<(Option<Entry>, Watch), Error> {
        let watch = self.watch_async(name.as_ref()).await?;
        Ok((self.get_async(name).await?, watch))
    }

    pub(crate) async fn get_by(&self, asker: Asker, name: &str) -> Result<Option<Entry>, Error> {
        match asker {
            Asker::Thread => self.get(name),
            Asker::Task => self.get_async(name).await,
        }
    }

    pub(crate) async fn get_and_watch_by(&self, asker: Asker, name: &str) -> Result<(Option<Entry>, Watch), Error> {
        match asker {
            Asker::Thread => self.get_and_watch(name),
            Asker::Task => self.get_and_watch_async(name).await,
        }
    }

    pub(crate) async fn put_if_by(
        &self,
        asker: Asker,
        name: &[u8],
        value: &[u8],
        condition: Condition,
    ) -> Result<Written, Error> {
        match asker {
            Asker::Thread => self.put_if(name, value, condition),
            Asker::Task => self.put_if_async(name, value, condition).await,
        }
    }

    pub(crate) async fn delete_if_by(&self, asker: Asker, name: &[u8], condition: Condition) -> Result<Written, Error> {
        match asker {
            Asker::Thread => self.delete_if(name, condition),
            Asker::Task => self.delete_if_async(name, condition).await,
        }
    }

    pub(crate) async fn watch_prefix_by(&self, asker: Asker, prefix: &str) -> Result<Watch, Error> {
        match asker {
            Asker::Thread => self.watch_prefix(prefix),
            Asker::Task => self.watch_prefix_async(prefix).await,
        }
    }

    fn key(&self, name: &[u8]) -> Result<Key, Error> {
        let namespace = self.session.connection.engine.config.namespace.as_bytes();
        Key::of(namespace, name).map_err(|bad| {
            Error::InvalidName(match bad {
                BadName::Empty => "it is empty".into(),
                BadName::TooLong(bytes) => format!("it has {bytes} bytes; at most {MAX_KEY_NAME_BYTES} are allowed"),
            })
        })
    }

    fn terms(&self) -> Terms {
        Terms { wait: self.wait, ..Terms::PLAIN }
    }

    /// Asks, and waits for the answer.
    fn ask(&self, name: &[u8], wish: Wish) -> Result<Answered, Error> {
        let engine = &self.session.connection.engine;
        let (key, terms) = (self.key(name)?, self.terms());
        let port = engine.check_out()?;
        let mut since = None;
        let (id, now, reply) = loop {
            let begun = engine.visit_and_look(
                Some(port.place),
                |core, now, _| {
                    let deadline = terms.deadline(*since.get_or_insert(now), engine.patience());
                    core.ask_key(now, key, name, wish, deadline, Answer::at(&port)).map(|id| (id, now))
                },
                |core, _, begun: Result<_, AcquireError>| begun.map(|(id, now)| (id, now, core.questions.look(id))),
            );
            match begun {
                Ok(begun) => break begun,
                Err(AcquireError::NoSession) => engine.await_session(self.wait)?,
                Err(AcquireError::TooMany | AcquireError::Exhausted | AcquireError::Elsewhere) => {
                    return Err(Error::TooMany);
                }
            }
        };
        let look = |core: &mut Core, _: &mut Errands| core.questions.look(id);
        let reply = reply.unwrap_or_else(|| engine.wait(&port, &port.socket, now, look));
        conclude(&self.session.connection, id, reply)
    }

    pub(crate) fn read(&self, name: &[u8]) -> Result<Asking, Error> {
        self.begin(name, Wish::Read)
    }

    fn begin(&self, name: &[u8], wish: Wish) -> Result<Asking, Error> {
        Ok(Asking {
            connection: self.session.connection.clone(),
            key: self.key(name)?,
            name: name.into(),
            wish,
            terms: self.terms(),
            state: State::New { since: None },
        })
    }
}

/// A question under way. Dropping it gives it up.
pub(crate) struct Asking {
    connection: Arc<Connection>,
    key: Key,
    name: Box<[u8]>,
    wish: Wish,
    terms: Terms,
    state: State,
}

enum State {
    New { since: Option<Time> },
    Waiting(RequestId),
    Done,
}

impl Future for Asking {
    type Output = Result<Answered, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let engine = &this.connection.engine;
        if !engine.is_here() {
            return Poll::Ready(Err(Error::Closed));
        }
        let mut waker = Some(context.waker().clone());
        let (id, reply) = match this.state {
            State::New { ref mut since } => {
                let since = *since.get_or_insert_with(clock::now);
                let Asking { key, name, wish, terms, .. } = &*this;
                let begun = engine.begin_for_task(
                    context,
                    since,
                    terms,
                    |core, now, deadline, answer| core.ask_key(now, *key, name, *wish, deadline, answer),
                    |core, errands, id| (id, core.questions.look_for_task(id, &mut waker, errands)),
                );
                match begun {
                    Poll::Ready(Ok(begun)) => {
                        this.state = State::Waiting(begun.0);
                        begun
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            State::Waiting(id) => {
                let look = |core: &mut Core, errands: &mut _, ()| core.questions.look_for_task(id, &mut waker, errands);
                (id, engine.visit_and_look(None, |_, _, _| (), look))
            }
            State::Done => panic!("polled after it was ready"),
        };
        let Some(reply) = reply else { return Poll::Pending };
        this.state = State::Done;
        Poll::Ready(conclude(&this.connection, id, reply))
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let State::Waiting(id) = self.state {
            close(&self.connection, id);
        }
    }
}

/// The asker has seen the reply, or has no more use for it.
fn close(connection: &Connection, id: RequestId) {
    if !connection.engine.is_here() {
        return;
    }
    connection.engine.visit(|core, now, errands| {
        if core.questions.close(id, errands) {
            core.node.cancel_key(now, id);
        }
    });
    connection.engine.entrust_timers();
}

fn conclude(connection: &Connection, id: RequestId, reply: Reply) -> Result<Answered, Error> {
    close(connection, id);
    match reply {
        Reply::Answered(answer) => match answer.ended {
            Ended::Done | Ended::Unmet => Ok(answer),
            Ended::Unsure => Err(Error::Unsure),
            Ended::Full => Err(Error::StoreFull),
            Ended::Collision => Err(Error::Collision),
            Ended::NoStore => Err(Error::NoStore),
        },
        Reply::TimedOut => Err(Error::TimedOut),
        Reply::Lost | Reply::Waiting => Err(Error::Lost),
    }
}

fn scope_of(prefix: &[u8]) -> Result<Scope, Error> {
    if prefix.len() > MAX_KEY_NAME_BYTES {
        return Err(Error::InvalidName(format!("no name has {} bytes", prefix.len())));
    }
    Ok(Scope::Prefix(prefix.into()))
}

fn checked(value: &[u8]) -> Result<Value, Error> {
    Value::new(value).ok_or(Error::TooLarge { bytes: value.len(), limit: MAX_VALUE_BYTES })
}

/// An answer, in words of the API.
pub(crate) trait Shown {
    fn entry(self) -> Option<Entry>;
    fn written(self) -> Written;
}

impl Shown for Answered {
    fn entry(self) -> Option<Entry> {
        let Answered { version, is_leased, is_own, .. } = self;
        self.value.map(|value| Entry { value, version, is_leased, is_own })
    }

    fn written(self) -> Written {
        match self.ended {
            Ended::Done => Written::Done(self.version),
            _ if self.is_shown => Written::Unmet(Ok(self.entry())),
            _ => Written::Unmet(Err(Overwritten)),
        }
    }
}

impl Core {
    fn ask_key(
        &mut self,
        now: Time,
        key: Key,
        name: &[u8],
        wish: Wish,
        deadline: Option<Time>,
        answer: Answer,
    ) -> Result<RequestId, AcquireError> {
        if self.phase != crate::core::Phase::Live {
            return Err(AcquireError::NoSession);
        }
        let id = self.node.ask_key(now, &Ask { key, wish, deadline, port: answer.number })?;
        self.questions.enter(id, name, Some(answer.place).filter(|&place| place != Place::REACTOR));
        Ok(id)
    }

    /// The node has something to say about a key.
    pub(crate) fn on_told(&mut self, now: Time, id: RequestId, told: Told, errands: &mut Errands) {
        match told {
            Told::Unnamed => {
                if let Some(question) = self.questions.find(id) {
                    self.node.name_key(now, id, &question.name);
                }
            }
            Told::Answered => {
                let answer = self.node.take_answer(id);
                self.questions.reply(id, answer.map_or(Reply::Lost, Reply::Answered), errands);
            }
            Told::TimedOut => self.questions.reply(id, Reply::TimedOut, errands),
            Told::Lost => self.questions.reply(id, Reply::Lost, errands),
        }
    }
}
