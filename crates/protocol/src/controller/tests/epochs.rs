//! What a controller finds when it begins, at a switch that goes on or under another epoch.

use super::*;

#[test]
fn nothing_is_decided_on_in_an_epoch_before_all_have_reported() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.hold(9, 1, 5);
    bench.live(&[1], config().poll_period);
    bench.notices();
    let beats = bench.memory.node_word(1).sequence;
    bench.memory.slots.borrow_mut().insert(3, SlotWord::unheld(limits::MAX_TENURE));
    bench.pass(config().poll_period);
    assert_eq!((bench.memory.epoch(), bench.memory.serving()), (2, false), "node 1 has not reported");
    assert_eq!(bench.notices(), [Notice::EpochRaised(2)]);
    assert_eq!(bench.memory.node_word(1).sequence, beats, "the switch knows its session still");
    bench.report(1, 0, wayside_wire::header_flag::LAST);
    let adopt = Entry::read(&bench.sent(lock::ADOPT).pop().expect("an heir"), BODY);
    bench.lock(1, lock::ADOPTED, 0, 0, &[adopt]);
    assert!(bench.memory.serving());
    assert_eq!(bench.notices(), [Notice::Serving(2)]);
}

/// A processor that began on a packet of the epoch before, and was stopped: it would free a slot that is granted in the
/// next epoch at the same tenure.
#[test]
fn no_slot_is_written_for_an_epoch_while_something_of_the_epoch_before_is_decided_on() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.hold(9, 1, 5);
    bench.memory.slots.borrow_mut().insert(3, SlotWord::unheld(limits::MAX_TENURE));
    bench.memory.awaited.borrow_mut().clear();
    let before = bench.memory.slots.borrow().clone();
    bench.pass(config().poll_period);
    assert_eq!(*bench.memory.awaited.borrow(), [(2, before.clone())]);
    bench.report(1, 0, wayside_wire::header_flag::LAST);
    assert_ne!(*bench.memory.slots.borrow(), before, "then they are");
    assert_eq!(bench.memory.awaited.borrow().len(), 1);
}

#[test]
fn a_session_that_ends_lets_no_switch_serve_whose_controller_died_over_its_epoch() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.enrol(2);
    bench.restart_switch();
    assert_eq!((bench.memory.epoch(), bench.memory.serving()), (2, false), "nobody has reported");
    bench.controller =
        Controller::new(bench.config.clone(), bench.memory.clone(), bench.disk.clone()).expect("its own store loads");
    bench.controller.closed(Time(bench.now), 2);
    assert!(!bench.memory.serving(), "node 1 has not reported");
    bench.pass(0);
    assert_eq!((bench.memory.epoch(), bench.memory.serving()), (3, false));
}

#[test]
fn nothing_is_decided_on_while_the_sessions_are_written() {
    let mut bench = Bench::new();
    bench.enrol(1);
    assert_eq!(bench.memory.written_in.get(), 1);
    // Of the time of another switch.
    bench.memory.epoch.set(9);
    bench.pass(config().poll_period);
    assert_eq!((bench.memory.epoch(), bench.memory.written_in.get()), (10, 0));
}

#[test]
fn an_epoch_that_no_token_has_room_for_is_not_begun() {
    for (first, epoch) in [(limits::MAX_EPOCH - 1, limits::MAX_EPOCH), (limits::MAX_EPOCH, 0)] {
        let mut bench = Bench::with(Config { first_epoch: first, ..config() });
        assert_eq!((bench.memory.epoch(), bench.memory.serving()), (epoch, epoch != 0));
        let fails = bench.notices().iter().any(|notice| matches!(notice, Notice::StoreFailed(_)));
        assert_eq!(fails, epoch == 0);
    }
}

#[test]
fn the_next_controller_tells_of_every_end_again() {
    let mut bench = Bench::new();
    for nonce in 1..=3 {
        bench.enrol(nonce);
    }
    bench.controller.closed(Time(bench.now), 1);
    assert_eq!(bench.memory.overs.borrow().get(&1), Some(&Some(1)), "at the switch");
    for node in [2, 3] {
        bench.fabric(node, fabric::DOWN_ACK, 1, 1);
    }
    bench.live(&[2, 3], 5 * config().poll_period);
    bench.controller.closed(Time(bench.now), 2);
    bench.memory.overs.borrow_mut().clear();
    bench.sent(0);
    bench.restart_controller();
    assert_eq!(bench.notices(), [Notice::Serving(1)]);
    let overs = bench.memory.overs.borrow().clone();
    assert_eq!(overs, BTreeMap::from([(1, Some(1)), (2, Some(2))]), "the one at rest and the other");
    bench.live(&[3], config().retransmit);
    let downs: Vec<Header> = bench.sent(fabric::DOWN).iter().map(|down| check(down).unwrap()).collect();
    assert!(!downs.is_empty() && downs.iter().all(|down| (down.destination, down.position) == (3, 2)));
}

/// Nobody knows how long it had rested.
#[test]
fn a_handle_rests_anew_from_when_a_controller_begins() {
    let mut bench = Bench::new();
    for nonce in 1..=3 {
        bench.enrol(nonce);
    }
    for handle in 1..=3 {
        bench.controller.closed(Time(bench.now), handle);
    }
    bench.pass(config().quarantine / 2);
    bench.restart_controller();
    bench.pass(config().quarantine - 1);
    assert_eq!(bench.enrol(4).expect("answered").1.reason, Refusal::Full as u8);
    bench.pass(1);
    assert_eq!(bench.enrol(4).expect("answered").1.incarnation, 4);
}

#[test]
fn sessions_that_no_record_speaks_of_are_over_and_those_that_no_word_speaks_of_begin() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.enrol(2);
    // The records of 3 are lost, and the word of 2 was not written yet.
    bench.memory.words.borrow_mut().insert(3, NodeWord { state: NodeState::Expired, sequence: 4 });
    bench.memory.words.borrow_mut().remove(&2);
    bench.restart_controller();
    assert_eq!(bench.memory.overs.borrow().clone(), BTreeMap::from([(3, None)]));
    assert_eq!(bench.memory.node_word(2).state, NodeState::Live);
    assert_eq!(bench.notices(), [Notice::Enrolled(2), Notice::Serving(1)]);
}

#[test]
fn keys_are_changed_a_period_after_a_session_or_a_controller_begins() {
    let mut bench = Bench::signed();
    bench.pass(900_000);
    bench.enrol_securely(1).expect("there is room");
    let lives = |bench: &mut Bench, micros: u64| {
        for _ in 0..micros / 50_000 {
            bench.follow(1);
            bench.pass(50_000);
        }
        bench.memory.rotation(1)
    };
    assert_eq!(lives(&mut bench, 900_000), 0);
    bench.restart_controller();
    assert_eq!(lives(&mut bench, 900_000), 0);
    bench.notices();
    assert_eq!(lives(&mut bench, 150_000), 1);
    assert_eq!(bench.notices(), [Notice::Rotated(1)]);
    let mut bench = Bench::with(Config { root: Some(ROOT), rotation_period: 0, ..config() });
    bench.enrol_securely(1).expect("there is room");
    assert_eq!(lives(&mut bench, 900_000), 0, "never");
}

/// Nodes and controllers tell censuses by them: a later one has a higher number, of whichever controller it is.
#[test]
fn what_is_asked_for_has_a_higher_number_each_time_and_with_each_controller() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.enrol(2);
    let mut ids = Vec::new();
    let asked = |bench: &mut Bench| bench.sent(lock::CENSUS).iter().map(|census| Bench::id_of(census)).max();
    for _ in 0..2 {
        for _ in 0..2 {
            bench.sent(0);
            bench.restart_switch();
            ids.push(asked(&mut bench).expect("a census"));
        }
        bench.restart_controller();
    }
    assert!(ids.is_sorted() && ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
}

#[test]
fn a_store_that_fails_is_told_of() {
    let mut bench = Bench::new();
    bench.notices();
    bench.disk.full.set(true);
    bench.enrol(1);
    assert!(bench.notices().iter().any(|notice| matches!(notice, Notice::StoreFailed(_))));
}

/// So that a node hears if it has another list than the switch, or another engine.
#[test]
fn who_is_asked_about_all_slots_is_told_what_is_listed_there_and_how_locks_are_decided_on() {
    let mut hybrid = config();
    let first = hybrid.namespaces[0].clone();
    hybrid.namespaces.extend([(2, "two", &[7, 9][..]), (3, "three", &[8])].map(|(id, name, listed)| {
        let names = crate::Names::new(listed.iter().copied()).expect("few");
        Namespace { id, name: name.to_string(), engine: Engine::Hybrid, names, ..first.clone() }
    }));
    let prints = [0, hybrid.namespaces[1].names.fingerprint(), hybrid.namespaces[2].names.fingerprint()];
    let mut bench = Bench::with(hybrid);
    bench.memory.more_namespaces.set(2);
    bench.memory.more_handles.set(10);
    for (nonce, name) in (1..).zip(["default", "two", "three"]) {
        let body = Enrol { nonce, namespace_name: padded(name).expect("short"), ..Enrol::default() };
        bench.controller.enrol(Time(bench.now), applicant(0), 0, &body).expect("there is room");
    }
    bench.restart_switch();
    let asked = bench.sent(lock::CENSUS).into_iter().map(|census| {
        let about = Entry::read(&census, BODY);
        (check(&census).unwrap().namespace, about.slot, about.sequence, about.name)
    });
    let engines = [Engine::Fission, Engine::Hybrid, Engine::Hybrid].map(|engine| engine as u8);
    let expected = [0, 1, 2].map(|at| (at as u16 + 1, limits::ALL_SLOTS, engines[at], prints[at]));
    assert_eq!(asked.collect::<Vec<_>>(), expected);
    assert!(prints[1] != 0 && prints[2] != prints[1]);
}

#[test]
fn a_controller_that_begins_does_not_go_on_under_an_epoch_that_it_does_not_know() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.memory.epoch.set(9);
    bench.restart_controller();
    assert_eq!((bench.memory.epoch(), bench.memory.serving()), (10, false));
    assert_eq!(bench.notices(), [Notice::EpochRaised(10)], "not for a moment");
}

/// What was looked at before is of another epoch, and its pass would only be waited for.
#[test]
fn the_pass_over_all_slots_begins_anew_with_an_epoch() {
    let mut bench = Bench::with(Config { slots_per_tick: 4, ..config() });
    bench.enrol(1);
    bench.live(&[1], 1_000_000);
    let tick = |bench: &mut Bench| {
        bench.beat(1);
        bench.now = bench.controller.next_timer().0;
        bench.controller.on_tick(Time(bench.now));
    };
    // In the middle of a pass.
    bench.restart_controller();
    (0..8).for_each(|_| tick(&mut bench));
    bench.restart_switch();
    bench.report(1, 0, wayside_wire::header_flag::LAST);
    while bench.controller.next_timer() == Time(bench.now) {
        bench.controller.on_tick(Time(bench.now));
    }
    let adopt = Entry::read(&bench.sent(lock::ADOPT).pop().expect("an heir"), BODY);
    bench.lock(1, lock::ADOPTED, 0, 0, &[adopt]);
    assert!(bench.memory.serving());
    let mut ticks = 0;
    tick(&mut bench);
    while bench.controller.next_timer() == Time(bench.now + 1_000) {
        tick(&mut bench);
        ticks += 1;
    }
    assert_eq!(ticks, SLOTS / 4, "one tick after another, until every slot has been looked at once");
}
