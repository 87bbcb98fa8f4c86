//! Packets that name a node as agent while it is not, or not yet: limbo and claims (docs/protocol.md, The agent).

use crate::bench::{Bench, EPOCH, LEASE, SLOTS, handle};
use wayside_protocol::{Mode, NodeConfig};
use wayside_wire::{Entry, Header, LockKind, Policy, SlotBits, SlotState, entry_flag, header_flag, kind, limits};

const NAME: u64 = 5;
const SLOT: u32 = 5;
/// Of the same slot.
const OTHER: u64 = NAME + SLOTS as u64;
/// Before an unanswered packet is sent again.
const PAUSE: u64 = 5_000;
const TENURE: u32 = 5;

fn bits(transferred: bool) -> u16 {
    SlotBits { state: SlotState::Managed, transferred, ..SlotBits::default() }.to_u16()
}

/// What node 1 asks for, as the switch sends it on to the agent that it takes node 0 for.
fn request(number: u64, tenure: u32, transferred: bool) -> Entry {
    Entry {
        name: NAME,
        request: 101 << 40 | number,
        slot: SLOT,
        tenure,
        holder: handle(1),
        flags: entry_flag::EXCLUSIVE,
        slot_bits: bits(transferred),
        ..Entry::default()
    }
}

fn forward(bench: &mut Bench, kind: u8, hops: u16, entry: Entry) {
    bench.tell(0, Header { epoch: EPOCH, kind, position: hops, source: handle(1), ..Header::default() }, &[entry]);
}

/// What the switch says of a claim, or of another change.
fn answer(bench: &mut Bench, flags: u16, nonce: u64, tenure: u32) {
    let entry = Entry { request: nonce, slot: SLOT, tenure, holder: handle(0), ..Entry::default() };
    let header = Header { epoch: EPOCH, kind: kind::lock::RETENURED, flags, ..Header::default() };
    bench.tell(0, header, &[Entry { slot_bits: bits(true), ..entry }]);
}

/// The one claim that node 0 has sent, and nothing else: its nonce and tenure.
fn claimed(bench: &mut Bench) -> (u64, u32) {
    let sent = bench.sent();
    assert_eq!(sent.len(), 1, "{sent:?}");
    let (header, entry) = sent[0];
    assert_eq!((header.kind, header.flags), (kind::lock::RETENURE, header_flag::CLAIM));
    assert_eq!((entry.slot, entry.holder), (SLOT, handle(0)));
    (entry.request, entry.tenure)
}

#[test]
fn who_is_named_as_agent_and_expects_nothing_claims_the_slot_at_once_and_until_it_is_answered() {
    let config = NodeConfig { retransmit_most_us: 4 * PAUSE, ..NodeConfig::new(1) };
    let mut bench = Bench::with(2, LEASE, Policy::Fair, &config);
    forward(&mut bench, kind::lock::ACQUIRE, 0, request(1, TENURE, false));
    let claim = claimed(&mut bench);
    assert_eq!(claim.1, TENURE);
    // Whatever else comes meanwhile is no reason for another one.
    forward(&mut bench, kind::lock::ACQUIRE, 0, request(2, TENURE, false));
    let inspect = Header { epoch: EPOCH, kind: kind::lock::INSPECT, ..Header::default() };
    bench.tell(0, inspect, &[Entry { slot_bits: bits(false), tenure: TENURE, slot: SLOT, ..Entry::default() }]);
    assert_eq!(bench.kinds_sent(), []);
    for pause in [1, 2, 4, 4] {
        bench.wait(pause * PAUSE - 1);
        assert_eq!(bench.kinds_sent(), []);
        bench.wait(1);
        assert_eq!(claimed(&mut bench), claim);
    }
}

#[test]
fn a_claim_that_is_granted_gives_the_slot_to_who_waited_for_it() {
    let mut bench = Bench::new(2);
    forward(&mut bench, kind::lock::ACQUIRE, 0, request(1, TENURE, false));
    let (nonce, _) = claimed(&mut bench);
    answer(&mut bench, header_flag::APPLIED, nonce + 1, TENURE + 1);
    assert_eq!(bench.kinds_sent(), [], "that is no answer to it");
    answer(&mut bench, header_flag::APPLIED, nonce, TENURE + 1);
    let sent = bench.sent();
    let (header, entry) = sent[0];
    assert_eq!((sent.len(), header.kind, header.flags), (1, kind::lock::RETENURE, 0), "the agency goes to who waits");
    assert_eq!((entry.holder, entry.tenure, entry.request), (handle(1), TENURE + 1, 101 << 40 | 1));
}

#[test]
fn a_claim_that_is_too_late_sends_back_what_waited_for_it_and_no_join() {
    let mut bench = Bench::new(2);
    forward(&mut bench, kind::lock::ACQUIRE, 3, request(1, TENURE, false));
    let (nonce, _) = claimed(&mut bench);
    forward(&mut bench, kind::lock::JOIN, 0, request(2, TENURE, false));
    answer(&mut bench, header_flag::STALE_TENURE, nonce, TENURE + 3);
    let sent: Vec<(u8, u16, u64)> = bench.sent().iter().map(|(h, e)| (h.kind, h.position, e.request)).collect();
    assert_eq!(sent, [(kind::lock::ACQUIRE, 4, 101 << 40 | 1)]);
    assert!(bench.nodes[0].is_idle(), "nothing is left of it");
}

/// The switch recovers, say.
#[test]
fn a_claim_that_is_neither_granted_nor_too_late_is_made_anew_after_the_first_pause() {
    let mut bench = Bench::new(2);
    forward(&mut bench, kind::lock::ACQUIRE, 0, request(1, TENURE, false));
    let (nonce, _) = claimed(&mut bench);
    // Its pauses have grown.
    bench.wait(12 * PAUSE);
    bench.sent();
    answer(&mut bench, header_flag::REFUSED, nonce, TENURE);
    bench.wait(PAUSE - 1);
    assert_eq!(bench.kinds_sent(), []);
    bench.wait(1);
    let again = claimed(&mut bench);
    assert!(again.0 != nonce && again.1 == TENURE);
}

#[test]
fn a_claim_for_which_nobody_waits_is_forgotten_when_it_was_refused() {
    let mut bench = Bench::new(1);
    let inspect = Header { epoch: EPOCH, kind: kind::lock::INSPECT, ..Header::default() };
    bench.tell(0, inspect, &[Entry { slot_bits: bits(false), tenure: TENURE, slot: SLOT, ..Entry::default() }]);
    let claim = claimed(&mut bench);
    bench.wait(PAUSE);
    assert_eq!(claimed(&mut bench), claim, "or a lost one would leave the slot to nobody");
    answer(&mut bench, header_flag::REFUSED, claim.0, TENURE);
    assert!(bench.nodes[0].is_idle());
}

#[test]
fn who_is_asked_about_a_slot_that_was_handed_over_keeps_nothing_of_it() {
    let mut bench = Bench::new(1);
    let inspect = Header { epoch: EPOCH, kind: kind::lock::INSPECT, ..Header::default() };
    bench.tell(0, inspect, &[Entry { slot_bits: bits(true), tenure: TENURE, slot: SLOT, ..Entry::default() }]);
    let sent = bench.sent();
    let (header, entry) = sent[0];
    assert_eq!((sent.len(), header.kind, entry.slot, entry.tenure), (1, kind::lock::GAP, SLOT, TENURE));
    assert!(bench.nodes[0].is_idle());
}

/// It was agent before, and has not heard that the slot went away and came back.
#[test]
fn an_agent_that_is_named_for_a_later_tenure_claims_that_and_keeps_its_books_until_then() {
    for is_granted in [true, false] {
        let mut bench = Bench::new(2);
        let held = bench.ask(0, NAME, Mode::Exclusive);
        bench.run();
        let (token, _) = bench.granted(0, held);
        let acting = token.stamp().tenure;
        let later = acting + 4;
        forward(&mut bench, kind::lock::ACQUIRE, 0, Entry { name: OTHER, ..request(1, later, false) });
        assert_eq!(bench.kinds_sent(), [], "it may be told so");
        bench.wait(PAUSE);
        let (nonce, tenure) = claimed(&mut bench);
        assert_eq!(tenure, later);
        answer(&mut bench, header_flag::APPLIED, nonce, if is_granted { later + 1 } else { acting });
        let holders = bench.nodes[0].books(SLOT).into_iter().flatten().filter(|booked| booked.token.is_some());
        assert_eq!(holders.count(), usize::from(!is_granted), "an answer of its own tenure is none");
    }
}

/// Its GRANT with the agency may be on its way behind the packet.
#[test]
fn who_waits_for_a_slot_itself_claims_it_only_after_a_pause() {
    let mut bench = Bench::new(2);
    bench.ask(0, NAME, Mode::Exclusive);
    bench.flying.clear();
    bench.wait(1_000);
    forward(&mut bench, kind::lock::ACQUIRE, 0, request(1, TENURE, false));
    bench.wait(PAUSE - 1);
    assert_eq!(bench.kinds_sent(), [kind::lock::ACQUIRE], "its own, again");
    bench.wait(1);
    assert_eq!(claimed(&mut bench).1, TENURE);
}

#[test]
fn what_a_transfer_has_yet_to_explain_waits_for_the_old_agent_and_then_goes_back_to_the_switch() {
    let mut bench = Bench::new(2);
    forward(&mut bench, kind::lock::ACQUIRE, 0, request(1, TENURE, true));
    bench.wait(3_000);
    // It goes along with the first.
    forward(&mut bench, kind::lock::ACQUIRE, 1, request(2, TENURE, true));
    bench.wait(1_999);
    assert_eq!(bench.kinds_sent(), []);
    bench.wait(1);
    let sent: Vec<(u8, u16)> = bench.sent().iter().map(|(header, _)| (header.kind, header.position)).collect();
    assert_eq!(sent, [(kind::lock::ACQUIRE, 1), (kind::lock::ACQUIRE, 2)]);
    assert!(bench.nodes[0].is_idle());
}

#[test]
fn of_several_packets_the_one_with_the_latest_tenure_says_how_the_slot_is() {
    let seen = [request(1, TENURE + 1, false), request(2, TENURE, true)];
    for order in [[0, 1], [1, 0]] {
        let mut bench = Bench::new(2);
        bench.ask(0, NAME, Mode::Exclusive);
        bench.flying.clear();
        bench.wait(1_000);
        order.iter().for_each(|&place| forward(&mut bench, kind::lock::ACQUIRE, 0, seen[place]));
        bench.wait(PAUSE - 1);
        bench.sent();
        bench.wait(1);
        assert_eq!(claimed(&mut bench).1, TENURE + 1);
    }
}

/// They speak of a grant, which may be of any tenure.
#[test]
fn a_release_or_downgrade_says_nothing_of_the_slot_and_nothing_is_claimed_for_it() {
    for kind in [kind::lock::RELEASE, kind::lock::DOWNGRADE] {
        let mut bench = Bench::new(2);
        forward(&mut bench, kind, 0, request(1, TENURE, false));
        assert_eq!(bench.kinds_sent(), []);
        bench.wait(PAUSE);
        assert_eq!(bench.kinds_sent(), [kind], "back to who knows the agent");
    }
}

#[test]
fn a_packet_that_has_hopped_for_the_last_time_asks_for_a_census() {
    for hops in [limits::MAX_HOPS - 2, limits::MAX_HOPS - 1, limits::MAX_HOPS] {
        let mut bench = Bench::new(2);
        forward(&mut bench, kind::lock::ACQUIRE, hops, request(1, TENURE, true));
        bench.wait(PAUSE);
        let sent = bench.sent();
        assert_eq!((sent[0].0.kind, sent[0].0.position), (kind::lock::ACQUIRE, hops + 1));
        let gaps: Vec<(u8, u32, u32)> = sent[1..].iter().map(|(h, e)| (h.kind, e.slot, e.tenure)).collect();
        let is_last = hops + 1 == limits::MAX_HOPS;
        assert_eq!(gaps, if is_last { vec![(kind::lock::GAP, SLOT, TENURE)] } else { vec![] });
    }
}

/// Node 0 has asked the switch to free the slot, which does not answer: the nonce and the tenure.
fn freeing(bench: &mut Bench) -> (u64, u32) {
    let held = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(0, held);
    bench.release(0, held);
    let sent = bench.sent();
    assert_eq!((sent.len(), sent[0].0.kind, sent[0].0.flags), (1, kind::lock::RETENURE, 0));
    (sent[0].1.request, sent[0].1.tenure)
}

#[test]
fn what_comes_while_an_agent_asks_for_a_change_waits_for_the_answer() {
    let mut bench = Bench::new(2);
    let (nonce, tenure) = freeing(&mut bench);
    forward(&mut bench, kind::lock::ACQUIRE, 0, request(1, tenure, false));
    for _ in 0..3 {
        bench.wait(2 * PAUSE);
        let sent = bench.sent();
        let is_the_change = |(header, entry): &(Header, Entry)| {
            (header.kind, header.flags, entry.request) == (kind::lock::RETENURE, 0, nonce)
        };
        assert!(sent.iter().all(is_the_change), "{sent:?}");
    }
    answer(&mut bench, header_flag::APPLIED, nonce, tenure + 1);
    let sent = bench.sent();
    assert_eq!((sent.len(), sent[0].0.kind, sent[0].0.position), (1, kind::lock::ACQUIRE, 1), "the slot is free");
    assert!(bench.nodes[0].is_idle());
}

/// The switch knows of a reader of whom the agent does not.
#[test]
fn what_has_waited_for_an_answer_goes_to_the_agent_that_stays() {
    let mut bench = Bench::new(2);
    let (nonce, tenure) = freeing(&mut bench);
    forward(&mut bench, kind::lock::ACQUIRE, 0, request(1, tenure, false));
    let word = SlotBits { state: SlotState::Managed, joins: 1, ..SlotBits::default() };
    let refused = Entry { request: nonce, slot: SLOT, tenure, holder: handle(0), ..Entry::default() };
    let header = Header { epoch: EPOCH, kind: kind::lock::RETENURED, flags: header_flag::REFUSED, ..Header::default() };
    bench.tell(0, header, &[Entry { slot_bits: word.to_u16(), ..refused }]);
    assert_eq!(bench.kinds_sent(), [], "neither claimed nor sent back");
    let waits = bench.nodes[0].books(SLOT).into_iter().flatten().any(|booked| booked.holder == handle(1));
    assert!(waits);
}

/// A renewal takes a moment, in which others may release and ask.
#[test]
fn what_has_waited_for_a_renewal_is_served_without_a_way_round_by_the_switch() {
    let mut bench = Bench::new(3);
    let held = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    let (token, _) = bench.granted(0, held);
    // The second name of the slot.
    bench.ask(1, OTHER, Mode::Exclusive);
    bench.run_until_sent(kind::lock::RETENURE);
    let tenure = token.stamp().tenure;
    forward(&mut bench, kind::lock::RELEASE, 0, Entry { holder: handle(2), ..request(7, tenure, false) });
    let third = OTHER + u64::from(SLOTS);
    let wish = bench.ask(2, third, Mode::Exclusive);
    bench.flying.pop_back();
    let wish = Entry { name: third, holder: handle(2), request: wish.0, ..request(8, tenure, false) };
    forward(&mut bench, kind::lock::ACQUIRE, 0, wish);
    bench.delivered.clear();
    bench.run();
    let came = |to: Option<usize>, kind: LockKind| {
        bench.delivered.iter().filter(|delivered| **delivered == (to, kind as u8)).count()
    };
    assert_eq!((came(None, LockKind::Release), came(None, LockKind::Acquire)), (0, 0), "nothing went back");
    // Answered through the switch, which sends it on.
    assert_eq!((came(Some(2), LockKind::Released), came(Some(2), LockKind::Grant)), (1, 1));
}

/// Whoever takes over a slot has no use for what was granted there before.
#[test]
fn who_waits_in_a_slot_that_its_node_claims_takes_no_older_grant_and_those_of_other_slots_do() {
    let mut bench = Bench::new(2);
    let waits = bench.ask(0, NAME, Mode::Exclusive);
    let elsewhere = bench.ask(0, NAME + 4, Mode::Exclusive);
    bench.flying.clear();
    forward(&mut bench, kind::lock::ACQUIRE, 0, request(1, TENURE, false));
    bench.wait(PAUSE);
    let claim = bench.sent().into_iter().find(|(header, _)| header.kind == kind::lock::RETENURE).expect("a claim");
    answer(&mut bench, header_flag::APPLIED, claim.1.request, TENURE + 1);
    bench.flying.clear();
    let mut grant = |name: u64, request: u64, tenure: u32| {
        let entry = Entry { name, request, slot: name as u32, tenure, holder: handle(0), ..Entry::default() };
        let entry = Entry { flags: entry_flag::EXCLUSIVE, sequence: 3, slot_bits: bits(true), ..entry };
        let header = Header { epoch: EPOCH, kind: kind::lock::GRANT, source: handle(1), ..Header::default() };
        bench.tell(0, header, &[entry]);
        bench.nodes[0].event().is_some()
    };
    assert!(!grant(NAME, waits.0, TENURE + 1));
    assert!(grant(NAME + 4, elsewhere.0, 1));
}

/// No switch says so; whoever forges packets may.
#[test]
fn an_answer_to_a_claim_that_says_that_there_was_no_tenure_before_harms_nobody() {
    let mut bench = Bench::new(2);
    forward(&mut bench, kind::lock::ACQUIRE, 0, request(1, 0, false));
    let (nonce, tenure) = claimed(&mut bench);
    answer(&mut bench, header_flag::APPLIED, nonce, tenure);
    assert_eq!(tenure, 0);
    assert!(bench.nodes[0].session().is_some() && bench.nodes[0].books(SLOT).is_some());
}
