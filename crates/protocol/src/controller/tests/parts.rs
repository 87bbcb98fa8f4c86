//! Whose parts of a namespace's names are: docs/queue.md, "Parts".
//!
//! Left out one at a time, these rules fail here: nobody gets a part before all had time to offer themselves; the parts
//! of the dead go to whoever has fewest, each in its own next term, and no other part changes; one part at a time
//! changes hands; who cannot share has one part and keeps it; an offer ends with its session.

mod servers;

use super::*;
use crate::queue::{CAN_MOVE, CAN_SHARE};
use wayside_wire::kind::queue::{SERVE, SERVING};

const CAN_ALL: u64 = CAN_MOVE | CAN_SHARE;
const QUARTER: u64 = LEASE as u64 / 4;
const TICK: u64 = 10_000;

/// Parts: whose each is, and in which term.
type Parts = Vec<(Handle, u16)>;

impl Bench {
    /// A namespace of so many parts, and three nodes.
    fn divided(parts: u16) -> Bench {
        let mut config = config();
        (config.namespaces[0].engine, config.namespaces[0].servers) = (Engine::Queue, parts);
        let mut bench = Bench::with(config);
        (1..=3).for_each(|nonce| assert_eq!(bench.enrol(nonce).expect("there is room").0.destination, nonce as u16));
        bench
    }

    /// A node offers itself. What it is told: of which part of how many, its term, and the term of whoever has it.
    fn offer(&mut self, node: Handle, can: u64) -> Vec<(u16, u8, u64, u64)> {
        self.offer_of(node, can, 0)
    }

    /// The same, in a session whose request ids begin with this.
    fn offer_of(&mut self, node: Handle, can: u64, request: u64) -> Vec<(u16, u8, u64, u64)> {
        while self.controller.transmit().is_some() {}
        let body = Attempt { holder: node, number: can, request, ..Attempt::default() };
        let header = Header { service: service::QUEUE, kind: SERVE, ..Header::default() };
        self.receive(node, header, |packet| body.write(packet, BODY), Attempt::BYTES);
        let sent = core::iter::from_fn(|| self.controller.transmit()).map(|(_, packet)| packet);
        let its = sent.filter(|packet| {
            let header = check(packet).expect("a packet");
            (header.service, header.kind, header.destination) == (service::QUEUE, SERVING, node)
        });
        let told = its.map(|packet| Attempt::read(&packet, BODY));
        let mut told: Vec<_> = told.map(|body| (body.room, body.cause, body.number, body.ticket)).collect();
        told.sort_unstable();
        told.dedup();
        told
    }

    fn parts(&self) -> Parts {
        let parts = 0..self.config.namespaces[0].servers;
        parts.map(|part| self.memory.lock_server(1, part)).map(|server| (server.handle, server.term)).collect()
    }

    fn count(&self, node: Handle) -> usize {
        self.parts().iter().filter(|(handle, _)| *handle == node).count()
    }

    /// So long, in which these nodes live.
    fn stay(&mut self, nodes: &[Handle], micros: u64) {
        for _ in 0..micros / TICK {
            nodes.iter().for_each(|node| self.beat(*node));
            self.pass(TICK);
        }
    }

    /// Longer than a new lock server waits for those who hold.
    fn outlast(&mut self, nodes: &[Handle]) {
        self.stay(nodes, 2 * u64::from(LEASE));
    }
}

#[test]
fn the_only_part_is_whose_who_asks_first_and_the_others_stand_by() {
    let mut bench = Bench::divided(1);
    assert_eq!(bench.offer(2, CAN_ALL), [(0, 1, 1, 1)]);
    assert_eq!(bench.offer(1, CAN_ALL), [(0, 1, 0, 1)]);
    bench.controller.closed(Time(bench.now), 2);
    bench.stay(&[1, 3], TICK);
    assert_eq!(bench.parts(), [(1, 2)], "without being asked again");
}

#[test]
fn an_offer_of_an_earlier_session_of_a_handle_is_none_of_who_has_it_now() {
    let mut bench = Bench::divided(1);
    let incarnation = bench.enrol(2).expect("the same session").1.incarnation;
    assert_eq!(bench.offer_of(2, CAN_ALL, (incarnation - 1) << 40), []);
    assert_eq!(bench.parts(), [(0, 0)]);
    assert_eq!(bench.offer_of(2, CAN_ALL, incarnation << 40), [(0, 1, 1, 1)]);
}

#[test]
fn those_who_offer_themselves_in_a_quarter_of_a_lease_get_as_many_parts_as_each_other() {
    let mut bench = Bench::divided(5);
    assert_eq!(bench.offer(1, CAN_ALL).len(), 5);
    bench.offer(2, CAN_ALL);
    bench.stay(&[1, 2, 3], QUARTER - TICK);
    assert_eq!(bench.parts(), [(0, 0); 5]);
    bench.offer(3, CAN_ALL);
    bench.stay(&[1, 2, 3], 2 * TICK);
    assert_eq!([1, 2, 3].map(|node| bench.count(node)), [2, 2, 1]);
    assert!(bench.parts().iter().all(|(_, term)| *term == 1), "none has changed hands: {:?}", bench.parts());
    let mine: Vec<u16> = (0..5).filter(|part| bench.parts()[usize::from(*part)].0 == 2).collect();
    let told = bench.offer(2, CAN_ALL);
    let wanted: Vec<_> = (0..5).map(|part| (part, 5, u64::from(mine.contains(&part)), 1)).collect();
    assert_eq!(told, wanted);
}

#[test]
fn the_parts_of_the_dead_go_to_whoever_has_fewest_and_the_others_stay() {
    let mut bench = Bench::divided(4);
    for node in 1..=3 {
        bench.offer(node, CAN_ALL);
    }
    bench.stay(&[1, 2, 3], QUARTER + TICK);
    let before = bench.parts();
    assert_eq!([1, 2, 3].map(|node| bench.count(node)), [2, 1, 1]);
    bench.controller.closed(Time(bench.now), 1);
    bench.stay(&[2, 3], TICK);
    assert_eq!([1, 2, 3].map(|node| bench.count(node)), [0, 2, 2]);
    for (was, is) in before.iter().zip(bench.parts()) {
        let wanted = if was.0 == 1 { 2 } else { 1 };
        assert!(is.1 == wanted && (was.0 == 1 || was.0 == is.0), "{was:?}, then {is:?}");
    }
    let told: Parts = bench.offer(3, CAN_ALL).iter().map(|(.., term, now)| (*term as Handle, *now as u16)).collect();
    let wanted: Parts =
        bench.parts().iter().map(|(handle, term)| (if *handle == 3 { *term } else { 0 }, *term)).collect();
    assert_eq!(told, wanted, "each hears of each part's own term");
    // Nobody is left but one, which has all of them.
    bench.controller.closed(Time(bench.now), 2);
    bench.stay(&[3], TICK);
    assert_eq!(bench.count(3), 4);
    let terms: Vec<u16> = bench.parts().iter().map(|(_, term)| *term).collect();
    assert_eq!(terms.iter().sum::<u16>(), 4 + 2 + 2, "one more for each that has changed: {terms:?}");
}

#[test]
fn one_part_at_a_time_changes_hands_until_nobody_has_two_more_than_another() {
    let mut bench = Bench::divided(5);
    bench.offer(1, CAN_ALL);
    bench.stay(&[1, 2, 3], QUARTER + TICK);
    assert_eq!(bench.count(1), 5);
    let told = bench.offer(2, CAN_ALL);
    assert_eq!(told.iter().filter(|(_, of, term, now)| (*of, *term, *now) == (5, 2, 2)).count(), 1, "{told:?}");
    bench.offer(2, CAN_ALL);
    bench.stay(&[1, 2, 3], u64::from(LEASE));
    assert_eq!((bench.count(1), bench.count(2)), (4, 1), "the next one waits until this one's holders are known");
    bench.outlast(&[1, 2, 3]);
    assert_eq!((bench.count(1), bench.count(2)), (3, 2));
    bench.outlast(&[1, 2, 3]);
    assert_eq!((bench.count(1), bench.count(2)), (3, 2), "nor would it be even the other way round");
    bench.offer(3, CAN_ALL);
    bench.outlast(&[1, 2, 3]);
    assert_eq!([1, 2, 3].map(|node| bench.count(node)), [2, 2, 1]);
    assert!(bench.parts().iter().all(|(_, term)| *term <= 2), "none went twice: {:?}", bench.parts());
    // Who has lost one is told so, and by whom.
    let lost = bench.offer(1, CAN_ALL).into_iter().filter(|(.., term, now)| (*term, *now) == (0, 2)).count();
    assert_eq!(lost, 3);
}

#[test]
fn who_cannot_share_has_one_part_at_most_and_keeps_it() {
    let mut bench = Bench::divided(3);
    assert_eq!(bench.offer(1, CAN_MOVE), [(0, 3, 0, 0)], "what an earlier node understands: not yet");
    bench.stay(&[1, 2, 3], QUARTER + TICK);
    let [mine] = bench.offer(1, CAN_MOVE)[..] else { panic!("one part") };
    assert_eq!((bench.count(1), mine.2), (1, 1), "and nobody has the others: {:?}", bench.parts());
    bench.offer(2, CAN_ALL);
    bench.outlast(&[1, 2, 3]);
    assert_eq!((bench.count(1), bench.count(2)), (1, 2));
    bench.controller.closed(Time(bench.now), 2);
    bench.outlast(&[1, 3]);
    assert_eq!(bench.count(1), 1, "rather nobody's than two terms that it takes for one");
}

#[test]
fn the_next_controller_knows_whose_the_parts_are_and_hears_who_stands_by_before_it_gives_any_away() {
    let mut bench = Bench::divided(4);
    bench.offer(1, CAN_ALL);
    bench.offer(2, CAN_ALL);
    bench.stay(&[1, 2, 3], QUARTER + TICK);
    let before = bench.parts();
    bench.restart_controller();
    bench.offer(1, CAN_ALL);
    bench.controller.closed(Time(bench.now), 2);
    bench.stay(&[1, 3], QUARTER - 2 * TICK);
    assert_eq!(bench.parts(), before);
    bench.offer(3, CAN_ALL);
    bench.stay(&[1, 3], 4 * TICK);
    assert_eq!((bench.count(1), bench.count(3)), (2, 2));
}

#[test]
fn a_node_that_has_another_session_has_not_offered_itself() {
    let mut bench = Bench::divided(2);
    bench.config.quarantine = 0;
    bench.restart_controller();
    bench.offer(1, CAN_ALL);
    bench.stay(&[1, 2, 3], QUARTER + TICK);
    assert_eq!(bench.parts(), [(1, 1); 2]);
    bench.controller.closed(Time(bench.now), 1);
    for survivor in [2, 3] {
        bench.fabric(survivor, wayside_wire::kind::fabric::DOWN_ACK, 1, 1);
    }
    bench.stay(&[2, 3], 5 * TICK);
    assert_eq!(bench.enrol(9).expect("the handle has rested").0.destination, 1);
    bench.outlast(&[1, 2, 3]);
    assert_eq!(bench.parts(), [(0, 1); 2], "nobody's: that session is over");
    assert_eq!(bench.offer(3, CAN_ALL).iter().filter(|(_, _, term, _)| *term == 2).count(), 2);
}

#[test]
fn a_namespace_has_one_to_fourteen_lock_servers() {
    for (servers, wanted) in [(0, false), (1, true), (14, true), (15, false)] {
        let mut config = config();
        config.namespaces[0].servers = servers;
        assert_eq!(config.check().is_ok(), wanted, "{servers}");
    }
}

/// It may be that the switch is another one, and that nodes that were its lock servers do not know it yet.
#[test]
fn who_would_be_a_lock_server_says_so_anew_in_an_epoch() {
    let mut bench = Bench::divided(4);
    for node in [1, 2] {
        bench.offer(node, CAN_ALL);
    }
    bench.stay(&[1, 2, 3], QUARTER + TICK);
    assert_eq!([1, 2].map(|node| bench.count(node)), [2, 2]);
    bench.restart_switch();
    bench.stay(&[1, 2, 3], QUARTER + TICK);
    assert_eq!(bench.count(0), 4, "nobody has said so");
    bench.offer(2, CAN_ALL);
    bench.stay(&[1, 2, 3], QUARTER + TICK);
    assert_eq!([0, 1, 2].map(|node| bench.count(node)), [0, 0, 4]);
}
