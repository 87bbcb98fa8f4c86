//! Which node is a namespace's lock server: whoever asks first while nobody is. The switch's memory knows it, so that a
//! controller that starts anew does.
//!
//! Invariant: a lock server is followed by another one only once the switch decides nothing for its session any more.

use super::{Controller, Notice, Store};
use crate::memory::{LockServer, SwitchMemory};
use crate::queue::LAST_TERM;
use wayside_wire::{Attempt, Engine, Header, NodeState, QueueKind, kind, service};

impl<M: SwitchMemory, S: Store> Controller<M, S> {
    pub(super) fn engine_of(&self, namespace: u16) -> Engine {
        let found = self.config.namespaces.iter().find(|known| known.id == namespace);
        found.map_or(Engine::Fission, |namespace| namespace.engine)
    }

    pub(super) fn on_queue(&mut self, header: &Header) {
        let Some(record) = self.sessions.get(header.source).map(|session| session.record) else { return };
        let namespace = record.namespace;
        let is_its = header.kind == kind::queue::SERVE && header.namespace == namespace;
        if !is_its || !self.sessions.is_live(header.source) || self.engine_of(namespace) != Engine::Queue {
            return;
        }
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
            holder: header.source,
            ..Attempt::default()
        };
        let header = Header {
            service: service::QUEUE,
            kind: kind::queue::SERVING,
            destination: header.source,
            namespace,
            ..Header::default()
        };
        self.send_body(record.address, header, QueueKind::Serving.body().bytes(0), |packet, at| body.write(packet, at));
    }
}
