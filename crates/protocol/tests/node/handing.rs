//! Waiters that go from agent to agent, and what arrives for one that is agent no more (docs/protocol.md, QUEUE and
//! QUEUED).

use crate::bench::{Bench, EPOCH, handle};
use wayside_protocol::{Mode, Path, RequestId};
use wayside_wire::{Entry, Header, LockKind, SlotBits, SlotState, entry_flag, header_flag, kind};

const NAME: u64 = 5;
const SLOT: u32 = 5;
const PAUSE: u64 = 5_000;
/// Waiters in the first packet, and in every other.
const PIECE: u16 = 31;
const WAITERS: u16 = 70;

/// Node 0 has handed its lock to node 1, with more waiters than fit into a packet. The next of them are under way.
fn handing() -> (Bench, Vec<RequestId>) {
    let mut bench = Bench::with_lease(3, 60_000_000);
    let first = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, first);
    // The heir, and who waits behind it.
    let waiting = (0..=WAITERS).map(|_| {
        let id = bench.ask(1, NAME, Mode::Exclusive);
        bench.run();
        id
    });
    let waiting = waiting.collect();
    bench.release(0, first);
    bench.run_until_sent(kind::lock::QUEUE);
    (bench, waiting)
}

/// Which waiters node 0 hands on: from where.
fn handed(bench: &mut Bench) -> Vec<u16> {
    let sent = bench.sent();
    assert!(sent.iter().all(|(header, _)| (header.kind, header.destination) == (kind::lock::QUEUE, handle(1))));
    sent.iter().map(|(header, _)| header.position).collect()
}

/// The tenure that the heir has the slot for.
fn tenure(bench: &Bench) -> u32 {
    bench.slot(NAME).tenure
}

/// So many have arrived, says a node of a tenure.
fn arrived(bench: &mut Bench, source: usize, tenure: u32, waiters: u16) {
    let header = Header { epoch: EPOCH, kind: kind::lock::QUEUED, source: handle(source), ..Header::default() };
    let entry = Entry { slot: SLOT, tenure, ..Entry::default() };
    bench.tell(0, Header { position: waiters + 1, ..header }, &[entry]);
}

#[test]
fn waiters_follow_as_they_are_acknowledged_by_the_heir_and_by_nobody_else() {
    let (mut bench, _) = handing();
    let tenure = tenure(&bench);
    assert_eq!(handed(&mut bench), [PIECE]);
    arrived(&mut bench, 2, tenure, 2 * PIECE);
    arrived(&mut bench, 1, tenure + 1, 2 * PIECE);
    arrived(&mut bench, 1, tenure - 1, 2 * PIECE);
    assert_eq!(handed(&mut bench), []);
    arrived(&mut bench, 1, tenure, 2 * PIECE);
    assert_eq!(handed(&mut bench), [2 * PIECE]);
    // A late one: what has arrived stays arrived.
    arrived(&mut bench, 1, tenure, PIECE);
    assert_eq!(handed(&mut bench), [2 * PIECE]);
    assert!(!bench.nodes[0].is_idle());
    arrived(&mut bench, 1, tenure, WAITERS);
    assert_eq!(handed(&mut bench), []);
    assert!(bench.nodes[0].is_idle(), "all have arrived");
}

#[test]
fn waiters_that_nobody_acknowledges_are_sent_in_growing_pauses_and_given_up_after_a_dozen() {
    let (mut bench, _) = handing();
    bench.sent();
    for pause in [2, 4, 8, 16, 32, 64, 64, 64, 64, 64, 64] {
        bench.wait(pause * PAUSE - 1);
        assert_eq!(handed(&mut bench), []);
        bench.wait(1);
        assert_eq!(handed(&mut bench), [PIECE]);
    }
    assert!(!bench.nodes[0].is_idle());
    bench.wait(64 * PAUSE);
    assert_eq!(handed(&mut bench), []);
    assert!(bench.nodes[0].is_idle(), "its waiters ask again themselves");
}

#[test]
fn an_heir_that_answers_late_is_not_given_up() {
    let (mut bench, _) = handing();
    let tenure = tenure(&bench);
    bench.sent();
    bench.wait(500 * PAUSE);
    assert!(bench.sent().len() > 6);
    arrived(&mut bench, 1, tenure, 2 * PIECE);
    assert_eq!(handed(&mut bench), [2 * PIECE]);
    bench.wait(2 * PAUSE);
    assert_eq!(handed(&mut bench), [2 * PIECE], "the pauses begin anew");
    bench.wait(500 * PAUSE);
    assert!(bench.sent().len() > 6, "and so does the count");
}

/// Whoever inherits then hears of them from themselves.
#[test]
fn waiters_are_handed_on_no_more_after_a_census_of_their_slot() {
    let (mut bench, _) = handing();
    let question = Entry { request: 77, slot: SLOT, tenure: tenure(&bench), ..Entry::default() };
    bench.sent();
    bench.tell(0, Header { epoch: EPOCH, kind: kind::lock::CENSUS, ..Header::default() }, &[question]);
    bench.sent();
    bench.wait(8 * PAUSE);
    assert_eq!(bench.kinds_sent(), []);
    assert!(bench.nodes[0].is_idle());
}

#[test]
fn all_who_were_handed_over_in_pieces_are_served_in_turn() {
    let (mut bench, waiting) = handing();
    bench.run();
    let mut last = None;
    for id in waiting {
        let (token, _) = bench.granted(1, id);
        assert!(last < Some(token));
        last = Some(token);
        bench.release(1, id);
        bench.run();
    }
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
    assert!(bench.nodes.iter().all(|node| node.is_idle()));
}

fn bits() -> u16 {
    SlotBits { state: SlotState::Managed, transferred: true, ..SlotBits::default() }.to_u16()
}

/// A GRANT with the agency from node 1, with no waiters.
fn hand_over(bench: &mut Bench, request: u64, tenure: u32) {
    let entry = Entry { name: NAME, request, slot: SLOT, tenure, holder: handle(0), ..Entry::default() };
    let flags = entry_flag::AGENCY | entry_flag::EXCLUSIVE;
    let header = Header { epoch: EPOCH, kind: kind::lock::GRANT, source: handle(1), ..Header::default() };
    bench.tell(0, header, &[Entry { flags, slot_bits: bits(), ..entry }]);
}

#[test]
fn an_heir_acknowledges_its_own_grant_as_often_as_it_comes_and_no_earlier_one() {
    let mut bench = Bench::new(2);
    let waits = bench.ask(0, NAME, Mode::Exclusive);
    bench.flying.clear();
    hand_over(&mut bench, waits.0, 6);
    assert_eq!(bench.granted(0, waits).1, Path::Agent);
    assert_eq!(bench.kinds_sent(), [], "it goes along with the next packet");
    hand_over(&mut bench, waits.0, 6);
    let sent = bench.sent();
    let (header, entry) = sent[0];
    assert_eq!((header.kind, header.destination, header.position), (kind::lock::QUEUED, handle(1), 1));
    assert_eq!(entry.tenure, 6);
    bench.sent();
    hand_over(&mut bench, waits.0, 5);
    assert_eq!(bench.kinds_sent(), [], "of before: nobody waits for an answer to that");
    bench.quiet(0);
}

/// The request may have been given up, and the node is agent all the same.
#[test]
fn an_agency_that_nobody_waits_for_any_more_is_confirmed_and_given_back() {
    for handed in [false, true] {
        let mut bench = Bench::new(2);
        let id = bench.ask(0, NAME, Mode::Exclusive);
        bench.flying.clear();
        bench.nodes[0].cancel(bench.now, id);
        bench.collect(0);
        bench.sent();
        let state = SlotState::Managed;
        let entry = Entry { name: NAME, request: id.0, slot: SLOT, tenure: 6, holder: handle(0), ..Entry::default() };
        let slot_bits = SlotBits { state, transferred: handed, ..SlotBits::default() }.to_u16();
        let flags = entry_flag::AGENCY | entry_flag::EXCLUSIVE;
        let source = if handed { handle(1) } else { 0 };
        let header = Header { epoch: EPOCH, kind: kind::lock::GRANT, source, ..Header::default() };
        bench.tell(0, header, &[Entry { flags, slot_bits, ..entry }]);
        bench.quiet(0);
        let sent = bench.sent();
        let change = sent.iter().find(|(header, _)| header.kind == kind::lock::RETENURE).expect("it asks").1;
        assert_eq!((change.tenure, SlotBits::from_u16(change.slot_bits).state), (6, SlotState::Unheld));
        assert_eq!(bench.nodes[0].holds().count(), 0);
    }
}

/// A grant of its own former agency is of before all that the next agent has granted.
#[test]
fn who_still_waits_when_its_nodes_agency_has_gone_takes_no_grant_of_that() {
    let mut bench = Bench::new(2);
    let first = bench.ask(0, NAME, Mode::Exclusive);
    let waits = bench.ask(0, NAME, Mode::Exclusive);
    bench.flying.pop_back();
    bench.run();
    let (token, _) = bench.granted(0, first);
    let heir = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    bench.release(0, first);
    bench.run();
    bench.granted(1, heir);
    // What acknowledges the agency goes along.
    bench.ask(1, NAME + 1, Mode::Exclusive);
    bench.run();
    assert!(bench.nodes[0].books(SLOT).is_none());
    let tenure = token.stamp().tenure;
    for (tenure, is_taken) in [(tenure, false), (tenure + 1, true)] {
        let entry = Entry { name: NAME, request: waits.0, slot: SLOT, tenure, holder: handle(0), ..Entry::default() };
        let entry = Entry { flags: entry_flag::EXCLUSIVE, sequence: 3, slot_bits: bits(), ..entry };
        let header = Header { epoch: EPOCH, kind: kind::lock::GRANT, source: handle(1), ..Header::default() };
        bench.tell(0, header, &[entry]);
        assert_eq!(bench.nodes[0].event().is_some(), is_taken, "tenure {tenure}");
    }
}

/// The switch has given the slot away meanwhile.
#[test]
fn an_agent_whose_tenure_is_over_sends_on_what_came_for_it_and_keeps_nothing() {
    let mut bench = Bench::new(2);
    let held = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    let (token, _) = bench.granted(0, held);
    bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    bench.release(0, held);
    let sent = bench.sent();
    let (header, change) = sent[0];
    assert_eq!((header.kind, change.holder), (kind::lock::RETENURE, handle(1)), "it is to go to node 1");
    let tenure = token.stamp().tenure;
    let late = Entry { name: NAME, request: 101 << 40 | 77, slot: SLOT, tenure, holder: handle(1), ..Entry::default() };
    let late = Entry { slot_bits: bits(), ..late };
    let acquire = Header { epoch: EPOCH, kind: kind::lock::ACQUIRE, source: handle(1), ..Header::default() };
    bench.tell(0, acquire, &[late]);
    let answer = Header { epoch: EPOCH, kind: kind::lock::RETENURED, flags: header_flag::STALE_TENURE, ..acquire };
    let answer = Header { source: 0, ..answer };
    let over = Entry { request: change.request, slot: SLOT, tenure: tenure + 4, ..Entry::default() };
    bench.tell(0, answer, &[Entry { request: change.request + 1, ..over }]);
    assert_eq!(bench.kinds_sent(), [], "that is the answer to something else");
    bench.tell(0, answer, &[over]);
    let sent: Vec<(u8, u64)> = bench.sent().iter().map(|(header, entry)| (header.kind, entry.request)).collect();
    assert_eq!(sent, [(kind::lock::ACQUIRE, late.request)]);
    assert!(bench.nodes[0].is_idle());
    assert_eq!(bench.count(LockKind::Queue), 0);
}

/// A slot has one timer for all that it waits for.
#[test]
fn what_is_due_in_a_slot_at_different_times_is_done_each_at_its_own() {
    let (mut bench, _) = handing();
    bench.sent();
    let late = |number: u64| {
        let entry =
            Entry { name: NAME, request: 102 << 40 | number, slot: SLOT, holder: handle(2), ..Entry::default() };
        Entry { tenure: 9, slot_bits: bits(), ..entry }
    };
    let acquire = Header { epoch: EPOCH, kind: kind::lock::ACQUIRE, source: handle(2), ..Header::default() };
    bench.tell(0, acquire, &[late(1)]);
    bench.wait(PAUSE);
    assert_eq!(bench.kinds_sent(), [kind::lock::ACQUIRE], "it goes back");
    bench.wait(PAUSE / 2);
    bench.tell(0, acquire, &[late(2)]);
    bench.wait(PAUSE / 2);
    assert_eq!(handed(&mut bench), [PIECE], "and so on in two pauses");
    bench.wait(PAUSE / 2);
    assert_eq!(bench.kinds_sent(), [kind::lock::ACQUIRE]);
}
