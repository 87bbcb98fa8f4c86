//! Watches: what is asked when, and what they have seen.

use crate::bench::{AFTER, BASE, BEFORE, FIRST, HEAD, OWN, TAIL, World, change_to, key_in, named, value, watching};
use wayside_protocol::Ends;
use wayside_protocol::chain::{Change, Glance, Scope, Seen, Version, WatchId};
use wayside_wire::{Change as Told, Outcome, Part, Scope as Kind, Watch, kind, limits};

/// What may wait to be taken before a watch asks no further.
const SEEN_MOST: u64 = 1_024;

/// The only question that was sent.
#[track_caller]
fn question(world: &mut World) -> Watch {
    let packet = world.packet();
    assert_eq!(packet.header.kind, kind::chain::WATCH);
    packet.question()
}

/// A watch of the only group, from position 1 of history 9 on; its question.
fn positioned() -> (World, WatchId, Watch) {
    let mut world = World::knowing(1);
    let (id, asked) = watch_of_key(&mut world);
    world.event(&asked, Outcome::Done, 1, None);
    assert_eq!(world.told_watches(), [id]);
    let asked = question(&mut world);
    (world, id, asked)
}

fn watch_of_key(world: &mut World) -> (WatchId, Watch) {
    let id = world.watch_of(Scope::Key(named(b"name")));
    (id, question(world))
}

#[test]
fn a_question_names_its_group_its_position_and_what_is_watched() {
    let key = key_in(2, 3);
    let cases =
        [(Scope::Key(key), Kind::Key, &b""[..]), (Scope::Prefix((*b"config/").into()), Kind::Prefix, &b"config/"[..])];
    for (scope, of, prefix) in cases {
        let mut world = World::knowing(3);
        world.soil_frames();
        let id = world.watch_of(scope);
        let packet = world.packet();
        let group = if of == Kind::Key { 2 } else { 0 };
        let (high, low, check) = if of == Kind::Key { (key.high, key.low, key.check) } else { (0, 0, 0) };
        let request = packet.question().request;
        let expected = Watch {
            key_high: high,
            key_low: low,
            check,
            request,
            scope: of as u8,
            group: BASE + group,
            client: OWN,
            length: prefix.len() as u16,
            ..Watch::default()
        };
        assert_eq!((packet.question(), packet.header.epoch), (expected, 1));
        assert_eq!((packet.to, packet.port), (Some(Ends { asked: TAIL, answers: TAIL }), 0));
        let mut blocks = prefix.to_vec();
        blocks.resize(limits::MAX_BLOCKS * limits::BLOCK_BYTES, 0);
        assert_eq!(packet.blocks(), blocks, "as long as its answer may be, and nothing of packets before");
        world.event(&packet.question(), Outcome::Done, 4, None);
        assert_eq!(world.told_watches(), [id]);
    }
}

#[test]
fn all_groups_are_asked_one_after_the_other_as_far_as_they_fit_into_the_outbox() {
    let mut world = World::knowing(3);
    let id = world.watch();
    for group in 0..3 {
        // The longest packet fills it.
        assert_eq!(question(&mut world).group, BASE + group);
        assert!(!world.client.is_watching(id));
        world.tick();
    }
    assert_eq!((world.packets().len(), world.due_in()), (0, Some(FIRST)));
}

#[test]
fn who_has_watched_longer_is_asked_for_first() {
    let mut world = World::new();
    let keys = [key_in(1, 2), key_in(0, 2)];
    for key in keys {
        world.watch_of(Scope::Key(key));
    }
    assert_eq!(world.pages(), [0]);
    world.tell(1, BEFORE);
    for key in keys {
        let asked = world.asked();
        assert_eq!((asked.len(), asked[0].key_high), (1, key.high));
        world.tick();
    }
}

#[test]
fn a_question_is_repeated_and_every_third_without_an_answer_asks_where_its_group_is() {
    let mut world = World::knowing(1);
    let (_, first) = watch_of_key(&mut world);
    let begun = world.now;
    let mut sent = Vec::new();
    while sent.iter().filter(|(_, kind)| *kind == kind::chain::WATCH).count() < 9 {
        world.go_on();
        for packet in world.packets() {
            sent.push((world.now.since(begun) / 1_000, packet.header.kind));
            if packet.header.kind == kind::chain::MAP {
                world.map(1, 1, HEAD, TAIL);
            } else {
                assert_eq!(packet.question(), first, "the same question");
            }
        }
    }
    let mut expected = Vec::new();
    // Of the repetitions the second is the third question.
    for (nth, at) in [5, 15, 35, 75, 155, 315, 635, 1_135, 1_635].into_iter().enumerate() {
        expected.push((at, kind::chain::WATCH));
        if nth % 3 == 1 {
            expected.push((at, kind::chain::MAP));
        }
    }
    assert_eq!(sent, expected);
    // An answer, and all begins anew: with another question, which is the first.
    world.event(&first, Outcome::Done, 1, None);
    let asked = question(&mut world);
    assert!(asked.request > first.request);
    let [watch, map] = [kind::chain::WATCH, kind::chain::MAP];
    assert_eq!(world.times(3 * FIRST), [(FIRST, watch), (3 * FIRST, watch), (3 * FIRST, map)]);
}

#[test]
fn a_switch_that_says_that_nothing_has_come_is_not_silent() {
    let (mut world, _, asked) = positioned();
    assert_eq!(world.times(FIRST), [(FIRST, kind::chain::WATCH)]);
    world.event(&asked, Outcome::Done, 2, None);
    // It would be the third without an answer.
    assert_eq!(world.times(2 * FIRST), [(2 * FIRST, kind::chain::WATCH)]);
}

#[test]
fn a_watch_that_waits_is_repeated_from_where_it_has_come_to() {
    let (mut world, id, asked) = positioned();
    world.event(&asked, Outcome::Done, 77, None);
    assert_eq!((world.told_watches(), world.glance(id)), (vec![], Glance::Waiting));
    world.go_on();
    assert_eq!(question(&mut world), Watch { number: 77, ..asked });
}

#[test]
fn what_is_told_of_another_history_or_to_a_former_question_tells_nothing() {
    let (mut world, id, asked) = positioned();
    world.event_of(Watch { history: 8, number: 5, ..asked }, &[(change_to(5), b"k", b"")]);
    assert_eq!((world.told_watches(), world.seen(id)), (vec![], vec![]));
    world.event(&asked, Outcome::Done, 6, Some(6));
    assert_eq!(world.told_watches(), [id]);
    let next = question(&mut world);
    assert_eq!((next.history, next.number), (9, 6));
    world.event(&asked, Outcome::Done, 7, Some(7));
    assert_eq!((world.told_watches(), world.seen(id)), (vec![], vec![6]));
}

#[test]
fn a_change_is_seen_with_its_name_and_a_long_name_comes_in_pieces_before_it() {
    let mut world = World::knowing(1);
    let id = world.watch();
    let mut asked = question(&mut world);
    let (long, rest) = ([b'l'; 40], [b'r'; 33]);
    let piece = Told { part: Part::Name as u8, ..Told::default() };
    let told = Told { before_epoch: 1, before_sequence: 2, ..change_to(3) };
    let gone = Told { flags: 0, before_epoch: 1, before_sequence: 3, ..change_to(4) };
    let event = |asked: &Watch, number| Watch { outcome: Outcome::Done as u8, history: 9, number, ..*asked };
    for (number, changes) in [
        (1, vec![(piece, &long[..], &b""[..])]),
        (2, vec![(piece, &rest, b"")]),
        (3, vec![(told, b"end", b"content"), (gone, b"", b"")]),
    ] {
        world.event_of(event(&asked, number), &changes);
        asked = question(&mut world);
    }
    let version = |sequence| Version { epoch: 1, sequence };
    let name = [&long[..], &rest, b"end"].concat();
    let first =
        Change { name: Some(name.into()), version: version(3), before: version(2), value: Some(value(b"content")) };
    let second = Change { name: None, version: version(4), before: version(3), value: None };
    for change in [first, second] {
        assert_eq!(world.glance(id), Glance::Seen(Seen::Change(change)));
    }
    // A piece whose rest was lost belongs to nothing that comes later.
    world.event_of(event(&asked, 4), &[(piece, b"lost", b"")]);
    let asked = question(&mut world);
    world.event(&asked, Outcome::Reset, 8, None);
    let asked = question(&mut world);
    assert_eq!((asked.history, asked.number), (9, 8));
    world.event(&asked, Outcome::Done, 9, Some(9));
    assert_eq!(world.glance(id), Glance::Seen(Seen::Reread));
    let Glance::Seen(Seen::Change(change)) = world.glance(id) else { panic!("it was told") };
    assert_eq!(change.name.as_deref(), Some(&b"k"[..]));
}

#[test]
fn a_watch_asks_no_further_while_nobody_takes_what_it_has_seen() {
    let (mut world, id, mut asked) = positioned();
    let most = 15;
    for sequence in (1..SEEN_MOST).step_by(most) {
        let count = (SEEN_MOST - sequence).min(most as u64);
        let changes: Vec<_> = (sequence..sequence + count).map(|at| (change_to(at), &b"k"[..], &b""[..])).collect();
        let event = Watch { outcome: Outcome::Done as u8, number: sequence + count, ..asked };
        world.event_of(event, &changes);
        asked = question(&mut world);
    }
    world.event(&asked, Outcome::Done, SEEN_MOST + 1, Some(SEEN_MOST));
    assert_eq!((world.packets().len(), world.due_in()), (0, None));
    // Not even if its chain is another.
    world.becomes(1, 2, AFTER);
    assert_eq!((world.packets().len(), world.due_in()), (0, None));
    assert!(matches!(world.glance(id), Glance::Seen(Seen::Change(change)) if change.version.sequence == 1));
    let next = question(&mut world);
    assert!(next.request > asked.request);
    assert_eq!(next.number, SEEN_MOST + 1);
    assert!(matches!(world.glance(id), Glance::Seen(Seen::Change(change)) if change.version.sequence == 2));
    assert_eq!((world.packets().len(), world.due_in()), (0, Some(FIRST)), "it has been asked");
}

#[test]
fn a_group_whose_chain_becomes_another_is_asked_again_at_once() {
    let mut world = World::new();
    let (_, asked) = watching(&mut world);
    let id = world.read(b"name");
    world.answer_of(2, id.0, Outcome::Moved);
    world.cancel(id);
    world.packets();
    world.map_page(0, 2, &[(1, BEFORE, BEFORE), (2, AFTER, AFTER)]);
    let packet = world.packet();
    assert_eq!((packet.header.epoch, packet.asked()), (2, Some(AFTER)));
    let moved = asked.iter().find(|asked| asked.group == BASE + 1).expect("both are asked");
    assert_eq!(packet.question(), *moved, "the same question");
}

#[test]
fn whatever_a_question_is_answered_the_map_says_where_its_group_is() {
    let (mut world, id, asked) = positioned();
    for outcome in [Outcome::Moved, Outcome::Recovering] {
        world.answer(asked.request, outcome);
        assert_eq!(world.pages(), [0]);
        world.map(1, 1, HEAD, TAIL);
        assert_eq!(world.packets().len(), 0, "it is where it was: its timer asks again");
    }
    assert_eq!(world.due_in(), Some(FIRST));
    world.client.unwatch(id);
    assert_eq!((world.glance(id), world.due_in()), (Glance::Ended, None));
    world.answer(asked.request, Outcome::Moved);
    world.event(&asked, Outcome::Done, 2, Some(2));
    assert_eq!((world.packets().len(), world.told_watches()), (0, vec![]), "that is nobody's any more");
}

#[test]
fn watches_are_told_of_in_the_order_in_which_they_saw_something() {
    let mut world = World::knowing(1);
    let watches = [(); 3].map(|()| watch_of_key(&mut world));
    for (_, asked) in [watches[2], watches[0], watches[1]] {
        world.event(&asked, Outcome::Done, 1, None);
    }
    assert_eq!(world.told_watches(), [watches[2].0, watches[0].0, watches[1].0]);
}

#[test]
fn whoever_waits_for_a_watch_is_told_when_nothing_came_in_time() {
    let mut world = World::new();
    let ids = [(); 3].map(|()| world.watch());
    world.client.lose_everything();
    world.packets();
    let begun = world.now;
    for (&id, micros) in ids.iter().zip([20_000, 10_000, 10_000]) {
        world.client.await_watch(id, begun + micros);
    }
    // Without a session, too.
    assert_eq!(world.due_in(), Some(10_000));
    world.go_on();
    assert_eq!(world.told_watches(), [ids[1], ids[2]]);
    assert_eq!(ids.map(|id| world.glance(id)), [Glance::Waiting, Glance::TimedOut, Glance::TimedOut]);
    world.client.await_watch(ids[1], begun + 30_000);
    assert_eq!((world.glance(ids[1]), world.due_in()), (Glance::Waiting, Some(10_000)));
    world.client.unwatch(ids[0]);
    assert_eq!(world.due_in(), Some(20_000));
    world.go_on();
    assert_eq!((world.told_watches(), world.due_in(), world.packets().len()), (vec![ids[1]], None, 0));
}

#[test]
fn whoever_waits_is_told_in_time_while_questions_wait_for_their_session() {
    let (mut world, id, _) = positioned();
    world.client.lose_everything();
    world.client.await_watch(id, world.now + 10_000);
    assert_eq!(world.due_in(), Some(10_000));
    world.go_on();
    assert_eq!((world.told_watches(), world.packets().len(), world.due_in()), (vec![id], 0, None));
}

#[test]
fn the_next_session_goes_on_from_the_same_position_with_a_question_of_its_own() {
    let (mut world, id, asked) = positioned();
    world.client.lose_everything();
    world.client.start(2, 1);
    assert_eq!(world.due_in(), Some(0));
    world.tick();
    assert_eq!(world.sent(), [(kind::chain::MAP, None)]);
    assert!(world.client.is_watching(id), "until the map says something else");
    world.event(&asked, Outcome::Done, 5, Some(5));
    assert_eq!((world.told_watches(), world.glance(id)), (vec![], Glance::Waiting), "that was the former session's");
    world.map(1, 1, BEFORE, BEFORE);
    let next = question(&mut world);
    assert_eq!(next.request >> 40, 2);
    assert_eq!(next, Watch { request: next.request, ..asked });
    world.event(&asked, Outcome::Done, 5, Some(5));
    assert_eq!((world.told_watches(), world.glance(id)), (vec![], Glance::Waiting));
    world.event(&next, Outcome::Done, 5, Some(5));
    assert_eq!((world.told_watches(), world.seen(id)), (vec![id], vec![5]));
}

#[test]
fn a_session_that_has_begun_takes_watches_wherever_they_are() {
    // Positioned, and not even told where its group is.
    let (mut before, id, asked) = positioned();
    let mut world = World::knowing(1);
    world.client.take_watches(before.client.leave_watches());
    assert_eq!((before.glance(id), before.due_in()), (Glance::Ended, None));
    assert_eq!(world.due_in(), Some(0));
    world.tick();
    let next = question(&mut world);
    assert_eq!((next.number, next.history), (asked.number, asked.history));

    let mut before = World::new();
    before.watch();
    let mut world = World::knowing(1);
    world.client.take_watches(before.client.leave_watches());
    assert_eq!(world.due_in(), Some(0));
    world.tick();
    assert_eq!(question(&mut world).history, 0);
}

#[test]
fn keys_that_are_in_other_groups_by_now_are_watched_there_and_read_again() {
    for count in [1, 3] {
        let mut world = World::knowing(2);
        let watches: Vec<WatchId> = (0..count).map(|_| world.watch()).collect();
        let mut asked = Vec::new();
        while asked.len() < 2 * count {
            for question in world.asked() {
                match question.history {
                    0 => world.event(&question, Outcome::Done, 1, None),
                    _ => asked.push(question),
                }
            }
            world.tick();
        }
        world.told_watches();
        world.packets();
        world.becomes(4, 2, AFTER);
        assert_eq!(world.told_watches(), watches);
        let next = question(&mut world);
        // What the former groups say now is late.
        asked.iter().for_each(|asked| world.event(asked, Outcome::Done, 2, Some(2)));
        assert_eq!(world.told_watches(), []);
        for &id in &watches {
            assert_eq!((world.seen(id), world.client.is_watching(id)), (vec![0], false));
        }
        world.event(&next, Outcome::Done, 1, None);
        assert_eq!(world.told_watches(), [watches[0]]);
    }
}

#[test]
fn between_two_losses_nothing_that_was_seen_counts_as_read_again() {
    let mut world = World::new();
    let (id, asked) = watching(&mut world);
    world.event(&asked[0], Outcome::Reset, 5, None);
    let next = world.asked().pop().unwrap();
    world.event(&next, Outcome::Done, 6, Some(5));
    let next = world.asked().pop().unwrap();
    world.event(&next, Outcome::Reset, 9, None);
    assert_eq!(world.seen(id), [0, 5, 0]);
    // Of two that are lost at once one word is enough.
    let next = world.asked().pop().unwrap();
    world.event(&next, Outcome::Reset, 12, None);
    world.event(&asked[1], Outcome::Reset, 7, None);
    assert_eq!(world.seen(id), [0]);
}

#[test]
fn a_watch_is_of_all_groups_that_there_are_by_now() {
    let mut world = World::new();
    let (id, _) = watching(&mut world);
    // Another session, at a switch that keeps keys in four groups.
    let watches = world.client.leave_watches();
    world.client.lose_everything();
    world.client.take_watches(watches);
    world.client.start(2, 1);
    world.with(|client, link| client.on_tick(link));
    world.map(4, 1, BEFORE, BEFORE);
    let mut groups = Vec::new();
    while groups.len() < 4 {
        groups.extend(world.asked().iter().map(|asked| asked.group));
        world.with(|client, link| client.on_tick(link));
    }
    groups.sort_unstable();
    assert_eq!(groups, [16, 17, 18, 19]);
    assert!(!world.client.is_watching(id), "none of them has said where it is");
    assert_eq!(world.seen(id), [0]);
}

#[test]
fn a_switch_without_room_is_asked_again_while_watches_that_were_ended_may_be_in_the_way() {
    let mut world = World::new();
    let (id, _) = watching(&mut world);
    world.client.unwatch(id);
    let next = world.watch();
    let begun = world.now;
    let mut refused = 0;
    while world.glance(next) == Glance::Waiting {
        for asked in world.asked() {
            world.event(&asked, Outcome::Full, 0, None);
            refused += 1;
        }
        world.wait(20_000);
        assert!(world.now < begun + 10_000_000, "for ever");
    }
    assert_eq!(world.glance(next), Glance::Refused, "somebody else has them");
    assert!(world.now >= begun + 2_000_000 && (10..100).contains(&refused), "{refused}");

    // As soon as there is room it goes on.
    world.client.unwatch(next);
    let last = world.watch();
    for asked in world.asked() {
        world.event(&asked, Outcome::Full, 0, None);
    }
    while !world.client.is_watching(last) {
        world.wait(20_000);
        for asked in world.asked().iter().filter(|asked| asked.history == 0) {
            world.event(asked, Outcome::Done, 1, None);
        }
    }
    assert_eq!(world.glance(last), Glance::Waiting);
}

#[test]
fn what_a_switch_without_room_is_asked_then_is_another_question_until_it_must_have_forgotten() {
    const FORGETTING: u64 = 2_000_000;
    const ROOM_PAUSE: u64 = 100_000;
    let (mut world, former, _) = positioned();
    world.client.unwatch(former);
    let (id, asked) = watch_of_key(&mut world);
    // The answer is slow.
    world.now = world.now + (FORGETTING - ROOM_PAUSE);
    world.event(&asked, Outcome::Full, 0, None);
    assert_eq!((world.told_watches(), world.glance(id)), (vec![], Glance::Waiting));
    assert_eq!((world.packets().len(), world.due_in()), (0, Some(ROOM_PAUSE)));
    world.event(&asked, Outcome::Done, 1, None);
    assert!(!world.client.is_watching(id), "it has been answered");
    world.go_on();
    let next = question(&mut world);
    assert!(next.request > asked.request);
    assert_eq!(world.due_in(), Some(FIRST));
    world.event(&next, Outcome::Full, 0, None);
    assert_eq!((world.told_watches(), world.glance(id)), (vec![id], Glance::Refused));
    assert_eq!((world.packets().len(), world.due_in()), (0, None));
}

#[test]
fn a_watch_that_was_ended_may_be_in_the_way_of_one_that_was_asked_for_before() {
    let (mut world, former, _) = positioned();
    let (id, asked) = watch_of_key(&mut world);
    world.client.unwatch(former);
    world.event(&asked, Outcome::Full, 0, None);
    assert_eq!((world.told_watches(), world.glance(id)), (vec![], Glance::Waiting));
}
