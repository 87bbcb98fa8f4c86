//! What the client does when a chain becomes another, or may have.

use crate::bench::{AFTER, BEFORE, FIRST, World};
use wayside_protocol::Time;
use wayside_protocol::chain::Client;
use wayside_wire::kind;

#[test]
fn what_the_first_map_sends_is_not_sent_again_as_if_its_chain_were_another() {
    let mut world = World::new();
    world.read(b"name");
    world.read(b"other");
    world.tell(1, BEFORE);
    let reads = world.sent().iter().filter(|(kind, _)| *kind == kind::chain::READ).count();
    assert_eq!(reads, 2);
    assert_eq!(world.client.next_timer(), world.now + FIRST);
}

#[test]
fn a_request_is_doubtful_by_its_silence_however_short_the_pauses_are() {
    let mut world = World::new();
    world.client = Client::new(FIRST, FIRST);
    world.client.start(1, 1);
    world.read(b"name");
    world.tell(1, BEFORE);
    world.sent();
    for silent in 1..=3 {
        world.go_on();
        let asks = world.sent().iter().any(|(kind, _)| *kind == kind::chain::MAP);
        assert_eq!(asks, silent == 3, "after {silent} pauses");
    }
}

#[test]
fn a_request_without_an_answer_looks_at_the_map_until_its_chain_is_another_and_goes_there_at_once() {
    let mut world = World::new();
    world.read(b"name");
    assert_eq!(world.sent(), [(kind::chain::MAP, None)]);
    world.tell(1, BEFORE);
    assert_eq!(world.sent(), [(kind::chain::READ, Some(BEFORE))]);
    // For two seconds the map says the same, and is asked again and again though the request is sent ever more rarely.
    let (begun, mut maps, mut reads) = (world.now, 0, 0);
    while world.now.since(begun) < 2_000_000 {
        world.go_on();
        for (kind, _) in world.sent() {
            (maps, reads) = (maps + u32::from(kind == kind::chain::MAP), reads + u32::from(kind == kind::chain::READ));
            if kind == kind::chain::MAP {
                world.tell(1, BEFORE);
            }
        }
    }
    assert!((30..=60).contains(&maps) && (5..=12).contains(&reads), "{maps} looks, {reads} reads");
    while world.sent().iter().all(|(kind, _)| *kind != kind::chain::MAP) {
        world.go_on();
    }
    world.tell(2, AFTER);
    let told = world.now;
    world.go_on();
    assert_eq!((world.sent(), world.now), (vec![(kind::chain::READ, Some(AFTER))], told));
}

#[test]
fn who_is_answered_does_not_look_at_the_map() {
    let mut world = World::new();
    world.read(b"name");
    world.tell(1, BEFORE);
    world.sent();
    world.with(|client, link| client.cancel(link, wayside_protocol::RequestId(1 << 40 | 1)));
    assert_eq!(world.client.next_timer(), Time::NEVER);
}

#[test]
fn a_request_whose_group_nobody_keeps_yet_asks_until_somebody_does() {
    let mut world = World::new();
    world.read(b"name");
    world.tell(0, BEFORE);
    world.sent();
    for _ in 0..5 {
        world.go_on();
    }
    assert!(world.sent().iter().any(|(kind, _)| *kind == kind::chain::MAP));
    world.tell(1, BEFORE);
    assert_eq!(world.sent(), [(kind::chain::READ, Some(BEFORE))]);
}
