//! The controller alone, against a switch memory and a store of a few lines. Whole clusters are the simulator's.

extern crate std;

mod censuses;
mod checks;
mod comings;
mod deaths;
mod divisions;
mod doubts;
mod epochs;
mod lives;
mod mourning;
mod parts;
mod policies;
mod rosters;
mod signed;
mod sweeps;
mod turns;
mod watched;

use super::{enrolment::tests::applicant, *};
use crate::memory::{Line, LockServer, Moment, NodeMemory, Part, QueuesMemory, SlotWord, Step};
use crate::seal::{Direction, Enrolment, Keys, Period, Secret};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::ToString;
use core::cell::{Cell, RefCell};
use core::net::Ipv4Addr;
use wayside_wire::{Engine, Enrol, Enrolled, Policy, Refusal, SlotState, entry_flag, padded};

const SLOTS: u32 = 64;
const LEASE: u32 = 100_000;
const ROOT: Secret = Secret([42; 32]);

#[derive(Default)]
pub(super) struct Memory {
    epoch: Cell<u32>,
    serving: Cell<bool>,
    pub(super) lease_end: Cell<Option<Time>>,
    slots: RefCell<BTreeMap<u32, SlotWord>>,
    /// Besides the usual ones.
    more_slots: Cell<u32>,
    pub(in crate::controller) more_namespaces: Cell<u16>,
    more_handles: Cell<u16>,
    words: RefCell<BTreeMap<Handle, NodeWord>>,
    nodes: RefCell<BTreeMap<Handle, NodeEntry>>,
    authenticated: Cell<bool>,
    keys: RefCell<BTreeMap<Handle, Held>>,
    servers: RefCell<BTreeMap<u16, LockServer>>,
    pub(in crate::controller) queues: RefCell<BTreeMap<u16, QueuesMemory>>,
    pub(in crate::controller) queue_shape: Cell<u64>,
    pub(in crate::controller) queue_room: Cell<[u32; 2]>,
    pub(in crate::controller) no_room_for_queues: Cell<bool>,
    /// The epoch when an entry was written last.
    written_in: Cell<u32>,
    /// When it was awaited that decisions end: the epoch by then, and the slots.
    pub(in crate::controller) awaited: RefCell<Vec<(u32, BTreeMap<u32, SlotWord>)>>,
    /// Sessions that are over, by handle.
    overs: RefCell<BTreeMap<Handle, Option<u64>>>,
}

impl Memory {
    /// The keys that packets to a handle are signed with.
    pub(super) fn keys_of(&self, handle: Handle) -> Option<Keys> {
        self.keys.borrow().get(&handle).map(|held| held.keys)
    }

    /// The node of this handle signs with the latest keys.
    pub(super) fn follow(&self, handle: Handle) {
        self.keys.borrow_mut().get_mut(&handle).expect("it has keys").followed = true;
    }
}

/// The keys that packets to a handle are signed with.
#[derive(Clone, Copy, Debug)]
struct Held {
    rotation: u32,
    /// Set by tests.
    followed: bool,
    keys: Keys,
}

impl SwitchMemory for Rc<Memory> {
    fn epoch(&self) -> u32 {
        self.epoch.get()
    }
    fn set_epoch(&self, epoch: u32) {
        self.epoch.set(epoch);
    }
    fn await_decisions(&self) {
        self.awaited.borrow_mut().push((self.epoch(), self.slots.borrow().clone()));
    }
    fn serving(&self) -> bool {
        self.serving.get()
    }
    fn set_serving(&self, serving: bool) {
        self.serving.set(serving);
    }
    fn moment(&self, now: Time) -> Moment {
        Moment { time: now, tick: 0 }
    }
    fn serve_for(&self, since: Moment, lease: u64) {
        self.lease_end.set(Some(since.time + lease));
    }
    fn serve_without_end(&self) {
        self.lease_end.set(None);
    }
    fn slot_count(&self, namespace: u16) -> u32 {
        if (1..=1 + self.more_namespaces.get()).contains(&namespace) { SLOTS + self.more_slots.get() } else { 0 }
    }
    fn load_slot(&self, _: u16, slot: u32) -> SlotWord {
        self.slots.borrow().get(&slot).copied().unwrap_or(SlotWord::unheld(0))
    }
    fn cas_slot(&self, namespace: u16, slot: u32, expected: SlotWord, new: SlotWord) -> bool {
        let same = self.load_slot(namespace, slot) == expected;
        if same {
            self.slots.borrow_mut().insert(slot, new);
        }
        same
    }
    fn read_slots(&self, namespace: u16, from: u32, into: &mut [[u64; 2]]) {
        for (slot, words) in (from..).zip(into) {
            *words = [self.load_slot(namespace, slot).pack(), 0];
        }
    }
    fn write_slots(&self, _: u16, from: u32, words: &[[u64; 2]]) {
        self.slots.borrow_mut().extend((from..).zip(words.iter().map(|[w0, _]| SlotWord::unpack(*w0))));
    }
    fn max_handle(&self) -> u16 {
        3 + self.more_handles.get()
    }
    fn node_word(&self, handle: u16) -> NodeWord {
        self.words.borrow().get(&handle).copied().unwrap_or(NodeWord::unpack(0))
    }
    fn cas_node_word(&self, handle: u16, expected: NodeWord, new: NodeWord) -> bool {
        let same = self.node_word(handle) == expected;
        if same {
            self.words.borrow_mut().insert(handle, new);
        }
        same
    }
    fn set_node(&self, handle: u16, entry: &NodeEntry) {
        self.written_in.set(self.epoch());
        self.nodes.borrow_mut().insert(handle, *entry);
        let mut servers = self.servers.borrow_mut();
        servers.values_mut().filter(|server| server.handle == handle).for_each(|server| server.handle = 0);
        self.words.borrow_mut().insert(handle, NodeWord { state: NodeState::Live, sequence: 0 });
    }
    fn node(&self, handle: u16) -> Option<NodeMemory> {
        let entry = self.nodes.borrow().get(&handle).copied()?;
        let word = Some(self.node_word(handle)).filter(|word| word.state != NodeState::Vacant)?;
        Some(NodeMemory { entry, word, oldest: 0, rotation: self.rotation(handle) })
    }
    fn take_up_node(&self, handle: u16, node: &NodeMemory) {
        self.set_node(handle, &node.entry);
        self.words.borrow_mut().insert(handle, node.word);
    }
    fn lock_server(&self, _: u16, part: u16) -> LockServer {
        self.servers.borrow().get(&part).copied().unwrap_or_default()
    }
    fn set_lock_server(&self, _: u16, part: Part, handle: u16) {
        let term = self.lock_server(0, part.number).term + 1;
        self.servers.borrow_mut().insert(part.number, LockServer { handle, term });
    }
    fn read_lines(&self, _: u16, into: &mut Vec<Line>) {
        into.clear();
    }
    fn line(&self, _: u16, _: u64) -> Option<Line> {
        None
    }
    fn step(&self, _: u16, _: u64, _: Step) -> bool {
        false
    }
    fn queue_shape(&self) -> u64 {
        self.queue_shape.get()
    }
    fn queue_room(&self) -> [u32; 2] {
        self.queue_room.get()
    }
    fn queues_memory(&self, namespace: u16) -> QueuesMemory {
        self.queues.borrow().get(&namespace).cloned().unwrap_or_default()
    }
    fn take_up_queues(&self, all: &BTreeMap<u16, QueuesMemory>) -> bool {
        assert!(self.epoch() != 0 && !self.serving(), "their epoch has begun, and nobody decides on them");
        *self.queues.borrow_mut() = all.clone();
        !self.no_room_for_queues.get()
    }
    fn session_over(&self, handle: u16, incarnation: Option<u64>) {
        self.overs.borrow_mut().insert(handle, incarnation);
    }
    fn authenticated(&self) -> bool {
        self.authenticated.get()
    }
    fn set_authenticated(&self, authenticated: bool) {
        self.authenticated.set(authenticated);
    }
    fn set_keys(&self, handle: u16, first: Option<&Keys>) {
        let mut all = self.keys.borrow_mut();
        all.remove(&handle);
        all.extend(first.map(|keys| (handle, Held { rotation: 0, followed: false, keys: *keys })));
    }
    fn rotation(&self, handle: u16) -> u32 {
        self.keys.borrow().get(&handle).map_or(0, |held| held.rotation)
    }
    fn has_followed(&self, handle: u16) -> bool {
        self.keys.borrow().get(&handle).is_some_and(|held| held.followed)
    }
    fn rotate(&self, handle: u16, next: &Keys) {
        let mut all = self.keys.borrow_mut();
        let held = all.get_mut(&handle).expect("it has keys");
        *held = Held { rotation: held.rotation + 1, followed: false, keys: *next };
    }
    fn take_up_keys(&self, handle: u16, rotation: u32, latest: &Keys, _: Option<&Keys>) {
        self.keys.borrow_mut().insert(handle, Held { rotation, followed: false, keys: *latest });
    }
}

#[derive(Clone, Default)]
pub(super) struct Disk {
    records: Rc<RefCell<BTreeMap<u32, Vec<u8>>>>,
    pub(super) full: Rc<Cell<bool>>,
    pub(super) unreadable: Rc<Cell<bool>>,
    /// Writes all, and says that it failed.
    fails_late: Rc<Cell<bool>>,
    /// More records than that are too many for it at once.
    most: Rc<Cell<Option<usize>>>,
    commits: Rc<Cell<usize>>,
}

impl Store for Disk {
    type Error = &'static str;
    fn load(&mut self) -> Result<Vec<Record>, Self::Error> {
        if self.unreadable.get() {
            return Err("no answer in time");
        }
        Ok(self.records.borrow().iter().map(|(key, value)| (*key, value.clone())).collect())
    }
    fn commit(&mut self, batch: &[Record]) -> Result<(), Self::Error> {
        if self.full.get() {
            return Err("no space");
        }
        if self.most.get().is_some_and(|most| batch.len() > most) {
            return Err("no answer in time");
        }
        self.commits.set(self.commits.get() + 1);
        self.records.borrow_mut().extend(batch.iter().cloned());
        if self.fails_late.get() { Err("no answer in time") } else { Ok(()) }
    }
}

struct Bench {
    config: Config,
    memory: Rc<Memory>,
    disk: Disk,
    controller: Controller<Rc<Memory>, Disk>,
    now: u64,
}

impl Bench {
    fn new() -> Self {
        Bench::with(config())
    }

    /// Of a cluster whose packets are signed.
    fn signed() -> Self {
        Bench::with(Config { root: Some(ROOT), rotation_period: 1_000_000, ..config() })
    }

    fn with(config: Config) -> Self {
        let (memory, disk) = (Rc::new(Memory::default()), Disk::default());
        let controller = Controller::new(config.clone(), memory.clone(), disk.clone()).expect("an empty store loads");
        let mut bench = Bench { config, memory, disk, controller, now: 0 };
        bench.pass(0);
        bench
    }

    fn pass(&mut self, micros: u64) {
        let end = self.now + micros;
        loop {
            self.controller.on_tick(Time(self.now));
            self.controller.sessions.check();
            let next = self.controller.next_timer().0;
            if next > end {
                break;
            }
            self.now = next;
        }
        self.now = end;
    }

    fn restart_controller(&mut self) {
        self.controller =
            Controller::new(self.config.clone(), self.memory.clone(), self.disk.clone()).expect("its own store loads");
        self.pass(0);
    }

    /// Another memory, as after a switch restart.
    fn restart_switch(&mut self) {
        self.memory.epoch.set(0);
        self.memory.serving.set(false);
        self.memory.slots.borrow_mut().clear();
        self.memory.words.borrow_mut().clear();
        self.pass(config().poll_period);
    }

    fn receive(&mut self, source: Handle, header: Header, body: impl FnOnce(&mut [u8]), bytes: usize) {
        let mut packet = vec![0; BODY + bytes];
        Header { source, epoch: self.memory.epoch(), namespace: 1, ..header }.write(&mut packet);
        body(&mut packet);
        self.controller.on_packet(Time(self.now), address(source), &packet);
    }

    fn enrol(&mut self, nonce: u64) -> Option<(Header, Enrolled)> {
        let body = Enrol { nonce, namespace_name: padded("default").expect("short"), ..Enrol::default() };
        let header = Header { service: service::FABRIC, kind: wayside_wire::kind::fabric::ENROL, ..Header::default() };
        self.receive(0, header, |packet| body.write(packet, BODY), Enrol::BYTES);
        self.sent(wayside_wire::kind::fabric::ENROLLED).pop().map(|p| (check(&p).unwrap(), Enrolled::read(&p, BODY)))
    }

    /// As over a secure connection.
    fn enrol_securely(&mut self, nonce: u64) -> Result<Enrolment, Refusal> {
        let body = Enrol { nonce, namespace_name: padded("default").expect("short"), ..Enrol::default() };
        self.controller.enrol(Time(self.now), applicant(nonce), 0, &body)
    }

    /// The node of this handle lives on, and signs with the latest keys.
    fn follow(&mut self, handle: Handle) {
        self.beat(handle);
        self.memory.keys.borrow_mut().get_mut(&handle).expect("it has keys").followed = true;
    }

    fn beat(&mut self, handle: Handle) {
        let mut words = self.memory.words.borrow_mut();
        words.get_mut(&handle).expect("known").sequence += 1;
    }

    fn fabric(&mut self, source: Handle, kind: u8, position: u16, incarnation: u64) {
        let body = Heartbeat { incarnation, ..Heartbeat::default() };
        let header = Header { service: service::FABRIC, kind, position, ..Header::default() };
        self.receive(source, header, |packet| body.write(packet, BODY), Heartbeat::BYTES);
    }

    fn lock(&mut self, source: Handle, kind: u8, flags: u16, position: u16, entries: &[Entry]) {
        let count = entries.len() as u8;
        let header = Header { service: service::LOCK, kind, flags, position, count, ..Header::default() };
        let write = |packet: &mut [u8]| {
            for (index, entry) in entries.iter().enumerate() {
                entry.write(packet, entry_at(index));
            }
        };
        self.receive(source, header, write, Entry::BYTES * entries.len());
    }

    /// What has been sent of this kind since the last call; the rest is forgotten.
    fn sent(&mut self, kind: u8) -> Vec<Vec<u8>> {
        let all = core::iter::from_fn(|| self.controller.transmit()).map(|(_, packet)| packet);
        all.filter(|packet| check(packet).expect("well formed").kind == kind).collect()
    }

    fn slot(&self, slot: u32) -> SlotWord {
        self.memory.load_slot(1, slot)
    }

    /// A node has this slot.
    fn hold(&mut self, slot: u32, agent: Handle, tenure: u32) {
        let word = SlotWord { state: SlotState::Managed, agent, ..SlotWord::unheld(tenure) };
        self.memory.slots.borrow_mut().insert(slot, word);
    }

    fn id_of(packet: &[u8]) -> u64 {
        Entry::read(packet, BODY).request
    }
}

pub(super) fn config() -> Config {
    let namespace = Namespace {
        id: 1,
        name: "default".to_string(),
        policy: Policy::Fair,
        patience: crate::OVERTAKEN_MOST,
        engine: Engine::Fission,
        names: crate::Names::default(),
        allocation: Allocation::Fixed,
        room: Room::default(),
        servers: 1,
        lease: LEASE,
        longest_lease: LONGEST_LEASE,
    };
    Config { namespaces: vec![namespace], secret: 42, ..Config::default() }
}

fn address(handle: Handle) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, handle as u8), 7600)
}

use wayside_wire::kind::{fabric, lock};

#[test]
fn boots_an_empty_switch_under_a_fresh_epoch() {
    let mut bench = Bench::new();
    assert_eq!((bench.memory.epoch(), bench.memory.serving()), (1, true));
    bench.restart_controller();
    assert_eq!(bench.memory.epoch(), 1, "a controller's restart leaves the switch alone");
    bench.restart_switch();
    assert_eq!((bench.memory.epoch(), bench.memory.serving()), (2, true));
}

/// The calendar may say the very epoch that a memory of lost records is in.
#[test]
fn a_controller_without_records_does_not_go_on_where_another_one_was() {
    for epoch in [6, 7, 8, 9] {
        let mut bench = Bench::with(Config { first_epoch: 7, first_incarnation: 1_000, ..config() });
        assert_eq!(bench.enrol(1).expect("there is room").1.incarnation, 1_001);
        bench.memory.epoch.set(epoch);
        bench.disk.records.borrow_mut().clear();
        bench.config.first_incarnation = 2_000;
        // The first of them dies before it has an epoch of its own.
        Controller::new(bench.config.clone(), bench.memory.clone(), bench.disk.clone()).expect("an empty store loads");
        bench.restart_controller();
        assert_eq!(bench.memory.epoch(), epoch.max(7) + 1);
        assert_eq!(bench.memory.node_word(1).state, NodeState::Expired, "nobody knows that session");
        assert_eq!(bench.enrol(1).expect("there is room").1.incarnation, 2_001);
    }
}

#[test]
fn an_epoch_is_durable_before_it_is_used() {
    let mut bench = Bench::new();
    bench.disk.full.set(true);
    bench.restart_switch();
    assert_eq!((bench.memory.epoch(), bench.memory.serving()), (0, false));
    bench.disk.full.set(false);
    bench.pass(config().poll_period);
    assert_eq!((bench.memory.epoch(), bench.memory.serving()), (2, true));
}

/// A session's secret goes with the answer.
#[test]
fn a_nonce_that_another_host_or_tenant_knows_gets_no_answer_with_it() {
    let mut bench = Bench::new();
    let ask = |bench: &mut Bench, admission, name| {
        let body = Enrol { nonce: 7, namespace_name: padded(name).expect("short"), ..Enrol::default() };
        bench.controller.enrol(Time(bench.now), applicant(admission), 0, &body)
    };
    let first = ask(&mut bench, 3, "default").expect("there is room");
    assert_eq!(ask(&mut bench, 4, "default"), Err(Refusal::Namespace));
    assert_eq!(ask(&mut bench, 3, "other"), Err(Refusal::Namespace));
    assert_eq!(ask(&mut bench, 3, "default"), Ok(first));
}

#[test]
fn a_repeated_enrol_gets_the_same_answer_even_from_the_next_controller() {
    let mut bench = Bench::new();
    let first = bench.enrol(7).expect("answered");
    assert_eq!((first.0.destination, first.1.incarnation, first.1.lease_us), (1, 1, LEASE));
    assert_eq!(bench.enrol(7), Some(first));
    bench.restart_controller();
    assert_eq!(bench.enrol(7), Some(first));
    let second = bench.enrol(8).expect("answered");
    assert_eq!((second.0.destination, second.1.incarnation), (2, 2));
}

#[test]
fn enrols_nobody_that_it_cannot_write_down() {
    let mut bench = Bench::new();
    bench.disk.full.set(true);
    assert_eq!(bench.enrol(7), None);
    assert_eq!(bench.memory.node_word(1).state, NodeState::Vacant);
}

#[test]
fn refuses_a_fourth_node_and_an_unknown_namespace() {
    let mut bench = Bench::new();
    for nonce in 1..=3 {
        assert!(bench.enrol(nonce).is_some());
    }
    let (header, body) = bench.enrol(4).expect("answered");
    assert_ne!(header.flags & wayside_wire::header_flag::REFUSED, 0);
    assert_eq!(body.reason, Refusal::Full as u8);
}

#[test]
fn expires_a_silent_session_after_lease_and_grace() {
    let mut bench = Bench::new();
    let (_, body) = bench.enrol(1).expect("answered");
    let patience = u64::from(body.lease_us + body.grace_us);
    bench.pass(LEASE.into());
    bench.beat(1);
    bench.pass(patience - 1);
    assert_eq!(bench.memory.node_word(1).state, NodeState::Live);
    bench.pass(2 * config().poll_period);
    assert_eq!(bench.memory.node_word(1).state, NodeState::Expired);
}

#[test]
fn a_handle_rests_before_it_is_given_again() {
    let mut bench = Bench::new();
    for nonce in 1..=3 {
        bench.enrol(nonce);
    }
    for handle in 1..=3 {
        bench.controller.closed(Time(bench.now), handle);
    }
    bench.pass(config().quarantine - 1);
    let refused = bench.enrol(4).expect("answered").1.reason;
    assert_eq!(refused, Refusal::Full as u8);
    bench.pass(1);
    assert_eq!(bench.enrol(4).expect("answered").1.incarnation, 4);
}

#[test]
fn a_leave_is_confirmed_as_often_as_it_is_asked() {
    let mut bench = Bench::new();
    bench.enrol(1);
    for _ in 0..2 {
        bench.fabric(1, fabric::LEAVE, 0, 1);
        assert_eq!(bench.sent(fabric::LEFT).len(), 1);
        assert_eq!(bench.memory.node_word(1).state, NodeState::Expired);
    }
}

#[test]
fn a_dead_agents_slot_goes_to_a_holder() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.enrol(2);
    bench.hold(9, 1, 5);
    bench.hold(10, 1, 6);
    bench.sent(0);
    bench.controller.closed(Time(bench.now), 1);
    bench.pass(config().poll_period);
    let census = bench.sent(lock::CENSUS).pop().expect("asked");
    assert_eq!(entries(&census).map(|e| (e.slot, e.tenure)).collect::<Vec<_>>(), [(9, 6), (10, 7)]);
    assert_eq!(bench.slot(9).state, SlotState::Frozen);

    // Page 0 is not the last; a copy of it changes nothing.
    let echo = Entry { request: Bench::id_of(&census), slot: 9, ..Entry::default() };
    let held = Entry { name: 9, request: 2 << 40 | 1, slot: 9, tenure: 5, flags: entry_flag::HELD, ..Entry::default() };
    bench.lock(2, lock::REPORT, 0, 0, &[echo, held]);
    bench.lock(2, lock::REPORT, 0, 0, &[echo, held]);
    let asked = bench.sent(lock::CENSUS).iter().map(|packet| check(packet).unwrap().position).collect::<Vec<_>>();
    assert_eq!(asked, (1..=16).collect::<Vec<_>>(), "the next pages, each once");
    bench.lock(2, lock::REPORT, wayside_wire::header_flag::LAST, 1, &[echo]);
    assert_eq!(bench.slot(10), SlotWord::unheld(8), "nobody has it");

    let adopt = bench.sent(lock::ADOPT).pop().expect("an heir");
    let books: Vec<Entry> = entries(&adopt).skip(1).collect();
    assert_eq!(books.len(), 2);
    assert_eq!((books[0].slot, books[0].tenure, books[0].flags), (9, 7, entry_flag::AGENCY));
    assert_eq!(books[1], Entry { holder: 2, ..held });
    bench.lock(2, lock::ADOPTED, 0, 0, &[echo]);
    let word = bench.slot(9);
    assert_eq!((word.state, word.agent, word.tenure, word.transferred), (SlotState::Managed, 2, 7, true));
}

/// Nobody has to be asked, so each census is over when it begins: one in another would take more stack than there is.
#[test]
fn the_slots_of_the_last_node_are_free_when_it_is_dead() {
    let work = || {
        let mut bench = Bench::new();
        bench.enrol(1);
        bench.memory.more_slots.set(131_072);
        let count = bench.memory.slot_count(1);
        (0..count).for_each(|slot| bench.hold(slot, 1, 5));
        bench.controller.closed(Time(bench.now), 1);
        bench.pass(20 * config().poll_period);
        assert!((0..count).all(|slot| bench.slot(slot) == SlotWord::unheld(7)), "frozen, and free");
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(work).expect("a thread");
    thread.join().expect("it has room");
}

#[test]
fn a_gap_of_a_tenure_that_is_over_is_ignored() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.hold(9, 1, 5);
    bench.lock(1, lock::GAP, 0, 0, &[Entry { slot: 9, tenure: 4, ..Entry::default() }]);
    assert_eq!(bench.slot(9).state, SlotState::Managed);
    bench.lock(1, lock::GAP, 0, 0, &[Entry { slot: 9, tenure: 5, ..Entry::default() }]);
    assert_eq!(bench.slot(9).state, SlotState::Frozen);
}

#[test]
fn an_exhausted_slot_raises_the_epoch() {
    let mut bench = Bench::new();
    bench.memory.slots.borrow_mut().insert(3, SlotWord::unheld(limits::MAX_TENURE));
    bench.pass(2 * config().poll_period);
    assert_eq!((bench.memory.epoch(), bench.memory.serving()), (2, true));
    assert_eq!(bench.slot(3), SlotWord::unheld(0));
}

#[test]
fn after_a_restart_the_switch_serves_when_all_have_reported_or_expired() {
    let mut bench = Bench::new();
    bench.enrol(1);
    let (_, body) = bench.enrol(2).expect("answered");
    bench.sent(0);
    bench.restart_switch();
    let census = bench.sent(lock::CENSUS).pop().expect("asked");
    let echo = Entry { request: Bench::id_of(&census), slot: limits::ALL_SLOTS, ..Entry::default() };
    let held = Entry { name: 9, request: 1 << 40 | 1, slot: 9, tenure: 5, flags: entry_flag::HELD, ..Entry::default() };
    bench.lock(1, lock::REPORT, wayside_wire::header_flag::LAST, 0, &[echo, held]);
    let pulse = u64::from(body.lease_us) / 2;
    for _ in 0..3 {
        assert!(!bench.memory.serving(), "node 2 is silent");
        bench.beat(1);
        bench.pass(pulse);
    }
    let adopt = bench.sent(lock::ADOPT).pop().expect("an heir");
    assert_eq!(entries(&adopt).nth(1).map(|e| (e.slot, e.tenure)), Some((9, 1)));
    bench.lock(1, lock::ADOPTED, 0, 0, &[echo]);
    bench.pass(config().poll_period);
    assert!(bench.memory.serving());
    assert_eq!((bench.slot(9).agent, bench.slot(9).tenure), (1, 1));
}

/// A node that can be told what it adopts in an entry reports these; what it is told.
fn adopts(bench: &mut Bench, node: Handle, holds: &[Entry]) -> Vec<Entry> {
    let census = Entry::read(&bench.sent(lock::CENSUS).pop().expect("asked"), BODY);
    let about = Entry { flags: entry_flag::AGENCY, ..census };
    bench.lock(node, lock::REPORT, wayside_wire::header_flag::LAST, 0, &[&[about], holds].concat());
    entries(&bench.sent(lock::ADOPT).pop().expect("an heir")).collect()
}

fn held(slot: u32, node: Handle) -> Entry {
    let request = u64::from(node) << 40 | u64::from(slot);
    Entry { name: slot.into(), request, slot, tenure: 5, flags: entry_flag::HELD, ..Entry::default() }
}

#[test]
fn what_only_one_has_reported_it_adopts_with_the_rest() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.restart_switch();
    let told = adopts(&mut bench, 1, &[held(9, 1), held(3, 1)]);
    assert_eq!(told.len(), 1, "nothing is named");
    assert_eq!((told[0].flags, told[0].tenure), (entry_flag::AGENCY, 1));
    assert!(!bench.memory.serving(), "it does not know yet");
    bench.lock(1, lock::ADOPTED, 0, 0, &told);
    assert!(bench.memory.serving());
    assert_eq!([3, 9, 10].map(|slot| bench.slot(slot).agent), [1, 1, 0]);
}

#[test]
fn what_several_have_reported_is_named_to_all_of_them() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.enrol(2);
    bench.restart_switch();
    let census = Entry::read(&bench.sent(lock::CENSUS).pop().expect("asked"), BODY);
    let about = Entry { flags: entry_flag::AGENCY, ..census };
    bench.lock(1, lock::REPORT, wayside_wire::header_flag::LAST, 0, &[about, held(9, 1), held(3, 1)]);
    bench.lock(2, lock::REPORT, wayside_wire::header_flag::LAST, 0, &[about, held(9, 2), held(4, 2)]);
    let told = bench.sent(lock::ADOPT);
    let named = |node: Handle| -> Vec<Entry> {
        let packet = told.iter().find(|packet| check(packet).unwrap().destination == node).expect("told");
        entries(packet).skip(1).collect()
    };
    assert_eq!(named(2), [Entry { slot: 9, ..Entry::default() }], "another's");
    let books = named(1);
    assert_eq!((books[0].slot, books[0].flags), (9, entry_flag::AGENCY));
    assert_eq!(books[1..], [Entry { holder: 1, ..held(9, 1) }, Entry { holder: 2, ..held(9, 2) }]);
    assert_eq!([3, 4, 9].map(|slot| bench.slot(slot).agent), [1, 2, 1]);
}

#[test]
fn nobody_waits_for_what_the_dead_are_told() {
    let mut bench = Bench::new();
    for nonce in 1..=3 {
        bench.enrol(nonce);
    }
    bench.restart_switch();
    let census = Entry::read(&bench.sent(lock::CENSUS).pop().expect("asked"), BODY);
    let about = Entry { flags: entry_flag::AGENCY, ..census };
    bench.lock(1, lock::REPORT, wayside_wire::header_flag::LAST, 0, &[about, held(9, 1), held(3, 1)]);
    bench.lock(2, lock::REPORT, wayside_wire::header_flag::LAST, 0, &[about, held(9, 2)]);
    bench.controller.closed(Time(bench.now), 1);
    bench.lock(3, lock::REPORT, wayside_wire::header_flag::LAST, 0, &[about]);
    let told = bench.sent(lock::ADOPT);
    assert!(told.iter().all(|packet| check(packet).unwrap().destination == 2), "1 is dead, and 3 has nothing");
    bench.lock(2, lock::ADOPTED, 0, 0, &[about]);
    assert!(bench.memory.serving());
    assert_eq!([3, 9].map(|slot| bench.slot(slot).agent), [0, 2]);
}

/// Whoever is over when the epoch begins must not be taken for the last one that had to report. Its word alone does not
/// say that its lease is over: the controller before may have expired it a moment ago.
#[test]
fn a_session_whose_word_is_expired_when_the_epoch_is_raised_is_waited_for() {
    let mut bench = Bench::new();
    bench.enrol(1);
    let (_, body) = bench.enrol(2).expect("answered");
    bench.hold(9, 1, 5);
    // The controller died after it had expired the word, and before it could write that down.
    bench.memory.words.borrow_mut().get_mut(&2).expect("enrolled").state = NodeState::Expired;
    bench.memory.slots.borrow_mut().insert(3, SlotWord::unheld(limits::MAX_TENURE));
    bench.memory.serving.set(false);
    bench.restart_controller();
    assert_eq!((bench.memory.epoch(), bench.memory.serving()), (2, false), "node 1 has not reported");
    let census = bench.sent(lock::CENSUS).pop().expect("asked");
    let echo = Entry { request: Bench::id_of(&census), slot: limits::ALL_SLOTS, ..Entry::default() };
    bench.lock(1, lock::REPORT, wayside_wire::header_flag::LAST, 0, &[echo]);
    bench.live(&[1], u64::from(body.lease_us + body.grace_us) - config().poll_period);
    assert!(!bench.memory.serving(), "node 2 may hold something");
    bench.live(&[1], 2 * config().poll_period);
    assert!(bench.memory.serving());
}

impl Bench {
    /// Heartbeats of these nodes, for so long.
    fn live(&mut self, nodes: &[Handle], micros: u64) {
        let end = self.now + micros;
        while self.now < end {
            for &node in nodes {
                if self.memory.node_word(node).state == NodeState::Live {
                    self.beat(node);
                }
            }
            self.pass((end - self.now).min(config().poll_period));
        }
    }

    fn notices(&mut self) -> Vec<Notice> {
        core::iter::from_fn(|| self.controller.notice()).collect()
    }

    /// A page of what the node reports to the census under way.
    fn report(&mut self, node: Handle, page: u16, flags: u16) {
        let census = Entry::read(&self.sent(lock::CENSUS).pop().expect("asked"), BODY);
        self.lock(node, lock::REPORT, flags, page, &[census, held(u32::from(page), node)]);
    }
}

/// So that one process can't keep everybody from every lock. What was acknowledged to it until then it relies on.
#[test]
fn whoever_lives_and_does_not_report_is_dismissed_and_ends_with_its_lease() {
    let mut bench = Bench::new();
    bench.enrol(1);
    let patience = bench.enrol(2).map(|(_, body)| u64::from(body.lease_us + body.grace_us)).expect("answered");
    bench.restart_switch();
    bench.report(1, 0, wayside_wire::header_flag::LAST);
    bench.notices();
    // More than lease and grace: 20 questions, since the lease is short.
    let asked = 21 * config().retransmit;
    bench.live(&[1, 2], asked - config().poll_period);
    assert_eq!((bench.notices(), bench.memory.node_word(2).state), (vec![], NodeState::Live));
    bench.live(&[1, 2], 2 * config().poll_period);
    assert_eq!((bench.notices(), bench.memory.node_word(2).state), (vec![Notice::Dismissed(2)], NodeState::Dismissed));
    bench.live(&[1], patience - 2 * config().poll_period);
    assert_eq!(bench.notices(), [], "its lease may still run");
    assert_eq!(bench.memory.node_word(2).state, NodeState::Dismissed, "and what it holds is its own");
    bench.live(&[1], 3 * config().poll_period);
    assert_eq!(bench.notices(), [Notice::Ended(2, Ending::Expired)]);
    assert_eq!(bench.memory.node_word(2).state, NodeState::Expired);
    assert!(bench.controller.sessions.is_live(1) && !bench.memory.serving(), "node 1 adopts what it has");
    let adopt = Entry::read(&bench.sent(lock::ADOPT).pop().expect("an heir"), BODY);
    bench.lock(1, lock::ADOPTED, 0, 0, &[adopt]);
    assert!(bench.memory.serving());
}

#[test]
fn whoever_lives_and_does_not_adopt_is_dismissed() {
    let mut bench = Bench::new();
    let patience = bench.enrol(1).map(|(_, body)| u64::from(body.lease_us + body.grace_us)).expect("answered");
    bench.restart_switch();
    bench.report(1, 0, wayside_wire::header_flag::LAST);
    bench.live(&[1], 20 * config().retransmit);
    assert_eq!((bench.memory.node_word(1).state, bench.memory.serving()), (NodeState::Live, false));
    bench.live(&[1], 3 * config().retransmit + patience);
    assert_eq!((bench.memory.node_word(1).state, bench.memory.serving()), (NodeState::Expired, true));
}

/// A lease of two seconds may see a million locks reported, which takes longer.
#[test]
fn whoever_reports_page_by_page_is_waited_for() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.restart_switch();
    for page in 0..5 {
        bench.live(&[1], 15 * config().retransmit);
        bench.report(1, page, 0);
    }
    assert_eq!(bench.memory.node_word(1).state, NodeState::Live);
    bench.live(&[1], 22 * config().retransmit);
    assert_eq!(bench.memory.node_word(1).state, NodeState::Expired, "but not for ever");
}

/// As one whose post was away: nobody could have answered it.
#[test]
fn a_controller_that_was_away_does_not_count_its_own_silence() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.restart_switch();
    for _ in 0..30 {
        bench.now += 2 * config().retransmit;
        bench.live(&[1], config().poll_period);
    }
    assert_eq!(bench.memory.node_word(1).state, NodeState::Live);
}

/// A successor would wait for all whose end it does not know of.
#[test]
fn an_end_that_the_store_did_not_take_is_written_when_it_works_again() {
    let mut bench = Bench::new();
    let (_, body) = bench.enrol(1).expect("answered");
    bench.enrol(2);
    let stage = |bench: &Bench, handle: u32| {
        SessionRecord::decode(&bench.disk.records.borrow()[&handle]).expect("its own record").stage
    };
    bench.disk.full.set(true);
    bench.fabric(1, fabric::LEAVE, 0, body.incarnation);
    assert_eq!((stage(&bench, 1), bench.controller.sessions.is_live(1)), (Stage::Live, false));
    bench.disk.full.set(false);
    bench.live(&[2], 400_000);
    assert_eq!(stage(&bench, 1), Stage::Live, "a store in trouble is left alone for a while");
    bench.live(&[2], 200_000);
    assert_eq!(stage(&bench, 1), Stage::Mourned);
    assert!(bench.controller.unwritten.is_empty());
    assert_eq!(stage(&bench, 2), Stage::Live);
}

fn keys_of(enrolment: &Enrolment, epoch: u32, rotation: u32) -> Keys {
    enrolment.secret.expect("signed").keys(Period { incarnation: enrolment.incarnation, epoch, rotation })
}

#[test]
fn a_session_has_its_keys_from_every_controller_and_new_ones_in_every_epoch() {
    let mut bench = Bench::signed();
    assert!(bench.memory.authenticated());
    let enrolment = bench.enrol_securely(7).expect("there is room");
    let held = |bench: &Bench| bench.memory.keys.borrow()[&1].keys;
    assert_eq!(held(&bench), keys_of(&enrolment, 1, 0));
    bench.restart_controller();
    assert_eq!(bench.enrol_securely(7), Ok(enrolment.clone()));
    assert_ne!(bench.enrol_securely(8).expect("there is room").secret, enrolment.secret);
    bench.restart_switch();
    assert_eq!(held(&bench), keys_of(&enrolment, 2, 0));
}

#[test]
fn whoever_begins_a_session_is_told_who_goes_first() {
    for policy in [Policy::Fair, Policy::ReadPreferring, Policy::WritePreferring] {
        let told = |signed: bool| {
            let mut config = Config { root: signed.then_some(ROOT), ..config() };
            config.namespaces[0].policy = policy;
            Bench::with(config)
        };
        assert_eq!(told(true).enrol_securely(7).map(|enrolment| enrolment.policy), Ok(policy));
        assert_eq!(told(false).enrol(7).map(|(_, enrolled)| enrolled.policy), Some(policy as u8));
    }
}

#[test]
fn whoever_begins_a_session_is_told_how_often_it_may_be_overtaken() {
    for patience in [0, 1, 8, crate::LONGEST_PATIENCE] {
        let told = |signed: bool| {
            let mut config = Config { root: signed.then_some(ROOT), ..config() };
            config.namespaces[0].patience = patience;
            Bench::with(config)
        };
        assert_eq!(told(true).enrol_securely(7).map(|enrolment| enrolment.patience), Ok(patience));
        assert_eq!(told(false).enrol(7).map(|(_, enrolled)| enrolled.patience), Some(1 + patience));
    }
}

#[test]
fn what_the_controller_says_is_signed_for_whom_it_is_meant() {
    let mut bench = Bench::signed();
    bench.enrol_securely(1).expect("there is room");
    let second = bench.enrol_securely(2).expect("there is room");
    bench.follow(2);
    let now = Time(bench.now + 1_000_000);
    bench.controller.rotate_keys(now);
    bench.controller.closed(now, 1);
    let down = bench.sent(fabric::DOWN).pop().expect("sent");
    assert!(second.secret.is_some_and(|secret| {
        secret.key(Direction::Down, Period { incarnation: 2, epoch: 1, rotation: 1 }).made_tag(&down)
    }));
}

#[test]
fn a_rotation_waits_until_the_node_has_followed_the_last() {
    let mut bench = Bench::signed();
    let enrolment = bench.enrol_securely(1).expect("there is room");
    for rotation in 0..4 {
        for _ in 0..30 {
            bench.beat(1);
            bench.pass(50_000);
        }
        assert_eq!(bench.memory.rotation(1), rotation, "a period and a half without a word under the new key");
        bench.follow(1);
        bench.pass(50_000);
        assert_eq!(bench.memory.rotation(1), rotation + 1);
        assert_eq!(bench.memory.keys.borrow()[&1].keys, keys_of(&enrolment, 1, rotation + 1));
    }
}
