//! Worlds whose packets are signed: sessions begin over a secure connection, keys change, and nothing is believed that
//! nobody signed, nor sent that its receiver would not believe.
//!
//! The secure connection is a thing apart, which neither loses nor shows anything: it takes its time, and sometimes
//! there is nobody at its other end.

use wayside_protocol::controller::Stage;
use wayside_protocol::memory::SwitchMemory;
use wayside_protocol::seal::{Direction, Enrolment, Period, Secret};
use wayside_protocol::{Handle, Time};
use wayside_wire::{Enrol, Header, Refusal};

use super::{Happening, World};
use crate::chart;
use crate::checker::Process;
use crate::dice::Dice;

/// A process that asks for a session.
#[derive(Clone, Copy)]
pub struct Asking {
    process: Process,
    question: Enrol,
    /// By the process's clock: when it first asked.
    since: Time,
}

impl World {
    /// A process that has just been started connects.
    pub(super) fn connect(&mut self, index: usize, question: Enrol) {
        let Some(running) = &self.hosts[index].running else { return };
        let asking = Asking { process: self.hosts[index].process(), question, since: running.time(self.now) };
        self.ask_later(asking);
    }

    fn ask_later(&mut self, asking: Asking) {
        let at = self.now + self.dice.magnitude(50, 5_000);
        self.plan(at, Happening::Ask(asking));
    }

    /// At the controller's end.
    pub(super) fn ask(&mut self, asking: Asking) {
        let index = asking.process.host;
        if self.hosts[index].process() != asking.process || self.hosts[index].running.is_none() {
            return;
        }
        let (now, address) = (self.controller_clock.at(self.now), self.hosts[index].socket(0));
        let Some(controller) = &mut self.controller else { return self.ask_later(asking) };
        let answer = controller.enrol(now, address, 0, &asking.question);
        self.settle_controller();
        match answer {
            Ok(enrolment) => {
                let at = self.now + self.dice.magnitude(50, 5_000);
                self.plan(at, Happening::Told(asking, enrolment));
            }
            Err(Refusal::Recovering) => self.ask_later(asking),
            Err(_) => {
                self.count("refused");
                self.end_process(index);
            }
        }
    }

    /// At the process's end.
    pub(super) fn told(&mut self, asking: Asking, enrolment: &Enrolment) {
        let index = asking.process.host;
        let host = &mut self.hosts[index];
        if host.process() != asking.process {
            return;
        }
        if let Some(until) = host.stopped_until {
            return self.plan(until + 1, Happening::Told(asking, *enrolment));
        }
        let Some(running) = &mut host.running else { return };
        let time = running.time(self.now);
        running.node.begin(time, asking.since, enrolment);
        self.settle(index);
    }

    /// Packets that the node of a live session has refused so far.
    pub(super) fn refused(&self, index: usize) -> Option<u64> {
        let node = &self.hosts[index].running.as_ref()?.node;
        node.session().map(|_| node.dropped())
    }

    /// Whether a packet names the node of this host as its receiver.
    pub(super) fn is_meant_for(&self, index: usize, packet: &[u8]) -> bool {
        let session = self.hosts[index].running.as_ref().and_then(|running| running.node.session());
        session.is_none_or(|session| destination_of(packet) == session.handle)
    }

    /// A1.
    pub(super) fn believed(&mut self, story: String) {
        self.checker.fail("A1", self.now, story);
    }

    /// A2: by the secret in the controller's records, and by another SipHash than the switch's.
    pub(super) fn check_signed(&mut self, receiver: Handle, packet: &[u8]) {
        if !self.authenticated {
            return;
        }
        // Of a session that is over nobody installs a new epoch's keys.
        let Some(record) = self.disk.session(receiver).filter(|record| record.stage == Stage::Live) else { return };
        let epoch = Header::read(packet).map_or(0, |header| header.epoch);
        // What the controller sends may be a moment older than the keys at the switch.
        let rotation = self.switch.rotation(receiver);
        let signed = (rotation.saturating_sub(1)..=rotation).any(|rotation| {
            let period = Period { incarnation: record.incarnation, epoch, rotation };
            record.secret.is_some_and(|secret| secret.key(Direction::Down, period).made_tag(packet))
        });
        if !signed {
            let story = format!("node {receiver} is sent what its key has not signed: {}", chart::packet(packet));
            self.checker.fail("A2", self.now, story);
        }
    }

    /// A3.
    pub(super) fn on_rotated(&mut self, handle: Handle) {
        self.count("keys rotated");
        let (rotation, epoch) = (self.switch.rotation(handle), self.switch.epoch());
        let Some(record) = self.disk.session(handle) else { return };
        let of_session = |running: &&crate::host::Running| {
            running
                .node
                .session()
                .is_some_and(|session| (session.incarnation, session.epoch) == (record.incarnation, epoch))
        };
        let node = self.hosts.iter().filter_map(|host| host.running.as_ref()).find(of_session);
        if let Some(behind) = node.map(|running| running.node.rotation()).filter(|own| own + 1 < rotation) {
            let story = format!("node {handle} signs with rotation {behind}, and its keys are those of {rotation}");
            self.checker.fail("A3", self.now, story);
        }
    }
}

/// 32 bytes.
pub fn secret(dice: &mut Dice) -> Secret {
    let mut bytes = [0; 32];
    bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&dice.any().to_be_bytes()));
    Secret(bytes)
}

pub fn source_of(packet: &[u8]) -> Handle {
    Header::read(packet).map_or(0, |header| header.source)
}

pub fn destination_of(packet: &[u8]) -> Handle {
    Header::read(packet).map_or(0, |header| header.destination)
}
