//! Which switches a group is to have, and with how many it begins.

use super::desk::*;
use super::*;
use Role::{Joiner, Member, None as Nothing};

/// The first chains of all groups, of so many switches, where these have these weights.
fn chains(length: usize, weights: &[(Handle, u32)]) -> Vec<Vec<Handle>> {
    let handles: Vec<Handle> = weights.iter().map(|(handle, _)| *handle).collect();
    let mut world = begun_as(Config { length, ..config(0..GROUPS) }, &Disk::default(), &handles, START);
    weights.iter().for_each(|(handle, weight)| world.controller.set_weight(*handle, *weight));
    world.hear(&handles);
    world.controller.on_tick(Time(START));
    world.controller.groups().map(|group| group.chain.to_vec()).collect()
}

#[test]
fn groups_are_spread_over_switches_by_their_weights_and_who_comes_changes_no_others_rank() {
    let before = chains(1, &[(1, 1), (2, 1), (3, 2)]);
    for (handle, share) in [(1, 4), (2, 4), (3, 2)] {
        let (has, expected) = (before.iter().filter(|chain| **chain == [handle]).count(), usize::from(GROUPS) / share);
        assert!(has.abs_diff(expected) < expected / 6, "{handle} has {has} groups, not about {expected}");
    }
    let after = chains(1, &[(1, 1), (2, 1), (3, 2), (4, 1)]);
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    let expected = usize::from(GROUPS) / 5;
    assert!(moved.abs_diff(expected) < expected / 6, "{moved} move");
    assert!(before.iter().zip(&after).all(|(before, after)| before == after || after == &[4]), "to the new one");
    let longer = chains(2, &[(1, 1), (2, 1), (3, 2)]);
    assert!(before.iter().zip(&longer).all(|(short, long)| short[0] == long[0] && long.len() == 2));
}

/// Otherwise all groups would be of the first switch that comes.
#[test]
fn a_group_begins_once_as_many_are_there_as_it_is_to_have_or_after_a_while() {
    let (limit, length) = (START + 3 * LEASE, 3);
    let begun = || begun_as(Config { length, ..config([7]) }, &Disk::default(), &[1, 2, 3, 4], START);
    // All at once: no more than it is to have.
    let mut world = begun();
    world.hear(&[1, 2, 3, 4]);
    world.places();
    assert_eq!(world.chain(7).len(), length);
    // Who has no share is not waited for, and does not count.
    let mut world = begun();
    [3, 4].into_iter().for_each(|handle| world.controller.set_weight(handle, 0));
    for handle in [1, 3, 4] {
        world.hear(&[handle]);
        assert_eq!((world.places(), world.state(7)), (vec![], (0, State::Waiting)), "with {handle}");
        assert!(!world.controller.begin_lost(Time(world.now), 7), "nothing is lost");
    }
    world.hear(&[2]);
    world.places();
    let mut chain = world.chain(7);
    chain.sort_unstable();
    assert_eq!(chain, [1, 2]);
    // After a while with those that there are: this one.
    for (now, state) in [(limit - 1, (0, State::Waiting)), (limit, (1, State::Changing))] {
        let mut world = begun();
        assert_eq!(world.listen(now, &[1]), []);
        let told = world.places_at(now);
        assert_eq!(world.state(7), state);
        assert_eq!(told, if state.0 == 0 { vec![] } else { vec![place(7, 1, &[1], 1, Member)] });
    }
    // Or once there is one.
    let mut world = begun();
    assert_eq!(world.listen(limit + LEASE, &[]), []);
    assert_eq!(world.state(7), (0, State::Waiting));
    world.hear(&[2]);
    assert_eq!(world.places(), [place(7, 1, &[2], 2, Member)]);
}

/// Who joins has what it takes before anybody leaves.
#[test]
fn a_better_switch_joins_before_the_least_wanted_one_leaves() {
    let mut world = serving(5, &[1, 2, 3], &[1, 2, 3]);
    world.controller.set_fellow(Time(world.now), Fellow { weight: 1000, ..fellow(4) });
    world.hear(&[4]);
    let mut joiners = world.obey();
    for _ in 0..2 {
        assert!(matches!(joiners[..], [(4, _)]), "{joiners:?}");
        assert_eq!(world.chain(7), [1, 2, 3]);
        joiners = world.obey_all(&joiners);
    }
    let chain = world.chain(7);
    assert_eq!((chain.len(), world.state(7)), (3, (8, State::Serving)));
    assert_eq!(chain[2], 4, "who joins is the tail");
    assert!(chain[0] < chain[1], "the others keep their order: {chain:?}");
}

/// There is no place for a sixth one, before somebody has left.
#[test]
fn from_the_longest_chain_one_leaves_before_another_joins() {
    let five = [1, 2, 3, 4, 5];
    let mut world = kept_by(&[(7, 5, &five, &[])], &five, |config| config.length = five.len());
    world.obey();
    world.controller.set_fellow(Time(world.now), Fellow { weight: 1000, ..fellow(6) });
    world.hear(&[6]);
    let told = world.places();
    let chain = world.chain(7);
    assert_eq!((chain.len(), world.state(7)), (4, (6, State::Changing)));
    let leaver = five.into_iter().find(|handle| !chain.contains(handle)).expect("one has left");
    assert_eq!(told, [place(7, 6, &chain, leaver, Nothing)]);
    let joiners = world.obey_all(&told);
    assert_eq!(joiners, [pass(START << 16 | 1, place(7, 6, &chain, 6, Joiner))]);
}

/// Who owes it its leaving may serve it yet, under an epoch of before.
#[test]
fn a_group_that_was_lost_begins_with_those_that_are_there_and_owe_it_nothing() {
    let lost = |switches: &[Handle], owing: &[Handle]| kept_by(&[(7, 5, &[], owing)], switches, |_| {});
    let mut world = lost(&[1, 2, 3], &[2]);
    assert_eq!(world.places(), [place(7, 5, &[], 2, Nothing)]);
    assert!(!world.controller.begin_lost(Time(world.now), 8), "there is no such group");
    // Nobody is there.
    world.listen(START + LEASE, &[]);
    assert_eq!(world.places_at(START + LEASE), []);
    assert!(!world.controller.begin_lost(Time(world.now), 7));
    assert_eq!(world.state(7), (5, State::Lost));
    world.hear(&[1, 2, 3]);
    assert!(world.controller.begin_lost(Time(world.now), 7));
    assert_eq!((world.disk.epoch(7), world.state(7)), (6, (6, State::Changing)), "at once");
    let chain = world.chain(7);
    assert!(chain.len() == 2 && !chain.contains(&2), "{chain:?}");
    assert!(!world.controller.begin_lost(Time(world.now), 7), "it has begun");

    let mut world = lost(&[1, 2, 3, 4, 5], &[]);
    assert!(world.controller.begin_lost(Time(world.now), 7));
    let chain = world.chain(7);
    assert_eq!(chain.len(), 3);
    let filling = [chain[0], chain[1]].map(|handle| place(7, 6, &chain, handle, Member));
    assert_eq!(world.places_at(START + 1), filling);
}
