//! A key that is there as long as a session: what recipes are made of.

use crate::guard::block_on;
use crate::leases::Doubtful;
use crate::session::Session;
use crate::store::{Entry, Held, Written};
use crate::wait::Asker;
use crate::{Error, clock};
use std::time::{Duration, Instant};
use wayside_protocol::chain::{Condition, Version};

/// A key that this process has written for as long as its session lives. Dropped, it is deleted, if it still has that
/// version: at once, or, if a task has it ([`crate::Store::hold_async`]), as soon as a thread of the library's gets to
/// it, since a task must not keep its thread; await [`LeasedKey::release_async`] to know.
///
/// Like a lock's guard it can be lost, when the session is: ask [`LeasedKey::is_lost`] before every step that must not
/// happen without it. Unlike a lock anybody may write the key: then it is theirs, and this does not notice.
#[derive(Debug)]
pub struct LeasedKey {
    session: Session,
    /// Who has it.
    asker: Asker,
    name: Box<[u8]>,
    version: Version,
    incarnation: u64,
    /// It is to be deleted when it is dropped.
    is_held: bool,
    /// What it was to be given, without an answer.
    unsure: Vec<(Box<[u8]>, Error)>,
}

impl LeasedKey {
    /// Writes it if the condition holds; otherwise what the key has.
    pub(crate) async fn begin(
        session: &Session,
        asker: Asker,
        wait: Option<Duration>,
        name: &[u8],
        value: &[u8],
        condition: Condition,
    ) -> Result<Held, Error> {
        let mut store = session.store().leased();
        if let Some(wait) = wait {
            store = store.wait(wait);
        }
        loop {
            let before = session.info().map(|info| info.incarnation);
            let begun = session.leases().begin(name);
            let doubt = Doubtful::written(session, name, value);
            let written = store.put_if_by(asker, name, value, condition).await;
            doubt.ends(written.as_ref().err());
            let version = match written? {
                Written::Done(version) => version,
                Written::Unmet(found) => return Ok(Err(found)),
            };
            let now = session.info().map(|info| info.incarnation);
            if let Some(incarnation) = now.filter(|_| now == before) {
                begun.keep(version);
                let (session, name) = (session.clone(), name.into());
                let key = LeasedKey { session, asker, name, version, incarnation, is_held: true, unsure: Vec::new() };
                return Ok(Ok(key));
            }
            // Nobody knows which of the two sessions it is leased to.
            session.delete_leased(asker, name, version).await?;
        }
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The version that it was written with: it rises with every write of a key of its group, so it fences.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The session that it ends with.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Until when it is there, if nobody else writes it, unless the session's next heartbeat is acknowledged before.
    pub fn deadline(&self) -> Instant {
        let end = self.session.info().filter(|info| info.incarnation == self.incarnation).map(|info| info.lease_end);
        end.and_then(clock::instant).unwrap_or_else(Instant::now)
    }

    /// Whether the session is over that it was leased to. Cheap.
    pub fn is_lost(&self) -> bool {
        self.deadline() <= Instant::now()
    }

    /// Gives it another value, on the same lease, if it still is as it was written. False: it is not.
    ///
    /// # Errors
    /// Those of [`crate::Store::put`]; [`Error::Lost`] if it is.
    pub fn update(&mut self, value: impl AsRef<[u8]>) -> Result<bool, Error> {
        block_on(self.update_by(Asker::Thread, value.as_ref()))
    }

    /// As [`LeasedKey::update`], as a future. Dropped before it is ready, it may have had its effect.
    ///
    /// # Errors
    /// Those of [`LeasedKey::update`].
    pub async fn update_async(&mut self, value: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.update_by(Asker::Task, value.as_ref()).await
    }

    async fn update_by(&mut self, asker: Asker, value: &[u8]) -> Result<bool, Error> {
        loop {
            if self.is_lost() {
                return Err(Error::Lost);
            }
            let condition = Condition::Version(self.version);
            let begun = self.session.leases().begin(&self.name);
            // Also if nobody waits for it any more.
            self.unsure.push((value.into(), Error::TimedOut));
            let written = self.session.store().leased().put_if_by(asker, &self.name, value, condition).await;
            let doubt = self.unsure.pop();
            let (version, is_done) = match written {
                Ok(Written::Done(version)) => (version, true),
                // An earlier update, without an answer, had its effect.
                Ok(Written::Unmet(Ok(Some(found)))) if found.is_own && self.may_have_written(&found) => {
                    (found.version, false)
                }
                Ok(Written::Unmet(_)) => return Ok(false),
                Err(error) => {
                    self.unsure.extend(doubt.map(|(value, _)| (value, error.clone())));
                    return Err(error);
                }
            };
            if self.is_lost() {
                // It may be the next session's, which is not to have it.
                let _ = self.session.delete_leased(asker, &self.name, version).await;
                return Err(Error::Lost);
            }
            begun.keep(version);
            self.session.leases().forget(&self.name, self.version);
            self.version = version;
            // What was to replace an earlier version will not any more.
            self.unsure.clear();
            if is_done {
                return Ok(true);
            }
        }
    }

    fn may_have_written(&self, found: &Entry) -> bool {
        self.unsure.iter().any(|(value, _)| **value == *found.value.bytes())
    }

    /// Deletes it now. False: somebody has written it meanwhile, or it was lost.
    ///
    /// # Errors
    /// Those of [`crate::Store::delete`]. [`Error::TimedOut`] after a second: then it is deleted as soon as a switch
    /// answers.
    pub fn release(self) -> Result<bool, Error> {
        block_on(self.release_by(Asker::Thread))
    }

    /// As [`LeasedKey::release`], as a future. Dropped before it is ready, it is deleted all the same.
    ///
    /// # Errors
    /// Those of [`LeasedKey::release`].
    pub async fn release_async(self) -> Result<bool, Error> {
        self.release_by(Asker::Task).await
    }

    pub(crate) async fn release_by(mut self, asker: Asker) -> Result<bool, Error> {
        self.is_held = false;
        self.session.delete_leased(asker, &self.name, self.version).await
    }
}

impl Drop for LeasedKey {
    fn drop(&mut self) {
        if self.is_held && !self.is_lost() {
            // What could not be deleted is, later.
            match self.asker {
                Asker::Thread => drop(block_on(self.session.delete_leased(self.asker, &self.name, self.version))),
                Asker::Task => self.session.delete_later(&self.name, self.version),
            }
        }
        self.session.leases().forget(&self.name, self.version);
        for (value, error) in std::mem::take(&mut self.unsure) {
            self.session.doubt_written(&self.name, &value, &error);
        }
    }
}
