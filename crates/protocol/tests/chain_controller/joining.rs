//! A switch that joins a group: what it copies, when it is waited for, and how many are copied at a time.

use super::desk::*;
use super::records::{JOINED, SWITCHES};
use super::*;
use Role::{Joiner, Member, None as Nothing, Quiet};
use wayside_protocol::chain::controller::Notice;

/// A group of the switches 1 and 2 that 3 is to join, in chains of three; what 3 is told.
fn joined() -> (World, (Handle, Placement)) {
    let mut world =
        kept_by(&[(7, 5, &[1, 2], &[])], &[1, 2, 3], |config| (config.drift_ppm, config.full_pause) = (DRIFT, PAUSE));
    let joiners = world.obey();
    assert_eq!(joiners, [pass(START << 16 | 1, place(7, 5, &[1, 2], 3, Joiner))]);
    assert_eq!(world.notices(), [Notice::Active(7, 5), Notice::Joining(7, 3)]);
    (world, joiners[0])
}

/// Before a switch that had no room is asked again.
const PAUSE: u64 = 50_000;

/// The groups that somebody was to join, as the store has them.
fn kept_joined(world: &World) -> Vec<u8> {
    world.disk.records.borrow()[&JOINED][8..].to_vec()
}

#[test]
fn who_joins_copies_while_the_chain_works_and_again_while_nothing_new_is_acknowledged() {
    let (mut world, (_, first)) = joined();
    assert_eq!((world.state(7), world.controller.chain(7)), ((5, State::Copying(3)), Some(&[1, 2][..])));
    assert_eq!(kept_joined(&world), [0, 7], "before the joiner hears of it");
    assert_eq!(world.places_at(START + TICK - 1), []);
    assert_eq!(world.places_at(START + TICK), [(3, first)]);
    // Nobody else's word counts, nor one about another copying.
    world.say_placed(2, &first);
    world.say_placed(3, &Placement { pass: first.pass - 1, ..first });
    assert_eq!(world.controller.next_timer(), Time(START + 2 * TICK));
    world.say_placed(3, &first);
    assert_eq!(world.state(7), (6, State::Joining(3)));
    assert_eq!(world.controller.chain(7), None);
    let quiet = place(7, 6, &[1, 2], 2, Quiet);
    assert_eq!(world.places_at(START + TICK + 1), [quiet], "at once, and its joiner nothing");
    world.say_placed(3, &first);
    assert_eq!(world.places_at(START + 2 * TICK + 1), [quiet]);
    world.say_placed(2, &quiet.1);
    let again = START + 2 * TICK + 2;
    let second = pass(again << 16 | 2, place(7, 6, &[1, 2], 3, Joiner));
    assert_eq!(world.places_at(again), [second]);
    world.say_placed(3, &Placement { epoch: 6, ..first });
    assert_eq!(world.places_at(again + TICK), [second], "what it has copied before is too little");
    assert_eq!((world.state(7), world.notices()), ((6, State::Joining(3)), vec![]));
    world.say_placed(3, &second.1);
    let filling = [1, 2].map(|handle| place(7, 7, &[1, 2, 3], handle, Member));
    assert_eq!(world.places_at(again + TICK + 1), filling);
    assert_eq!(world.obey_all(&filling), []);
    assert_eq!((world.state(7), world.notices()), ((7, State::Serving), vec![Notice::Active(7, 7)]));
    assert_eq!(kept_joined(&world), []);
}

#[test]
fn who_has_no_room_is_to_forget_what_it_has_and_is_asked_again_only_after_a_while() {
    let (mut world, (_, first)) = joined();
    let mut told = first;
    // The second time it has acknowledged before that it has no part in this epoch.
    for turn in 1..=2 {
        world.say_placed(3, &Placement { refused: 1, ..told });
        let refused = world.now;
        assert_eq!(world.state(7), (5, State::Serving));
        let nothing = pass(told.pass, place(7, 5, &[1, 2], 3, Nothing));
        assert_eq!(world.places(), [nothing]);
        assert_eq!(world.obey_all(&[nothing]), []);
        assert_eq!(world.places_at(refused + PAUSE - 1), []);
        let joiner = pass((refused + PAUSE) << 16 | (turn + 1), place(7, 5, &[1, 2], 3, Joiner));
        assert_eq!(world.places_at(refused + PAUSE), [joiner]);
        told = joiner.1;
    }
    // One that has begun anew has room.
    world.say_placed(3, &Placement { refused: 1, ..told });
    let notices = [Notice::Full(7, 3), Notice::Joining(7, 3)].repeat(2);
    assert_eq!(world.notices(), [&notices[..], &[Notice::Full(7, 3)]].concat());
    world.boots.insert(3, BOOT + 1);
    world.hear(&[3]);
    let [(3, told)] = world.places()[..] else { panic!("it is not asked") };
    assert_eq!((told.boot, told.role), (BOOT + 1, Joiner as u8));
}

/// It may copy late, and say so: under the same epoch nobody waits for that; with a tail that takes nothing new the
/// chain has to begin again.
#[test]
fn a_chain_goes_on_without_a_joiner_that_is_gone() {
    for (stage, epoch) in [("LOAD", 5), ("QUIET", 7), ("REST", 7)] {
        for begins_anew in [false, true] {
            let (mut world, (_, first)) = joined();
            if stage != "LOAD" {
                world.say_placed(3, &first);
                world.places();
            }
            if stage == "REST" {
                world.say_placed(2, &place(7, 6, &[1, 2], 2, Quiet).1);
                world.places();
            }
            let what = format!("{stage}, begins anew: {begins_anew}");
            if begins_anew {
                world.boots.insert(3, BOOT + 1);
                world.hear(&[3]);
                assert_eq!(world.state(7).0, epoch, "{what}");
                assert_eq!(world.disk.epoch(7), epoch, "{what}");
                let [(3, told)] = world.obey()[..] else { panic!("{what}: it does not join again") };
                assert_eq!(
                    (told.boot, told.epoch, told.pass & 0xffff),
                    (BOOT + 1, epoch, told_passes(stage)),
                    "{what}"
                );
                continue;
            }
            world.listen(START + LEASE, &[1, 2]);
            assert!(matches!(world.state(7).1, State::Copying(3) | State::Joining(3)), "{what}");
            let told = world.places_at(START + LEASE);
            assert_eq!(world.state(7).0, epoch, "{what}");
            assert_eq!(kept_joined(&world), if epoch == 5 { vec![0, 7] } else { vec![] }, "{what}");
            let filling = place(7, 7, &[1, 2], 1, Member);
            assert_eq!(told, if epoch == 5 { vec![] } else { vec![filling] }, "{what}");
            world.obey_all(&told);
            assert_eq!(world.state(7), (epoch, State::Serving), "{what}");
            world.say_placed(3, &first);
            assert_eq!(world.obey(), [], "{what}");
        }
    }
}

/// Copyings so far, where somebody begins again in this stage.
fn told_passes(stage: &str) -> u64 {
    if stage == "REST" { 3 } else { 2 }
}

impl World {
    /// The first of these has been copied, and again when its tail was quiet. Those that are copied besides are last:
    /// so many since it was copied for the first time.
    fn copies_first_of(&mut self, copying: &mut Vec<(Handle, Placement)>) -> usize {
        let first = copying.remove(0);
        let (again, more): (Vec<_>, Vec<_>) =
            self.obey_all(&[first]).into_iter().partition(|(_, told)| told.group == first.1.group);
        let besides = more.len();
        copying.extend(more);
        let [(_, told)] = again[..] else { panic!("it is not copied again") };
        assert_eq!(told.epoch, first.1.epoch + 1);
        copying.extend(self.obey_all(&again));
        assert_eq!(self.chain(told.group), [1, 2, 3]);
        besides
    }
}

/// 80 ms: two commits, and what comes with some hundred keys. What the last copying takes counts no more.
#[test]
fn one_group_more_is_copied_at_a_time_for_each_that_was_copied_soon_and_half_as_many_after_one_that_was_not() {
    let groups: Vec<Kept> = (0..16).map(|number| (number, 5, &[1, 2][..], &[][..])).collect();
    let mut world = kept_by(&groups, &[1, 2, 3], |config| (config.loads_least, config.loads_most) = (1, 5));
    let mut copying = world.obey();
    assert_eq!(copying.len(), 1);
    let soon = 4 * TICK;
    // Four have begun at once. Of these two are copied soon, and two take longer.
    for (later, besides, expected) in
        [(0, 1, 2), (0, 1, 3), (0, 1, 4), (soon, 1, 5), (0, 0, 5), (1, 0, 4), (0, 0, 3), (0, 0, 2)]
    {
        world.now += later;
        let again = world.obey();
        assert!(again.is_empty() || again == copying);
        assert_eq!(
            (world.copies_first_of(&mut copying), copying.len()),
            (besides, expected),
            "{} us after the start",
            world.now - START
        );
    }
}

#[test]
fn where_a_joiner_is_given_up_another_group_is_copied_instead() {
    let groups: [Kept; 2] = [(7, 5, &[1], &[]), (8, 5, &[2], &[])];
    let mut world = kept_by(&groups, &[1, 2], |config| (config.length, config.loads_least) = (2, 1));
    let [(2, told)] = world.obey()[..] else { panic!("one at a time") };
    world.say_placed(2, &Placement { refused: 1, ..told });
    assert_eq!(world.obey(), [pass(START << 16 | 2, place(8, 5, &[2], 1, Joiner))]);
}

/// Its joiner takes up nobody's room.
#[test]
fn a_group_is_lost_with_its_last_switch_and_others_are_copied_instead() {
    let groups: [Kept; 2] = [(7, 5, &[1], &[]), (8, 5, &[2], &[])];
    let mut world = kept_by(&groups, &[1, 2], |config| (config.length, config.loads_least) = (2, 1));
    let joiners = world.obey();
    assert_eq!(joiners, [pass(START << 16 | 1, place(7, 5, &[1], 2, Joiner))], "one at a time");
    world.boots.insert(1, BOOT + 1);
    world.hear(&[1]);
    assert_eq!((world.state(7), world.chain(7)), ((5, State::Lost), vec![]));
    assert_eq!(world.disk.records.borrow()[&7], records::group(5, &[], &[]));
    assert_eq!(world.disk.records.borrow()[&(SWITCHES + 1)], (BOOT + 1).to_be_bytes());
    let (to, told) = pass(START << 16 | 2, place(8, 5, &[2], 1, Joiner));
    assert_eq!(world.obey(), [(to, Placement { boot: BOOT + 1, ..told })]);
    // Each after what has happened before.
    let before = [Notice::Active(7, 5), Notice::Joining(7, 2), Notice::Active(8, 5)];
    assert_eq!(world.notices(), [&before[..], &[Notice::Lost(7), Notice::Joining(8, 1)]].concat());
    assert_eq!(world.controller.chain(7), None);
    // What was copied of it is nobody's.
    world.say_placed(2, &joiners[0].1);
    assert_eq!((world.obey(), world.state(7)), (vec![], (5, State::Lost)));
}
