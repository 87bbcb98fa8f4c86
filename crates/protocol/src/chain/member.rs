//! A switch's daemon in the chain service: makes keys, and says where groups are. What the data plane hands to it has
//! been checked by it: sender, place, epoch, lease.
//!
//! Invariants
//! * Whatever key the memory has, its name is here, and the version that it began with; no two names have one key.
//! * A key is answered to be made only by the tail's daemon, so by then all switches of the chain have it, with the
//!   same first version.

use super::follow::Follower;
use super::history::Histories;
use super::memory::{ItemMemory, Unmade};
use super::sweep::Sweeper;
use super::{Key, Place, Version};
use crate::{Handle, Port, Time};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddrV4;
use core::ops::Bound;
use wayside_wire::{BODY, Effect, Header, Operation, Outcome, Route, Routes, blocks, check, kind, limits, service};

/// A namespace's groups.
#[derive(Clone, Debug)]
pub struct Groups {
    /// Its number.
    pub namespace: u16,
    /// Its name: keys are hashed with it.
    pub name: Box<[u8]>,
    /// Number of its first group.
    pub base: u16,
    /// How many it has.
    pub count: u16,
}

/// Where clients find a group.
#[derive(Clone, Copy, Debug)]
pub struct GroupRoute {
    /// Epoch of its chain.
    pub epoch: u32,
    /// Address of the switch that takes writes.
    pub head: SocketAddrV4,
    /// Address of the switch that is read from.
    pub tail: SocketAddrV4,
}

/// A packet for a node, or for the next switch. To be signed for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Who is to get it.
    pub to: Handle,
    /// At which port; 0: its agent port.
    pub port: Port,
    /// UDP payload, not signed yet.
    pub packet: Vec<u8>,
}

/// How far somebody has come who goes through all names, piece by piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor(Option<(u16, Key)>);

/// What a daemon knows of a key besides the memory.
pub(super) struct Named {
    pub(super) name: Arc<[u8]>,
    pub(super) first: Version,
}

/// See the module's documentation.
pub struct Member<M> {
    pub(super) memory: M,
    pub(super) own: Handle,
    pub(super) namespaces: Vec<Groups>,
    /// By number of the group.
    routes: BTreeMap<u16, GroupRoute>,
    pub(super) names: BTreeMap<(u16, Key), Named>,
    pub(super) out: VecDeque<Sent>,
    pub(super) follower: Follower,
    pub(super) histories: Histories,
    pub(super) sweeper: Sweeper,
    /// Names since the last call of [`Member::made`], where somebody keeps them.
    made: Option<VecDeque<(u16, Arc<[u8]>)>>,
    refused: u64,
    places_changed: u64,
}

impl<M: ItemMemory> Member<M> {
    /// A switch of this handle among the others (0: alone), which has no place in any group yet.
    pub fn new(memory: M, own: Handle, namespaces: Vec<Groups>) -> Member<M> {
        memory.set_own_handle(own);
        for groups in &namespaces {
            memory.watch_groups(groups.range(), false);
        }
        Member {
            memory,
            own,
            namespaces,
            routes: BTreeMap::new(),
            names: BTreeMap::new(),
            out: VecDeque::new(),
            follower: Follower::default(),
            histories: Histories::new(u64::from(own)),
            sweeper: Sweeper::default(),
            made: None,
            refused: 0,
            places_changed: 0,
        }
    }

    /// Has its histories told from those of other switches, and of its own earlier lives. `seed`: no other's.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Member<M> {
        self.histories = Histories::new(seed);
        self
    }

    /// Takes a place in a group's chain, and tells clients from now on where the group is.
    pub fn take_place(&mut self, group: u16, place: Place, route: GroupRoute) {
        let Some(namespace) = self.namespaces.iter().find(|groups| groups.has(group)).map(|groups| groups.namespace)
        else {
            return;
        };
        self.change_place(group, namespace, place);
        self.routes.insert(group, route);
    }

    pub(super) fn change_place(&mut self, group: u16, namespace: u16, place: Place) {
        self.places_changed += 1;
        self.leave_place(group);
        self.memory.set_place(group, namespace, place);
    }

    /// These may be the active controller from now on.
    pub fn follow(&mut self, controllers: Vec<Handle>) {
        self.follower.config.controllers = controllers;
    }

    /// Tells clients from now on where a group is in which this switch has no part.
    pub fn learn_route(&mut self, group: u16, route: GroupRoute) {
        self.routes.insert(group, route);
    }

    /// A packet of the chain service that the data plane has checked and handed over. `from_port`: the sender's.
    pub fn on_packet(&mut self, now: Time, from_port: Port, packet: &[u8]) {
        let Ok(header) = check(packet) else { return };
        match header.kind {
            kind::chain::INSERT => {
                let operation = Operation::read(packet, BODY);
                let effect = Effect {
                    key_high: operation.key_high,
                    key_low: operation.key_low,
                    request: operation.request,
                    // When it goes down the chain, by the head's count.
                    sequence: self.memory.next_sequence(operation.group),
                    group: operation.group,
                    client: operation.client,
                    reply_port: operation.reply_port,
                    length: operation.length,
                    ..Effect::default()
                };
                self.make(&header, &effect, operation.check, packet);
            }
            kind::chain::INSTALL => self.make(&header, &Effect::read(packet, BODY), 0, packet),
            kind::chain::ANSWER => self.on_answer(&header, &Effect::read(packet, BODY)),
            kind::chain::MAP => self.on_map(&header, from_port, packet),
            kind::chain::WATCH => self.on_watch(now, &header, packet),
            _ => {}
        }
    }

    /// The next packet to send.
    pub fn transmit(&mut self) -> Option<Sent> {
        self.out.pop_front()
    }

    /// INSERTs whose key is not that of their name: from a client that errs or lies.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Places that it was given, one for each epoch of a group.
    pub fn places_changed(&self) -> u64 {
        self.places_changed
    }

    /// Whether it knows a key's name.
    pub fn is_named(&self, group: u16, key: Key) -> bool {
        self.names.contains_key(&(group, key))
    }

    /// From now on somebody keeps the names of keys that are made: [`Member::made`] tells them.
    pub fn keep_names(&mut self) {
        self.made.get_or_insert_default();
    }

    /// Namespace and name of a key that was made.
    pub fn made(&mut self) -> Option<(u16, Arc<[u8]>)> {
        self.made.as_mut()?.pop_front()
    }

    /// A name from before this daemon. False: the memory has no such key, or it is named already.
    pub fn learn_name(&mut self, namespace: u16, name: &[u8]) -> bool {
        let Some(groups) = self.namespaces.iter().find(|groups| groups.namespace == namespace && groups.count > 0)
        else {
            return false;
        };
        let Ok(key) = Key::of(&groups.name, name) else { return false };
        let group = groups.group_of(key);
        let is_new = !self.is_named(group, key) && self.memory.content(group, key).is_some();
        is_new && self.insert(group, key, name, None, self.memory.place(group)).is_ok()
    }

    /// How many names it knows.
    pub fn known_names(&self) -> u64 {
        self.names.len() as u64
    }

    /// Tells names with their namespaces' numbers, as many as this at most. Where to go on; `None`: that was all.
    pub fn tell_names(&self, from: Cursor, most: usize, tell: &mut dyn FnMut(u16, &[u8])) -> Option<Cursor> {
        let after = from.0.map_or(Bound::Unbounded, Bound::Excluded);
        let mut last = from;
        for (&(group, key), named) in self.names.range((after, Bound::Unbounded)).take(most) {
            if let Some(groups) = self.namespaces.iter().find(|groups| groups.has(group)) {
                tell(groups.namespace, &named.name);
            }
            last = Cursor(Some((group, key)));
        }
        (last != from).then_some(last)
    }

    /// Names of a namespace's keys that begin so, in no order, with what they have: for people.
    pub fn names(&self, namespace: u16) -> impl Iterator<Item = (&[u8], u16, Key)> {
        let groups = self.namespaces.iter().find(move |groups| groups.namespace == namespace && groups.count > 0);
        let range = groups.map(|groups| {
            let last = groups.base.saturating_add(groups.count - 1);
            self.names.range((groups.base, Key::LEAST)..=(last, Key::GREATEST))
        });
        range.into_iter().flatten().map(|(&(group, key), named)| (&*named.name, group, key))
    }

    /// INSERT, INSTALL: the key is to exist.
    fn make(&mut self, header: &Header, effect: &Effect, check: u64, packet: &[u8]) {
        let place = self.memory.place(effect.group);
        let Some(groups) = self.namespaces.iter().find(|groups| groups.namespace == header.namespace) else { return };
        let name = &blocks(packet)[..usize::from(effect.length)];
        let Ok(key) = Key::of(&groups.name, name) else { return };
        let is_its = key.high == effect.key_high && key.low == effect.key_low && groups.group_of(key) == effect.group;
        // An INSTALL comes from a switch that has looked.
        if !is_its || (header.kind == kind::chain::INSERT && key.check != check) {
            self.refused += 1;
            return;
        }
        let is_late = header.kind == kind::chain::INSTALL && self.is_late(header, effect, key);
        if is_late || self.is_leaving(effect.group, key) {
            return;
        }
        let told = Version { epoch: effect.own_epoch, sequence: effect.own_sequence };
        match self.insert(effect.group, key, name, (header.kind == kind::chain::INSTALL).then_some(told), place) {
            Ok(first) if place.next != 0 => self.install_next(header, effect, first, place.next, packet),
            Ok(first) => self.answer(header, effect, Outcome::Done, first),
            Err(outcome) => self.answer(header, effect, outcome, Version::default()),
        }
    }

    /// Whether an INSTALL was sent before a key of its group was removed here, and may be of that key's earlier life.
    fn is_late(&self, header: &Header, effect: &Effect, key: Key) -> bool {
        let sent = Version { epoch: header.epoch, sequence: effect.sequence };
        let removed = self.sweeper.removed.get(&effect.group);
        removed.is_some_and(|removed| sent < *removed)
            && !self.is_named(effect.group, key)
            && !self.is_broken(crate::Mutant::AnyInstall)
    }

    /// Has the key exist. The version that it began with.
    pub(super) fn insert(
        &mut self,
        group: u16,
        key: Key,
        name: &[u8],
        told: Option<Version>,
        place: Place,
    ) -> Result<Version, Outcome> {
        // Of keys that differ in their check alone, one name has the key.
        let same = (group, Key { check: 0, ..key })..=(group, Key { check: u64::MAX, ..key });
        if let Some((_, named)) = self.names.range(same).next() {
            return if *named.name == *name { Ok(named.first) } else { Err(Outcome::Collision) };
        }
        let first = told.unwrap_or_else(|| Version { epoch: place.epoch, sequence: self.memory.next_sequence(group) });
        match self.memory.insert(group, key, first) {
            Ok(is_new) => {
                let first = if is_new { first } else { self.before(group, key).unwrap_or(first) };
                let name: Arc<[u8]> = name.into();
                if let Some(made) = &mut self.made
                    && let Some(groups) = self.namespaces.iter().find(|groups| groups.has(group))
                {
                    made.push_back((groups.namespace, Arc::clone(&name)));
                }
                self.names.insert((group, key), Named { name, first });
                Ok(first)
            }
            Err(Unmade::Collision) => Err(Outcome::Collision),
            Err(Unmade::Items | Unmade::Places) => Err(Outcome::Full),
        }
    }

    /// A version for a key that outlived the daemon that knew its first: older than what the key has, and not older
    /// than what it had in an earlier life.
    fn before(&self, group: u16, key: Key) -> Option<Version> {
        let Version { epoch, sequence } = self.memory.content(group, key)?.version;
        Some(Version { epoch, sequence: sequence.saturating_sub(1) })
    }

    fn install_next(&mut self, header: &Header, effect: &Effect, first: Version, next: Handle, packet: &[u8]) {
        let mut packet = packet.to_vec();
        let header = Header { kind: kind::chain::INSTALL, source: self.own, destination: next, tag: 0, ..*header };
        header.write(&mut packet);
        Effect { own_epoch: first.epoch, own_sequence: first.sequence, ..*effect }.write(&mut packet, BODY);
        self.out.push_back(Sent { to: next, port: 0, packet });
    }

    fn answer(&mut self, header: &Header, effect: &Effect, outcome: Outcome, first: Version) {
        let mut packet = vec![0; BODY + Effect::BYTES];
        let header = Header {
            kind: kind::chain::ANSWER,
            source: 0,
            destination: effect.client,
            count: 0,
            tag: 0,
            flags: 0,
            ..*header
        };
        header.write(&mut packet);
        let effect = Effect {
            length: 0,
            outcome: outcome as u8,
            own_epoch: first.epoch,
            own_sequence: first.sequence,
            ..*effect
        };
        effect.write(&mut packet, BODY);
        self.out.push_back(Sent { to: effect.client, port: effect.reply_port, packet });
    }

    /// MAP: a page of routes, as many as there was room for in the question.
    fn on_map(&mut self, header: &Header, from_port: Port, packet: &[u8]) {
        let Some(groups) = self.namespaces.iter().find(|groups| groups.namespace == header.namespace) else { return };
        let first = Routes::read(packet, BODY).first.min(groups.count);
        let count = usize::from(header.count).min(usize::from(groups.count - first));
        let at = |index: usize| BODY + Routes::BYTES + index * limits::BLOCK_BYTES;
        let mut answer = vec![0; at(count)];
        let header = Header {
            service: service::CHAIN,
            kind: kind::chain::ROUTES,
            source: 0,
            destination: header.source,
            count: count as u8,
            tag: 0,
            flags: 0,
            ..*header
        };
        header.write(&mut answer);
        Routes { first, base: groups.base, groups: groups.count }.write(&mut answer, BODY);
        for index in 0..count {
            let group = groups.base + first + index as u16;
            let Some(route) = self.routes.get(&group) else { continue };
            let route = Route {
                epoch: route.epoch,
                head_address: (*route.head.ip()).into(),
                head_port: route.head.port(),
                tail_address: (*route.tail.ip()).into(),
                tail_port: route.tail.port(),
            };
            route.write(&mut answer, at(index));
        }
        self.out.push_back(Sent { to: header.destination, port: from_port, packet: answer });
    }
}

impl Groups {
    /// Whether this group is one of them.
    pub fn has(&self, group: u16) -> bool {
        group.checked_sub(self.base).is_some_and(|offset| offset < self.count)
    }

    /// Their numbers.
    pub(super) fn range(&self) -> core::ops::Range<u16> {
        self.base..self.base.saturating_add(self.count)
    }

    /// The high half of a group's last keys.
    pub(super) fn last_of(&self, group: u16) -> u64 {
        let end = ((u128::from(group - self.base) + 1) << 64) / u128::from(self.count.max(1));
        u64::try_from(end).unwrap_or(u64::MAX)
    }

    /// The group of a key.
    fn group_of(&self, key: Key) -> u16 {
        self.base + key.group(self.count)
    }
}
