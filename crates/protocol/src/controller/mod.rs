//! The controller: enrols nodes, counts their leases, changes their keys, recovers slots, raises the switch's epoch. It
//! works on the switch's memory beside the data plane and sees only the packets that the switch hands to it.
//!
//! ```text
//!   ENROL ──► enrolment ──► sessions ──lease over, LEAVE, closed──► dead ──► DOWN to every live node
//!                              ▲ poll of node words                  │
//!                              │                                     ▼
//!   switch memory ◄────────── patrol: slots of the dead, frozen slots ──► recovery: freeze, census, adopt, unfreeze
//!                                                       GAP ────────────────▲        ▲ all slots after a restart
//! ```
//!
//! Invariants: what the store must know is durable before a packet or a word of the switch shows it. The switch serves
//! only under the epoch in the store. A session's word at the switch is LIVE only if its record lives; a handle is
//! given again only after its sweep, every DOWN_ACK and the quarantine. Every census has an id of its own, for ever:
//! (starts of the controller, count).

mod config;
mod division;
mod enrolment;
mod hand_over;
mod keys;
mod lock_servers;
mod moves;
mod pages;
mod patrol;
mod plan;
mod policies;
mod popularity;
mod rebuild;
mod recovery;
mod roster;
mod seat;
mod serving;
mod sessions;
mod store;
mod turns;

#[cfg(test)]
mod tests;

use crate::memory::{Moment, NodeEntry, NodeMemory, NodeWord, Part, SwitchMemory};
use crate::{Handle, Mutant, Time};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddrV4;
use wayside_wire::{
    Attempt, BODY, DropReason, Entry, FabricKind, Header, Heartbeat, LockKind, NodeState, Service, check, entries,
    entry_at, limits, service,
};

pub use config::{Allocation, Config, ConfigError, LONGEST_LEASE, Namespace, Room, Unaddable};
pub use division::{DIVISION_KEY, Disobeyed, Division, DivisionView, Order, Step};
pub use enrolment::{Applicant, KNOWS_NAMES, is_enrol};
pub use hand_over::{
    Copying, HEAD_BYTES as MESSAGE_HEAD, Handed, LAYOUT as HAND_OVER_LAYOUT, LONGEST as LONGEST_MESSAGE,
    NamespaceShape, NotServing, Shape, Unfit,
};
pub use popularity::{LockView, PlanView};
pub use roster::Roster;
pub use seat::Seat;
pub use serving::{Answer, Change, Inquiry, Post, Question, Serving, ServingConfig};
pub use sessions::{Ending, SessionView};
pub use store::{COUNTERS_KEY, Counters, Record, SessionRecord, Stage, Store, StoreError};

use division::Follow;
use lock_servers::Offers;
use moves::Moves;
use patrol::Patrol;
use policies::Policies;
use popularity::Popularity;
use recovery::Recovery;
use sessions::Sessions;
use turns::Turns;

/// What happened, for logs, metrics and tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The switch has a new epoch; it answers RECOVERING until [`Notice::Serving`].
    EpochRaised(u32),
    /// The switch decides on slots.
    Serving(u32),
    /// This switch serves from now on, in the place of another or of nobody.
    Promoted,
    /// Another switch serves, or nobody: this one is a standby.
    Demoted,
    /// Another switch has handed over its memory: this one goes on under its epoch, with so many nodes.
    TookOver(u32, usize),
    /// A session began.
    Enrolled(Handle),
    /// A session is over.
    Ended(Handle, Ending),
    /// A node is the lock server of a part of a namespace from now on.
    Serves(u16, Part, Handle),
    /// A lock of a namespace has moved: to the switch, or (false) to its lock server.
    Moved(u16, u64, bool),
    /// A session's packets are signed with new keys.
    Rotated(Handle),
    /// A session's keys were wiped: it ends with its lease.
    CutOff(Handle),
    /// A session did not answer what it was asked for lease and grace, though its heartbeats came: it is heard no more,
    /// and ends with its lease.
    Dismissed(Handle),
    /// A slot was frozen for a census.
    Frozen(u16, u32),
    /// A slot works again: with this agent, or unheld.
    Recovered(u16, u32, Option<Handle>),
    /// The store failed: nothing that depends on the record has left the controller.
    StoreFailed(String),
}

/// See the module's documentation. `M`: the switch's memory, `S`: the durable store.
pub struct Controller<M, S> {
    config: Config,
    memory: M,
    store: S,
    counters: Counters,
    /// Whether the epoch in the store is the switch's.
    booted: bool,
    /// As long as this after that moment the switch may serve; without end, if it is alone. A memory that was emptied
    /// does not say so any more.
    lease: Option<(Moment, u64)>,
    sessions: Sessions,
    follow: Follow,
    patrol: Patrol,
    recovery: Recovery,
    offers: Offers,
    moves: Moves,
    popularity: Popularity,
    turns: Turns,
    policies: Policies,
    ids_given: u32,
    /// Records of ends that the store did not take, and when it is asked again.
    unwritten: BTreeMap<u32, Vec<u8>>,
    write_again: Time,
    /// Handles of which the store may have a session that never began, and its nonce: it failed when that was to be
    /// written.
    in_doubt: BTreeMap<Handle, u64>,
    next_tick: Time,
    outbox: VecDeque<(SocketAddrV4, Vec<u8>)>,
    notices: VecDeque<Notice>,
}

impl<M: SwitchMemory, S: Store> Controller<M, S> {
    /// Takes up what the store knows. Nothing is sent before the first [`Controller::on_tick`].
    pub fn new(config: Config, memory: M, mut store: S) -> Result<Self, StoreError> {
        let records = store.load().map_err(|e| StoreError::Storage(e.to_string()))?;
        // Epoch 0: what is in the memory is of other records, whatever it says.
        let mut counters = Counters { incarnation: config.first_incarnation, ..Counters::default() };
        let mut sessions = Sessions::default();
        let mut division = None;
        for (key, bytes) in records {
            let damaged = StoreError::Damaged(key);
            if key == COUNTERS_KEY {
                counters = Counters::decode(&bytes).ok_or(damaged)?;
            } else if key == DIVISION_KEY {
                division = Some(Division::decode(&bytes).ok_or(damaged)?);
            } else {
                let (Ok(handle), Some(record)) = (Handle::try_from(key), SessionRecord::decode(&bytes)) else {
                    return Err(damaged);
                };
                sessions.insert(handle, record);
            }
        }
        counters.starts += 1;
        store.commit(&[counters.encode()]).map_err(|e| StoreError::Storage(e.to_string()))?;
        let mut controller = Controller {
            config,
            memory,
            store,
            counters,
            booted: false,
            lease: None,
            sessions,
            follow: Follow::default(),
            patrol: Patrol::default(),
            recovery: Recovery::default(),
            offers: Offers::default(),
            moves: Moves::default(),
            popularity: Popularity::default(),
            turns: Turns::default(),
            policies: Policies::default(),
            ids_given: 0,
            unwritten: BTreeMap::new(),
            write_again: Time(0),
            in_doubt: BTreeMap::new(),
            next_tick: Time(0),
            outbox: VecDeque::new(),
            notices: VecDeque::new(),
        };
        controller.take_up_division(division);
        Ok(controller)
    }

    /// A packet that the switch handed over, and who sent it.
    pub fn on_packet(&mut self, now: Time, from: SocketAddrV4, packet: &[u8]) {
        let header = match check(packet) {
            Ok(header) => header,
            Err(DropReason::ForeignVersion) => return self.on_foreign_version(from, packet),
            Err(_) => return,
        };
        // The switch has looked at its tag, if it was told by then that there are any.
        let was_checked = self.is_booted() || self.config.root.is_none();
        if !self.ensure_booted(now) || !was_checked {
            return;
        }
        match Service::try_from(header.service) {
            Ok(Service::Fabric) => self.on_fabric(now, from, &header, packet),
            Ok(Service::Lock) => self.on_lock(now, &header, packet),
            Ok(Service::Queue) => self.on_queue(now, &header, &Attempt::read(packet, BODY)),
            _ => {}
        }
    }

    fn on_fabric(&mut self, now: Time, from: SocketAddrV4, header: &Header, packet: &[u8]) {
        match FabricKind::try_from(header.kind) {
            Ok(FabricKind::Enrol) => self.on_enrols(now, [(from, packet)]),
            Ok(FabricKind::Leave) => self.on_leave(now, from, header, &Heartbeat::read(packet, BODY)),
            Ok(FabricKind::DownAck) => self.on_down_ack(header, &Heartbeat::read(packet, BODY)),
            Ok(FabricKind::PolicyAck) => self.on_policy_ack(header, &Heartbeat::read(packet, BODY)),
            Ok(FabricKind::TurnAck) => self.on_turn_ack(header, &Heartbeat::read(packet, BODY)),
            _ => {}
        }
    }

    fn on_lock(&mut self, now: Time, header: &Header, packet: &[u8]) {
        match LockKind::try_from(header.kind) {
            Ok(LockKind::Gap) => self.on_gap(now, header, entries(packet)),
            Ok(LockKind::Report) => self.on_report(now, header, entries(packet)),
            Ok(LockKind::Adopted) => self.on_adopted(now, header, entries(packet)),
            _ => {}
        }
    }

    /// Polls words, sweeps slots, sends again what went unanswered.
    pub fn on_tick(&mut self, now: Time) {
        if now < self.next_tick {
            return;
        }
        self.next_tick = now + self.config.poll_period;
        if !self.ensure_booted(now) {
            return;
        }
        self.poll_sessions(now);
        if !self.unwritten.is_empty() && now >= self.write_again {
            self.write_some(now);
        }
        self.rotate_keys(now);
        self.send_downs(now);
        self.send_turns(now);
        self.send_policies(now);
        self.patrol(now);
        self.recover(now);
        self.divide_locks(now);
        self.move_locks(now);
        if self.recovery.is_writing() {
            self.next_tick = now;
        } else if self.patrol.is_urgent() {
            self.next_tick = now + self.config.poll_period.min(config::BUSY_PERIOD);
        }
    }

    /// When [`Controller::on_tick`] wants to be called.
    pub fn next_timer(&self) -> Time {
        self.next_tick
    }

    /// The next packet to send, and where: from the switch's own address.
    pub fn transmit(&mut self) -> Option<(SocketAddrV4, Vec<u8>)> {
        self.outbox.pop_front()
    }

    /// What happened since the last call.
    pub fn notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// The boot epoch.
    pub fn epoch(&self) -> u32 {
        self.counters.epoch
    }

    /// The store, for whoever starts the next controller on it.
    pub fn into_store(self) -> S {
        self.store
    }

    /// Whether the switch works under the stored epoch; if it does not, it is given one. False if the store failed.
    fn ensure_booted(&mut self, now: Time) -> bool {
        if self.is_booted() {
            return true;
        }
        let epoch = self.memory.epoch();
        let goes_on = epoch != 0 && epoch == self.counters.epoch && self.memory.serving() && self.is_above();
        let signs_as_told = self.memory.authenticated() == self.config.root.is_some();
        self.booted = if !self.booted && goes_on && signs_as_told {
            self.resume(now);
            true
        } else {
            self.raise_epoch(now)
        };
        self.booted
    }

    fn is_booted(&self) -> bool {
        self.booted && self.memory.epoch() == self.counters.epoch && self.is_above()
    }

    /// Only the controller was away: the switch has gone on. What it was at is found by the patrol.
    fn resume(&mut self, now: Time) {
        for handle in self.sessions.live_handles() {
            self.sessions.rotated(now, handle);
        }
        self.adopt_words(now);
        self.tell_turn(now);
        self.notices.push_back(Notice::Serving(self.counters.epoch));
    }

    /// Goes on with what another switch has handed over, if it is still there and nobody has begun another epoch.
    fn take_up(&mut self, handed: &Handed) {
        let is_kept = handed.is_kept(&self.memory) || self.config.is_broken(Mutant::TakeTorn);
        if self.counters.epoch != handed.epoch || self.booted || !is_kept {
            return;
        }
        self.memory.set_authenticated(self.config.root.is_some());
        for (handle, node) in &handed.nodes {
            if (1..=self.memory.max_handle()).contains(handle) {
                self.memory.take_up_node(*handle, node);
            }
        }
        let known: BTreeMap<Handle, &NodeMemory> = handed.nodes.iter().map(|(handle, node)| (*handle, node)).collect();
        for handle in self.sessions.live_handles() {
            self.take_up_keys(handle, known.get(&handle).copied());
        }
        // Its queues are empty then, and nobody decides by them before they are as they were.
        self.memory.set_epoch(handed.epoch);
        let forgets = self.config.is_broken(Mutant::ForgetQueues);
        if !forgets && !self.memory.take_up_queues(&handed.queues) {
            return;
        }
        // Last: from here on the memory is one that a switch works on.
        self.memory.set_serving(true);
        self.notices.push_back(Notice::TookOver(handed.epoch, handed.nodes.len()));
    }

    /// What the switch knows of nodes, for its successor. Its memory is nobody's from here on.
    fn give_up(&mut self) -> Vec<(Handle, NodeMemory)> {
        let nodes = (1..=self.memory.max_handle()).filter_map(|handle| Some((handle, self.memory.node(handle)?)));
        let nodes = nodes.collect();
        if !self.config.is_broken(Mutant::KeepHanded) && !self.config.is_broken(Mutant::ServeOn) {
            self.memory.set_serving(false);
            self.memory.set_epoch(0);
        }
        nodes
    }

    /// Whether the switch decides on locks.
    fn decides(&self) -> bool {
        self.is_booted() && self.memory.serving()
    }

    /// So long after that moment the switch may serve.
    fn serve_for(&mut self, since: Moment, lease: u64) {
        self.lease = Some((since, lease));
        self.memory.serve_for(since, lease);
    }

    /// A new epoch, under which every slot is recovered at once: the switch lost its memory, or a slot its tenures.
    fn raise_epoch(&mut self, now: Time) -> bool {
        // Empty, or of a time before another switch served.
        let foreign = self.memory.epoch() != self.counters.epoch;
        let next = if self.config.is_broken(Mutant::SameEpoch) && self.counters.epoch > 0 { 0 } else { 1 };
        let lowest = if self.counters.epoch == 0 { self.config.first_epoch } else { self.counters.epoch };
        let lowest = lowest.max(self.follow.division.above);
        let counters = Counters { epoch: lowest.max(self.memory.epoch()) + next, ..self.counters };
        if counters.epoch > limits::MAX_EPOCH {
            self.notices.push_back(Notice::StoreFailed("every epoch has been used: no token would be higher".into()));
            return false;
        }
        if !self.commit(&[counters.encode()]) {
            return false;
        }
        self.counters = counters;
        let is_new = self.memory.is_new();
        self.memory.set_serving(false);
        if foreign {
            // Nothing is decided on while the words are written.
            self.memory.set_epoch(0);
            if let Some((since, lease)) = self.lease {
                self.memory.serve_for(since, lease);
            }
        }
        self.memory.set_authenticated(self.config.root.is_some());
        for handle in self.sessions.live_handles() {
            self.install_keys(now, handle);
        }
        if foreign {
            self.install_sessions();
        }
        self.memory.set_epoch(counters.epoch);
        if !is_new {
            self.memory.await_decisions();
        }
        self.booted = true;
        self.notices.push_back(Notice::EpochRaised(counters.epoch));
        self.recovery = Recovery::of_everything();
        self.patrol.restart();
        self.offers = Offers::default();
        self.moves.begin_epoch();
        self.forget_popularity();
        self.adopt_words(now);
        self.recover_everything(now, is_new);
        true
    }

    /// Tells a switch whose memory does not know them of the sessions that live.
    fn install_sessions(&mut self) {
        for (handle, session) in self.sessions.living() {
            self.memory.set_node(handle, &session.record.entry());
        }
    }

    /// Takes the words at the switch as they are. Every lease is counted anew from here, every death told again.
    fn adopt_words(&mut self, now: Time) {
        for handle in 1..=self.memory.max_handle() {
            if !self.sessions.is_live(handle) {
                self.expire_word(handle);
            }
            // Of records that are lost.
            if self.sessions.get(handle).is_none() && self.memory.node_word(handle).state != NodeState::Vacant {
                self.memory.session_over(handle, None);
            }
        }
        for handle in self.sessions.live_handles() {
            let Some(incarnation) = self.sessions.get(handle).map(|session| session.record.incarnation) else {
                continue;
            };
            match self.memory.node(handle).filter(|node| node.entry.incarnation == incarnation) {
                // One that was expired may have been renewed until then.
                Some(node) => self.sessions.saw(now, handle, node.word.sequence),
                // Written down, and then the controller died: the switch knows none of this handle, or the one before.
                None => self.begin(now, handle),
            }
        }
        self.mourn_again(now);
        self.tell_policies(now);
    }

    /// Durable, at once or as soon as the store works again. For what is true either way: a controller that starts
    /// meanwhile must do no harm by what it does not know.
    fn write_down(&mut self, now: Time, batch: Vec<Record>) {
        self.unwritten.extend(batch);
        self.write_some(now);
    }

    /// Writes what the store has not taken yet, but a part at a time: all of it may be more than the store can do in
    /// the time that there is, and would be so at each attempt.
    fn write_some(&mut self, now: Time) {
        let part = self.unwritten.iter().take(config::ENDS_AT_ONCE).map(|(key, record)| (*key, record.clone()));
        let part: Vec<Record> = part.collect();
        if !self.commit(&part) {
            self.write_again = now + config::STORE_PAUSE;
        }
    }

    /// Durable, or false and a notice.
    fn commit(&mut self, batch: &[Record]) -> bool {
        match self.store.commit(batch) {
            Ok(()) => {
                // What was to be written of these is older.
                batch.iter().for_each(|(key, _)| drop(self.unwritten.remove(key)));
                true
            }
            Err(error) => {
                self.notices.push_back(Notice::StoreFailed(error.to_string()));
                false
            }
        }
    }

    /// An id that no controller of this store has given before.
    fn new_id(&mut self) -> u64 {
        self.ids_given += 1;
        u64::from(self.counters.starts) << 32 | u64::from(self.ids_given)
    }

    /// Sends a packet of entries to a live node; the first entry names what it is about.
    fn send_entries(&mut self, to: Handle, header: Header, entries: impl Iterator<Item = Entry>) {
        let Some(session) = self.sessions.get(to) else { return };
        let mut packet = vec![0; limits::HEADER_BYTES];
        for entry in entries {
            packet.resize(packet.len() + Entry::BYTES, 0);
            let at = packet.len() - Entry::BYTES;
            entry.write(&mut packet, at);
        }
        let count = (packet.len() - BODY) / Entry::BYTES;
        debug_assert_eq!(packet.len(), entry_at(count));
        let header = Header {
            service: service::LOCK,
            count: count as u8,
            destination: to,
            epoch: self.counters.epoch,
            namespace: session.record.namespace,
            ..header
        };
        header.write(&mut packet);
        self.post(session.record.address, packet);
    }

    fn send_fabric(&mut self, to: SocketAddrV4, header: Header, bytes: usize, body: impl FnOnce(&mut [u8], usize)) {
        self.send_body(to, Header { service: service::FABRIC, ..header }, bytes, body);
    }

    fn send_body(&mut self, to: SocketAddrV4, header: Header, bytes: usize, body: impl FnOnce(&mut [u8], usize)) {
        let mut packet = vec![0; BODY + bytes];
        Header { epoch: self.counters.epoch, ..header }.write(&mut packet);
        body(&mut packet, BODY);
        self.post(to, packet);
    }

    /// LIVE or DISMISSED to EXPIRED, whatever heartbeats come meanwhile: nobody relies on its lease any more.
    fn expire_word(&self, handle: Handle) {
        self.change_word(handle, &[NodeState::Live, NodeState::Dismissed], NodeState::Expired);
    }

    fn change_word(&self, handle: Handle, from: &[NodeState], to: NodeState) {
        loop {
            let word = self.memory.node_word(handle);
            let changed = NodeWord { state: to, ..word };
            if !from.contains(&word.state) || self.memory.cas_node_word(handle, word, changed) {
                return;
            }
        }
    }
}

impl SessionRecord {
    fn entry(&self) -> NodeEntry {
        NodeEntry { address: self.address, namespace: self.namespace, incarnation: self.incarnation }
    }
}
