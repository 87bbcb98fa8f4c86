//! The world: one switch, its controller, hosts with processes, a network, and one queue of events in the order of a
//! virtual time. Nothing here reads a clock, a file or a random source: a seed decides everything.
//!
//! ```text
//!   SAFETY: load and faults, until enough packets and a switch restart ──► HEALED: load without faults
//!     ──► CALM: nobody asks for anything new, whoever holds gives back ──► checked: nobody waits, all slots UNHELD
//! ```

mod books;
mod mishaps;
mod processes;
mod secrets;
mod tasks;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddrV4;

use wayside_protocol::controller::{Config, Controller, Namespace, Notice};
use wayside_protocol::memory::{SlotWord, SwitchMemory};
use wayside_protocol::seal::Enrolment;
use wayside_protocol::{Booked, NodeConfig};
use wayside_switch::Action;
use wayside_wire::{Policy, SlotState, mix};

use crate::Options;
use crate::apps::Habits;
use crate::chart;
use crate::checker::{Checker, Process};
use crate::clock::Clock;
use crate::dice::Dice;
use crate::faults::Faults;
use crate::host::Host;
use crate::network::{Flight, Network, Way};
use crate::report::{Counts, Outcome};
use crate::switch::{Disk, NAMESPACE, SharedSwitch};
use secrets::{Asking, destination_of, secret, source_of};

/// Packets that a run needs at least.
const PACKETS: u64 = 10_000;
/// Locks that its applications ask for at least.
const OPERATIONS: u64 = 100;
/// A run that has not got so far by then never will. World time.
const LONGEST_SAFETY: u64 = 300_000_000;
/// Load after the network healed. World time.
const HEALED_LOAD: u64 = 300_000;

enum Happening {
    Arrival(Flight),
    Timer(usize),
    Controller,
    /// A task of a process wakes up: process, task, alarm.
    Alarm(Process, usize, u64),
    Resume(usize),
    Start(usize),
    /// A process asks for a session over a secure connection.
    Ask(Asking),
    /// What it is answered there.
    Told(Asking, Enrolment),
    ControllerStart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Safety,
    Healed,
    Calm,
}

/// See the module's documentation.
pub struct World {
    options: Options,
    dice: Dice,
    now: u64,
    phase: Phase,
    /// Sleeping happenings: time, order of planning, place in `happenings`.
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    happenings: Vec<Option<Happening>>,
    vacant: Vec<usize>,
    planned: u64,
    faults: Faults,
    habits: Habits,
    lease: u64,
    /// Packets are signed.
    authenticated: bool,
    node: NodeConfig,
    config: Config,
    switch: SharedSwitch,
    disk: Disk,
    controller: Option<Controller<SharedSwitch, Disk>>,
    controller_clock: Clock,
    controller_timer: Option<u64>,
    hosts: Vec<Host>,
    network: Network,
    checker: Checker,
    /// Who stood in the books that are looked at; used again.
    booked: Vec<Booked>,
    out: Outcome,
    hash: u64,
    calm_by: u64,
}

impl World {
    /// Everything that the seed decides beforehand.
    pub fn new(seed: u64, options: Options) -> World {
        let mut dice = Dice::new(seed);
        let lease = dice.magnitude(30_000, 400_000);
        let mut faults = Faults::draw(&mut dice, lease).concentrate(&mut dice, lease);
        // Every other seed's.
        let authenticated = seed % 2 == 1;
        if authenticated {
            faults = faults.with_attacker(&mut dice);
        }
        let mut habits = Habits::draw(&mut dice);
        if (1..1_000).contains(&faults.partition_every) {
            // Who is cut off so often should have something to lose.
            habits.stuck = habits.stuck.max(15);
        }
        let hosts = dice.between(2, 7) as usize;
        let node = NodeConfig {
            retransmit_us: dice.between(500, 5_000),
            retransmit_most_us: dice.between(10_000, 100_000),
            gap_us: dice.magnitude(200, 50_000),
            mutant: options.mutant,
            ..NodeConfig::new(0)
        };
        let config = Config {
            namespaces: vec![Namespace {
                id: NAMESPACE,
                name: "default".to_string(),
                policy: Policy::Fair,
                lease: lease as u32,
            }],
            drift_ppm: faults.drift_ppm,
            poll_period: dice.between(1_000, 10_000),
            retransmit: dice.between(5_000, 50_000),
            secret: dice.any(),
            root: authenticated.then(|| secret(&mut dice)),
            rotation_period: if authenticated { dice.between(50_000, 600_000) } else { 0 },
            mutant: options.mutant,
            ..Config::default()
        };
        let switch = SharedSwitch::new(habits.slots, 4_096, authenticated);
        World {
            controller_clock: clock(&mut dice, &faults),
            options,
            now: 0,
            phase: Phase::Safety,
            queue: BinaryHeap::new(),
            happenings: Vec::new(),
            vacant: Vec::new(),
            planned: 0,
            faults,
            habits,
            lease,
            authenticated,
            node,
            config,
            switch,
            disk: Disk::default(),
            controller: None,
            controller_timer: None,
            hosts: (0..hosts).map(Host::new).collect(),
            network: Network::new(hosts),
            checker: Checker::default(),
            booked: Vec::new(),
            out: Outcome { seed, ..Outcome::default() },
            hash: seed,
            calm_by: u64::MAX,
            dice,
        }
    }

    /// Lives through all phases.
    pub fn run(mut self) -> Outcome {
        self.chart(|world| format!("{:?}\n{:?}", world.faults, world.habits));
        self.start_controller();
        self.age_slots();
        for host in 0..self.hosts.len() {
            self.start_process(host);
        }
        while self.checker.failure().is_none() {
            let Some(Reverse((at, _, place))) = self.queue.pop() else { break };
            self.now = at;
            let happening = self.happenings[place].take().expect("planned once, happens once");
            self.vacant.push(place);
            self.happen(happening);
            if self.is_over() {
                break;
            }
        }
        self.conclude()
    }

    /// Moves on to the next phase when it is time. True at the end of the last.
    fn is_over(&mut self) -> bool {
        match self.phase {
            Phase::Safety => {
                let restarts = self.out.faults.get("switch restart").copied().unwrap_or(0);
                let enough = self.network.packets >= PACKETS && self.out.operations >= OPERATIONS && restarts > 0;
                if enough || self.now > LONGEST_SAFETY {
                    self.heal();
                }
                false
            }
            Phase::Healed => {
                if self.now > self.calm_by {
                    self.phase = Phase::Calm;
                    self.calm_by = self.now + self.patience();
                    self.chart(|_| "---- calm ----".to_string());
                }
                false
            }
            Phase::Calm => self.now > self.calm_by || self.is_calm(),
        }
    }

    /// Lease + grace, a switch's whole recovery, and retransmissions of everybody who waits in the longest queue.
    fn patience(&self) -> u64 {
        let holders = self.hosts.len() as u64 * self.habits.tasks * 5;
        let turn = self.habits.hold + self.node.retransmit_most_us * 2 + 10 * (self.faults.delay + self.faults.jitter);
        3 * (self.lease + self.grace())
            + 10 * self.config.retransmit
            + 40 * self.config.retransmit
            + holders * turn
            + 1_000_000
    }

    fn grace(&self) -> u64 {
        let drift = u64::from(self.faults.drift_ppm);
        self.lease * 2 * drift / (1_000_000 - drift) + self.config.poll_period
    }

    fn is_calm(&self) -> bool {
        self.checker.waits() == 0
            && self.hosts.iter().all(|host| host.running.as_ref().is_some_and(|running| running.node.is_idle()))
            && self.held_slots().next().is_none()
            && self.switch.serving()
    }

    fn held_slots(&self) -> impl Iterator<Item = (u32, SlotWord)> + '_ {
        (0..self.switch.slots())
            .map(|slot| (slot, self.switch.load_slot(NAMESPACE, slot)))
            .filter(|(_, word)| word.state != SlotState::Unheld)
    }

    fn conclude(mut self) -> Outcome {
        if self.checker.failure().is_none() {
            self.checker.nobody_waits(self.now);
            let held = self.held_slots().next();
            if let Some((slot, word)) = held {
                let story = format!("slot {slot} is {word:?} though nobody wants it");
                self.checker.fail("L2", self.now, story);
            }
            let restarts = self.out.faults.get("switch restart").copied().unwrap_or(0);
            if self.network.packets < PACKETS || restarts == 0 || self.out.operations < OPERATIONS {
                let (packets, operations) = (self.network.packets, self.out.operations);
                let story = format!("{packets} packets, {operations} operations, {restarts} switch restarts");
                self.checker.fail("vacuous", self.now, story);
            }
        }
        if self.checker.failure().is_some() {
            self.chart(World::state);
        }
        self.switch.collect(&mut self.out.verdicts);
        Outcome {
            trace_hash: self.hash,
            packets: self.network.packets,
            duration: self.now,
            failure: self.checker.failure().cloned(),
            ..self.out
        }
    }

    /// What everybody knows, for the end of a chart.
    fn state(&self) -> String {
        let mut text = String::from("in the end");
        for (slot, word) in self.held_slots() {
            text += &format!("\nslot {slot}: {word:?}");
        }
        for host in &self.hosts {
            let node = host.running.as_ref().map(|running| &running.node);
            text += &format!("\n{:?}: {node:#?}", host.process());
        }
        text
    }

    // ---- events ----

    fn plan(&mut self, at: u64, happening: Happening) {
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.happenings.push(None);
            self.happenings.len() - 1
        });
        self.happenings[place] = Some(happening);
        self.planned += 1;
        self.queue.push(Reverse((at.max(self.now), self.planned, place)));
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrival(flight) => self.arrive(flight),
            Happening::Timer(host) => self.ring(host),
            Happening::Controller => self.tick_controller(),
            Happening::Alarm(process, task, alarm) => self.wake(process, task, alarm),
            Happening::Resume(host) => self.resume(host),
            Happening::Start(host) => self.start_process(host),
            Happening::Ask(asking) => self.ask(asking),
            Happening::Told(asking, enrolment) => self.told(asking, &enrolment),
            Happening::ControllerStart => self.start_controller(),
        }
    }

    fn count(&mut self, name: &'static str) {
        count(&mut self.out.outcomes, name);
    }

    fn fault(&mut self, name: &'static str) {
        count(&mut self.out.faults, name);
    }

    fn chart(&self, line: impl FnOnce(&World) -> String) {
        if self.options.chart {
            use std::io::Write;
            // A reader that has seen enough closes the pipe: no reason to stop.
            let _ = writeln!(std::io::stdout(), "{:>12.6} {}", self.now as f64 / 1e6, line(self));
        }
    }

    fn trace(&mut self, what: u64, bytes: &[u8]) {
        self.hash = mix(self.hash ^ self.now ^ what << 48);
        for word in bytes.chunks(8) {
            let mut number = [0; 8];
            number[..word.len()].copy_from_slice(word);
            self.hash = mix(self.hash ^ u64::from_le_bytes(number));
        }
    }

    // ---- packets ----

    fn send(&mut self, flight: Flight) {
        let World { network, faults, dice, out, now, .. } = self;
        let mut arrivals = Vec::new();
        network.send(*now, flight, faults, dice, &mut out.faults, |at, flight| arrivals.push((at, flight)));
        for (at, flight) in arrivals {
            self.plan(at, Happening::Arrival(flight));
        }
    }

    fn arrive(&mut self, flight: Flight) {
        self.draw_faults();
        self.trace(flight.way as u64, &flight.packet);
        match flight.way {
            Way::Up => self.at_switch(flight),
            Way::Down => self.at_host(flight),
        }
    }

    fn at_switch(&mut self, flight: Flight) {
        let Flight { socket, mut packet, is_tampered, .. } = flight;
        self.chart(|_| format!("{:>9} > switch   {}", chart::place(socket), chart::packet(&packet)));
        #[cfg(feature = "mutants")]
        if let Some(mutant) = self.options.core.filter(|mutant| !is_tampered || *mutant == crate::CoreMutant::AnyTag) {
            crate::tamper::fulfil(mutant, &self.switch, &self.disk, &mut packet);
        }
        let source = source_of(&packet);
        let now = self.controller_clock.at(self.now);
        let verdict = self.switch.with(|switch| switch.process(now, &mut packet, socket));
        if verdict.action == Action::Drop {
            return self.chart(|_| format!("{:>9}            dropped: {}", "", verdict.reason.name()));
        }
        if is_tampered && self.authenticated {
            self.believed(format!("the switch believes {}", chart::packet(&packet)));
        }
        packet.truncate(verdict.length);
        if let Some(agent) = verdict.copy {
            if self.dice.chance(self.faults.copy_loss) {
                self.fault("join lost");
            } else {
                let mut join = packet.clone();
                if self.switch.with(|switch| switch.make_join(&mut join)) {
                    #[cfg(feature = "mutants")]
                    if self.options.core == Some(crate::CoreMutant::CopyForHolder) {
                        crate::tamper::sign_for_holder(&self.switch, &self.disk, &mut join);
                    }
                    self.check_signed(agent, &join);
                    self.send_to_node(agent, 0, join);
                }
            }
        }
        match verdict.action {
            Action::Drop => {}
            Action::ToSender => {
                self.check_signed(source, &packet);
                self.send_down(socket, packet);
            }
            Action::ToNode { handle, port } => {
                self.check_signed(handle, &packet);
                self.send_to_node(handle, port, packet);
            }
            Action::ToController => self.at_controller(socket, &packet),
        }
    }

    fn send_to_node(&mut self, handle: u16, port: u16, packet: Vec<u8>) {
        if let Some(address) = self.switch.with(|switch| switch.address(handle, port)) {
            self.send_down(address, packet);
        }
    }

    fn send_down(&mut self, socket: SocketAddrV4, packet: Vec<u8>) {
        self.send(Flight::new(Host::of(socket), Way::Down, socket, packet));
    }

    fn at_host(&mut self, flight: Flight) {
        let index = flight.host;
        self.chart(|_| format!("   switch > {:<8} {}", chart::place(flight.socket), chart::packet(&flight.packet)));
        let host = &mut self.hosts[index];
        if host.stopped_until.is_some() {
            return host.keep(flight);
        }
        if host.running.is_some() {
            self.deliver(index, &flight);
            self.settle(index);
        }
    }

    // ---- the controller ----

    fn start_controller(&mut self) {
        let made = Controller::new(self.config.clone(), self.switch.clone(), self.disk.clone());
        self.controller = Some(made.expect("what a controller wrote another can read"));
        self.controller_clock = clock(&mut self.dice, &self.faults);
        self.controller_timer = None;
        self.tick_controller_now();
    }

    fn tick_controller(&mut self) {
        if self.controller_timer == Some(self.now) {
            self.controller_timer = None;
            self.tick_controller_now();
        }
    }

    fn tick_controller_now(&mut self) {
        let now = self.controller_clock.at(self.now);
        if let Some(controller) = &mut self.controller {
            controller.on_tick(now);
            self.settle_controller();
        }
    }

    fn at_controller(&mut self, from: SocketAddrV4, packet: &[u8]) {
        let now = self.controller_clock.at(self.now);
        if let Some(controller) = &mut self.controller {
            controller.on_packet(now, from, packet);
            self.settle_controller();
        }
    }

    /// Sends what the controller says, and sets its timer.
    fn settle_controller(&mut self) {
        while let Some((address, packet)) = self.controller.as_mut().and_then(Controller::transmit) {
            self.check_signed(destination_of(&packet), &packet);
            self.send_down(address, packet);
        }
        while let Some(notice) = self.controller.as_mut().and_then(Controller::notice) {
            self.chart(|_| format!("controller: {notice:?}"));
            match notice {
                Notice::EpochRaised(_) => self.count("epoch raised"),
                Notice::Serving(_) => self.count("serving"),
                Notice::Enrolled(_) => self.count("enrolled"),
                Notice::Ended(..) => self.count("session ended"),
                Notice::Rotated(handle) => self.on_rotated(handle),
                Notice::CutOff(_) => self.count("cut off"),
                Notice::Frozen(..) => self.count("slot frozen"),
                Notice::Recovered(_, _, Some(_)) => self.count("slot adopted"),
                Notice::Recovered(_, _, None) => self.count("slot recovered unheld"),
                Notice::StoreFailed(_) => self.count("store failed"),
                Notice::Promoted => self.count("promoted"),
                Notice::Demoted => self.count("demoted"),
            }
        }
        let timer = self.controller.as_ref().and_then(|c| self.controller_clock.world(c.next_timer()));
        if let Some(at) = timer.map(|at| at.max(self.now)).filter(|at| self.controller_timer.is_none_or(|t| *at < t)) {
            self.controller_timer = Some(at);
            self.plan(at, Happening::Controller);
        }
    }
}

fn count(counts: &mut Counts, name: &'static str) {
    *counts.entry(name).or_default() += 1;
}

/// A clock that is as wrong as it may be at most.
fn clock(dice: &mut Dice, faults: &Faults) -> Clock {
    let bound = i64::from(faults.drift_ppm);
    let ppm = match dice.below(3) {
        0 => bound,
        1 => -bound,
        _ => dice.below(2 * bound as u64 + 1) as i64 - bound,
    };
    Clock::new(dice.below(1 << 40), ppm)
}
