//! A node that hears that another one is dead (DOWN in docs/protocol.md).

use crate::bench::{Bench, EPOCH, SLOTS, handle};
use wayside_protocol::{Mode, RequestId};
use wayside_wire::{BODY, Entry, Header, Heartbeat, SlotBits, SlotState, check, entry_flag, kind, service};

const NAME: u64 = 5;
const SLOT: u32 = 5;
/// Of the same slot.
const OTHER: u64 = NAME + SLOTS as u64;
const PAUSE: u64 = 5_000;

/// What node 0 answers to a DOWN: about whom, which session, which copy.
fn answers(bench: &mut Bench, to: u16, dead: u16, incarnation: u64, sequence: u64) -> Vec<(u16, u64, u64)> {
    bench.flying.clear();
    let header = Header { service: service::FABRIC, kind: kind::fabric::DOWN, position: dead, ..Header::default() };
    let body = Heartbeat { incarnation, sequence, ..Heartbeat::default() };
    bench.say(Header { destination: to, ..header }, body);
    let answers = bench.flying.drain(..).map(|flying| (check(&flying.packet).expect("whole"), flying.packet));
    let answers = answers.filter(|(header, _)| header.kind == kind::fabric::DOWN_ACK);
    let said = answers.map(|(header, packet)| (header, Heartbeat::read(&packet, BODY)));
    said.map(|(header, body)| (header.position, body.incarnation, body.sequence)).collect()
}

#[test]
fn every_copy_of_a_down_is_acknowledged_as_what_it_is() {
    let mut bench = Bench::new(1);
    assert_eq!(answers(&mut bench, handle(0), handle(1), 101, 4), [(handle(1), 101, 4)]);
    assert_eq!(answers(&mut bench, handle(0), handle(1), 101, 5), [(handle(1), 101, 5)]);
    assert_eq!(answers(&mut bench, handle(1), handle(2), 102, 4), [], "it is another's");
    assert_eq!(answers(&mut bench, handle(0), handle(0), 100, 4), [], "nobody hears of his own");
}

/// Node 0 keeps the books of a slot where node 1 holds one name and node 2 waits for it.
fn booked() -> (Bench, RequestId) {
    let mut bench = Bench::new(4);
    let own = bench.ask(0, OTHER, Mode::Exclusive);
    bench.run();
    bench.granted(0, own);
    let held = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(1, held);
    let waits = bench.ask(2, NAME, Mode::Exclusive);
    bench.run();
    bench.quiet(2);
    (bench, waits)
}

fn is_in_books(bench: &Bench, node: usize) -> bool {
    bench.nodes[0].books(SLOT).into_iter().flatten().any(|booked| booked.holder == handle(node))
}

#[test]
fn what_the_dead_held_goes_at_once_to_who_waits_for_it() {
    let (mut bench, waits) = booked();
    bench.down(handle(1), 101);
    assert!(!is_in_books(&bench, 1));
    bench.run();
    bench.granted(2, waits);
}

#[test]
fn who_waited_and_is_dead_waits_no_more_and_nobody_else_goes_with_it() {
    let (mut bench, _) = booked();
    bench.down(handle(3), 103);
    assert!(is_in_books(&bench, 1) && is_in_books(&bench, 2));
    bench.down(handle(2), 102);
    assert!(is_in_books(&bench, 1) && !is_in_books(&bench, 2));
}

/// Node 0 has handed its lock to node 1, and more waiters than fit into a packet are to follow, which are lost.
fn handing() -> Bench {
    let mut bench = Bench::with_lease(4, 60_000_000);
    let first = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, first);
    for _ in 0..50 {
        bench.ask(1, NAME, Mode::Exclusive);
        bench.run();
    }
    bench.release(0, first);
    bench.run_until_sent(kind::lock::QUEUE);
    bench.flying.clear();
    bench
}

#[test]
fn waiters_are_handed_on_to_nobody_who_is_dead() {
    for dead in [1, 2] {
        let mut bench = handing();
        bench.down(handle(dead), 100 + dead as u64);
        bench.sent();
        bench.wait(4 * PAUSE);
        let sent = bench.kinds_sent();
        assert_eq!((sent.is_empty(), bench.nodes[0].is_idle()), (dead == 1, dead == 1), "{sent:?}");
    }
}

fn request(node: usize, kind: u8, transferred: bool) -> (Header, Entry) {
    let bits = SlotBits { state: SlotState::Managed, transferred, ..SlotBits::default() };
    let (holder, request) = (handle(node), (100 + node as u64) << 40 | 9);
    let entry = Entry { name: NAME, request, slot: SLOT, tenure: 5, holder, ..Entry::default() };
    let entry = Entry { flags: entry_flag::EXCLUSIVE, slot_bits: bits.to_u16(), ..entry };
    (Header { epoch: EPOCH, kind, source: holder, ..Header::default() }, entry)
}

#[test]
fn what_the_dead_asked_for_is_not_sent_back_to_the_switch() {
    let mut bench = Bench::new(3);
    for node in [1, 2] {
        let (header, entry) = request(node, kind::lock::ACQUIRE, true);
        bench.tell(0, header, &[entry]);
    }
    bench.down(handle(1), 101);
    bench.sent();
    bench.wait(PAUSE);
    let sent: Vec<(u8, u16)> = bench.sent().iter().map(|(header, entry)| (header.kind, entry.holder)).collect();
    assert_eq!(sent, [(kind::lock::ACQUIRE, handle(2))]);
}

/// The slot's claim is not answered yet.
#[test]
fn a_limbo_that_the_dead_have_left_empty_is_no_reason_to_wake_up() {
    let mut bench = Bench::new(2);
    let (header, entry) = request(1, kind::lock::ACQUIRE, false);
    bench.tell(0, header, &[entry]);
    bench.tell(0, header, &[Entry { request: entry.request + 1, ..entry }]);
    bench.down(handle(1), 101);
    bench.sent();
    bench.wait(4 * PAUSE);
    assert_eq!(bench.kinds_sent(), [kind::lock::RETENURE; 2], "the claim, again");
}

/// Or the agent would never know of all that the switch has let in.
#[test]
fn a_join_that_came_before_the_agency_counts_though_its_node_is_dead() {
    let mut bench = Bench::new(2);
    let held = bench.ask(0, NAME, Mode::Shared);
    assert!(bench.step());
    let grant = bench.flying.pop_back().expect("the switch has answered");
    bench.ask(1, NAME, Mode::Shared);
    bench.run();
    bench.down(handle(1), 101);
    bench.flying.clear();
    bench.deliver(grant);
    bench.granted(0, held);
    assert!(!is_in_books(&bench, 1));
    bench.release(0, held);
    bench.run();
    assert_eq!((bench.slot(NAME).state, bench.to_controller.len()), (SlotState::Unheld, 0));
}
