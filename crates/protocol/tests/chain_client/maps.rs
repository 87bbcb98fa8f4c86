//! The map: where the groups of the namespace are.

use crate::bench::{AFTER, BEFORE, FIRST, HEAD, PAGE, TAIL, World, key_in, named};
use wayside_protocol::RequestId;
use wayside_protocol::chain::{Condition, Ended, Glance, Told, Value, Wish};
use wayside_wire::{Outcome, kind};

/// From the map's answer to the next look, while requests go unanswered.
const LOOK: u64 = 50_000;

/// One that knows three pages of groups, and its first pause.
fn with_pages(pause: u64) -> (World, u16) {
    let groups = 2 * PAGE + 10;
    let mut world = World::pausing(pause, 100 * pause);
    let id = world.ask(Wish::Read, key_in(0, groups));
    for (first, count) in [(0, PAGE), (PAGE, PAGE), (2 * PAGE, 10)] {
        assert_eq!(world.pages(), [first]);
        world.map_page(first, groups, &vec![(1, HEAD, TAIL); count.into()]);
    }
    world.cancel(id);
    assert!(world.packets().iter().all(|packet| packet.header.kind == kind::chain::READ));
    (world, groups)
}

#[test]
fn the_map_is_asked_for_once_and_again_after_ever_longer_pauses() {
    let mut world = World::pausing(FIRST, 4 * FIRST);
    world.soil_frames();
    let watch = world.watch();
    let packet = world.packet();
    assert_eq!((packet.header.kind, packet.page(), packet.to), (kind::chain::MAP, 0, None));
    assert_eq!(packet.header.count, PAGE as u8, "as long as its answer");
    assert!(packet.blocks().iter().all(|&byte| byte == 0), "nothing of packets before");
    assert_eq!(world.due_in(), Some(FIRST));
    let times = world.times(15 * FIRST);
    let expected = [1, 3, 7, 11, 15].map(|firsts| (firsts * FIRST, kind::chain::MAP));
    assert_eq!(times, expected);
    // Each question begins with the first pause.
    world.tell(1, BEFORE);
    world.client.unwatch(watch);
    let read = world.read(b"name");
    world.answer_of(2, read.0, Outcome::Moved);
    world.cancel(read);
    world.packets();
    assert_eq!(world.due_in(), Some(FIRST));
}

#[test]
fn whoever_asks_while_the_map_is_asked_for_waits_and_is_sent_in_order() {
    let mut world = World::new();
    let ids: Vec<u64> = (0..40).map(|_| world.read(b"name").0).collect();
    assert_eq!(world.sent(), [(kind::chain::MAP, None)]);
    world.tell(1, BEFORE);
    assert_eq!(world.ids_of(kind::chain::READ), ids);
    // It is known now.
    let id = world.read(b"other");
    assert_eq!(world.packet().operation().request, id.0);
}

#[test]
fn pages_follow_as_long_as_their_groups_are_not_known() {
    let (mut world, groups) = with_pages(FIRST);
    // A group that moves is in one page: those behind it are known.
    let id = world.ask(Wish::Read, key_in(PAGE + 5, groups));
    world.packets();
    world.answer_of(2, id.0, Outcome::Moved);
    assert_eq!(world.pages(), [PAGE]);
    world.map_page(PAGE, groups, &[(2, AFTER, AFTER); PAGE as usize]);
    assert_eq!(world.pages(), []);
    world.tick();
    assert_eq!(world.sent(), [(kind::chain::READ, Some(AFTER))]);
}

#[test]
fn a_page_that_nobody_asked_for_changes_nothing() {
    let mut world = World::knowing(2);
    world.map(2, 9, AFTER, AFTER);
    world.read(b"name");
    assert_eq!(world.packet().asked(), Some(TAIL));
    // Nor one that is another than was asked for.
    let mut world = World::new();
    world.read(b"name");
    world.packets();
    world.map_page(PAGE, 2 * PAGE, &[(1, BEFORE, BEFORE); PAGE as usize]);
    assert_eq!((world.packets().len(), world.due_in()), (0, Some(FIRST)));
}

#[test]
fn a_chain_gives_way_to_a_later_one_or_to_where_the_same_is_now() {
    for (epoch, expected) in [(4, BEFORE), (5, AFTER), (6, AFTER)] {
        let mut world = World::new();
        let id = world.read(b"name");
        world.map(1, 5, BEFORE, BEFORE);
        world.packets();
        world.answer_of(7, id.0, Outcome::Moved);
        world.cancel(id);
        assert_eq!(world.pages(), [0]);
        world.map(1, epoch, AFTER, AFTER);
        world.read(b"name");
        let packet = world.packet();
        assert_eq!((packet.asked(), packet.header.epoch), (Some(expected), epoch.max(5)));
    }
}

#[test]
fn switches_are_known_by_the_head_or_by_the_tail_of_any_group() {
    let world = World::knowing(2);
    assert_eq!([HEAD, TAIL, BEFORE].map(|at| world.client.knows_switch(at)), [true, true, false]);
}

#[test]
fn in_a_namespace_without_groups_nobody_waits() {
    let mut world = World::new();
    let watches = [(); 3].map(|()| world.watch());
    let ids: Vec<RequestId> = (0..40).map(|_| world.read(b"name")).collect();
    world.packets();
    world.map_page(0, 0, &[]);
    assert_eq!(world.told(), ids.iter().map(|&id| (id, Told::Answered)).collect::<Vec<_>>());
    for id in ids {
        let answer = world.taken(id).expect("an answer");
        assert_eq!((answer.ended, answer.value, answer.is_leased), (Ended::NoStore, None, false));
    }
    assert_eq!(world.told_watches(), watches);
    assert_eq!(watches.map(|id| world.glance(id)), [Glance::NoStore, Glance::NoStore, Glance::NoStore]);
    assert_eq!((world.packets().len(), world.due_in()), (0, None));
}

#[test]
fn what_a_new_chain_is_asked_at_once_is_asked_in_order() {
    let mut world = World::knowing(1);
    let ids: Vec<u64> = (0..40).map(|_| world.read(b"name").0).collect();
    world.packets();
    // Each is sent again later, at a time that is far.
    assert_eq!([world.all_due().len(), world.all_due().len()], [ids.len(); 2]);
    world.answer_of(2, ids[7], Outcome::Moved);
    world.packets();
    world.map(1, 2, AFTER, AFTER);
    assert_eq!(world.due_in(), Some(0));
    let sent: Vec<u64> = world.all_due().iter().map(|packet| packet.operation().request).collect();
    assert_eq!(sent, ids);
}

#[test]
fn the_third_silence_asks_the_map_and_then_every_look_until_there_is_an_answer() {
    let mut world = World::pausing(100_000, 10_000_000);
    let id = world.read(b"name");
    world.map(1, 1, HEAD, TAIL);
    world.packets();
    // Sent at 0, 100, 300 and 700 ms: three of them are without an answer then.
    let asked = (700_000, kind::chain::MAP);
    let times = world.times(700_000);
    let reads = [100_000, 300_000, 700_000].map(|at| (at, kind::chain::READ));
    assert_eq!(times, [&reads[..2], &[asked], &reads[2..]].concat());
    for _ in 0..3 {
        world.map(1, 1, HEAD, TAIL);
        world.wait(LOOK - 1);
        assert_eq!((world.packets().len(), world.due_in()), (0, Some(1)), "not before its time");
        world.wait(1);
        assert_eq!(world.sent(), [(kind::chain::MAP, None)]);
    }
    world.map(1, 1, HEAD, TAIL);
    world.answer(id.0, Outcome::Done);
    world.wait(LOOK);
    assert_eq!((world.packets().len(), world.due_in()), (0, None));
}

#[test]
fn looks_go_round_the_pages_of_those_without_an_answer() {
    const PAUSE: u64 = 100_000;
    let (mut world, groups) = with_pages(PAUSE);
    // The first group of each page but the second, of which there is the last.
    for group in [0, 2 * PAGE - 1, 2 * PAGE] {
        world.ask(Wish::Read, key_in(group, groups));
    }
    world.packets();
    let (begun, mut looks) = (world.now, Vec::new());
    while looks.len() < 7 {
        world.go_on();
        for page in world.pages() {
            // Nobody asks for himself then, between his third silence and the fourth.
            if world.now > begun + 7 * PAUSE {
                looks.push((world.now.since(begun) - 7 * PAUSE, page));
            }
            let count = usize::from(PAGE.min(groups - page));
            world.map_page(page, groups, &vec![(1, HEAD, TAIL); count]);
        }
    }
    let round = [0, PAGE, 2 * PAGE];
    let pages = round.into_iter().cycle().skip(usize::from(looks[0].1 / PAGE));
    assert_eq!(looks, (1..).map(|nth| nth * LOOK).zip(pages).take(7).collect::<Vec<_>>());
}

#[test]
fn a_write_that_waits_for_its_name_is_not_looked_for() {
    let mut world = World::knowing(1);
    let id = world.ask(Wish::Write(Value::default(), Condition::Always), named(b"name"));
    world.times(20 * FIRST);
    world.map(1, 1, HEAD, TAIL);
    world.answer(id.0, Outcome::Missing);
    world.wait(LOOK);
    assert_eq!((world.packets().len(), world.due_in()), (0, None));
}

#[test]
fn nobody_was_silent_to_what_waited_for_the_map() {
    let mut world = World::new();
    world.read(b"name");
    world.packets();
    world.times(100 * FIRST);
    world.map(1, 1, HEAD, TAIL);
    assert_eq!(world.sent(), [(kind::chain::READ, Some(TAIL))]);
    assert_eq!(world.due_in(), Some(FIRST), "it is sent for the first time");
    let [read, map] = [kind::chain::READ, kind::chain::MAP];
    assert_eq!(world.times(3 * FIRST), [(FIRST, read), (3 * FIRST, read)]);
    assert_eq!(world.times(4 * FIRST), [(4 * FIRST, map), (4 * FIRST, read)]);
}
