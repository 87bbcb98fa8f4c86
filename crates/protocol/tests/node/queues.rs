//! A node whose locks are queues, when the switch begins another epoch (docs/queue.md, Another epoch).

use wayside_protocol::seal::Enrolment;
use wayside_protocol::{Acquire, Event, Mode, Node, NodeConfig, Priority, RequestId, Time};
use wayside_wire::{Attempt, BODY, Engine, Entry, Header, QueueKind, check, kind, limits, padded, queue_flag, service};

pub const HANDLE: u16 = 3;
pub const EPOCH: u32 = 7;
pub const NAME: u64 = 5;

pub fn node() -> Node {
    node_with(NodeConfig::new(1))
}

pub fn node_with(config: NodeConfig) -> Node {
    let mut node = Node::new(NodeConfig { namespace: padded("space").expect("short"), ..config });
    let enrolment = Enrolment {
        handle: HANDLE,
        incarnation: 9,
        epoch: EPOCH,
        namespace: 1,
        slots: 1,
        engine: Engine::Queue,
        names: wayside_protocol::Names::default(),
        lease: 1_000_000,
        grace: 10_000,
        lifeline: 0,
        shards: 0,
        policy: wayside_wire::Policy::Fair,
        patience: wayside_protocol::OVERTAKEN_MOST,
        secret: None,
        version: wayside_wire::VERSION,
    };
    node.begin(Time(0), Time(0), &enrolment);
    assert!(matches!(node.event(), Some(Event::Enrolled(_))));
    node
}

pub fn want() -> Acquire {
    Acquire { name: NAME, mode: Mode::Exclusive, try_: false, priority: Priority::NORMAL, deadline: None, port: 70 }
}

fn ask(node: &mut Node) -> RequestId {
    node.acquire(Time(10), want()).expect("it has a session")
}

/// As the switch grants it.
fn grant(node: &mut Node, RequestId(request): RequestId) {
    let header = Header {
        service: service::QUEUE,
        kind: kind::queue::GRANT,
        destination: HANDLE,
        epoch: EPOCH,
        namespace: 1,
        ..Header::default()
    };
    let flags = queue_flag::EXCLUSIVE;
    let cause = kind::queue::ACQUIRE;
    let body = Attempt { name: NAME, request, ticket: 1, holder: HANDLE, flags, cause, ..Attempt::default() };
    let mut packet = vec![0; BODY + QueueKind::Grant.body().bytes(0)];
    header.write(&mut packet);
    body.write(&mut packet, BODY);
    node.on_packet(Time(20), &packet);
    assert!(matches!(node.event(), Some(Event::Granted { .. })));
}

/// What the controller of the next epoch asks, and whether the node answers.
pub fn answers_a_census(node: &mut Node) -> bool {
    while node.transmit().is_some() {}
    let header = Header {
        service: service::LOCK,
        kind: kind::lock::CENSUS,
        count: 1,
        destination: HANDLE,
        epoch: EPOCH + 1,
        namespace: 1,
        ..Header::default()
    };
    let about = Entry { request: 77, slot: limits::ALL_SLOTS, sequence: Engine::Queue as u8, ..Entry::default() };
    let mut packet = vec![0; BODY + Entry::BYTES];
    header.write(&mut packet);
    about.write(&mut packet, BODY);
    node.on_packet(Time(30), &packet);
    let mut answered = false;
    while let Some(out) = node.transmit() {
        let header = check(out.packet).expect("well formed");
        answered |= (header.service, header.kind) == (service::LOCK, kind::lock::REPORT);
    }
    answered
}

/// Its owner was told until when all it holds is safe. An answer would end the wait for that.
#[test]
fn who_holds_a_lock_of_the_epoch_before_does_not_answer_the_census() {
    let mut node = node();
    let request = ask(&mut node);
    grant(&mut node, request);
    assert!(!answers_a_census(&mut node));
    let events: Vec<Event> = std::iter::from_fn(|| node.event()).collect();
    assert_eq!(events, [Event::Lost { request }, Event::SessionLost]);
}

#[test]
fn who_only_waits_answers_the_census_and_goes_on() {
    let mut node = node();
    ask(&mut node);
    assert!(answers_a_census(&mut node));
    assert_eq!(node.event(), None);
    assert!(node.session().is_some());
}

/// A packet of the queue service: kinds and receivers of what the node sends then.
pub fn say(node: &mut Node, source: u16, kind: u8, body: &Attempt) -> Vec<(u8, u16)> {
    let header = Header { service: service::QUEUE, kind, source, destination: HANDLE, ..Header::default() };
    let mut packet = vec![0; BODY + QueueKind::Grant.body().bytes(0)];
    Header { epoch: EPOCH, namespace: 1, ..header }.write(&mut packet);
    body.write(&mut packet, BODY);
    node.on_packet(Time(40), &packet);
    sent(node)
}

pub fn sent(node: &mut Node) -> Vec<(u8, u16)> {
    let mut sent = Vec::new();
    while let Some(out) = node.transmit() {
        let header = check(out.packet).expect("well formed");
        sent.extend((header.service == service::QUEUE).then_some((header.kind, header.destination)));
    }
    sent
}

/// Of a session that is over alone: the handle may have another by now.
#[test]
fn what_a_dead_session_had_of_this_lock_server_goes_to_who_waits() {
    const DEAD: u16 = 8;
    const ITS: u64 = 0x500_0006;
    let mut node = node_with(NodeConfig { lock_server: true, ..NodeConfig::new(1) });
    let term = Attempt { number: 1, order: 100_000, over: 110_000, holder: HANDLE, ..Attempt::default() };
    say(&mut node, 0, kind::queue::SERVING, &term);
    let asks = |node: &mut Node, holder: u16, incarnation: u64| {
        let (request, flags) = ((incarnation & 0xff_ffff) << 40 | 1, queue_flag::EXCLUSIVE);
        let wish = Attempt { name: NAME, request, holder, flags, ..Attempt::default() };
        say(node, holder, kind::queue::ACQUIRE, &wish)
    };
    assert_eq!(asks(&mut node, DEAD, ITS), [(kind::queue::GRANT, DEAD)]);
    assert_eq!(asks(&mut node, 9, 7), [(kind::queue::QUEUED, 9)]);
    let mut down = |incarnation| {
        let header = Header { service: service::FABRIC, kind: kind::fabric::DOWN, ..Header::default() };
        let mut packet = vec![0; BODY + wayside_wire::Heartbeat::BYTES];
        Header { destination: HANDLE, position: DEAD, ..header }.write(&mut packet);
        wayside_wire::Heartbeat { incarnation, ..Default::default() }.write(&mut packet, BODY);
        node.on_packet(Time(50), &packet);
        sent(&mut node)
    };
    assert_eq!(down(ITS - 1), []);
    assert_eq!(down(ITS), [(kind::queue::GRANT, 9)]);
}
