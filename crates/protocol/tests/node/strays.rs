//! What comes for an agent at a bad moment: from the dead, between census and adoption, before its agency
//! (docs/protocol.md, The agent).

use crate::bench::{Bench, EPOCH, LEASE, SLOTS, handle};
use wayside_protocol::{Mode, NodeConfig, RequestId};
use wayside_wire::{Entry, Header, Policy, SlotBits, SlotState, entry_flag, header_flag, kind};

const NAME: u64 = 5;
const SLOT: u32 = 5;
/// Of the same slot.
const OTHER: u64 = NAME + SLOTS as u64;
const PAUSE: u64 = 5_000;
const TENURE: u32 = 5;
const CENSUS: u64 = 77;

fn bits(transferred: bool) -> u16 {
    SlotBits { state: SlotState::Managed, transferred, ..SlotBits::default() }.to_u16()
}

/// A request of node 1's, as the switch sends it on to the agent that it takes node 0 for.
fn request(number: u64, tenure: u32, transferred: bool) -> Entry {
    let (flags, slot_bits) = (entry_flag::EXCLUSIVE, bits(transferred));
    let entry = Entry { name: NAME, request: 101 << 40 | number, slot: SLOT, tenure, ..Entry::default() };
    Entry { holder: handle(1), flags, slot_bits, ..entry }
}

fn header(kind: u8) -> Header {
    Header { epoch: EPOCH, kind, ..Header::default() }
}

fn forward(bench: &mut Bench, kind: u8, entry: Entry) {
    bench.tell(0, Header { source: handle(1), ..header(kind) }, &[entry]);
}

/// A census of the slot up to this tenure, to which node 0 has answered.
fn census(bench: &mut Bench, tenure: u32) {
    let question = Entry { request: CENSUS, slot: SLOT, tenure, ..Entry::default() };
    bench.tell(0, header(kind::lock::CENSUS), &[question]);
    bench.flying.clear();
}

/// Node 0 becomes agent, and node 1 holds.
fn adopt(bench: &mut Bench, tenure: u32) {
    let about = Entry { request: CENSUS, ..Entry::default() };
    let agency = Entry { flags: entry_flag::AGENCY, holder: handle(0), ..request(0, tenure, true) };
    let hold = Entry { flags: entry_flag::HELD | entry_flag::EXCLUSIVE, ..request(1, 1, false) };
    let header = Header { flags: header_flag::LAST, ..header(kind::lock::ADOPT) };
    bench.tell(0, header, &[about, agency, hold]);
}

/// A GRANT with the agency, fresh from the switch.
fn grant_agency(bench: &mut Bench, RequestId(request): RequestId, tenure: u32) {
    let entry = Entry { name: NAME, request, slot: SLOT, tenure, holder: handle(0), ..Entry::default() };
    let flags = entry_flag::AGENCY | entry_flag::EXCLUSIVE;
    bench.tell(0, header(kind::lock::GRANT), &[Entry { flags, slot_bits: bits(false), ..entry }]);
}

fn waiters(bench: &Bench, node: usize) -> Vec<u64> {
    let booked = bench.nodes[node].books(SLOT).into_iter().flatten();
    booked.filter(|booked| booked.token.is_none()).map(|booked| booked.request.0).collect()
}

#[test]
fn what_the_dead_ask_of_a_node_that_is_no_agent_makes_it_claim_nothing() {
    let mut bench = Bench::new(2);
    bench.down(handle(1), 101);
    bench.sent();
    for kind in [kind::lock::ACQUIRE, kind::lock::RELEASE, kind::lock::CANCEL, kind::lock::DOWNGRADE] {
        forward(&mut bench, kind, request(1, TENURE, false));
        assert!(bench.nodes[0].is_idle());
    }
    bench.wait(4 * PAUSE);
    assert_eq!(bench.kinds_sent(), []);
}

#[test]
fn a_late_copy_of_what_a_node_has_asked_for_and_given_up_makes_it_claim_nothing() {
    let mut bench = Bench::new(1);
    let id = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, id);
    bench.release(0, id);
    bench.run();
    for kind in [kind::lock::ACQUIRE, kind::lock::JOIN] {
        forward(&mut bench, kind, Entry { request: id.0, holder: handle(0), ..request(1, TENURE, false) });
    }
    bench.sent();
    bench.wait(4 * PAUSE);
    assert!(!bench.kinds_sent().contains(&kind::lock::ACQUIRE));
}

/// It was sent when the slot was in other hands: the switch has to close it first.
#[test]
fn a_writer_of_an_earlier_tenure_goes_back_to_the_switch_where_readers_are_let_in() {
    let mut bench = Bench::new(2);
    let former = bench.ask(0, NAME, Mode::Shared);
    bench.run();
    bench.granted(0, former);
    bench.release(0, former);
    bench.run();
    let held = bench.ask(0, NAME, Mode::Shared);
    bench.run();
    let (token, _) = bench.granted(0, held);
    let tenure = token.stamp().tenure;
    forward(&mut bench, kind::lock::ACQUIRE, request(1, tenure - 1, false));
    let sent: Vec<(u8, u16, u64)> = bench.sent().iter().map(|(h, e)| (h.kind, h.position, e.request)).collect();
    assert_eq!(sent, [(kind::lock::ACQUIRE, 1, 101 << 40 | 1)]);
    assert_eq!(waiters(&bench, 0), []);
}

#[test]
fn of_two_packets_of_a_tenure_the_later_says_how_the_slot_is() {
    for transferred in [false, true] {
        let mut bench = Bench::new(2);
        bench.ask(0, NAME, Mode::Exclusive);
        bench.flying.clear();
        bench.wait(1_000);
        forward(&mut bench, kind::lock::ACQUIRE, request(1, TENURE, !transferred));
        forward(&mut bench, kind::lock::ACQUIRE, request(2, TENURE, transferred));
        bench.wait(PAUSE - 1);
        bench.sent();
        bench.wait(1);
        let kinds = bench.kinds_sent();
        assert_eq!(kinds.contains(&kind::lock::RETENURE), !transferred, "{kinds:?}");
    }
}

#[test]
fn a_slot_for_which_the_dead_alone_have_asked_is_not_claimed() {
    let mut bench = Bench::new(2);
    bench.ask(0, NAME, Mode::Exclusive);
    bench.flying.clear();
    forward(&mut bench, kind::lock::ACQUIRE, request(1, TENURE, false));
    bench.down(handle(1), 101);
    bench.sent();
    bench.wait(3 * PAUSE);
    assert!(!bench.kinds_sent().contains(&kind::lock::RETENURE));
}

#[test]
fn what_the_dead_alone_have_asked_is_not_sent_back() {
    let mut bench = Bench::new(2);
    forward(&mut bench, kind::lock::ACQUIRE, request(1, TENURE, true));
    bench.down(handle(1), 101);
    bench.sent();
    bench.wait(2 * PAUSE);
    assert_eq!(bench.kinds_sent(), []);
}

#[test]
fn a_release_that_has_waited_for_a_renewal_is_answered_without_a_way_round_by_the_switch() {
    let mut bench = Bench::new(3);
    let held = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    let (token, _) = bench.granted(0, held);
    // The second name of the slot.
    bench.ask(1, OTHER, Mode::Exclusive);
    bench.run_until_sent(kind::lock::RETENURE);
    let release = Entry { holder: handle(2), ..request(7, token.stamp().tenure, false) };
    forward(&mut bench, kind::lock::RELEASE, release);
    bench.delivered.clear();
    bench.run();
    let came = |to: Option<usize>, kind: u8| bench.delivered.iter().filter(|one| **one == (to, kind)).count();
    assert_eq!((came(None, kind::lock::RELEASE), came(Some(2), kind::lock::RELEASED)), (0, 1));
}

/// Who asked before the adoption was known has been answered by nobody.
#[test]
fn what_has_made_a_node_claim_the_slot_goes_to_the_agent_that_it_has_adopted_meanwhile() {
    let mut bench = Bench::with_lease(2, 60_000_000);
    census(&mut bench, TENURE);
    forward(&mut bench, kind::lock::ACQUIRE, request(2, TENURE + 1, false));
    forward(&mut bench, kind::lock::ACQUIRE, request(3, TENURE + 1, false));
    assert_eq!(bench.kinds_sent(), [kind::lock::RETENURE], "it claims it");
    adopt(&mut bench, TENURE + 1);
    let mut sent = Vec::new();
    let confirmed = |bench: &mut Bench, change: &Entry| {
        let answer = Header { flags: header_flag::APPLIED, ..header(kind::lock::RETENURED) };
        bench.tell(0, answer, &[Entry { tenure: change.tenure + 1, ..*change }]);
    };
    for _ in 0..8 {
        bench.wait(PAUSE);
        for (header, entry) in bench.sent() {
            if header.kind == kind::lock::RETENURE {
                sent.push(header.flags);
                confirmed(&mut bench, &entry);
            }
        }
    }
    assert!(!sent.contains(&header_flag::CLAIM), "what it has it claims no more");
    assert_eq!(waiters(&bench, 0), [101 << 40 | 2, 101 << 40 | 3]);
}

#[test]
fn claims_and_changes_have_numbers_of_their_own() {
    let mut bench = Bench::new(2);
    let mut numbers = Vec::new();
    let mut held = [1, 2, 3].map(|name| bench.ask(0, name, Mode::Exclusive)).into_iter();
    bench.run();
    for slot in [40, 41, 42] {
        bench.release(0, held.next().expect("three"));
        forward(&mut bench, kind::lock::ACQUIRE, Entry { slot, name: slot.into(), ..request(1, TENURE, false) });
        let sent = bench.sent();
        numbers.extend(sent.iter().filter(|(h, _)| h.kind == kind::lock::RETENURE).map(|(_, entry)| entry.request));
    }
    assert_eq!(numbers.len(), 6);
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 6);
}

/// Its GRANT may be lost.
#[test]
fn who_waits_for_a_slot_and_is_asked_about_it_as_its_agent_claims_it() {
    let mut bench = Bench::new(1);
    bench.ask(0, NAME, Mode::Exclusive);
    bench.flying.clear();
    bench.tell(0, header(kind::lock::INSPECT), &[Entry { request: 0, holder: 0, ..request(0, TENURE, false) }]);
    assert_eq!(bench.kinds_sent(), [kind::lock::RETENURE]);
}

/// The switch has let it in before the claim, which its new tenure does not forget.
#[test]
fn a_reader_that_joined_before_a_claim_holds_after_it() {
    let mut bench = Bench::new(2);
    let open = SlotBits { state: SlotState::Open, transferred: false, tryable: false, joins: 1 };
    let join = Entry { flags: 0, slot_bits: open.to_u16(), ..request(1, TENURE, false) };
    forward(&mut bench, kind::lock::JOIN, join);
    let claim = bench.sent()[0].1;
    let answer = Header { flags: header_flag::APPLIED, ..header(kind::lock::RETENURED) };
    let word = SlotBits { state: SlotState::Managed, transferred: true, ..open };
    bench.tell(0, answer, &[Entry { tenure: TENURE + 1, slot_bits: word.to_u16(), ..claim }]);
    let booked: Vec<(u64, bool)> =
        bench.nodes[0].books(SLOT).into_iter().flatten().map(|b| (b.request.0, b.token.is_some())).collect();
    assert_eq!(booked, [(101 << 40 | 1, true)]);
}

#[test]
fn what_came_before_the_agency_is_served_with_it() {
    let mut bench = Bench::new(2);
    let held = bench.ask(0, NAME, Mode::Exclusive);
    bench.flying.clear();
    forward(&mut bench, kind::lock::ACQUIRE, request(1, TENURE, false));
    grant_agency(&mut bench, held, TENURE);
    bench.granted(0, held);
    assert_eq!(waiters(&bench, 0), [101 << 40 | 1]);
}

/// Its first use was one, whether others of its node wait or not.
#[test]
fn a_slot_in_which_another_of_its_node_has_waited_is_kept_as_well() {
    let config = NodeConfig { kept_most: 8, ..NodeConfig::new(1) };
    let mut bench = Bench::with(1, LEASE, Policy::Fair, &config);
    let [first, second] = [NAME, NAME].map(|name| bench.ask(0, name, Mode::Exclusive));
    bench.run();
    bench.granted(0, first);
    bench.nodes[0].cancel(bench.now, second);
    bench.collect(0);
    bench.run();
    bench.release(0, first);
    bench.run();
    assert_eq!(bench.nodes[0].kept(), 1);
}

/// The switch's words of before the census count no more than what was asked then.
#[test]
fn what_the_switch_said_before_a_census_makes_nobody_claim_the_slot_after_it() {
    let mut bench = Bench::new(2);
    bench.ask(0, NAME, Mode::Exclusive);
    bench.flying.clear();
    forward(&mut bench, kind::lock::ACQUIRE, request(1, TENURE, false));
    census(&mut bench, TENURE);
    forward(&mut bench, kind::lock::RELEASE, request(1, TENURE, false));
    bench.sent();
    bench.wait(2 * PAUSE);
    let kinds = bench.kinds_sent();
    assert!(kinds.contains(&kind::lock::RELEASE) && !kinds.contains(&kind::lock::RETENURE), "{kinds:?}");
}

/// Waiters of node 1 for this name, as they are handed over.
fn wishes(name: u64, numbers: std::ops::Range<u64>) -> Vec<Entry> {
    numbers.map(|number| Entry { name, slot_bits: 0, ..request(number, TENURE, false) }).collect()
}

/// Node 0 has got the agency from node 1 with so many waiters, of whom 31 have come: its own hold.
fn heir(total: u16) -> (Bench, RequestId) {
    let mut bench = Bench::new(2);
    let held = bench.ask(0, NAME, Mode::Exclusive);
    bench.flying.clear();
    let first = Entry { request: held.0, holder: handle(0), ..request(0, TENURE, true) };
    let first = Entry { flags: entry_flag::AGENCY | entry_flag::EXCLUSIVE, ..first };
    let header = Header { source: handle(1), position: total, ..header(kind::lock::GRANT) };
    bench.tell(0, header, &[vec![first], wishes(NAME, 1..32)].concat());
    bench.granted(0, held);
    assert_eq!(waiters(&bench, 0).len(), 31);
    bench.flying.clear();
    (bench, held)
}

fn hand_on(bench: &mut Bench, tenure: u32, position: u16, waiters: &[Entry]) {
    let header = Header { source: handle(1), position, ..header(kind::lock::QUEUE) };
    let waiters: Vec<Entry> = waiters.iter().map(|waiter| Entry { tenure, ..*waiter }).collect();
    bench.tell(0, header, &waiters);
}

#[test]
fn waiters_of_another_hand_over_are_not_taken_for_those_that_are_to_come() {
    let (mut bench, _) = heir(33);
    hand_on(&mut bench, TENURE - 1, 31, &wishes(NAME, 50..52));
    assert_eq!((waiters(&bench, 0).len(), bench.kinds_sent()), (31, vec![]));
    hand_on(&mut bench, TENURE, 31, &wishes(NAME, 60..62));
    assert_eq!(waiters(&bench, 0).len(), 33);
    let sent = bench.sent();
    assert_eq!((sent[0].0.kind, sent[0].0.position), (kind::lock::QUEUED, 34));
}

/// Of another name: it need not wait for whoever holds the first.
#[test]
fn a_waiter_that_is_handed_over_late_is_granted_at_once_what_nobody_holds() {
    for total in [32, 60] {
        let (mut bench, _) = heir(total);
        hand_on(&mut bench, TENURE, 31, &wishes(OTHER, 60..61));
        let mut sent = bench.sent();
        // A second name: the switch is to know first that it can't refuse tries by the first.
        if let Some((_, change)) = sent.iter().find(|(header, _)| header.kind == kind::lock::RETENURE).copied() {
            let answer = Header { flags: header_flag::APPLIED, ..header(kind::lock::RETENURED) };
            bench.tell(0, answer, &[Entry { tenure: TENURE + 1, ..change }]);
            sent = bench.sent();
        }
        let granted: Vec<u64> =
            sent.iter().filter(|(h, _)| h.kind == kind::lock::GRANT).map(|(_, entry)| entry.request).collect();
        assert_eq!(granted, [101 << 40 | 60], "{total} in all");
    }
}
