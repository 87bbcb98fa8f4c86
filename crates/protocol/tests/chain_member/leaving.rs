//! Keys without a value that leave: when, in which order, and what stops them.

use wayside_protocol::chain::memory::ItemMemory;
use wayside_protocol::chain::{Key, RemovedKey, Sweeping, Version};
use wayside_wire::{Copied, Header, Outcome, kind};

use crate::support::*;

const NAME: &[u8] = b"key/1";
/// Between two looks at all keys, and a part of what a key without a value stays.
const LOOK: u64 = COLLECT_AFTER / 2;

/// A name of the same group, and one of the other.
fn others() -> [Vec<u8>; 2] {
    let group = group_of(NAME);
    [group, if group == BASE { BASE + 1 } else { BASE }]
        .map(|group| names_of(group).find(|name| name != NAME).expect("there are many"))
}

/// A key has no value since this version, and the head has just seen it so for the first time.
fn idle_in(setup: &Setup) -> (World, Version) {
    let mut world = World::of(setup);
    assert_eq!(world.insert(NAME), Some(Outcome::Done));
    assert!(world.write(1, NAME, b"x").is_some());
    let at = world.delete(1, NAME).expect("it was there");
    world.pass(setup.sweeping.look_again.min(setup.sweeping.collect_after / 2));
    assert_eq!(world.take(), []);
    (world, at)
}

fn idle(switches: usize) -> (World, Version) {
    idle_in(&Setup { switches, ..Setup::default() })
}

/// The head has asked whether all have the key so.
fn asked(switches: usize) -> (World, Version, Parcel) {
    let (mut world, at) = idle(switches);
    world.pass(LOOK);
    assert_eq!(world.take(), []);
    world.pass(LOOK);
    let said = world.take();
    assert_eq!(kinds(&said), [kind::chain::APPLY, kind::chain::REMOVE]);
    world.deliver(said[0].clone());
    world.settle();
    (world, at, said[1].clone())
}

/// All have, and the head has marked it and said so.
fn marked(switches: usize) -> (World, Version, Parcel) {
    let (mut world, at, question) = asked(switches);
    world.deliver(question);
    world.settle_but(|parcel| parcel.from == switch(0));
    // That was lost, and is said again.
    world.pass(RETRANSMIT);
    let said = world.take();
    assert_eq!(kinds(&said), [kind::chain::APPLY, kind::chain::REMOVE]);
    world.deliver(said[0].clone());
    world.settle();
    assert_eq!(world.contents(NAME), vec![nothing(at); switches]);
    (world, at, said[1].clone())
}

fn about(at: Version, nonce: u64) -> Copied {
    let key = key(NAME);
    Copied {
        key_high: key.high,
        key_low: key.low,
        nonce,
        sequence: at.sequence,
        epoch: at.epoch,
        group: group_of(NAME),
        ..Copied::default()
    }
}

fn are_there(world: &World) -> Vec<bool> {
    world.contents(NAME).iter().map(Option::is_some).collect()
}

#[test]
fn a_key_that_has_been_without_a_value_for_long_enough_leaves_the_tail_first_and_the_head_last() {
    let (mut world, at) = idle(3);
    assert_eq!(at, version(EPOCH, 4));
    world.pass(LOOK);
    world.pass(LOOK - 1);
    assert_eq!(world.take(), []);
    world.pass(1);
    let mut said = world.take();
    for seat in 0..2 {
        assert_eq!(kinds(&said), [kind::chain::APPLY, kind::chain::REMOVE], "who lacks the version gets it first");
        assert_eq!((said[0].told(), said[1].copied()), (at, about(at, 0)), "a question");
        let header = said[1].header();
        assert_eq!((said[1].from, said[1].to, said[1].port), (switch(seat), switch(seat + 1), 0));
        assert_eq!((header.source, header.destination, header.epoch), (switch(seat), switch(seat + 1), EPOCH));
        world.deliver_all(said);
        said = world.take();
    }
    assert_eq!(kinds(&said), [kind::chain::ANSWER, kind::chain::REMOVED]);
    let mut removed = said.pop().expect("it is there");
    for seat in [2, 1] {
        assert_eq!((removed.from, removed.to, removed.copied()), (switch(seat), switch(seat - 1), about(at, 0)));
        world.deliver(removed);
        removed = world.take_only(if seat == 2 { kind::chain::REMOVED } else { kind::chain::REMOVE });
    }
    assert_eq!(world.contents(NAME), vec![nothing(at); 3], "nobody removes it for a question");
    assert!(world.seats.iter().all(|seat| seat.member.is_named(group_of(NAME), key(NAME))));
    assert_eq!((world.due_in(0), world.seats[0].member.is_swept()), (Some(RETRANSMIT), false));
    let remove = removed;
    assert_eq!((remove.to, remove.copied()), (switch(1), about(at, 5)), "with the head's count");
    world.deliver(remove);
    let remove = world.take_only(kind::chain::REMOVE);
    assert_eq!((remove.to, remove.copied(), are_there(&world)), (switch(2), about(at, 5), vec![true; 3]));
    world.deliver(remove);
    for seat in [2, 1, 0] {
        let there: Vec<bool> = (0..3).map(|other| other < seat).collect();
        if seat > 0 {
            let removed = world.take_only(kind::chain::REMOVED);
            assert_eq!((removed.from, removed.copied(), are_there(&world)), (switch(seat), about(at, 5), there));
            world.deliver(removed);
        }
        let member = &mut world.seats[seat].member;
        // Behind the head nobody knows the check.
        let check = if seat == 0 { key(NAME).check } else { 0 };
        let key = Key { check, ..key(NAME) };
        let gone = RemovedKey { group: group_of(NAME), key, at, by_head: seat == 0 };
        assert_eq!((member.removed(), member.removed()), (Some(gone), None));
        assert_eq!((member.known_names(), member.is_swept()), (0, true));
    }
    assert_eq!((are_there(&world), world.take()), (vec![false; 3], vec![]));
    assert_eq!(world.due_in(0), Some(LOOK));
    world.run(10 * COLLECT_AFTER);
    assert!(world.seats.iter_mut().all(|seat| seat.member.removed().is_none()));
    // It is made again, later than all of its earlier life.
    assert_eq!(world.insert(NAME), Some(Outcome::Done));
    assert!(world.contents(NAME).iter().all(|content| content.is_some_and(|content| content.version > at)));
}

#[test]
fn nobody_makes_or_writes_a_key_that_is_marked() {
    let (mut world, at, _remove) = marked(2);
    assert_eq!((world.insert(NAME), world.write(1, NAME, b"y")), (None, None));
    assert_eq!(world.contents(NAME), vec![nothing(at); 2]);
}

#[test]
fn a_removal_is_told_again_with_the_version_and_no_second_one_begins() {
    let [same, other] = others();
    let mut world = World::new(2);
    for name in [NAME, &same, &other] {
        assert_eq!(world.insert(name), Some(Outcome::Done));
    }
    for _ in 0..3 {
        world.pass(LOOK);
    }
    // All three are asked about, and marked; then nothing arrives.
    world.settle_but(|parcel| matches!(parcel.kind(), kind::chain::REMOVE if parcel.copied().nonce != 0));
    for _ in 0..3 {
        world.pass(RETRANSMIT - 1);
        assert_eq!(world.take(), []);
        world.pass(1);
        let said = world.take();
        let pairs: Vec<_> = said.chunks(2).map(|pair| (pair[0].kind(), pair[1].kind())).collect();
        assert_eq!(pairs, [(kind::chain::APPLY, kind::chain::REMOVE); 3]);
        for pair in said.chunks(2) {
            assert_eq!(pair[0].told(), pair[1].told());
            assert_eq!(pair[0].effect().key_high, pair[1].copied().key_high);
            assert_ne!(pair[1].copied().nonce, 0);
        }
        // A look in between asks no second time.
        world.seats[0].end_session(3);
        world.pass(0);
        assert_eq!(world.take(), []);
    }
    // The one of one group goes on while the other group's place is another.
    world.place(group_of(&other), EPOCH + 1, &[0, 1]);
    world.pass(RETRANSMIT);
    assert_eq!(world.wire.len(), 4);
    world.settle();
    assert_eq!(world.contents(NAME), [None, None]);
    assert_eq!(world.contents(&same), [None, None]);
    assert!(world.contents(&other).iter().all(Option::is_some));
    assert!(world.seats[0].member.is_swept());
}

#[test]
fn what_is_due_first_is_done_first() {
    let (mut world, _at, _remove) = marked(2);
    let [same, _] = others();
    assert_eq!(world.insert(&same), Some(Outcome::Done));
    assert!(world.lease(1, &same, b"mine").is_some());
    world.now += RETRANSMIT / 4;
    world.seats[0].end_session(1);
    world.pass(0);
    assert_eq!(kinds(&world.take_to(switch(1))), [kind::chain::APPLY]);
    assert_eq!(world.due_in(0), Some(RETRANSMIT * 3 / 4), "the removal, which was told first");
    world.pass(RETRANSMIT * 3 / 4);
    assert_eq!(world.due_in(0), Some(RETRANSMIT / 4), "the end of the lease");
}

#[test]
fn only_what_has_no_value_at_the_version_told_goes() {
    let (mut world, at, question) = asked(3);
    let to_tail = question.headed(|header| (header.source, header.destination) = (switch(1), switch(2)));
    let removed = |world: &mut World, seat: usize, nonce: u64, told: &Parcel| {
        let told = told.copying(|copied| copied.nonce = nonce);
        world.hand_over(seat, told.from, &told.packet);
        let said = world.take();
        (kinds(&said), are_there(world)[seat])
    };
    // Another version, of no value; and the version told, with one.
    let earlier = to_tail.copying(|copied| copied.sequence -= 1);
    for nonce in [0, 9] {
        assert_eq!(removed(&mut world, 2, nonce, &earlier), (vec![], true));
    }
    let written = world.write(1, NAME, b"y").expect("it is not marked yet");
    let with_value = to_tail.copying(|copied| copied.sequence = written.sequence);
    for nonce in [0, 9] {
        assert_eq!(removed(&mut world, 2, nonce, &with_value), (vec![], true));
        assert_eq!(removed(&mut world, 2, nonce, &to_tail), (vec![], true));
        // So it is in the middle, whether it comes from before or from behind.
        assert_eq!(removed(&mut world, 1, nonce, &question), (vec![], true));
        let from_behind = question.headed(|header| {
            (header.kind, header.source, header.destination) = (kind::chain::REMOVED, switch(2), switch(1));
        });
        let with_value = from_behind.copying(|copied| copied.sequence = written.sequence);
        assert_eq!(removed(&mut world, 1, nonce, &from_behind), (vec![], true));
        assert_eq!(removed(&mut world, 1, nonce, &with_value), (vec![], true));
    }
    // Who has not the key says so, and asks nobody: whoever is behind him has not either.
    assert!(world.seats[1].switch.remove(group_of(NAME), key(NAME)));
    let there = (vec![kind::chain::REMOVED], false);
    assert_eq!(removed(&mut world, 1, 0, &question), there);
    let from_behind = question.headed(|header| {
        (header.kind, header.source, header.destination) = (kind::chain::REMOVED, switch(2), switch(1));
    });
    assert_eq!(removed(&mut world, 1, 9, &from_behind), there);
    assert_eq!(world.contents(NAME)[0].map(|content| content.version > at), Some(true));
}

#[test]
fn only_neighbours_of_the_epoch_speak_of_removals() {
    let (mut world, at, remove) = marked(3);
    let removed = remove.headed(|header| (header.kind, header.source) = (kind::chain::REMOVED, switch(1)));
    let is_heard = |world: &mut World, seat: usize, told: &Parcel| {
        world.hand_over(seat, told.from, &told.packet);
        !world.take().is_empty() || are_there(world) != [true; 3]
    };
    let of = |told: &Parcel, source| told.headed(|header| header.source = source);
    let late = |told: &Parcel| told.headed(|header| header.epoch -= 1);
    for (seat, told) in [
        (1, of(&remove, switch(2))),
        (1, late(&remove)),
        (2, of(&remove, switch(0))),
        (2, late(&of(&remove, switch(1)))),
        (0, of(&remove, 0)),
        (1, of(&removed, switch(0))),
        (1, late(&of(&removed, switch(2)))),
        (0, of(&removed, switch(2))),
        (0, late(&removed)),
        (2, of(&removed, 0)),
        // The head's own is another removal, of another version, or of another key.
        (0, removed.copying(|copied| copied.nonce += 1)),
        (0, removed.copying(|copied| copied.sequence -= 1)),
        (0, removed.copying(|copied| copied.key_low ^= 1)),
    ] {
        assert!(!is_heard(&mut world, seat, &told), "{told:?} at switch {seat}");
    }
    assert_eq!(world.contents(NAME), vec![nothing(at); 3]);
    world.deliver(remove);
    world.settle();
    assert_eq!(are_there(&world), [false; 3]);
}

#[test]
fn a_question_that_is_answered_twice_or_too_late_marks_nothing_more() {
    let (mut world, at, question) = asked(2);
    world.deliver(question);
    let removed = world.take_only(kind::chain::REMOVED);
    world.deliver(removed.copying(|copied| copied.sequence -= 1));
    world.deliver(removed.copying(|copied| copied.key_high ^= 1));
    assert_eq!(world.take(), [], "that was no question of its own");
    world.deliver(removed.clone());
    let remove = world.take_only(kind::chain::REMOVE);
    assert_eq!(remove.copied(), about(at, 5));
    world.deliver(removed.clone());
    assert_eq!(world.take(), []);
    world.deliver(remove);
    world.settle();
    assert_eq!(are_there(&world), [false; 2]);
    world.deliver(removed);
    assert_eq!(world.take(), []);
    // Somebody has written it since the question.
    let (mut world, _, question) = asked(2);
    world.deliver(question);
    let removed = world.take_only(kind::chain::REMOVED);
    assert!(world.write(1, NAME, b"y").is_some());
    world.deliver(removed);
    assert_eq!((world.take(), world.seats[0].member.is_swept()), (vec![], true));
    assert_eq!(world.values(NAME), vec![Some(b"y".to_vec()); 2]);
}

#[test]
fn the_time_without_a_value_is_counted_from_the_latest_version_and_in_one_place() {
    // Written and deleted meanwhile.
    let (mut world, _) = idle(2);
    world.pass(LOOK);
    assert!(world.write(1, NAME, b"y").is_some());
    let at = world.delete(1, NAME).expect("it was there");
    for _ in 0..2 {
        world.pass(LOOK);
        assert_eq!(world.take(), []);
    }
    world.pass(LOOK);
    let said = world.take();
    assert_eq!((kinds(&said), said[1].told()), (vec![kind::chain::APPLY, kind::chain::REMOVE], at));
    // In another place; and a key of another group goes when it would.
    let [_, other] = others();
    let (mut world, _) = idle(2);
    assert_eq!(world.insert(&other), Some(Outcome::Done));
    world.pass(LOOK);
    world.place(group_of(NAME), EPOCH + 1, &[0, 1]);
    world.pass(LOOK);
    assert_eq!(world.take(), []);
    world.pass(LOOK);
    let said = world.take();
    assert_eq!(
        (kinds(&said), said[1].copied().group),
        (vec![kind::chain::APPLY, kind::chain::REMOVE], group_of(&other))
    );
    world.pass(LOOK);
    let said = world.take();
    let is_its = |parcel: &Parcel| parcel.kind() == kind::chain::REMOVE && parcel.copied().group == group_of(NAME);
    assert_eq!(said.iter().filter(|parcel| is_its(parcel)).count(), 1);
    assert_eq!(said.iter().find(|parcel| is_its(parcel)).map(|parcel| parcel.header().epoch), Some(EPOCH + 1));
}

#[test]
fn keys_stay_for_ever_where_none_are_collected() {
    let sweeping = Sweeping { collect_after: 0, looks: 512, retransmit: RETRANSMIT, look_again: 1_000 };
    for switches in [1, 2] {
        let mut world = World::of(&Setup { switches, sweeping, ..Setup::default() });
        assert_eq!(world.insert(NAME), Some(Outcome::Done));
        for _ in 0..10 {
            world.pass(1_000);
            assert_eq!(world.take(), []);
        }
        assert!(are_there(&world).into_iter().all(|is_there| is_there));
    }
}

#[test]
fn a_switch_that_is_alone_removes_keys_at_once() {
    let (mut world, at) = idle(1);
    world.pass(LOOK);
    assert!(are_there(&world)[0]);
    world.pass(LOOK);
    assert_eq!((world.take(), are_there(&world)), (vec![], vec![false]));
    let gone = RemovedKey { group: group_of(NAME), key: key(NAME), at, by_head: true };
    assert_eq!(world.seats[0].member.removed(), Some(gone));
    assert_eq!((world.seats[0].member.known_names(), world.seats[0].member.is_swept()), (0, true));
}

#[test]
fn with_another_place_the_mark_goes_and_the_key_stays() {
    let (mut world, at, remove) = marked(3);
    world.place(group_of(NAME), EPOCH + 1, &[0, 1, 2]);
    world.rest();
    world.pass(RETRANSMIT);
    assert_eq!((world.take(), world.seats[0].member.is_swept()), (vec![], true), "nobody is told of it any more");
    world.deliver(remove);
    assert_eq!((world.take(), world.contents(NAME)), (vec![], vec![nothing(at); 3]));
    assert!(world.write(1, NAME, b"y").is_some(), "it is written again");
    assert_eq!(world.values(NAME), vec![Some(b"y".to_vec()); 3]);
}

#[test]
fn who_has_passed_a_removal_on_gives_the_key_again_with_no_version_before_it() {
    for is_question in [true, false] {
        let (mut world, at, told) = if is_question { asked(3) } else { marked(3) };
        let first = version(EPOCH, 2);
        assert!(first < at);
        world.deliver(told);
        let on = world.take_only(kind::chain::REMOVE);
        if !is_question {
            world.deliver(on);
            world.take();
            assert_eq!(are_there(&world), [true, true, false]);
        }
        world.place(group_of(NAME), EPOCH + 1, &[0, 1, 2]);
        let asked = world.operation(1, NAME);
        world.ask(0, kind::chain::INSERT, &asked, NAME);
        assert!(world.step());
        for _ in 0..2 {
            let install = world.take_only(kind::chain::INSTALL);
            // A question has others keep the key: it began as it did.
            assert_eq!(own(&install.effect()), if is_question { first } else { at });
            world.deliver(install);
        }
        assert_eq!(world.contents(NAME), vec![nothing(at); 3]);
    }
}

#[test]
fn what_was_sent_to_make_a_key_before_one_was_removed_makes_none() {
    let [same, _] = others();
    let mut world = World::new(2);
    // The tail has removed a key of the group at the head's count of 9, and another one, which came late, at 8.
    let asked = world.operation(1, &same);
    world.ask(0, kind::chain::INSERT, &asked, &same);
    assert!(world.step());
    let install = world.take_only(kind::chain::INSTALL);
    for nonce in [9, 8] {
        let told = about(version(EPOCH, 1), nonce);
        let mut body = [0; Copied::BYTES];
        told.write(&mut body, 0);
        let header = Header { kind: kind::chain::REMOVE, epoch: EPOCH, ..Header::default() };
        world.send(switch(0), 1, header, &body, &[]);
        assert!(world.step());
        assert_eq!(world.take_only(kind::chain::REMOVED).copied().nonce, nonce);
    }
    let is_made = |world: &mut World, sequence: u64| {
        world.deliver(install.effected(|effect| effect.sequence = sequence));
        (kinds(&world.take()), world.seats[1].switch.content(group_of(&same), key(&same)).is_some())
    };
    assert_eq!(is_made(&mut world, 8), (vec![], false));
    assert_eq!(is_made(&mut world, 9), (vec![kind::chain::ANSWER], true));
    // What is there already is answered however late it is.
    assert_eq!(is_made(&mut world, 8), (vec![kind::chain::ANSWER], true));
    // A question removes nothing, so nothing is late by it.
    let mut world = World::new(2);
    let asked = world.operation(1, &same);
    world.ask(0, kind::chain::INSERT, &asked, &same);
    assert!(world.step());
    let install = world.take_only(kind::chain::INSTALL);
    let (_, _, question) = self::asked(2);
    world.deliver(question);
    assert_eq!(kinds(&world.take()), [kind::chain::REMOVED]);
    world.deliver(install.effected(|effect| effect.sequence = 0));
    assert_eq!(kinds(&world.take()), [kind::chain::ANSWER]);
}
