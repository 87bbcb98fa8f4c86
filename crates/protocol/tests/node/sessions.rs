//! A node's session from its first moment to what is left after its last (docs/protocol.md, Sessions).

use crate::bench::{Bench, EPOCH, LEASE, handle};
use wayside_protocol::seal::{Enrolment, Period, Secret};
use wayside_protocol::{Acquire, AcquireError, Event, Mode, Node, NodeConfig, Priority, Time};
use wayside_wire::{
    BODY, Engine, Enrolled, Entry, FabricKind, Header, Heartbeat, Policy, Refusal, SlotBits, SlotState, check,
    entry_flag, header_flag, kind, limits, service,
};

const NAME: u64 = 5;
const SLOT: u32 = 5;
const PAUSE: u64 = 5_000;
const ME: u16 = 3;
const INCARNATION: u64 = 9;
const SECRET: Secret = Secret([7; 32]);

fn enrolment(engine: Engine, secret: Option<Secret>) -> Enrolment {
    Enrolment {
        handle: ME,
        incarnation: INCARNATION,
        epoch: EPOCH,
        namespace: 1,
        slots: 64,
        engine,
        names: wayside_protocol::Names::default(),
        policy: Policy::Fair,
        patience: 8,
        lease: LEASE as u32,
        grace: 0,
        lifeline: 5,
        shards: 0,
        secret,
        version: wayside_wire::VERSION,
    }
}

fn begun(enrolment: &Enrolment) -> Node {
    let mut node = Node::new(NodeConfig::new(1));
    node.begin(Time(0), Time(0), enrolment);
    assert!(matches!(node.event(), Some(Event::Enrolled(_))));
    node
}

fn want(name: u64) -> Acquire {
    Acquire { name, mode: Mode::Exclusive, try_: false, priority: Priority::NORMAL, deadline: None, port: 5_000 }
}

fn events(node: &mut Node) -> Vec<Event> {
    std::iter::from_fn(|| node.event()).collect()
}

fn fabric(kind: u8, destination: u16, body: Heartbeat) -> Vec<u8> {
    let mut packet = vec![0; BODY + Heartbeat::BYTES];
    let header = Header { service: service::FABRIC, kind, destination, epoch: EPOCH, ..Header::default() };
    Header { namespace: 1, ..header }.write(&mut packet);
    body.write(&mut packet, BODY);
    packet
}

/// Kinds of the lock service that are sent.
fn kinds(node: &mut Node) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let Some(out) = node.transmit() {
        let header = check(out.packet).expect("whole");
        kinds.extend((header.service == service::LOCK).then_some(header.kind));
    }
    kinds
}

#[test]
fn a_session_that_begins_after_its_lease_is_over_at_once() {
    let mut node = Node::new(NodeConfig::new(1));
    node.begin(Time(LEASE), Time(0), &enrolment(Engine::Fission, None));
    let told = events(&mut node);
    assert!(matches!(told[..], [Event::Enrolled(_), Event::SessionLost]), "{told:?}");
}

#[test]
fn a_session_that_goes_on_is_not_begun_again_and_keeps_its_keys() {
    let mut node = begun(&enrolment(Engine::Fission, None));
    node.begin(Time(1), Time(1), &enrolment(Engine::Fission, Some(SECRET)));
    assert_eq!(events(&mut node), []);
    assert!(!node.signs());
}

#[test]
fn who_is_refused_a_session_hears_why_and_who_gives_up_before_that_it_is_over() {
    let mut node = Node::new(NodeConfig::new(1));
    node.start(Time(0));
    let asked = node.transmit().expect("it asks").packet.to_vec();
    let nonce = wayside_wire::Enrol::read(&asked, BODY).nonce;
    let mut packet = vec![0; BODY + FabricKind::Enrolled.body().bytes(0)];
    let header = Header { service: service::FABRIC, kind: kind::fabric::ENROLLED, ..Header::default() };
    Header { flags: header_flag::REFUSED, ..header }.write(&mut packet);
    let reason = Refusal::Shards;
    Enrolled { nonce, reason: reason as u8, ..Enrolled::default() }.write(&mut packet, BODY);
    node.on_packet(Time(10), &packet);
    assert_eq!(events(&mut node), [Event::Refused(reason)]);

    let mut node = Node::new(NodeConfig::new(1));
    node.start(Time(0));
    node.leave(Time(1));
    assert_eq!(events(&mut node), [Event::Left]);
}

/// Not in a lease: as soon as the controller has said so.
#[test]
fn who_has_left_hears_of_it_with_the_answer() {
    let mut node = begun(&enrolment(Engine::Fission, None));
    node.leave(Time(1));
    assert_eq!(events(&mut node), []);
    let left = |incarnation| fabric(kind::fabric::LEFT, ME, Heartbeat { incarnation, ..Heartbeat::default() });
    node.on_packet(Time(2), &left(INCARNATION + 1));
    assert_eq!(events(&mut node), [], "another's");
    node.on_packet(Time(2), &left(INCARNATION));
    assert_eq!(events(&mut node), [Event::Left]);
    assert_eq!(node.next_timer(), None);
}

/// Nobody held anything, and yet the owner has not asked to leave.
#[test]
fn a_session_whose_engine_is_another_now_was_lost_and_not_left() {
    let mut bench = Bench::new(1);
    let about = Entry { slot: limits::ALL_SLOTS, request: 77, sequence: Engine::Queue as u8, ..Entry::default() };
    bench.tell(0, Header { epoch: EPOCH + 1, kind: kind::lock::CENSUS, ..Header::default() }, &[about]);
    let is_leave = |packet: &[u8]| check(packet).is_ok_and(|header| header.kind == kind::fabric::LEAVE);
    assert!(bench.flying.iter().any(|flying| is_leave(&flying.packet)), "others need not wait for its lease");
    bench.quiet(0);
    let header = Header { service: service::FABRIC, kind: kind::fabric::LEFT, ..Header::default() };
    bench.say(Header { destination: handle(0), ..header }, Heartbeat { incarnation: 100, ..Heartbeat::default() });
    assert_eq!(events(&mut bench.nodes[0]), [Event::SessionLost]);
}

/// A process that was stopped goes on with what has come meanwhile.
#[test]
fn a_packet_or_call_after_the_lease_finds_a_session_that_is_over() {
    let asked = || {
        let mut bench = Bench::new(1);
        let id = bench.ask(0, NAME, Mode::Exclusive);
        let other = bench.ask(0, NAME + 1, Mode::Exclusive);
        bench.run();
        bench.granted(0, id);
        bench.granted(0, other);
        (bench, id, other)
    };
    let lost = |bench: &mut Bench, what: &str| {
        let told = events(&mut bench.nodes[0]);
        assert_eq!(told.len(), 3, "{what}: {told:?}");
        assert!(matches!(told[2], Event::SessionLost), "{what}");
        assert!(bench.nodes[0].transmit().is_none(), "{what}: nothing is said any more");
    };
    let (mut bench, id, _) = asked();
    let late = bench.now + 2 * LEASE;
    bench.nodes[0].release(late, id);
    lost(&mut bench, "release");
    let (mut bench, id, _) = asked();
    bench.nodes[0].cancel(late, id);
    lost(&mut bench, "cancel");
    let (mut bench, id, _) = asked();
    bench.nodes[0].downgrade(late, id);
    lost(&mut bench, "downgrade");
    let (mut bench, ..) = asked();
    let waits = bench.nodes[0].acquire(bench.now, want(NAME + 2)).expect("it lives");
    let entry =
        Entry { name: NAME + 2, request: waits.0, slot: SLOT + 2, tenure: 4, holder: handle(0), ..Entry::default() };
    let entry = Entry { flags: entry_flag::EXCLUSIVE, sequence: 1, ..entry };
    let mut packet = vec![0; BODY + Entry::BYTES];
    let header =
        Header { service: service::LOCK, kind: kind::lock::GRANT, count: 1, epoch: EPOCH, ..Header::default() };
    Header { namespace: 1, destination: handle(0), ..header }.write(&mut packet);
    entry.write(&mut packet, BODY);
    bench.nodes[0].on_packet(late, &packet);
    let told = events(&mut bench.nodes[0]);
    assert!(told.contains(&Event::Lost { request: waits }), "{told:?}");
    assert_eq!(kinds(&mut bench.nodes[0]), [], "what was to be asked is asked no more");
}

/// Whatever was still to be done.
#[test]
fn nothing_wakes_up_a_node_whose_session_is_over() {
    let mut bench = Bench::with(2, LEASE, Policy::Fair, &NodeConfig { kept_most: 8, ..NodeConfig::new(1) });
    bench.ask(0, NAME, Mode::Exclusive);
    let kept = bench.ask(0, NAME + 1, Mode::Exclusive);
    bench.run();
    bench.release(0, kept);
    bench.run();
    bench.nodes[0].keep_no_more(bench.now);
    // An agent that is to be confirmed, and a census of all slots.
    let bits = SlotBits { state: SlotState::Managed, transferred: true, ..SlotBits::default() };
    let agency = Entry { slot: 9, tenure: 7, holder: handle(0), slot_bits: bits.to_u16(), ..Entry::default() };
    let agency = Entry { flags: entry_flag::AGENCY, ..agency };
    let hold = Entry { name: 9, request: 101 << 40 | 1, slot: 9, tenure: 1, holder: handle(1), ..Entry::default() };
    let hold = Entry { flags: entry_flag::HELD | entry_flag::EXCLUSIVE, ..hold };
    let header = Header { epoch: EPOCH, kind: kind::lock::ADOPT, flags: header_flag::LAST, ..Header::default() };
    bench.tell(0, header, &[Entry { request: 3, ..Entry::default() }, agency, hold]);
    bench.nodes[0].leave(bench.now);
    let header = Header { service: service::FABRIC, kind: kind::fabric::LEFT, ..Header::default() };
    bench.say(Header { destination: handle(0), ..header }, Heartbeat { incarnation: 100, ..Heartbeat::default() });
    assert_eq!(bench.nodes[0].next_timer(), None);
    assert_eq!(bench.nodes[0].acquire(bench.now, want(NAME)), Err(AcquireError::NoSession));
}

#[test]
fn what_is_asked_of_keys_is_asked_under_the_sessions_ids() {
    use wayside_protocol::chain::{Ask, Key, Wish};
    let mut node = begun(&enrolment(Engine::Fission, None));
    let ask = Ask { key: Key::of(b"default", b"name").expect("a name"), wish: Wish::Read, deadline: None, port: 0 };
    let ids = [0, 1].map(|_| node.ask_key(Time(1), &ask).expect("it has a session").0);
    assert_eq!(ids, [INCARNATION << 40 | 1, INCARNATION << 40 | 2]);
}

/// A TURN to node 0.
fn turn(bench: &mut Bench, sequence: u64) {
    let packet =
        fabric(kind::fabric::TURN, handle(0), Heartbeat { sequence, incarnation: 100, ..Heartbeat::default() });
    bench.nodes[0].on_packet(bench.now, &packet);
    bench.collect(0);
}

fn census(bench: &mut Bench, epoch: u32, id: u64) {
    let about = Entry { slot: limits::ALL_SLOTS, request: id, ..Entry::default() };
    bench.tell(0, Header { epoch, kind: kind::lock::CENSUS, ..Header::default() }, &[about]);
}

/// It is to go where such a packet came from.
#[test]
fn a_node_is_called_by_a_turn_that_is_not_past_or_by_a_census_that_no_turn_has_followed_and_by_nothing_else() {
    let mut bench = Bench::new(1);
    let is_called = |bench: &Bench| bench.nodes[0].is_called();
    assert!(!is_called(&bench));
    census(&mut bench, EPOCH + 1, 77);
    assert!(is_called(&bench));
    census(&mut bench, EPOCH + 1, 77);
    assert!(is_called(&bench), "as often as it is asked");
    // What comes of it is said by another packet.
    let bits = SlotBits { state: SlotState::Managed, transferred: true, ..SlotBits::default() };
    let about =
        Entry { request: 77, tenure: 1, slot_bits: bits.to_u16(), flags: entry_flag::AGENCY, ..Entry::default() };
    let adopt = Header { epoch: EPOCH + 1, kind: kind::lock::ADOPT, flags: header_flag::LAST, ..Header::default() };
    bench.tell(0, adopt, &[about]);
    assert!(!is_called(&bench));
    census(&mut bench, EPOCH + 1, 77);
    assert!(!is_called(&bench), "a late copy: it is over");

    let mut bench = Bench::new(1);
    turn(&mut bench, 0);
    assert!(!is_called(&bench), "a question");
    turn(&mut bench, 5);
    assert!(is_called(&bench));
    turn(&mut bench, 0);
    assert!(!is_called(&bench));
    turn(&mut bench, 5);
    assert!(is_called(&bench), "again: who has followed another is to come back");
    turn(&mut bench, 4);
    assert!(!is_called(&bench), "of before");
    census(&mut bench, EPOCH, 78);
    assert!(!is_called(&bench), "it may be of who served before that turn");
    census(&mut bench, EPOCH + 1, 79);
    assert!(is_called(&bench), "another epoch has turns of its own");
    assert_eq!(bench.nodes[0].turn(), 0);
}

#[test]
fn who_waits_asks_again_soon_after_a_turn() {
    let mut bench = Bench::with_lease(1, 60_000_000);
    bench.ask(0, NAME, Mode::Exclusive);
    bench.flying.clear();
    bench.wait(100 * PAUSE);
    bench.sent();
    turn(&mut bench, 5);
    bench.sent();
    bench.wait(PAUSE - 1);
    assert_eq!(bench.kinds_sent(), [], "no sooner than whoever asks for the first time");
    bench.wait(1);
    assert_eq!(bench.kinds_sent(), [kind::lock::ACQUIRE]);
    bench.wait(2 * PAUSE);
    assert_eq!(bench.kinds_sent(), [kind::lock::ACQUIRE], "the pauses begin anew");
}

/// By whoever has the session's key, and by nobody else.
#[test]
fn where_packets_are_signed_a_node_takes_what_is_and_follows_its_keys() {
    let mut node = begun(&enrolment(Engine::Fission, Some(SECRET)));
    assert!(node.signs() && !begun(&enrolment(Engine::Fission, None)).signs());
    let down = |epoch: u32, rotation: u32, sequence: u64| {
        let body = Heartbeat { sequence, incarnation: INCARNATION, ..Heartbeat::default() };
        let mut packet = fabric(kind::fabric::TURN, ME, body);
        Header { epoch, ..Header::read(&packet).expect("whole") }.write(&mut packet);
        SECRET.keys(Period { incarnation: INCARNATION, epoch, rotation }).down.sign(rotation, &mut packet);
        packet
    };
    let unsigned =
        fabric(kind::fabric::TURN, ME, Heartbeat { sequence: 5, incarnation: INCARNATION, ..Heartbeat::default() });
    let before = node.dropped();
    node.on_packet(Time(1), &unsigned);
    assert_eq!((node.turn(), node.dropped()), (0, before + 1));
    node.on_packet(Time(1), &down(EPOCH, 0, 5));
    assert_eq!((node.turn(), node.rotation()), (5, 0));
    for rotation in 1..4 {
        node.on_packet(Time(1), &down(EPOCH, rotation, 5 + u64::from(rotation)));
        assert_eq!((node.turn(), node.rotation()), (5 + u64::from(rotation), rotation));
    }
    // A census brings another epoch, which begins with keys of its own.
    let mut census = vec![0; BODY + Entry::BYTES];
    let header =
        Header { service: service::LOCK, kind: kind::lock::CENSUS, count: 1, epoch: EPOCH + 1, ..Header::default() };
    Header { destination: ME, namespace: 1, ..header }.write(&mut census);
    Entry { slot: limits::ALL_SLOTS, request: 77, ..Entry::default() }.write(&mut census, BODY);
    let keys = |rotation| SECRET.keys(Period { incarnation: INCARNATION, epoch: EPOCH + 1, rotation });
    keys(0).down.sign(0, &mut census);
    node.on_packet(Time(2), &census);
    assert_eq!((node.session().map(|info| info.epoch), node.rotation()), (Some(EPOCH + 1), 0));
    node.on_packet(Time(2), &down(EPOCH + 1, 1, 3));
    assert_eq!((node.turn(), node.rotation()), (3, 1));
    let sent = std::iter::from_fn(|| node.transmit().map(|out| out.packet.to_vec())).last().expect("an answer");
    assert!(keys(1).up.made_tag(&sent));
}

/// Of its namespace, for people.
#[test]
fn what_is_held_or_awaited_in_a_queue_is_shown_with_its_slot() {
    let mut node = begun(&enrolment(Engine::Queue, None));
    node.acquire(Time(1), want(64 + 7)).expect("it has a session");
    assert_eq!(node.waits().map(|wait| (wait.name, wait.slot)).collect::<Vec<_>>(), [(71, 7)]);
}

/// The namespace says so, whatever the node was told at its beginning.
#[test]
fn who_goes_first_follows_from_what_the_session_was_told() {
    for (patience, is_overtaken) in [(0, false), (8, true)] {
        let mut node = begun(&Enrolment { patience, ..enrolment(Engine::Fission, None) });
        let held = node.acquire(Time(1), want(NAME)).expect("it has a session");
        let bits = SlotBits { state: SlotState::Managed, ..SlotBits::default() };
        let entry = Entry { name: NAME, request: held.0, slot: SLOT, tenure: 2, holder: ME, ..Entry::default() };
        let entry = Entry { flags: entry_flag::EXCLUSIVE | entry_flag::AGENCY, slot_bits: bits.to_u16(), ..entry };
        let mut packet = vec![0; BODY + Entry::BYTES];
        let header =
            Header { service: service::LOCK, kind: kind::lock::GRANT, count: 1, epoch: EPOCH, ..Header::default() };
        Header { namespace: 1, destination: ME, ..header }.write(&mut packet);
        entry.write(&mut packet, BODY);
        node.on_packet(Time(2), &packet);
        let first = node.acquire(Time(3), want(NAME)).expect("it has a session");
        let urgent = Acquire { priority: Priority::new(7).expect("a level"), ..want(NAME) };
        let urgent = node.acquire(Time(3), urgent).expect("it has a session");
        let line: Vec<u64> = node.queues().map(|(_, booked)| booked.request.0).collect();
        assert_eq!(line, if is_overtaken { [urgent.0, first.0] } else { [first.0, urgent.0] });
    }
}

/// Its answer may be lost, and others may have asked here meanwhile.
#[test]
fn a_slot_is_freed_again_though_a_try_there_was_refused() {
    let mut bench = Bench::new(1);
    let held = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, held);
    bench.release(0, held);
    assert_eq!(bench.kinds_sent(), [kind::lock::RETENURE]);
    let tries = bench.ask_with(0, Acquire { try_: true, ..want(NAME) });
    bench.sent();
    let busy = Header { epoch: EPOCH, kind: kind::lock::BUSY, ..Header::default() };
    bench.tell(0, busy, &[Entry { request: tries.0, slot: SLOT, holder: handle(0), ..Entry::default() }]);
    assert!(matches!(bench.nodes[0].event(), Some(Event::Busy { .. })));
    bench.wait(PAUSE);
    assert_eq!(bench.kinds_sent(), [kind::lock::RETENURE]);
}
