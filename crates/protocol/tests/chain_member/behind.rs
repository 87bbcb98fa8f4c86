//! Leased values whose sessions are over, at switches that are no head: whoever has one asks the switch before.

use wayside_protocol::chain::Place;
use wayside_protocol::chain::memory::{Content, ItemMemory, Owner};
use wayside_protocol::memory::SwitchMemory;
use wayside_wire::{Effect, Header, Outcome, kind, value_flag};

use crate::support::*;

const NAME: &[u8] = b"key/1";

/// All switches have a value that the first client has leased.
fn leased(switches: usize) -> World {
    let mut world = World::new(switches);
    assert_eq!(world.insert(NAME), Some(Outcome::Done));
    assert_eq!(world.lease(1, NAME, b"mine"), Some(version(EPOCH, 3)));
    world.rest();
    world
}

/// Its session is over, which the head has not heard yet.
fn over_behind_the_head(switches: usize) -> World {
    let mut world = leased(switches);
    world.seats[1..].iter().for_each(|seat| seat.end_session(1));
    world.pass(0);
    assert_eq!(world.take(), [], "what ends the lease is mostly under way");
    world
}

/// What a switch asks when it is due.
fn asked(world: &mut World, seat: usize) -> Parcel {
    world.pass(world.due_in(seat).expect("it waits for something"));
    world.take_only(kind::chain::ANSWER)
}

#[test]
fn who_has_a_leased_value_of_a_session_that_is_over_asks_the_switch_before_and_ever_more_seldom() {
    let mut world = over_behind_the_head(2);
    assert!(!world.seats[1].member.is_swept());
    let mut pause = RETRANSMIT;
    for _ in 0..9 {
        // A look at all keys comes in between, and changes nothing.
        world.seats[1].switch.session_over(3, Some(1));
        world.pass(0);
        assert_eq!(world.due_in(1).map(|due| due.min(COLLECT_AFTER / 2)), Some(pause.min(COLLECT_AFTER / 2)));
        for _ in 0..(pause - 1) / 40_000 {
            world.pass(40_000);
        }
        world.pass((pause - 1) % 40_000);
        assert_eq!(world.take(), []);
        world.pass(1);
        let question = world.take_only(kind::chain::ANSWER);
        let (header, key) = (question.header(), key(NAME));
        assert_eq!((question.from, question.to, question.port), (switch(1), switch(0), 0));
        assert_eq!((header.source, header.destination, header.epoch), (switch(1), switch(0), EPOCH));
        assert_eq!(
            question.effect(),
            Effect {
                key_high: key.high,
                key_low: key.low,
                sequence: 3,
                epoch: EPOCH,
                group: group_of(NAME),
                client: switch(0),
                outcome: Outcome::Unmet as u8,
                ..Effect::default()
            }
        );
        world.deliver(question);
        assert_eq!(world.take(), [], "the head has nothing newer, and knows of no end");
        pause = (2 * pause).min(64 * RETRANSMIT);
    }
    world.end_session(1);
    world.pass(0);
    world.settle();
    assert_eq!(world.values(NAME), [None, None]);
    // It finds out when it would ask the next time.
    assert!(!world.seats[1].member.is_swept());
    world.pass(pause);
    assert_eq!((world.take(), world.seats[1].member.is_swept()), (vec![], true));
}

#[test]
fn another_leased_value_is_asked_about_after_no_longer_a_pause() {
    let mut world = over_behind_the_head(2);
    let first = asked(&mut world, 1);
    assert_eq!(world.due_in(1), Some(2 * RETRANSMIT));
    world.seats[1].end_session(2);
    world.pass(0);
    let written = world.write_at_head(2, value_flag::LEASED, NAME, b"ours");
    // The switch before has something newer now: also a leased value.
    world.deliver(first);
    let apply = world.take_only(kind::chain::APPLY);
    assert_eq!((apply.told(), apply.header().position), (written, 2));
    world.deliver(apply);
    world.settle();
    assert_eq!(world.values(NAME), vec![Some(b"ours".to_vec()); 2]);
    for (told, pause) in [(written, 2), (written, 4), (written, 8)] {
        assert_eq!(asked(&mut world, 1).told(), told);
        assert_eq!(world.due_in(1), Some(pause * RETRANSMIT));
    }
}

#[test]
fn what_the_switch_before_has_comes_if_it_is_newer_and_the_question_is_its_neighbours() {
    let mut world = over_behind_the_head(3);
    world.pass(RETRANSMIT);
    let questions = world.take();
    assert_eq!(kinds(&questions), [kind::chain::ANSWER; 2]);
    let question = questions[0].clone();
    assert_eq!((question.from, question.to), (switch(1), switch(0)));
    let is_answered = |world: &mut World, seat: usize, question: &Parcel| {
        world.hand_over(seat, question.from, &question.packet);
        kinds(&world.take()) == [kind::chain::APPLY]
    };
    assert!(!is_answered(&mut world, 0, &question), "it has nothing newer");
    let written = world.write_at_head(2, 0, NAME, b"ours");
    let newer = question.effected(|effect| effect.sequence = written.sequence);
    let later = question.effected(|effect| effect.epoch += 1);
    assert!(!is_answered(&mut world, 0, &newer) && !is_answered(&mut world, 0, &later));
    let other = question.effected(|effect| effect.key_high += 1);
    assert!(!is_answered(&mut world, 0, &other), "a key that it has not");
    let source = |handle| move |header: &mut Header| header.source = handle;
    assert!(!is_answered(&mut world, 0, &question.headed(source(switch(2)))), "it is not the next");
    assert!(!is_answered(&mut world, 0, &question.headed(|header| header.epoch += 1)));
    // The tail has no switch after it.
    let old = question.effected(|effect| effect.sequence = 1);
    assert!(!is_answered(&mut world, 2, &old.headed(source(0))));
    assert!(!is_answered(&mut world, 2, &old.headed(source(switch(1)))));
    assert!(is_answered(&mut world, 0, &question));
    // And the middle has nothing newer than the tail, until the head has told it.
    assert!(!is_answered(&mut world, 1, &questions[1]));
    world.deliver(question);
    let apply = world.take_only(kind::chain::APPLY);
    assert_eq!((apply.to, apply.told(), apply.blocks()[..4].to_vec()), (switch(1), written, b"ours".to_vec()));
    world.deliver(apply);
    world.take();
    assert!(is_answered(&mut world, 1, &questions[1]));
}

#[test]
fn nobody_asks_who_is_given_nothing_or_whose_place_is_another() {
    let group = group_of(NAME);
    for place in [Place { epoch: EPOCH + 1, previous: switch(1), next: 0 }, Place::default()] {
        let mut world = over_behind_the_head(2);
        let route = route(EPOCH + 1, &[0]);
        world.seats[1].member.take_place(group, place, route);
        world.pass(0);
        assert_eq!((world.take(), world.seats[1].member.is_swept()), (vec![], true));
        world.pass(100 * RETRANSMIT);
        assert_eq!((world.take(), world.seats[1].member.is_swept()), (vec![], true), "it is {place:?}");
    }
    // It is asked about anew, after the first pause, where the place is another's.
    let mut world = over_behind_the_head(2);
    world.pass(RETRANSMIT / 2);
    world.place(group, EPOCH + 1, &[0, 1]);
    world.pass(0);
    assert_eq!((world.take(), world.due_in(1)), (vec![], Some(RETRANSMIT)));
    assert_eq!(asked(&mut world, 1).header().epoch, EPOCH + 1);
    // Another group's place changes nothing of that.
    world.place(group ^ 1, EPOCH + 1, &[0, 1]);
    world.pass(0);
    assert_eq!(world.due_in(1), Some(2 * RETRANSMIT));
}

#[test]
fn a_leased_value_that_comes_late_is_found_by_the_next_look() {
    let mut world = leased(2);
    world.end_session(1);
    world.rest();
    assert_eq!(world.values(NAME), [None, None]);
    let late = Content {
        lease: Some(Owner { handle: 1, incarnation: incarnation(1) as u32 }),
        length: Some(0),
        ..Content::nothing(version(EPOCH, world.seats[0].switch.next_sequence(group_of(NAME))))
    };
    world.seats.iter().for_each(|seat| assert!(seat.switch.raise(group_of(NAME), key(NAME), &late)));
    world.pass(COLLECT_AFTER / 2);
    world.settle();
    assert_eq!(world.values(NAME), [None, None]);
}
