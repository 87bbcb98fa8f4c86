//! A key that is there as long as a session: what recipes are made of.

use crate::guard::block_on;
use crate::leases::{Doubtful, Presence};
use crate::session::Session;
use crate::store::{Entry, Held, Written};
use crate::wait::Asker;
use crate::{Error, clock};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wayside_protocol::SessionInfo;
use wayside_protocol::chain::{Condition, Version};

/// A key that this process has written for as long as its session lives. Dropped, it is deleted, if it still has that
/// version: at once, or, if a task has it ([`crate::Store::hold_async`]), as soon as a thread of the library's gets to
/// it, since a task must not keep its thread; await [`LeasedKey::release_async`] to know.
///
/// Like a lock's guard it can be lost, when the session is: ask [`LeasedKey::is_lost`] before every step that must not
/// happen without it. Unlike a lock it is also lost with the memory of its switch, where that is alone. And anybody may
/// write the key: then it is theirs, and this does not notice.
#[derive(Debug)]
pub struct LeasedKey {
    session: Session,
    /// Who has it.
    asker: Asker,
    name: Box<[u8]>,
    version: Version,
    incarnation: u64,
    presence: Arc<Presence>,
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
            let before = session.connection.engine.standing();
            let begun = session.leases().begin(name);
            let doubt = Doubtful::written(session, name, value);
            let written = store.put_if_by(asker, name, value, condition).await;
            doubt.ends(written.as_ref().err());
            let version = match written? {
                Written::Done(version) => version,
                Written::Unmet(found) => return Ok(Err(found)),
            };
            if let (Some(before), Some(now)) = (before, session.info())
                && before.0.incarnation == now.incarnation
            {
                let presence = begun.keep(version, &before);
                session.look_again_since(&before);
                return Ok(Ok(LeasedKey {
                    session: session.clone(),
                    asker,
                    name: name.into(),
                    version,
                    incarnation: now.incarnation,
                    presence,
                    is_held: true,
                    unsure: Vec::new(),
                }));
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

    /// The session that it is leased to, unless that is over.
    fn lease(&self) -> Option<SessionInfo> {
        self.session.info().filter(|info| info.incarnation == self.incarnation && clock::now() < info.lease_end)
    }

    /// Until when it is there, if nobody else writes it, and a switch that is alone keeps its memory, unless the
    /// session's next heartbeat is acknowledged before.
    pub fn deadline(&self) -> Instant {
        let end = self.lease().filter(|info| self.presence.holds_under(info.epoch)).map(|info| info.lease_end);
        end.and_then(clock::instant).unwrap_or_else(Instant::now)
    }

    /// Whether the session is over that it was leased to, or its switch has begun anew without it. Cheap. As long as it
    /// is not known whether a switch that is alone and has begun anew still has it, it is taken for lost.
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
            let before = self.session.connection.engine.standing();
            // One that is in doubt is not, once it has been written by its version.
            let Some(before) = before.filter(|_| self.lease().is_some() && !self.presence.is_gone()) else {
                return Err(Error::Lost);
            };
            let condition = Condition::Version(self.version);
            let begun = self.session.leases().begin(&self.name);
            // Also if nobody waits for it any more.
            self.unsure.push((value.into(), Error::TimedOut));
            self.presence.may_become(value);
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
            if self.lease().is_none() {
                // It may be the next session's, which is not to have it.
                let _ = self.session.delete_leased(asker, &self.name, version).await;
                return Err(Error::Lost);
            }
            self.presence = begun.keep(version, &before);
            self.session.leases().forget(&self.name, self.version);
            self.session.look_again_since(&before);
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
        if !self.session.connection.engine.is_here() {
            return;
        }
        if self.is_held && self.lease().is_some() && !self.presence.is_gone() {
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
