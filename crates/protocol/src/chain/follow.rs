//! A switch's daemon as the controller of chains sees it: it takes places, asks for its lease, and joins groups, which
//! it copies (`copying.rs`).
//!
//! Invariants
//! * A place of an epoch at or below the one that a group has here, or is copied in, changes nothing.
//! * Whoever leaves a group forgets its keys before he says so.
//! * The lease runs from when it was asked for, by the clock of who asked.

use super::copying::Loading;
use super::memory::ItemMemory;
use super::{GroupRoute, Key, Member, Place, Sent};
use crate::{Handle, Time};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddrV4;
use wayside_wire::{BODY, Copied, Header, Placement, Renewal, Role, blocks, check, kind, limits, service};

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
    /// Questions for pieces of groups' memories that are under way at a time, of all groups together; each that is
    /// copied has at least one.
    pub window: usize,
    /// A rule to break.
    pub mutant: Option<crate::Mutant>,
}

/// The daemon's part in reconfigurations.
#[derive(Default)]
pub(super) struct Follower {
    pub(super) config: Following,
    /// Of every group that a place was told of.
    epochs: BTreeMap<u16, u32>,
    pub(super) loading: BTreeMap<u16, Loading>,
    renew_at: Time,
    pub(super) nonce: u64,
    /// Keys that have come with groups that were copied.
    pub(super) copied: u64,
    pub(super) leases: Vec<Lease>,
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
        let loading = self.follower.loading.values().map(Loading::next_timer);
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
        let is_due = |(_, loading): &(&u16, &Loading)| loading.next_timer() <= now;
        let due: Vec<u16> = self.follower.loading.iter().filter(is_due).map(|(&group, _)| group).collect();
        due.into_iter().for_each(|group| self.fetch_due(now, group));
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
    pub(super) fn forget(&mut self, group: u16) {
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
}
