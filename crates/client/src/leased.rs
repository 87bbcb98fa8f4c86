//! A key that is there as long as a session: what recipes are made of.

use crate::session::Session;
use crate::store::{Entry, Overwritten, Written};
use crate::{Error, clock};
use std::time::{Duration, Instant};
use wayside_protocol::chain::{Condition, Version};

/// A key that this process has written for as long as its session lives. Dropped, it is deleted, if it still has that
/// version.
///
/// Like a lock's guard it can be lost, when the session is: ask [`LeasedKey::is_lost`] before every step that must not
/// happen without it. Unlike a lock anybody may write the key: then it is theirs, and this does not notice.
#[derive(Debug)]
pub struct LeasedKey {
    session: Session,
    name: Box<[u8]>,
    version: Version,
    incarnation: u64,
    /// It is to be deleted when it is dropped.
    is_held: bool,
    /// What it was to be given, without an answer.
    unsure: Option<(Box<[u8]>, Error)>,
}

impl LeasedKey {
    /// Writes it if the condition holds; otherwise what the key has.
    pub(crate) fn begin(
        session: &Session,
        wait: Option<Duration>,
        name: &[u8],
        value: &[u8],
        condition: Condition,
    ) -> Result<Result<LeasedKey, Result<Option<Entry>, Overwritten>>, Error> {
        let mut store = session.store().leased();
        if let Some(wait) = wait {
            store = store.wait(wait);
        }
        loop {
            let before = session.info().map(|info| info.incarnation);
            let begun = session.leases().begin(name);
            let written = store.put_if(name, value, condition);
            let version = match written.inspect_err(|error| session.doubt_written(name, value, error))? {
                Written::Done(version) => version,
                Written::Unmet(found) => return Ok(Err(found)),
            };
            let now = session.info().map(|info| info.incarnation);
            if let Some(incarnation) = now.filter(|_| now == before) {
                begun.keep(version);
                let (session, name) = (session.clone(), name.into());
                return Ok(Ok(LeasedKey { session, name, version, incarnation, is_held: true, unsure: None }));
            }
            // Nobody knows which of the two sessions it is leased to.
            session.delete_leased(name, version)?;
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
        if self.is_lost() {
            return Err(Error::Lost);
        }
        let condition = Condition::Version(self.version);
        let begun = self.session.leases().begin(&self.name);
        let written = self.session.store().leased().put_if(&*self.name, value.as_ref(), condition);
        let version = match written {
            Ok(Written::Done(version)) => version,
            Ok(Written::Unmet(_)) => return Ok(false),
            Err(error) => {
                self.unsure = Some((value.as_ref().into(), error.clone()));
                return Err(error);
            }
        };
        if self.is_lost() {
            // It may be the next session's, which is not to have it.
            let _ = self.session.delete_leased(&self.name, version);
            return Err(Error::Lost);
        }
        begun.keep(version);
        self.session.leases().forget(&self.name, self.version);
        self.version = version;
        Ok(true)
    }

    /// Deletes it now. False: somebody has written it meanwhile, or it was lost.
    ///
    /// # Errors
    /// Those of [`crate::Store::delete`]. [`Error::TimedOut`] after a second: then it is deleted as soon as a switch
    /// answers.
    pub fn release(mut self) -> Result<bool, Error> {
        self.is_held = false;
        self.session.delete_leased(&self.name, self.version)
    }
}

impl Drop for LeasedKey {
    fn drop(&mut self) {
        if self.is_held && !self.is_lost() {
            // What could not be deleted is, later.
            let _ = self.session.delete_leased(&self.name, self.version);
        }
        self.session.leases().forget(&self.name, self.version);
        if let Some((value, error)) = self.unsure.take() {
            self.session.doubt_written(&self.name, &value, &error);
        }
    }
}
