//! ENROL and ENROLLED: a handle and an incarnation for a node, written down before it hears of them.

use super::store::{SessionRecord, Stage};
use super::{Controller, Counters, Namespace, Notice, Store};
use crate::memory::SwitchMemory;
use crate::{Handle, Time};
use core::net::SocketAddrV4;
use wayside_wire::{Enrol, Enrolled, FabricKind, Header, Refusal, VERSION, header_flag, kind, mix, service, text};

impl<M: SwitchMemory, S: Store> Controller<M, S> {
    pub(super) fn on_enrol(&mut self, now: Time, from: SocketAddrV4, body: &Enrol) {
        if let Some((handle, record)) = self.sessions.by_nonce(body.nonce) {
            // The same answer, even if that session is over by now: its heartbeats will say so.
            let record = *record;
            return self.send_enrolled(handle, &record);
        }
        let asked = text(&body.namespace_name);
        let Some(namespace) = self.config.namespaces.iter().find(|n| Some(n.name.as_str()) == asked) else {
            return self.refuse(from, body.nonce, Refusal::Namespace);
        };
        if self.memory.slot_count(namespace.id) == 0 {
            return self.refuse(from, body.nonce, Refusal::Namespace);
        }
        let Some(handle) = self.free_handle(now) else {
            return self.refuse(from, body.nonce, Refusal::Full);
        };
        let incarnation = self.counters.incarnation + 1;
        let (lease, grace) = self.config.lease(namespace, body.lease_us);
        let record = SessionRecord {
            incarnation,
            nonce: body.nonce,
            lifeline: mix(mix(self.config.secret ^ incarnation).wrapping_add(self.config.secret)),
            address: from,
            namespace: namespace.id,
            lease,
            grace,
            pid: body.pid,
            host: body.host,
            stage: Stage::Live,
        };
        let counters = Counters { incarnation, handle, ..self.counters };
        if !self.commit(&[counters.encode(), record.encode(handle)]) {
            return;
        }
        self.counters = counters;
        self.sessions.insert(handle, record);
        self.sessions.saw(now, handle, 0);
        self.memory.set_node(handle, &record.entry());
        self.notices.push_back(Notice::Enrolled(handle));
        self.send_enrolled(handle, &record);
    }

    /// The version of a node that speaks another major one is read from the one field that never moves: an ENROL of
    /// any version has service 0 and kind 1 in bytes 3 and 4.
    pub(super) fn on_foreign_version(&mut self, from: SocketAddrV4, packet: &[u8]) {
        if packet[3] == service::FABRIC && packet[4] == kind::fabric::ENROL {
            self.refuse(from, 0, Refusal::Version);
        }
    }

    fn send_enrolled(&mut self, handle: Handle, record: &SessionRecord) {
        let namespace = self.config.namespaces.iter().find(|n| n.id == record.namespace);
        let body = Enrolled {
            nonce: record.nonce,
            incarnation: record.incarnation,
            lease_us: record.lease,
            grace_us: record.grace,
            slots: self.memory.slot_count(record.namespace),
            policy: namespace.map_or(0, |Namespace { policy, .. }| *policy as u8),
            reason: Refusal::None as u8,
            version: VERSION,
            lifeline: record.lifeline,
        };
        let header = Header {
            kind: kind::fabric::ENROLLED,
            destination: handle,
            namespace: record.namespace,
            ..Header::default()
        };
        self.send_fabric(record.address, header, FabricKind::Enrolled.body().bytes(0), |packet, at| {
            body.write(packet, at);
        });
    }

    fn refuse(&mut self, to: SocketAddrV4, nonce: u64, reason: Refusal) {
        let header = Header { kind: kind::fabric::ENROLLED, flags: header_flag::REFUSED, ..Header::default() };
        let body = Enrolled { nonce, reason: reason as u8, version: VERSION, ..Enrolled::default() };
        self.send_fabric(to, header, FabricKind::Enrolled.body().bytes(0), |packet, at| body.write(packet, at));
    }

    /// Round robin, so that a handle rests as long as possible.
    fn free_handle(&self, now: Time) -> Option<Handle> {
        let count = self.memory.max_handle();
        let free = |handle: &Handle| self.sessions.is_free(now, *handle, self.config.quarantine);
        let latest = self.counters.handle.min(count);
        (latest + 1..=count).chain(1..=latest).find(free)
    }
}
