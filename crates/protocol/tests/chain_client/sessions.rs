//! Sessions: what one leaves to the next.

use crate::bench::{BEFORE, FIRST, HEAD, MOST, TAIL, World};
use wayside_protocol::RequestId;
use wayside_protocol::chain::Told;
use wayside_wire::{Outcome, kind, limits};

#[test]
fn ids_are_of_the_session_and_begin_where_it_is_told_to() {
    for (incarnation, first, expected) in [(5, 0, 5 << 40 | 1), (5, 1, 5 << 40 | 1), (6, 9, 6 << 40 | 9)] {
        let mut world = World::without_session(FIRST, MOST);
        world.client.start(incarnation, first);
        assert_eq!([world.read(b"name"), world.read(b"name")], [RequestId(expected), RequestId(expected + 1)]);
    }
}

#[test]
fn what_is_under_way_when_a_session_ends_is_lost_and_the_next_begins_with_nothing() {
    let mut world = World::knowing(1);
    // In lanes, waiting for lanes, reads, and one whose key is being made.
    let mut ids: Vec<RequestId> = (0..limits::MAX_LANES + 4).map(|_| world.write()).collect();
    ids.extend((0..10).map(|_| world.read(b"name")));
    world.packets();
    world.answer(ids[0].0, Outcome::Missing);
    world.insert(ids[0], b"name");
    let insert = world.packet().operation().request;
    assert_eq!(world.told(), [(ids[0], Told::Unnamed)]);

    world.client.lose_everything();
    assert_eq!(world.told(), ids.iter().map(|&id| (id, Told::Lost)).collect::<Vec<_>>());
    assert_eq!(world.client.waiting_for_lanes(), 0);
    assert_eq!(world.due_in(), None);
    assert!(!world.client.knows_switch(HEAD));

    world.client.start(2, 1);
    let write = world.write();
    assert_eq!(write, RequestId(2 << 40 | 1));
    assert_eq!(world.sent(), [(kind::chain::MAP, None)], "its map is another");
    world.map(1, 1, HEAD, TAIL);
    let packet = world.packet();
    assert_eq!((packet.operation().request, packet.operation().lane), (write.0, 0));
    for late in ids.iter().map(|id| id.0).chain([insert]) {
        world.answer(late, Outcome::Done);
    }
    assert_eq!((world.told(), world.packets().len()), (vec![], 0));
    assert_eq!(world.due_in(), Some(FIRST));
}

#[test]
fn a_watch_waits_for_a_session() {
    let mut world = World::without_session(FIRST, MOST);
    world.client.start(1, 1);
    assert_eq!(world.due_in(), None, "there is no watch");
    world.client.lose_everything();
    world.watch();
    world.tick();
    assert_eq!((world.packets().len(), world.due_in()), (0, None));
    world.client.start(2, 1);
    assert_eq!(world.due_in(), Some(0));
    world.tick();
    assert_eq!(world.sent(), [(kind::chain::MAP, None)]);
    world.tell(1, BEFORE);
    assert_eq!(world.asked().len(), 1);
}
