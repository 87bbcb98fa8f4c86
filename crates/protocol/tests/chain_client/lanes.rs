//! Lanes: a place for one write under way each.

use crate::bench::{BEFORE, FIRST, HEAD, TAIL, World, named};
use wayside_protocol::RequestId;
use wayside_protocol::chain::{Condition, Told, Value, Wish};
use wayside_wire::{Outcome, kind, limits};

const LANES: usize = limits::MAX_LANES;

/// A client whose lanes all have a write under way; those.
fn busy() -> (World, Vec<RequestId>) {
    let mut world = World::knowing(1);
    let writes = (0..LANES).map(|_| world.write()).collect();
    (world, writes)
}

/// The only write that was sent, and in which lane.
#[track_caller]
fn sent_in(world: &mut World) -> (RequestId, usize) {
    let packet = world.packet();
    assert_eq!(packet.header.kind, kind::chain::WRITE);
    let operation = packet.operation();
    (RequestId(operation.request), operation.lane.into())
}

#[test]
fn each_write_under_way_has_a_lane_and_whoever_comes_then_waits_for_one() {
    let (mut world, writes) = busy();
    let packets = world.packets();
    let sent: Vec<_> = packets.iter().map(|packet| (packet.operation().lane, packet.operation().request)).collect();
    assert_eq!(sent, (0..).zip(writes.iter().map(|id| id.0)).collect::<Vec<_>>());
    let waiting: Vec<RequestId> = (0..3).map(|_| world.write()).collect();
    assert_eq!((world.packets().len(), world.client.waiting_for_lanes()), (0, 3));

    // What is done, what is given up and what has waited long enough leave their lanes to the next at once.
    world.answer(writes[3].0, Outcome::Done);
    assert_eq!(sent_in(&mut world), (waiting[0], 3));
    world.cancel(writes[9]);
    assert_eq!(sent_in(&mut world), (waiting[1], 9));
    let late = world.ask_for(Wish::Write(Value::default(), Condition::Always), named(b"late"), 2 * FIRST);
    world.cancel(writes[5]);
    assert_eq!(sent_in(&mut world), (waiting[2], 5));
    world.cancel(writes[4]);
    assert_eq!(sent_in(&mut world), (late, 4));
    let next = world.write();
    assert_eq!(world.packets().len(), 0);
    world.now = world.now + 2 * FIRST;
    let operations: Vec<_> = world.all_due().iter().map(|packet| packet.operation()).collect();
    assert!(operations.iter().any(|operation| (operation.request, operation.lane) == (next.0, 4)));
    assert_eq!(world.told(), [(writes[3], Told::Answered), (late, Told::TimedOut)]);
}

#[test]
fn a_read_needs_no_lane() {
    let (mut world, _) = busy();
    world.packets();
    let id = world.read(b"name");
    let operation = world.packet().operation();
    assert_eq!((operation.request, operation.lane), (id.0, 0));
    // Nor does it take one.
    let mut world = World::knowing(1);
    world.read(b"name");
    world.packets();
    world.write();
    assert_eq!(sent_in(&mut world).1, 0);
}

#[test]
fn who_waits_for_a_lane_is_not_silent() {
    let mut world = World::new();
    let writes: Vec<RequestId> = (0..=LANES).map(|_| world.write()).collect();
    world.map(1, 1, HEAD, TAIL);
    assert_eq!(world.ids_of(kind::chain::WRITE).len(), LANES);
    // The others are sent again, ever more rarely.
    for _ in 0..2 {
        assert_eq!(world.all_due().len(), LANES);
    }
    world.answer(writes[0].0, Outcome::Done);
    assert_eq!(sent_in(&mut world), (writes[LANES], 0));
    assert_eq!(world.due_in(), Some(FIRST));
}

#[test]
fn who_waits_for_a_lane_has_nothing_to_do() {
    let mut world = World::new();
    let writes: Vec<RequestId> = (0..=LANES).map(|_| world.write()).collect();
    world.map(1, 1, HEAD, TAIL);
    // Those before it wait, too, for their names.
    writes[..LANES].iter().for_each(|id| world.answer(id.0, Outcome::Missing));
    assert_eq!(world.due_in(), None);
}

#[test]
fn writes_that_are_given_up_while_others_have_all_lanes_leave_nothing() {
    let mut world = World::new();
    world.tell(1, BEFORE);
    for _ in 0..LANES {
        world.write();
    }
    for _ in 0..10_000 {
        let id = world.write();
        world.cancel(id);
    }
    assert!(world.client.waiting_for_lanes() <= 3 * LANES, "{}", world.client.waiting_for_lanes());
}

#[test]
fn writes_that_are_given_up_are_forgotten_once_they_are_the_most_and_not_each_by_itself() {
    let (mut world, _) = busy();
    let mut waiting = Vec::new();
    for _ in 0..=3 * LANES {
        let id = world.write();
        world.cancel(id);
        waiting.push(world.client.waiting_for_lanes());
    }
    let most = 3 * LANES;
    assert_eq!(waiting, (1..=most).chain([0]).collect::<Vec<_>>());
}
