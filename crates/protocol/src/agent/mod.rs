//! The agent: bookkeeper of one held slot, on the node of one of its holders (FissLock, OSDI 2024, sections 3 and 4).
//!
//! ```text
//!            install (GRANT with AGENCY, CLAIMED, ADOPT)
//!                 |
//!                 v     second name, sequence 255 -> renew        nobody left -> free
//!   OPEN  <--- reopen ---  MANAGED  ------------------------> transfer to the first waiter
//!     \___ closed by an exclusive ACQUIRE at the switch ___/        nobody left, at home here -> rests (home.rs)
//! ```
//!
//! Invariants
//! * An agent acts only while it is confirmed, not suspended and has no pending change. Everything it tells the switch
//!   is conditional on its own tenure and on the joins it knows; with a gap it asks for nothing that could be applied,
//!   as a new tenure would forget the gap and the holder in it.
//! * Every live holder of the slot is in `holders`, or is an unknown ordinal (`!joins.complete()`).
//! * A (holder, request) is in at most one of `holders`, `queue` and `late`, and in none of them once retired.
//! * In OPEN no exclusive request is in `queue`, but where readers go first: it waits there while its name is held.
//! * Within a name, `queue` is in the order in which it is served: `line.rs` says who may overtake whom. `late` has
//!   newcomers in the order in which they came, while waiters that came before them may still arrive.

mod changes;
mod desk;
mod granting;
mod heritage;
mod home;
mod sole;
#[cfg(test)]
mod tests;

pub use desk::{Desk, Party, mode_flag};
pub use heritage::fill;
pub use home::Home;
pub use sole::{Duty, Sole};

use crate::joins::Joins;
use crate::line::Rank;
use crate::mutant::Mutant;
use crate::{Handle, Mode, Stamp, Time, Token};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use wayside_wire::{SlotBits, SlotState, header_flag};

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
    /// Before it is sent again.
    pause: u64,
    due: Time,
    /// It has been sent more than once.
    again: bool,
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
    pub home: Home,
}

/// Holders, waiters, retired requests and names for which an agent has room from the beginning.
const ROOM: usize = 4;

impl Agent {
    /// One that allocates nothing while there are few who want its locks.
    pub fn with_room() -> Agent {
        Agent {
            joins: Joins::with_room(),
            holders: Vec::with_capacity(ROOM),
            queue: VecDeque::with_capacity(ROOM),
            retired: Vec::with_capacity(ROOM),
            blocked: Vec::with_capacity(ROOM),
            ..Agent::default()
        }
    }

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
        self.home = Home::default();
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

    /// A claim was answered: authority at `stamp`, over joins granted in the tenure before. There is one, unless the
    /// answer is forged.
    pub fn claimed(&mut self) {
        self.joins_stamp.tenure = self.joins_stamp.tenure.saturating_sub(1);
    }

    /// The first holder's name and hold, or, if it does not wait any more, only doubt.
    pub fn granted_with(&mut self, first: Party, held: bool) {
        self.name = first.name;
        self.confirmed = held;
        if held {
            self.holders.push(first);
        }
    }

    pub fn is_usable(&self) -> bool {
        self.confirmed && !self.suspended && self.pending.is_none()
    }

    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether it only waits for the end of a census that has ended, as the slot shows: what it was the agent of became
    /// nobody's, and was granted to its node again. Who is adopted finds it handed over.
    pub fn is_past(&self, (stamp, bits): (Stamp, SlotBits)) -> bool {
        self.suspended && self.adopting.is_none() && self.stamp < stamp && !bits.transferred
    }

    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    pub fn has_waiters(&self) -> bool {
        !self.queue.is_empty() || !self.late.is_empty()
    }

    /// Whether its books say no more than that one request of its own node holds, or nobody: nothing is lost with them.
    pub fn is_alone(&self, me: Handle) -> bool {
        !self.has_waiters() && self.holders.len() <= 1 && self.holders.iter().all(|party| party.holder == me)
    }

    /// Whether the end of this node's session changes anything here.
    pub fn involves(&self, node: Handle) -> bool {
        let from = self.heir.as_ref().is_some_and(|heir| heir.from == node);
        from || self.holders().chain(self.waiters()).any(|party| party.holder == node)
    }

    pub fn holds(&self, holder: Handle, request: u64) -> bool {
        self.holders.iter().any(|p| p.is(holder, request))
    }

    pub fn holders(&self) -> impl Iterator<Item = &Party> {
        self.holders.iter()
    }

    /// All who wait.
    pub fn waiters(&self) -> impl Iterator<Item = &Party> {
        self.line().chain(self.late())
    }

    /// Who came while waiters of a former agent are still to come.
    pub fn late(&self) -> impl Iterator<Item = &Party> {
        self.late.iter()
    }

    /// The others, in the order in which they are served; one whom the agency is on its way to is the first.
    pub fn line(&self) -> impl Iterator<Item = &Party> {
        let heir = self.pending.as_ref().and_then(|pending| match &pending.change {
            Change::Transfer(to) => Some(to),
            _ => None,
        });
        heir.into_iter().chain(&self.queue)
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
        let current = snapshot.filter(|(stamp, _)| *stamp == self.stamp).map(|(_, bits)| bits);
        if let Some(bits) = current {
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
        // Where readers go first the switch forwards it as it is, and leaves it to the agent when to close the slot.
        let left_open = current.is_some_and(|bits| bits.state == SlotState::Open);
        if self.open && party.mode == Mode::Exclusive && !left_open {
            return Taken::Bounce;
        }
        let is_full = self.queue.len() + self.late.len() >= desk.config.waiters_most;
        self.hasten_reminder(desk);
        let party = Party { rank: Rank::newcomer(party.rank.priority), ..party };
        self.admit_late(desk);
        if !self.heir_is_complete() {
            self.late.push_back(party);
        } else {
            self.line_up(party, is_full, desk);
        }
        self.serve(desk);
        if is_full {
            self.refuse_waiting(party, desk);
        }
        Taken::Yes
    }

    /// There is no room for it to wait. Who could be granted at once was: it may hold what all the others wait for.
    fn refuse_waiting(&mut self, party: Party, desk: &mut Desk) {
        let before = self.queue.len() + self.late.len();
        self.queue.retain(|p| !p.is(party.holder, party.request));
        self.late.retain(|p| !p.is(party.holder, party.request));
        if self.queue.len() + self.late.len() < before {
            self.refuse(party, header_flag::RETRY, desk);
        }
    }

    /// RELEASE or CANCEL: this (holder, request) is over. `ordinal` if its grant was a join of tenure `stamp`.
    pub fn on_release(&mut self, holder: Handle, request: u64, grant: Option<(Stamp, u16)>, desk: &mut Desk) {
        if let Some((_, ordinal)) = grant.filter(|(stamp, _)| *stamp == self.joins_stamp) {
            self.joins.learn(ordinal);
        }
        if desk.config.is_broken(Mutant::ReleaseAnything) {
            self.holders.clear();
        }
        if desk.config.is_broken(Mutant::FreeUnderReaders) && holder == desk.me {
            self.holders.clear();
        }
        if desk.config.is_broken(Mutant::ReleaseByHandle) {
            self.holders.retain(|p| p.holder != holder);
        }
        if desk.config.is_broken(Mutant::WaitersByHandle) {
            self.queue.retain(|p| p.holder != holder);
        }
        self.remove(holder, request);
        if holder != desk.me {
            if self.retired.len() >= desk.config.retired_most {
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
            let party = Party { token: Token::new(stamp, 0), tries: false, ..party };
            self.holders.push(party);
            // Asked before the agency came to this very node, and joined after it: the switch's GRANT is not above what
            // the node has served, and is not taken. Told here, it does not wait for a reminder.
            if party.holder == desk.me {
                self.deliver(party, desk);
            }
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
}
