//! A node between a census and what follows from it (docs/protocol.md, Recovery): what it does not do, and how long.

use crate::bench::{Bench, EPOCH, LEASE, SLOTS, handle};
use wayside_protocol::memory::SwitchMemory;
use wayside_protocol::{Event, Mode, NodeConfig, RequestId};
use wayside_wire::{
    Engine, Entry, Header, Policy, SlotBits, SlotState, check, entries, entry_flag, header_flag, kind, limits,
};

const NEXT_EPOCH: u32 = EPOCH + 1;
const CENSUS: u64 = 77;
const NAME: u64 = 5;
const SLOT: u32 = 5;
/// Of the same slot.
const OTHER: u64 = NAME + SLOTS as u64;
const PAUSE: u64 = 5_000;
const HELD: u8 = entry_flag::HELD | entry_flag::EXCLUSIVE;

fn about(id: u64) -> Entry {
    Entry { request: id, slot: limits::ALL_SLOTS, ..Entry::default() }
}

/// What an ADOPT begins with.
fn adoption(id: u64) -> Entry {
    Entry { request: id, ..Entry::default() }
}

fn header(kind: u8, epoch: u32) -> Header {
    Header { epoch, kind, ..Header::default() }
}

/// The entries of node 0's last packet, if that is a REPORT.
fn report(bench: &mut Bench) -> Option<Vec<Entry>> {
    let packet = bench.flying.pop_back()?.packet;
    bench.flying.clear();
    let header = check(&packet).expect("whole");
    (header.kind == kind::lock::REPORT).then(|| entries(&packet).skip(1).collect())
}

/// What node 0 reports of all slots.
fn asked(bench: &mut Bench, epoch: u32, id: u64) -> Option<Vec<Entry>> {
    bench.flying.clear();
    bench.tell(0, header(kind::lock::CENSUS, epoch), &[about(id)]);
    report(bench)
}

/// What node 0 reports of a slot, up to this tenure.
fn asked_of(bench: &mut Bench, id: u64, slot: u32, tenure: u32) -> Option<Vec<Entry>> {
    bench.flying.clear();
    let question = Entry { request: id, slot, tenure, ..Entry::default() };
    let epoch = bench.nodes[0].session().expect("a session").epoch;
    bench.tell(0, header(kind::lock::CENSUS, epoch), &[question]);
    report(bench)
}

fn of(reported: &[Entry]) -> Vec<(u32, u8)> {
    reported.iter().map(|entry| (entry.slot, entry.flags)).collect()
}

fn bits(transferred: bool) -> u16 {
    SlotBits { state: SlotState::Managed, transferred, ..SlotBits::default() }.to_u16()
}

fn agency(slot: u32, tenure: u32) -> Entry {
    let (slot_bits, flags) = (bits(true), entry_flag::AGENCY);
    Entry { slot, tenure, holder: handle(0), slot_bits, flags, ..Entry::default() }
}

/// Node 0 is told what it adopts, in one page. Whether it says that it knows.
fn adopt(bench: &mut Bench, id: u64, with_the_rest: bool, named: &[Entry]) -> bool {
    let epoch = bench.nodes[0].session().expect("a session").epoch;
    let first = if with_the_rest { Entry { request: id, ..agency(0, 1) } } else { adoption(id) };
    let header = Header { flags: header_flag::LAST, ..header(kind::lock::ADOPT, epoch) };
    bench.tell(0, header, &[&[first], named].concat());
    bench.sent().iter().any(|(header, _)| header.kind == kind::lock::ADOPTED)
}

/// What node 1 asks of the agent in a slot, as the switch sends it on. Whether node 0 has anything to say.
fn is_answered(bench: &mut Bench, slot: u32, kind: u8, tenure: u32) -> bool {
    bench.sent();
    let epoch = bench.nodes[0].session().expect("a session").epoch;
    let entry =
        Entry { name: slot.into(), request: 101 << 40 | 9, slot, tenure, holder: handle(1), ..Entry::default() };
    bench.tell(0, Header { source: handle(1), ..header(kind, epoch) }, &[Entry { slot_bits: bits(false), ..entry }]);
    !bench.sent().is_empty()
}

/// The same of a slot that was handed over to node 0: who is no agent sends it back to the switch after a while.
fn is_sent_back(bench: &mut Bench, slot: u32) -> bool {
    bench.sent();
    let epoch = bench.nodes[0].session().expect("a session").epoch;
    let entry = Entry { name: slot.into(), request: 101 << 40 | 9, slot, holder: handle(1), ..Entry::default() };
    let header = Header { source: handle(1), ..header(kind::lock::ACQUIRE, epoch) };
    bench.tell(0, header, &[Entry { slot_bits: bits(true), ..entry }]);
    bench.wait(2 * PAUSE);
    bench.kinds_sent().contains(&kind::lock::ACQUIRE)
}

fn held(bench: &mut Bench, names: &[u64]) -> Vec<RequestId> {
    let held = names.iter().map(|&name| bench.ask(0, name, Mode::Exclusive)).collect();
    bench.run();
    while bench.nodes[0].event().is_some() {}
    held
}

/// Node 0 keeps the books of a slot where node 1 alone holds something. The tenure.
fn books_of_node_1(bench: &mut Bench) -> u32 {
    let own = bench.ask(0, OTHER, Mode::Exclusive);
    bench.run();
    bench.granted(0, own);
    let id = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(1, id);
    bench.release(0, own);
    bench.run();
    bench.slot(NAME).tenure
}

#[test]
fn a_suspended_agent_takes_nothing_and_answers_nobody() {
    let mut bench = Bench::new(2);
    let tenure = books_of_node_1(&mut bench);
    asked_of(&mut bench, CENSUS, SLOT, tenure).expect("a report");
    for kind in [kind::lock::ACQUIRE, kind::lock::RELEASE, kind::lock::CANCEL, kind::lock::DOWNGRADE, kind::lock::JOIN]
    {
        assert!(!is_answered(&mut bench, SLOT, kind, tenure));
    }
    bench.wait(4 * PAUSE);
    assert_eq!(bench.kinds_sent(), [], "nor later: who asks asks again");
}

#[test]
fn an_agent_of_a_later_tenure_than_the_census_asks_about_goes_on() {
    let mut bench = Bench::new(2);
    let tenure = books_of_node_1(&mut bench);
    assert_eq!(asked_of(&mut bench, CENSUS, SLOT, tenure - 1), Some(vec![]));
    assert!(bench.nodes[0].books(SLOT).is_some());
    assert_eq!(
        asked_of(&mut bench, CENSUS + 1, SLOT, tenure).map(|found| of(&found)),
        Some(vec![(SLOT, entry_flag::AGENCY)])
    );
    assert!(bench.nodes[0].books(SLOT).is_none());
}

#[test]
fn who_claims_a_slot_at_a_census_of_it_claims_it_no_more() {
    let mut bench = Bench::new(2);
    assert!(is_answered(&mut bench, SLOT, kind::lock::ACQUIRE, 5), "it claims it");
    assert_eq!(asked_of(&mut bench, CENSUS, SLOT, 6), Some(vec![]));
    assert!(bench.nodes[0].is_idle());
    bench.wait(4 * PAUSE);
    assert_eq!(bench.kinds_sent(), []);
}

#[test]
fn a_hold_that_is_being_downgraded_is_reported_as_shared() {
    let mut bench = Bench::new(2);
    let id = bench.ask(0, NAME, Mode::Exclusive);
    bench.flying.clear();
    let grant = Entry { name: NAME, request: id.0, slot: SLOT, tenure: 4, holder: handle(0), ..Entry::default() };
    let grant = Entry { flags: entry_flag::EXCLUSIVE, sequence: 3, ..grant };
    bench.tell(0, Header { source: handle(1), ..header(kind::lock::GRANT, EPOCH) }, &[grant]);
    bench.granted(0, id);
    assert_eq!(asked_of(&mut bench, CENSUS, SLOT, 5).map(|found| of(&found)), Some(vec![(SLOT, HELD)]));
    bench.nodes[0].downgrade(bench.now, id);
    let reported = asked_of(&mut bench, CENSUS + 1, SLOT, 6).expect("a report");
    assert_eq!(of(&reported), [(SLOT, entry_flag::HELD)]);
    assert_eq!((reported[0].tenure, reported[0].sequence), (4, 3), "by its own grant");
}

/// The agent may have let readers in by now, had it acted; it does not.
#[test]
fn under_a_suspended_agent_a_hold_is_downgraded_and_given_back_by_the_switch() {
    for is_released in [false, true] {
        let mut bench = Bench::new(1);
        let ids = held(&mut bench, &[NAME]);
        let tenure = bench.slot(NAME).tenure + 1;
        asked_of(&mut bench, CENSUS, SLOT, tenure).expect("a report");
        let (now, node) = (bench.now, &mut bench.nodes[0]);
        if is_released {
            node.release(now, ids[0])
        } else {
            node.downgrade(now, ids[0])
        }
        bench.collect(0);
        assert_eq!(bench.kinds_sent(), [if is_released { kind::lock::RELEASE } else { kind::lock::DOWNGRADE }]);
        bench.quiet(0);
    }
}

#[test]
fn a_change_that_was_asked_for_before_a_census_of_all_is_not_asked_for_again() {
    for asks_again in [false, true] {
        let mut bench = Bench::new(1);
        let ids = held(&mut bench, &[NAME]);
        bench.release(0, ids[0]);
        if asks_again {
            bench.ask(0, NAME, Mode::Exclusive);
        }
        assert_eq!(asked(&mut bench, NEXT_EPOCH, CENSUS), Some(vec![]), "nobody holds it");
        assert_eq!(bench.nodes[0].is_idle(), !asks_again);
        bench.wait(3 * PAUSE);
        let sent = bench.kinds_sent();
        assert_eq!((sent.contains(&kind::lock::RETENURE), sent.contains(&kind::lock::ACQUIRE)), (false, asks_again));
    }
}

#[test]
fn a_census_of_all_is_of_no_earlier_epoch() {
    let mut bench = Bench::new(1);
    let ids = held(&mut bench, &[NAME]);
    assert_eq!(asked(&mut bench, EPOCH - 1, CENSUS), None);
    assert_eq!(bench.nodes[0].session().map(|info| info.epoch), Some(EPOCH));
    bench.release(0, ids[0]);
    bench.run();
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld, "it goes on");
}

/// The controller of the same switch may have begun anew.
#[test]
fn another_census_of_all_in_an_epoch_stops_nothing_of_that_epoch() {
    let mut bench = Bench::new(1);
    held(&mut bench, &[1]);
    asked(&mut bench, NEXT_EPOCH, CENSUS).expect("a report");
    bench.switch.set_epoch(NEXT_EPOCH);
    assert!(adopt(&mut bench, CENSUS, true, &[]));
    let later = held(&mut bench, &[NAME]);
    let mut reported = of(&asked(&mut bench, NEXT_EPOCH, CENSUS + 1).expect("a report"));
    reported.sort_unstable();
    assert_eq!(reported, [(1, HELD), (SLOT, HELD)]);
    bench.release(0, later[0]);
    assert_eq!(bench.kinds_sent(), [kind::lock::RETENURE], "it frees the slot itself");
    assert_eq!(asked(&mut bench, NEXT_EPOCH, CENSUS), None, "that one is over");
}

#[test]
fn an_engine_that_knows_nothing_of_what_is_held_ends_the_session() {
    for (engine, is_over) in [(Engine::Fission, false), (Engine::Queue, true)] {
        let mut bench = Bench::new(1);
        let ids = held(&mut bench, &[NAME]);
        bench.tell(0, header(kind::lock::CENSUS, NEXT_EPOCH), &[Entry { sequence: engine as u8, ..about(CENSUS) }]);
        assert_eq!(report(&mut bench).is_none(), is_over);
        let told: Vec<Event> = std::iter::from_fn(|| bench.nodes[0].event()).collect();
        assert_eq!(told, if is_over { vec![Event::Lost { request: ids[0] }, Event::SessionLost] } else { vec![] });
    }
}

#[test]
fn what_nobody_adopts_after_a_census_of_all_is_forgotten_in_two_leases_and_not_before() {
    let mut bench = Bench::with_lease(2, 60_000_000);
    books_of_node_1(&mut bench);
    held(&mut bench, &[9, 10]);
    asked(&mut bench, NEXT_EPOCH, CENSUS).expect("a report");
    // Its heartbeats are answered.
    bench.switch.set_epoch(NEXT_EPOCH);
    for (half_leases, is_known, slots) in [(3, true, &[SLOT, 9][..]), (5, false, &[SLOT, 9, 10][..])] {
        while bench.now.0 < half_leases * 30_000_000 {
            bench.pass(5_000_000);
        }
        // Of an agent that it has forgotten the switch would have to say that it is one.
        for &slot in slots {
            assert_eq!(is_sent_back(&mut bench, slot), !is_known, "slot {slot}");
        }
    }
}

/// Nobody adopted it, so what it was the agent of became nobody's; a slot that is this node's again, and was not handed
/// over, is one that it was granted since and has not heard of.
#[test]
fn who_waits_for_the_end_of_a_census_claims_what_it_was_granted_after_it() {
    for is_inspected in [false, true] {
        let mut bench = Bench::new(2);
        let tenure = books_of_node_1(&mut bench);
        asked_of(&mut bench, CENSUS, SLOT, tenure).expect("a report");
        let [before, after] = [tenure, tenure + 2].map(|tenure| Entry {
            slot: SLOT,
            tenure,
            holder: handle(1),
            request: 101 << 40 | 9,
            name: NAME,
            slot_bits: bits(false),
            ..Entry::default()
        });
        let kind = if is_inspected { kind::lock::INSPECT } else { kind::lock::ACQUIRE };
        for (entry, expected) in [(before, &[][..]), (after, &[kind::lock::RETENURE][..])] {
            bench.sent();
            bench.tell(0, Header { source: handle(1), ..header(kind, EPOCH) }, &[entry]);
            let mut kinds = bench.kinds_sent();
            if kinds.is_empty() {
                bench.wait(PAUSE);
                kinds = bench.kinds_sent();
            }
            assert_eq!(kinds, expected, "a claim; inspected: {is_inspected}");
        }
    }
}

#[test]
fn an_adoption_of_which_a_page_never_comes_is_forgotten_in_two_leases() {
    let mut bench = Bench::new(1);
    bench.tell(0, header(kind::lock::ADOPT, EPOCH), &[adoption(CENSUS), agency(SLOT, 5)]);
    bench.pass(LEASE * 3 / 2);
    assert!(!bench.nodes[0].is_idle());
    bench.pass(LEASE);
    assert!(bench.nodes[0].is_idle());
}

#[test]
fn an_adoption_of_the_rest_is_of_what_the_node_has_told_that_census() {
    let mut bench = Bench::new(1);
    held(&mut bench, &[NAME]);
    assert!(!adopt(&mut bench, CENSUS, true, &[]), "nobody has asked");
    asked(&mut bench, NEXT_EPOCH, CENSUS).expect("a report");
    assert!(!adopt(&mut bench, CENSUS + 1, true, &[]), "another census");
    assert!(bench.nodes[0].books(SLOT).is_none());
    assert!(adopt(&mut bench, CENSUS, true, &[]));
    assert!(bench.nodes[0].books(SLOT).is_some());
    assert!(adopt(&mut bench, CENSUS, true, &[]), "a copy");
}

#[test]
fn a_slot_that_an_adoption_leaves_to_another_node_is_forgotten_at_once() {
    let mut bench = Bench::new(2);
    let tenure = books_of_node_1(&mut bench);
    asked_of(&mut bench, CENSUS, SLOT, tenure).expect("a report");
    assert!(adopt(&mut bench, CENSUS, false, &[Entry { slot: SLOT, ..Entry::default() }]));
    assert!(bench.nodes[0].is_idle());
}

/// However many there are; until nobody can be asking any more.
#[test]
fn a_copy_of_an_adoption_that_is_done_does_nothing_for_long() {
    const DONE: u64 = 1_000;
    for (copy, later, is_known) in [(1, 0, true), (DONE, 0, true), (1, LEASE, true), (1, 3 * LEASE, false)] {
        let mut bench = Bench::new(2);
        let left = Entry { slot: SLOT, ..Entry::default() };
        for id in 1..=DONE {
            assert!(adopt(&mut bench, id, false, &[left]));
        }
        bench.pass(later);
        assert!(adopt(&mut bench, DONE + 1, false, &[left]));
        let tenure = books_of_node_1(&mut bench);
        asked_of(&mut bench, CENSUS, SLOT, tenure).expect("a report");
        assert!(adopt(&mut bench, copy, false, &[left]), "or the controller would ask for ever");
        assert_eq!(bench.nodes[0].is_idle(), !is_known, "copy of {copy}, {later} us later");
    }
}

/// As for adoptions.
#[test]
fn a_page_of_a_report_is_told_again_for_as_long_as_censuses_may_be_under_way() {
    const KEPT: u64 = 1_000;
    let mut bench = Bench::with(1, LEASE, Policy::Fair, &NodeConfig { page_entries: 1, ..NodeConfig::new(1) });
    held(&mut bench, &[1, 2]);
    let page = |bench: &mut Bench, id: u64, position: u16| {
        let questions = [1, 2].map(|slot| Entry { request: id, slot, tenure: 9, ..Entry::default() });
        bench.tell(0, Header { position, ..header(kind::lock::CENSUS, EPOCH) }, &questions);
        report(bench).map(|found| of(&found))
    };
    for id in 1..=KEPT {
        assert_eq!(page(&mut bench, id, 0), Some(vec![(1, HELD)]));
    }
    for id in [1, 2, KEPT] {
        assert_eq!(page(&mut bench, id, 1), Some(vec![(2, HELD)]), "census {id}");
    }
    bench.pass(3 * LEASE);
    assert_eq!(page(&mut bench, KEPT + 1, 0), Some(vec![(1, HELD)]));
    assert_eq!(page(&mut bench, 1, 1), None, "to be asked for from the beginning");
}

/// Of a grant that comes after the first census of many it must be known by its slot as well.
#[test]
fn what_is_held_since_the_last_census_is_found_by_the_next() {
    for kept_most in [0, 8] {
        let config = NodeConfig { scanned_most: 0, kept_most, ..NodeConfig::new(1) };
        let mut bench = Bench::with(2, LEASE, Policy::Fair, &config);
        let first = held(&mut bench, &[NAME]);
        assert_eq!(asked_of(&mut bench, 1, 40, 1), Some(vec![]));
        // Alone, by another node's agent, and, where slots are kept, by its own.
        held(&mut bench, &[9]);
        bench.release(0, first[0]);
        bench.run();
        held(&mut bench, &[NAME]);
        let stranger = bench.ask(0, 20, Mode::Exclusive);
        bench.flying.clear();
        let grant = Entry { name: 20, request: stranger.0, slot: 20, tenure: 4, holder: handle(0), ..Entry::default() };
        let grant = Entry { flags: entry_flag::EXCLUSIVE, sequence: 3, ..grant };
        bench.tell(0, Header { source: handle(1), ..header(kind::lock::GRANT, EPOCH) }, &[grant]);
        bench.granted(0, stranger);
        for (id, slot) in [(2, 9), (3, SLOT), (4, 20)] {
            assert_eq!(
                asked_of(&mut bench, id, slot, 0).map(|found| of(&found)),
                Some(vec![(slot, HELD)]),
                "slot {slot}"
            );
        }
    }
}

/// What is granted before the adoption is of before it, though the agent was this very node.
#[test]
fn who_waits_where_its_node_adopts_the_slot_takes_no_grant_of_before_that_and_asks_again_soon() {
    let mut bench = Bench::with_lease(2, 60_000_000);
    let waits = bench.ask(0, NAME, Mode::Exclusive);
    let elsewhere = bench.ask(0, NAME + 1, Mode::Exclusive);
    bench.flying.clear();
    bench.wait(100 * PAUSE);
    bench.sent();
    // Slot 9 is adopted as well, and nobody waits there.
    assert!(adopt(&mut bench, CENSUS, false, &[agency(9, 7), agency(SLOT, 7)]));
    bench.wait(PAUSE);
    let asked: Vec<u64> =
        bench.sent().iter().filter(|(h, _)| h.kind == kind::lock::ACQUIRE).map(|(_, e)| e.name).collect();
    assert_eq!(asked, [NAME], "and not for what is elsewhere");
    let mut grant = |name: u64, RequestId(request): RequestId, tenure: u32| {
        let entry = Entry { name, request, slot: name as u32, tenure, holder: handle(0), ..Entry::default() };
        let entry = Entry { flags: entry_flag::EXCLUSIVE, sequence: 3, ..entry };
        bench.tell(0, Header { source: handle(1), ..header(kind::lock::GRANT, EPOCH) }, &[entry]);
        bench.nodes[0].event().is_some()
    };
    assert!(!grant(NAME, waits, 7));
    assert!(grant(NAME + 1, elsewhere, 1));
    assert!(grant(NAME, waits, 8));
}

/// No controller has so many; whoever forges packets may.
#[test]
fn an_adoption_of_as_many_pages_as_can_be_said_harms_nobody() {
    let mut bench = Bench::new(1);
    let mut confirmed = 0;
    for position in (0..=u16::MAX).chain([u16::MAX]) {
        bench.tell(0, Header { position, ..header(kind::lock::ADOPT, EPOCH) }, &[adoption(CENSUS)]);
        confirmed += bench.sent().len();
    }
    assert_eq!(confirmed, usize::from(u16::MAX) + 2);
}
