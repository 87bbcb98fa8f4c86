//! The native build and the BPF build are one: random switches and packets through both, byte for byte.
//!
//! A failure prints its seed. `WAYSIDE_FUZZ_SEED=n` runs that one, `WAYSIDE_FUZZ_PACKETS=n` another number of packets.
#![cfg(feature = "xdp")]

mod engine;

use std::env;

use engine::bpf::Bpf;
use engine::random::{self, Random};
use engine::{Engine, Native, UNREACHED, counter_names};
use wayside_wire::limits;

/// Packets to one switch, which changes with them.
const PACKETS_OF_A_SEED: u64 = 1_000;
const PACKETS: u64 = 1_000_000;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}: {text} is no number")))
}

#[test]
fn native_and_bpf_decide_alike() {
    if let Some(why) = Bpf::missing() {
        return println!("skipped: differential fuzz: {why}");
    }
    let seeds = match number("WAYSIDE_FUZZ_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WAYSIDE_FUZZ_PACKETS").unwrap_or(PACKETS).div_ceil(PACKETS_OF_A_SEED),
    };
    let whole_run = seeds.end - seeds.start > 100;
    let mut alone = (Native::new(), Bpf::load(false));
    let mut racing = (Native::new(), Bpf::load(true));
    for seed in seeds {
        // Every fourth switch has nodes that expire while a packet is decided.
        let (native, bpf) = if seed % 4 == 3 { &mut racing } else { &mut alone };
        play(seed, native, bpf);
    }
    assert_eq!(alone.0.counters(), alone.1.counters(), "counters of all seeds");
    assert_eq!(racing.0.counters(), racing.1.counters(), "counters of all racing seeds");
    let counted = alone.0.counters().into_iter().zip(racing.0.counters()).map(|(one, other)| one + other);
    for (name, count) in counter_names().into_iter().zip(counted) {
        println!("{name:>20} {count}");
        assert!(!whole_run || (count > 0) != UNREACHED.contains(&name), "{name} was counted {count} times");
    }
}

fn play(seed: u64, native: &mut Native, bpf: &mut Bpf) {
    let mut random = Random::new(seed);
    let racing = seed % 4 == 3;
    let mut state = random::state_of(seed, &mut random);
    native.set(&state);
    bpf.set(&state);
    let (mut packet, mut from_port) = random::packet(&mut random, &state);
    for index in 0..PACKETS_OF_A_SEED {
        if random.once_in(4) {
            random::disturb(&mut random, &mut state);
            native.set(&state);
            bpf.set(&state);
        }
        if !random.once_in(6) {
            (packet, from_port) = random::packet(&mut random, &state);
        } // Otherwise the network delivers the last one again.
        let race = racing.then(|| random::race(&mut random));
        // As Ethernet pads, and as much as nobody but a liar sends: whole entries behind the last one.
        bpf.padding = match random.below(16) {
            0 => random.below(19) as usize,
            1 => random.below(4 * limits::ENTRY_BYTES as u64) as usize,
            _ => 0,
        };
        let by_native = native.process(&packet, from_port, race);
        let by_bpf = bpf.process(&packet, from_port, race);
        let place = format!("seed {seed}, packet {index}: {packet:02x?} from {from_port}, {race:?}");
        assert_eq!(by_native, by_bpf, "verdict and packet out: {place}");
        if by_native.0.copy != 0 {
            assert_eq!(native.copy(&by_native.1), bpf.copy(&by_bpf.1), "copy: {place}");
        }
        let after = native.get();
        assert_eq!(after, bpf.get(), "state after {by_native:?}: {place}, before {state:?}");
        state = after;
    }
}
