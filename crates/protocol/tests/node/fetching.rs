//! A node whose locks are queues: what goes by way of third nodes, holds that end before its session does, and a lock
//! server (docs/queue.md).

use crate::bench::Bench;
use crate::queues::{EPOCH, HANDLE, NAME, answers_a_census, node, node_with, say, sent, want};
use wayside_protocol::{AcquireError, Event, Mode, Node, NodeConfig, NotFetched, Path, RequestId, Third, Time, Token};
use wayside_wire::{
    Attempt, BODY, Body, Fetch, Header, Heartbeat, QueueKind, blocks, check, header_flag, kind, limits, queue_flag,
    service,
};

const THIRD: Third = Third { handle: 8, incarnation: 77 };
const SERVER: u16 = 9;
const LEASE: u64 = 100_000;
const INCARNATION: u64 = 9;
const TICKET: u64 = 40;

/// A packet with content, which says how long that is.
fn with_blocks(kind: u8, source: u16, epoch: u32, fetch: &Fetch, content: &[u8]) -> Vec<u8> {
    let count = content.len().div_ceil(limits::BLOCK_BYTES) as u8;
    let mut packet = vec![0; BODY + Body::Fetch.bytes(count)];
    let header = Header { service: service::QUEUE, kind, source, destination: HANDLE, count, ..Header::default() };
    Header { epoch, namespace: 1, ..header }.write(&mut packet);
    fetch.write(&mut packet, BODY);
    packet[BODY + Fetch::BYTES..][..content.len()].copy_from_slice(content);
    packet
}

fn fetched(RequestId(request): RequestId, length: u16) -> Fetch {
    let (flags, cause) = (queue_flag::EXCLUSIVE, kind::queue::FETCH);
    Fetch { name: NAME, request, ticket: TICKET, holder: HANDLE, length, flags, cause, ..Fetch::default() }
}

#[test]
fn a_grant_by_way_of_another_node_comes_with_what_that_answers() {
    let mut node = node();
    let id = node.acquire_by(Time(10), want(), THIRD, b"item").expect("it has a session");
    assert_eq!(sent(&mut node), [(kind::queue::FETCH, THIRD.handle)]);
    let before = node.dropped();
    node.on_packet(Time(20), &with_blocks(kind::queue::FETCHED, 8, EPOCH, &fetched(id, 33), b"too little for that"));
    node.on_packet(Time(20), &with_blocks(kind::queue::FETCHED, 8, EPOCH + 1, &fetched(id, 6), b"item 7"));
    assert_eq!((node.event(), node.dropped()), (None, before + 2), "whole packets of this epoch alone");
    node.on_packet(Time(20), &with_blocks(kind::queue::FETCHED, 8, EPOCH, &fetched(id, 6), b"item 7"));
    let (token, mode, path) = (Token::of_ticket(EPOCH, TICKET), Mode::Exclusive, Path::Switch);
    assert_eq!(node.event(), Some(Event::Granted { request: id, token, mode, path }));
    assert_eq!(node.take_fetched(id), Ok(b"item 7".to_vec()));
    assert_eq!(node.take_fetched(id), Err(NotFetched::Direct), "once");
}

#[test]
fn where_locks_are_no_queues_a_lock_is_asked_for_as_ever() {
    let mut bench = Bench::new(1);
    let id = bench.nodes[0].acquire_by(bench.now, want(), THIRD, b"item").expect("it has a session");
    bench.collect(0);
    bench.run();
    bench.granted(0, id);
    assert_eq!(bench.nodes[0].take_fetched(id), Err(NotFetched::Direct));
}

/// The switch grants `SERVER` something by way of this node.
fn asks(node: &mut Node, ask: &[u8]) {
    let (incarnation, holder) = (INCARNATION, SERVER);
    let fetch = Fetch { incarnation, holder, ..fetched(RequestId(5), ask.len() as u16) };
    node.on_packet(Time(20), &with_blocks(kind::queue::FETCH, 0, EPOCH, &fetch, ask));
}

/// What it says to whom: whether it has an answer, and which.
fn answered(node: &mut Node) -> Vec<(u16, bool, Vec<u8>)> {
    let mut answers = Vec::new();
    while let Some(out) = node.transmit() {
        let header = check(out.packet).expect("whole");
        if (header.service, header.kind) == (service::QUEUE, kind::queue::FETCHED) {
            let length = usize::from(Fetch::read(out.packet, BODY).length);
            let has_answer = header.flags & header_flag::REFUSED == 0;
            answers.push((header.destination, has_answer, blocks(out.packet)[..length].to_vec()));
        }
    }
    answers
}

#[test]
fn who_serves_is_shown_what_is_asked_and_who_does_not_says_so() {
    let mut node = node();
    asks(&mut node, b"item");
    assert_eq!((answered(&mut node), node.fetch()), (vec![(SERVER, false, vec![])], None));
    node.serve_fetches(true);
    asks(&mut node, b"item");
    assert_eq!(answered(&mut node), []);
    let fetch = node.fetch().expect("it is asked");
    assert_eq!((&fetch.ask[..], fetch.holder, fetch.request), (&b"item"[..], SERVER, RequestId(5)));
    node.answer(Time(30), &fetch, Some(b"seven"));
    assert_eq!(answered(&mut node), [(SERVER, true, b"seven".to_vec())]);
    asks(&mut node, b"item");
    let late = node.fetch().expect("it is asked");
    asks(&mut node, b"item");
    node.leave(Time(40));
    node.answer(Time(40), &late, Some(b"seven"));
    assert_eq!((answered(&mut node), node.fetch()), (vec![], None), "its session is over");
}

/// Held for so long, as a lock server says that has had the question at this time.
fn leased(node: &mut Node, id: RequestId) {
    let flags = queue_flag::EXCLUSIVE;
    let grant = Attempt { name: NAME, request: id.0, ticket: TICKET, holder: HANDLE, flags, ..Attempt::default() };
    say(node, SERVER, kind::queue::GRANT, &Attempt { order: LEASE, sent_us: 10, ..grant });
    assert!(matches!(node.event(), Some(Event::Granted { path: Path::Agent, .. })));
}

#[test]
fn a_hold_that_ends_before_the_session_ends_the_session() {
    let mut node = node();
    let id = node.acquire(Time(10), want()).expect("it has a session");
    assert_eq!(node.session().map(|info| info.lease_end), Some(Time(1_000_000)));
    leased(&mut node, id);
    let end = Time(10 + LEASE);
    assert_eq!(node.session().map(|info| info.lease_end), Some(end));
    assert_eq!(node.session_end(), Some(Time(1_000_000)), "it would live");
    assert!(node.acquire(Time(end.0 - 1), want()).is_ok());
    let mut ids = Vec::new();
    assert_eq!(node.acquire(end, want()), Err(AcquireError::NoSession));
    assert_eq!(node.acquire_many(end, &[want()], &mut ids), Err(AcquireError::NoSession));
    assert_eq!(node.acquire_by(end, want(), THIRD, b""), Err(AcquireError::NoSession));
    sent(&mut node);
    while let Some(due) = node.next_timer().filter(|due| *due < end) {
        node.on_tick(due);
        sent(&mut node);
    }
    assert_eq!((node.event(), node.next_timer()), (None, Some(end)));
    node.on_tick(end);
    let told: Vec<Event> = std::iter::from_fn(|| node.event()).collect();
    assert!(told.contains(&Event::Lost { request: id }));
    assert_eq!(told.last(), Some(&Event::SessionLost));
    assert!(node.transmit().is_none(), "nobody may count on its silence earlier");
}

#[test]
fn a_hold_that_its_lock_server_knows_no_more_ends_the_session() {
    for (source, is_over) in [(0, false), (SERVER, true)] {
        let mut node = node();
        let id = node.acquire(Time(10), want()).expect("it has a session");
        leased(&mut node, id);
        let released = Attempt { name: NAME, request: id.0, over: id.0, ticket: TICKET, ..Attempt::default() };
        say(&mut node, source, kind::queue::RELEASED, &Attempt { holder: HANDLE, ..released });
        let told: Vec<Event> = std::iter::from_fn(|| node.event()).collect();
        let over = vec![Event::Lost { request: id }, Event::SessionLost];
        assert_eq!(told, if is_over { over } else { vec![] });
    }
}

#[test]
fn of_queues_a_hold_is_downgraded_at_once_and_several_are_asked_for_in_turn() {
    let mut node = node();
    let mut ids = vec![RequestId(1)];
    let other = wayside_protocol::Acquire { name: NAME + 1, ..want() };
    node.acquire_many(Time(10), &[want(), other], &mut ids).expect("there is room");
    assert_eq!(sent(&mut node), [(kind::queue::ACQUIRE, 0)]);
    assert_eq!(node.waits().map(|wait| wait.request).collect::<Vec<_>>(), ids[1..]);
    let flags = queue_flag::EXCLUSIVE;
    let grant = Attempt { name: NAME, request: ids[1].0, ticket: 1, holder: HANDLE, flags, ..Attempt::default() };
    let after = say(&mut node, 0, kind::queue::GRANT, &Attempt { cause: kind::queue::ACQUIRE, ..grant });
    assert_eq!(after, [(kind::queue::ACQUIRE, 0)]);
    assert!(matches!(node.event(), Some(Event::Granted { .. })));
    node.downgrade(Time(50), ids[1]);
    assert_eq!(node.event(), Some(Event::Downgraded { request: ids[1] }));
    assert_eq!(node.holds().map(|hold| hold.mode).collect::<Vec<_>>(), [Mode::Shared]);
    node.cancel(Time(50), ids[1]);
    node.release(Time(50), ids[2]);
    assert_eq!(sent(&mut node), [(kind::queue::RELEASE, 0), (kind::queue::CANCEL, 0)]);
}

fn is_asked_to_serve(node: &mut Node, now: Time) -> bool {
    node.on_tick(now);
    sent(node).contains(&(kind::queue::SERVE, 0))
}

#[test]
fn who_offers_itself_as_lock_server_asks_until_it_is_told_and_anew_in_each_epoch() {
    assert!(!is_asked_to_serve(&mut node(), Time(0)), "who does not offer itself");
    let mut node = node_with(NodeConfig { lock_server: true, ..NodeConfig::new(1) });
    assert_eq!(node.next_timer(), Some(Time(0)));
    assert!(is_asked_to_serve(&mut node, Time(0)));
    assert!(!is_asked_to_serve(&mut node, Time(4_999)));
    assert!(is_asked_to_serve(&mut node, Time(5_000)));
    assert!(!node.serves(NAME));
    let term = Attempt { number: 1, order: LEASE, over: 110_000, holder: HANDLE, ..Attempt::default() };
    say(&mut node, 0, kind::queue::SERVING, &term);
    assert!(node.serves(NAME));
    let (request, flags) = (SERVER as u64, queue_flag::EXCLUSIVE);
    for number in [1, 2] {
        let wish = Attempt { name: NAME, request: request << 40 | number, holder: SERVER, flags, ..Attempt::default() };
        say(&mut node, SERVER, kind::queue::ACQUIRE, &wish);
    }
    let line: Vec<(u64, bool)> =
        node.own_line(NAME).map(|booked| (booked.request.0 & 0xff, booked.token.is_some())).collect();
    assert_eq!(line, [(1, true), (2, false)]);
    assert!(answers_a_census(&mut node));
    assert!(!node.serves(NAME) && node.own_line(NAME).count() == 0, "nothing of one epoch counts in another");
    assert!(is_asked_to_serve(&mut node, Time(40)));
    let late = Attempt { number: 2, ..term };
    say(&mut node, 0, kind::queue::SERVING, &late);
    assert!(!node.serves(NAME), "said in the epoch before");
}

/// A switch goes on under the same epoch, and what was asked of the one before it was lost.
#[test]
fn after_a_turn_who_waits_asks_again_soon_and_who_offers_itself_at_once() {
    const PAUSE: u64 = 5_000;
    let mut node = node_with(NodeConfig { lock_server: true, ..NodeConfig::new(1) });
    let asked = |node: &mut Node, now: u64| {
        node.on_tick(Time(now));
        sent(node)
    };
    assert_eq!(asked(&mut node, 0), [(kind::queue::SERVE, 0)]);
    let term = Attempt { number: 1, order: LEASE, over: 110_000, holder: HANDLE, ..Attempt::default() };
    say(&mut node, 0, kind::queue::SERVING, &term);
    node.acquire(Time(0), want()).expect("it has a session");
    for at in [0, PAUSE, 3 * PAUSE, 7 * PAUSE] {
        assert_eq!(asked(&mut node, at).iter().filter(|told| **told == (kind::queue::ACQUIRE, 0)).count(), 1);
    }
    asked(&mut node, 7 * PAUSE + 1);
    let mut packet = vec![0; BODY + Heartbeat::BYTES];
    let header =
        Header { service: service::FABRIC, kind: kind::fabric::TURN, destination: HANDLE, ..Header::default() };
    Header { epoch: EPOCH, namespace: 1, ..header }.write(&mut packet);
    Heartbeat { sequence: 2, incarnation: INCARNATION, ..Heartbeat::default() }.write(&mut packet, BODY);
    node.on_packet(Time(7 * PAUSE + 2), &packet);
    assert_eq!(asked(&mut node, 7 * PAUSE + 2), [(kind::queue::SERVE, 0)]);
    assert_eq!(asked(&mut node, 8 * PAUSE + 1), []);
    assert!(asked(&mut node, 8 * PAUSE + 2).contains(&(kind::queue::ACQUIRE, 0)), "as whoever asks for the first time");
}

/// Of locks of the other engine, that is, nothing is said here.
#[test]
fn a_packet_of_queues_to_a_node_without_them_changes_nothing() {
    let mut bench = Bench::new(1);
    let held = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, held);
    let (destination, epoch) = (crate::bench::handle(0), crate::bench::EPOCH);
    let mut packet = vec![0; BODY + QueueKind::Grant.body().bytes(0)];
    let header = Header { service: service::QUEUE, kind: kind::queue::RELEASED, destination, ..Header::default() };
    Header { epoch, namespace: 1, ..header }.write(&mut packet);
    Attempt { name: NAME, request: held.0, over: held.0, ticket: 1, ..Attempt::default() }.write(&mut packet, BODY);
    bench.nodes[0].on_packet(bench.now, &packet);
    bench.quiet(0);
    assert_eq!(bench.nodes[0].holds().map(|hold| hold.request).collect::<Vec<_>>(), [held]);
}

/// Whatever is older the switch drops, and what is not over yet must not be.
#[test]
fn a_heartbeat_names_the_oldest_request_that_may_still_be_asked_for() {
    let oldest = |node: &mut Node, now: Time| {
        node.on_tick(now);
        let mut oldest = None;
        while let Some(out) = node.transmit() {
            let header = check(out.packet).expect("whole");
            if (header.service, header.kind) == (service::FABRIC, kind::fabric::HEARTBEAT) {
                oldest = Some(Heartbeat::read(out.packet, BODY).oldest);
            }
        }
        oldest.expect("a heartbeat")
    };
    let mut queued = node();
    let first = queued.acquire(Time(10), want()).expect("it has a session");
    queued.acquire(Time(10), want()).expect("it has a session");
    assert_eq!(oldest(&mut queued, Time(10)), first.0);
    let mut bench = Bench::new(1);
    let first = bench.ask(0, NAME, Mode::Exclusive);
    let second = bench.ask(0, NAME + 1, Mode::Exclusive);
    bench.run();
    let beat = bench.now + crate::bench::LEASE / 8;
    assert_eq!(oldest(&mut bench.nodes[0], beat), first.0);
    bench.release(0, first);
    assert_eq!(oldest(&mut bench.nodes[0], beat + crate::bench::LEASE / 8), second.0);
}
