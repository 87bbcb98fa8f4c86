//! Chains over the switches of a shard, at this switch's daemon: who the others are, the sessions that clients ask here
//! with, and the controller of chains while this switch has the post.
//!
//! Invariants
//! * Every start is a beginning with an empty memory, under a higher boot number: names of keys are in no record.
//! * The places' lease runs from when it was asked for, and never ends sooner than was said before.
//! * While this switch has the post, its own controller keeps the sessions' table; otherwise the roster does, from the
//!   records of whoever has it.
//! * Without the post, a lease is asked for only while etcd was heard from lately: whoever would not hear of sessions
//!   that are over stops serving clients.

use super::clock;
use super::etcd::fabric::{Changes, Listed};
use super::etcd::{BATCH, Shard};
use crate::answers::{ChainGroup, ChainSwitch, Chains as ChainsAnswer};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wayside_protocol::chain::controller::{Config, Controller, Fellow, Notice, State};
use wayside_protocol::chain::memory::ItemMemory;
use wayside_protocol::chain::{FELLOWS, Following, Groups, Lease, Member, Sent, switch_handle};
use wayside_protocol::controller::{DIVISION_KEY, Roster};
use wayside_protocol::memory::{Moment, NodeEntry, SwitchMemory};
use wayside_protocol::seal::{Keys, Period, Secret};
use wayside_protocol::{Handle, Time};
use wayside_switch::Switch;
use wayside_wire::{Header, kind};

/// Between attempts to take up the records, while etcd fails. Microseconds.
const ATTEMPT: u64 = 100_000;
/// Before a place, or a question for a piece of memory, is told again. Microseconds.
const RETRANSMIT: u64 = 20_000;
/// Before a switch that had no room for a group is asked to join one. Microseconds.
const FULL_PAUSE: u64 = 60_000_000;
/// Groups that are copied at a time, at least and at most, and questions under way of all: a key's answer is two
/// packets of some 200 bytes, and all of them together have to fit into a socket's queue.
const LOADS: RangeInclusive<usize> = 4..=64;
const WINDOW: usize = 128;

/// What a shard's switch is told at its start.
pub struct Joining {
    pub shard: Shard,
    pub number: u16,
    /// What the switches sign with to each other; None: packets are not signed.
    pub root: Option<Secret>,
    pub length: usize,
    /// Of the post.
    pub lease: Duration,
    pub drift_ppm: u32,
}

/// See the module's documentation.
pub struct Chains {
    switch: Arc<Switch>,
    shard: Shard,
    own: Handle,
    root: Option<Secret>,
    following: Following,
    controller: Controller<Shard>,
    fellows: BTreeMap<Handle, Listed>,
    roster: Roster,
    /// All of the records that were told, for when the post is lost.
    records: BTreeMap<u32, Vec<u8>>,
    rotations: BTreeMap<Handle, Period>,
    has_post: bool,
    /// Last that all was known that had changed in etcd.
    heard: Time,
    /// So long it may say nothing. Microseconds.
    deaf_most: u64,
    attempt_at: Time,
    /// End of the places' lease.
    serves_until: Time,
}

impl Chains {
    /// A switch that has no places yet, and its part in the others'.
    pub fn begin(joining: Joining, switch: &Arc<Switch>, groups: &[Groups]) -> (Chains, Member<Arc<Switch>>) {
        let Joining { shard, number, root, length, lease, drift_ppm } = joining;
        let post = lease.as_micros() as u64;
        let own = switch_handle(number);
        let config = Config {
            own,
            groups: groups.iter().flat_map(|groups| groups.base..groups.base + groups.count).collect(),
            length,
            // Long enough for the post to go from one switch to another without any chain's stopping for it.
            lease: 2 * post,
            drift_ppm,
            patience: 2 * post,
            retransmit: RETRANSMIT,
            full_pause: FULL_PAUSE,
            loads_least: *LOADS.start(),
            loads_most: *LOADS.end(),
            records_most: BATCH - 1,
            mutant: None,
        };
        let following = Following {
            boot: 0,
            controllers: vec![own],
            renewal: post / 4,
            retransmit: RETRANSMIT,
            window: WINDOW,
            mutant: None,
        };
        let mut chains = Chains {
            switch: Arc::clone(switch),
            controller: Controller::new(config, &[], shard.chains()),
            shard,
            own,
            root,
            following,
            fellows: BTreeMap::new(),
            roster: Roster::default(),
            records: BTreeMap::new(),
            rotations: BTreeMap::new(),
            has_post: false,
            heard: clock::now(),
            deaf_most: 2 * post,
            attempt_at: Time(0),
            serves_until: Time(0),
        };
        switch.set_authenticated(chains.root.is_some());
        let member = chains.begin_anew(groups.to_vec());
        (chains, member)
    }

    /// With an empty memory, and a boot number that is higher than any before: microseconds of the calendar, or one
    /// more.
    fn begin_anew(&mut self, groups: Vec<Groups>) -> Member<Arc<Switch>> {
        self.switch.serve_places_for(self.switch.moment(clock::now()), 0);
        self.serves_until = Time(0);
        self.switch.empty_store();
        let calendar = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
        self.following.boot = calendar.max(self.following.boot + 1);
        Member::new(Arc::clone(&self.switch), self.own, groups).following(self.following.clone())
    }

    /// A member that has nothing any more, to say so; `None`: nobody would hear it, as this switch has the post.
    pub fn leave(&mut self, groups: Vec<Groups>) -> Option<Member<Arc<Switch>>> {
        let controllers = std::mem::take(&mut self.following.controllers);
        self.following.controllers = controllers.into_iter().filter(|controller| *controller != self.own).collect();
        (!self.has_post).then(|| self.begin_anew(groups))
    }

    /// What has changed in etcd.
    pub fn on_changes(&mut self, now: Time, changes: Changes, member: &mut Member<Arc<Switch>>) {
        if changes.is_all {
            self.heard = now;
        }
        for listed in changes.switches {
            let handle = switch_handle(listed.number);
            let weight = listed.share;
            self.controller.set_fellow(now, Fellow { handle, address: listed.address, weight });
            let known = self.fellows.insert(handle, listed);
            if handle != self.own && known.is_none_or(|known| known.address != listed.address) {
                self.introduce(handle, &listed);
            }
        }
        self.following.controllers = self.fellows.keys().copied().collect();
        member.follow(self.following.controllers.clone());
        for (key, bytes) in changes.records {
            let record = (key, bytes);
            if !self.has_post && key != DIVISION_KEY && !self.roster.take(&self.switch, &record) {
                tracing::warn!(key, "etcd has a record that is none");
            }
            self.records.insert(record.0, record.1);
        }
        for (handle, period) in changes.rotations {
            if !self.has_post {
                self.roster.rotate(&self.switch, handle, period);
            }
            self.rotations.insert(handle, period);
        }
    }

    /// Switches are nodes to each other: of two, the one with the lower handle is the node, and the other its switch.
    fn introduce(&self, handle: Handle, listed: &Listed) {
        let keys = self.root.as_ref().map(|root| {
            let pair = root.of_session(self.own.min(handle).into(), self.own.max(handle).into());
            let keys = pair.keys(Period { incarnation: 0, epoch: 0, rotation: 0 });
            if handle < self.own { keys } else { Keys { up: keys.down, down: keys.up } }
        });
        self.switch.set_keys(handle, keys.as_ref());
        self.switch.set_node(handle, &NodeEntry { address: listed.address, namespace: FELLOWS, incarnation: 1 });
        tracing::info!(switch = %listed.address, "another switch of the shard");
    }

    /// A packet for the controller of chains, or for the member where it returns true.
    pub fn on_packet(&mut self, now: Time, packet: &[u8]) -> bool {
        let kind = Header::read(packet).map_or(0, |header| header.kind);
        let is_controllers = matches!(kind, kind::chain::RENEW | kind::chain::PLACED);
        if is_controllers {
            self.controller.on_packet(now, packet);
        }
        !is_controllers
    }

    /// The post is this switch's until then, as far as it knows; long ago: it is not.
    pub fn hold_post(&mut self, now: Time, until: Time) {
        if until <= now {
            self.controller.leave_post();
            return;
        }
        if now < self.attempt_at {
            return;
        }
        self.controller.take_post(now, until);
        if !self.controller.is_active(now) {
            self.attempt_at = now + ATTEMPT;
        }
    }

    /// This switch keeps its sessions itself from now on, or takes them from the records.
    pub fn note_role(&mut self, has_post: bool) {
        if self.has_post == has_post {
            return;
        }
        self.has_post = has_post;
        self.roster = Roster::default();
        if !has_post {
            self.rotations.iter().for_each(|(&handle, &period)| self.roster.rotate(&self.switch, handle, period));
            for (key, bytes) in &self.records {
                self.roster.take(&self.switch, &(*key, bytes.clone()));
            }
        }
    }

    /// A session's keys have been changed here: the other switches are to know.
    pub fn note_rotation(&self, handle: Handle, incarnation: u64, epoch: u32) {
        let rotation = self.switch.rotation(handle);
        self.shard.note_rotation(handle, Period { incarnation, epoch, rotation });
    }

    /// When [`Chains::settle`] is wanted.
    pub fn next_timer(&self, member: &Member<Arc<Switch>>) -> Time {
        self.controller.next_timer().min(member.next_timer())
    }

    /// Does what is due, and what this switch says to itself. The rest is to be sent.
    pub fn settle(&mut self, now: Time, member: &mut Member<Arc<Switch>>) -> Vec<Sent> {
        if self.controller.next_timer() <= now {
            self.controller.on_tick(now);
        }
        if member.next_timer() <= now {
            member.on_tick(now);
        }
        let is_deaf = !self.has_post && now.since(self.heard) > self.deaf_most;
        let mut out = Vec::new();
        loop {
            let said = member.transmit().map(|sent| (sent, true));
            let said = said.or_else(|| self.controller.transmit().map(|sent| (sent, false)));
            let Some((sent, by_member)) = said else { break };
            // Asked for again once etcd is back.
            if is_deaf && by_member && Header::read(&sent.packet).is_ok_and(|header| header.kind == kind::chain::RENEW)
            {
                continue;
            }
            match sent.to == self.own {
                false => out.push(sent),
                true if by_member && !self.on_packet(now, &sent.packet) => {}
                true => member.on_fellow(now, &sent.packet),
            }
        }
        while let Some(Lease { since, lasts }) = member.lease() {
            self.serve(since + lasts);
        }
        self.tell();
        out
    }

    fn serve(&mut self, until: Time) {
        if until <= self.serves_until {
            return;
        }
        self.serves_until = until;
        // The ticks first, then the clock: whatever comes between the two makes the lease at the hook shorter.
        let Moment { tick, .. } = self.switch.moment(Time(0));
        let now = clock::now();
        self.switch.serve_places_for(Moment { time: now, tick }, until.since(now));
    }

    fn tell(&mut self) {
        let mut left_out: BTreeMap<Handle, usize> = BTreeMap::new();
        while let Some(notice) = self.controller.notice() {
            match notice {
                Notice::Active(group, epoch) => tracing::debug!(group, epoch, "chain serves"),
                Notice::Excluded(_, switch) => *left_out.entry(switch).or_default() += 1,
                Notice::Full(group, switch) => {
                    tracing::warn!(group, switch = %self.name(switch), "has no room for a group: give it more `keys`");
                }
                Notice::Joining(group, switch) => tracing::info!(group, switch = %self.name(switch), "joins a chain"),
                Notice::Lost(group) => {
                    tracing::error!(
                        group,
                        "no switch has what this group had; `wayside chain recover` begins it empty"
                    );
                }
                Notice::StoreFailed => {
                    tracing::warn!("chains can't be changed: etcd, or a switch that is not known yet")
                }
            }
        }
        for (switch, chains) in left_out {
            tracing::warn!(switch = %self.name(switch), chains, "silent, and left out of its chains");
        }
    }

    fn name(&self, handle: Handle) -> String {
        self.fellows.get(&handle).map_or_else(|| format!("handle {handle}"), |listed| listed.address.to_string())
    }

    /// Chains and switches, if this switch has the post.
    pub fn view(&self, now: Time, groups: &[Groups], namespace_of: impl Fn(u16) -> String) -> Option<ChainsAnswer> {
        if !self.controller.is_active(now) {
            return None;
        }
        let switches = self.controller.switches(now).map(|(fellow, up)| ChainSwitch {
            address: fellow.address.to_string(),
            share: fellow.weight,
            up,
        });
        let group = |view: wayside_protocol::chain::controller::GroupView<'_>| {
            let of = groups.iter().find(|groups| (groups.base..groups.base + groups.count).contains(&view.number));
            let (state, other) = match view.state {
                State::Waiting => ("waiting", None),
                State::Changing => ("changing", None),
                State::Serving => ("serving", None),
                State::Copying(joiner) => ("copying", Some(joiner)),
                State::Joining(joiner) => ("joining", Some(joiner)),
                State::Lost => ("lost", None),
            };
            ChainGroup {
                namespace: of.map_or_else(String::new, |groups| namespace_of(groups.namespace)),
                group: of.map_or(view.number, |groups| view.number - groups.base),
                epoch: view.epoch,
                state: state.into(),
                chain: view.chain.iter().map(|handle| self.name(*handle)).collect(),
                joiner: other.map(|joiner| self.name(joiner)),
            }
        };
        Some(ChainsAnswer { switches: switches.collect(), groups: self.controller.groups().map(group).collect() })
    }

    /// Lets all groups that are lost begin empty. How many there were.
    pub fn recover(&mut self, now: Time) -> Option<usize> {
        if !self.controller.is_active(now) {
            return None;
        }
        let lost: Vec<u16> =
            self.controller.groups().filter(|group| group.state == State::Lost).map(|group| group.number).collect();
        Some(lost.into_iter().filter(|group| self.controller.begin_lost(now, *group)).count())
    }

    /// A switch's share of the groups, for etcd to have. None: no such switch.
    pub fn listed(&self, address: &str) -> Option<(Shard, Listed)> {
        // One that has lost its state directory is there twice.
        let listed = self.fellows.values().rfind(|listed| listed.address.to_string() == address)?;
        Some((self.shard.clone(), *listed))
    }
}
