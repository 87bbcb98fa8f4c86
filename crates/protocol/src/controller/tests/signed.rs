//! Sessions whose packets are signed.

use super::*;

#[test]
fn nobody_enrols_by_a_packet_where_packets_are_signed() {
    let mut bench = Bench::signed();
    assert_eq!(bench.enrol(7), None);
    assert!(bench.controller.sessions().next().is_none());
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
