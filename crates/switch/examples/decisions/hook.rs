//! The same decisions by the XDP program, in this kernel: test runs of single packets, each on a slot of its own.
//!
//! A test run's time has some 30 ns of the kernel's own in it, and a single one finds colder caches than a stream
//! would: the differences count. What is dropped stays as it was, and is run again and again at once, as in a stream.

use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, ProgramInput};
use wayside_protocol::chain::Key;
use wayside_protocol::memory::{NodeWord, SlotWord};
use wayside_protocol::seal::Direction;
use wayside_wire::NodeState;

use super::chain::{self, GROUP, LENGTHS, SEED};
use super::{AGENT, NAMESPACE, NODE, OPEN, PERIOD, SECRET, UNHELD, acquire, heartbeat, queue};

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/wayside.bpf.o"));
const RUNS: u32 = 20_000;
const SLOTS: u32 = 1 << 20;
/// Keys of the large store, and buckets with some four places for each of them.
const KEYS: u32 = 1_000_000;
const BUCKETS: u32 = 1 << 19;
/// Queues, and buckets with some eight places for each of them.
const QUEUES: u32 = 1 << 16;
const NAME_BUCKETS: u32 = 1 << 16;

#[path = "../../tests/engine/hash.rs"]
mod hash;

/// The packet of a run.
type Packet = fn(u32) -> Vec<u8>;

/// Prints what the programs cost.
pub fn measure() {
    // SAFETY: reads a number.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: the XDP program: loading BPF needs root");
    }
    let object = load();
    for name in ["wayside", "wayside_out"] {
        println!("{name}: {} instructions verified", verified(&object, name));
    }
    println!("XDP program, median ns of {RUNS} test runs");
    println!("{:<40}{:>11}{:>9}", "", "", "signed");
    let again = [false, true].map(|signed| stream(&object, signed));
    println!("{:<40}{:>11}{:>9}", "HEARTBEAT again, dropped, in a stream", again[0], again[1]);
    let works: [(&str, SlotWord, Packet); 4] = [
        ("HEARTBEAT again, dropped", UNHELD, |_| heartbeat(0)),
        ("ACQUIRE, granted with the agency", UNHELD, |run| acquire(&[run], run.into())),
        ("ACQUIRE, joined, without its copy", OPEN, |run| acquire(&[run], run.into())),
        ("ACQUIRE of 32 names, all", UNHELD, |run| {
            let slots: Vec<u32> = (0..32).map(|index| (run * 32 + index) % SLOTS).collect();
            acquire(&slots, u64::from(run) * 32)
        }),
    ];
    for (name, slot, packet) in works {
        for index in 0..SLOTS {
            set(&object, "slots", index, &[slot.pack().to_ne_bytes(), [0; 8]].concat());
        }
        let [plain, signed] = [false, true].map(|signed| median(&object, packet, signed));
        println!("{name:<40}{plain:>11}{signed:>9}");
    }
    measure_queues(&object);
    measure_chain(&object);
}

/// The same for locks with a queue: two acquire each, and release in the order in which they asked.
fn measure_queues(object: &Object) {
    /// From the turn of a queue that a packet belongs to.
    type Step = fn(u32, u64) -> Vec<u8>;
    let steps: [(&str, Step); 4] = [
        ("queue: ACQUIRE, granted at once", |index, turn| queue::acquire(NODE, index, turn)),
        ("queue: ACQUIRE, waits", |index, turn| queue::acquire(AGENT, index, turn)),
        ("queue: RELEASE, granted to the next", |index, turn| queue::release(NODE, index, turn, 2 * turn - 1)),
        ("queue: RELEASE, nobody is next", |index, turn| queue::release(AGENT, index, turn, 2 * turn)),
    ];
    println!("{:<40}{:>11}{:>9}{:>11}{:>9}", "", "256 queues", "signed", "64 k queues", "signed");
    let mut medians = [const { Vec::new() }; 4];
    for queues in [256, QUEUES] {
        for signed in [false, true] {
            put_queues(object);
            authenticate(object, signed);
            let mut taken = [const { Vec::new() }; 4];
            for run in 0..u64::from(RUNS) {
                let (index, turn) = queue::at(run, queues);
                for ((_, packet), taken) in steps.iter().zip(&mut taken) {
                    taken.push(took(object, packet(index, turn), signed));
                }
            }
            let (index, turns) = queue::at(u64::from(RUNS) - 1, queues);
            let map = object.maps().find(|map| map.name() == "queues").expect("the object has it");
            let queue = map.lookup(&(index + 1).to_ne_bytes(), MapFlags::ANY).expect("it is there").expect("as above");
            let tickets = [2 * turns + 1; 3].map(u64::to_ne_bytes).concat();
            assert_eq!(queue[32..56], tickets, "two were granted each turn, and both are over");
            medians.iter_mut().zip(taken).for_each(|(medians, taken)| medians.push(middle(taken)));
        }
    }
    for ((name, _), medians) in steps.iter().zip(medians) {
        println!("{name:<40}{:>11}{:>9}{:>11}{:>9}", medians[0], medians[1], medians[2], medians[3]);
    }
}

/// Queue n + 1 is that of name n.
fn put_queues(object: &Object) {
    set(
        object,
        "directory",
        0,
        &[queue::SEED.to_ne_bytes().as_slice(), &(NAME_BUCKETS - 1).to_ne_bytes(), &[0; 4]].concat(),
    );
    let mut buckets = vec![[0u64; 8]; NAME_BUCKETS as usize];
    for index in 0..QUEUES {
        let name = queue::name(index);
        let hash = hash::hash(queue::SEED, NAMESPACE, Key { high: name, low: 0, check: 0 });
        let choices = hash::buckets_of(hash, NAME_BUCKETS - 1);
        let place = choices.into_iter().find_map(|bucket| {
            let free = buckets[bucket as usize].iter().position(|place| *place == 0)?;
            Some((bucket as usize, free))
        });
        let (bucket, free) = place.expect("eight places for a name");
        buckets[bucket][free] = hash >> 32 << 32 | u64::from(index + 1);
        let words = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let (namespace, region) = (words(NAMESPACE.into(), PERIOD.epoch), words(index * queue::CELLS, queue::CELLS));
        let queue = [0, name, namespace, region, 1, 1, 1, 0, 0, 0, 0, 0];
        set(object, "queues", index + 1, &queue.map(u64::to_ne_bytes).concat());
    }
    for (number, bucket) in (0..).zip(&buckets) {
        set(object, "names", number, &bucket.map(u64::to_ne_bytes).concat());
    }
}

/// The same for keys, at the head of a chain of one.
fn measure_chain(object: &Object) {
    put_keys(object);
    println!("{:<40}{:>11}{:>9}{:>11}{:>9}", "", "1 k keys", "signed", "1 M keys", "signed");
    let mut requests = 0;
    for length in LENGTHS {
        for (name, is_write) in [("WRITE", true), ("READ", false)] {
            print!("{:<40}", format!("{name} of {length} bytes"));
            for keys in [1_000, KEYS] {
                // What is read has been written with this length: the same keys again.
                let medians = [false, true].map(|signed| {
                    let mut packet = |run: u32| {
                        requests += 1;
                        let index = (u64::from(run) * super::STRIDE % u64::from(keys)) as u32;
                        if is_write { chain::write(index, length, requests) } else { chain::read(index) }
                    };
                    median(object, &mut packet, signed)
                });
                print!("{:>11}{:>9}", medians[0], medians[1]);
            }
            println!();
        }
    }
}

/// Item n has key n.
fn put_keys(object: &Object) {
    set(object, "store", 0, &[SEED.to_ne_bytes().as_slice(), &(BUCKETS - 1).to_ne_bytes(), &[0; 4]].concat());
    set(
        object,
        "groups",
        GROUP.into(),
        &[chain::PLACE.pack(), u64::from(KEYS), NAMESPACE.into()].map(u64::to_ne_bytes).concat(),
    );
    let mut buckets = vec![[0u64; 8]; BUCKETS as usize];
    for index in 0..KEYS {
        let key = chain::key(index);
        let hash = hash::hash(SEED, GROUP, key);
        let choices = hash::buckets_of(hash, BUCKETS - 1);
        let place = choices.into_iter().find_map(|bucket| {
            let free = buckets[bucket as usize].iter().position(|place| *place == 0)?;
            Some((bucket as usize, free))
        });
        let (bucket, free) = place.expect("four places for a key");
        buckets[bucket][free] = hash >> 32 << 32 | u64::from(index + 1);
        let mut item = [0u64; 42];
        item[1..4].copy_from_slice(&[key.high, key.low, key.check << 17 | u64::from(GROUP + 1)]);
        set(object, "items", index + 1, &item.map(u64::to_ne_bytes).concat());
    }
    for (number, bucket) in (0..).zip(&buckets) {
        set(object, "buckets", number, &bucket.map(u64::to_ne_bytes).concat());
    }
}

/// A packet that is checked, and then is a replay.
fn stream(object: &Object, signed: bool) -> u64 {
    authenticate(object, signed);
    let mut packet = heartbeat(0);
    SECRET.key(Direction::Up, PERIOD).sign(0, &mut packet);
    let frame = frame(&packet);
    let program = object.progs_mut().find(|program| program.name() == "wayside").expect("the object has it");
    let took = (0..101)
        .map(|_| {
            let input = ProgramInput { data_in: Some(&frame), repeat: RUNS, ..ProgramInput::default() };
            program.test_run(input).expect("BPF_PROG_TEST_RUN").duration.as_nanos() as u64
        })
        .collect();
    middle(took)
}

fn authenticate(object: &Object, signed: bool) {
    let globals = [PERIOD.epoch, 1, 0, signed.into(), 0, 0];
    set(object, "globals", 0, &globals.map(u32::to_ne_bytes).concat());
}

fn median(object: &Object, mut packet: impl FnMut(u32) -> Vec<u8>, signed: bool) -> u64 {
    authenticate(object, signed);
    // Far from the one before, and met once.
    let at = |run: u32| (u64::from(run) * super::STRIDE % u64::from(SLOTS / 32)) as u32;
    middle((0..RUNS).map(|run| took(object, packet(at(run)), signed)).collect())
}

fn middle(mut taken: Vec<u64>) -> u64 {
    taken.sort_unstable();
    taken[taken.len() / 2]
}

/// Nanoseconds of a test run. Packets of either node are signed.
fn took(object: &Object, mut packet: Vec<u8>, signed: bool) -> u64 {
    if signed {
        SECRET.key(Direction::Up, PERIOD).sign(0, &mut packet);
    }
    let frame = frame(&packet);
    let program = object.progs_mut().find(|program| program.name() == "wayside").expect("the object has it");
    let input = ProgramInput { data_in: Some(&frame), ..ProgramInput::default() };
    program.test_run(input).expect("BPF_PROG_TEST_RUN").duration.as_nanos() as u64
}

/// One port, by which everything comes and goes, and both nodes behind it.
fn load() -> Object {
    let mut open = ObjectBuilder::default().open_memory(PROGRAM).expect("an object of BPF");
    let options = sys::bpf_map_create_opts { sz: size_of::<sys::bpf_map_create_opts>() as _, ..Default::default() };
    let pair = MapHandle::create(MapType::Devmap, Some("pair"), 4, 8, 2, &options).expect("room for a map");
    for mut map in open.maps_mut() {
        match map.name().to_str() {
            Some("pairs") => map.set_inner_map_fd(pair.as_fd()).expect("a map of maps"),
            Some("slots") => map.set_max_entries(SLOTS).expect("not loaded yet"),
            Some("buckets") => map.set_max_entries(BUCKETS).expect("not loaded yet"),
            Some("items") => map.set_max_entries(KEYS + 1).expect("not loaded yet"),
            Some("queues") => map.set_max_entries(QUEUES + 1).expect("not loaded yet"),
            Some("cells") => map.set_max_entries(QUEUES * queue::CELLS).expect("not loaded yet"),
            Some("names") => map.set_max_entries(NAME_BUCKETS).expect("not loaded yet"),
            Some("lanes") => map.set_max_entries(1 << 20).expect("not loaded yet"),
            _ => {}
        }
    }
    let object = open.load().expect("the kernel's verifier takes the program");
    set(&object, "regions", NAMESPACE.into(), &[0, SLOTS, 0, 0].map(u32::to_ne_bytes).concat());
    let keys = SECRET.keys(PERIOD);
    let halves = [keys.up.0, keys.down.0, [0; 2], [0; 2]].concat();
    let keys = [[2, 0, 0, 0].map(u32::to_ne_bytes).concat(), halves.into_iter().flat_map(u64::to_ne_bytes).collect()];
    for handle in [NODE, AGENT] {
        let word = NodeWord { state: NodeState::Live, sequence: 0 }.pack();
        let mut node = [word, 0, 0].map(u64::to_ne_bytes).concat();
        node.extend(0x0a09_0001u32.to_ne_bytes());
        node.extend([10_000 + handle, NAMESPACE].map(u16::to_ne_bytes).concat());
        set(&object, "nodes", handle.into(), &node);
        set(&object, "keys", handle.into(), &keys.concat());
        set(&object, "ways", handle.into(), &(1u64 << 48 | 1).to_ne_bytes());
    }
    const LOOPBACK: u32 = 1;
    set(&object, "ports", 0, &[LOOPBACK.to_ne_bytes().as_slice(), &[0; 8]].concat());
    set(&object, "indexes", LOOPBACK, &[0; 4]);
    set(&object, "pairs", 0, &pair.as_fd().as_raw_fd().to_ne_bytes());
    object
}

fn set(object: &Object, name: &str, key: u32, value: &[u8]) {
    let map =
        object.maps().find(|map| map.name().to_str().is_some_and(|full| full.trim_start_matches(".bss.") == name));
    let map = map.expect("the object has it");
    if map.value_size() as usize == value.len() {
        return map.update(&key.to_ne_bytes(), value, MapFlags::ANY).expect("a value of its size");
    }
    // A table of the program's own is one value.
    let mut table = map.lookup(&[0; 4], MapFlags::ANY).expect("it is there").expect("an array has every key");
    table[key as usize * value.len()..][..value.len()].copy_from_slice(value);
    map.update(&[0; 4], &table, MapFlags::ANY).expect("a value of its size");
}

/// What the verifier walked through.
fn verified(object: &Object, name: &str) -> u32 {
    let program = object.progs().find(|program| program.name() == name).expect("the object has it");
    let mut info = sys::bpf_prog_info::default();
    let mut length = size_of::<sys::bpf_prog_info>() as u32;
    // SAFETY: a structure of zeros and its length, which outlive the call.
    let failed = unsafe {
        sys::bpf_obj_get_info_by_fd(program.as_fd().as_raw_fd(), (&raw mut info).cast(), &raw mut length) != 0
    };
    if failed { 0 } else { info.verified_insns }
}

/// Ethernet, IPv4 and UDP to the switch's port.
fn frame(packet: &[u8]) -> Vec<u8> {
    let length = (20 + 8 + packet.len()) as u16;
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend(length.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
    frame.extend([20_001, wayside_wire::PORT, length - 20, 0].map(u16::to_be_bytes).concat());
    frame.extend(packet);
    frame
}
