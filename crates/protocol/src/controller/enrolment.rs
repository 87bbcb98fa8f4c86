//! ENROL and ENROLLED: a handle and an incarnation for a node, written down before it hears of them. Where packets are
//! signed the same goes over a secure connection, with the secret that the session's keys come from.

use super::division::{Division, Step};
use super::store::{Record, SessionRecord, Stage};
use super::{Controller, Counters, Namespace, Notice, Store};
use crate::line::{OVERTAKEN_MOST, patience_to_byte};
use crate::memory::SwitchMemory;
use crate::seal::Enrolment;
use crate::{Handle, Mutant, Names, Time};
use alloc::vec::Vec;
use core::net::SocketAddrV4;
use wayside_wire::{
    BODY, Engine, Enrol, Enrolled, FabricKind, Header, Names as NamesBody, Policy, Refusal, VERSION, check,
    header_flag, kind, limits, mix, service, text,
};

/// The first version of the packets, as their header has it, whose nodes know of names that are listed.
pub const KNOWS_NAMES: u8 = 0x1d;

/// Who asks for a session.
#[derive(Clone, Copy, Debug)]
pub struct Applicant {
    /// Of its agent port.
    pub address: SocketAddrV4,
    /// Its host's, for [`Controller::cut_off`].
    pub admission: u64,
    /// Of the packets that it sends, as their header has it.
    pub version: u8,
}

/// Sessions that begin together: none of them is written down yet.
type Newcomers = Vec<(Handle, SessionRecord)>;

/// Whether it is an ENROL, which is best heard together with those behind it: [`Controller::on_enrols`].
#[must_use]
pub fn is_enrol(packet: &[u8]) -> bool {
    header_of_enrol(packet).is_some()
}

fn header_of_enrol(packet: &[u8]) -> Option<Header> {
    check(packet).ok().filter(|header| (header.service, header.kind) == (service::FABRIC, kind::fabric::ENROL))
}

impl<M: SwitchMemory, S: Store> Controller<M, S> {
    /// ENROLs that the switch handed over, and who sent each; whatever else is among them is not heard.
    pub fn on_enrols<'p>(&mut self, now: Time, packets: impl IntoIterator<Item = (SocketAddrV4, &'p [u8])>) {
        // A packet is no way to hand out a secret: where packets are signed, none begins a session.
        if self.config.root.is_some() {
            return;
        }
        let read = |(address, packet): (SocketAddrV4, &[u8])| {
            let shards = header_of_enrol(packet)?.shard_map;
            Some((Applicant { address, admission: 0, version: packet[2] }, shards, Enrol::read(packet, BODY)))
        };
        let asked: Vec<(Applicant, u32, Enrol)> = packets.into_iter().filter_map(read).collect();
        for ((who, _, body), answer) in asked.iter().zip(self.enrol_all(now, &asked)) {
            match answer {
                Ok(enrolment) => {
                    self.send_names(&enrolment, body.nonce);
                    self.send_enrolled(&enrolment, body.nonce);
                }
                // The store failed: the node asks again.
                Err(Refusal::Recovering) => {}
                Err(refusal) => self.refuse(who.address, body.nonce, refusal),
            }
        }
    }

    /// Begins a session for a node, or tells again of the one that this nonce has begun. What it returns goes to the
    /// node alone: with a secret in it, over a secure connection. `shards` is what the node takes them for
    /// ([`crate::Shards::fingerprint`]).
    ///
    /// # Errors
    /// Why there is none. [`Refusal::Recovering`]: not now.
    pub fn enrol(&mut self, now: Time, who: Applicant, shards: u32, body: &Enrol) -> Result<Enrolment, Refusal> {
        self.enrol_all(now, &[(who, shards, *body)]).pop().unwrap_or(Err(Refusal::Recovering))
    }

    /// [`Controller::enrol`] for each of these, who wait for the store together: all new sessions are written down by
    /// one commit. Nodes that begin at the same moment would each wait for those before them, otherwise.
    pub fn enrol_all(&mut self, now: Time, asked: &[(Applicant, u32, Enrol)]) -> Vec<Result<Enrolment, Refusal>> {
        let mut newcomers = Newcomers::new();
        let mut take_in = |(who, shards, body): &(_, u32, _)| self.take_in(now, *who, *shards, body, &mut newcomers);
        let handles: Vec<_> = asked.iter().map(&mut take_in).collect();
        // Where the store fails, those that are not written down have no enrolment.
        self.begin_all(now, newcomers);
        let answers = asked.iter().zip(handles);
        let told = |((_, shards, body), handle): (&(_, u32, Enrol), Result<Handle, Refusal>)| {
            self.enrolment(handle?, body.nonce, *shards).ok_or(Refusal::Recovering)
        };
        answers.map(told).collect()
    }

    /// The handle of a node's session: of one that is known, or among `newcomers`.
    fn take_in(
        &mut self,
        now: Time,
        who: Applicant,
        shards: u32,
        body: &Enrol,
        newcomers: &mut Newcomers,
    ) -> Result<Handle, Refusal> {
        let Applicant { address, admission, version: speaks } = who;
        if !self.ensure_booted(now) {
            return Err(Refusal::Recovering);
        }
        let same = newcomers.iter().find(|(_, record)| record.nonce == body.nonce);
        let same = same.map(|(handle, record)| (*handle, record)).or_else(|| self.sessions.by_nonce(body.nonce));
        let known = same.map(|(handle, record)| (handle, *record));
        let asked = text(&body.namespace_name);
        let is_asked = |id: u16| self.config.namespaces.iter().any(|n| n.id == id && Some(n.name.as_str()) == asked);
        // With the answer goes the session's secret: to its own host alone.
        if known.is_some_and(|(_, record)| record.admission != admission || !is_asked(record.namespace)) {
            return Err(Refusal::Namespace);
        }
        // It would ask for what is listed at slots, as everybody did then.
        let lists = |n: &Namespace| n.engine == Engine::Hybrid && Some(n.name.as_str()) == asked;
        if speaks < KNOWS_NAMES && self.config.namespaces.iter().any(lists) {
            return Err(Refusal::Version);
        }
        if let Some((handle, record)) = known.filter(|_| self.is_pledge(shards)) {
            self.follows(handle, record.incarnation);
            return Ok(handle);
        }
        let Division { begins, version, step, .. } = self.follow.division;
        match begins {
            Some(begins) if begins == shards || self.config.is_broken(Mutant::AnyShards) => {}
            Some(_) if shards == self.config.shards && self.config.is_broken(Mutant::BeginsAsBefore) => {}
            // Its time comes.
            None if version == 0 || step == Step::Announced => return Err(Refusal::Recovering),
            // It would ask for names that another shard grants, too.
            _ => return Err(Refusal::Shards),
        }
        if let Some((handle, _)) = known {
            // The same answer, even if that session is over by now: its heartbeats will say so.
            return Ok(handle);
        }
        let namespace = self.config.namespaces.iter().find(|n| Some(n.name.as_str()) == asked);
        let namespace = namespace.filter(|n| self.memory.slot_count(n.id) != 0).ok_or(Refusal::Namespace)?;
        if self.has_its_share(now, namespace.id, newcomers) {
            return Err(Refusal::Full);
        }
        let handle = self.free_handle(now, body.nonce, newcomers).ok_or(Refusal::Full)?;
        let incarnation = self.counters.incarnation + 1;
        let (lease, grace) = self.config.lease(namespace, body.lease_us);
        let record = SessionRecord {
            incarnation,
            nonce: body.nonce,
            lifeline: self.lifeline_for(incarnation, body.nonce),
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
        // A store that says that it failed may have written all the same. So the number is used up, for whoever comes
        // next would have the same one, and if it is the same node again the same secret; and what may have been
        // written goes with the next session that is.
        self.counters.incarnation = incarnation;
        self.in_doubt.insert(handle, body.nonce);
        newcomers.push((handle, record));
        Ok(handle)
    }

    /// Begins the sessions of newcomers: all of them, or none if the store fails.
    fn begin_all(&mut self, now: Time, newcomers: Newcomers) {
        let Some(&(latest, _)) = newcomers.last() else { return };
        let counters = Counters { handle: latest, ..self.counters };
        let is_new = |handle: Handle| newcomers.iter().any(|(new, _)| *new == handle);
        let doubted = self.in_doubt.keys().filter(|&&doubted| !is_new(doubted));
        let former = doubted.filter_map(|&doubted| Some(self.sessions.get(doubted)?.record.encode(doubted)));
        let written = newcomers.iter().map(|(handle, record)| record.encode(*handle));
        let batch: Vec<Record> = [counters.encode()].into_iter().chain(written).chain(former).collect();
        if !self.commit(&batch) {
            return;
        }
        // Where there was no session before, what the store may have stays there until somebody is given its handle.
        self.in_doubt.retain(|&doubted, _| !is_new(doubted) && self.sessions.get(doubted).is_none());
        self.counters = counters;
        for (handle, record) in newcomers {
            self.sessions.insert(handle, record);
            self.begin(now, handle);
        }
    }

    /// Tells the switch of a session that is written down.
    pub(super) fn begin(&mut self, now: Time, handle: Handle) {
        let Some(record) = self.sessions.get(handle).map(|session| session.record) else { return };
        self.sessions.saw(now, handle, 0);
        self.announce_to(handle, record.namespace);
        // Before its word is LIVE: nothing could be signed for it.
        self.install_keys(now, handle);
        self.memory.set_node(handle, &record.entry());
        self.notices.push_back(Notice::Enrolled(handle));
    }

    fn lifeline_for(&self, incarnation: u64, nonce: u64) -> u64 {
        match self.config.root {
            Some(root) => root.lifeline_of_session(incarnation, nonce),
            // Whoever reads packets, reads it in one.
            None => mix(mix(self.config.secret ^ incarnation).wrapping_add(self.config.secret)),
        }
    }

    /// What the node of this handle is told, if its session is the one that this nonce began.
    fn enrolment(&self, handle: Handle, nonce: u64, shards: u32) -> Option<Enrolment> {
        let record = &self.sessions.get(handle).filter(|session| session.record.nonce == nonce)?.record;
        Some(Enrolment {
            handle,
            incarnation: record.incarnation,
            epoch: self.counters.epoch,
            namespace: record.namespace,
            slots: self.memory.slot_count(record.namespace),
            engine: self.engine_of(record.namespace),
            names: self.names_of(record.namespace),
            policy: self.policy_of(record.namespace),
            patience: self.patience_of(record.namespace),
            lease: record.lease,
            grace: record.grace,
            lifeline: record.lifeline,
            shards,
            secret: record.secret,
            version: VERSION,
        })
    }

    fn names_of(&self, id: u16) -> Names {
        let namespace = self.config.namespaces.iter().find(|namespace| namespace.id == id);
        namespace.map(|namespace| namespace.names.clone()).unwrap_or_default()
    }

    /// The fingerprint of what is listed in a namespace; 0: nothing is.
    pub(super) fn fingerprint_of(&self, id: u16) -> u64 {
        let namespace = self.config.namespaces.iter().find(|namespace| namespace.id == id);
        namespace.map_or(0, |namespace| namespace.names.fingerprint())
    }

    pub(super) fn policy_of(&self, id: u16) -> Policy {
        let namespace = self.config.namespaces.iter().find(|namespace| namespace.id == id);
        namespace.map_or(Policy::Fair, |namespace| namespace.policy)
    }

    pub(super) fn patience_of(&self, id: u16) -> u8 {
        let namespace = self.config.namespaces.iter().find(|namespace| namespace.id == id);
        namespace.map_or(OVERTAKEN_MOST, |namespace| namespace.patience)
    }

    /// The version of a node that speaks another major one is read from the one field that never moves: an ENROL of
    /// any version has service 0 and kind 1 in bytes 3 and 4.
    pub(super) fn on_foreign_version(&mut self, from: SocketAddrV4, packet: &[u8]) {
        if packet[3] == service::FABRIC && packet[4] == kind::fabric::ENROL {
            self.refuse(from, 0, Refusal::Version);
        }
    }

    /// NAMES: what is listed, where something is.
    fn send_names(&mut self, enrolment: &Enrolment, nonce: u64) {
        let Some(address) = self.sessions.get(enrolment.handle).map(|session| session.record.address) else { return };
        if enrolment.engine != Engine::Hybrid {
            return;
        }
        let names = &enrolment.names;
        let (body, blocks) = (names.to_body(nonce), names.to_blocks());
        let count = blocks.len() as u8;
        let (destination, namespace) = (enrolment.handle, enrolment.namespace);
        let header = Header { kind: kind::fabric::NAMES, count, destination, namespace, ..Header::default() };
        self.send_fabric(address, header, FabricKind::Names.body().bytes(count), |packet, at| {
            body.write(packet, at);
            for (index, block) in blocks.iter().enumerate() {
                block.write(packet, at + NamesBody::BYTES + index * limits::BLOCK_BYTES);
            }
        });
    }

    fn send_enrolled(&mut self, enrolment: &Enrolment, nonce: u64) {
        let Some(address) = self.sessions.get(enrolment.handle).map(|session| session.record.address) else { return };
        let body = Enrolled {
            nonce,
            incarnation: enrolment.incarnation,
            lease_us: enrolment.lease,
            grace_us: enrolment.grace,
            slots: enrolment.slots,
            policy: enrolment.policy as u8,
            reason: Refusal::None as u8,
            version: VERSION,
            patience: patience_to_byte(enrolment.patience),
            lifeline: enrolment.lifeline,
        };
        let header = Header {
            kind: kind::fabric::ENROLLED,
            position: enrolment.engine as u16,
            destination: enrolment.handle,
            namespace: enrolment.namespace,
            shard_map: enrolment.shards,
            ..Header::default()
        };
        self.send_fabric(address, header, FabricKind::Enrolled.body().bytes(0), |packet, at| body.write(packet, at));
    }

    fn refuse(&mut self, to: SocketAddrV4, nonce: u64, reason: Refusal) {
        let header = Header { kind: kind::fabric::ENROLLED, flags: header_flag::REFUSED, ..Header::default() };
        let body = Enrolled { nonce, reason: reason as u8, version: VERSION, ..Enrolled::default() };
        self.send_fabric(to, header, FabricKind::Enrolled.body().bytes(0), |packet, at| body.write(packet, at));
    }

    /// Whether a namespace has sessions that are not forgotten: where it has none, all of them are over, and their
    /// handles free again.
    pub(super) fn has_sessions_of(&self, now: Time, namespace: u16) -> bool {
        self.sessions.taken_in(now, namespace, &self.config) > 0
    }

    /// Whether a namespace has half of all handles, those at rest included: where there are others, it gets no more.
    fn has_its_share(&self, now: Time, namespace: u16, newcomers: &Newcomers) -> bool {
        let share = usize::from(self.memory.max_handle() / 2);
        let new = newcomers.iter().filter(|(_, record)| record.namespace == namespace).count();
        self.config.namespaces.len() > 1 && self.sessions.taken_in(now, namespace, &self.config) + new >= share
    }

    /// Round robin, so that a handle rests as long as possible; but first those of which the store may have a session
    /// that never began, and among them that of this very nonce: a node has one session in the store.
    fn free_handle(&self, now: Time, nonce: u64, newcomers: &Newcomers) -> Option<Handle> {
        let count = self.memory.max_handle();
        let is_new = |handle: Handle| newcomers.iter().any(|(new, _)| *new == handle);
        let free = |handle: &Handle| !is_new(*handle) && self.sessions.is_free(now, *handle, &self.config);
        let latest = newcomers.last().map_or(self.counters.handle, |(new, _)| *new).min(count);
        let own = self.in_doubt.iter().filter(|(_, of)| **of == nonce).map(|(handle, _)| *handle);
        let doubted = own.chain(self.in_doubt.keys().copied());
        doubted.chain(latest + 1..=count).chain(1..=latest).find(free)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::Config;
    use super::super::tests::{Disk, Memory, config};
    use super::*;
    use alloc::rc::Rc;
    use alloc::string::ToString;
    use core::net::Ipv4Addr;
    use wayside_wire::padded;

    /// The node of the tests' first handle, of a host that was let in so, in today's version.
    pub(crate) fn applicant(admission: u64) -> Applicant {
        Applicant { address: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 7600), admission, version: VERSION }
    }

    /// What becomes of so many enrolments in the first namespace, of three handles.
    fn enrolled(config: Config) -> Vec<Option<Refusal>> {
        let mut controller =
            Controller::new(config, Rc::new(Memory::default()), Disk::default()).expect("an empty store");
        controller.on_tick(Time(0));
        let body = |nonce| Enrol { nonce, namespace_name: padded("default").expect("short"), ..Enrol::default() };
        (1..5).map(|nonce| controller.enrol(Time(0), applicant(0), 0, &body(nonce)).err()).collect()
    }

    #[test]
    fn who_divides_names_among_other_shards_gets_no_session() {
        let config = Config { shards: 7, ..config() };
        let mut controller =
            Controller::new(config, Rc::new(Memory::default()), Disk::default()).expect("an empty store");
        controller.on_tick(Time(0));
        let body = Enrol { nonce: 1, namespace_name: padded("default").expect("short"), ..Enrol::default() };
        let mut enrol =
            |shards| controller.enrol(Time(0), applicant(0), shards, &body).map(|enrolment| enrolment.shards);
        assert_eq!(
            [enrol(0), enrol(8), enrol(7), enrol(8)],
            [Err(Refusal::Shards), Err(Refusal::Shards), Ok(7), Err(Refusal::Shards)]
        );
    }

    #[test]
    fn a_tenant_does_not_get_the_other_half_of_all_handles() {
        assert_eq!(enrolled(config()), [None, None, None, Some(Refusal::Full)], "nobody else is there");
        let mut shared = config();
        let other = Namespace { id: 2, name: "other".to_string(), ..shared.namespaces[0].clone() };
        shared.namespaces.push(other);
        let full = Some(Refusal::Full);
        assert_eq!(enrolled(shared), [None, full, full, full], "half of three is one");
    }

    #[test]
    fn a_node_that_knows_nothing_of_lists_gets_no_session_where_there_is_one() {
        let mut hybrid = config();
        let names = Names::new([7, 9]).expect("few");
        (hybrid.namespaces[0].engine, hybrid.namespaces[0].names) = (Engine::Hybrid, names.clone());
        let mut controller =
            Controller::new(hybrid, Rc::new(Memory::default()), Disk::default()).expect("an empty store");
        controller.on_tick(Time(0));
        let mut enrol = |version, nonce| {
            let body = Enrol { nonce, namespace_name: padded("default").expect("short"), ..Enrol::default() };
            controller.enrol(Time(0), Applicant { version, ..applicant(0) }, 0, &body)
        };
        assert_eq!(enrol(KNOWS_NAMES - 1, 1), Err(Refusal::Version));
        let enrolment = enrol(KNOWS_NAMES, 2).expect("there is room");
        assert_eq!((enrolment.engine, enrolment.names), (Engine::Hybrid, names));
    }
}
