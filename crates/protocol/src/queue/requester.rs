//! The requests of one node in a namespace whose locks are queues.
//!
//! ```text
//!   Parked ──► Waiting ──GRANT──► Held ──RELEASE──► Ending until RELEASED
//!                 └── cancelled, timed out ──CANCEL──► Ending
//! ```
//!
//! Invariants
//! * A grant is taken by a request that waits; whatever else is granted is given back, by its ticket, until RELEASED.
//! * A hold of a lock server's own lock ends a lease after the latest of its packets that the server has answered was
//!   sent, by this node's clock. Until then it is renewed.
//! * Ids rise and are never reused. `oldest` is not above any that waits, holds or ends.
//! * No hold outlives the epoch of its grant.

use super::{COUNTER_BITS, Link, is_servers, mode_flag};
use crate::line::{Priority, Rank};
use crate::lock::{Acquire, AcquireError, Path};
use crate::mutant::Mutant;
use crate::node::{Event, NodeConfig};
use crate::timers::{Due, Timers};
use crate::{Handle, Mode, Port, RequestId, Time, Token};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use wayside_wire::{Attempt, Fetch, Header, header_flag, kind, limits, queue_flag};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for its turn in `acquire_many`; nothing was sent.
    Parked,
    /// Its ticket; 0: none, or not known.
    Waiting(u64),
    Held {
        ticket: u64,
        /// Of a lock server's own lock.
        lease: Option<Lease>,
    },
    /// Given back: RELEASE or CANCEL (`kind`).
    Ending { kind: u8, ticket: u64 },
}

/// A hold that has to be renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lease {
    until: Time,
    /// Of a whole one. Microseconds.
    length: u64,
}

/// A node that a grant may go by way of: one session of it. Its next one is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Third {
    /// Its handle.
    pub handle: Handle,
    /// Cluster-wide count of enrolments: no other session has the same.
    pub incarnation: u64,
}

/// What a third node has said, or why it has not.
pub type Fetched = Result<Vec<u8>, NotFetched>;

/// Why a grant has brought nothing along. The lock is held all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFetched {
    /// Nobody was asked: the lock was not free at once, or is none that the switch itself grants, or nothing was asked.
    Direct,
    /// The switch knows no such session, in this namespace, or not any more.
    Unknown,
    /// That node answers nobody, or too many already, or had no answer.
    Refused,
    /// It has not answered in time, and the switch was asked for the grant alone.
    Silent,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub name: u64,
    pub mode: Mode,
    pub priority: Priority,
    pub since: Time,
    tries: bool,
    port: Port,
    state: State,
    deadline: Time,
    /// When it is sent again or given up.
    due: Time,
    pause: u64,
    /// The longest pause: a lock server forgets who is silent for longer.
    pause_most: u64,
    /// ACQUIREs so far.
    sent: u32,
    /// The namespace's budget has refused it, or one before it, or was known to be spent when it came.
    over_budget: bool,
    /// The next request of `acquire_many`; 0: none.
    next: u64,
    /// The node that the grant was to come by; 0: none.
    third: Handle,
    /// The switch has said that it has asked nobody: the request has to wait, or to come again.
    direct: bool,
}

impl Pending {
    /// Its token, while it holds.
    pub fn ticket(&self) -> Option<u64> {
        if let State::Held { ticket, .. } = self.state { Some(ticket) } else { None }
    }

    pub fn waits(&self) -> bool {
        matches!(self.state, State::Parked | State::Waiting(_))
    }
}

/// A grant that nobody waits for.
#[derive(Clone, Copy, Debug)]
struct Stray {
    name: u64,
    due: Time,
    pause: u64,
}

/// See the module's documentation.
pub(crate) struct Requester {
    requests: BTreeMap<u64, Pending>,
    /// By request and ticket.
    strays: BTreeMap<(u64, u64), Stray>,
    /// Ends of holds that have one.
    ends: BTreeSet<(Time, u64)>,
    events: VecDeque<Event>,
    /// Of holds that were to come by a third node, until their owner takes it.
    fetched: BTreeMap<u64, Fetched>,
    timers: Timers,
    next: u64,
    last: u64,
    pauses: (u64, u64),
    /// Until then the namespace's budget is spent, as the switch has said.
    over_until: Time,
    most: usize,
    mutant: Option<Mutant>,
    /// A hold is over although its node had not given it back.
    pub bereft: bool,
}

/// Microseconds: 51 days. What is longer is no lease.
const LONGEST_LEASE: u64 = 1 << 42;
/// A hold is renewed so often in a lease, and so often once that has gone unanswered.
const RENEWALS: u64 = 4;
const URGENT_RENEWALS: u64 = 16;

impl Requester {
    pub fn new(config: &NodeConfig) -> Requester {
        Requester {
            requests: BTreeMap::new(),
            strays: BTreeMap::new(),
            ends: BTreeSet::new(),
            events: VecDeque::new(),
            fetched: BTreeMap::new(),
            timers: Timers::default(),
            next: 0,
            last: 0,
            pauses: (config.retransmit_us, config.retransmit_most_us),
            over_until: Time(0),
            most: config.requests_most,
            mutant: config.mutant.filter(|_| cfg!(feature = "mutants")),
            bereft: false,
        }
    }

    /// A session has begun.
    pub fn start(&mut self, incarnation: u64, first: u64) {
        let base = incarnation << COUNTER_BITS;
        self.next = base | first.max(1);
        self.last = base | ((1 << COUNTER_BITS) - 1);
        self.over_until = Time(0);
        self.bereft = false;
    }

    /// The oldest request id that may still be asked for; None: there is none.
    pub fn oldest(&self) -> Option<u64> {
        self.requests.first_key_value().map(|(id, _)| *id)
    }

    /// The next id, which is nobody's yet.
    pub fn next_id(&self) -> u64 {
        self.next
    }

    /// Those below it have been given to requests of this node that are not here.
    pub fn skip_to(&mut self, id: u64) {
        self.next = self.next.max(id);
    }

    /// Whether this one is here.
    pub fn has(&self, RequestId(id): RequestId) -> bool {
        self.requests.contains_key(&id)
    }

    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.strays.is_empty()
    }

    /// Until when a hold of a lock server's own lock lasts if it is not renewed, and how long a whole one does, in
    /// microseconds. None: as long as the session, or not held.
    pub fn lease_of(&self, id: RequestId) -> Option<(Time, u64)> {
        match self.requests.get(&id.0)?.state {
            State::Held { lease: Some(lease), .. } => Some((lease.until, lease.length)),
            _ => None,
        }
    }

    /// All of them, held, awaited or ending.
    pub fn requests(&self) -> impl Iterator<Item = (RequestId, &Pending)> {
        self.requests.iter().map(|(id, pending)| (RequestId(*id), pending))
    }

    /// Until when all holds last that have an end.
    pub fn holds_end(&self) -> Time {
        match self.ends.first() {
            Some((end, _)) if !self.is_broken(Mutant::HoldForEver) => *end,
            _ => Time::NEVER,
        }
    }

    pub fn told(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn is_broken(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    // ---- what the owner asks for ----

    pub fn acquire(&mut self, link: &mut Link<'_>, want: &Acquire) -> Result<RequestId, AcquireError> {
        let (id, mut pending) = self.draft(link, want)?;
        pending.state = State::Waiting(0);
        send_request(&mut self.timers, self.mutant, link, id, &mut pending);
        self.requests.insert(id, pending);
        Ok(RequestId(id))
    }

    /// The same, but that the grant, if the switch has it at once, comes by way of a third node, with what that answers
    /// to `ask`. That is asked once: who hears nothing asks the switch for the grant alone.
    pub fn acquire_by(
        &mut self,
        link: &mut Link<'_>,
        want: &Acquire,
        third: Third,
        ask: &[u8],
    ) -> Result<RequestId, AcquireError> {
        let id = self.enter(link, want)?;
        if let Some(pending) = self.requests.get_mut(&id) {
            pending.state = State::Waiting(0);
            pending.third = third.handle;
            pending.sent = 1;
            set_timer(&mut self.timers, link.now, id, pending, link.now + pending.pause);
            let tries = if want.try_ { queue_flag::TRY } else { 0 };
            let fetch = Fetch {
                name: want.name,
                request: id,
                incarnation: third.incarnation,
                holder: link.me(),
                flags: mode_flag(want.mode) | tries,
                cause: Rank::newcomer(want.priority).to_byte(),
                sent_us: link.now.0,
                ..Fetch::default()
            };
            let header = Header { kind: kind::queue::FETCH, destination: third.handle, ..link.header };
            link.send_blocks(want.port, header, &fetch, ask);
        }
        Ok(RequestId(id))
    }

    /// What came with a grant, or why nothing did; None: nothing was asked, or it was taken.
    pub fn take_fetched(&mut self, RequestId(id): RequestId) -> Option<Fetched> {
        self.fetched.remove(&id)
    }

    /// One after the other, in this order. On an error nothing was asked for.
    pub fn acquire_many(
        &mut self,
        link: &mut Link<'_>,
        wants: &[Acquire],
        ids: &mut Vec<RequestId>,
    ) -> Result<(), AcquireError> {
        let from = ids.len();
        self.park_many(link, wants, ids)?;
        if let Some(&first) = ids.get(from) {
            self.call(link, first);
        }
        Ok(())
    }

    /// The same, but that the first waits until it is called.
    pub fn park_many(
        &mut self,
        link: &mut Link<'_>,
        wants: &[Acquire],
        ids: &mut Vec<RequestId>,
    ) -> Result<(), AcquireError> {
        let from = ids.len();
        for want in wants {
            match self.enter(link, want) {
                Ok(id) => {
                    if let Some(former) = ids[from..].last().and_then(|former| self.requests.get_mut(&former.0)) {
                        former.next = id;
                    }
                    ids.push(RequestId(id));
                }
                Err(error) => {
                    for RequestId(id) in ids.drain(from..) {
                        self.requests.remove(&id);
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// It is the turn of one that was parked.
    pub fn call(&mut self, link: &mut Link<'_>, RequestId(id): RequestId) {
        self.ask(link, id);
    }

    /// The namespace's budget has refused one before it, and it waits for that.
    pub fn note_over_budget(&mut self, first: u64) {
        let mut next = first;
        while let Some(pending) = self.requests.get_mut(&next).filter(|pending| pending.waits()) {
            pending.over_budget = true;
            next = pending.next;
        }
    }

    fn enter(&mut self, link: &mut Link<'_>, want: &Acquire) -> Result<u64, AcquireError> {
        let (id, mut pending) = self.draft(link, want)?;
        set_timer(&mut self.timers, link.now, id, &mut pending, Time::NEVER);
        self.requests.insert(id, pending);
        Ok(id)
    }

    /// A request that is nowhere yet, and its id.
    fn draft(&mut self, link: &mut Link<'_>, want: &Acquire) -> Result<(u64, Pending), AcquireError> {
        if self.requests.len() >= self.most {
            return Err(AcquireError::TooMany);
        }
        if self.next >= self.last {
            return Err(AcquireError::Exhausted);
        }
        let id = self.next;
        self.next += 1;
        let pending = Pending {
            name: want.name,
            mode: want.mode,
            priority: want.priority,
            since: link.now,
            tries: want.try_,
            port: want.port,
            state: State::Parked,
            deadline: want.deadline.unwrap_or(Time::NEVER),
            due: Time::NEVER,
            pause: self.pauses.0,
            pause_most: self.pauses.1,
            sent: 0,
            over_budget: link.now < self.over_until,
            next: 0,
            third: 0,
            direct: false,
        };
        Ok((id, pending))
    }

    fn ask(&mut self, link: &mut Link<'_>, id: u64) {
        if let Some(pending) = self.requests.get_mut(&id).filter(|pending| pending.state == State::Parked) {
            pending.state = State::Waiting(0);
            send_request(&mut self.timers, self.mutant, link, id, pending);
        }
    }

    /// Gives up a hold, or a wait.
    pub fn end(&mut self, link: &mut Link<'_>, RequestId(id): RequestId) {
        let Some(pending) = self.requests.get_mut(&id) else { return };
        let (kind, ticket) = match pending.state {
            State::Parked => {
                self.requests.remove(&id);
                return;
            }
            State::Waiting(ticket) => (kind::queue::CANCEL, ticket),
            State::Held { ticket, lease } => {
                if let Some(lease) = lease {
                    self.ends.remove(&(lease.until, id));
                }
                (kind::queue::RELEASE, ticket)
            }
            State::Ending { .. } => return,
        };
        self.begin_end(link, id, kind, ticket);
    }

    fn begin_end(&mut self, link: &mut Link<'_>, id: u64, kind: u8, ticket: u64) {
        self.fetched.remove(&id);
        let Some(pending) = self.requests.get_mut(&id) else { return };
        pending.state = State::Ending { kind, ticket };
        pending.deadline = Time::NEVER;
        pending.since = link.now;
        pending.pause = self.pauses.0;
        pending.pause_most = self.pauses.1;
        send_request(&mut self.timers, self.mutant, link, id, pending);
    }

    /// Its owner takes an exclusive hold for a shared one from now on. Nobody else does: see docs/queue.md.
    pub fn downgrade(&mut self, RequestId(id): RequestId) {
        if let Some(pending) = self.requests.get_mut(&id).filter(|pending| pending.ticket().is_some()) {
            pending.mode = Mode::Shared;
            self.events.push_back(Event::Downgraded { request: RequestId(id) });
        }
    }

    /// The session is over. Whatever is held or awaited is lost.
    pub fn lose_everything(&mut self) {
        for (id, pending) in core::mem::take(&mut self.requests) {
            if !matches!(pending.state, State::Ending { .. }) {
                self.events.push_back(Event::Lost { request: RequestId(id) });
            }
        }
        self.fetched.clear();
        self.strays.clear();
        self.ends.clear();
        self.timers.clear();
    }

    /// The switch has begun another epoch, and knows nothing of queues. Whether all goes on: not, if something is held.
    pub fn begin_epoch(&mut self) -> bool {
        let holds = self.requests.values().any(|pending| pending.ticket().is_some());
        if holds && !self.is_broken(Mutant::KeepHolds) {
            return false;
        }
        // What ends has ended with the epoch.
        self.strays.clear();
        self.requests.retain(|_, pending| !matches!(pending.state, State::Ending { .. }));
        for pending in self.requests.values_mut() {
            if let State::Waiting(ticket) = &mut pending.state {
                *ticket = 0;
            }
        }
        true
    }

    /// Another switch goes on with the queues, and what was on its way is lost: who waits asks again soon, however long
    /// its pauses have become.
    pub fn hurry(&mut self, now: Time) {
        let pause = self.pauses.0;
        for (id, pending) in &mut self.requests {
            if matches!(pending.state, State::Waiting(_)) && pending.due > now + pause {
                pending.pause = pause;
                set_timer(&mut self.timers, now, *id, pending, now + pause);
            }
        }
    }

    // ---- time ----

    /// When [`Requester::on_tick`] is wanted.
    pub fn next_timer(&mut self) -> Time {
        let Requester { timers, requests, strays, .. } = self;
        let is_current = |at, due| is_current(requests, at, due);
        if timers.is_crowded(requests.len()) {
            timers.drop_stale(requests.len(), is_current);
        }
        let stray = strays.values().map(|stray| stray.due).min().unwrap_or(Time::NEVER);
        timers.next(is_current).min(stray)
    }

    /// Does what is due, as far as it fits into the outbox.
    pub fn on_tick(&mut self, link: &mut Link<'_>) {
        while !link.out.is_full() {
            let Some((at, Due::Request(RequestId(id)))) = self.timers.due(link.now) else { break };
            let Some(pending) = self.requests.get_mut(&id).filter(|pending| pending.due == at) else { continue };
            if pending.deadline <= link.now && pending.waits() {
                let Pending { state, over_budget, .. } = *pending;
                self.events.push_back(Event::TimedOut { request: RequestId(id), over_budget });
                match state {
                    State::Waiting(ticket) => self.begin_end(link, id, kind::queue::CANCEL, ticket),
                    _ => {
                        self.requests.remove(&id);
                    }
                }
                continue;
            }
            pending.pause = (pending.pause * 2).min(pending.pause_most);
            if pending.waits() && self.is_broken(Mutant::AskOnce) {
                continue;
            }
            self.send(link, id);
        }
        let due: Vec<(u64, u64)> =
            self.strays.iter().filter(|(_, stray)| stray.due <= link.now).map(|(key, _)| *key).collect();
        for key in due {
            if link.out.is_full() {
                return;
            }
            self.send_stray(link, key);
        }
    }

    // ---- answers ----

    pub fn on_packet(&mut self, link: &mut Link<'_>, header: &Header, attempt: &Attempt) {
        match header.kind {
            kind::queue::GRANT => self.on_grant(link, attempt),
            kind::queue::QUEUED => self.on_queued(attempt),
            kind::queue::RELEASED => self.on_released(link, header, attempt),
            kind::queue::BUSY => self.on_busy(link, header, attempt),
            kind::queue::REJECT => self.on_reject(link, attempt),
            // Its timer asks again.
            kind::queue::RECOVERING => self.note_direct(attempt.request),
            _ => {}
        }
    }

    fn on_grant(&mut self, link: &mut Link<'_>, attempt: &Attempt) {
        let Attempt { request: id, ticket, sent_us, order, .. } = *attempt;
        // What an earlier session of this handle had is over with it.
        let is_ours = attempt.holder == link.me() && id >> COUNTER_BITS == self.last >> COUNTER_BITS;
        if !is_ours || ticket == 0 {
            return;
        }
        let from = if self.is_broken(Mutant::LeaseFromGrant) { link.now } else { Time(sent_us.min(link.now.0)) };
        let length = order.min(LONGEST_LEASE);
        let lease = is_servers(attempt).then(|| Lease { until: from + length, length });
        let pending = self.requests.get_mut(&id);
        match pending.as_ref().map(|pending| pending.state) {
            Some(State::Waiting(_)) if lease.is_some_and(|lease| lease.until <= link.now) => {
                // Too old to be counted on: what is sent now is answered in time.
                return self.send(link, id);
            }
            Some(State::Waiting(_)) => {
                if attempt.cause == kind::queue::FETCH && pending.is_some_and(|pending| pending.third != 0) {
                    self.fetched.entry(id).or_insert(Err(NotFetched::Unknown));
                }
                self.hold(link, id, ticket, lease);
            }
            Some(State::Held { ticket: held, .. }) if held == ticket => self.renew(link.now, id, lease),
            Some(State::Ending { ticket: ended, .. }) if ended == ticket => return,
            Some(State::Ending { kind: kind::queue::CANCEL, .. }) => {
                return self.begin_end(link, id, kind::queue::RELEASE, ticket);
            }
            _ if self.is_broken(Mutant::KeepUnwantedTicket) => return,
            _ => {
                let stray = Stray { name: attempt.name, due: Time(0), pause: self.pauses.0 };
                self.strays.entry((id, ticket)).or_insert(stray);
                return self.send_stray(link, (id, ticket));
            }
        }
        if attempt.flags & queue_flag::MORE != 0
            && let Some(pending) = self.requests.get(&id)
        {
            let next = Attempt { name: pending.name, request: id, ticket, holder: link.me(), ..Attempt::default() };
            link.send(pending.port, kind::queue::NEXT, 0, &next);
        }
    }

    /// FETCHED: the switch lets it through while the request holds, so it is its GRANT. What comes with it counts if it
    /// is of the node that was asked, and the request still waits: one that holds was told that there is nothing.
    pub fn on_fetched(&mut self, link: &mut Link<'_>, header: &Header, fetch: &Fetch, data: &[u8]) {
        let mut id = fetch.request;
        if self.is_broken(Mutant::AnyFetched) {
            let waits =
                |(_, pending): &(&u64, &Pending)| pending.name == fetch.name && pending.third != 0 && pending.waits();
            id = self.requests.iter().find(waits).map_or(id, |(id, _)| *id);
        }
        if let Some(pending) = self.requests.get(&id).filter(|pending| matches!(pending.state, State::Waiting(_))) {
            if pending.third != header.source {
                return;
            }
            let refused = header.flags & header_flag::REFUSED != 0;
            self.fetched.insert(id, if refused { Err(NotFetched::Refused) } else { Ok(data.into()) });
        }
        let Fetch { name, ticket, holder, flags, cause, sent_us, .. } = *fetch;
        let attempt = Attempt { name, request: id, ticket, holder, flags, cause, sent_us, ..Attempt::default() };
        self.on_grant(link, &attempt);
    }

    fn hold(&mut self, link: &mut Link<'_>, id: u64, ticket: u64, lease: Option<Lease>) {
        let Some(pending) = self.requests.get_mut(&id) else { return };
        pending.state = State::Held { ticket, lease: None };
        pending.since = link.now;
        pending.deadline = Time::NEVER;
        pending.due = Time::NEVER;
        let (mode, next) = (pending.mode, pending.next);
        if pending.third != 0 {
            // What is asked once and granted at once is granted by the switch, which says if it found nobody to ask; or
            // in somebody else's packet, before the answer to its own.
            let is_direct = pending.direct || lease.is_some() || pending.sent == 1;
            let why = if is_direct { NotFetched::Direct } else { NotFetched::Silent };
            self.fetched.entry(id).or_insert(Err(why));
        }
        let token = Token::of_ticket(link.header.epoch, ticket);
        let path = if lease.is_some() { Path::Agent } else { Path::Switch };
        self.events.push_back(Event::Granted { request: RequestId(id), token, mode, path });
        self.renew(link.now, id, lease);
        if next != 0 {
            self.ask(link, next);
        }
    }

    /// A hold lasts longer, if it has an end.
    fn renew(&mut self, now: Time, id: u64, lease: Option<Lease>) {
        let (Some(lease), Some(pending)) = (lease, self.requests.get_mut(&id)) else { return };
        let State::Held { lease: known, .. } = &mut pending.state else { return };
        if known.is_some_and(|known| known.until >= lease.until) {
            return;
        }
        if let Some(known) = known {
            self.ends.remove(&(known.until, id));
        }
        *known = Some(lease);
        self.ends.insert((lease.until, id));
        // Of what is left: the grant may have come late, and the answer to a renewal may too.
        let at = now + lease.until.since(now) / RENEWALS;
        set_timer(&mut self.timers, now, id, pending, at);
    }

    fn on_queued(&mut self, attempt: &Attempt) {
        let Some(pending) = self.requests.get_mut(&attempt.request) else { return };
        let State::Waiting(ticket) = &mut pending.state else { return };
        pending.over_budget = false;
        pending.direct = true;
        if attempt.ticket != 0 {
            *ticket = attempt.ticket;
        } else if attempt.order != 0 {
            pending.pause_most = pending.pause_most.min(attempt.order / RENEWALS).max(1);
        }
    }

    /// RELEASED names the request that is over. What the switch sends beside a GRANT tells the ticket of another one.
    fn on_released(&mut self, link: &mut Link<'_>, header: &Header, attempt: &Attempt) {
        let id = attempt.over;
        let ticket = (attempt.request == id).then_some(attempt.ticket);
        let is_meant = |of: u64| ticket.is_none_or(|ticket| ticket == of);
        self.strays.retain(|(request, of), _| *request != id || !is_meant(*of));
        match self.requests.get_mut(&id).map(|pending| &mut pending.state) {
            Some(State::Ending { ticket: of, .. }) if is_meant(*of) => {
                self.requests.remove(&id);
            }
            // The cell that it names is over: there may be another, or none.
            Some(State::Waiting(of)) if *of != 0 && ticket == Some(*of) => {
                *of = 0;
                self.send(link, id);
            }
            // Its lock server does not know it any more.
            Some(State::Held { ticket: of, lease: Some(_) }) if header.source != 0 && ticket == Some(*of) => {
                self.bereft = true;
            }
            _ => {}
        }
    }

    /// The switch has said itself that it has asked nobody.
    fn note_direct(&mut self, id: u64) {
        if let Some(pending) = self.requests.get_mut(&id) {
            pending.direct = true;
        }
    }

    /// The namespace's budget is spent: asked again when there is room, at the earliest, and in its own pauses, which
    /// grow. Who has a ticket has a place, whatever becomes of older packets of its.
    fn on_reject(&mut self, link: &mut Link<'_>, attempt: &Attempt) {
        self.note_direct(attempt.request);
        let at = link.now + attempt.order.min(limits::MAX_PAUSE_US.into());
        let waits = self.requests.get_mut(&attempt.request).filter(|pending| pending.state == State::Waiting(0));
        let Some(pending) = waits else { return };
        if pending.due < at {
            set_timer(&mut self.timers, link.now, attempt.request, pending, at);
        }
        self.over_until = self.over_until.max(at);
        self.note_over_budget(attempt.request);
    }

    fn on_busy(&mut self, link: &mut Link<'_>, header: &Header, attempt: &Attempt) {
        let id = attempt.request;
        let Some(pending) = self.requests.get(&id).filter(|pending| pending.tries) else { return };
        let State::Waiting(ticket) = pending.state else { return };
        if header.flags & header_flag::RETRY != 0 {
            return;
        }
        let may_be_granted = pending.sent > 1;
        self.events.push_back(Event::Busy { request: RequestId(id), agent: header.source });
        if may_be_granted {
            self.begin_end(link, id, kind::queue::CANCEL, ticket);
        } else {
            self.requests.remove(&id);
        }
    }

    // ---- packets ----

    fn send(&mut self, link: &mut Link<'_>, id: u64) {
        if let Some(pending) = self.requests.get_mut(&id) {
            send_request(&mut self.timers, self.mutant, link, id, pending);
        }
    }

    fn send_stray(&mut self, link: &mut Link<'_>, (id, ticket): (u64, u64)) {
        let Some(stray) = self.strays.get_mut(&(id, ticket)) else { return };
        stray.due = link.now + stray.pause;
        stray.pause = (stray.pause * 2).min(self.pauses.1);
        let attempt = Attempt { name: stray.name, request: id, ticket, holder: link.me(), ..Attempt::default() };
        link.send(0, kind::queue::RELEASE, 0, &attempt);
    }
}

/// Sends what a request's state asks for, and sets its timer.
fn send_request(timers: &mut Timers, mutant: Option<Mutant>, link: &mut Link<'_>, id: u64, pending: &mut Pending) {
    let tries = if pending.tries { queue_flag::TRY } else { 0 };
    let (kind, ticket, flags, at) = match pending.state {
        State::Parked => return set_timer(timers, link.now, id, pending, Time::NEVER),
        State::Waiting(ticket) => {
            pending.sent += 1;
            (kind::queue::ACQUIRE, ticket, mode_flag(pending.mode) | tries, link.now + pending.pause)
        }
        State::Held { lease: None, .. } => return,
        State::Held { .. } if mutant == Some(Mutant::HoldForEver) => return,
        State::Held { ticket, lease: Some(lease) } => {
            let at = (link.now + (lease.length / URGENT_RENEWALS).max(1)).min(lease.until.max(link.now + 1));
            (kind::queue::ACQUIRE, ticket, mode_flag(pending.mode), at)
        }
        State::Ending { kind, ticket } => (kind, ticket, 0, link.now + pending.pause),
    };
    set_timer(timers, link.now, id, pending, at);
    let attempt = Attempt {
        name: pending.name,
        request: id,
        ticket,
        holder: link.me(),
        flags,
        cause: if kind == kind::queue::ACQUIRE { Rank::newcomer(pending.priority).to_byte() } else { 0 },
        sent_us: link.now.0,
        ..Attempt::default()
    };
    link.send(pending.port, kind, 0, &attempt);
}

fn set_timer(timers: &mut Timers, now: Time, id: u64, pending: &mut Pending, at: Time) {
    // Whoever does not wait any more has no deadline.
    pending.due = pending.deadline.min(at);
    if pending.due != Time::NEVER {
        timers.set(now, pending.due, Due::Request(RequestId(id)));
    }
}

/// Whether this is still the time for which a request has set its timer.
fn is_current(requests: &BTreeMap<u64, Pending>, at: Time, due: Due) -> bool {
    matches!(due, Due::Request(RequestId(id)) if requests.get(&id).is_some_and(|pending| pending.due == at))
}

#[cfg(test)]
mod tests;
