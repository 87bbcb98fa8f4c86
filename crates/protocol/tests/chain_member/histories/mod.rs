//! What those who watch are told: a daemon's histories, by a journal that is written by the test (docs/chain.md,
//! Watches).

mod journal;
mod pages;
mod room;
mod waiting;

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;

use wayside_protocol::chain::memory::{Content, Record};
use wayside_protocol::chain::{GroupRoute, Groups, Key, Member, Place, Sweeping, Version};
use wayside_protocol::{Handle, Time};
use wayside_wire::{
    BODY, Change, Copied, Effect, Header, Outcome, Part, Scope, Watch, check, kind, limits, service, value_flag,
};

use crate::paper::{Paper, Script};

const SPACE: u16 = 1;
const BASE: u16 = 10;
/// Another namespace, of one group.
const OTHER: u16 = 2;
const OTHER_BASE: u16 = 5_000;
const EPOCH: u32 = 7;
/// Handles of the switch and of the one before it. There is none after it.
const OWN: Handle = 60;
const BEFORE: Handle = 61;
/// Microseconds: between two looks into the journal, for which a watch waits that is not repeated, before nothing is
/// kept where nobody watches, and before a journal that was lost is begun anew.
const LOOK: u64 = 1_000;
const PATIENCE: u64 = 2_000_000;
const IDLE: u64 = 10_000_000;
const REST: u64 = 20_000;
/// Where a history begins, and how far a change takes a position on.
const FIRST: u64 = 4;
const CHANGE: u64 = 4;
/// When a world begins.
const BEGIN: u64 = 1_000_000;
/// A daemon without watches wants nothing before that.
const FAR: u64 = 1 << 60;

/// A position: history, and number in it.
type Position = (u64, u64);
const NONE: Position = (0, 0);

/// A tail's daemon.
struct World {
    member: Member<Paper>,
    script: Rc<RefCell<Script>>,
    now: u64,
}

/// What a client wants to hear.
#[derive(Clone)]
struct Question {
    namespace: u16,
    /// Blocks.
    room: u8,
    watch: Watch,
    content: Vec<u8>,
}

/// What it is told.
#[derive(Debug, PartialEq)]
struct Event {
    header: Header,
    watch: Watch,
    changes: Vec<Told>,
}

/// A change, or a piece of its name.
#[derive(Debug, PartialEq)]
struct Told {
    part: u8,
    name: Vec<u8>,
    value: Option<Vec<u8>>,
    version: Version,
    before: Version,
}

fn key_of(name: &str) -> Key {
    Key::of(b"space", name.as_bytes()).expect("a name")
}

fn version(sequence: u64) -> Version {
    Version { epoch: EPOCH, sequence }
}

/// A version of a key, which follows the one before it.
fn record(group: u16, key: Key, sequence: u64, value: Option<&[u8]>) -> Record {
    let mut content = Content { length: value.map(|value| value.len() as u16), ..Content::nothing(version(sequence)) };
    let value = value.unwrap_or_default();
    content.bytes[..value.len()].copy_from_slice(value);
    Record { group, key, before: version(sequence - 1), content }
}

/// That version, as it is told with this name.
fn told(name: &str, sequence: u64, value: Option<&[u8]>) -> Told {
    Told {
        part: Part::Value as u8,
        name: name.into(),
        value: value.map(<[u8]>::to_vec),
        version: version(sequence),
        before: version(sequence - 1),
    }
}

impl Question {
    fn of(scope: Scope, content: &[u8], key: Key) -> Question {
        let watch = Watch {
            key_high: key.high,
            key_low: key.low,
            check: key.check,
            request: 1,
            scope: scope as u8,
            group: BASE,
            client: 1,
            reply_port: 4_001,
            length: content.len() as u16,
            ..Watch::default()
        };
        Question { namespace: SPACE, room: 16, watch, content: content.to_vec() }
    }

    fn of_key(name: &str) -> Question {
        Question::of(Scope::Key, &[], key_of(name))
    }

    fn of_prefix(prefix: &str) -> Question {
        Question::of(Scope::Prefix, prefix.as_bytes(), Key::default())
    }

    /// From this position on.
    fn from(mut self, (history, number): Position) -> Question {
        (self.watch.history, self.watch.number) = (history, number);
        self
    }

    fn by(mut self, client: Handle, request: u64) -> Question {
        (self.watch.client, self.watch.request) = (client, request);
        self
    }

    fn of_group(mut self, group: u16) -> Question {
        self.watch.group = group;
        self
    }

    fn with_room(self, room: u8) -> Question {
        Question { room, ..self }
    }

    fn packet(&self) -> Vec<u8> {
        let blocks = usize::from(self.room) * limits::BLOCK_BYTES;
        let mut packet = vec![0; BODY + Watch::BYTES + blocks.max(self.content.len())];
        let header = Header {
            service: service::CHAIN,
            kind: kind::chain::WATCH,
            count: self.room,
            flags: 1,
            source: self.watch.client,
            destination: OWN,
            epoch: EPOCH,
            namespace: self.namespace,
            tag: 77,
            ..Header::default()
        };
        header.write(&mut packet);
        self.watch.write(&mut packet, BODY);
        packet[BODY + Watch::BYTES..][..self.content.len()].copy_from_slice(&self.content);
        packet.truncate(BODY + Watch::BYTES + blocks);
        packet
    }
}

impl Event {
    fn position(&self) -> Position {
        (self.watch.history, self.watch.number)
    }

    fn is(&self, outcome: Outcome) -> bool {
        self.watch.outcome == outcome as u8
    }
}

fn read_changes(mut bytes: &[u8], count: u16) -> Vec<Told> {
    let mut cut = |length: usize| {
        let (cut, rest) = bytes.split_at(length.next_multiple_of(limits::BLOCK_BYTES));
        bytes = rest;
        assert!(cut[length..].iter().all(|byte| *byte == 0), "what pads is zero");
        cut[..length].to_vec()
    };
    let changes = (0..count).map(|_| {
        let change = Change::read(&cut(Change::BYTES), 0);
        let name = cut(change.name_length.into());
        let value = cut(change.length.into());
        Told {
            part: change.part,
            name,
            value: (change.flags & value_flag::PRESENT != 0).then_some(value),
            version: Version { epoch: change.epoch, sequence: change.sequence },
            before: Version { epoch: change.before_epoch, sequence: change.before_sequence },
        }
    });
    let changes = changes.collect();
    assert!(bytes.is_empty(), "changes are all that there is");
    changes
}

impl World {
    /// A tail in as many groups of the namespace, and in the other's, with clients 1 to 20.
    fn new(groups: u16) -> World {
        let (paper, script) = Paper::new(64);
        let of = |namespace, name: &[u8], base, count| Groups { namespace, name: name.into(), base, count };
        let spaces = vec![of(SPACE, b"space", BASE, groups), of(OTHER, b"other", OTHER_BASE, 1)];
        let sweeping = Sweeping { collect_after: 0, look_again: 2 * FAR, ..Sweeping::default() };
        let member = Member::new(paper, OWN, spaces).seeded(5).sweeping(sweeping);
        let mut world = World { member, script, now: BEGIN };
        (BASE..BASE + groups).chain([OTHER_BASE]).for_each(|group| world.place(group, EPOCH, 0));
        world.member.on_tick(Time(world.now));
        let mut script = world.script.borrow_mut();
        script.sessions = (1..=20).map(|handle| (handle, (SPACE, u64::from(handle) + 100))).collect();
        script.watched.clear();
        drop(script);
        world
    }

    fn place(&mut self, group: u16, epoch: u32, next: Handle) {
        let at = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7600);
        let place = Place { epoch, previous: BEFORE, next };
        self.member.take_place(group, place, GroupRoute { epoch, head: at, tail: at });
    }

    /// A key of a group takes a version, which the journal has at once.
    fn take_in(&mut self, group: u16, name: &str, sequence: u64, value: Option<&[u8]>) {
        self.script.borrow_mut().take(record(group, key_of(name), sequence, value));
    }

    fn take(&mut self, name: &str, sequence: u64, value: Option<&[u8]>) {
        self.take_in(BASE, name, sequence, value);
    }

    /// The daemon learns a key's name.
    fn make(&mut self, name: &str) {
        let key = key_of(name);
        let count = name.len().div_ceil(limits::BLOCK_BYTES);
        let mut packet = vec![0; BODY + Effect::BYTES + count * limits::BLOCK_BYTES];
        let header = Header {
            service: service::CHAIN,
            kind: kind::chain::INSTALL,
            count: count as u8,
            source: BEFORE,
            epoch: EPOCH,
            namespace: SPACE,
            ..Header::default()
        };
        header.write(&mut packet);
        let effect = Effect {
            key_high: key.high,
            key_low: key.low,
            group: BASE,
            length: name.len() as u16,
            own_epoch: EPOCH,
            own_sequence: 1,
            sequence: 1,
            ..Effect::default()
        };
        effect.write(&mut packet, BODY);
        packet[BODY + Effect::BYTES..][..name.len()].copy_from_slice(name.as_bytes());
        self.member.on_packet(Time(self.now), 0, &packet);
        assert!(self.member.is_named(BASE, key));
        while self.member.transmit().is_some() {}
    }

    /// The switch before has a key removed, which has no value.
    fn remove(&mut self, name: &str) {
        let key = key_of(name);
        let told = Copied {
            key_high: key.high,
            key_low: key.low,
            nonce: 9,
            sequence: 1,
            epoch: EPOCH,
            group: BASE,
            ..Copied::default()
        };
        let mut packet = vec![0; BODY + Copied::BYTES];
        let header = Header {
            service: service::CHAIN,
            kind: kind::chain::REMOVE,
            source: BEFORE,
            epoch: EPOCH,
            ..Header::default()
        };
        header.write(&mut packet);
        told.write(&mut packet, BODY);
        self.member.on_fellow(Time(self.now), &packet);
        assert!(!self.member.is_named(BASE, key));
        while self.member.transmit().is_some() {}
    }

    /// All that was said since the last time.
    fn events(&mut self) -> Vec<Event> {
        let said = std::iter::from_fn(|| self.member.transmit());
        said.map(|sent| {
            let header = check(&sent.packet).expect("a packet of ours");
            let watch = Watch::read(&sent.packet, BODY);
            assert_eq!((sent.to, sent.port), (watch.client, watch.reply_port));
            let expected = Header {
                service: service::CHAIN,
                kind: kind::chain::EVENT,
                destination: watch.client,
                count: header.count,
                epoch: header.epoch,
                namespace: header.namespace,
                ..Header::default()
            };
            assert_eq!(header, expected);
            let changes = read_changes(&sent.packet[BODY + Watch::BYTES..], watch.changes);
            Event { header, watch, changes }
        })
        .collect()
    }

    /// Asks, and what is said at once.
    fn ask(&mut self, question: &Question) -> Vec<Event> {
        self.member.on_packet(Time(self.now), question.watch.reply_port, &question.packet());
        let events = self.events();
        assert!(
            events.iter().all(|event| event.header.count <= question.room),
            "no answer is longer than its question"
        );
        events
    }

    /// The only answer to a question that is answered at once.
    fn answer(&mut self, question: &Question) -> Event {
        let mut events = self.ask(question);
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    /// Watches from now on: the position that this is.
    fn begin(&mut self, question: &Question) -> Position {
        let event = self.answer(&question.clone().from(NONE));
        assert!(event.is(Outcome::Done) && event.changes.is_empty(), "{event:?}");
        event.position()
    }

    /// One with a watch of this key that waits; from where on, and by which question.
    fn with_waiting(key: &str) -> (World, Position, Question) {
        let mut world = World::new(1);
        let position = world.begin(&Question::of_key(key));
        let question = Question::of_key(key).from(position);
        world.wait(&question);
        (world, position, question)
    }

    /// A question that waits.
    fn wait(&mut self, question: &Question) {
        assert_eq!(self.ask(question), []);
    }

    /// What is said at this time.
    fn tick_at(&mut self, now: u64) -> Vec<Event> {
        self.now = now;
        self.member.on_tick(Time(now));
        self.events()
    }

    /// At the next look into the journal.
    fn look(&mut self) -> Vec<Event> {
        self.tick_at(self.now + LOOK)
    }

    fn waiting(&self) -> u64 {
        self.member.watched().waiting
    }

    /// What came to be noted, or not any more, since the last time.
    fn noted(&self) -> Vec<(std::ops::Range<u16>, bool)> {
        std::mem::take(&mut self.script.borrow_mut().watched)
    }

    /// What was asked for again is told as of another history.
    fn is_reset(&mut self, question: &Question) -> Position {
        let event = self.answer(question);
        assert!(event.is(Outcome::Reset) && event.changes.is_empty(), "{event:?}");
        assert_ne!(event.watch.history, question.watch.history);
        event.position()
    }
}
