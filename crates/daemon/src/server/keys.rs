//! The chain service at this daemon: makes keys, and tells clients where groups are. On the controller's thread.
//!
//! A switch that is alone is head and tail of all of its groups, under the epoch that it serves under. One of several
//! has the places that the controller of chains gives it (`chains.rs`).

use super::chains::{Chains, Joining};
use super::clock;
use super::metrics::KeyNumbers;
use super::names::{Lost, Names};
use crate::answers::{Chains as ChainsAnswer, KeyLine, Keys as KeyList};
use crate::config::Config;
use std::net::{SocketAddrV4, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use wayside_protocol::chain::memory::ItemMemory;
use wayside_protocol::chain::{GroupRoute, Groups, Member, Place, Sweeping, is_between_switches};
use wayside_protocol::{Handle, Time};
use wayside_switch::Switch;
use wayside_wire::{Header, service};

/// Keys in an answer: it is one line.
const MOST_LISTED: usize = 10_000;

/// Copies of what is said last.
const FAREWELLS: u32 = 3;

pub struct Keys {
    switch: Arc<Switch>,
    member: Member<Arc<Switch>>,
    groups: Vec<Groups>,
    /// Where clients are sent to.
    listen: SocketAddrV4,
    /// Under which its groups have a place; 0: under none yet.
    epoch: u32,
    /// Unless the switch is alone.
    pub chains: Option<Chains>,
    /// Where names are written down, if the memory may outlive this daemon.
    names: Option<Names>,
}

impl Keys {
    /// Of the namespaces that have room for keys. `joining`: unless the switch is alone. `life`: a number that no other
    /// daemon has, and none before.
    pub fn new(
        switch: Arc<Switch>,
        config: &Config,
        numbers: &[u16],
        listen: SocketAddrV4,
        joining: Option<Joining>,
        life: u64,
    ) -> Keys {
        let groups = groups_of(config, numbers);
        let sweeping = Sweeping { collect_after: config.collect_after.as_micros() as u64, ..Sweeping::default() };
        let (member, chains) = match joining {
            None => {
                switch.serve_places_without_end();
                (Member::new(Arc::clone(&switch), 0, groups.clone()), None)
            }
            Some(joining) => {
                let (chains, member) = Chains::begin(joining, &switch, &groups);
                (member, Some(chains))
            }
        };
        Keys { switch, member: member.seeded(life).sweeping(sweeping), groups, listen, epoch: 0, chains, names: None }
    }

    /// Keeps keys' names in this directory, as the memory may outlive this daemon; and knows those of keys that have
    /// outlived an earlier one. Not a switch of several, whose every start is one with an empty memory.
    pub fn keep_names(&mut self, directory: &Path) {
        if self.chains.is_some() {
            return;
        }
        let member = &mut self.member;
        self.names = Some(Names::open(directory, |namespace, name| {
            member.learn_name(namespace, name);
        }));
        member.keep_names();
        let (names, unnamed) = (self.member.known_names(), self.unnamed());
        if unnamed > 0 {
            tracing::warn!(
                names,
                unnamed,
                "keys without a name: they work as ever, but lists and watches of prefixes can't tell which they are"
            );
        } else if names > 0 {
            tracing::info!(names, "keys are known by name");
        }
    }

    /// Keys of this switch whose names nobody knows.
    fn unnamed(&self) -> u64 {
        u64::from(self.switch.keys().0).saturating_sub(self.member.known_names())
    }

    /// Writes down what was made, and a piece of the file if it has too much in it.
    fn write_names(&mut self) {
        let Some(names) = &mut self.names else { return };
        while let Some((namespace, name)) = self.member.made() {
            names.add(namespace, &name);
        }
        if names.is_untidy(self.member.known_names()) {
            names.tidy(|at, most, tell| self.member.tell_names(at, most, tell));
        }
    }

    /// The switch serves under this epoch.
    pub fn serve_under(&mut self, epoch: u32) {
        if self.epoch == epoch || self.chains.is_some() {
            return;
        }
        self.epoch = epoch;
        let route = GroupRoute { epoch, head: self.listen, tail: self.listen };
        for groups in &self.groups {
            for group in groups.base..groups.base + groups.count {
                self.member.take_place(group, Place { epoch, previous: 0, next: 0 }, route);
            }
        }
    }

    /// Takes a packet, if it is of the chain service. False: it is another's.
    pub fn on_packet(&mut self, now: Time, from: SocketAddrV4, packet: &[u8]) -> bool {
        let Some(header) = Header::read(packet).ok().filter(|header| header.service == service::CHAIN) else {
            return false;
        };
        let is_fellows = is_between_switches(header.kind);
        match &mut self.chains {
            Some(chains) if is_fellows => {
                if chains.on_packet(now, packet) {
                    self.member.on_fellow(now, packet);
                }
            }
            _ => self.member.on_packet(now, from.port(), packet),
        }
        true
    }

    /// What has changed at the other switches of the shard.
    pub fn on_changes(&mut self, now: Time, changes: super::etcd::fabric::Changes) {
        if let Some(chains) = &mut self.chains {
            chains.on_changes(now, changes, &mut self.member);
        }
    }

    /// A session's keys have been changed here.
    pub fn note_rotation(&self, handle: Handle, incarnation: u64, epoch: u32) {
        if let Some(chains) = &self.chains {
            chains.note_rotation(handle, incarnation, epoch);
        }
    }

    /// Chains and switches, if this switch is of several and has the post. `namespace_of`: a namespace's name by
    /// number.
    pub fn view(&self, namespace_of: impl Fn(u16) -> String) -> Option<ChainsAnswer> {
        self.chains.as_ref()?.view(clock::now(), &self.groups, namespace_of)
    }

    /// Keys whose names begin so, by name.
    pub fn list(&self, namespace: u16, prefix: &[u8]) -> KeyList {
        let mut found: Vec<_> = self.member.names(namespace).filter(|(name, ..)| name.starts_with(prefix)).collect();
        let more = found.len().saturating_sub(MOST_LISTED);
        if more > 0 {
            // A million in order would take the controller's thread longer than a serving lease.
            found.select_nth_unstable(MOST_LISTED);
            found.truncate(MOST_LISTED);
        }
        found.sort_unstable();
        let unnamed = self.unnamed();
        let line = |(name, group, key): (&[u8], u16, _)| {
            let content = self.switch.content(group, key)?;
            let name = String::from_utf8_lossy(name).into_owned();
            Some(KeyLine { name, version: content.version.to_string(), bytes: content.length })
        };
        KeyList { keys: found.into_iter().filter_map(line).collect(), more, unnamed }
    }

    /// Places, watches and copyings, for a scrape.
    pub fn numbers(&self) -> KeyNumbers {
        let mut places = [("alone", 0), ("head", 0), ("middle", 0), ("tail", 0), ("none", 0)];
        for group in self.groups.iter().flat_map(|groups| groups.base..groups.base + groups.count) {
            let Place { epoch, previous, next } = self.switch.place(group);
            let role = match (epoch, previous, next) {
                (0, ..) => 4,
                (_, 0, 0) => 0,
                (_, 0, _) => 1,
                (_, _, 0) => 3,
                _ => 2,
            };
            places[role].1 += 1;
        }
        let (copying, copied) = self.member.copying();
        let lost = self.names.as_ref().map_or_else(Lost::default, Names::lost);
        let unnamed = self.unnamed();
        let (changes, watched) = (self.member.places_changed(), self.member.watched());
        KeyNumbers { places, changes, copying, copied, watched, unnamed, lost }
    }

    /// When [`Keys::settle`] is wanted.
    pub fn next_timer(&self) -> Time {
        if self.names.as_ref().is_some_and(|names| names.is_untidy(self.member.known_names())) {
            return Time(0);
        }
        self.chains.as_ref().map_or_else(|| self.member.next_timer(), |chains| chains.next_timer(&self.member))
    }

    /// Leases that this switch has ended, and keys that it has removed, since the last call.
    pub fn swept(&mut self) -> (u64, u64) {
        let mut ended = 0;
        while let Some(lease) = self.member.ended() {
            tracing::debug!(group = lease.group, handle = lease.owner.handle, version = %lease.version, "lease ended");
            ended += 1;
        }
        let mut removed = 0;
        while let Some(gone) = self.member.removed() {
            tracing::debug!(group = gone.group, version = %gone.at, by_head = gone.by_head, "key removed");
            removed += u64::from(gone.by_head);
        }
        (ended, removed)
    }

    /// Does what is due, and sends what there is to say. `post_until`: until when this switch has the shard's post.
    pub fn settle(&mut self, now: Time, post_until: Time, socket: &UdpSocket) {
        if let Some(chains) = &mut self.chains {
            chains.hold_post(now, post_until);
            for sent in chains.settle(now, &mut self.member) {
                self.send(sent, socket);
            }
            return;
        }
        if self.member.next_timer() <= now {
            self.member.on_tick(now);
        }
        self.write_names();
        while let Some(sent) = self.member.transmit() {
            self.send(sent, socket);
        }
    }

    /// This daemon ends in order. To its chains that is a beginning with an empty memory: nobody waits for its lease.
    pub fn leave(&mut self, now: Time, socket: &UdpSocket) {
        let Some(chains) = &mut self.chains else { return };
        let Some(mut member) = chains.leave(self.groups.clone()) else { return };
        member.on_tick(now);
        let said: Vec<_> = std::iter::from_fn(|| member.transmit()).collect();
        // Nobody will send it again.
        for sent in (0..FAREWELLS).flat_map(|_| &said) {
            self.send(sent.clone(), socket);
        }
    }

    fn send(&self, mut sent: wayside_protocol::chain::Sent, socket: &UdpSocket) {
        // Who has no key or address is gone.
        let Some(to) = self.switch.address(sent.to, sent.port) else { return };
        if !self.switch.seal(sent.to, &mut sent.packet) {
            return;
        }
        // Lost like any packet: whoever waits for it asks again.
        if let Err(error) = socket.send_to(&sent.packet, to) {
            tracing::debug!(%to, %error, "a packet about keys was not sent");
        }
    }
}

/// Groups are numbered in the order of namespaces' numbers, which stay: so are they.
pub fn groups_of(config: &Config, numbers: &[u16]) -> Vec<Groups> {
    let mut namespaces: Vec<_> = config.namespaces.iter().zip(numbers).collect();
    namespaces.sort_unstable_by_key(|(_, number)| **number);
    let mut base = 0u16;
    let mut groups = Vec::new();
    for (namespace, &number) in namespaces {
        let count = if namespace.keys == 0 { 0 } else { namespace.groups };
        groups.push(Groups { namespace: number, name: namespace.name.as_bytes().into(), base, count });
        base = base.wrapping_add(namespace.groups);
    }
    groups
}
