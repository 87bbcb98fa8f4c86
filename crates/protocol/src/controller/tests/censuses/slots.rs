//! Many slots at a time, when what is said again, and what becomes of reports of those who died since.

use super::*;

/// Of a tick while nobody hurries.
const TICK: u64 = 10_000;

/// Slots from 0 to below this are held by node 3, which is dead.
fn many(slots: u32) -> Bench {
    let mut bench = Bench::new();
    for nonce in 1..=3 {
        bench.enrol(nonce);
    }
    bench.memory.more_slots.set(slots.saturating_sub(SLOTS));
    (0..slots).for_each(|slot| bench.hold(slot, 3, 5));
    bench.notices();
    bench.controller.closed(Time(bench.now), 3);
    bench.pass(TICK);
    bench
}

#[test]
fn so_many_slots_have_a_census_at_a_time_and_the_next_have_theirs_when_one_is_over() {
    const AT_ONCE: u32 = 64 * 32;
    for is_held in [true, false] {
        let mut bench = many(AT_ONCE + 1);
        assert_eq!(bench.controller.recovering(), (AT_ONCE as usize, 1));
        let frozen = bench.notices().iter().filter(|notice| matches!(notice, Notice::Frozen(1, _))).count();
        assert_eq!((frozen, bench.slot(AT_ONCE).state), (AT_ONCE as usize, SlotState::Managed));
        let censuses = bench.sent(lock::CENSUS);
        assert_eq!(censuses.len(), 2 * 64, "a packet to each node");
        if !is_held {
            bench.memory.slots.borrow_mut().insert(AT_ONCE, SlotWord::unheld(6));
        }
        let about = Entry::read(&censuses[0], BODY);
        bench.lock(1, lock::REPORT, LAST, 0, &[about]);
        assert_eq!(bench.sent(lock::CENSUS), [[0; 0]; 0], "node 2 has not reported");
        bench.lock(2, lock::REPORT, LAST, 0, &[about]);
        let next: Vec<u32> =
            bench.sent(lock::CENSUS).iter().flat_map(|census| entries(census).map(|entry| entry.slot)).collect();
        assert_eq!(next, if is_held { vec![AT_ONCE; 2] } else { vec![] }, "nobody is asked about nothing");
        assert_eq!(bench.controller.recovering(), (AT_ONCE as usize - 32 + usize::from(is_held), 0));
    }
}

/// So long the post of a switch with standbys is not renewed.
#[test]
fn slots_that_nobody_has_to_be_asked_about_are_freed_so_many_in_one_go() {
    const AT_ONCE: u32 = 8 * 64 * 32;
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.memory.more_slots.set(AT_ONCE);
    (0..AT_ONCE + SLOTS).for_each(|slot| bench.hold(slot, 1, 5));
    bench.controller.closed(Time(bench.now), 1);
    let freed = |bench: &Bench| (0..AT_ONCE + SLOTS).filter(|slot| bench.slot(*slot) == SlotWord::unheld(7)).count();
    for expected in [AT_ONCE, AT_ONCE + SLOTS] {
        bench.now = bench.controller.next_timer().0;
        bench.controller.on_tick(Time(bench.now));
        assert_eq!(freed(&bench), expected as usize);
    }
}

#[test]
fn what_an_heir_does_not_answer_is_said_again_after_a_pause_and_not_before() {
    let (mut bench, about) = asked();
    bench.lock(1, lock::REPORT, LAST, 0, &[about, held(9, 1)]);
    bench.lock(2, lock::REPORT, LAST, 0, &[about]);
    assert_eq!(adopted(&mut bench).0, [1]);
    bench.live(&[1, 2], config().retransmit - TICK);
    assert_eq!(adopted(&mut bench).0, []);
    bench.live(&[1, 2], 2 * TICK);
    assert_eq!(adopted(&mut bench).0, [1]);
}

#[test]
fn who_reports_page_by_page_is_asked_again_a_pause_after_the_latest() {
    let (mut bench, about) = asked();
    bench.live(&[1, 2], config().retransmit - TICK);
    bench.lock(2, lock::REPORT, LAST, 0, &[about]);
    bench.lock(1, lock::REPORT, 0, 0, &[about, held(9, 1)]);
    let pages = |bench: &mut Bench| -> Vec<u16> {
        bench.sent(lock::CENSUS).iter().map(|packet| check(packet).unwrap().position).collect()
    };
    let next: Vec<u16> = (1..=16).collect();
    assert_eq!(pages(&mut bench), next);
    bench.live(&[1, 2], config().retransmit - TICK);
    assert_eq!(pages(&mut bench), []);
    bench.live(&[1, 2], 2 * TICK);
    assert_eq!(pages(&mut bench), next);
}

#[test]
fn an_heir_gets_so_many_pages_at_a_time_and_one_more_for_each_that_it_has() {
    let (mut bench, about) = asked();
    report_many(&mut bench, about, 540);
    bench.lock(2, lock::REPORT, LAST, 0, &[about]);
    let pages = |bench: &mut Bench| -> Vec<u16> {
        bench.sent(lock::ADOPT).iter().map(|packet| check(packet).unwrap().position).collect()
    };
    assert_eq!(pages(&mut bench), (0..16).collect::<Vec<_>>());
    for (page, next) in [(0, vec![16]), (0, vec![]), (17, vec![]), (5, vec![17])] {
        bench.lock(1, lock::ADOPTED, 0, page, &[about]);
        assert_eq!(pages(&mut bench), next, "{page}");
    }
}

#[test]
fn what_was_agent_when_it_reported_and_died_since_inherits_nothing() {
    let (mut bench, about) = asked();
    bench.lock(1, lock::REPORT, LAST, 0, &[about, agency(9, 5)]);
    bench.controller.closed(Time(bench.now), 1);
    bench.lock(2, lock::REPORT, LAST, 0, &[about, held(9, 2)]);
    assert_eq!(adopted(&mut bench).0, [2]);
    // All slots at once, after a restart.
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.enrol(2);
    bench.restart_switch();
    let about = Entry::read(&bench.sent(lock::CENSUS).pop().expect("asked"), BODY);
    bench.lock(1, lock::REPORT, LAST, 0, &[about, agency(9, 5)]);
    bench.controller.closed(Time(bench.now), 1);
    bench.lock(2, lock::REPORT, LAST, 0, &[about, held(9, 2)]);
    assert_eq!(adopted(&mut bench).0, [2]);
    assert_eq!(bench.slot(9).agent, 2);
}

/// Its node knows nothing of that census, and may be of another namespace: it would be waited for in vain.
#[test]
fn who_is_given_the_handle_of_one_that_has_reported_inherits_nothing() {
    let mut bench = Bench::with(Config { quarantine: config().poll_period, ..config() });
    for nonce in 1..=3 {
        bench.enrol(nonce);
    }
    bench.hold(9, 3, 5);
    bench.controller.closed(Time(bench.now), 3);
    bench.pass(config().poll_period);
    let about = Entry { request: Bench::id_of(&bench.sent(lock::CENSUS).pop().expect("asked")), ..agency(9, 0) };
    bench.lock(1, lock::REPORT, LAST, 0, &[about, agency(9, 5), held(9, 1)]);
    bench.controller.closed(Time(bench.now), 1);
    for dead in [1, 3] {
        bench.fabric(2, fabric::DOWN_ACK, dead, dead.into());
    }
    // Node 2 takes so long to report that others begin.
    bench.live(&[2], 10 * config().poll_period);
    let begun = [4, 5].map(|nonce| bench.enrol(nonce).expect("answered").0.destination);
    assert_eq!(begun, [1, 3]);
    assert_eq!(bench.controller.recovery.reported_by(1), 0, "the former one's");
    bench.sent(0);
    bench.lock(2, lock::REPORT, LAST, 0, &[about]);
    assert_eq!((adopted(&mut bench).0, bench.slot(9)), (vec![], SlotWord::unheld(7)));
}

/// What it held is waited for until it has been swept, which takes a switch that serves.
#[test]
fn no_handle_is_given_again_while_all_slots_are_asked_about() {
    let mut bench = Bench::with(Config { quarantine: config().poll_period, ..config() });
    for nonce in 1..=3 {
        bench.enrol(nonce);
    }
    bench.restart_switch();
    let about = Entry::read(&bench.sent(lock::CENSUS).pop().expect("asked"), BODY);
    bench.lock(1, lock::REPORT, LAST, 0, &[about, agency(9, 5)]);
    bench.controller.closed(Time(bench.now), 1);
    for node in [2, 3] {
        bench.fabric(node, fabric::DOWN_ACK, 1, 1);
    }
    bench.live(&[2, 3], 10 * config().poll_period);
    assert_eq!(bench.enrol(4).expect("answered").1.reason, Refusal::Full as u8);
    for node in [2, 3] {
        bench.lock(node, lock::REPORT, LAST, 0, &[about]);
    }
    assert_eq!((adopted(&mut bench).0, bench.memory.serving()), (vec![], true));
    bench.live(&[2, 3], 10 * config().poll_period);
    assert_eq!(bench.enrol(4).expect("answered").0.destination, 1);
}

/// Neighbours are mostly of one session, and are not all asked after.
#[test]
fn of_the_holds_of_a_node_those_of_its_earlier_process_are_nobodys() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.enrol(2);
    bench.restart_switch();
    let about = Entry::read(&bench.sent(lock::CENSUS).pop().expect("asked"), BODY);
    let about = Entry { flags: entry_flag::AGENCY, ..about };
    let former = |slot| Entry { request: 7 << 40 | 1, ..held(slot, 1) };
    bench.lock(1, lock::REPORT, LAST, 0, &[about, held(3, 1), former(4), former(5), held(6, 1), former(8)]);
    bench.lock(2, lock::REPORT, LAST, 0, &[about, held(7, 2), held(9, 2)]);
    for node in [1, 2] {
        bench.lock(node, lock::ADOPTED, 0, 0, &[about]);
    }
    assert!(bench.memory.serving());
    assert_eq!([3, 4, 5, 6, 7, 8, 9].map(|slot| bench.slot(slot).agent), [1, 0, 0, 1, 2, 0, 2]);
}

#[test]
fn a_slot_that_was_recovered_may_be_recovered_again() {
    let (mut bench, about) = asked();
    assert_eq!(bench.controller.recovering(), (1, 0));
    bench.lock(1, lock::REPORT, LAST, 0, &[about]);
    bench.lock(2, lock::REPORT, LAST, 0, &[about, held(9, 2)]);
    bench.lock(2, lock::ADOPTED, 0, 0, &[about]);
    assert_eq!((bench.controller.recovering(), bench.slot(9).tenure), ((0, 0), 7));
    bench.lock(2, lock::GAP, 0, 0, &[Entry { slot: 9, tenure: 7, ..Entry::default() }]);
    assert_eq!((bench.controller.recovering(), bench.slot(9).state), ((1, 0), SlotState::Frozen));
}

#[test]
fn nobody_misses_anything_while_all_slots_are_asked_about() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.restart_switch();
    bench.hold(9, 1, 5);
    bench.lock(1, lock::GAP, 0, 0, &[Entry { slot: 9, tenure: 5, ..Entry::default() }]);
    assert_eq!((bench.controller.recovering(), bench.slot(9).state), ((0, 0), SlotState::Managed));
}

#[test]
fn who_finds_a_slot_at_its_last_tenure_has_the_epoch_raised_at_once() {
    let mut bench = Bench::new();
    bench.enrol(1);
    for (tenure, epoch) in [(limits::MAX_TENURE - 1, 1), (limits::MAX_TENURE, 2)] {
        bench.memory.slots.borrow_mut().insert(9, SlotWord::unheld(tenure));
        bench.lock(1, lock::GAP, 0, 0, &[Entry { slot: 9, tenure, ..Entry::default() }]);
        assert_eq!(bench.memory.epoch(), epoch);
    }
}

#[test]
fn who_has_a_long_lease_is_asked_for_as_long_before_it_is_dismissed() {
    let mut bench = Bench::with(Config { shortest_grace: 1_000_000, ..config() });
    let name = padded("default").expect("short");
    let body = Enrol { nonce: 1, namespace_name: name, lease_us: 2_000_000, ..Enrol::default() };
    bench.controller.enrol(Time(bench.now), applicant(0), 0, &body).expect("there is room");
    bench.restart_switch();
    bench.live(&[1], 3_000_000);
    assert_eq!(bench.memory.node_word(1).state, NodeState::Live);
    bench.live(&[1], 3 * config().retransmit);
    assert_eq!(bench.memory.node_word(1).state, NodeState::Dismissed);
}

/// One tick after another, and then a pass over all slots.
#[test]
fn nothing_is_waited_for_while_slots_are_written() {
    let mut bench = Bench::with(Config { slots_per_tick: 1, ..config() });
    bench.enrol(1);
    bench.enrol(2);
    // Slots of the dead are looked for, which hurries less.
    bench.controller.closed(Time(bench.now), 2);
    bench.restart_switch();
    bench.report(1, 0, LAST);
    let mut ticks = 0;
    while bench.controller.next_timer() == Time(bench.now) {
        bench.controller.on_tick(Time(bench.now));
        ticks += 1;
    }
    assert_eq!(ticks, SLOTS / 4 - 1, "four slots at a time, the first when all have reported");
    let adopt = Entry::read(&bench.sent(lock::ADOPT).pop().expect("an heir"), BODY);
    bench.lock(1, lock::ADOPTED, 0, 0, &[adopt]);
    assert!(bench.memory.serving());
}

#[test]
fn all_slots_are_looked_at_in_a_hurry_when_the_switch_serves_again() {
    let mut bench = Bench::with(Config { slots_per_tick: 1, ..config() });
    bench.enrol(1);
    bench.live(&[1], 400_000);
    bench.restart_switch();
    bench.report(1, 0, LAST);
    while bench.controller.next_timer() == Time(bench.now) {
        bench.controller.on_tick(Time(bench.now));
    }
    let adopt = Entry::read(&bench.sent(lock::ADOPT).pop().expect("an heir"), BODY);
    bench.lock(1, lock::ADOPTED, 0, 0, &[adopt]);
    assert!(bench.memory.serving());
    let tick = bench.controller.next_timer();
    bench.controller.on_tick(tick);
    assert_eq!(bench.controller.next_timer(), tick + 1_000);
}

/// It has acknowledged that death before it had these books, and slots of the dead are still looked for.
#[test]
fn an_heir_hears_again_of_a_death_that_it_has_just_acknowledged() {
    let (mut bench, about) = asked();
    bench.lock(1, lock::REPORT, LAST, 0, &[about, held(9, 1)]);
    bench.lock(2, lock::REPORT, LAST, 0, &[about, held(9, 2)]);
    bench.controller.closed(Time(bench.now), 2);
    bench.fabric(1, fabric::DOWN_ACK, 2, 2);
    bench.sent(0);
    bench.lock(1, lock::ADOPTED, 0, 0, &[about]);
    bench.live(&[1], 2 * TICK);
    let downs = bench.sent(fabric::DOWN);
    assert!(downs.iter().any(|down| check(down).unwrap().position == 2), "at once");
}
