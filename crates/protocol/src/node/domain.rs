//! Which locks a node asks its shard for, while shards are added and drained: docs/shards.md, "Adding and draining".

use super::Node;
use crate::Time;
use crate::lock::{AcquireError, State};
use crate::mutant::Mutant;
use crate::seal::Enrolment;
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
        self.session.hurry(now);
    }

    /// A secure connection says that the shard counts a session under the map that was pledged so: this one or, where
    /// the answer took long, one before. Nothing comes of it before the session has come to the answer's epoch: to be
    /// asked again.
    pub fn on_followed(&mut self, answer: &Enrolment) {
        let is_this = self.session.info().is_some_and(|info| info.incarnation == answer.incarnation);
        if is_this && self.session.is_under(answer.epoch) {
            self.follow_to(answer.shards);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Domain;
    use crate::node::NodeConfig;
    use crate::shards::Shards;
    use alloc::string::ToString;
    use wayside_wire::{Engine, Policy};

    fn map(version: u32, names: &[&str]) -> ShardMap {
        ShardMap { version, shards: Shards::new(names.iter().map(|name| name.to_string())).expect("names") }
    }

    /// The answer to a session's question may come when there is another session, which has pledged nothing.
    #[test]
    fn a_secure_answer_is_of_the_session_that_it_names() {
        let (first, next) = (map(0, &["a", "b"]), map(1, &["a", "b", "c"]));
        let shards = first.begins("a").expect("it is of it");
        let domain = Some(Domain::new("a".into(), first));
        let mut node = Node::new(NodeConfig { shards, domain, ..NodeConfig::new(42) });
        let enrolment = Enrolment {
            handle: 3,
            incarnation: 9,
            epoch: 7,
            namespace: 1,
            slots: 4,
            engine: Engine::Fission,
            names: crate::Names::default(),
            policy: Policy::Fair,
            patience: 8,
            lease: 1_000_000,
            grace: 0,
            lifeline: 5,
            shards,
            secret: None,
            version: wayside_wire::VERSION,
        };
        node.begin(Time(0), Time(0), &enrolment);
        node.close_for(&next);
        let pledge = node.follow(Time(0)).expect("nothing is in the way");
        let answer = Enrolment { shards: pledge, ..enrolment.clone() };
        node.on_followed(&Enrolment { incarnation: 8, ..answer.clone() });
        assert_eq!(node.map_version(), Some(0));
        node.on_followed(&Enrolment { epoch: 8, ..answer.clone() });
        assert_eq!(node.map_version(), Some(0));
        node.on_followed(&answer);
        assert_eq!(node.map_version(), Some(1));
    }
}
