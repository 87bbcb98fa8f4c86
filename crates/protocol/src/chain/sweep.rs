//! What daemons do of themselves: a head's ends leases whose sessions are over, and removes keys that have had no value
//! for a while from all switches of their chain.
//!
//! ```text
//!   a lease's end:  head's memory --APPLY--> ... --APPLY--> tail --ANSWER--> head's daemon
//!   a removal:      head's daemon --REMOVE--> ... --REMOVE--> tail --REMOVED--> ... --REMOVED--> head's daemon
//!                   once as a question, then, the key being marked, for good
//! ```
//!
//! Invariants
//! * A lease is ended by a version of its own, made by the head under the item's lock if the key still has the leased
//!   one: to clients and to the other switches it is a write like any other. It is told until the tail has answered, by
//!   every head of every epoch anew: nobody else asks for it.
//! * Behind the head nobody ends a lease (`behind.rs`).
//! * A key is removed by the tail first and by the head last, by each at the version that the head told and without a
//!   value. From before the first of them until after the last the head writes nothing to it, and nobody makes it.
//! * A switch that has removed a key makes none of the group by an INSTALL that was sent before: it may be of the key's
//!   earlier life.
//! * The mark is the epoch's: with another place the key stays.

use super::behind::Behind;
use super::memory::{Content, ItemMemory, Seen};
use super::{Key, Member, Place, Sent, Version};
use crate::{Handle, Time};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use wayside_wire::{BODY, Copied, Effect, Header, Outcome, kind, limits, service};

/// How a daemon looks after the keys of which it is the head. Times in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Sweeping {
    /// A key without a value goes after so long, and at most half as long again; 0: never.
    pub collect_after: u64,
    /// Places of the memory that are looked at between two packets.
    pub looks: u32,
    /// Before what was not answered is told again.
    pub retransmit: u64,
    /// All keys are looked at again after so long, whatever happens: a late packet may have brought a leased value
    /// after its session was over.
    pub look_again: u64,
}

impl Default for Sweeping {
    fn default() -> Sweeping {
        // 512 places take some 50 us.
        Sweeping { collect_after: 60_000_000, looks: 512, retransmit: 20_000, look_again: 30_000_000 }
    }
}

/// What a daemon has in hand.
#[derive(Default)]
pub(super) struct Sweeper {
    pub(super) config: Sweeping,
    /// Where the pass goes on that is under way.
    at: Option<u32>,
    /// Ends of sessions that the latest pass knew of.
    heard: u64,
    /// And it is not one of those that come by themselves.
    is_asked: bool,
    /// Something has changed that the pass under way may have missed.
    again: bool,
    /// The next pass begins by then, whatever happens.
    pass_at: Time,
    idle: BTreeMap<(u16, Key), Idle>,
    /// Ends of leases, or what came after, that the tail has not answered.
    telling: BTreeMap<(u16, Key), Telling>,
    leaving: BTreeMap<(u16, Key), Leaving>,
    /// Behind the head: leased values whose sessions are over.
    pub(super) behind: BTreeMap<(u16, Key), Behind>,
    /// By group: the latest count of a head at which a key was removed here.
    pub(super) removed: BTreeMap<u16, Version>,
    /// What has been done, for whoever asks.
    ended: Vec<EndedLease>,
    gone: Vec<RemovedKey>,
}

/// A lease that was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedLease {
    /// Of the key.
    pub group: u16,
    /// Which key.
    pub key: Key,
    /// Whose it was.
    pub owner: super::memory::Owner,
    /// The version that has ended it.
    pub version: Version,
}

/// A key that was removed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedKey {
    /// Of this group.
    pub group: u16,
    /// Which key; its check may be missing.
    pub key: Key,
    /// It had no value since this version.
    pub at: Version,
    /// By the head of its chain, the last of all.
    pub by_head: bool,
}

/// A key without a value.
struct Idle {
    version: Version,
    since: Time,
    /// The epoch in which the tail has answered that it has this version.
    told_in: u32,
}

struct Telling {
    version: Version,
    due: Time,
}

struct Leaving {
    at: Version,
    count: u64,
    due: Time,
}

impl<M: ItemMemory> Member<M> {
    /// Looks after its keys so.
    #[must_use]
    pub fn sweeping(mut self, config: Sweeping) -> Member<M> {
        self.sweeper.config = config;
        self
    }

    /// A lease that was ended since the last call.
    pub fn ended(&mut self) -> Option<EndedLease> {
        self.sweeper.ended.pop()
    }

    /// A key that was removed here since the last call.
    pub fn removed(&mut self) -> Option<RemovedKey> {
        self.sweeper.gone.pop()
    }

    /// Whether all that this switch knows of has been looked at, and answered for.
    pub fn is_swept(&self) -> bool {
        let Sweeper { at, is_asked, again, heard, telling, leaving, behind, .. } = &self.sweeper;
        let is_looking = at.is_some() && *is_asked || *again || *heard != self.memory.ends();
        !is_looking && telling.is_empty() && leaving.is_empty() && behind.is_empty()
    }

    pub(super) fn next_sweep(&self) -> Time {
        let sweeper = &self.sweeper;
        if sweeper.at.is_some() || sweeper.again || self.memory.ends() != sweeper.heard {
            return Time(0);
        }
        let telling = sweeper.telling.values().map(|telling| telling.due);
        let others = sweeper.leaving.values().map(|leaving| leaving.due);
        let others = others.chain(sweeper.behind.values().map(|behind| behind.due));
        telling.chain(others).min().unwrap_or(Time::NEVER).min(sweeper.pass_at)
    }

    pub(super) fn sweep(&mut self, now: Time) {
        self.tell_again(now);
        self.remove_again(now);
        self.ask_again(now);
        if self.sweeper.at.is_none() {
            let ends = self.memory.ends();
            if self.sweeper.pass_at > now && !self.sweeper.again && ends == self.sweeper.heard {
                return;
            }
            self.sweeper.is_asked = self.sweeper.again || ends != self.sweeper.heard;
            self.sweeper.again = false;
            self.sweeper.heard = ends;
            let Sweeping { collect_after, look_again, .. } = self.sweeper.config;
            let pause = if collect_after == 0 { look_again } else { look_again.min(collect_after / 2) };
            self.sweeper.pass_at = now + pause.max(1);
        }
        let mut seen = Vec::new();
        let from = self.sweeper.at.unwrap_or(0);
        self.sweeper.at = self.memory.look(from, self.sweeper.config.looks, &mut |item| seen.push(item));
        for item in seen {
            self.consider(now, item);
        }
    }

    /// A group gets another place: what was under way in the former ends.
    pub(super) fn leave_place(&mut self, group: u16) {
        let range = (group, Key::LEAST)..=(group, Key::GREATEST);
        let leaving: Vec<Key> = self.sweeper.leaving.range(range).map(|(&(_, key), _)| key).collect();
        for key in leaving {
            self.sweeper.leaving.remove(&(group, key));
            self.memory.stay(group, key);
        }
        self.sweeper.telling.retain(|(of, _), _| *of != group);
        self.sweeper.behind.retain(|(of, _), _| *of != group);
        self.sweeper.idle.retain(|(of, _), _| *of != group);
        self.sweeper.again = true;
    }

    /// Whether nobody makes this key now.
    pub(super) fn is_leaving(&self, group: u16, key: Key) -> bool {
        let same = (group, Key { check: 0, ..key })..=(group, Key { check: u64::MAX, ..key });
        self.sweeper.leaving.range(same).next().is_some() && !self.is_broken(crate::Mutant::InsertWhileLeaving)
    }

    fn head(&self, group: u16) -> Option<Place> {
        Some(self.memory.place(group)).filter(|place| place.epoch != 0 && place.previous == 0)
    }

    fn consider(&mut self, now: Time, item: Seen) {
        let (group, key) = (item.group, item.key);
        let Some(place) = self.head(group) else { return self.note_behind(now, item) };
        let version = if item.is_present { self.end_lease(item, place) } else { Some(item.version) };
        let Some(version) = version else { return };
        let idle = self.sweeper.idle.get(&(group, key)).filter(|idle| idle.version == version);
        let Idle { since, told_in, .. } = *idle.unwrap_or(&Idle { version, since: now, told_in: 0 });
        self.sweeper.idle.insert((group, key), Idle { version, since, told_in });
        // It is not known who heard it from the head before.
        if item.lease.is_some() && told_in != place.epoch {
            self.tell(now, group, key, version);
        }
        let after = self.sweeper.config.collect_after;
        let is_old = after > 0 && now.since(since) >= after;
        if is_old && !self.sweeper.leaving.contains_key(&(group, key)) {
            self.begin_removal(group, key, version, place);
        }
    }

    /// The version that has ended a key's lease, if that was over.
    fn end_lease(&mut self, item: Seen, place: Place) -> Option<Version> {
        let Seen { group, key, version, .. } = item;
        let is_forgotten = self.is_broken(crate::Mutant::ForgetLeases) && version.epoch != place.epoch;
        let owner = item.lease.filter(|_| !is_forgotten)?;
        if !self.memory.is_over(owner) && !self.is_broken(crate::Mutant::EndLivingLeases) {
            return None;
        }
        let Content { version, .. } = self.memory.end_lease(group, key, version, place.epoch)?;
        self.sweeper.ended.push(EndedLease { group, key, owner, version });
        Some(version)
    }

    // ---- ends of leases, at the head ----

    /// The tail is to have at least this version.
    fn tell(&mut self, now: Time, group: u16, key: Key, version: Version) {
        // Every look asks for it, and is not to put off what is told again.
        let is_told = self.sweeper.telling.get(&(group, key)).is_some_and(|telling| telling.version == version);
        if self.memory.place(group).next == 0 || is_told {
            return;
        }
        let due = now + self.sweeper.config.retransmit;
        self.sweeper.telling.insert((group, key), Telling { version, due });
        self.apply(group, key);
    }

    fn tell_again(&mut self, now: Time) {
        let due = self.sweeper.telling.iter().filter(|(_, telling)| telling.due <= now);
        let due: Vec<(u16, Key)> = due.map(|(&key, _)| key).collect();
        for (group, key) in due {
            if self.memory.content(group, key).is_none() {
                self.sweeper.telling.remove(&(group, key));
            } else if let Some(telling) = self.sweeper.telling.get_mut(&(group, key)) {
                telling.due = now + self.sweeper.config.retransmit;
                self.apply(group, key);
            }
        }
    }

    /// What the key has goes down the chain, for nobody's request: as a write's version does.
    pub(super) fn apply(&mut self, group: u16, key: Key) {
        let (place, Some(content)) = (self.memory.place(group), self.memory.content(group, key)) else { return };
        let Some(namespace) = self.namespaces.iter().find(|groups| groups.has(group)).map(|groups| groups.namespace)
        else {
            return;
        };
        let Content { version, lease, .. } = content;
        let value = &content.bytes[..usize::from(content.length.unwrap_or(0))];
        let count = value.len().div_ceil(limits::BLOCK_BYTES);
        let header = Header {
            service: service::CHAIN,
            kind: kind::chain::APPLY,
            count: count as u8,
            epoch: place.epoch,
            source: self.own,
            destination: place.next,
            namespace,
            position: lease.map_or(0, |owner| owner.handle),
            ..Header::default()
        };
        let effect = Effect {
            key_high: key.high,
            key_low: key.low,
            sequence: version.sequence,
            epoch: version.epoch,
            group,
            client: self.own,
            length: value.len() as u16,
            outcome: Outcome::Done as u8,
            flags: content.flags(),
            own_sequence: version.sequence,
            own_epoch: version.epoch,
            owner: lease.map_or(0, |owner| owner.incarnation),
            ..Effect::default()
        };
        let mut packet = vec![0; BODY + Effect::BYTES + count * limits::BLOCK_BYTES];
        header.write(&mut packet);
        effect.write(&mut packet, BODY);
        packet[BODY + Effect::BYTES..][..value.len()].copy_from_slice(value);
        self.out.push_back(Sent { to: place.next, port: 0, packet });
    }

    /// ANSWER: the tail has what it was told of a key, or some switch has no such key; or the next switch wants more.
    pub(super) fn on_answer(&mut self, header: &Header, effect: &Effect) {
        if effect.outcome == Outcome::Unmet as u8 {
            return self.on_behind(header, effect);
        }
        let group = effect.group;
        let place = self.memory.place(group);
        let same = |check| Key { high: effect.key_high, low: effect.key_low, check };
        let of = |telling: &BTreeMap<(u16, Key), Telling>| {
            telling
                .range((group, same(0))..=(group, same(u64::MAX)))
                .next()
                .map(|(&(_, key), telling)| (key, telling.version))
        };
        let Some((key, version)) = of(&self.sweeper.telling).filter(|_| header.epoch == place.epoch) else { return };
        let told = Version { epoch: effect.epoch, sequence: effect.sequence };
        // Where the key is missing it is missing behind as well (K3), and that is no value.
        let is_known = effect.outcome == Outcome::Done as u8 && told >= version;
        if is_known || effect.outcome == Outcome::Missing as u8 {
            self.sweeper.telling.remove(&(group, key));
            if let Some(idle) = self.sweeper.idle.get_mut(&(group, key)) {
                idle.told_in = place.epoch;
            }
        }
    }

    // ---- removals ----

    fn begin_removal(&mut self, group: u16, key: Key, at: Version, place: Place) {
        if place.next == 0 {
            return self.remove_here(group, key, at, true);
        }
        // Whoever lacks this version gets it before he is asked.
        self.apply(group, key);
        self.say_of(place.next, kind::chain::REMOVE, group, key, at, 0);
    }

    fn say_of(&mut self, to: Handle, kind: u8, group: u16, key: Key, at: Version, count: u64) {
        let epoch = self.memory.place(group).epoch;
        let about = Copied {
            key_high: key.high,
            key_low: key.low,
            nonce: count,
            sequence: at.sequence,
            epoch: at.epoch,
            group,
            ..Copied::default()
        };
        self.say(to, kind, epoch, 0, |packet| about.write(packet, BODY));
    }

    fn remove_again(&mut self, now: Time) {
        let due = self.sweeper.leaving.iter().filter(|(_, leaving)| leaving.due <= now);
        let due: Vec<(u16, Key)> = due.map(|(&key, _)| key).collect();
        for (group, key) in due {
            let next = self.memory.place(group).next;
            let Some(leaving) = self.sweeper.leaving.get_mut(&(group, key)) else { continue };
            leaving.due = now + self.sweeper.config.retransmit;
            let (at, count) = (leaving.at, leaving.count);
            // Who lacked the key when it was asked may have been given it since, by an INSTALL that was under way: with
            // a version before this one, at which it removes nothing.
            self.apply(group, key);
            self.say_of(next, kind::chain::REMOVE, group, key, at, count);
        }
    }

    /// Whether what this switch has of a key in a removal is what the head means; `None`: it has nothing.
    fn stands(&self, told: &Copied) -> Option<bool> {
        let key = Key { high: told.key_high, low: told.key_low, check: 0 };
        let content = self.memory.content(told.group, key)?;
        let at = Version { epoch: told.epoch, sequence: told.sequence };
        let is_meant = content.length.is_none() && content.version == at;
        Some(is_meant || self.is_broken(crate::Mutant::RemoveAnything))
    }

    /// REMOVE: from the switch before.
    pub(super) fn on_remove(&mut self, header: &Header, told: &Copied) {
        let group = told.group;
        let place = self.memory.place(group);
        if !is_from(place, place.previous, header) {
            return;
        }
        let key = Key { high: told.key_high, low: told.key_low, check: 0 };
        let at = Version { epoch: told.epoch, sequence: told.sequence };
        match self.stands(told) {
            Some(false) => {}
            Some(true) if place.next != 0 => {
                if told.nonce != 0 {
                    self.begin_at(group, key, at);
                }
                self.say_of(place.next, kind::chain::REMOVE, group, key, at, told.nonce);
            }
            Some(true) | None => self.go(place, told),
        }
    }

    /// REMOVED: from the switch after.
    pub(super) fn on_removed(&mut self, now: Time, header: &Header, told: &Copied) {
        let group = told.group;
        let place = self.memory.place(group);
        if !is_from(place, place.next, header) {
            return;
        }
        if place.previous != 0 {
            if self.stands(told).unwrap_or(true) {
                self.go(place, told);
            }
            return;
        }
        let at = Version { epoch: told.epoch, sequence: told.sequence };
        let same = |check| Key { high: told.key_high, low: told.key_low, check };
        let range = (group, same(0))..=(group, same(u64::MAX));
        if told.nonce == 0 {
            let idle = self.sweeper.idle.range(range).next().filter(|(_, idle)| idle.version == at);
            let Some(&(_, key)) = idle.map(|(key, _)| key) else { return };
            return self.mark(now, group, key, at);
        }
        let found = self.sweeper.leaving.range(range).next();
        let Some(&(_, key)) =
            found.filter(|(_, leaving)| leaving.at == at && leaving.count == told.nonce).map(|(k, _)| k)
        else {
            return;
        };
        self.sweeper.leaving.remove(&(group, key));
        self.remove_here(group, key, at, true);
    }

    /// All others would remove it: from here on nobody writes it.
    fn mark(&mut self, now: Time, group: u16, key: Key, at: Version) {
        let marks = !self.is_broken(crate::Mutant::RemoveUnmarked);
        if self.sweeper.leaving.contains_key(&(group, key)) || (marks && !self.memory.leave(group, key, at)) {
            return;
        }
        self.begin_at(group, key, at);
        let count = self.memory.next_sequence(group);
        let due = now + self.sweeper.config.retransmit;
        self.sweeper.leaving.insert((group, key), Leaving { at, count, due });
        self.say_of(self.memory.place(group).next, kind::chain::REMOVE, group, key, at, count);
    }

    /// The switches behind may have removed a key at this version: if they are given it again, then with no earlier
    /// one.
    fn begin_at(&mut self, group: u16, key: Key, at: Version) {
        let same = (group, Key { check: 0, ..key })..=(group, Key { check: u64::MAX, ..key });
        for (_, named) in self.names.range_mut(same) {
            named.first = named.first.max(at);
        }
    }

    /// Not the head: the key goes, if this is no question, and the switch before hears of it.
    fn go(&mut self, place: Place, told: &Copied) {
        let key = Key { high: told.key_high, low: told.key_low, check: 0 };
        let at = Version { epoch: told.epoch, sequence: told.sequence };
        if told.nonce != 0 {
            let count = Version { epoch: place.epoch, sequence: told.nonce };
            let latest = self.sweeper.removed.entry(told.group).or_default();
            *latest = (*latest).max(count);
            if self.is_broken(crate::Mutant::RemoveAnything) && self.memory.remove(told.group, key) {
                self.forget_name(told.group, key);
            }
            self.remove_here(told.group, key, at, false);
        }
        self.say_of(place.previous, kind::chain::REMOVED, told.group, key, at, told.nonce);
    }

    fn remove_here(&mut self, group: u16, key: Key, at: Version, by_head: bool) {
        self.sweeper.idle.remove(&(group, key));
        if self.memory.remove_at(group, key, at) {
            self.forget_name(group, key);
            self.sweeper.gone.push(RemovedKey { group, key, at, by_head });
        }
    }

    fn forget_name(&mut self, group: u16, key: Key) {
        let same = (group, Key { check: 0, ..key })..=(group, Key { check: u64::MAX, ..key });
        let names: BTreeSet<(u16, Key)> = self.names.range(same).map(|(key, _)| *key).collect();
        for name in names {
            if let Some(named) = self.names.remove(&name) {
                self.histories.outlive(name, named.name, self.memory.drawn());
            }
        }
    }
}

/// Whether a packet is of this neighbour in a chain, which a place may be without, and of the place's epoch.
pub(super) fn is_from(place: Place, neighbour: Handle, header: &Header) -> bool {
    neighbour != 0 && header.source == neighbour && header.epoch == place.epoch
}
