//! Sessions hear of another policy of their namespace (`policies.rs`).

use super::*;

/// POLICYs since the last call: to whom, which change, and what it says.
fn told(bench: &mut Bench) -> Vec<(Handle, u64, [u8; 2])> {
    let of = |packet: &Vec<u8>| {
        let header = check(packet).unwrap();
        let [policy, patience] = header.position.to_le_bytes();
        let said = [policy, crate::line::patience_from_byte(patience)];
        (header.destination, Heartbeat::read(packet, BODY).sequence, said)
    };
    bench.sent(fabric::POLICY).iter().map(of).collect()
}

fn acknowledge(bench: &mut Bench, node: Handle, incarnation: u64, sequence: u64) {
    let body = Heartbeat { incarnation, sequence, ..Heartbeat::default() };
    let header = Header { service: service::FABRIC, kind: fabric::POLICY_ACK, ..Header::default() };
    bench.receive(node, header, |packet| body.write(packet, BODY), Heartbeat::BYTES);
}

fn change(bench: &mut Bench, policy: Policy, patience: u8) -> u64 {
    bench.controller.set_policy(Time(bench.now), 1, policy, patience);
    bench.controller.on_tick(Time(bench.now));
    let told = told(bench);
    assert!(told.iter().all(|(_, number, what)| (*number, *what) == (told[0].1, [policy as u8, patience])));
    told[0].1
}

#[test]
fn who_lives_is_told_of_another_policy_until_it_has_heard_of_it() {
    let mut bench = Bench::new();
    for nonce in 1..=2 {
        bench.enrol(nonce).expect("there is room");
    }
    assert_eq!(told(&mut bench), [], "they know it with their sessions");
    let first = change(&mut bench, Policy::WritePreferring, 3);
    let second = change(&mut bench, Policy::WritePreferring, 5);
    assert!(second > first);
    acknowledge(&mut bench, 1, 1, second);
    // Another session's, and of a change before.
    acknowledge(&mut bench, 2, 1, second);
    acknowledge(&mut bench, 2, 2, first);
    bench.enrol(3).expect("there is room");
    bench.live(&[1, 2, 3], config().retransmit);
    assert_eq!(told(&mut bench), [(2, second, [Policy::WritePreferring as u8, 5])]);
    acknowledge(&mut bench, 2, 2, second);
    bench.live(&[1, 2, 3], 4 * config().retransmit);
    assert_eq!(told(&mut bench), []);
}

#[test]
fn who_comes_later_begins_with_it_and_who_never_answers_is_told_less_and_less_often() {
    let mut bench = Bench::new();
    bench.enrol(1).expect("there is room");
    let number = change(&mut bench, Policy::ReadPreferring, 4);
    let (_, body) = bench.enrol(2).expect("there is room");
    let begun = (body.policy, crate::line::patience_from_byte(body.patience));
    assert_eq!(begun, (Policy::ReadPreferring as u8, 4));
    let what = (1, number, [Policy::ReadPreferring as u8, 4]);
    bench.live(&[1, 2], 300 * config().retransmit);
    assert_eq!(told(&mut bench), [what; 8], "after 1, 2, 4, ... 128 pauses");
    bench.live(&[1, 2], 256 * config().retransmit);
    assert_eq!(told(&mut bench), [what; 2], "every 128 pauses");
}

#[test]
fn the_next_controller_tells_everybody_what_it_has_and_by_a_higher_number() {
    let mut bench = Bench::new();
    bench.enrol(1).expect("there is room");
    let number = change(&mut bench, Policy::WritePreferring, 3);
    bench.config.namespaces[0].patience = 6;
    bench.restart_controller();
    let again = told(&mut bench);
    assert!(matches!(again[..], [(1, later, [0, 6])] if later > number), "{again:?}");
}

#[test]
fn another_namespaces_policy_concerns_nobody_here() {
    let mut bench = Bench::new();
    bench.enrol(1).expect("there is room");
    bench.controller.set_policy(Time(bench.now), 2, Policy::WritePreferring, 3);
    bench.controller.on_tick(Time(bench.now));
    assert_eq!(told(&mut bench), []);
}

#[test]
fn who_has_died_hears_of_no_policy() {
    let mut bench = Bench::new();
    for nonce in 1..=2 {
        bench.enrol(nonce).expect("there is room");
    }
    let number = change(&mut bench, Policy::WritePreferring, 3);
    bench.controller.closed(Time(bench.now), 1);
    bench.live(&[2], 2 * config().retransmit);
    assert_eq!(told(&mut bench), [(2, number, [Policy::WritePreferring as u8, 3])]);
}
