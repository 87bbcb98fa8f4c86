//! What an owner asks its node for, and what it relies on while it waits, holds and lets go (docs/protocol.md, Lock
//! service).

use crate::bench::{Bench, EPOCH, LEASE, SLOTS, handle};
use wayside_protocol::{Acquire, Event, Mode, NodeConfig, Path, Priority, RequestId, Time};
use wayside_wire::{
    Entry, Header, LockKind, Policy, SlotBits, SlotState, check, entry_flag, header_flag, kind, limits,
};

const NAME: u64 = 5;
const SLOT: u32 = 5;
/// Of the same slot.
const OTHER: u64 = NAME + SLOTS as u64;
const PAUSE: u64 = 5_000;
const TENURE: u32 = 4;
const LONG: u64 = 60_000_000;

fn want(name: u64) -> Acquire {
    Acquire { name, mode: Mode::Exclusive, try_: false, priority: Priority::NORMAL, deadline: None, port: 5_000 }
}

fn header(kind: u8) -> Header {
    Header { epoch: EPOCH, kind, source: handle(1), ..Header::default() }
}

/// As an agent or the switch names a request of node 0.
fn entry(RequestId(request): RequestId, sequence: u8) -> Entry {
    let flags = entry_flag::EXCLUSIVE;
    Entry { name: NAME, request, slot: SLOT, tenure: TENURE, holder: handle(0), flags, sequence, ..Entry::default() }
}

fn several(bench: &mut Bench, wants: &[Acquire]) -> Vec<RequestId> {
    let mut ids = Vec::new();
    bench.nodes[0].acquire_many(bench.now, wants, &mut ids).expect("there is room");
    bench.collect(0);
    ids
}

/// How many names each ACQUIRE asks for that node 0 has sent.
fn asked(bench: &mut Bench) -> Vec<u8> {
    let headers = bench.flying.drain(..).map(|flying| check(&flying.packet).expect("whole"));
    let of_locks = headers.filter(|header| header.service == wayside_wire::service::LOCK);
    of_locks.filter(|header| header.kind == kind::lock::ACQUIRE).map(|header| header.count).collect()
}

/// Node 0 holds this name, granted by the switch.
fn held(bench: &mut Bench, name: u64, mode: Mode) -> RequestId {
    let id = bench.ask(0, name, mode);
    bench.run();
    bench.granted(0, id);
    id
}

/// Node 0 holds exclusively what the agent of node 1 has granted.
fn held_elsewhere(bench: &mut Bench) -> RequestId {
    let id = bench.ask(0, NAME, Mode::Exclusive);
    bench.flying.clear();
    bench.tell(0, header(kind::lock::GRANT), &[entry(id, 3)]);
    bench.granted(0, id);
    id
}

#[test]
fn several_locks_are_asked_for_in_one_packet_as_often_as_nobody_answers() {
    for count in [2, 3, 40] {
        let mut bench = Bench::with_lease(1, LONG);
        let wants: Vec<Acquire> = (0..count).map(want).collect();
        several(&mut bench, &wants);
        let expected = count.min(limits::MAX_ENTRIES as u64) as u8;
        assert_eq!(asked(&mut bench), [expected]);
        for pause in [1, 2, 4] {
            bench.wait(pause * PAUSE - 1);
            assert_eq!(asked(&mut bench), []);
            bench.wait(1);
            assert_eq!(asked(&mut bench), [expected]);
        }
    }
}

#[test]
fn several_locks_are_asked_for_again_up_to_the_first_on_which_the_node_decides_itself() {
    let mut bench = Bench::with_lease(1, LONG);
    let own = held(&mut bench, NAME, Mode::Exclusive);
    let ids = several(&mut bench, &[2, 3, NAME, 8].map(want));
    assert_eq!(asked(&mut bench), [2]);
    bench.wait(PAUSE);
    assert_eq!(asked(&mut bench), [2]);
    let _ = (own, ids);
}

#[test]
fn who_waits_for_its_own_nodes_agent_waits_no_longer_than_it_said() {
    let mut bench = Bench::new(1);
    let own = held(&mut bench, NAME, Mode::Exclusive);
    let deadline = bench.now + 20_000;
    let waits = bench.ask_with(0, Acquire { deadline: Some(deadline), ..want(NAME) });
    bench.wait(19_999);
    bench.quiet(0);
    bench.wait(1);
    assert_eq!(bench.nodes[0].event(), Some(Event::TimedOut { request: waits, over_budget: false }));
    bench.release(0, own);
    bench.run();
    bench.quiet(0);
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
}

/// A suspended agent decides on nothing.
#[test]
fn one_of_several_is_asked_of_the_switch_where_the_nodes_agent_may_not_decide() {
    let mut bench = Bench::with_lease(1, LONG);
    held(&mut bench, NAME, Mode::Exclusive);
    let question = Entry { request: 77, slot: SLOT, tenure: 9, ..Entry::default() };
    bench.tell(0, header(kind::lock::CENSUS), &[question]);
    bench.flying.clear();
    several(&mut bench, &[want(NAME)]);
    assert_eq!(asked(&mut bench), [1]);
}

#[test]
fn a_readers_hold_that_another_node_keeps_the_books_of_is_downgraded_at_once() {
    let mut bench = Bench::new(2);
    let first = bench.ask(1, NAME, Mode::Shared);
    bench.run();
    bench.granted(1, first);
    let joined = held(&mut bench, NAME, Mode::Shared);
    bench.nodes[0].downgrade(bench.now, joined);
    bench.collect(0);
    assert_eq!(bench.nodes[0].event(), Some(Event::Downgraded { request: joined }));
    assert_eq!(bench.kinds_sent(), []);
}

#[test]
fn what_its_own_agent_has_granted_a_node_downgrades_without_a_question() {
    let mut bench = Bench::new(1);
    held(&mut bench, OTHER, Mode::Exclusive);
    let second = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, second);
    bench.nodes[0].downgrade(bench.now, second);
    bench.collect(0);
    assert_eq!(bench.nodes[0].event(), Some(Event::Downgraded { request: second }));
    assert!(!bench.kinds_sent().contains(&kind::lock::DOWNGRADE));
    let modes: Vec<Mode> = bench.nodes[0].holds().filter(|hold| hold.request == second).map(|hold| hold.mode).collect();
    assert_eq!(modes, [Mode::Shared]);
}

/// However long it has waited: whoever is asked is there by now.
#[test]
fn who_gives_up_after_long_says_so_again_after_the_first_pause() {
    let mut bench = Bench::with_lease(1, LONG);
    let id = bench.ask(0, NAME, Mode::Exclusive);
    bench.wait(100 * PAUSE);
    bench.sent();
    bench.nodes[0].cancel(bench.now, id);
    bench.collect(0);
    assert_eq!(bench.kinds_sent(), [kind::lock::CANCEL]);
    bench.wait(PAUSE - 1);
    assert_eq!(bench.kinds_sent(), []);
    bench.wait(1);
    assert_eq!(bench.kinds_sent(), [kind::lock::CANCEL]);
}

#[test]
fn a_grant_of_another_nodes_agent_makes_nobody_agent_however_the_slot_is() {
    for transferred in [false, true] {
        let mut bench = Bench::new(2);
        let id = bench.ask(0, NAME, Mode::Exclusive);
        bench.flying.clear();
        let bits = SlotBits { state: SlotState::Managed, transferred, ..SlotBits::default() };
        for sequence in [3, 0] {
            bench.tell(0, header(kind::lock::GRANT), &[Entry { slot_bits: bits.to_u16(), ..entry(id, sequence) }]);
        }
        assert_eq!(bench.granted(0, id).1, Path::Agent);
        assert!(bench.nodes[0].books(SLOT).is_none());
    }
    // Nor the first grant of a tenure.
    let mut bench = Bench::new(2);
    let id = bench.ask(0, NAME, Mode::Exclusive);
    bench.flying.clear();
    let bits = SlotBits { state: SlotState::Managed, ..SlotBits::default() };
    bench.tell(0, header(kind::lock::GRANT), &[Entry { slot_bits: bits.to_u16(), ..entry(id, 0) }]);
    bench.granted(0, id);
    assert!(bench.nodes[0].books(SLOT).is_none());
}

#[test]
fn who_holds_what_another_nodes_agent_has_granted_wakes_up_for_its_session_alone() {
    let mut bench = Bench::with_lease(1, LONG);
    held_elsewhere(&mut bench);
    bench.nodes[0].on_tick(bench.now);
    let next = bench.nodes[0].next_timer().expect("heartbeats");
    assert!(next > bench.now + 2 * PAUSE, "in {} us", next.since(bench.now));
}

#[test]
fn readers_of_one_node_are_granted_in_the_order_in_which_they_came() {
    let mut bench = Bench::new(1);
    let own = held(&mut bench, NAME, Mode::Exclusive);
    let readers: Vec<RequestId> = (0..4).map(|_| bench.ask(0, NAME, Mode::Shared)).collect();
    bench.release(0, own);
    bench.run();
    for id in readers {
        assert_eq!(bench.granted(0, id).1, Path::Local);
    }
}

/// Its agent reminds holders while others wait.
#[test]
fn who_holds_is_not_told_again() {
    let mut bench = Bench::with_lease(2, LONG);
    held(&mut bench, NAME, Mode::Exclusive);
    bench.ask(1, NAME, Mode::Exclusive);
    bench.pass(5_000_000);
    bench.quiet(0);
    assert_eq!(bench.nodes[0].holds().count(), 1);
}

/// Its answer is that of the budget, for as long as others were told that it is spent.
#[test]
fn who_asks_after_another_was_refused_by_the_budget_and_runs_out_of_time_hears_that_it_was_the_budget() {
    for (later, over_budget) in [(0, true), (399_999, true), (400_000, false)] {
        let mut bench = Bench::with_lease(1, LONG);
        let first = bench.ask(0, NAME, Mode::Exclusive);
        bench.flying.clear();
        for pause in [400_000, 100_000] {
            bench.tell(0, header(kind::lock::REJECT), &[Entry { tenure: pause, ..entry(first, 0) }]);
        }
        bench.wait(later);
        let deadline = bench.now + 1_000;
        let late = bench.ask_with(0, Acquire { deadline: Some(deadline), ..want(NAME + 1) });
        bench.wait(1_000);
        assert_eq!(bench.nodes[0].event(), Some(Event::TimedOut { request: late, over_budget }));
    }
}

/// Somebody is there who answers, and the pauses begin anew.
#[test]
fn a_census_hastens_who_waits_and_puts_off_nobody() {
    for waited in [PAUSE / 2, 100 * PAUSE] {
        let mut bench = Bench::with_lease(1, LONG);
        bench.ask(0, NAME, Mode::Exclusive);
        bench.wait(waited);
        bench.sent();
        let question = Entry { request: 77, slot: SLOT, tenure: 1, ..Entry::default() };
        bench.tell(0, header(kind::lock::CENSUS), &[question]);
        bench.sent();
        let first = if waited < PAUSE { PAUSE - waited } else { PAUSE };
        for pause in [first, 2 * PAUSE] {
            bench.wait(pause - 1);
            assert_eq!(bench.kinds_sent(), [], "after {waited}");
            bench.wait(1);
            assert_eq!(bench.kinds_sent(), [kind::lock::ACQUIRE], "after {waited}");
        }
    }
}

/// One who waits behind others in `lock_many` has asked for nothing yet.
#[test]
fn a_census_hastens_nobody_whose_turn_has_not_come() {
    let mut bench = Bench::with_lease(1, LONG);
    let deadline = Some(bench.now + 300_000);
    let ids = several(&mut bench, &[want(3), Acquire { deadline, ..want(NAME) }]);
    bench.sent();
    let question = Entry { request: 77, slot: SLOT, tenure: 1, ..Entry::default() };
    bench.tell(0, header(kind::lock::CENSUS), &[question]);
    bench.sent();
    bench.wait(299_999);
    bench.quiet(0);
    bench.wait(1);
    assert_eq!(bench.nodes[0].event(), Some(Event::TimedOut { request: ids[1], over_budget: false }));
}

/// What the next agent has yet to be told of is counted from the front.
#[test]
fn who_gives_up_while_the_agency_goes_elsewhere_takes_nobody_elses_place_along() {
    let mut bench = Bench::with_lease(2, LONG);
    let first = held(&mut bench, NAME, Mode::Exclusive);
    let heir = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    let own = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    let waiting: Vec<RequestId> = (0..40)
        .map(|_| {
            let id = bench.ask(1, NAME, Mode::Exclusive);
            bench.run();
            id
        })
        .collect();
    bench.release(0, first);
    bench.nodes[0].cancel(bench.now, own);
    bench.collect(0);
    bench.run();
    for id in [heir].into_iter().chain(waiting) {
        bench.granted(1, id);
        bench.release(1, id);
        bench.run();
    }
}

/// Slots that a node keeps.
fn keeping() -> Bench {
    Bench::with(2, LEASE, Policy::Fair, &NodeConfig { kept_most: 8, ..NodeConfig::new(1) })
}

fn turn(bench: &mut Bench, name: u64, mode: Mode) {
    let id = held(bench, name, mode);
    bench.release(0, id);
    bench.run();
}

#[test]
fn what_is_taken_at_home_is_held_by_one_since_then_and_by_nobody_once_it_is_given_back() {
    let mut bench = keeping();
    turn(&mut bench, NAME, Mode::Exclusive);
    turn(&mut bench, NAME, Mode::Exclusive);
    assert_eq!((bench.nodes[0].holds().count(), bench.nodes[0].kept()), (0, 1));
    bench.now = bench.now + 700;
    let asked = bench.now;
    let first = bench.ask(0, NAME, Mode::Exclusive);
    bench.granted(0, first);
    assert_eq!(bench.nodes[0].holds().map(|hold| hold.since).collect::<Vec<Time>>(), [asked]);
    let second = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.quiet(0);
    bench.release(0, first);
    bench.run();
    bench.granted(0, second);
    bench.release(0, second);
    bench.run();
    assert_eq!((bench.nodes[0].holds().count(), bench.nodes[0].kept()), (0, 1));
}

/// A sequence is for each that holds alone: readers use up none.
#[test]
fn readers_at_home_cost_no_packet_however_many_come() {
    let mut bench = keeping();
    turn(&mut bench, NAME, Mode::Exclusive);
    let before = bench.delivered.len();
    (0..300).for_each(|_| turn(&mut bench, NAME, Mode::Shared));
    assert_eq!(bench.delivered.len(), before);
}

/// The same name twice: whoever asks so waits for itself, in turn.
#[test]
fn two_of_several_at_home_are_had_one_after_the_other() {
    let mut bench = keeping();
    turn(&mut bench, NAME, Mode::Exclusive);
    let ids = several(&mut bench, &[want(NAME), want(NAME)]);
    bench.granted(0, ids[0]);
    bench.pass(1_000);
    bench.quiet(0);
    assert_eq!(bench.nodes[0].waits().count(), 1);
    bench.release(0, ids[0]);
    bench.pass(1_000);
    bench.granted(0, ids[1]);
    bench.release(0, ids[1]);
    bench.run();
    assert_eq!(bench.nodes[0].kept(), 1);
}

/// Node 0 has freed the slot, and the switch has said so.
fn freed(bench: &mut Bench) -> u32 {
    let id = held(bench, NAME, Mode::Exclusive);
    let tenure = bench.slot(NAME).tenure;
    bench.release(0, id);
    tenure
}

#[test]
fn nothing_is_left_of_a_slot_that_was_freed_for_another_to_find() {
    let mut bench = Bench::new(2);
    freed(&mut bench);
    bench.run();
    let other = bench.ask(1, NAME + 1, Mode::Exclusive);
    bench.run();
    bench.granted(1, other);
    bench.ask_with(0, Acquire { try_: true, ..want(NAME + 1) });
    bench.run();
    assert!(matches!(bench.nodes[0].event(), Some(Event::Busy { .. })));
    assert!(bench.nodes[0].is_idle());
}

#[test]
fn who_asks_for_what_its_node_is_freeing_waits_on_when_that_is_free() {
    let mut bench = Bench::with_lease(2, LONG);
    let tenure = freed(&mut bench);
    let change = bench.sent()[0].1;
    let waits = bench.ask(0, NAME, Mode::Exclusive);
    bench.flying.clear();
    let answer = Header { flags: header_flag::APPLIED, source: 0, ..header(kind::lock::RETENURED) };
    bench.tell(0, answer, &[Entry { tenure: tenure + 1, ..change }]);
    let question = Entry { request: 77, slot: SLOT, tenure: tenure + 8, ..Entry::default() };
    bench.tell(0, header(kind::lock::CENSUS), &[question]);
    bench.flying.clear();
    bench.tell(0, header(kind::lock::GRANT), &[Entry { tenure: tenure + 8, ..entry(waits, 3) }]);
    bench.quiet(0);
    bench.tell(0, header(kind::lock::GRANT), &[Entry { tenure: tenure + 9, ..entry(waits, 3) }]);
    bench.granted(0, waits);
    assert_eq!(bench.count(LockKind::Release), 0);
}
