//! A lock that nobody else wants, with packets that are not quite those which belong to it (`node/alone.rs`), and the
//! end of a session that has several.

use crate::bench::{Bench, EPOCH, LEASE, handle};
use wayside_protocol::{Acquire, Event, Mode, NodeConfig, Path, Priority, RequestId};
use wayside_wire::{
    BODY, Entry, Header, Heartbeat, Policy, SlotBits, SlotState, entry_flag, header_flag, kind, service,
};

const NAME: u64 = 5;
const SLOT: u32 = 5;
const PAUSE: u64 = 5_000;

fn header(kind: u8, flags: u16) -> Header {
    Header { epoch: EPOCH, kind, flags, ..Header::default() }
}

/// Of this name and request, as the switch grants it at this tenure.
fn fresh(name: u64, RequestId(request): RequestId, tenure: u32) -> Entry {
    let bits = SlotBits { state: SlotState::Managed, ..SlotBits::default() };
    let flags = entry_flag::AGENCY | entry_flag::EXCLUSIVE;
    let entry = Entry { name, request, slot: name as u32, tenure, holder: handle(0), ..Entry::default() };
    Entry { flags, slot_bits: bits.to_u16(), ..entry }
}

/// Node 0 has asked the switch to free the slot: the nonce and the tenure.
fn freeing(bench: &mut Bench) -> (u64, u32) {
    let held = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, held);
    bench.release(0, held);
    let sent = bench.sent();
    assert_eq!((sent.len(), sent[0].0.kind), (1, kind::lock::RETENURE));
    (sent[0].1.request, sent[0].1.tenure)
}

#[test]
fn a_slot_is_free_when_the_switch_says_so_to_this_very_question_and_is_asked_about_until_then() {
    let (applied, stale, refused) = (header_flag::APPLIED, header_flag::STALE_TENURE, header_flag::REFUSED);
    for (flags, other, tenures, is_over) in [
        (applied, 0, 1, true),
        (stale, 0, 3, true),
        (applied, 1, 1, false),
        (applied, 0, 0, false),
        (0, 0, 1, false),
        (refused, 0, 1, false),
        (applied | refused, 0, 1, false),
    ] {
        let mut bench = Bench::new(1);
        let (nonce, tenure) = freeing(&mut bench);
        let answer = Entry { request: nonce + other, slot: SLOT, tenure: tenure + tenures, ..Entry::default() };
        bench.tell(0, header(kind::lock::RETENURED, flags), &[Entry { holder: handle(0), ..answer }]);
        assert_eq!(bench.nodes[0].is_idle(), is_over, "{flags:#x} {other} {tenures}");
        bench.wait(PAUSE);
        let sent: Vec<(u8, u64)> = bench.sent().iter().map(|(header, entry)| (header.kind, entry.request)).collect();
        assert_eq!(sent, if is_over { vec![] } else { vec![(kind::lock::RETENURE, nonce)] });
    }
}

#[test]
fn each_question_has_a_number_of_its_own() {
    let mut bench = Bench::new(1);
    let first = freeing(&mut bench);
    bench.wait(PAUSE);
    bench.run();
    let second = freeing(&mut bench);
    assert!(second.0 != first.0 && second.1 > first.1);
}

/// Until it asks for that, nothing is.
#[test]
fn nothing_that_is_held_is_freed_by_what_the_switch_says() {
    let mut bench = Bench::new(1);
    let held = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    let (token, _) = bench.granted(0, held);
    let answer = Entry { slot: SLOT, tenure: token.stamp().tenure + 1, ..Entry::default() };
    for request in [0, held.0] {
        bench.tell(0, header(kind::lock::RETENURED, header_flag::APPLIED), &[Entry { request, ..answer }]);
    }
    assert_eq!(bench.nodes[0].books(SLOT).map(Iterator::count), Some(1));
    bench.release(0, held);
    bench.run();
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
}

#[test]
fn a_grant_without_the_agency_makes_nobody_agent() {
    let mut bench = Bench::new(1);
    let id = bench.ask(0, NAME, Mode::Exclusive);
    bench.flying.clear();
    let plain = Entry { flags: entry_flag::EXCLUSIVE, sequence: 3, ..fresh(NAME, id, 4) };
    bench.tell(0, Header { source: handle(1), ..header(kind::lock::GRANT, 0) }, &[plain]);
    assert_eq!(bench.granted(0, id).1, Path::Agent);
    assert!(bench.nodes[0].books(SLOT).is_none());
    bench.release(0, id);
    assert_eq!(bench.kinds_sent(), [kind::lock::RELEASE]);
}

#[test]
fn a_reader_that_joins_is_no_agent_and_says_which_join_it_was() {
    let mut bench = Bench::new(1);
    let id = bench.ask(0, NAME, Mode::Shared);
    bench.flying.clear();
    let bits = SlotBits { state: SlotState::Open, joins: 6, ..SlotBits::default() };
    let joined = Entry { flags: entry_flag::JOINED, slot_bits: bits.to_u16(), ..fresh(NAME, id, 4) };
    bench.tell(0, Header { source: handle(1), ..header(kind::lock::GRANT, 0) }, &[joined]);
    assert_eq!(bench.granted(0, id).1, Path::Switch);
    assert!(bench.nodes[0].books(SLOT).is_none());
    bench.release(0, id);
    let (header, entry) = bench.sent()[0];
    assert_eq!((header.kind, SlotBits::from_u16(entry.slot_bits).joins), (kind::lock::RELEASE, 6));
}

#[test]
fn a_grants_token_is_what_the_packet_says() {
    let mut bench = Bench::new(1);
    let id = bench.ask(0, NAME, Mode::Exclusive);
    bench.flying.clear();
    bench.tell(0, header(kind::lock::GRANT, 0), &[Entry { sequence: 3, ..fresh(NAME, id, 4) }]);
    let (token, _) = bench.granted(0, id);
    assert_eq!((token.stamp().epoch, token.stamp().tenure, token.sequence()), (EPOCH, 4, 3));
}

/// Held before those in front of it, it could be what they wait for elsewhere.
#[test]
fn a_lock_whose_turn_has_not_come_is_not_taken() {
    let mut bench = Bench::new(1);
    let want = |name| Acquire {
        name,
        mode: Mode::Exclusive,
        try_: false,
        priority: Priority::NORMAL,
        deadline: None,
        port: 5_000,
    };
    let mut ids = Vec::new();
    bench.nodes[0].acquire_many(bench.now, &[NAME, NAME + 1, NAME + 2].map(want), &mut ids).expect("there is room");
    bench.collect(0);
    bench.flying.clear();
    bench.tell(0, header(kind::lock::GRANT, 0), &[fresh(NAME + 1, ids[1], 4)]);
    bench.quiet(0);
    let sent = bench.sent();
    assert_eq!((sent.len(), sent[0].0.kind, sent[0].1.slot), (1, kind::lock::RETENURE, SLOT + 1), "it is given back");
    // Those that follow each other in a packet are.
    let together = [fresh(NAME, ids[0], 4), fresh(NAME + 1, ids[1], 6), fresh(NAME + 2, ids[2], 4)];
    bench.tell(0, header(kind::lock::GRANT, 0), &together);
    ids.into_iter().for_each(|id| {
        assert_eq!(bench.granted(0, id).1, Path::Switch);
    });
}

/// They are told in the order in which they were asked for, whatever their numbers.
#[test]
fn a_session_that_is_over_has_lost_what_was_held_and_awaited_and_not_what_was_given_back() {
    let config = NodeConfig { first_request: 62, ..NodeConfig::new(1) };
    let mut bench = Bench::with(1, LEASE, Policy::Fair, &config);
    let held: Vec<RequestId> = (1..5).map(|name| bench.ask(0, name, Mode::Exclusive)).collect();
    bench.run();
    held.iter().for_each(|&id| {
        bench.granted(0, id);
    });
    let given_back = bench.ask(0, 9, Mode::Exclusive);
    bench.flying.clear();
    bench.nodes[0].cancel(bench.now, given_back);
    let waits = bench.ask(0, 10, Mode::Exclusive);
    bench.flying.clear();
    bench.now = bench.now + 2 * LEASE;
    bench.nodes[0].on_tick(bench.now);
    let told: Vec<Event> = std::iter::from_fn(|| bench.nodes[0].event()).collect();
    let lost = held.into_iter().chain([waits]).map(|request| Event::Lost { request });
    assert_eq!(told, lost.chain([Event::SessionLost]).collect::<Vec<_>>());
    assert!(bench.nodes[0].transmit().is_none() && bench.nodes[0].is_idle());
    assert_eq!(bench.nodes[0].next_timer(), None);
}

#[test]
fn who_waits_with_this_nodes_agents_is_shown_and_nobody_else() {
    let mut bench = Bench::new(3);
    let held = [NAME, NAME + 1].map(|name| bench.ask(0, name, Mode::Exclusive));
    bench.run();
    held.into_iter().for_each(|id| {
        bench.granted(0, id);
    });
    assert_eq!(bench.nodes[0].queues().count(), 0, "they hold");
    let waits = [1, 2].map(|node| {
        let id = bench.ask(node, NAME, Mode::Exclusive);
        bench.run();
        id
    });
    let shown: Vec<(u32, u16, RequestId)> =
        bench.nodes[0].queues().map(|(slot, booked)| (slot, booked.holder, booked.request)).collect();
    assert_eq!(shown, [(SLOT, handle(1), waits[0]), (SLOT, handle(2), waits[1])]);
    let question = Entry { request: 77, slot: SLOT, tenure: bench.slot(NAME).tenure, ..Entry::default() };
    bench.tell(0, header(kind::lock::CENSUS, 0), &[question]);
    assert_eq!(bench.nodes[0].queues().count(), 0, "its books may be another's by now");
}

#[test]
fn a_packet_that_no_node_gets_is_counted_and_one_that_says_nothing_new_is_not() {
    let mut bench = Bench::new(1);
    let about = |kind| Header { service: service::FABRIC, kind, destination: handle(0), ..Header::default() };
    let before = bench.nodes[0].dropped();
    bench.say(Header { epoch: EPOCH + 1, ..about(kind::fabric::STALE) }, Heartbeat::default());
    assert_eq!(bench.nodes[0].dropped(), before);
    bench.say(about(kind::fabric::HEARTBEAT), Heartbeat::default());
    assert_eq!(bench.nodes[0].dropped(), before + 1);
    let mut unknown = vec![0; BODY + Entry::BYTES];
    let of_node =
        Header { service: service::LOCK, count: 1, namespace: 1, destination: handle(0), ..Header::default() };
    Header { epoch: EPOCH, kind: kind::lock::REPORT, ..of_node }.write(&mut unknown);
    bench.nodes[0].on_packet(bench.now, &unknown);
    assert_eq!(bench.nodes[0].dropped(), before + 2);
}
