//! The lock client of a node: what its owner asks for, and the answers.

use super::{Event, Node, NodeConfig, decider, header_of, lock_entries};
use crate::agency::Agency;
use crate::agent::{Party, Taken};
use crate::books::{Book, Books};
use crate::line::Priority;
use crate::lock::{Acquire, AcquireError, Grant, Path, Request, Requests, State};
use crate::mutant::Mutant;
use crate::session::SessionInfo;
use crate::timers::Timers;
use crate::{Handle, Mode, RequestId, Stamp, Time, Token};
use alloc::vec::Vec;
use core::mem;
use wayside_wire::{
    BODY, DropReason, Engine, Entry, Header, SlotBits, entry_flag, header_flag, kind, limits, service, slot_of,
};

impl Node {
    /// Asks for a name. The answer is an event: Granted, Busy, `TimedOut` or Lost.
    pub fn acquire(&mut self, now: Time, want: Acquire) -> Result<RequestId, AcquireError> {
        (self.now, self.is_quick) = (now, false);
        self.admit(want.name)?;
        let info = self.session.info_at(now).ok_or(AcquireError::NoSession)?;
        if info.engine != Engine::Fission && self.is_queued(want.name) {
            return self.queue_acquire(now, &want);
        }
        let entered = enter(&self.config, &mut self.requests, &mut self.agency, info, now, want)?;
        let Entered { id, request, book } = entered;
        request.state = State::Waiting;
        if book.decides(want.mode) {
            self.ask(now, id);
        } else {
            let at = now + request.pause;
            Self::set_request_timer(&mut self.timers, now, id, request, at);
            let header = self.session.header(service::LOCK, kind::lock::ACQUIRE, 0);
            self.out.entry(want.port, header, &request.asking(id, info.handle));
            self.is_quick = true;
        }
        Ok(RequestId(id))
    }

    /// Asks for several names, one after the other in this order; those free at the switch come 32 to a packet.
    /// Sort by [`Node::place_of`], then name, and no two callers can wait for each other. Appends the ids to `ids`, in
    /// the order of `wants`; on an error nothing was asked for.
    pub fn acquire_many(&mut self, now: Time, wants: &[Acquire], ids: &mut Vec<RequestId>) -> Result<(), AcquireError> {
        self.now = now;
        wants.iter().try_for_each(|want| self.admit(want.name))?;
        let info = self.session.info_at(now).ok_or(AcquireError::NoSession)?;
        match info.engine {
            Engine::Fission => self.acquire_slots(now, wants, 0, ids),
            Engine::Queue => self.queue_acquire_many(now, wants, ids),
            Engine::Hybrid => self.acquire_of_both(now, wants, ids),
        }
    }

    /// Several names whose locks are slots. `then`: a request that is called when all of them are held, 0 if none is.
    pub(super) fn acquire_slots(
        &mut self,
        now: Time,
        wants: &[Acquire],
        then: u64,
        ids: &mut Vec<RequestId>,
    ) -> Result<(), AcquireError> {
        let from = ids.len();
        let info = self.session.info_at(now).ok_or(AcquireError::NoSession)?;
        // The first packet is written on the way, up to the first one on which this node's own agent decides.
        let mut draft = self.out.draft();
        let mut at_switch = true;
        let mut former = 0;
        for &want in wants {
            let entered = match enter(&self.config, &mut self.requests, &mut self.agency, info, now, want) {
                Ok(entered) => entered,
                Err(error) => {
                    for RequestId(id) in ids.drain(from..) {
                        self.forget_wait(id);
                    }
                    return Err(error);
                }
            };
            let Entered { id, request, book } = entered;
            at_switch = at_switch && !draft.is_full() && !book.decides(want.mode);
            if at_switch {
                draft.add(&request.asking(id, info.handle));
            }
            if want.deadline.is_some() {
                Self::set_request_timer(&mut self.timers, now, id, request, Time::NEVER);
            }
            if let Some(former) = self.requests.get_mut(former) {
                former.next = id;
            }
            ids.push(RequestId(id));
            former = id;
        }
        if let Some(last) = self.requests.get_mut(former).filter(|_| then != 0) {
            last.next = then;
        }
        let Some(&RequestId(first)) = ids.get(from) else { return Ok(()) };
        if draft.count() < 2 {
            self.ask(now, first);
        } else if let Some(request) = self.requests.get_mut(first) {
            draft.send(request.port, self.session.header(service::LOCK, kind::lock::ACQUIRE, 0));
            Self::begin_batch(&mut self.timers, now, first, request);
        }
        Ok(())
    }

    /// Gives up a hold, or a wait. The caller is done with it at once.
    pub fn release(&mut self, now: Time, request: RequestId) {
        self.end_if_over(now);
        let RequestId(id) = request;
        self.is_quick = self.free_alone(now, id);
        if self.is_quick {
            return;
        }
        if self.is_of_queue(request) {
            return self.queue_end(now, request);
        }
        match self.requests.get(id).map(|r| r.state) {
            Some(State::Held { .. }) => self.give_back(now, id),
            Some(State::Parked | State::Waiting) => self.cancel(now, request),
            Some(State::Returning { .. }) | None => {}
        }
    }

    /// Gives up a wait; releases if the grant came first.
    pub fn cancel(&mut self, now: Time, request: RequestId) {
        self.end_if_over(now);
        let RequestId(id) = request;
        if self.free_alone(now, id) {
            return;
        }
        if self.is_of_queue(request) {
            return self.queue_end(now, request);
        }
        match self.requests.get(id).map(|r| r.state) {
            Some(State::Parked | State::Waiting) => self.withdraw(now, id),
            Some(State::Held { .. }) => self.give_back(now, id),
            Some(State::Returning { .. }) | None => {}
        }
    }

    /// Turns an exclusive hold into a shared one, without letting go. Answered by the event Downgraded.
    pub fn downgrade(&mut self, now: Time, request: RequestId) {
        self.end_if_over(now);
        let RequestId(id) = request;
        if self.is_of_queue(request) {
            return self.queue_downgrade(now, request);
        }
        let Some(held) = self.requests.get_mut(id) else { return };
        let State::Held { downgrading, .. } = &mut held.state else { return };
        if held.mode == Mode::Shared {
            return self.events.push(Event::Downgraded { request });
        }
        *downgrading = true;
        held.pause = self.config.retransmit_us;
        let (slot, port) = (held.slot, held.port);
        let me = self.handle();
        let ours =
            self.agency.get(slot).and_then(|b| b.agent.as_mut()).is_some_and(|a| !a.suspended && a.holds(me, id));
        if ours {
            self.with_agent(now, slot, port, |agent, desk| agent.on_downgrade(me, id, desk));
        } else {
            self.send_downgrade(now, id);
        }
    }

    // ---- asking ----

    /// Asks this node's own agent where it may decide, the switch otherwise.
    fn ask(&mut self, now: Time, id: u64) {
        if self.hold_at_home(now, id) {
            return;
        }
        let me = self.handle();
        let Some(request) = self.requests.get_mut(id) else { return };
        request.state = State::Waiting;
        let (entry, port, at) = (request.asking(id, me), request.port, now + request.pause);
        let (slot, mode, book) = (request.slot, request.mode, request.book);
        Self::set_request_timer(&mut self.timers, self.now, id, request, at);
        if self.agency.books.at(book).decides(mode) {
            let party = Party::from_entry(&entry);
            let taken = self.with_agent(now, slot, port, |agent, desk| agent.on_acquire(party, None, desk));
            if taken == Some(Taken::Yes) {
                return;
            }
        }
        self.send(port, kind::lock::ACQUIRE, 0, 0, entry);
    }

    /// Its first request waits for the batch.
    fn begin_batch(timers: &mut Timers, now: Time, first: u64, request: &mut Request) {
        request.state = State::Waiting;
        let at = now + request.pause;
        Self::set_request_timer(timers, now, first, request, at);
    }

    /// Asks for `first` and as many parked ones behind it as fit into one packet.
    fn ask_from(&mut self, now: Time, first: u64) {
        let me = self.handle();
        let Node { requests, agency, out, .. } = self;
        let mut draft = out.draft();
        let mut next = first;
        while let Some(request) = requests.get(next).filter(|r| r.waits() && !draft.is_full()) {
            if agency.books.at(request.book).decides(request.mode) {
                break;
            }
            draft.add(&request.asking(next, me));
            next = request.next;
        }
        if draft.count() < 2 {
            return self.ask(now, first);
        }
        let Some(request) = requests.get_mut(first) else { return };
        draft.send(request.port, self.session.header(service::LOCK, kind::lock::ACQUIRE, 0));
        Self::begin_batch(&mut self.timers, now, first, request);
    }

    /// Due: given up at its deadline, sent again otherwise.
    pub(super) fn on_request_tick(&mut self, now: Time, at: Time, id: u64) {
        let most = self.config.retransmit_most_us;
        let Some(request) = self.requests.get_mut(id).filter(|r| r.due == at) else { return };
        if request.waits() && request.deadline <= now {
            self.events.push(Event::TimedOut { request: RequestId(id), over_budget: request.over_budget });
            return self.withdraw(now, id);
        }
        request.pause = (request.pause * 2).min(most);
        match request.state {
            // Of several locks, whose turn it is is due at once.
            State::Waiting if self.agency.books.at(request.book).decides(request.mode) => self.ask(now, id),
            State::Waiting if request.next != 0 && !request.alone => self.ask_from(now, id),
            State::Waiting => self.send_again(now, id, kind::lock::ACQUIRE),
            State::Returning { kind, .. } => self.send_again(now, id, kind),
            State::Held { downgrading: true, .. } => self.send_downgrade(now, id),
            // One that is parked has a deadline, or nothing.
            State::Held { .. } | State::Parked => {}
        }
    }

    fn send_again(&mut self, now: Time, id: u64, kind: u8) {
        let (me, epoch) = (self.handle(), self.epoch());
        let Some(request) = self.requests.get_mut(id) else { return };
        let (entry, port, at) = (request.entry(id, me, epoch), request.port, now + request.pause);
        Self::set_request_timer(&mut self.timers, self.now, id, request, at);
        self.send(port, kind, 0, 0, entry);
    }

    fn send_downgrade(&mut self, now: Time, id: u64) {
        let (me, epoch) = (self.handle(), self.epoch());
        let Some(request) = self.requests.get_mut(id) else { return };
        let State::Held { token, ordinal, .. } = request.state else { return };
        let entry = request.speaking(id, me, epoch, Grant { token, ordinal });
        let (port, at) = (request.port, now + request.pause);
        Self::set_request_timer(&mut self.timers, self.now, id, request, at);
        self.send(port, kind::lock::DOWNGRADE, 0, 0, entry);
    }

    // ---- giving back ----

    /// A wait ends without a grant: retired here first, then CANCEL until the agent has forgotten it.
    fn withdraw(&mut self, now: Time, id: u64) {
        let Some(request) = self.requests.get(id) else { return };
        let (slot, port, sent) = (request.slot, request.port, request.state == State::Waiting);
        self.leave_wait(slot);
        let me = self.handle();
        let ours = self.agency.get(slot).and_then(|b| b.agent.as_mut()).is_some_and(|a| a.is_usable());
        if ours {
            self.with_agent(now, slot, port, |agent, desk| agent.on_release(me, id, None, desk));
        }
        if sent {
            self.start_returning(now, id, kind::lock::CANCEL, None);
        } else {
            self.requests.remove(id);
        }
        self.settle_book(slot);
    }

    /// A wait that was never sent.
    fn forget_wait(&mut self, id: u64) {
        if let Some(&Request { slot, .. }) = self.requests.get(id) {
            self.requests.remove(id);
            self.leave_wait(slot);
            self.settle_book(slot);
        }
    }

    /// A hold ends: at this node's own agent at once, elsewhere by RELEASE until RELEASED.
    fn give_back(&mut self, now: Time, id: u64) {
        let Some(request) = self.requests.get(id) else { return };
        let State::Held { token, agent, ordinal, .. } = request.state else { return };
        let (slot, port) = (request.slot, request.port);
        let me = self.handle();
        let ours = self
            .agency
            .get(slot)
            .and_then(|b| b.agent.as_mut())
            .is_some_and(|a| !a.suspended && (a.holds(me, id) || (agent == me && token.stamp() == a.stamp)));
        if ours {
            self.requests.remove(id);
            let grant = ordinal.map(|ordinal| (token.stamp(), ordinal));
            self.with_agent(now, slot, port, |agent, desk| agent.on_release(me, id, grant, desk));
        } else {
            self.start_returning(now, id, kind::lock::RELEASE, Some(Grant { token, ordinal }));
        }
    }

    fn start_returning(&mut self, now: Time, id: u64, kind: u8, grant: Option<Grant>) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.state = State::Returning { kind, grant };
        request.pause = self.config.retransmit_us;
        self.send_again(now, id, kind);
    }

    /// One request less waits in this slot.
    fn leave_wait(&mut self, slot: u32) {
        if let Some(place) = self.agency.books.find(slot) {
            let book = self.agency.books.at_mut(place);
            book.waits = book.waits.saturating_sub(1);
        }
    }

    // ---- answers ----

    /// GRANT: from the switch (fresh, joined or a batch), from an agent, or with an agency that was handed over.
    #[inline]
    pub(super) fn on_grant(&mut self, now: Time, packet: &[u8]) -> Result<(), DropReason> {
        // Of several, the next in turn is called when the one before it holds; but not before it is known that it has
        // no grant of its own in this packet.
        let mut turn = 0;
        self.is_quick = true;
        for entry in lock_entries(packet) {
            if let Some(next) = self.hold_alone(now, &entry, turn) {
                turn = next;
                continue;
            }
            self.is_quick = false;
            self.call(now, mem::take(&mut turn));
            if !self.on_other_grant(now, &header_of(packet)?, entry, packet) {
                break;
            }
        }
        self.call(now, turn);
        Ok(())
    }

    /// A grant with which something is different. Whether those behind it are grants of their own.
    #[inline(never)]
    fn on_other_grant(&mut self, now: Time, header: &Header, entry: Entry, packet: &[u8]) -> bool {
        let first = Entry::read(packet, BODY);
        let handed_over = first.flags & entry_flag::AGENCY != 0 && SlotBits::from_u16(first.slot_bits).transferred;
        if handed_over {
            let order = self.config.order();
            let waiters = lock_entries(packet).skip(1);
            let waiters = waiters.map(move |entry| Party::from_entry(&entry).handed_over(order));
            self.on_agency(now, header, first, Some(waiters));
            return false;
        }
        if header.count > 1 && entry.flags & entry_flag::AGENCY == 0 {
            self.on_undecided(now, entry.request);
            return false;
        }
        self.on_single_grant(now, header, entry);
        true
    }

    fn on_single_grant(&mut self, now: Time, header: &Header, entry: Entry) {
        if entry.flags & entry_flag::AGENCY != 0 {
            self.on_agency(now, header, entry, None::<core::iter::Empty<Party>>);
        } else {
            self.on_plain_grant(now, header, &entry);
        }
    }

    /// The first of a batch that the switch did not grant at once: from here on one at a time, in order.
    fn on_undecided(&mut self, now: Time, id: u64) {
        // A parked one has others before it, which may still be refused their grants.
        if let Some(request) = self.requests.get_mut(id).filter(|r| r.state == State::Waiting && !r.alone) {
            request.alone = true;
            self.ask(now, id);
        }
    }

    /// A grant without the agency: a join, or by an agent.
    fn on_plain_grant(&mut self, now: Time, header: &Header, entry: &Entry) {
        let taken = self.config.is_broken(Mutant::AnyRequest).then(|| self.for_another(entry)).flatten();
        let entry = taken.as_ref().unwrap_or(entry);
        let (stamp, bits) = self.snapshot(entry);
        let token = Token::new(stamp, entry.sequence);
        let joined = entry.flags & entry_flag::JOINED != 0;
        let ordinal = joined.then_some(bits.joins);
        let path = decider(joined);
        let Some(request) = self.requests.get_mut(entry.request) else {
            return self.give_back_unwanted(now, entry, Grant { token, ordinal });
        };
        match request.state {
            State::Parked | State::Waiting => self.take(now, entry.request, token, header.source, ordinal, path),
            State::Held { token: held, agent, ordinal, downgrading } => {
                let shared = entry.flags & entry_flag::EXCLUSIVE == 0;
                // As they are in a packet: the epoch may be a later one than the grant's.
                let is_its = (held.stamp().tenure, held.sequence()) == (stamp.tenure, entry.sequence);
                if downgrading && shared && is_its {
                    request.mode = Mode::Shared;
                    request.state = State::Held { token: held, agent, ordinal, downgrading: false };
                    self.events.push(Event::Downgraded { request: RequestId(entry.request) });
                }
            }
            // A late copy of its ACQUIRE was granted: now there is something to give back, whatever was answered
            // before.
            State::Returning { .. } => self.return_grant(now, entry.request, Grant { token, ordinal }),
        }
    }

    /// [`Mutant::AnyRequest`]: the grant as one of another request.
    fn for_another(&self, entry: &Entry) -> Option<Entry> {
        let mode = Party::from_entry(entry).mode;
        let alike = |r: &Request| r.state == State::Waiting && (r.name, r.mode) == (entry.name, mode);
        let is_over = self.requests.get(entry.request).is_none_or(|r| matches!(r.state, State::Returning { .. }));
        let another = self.requests.iter().find(|(_, request)| is_over && alike(request));
        another.map(|(RequestId(request), _)| Entry { request, ..*entry })
    }

    fn return_grant(&mut self, now: Time, id: u64, latest: Grant) {
        let knows =
            |request: &Request| matches!(request.state, State::Returning { grant, .. } if grant == Some(latest));
        if !self.requests.get(id).is_some_and(knows) {
            self.start_returning(now, id, kind::lock::RELEASE, Some(latest));
        }
    }

    /// A grant that nobody waits for: given back, until RELEASED.
    fn give_back_unwanted(&mut self, now: Time, entry: &Entry, grant: Grant) {
        if self.config.is_broken(Mutant::KeepUnwantedGrant) {
            return;
        }
        let party = Party::from_entry(entry);
        let request = Request {
            name: party.name,
            slot: entry.slot,
            book: 0,
            mode: party.mode,
            tries: false,
            priority: Priority::NORMAL,
            over_budget: false,
            alone: false,
            port: 0,
            floor: Stamp::default(),
            state: State::Returning { kind: kind::lock::RELEASE, grant: Some(grant) },
            since: now,
            deadline: Time::NEVER,
            due: Time::NEVER,
            pause: self.config.retransmit_us,
            next: 0,
        };
        if self.requests.insert_returning(entry.request, request) {
            self.send_again(now, entry.request, kind::lock::RELEASE);
        }
    }

    /// Whether a grant of this stamp is for a request that waits for it. A parked one does not, though a batch may have
    /// asked for it: held before those in front of it, it could be what they wait for elsewhere.
    pub(super) fn is_wanted(&self, id: u64, stamp: Stamp) -> bool {
        self.requests.get(id).is_some_and(|r| r.state == State::Waiting && self.config.is_above(r.floor, stamp))
    }

    fn take(&mut self, now: Time, id: u64, token: Token, agent: Handle, ordinal: Option<u16>, path: Path) {
        if self.is_wanted(id, token.stamp()) {
            self.hold(now, id, token, agent, ordinal, path);
            if let Some(slot) = self.requests.get(id).map(|r| r.slot) {
                self.settle_book(slot);
            }
        }
    }

    /// The request holds from now on.
    pub(super) fn hold(&mut self, now: Time, id: u64, token: Token, agent: Handle, ordinal: Option<u16>, path: Path) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.state = State::Held { token, agent, ordinal, downgrading: false };
        request.since = now;
        request.due = Time::NEVER;
        let (slot, mode, next) = (request.slot, request.mode, request.next);
        self.held.note(slot, id);
        self.leave_wait(slot);
        self.events.push(Event::Granted { request: RequestId(id), token, mode, path });
        self.call(now, next);
    }

    /// The one before it holds: now it is this parked one's turn, if there is one. Due at once: the tick that follows
    /// sends it, unless the rest of a packet grants it.
    pub(super) fn call(&mut self, now: Time, next: u64) {
        if next == 0 {
            return;
        }
        let Some(request) = self.requests.get_mut(next) else { return self.call_queue(now, next) };
        if request.state != State::Parked {
            return;
        }
        request.state = State::Waiting;
        Self::set_request_timer(&mut self.timers, self.now, next, request, now);
    }

    /// Grants and refusals of this node's own agents. They may lead to further ones.
    pub(super) fn drain_local(&mut self, now: Time) {
        while let Some(party) = self.local.pop_front() {
            let waits = self.requests.get(party.request).is_some_and(Request::waits);
            let me = self.handle();
            if party.tries {
                if waits {
                    self.refuse(party.request, me);
                }
            } else if waits {
                self.hold(now, party.request, party.token, me, None, Path::Local);
            } else {
                self.on_local_repeat(now, party);
            }
        }
    }

    /// An own agent's grant to a request that does not wait: a downgrade's answer, a duplicate, or a ghost to give
    /// back.
    fn on_local_repeat(&mut self, now: Time, party: Party) {
        let me = self.handle();
        let Some(slot) = self.session.info().map(|info| slot_of(party.name, info.slots)) else { return };
        match self.requests.get_mut(party.request) {
            Some(request) if matches!(request.state, State::Held { .. }) => {
                if let State::Held { downgrading, .. } = &mut request.state
                    && mem::take(downgrading)
                    && party.mode == Mode::Shared
                {
                    request.mode = Mode::Shared;
                    self.events.push(Event::Downgraded { request: RequestId(party.request) });
                }
            }
            _ => {
                self.with_agent(now, slot, 0, |agent, desk| agent.on_release(me, party.request, None, desk));
            }
        }
    }

    /// RELEASED: nobody counts this request any more.
    ///
    /// An answer to what was sent before the latest grant came speaks of another grant, or of none.
    pub(super) fn on_released(&mut self, answer: &Entry) {
        let (id, me) = (answer.request, self.handle());
        let Some(request) = self.requests.get(id).filter(|r| matches!(r.state, State::Returning { .. })) else {
            return;
        };
        let sent = request.entry(id, me, self.epoch());
        let same = (sent.tenure, sent.sequence) == (answer.tenure, answer.sequence)
            && (sent.flags ^ answer.flags) & entry_flag::JOINED == 0;
        if same || matches!(request.state, State::Returning { grant: None, .. }) {
            self.requests.remove(id);
        }
    }

    /// BUSY: a try is refused; with RETRY the request is sent again after a pause.
    pub(super) fn on_busy(&mut self, now: Time, header: &Header, entry: &Entry) {
        if header.flags & header_flag::RETRY != 0 {
            return self.on_recovering(now, entry);
        }
        if self.requests.get(entry.request).is_some_and(|r| r.state == State::Waiting && r.tries) {
            let agent = if entry.holder == self.handle() { header.source } else { entry.holder };
            self.refuse(entry.request, agent);
        }
    }

    fn refuse(&mut self, id: u64, agent: Handle) {
        if let Some(&Request { slot, .. }) = self.requests.get(id) {
            self.requests.remove(id);
            self.leave_wait(slot);
            self.settle_book(slot);
            self.events.push(Event::Busy { request: RequestId(id), agent });
        }
    }

    /// RECOVERING: asked again after the pause that is running anyway.
    pub(super) fn on_recovering(&mut self, now: Time, entry: &Entry) {
        let pause = self.config.retransmit_us;
        if self.requests.get(entry.request).is_none() {
            // Of a change, or of slots that are given back.
            self.frees.are_heard();
        }
        if let Some(request) = self.requests.get_mut(entry.request)
            && request.state != State::Parked
            && !matches!(request.state, State::Held { downgrading: false, .. })
            && request.due > now + pause
        {
            request.pause = pause;
            Self::set_request_timer(&mut self.timers, self.now, entry.request, request, now + pause);
        }
    }

    /// REJECT: the namespace's budget is spent. Asked again when there is room, at the earliest, and in its own pauses,
    /// which grow: others are told the same.
    pub(super) fn on_reject(&mut self, now: Time, entry: &Entry) {
        let pause = u64::from(entry.tenure.min(limits::MAX_PAUSE_US));
        let Some(request) = self.requests.get_mut(entry.request).filter(|r| r.state == State::Waiting) else { return };
        if request.due < now + pause {
            Self::set_request_timer(&mut self.timers, self.now, entry.request, request, now + pause);
        }
        self.requests.over_until = self.requests.over_until.max(now + pause);
        // Those behind it in `lock_many` wait for it: whichever is at its end first says why.
        let mut next = entry.request;
        while let Some(request) = self.requests.get_mut(next).filter(|request| request.waits()) {
            request.over_budget = true;
            next = request.next;
        }
        self.queue.note_over_budget(next);
    }

    /// The node has served this slot up to `stamp`: older grants to what waits there are stale.
    pub(super) fn raise_floors(&mut self, slot: u32, stamp: Stamp) {
        if self.agency.books.get(slot).is_some_and(|book| book.waits > 0) {
            self.raise_floors_of(|_, of| (of == slot).then_some(stamp));
        }
    }

    /// The same for many slots: those of which `stamp_of` tells a stamp. One look at every request for all of them.
    pub(super) fn raise_floors_of(&mut self, stamp_of: impl Fn(&Books, u32) -> Option<Stamp>) {
        let pause = self.config.retransmit_us;
        let Node { requests, agency, timers, now, .. } = self;
        for (id, request) in requests.iter_mut().filter(|(_, request)| request.waits()) {
            let Some(stamp) = stamp_of(&agency.books, request.slot) else { continue };
            request.floor = request.floor.max(stamp);
            // It has grown while nobody answered; from now on somebody does.
            if request.state == State::Waiting && request.due > *now + pause {
                request.pause = pause;
                Self::set_request_timer(timers, *now, id, request, *now + pause);
            }
        }
    }
}

/// A new request, parked, and the book of its slot.
struct Entered<'a> {
    id: u64,
    request: &'a mut Request,
    book: &'a Book,
}

/// Enters a wish into the books; nobody is asked yet. Lends out no more of the node than that takes.
#[inline(always)]
fn enter<'a>(
    config: &NodeConfig,
    requests: &'a mut Requests,
    agency: &'a mut Agency,
    info: &SessionInfo,
    now: Time,
    want: Acquire,
) -> Result<Entered<'a>, AcquireError> {
    let slot = slot_of(want.name, info.slots);
    let over_budget = now < requests.over_until;
    let (id, request) = requests.add()?;
    let place = agency.open(slot);
    let book = agency.books.at_mut(place);
    book.waits += 1;
    *request = Request {
        name: want.name,
        slot,
        book: place,
        mode: want.mode,
        tries: want.try_,
        priority: want.priority,
        over_budget,
        alone: false,
        port: want.port,
        floor: book.floor(),
        state: State::Parked,
        since: now,
        deadline: want.deadline.unwrap_or(Time::NEVER),
        due: Time::NEVER,
        pause: config.retransmit_us,
        next: 0,
    };
    Ok(Entered { id, request, book })
}
