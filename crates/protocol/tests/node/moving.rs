//! A node whose shard gives names away (docs/shards.md, Adding and draining).

use wayside_protocol::seal::{Enrolment, Secret};
use wayside_protocol::{
    Acquire, AcquireError, Domain, Event, Mode, Node, NodeConfig, Priority, RequestId, ShardMap, Shards, Time,
};
use wayside_wire::{
    Attempt, BODY, Engine, Enrolled, Entry, FabricKind, Header, Policy, QueueKind, SlotBits, SlotState, check,
    entry_flag, kind, queue_flag, service,
};

const ME: u16 = 3;
const EPOCH: u32 = 7;
const INCARNATION: u64 = 9;
const SLOTS: u32 = 64;
const NOW: Time = Time(10);

fn map(version: u32, names: &[&str]) -> ShardMap {
    ShardMap { version, shards: Shards::new(names.iter().map(|name| name.to_string())).expect("names of shards") }
}

fn former() -> ShardMap {
    map(0, &["a", "b"])
}

fn next() -> ShardMap {
    map(1, &["a", "b", "c"])
}

/// A name that `a` keeps, and one that it gives away, not of the same slot.
fn names() -> (u64, u64) {
    let kept = (0..).find(|name| next().shards.has("a", *name)).expect("some");
    let is_given = |name: &u64| former().shards.has("a", *name) && !next().shards.has("a", *name);
    (kept, (SLOTS.into()..).find(|name| is_given(name) && name % 64 != kept % 64).expect("some"))
}

fn enrolment(engine: Engine, secret: Option<Secret>) -> Enrolment {
    Enrolment {
        handle: ME,
        incarnation: INCARNATION,
        epoch: EPOCH,
        namespace: 1,
        slots: SLOTS,
        engine,
        names: wayside_protocol::Names::default(),
        policy: Policy::Fair,
        patience: 8,
        lease: 60_000_000,
        grace: 0,
        lifeline: 5,
        shards: former().begins("a").expect("it is of it"),
        secret,
        version: wayside_wire::VERSION,
    }
}

fn node_of(engine: Engine, secret: Option<Secret>) -> Node {
    let enrolment = enrolment(engine, secret);
    let domain = Some(Domain::new("a".into(), former()));
    let mut node = Node::new(NodeConfig { shards: enrolment.shards, domain, ..NodeConfig::new(42) });
    node.begin(Time(0), Time(0), &enrolment);
    assert!(matches!(node.event(), Some(Event::Enrolled(_))));
    node
}

fn node() -> Node {
    node_of(Engine::Fission, None)
}

fn want(name: u64) -> Acquire {
    Acquire { name, mode: Mode::Exclusive, try_: false, priority: Priority::NORMAL, deadline: None, port: 0 }
}

/// The switch grants it, with the agency or as another node's agent has it.
fn grant(node: &mut Node, name: u64, request: RequestId, agent: u16) {
    let is_fresh = agent == 0;
    let bits = SlotBits { state: SlotState::Managed, transferred: !is_fresh, ..SlotBits::default() };
    let flags = entry_flag::EXCLUSIVE | if is_fresh { entry_flag::AGENCY } else { 0 };
    let entry = Entry { name, request: request.0, slot: (name % 64) as u32, tenure: 2, holder: ME, ..Entry::default() };
    let entry = Entry { flags, slot_bits: bits.to_u16(), sequence: u8::from(!is_fresh), ..entry };
    let header =
        Header { service: service::LOCK, kind: kind::lock::GRANT, count: 1, source: agent, ..Header::default() };
    let mut packet = vec![0; BODY + Entry::BYTES];
    Header { destination: ME, epoch: EPOCH, namespace: 1, ..header }.write(&mut packet);
    entry.write(&mut packet, BODY);
    node.on_packet(NOW, &packet);
    assert!(matches!(node.event(), Some(Event::Granted { .. })));
}

/// What is said by ENROL: the prints of shards.
fn said(node: &mut Node, now: Time) -> Vec<u32> {
    node.on_tick(now);
    let mut said = Vec::new();
    while let Some(out) = node.transmit() {
        let header = check(out.packet).expect("whole");
        let is_it = (header.service, header.kind) == (service::FABRIC, kind::fabric::ENROL);
        said.extend(is_it.then_some(header.shard_map));
    }
    said
}

#[test]
fn what_a_later_map_gives_away_is_not_asked_for_unless_that_is_taken_back() {
    let (kept, given) = names();
    let mut node = node();
    assert!(node.asks(NOW, kept) && node.asks(NOW, given));
    node.close_for(&next());
    assert!(node.asks(NOW, kept) && !node.asks(NOW, given));
    assert_eq!(node.acquire(NOW, want(given)), Err(AcquireError::Elsewhere));
    let mut ids = Vec::new();
    let both = [want(kept), want(given)];
    assert_eq!(node.acquire_many(NOW, &both, &mut ids), Err(AcquireError::Elsewhere));
    assert!(ids.is_empty() && node.is_idle(), "nothing was asked for");
    node.reopen();
    assert!(node.asks(NOW, given));
    assert_eq!(node.acquire_many(NOW, &both, &mut ids), Ok(()));
    node.leave(NOW);
    assert!(!node.asks(NOW, kept), "without a session nothing is");
}

#[test]
fn nothing_is_asked_for_once_the_lease_is_over() {
    let (kept, _) = names();
    assert!(!node().asks(Time(60_000_000), kept));
}

#[test]
fn a_node_without_a_domain_asks_for_anything_and_has_nothing_to_follow() {
    let mut node = Node::new(NodeConfig::new(42));
    node.begin(Time(0), Time(0), &Enrolment { shards: 0, ..enrolment(Engine::Fission, None) });
    let (kept, given) = names();
    node.close_for(&next());
    assert!(node.asks(NOW, kept) && node.asks(NOW, given));
    assert_eq!((node.in_the_way(), node.follow(NOW), node.map_version()), (None, None, None));
}

#[test]
fn a_pledge_waits_for_what_is_held_or_awaited_of_what_goes_away_and_for_nothing_else() {
    let (kept, given) = names();
    let pledge = next().pledge("a");
    for agent in [0, 8] {
        let mut node = node();
        let other = node.acquire(NOW, want(kept)).expect("it has it");
        grant(&mut node, kept, other, agent);
        let id = node.acquire(NOW, want(given)).expect("it has it");
        node.close_for(&next());
        assert_eq!((node.in_the_way(), node.follow(NOW)), (Some(given), None), "awaited");
        assert_eq!(said(&mut node, NOW), []);
        grant(&mut node, given, id, agent);
        assert_eq!((node.in_the_way(), node.follow(NOW)), (Some(given), None), "held");
        node.release(NOW, id);
        // Whoever decides there has not answered yet.
        assert_eq!((node.in_the_way(), node.follow(NOW)), (None, pledge));
        assert_eq!(said(&mut node, NOW), [pledge.expect("it stays")]);
    }
}

#[test]
fn of_queues_too_what_is_held_or_awaited_is_in_the_way() {
    let (_, given) = names();
    let mut node = node_of(Engine::Queue, None);
    let request = node.acquire(NOW, want(given)).expect("it has it");
    node.close_for(&next());
    assert_eq!(node.acquire(NOW, want(given)), Err(AcquireError::Elsewhere));
    assert_eq!(node.in_the_way(), Some(given));
    let header = Header { service: service::QUEUE, kind: kind::queue::GRANT, destination: ME, ..Header::default() };
    let flags = queue_flag::EXCLUSIVE;
    let body = Attempt { name: given, request: request.0, ticket: 1, holder: ME, flags, ..Attempt::default() };
    let mut packet = vec![0; BODY + QueueKind::Grant.body().bytes(0)];
    Header { epoch: EPOCH, namespace: 1, ..header }.write(&mut packet);
    Attempt { cause: kind::queue::ACQUIRE, ..body }.write(&mut packet, BODY);
    node.on_packet(NOW, &packet);
    assert!(matches!(node.event(), Some(Event::Granted { .. })));
    assert_eq!((node.in_the_way(), node.follow(NOW)), (Some(given), None));
    node.release(NOW, request);
    assert_eq!((node.in_the_way(), node.follow(NOW)), (None, next().pledge("a")));
}

#[test]
fn a_pledge_is_said_in_pauses_and_at_once_when_the_shard_has_gone_on_until_it_is_answered() {
    let mut node = node();
    node.close_for(&next());
    let pledge = node.follow(NOW).expect("nothing is in the way");
    assert_eq!(said(&mut node, NOW), [pledge]);
    assert_eq!(said(&mut node, NOW + 4_999), []);
    assert_eq!(said(&mut node, NOW + 5_000), [pledge]);
    assert_eq!(said(&mut node, NOW + 5_001), []);
    node.hurry(NOW + 5_001);
    assert_eq!(node.next_timer(), Some(NOW + 5_001));
    assert_eq!(said(&mut node, NOW + 5_001), [pledge]);
    assert_eq!(node.map_version(), Some(0));
    let mut packet = vec![0; BODY + FabricKind::Enrolled.body().bytes(0)];
    let header =
        Header { service: service::FABRIC, kind: kind::fabric::ENROLLED, shard_map: pledge, ..Header::default() };
    Header { destination: ME, epoch: EPOCH, namespace: 1, ..header }.write(&mut packet);
    Enrolled { nonce: 42, incarnation: INCARNATION, ..Enrolled::default() }.write(&mut packet, BODY);
    node.on_packet(NOW + 5_002, &packet);
    assert_eq!(node.map_version(), Some(1));
    assert_eq!(said(&mut node, NOW + 500_000), []);
}

/// The secure connection says it then.
#[test]
fn where_packets_are_signed_a_pledge_is_said_by_no_packet() {
    let mut node = node_of(Engine::Fission, Some(Secret([7; 32])));
    assert!(node.signs());
    node.close_for(&next());
    assert_eq!(node.follow(NOW), next().pledge("a"));
    assert_eq!(said(&mut node, NOW), []);
}

#[test]
fn what_is_pledged_stays_closed_and_who_is_drained_pledges_nothing() {
    let (_, given) = names();
    let mut one = node();
    one.close_for(&next());
    one.follow(NOW).expect("nothing is in the way");
    one.reopen();
    assert!(!one.asks(NOW, given));
    let mut drained = node();
    drained.close_for(&map(1, &["b", "c"]));
    assert_eq!(drained.follow(NOW), None, "its session is to end");
}
