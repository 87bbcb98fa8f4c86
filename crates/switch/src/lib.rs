//! The switch: the data plane's core (`dataplane/`, C) over memory that this crate owns, or that it shares with the
//! core at the kernel's XDP hook (`xdp`).
//!
//! A [`Switch`] decides on packets from any number of threads at once ([`Switch::process`]), while a controller reads
//! and changes the same words through [`SwitchMemory`](wayside_protocol::memory::SwitchMemory). It owns no socket and
//! decides by no clock: whoever calls it tells it the time, and sends what it says to where it says.

mod allowance;
mod clock;
mod counters;
mod deciding;
mod hash;
mod layout;
mod locks;
mod memory;
mod queues;
#[cfg(feature = "spare")]
mod spare;
mod store;
mod traces;
mod verdict;
#[cfg(feature = "xdp")]
pub mod xdp;
mod zeroed;

use std::net::{Ipv4Addr, SocketAddrV4};

pub use deciding::{Decider, Deciding};
pub use memory::{Budget, RegionError, SwitchConfig};
pub use queues::{QueueConfig, QueueError, QueueState, Queued};
pub use store::StoreConfig;
pub use traces::{TraceReader, Traced};
pub use verdict::{Action, Verdict};

use wayside_protocol::Time;

use layout::{Traces, View};
use zeroed::Zeroed;

/// One switch: its memory, its counters, and the core that decides.
pub struct Switch {
    memory: memory::Memory,
    store: store::Store,
    queues: queues::Queues,
    counters: counters::Counters,
    traces: Zeroed<Traces>,
    deciders: deciding::Deciders,
    /// Where all of these are: tables stay where they are when the switch moves. To look each of them up anew was a
    /// tenth of a decision's instructions.
    tables: View,
}

impl Switch {
    /// An empty switch: no namespace, no node, epoch 0, not serving.
    pub fn new(config: SwitchConfig) -> Switch {
        Switch::of(
            memory::Memory::new(config),
            store::Store::new(StoreConfig::default()),
            queues::Queues::new(QueueConfig::default()),
            counters::Counters::new(),
            traces::ring(),
        )
    }

    fn of(
        memory: memory::Memory,
        store: store::Store,
        queues: queues::Queues,
        counters: counters::Counters,
        traces: Zeroed<Traces>,
    ) -> Switch {
        let count = |length: usize| u32::try_from(length).expect("capacities are u32");
        let tables = View {
            slots: memory.slots.as_ptr(),
            regions: memory.regions.as_ptr(),
            nodes: memory.nodes.as_ptr(),
            keys: memory.keys.as_ptr(),
            globals: memory.globals.as_ptr(),
            counters: std::ptr::null(),
            slot_count: count(memory.slots.len()),
            alone: 0,
            now_us: 0,
            groups: store.groups.as_ptr(),
            buckets: store.buckets.as_ptr(),
            items: store.items.as_ptr(),
            lanes: store.lanes.as_ptr(),
            journal: store.journal.as_ptr(),
            own: store.own.as_ptr(),
            bucket_count: count(store.buckets.len()),
            item_count: count(store.items.len()),
            lane_count: count(store.lanes.len()),
            owner: 0,
            queues: queues.queues.as_ptr(),
            cells: queues.cells.as_ptr(),
            names: queues.names.as_ptr(),
            servers: queues.servers.as_ptr(),
            directory: queues.directory.as_ptr(),
            queue_count: count(queues.queues.len()),
            cell_count: count(queues.cells.len()),
            name_count: count(queues.names.len()),
            traces: traces.as_ptr(),
        };
        Switch { memory, store, queues, counters, traces, deciders: deciding::Deciders::default(), tables }
    }

    /// A thread's that is to decide beside a controller: [`SwitchMemory::await_decisions`] waits for those alone.
    ///
    /// [`SwitchMemory::await_decisions`]: wayside_protocol::memory::SwitchMemory::await_decisions
    pub fn decider(&self) -> Decider<'_> {
        self.deciders.join()
    }

    /// Decides one packet (a UDP payload that came from `from`) and rewrites it in place. `now` was read after the
    /// packet had come: what is answered once the serving lease is over by it, another switch may answer as well.
    pub fn process(&self, now: Time, packet: &mut [u8], from: SocketAddrV4) -> Verdict {
        let view = self.view(now);
        let length = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        // SAFETY: the view points to tables of the lengths that memory.h states, which live as long as self and hold
        // atomics only; the core touches at most `length` bytes of the packet, which is borrowed exclusively.
        let raw = unsafe { layout::ws_process(&view, packet.as_mut_ptr(), length, from.port()) };
        Verdict::from(raw)
    }

    /// As [`Switch::process`], on one of two processors: before and after each compare-and-swap of the decision
    /// `meanwhile` gets a turn, with the number of turns before it. It may do to the switch what another processor
    /// could, `process` included, but must not call this again. `is_blind`: the core does not read the holder's word
    /// again after it has won a slot, which is wrong.
    #[cfg(feature = "meanwhile")]
    pub fn process_meanwhile(
        &self,
        now: Time,
        packet: &mut [u8],
        from: SocketAddrV4,
        is_blind: bool,
        meanwhile: &mut dyn FnMut(u32),
    ) -> Verdict {
        extern "C" fn turn(context: *mut core::ffi::c_void, step: u32) {
            // SAFETY: the context is the reference below, which nobody else uses until the core returns.
            let meanwhile = unsafe { &mut *context.cast::<&mut dyn FnMut(u32)>() };
            meanwhile(step);
        }
        let view = self.view(now);
        let length = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        let mut meanwhile = meanwhile;
        let context = (&raw mut meanwhile).cast();
        // SAFETY: as in `process`; a panic in `turn` ends the program instead of unwinding through C.
        let raw = unsafe {
            layout::ws_process_meanwhile(
                &view,
                packet.as_mut_ptr(),
                length,
                from.port(),
                is_blind.into(),
                turn,
                context,
            )
        };
        Verdict::from(raw)
    }

    /// Turns a copy of a packet with [`Verdict::copy`] into what that node is to get: an agent its JOIN, who released
    /// or pushed the answer. False: the node has no key, and must not get it.
    ///
    /// # Panics
    /// If the packet is shorter than a header.
    #[must_use]
    pub fn make_copy(&self, packet: &mut [u8]) -> bool {
        assert!(packet.len() >= wayside_wire::limits::HEADER_BYTES, "not a packet");
        let length = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        // SAFETY: as in `process`; the header's bytes are there, and nothing beyond the packet is touched.
        unsafe { layout::ws_process_copy(&self.view(Time(0)), packet.as_mut_ptr(), length) != 0 }
    }

    /// Signs a packet of the daemon's own for this handle, while packets are signed. False: it has no key, and must not
    /// get it.
    ///
    /// # Panics
    /// If the packet is no whole number of 32 bytes, or shorter than 64.
    #[must_use]
    pub fn seal(&self, handle: u16, packet: &mut [u8]) -> bool {
        assert!(packet.len() >= 64 && packet.len().is_multiple_of(32), "not a packet");
        let length = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        // SAFETY: as in `process`; the header and what follows it are there.
        unsafe { layout::ws_process_seal(&self.view(Time(0)), handle, packet.as_mut_ptr(), length) != 0 }
    }

    /// Where a node is to be reached: at its agent port, if `port` is 0. `None` if the handle was never given out.
    pub fn address(&self, handle: u16, port: u16) -> Option<SocketAddrV4> {
        self.memory.address(handle, port)
    }

    /// Which way the program at the hook sends a node's packets; 0: none that it knows. `None`: there is no hook.
    pub fn way(&self, handle: u16) -> Option<u64> {
        self.memory.way(handle)
    }

    /// Tells the program at the hook the way to a node, if the node is still at this address.
    pub fn set_way(&self, handle: u16, address: Ipv4Addr, way: u64) {
        self.memory.set_way(handle, address, way);
    }

    /// Every counter and its name: drops by reason, then verdicts and outcomes.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counters.iter()
    }

    /// One counter.
    ///
    /// # Panics
    /// If there is none of that name: names are the program's own.
    pub fn counter(&self, name: &str) -> u64 {
        let found = self.counters.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("no counter is named {name}")).1
    }

    /// The same tables at every call; what is of the call and its thread.
    fn view(&self, now: Time) -> View {
        let (counters, alone, lane) = self.counters.lane();
        View { counters, alone: alone.into(), now_us: now.0, owner: 1 + lane, ..self.tables }
    }
}
