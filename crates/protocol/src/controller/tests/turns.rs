//! Nodes are asked whether they would follow, and told where to go (`turns.rs`).

use super::*;

/// TURNs since the last call: to whom, and which.
fn turns(bench: &mut Bench) -> Vec<(Handle, u64)> {
    let of = |packet: &Vec<u8>| (check(packet).unwrap().destination, Heartbeat::read(packet, BODY).sequence);
    bench.sent(fabric::TURN).iter().map(of).collect()
}

fn acknowledge(bench: &mut Bench, node: Handle, incarnation: u64, sequence: u64) {
    let body = Heartbeat { incarnation, sequence, ..Heartbeat::default() };
    let header = Header { service: service::FABRIC, kind: fabric::TURN_ACK, ..Header::default() };
    bench.receive(node, header, |packet| body.write(packet, BODY), Heartbeat::BYTES);
}

/// Nodes 1 and 2 begin sessions.
fn both_live(bench: &mut Bench) {
    for nonce in 1..=2 {
        bench.enrol(nonce).expect("there is room");
    }
}

/// To the next time that anybody is told again.
fn pause(bench: &mut Bench) {
    bench.now += config().retransmit;
    bench.controller.on_tick(Time(bench.now));
}

#[test]
fn whoever_lives_is_asked_until_it_says_that_it_would_follow() {
    let mut bench = Bench::new();
    both_live(&mut bench);
    bench.sent(0);
    let now = Time(bench.now);
    bench.controller.ask_for_turns(now);
    assert_eq!(turns(&mut bench), [(1, 0), (2, 0)], "at once");
    acknowledge(&mut bench, 1, 1, 0);
    // Others', or answers to something else.
    acknowledge(&mut bench, 2, 1, 0);
    acknowledge(&mut bench, 2, 2, 9);
    // That he lives does not say that he knows turns.
    bench.beat(2);
    pause(&mut bench);
    assert_eq!(turns(&mut bench), [(2, 0)]);
    assert!(!bench.controller.all_know_turns(Time(bench.now)));
    bench.enrol_securely(3).expect("there is room");
    bench.now += config().poll_period;
    bench.controller.on_tick(Time(bench.now));
    assert_eq!(turns(&mut bench), [(2, 0), (3, 0)], "who comes meanwhile, at the next look");
    acknowledge(&mut bench, 2, 2, 0);
    assert!(!bench.controller.all_know_turns(Time(bench.now)));
    acknowledge(&mut bench, 3, 3, 0);
    assert!(bench.controller.all_know_turns(Time(bench.now)));
    pause(&mut bench);
    assert_eq!(turns(&mut bench), []);
    assert!(bench.controller.all_know_turns(Time(bench.now)), "once is enough");
}

#[test]
fn the_dead_are_not_asked() {
    let mut bench = Bench::new();
    both_live(&mut bench);
    bench.controller.ask_for_turns(Time(bench.now));
    bench.controller.closed(Time(bench.now), 1);
    turns(&mut bench);
    pause(&mut bench);
    assert_eq!(turns(&mut bench), [(2, 0)]);
}

/// Whose heartbeat has come here knows it, and who begins a session here does.
#[test]
fn a_turn_is_told_to_whoever_lived_before_it_until_it_answers_or_is_here() {
    let mut bench = Bench::new();
    both_live(&mut bench);
    bench.sent(0);
    bench.controller.tell_turn(Time(bench.now));
    assert_eq!(turns(&mut bench), [], "of a switch that stands by for nobody there is none");
    bench.controller.has_turn(5);
    bench.controller.tell_turn(Time(bench.now));
    assert_eq!(turns(&mut bench), [(1, 5), (2, 5)]);
    assert!(!bench.controller.all_know_turns(Time(bench.now)), "that is no answer to a question");
    acknowledge(&mut bench, 1, 1, 4);
    bench.enrol(3);
    pause(&mut bench);
    assert_eq!(turns(&mut bench), [(1, 5), (2, 5)]);
    acknowledge(&mut bench, 1, 1, 5);
    pause(&mut bench);
    assert_eq!(turns(&mut bench), [(2, 5)]);
    bench.beat(2);
    pause(&mut bench);
    assert_eq!(turns(&mut bench), []);
}

#[test]
fn a_controller_that_was_away_tells_no_turn_where_nobody_stands_by() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.sent(0);
    bench.restart_controller();
    assert_eq!(turns(&mut bench), []);
}
