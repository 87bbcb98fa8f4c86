//! ENROL and ENROLLED: a handle and an incarnation for a node, written down before it hears of them. Where packets are
//! signed the same goes over a secure connection, with the secret that the session's keys come from.

use super::store::{SessionRecord, Stage};
use super::{Controller, Counters, Namespace, Notice, Store};
use crate::memory::SwitchMemory;
use crate::seal::Enrolment;
use crate::{Handle, Time};
use core::net::SocketAddrV4;
use wayside_wire::{Enrol, Enrolled, FabricKind, Header, Refusal, VERSION, header_flag, kind, mix, service, text};

impl<M: SwitchMemory, S: Store> Controller<M, S> {
    /// A packet is no way to hand out a secret: where packets are signed, none begins a session.
    pub(super) fn on_enrol(&mut self, now: Time, from: SocketAddrV4, body: &Enrol) {
        if self.config.root.is_some() {
            return;
        }
        match self.enrol(now, from, 0, body) {
            Ok(enrolment) => self.send_enrolled(&enrolment, body.nonce),
            // The store failed: the node asks again.
            Err(Refusal::Recovering) => {}
            Err(refusal) => self.refuse(from, body.nonce, refusal),
        }
    }

    /// Begins a session for a node whose agent port is `address`, or tells again of the one that this nonce has begun.
    /// What it returns goes to the node alone: with a secret in it, over a secure connection. `admission` is the
    /// host's, for
    /// [`Controller::cut_off`].
    ///
    /// # Errors
    /// Why there is none. [`Refusal::Recovering`]: not now.
    pub fn enrol(
        &mut self,
        now: Time,
        address: SocketAddrV4,
        admission: u64,
        body: &Enrol,
    ) -> Result<Enrolment, Refusal> {
        if !self.ensure_booted(now) {
            return Err(Refusal::Recovering);
        }
        if let Some((handle, record)) = self.sessions.by_nonce(body.nonce) {
            // The same answer, even if that session is over by now: its heartbeats will say so.
            return Ok(self.enrolment(handle, record));
        }
        let asked = text(&body.namespace_name);
        let namespace = self.config.namespaces.iter().find(|n| Some(n.name.as_str()) == asked);
        let namespace = namespace.filter(|n| self.memory.slot_count(n.id) != 0).ok_or(Refusal::Namespace)?;
        let handle = self.free_handle(now).ok_or(Refusal::Full)?;
        let incarnation = self.counters.incarnation + 1;
        let (lease, grace) = self.config.lease(namespace, body.lease_us);
        let record = SessionRecord {
            incarnation,
            nonce: body.nonce,
            lifeline: mix(mix(self.config.secret ^ incarnation).wrapping_add(self.config.secret)),
            address,
            namespace: namespace.id,
            lease,
            grace,
            pid: body.pid,
            host: body.host,
            stage: Stage::Live,
            secret: self.config.root.map(|root| root.of_session(incarnation, body.nonce)),
            admission,
        };
        let counters = Counters { incarnation, handle, ..self.counters };
        if !self.commit(&[counters.encode(), record.encode(handle)]) {
            return Err(Refusal::Recovering);
        }
        self.counters = counters;
        self.sessions.insert(handle, record);
        self.sessions.saw(now, handle, 0);
        // Before its word is LIVE: nothing could be signed for it.
        self.install_keys(now, handle);
        self.memory.set_node(handle, &record.entry());
        self.notices.push_back(Notice::Enrolled(handle));
        Ok(self.enrolment(handle, &record))
    }

    fn enrolment(&self, handle: Handle, record: &SessionRecord) -> Enrolment {
        Enrolment {
            handle,
            incarnation: record.incarnation,
            epoch: self.counters.epoch,
            namespace: record.namespace,
            slots: self.memory.slot_count(record.namespace),
            lease: record.lease,
            grace: record.grace,
            lifeline: record.lifeline,
            secret: record.secret,
        }
    }

    /// The version of a node that speaks another major one is read from the one field that never moves: an ENROL of
    /// any version has service 0 and kind 1 in bytes 3 and 4.
    pub(super) fn on_foreign_version(&mut self, from: SocketAddrV4, packet: &[u8]) {
        if packet[3] == service::FABRIC && packet[4] == kind::fabric::ENROL {
            self.refuse(from, 0, Refusal::Version);
        }
    }

    fn send_enrolled(&mut self, enrolment: &Enrolment, nonce: u64) {
        let Some(address) = self.sessions.get(enrolment.handle).map(|session| session.record.address) else { return };
        let namespace = self.config.namespaces.iter().find(|n| n.id == enrolment.namespace);
        let body = Enrolled {
            nonce,
            incarnation: enrolment.incarnation,
            lease_us: enrolment.lease,
            grace_us: enrolment.grace,
            slots: enrolment.slots,
            policy: namespace.map_or(0, |Namespace { policy, .. }| *policy as u8),
            reason: Refusal::None as u8,
            version: VERSION,
            lifeline: enrolment.lifeline,
        };
        let header = Header {
            kind: kind::fabric::ENROLLED,
            destination: enrolment.handle,
            namespace: enrolment.namespace,
            ..Header::default()
        };
        self.send_fabric(address, header, FabricKind::Enrolled.body().bytes(0), |packet, at| body.write(packet, at));
    }

    fn refuse(&mut self, to: SocketAddrV4, nonce: u64, reason: Refusal) {
        let header = Header { kind: kind::fabric::ENROLLED, flags: header_flag::REFUSED, ..Header::default() };
        let body = Enrolled { nonce, reason: reason as u8, version: VERSION, ..Enrolled::default() };
        self.send_fabric(to, header, FabricKind::Enrolled.body().bytes(0), |packet, at| body.write(packet, at));
    }

    /// Round robin, so that a handle rests as long as possible.
    fn free_handle(&self, now: Time) -> Option<Handle> {
        let count = self.memory.max_handle();
        let free = |handle: &Handle| self.sessions.is_free(now, *handle, &self.config);
        let latest = self.counters.handle.min(count);
        (latest + 1..=count).chain(1..=latest).find(free)
    }
}
