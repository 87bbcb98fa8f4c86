//! Two CPUs in one slot of the XDP program: every ordinal goes out once.
#![cfg(feature = "xdp")]

mod engine;

use std::collections::BTreeSet;
use std::sync::Barrier;

use engine::bpf::{Bpf, ENVELOPE, frame, to_switch};
use engine::{Engine, Node, Region, State};
use wayside_protocol::memory::{NodeWord, SlotWord};
use wayside_wire::{Entry, Header, NodeState, SlotBits, SlotState, entry_at, kind, service};

const AGENT: u16 = 2;
/// Below the 4,095 joins of a tenure.
const JOINS_OF_A_CPU: u64 = 2_000;

fn acquire(request: u64) -> Vec<u8> {
    let header = Header {
        service: service::LOCK,
        kind: kind::lock::ACQUIRE,
        count: 1,
        source: 1,
        epoch: 1,
        ..Header::default()
    };
    let mut packet = vec![0; entry_at(1)];
    header.write(&mut packet);
    Entry { request, holder: 1, ..Entry::default() }.write(&mut packet, entry_at(0));
    frame(&to_switch(20_001), &packet, true)
}

fn ordinal_of(frame: &[u8]) -> u16 {
    let packet = &frame[ENVELOPE..];
    assert_eq!(Header::read(packet).unwrap().kind, kind::lock::GRANT);
    SlotBits::from_u16(Entry::read(packet, entry_at(0)).slot_bits).joins
}

/// The program as threads share it: they run it, and nothing else.
struct Shared<'a>(&'a Bpf);
// SAFETY: running a program is one system call on a file descriptor.
unsafe impl Sync for Shared<'_> {}

impl Shared<'_> {
    fn join(&self, request: u64) -> u16 {
        ordinal_of(&self.0.run(&acquire(request)).1)
    }
}

#[test]
fn joins_of_two_cpus() {
    if let Some(why) = Bpf::missing() {
        return println!("skipped: two CPUs in one slot: {why}");
    }
    let cpus = std::thread::available_parallelism().unwrap().get();
    if cpus < 2 {
        return println!("skipped: two CPUs in one slot: this machine has one");
    }
    let mut bpf = Bpf::load(false);
    let mut state = State::default();
    state.globals.epoch = 1;
    state.globals.serving = 1;
    state.regions[0] = Region { count: 1, ..Region::default() };
    let live = Node { word: NodeWord { state: NodeState::Live, sequence: 0 }.pack(), ..Node::default() };
    state.nodes[1] = live;
    state.nodes[usize::from(AGENT)] = live;
    state.slots[0].w0 = SlotWord { state: SlotState::Open, agent: AGENT, ..SlotWord::unheld(1) }.pack();
    bpf.set(&state);

    let shared = &Shared(&bpf);
    let together = &Barrier::new(2);
    let ordinals: Vec<Vec<u16>> = std::thread::scope(|scope| {
        let play = |cpu: usize| {
            engine::bpf::run_on(cpu);
            together.wait();
            (0..JOINS_OF_A_CPU).map(|number| shared.join(cpu as u64 * JOINS_OF_A_CPU + number)).collect()
        };
        let threads: Vec<_> = (0..2).map(|cpu| scope.spawn(move || play(cpu))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for of_one in &ordinals {
        assert!(of_one.is_sorted(), "a CPU sees joins rise");
    }
    let all: BTreeSet<u16> = ordinals.iter().flatten().copied().collect();
    assert!(all.into_iter().eq(1..=2 * JOINS_OF_A_CPU as u16), "every ordinal once");
}
