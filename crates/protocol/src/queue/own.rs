//! Locks without a queue in the switch: their lock server's own, served as `line.rs` has it.
//!
//! Invariants
//! * Whoever holds is before all who wait. Holders are one exclusive, or all shared.
//! * Where readers go first, who waits lets whoever shares in to those who share, unless somebody more urgent waits.
//! * A ticket is of the server's term and counted up with every grant: none is granted twice, and each is above all
//!   that were granted before, of whatever server of the epoch.
//! * A holder is forgotten by its own RELEASE or CANCEL, by the end of its session, or when it has been silent for
//!   longer than its hold can last without this server's answer.
//! * Nobody is granted a lock that is closed: the switch had it, and who came before its move is not known yet.
//! * A lock for which somebody has waited lately who said a priority is not ceded: the switch's queues know none.
//! * In a term that is not the first of its memory nobody new is granted anything before every hold of the terms
//!   before was told here by its holder, or is over.

use super::{LAST_COUNT, Link, TICKET_BITS};
use crate::line::{Order, Priority, Rank, Ranked};
use crate::mutant::Mutant;
use crate::node::{Booked, NodeConfig};
use crate::{Handle, Mode, RequestId, Time, Token};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use wayside_wire::{Attempt, kind, queue_flag};

/// What a lock server is told when it becomes one. Microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Terms {
    pub term: u16,
    /// Of a hold.
    pub lease: u64,
    /// After which a silent holder has lost it, by any clock.
    pub patience: u64,
}

/// Somebody who holds or waits.
#[derive(Clone, Copy, Debug)]
struct Claim {
    holder: Handle,
    request: u64,
    exclusive: bool,
    /// While it waits.
    rank: Rank,
    /// Of its grant; 0: it waits.
    ticket: u64,
    port: u16,
    /// When it was heard last, or granted.
    heard: Time,
    /// Of the packet that was heard last, by its holder's clock.
    sent_us: u64,
}

impl Claim {
    fn of(attempt: &Attempt, now: Time) -> Claim {
        Claim {
            holder: attempt.holder,
            request: attempt.request,
            exclusive: attempt.flags & queue_flag::EXCLUSIVE != 0,
            rank: Rank::newcomer(Rank::from_byte(attempt.cause).priority),
            ticket: 0,
            port: attempt.reply_port,
            heard: now,
            sent_us: attempt.sent_us,
        }
    }

    fn is_of(&self, attempt: &Attempt) -> bool {
        (self.holder, self.request) == (attempt.holder, attempt.request)
    }

    /// As the wish that it was.
    fn wish(&self, name: u64) -> Attempt {
        Attempt {
            name,
            request: self.request,
            holder: self.holder,
            reply_port: self.port,
            flags: if self.exclusive { queue_flag::EXCLUSIVE } else { 0 },
            cause: self.rank.to_byte(),
            sent_us: self.sent_us,
            ..Attempt::default()
        }
    }

    fn holds(&self) -> bool {
        self.ticket != 0
    }

    fn waits(&self) -> bool {
        !self.holds()
    }

    /// Whether it says a priority of its own.
    fn is_ranked(&self) -> bool {
        self.rank.priority != Priority::NORMAL
    }

    fn conflicts(&self, other: &Claim) -> bool {
        self.exclusive || other.exclusive
    }
}

impl Ranked for Claim {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn rank_mut(&mut self) -> &mut Rank {
        &mut self.rank
    }

    fn is_exclusive(&self) -> bool {
        self.exclusive
    }
}

/// The switch wants a lock: nobody new is granted it for a while, so that its holders leave.
#[derive(Clone, Copy, Debug)]
struct Stop {
    /// Of the move.
    id: u64,
    is_on: bool,
    until: Time,
    /// If they have not left by then, everything goes on until this time.
    again: Time,
}

/// For so many stops of a lock one is a stop, and the others it goes on.
const STOPS: u64 = 5;

/// See the module's documentation.
pub(super) struct Own {
    lines: BTreeMap<u64, VecDeque<Claim>>,
    closed: BTreeSet<u64>,
    stops: BTreeMap<u64, Stop>,
    /// The first end of those that are on.
    stops_end: Time,
    /// When somebody waited last who said a priority, and for how long that counts. Microseconds.
    ranked: BTreeMap<u64, Time>,
    lull: u64,
    terms: Terms,
    granted: u64,
    /// Before that time only holders of earlier terms are heard.
    opens: Time,
    /// The next look at who is silent.
    due: Time,
    pause_most: u64,
    order: Order,
    mutant: Option<Mutant>,
}

fn order(config: &NodeConfig) -> Order {
    Order { mutant: config.mutant.filter(|_| cfg!(feature = "mutants")), ..config.order() }
}

impl Own {
    /// Whoever comes from now on has its place by this.
    pub fn decide_by(&mut self, config: &NodeConfig) {
        self.order = order(config);
    }

    pub fn new(now: Time, terms: Terms, config: &NodeConfig) -> Own {
        let order = order(config);
        let mutant = order.mutant;
        let is_first = terms.term == 1 || mutant == Some(Mutant::HastyTerm);
        let opens = if is_first { now } else { now + terms.patience };
        Own {
            lines: BTreeMap::new(),
            closed: BTreeSet::new(),
            stops: BTreeMap::new(),
            stops_end: Time::NEVER,
            ranked: BTreeMap::new(),
            lull: config.lull_us,
            terms,
            granted: 0,
            opens,
            due: now + terms.patience,
            pause_most: config.retransmit_most_us,
            order,
            mutant,
        }
    }

    /// Who holds a lock and who waits for it, in the order in which they are served; for checkers.
    pub fn line(&self, epoch: u32, name: u64) -> impl Iterator<Item = Booked> + '_ {
        self.lines.get(&name).into_iter().flatten().map(move |claim| Booked {
            holder: claim.holder,
            request: RequestId(claim.request),
            token: claim.holds().then(|| Token::of_ticket(epoch, claim.ticket)),
            tries: false,
            is_late: false,
            name,
            mode: if claim.exclusive { Mode::Exclusive } else { Mode::Shared },
            priority: claim.rank.priority,
            overtaken: claim.rank.overtaken,
        })
    }

    pub fn due(&self) -> Time {
        self.stops_end.min(self.due)
    }

    /// Stops have come or gone: asked after every packet, the first end is not looked for.
    fn note_stops(&mut self) {
        let ends = self.stops.values().filter(|stop| stop.is_on).map(|stop| stop.until);
        self.stops_end = ends.min().unwrap_or(Time::NEVER);
    }

    /// No ticket is left.
    pub fn is_exhausted(&self) -> bool {
        self.granted >= LAST_COUNT
    }

    fn is_broken(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Whether a ticket is of an earlier term.
    fn is_of_before(&self, ticket: u64) -> bool {
        ticket != 0 && ticket >> TICKET_BITS < u64::from(self.terms.term)
    }

    fn is_open(&self, now: Time) -> bool {
        now >= self.opens
    }

    /// Whether anybody may be granted this lock now.
    fn grants(&self, now: Time, name: u64) -> bool {
        self.is_open(now) && !self.closed.contains(&name) && self.stops.get(&name).is_none_or(|stop| !stop.is_on)
    }

    fn ticket(&self, count: u64) -> u64 {
        let term = if self.mutant == Some(Mutant::SameTerm) { 1 } else { self.terms.term };
        u64::from(term) << TICKET_BITS | count
    }

    // ---- moves ----

    /// The switch wants a lock.
    pub fn stop(&mut self, link: &mut Link<'_>, name: u64, id: u64) {
        let may = self.is_open(link.now) && !self.closed.contains(&name) && !self.is_exhausted();
        if !may || self.was_ranked(link.now, name) {
            return;
        }
        let until = link.now + self.pause_most;
        let stop = Stop { id, is_on: true, until, again: link.now + STOPS * self.pause_most };
        match self.stops.get_mut(&name) {
            Some(known) if known.again > link.now => known.id = id,
            _ => drop(self.stops.insert(name, stop)),
        }
        self.note_stops();
    }

    /// Whether somebody waited for a lock with a priority lately.
    fn was_ranked(&self, now: Time, name: u64) -> bool {
        self.ranked.get(&name).is_some_and(|at| now.since(*at) < self.lull)
    }

    /// Somebody waits for others with a priority: the lock is not to leave. Whether it was stopped for that.
    fn note_rank(&mut self, now: Time, name: u64) -> bool {
        self.ranked.insert(name, now);
        let was_stopped = self.stops.remove(&name).is_some();
        if was_stopped {
            self.note_stops();
        }
        was_stopped
    }

    /// Whether a lock is stopped and nobody holds it: the move.
    pub fn is_left(&self, name: u64) -> Option<u64> {
        let stop = self.stops.get(&name).filter(|stop| stop.is_on)?;
        let is_held = self.lines.get(&name).is_some_and(|line| line.iter().any(Claim::holds));
        let is_left = !(is_held || self.is_exhausted()) || self.is_broken(Mutant::CedeHeld);
        is_left.then_some(stop.id)
    }

    /// The first such lock: its name, and the move.
    pub fn first_left(&self) -> Option<(u64, u64)> {
        self.stops.keys().find_map(|name| Some((*name, self.is_left(*name)?)))
    }

    /// Cedes it: the switch's first ticket, and who waits.
    pub fn cede(&mut self, name: u64) -> (u64, impl Iterator<Item = Attempt> + use<>) {
        self.stops.remove(&name);
        self.note_stops();
        // One is nobody's: no two queues of a name begin with the same.
        self.granted += 1;
        let line = self.lines.remove(&name).unwrap_or_default();
        let first = if self.is_broken(Mutant::CedeLow) { 1 } else { self.ticket(self.granted) + 1 };
        (first, line.into_iter().filter(|claim| !claim.holds()).map(move |claim| claim.wish(name)))
    }

    /// A lock that the switch had is this server's, and its tickets go on from this one. False: it has none so high.
    pub fn raise(&mut self, ticket: u64) -> bool {
        let last = ticket.saturating_sub(1);
        let term = last >> TICKET_BITS;
        if term == u64::from(self.terms.term) && !self.is_broken(Mutant::ForgetTickets) {
            self.granted = self.granted.max(last & LAST_COUNT);
        }
        term <= u64::from(self.terms.term)
    }

    /// Whoever asks for this lock waits until it is opened.
    pub fn close(&mut self, name: u64) {
        self.closed.insert(name);
    }

    /// Those who came before it was closed line up first. Who has been heard since has the same place, and a hold that
    /// lasts from then.
    pub fn open(&mut self, link: &mut Link<'_>, name: u64, first: impl Iterator<Item = Attempt>) {
        self.closed.remove(&name);
        let is_broken = self.is_broken(Mutant::LeaseFromFirst);
        let line = self.lines.entry(name).or_default();
        let mut first: VecDeque<Claim> = first.map(|attempt| Claim::of(&attempt, link.now)).collect();
        line.retain(|claim| {
            let is_it = |other: &&mut Claim| (other.holder, other.request) == (claim.holder, claim.request);
            let Some(known) = first.iter_mut().find(is_it) else { return true };
            known.port = claim.port;
            if !is_broken {
                known.sent_us = claim.sent_us.max(known.sent_us);
            }
            false
        });
        let (holders, mut later): (VecDeque<Claim>, VecDeque<Claim>) =
            core::mem::take(line).into_iter().partition(Claim::holds);
        *line = holders;
        if first.iter().chain(&later).any(Claim::is_ranked) {
            self.ranked.insert(name, link.now);
        }
        if self.mutant == Some(Mutant::OpenBehind) {
            core::mem::swap(&mut first, &mut later);
        }
        for claim in first.into_iter().chain(later) {
            self.order.line_up(line, claim, Claim::waits);
        }
        self.serve(link, name);
    }

    // ---- messages ----

    /// ACQUIRE with order 0: a wish, again or for the first time; of whoever holds, a renewal. How many hold the lock
    /// or wait for it with this one, if it is a new wish.
    pub fn on_acquire(&mut self, link: &mut Link<'_>, attempt: &Attempt) -> Option<usize> {
        let now = link.now;
        let is_open = self.grants(now, attempt.name);
        let is_before_open = !self.is_open(now) && self.is_of_before(attempt.ticket);
        let line = self.lines.entry(attempt.name).or_default();
        if is_before_open {
            // It has been granted what it wished for since: the wish, a late packet, came first.
            line.retain(|claim| claim.holds() || !claim.is_of(attempt));
        }
        if let Some(claim) = line.iter_mut().find(|claim| claim.is_of(attempt)) {
            claim.port = attempt.reply_port;
            claim.heard = now;
            claim.sent_us = claim.sent_us.max(attempt.sent_us);
            let claim = *claim;
            if attempt.ticket != 0 && attempt.ticket != claim.ticket {
                tell_released(link, attempt);
            } else if claim.holds() {
                self.tell_granted(link, attempt.name, &claim);
            } else {
                self.tell_queued(link, attempt);
            }
            if claim.is_ranked() && claim.waits() && self.is_held_against(attempt.name, &claim) {
                self.keep(link, attempt.name);
            }
            return None;
        }
        let mut claim = Claim::of(attempt, now);
        if attempt.ticket != 0 {
            claim.ticket = attempt.ticket;
            self.on_stranger(link, attempt, claim);
            return None;
        }
        let tries = attempt.flags & queue_flag::TRY != 0;
        let is_held = line.iter().any(|other| other.holds() && other.conflicts(&claim));
        let joins =
            !is_held && line.iter().any(Claim::holds) && is_open && self.order.joins(line, &claim, Claim::waits);
        let waits = !joins && (is_held || !self.order.would_lead(line, &claim, Claim::waits));
        let may_hold = is_open && !waits;
        let claims = line.len() + 1;
        if tries && !may_hold {
            let flags = if is_open { 0 } else { wayside_wire::header_flag::RETRY };
            self.tell_busy(link, attempt, flags);
            return Some(claims);
        }
        if joins {
            let place = line.iter().position(Claim::waits).unwrap_or(line.len());
            line.insert(place, claim);
        } else {
            self.order.line_up(line, claim, Claim::waits);
        }
        if !may_hold {
            self.tell_queued(link, attempt);
        }
        if waits && claim.is_ranked() {
            self.note_rank(now, attempt.name);
        }
        self.serve(link, attempt.name);
        Some(claims)
    }

    fn is_held_against(&self, name: u64, claim: &Claim) -> bool {
        self.lines.get(&name).is_some_and(|line| line.iter().any(|other| other.holds() && other.conflicts(claim)))
    }

    /// Somebody waits still with a priority.
    fn keep(&mut self, link: &mut Link<'_>, name: u64) {
        if self.note_rank(link.now, name) {
            self.serve(link, name);
        }
    }

    /// Somebody says that it holds, of whom nothing is known here: its server was another one.
    fn on_stranger(&mut self, link: &mut Link<'_>, attempt: &Attempt, claim: Claim) {
        if self.is_open(link.now) || !self.is_of_before(attempt.ticket) {
            self.tidy(attempt.name);
            return tell_released(link, attempt);
        }
        let line = self.lines.entry(attempt.name).or_default();
        // Two that conflict were not granted at a time: the lower ticket's is over, and this its late packet.
        let is_later = |other: &Claim| other.holds() && other.conflicts(&claim) && other.ticket > claim.ticket;
        if line.iter().any(is_later) {
            return tell_released(link, attempt);
        }
        line.retain(|other| !(other.holds() && other.conflicts(&claim)));
        line.push_front(claim);
        self.tell_granted(link, attempt.name, &claim);
    }

    /// RELEASE and CANCEL.
    pub fn on_release(&mut self, link: &mut Link<'_>, attempt: &Attempt, cancels: bool) {
        if let Some(line) = self.lines.get_mut(&attempt.name) {
            let any = self.mutant == Some(Mutant::ReleaseFirst);
            let is_it = |claim: &Claim| claim.is_of(attempt) && (cancels || claim.ticket == attempt.ticket);
            let place = line.iter().position(is_it).or_else(|| (any && !cancels && !line.is_empty()).then_some(0));
            if let Some(place) = place {
                line.remove(place);
            }
        }
        // Whoever is granted it waits for that, and nobody for the answer.
        self.serve(link, attempt.name);
        tell_released(link, attempt);
    }

    /// A session is over. Request ids begin with its incarnation's low bits.
    pub fn on_down(&mut self, link: &mut Link<'_>, dead: Handle, is_its: impl Fn(u64) -> bool) {
        self.remove(link, |claim| claim.holder == dead && is_its(claim.request));
    }

    /// Forgets who was silent for too long; grants what may be granted now.
    pub fn on_tick(&mut self, link: &mut Link<'_>) {
        let now = link.now;
        let is_over = |stop: &Stop| stop.is_on && stop.until <= now;
        while let Some((&name, stop)) = self.stops.iter_mut().find(|(_, stop)| is_over(stop)) {
            stop.is_on = false;
            self.serve(link, name);
        }
        self.note_stops();
        if self.due > link.now {
            return;
        }
        self.due = link.now + (self.terms.patience / 4).max(1);
        let (now, lull) = (link.now, self.lull);
        self.ranked.retain(|_, at| now.since(*at) < lull);
        if self.is_broken(Mutant::NeverForget) {
            return self.remove(link, |_| false);
        }
        let (now, patience, pause_most) = (link.now, self.terms.patience, 2 * self.pause_most);
        // Who waits is heard less often, and has no promise.
        let most = |claim: &Claim| if claim.holds() { patience } else { patience + pause_most };
        self.remove(link, |claim| now.since(claim.heard) > most(claim));
    }

    fn remove(&mut self, link: &mut Link<'_>, is_over: impl Fn(&Claim) -> bool) {
        self.lines.values_mut().for_each(|line| line.retain(|claim| !is_over(claim)));
        let names: alloc::vec::Vec<u64> = self.lines.keys().copied().collect();
        names.into_iter().for_each(|name| self.serve(link, name));
    }

    // ---- grants ----

    /// Names that take memory: of locks that somebody has or waits for, and of those asked for with a priority.
    #[cfg(test)]
    pub fn names_known(&self) -> (usize, usize) {
        (self.lines.len(), self.ranked.len())
    }

    /// Nobody has it or waits for it any more.
    fn tidy(&mut self, name: u64) {
        if self.lines.get(&name).is_some_and(VecDeque::is_empty) {
            self.lines.remove(&name);
        }
    }

    /// Grants whoever is next, and all shared ones behind if that is shared.
    fn serve(&mut self, link: &mut Link<'_>, name: u64) {
        while self.grants(link.now, name) && !self.is_exhausted() {
            let Some(line) = self.lines.get_mut(&name) else { break };
            let Some(place) = line.iter().position(|claim| !claim.holds()) else { break };
            let next = line[place];
            if line.iter().take(place).any(|holder| holder.conflicts(&next)) {
                break;
            }
            self.granted += 1;
            let ticket = self.ticket(self.granted);
            let Some(claim) = self.lines.get_mut(&name).and_then(|line| line.get_mut(place)) else { break };
            claim.ticket = ticket;
            claim.heard = link.now;
            let claim = *claim;
            self.tell_granted(link, name, &claim);
        }
        self.tidy(name);
    }

    // ---- packets ----

    fn tell_granted(&self, link: &mut Link<'_>, name: u64, claim: &Claim) {
        let attempt = Attempt {
            name,
            request: claim.request,
            ticket: claim.ticket,
            order: self.terms.lease,
            holder: claim.holder,
            reply_port: claim.port,
            flags: if claim.exclusive { queue_flag::EXCLUSIVE } else { 0 },
            sent_us: claim.sent_us,
            ..Attempt::default()
        };
        link.tell(kind::queue::GRANT, &attempt);
    }

    fn tell_queued(&self, link: &mut Link<'_>, attempt: &Attempt) {
        let attempt = Attempt { ticket: 0, order: self.terms.lease, flags: 0, ..*attempt };
        link.tell(kind::queue::QUEUED, &attempt);
    }

    fn tell_busy(&mut self, link: &mut Link<'_>, attempt: &Attempt, flags: u16) {
        self.tidy(attempt.name);
        link.header.flags = flags;
        link.tell(kind::queue::BUSY, attempt);
        link.header.flags = 0;
    }
}

/// The request, under this ticket, is no more.
fn tell_released(link: &mut Link<'_>, attempt: &Attempt) {
    link.tell(kind::queue::RELEASED, &Attempt { over: attempt.request, flags: 0, ..*attempt });
}
