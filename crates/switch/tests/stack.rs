//! The program's stack, as kernels before 6.8 count it: each function's is rounded up to 32 bytes (since then to 16),
//! and whatever calls each other has 512 together. Newer kernels, where these tests run, let more through, and a switch on
//! Debian 12's 6.1 would find itself in userspace.
#![cfg(feature = "xdp")]

use libbpf_rs::libbpf_sys::{bpf_insn, bpf_program__set_log_buf};
use libbpf_rs::{AsRawLibbpf, ObjectBuilder};

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/wayside.bpf.o"));
const MOST: u32 = 512;
const ROUNDED_TO: u32 = 32;
/// What the verifier is to tell: a summary.
const STATISTICS: u32 = 4;

#[test]
fn the_program_has_room_on_the_stack_of_kernels_before_6_8() {
    // SAFETY: reads a number.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: the program's stack: loading BPF needs root");
    }
    let mut said = vec![0u8; 1 << 20];
    let mut open = ObjectBuilder::default().open_memory(PROGRAM).unwrap();
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
    let depths = depths(&String::from_utf8_lossy(&said));
    assert_eq!(depths.len(), functions.starts.len(), "{depths:?} {:?}", functions.starts);
    let deepest = functions.deepest(0, &depths);
    assert!(deepest > ROUNDED_TO, "nothing calls anything: {depths:?}");
    assert!(deepest <= MOST, "{deepest} bytes of stack, of {depths:?}, called as {:?}", functions.calls);
}

/// Of each function, in the order of the program.
fn depths(said: &str) -> Vec<u32> {
    let line = said.lines().find_map(|line| line.strip_prefix("stack depth ")).expect("the verifier tells the stack");
    line.split('+').map(|depth| depth.trim().parse().expect("bytes")).collect()
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
