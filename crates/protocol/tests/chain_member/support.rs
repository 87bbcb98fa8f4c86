//! Switches with their daemons, and the wire between them: a queue of packets, each of which is delivered when a test
//! says so, or taken out. Time passes when a test says so, too.
#![allow(dead_code)] // Every module uses its own part.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use wayside_protocol::chain::memory::{Content, ItemMemory};
use wayside_protocol::chain::{
    FELLOWS, Following, GroupRoute, Groups, Key, Lease, Member, Place, Sent, Sweeping, Version, is_between_switches,
};
use wayside_protocol::memory::{Moment, NodeEntry, NodeWord, SwitchMemory};
use wayside_protocol::{Handle, Port, Time};
use wayside_switch::{Action, StoreConfig, Switch, SwitchConfig};
use wayside_wire::{
    BODY, Copied, Effect, Header, NodeState, Operation, Outcome, Placement, Policy, Renewal, Route, Routes, Watch,
    blocks, check, kind, limits, request_id, service, value_flag,
};

/// A namespace of two groups.
pub const SPACE: u16 = 3;
pub const SPACE_NAME: &[u8] = b"space";
pub const BASE: u16 = 10;
/// The epoch of the first chains.
pub const EPOCH: u32 = 5;
/// Clients have the handles from 1 to this.
pub const CLIENTS: Handle = 3;
/// Handle of the first switch; the others' follow.
pub const FIRST_SWITCH: Handle = 61;
pub const CONTROLLER: Handle = 71;
const HANDLES: Handle = 80;
/// Incarnation of a client's first session: handle and this.
const INCARNATION: u64 = 100;
/// Microseconds.
pub const RETRANSMIT: u64 = 1_000;
pub const COLLECT_AFTER: u64 = 100_000;
pub const LOOK_AGAIN: u64 = 70_000;
/// Ticks of a daemon at one moment: more, and it never rests.
const TICKS: usize = 1_000;
/// Packets that follow from one: more, and they never end.
const DELIVERIES: usize = 100_000;

/// What a world is made of. All switches have the same.
pub struct Setup {
    pub switches: usize,
    pub namespaces: Vec<Groups>,
    /// Keys that a switch has room for.
    pub keys: u32,
    pub sweeping: Sweeping,
    /// With a boot number of 0 places come from the test, and their lease never ends; otherwise from the controller.
    pub following: Following,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            switches: 3,
            namespaces: vec![groups(SPACE, SPACE_NAME, BASE, 2)],
            keys: 64,
            sweeping: Sweeping {
                collect_after: COLLECT_AFTER,
                looks: 512,
                retransmit: RETRANSMIT,
                look_again: LOOK_AGAIN,
            },
            following: Following::default(),
        }
    }
}

pub fn groups(namespace: u16, name: &[u8], base: u16, count: u16) -> Groups {
    Groups { namespace, name: name.into(), base, count }
}

/// A switch with its daemon.
pub struct Seat {
    pub switch: Arc<Switch>,
    pub member: Member<Arc<Switch>>,
    /// What it was given by its controller.
    pub leases: Vec<Lease>,
}

/// A packet on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// A switch, a client or the controller.
    pub from: Handle,
    pub to: Handle,
    /// The receiver's port; 0: its agent port.
    pub port: Port,
    pub packet: Vec<u8>,
}

/// What a packet says, by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// READ, WRITE, DELETE, INSERT.
    Operation(Operation),
    /// APPLY, INSTALL, ANSWER.
    Effect(Effect),
    /// MAP, ROUTES: with a route for each block.
    Routes(Routes, Vec<Route>),
    /// PLACE, PLACED.
    Placement(Placement),
    /// RENEW, RENEWED.
    Renewal(Renewal),
    /// FETCH, COPY, REMOVE, REMOVED.
    Copied(Copied),
    /// WATCH, EVENT.
    Watch(Watch),
}

impl Parcel {
    pub fn header(&self) -> Header {
        check(&self.packet).expect("a packet of the chain service")
    }

    pub fn kind(&self) -> u8 {
        self.header().kind
    }

    pub fn blocks(&self) -> &[u8] {
        blocks(&self.packet)
    }

    pub fn body(&self) -> Body {
        let (header, packet) = (self.header(), &self.packet);
        assert_eq!(header.service, service::CHAIN);
        match header.kind {
            kind::chain::READ | kind::chain::WRITE | kind::chain::DELETE | kind::chain::INSERT => {
                Body::Operation(Operation::read(packet, BODY))
            }
            kind::chain::APPLY | kind::chain::ANSWER | kind::chain::INSTALL => Body::Effect(Effect::read(packet, BODY)),
            kind::chain::MAP | kind::chain::ROUTES => {
                let at = |index: usize| BODY + Routes::BYTES + index * limits::BLOCK_BYTES;
                let routes = (0..header.count.into()).map(|index| Route::read(packet, at(index)));
                Body::Routes(Routes::read(packet, BODY), routes.collect())
            }
            kind::chain::PLACE | kind::chain::PLACED => Body::Placement(Placement::read(packet, BODY)),
            kind::chain::RENEW | kind::chain::RENEWED => Body::Renewal(Renewal::read(packet, BODY)),
            kind::chain::WATCH | kind::chain::EVENT => Body::Watch(Watch::read(packet, BODY)),
            _ => Body::Copied(Copied::read(packet, BODY)),
        }
    }

    pub fn effect(&self) -> Effect {
        match self.body() {
            Body::Effect(effect) => effect,
            other => panic!("no effect, but {other:?}"),
        }
    }

    pub fn copied(&self) -> Copied {
        match self.body() {
            Body::Copied(copied) => copied,
            other => panic!("nothing that switches say to each other, but {other:?}"),
        }
    }

    /// The version that it tells of.
    pub fn told(&self) -> Version {
        match self.body() {
            Body::Effect(effect) => told(&effect),
            Body::Copied(copied) => Version { epoch: copied.epoch, sequence: copied.sequence },
            other => panic!("{other:?} tells of no version"),
        }
    }

    /// The same with another header.
    pub fn headed(&self, change: impl FnOnce(&mut Header)) -> Parcel {
        let (mut header, mut packet) = (self.header(), self.packet.clone());
        change(&mut header);
        header.write(&mut packet);
        Parcel { packet, ..self.clone() }
    }

    /// The same with another effect.
    pub fn effected(&self, change: impl FnOnce(&mut Effect)) -> Parcel {
        let (mut effect, mut packet) = (self.effect(), self.packet.clone());
        change(&mut effect);
        effect.write(&mut packet, BODY);
        Parcel { packet, ..self.clone() }
    }

    /// The same with something else said of a key.
    pub fn copying(&self, change: impl FnOnce(&mut Copied)) -> Parcel {
        let (mut copied, mut packet) = (self.copied(), self.packet.clone());
        change(&mut copied);
        copied.write(&mut packet, BODY);
        Parcel { packet, ..self.clone() }
    }
}

pub fn told(effect: &Effect) -> Version {
    Version { epoch: effect.epoch, sequence: effect.sequence }
}

pub fn own(effect: &Effect) -> Version {
    Version { epoch: effect.own_epoch, sequence: effect.own_sequence }
}

pub fn version(epoch: u32, sequence: u64) -> Version {
    Version { epoch, sequence }
}

/// What has no value since this version.
pub fn nothing(version: Version) -> Option<Content> {
    Some(Content::nothing(version))
}

pub fn kinds(parcels: &[Parcel]) -> Vec<u8> {
    parcels.iter().map(Parcel::kind).collect()
}

/// Handle of a switch.
pub fn switch(seat: usize) -> Handle {
    FIRST_SWITCH + seat as Handle
}

/// The address of a party, and of the thread that asks for it.
pub fn address(handle: Handle) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, handle as u8), 20_000 + handle)
}

pub fn key(name: &[u8]) -> Key {
    key_in(SPACE_NAME, name)
}

pub fn key_in(namespace: &[u8], name: &[u8]) -> Key {
    Key::of(namespace, name).expect("a name")
}

/// The group of a key of [`SPACE`].
pub fn group_of(name: &[u8]) -> u16 {
    BASE + key(name).group(2)
}

/// The first names of this group.
pub fn names_of(group: u16) -> impl Iterator<Item = Vec<u8>> {
    (0..).map(|number| format!("key/{number}").into_bytes()).filter(move |name| group_of(name) == group)
}

pub struct World {
    pub seats: Vec<Seat>,
    pub now: u64,
    /// What is under way, in the order of its sending.
    pub wire: VecDeque<Parcel>,
    /// What has come to clients and to the controller.
    pub inboxes: BTreeMap<Handle, VecDeque<Parcel>>,
    requests: u64,
}

impl World {
    /// Switches without places.
    pub fn unplaced(setup: &Setup) -> World {
        let seats = (0..setup.switches).map(|seat| new_seat(setup, seat)).collect();
        let world = World { seats, now: 1_000_000, wire: VecDeque::new(), inboxes: BTreeMap::new(), requests: 0 };
        (1..=CLIENTS).for_each(|client| world.begin_session(client, 0));
        world
    }

    /// Every group has the chain of all switches, in their order.
    pub fn of(setup: &Setup) -> World {
        let mut world = World::unplaced(setup);
        let chain: Vec<usize> = (0..setup.switches).collect();
        for group in setup.namespaces.iter().flat_map(|groups| groups.base..groups.base + groups.count) {
            world.place(group, EPOCH, &chain);
        }
        world.rest();
        world
    }

    /// A chain of so many switches, of which all have swept once.
    pub fn new(switches: usize) -> World {
        World::of(&Setup { switches, ..Setup::default() })
    }

    // ---- places and sessions ----

    /// A group gets this chain, and all others hear where it is. Others that had a place keep it.
    pub fn place(&mut self, group: u16, epoch: u32, chain: &[usize]) {
        let route = route(epoch, chain);
        for seat in 0..self.seats.len() {
            let member = &mut self.seats[seat].member;
            match chain.iter().position(|other| *other == seat) {
                Some(at) => {
                    let neighbour = |at: Option<usize>| at.and_then(|at| chain.get(at)).map_or(0, |seat| switch(*seat));
                    let place = Place { epoch, previous: neighbour(at.checked_sub(1)), next: neighbour(Some(at + 1)) };
                    member.take_place(group, place, route);
                }
                None => member.learn_route(group, route),
            }
        }
    }

    /// A client's session of this count, at all switches. Its former one is over, as far as anybody can tell.
    pub fn begin_session(&self, client: Handle, count: u64) {
        for seat in &self.seats {
            seat.refuse(client);
            let entry =
                NodeEntry { address: address(client), namespace: SPACE, incarnation: incarnation(client) + count };
            seat.switch.set_node(client, &entry);
        }
    }

    /// All switches hear that a client's first session is over.
    pub fn end_session(&self, client: Handle) {
        self.seats.iter().for_each(|seat| seat.end_session(client));
    }

    // ---- the clock ----

    /// Time passes, and each daemon does what is due then.
    pub fn pass(&mut self, micros: u64) {
        self.now += micros;
        (0..self.seats.len()).for_each(|seat| self.tick(seat));
    }

    /// Microseconds until a daemon has something to do; `None`: never. It has much to do at once if it is 0.
    pub fn due_in(&self, seat: usize) -> Option<u64> {
        let due = self.seats[seat].member.next_timer();
        (due != Time::NEVER).then(|| due.0.saturating_sub(self.now))
    }

    /// A daemon does what is due.
    pub fn tick(&mut self, seat: usize) {
        for _ in 0..TICKS {
            if self.seats[seat].member.next_timer() > Time(self.now) {
                return;
            }
            self.tick_once(seat);
        }
        panic!("switch {seat} never rests");
    }

    /// One call of a daemon, due or not.
    pub fn tick_once(&mut self, seat: usize) {
        self.seats[seat].member.on_tick(Time(self.now));
        self.collect(seat);
    }

    /// Everybody does what is due, and all packets arrive.
    pub fn rest(&mut self) {
        self.pass(0);
        self.settle();
    }

    /// Time passes from one timer to the next, and all packets arrive at once.
    pub fn run(&mut self, micros: u64) {
        let end = self.now + micros;
        self.settle();
        while let Some(due) = (0..self.seats.len()).filter_map(|seat| self.due_in(seat)).min()
            && self.now + due <= end
        {
            self.pass(due);
            self.settle();
        }
        self.pass(end - self.now);
        self.settle();
    }

    // ---- the wire ----

    /// What a daemon has to say gets on its way.
    pub fn collect(&mut self, seat: usize) {
        let Seat { switch: memory, member, leases } = &mut self.seats[seat];
        while let Some(lease) = member.lease() {
            memory.serve_places_for(Moment { time: lease.since, tick: 0 }, lease.lasts);
            leases.push(lease);
        }
        while let Some(Sent { to, port, packet }) = member.transmit() {
            self.wire.push_back(Parcel { from: switch(seat), to, port, packet });
        }
    }

    /// A packet arrives: at a switch, which decides, or in an inbox.
    pub fn deliver(&mut self, parcel: Parcel) {
        let Parcel { from, to, port, mut packet } = parcel;
        let Some(seat) = (0..self.seats.len()).find(|seat| switch(*seat) == to) else {
            return self.inboxes.entry(to).or_default().push_back(Parcel { from, to, port, packet });
        };
        let now = Time(self.now);
        let verdict = self.seats[seat].switch.process(now, &mut packet, address(from));
        packet.truncate(verdict.length);
        let send = |to: Handle, port: Port, packet| Parcel { from: switch(seat), to, port, packet };
        match verdict.action {
            Action::Drop => {}
            Action::ToSender => self.wire.push_back(send(from, address(from).port(), packet)),
            Action::ToNode { handle, port } => self.wire.push_back(send(handle, port, packet)),
            Action::ToController => self.hand_over(seat, from, &packet),
        }
    }

    /// A packet is handed to a daemon, whatever the data plane would say to it.
    pub fn hand_over(&mut self, seat: usize, from: Handle, packet: &[u8]) {
        let (now, member) = (Time(self.now), &mut self.seats[seat].member);
        if check(packet).is_ok_and(|header| is_between_switches(header.kind)) {
            member.on_fellow(now, packet);
        } else {
            member.on_packet(now, address(from).port(), packet);
        }
        self.collect(seat);
    }

    /// The next packet arrives. False: there was none.
    pub fn step(&mut self) -> bool {
        let Some(parcel) = self.wire.pop_front() else { return false };
        self.deliver(parcel);
        true
    }

    /// All that is under way arrives, and what follows from it.
    pub fn settle(&mut self) {
        self.settle_but(|_| false);
    }

    /// All that is under way arrives, and what follows from it, but for what is lost.
    pub fn settle_but(&mut self, is_lost: impl Fn(&Parcel) -> bool) {
        for _ in 0..DELIVERIES {
            let Some(parcel) = self.wire.pop_front() else { return };
            if !is_lost(&parcel) {
                self.deliver(parcel);
            }
        }
        panic!("there is always one packet more");
    }

    /// These arrive one after the other; what follows from them gets on its way.
    pub fn deliver_all(&mut self, parcels: Vec<Parcel>) {
        parcels.into_iter().for_each(|parcel| self.deliver(parcel));
    }

    /// All that is under way is taken out of the wire.
    pub fn take(&mut self) -> Vec<Parcel> {
        self.wire.drain(..).collect()
    }

    /// What is under way to a switch is taken out of the wire.
    pub fn take_to(&mut self, to: Handle) -> Vec<Parcel> {
        let (taken, left): (Vec<Parcel>, Vec<Parcel>) = self.wire.drain(..).partition(|parcel| parcel.to == to);
        self.wire = left.into();
        taken
    }

    /// The only packet that is under way, which is of this kind, is taken out of the wire.
    pub fn take_only(&mut self, kind: u8) -> Parcel {
        let taken = self.take();
        assert_eq!(kinds(&taken), [kind]);
        taken.into_iter().next().expect("it is one")
    }

    /// What has come to somebody who is no switch, all at once.
    pub fn received(&mut self, handle: Handle) -> Vec<Parcel> {
        self.inboxes.remove(&handle).into_iter().flatten().collect()
    }

    /// A packet of a client or of the controller, with this body and these blocks, gets on its way.
    pub fn send(&mut self, from: Handle, seat: usize, header: Header, body: &[u8], content: &[u8]) {
        let count = content.len().div_ceil(limits::BLOCK_BYTES);
        let mut packet = vec![0; BODY + body.len() + count * limits::BLOCK_BYTES];
        let header =
            Header { service: service::CHAIN, count: count as u8, source: from, destination: switch(seat), ..header };
        header.write(&mut packet);
        packet[BODY..][..body.len()].copy_from_slice(body);
        packet[BODY + body.len()..][..content.len()].copy_from_slice(content);
        self.wire.push_back(Parcel { from, to: switch(seat), port: 0, packet });
    }

    // ---- clients ----

    /// A client's next request about a key of [`SPACE`].
    pub fn operation(&mut self, client: Handle, name: &[u8]) -> Operation {
        self.requests += 1;
        let Key { high, low, check } = key(name);
        Operation {
            key_high: high,
            key_low: low,
            check,
            request: request_id::with_incarnation(self.requests, incarnation(client) as u32),
            group: group_of(name),
            client,
            ..Operation::default()
        }
    }

    /// A client's packet gets on its way, with room for the longest value if it is a question.
    pub fn ask(&mut self, seat: usize, kind: u8, operation: &Operation, content: &[u8]) {
        let mut body = [0; Operation::BYTES];
        let room = [0; limits::MAX_VALUE_BYTES];
        let is_read = kind == kind::chain::READ;
        Operation { length: content.len() as u16, ..*operation }.write(&mut body, 0);
        let epoch = self.seats[seat].switch.place(operation.group).epoch;
        let header = Header { kind, epoch, namespace: SPACE, ..Header::default() };
        self.send(operation.client, seat, header, &body, if is_read { &room } else { content });
    }

    /// What a client that asks this is answered once all packets have arrived, if it is.
    fn answer(&mut self, kind: u8, client: Handle, flags: u16, name: &[u8], content: &[u8]) -> Option<Effect> {
        let operation = Operation { flags, ..self.operation(client, name) };
        let seat = self.seat_of(group_of(name), kind != kind::chain::READ);
        self.ask(seat, kind, &operation, content);
        self.settle();
        let answers = self.received(client);
        answers.iter().map(Parcel::effect).find(|effect| effect.request == operation.request)
    }

    /// The first client has a key made.
    pub fn insert(&mut self, name: &[u8]) -> Option<Outcome> {
        outcome(self.answer(kind::chain::INSERT, 1, 0, name, name))
    }

    /// A client writes. The version that it has made.
    pub fn write(&mut self, client: Handle, name: &[u8], value: &[u8]) -> Option<Version> {
        done(self.answer(kind::chain::WRITE, client, 0, name, value))
    }

    /// A client writes on a lease.
    pub fn lease(&mut self, client: Handle, name: &[u8], value: &[u8]) -> Option<Version> {
        done(self.answer(kind::chain::WRITE, client, value_flag::LEASED, name, value))
    }

    /// A client's write, of which the switches behind the head hear nothing. Its version.
    pub fn write_at_head(&mut self, client: Handle, flags: u16, name: &[u8], value: &[u8]) -> Version {
        let operation = Operation { flags, ..self.operation(client, name) };
        let seat = self.seat_of(group_of(name), true);
        self.ask(seat, kind::chain::WRITE, &operation, value);
        assert!(self.step());
        let apply = self.wire.pop_back().expect("it went on");
        assert_eq!(apply.kind(), kind::chain::APPLY);
        apply.told()
    }

    /// A client deletes.
    pub fn delete(&mut self, client: Handle, name: &[u8]) -> Option<Version> {
        done(self.answer(kind::chain::DELETE, client, 0, name, &[]))
    }

    /// What the tail has, as the second client reads it: its version.
    pub fn read(&mut self, name: &[u8]) -> Option<Version> {
        self.answer(kind::chain::READ, 2, 0, name, &[]).filter(|e| e.outcome == Outcome::Done as u8).map(|e| told(&e))
    }

    /// The head of a group, or its tail.
    pub fn seat_of(&self, group: u16, is_head: bool) -> usize {
        let is_it = |place: Place| if is_head { place.previous == 0 } else { place.next == 0 };
        let places = self.seats.iter().map(|seat| seat.switch.place(group));
        let latest = places.clone().map(|place| place.epoch).max().expect("there are switches");
        let found = places.clone().position(|place| place.epoch == latest && place.epoch != 0 && is_it(place));
        found.unwrap_or_else(|| panic!("group {group} has no such switch"))
    }

    /// What every switch has of a key.
    pub fn contents(&self, name: &[u8]) -> Vec<Option<Content>> {
        self.seats.iter().map(|seat| seat.switch.content(group_of(name), key(name))).collect()
    }

    /// The values that every switch has of a key.
    pub fn values(&self, name: &[u8]) -> Vec<Option<Vec<u8>>> {
        self.contents(name).iter().map(|content| content.as_ref().and_then(value)).collect()
    }
}

impl Seat {
    /// A client's packets are taken no more; whether its session is over is not known.
    pub fn refuse(&self, client: Handle) {
        let word = self.switch.node_word(client);
        self.switch.cas_node_word(client, word, NodeWord { state: NodeState::Expired, ..word });
    }

    /// It hears that a client's first session is over.
    pub fn end_session(&self, client: Handle) {
        self.refuse(client);
        self.switch.session_over(client, Some(incarnation(client)));
    }
}

/// Of a client's first session.
pub fn incarnation(client: Handle) -> u64 {
    INCARNATION + u64::from(client)
}

/// Where clients find a group that has this chain.
pub fn route(epoch: u32, chain: &[usize]) -> GroupRoute {
    let at = |seat: Option<&usize>| address(switch(*seat.expect("a chain of some length")));
    GroupRoute { epoch, head: at(chain.first()), tail: at(chain.last()) }
}

pub fn value(content: &Content) -> Option<Vec<u8>> {
    content.length.map(|length| content.bytes[..usize::from(length)].to_vec())
}

fn outcome(answer: Option<Effect>) -> Option<Outcome> {
    answer.map(|effect| Outcome::try_from(effect.outcome).expect("an outcome"))
}

fn done(answer: Option<Effect>) -> Option<Version> {
    answer.filter(|effect| effect.outcome == Outcome::Done as u8).map(|effect| own(&effect))
}

fn new_seat(setup: &Setup, seat: usize) -> Seat {
    let memory = Switch::new(SwitchConfig { slots: 1, max_handle: HANDLES })
        .with_store(StoreConfig { keys: setup.keys, seed: 7 + seat as u64 });
    memory.add_namespace(SPACE, 1, Policy::Fair).expect("there is a slot");
    memory.set_epoch(EPOCH);
    memory.set_serving(true);
    if setup.following.boot == 0 {
        memory.serve_places_without_end();
    } else {
        memory.serve_places_for(Moment { time: Time(0), tick: 0 }, 0);
    }
    let others = (0..setup.switches).filter(|other| *other != seat).map(switch).chain([CONTROLLER]);
    for other in others {
        memory.set_node(other, &NodeEntry { address: address(other), namespace: FELLOWS, incarnation: 1 });
    }
    let memory = Arc::new(memory);
    let member = Member::new(Arc::clone(&memory), switch(seat), setup.namespaces.clone())
        .sweeping(setup.sweeping)
        .following(setup.following.clone());
    Seat { switch: memory, member, leases: Vec::new() }
}
