//! One request, from its first packet to its answer.

use crate::bench::{AFTER, BASE, BEFORE, FIRST, HEAD, MOST, OWN, TAIL, World, key_in, named, value};
use wayside_protocol::chain::{Answer, Ask, Condition, Ended, Told, Value, Version, Wish};
use wayside_protocol::{Ends, RequestId};
use wayside_wire::{Condition as Kind, Effect, Header, Operation, Outcome, kind, limits, value_flag};

const ROOM: usize = limits::MAX_VALUE_BYTES / limits::BLOCK_BYTES;
const LEASED: u16 = value_flag::LEASED;
const PRESENT: u16 = value_flag::PRESENT;

#[test]
fn a_packet_says_what_is_wished_and_has_room_for_any_value_that_may_be_answered() {
    let [short, long] = [value(&[0xab; 40]), value(&[0xcd; limits::MAX_VALUE_BYTES])];
    let version = Condition::Version(Version { epoch: 3, sequence: 9 });
    let plain = (Kind::None, 0, 0);
    let [read, write, delete] = [kind::chain::READ, kind::chain::WRITE, kind::chain::DELETE];
    // Kind, flags, condition, value, blocks of the first packet.
    let cases = [
        (Wish::Read, read, 0, plain, Value::default(), ROOM),
        (Wish::Write(Value::default(), Condition::Always), write, 0, plain, Value::default(), 0),
        (Wish::Write(short, Condition::Always), write, 0, plain, short, 2),
        (Wish::Write(long, Condition::Always), write, 0, plain, long, ROOM),
        (Wish::Lease(short, Condition::Always), write, LEASED, plain, short, 2),
        (Wish::Lease(short, Condition::Absent), write, LEASED, (Kind::Absent, 0, 0), short, ROOM),
        (Wish::Write(short, version), write, 0, (Kind::Version, 3, 9), short, ROOM),
        (Wish::Write(short, Condition::Word(8)), write, 0, (Kind::Word, 0, 8), short, ROOM),
        (Wish::Delete(Condition::Always), delete, 0, plain, Value::default(), ROOM),
        (Wish::Delete(version), delete, 0, (Kind::Version, 3, 9), Value::default(), ROOM),
    ];
    let key = key_in(1, 2);
    for (wish, of, flags, (condition, expected_epoch, expected), content, blocks) in cases {
        let mut world = World::knowing(2);
        let id = world.with(|client, link| client.ask(link, &Ask { key, wish, deadline: None, port: 9 }));
        let operation = Operation {
            key_high: key.high,
            key_low: key.low,
            check: key.check,
            request: id.0,
            expected,
            expected_epoch,
            condition: condition as u8,
            group: BASE + 1,
            client: OWN,
            reply_port: 9,
            length: content.bytes().len() as u16,
            flags,
            ..Operation::default()
        };
        let asked = if of == read { TAIL } else { HEAD };
        // Sent again it has all the room that there is: its first answer may have been that it had too little.
        for (blocks, pause) in [(blocks, FIRST), (ROOM, 2 * FIRST)] {
            let packet = world.packet();
            assert_eq!((packet.header.kind, packet.header.epoch), (of, 1));
            assert_eq!((packet.to, packet.port), (Some(Ends { asked, answers: TAIL }), 9));
            assert_eq!(packet.operation(), operation, "{wish:?}");
            let mut expected = content.bytes().to_vec();
            expected.resize(blocks * limits::BLOCK_BYTES, 0);
            assert_eq!(packet.blocks(), expected, "{wish:?}");
            assert_eq!(world.due_in(), Some(pause));
            world.soil_frames();
            world.go_on();
        }
    }
}

#[test]
fn a_packet_shows_nothing_of_those_before_it() {
    let mut world = World::knowing(1);
    world.soil_frames();
    world.read(b"name");
    assert!(world.packet().blocks().iter().all(|&byte| byte == 0));
    let id = world.write();
    world.answer(id.0, Outcome::Missing);
    world.soil_frames();
    world.insert(id, b"name");
    let insert = world.packet();
    assert_eq!(insert.blocks(), [&b"name"[..], &[0; 28]].concat());
}

#[test]
fn pauses_double_up_to_the_longest() {
    let mut world = World::knowing(1);
    world.read(b"name");
    world.packets();
    let (mut due, mut at) = (Vec::new(), FIRST);
    for doubled in 1..12 {
        due.push(at);
        at += (FIRST << doubled).min(MOST);
    }
    let times = world.times(at - 1);
    let reads = times.iter().filter(|(_, kind)| *kind == kind::chain::READ);
    assert_eq!(reads.map(|(at, _)| *at).collect::<Vec<_>>(), due);
}

#[test]
fn a_request_ends_at_its_deadline_whether_or_not_it_has_been_sent_again() {
    for micros in [FIRST - 1, FIRST, FIRST + 1, 3 * FIRST] {
        let mut world = World::knowing(1);
        let id = world.ask_for(Wish::Read, named(b"name"), micros);
        world.packets();
        let times = world.times(micros - 1);
        assert_eq!(times.len(), usize::from(micros > FIRST));
        assert_eq!((world.told(), world.due_in()), (vec![], Some(1)));
        world.go_on();
        assert_eq!(world.told(), [(id, Told::TimedOut)]);
        assert_eq!((world.packets().len(), world.due_in()), (0, None));
        // What comes later is nobody's.
        world.answer(id.0, Outcome::Done);
        assert_eq!((world.told(), world.taken(id)), (vec![], None));
    }
}

#[test]
fn a_key_that_is_missing_is_made_by_its_name_and_the_same_write_goes_on() {
    let mut world = World::knowing(1);
    let wish = Wish::Lease(value(b"content"), Condition::Absent);
    let id = world.ask(wish, named(b"name"));
    let write = world.packet();
    world.times(3 * FIRST);
    world.answer(id.0, Outcome::Missing);
    assert_eq!(world.told(), [(id, Told::Unnamed)]);
    assert_eq!(world.due_in(), None, "whoever asked knows the name");
    world.answer(id.0, Outcome::Missing);
    assert_eq!((world.told(), world.packets().len()), (vec![], 0), "it has been told so");

    world.insert(id, b"name");
    let insert = world.packet();
    assert_eq!((insert.header.kind, insert.header.epoch), (kind::chain::INSERT, 1));
    assert_eq!(insert.to, Some(Ends { asked: HEAD, answers: TAIL }));
    let request = insert.operation().request;
    assert!(request > id.0, "a request of its own");
    assert_eq!(insert.operation(), Operation { request, length: 4, ..write.operation() });
    assert_eq!(insert.blocks().len(), limits::BLOCK_BYTES);
    world.insert(id, b"other");
    assert_eq!(world.packets().len(), 0, "it has its name");
    // To whoever was silent before, this is another question.
    assert_eq!(world.due_in(), Some(FIRST));
    world.go_on();
    assert_eq!(world.packet().operation(), insert.operation());

    // The write's own answer is late, and says nothing that is not known.
    world.answer(id.0, Outcome::Missing);
    world.answer(id.0, Outcome::Done);
    assert_eq!((world.told(), world.packets().len()), (vec![], 0));
    world.answer(request, Outcome::Done);
    let again = world.packet();
    assert_eq!((again.header.kind, again.operation()), (kind::chain::WRITE, write.operation()));
    assert_eq!(world.due_in(), Some(FIRST));
    world.answer(request, Outcome::Done);
    assert_eq!((world.told(), world.packets().len()), (vec![], 0));

    // The key has left in between: its name is known.
    world.answer(id.0, Outcome::Missing);
    let insert = world.packet();
    assert_eq!((world.told(), insert.header.kind), (vec![], kind::chain::INSERT));
    assert_eq!(&insert.blocks()[..4], b"name");
    assert!(insert.operation().request > request, "a late answer to the former one is not its");
    world.answer(request, Outcome::Done);
    assert_eq!(world.packets().len(), 0);
    world.answer(insert.operation().request, Outcome::Done);
    assert_eq!(world.packet().operation(), write.operation());
    world.answer(id.0, Outcome::Done);
    assert_eq!(world.told(), [(id, Told::Answered)]);
    assert_eq!((world.ended(id), world.due_in()), (Some(Ended::Done), None));
}

#[test]
fn a_key_that_could_not_be_made_ends_the_write() {
    for (outcome, ended) in [(Outcome::Full, Ended::Full), (Outcome::Collision, Ended::Collision)] {
        let mut world = World::knowing(1);
        let id = world.write();
        world.answer(id.0, Outcome::Missing);
        world.packets();
        world.insert(id, b"name");
        let insert = world.packet().operation().request;
        world.answer(insert, outcome);
        assert_eq!(world.told(), [(id, Told::Unnamed), (id, Told::Answered)]);
        assert_eq!(world.ended(id), Some(ended));
        assert_eq!(world.due_in(), None);
    }
}

#[test]
fn what_was_not_asked_yet_is_not_answered() {
    let mut world = World::new();
    let id = world.read(b"name");
    world.answer(id.0, Outcome::Done);
    assert_eq!((world.told(), world.taken(id)), (vec![], None));
    // Neither is what nobody knows.
    world.tell(1, BEFORE);
    world.answer(id.0 + 1, Outcome::Done);
    world.answer_with(Header::default(), Effect { request: id.0, outcome: 99, ..Effect::default() }, b"");
    assert_eq!((world.told(), world.taken(id)), (vec![], None));
    world.answer(id.0, Outcome::Done);
    assert_eq!(world.told(), [(id, Told::Answered)]);
}

#[test]
fn a_packet_without_room_is_sent_again_at_once_with_all_that_there_is() {
    let mut world = World::knowing(1);
    let id = world.write();
    assert_eq!(world.packet().header.count, 0);
    world.wait(1_000);
    world.answer(id.0, Outcome::NoRoom);
    assert_eq!(usize::from(world.packet().header.count), ROOM);
    assert_eq!(world.due_in(), Some(FIRST), "its pause begins anew, and nothing else is due");
}

#[test]
fn who_is_to_ask_later_does_so_by_the_pause() {
    let mut world = World::knowing(1);
    let id = world.read(b"name");
    world.packets();
    for outcome in [Outcome::Recovering, Outcome::Reset] {
        world.answer(id.0, outcome);
        assert_eq!((world.told(), world.packets().len(), world.due_in()), (vec![], 0, Some(FIRST)));
    }
}

#[test]
fn the_map_is_asked_where_a_group_has_moved_to_unless_it_has_told_so() {
    let mut world = World::knowing(1);
    let id = world.read(b"name");
    world.packets();
    // As its chain is: another head or tail, which the map would not have either.
    world.answer_of(1, id.0, Outcome::Moved);
    assert_eq!(world.packets().len(), 0);
    world.answer_of(2, id.0, Outcome::Moved);
    assert_eq!(world.pages(), [0]);
    world.map(1, 2, AFTER, AFTER);
    assert_eq!(world.due_in(), Some(0));
    world.go_on();
    assert_eq!(world.sent(), [(kind::chain::READ, Some(AFTER))]);
    world.answer_of(2, id.0, Outcome::Moved);
    assert_eq!(world.packets().len(), 0);
}

#[test]
fn a_write_says_under_which_epoch_it_was_first_sent_if_that_is_over() {
    let mut world = World::new();
    let id = world.write();
    for (epoch, first) in [(5, 0), (7, 5), (8, 5)] {
        world.packets();
        world.map(1, epoch, HEAD, TAIL);
        world.tick();
        let packet = world.packet();
        assert_eq!((packet.header.epoch, packet.operation().first_epoch), (epoch, first));
        world.answer_of(epoch + 1, id.0, Outcome::Moved);
    }
}

/// An item at version 2.9, whose value is `item`.
fn item(request: RequestId, outcome: Outcome, own: u64, flags: u16) -> Effect {
    Effect {
        request: request.0,
        outcome: outcome as u8,
        epoch: 2,
        sequence: 9,
        own_epoch: 2,
        own_sequence: own,
        length: 4,
        flags,
        owner: 1,
        ..Effect::default()
    }
}

#[test]
fn an_answer_shows_the_value_that_was_read_or_met_and_no_other() {
    let write = Wish::Write(value(b"mine"), Condition::Absent);
    let both = PRESENT | LEASED;
    // The version that is the request's own; then: whether a value is shown, whether it is leased.
    let cases = [
        (Wish::Read, Outcome::Done, 9, PRESENT, Ended::Done, true, false),
        (Wish::Read, Outcome::Done, 9, both, Ended::Done, true, true),
        (Wish::Read, Outcome::Done, 9, LEASED, Ended::Done, false, true),
        (Wish::Read, Outcome::Done, 9, 0, Ended::Done, false, false),
        (Wish::Read, Outcome::Missing, 9, both, Ended::Done, false, true),
        (write, Outcome::Done, 9, PRESENT, Ended::Done, false, false),
        (write, Outcome::Done, 9, both, Ended::Done, false, true),
        (write, Outcome::Unmet, 9, PRESENT, Ended::Unmet, true, false),
        (write, Outcome::Unmet, 9, both, Ended::Unmet, true, true),
        // The item has gone on since: this is another's value.
        (write, Outcome::Unmet, 8, both, Ended::Unmet, false, false),
        (write, Outcome::Done, 8, both, Ended::Done, false, false),
        (write, Outcome::Full, 9, PRESENT, Ended::Full, false, false),
        (write, Outcome::Unsure, 9, PRESENT, Ended::Unsure, false, false),
        (write, Outcome::Collision, 9, PRESENT, Ended::Collision, false, false),
    ];
    for (wish, outcome, own, flags, ended, shows, is_leased) in cases {
        let mut world = World::knowing(1);
        let id = world.ask(wish, named(b"name"));
        let header = Header { epoch: 2, position: OWN, ..Header::default() };
        world.answer_with(header, item(id, outcome, own, flags), b"item");
        assert_eq!(world.told(), [(id, Told::Answered)]);
        let answer = Answer {
            ended,
            version: Version { epoch: 2, sequence: own },
            value: shows.then(|| value(b"item")),
            is_leased,
            is_own: is_leased && outcome != Outcome::Missing,
            is_shown: own == 9,
        };
        assert_eq!(world.taken(id), Some(answer), "{wish:?} {outcome:?} {own} {flags}");
        assert_eq!(world.taken(id), None, "it was taken");
    }
}

#[test]
fn a_lease_is_known_to_be_of_this_session_or_of_another() {
    // Of handle and low half of the incarnation.
    for (handle, owner, expected) in [(OWN, 1, true), (8, 1, false), (OWN, 2, false)] {
        let mut world = World::knowing(1);
        let id = world.read(b"name");
        let effect = Effect { owner, ..item(id, Outcome::Done, 9, PRESENT | LEASED) };
        world.answer_with(Header { position: handle, ..Header::default() }, effect, b"item");
        let answer = world.taken(id).expect("it is answered");
        assert!(answer.is_leased);
        assert_eq!(answer.is_own, expected, "{handle} {owner}");
    }
}

#[test]
fn what_happens_is_told_in_the_order_in_which_it_did() {
    let mut world = World::knowing(1);
    let [first, second, third, fourth] = [(); 4].map(|()| world.write());
    let last = world.ask_for(Wish::Read, named(b"name"), FIRST - 1);
    world.answer(second.0, Outcome::Done);
    world.answer(fourth.0, Outcome::Missing);
    world.answer(first.0, Outcome::Done);
    world.go_on();
    world.answer(third.0, Outcome::Done);
    let expected = [
        (second, Told::Answered),
        (fourth, Told::Unnamed),
        (first, Told::Answered),
        (last, Told::TimedOut),
        (third, Told::Answered),
    ];
    assert_eq!(world.told(), expected);
}
