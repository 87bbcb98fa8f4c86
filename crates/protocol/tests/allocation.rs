//! Nodes against the real core, in one process and at virtual times: after a short warm-up nothing that they do
//! allocates, whatever the network loses and however long a process sleeps. A test file of its own, for it counts
//! allocations.
//!
//! How much memory a node has follows from the most locks at a time alone: so the warm-up goes once to that number,
//! without a loss or a pause, and everything else comes afterwards.

#[path = "node/bench.rs"]
#[expect(dead_code, reason = "only its switch and nodes are used here")]
mod bench;

#[path = "chain_client/bench.rs"]
#[expect(dead_code, reason = "only its requests are used here")]
mod keys;

use bench::Bench;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use std::net::SocketAddrV4;
use wayside_protocol::Time;
use wayside_protocol::{Acquire, Event, Mode, Priority, RequestId};
use wayside_switch::Action;
use wayside_wire::limits::MAX_PACKET_BYTES;
use wayside_wire::{BODY, Entry, Header, Outcome, SlotBits, SlotState, entry_flag, header_flag, kind, limits, service};

/// Counts the allocations of each thread, and what it has more than it gave back: tests run side by side.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    ALLOCATIONS.with(|count| count.set(count.get() + 1));
    weigh(bytes as isize);
}

fn weigh(bytes: isize) {
    BYTES.with(|all| all.set(all.get() + bytes));
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        weigh(-(layout.size() as isize));
        // SAFETY: as the caller promises.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        weigh(-(layout.size() as isize));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

fn bytes() -> isize {
    BYTES.with(Cell::get)
}

/// A datagram, without a heap.
struct Datagram {
    /// None: the switch.
    to: Option<usize>,
    at: SocketAddrV4,
    bytes: [u8; MAX_PACKET_BYTES],
    length: usize,
}

/// Nodes, a switch, and a network with room for all that may be under way.
struct World {
    bench: Bench,
    wire: VecDeque<Datagram>,
    sent: u64,
    /// Every so many-th packet is lost; 0: none.
    lose: u64,
    /// Of each node: grants that came.
    granted: Vec<VecDeque<RequestId>>,
    next_name: u64,
}

/// Packets that may be under way.
const UNDER_WAY: usize = 1_024;
/// From one packet's arrival to the next, in microseconds.
const HOP: u64 = 2;

impl World {
    fn new(nodes: usize) -> World {
        World {
            bench: Bench::new(nodes),
            wire: VecDeque::with_capacity(UNDER_WAY),
            sent: 0,
            lose: 0,
            granted: (0..nodes).map(|_| VecDeque::with_capacity(UNDER_WAY)).collect(),
            next_name: 0,
        }
    }

    fn post(&mut self, to: Option<usize>, at: SocketAddrV4, packet: &[u8]) {
        self.sent += 1;
        if self.lose > 0 && self.sent.is_multiple_of(self.lose) {
            return;
        }
        assert!(self.wire.len() < UNDER_WAY, "the network of this test has no room for more");
        let mut bytes = [0; MAX_PACKET_BYTES];
        bytes[..packet.len()].copy_from_slice(packet);
        self.wire.push_back(Datagram { to, at, bytes, length: packet.len() });
    }

    fn post_to_node(&mut self, at: SocketAddrV4, packet: &[u8]) {
        self.post(Some(usize::from(at.ip().octets()[3]) - 1), at, packet);
    }

    /// Takes out of a node what the last call brought.
    fn settle(&mut self, node: usize) {
        while let Some(event) = self.bench.nodes[node].event() {
            match event {
                Event::Granted { request, .. } => self.granted[node].push_back(request),
                other => panic!("node {node} is told {other:?}"),
            }
        }
        loop {
            let Some(out) = self.bench.nodes[node].transmit() else { return };
            let from = bench::address(node, out.port);
            let (mut bytes, length) = ([0; MAX_PACKET_BYTES], out.packet.len());
            bytes[..length].copy_from_slice(out.packet);
            self.post(None, from, &bytes[..length]);
        }
    }

    /// One packet arrives; whoever's timer is due looks at it.
    fn step(&mut self) {
        self.bench.now = self.bench.now + HOP;
        if let Some(Datagram { to, at, mut bytes, length }) = self.wire.pop_front() {
            match to {
                Some(node) => {
                    self.bench.nodes[node].on_packet(self.bench.now, &bytes[..length]);
                    self.settle(node);
                }
                None => self.at_switch(at, &mut bytes, length),
            }
        }
        for node in 0..self.bench.nodes.len() {
            if self.bench.nodes[node].next_timer().is_some_and(|due| due <= self.bench.now) {
                self.bench.nodes[node].on_tick(self.bench.now);
                self.settle(node);
            }
        }
    }

    fn at_switch(&mut self, from: SocketAddrV4, bytes: &mut [u8; MAX_PACKET_BYTES], length: usize) {
        let verdict = self.bench.switch.process(Time(0), &mut bytes[..length], from);
        if let Some(agent) = verdict.copy {
            let mut join = *bytes;
            assert!(self.bench.switch.make_copy(&mut join[..verdict.length]));
            let at = self.bench.switch.address(agent, 0).expect("agents are known");
            self.post_to_node(at, &join[..verdict.length]);
        }
        match verdict.action {
            Action::ToSender => self.post_to_node(from, &bytes[..verdict.length]),
            Action::ToNode { handle, port } => {
                let at = self.bench.switch.address(handle, port).expect("receivers are known");
                self.post_to_node(at, &bytes[..verdict.length]);
            }
            // Nobody is asked for a census here: what was lost comes again.
            Action::Drop | Action::ToController => {}
        }
    }

    fn ask(&mut self, node: usize, name: u64, mode: Mode) -> RequestId {
        let want = Acquire { name, mode, try_: false, priority: Priority::NORMAL, deadline: None, port: 5_000 };
        let id = self.bench.nodes[node].acquire(self.bench.now, want).expect("the session lives");
        self.settle(node);
        id
    }

    fn release(&mut self, node: usize, id: RequestId) {
        self.bench.nodes[node].release(self.bench.now, id);
        self.settle(node);
    }

    /// Until a node has another grant.
    fn grant(&mut self, node: usize) -> RequestId {
        loop {
            if let Some(id) = self.granted[node].pop_front() {
                return id;
            }
            self.step();
        }
    }

    fn until_idle(&mut self) {
        while !self.bench.nodes.iter().all(|node| node.is_idle()) {
            self.step();
        }
    }

    fn fresh_name(&mut self) -> u64 {
        self.next_name += 1;
        self.next_name
    }

    /// Takes `most` locks of fresh names, one after the other; gives all back; then as many, each given back at once.
    fn round(&mut self, most: usize, held: &mut Vec<RequestId>) {
        for _ in 0..most {
            let name = self.fresh_name();
            self.ask(0, name, if name.is_multiple_of(5) { Mode::Shared } else { Mode::Exclusive });
            held.push(self.grant(0));
        }
        for id in held.drain(..) {
            self.release(0, id);
        }
        self.until_idle();
        for _ in 0..most {
            let name = self.fresh_name();
            self.ask(0, name, Mode::Exclusive);
            let id = self.grant(0);
            self.release(0, id);
        }
        self.until_idle();
    }

    /// The process sleeps with `most` locks, wakes up after all retransmissions are due, and gives them back twice as
    /// slowly: what it gives back last is due again before the first is answered.
    fn sleep(&mut self, most: usize, held: &mut Vec<RequestId>) {
        for _ in 0..most {
            let name = self.fresh_name();
            self.ask(0, name, Mode::Exclusive);
            held.push(self.grant(0));
        }
        for id in held.drain(..) {
            self.release(0, id);
        }
        self.bench.now = self.bench.now + 30_000;
        self.until_idle();
    }
}

/// As many as the bench's switch has slots for.
const MOST: usize = 48;

#[test]
fn a_million_locks_that_come_and_go_allocate_nothing() {
    let mut world = World::new(1);
    let mut held = Vec::with_capacity(MOST);
    world.round(MOST, &mut held);
    let before = allocations();
    let mut rounds = 0u64;
    while world.next_name < 1_000_000 {
        // Losses in some, which are sent again; none in others, in which stale timers would pile up.
        world.lose = if rounds % 8 == 7 { 11 } else { 0 };
        world.round(MOST, &mut held);
        if rounds.is_multiple_of(64) {
            world.lose = 0;
            world.sleep(MOST, &mut held);
        }
        rounds += 1;
    }
    assert_eq!(allocations() - before, 0, "in {} locks", world.next_name);
}

#[test]
fn a_lock_that_is_handed_over_again_and_again_allocates_nothing() {
    const NODES: usize = 3;
    const NAME: u64 = 7;
    let mut world = World::new(NODES);
    let mut handed = 0u64;
    let mut counted = 0;
    for node in 0..NODES {
        world.ask(node, NAME, Mode::Exclusive);
    }
    while handed < 200_000 {
        if handed == 1_000 {
            counted = allocations();
            world.lose = 53;
        }
        let holder = (0..NODES).find(|&node| !world.granted[node].is_empty());
        let Some(holder) = holder else {
            world.step();
            continue;
        };
        let id = world.grant(holder);
        // Sometimes two read at once, and join.
        let mode = if handed.is_multiple_of(7) { Mode::Shared } else { Mode::Exclusive };
        world.release(holder, id);
        world.ask(holder, NAME, mode);
        handed += 1;
    }
    assert_eq!(allocations() - counted, 0, "in {handed} hand-overs");
}

/// A node with a million locks keeps its lease while it reports them: that takes a look at each of them, and no memory
/// for each.
#[test]
fn a_census_of_what_a_node_holds_alone_takes_no_memory_for_each_lock() {
    let mut bench = Bench::new(1);
    for name in 0..MOST as u64 {
        bench.ask(0, name, Mode::Exclusive);
    }
    bench.run();
    let mut packet = [0; BODY + Entry::BYTES];
    let mut tell = |bench: &mut Bench, kind, flags, about: Entry| {
        let header = Header { service: service::LOCK, kind, flags, count: 1, ..Header::default() };
        Header { destination: bench::handle(0), epoch: 8, namespace: 1, ..header }.write(&mut packet);
        about.write(&mut packet, BODY);
        bench.nodes[0].on_packet(bench.now, &packet);
        assert!(core::iter::from_fn(|| bench.nodes[0].transmit().map(|_| ())).count() > 0, "it answers");
    };
    let before = allocations();
    let about = Entry { request: 9, ..Entry::default() };
    tell(&mut bench, kind::lock::CENSUS, 0, Entry { slot: limits::ALL_SLOTS, ..about });
    let bits = SlotBits { state: SlotState::Managed, transferred: true, ..SlotBits::default() };
    let (slot_bits, flags) = (bits.to_u16(), entry_flag::AGENCY);
    tell(&mut bench, kind::lock::ADOPT, header_flag::LAST, Entry { tenure: 1, slot_bits, flags, ..about });
    assert!(allocations() - before < MOST as u64 / 4, "{} for {MOST} locks", allocations() - before);
    assert!((0..MOST as u32).all(|slot| bench.nodes[0].books(slot).is_some()), "it keeps all of them");
}

/// A key is made, as far as to INSERT: its request, and that of the write for which it is.
fn insert_key(world: &mut keys::World) -> (RequestId, u64) {
    let write = world.write();
    world.packets();
    world.answer(write.0, Outcome::Missing);
    world.insert(write, b"name");
    (write, world.packet().operation().request)
}

#[test]
fn a_client_of_keys_remembers_nothing_of_what_has_ended() {
    let mut world = keys::World::knowing(1);
    // Its timer comes before those of all others, which are no more.
    world.read(b"without an answer");
    let mut before = 0;
    for round in 0..10_000 {
        if round == 100 {
            before = bytes();
        }
        let (write, insert) = insert_key(&mut world);
        world.answer(insert, Outcome::Done);
        world.answer(write.0, Outcome::Done);
        assert!(world.taken(write).is_some());
        let (given_up, _) = insert_key(&mut world);
        world.cancel(given_up);
        world.told();
        world.packets();
        assert_eq!(world.due_in(), Some(keys::FIRST));
    }
    assert!(bytes() - before < 20_000, "{} bytes", bytes() - before);
}

#[test]
fn a_client_of_keys_remembers_nothing_of_sessions_that_have_ended() {
    let mut world = keys::World::new();
    let mut before = 0;
    for session in 2..10_000 {
        if session == 100 {
            before = bytes();
        }
        world.read(b"name");
        world.tell(1, keys::BEFORE);
        world.packets();
        insert_key(&mut world);
        world.client.lose_everything();
        world.told();
        world.client.start(session, 1);
    }
    assert!(bytes() - before < 20_000, "{} bytes", bytes() - before);
}
