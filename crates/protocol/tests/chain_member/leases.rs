//! Ends of leases: who ends one, what he tells of it and how long, and when daemons look for more.

use wayside_protocol::chain::memory::{Content, ItemMemory, Owner};
use wayside_protocol::chain::{EndedLease, Sweeping};
use wayside_protocol::memory::SwitchMemory;
use wayside_wire::{Effect, Outcome, kind, value_flag};

use crate::support::*;

const NAME: &[u8] = b"key/1";
const MINE: &[u8] = b"forty bytes of a value that has an owner";

fn owner(client: u16) -> Owner {
    Owner { handle: client, incarnation: incarnation(client) as u32 }
}

/// The first client has leased a key.
fn leased(switches: usize) -> World {
    let mut world = World::new(switches);
    assert_eq!(world.insert(NAME), Some(Outcome::Done));
    assert_eq!(world.lease(1, NAME, MINE), Some(version(EPOCH, 3)));
    world.rest();
    assert_eq!(world.values(NAME), vec![Some(MINE.to_vec()); switches], "its session lives");
    world
}

/// Its session is over, and the head has told so.
fn ended(switches: usize) -> (World, Parcel) {
    let mut world = leased(switches);
    world.end_session(1);
    world.pass(0);
    let apply = world.take_only(kind::chain::APPLY);
    (world, apply)
}

#[test]
fn the_end_of_a_lease_is_a_version_of_the_heads_own_and_goes_down_the_chain_as_a_write() {
    let mut world = leased(3);
    world.end_session(1);
    assert_eq!((world.due_in(0), world.seats[0].member.is_swept()), (Some(0), false), "it has heard of an end");
    world.pass(0);
    let ended = EndedLease { group: group_of(NAME), key: key(NAME), owner: owner(1), version: version(EPOCH, 4) };
    assert_eq!(world.seats[0].member.ended(), Some(ended));
    assert_eq!(world.seats[0].member.ended(), None);
    let apply = world.take_only(kind::chain::APPLY);
    let header = apply.header();
    assert_eq!((apply.from, apply.to, apply.port), (switch(0), switch(1), 0));
    assert_eq!((header.source, header.destination, header.namespace), (switch(0), switch(1), SPACE));
    assert_eq!((header.epoch, header.count, header.position), (EPOCH, 0, 1));
    let key = key(NAME);
    assert_eq!(
        apply.effect(),
        Effect {
            key_high: key.high,
            key_low: key.low,
            sequence: 4,
            epoch: EPOCH,
            group: group_of(NAME),
            client: switch(0),
            outcome: Outcome::Done as u8,
            flags: value_flag::LEASED,
            own_sequence: 4,
            own_epoch: EPOCH,
            owner: incarnation(1) as u32,
            ..Effect::default()
        }
    );
    assert_eq!((world.due_in(0), world.seats[0].member.is_swept()), (Some(RETRANSMIT), false), "nobody has answered");
    world.deliver(apply);
    world.settle();
    let none = Content { lease: Some(owner(1)), ..Content::nothing(version(EPOCH, 4)) };
    assert_eq!(world.contents(NAME), vec![Some(none); 3]);
    assert!(world.seats[0].member.is_swept());
    assert_eq!(world.read(NAME), Some(version(EPOCH, 4)));
}

#[test]
fn an_end_is_told_again_with_what_the_key_has_by_then_until_the_tail_has_answered() {
    let (mut world, _lost) = ended(2);
    for _ in 0..2 {
        world.pass(RETRANSMIT - 1);
        assert_eq!(world.take(), []);
        world.pass(1);
        let to_tail = world.take_to(switch(1));
        assert_eq!(kinds(&to_tail), [kind::chain::APPLY]);
        assert_eq!(to_tail[0].told(), version(EPOCH, 4));
        world.take();
    }
    let written = world.write_at_head(2, 0, NAME, &MINE[..33]);
    assert_eq!(written, version(EPOCH, 5));
    world.pass(RETRANSMIT);
    let apply = world.take_to(switch(1)).pop().expect("it is told again");
    assert_eq!((apply.told(), apply.header().count, apply.header().position), (written, 2, 0));
    assert_eq!((apply.effect().length, apply.effect().flags, apply.effect().owner), (33, value_flag::PRESENT, 0));
    world.take();
    world.deliver(apply);
    assert_eq!(world.values(NAME), vec![Some(MINE[..33].to_vec()); 2]);
    assert!(!world.seats[0].member.is_swept());
    world.settle();
    world.pass(RETRANSMIT);
    assert_eq!((world.take(), world.seats[0].member.is_swept()), (vec![], true));
}

#[test]
fn an_answer_ends_the_telling_of_what_it_tells_of_and_of_no_later_end() {
    let (mut world, first) = ended(2);
    assert_eq!(world.write_at_head(2, value_flag::LEASED, NAME, b"ours"), version(EPOCH, 5));
    world.end_session(2);
    world.pass(0);
    assert_eq!(world.take_only(kind::chain::APPLY).told(), version(EPOCH, 6), "another end is told at once");
    world.deliver(first);
    world.settle();
    assert!(!world.seats[0].member.is_swept(), "the tail has the former one");
    world.pass(RETRANSMIT);
    let second = world.take_only(kind::chain::APPLY);
    assert_eq!(second.told(), version(EPOCH, 6));
    world.deliver(second);
    let answer = world.take_only(kind::chain::ANSWER);
    assert_eq!((answer.to, answer.header().source, answer.told()), (switch(0), switch(1), version(EPOCH, 6)));
    for other in [
        answer.headed(|header| header.epoch -= 1),
        answer.effected(|effect| effect.sequence -= 1),
        answer.effected(|effect| effect.outcome = Outcome::Full as u8),
        answer.effected(|effect| effect.key_low += 1),
    ] {
        world.deliver(other);
        assert!(!world.seats[0].member.is_swept());
    }
    world.deliver(answer);
    assert!(world.seats[0].member.is_swept());
}

#[test]
fn where_the_key_is_missing_there_is_nothing_to_tell() {
    let (mut world, apply) = ended(2);
    assert!(world.seats[1].switch.remove(group_of(NAME), key(NAME)));
    world.deliver(apply);
    let answer = world.take_only(kind::chain::ANSWER);
    assert_eq!((answer.to, answer.effect().outcome), (switch(0), Outcome::Missing as u8));
    world.deliver(answer);
    assert!(world.seats[0].member.is_swept());
    world.pass(LOOK_AGAIN);
    assert_eq!(world.take(), [], "it is not told again");
}

#[test]
fn an_end_that_was_answered_is_told_once_more_by_every_epoch_and_no_more() {
    let (mut world, apply) = ended(3);
    world.deliver(apply);
    world.settle();
    let goes_on = |world: &mut World| {
        world.pass(COLLECT_AFTER / 2);
        assert_eq!(world.take(), []);
    };
    goes_on(&mut world);
    for epoch in [EPOCH + 1, EPOCH + 2] {
        world.place(group_of(NAME), epoch, &[0, 1, 2]);
        world.pass(0);
        let lost = world.take_only(kind::chain::APPLY);
        assert_eq!((lost.header().epoch, lost.told()), (epoch, version(EPOCH, 4)));
        // Another look changes nothing of that.
        world.seats[0].switch.session_over(3, Some(1));
        world.pass(RETRANSMIT - 1);
        assert_eq!(world.take(), []);
        world.pass(1);
        assert_eq!(kinds(&world.wire.iter().cloned().collect::<Vec<_>>()), [kind::chain::APPLY]);
        world.settle();
        goes_on(&mut world);
    }
}

#[test]
fn what_was_to_be_told_is_told_at_once_in_another_place_and_by_nobody_but_the_head() {
    let (mut world, _lost) = ended(2);
    // Another group's place changes nothing of it.
    world.place(group_of(NAME) ^ 1, EPOCH + 1, &[0, 1]);
    world.pass(RETRANSMIT - 1);
    assert_eq!(world.take(), []);
    world.pass(1);
    assert_eq!(kinds(&world.take_to(switch(1))), [kind::chain::APPLY]);
    world.take();
    world.place(group_of(NAME), EPOCH + 1, &[0, 1]);
    world.pass(0);
    assert_eq!(world.take_only(kind::chain::APPLY).header().epoch, EPOCH + 1);
    world.place(group_of(NAME), EPOCH + 2, &[1, 0]);
    world.pass(0);
    // The new head ends the lease itself.
    let apply = world.take_only(kind::chain::APPLY);
    assert_eq!((apply.from, apply.told().epoch), (switch(1), EPOCH + 2));
    world.deliver(apply);
    world.settle();
    world.pass(2 * RETRANSMIT);
    assert_eq!(world.take(), []);
    assert!(world.seats.iter().all(|seat| seat.member.is_swept()));
}

#[test]
fn a_switch_that_is_alone_ends_leases_and_tells_nobody() {
    let mut world = leased(1);
    world.end_session(1);
    world.pass(0);
    assert_eq!((world.take(), world.seats[0].member.is_swept()), (vec![], true));
    assert_eq!(world.values(NAME), [None]);
    assert_eq!(world.seats[0].member.ended().map(|ended| ended.version), Some(version(EPOCH, 4)));
}

#[test]
fn an_end_is_told_for_a_key_that_is_there() {
    let sweeping = Sweeping { collect_after: 1_000, looks: 512, retransmit: 50_000, look_again: 1_000 };
    let mut world = World::of(&Setup { switches: 2, sweeping, ..Setup::default() });
    assert_eq!(world.insert(NAME), Some(Outcome::Done));
    assert!(world.lease(1, NAME, MINE).is_some());
    world.end_session(1);
    // The tail has it, and the head does not hear so until the key has left.
    for _ in 0..4 {
        world.pass(500);
        world.settle_but(|parcel| parcel.kind() == kind::chain::ANSWER);
    }
    assert_eq!(world.contents(NAME), [None, None]);
    assert!(!world.seats[0].member.is_swept());
    world.pass(50_000);
    assert_eq!((world.take(), world.seats[0].member.is_swept()), (vec![], true));
}

#[test]
fn a_daemon_looks_at_all_keys_piece_by_piece_and_again_after_a_pause() {
    for (collect_after, look_again, pause) in
        [(0, 70_000, 70_000), (100_000, 70_000, 50_000), (100_000, 30_000, 30_000), (1, 30_000, 1)]
    {
        let sweeping = Sweeping { collect_after, looks: 4, retransmit: RETRANSMIT, look_again };
        let mut world = World::of(&Setup { switches: 1, sweeping, ..Setup::default() });
        // A place of the memory is nobody's: ten keys end at the eleventh.
        let names: Vec<Vec<u8>> = names_of(BASE).take(10).collect();
        for name in &names {
            assert_eq!(world.insert(name), Some(Outcome::Done));
            assert!(world.write(1, name, b"x").is_some());
        }
        let swept = |world: &World| (world.due_in(0), world.seats[0].member.is_swept());
        world.pass(pause);
        assert_eq!(swept(&world), (Some(pause), true));
        if pause > 1 {
            world.now += pause - 1;
            assert_eq!(swept(&world), (Some(1), true));
            world.tick_once(0);
            assert_eq!(swept(&world), (Some(1), true), "it was early");
            world.now += 1;
        } else {
            world.now += pause;
        }
        for _ in 0..2 {
            world.tick_once(0);
            assert_eq!(swept(&world), (Some(0), true), "a look that nobody has asked for is under way");
        }
        world.tick_once(0);
        assert_eq!(swept(&world), (Some(pause), true));
        // An end is heard of, and another one meanwhile.
        world.seats[0].switch.session_over(3, Some(1));
        assert_eq!(swept(&world), (Some(0), false));
        for look in 0..6 {
            if look == 1 {
                world.seats[0].switch.session_over(2, Some(1));
            }
            world.tick_once(0);
            assert_eq!(swept(&world), if look < 5 { (Some(0), false) } else { (Some(pause), true) }, "look {look}");
        }
        // And another place is a reason as well.
        world.place(BASE, EPOCH + 1, &[0]);
        for _ in 0..3 {
            assert_eq!(swept(&world), (Some(0), false));
            world.tick_once(0);
        }
        assert_eq!(swept(&world), (Some(pause), true));
    }
}

#[test]
fn sessions_that_end_all_the_time_do_not_put_off_what_is_to_be_told_again() {
    let (mut world, _lost) = ended(2);
    let mut told = 0;
    for _ in 0..6 {
        // Of a session that nobody knows; after each of them all keys are looked at.
        world.seats[0].switch.session_over(3, Some(1));
        world.pass(RETRANSMIT / 2);
        told += world.take_to(switch(1)).len();
        world.take();
    }
    assert_eq!(told, 3);
}
