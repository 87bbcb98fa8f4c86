//! How a joiner copies a group from its tail: what is asked for, when, how many questions are under way, and when it
//! says that it has all (docs/chain.md, Copying).

use wayside_protocol::chain::memory::{Content, ItemMemory, Owner};
use wayside_protocol::chain::{Following, Key, Place, Sweeping};
use wayside_wire::{BODY, Copied, Header, Operation, Part, Placement, Role, kind, limits, service, value_flag};

use crate::support::*;

const SOURCE: usize = 0;
const JOINER: usize = 1;
const OTHER: usize = 2;
const BOOT: u64 = 3;
const GROUP: u16 = BASE;
/// Of the group: the namespace has two.
const LAST: u64 = 1 << 63;
/// Nothing else comes before that.
const FAR: u64 = 1 << 50;
/// Keys that a part brings before it gives some away.
const DIVIDES: usize = 4;
/// Keys that a switch has room for.
const ROOM: u32 = 200;
const ANOTHER_CONTROLLER: u16 = CONTROLLER + 1;

/// The first switch has all groups, and the second is to copy some: with so many questions under way at most.
fn begun(window: usize) -> World {
    let following = Following { boot: BOOT, renewal: FAR, retransmit: RETRANSMIT, window, ..Following::default() };
    let sweeping = Sweeping { collect_after: 0, retransmit: FAR, look_again: FAR, ..Sweeping::default() };
    let mut world = World::unplaced(&Setup { keys: ROOM, following, sweeping, ..Setup::default() });
    world.seats.iter().for_each(|seat| seat.switch.serve_places_without_end());
    [GROUP, GROUP + 1].into_iter().for_each(|group| world.place(group, EPOCH, &[SOURCE]));
    world.rest();
    world
}

/// The group has so many keys, each with a value of its own: their names in the order of the keys.
fn fill(world: &mut World, group: u16, count: usize) -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = names_of(group).take(count).collect();
    names.sort_by_key(|name| key(name));
    for name in &names {
        world.insert(name);
        world.write(1, name, name).expect("it was made");
    }
    names
}

fn joiner(group: u16, pass: u64) -> Placement {
    let role = Role::Joiner as u8;
    Placement { boot: BOOT, pass, epoch: EPOCH, group, source: switch(SOURCE), role, ..Placement::default() }
}

/// A controller tells the joiner.
fn tell(world: &mut World, controller: u16, told: &Placement) {
    let mut packet = vec![0; BODY + Placement::BYTES];
    let (kind, destination) = (kind::chain::PLACE, switch(JOINER));
    let header =
        Header { service: service::CHAIN, kind, source: controller, destination, epoch: EPOCH, ..Header::default() };
    header.write(&mut packet);
    told.write(&mut packet, BODY);
    world.hand_over(JOINER, controller, &packet);
}

/// The joiner begins: its first question.
fn join(world: &mut World, group: u16) -> Parcel {
    tell(world, CONTROLLER, &joiner(group, 1));
    world.take_only(kind::chain::FETCH)
}

/// The source's two pieces, or what it says at the end.
fn answers(world: &mut World, question: Parcel) -> Vec<Parcel> {
    world.deliver(question);
    world.take()
}

/// A question is answered: what the joiner says then.
fn bring(world: &mut World, question: Parcel) -> Vec<Parcel> {
    let answers = answers(world, question);
    assert!(answers.iter().all(|answer| (answer.to, answer.kind()) == (switch(JOINER), kind::chain::COPY)));
    world.deliver_all(answers);
    world.take()
}

fn only(mut parcels: Vec<Parcel>) -> Parcel {
    assert_eq!(parcels.len(), 1, "{parcels:?}");
    parcels.remove(0)
}

/// So many keys come, one after the other: the next question.
fn bring_many(world: &mut World, question: Parcel, count: usize) -> Parcel {
    (0..count).fold(question, |question, _| only(bring(world, question)))
}

/// A question's key: for what comes after it.
fn after(question: &Parcel) -> Option<(u64, u64)> {
    let Copied { key_high, key_low, length, .. } = question.copied();
    assert_eq!(question.kind(), kind::chain::FETCH);
    (length != 0).then_some((key_high, key_low))
}

fn of(name: &[u8]) -> Option<(u64, u64)> {
    let Key { high, low, .. } = key(name);
    Some((high, low))
}

/// The upper half of what comes after this key and before that one begins here.
fn middle(name: &[u8], end: u64) -> u64 {
    let from = key(name).high;
    from + (end - from) / 2
}

/// What is asked for by the half that begins there.
fn half(middle: u64) -> Option<(u64, u64)> {
    Some((middle - 1, u64::MAX))
}

/// The joiner says to a controller that it is as it was told.
fn is_placed(parcel: &Parcel, controller: u16, told: &Placement) {
    assert_eq!((parcel.to, parcel.kind()), (controller, kind::chain::PLACED));
    assert_eq!(parcel.body(), Body::Placement(*told));
    assert_eq!(parcel.header().epoch, told.epoch);
}

fn has(world: &World, name: &[u8]) -> bool {
    let Seat { switch, member, .. } = &world.seats[JOINER];
    let (group, key) = (group_of(name), key(name));
    assert_eq!(switch.content(group, key).is_some(), member.is_named(group, key));
    member.is_named(group, key)
}

fn copying(world: &World) -> (u64, u64) {
    world.seats[JOINER].member.copying()
}

/// The joiner's clock goes on by so much: what it says then.
fn pass(world: &mut World, micros: u64) -> Vec<Parcel> {
    world.now += micros;
    world.tick(JOINER);
    world.take()
}

#[test]
fn a_joiner_says_that_it_has_all_once_it_has_each_key_with_its_name_first_version_and_value() {
    let mut world = begun(8);
    let names = fill(&mut world, GROUP, 40);
    let others = fill(&mut world, GROUP + 1, 3);
    world.delete(2, &names[0]).expect("it is there");
    let leased = world.lease(3, &names[1], b"leased").expect("it is there");
    world.write(2, &names[2], &[9; limits::MAX_VALUE_BYTES]).expect("it is there");
    world.write(2, &names[3], b"").expect("it is there");
    let first = |world: &mut World, seat: usize, name: &[u8]| {
        let asked = Operation { length: name.len() as u16, ..world.operation(1, name) };
        let mut packet = vec![0; BODY + Operation::BYTES + limits::BLOCK_BYTES];
        let (kind, namespace) = (kind::chain::INSERT, SPACE);
        Header { service: service::CHAIN, kind, count: 1, epoch: EPOCH, namespace, ..Header::default() }
            .write(&mut packet);
        asked.write(&mut packet, BODY);
        packet[BODY + Operation::BYTES..][..name.len()].copy_from_slice(name);
        world.hand_over(seat, 1, &packet);
        own(&world.take_only(kind::chain::ANSWER).effect())
    };
    let told = joiner(GROUP, 1);
    tell(&mut world, CONTROLLER, &told);
    assert_eq!(copying(&world), (1, 0));
    while world.wire.iter().all(|parcel| parcel.kind() != kind::chain::PLACED) {
        let has_all = names.iter().all(|name| has(&world, name));
        assert!(world.step(), "has it all: {has_all}");
    }
    is_placed(&world.take_only(kind::chain::PLACED), CONTROLLER, &told);
    assert_eq!(copying(&world), (0, 40));
    for name in &names {
        assert!(has(&world, name));
        let contents = world.contents(name);
        assert_eq!(contents[SOURCE], contents[JOINER]);
        let firsts = [SOURCE, JOINER].map(|seat| first(&mut world, seat, name));
        assert_eq!(firsts[0], firsts[1]);
        assert!(firsts[0] < contents[SOURCE].expect("it is there").version);
    }
    let owner = Owner { handle: 3, incarnation: incarnation(3) as u32 };
    let content = world.contents(&names[1])[JOINER].expect("it was copied");
    assert_eq!((content.lease, content.version, value(&content)), (Some(owner), leased, Some(b"leased".to_vec())));
    assert!(others.iter().all(|name| !has(&world, name)));
    assert_eq!(world.due_in(JOINER), Some(FAR), "nothing is asked any more");
}

#[test]
fn a_question_brings_the_next_key_and_is_another_each_time() {
    let mut world = begun(1);
    let names = fill(&mut world, GROUP, 2);
    let question = join(&mut world, GROUP);
    assert_eq!((question.to, question.port, question.header().count), (switch(SOURCE), 0, 0));
    // What was said to an earlier life of the joiner answers none of its questions.
    let nonce = (BOOT << 20) + 1;
    assert_eq!(question.copied(), Copied { nonce, group: GROUP, ..Copied::default() });
    let pieces = answers(&mut world, question);
    let content = world.contents(&names[0])[SOURCE].expect("it is there");
    let parts: Vec<Copied> = pieces.iter().map(Parcel::copied).collect();
    let about = Copied {
        key_high: key(&names[0]).high,
        key_low: key(&names[0]).low,
        nonce,
        group: GROUP,
        epoch: EPOCH,
        length: names[0].len() as u16,
        ..Copied::default()
    };
    let named = Copied { part: Part::Name as u8, sequence: parts[0].sequence, ..about };
    let flags = value_flag::PRESENT;
    let valued = Copied { part: Part::Value as u8, sequence: content.version.sequence, flags, ..about };
    assert_eq!(parts, [named, valued]);
    assert!(parts[0].sequence < parts[1].sequence);
    assert!(pieces.iter().all(|piece| piece.blocks().starts_with(&names[0])));
    // Pieces come in any order.
    let [name, value] = <[Parcel; 2]>::try_from(pieces).expect("two");
    world.deliver(value);
    assert_eq!(world.take(), []);
    assert_eq!(copying(&world), (1, 0));
    world.deliver(name);
    let question = world.take_only(kind::chain::FETCH);
    assert_eq!((after(&question), question.copied().nonce), (of(&names[0]), nonce + 1));
    assert_eq!(copying(&world), (1, 1));
    let question = only(bring(&mut world, question));
    assert_eq!((after(&question), question.copied().nonce), (of(&names[1]), nonce + 2));
    let end = only(answers(&mut world, question.clone()));
    assert_eq!(end.copied(), Copied { part: Part::End as u8, ..question.copied() });
    world.deliver(end);
    is_placed(&world.take_only(kind::chain::PLACED), CONTROLLER, &joiner(GROUP, 1));
}

#[test]
fn the_pause_before_a_question_is_asked_again_doubles_up_to_64_times_and_falls_with_what_comes() {
    let mut world = begun(1);
    let names = fill(&mut world, GROUP, 6);
    let mut question = join(&mut world, GROUP);
    for doubled in [0, 1, 2, 3, 4, 5, 6, 6, 6] {
        let pause = RETRANSMIT << doubled;
        assert_eq!(world.due_in(JOINER), Some(pause));
        assert_eq!(pass(&mut world, pause - 1), []);
        let again = only(pass(&mut world, 1));
        assert_eq!(after(&again), None);
        assert_eq!(again.copied().nonce, question.copied().nonce + 1);
        question = again;
    }
    for (name, doubled) in names.iter().zip([4, 3, 2, 1, 0, 0]) {
        question = only(bring(&mut world, question));
        assert_eq!(after(&question), of(name));
        assert_eq!(world.due_in(JOINER), Some(RETRANSMIT << doubled));
    }
}

#[test]
fn both_pieces_of_a_key_are_of_one_question() {
    let mut world = begun(1);
    let names = fill(&mut world, GROUP, 2);
    let first = join(&mut world, GROUP);
    let late = answers(&mut world, first);
    let second = only(pass(&mut world, RETRANSMIT));
    // What answers the former question is not taken.
    world.deliver_all(late);
    assert_eq!(world.take(), []);
    let mut pieces = answers(&mut world, second);
    world.deliver(pieces.remove(0));
    let third = only(pass(&mut world, 2 * RETRANSMIT));
    // The key has another value by now.
    world.write(2, &names[0], b"newer").expect("it is there");
    world.take();
    let mut pieces = answers(&mut world, third);
    world.deliver(pieces.remove(1));
    assert_eq!(world.take(), [], "the name was another moment's");
    assert!(!has(&world, &names[0]));
    world.deliver(pieces.remove(0));
    assert_eq!(after(&world.take_only(kind::chain::FETCH)), of(&names[0]));
    assert_eq!(world.values(&names[0])[JOINER], Some(b"newer".to_vec()));
}

#[test]
fn pieces_of_two_keys_are_no_key_nor_is_a_name_that_is_not_the_key_s() {
    let mut world = begun(1);
    let names = fill(&mut world, GROUP, 2);
    let question = join(&mut world, GROUP);
    let pieces = answers(&mut world, question);
    let [name, value] = <[Parcel; 2]>::try_from(pieces).expect("two");
    // A question that came twice may be answered by two keys, if the first was removed between.
    let Key { high, low, .. } = key(&names[1]);
    let other = value.copying(|copied| (copied.key_high, copied.key_low) = (high, low));
    world.deliver_all(vec![name.clone(), other.clone()]);
    assert_eq!(world.take(), []);
    assert!(names.iter().all(|name| !has(&world, name)));
    // Both of the second, with the first one's name.
    world.deliver(name.copying(|copied| (copied.key_high, copied.key_low) = (high, low)));
    assert_eq!(world.take(), []);
    assert!(names.iter().all(|name| !has(&world, name)));
    world.deliver_all(vec![value, name]);
    assert_eq!(after(&world.take_only(kind::chain::FETCH)), of(&names[0]));
    assert_eq!(world.contents(&names[0])[JOINER], world.contents(&names[0])[SOURCE]);
}

#[test]
fn what_nobody_asked_the_sender_for_is_not_taken() {
    let mut world = begun(1);
    fill(&mut world, GROUP, 1);
    let question = join(&mut world, GROUP);
    let pieces = answers(&mut world, question);
    let bad: [&dyn Fn(&Parcel) -> Parcel; 6] = [
        &|piece| Parcel { from: switch(OTHER), ..piece.headed(|header| header.source = switch(OTHER)) },
        &|piece| piece.copying(|copied| copied.nonce += 1),
        &|piece| piece.copying(|copied| copied.group += 1),
        &|piece| piece.copying(|copied| copied.part = 3),
        // Longer than what the packet has, and than a value may be.
        &|piece| piece.copying(|copied| copied.length = 33),
        &|piece| {
            let mut packet = piece.copying(|copied| copied.length = 129).headed(|header| header.count = 5).packet;
            packet.resize(BODY + Copied::BYTES + 5 * limits::BLOCK_BYTES, 0);
            Parcel { packet, ..piece.clone() }
        },
    ];
    for (number, change) in bad.into_iter().enumerate() {
        for piece in &pieces {
            world.deliver(change(piece));
        }
        assert_eq!(world.take(), [], "{number}");
        assert_eq!(copying(&world), (1, 0), "{number}");
    }
    world.deliver_all(pieces);
    assert_eq!(copying(&world), (1, 1));
}

#[test]
fn a_part_that_has_brought_four_keys_gives_the_upper_half_away() {
    let mut world = begun(2);
    let names = fill(&mut world, GROUP, 60);
    let question = join(&mut world, GROUP);
    let question = bring_many(&mut world, question, DIVIDES - 1);
    let questions = bring(&mut world, question);
    let middle = middle(&names[DIVIDES - 1], LAST);
    let asked: Vec<_> = questions.iter().map(after).collect();
    assert_eq!(asked, [of(&names[DIVIDES - 1]), half(middle)]);
    assert_ne!(questions[0].copied().nonce, questions[1].copied().nonce);
    let [mut lower, upper] = <[Parcel; 2]>::try_from(questions).expect("two");
    // No more than two are under way, whatever they bring.
    let first = names.iter().position(|name| key(name).high >= middle).expect("it is the half");
    let upper = bring_many(&mut world, upper, DIVIDES + 1);
    assert_eq!(after(&upper), of(&names[first + DIVIDES]));
    // The lower part comes to where the upper began, and is done.
    for name in &names[DIVIDES..first] {
        lower = only(bring(&mut world, lower));
        assert_eq!(after(&lower), of(name));
    }
    assert_eq!(bring(&mut world, lower), []);
    assert_eq!(copying(&world), (1, (first + DIVIDES + 1) as u64));
    // Now there is room for another one.
    let last = &names[first + DIVIDES + 1];
    let questions = bring(&mut world, upper);
    let asked: Vec<_> = questions.iter().map(after).collect();
    assert_eq!(asked, [of(last), half(self::middle(last, LAST))]);
    // And that has to bring as many again before it gives something away.
    let [lower, upper] = <[Parcel; 2]>::try_from(questions).expect("two");
    let mut question = upper;
    let end = loop {
        match &bring(&mut world, question)[..] {
            [] => break copying(&world),
            [next] => question = next.clone(),
            more => panic!("{more:?}"),
        }
    };
    assert_eq!(end.0, 1, "the lower one is under way");
    let lower = bring_many(&mut world, lower, DIVIDES - 1);
    let said = bring(&mut world, lower);
    assert_eq!(said.len(), 2, "{said:?}");
    world.wire.extend(said);
    world.settle();
    is_placed(&only(world.received(CONTROLLER)), CONTROLLER, &joiner(GROUP, 1));
    assert!(names.iter().all(|name| has(&world, name)));
}

#[test]
fn a_part_ends_with_the_first_key_of_the_next() {
    let mut world = begun(2);
    let names = fill(&mut world, GROUP, 20);
    let question = join(&mut world, GROUP);
    let question = bring_many(&mut world, question, DIVIDES - 1);
    let lower = bring(&mut world, question).remove(0);
    let middle = middle(&names[DIVIDES - 1], LAST);
    // No name has this key; the source says that one does.
    let pieces = answers(&mut world, lower);
    world.deliver_all(pieces.iter().map(|piece| piece.copying(|copied| copied.key_high = middle)).collect());
    assert_eq!(world.take(), []);
    // Of the two the upper one alone asks again.
    let again = only(pass(&mut world, RETRANSMIT));
    assert_eq!(after(&again), half(middle));
}

#[test]
fn all_groups_that_are_copied_share_the_questions_and_each_has_one() {
    for (window, divided) in [(1, 0), (2, 0), (3, 1), (4, 2)] {
        let mut world = begun(window);
        let groups = [GROUP, GROUP + 1];
        let names = groups.map(|group| fill(&mut world, group, 20));
        let questions = groups.map(|group| join(&mut world, group));
        assert_eq!(copying(&world), (2, 0));
        let mut under_way = 0;
        for (question, (names, end)) in questions.into_iter().zip(names.iter().zip([LAST, u64::MAX])) {
            let question = bring_many(&mut world, question, DIVIDES - 1);
            let questions = bring(&mut world, question);
            let last = &names[DIVIDES - 1];
            let expected = [of(last), half(middle(last, end))];
            let asked: Vec<_> = questions.iter().map(after).collect();
            assert_eq!(asked, expected[..questions.len()]);
            under_way += questions.len() - 1;
        }
        assert_eq!(under_way, divided, "{window}");
    }
}

#[test]
fn each_part_asks_again_by_its_own_time() {
    let mut world = begun(2);
    let names = fill(&mut world, GROUP, 20);
    let question = join(&mut world, GROUP);
    let question = bring_many(&mut world, question, DIVIDES - 1);
    let questions = bring(&mut world, question);
    let [lower, upper] = <[Parcel; 2]>::try_from(questions).expect("two");
    world.now += 300;
    let lower = only(bring(&mut world, lower));
    assert_eq!(after(&lower), of(&names[DIVIDES]));
    assert_eq!(world.due_in(JOINER), Some(RETRANSMIT - 300));
    let again = only(pass(&mut world, RETRANSMIT - 300));
    assert_eq!(after(&again), after(&upper));
    assert_eq!(world.due_in(JOINER), Some(300));
    let again = only(pass(&mut world, 300));
    assert_eq!(after(&again), after(&lower));
    assert_eq!(world.due_in(JOINER), Some(2 * RETRANSMIT - 300));
}

#[test]
fn a_joiner_without_room_says_so_and_has_nothing_of_the_group() {
    let mut world = begun(2);
    let names = fill(&mut world, GROUP, 20);
    // There is room for all but one of the keys that come first.
    let room = DIVIDES as u64 + 2;
    for number in 0..u64::from(ROOM) - room {
        let key = Key { high: u64::MAX - number, ..Key::default() };
        world.seats[JOINER].switch.insert(GROUP + 1, key, version(EPOCH, 1)).expect("there is room");
    }
    let question = join(&mut world, GROUP);
    let question = bring_many(&mut world, question, DIVIDES - 1);
    let questions = bring(&mut world, question);
    let [lower, upper] = <[Parcel; 2]>::try_from(questions).expect("two");
    let lower = bring_many(&mut world, lower, 2);
    assert!(names[..DIVIDES + 2].iter().all(|name| has(&world, name)));
    let refused = Placement { refused: 1, ..joiner(GROUP, 1) };
    is_placed(&only(bring(&mut world, lower)), CONTROLLER, &refused);
    assert!(names.iter().all(|name| !has(&world, name)));
    assert_eq!(world.seats[JOINER].switch.keys(), (ROOM - room as u32, ROOM));
    assert_eq!(copying(&world), (0, room));
    // The other part is given up, too.
    assert_eq!(bring(&mut world, upper), []);
    assert_eq!(world.due_in(JOINER), Some(FAR));
    assert!(names.iter().all(|name| !has(&world, name)));
    tell(&mut world, CONTROLLER, &joiner(GROUP, 1));
    is_placed(&world.take_only(kind::chain::PLACED), CONTROLLER, &refused);
}

#[test]
fn who_is_told_again_of_a_pass_says_that_it_has_all_once_it_has() {
    let mut world = begun(1);
    let names = fill(&mut world, GROUP, 2);
    let told = joiner(GROUP, 5);
    tell(&mut world, CONTROLLER, &told);
    let question = world.take_only(kind::chain::FETCH);
    tell(&mut world, CONTROLLER, &told);
    assert_eq!(world.take(), [], "it is under way");
    let question = bring_many(&mut world, question, 2);
    is_placed(&only(bring(&mut world, question)), CONTROLLER, &told);
    // To whoever asks.
    tell(&mut world, ANOTHER_CONTROLLER, &told);
    is_placed(&world.take_only(kind::chain::PLACED), ANOTHER_CONTROLLER, &told);
    // What is said of an earlier pass comes late.
    tell(&mut world, CONTROLLER, &joiner(GROUP, 4));
    assert_eq!(world.take(), []);
    assert!(names.iter().all(|name| has(&world, name)));
    assert_eq!(copying(&world), (0, 2));
}

#[test]
fn each_pass_begins_with_nothing() {
    let mut world = begun(1);
    let names = fill(&mut world, GROUP, 3);
    let question = join(&mut world, GROUP);
    bring_many(&mut world, question.clone(), 2);
    for next in [joiner(GROUP, 2), Placement { epoch: EPOCH + 1, ..joiner(GROUP, 1) }] {
        assert!(has(&world, &names[0]) && has(&world, &names[1]));
        tell(&mut world, CONTROLLER, &next);
        assert!(names.iter().all(|name| !has(&world, name)));
        let first = world.take_only(kind::chain::FETCH);
        assert_eq!(after(&first), None);
        assert!(first.copied().nonce > question.copied().nonce);
        // An earlier pass is not begun again.
        tell(&mut world, CONTROLLER, &joiner(GROUP, 1));
        assert_eq!(world.take(), []);
        bring_many(&mut world, first, 2);
    }
}

#[test]
fn only_the_tail_of_a_group_lets_it_be_copied() {
    let mut world = begun(1);
    let names = fill(&mut world, GROUP, 1);
    let question = join(&mut world, GROUP);
    let place = |epoch, next| Place { epoch, previous: switch(OTHER), next };
    for place in [place(0, 0), place(EPOCH, switch(OTHER))] {
        world.seats[SOURCE].switch.set_place(GROUP, SPACE, place);
        assert_eq!(answers(&mut world, question.clone()), []);
    }
    // Not the head has to be it.
    world.seats[SOURCE].switch.set_place(GROUP, SPACE, place(EPOCH, 0));
    assert_eq!(after(&only(bring(&mut world, question))), of(&names[0]));
}

#[test]
fn what_the_source_has_no_value_for_is_copied_without() {
    let mut world = begun(1);
    let names = fill(&mut world, GROUP, 1);
    let deleted = world.delete(1, &names[0]).expect("it is there");
    let question = join(&mut world, GROUP);
    let pieces = answers(&mut world, question);
    let value = pieces[1].copied();
    assert_eq!((value.flags, value.length, value.owner, pieces[1].header().count), (0, 0, 0, 0));
    world.deliver_all(pieces);
    assert_eq!(world.contents(&names[0])[JOINER], Some(Content::nothing(deleted)));
}
