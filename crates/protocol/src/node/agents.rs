//! The agents of a node: packets that name it as agent, changes of agency, and what arrives too early or too late.

use super::{Node, decider, lock_entries};
use crate::agency::{Claim, Handing, Stray};
use crate::agent::{After, Agent, Desk, Home, Party, Taken, fill};
use crate::books::Book;
use crate::lock::State;
use crate::mutant::Mutant;
use crate::{Handle, Port, Stamp, Time, Token};
use alloc::boxed::Box;
use wayside_wire::{Entry, Header, Heartbeat, SlotBits, SlotState, entry_flag, header_flag, kind, limits, service};

/// QUEUEs that go unanswered before the old agent gives up: its waiters then ask again themselves.
const HANDING_ATTEMPTS: u32 = 12;

impl Node {
    /// Lets the slot's agent work, if there is one; then passes on its grants and settles its book.
    pub(super) fn with_agent<R>(
        &mut self,
        now: Time,
        slot: u32,
        port: Port,
        work: impl FnOnce(&mut Agent, &mut Desk) -> R,
    ) -> Option<R> {
        let result = self.at_desk(now, port, |agency, desk| {
            agency.get(slot).and_then(|book| book.agent.as_mut()).map(|agent| work(agent, desk))
        });
        self.drain_local(now);
        self.settle_book(slot);
        if self.kept.is_short() {
            self.make_room(now);
        }
        result
    }

    // ---- packets that name this node as agent ----

    /// ACQUIRE, RELEASE, CANCEL, DOWNGRADE or JOIN that the switch sent to its slot's agent.
    pub(super) fn on_forwarded(&mut self, now: Time, header: &Header, entry: Entry) {
        let mut entry = entry;
        if self.is_over(header.kind, &entry) {
            if header.kind != kind::lock::JOIN {
                return;
            }
            // Its ordinal is worth knowing all the same.
            entry.flags |= entry_flag::DEAD;
        }
        // It has crossed a FREE that nobody answers, or one that was lost.
        self.asks_for_freed(now, entry.slot);
        let stray = Stray { kind: header.kind, entry, hops: header.position };
        let seen = stray.shows_slot().then(|| self.snapshot(&entry));
        let agent = self.agency.get(entry.slot).and_then(|book| book.agent.as_ref());
        match agent {
            Some(agent) if agent.suspended && !self.config.is_broken(Mutant::IgnoreSuspension) => {
                if seen.is_some_and(|at| agent.is_past(at)) {
                    self.keep_in_limbo(now, stray, seen);
                }
            }
            Some(agent) if !agent.is_pending() && seen.is_none_or(|(stamp, _)| stamp <= agent.stamp) => {
                self.at_agent(now, stray);
            }
            _ => {
                if let Some(book) = self.agency.get(entry.slot)
                    && let Some(agent) = &mut book.agent
                {
                    agent.hurry(now);
                }
                self.keep_in_limbo(now, stray, seen);
            }
        }
    }

    /// Whether the packet speaks for a node that is dead, or asks for a request of this node that has ended.
    fn is_over(&self, packet: u8, entry: &Entry) -> bool {
        if self.dead.has(entry.holder, entry.request, &self.config) && !self.config.is_broken(Mutant::BelieveTheDead) {
            return true;
        }
        let asks = matches!(packet, kind::lock::ACQUIRE | kind::lock::JOIN);
        let ended = || self.requests.get(entry.request).is_none_or(|r| matches!(r.state, State::Returning { .. }));
        asks && entry.holder == self.handle() && ended()
    }

    /// The agent is there and free: it handles the packet.
    fn at_agent(&mut self, now: Time, stray: Stray) {
        let Stray { kind, entry, .. } = stray;
        let (stamp, bits) = self.snapshot(&entry);
        let party = Party::from_entry(&entry);
        let slot = entry.slot;
        match kind {
            kind::lock::ACQUIRE => {
                let snapshot = Some((stamp, bits));
                let taken = self.with_agent(now, slot, 0, |agent, desk| agent.on_acquire(party, snapshot, desk));
                if taken == Some(Taken::Bounce) {
                    self.bounce(stray);
                }
            }
            kind::lock::JOIN => {
                let dead = entry.flags & entry_flag::DEAD != 0;
                self.with_agent(now, slot, 0, |agent, desk| agent.on_join(party, stamp, bits.joins, dead, desk));
            }
            kind::lock::DOWNGRADE => {
                self.with_agent(now, slot, 0, |agent, desk| agent.on_downgrade(party.holder, party.request, desk));
            }
            _ => {
                let grant = joined_at(&entry, stamp, bits);
                self.with_agent(now, slot, 0, |agent, desk| {
                    agent.on_release(party.holder, party.request, grant, desk);
                });
                self.answer_released(entry);
            }
        }
    }

    fn answer_released(&mut self, entry: Entry) {
        if entry.holder == self.handle() {
            self.on_released(&entry);
        } else {
            self.send(0, kind::lock::RELEASED, entry.holder, 0, entry);
        }
    }

    /// Back to the switch, which knows where the agent is now. The last hop also asks for a census: this has gone on
    /// for long.
    fn bounce(&mut self, stray: Stray) {
        if stray.kind == kind::lock::JOIN {
            return;
        }
        // The switch sends on nothing that has hopped too often; a forged count may be at its end.
        let hops = stray.hops.saturating_add(1);
        self.send(0, stray.kind, 0, hops, stray.entry);
        if hops == limits::MAX_HOPS {
            let gap = Entry { slot: stray.entry.slot, tenure: stray.entry.tenure, ..Entry::default() };
            self.send(0, kind::lock::GAP, 0, 0, gap);
        }
    }

    // ---- limbo and claims ----

    fn keep_in_limbo(&mut self, now: Time, stray: Stray, seen: Option<(Stamp, SlotBits)>) {
        let slot = stray.entry.slot;
        let retransmit = self.config.retransmit_us;
        let book = self.agency.book_with_limbo(slot);
        book.keep(stray);
        if let Some((stamp, bits)) = seen.filter(|(stamp, _)| book.seen.is_none_or(|(newest, _)| *stamp >= newest)) {
            book.seen = Some((stamp, bits));
        }
        // A GRANT with the agency may be on its way behind this packet; without a waiting request it cannot be.
        let at_once = book.agent.is_none() && book.waits == 0 && seen.is_some_and(|(_, bits)| !bits.transferred);
        if at_once {
            self.on_limbo_due(now, slot);
        } else {
            book.limbo_due.get_or_insert(now + retransmit);
        }
        self.settle_book(slot);
    }

    /// What waits in limbo goes to the agent, is claimed, or goes back to the switch.
    fn on_limbo_due(&mut self, now: Time, slot: u32) {
        let claim_anyway = self.config.is_broken(Mutant::ClaimTransferred);
        let retransmit = self.config.retransmit_us;
        let Some(book) = self.agency.get(slot) else { return };
        book.limbo_due = None;
        if book.limbo.is_empty() {
            return;
        }
        let agent = book.agent.as_ref().filter(|agent| book.seen.is_none_or(|at| !agent.is_past(at)));
        let agent = agent.map(|a| (a.is_pending() || a.suspended, a.stamp));
        match (agent, book.seen) {
            (Some((true, _)), _) => book.limbo_due = Some(now + retransmit),
            (Some((false, _)), None) => self.replay_limbo(now, slot),
            (Some((false, acting)), Some((stamp, _))) if stamp <= acting => self.replay_limbo(now, slot),
            (_, Some((stamp, bits))) if !bits.transferred || claim_anyway => {
                if book.claim.is_none() {
                    self.claim(now, slot, stamp, bits);
                } else {
                    book.limbo_due = Some(now + retransmit);
                }
            }
            _ => self.bounce_limbo(slot),
        }
        self.settle_book(slot);
    }

    fn replay_limbo(&mut self, now: Time, slot: u32) {
        let limbo = self.agency.take_limbo(slot);
        for stray in &limbo {
            let header =
                Header { position: stray.hops, ..self.session.header(service::LOCK, stray.kind, self.handle()) };
            self.on_forwarded(now, &header, stray.entry);
        }
        self.agency.put_limbo_away(limbo);
    }

    fn bounce_limbo(&mut self, slot: u32) {
        let limbo = self.agency.take_limbo(slot);
        for stray in &limbo {
            self.bounce(*stray);
        }
        self.agency.put_limbo_away(limbo);
    }

    /// The switch takes this node for the agent, and no one handed the slot to it: it asks to be confirmed.
    fn claim(&mut self, now: Time, slot: u32, stamp: Stamp, bits: SlotBits) {
        self.nonce += 1;
        let (nonce, pause) = (self.nonce, self.config.retransmit_us);
        let book = self.agency.book(slot);
        book.claim = Some(Claim { nonce, tenure: stamp.tenure, due: now + pause, pause });
        self.send_claim(slot);
        if self.config.is_broken(Mutant::ClaimWithoutAnswer) {
            let stamp = Stamp { tenure: stamp.tenure + 1, ..stamp };
            self.install_claimed(now, slot, stamp, bits);
        }
    }

    /// INSPECT: the switch has named this node as agent for long. If it is none, it may have been granted the slot for
    /// a request that was over by then, and never have heard of it.
    pub(super) fn on_inspect(&mut self, now: Time, entry: Entry) {
        let (stamp, bits) = self.snapshot(&entry);
        // Who has kept his lock for long and alone has nothing to say, and needs no more than he has.
        if self.agency.books.get(entry.slot).is_some_and(|book| book.sole.is_some()) {
            return;
        }
        let book = self.agency.book(entry.slot);
        if book.agent.as_ref().is_none_or(|agent| agent.is_past((stamp, bits))) && book.claim.is_none() {
            if bits.transferred {
                let gap = Entry { slot: entry.slot, tenure: stamp.tenure, ..Entry::default() };
                self.send(0, kind::lock::GAP, 0, 0, gap);
            } else {
                self.claim(now, entry.slot, stamp, bits);
            }
        }
        self.settle_book(entry.slot);
    }

    fn send_claim(&mut self, slot: u32) {
        let holder = self.handle();
        let Some(claim) = self.agency.get(slot).and_then(|book| book.claim.as_ref()) else { return };
        let bits = SlotBits { state: SlotState::Managed, transferred: true, tryable: false, joins: 0 };
        let entry = Entry {
            request: claim.nonce,
            slot,
            tenure: claim.tenure,
            holder,
            slot_bits: bits.to_u16(),
            ..Entry::default()
        };
        let header =
            Header { flags: header_flag::CLAIM, ..self.session.header(service::LOCK, kind::lock::RETENURE, 0) };
        self.out.entries(0, header, &[entry]);
    }

    fn install_claimed(&mut self, now: Time, slot: u32, stamp: Stamp, bits: SlotBits) {
        self.raise_floors(slot, stamp);
        let mut agent = self.agency.new_agent();
        agent.reset(slot, stamp, bits);
        agent.claimed();
        self.replace_agent(slot, agent);
        self.replay_limbo(now, slot);
        self.with_agent(now, slot, 0, |agent, desk| agent.serve(desk));
    }

    // ---- agency comes and goes ----

    /// A GRANT with the agency, fresh or handed over (then with waiters).
    pub(super) fn on_agency(
        &mut self,
        now: Time,
        header: &Header,
        entry: Entry,
        handed: Option<impl Iterator<Item = Party>>,
    ) {
        let (stamp, bits) = self.snapshot(&entry);
        let slot = entry.slot;
        let newer = self.agency.get(slot).and_then(|b| b.agent.as_ref()).is_some_and(|a| a.stamp >= stamp);
        if newer {
            self.with_agent(now, slot, 0, |agent, desk| {
                if handed.is_some() && agent.inherited_at(stamp) {
                    agent.acknowledge(true, desk);
                }
            });
            return;
        }
        let wanted = self.is_wanted(entry.request, stamp);
        let token = Token::new(stamp, entry.sequence);
        if wanted {
            let path = decider(handed.is_none());
            self.hold(now, entry.request, token, self.handle(), None, path);
        }
        let mut agent = self.agency.new_agent();
        // A hand-over that is said again shows the slot as it is by then: who joined it meanwhile counts.
        agent.reset(slot, stamp, bits);
        agent.granted_with(Party { token, tries: false, ..Party::from_entry(&entry) }, wanted);
        let was_handed = handed.is_some();
        if wanted && !was_handed {
            agent.home = Home::NEW;
        }
        if let Some(waiters) = handed {
            agent.inherit(now, header.source, header.position, waiters);
        }
        self.replace_agent(slot, agent);
        self.with_agent(now, slot, 0, |agent, desk| {
            agent.acknowledge(false, desk);
            agent.serve(desk);
        });
        self.replay_limbo(now, slot);
    }

    pub(super) fn replace_agent(&mut self, slot: u32, agent: Box<Agent>) {
        let book = self.agency.book(slot);
        book.claim = None;
        book.forget = None;
        if let Some(old) = book.agent.replace(agent) {
            self.agency.put_away(old);
        }
    }

    /// RETENURED: the outcome of a change or of a claim.
    pub(super) fn on_retenured(&mut self, now: Time, header: &Header, entry: Entry) {
        let slot = entry.slot;
        let at = self.snapshot(&entry);
        let claimed = self.agency.get(slot).and_then(|b| b.claim.as_ref()).is_some_and(|c| c.nonce == entry.request);
        if claimed {
            return self.on_claim_answered(now, header, slot, at);
        }
        let after = self.with_agent(now, slot, 0, |agent, desk| agent.on_retenured(header, &entry, at, desk));
        match after {
            Some(After::Over) => self.end_agent(slot),
            Some(After::Goes) => self.on_limbo_due(now, slot),
            None => {}
        }
    }

    fn on_claim_answered(&mut self, now: Time, header: &Header, slot: u32, at: (Stamp, SlotBits)) {
        let (stamp, bits) = at;
        if let Some(book) = self.agency.get(slot) {
            book.claim = None;
        }
        let older = self.agency.get(slot).and_then(|b| b.agent.as_ref()).is_none_or(|a| a.stamp < stamp);
        if header.flags & header_flag::APPLIED != 0 && older {
            self.install_claimed(now, slot, stamp, bits);
        } else if header.flags & header_flag::STALE_TENURE != 0 {
            self.bounce_limbo(slot);
        } else if let Some(book) = self.agency.get(slot).filter(|book| !book.limbo.is_empty()) {
            book.limbo_due = Some(now + self.config.retransmit_us);
        }
        self.settle_book(slot);
    }

    /// The agent's tenure is over: it is forgotten, and what came for it goes back to the switch.
    fn end_agent(&mut self, slot: u32) {
        let Some(book) = self.agency.get(slot) else { return };
        let Some(agent) = book.agent.take() else { return };
        book.forget = None;
        self.raise_floors(slot, agent.stamp);
        self.agency.put_away(agent);
        self.bounce_limbo(slot);
        self.settle_book(slot);
    }

    // ---- handing waiters over ----

    /// QUEUED: the new agent has the agency, and the waiters below `position - 1`.
    pub(super) fn on_queued(&mut self, now: Time, header: &Header, entry: Entry) {
        let slot = entry.slot;
        let stamp = Stamp { epoch: self.epoch(), tenure: entry.tenure };
        let arrived = usize::from(header.position.saturating_sub(1));
        let from = header.source;
        let Some(book) = self.agency.get(slot) else { return };
        if let Some(handing) = book.handing.as_mut().filter(|h| h.stamp == stamp && h.to == from) {
            handing.arrived = handing.arrived.max(arrived);
            handing.attempts = 0;
            self.hand_on(now, slot);
        } else if book.agent.as_ref().and_then(|a| a.transfer_to()) == Some((from, stamp)) {
            self.on_handed_over(now, slot, from, stamp, arrived);
        }
        self.settle_book(slot);
    }

    /// The transfer stands; waiters that did not fit into its packet follow.
    fn on_handed_over(&mut self, now: Time, slot: u32, to: Handle, stamp: Stamp, arrived: usize) {
        let forget = self.config.is_broken(Mutant::ForgetQueue);
        let Some(book) = self.agency.get(slot) else { return };
        let Some(agent) = book.agent.as_mut() else { return };
        if agent.queue_len() > arrived && !forget {
            let waiters = agent.take_queue();
            book.handing = Some(Box::new(Handing { to, stamp, waiters, arrived, due: now, attempts: 0 }));
        }
        self.end_agent(slot);
        self.hand_on(now, slot);
    }

    /// Sends the next waiters, or forgets them once all have arrived.
    fn hand_on(&mut self, now: Time, slot: u32) {
        let pause = self.config.retransmit_us;
        let header = self.session.header(service::LOCK, kind::lock::QUEUE, 0);
        let Some(book) = self.agency.get(slot) else { return };
        let Some(handing) = &mut book.handing else { return };
        if handing.arrived >= handing.waiters.len() || handing.attempts == HANDING_ATTEMPTS {
            book.handing = None;
            return;
        }
        handing.attempts += 1;
        handing.due = now + (pause << handing.attempts.min(6));
        let mut batch = [Entry::default(); limits::MAX_ENTRIES];
        let count = fill(&mut batch, handing.waiters[handing.arrived..].iter(), slot);
        for entry in &mut batch[..count] {
            entry.tenure = handing.stamp.tenure;
        }
        let header = Header { destination: handing.to, position: handing.arrived as u16, ..header };
        self.out.entries(0, header, &batch[..count]);
    }

    /// QUEUE: waiters from the former agent.
    pub(super) fn on_queue(&mut self, now: Time, header: &Header, packet: &[u8]) {
        let first = Entry::read(packet, wayside_wire::BODY);
        let stamp = Stamp { epoch: self.epoch(), tenure: first.tenure };
        let order = self.config.order();
        let waiters = lock_entries(packet).map(move |entry| Party::from_entry(&entry).handed_over(order));
        self.with_agent(now, first.slot, 0, |agent, desk| {
            if agent.inherited_at(stamp) {
                let first = agent.queue_len();
                agent.take_waiters(now, header.position, waiters);
                agent.acknowledge(true, desk);
                agent.serve_arrivals(first, desk);
            }
        });
    }

    // ---- time and death ----

    /// A slot's timer: changes, claims, limbo, hand-overs.
    pub(super) fn on_slot_tick(&mut self, now: Time, at: Time, slot: u32) {
        if self.agency.books.get(slot).is_none_or(|book| book.due != at) {
            return;
        }
        if self.asks_for_freed(now, slot) || self.frees_again(now, slot) {
            return;
        }
        let book = self.agency.book(slot);
        book.due = Time::NEVER;
        let is_due = |due: Option<Time>| due.is_some_and(|due| due <= now);
        let (limbo, forget) = (is_due(book.limbo_due), is_due(book.forget));
        let claim = is_due(book.claim.as_ref().map(|c| c.due));
        let handing = is_due(book.handing.as_ref().map(|h| h.due));
        if claim {
            self.claim_again(now, slot);
        }
        if handing {
            self.hand_on(now, slot);
        }
        if limbo {
            self.on_limbo_due(now, slot);
        }
        if forget {
            self.forget_suspended(slot);
        }
        self.with_agent(now, slot, 0, |agent, desk| agent.on_tick(desk));
    }

    fn claim_again(&mut self, now: Time, slot: u32) {
        let most = self.config.retransmit_most_us;
        if let Some(claim) = self.agency.get(slot).and_then(|book| book.claim.as_mut()) {
            claim.pause = (claim.pause * 2).min(most);
            claim.due = now + claim.pause;
            self.send_claim(slot);
        }
    }

    /// Nobody adopted the slot here: somebody else has it.
    pub(super) fn forget_suspended(&mut self, slot: u32) {
        let Some(book) = self.agency.get(slot) else { return };
        book.forget = None;
        if book.agent.as_ref().is_some_and(|a| a.suspended)
            && let Some(agent) = book.agent.take()
        {
            self.agency.put_away(agent);
        }
    }

    /// DOWN: a node is dead.
    pub(super) fn on_down(&mut self, now: Time, header: &Header, body: &Heartbeat) {
        let dead: Handle = header.position;
        let Some(info) = self.session.info().copied() else { return };
        if dead == info.handle || header.destination != info.handle {
            return;
        }
        let incarnation = body.incarnation;
        let header = Header { position: dead, ..self.session.header(service::FABRIC, kind::fabric::DOWN_ACK, 0) };
        let body = Heartbeat { incarnation: body.incarnation, sequence: body.sequence, ..Heartbeat::default() };
        self.out.body(0, header, Heartbeat::BYTES, |packet, at| body.write(packet, at));
        if self.config.is_broken(Mutant::BelieveTheDead) {
            return;
        }
        // Told again until the answer arrives: every copy would look through all books.
        if !self.dead.note(dead, body.incarnation) {
            return;
        }
        self.on_queue_down(now, dead, incarnation);
        // A plain book knows of nobody but this node.
        let slots = self.agency.slots_of(|book| !book.plain && book.involves(dead));
        for &slot in &slots {
            if let Some(book) = self.agency.get(slot)
                && book.handing.as_ref().is_some_and(|h| h.to == dead)
            {
                book.handing = None;
            }
            if let Some(book) = self.agency.get(slot) {
                // A join counts for its ordinal, whoever is dead: that is seen when it leaves the limbo.
                let is_over = |entry: &Entry| self.dead.has(entry.holder, entry.request, &self.config);
                book.limbo.retain(|s| !is_over(&s.entry) || s.kind == kind::lock::JOIN);
            }
            self.with_agent(now, slot, 0, |agent, desk| agent.on_down(dead, desk));
        }
        self.agency.put_slots_away(slots);
    }
}

/// The join of which a RELEASE speaks: it carries its own grant's tenure and ordinal.
fn joined_at(entry: &Entry, stamp: Stamp, bits: SlotBits) -> Option<(Stamp, u16)> {
    (entry.flags & entry_flag::JOINED != 0).then_some((stamp, bits.joins))
}

impl Stray {
    /// Whether the packet carries the slot as the switch saw it; RELEASE and DOWNGRADE speak of their grant instead.
    fn shows_slot(&self) -> bool {
        !matches!(self.kind, kind::lock::RELEASE | kind::lock::DOWNGRADE)
    }
}

impl Book {
    /// Whether the end of this node's session changes anything here.
    fn involves(&self, node: Handle) -> bool {
        self.handing.as_ref().is_some_and(|handing| handing.to == node)
            || self.limbo.iter().any(|stray| stray.entry.holder == node)
            || self.agent.as_ref().is_some_and(|agent| agent.involves(node))
    }

    /// A census has begun: whatever this node was about to do in the slot it does not do.
    pub(super) fn suspend(&mut self, forget: Time) {
        self.claim = None;
        self.limbo.clear();
        self.limbo_due = None;
        self.seen = None;
        self.handing = None;
        if let Some(agent) = &mut self.agent {
            agent.suspend();
            self.forget = Some(forget);
        }
    }
}
