//! That the program is not only for the kernel that these tests run on. Its stack, as kernels before 6.8 count it:
//! each function's is rounded up to 32 bytes (since then to 16), and whatever calls each other has 512 together; newer
//! ones let more through. And what the verifier walks through, of which the limit is a million instructions everywhere:
//! Linux 7.3 walks through a third more than 6.18, 6.1 through less. Where either is too much a switch finds itself in
//! userspace.
#![cfg(feature = "xdp")]

mod engine;

use libbpf_rs::libbpf_sys::{bpf_insn, bpf_program__set_log_buf};
use libbpf_rs::{AsRawLibbpf, ObjectBuilder};

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/wayside.bpf.o"));
const MOST: u32 = 512;
/// Of the million, on this kernel; the rest is for others, which are worse at seeing that two ways have met.
const WALKED: u32 = 600_000;
const ROUNDED_TO: u32 = 32;
/// What the verifier is to tell: a summary.
const STATISTICS: u32 = 4;

#[test]
fn the_program_has_room_on_older_kernels_stack_and_in_newer_ones_verifiers() {
    // SAFETY: reads a number.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: the program's stack: loading BPF needs root");
    }
    let mut said = vec![0u8; 1 << 20];
    let bytes = engine::bpf::object("wayside.bpf.o", PROGRAM);
    let mut open = ObjectBuilder::default().open_memory(&bytes).unwrap();
    for mut program in open.progs_mut() {
        if program.name() == "wayside" {
            program.set_log_level(STATISTICS);
            // SAFETY: a buffer of that length, which outlives the load.
            let set = unsafe {
                bpf_program__set_log_buf(program.as_libbpf_object().as_ptr(), said.as_mut_ptr().cast(), said.len() as _)
            };
            assert_eq!(set, 0);
        }
    }
    let object = open.load().expect("the kernel's verifier takes the program");
    let program = object.progs().find(|program| program.name() == "wayside").unwrap();
    let functions = Functions::of(program.insns());
    let said = String::from_utf8_lossy(&said);
    let walked = said.lines().find_map(|line| line.strip_prefix("processed ")?.split(' ').next()?.parse::<u32>().ok());
    let walked = walked.expect("the verifier tells its steps");
    assert!(walked <= WALKED, "the verifier walks through {walked} instructions");
    let Some(depths) = depths(&said) else {
        return println!("skipped: the program's stack: this kernel's verifier tells only the most");
    };
    assert_eq!(depths.len(), functions.starts.len(), "{depths:?} {:?}", functions.starts);
    let deepest = functions.deepest(0, &depths);
    assert!(deepest > ROUNDED_TO, "nothing calls anything: {depths:?}");
    assert!(deepest <= MOST, "{deepest} bytes of stack, of {depths:?}, called as {:?}", functions.calls);
}

/// Of each function, in the order of the program; None: the kernel adds them up itself (7.3).
fn depths(said: &str) -> Option<Vec<u32>> {
    let line = said.lines().find_map(|line| line.strip_prefix("stack depth ")).expect("the verifier tells the stack");
    let depths = || line.split('+').map(|depth| depth.trim().parse().expect("bytes")).collect();
    (!line.starts_with("max")).then(depths)
}

/// The functions of a program, the entry first.
struct Functions {
    /// Their first instructions.
    starts: Vec<usize>,
    /// Who calls whom, or has it called, by their numbers.
    calls: Vec<(usize, usize)>,
}

impl Functions {
    fn of(program: &[bpf_insn]) -> Functions {
        let targets = program.iter().enumerate().filter_map(|(at, insn)| {
            /// A call, of a function of the program's own; a pointer to one.
            const CALL: (u8, u8) = (0x85, 1);
            const POINTER: (u8, u8) = (0x18, 4);
            let is_one = [CALL, POINTER].contains(&(insn.code, insn.src_reg()));
            is_one.then(|| (at, (at as i64 + 1 + i64::from(insn.imm)) as usize))
        });
        let targets: Vec<(usize, usize)> = targets.collect();
        let mut starts: Vec<usize> = [0].into_iter().chain(targets.iter().map(|&(_, to)| to)).collect();
        starts.sort_unstable();
        starts.dedup();
        let owner = |at: usize| starts.partition_point(|&start| start <= at) - 1;
        let mut calls: Vec<(usize, usize)> = targets.iter().map(|&(at, to)| (owner(at), owner(to))).collect();
        calls.sort_unstable();
        calls.dedup();
        Functions { starts, calls }
    }

    /// The stack of a function and of whatever it calls.
    fn deepest(&self, function: usize, depths: &[u32]) -> u32 {
        let called = self.calls.iter().filter(|(by, _)| *by == function).map(|&(_, of)| self.deepest(of, depths));
        depths[function].max(1).next_multiple_of(ROUNDED_TO) + called.max().unwrap_or(0)
    }
}
