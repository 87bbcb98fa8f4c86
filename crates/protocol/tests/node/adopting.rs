//! A node that becomes agent by a controller's word (docs/protocol.md, Recovery): page by page, and in what order.

use crate::bench::{Bench, EPOCH, LEASE, SLOTS, handle};
use wayside_protocol::memory::{SlotWord, SwitchMemory};
use wayside_protocol::{Mode, RequestId};
use wayside_wire::{Entry, Header, SlotBits, SlotState, entry_flag, header_flag, kind, limits};

const NEXT_EPOCH: u32 = EPOCH + 1;
const CENSUS: u64 = 77;
const NAME: u64 = 5;
const SLOT: u32 = 5;
const HELD: u8 = entry_flag::HELD | entry_flag::EXCLUSIVE;
/// Between the confirmations that nobody waits for.
const CONFIRMATION: u64 = 8_000;
const LONG: u64 = 60_000_000;

fn agency(slot: u32, tenure: u32) -> Entry {
    let word = SlotBits { state: SlotState::Managed, transferred: true, ..SlotBits::default() };
    let (slot_bits, flags) = (word.to_u16(), entry_flag::AGENCY);
    Entry { slot, tenure, holder: handle(0), slot_bits, flags, ..Entry::default() }
}

/// Node 1 holds the name of this number.
fn held_by_node_1(slot: u32) -> Entry {
    let (name, request) = (slot.into(), (101 << 40) | (1000 + u64::from(slot)));
    Entry { name, request, slot, tenure: 1, holder: handle(1), flags: HELD, ..Entry::default() }
}

/// A page of an adoption. Whether node 0 says that it has it.
fn page(bench: &mut Bench, id: u64, position: u16, is_last: bool, entries: &[Entry]) -> bool {
    page_with(bench, Entry { request: id, ..Entry::default() }, position, is_last, entries)
}

fn page_with(bench: &mut Bench, about: Entry, position: u16, is_last: bool, entries: &[Entry]) -> bool {
    let epoch = bench.nodes[0].session().expect("a session").epoch;
    let flags = if is_last { header_flag::LAST } else { 0 };
    let header = Header { epoch, kind: kind::lock::ADOPT, position, flags, ..Header::default() };
    let before = bench.flying.len();
    bench.tell(0, header, &[&[about], entries].concat());
    let is_it = |packet: &[u8]| {
        let header = wayside_wire::check(packet).expect("whole");
        (header.kind, header.position) == (kind::lock::ADOPTED, position)
    };
    let told: Vec<bool> = bench.flying.iter().skip(before).map(|flying| is_it(&flying.packet)).collect();
    let place = told.iter().position(|told| *told);
    if let Some(place) = place {
        bench.flying.remove(before + place);
    }
    place.is_some()
}

/// A census of all slots, in the next epoch.
fn ask_all(bench: &mut Bench, id: u64) {
    let about = Entry { request: id, slot: limits::ALL_SLOTS, ..Entry::default() };
    bench.tell(0, Header { epoch: NEXT_EPOCH, kind: kind::lock::CENSUS, ..Header::default() }, &[about]);
    bench.flying.clear();
}

fn adopt_the_rest(bench: &mut Bench, id: u64) {
    assert!(page_with(bench, Entry { request: id, ..agency(0, 1) }, 0, true, &[]));
}

fn hold(bench: &mut Bench, name: u64) -> RequestId {
    let id = bench.ask(0, name, Mode::Exclusive);
    bench.run();
    bench.granted(0, id);
    id
}

fn is_agent(bench: &Bench, slot: u32) -> bool {
    bench.nodes[0].books(slot).is_some()
}

/// Slots that node 0 asks to be confirmed for, or to free, in the order in which it does.
fn changes(bench: &mut Bench) -> Vec<u32> {
    let sent = bench.sent().into_iter();
    sent.filter(|(header, _)| header.kind == kind::lock::RETENURE).map(|(_, entry)| entry.slot).collect()
}

#[test]
fn a_copy_of_an_earlier_page_keeps_no_later_one_from_being_taken() {
    let mut bench = Bench::new(2);
    assert!(page(&mut bench, CENSUS, 0, false, &[agency(SLOT, 5)]));
    assert!(page(&mut bench, CENSUS, 1, false, &[held_by_node_1(SLOT)]));
    assert!(page(&mut bench, CENSUS, 0, false, &[agency(SLOT, 5)]), "its answer was lost");
    assert!(!page(&mut bench, CENSUS, 3, true, &[]), "one is missing");
    assert!(page(&mut bench, CENSUS, 2, true, &[]));
    let holders: Vec<u16> = bench.nodes[0].books(SLOT).into_iter().flatten().map(|booked| booked.holder).collect();
    assert_eq!(holders, [handle(1)]);
}

#[test]
fn an_adopted_agent_asks_to_be_confirmed_in_its_own_slot_and_tenure() {
    let mut bench = Bench::with_lease(2, LONG);
    assert!(page(&mut bench, CENSUS, 0, true, &[agency(9, 7), held_by_node_1(9)]));
    assert_eq!(bench.kinds_sent(), []);
    bench.wait(CONFIRMATION);
    let sent = bench.sent();
    let change = sent.iter().find(|(header, _)| header.kind == kind::lock::RETENURE).expect("it asks").1;
    assert_eq!((change.slot, change.tenure, change.holder), (9, 7, handle(0)));
}

/// The first controller's successor has asked anew.
#[test]
fn of_two_adoptions_of_a_slot_the_one_of_the_later_tenure_stands_and_not_before_it_is_complete() {
    let mut bench = Bench::new(2);
    assert!(page(&mut bench, CENSUS, 0, false, &[agency(SLOT, 5)]));
    assert!(page(&mut bench, CENSUS + 1, 0, false, &[agency(SLOT, 7)]));
    assert!(page(&mut bench, CENSUS, 1, true, &[held_by_node_1(SLOT)]));
    assert!(!is_agent(&bench, SLOT), "holders are to come");
    assert!(page(&mut bench, CENSUS + 1, 1, true, &[held_by_node_1(SLOT)]));
    assert!(is_agent(&bench, SLOT));
}

/// Who waits with an agent need not ask again, as what it waits with is told to nobody.
#[test]
fn who_waits_with_an_agent_at_a_census_waits_with_it_after_the_adoption() {
    let mut bench = Bench::new(2);
    let held = hold(&mut bench, NAME);
    let waits = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    let tenure = bench.slot(NAME).tenure + 1;
    let question = Entry { request: CENSUS, slot: SLOT, tenure, ..Entry::default() };
    bench.tell(0, Header { epoch: EPOCH, kind: kind::lock::CENSUS, ..Header::default() }, &[question]);
    bench.flying.clear();
    let own = Entry { request: held.0, holder: handle(0), ..held_by_node_1(SLOT) };
    assert!(page(&mut bench, CENSUS, 0, true, &[agency(SLOT, tenure + 1), own]));
    let booked: Vec<(RequestId, bool)> = bench.nodes[0]
        .books(SLOT)
        .into_iter()
        .flatten()
        .map(|booked| (booked.request, booked.token.is_some()))
        .collect();
    assert_eq!(booked, [(held, true), (waits, false)]);
}

#[test]
fn agents_are_confirmed_in_the_order_in_which_they_were_adopted_and_then_nothing_is_left_to_do() {
    let mut bench = Bench::with_lease(2, LONG);
    let slots: Vec<u32> = (0..40).map(|n| 7 * n % SLOTS).collect();
    for (index, chunk) in slots.chunks(15).enumerate() {
        let entries: Vec<Entry> = chunk.iter().flat_map(|&slot| [agency(slot, 7), held_by_node_1(slot)]).collect();
        assert!(page(&mut bench, CENSUS, index as u16, index == 2, &entries));
    }
    bench.wait(CONFIRMATION);
    assert_eq!(changes(&mut bench), slots[..32]);
    // Those are asked for again, as nobody answers, and the others for the first time.
    let mut asked = Vec::new();
    while asked.len() < 8 {
        bench.wait(CONFIRMATION / 8);
        asked.extend(changes(&mut bench).into_iter().filter(|slot| slots[32..].contains(slot)));
    }
    assert_eq!(asked[..8], slots[32..]);
    // Once all are confirmed nobody wakes up for them.
    let mut bench = Bench::with_lease(2, LONG);
    assert!(page(&mut bench, CENSUS, 0, true, &[agency(9, 7), held_by_node_1(9)]));
    bench.wait(CONFIRMATION);
    let change = bench.sent().into_iter().find(|(header, _)| header.kind == kind::lock::RETENURE).expect("it asks").1;
    let header = Header { epoch: EPOCH, kind: kind::lock::RETENURED, flags: header_flag::APPLIED, ..Header::default() };
    bench.tell(0, header, &[Entry { tenure: 8, ..change }]);
    bench.flying.clear();
    let next = bench.nodes[0].next_timer().expect("heartbeats");
    assert!(next.since(bench.now) > 10 * CONFIRMATION, "in {} us", next.since(bench.now));
}

/// A million locks that nobody disputes need no million packets.
#[test]
fn what_a_node_adopts_with_the_rest_it_asks_nobody_about_until_it_is_given_back() {
    let mut bench = Bench::with_lease(1, LONG);
    let held = [1, 2, 3].map(|name| hold(&mut bench, name));
    ask_all(&mut bench, CENSUS);
    adopt_the_rest(&mut bench, CENSUS);
    bench.wait(10 * CONFIRMATION);
    assert_eq!(changes(&mut bench), []);
    bench.release(0, held[1]);
    assert_eq!(changes(&mut bench), [2]);
}

#[test]
fn an_agent_whose_own_node_holds_nothing_is_none_of_the_rest() {
    let mut bench = Bench::new(2);
    // Node 1 holds a name of the slot alone.
    let first = hold(&mut bench, NAME + u64::from(SLOTS));
    let other = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(1, other);
    bench.release(0, first);
    bench.run();
    assert!(is_agent(&bench, SLOT));
    ask_all(&mut bench, CENSUS);
    adopt_the_rest(&mut bench, CENSUS);
    assert!(!is_agent(&bench, SLOT));
    bench.wait(10 * CONFIRMATION);
    assert_eq!(changes(&mut bench), []);
}

/// Of the same name, of the same node.
#[test]
fn who_waits_for_what_its_node_adopts_with_the_rest_has_it_next_and_not_before() {
    let mut bench = Bench::with_lease(1, LONG);
    let held = hold(&mut bench, NAME);
    let waits = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    ask_all(&mut bench, CENSUS);
    bench.switch.set_epoch(NEXT_EPOCH);
    let (state, agent) = (SlotState::Managed, handle(0));
    let word = SlotWord { state, agent, transferred: true, ..SlotWord::unheld(1) };
    assert!(bench.switch.cas_slot(1, SLOT, bench.switch.load_slot(1, SLOT), word));
    adopt_the_rest(&mut bench, CENSUS);
    assert_eq!(bench.nodes[0].books(SLOT).into_iter().flatten().filter(|booked| booked.token.is_some()).count(), 1);
    bench.pass(100_000);
    bench.quiet(0);
    bench.release(0, held);
    bench.run();
    bench.granted(0, waits);
}

/// An agent that somebody has asked meanwhile was written out in full, and may be said in a word again.
#[test]
fn what_is_adopted_with_the_rest_is_in_the_books_once() {
    let mut bench = Bench::new(2);
    hold(&mut bench, NAME);
    let gives_up = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    bench.nodes[1].cancel(bench.now, gives_up);
    bench.collect(1);
    bench.run();
    ask_all(&mut bench, CENSUS);
    adopt_the_rest(&mut bench, CENSUS);
    assert_eq!(bench.nodes[0].books(SLOT).into_iter().flatten().count(), 1);
}

/// The controller has begun anew between two censuses.
#[test]
fn what_was_given_back_between_two_censuses_is_nobodys_two_leases_after_the_second() {
    let mut bench = Bench::new(1);
    let held = hold(&mut bench, NAME);
    ask_all(&mut bench, CENSUS);
    bench.switch.set_epoch(NEXT_EPOCH);
    bench.release(0, held);
    let sent = bench.sent();
    assert_eq!(sent[0].0.kind, kind::lock::RELEASE);
    ask_all(&mut bench, CENSUS + 1);
    adopt_the_rest(&mut bench, CENSUS + 1);
    let header = Header { epoch: NEXT_EPOCH, kind: kind::lock::RELEASED, ..Header::default() };
    bench.tell(0, header, &[sent[0].1]);
    (0..30).for_each(|_| bench.pass(LEASE / 10));
    assert!(bench.nodes[0].session().is_some() && bench.nodes[0].is_idle());
}

/// What is confirmed later has its time, which is not that of those whom nobody adopts.
#[test]
fn a_confirmation_that_is_due_during_a_census_ends_nothing_that_waits_for_its_adoption() {
    let mut bench = Bench::with_lease(2, LONG);
    assert!(page(&mut bench, 1, 0, true, &[agency(9, 7), held_by_node_1(9)]));
    hold(&mut bench, NAME);
    ask_all(&mut bench, CENSUS);
    bench.wait(CONFIRMATION);
    bench.sent();
    // Who asks for it waits until it is adopted: an agent that is none would say so, or claim the slot.
    let asks = Entry { flags: entry_flag::EXCLUSIVE, tenure: 0, ..held_by_node_1(SLOT) };
    let header = Header { epoch: NEXT_EPOCH, kind: kind::lock::ACQUIRE, source: handle(1), ..Header::default() };
    let managed = SlotBits { state: SlotState::Managed, ..SlotBits::default() };
    bench.tell(0, header, &[Entry { slot_bits: managed.to_u16(), ..asks }]);
    assert_eq!(bench.kinds_sent(), []);
}
