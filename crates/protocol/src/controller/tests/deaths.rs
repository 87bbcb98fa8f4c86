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
        // The second pause is twice as long.
        for _ in 0..2 {
            bench.pass(config().retransmit + config().poll_period);
            bench.beat(2);
            bench.beat(3);
        }
        bench.sent(fabric::DOWN).iter().map(|down| check(down).unwrap().destination).collect::<BTreeSet<_>>()
    };
    assert_eq!(hears(&mut bench), BTreeSet::from([2, 3]));
    bench.fabric(2, fabric::DOWN_ACK, 1, 1);
    assert_eq!(hears(&mut bench), BTreeSet::from([3]));
    bench.fabric(3, fabric::DOWN_ACK, 1, 1);
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

/// Who, and of whose death.
fn told(bench: &mut Bench) -> Vec<(Handle, Handle)> {
    let headers = bench.sent(fabric::DOWN).into_iter().map(|down| check(&down).expect("well formed"));
    headers.map(|header| (header.destination, header.position)).collect()
}

#[test]
fn of_many_deaths_so_many_are_told_at_a_time_and_nobody_waits_for_another_namespaces() {
    let mut both = config();
    both.namespaces.push(Namespace { id: 2, name: "other".to_string(), ..both.namespaces[0].clone() });
    let mut bench = Bench::with(both);
    bench.memory.more_handles.set(200);
    bench.memory.more_namespaces.set(1);
    let mut incarnations = BTreeMap::new();
    for nonce in 1..=83 {
        let namespace_name = padded(if nonce <= 80 { "default" } else { "other" }).expect("short");
        let body = Enrol { nonce, namespace_name, ..Enrol::default() };
        let enrolment = bench.controller.enrol(Time(0), applicant(0), 0, &body).expect("there is room");
        incarnations.insert(enrolment.handle, enrolment.incarnation);
    }
    bench.sent(0);
    let (dead, living): (Vec<Handle>, Vec<Handle>) = (1..=83).partition(|handle| *handle <= 40 || *handle == 81);
    dead.iter().for_each(|handle| bench.controller.closed(Time(0), *handle));
    let mut known: BTreeSet<(Handle, Handle)> = told(&mut bench).into_iter().collect();
    assert_eq!(known.len(), sessions::DOWNS_AT_ONCE);
    let all: BTreeSet<_> = living.iter().flat_map(|to| dead.iter().map(move |of| (*to, *of))).collect();
    let is_heard = |(to, of): &(Handle, Handle)| (*to > 80) == (*of > 80);
    let all: BTreeSet<_> = all.into_iter().filter(is_heard).collect();
    for milliseconds in 1..=60 {
        living.iter().for_each(|handle| bench.beat(*handle));
        bench.pass(1_000);
        let told = told(&mut bench);
        assert!(told.len() <= sessions::DOWNS_AT_ONCE, "{} at once", told.len());
        let others = [(82, 81), (83, 81)];
        assert!(milliseconds > 1 || others.iter().all(|pair| told.contains(pair)), "they have their turn");
        known.extend(&told);
        for (to, of) in told {
            bench.fabric(to, fabric::DOWN_ACK, of, incarnations[&of]);
        }
    }
    assert!(known.is_superset(&all), "{} of {}", known.intersection(&all).count(), all.len());
}

#[test]
fn who_never_answers_is_told_ever_less_often_and_then_dismissed() {
    let mut bench = Bench::new();
    for nonce in 1..=3 {
        bench.enrol(nonce);
    }
    bench.sent(0);
    bench.controller.closed(Time(0), 1);
    let mut times = Vec::new();
    let mut notices = Vec::new();
    while bench.memory.node_word(2).state == NodeState::Live && bench.now < 20_000_000 {
        for (to, of) in told(&mut bench) {
            match to {
                2 => times.push(bench.now),
                _ => bench.fabric(to, fabric::DOWN_ACK, of, 1),
            }
        }
        bench.beat(2);
        bench.beat(3);
        bench.pass(config().poll_period);
        notices.extend(core::iter::from_fn(|| bench.controller.notice()));
    }
    let pauses: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses[..6], [50_000, 100_000, 200_000, 400_000, 400_000, 400_000]);
    assert_eq!(notices.iter().filter(|notice| matches!(notice, Notice::Dismissed(_))).count(), 1, "{notices:?}");
    assert!(notices.contains(&Notice::Dismissed(2)) && times.len() >= 20, "{} times", times.len());
    for _ in 0..20 {
        bench.beat(3);
        bench.pass(config().poll_period);
    }
    let known = |handle| bench.controller.sessions().find(|view| view.handle == handle).and_then(|view| view.seen);
    assert!(known(2).is_none() && known(3).is_some(), "it has ended with its lease");
}
