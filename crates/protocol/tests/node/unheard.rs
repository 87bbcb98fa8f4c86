//! Switches that do not answer FREE, or do not know it (`node/freeing.rs`): what is freed by RETENURE then, and until
//! when.

use crate::bench::{Bench, EPOCH, LEASE, handle};
use crate::freeing::{PAUSE, SELDOM, answer, asked, asking, begin_anew, census, freed, held, held_behind_one};
use crate::freeing::{lost, quietly, retenure, speaking};
use wayside_protocol::memory::SwitchMemory;
use wayside_protocol::{Mode, NodeConfig, RequestId};
use wayside_wire::{Header, Heartbeat, MAJOR, VERSION, kind, limits, service};

/// Pauses in a row with questions that nobody answers.
const UNHEARD_MOST: usize = 8;

#[test]
fn a_switch_or_a_node_of_before_1_14_frees_by_retenure_alone() {
    let before = MAJOR << 4 | 13;
    for (told, version, knows_free) in
        [(before, VERSION, false), (VERSION, before, false), (0, VERSION, false), (before + 1, before + 1, true)]
    {
        let mut bench = Bench::speaking(told, 1, &NodeConfig { version, ..NodeConfig::new(1) });
        let ids = held(&mut bench, 1..=3);
        ids.into_iter().for_each(|id| bench.nodes[0].release(bench.now, id));
        bench.collect(0);
        assert_eq!(asked(&bench), if knows_free { vec![asking(1..=3)] } else { [1, 2, 3].map(retenure).to_vec() });
        bench.run();
        assert!(bench.nodes[0].is_idle());
    }
}

/// As one that began over a secure connection was told none, and as one that goes on at a standby.
#[test]
fn which_version_its_switch_speaks_a_session_hears_from_every_answer_to_a_heartbeat() {
    let before = MAJOR << 4 | 13;
    let mut bench = Bench::speaking(0, 1, &NodeConfig::new(1));
    let ids = held(&mut bench, 1..=4);
    for (id, (version, question)) in ids.into_iter().zip([
        (before, retenure(1)),
        (VERSION, asking([2])),
        (before, retenure(3)),
        (VERSION, asking([4])),
    ]) {
        bench.version = version;
        bench.pass(LEASE / 2);
        bench.release(0, id);
        assert_eq!(asked(&bench), [question]);
        bench.run();
    }
}

/// Before the question of this number, when none before it was answered.
fn pause_before(number: usize) -> u64 {
    PAUSE << number.saturating_sub(1)
}

/// Node 0 gives these back, each twice as long after the one before as that one was, and nobody answers.
fn unheard(bench: &mut Bench, ids: &[RequestId]) {
    for (number, &id) in ids.iter().enumerate() {
        bench.now = bench.now + pause_before(number);
        bench.release(0, id);
        assert!(matches!(lost(bench)[..], [(kind::lock::FREE, false, _)]));
    }
}

#[test]
fn after_eight_pauses_in_which_nobody_answers_slots_are_freed_by_retenure_until_one_is_answered() {
    let mut bench = speaking(1);
    let ids = held(&mut bench, 1..=12);
    unheard(&mut bench, &ids[..UNHEARD_MOST - 1]);
    bench.now = bench.now + pause_before(UNHEARD_MOST - 1);
    bench.release(0, ids[7]);
    let answer = answer(&bench.sent()[0].1, 1);
    bench.release(0, ids[8]);
    assert_eq!(lost(&mut bench), [retenure(9)]);
    freed(&mut bench, &[answer]);
    bench.release(0, ids[9]);
    assert_eq!(lost(&mut bench), [quietly(10)]);
}

#[test]
fn an_answer_at_any_time_begins_the_count_of_those_that_nobody_answers_anew() {
    let mut bench = speaking(1);
    let ids = held(&mut bench, 1..=20);
    unheard(&mut bench, &ids[..UNHEARD_MOST - 1]);
    bench.now = bench.now + PAUSE;
    bench.release(0, ids[7]);
    bench.run();
    unheard(&mut bench, &ids[8..][..UNHEARD_MOST]);
    bench.release(0, ids[16]);
    assert_eq!(lost(&mut bench), [retenure(17)]);
}

#[test]
fn what_is_asked_again_counts_as_well() {
    let mut bench = speaking(1);
    let ids = held(&mut bench, 1..=2);
    bench.release(0, ids[0]);
    // Heartbeats alone arrive.
    let pass = |bench: &mut Bench| {
        let asked = asked(bench);
        bench.flying.retain(|flying| Header::read(&flying.packet).is_ok_and(|header| header.service != service::LOCK));
        bench.run();
        bench.wait(PAUSE);
        asked
    };
    for pauses in (0..UNHEARD_MOST - 1).map(|number| 1 << number) {
        assert_eq!(pass(&mut bench), [asking([1])], "{pauses} pauses after the one before");
        assert!((1..pauses).all(|_| pass(&mut bench).is_empty()));
    }
    assert_eq!(pass(&mut bench), [asking([1])]);
    bench.release(0, ids[1]);
    assert_eq!(lost(&mut bench), [retenure(2)]);
}

/// What goes quietly is no question, however much of it there is.
#[test]
fn nobody_is_taken_for_silent_who_was_not_asked() {
    let mut bench = speaking(1);
    let ids = held_behind_one(&mut bench, 1..=31);
    for (id, slot) in ids.into_iter().zip(1..) {
        bench.release(0, id);
        assert_eq!(lost(&mut bench), [quietly(slot)]);
    }
    bench.wait(PAUSE);
    assert_eq!(asked(&bench), [asking(1..=31)]);
}

#[test]
fn whether_its_switch_answers_a_session_finds_out_for_itself() {
    let mut bench = speaking(1);
    let ids = held(&mut bench, 1..=9);
    unheard(&mut bench, &ids[..UNHEARD_MOST]);
    bench.release(0, ids[8]);
    assert_eq!(lost(&mut bench), [retenure(9)]);
    begin_anew(&mut bench);
    let ids = held(&mut bench, 31..=31);
    bench.release(0, ids[0]);
    assert_eq!(asked(&bench), [quietly(31)]);
}

/// Whoever serves next may know FREE.
#[test]
fn after_a_census_of_all_or_another_turn_its_switch_is_another_one() {
    for is_census in [true, false] {
        let mut bench = speaking(1);
        let ids = held(&mut bench, 1..=UNHEARD_MOST as u64);
        unheard(&mut bench, &ids);
        if is_census {
            census(&mut bench, EPOCH + 1, limits::ALL_SLOTS, 0);
            bench.switch.set_epoch(EPOCH + 1);
        } else {
            let turn = Header { service: service::FABRIC, kind: kind::fabric::TURN, epoch: EPOCH, ..Header::default() };
            let body = Heartbeat { sequence: 1, incarnation: 100, ..Heartbeat::default() };
            bench.say(Header { destination: handle(0), ..turn }, body);
        }
        bench.flying.clear();
        let later = held(&mut bench, [40]);
        bench.release(0, later[0]);
        assert_eq!(lost(&mut bench), [quietly(40)], "{is_census}");
    }
}

/// It answers all who ask while it recovers, whatever it knows.
#[test]
fn a_switch_that_recovers_answers_who_asks_for_a_slot_and_that_says_nothing_of_free() {
    let mut bench = speaking(1);
    let ids = held(&mut bench, 1..=9);
    unheard(&mut bench, &ids[..UNHEARD_MOST]);
    bench.switch.set_serving(false);
    bench.ask(0, 40, Mode::Exclusive);
    bench.run();
    bench.switch.set_serving(true);
    bench.release(0, ids[8]);
    assert_eq!(lost(&mut bench), [retenure(9)]);
}

#[test]
fn a_switch_that_recovers_is_heard() {
    let mut bench = speaking(1);
    let ids = held(&mut bench, 1..=9);
    bench.switch.set_serving(false);
    for &id in &ids[..UNHEARD_MOST] {
        bench.now = bench.now + PAUSE;
        bench.release(0, id);
        bench.run();
    }
    bench.switch.set_serving(true);
    bench.now = bench.now + SELDOM;
    bench.release(0, ids[8]);
    assert_eq!(asked(&bench), [asking([9])]);
}

#[test]
fn questions_about_what_is_given_back_together_count_as_well() {
    let config = NodeConfig { seldom_us: LEASE, ..NodeConfig::new(1) };
    let mut bench = Bench::speaking(VERSION, 1, &config);
    let ids = held(&mut bench, 1..=17);
    for (number, pair) in ids[..2 * UNHEARD_MOST].chunks(2).enumerate() {
        bench.now = bench.now + pause_before(number);
        pair.iter().for_each(|&id| bench.nodes[0].release(bench.now, id));
        bench.collect(0);
        assert_eq!(lost(&mut bench).len(), 1);
    }
    bench.release(0, ids[2 * UNHEARD_MOST]);
    assert_eq!(asked(&bench), [retenure(17)]);
}

/// Who gives back thousands at once reads nothing meanwhile.
#[test]
fn questions_within_a_pause_count_once() {
    let mut bench = speaking(1);
    bench.now = bench.now + PAUSE;
    for id in held(&mut bench, 1..=3 * UNHEARD_MOST as u64) {
        bench.now = bench.now + SELDOM;
        bench.release(0, id);
        assert!(matches!(lost(&mut bench)[..], [(kind::lock::FREE, false, _)]));
    }
}
