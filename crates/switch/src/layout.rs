//! The layouts of `dataplane/memory.h` and `platform_native.h`, with atomics where the data plane changes words. The C
//! side asserts the same sizes; `tests/engine/mod.rs` has them once more, and its packets read every field.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

use wayside_protocol::memory::{Moment, Part};

/// Handles and namespaces have 16 bits: tables hold all of them.
pub(crate) const NODES: usize = 65_536;
pub(crate) const REGIONS: usize = 65_536;

/// One slot: w0 decides, w1 hints.
#[repr(C)]
pub(crate) struct Slot {
    pub(crate) w0: AtomicU64,
    pub(crate) w1: AtomicU64,
}

/// One handle's node.
#[repr(C)]
pub(crate) struct Node {
    pub(crate) word: AtomicU64,
    pub(crate) oldest: AtomicU64,
    pub(crate) incarnation: AtomicU64,
    pub(crate) address: AtomicU32,
    pub(crate) agent_port: AtomicU16,
    pub(crate) namespace: AtomicU16,
}

/// One handle's keys, in two slots.
#[repr(C)]
pub(crate) struct Keys {
    pub(crate) written: [AtomicU32; 2],
    pub(crate) rotation: AtomicU32,
    pub(crate) heard: AtomicU32,
    pub(crate) of: [KeyPair; 2],
}

/// Of packets from the node, and to it.
#[repr(C)]
pub(crate) struct KeyPair {
    pub(crate) up: [AtomicU64; 2],
    pub(crate) down: [AtomicU64; 2],
}

/// Where a namespace's slots lie, and its budget.
#[repr(C)]
pub(crate) struct Region {
    pub(crate) base: AtomicU32,
    pub(crate) count: AtomicU32,
    pub(crate) policy: AtomicU32,
    pub(crate) burst: AtomicU32,
    pub(crate) by_clock: Meter,
    pub(crate) by_tick: Meter,
    pub(crate) over_budget: AtomicU64,
    pub(crate) told_by_clock: AtomicU32,
    pub(crate) told_by_tick: AtomicU32,
}

/// What a namespace has spent, by one clock.
#[repr(C)]
pub(crate) struct Meter {
    pub(crate) due: AtomicU64,
    pub(crate) cost: AtomicU64,
}

/// `WS_METER_CLOCK_SHIFT` and `WS_METER_TICK_SHIFT`: units of a meter in a microsecond, and in a tick.
pub(crate) const METER_CLOCK_SHIFT: u32 = 10;
pub(crate) const METER_TICK_SHIFT: u32 = 24;

/// One version of an item.
#[repr(C)]
pub(crate) struct ItemVersion {
    pub(crate) sequence: AtomicU64,
    pub(crate) shape: AtomicU64,
    pub(crate) owner: AtomicU64,
}

/// Words of the longest value.
pub(crate) const VALUE_WORDS: usize = 16;

/// One key, with two versions.
#[repr(C)]
pub(crate) struct Item {
    pub(crate) lock: AtomicU64,
    pub(crate) key_high: AtomicU64,
    pub(crate) key_low: AtomicU64,
    pub(crate) name: AtomicU64,
    pub(crate) versions: [ItemVersion; 2],
    pub(crate) values: [[AtomicU64; VALUE_WORDS]; 2],
}

/// `WS_BUCKET_PLACES`.
pub(crate) const BUCKET_PLACES: usize = 8;

/// Places of keys.
#[repr(C)]
pub(crate) struct Bucket {
    pub(crate) places: [AtomicU64; BUCKET_PLACES],
}

/// Group numbers have 16 bits: the table holds all of them.
pub(crate) const GROUPS: usize = 65_536;

/// This switch in a group's chain.
#[repr(C)]
pub(crate) struct Group {
    pub(crate) place: AtomicU64,
    pub(crate) sequence: AtomicU64,
    pub(crate) namespace: AtomicU32,
    pub(crate) watched: AtomicU32,
}

/// One of a client's lanes.
#[repr(C)]
pub(crate) struct Lane {
    pub(crate) lock: AtomicU64,
    pub(crate) request: AtomicU64,
    pub(crate) own_sequence: AtomicU64,
    pub(crate) own_epoch: AtomicU32,
    pub(crate) outcome: AtomicU32,
}

/// `struct ws_store`: what is one for the switch in the chain service.
#[repr(C)]
pub(crate) struct Own {
    pub(crate) seed: AtomicU64,
    pub(crate) bucket_mask: AtomicU32,
    pub(crate) handle: AtomicU32,
    pub(crate) lease: Lease,
    pub(crate) reserved: [AtomicU64; 4],
    pub(crate) drawn: AtomicU64,
    pub(crate) torn: AtomicU64,
    pub(crate) reserved_more: [AtomicU64; 6],
}

/// `WS_RECORDS`: records in the journal.
pub(crate) const RECORDS: usize = 4096;

/// `struct ws_record`: a version that an item has taken.
#[repr(C)]
pub(crate) struct Record {
    pub(crate) lock: AtomicU64,
    pub(crate) key_high: AtomicU64,
    pub(crate) key_low: AtomicU64,
    pub(crate) name: AtomicU64,
    pub(crate) before_sequence: AtomicU64,
    pub(crate) before_shape: AtomicU64,
    pub(crate) sequence: AtomicU64,
    pub(crate) shape: AtomicU64,
    pub(crate) value: [AtomicU64; VALUE_WORDS],
}

/// `struct ws_lease`: when another switch may serve, by two clocks.
#[repr(C)]
pub(crate) struct Lease {
    pub(crate) end_us: AtomicU64,
    pub(crate) end_tick: AtomicU64,
}

impl Lease {
    /// It runs for so many microseconds, or ticks, from then on.
    pub(crate) fn run_for(&self, since: Moment, micros: u64, ticks: u64) {
        // 0 would be no end.
        self.end_us.store((since.time.0 + micros).max(1), SeqCst);
        self.end_tick.store((since.tick + ticks).max(1), SeqCst);
    }

    pub(crate) fn run_without_end(&self) {
        self.end_us.store(0, SeqCst);
        self.end_tick.store(0, SeqCst);
    }
}

/// `struct ws_cell`: one request in a queue.
#[repr(C)]
pub(crate) struct Cell {
    pub(crate) request: AtomicU64,
    pub(crate) who: AtomicU64,
}

/// `struct ws_queue`: a lock's queue.
#[repr(C)]
pub(crate) struct Queue {
    pub(crate) lock: AtomicU64,
    pub(crate) name: AtomicU64,
    pub(crate) namespace: AtomicU32,
    pub(crate) epoch: AtomicU32,
    pub(crate) left: AtomicU32,
    pub(crate) size: AtomicU32,
    pub(crate) head: AtomicU64,
    pub(crate) granted: AtomicU64,
    pub(crate) tail: AtomicU64,
    pub(crate) holding: AtomicU64,
    pub(crate) given: AtomicU64,
    pub(crate) settled: AtomicU64,
    pub(crate) pushed: AtomicU64,
    /// `enum ws_stage`
    pub(crate) stage: AtomicU32,
    pub(crate) ranked: AtomicU32,
}

/// `WS_SERVERS`: parts of a namespace, each with its lock server.
pub(crate) const SERVERS: usize = Part::MOST as usize;

/// `struct ws_servers`: the lock servers of a namespace's parts.
#[repr(C)]
pub(crate) struct Servers {
    pub(crate) count: AtomicU16,
    pub(crate) reserved: AtomicU16,
    pub(crate) of: [AtomicU16; SERVERS],
    pub(crate) term: [AtomicU16; SERVERS],
    pub(crate) spare: [AtomicU16; 2],
}

/// `struct ws_directory`: what is one for the switch in the queue service.
#[repr(C)]
pub(crate) struct Directory {
    pub(crate) seed: AtomicU64,
    pub(crate) shape: AtomicU64,
    pub(crate) bucket_mask: AtomicU32,
    pub(crate) reserved: AtomicU32,
}

/// What is one for the switch.
#[repr(C)]
pub(crate) struct Globals {
    pub(crate) epoch: AtomicU32,
    pub(crate) serving: AtomicU32,
    pub(crate) shard_map: AtomicU32,
    pub(crate) authenticated: AtomicU32,
    pub(crate) reserved: AtomicU32,
    pub(crate) trace_one_in: AtomicU32,
    pub(crate) lease: Lease,
}

/// `struct ws_trace`: a decision that is followed.
#[repr(C)]
pub(crate) struct Trace {
    pub(crate) request: AtomicU64,
    pub(crate) began: AtomicU64,
    pub(crate) ended_ns: AtomicU64,
    pub(crate) what: AtomicU64,
}

/// `WS_TRACES`.
pub(crate) const TRACES: usize = 512;

/// `struct ws_traces`: the ring of them.
#[repr(C)]
pub(crate) struct Traces {
    pub(crate) begun: AtomicU64,
    pub(crate) reserved: [AtomicU64; 3],
    pub(crate) of: [Trace; TRACES],
}

/// `struct ws_switch`: the memory as one call of the core sees it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct View {
    pub(crate) slots: *const Slot,
    pub(crate) regions: *const Region,
    pub(crate) nodes: *const Node,
    pub(crate) keys: *const Keys,
    pub(crate) globals: *const Globals,
    pub(crate) counters: *const AtomicU64,
    pub(crate) slot_count: u32,
    /// Not 0: no other thread counts there.
    pub(crate) alone: u32,
    /// By the clock of a lease's `end_us`.
    pub(crate) now_us: u64,
    pub(crate) groups: *const Group,
    pub(crate) buckets: *const Bucket,
    pub(crate) items: *const Item,
    pub(crate) lanes: *const Lane,
    pub(crate) journal: *const Record,
    pub(crate) own: *const Own,
    pub(crate) bucket_count: u32,
    pub(crate) item_count: u32,
    pub(crate) lane_count: u32,
    /// 1 + number of the lane that this thread counts in.
    pub(crate) owner: u32,
    pub(crate) queues: *const Queue,
    pub(crate) cells: *const Cell,
    pub(crate) names: *const Bucket,
    pub(crate) servers: *const Servers,
    pub(crate) directory: *const Directory,
    pub(crate) queue_count: u32,
    pub(crate) cell_count: u32,
    pub(crate) name_count: u32,
    pub(crate) traces: *const Traces,
}

// SAFETY: it is addresses of tables of atomics, and numbers. Whoever follows one answers for that.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

/// `struct ws_verdict`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawVerdict {
    pub(crate) action: u8,
    pub(crate) reason: u8,
    pub(crate) handle: u16,
    pub(crate) port: u16,
    pub(crate) length: u16,
    pub(crate) copy: u16,
    pub(crate) reserved: u16,
}

const _: () = {
    assert!(size_of::<Slot>() == 16);
    assert!(size_of::<Node>() == 32);
    assert!(size_of::<Region>() == 64);
    assert!(size_of::<Keys>() == 80);
    assert!(size_of::<Globals>() == 40);
    assert!(size_of::<Item>() == 336);
    assert!(size_of::<Bucket>() == 64);
    assert!(size_of::<Group>() == 24);
    assert!(size_of::<Lane>() == 32);
    assert!(size_of::<Own>() == 128);
    assert!(size_of::<Record>() == 192);
    assert!(size_of::<Cell>() == 16);
    assert!(size_of::<Queue>() == 96);
    assert!(size_of::<Servers>() == 64);
    assert!(size_of::<Directory>() == 24);
    assert!(size_of::<Traces>() == 32 + 32 * TRACES);
    assert!(size_of::<View>() == 192 || size_of::<usize>() != 8);
    assert!(size_of::<RawVerdict>() == 12);
};

unsafe extern "C" {
    pub(crate) fn ws_process(view: *const View, packet: *mut u8, length: u32, from_port: u16) -> RawVerdict;
    #[cfg(feature = "meanwhile")]
    pub(crate) fn ws_process_meanwhile(
        view: *const View,
        packet: *mut u8,
        length: u32,
        from_port: u16,
        is_blind: u32,
        turn: extern "C" fn(*mut core::ffi::c_void, u32),
        context: *mut core::ffi::c_void,
    ) -> RawVerdict;
    pub(crate) fn ws_process_copy(view: *const View, packet: *mut u8, length: u32) -> core::ffi::c_int;
    pub(crate) fn ws_process_seal(view: *const View, receiver: u16, packet: *mut u8, length: u32) -> core::ffi::c_int;
    pub(crate) fn ws_counter_count() -> u32;
    pub(crate) fn ws_counter_name(counter: u32) -> *const core::ffi::c_char;
}
