//! A census of some slots, while the switch serves all others (docs/protocol.md, Recovery), and questions about one.

use crate::bench::{Bench, EPOCH, LEASE, handle};
use wayside_protocol::memory::{SlotWord, SwitchMemory};
use wayside_protocol::{Mode, NodeConfig, RequestId};
use wayside_wire::{
    Entry, Header, LockKind, Policy, SlotBits, SlotState, check, entries, entry_flag, header_flag, kind,
};

const CENSUS: u64 = 77;
const HELD: u8 = entry_flag::HELD | entry_flag::EXCLUSIVE;

fn set(bench: &Bench, slot: u32, word: SlotWord) {
    assert!(bench.switch.cas_slot(1, slot, bench.switch.load_slot(1, slot), word));
}

/// The controller freezes a slot. The census's tenure.
fn freeze(bench: &Bench, slot: u32) -> u32 {
    let tenure = bench.switch.load_slot(1, slot).tenure + 1;
    set(bench, slot, SlotWord { state: SlotState::Frozen, transferred: true, ..SlotWord::unheld(tenure) });
    tenure
}

fn about(slot: u32, tenure: u32) -> Entry {
    Entry { request: CENSUS, slot, tenure, ..Entry::default() }
}

/// What node 0 reports of these slots: the page's flags and entries, if it says anything.
fn asked(bench: &mut Bench, epoch: u32, position: u16, slots: &[Entry]) -> Option<(u16, Vec<Entry>)> {
    bench.flying.clear();
    bench.tell(0, Header { epoch, kind: kind::lock::CENSUS, position, ..Header::default() }, slots);
    let packet = bench.flying.pop_back()?.packet;
    let header = check(&packet).expect("well formed");
    assert_eq!((header.kind, header.position), (kind::lock::REPORT, position));
    let entries: Vec<Entry> = entries(&packet).collect();
    assert_eq!((entries[0].request, entries[0].flags), (CENSUS, 0));
    Some((header.flags, entries[1..].to_vec()))
}

/// Node 0 holds the names 1 to 3, and node 1 waits for the first.
fn held(config: &NodeConfig) -> (Bench, [RequestId; 3], RequestId) {
    let mut bench = Bench::with(2, LEASE, Policy::Fair, config);
    let held = [1, 2, 3].map(|name| bench.ask(0, name, Mode::Exclusive));
    bench.run();
    while bench.nodes[0].event().is_some() {}
    let waits = bench.ask(1, 1, Mode::Exclusive);
    bench.run();
    (bench, held, waits)
}

fn of(entries: &[Entry]) -> Vec<(u32, u8)> {
    entries.iter().map(|entry| (entry.slot, entry.flags)).collect()
}

#[test]
fn of_slots_at_a_census_all_that_is_held_is_told_and_nothing_is_granted_before_an_adoption() {
    // Looked for among all requests, or slot by slot.
    for scanned_most in [0, 1_000] {
        let (mut bench, held, waits) = held(&NodeConfig { scanned_most, ..NodeConfig::new(1) });
        let tenure = freeze(&bench, 1);
        let slots = [about(1, tenure), about(9, 4)];
        let (flags, reported) = asked(&mut bench, EPOCH, 0, &slots).expect("a report");
        assert_eq!((flags, of(&reported)), (header_flag::LAST, vec![(1, HELD), (1, entry_flag::AGENCY)]));
        assert_eq!((reported[0].request, reported[0].holder), (held[0].0, handle(0)));
        assert_eq!(asked(&mut bench, EPOCH, 0, &slots), Some((flags, reported.clone())), "as often as it is asked");
        bench.release(0, held[0]);
        bench.pass(20_000);
        bench.quiet(1);
        // Node 0 goes on with the others.
        bench.release(0, held[1]);
        bench.run();
        assert_eq!(bench.slot(2).state, SlotState::Unheld);
        let bits = SlotBits { state: SlotState::Managed, transferred: true, ..SlotBits::default() };
        let agency = Entry { flags: entry_flag::AGENCY, holder: handle(0), ..about(1, tenure + 1) };
        let agency = Entry { slot_bits: bits.to_u16(), ..agency };
        let adopt = Header { epoch: EPOCH, kind: kind::lock::ADOPT, flags: header_flag::LAST, ..Header::default() };
        bench.tell(0, adopt, &[about(0, 0), agency, reported[0]]);
        let unfrozen = SlotWord { state: SlotState::Managed, transferred: true, ..SlotWord::unheld(tenure + 1) };
        set(&bench, 1, SlotWord { agent: handle(0), ..unfrozen });
        // A late copy of the question is of before this agency.
        asked(&mut bench, EPOCH, 0, &slots).expect("a report");
        bench.pass(200_000);
        bench.granted(1, waits);
    }
}

#[test]
fn a_long_report_has_pages_which_are_told_again_as_they_were() {
    let (mut bench, held, _) = held(&NodeConfig { page_entries: 2, ..NodeConfig::new(1) });
    let slots = [1, 2, 3].map(|slot| about(slot, freeze(&bench, slot)));
    let first = asked(&mut bench, EPOCH, 0, &slots).expect("a page");
    assert_eq!((first.0, of(&first.1)), (0, vec![(1, HELD), (2, HELD)]));
    // What has become of it meanwhile is no part of the census.
    bench.release(0, held[2]);
    let last = asked(&mut bench, EPOCH, 1, &slots).expect("a page");
    assert_eq!((last.0, of(&last.1)), (header_flag::LAST, vec![(3, HELD), (1, entry_flag::AGENCY)]));
    assert_eq!(asked(&mut bench, EPOCH, 2, &slots), None, "there are two");
    assert_eq!(asked(&mut bench, EPOCH, 0, &slots), Some(first));
}

/// Who asks again has lost one page, and would take the silence for that of somebody who never answers. Meanwhile
/// thousands of other censuses may begin and end.
#[test]
fn a_page_is_told_again_as_long_as_somebody_may_ask_for_it_whatever_was_reported_since() {
    let (mut bench, ..) = held(&NodeConfig { page_entries: 2, ..NodeConfig::new(1) });
    let slots = [1, 2, 3].map(|slot| about(slot, freeze(&bench, slot)));
    asked(&mut bench, EPOCH, 0, &slots).expect("a page");
    let others = |bench: &mut Bench, ids: std::ops::Range<u64>| {
        for request in ids {
            let slots = slots.map(|slot| Entry { request, ..slot });
            bench.tell(0, Header { epoch: EPOCH, kind: kind::lock::CENSUS, ..Header::default() }, &slots);
            bench.flying.clear();
        }
    };
    others(&mut bench, 1_000..2_000);
    for round in 2_000..2_003 {
        let (flags, _) = asked(&mut bench, EPOCH, 1, &slots).expect("or it would be asked for for ever");
        assert_eq!(flags, header_flag::LAST);
        bench.pass(LEASE * 3 / 2);
        others(&mut bench, round..round + 1);
    }
    bench.pass(LEASE * 3 / 2);
    others(&mut bench, 3_000..3_001);
    assert_eq!(asked(&mut bench, EPOCH, 1, &slots), None, "nobody has asked for two leases");
}

#[test]
fn a_census_of_some_slots_is_of_the_nodes_epoch_and_begins_with_its_first_page() {
    let (mut bench, held, waits) = held(&NodeConfig::new(1));
    let slots = [about(1, 9)];
    assert_eq!(asked(&mut bench, EPOCH - 1, 0, &slots), None);
    assert_eq!(asked(&mut bench, EPOCH + 1, 0, &slots), None);
    assert_eq!(asked(&mut bench, EPOCH, 1, &slots), None);
    bench.release(0, held[0]);
    bench.pass(20_000);
    bench.granted(1, waits);
}

#[test]
fn an_agent_that_a_census_has_stopped_and_nobody_adopts_is_forgotten_in_two_leases() {
    for (after, is_known) in [(LEASE * 3 / 2, true), (LEASE * 5 / 2, false)] {
        let (mut bench, ..) = held(&NodeConfig::new(1));
        let tenure = freeze(&bench, 1);
        asked(&mut bench, EPOCH, 0, &[about(1, tenure)]).expect("a report");
        bench.pass(after);
        let (_, reported) = asked(&mut bench, EPOCH, 0, &[about(1, tenure)]).expect("a report");
        assert_eq!(of(&reported).contains(&(1, entry_flag::AGENCY)), is_known);
    }
}

/// The switch has long named it as agent.
#[test]
fn a_node_that_is_asked_about_a_slot_that_it_does_not_know_claims_it_and_frees_it() {
    for transferred in [false, true] {
        let mut bench = Bench::new(1);
        let word = SlotWord { state: SlotState::Managed, agent: handle(0), ..SlotWord::unheld(5) };
        set(&bench, 3, SlotWord { transferred, ..word });
        let bits = SlotBits { state: SlotState::Managed, transferred, ..SlotBits::default() };
        let question = Entry { slot: 3, tenure: 5, holder: handle(0), slot_bits: bits.to_u16(), ..Entry::default() };
        let inspect = Header { epoch: EPOCH, kind: kind::lock::INSPECT, ..Header::default() };
        bench.tell(0, inspect, &[question]);
        bench.pass(20_000);
        // Of one that was handed over others may know: a census finds out.
        let gaps = bench.to_controller.iter().map(|packet| check(packet).expect("well formed"));
        let gaps = gaps.filter(|header| header.kind == LockKind::Gap as u8).count();
        let state = bench.slot(3).state;
        assert_eq!((gaps, state == SlotState::Unheld), (usize::from(transferred), !transferred));
    }
}

#[test]
fn an_agent_that_is_asked_about_its_slot_has_nothing_to_say() {
    let (mut bench, ..) = held(&NodeConfig::new(1));
    // With a waiter, and alone.
    for slot in [1, 2] {
        let word = bench.switch.load_slot(1, slot);
        let bits = SlotBits { state: word.state, transferred: word.transferred, ..SlotBits::default() };
        let entry =
            Entry { slot, tenure: word.tenure, holder: handle(0), slot_bits: bits.to_u16(), ..Entry::default() };
        bench.tell(0, Header { epoch: EPOCH, kind: kind::lock::INSPECT, ..Header::default() }, &[entry]);
        assert!(bench.flying.is_empty());
    }
}

/// A grant of before the census may be under way still: what it gave is in the census, as nobody's.
#[test]
fn who_waits_at_a_census_takes_no_grant_of_before_it() {
    let mut bench = Bench::new(2);
    let held = bench.ask(1, 5, Mode::Exclusive);
    bench.run();
    bench.granted(1, held);
    let waits = bench.ask(0, 5, Mode::Exclusive);
    bench.run();
    let tenure = freeze(&bench, 5);
    let (_, reported) = asked(&mut bench, EPOCH, 0, &[about(5, tenure)]).expect("a report");
    assert_eq!(reported, []);
    let bits = SlotBits { state: SlotState::Managed, transferred: true, ..SlotBits::default() };
    for (tenure, is_taken) in [(tenure, false), (tenure + 1, true)] {
        let entry = Entry { name: 5, request: waits.0, slot: 5, tenure, holder: handle(0), ..Entry::default() };
        let entry = Entry { flags: entry_flag::EXCLUSIVE, sequence: 3, slot_bits: bits.to_u16(), ..entry };
        bench.tell(
            0,
            Header { epoch: EPOCH, kind: kind::lock::GRANT, source: handle(1), ..Header::default() },
            &[entry],
        );
        assert_eq!(bench.nodes[0].event().is_some(), is_taken, "tenure {tenure}");
    }
}

#[test]
fn a_late_adoption_of_an_agency_that_the_node_has_changes_nothing() {
    let (mut bench, held, waits) = held(&NodeConfig::new(1));
    let word = bench.slot(1);
    let bits = SlotBits { state: SlotState::Managed, transferred: true, ..SlotBits::default() };
    let agency = Entry { flags: entry_flag::AGENCY, holder: handle(0), ..about(1, word.tenure) };
    let adopt = Header { epoch: EPOCH, kind: kind::lock::ADOPT, flags: header_flag::LAST, ..Header::default() };
    bench.tell(0, adopt, &[about(0, 0), Entry { slot_bits: bits.to_u16(), ..agency }]);
    let confirmed = bench.flying.pop_back().expect("or it would be told for ever").packet;
    assert_eq!(check(&confirmed).expect("whole").kind, kind::lock::ADOPTED);
    bench.release(0, held[0]);
    bench.run();
    bench.granted(1, waits);
}

#[test]
fn an_adoption_is_taken_page_by_page() {
    let (mut bench, ..) = held(&NodeConfig::new(1));
    let tenure = freeze(&bench, 1);
    let (_, reported) = asked(&mut bench, EPOCH, 0, &[about(1, tenure)]).expect("a report");
    let bits = SlotBits { state: SlotState::Managed, transferred: true, ..SlotBits::default() };
    let agency = Entry { flags: entry_flag::AGENCY, holder: handle(0), ..about(1, tenure + 1) };
    let agency = Entry { slot_bits: bits.to_u16(), ..agency };
    let mut page = |position: u16, flags: u16, entry: Entry| {
        let adopt = Header { epoch: EPOCH, kind: kind::lock::ADOPT, position, flags, ..Header::default() };
        bench.tell(0, adopt, &[about(0, 0), entry]);
        let answers = bench.flying.drain(..).map(|flying| check(&flying.packet).expect("whole"));
        let confirmed = answers.filter(|answer| answer.kind == kind::lock::ADOPTED).map(|answer| answer.position);
        (confirmed.collect::<Vec<u16>>(), bench.nodes[0].books(1).is_some())
    };
    assert_eq!(page(1, header_flag::LAST, reported[0]), (vec![], false), "it lacks the first");
    assert_eq!(page(0, 0, agency), (vec![0], false));
    assert_eq!(page(0, 0, agency), (vec![0], false), "a copy");
    assert_eq!(page(1, header_flag::LAST, reported[0]), (vec![1], true));
}
