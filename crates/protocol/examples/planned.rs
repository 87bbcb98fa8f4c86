//! What a controller's tick costs where nothing moves, by how many queues lie in the switch:
//! `cargo run --release -p wayside-protocol --example planned [TICKS]`.
//!
//! The controller and a real switch's memory in one process; a namespace that is planned, and its lock server. A tick
//! comes every 10 ms, so 100 us of one are a hundredth of a processor. Once a second it plans.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wayside_protocol::Time;
use wayside_protocol::controller::{Allocation, Config, Controller, LONGEST_LEASE, Namespace, Record, Room, Store};
use wayside_protocol::memory::SwitchMemory;
use wayside_switch::{QueueConfig, Switch, SwitchConfig};
use wayside_wire::{Attempt, BODY, Engine, Enrol, Header, Policy, QueueKind, kind, padded, service};

const SPACE: u16 = 1;
const TICK: u64 = 10_000;
const SECOND: u64 = 1_000_000;

struct Nowhere;

impl Store for Nowhere {
    type Error = &'static str;
    fn load(&mut self) -> Result<Vec<Record>, Self::Error> {
        Ok(Vec::new())
    }
    fn commit(&mut self, _: &[Record]) -> Result<(), Self::Error> {
        Ok(())
    }
}

fn main() {
    let ticks = std::env::args().nth(1).map_or(2_000, |ticks| ticks.parse().expect("a number of ticks"));
    println!("queues   tick, us   of a processor   a second's plan, us");
    for queues in [0, 64, 512, 4_096] {
        let (mut usual, mut planning) = measure(queues, ticks);
        usual.sort_unstable();
        planning.sort_unstable();
        let mean = usual.iter().chain(&planning).sum::<Duration>() / (usual.len() + planning.len()) as u32;
        let micros = |times: &[Duration]| times[times.len() / 2].as_secs_f64() * 1e6;
        let share = mean.as_secs_f64() * 1e8 / TICK as f64;
        println!("{queues:>6} {:>10.1} {share:>14.2} % {:>21.1}", micros(&usual), micros(&planning));
    }
}

/// What each tick took, and apart those in which a second is over.
fn measure(queues: u32, ticks: u64) -> (Vec<Duration>, Vec<Duration>) {
    let switch = Switch::new(SwitchConfig { slots: 1, max_handle: 16 });
    let switch = switch.with_queues(QueueConfig { queues: 2 * queues + 1, cells: 2 * queues + 1, seed: 1 });
    switch.add_namespace(SPACE, 1, Policy::Fair).expect("a first one");
    (0..queues).for_each(|name| switch.add_queue(SPACE, u64::from(name), 2, 1).expect("there is room"));
    let namespace = Namespace {
        id: SPACE,
        name: "default".into(),
        policy: Policy::Fair,
        patience: wayside_protocol::OVERTAKEN_MOST,
        engine: Engine::Queue,
        names: wayside_protocol::Names::default(),
        allocation: Allocation::Knapsack,
        room: Room { cells: 2 * queues + 1, most: 2, queues },
        servers: 1,
        lease: 3_600 * SECOND as u32,
        longest_lease: LONGEST_LEASE,
    };
    let switch = Arc::new(switch);
    let config = Config { namespaces: vec![namespace], ..Config::default() };
    let mut controller = Controller::new(config, Arc::clone(&switch), Nowhere).expect("an empty store loads");
    let mut now = SECOND;
    controller.on_tick(Time(now));
    appoint(&mut controller, now);
    assert_ne!(switch.lock_server(SPACE, 0).handle, 0, "it has a lock server");
    let (mut usual, mut planning) = (Vec::new(), Vec::new());
    for tick in 0..ticks {
        now += TICK;
        let began = Instant::now();
        controller.on_tick(Time(now));
        let took = began.elapsed();
        // The first seconds fill what is known.
        if tick >= 200 {
            if (tick + 1) % (SECOND / TICK) == 0 { &mut planning } else { &mut usual }.push(took);
        }
        while controller.transmit().is_some() {}
    }
    (usual, planning)
}

/// A node begins a session, and offers itself.
fn appoint(controller: &mut Controller<Arc<Switch>, Nowhere>, now: u64) {
    let from = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 7600);
    let mut packet = vec![0; BODY + Enrol::BYTES];
    Header { service: service::FABRIC, kind: kind::fabric::ENROL, ..Header::default() }.write(&mut packet);
    let body = Enrol { nonce: 1, namespace_name: padded("default").expect("short"), ..Enrol::default() };
    body.write(&mut packet, BODY);
    controller.on_packet(Time(now), from, &packet);
    let mut packet = vec![0; BODY + QueueKind::Acquire.body().bytes(0)];
    let (epoch, kind) = (controller.epoch(), kind::queue::SERVE);
    Header { service: service::QUEUE, kind, source: 1, epoch, namespace: SPACE, ..Header::default() }
        .write(&mut packet);
    Attempt { number: 1, ..Attempt::default() }.write(&mut packet, BODY);
    controller.on_packet(Time(now), from, &packet);
}
