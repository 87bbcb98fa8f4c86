//! Watches end to end, but for sockets: writers in the core, the journal, the daemon's histories, a network that
//! loses and reorders, and the client. What is told follows what was told before, version by version, or it is said
//! that something may be missing (docs/chain.md, Watches).

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use support::{NAMESPACE, enrol, expire, from, request};
use wayside_protocol::chain::memory::{ItemMemory, JournalMemory, Recorded};
use wayside_protocol::chain::{
    Change, Client, Glance, GroupRoute, Groups, Key, Link, Member, Place, Scope, Seen, Version, WatchId,
};
use wayside_protocol::memory::{Moment, NodeEntry, SwitchMemory};
use wayside_protocol::{Outbox, Time};
use wayside_switch::{Action, StoreConfig, Switch};
use wayside_wire::{BODY, Effect, Header, Operation, Outcome, Watch, check, kind, limits, service, value_flag};

const SPACE: &[u8] = b"space";
const BASE: u16 = 1;
const GROUPS: u16 = 2;
const EPOCH: u32 = 11;
const KEYS: u64 = 5;
/// The watcher's handle, and those of writers after it.
const WATCHER: u16 = 1;
const WRITERS: u16 = 3;
/// A step of virtual time, in microseconds.
const STEP: u64 = 100;
/// Times that nothing comes for 0.8 s, at most, before all has come: two were seen in 6,000 runs.
const RESTS: u64 = 100;

fn name(number: u64) -> String {
    format!("key/{number}")
}

fn key_of(name: &str) -> Key {
    Key::of(SPACE, name.as_bytes()).expect("a name")
}

fn group_of(key: Key) -> u16 {
    BASE + key.group(GROUPS)
}

fn operation_packet(
    kind: u8,
    client: u16,
    epoch: u32,
    key: Key,
    (lane, request): (u8, u64),
    content: &[u8],
) -> Vec<u8> {
    let count = content.len().div_ceil(limits::BLOCK_BYTES) as u8;
    let header = Header {
        service: service::CHAIN,
        kind,
        count,
        source: client,
        epoch,
        namespace: NAMESPACE,
        ..Header::default()
    };
    let operation = Operation {
        key_high: key.high,
        key_low: key.low,
        check: key.check,
        request,
        group: group_of(key),
        client,
        lane,
        length: content.len() as u16,
        ..Operation::default()
    };
    let mut packet = vec![0; BODY + Operation::BYTES + usize::from(count) * limits::BLOCK_BYTES];
    header.write(&mut packet);
    operation.write(&mut packet, BODY);
    packet[BODY + Operation::BYTES..][..content.len()].copy_from_slice(content);
    packet
}

/// A counter and a key's number, so long that a value has several blocks: torn it does not fit together.
fn value(number: u64, counter: u64) -> Vec<u8> {
    let words = 2 + (counter % 15) as usize;
    (0..words)
        .flat_map(|word| (counter.wrapping_mul(1 + word as u64) ^ number).to_be_bytes())
        .take(limits::MAX_VALUE_BYTES)
        .collect()
}

fn check_value(number: u64, bytes: &[u8]) {
    let counter = u64::from_be_bytes(bytes[..8].try_into().unwrap()) ^ number;
    assert_eq!(bytes, value(number, counter), "a torn value of key {number}");
}

/// Writes or deletes; the version made, unless the packet was dropped.
fn write(switch: &Switch, client: u16, epoch: u32, key: Key, counter: u64, content: Option<&[u8]>) -> Option<Version> {
    let kind = if content.is_some() { kind::chain::WRITE } else { kind::chain::DELETE };
    let mut packet =
        operation_packet(kind, client, epoch, key, (0, request(client, counter)), content.unwrap_or_default());
    let verdict = switch.process(Time(0), &mut packet, from(client));
    let effect = Effect::read(&packet, BODY);
    let is_done = verdict.action == Action::ToSender && effect.outcome == Outcome::Done as u8;
    is_done.then_some(Version { epoch: effect.own_epoch, sequence: effect.own_sequence })
}

/// The version that a READ finds, once it finds one.
fn read(switch: &Switch, number: u64) -> Version {
    let room = [0; limits::MAX_VALUE_BYTES];
    let key = key_of(&name(number));
    loop {
        let mut packet = operation_packet(kind::chain::READ, WATCHER, EPOCH, key, (0, 0), &room);
        if switch.process(Time(0), &mut packet, from(WATCHER)).action == Action::ToSender {
            let effect = Effect::read(&packet, BODY);
            return Version { epoch: effect.epoch, sequence: effect.sequence };
        }
    }
}

/// A packet on its way.
struct Sent {
    due: u64,
    to_switch: bool,
    packet: Vec<u8>,
}

/// A switch's daemon, one node that watches, and the network between them.
struct World {
    switch: Arc<Switch>,
    member: Member<Arc<Switch>>,
    client: Client,
    out: Outbox,
    now: u64,
    random: u64,
    /// Of a hundred packets so many are lost, as many come twice, and all within so many microseconds.
    lost: u64,
    late: u64,
    sent: Vec<Sent>,
    events: u64,
}

impl World {
    fn new(lost: u64, late: u64) -> World {
        let switch = support::switch(1, WATCHER + WRITERS).with_store(StoreConfig { keys: 200, seed: 7 });
        switch.serve_places_without_end();
        let switch = Arc::new(switch);
        let groups = Groups { namespace: NAMESPACE, name: SPACE.into(), base: BASE, count: GROUPS };
        let member = Member::new(Arc::clone(&switch), 0, vec![groups]).seeded(5);
        let mut client = Client::new(2_000, 100_000);
        client.start(u64::from(WATCHER) + 100, 1);
        let out = Outbox::new();
        let mut world =
            World { switch, member, client, out, now: 1_000, random: 77, lost, late, sent: Vec::new(), events: 0 };
        world.place(EPOCH);
        (0..KEYS).for_each(|number| world.insert(&name(number)));
        world
    }

    fn place(&mut self, epoch: u32) {
        let at = "10.0.0.9:7600".parse().unwrap();
        for group in BASE..BASE + GROUPS {
            let place = Place { epoch, previous: 0, next: 0 };
            self.member.take_place(group, place, GroupRoute { epoch, head: at, tail: at });
        }
    }

    /// The daemon makes a key, and knows its name.
    fn insert(&mut self, name: &str) {
        let key = key_of(name);
        let epoch = self.switch.place(group_of(key)).epoch;
        let packet = operation_packet(kind::chain::INSERT, 2, epoch, key, (0, request(2, 1)), name.as_bytes());
        self.member.on_packet(Time(self.now), 1, &packet);
        assert!(self.member.is_named(group_of(key), key));
        while self.member.transmit().is_some() {}
    }

    fn below(&mut self, most: u64) -> u64 {
        self.random = wayside_wire::mix(self.random);
        self.random % most.max(1)
    }

    fn post(&mut self, to_switch: bool, packet: &[u8]) {
        for copy in 0..2 {
            let is_sent = if copy == 0 { self.below(100) >= self.lost } else { self.below(100) < self.lost };
            if is_sent {
                let due = self.now + self.below(self.late);
                self.sent.push(Sent { due, to_switch, packet: packet.to_vec() });
            }
        }
    }

    fn with_client<R>(&mut self, work: impl FnOnce(&mut Client, &mut Link<'_>) -> R) -> R {
        let header = Header { source: WATCHER, epoch: support::EPOCH, namespace: NAMESPACE, ..Header::default() };
        let mut link = Link { now: Time(self.now), header, out: &mut self.out };
        let result = work(&mut self.client, &mut link);
        let mut packets = Vec::new();
        while let Some(transmit) = self.out.pop(None) {
            packets.push(transmit.packet.to_vec());
        }
        packets.iter().for_each(|packet| self.post(true, packet));
        result
    }

    fn watch(&mut self, scope: Scope) -> WatchId {
        self.with_client(|client, link| client.watch(link, scope))
    }

    fn look(&mut self, id: WatchId) -> Glance {
        self.with_client(|client, link| client.look(link, id))
    }

    fn step(&mut self) {
        self.now += STEP;
        let now = self.now;
        let (due, later) = std::mem::take(&mut self.sent).into_iter().partition(|sent| sent.due <= now);
        self.sent = later;
        let due: Vec<Sent> = due;
        for sent in due {
            if sent.to_switch { self.at_switch(sent.packet) } else { self.at_client(&sent.packet) }
        }
        if self.member.next_timer() <= Time(now) {
            self.member.on_tick(Time(now));
        }
        if self.client.next_timer() <= Time(now) {
            self.with_client(|client, link| client.on_tick(link));
        }
        while let Some(sent) = self.member.transmit() {
            assert_eq!(sent.to, WATCHER);
            self.post(false, &sent.packet);
        }
    }

    fn at_switch(&mut self, mut packet: Vec<u8>) {
        let verdict = self.switch.process(Time(self.now), &mut packet, from(WATCHER));
        packet.truncate(verdict.length);
        match verdict.action {
            Action::ToController => self.member.on_packet(Time(self.now), from(WATCHER).port(), &packet),
            Action::ToSender => self.post(false, &packet),
            Action::Drop | Action::ToNode { .. } => {}
        }
    }

    fn at_client(&mut self, packet: &[u8]) {
        let header = check(packet).expect("a packet of ours");
        self.events += u64::from(header.kind == kind::chain::EVENT);
        let header = Header::read(packet).expect("just checked");
        self.with_client(|client, link| client.on_packet(link, &header, packet));
    }

    fn run(&mut self, steps: u64) {
        (0..steps).for_each(|_| self.step());
    }

    /// Begins to watch, and waits until nothing is missed any more.
    fn begin(&mut self, scope: Scope) -> WatchId {
        let id = self.watch(scope);
        for _ in 0..100_000 {
            if self.client.is_watching(id) {
                return id;
            }
            self.step();
        }
        panic!("the watch does not begin");
    }

    /// All that there is to see once nothing comes any more.
    fn rest(&mut self, id: WatchId) -> Vec<Seen> {
        let mut seen = Vec::new();
        let mut idle = 0;
        while idle < 8_000 {
            self.step();
            idle += 1;
            while let Glance::Seen(next) = self.look(id) {
                idle = 0;
                seen.push(next);
            }
        }
        seen
    }

    fn version(&self, number: u64) -> Version {
        let key = key_of(&name(number));
        self.switch.content(group_of(key), key).expect("it is there").version
    }
}

fn prefix(of: &str) -> Scope {
    Scope::Prefix(of.as_bytes().into())
}

fn puts(seen: &[Seen]) -> Vec<(String, Option<Vec<u8>>)> {
    let of = |seen: &Seen| match seen {
        Seen::Change(Change { name, value, .. }) => {
            let name = name.as_ref().map_or_else(String::new, |name| String::from_utf8_lossy(name).into_owned());
            (name, value.map(|value| value.bytes().to_vec()))
        }
        Seen::Reread => ("reread".into(), None),
    };
    seen.iter().map(of).collect()
}

/// What a watcher of `key/` knows: the version of each key, by what it read and was told.
struct Ledger {
    known: BTreeMap<u64, Version>,
    changes: u64,
    rereads: u64,
}

impl Ledger {
    fn read(world: &World) -> Ledger {
        let known = (0..KEYS).map(|number| (number, world.version(number))).collect();
        Ledger { known, changes: 0, rereads: 0 }
    }

    fn see(&mut self, world: &World, seen: Seen) {
        let Seen::Change(change) = seen else {
            self.rereads += 1;
            self.known = Ledger::read(world).known;
            return;
        };
        let name = change.name.as_ref().expect("the daemon knows all names");
        let number: u64 = std::str::from_utf8(&name[4..]).unwrap().parse().unwrap();
        let known = self.known.get_mut(&number).expect("one of the keys");
        assert!(change.version > change.before, "{change:?}");
        assert!(read(&world.switch, number) >= change.version, "key {number} was told of before it could be read");
        // What was read may be told once more.
        if change.version <= *known {
            return;
        }
        assert_eq!(change.before, *known, "key {number}: something between the two was not told");
        *known = change.version;
        self.changes += 1;
        if let Some(value) = change.value {
            check_value(number, value.bytes());
        }
    }
}

/// Threads write while a watcher looks on, which takes what it has seen every so many steps.
fn hammer(lost: u64, late: u64, writes: u64, take_each: u64) -> Ledger {
    let mut world = World::new(lost, late);
    let id = world.begin(prefix("key/"));
    let mut ledger = Ledger::read(&world);
    let switch = Arc::clone(&world.switch);
    std::thread::scope(|scope| {
        let writer = |me: u16| {
            let switch = &switch;
            move || {
                for counter in 1..=writes {
                    let number = wayside_wire::mix(counter << 8 | u64::from(me)) % KEYS;
                    let content = (counter % 7 != 0).then(|| value(number, counter));
                    write(switch, me, EPOCH, key_of(&name(number)), counter, content.as_deref());
                    if counter % 16 == 0 {
                        std::thread::yield_now();
                    }
                }
            }
        };
        let writers: Vec<_> = (0..WRITERS).map(|index| scope.spawn(writer(WATCHER + 1 + index))).collect();
        let mut steps = 0;
        while !writers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            world.step();
            steps += 1;
            while steps % take_each == 0
                && let Glance::Seen(seen) = world.look(id)
            {
                ledger.see(&world, seen);
            }
        }
    });
    // Question and answer may be lost so often that all rest for a while before the last is told.
    for _ in 0..RESTS {
        for seen in world.rest(id) {
            ledger.see(&world, seen);
        }
        if (0..KEYS).all(|number| ledger.known[&number] == world.version(number)) {
            break;
        }
    }
    for number in 0..KEYS {
        assert_eq!(ledger.known[&number], world.version(number), "the last version of key {number} is known");
    }
    let written = world.switch.counter("written");
    println!("{written} written, {} told, {} rereads, {} events", ledger.changes, ledger.rereads, world.events);
    ledger
}

#[test]
fn nothing_is_missed_while_threads_write() {
    let ledger = hammer(0, 200, 3_000, 1);
    assert!(ledger.changes > 1_000, "hardly anything was told: {}", ledger.changes);
}

#[test]
fn nothing_is_missed_when_packets_are_lost_come_twice_and_out_of_order() {
    let ledger = hammer(20, 3_000, 2_000, 1);
    assert!(ledger.changes > 100, "hardly anything was told: {}", ledger.changes);
}

#[test]
fn who_takes_nothing_for_long_is_told_that_something_is_missing() {
    let ledger = hammer(0, 200, 30_000, u64::MAX);
    assert!(ledger.rereads > 0, "{} changes, and nothing was missing", ledger.changes);
}

#[test]
fn a_key_is_told_of_alone_and_a_prefix_of_its_own() {
    let mut world = World::new(0, 200);
    let (one, all) = (world.begin(Scope::Key(key_of("key/1"))), world.begin(prefix("key/")));
    let none = world.begin(prefix("other/"));
    for number in 0..KEYS {
        assert!(write(&world.switch, 2, EPOCH, key_of(&name(number)), 10 + number, Some(b"v")).is_some());
    }
    assert!(write(&world.switch, 2, EPOCH, key_of("key/1"), 100, None).is_some());
    let told = world.rest(one);
    assert_eq!(puts(&told), [(String::new(), Some(b"v".to_vec())), (String::new(), None)]);
    let told = puts(&world.rest(all));
    assert_eq!(told.len(), KEYS as usize + 1);
    assert!(told.iter().all(|(name, _)| name.starts_with("key/")), "{told:?}");
    assert_eq!(world.rest(none), []);
}

#[test]
fn names_of_any_length_come_whole() {
    let mut world = World::new(10, 2_000);
    let lengths = [1, 31, 32, 33, 479, 480, 481, 800, 928, 929, 959, 960];
    let names: Vec<String> = lengths.iter().map(|&length| "n".repeat(length)).collect();
    names.iter().for_each(|name| world.insert(name));
    let id = world.begin(prefix("n"));
    let content = [b'v'; limits::MAX_VALUE_BYTES];
    for (counter, name) in names.iter().enumerate() {
        let length = counter * 11 % (limits::MAX_VALUE_BYTES + 1);
        assert!(write(&world.switch, 2, EPOCH, key_of(name), 10 + counter as u64, Some(&content[..length])).is_some());
    }
    let told = world.rest(id);
    let mut told: BTreeMap<String, Option<Vec<u8>>> = puts(&told).into_iter().collect();
    for (counter, name) in names.iter().enumerate() {
        let length = counter * 11 % (limits::MAX_VALUE_BYTES + 1);
        assert_eq!(told.remove(name), Some(Some(content[..length].to_vec())), "{} bytes", name.len());
    }
    assert!(told.is_empty());
}

#[test]
fn another_epoch_of_the_group_is_another_history() {
    let mut world = World::new(0, 200);
    let id = world.begin(prefix("key/"));
    write(&world.switch, 2, EPOCH, key_of("key/1"), 10, Some(b"before"));
    assert_eq!(puts(&world.rest(id)), [("key/1".into(), Some(b"before".to_vec()))]);
    world.place(EPOCH + 1);
    write(&world.switch, 2, EPOCH + 1, key_of("key/1"), 11, Some(b"after"));
    let told = puts(&world.rest(id));
    assert_eq!(told[0].0, "reread", "{told:?}");
    write(&world.switch, 2, EPOCH + 1, key_of("key/1"), 12, Some(b"later"));
    assert_eq!(puts(&world.rest(id)), [("key/1".into(), Some(b"later".to_vec()))]);
}

#[test]
fn who_is_no_tail_any_more_or_has_no_lease_tells_nothing() {
    let mut world = World::new(0, 200);
    let id = world.begin(prefix("key/"));
    world.run(1_000);
    // Nobody asks anew; the watch waits at the daemon.
    let lease_ends = Moment { time: Time(world.now), tick: 0 };
    world.switch.serve_places_for(lease_ends, 1);
    // Whoever writes was here before the end of the lease.
    let key = key_of("key/1");
    assert!(write(&world.switch, 2, EPOCH, key, 10, Some(b"x")).is_some());
    assert_eq!(world.rest(id), [], "the lease is over");
    world.switch.serve_places_without_end();
    assert_eq!(puts(&world.rest(id)), [("key/1".into(), Some(b"x".to_vec()))]);
    // Another switch is behind this one from now on.
    for group in BASE..BASE + GROUPS {
        world.switch.set_place(group, NAMESPACE, Place { epoch: EPOCH, previous: 0, next: 9 });
    }
    let mut packet = operation_packet(kind::chain::WRITE, 2, EPOCH, key, (0, request(2, 11)), b"y");
    world.switch.process(Time(0), &mut packet, from(2));
    assert_eq!(world.switch.content(group_of(key), key).expect("it is there").bytes[0], b'y');
    assert_eq!(world.rest(id), [], "it is not the tail");
}

#[test]
fn nobody_is_told_what_another_session_of_his_handle_watched() {
    let mut world = World::new(0, 200);
    let id = world.begin(prefix("key/"));
    world.run(1_000);
    let told = world.events;
    expire(&world.switch, WATCHER);
    let address = "10.0.0.1:10001".parse().unwrap();
    world.switch.set_node(WATCHER, &NodeEntry { address, namespace: NAMESPACE + 1, incarnation: 999 });
    write(&world.switch, 2, EPOCH, key_of("key/1"), 10, Some(b"secret"));
    assert_eq!(world.rest(id), []);
    assert_eq!(world.events, told, "no packet went to another tenant's session");
}

#[test]
fn a_watch_of_another_namespace_is_none() {
    let mut world = World::new(0, 200);
    enrol(&world.switch, 7, NAMESPACE + 1);
    let asked = Watch { group: BASE, client: 7, request: 1, ..Watch::default() };
    let header = Header {
        service: service::CHAIN,
        kind: kind::chain::WATCH,
        source: 7,
        epoch: EPOCH,
        namespace: NAMESPACE + 1,
        ..Header::default()
    };
    let mut packet = vec![0; BODY + Watch::BYTES];
    header.write(&mut packet);
    asked.write(&mut packet, BODY);
    assert_eq!(world.switch.process(Time(0), &mut packet.clone(), from(7)).action, Action::Drop);
    // Even if the data plane let it pass.
    world.member.on_packet(Time(world.now), 1, &packet);
    Header { namespace: NAMESPACE, ..header }.write(&mut packet);
    world.member.on_packet(Time(world.now), 1, &packet);
    assert_eq!(world.member.transmit(), None);
}

/// Node 2 watches once more, by a question that waits after one for the position. Whether that was refused.
fn is_refused(world: &mut World, number: u64) -> bool {
    let asked = Watch { group: BASE, client: 2, request: request(2, number), ..Watch::default() };
    let mut position = (0, 0);
    for _ in 0..2 {
        let header = Header {
            service: service::CHAIN,
            kind: kind::chain::WATCH,
            count: limits::MAX_BLOCKS as u8,
            source: 2,
            epoch: EPOCH,
            namespace: NAMESPACE,
            ..Header::default()
        };
        let mut packet = vec![0; BODY + Watch::BYTES + limits::MAX_BLOCKS * limits::BLOCK_BYTES];
        header.write(&mut packet);
        Watch { history: position.0, number: position.1, ..asked }.write(&mut packet, BODY);
        world.member.on_packet(Time(world.now), 1, &packet);
        let Some(sent) = world.member.transmit() else { return false };
        let event = Watch::read(&sent.packet, BODY);
        if event.outcome == Outcome::Full as u8 {
            return true;
        }
        position = (event.history, event.number);
    }
    panic!("a question with a position waits");
}

#[test]
fn watches_that_wait_are_bounded() {
    let mut world = World::new(0, 200);
    let refused = (0..400).filter(|&number| is_refused(&mut world, number)).count();
    assert_eq!(refused, 400 - 256, "of a node 256 wait");
}

#[test]
fn watches_that_nobody_repeats_make_room_for_others() {
    let mut world = World::new(0, 200);
    assert_eq!((0..256).filter(|&number| is_refused(&mut world, number)).count(), 0);
    world.now += 900_000;
    assert!(is_refused(&mut world, 256), "all of them may be wanted yet");
    world.now += 200_000;
    assert_eq!((300..556).filter(|&number| is_refused(&mut world, number)).count(), 0);
    assert!(is_refused(&mut world, 556), "none of those is given up");
    // What waits is counted anew from time to time.
    world.member.on_tick(Time(world.now));
    assert_eq!(world.member.watched().waiting, 256);
    assert!(is_refused(&mut world, 557));
}

#[test]
fn watches_of_a_session_that_is_over_make_room_for_the_next() {
    let mut world = World::new(0, 200);
    assert_eq!((0..256).filter(|&number| is_refused(&mut world, number)).count(), 0);
    assert!(is_refused(&mut world, 256));
    let address = "10.0.0.1:10002".parse().unwrap();
    world.switch.set_node(2, &NodeEntry { address, namespace: NAMESPACE, incarnation: 999 });
    assert_eq!((300..556).filter(|&number| is_refused(&mut world, number)).count(), 0);
}

#[test]
fn after_a_loss_nothing_is_noted_for_nobody() {
    let mut world = World::new(0, 200);
    world.begin(prefix("key/"));
    world.run(100);
    let put = |world: &World, counter| {
        write(&world.switch, 2, EPOCH, key_of("key/1"), counter, Some(b"v")).expect("written");
        world.switch.drawn()
    };
    let before = put(&world, 10);
    assert_eq!(put(&world, 11), before + 1, "as long as somebody watches");
    (12..10_000).for_each(|counter| {
        put(&world, counter);
    });
    world.now += 10_000;
    world.member.on_tick(Time(world.now));
    assert_eq!(world.member.watched().overruns, 1);
    let before = put(&world, 10_000);
    assert_eq!(put(&world, 10_001), before);
}

#[test]
fn a_journal_that_went_round_is_said_to_have() {
    let mut world = World::new(0, 200);
    let id = world.begin(prefix("key/"));
    // Without a step in between: nobody takes the journal.
    for counter in 0..5_000 {
        write(&world.switch, 2, EPOCH, key_of("key/1"), 10 + counter, Some(&counter.to_be_bytes())).expect("written");
    }
    let told = puts(&world.rest(id));
    assert_eq!(told[0].0, "reread", "{:?}", &told[..told.len().min(3)]);
    write(&world.switch, 2, EPOCH, key_of("key/1"), 9_000, Some(b"on")).expect("written");
    assert_eq!(puts(&world.rest(id)), [("key/1".into(), Some(b"on".to_vec()))]);
}

#[test]
fn records_are_read_whole_or_not() {
    let switch = World::new(0, 200).switch;
    switch.watch_groups(BASE..BASE + GROUPS, true);
    let key = key_of("key/1");
    let before = switch.content(group_of(key), key).expect("it is there").version;
    assert_eq!(switch.record(switch.drawn() + 1), Recorded::Awaited);
    let version = write(&switch, 2, EPOCH, key, 10, Some(b"one")).expect("written");
    let Recorded::Record(record) = switch.record(switch.drawn()) else { panic!("it has been written") };
    assert_eq!((record.before, record.content.version, record.key), (before, version, key));
    assert_eq!(Some(record.content), switch.content(group_of(key), key));
    let first = switch.drawn();
    for counter in 0..4_096 {
        write(&switch, 2, EPOCH, key, 11 + counter, Some(b"more")).expect("written");
    }
    assert_eq!(switch.record(first), Recorded::Overwritten);
    switch.watch_groups(BASE..BASE + GROUPS, false);
    let drawn = switch.drawn();
    write(&switch, 2, EPOCH, key, 9_000, Some(b"unseen")).expect("written");
    assert_eq!(switch.drawn(), drawn, "nobody watches");
}

/// The daemon takes the value away, and the data plane has no part in it.
#[test]
fn the_end_of_a_lease_is_told() {
    let mut world = World::new(0, 200);
    let id = world.begin(prefix("key/"));
    let key = key_of("key/1");
    let mut packet = operation_packet(kind::chain::WRITE, 2, EPOCH, key, (0, request(2, 10)), b"mine");
    let operation = Operation { flags: value_flag::LEASED, ..Operation::read(&packet, BODY) };
    operation.write(&mut packet, BODY);
    assert_eq!(world.switch.process(Time(0), &mut packet, from(2)).action, Action::ToSender);
    let leased = world.version(1);
    let ended = world.switch.end_lease(group_of(key), key, leased, EPOCH).expect("it is leased");
    let told = world.rest(id);
    assert_eq!(puts(&told), [("key/1".into(), Some(b"mine".to_vec())), ("key/1".into(), None)]);
    let Seen::Change(change) = &told[1] else { panic!("{told:?}") };
    assert_eq!((change.before, change.version), (leased, ended.version));
}
