//! What is not for this node, its session or its slots changes nothing, however well formed.

use crate::bench::{Bench, EPOCH, Flying, LEASE, SLOTS, handle};
use wayside_protocol::{Event, Mode};
use wayside_wire::{BODY, Entry, Header, LockKind, SlotState, check, header_flag, kind};

const NAME: u64 = 5;

#[test]
fn a_grant_for_another_node_namespace_epoch_or_slot_is_dropped() {
    let mut bench = Bench::new(1);
    let id = bench.ask(0, NAME, Mode::Exclusive);
    bench.step();
    let grant = bench.flying.pop_back().expect("the switch has answered").packet;
    let header = Header::read(&grant).expect("whole");
    let entry = Entry::read(&grant, BODY);
    assert_eq!((header.kind, header.destination, header.epoch), (kind::lock::GRANT, 1, EPOCH));
    let strange = [
        (Header { destination: 2, ..header }, entry),
        (Header { namespace: 2, ..header }, entry),
        (Header { epoch: EPOCH - 1, ..header }, entry),
        (Header { epoch: EPOCH + 1, ..header }, entry),
        (header, Entry { slot: SLOTS, ..entry }),
    ];
    for (header, entry) in strange {
        let mut packet = grant.clone();
        header.write(&mut packet);
        entry.write(&mut packet, BODY);
        let before = bench.nodes[0].dropped();
        bench.nodes[0].on_packet(bench.now, &packet);
        bench.quiet(0);
        assert_eq!(bench.nodes[0].dropped(), before + 1, "{header:?} {entry:?}");
        assert!(bench.nodes[0].transmit().is_none(), "nor is it given back");
    }
    bench.nodes[0].on_packet(bench.now, &grant);
    bench.granted(0, id);
}

/// Pauses grow while nobody answers; whoever says that it will be over soon is asked soon.
#[test]
fn who_is_told_that_the_switch_recovers_asks_again_soon() {
    let mut bench = Bench::with_lease(1, 60_000_000);
    let id = bench.ask(0, NAME, Mode::Exclusive);
    let end = bench.now + 700_000;
    while bench.now < end {
        bench.flying.clear();
        bench.now = bench.nodes[0].next_timer().expect("it asks again").min(end);
        bench.nodes[0].on_tick(bench.now);
        bench.collect(0);
    }
    bench.flying.clear();
    let recovering = Header { epoch: EPOCH, kind: kind::lock::RECOVERING, ..Header::default() };
    bench.tell(0, recovering, &[Entry { request: id.0, slot: NAME as u32, ..Entry::default() }]);
    bench.delivered.clear();
    bench.pass(5_000);
    assert_eq!(bench.count(LockKind::Acquire), 1);
    bench.granted(0, id);
}

#[test]
fn a_session_lasts_as_long_as_its_heartbeats_are_answered() {
    let mut bench = Bench::new(1);
    let id = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, id);
    bench.pass(5 * LEASE);
    bench.quiet(0);
    let end = bench.nodes[0].session_end().expect("it lives");
    assert!(bench.now < end && end <= bench.now + LEASE);
}

/// The controller gives it to others when the first LEAVE arrives.
#[test]
fn who_leaves_has_lost_at_once_what_it_held_and_awaited() {
    let mut bench = Bench::new(2);
    let held = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, held);
    let other = bench.ask(1, NAME + 1, Mode::Exclusive);
    bench.run();
    bench.granted(1, other);
    let waits = bench.ask(0, NAME + 1, Mode::Exclusive);
    bench.run();
    bench.nodes[0].leave(bench.now);
    let told: Vec<Event> = std::iter::from_fn(|| bench.nodes[0].event()).collect();
    assert_eq!(told, [held, waits].map(|request| Event::Lost { request }));
}

/// It may be that of a request of before: a try alone is refused.
#[test]
fn a_refusal_is_for_who_tries_and_one_to_be_repeated_for_nobody() {
    for (try_, flags, refused) in [(true, 0, true), (true, header_flag::RETRY, false), (false, 0, false)] {
        let mut bench = Bench::new(1);
        let want = wayside_protocol::Acquire {
            name: NAME,
            mode: Mode::Exclusive,
            try_,
            priority: wayside_protocol::Priority::NORMAL,
            deadline: None,
            port: 5_000,
        };
        let id = bench.ask_with(0, want);
        bench.flying.clear();
        let busy = Header { epoch: EPOCH, kind: kind::lock::BUSY, flags, ..Header::default() };
        bench.tell(0, busy, &[Entry { request: id.0, slot: NAME as u32, holder: 2, ..Entry::default() }]);
        match bench.nodes[0].event() {
            Some(Event::Busy { request, agent }) => assert!(refused && (request, agent) == (id, 2)),
            other => assert!(!refused && other.is_none(), "{other:?}"),
        }
    }
}

/// Node 0 hears that the session of node 1 is over.
fn bury_node_1(bench: &mut Bench) {
    bench.down(handle(1), 101);
}

/// The packet of this kind that is under way to node 0 comes late.
fn late(bench: &mut Bench, kind: u8) -> Flying {
    let is_it = |flying: &Flying| flying.to == Some(0) && check(&flying.packet).expect("whole").kind == kind;
    while !bench.flying.iter().any(is_it) {
        assert!(bench.step(), "it is sent");
    }
    let place = bench.flying.iter().position(is_it).expect("it is there");
    bench.flying.remove(place).expect("it is there")
}

#[test]
fn a_late_request_of_a_dead_session_waits_for_nothing() {
    let mut bench = Bench::new(2);
    let held = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, held);
    bench.ask(1, NAME, Mode::Exclusive);
    let late = late(&mut bench, kind::lock::ACQUIRE);
    bury_node_1(&mut bench);
    bench.deliver(late);
    bench.release(0, held);
    bench.run();
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
    bench.quiet(1);
}

/// The agent must know of every one that the switch has let in before the slot can be free.
#[test]
fn a_late_join_of_a_dead_session_is_counted_and_holds_nothing() {
    let mut bench = Bench::new(2);
    let held = bench.ask(0, NAME, Mode::Shared);
    bench.run();
    bench.granted(0, held);
    bench.ask(1, NAME, Mode::Shared);
    let late = late(&mut bench, kind::lock::JOIN);
    bury_node_1(&mut bench);
    bench.deliver(late);
    bench.flying.clear();
    bench.release(0, held);
    bench.run();
    assert_eq!((bench.slot(NAME).state, bench.to_controller.len()), (SlotState::Unheld, 0));
}
