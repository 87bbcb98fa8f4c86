//! The lock client packet by packet: what is asked for again, given back and refused (docs/protocol.md, Lock service).

use crate::bench::{Bench, EPOCH, LEASE, SLOTS, handle};
use wayside_protocol::{Acquire, AcquireError, Event, Mode, NodeConfig, Path, Priority, RequestId};
use wayside_wire::{Entry, Header, LockKind, Policy, SlotBits, SlotState, check, entry_flag, header_flag, kind};

const NAME: u64 = 5;
const SLOT: u32 = 5;
/// Of the same slot.
const OTHER: u64 = NAME + SLOTS as u64;
const PAUSE: u64 = 5_000;
const TENURE: u32 = 4;

fn want(name: u64) -> Acquire {
    Acquire { name, mode: Mode::Exclusive, try_: false, priority: Priority::NORMAL, deadline: None, port: 5_000 }
}

fn long(nodes: usize) -> Bench {
    Bench::with_lease(nodes, 60_000_000)
}

fn header(kind: u8) -> Header {
    Header { epoch: EPOCH, kind, source: handle(1), ..Header::default() }
}

/// As an agent or the switch names a request of node 0, with the grant of this sequence.
fn entry(RequestId(request): RequestId, sequence: u8) -> Entry {
    let flags = entry_flag::EXCLUSIVE;
    Entry { name: NAME, request, slot: SLOT, tenure: TENURE, holder: handle(0), flags, sequence, ..Entry::default() }
}

/// Node 0 holds exclusively what the agent of node 1 has granted.
fn held_elsewhere(bench: &mut Bench) -> RequestId {
    let id = bench.ask(0, NAME, Mode::Exclusive);
    bench.flying.clear();
    bench.tell(0, header(kind::lock::GRANT), &[entry(id, 3)]);
    assert_eq!(bench.granted(0, id).1, Path::Agent);
    id
}

#[test]
fn who_is_not_answered_asks_again_in_pauses_that_double_up_to_the_longest() {
    let config = NodeConfig { retransmit_most_us: 4 * PAUSE, ..NodeConfig::new(1) };
    let mut bench = Bench::with(1, LEASE, Policy::Fair, &config);
    bench.ask(0, NAME, Mode::Exclusive);
    assert_eq!(bench.kinds_sent(), [kind::lock::ACQUIRE]);
    for pause in [1, 2, 4, 4] {
        bench.wait(pause * PAUSE - 1);
        assert_eq!(bench.kinds_sent(), []);
        bench.wait(1);
        assert_eq!(bench.kinds_sent(), [kind::lock::ACQUIRE]);
    }
}

#[test]
fn of_several_locks_none_is_asked_for_where_one_is_too_many() {
    let config = NodeConfig { requests_most: 3, ..NodeConfig::new(1) };
    let mut bench = Bench::with(1, LEASE, Policy::Fair, &config);
    let mut ids = vec![RequestId(7)];
    let wants = [1, 2, 3, 4].map(want);
    assert_eq!(bench.nodes[0].acquire_many(bench.now, &wants, &mut ids), Err(AcquireError::TooMany));
    assert_eq!(ids, [RequestId(7)]);
    bench.collect(0);
    assert_eq!((bench.kinds_sent(), bench.nodes[0].is_idle()), (vec![], true));
    bench.nodes[0].acquire_many(bench.now, &wants[..3], &mut ids).expect("there is room for three");
    bench.collect(0);
    bench.run();
    ids[1..].iter().for_each(|&id| {
        bench.granted(0, id);
    });
}

#[test]
fn several_locks_are_asked_for_in_order_where_the_node_decides_on_one_itself() {
    let mut bench = long(1);
    let held = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, held);
    let mut ids = Vec::new();
    bench.nodes[0].acquire_many(bench.now, &[3, NAME, 8, 9].map(want), &mut ids).expect("there is room");
    bench.collect(0);
    let asked: Vec<u8> = bench.flying.iter().map(|flying| check(&flying.packet).expect("whole").count).collect();
    assert_eq!(asked, [1], "one packet with one name");
    bench.pass(1_000);
    bench.granted(0, ids[0]);
    bench.pass(1_000);
    bench.quiet(0);
    bench.release(0, held);
    bench.pass(1_000);
    assert_eq!(bench.granted(0, ids[1]).1, Path::Local);
    [ids[2], ids[3]].into_iter().for_each(|id| {
        bench.granted(0, id);
    });
}

/// Their turn has not come, and nobody has been asked for them alone.
#[test]
fn of_several_locks_those_whose_turn_has_not_come_are_given_up_without_a_packet() {
    let mut bench = Bench::new(1);
    let mut ids = Vec::new();
    bench.nodes[0].acquire_many(bench.now, &[1, 2, 3].map(want), &mut ids).expect("there is room");
    bench.collect(0);
    bench.flying.clear();
    bench.nodes[0].cancel(bench.now, ids[2]);
    bench.nodes[0].release(bench.now, ids[1]);
    bench.collect(0);
    assert_eq!(bench.kinds_sent(), []);
    assert_eq!(bench.nodes[0].waits().map(|wait| wait.request).collect::<Vec<_>>(), [ids[0]]);
    bench.nodes[0].cancel(bench.now, ids[0]);
    bench.collect(0);
    assert_eq!(bench.kinds_sent(), [kind::lock::CANCEL]);
    bench.tell(0, header(kind::lock::RELEASED), &[entry(ids[0], 0)]);
    assert!(bench.nodes[0].is_idle());
}

#[test]
fn who_gives_up_a_wait_elsewhere_says_so_until_it_is_answered_and_once_at_a_time() {
    for by_release in [false, true] {
        let mut bench = Bench::new(1);
        let id = bench.ask(0, NAME, Mode::Exclusive);
        bench.flying.clear();
        for _ in 0..2 {
            let now = bench.now;
            let node = &mut bench.nodes[0];
            if by_release { node.release(now, id) } else { node.cancel(now, id) }
        }
        bench.collect(0);
        assert_eq!(bench.kinds_sent(), [kind::lock::CANCEL]);
        assert_eq!(bench.nodes[0].waits().count(), 0);
        bench.wait(PAUSE);
        assert_eq!(bench.kinds_sent(), [kind::lock::CANCEL]);
        // Whatever grant the answer speaks of.
        bench.tell(0, header(kind::lock::RELEASED), &[entry(id, 9)]);
        assert!(bench.nodes[0].is_idle());
        bench.quiet(0);
    }
}

#[test]
fn who_gives_up_a_wait_with_its_own_agent_leaves_the_line_at_once() {
    let mut bench = Bench::new(1);
    let held = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, held);
    let waits = bench.ask(0, NAME, Mode::Exclusive);
    let booked = |bench: &Bench| bench.nodes[0].books(SLOT).map(Iterator::count);
    assert_eq!(booked(&bench), Some(2));
    bench.nodes[0].cancel(bench.now, waits);
    assert_eq!(booked(&bench), Some(1));
    bench.collect(0);
    bench.run();
    assert_eq!(bench.count(LockKind::Released), 0, "it answers itself");
    bench.release(0, held);
    bench.run();
    assert!(bench.nodes[0].is_idle());
    bench.quiet(0);
}

/// The agent asks the switch for a change meanwhile, and hears of the end only when it grants.
#[test]
fn what_an_own_agent_grants_to_a_request_that_has_ended_comes_back_at_once() {
    let mut bench = Bench::new(2);
    let held = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, held);
    let waits = bench.ask(0, NAME, Mode::Exclusive);
    let stranger = bench.ask(1, OTHER, Mode::Exclusive);
    bench.run_until_sent(kind::lock::RETENURE);
    bench.nodes[0].cancel(bench.now, waits);
    bench.collect(0);
    assert_eq!(bench.lose(LockKind::Cancel as u8), 1);
    bench.run();
    bench.granted(1, stranger);
    bench.release(0, held);
    let booked = bench.nodes[0].books(SLOT).into_iter().flatten();
    assert_eq!(booked.map(|booked| booked.holder).collect::<Vec<_>>(), [handle(1)]);
    bench.quiet(0);
}

#[test]
fn a_hold_that_is_cancelled_is_given_back() {
    let mut bench = Bench::new(1);
    let alone = bench.ask(0, NAME + 1, Mode::Exclusive);
    bench.run();
    bench.granted(0, alone);
    bench.nodes[0].cancel(bench.now, alone);
    bench.collect(0);
    assert_eq!(bench.kinds_sent(), [kind::lock::RETENURE]);
    let id = held_elsewhere(&mut bench);
    bench.nodes[0].cancel(bench.now, id);
    bench.collect(0);
    assert_eq!(bench.kinds_sent(), [kind::lock::RELEASE]);
    assert_eq!(bench.nodes[0].holds().count(), 0);
}

#[test]
fn a_release_speaks_of_its_grant_and_so_does_the_answer_that_ends_it() {
    let mut bench = Bench::new(1);
    let id = held_elsewhere(&mut bench);
    bench.release(0, id);
    let sent = bench.sent();
    assert_eq!((sent.len(), sent[0].0.kind), (1, kind::lock::RELEASE));
    assert_eq!((sent[0].1.request, sent[0].1.tenure, sent[0].1.sequence), (id.0, TENURE, 3));
    let joined = Entry { flags: entry_flag::EXCLUSIVE | entry_flag::JOINED, ..entry(id, 3) };
    for other in [entry(id, 2), Entry { tenure: TENURE + 1, ..entry(id, 3) }, joined] {
        bench.tell(0, header(kind::lock::RELEASED), &[other]);
        assert!(!bench.nodes[0].is_idle(), "of another grant: {other:?}");
    }
    bench.tell(0, header(kind::lock::RELEASED), &[entry(id, 3)]);
    assert!(bench.nodes[0].is_idle());
    bench.wait(4 * PAUSE);
    assert_eq!(bench.kinds_sent(), []);
}

/// A late copy of its ACQUIRE has been granted.
#[test]
fn a_grant_to_who_has_given_up_is_given_back_and_a_copy_of_it_is_no_other() {
    let mut bench = Bench::new(1);
    let id = bench.ask(0, NAME, Mode::Exclusive);
    bench.flying.clear();
    bench.nodes[0].cancel(bench.now, id);
    bench.collect(0);
    bench.sent();
    for sequence in [3, 4] {
        bench.tell(0, header(kind::lock::GRANT), &[entry(id, sequence)]);
        let sent: Vec<(u8, u8)> = bench.sent().iter().map(|(header, entry)| (header.kind, entry.sequence)).collect();
        assert_eq!(sent, [(kind::lock::RELEASE, sequence)]);
        bench.tell(0, header(kind::lock::GRANT), &[entry(id, sequence)]);
        assert_eq!(bench.kinds_sent(), [], "it is being given back");
    }
    bench.tell(0, header(kind::lock::RELEASED), &[entry(id, 3)]);
    assert!(!bench.nodes[0].is_idle(), "the second grant is still counted somewhere");
    bench.tell(0, header(kind::lock::RELEASED), &[entry(id, 4)]);
    assert!(bench.nodes[0].is_idle());
    bench.quiet(0);
}

#[test]
fn a_grant_that_nobody_knows_of_is_given_back_until_that_is_answered() {
    let mut bench = Bench::new(1);
    let unknown = RequestId(100 << 40 | 77);
    bench.tell(0, header(kind::lock::GRANT), &[entry(unknown, 3)]);
    for _ in 0..2 {
        let sent = bench.sent();
        assert_eq!((sent.len(), sent[0].0.kind), (1, kind::lock::RELEASE));
        assert_eq!((sent[0].1.request, sent[0].1.name, sent[0].1.sequence), (unknown.0, NAME, 3));
        bench.wait(PAUSE);
    }
    bench.tell(0, header(kind::lock::RELEASED), &[entry(unknown, 3)]);
    bench.sent();
    assert!(bench.nodes[0].is_idle());
    bench.quiet(0);
}

#[test]
fn a_shared_hold_is_downgraded_at_once_and_what_is_not_held_never() {
    let mut bench = Bench::new(1);
    let shared = bench.ask(0, NAME, Mode::Shared);
    bench.run();
    bench.granted(0, shared);
    bench.nodes[0].downgrade(bench.now, shared);
    assert_eq!(bench.nodes[0].event(), Some(Event::Downgraded { request: shared }));
    let waits = bench.ask(0, NAME + 1, Mode::Exclusive);
    bench.flying.clear();
    bench.nodes[0].downgrade(bench.now, waits);
    bench.nodes[0].downgrade(bench.now, RequestId(77));
    bench.collect(0);
    bench.quiet(0);
    assert_eq!(bench.kinds_sent(), []);
}

#[test]
fn a_downgrade_is_asked_for_until_its_own_grant_is_answered_as_shared() {
    let mut bench = long(1);
    let id = bench.ask(0, NAME, Mode::Exclusive);
    // It was long before it was granted: the pauses have grown.
    bench.wait(100 * PAUSE);
    bench.tell(0, header(kind::lock::GRANT), &[entry(id, 3)]);
    bench.granted(0, id);
    bench.sent();
    let shared = |sequence: u8| Entry { flags: 0, ..entry(id, sequence) };
    bench.tell(0, header(kind::lock::GRANT), &[shared(3)]);
    bench.quiet(0);
    assert!(bench.nodes[0].holds().all(|hold| hold.mode == Mode::Exclusive), "nobody has asked for that");
    bench.nodes[0].downgrade(bench.now, id);
    bench.collect(0);
    for pause in [1, 2, 4] {
        assert_eq!(bench.kinds_sent(), [kind::lock::DOWNGRADE]);
        bench.wait(pause * PAUSE - 1);
        assert_eq!(bench.kinds_sent(), []);
        bench.wait(1);
    }
    bench.sent();
    bench.tell(0, header(kind::lock::GRANT), &[entry(id, 3)]);
    bench.quiet(0);
    bench.tell(0, header(kind::lock::GRANT), &[shared(2)]);
    bench.quiet(0);
    bench.tell(0, header(kind::lock::GRANT), &[shared(3)]);
    assert_eq!(bench.nodes[0].event(), Some(Event::Downgraded { request: id }));
    assert!(bench.nodes[0].holds().all(|hold| hold.mode == Mode::Shared));
    bench.tell(0, header(kind::lock::GRANT), &[shared(3)]);
    bench.quiet(0);
    bench.wait(100 * PAUSE);
    assert_eq!(bench.kinds_sent(), []);
}

#[test]
fn who_is_told_to_come_again_comes_soon_whatever_it_asks_for() {
    for (end, kind) in [(false, kind::lock::DOWNGRADE), (true, kind::lock::RELEASE)] {
        let mut bench = long(1);
        let id = held_elsewhere(&mut bench);
        let recovering = header(kind::lock::RECOVERING);
        bench.tell(0, recovering, &[entry(id, 3)]);
        bench.wait(10 * PAUSE);
        assert_eq!(bench.kinds_sent(), [], "who holds asks for nothing");
        if end {
            bench.release(0, id);
        } else {
            bench.nodes[0].downgrade(bench.now, id);
        }
        bench.wait(100 * PAUSE);
        bench.sent();
        bench.tell(0, recovering, &[entry(id, 3)]);
        bench.wait(PAUSE - 1);
        assert_eq!(bench.kinds_sent(), []);
        bench.wait(1);
        assert_eq!(bench.kinds_sent(), [kind]);
        // What is due earlier is not put off.
        bench.wait(2 * PAUSE - PAUSE / 2);
        bench.tell(0, recovering, &[entry(id, 3)]);
        bench.wait(PAUSE / 2);
        assert_eq!(bench.kinds_sent(), [kind]);
    }
}

#[test]
fn a_try_that_is_refused_leaves_nothing_behind_and_says_who_is_agent() {
    for (holder, agent) in [(handle(4), handle(4)), (handle(0), handle(1))] {
        let mut bench = Bench::new(1);
        let id = bench.ask_with(0, Acquire { try_: true, ..want(NAME) });
        bench.flying.clear();
        bench.tell(0, header(kind::lock::BUSY), &[Entry { holder, ..entry(id, 0) }]);
        assert_eq!(bench.nodes[0].event(), Some(Event::Busy { request: id, agent }), "of the packet, if it is itself");
        assert!(bench.nodes[0].is_idle());
        bench.wait(10 * PAUSE);
        assert_eq!(bench.kinds_sent(), []);
    }
}

#[test]
fn a_try_is_refused_by_the_nodes_own_agent_without_a_packet() {
    let mut bench = Bench::new(1);
    let held = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, held);
    let id = bench.ask_with(0, Acquire { try_: true, ..want(NAME) });
    assert_eq!(bench.nodes[0].event(), Some(Event::Busy { request: id, agent: handle(0) }));
    assert_eq!((bench.kinds_sent(), bench.nodes[0].waits().count()), (vec![], 0));
    bench.release(0, held);
    bench.run();
    assert!(bench.nodes[0].is_idle());
}

#[test]
fn a_hold_and_a_wait_say_since_when_they_are() {
    let mut bench = Bench::new(2);
    let alone = bench.ask(0, NAME, Mode::Exclusive);
    let other = bench.ask(0, NAME + 1, Mode::Exclusive);
    let asked = bench.now;
    bench.now = bench.now + 700;
    bench.tell(0, header(kind::lock::GRANT), &[Entry { name: NAME + 1, slot: SLOT + 1, ..entry(other, 3) }]);
    bench.run();
    let granted = bench.now;
    bench.now = bench.now + 700;
    let waits = bench.ask(0, NAME + 1, Mode::Exclusive);
    let mut since: Vec<_> = bench.nodes[0].holds().map(|hold| (hold.request, hold.since)).collect();
    since.extend(bench.nodes[0].waits().map(|wait| (wait.request, wait.since)));
    since.sort_unstable();
    assert_eq!(since, [(alone, granted), (other, granted), (waits, bench.now)]);
    assert!(asked < granted);
}

/// Two of one node in one slot, each with a packet of its own.
#[test]
fn of_two_that_ask_for_a_slot_the_second_is_not_forgotten_with_the_first() {
    let mut bench = long(1);
    let first = bench.ask(0, NAME, Mode::Exclusive);
    let second = bench.ask(0, NAME, Mode::Exclusive);
    bench.flying.pop_back();
    bench.run();
    bench.granted(0, first);
    bench.release(0, first);
    bench.run();
    let elsewhere = bench.ask(0, NAME + 1, Mode::Exclusive);
    bench.run();
    bench.granted(0, elsewhere);
    bench.pass(4 * PAUSE);
    bench.granted(0, second);
    bench.release(0, second);
    bench.release(0, elsewhere);
    bench.run();
    assert!(bench.nodes[0].is_idle());
    assert!([NAME, NAME + 1].iter().all(|&name| bench.slot(name).state == SlotState::Unheld));
}

#[test]
fn a_grant_of_a_tenure_that_the_node_itself_has_ended_is_not_taken() {
    let mut bench = Bench::new(1);
    let first = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    let (token, _) = bench.granted(0, first);
    bench.release(0, first);
    // It asks while the slot is being freed, and is asked for again when that is answered.
    let second = bench.ask(0, NAME, Mode::Exclusive);
    let free = bench.flying.pop_front().expect("the change");
    bench.flying.clear();
    bench.deliver(free);
    bench.run();
    let bits = SlotBits { state: SlotState::Managed, ..SlotBits::default() };
    let flags = entry_flag::EXCLUSIVE | entry_flag::AGENCY;
    let late = Entry { tenure: token.stamp().tenure, flags, slot_bits: bits.to_u16(), ..entry(second, 0) };
    bench.tell(0, Header { source: 0, ..header(kind::lock::GRANT) }, &[late]);
    bench.quiet(0);
}

#[test]
fn who_tries_and_is_told_to_come_again_is_not_refused() {
    let mut bench = long(1);
    let id = bench.ask_with(0, Acquire { try_: true, ..want(NAME) });
    bench.wait(100 * PAUSE);
    bench.sent();
    let retry = Header { flags: header_flag::RETRY, ..header(kind::lock::BUSY) };
    bench.tell(0, retry, &[entry(id, 0)]);
    bench.quiet(0);
    bench.wait(PAUSE);
    assert_eq!(bench.kinds_sent(), [kind::lock::ACQUIRE]);
}

/// Those before the first of a packet may still be refused their grants.
#[test]
fn the_first_of_several_that_the_switch_leaves_to_an_agent_is_asked_for_alone_and_once() {
    let mut bench = Bench::new(1);
    let mut ids = Vec::new();
    bench.nodes[0].acquire_many(bench.now, &[1, 2, 3].map(want), &mut ids).expect("there is room");
    bench.collect(0);
    bench.flying.clear();
    let left = [0, 1, 2].map(|place| Entry { name: place as u64 + 1, slot: place as u32 + 1, ..entry(ids[place], 0) });
    let grant = Header { source: 0, ..header(kind::lock::GRANT) };
    let asked = |bench: &mut Bench| {
        let sent = bench.sent().into_iter();
        sent.map(|(header, entry)| (header.kind, header.count, entry.request)).collect::<Vec<_>>()
    };
    bench.tell(0, grant, &left[1..]);
    assert_eq!(asked(&mut bench), []);
    bench.tell(0, grant, &left);
    assert_eq!(asked(&mut bench), [(kind::lock::ACQUIRE, 1, ids[0].0)]);
    bench.tell(0, grant, &left);
    assert_eq!(asked(&mut bench), []);
    bench.wait(PAUSE);
    assert_eq!(asked(&mut bench), [(kind::lock::ACQUIRE, 1, ids[0].0)]);
}

#[test]
fn a_join_of_which_its_own_agent_has_not_heard_is_given_back_without_a_packet() {
    let mut bench = Bench::new(1);
    let ids = [NAME, NAME].map(|name| bench.ask(0, name, Mode::Shared));
    assert!(bench.step() && bench.step());
    assert_eq!(bench.lose(LockKind::Join as u8), 1);
    bench.run();
    ids.into_iter().for_each(|id| {
        bench.granted(0, id);
    });
    bench.release(0, ids[1]);
    assert_eq!(bench.kinds_sent(), []);
    bench.release(0, ids[0]);
    bench.run();
    assert_eq!((bench.slot(NAME).state, bench.to_controller.len()), (SlotState::Unheld, 0));
}
