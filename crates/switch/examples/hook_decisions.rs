//! What a decision costs in the kernel: `cargo run --release -p wayside-switch --features xdp --example
//! hook_decisions`, as root. Against a program that parses, looks up, compare-and-swaps one word and turns the frame
//! around (`dataplane/cases/timed.bpf.c`), in rounds of both, over switches of three sizes. Two readings:
//!
//! * whole: `BPF_PROG_TEST_RUN` of a program, once a packet. What a test run costs by itself (`nothing`), and with the
//!   preparation of a packet (`prepared`), is in it. Besides in a chain, where no packet's slot is known before the
//!   packet before it was answered, so that the processor cannot wait for both;
//! * work: many decisions in one run, less what it takes to prepare their packets.
//!
//! A decision is meant to take at most [`BAR`] times what the least program does; each size ends with whether it does.
//! The second line of each size is of a namespace with a budget (`dataplane/budget.h`), which is never spent.
//!
//! Paths of other builds' `timed.bpf.o` are measured in the same rounds: a change, beside what was before.

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, ProgramInput};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use wayside_wire::{NodeState, PORT, entry_at};

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/timed.bpf.o"));
/// Packets of one run; runs of a round, of which the fastest counts, as the one that nothing else on the machine held
/// up; rounds.
const PACKETS: u32 = 5_000;
const RUNS: usize = 8;
const ROUNDS: usize = 15;
/// How often the least program's time a decision is meant to take at most.
const BAR: f64 = 1.3;
const SIZES: [u32; 3] = [1_000, 1_000_000, 64_000_000];

/// What is timed: a program, and whether the next slot's address hangs on what was done with this one.
const READINGS: [(&str, bool); 9] = [
    ("whole_nothing", false),
    ("whole_idle", false),
    ("whole_swap", false),
    ("whole_decide", false),
    ("whole_swap", true),
    ("whole_decide", true),
    ("loop_idle", false),
    ("loop_swap", false),
    ("loop_decide", false),
];

/// A compiled `timed.bpf.c`, and whether its namespace has a budget.
struct Build {
    name: String,
    bytes: Vec<u8>,
    budget: bool,
}

/// A switch with one namespace and one node.
struct Timer {
    object: Object,
    slots: u32,
}

impl Timer {
    fn new(Build { bytes, budget, .. }: &Build, slots: u32) -> Timer {
        let mut open = ObjectBuilder::default().open_memory(bytes).expect("an object of BPF");
        let options = sys::bpf_map_create_opts { sz: size_of::<sys::bpf_map_create_opts>() as _, ..Default::default() };
        let pair = MapHandle::create(MapType::Devmap, Some("pair"), 4, 8, 2, &options).expect("room for a map");
        for mut map in open.maps_mut() {
            match map.name().to_str() {
                Some("slots") => map.set_max_entries(slots).expect("not loaded yet"),
                Some("pairs") => map.set_inner_map_fd(pair.as_fd()).expect("a map of maps"),
                _ => {}
            }
        }
        let object = open.load().expect("the kernel's verifier takes it; it needs root");
        // `struct ws_region`. A budget of four million requests a tick is never spent.
        let region = if *budget {
            [0, slots, 0, 1 << 22, 0, 0, 0, 0, 0, 0, 1, 0]
        } else {
            [0, slots, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        };
        set(&object, ".bss.regions", &words(&region));
        set(&object, ".bss.globals", &words(&[1, 1, 0, 0]));
        let node = [0, NodeState::Live as u32 * (1 << 24), 0, 0, 0, 0, 0, 0];
        set(&object, ".bss.nodes", &words(&[[0; 8], node].concat()));
        set(&object, "timing", &words(&[PACKETS, slots, 0, 0]));
        Timer { object, slots }
    }

    /// Nanoseconds for each packet of a run.
    fn run(&mut self, (name, chained): (&str, bool)) -> f64 {
        let mut timing = self.timing();
        timing[16] = chained.into();
        set(&self.object, "timing", &timing);
        let program = self.object.progs_mut().find(|program| program.name() == OsStr::new(name)).expect("it has it");
        let repeat = if name.starts_with("loop") { 1 } else { PACKETS };
        let frame = frame();
        let input = ProgramInput { data_in: Some(&frame), repeat, ..ProgramInput::default() };
        let output = program.test_run(input).expect("BPF_PROG_TEST_RUN");
        const XDP_TX: u32 = 3;
        assert_eq!(output.return_value, XDP_TX, "{name}");
        // The kernel tells whole nanoseconds, of the mean of a run of repetitions.
        let rest = if repeat == 1 { 0.0 } else { 0.5 };
        (output.duration.as_nanos() as f64 + rest) / f64::from(PACKETS / repeat)
    }

    /// `struct timing`.
    fn timing(&self) -> Vec<u8> {
        let timing = map(&self.object, "timing").lookup(&[0; 4], MapFlags::ANY).expect("it is there");
        timing.expect("an array has every key")
    }

    /// # Panics
    /// If a packet was not granted, or a swap came too late.
    fn check(&self) {
        assert_eq!(self.timing()[24..], [0; 8], "{} slots: packets failed", self.slots);
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn map<'o>(object: &'o Object, name: &str) -> libbpf_rs::Map<'o> {
    object.maps().find(|map| map.name() == name).expect("the object has it")
}

/// The map's first value, of which the rest is 0.
fn set(object: &Object, name: &str, value: &[u8]) {
    let map = map(object, name);
    let mut value = value.to_vec();
    value.resize(map.value_size() as usize, 0);
    map.update(&[0; 4], &value, MapFlags::ANY).expect("a value of its size");
}

/// Ethernet, IPv4 and UDP to the switch, around a packet of one entry that the programs write.
fn frame() -> Vec<u8> {
    let packet = vec![0; entry_at(1)];
    let length = (20 + 8 + packet.len()) as u16;
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend(length.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
    frame.extend([20_001, PORT, length - 20, 0].map(u16::to_be_bytes).concat());
    frame.extend(packet);
    frame
}

/// Rounds of every reading of every build, in turns.
fn measure(builds: &[Build], slots: u32) {
    let mut timers: Vec<Timer> = builds.iter().map(|build| Timer::new(build, slots)).collect();
    let mut taken = vec![[const { Vec::new() }; READINGS.len()]; timers.len()];
    for round in 0..ROUNDS {
        let mut fastest = vec![[f64::INFINITY; READINGS.len()]; timers.len()];
        for run in 0..RUNS {
            for turn in 0..timers.len() * READINGS.len() {
                let (reading, build) = (turn / timers.len(), (turn + run + round) % timers.len());
                let best = &mut fastest[build][reading];
                *best = best.min(timers[build].run(READINGS[reading]));
            }
        }
        for (taken, fastest) in taken.iter_mut().zip(&fastest) {
            taken.iter_mut().zip(fastest).for_each(|(taken, &fastest)| taken.push(fastest));
        }
    }
    for (Build { name, .. }, (timer, taken)) in builds.iter().zip(timers.iter().zip(&taken)) {
        timer.check();
        let compared = compared(taken).map(|(_, bare, own)| compare(&bare, &own)).concat();
        println!("{slots:<9}{name:<11}{:>8.1}{:>9.1}{compared}", median(&taken[0]), median(&taken[1]));
    }
    let said = compared(&taken[0]).map(|(what, bare, own)| {
        let ratio = median(&ratios(&bare, &own));
        format!("{what} {ratio:.2}: {}", if ratio <= BAR { "met" } else { "MISSED" })
    });
    println!("         meant to be at most {BAR}; {}", said.join(", "));
}

/// What a build took, each with what the least program took.
fn compared(taken: &[Vec<f64>; READINGS.len()]) -> [(&'static str, Vec<f64>, Vec<f64>); 3] {
    let [_, _, swap, decide, swap_chained, decide_chained, loop_idle, loop_swap, loop_decide] = taken;
    let less = |work: &[f64]| work.iter().zip(loop_idle).map(|(work, idle)| work - idle).collect();
    [
        ("whole", swap.clone(), decide.clone()),
        ("in a chain", swap_chained.clone(), decide_chained.clone()),
        ("work alone", less(loop_swap), less(loop_decide)),
    ]
}

fn ratios(bare: &[f64], own: &[f64]) -> Vec<f64> {
    own.iter().zip(bare).map(|(own, bare)| own / bare).collect()
}

/// Medians of both, and of their ratios; in brackets the ratios of a tenth and of nine tenths of the rounds.
fn compare(bare: &[f64], own: &[f64]) -> String {
    let mut ratios = ratios(bare, own);
    ratios.sort_unstable_by(f64::total_cmp);
    let [low, high] = [ROUNDS / 10, ROUNDS - 1 - ROUNDS / 10].map(|at| ratios[at]);
    format!("{:>8.1}{:>8.1}  {:.2} ({low:.2}-{high:.2})", median(bare), median(own), median(&ratios))
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let own = |name: &str, budget| Build { name: name.into(), bytes: PROGRAM.to_vec(), budget };
    let mut builds = vec![own("this build", false), own("budgeted", true)];
    for path in std::env::args().skip(1) {
        let name = path.rsplit('/').next().unwrap_or_default().chars().take(10).collect();
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        builds.push(Build { name, bytes, budget: false });
    }
    println!(
        "ns a packet on one processor: medians of {ROUNDS} rounds, in each the fastest of {RUNS} runs of {PACKETS}"
    );
    let [whole, chained, work] = ["whole programs", "whole, in a chain", "work alone"];
    println!("{:<37}{whole:>33}{chained:>33}{work:>33}", "");
    let columns = format!("{:>8}{:>8}{:>17}", "bare", "Wayside", "ratio");
    println!("{:<20}{:>8}{:>9}{columns}{columns}{columns}", "slots", "nothing", "prepared");
    for slots in SIZES {
        measure(&builds, slots);
    }
}
