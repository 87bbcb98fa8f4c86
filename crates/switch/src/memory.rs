//! The switch's memory: allocated here, changed by the core and, through [`SwitchMemory`], by the controller.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Mutex;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};

use wayside_protocol::memory::{
    Line, LockServer, Moment, NodeEntry, NodeMemory, NodeWord, Part, QueuesMemory, SlotWord, Step, SwitchMemory,
};
use wayside_protocol::{Time, seal};
use wayside_wire::limits::MAX_ENTRIES;
use wayside_wire::{Header, NodeState, Policy, service};

use crate::Switch;
use crate::allowance::Allowance;
use crate::clock::Ticks;
use crate::layout::{Globals, Keys, METER_CLOCK_SHIFT, METER_TICK_SHIFT, NODES, Node, REGIONS, Region, Slot};
use crate::zeroed::Zeroed;

/// How large a switch is.
#[derive(Clone, Copy, Debug)]
pub struct SwitchConfig {
    /// Slots of all namespaces together, 16 bytes each; untouched ones cost no memory.
    pub slots: u32,
    /// Handles go from 1 to this.
    pub max_handle: u16,
}

/// How many requests of a namespace's nodes are decided: `dataplane/budget.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Requests a second: 1 to [`Budget::MAX_RATE`].
    pub rate: u32,
    /// Requests at once, after a while without any: [`Budget::least_burst`] to [`Budget::MAX_BURST`].
    pub burst: u32,
}

impl Budget {
    /// A request costs 102 units of the clock then: what is rounded away is a hundredth.
    pub const MAX_RATE: u32 = 10_000_000;
    /// Times the cost of a request, a second at most, it stays far below 64 bits.
    pub const MAX_BURST: u32 = 1 << 24;

    /// The least burst at which a rate can be reached: time goes on by ticks at the hook, of 10 ms at most, and a
    /// packet of 32 requests is admitted whole or not at all.
    pub fn least_burst(rate: u32) -> u32 {
        rate.div_ceil(100).max(MAX_ENTRIES as u32)
    }
}

/// Why a namespace got no slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionError {
    /// It has slots already.
    Taken {
        /// The namespace.
        namespace: u16,
    },
    /// A namespace needs at least one slot.
    Empty,
    /// The switch has not that many slots left.
    Full {
        /// Slots asked for.
        wanted: u32,
        /// Slots that no namespace has.
        left: u32,
    },
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegionError::Taken { namespace } => write!(f, "namespace {namespace} has slots already"),
            RegionError::Empty => write!(f, "a namespace needs at least one slot"),
            RegionError::Full { wanted, left } => {
                write!(f, "{wanted} slots do not fit: the switch has {left} left")
            }
        }
    }
}

impl std::error::Error for RegionError {}

pub(crate) struct Memory {
    pub(crate) slots: Zeroed<Slot>,
    pub(crate) regions: Zeroed<Region>,
    pub(crate) nodes: Zeroed<Node>,
    pub(crate) keys: Zeroed<Keys>,
    pub(crate) globals: Zeroed<Globals>,
    /// An epoch was set, or another process may have set one: slots may be other than zeros.
    used: AtomicBool,
    /// The XDP program's: where each node's frames go. 0: not known.
    ways: Option<Zeroed<AtomicU64>>,
    /// The clock of the core at the hook.
    ticks: Option<Ticks>,
    /// Slots that namespaces have so far: regions follow each other and stay.
    taken: Mutex<u32>,
    max_handle: u16,
    /// Of each handle, the incarnation of the latest session that is known to be over.
    pub(crate) overs: Zeroed<AtomicU64>,
    /// Sessions that have ended, or made room for others of their handle.
    pub(crate) ends: AtomicU64,
    /// Of namespaces.
    allowances: Zeroed<Allowance>,
    /// Some namespace has, or had, a budget.
    has_allowances: AtomicBool,
}

impl Memory {
    pub(crate) fn new(config: SwitchConfig) -> Memory {
        Memory {
            slots: Zeroed::new(config.slots as usize),
            regions: Zeroed::new(REGIONS),
            nodes: Zeroed::new(NODES),
            keys: Zeroed::new(NODES),
            globals: Zeroed::new(1),
            used: AtomicBool::new(false),
            ways: None,
            ticks: None,
            taken: Mutex::new(0),
            max_handle: config.max_handle,
            overs: Zeroed::new(NODES),
            ends: AtomicU64::new(0),
            allowances: Zeroed::new(REGIONS),
            has_allowances: AtomicBool::new(false),
        }
    }

    /// Tables that somebody else may have used before: what is in them stays.
    #[cfg(feature = "xdp")]
    pub(crate) fn over(
        slots: Zeroed<Slot>,
        regions: Zeroed<Region>,
        nodes: Zeroed<Node>,
        keys: Zeroed<Keys>,
        globals: Zeroed<Globals>,
        ways: Zeroed<AtomicU64>,
        max_handle: u16,
    ) -> Memory {
        let end = |region: &Region| region.base.load(Acquire) + region.count.load(Acquire);
        let taken = Mutex::new(regions.iter().map(end).max().unwrap_or(0));
        let (overs, ends) = (Zeroed::new(NODES), AtomicU64::new(0));
        let (used, ways) = (true.into(), Some(ways));
        let (allowances, has_allowances) = (Zeroed::new(REGIONS), AtomicBool::new(false));
        Memory {
            slots,
            regions,
            nodes,
            keys,
            globals,
            used,
            ways,
            ticks: None,
            taken,
            max_handle,
            overs,
            ends,
            allowances,
            has_allowances,
        }
    }

    /// The same, for a core that goes by this clock.
    #[cfg(feature = "xdp")]
    pub(crate) fn with_ticks(self, ticks: Ticks) -> Memory {
        Memory { ticks: Some(ticks), ..self }
    }

    pub(crate) fn address(&self, handle: u16, port: u16) -> Option<SocketAddrV4> {
        let node = &self.nodes[usize::from(handle)];
        let agent_port = node.agent_port.load(Acquire);
        let address = Ipv4Addr::from(node.address.load(Acquire));
        (agent_port != 0).then(|| SocketAddrV4::new(address, if port == 0 { agent_port } else { port }))
    }

    /// Namespace and incarnation of a handle's latest session.
    pub(crate) fn session(&self, handle: u16) -> (u16, u64) {
        let node = &self.nodes[usize::from(handle)];
        (node.namespace.load(Acquire), node.incarnation.load(Acquire))
    }

    pub(crate) fn way(&self, handle: u16) -> Option<u64> {
        self.ways.as_ref().map(|ways| ways[usize::from(handle)].load(Acquire))
    }

    pub(crate) fn set_way(&self, handle: u16, address: Ipv4Addr, way: u64) {
        let Some(ways) = &self.ways else { return };
        let is_there = || self.address(handle, 0).is_some_and(|at| *at.ip() == address);
        if is_there() {
            ways[usize::from(handle)].store(way, Release);
            // The handle may have become another node's in between: by the kernel's routes, then.
            if !is_there() {
                ways[usize::from(handle)].store(0, Release);
            }
        }
    }

    /// # Panics
    /// If the namespace has no such slot: the caller has asked for `slot_count`.
    fn slot(&self, namespace: u16, slot: u32) -> &Slot {
        let region = &self.regions[usize::from(namespace)];
        assert!(slot < region.count.load(Acquire), "namespace {namespace} has no slot {slot}");
        &self.slots[(region.base.load(Acquire) + slot) as usize]
    }

    /// # Panics
    /// If the namespace does not have all of these.
    fn slots_of(&self, namespace: u16, from: u32, end: u32) -> &[Slot] {
        let region = &self.regions[usize::from(namespace)];
        assert!(end <= region.count.load(Acquire), "namespace {namespace} has no slot {end} - 1");
        let base = region.base.load(Acquire);
        &self.slots[(base + from) as usize..(base + end) as usize]
    }
}

impl Keys {
    /// From here on nothing is believed, and nothing signed, under the keys of this slot.
    fn withdraw(&self, slot: usize) {
        let written = self.written[slot].load(SeqCst);
        self.written[slot].store(written | 1, SeqCst);
    }

    /// Only the controller writes. The data plane reads at any time: `dataplane/seal.h` says why it may.
    fn write(&self, slot: usize, keys: &seal::Keys) {
        self.withdraw(slot);
        let store = |to: &[AtomicU64; 2], key: seal::Key| {
            to.iter().zip(key.0).for_each(|(half, number)| half.store(number, SeqCst));
        };
        store(&self.of[slot].up, keys.up);
        store(&self.of[slot].down, keys.down);
        let written = self.written[slot].load(SeqCst).wrapping_add(1);
        // 0 says that nothing was ever written.
        self.written[slot].store(if written == 0 { 2 } else { written }, SeqCst);
    }
}

impl Switch {
    /// Gives a namespace its slots, all UNHELD.
    pub fn add_namespace(&self, namespace: u16, slots: u32, policy: Policy) -> Result<(), RegionError> {
        let mut taken = self.memory.taken.lock().expect("nobody panics while holding it");
        let left = u32::try_from(self.memory.slots.len()).expect("capacity is a u32") - *taken;
        let region = &self.memory.regions[usize::from(namespace)];
        if region.count.load(Acquire) != 0 {
            return Err(RegionError::Taken { namespace });
        }
        if slots == 0 {
            return Err(RegionError::Empty);
        }
        if slots > left {
            return Err(RegionError::Full { wanted: slots, left });
        }
        region.base.store(*taken, Release);
        region.policy.store(policy as u32, Release);
        region.count.store(slots, Release); // Last: from here on the data plane finds it.
        *taken += slots;
        Ok(())
    }

    /// Whether the switch has these namespaces and no others: (number, slots).
    pub fn has_exactly(&self, namespaces: &[(u16, u32)]) -> bool {
        let taken = *self.memory.taken.lock().expect("nobody panics while holding it");
        taken == namespaces.iter().map(|(_, slots)| slots).sum()
            && namespaces.iter().all(|&(namespace, slots)| self.slot_count(namespace) == slots)
    }

    /// Gives a namespace a budget, of which nothing is spent yet, or takes it away.
    pub fn set_budget(&self, namespace: u16, budget: Option<Budget>) {
        let region = &self.memory.regions[usize::from(namespace)];
        region.burst.store(0, Release);
        self.memory.allowances[usize::from(namespace)].set(budget);
        let Some(Budget { rate, burst }) = budget else { return };
        self.memory.has_allowances.store(true, Release);
        let hertz = self.memory.ticks.as_ref().map_or(0, Ticks::hertz);
        for (meter, units_a_second) in
            [(&region.by_clock, 1_000_000 << METER_CLOCK_SHIFT), (&region.by_tick, hertz << METER_TICK_SHIFT)]
        {
            meter.due.store(0, Release);
            meter.cost.store(units_a_second / u64::from(rate.max(1)), Release);
        }
        region.burst.store(burst, Release); // Last: from here on it is charged.
    }

    /// Packets that the namespace's budget has refused.
    pub fn over_budget(&self, namespace: u16) -> u64 {
        self.memory.regions[usize::from(namespace)].over_budget.load(Acquire)
    }

    /// The namespace, one with a budget, on whose account it goes what is sent because of this packet, which has not
    /// been decided on yet. Keys are on nobody's.
    #[inline]
    pub fn account_of(&self, packet: &[u8]) -> Option<u16> {
        if !self.memory.has_allowances.load(Acquire) {
            return None;
        }
        let header = Header::read(packet).ok()?;
        if header.service == service::CHAIN { None } else { self.tenant(header.source) }
    }

    /// Charges a packet that is about to be sent. False: its tenant's nodes have had too much sent, and it is to be
    /// lost.
    #[inline]
    pub fn may_send(&self, now: Time, namespace: u16) -> bool {
        let admits = self.memory.allowances[usize::from(namespace)].admits(now);
        if !admits {
            self.memory.regions[usize::from(namespace)].over_budget.fetch_add(1, AcqRel);
        }
        admits
    }

    /// The namespace of the node that a packet says it is from, if its handle was ever given out. What the switch has
    /// decided on while authentication is on really is from there.
    pub fn tenant_of(&self, packet: &[u8]) -> Option<u16> {
        self.tenant(Header::read(packet).ok()?.source)
    }

    fn tenant(&self, handle: u16) -> Option<u16> {
        let node = &self.memory.nodes[usize::from(handle)];
        (node.agent_port.load(Acquire) != 0).then(|| node.namespace.load(Acquire))
    }

    /// Changes a namespace's policy: the next request is decided by it.
    pub fn set_policy(&self, namespace: u16, policy: Policy) {
        self.memory.regions[usize::from(namespace)].policy.store(policy as u32, Release);
    }

    /// Sets the version of the shard map that answers tell.
    pub fn set_shard_map(&self, version: u32) {
        self.memory.globals[0].shard_map.store(version, Release);
    }

    /// w1 of a slot, for people and tests.
    pub fn hint(&self, namespace: u16, slot: u32) -> u64 {
        self.memory.slot(namespace, slot).w1.load(Acquire)
    }

    /// The oldest request id that the switch still takes an ACQUIRE of, for people and tests.
    pub fn oldest(&self, handle: u16) -> u64 {
        self.memory.nodes[usize::from(handle)].oldest.load(Acquire)
    }
}

impl Switch {
    /// Ticks of the hook's clock that are no longer than a lease of so many microseconds.
    pub(crate) fn ticks_within(&self, lease: u64) -> u64 {
        self.memory.ticks.as_ref().map_or(0, |ticks| ticks.within(lease))
    }
}

/// Where the kernel can't tell when all runs at the hook have ended. They are over within some microseconds; nothing
/// but the hypervisor stops a processor in one.
#[cfg(feature = "xdp")]
const LONGEST_RUN: std::time::Duration = std::time::Duration::from_millis(100);

impl SwitchMemory for Switch {
    fn epoch(&self) -> u32 {
        self.memory.globals[0].epoch.load(Acquire)
    }

    fn set_epoch(&self, epoch: u32) {
        self.memory.used.fetch_or(epoch != 0, SeqCst);
        self.memory.globals[0].epoch.store(epoch, SeqCst);
        self.queues.begin_epoch(epoch);
    }

    fn is_new(&self) -> bool {
        !self.memory.used.load(SeqCst)
    }

    fn await_decisions(&self) {
        self.deciders.await_all();
        #[cfg(feature = "xdp")]
        if self.memory.ticks.is_some() && crate::xdp::await_decisions().is_err() {
            std::thread::sleep(LONGEST_RUN);
        }
    }

    fn serving(&self) -> bool {
        self.memory.globals[0].serving.load(Acquire) != 0
    }

    fn set_serving(&self, serving: bool) {
        self.memory.globals[0].serving.store(serving.into(), SeqCst);
    }

    fn moment(&self, now: Time) -> Moment {
        Moment { time: now, tick: self.memory.ticks.as_ref().map_or(0, Ticks::now) }
    }

    fn serve_for(&self, since: Moment, lease: u64) {
        self.memory.globals[0].lease.run_for(since, lease, self.ticks_within(lease));
    }

    fn serve_without_end(&self) {
        self.memory.globals[0].lease.run_without_end();
    }

    fn slot_count(&self, namespace: u16) -> u32 {
        self.memory.regions[usize::from(namespace)].count.load(Acquire)
    }

    fn load_slot(&self, namespace: u16, slot: u32) -> SlotWord {
        SlotWord::unpack(self.memory.slot(namespace, slot).w0.load(SeqCst))
    }

    fn next_busy(&self, namespace: u16, from: u32, end: u32) -> u32 {
        let slots = self.memory.slots_of(namespace, from, end);
        let found = slots.iter().position(|slot| !SlotWord::rests(slot.w0.load(SeqCst)));
        found.map_or(end, |at| from + at as u32)
    }

    fn cas_slot(&self, namespace: u16, slot: u32, expected: SlotWord, new: SlotWord) -> bool {
        let slot = self.memory.slot(namespace, slot);
        slot.w0.compare_exchange(expected.pack(), new.pack(), SeqCst, SeqCst).is_ok()
    }

    fn read_slots(&self, namespace: u16, from: u32, into: &mut [[u64; 2]]) {
        let slots = self.memory.slots_of(namespace, from, from + into.len() as u32);
        for (words, slot) in into.iter_mut().zip(slots) {
            *words = [slot.w0.load(Acquire), slot.w1.load(Acquire)];
        }
    }

    fn write_slots(&self, namespace: u16, from: u32, words: &[[u64; 2]]) {
        self.memory.used.store(true, SeqCst);
        let slots = self.memory.slots_of(namespace, from, from + words.len() as u32);
        for ([w0, w1], slot) in words.iter().zip(slots) {
            slot.w1.store(*w1, Release);
            slot.w0.store(*w0, Release);
        }
    }

    fn max_handle(&self) -> u16 {
        self.memory.max_handle
    }

    fn node_word(&self, handle: u16) -> NodeWord {
        NodeWord::unpack(self.memory.nodes[usize::from(handle)].word.load(SeqCst))
    }

    fn cas_node_word(&self, handle: u16, expected: NodeWord, new: NodeWord) -> bool {
        let node = &self.memory.nodes[usize::from(handle)];
        node.word.compare_exchange(expected.pack(), new.pack(), SeqCst, SeqCst).is_ok()
    }

    fn set_node(&self, handle: u16, entry: &NodeEntry) {
        let node = &self.memory.nodes[usize::from(handle)];
        node.oldest.store(entry.incarnation << 40, Release);
        let before = node.incarnation.swap(entry.incarnation, AcqRel);
        self.queues.dismiss_server(handle, node.namespace.load(Acquire));
        node.address.store((*entry.address.ip()).into(), Release);
        node.agent_port.store(entry.address.port(), Release);
        node.namespace.store(entry.namespace, Release);
        // The node that had the handle before may have been elsewhere: until the new one's first heartbeat its packets
        // go by the kernel's routes.
        if let Some(ways) = &self.memory.ways {
            ways[usize::from(handle)].store(0, Release);
        }
        self.store.begin_lanes(handle, before, entry.incarnation);
        self.queues.sweep(handle);
        self.memory.ends.fetch_add(1, SeqCst);
        // Last: from here on the data plane takes its packets.
        node.word.store(NodeWord { state: NodeState::Live, sequence: 0 }.pack(), SeqCst);
    }

    fn node(&self, handle: u16) -> Option<NodeMemory> {
        let node = &self.memory.nodes[usize::from(handle)];
        let word = self.node_word(handle);
        let (namespace, incarnation) = self.memory.session(handle);
        let address = self.memory.address(handle, 0)?;
        let entry = NodeEntry { address, namespace, incarnation };
        let memory = NodeMemory { entry, word, oldest: node.oldest.load(Acquire), rotation: self.rotation(handle) };
        (word.state != NodeState::Vacant).then_some(memory)
    }

    fn take_up_node(&self, handle: u16, node: &NodeMemory) {
        // One that is known here, to the chain service, goes on: what the service keeps for it stays.
        if self.memory.session(handle) != (node.entry.namespace, node.entry.incarnation) {
            self.set_node(handle, &node.entry);
        }
        let own = &self.memory.nodes[usize::from(handle)];
        own.oldest.store(node.oldest, Release);
        own.word.store(node.word.pack(), SeqCst);
    }

    fn lock_server(&self, namespace: u16, part: u16) -> LockServer {
        self.queues.server(namespace, part)
    }

    fn set_lock_server(&self, namespace: u16, part: Part, handle: u16) {
        self.queues.set_server(namespace, part, handle);
    }

    fn read_lines(&self, namespace: u16, into: &mut Vec<Line>) {
        self.queues.read_lines(namespace, into);
    }

    fn line(&self, namespace: u16, name: u64) -> Option<Line> {
        self.queues.line(namespace, name)
    }

    fn step(&self, namespace: u16, name: u64, step: Step) -> bool {
        self.move_queue(namespace, name, step).is_ok()
    }

    fn queue_shape(&self) -> u64 {
        self.queues.directory[0].shape.load(SeqCst)
    }

    fn queue_room(&self) -> [u32; 2] {
        self.queues.room()
    }

    fn queues_memory(&self, namespace: u16) -> QueuesMemory {
        self.queues.memory_of(namespace)
    }

    fn take_up_queues(&self, all: &BTreeMap<u16, QueuesMemory>) -> bool {
        self.take_up_all_queues(all)
    }

    fn session_over(&self, handle: u16, incarnation: Option<u64>) {
        let entry = || self.memory.nodes[usize::from(handle)].incarnation.load(Acquire);
        self.memory.overs[usize::from(handle)].store(incarnation.unwrap_or_else(entry), SeqCst);
        self.memory.ends.fetch_add(1, SeqCst);
    }

    fn authenticated(&self) -> bool {
        self.memory.globals[0].authenticated.load(Acquire) != 0
    }

    fn set_authenticated(&self, authenticated: bool) {
        self.memory.globals[0].authenticated.store(authenticated.into(), SeqCst);
    }

    fn set_keys(&self, handle: u16, first: Option<&seal::Keys>) {
        let keys = &self.memory.keys[usize::from(handle)];
        keys.withdraw(0);
        keys.withdraw(1);
        keys.rotation.store(0, SeqCst);
        keys.heard.store(0, SeqCst);
        if let Some(first) = first {
            keys.write(0, first);
        }
    }

    fn rotation(&self, handle: u16) -> u32 {
        self.memory.keys[usize::from(handle)].rotation.load(SeqCst)
    }

    fn has_followed(&self, handle: u16) -> bool {
        let keys = &self.memory.keys[usize::from(handle)];
        keys.heard.load(SeqCst) == 1 + (keys.rotation.load(SeqCst) & 1)
    }

    fn rotate(&self, handle: u16, next: &seal::Keys) {
        let keys = &self.memory.keys[usize::from(handle)];
        let rotation = keys.rotation.load(SeqCst).wrapping_add(1);
        keys.write(usize::from(seal::is_odd(rotation)), next);
        keys.rotation.store(rotation, SeqCst);
    }

    fn take_up_keys(&self, handle: u16, rotation: u32, latest: &seal::Keys, former: Option<&seal::Keys>) {
        self.set_keys(handle, None);
        let keys = &self.memory.keys[usize::from(handle)];
        let slot = usize::from(seal::is_odd(rotation));
        if let Some(former) = former {
            keys.write(1 - slot, former);
        }
        keys.write(slot, latest);
        keys.rotation.store(rotation, SeqCst);
    }
}
