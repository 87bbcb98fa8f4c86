//! Worlds whose packets are signed: sessions begin over a secure connection, keys change, and nothing is believed that
//! nobody signed, nor sent that its receiver would not believe.
//!
//! The secure connection is a thing apart, which neither loses nor shows anything: it takes its time, and sometimes
//! there is nobody at its other end.

use std::collections::BTreeMap;

use wayside_protocol::controller::{Applicant, SessionRecord, Stage};
use wayside_protocol::memory::SwitchMemory;
use wayside_protocol::seal::{Direction, Key, Period};
use wayside_protocol::{Handle, Time};
use wayside_wire::{Enrol, Header, Refusal, VERSION};

use super::{Happening, World};
use crate::dice::Dice;
use crate::host::{Host, Process};
use crate::story;

/// A process that asks for a session.
#[derive(Clone, Copy)]
pub struct Asking {
    /// Who.
    pub process: Process,
    question: Enrol,
    /// Among which shards its process divides names.
    shards: u32,
    /// By the process's clock: when it first asked.
    pub since: Time,
    attempts: u64,
}

/// What a question over the secure connection came to.
pub enum Asked {
    /// An answer is on its way, or the question will be asked again.
    Goes,
    /// There will be no session.
    Refused(Refusal),
}

impl World {
    /// A process that has just been started connects.
    pub fn connect(&mut self, host: usize, question: Enrol, shards: u32) {
        let Some(running) = &self.hosts[host].running else { return };
        let (process, since) = (self.hosts[host].process(), running.time(self.now));
        self.ask_later(Asking { process, question, shards, since, attempts: 0 });
    }

    fn ask_later(&mut self, asking: Asking) {
        let at = self.now + self.trip(&asking, 0);
        self.plan(at, Happening::Ask(Box::new(Asking { attempts: asking.attempts + 1, ..asking })));
    }

    fn trip(&self, asking: &Asking, way: u64) -> u64 {
        let Process { host, generation } = asking.process;
        Dice::of(self.seed, &[TRIPS, host as u64, generation.into(), asking.attempts, way]).magnitude(50, 5_000)
    }

    /// At the controller's end.
    pub fn ask(&mut self, asking: Asking) -> Asked {
        let host = asking.process.host;
        if self.hosts[host].process() != asking.process || self.hosts[host].running.is_none() {
            return Asked::Goes;
        }
        // One after the other, until one answers.
        let seat = (asking.attempts as usize + host) % self.seats.len();
        let (now, address) = (self.seats[seat].clock.at(self.now), Host::socket(host, 0));
        let stopped = self.seats[seat].stopped_until.is_some();
        let Some(controller) = self.seats[seat].controller(self.now).filter(|_| !stopped) else {
            self.ask_later(asking);
            return Asked::Goes;
        };
        self.hosts[host].seat = seat;
        let who = Applicant { address, admission: 0, version: VERSION };
        let answer = controller.enrol(now, who, asking.shards, &asking.question);
        self.settle_controller(seat);
        match answer {
            Ok(enrolment) => {
                let at = self.now + self.trip(&asking, 1);
                self.plan(at, Happening::Told(Box::new((asking, enrolment))));
            }
            Err(Refusal::Recovering) => self.ask_later(asking),
            Err(refusal) => return Asked::Refused(refusal),
        }
        Asked::Goes
    }

    /// Packets that the node of a live session has refused so far.
    pub fn refused(&self, host: usize) -> Option<u64> {
        let node = &self.hosts[host].running.as_ref()?.node;
        node.session().map(|_| node.dropped())
    }

    /// Whether a packet names the node of this host as its receiver.
    pub fn is_meant_for(&self, host: usize, packet: &[u8]) -> bool {
        let session = self.hosts[host].running.as_ref().and_then(|running| running.node.session());
        session.is_none_or(|session| destination_of(packet) == session.handle)
    }

    /// A1.
    pub fn believed(&mut self, story: String) {
        self.fail("A1", story);
    }

    /// A2: by the secret in the controller's records, and by another SipHash than the switch's.
    pub fn check_signed(&mut self, seat: usize, receiver: Handle, packet: &[u8]) {
        if !self.setup.authenticated {
            return;
        }
        // Of a session that is over nobody installs a new epoch's keys.
        let live = |record: &SessionRecord| record.stage == Stage::Live;
        let Some(written) = self.seats[seat].disk.session(receiver).filter(live) else { return };
        if self.is_signed(seat, receiver, &written, packet) {
            return;
        }
        // The store may have a session of which the controller was told that it could not be written.
        let controller = self.seats[seat].records();
        let known = controller.and_then(|c| c.sessions().find(|session| session.handle == receiver));
        let Some(known) = known.map(|session| *session.record).filter(live) else { return };
        if !self.is_signed(seat, receiver, &known, packet) {
            let story = format!("node {receiver} is sent what its key has not signed: {}", story::packet(packet));
            self.fail("A2", story);
        }
    }

    fn is_signed(&mut self, seat: usize, receiver: Handle, record: &SessionRecord, packet: &[u8]) -> bool {
        let World { seats, keys, rotations, between, .. } = self;
        let Some(secret) = record.secret else { return true };
        let (incarnation, epoch) = (record.incarnation, Header::read(packet).map_or(0, |header| header.epoch));
        let mut signed_in = |epoch, rotation| {
            let period = Period { incarnation, epoch, rotation };
            let key = || secret.key(Direction::Down, period);
            keys.entry((record.nonce, incarnation, epoch, rotation)).or_insert_with(key).made_tag(packet)
        };
        let switch = &seats[seat].switch;
        let now = (switch.epoch(), switch.rotation(receiver));
        let rotation = if epoch == now.0 { now.1 } else { rotations.get(&(incarnation, epoch)).copied().unwrap_or(0) };
        // What the controller sends may be a moment older than the keys at the switch; and what one processor answers
        // while another changes the keys is signed with the new ones, and refused.
        signed_in(epoch, rotation)
            || signed_in(epoch, rotation.saturating_sub(1))
            // Keys that changed in the very tick that raised the epoch: nobody was told of that rotation.
            || (epoch != now.0 && signed_in(epoch, rotation + 1))
            || (*between && signed_in(now.0, now.1))
            // The switch has just lost its memory, and the controller has not noticed yet.
            || (now.0 == 0 && signed_in(epoch, 0))
    }

    /// A3.
    pub(super) fn on_rotated(&mut self, seat: usize, handle: Handle) {
        self.count("keys rotated");
        let place = &self.seats[seat];
        let (rotation, epoch) = (place.switch.rotation(handle), place.switch.epoch());
        let Some(record) = place.disk.session(handle) else { return };
        self.rotations.insert((record.incarnation, epoch), rotation);
        let running = self.host_of(handle).and_then(|host| self.hosts[host].running.as_ref());
        let node = running.map(|running| &running.node).filter(|node| {
            node.session().is_some_and(|session| (session.incarnation, session.epoch) == (record.incarnation, epoch))
        });
        if let Some(behind) = node.map(|node| node.rotation()).filter(|own| own + 1 < rotation) {
            let story = format!("node {handle} signs with rotation {behind}, and its keys are those of {rotation}");
            self.fail("A3", story);
        }
    }
}

/// Keys to check what is sent, by nonce and incarnation of the session, epoch and rotation.
pub type Keys = BTreeMap<(u64, u64, u32, u32), Key>;

/// To whom a packet is.
pub fn destination_of(packet: &[u8]) -> Handle {
    Header::read(packet).map_or(0, |header| header.destination)
}

/// Purpose of dice.
const TRIPS: u64 = 6;
