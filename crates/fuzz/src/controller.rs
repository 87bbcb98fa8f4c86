//! The controller beside a real switch, and packets of any kind: straight to it, as if the switch had let them pass,
//! and by way of the switch.

use crate::bytes::{Bytes, Known, packet};
use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;
use std::sync::Arc;
use wayside_protocol::Time;
use wayside_protocol::controller::{
    Allocation, Applicant, Config, Controller, LONGEST_LEASE, Namespace, Notice, Record, Room, Store,
};
use wayside_protocol::memory::SwitchMemory;
use wayside_protocol::seal::Secret;
use wayside_switch::{Action, Switch, SwitchConfig};
use wayside_wire::{BODY, Engine, Enrolled, Policy, VERSION, check, kind, limits, padded, service};

pub const SLOTS: u32 = 16;
pub const MAX_HANDLE: u16 = 5;

/// Records in memory, which may not always be written.
#[derive(Clone, Default)]
pub struct Disk {
    records: Rc<RefCell<Vec<Record>>>,
    is_full: Rc<Cell<bool>>,
}

impl Disk {
    pub fn of(records: Vec<Record>) -> Disk {
        Disk { records: Rc::new(RefCell::new(records)), ..Disk::default() }
    }

    /// Another one with the same on it.
    pub fn copied(&self) -> Disk {
        Disk::of(self.records.borrow().clone())
    }
}

impl Store for Disk {
    type Error = &'static str;

    fn load(&mut self) -> Result<Vec<Record>, Self::Error> {
        Ok(self.records.borrow().clone())
    }

    fn commit(&mut self, batch: &[Record]) -> Result<(), Self::Error> {
        if self.is_full.get() {
            return Err("no space");
        }
        let mut records = self.records.borrow_mut();
        for (key, value) in batch {
            records.retain(|(known, _)| known != key);
            records.push((*key, value.clone()));
        }
        Ok(())
    }
}

/// A switch for the controller to work on.
pub fn switch() -> Arc<Switch> {
    let switch = Arc::new(Switch::new(SwitchConfig { slots: SLOTS, max_handle: MAX_HANDLE }));
    switch.add_namespace(1, SLOTS, Policy::Fair).expect("the first one fits");
    switch
}

/// What the controller is told.
pub fn config(signs: bool) -> Config {
    Config {
        namespaces: vec![Namespace {
            id: 1,
            name: "default".into(),
            policy: Policy::Fair,
            patience: wayside_protocol::OVERTAKEN_MOST,
            engine: Engine::Fission,
            names: wayside_protocol::Names::default(),
            allocation: Allocation::Fixed,
            room: Room::default(),
            servers: 1,
            lease: 100_000,
            longest_lease: LONGEST_LEASE,
        }],
        quarantine: 1_000_000,
        root: signs.then_some(Secret([3; 32])),
        rotation_period: 500_000,
        ..Config::default()
    }
}

/// A controller at work.
pub struct Desk {
    controller: Controller<Arc<Switch>, Disk>,
    switch: Arc<Switch>,
    is_full: Rc<Cell<bool>>,
    now: Time,
    /// Of sessions that began, and their incarnations.
    nonces: Vec<u64>,
    incarnation: u64,
    /// Ids that packets to nodes have had: of censuses.
    ids: Vec<u64>,
}

impl Desk {
    /// With what a store has; None if it refuses that.
    pub fn open(disk: Disk, signs: bool) -> Option<Desk> {
        let switch = switch();
        let is_full = Rc::clone(&disk.is_full);
        let controller = Controller::new(config(signs), Arc::clone(&switch), disk).ok()?;
        let mut desk =
            Desk { controller, switch, is_full, now: Time(1_000_000), nonces: vec![], incarnation: 1, ids: vec![] };
        desk.pass(0);
        Some(desk)
    }

    /// Time passes, by ticks.
    pub fn pass(&mut self, micros: u64) {
        self.now.0 += micros;
        self.controller.on_tick(self.now);
        self.look();
    }

    fn look(&mut self) {
        while let Some((_, packet)) = self.controller.transmit() {
            assert!(packet.len() <= limits::MAX_PACKET_BYTES);
            let header = check(&packet).expect("a controller sends packets alone");
            if header.service == service::LOCK {
                self.ids.push(u64::from_be_bytes(packet[BODY + 8..BODY + 16].try_into().expect("eight bytes")));
            } else if header.kind == kind::fabric::ENROLLED {
                let body = Enrolled::read(&packet, BODY);
                self.nonces.push(body.nonce);
                self.incarnation = body.incarnation.max(self.incarnation);
            }
        }
        while let Some(notice) = self.controller.notice() {
            let (Notice::EpochRaised(epoch) | Notice::Serving(epoch)) = notice else { continue };
            assert_eq!(epoch, self.controller.epoch());
        }
        assert!(self.switch.epoch() <= self.controller.epoch(), "what the switch shows has been written down");
    }

    fn step(&mut self, input: &mut Bytes) {
        match input.u8() & 7 {
            0 | 1 => {
                let pause = input.pause();
                self.pass(pause);
            }
            2 => self.is_full.set(input.u8() == 2),
            3 => {
                let body = wayside_wire::Enrol {
                    nonce: input.u8().into(),
                    pid: 1,
                    lease_us: input.counter(),
                    namespace_name: padded("default").expect("it is short"),
                    host: [0; 32],
                };
                let who = Applicant { address: from(input), admission: 1, version: VERSION };
                if let Ok(enrolment) = self.controller.enrol(self.now, who, 0, &body) {
                    self.incarnation = enrolment.incarnation;
                    self.nonces.push(body.nonce);
                }
            }
            4 => {
                let handle = input.u8() % 8;
                self.controller.closed(self.now, handle.into());
            }
            5 => {
                let (from, packet) = (from(input), input.slice());
                self.controller.on_packet(self.now, from, &packet);
            }
            way => {
                let known = Known {
                    epoch: self.switch.epoch(),
                    requests: &self.ids,
                    incarnation: self.incarnation,
                    nonces: &self.nonces,
                };
                let (from, mut packet) = (from(input), packet(input, &known));
                // Another process on the same host may have any of its ports.
                if way == 6 || self.reaches(from, &mut packet) {
                    self.controller.on_packet(self.now, from, &packet);
                }
            }
        }
        self.look();
    }

    /// Whether the switch hands a packet on to the controller.
    fn reaches(&self, from: SocketAddrV4, packet: &mut Vec<u8>) -> bool {
        let verdict = self.switch.process(self.now, packet, from);
        packet.truncate(verdict.length);
        verdict.action == Action::ToController
    }
}

fn from(input: &mut Bytes) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, input.u8() & 7), 9_000)
}

pub fn run(input: &[u8]) {
    let mut input = Bytes(input);
    let signs = input.u8() & 1 != 0;
    let mut desk = Desk::open(Disk::default(), signs).expect("an empty store");
    while !input.is_over() {
        desk.step(&mut input);
    }
}
