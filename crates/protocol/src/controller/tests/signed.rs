//! Sessions whose packets are signed.

use super::*;

#[test]
fn nobody_enrols_by_a_packet_where_packets_are_signed() {
    let mut bench = Bench::signed();
    assert_eq!(bench.enrol(7), None);
    assert!(bench.controller.sessions().next().is_none());
}

/// Each has what it would have if it had come alone: its own host's nonces are no other host's.
#[test]
fn who_asks_together_gets_secrets_of_its_own_by_one_commit() {
    let mut bench = Bench::signed();
    let asks = |nonce, admission| {
        let body = Enrol { nonce, namespace_name: padded("default").expect("short"), ..Enrol::default() };
        (applicant(admission), 0, body)
    };
    let before = bench.disk.commits.get();
    let answers = bench.controller.enrol_all(Time(0), &[asks(7, 1), asks(8, 2), asks(7, 2)]);
    assert_eq!(bench.disk.commits.get(), before + 1);
    let told = |answer: &Result<Enrolment, Refusal>| answer.as_ref().map(|e| (e.handle, e.secret)).map_err(|why| *why);
    let secret = |incarnation, nonce| Some(ROOT.of_session(incarnation, nonce));
    let told: Vec<_> = answers.iter().map(told).collect();
    assert_eq!(told, [Ok((1, secret(1, 7))), Ok((2, secret(2, 8))), Err(Refusal::Namespace)]);
}

#[test]
fn who_has_some_lifelines_makes_no_other_of_them() {
    let mut bench = Bench::signed();
    let enrolment = bench.enrol_securely(7).expect("there is room");
    assert_eq!(enrolment.lifeline, ROOT.lifeline_of_session(enrolment.incarnation, 7));
}

#[test]
fn what_a_switch_let_pass_before_it_knew_of_tags_is_ignored() {
    let mut bench = Bench::signed();
    let incarnation = bench.enrol_securely(7).expect("there is room").incarnation;
    bench.memory.epoch.set(0);
    bench.fabric(1, fabric::LEAVE, 0, incarnation);
    assert_eq!(bench.memory.node_word(1).state, NodeState::Live, "anybody may have sent that");
    bench.fabric(1, fabric::LEAVE, 0, incarnation);
    assert_eq!(bench.memory.node_word(1).state, NodeState::Expired, "this one was checked");
}

#[test]
fn a_session_without_a_secret_has_no_keys() {
    let mut bench = Bench::new();
    bench.enrol(7).expect("answered");
    bench.config.root = Some(ROOT);
    bench.restart_controller();
    assert_eq!((bench.memory.epoch(), bench.memory.authenticated()), (2, true), "nothing old is to be believed");
    assert!(bench.memory.keys.borrow().is_empty());
    assert_eq!(bench.sent(lock::CENSUS), [[0; 0]; 0], "what it is told it could not check");
}

#[test]
fn a_host_that_is_cut_off_while_the_store_fails_is_so_for_the_next_controller() {
    let mut bench = Bench::signed();
    bench.enrol_securely(1).expect("there is room");
    bench.disk.full.set(true);
    bench.controller.cut_off(Time(bench.now), |_| false);
    bench.disk.full.set(false);
    let secret = |bench: &Bench| SessionRecord::decode(&bench.disk.records.borrow()[&1]).expect("a record").secret;
    assert!(secret(&bench).is_some(), "it could not be written");
    for _ in 0..=config::STORE_PAUSE / 10_000 {
        bench.beat(1);
        bench.pass(10_000);
    }
    assert_eq!((secret(&bench), bench.memory.node_word(1).state), (None, NodeState::Live));
}

/// Its process may live and believe in its locks: they are nobody else's before its lease is over.
#[test]
fn a_host_that_is_let_in_no_more_is_cut_off_at_once_and_its_lease_runs_out() {
    let mut bench = Bench::signed();
    let (out, stays) = (bench.enrol_securely(1).expect("room"), bench.enrol_securely(2).expect("room"));
    bench.hold(5, 1, 3);
    for handle in [1, 2] {
        bench.follow(handle);
    }
    bench.pass(10_000);
    let now = Time(bench.now);
    bench.controller.cut_off(now, |admission| admission == 2);
    bench.controller.cut_off(now, |admission| admission == 2);
    let notices: Vec<Notice> = core::iter::from_fn(|| bench.controller.notice()).collect();
    assert_eq!(notices.iter().filter(|notice| **notice == Notice::CutOff(1)).count(), 1, "{notices:?}");
    assert_eq!(bench.memory.keys.borrow().keys().copied().collect::<Vec<_>>(), [2], "at the switch");
    let record = |bench: &Bench| SessionRecord::decode(&bench.disk.records.borrow()[&1]).expect("a record");
    assert_eq!(record(&bench).secret, None, "in the store");
    // Neither a restart nor time gives it keys again, and the other one keeps its own.
    bench.restart_controller();
    let left = u64::from(out.lease + out.grace) - 50_000;
    for _ in 0..left / 10_000 {
        bench.beat(2);
        bench.pass(10_000);
    }
    assert_eq!(bench.memory.node_word(1).state, NodeState::Live);
    assert_eq!((bench.slot(5).agent, bench.slot(5).tenure), (1, 3), "the slot is still its own");
    for _ in 0..20 {
        bench.beat(2);
        bench.pass(10_000);
    }
    assert_eq!(bench.memory.node_word(1).state, NodeState::Expired);
    assert!(bench.slot(5).agent != 1 || bench.slot(5).state == SlotState::Frozen, "{:?}", bench.slot(5));
    let notices: Vec<Notice> = core::iter::from_fn(|| bench.controller.notice()).collect();
    assert!(notices.contains(&Notice::Ended(1, Ending::Expired)), "{notices:?}");
    assert!(!notices.iter().any(|notice| matches!(notice, Notice::Rotated(1) | Notice::Ended(2, _))), "{notices:?}");
    bench.restart_switch();
    assert_eq!(bench.memory.keys.borrow()[&2].keys, keys_of(&stays, 2, 0));
    assert_eq!(bench.memory.keys.borrow().len(), 1);
}
