//! A chain client, its clock, and the packets of its map and switches.

use std::net::{Ipv4Addr, SocketAddrV4};
use wayside_protocol::chain::{
    Answer, Ask, Client, Condition, Ended, Glance, Key, Link, Scope, Seen, Told, Value, WatchId, Wish,
};
use wayside_protocol::{Ends, Outbox, Port, RequestId, Time};
use wayside_wire::{
    BODY, Change, Effect, Header, Operation, Outcome, Part, Route, Routes, Watch, blocks, check, kind, limits, service,
    value_flag,
};

/// Pauses of the client, in microseconds.
pub const FIRST: u64 = 5_000;
pub const MOST: u64 = 1_000_000;
pub const BEFORE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 7600);
pub const AFTER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 7600);
/// Of a chain of two switches.
pub const HEAD: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 3), 7601);
pub const TAIL: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 4), 7602);
/// Number of the namespace's first group.
pub const BASE: u16 = 16;
/// Handle of the client.
pub const OWN: u16 = 7;
/// Groups in a page of the map.
pub const PAGE: u16 = limits::MAX_BLOCKS as u16;

/// A packet that the client has sent.
pub struct Packet {
    pub header: Header,
    pub port: Port,
    pub to: Option<Ends>,
    bytes: Vec<u8>,
}

impl Packet {
    pub fn operation(&self) -> Operation {
        Operation::read(&self.bytes, BODY)
    }

    pub fn question(&self) -> Watch {
        Watch::read(&self.bytes, BODY)
    }

    /// First group of the page that a MAP asks for.
    pub fn page(&self) -> u16 {
        Routes::read(&self.bytes, BODY).first
    }

    pub fn blocks(&self) -> &[u8] {
        blocks(&self.bytes)
    }

    pub fn asked(&self) -> Option<SocketAddrV4> {
        self.to.map(|to| to.asked)
    }
}

pub struct World {
    pub client: Client,
    pub out: Outbox,
    pub now: Time,
}

impl World {
    pub fn new() -> World {
        World::pausing(FIRST, MOST)
    }

    pub fn pausing(first: u64, most: u64) -> World {
        let mut world = World::without_session(first, most);
        world.client.start(1, 1);
        world
    }

    pub fn without_session(first: u64, most: u64) -> World {
        World { client: Client::new(first, most), out: Outbox::new(), now: Time(1_000_000) }
    }

    /// One that knows this many groups, whose chains have head and tail, of epoch 1.
    pub fn knowing(groups: u16) -> World {
        let mut world = World::new();
        world.want_map();
        world.map(groups, 1, HEAD, TAIL);
        world.packets();
        world
    }

    /// By a read that is given up at once.
    fn want_map(&mut self) {
        let id = self.read(b"name");
        self.with(|client, link| client.cancel(link, id));
    }

    pub fn with<R>(&mut self, act: impl FnOnce(&mut Client, &mut Link<'_>) -> R) -> R {
        let header = Header { service: service::CHAIN, source: OWN, namespace: 1, ..Header::default() };
        act(&mut self.client, &mut Link { now: self.now, header, out: &mut self.out })
    }

    // ---- what is sent ----

    pub fn packets(&mut self) -> Vec<Packet> {
        let mut packets = Vec::new();
        while let Some(sent) = self.out.pop(None) {
            let header = check(sent.packet).expect("a packet");
            assert_eq!((header.service, header.source, header.namespace), (service::CHAIN, OWN, 1));
            packets.push(Packet { header, port: sent.port, to: sent.to, bytes: sent.packet.to_vec() });
        }
        packets
    }

    /// The only packet that was sent.
    #[track_caller]
    pub fn packet(&mut self) -> Packet {
        let mut packets = self.packets();
        let kinds: Vec<u8> = packets.iter().map(|packet| packet.header.kind).collect();
        assert_eq!(packets.len(), 1, "of kinds {kinds:?}");
        packets.remove(0)
    }

    /// What was sent: kinds, and where to.
    pub fn sent(&mut self) -> Vec<(u8, Option<SocketAddrV4>)> {
        self.packets().iter().map(|packet| (packet.header.kind, packet.asked())).collect()
    }

    /// What was sent of this kind: the ids of the requests.
    pub fn ids_of(&mut self, kind: u8) -> Vec<u64> {
        let packets = self.packets();
        packets.iter().filter(|packet| packet.header.kind == kind).map(|packet| packet.operation().request).collect()
    }

    /// First groups of the pages that were asked for.
    pub fn pages(&mut self) -> Vec<u16> {
        let packets = self.packets();
        packets.iter().filter(|packet| packet.header.kind == kind::chain::MAP).map(Packet::page).collect()
    }

    /// The questions of watches that were sent.
    pub fn asked(&mut self) -> Vec<Watch> {
        let packets = self.packets();
        packets.iter().filter(|packet| packet.header.kind == kind::chain::WATCH).map(Packet::question).collect()
    }

    /// Frames are used again: those that come next were full of something else.
    pub fn soil_frames(&mut self) {
        for _ in 0..4 {
            let header = Header { service: service::CHAIN, ..Header::default() };
            self.out.body(0, header, limits::MAX_PACKET_BYTES - BODY, |packet, at| packet[at..].fill(0xff));
        }
        while self.out.pop(None).is_some() {}
    }

    // ---- time ----

    /// Microseconds until something is due. None: nothing ever is.
    pub fn due_in(&mut self) -> Option<u64> {
        let due = self.client.next_timer();
        (due != Time::NEVER).then(|| due.0.saturating_sub(self.now.0))
    }

    /// To the next timer.
    pub fn go_on(&mut self) {
        let due = self.client.next_timer();
        assert!(due != Time::NEVER && due > Time(0));
        self.now = self.now.max(due);
        self.tick();
    }

    /// To the next timer, and on until all that is due by then has been sent: an outbox is full of little.
    pub fn all_due(&mut self) -> Vec<Packet> {
        self.go_on();
        let mut packets = self.packets();
        while self.client.next_timer() <= self.now {
            self.tick();
            packets.extend(self.packets());
        }
        packets
    }

    pub fn tick(&mut self) {
        self.with(|client, link| client.on_tick(link));
    }

    pub fn wait(&mut self, micros: u64) {
        self.now = self.now + micros;
        self.tick();
    }

    /// From timer to timer for so long: what is sent, and when, from now on.
    pub fn times(&mut self, micros: u64) -> Vec<(u64, u8)> {
        let (begun, mut times) = (self.now, Vec::new());
        while self.client.next_timer() <= begun + micros {
            self.go_on();
            let at = self.now.since(begun);
            times.extend(self.packets().iter().map(|packet| (at, packet.header.kind)));
        }
        self.now = begun + micros;
        times
    }

    // ---- the map ----

    /// The first page of two groups, which are both there since this epoch.
    pub fn tell(&mut self, epoch: u32, at: SocketAddrV4) {
        self.map(2, epoch, at, at);
    }

    /// The first page, all of whose groups have the same chain.
    pub fn map(&mut self, groups: u16, epoch: u32, head: SocketAddrV4, tail: SocketAddrV4) {
        self.map_page(0, groups, &vec![(epoch, head, tail); usize::from(groups.min(PAGE))]);
    }

    /// Somebody is told that these groups are of another chain by now, and the map where that is.
    pub fn becomes(&mut self, groups: u16, epoch: u32, at: SocketAddrV4) {
        let id = self.read(b"moved");
        self.answer_of(epoch, id.0, Outcome::Moved);
        self.cancel(id);
        self.packets();
        self.map(groups, epoch, at, at);
    }

    /// A page, from its first group on.
    pub fn map_page(&mut self, first: u16, groups: u16, routes: &[(u32, SocketAddrV4, SocketAddrV4)]) {
        let mut body = vec![0; Routes::BYTES + routes.len() * limits::BLOCK_BYTES];
        Routes { first, base: BASE, groups }.write(&mut body, 0);
        for (index, &(epoch, head, tail)) in routes.iter().enumerate() {
            let route = Route {
                epoch,
                head_address: u32::from(*head.ip()),
                head_port: head.port(),
                tail_address: u32::from(*tail.ip()),
                tail_port: tail.port(),
            };
            route.write(&mut body, Routes::BYTES + index * limits::BLOCK_BYTES);
        }
        let header = Header { kind: kind::chain::ROUTES, count: routes.len() as u8, ..Header::default() };
        self.receive(header, &body);
    }

    /// A packet of the chain service.
    pub fn receive(&mut self, header: Header, body: &[u8]) {
        let header = Header { service: service::CHAIN, destination: OWN, ..header };
        let mut packet = vec![0; BODY + body.len()];
        header.write(&mut packet);
        packet[BODY..].copy_from_slice(body);
        self.with(|client, link| client.on_packet(link, &header, &packet));
    }

    // ---- requests ----

    pub fn ask(&mut self, wish: Wish, key: Key) -> RequestId {
        self.with(|client, link| client.ask(link, &Ask { key, wish, deadline: None, port: 0 }))
    }

    /// One that waits so long at most.
    pub fn ask_for(&mut self, wish: Wish, key: Key, micros: u64) -> RequestId {
        let deadline = Some(self.now + micros);
        self.with(|client, link| client.ask(link, &Ask { key, wish, deadline, port: 0 }))
    }

    pub fn read(&mut self, name: &[u8]) -> RequestId {
        self.ask(Wish::Read, named(name))
    }

    pub fn write(&mut self) -> RequestId {
        self.ask(Wish::Write(Value::default(), Condition::Always), named(b"name"))
    }

    pub fn cancel(&mut self, id: RequestId) {
        self.with(|client, link| client.cancel(link, id));
    }

    pub fn insert(&mut self, id: RequestId, name: &[u8]) {
        self.with(|client, link| client.insert(link, id, name));
    }

    /// ANSWER: this outcome and nothing else, from a chain of epoch 1.
    pub fn answer(&mut self, request: u64, outcome: Outcome) {
        self.answer_of(1, request, outcome);
    }

    pub fn answer_of(&mut self, epoch: u32, request: u64, outcome: Outcome) {
        self.answer_with(
            Header { epoch, ..Header::default() },
            Effect { request, outcome: outcome as u8, ..Effect::default() },
            b"",
        );
    }

    pub fn answer_with(&mut self, header: Header, effect: Effect, value: &[u8]) {
        let mut body = vec![0; Effect::BYTES + value.len().next_multiple_of(limits::BLOCK_BYTES)];
        effect.write(&mut body, 0);
        body[Effect::BYTES..][..value.len()].copy_from_slice(value);
        let count = value.len().div_ceil(limits::BLOCK_BYTES) as u8;
        self.receive(Header { kind: kind::chain::ANSWER, count, ..header }, &body);
    }

    pub fn told(&mut self) -> Vec<(RequestId, Told)> {
        std::iter::from_fn(|| self.client.told()).collect()
    }

    /// What a request was answered.
    pub fn taken(&mut self, id: RequestId) -> Option<Answer> {
        self.client.take(id)
    }

    pub fn ended(&mut self, id: RequestId) -> Option<Ended> {
        self.taken(id).map(|answer| answer.ended)
    }

    // ---- watches ----

    /// Of all keys.
    pub fn watch(&mut self) -> WatchId {
        self.watch_of(Scope::Prefix((*b"").into()))
    }

    pub fn watch_of(&mut self, scope: Scope) -> WatchId {
        self.with(|client, link| client.watch(link, scope))
    }

    /// An answer to a question, of history 9: a change of a key named `k`, or none.
    pub fn event(&mut self, asked: &Watch, outcome: Outcome, number: u64, version: Option<u64>) {
        let change = version.map(|sequence| (change_to(sequence), &b"k"[..], &b""[..]));
        self.event_of(Watch { outcome: outcome as u8, history: 9, number, ..*asked }, change.as_slice());
    }

    /// EVENT, with changes, their names and their values.
    pub fn event_of(&mut self, event: Watch, changes: &[(Change, &[u8], &[u8])]) {
        let mut body = vec![0; Watch::BYTES];
        Watch { changes: changes.len() as u16, ..event }.write(&mut body, 0);
        for (change, name, value) in changes {
            let mut told = [0; Change::BYTES];
            let (name_length, length) = (name.len() as u16, value.len() as u16);
            Change { name_length, length, ..*change }.write(&mut told, 0);
            for part in [&told, *name, *value] {
                body.extend_from_slice(part);
                body.resize(body.len().next_multiple_of(limits::BLOCK_BYTES), 0);
            }
        }
        let count = ((body.len() - Watch::BYTES) / limits::BLOCK_BYTES) as u8;
        self.receive(Header { kind: kind::chain::EVENT, count, ..Header::default() }, &body);
    }

    pub fn told_watches(&mut self) -> Vec<WatchId> {
        std::iter::from_fn(|| self.client.told_watch()).collect()
    }

    pub fn glance(&mut self, id: WatchId) -> Glance {
        self.with(|client, link| client.look(link, id))
    }

    /// All that a watch has seen: versions, and 0 where everything is to be read again.
    pub fn seen(&mut self, id: WatchId) -> Vec<u64> {
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

pub fn named(name: &[u8]) -> Key {
    Key::of(b"default", name).expect("a name")
}

/// A key of this group, of so many.
pub fn key_in(group: u16, groups: u16) -> Key {
    let high = (u128::from(group) << 64).div_ceil(u128::from(groups)) as u64;
    let key = Key { high, low: 5, check: 6 };
    assert_eq!(key.group(groups), group);
    key
}

pub fn value(content: &[u8]) -> Value {
    Value::new(content).expect("a short one")
}

/// A change, with a value, of epoch 1.
pub fn change_to(sequence: u64) -> Change {
    Change { epoch: 1, sequence, part: Part::Value as u8, flags: value_flag::PRESENT, ..Change::default() }
}

/// Two groups, both watched from position 1 on; their questions.
pub fn watching(world: &mut World) -> (WatchId, Vec<Watch>) {
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
        world.tick();
    }
    assert!(world.client.is_watching(id));
    (id, positioned)
}
