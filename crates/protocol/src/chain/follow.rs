//! A switch's daemon as the controller of chains sees it: it takes places, asks for its lease, and copies groups from
//! and to its fellows.
//!
//! Invariants
//! * A place of an epoch at or below the one that a group has here, or is copied in, changes nothing.
//! * Whoever leaves a group forgets its keys before he says so.
//! * The lease runs from when it was asked for, by the clock of who asked.
//! * A group is copied from its tail, and each pass begins with nothing.
//! * A joiner says that it has all of a group only once its source has said that nothing comes after: every key with
//!   its name, its first version and what it has.

use super::memory::{Content, ItemMemory, Owner};
use super::{GroupRoute, Key, Member, Place, Sent, Version};
use crate::{Handle, Time};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddrV4;
use wayside_wire::{
    BODY, Copied, Header, Part, Placement, Renewal, Role, blocks, check, kind, limits, service, value_flag,
};

/// A switch may serve in its places for so many microseconds from then on, by the clock that its daemon was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// When it was asked for.
    pub since: Time,
    /// Microseconds.
    pub lasts: u64,
}

/// How a switch follows its controllers.
#[derive(Clone, Debug, Default)]
pub struct Following {
    /// Starts of this switch with an empty memory: higher each time. 0: nobody is followed.
    pub boot: u64,
    /// Those who may be the active one.
    pub controllers: Vec<Handle>,
    /// Pause between two questions for a lease, in microseconds.
    pub renewal: u64,
    /// Pause before a question for a piece of memory is asked again, in microseconds.
    pub retransmit: u64,
    /// A rule to break.
    pub mutant: Option<crate::Mutant>,
}

/// The daemon's part in reconfigurations.
#[derive(Default)]
pub(super) struct Follower {
    pub(super) config: Following,
    /// Of every group that a place was told of.
    epochs: BTreeMap<u16, u32>,
    loading: BTreeMap<u16, Loading>,
    renew_at: Time,
    nonce: u64,
    pub(super) leases: Vec<Lease>,
}

/// A group that is copied.
struct Loading {
    told: Placement,
    controller: Handle,
    after: After,
    nonce: u64,
    name: Option<(Key, Version, Vec<u8>)>,
    value: Option<(Key, Content)>,
    due: Time,
    done: bool,
}

/// How far a copying has come.
#[derive(Clone, Copy)]
enum After {
    Nothing,
    Key(Key),
}

impl<M: ItemMemory> Member<M> {
    /// Follows these controllers.
    #[must_use]
    pub fn following(mut self, config: Following) -> Member<M> {
        // What was said to an earlier life of this switch answers none of its questions.
        self.follower.nonce = config.boot << 20;
        self.follower.config = config;
        self
    }

    /// A lease that it was given.
    pub fn lease(&mut self) -> Option<Lease> {
        self.follower.leases.pop()
    }

    /// When [`Member::on_tick`] is wanted.
    pub fn next_timer(&self) -> Time {
        let histories = self.histories.next_timer();
        if self.follower.config.boot == 0 {
            return self.next_sweep().min(histories);
        }
        let loading = self.follower.loading.values().filter(|loading| !loading.done).map(|loading| loading.due);
        loading.min().unwrap_or(Time::NEVER).min(self.follower.renew_at).min(self.next_sweep()).min(histories)
    }

    /// Does what is due.
    pub fn on_tick(&mut self, now: Time) {
        if self.histories.next_timer() <= now {
            self.tell_watches(now);
        }
        self.sweep(now);
        if self.follower.config.boot == 0 {
            return;
        }
        if self.follower.renew_at <= now {
            self.follower.renew_at = now + self.follower.config.renewal;
            let renewal = Renewal { boot: self.follower.config.boot, sent_us: now.0, ..Renewal::default() };
            for controller in self.follower.config.controllers.clone() {
                self.say(controller, kind::chain::RENEW, 0, 0, |packet| renewal.write(packet, BODY));
            }
        }
        let is_due = |(_, loading): &(&u16, &Loading)| !loading.done && loading.due <= now;
        let due: Vec<u16> = self.follower.loading.iter().filter(is_due).map(|(&group, _)| group).collect();
        due.into_iter().for_each(|group| self.fetch(now, group));
    }

    /// What a controller or another switch says: the data plane has checked that it is one.
    pub fn on_fellow(&mut self, now: Time, packet: &[u8]) {
        let Ok(header) = check(packet) else { return };
        match header.kind {
            kind::chain::PLACE => self.on_place(now, header.source, Placement::read(packet, BODY)),
            kind::chain::RENEWED => self.on_renewed(&Renewal::read(packet, BODY)),
            kind::chain::FETCH => self.on_fetch(header.source, &Copied::read(packet, BODY)),
            kind::chain::COPY => self.on_copy(now, header.source, &Copied::read(packet, BODY), blocks(packet)),
            kind::chain::REMOVE => self.on_remove(&header, &Copied::read(packet, BODY)),
            kind::chain::REMOVED => self.on_removed(now, &header, &Copied::read(packet, BODY)),
            _ => {}
        }
    }

    pub(super) fn say(&mut self, to: Handle, kind: u8, epoch: u32, count: usize, body: impl FnOnce(&mut [u8])) {
        let mut packet = vec![0; BODY + Copied::BYTES + count * limits::BLOCK_BYTES];
        let header = Header {
            service: service::CHAIN,
            kind,
            epoch,
            source: self.own,
            destination: to,
            count: count as u8,
            ..Header::default()
        };
        header.write(&mut packet);
        body(&mut packet);
        self.out.push_back(Sent { to, port: 0, packet });
    }

    pub(super) fn is_broken(&self, mutant: crate::Mutant) -> bool {
        cfg!(feature = "mutants") && self.follower.config.mutant == Some(mutant)
    }

    // ---- places and leases ----

    fn on_place(&mut self, now: Time, controller: Handle, told: Placement) {
        let known = self.follower.epochs.get(&told.group).copied().unwrap_or(0);
        let Some(groups) = self.namespaces.iter().find(|groups| groups.has(told.group)) else { return };
        if told.boot != self.follower.config.boot || told.epoch < known {
            return;
        }
        let namespace = groups.namespace;
        let Ok(role) = Role::try_from(told.role) else { return };
        let address = |address: u32, port| SocketAddrV4::new(address.into(), port);
        let route = GroupRoute {
            epoch: told.epoch,
            head: address(told.head_address, told.head_port),
            tail: address(told.tail_address, told.tail_port),
        };
        self.learn_route(told.group, route);
        if role == Role::Joiner {
            // That it had no part in this epoch yet may come late: what it copies is not to be forgotten then.
            self.follower.epochs.insert(told.group, told.epoch);
            return self.join(now, controller, told);
        }
        if told.epoch > known {
            self.follower.epochs.insert(told.group, told.epoch);
            self.follower.loading.remove(&told.group);
            let place = match role {
                Role::Member => Place { epoch: told.epoch, previous: told.previous, next: told.next },
                // Nobody comes before it: from itself it gets nothing.
                Role::Quiet => Place { epoch: told.epoch, previous: self.own, next: 0 },
                Role::None | Role::Joiner => Place::default(),
            };
            self.change_place(told.group, namespace, place);
            if role == Role::None {
                self.forget(told.group);
            }
        }
        if role == Role::None
            && self.follower.loading.get(&told.group).is_some_and(|loading| loading.told.pass <= told.pass)
        {
            // Nobody waits for what it has copied.
            self.follower.loading.remove(&told.group);
            self.forget(told.group);
        }
        self.say(controller, kind::chain::PLACED, told.epoch, 0, |packet| told.write(packet, BODY));
    }

    /// Of a group that it has no part in, or not yet.
    fn forget(&mut self, group: u16) {
        if self.is_broken(crate::Mutant::KeepOldMemory) {
            return;
        }
        let keys: Vec<Key> = self.names.range((group, Key::LEAST)..=(group, Key::GREATEST)).map(|(k, _)| k.1).collect();
        for key in keys {
            self.memory.remove(group, key);
            self.names.remove(&(group, key));
        }
    }

    fn on_renewed(&mut self, told: &Renewal) {
        if told.boot != self.follower.config.boot {
            return;
        }
        if told.lease_us > 0 {
            self.follower.leases.push(Lease { since: Time(told.sent_us), lasts: told.lease_us.into() });
        }
    }

    // ---- copying, at the joiner ----

    fn join(&mut self, now: Time, controller: Handle, told: Placement) {
        let group = told.group;
        let pass = (told.epoch, told.pass);
        match self.follower.loading.get_mut(&group).filter(|loading| (loading.told.epoch, loading.told.pass) >= pass) {
            Some(loading) if (loading.told.epoch, loading.told.pass) > pass => {}
            Some(loading) if loading.done => {
                loading.controller = controller;
                self.say_loaded(group);
            }
            Some(_) => {}
            None => {
                // What an earlier pass has brought may be of a source that was no tail any more, and newer than what
                // the tail has.
                self.forget(group);
                let loading = Loading {
                    told,
                    controller,
                    after: After::Nothing,
                    nonce: 0,
                    name: None,
                    value: None,
                    due: now,
                    done: false,
                };
                self.follower.loading.insert(group, loading);
                self.fetch(now, group);
            }
        }
    }

    fn say_loaded(&mut self, group: u16) {
        let Some(loading) = self.follower.loading.get(&group) else { return };
        let (told, controller) = (loading.told, loading.controller);
        self.say(controller, kind::chain::PLACED, told.epoch, 0, |packet| told.write(packet, BODY));
    }

    /// Asks for what comes after what it has.
    fn fetch(&mut self, now: Time, group: u16) {
        self.follower.nonce += 1;
        let (nonce, retransmit) = (self.follower.nonce, self.follower.config.retransmit);
        let Some(loading) = self.follower.loading.get_mut(&group) else { return };
        loading.nonce = nonce;
        loading.due = now + retransmit;
        (loading.name, loading.value) = (None, None);
        let mut question = Copied { nonce, group, ..Copied::default() };
        match loading.after {
            After::Nothing => {}
            // The key, and that there is one.
            After::Key(key) => (question.key_high, question.key_low, question.length) = (key.high, key.low, 1),
        }
        let source = loading.told.source;
        self.say(source, kind::chain::FETCH, 0, 0, |packet| question.write(packet, BODY));
    }

    fn on_copy(&mut self, now: Time, source: Handle, piece: &Copied, content: &[u8]) {
        let group = piece.group;
        let current = self.follower.loading.get_mut(&group).filter(|loading| !loading.done);
        let Some(loading) = current.filter(|l| l.nonce == piece.nonce && l.told.source == source) else { return };
        let Ok(part) = Part::try_from(piece.part) else { return };
        let version = Version { epoch: piece.epoch, sequence: piece.sequence };
        let key = Key { high: piece.key_high, low: piece.key_low, check: 0 };
        match part {
            Part::Name => {
                let Some(name) = content.get(..usize::from(piece.length)) else { return };
                loading.name = Some((key, version, name.to_vec()));
            }
            Part::Value => {
                let length = (piece.flags & value_flag::PRESENT != 0).then_some(piece.length);
                let lease = (piece.flags & value_flag::LEASED != 0).then(|| Owner::unpack(piece.owner));
                let mut value = Content { length, lease, ..Content::nothing(version) };
                let Some(bytes) = content.get(..usize::from(piece.length)) else { return };
                let Some(to) = value.bytes.get_mut(..bytes.len()) else { return };
                to.copy_from_slice(bytes);
                loading.value = Some((key, value));
            }
            Part::End => {
                loading.done = true;
                return self.say_loaded(group);
            }
        }
        self.take_key(now, group);
    }

    /// Once a key's both pieces are here.
    fn take_key(&mut self, now: Time, group: u16) {
        let Some(loading) = self.follower.loading.get_mut(&group) else { return };
        let (Some((key, ..)), Some((of, _))) = (&loading.name, &loading.value) else { return };
        if key != of {
            return;
        }
        let (Some((told, first, name)), Some((_, content))) = (loading.name.take(), loading.value.take()) else {
            return;
        };
        let Some(groups) = self.namespaces.iter().find(|groups| groups.has(group)) else { return };
        let Ok(named) = Key::of(&groups.name, &name) else { return };
        if (named.high, named.low) != (told.high, told.low) {
            return;
        }
        let key = named;
        let place = self.memory.place(group);
        if self.insert(group, key, &name, Some(first), place).is_err() {
            // What there is room for is for others.
            self.forget(group);
            let loading = self.follower.loading.get_mut(&group).expect("it was there");
            (loading.done, loading.told.refused) = (true, 1);
            return self.say_loaded(group);
        }
        if self.is_broken(crate::Mutant::ForgetNames) {
            self.names.remove(&(group, key));
        }
        self.memory.raise(group, key, &content);
        if let Some(loading) = self.follower.loading.get_mut(&group) {
            loading.after = After::Key(key);
        }
        self.fetch(now, group);
    }

    // ---- copying, at the source ----

    fn on_fetch(&mut self, joiner: Handle, question: &Copied) {
        let group = question.group;
        let place = self.memory.place(group);
        if place.epoch == 0 || place.next != 0 {
            return;
        }
        let after = Key { high: question.key_high, low: question.key_low, check: u64::MAX };
        let start = if question.length == 0 { Key::LEAST } else { after };
        let key = self.names.range((group, start)..=(group, Key::GREATEST)).map(|(&(_, key), _)| key).next();
        if let Some(key) = key {
            return self.copy_key(joiner, question, key);
        }
        let end = Copied { part: Part::End as u8, ..*question };
        self.say(joiner, kind::chain::COPY, 0, 0, |packet| end.write(packet, BODY));
    }

    fn copy_key(&mut self, joiner: Handle, question: &Copied, key: Key) {
        let group = question.group;
        let (Some(named), Some(content)) = (self.names.get(&(group, key)), self.memory.content(group, key)) else {
            return;
        };
        let (first, name) = (named.first, named.name.clone());
        let piece = |part: Part, version: Version, length: usize| Copied {
            key_high: key.high,
            key_low: key.low,
            nonce: question.nonce,
            sequence: version.sequence,
            epoch: version.epoch,
            group,
            length: length as u16,
            part: part as u8,
            ..Copied::default()
        };
        let value = &content.bytes[..usize::from(content.length.unwrap_or(0))];
        let of_value = piece(Part::Value, content.version, value.len());
        let of_value = Copied { flags: content.flags(), owner: Owner::pack(content.lease), ..of_value };
        for (piece, bytes) in [(piece(Part::Name, first, name.len()), &*name), (of_value, value)] {
            let count = bytes.len().div_ceil(limits::BLOCK_BYTES);
            self.say(joiner, kind::chain::COPY, 0, count, |packet| {
                piece.write(packet, BODY);
                packet[BODY + Copied::BYTES..][..bytes.len()].copy_from_slice(bytes);
            });
        }
    }
}
