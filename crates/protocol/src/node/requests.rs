//! The lock client of a node: what its owner asks for, and the answers.

use super::{Event, Node, decider};
use crate::agent::{Party, Taken};
use crate::lock::{Acquire, AcquireError, Path, Request, State};
use crate::mutant::Mutant;
use crate::{Handle, Mode, RequestId, Stamp, Time, Token};
use alloc::vec::Vec;
use core::mem;
use wayside_wire::{BODY, Entry, Header, SlotBits, entries, entry_flag, header_flag, kind, limits, service, slot_of};

impl Node {
    /// Asks for a name. The answer is an event: Granted, Busy, `TimedOut` or Lost.
    pub fn acquire(&mut self, now: Time, want: Acquire) -> Result<RequestId, AcquireError> {
        let id = self.enter(now, want, State::Waiting)?;
        self.ask(now, id);
        Ok(RequestId(id))
    }

    /// Asks for several names, one after the other in this order; those free at the switch come 32 to a packet.
    /// Sort by slot, then name, and no two callers can wait for each other. Appends the ids to `ids`; on an error nothing was asked for.
    pub fn acquire_many(&mut self, now: Time, wants: &[Acquire], ids: &mut Vec<RequestId>) -> Result<(), AcquireError> {
        let from = ids.len();
        for &want in wants {
            match self.enter(now, want, State::Parked) {
                Ok(id) => ids.push(RequestId(id)),
                Err(error) => {
                    for RequestId(id) in ids.drain(from..) {
                        self.forget_wait(id);
                    }
                    return Err(error);
                }
            }
        }
        for pair in ids[from..].windows(2) {
            if let Some(request) = self.requests.get_mut(pair[0].0) {
                request.next = Some(pair[1].0);
            }
        }
        if let Some(&RequestId(first)) = ids.get(from) {
            self.ask_from(now, first);
        }
        Ok(())
    }

    /// Gives up a hold, or a wait. The caller is done with it at once.
    pub fn release(&mut self, now: Time, request: RequestId) {
        self.end_if_over(now);
        let RequestId(id) = request;
        match self.requests.get(id).map(|r| r.state) {
            Some(State::Held { .. }) => self.give_back(now, id),
            Some(State::Parked | State::Waiting) => self.cancel(now, request),
            Some(State::Returning { .. }) | None => {}
        }
        self.drop_stale_timers();
    }

    /// Gives up a wait; releases if the grant came first.
    pub fn cancel(&mut self, now: Time, request: RequestId) {
        self.end_if_over(now);
        let RequestId(id) = request;
        match self.requests.get(id).map(|r| r.state) {
            Some(State::Parked | State::Waiting) => self.withdraw(now, id),
            Some(State::Held { .. }) => self.give_back(now, id),
            Some(State::Returning { .. }) | None => {}
        }
        self.drop_stale_timers();
    }

    /// Turns an exclusive hold into a shared one, without letting go. Answered by the event Downgraded.
    pub fn downgrade(&mut self, now: Time, request: RequestId) {
        self.end_if_over(now);
        let RequestId(id) = request;
        let Some(held) = self.requests.get_mut(id) else { return };
        let State::Held { downgrading, .. } = &mut held.state else { return };
        if held.mode == Mode::Shared {
            return self.events.push_back(Event::Downgraded { request });
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

    fn enter(&mut self, now: Time, want: Acquire, state: State) -> Result<u64, AcquireError> {
        self.now = now;
        let info = self.session.info().ok_or(AcquireError::NoSession)?;
        if self.session.lease_is_over(now) {
            return Err(AcquireError::NoSession);
        }
        let slot = slot_of(want.name, info.slots);
        let id = self.requests.insert(Request {
            name: want.name,
            slot,
            mode: want.mode,
            tries: want.try_,
            port: want.port,
            floor: Stamp::default(),
            state,
            since: now,
            deadline: want.deadline,
            due: Time(u64::MAX),
            pause: self.config.retransmit_us,
            grant: None,
            next: None,
            alone: false,
        })?;
        let book = self.agency.book(slot);
        book.waits += 1;
        let floor = book.floor();
        if let Some(request) = self.requests.get_mut(id) {
            request.floor = floor;
            if state == State::Parked && request.deadline.is_some() {
                Self::set_request_timer(&mut self.timers, self.now, id, request, Time(u64::MAX));
            }
        }
        Ok(id)
    }

    /// Asks this node's own agent where it may decide, the switch otherwise.
    fn ask(&mut self, now: Time, id: u64) {
        let (me, epoch) = (self.handle(), self.epoch());
        let Some(request) = self.requests.get_mut(id) else { return };
        request.state = State::Waiting;
        let entry = request.entry(id, me, epoch);
        let (slot, port) = (request.slot, request.port);
        let at = now + request.pause;
        Self::set_request_timer(&mut self.timers, self.now, id, request, at);
        if self.own_agent_decides(slot, request_mode(&entry)) {
            let party = Party::from_entry(&entry);
            let taken = self.with_agent(now, slot, port, |agent, desk| agent.on_acquire(party, None, desk));
            if taken == Some(Taken::Yes) {
                return;
            }
        }
        self.send(port, kind::lock::ACQUIRE, 0, 0, entry);
    }

    fn own_agent_decides(&mut self, slot: u32, mode: Mode) -> bool {
        let agent = self.agency.get(slot).and_then(|book| book.agent.as_ref());
        agent.is_some_and(|a| a.is_usable() && !(a.is_open() && mode == Mode::Exclusive))
    }

    /// Asks for `first` and as many parked ones behind it as fit into one packet.
    fn ask_from(&mut self, now: Time, first: u64) {
        let (me, epoch) = (self.handle(), self.epoch());
        let mut batch = [Entry::default(); limits::MAX_ENTRIES];
        let mut count = 0;
        let mut next = Some(first);
        while let Some(id) = next.filter(|_| count < batch.len()) {
            let Some(&request) = self.requests.get(id).filter(|r| r.waits()) else { break };
            if self.own_agent_decides(request.slot, request.mode) {
                break;
            }
            batch[count] = request.entry(id, me, epoch);
            count += 1;
            next = request.next;
        }
        if count < 2 {
            return self.ask(now, first);
        }
        let Some(request) = self.requests.get_mut(first) else { return };
        request.state = State::Waiting;
        let (port, at) = (request.port, now + request.pause);
        Self::set_request_timer(&mut self.timers, self.now, first, request, at);
        let header = self.session.header(service::LOCK, kind::lock::ACQUIRE, 0);
        self.out.entries(port, header, &batch[..count]);
    }

    /// Due: given up at its deadline, sent again otherwise.
    pub(super) fn on_request_tick(&mut self, now: Time, at: Time, id: u64) {
        let most = self.config.retransmit_most_us;
        let Some(request) = self.requests.get_mut(id).filter(|r| r.due == at) else { return };
        if request.waits() && request.deadline.is_some_and(|deadline| deadline <= now) {
            self.events.push_back(Event::TimedOut { request: RequestId(id) });
            return self.withdraw(now, id);
        }
        request.pause = (request.pause * 2).min(most);
        match request.state {
            State::Parked => Self::set_request_timer(&mut self.timers, self.now, id, request, Time(u64::MAX)),
            State::Waiting if request.next.is_some() && !request.alone => self.ask_from(now, id),
            State::Waiting => self.send_again(now, id, kind::lock::ACQUIRE),
            State::Returning { kind } => self.send_again(now, id, kind),
            State::Held { downgrading: true, .. } => self.send_downgrade(now, id),
            State::Held { .. } => {}
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
        let speaking = Request { grant: Some((token, ordinal)), ..*request };
        let (entry, port, at) = (speaking.entry(id, me, epoch), request.port, now + request.pause);
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
        if let Some(request) = self.requests.remove(id) {
            self.leave_wait(request.slot);
            self.settle_book(request.slot);
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
            self.start_returning(now, id, kind::lock::RELEASE, Some((token, ordinal)));
        }
    }

    fn start_returning(&mut self, now: Time, id: u64, kind: u8, grant: Option<(Token, Option<u16>)>) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.state = State::Returning { kind };
        request.grant = grant;
        request.since = now;
        request.pause = self.config.retransmit_us;
        self.send_again(now, id, kind);
    }

    /// One request less waits in this slot.
    fn leave_wait(&mut self, slot: u32) {
        if let Some(book) = self.agency.get(slot) {
            book.waits = book.waits.saturating_sub(1);
        }
    }

    // ---- answers ----

    /// GRANT: from the switch (fresh, joined or a batch), from an agent, or with an agency that was handed over.
    pub(super) fn on_grant(&mut self, now: Time, header: &Header, packet: &[u8]) {
        let first = Entry::read(packet, BODY);
        let handed_over = first.flags & entry_flag::AGENCY != 0 && SlotBits::from_u16(first.slot_bits).transferred;
        if handed_over {
            let waiters = entries(packet).skip(1).map(|entry| Party::from_entry(&entry));
            return self.on_agency(now, header, first, Some(waiters));
        }
        if header.count == 1 {
            return self.on_single_grant(now, header, first);
        }
        for entry in entries(packet) {
            if entry.flags & entry_flag::AGENCY == 0 {
                return self.on_undecided(now, entry.request);
            }
            self.on_single_grant(now, header, entry);
        }
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
        let (stamp, bits) = self.snapshot(entry);
        let token = Token::new(stamp, entry.sequence);
        let joined = entry.flags & entry_flag::JOINED != 0;
        let ordinal = joined.then_some(bits.joins);
        let path = decider(header.source, entry.sequence, joined);
        let Some(request) = self.requests.get_mut(entry.request) else {
            return self.give_back_unwanted(now, entry, token, ordinal);
        };
        match request.state {
            State::Parked | State::Waiting => self.take(now, entry.request, token, header.source, ordinal, path),
            State::Held { token: held, agent, ordinal, downgrading } => {
                let shared = entry.flags & entry_flag::EXCLUSIVE == 0;
                if downgrading && shared && held == token {
                    request.mode = Mode::Shared;
                    request.state = State::Held { token, agent, ordinal, downgrading: false };
                    self.events.push_back(Event::Downgraded { request: RequestId(entry.request) });
                }
            }
            // A late copy of its ACQUIRE was granted: now there is something to give back, whatever was answered before.
            State::Returning { .. } => self.return_grant(now, entry.request, token, ordinal),
        }
    }

    fn return_grant(&mut self, now: Time, id: u64, token: Token, ordinal: Option<u16>) {
        if self.requests.get(id).is_some_and(|request| request.grant != Some((token, ordinal))) {
            self.start_returning(now, id, kind::lock::RELEASE, Some((token, ordinal)));
        }
    }

    /// A grant that nobody waits for: given back, until RELEASED.
    fn give_back_unwanted(&mut self, now: Time, entry: &Entry, token: Token, ordinal: Option<u16>) {
        if self.config.is_broken(Mutant::KeepUnwantedGrant) {
            return;
        }
        let party = Party::from_entry(entry);
        let request = Request {
            name: party.name,
            slot: entry.slot,
            mode: party.mode,
            tries: false,
            port: 0,
            floor: Stamp::default(),
            state: State::Returning { kind: kind::lock::RELEASE },
            since: now,
            deadline: None,
            due: Time(u64::MAX),
            pause: self.config.retransmit_us,
            grant: Some((token, ordinal)),
            next: None,
            alone: false,
        };
        if self.requests.insert_returning(entry.request, request) {
            self.send_again(now, entry.request, kind::lock::RELEASE);
        }
    }

    /// Whether a grant of this stamp is for a request that waits for it. A parked one does not, though a batch may have
    /// asked for it: held before those in front of it, it could be what they wait for elsewhere.
    pub(super) fn is_wanted(&self, id: u64, stamp: Stamp) -> bool {
        let above = |r: &Request| stamp > r.floor || self.config.is_broken(Mutant::IgnoreFloor);
        self.requests.get(id).is_some_and(|r| r.state == State::Waiting && above(r))
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
        request.due = Time(u64::MAX);
        let (slot, mode, next) = (request.slot, request.mode, request.next);
        self.leave_wait(slot);
        self.events.push_back(Event::Granted { request: RequestId(id), token, mode, path });
        // In a batch the next one may be granted by the same packet; it is asked for only if it is still parked then.
        if let Some(next) = next {
            self.continue_chain(now, next);
        }
    }

    fn continue_chain(&mut self, now: Time, next: u64) {
        let Some(request) = self.requests.get_mut(next).filter(|r| r.state == State::Parked) else { return };
        // Due at once: the tick that follows sends it, unless the rest of this packet grants it.
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

    /// An own agent's grant to a request that does not wait: a downgrade's answer, a duplicate, or a ghost to give back.
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
                    self.events.push_back(Event::Downgraded { request: RequestId(party.request) });
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
        if same || request.grant.is_none() {
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
        if let Some(request) = self.requests.remove(id) {
            self.leave_wait(request.slot);
            self.settle_book(request.slot);
            self.events.push_back(Event::Busy { request: RequestId(id), agent });
        }
    }

    /// RECOVERING: asked again after the pause that is running anyway.
    pub(super) fn on_recovering(&mut self, now: Time, entry: &Entry) {
        let pause = self.config.retransmit_us;
        if let Some(request) = self.requests.get_mut(entry.request)
            && request.state != State::Parked
            && !matches!(request.state, State::Held { downgrading: false, .. })
            && request.due > now + pause
        {
            request.pause = pause;
            Self::set_request_timer(&mut self.timers, self.now, entry.request, request, now + pause);
        }
    }

    /// The node has served this slot up to `stamp`: older grants to what waits there are stale.
    pub(super) fn raise_floors(&mut self, slot: Option<u32>, stamp: Stamp) {
        let none_wait = slot.is_some_and(|slot| self.agency.get(slot).is_none_or(|book| book.waits == 0));
        if none_wait {
            return;
        }
        for (_, request) in self.requests.iter_mut() {
            if request.waits() && slot.is_none_or(|slot| slot == request.slot) {
                request.floor = request.floor.max(stamp);
            }
        }
    }
}

fn request_mode(entry: &Entry) -> Mode {
    if entry.flags & entry_flag::EXCLUSIVE != 0 { Mode::Exclusive } else { Mode::Shared }
}
