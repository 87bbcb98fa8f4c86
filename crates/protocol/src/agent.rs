//! The agent: bookkeeper of one held slot, on the node of one of its holders (paper 004, sections 3 and 4).
//!
//! ```text
//!            install (GRANT with AGENCY, CLAIMED, ADOPT)
//!                 |
//!                 v     second name, sequence 255 -> renew        nobody left -> free
//!   OPEN  <--- reopen ---  MANAGED  ------------------------> transfer to the first waiter
//!     \___ closed by an exclusive ACQUIRE at the switch ___/
//! ```
//!
//! Invariants
//! * An agent acts only while it is confirmed, not suspended and has no pending change. Everything it tells the switch
//!   is conditional on its own tenure and on the joins it knows; with a gap it tells it nothing, as a new tenure would
//!   forget the gap and the holder in it.
//! * Every live holder of the slot is in `holders`, or is an unknown ordinal (`!joins.complete()`).
//! * A (holder, request) is in at most one of `holders`, `queue` and `late`, and in none of them once retired.
//! * In OPEN no exclusive request is in `queue`.
//! * Within a name, nobody overtakes a conflicting waiter.

use crate::agency::Dead;
use crate::joins::Joins;
use crate::mutant::Mutant;
use crate::node::NodeConfig;
use crate::outbox::Outbox;
use crate::{Handle, Mode, Port, Stamp, Time, Token};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;
use wayside_wire::{Entry, Header, SlotBits, SlotState, entry_flag, header_flag, kind, limits, service};

/// Retired requests that an agent remembers; a ghost beyond that is granted once more and given back.
const RETIRED_MOST: usize = 1_024;
/// Waiters beyond this are told BUSY with RETRY: `position` counts them in 16 bits.
const WAITERS_MOST: usize = 60_000;
/// Longest pause between reminders, in longest pauses of a retransmission.
const REMINDER_MOST: u64 = 16;
/// Waiters that fit behind the first entry of a packet.
const WAITERS_A_PACKET: usize = limits::MAX_ENTRIES - 1;

/// A request as its agent knows it: holder or waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Party {
    pub holder: Handle,
    pub request: u64,
    pub name: u64,
    pub mode: Mode,
    pub port: Port,
    /// Does not queue.
    pub tries: bool,
    /// Of its grant, if it holds.
    pub token: Token,
}

impl Party {
    pub fn from_entry(entry: &Entry) -> Party {
        let exclusive = entry.flags & entry_flag::EXCLUSIVE != 0;
        Party {
            holder: entry.holder,
            request: entry.request,
            name: entry.name,
            mode: if exclusive { Mode::Exclusive } else { Mode::Shared },
            port: entry.reply_port,
            tries: entry.flags & entry_flag::TRY != 0,
            token: Token::default(),
        }
    }

    pub fn to_entry(self, slot: u32) -> Entry {
        Entry {
            name: self.name,
            request: self.request,
            slot,
            tenure: self.token.stamp().tenure,
            holder: self.holder,
            reply_port: self.port,
            slot_bits: 0,
            flags: mode_flag(self.mode),
            sequence: self.token.sequence(),
        }
    }

    pub fn is(&self, holder: Handle, request: u64) -> bool {
        self.request == request && self.holder == holder
    }
}

pub fn mode_flag(mode: Mode) -> u8 {
    match mode {
        Mode::Shared => 0,
        Mode::Exclusive => entry_flag::EXCLUSIVE,
    }
}

/// What an agent has at hand while it works: who and when it is, and where its words go.
pub struct Desk<'a> {
    pub me: Handle,
    pub now: Time,
    /// Local port to answer from.
    pub port: Port,
    /// Header of this session's lock packets; kind, destination and the rest are filled in.
    pub header: Header,
    pub config: &'a NodeConfig,
    pub dead: &'a Dead,
    pub nonce: &'a mut u64,
    pub out: &'a mut Outbox,
    /// Grants to requests of this very node; one that still `tries` is refused.
    pub local: &'a mut VecDeque<Party>,
}

impl Desk<'_> {
    pub fn send(&mut self, kind: u8, destination: Handle, flags: u16, position: u16, entries: &[Entry]) {
        let header = Header { service: service::LOCK, kind, destination, flags, position, ..self.header };
        self.out.entries(self.port, header, entries);
    }

    pub fn next_nonce(&mut self) -> u64 {
        *self.nonce += 1;
        *self.nonce
    }
}

/// A RETENURE that the agent has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Free,
    Renew { tryable: bool },
    Reopen { tryable: bool },
    Transfer(Party),
}

#[derive(Debug)]
struct Pending {
    change: Change,
    nonce: u64,
    /// The condition. An answer REFUSED is meant for this change only if the switch counts other joins: within a tenure
    /// they only rise, so then it can never have been applied.
    joins: u16,
    pause: u64,
    due: Time,
}

/// Waiters that the former agent still has to hand over: those beyond its first packet.
#[derive(Debug)]
struct Heir {
    from: Handle,
    /// That the hand-over began; the agent may have moved on since.
    stamp: Stamp,
    total: u16,
    arrived: u16,
    /// When the rest is given up: its waiters ask again themselves.
    until: Time,
}

/// How long an heir waits for more waiters, in microseconds; the former agent gives up earlier.
const HEIR_PATIENCE: u64 = 4_000_000;

/// An ADOPT whose pages are still coming.
#[derive(Debug)]
struct Adoption {
    id: u64,
    stamp: Stamp,
    bits: SlotBits,
}

/// What an answer of the switch means for the one who asked.
#[derive(Debug, PartialEq, Eq)]
pub enum After {
    /// The agent goes on.
    Goes,
    /// This tenure is over and the agent with it: forget it, send its limbo back to the switch.
    Over,
}

/// Where a request ends up that cannot be served here.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    Yes,
    /// Back to the switch: it must close the slot first.
    Bounce,
}

#[derive(Debug, Default)]
pub struct Agent {
    pub slot: u32,
    pub stamp: Stamp,
    pub suspended: bool,
    open: bool,
    tryable: bool,
    /// The name that w1 of the slot remembers, if tryable.
    name: u64,
    confirmed: bool,
    sequence: u8,
    joins: Joins,
    joins_stamp: Stamp,
    holders: Vec<Party>,
    queue: VecDeque<Party>,
    late: VecDeque<Party>,
    heir: Option<Heir>,
    retired: Vec<(Handle, u64)>,
    blocked: Vec<u64>,
    pending: Option<Pending>,
    gap_due: Option<Time>,
    /// When the holders are told of their grants again, and the pause before that.
    reminder: Option<(Time, u64)>,
    adopting: Option<Adoption>,
}

impl Agent {
    /// Makes this (new or used) agent that of `slot`, keeping only its memory.
    pub fn reset(&mut self, slot: u32, stamp: Stamp, bits: SlotBits) {
        self.slot = slot;
        self.suspended = false;
        self.confirmed = true;
        self.holders.clear();
        self.queue.clear();
        self.late.clear();
        self.heir = None;
        self.adopting = None;
        self.pending = None;
        self.reminder = None;
        self.start_tenure(stamp, bits);
    }

    fn start_tenure(&mut self, stamp: Stamp, bits: SlotBits) {
        self.stamp = stamp;
        self.joins_stamp = stamp;
        self.open = bits.state == SlotState::Open;
        self.tryable = bits.tryable;
        self.sequence = 0;
        self.joins.reset(bits.joins);
        self.retired.clear();
        self.gap_due = None;
    }

    /// A claim was answered: authority at `stamp`, over joins granted in the tenure before.
    pub fn claimed(&mut self) {
        self.joins_stamp.tenure -= 1;
    }

    /// The first holder's name and hold, or, if it does not wait any more, only doubt.
    pub fn granted_with(&mut self, first: Party, held: bool) {
        self.name = first.name;
        self.confirmed = held;
        if held {
            self.holders.push(first);
        }
    }

    /// Waiters came with the agency: `total` in all, these first.
    pub fn inherit(&mut self, now: Time, from: Handle, total: u16, waiters: impl Iterator<Item = Party>) {
        self.heir = Some(Heir { from, stamp: self.stamp, total, arrived: 0, until: now + HEIR_PATIENCE });
        self.take_waiters(now, 0, waiters);
    }

    /// Whether the agency of this stamp was handed over to this agent.
    pub fn inherited_at(&self, stamp: Stamp) -> bool {
        self.heir.as_ref().is_some_and(|heir| heir.stamp == stamp)
    }

    pub fn is_usable(&self) -> bool {
        self.confirmed && !self.suspended && self.pending.is_none()
    }

    pub fn is_open(&self) -> bool {
        self.open
    }

    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    pub fn has_waiters(&self) -> bool {
        !self.queue.is_empty() || !self.late.is_empty()
    }

    pub fn holds(&self, holder: Handle, request: u64) -> bool {
        self.holders.iter().any(|p| p.is(holder, request))
    }

    /// The pending transfer's target and the tenure it will begin.
    pub fn transfer_to(&self) -> Option<(Handle, Stamp)> {
        match &self.pending {
            Some(Pending { change: Change::Transfer(to), .. }) => Some((to.holder, self.next_stamp())),
            _ => None,
        }
    }

    pub fn due(&self) -> Time {
        let pending = self.pending.as_ref().map(|p| p.due);
        let heir = self.heir.as_ref().filter(|heir| heir.arrived < heir.total).map(|heir| heir.until);
        let reminder = self.reminder.map(|(due, _)| due);
        [pending, self.gap_due, heir, reminder].into_iter().flatten().min().unwrap_or(Time(u64::MAX))
    }

    fn next_stamp(&self) -> Stamp {
        Stamp { tenure: self.stamp.tenure.saturating_add(1), ..self.stamp }
    }

    // ---- requests ----

    /// ACQUIRE, forwarded by the switch or from this node. `snapshot`: the slot as the switch saw it.
    pub fn on_acquire(&mut self, party: Party, snapshot: Option<(Stamp, SlotBits)>, desk: &mut Desk) -> Taken {
        if let Some((stamp, bits)) = snapshot.filter(|(stamp, _)| *stamp == self.stamp) {
            debug_assert_eq!(stamp, self.stamp);
            self.learn_state(bits);
        }
        let known = (party.holder, party.request);
        if self.retired.contains(&known) && !desk.config.is_broken(Mutant::ForgetRetired) {
            return Taken::Yes;
        }
        if let Some(index) = self.holders.iter().position(|p| p.is(party.holder, party.request)) {
            self.holders[index].port = party.port;
            self.deliver(self.holders[index], desk);
            return Taken::Yes;
        }
        if let Some(waiter) = self.queue.iter_mut().chain(&mut self.late).find(|p| p.is(party.holder, party.request)) {
            waiter.port = party.port;
            return Taken::Yes;
        }
        if self.open && party.mode == Mode::Exclusive {
            return Taken::Bounce;
        }
        if self.queue.len() + self.late.len() >= WAITERS_MOST {
            self.refuse(party, header_flag::RETRY, desk);
            return Taken::Yes;
        }
        self.reminder = None;
        if self.heir_is_complete() {
            self.queue.push_back(party)
        } else {
            self.late.push_back(party)
        }
        self.serve(desk);
        Taken::Yes
    }

    /// RELEASE or CANCEL: this (holder, request) is over. `ordinal` if its grant was a join of tenure `stamp`.
    pub fn on_release(&mut self, holder: Handle, request: u64, grant: Option<(Stamp, u16)>, desk: &mut Desk) {
        if let Some((_, ordinal)) = grant.filter(|(stamp, _)| *stamp == self.joins_stamp) {
            self.joins.learn(ordinal);
        }
        if desk.config.is_broken(Mutant::ReleaseAnything) {
            self.holders.clear();
        }
        self.remove(holder, request);
        if holder != desk.me {
            if self.retired.len() == RETIRED_MOST {
                self.retired.remove(0);
            }
            if !self.retired.contains(&(holder, request)) {
                self.retired.push((holder, request));
            }
        }
        self.serve(desk);
    }

    /// JOIN: the switch has granted a shared request in this tenure.
    pub fn on_join(&mut self, party: Party, stamp: Stamp, ordinal: u16, dead: bool, desk: &mut Desk) {
        if stamp != self.joins_stamp || !self.joins.learn(ordinal) {
            return;
        }
        let known = (party.holder, party.request);
        if !dead && !self.retired.contains(&known) && !self.holds(party.holder, party.request) {
            self.queue.retain(|p| !p.is(party.holder, party.request));
            self.late.retain(|p| !p.is(party.holder, party.request));
            self.holders.push(Party { token: Token::new(stamp, 0), tries: false, ..party });
        }
        self.serve(desk);
    }

    /// DOWNGRADE: an exclusive hold becomes shared. False if there is no such hold.
    pub fn on_downgrade(&mut self, holder: Handle, request: u64, desk: &mut Desk) -> bool {
        let Some(index) = self.holders.iter().position(|p| p.is(holder, request)) else { return false };
        self.holders[index].mode = Mode::Shared;
        self.deliver(self.holders[index], desk);
        self.serve(desk);
        true
    }

    /// DOWN: a node is dead, and so are its holds and waits (`serve` drops them). Its unknown joins stay a gap.
    pub fn on_down(&mut self, dead: Handle, desk: &mut Desk) {
        if self.heir.as_ref().is_some_and(|heir| heir.from == dead) {
            self.give_up_waiters();
        }
        self.serve(desk);
    }

    fn remove(&mut self, holder: Handle, request: u64) {
        self.holders.retain(|p| !p.is(holder, request));
        self.queue.retain(|p| !p.is(holder, request));
        self.late.retain(|p| !p.is(holder, request));
    }

    /// What the switch said of this tenure: an exclusive request closes it, and then its joins are final.
    fn learn_state(&mut self, bits: SlotBits) {
        if bits.state == SlotState::Managed {
            self.open = false;
        }
        if self.joins_stamp == self.stamp {
            self.joins.expected = self.joins.expected.max(bits.joins);
        }
    }

    // ---- granting ----

    /// Does whatever can be done now: grants, then one change if one is due.
    pub fn serve(&mut self, desk: &mut Desk) {
        if self.suspended && !desk.config.is_broken(Mutant::IgnoreSuspension) || self.pending.is_some() {
            return;
        }
        self.bury_the_dead(desk);
        if !self.confirmed && !desk.config.is_broken(Mutant::ServeUnconfirmed) {
            let idle = self.holders.is_empty() && !self.has_waiters() && self.heir_is_complete();
            let change = if idle { Change::Free } else { Change::Renew { tryable: false } };
            return self.start(change, desk);
        }
        if self.first_takes_over(desk.me) {
            return self.hand_over(desk);
        }
        self.grant_queue(desk);
        if self.pending.is_some() {
            return;
        }
        while let Some(index) = self.queue.iter().position(|p| p.tries) {
            if let Some(party) = self.queue.remove(index) {
                self.refuse(party, 0, desk);
            }
        }
        self.settle(desk);
        self.set_reminder(desk);
    }

    /// The dead come in late, too: with an inherited queue, a refused transfer, an adoption.
    fn bury_the_dead(&mut self, desk: &Desk) {
        if desk.dead.is_empty() || desk.config.is_broken(Mutant::BelieveTheDead) {
            return;
        }
        let lives = |p: &Party| !desk.dead.has(p.holder, desk.now);
        self.holders.retain(lives);
        self.queue.retain(lives);
        self.late.retain(lives);
    }

    fn heir_is_complete(&self) -> bool {
        self.heir.as_ref().is_none_or(|heir| heir.arrived == heir.total)
    }

    fn joins_are_known(&self, desk: &Desk) -> bool {
        self.joins.complete() || desk.config.is_broken(Mutant::IgnoreGaps)
    }

    /// Nobody holds, all wait for one name, the first of them elsewhere: the agency goes there.
    fn first_takes_over(&self, me: Handle) -> bool {
        let Some(first) = self.queue.front() else { return false };
        first.holder != me
            && !self.open
            && self.holders.is_empty()
            && self.joins.complete()
            && self.heir_is_complete()
            && self.queue.iter().all(|p| p.name == first.name)
    }

    fn hand_over(&mut self, desk: &mut Desk) {
        let Some(first) = self.queue.pop_front() else { return };
        while let Some(index) = self.queue.iter().position(|p| p.tries) {
            if let Some(party) = self.queue.remove(index) {
                self.refuse(party, 0, desk);
            }
        }
        self.start(Change::Transfer(first), desk);
    }

    /// Grants in the order of arrival, each name on its own.
    fn grant_queue(&mut self, desk: &mut Desk) {
        let mut blocked = mem::take(&mut self.blocked);
        blocked.clear();
        let mut index = 0;
        while let Some(&party) = self.queue.get(index) {
            if blocked.contains(&party.name) || !self.can_grant(&party, desk) {
                blocked.push(party.name);
                index += 1;
                continue;
            }
            if self.tryable && party.name != self.name {
                if self.joins_are_known(desk) {
                    self.start(Change::Renew { tryable: false }, desk);
                } else {
                    self.note_gap(desk);
                }
                break;
            }
            if party.mode == Mode::Exclusive && self.sequence == limits::MAX_SEQUENCE {
                self.start(Change::Renew { tryable: self.tryable }, desk);
                break;
            }
            self.queue.remove(index);
            self.grant(party, desk);
        }
        self.blocked = blocked;
    }

    fn can_grant(&mut self, party: &Party, desk: &Desk) -> bool {
        let mut of_name = self.holders.iter().filter(|p| p.name == party.name);
        match party.mode {
            Mode::Shared => !of_name.any(|p| p.mode == Mode::Exclusive),
            Mode::Exclusive if self.open || of_name.next().is_some() => false,
            Mode::Exclusive if self.joins_are_known(desk) => true,
            Mode::Exclusive => {
                self.note_gap(desk);
                false
            }
        }
    }

    fn grant(&mut self, party: Party, desk: &mut Desk) {
        if party.mode == Mode::Exclusive && !desk.config.is_broken(Mutant::SameSequence) {
            self.sequence += 1;
        }
        let party = Party { token: Token::new(self.stamp, self.sequence), tries: false, ..party };
        self.holders.push(party);
        self.deliver(party, desk);
    }

    /// Tells the holder of its grant, for the first time or again.
    fn deliver(&self, party: Party, desk: &mut Desk) {
        if party.holder == desk.me {
            desk.local.push_back(party);
        } else {
            desk.send(kind::lock::GRANT, party.holder, 0, 0, &[party.to_entry(self.slot)]);
        }
    }

    /// A grant may be lost on its way to a request that nobody waits for any more: told again, its node gives it back.
    fn set_reminder(&mut self, desk: &Desk) {
        let pause = desk.config.retransmit_most_us;
        match self.reminder {
            _ if self.holders.is_empty() => self.reminder = None,
            None => self.reminder = Some((desk.now + pause, pause)),
            Some(_) => {}
        }
    }

    fn remind(&mut self, pause: u64, desk: &mut Desk) {
        let pause = (pause * 2).min(desk.config.retransmit_most_us * REMINDER_MOST);
        self.reminder = Some((desk.now + pause, pause));
        for &party in &self.holders {
            self.deliver(party, desk);
        }
    }

    fn refuse(&self, party: Party, flags: u16, desk: &mut Desk) {
        if party.holder == desk.me && party.tries {
            return desk.local.push_back(party);
        }
        let entry = Entry { flags: entry_flag::TRY | mode_flag(party.mode), ..party.to_entry(self.slot) };
        desk.send(kind::lock::BUSY, party.holder, flags, 0, &[entry]);
    }

    /// Nobody is left, or only readers: the switch may decide again.
    fn settle(&mut self, desk: &mut Desk) {
        if !self.queue.is_empty() || !self.heir_is_complete() {
            return;
        }
        let shared_only = self.holders.iter().all(|p| p.mode == Mode::Shared);
        let saturated = self.open && self.joins.expected == limits::MAX_JOINS;
        let idle = self.holders.is_empty();
        if !idle && !(shared_only && (!self.open || saturated)) {
            return;
        }
        if !self.joins_are_known(desk) {
            return self.note_gap(desk);
        }
        self.gap_due = None;
        if idle {
            return self.start(Change::Free, desk);
        }
        self.name = self.holders[0].name;
        let tryable = self.holders.iter().all(|p| p.name == self.name);
        self.start(Change::Reopen { tryable }, desk);
    }

    fn note_gap(&mut self, desk: &Desk) {
        self.gap_due.get_or_insert(desk.now + desk.config.gap_us);
    }

    // ---- changes at the switch ----

    fn start(&mut self, change: Change, desk: &mut Desk) {
        debug_assert!(self.joins_are_known(desk), "a new tenure would forget the gap");
        let pause = desk.config.retransmit_us;
        let nonce = desk.next_nonce();
        self.pending = Some(Pending { change, nonce, joins: self.joins.expected, pause, due: desk.now + pause });
        self.send_pending(desk);
    }

    fn send_pending(&mut self, desk: &mut Desk) {
        let Some(pending) = &self.pending else { return };
        let mut entries = [Entry::default(); limits::MAX_ENTRIES];
        let (state, tryable, transferred) = match pending.change {
            Change::Free => (SlotState::Unheld, false, false),
            Change::Renew { tryable } => (SlotState::Managed, tryable, false),
            Change::Reopen { tryable } => (SlotState::Open, tryable, false),
            Change::Transfer(to) => {
                let exclusive = to.mode == Mode::Exclusive || self.queue.iter().any(|p| p.mode == Mode::Exclusive);
                (if exclusive { SlotState::Managed } else { SlotState::Open }, true, true)
            }
        };
        let bits = SlotBits { state, transferred, tryable, joins: pending.joins };
        let mut count = 1;
        entries[0] = Entry {
            name: self.name,
            request: pending.nonce,
            slot: self.slot,
            tenure: self.stamp.tenure,
            holder: desk.me,
            slot_bits: bits.to_u16(),
            ..Entry::default()
        };
        if let Change::Transfer(to) = pending.change {
            entries[0] = Entry { slot_bits: bits.to_u16(), tenure: self.stamp.tenure, ..to.to_entry(self.slot) };
            count += fill(&mut entries[1..], self.queue.iter(), self.slot);
        }
        let total = self.queue.len() as u16;
        desk.send(kind::lock::RETENURE, 0, 0, total, &entries[..count]);
    }

    /// RETENURED: what became of the pending change. `now_at`: the slot as it is.
    pub fn on_retenured(
        &mut self,
        header: &Header,
        entry: &Entry,
        now_at: (Stamp, SlotBits),
        desk: &mut Desk,
    ) -> After {
        let Some(pending) = &self.pending else { return After::Goes };
        let asked = match pending.change {
            Change::Transfer(to) => to.request,
            _ => pending.nonce,
        };
        if entry.request != asked {
            return After::Goes;
        }
        let (stamp, bits) = now_at;
        if header.flags & header_flag::REFUSED != 0 {
            let dead = header.flags & header_flag::DEAD != 0;
            if stamp == self.stamp && (dead || bits.joins != pending.joins) {
                self.on_refused(dead, bits, desk);
            }
            return After::Goes;
        }
        let applied = header.flags & (header_flag::APPLIED | header_flag::STALE_TENURE) != 0;
        if !applied || stamp <= self.stamp {
            return After::Goes;
        }
        let still_ours = stamp == self.next_stamp() && entry.holder == desk.me;
        match pending.change {
            Change::Renew { .. } | Change::Reopen { .. } if still_ours => {
                self.pending = None;
                self.confirmed = true;
                self.start_tenure(stamp, bits);
                self.serve(desk);
                After::Goes
            }
            _ => After::Over,
        }
    }

    /// The switch knows joins that we do not, or the heir is dead. Either way it has confirmed that we are the agent.
    fn on_refused(&mut self, dead: bool, bits: SlotBits, desk: &mut Desk) {
        let Some(pending) = self.pending.take() else { return };
        self.confirmed = true;
        self.learn_state(bits);
        if let Change::Transfer(to) = pending.change {
            if dead {
                self.queue.retain(|p| p.holder != to.holder);
            } else {
                self.queue.push_front(to);
            }
        }
        self.serve(desk);
    }

    /// Sends again what is unanswered.
    pub fn on_tick(&mut self, desk: &mut Desk) {
        let most = desk.config.retransmit_most_us;
        if let Some(pending) = self.pending.as_mut().filter(|p| p.due <= desk.now) {
            pending.pause = (pending.pause * 2).min(most);
            pending.due = desk.now + pending.pause;
            self.send_pending(desk);
        }
        if self.heir.as_ref().is_some_and(|heir| heir.until <= desk.now) {
            self.give_up_waiters();
            self.serve(desk);
        }
        if let Some((_, pause)) = self.reminder.filter(|(due, _)| *due <= desk.now) {
            if self.is_usable() {
                self.remind(pause, desk);
            } else {
                self.reminder = None;
            }
        }
        if self.gap_due.is_some_and(|due| due <= desk.now) {
            if self.joins.complete() {
                self.gap_due = None;
            } else {
                self.gap_due = Some(desk.now + desk.config.gap_us * 4);
                let entry = Entry { slot: self.slot, tenure: self.stamp.tenure, ..Entry::default() };
                desk.send(kind::lock::GAP, 0, 0, 0, &[entry]);
            }
        }
    }

    // ---- handing waiters over ----

    /// The waiters, for the one who hands them over in pieces.
    pub fn take_queue(&mut self) -> Vec<Party> {
        self.queue.drain(..).collect()
    }

    /// Number of waiters that go with a transfer.
    pub fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// Takes waiters `position..` from the former agent, if those before them have arrived.
    pub fn take_waiters(&mut self, now: Time, position: u16, waiters: impl Iterator<Item = Party>) {
        for (party, index) in waiters.zip(position..) {
            let Some(heir) = self.heir.as_mut().filter(|h| index == h.arrived && h.arrived < h.total) else {
                continue;
            };
            heir.arrived += 1;
            heir.until = now + HEIR_PATIENCE;
            let gone = self.retired.contains(&(party.holder, party.request)) || self.holds(party.holder, party.request);
            self.late.retain(|p| !p.is(party.holder, party.request));
            if !gone {
                self.queue.push_back(party);
            }
        }
        self.admit_late();
    }

    /// The rest of the waiters will not come: they ask again themselves.
    fn give_up_waiters(&mut self) {
        if let Some(heir) = &mut self.heir {
            heir.total = heir.arrived;
        }
        self.admit_late();
    }

    fn admit_late(&mut self) {
        if self.heir_is_complete() {
            self.queue.extend(self.late.drain(..));
        }
    }

    /// Tells the former agent what has arrived; only it may forget.
    pub fn acknowledge(&self, desk: &mut Desk) {
        let Some(heir) = &self.heir else { return };
        let entry = Entry { slot: self.slot, tenure: heir.stamp.tenure, ..Entry::default() };
        desk.send(kind::lock::QUEUED, heir.from, 0, heir.arrived + 1, &[entry]);
    }

    // ---- recovery ----

    /// A census has begun: nothing is granted or changed until the controller says who holds.
    pub fn suspend(&mut self) {
        self.suspended = true;
        self.gap_due = None;
        if let Some(Pending { change: Change::Transfer(to), .. }) = self.pending.take() {
            self.queue.push_front(to);
        }
        self.give_up_waiters();
    }

    /// ADOPT names this slot: its holders follow.
    pub fn prepare_adoption(&mut self, id: u64, stamp: Stamp, bits: SlotBits) {
        self.adopting = Some(Adoption { id, stamp, bits });
        self.holders.clear();
    }

    /// ADOPT: one of the holders that the controller has found.
    pub fn adopt_holder(&mut self, id: u64, party: Party) {
        if self.adopts(id) && !self.holds(party.holder, party.request) {
            self.queue.retain(|p| !p.is(party.holder, party.request));
            self.holders.push(party);
        }
    }

    /// Whether this adoption is under way.
    pub fn adopts(&self, id: u64) -> bool {
        self.adopting.as_ref().is_some_and(|adoption| adoption.id == id)
    }

    /// The stamp at which the adopted agent will act.
    pub fn adoption_stamp(&self) -> Option<Stamp> {
        self.adopting.as_ref().map(|adoption| adoption.stamp)
    }

    /// All holders are known: the agent asks the switch to confirm it, then acts.
    pub fn resume(&mut self, desk: &mut Desk) {
        let Some(Adoption { stamp, bits, .. }) = self.adopting.take() else { return };
        self.suspended = false;
        self.confirmed = false;
        self.start_tenure(stamp, bits);
        self.serve(desk);
    }
}

/// Writes as many waiters as fit; how many.
pub fn fill<'a>(entries: &mut [Entry], waiters: impl Iterator<Item = &'a Party>, slot: u32) -> usize {
    let mut count = 0;
    for (entry, party) in entries.iter_mut().take(WAITERS_A_PACKET).zip(waiters) {
        *entry = party.to_entry(slot);
        count += 1;
    }
    count
}
