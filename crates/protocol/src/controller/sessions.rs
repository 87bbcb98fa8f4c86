//! Sessions from enrolment to the day their handle is given again: leases, deaths, and who has to hear of them.
//!
//! ```text
//!   LIVE ──word unchanged for lease + grace, LEAVE, closed──► MOURNED ──swept, every DOWN_ACK──► AT REST
//!   ──quarantine──► reused
//! ```
//!
//! Invariants: `live` and `mourned` hold exactly the handles of those lives. A session leaves LIVE only after its word
//! at the switch did, by compare-and-swap: the data plane decides nothing for it any more; and, unless it says itself
//! that it is over, lease + grace after that word took its last heartbeat, whoever has expired the word and when.
//! `untold` holds only live handles of the dead one's namespace.
//!
//! Deaths times living are many where a host dies with all its processes: DOWNs go so many at a time, those of each
//! namespace in turn, and ever less often to who does not answer. Who never does is dismissed, as in a recovery: else
//! one process could keep handles from being given again.

use super::config::BUSY_PERIOD;
use super::recovery::questions_most;
use super::store::{SessionRecord, Stage};
use super::{Config, Controller, Notice, Record, Store};
use crate::memory::{NodeWord, SwitchMemory};
use crate::{Handle, Mutant, Time};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::SocketAddrV4;
use core::ops::Bound;
use wayside_wire::{FabricKind, Header, Heartbeat, NodeState, header_flag, kind};

/// DOWNs in a millisecond: a quarter of a processor, and a quarter of the answers that the daemon keeps of a tenant's
/// nodes. A thousand sessions may end in 15 s beside a thousand others.
pub(super) const DOWNS_AT_ONCE: usize = 64;
/// And of one death in a row, before it is another one's turn.
const DOWNS_IN_A_ROW: usize = 16;
/// So often the pause between two rounds is doubled.
const DOUBLED_MOST: u32 = 3;

/// Why a session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// No heartbeat for lease + grace.
    Expired,
    /// It said so.
    Left,
    /// It said so, and that it held nothing.
    LeftClean,
    /// Its process is gone: the local connection closed.
    Closed,
}

/// A session for `wayside status`.
#[derive(Clone, Copy, Debug)]
pub struct SessionView<'a> {
    /// Its handle.
    pub handle: Handle,
    /// What the store has.
    pub record: &'a SessionRecord,
    /// When its latest heartbeat was first seen; `None` if it is over.
    pub seen: Option<Time>,
}

pub(super) struct Session {
    pub record: SessionRecord,
    life: Life,
    /// Since when its keys are in use.
    rotated: Time,
}

enum Life {
    Live {
        /// The word's sequence, and when a poll first showed it.
        sequence: u64,
        seen: Time,
    },
    Mourned(Death),
    AtRest {
        since: Time,
    },
}

struct Death {
    since: Time,
    /// The pass of the patrol after which no slot names it any more.
    swept_by: u64,
    /// Who has not answered, and how often each was told.
    untold: BTreeMap<Handle, u32>,
    /// When they are told again, from which on, and how many rounds are over.
    next_down: Time,
    next_told: Handle,
    rounds: u32,
}

#[derive(Default)]
pub(super) struct Sessions {
    by_handle: BTreeMap<Handle, Session>,
    by_nonce: BTreeMap<u64, Handle>,
    live: BTreeSet<Handle>,
    mourned: BTreeSet<Handle>,
    downs: Downs,
}

/// What was sent lately.
#[derive(Default)]
struct Downs {
    since: Time,
    sent: usize,
    /// The namespace whose turn was last.
    turn: u16,
}

impl Downs {
    /// How many more may be sent now.
    fn left(&mut self, now: Time, period: u64) -> usize {
        if now.since(self.since) >= period {
            (self.since, self.sent) = (now, 0);
        }
        DOWNS_AT_ONCE - self.sent
    }
}

impl Sessions {
    /// In the place of whoever had the handle. A dead one's clock starts at 0: see `mourn_again`.
    pub fn insert(&mut self, handle: Handle, record: SessionRecord) {
        if let Some(former) = self.by_handle.get(&handle) {
            self.by_nonce.remove(&former.record.nonce);
        }
        self.live.remove(&handle);
        self.mourned.remove(&handle);
        let life = match record.stage {
            Stage::Live => {
                self.live.insert(handle);
                Life::Live { sequence: 0, seen: Time(0) }
            }
            Stage::Mourned => {
                self.mourned.insert(handle);
                Life::Mourned(Death::new(Time(0), 0))
            }
            Stage::AtRest => Life::AtRest { since: Time(0) },
        };
        self.by_nonce.insert(record.nonce, handle);
        self.by_handle.insert(handle, Session { record, life, rotated: Time(0) });
    }

    pub fn get(&self, handle: Handle) -> Option<&Session> {
        self.by_handle.get(&handle)
    }

    pub fn by_nonce(&self, nonce: u64) -> Option<(Handle, &SessionRecord)> {
        let handle = *self.by_nonce.get(&nonce)?;
        Some((handle, &self.by_handle[&handle].record))
    }

    pub fn is_live(&self, handle: Handle) -> bool {
        self.live.contains(&handle)
    }

    pub fn live_handles(&self) -> Vec<Handle> {
        self.live.iter().copied().collect()
    }

    pub fn living(&self) -> impl Iterator<Item = (Handle, &Session)> {
        self.live.iter().map(|handle| (*handle, &self.by_handle[handle]))
    }

    pub fn living_in(&self, namespace: u16) -> impl Iterator<Item = Handle> + '_ {
        self.living().filter(move |(_, session)| session.record.namespace == namespace).map(|(handle, _)| handle)
    }

    /// A poll showed this sequence.
    pub fn saw(&mut self, now: Time, handle: Handle, sequence: u64) {
        if let Some(session) = self.by_handle.get_mut(&handle) {
            session.life = Life::Live { sequence, seen: now };
        }
    }

    /// Its keys are new.
    pub fn rotated(&mut self, now: Time, handle: Handle) {
        if let Some(session) = self.by_handle.get_mut(&handle) {
            session.rotated = now;
        }
    }

    /// No key can be derived for it any more; the record to keep.
    pub fn forget_secret(&mut self, handle: Handle) -> Option<SessionRecord> {
        let record = &mut self.by_handle.get_mut(&handle)?.record;
        record.secret = None;
        Some(*record)
    }

    /// Who lives, and since when with these keys.
    pub fn living_rotated(&mut self) -> impl Iterator<Item = (Handle, SessionRecord, &mut Time)> {
        let live = |session: &Session| matches!(session.life, Life::Live { .. });
        let living = self.by_handle.iter_mut().filter(move |(_, session)| live(session));
        living.map(|(handle, session)| (*handle, session.record, &mut session.rotated))
    }

    /// How many handles of a namespace are not free.
    pub fn taken_in(&self, now: Time, namespace: u16, config: &Config) -> usize {
        let own = self.by_handle.iter().filter(|(_, session)| session.record.namespace == namespace);
        own.filter(|(handle, _)| !self.is_free(now, **handle, config)).count()
    }

    /// Deaths that nodes are to be told of now, by namespace: that whose turn was last comes last. Of each namespace
    /// those first of which less has been told.
    fn due_deaths(&self, now: Time) -> VecDeque<(u16, VecDeque<Handle>)> {
        let mut due: BTreeMap<u16, Vec<(u32, Handle)>> = BTreeMap::new();
        for handle in &self.mourned {
            let session = &self.by_handle[handle];
            if let Life::Mourned(death) = &session.life
                && now >= death.next_down
                && !death.untold.is_empty()
            {
                due.entry(session.record.namespace).or_default().push((death.rounds, *handle));
            }
        }
        let first = due.keys().filter(|namespace| **namespace <= self.downs.turn).count();
        let mut lines: VecDeque<_> = due
            .into_iter()
            .map(|(namespace, mut deaths)| {
                deaths.sort_unstable();
                (namespace, deaths.into_iter().map(|(_, handle)| handle).collect())
            })
            .collect();
        lines.rotate_left(first);
        lines
    }

    /// The invariants of `live` and `mourned`.
    #[cfg(test)]
    pub fn check(&self) {
        for (handle, session) in &self.by_handle {
            let is_in = (self.live.contains(handle), self.mourned.contains(handle));
            let is_live = matches!(session.life, Life::Live { .. });
            assert_eq!(is_in, (is_live, matches!(session.life, Life::Mourned(_))), "handle {handle}");
        }
        assert!(self.live.iter().chain(&self.mourned).all(|handle| self.by_handle.contains_key(handle)));
    }

    /// Whether a new session may take the handle.
    pub fn is_free(&self, now: Time, handle: Handle, config: &Config) -> bool {
        if config.is_broken(Mutant::HastyReuse) && !self.live.contains(&handle) {
            return true;
        }
        match self.by_handle.get(&handle).map(|session| &session.life) {
            None => true,
            Some(Life::AtRest { since }) => now.since(*since) >= config.quarantine,
            Some(_) => false,
        }
    }
}

impl Death {
    fn new(since: Time, swept_by: u64) -> Self {
        Death { since, swept_by, untold: BTreeMap::new(), next_down: since, next_told: 0, rounds: 0 }
    }

    /// Another node is to hear of it, at once.
    fn tell_too(&mut self, now: Time, node: Handle) {
        self.untold.insert(node, 0);
        (self.next_down, self.next_told, self.rounds) = (now, 0, 0);
    }

    /// Whose turn it is to be told, so many at most, and how often each was with this time. After the last of them
    /// comes a pause.
    fn tell(&mut self, now: Time, retransmit: u64, most: usize) -> Vec<(Handle, u32)> {
        let mut told = Vec::new();
        for (&node, times) in self.untold.range_mut(self.next_told..).take(most) {
            *times += 1;
            told.push((node, *times));
        }
        let behind = |last: Handle| self.untold.range((Bound::Excluded(last), Bound::Unbounded)).next();
        match told.last().and_then(|(last, _)| behind(*last)) {
            Some((&next, _)) => self.next_told = next,
            None => {
                self.next_told = 0;
                self.next_down = now + (retransmit << self.rounds.min(DOUBLED_MOST));
                self.rounds += 1;
            }
        }
        told
    }
}

impl<M: SwitchMemory, S: Store> Controller<M, S> {
    /// Every session of the store that is not over for everybody, and those at rest as well.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView<'_>> {
        self.sessions.by_handle.iter().map(|(&handle, session)| SessionView {
            handle,
            record: &session.record,
            seen: match session.life {
                Life::Live { seen, .. } => Some(seen),
                _ => None,
            },
        })
    }

    /// The incarnation of a handle's session, live or over.
    pub fn incarnation_of(&self, handle: Handle) -> Option<u64> {
        self.sessions.get(handle).map(|session| session.record.incarnation)
    }

    /// The secret of a live session.
    pub fn lifeline_of(&self, handle: Handle) -> Option<u64> {
        self.sessions.get(handle).filter(|_| self.sessions.is_live(handle)).map(|session| session.record.lifeline)
    }

    /// The local connection of this session closed: no process has it any more.
    pub fn closed(&mut self, now: Time, handle: Handle) {
        self.closed_together(now, &[handle]);
    }

    /// Those of several closed: written down in one go.
    pub fn closed_together(&mut self, now: Time, handles: &[Handle]) {
        let over: Vec<Handle> = handles.iter().copied().filter(|handle| self.sessions.is_live(*handle)).collect();
        over.iter().for_each(|handle| self.expire_word(*handle));
        self.end_sessions(now, &over, Ending::Closed);
    }

    /// Expires those whose word has not moved for lease + grace. A word may be expired before: nobody's lease is
    /// renewed by it any more, and what was acknowledged until then is waited for.
    pub(super) fn poll_sessions(&mut self, now: Time) {
        let mut over = Vec::new();
        let hasty = self.config.is_broken(Mutant::HastyDismissal);
        for handle in &self.sessions.live {
            let session = self.sessions.by_handle.get_mut(handle).expect("live handles are in the table");
            let Life::Live { sequence, seen } = &mut session.life else { continue };
            let word = self.memory.node_word(*handle);
            let grace = if self.config.is_broken(Mutant::NoGrace) { 0 } else { session.record.grace };
            let patience = u64::from(session.record.lease) + u64::from(grace);
            let is_live = word.state == NodeState::Live;
            if word.sequence != *sequence {
                (*sequence, *seen) = (word.sequence, now);
            } else if now.since(*seen) >= patience || (hasty && !is_live) {
                // A heartbeat that comes first wins: the next poll sees it.
                let expired = NodeWord { state: NodeState::Expired, ..word };
                if self.memory.cas_node_word(*handle, word, expired) {
                    over.push(*handle);
                }
            }
        }
        self.end_sessions(now, &over, Ending::Expired);
    }

    /// This session sends heartbeats and does not answer what others wait for: it is heard no more. It ends when the
    /// last lease that was acknowledged to it is over; until then what it holds is its own.
    pub(super) fn dismiss(&mut self, handle: Handle) {
        if self.sessions.is_live(handle) && self.memory.node_word(handle).state == NodeState::Live {
            self.change_word(handle, &[NodeState::Live], NodeState::Dismissed);
            self.notices.push_back(Notice::Dismissed(handle));
        }
    }

    /// These are dead: their words are not LIVE any more. Everybody is told, their slots are swept.
    pub(super) fn end_sessions(&mut self, now: Time, handles: &[Handle], ending: Ending) {
        let mut batch: Vec<Record> = Vec::new();
        for &handle in handles {
            if !self.sessions.live.remove(&handle) {
                continue;
            }
            self.sessions.mourned.insert(handle);
            let session = self.sessions.by_handle.get_mut(&handle).expect("live handles are in the table");
            session.record.stage = Stage::Mourned;
            session.life = Life::Mourned(Death::new(now, self.patrol.next_full_pass()));
            self.memory.session_over(handle, Some(session.record.incarnation));
            batch.push(session.record.encode(handle));
            self.notices.push_back(Notice::Ended(handle, ending));
        }
        if batch.is_empty() {
            return;
        }
        // Whoever starts before that is done finds them LIVE and lets them expire: late, but safe.
        self.write_down(now, batch);
        for &handle in handles {
            self.announce(handle);
        }
        if ending != Ending::LeftClean {
            self.patrol.hurry();
        }
        self.recover_without(now, handles);
        self.send_downs(now);
    }

    /// After a restart of switch or controller nobody remembers who was told what.
    pub(super) fn mourn_again(&mut self, now: Time) {
        for (&handle, session) in &mut self.sessions.by_handle {
            if !matches!(session.life, Life::Live { .. }) {
                self.memory.session_over(handle, Some(session.record.incarnation));
            }
            match &mut session.life {
                Life::Live { .. } => {}
                Life::Mourned(death) => *death = Death::new(now, self.patrol.next_full_pass()),
                Life::AtRest { since } => *since = now,
            }
        }
        for handle in self.sessions.mourned.clone() {
            self.announce(handle);
        }
    }

    /// Every live node of the dead one's namespace has to hear of its death, which is new; the dead hear nothing.
    fn announce(&mut self, dead: Handle) {
        for handle in &self.sessions.mourned {
            if let Some(Life::Mourned(death)) = self.sessions.by_handle.get_mut(handle).map(|s| &mut s.life) {
                death.untold.remove(&dead);
            }
        }
        let Some(namespace) = self.sessions.get(dead).map(|session| session.record.namespace) else { return };
        let untold = self.sessions.living_in(namespace).map(|handle| (handle, 0)).collect();
        if let Some(Life::Mourned(death)) = self.sessions.by_handle.get_mut(&dead).map(|s| &mut s.life) {
            death.untold = untold;
        }
    }

    /// A session begins while others of its namespace have yet to hear of a death. One of those may hand it a line in
    /// which the dead one waits, so it hears of it, too.
    pub(super) fn announce_to(&mut self, newcomer: Handle, namespace: u16) {
        for handle in &self.sessions.mourned {
            let Some(session) = self.sessions.by_handle.get_mut(handle) else { continue };
            if let Life::Mourned(death) = &mut session.life
                && session.record.namespace == namespace
                && !death.untold.is_empty()
            {
                death.untold.insert(newcomer, 0);
            }
        }
    }

    /// `heir` took over holds of these, maybe after it acknowledged the DOWN of one: of the dead it hears again.
    pub(super) fn announce_again(&mut self, now: Time, heir: Handle, holders: &BTreeSet<Handle>) {
        for handle in holders {
            let Some(session) = self.sessions.by_handle.get_mut(handle) else { continue };
            match &mut session.life {
                Life::Live { .. } => {}
                Life::Mourned(death) => death.tell_too(now, heir),
                Life::AtRest { since } => {
                    let mut death = Death::new(*since, 0);
                    death.tell_too(now, heir);
                    session.life = Life::Mourned(death);
                    self.sessions.mourned.insert(*handle);
                }
            }
        }
    }

    /// Sends DOWNs that are due, as many as may be sent now.
    pub(super) fn send_downs(&mut self, now: Time) {
        self.lay_to_rest(now);
        let period = self.config.poll_period.min(BUSY_PERIOD);
        let mut left = self.sessions.downs.left(now, period);
        let retransmit = self.config.retransmit;
        let mut mute = Vec::new();
        let mut lines = if left > 0 { self.sessions.due_deaths(now) } else { VecDeque::new() };
        while let Some((namespace, mut line)) = lines.pop_front().filter(|_| left > 0) {
            let Some(dead) = line.pop_front() else { continue };
            self.sessions.downs.turn = namespace;
            let Some(session) = self.sessions.by_handle.get_mut(&dead) else { continue };
            let Life::Mourned(death) = &mut session.life else { continue };
            let told = death.tell(now, retransmit, left.min(DOWNS_IN_A_ROW));
            if now >= death.next_down {
                line.push_back(dead);
            }
            lines.push_back((namespace, line));
            left -= told.len();
            self.sessions.downs.sent += told.len();
            let body = Heartbeat { incarnation: session.record.incarnation, ..Heartbeat::default() };
            for (to, times) in told {
                let most = questions_most(self.sessions.get(to).map(|session| &session.record), retransmit);
                mute.extend((times > most).then_some(to));
                self.send_beat(to, kind::fabric::DOWN, dead, body);
            }
        }
        if left == 0 {
            self.next_tick = self.next_tick.min(now + period);
        }
        for handle in mute {
            self.dismiss(handle);
        }
    }

    /// Whoever is swept and known to be dead by all is mourned no more.
    fn lay_to_rest(&mut self, now: Time) {
        let mut batch = Vec::new();
        for handle in self.sessions.mourned.clone() {
            let session = self.sessions.by_handle.get_mut(&handle).expect("mourned handles are in the table");
            let Life::Mourned(death) = &session.life else { continue };
            if death.untold.is_empty() && self.patrol.passes() >= death.swept_by {
                session.life = Life::AtRest { since: death.since };
                session.record.stage = Stage::AtRest;
                self.sessions.mourned.remove(&handle);
                batch.push(session.record.encode(handle));
            }
        }
        if !batch.is_empty() {
            self.write_down(now, batch);
        }
    }

    pub(super) fn on_down_ack(&mut self, header: &Header, body: &Heartbeat) {
        let Some(session) = self.sessions.by_handle.get_mut(&header.position) else { return };
        if session.record.incarnation != body.incarnation {
            return;
        }
        if let Life::Mourned(death) = &mut session.life {
            death.untold.remove(&header.source);
        }
    }

    pub(super) fn on_leave(&mut self, now: Time, from: SocketAddrV4, header: &Header, body: &Heartbeat) {
        let session = self.sessions.get(header.source).filter(|s| s.record.incarnation == body.incarnation);
        let address = session.map_or(from, |session| session.record.address);
        if session.is_some() && self.sessions.is_live(header.source) {
            self.expire_word(header.source);
            let clean = header.flags & header_flag::CLEAN != 0;
            self.end_sessions(now, &[header.source], if clean { Ending::LeftClean } else { Ending::Left });
        }
        // A session that is over, or was never known here, has left in any case.
        let left = Header { kind: kind::fabric::LEFT, destination: header.source, ..Header::default() };
        let body = *body;
        self.send_fabric(address, left, FabricKind::Left.body().bytes(0), |packet, at| body.write(packet, at));
    }

    pub(super) fn send_beat(&mut self, to: Handle, kind: u8, position: u16, body: Heartbeat) {
        let Some(record) = self.sessions.get(to).map(|session| session.record) else { return };
        let header = Header { kind, position, destination: to, namespace: record.namespace, ..Header::default() };
        self.send_fabric(record.address, header, FabricKind::Down.body().bytes(0), |packet, at| body.write(packet, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use wayside_wire::limits;

    fn record(incarnation: u64, stage: Stage) -> SessionRecord {
        SessionRecord {
            incarnation,
            nonce: incarnation,
            lifeline: 2,
            address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7600),
            namespace: 1,
            lease: 100_000,
            grace: 10_000,
            pid: 3,
            host: [0; limits::MAX_HOST_BYTES],
            stage,
            secret: None,
            admission: 0,
        }
    }

    #[test]
    fn whoever_is_given_a_handle_is_there_in_the_place_of_whoever_had_it() {
        let mut sessions = Sessions::default();
        let stages = [Stage::Live, Stage::Mourned, Stage::AtRest];
        let pairs = stages.iter().flat_map(|former| stages.iter().map(move |latter| [*former, *latter]));
        for (incarnation, stage) in (1..).zip(pairs.flatten()) {
            sessions.insert(5, record(incarnation, stage));
            sessions.check();
            assert_eq!(sessions.by_nonce(incarnation).map(|(handle, record)| (handle, record.stage)), Some((5, stage)));
            assert!(sessions.by_nonce(incarnation - 1).is_none(), "the former one's");
        }
    }
}
