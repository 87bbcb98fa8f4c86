//! Whose word counts about parts, and who hears at once whose they are.

use super::*;
use crate::queue::LAST_TERM;

impl Bench {
    /// A node offers itself in a packet with this header. What SERVING it leads to.
    fn says(&mut self, header: Header) -> Vec<(Handle, u16, u64, u64)> {
        self.told();
        let mut packet = vec![0; BODY + Attempt::BYTES];
        Header { service: service::QUEUE, kind: SERVE, ..header }.write(&mut packet);
        Attempt { holder: header.source, number: CAN_ALL, ..Attempt::default() }.write(&mut packet, BODY);
        self.controller.on_packet(Time(self.now), address(header.source), &packet);
        self.told()
    }

    /// SERVING since the last call: to whom, of which part, its term, and the term of whoever has it.
    fn told(&mut self) -> Vec<(Handle, u16, u64, u64)> {
        let sent = core::iter::from_fn(|| self.controller.transmit()).map(|(_, packet)| packet);
        let told = sent.filter_map(|packet| {
            let header = check(&packet).expect("a packet");
            let serves = (header.service, header.kind) == (service::QUEUE, SERVING);
            let body = serves.then(|| Attempt::read(&packet, BODY));
            body.map(|body| (header.destination, body.room, body.number, body.ticket))
        });
        let mut told: Vec<_> = told.collect();
        told.sort_unstable();
        told.dedup();
        told
    }

    fn set_part(&self, part: u16, handle: Handle, term: u16) {
        self.memory.servers.borrow_mut().insert(part, LockServer { handle, term });
    }
}

#[test]
fn what_a_node_says_of_locks_counts_in_its_own_namespace_and_epoch_while_it_lives() {
    let mut bench = Bench::divided(1);
    let its = Header { source: 1, epoch: bench.memory.epoch(), namespace: 1, ..Header::default() };
    let others = [
        Header { namespace: 2, ..its },
        Header { epoch: its.epoch + 1, ..its },
        Header { source: 0, ..its },
        Header { source: 9, ..its },
    ];
    for other in others {
        assert_eq!((bench.says(other), bench.parts()), (vec![], vec![(0, 0)]), "{other:?}");
    }
    bench.controller.closed(Time(bench.now), 1);
    assert_eq!((bench.says(its), bench.parts()), (vec![], vec![(0, 0)]), "it is over");
    assert_eq!(bench.says(Header { source: 2, ..its }), [(2, 0, 1, 1)]);
    // Where locks are slots nobody serves them.
    let mut bench = Bench::new();
    bench.enrol(1);
    assert_eq!((bench.says(its), bench.parts()), (vec![], vec![(0, 0)]));
}

#[test]
fn who_gets_a_part_and_who_loses_one_hear_of_it_at_once() {
    let mut bench = Bench::divided(2);
    bench.offer(1, CAN_ALL);
    bench.told();
    bench.notices();
    bench.stay(&[1, 2, 3], QUARTER + TICK);
    assert_eq!(bench.told(), [(1, 0, 1, 1), (1, 1, 1, 1)], "unasked");
    let part = |number| Part { number, of: 2 };
    assert_eq!(bench.notices(), [0, 1].map(|number| Notice::Serves(1, part(number), 1)));
    let its = Header { source: 2, epoch: bench.memory.epoch(), namespace: 1, ..Header::default() };
    assert_eq!(bench.says(its), [(1, 0, 0, 2), (2, 0, 2, 2), (2, 1, 0, 1)]);
    bench.controller.closed(Time(bench.now), 2);
    bench.stay(&[1, 3], TICK);
    assert_eq!(bench.told(), [(1, 0, 3, 3)]);
}

#[test]
fn who_cannot_share_hears_of_its_own_part_alone() {
    let mut bench = Bench::divided(3);
    bench.offer(1, CAN_ALL);
    bench.offer(2, CAN_MOVE);
    bench.stay(&[1, 2, 3], QUARTER + TICK);
    assert_eq!(bench.parts(), [(1, 1), (2, 1), (1, 1)]);
    assert_eq!(bench.offer(2, CAN_MOVE), [(1, 3, 1, 1)]);
}

/// A ticket has no room for another term.
#[test]
fn a_part_whose_terms_are_used_is_given_to_nobody() {
    for (term, given) in [(LAST_TERM - 1, (1, LAST_TERM)), (LAST_TERM, (0, LAST_TERM))] {
        let mut bench = Bench::divided(1);
        bench.set_part(0, 0, term);
        bench.offer(1, CAN_ALL);
        assert_eq!(bench.parts(), [given]);
    }
    for (term, moved) in [(LAST_TERM - 1, 1), (LAST_TERM, 0)] {
        let mut bench = Bench::divided(2);
        [0, 1].into_iter().for_each(|part| bench.set_part(part, 1, term));
        bench.offer(1, CAN_ALL);
        bench.offer(2, CAN_ALL);
        bench.stay(&[1, 2, 3], QUARTER + TICK);
        assert_eq!(bench.count(2), moved, "nor does it change hands between two who live");
    }
}

#[test]
fn who_is_heard_no_more_gets_no_part_though_its_lease_still_runs() {
    let mut bench = Bench::divided(1);
    (1..=3).for_each(|node| drop(bench.offer(node, CAN_ALL)));
    bench.memory.words.borrow_mut().get_mut(&2).expect("enrolled").state = NodeState::Expired;
    bench.controller.closed(Time(bench.now), 1);
    bench.stay(&[3], TICK);
    assert_eq!(bench.parts(), [(3, 2)]);
}
