//! The plan of what lies in the switch, at a real switch's memory: what the controller measures, asks for, and does not
//! do. Whole worlds of it are the simulator's; how it chooses is tested with `controller/plan.rs`.
//!
//! Left out one at a time, these rules fail here: a window counts once; a report is believed of the lock server alone;
//! a rate is of one stay in the switch; what comes waits until what leaves has left its cells; no more moves begin than
//! are allowed; a new epoch forgets what was planned; where all is in its place nothing is moved, and what is not there
//! any more is missed; a lock that is asked for with priorities goes to its server however long it is held, and is not
//! asked back for a while.

mod measured;
mod moves;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use wayside_protocol::Time;
use wayside_protocol::controller::{
    Allocation, Config, Controller, LONGEST_LEASE, Namespace, Notice, PlanView, Record, Room, Store,
};
use wayside_protocol::memory::{Stage, Step, SwitchMemory};
use wayside_switch::{Action, QueueConfig, Switch, SwitchConfig};
use wayside_wire::{
    Attempt, BODY, Engine, Enrol, Entry, Header, Policy, QueueKind, check, header_flag, kind, padded, queue_flag,
    service,
};

const SPACE: u16 = 1;
const SECOND: u64 = 1_000_000;
const TICK: u64 = 10_000;
/// Many of those that were ceded to begin with.
const FIRST: u64 = 1_000;
const EXCLUSIVE: u8 = queue_flag::EXCLUSIVE;

struct Disk;

impl Store for Disk {
    type Error = &'static str;
    fn load(&mut self) -> Result<Vec<Record>, Self::Error> {
        Ok(Vec::new())
    }
    fn commit(&mut self, _: &[Record]) -> Result<(), Self::Error> {
        Ok(())
    }
}

struct Bench {
    switch: Arc<Switch>,
    controller: Controller<Arc<Switch>, Disk>,
    now: Time,
    server: u16,
    window: u64,
}

fn address(host: u8) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), 7600)
}

fn packet(header: Header, bytes: usize, body: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut packet = vec![0; BODY + bytes];
    header.write(&mut packet);
    body(&mut packet);
    packet
}

impl Bench {
    /// A switch with these queues, a namespace that is planned, and a lock server.
    fn new(room: Room, queues: &[(u64, u32)]) -> Bench {
        Bench::of(Allocation::Knapsack, room, queues)
    }

    fn of(allocation: Allocation, room: Room, queues: &[(u64, u32)]) -> Bench {
        let switch = Switch::new(SwitchConfig { slots: 1, max_handle: 16 });
        let switch = switch.with_queues(QueueConfig { queues: 64, cells: 256, seed: 1 });
        switch.add_namespace(SPACE, 1, Policy::Fair).unwrap();
        queues.iter().for_each(|(name, cells)| switch.add_queue(SPACE, *name, *cells, 1).unwrap());
        let namespace = Namespace {
            id: SPACE,
            name: "default".into(),
            policy: Policy::Fair,
            patience: wayside_protocol::OVERTAKEN_MOST,
            engine: Engine::Queue,
            names: wayside_protocol::Names::default(),
            allocation,
            room,
            servers: 1,
            lease: 600 * SECOND as u32,
            longest_lease: LONGEST_LEASE,
        };
        let config = Config { namespaces: vec![namespace], moves_at_once: 2, ..Config::default() };
        let switch = Arc::new(switch);
        let controller = Controller::new(config, Arc::clone(&switch), Disk).unwrap();
        let mut bench = Bench { switch, controller, now: Time(SECOND), server: 0, window: 0 };
        bench.pass(TICK);
        bench.server = bench.enrol(1);
        bench.hear(bench.server, kind::queue::SERVE, Attempt { number: 1, ..Attempt::default() });
        assert_eq!(bench.switch.lock_server(SPACE, 0).handle, bench.server);
        bench.pass(TICK);
        bench
    }

    fn enrol(&mut self, host: u8) -> u16 {
        let header = Header { service: service::FABRIC, kind: kind::fabric::ENROL, ..Header::default() };
        let body = Enrol { nonce: host.into(), namespace_name: padded("default").unwrap(), ..Enrol::default() };
        let packet = packet(header, Enrol::BYTES, |packet| body.write(packet, BODY));
        self.controller.on_packet(self.now, address(host), &packet);
        let enrolled = self.sent().into_iter().find(|(header, _)| header.kind == kind::fabric::ENROLLED);
        enrolled.expect("there is room").0.destination
    }

    fn hear(&mut self, source: u16, kind: u8, attempt: Attempt) {
        let epoch = self.controller.epoch();
        let header = Header { service: service::QUEUE, kind, source, epoch, namespace: SPACE, ..Header::default() };
        let packet = packet(header, QueueKind::Acquire.body().bytes(0), |packet| attempt.write(packet, BODY));
        self.controller.on_packet(self.now, address(1), &packet);
    }

    fn sent(&mut self) -> Vec<(Header, Attempt)> {
        let packets = std::iter::from_fn(|| self.controller.transmit());
        let read = |(_, packet): (SocketAddrV4, Vec<u8>)| {
            let header = check(&packet).expect("a packet");
            let is_attempt = header.service == service::QUEUE;
            (header, if is_attempt { Attempt::read(&packet, BODY) } else { Attempt::default() })
        };
        packets.map(read).collect()
    }

    fn pass(&mut self, micros: u64) {
        let end = self.now + micros;
        while self.now < end {
            self.now = self.now + TICK;
            self.controller.on_tick(self.now);
        }
    }

    /// The lock server's node has nothing to say to the census of a new epoch, and offers itself again.
    fn report(&mut self) {
        let packets: Vec<Vec<u8>> =
            std::iter::from_fn(|| self.controller.transmit()).map(|(_, packet)| packet).collect();
        let is_census = |packet: &&Vec<u8>| {
            let header = check(packet).expect("a packet");
            (header.service, header.kind) == (service::LOCK, kind::lock::CENSUS)
        };
        let asked = Entry::read(packets.iter().find(is_census).expect("a census"), BODY);
        let header = Header {
            service: service::LOCK,
            kind: kind::lock::REPORT,
            flags: header_flag::LAST,
            count: 1,
            source: self.server,
            namespace: SPACE,
            epoch: self.controller.epoch(),
            ..Header::default()
        };
        let packet = packet(header, Entry::BYTES, |packet| asked.write(packet, BODY));
        self.controller.on_packet(self.now, address(1), &packet);
        self.hear(self.server, kind::queue::SERVE, Attempt { number: 1, ..Attempt::default() });
    }

    fn asked(&mut self, source: u16, name: u64, window: u64, requests: u64, most: u16) {
        let body = Attempt { name, number: window, order: requests, over: SECOND, room: most, ..Attempt::default() };
        self.hear(source, kind::queue::ASKED, body);
    }

    /// A second in which the lock server was asked so often for these, by one at a time.
    fn second(&mut self, rates: &[(u64, u64)]) {
        self.window += 1;
        let (server, window) = (self.server, self.window);
        rates.iter().for_each(|(name, rate)| self.asked(server, *name, window, *rate, 1));
        self.pass(SECOND);
    }

    /// The lock server cedes and takes what it is asked to. Names that have come, and that have left.
    fn answer(&mut self) -> (Vec<u64>, Vec<u64>) {
        while self.controller.notice().is_some() {}
        for (header, attempt) in self.sent() {
            let Attempt { name, number, ticket, .. } = attempt;
            let (server, holder) = (self.server, self.server);
            match header.kind {
                kind::queue::RECALL if header.service == service::QUEUE => {
                    let body = Attempt { name, number, ticket: FIRST, holder, ..Attempt::default() };
                    self.hear(server, kind::queue::CEDED, body);
                }
                kind::queue::YIELD if header.service == service::QUEUE => {
                    self.hear(server, kind::queue::TAKEN, Attempt { name, ticket, holder, ..Attempt::default() });
                }
                _ => {}
            }
        }
        let (mut come, mut left) = (vec![], vec![]);
        while let Some(notice) = self.controller.notice() {
            match notice {
                Notice::Moved(SPACE, name, true) => come.push(name),
                Notice::Moved(SPACE, name, false) => left.push(name),
                _ => {}
            }
        }
        (come, left)
    }

    /// Until whatever moves has moved.
    fn settle(&mut self) {
        for _ in 0..6 {
            self.pass(2 * TICK);
            self.answer();
        }
    }

    /// Names of the queues in the switch, and those that are not here.
    fn stages(&self) -> Vec<(u64, Stage)> {
        self.switch.lines(SPACE).into_iter().map(|line| (line.name, line.stage)).collect()
    }

    /// What the controller has said of this kind since it was asked last, and to whom; the rest is forgotten.
    fn said(&mut self, kind: u8) -> Vec<(u16, Attempt)> {
        let said = self.sent().into_iter();
        let said = said.filter(|(header, _)| (header.service, header.kind) == (service::QUEUE, kind));
        said.map(|(header, attempt)| (header.destination, attempt)).collect()
    }

    /// Another node becomes the lock server, which lives no more.
    fn succeed(&mut self, next: u16, can: u64) {
        self.controller.closed(self.now, self.server);
        self.server = next;
        self.hear(next, kind::queue::SERVE, Attempt { number: can, ..Attempt::default() });
        assert_eq!(self.switch.lock_server(SPACE, 0).handle, next);
    }

    fn view(&self) -> PlanView {
        self.controller.plans(self.now).remove(0)
    }

    fn rate(&self, name: u64) -> Option<u64> {
        self.view().locks.into_iter().find(|lock| lock.name == name).map(|lock| lock.rate)
    }
}

const ROOM: Room = Room { cells: 4, most: 2, queues: 64 };

#[test]
fn what_is_asked_for_most_comes_and_makes_room_for_what_is_asked_for_more() {
    let mut bench = Bench::new(ROOM, &[]);
    bench.second(&[(7, 50), (8, 40), (9, 30)]);
    assert_eq!(bench.stages(), [(7, Stage::Awaited), (8, Stage::Awaited)], "for 9 there is no room");
    assert_eq!(bench.answer(), (vec![7, 8], vec![]));
    assert_eq!(bench.stages(), [(7, Stage::Here), (8, Stage::Here)]);
    // Nobody asks for these two any more. 10 is hot; 9 is not known to be.
    for _ in 0..4 {
        bench.second(&[(10, 90)]);
        assert!(bench.view().used <= ROOM.cells, "{:?}", bench.stages());
        bench.settle();
    }
    assert!(bench.stages().contains(&(10, Stage::Here)), "{:?}", bench.view());
    let view = bench.view();
    assert_eq!((view.locks[0].name, view.locks[0].planned), (10, Some(2)));
}

#[test]
fn nothing_moves_before_all_was_measured_for_a_period_and_nothing_for_nothing() {
    let mut bench = Bench::new(ROOM, &[(1, 2), (2, 2)]);
    let (server, window) = (bench.server, 1);
    bench.asked(server, 7, window, 1_000, 1);
    bench.pass(SECOND / 2);
    assert_eq!(bench.stages(), [(1, Stage::Here), (2, Stage::Here)]);
    let mut bench = Bench::new(ROOM, &[(1, 2), (2, 2)]);
    bench.pass(5 * SECOND);
    assert_eq!(bench.stages(), [(1, Stage::Here), (2, Stage::Here)], "nobody needs their cells");
}

#[test]
fn a_window_counts_once_and_only_of_the_lock_server() {
    let mut bench = Bench::new(ROOM, &[]);
    let (server, other) = (bench.server, bench.enrol(2));
    bench.pass(TICK);
    bench.asked(server, 7, 3, 100, 1);
    assert_eq!(bench.rate(7), Some(100_000));
    bench.asked(server, 7, 3, 900, 1);
    bench.asked(server, 7, 2, 900, 1);
    bench.asked(server, 7, 0, 900, 1);
    bench.asked(other, 7, 4, 900, 1);
    assert_eq!(bench.rate(7), Some(100_000), "copies, older ones, and another node's");
    bench.asked(server, 7, 4, 300, 1);
    assert_eq!(bench.rate(7), Some(200_000), "half of it is what was known");
    bench.hear(server, kind::queue::ASKED, Attempt { name: 8, number: 4, order: 5, ..Attempt::default() });
    assert_eq!(bench.rate(8), None, "a window of no length");
}

#[test]
fn no_more_moves_begin_at_a_time_than_are_allowed() {
    let mut bench = Bench::new(Room { cells: 64, ..ROOM }, &[]);
    let all: Vec<(u64, u64)> = (1..=7).map(|name| (name, 100)).collect();
    bench.second(&all);
    for begun in [2, 4, 6, 7] {
        assert_eq!(bench.stages().len(), begun);
        bench.answer();
        bench.pass(2 * TICK);
    }
    // One whose holder stays keeps others from beginning for a while only.
    let mut bench = Bench::new(Room { cells: 64, ..ROOM }, &[]);
    bench.second(&all);
    assert_eq!(bench.stages().len(), 2);
    (0..3).for_each(|_| bench.second(&all));
    assert!(bench.stages().len() > 2, "{:?}", bench.stages());
}

#[test]
fn a_lock_that_needs_more_leaves_and_comes_back() {
    let mut bench = Bench::new(Room { cells: 32, most: 16, queues: 64 }, &[(7, 2)]);
    bench.pass(TICK);
    let server = bench.server;
    // As many as ten wait for it at the lock server.
    for window in 1..6 {
        bench.asked(server, 7, window, 0, 10);
        bench.pass(SECOND);
        bench.settle();
    }
    assert_eq!(bench.switch.lines(SPACE)[0].cells, 16, "{:?}", bench.view());
    assert_eq!(bench.stages(), [(7, Stage::Here)]);
}

/// Tickets of the next stay are far above those of the last.
#[test]
fn a_rate_is_of_one_stay() {
    let mut bench = Bench::new(ROOM, &[(7, 2)]);
    bench.second(&[]);
    bench.controller.place(SPACE, [(7, 1)]);
    bench.settle();
    assert_eq!(bench.switch.lines(SPACE)[0].ticket, FIRST, "it has left, and come back");
    bench.second(&[]);
    assert_eq!(bench.rate(7), Some(0));
}

#[test]
fn a_new_epoch_forgets_what_was_measured_and_planned() {
    let mut bench = Bench::new(ROOM, &[(1, 2), (2, 2)]);
    bench.second(&[(7, 1_000)]);
    assert!(bench.stages().iter().any(|(_, stage)| *stage != Stage::Here));
    // As after a restart of the switch with this memory's queues.
    bench.switch.set_epoch(0);
    bench.pass(TICK);
    assert_eq!(bench.rate(7), None);
    bench.report();
    bench.pass(SECOND / 2);
    assert!(bench.switch.serving() && bench.switch.lock_server(SPACE, 0).handle == bench.server, "it could be moved");
    assert_eq!(bench.stages(), [(1, Stage::Here), (2, Stage::Here)]);
    assert!(bench.view().locks.iter().all(|lock| lock.planned.is_none()));
}

/// A namespace that rests notices whatever is not as it was, and what else is wanted.
#[test]
fn where_all_was_in_its_place_what_is_elsewhere_is_noticed() {
    let mut bench = Bench::new(ROOM, &[(1, 2), (2, 2)]);
    bench.controller.place(SPACE, [(1, 2), (2, 2)]);
    bench.settle();
    assert_eq!(bench.stages(), [(1, Stage::Here), (2, Stage::Here)]);
    // As a controller that died would leave it.
    assert!(bench.switch.step(SPACE, 1, Step::Drain));
    bench.settle();
    assert_eq!(bench.stages(), [(1, Stage::Here), (2, Stage::Here)]);
    assert_eq!(bench.switch.lines(SPACE)[0].ticket, FIRST, "nobody was in it: it has left, and come back");
    assert!([Step::Drain, Step::Hand, Step::Remove].into_iter().all(|step| bench.switch.step(SPACE, 2, step)));
    bench.pass(TICK);
    assert_eq!(bench.stages(), [(1, Stage::Here), (2, Stage::Awaited)]);
    bench.settle();
    bench.controller.place(SPACE, [(1, 2)]);
    bench.settle();
    assert_eq!(bench.stages(), [(1, Stage::Here)]);
}

/// A node asks the switch for a lock, with a priority if it says one: whether it is granted.
fn ask(bench: &Bench, node: u16, name: u64, request: u64, cause: u8) -> bool {
    let incarnation = u64::from(node) << 40;
    let attempt =
        Attempt { name, request: incarnation | request, holder: node, flags: EXCLUSIVE, cause, ..Attempt::default() };
    send(bench, node, kind::queue::ACQUIRE, &attempt).1.kind == kind::queue::GRANT
}

fn send(bench: &Bench, source: u16, kind: u8, attempt: &Attempt) -> (Action, Header) {
    let epoch = bench.switch.epoch();
    let header = Header { service: service::QUEUE, kind, source, epoch, namespace: SPACE, ..Header::default() };
    let mut packet = packet(header, Attempt::BYTES, |packet| attempt.write(packet, BODY));
    let verdict = bench.switch.process(bench.now, &mut packet, address(1));
    (verdict.action, check(&packet).expect("a packet"))
}

/// docs/queue.md, "Priorities". Nobody plans this namespace's queues: what leaves comes back by itself.
#[test]
fn a_lock_that_is_asked_for_with_priorities_is_its_servers_until_nobody_does_any_more() {
    let mut bench = Bench::of(Allocation::Fixed, ROOM, &[(1, 2), (2, 2)]);
    let (one, other) = (bench.enrol(2), bench.enrol(3));
    assert!(ask(&bench, one, 1, 1, 7), "nobody is in its way");
    bench.settle();
    assert_eq!(bench.stages(), [(1, Stage::Here), (2, Stage::Here)], "who need not wait is served by the switch");
    assert!(!ask(&bench, other, 1, 1, 3));
    // Longer than a queue drains for anything else.
    bench.pass(3 * SECOND);
    assert_eq!(bench.stages()[0], (1, Stage::Drains), "its holder stays");
    let held = Attempt { name: 1, request: u64::from(one) << 40 | 1, ticket: 1, holder: one, ..Attempt::default() };
    assert_eq!(send(&bench, one, kind::queue::RELEASE, &held).1.kind, kind::queue::RELEASED);
    bench.sent();
    // For a while; how long in all is its server's to say.
    for request in 2..5 {
        bench.settle();
        assert_eq!(bench.stages(), [(1, Stage::Awaited), (2, Stage::Here)], "{:?}", bench.view());
        assert!(bench.view().locks.iter().all(|lock| lock.is_ranked == (lock.name == 1)));
        assert!(!ask(&bench, other, 1, request, 3), "its server's");
        bench.pass(2 * SECOND);
    }
    bench.pass(3 * SECOND);
    assert!(bench.sent().iter().any(|(header, _)| header.kind == kind::queue::RECALL), "it may come back");
    bench.pass(SECOND);
    bench.settle();
    assert_eq!(bench.stages(), [(1, Stage::Here), (2, Stage::Here)]);
    // Its count begins anew, and is noticed again. Its server has nothing that it had before.
    let line = bench.switch.lines(SPACE)[0];
    let settle = Attempt { name: 1, number: line.pushed, order: line.given, ..Attempt::default() };
    send(&bench, bench.server, kind::queue::SETTLE, &settle);
    assert!(ask(&bench, one, 1, 9, 0));
    assert!(!ask(&bench, other, 1, 9, 3));
    bench.pass(TICK);
    assert_eq!(bench.stages()[0], (1, Stage::Drains));
}
