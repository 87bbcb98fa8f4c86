//! Who comes, and who goes: refusals, handles and farewells.

use super::*;

/// An answer to a packet of another major version of this service and kind: its nonce and reason.
fn foreign(bench: &mut Bench, service: u8, kind: u8) -> Vec<(u64, u8)> {
    bench.sent(0);
    let mut packet = vec![0; BODY + Enrol::BYTES];
    Header { service, kind, ..Header::default() }.write(&mut packet);
    Enrol { nonce: 9, namespace_name: padded("default").expect("short"), ..Enrol::default() }.write(&mut packet, BODY);
    packet[2] = packet[2].wrapping_add(0x10);
    bench.controller.on_packet(Time(bench.now), address(1), &packet);
    let answers = bench.sent(fabric::ENROLLED);
    let read = |packet: &Vec<u8>| {
        assert_ne!(check(packet).unwrap().flags & wayside_wire::header_flag::REFUSED, 0);
        let body = Enrolled::read(packet, BODY);
        (body.nonce, body.reason)
    };
    answers.iter().map(read).collect()
}

/// It could not make anything of any other answer.
#[test]
fn a_node_of_another_major_version_is_told_so_and_begins_no_session() {
    let mut bench = Bench::new();
    assert_eq!(foreign(&mut bench, service::FABRIC, fabric::ENROL), [(0, Refusal::Version as u8)]);
    for (service, kind) in
        [(service::FABRIC, fabric::LEAVE), (service::LOCK, fabric::ENROL), (service::LOCK, lock::RELEASE)]
    {
        assert_eq!(foreign(&mut bench, service, kind), [], "{service} {kind}");
    }
    assert_eq!(bench.controller.sessions().count(), 0);
}

/// ENROLs of these nonces that are heard together: nonce, handle, incarnation and reason of each answer.
fn enrolled_together(bench: &mut Bench, nonces: &[u64]) -> Vec<(u64, Handle, u64, u8)> {
    bench.sent(0);
    let packet = |nonce: u64| {
        let mut packet = vec![0; BODY + Enrol::BYTES];
        Header { service: service::FABRIC, kind: fabric::ENROL, ..Header::default() }.write(&mut packet);
        Enrol { nonce, namespace_name: padded("default").expect("short"), ..Enrol::default() }.write(&mut packet, BODY);
        packet
    };
    let packets: Vec<Vec<u8>> = nonces.iter().copied().map(packet).collect();
    bench.controller.on_enrols(Time(bench.now), packets.iter().map(|packet| (address(1), &packet[..])));
    let read = |packet: &Vec<u8>| {
        let body = Enrolled::read(packet, BODY);
        (body.nonce, check(packet).unwrap().destination, body.incarnation, body.reason)
    };
    bench.sent(fabric::ENROLLED).iter().map(read).collect()
}

#[test]
fn who_asks_together_waits_for_one_commit() {
    let mut bench = Bench::with(Config { quarantine: 0, ..config() });
    bench.enrol(1);
    let before = bench.disk.commits.get();
    // The first is known, and the second has asked twice.
    let answers = enrolled_together(&mut bench, &[1, 2, 2, 3, 4]);
    assert_eq!(bench.disk.commits.get(), before + 1);
    assert_eq!(answers, [(1, 1, 1, 0), (2, 2, 2, 0), (2, 2, 2, 0), (3, 3, 3, 0), (4, 0, 0, Refusal::Full as u8)]);
    assert_eq!(enrolled_together(&mut bench, &[3, 2]), [(3, 3, 3, 0), (2, 2, 2, 0)], "they are as they were");
    assert_eq!(bench.disk.commits.get(), before + 1, "nothing was to be written");
    bench.restart_controller();
    assert_eq!(bench.enrol(3).expect("it was written").0.destination, 3);
}

/// A tenant's share counts those that have just come with it.
#[test]
fn who_asks_together_gets_no_more_than_a_share() {
    let mut shared = config();
    shared.namespaces.push(Namespace { id: 2, name: "other".to_string(), ..shared.namespaces[0].clone() });
    let full = Refusal::Full as u8;
    assert_eq!(
        enrolled_together(&mut Bench::with(shared), &[1, 2, 3]),
        [(1, 1, 1, 0), (2, 0, 0, full), (3, 0, 0, full)],
        "half of three is one"
    );
}

/// None of them is answered, and no number that the store may have is anybody else's.
#[test]
fn who_asks_together_of_a_store_that_fails_asks_again() {
    let mut bench = Bench::new();
    bench.disk.fails_late.set(true);
    assert_eq!(enrolled_together(&mut bench, &[1, 2]), []);
    assert_eq!(bench.controller.sessions().count(), 0);
    bench.disk.fails_late.set(false);
    assert_eq!(enrolled_together(&mut bench, &[2, 1, 3]), [(2, 2, 3, 0), (1, 1, 4, 0), (3, 3, 5, 0)]);
}

/// So that each rests for as long as possible.
#[test]
fn handles_are_given_in_turn() {
    let mut bench = Bench::with(Config { quarantine: 0, ..config() });
    for (nonce, handle) in [(1, 1), (2, 2), (3, 3), (4, 1), (5, 2)] {
        assert_eq!(bench.enrol(nonce).expect("there is room").0.destination, handle);
        bench.controller.closed(Time(bench.now), handle);
        bench.pass(400_000);
    }
}

#[test]
fn a_late_leave_of_an_earlier_session_ends_none() {
    let mut bench = Bench::new();
    let (_, body) = bench.enrol(1).expect("there is room");
    bench.notices();
    bench.fabric(1, fabric::LEAVE, 0, body.incarnation + 1);
    assert_eq!(bench.sent(fabric::LEFT).len(), 1, "that one has left");
    assert_eq!((bench.memory.node_word(1).state, bench.notices()), (NodeState::Live, vec![]));
}

#[test]
fn a_session_ends_once() {
    let mut bench = Bench::new();
    bench.enrol(1);
    bench.notices();
    for _ in 0..2 {
        bench.controller.closed(Time(bench.now), 1);
        bench.fabric(1, fabric::LEAVE, 0, 1);
    }
    assert_eq!(bench.notices(), [Notice::Ended(1, Ending::Closed)]);
}

#[test]
fn an_enrol_is_known_by_its_service_and_kind() {
    let packet = |service, kind, bytes| {
        let mut packet = vec![0; BODY + bytes];
        Header { service, kind, ..Header::default() }.write(&mut packet);
        packet
    };
    assert!(is_enrol(&packet(service::FABRIC, fabric::ENROL, Enrol::BYTES)));
    assert!(!is_enrol(&packet(service::FABRIC, fabric::LEAVE, Heartbeat::BYTES)));
    assert!(!is_enrol(&packet(service::FABRIC, fabric::ENROL, Enrol::BYTES)[..BODY]) && !is_enrol(&[]), "torn");
}

#[test]
fn a_node_that_knows_nothing_of_lists_gets_a_session_where_there_is_none() {
    let mut both = config();
    let first = both.namespaces[0].clone();
    let names = crate::Names::new([7]).expect("few");
    both.namespaces.push(Namespace { id: 2, name: "listed".to_string(), engine: Engine::Hybrid, names, ..first });
    let mut bench = Bench::with(both);
    bench.memory.more_namespaces.set(1);
    bench.memory.more_handles.set(10);
    let mut ask = |nonce, name, version| {
        let body = Enrol { nonce, namespace_name: padded(name).expect("short"), ..Enrol::default() };
        let who = Applicant { version, ..applicant(0) };
        bench.controller.enrol(Time(bench.now), who, 0, &body).map(|enrolment| enrolment.namespace)
    };
    assert_eq!(ask(1, "listed", KNOWS_NAMES - 1), Err(Refusal::Version));
    assert_eq!([ask(1, "listed", KNOWS_NAMES), ask(2, "default", KNOWS_NAMES - 1)], [Ok(2), Ok(1)]);
}

/// Sessions that are there count, and so do those that come together.
#[test]
fn a_tenant_has_half_of_all_handles_whoever_comes_together() {
    let mut shared = config();
    shared.namespaces.push(Namespace { id: 2, name: "other".to_string(), ..shared.namespaces[0].clone() });
    let mut bench = Bench::with(shared);
    bench.memory.more_handles.set(5);
    let reasons = |answers: Vec<(u64, Handle, u64, u8)>| answers.iter().map(|answer| answer.3).collect::<Vec<u8>>();
    assert_eq!(reasons(enrolled_together(&mut bench, &[1, 2])), [0, 0]);
    let full = Refusal::Full as u8;
    assert_eq!(reasons(enrolled_together(&mut bench, &[3, 4, 5, 6])), [0, 0, full, full]);
}

/// What is written twice takes a busy store twice as long.
#[test]
fn sessions_that_began_together_are_written_once() {
    let mut bench = Bench::new();
    bench.memory.more_handles.set(2);
    assert_eq!(enrolled_together(&mut bench, &[1, 2, 3]).len(), 3);
    bench.disk.most.set(Some(2));
    assert!(bench.enrol(4).is_some(), "its own record and the counters, and no more");
}

/// What a node says by it is believed: who reads one packet must not know those of others.
#[test]
fn no_two_lifelines_are_alike_whichever_session_or_cluster_they_are_of() {
    let lifelines = |secret| {
        let mut bench = Bench::with(Config { secret, ..config() });
        bench.memory.more_handles.set(40);
        (1..=40).map(|nonce| bench.enrol(nonce).expect("there is room").1.lifeline).collect::<Vec<u64>>()
    };
    let mut all: Vec<u64> = [1, 2, 42, 1 << 63].into_iter().flat_map(lifelines).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 4 * 40);
}

#[test]
fn what_is_listed_is_told_where_something_is_and_before_the_answer() {
    let told = |engine, names: &[u64]| {
        let mut config = config();
        config.namespaces[0].names = crate::Names::new(names.iter().copied()).expect("few");
        config.namespaces[0].engine = engine;
        let mut bench = Bench::with(config);
        let mut packet = vec![0; BODY + Enrol::BYTES];
        Header { service: service::FABRIC, kind: fabric::ENROL, ..Header::default() }.write(&mut packet);
        let body = Enrol { nonce: 1, namespace_name: padded("default").expect("short"), ..Enrol::default() };
        body.write(&mut packet, BODY);
        bench.controller.on_packet(Time(bench.now), address(1), &packet);
        let sent = core::iter::from_fn(|| bench.controller.transmit()).map(|(_, packet)| check(&packet).unwrap().kind);
        sent.filter(|kind| [fabric::NAMES, fabric::ENROLLED].contains(kind)).collect::<Vec<u8>>()
    };
    assert_eq!(told(Engine::Hybrid, &[7, 9]), [fabric::NAMES, fabric::ENROLLED]);
    assert_eq!(told(Engine::Fission, &[]), [fabric::ENROLLED]);
    assert_eq!(told(Engine::Queue, &[]), [fabric::ENROLLED]);
}
