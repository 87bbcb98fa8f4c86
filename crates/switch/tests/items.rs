//! The chain service's memory as the daemon sees it, and that the core finds what is put there.

mod engine;
mod support;

use std::collections::{BTreeMap, BTreeSet};

use engine::hash::{buckets_of, hash};
use engine::random::Random;
use support::chain::{FIRST_EPOCH, GROUP, operation_packet};
use support::{NAMESPACE, from};
use wayside_protocol::Time;
use wayside_protocol::chain::memory::{Bytes, Content, ItemMemory, Lane, Unmade};
use wayside_protocol::chain::{Key, Place, Version};
use wayside_protocol::memory::{NodeEntry, SwitchMemory};
use wayside_switch::{Action, StoreConfig, Switch};
use wayside_wire::{BODY, Effect, Operation, Outcome, kind, limits};

const SEED: u64 = 0x0123_4567_89ab_cdef;

fn switch(keys: u32) -> Switch {
    let switch = support::switch(1, 1).with_store(StoreConfig { keys, seed: SEED });
    switch.set_place(GROUP, NAMESPACE, Place { epoch: FIRST_EPOCH, previous: 0, next: 0 });
    switch
}

fn version(sequence: u64) -> Version {
    Version { epoch: FIRST_EPOCH, sequence }
}

fn random_key(random: &mut Random) -> Key {
    Key { high: random.next(), low: random.next(), check: random.next() >> 17 }
}

fn content(sequence: u64, value: &[u8]) -> Content {
    let mut bytes: Bytes = [0; limits::MAX_VALUE_BYTES];
    bytes[..value.len()].copy_from_slice(value);
    Content { length: Some(value.len() as u16), bytes, ..Content::nothing(version(sequence)) }
}

fn read(switch: &Switch, group: u16, key: Key) -> (Outcome, Version) {
    let operation =
        Operation { key_high: key.high, key_low: key.low, check: key.check, client: 1, group, ..Operation::default() };
    let mut packet = operation_packet(kind::chain::READ, 1, FIRST_EPOCH, &operation, &[]);
    assert_eq!(switch.process(Time(0), &mut packet, from(1)).action, Action::ToSender);
    let effect = Effect::read(&packet, BODY);
    let version = Version { epoch: effect.epoch, sequence: effect.sequence };
    (Outcome::try_from(effect.outcome).unwrap(), version)
}

#[test]
fn keys_come_and_go() {
    let switch = switch(10);
    let key = Key { high: 1, low: 2, check: 3 };
    assert_eq!((switch.content(GROUP, key), switch.keys()), (None, (0, 10)));
    assert_eq!(switch.insert(GROUP, key, version(5)), Ok(true));
    let empty = Content::nothing(version(5));
    assert_eq!((switch.content(GROUP, key), switch.keys()), (Some(empty), (1, 10)));
    assert_eq!(switch.insert(GROUP, key, version(9)), Ok(false), "it is there, and stays as it is");
    assert_eq!(switch.content(GROUP, key), Some(empty));
    assert_eq!(switch.insert(GROUP, Key { check: 4, ..key }, version(9)), Err(Unmade::Collision));
    assert_eq!(switch.insert(GROUP + 1, key, version(9)), Ok(true), "another group, another key");

    assert!(switch.raise(GROUP, key, &content(6, b"six")));
    assert!(!switch.raise(GROUP, key, &content(6, b"SIX")), "not newer");
    assert!(!switch.raise(GROUP, key, &content(5, b"five")), "older");
    assert_eq!(switch.content(GROUP, key), Some(content(6, b"six")));
    assert!(switch.raise(GROUP, key, &Content { version: Version { epoch: 12, sequence: 1 }, ..content(1, b"e") }));
    assert!(!switch.raise(GROUP, Key { low: 3, ..key }, &content(6, b"six")), "no such key");

    assert!(switch.remove(GROUP, key));
    assert!(!switch.remove(GROUP, key));
    assert_eq!((switch.content(GROUP, key), switch.keys()), (None, (1, 10)));
    assert_eq!(read(&switch, GROUP, key).0, Outcome::Missing);
    assert_eq!(switch.insert(GROUP, key, version(20)), Ok(true));
    let again = Content { version: version(20), ..empty };
    assert_eq!(switch.content(GROUP, key), Some(again), "nothing of its earlier life");
}

#[test]
fn items_run_out_and_come_back() {
    let switch = switch(20);
    let mut random = Random::new(1);
    let keys: Vec<Key> = (0..20).map(|_| random_key(&mut random)).collect();
    for key in &keys {
        assert_eq!(switch.insert(GROUP, *key, version(1)), Ok(true));
    }
    let another = random_key(&mut random);
    assert_eq!(switch.insert(GROUP, another, version(1)), Err(Unmade::Items));
    assert_eq!(switch.keys(), (20, 20));
    assert!(switch.remove(GROUP, keys[7]));
    assert_eq!(switch.insert(GROUP, another, version(2)), Ok(true));
    assert_eq!(read(&switch, GROUP, another), (Outcome::Done, version(2)));
    assert_eq!(read(&switch, GROUP, keys[7]).0, Outcome::Missing);
    assert!(keys.iter().filter(|key| **key != keys[7]).all(|key| read(&switch, GROUP, *key).0 == Outcome::Done));
}

/// Keys that all want the same two buckets, which only somebody who knows the seed can find.
#[test]
fn two_buckets_run_out_before_the_items() {
    let switch = switch(100);
    let mask = (100u32 * 10 / 7).div_ceil(8).next_power_of_two() - 1;
    let mut random = Random::new(2);
    let wanted = BTreeSet::from([3, 12]);
    let mut keys = std::iter::from_fn(|| Some(random_key(&mut random)))
        .filter(|key| BTreeSet::from(buckets_of(hash(SEED, GROUP, *key), mask)) == wanted);
    let first: Vec<Key> = keys.by_ref().take(16).collect();
    for key in &first {
        assert_eq!(switch.insert(GROUP, *key, version(1)), Ok(true));
    }
    let another = keys.next().unwrap();
    assert_eq!(switch.insert(GROUP, another, version(1)), Err(Unmade::Places));
    assert_eq!(switch.keys(), (16, 100), "no item is lost by that");
    assert!(switch.remove(GROUP, first[5]));
    assert_eq!(switch.insert(GROUP, another, version(1)), Ok(true));
    assert!(first.iter().all(|key| (read(&switch, GROUP, *key).0 == Outcome::Done) == (*key != first[5])));
}

/// Nine of ten keys find room, however large the store; and all of them, where its index is as small as it may be.
#[test]
fn random_keys_find_room() {
    const TIGHTEST: u32 = 183_500; // 7 of 10 places of 2^15 buckets
    for (keys, inserted) in [(1_000, 900), (100_000, 90_000), (1_000_000, 900_000), (TIGHTEST, TIGHTEST)] {
        let switch = switch(keys);
        let mut random = Random::new(u64::from(keys));
        for number in 0..inserted {
            let made = switch.insert(GROUP, random_key(&mut random), version(1));
            assert_eq!(made, Ok(true), "key {number} of {keys}");
        }
        assert_eq!(switch.keys(), (inserted, keys));
    }
}

/// The hash stands here, in `store.rs` and in `items.h`: the core finds what the daemon inserted.
#[test]
fn the_core_finds_what_is_inserted() {
    let switch = switch(20_000);
    let mut random = Random::new(3);
    let keys: Vec<(u16, Key)> = (0..10_000).map(|_| (random.below(1 << 16) as u16, random_key(&mut random))).collect();
    let groups: BTreeSet<u16> = keys.iter().map(|(group, _)| *group).collect();
    for group in groups {
        switch.set_place(group, NAMESPACE, Place { epoch: FIRST_EPOCH, previous: 0, next: 0 });
    }
    for (number, (group, key)) in (1..).zip(&keys) {
        assert_eq!(switch.insert(*group, *key, version(number)), Ok(true));
    }
    for (number, (group, key)) in (1..).zip(&keys) {
        assert_eq!(read(&switch, *group, *key), (Outcome::Done, version(number)), "{key:?} of group {group}");
        assert_eq!(read(&switch, *group, Key { check: key.check ^ 1, ..*key }).0, Outcome::Missing);
    }
}

/// Half a hash tells most keys of a bucket apart, and the name all of them.
#[test]
fn keys_with_the_same_half_of_a_hash_are_different_keys() {
    let mut random = Random::new(5);
    let half = |key: Key| (hash(SEED, GROUP, key) >> 32) as u32;
    // 2^17 of 2^32: some two of them meet, and by this generator they do.
    let mut seen = BTreeMap::new();
    let mut keys = std::iter::repeat_with(|| random_key(&mut random)).take(1 << 18);
    let (one, other) = keys.find_map(|key| seen.insert(half(key), key).map(|before| (before, key))).expect("two");
    let switch = switch(4);
    for (key, number) in [(one, 1), (other, 2)] {
        assert_eq!(switch.insert(GROUP, key, version(number)), Ok(true));
    }
    for (key, number) in [(one, 1), (other, 2)] {
        assert_eq!(read(&switch, GROUP, key), (Outcome::Done, version(number)));
        assert_eq!(switch.content(GROUP, key).map(|content| content.version), Some(version(number)));
    }
    assert!(switch.remove(GROUP, one));
    assert_eq!(read(&switch, GROUP, other), (Outcome::Done, version(2)));
}

#[test]
fn lanes_take_what_is_later() {
    let switch = switch(10);
    let lane = |request: u64| Lane { request, own: version(request), outcome: 1 };
    assert_eq!(switch.lane(1, 3), Lane::default());
    switch.raise_lane(1, 3, &Lane::default());
    assert_eq!(switch.lane(1, 3), Lane::default(), "nothing to remember");
    switch.raise_lane(1, 3, &lane(u64::MAX - 1));
    assert_eq!(switch.lane(1, 3), lane(u64::MAX - 1), "the first, whichever it is");
    switch.raise_lane(1, 3, &lane(u64::MAX - 2));
    switch.raise_lane(1, 3, &lane(0));
    assert_eq!(switch.lane(1, 3), lane(u64::MAX - 1));
    switch.raise_lane(1, 3, &lane(5));
    assert_eq!(switch.lane(1, 3), lane(5), "ids rise around the end of their numbers");
    assert_eq!([switch.lane(1, 2), switch.lane(1, 4), switch.lane(2, 3)], [Lane::default(); 3]);
}

/// Whatever a switch's memory remembers of a handle's earlier sessions: with lost records, sessions may well begin with
/// an incarnation below theirs, or one that looks like it in 24 bits.
#[test]
fn a_session_begins_with_lanes_of_its_own() {
    let switch = switch(10);
    let address = "10.0.0.1:10001".parse().unwrap();
    let begin = |incarnation| switch.set_node(1, &NodeEntry { address, namespace: NAMESPACE, incarnation });
    let remember = |request| switch.raise_lane(1, 3, &Lane { request, own: version(1), outcome: 1 });
    let remembered = || switch.lane(1, 3).request;

    begin(9);
    remember(9 << 40 | 500);
    begin(9);
    assert_eq!(remembered(), 9 << 40 | 500, "told again of the same session");
    begin(4);
    assert_eq!(remembered(), (4 << 40) - 1, "a lower incarnation");
    remember(4 << 40 | 2);
    assert_eq!(remembered(), 4 << 40 | 2);
    begin(4 + (1 << 24));
    assert_eq!(remembered(), (4 << 40) - 1, "another one that looks the same");
    assert_eq!(switch.lane(2, 3), Lane::default(), "nobody else's");

    // The last that there are, and the first: what comes late of the session before is older all the same.
    remember(12 << 40 | 9);
    begin(1 << 24);
    assert_eq!(remembered(), u64::MAX);

    // The switch before this one in a chain was told first, and its first write is here already.
    remember(12 << 40 | 1);
    begin(12);
    assert_eq!(remembered(), 12 << 40 | 1);
}

#[test]
fn an_emptied_store_is_as_new_but_for_its_counts() {
    let switch = switch(5);
    let keys: Vec<Key> = (0..5).map(|number| Key { high: number, low: 1, check: 2 }).collect();
    for round in 1..=3 {
        for key in &keys {
            assert_eq!(switch.insert(GROUP, *key, version(switch.next_sequence(GROUP))), Ok(true));
        }
        switch.raise_lane(1, 3, &Lane { request: 7, own: version(1), outcome: 1 });
        switch.empty_store();
        assert_eq!((switch.place(GROUP), switch.keys()), (Place::default(), (0, 5)));
        // Nobody tells it again of the session that the switch knows: what is late of one before it is older.
        assert_eq!((switch.lane(1, 3).request, switch.lane(2, 3).request), ((101 << 40) - 1, 0));
        assert!(keys.iter().all(|key| switch.content(GROUP, *key).is_none()));
        switch.set_place(GROUP, NAMESPACE, Place { epoch: FIRST_EPOCH, previous: 0, next: 0 });
        assert_eq!(read(&switch, GROUP, keys[0]).0, Outcome::Missing);
        assert_eq!(switch.next_sequence(GROUP), 6 * round);
    }
}

/// A new place counts on: a write that is being counted in the epoch before must not get a version of it again.
#[test]
fn the_count_of_versions_never_falls() {
    let switch = switch(10);
    let counted: Vec<u64> = (1..=6)
        .map(|epoch| {
            switch.set_place(GROUP, NAMESPACE, Place { epoch: FIRST_EPOCH + epoch / 2, previous: 0, next: 0 });
            switch.next_sequence(GROUP)
        })
        .collect();
    assert!(counted.is_sorted_by(|one, next| one < next), "{counted:?}");
    let place = Place { epoch: 20, previous: 3, next: 4 };
    switch.set_place(GROUP, NAMESPACE, place);
    assert_eq!(switch.place(GROUP), place);
}
