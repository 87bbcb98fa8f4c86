//! What becomes of histories when the journal is behind, goes round or is torn, and when places become others.

use super::*;

use wayside_protocol::chain::Watched;

/// Changes that are kept of all groups together, and of a group at least and at most.
const KEPT: u64 = 65_536;
const KEPT_LEAST: u64 = 64;
const KEPT_MOST: u64 = 4_096;

impl World {
    /// Has changes of a key taken, as many as this, and a look at them.
    fn take_many(&mut self, count: u64) {
        (0..count).for_each(|sequence| self.take("a", 1 + sequence, None));
        assert_eq!(self.look(), []);
    }

    /// So many changes are kept of the first group of a history that has had so many.
    fn keeps(&mut self, history: u64, kept: u64, of: u64) {
        let at = |index: u64| Question::of_key("b").from((history, FIRST + index * CHANGE)).by(1, index);
        if kept < of {
            let event = self.answer(&at(of - kept - 1));
            assert!(event.is(Outcome::Reset));
            assert_eq!(event.position(), (history, FIRST + of * CHANGE), "it is where it is now");
        }
        self.wait(&at(of - kept));
        self.wait(&at(of));
        assert!(self.answer(&at(of + 1)).is(Outcome::Reset), "nobody was told of that");
    }
}

#[test]
fn what_is_still_being_written_holds_up_what_comes_after() {
    let mut world = World::new(1);
    let position = world.begin(&Question::of_key("a"));
    world.wait(&Question::of_key("a").from(position));
    world.script.borrow_mut().drawn = 1;
    world.take("a", 2, Some(b"two"));
    assert_eq!(world.look(), []);
    assert_eq!(world.begin(&Question::of_key("a").by(2, 1)), position, "what cannot be read is not counted");
    world.script.borrow_mut().records.insert(1, record(BASE, key_of("a"), 1, Some(b"one")));
    let events = world.look();
    assert_eq!(events[0].changes, [told("", 1, Some(b"one")), told("", 2, Some(b"two"))]);
    assert_eq!(events[0].position(), (position.0, position.1 + 2 * CHANGE));
}

#[test]
fn a_journal_that_went_round_is_begun_anew_after_a_rest() {
    let mut world = World::new(1);
    let question = Question::of_key("a");
    let position = world.begin(&question);
    world.wait(&question.clone().from(position));
    world.take("a", 1, Some(b"one"));
    world.script.borrow_mut().overwritten = 1;
    world.noted();
    assert_eq!(world.look(), []);
    let lost = world.now;
    assert_eq!(world.noted(), [(BASE..BASE + 1, false)], "nobody may ask again");
    assert_eq!(world.member.next_timer(), Time(lost + LOOK));
    // Who comes meanwhile waits, too.
    world.wait(&question.clone().from(position).by(2, 1));
    assert_eq!(world.tick_at(lost + REST - LOOK), []);
    assert_eq!(world.noted(), []);
    assert_eq!(world.waiting(), 2);
    let events = world.tick_at(lost + REST);
    assert_eq!(world.noted(), [(BASE..BASE + 1, true)]);
    let expected = Watched { resets: 2, overruns: 1, ..Watched::default() };
    assert_eq!(world.member.watched(), expected);
    assert_eq!(events.len(), 2);
    for event in &events {
        assert!(event.is(Outcome::Reset) && event.changes.is_empty());
        assert_ne!(event.watch.history, position.0);
        assert_eq!((event.watch.history, event.watch.number), (events[0].watch.history, FIRST));
    }
    // From there on nothing is missed.
    world.take("a", 2, Some(b"two"));
    let event = world.answer(&question.from(events[0].position()));
    assert_eq!(event.changes, [told("", 2, Some(b"two"))]);
}

#[test]
fn where_nobody_watches_any_more_nothing_is_looked_at() {
    let mut world = World::new(1);
    let question = Question::of_key("a");
    let position = world.begin(&question);
    world.wait(&question.from(position));
    world.take("a", 1, None);
    world.script.borrow_mut().overwritten = 1;
    // The watch has its time while the journal rests.
    assert_eq!(world.tick_at(BEGIN + PATIENCE - LOOK), []);
    assert_eq!(world.waiting(), 1);
    assert_eq!(world.tick_at(BEGIN + PATIENCE), []);
    assert_eq!(world.waiting(), 0);
    assert!(world.member.next_timer() > Time(FAR));
    assert_eq!(world.member.watched().overruns, 1);
}

#[test]
fn records_that_are_torn_end_all_histories() {
    let mut world = World::new(1);
    // What was torn before anybody watched was nobody's.
    world.script.borrow_mut().torn = 3;
    let question = Question::of_key("a");
    let first = world.begin(&question);
    world.wait(&question.clone().from(first));
    assert_eq!(world.look(), []);
    assert_eq!(world.waiting(), 1);
    world.script.borrow_mut().torn = 4;
    world.take("a", 2, Some(b"two"));
    assert_eq!(world.look(), [], "one before it may be missing");
    let events = world.tick_at(world.now + REST);
    assert_eq!(events.len(), 1);
    assert!(events[0].is(Outcome::Reset));
    let second = events[0].position();
    assert_ne!(second.0, first.0);
    // What is torn is counted by the memory.
    let expected = Watched { resets: 1, torn: 4, ..Watched::default() };
    assert_eq!(world.member.watched(), expected);
    // By who asks, too, it is noticed at once.
    world.script.borrow_mut().torn = 5;
    assert_eq!(world.ask(&question.clone().from(second)), []);
    let events = world.tick_at(world.now + REST);
    assert!(events[0].is(Outcome::Reset));
    assert_eq!(events[0].position(), (events[0].watch.history, FIRST));
}

#[test]
fn a_history_begins_once_all_that_is_taken_is_noted() {
    for is_torn in [false, true] {
        let mut world = World::new(1);
        world.take("a", 1, Some(b"unnoted"));
        let meanwhile = move |script: &mut Script, _: &_| {
            script.take(record(BASE, key_of("a"), 2, Some(b"meanwhile")));
            script.torn += u64::from(is_torn);
        };
        world.script.borrow_mut().meanwhile = Some(Box::new(meanwhile));
        let question = Question::of_key("a");
        let events = if is_torn {
            assert_eq!(world.ask(&question), [], "that may be what is missing");
            assert_eq!(world.noted(), [(BASE..BASE + 1, true), (BASE..BASE + 1, false)]);
            world.tick_at(BEGIN + REST)
        } else {
            world.ask(&question)
        };
        assert_eq!(events.len(), 1);
        assert!(events[0].is(Outcome::Done));
        assert_eq!(events[0].watch.number, FIRST, "what was taken meanwhile was before");
        world.wait(&question.from(events[0].position()));
        assert_eq!(world.look(), []);
    }
}

#[test]
fn what_is_told_holds_at_the_place_at_which_it_was_taken() {
    // By what it becomes while it is looked up.
    for (place, serves) in [
        (Place { epoch: EPOCH + 1, previous: BEFORE, next: 0 }, true),
        (Place { epoch: EPOCH, previous: BEFORE, next: 9 }, true),
        (Place { epoch: EPOCH, previous: BEFORE, next: 0 }, false),
    ] {
        let mut world = World::new(1);
        let meanwhile = move |script: &mut Script, switch: &wayside_switch::Switch| {
            wayside_protocol::chain::memory::ItemMemory::set_place(switch, BASE, SPACE, place);
            script.serves = serves;
        };
        world.script.borrow_mut().meanwhile = Some(Box::new(meanwhile));
        assert_eq!(world.ask(&Question::of_key("a")), [], "{place:?}");
        assert_eq!(world.waiting(), 1);
        world.script.borrow_mut().serves = true;
        let epochs: Vec<u32> = world.look().iter().map(|event| event.header.epoch).collect();
        assert_eq!(epochs, if place.next == 0 { vec![place.epoch] } else { vec![] });
    }
}

#[test]
fn another_epoch_of_the_group_is_another_history_of_that_group_alone() {
    let mut world = World::new(2);
    let (here, there) = (Question::of_key("a"), Question::of_key("a").of_group(BASE + 1).by(2, 1));
    let first = world.begin(&here);
    let other = world.begin(&there);
    world.wait(&here.clone().from(first));
    world.place(BASE, EPOCH + 1, 0);
    let events = world.look();
    assert_eq!(events.len(), 1);
    assert!(events[0].is(Outcome::Reset));
    assert_ne!(events[0].watch.history, first.0);
    assert_eq!((events[0].header.epoch, events[0].watch.number), (EPOCH + 1, FIRST));
    world.take("a", 2, None);
    world.take_in(BASE + 1, "a", 3, None);
    let event = world.answer(&here.from(events[0].position()));
    assert_eq!((event.changes, event.header.epoch), (vec![told("", 2, None)], EPOCH + 1));
    let event = world.answer(&there.from(other));
    assert_eq!((event.position(), event.header.epoch), ((other.0, other.1 + CHANGE), EPOCH));
    assert_eq!(event.changes, [told("", 3, None)]);
}

#[test]
fn of_a_group_the_latest_changes_are_kept() {
    let mut world = World::new(1);
    let (history, _) = world.begin(&Question::of_key("a"));
    world.take_many(KEPT_MOST);
    world.keeps(history, KEPT_MOST, KEPT_MOST);
    world.take_many(5);
    world.keeps(history, KEPT_MOST, KEPT_MOST + 5);
    // The first that is kept is the sixth.
    let event = world.answer(&Question::of_key("a").from((history, FIRST + 5 * CHANGE)).with_room(1));
    assert_eq!(event.changes, [told("", 6, None)]);
}

#[test]
fn a_watch_that_waits_loses_nothing_by_what_is_kept_no_more() {
    let (mut world, position, question) = World::with_waiting("b");
    world.take_many(KEPT_MOST);
    world.take_many(1);
    // He does not know yet where it has come to, and asks as he did.
    let event = world.answer(&question);
    assert!(event.is(Outcome::Done));
    assert_eq!(event.position(), (position.0, position.1 + (KEPT_MOST + 1) * CHANGE));
    // Who asks for the first time from there has missed something.
    assert!(world.answer(&question.by(2, 1)).is(Outcome::Reset));
}

#[test]
fn many_groups_share_what_is_kept() {
    for (groups, kept) in [(64, KEPT / 64), (2_000, KEPT_LEAST)] {
        let mut world = World::new(groups);
        let (history, _) = world.begin(&Question::of_key("a"));
        // It has more to itself before others come.
        world.take_many(2 * kept);
        world.keeps(history, 2 * kept, 2 * kept);
        for group in 1..groups {
            world.begin(&Question::of_key("a").of_group(BASE + group));
        }
        world.take("a", 1, None);
        world.look();
        world.keeps(history, kept, 2 * kept + 1);
    }
}

#[test]
fn the_name_of_a_key_that_has_left_is_known_until_its_last_change_is_told() {
    let mut world = World::new(1);
    let (kept, gone) = ("key/kept", "key/gone");
    world.make(kept);
    world.make(gone);
    let question = Question::of_prefix("key/");
    let position = world.begin(&question);
    // Its last change is being written when the key is removed.
    world.script.borrow_mut().drawn = 1;
    world.take(kept, 3, None);
    world.remove(gone);
    let event = world.answer(&question.clone().from(NONE));
    assert_eq!(event.position(), position);
    world.script.borrow_mut().records.insert(1, record(BASE, key_of(gone), 2, None));
    let event = world.answer(&question.clone().from(position));
    assert_eq!(event.changes, [told(gone, 2, None), told(kept, 3, None)]);
    // Whoever has the key later has no name by then.
    world.take(gone, 4, None);
    let event = world.answer(&question.clone().from(event.position()));
    assert_eq!(event.changes, [told("", 4, None)]);
    // What all changes of are taken of is forgotten at once.
    world.remove(kept);
    let position = world.begin(&question);
    world.take(kept, 5, None);
    let event = world.answer(&question.from(position));
    assert_eq!(event.changes, [told("", 5, None)]);
}
