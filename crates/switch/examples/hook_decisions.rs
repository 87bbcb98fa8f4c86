//! What a decision costs in the kernel, without the way there: `cargo run --release -p wayside-switch --features xdp
//! --example hook_decisions`, as root. Against a program that parses, looks up, compare-and-swaps one word and turns the
//! frame around, in rounds of both, over switches of three sizes (`dataplane/cases/timed.bpf.c`).

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder, ProgramInput};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd};
use wayside_wire::{Entry, Header, NodeState, entry_at, entry_flag, kind, service};

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/timed.bpf.o"));
/// Decisions of one run, fewer than the smallest switch has slots; runs of a round; rounds.
const DECISIONS: u32 = 960;
const RUNS: usize = 40;
const ROUNDS: usize = 15;
const STRIDE: u64 = 611_953;
/// `struct ws_slot`, two words.
type Slot = [u64; 2];

/// The slots, as this process sees them.
struct Slots {
    start: *mut Slot,
    count: usize,
}

impl Slots {
    fn map(object: &Object, count: usize) -> Slots {
        let map = object.maps().find(|map| map.name() == "slots").expect("the object has it");
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (bytes, descriptor) = (count * size_of::<Slot>(), map.as_fd().as_raw_fd());
        // SAFETY: a new mapping of a file that we own; the kernel checks its length.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, descriptor, 0) };
        assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        Slots { start: start.cast(), count }
    }

    fn free(&self, index: usize) {
        assert!(index < self.count);
        // SAFETY: within the mapping; no program runs meanwhile.
        unsafe { self.start.add(index).write([0, 0]) };
    }
}

struct Timer {
    object: Object,
    slots: Slots,
    frame: Vec<u8>,
    at: u64,
}

impl Timer {
    fn new(slots: u32) -> Timer {
        let mut open = ObjectBuilder::default().open_memory(PROGRAM).expect("an object");
        let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as _,
            ..Default::default()
        };
        let pair = MapHandle::create(libbpf_rs::MapType::Devmap, Some("pair"), 4, 8, 2, &options).expect("a map");
        for mut map in open.maps_mut() {
            match map.name().to_str() {
                Some("slots") => map.set_max_entries(slots).expect("a size"),
                Some("pairs") => map.set_inner_map_fd(pair.as_fd()).expect("an inner map"),
                _ => {}
            }
        }
        let object = open.load().expect("the kernel's verifier takes it; it needs root");
        set(&object, "regions", 0, &words(&[0, slots, 0, 0]));
        let mut globals = words(&[1, 1, 0, 0]);
        globals.resize(value_size(&object, "globals"), 0);
        set(&object, "globals", 0, &globals);
        let mut node = vec![0; value_size(&object, "nodes")];
        node[..8].copy_from_slice(&((NodeState::Live as u64) << 56).to_ne_bytes());
        set(&object, "nodes", 1, &node);
        Timer { slots: Slots::map(&object, slots as usize), object, frame: frame(), at: 0 }
    }

    /// Nanoseconds for each of a run's decisions.
    fn run(&mut self, name: &str) -> f64 {
        let count = self.slots.count as u64;
        for step in 0..u64::from(DECISIONS) {
            self.slots.free(((self.at + step * STRIDE) % count) as usize);
        }
        let first = u32::try_from(self.at).expect("below the count");
        let mut timing = words(&[DECISIONS, count as u32, first, 1]);
        timing.extend([0; 8]);
        set(&self.object, "timing", 0, &timing);
        let program = self.object.progs_mut().find(|program| program.name() == OsStr::new(name)).expect("it has it");
        let mut out = [0; 2048];
        let input = ProgramInput { data_in: Some(&self.frame), data_out: Some(&mut out), ..ProgramInput::default() };
        let output = program.test_run(input).expect("BPF_PROG_TEST_RUN");
        let done = get(&self.object, "timing", 0);
        assert_eq!(done[16..24], u64::from(DECISIONS).to_ne_bytes(), "{name}: not all of them were granted");
        self.at = (self.at + u64::from(DECISIONS) * STRIDE) % count;
        output.duration.as_nanos() as f64 / f64::from(DECISIONS)
    }

    fn round(&mut self, name: &str) -> f64 {
        median(&mut (0..RUNS).map(|_| self.run(name)).collect::<Vec<_>>())
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn map<'o>(object: &'o Object, name: &str) -> libbpf_rs::Map<'o> {
    object.maps().find(|map| map.name() == name).expect("the object has it")
}

fn value_size(object: &Object, name: &str) -> usize {
    map(object, name).value_size() as usize
}

fn set(object: &Object, name: &str, key: u32, value: &[u8]) {
    map(object, name).update(&key.to_ne_bytes(), value, MapFlags::ANY).expect(name);
}

fn get(object: &Object, name: &str, key: u32) -> Vec<u8> {
    map(object, name).lookup(&key.to_ne_bytes(), MapFlags::ANY).expect(name).expect("an array has every key")
}

/// An ACQUIRE of node 1 in Ethernet, IPv4 and UDP.
fn frame() -> Vec<u8> {
    let mut packet = vec![0; entry_at(1)];
    let header = Header {
        service: service::LOCK,
        kind: kind::lock::ACQUIRE,
        count: 1,
        source: 1,
        epoch: 1,
        ..Header::default()
    };
    header.write(&mut packet);
    Entry { name: 7, holder: 1, flags: entry_flag::EXCLUSIVE, ..Entry::default() }.write(&mut packet, entry_at(0));
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 92, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
    frame.extend([0x4e, 0x21, 0x1d, 0xb0, 0, 72, 0, 0]);
    frame.extend(packet);
    frame
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    println!("in the kernel, one processor; ns a decision, medians of {ROUNDS} rounds of {RUNS} runs of {DECISIONS}");
    println!("{:<12}{:>10}{:>10}{:>24}", "slots", "bare", "Wayside", "ratio (lowest-highest)");
    for slots in [1_000, 1_000_000, 64_000_000] {
        let mut timer = Timer::new(slots);
        let (mut bare, mut own, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let order = if round % 2 == 0 { ["bare", "timed"] } else { ["timed", "bare"] };
            let idle = timer.round("idle");
            let [first, second] = order.map(|name| timer.round(name) - idle);
            let (one, other) = if round % 2 == 0 { (first, second) } else { (second, first) };
            bare.push(one);
            own.push(other);
            ratios.push(other / one);
        }
        let ratio = median(&mut ratios);
        let spread = format!("{ratio:.2} ({:.2}-{:.2})", ratios[0], ratios[ROUNDS - 1]);
        println!("{slots:<12}{:>10.1}{:>10.1}{spread:>24}", median(&mut bare), median(&mut own));
    }
}
