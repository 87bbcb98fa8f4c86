//! What an answer has room for.

use super::*;

use wayside_protocol::chain::Watched;

/// Bytes of a name's piece.
const PIECE: usize = 480;

#[test]
fn an_answer_tells_as_much_as_its_question_has_room_for() {
    let mut world = World::new(1);
    let question = Question::of_key("a");
    let position = world.begin(&question);
    let long = [7; limits::MAX_VALUE_BYTES];
    world.take("a", 1, Some(&long));
    world.take("a", 2, None);
    world.take("b", 3, None);
    world.take("a", 4, Some(b"x"));
    let at = |changes: u64| (position.0, position.1 + changes * CHANGE);
    // A change and four blocks of value; the next one has another block.
    let cases =
        [(5, vec![1], 1), (6, vec![1, 2], 3), (7, vec![1, 2], 3), (8, vec![1, 2, 4], 4), (16, vec![1, 2, 4], 4)];
    for (room, sequences, end) in cases {
        let event = world.answer(&question.clone().from(position).with_room(room));
        let told: Vec<u64> = event.changes.iter().map(|told| told.version.sequence).collect();
        assert_eq!((told, event.position()), (sequences, at(end)), "{room} blocks");
    }
    let event = world.answer(&question.clone().from(position).with_room(5));
    assert_eq!(event.changes, [told("", 1, Some(&long))]);
}

#[test]
fn a_name_without_room_beside_its_value_is_told_in_pieces_first() {
    let mut world = World::new(1);
    let long = "n".repeat(limits::MAX_KEY_NAME_BYTES);
    let middle = format!("n{}", "m".repeat(PIECE + 19));
    world.make("n");
    world.make(&long);
    world.make(&middle);
    let question = Question::of_prefix("n");
    let position = world.begin(&question);
    let value = [7; limits::MAX_VALUE_BYTES];
    world.take("n", 1, None);
    world.take(&long, 2, Some(&value));
    world.take(&middle, 3, Some(b"x"));
    world.take("n", 4, Some(b"y"));
    let piece = |of: &str, sequence: u64| Told {
        part: Part::Name as u8,
        value: Some(Vec::new()),
        ..told(&of[..of.len().min(PIECE)], sequence, None)
    };
    let last = |of: &str, sequence, value: &[u8]| told(of, sequence, Some(value));
    // What has room is told together; what has none begins with the next answer.
    let pages = [
        (vec![told("n", 1, None)], 4),
        (vec![piece(&long, 2)], 5),
        (vec![piece(&long[PIECE..], 2)], 6),
        (vec![last("", 2, &value)], 8),
        (vec![piece(&middle, 3)], 9),
        (vec![last(&middle[PIECE..], 3, b"x"), last("n", 4, b"y")], 16),
    ];
    let mut at = position;
    for (changes, after) in pages {
        let event = world.answer(&question.clone().from(at));
        assert!(event.is(Outcome::Done));
        assert_eq!(event.changes, changes);
        assert_eq!(event.position(), (position.0, position.1 + after));
        at = event.position();
    }
    // Pieces are no changes.
    let expected = Watched { told: 4, ..Watched::default() };
    assert_eq!(world.member.watched(), expected);
    world.wait(&question.from(at));
    // Of a key that is watched itself nobody has to be told the name.
    let key = Question::of_key(&long).from(position).by(2, 1).with_room(5);
    let event = world.answer(&key);
    assert_eq!(event.changes, [told("", 2, Some(&value))]);
}

#[test]
fn what_a_question_has_no_room_for_waits_for_one_that_has() {
    let mut world = World::new(1);
    world.make("n");
    let value = [7; limits::MAX_VALUE_BYTES];
    let (key, prefix) = (Question::of_key("n"), Question::of_prefix("n"));
    let position = world.begin(&key);
    world.take("n", 1, Some(&value));
    // A block is missing.
    world.wait(&key.clone().from(position).with_room(4));
    assert_eq!(world.look(), []);
    let event = world.answer(&prefix.clone().from(position).by(2, 1).with_room(5));
    assert_eq!(event.changes, [Told { part: Part::Name as u8, value: Some(vec![]), ..told("n", 1, None) }]);
    world.wait(&prefix.clone().from(event.position()).by(2, 2).with_room(4));
    let event = world.answer(&prefix.from(event.position()).by(2, 3).with_room(5));
    assert_eq!(event.changes, [told("", 1, Some(&value))]);
    let event = world.answer(&key.from(position).by(1, 2).with_room(5));
    assert_eq!(event.changes, [told("", 1, Some(&value))]);
}
