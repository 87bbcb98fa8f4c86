//! A part of a namespace's names that this node is the lock server of, in one term: from when the controller has said
//! so until it says that another is, or the session or the epoch is over.
//!
//! Invariant: nothing of one term counts in another: who serves the part again begins with nothing.

use super::Link;
use super::overflow::{Overflow, first_number};
use super::overflows::Overflows;
use super::own::{Own, Terms};
use super::popular::Popular;
use crate::mutant::Mutant;
use crate::node::{Booked, NodeConfig};
use crate::{Handle, Time};
use alloc::collections::BTreeMap;
use wayside_wire::{Attempt, Header, kind, queue_flag};

/// A lock that has moved in this term. docs/queue.md, "Moves".
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    /// The latest move for which it was ceded.
    id: u64,
    /// Until it is handed back: the ticket that the switch begins with; 0: it was not ceded.
    first: u64,
    /// The ticket from which on the switch has handed it here.
    handed: u64,
    /// That from which on it was taken.
    taken: u64,
    /// When any of this became so.
    since: Time,
}

/// What is known of a move of before is for packets that are late: none is by so much. Microseconds; handles rest as
/// long for the same reason.
const LATEST: u64 = 60_000_000;

impl Moved {
    /// Whether the switch has handed it here, with this ticket, and this is the first that is heard of it.
    fn is_news(&self, ticket: u64) -> bool {
        ticket >= self.first && ticket > self.handed
    }

    /// Whether it is for the switch to grant it.
    fn is_away(&self) -> bool {
        self.first != 0 && self.handed < self.first
    }

    /// Whether it is this server's as if it had never moved: the switch has not been ceded it, and nothing of a move of
    /// before is late.
    fn is_history(&self, now: Time) -> bool {
        self.first == 0 && now.since(self.since) >= LATEST
    }
}

/// So many of the longest pauses the controller is waited for that is to say what the switch has given of a lock which
/// it has handed here. It says so once a pause; if it never does, what told of the hand-over was late: another lock
/// server had taken the lock, in an earlier term.
const UNTOLD: u64 = 4;

/// A lock that is this server's, and is granted a little later.
#[derive(Clone, Copy, Debug)]
struct Taking {
    /// Until then what the switch has given of it is waited for, or what the controller has to say of that.
    until: Time,
    /// Whether the controller has said it.
    is_told: bool,
}

/// See the module's documentation.
pub(super) struct Served {
    overflows: Overflows,
    moved: BTreeMap<u64, Moved>,
    /// When what is history of these is forgotten next.
    forgets: Time,
    taking: BTreeMap<u64, Taking>,
    own: Own,
    /// What it is asked for most.
    popular: Popular,
    /// Of retransmissions: the first, and the longest.
    pauses: (u64, u64),
    mutant: Option<Mutant>,
}

/// CEDED: nobody holds the lock, and nobody is granted it here.
fn tell_ceded(link: &mut Link<'_>, name: u64, id: u64, first: u64) {
    let attempt = Attempt { name, number: id, ticket: first, holder: link.me(), ..Attempt::default() };
    link.send(0, kind::queue::CEDED, 0, &attempt);
}

impl Served {
    pub fn new(now: Time, terms: Terms, config: &NodeConfig) -> Served {
        let mutant = config.mutant.filter(|_| cfg!(feature = "mutants"));
        Served {
            overflows: Overflows::default(),
            moved: BTreeMap::new(),
            forgets: now + LATEST,
            taking: BTreeMap::new(),
            own: Own::new(now, terms, config),
            popular: Popular::new(now, config.asked_us),
            pauses: (config.retransmit_us, config.retransmit_most_us),
            mutant,
        }
    }

    /// The namespace has another policy.
    pub fn decide_by(&mut self, config: &NodeConfig) {
        self.own.decide_by(config);
    }

    /// Of a lock of its own: who holds it, and who waits.
    pub fn line(&self, epoch: u32, name: u64) -> impl Iterator<Item = Booked> + '_ {
        self.own.line(epoch, name)
    }

    /// Its term has no tickets left: another one has to follow.
    pub fn is_exhausted(&self) -> bool {
        self.own.is_exhausted()
    }

    pub fn next_timer(&self) -> Time {
        let own = self.own.due().min(self.popular.due());
        let taking = self.taking.values().map(|taking| taking.until).min().unwrap_or(Time::NEVER);
        self.overflows.next_due().min(own).min(taking)
    }

    pub fn on_tick(&mut self, link: &mut Link<'_>) {
        self.own.on_tick(link);
        self.take_what_is_whole(link);
        self.cede_what_is_left(link);
        self.forget_history(link.now);
        for name in self.overflows.due_by(link.now) {
            if link.out.is_full() {
                return;
            }
            self.overflows.change(name, |overflow, _| overflow.on_tick(link));
        }
        self.tell_what_is_asked(link);
    }

    /// Locks that move come to be many, in a term that lasts for months.
    fn forget_history(&mut self, now: Time) {
        if now >= self.forgets {
            self.forgets = now + LATEST;
            self.moved.retain(|_, moved| !moved.is_history(now));
        }
    }

    /// Names of which a move is known.
    #[cfg(test)]
    pub fn moves_known(&self) -> usize {
        self.moved.len()
    }

    /// ASKED, of the locks that are asked for most. One that is lost is of a window that is over.
    fn tell_what_is_asked(&mut self, link: &mut Link<'_>) {
        let queued = self.overflows.iter().map(|(name, overflow)| (name, overflow.waiting().count()));
        self.popular.end_window(link.now, queued.filter(|(_, waiters)| *waiters > 0));
        while !link.out.is_full() {
            let Some((asked, window, length)) = self.popular.next() else { break };
            let body = Attempt {
                name: asked.name,
                number: window,
                order: asked.requests,
                over: length,
                room: asked.most.min(u16::MAX.into()) as u16,
                holder: link.me(),
                ..Attempt::default()
            };
            link.send(0, kind::queue::ASKED, 0, &body);
        }
    }

    /// A session is over.
    pub fn on_down(&mut self, link: &mut Link<'_>, dead: Handle, is_its: impl Fn(u64) -> bool) {
        self.own.on_down(link, dead, &is_its);
        self.overflows.change_all(|overflow, rests| overflow.on_down(link, dead, &is_its, !rests));
        self.cede_what_is_left(link);
    }

    pub fn on_packet(&mut self, link: &mut Link<'_>, header: &Header, attempt: &Attempt) {
        let name = attempt.name;
        match header.kind {
            kind::queue::ACQUIRE if attempt.order == 0 => self.on_wish(link, attempt),
            kind::queue::ACQUIRE => self.on_overflow(link, attempt),
            kind::queue::RELEASE => {
                self.own.on_release(link, attempt, false);
                self.cede_if_left(link, name);
            }
            kind::queue::CANCEL => {
                let (holder, request) = (attempt.holder, attempt.request);
                self.overflows.change(name, |overflow, rests| overflow.on_cancel(link, holder, request, !rests));
                self.own.on_release(link, attempt, true);
                self.cede_if_left(link, name);
            }
            kind::queue::RECALL if header.source == 0 => self.on_recall(link, attempt),
            kind::queue::YIELD if header.source == 0 => self.on_yield(link, attempt),
            kind::queue::ROOM if self.overflows.get(name).is_none() => self.on_news(link, attempt),
            kind::queue::PUSHED | kind::queue::ROOM => {
                let is_asked = header.kind == kind::queue::PUSHED;
                self.overflows.change(name, |overflow, rests| {
                    if !rests {
                        overflow.on_counters(link, attempt, is_asked);
                    }
                });
            }
            _ => {}
        }
    }

    /// ACQUIRE with order 0: the switch says that the lock is this server's.
    fn on_wish(&mut self, link: &mut Link<'_>, attempt: &Attempt) {
        if attempt.over != 0 {
            let moved = self.moved.entry(attempt.name).or_default();
            if moved.is_news(attempt.over) {
                // What is on its way here is older: the controller says how much that is.
                (moved.handed, moved.since) = (attempt.over, link.now);
                self.own.close(attempt.name);
                let until = link.now + UNTOLD * self.pauses.1;
                self.taking.insert(attempt.name, Taking { until, is_told: false });
            }
        }
        let moved = self.moved.get(&attempt.name).copied().unwrap_or_default();
        if !moved.is_away() || self.mutant == Some(Mutant::GrantCeded) {
            if let Some(claims) = self.own.on_acquire(link, attempt) {
                self.popular.ask(attempt.name, claims);
            }
            return;
        }
        // Who tries asks again, and is told by the switch.
        let may_wait = attempt.ticket == 0 && attempt.flags & queue_flag::TRY == 0;
        let waits = self.overflows.change(attempt.name, |overflow, _| may_wait && overflow.on_late(link, attempt));
        if waits == Some(true) {
            link.tell(kind::queue::QUEUED, &Attempt { ticket: 0, order: 0, ..*attempt });
        }
    }

    /// ACQUIRE with an order, of a lock that the switch has or had.
    fn on_overflow(&mut self, link: &mut Link<'_>, attempt: &Attempt) {
        if self.is_taken(attempt.name, attempt.order) {
            return; // It has been under way for longer than anybody waited for it.
        }
        let name = attempt.name;
        if self.overflows.get(name).is_none() {
            self.overflows.insert(name, Overflow::new(name, self.pauses, self.mutant));
        }
        let waits = self.overflows.change(name, |overflow, rests| {
            if rests { overflow.take(attempt) } else { overflow.on_acquire(link, attempt) }
        });
        if waits == Some(true) {
            link.tell(kind::queue::QUEUED, &Attempt { ticket: 0, order: 0, ..*attempt });
        }
        self.take_what_is_whole(link);
    }

    /// ROOM of a lock of which nothing is known: what the switch gave was given to another server, or lost on its way.
    fn on_news(&mut self, link: &mut Link<'_>, attempt: &Attempt) {
        if self.is_taken(attempt.name, attempt.order) {
            return;
        }
        let mut overflow = Overflow::new(attempt.name, self.pauses, self.mutant);
        overflow.on_news(link, attempt.order);
        self.overflows.insert(attempt.name, overflow);
    }

    /// Whether the switch has handed a lock here, and all that came before that was waited for: this order too. An
    /// order of a later queue says that the hand-over is history, of which this server has heard too late.
    fn is_taken(&self, name: u64, order: u64) -> bool {
        let moved = self.moved.get(&name).copied().unwrap_or_default();
        let is_of_before = moved.first == 0 && order < first_number(moved.taken + 1);
        moved.taken != 0 && is_of_before && !self.taking.contains_key(&name)
    }

    // ---- moves ----

    /// RECALL: nobody new is granted the lock until its holders have left, or for as long as that is waited for.
    fn on_recall(&mut self, link: &mut Link<'_>, attempt: &Attempt) {
        let Attempt { name, number: id, .. } = *attempt;
        let moved = self.moved.get(&name).copied().unwrap_or_default();
        if moved.is_away() && id >= moved.id {
            self.moved.insert(name, Moved { id, since: link.now, ..moved });
            return tell_ceded(link, name, id, moved.first);
        }
        if id > moved.id && !moved.is_away() {
            self.own.stop(link, name, id);
            self.cede_what_is_left(link);
        }
    }

    fn cede_what_is_left(&mut self, link: &mut Link<'_>) {
        while let Some((name, id)) = self.own.first_left() {
            self.cede(link, name, id);
        }
    }

    fn cede_if_left(&mut self, link: &mut Link<'_>, name: u64) {
        if let Some(id) = self.own.is_left(name) {
            self.cede(link, name, id);
        }
    }

    fn cede(&mut self, link: &mut Link<'_>, name: u64, id: u64) {
        let (first, waiters) = self.own.cede(name);
        let overflow = Overflow::new(name, self.pauses, self.mutant).ceded(link.now, first, waiters);
        self.overflows.insert(name, overflow);
        let moved = self.moved.entry(name).or_default();
        (moved.id, moved.first, moved.handed, moved.since) = (id, first, 0, link.now);
        tell_ceded(link, name, id, first);
    }

    /// YIELD: the switch has nobody in the queue any more, and lets nobody in.
    fn on_yield(&mut self, link: &mut Link<'_>, attempt: &Attempt) {
        let Attempt { name, ticket, order: given, number: pushed, .. } = *attempt;
        let moved = self.moved.entry(name).or_default();
        if ticket > moved.taken && ticket >= moved.first && ticket >= moved.handed {
            if !self.own.raise(ticket) {
                return;
            }
            (moved.first, moved.handed, moved.taken, moved.since) = (0, ticket, ticket, link.now);
            self.own.close(name);
            let known = self.overflows.remove(name);
            let mut overflow = known.unwrap_or_else(|| Overflow::new(name, self.pauses, self.mutant));
            overflow.close(given, pushed);
            self.overflows.insert_resting(name, overflow);
            self.taking.insert(name, Taking { until: link.now + self.pauses.0, is_told: true });
        }
        if self.moved.get(&name).is_some_and(|moved| moved.taken == ticket) {
            link.send(0, kind::queue::TAKEN, 0, &Attempt { name, ticket, holder: link.me(), ..Attempt::default() });
        }
        self.take_what_is_whole(link);
    }

    /// What was given has come, or has been waited for: from here on the lock is granted.
    fn take_what_is_whole(&mut self, link: &mut Link<'_>) {
        let is_whole = |name: &u64| self.overflows.get(*name).is_none_or(Overflow::is_whole);
        let is_due = |(name, taking): &(&u64, &Taking)| taking.until <= link.now || (taking.is_told && is_whole(name));
        let due = self.taking.iter().filter(is_due).map(|(name, taking)| (*name, taking.is_told));
        for (name, is_told) in due.collect::<alloc::vec::Vec<(u64, bool)>>() {
            self.taking.remove(&name);
            if is_told || self.take_untold(link, name) {
                let overflow = self.overflows.remove(name);
                let waiting = overflow.iter().flat_map(Overflow::waiting).copied();
                self.own.open(link, name, waiting);
            }
        }
    }

    /// Nobody has said what was given of a lock that the switch has handed over at some time. It has granted nobody
    /// anything since, or it has a queue again, and lets no grant of this server's through: so the lock can be granted.
    /// Whether it is as if that had been said.
    fn take_untold(&mut self, link: &mut Link<'_>, name: u64) -> bool {
        let moved = self.moved.entry(name).or_default();
        let later = first_number(moved.handed + 1);
        if self.overflows.get(name).is_some_and(|overflow| overflow.given() >= later) {
            // The switch has a queue again: what waits for it has its place there.
            self.own.open(link, name, core::iter::empty());
            return false;
        }
        let is_below = self.own.raise(moved.handed);
        if is_below {
            (moved.first, moved.taken, moved.since) = (0, moved.handed, link.now);
        }
        is_below
    }
}
