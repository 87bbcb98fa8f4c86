//! The chain client against a map and switches of the test's own making: what it does when a chain becomes another.

use std::net::SocketAddrV4;
use wayside_protocol::chain::{Ask, Client, Key, Link, Wish};
use wayside_protocol::{Outbox, Time};
use wayside_wire::{BODY, Header, Route, Routes, kind, limits, service};

const FIRST: u64 = 5_000;
const MOST: u64 = 1_000_000;
const BEFORE: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::new(10, 0, 0, 1), 7600);
const AFTER: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::new(10, 0, 0, 2), 7600);

struct World {
    client: Client,
    out: Outbox,
    now: Time,
}

impl World {
    fn new() -> World {
        let mut client = Client::new(FIRST, MOST);
        client.start(1, 1);
        World { client, out: Outbox::new(), now: Time(1_000_000) }
    }

    fn with(&mut self, act: impl FnOnce(&mut Client, &mut Link<'_>)) {
        let header = Header { service: service::CHAIN, source: 7, namespace: 1, ..Header::default() };
        act(&mut self.client, &mut Link { now: self.now, header, out: &mut self.out });
    }

    /// What was sent: kinds, and where to.
    fn sent(&mut self) -> Vec<(u8, Option<SocketAddrV4>)> {
        let mut sent = Vec::new();
        while let Some(packet) = self.out.pop(None) {
            sent.push((Header::read(packet.packet).expect("its own").kind, packet.to));
        }
        sent
    }

    /// To the next timer.
    fn go_on(&mut self) {
        let due = self.client.next_timer();
        assert!(due != Time::NEVER && due > Time(0));
        self.now = self.now.max(due);
        self.with(|client, link| client.on_tick(link));
    }

    /// The first page of two groups, which are both there since this epoch.
    fn tell(&mut self, epoch: u32, at: SocketAddrV4) {
        let mut packet = [0; BODY + Routes::BYTES + 2 * limits::BLOCK_BYTES];
        let header = Header { service: service::CHAIN, kind: kind::chain::ROUTES, count: 2, ..Header::default() };
        header.write(&mut packet);
        Routes { first: 0, base: 16, groups: 2 }.write(&mut packet, BODY);
        for group in 0..2 {
            let (address, port) = (u32::from(*at.ip()), at.port());
            let route = Route { epoch, head_address: address, head_port: port, tail_address: address, tail_port: port };
            route.write(&mut packet, BODY + Routes::BYTES + group * limits::BLOCK_BYTES);
        }
        self.with(|client, link| client.on_packet(link, &header, &packet));
    }

    fn read(&mut self, name: &[u8]) {
        let ask = Ask { key: Key::of(b"default", name).unwrap(), wish: Wish::Read, deadline: None, port: 0 };
        self.with(|client, link| {
            client.ask(link, &ask);
        });
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
