//! The chain client against a map and switches of the test's own making: what it does when a chain becomes another.

use std::net::SocketAddrV4;
use wayside_protocol::chain::{Ask, Client, Condition, Glance, Key, Link, Scope, Seen, Value, WatchId, Wish};
use wayside_protocol::{Outbox, RequestId, Time};
use wayside_wire::{
    BODY, Change, Effect, Header, Outcome, Part, Route, Routes, Watch, kind, limits, service, value_flag,
};

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
            sent.push((Header::read(packet.packet).expect("its own").kind, packet.to.map(|to| to.asked)));
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
        self.tell_groups(2, epoch, at);
    }

    fn tell_groups(&mut self, groups: u16, epoch: u32, at: SocketAddrV4) {
        let mut packet = vec![0; BODY + Routes::BYTES + usize::from(groups) * limits::BLOCK_BYTES];
        let count = groups as u8;
        let header = Header { service: service::CHAIN, kind: kind::chain::ROUTES, count, ..Header::default() };
        header.write(&mut packet);
        Routes { first: 0, base: 16, groups }.write(&mut packet, BODY);
        for group in 0..usize::from(groups) {
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

    fn write(&mut self) -> RequestId {
        let wish = Wish::Write(Value::default(), Condition::Always);
        let ask = Ask { key: Key::of(b"default", b"name").unwrap(), wish, deadline: None, port: 0 };
        let mut id = None;
        self.with(|client, link| id = Some(client.ask(link, &ask)));
        id.expect("it was asked")
    }

    fn watch(&mut self) -> WatchId {
        let mut id = None;
        self.with(|client, link| id = Some(client.watch(link, Scope::Prefix((*b"").into()))));
        id.expect("it was begun")
    }

    /// The questions of watches that were sent.
    fn asked(&mut self) -> Vec<Watch> {
        let mut asked = Vec::new();
        while let Some(packet) = self.out.pop(None) {
            if Header::read(packet.packet).expect("its own").kind == kind::chain::WATCH {
                asked.push(Watch::read(packet.packet, BODY));
            }
        }
        asked
    }

    /// An answer to one: a change of a key named `k`, or none.
    fn event(&mut self, asked: &Watch, outcome: Outcome, number: u64, version: Option<u64>) {
        let mut packet = [0; BODY + Watch::BYTES + Change::BYTES + limits::BLOCK_BYTES];
        let header = Header { service: service::CHAIN, kind: kind::chain::EVENT, count: 8, ..Header::default() };
        header.write(&mut packet);
        let changes = u16::from(version.is_some());
        Watch { outcome: outcome as u8, changes, history: 9, number, ..*asked }.write(&mut packet, BODY);
        let change = Change {
            epoch: 1,
            sequence: version.unwrap_or(0),
            name_length: 1,
            part: Part::Value as u8,
            flags: value_flag::PRESENT,
            ..Change::default()
        };
        change.write(&mut packet, BODY + Watch::BYTES);
        packet[BODY + Watch::BYTES + Change::BYTES] = b'k';
        self.with(|client, link| client.on_packet(link, &header, &packet));
    }

    fn wait(&mut self, micros: u64) {
        self.now = self.now + micros;
        self.with(|client, link| client.on_tick(link));
    }

    fn glance(&mut self, id: WatchId) -> Glance {
        let mut glance = Glance::Waiting;
        self.with(|client, link| glance = client.look(link, id));
        glance
    }

    /// All that a watch has seen: versions, and 0 where everything is to be read again.
    fn seen(&mut self, id: WatchId) -> Vec<u64> {
        let mut seen = Vec::new();
        loop {
            match self.glance(id) {
                Glance::Seen(Seen::Change(change)) => seen.push(change.version.sequence),
                Glance::Seen(Seen::Reread) => seen.push(0),
                _ => return seen,
            }
        }
    }
}

/// Two groups, both watched from position 1 on; their questions.
fn watching(world: &mut World) -> (WatchId, Vec<Watch>) {
    let id = world.watch();
    world.tell(1, BEFORE);
    let mut positioned = Vec::new();
    while positioned.len() < 2 {
        for asked in world.asked() {
            match asked.history {
                0 => world.event(&asked, Outcome::Done, 1, None),
                _ => positioned.push(asked),
            }
        }
        // One at a time fits into the outbox.
        world.with(|client, link| client.on_tick(link));
    }
    assert!(world.client.is_watching(id));
    (id, positioned)
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
    world.tell_groups(4, 1, BEFORE);
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
fn writes_that_are_given_up_while_others_have_all_lanes_leave_nothing() {
    let mut world = World::new();
    world.tell(1, BEFORE);
    for _ in 0..limits::MAX_LANES {
        world.write();
    }
    for _ in 0..10_000 {
        let id = world.write();
        world.with(|client, link| client.cancel(link, id));
    }
    assert!(world.client.waiting_for_lanes() <= 3 * limits::MAX_LANES, "{}", world.client.waiting_for_lanes());
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
fn a_lease_is_known_to_be_of_this_session_or_of_another() {
    // Of handle and low half of the incarnation.
    let cases = [(7, 1, true), (8, 1, false), (7, 2, false)];
    for (handle, owner, expected) in cases {
        let mut world = World::new();
        let ask = Ask { key: Key::of(b"default", b"name").unwrap(), wish: Wish::Read, deadline: None, port: 0 };
        let mut id = None;
        world.with(|client, link| id = Some(client.ask(link, &ask)));
        let id = id.expect("it was asked");
        world.tell(3, BEFORE);
        let header = Header {
            service: service::CHAIN,
            kind: kind::chain::ANSWER,
            epoch: 3,
            position: handle,
            ..Header::default()
        };
        let flags = value_flag::PRESENT | value_flag::LEASED;
        let effect = Effect { request: id.0, flags, outcome: Outcome::Done as u8, owner, ..Effect::default() };
        let mut packet = vec![0; BODY + Effect::BYTES];
        header.write(&mut packet);
        effect.write(&mut packet, BODY);
        world.with(|client, link| client.on_packet(link, &header, &packet));
        let answer = world.client.take(id).expect("it is answered");
        assert!(answer.is_leased);
        assert_eq!(answer.is_own, expected, "{handle} {owner}");
    }
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
