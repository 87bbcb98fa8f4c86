//! What the simulator and the fuzzer have found, step by step.

use crate::bench::{Bench, EPOCH, Flying, LEASE, SLOTS, address, handle};
use wayside_protocol::{Acquire, Event, Mode, NodeConfig, Priority};
use wayside_wire::{BODY, Entry, Header, Heartbeat, LockKind, Policy, SlotBits, SlotState, check, kind, service};

const NAME: u64 = 5;
/// Of the same slot.
const OTHER: u64 = NAME + SLOTS as u64;

/// The packet says of which session of the handle it speaks.
#[test]
fn a_late_copy_of_a_down_says_nothing_about_the_handles_next_session() {
    let mut bench = Bench::new(2);
    let first = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, first);
    let mut down = vec![0; BODY + Heartbeat::BYTES];
    let header = Header {
        service: service::FABRIC,
        kind: kind::fabric::DOWN,
        destination: handle(0),
        position: handle(1),
        ..Header::default()
    };
    header.write(&mut down);
    Heartbeat { incarnation: 50, ..Heartbeat::default() }.write(&mut down, BODY);
    bench.deliver(Flying { to: Some(0), from: address(0, 0), packet: down });
    let second = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    bench.release(0, first);
    bench.run();
    bench.granted(1, second);
}

/// A count that began anew would let it hop for ever.
#[test]
fn a_request_that_says_it_hopped_as_often_as_can_be_said_goes_back_saying_no_less() {
    let mut bench = Bench::new(2);
    let mut packet = vec![0; BODY + Entry::BYTES];
    let header = Header { service: service::LOCK, kind: kind::lock::ACQUIRE, count: 1, ..Header::default() };
    let header = Header { epoch: EPOCH, namespace: 1, source: handle(1), destination: handle(0), ..header };
    Header { position: u16::MAX, ..header }.write(&mut packet);
    let bits = SlotBits { state: SlotState::Managed, transferred: true, tryable: false, joins: 0 };
    let request = 101 << 40 | 1;
    Entry { name: NAME, slot: NAME as u32, request, holder: handle(1), slot_bits: bits.to_u16(), ..Entry::default() }
        .write(&mut packet, BODY);
    bench.deliver(Flying { to: Some(0), from: address(0, 0), packet });
    // Whether it is the agent node 0 cannot know yet.
    while bench.flying.is_empty() {
        bench.now = bench.nodes[0].next_timer().expect("the request waits");
        bench.nodes[0].on_tick(bench.now);
        bench.collect(0);
        bench.flying.retain(|flying| check(&flying.packet).is_ok_and(|header| header.service == service::LOCK));
    }
    let back = check(&bench.flying[0].packet).expect("well formed");
    assert_eq!((back.kind, back.position), (kind::lock::ACQUIRE, u16::MAX));
}

#[test]
fn where_readers_go_first_a_writer_waits_for_those_of_its_name_and_then_has_it_alone() {
    let mut bench = Bench::with(4, LEASE, Policy::ReadPreferring, &NodeConfig::new(1));
    let reader = bench.ask(0, NAME, Mode::Shared);
    bench.run();
    bench.granted(0, reader);
    let writer = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    let joins = bench.ask(2, NAME, Mode::Shared);
    bench.run();
    bench.granted(2, joins);
    bench.quiet(1);
    assert_eq!((bench.slot(NAME).state, bench.slot(NAME).joins), (SlotState::Open, 1), "readers still join");
    let stranger = bench.ask(3, OTHER, Mode::Exclusive);
    bench.run();
    bench.granted(3, stranger);
    bench.quiet(1);
    for (node, id) in [(0, reader), (2, joins)] {
        bench.quiet(1);
        bench.release(node, id);
        bench.run();
    }
    bench.granted(1, writer);
    bench.release(1, writer);
    bench.release(3, stranger);
    bench.pass(LEASE / 4);
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
    assert_eq!(bench.to_controller.len(), 0, "nobody had to ask for a census");
}

#[test]
fn where_writers_go_first_a_writer_that_comes_later_has_it_before_a_reader() {
    for policy in [Policy::Fair, Policy::ReadPreferring, Policy::WritePreferring] {
        let mut bench = Bench::with(4, LEASE, policy, &NodeConfig::new(1));
        let modes = [Mode::Exclusive, Mode::Shared, Mode::Exclusive];
        let [first, reader, writer] = [0, 1, 2].map(|node| {
            let id = bench.ask(node, NAME, modes[node]);
            bench.run();
            id
        });
        bench.granted(0, first);
        let served =
            if policy == Policy::WritePreferring { [(2, writer), (1, reader)] } else { [(1, reader), (2, writer)] };
        bench.release(0, first);
        for (node, id) in served {
            bench.run();
            bench.granted(node, id);
            (1..3).for_each(|other| bench.quiet(other));
            bench.release(node, id);
        }
        bench.pass(LEASE / 4);
        assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
    }
}

/// It may hold what all the others wait for.
#[test]
fn a_full_queue_refuses_those_alone_who_would_have_to_wait() {
    let config = NodeConfig { waiters_most: 1, ..NodeConfig::new(1) };
    let mut bench = Bench::with(4, LEASE, Policy::Fair, &config);
    let holder = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, holder);
    let waits = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    let other = bench.ask(2, OTHER, Mode::Exclusive);
    let too_many = bench.ask(3, NAME, Mode::Exclusive);
    bench.pass(20_000);
    bench.granted(2, other);
    bench.quiet(3);
    bench.release(2, other);
    bench.release(0, holder);
    bench.pass(20_000);
    bench.granted(1, waits);
    bench.release(1, waits);
    bench.pass(100_000);
    bench.granted(3, too_many);
}

/// One of the holders may be a ghost for which all of them wait: its node gives it back when it hears of it.
#[test]
fn holders_are_told_again_in_time_however_many_come() {
    let config = NodeConfig { retransmit_most_us: 50_000, ..NodeConfig::new(1) };
    let mut bench = Bench::with(3, LEASE, Policy::Fair, &config);
    let agent = bench.ask(0, NAME, Mode::Shared);
    bench.run();
    let closes = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    bench.release(0, agent);
    bench.run();
    assert_eq!(bench.granted(0, agent).0.sequence(), 0);
    bench.granted(1, closes);
    let own = bench.ask(1, OTHER, Mode::Exclusive);
    let remote = bench.ask(2, OTHER + crate::bench::SLOTS as u64, Mode::Exclusive);
    bench.run();
    bench.granted(1, own);
    bench.granted(2, remote);
    let grants = |bench: &mut Bench| bench.count(LockKind::Grant);
    let before = grants(&mut bench);
    for _ in 0..20 {
        let deadline = Some(bench.now + 5_000);
        let want = Acquire {
            name: NAME,
            mode: Mode::Exclusive,
            try_: false,
            priority: Priority::NORMAL,
            deadline,
            port: 5_000,
        };
        bench.ask_with(0, want);
        bench.pass(20_000);
        assert!(matches!(bench.nodes[0].event(), Some(Event::TimedOut { .. })));
    }
    assert!(grants(&mut bench) >= before + 3, "400 ms, and a pause of 50 ms at first");
}
