//! Who is told that a session is over.

use super::*;
use alloc::collections::BTreeSet;

#[test]
fn tells_the_living_of_a_death_until_they_know() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.enrol(2);
    bench.sent(0);
    bench.controller.closed(Time(bench.now), 1);
    assert_eq!(bench.sent(fabric::DOWN).len(), 1);
    bench.pass(config().retransmit + config().poll_period);
    let down = bench.sent(fabric::DOWN).pop().expect("sent again");
    let header = check(&down).unwrap();
    assert_eq!((header.destination, header.position), (2, 1));
    bench.fabric(2, fabric::DOWN_ACK, 1, 1);
    bench.beat(2);
    bench.pass(LEASE.into());
    assert!(bench.sent(fabric::DOWN).is_empty());
}

#[test]
fn who_comes_while_others_do_not_know_of_a_death_hears_of_it() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.enrol(2);
    bench.controller.closed(Time(bench.now), 1);
    // 2 may hand 3 a line in which 1 waits.
    assert_eq!(bench.enrol(3).expect("there is room").0.destination, 3);
    bench.sent(0);
    let hears = |bench: &mut Bench| {
        bench.pass(config().retransmit + config().poll_period);
        bench.sent(fabric::DOWN).iter().map(|down| check(down).unwrap().destination).collect::<BTreeSet<_>>()
    };
    assert_eq!(hears(&mut bench), BTreeSet::from([2, 3]));
    bench.fabric(2, fabric::DOWN_ACK, 1, 1);
    bench.beat(2);
    bench.beat(3);
    assert_eq!(hears(&mut bench), BTreeSet::from([3]));
    bench.fabric(3, fabric::DOWN_ACK, 1, 1);
    bench.beat(2);
    bench.beat(3);
    assert_eq!(hears(&mut bench), BTreeSet::new());
}

#[test]
fn who_comes_when_all_know_of_a_death_need_not_hear_of_it() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.enrol(2);
    bench.controller.closed(Time(bench.now), 1);
    bench.fabric(2, fabric::DOWN_ACK, 1, 1);
    bench.enrol(3).expect("there is room");
    bench.sent(0);
    bench.pass(config().retransmit + config().poll_period);
    assert!(bench.sent(fabric::DOWN).is_empty());
}
