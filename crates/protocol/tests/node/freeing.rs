//! Slots that nobody else wants, given back by FREE: which of them the switch is asked about, when, and what is made of
//! its answers (`node/freeing.rs`).

use crate::bench::{Bench, EPOCH, Flying, LEASE, SLOTS, address, handle};
use wayside_protocol::memory::{SlotWord, SwitchMemory};
use wayside_protocol::{Acquire, Event, Mode, NodeConfig, Path, Priority, RequestId};
use wayside_wire::{
    BODY, Enrol, Enrolled, Entry, FabricKind, Header, Heartbeat, SlotBits, SlotState, VERSION, check, entries,
    entry_flag, header_flag, kind, limits, service,
};

pub const PAUSE: u64 = 5_000;
pub const SELDOM: u64 = 200;
const NAME: u64 = 5;
const SLOT: u32 = 5;
const CENSUS: u64 = 77;
/// Of which the switch is asked before others can go quietly.
const FIRST: u64 = 63;

/// A lock packet for the switch: its kind, whether it is quiet, and its slots.
pub type Asked = (u8, bool, Vec<u32>);

pub fn quietly(slot: u64) -> Asked {
    (kind::lock::FREE, true, vec![slot as u32])
}

pub fn asking(slots: impl IntoIterator<Item = u64>) -> Asked {
    (kind::lock::FREE, false, slots.into_iter().map(|slot| slot as u32).collect())
}

pub fn retenure(slot: u64) -> Asked {
    (kind::lock::RETENURE, false, vec![slot as u32])
}

/// What is under way to the switch, and goes on.
pub fn asked(bench: &Bench) -> Vec<Asked> {
    let packets = bench.flying.iter().filter(|flying| flying.to.is_none()).map(|flying| &flying.packet);
    let of_locks = packets.filter(|packet| check(packet).expect("whole").service == service::LOCK);
    let asked = of_locks.map(|packet| {
        let header = Header::read(packet).expect("whole");
        let slots = entries(packet).map(|entry| entry.slot).collect();
        (header.kind, header.flags & header_flag::QUIET != 0, slots)
    });
    asked.collect()
}

/// The same, and nothing of it arrives.
pub fn lost(bench: &mut Bench) -> Vec<Asked> {
    let asked = asked(bench);
    bench.flying.clear();
    asked
}

pub fn speaking(nodes: usize) -> Bench {
    Bench::speaking(VERSION, nodes, &NodeConfig::new(1))
}

pub fn held(bench: &mut Bench, names: impl IntoIterator<Item = u64>) -> Vec<RequestId> {
    let ids: Vec<RequestId> = names.into_iter().map(|name| bench.ask(0, name, Mode::Exclusive)).collect();
    bench.run();
    ids.iter().for_each(|&id| {
        bench.granted(0, id);
    });
    ids
}

/// Node 0 holds these, and has just given back another one, which is freed.
pub fn held_behind_one(bench: &mut Bench, names: impl IntoIterator<Item = u64>) -> Vec<RequestId> {
    let first = held(bench, [FIRST]);
    let ids = held(bench, names);
    bench.now = bench.now + SELDOM;
    bench.release(0, first[0]);
    assert_eq!(asked(bench), [asking([FIRST])]);
    bench.run();
    ids
}

/// Node 0 gives back `NAME` quietly, not in the slot's first tenure, and the packet is lost: its entry.
fn freed_quietly(bench: &mut Bench) -> Entry {
    let ids = held(bench, [NAME]);
    bench.release(0, ids[0]);
    bench.run();
    let ids = held_behind_one(bench, [NAME]);
    bench.release(0, ids[0]);
    assert_eq!(asked(bench), [quietly(NAME)]);
    bench.sent()[0].1
}

fn header(kind: u8) -> Header {
    Header { epoch: EPOCH, kind, ..Header::default() }
}

fn bits(state: SlotState, joins: u16) -> u16 {
    SlotBits { state, joins, ..SlotBits::default() }.to_u16()
}

/// The answer to this question, of so many tenures later.
pub fn answer(asked: &Entry, tenures: u32) -> Entry {
    Entry { tenure: asked.tenure + tenures, holder: 0, slot_bits: bits(SlotState::Unheld, 0), ..*asked }
}

pub fn freed(bench: &mut Bench, answers: &[Entry]) {
    bench.tell(0, header(kind::lock::FREED), answers);
}

/// A packet under way that is late.
fn held_up(bench: &mut Bench, kind: u8) -> Flying {
    let is_it = |flying: &Flying| check(&flying.packet).is_ok_and(|header| header.kind == kind);
    let at = bench.flying.iter().position(is_it).expect("it is under way");
    bench.flying.remove(at).expect("it is there")
}

/// Node 1 asks for the slot while the switch takes node 0 for its agent.
fn forward(bench: &mut Bench, asked_for: &Entry) {
    let entry = Entry { request: 101 << 40 | 9, holder: handle(1), flags: entry_flag::EXCLUSIVE, ..*asked_for };
    let entry = Entry { slot_bits: bits(SlotState::Managed, 0), ..entry };
    bench.tell(0, Header { source: handle(1), ..header(kind::lock::ACQUIRE) }, &[entry]);
}

// ---- which are asked about ----

#[test]
fn of_slots_in_quick_succession_the_first_is_asked_about_and_then_one_in_32_with_all_that_went_quietly() {
    let mut bench = speaking(1);
    let names: Vec<u64> = (1..=34).collect();
    let ids = held(&mut bench, names.clone());
    let tenures: Vec<u32> = names.iter().map(|&name| bench.slot(name).tenure).collect();
    let question = |at: usize| match at {
        0 => asking([1]),
        32 => asking([33].into_iter().chain(2..=32)),
        _ => quietly(names[at]),
    };
    for (at, &id) in ids.iter().enumerate() {
        bench.release(0, id);
        assert_eq!(asked(&bench), [question(at)]);
        bench.run();
    }
    let answers = bench.delivered.iter().filter(|delivered| **delivered == (Some(0), kind::lock::FREED)).count();
    assert_eq!(answers, 2);
    for (&name, tenure) in names.iter().zip(tenures) {
        let slot = bench.slot(name);
        assert_eq!((slot.state, slot.tenure), (SlotState::Unheld, tenure + 1));
    }
    assert!(!bench.nodes[0].is_idle(), "of the last one it knows nothing yet");
    bench.nodes[0].settle_freed(bench.now, 0);
    bench.collect(0);
    assert_eq!(asked(&bench), [asking([34])], "all others are known to be free");
    bench.run();
    assert!(bench.nodes[0].is_idle());
}

#[test]
fn a_slot_long_after_the_one_before_is_asked_about_at_once_with_what_went_quietly() {
    let mut bench = speaking(1);
    let ids = held_behind_one(&mut bench, 1..=5);
    let questions = [quietly(1), quietly(2), asking([3, 1, 2]), quietly(4), asking([5, 4])];
    let since = [0, SELDOM - 1, SELDOM, SELDOM - 1, SELDOM];
    for ((id, question), since) in ids.into_iter().zip(questions).zip(since) {
        bench.now = bench.now + since;
        bench.release(0, id);
        assert_eq!(asked(&bench), [question]);
        bench.run();
    }
    assert!(bench.nodes[0].is_idle());
}

#[test]
fn how_long_that_is_a_node_is_told() {
    for (seldom_us, question) in [(0, asking([1])), (1_000, quietly(1))] {
        let mut bench = Bench::speaking(VERSION, 1, &NodeConfig { seldom_us, ..NodeConfig::new(1) });
        let ids = held_behind_one(&mut bench, [1]);
        bench.now = bench.now + 500;
        bench.release(0, ids[0]);
        assert_eq!(asked(&bench), [question]);
    }
}

/// The same slot again and again: only the last time counts.
#[test]
fn a_slot_that_went_quietly_more_than_once_is_asked_about_once() {
    let mut bench = speaking(1);
    let mut ids = held_behind_one(&mut bench, [NAME]);
    for _ in 0..3 {
        bench.release(0, ids[0]);
        assert_eq!(asked(&bench), [quietly(NAME)]);
        bench.run();
        ids = held(&mut bench, [NAME]);
    }
    bench.release(0, ids[0]);
    bench.run();
    bench.nodes[0].settle_freed(bench.now, 0);
    bench.collect(0);
    assert_eq!(asked(&bench), [asking([NAME])]);
    bench.run();
    assert!(bench.nodes[0].is_idle());
}

// ---- in one packet ----

#[test]
fn what_is_given_back_before_the_packet_leaves_goes_along_and_is_not_quiet() {
    let mut bench = speaking(1);
    let ids = held_behind_one(&mut bench, 1..=4);
    bench.release(0, ids[0]);
    bench.run();
    ids[1..].iter().for_each(|&id| bench.nodes[0].release(bench.now, id));
    bench.collect(0);
    assert_eq!(asked(&bench), [asking([2, 3, 4])]);
    bench.flying.clear();
    // What left before is still to be asked about, and nothing else.
    bench.nodes[0].settle_freed(bench.now, 0);
    bench.collect(0);
    assert_eq!(asked(&bench), [asking([1])]);
}

#[test]
fn a_packet_that_asks_takes_along_what_comes_behind_it() {
    let mut bench = speaking(1);
    let ids = held(&mut bench, 1..=3);
    ids.into_iter().for_each(|id| bench.nodes[0].release(bench.now, id));
    bench.collect(0);
    assert_eq!(asked(&bench), [asking([1, 2, 3])]);
    bench.run();
    assert!(bench.nodes[0].is_idle());
}

#[test]
fn a_33rd_begins_another_packet() {
    let mut bench = speaking(1);
    let ids = held_behind_one(&mut bench, 1..=35);
    ids.into_iter().for_each(|id| bench.nodes[0].release(bench.now, id));
    bench.collect(0);
    assert_eq!(asked(&bench), [asking(1..=32), asking(33..=35)]);
    bench.run();
    assert!(bench.nodes[0].is_idle());

    let ids = held_behind_one(&mut bench, 1..=33);
    ids.into_iter().for_each(|id| bench.nodes[0].release(bench.now, id));
    bench.collect(0);
    assert_eq!(asked(&bench), [asking(1..=32), quietly(33)]);
}

#[test]
fn a_packet_is_of_one_port() {
    let mut bench = speaking(1);
    let want = |(name, port)| Acquire {
        name,
        mode: Mode::Exclusive,
        try_: false,
        priority: Priority::NORMAL,
        deadline: None,
        port,
    };
    let ids = [(1, 5_000), (2, 5_001), (3, 5_001), (4, 5_000)].map(|of| bench.ask_with(0, want(of)));
    bench.run();
    ids.iter().for_each(|&id| {
        bench.granted(0, id);
    });
    held_behind_one(&mut bench, []);
    ids.into_iter().for_each(|id| bench.nodes[0].release(bench.now, id));
    bench.collect(0);
    let ports: Vec<u16> = bench.flying.iter().map(|flying| flying.from.port()).collect();
    assert_eq!(asked(&bench), [quietly(1), asking([2, 3]), quietly(4)]);
    assert_eq!(ports, [5_000, 5_001, 5_000].map(|port| address(0, port).port()));
}

// ---- nobody answers ----

#[test]
fn the_timer_of_a_quiet_slot_asks_about_all_and_whoever_is_not_answered_asks_again_together() {
    let mut bench = speaking(1);
    let ids = held_behind_one(&mut bench, 1..=3);
    for id in ids {
        bench.now = bench.now + 50;
        bench.release(0, id);
        bench.flying.clear();
    }
    bench.wait(PAUSE - 101);
    assert_eq!(asked(&bench), []);
    bench.wait(1);
    assert_eq!(asked(&bench), [asking(1..=3)]);
    assert_eq!(bench.flying[0].from, address(0, 0), "from the port that is read at any time");
    let nonces: Vec<u64> = entries(&bench.flying[0].packet).map(|entry| entry.request).collect();
    bench.flying.clear();
    bench.wait(PAUSE - 1);
    assert_eq!(asked(&bench), [], "they have all been asked about");
    for pauses in [1, 2, 4] {
        bench.wait(1);
        assert_eq!(asked(&bench), [asking(1..=3)]);
        let again: Vec<u64> = entries(&bench.flying[0].packet).map(|entry| entry.request).collect();
        assert_eq!(again, nonces);
        bench.flying.clear();
        bench.wait(2 * pauses * PAUSE - 1);
        assert_eq!(asked(&bench), [], "pauses double");
    }
    bench.wait(1);
    bench.run();
    assert!(bench.nodes[0].is_idle());
    assert!((1..=3).all(|name| bench.slot(name).state == SlotState::Unheld));
}

#[test]
fn a_question_that_was_lost_is_asked_again() {
    let mut bench = speaking(1);
    let ids = held(&mut bench, [1, 2]);
    ids.into_iter().for_each(|id| bench.nodes[0].release(bench.now, id));
    bench.collect(0);
    assert_eq!(lost(&mut bench), [asking([1, 2])]);
    bench.wait(PAUSE);
    assert_eq!(asked(&bench), [asking([1, 2])]);
    bench.run();
    assert!(bench.nodes[0].is_idle());
}

/// Each for itself they would be more than the switch answers, and its answers more than the port has room for.
#[test]
fn of_many_that_are_asked_about_again_32_share_a_packet() {
    let mut bench = speaking(1);
    let ids = held(&mut bench, 1..=40);
    ids.into_iter().for_each(|id| bench.nodes[0].release(bench.now, id));
    bench.collect(0);
    let all = [asking(1..=32), asking(33..=40)];
    assert_eq!(lost(&mut bench), all);
    for pauses in [1, 2] {
        bench.wait(pauses * PAUSE);
        assert_eq!(lost(&mut bench), all);
    }
}

/// What was said of it before, quietly, was of another tenure.
#[test]
fn a_slot_that_went_quietly_before_it_was_asked_about_is_asked_about_again_all_the_same() {
    let mut bench = speaking(1);
    let ids = held_behind_one(&mut bench, [NAME, 1]);
    bench.release(0, ids[0]);
    bench.run();
    let again = held(&mut bench, [NAME]);
    bench.now = bench.now + 100;
    bench.nodes[0].release(bench.now, ids[1]);
    bench.nodes[0].release(bench.now, again[0]);
    bench.collect(0);
    assert_eq!(lost(&mut bench), [asking([1, NAME])]);
    bench.wait(PAUSE);
    assert_eq!(asked(&bench), [asking([1, NAME])]);
}

/// Somebody asks for it in between, and it takes more than few words.
#[test]
fn who_was_asked_about_with_another_ones_timer_is_not_asked_about_sooner_for_being_wanted() {
    let mut bench = speaking(1);
    let ids = held_behind_one(&mut bench, [1, NAME]);
    bench.release(0, ids[0]);
    bench.now = bench.now + 100;
    bench.release(0, ids[1]);
    let entry = bench.sent()[1].1;
    bench.wait(PAUSE - 100);
    assert_eq!(lost(&mut bench), [asking([1, NAME])]);
    forward(&mut bench, &entry);
    bench.wait(PAUSE - 1);
    assert_eq!(asked(&bench), []);
    bench.wait(1);
    let mut again = asked(&bench);
    again.sort();
    assert_eq!(again, [retenure(NAME), asking([1])]);
}

#[test]
fn who_waits_until_all_is_known_asks_about_what_went_quietly_and_about_nothing_else() {
    let mut bench = speaking(1);
    let settle = |bench: &mut Bench| {
        bench.nodes[0].settle_freed(bench.now, 0);
        bench.collect(0);
        asked(bench)
    };
    assert_eq!(settle(&mut bench), []);
    let ids = held_behind_one(&mut bench, 1..=4);
    assert_eq!(settle(&mut bench), []);
    for &id in &ids[..3] {
        bench.release(0, id);
    }
    bench.run();
    assert_eq!(settle(&mut bench), [asking(1..=3)]);
    assert_eq!(bench.flying[0].from, address(0, 0), "no thread waits for one of them");
    bench.run();
    assert_eq!(settle(&mut bench), [], "it is known");
    assert_eq!(bench.nodes[0].books(1).map(Iterator::count), None);
    assert_eq!(bench.nodes[0].books(4).map(Iterator::count), Some(1), "held as before");
}

// ---- answers ----

#[test]
fn a_slot_is_free_when_the_answer_to_its_own_change_tells_a_later_tenure() {
    for (nonce, slot, tenures, is_over) in [(0, 0, 1, true), (0, 0, 9, true), (1, 0, 1, false), (0, 1, 1, false)] {
        let mut bench = speaking(1);
        let asked_for = freed_quietly(&mut bench);
        let answer = answer(&asked_for, tenures);
        freed(&mut bench, &[Entry { request: answer.request + nonce, slot: answer.slot + slot, ..answer }]);
        assert_eq!(bench.nodes[0].is_idle(), is_over, "{nonce} {slot} {tenures}");
        bench.pass(2 * PAUSE);
        assert!(bench.nodes[0].is_idle());
        assert_eq!(bench.slot(NAME).state == SlotState::Unheld, !is_over, "the switch was asked again");
    }
}

/// As of a slot that has changed while the switch looked at it.
#[test]
fn an_answer_of_the_tenure_that_was_to_end_ends_nothing() {
    for (earlier, state) in [(0, SlotState::Managed), (0, SlotState::Unheld), (1, SlotState::Unheld)] {
        let mut bench = speaking(1);
        let asked_for = freed_quietly(&mut bench);
        let tenure = asked_for.tenure - earlier;
        freed(&mut bench, &[Entry { tenure, slot_bits: bits(state, 0), ..asked_for }]);
        assert!(!bench.nodes[0].is_idle());
        bench.wait(2 * PAUSE);
        assert!(asked(&bench).contains(&retenure(NAME)));
    }
}

#[test]
fn every_slot_of_an_answer_is_for_itself() {
    let mut bench = speaking(1);
    let ids = held_behind_one(&mut bench, 1..=4);
    ids.into_iter().for_each(|id| bench.nodes[0].release(bench.now, id));
    bench.collect(0);
    let asked_for: Vec<Entry> = entries(&bench.flying[0].packet).collect();
    bench.flying.clear();
    let of_another = Entry { request: 3, ..answer(&asked_for[1], 1) };
    let as_before = Entry { slot_bits: bits(SlotState::Managed, 0), ..asked_for[2] };
    let unknown = Entry { slot: 9, ..answer(&asked_for[0], 1) };
    freed(&mut bench, &[unknown, answer(&asked_for[0], 1), of_another, as_before, answer(&asked_for[3], 1)]);
    let known = (1..=4).map(|slot| bench.nodes[0].books(slot).is_none());
    assert_eq!(known.collect::<Vec<_>>(), [true, false, false, true]);
}

/// Nodes 1 and 2 want it meanwhile: the first reads, of which this one hears late, and the second is to be alone.
#[test]
fn whose_joins_are_unknown_here_is_still_an_agent_and_serves_who_waits_behind_them() {
    let mut bench = speaking(3);
    held_behind_one(&mut bench, []);
    let own = bench.ask(0, NAME, Mode::Shared);
    bench.run();
    bench.granted(0, own);
    let reads = bench.ask(1, NAME, Mode::Shared);
    bench.step();
    let join = held_up(&mut bench, kind::lock::JOIN);
    bench.run();
    bench.granted(1, reads);
    bench.release(0, own);
    assert_eq!(asked(&bench), [quietly(NAME)]);
    bench.run();
    assert_eq!(bench.slot(NAME).state, SlotState::Open);
    let writes = bench.ask(2, NAME, Mode::Exclusive);
    bench.run();
    bench.quiet(2);
    bench.deliver(join);
    bench.run();
    bench.quiet(2);
    bench.release(1, reads);
    bench.run();
    bench.granted(2, writes);
    bench.release(2, writes);
    bench.pass(4 * PAUSE);
    assert!(bench.nodes.iter().all(|node| node.is_idle()));
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
}

// ---- wanted again ----

/// What became of the former tenure is no matter any more: nobody asks.
#[test]
fn a_slot_that_its_own_node_wants_before_it_has_heard_of_it_is_held_anew_in_few_words() {
    for is_asked_about in [false, true] {
        let mut bench = speaking(1);
        let ids = held_behind_one(&mut bench, [NAME, 1, 2]);
        bench.release(0, ids[0]);
        bench.run();
        if is_asked_about {
            bench.nodes[0].settle_freed(bench.now, 0);
            bench.collect(0);
            bench.run_until_sent(kind::lock::FREE);
            bench.step();
            assert_eq!(bench.flying.pop_front().map(|flying| flying.to), Some(Some(0)), "the answer is lost");
        }
        let tenure = bench.slot(NAME).tenure;
        bench.now = bench.now + 1_000;
        let again = bench.ask(0, NAME, Mode::Exclusive);
        assert_eq!(asked(&bench), [(kind::lock::ACQUIRE, false, vec![SLOT])]);
        bench.run();
        let (token, path) = bench.granted(0, again);
        assert_eq!((token.stamp().tenure, path), (tenure, Path::Switch));
        bench.wait(4 * PAUSE);
        assert_eq!(asked(&bench), []);
        bench.release(0, ids[1]);
        assert_eq!(lost(&mut bench), [asking([1])], "with nothing of the former tenure");
        bench.release(0, again);
        bench.release(0, ids[2]);
        assert_eq!(lost(&mut bench), [quietly(NAME), quietly(2)]);
    }
}

/// A copy of the grant that it had.
#[test]
fn a_grant_of_no_later_tenure_than_was_freed_is_not_taken() {
    for earlier in [0, 1] {
        let mut bench = speaking(1);
        let asked_for = freed_quietly(&mut bench);
        let RequestId(request) = bench.ask(0, NAME, Mode::Exclusive);
        bench.flying.clear();
        let (tenure, flags) = (asked_for.tenure - earlier, entry_flag::AGENCY | entry_flag::EXCLUSIVE);
        let grant = Entry { request, tenure, flags, slot_bits: bits(SlotState::Managed, 0), ..asked_for };
        bench.tell(0, header(kind::lock::GRANT), &[grant]);
        bench.quiet(0);
        bench.pass(4 * PAUSE);
        assert!(bench.granted(0, RequestId(request)).0.stamp().tenure > asked_for.tenure);
    }
}

/// As no switch grants it: there may be more to the slot than few words can tell.
#[test]
fn a_slot_that_is_held_is_not_granted_anew_in_few_words() {
    let mut bench = speaking(1);
    let reads = bench.ask(0, NAME, Mode::Shared);
    bench.run();
    let (token, _) = bench.granted(0, reads);
    let RequestId(request) = bench.ask(0, NAME, Mode::Exclusive);
    bench.flying.clear();
    let grant = Entry { name: NAME, request, slot: SLOT, holder: handle(0), ..Entry::default() };
    let (tenure, flags) = (token.stamp().tenure + 1, entry_flag::AGENCY | entry_flag::EXCLUSIVE);
    let slot_bits = bits(SlotState::Managed, 0);
    bench.tell(0, header(kind::lock::GRANT), &[Entry { tenure, flags, slot_bits, ..grant }]);
    bench.granted(0, RequestId(request));
    bench.release(0, RequestId(request));
    assert_eq!(asked(&bench), [retenure(NAME)]);
}

/// As another node's agent grants it: the slot was free, and somebody else had it first.
#[test]
fn what_another_agent_grants_of_a_slot_that_was_freed_quietly_is_held_and_the_former_tenure_asked_about() {
    let mut bench = speaking(2);
    let ids = held_behind_one(&mut bench, [NAME]);
    bench.release(0, ids[0]);
    bench.run();
    let theirs = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    bench.granted(1, theirs);
    let own = bench.ask(0, NAME, Mode::Exclusive);
    bench.run();
    bench.quiet(0);
    bench.release(1, theirs);
    bench.pass(4 * PAUSE);
    bench.granted(0, own);
    bench.release(0, own);
    bench.pass(4 * PAUSE);
    assert!(bench.nodes.iter().all(|node| node.is_idle()));
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
}

#[test]
fn a_reader_who_joins_a_slot_whose_free_was_lost_is_known_of_when_the_slot_is() {
    let mut bench = speaking(3);
    held_behind_one(&mut bench, []);
    let own = bench.ask(0, NAME, Mode::Shared);
    bench.run();
    bench.granted(0, own);
    bench.release(0, own);
    assert_eq!(lost(&mut bench), [quietly(NAME)]);
    let reads = bench.ask(1, NAME, Mode::Shared);
    bench.run();
    bench.granted(1, reads);
    assert!(!bench.nodes[0].is_idle());
    let writes = bench.ask(2, NAME, Mode::Exclusive);
    bench.pass(4 * PAUSE);
    bench.quiet(2);
    bench.release(1, reads);
    bench.run();
    bench.granted(2, writes);
}

#[test]
fn who_asks_for_a_slot_whose_free_was_lost_has_it_at_once() {
    let mut bench = speaking(2);
    freed_quietly(&mut bench);
    let id = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    assert_eq!(bench.granted(1, id).1, Path::Switch);
    assert!(bench.nodes[0].is_idle());
}

/// The switch has sent it on, frees the slot, and tells nobody.
#[test]
fn who_asks_for_a_slot_as_it_is_freed_quietly_has_it_at_once() {
    let mut bench = speaking(2);
    let ids = held_behind_one(&mut bench, [NAME]);
    let id = bench.ask(1, NAME, Mode::Exclusive);
    bench.release(0, ids[0]);
    assert_eq!(asked(&bench)[1..], [quietly(NAME)]);
    bench.run();
    assert_eq!(bench.granted(1, id).1, Path::Switch);
    assert!(bench.nodes[0].is_idle());
}

#[test]
fn what_its_own_node_waits_for_is_asked_about() {
    let mut bench = speaking(1);
    let reader = bench.ask(0, NAME, Mode::Shared);
    bench.run();
    bench.granted(0, reader);
    held_behind_one(&mut bench, []);
    let writer = bench.ask(0, NAME, Mode::Exclusive);
    bench.release(0, reader);
    assert_eq!(asked(&bench)[1..], [asking([NAME])]);
    bench.run();
    bench.granted(0, writer);
}

/// Another port may be read later.
#[test]
fn an_answer_that_comes_behind_the_next_grant_changes_nothing() {
    let mut bench = speaking(1);
    let ids = held(&mut bench, [NAME]);
    bench.release(0, ids[0]);
    bench.step();
    let late = held_up(&mut bench, kind::lock::FREED);
    let ids = held(&mut bench, [NAME]);
    bench.deliver(late);
    bench.release(0, ids[0]);
    assert_eq!(asked(&bench), [quietly(NAME)], "of an agent in full it were RETENURE");
}

/// It was sent on before the slot was freed, and comes to its former agent before the answer.
#[test]
fn who_asks_for_a_slot_as_it_is_freed_has_it_with_the_answer() {
    let mut bench = speaking(2);
    let ids = held(&mut bench, [NAME]);
    bench.release(0, ids[0]);
    let free = held_up(&mut bench, kind::lock::FREE);
    let id = bench.ask(1, NAME, Mode::Exclusive);
    bench.run();
    bench.quiet(1);
    bench.deliver(free);
    bench.run();
    assert_eq!(bench.granted(1, id).1, Path::Switch);
    assert!(bench.nodes[0].is_idle());
}

// ---- a census, and the end ----

pub fn census(bench: &mut Bench, epoch: u32, slot: u32, tenure: u32) {
    let about = Entry { request: CENSUS, slot, tenure, ..Entry::default() };
    bench.tell(0, Header { epoch, ..header(kind::lock::CENSUS) }, &[about]);
    bench.flying.clear();
}

/// Nor is it lost: whoever is its agent then frees it.
#[test]
fn of_a_slot_at_a_census_nothing_is_asked_and_of_the_others_as_before() {
    let mut bench = speaking(1);
    let ids = held_behind_one(&mut bench, [1, NAME, 2]);
    ids.into_iter().for_each(|id| bench.release(0, id));
    bench.flying.clear();
    let before = bench.slot(NAME);
    census(&mut bench, EPOCH, SLOT, before.tenure + 1);
    bench.wait(PAUSE);
    assert_eq!(asked(&bench), [asking([1, 2])]);
    bench.run();
    bench.wait(4 * PAUSE);
    assert_eq!(asked(&bench), []);
    assert!(bench.nodes[0].books(SLOT).is_none() && !bench.nodes[0].is_idle());
    let tenure = before.tenure + 2;
    let adopted =
        SlotWord { state: SlotState::Managed, agent: handle(0), transferred: true, ..SlotWord::unheld(tenure) };
    assert!(bench.switch.cas_slot(1, SLOT, before, adopted));
    let bits = SlotBits { state: SlotState::Managed, transferred: true, ..SlotBits::default() };
    let agency = Entry { slot: SLOT, tenure, holder: handle(0), slot_bits: bits.to_u16(), ..Entry::default() };
    let agency = Entry { flags: entry_flag::AGENCY, ..agency };
    let adopt = Header { flags: header_flag::LAST, ..header(kind::lock::ADOPT) };
    bench.tell(0, adopt, &[Entry { request: CENSUS, ..Entry::default() }, agency]);
    bench.run();
    assert_eq!(bench.slot(NAME).state, SlotState::Unheld);
    assert!(bench.nodes[0].is_idle());
}

#[test]
fn a_slot_of_a_later_tenure_than_a_census_asks_about_is_asked_about_itself() {
    let mut bench = speaking(1);
    let asked_for = freed_quietly(&mut bench);
    census(&mut bench, EPOCH, SLOT, asked_for.tenure - 1);
    bench.wait(PAUSE);
    assert!(asked(&bench).contains(&retenure(NAME)));
    bench.run();
    assert!(bench.nodes[0].is_idle());
}

#[test]
fn nothing_is_asked_about_slots_of_before_a_census_of_all() {
    let mut bench = speaking(1);
    let ids = held_behind_one(&mut bench, 1..=3);
    ids[..2].iter().for_each(|&id| bench.release(0, id));
    census(&mut bench, EPOCH + 1, limits::ALL_SLOTS, 0);
    bench.nodes[0].settle_freed(bench.now, 0);
    bench.collect(0);
    bench.wait(2 * PAUSE);
    assert_eq!(asked(&bench), []);
    assert_eq!((bench.nodes[0].books(1).is_none(), bench.nodes[0].holds().count()), (true, 1));
}

/// The node's session ends as it wishes, and it enrols once more.
pub fn begin_anew(bench: &mut Bench) {
    bench.nodes[0].leave(bench.now);
    let left = Header { service: service::FABRIC, kind: kind::fabric::LEFT, ..Header::default() };
    let body = Heartbeat { incarnation: 100, ..Heartbeat::default() };
    bench.say(Header { destination: handle(0), ..left }, body);
    while bench.nodes[0].event().is_some() {}
    bench.nodes[0].start(bench.now);
    let nonce = Enrol::read(bench.nodes[0].transmit().expect("a node enrols").packet, BODY).nonce;
    let mut packet = vec![0; BODY + FabricKind::Enrolled.body().bytes(0)];
    let header = Header { kind: kind::fabric::ENROLLED, destination: handle(0), epoch: EPOCH, ..Header::default() };
    Header { service: service::FABRIC, namespace: 1, ..header }.write(&mut packet);
    let body = Enrolled { nonce, incarnation: 100, slots: SLOTS, version: VERSION, ..Enrolled::default() };
    Enrolled { lease_us: LEASE as u32, ..body }.write(&mut packet, BODY);
    bench.nodes[0].on_packet(bench.now, &packet);
    assert!(matches!(bench.nodes[0].event(), Some(Event::Enrolled(_))));
    bench.collect(0);
    bench.run();
}

#[test]
fn a_session_asks_about_nothing_of_the_one_before_and_has_room_for_as_much_of_its_own() {
    let mut bench = speaking(1);
    let ids = held_behind_one(&mut bench, 1..=20);
    ids.into_iter().for_each(|id| bench.release(0, id));
    bench.run();
    begin_anew(&mut bench);
    let ids = held(&mut bench, 31..=62);
    for (id, slot) in ids.into_iter().zip(31..) {
        bench.release(0, id);
        assert_eq!(lost(&mut bench), [if slot == 62 { asking([62].into_iter().chain(31..62)) } else { quietly(slot) }]);
    }
}

/// It stands in the outbox when its slot turns out to be somebody else's matter, too.
#[test]
fn a_quiet_packet_that_has_not_left_is_joined_though_nothing_is_to_be_asked_about_it() {
    let mut bench = speaking(2);
    let ids = held_behind_one(&mut bench, 1..=2);
    bench.ask(1, 1, Mode::Exclusive);
    bench.step();
    let forwarded = bench.flying.pop_front().expect("it is sent on");
    let now = bench.now;
    bench.nodes[0].release(now, ids[0]);
    bench.nodes[0].on_packet(now, &forwarded.packet);
    bench.nodes[0].settle_freed(now, 0);
    bench.nodes[0].release(now, ids[1]);
    bench.collect(0);
    bench.run();
    bench.wait(2 * PAUSE);
    bench.run();
    assert!(bench.nodes[0].is_idle());
}
