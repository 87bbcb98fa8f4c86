//! Which nodes are a namespace's lock servers: its names are divided into parts, and those who offer themselves get as
//! many of these as each other. The switch's memory knows whose each part is, so that a controller that starts anew
//! does. docs/queue.md, "Parts".
//!
//! ```text
//!   SERVE ──► offers ──┐
//!                      ├──► nobody's part: to whoever has fewest       ──► memory: part, term + 1 ──► SERVING
//!   node words ────────┘    two more than another: one changes hands
//! ```
//!
//! Invariants
//! * A part has one lock server at a time, and what another node says of the part is believed by neither switch nor
//!   controller from the moment on at which the memory has the next one.
//! * Each term of a part is one node's, and every term but the first begins by waiting for who holds: whether the lock
//!   server before has died or lives does not matter.
//! * Of a namespace one part at a time changes hands between two who live, and no other before that one's new lock
//!   server has waited.
//! * Nodes that say that they cannot share have one part at most, and keep it.

use super::{Controller, Notice, Store};
use crate::memory::{LockServer, Part, SwitchMemory};
use crate::queue::{CAN_MOVE, CAN_SHARE, COUNTER_BITS, LAST_TERM, QUESTIONS};
use crate::{Handle, Mutant, Time};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use wayside_wire::{Attempt, Engine, Header, NodeState, QueueKind, kind};

/// What a node said that offers itself.
#[derive(Clone, Copy, Debug)]
struct Offer {
    can_move: bool,
    can_share: bool,
}

/// Of a namespace.
#[derive(Default)]
struct Space {
    /// From then on all who offer themselves have been heard.
    complete: Time,
    nodes: BTreeMap<Handle, Offer>,
    /// Before that no part changes hands between two who live.
    rests: Time,
}

/// Who offers itself, by namespace.
#[derive(Default)]
pub(super) struct Offers(BTreeMap<u16, Space>);

impl Offers {
    /// Whether a node takes and cedes locks.
    pub fn can_move(&self, namespace: u16, handle: Handle) -> bool {
        self.0.get(&namespace).and_then(|space| space.nodes.get(&handle)).is_some_and(|offer| offer.can_move)
    }
}

/// Parts of each node that offers itself.
#[derive(Clone, Copy, Debug)]
struct Load {
    handle: Handle,
    parts: usize,
    can_share: bool,
}

/// Who is to have one part more.
fn least(loads: &[Load]) -> Option<Load> {
    let may = loads.iter().filter(|load| load.can_share || load.parts == 0);
    may.min_by_key(|load| (load.parts, load.handle)).copied()
}

impl<M: SwitchMemory, S: Store> Controller<M, S> {
    pub(super) fn engine_of(&self, namespace: u16) -> Engine {
        let found = self.config.namespaces.iter().find(|known| known.id == namespace);
        found.map_or(Engine::Fission, |namespace| namespace.engine)
    }

    /// Into how many parts a namespace's names are divided.
    pub(super) fn parts_of(&self, namespace: u16) -> u16 {
        self.config.namespaces.iter().find(|known| known.id == namespace).map_or(1, |namespace| namespace.servers)
    }

    /// The lock server of a name.
    pub(super) fn server_of(&self, namespace: u16, name: u64) -> LockServer {
        self.memory.lock_server(namespace, Part::of_name(name, self.parts_of(namespace)).number)
    }

    /// Whether the switch decides for a node's session.
    pub(super) fn lives(&self, handle: Handle) -> bool {
        handle != 0 && self.memory.node_word(handle).state == NodeState::Live
    }

    /// What a node says that is a lock server, or would be.
    pub(super) fn on_queue(&mut self, now: Time, header: &Header, attempt: &Attempt) {
        let Some(record) = self.sessions.get(header.source).map(|session| session.record) else { return };
        let is_its = header.namespace == record.namespace && header.epoch == self.counters.epoch;
        let is_queued = self.engine_of(record.namespace).has_queues();
        if !is_its || !is_queued || !self.sessions.is_live(header.source) {
            return;
        }
        match header.kind {
            // A late one, of an earlier session of this handle, is no offer of who has it now. Earlier versions do not
            // say whose it is.
            kind::queue::SERVE if ![0, record.incarnation << COUNTER_BITS].contains(&attempt.request) => {}
            kind::queue::SERVE => self.on_serve(now, header, attempt),
            kind::queue::CEDED => self.on_ceded(header, attempt),
            kind::queue::TAKEN => self.on_taken(header, attempt),
            kind::queue::ASKED => self.on_asked(header, attempt),
            _ => {}
        }
    }

    fn on_serve(&mut self, now: Time, header: &Header, attempt: &Attempt) {
        let (namespace, source) = (header.namespace, header.source);
        let (lease, _) = self.hold_lease(namespace);
        let parts = self.parts_of(namespace);
        let space = self.offers.0.entry(namespace).or_insert_with(|| Space {
            // Where there is one part it is the first one's: nobody has to be waited for.
            complete: if parts == 1 { now } else { now + lease / QUESTIONS },
            ..Space::default()
        });
        let can = |what| attempt.number & what != 0;
        let offer = Offer { can_move: can(CAN_MOVE), can_share: can(CAN_SHARE) };
        space.nodes.insert(source, offer);
        self.divide(now, namespace);
        let its = |part: &u16| self.memory.lock_server(namespace, *part).handle == source;
        let told: Vec<u16> = if offer.can_share { (0..parts).collect() } else { (0..parts).filter(its).collect() };
        for part in &told {
            self.tell_serving(namespace, *part, source);
        }
        if told.is_empty() {
            self.tell_serving(namespace, 0, source);
        }
    }

    /// Lease of a hold, and after how long one that was not renewed is over by any clock.
    fn hold_lease(&self, namespace: u16) -> (u64, u64) {
        let found = self.config.namespaces.iter().find(|known| known.id == namespace);
        let lease = found.map_or(0, |known| self.config.lease(known, 0).0);
        (lease.into(), u64::from(lease) + u64::from(self.config.least_grace(lease)))
    }

    /// SERVING: whose a part is.
    fn tell_serving(&mut self, namespace: u16, part: u16, to: Handle) {
        let LockServer { handle, term } = self.memory.lock_server(namespace, part);
        let first = self.memory.lock_server(namespace, 0).term;
        let term = if self.config.is_broken(Mutant::SharedTerm) { first } else { term };
        let (lease, patience) = self.hold_lease(namespace);
        let body = Attempt {
            number: if handle == to { term.into() } else { 0 },
            ticket: term.into(),
            order: lease,
            over: patience,
            room: part,
            cause: self.parts_of(namespace) as u8,
            ..Attempt::default()
        };
        self.tell_server(namespace, to, QueueKind::Serving, &body);
    }

    /// Gives away the parts that are nobody's, and takes from who has more than its share.
    pub(super) fn divide_locks(&mut self, now: Time) {
        let namespaces: Vec<u16> = self.offers.0.keys().copied().collect();
        for namespace in namespaces {
            self.divide(now, namespace);
        }
    }

    fn divide(&mut self, now: Time, namespace: u16) {
        let mut loads = self.loads(namespace);
        let Some(space) = self.offers.0.get(&namespace).filter(|space| now >= space.complete) else { return };
        let rests = space.rests;
        let parts = self.parts_of(namespace);
        for part in 0..parts {
            let LockServer { handle, term } = self.memory.lock_server(namespace, part);
            if self.lives(handle) || term >= LAST_TERM {
                continue;
            }
            let Some(next) = least(&loads) else { return };
            self.give(namespace, part, next.handle);
            loads.iter_mut().filter(|load| load.handle == next.handle).for_each(|load| load.parts += 1);
        }
        if now >= rests {
            self.even_out(now, namespace, &loads);
        }
    }

    /// A part changes hands, where one node has two more than another. It waits for a lease: so it is one at a time.
    fn even_out(&mut self, now: Time, namespace: u16, loads: &[Load]) {
        let most = loads.iter().filter(|load| load.can_share).max_by_key(|load| load.parts);
        let (Some(most), Some(least)) = (most, least(loads)) else { return };
        if most.parts < least.parts + 2 {
            return;
        }
        let servers = (0..self.parts_of(namespace)).map(|part| (part, self.memory.lock_server(namespace, part)));
        let its = servers.filter(|(_, server)| server.handle == most.handle && server.term < LAST_TERM);
        // What has changed hands least often.
        let Some((part, _)) = its.min_by_key(|(_, server)| server.term) else { return };
        let (_, patience) = self.hold_lease(namespace);
        self.give(namespace, part, least.handle);
        self.tell_serving(namespace, part, most.handle);
        if let Some(space) = self.offers.0.get_mut(&namespace) {
            space.rests = now + patience;
        }
    }

    fn give(&mut self, namespace: u16, number: u16, handle: Handle) {
        let part = Part { number, of: self.parts_of(namespace) };
        self.memory.set_lock_server(namespace, part, handle);
        self.notices.push_back(Notice::Serves(namespace, part, handle));
        self.tell_serving(namespace, number, handle);
    }

    /// Who offers itself and lives, and how many parts it has. The others are forgotten: at every tick, so none is left
    /// when its handle has rested and is another session's.
    fn loads(&mut self, namespace: u16) -> Vec<Load> {
        let Self { offers, sessions, memory, .. } = self;
        let Some(space) = offers.0.get_mut(&namespace) else { return Vec::new() };
        let lives = |handle: Handle| sessions.is_live(handle) && memory.node_word(handle).state == NodeState::Live;
        space.nodes.retain(|handle, _| lives(*handle));
        let nodes: Vec<(Handle, bool)> = space.nodes.iter().map(|(handle, offer)| (*handle, offer.can_share)).collect();
        let parts = self.parts_of(namespace);
        let count =
            |handle| (0..parts).filter(|part| self.memory.lock_server(namespace, *part).handle == handle).count();
        nodes.into_iter().map(|(handle, can_share)| Load { handle, parts: count(handle), can_share }).collect()
    }
}
