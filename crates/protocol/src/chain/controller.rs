//! The controller of chains: which switches a group's chain has, in which order, and how it becomes another.
//!
//! ```text
//!              somebody has to go: epoch + 1
//!   ACTIVE ──────────────────────────────────► FENCE ──► FILL ──► CROWN ──► ACTIVE
//!     │  ▲                                       ▲
//!     │  └── the joiner has to go ──┐            │ epoch + 1, the joiner is the tail
//!     └─ somebody is wanted ─► LOAD ─► QUIET ─► REST
//!                                    epoch + 1
//! ```
//!
//! FENCE: nobody is told of the new chain before those who left are known to serve no more: they have said so, or their
//! lease is over. FILL: all but the tail take their places; what they pass on nobody acknowledges yet. CROWN: the tail
//! does. LOAD: the joiner copies what the tail has while the chain works. QUIET: the tail is still read from, and takes
//! nothing new, so that nothing new is acknowledged. REST: the joiner copies again; then it has all.
//!
//! Invariants
//! * Epochs of a group only rise, and are in the store before a packet shows them: each group's by itself, as many
//!   groups at a time as the store takes at once.
//! * A chain in the store has, at every one of its switches, all that was ever acknowledged. Survivors keep their
//!   order, and a joiner becomes the tail, so that nobody is behind who comes after him (K3).
//! * No lease is given to a switch that owes a group its leaving, nor by a controller that has not the post.
//! * A group whose last switch has lost its memory has an empty chain in the store, and begins again only when it is
//!   told to.
//! * A controller that begins, or gets the post, knows no lease that another one gave: it takes them all to run as long
//!   as any may. A group keeps its epoch, and is told of it again, unless somebody was to join in it: a joiner may
//!   still copy, or the tail be quiet. Then, and where the store does not know (`records.rs`), it gets another one.
//! * Silence is counted while the controller listens, and no longer.
//! * A switch that has left a group joins it again only once it has said that it has forgotten it.
//! * A group that is in neither `touched` nor `busy` has nothing to do until a packet is about it, a switch comes or
//!   goes (`seen`), or, being in `wishing`, there is room for one more to be copied. So work is by what changes,
//!   however many groups there are.

mod records;
mod telling;

use super::Sent;
use crate::controller::Store;
use crate::{Handle, Mutant, Time};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::SocketAddrV4;
use wayside_wire::{BODY, Placement, Renewal, Role, check, kind, limits, mix, service};

/// A switch that chains may go over.
#[derive(Clone, Copy, Debug)]
pub struct Fellow {
    /// Its handle among the others.
    pub handle: Handle,
    /// Where clients find it.
    pub address: SocketAddrV4,
    /// Its share of the groups, beside the others' shares; 0: none, it is to be left by all.
    pub weight: u32,
}

/// How chains are kept.
#[derive(Clone, Debug)]
pub struct Config {
    /// The controller's own handle among the switches.
    pub own: Handle,
    /// Numbers of the groups.
    pub groups: Vec<u16>,
    /// Switches of a chain.
    pub length: usize,
    /// A switch's serving lease, in microseconds.
    pub lease: u64,
    /// No clock is wrong by more than this.
    pub drift_ppm: u32,
    /// A switch that was not heard for so long is left out, in microseconds.
    pub patience: u64,
    /// Pause before what was not acknowledged is said again, in microseconds.
    pub retransmit: u64,
    /// Pause before a switch that had no room for a group is asked to join one, in microseconds.
    pub full_pause: u64,
    /// Groups that are copied at a time, where copying one takes long: so few take no writes for a while.
    pub loads_least: usize,
    /// And where it does not, and waiting for the store is most of it.
    pub loads_most: usize,
    /// Records that are written at a time, but for one: so long whoever owns the controller waits for its store.
    pub records_most: usize,
    /// A rule to break.
    pub mutant: Option<Mutant>,
}

/// What the controller tells its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A group's chain serves under this epoch.
    Active(u16, u32),
    /// A switch is left out of a group.
    Excluded(u16, Handle),
    /// A switch begins to copy a group.
    Joining(u16, Handle),
    /// A switch has no room for a group.
    Full(u16, Handle),
    /// The last switch of a group's chain has lost its memory.
    Lost(u16),
    /// The store failed: the same is tried again.
    StoreFailed,
}

/// A group, for people.
#[derive(Clone, Copy, Debug)]
pub struct GroupView<'a> {
    /// Its number.
    pub number: u16,
    /// Of its chain.
    pub epoch: u32,
    /// Its switches, head first.
    pub chain: &'a [Handle],
    /// How far it is.
    pub state: State,
}

/// How far a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// For switches to come.
    Waiting,
    /// A chain is being made: nothing is answered.
    Changing,
    /// Reads and writes go on.
    Serving,
    /// They do, while this switch copies.
    Copying(Handle),
    /// Reads go on; this switch copies what was written meanwhile.
    Joining(Handle),
    /// Nobody has what it had.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Fence,
    Fill,
    Crown,
    Active,
    Load,
    Quiet,
    Rest,
    /// Nobody has what it had.
    Lost,
}

struct Group {
    number: u16,
    epoch: u32,
    chain: Vec<Handle>,
    /// Have left it, and have not said that they know.
    owing: BTreeSet<Handle>,
    stage: Stage,
    /// Who has taken his place of this epoch.
    placed: BTreeSet<Handle>,
    joiner: Handle,
    /// In this epoch somebody was to join.
    was_joined: bool,
    /// Epoch that the store has, and whether somebody was to join in it.
    stored: (u32, bool),
    pass: u64,
    /// When it was given its joiner.
    joined_at: Time,
    say_at: Time,
}

/// What of a switch concerns groups: a group may have something to do when one of these changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    handle: Handle,
    boot: u64,
    weight: u32,
    is_up: bool,
    has_room: bool,
}

struct Switch {
    fellow: Fellow,
    /// Its latest beginning; 0: never heard of.
    boot: u64,
    /// It had no room for a group: it is asked for none before then.
    full_until: Time,
    heard: Time,
    /// When it asked for its lease last, by its own clock: nothing earlier is heard again.
    asked: u64,
    /// By the controller's clock: it may serve until then.
    lease_until: Time,
}

/// See the module's documentation.
pub struct Controller<S> {
    config: Config,
    store: S,
    switches: BTreeMap<Handle, Switch>,
    groups: Vec<Group>,
    /// Places in `groups`, by number.
    places: BTreeMap<u16, usize>,
    /// Groups that something has happened to: looked at before anything else.
    touched: BTreeSet<usize>,
    /// Groups that wait for somebody: looked at again and again.
    busy: BTreeSet<usize>,
    /// The next of these that is told anything.
    turn: usize,
    /// Groups that somebody is to join.
    wishing: BTreeSet<usize>,
    /// Groups that somebody joins.
    joined: BTreeSet<usize>,
    /// So many may be: one more for each that was copied soon, half as many where one was not.
    loads: usize,
    seen: Vec<Seen>,
    looks: u64,
    /// Of the post: nothing is said or decided from then on.
    active_until: Time,
    /// When it looked at anything last.
    attended: Time,
    /// When it got the post.
    began: Time,
    passes: u64,
    /// Changes that the store has not taken yet.
    unsaved: BTreeMap<u32, Vec<u8>>,
    /// Switches that have lost their memory since it got the post: their beginnings go there after groups' changes.
    emptied: BTreeSet<Handle>,
    out: VecDeque<Sent>,
    notices: VecDeque<Notice>,
    next: Time,
    /// Something has happened since it was looked at everything.
    is_wanted: bool,
    /// The store has failed: it is tried again then.
    save_at: Time,
}

/// So many pauses before something is said again may pass between two looks: whoever comes later has been away.
const AWAY: u64 = 4;

/// So many pauses before something is said again may pass until a group is copied soon: two commits, and what comes
/// with some hundred keys.
const SOON: u64 = 4;

/// Groups of which is told at a time, with a packet to each of their switches: a burst has to fit into sockets' queues
/// and the daemons'.
const TOLD_MOST: usize = 128;

impl<S: Store> Controller<S> {
    /// One that has not the post.
    pub fn new(config: Config, fellows: &[Fellow], store: S) -> Controller<S> {
        let switch = |fellow: &Fellow| {
            let (heard, lease_until) = (Time(0), Time(0));
            (fellow.handle, Switch { fellow: *fellow, boot: 0, full_until: Time(0), heard, asked: 0, lease_until })
        };
        Controller {
            switches: fellows.iter().map(switch).collect(),
            groups: Vec::new(),
            places: BTreeMap::new(),
            touched: BTreeSet::new(),
            busy: BTreeSet::new(),
            turn: 0,
            wishing: BTreeSet::new(),
            joined: BTreeSet::new(),
            loads: config.loads_least,
            seen: Vec::new(),
            looks: 0,
            config,
            store,
            active_until: Time(0),
            attended: Time(0),
            began: Time(0),
            passes: 0,
            unsaved: BTreeMap::new(),
            emptied: BTreeSet::new(),
            out: VecDeque::new(),
            notices: VecDeque::new(),
            next: Time::NEVER,
            is_wanted: false,
            save_at: Time(0),
        }
    }

    /// It has the post until then, by its own clock. Whoever gets it reads the records anew.
    pub fn take_post(&mut self, now: Time, until: Time) {
        let is_new = self.active_until <= now;
        if is_new && !self.begin(now) {
            self.notices.push_back(Notice::StoreFailed);
            return;
        }
        self.active_until = until;
        if is_new {
            self.on_tick(now);
        }
    }

    /// Another one may have the post from now on.
    pub fn leave_post(&mut self) {
        self.active_until = Time(0);
    }

    /// Whether it has the post.
    pub fn is_active(&self, now: Time) -> bool {
        now < self.active_until
    }

    /// The groups as they are, by number.
    pub fn groups(&self) -> impl Iterator<Item = GroupView<'_>> {
        self.groups.iter().map(|group| GroupView {
            number: group.number,
            epoch: group.epoch,
            chain: &group.chain,
            state: match group.stage {
                _ if group.epoch == 0 => State::Waiting,
                Stage::Fence | Stage::Fill | Stage::Crown => State::Changing,
                Stage::Active => State::Serving,
                Stage::Load => State::Copying(group.joiner),
                Stage::Quiet | Stage::Rest => State::Joining(group.joiner),
                Stage::Lost => State::Lost,
            },
        })
    }

    /// The switches, and whether each was heard of lately.
    pub fn switches(&self, now: Time) -> impl Iterator<Item = (Fellow, bool)> {
        self.switches.values().map(move |switch| (switch.fellow, self.is_up(now, switch.fellow.handle)))
    }

    /// Lets a group whose last switch has lost its memory begin anew, empty. False: it is not lost.
    pub fn begin_lost(&mut self, now: Time, number: u16) -> bool {
        let length = self.config.length;
        let index = self.places.get(&number).copied().filter(|index| self.groups[*index].stage == Stage::Lost);
        let Some(index) = index else { return false };
        let mut wanted = self.wanted(now, number);
        wanted.retain(|handle| !self.groups[index].owing.contains(handle));
        wanted.truncate(length);
        if wanted.is_empty() {
            return false;
        }
        self.configure(index, wanted, &[]);
        self.touched.insert(index);
        self.on_tick(now);
        true
    }

    /// A switch that has come, or is elsewhere, or has another share.
    pub fn set_fellow(&mut self, now: Time, fellow: Fellow) {
        let lease_until = now + self.longest_lease();
        let switch = self.switches.entry(fellow.handle);
        switch.or_insert(Switch { fellow, boot: 0, full_until: Time(0), heard: now, asked: 0, lease_until }).fellow =
            fellow;
    }

    /// A switch's share is another one from now on: 0, and all groups leave it.
    pub fn set_weight(&mut self, handle: Handle, weight: u32) {
        if let Some(switch) = self.switches.get_mut(&handle) {
            switch.fellow.weight = weight;
        }
    }

    /// The chain of a group, head first, if it serves.
    pub fn chain(&self, group: u16) -> Option<&[Handle]> {
        let group = &self.groups[*self.places.get(&group)?];
        matches!(group.stage, Stage::Active | Stage::Load).then_some(&group.chain)
    }

    /// Whether every group has a chain of the switches that it should have.
    pub fn is_settled(&self, now: Time) -> bool {
        !self.groups.is_empty()
            && self.groups.iter().all(|group| group.stage == Stage::Active && self.next_joiner(now, group).is_none())
    }

    /// How often it has looked at some group, whether there is something to do: so much has it worked.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// The next packet to send.
    pub fn transmit(&mut self) -> Option<Sent> {
        self.out.pop_front()
    }

    /// The next thing to tell.
    pub fn notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// When [`Controller::on_tick`] is wanted.
    pub fn next_timer(&self) -> Time {
        if self.is_wanted { Time(0) } else { self.next }
    }

    fn is_broken(&self, mutant: Mutant) -> bool {
        cfg!(feature = "mutants") && self.config.mutant == Some(mutant)
    }

    /// As long as any lease may run that is given now: the switch's clock may be slow, and this one fast.
    fn longest_lease(&self) -> u64 {
        self.config.lease + self.config.lease * 3 * u64::from(self.config.drift_ppm) / 1_000_000 + 1
    }

    // ---- switches ----

    fn is_up(&self, now: Time, handle: Handle) -> bool {
        let switch = self.switches.get(&handle);
        switch.is_some_and(|switch| switch.boot != 0 && now.since(switch.heard) < self.config.patience)
    }

    /// The switches that a group should have, the most wanted first: each has as many tickets as weight, and a group
    /// ranks them all by their best. Who comes or goes changes nobody else's rank.
    fn wanted(&self, now: Time, group: u16) -> Vec<Handle> {
        let rank = |fellow: &Fellow| {
            let ticket = |ticket: u32| mix(u64::from(group) << 48 | u64::from(fellow.handle) << 32 | u64::from(ticket));
            (0..fellow.weight).map(ticket).max()
        };
        let mut ranked: Vec<(u64, Handle)> = Vec::new();
        for switch in self.switches.values().filter(|switch| self.is_up(now, switch.fellow.handle)) {
            ranked.extend(rank(&switch.fellow).map(|rank| (rank, switch.fellow.handle)));
        }
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        ranked.into_iter().map(|(_, handle)| handle).collect()
    }

    /// Who is to join a group next.
    fn next_joiner(&self, now: Time, group: &Group) -> Option<Handle> {
        let wanted = self.wanted(now, group.number);
        let is_fit = |handle: &&Handle| {
            group.chain.contains(*handle)
                || (!group.owing.contains(*handle)
                    && self.is_known_there(**handle)
                    && self.switches.get(*handle).is_some_and(|s| s.full_until <= now))
                || self.is_broken(Mutant::KeepOldMemory)
        };
        let best = wanted.iter().filter(is_fit).take(self.config.length);
        best.copied().find(|handle| !group.chain.contains(handle))
    }

    /// Who is to leave a group: it has more than it needs, or somebody has no share.
    fn next_leaver(&self, now: Time, group: &Group) -> Option<Handle> {
        let (length, joins) = (group.chain.len(), self.next_joiner(now, group).is_some());
        // Who joins has what it takes before anybody leaves, if there is a place for him.
        if length < 2 || (joins && length <= self.config.length && length < limits::MAX_CHAIN) {
            return None;
        }
        let wanted = self.wanted(now, group.number);
        let rank = |handle: &Handle| wanted.iter().position(|known| known == handle).unwrap_or(usize::MAX);
        let last = group.chain.iter().copied().max_by_key(rank)?;
        let is_useless = self.switches.get(&last).is_none_or(|switch| switch.fellow.weight == 0);
        (length > self.config.length || joins || is_useless).then_some(last)
    }

    /// While the controller itself was away (a store was slow, or the processor others'), nobody was silent: what was
    /// said meanwhile is still to be read, one packet after the other.
    fn attend(&mut self, now: Time) {
        let away = now.since(self.attended);
        self.attended = now;
        if away > AWAY * self.config.retransmit {
            for switch in self.switches.values_mut() {
                switch.heard = now.min(switch.heard + away);
            }
        }
    }

    fn on_renew(&mut self, now: Time, handle: Handle, asked: &Renewal) {
        let Some(switch) = self.switches.get_mut(&handle) else { return };
        let is_late = asked.boot == switch.boot && asked.sent_us <= switch.asked;
        if asked.boot < switch.boot || asked.boot == 0 || is_late {
            return;
        }
        switch.asked = asked.sent_us;
        if asked.boot > switch.boot {
            let is_known = switch.boot != 0;
            (switch.boot, switch.full_until) = (asked.boot, Time(0));
            self.write_switch(handle);
            if is_known {
                self.emptied.insert(handle);
                self.has_begun_anew(handle);
            }
        }
        if let Some(switch) = self.switches.get_mut(&handle) {
            switch.heard = now;
        }
        let owes = self.groups.iter().any(|group| group.owing.contains(&handle));
        let (keeps, longest) = (self.is_broken(Mutant::KeepOldMemory), self.longest_lease());
        let Some(switch) = self.switches.get_mut(&handle) else { return };
        let mut answer = Renewal { boot: asked.boot, sent_us: asked.sent_us, ..Renewal::default() };
        if !owes || keeps {
            answer.lease_us = self.config.lease as u32;
            switch.lease_until = now + longest;
        }
        self.is_wanted = true;
        if self.is_known_there(handle) || (self.save(now) && self.is_known_there(handle)) {
            self.say(handle, kind::chain::RENEWED, 0, |packet| answer.write(packet, BODY));
        }
    }

    /// A switch has lost its memory: it serves nobody, has nothing, and owes nothing. The groups are touched when it is
    /// seen.
    fn has_begun_anew(&mut self, handle: Handle) {
        for index in 0..self.groups.len() {
            let group = &mut self.groups[index];
            // It has forgotten where the group is, too.
            group.placed.remove(&handle);
            if group.owing.remove(&handle) {
                self.write_group(index);
            }
            let group = &self.groups[index];
            if group.joiner == handle {
                self.abandon(index);
            }
            let group = &self.groups[index];
            if !group.chain.contains(&handle) {
                continue;
            }
            let rest: Vec<Handle> = group.chain.iter().copied().filter(|known| *known != handle).collect();
            if rest.is_empty() {
                self.notices.push_back(Notice::Lost(group.number));
                self.joined.remove(&index);
                let group = &mut self.groups[index];
                (group.stage, group.chain, group.joiner) = (Stage::Lost, rest, 0);
                self.write_group(index);
            } else {
                self.notices.push_back(Notice::Excluded(group.number, handle));
                self.configure(index, rest, &[]);
            }
        }
    }

    // ---- groups ----

    /// A new configuration: a higher epoch, and those who go with it.
    fn configure(&mut self, index: usize, chain: Vec<Handle>, leave: &[Handle]) {
        self.joined.remove(&index);
        let group = &mut self.groups[index];
        group.epoch += 1;
        group.chain = chain;
        group.owing.extend(leave);
        group.placed.clear();
        (group.joiner, group.was_joined) = (0, false);
        group.stage = Stage::Fence;
        group.say_at = Time(0);
        self.write_group(index);
    }

    /// The joiner does not come after all.
    fn abandon(&mut self, index: usize) {
        let group = &mut self.groups[index];
        if group.stage == Stage::Load {
            self.joined.remove(&index);
            // It has to hear that nobody waits for it, and to forget what it has.
            group.placed.remove(&group.joiner);
            (group.stage, group.joiner, group.say_at) = (Stage::Active, 0, Time(0));
        } else {
            let chain = self.groups[index].chain.clone();
            self.configure(index, chain, &[]);
        }
    }

    /// Does what is due. Packets only have it wanted: whoever owns the controller waits for the store once a tick.
    pub fn on_tick(&mut self, now: Time) {
        self.is_wanted = false;
        if now >= self.active_until {
            self.next = Time::NEVER;
            self.out.clear();
            return;
        }
        self.attend(now);
        let seen = self.see(now);
        if seen != self.seen {
            self.seen = seen;
            self.touched.extend(0..self.groups.len());
        }
        if self.next <= now {
            self.next = now + self.config.retransmit;
            let turns = self.next_turns();
            self.touched.extend(turns);
        }
        let mut stepped: BTreeSet<usize> = BTreeSet::new();
        while let Some(index) = self.touched.pop_first().or_else(|| self.next_wish()) {
            // A stage may follow at once, up to one that waits: a new chain does in CROWN, of which nobody has heard.
            loop {
                let before = (self.groups[index].stage, self.groups[index].epoch);
                self.step(now, index);
                if before == (self.groups[index].stage, self.groups[index].epoch) {
                    break;
                }
            }
            stepped.insert(index);
        }
        self.tell_all(now, stepped);
    }

    /// Busy groups, as many as are told of at a time: each has its turn.
    fn next_turns(&mut self) -> Vec<usize> {
        let turns = self.busy.range(self.turn..).chain(self.busy.range(..self.turn)).copied();
        let turns: Vec<usize> = turns.take(TOLD_MOST).collect();
        self.turn = turns.last().map_or(0, |last| last + 1);
        turns.iter().for_each(|index| {
            self.busy.remove(index);
        });
        turns
    }

    fn see(&self, now: Time) -> Vec<Seen> {
        let of = |switch: &Switch| Seen {
            handle: switch.fellow.handle,
            boot: switch.boot,
            weight: switch.fellow.weight,
            is_up: self.is_up(now, switch.fellow.handle),
            has_room: switch.full_until <= now,
        };
        self.switches.values().map(of).collect()
    }

    /// A group that somebody may join now.
    fn next_wish(&mut self) -> Option<usize> {
        if self.joined.len() < self.loads { self.wishing.pop_first() } else { None }
    }

    /// Says what is due of these groups, once what was decided of them is in the store; and finds those that go on
    /// waiting.
    fn tell_all(&mut self, now: Time, mut groups: BTreeSet<usize>) {
        if !self.save(now) {
            return self.busy.append(&mut groups);
        }
        // Whoever calls does other things before the next piece is written.
        self.is_wanted = !self.unsaved.is_empty();
        groups.append(&mut self.touched);
        let mut told = 0;
        for index in groups {
            if !self.is_saved(index) {
                // It is touched once it is.
                continue;
            }
            let untold = self.untold(now, index);
            let is_due = self.groups[index].say_at <= now;
            if is_due && !untold.is_empty() && told < TOLD_MOST {
                told += 1;
                self.groups[index].say_at = now + self.config.retransmit;
                self.tell(index, &untold);
            }
            let rests =
                self.groups[index].epoch != 0 && matches!(self.groups[index].stage, Stage::Active | Stage::Lost);
            if !rests || !untold.is_empty() {
                self.busy.insert(index);
            }
        }
    }

    fn step(&mut self, now: Time, index: usize) {
        self.looks += 1;
        if self.groups[index].epoch == 0 {
            return self.begin_group(now, index);
        }
        if self.groups[index].stage == Stage::Lost || self.leave_out(now, index) {
            return;
        }
        let group = &self.groups[index];
        let tail = group.chain.last().copied().unwrap_or(0);
        let but_tail = &group.chain[..group.chain.len().saturating_sub(1)];
        let next = match group.stage {
            Stage::Fence if group.owing.iter().all(|handle| self.serves_no_more(now, *handle)) => Stage::Fill,
            Stage::Fill if but_tail.iter().all(|handle| group.placed.contains(handle)) => Stage::Crown,
            Stage::Crown if group.placed.contains(&tail) => Stage::Active,
            Stage::Quiet if group.placed.contains(&tail) => Stage::Rest,
            Stage::Load | Stage::Quiet | Stage::Rest if !self.is_up(now, group.joiner) => return self.abandon(index),
            Stage::Active => return self.improve(now, index),
            stage => stage,
        };
        let group = &mut self.groups[index];
        if next != group.stage {
            group.say_at = now;
            group.stage = next;
            if next == Stage::Active {
                self.notices.push_back(Notice::Active(group.number, group.epoch));
            }
            if next == Stage::Rest {
                self.passes += 1;
                group.pass = now.0 << 16 | self.passes & 0xffff;
            }
        }
    }

    /// A group's first chain: once as many switches are there as it should have, or those that there are have waited
    /// for long enough.
    fn begin_group(&mut self, now: Time, index: usize) {
        let mut wanted = self.wanted(now, self.groups[index].number);
        let known = self.switches.values().filter(|switch| switch.fellow.weight > 0).count();
        let waits = wanted.len() < self.config.length.min(known) && now.since(self.began) < 3 * self.config.patience;
        if !waits && !wanted.is_empty() {
            wanted.truncate(self.config.length);
            self.configure(index, wanted, &[]);
        }
    }

    fn serves_no_more(&self, now: Time, handle: Handle) -> bool {
        self.is_broken(Mutant::HastyFence) || self.switches.get(&handle).is_none_or(|switch| switch.lease_until <= now)
    }

    /// Leaves out who is not heard of, as long as somebody is left. Whether there was one.
    fn leave_out(&mut self, now: Time, index: usize) -> bool {
        let group = &self.groups[index];
        let (up, down): (Vec<Handle>, Vec<Handle>) = group.chain.iter().partition(|handle| self.is_up(now, **handle));
        if up.is_empty() || down.is_empty() {
            return false;
        }
        for handle in &down {
            self.notices.push_back(Notice::Excluded(group.number, *handle));
        }
        self.configure(index, up, &down);
        true
    }

    /// Lets somebody join, or leave.
    fn improve(&mut self, now: Time, index: usize) {
        let group = &self.groups[index];
        if let Some(leaver) = self.next_leaver(now, group) {
            let rest = group.chain.iter().copied().filter(|handle| *handle != leaver).collect();
            return self.configure(index, rest, &[leaver]);
        }
        // There is a place for him: otherwise somebody would leave.
        let Some(joiner) = self.next_joiner(now, group) else { return };
        if self.joined.len() >= self.loads {
            self.wishing.insert(index);
            return;
        }
        self.joined.insert(index);
        self.passes += 1;
        let pass = now.0 << 16 | self.passes & 0xffff;
        let group = &mut self.groups[index];
        (group.stage, group.joiner, group.pass, group.say_at) = (Stage::Load, joiner, pass, now);
        (group.was_joined, group.joined_at) = (true, now);
        self.notices.push_back(Notice::Joining(group.number, joiner));
        // The store is to know of it before the joiner does.
        self.write_group(index);
    }

    // ---- packets ----

    /// What a switch says: whoever calls knows that it did.
    pub fn on_packet(&mut self, now: Time, packet: &[u8]) {
        let Ok(header) = check(packet) else { return };
        if now >= self.active_until || header.service != service::CHAIN {
            return;
        }
        self.attend(now);
        match header.kind {
            kind::chain::RENEW => self.on_renew(now, header.source, &Renewal::read(packet, BODY)),
            kind::chain::PLACED => self.on_placed(now, header.source, &Placement::read(packet, BODY)),
            _ => {}
        }
    }

    fn on_placed(&mut self, now: Time, handle: Handle, told: &Placement) {
        let Some(&index) = self.places.get(&told.group) else { return };
        let boot = self.switches.get(&handle).map_or(0, |switch| switch.boot);
        let group = &mut self.groups[index];
        if told.boot != boot || told.epoch != group.epoch {
            return;
        }
        if told.role == Role::Joiner as u8 {
            if group.joiner != handle || group.pass != told.pass {
                return;
            }
            self.has_loaded(now, index, told.refused != 0);
        } else {
            group.placed.insert(handle);
            if told.role == Role::None as u8 && group.owing.remove(&handle) {
                self.write_group(index);
            }
        }
        self.touched.insert(index);
        self.is_wanted = true;
    }

    /// A joiner has all that the tail had, or cannot have it.
    fn has_loaded(&mut self, now: Time, index: usize, refused: bool) {
        let joiner = self.groups[index].joiner;
        if refused {
            // Groups may leave it, and keys be forgotten.
            if let Some(switch) = self.switches.get_mut(&joiner) {
                switch.full_until = now + self.config.full_pause;
            }
            self.notices.push_back(Notice::Full(self.groups[index].number, joiner));
            return self.abandon(index);
        }
        let took = now.since(self.groups[index].joined_at);
        if self.groups[index].stage == Stage::Load {
            let is_soon = took <= SOON * self.config.retransmit;
            let loads = if is_soon { self.loads + 1 } else { self.loads / 2 };
            self.loads = loads.clamp(self.config.loads_least, self.config.loads_most);
        }
        match self.groups[index].stage {
            Stage::Load if !self.is_broken(Mutant::NoLastPass) => {
                let group = &mut self.groups[index];
                group.epoch += 1;
                group.placed.clear();
                (group.stage, group.say_at) = (Stage::Quiet, Time(0));
                self.write_group(index);
            }
            Stage::Rest | Stage::Load => {
                let mut chain = self.groups[index].chain.clone();
                chain.push(joiner);
                self.configure(index, chain, &[]);
            }
            _ => {}
        }
    }
}
