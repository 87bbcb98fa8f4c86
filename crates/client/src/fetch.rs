//! One round trip for a lock and what it protects: the switch sends a grant on to a third process, a *server*, which
//! adds its data and passes both to the holder (docs/queue.md, "By way of a third node").

use crate::Error;
use crate::engine::Engine;
use crate::session::Session;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Weak};
use wayside_protocol::{FETCH_BYTES_MOST, Fetch as Question, Mode, Third, Token};

/// A session as others name it: where a lock is to be fetched from. The process's next session has another one. As text
/// it is `HANDLE.INCARNATION`, which any store or configuration may carry to those who are to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) Third);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0.handle, self.0.incarnation)
    }
}

impl FromStr for NodeId {
    type Err = InvalidNodeId;

    fn from_str(text: &str) -> Result<NodeId, InvalidNodeId> {
        let parts = text.split_once('.').and_then(|(handle, rest)| Some((handle.parse().ok()?, rest.parse().ok()?)));
        let is_one = |(handle, _): &(u16, u64)| *handle != 0;
        let (handle, incarnation) = parts.filter(is_one).ok_or_else(|| InvalidNodeId(text.to_owned()))?;
        Ok(NodeId(Third { handle, incarnation }))
    }
}

/// This text is no session's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no session: it is HANDLE.INCARNATION, as `Session::id` shows it")]
pub struct InvalidNodeId(String);

/// What somebody who has just been granted a lock asks this process for. He gets the grant by the answer, so answer
/// soon: after a few milliseconds he asks the switch for the grant alone. Dropped, it is answered with nothing.
pub struct Fetch {
    engine: Arc<Engine>,
    question: Question,
    is_answered: bool,
}

impl Fetch {
    /// Id of the lock's name: the number that it is, or a hash of the text ([`Name::id`](crate::Name::id)).
    #[must_use]
    pub fn name(&self) -> u64 {
        self.question.name
    }

    /// What the holder has asked, as it wrote it.
    #[must_use]
    pub fn ask(&self) -> &[u8] {
        &self.question.ask
    }

    /// Token of the hold. A question may come late, when others hold the lock: whoever changes something for it, or
    /// keeps count, refuses tokens below the highest that it has seen.
    #[must_use]
    pub fn token(&self) -> Token {
        self.question.token
    }

    /// Shared or exclusive.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.question.mode
    }

    /// Sends the grant on, with these data. If it is over by now, they reach nobody.
    ///
    /// # Errors
    /// [`Error::FetchTooLarge`], and nothing is sent: the holder is to hear that there is no answer, or drop it;
    /// [`Error::Closed`] in a process that was forked since.
    pub fn answer(mut self, data: &[u8]) -> Result<(), Error> {
        check(data)?;
        if !self.engine.is_here() {
            return Err(Error::Closed);
        }
        self.send(Some(data));
        Ok(())
    }

    fn send(&mut self, data: Option<&[u8]>) {
        self.is_answered = true;
        self.engine.visit(|core, now, _| core.node.answer(now, &self.question, data));
        self.engine.entrust_timers();
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        if !self.is_answered && self.engine.is_here() {
            self.send(None);
        }
    }
}

impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.question.fmt(f)
    }
}

/// Whether as much may be asked, or answered.
pub(crate) fn check(content: &[u8]) -> Result<(), Error> {
    let (bytes, limit) = (content.len(), FETCH_BYTES_MOST);
    if bytes > limit { Err(Error::FetchTooLarge { bytes, limit }) } else { Ok(()) }
}

/// Who answers, in a session.
pub(crate) type Server = Arc<dyn Fn(Question) + Send + Sync>;

impl Session {
    /// How others name this session, to be granted locks by way of it; None while there is none. Where locks are
    /// divided among shards there is none either: nobody fetches there.
    #[must_use]
    pub fn id(&self) -> Option<NodeId> {
        let info = self.info().filter(|_| self.spread.is_none())?;
        Some(NodeId(Third { handle: info.handle, incarnation: info.incarnation }))
    }

    /// Answers those who are granted locks of this namespace by way of this session
    /// ([`LockRequest::fetch`](crate::LockRequest::fetch)), from now on and in the sessions that it begins after a
    /// loss, in place of what was given here before.
    ///
    /// `answer` is called by the session's own thread, which sends its heartbeats too: it must not block. What takes
    /// longer than looking into memory hands the [`Fetch`] to another thread, which answers it. One that panics leaves
    /// the question unanswered. It is kept until the session is closed: one that has a [`Session`] keeps that from
    /// ending by itself. While 1,024 questions have no answer yet, others are refused.
    ///
    /// ```no_run
    /// # use std::{collections::HashMap, sync::Mutex};
    /// # let session = wayside_client::Session::connect("127.0.0.1:7600")?;
    /// let rows: &'static Mutex<HashMap<Vec<u8>, Vec<u8>>> = Box::leak(Box::default());
    /// session.serve_fetches(|fetch| {
    ///     let row = rows.lock().unwrap().get(fetch.ask()).cloned();
    ///     // Without an answer the holder has the lock, and nothing with it.
    ///     let _ = row.map(|row| fetch.answer(&row));
    /// });
    /// println!("rows are fetched from {}", session.id().expect("it has just begun"));
    /// # Ok::<(), wayside_client::Error>(())
    /// ```
    pub fn serve_fetches(&self, answer: impl Fn(Fetch) + Send + Sync + 'static) {
        let engine = Arc::downgrade(&self.connection.engine);
        let server: Server = Arc::new(move |question| {
            if let Some(engine) = Weak::upgrade(&engine) {
                answer(Fetch { engine, question, is_answered: false });
            }
        });
        let engine = &self.connection.engine;
        if engine.is_here() {
            drop(engine.visit(|core, _, _| core.serve_fetches(server)));
        }
    }
}
