//! A session from its beginning until its handle rests, and who is told what of it.

use super::*;

fn stage(bench: &Bench, handle: u32) -> Stage {
    SessionRecord::decode(&bench.disk.records.borrow()[&handle]).expect("its own record").stage
}

#[test]
fn what_becomes_of_sessions_is_told_in_its_order() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.enrol(2);
    let clean = Header {
        service: service::FABRIC,
        kind: fabric::LEAVE,
        flags: wayside_wire::header_flag::CLEAN,
        ..Header::default()
    };
    let body = Heartbeat { incarnation: 1, ..Heartbeat::default() };
    bench.receive(1, clean, |packet| body.write(packet, BODY), Heartbeat::BYTES);
    for _ in 0..2 {
        bench.fabric(2, fabric::LEAVE, 0, 2);
    }
    let begun = [Notice::EpochRaised(1), Notice::Serving(1), Notice::Enrolled(1), Notice::Enrolled(2)];
    let ended = [Notice::Ended(1, Ending::LeftClean), Notice::Ended(2, Ending::Left)];
    assert_eq!(bench.notices(), [&begun[..], &ended].concat());
}

#[test]
fn a_session_that_begins_late_has_its_whole_lease() {
    let mut bench = Bench::new();
    bench.pass(1_000_000);
    bench.enrol(1);
    bench.pass(LEASE.into());
    assert_eq!(bench.memory.node_word(1).state, NodeState::Live);
}

#[test]
fn a_session_is_known_by_its_lifeline_while_it_lives() {
    let mut bench = Bench::new();
    let [first, second, third] = [1, 2, 3].map(|nonce| Some(bench.enrol(nonce).expect("there is room").1.lifeline));
    let known = |bench: &Bench| [0, 1, 2, 3].map(|handle| bench.controller.lifeline_of(handle));
    assert_eq!(known(&bench), [None, first, second, third]);
    bench.controller.closed(Time(bench.now), 2);
    assert_eq!(known(&bench), [None, first, None, third]);
    let incarnations: Vec<Option<u64>> = (0..4).map(|handle| bench.controller.incarnation_of(handle)).collect();
    let told: Vec<Option<u64>> = [1, 2, 3].map(|nonce| bench.enrol(nonce).map(|(_, body)| body.incarnation)).into();
    assert_eq!(incarnations[0], None);
    assert!(incarnations[2].is_some(), "of one that is over, too");
    assert_eq!((incarnations[1], incarnations[3]), (told[0], told[2]));
    let live: Vec<bool> = bench.controller.sessions().map(|session| session.seen.is_some()).collect();
    assert_eq!(live, [true, false, true]);
}

/// A late copy of the ENROL that began the former session must not be answered with the present one's.
#[test]
fn who_had_a_handle_before_is_not_taken_for_who_has_it() {
    let mut bench = Bench::new();
    for nonce in 1..=3 {
        bench.enrol(nonce);
    }
    bench.controller.closed(Time(bench.now), 1);
    for node in [2, 3] {
        bench.fabric(node, fabric::DOWN_ACK, 1, 1);
    }
    bench.live(&[2, 3], config().quarantine + config().poll_period);
    assert_eq!(bench.enrol(4).expect("there is room").0.destination, 1);
    let (header, body) = bench.enrol(1).expect("answered");
    assert_ne!(header.flags & wayside_wire::header_flag::REFUSED, 0);
    assert_eq!(body.reason, Refusal::Full as u8);
}

#[test]
fn a_death_is_told_once_a_pause_until_its_incarnation_is_acknowledged() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.enrol(2);
    bench.controller.closed(Time(bench.now), 1);
    bench.sent(0);
    bench.fabric(2, fabric::DOWN_ACK, 1, 9);
    // After one pause, two more, and four.
    bench.live(&[2], 10 * config().retransmit);
    assert_eq!(bench.sent(fabric::DOWN).len(), 3);
    bench.fabric(2, fabric::DOWN_ACK, 1, 1);
    bench.live(&[2], 20 * config().retransmit);
    assert_eq!(bench.sent(fabric::DOWN).len(), 0);
}

/// A store elsewhere takes its time for each commit, in which nothing else is done.
#[test]
fn lifelines_that_close_together_take_one_commit() {
    let mut bench = Bench::new();
    for nonce in 1..=3 {
        bench.enrol(nonce);
    }
    let before = bench.disk.commits.get();
    bench.controller.closed_together(Time(bench.now), &[1, 3, 1]);
    assert_eq!(bench.disk.commits.get() - before, 1);
    assert_eq!([1, 2, 3].map(|handle| stage(&bench, handle)), [Stage::Mourned, Stage::Live, Stage::Mourned]);
    let told: Vec<(u16, u16)> = bench
        .sent(fabric::DOWN)
        .iter()
        .map(|down| check(down).unwrap())
        .map(|down| (down.destination, down.position))
        .collect();
    assert_eq!(told, [(2, 1), (2, 3)], "the dead hear nothing");
}

/// The whole of it may be more than the store can do in the time that there is, for ever.
#[test]
fn ends_that_are_too_many_for_the_store_at_once_are_written_part_by_part() {
    let mut bench = Bench::new();
    let ends: Vec<Record> = (1_000..1_250).map(|key| (key, vec![7])).collect();
    bench.disk.most.set(Some(100));
    bench.disk.full.set(true);
    bench.controller.write_down(Time(bench.now), ends);
    assert_eq!(bench.controller.unwritten.len(), 250);
    bench.disk.full.set(false);
    bench.pass(config::STORE_PAUSE + 10 * config().poll_period);
    assert!(bench.controller.unwritten.is_empty());
    assert_eq!(bench.disk.records.borrow().range(1_000..1_250).count(), 250);
}

#[test]
fn who_is_known_to_be_dead_by_all_who_live_rests() {
    let mut bench = Bench::new();
    for nonce in 1..=3 {
        bench.enrol(nonce);
    }
    bench.controller.closed(Time(bench.now), 1);
    bench.fabric(2, fabric::DOWN_ACK, 1, 1);
    bench.live(&[2, 3], 5 * config().poll_period);
    assert_eq!(stage(&bench, 1), Stage::Mourned, "3 does not know");
    bench.controller.closed(Time(bench.now), 3);
    bench.live(&[2], 5 * config().poll_period);
    assert_eq!((stage(&bench, 1), stage(&bench, 3)), (Stage::AtRest, Stage::Mourned), "the dead hear nothing");
    bench.restart_controller();
    bench.sent(0);
    bench.live(&[2], config().retransmit);
    let told: Vec<u16> = bench.sent(fabric::DOWN).iter().map(|down| check(down).unwrap().position).collect();
    assert!(!told.is_empty() && told.iter().all(|dead| *dead == 3), "{told:?}");
}
