//! How many watches may wait, and whose go where there is no room.

use super::*;

/// Of a node, and in all.
const OF_NODE: u64 = 256;
const IN_ALL: u64 = 4_096;
/// For which a watch is not repeated before it is taken to be given up.
const FORGOTTEN: u64 = 1_000_000;

impl World {
    /// Has these requests of a client wait.
    fn fill(&mut self, position: Position, client: Handle, requests: std::ops::Range<u64>) {
        requests.for_each(|request| self.wait(&Question::of_key("a").from(position).by(client, request)));
    }

    /// One more of a client is refused, with what he asked.
    fn refuses(&mut self, position: Position, client: Handle, request: u64) {
        let question = Question::of_key("a").from(position).by(client, request);
        let waiting = self.waiting();
        let event = self.answer(&question);
        let expected = Watch { outcome: Outcome::Full as u8, ..question.watch };
        assert_eq!((event.watch, event.header.count, event.header.epoch), (expected, 0, EPOCH));
        assert_eq!(self.waiting(), waiting);
    }

    /// Whose watches are told of a change.
    fn told_to(&mut self, sequence: u64) -> Vec<(Handle, u64)> {
        self.take("a", sequence, None);
        let mut told: Vec<_> = self.look().iter().map(|event| (event.watch.client, event.watch.request)).collect();
        told.sort_unstable();
        told
    }
}

#[test]
fn a_node_has_256_watches_that_wait_and_no_more() {
    let mut world = World::new(2);
    let position = world.begin(&Question::of_key("a"));
    // Who asks again has no other watch.
    for _ in 0..3 {
        world.ask(&Question::of_key("a").from(position).by(1, 1));
    }
    world.fill(position, 1, 2..OF_NODE);
    // Looks change nothing of it, nor does who else watches.
    (0..3).for_each(|_| assert_eq!(world.look(), []));
    world.fill(position, 2, 1..3);
    world.fill(position, 1, OF_NODE..OF_NODE + 1);
    assert_eq!(world.waiting(), OF_NODE + 2);
    world.refuses(position, 1, 1_000);
    world.look();
    world.refuses(position, 1, 1_000);
    // Nor is it by groups.
    let elsewhere = Question::of_key("a").of_group(BASE + 1).by(1, 1_000);
    assert!(world.answer(&elsewhere).is(Outcome::Full));
    assert!(world.answer(&Question::of_key("a").of_group(BASE + 1).by(2, 1_000)).is(Outcome::Done));
    // Those that wait may be asked again, and those that are told make room.
    assert_eq!(world.answer(&Question::of_key("a").from(position).by(1, 7)).position(), position);
    assert_eq!(world.told_to(1).len() as u64, OF_NODE + 2);
    world.fill((position.0, position.1 + CHANGE), 1, 1..OF_NODE + 1);
}

#[test]
fn all_nodes_together_have_4096_watches_that_wait() {
    let mut world = World::new(1);
    let position = world.begin(&Question::of_key("a"));
    let full = (IN_ALL / OF_NODE) as u16;
    (1..full).for_each(|client| world.fill(position, client, 1..OF_NODE + 1));
    world.fill(position, full, 1..OF_NODE);
    world.fill(position, full + 1, 1..2);
    assert_eq!(world.waiting(), IN_ALL);
    for client in [full, full + 1, full + 2] {
        world.refuses(position, client, 1_000);
    }
    // One's watch goes for another of his own, and for nobody else's.
    world.tick_at(world.now + FORGOTTEN);
    world.refuses(position, full + 2, 1_000);
    world.fill(position, full + 1, 2..3);
    assert_eq!(world.waiting(), IN_ALL);
    let told = world.told_to(1);
    assert!(told.contains(&(full + 1, 2)) && !told.contains(&(full + 1, 1)));
}

#[test]
fn what_was_not_repeated_for_a_second_makes_room_the_oldest_first() {
    let mut world = World::new(1);
    let position = world.begin(&Question::of_key("a"));
    world.fill(position, 2, 5..6);
    world.fill(position, 1, 11..OF_NODE + 1);
    world.now += 1;
    world.fill(position, 1, 1..11);
    // What is repeated is wanted.
    world.now = BEGIN + FORGOTTEN - 1;
    world.ask(&Question::of_key("a").from(position).by(1, 12));
    world.refuses(position, 1, 1_000);
    world.now += 1;
    world.fill(position, 1, 1_000..1_000 + OF_NODE - 11);
    world.refuses(position, 1, 2_000);
    world.now += 1;
    world.fill(position, 1, 2_000..2_003);
    assert_eq!(world.waiting(), OF_NODE + 1);
    let told = world.told_to(1);
    let of = |client: Handle| told.iter().filter(move |(of, _)| *of == client).map(|(_, request)| *request);
    assert_eq!(of(2).collect::<Vec<_>>(), [5], "nobody's makes room for another's");
    let (kept, new): (Vec<u64>, Vec<u64>) = of(1).partition(|request| *request < 1_000);
    assert_eq!((kept.len(), new.len() as u64), (8, OF_NODE - 8));
    assert!(kept.contains(&12));
}

#[test]
fn watches_of_an_earlier_session_go_before_those_that_nobody_repeats() {
    let mut world = World::new(1);
    let position = world.begin(&Question::of_key("a"));
    world.fill(position, 1, 1..2);
    world.now += FORGOTTEN / 2;
    // They are of the session before.
    world.script.borrow_mut().sessions.insert(1, (SPACE, 100));
    world.fill(position, 1, 2..4);
    world.script.borrow_mut().sessions.insert(1, (SPACE, 101));
    world.fill(position, 1, 4..OF_NODE + 1);
    assert_eq!(world.look(), []);
    assert_eq!(world.waiting(), OF_NODE);
    // By now nobody has repeated the first for a second.
    world.now = BEGIN + FORGOTTEN;
    world.fill(position, 1, 1_000..1_002);
    assert_eq!(world.waiting(), OF_NODE);
    let told: Vec<u64> = world.told_to(1).into_iter().map(|(_, request)| request).collect();
    let expected: Vec<u64> = [1].into_iter().chain(4..OF_NODE + 1).chain(1_000..1_002).collect();
    assert_eq!(told, expected);
}
