//! Which locks a node asks its shard for, while shards are added and drained: docs/shards.md, "Adding and draining".

use super::Node;
use crate::Time;
use crate::lock::{AcquireError, State};
use crate::mutant::Mutant;
use crate::shards::ShardMap;

impl Node {
    /// Whether this name may be asked for.
    #[inline]
    pub(super) fn admit(&self, name: u64) -> Result<(), AcquireError> {
        let Some(domain) = &self.config.domain else { return Ok(()) };
        let has = if self.config.is_broken(Mutant::AskMoved) { domain.had(name) } else { domain.has(name) };
        if has { Ok(()) } else { Err(AcquireError::Elsewhere) }
    }

    /// Whether this name may be asked for, by a session that lives.
    pub fn asks(&self, now: Time, name: u64) -> bool {
        self.session.info_at(now).is_some() && self.admit(name).is_ok()
    }

    /// Begins nothing any more that a later map gives to another shard; what is held or awaited of it goes on.
    pub fn close_for(&mut self, map: &ShardMap) {
        if let Some(domain) = &mut self.config.domain {
            domain.close(map);
        }
    }

    /// Begins it again, as long as that is not pledged.
    pub fn reopen(&mut self) {
        if let Some(domain) = &mut self.config.domain {
            domain.reopen();
        }
    }

    /// A name that is held or awaited and that the shard will not have any more. One that is being given back is not
    /// held any more.
    pub fn in_the_way(&self) -> Option<u64> {
        let domain = self.config.domain.as_ref()?;
        let mut requests =
            self.requests.iter().filter(|(_, request)| !matches!(request.state, State::Returning { .. }));
        let own = requests.find(|(_, request)| !domain.has(request.name)).map(|(_, request)| request.name);
        let mut queued = self.queue.requests().filter(|(_, pending)| pending.waits() || pending.ticket().is_some());
        own.or_else(|| queued.find(|(_, pending)| !domain.has(pending.name)).map(|(_, pending)| pending.name))
    }

    /// Tells the shard that nothing is asked of it any more but what the last map leaves to it, if nothing is in the
    /// way. What it is told: where packets are signed the owner sees to that, as to the session's beginning, with
    /// the session's nonce. None: not yet, or the map leaves nothing, and the session is to end.
    pub fn follow(&mut self, now: Time) -> Option<u32> {
        self.now = now;
        if self.in_the_way().is_some() && !self.config.is_broken(Mutant::HastyPledge) {
            return None;
        }
        let pledge = self.config.domain.as_mut()?.pledge()?;
        if self.sealer.is_none() {
            self.session.follow(now, pledge);
        }
        Some(pledge)
    }

    /// Tells it at once, if it has not been answered: the shard has gone on.
    pub fn hurry(&mut self, now: Time) {
        self.now = now;
        self.session.hurry(now);
    }

    /// A secure connection says that the shard, under this epoch, counts the session under the map that was pledged so.
    /// Nothing comes of it before the session has come to that epoch: to be asked again.
    pub fn on_followed(&mut self, epoch: u32, pledge: u32) {
        if self.session.is_under(epoch) {
            self.follow_to(pledge);
        }
    }

    pub(super) fn follow_to(&mut self, pledge: u32) {
        if let Some(domain) = &mut self.config.domain {
            domain.follow(pledge);
        }
    }

    /// The version of the map that the shard counts the session under.
    pub fn map_version(&self) -> Option<u32> {
        self.config.domain.as_ref().map(super::Domain::version)
    }
}
