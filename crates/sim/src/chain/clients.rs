//! The clients of a world of chains: nodes with tasks that read and write a few keys, each one after the other.

use std::collections::BTreeMap;

use wayside_protocol::chain::{Answer, Ask, Condition, Ended, Key, Told, Value, Version, Wish};
use wayside_protocol::memory::{NodeEntry, NodeWord, SwitchMemory};
use wayside_protocol::seal::{Enrolment, Secret};
use wayside_protocol::{Event, NodeConfig, RequestId};
use wayside_wire::{Engine, Header, NodeState, kind, limits, padded};

use super::checker::Op;
use super::watchers::Watcher;
use super::{BOOT, Happening, SPACE, World};
use crate::dice::Dice;
use crate::host::{Host, Process};
use crate::network::Flight;
use crate::schedule::Kind;
use crate::world::Phase;

/// The tasks of a client's process.
#[derive(Default)]
pub struct Crew {
    tasks: Vec<Task>,
    /// Which task waits for a request.
    askers: BTreeMap<RequestId, usize>,
    /// Requests that change something, of all processes that this client ever had.
    writes: std::collections::BTreeSet<Op>,
    /// Nobody is there, and somebody will be.
    is_gone: bool,
    pub(super) watchers: Vec<Watcher>,
    /// What watchers read once more: which watcher, and which key.
    pub(super) reads: BTreeMap<RequestId, (usize, u64)>,
}

#[derive(Clone, Copy, Default)]
struct Task {
    /// Which key it asked for, and when.
    asked: Option<(RequestId, u64, u64)>,
    /// It waits for no answer: there may be none.
    is_limited: bool,
    /// What it was last answered, and of which key.
    known: Option<(u64, Answer)>,
}

/// Purposes of dice.
const NODES: u64 = 43;
const PAUSES: u64 = 44;
/// As long as a session lasts that nobody ends, in microseconds.
const LEASE: u32 = u32::MAX;

impl Crew {
    pub(super) fn is_calm(&self) -> bool {
        !self.is_gone && self.waiting().is_none() && self.askers.is_empty() && self.reads.is_empty()
    }

    /// A request that waits for its answer, and since when.
    pub(super) fn waiting(&self) -> Option<(u64, u64)> {
        let asked = self.tasks.iter().filter(|task| !task.is_limited).filter_map(|task| task.asked);
        asked.map(|(RequestId(request), _, since)| (request, since)).next()
    }

    /// Whether a request is one that changes something.
    pub(super) fn writes(&self, op: Op) -> bool {
        self.writes.contains(&op)
    }
}

impl World {
    pub(super) fn name(index: u64) -> String {
        format!("key {index}")
    }

    pub(super) fn key(index: u64) -> Key {
        Key::of(SPACE.1.as_bytes(), World::name(index).as_bytes()).expect("a short name")
    }

    /// A process begins, with a session that every switch knows.
    pub(super) fn start_client(&mut self, client: usize) {
        let generation = self.hosts[client].generation;
        let incarnation = self.setup.incarnation + u64::from(generation);
        let secret = self.session_secret(client, incarnation);
        let handle = self.handle_of_client(client);
        let clock = self.new_clock();
        let seed = Dice::of(self.seed, &[NODES, client as u64, generation.into()]).any();
        let namespace = padded(SPACE.1).expect("short, and without zeros");
        let config = NodeConfig { seed, namespace, first_request: self.setup.first_request, ..self.setup.node.clone() };
        let now = self.now;
        self.hosts[client].start(config, false, false, clock, now);
        self.install_session(client);
        let host = &mut self.hosts[client];
        let running = host.running.as_mut().expect("it was just started");
        let enrolment = Enrolment {
            handle,
            incarnation,
            epoch: BOOT,
            namespace: SPACE.0,
            slots: 1,
            engine: Engine::Fission,
            names: wayside_protocol::Names::default(),
            lease: LEASE,
            grace: 0,
            lifeline: 0,
            shards: 0,
            policy: wayside_wire::Policy::Fair,
            patience: wayside_protocol::OVERTAKEN_MOST,
            secret: self.setup.authenticated.then_some(secret),
            version: wayside_wire::VERSION,
        };
        let time = running.clock.at(now);
        running.node.begin(time, time, &enrolment);
        self.crews[client].is_gone = false;
        self.crews[client].tasks = vec![Task::default(); self.setup.tasks];
        self.note(|_| format!(" c{client}: a process starts"));
        self.settle(client);
        for task in 0..self.setup.tasks {
            self.pause_task(client, task);
        }
        self.begin_watching(client);
    }

    pub(super) fn session_secret(&self, client: usize, incarnation: u64) -> Secret {
        self.secret(1_000 + client as u64, incarnation)
    }

    /// Every switch knows a client's session, and the one before is over.
    fn install_session(&mut self, client: usize) {
        for seat in 0..self.seats.len() {
            self.install_session_at(seat, client);
            // Its daemon has heard of it.
            self.obey(seat);
        }
    }

    /// A switch knows the session of a client's latest process.
    pub(super) fn install_session_at(&self, seat: usize, client: usize) {
        let incarnation = self.setup.incarnation + u64::from(self.hosts[client].generation) - 1;
        let handle = self.handle_of_client(client);
        let keys = self.session_secret(client, incarnation).keys(World::period(incarnation));
        let switch = &self.seats[seat].switch;
        let word = switch.node_word(handle);
        switch.cas_node_word(handle, word, NodeWord { state: NodeState::Expired, ..word });
        if incarnation > self.setup.incarnation {
            switch.session_over(handle, Some(incarnation - 1));
        }
        switch.set_keys(handle, self.setup.authenticated.then_some(&keys));
        let address = Host::socket(client, 0);
        switch.set_node(handle, &NodeEntry { address, namespace: SPACE.0, incarnation });
    }

    /// A packet arrives at a client.
    pub(super) fn at_client(&mut self, flight: Flight) {
        self.note(|world| world.tell(&flight));
        let client = flight.host;
        if self.hosts[client].stopped_until.is_some() {
            return self.hosts[client].keep(flight);
        }
        self.deliver(&flight);
    }

    fn deliver(&mut self, flight: &Flight) {
        let (client, now) = (flight.host, self.now);
        let Some(running) = &mut self.hosts[client].running else { return };
        let time = running.time(now);
        let dropped = running.node.dropped();
        let is_event = Header::read(&flight.packet).is_ok_and(|header| header.kind == kind::chain::EVENT);
        running.node.on_packet(time, &flight.packet);
        if flight.is_tampered && self.setup.authenticated && running.node.dropped() == dropped {
            self.fail("A1", format!("client {client} believes {}", crate::story::packet(&flight.packet)));
        }
        if is_event && !flight.is_tampered {
            self.note_teller(client, flight.seat, &flight.packet);
        }
        self.settle(client);
    }

    /// A client's timer rings.
    pub(super) fn ring(&mut self, client: usize) {
        let now = self.now;
        let host = &mut self.hosts[client];
        let Some(running) = host.running.as_mut().filter(|running| running.timer == Some(now)) else { return };
        running.timer = None;
        if let Some(until) = host.stopped_until {
            return self.plan(until + 1, Happening::Resume(client));
        }
        let time = running.time(now);
        running.node.on_tick(time);
        self.settle(client);
    }

    /// A stopped client goes on with what has come meanwhile.
    pub(super) fn resume_client(&mut self, client: usize) {
        if self.hosts[client].stopped_until.is_none_or(|until| until > self.now) {
            return;
        }
        self.hosts[client].stopped_until = None;
        self.note(|_| format!(" c{client}: goes on"));
        for flight in std::mem::take(&mut self.hosts[client].inbox) {
            self.deliver(&flight);
        }
        let now = self.now;
        if let Some(running) = &mut self.hosts[client].running {
            let time = running.time(now);
            running.node.on_tick(time);
        }
        self.settle(client);
    }

    /// Sends what a node has to say, hears what it has to tell, and sets its timer.
    pub(super) fn settle(&mut self, client: usize) {
        let now = self.now;
        loop {
            let Some(running) = &mut self.hosts[client].running else { return };
            if let Some(event) = running.node.event() {
                self.told(client, event);
                continue;
            }
            let Some(transmit) = running.node.transmit() else { break };
            let to = transmit.to.map(|to| to.asked);
            let (port, packet) = (transmit.port, transmit.packet.to_vec());
            // Any switch knows where groups are.
            let home = (client as u64 + self.network.packets) as usize % self.setup.switches;
            let home = Host::socket(self.party(home), 0);
            #[cfg(feature = "mutants")]
            let to = self.strayed(&packet).map(|seat| Host::socket(self.party(seat), 0)).or(to);
            self.send((client, port), to.unwrap_or(home), packet);
        }
        let Some(running) = &mut self.hosts[client].running else { return };
        let at = running.node.next_timer().and_then(|at| running.clock.world(at)).map(|at| at.max(now));
        if let Some(at) = at.filter(|at| running.timer.is_none_or(|timer| *at < timer)) {
            running.timer = Some(at);
            self.plan(at, Happening::Timer(client));
        }
    }

    fn told(&mut self, client: usize, event: Event) {
        let (request, told) = match event {
            Event::Chain { request, told } => (request, told),
            Event::Watch(id) => return self.told_watch(client, id),
            _ => return,
        };
        self.note(|_| format!(" c{client}: {:#x} {told:?}", request.0));
        self.trace(3, &request.0.to_le_bytes());
        if let Some((watcher, index)) = self.crews[client].reads.remove(&request) {
            return self.told_read(client, watcher, index, request);
        }
        let Some(&task) = self.crews[client].askers.get(&request) else { return };
        let index = self.crews[client].tasks[task].asked.map_or(0, |(_, index, _)| index);
        match told {
            Told::Answered => return self.answered(client, task, request, index),
            Told::Unnamed => {
                self.outcomes.count("named");
                let now = self.now;
                if let Some(running) = &mut self.hosts[client].running {
                    let time = running.time(now);
                    running.node.name_key(time, request, World::name(index).as_bytes());
                }
                return;
            }
            Told::TimedOut => self.outcomes.count("timed out"),
            Told::Lost => self.outcomes.count("lost"),
        }
        self.end_request(client, task, request);
    }

    fn answered(&mut self, client: usize, task: usize, request: RequestId, index: u64) {
        let Some(running) = &mut self.hosts[client].running else { return };
        let Some(answer) = running.node.take_answer(request) else {
            return self.fail("L1", format!("client {client} is told of an answer that is not there"));
        };
        self.note(|_| format!(" c{client}: {:#x} of key {index}: {answer:?}", request.0));
        self.outcomes.count(match (answer.ended, answer.value.is_some(), answer.is_shown) {
            (Ended::Done, true, _) => "done with a value",
            (Ended::Done, false, _) => "done",
            (Ended::Unmet, _, true) => "unmet",
            (Ended::Unmet, _, false) => "unmet, not shown any more",
            (Ended::Unsure, ..) => "unsure",
            (Ended::Full, ..) => "refused: full",
            (Ended::Collision, ..) => "refused: collision",
            _ => "refused",
        });
        let op = Op { process: self.hosts[client].process(), request: request.0 };
        let key = World::key(index);
        let verdict = self.checker.answered(op, self.group_of(key), &answer);
        self.judge(verdict);
        self.crews[client].tasks[task].known = Some((index, answer));
        self.end_request(client, task, request);
    }

    fn end_request(&mut self, client: usize, task: usize, request: RequestId) {
        let crew = &mut self.crews[client];
        crew.askers.remove(&request);
        crew.tasks[task].asked = None;
        self.pause_task(client, task);
    }

    fn pause_task(&mut self, client: usize, task: usize) {
        self.starts += 1;
        let after = Dice::of(self.seed, &[PAUSES, self.starts]).below(self.setup.think + 1);
        self.plan(self.now + after + 1, Happening::Wake(self.hosts[client].process(), task));
    }

    /// A task goes on: it asks for something, or gives up what it waits for.
    pub(super) fn wake(&mut self, process: Process, task: usize) {
        let client = process.host;
        if self.hosts[client].process() != process || self.hosts[client].running.is_none() {
            return;
        }
        if let Some(until) = self.hosts[client].stopped_until {
            return self.plan(until + 1, Happening::Wake(process, task));
        }
        if let Some((request, ..)) = self.crews[client].tasks[task].asked {
            self.give_up(client, task, request);
        } else if self.phase != Phase::Calm {
            self.ask(client, task);
        }
        self.settle(client);
    }

    fn give_up(&mut self, client: usize, task: usize, request: RequestId) {
        let now = self.now;
        if !self.crews[client].tasks[task].is_limited {
            return;
        }
        self.outcomes.count("given up");
        if let Some(running) = &mut self.hosts[client].running {
            let time = running.time(now);
            running.node.cancel_key(time, request);
        }
        self.end_request(client, task, request);
    }

    fn ask(&mut self, client: usize, task: usize) {
        let Some(mut dice) = self.schedule.happens(self.now, Kind::Ask) else {
            return self.pause_task(client, task);
        };
        let now = self.now;
        let index = dice.below(self.setup.keys);
        let known = self.crews[client].tasks[task].known;
        let wish = self.wish(&mut dice, known.filter(|(of, _)| *of == index).map(|(_, answer)| answer));
        let (times_out, gives_up) = (dice.percent(15), dice.percent(5));
        let patience = dice.magnitude(100, 200_000);
        let Some(running) = &mut self.hosts[client].running else { return };
        let time = running.time(now);
        let deadline = times_out.then(|| time + patience);
        let port = if dice.percent(50) { 0 } else { 9_000 + task as u16 };
        let key = World::key(index);
        let Ok(request) = running.node.ask_key(time, &Ask { key, wish, deadline, port }) else {
            return self.fail("L1", format!("client {client} has no session"));
        };
        self.operations += 1;
        let process = self.hosts[client].process();
        let op = Op { process, request: request.0 };
        self.note(|_| format!(" c{client}: asks as {:#x} of key {index} {wish:?}, until {deadline:?}", request.0));
        self.checker.asked(op, key, wish);
        let crew = &mut self.crews[client];
        if wish != Wish::Read {
            crew.writes.insert(op);
        }
        crew.askers.insert(request, task);
        crew.tasks[task].asked = Some((request, index, now));
        crew.tasks[task].is_limited = times_out || gives_up;
        if gives_up {
            self.plan(now + patience, Happening::Wake(process, task));
        }
    }

    /// What a task wants of a key of which it has been told this.
    fn wish(&mut self, dice: &mut Dice, known: Option<Answer>) -> Wish {
        let condition = match (dice.below(10), known) {
            (0..5, _) => Condition::Always,
            (5, _) => Condition::Absent,
            (6, Some(Answer { value: Some(value), .. })) => {
                let mut word = [0; 8];
                let length = value.bytes().len().min(8);
                word[..length].copy_from_slice(&value.bytes()[..length]);
                Condition::Word(u64::from_be_bytes(word))
            }
            (6, None) => Condition::Word(0),
            (_, Some(answer)) => Condition::Version(answer.version),
            _ => Condition::Version(Version { epoch: 7, sequence: dice.below(8) }),
        };
        match dice.below(10) {
            0..4 => Wish::Read,
            4..9 => {
                let mut bytes = [0; limits::MAX_VALUE_BYTES];
                bytes[..8].copy_from_slice(&(self.operations + 1).to_be_bytes());
                bytes[8..].fill(self.operations as u8);
                let length = if dice.percent(10) { dice.below(8) } else { dice.between(8, 128) };
                let value = Value::new(&bytes[..length as usize]).expect("128 bytes at most");
                if dice.below(100) < self.setup.leases {
                    Wish::Lease(value, condition)
                } else {
                    Wish::Write(value, condition)
                }
            }
            _ => Wish::Delete(condition),
        }
    }

    /// A process dies; another one starts in its place, under the same handle.
    pub(super) fn crash(&mut self, client: usize, dice: &mut Dice) {
        if self.hosts[client].running.take().is_none() {
            return;
        }
        self.faults.count(Kind::Crash.name());
        self.note(|_| format!(" c{client}: crashes"));
        self.hosts[client].stopped_until = None;
        let crew = &mut self.crews[client];
        crew.askers.clear();
        crew.tasks.clear();
        crew.watchers.clear();
        crew.reads.clear();
        crew.is_gone = true;
        let at = self.now + dice.magnitude(1, 200_000);
        self.plan(at, Happening::Start(client));
    }
}
