//! Nodes and switch under loss, duplication and reordering, without a controller: safety of the lock path alone.
//! The simulator (crates/sim) does this with every fault; this one is small and quick.

use crate::bench::{Bench, SLOTS};
use std::collections::BTreeMap;
use wayside_protocol::{Acquire, Event, Mode, Priority, RequestId, Token};

/// `SplitMix64`: a seed is a run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        wayside_wire::mix(self.0) % n
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

struct Oracle {
    holders: BTreeMap<u64, Vec<(usize, RequestId, Mode)>>,
    highest: BTreeMap<u64, Token>,
}

impl Oracle {
    fn grant(&mut self, seed: u64, node: usize, id: RequestId, name: u64, mode: Mode, token: Token) {
        let holders = self.holders.entry(name).or_default();
        let conflict = holders.iter().any(|(.., other)| mode == Mode::Exclusive || *other == Mode::Exclusive);
        assert!(!conflict, "seed {seed}: S1: node {node} got {name} {mode:?} beside {holders:?}");
        holders.push((node, id, mode));
        let highest = self.highest.entry(name).or_default();
        if mode == Mode::Exclusive {
            assert!(token > *highest, "seed {seed}: S2: {name} got {token:?} after {highest:?}");
        }
        *highest = token.max(*highest);
    }

    fn end(&mut self, id: RequestId, name: u64) {
        self.holders.entry(name).or_default().retain(|(_, held, _)| *held != id);
    }
}

fn run(seed: u64, loss: u64, duplicates: u64) -> (usize, usize) {
    let mut dice = Dice(seed);
    let nodes = 3;
    let mut bench = Bench::with_lease(nodes, 4_000_000_000);
    let mut oracle = Oracle { holders: BTreeMap::new(), highest: BTreeMap::new() };
    let mut live: BTreeMap<(usize, RequestId), (u64, bool)> = BTreeMap::new();
    let mut granted = 0;
    for step in 0..4_000 {
        if bench.flying.is_empty() || dice.chance(5) {
            let micros = dice.below(4_000);
            bench.now = bench.now + micros;
            for node in 0..nodes {
                bench.nodes[node].on_tick(bench.now);
                bench.collect(node);
            }
        }
        if let Some(packet) = (!bench.flying.is_empty())
            .then(|| bench.flying.swap_remove_back(dice.below(bench.flying.len().min(6) as u64) as usize))
            .flatten()
        {
            if dice.chance(duplicates) {
                let (to, from, copy) = (packet.to, packet.from, packet.packet.clone());
                bench.flying.push_back(crate::bench::Flying { to, from, packet: copy });
            }
            if !dice.chance(loss) {
                bench.deliver(packet);
            }
        }
        for node in 0..nodes {
            while let Some(event) = bench.nodes[node].event() {
                match event {
                    Event::Granted { request, token, mode, .. } => {
                        let entry = live.get_mut(&(node, request)).expect("only what was asked for is granted");
                        entry.1 = true;
                        granted += 1;
                        oracle.grant(seed, node, request, entry.0, mode, token);
                    }
                    Event::TimedOut { request, .. } | Event::Busy { request, .. } => {
                        live.remove(&(node, request));
                    }
                    Event::Downgraded { .. } => {}
                    other => panic!("seed {seed}, step {step}: node {node} got {other:?}"),
                }
            }
            if dice.chance(10) && live.keys().filter(|(of, _)| *of == node).count() < 3 {
                let name = 1 + dice.below(2) * u64::from(SLOTS);
                let mode = if dice.chance(50) { Mode::Shared } else { Mode::Exclusive };
                let deadline = dice.chance(30).then(|| bench.now + dice.below(20_000));
                let want = Acquire {
                    name,
                    mode,
                    try_: dice.chance(10),
                    priority: Priority::NORMAL,
                    deadline,
                    port: 5_000 + node as u16,
                };
                let id = bench.ask_with(node, want);
                live.insert((node, id), (name, false));
            }
            let held =
                live.iter().find(|((of, _), (_, held))| *of == node && *held).map(|(key, (name, _))| (key.1, *name));
            if let Some((id, name)) = held.filter(|_| dice.chance(8)) {
                oracle.end(id, name);
                live.remove(&(node, id));
                bench.release(node, id);
            }
        }
    }
    (granted, live.len())
}

#[test]
fn no_two_writers_and_rising_tokens_whatever_the_network_does() {
    let seeds = std::env::var("CHAOS_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let first = std::env::var("CHAOS_FIRST").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut granted = 0;
    for seed in first..first + seeds {
        granted += run(seed, seed % 4 * 8, seed / 4 % 4 * 12).0;
    }
    assert!(granted as u64 > seeds * 10, "only {granted} grants in {seeds} runs show nothing");
}
