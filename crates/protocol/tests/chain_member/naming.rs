//! How a key is made, and what daemons know of names.

use std::sync::Arc;

use wayside_protocol::Time;
use wayside_protocol::chain::memory::{Content, ItemMemory, JournalMemory};
use wayside_protocol::chain::{Cursor, Following, GroupRoute, Key, Member};
use wayside_wire::{Effect, Header, Operation, Outcome, Placement, Role, Route, Routes, Scope, Watch, kind};

use crate::support::*;

const NAME: &[u8] = b"key/1";

#[test]
fn a_key_is_answered_to_be_made_by_the_tail_once_every_switch_has_it_with_one_first_version() {
    let mut world = World::new(3);
    let group = group_of(NAME);
    world.seats[0].switch.next_sequence(group);
    let asked = world.operation(2, NAME);
    world.ask(0, kind::chain::INSERT, &asked, NAME);
    assert!(world.step());
    for seat in 1..3 {
        let install = world.take_only(kind::chain::INSTALL);
        let (header, effect) = (install.header(), install.effect());
        assert_eq!((install.from, install.to, install.port), (switch(seat - 1), switch(seat), 0));
        assert_eq!((header.source, header.destination, header.epoch), (install.from, install.to, EPOCH));
        assert_eq!((header.namespace, install.blocks().starts_with(NAME)), (SPACE, true));
        assert_eq!((effect.request, effect.client, effect.reply_port), (asked.request, 2, address(2).port()));
        // The head's count when the packet went on, and the version that the key began with.
        assert_eq!((effect.sequence, own(&effect)), (2, version(EPOCH, 3)));
        let contents = world.contents(NAME);
        assert_eq!(contents[seat - 1], nothing(version(EPOCH, 3)));
        assert_eq!(contents[seat], None);
        world.deliver(install);
    }
    let answer = world.take_only(kind::chain::ANSWER);
    let (header, effect) = (answer.header(), answer.effect());
    assert_eq!((answer.from, answer.to, answer.port), (switch(2), 2, address(2).port()));
    assert_eq!((header.source, header.destination, header.count, header.epoch), (0, 2, 0, EPOCH));
    assert_eq!(
        effect,
        Effect {
            key_high: asked.key_high,
            key_low: asked.key_low,
            request: asked.request,
            sequence: 2,
            group,
            client: 2,
            reply_port: address(2).port(),
            outcome: Outcome::Done as u8,
            own_epoch: EPOCH,
            own_sequence: 3,
            ..Effect::default()
        }
    );
    assert_eq!(world.contents(NAME), vec![nothing(version(EPOCH, 3)); 3]);
    assert!(world.seats.iter().all(|seat| seat.member.is_named(group, key(NAME))));
}

#[test]
fn a_key_that_is_there_is_answered_with_the_version_that_it_began_with() {
    let mut world = World::new(2);
    assert_eq!(world.insert(NAME), Some(Outcome::Done));
    let first = world.contents(NAME)[0].expect("it was made").version;
    assert!(world.write(1, NAME, b"x").is_some_and(|written| written > first));
    let asked = world.operation(3, NAME);
    world.ask(0, kind::chain::INSERT, &asked, NAME);
    world.settle();
    let answers = world.received(3);
    assert_eq!(kinds(&answers), [kind::chain::ANSWER]);
    assert_eq!((answers[0].effect().outcome, own(&answers[0].effect())), (Outcome::Done as u8, first));
    assert_eq!(world.values(NAME), vec![Some(b"x".to_vec()); 2]);
}

#[test]
fn what_is_made_of_another_name_than_its_keys_is_refused_and_counted() {
    let mut world = World::new(2);
    let asked = world.operation(1, NAME);
    let mut refused = 0;
    for other in [
        Operation { key_high: asked.key_high ^ 1, ..asked },
        Operation { key_low: asked.key_low ^ 1, ..asked },
        Operation { check: asked.check ^ 1, ..asked },
        Operation { group: asked.group ^ 1, ..asked },
    ] {
        world.ask(0, kind::chain::INSERT, &other, NAME);
        world.settle();
        refused += 1;
        assert_eq!((world.seats[0].member.refused(), world.received(1)), (refused, vec![]));
    }
    world.ask(0, kind::chain::INSERT, &asked, NAME);
    assert!(world.step());
    // A switch that hands it on has looked; but not whether it is what the packet says.
    let install = world.take_only(kind::chain::INSTALL);
    world.deliver(install.effected(|effect| effect.key_low ^= 1));
    assert_eq!((world.take(), world.seats[1].member.refused()), (vec![], 1));
    assert!(!world.seats[1].member.is_named(group_of(NAME), key(NAME)));
    assert_eq!(world.seats[1].switch.keys().0, 0);
    world.deliver(install);
    assert_eq!((world.seats[0].member.refused(), world.seats[1].member.refused()), (refused, 1));
    world.settle();
    assert_eq!(kinds(&world.received(1)), [kind::chain::ANSWER]);
}

#[test]
fn who_has_no_room_for_a_key_or_has_it_for_another_name_says_so() {
    let mut names = names_of(BASE);
    let mut next = || names.next().expect("there are many");
    let (first, second, third) = (next(), next(), next());
    let mut world = World::of(&Setup { switches: 2, keys: 2, ..Setup::default() });
    let taken = Key { check: key(&first).check ^ 1, ..key(&first) };
    assert_eq!(world.seats[1].switch.insert(BASE, taken, version(EPOCH, 1)), Ok(true));
    assert_eq!(world.insert(&first), Some(Outcome::Collision), "by the tail, which has it");
    assert_eq!(world.insert(&second), Some(Outcome::Done));
    assert_eq!(world.insert(&third), Some(Outcome::Full), "by the head");
    assert_eq!(world.seats.iter().map(|seat| seat.member.known_names()).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn packets_leave_in_the_order_in_which_they_were_decided_on() {
    let names: Vec<Vec<u8>> = names_of(BASE).take(3).collect();
    for switches in [1, 2] {
        let mut world = World::new(switches);
        for name in &names {
            let asked = world.operation(2, name);
            world.ask(0, kind::chain::INSERT, &asked, name);
            let Parcel { packet, .. } = world.wire.pop_back().expect("it is there");
            world.seats[0].member.on_packet(Time(world.now), 9, &packet);
        }
        world.collect(0);
        let said = world.take();
        let keys: Vec<u64> = said.iter().map(|parcel| parcel.effect().key_high).collect();
        assert_eq!(keys, names.iter().map(|name| key(name).high).collect::<Vec<_>>());
    }
    let mut world = World::new(1);
    for first in 0..2 {
        world.send(2, 0, map_header(), &map_of(first), &[0; 32]);
        let Parcel { packet, .. } = world.wire.pop_back().expect("it is there");
        world.seats[0].member.on_packet(Time(world.now), 9, &packet);
    }
    world.collect(0);
    let firsts = world.take().iter().map(|parcel| routes(parcel).0.first).collect::<Vec<_>>();
    assert_eq!(firsts, [0, 1]);
}

fn map_header() -> Header {
    Header { kind: kind::chain::MAP, namespace: SPACE, ..Header::default() }
}

fn map_of(first: u16) -> [u8; Routes::BYTES] {
    let mut body = [0; Routes::BYTES];
    Routes { first, ..Routes::default() }.write(&mut body, 0);
    body
}

fn routes(parcel: &Parcel) -> (Routes, Vec<Route>) {
    match parcel.body() {
        Body::Routes(routes, each) => (routes, each),
        other => panic!("no routes, but {other:?}"),
    }
}

#[test]
fn clients_are_told_where_groups_are_as_many_as_they_have_room_for() {
    let namespaces = vec![groups(SPACE, SPACE_NAME, BASE, 5)];
    let mut world = World::unplaced(&Setup { namespaces, ..Setup::default() });
    let chains: [(u32, &[usize]); 5] = [(5, &[0, 1, 2]), (6, &[1, 2]), (0, &[]), (8, &[2]), (9, &[2, 1, 0])];
    for (group, (epoch, chain)) in (BASE..).zip(chains).filter(|(_, (epoch, _))| *epoch != 0) {
        world.place(group, epoch, chain);
    }
    let expected = |index: usize| {
        let (epoch, chain) = chains[index];
        if epoch == 0 {
            return Route::default();
        }
        let GroupRoute { head, tail, .. } = route(epoch, chain);
        Route {
            epoch,
            head_address: (*head.ip()).into(),
            tail_address: (*tail.ip()).into(),
            head_port: head.port(),
            tail_port: tail.port(),
        }
    };
    for (first, room, told) in [(0, 3, 0..3), (1, 3, 1..4), (0, 9, 0..5), (3, 9, 3..5), (5, 2, 5..5), (9, 2, 5..5)] {
        world.send(2, 1, map_header(), &map_of(first), &vec![0; 32 * room]);
        world.settle();
        let page = world.received(2).pop().expect("it is answered");
        let header = page.header();
        assert_eq!((page.from, page.port, header.kind), (switch(1), address(2).port(), kind::chain::ROUTES));
        assert_eq!((header.source, header.destination, header.namespace), (0, 2, SPACE));
        let about = Routes { first: first.min(5), base: BASE, groups: 5 };
        assert_eq!(routes(&page), (about, told.map(expected).collect()));
    }
}

#[test]
fn a_switch_takes_places_in_its_own_groups_and_counts_them() {
    let mut world = World::unplaced(&Setup::default());
    for (group, changed) in [(BASE, 1), (BASE + 1, 2), (BASE + 2, 2), (BASE - 1, 2), (BASE, 3)] {
        world.place(group, EPOCH, &[0, 1]);
        let seat = &world.seats[0];
        assert_eq!(seat.member.places_changed(), changed);
        let is_its = (BASE..BASE + 2).contains(&group);
        assert_eq!(seat.switch.place(group).epoch, if is_its { EPOCH } else { 0 });
    }
    assert_eq!(world.seats[2].member.places_changed(), 0, "it only hears of them");
}

/// A namespace without groups, where the others' begin, and two with groups, side by side.
fn three_namespaces() -> Setup {
    let namespaces = vec![
        groups(SPACE + 2, b"none", BASE, 0),
        groups(SPACE, SPACE_NAME, BASE, 2),
        groups(SPACE + 1, b"other", BASE + 2, 3),
    ];
    Setup { switches: 1, namespaces, ..Setup::default() }
}

/// A key of the second namespace, and its group.
fn in_other(name: &[u8]) -> (u16, Key) {
    let key = key_in(b"other", name);
    (BASE + 2 + key.group(3), key)
}

#[test]
fn names_from_before_the_daemon_are_learnt_for_keys_that_are_there() {
    let mut world = World::of(&three_namespaces());
    let Seat { switch, member, .. } = &mut world.seats[0];
    let (group, other) = in_other(b"x");
    for (group, key) in [(group_of(NAME), key(NAME)), (group_of(b"y"), key(b"y")), (group, other)] {
        assert_eq!(switch.insert(group, key, version(EPOCH, 0)), Ok(true));
    }
    let written = Content { length: Some(3), ..Content::nothing(version(EPOCH - 1, 9)) };
    assert!(switch.raise(group_of(b"y"), key(b"y"), &Content { version: version(EPOCH, 9), ..written }));
    assert_eq!((member.known_names(), member.is_named(group, other)), (0, false));
    assert!(!member.learn_name(SPACE, b"x"), "it is another namespace's");
    assert!(!member.learn_name(SPACE + 2, b"x") && !member.learn_name(SPACE + 3, b"x"), "there are no keys");
    assert!(!member.learn_name(SPACE, b"") && !member.learn_name(SPACE, &[7; 961]), "that is no name");
    assert!(member.learn_name(SPACE + 1, b"x") && member.learn_name(SPACE, b"y"));
    assert!(!member.learn_name(SPACE + 1, b"x") && !member.learn_name(SPACE, b"y"), "it is known by now");
    assert_eq!((member.known_names(), member.is_named(group, other)), (2, true));
    // What it began with is not known: it is no later than what it has.
    for (name, first) in [(b"y".as_slice(), version(EPOCH, 8)), (NAME, version(EPOCH, 0))] {
        let asked = world.operation(2, name);
        world.ask(0, kind::chain::INSERT, &asked, name);
        world.settle();
        let answer = world.received(2).pop().expect("it is answered").effect();
        assert_eq!((answer.outcome, own(&answer)), (Outcome::Done as u8, first));
    }
    assert_eq!(world.seats[0].member.known_names(), 3);
}

#[test]
fn names_are_told_as_they_are_made_by_namespace_and_piece_by_piece() {
    let mut world = World::of(&three_namespaces());
    let before = names_of(BASE).next().expect("there are many");
    assert_eq!(world.insert(&before), Some(Outcome::Done));
    let member = &mut world.seats[0].member;
    assert_eq!(member.made(), None);
    member.keep_names();
    member.keep_names();
    let names: Vec<Vec<u8>> = (BASE..BASE + 2).flat_map(|group| names_of(group).skip(1).take(3)).collect();
    for name in names.iter().rev() {
        assert_eq!(world.insert(name), Some(Outcome::Done));
        assert_eq!(world.insert(name), Some(Outcome::Done), "it is there");
    }
    let Seat { switch, member, .. } = &mut world.seats[0];
    let (group, other) = in_other(b"x");
    assert_eq!(switch.insert(group, other, version(EPOCH, 0)), Ok(true));
    assert!(member.learn_name(SPACE + 1, b"x"));
    let made: Vec<_> = std::iter::from_fn(|| member.made()).collect();
    let expected: Vec<(u16, &[u8])> =
        names.iter().rev().map(|name| (SPACE, &**name)).chain([(SPACE + 1, b"x".as_slice())]).collect();
    assert_eq!(made.iter().map(|(namespace, name)| (*namespace, &**name)).collect::<Vec<_>>(), expected);
    // By namespace.
    let mut space: Vec<(u16, Key, &[u8])> =
        [&before].into_iter().chain(&names).map(|name| (group_of(name), key(name), &**name)).collect();
    space.sort_unstable();
    let known =
        |namespace| -> Vec<_> { member.names(namespace).map(|(name, group, key)| (group, key, name)).collect() };
    assert_eq!(known(SPACE), space);
    assert_eq!(known(SPACE + 1), [(group, other, b"x".as_slice())]);
    assert_eq!((known(SPACE + 2), known(SPACE + 3)), (vec![], vec![]));
    // And all of them, in pieces of three.
    let all: Vec<(u16, Vec<u8>)> =
        space.iter().map(|(_, _, name)| (SPACE, name.to_vec())).chain([(SPACE + 1, b"x".to_vec())]).collect();
    let (mut told, mut at, mut pieces) = (Vec::new(), Cursor::default(), Vec::new());
    while let Some(next) = member.tell_names(at, 3, &mut |namespace, name| told.push((namespace, name.to_vec()))) {
        pieces.push(told.len());
        at = next;
    }
    assert_eq!((told, pieces, member.known_names()), (all, vec![3, 6, 8], 8));
}

#[test]
fn a_daemon_asks_the_controllers_that_it_follows_now() {
    let following =
        Following { boot: 3, controllers: vec![CONTROLLER], renewal: 1_000, window: 1, ..Following::default() };
    let mut world = World::unplaced(&Setup { switches: 1, following, ..Setup::default() });
    let asked = |world: &mut World| world.take().iter().map(|parcel| (parcel.kind(), parcel.to)).collect::<Vec<_>>();
    world.pass(0);
    assert_eq!(asked(&mut world), [(kind::chain::RENEW, CONTROLLER)]);
    world.seats[0].member.follow(vec![CONTROLLER + 1, CONTROLLER + 2]);
    world.pass(999);
    assert_eq!(asked(&mut world), []);
    world.pass(1);
    assert_eq!(asked(&mut world), [CONTROLLER + 1, CONTROLLER + 2].map(|to| (kind::chain::RENEW, to)));
}

/// What a client of this switch is answered that watches a name's group from this position on.
fn watch(world: &mut World, seat: usize, (history, number): (u64, u64)) -> Vec<Parcel> {
    let watch = Watch {
        request: 77,
        scope: Scope::Prefix as u8,
        group: group_of(NAME),
        client: 2,
        history,
        number,
        ..Watch::default()
    };
    let mut body = [0; Watch::BYTES];
    watch.write(&mut body, 0);
    let epoch = world.seats[seat].switch.place(watch.group).epoch;
    let header = Header { kind: kind::chain::WATCH, epoch, namespace: SPACE, ..Header::default() };
    world.send(2, seat, header, &body, &[0; 480]);
    world.settle();
    world.received(2)
}

fn position(event: &Parcel) -> (u64, u64) {
    match event.body() {
        Body::Watch(watch) => (watch.history, watch.number),
        other => panic!("no event, but {other:?}"),
    }
}

#[test]
fn a_daemon_notes_nothing_for_who_watched_its_forerunner_and_its_histories_are_its_own() {
    let mut world = World::new(1);
    assert_eq!(world.insert(NAME), Some(Outcome::Done));
    let told = watch(&mut world, 0, (0, 0));
    assert_eq!(kinds(&told), [kind::chain::EVENT]);
    assert!(world.write(1, NAME, b"x").is_some());
    let drawn = world.seats[0].switch.drawn();
    assert_ne!(drawn, 0);
    let mut histories = vec![position(&told[0]).0];
    for seed in [1, 2] {
        let setup = Setup::default();
        let memory = Arc::clone(&world.seats[0].switch);
        let heir = Member::new(memory, switch(0), setup.namespaces).sweeping(setup.sweeping).seeded(seed);
        world.seats[0].member = heir;
        let drawn = world.seats[0].switch.drawn();
        assert!(world.write(1, NAME, b"y").is_some());
        assert_eq!(world.seats[0].switch.drawn(), drawn);
        let told = watch(&mut world, 0, (0, 0));
        histories.push(position(&told[0]).0);
    }
    histories.sort_unstable();
    histories.dedup();
    assert_eq!(histories.len(), 3);
}

#[test]
fn the_last_change_of_a_key_is_told_with_its_name_though_it_has_left() {
    let mut world = World::new(2);
    assert_eq!(world.insert(NAME), Some(Outcome::Done));
    assert!(world.write(1, NAME, b"x").is_some());
    let told = watch(&mut world, 1, (0, 0));
    assert_eq!(watch(&mut world, 1, position(&told[0])), [], "it waits");
    assert!(world.delete(1, NAME).is_some());
    // The head's daemon alone is awake.
    for _ in 0..3 {
        world.now += COLLECT_AFTER / 2;
        world.tick(0);
        world.settle();
    }
    assert_eq!(world.contents(NAME), [None, None]);
    assert_eq!(world.seats[1].member.known_names(), 0);
    world.pass(0);
    world.settle();
    let told = world.received(2);
    assert_eq!(kinds(&told), [kind::chain::EVENT]);
    assert!(told[0].blocks().windows(NAME.len()).any(|part| part == NAME), "{:?}", told[0].blocks());
}

#[test]
fn the_range_of_a_groups_keys_that_is_divided_ends_with_the_groups_last_key() {
    const BOOT: u64 = 7;
    let following = Following { boot: BOOT, renewal: 1 << 40, retransmit: 1_000, window: 8, ..Following::default() };
    for (group, last) in [(BASE, 1 << 62), (BASE + 1, 1 << 63), (BASE + 3, u64::MAX)] {
        let namespaces = vec![groups(SPACE, SPACE_NAME, BASE, 4)];
        let setup = Setup { switches: 2, namespaces, following: following.clone(), ..Setup::default() };
        let mut world = World::unplaced(&setup);
        world.place(group, EPOCH, &[0]);
        let names = (0..).map(|number| format!("key/{number}").into_bytes());
        let names: Vec<Vec<u8>> = names.filter(|name| BASE + key(name).group(4) == group).take(6).collect();
        for name in &names {
            let asked = Operation { group, ..world.operation(1, name) };
            world.ask(0, kind::chain::INSERT, &asked, name);
            let Parcel { packet, from, .. } = world.wire.pop_back().expect("it is there");
            world.hand_over(0, from, &packet);
        }
        world.take();
        let placement = Placement {
            boot: BOOT,
            pass: 1,
            epoch: EPOCH,
            group,
            source: switch(0),
            role: Role::Joiner as u8,
            ..Placement::default()
        };
        let mut body = [0; Placement::BYTES];
        placement.write(&mut body, 0);
        world.send(CONTROLLER, 1, Header { kind: kind::chain::PLACE, ..Header::default() }, &body, &[]);
        assert!(world.step());
        // A question for each key, and with the fourth another one, for what lies above the middle of what is left.
        for brought in 0..4 {
            let question = world.take_only(kind::chain::FETCH);
            assert_eq!(world.seats[1].member.known_names(), brought);
            world.deliver(question);
            assert!(world.step() && world.step());
        }
        let questions = world.take();
        assert_eq!(kinds(&questions), [kind::chain::FETCH; 2]);
        let (from, middle) = (questions[0].copied().key_high, questions[1].copied().key_high + 1);
        assert_eq!(middle, from + (last - from) / 2, "of group {group}");
        world.deliver_all(questions);
        world.settle();
        assert_eq!(world.seats[1].member.known_names(), 6);
    }
}
