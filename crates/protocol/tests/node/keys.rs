//! A node's keys: reads, writes and watches with its session (`wayside_protocol::chain` has what they are).

use crate::bench::{Bench, EPOCH, LEASE, handle};
use std::net::SocketAddrV4;
use wayside_protocol::chain::{Ask, Glance, Key, Scope, Told, Wish};
use wayside_protocol::{AcquireError, Event, Node, NodeConfig, Time};
use wayside_wire::{BODY, Header, Route, Routes, check, kind, limits, service};

const AT: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::new(10, 0, 0, 1), 7600);

fn key() -> Key {
    Key::of(b"default", b"name").expect("a name")
}

fn read(deadline: Option<Time>) -> Ask {
    Ask { key: key(), wish: Wish::Read, deadline, port: 0 }
}

/// Node 0 hears that the keys of one group are at this switch.
fn tell(bench: &mut Bench) {
    let mut packet = vec![0; BODY + Routes::BYTES + limits::BLOCK_BYTES];
    let header = Header { service: service::CHAIN, kind: kind::chain::ROUTES, count: 1, ..Header::default() };
    Header { destination: handle(0), epoch: EPOCH, namespace: 1, ..header }.write(&mut packet);
    Routes { first: 0, base: 16, groups: 1 }.write(&mut packet, BODY);
    let (address, port) = (u32::from(*AT.ip()), AT.port());
    let route = Route { epoch: 3, head_address: address, head_port: port, tail_address: address, tail_port: port };
    route.write(&mut packet, BODY + Routes::BYTES);
    bench.nodes[0].on_packet(bench.now, &packet);
}

/// Kinds that node 0 sends.
fn sent(bench: &mut Bench) -> Vec<u8> {
    let mut sent = Vec::new();
    while let Some(out) = bench.nodes[0].transmit() {
        let header = check(out.packet).expect("whole");
        sent.extend((header.service == service::CHAIN).then_some(header.kind));
    }
    sent
}

#[test]
fn a_key_is_asked_for_with_the_session_and_until_it_is_given_up() {
    let mut bench = Bench::new(1);
    assert!(!bench.nodes[0].knows_switch(AT));
    let id = bench.nodes[0].ask_key(bench.now, &read(None)).expect("it has a session");
    assert_eq!(sent(&mut bench), [kind::chain::MAP]);
    tell(&mut bench);
    assert!(bench.nodes[0].knows_switch(AT));
    assert_eq!(sent(&mut bench), [kind::chain::READ]);
    bench.now = bench.now + 5_000;
    bench.nodes[0].on_tick(bench.now);
    assert_eq!(sent(&mut bench), [kind::chain::READ]);
    bench.nodes[0].cancel_key(bench.now, id);
    bench.now = bench.now + 100_000;
    bench.nodes[0].on_tick(bench.now);
    assert!(!sent(&mut bench).contains(&kind::chain::READ));
    bench.quiet(0);
    assert_eq!(bench.nodes[0].ask_key(bench.now + 2 * LEASE, &read(None)), Err(AcquireError::NoSession));
    assert_eq!(Node::new(NodeConfig::new(1)).ask_key(Time(1), &read(None)), Err(AcquireError::NoSession));
}

#[test]
fn what_was_asked_of_keys_ends_with_its_time_or_with_the_session() {
    let mut bench = Bench::new(1);
    let deadline = bench.now + 9_000;
    let late = bench.nodes[0].ask_key(bench.now, &read(Some(deadline))).expect("it has a session");
    let lost = bench.nodes[0].ask_key(bench.now, &read(None)).expect("it has a session");
    bench.nodes[0].on_tick(Time(deadline.0 - 1));
    sent(&mut bench);
    bench.nodes[0].on_tick(deadline);
    assert_eq!(bench.nodes[0].event(), Some(Event::Chain { request: late, told: Told::TimedOut }));
    sent(&mut bench);
    bench.nodes[0].on_tick(bench.now + 2 * LEASE);
    assert_eq!(bench.nodes[0].event(), Some(Event::Chain { request: lost, told: Told::Lost }));
    assert_eq!(bench.nodes[0].event(), Some(Event::SessionLost));
}

#[test]
fn a_watch_wakes_who_has_waited_long_enough_and_ends_when_it_is_told_to() {
    let mut bench = Bench::new(1);
    let now = bench.now;
    let id = bench.nodes[0].watch(now, Scope::Key(key()));
    assert!(!bench.nodes[0].is_watching(id));
    assert_eq!(bench.nodes[0].look_at_watch(now, id), Glance::Waiting);
    bench.nodes[0].await_watch(id, now + 3_000);
    assert!(bench.nodes[0].next_timer().is_some_and(|due| due <= now + 3_000));
    bench.nodes[0].on_tick(now + 2_999);
    assert_eq!(bench.nodes[0].event(), None);
    sent(&mut bench);
    bench.nodes[0].on_tick(now + 3_000);
    assert_eq!(bench.nodes[0].event(), Some(Event::Watch(id)));
    assert_eq!(bench.nodes[0].look_at_watch(now + 3_000, id), Glance::TimedOut);
    bench.nodes[0].unwatch(id);
    assert_eq!(bench.nodes[0].look_at_watch(now + 3_000, id), Glance::Ended);
}

#[test]
fn watches_go_to_the_node_that_follows() {
    let mut bench = Bench::new(2);
    let now = bench.now;
    let id = bench.nodes[0].watch(now, Scope::Key(key()));
    let watching = bench.nodes[0].leave_watches();
    assert_eq!(bench.nodes[0].look_at_watch(now, id), Glance::Ended);
    assert_eq!(bench.nodes[1].look_at_watch(now, id), Glance::Ended);
    bench.nodes[1].take_watches(watching);
    assert_eq!(bench.nodes[1].look_at_watch(now, id), Glance::Waiting);
}
