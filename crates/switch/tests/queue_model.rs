//! Queues in the switch and at the lock server together, against a plain model: first come, first served, one exclusive
//! holder or any number of shared ones (docs/queue.md, Invariants). On a network that does what it should the same
//! requests hold at every moment. On one that loses, repeats and reorders, holds never conflict, tokens rise, and all
//! are served once it works again.
//!
//! Rules of `dataplane/queue.h` that were left out one at a time, and who noticed: this model (m), `cases` (c),
//! `invariants` (i).
//!
//! | rule | noticed by |
//! | --- | --- |
//! | RELEASE: the cell of its ticket is its request's | m c i |
//! | PUSH: its number is the next one | m c i |
//! | a cell whose node's session is over is over | m c |
//! | PUSH, SETTLE: no order above what was given | c i |
//! | who drains gives no cells | c |
//! | while given and settled differ, only pushes get cells | c i |
//! | settled is raised, never set back | i |
//! | SETTLE: its number is that of the latest push | c |
//! | a request that has a cell gets no other one by a PUSH | c |

mod engine;
mod support;

use std::collections::VecDeque;

use engine::random::Random;
use support::queue::{Client, LockServer, Phase};
use support::{EPOCH, NAMESPACE, enrol, expire, from};
use wayside_protocol::Time;
use wayside_protocol::memory::{Part, SwitchMemory};
use wayside_switch::{Action, QueueConfig, Switch, SwitchConfig};
use wayside_wire::Policy;

const NAME: u64 = 77;
const CLIENTS: u16 = 6;
const SERVER: u16 = 7;
/// Cells: one, fewer than clients, and more.
const SIZES: [u32; 4] = [1, 2, 3, 8];

/// A packet on its way.
enum Flight {
    ToSwitch { source: u16, packet: Vec<u8> },
    ToNode { handle: u16, packet: Vec<u8> },
}

struct World {
    switch: Switch,
    clients: Vec<Client>,
    server: LockServer,
    flights: VecDeque<Flight>,
    /// Tickets: of the latest exclusive hold, and of the latest of all.
    latest: (u64, u64),
    dead: Option<u16>,
}

impl World {
    fn new(cells: u32) -> World {
        let switch = support::switch(1, SERVER).with_queues(QueueConfig { queues: 4, cells: 32, seed: 5 });
        switch.set_lock_server(NAMESPACE, Part::WHOLE, SERVER);
        switch.add_queue(NAMESPACE, NAME, cells, 1).unwrap();
        let clients = (1..=CLIENTS).map(|me| Client::new(me, NAME)).collect();
        let server = LockServer::new(SERVER, NAME);
        World { switch, clients, server, flights: VecDeque::new(), latest: (0, 0), dead: None }
    }

    fn client(&mut self, me: u16) -> &mut Client {
        &mut self.clients[usize::from(me) - 1]
    }

    fn send(&mut self, source: u16, packet: Vec<u8>) {
        self.flights.push_back(Flight::ToSwitch { source, packet });
    }

    /// What the switch makes of a packet is on its way.
    fn at_switch(&mut self, source: u16, mut packet: Vec<u8>) {
        let verdict = self.switch.process(Time(0), &mut packet, from(source));
        packet.truncate(verdict.length);
        let handle = match verdict.action {
            Action::ToSender => source,
            Action::ToNode { handle, .. } => handle,
            _ => return,
        };
        if let Some(other) = verdict.copy {
            let mut copy = packet.clone();
            assert!(self.switch.make_copy(&mut copy));
            self.flights.push_back(Flight::ToNode { handle: other, packet: copy });
        }
        self.flights.push_back(Flight::ToNode { handle, packet });
    }

    fn at_node(&mut self, handle: u16, packet: &[u8]) {
        if self.dead == Some(handle) {
            return;
        }
        if handle == SERVER {
            let packets = self.server.on_packet(packet);
            packets.into_iter().for_each(|packet| self.send(SERVER, packet));
            return;
        }
        let before = self.client(handle).phase;
        let answer = self.client(handle).on_packet(packet);
        self.note_hold(handle, before);
        if let Some(answer) = answer {
            self.send(handle, answer);
        }
    }

    /// S1 and S2, of who has just come to hold.
    fn note_hold(&mut self, handle: u16, before: Phase) {
        let Phase::Holds { ticket, exclusive, .. } = self.client(handle).phase else { return };
        if matches!(before, Phase::Holds { .. }) {
            return;
        }
        for other in self.clients.iter().filter(|other| other.me != handle && self.dead != Some(other.me)) {
            if let Phase::Holds { exclusive: its, .. } = other.phase {
                assert!(!exclusive && !its, "S1: {handle} and {} hold", other.me);
            }
        }
        let above = if exclusive { self.latest.1 } else { self.latest.0 };
        assert!(ticket > above, "S2: ticket {ticket} after {above}");
        self.latest.1 = self.latest.1.max(ticket);
        if exclusive {
            self.latest.0 = ticket;
        }
    }

    fn arrive(&mut self, flight: Flight) {
        match flight {
            Flight::ToSwitch { source, packet } => self.at_switch(source, packet),
            Flight::ToNode { handle, packet } => self.at_node(handle, &packet),
        }
    }

    /// In order, until nothing is on its way and what the lock server repeats changes nothing. On the way nobody holds
    /// who is not to hold in the end.
    fn settle(&mut self, model: &Model) {
        let to_hold = model.holders();
        loop {
            self.deliver_all(&to_hold);
            let before = self.switch.queue(NAMESPACE, NAME);
            let packets = self.server.again();
            packets.into_iter().for_each(|packet| self.send(SERVER, packet));
            self.deliver_all(&to_hold);
            if self.switch.queue(NAMESPACE, NAME) == before {
                return;
            }
        }
    }

    fn deliver_all(&mut self, to_hold: &[u16]) {
        while let Some(flight) = self.flights.pop_front() {
            self.arrive(flight);
            let early = self.holders().into_iter().find(|holder| !to_hold.contains(holder));
            assert_eq!(early, None, "holds before its turn: {to_hold:?}, {:?}", self.switch.queue(NAMESPACE, NAME));
        }
    }

    fn holders(&self) -> Vec<u16> {
        let holds = |client: &&Client| matches!(client.phase, Phase::Holds { .. });
        self.clients.iter().filter(holds).map(|client| client.me).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Waits,
    Holds,
    Over,
}

/// A queue as one would draw it: so many cells, each of which is free once all before it are over, and a line outside.
#[derive(Debug)]
struct Model {
    size: usize,
    /// Who, exclusively or not, and whether it holds.
    cells: VecDeque<(u16, bool, Place)>,
    outside: VecDeque<(u16, bool)>,
}

impl Model {
    fn acquire(&mut self, client: u16, exclusive: bool) {
        self.outside.push_back((client, exclusive));
        self.go_on();
    }

    fn end(&mut self, client: u16) {
        self.outside.retain(|(other, _)| *other != client);
        let cell = self.cells.iter_mut().find(|(other, _, place)| *other == client && *place != Place::Over);
        if let Some((_, _, place)) = cell {
            *place = Place::Over;
        }
        self.go_on();
    }

    fn go_on(&mut self) {
        loop {
            while self.cells.front().is_some_and(|(.., place)| *place == Place::Over) {
                self.cells.pop_front();
            }
            if self.cells.len() == self.size {
                break;
            }
            let Some((client, exclusive)) = self.outside.pop_front() else { break };
            self.cells.push_back((client, exclusive, Place::Waits));
        }
        let mut before: Vec<bool> = Vec::new();
        for (_, exclusive, place) in self.cells.iter_mut().filter(|(.., place)| *place != Place::Over) {
            if !before.is_empty() && (*exclusive || before.contains(&true)) {
                return;
            }
            *place = Place::Holds;
            before.push(*exclusive);
        }
    }

    fn holders(&self) -> Vec<u16> {
        let holders = self.cells.iter().filter(|(.., place)| *place == Place::Holds);
        let mut holders: Vec<u16> = holders.map(|(client, ..)| *client).collect();
        holders.sort_unstable();
        holders
    }
}

#[test]
fn the_same_hold_as_in_a_plain_queue() {
    let mut counted = [0; 3];
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let size = random.pick(&SIZES);
        let mut world = World::new(size);
        let mut model = Model { size: size as usize, cells: VecDeque::new(), outside: VecDeque::new() };
        for step in 0..300 {
            let me = 1 + random.below(CLIENTS.into()) as u16;
            match world.client(me).phase {
                Phase::Idle => {
                    let exclusive = random.once_in(2);
                    let packet = world.client(me).acquire(exclusive);
                    model.acquire(me, exclusive);
                    world.send(me, packet);
                }
                Phase::Holds { .. } => {
                    let packet = world.client(me).end();
                    model.end(me);
                    world.send(me, packet);
                }
                Phase::Waits { .. } if random.once_in(4) => {
                    let packet = world.client(me).end();
                    model.end(me);
                    world.send(me, packet);
                }
                _ => continue,
            }
            world.settle(&model);
            assert_eq!(
                world.holders(),
                model.holders(),
                "seed {seed}, step {step}: {model:?}, {:?}",
                world.switch.queue(1, NAME)
            );
            assert!(world.clients.iter().all(|client| !matches!(client.phase, Phase::Ends { .. })), "seed {seed}");
        }
        assert_eq!(world.clients.iter().map(|client| client.given_back).sum::<u64>(), 0, "nothing is granted in vain");
        let names = ["queue_granted", "queue_overflowed", "queue_pushed"];
        counted.iter_mut().zip(names).for_each(|(count, name)| *count += world.switch.counter(name));
    }
    assert!(counted.iter().all(|count| *count > 2_000), "granted, overflowed, pushed: {counted:?}");
}

/// Steps with faults, and those after which everything must have been served.
const FAULTY: u64 = 3_000;
const HEALED: u64 = 60_000;

/// What may happen next: a packet arrives, or is lost, or stays and arrives as well; somebody repeats, or wants
/// something.
fn step(world: &mut World, random: &mut Random, faults: bool) {
    let me = 1 + random.below(CLIENTS.into()) as u16;
    match random.below(20) {
        0 => {
            let packets = world.server.again();
            packets.into_iter().for_each(|packet| world.send(SERVER, packet));
        }
        _ if world.dead == Some(me) => {}
        1 | 2 => {
            if let Some(packet) = world.client(me).again() {
                world.send(me, packet);
            }
        }
        3 | 4 => match world.client(me).phase {
            Phase::Idle if faults => {
                let packet = world.client(me).acquire(random.once_in(2));
                world.send(me, packet);
            }
            Phase::Holds { .. } => {
                let packet = world.client(me).end();
                world.send(me, packet);
            }
            Phase::Waits { .. } if faults && random.once_in(10) => {
                let packet = world.client(me).end();
                world.send(me, packet);
            }
            _ => {}
        },
        _ if world.flights.is_empty() => {}
        fate => {
            let at = if random.once_in(3) { random.below(world.flights.len() as u64) as usize } else { 0 };
            let flight = world.flights.remove(at).expect("just picked");
            if faults && fate == 5 {
                return;
            }
            if faults && fate == 6 {
                world.flights.push_back(match &flight {
                    Flight::ToSwitch { source, packet } => Flight::ToSwitch { source: *source, packet: packet.clone() },
                    Flight::ToNode { handle, packet } => Flight::ToNode { handle: *handle, packet: packet.clone() },
                });
            }
            world.arrive(flight);
        }
    }
}

#[test]
fn nothing_conflicts_and_all_are_served_whatever_the_network_does() {
    let names =
        ["queue_granted", "queue_granted_again", "queue_overflowed", "queue_pushed", "queue_released", "copied"];
    let mut counted = [0; 6];
    let mut given_back = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut world = World::new(random.pick(&SIZES));
        let dies = random.below(2 * FAULTY);
        for at in 0..FAULTY {
            step(&mut world, &mut random, true);
            if at == dies {
                world.dead = Some(1 + random.below(CLIENTS.into()) as u16);
                expire(&world.switch, world.dead.expect("just chosen"));
            }
        }
        let dead = world.dead;
        let is_done = |client: &Client| client.phase == Phase::Idle || dead == Some(client.me);
        for _ in 0..HEALED {
            if world.clients.iter().all(is_done) {
                break;
            }
            step(&mut world, &mut random, false);
        }
        let phases: Vec<Phase> = world.clients.iter().map(|client| client.phase).collect();
        assert!(world.clients.iter().all(is_done), "L1, seed {seed}: {phases:?}, {:?}", world.switch.queue(1, NAME));
        given_back += world.clients.iter().map(|client| client.given_back).sum::<u64>();
        counted.iter_mut().zip(names).for_each(|(count, name)| *count += world.switch.counter(name));
    }
    assert!(counted.iter().all(|count| *count > 1_000) && given_back > 100, "{counted:?} {given_back}");
}

/// Two steps for each, and all in one packet: nobody else may come to take the next ones.
#[test]
fn a_release_passes_all_cells_of_sessions_that_are_over() {
    const CELLS: u16 = 1024; // WS_MAX_CELLS
    let switch = Switch::new(SwitchConfig { slots: 1, max_handle: CELLS });
    let switch = switch.with_queues(QueueConfig { queues: 1, cells: CELLS.into(), seed: 5 });
    switch.add_namespace(NAMESPACE, 1, Policy::Fair).unwrap();
    switch.set_epoch(EPOCH);
    switch.set_serving(true);
    switch.add_queue(NAMESPACE, NAME, CELLS.into(), 1).unwrap();
    let ask = |me: u16| {
        enrol(&switch, me, NAMESPACE);
        let mut client = Client::new(me, NAME);
        let mut packet = client.acquire(true);
        assert_eq!(switch.process(Time(0), &mut packet, from(me)).action, Action::ToSender, "there is room");
        client.on_packet(&packet);
        client
    };
    let mut holder = ask(1);
    (2..=CELLS).for_each(|me| assert!(matches!(ask(me).phase, Phase::Waits { .. })));
    (2..CELLS).for_each(|me| expire(&switch, me));
    let released = switch.process(Time(0), &mut holder.end(), from(1));
    assert!(matches!(released.action, Action::ToNode { handle: CELLS, .. }), "{released:?}");
}
