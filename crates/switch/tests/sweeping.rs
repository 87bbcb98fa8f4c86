//! What a head's daemon does of itself, rule by rule, on chains of two switches whose packets the test carries: ends of
//! leases, and keys that leave (docs/chain.md).

mod support;

use std::sync::Arc;

use support::chain::operation_packet;
use support::{NAMESPACE, from};
use wayside_protocol::Time;
use wayside_protocol::chain::memory::{Content, ItemMemory, Owner};
use wayside_protocol::chain::{FELLOWS, GroupRoute, Groups, Key, Member, Place, Sent, Sweeping, Version};
use wayside_protocol::memory::{NodeEntry, NodeWord, SwitchMemory};
use wayside_switch::{Action, StoreConfig, Switch};
use wayside_wire::{BODY, Effect, Header, NodeState, Operation, Outcome, check, kind, limits, request_id, value_flag};

const GROUP: u16 = 1;
const CLIENT: u16 = 1;
const INCARNATION: u64 = 7;
const NAME: &[u8] = b"key";
/// Microseconds.
const RETRANSMIT: u64 = 10;
const COLLECT_AFTER: u64 = 1_000;
/// Handles of the head and of the tail.
const SWITCHES: [u16; 2] = [11, 12];

struct Chain {
    switches: [Arc<Switch>; 2],
    members: [Member<Arc<Switch>>; 2],
    now: u64,
    requests: u64,
}

fn key() -> Key {
    Key::of(b"space", NAME).expect("a short name")
}

fn place(at: usize, epoch: u32) -> Place {
    let (previous, next) = if at == 0 { (0, SWITCHES[1]) } else { (SWITCHES[0], 0) };
    Place { epoch, previous, next }
}

fn route(epoch: u32) -> GroupRoute {
    GroupRoute { epoch, head: from(1), tail: from(1) }
}

impl Chain {
    fn new() -> Chain {
        let switches = [0, 1].map(|at| {
            let switch = support::switch(1, 20).with_store(StoreConfig { keys: 4, seed: 7 });
            let entry = |namespace, incarnation| NodeEntry { address: from(1), namespace, incarnation };
            switch.set_node(CLIENT, &entry(NAMESPACE, INCARNATION));
            switch.set_node(SWITCHES[1 - at], &entry(FELLOWS, 1));
            Arc::new(switch)
        });
        let groups = Groups { namespace: NAMESPACE, name: b"space".as_slice().into(), base: GROUP, count: 1 };
        let sweeping =
            Sweeping { collect_after: COLLECT_AFTER, looks: 8, retransmit: RETRANSMIT, look_again: COLLECT_AFTER };
        let member =
            |at: usize| Member::new(Arc::clone(&switches[at]), SWITCHES[at], vec![groups.clone()]).sweeping(sweeping);
        let members = [member(0), member(1)];
        let mut chain = Chain { switches, members, now: 1, requests: 0 };
        chain.take_places(5);
        chain.client(kind::chain::INSERT, 0, NAME);
        chain.settle();
        chain
    }

    fn take_places(&mut self, epoch: u32) {
        for (at, member) in self.members.iter_mut().enumerate() {
            member.take_place(GROUP, place(at, epoch), route(epoch));
        }
    }

    /// A packet of the client at the head. What the client is answered, by whomever.
    fn client(&mut self, kind: u8, flags: u16, value: &[u8]) -> Option<Outcome> {
        self.requests += 1;
        let Key { high, low, check } = key();
        let request = request_id::with_incarnation(self.requests, INCARNATION as u32);
        let operation = Operation {
            key_high: high,
            key_low: low,
            check,
            request,
            group: GROUP,
            client: CLIENT,
            flags,
            ..Operation::default()
        };
        let epoch = self.switches[0].place(GROUP).epoch;
        let mut packet = operation_packet(kind, CLIENT, epoch, &operation, value);
        if kind == kind::chain::DELETE {
            Operation { length: 0, ..operation }.write(&mut packet, BODY);
        }
        self.deliver(0, packet)
    }

    /// A packet arrives, and whatever the data plane makes of it.
    fn deliver(&mut self, at: usize, mut packet: Vec<u8>) -> Option<Outcome> {
        let verdict = self.switches[at].process(Time(self.now), &mut packet, from(1));
        packet.truncate(verdict.length);
        let header = Header::read(&packet).ok()?;
        match verdict.action {
            Action::ToController if header.kind >= kind::chain::PLACE => {
                self.members[at].on_fellow(Time(self.now), &packet);
                None
            }
            Action::ToController => {
                self.members[at].on_packet(Time(self.now), 1, &packet);
                None
            }
            Action::Drop => None,
            _ if header.destination == CLIENT => Outcome::try_from(Effect::read(&packet, BODY).outcome).ok(),
            _ => self.deliver(1 - at, packet),
        }
    }

    /// What the daemons have to say.
    fn said(&mut self) -> Vec<Sent> {
        self.members.iter_mut().flat_map(|member| std::iter::from_fn(|| member.transmit())).collect()
    }

    /// Carries what they say to each other, until nobody says anything.
    fn settle(&mut self) {
        loop {
            let said = self.said();
            if said.is_empty() {
                return;
            }
            for Sent { to, packet, .. } in said {
                if let Some(at) = SWITCHES.iter().position(|switch| *switch == to) {
                    self.deliver(at, packet);
                }
            }
        }
    }

    fn pass(&mut self, micros: u64) {
        self.now += micros;
        for _ in 0..4 {
            self.members.iter_mut().for_each(|member| member.on_tick(Time(self.now)));
        }
    }

    /// No packet of the client is taken any more.
    fn refuse_session(&self) {
        for switch in &self.switches {
            let word = switch.node_word(CLIENT);
            switch.cas_node_word(CLIENT, word, NodeWord { state: NodeState::Expired, ..word });
        }
    }

    fn end_session(&self) {
        self.refuse_session();
        self.switches.iter().for_each(|switch| switch.session_over(CLIENT, Some(INCARNATION)));
    }

    fn values(&self) -> [Option<Vec<u8>>; 2] {
        [0, 1].map(|at| {
            let content = self.switches[at].content(GROUP, key())?;
            content.length.map(|length| content.bytes[..usize::from(length)].to_vec())
        })
    }

    fn is_there(&self) -> [bool; 2] {
        [0, 1].map(|at| self.switches[at].content(GROUP, key()).is_some())
    }
}

fn both(value: &[u8]) -> [Option<Vec<u8>>; 2] {
    [Some(value.to_vec()), Some(value.to_vec())]
}

fn kinds(said: &[Sent]) -> Vec<u8> {
    said.iter().map(|sent| check(&sent.packet).expect("a packet").kind).collect()
}

fn leased() -> Chain {
    let mut chain = Chain::new();
    assert_eq!(chain.client(kind::chain::WRITE, value_flag::LEASED, b"mine"), Some(Outcome::Done));
    chain.pass(1);
    assert!(chain.said().is_empty() && chain.members.iter().all(Member::is_swept), "its session lives");
    assert_eq!(chain.values(), both(b"mine"));
    chain
}

#[test]
fn the_end_of_a_lease_is_told_until_the_tail_has_answered() {
    let mut chain = leased();
    chain.end_session();
    chain.pass(1);
    for _ in 0..3 {
        let mut said = kinds(&chain.said());
        // The tail asks for it, too.
        said.retain(|kind| *kind != kind::chain::ANSWER);
        assert_eq!(said, [kind::chain::APPLY], "which is lost");
        assert_eq!(chain.values(), [None, Some(b"mine".to_vec())]);
        assert!(!chain.members[0].is_swept());
        chain.pass(RETRANSMIT);
    }
    chain.settle();
    assert_eq!((chain.values(), chain.members[0].is_swept()), ([None, None], true));
    chain.pass(RETRANSMIT);
    assert!(chain.said().is_empty(), "it has been answered");
}

#[test]
fn the_head_of_the_next_epoch_tells_an_end_that_may_be_lost() {
    let mut chain = leased();
    chain.end_session();
    chain.pass(1);
    assert_eq!(chain.said().len(), 1, "and is lost");
    chain.take_places(6);
    chain.pass(1);
    chain.settle();
    assert_eq!(chain.values(), [None, None]);
    chain.pass(COLLECT_AFTER / 2);
    assert!(chain.said().is_empty(), "once an epoch");
}

#[test]
fn a_session_that_is_only_refused_keeps_its_leases() {
    let mut chain = leased();
    chain.refuse_session();
    chain.take_places(6);
    chain.pass(1);
    assert_eq!(chain.values(), both(b"mine"), "its lease may run");
    chain.end_session();
    chain.pass(1);
    assert_eq!(chain.values()[0], None);
}

#[test]
fn another_session_of_the_handle_does_not_keep_the_lease() {
    let mut chain = leased();
    for switch in &chain.switches {
        switch.set_node(CLIENT, &NodeEntry { address: from(1), namespace: NAMESPACE, incarnation: INCARNATION + 1 });
    }
    chain.pass(1);
    chain.settle();
    assert_eq!(chain.values(), [None, None]);
}

/// The head has taken a plain write to the leased key, whose APPLY is lost, and whose client is gone.
fn overwritten_at_the_head() -> Chain {
    let chain = leased();
    let key = key();
    let content = chain.switches[0].content(GROUP, key).expect("it was made");
    let version = Version { sequence: chain.switches[0].next_sequence(GROUP), ..content.version };
    let mut bytes = [0; limits::MAX_VALUE_BYTES];
    bytes[..4].copy_from_slice(b"ours");
    assert!(chain.switches[0].raise(GROUP, key, &Content { version, length: Some(4), lease: None, bytes }));
    chain.end_session();
    chain
}

#[test]
fn a_leased_value_behind_the_head_goes_when_a_later_write_came_no_further() {
    let mut chain = overwritten_at_the_head();
    chain.pass(1);
    assert!(chain.said().is_empty(), "what ends a lease is mostly under way");
    assert_eq!(chain.values(), [Some(b"ours".to_vec()), Some(b"mine".to_vec())]);
    chain.pass(RETRANSMIT);
    assert_eq!(kinds(&chain.said()), [kind::chain::ANSWER], "which is lost");
    assert!(!chain.members[1].is_swept());
    chain.pass(2 * RETRANSMIT);
    chain.settle();
    assert_eq!(chain.values(), both(b"ours"));
    chain.pass(4 * RETRANSMIT);
    assert!(chain.said().is_empty() && chain.members.iter().all(Member::is_swept));
}

#[test]
fn nobody_is_asked_for_more_than_he_has_nor_in_another_epoch() {
    let mut chain = leased();
    // The head has not heard of the end yet.
    chain.refuse_session();
    chain.switches[1].session_over(CLIENT, Some(INCARNATION));
    chain.pass(1);
    chain.pass(RETRANSMIT);
    let asked = chain.said();
    assert_eq!(kinds(&asked), [kind::chain::ANSWER]);
    chain.deliver(0, asked[0].packet.clone());
    assert!(chain.said().is_empty(), "it has nothing newer");
    chain.take_places(6);
    assert_eq!(chain.client(kind::chain::WRITE, 0, b"x"), None, "its session is refused");
    chain.deliver(0, asked[0].packet.clone());
    assert!(chain.said().is_empty(), "that was of the epoch before");
    chain.switches[0].session_over(CLIENT, Some(INCARNATION));
    chain.pass(1);
    chain.settle();
    assert_eq!(chain.values(), [None, None]);
}

#[test]
fn a_leased_value_that_comes_late_behind_the_head_is_found_by_a_later_look() {
    let mut chain = leased();
    chain.end_session();
    chain.pass(1);
    chain.settle();
    assert_eq!(chain.values(), [None, None]);
    // Somebody's leased write, of a session that has been over since, and a plain one that came no further.
    let key = key();
    let next = |chain: &Chain| Version { epoch: 5, sequence: chain.switches[0].next_sequence(GROUP) };
    let mut bytes = [0; limits::MAX_VALUE_BYTES];
    bytes[..4].copy_from_slice(b"late");
    let lease = Some(Owner { handle: CLIENT, incarnation: INCARNATION as u32 });
    let late = Content { version: next(&chain), length: Some(4), lease, bytes };
    let plain = Content { version: next(&chain), lease: None, ..late };
    assert!(chain.switches[0].raise(GROUP, key, &plain) && chain.switches[1].raise(GROUP, key, &late));
    let lease_of = |chain: &Chain| chain.switches[1].content(GROUP, key).and_then(|content| content.lease);
    assert!(lease_of(&chain).is_some());
    chain.pass(COLLECT_AFTER / 2);
    chain.pass(RETRANSMIT);
    chain.settle();
    assert_eq!((lease_of(&chain), chain.values()), (None, both(b"late")));
}

/// Up to the moment when the head has marked the key, and its REMOVE is under way.
fn leaving() -> (Chain, Vec<u8>) {
    let mut chain = Chain::new();
    assert_eq!(chain.client(kind::chain::WRITE, 0, b"x"), Some(Outcome::Done));
    assert_eq!(chain.client(kind::chain::DELETE, 0, b""), Some(Outcome::Done));
    chain.pass(COLLECT_AFTER);
    chain.pass(COLLECT_AFTER);
    let asked = chain.said();
    assert_eq!(kinds(&asked), [kind::chain::APPLY, kind::chain::REMOVE]);
    for sent in asked {
        chain.deliver(1, sent.packet);
    }
    assert_eq!(chain.is_there(), [true, true], "that was a question");
    let answer = chain.said();
    assert_eq!(kinds(&answer), [kind::chain::REMOVED]);
    for sent in answer {
        chain.deliver(0, sent.packet);
    }
    let remove = chain.said();
    assert_eq!(kinds(&remove), [kind::chain::REMOVE]);
    (chain, remove[0].packet.clone())
}

#[test]
fn a_key_leaves_the_tail_first_and_is_written_by_nobody_meanwhile() {
    let (mut chain, remove) = leaving();
    assert_eq!(chain.client(kind::chain::WRITE, 0, b"y"), Some(Outcome::Missing));
    chain.client(kind::chain::INSERT, 0, NAME);
    assert!(chain.said().is_empty(), "nobody makes it now");
    chain.deliver(1, remove);
    assert_eq!(chain.is_there(), [true, false]);
    assert_eq!(kinds(&chain.said()), [kind::chain::REMOVED], "which is lost");
    chain.pass(RETRANSMIT);
    chain.settle();
    assert_eq!((chain.is_there(), chain.switches[0].keys().0), ([false, false], 0));
    assert!(chain.members[0].is_swept());
    chain.client(kind::chain::INSERT, 0, NAME);
    chain.settle();
    assert_eq!(chain.is_there(), [true, true]);
    assert_eq!(chain.client(kind::chain::WRITE, 0, b"y"), Some(Outcome::Done));
}

#[test]
fn with_another_place_the_key_stays() {
    let (mut chain, remove) = leaving();
    chain.deliver(1, remove.clone());
    chain.take_places(6);
    assert_eq!(chain.is_there(), [true, false]);
    assert_eq!(chain.client(kind::chain::WRITE, 0, b"y"), Some(Outcome::Missing), "the tail says so");
    assert_eq!(chain.values()[0], Some(b"y".to_vec()), "the head takes writes again");
    chain.client(kind::chain::INSERT, 0, NAME);
    chain.settle();
    assert_eq!(chain.client(kind::chain::WRITE, 0, b"z"), Some(Outcome::Done));
    // What was said in the epoch before is over.
    chain.deliver(1, remove);
    chain.settle();
    assert_eq!(chain.values(), both(b"z"));
}

#[test]
fn a_key_that_was_written_meanwhile_does_not_leave() {
    let mut chain = Chain::new();
    chain.pass(COLLECT_AFTER);
    chain.pass(COLLECT_AFTER);
    let asked = chain.said();
    assert_eq!(kinds(&asked), [kind::chain::APPLY, kind::chain::REMOVE]);
    assert_eq!(chain.client(kind::chain::WRITE, 0, b"y"), Some(Outcome::Done));
    for sent in asked {
        chain.deliver(1, sent.packet);
    }
    chain.settle();
    assert_eq!((chain.is_there(), chain.values()), ([true, true], both(b"y")));
}
