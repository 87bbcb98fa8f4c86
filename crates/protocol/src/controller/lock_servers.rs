//! Which node is a namespace's lock server: whoever asks first while nobody is. The switch's memory knows it, so that a
//! controller that starts anew does.
//!
//! Invariant: a lock server is followed by another one only once the switch decides nothing for its session any more.

use super::{Controller, Notice, Store};
use crate::memory::{LockServer, SwitchMemory};
use crate::queue::LAST_TERM;
use wayside_wire::{Attempt, Engine, Header, NodeState, QueueKind, kind};

impl<M: SwitchMemory, S: Store> Controller<M, S> {
    pub(super) fn engine_of(&self, namespace: u16) -> Engine {
        let found = self.config.namespaces.iter().find(|known| known.id == namespace);
        found.map_or(Engine::Fission, |namespace| namespace.engine)
    }

    /// What a node says that is its namespace's lock server, or would be.
    pub(super) fn on_queue(&mut self, header: &Header, attempt: &Attempt) {
        let Some(record) = self.sessions.get(header.source).map(|session| session.record) else { return };
        let is_its = header.namespace == record.namespace && header.epoch == self.counters.epoch;
        let is_queued = self.engine_of(record.namespace) == Engine::Queue;
        if !is_its || !is_queued || !self.sessions.is_live(header.source) {
            return;
        }
        match header.kind {
            kind::queue::SERVE => self.on_serve(header, attempt),
            kind::queue::CEDED => self.on_ceded(header, attempt),
            kind::queue::TAKEN => self.on_taken(header, attempt),
            kind::queue::ASKED => self.on_asked(header, attempt),
            _ => {}
        }
    }

    fn on_serve(&mut self, header: &Header, attempt: &Attempt) {
        let namespace = header.namespace;
        self.moves.heard(header.source, attempt.number != 0);
        let LockServer { handle, term } = self.memory.lock_server(namespace);
        let lives = |handle| self.memory.node_word(handle).state == NodeState::Live;
        if handle != header.source && (handle == 0 || !lives(handle)) && lives(header.source) && term < LAST_TERM {
            self.memory.set_lock_server(namespace, header.source);
            self.notices.push_back(Notice::Serves(namespace, header.source));
        }
        let LockServer { handle, term } = self.memory.lock_server(namespace);
        let found = self.config.namespaces.iter().find(|known| known.id == namespace);
        let lease = found.map_or(0, |known| self.config.lease(known, 0).0);
        let body = Attempt {
            number: if handle == header.source { term.into() } else { 0 },
            order: lease.into(),
            over: u64::from(lease) + u64::from(self.config.least_grace(lease)),
            ..Attempt::default()
        };
        self.tell_server(namespace, header.source, QueueKind::Serving, &body);
    }
}
