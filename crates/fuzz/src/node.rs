//! A node with a session, and what the network may bring it: packets of any kind from anybody, between its own requests
//! and the passing of time. Whatever comes, what leaves are packets, and the books can be read.

use crate::bytes::{Bytes, Known, packet};
use wayside_protocol::seal::{Direction, Enrolment, Period, Secret};
use wayside_protocol::{Acquire, Event, Mode, Names, Node, NodeConfig, Priority, RequestId, Time};
use wayside_wire::{BODY, Engine, Enrol, check, kind, limits, service};

const SLOTS: u32 = 8;
/// Parts of what can be read: each slot's books, and the node's own.
const TURNS: u32 = SLOTS + 1;
const HANDLE: u16 = 1;
const INCARNATION: u64 = 101;
const EPOCH: u32 = 7;
const SECRET: Secret = Secret([9; 32]);

struct World {
    node: Node,
    now: Time,
    signs: bool,
    /// Every request that was made.
    requests: Vec<u64>,
    nonces: Vec<u64>,
    /// Of the session.
    epoch: u32,
    rotation: u32,
    /// Calls so far: what is read after one, in turn.
    turn: u32,
}

pub fn run(input: &[u8]) {
    let mut input = Bytes(input);
    let mut world = World::new(input.u8());
    while !input.is_over() {
        world.step(&mut input);
        world.look();
    }
    (0..TURNS).for_each(|part| world.read(part));
}

impl World {
    /// Bit 0: signed packets. Bit 1: no session yet, so that packets may bring one. Bit 2: hardly any room. Bit 3: some
    /// names are listed.
    fn new(how: u8) -> World {
        let mut config = NodeConfig::new(1);
        if how & 4 != 0 {
            config = NodeConfig { requests_most: 8, waiters_most: 2, retired_most: 2, ..config };
        }
        let (signs, begins) = (how & 1 != 0, how & 2 == 0);
        let now = Time(1_000_000);
        let node = Node::new(config);
        let mut world =
            World { node, now, signs, requests: vec![], nonces: vec![], epoch: EPOCH, rotation: 0, turn: 0 };
        if begins {
            let enrolment = Enrolment {
                handle: HANDLE,
                incarnation: INCARNATION,
                epoch: EPOCH,
                namespace: 1,
                slots: SLOTS,
                engine: if how & 8 == 0 { Engine::Fission } else { Engine::Hybrid },
                names: Names::new([1, 3, 8].into_iter().filter(|_| how & 8 != 0)).expect("few"),
                lease: 10_000_000,
                grace: 1,
                lifeline: 5,
                shards: 0,
                policy: wayside_wire::Policy::Fair,
                patience: wayside_protocol::OVERTAKEN_MOST,
                secret: signs.then_some(SECRET),
                version: wayside_wire::VERSION,
            };
            world.node.begin(now, now, &enrolment);
        } else {
            world.signs = false;
            world.node.start(now);
        }
        world.look();
        world
    }

    fn step(&mut self, input: &mut Bytes) {
        match input.u8() & 15 {
            0 | 1 => {
                self.now.0 += input.pause();
                self.node.on_tick(self.now);
            }
            2 => {
                let want = self.wish(input);
                let lives = self.node.session().is_some_and(|info| info.lease_end > self.now);
                let asked = self.node.acquire(self.now, want);
                assert!(lives || asked.is_err(), "a session is over when its lease is");
                self.requests.extend(asked.map(|id| id.0));
            }
            3 => {
                let wants: Vec<Acquire> = (0..input.u8() & 7).map(|_| self.wish(input)).collect();
                let mut ids = vec![];
                // Who has no session, or no room, hears so.
                let _ = self.node.acquire_many(self.now, &wants, &mut ids);
                self.requests.extend(ids.iter().map(|id| id.0));
            }
            4 => {
                let request = self.request(input);
                self.node.release(self.now, request);
            }
            5 => {
                let request = self.request(input);
                self.node.cancel(self.now, request);
            }
            6 => {
                let request = self.request(input);
                self.node.downgrade(self.now, request);
            }
            7 if input.u8() == 7 => self.node.leave(self.now),
            8 => {
                let packet = input.slice();
                self.node.on_packet(self.now, &packet);
            }
            _ => {
                let known = Known {
                    epoch: self.epoch,
                    requests: &self.requests,
                    incarnation: INCARNATION,
                    nonces: &self.nonces,
                };
                let mut packet = packet(input, &known);
                if self.signs {
                    self.sign(input, &mut packet);
                }
                self.node.on_packet(self.now, &packet);
            }
        }
    }

    fn wish(&self, input: &mut Bytes) -> Acquire {
        let (name, how) = (input.u8(), input.u8());
        Acquire {
            name: (name & 15).into(),
            mode: if how & 1 == 0 { Mode::Exclusive } else { Mode::Shared },
            try_: how & 2 != 0,
            priority: Priority::new(name >> 5).unwrap_or_default(),
            deadline: (how & 4 != 0).then(|| Time(self.now.0 + input.pause())),
            port: 20_000 + u16::from(how >> 4),
        }
    }

    fn request(&self, input: &mut Bytes) -> RequestId {
        let back = usize::from(input.u8());
        RequestId(self.requests.iter().rev().nth(back).copied().unwrap_or(back as u64))
    }

    /// As the switch would, mostly; with an epoch of another's, or the next keys.
    fn sign(&mut self, input: &mut Bytes, packet: &mut [u8]) {
        let epoch = u32::from_be_bytes([packet[12], packet[13], packet[14], packet[15]]);
        let rotation = if epoch == self.epoch { self.rotation + u32::from(input.u8() == 1) } else { 0 };
        let period = Period { incarnation: INCARNATION, epoch, rotation };
        SECRET.key(Direction::Down, period).sign(rotation, packet);
    }

    /// What its owner takes after every call.
    fn look(&mut self) {
        while let Some(out) = self.node.transmit() {
            let header = check(out.packet).expect("a node sends packets alone");
            assert!(out.packet.len() <= limits::MAX_PACKET_BYTES);
            if header.service == service::FABRIC && header.kind == kind::fabric::ENROL {
                self.nonces.push(Enrol::read(out.packet, BODY).nonce);
            }
        }
        while let Some(event) = self.node.event() {
            if let Event::Enrolled(info) = event {
                self.epoch = info.epoch;
            }
        }
        if let Some(info) = self.node.session() {
            self.epoch = info.epoch;
        } else {
            assert!(self.node.holds().next().is_none(), "nothing is held without a session");
        }
        self.rotation = self.node.rotation();
        let _ = self.node.next_timer();
        self.turn += 1;
        self.read(self.turn % TURNS);
    }

    /// What can be read, or a part of it: all of it after every call would be most of the work.
    fn read(&self, part: u32) {
        if part < SLOTS {
            let _ = self.node.books(part).map(Iterator::count);
        } else {
            assert!(self.node.holds().count() + self.node.waits().count() <= self.requests.len());
            self.node.queues().count();
        }
    }
}
