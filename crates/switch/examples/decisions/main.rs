//! What a decision of the core costs, without sockets, with and without authentication: natively, and with the feature
//! `xdp`, as root, in this kernel too. `cargo run --release -p wayside-switch --features xdp --example decisions`.
//!
//! One thread. Every decision takes another slot, far from the one before, so that beyond the caches the memory's
//! latency shows; packets are prepared, and signed, outside of the time that is taken, and few enough to stay in the
//! cache.
//!
//! Load beside it shows: rounds with and without tags take turns, and medians are compared.

mod chain;
#[cfg(feature = "xdp")]
mod hook;
mod queue;

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use wayside_protocol::Time;
use wayside_protocol::memory::{NodeEntry, SlotWord, SwitchMemory};
use wayside_protocol::seal::{Direction, Period, Secret};
use wayside_switch::{Budget, Switch, SwitchConfig};
use wayside_wire::{Entry, Header, Heartbeat, Policy, SlotBits, SlotState, entry_at, kind, service};

const NAMESPACE: u16 = 1;
const NODE: u16 = 1;
const AGENT: u16 = 2;
const SECRET: Secret = Secret([1; 32]);
const PERIOD: Period = Period { incarnation: 0, epoch: 1, rotation: 0 };
/// Decisions of one round, and how many rounds the median is taken of.
const DECISIONS: u32 = 192_000;
const ROUNDS: usize = 9;
/// Decisions between two looks at the clock: 30 packets of 32 names, and fewer than the smallest switch has slots.
const CHUNK: u32 = 960;
/// From slot to slot: a prime that divides no size measured, so that a walk meets every slot once.
const STRIDE: u64 = 611_953;

fn main() {
    println!("native core, one thread, ns a decision (median of {ROUNDS} rounds of {DECISIONS})");
    println!("{:<40}{:>11}{:>9}{:>11}{:>9}{:>12}", "", "1 k slots", "signed", "1 M slots", "signed", "spread, 1 M");
    for work in WORKS {
        print(work.name, &[measure(work, 1_000), measure(work, 1_000_000)]);
    }
    queue::measure();
    chain::measure();
    derivation();
    #[cfg(feature = "xdp")]
    hook::measure();
}

/// Medians at every size, without tags and with them, and the spread at the largest.
fn print(name: &str, sizes: &[[Vec<f64>; 2]]) {
    print!("{name:<40}");
    for [plain, signed] in sizes {
        print!("{:>11.1}{:>9.1}", plain[ROUNDS / 2], signed[ROUNDS / 2]);
    }
    let largest = &sizes.last().expect("at least one")[0];
    println!("{:>12}", format!("{:.0} to {:.0}", largest[0], largest[ROUNDS - 1]));
}

/// What a node does for a packet that claims to be of a later epoch, and twice for a rotation.
fn derivation() {
    const KEYS: u32 = 100_000;
    let begun = Instant::now();
    for rotation in 0..KEYS {
        black_box(SECRET.key(Direction::Down, Period { rotation, ..PERIOD }));
    }
    println!("a key by HMAC-SHA256: {:.0} ns", begun.elapsed().as_nanos() as f64 / f64::from(KEYS));
}

/// One kind of packet, and the slots that it finds.
struct Work {
    name: &'static str,
    slot: SlotWord,
    packet: fn(slots: &[u32], number: u64) -> Vec<u8>,
    /// Decisions that a packet asks for.
    entries: usize,
    budget: Option<Budget>,
}

const UNHELD: SlotWord = SlotWord::unheld(0);
const OPEN: SlotWord = SlotWord { state: SlotState::Open, agent: AGENT, ..UNHELD };
const MANAGED: SlotWord = SlotWord { state: SlotState::Managed, agent: AGENT, ..UNHELD };
const OURS: SlotWord = SlotWord { state: SlotState::Managed, agent: NODE, ..UNHELD };

/// More than all rounds ask for, and nothing.
const AMPLE: Option<Budget> = Some(Budget { rate: Budget::MAX_RATE, burst: Budget::MAX_BURST });
const SPENT: Option<Budget> = Some(Budget { rate: 1, burst: 32 });

const WORKS: [&Work; 10] = [
    &Work {
        name: "a packet that is dropped (bad magic)",
        slot: UNHELD,
        packet: |_, _| vec![0; 64],
        entries: 1,
        budget: None,
    },
    &Work { name: "HEARTBEAT", slot: UNHELD, packet: |_, number| heartbeat(number), entries: 1, budget: None },
    &Work { name: "ACQUIRE, granted with the agency", slot: UNHELD, packet: acquire, entries: 1, budget: None },
    &Work { name: "the same, within a budget", slot: UNHELD, packet: acquire, entries: 1, budget: AMPLE },
    &Work { name: "ACQUIRE over its budget", slot: UNHELD, packet: acquire, entries: 1, budget: SPENT },
    &Work { name: "ACQUIRE, joined", slot: OPEN, packet: acquire, entries: 1, budget: None },
    &Work { name: "ACQUIRE, forwarded", slot: MANAGED, packet: acquire, entries: 1, budget: None },
    &Work { name: "RELEASE, forwarded", slot: MANAGED, packet: release, entries: 1, budget: None },
    &Work { name: "RETENURE, renewed", slot: OURS, packet: renew, entries: 1, budget: None },
    &Work { name: "ACQUIRE of 32 names, each", slot: UNHELD, packet: acquire, entries: 32, budget: None },
];

/// Nanoseconds a decision of every round, in order: without tags, and with them.
fn measure(work: &Work, slots: u32) -> [Vec<f64>; 2] {
    let switch = switch(slots);
    switch.set_budget(NAMESPACE, work.budget);
    let mut number = 1;
    let mut walked = slots; // Slots met since they were last made ready.
    rounds(&switch, &mut || {
        if walked + CHUNK > slots {
            make_ready(&switch, slots, work.slot);
            walked = 0;
        }
        let walk = (walked..walked + CHUNK).map(|step| (u64::from(step) * STRIDE % u64::from(slots)) as u32);
        walked += CHUNK;
        let walk: Vec<u32> = walk.collect();
        let packets = walk.chunks(work.entries).map(|slots| {
            number += slots.len() as u64;
            (work.packet)(slots, number - slots.len() as u64)
        });
        packets.collect()
    })
}

/// The same for packets that ask for `CHUNK` decisions at a time.
fn rounds(switch: &Switch, packets: &mut dyn FnMut() -> Vec<Vec<u8>>) -> [Vec<f64>; 2] {
    let from = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 20_001);
    let key = SECRET.key(Direction::Up, PERIOD);
    let mut round = |signed: bool| {
        switch.set_authenticated(signed);
        let mut taken = Duration::ZERO;
        for _ in 0..DECISIONS / CHUNK {
            let mut packets = packets();
            if signed {
                packets.iter_mut().for_each(|packet| key.sign(0, packet));
            }
            let begun = Instant::now();
            for packet in &mut packets {
                black_box(switch.process(Time(0), packet, from));
            }
            taken += begun.elapsed();
        }
        taken.as_nanos() as f64 / f64::from(DECISIONS)
    };
    let mut rounds = [vec![], vec![]];
    for turn in 0..2 * ROUNDS {
        rounds[turn % 2].push(round(turn % 2 == 1));
    }
    rounds.iter_mut().for_each(|rounds| rounds.sort_by(f64::total_cmp));
    rounds
}

fn make_ready(switch: &Switch, slots: u32, word: SlotWord) {
    for slot in 0..slots {
        let now = switch.load_slot(NAMESPACE, slot);
        assert!(switch.cas_slot(NAMESPACE, slot, now, word), "nobody else changes it");
    }
}

fn switch(slots: u32) -> Switch {
    let switch = Switch::new(SwitchConfig { slots, max_handle: 10 });
    switch.add_namespace(NAMESPACE, slots, Policy::Fair).expect("an empty switch has room");
    switch.set_epoch(1);
    switch.set_serving(true);
    for handle in [NODE, AGENT] {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 10_000 + handle);
        switch.set_node(handle, &NodeEntry { address, namespace: NAMESPACE, incarnation: 0 });
        switch.set_keys(handle, Some(&SECRET.keys(PERIOD)));
    }
    switch
}

fn packet(kind: u8, entries: &[Entry]) -> Vec<u8> {
    let count = u8::try_from(entries.len()).expect("at most 32");
    let header = Header {
        service: service::LOCK,
        kind,
        count,
        source: NODE,
        epoch: 1,
        namespace: NAMESPACE,
        ..Header::default()
    };
    let mut packet = vec![0; entry_at(entries.len())];
    header.write(&mut packet);
    for (index, entry) in entries.iter().enumerate() {
        entry.write(&mut packet, entry_at(index));
    }
    packet
}

fn entry(slot: u32, number: u64) -> Entry {
    Entry { name: slot.into(), request: number, slot, holder: NODE, ..Entry::default() }
}

fn acquire(slots: &[u32], number: u64) -> Vec<u8> {
    let entries: Vec<Entry> = slots.iter().zip(number..).map(|(&slot, number)| entry(slot, number)).collect();
    packet(kind::lock::ACQUIRE, &entries)
}

fn release(slots: &[u32], number: u64) -> Vec<u8> {
    packet(kind::lock::RELEASE, &[entry(slots[0], number)])
}

fn renew(slots: &[u32], number: u64) -> Vec<u8> {
    let bits = SlotBits { state: SlotState::Managed, tryable: true, ..SlotBits::default() };
    packet(kind::lock::RETENURE, &[Entry { slot_bits: bits.to_u16(), ..entry(slots[0], number) }])
}

fn heartbeat(number: u64) -> Vec<u8> {
    let header =
        Header { service: service::FABRIC, kind: kind::fabric::HEARTBEAT, source: NODE, epoch: 1, ..Header::default() };
    let mut packet = vec![0; entry_at(1)];
    header.write(&mut packet);
    Heartbeat { sequence: number, oldest: 0, sent_us: 0, incarnation: 0 }.write(&mut packet, entry_at(0));
    packet
}
