//! Election of a leader: a lock of the election's name, and a key `NAME/leader` which says who holds it.
//!
//! The lock decides, since it has what keys lack: a queue of candidates, and a fencing token. The key is for everybody
//! else. It is written on the condition that it is as it was after the lock was got, so that a candidate who was paused
//! in between does not write over his successor.

use super::seats::Patience;
use crate::guard::{Guard, block_on};
use crate::leased::LeasedKey;
use crate::session::Session;
use crate::store::Entry;
use crate::wait::Asker;
use crate::watch::Watch;
use crate::{Condition, Error, Token};
use std::time::{Duration, Instant};

/// Who leads.
///
/// ```no_run
/// # let session = wayside_client::Session::connect("127.0.0.1:7600")?;
/// let election = session.election("scheduler");
/// let leadership = election.campaign("10.0.0.7:9000")?; // waits until it leads
/// while !leadership.is_lost() {
///     // what it writes elsewhere bears leadership.token()
/// }
/// # Ok::<(), wayside_client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Election {
    session: Session,
    name: String,
    /// Who has the lock.
    key: String,
    wait: Option<Duration>,
}

/// This process leads. Dropped, another may, as [`LeasedKey`] says; it also ends with its session.
#[derive(Debug)]
pub struct Leadership {
    // Dropped in this order: nobody is named any more when the next one is elected.
    key: LeasedKey,
    guard: Guard,
}

impl Election {
    pub(crate) fn new(session: &Session, name: &str) -> Election {
        Election { session: session.clone(), name: name.into(), key: format!("{name}/leader"), wait: None }
    }

    /// How long each call waits at most.
    #[must_use]
    pub fn wait(mut self, most: Duration) -> Self {
        self.wait = Some(most);
        self
    }

    /// Waits until it leads: first come, first served. `value`: what others are to know of the leader, up to 128 bytes.
    ///
    /// # Errors
    /// [`Error::TimedOut`], and those of [`crate::LockRequest::acquire`] and [`crate::Store::put`].
    pub fn campaign(&self, value: impl AsRef<[u8]>) -> Result<Leadership, Error> {
        block_on(self.campaign_by(Asker::Thread, value.as_ref()))
    }

    /// As [`Election::campaign`], as a future for any executor. Dropped before it is ready, it does not lead.
    ///
    /// # Errors
    /// Those of [`Election::campaign`].
    pub async fn campaign_async(&self, value: impl AsRef<[u8]>) -> Result<Leadership, Error> {
        self.campaign_by(Asker::Task, value.as_ref()).await
    }

    async fn campaign_by(&self, asker: Asker, value: &[u8]) -> Result<Leadership, Error> {
        let patience = Patience::new(asker, self.wait);
        patience.outlasts(|| self.try_to_lead(value, patience)).await
    }

    async fn try_to_lead(&self, value: &[u8], patience: Patience) -> Result<Leadership, Error> {
        loop {
            let mut request = self.session.lock(self.name.as_str());
            if let Some(left) = patience.left()? {
                request = request.wait(left);
            }
            let guard = match patience.asker {
                Asker::Thread => request.acquire()?,
                Asker::Task => request.await?,
            };
            // Once more where the predecessor's key has been deleted in between.
            while !guard.is_lost() {
                let before = patience.get(&self.session, &self.key).await?;
                let condition = before.map_or(Condition::Absent, |entry| Condition::Version(entry.version));
                // What was read is no successor's.
                if guard.is_lost() {
                    break;
                }
                let store = patience.store(&self.session)?;
                let held = store.hold_by(patience.asker, self.key.as_bytes(), value, condition).await?;
                if let Ok(key) = held
                    && !guard.is_lost()
                {
                    return Ok(Leadership { key, guard });
                }
            }
        }
    }

    /// What the leader has said of itself; `None`: there is none just now.
    ///
    /// # Errors
    /// Those of [`crate::Store::get`].
    pub fn leader(&self) -> Result<Option<Entry>, Error> {
        block_on(self.leader_by(Asker::Thread))
    }

    /// As [`Election::leader`], as a future.
    ///
    /// # Errors
    /// Those of [`Election::leader`].
    pub async fn leader_async(&self) -> Result<Option<Entry>, Error> {
        self.leader_by(Asker::Task).await
    }

    async fn leader_by(&self, asker: Asker) -> Result<Option<Entry>, Error> {
        let patience = Patience::new(asker, self.wait);
        patience.outlasts(|| patience.get(&self.session, &self.key)).await
    }

    /// The leader, and whoever comes after.
    ///
    /// # Errors
    /// Those of [`crate::Store::get_and_watch`].
    pub fn follow(&self) -> Result<(Option<Entry>, Watch), Error> {
        block_on(self.follow_by(Asker::Thread))
    }

    /// As [`Election::follow`], as a future.
    ///
    /// # Errors
    /// Those of [`Election::follow`].
    pub async fn follow_async(&self) -> Result<(Option<Entry>, Watch), Error> {
        self.follow_by(Asker::Task).await
    }

    async fn follow_by(&self, asker: Asker) -> Result<(Option<Entry>, Watch), Error> {
        let patience = Patience::new(asker, self.wait);
        patience.outlasts(|| async { patience.store(&self.session)?.get_and_watch_by(asker, &self.key).await }).await
    }
}

impl Leadership {
    /// It rises with every leader: whoever stores it refuses what comes from earlier ones.
    pub fn token(&self) -> Token {
        self.guard.token()
    }

    /// As [`Guard::deadline`].
    pub fn deadline(&self) -> Instant {
        self.guard.deadline()
    }

    /// Whether another may lead by now. Ask before every step.
    pub fn is_lost(&self) -> bool {
        self.guard.is_lost()
    }

    /// Says something else of itself. False: it does not lead any more.
    ///
    /// # Errors
    /// Those of [`LeasedKey::update`].
    pub fn update(&mut self, value: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.key.update(value)
    }

    /// As [`Leadership::update`], as a future.
    ///
    /// # Errors
    /// Those of [`LeasedKey::update`].
    pub async fn update_async(&mut self, value: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.key.update_async(value).await
    }

    /// Lets another lead, now.
    ///
    /// # Errors
    /// Those of [`Guard::release`] and [`crate::Store::delete`].
    pub fn resign(self) -> Result<(), Error> {
        block_on(self.resign_by(Asker::Thread))
    }

    /// As [`Leadership::resign`], as a future. Dropped before it is ready, another leads all the same.
    ///
    /// # Errors
    /// Those of [`Leadership::resign`].
    pub async fn resign_async(self) -> Result<(), Error> {
        self.resign_by(Asker::Task).await
    }

    async fn resign_by(self, asker: Asker) -> Result<(), Error> {
        let Leadership { key, guard } = self;
        // For a second at most. Whatever becomes of it, the lock is given back.
        let deleted = key.release_by(asker).await;
        guard.release()?;
        deleted.map(|_| ())
    }
}
