//! A node of a hybrid namespace: which of its two machines has a name, and what both have in common (docs/queue.md,
//! "Fission with queues for the hottest locks").

use wayside_protocol::seal::Enrolment;
use wayside_protocol::{
    Acquire, AcquireError, Event, Mode, Names, Node, NodeConfig, OVERTAKEN_MOST, Priority, RequestId, Time,
};
use wayside_wire::{
    Attempt, BODY, Engine, Enrol, Enrolled, Entry, FabricKind, Header, Heartbeat, Names as Told, Policy, QueueKind,
    SlotBits, SlotState, check, entry_flag, kind, limits, queue_flag, service, slot_of,
};

const ME: u16 = 3;
const EPOCH: u32 = 7;
const SLOTS: u32 = 64;
/// Two that are listed, and of others two in the order of their slots.
const HOT: [u64; 2] = [2, 5];
const COLD: [u64; 2] = [7, 9];

fn names() -> Names {
    Names::new(HOT).expect("few")
}

fn enrolment() -> Enrolment {
    Enrolment {
        handle: ME,
        incarnation: 9,
        epoch: EPOCH,
        namespace: 1,
        slots: SLOTS,
        engine: Engine::Hybrid,
        names: names(),
        policy: Policy::Fair,
        patience: OVERTAKEN_MOST,
        lease: 1_000_000,
        grace: 10_000,
        lifeline: 0,
        shards: 0,
        secret: None,
        version: wayside_wire::VERSION,
    }
}

fn node_with(config: NodeConfig) -> Node {
    let mut node = Node::new(config);
    node.begin(Time(0), Time(0), &enrolment());
    assert!(matches!(node.event(), Some(Event::Enrolled(_))));
    node
}

fn node() -> Node {
    node_with(NodeConfig::new(1))
}

fn want(name: u64) -> Acquire {
    Acquire { name, mode: Mode::Exclusive, try_: false, priority: Priority::NORMAL, deadline: None, port: 70 }
}

/// What it sends: service, kind, and the name that it is about.
fn sent(node: &mut Node) -> Vec<(u8, u8, u64)> {
    let mut sent = Vec::new();
    while let Some(out) = node.transmit() {
        let header = check(out.packet).expect("well formed");
        match header.service {
            service::QUEUE => sent.push((service::QUEUE, header.kind, Attempt::read(out.packet, BODY).name)),
            service::LOCK => sent.push((service::LOCK, header.kind, Entry::read(out.packet, BODY).name)),
            _ => {}
        }
    }
    sent
}

fn write(header: Header, bytes: usize, body: impl FnOnce(&mut [u8], usize)) -> Vec<u8> {
    let mut packet = vec![0; BODY + bytes];
    Header { destination: ME, epoch: EPOCH, namespace: 1, ..header }.write(&mut packet);
    body(&mut packet, BODY);
    packet
}

fn grant_of_queue(name: u64, RequestId(request): RequestId, ticket: u64) -> Vec<u8> {
    let (flags, cause) = (queue_flag::EXCLUSIVE, kind::queue::ACQUIRE);
    let body = Attempt { name, request, ticket, holder: ME, flags, cause, ..Attempt::default() };
    let header = Header { service: service::QUEUE, kind: kind::queue::GRANT, ..Header::default() };
    write(header, QueueKind::Grant.body().bytes(0), |packet, at| body.write(packet, at))
}

fn grant_of_slot(name: u64, RequestId(request): RequestId) -> Vec<u8> {
    let bits = SlotBits { state: SlotState::Managed, transferred: false, tryable: false, joins: 0 };
    let entry = Entry {
        name,
        request,
        slot: slot_of(name, SLOTS),
        tenure: 1,
        holder: ME,
        reply_port: 70,
        slot_bits: bits.to_u16(),
        flags: entry_flag::AGENCY | entry_flag::EXCLUSIVE,
        sequence: 0,
    };
    let header = Header { service: service::LOCK, kind: kind::lock::GRANT, count: 1, ..Header::default() };
    write(header, Entry::BYTES, |packet, at| entry.write(packet, at))
}

/// The oldest request that it tells, at this time.
fn told_oldest(node: &mut Node, at: u64) -> u64 {
    while node.transmit().is_some() {}
    node.on_tick(Time(at));
    let mut oldest = None;
    while let Some(out) = node.transmit() {
        let header = check(out.packet).expect("well formed");
        if (header.service, header.kind) == (service::FABRIC, kind::fabric::HEARTBEAT) {
            oldest = Some(Heartbeat::read(out.packet, BODY).oldest);
        }
    }
    oldest.expect("a heartbeat is due")
}

#[test]
fn what_is_listed_is_asked_for_at_its_queue_and_all_else_at_its_slot() {
    let mut node = node();
    for (name, at) in [(HOT[0], service::QUEUE), (COLD[0], service::LOCK), (HOT[1], service::QUEUE)] {
        node.acquire(Time(10), want(name)).expect("it has a session");
        assert_eq!(sent(&mut node), [(at, 1, name)]);
        assert_eq!(node.is_queued(name), at == service::QUEUE);
    }
}

/// A slot that this node keeps grants nothing that is listed, of whichever slot the name would be.
#[test]
fn a_node_that_keeps_a_slot_asks_the_switch_for_a_listed_name_of_that_slot() {
    let mut node = node_with(NodeConfig { kept_most: 8, ..NodeConfig::new(1) });
    let twin = (100..).find(|name| slot_of(*name, SLOTS) == slot_of(HOT[0], SLOTS)).expect("some");
    let request = node.acquire(Time(10), want(twin)).expect("it has a session");
    node.on_packet(Time(20), &grant_of_slot(twin, request));
    node.release(Time(30), request);
    assert!(node.keeps(slot_of(HOT[0], SLOTS)));
    sent(&mut node);
    node.acquire(Time(40), want(HOT[0])).expect("it has a session");
    assert_eq!(sent(&mut node), [(service::QUEUE, kind::queue::ACQUIRE, HOT[0])]);
}

#[test]
fn ids_are_of_one_counter_and_the_oldest_is_that_of_both() {
    let mut node = node();
    let mut ids: Vec<u64> = Vec::new();
    for name in [HOT[0], COLD[0], HOT[1], COLD[1], COLD[0]] {
        ids.push(node.acquire(Time(10), want(name)).expect("it has a session").0);
    }
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:x?}");
    assert_eq!(told_oldest(&mut node, 200_000), ids[0], "a queue's");
    node.on_packet(Time(200_010), &grant_of_queue(HOT[0], RequestId(ids[0]), 1));
    assert_eq!(told_oldest(&mut node, 400_000), ids[0], "it holds");
    node.release(Time(400_010), RequestId(ids[0]));
    assert_eq!(told_oldest(&mut node, 600_000), ids[0], "until it is known that it is over");
    let over = Attempt { over: ids[0], request: ids[0], ticket: 1, name: HOT[0], holder: ME, ..Attempt::default() };
    let header = Header { service: service::QUEUE, kind: kind::queue::RELEASED, ..Header::default() };
    let released = write(header, QueueKind::Released.body().bytes(0), |packet, at| over.write(packet, at));
    node.on_packet(Time(600_010), &released);
    assert_eq!(told_oldest(&mut node, 800_000), ids[1], "a slot's");
}

#[test]
fn of_several_those_of_slots_come_first_whatever_is_said_first() {
    let mut node = node();
    let mut ids = Vec::new();
    let wants = [HOT[0], COLD[0], HOT[1], COLD[1]];
    node.acquire_many(Time(10), &wants.map(want), &mut ids).expect("there is room");
    assert_eq!(ids.len(), 4);
    let names: Vec<u64> = ids.iter().map(|id| node.waits().find(|wait| wait.request == *id).unwrap().name).collect();
    assert_eq!(names, wants, "each id is that of its wish");
    assert!(sent(&mut node).iter().all(|(at, ..)| *at == service::LOCK));
    node.on_packet(Time(20), &grant_of_slot(COLD[0], ids[1]));
    node.on_tick(Time(20));
    assert!(sent(&mut node).iter().all(|(at, ..)| *at == service::LOCK));
    node.on_packet(Time(30), &grant_of_slot(COLD[1], ids[3]));
    assert_eq!(sent(&mut node), [(service::QUEUE, kind::queue::ACQUIRE, HOT[0])], "once all of slots are held");
    node.on_packet(Time(40), &grant_of_queue(HOT[0], ids[0], 1));
    assert_eq!(sent(&mut node), [(service::QUEUE, kind::queue::ACQUIRE, HOT[1])]);
    node.on_packet(Time(50), &grant_of_queue(HOT[1], ids[2], 1));
    assert_eq!((node.holds().count(), node.waits().count()), (4, 0));
    // As callers sort them.
    let mut sorted = wants;
    sorted.sort_by_key(|name| (node.place_of(*name), *name));
    assert_eq!(sorted, [COLD[0], COLD[1], HOT[0], HOT[1]]);
}

/// The one before them is refused, and they wait for it.
#[test]
fn of_several_all_that_come_in_vain_say_that_the_budget_was_spent() {
    let mut node = node();
    let mut ids = Vec::new();
    let wants = [COLD[0], HOT[0], HOT[1]].map(|name| Acquire { deadline: Some(Time(500)), ..want(name) });
    node.acquire_many(Time(10), &wants, &mut ids).expect("there is room");
    let header = Header { service: service::LOCK, kind: kind::lock::REJECT, count: 1, ..Header::default() };
    let entry =
        Entry { name: COLD[0], request: ids[0].0, slot: slot_of(COLD[0], SLOTS), tenure: 100, ..Entry::default() };
    node.on_packet(Time(20), &write(header, Entry::BYTES, |packet, at| entry.write(packet, at)));
    node.on_tick(Time(500));
    let mut told: Vec<Event> = std::iter::from_fn(|| node.event()).collect();
    told.sort_by_key(|event| {
        ids.iter().position(|id| matches!(event, Event::TimedOut { request, .. } if request == id))
    });
    assert_eq!(told, [0, 1, 2].map(|place| Event::TimedOut { request: ids[place], over_budget: true }));
}

#[test]
fn who_can_not_ask_for_all_asks_for_none() {
    let mut node = node_with(NodeConfig { requests_most: 2, ..NodeConfig::new(1) });
    let mut ids = Vec::new();
    let wants = [COLD[0], COLD[1], 11, HOT[0]].map(want);
    assert_eq!(node.acquire_many(Time(10), &wants, &mut ids), Err(AcquireError::TooMany));
    assert_eq!((ids.len(), node.waits().count(), sent(&mut node).len()), (0, 0, 0));
    assert!(node.is_idle());
}

#[test]
fn each_kind_is_given_back_where_it_was_had() {
    let mut node = node();
    let [hot, cold] = [HOT[0], COLD[0]].map(|name| node.acquire(Time(10), want(name)).expect("it has a session"));
    node.on_packet(Time(20), &grant_of_queue(HOT[0], hot, 1));
    node.on_packet(Time(20), &grant_of_slot(COLD[0], cold));
    sent(&mut node);
    node.downgrade(Time(25), hot);
    assert_eq!(node.holds().find(|hold| hold.request == hot).map(|hold| hold.mode), Some(Mode::Shared));
    node.release(Time(30), hot);
    assert_eq!(sent(&mut node), [(service::QUEUE, kind::queue::RELEASE, HOT[0])]);
    node.release(Time(30), cold);
    assert_eq!(sent(&mut node), [(service::LOCK, kind::lock::FREE, COLD[0])]);
    assert_eq!(node.holds().count(), 0);
}

#[test]
fn a_lock_server_has_nothing_to_do_with_what_is_not_listed() {
    let mut node = node_with(NodeConfig { lock_server: true, ..NodeConfig::new(1) });
    let say = |node: &mut Node, kind: u8, body: &Attempt| {
        let header = Header { service: service::QUEUE, kind, source: 0, ..Header::default() };
        let packet = write(header, QueueKind::Acquire.body().bytes(0), |packet, at| body.write(packet, at));
        node.on_packet(Time(40), &packet);
    };
    let term = Attempt { number: 1, order: 100_000, over: 110_000, holder: ME, ..Attempt::default() };
    say(&mut node, kind::queue::SERVING, &term);
    let asks = |name| {
        let flags = queue_flag::EXCLUSIVE;
        Attempt { name, request: 4 << 40 | 1, holder: 8, flags, ..Attempt::default() }
    };
    sent(&mut node);
    say(&mut node, kind::queue::ACQUIRE, &asks(COLD[0]));
    assert_eq!((sent(&mut node).len(), node.dropped()), (0, 1), "it is counted");
    say(&mut node, kind::queue::ACQUIRE, &asks(HOT[0]));
    assert_eq!(sent(&mut node), [(service::QUEUE, kind::queue::GRANT, HOT[0])]);
}

// ---- the list ----

/// NAMES as the controller of this epoch sends it, in answer to this nonce.
fn told(epoch: u32, nonce: u64, names: &[u64]) -> Vec<u8> {
    let fingerprint = Names::new(names.iter().copied()).expect("few").fingerprint();
    let body = Told { nonce, fingerprint, listed: names.len() as u16 };
    let mut packet = vec![0; BODY + FabricKind::Names.body().bytes(1)];
    let header =
        Header { kind: kind::fabric::NAMES, count: 1, destination: ME, epoch, namespace: 1, ..Header::default() };
    header.write(&mut packet);
    body.write(&mut packet, BODY);
    for (index, name) in names.iter().enumerate() {
        packet[BODY + Told::BYTES + 8 * index..][..8].copy_from_slice(&name.to_be_bytes());
    }
    packet
}

fn enrolled(epoch: u32, nonce: u64) -> Vec<u8> {
    let body = Enrolled { nonce, incarnation: 9, lease_us: 1_000_000, slots: SLOTS, ..Enrolled::default() };
    let position = Engine::Hybrid as u16;
    let header = Header { kind: kind::fabric::ENROLLED, position, ..Header::default() };
    let mut packet = write(header, FabricKind::Enrolled.body().bytes(0), |packet, at| body.write(packet, at));
    Header { kind: kind::fabric::ENROLLED, position, destination: ME, epoch, namespace: 1, ..Header::default() }
        .write(&mut packet);
    packet
}

/// One that asks for a session, and its attempt's nonce.
fn newcomer() -> (Node, u64) {
    let mut node = Node::new(NodeConfig::new(42));
    node.start(Time(0));
    let nonce = Enrol::read(node.transmit().expect("an ENROL").packet, BODY).nonce;
    (node, nonce)
}

#[test]
fn a_session_begins_with_the_list_of_its_own_epoch_alone() {
    let (mut node, nonce) = newcomer();
    node.on_packet(Time(10), &enrolled(EPOCH, nonce));
    assert!(node.session().is_none(), "nothing is known of a list");
    for (epoch, nonce) in [(EPOCH - 1, nonce), (EPOCH, nonce ^ 1)] {
        node.on_packet(Time(20), &told(epoch, nonce, &HOT));
        node.on_packet(Time(20), &enrolled(EPOCH, nonce));
        assert!(node.session().is_none(), "another epoch's list, or another question's");
    }
    let mut torn = told(EPOCH, nonce, &HOT);
    torn[BODY + Told::BYTES + 7] ^= 1;
    node.on_packet(Time(30), &torn);
    node.on_packet(Time(30), &enrolled(EPOCH, nonce));
    assert!(node.session().is_none(), "not what its fingerprint says");
    node.on_tick(Time(10_000));
    assert!(node.transmit().is_some(), "it asks again");
    node.on_packet(Time(10_010), &told(EPOCH, nonce, &HOT));
    node.on_packet(Time(10_020), &enrolled(EPOCH, nonce));
    assert!(node.session().is_some());
    assert_eq!([HOT[0], HOT[1], COLD[0]].map(|name| node.is_queued(name)), [true, true, false]);
}

/// CENSUS of all slots in the next epoch, by a controller that lists these: whether the session goes on.
fn goes_on(node: &mut Node, engine: Engine, names: &[u64]) -> bool {
    let header = Header { service: service::LOCK, kind: kind::lock::CENSUS, count: 1, ..Header::default() };
    let name = Names::new(names.iter().copied()).expect("few").fingerprint();
    let about = Entry { request: 77, name, slot: limits::ALL_SLOTS, sequence: engine as u8, ..Entry::default() };
    let mut packet = write(header, Entry::BYTES, |packet, at| about.write(packet, at));
    Header { destination: ME, epoch: EPOCH + 1, namespace: 1, ..header }.write(&mut packet);
    node.on_packet(Time(30), &packet);
    node.session().is_some()
}

#[test]
fn a_session_does_not_outlive_its_list() {
    let mut node = node();
    assert!(goes_on(&mut node, Engine::Hybrid, &HOT));
    for (engine, names) in [(Engine::Hybrid, &[2][..]), (Engine::Hybrid, &[2, 5, 7]), (Engine::Queue, &[])] {
        assert!(!goes_on(&mut node_with(NodeConfig::new(1)), engine, names), "{engine:?}, {names:?}");
    }
}
