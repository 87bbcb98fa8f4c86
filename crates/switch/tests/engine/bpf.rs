//! The BPF build in this kernel: maps of its own, packets through BPF_PROG_TEST_RUN.

use std::fs;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{null_mut, slice_from_raw_parts_mut};

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};

use super::{
    DROP, Engine, Globals, NODES, Node, REGIONS, Race, Region, SLOTS, Slot, State, TABLE, TO_CONTROLLER, TO_NODE,
    Verdict,
};

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/wayside.bpf.o"));
const RACING: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/race.bpf.o"));

/// Ethernet, IPv4, UDP.
pub const ENVELOPE: usize = 14 + 20 + 8;
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
/// Room for the longest frame.
const FRAME: usize = 2_048;

const CLIENT: ([u8; 6], [u8; 4]) = ([2, 0, 0, 0, 0, 1], [10, 9, 0, 1]);
const SWITCH: ([u8; 6], [u8; 4]) = ([2, 0, 0, 0, 0, 2], [10, 9, 0, 2]);

/// A map of the program, mapped into this process as the controller would.
struct Mapped<T: 'static> {
    table: *mut [T],
}

impl<T> Mapped<T> {
    fn new(object: &Object, name: &str, count: usize) -> Mapped<T> {
        let map = object.maps().find(|map| map.name() == name).unwrap_or_else(|| panic!("no map {name}"));
        assert_eq!(map.value_size() as usize, size_of::<T>(), "{name}");
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let fd = map.as_fd().as_raw_fd();
        // SAFETY: a new mapping of a file that we own; the kernel checks its length.
        let start = unsafe { libc::mmap(null_mut(), count * size_of::<T>(), protection, libc::MAP_SHARED, fd, 0) };
        assert_ne!(start, libc::MAP_FAILED, "mmap of {name}: {}", std::io::Error::last_os_error());
        Mapped { table: slice_from_raw_parts_mut(start.cast(), count) }
    }

    /// Programs run only within `process`, so nobody else touches the table meanwhile.
    fn get(&self) -> &[T] {
        // SAFETY: mapped until drop, aligned to a page, integers alone.
        unsafe { &*self.table }
    }

    fn get_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { &mut *self.table }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: mapped with this length in `new`.
        unsafe { libc::munmap(self.table.cast(), self.table.len() * size_of::<T>()) };
    }
}

/// One of the two programs, loaded.
pub struct Bpf {
    object: Object,
    slots: Mapped<Slot>,
    nodes: Mapped<Node>,
    regions: Mapped<Region>,
    globals: Mapped<Globals>,
    /// Bytes that follow the packet in its frame, as Ethernet pads short ones.
    pub padding: usize,
    racing: bool,
}

impl Bpf {
    /// Why the program cannot run here, if it cannot; tests say so and stop.
    pub fn missing() -> Option<String> {
        // SAFETY: reads a number.
        if unsafe { libc::geteuid() } != 0 {
            return Some("loading BPF needs root".into());
        }
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        (!fs::exists("/sys/kernel/btf/vmlinux").unwrap_or(false)).then(|| format!("kernel {release} has no BTF"))
    }

    /// Loads the program, through the verifier. `racing`: the one with `dataplane/cases/race.h` in it.
    pub fn load(racing: bool) -> Bpf {
        // Per-CPU maps are read for the CPU that ran the program.
        // SAFETY: reads a number.
        run_on(unsafe { libc::sched_getcpu() } as usize);
        let mut open = ObjectBuilder::default().open_memory(if racing { RACING } else { PROGRAM }).unwrap();
        let mut slots = open.maps_mut().find(|map| map.name() == "slots").unwrap();
        slots.set_max_entries(SLOTS as u32).unwrap();
        let object = open.load().expect("the kernel's verifier takes the program");
        Bpf {
            slots: Mapped::new(&object, "slots", SLOTS),
            nodes: Mapped::new(&object, "nodes", TABLE),
            regions: Mapped::new(&object, "regions", TABLE),
            globals: Mapped::new(&object, "globals", 1),
            object,
            padding: 0,
            racing,
        }
    }

    /// What this CPU has of a per-CPU map's one element.
    fn of_this_cpu(&self, name: &str) -> Vec<u8> {
        let map = self.object.maps().find(|map| map.name() == name).unwrap();
        let of_cpus = map.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
        // SAFETY: reads a number.
        let cpu = unsafe { libc::sched_getcpu() };
        of_cpus[usize::try_from(cpu).unwrap()].clone()
    }

    /// Runs the program on a whole frame: its return code, and the frame that came out.
    pub fn run(&self, frame: &[u8]) -> (u32, Vec<u8>) {
        let program = self.object.progs_mut().next().expect("one program");
        let mut out = [0; FRAME];
        let input = ProgramInput { data_in: Some(frame), data_out: Some(&mut out), ..ProgramInput::default() };
        let output = program.test_run(input).expect("BPF_PROG_TEST_RUN");
        (output.return_value, output.data.expect("asked for").to_vec())
    }

    /// All that was ever counted.
    pub fn total(&self) -> u64 {
        self.counters().into_iter().sum()
    }

    fn verdict(&self) -> Verdict {
        let bytes = self.of_this_cpu("verdicts");
        assert!(bytes.len() >= size_of::<Verdict>());
        // SAFETY: enough bytes, of integers alone.
        unsafe { bytes.as_ptr().cast::<Verdict>().read_unaligned() }
    }

    /// Where the frame goes that the program made of a packet, by a reading of its own of what a verdict means.
    fn expected_frame(&self, verdict: &Verdict, packet: &[u8], from_port: u16) -> Vec<u8> {
        let mut way = to_switch(from_port);
        if verdict.action != TO_CONTROLLER {
            way.macs.swap(0, 1);
            way.ips.swap(0, 1);
            way.ports.swap(0, 1);
        }
        if verdict.action == TO_NODE {
            let node = self.nodes.get()[usize::from(verdict.handle)];
            way.ips[1] = node.address.to_be_bytes();
            way.ports[1] = if verdict.port == 0 { node.agent_port } else { verdict.port };
        }
        frame(&way, packet, false)
    }
}

impl Engine for Bpf {
    fn name(&self) -> &'static str {
        if self.racing { "BPF, racing" } else { "BPF" }
    }

    fn set(&mut self, state: &State) {
        self.slots.get_mut().copy_from_slice(&state.slots);
        self.nodes.get_mut()[..NODES].copy_from_slice(&state.nodes);
        self.regions.get_mut()[..REGIONS].copy_from_slice(&state.regions);
        self.globals.get_mut()[0] = state.globals;
    }

    fn get(&self) -> State {
        State {
            slots: self.slots.get().try_into().unwrap(),
            nodes: self.nodes.get()[..NODES].try_into().unwrap(),
            regions: self.regions.get()[..REGIONS].try_into().unwrap(),
            globals: self.globals.get()[0],
        }
    }

    fn counters(&self) -> Vec<u64> {
        let bytes = self.of_this_cpu("counters");
        bytes.chunks_exact(8).map(|chunk| u64::from_ne_bytes(chunk.try_into().unwrap())).collect()
    }

    fn process(&mut self, packet: &[u8], from_port: u16, race: Option<Race>) -> (Verdict, Vec<u8>) {
        assert_eq!(race.is_some(), self.racing);
        self.globals.get_mut()[0].reserved = race.map_or(0, Race::word);
        let mut sent = frame(&to_switch(from_port), packet, true);
        sent.resize(sent.len() + self.padding, 0xee);
        let (code, mut out) = self.run(&sent);
        self.globals.get_mut()[0].reserved = 0;
        let verdict = self.verdict();
        if verdict.action == DROP {
            assert_eq!(code, XDP_DROP);
            out.truncate(ENVELOPE + packet.len());
        } else {
            assert_eq!(code, if verdict.action == TO_CONTROLLER { XDP_PASS } else { XDP_TX });
            assert_eq!(out.len(), ENVELOPE + usize::from(verdict.length), "the frame ends with the packet");
            let expected = self.expected_frame(&verdict, &out[ENVELOPE..], from_port);
            assert_eq!(out, expected, "the frame of {verdict:?}");
        }
        (verdict, out.split_off(ENVELOPE))
    }
}

/// From the first of each to the second.
pub struct Way {
    pub macs: [[u8; 6]; 2],
    pub ips: [[u8; 4]; 2],
    pub ports: [u16; 2],
}

/// A packet's way to the switch.
pub fn to_switch(from_port: u16) -> Way {
    Way { macs: [CLIENT.0, SWITCH.0], ips: [CLIENT.1, SWITCH.1], ports: [from_port, 7_600] }
}

/// Ethernet, IPv4 and UDP around a packet; the sender's carries a UDP checksum, which the switch does not look at.
pub fn frame(way: &Way, packet: &[u8], by_sender: bool) -> Vec<u8> {
    let length = u16::try_from(20 + 8 + packet.len()).unwrap();
    let mut frame = Vec::with_capacity(ENVELOPE + packet.len());
    frame.extend(way.macs[1]);
    frame.extend(way.macs[0]);
    frame.extend([0x08, 0x00]);
    frame.extend([0x45, 0]);
    frame.extend(length.to_be_bytes());
    frame.extend([0; 4]);
    frame.extend([64, 17, 0, 0]);
    frame.extend(way.ips[0]);
    frame.extend(way.ips[1]);
    let sum: u32 = frame[14..34].chunks(2).map(|half| u32::from(u16::from_be_bytes([half[0], half[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame.extend(way.ports[0].to_be_bytes());
    frame.extend(way.ports[1].to_be_bytes());
    frame.extend((length - 20).to_be_bytes());
    frame.extend(if by_sender { [0xab, 0xcd] } else { [0, 0] });
    frame.extend(packet);
    frame
}

/// Keeps this thread on a CPU.
pub fn run_on(cpu: usize) {
    // SAFETY: a set of our own, of the size that is told.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set), 0);
    }
}
