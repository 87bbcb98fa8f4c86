//! The core as tests run it: raw memory in, one packet through, raw memory out. Natively here, as BPF in `bpf`.
//!
//! The layouts stand here once more, so that a slip in `src/layout.rs` or `dataplane/memory.h` shows.
#![allow(dead_code)] // Every test file uses its own part.

#[cfg(feature = "xdp")]
pub mod bpf;
pub mod cases;
pub mod chain;
pub mod hash;
pub mod queue;
pub mod random;
pub mod random_chain;
pub mod random_queue;

use std::ffi::{CStr, c_char};
use std::mem::size_of;

use wayside_protocol::seal;

/// `struct ws_slot`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    pub w0: u64,
    pub w1: u64,
}

/// `struct ws_node`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub word: u64,
    pub oldest: u64,
    pub incarnation: u64,
    pub address: u32,
    pub agent_port: u16,
    pub namespace: u16,
}

/// `struct ws_region`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    pub base: u32,
    pub count: u32,
    pub policy: u32,
    pub burst: u32,
    /// The meter of the engine's own clock: of the two, natively the first, at the hook the second.
    pub own: Meter,
    pub other: Meter,
    pub over_budget: u64,
    /// Of the engine's own clock likewise.
    pub told: u32,
    pub other_told: u32,
}

/// `struct ws_meter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    pub due: u64,
    pub cost: u64,
}

/// `struct ws_globals`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Globals {
    pub epoch: u32,
    pub serving: u32,
    pub shard_map: u32,
    pub authenticated: u32,
    pub reserved: u32,
    /// 0: no request is followed.
    pub trace_one_in: u32,
    pub lease: Lease,
}

/// `struct ws_lease`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    pub end_us: u64,
    pub end_tick: u64,
}

impl Lease {
    /// Over then, by either clock.
    pub fn until(end: u64) -> Lease {
        Lease { end_us: end, end_tick: end }
    }
}

/// `struct ws_keys`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    pub written: [u32; 2],
    pub rotation: u32,
    pub heard: u32,
    pub of: [KeyPair; 2],
}

/// Of packets from the node, and to it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyPair {
    pub up: [u64; 2],
    pub down: [u64; 2],
}

impl Keys {
    /// Any, as long as every one is another: rotations 0 and 1, the first of them in use.
    pub fn of_handle(handle: u16) -> Keys {
        let key = |number: u64| [0, 1].map(|half| wayside_wire::mix(u64::from(handle) << 8 | number << 4 | half));
        let pair = |slot: u64| KeyPair { up: key(2 * slot), down: key(2 * slot + 1) };
        Keys { written: [2, 2], rotation: 0, heard: 0, of: [pair(0), pair(1)] }
    }

    /// Signs a packet as the node, under the key of this slot.
    pub fn sign_up(&self, slot: usize, packet: &mut [u8]) {
        seal::Key(self.of[slot].up).sign(slot as u32, packet);
    }

    /// Signs a packet for the node, under the rotation in use.
    pub fn sign_down(&self, packet: &mut [u8]) {
        let slot = self.rotation & 1;
        seal::Key(self.of[slot as usize].down).sign(slot, packet);
    }
}

/// `struct ws_group`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    pub place: u64,
    pub sequence: u64,
    pub namespace: u32,
    pub watched: u32,
}

/// `struct ws_bucket`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    pub places: [u64; 8],
}

/// `struct ws_version`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version {
    pub sequence: u64,
    pub shape: u64,
    pub owner: u64,
}

/// `struct ws_item`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Item {
    pub lock: u64,
    pub key_high: u64,
    pub key_low: u64,
    pub name: u64,
    pub versions: [Version; 2],
    pub values: [[u64; 16]; 2],
}

/// `struct ws_lane`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    pub lock: u64,
    pub request: u64,
    pub own_sequence: u64,
    pub own_epoch: u32,
    pub outcome: u32,
}

/// `struct ws_store`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Store {
    pub seed: u64,
    pub bucket_mask: u32,
    pub handle: u32,
    pub lease: Lease,
    pub reserved: [u64; 4],
    pub drawn: u64,
    pub torn: u64,
    pub reserved_more: [u64; 6],
}

/// `struct ws_record`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub lock: u64,
    pub key_high: u64,
    pub key_low: u64,
    pub name: u64,
    pub before_sequence: u64,
    pub before_shape: u64,
    pub sequence: u64,
    pub shape: u64,
    pub value: [u64; 16],
}

/// `struct ws_cell`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    pub request: u64,
    pub who: u64,
}

/// `struct ws_queue`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    pub lock: u64,
    pub name: u64,
    pub namespace: u32,
    pub epoch: u32,
    pub left: u32,
    pub size: u32,
    pub head: u64,
    pub granted: u64,
    pub tail: u64,
    pub holding: u64,
    pub given: u64,
    pub settled: u64,
    pub pushed: u64,
    pub stage: u32,
    pub ranked: u32,
}

/// `struct ws_servers`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Servers {
    pub count: u16,
    pub reserved: u16,
    pub of: [u16; 14],
    pub term: [u16; 14],
    pub spare: [u16; 2],
}

/// `struct ws_directory`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    pub seed: u64,
    pub shape: u64,
    pub bucket_mask: u32,
    pub reserved: u32,
}

/// `struct ws_verdict`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub action: u8,
    pub reason: u8,
    pub handle: u16,
    pub port: u16,
    pub length: u16,
    pub copy: u16,
    pub reserved: u16,
}

pub const DROP: u8 = 0;
pub const TO_SENDER: u8 = 1;
pub const TO_NODE: u8 = 2;
pub const TO_CONTROLLER: u8 = 3;
pub const ACTIONS: [&str; 4] = ["drop", "to_sender", "to_node", "to_controller"];

/// Slots of a test's memory; indexes beyond are beyond the memory.
pub const SLOTS: usize = 16;
/// Handles and namespaces from 0 that tests set. The tables behind hold all 65,536, the others empty.
pub const NODES: usize = 16;
pub const REGIONS: usize = 4;
/// Groups from 0 that tests set.
pub const GROUPS: usize = 4;
/// A test's buckets, and its items: 0 is never used.
pub const BUCKETS: usize = 2;
pub const ITEMS: usize = 6;
/// Lanes of all handles that tests set.
pub const LANES: usize = NODES * wayside_wire::limits::MAX_LANES;
/// Records of the journal that tests set, and all that there are.
pub const RECORDS: usize = 4;
pub const ALL_RECORDS: usize = 4_096;
/// A test's queues, of which 0 is never used, their cells, and the buckets of names.
pub const QUEUES: usize = 5;
pub const CELLS: usize = 16;
pub const NAMES: usize = 2;
const TABLE: usize = 65_536;

/// What a switch knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub slots: [Slot; SLOTS],
    pub nodes: [Node; NODES],
    pub regions: [Region; REGIONS],
    pub keys: [Keys; NODES],
    pub globals: Globals,
    pub groups: [Group; GROUPS],
    pub buckets: [Bucket; BUCKETS],
    pub items: [Item; ITEMS],
    pub lanes: Vec<Lane>,
    pub journal: [Record; RECORDS],
    pub store: Store,
    pub queues: [Queue; QUEUES],
    pub cells: [Cell; CELLS],
    pub names: [Bucket; NAMES],
    pub servers: [Servers; REGIONS],
    pub directory: Directory,
}

impl Default for State {
    fn default() -> State {
        State {
            slots: Default::default(),
            nodes: Default::default(),
            regions: Default::default(),
            keys: Default::default(),
            globals: Globals::default(),
            groups: Default::default(),
            buckets: Default::default(),
            items: Default::default(),
            lanes: vec![Lane::default(); LANES],
            journal: Default::default(),
            store: Store::default(),
            queues: Default::default(),
            cells: Default::default(),
            names: Default::default(),
            servers: Default::default(),
            directory: Directory::default(),
        }
    }
}

/// What happens while a packet is decided, right after its first successful compare-and-swap or at its first read
/// barrier: `race.h` in `dataplane/cases`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Race {
    /// This node expires, unless there is a `strike`.
    pub expires: u16,
    /// The slot takes a join in the same moment.
    pub joined: bool,
    /// Instead, every compare-and-swap is lost; and what happens at a barrier happens at every one.
    pub loses: bool,
    /// Something of the chain service, with the group's or item's number.
    pub strike: Option<(Strike, u16)>,
}

/// As `race.h` numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// The group's place is of the next epoch.
    Moves = 18,
    /// The item is no key's any more.
    Goes = 19,
    /// The item is turned to its other version.
    Turns = 20,
    /// The serving lease ends.
    EndsLease = 21,
}

/// One home of the core.
pub trait Engine {
    fn name(&self) -> &'static str;
    fn set(&mut self, state: &State);
    fn get(&self) -> State;
    /// All counters so far.
    fn counters(&self) -> Vec<u64>;
    /// Decides one packet, which comes out as long as the verdict says; a dropped one as it is.
    fn process(&mut self, packet: &[u8], from_port: u16, race: Option<Race>) -> (Verdict, Vec<u8>);
    /// The copy that goes with a packet, if it may be sent: with a GRANT by join the JOIN.
    fn copy(&mut self, grant: &[u8]) -> Option<Vec<u8>>;
}

#[repr(C)]
struct View {
    slots: *mut Slot,
    regions: *mut Region,
    nodes: *mut Node,
    keys: *mut Keys,
    globals: *mut Globals,
    counters: *mut u64,
    slot_count: u32,
    alone: u32,
    now_us: u64,
    groups: *mut Group,
    buckets: *mut Bucket,
    items: *mut Item,
    lanes: *mut Lane,
    journal: *mut Record,
    store: *mut Store,
    bucket_count: u32,
    item_count: u32,
    lane_count: u32,
    owner: u32,
    queues: *mut Queue,
    cells: *mut Cell,
    names: *mut Bucket,
    servers: *mut Servers,
    directory: *mut Directory,
    queue_count: u32,
    cell_count: u32,
    name_count: u32,
    /// None: no request is followed.
    traces: *mut u8,
}

/// What the clock says while packets are decided natively. The kernel's has counted more ticks than 1 by then, too.
const NOW_US: u64 = 1_000_000;

unsafe extern "C" {
    fn ws_process(view: *mut View, packet: *mut u8, length: u32, from_port: u16) -> Verdict;
    fn ws_process_racing(view: *mut View, packet: *mut u8, length: u32, from_port: u16, race: u32) -> Verdict;
    fn ws_process_copy(view: *mut View, packet: *mut u8, length: u32) -> core::ffi::c_int;
    fn ws_counter_count() -> u32;
    fn ws_counter_name(counter: u32) -> *const c_char;
}

/// Names of the counters, by number.
pub fn counter_names() -> Vec<&'static str> {
    // SAFETY: constants, and string constants.
    (0..unsafe { ws_counter_count() })
        .map(|counter| unsafe { CStr::from_ptr(ws_counter_name(counter)) }.to_str().unwrap())
        .collect()
}

/// Counters that no packet reaches. Nothing is dropped for no reason; what is handed up is the XDP program's affair
/// (`frames.rs`).
pub const UNREACHED: [&str; 3] = ["none", "handed_up", "handed_up_lost"];

/// The native build.
pub struct Native {
    slots: Vec<Slot>,
    nodes: Vec<Node>,
    regions: Vec<Region>,
    keys: Vec<Keys>,
    globals: Box<Globals>,
    groups: Vec<Group>,
    buckets: [Bucket; BUCKETS],
    items: [Item; ITEMS],
    lanes: Vec<Lane>,
    journal: Vec<Record>,
    store: Store,
    queues: [Queue; QUEUES],
    cells: [Cell; CELLS],
    names: [Bucket; NAMES],
    servers: Vec<Servers>,
    directory: Directory,
    counters: Vec<u64>,
}

impl Native {
    pub fn new() -> Native {
        // Links the core's library, of which nothing else is used here.
        const { assert!(size_of::<wayside_switch::Verdict>() > 0) };
        Native {
            slots: vec![Slot::default(); SLOTS],
            nodes: vec![Node::default(); TABLE],
            regions: vec![Region::default(); TABLE],
            keys: vec![Keys::default(); TABLE],
            globals: Box::default(),
            groups: vec![Group::default(); TABLE],
            buckets: Default::default(),
            items: Default::default(),
            lanes: vec![Lane::default(); LANES],
            journal: vec![Record::default(); ALL_RECORDS],
            store: Store::default(),
            queues: Default::default(),
            cells: Default::default(),
            names: Default::default(),
            servers: vec![Servers::default(); TABLE],
            directory: Directory::default(),
            counters: vec![0; counter_names().len()],
        }
    }

    fn view(&mut self) -> View {
        View {
            slots: self.slots.as_mut_ptr(),
            regions: self.regions.as_mut_ptr(),
            nodes: self.nodes.as_mut_ptr(),
            keys: self.keys.as_mut_ptr(),
            globals: &mut *self.globals,
            counters: self.counters.as_mut_ptr(),
            slot_count: SLOTS as u32,
            alone: 0,
            now_us: NOW_US,
            groups: self.groups.as_mut_ptr(),
            buckets: self.buckets.as_mut_ptr(),
            items: self.items.as_mut_ptr(),
            lanes: self.lanes.as_mut_ptr(),
            journal: self.journal.as_mut_ptr(),
            store: &mut self.store,
            bucket_count: BUCKETS as u32,
            item_count: ITEMS as u32,
            lane_count: LANES as u32,
            owner: 1,
            queues: self.queues.as_mut_ptr(),
            cells: self.cells.as_mut_ptr(),
            names: self.names.as_mut_ptr(),
            servers: self.servers.as_mut_ptr(),
            directory: &mut self.directory,
            queue_count: QUEUES as u32,
            cell_count: CELLS as u32,
            name_count: NAMES as u32,
            traces: std::ptr::null_mut(),
        }
    }
}

impl Engine for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn set(&mut self, state: &State) {
        self.slots.copy_from_slice(&state.slots);
        self.nodes[..NODES].copy_from_slice(&state.nodes);
        self.regions[..REGIONS].copy_from_slice(&state.regions);
        self.keys[..NODES].copy_from_slice(&state.keys);
        *self.globals = state.globals;
        self.groups[..GROUPS].copy_from_slice(&state.groups);
        self.buckets = state.buckets;
        self.items = state.items;
        self.lanes.copy_from_slice(&state.lanes);
        self.journal[..RECORDS].copy_from_slice(&state.journal);
        self.store = state.store;
        self.queues = state.queues;
        self.cells = state.cells;
        self.names = state.names;
        self.servers[..REGIONS].copy_from_slice(&state.servers);
        self.directory = state.directory;
    }

    fn get(&self) -> State {
        State {
            slots: self.slots[..].try_into().unwrap(),
            nodes: self.nodes[..NODES].try_into().unwrap(),
            regions: self.regions[..REGIONS].try_into().unwrap(),
            keys: self.keys[..NODES].try_into().unwrap(),
            globals: *self.globals,
            groups: self.groups[..GROUPS].try_into().unwrap(),
            buckets: self.buckets,
            items: self.items,
            lanes: self.lanes.clone(),
            journal: self.journal[..RECORDS].try_into().unwrap(),
            store: self.store,
            queues: self.queues,
            cells: self.cells,
            names: self.names,
            servers: self.servers[..REGIONS].try_into().unwrap(),
            directory: self.directory,
        }
    }

    fn counters(&self) -> Vec<u64> {
        self.counters.clone()
    }

    fn process(&mut self, packet: &[u8], from_port: u16, race: Option<Race>) -> (Verdict, Vec<u8>) {
        let mut packet = packet.to_vec();
        let mut view = self.view();
        let (start, length) = (packet.as_mut_ptr(), packet.len() as u32);
        // SAFETY: the view's tables have the lengths that memory.h states, the packet is `length` bytes long.
        let verdict = unsafe {
            match race {
                None => ws_process(&mut view, start, length, from_port),
                Some(race) => ws_process_racing(&mut view, start, length, from_port, race.word()),
            }
        };
        if verdict.action != DROP {
            packet.truncate(verdict.length.into());
        }
        (verdict, packet)
    }

    fn copy(&mut self, grant: &[u8]) -> Option<Vec<u8>> {
        let mut join = grant.to_vec();
        assert!(join.len() >= 64);
        let mut view = self.view();
        // SAFETY: as in `process`.
        let sent = unsafe { ws_process_copy(&mut view, join.as_mut_ptr(), join.len() as u32) };
        (sent != 0).then_some(join)
    }
}

impl Race {
    /// As `race.h` reads it.
    pub fn word(self) -> u32 {
        let (bit, number) = self.strike.map_or((0, self.expires), |(strike, number)| (1 << strike as u32, number));
        u32::from(number) | u32::from(self.joined) << 16 | u32::from(self.loses) << 17 | bit
    }
}
