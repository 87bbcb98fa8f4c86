//! The native core under the address and undefined-behaviour sanitizers, fed with random packets.

mod engine;

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use engine::random::{self, Random};
use engine::{Engine, Native, State};

const SEEDS: u64 = 100;
const PACKETS_OF_A_SEED: u64 = 1_000;
const FLAGS: [&str; 6] =
    ["-std=gnu11", "-g1", "-O1", "-Wall", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

/// Where builds of this run go.
fn built(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn compile(compiler: &str, sources: &[PathBuf], out: &Path) -> Result<(), String> {
    let output = Command::new(compiler).args(FLAGS).args(sources).arg("-o").arg(out).output();
    let output = output.map_err(|error| format!("{compiler}: {error}"))?;
    output.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Every field of the state, as `sanitize.c` reads them.
fn record(state: &State) -> Vec<u8> {
    let mut bytes = vec![b'S'];
    for slot in &state.slots {
        bytes.extend([slot.w0, slot.w1].into_iter().flat_map(u64::to_ne_bytes));
    }
    for node in &state.nodes {
        bytes.extend([node.word, node.oldest, node.incarnation].into_iter().flat_map(u64::to_ne_bytes));
        bytes.extend(node.address.to_ne_bytes());
        bytes.extend([node.agent_port, node.namespace].into_iter().flat_map(u16::to_ne_bytes));
    }
    for region in &state.regions {
        let words = [region.base, region.count, region.policy, region.burst];
        bytes.extend(words.into_iter().flat_map(u32::to_ne_bytes));
        let (own, other) = (region.own, region.other);
        let words = [own.due, own.cost, other.due, other.cost, region.over_budget];
        bytes.extend(words.into_iter().flat_map(u64::to_ne_bytes));
        bytes.extend([region.told, region.other_told].into_iter().flat_map(u32::to_ne_bytes));
    }
    for keys in &state.keys {
        let words = [keys.written[0], keys.written[1], keys.rotation, keys.heard];
        bytes.extend(words.into_iter().flat_map(u32::to_ne_bytes));
        let halves = keys.of.iter().flat_map(|pair| [pair.up, pair.down]).flatten();
        bytes.extend(halves.flat_map(u64::to_ne_bytes));
    }
    let globals = &state.globals;
    let words = [globals.epoch, globals.serving, globals.shard_map, globals.authenticated];
    bytes.extend(words.into_iter().chain([globals.reserved, globals.trace_one_in]).flat_map(u32::to_ne_bytes));
    for word in [globals.lease.end_us, globals.lease.end_tick] {
        bytes.extend(word.to_ne_bytes());
    }
    record_chain(state, &mut bytes);
    record_queues(state, &mut bytes);
    bytes
}

/// The chain service's part of it.
fn record_chain(state: &State, bytes: &mut Vec<u8>) {
    let mut words = |words: &[u64]| bytes.extend(words.iter().copied().flat_map(u64::to_ne_bytes));
    // Two halves as the word that they are in memory.
    let pair = |halves: [u32; 2]| u64::from_ne_bytes(halves.map(u32::to_ne_bytes).concat().try_into().unwrap());
    for group in &state.groups {
        words(&[group.place, group.sequence, pair([group.namespace, group.watched])]);
    }
    state.buckets.iter().for_each(|bucket| words(&bucket.places));
    for item in &state.items {
        words(&[item.lock, item.key_high, item.key_low, item.name]);
        item.versions.iter().for_each(|version| words(&[version.sequence, version.shape, version.owner]));
        item.values.iter().for_each(|value| words(value));
    }
    for lane in &state.lanes {
        words(&[lane.lock, lane.request, lane.own_sequence, pair([lane.own_epoch, lane.outcome])]);
    }
    let store = &state.store;
    words(&[store.seed, pair([store.bucket_mask, store.handle]), store.lease.end_us, store.lease.end_tick]);
    words(&store.reserved);
    words(&[store.drawn, store.torn]);
    words(&store.reserved_more);
}

fn record_queues(state: &State, bytes: &mut Vec<u8>) {
    let mut words = |words: &[u64]| bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    let pair = |halves: [u32; 2]| u64::from_ne_bytes(std::array::from_fn(|at| halves[at / 4].to_ne_bytes()[at % 4]));
    for queue in &state.queues {
        words(&[queue.lock, queue.name, pair([queue.namespace, queue.epoch]), pair([queue.left, queue.size])]);
        words(&[queue.head, queue.granted, queue.tail, queue.holding, queue.given, queue.settled, queue.pushed]);
        words(&[pair([queue.stage, queue.ranked])]);
    }
    state.cells.iter().for_each(|cell| words(&[cell.request, cell.who]));
    state.names.iter().for_each(|bucket| words(&bucket.places));
    let directory = &state.directory;
    words(&[directory.seed, directory.shape, pair([directory.bucket_mask, directory.reserved])]);
    for servers in &state.servers {
        let halves =
            [servers.count, servers.reserved].into_iter().chain(servers.of).chain(servers.term).chain(servers.spare);
        bytes.extend(halves.flat_map(u16::to_ne_bytes));
    }
}

/// Packets of a seed, each plausible for the switch as the ones before have left it.
fn records(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut native = Native::new();
    let mut state = random::state_of(seed, &mut random);
    let mut bytes = record(&state);
    for _ in 0..PACKETS_OF_A_SEED {
        if random.once_in(4) {
            random::disturb(&mut random, &mut state);
            bytes.extend(record(&state));
        }
        let (packet, from_port) = random::packet(&mut random, &state);
        bytes.push(b'P');
        bytes.extend((packet.len() as u16).to_ne_bytes());
        bytes.extend(from_port.to_ne_bytes());
        bytes.extend(&packet);
        native.set(&state);
        native.process(&packet, from_port, None);
        state = native.get();
    }
    bytes
}

#[test]
fn no_packet_reaches_beyond_its_memory() {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let empty = built("empty.c");
    std::fs::write(&empty, "int main(void) { return 0; }\n").unwrap();
    if let Err(why) = compile(&compiler, &[empty], &built("empty")) {
        return println!("skipped: sanitizers: {compiler} has none: {}", why.lines().next().unwrap_or_default());
    }
    let dataplane = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dataplane");
    let sources = [dataplane.join("native.c"), dataplane.join("cases/sanitize.c")];
    compile(&compiler, &sources, &built("sanitize")).unwrap_or_else(|why| panic!("{why}"));

    let mut child = Command::new(built("sanitize"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().expect("piped");
    for seed in 0..SEEDS {
        if input.write_all(&records(seed)).is_err() {
            break; // It has ended: what it said follows.
        }
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let decided = String::from_utf8(output.stdout).unwrap();
    assert_eq!(decided.trim(), (SEEDS * PACKETS_OF_A_SEED).to_string(), "every packet was decided");
}
