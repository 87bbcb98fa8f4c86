//! Who asks, and who waits: for how long, and what he is told then.

use super::*;

use wayside_protocol::chain::Watched;

#[test]
fn who_watches_from_now_on_is_told_at_once_where_that_is() {
    let mut world = World::new(2);
    // Nobody noted what was taken before, and nobody asks for it.
    world.take("a", 1, Some(b"before"));
    let question = Question::of_key("a");
    let event = world.answer(&question);
    let expected = Watch { history: event.watch.history, number: FIRST, ..question.watch };
    assert_eq!(event.watch, expected);
    assert_ne!(event.watch.history, 0, "that is no history's");
    assert_eq!((event.header.epoch, event.header.namespace, event.header.count), (EPOCH, SPACE, 0));
    assert_eq!(world.noted(), [(BASE..BASE + 2, true)]);
    assert_eq!(world.member.watched(), Watched::default());
    assert_eq!(world.member.next_timer(), Time(BEGIN + LOOK));
}

#[test]
fn what_has_been_taken_since_is_told_at_once_and_told_again_to_who_asks_again() {
    let mut world = World::new(1);
    world.make("key/a");
    world.make("else");
    let (key, prefix) = (Question::of_key("key/a"), Question::of_prefix("key/"));
    let position = world.begin(&key);
    world.take("key/a", 2, Some(b"two"));
    world.take("else", 3, Some(b"three"));
    world.take("key/a", 4, None);
    let after = (position.0, position.1 + 3 * CHANGE);
    for _ in 0..2 {
        let event = world.answer(&key.clone().from(position));
        assert!(event.is(Outcome::Done));
        assert_eq!(event.position(), after);
        // The key is the one that is watched.
        assert_eq!(event.changes, [told("", 2, Some(b"two")), told("", 4, None)]);
    }
    let event = world.answer(&prefix.from(position));
    assert_eq!(event.changes, [told("key/a", 2, Some(b"two")), told("key/a", 4, None)]);
    assert_eq!(event.position(), after);
    let expected = Watched { told: 6, ..Watched::default() };
    assert_eq!(world.member.watched(), expected);
}

#[test]
fn who_watches_from_now_on_is_not_told_what_another_has_not_been_told_yet() {
    let mut world = World::new(1);
    let position = world.begin(&Question::of_key("a"));
    world.wait(&Question::of_key("a").from(position));
    world.take("a", 1, Some(b"one"));
    // The daemon has not looked into the journal since.
    let later = world.begin(&Question::of_key("a").by(2, 1));
    assert_eq!(later, (position.0, position.1 + CHANGE));
    let events = world.look();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].changes, [told("", 1, Some(b"one"))]);
}

#[test]
fn a_watch_that_waits_is_told_at_the_next_look_and_only_once() {
    let mut world = World::new(1);
    let position = world.begin(&Question::of_key("a"));
    let asked = world.now;
    world.wait(&Question::of_key("a").from(position));
    assert_eq!(world.waiting(), 1);
    // Another question does not put the look off.
    world.now += 300;
    world.wait(&Question::of_key("b").from(position).by(2, 1));
    assert_eq!(world.member.next_timer(), Time(asked + LOOK));
    assert_eq!(world.tick_at(asked + LOOK), []);
    assert_eq!(world.member.next_timer(), Time(asked + 2 * LOOK));
    world.take("a", 1, Some(b"one"));
    assert_eq!(world.tick_at(asked + 2 * LOOK - 1), [], "it is not time to look");
    let events = world.tick_at(asked + 2 * LOOK);
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].changes, [told("", 1, Some(b"one"))]);
    assert_eq!(events[0].watch.client, 1);
    assert_eq!(events[0].position(), (position.0, position.1 + CHANGE));
    assert_eq!(world.waiting(), 1, "that of the other key");
    world.take("a", 2, Some(b"two"));
    assert_eq!(world.look(), []);
    let expected = Watched { waiting: 1, told: 1, ..Watched::default() };
    assert_eq!(world.member.watched(), expected);
}

#[test]
fn a_watch_waits_for_two_seconds_and_its_namespace_is_noted_for_ten_more() {
    let (mut world, _, question) = World::with_waiting("a");
    assert_eq!(world.noted(), [(BASE..BASE + 1, true)]);
    assert_eq!(world.tick_at(BEGIN + PATIENCE - LOOK), []);
    assert_eq!(world.waiting(), 1);
    world.take("a", 1, Some(b"one"));
    assert_eq!(world.tick_at(BEGIN + PATIENCE), [], "its time is over");
    assert_eq!(world.waiting(), 0);
    // Who comes back before it is forgotten has missed nothing.
    let end = BEGIN + PATIENCE + IDLE;
    assert_eq!(world.tick_at(end - LOOK), []);
    let event = world.answer(&question);
    assert_eq!(event.changes, [told("", 1, Some(b"one"))]);
    assert_eq!(world.noted(), []);
    // That was another use of it.
    let end = end - LOOK + IDLE;
    assert_eq!(world.tick_at(end - LOOK), []);
    assert_eq!(world.noted(), []);
    assert_eq!(world.member.next_timer(), Time(end));
    assert_eq!(world.tick_at(end), []);
    assert_eq!(world.noted(), [(BASE..BASE + 1, false)]);
    assert!(world.member.next_timer() > Time(FAR), "nobody watches");
    // And then nobody knows what was taken.
    world.is_reset(&question);
    assert_eq!(world.noted(), [(BASE..BASE + 1, true)]);
    assert_eq!(world.member.watched().resets, 1);
}

#[test]
fn what_is_watched_in_one_namespace_does_not_depend_on_another() {
    let mut world = World::new(2);
    world.script.borrow_mut().sessions.insert(2, (OTHER, 7));
    let first = world.begin(&Question::of_key("a"));
    world.take("a", 1, Some(b"one"));
    let mut other = Question::of_key("b").by(2, 1).of_group(OTHER_BASE);
    other.namespace = OTHER;
    let second = world.begin(&other);
    assert_ne!(first.0, second.0, "each history has a number of its own");
    assert_eq!(world.noted(), [(BASE..BASE + 2, true), (OTHER_BASE..OTHER_BASE + 1, true)]);
    // To begin with the second was no reason to leave anything out of the first.
    let event = world.answer(&Question::of_key("a").from(first));
    assert_eq!(event.changes, [told("", 1, Some(b"one"))]);
    world.take_in(OTHER_BASE, "b", 1, Some(b"other"));
    // The first is in use when the second has been forgotten, and the other way round.
    world.tick_at(BEGIN + IDLE - LOOK);
    let event = world.answer(&Question::of_key("a").from(first));
    assert_eq!(event.changes.len(), 1);
    world.tick_at(BEGIN + IDLE);
    assert_eq!(world.noted(), [(OTHER_BASE..OTHER_BASE + 1, false)]);
    let event = world.answer(&Question::of_key("a").from(first));
    assert!(event.is(Outcome::Done));
    let second = world.is_reset(&other.clone().from(second));
    assert_eq!(world.noted(), [(OTHER_BASE..OTHER_BASE + 1, true)]);
    world.tick_at(BEGIN + 2 * IDLE - 2 * LOOK);
    assert!(world.answer(&other.clone().from(NONE)).is(Outcome::Done));
    world.tick_at(BEGIN + 2 * IDLE - LOOK);
    assert_eq!(world.noted(), []);
    world.tick_at(BEGIN + 2 * IDLE);
    assert_eq!(world.noted(), [(BASE..BASE + 2, false)]);
    world.take_in(OTHER_BASE, "b", 2, None);
    let event = world.answer(&other.from(second));
    assert_eq!(event.changes, [told("", 2, None)]);
    world.is_reset(&Question::of_key("a").from(first));
}

#[test]
fn who_asks_again_while_he_waits_is_told_only_where_it_has_come_to() {
    let (mut world, position, question) = World::with_waiting("a");
    world.take("b", 1, Some(b"not his"));
    assert_eq!(world.look(), []);
    world.now = BEGIN + PATIENCE - 1;
    let event = world.answer(&question);
    assert!(event.is(Outcome::Done) && event.changes.is_empty());
    assert_eq!(event.position(), (position.0, position.1 + CHANGE));
    assert_eq!(world.waiting(), 1);
    // He waits anew from then on, and each question is answered once.
    assert_eq!(world.look(), []);
    assert_eq!(world.tick_at(BEGIN + 2 * PATIENCE - 2), []);
    assert_eq!(world.waiting(), 1);
    world.take("a", 2, Some(b"two"));
    let event = world.answer(&question);
    assert_eq!(event.changes, [told("", 2, Some(b"two"))]);
    assert_eq!(event.position(), (position.0, position.1 + 2 * CHANGE));
    assert_eq!(world.waiting(), 0);
    // Another request of the client, or another client's of this number, is another watch.
    world.wait(&question.clone().from(event.position()));
    world.wait(&question.clone().from(event.position()).by(1, 2));
    world.wait(&question.from(event.position()).by(2, 1));
    assert_eq!(world.waiting(), 3);
}

#[test]
fn who_asks_again_while_nothing_can_be_told_is_answered_once_it_can() {
    let (mut world, position, question) = World::with_waiting("a");
    world.script.borrow_mut().serves = false;
    assert_eq!(world.ask(&question), [], "another switch may be the tail");
    assert_eq!(world.look(), []);
    world.script.borrow_mut().serves = true;
    let events = world.look();
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].position(), events[0].changes.len()), (position, 0));
    assert_eq!(world.look(), [], "it has been said");
    assert_eq!(world.waiting(), 1);
}

#[test]
fn where_the_lease_is_over_nothing_is_told_and_nothing_is_left_out_later() {
    let mut world = World::new(1);
    let position = world.begin(&Question::of_key("a"));
    world.wait(&Question::of_key("a").from(position));
    world.script.borrow_mut().serves = false;
    world.take("a", 1, Some(b"one"));
    assert_eq!(world.look(), []);
    assert_eq!(world.ask(&Question::of_key("a").by(2, 1)), []);
    assert_eq!(world.waiting(), 2);
    assert_eq!(world.member.watched().told, 0);
    world.script.borrow_mut().serves = true;
    let events = world.look();
    assert_eq!(events[0].changes, [told("", 1, Some(b"one"))]);
    // Who came meanwhile begins now.
    let after = (position.0, position.1 + CHANGE);
    assert_eq!((events[1].watch.client, events[1].position(), events[1].changes.len()), (2, after, 0));
    assert_eq!((events.len(), world.waiting()), (2, 0));
}

#[test]
fn a_watch_is_answered_to_the_session_that_asked_and_to_no_other() {
    let mut world = World::new(1);
    let position = world.begin(&Question::of_key("a"));
    for (number, session) in [None, Some((SPACE, 999)), Some((OTHER, 101))].into_iter().enumerate() {
        let number = number as u64;
        let position = (position.0, position.1 + number * CHANGE);
        world.script.borrow_mut().sessions.insert(1, (SPACE, 101));
        world.wait(&Question::of_key("a").from(position));
        match session {
            Some(session) => world.script.borrow_mut().sessions.insert(1, session),
            None => world.script.borrow_mut().sessions.remove(&1),
        };
        // It takes a place as long as nobody wants that, and nothing else.
        assert_eq!(world.look(), []);
        assert_eq!(world.waiting(), 1);
        world.take("a", number + 1, Some(b"secret"));
        assert_eq!(world.look(), [], "{session:?}");
        assert_eq!(world.waiting(), 0);
    }
}

#[test]
fn what_is_no_watch_of_this_switch_is_not_answered() {
    let mut world = World::new(2);
    let good = Question::of_prefix("key/");
    let with = |change: &dyn Fn(&mut Question)| {
        let mut question = good.clone();
        change(&mut question);
        question
    };
    let bad = [
        with(&|question| question.watch.group = BASE - 1),
        with(&|question| question.watch.group = BASE + 2),
        with(&|question| question.watch.group = OTHER_BASE),
        with(&|question| question.namespace = OTHER),
        with(&|question| question.namespace = 3),
        with(&|question| question.watch.client = 21),
        with(&|question| question.watch.scope = 2),
        // A prefix that ends behind the packet.
        with(&|question| question.watch.length = 16 * 32 + 1),
    ];
    for question in bad {
        assert_eq!(world.ask(&question), []);
        assert_eq!(world.waiting(), 0);
        assert_eq!(world.noted(), []);
    }
    world.begin(&good);
    world.begin(&with(&|question| question.watch.group = BASE + 1));
    world.begin(&with(&|question| question.watch.length = 16 * 32));
}

#[test]
fn who_is_not_the_tail_of_the_group_tells_nothing_of_it() {
    let mut world = World::new(2);
    for (epoch, next) in [(0, 0), (EPOCH, 9)] {
        world.place(BASE, epoch, next);
        assert_eq!(world.ask(&Question::of_key("a").by(1, u64::from(epoch))), []);
        assert_eq!(world.look(), []);
        assert_eq!(world.noted(), [], "and has nothing noted for it");
    }
    assert_eq!(world.waiting(), 2);
    // It may be the tail in others.
    world.begin(&Question::of_key("a").of_group(BASE + 1));
    assert_eq!(world.look(), []);
    world.place(BASE, EPOCH, 0);
    let events = world.look();
    assert!(events.iter().all(|event| event.is(Outcome::Done) && event.changes.is_empty()));
    assert_eq!((events.len(), world.waiting()), (2, 0));
}
