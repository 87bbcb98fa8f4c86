//! What a node itself costs where nobody else wants the lock, without sockets, threads or a system call but the
//! clock's: `cargo run --release -p wayside-protocol --example uncontended [ROUNDS]`.
//!
//! One node and the real core in one process. Every lock is of a fresh name, and in turn asked for, decided on,
//! granted, given back, freed and answered; after every call its owner takes what there is, as a client does: events,
//! packets, the next timer. Then the same with 32 locks to a packet.
//!
//! A look at the clock costs about as much as a step: what it costs by itself is taken off. Counts are steadier than
//! times: `valgrind --tool=callgrind` has each step under its own name, `step_acquire` to `step_answer_many`. Of a
//! step, 60 to 90 instructions are this program's own.

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use wayside_protocol::memory::{NodeEntry, SwitchMemory};
use wayside_protocol::seal::Enrolment;
use wayside_protocol::{Acquire, Event, Mode, Node, NodeConfig, Priority, RequestId, Time};
use wayside_switch::{Action, Switch, SwitchConfig};
use wayside_wire::limits::{MAX_ENTRIES, MAX_PACKET_BYTES};
use wayside_wire::{Policy, slot_of};

const NODE: u16 = 1;
const NAMESPACE: u16 = 1;
const EPOCH: u32 = 1;
const SLOTS: u32 = 1 << 20;
const PORT: u16 = 5_000;
/// Locks of a round, one by one and in batches. The median is taken of the rounds.
const LOCKS: u32 = 3_200;
const ROUNDS: usize = 201;
/// From name to name: odd, so that a walk meets every slot once.
const STRIDE: u64 = 611_953;

/// The steps of one lock, and of 32 together.
const STEPS: [&str; 10] = [
    "acquire",
    "(the switch decides)",
    "its grant",
    "release",
    "(the switch frees)",
    "its answer",
    "acquire_many, a lock",
    "its grants, a lock",
    "release after acquire_many",
    "its answer",
];
/// The first step of 32 locks.
const FIRST_OF_MANY: usize = 6;

fn main() {
    let rounds = std::env::args().nth(1).map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"));
    let mut world = World::new();
    let costs: Vec<Costs> = (0..rounds).map(|_| world.round()).collect();
    let median = |of: &dyn Fn(&Costs) -> f64| {
        let mut each: Vec<f64> = costs.iter().map(of).collect();
        each.sort_unstable_by(f64::total_cmp);
        each[rounds / 2]
    };
    let clock = median(&|costs| costs.clock);
    println!("ns, median of {rounds} rounds of {LOCKS} locks; {clock:.0} ns of the clock taken off each look");
    for (step, name) in STEPS.iter().enumerate() {
        let took = median(&|costs| costs.steps[step]);
        let looks = if step < FIRST_OF_MANY { 1.0 } else { 1.0 / MAX_ENTRIES as f64 };
        println!("{name:<30}{:>8.1}", took - clock * looks);
    }
}

/// Nanoseconds: of each step, a lock, with a look at the clock in it; and of that.
struct Costs {
    steps: [f64; STEPS.len()],
    clock: f64,
}

/// Packets on their way, one behind the other.
#[derive(Default)]
struct Wire {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Wire {
    fn put(&mut self, packet: &[u8]) {
        self.bytes.extend_from_slice(packet);
        self.ends.push(self.bytes.len());
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn packets(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(from, &to)| &self.bytes[from..to])
    }
}

struct World {
    node: Node,
    switch: Switch,
    now: Time,
    name: u64,
    granted: Vec<RequestId>,
    /// To the switch, and back.
    asked: Wire,
    answered: Wire,
}

impl World {
    fn new() -> World {
        let now = Time(1_000);
        let switch = Switch::new(SwitchConfig { slots: SLOTS, max_handle: 10 });
        switch.add_namespace(NAMESPACE, SLOTS, Policy::Fair).expect("the first namespace fits");
        switch.set_epoch(EPOCH);
        switch.set_serving(true);
        switch.set_node(NODE, &NodeEntry { address: address(0), namespace: NAMESPACE, incarnation: 1 });
        let mut node = Node::new(NodeConfig::new(1));
        let enrolment = Enrolment {
            handle: NODE,
            incarnation: 1,
            epoch: EPOCH,
            namespace: NAMESPACE,
            slots: SLOTS,
            engine: wayside_wire::Engine::Fission,
            names: wayside_protocol::Names::default(),
            // Longer than the run: nobody answers its heartbeats.
            lease: u32::MAX,
            grace: 0,
            lifeline: 0,
            shards: 0,
            policy: wayside_wire::Policy::Fair,
            patience: wayside_protocol::OVERTAKEN_MOST,
            secret: None,
            version: wayside_wire::VERSION,
        };
        node.begin(now, now, &enrolment);
        assert!(matches!(node.event(), Some(Event::Enrolled(_))));
        node.on_tick(now);
        while node.transmit().is_some() {}
        World {
            node,
            switch,
            now,
            name: 0,
            granted: Vec::with_capacity(MAX_ENTRIES),
            asked: Wire::default(),
            answered: Wire::default(),
        }
    }

    fn round(&mut self) -> Costs {
        let mut took = [Duration::ZERO; STEPS.len()];
        for _ in 0..LOCKS {
            let want = self.want();
            took[0] += self.timed(|world| world.step_acquire(want));
            took[1] += self.timed(World::decide);
            took[2] += self.timed(World::step_grant);
            took[3] += self.timed(World::step_release);
            took[4] += self.timed(World::decide);
            took[5] += self.timed(World::step_answer);
        }
        for _ in 0..LOCKS / MAX_ENTRIES as u32 {
            let mut wants = [(); MAX_ENTRIES].map(|()| self.want());
            wants.sort_unstable_by_key(|want| slot_of(want.name, SLOTS));
            took[6] += self.timed(|world| world.step_acquire_many(&wants));
            self.decide();
            took[7] += self.timed(World::step_grant_many);
            took[8] += self.timed(World::step_release_many);
            self.decide();
            took[9] += self.timed(World::step_answer_many);
        }
        assert!(self.node.is_idle() && self.node.dropped() == 0, "all was granted and all came back");
        let clock: Duration = (0..LOCKS).map(|_| self.timed(|_| ())).sum();
        let a_lock = |took: Duration| took.as_nanos() as f64 / f64::from(LOCKS);
        Costs { steps: took.map(a_lock), clock: a_lock(clock) }
    }

    fn timed(&mut self, work: impl FnOnce(&mut World)) -> Duration {
        // Some 16,000 locks a second, one by one.
        self.now = self.now + 10;
        let begun = Instant::now();
        work(self);
        begun.elapsed()
    }

    fn want(&mut self) -> Acquire {
        self.name += STRIDE;
        Acquire {
            name: self.name,
            mode: Mode::Exclusive,
            try_: false,
            priority: Priority::NORMAL,
            deadline: None,
            port: PORT,
        }
    }

    /// Takes out of the node what the last call brought.
    fn settle(&mut self) {
        while let Some(event) = self.node.event() {
            match event {
                Event::Granted { request, token, .. } => {
                    black_box(token);
                    self.granted.push(request);
                }
                other => panic!("nothing but grants may come, not {other:?}"),
            }
        }
        while let Some(out) = self.node.transmit() {
            self.asked.put(out.packet);
        }
        black_box(self.node.next_timer());
    }

    /// Every packet that the node has sent, and the switch's answer.
    fn decide(&mut self) {
        self.answered.clear();
        let mut buffer = [0; MAX_PACKET_BYTES];
        for packet in self.asked.packets() {
            buffer[..packet.len()].copy_from_slice(packet);
            let verdict = self.switch.process(Time(0), &mut buffer[..packet.len()], address(PORT));
            assert_eq!(verdict.action, Action::ToSender);
            self.answered.put(&buffer[..verdict.length]);
        }
        self.asked.clear();
    }

    fn hear(&mut self) {
        let answered = std::mem::take(&mut self.answered);
        for packet in answered.packets() {
            self.node.on_packet(self.now, packet);
            self.settle();
        }
        self.answered = answered;
    }

    fn give_back(&mut self) {
        while let Some(request) = self.granted.pop() {
            self.node.release(self.now, request);
            self.settle();
        }
    }

    // Each names itself: functions of equal bodies would be made one.

    #[inline(never)]
    fn step_acquire(&mut self, want: Acquire) {
        self.node.acquire(self.now, want).expect("the session lives");
        self.settle();
    }

    #[inline(never)]
    fn step_grant(&mut self) {
        self.hear();
        black_box("step_grant");
    }

    #[inline(never)]
    fn step_release(&mut self) {
        self.give_back();
        black_box("step_release");
    }

    #[inline(never)]
    fn step_answer(&mut self) {
        self.hear();
        black_box("step_answer");
    }

    #[inline(never)]
    fn step_acquire_many(&mut self, wants: &[Acquire]) {
        let mut ids = Vec::with_capacity(MAX_ENTRIES);
        self.node.acquire_many(self.now, wants, &mut ids).expect("the session lives");
        black_box(ids);
        self.settle();
    }

    #[inline(never)]
    fn step_grant_many(&mut self) {
        self.hear();
        black_box("step_grant_many");
    }

    #[inline(never)]
    fn step_release_many(&mut self) {
        self.give_back();
        black_box("step_release_many");
    }

    #[inline(never)]
    fn step_answer_many(&mut self) {
        self.hear();
        black_box("step_answer_many");
    }
}

fn address(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), if port == 0 { 9_000 } else { port })
}
