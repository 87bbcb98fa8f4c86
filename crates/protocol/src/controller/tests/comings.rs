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
