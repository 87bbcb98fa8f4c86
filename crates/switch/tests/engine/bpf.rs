//! The BPF build in this kernel: maps of its own, packets through BPF_PROG_TEST_RUN.

use std::env;
use std::fs;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::ptr::{null_mut, slice_from_raw_parts_mut};
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, ProgramInput, RingBufferBuilder};

use super::{
    ALL_RECORDS, BUCKETS, Bucket, CELLS, Cell, DROP, Directory, Engine, GROUPS, Globals, Group, ITEMS, Item, Keys,
    LANES as CLIENT_LANES, Lane, NAMES, NODES, Node, QUEUES, Queue, RECORDS, REGIONS, Race, Record, Region, SLOTS,
    Servers, Slot, State, Store, TABLE, TO_CONTROLLER, TO_NODE, Verdict, counter_names,
};

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/observed.bpf.o"));
const RACING: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/race.bpf.o"));

/// Ethernet, IPv4, UDP.
pub const ENVELOPE: usize = 14 + 20 + 8;
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
const XDP_REDIRECT: u32 = 4;
/// Test runs come in by the loopback interface.
pub const LOOPBACK: u32 = 1;
/// `struct ws_counters`, and the lanes of threads before those of CPUs.
const LANE: usize = 128;
const LANES: usize = 16 + 64;
/// `struct ws_upcall` before its packet.
const UPCALL: usize = 16;
/// `WS_PORTS`.
const PORTS: u32 = 16;
/// Room for the longest frame.
const FRAME: usize = 2_048;

/// No byte of one's is the other's.
pub const CLIENT: ([u8; 6], [u8; 4]) = ([0x02, 0x11, 0x12, 0x13, 0x14, 0x15], [10, 9, 0, 1]);
pub const SWITCH: ([u8; 6], [u8; 4]) = ([0x0e, 0x21, 0x22, 0x23, 0x24, 0x25], [10, 9, 0, 2]);

/// A map of the program, mapped into this process as the controller would.
struct Mapped<T: 'static> {
    table: *mut [T],
}

impl<T> Mapped<T> {
    fn new(object: &Object, name: &str, count: usize) -> Mapped<T> {
        let map = object.maps().find(|map| map.name() == name).unwrap_or_else(|| panic!("no map {name}"));
        // A table of the program's own is one value.
        let whole = if name.starts_with('.') { count } else { 1 };
        assert_eq!(map.value_size() as usize, whole * size_of::<T>(), "{name}");
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

/// An object as it was compiled with these tests. Where `WAYSIDE_OBJECTS` names a directory, the one of this name
/// there: `cargo xtask mutate core` tries data planes that the tests were not built with.
pub fn object(name: &str, built: &[u8]) -> Vec<u8> {
    let Some(directory) = env::var_os("WAYSIDE_OBJECTS") else { return built.to_vec() };
    let path = Path::new(&directory).join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// `struct ws_upcall`: what the daemon is asked to do with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upcall {
    pub from: [u8; 4],
    pub from_port: u16,
    pub action: u16,
    pub handle: u16,
    pub port: u16,
    pub copy: u16,
    pub packet: Vec<u8>,
}

/// One of the two programs, loaded.
pub struct Bpf {
    object: Object,
    /// Two ports at a time: empty, as nothing really leaves.
    pair: MapHandle,
    slots: Mapped<Slot>,
    nodes: Mapped<Node>,
    regions: Mapped<Region>,
    keys: Mapped<Keys>,
    globals: Mapped<Globals>,
    groups: Mapped<Group>,
    buckets: Mapped<Bucket>,
    items: Mapped<Item>,
    lanes: Mapped<Lane>,
    journal: Mapped<Record>,
    store: Mapped<Store>,
    queues: Mapped<Queue>,
    cells: Mapped<Cell>,
    names: Mapped<Bucket>,
    servers: Mapped<Servers>,
    directory: Mapped<Directory>,
    counters: Mapped<[u64; LANE]>,
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
        Bpf::load_for(racing, [0; 4])
    }

    /// The same, of a switch of this address alone. All zeros: of any.
    pub fn load_for(racing: bool, address: [u8; 4]) -> Bpf {
        // Per-CPU maps are read for the CPU that ran the program.
        // SAFETY: reads a number.
        run_on(unsafe { libc::sched_getcpu() } as usize);
        let bytes = if racing { object("race.bpf.o", RACING) } else { object("observed.bpf.o", PROGRAM) };
        let mut open = ObjectBuilder::default().open_memory(&bytes).unwrap();
        let of_keys = [("buckets", BUCKETS), ("items", ITEMS), ("lanes", CLIENT_LANES)];
        let of_queues = [("queues", QUEUES), ("cells", CELLS), ("names", NAMES)];
        for (name, count) in [("slots", SLOTS)].into_iter().chain(of_keys).chain(of_queues) {
            let mut map = open.maps_mut().find(|map| map.name() == name).unwrap();
            map.set_max_entries(count as u32).unwrap();
        }
        let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as _,
            ..Default::default()
        };
        // One port, by which everything comes and goes.
        let pair = MapHandle::create(MapType::Devmap, Some("pair"), 4, 8, 2, &options).unwrap();
        for mut map in open.maps_mut() {
            if map.name() == "pairs" {
                map.set_inner_map_fd(pair.as_fd()).unwrap();
            }
            if map.name().to_string_lossy().ends_with(".rodata") {
                let settings = map.initial_value_mut().expect("it has one");
                settings[..4].copy_from_slice(&u32::from_be_bytes(address).to_ne_bytes());
            }
        }
        let object = open.load().expect("the kernel's verifier takes the program");
        let bpf = Bpf {
            pair,
            counters: Mapped::new(&object, "counters", LANES),
            slots: Mapped::new(&object, "slots", SLOTS),
            nodes: Mapped::new(&object, ".bss.nodes", TABLE),
            regions: Mapped::new(&object, ".bss.regions", TABLE),
            keys: Mapped::new(&object, "keys", TABLE),
            globals: Mapped::new(&object, ".bss.globals", 1),
            groups: Mapped::new(&object, ".bss.groups", TABLE),
            buckets: Mapped::new(&object, "buckets", BUCKETS),
            items: Mapped::new(&object, "items", ITEMS),
            lanes: Mapped::new(&object, "lanes", CLIENT_LANES),
            journal: Mapped::new(&object, "journal", ALL_RECORDS),
            store: Mapped::new(&object, ".bss.store", 1),
            queues: Mapped::new(&object, "queues", QUEUES),
            cells: Mapped::new(&object, "cells", CELLS),
            names: Mapped::new(&object, "names", NAMES),
            servers: Mapped::new(&object, ".bss.servers", TABLE),
            directory: Mapped::new(&object, ".bss.directory", 1),
            object,
            padding: 0,
            racing,
        };
        (0..=u16::MAX).for_each(|handle| bpf.set_way(handle, Some((0, CLIENT.0))));
        bpf.set_port(0, LOOPBACK, SWITCH.0);
        bpf.set_index(LOOPBACK, 0);
        bpf.join_ports(0, 0);
        bpf
    }

    fn update(&self, name: &str, key: u32, value: &[u8]) {
        let map = self.object.maps().find(|map| map.name() == name).unwrap_or_else(|| panic!("no map {name}"));
        map.update(&key.to_ne_bytes(), value, MapFlags::ANY).unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// A node's way: the port by which it is reached, and the next hop.
    pub fn set_way(&self, handle: u16, way: Option<(u8, [u8; 6])>) {
        let word = way.map_or(0, |(port, [a, b, c, d, e, f])| u64::from_be_bytes([0, port + 1, a, b, c, d, e, f]));
        self.update("ways", handle.into(), &word.to_ne_bytes());
    }

    /// The way that is known.
    pub fn way(&self, handle: u16) -> Option<(u8, [u8; 6])> {
        let map = self.object.maps().find(|map| map.name() == "ways").unwrap();
        let word = map.lookup(&u32::from(handle).to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
        let [_, port, hop @ ..] = u64::from_ne_bytes(word.try_into().unwrap()).to_be_bytes();
        port.checked_sub(1).map(|port| (port, hop))
    }

    /// A port's interface and own address.
    pub fn set_port(&self, port: u32, interface: u32, address: [u8; 6]) {
        let mut value = interface.to_ne_bytes().to_vec();
        value.extend(address);
        value.extend([0; 2]);
        self.update("ports", port, &value);
    }

    /// Which port this interface is.
    pub fn set_index(&self, interface: u32, port: u32) {
        self.update("indexes", interface, &port.to_ne_bytes());
    }

    /// Lets what comes in by other ports leave by this one: by an interface that is there, whichever that is.
    pub fn let_out(&self, port: u32) {
        self.update("out", port, &u64::from(LOOPBACK).to_le_bytes());
    }

    /// Lets pairs leave, the GRANT by the first port and the JOIN by the second.
    pub fn join_ports(&self, first: u32, second: u32) {
        self.update("pairs", first * PORTS + second, &self.pair.as_fd().as_raw_fd().to_ne_bytes());
    }

    /// What this CPU has of a per-CPU map's one element.
    fn of_this_cpu(&self, name: &str) -> Vec<u8> {
        let map = self.object.maps().find(|map| map.name() == name).unwrap();
        let of_cpus = map.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
        // SAFETY: reads a number.
        let cpu = unsafe { libc::sched_getcpu() };
        of_cpus[usize::try_from(cpu).unwrap()].clone()
    }

    /// Forgets the ways to all nodes: packets to them are the daemon's to send.
    pub fn forget_ways(&self) {
        (0..=u16::MAX).for_each(|handle| self.set_way(handle, None));
    }

    /// What has been handed up to the daemon since.
    pub fn upcalls(&self) -> Vec<Upcall> {
        let found = std::cell::RefCell::new(vec![]);
        let map = self.object.maps().find(|map| map.name() == "upcalls").unwrap();
        let mut ring = RingBufferBuilder::new();
        ring.add(&map, |bytes| {
            let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
            found.borrow_mut().push(Upcall {
                from: u32::from_ne_bytes(bytes[..4].try_into().unwrap()).to_be_bytes(),
                from_port: half(4),
                action: half(6),
                handle: half(8),
                port: half(10),
                copy: half(12),
                packet: bytes[UPCALL..UPCALL + usize::from(half(14))].to_vec(),
            });
            0
        })
        .unwrap();
        ring.build().unwrap().consume().unwrap();
        found.take()
    }

    /// Waits until something has been handed up since, and says whether anybody was woken for it in time.
    pub fn is_woken_for_upcalls(map: &MapHandle, most: Duration) -> bool {
        let mut ring = RingBufferBuilder::new();
        ring.add(map, |_| 0).unwrap();
        ring.build().unwrap().poll_raw(most) > 0
    }

    /// Where they come, for another thread.
    pub fn ring(&self) -> MapHandle {
        let map = self.object.maps().find(|map| map.name() == "upcalls").unwrap();
        MapHandle::try_from(&map).unwrap()
    }

    /// What leases are counted in.
    pub fn tick(&self) -> u64 {
        let program = self.object.progs_mut().find(|program| program.name() == "tick").expect("the program");
        let mut now = [0; 8];
        let output = program.test_run(ProgramInput { context_in: Some(&mut now), ..ProgramInput::default() });
        assert_eq!(output.expect("BPF_PROG_TEST_RUN").return_value, 0);
        u64::from_ne_bytes(now)
    }

    /// Runs the program on a whole frame: its return code, and the frame that came out.
    pub fn run(&self, frame: &[u8]) -> (u32, Vec<u8>) {
        self.run_program("wayside", frame)
    }

    /// What becomes of a frame as it leaves by the loopback interface: the code, and the frame.
    pub fn leave(&self, frame: &[u8]) -> (u32, Vec<u8>) {
        self.run_program("leaving", frame)
    }

    /// The copy that goes with a packet, if it may be sent.
    pub fn copied(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let (code, mut out) = self.run_program("copied", &frame(&to_switch(7_600), packet, true));
        assert!(code == XDP_PASS || code == XDP_DROP, "{code}");
        (code == XDP_PASS).then(|| out.split_off(ENVELOPE))
    }

    fn run_program(&self, name: &str, frame: &[u8]) -> (u32, Vec<u8>) {
        let program = self.object.progs_mut().find(|program| program.name() == name).expect("the program");
        let mut out = [0; FRAME];
        let input = ProgramInput { data_in: Some(frame), data_out: Some(&mut out), ..ProgramInput::default() };
        let output = program.test_run(input).expect("BPF_PROG_TEST_RUN");
        (output.return_value, output.data.expect("asked for").to_vec())
    }

    fn counted(&self, counter: usize) -> u64 {
        self.counters.get().iter().map(|lane| lane[counter]).sum()
    }

    /// How often this was counted.
    pub fn count(&self, name: &str) -> u64 {
        self.counted(counter_names().iter().position(|known| *known == name).expect("a counter's name"))
    }

    /// All that was ever counted.
    pub fn total(&self) -> u64 {
        self.counters().into_iter().sum()
    }

    /// All that this CPU has ever counted: it has a lane of its own behind those of threads.
    pub fn total_of_this_cpu(&self) -> u64 {
        // SAFETY: reads a number.
        let cpu = unsafe { libc::sched_getcpu() };
        self.counters.get()[LANES - 64 + usize::try_from(cpu).unwrap()].iter().sum()
    }

    /// Of the last packet.
    pub fn verdict(&self) -> Verdict {
        let bytes = self.of_this_cpu("verdicts");
        assert!(bytes.len() >= size_of::<Verdict>());
        // SAFETY: enough bytes, of integers alone.
        unsafe { bytes.as_ptr().cast::<Verdict>().read_unaligned() }
    }

    /// Where the frame goes that the program made of a packet, by a reading of its own of what a verdict means.
    fn expected_frame(&self, verdict: &Verdict, packet: &[u8], from_port: u16, id: [u8; 2]) -> Vec<u8> {
        let mut way = to_switch(from_port);
        way.macs.swap(0, 1);
        way.ips.swap(0, 1);
        way.ports.swap(0, 1);
        if verdict.action == TO_NODE {
            let node = self.nodes.get()[usize::from(verdict.handle)];
            way.ips[1] = node.address.to_be_bytes();
            way.ports[1] = if verdict.port == 0 { node.agent_port } else { verdict.port };
        }
        marked_frame(&way, packet, false, id)
    }

    /// The frame that came out, against the verdict. `out` ends up as the packet.
    fn check_frame(&self, verdict: &Verdict, code: u32, out: &mut Vec<u8>, from_port: u16) {
        let mark = [out[18], out[19]];
        if verdict.action == TO_CONTROLLER {
            assert_eq!(code, XDP_DROP);
            out.truncate(ENVELOPE + usize::from(verdict.length));
            let expected = Upcall {
                from: CLIENT.1,
                from_port,
                action: u16::from(TO_CONTROLLER),
                handle: verdict.handle,
                port: verdict.port,
                copy: 0,
                packet: out[ENVELOPE..].to_vec(),
            };
            assert_eq!(self.upcalls(), [expected], "handed up to the daemon");
            return;
        }
        if verdict.copy == 0 {
            assert_eq!((code, mark), (XDP_TX, [0, 0]));
        } else {
            assert_eq!((code, mark[0] >> 6), (XDP_REDIRECT, 3), "marked as one of a pair on one port");
        }
        assert_eq!(out.len(), ENVELOPE + usize::from(verdict.length), "the frame ends with the packet");
        let expected = self.expected_frame(verdict, &out[ENVELOPE..], from_port, mark);
        assert_eq!(*out, expected, "the frame of {verdict:?}");
    }
}

impl Engine for Bpf {
    fn name(&self) -> &'static str {
        if self.racing { "BPF, racing" } else { "BPF" }
    }

    fn set(&mut self, state: &State) {
        self.slots.get_mut().copy_from_slice(&state.slots);
        self.nodes.get_mut()[..NODES].copy_from_slice(&state.nodes);
        self.regions.get_mut()[..REGIONS].copy_from_slice(&state.regions.map(other_way_round));
        self.keys.get_mut()[..NODES].copy_from_slice(&state.keys);
        self.globals.get_mut()[0] = state.globals;
        self.groups.get_mut()[..GROUPS].copy_from_slice(&state.groups);
        self.buckets.get_mut().copy_from_slice(&state.buckets);
        self.items.get_mut().copy_from_slice(&state.items);
        self.lanes.get_mut().copy_from_slice(&state.lanes);
        self.journal.get_mut()[..RECORDS].copy_from_slice(&state.journal);
        self.store.get_mut()[0] = state.store;
        self.queues.get_mut().copy_from_slice(&state.queues);
        self.cells.get_mut().copy_from_slice(&state.cells);
        self.names.get_mut().copy_from_slice(&state.names);
        self.servers.get_mut()[..REGIONS].copy_from_slice(&state.servers);
        self.directory.get_mut()[0] = state.directory;
    }

    fn get(&self) -> State {
        State {
            slots: self.slots.get().try_into().unwrap(),
            nodes: self.nodes.get()[..NODES].try_into().unwrap(),
            regions: <[Region; REGIONS]>::try_from(&self.regions.get()[..REGIONS]).unwrap().map(other_way_round),
            keys: self.keys.get()[..NODES].try_into().unwrap(),
            globals: self.globals.get()[0],
            groups: self.groups.get()[..GROUPS].try_into().unwrap(),
            buckets: self.buckets.get().try_into().unwrap(),
            items: self.items.get().try_into().unwrap(),
            lanes: self.lanes.get().to_vec(),
            journal: self.journal.get()[..RECORDS].try_into().unwrap(),
            store: self.store.get()[0],
            queues: self.queues.get().try_into().unwrap(),
            cells: self.cells.get().try_into().unwrap(),
            names: self.names.get().try_into().unwrap(),
            servers: self.servers.get()[..REGIONS].try_into().unwrap(),
            directory: self.directory.get()[0],
        }
    }

    fn counters(&self) -> Vec<u64> {
        // Handing up is this home's own, and no business of the core's.
        let own = |name: &str| name.starts_with("handed_up");
        counter_names().iter().enumerate().map(|(at, name)| if own(name) { 0 } else { self.counted(at) }).collect()
    }

    fn process(&mut self, packet: &[u8], from_port: u16, race: Option<Race>) -> (Verdict, Vec<u8>) {
        assert_eq!(race.is_some(), self.racing);
        self.globals.get_mut()[0].reserved = race.map_or(0, |race| race.word());
        let mut sent = frame(&to_switch(from_port), packet, true);
        sent.resize(sent.len() + self.padding, 0xee);
        let (code, mut out) = self.run(&sent);
        self.globals.get_mut()[0].reserved = 0;
        let verdict = self.verdict();
        if verdict.action == DROP {
            assert_eq!(code, XDP_DROP);
            out.truncate(ENVELOPE + packet.len());
        } else {
            self.check_frame(&verdict, code, &mut out, from_port);
        }
        (verdict, out.split_off(ENVELOPE))
    }

    fn copy(&mut self, grant: &[u8]) -> Option<Vec<u8>> {
        self.copied(grant)
    }
}

/// The second of a region's meters is this engine's own.
fn other_way_round(region: Region) -> Region {
    let Region { own, other, told, other_told, .. } = region;
    Region { own: other, other: own, told: other_told, other_told: told, ..region }
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
    marked_frame(way, packet, by_sender, [0, 0])
}

/// The same, with this id in IPv4's header.
pub fn marked_frame(way: &Way, packet: &[u8], by_sender: bool, id: [u8; 2]) -> Vec<u8> {
    let length = u16::try_from(20 + 8 + packet.len()).unwrap();
    let mut frame = Vec::with_capacity(ENVELOPE + packet.len());
    frame.extend(way.macs[1]);
    frame.extend(way.macs[0]);
    frame.extend([0x08, 0x00]);
    frame.extend([0x45, 0]);
    frame.extend(length.to_be_bytes());
    frame.extend(id);
    frame.extend([0; 2]);
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
