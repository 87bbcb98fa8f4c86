//! A node: what one process is to the cluster. Packets, time and wishes go in; packets and events come out.
//!
//! * `requests.rs`: the lock client's handlers (on_grant, on_busy, …) and the calls acquire, release, downgrade.
//! * `alone.rs`: the same for a lock that nobody else wants: its grant, its release and the answer to that.
//! * `freeing.rs`: how its slot goes back to the switch.
//! * `agents.rs`: the agents' handlers (on_acquire, on_join, on_retenured, …), limbo, claims, handing over.
//! * `census.rs`, `held.rs`, `adoption.rs`: the node's part in recovery: what it holds, and what it is to keep from
//!   then on.
//! * `keeping.rs`: slots that it keeps as agent though nobody holds or waits.
//! * `chain.rs`: reads and writes of keys.
//! * `domain.rs`: which locks it asks its shard for, while shards are added and drained.
//! * `queue.rs`: locks and lock servers of the queue service.
//! * `hybrid.rs`: which of the two has a name, and requests for names of both.
//! * `told.rs`: what the controller tells: who serves, who goes first.

mod adoption;
mod agents;
mod alone;
mod census;
mod chain;
mod domain;
mod freeing;
mod held;
mod hybrid;
mod keeping;
mod queue;
mod recent;
mod requests;
mod told;

use crate::agency::{Agency, Dead};
use crate::agent::{Desk, Party, Sole};
use crate::books::{Book, Books};
use crate::chain::{Client as ChainClient, Told};
use crate::domain::Domain;
use crate::fifo::Fifo;
use crate::kept::Kept;
use crate::line::{OVERTAKEN_MOST, Order, Priority};
use crate::lock::{Path, Request, Requests, State};
use crate::mutant::Mutant;
use crate::outbox::{Outbox, Transmit};
use crate::queue::{Fetches, LULL, LockServer, Requester};
use crate::seal::{Enrolment, Sealer};
use crate::session::{Change, Session, SessionInfo};
use crate::timers::{Due, Timers};
use crate::{Handle, Mode, Names, Port, RequestId, Stamp, Time, Token};
use alloc::collections::{BTreeMap, VecDeque};
use core::fmt;
use wayside_wire::{
    BODY, DropReason, Enrol, Enrolled, Entry, FabricKind, Header, Heartbeat, LockKind, Names as NamesBody, Policy,
    Refusal, SlotBits, VERSION, check, kind, limits, padded, service, slot_of,
};

/// How a node behaves.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Name of the namespace, padded with zeros.
    pub namespace: [u8; 24],
    /// Name of the host, for people, padded with zeros.
    pub host: [u8; 32],
    /// Process id, for people.
    pub pid: u32,
    /// Lease to ask for, in microseconds; 0: the namespace's own.
    pub lease_us: u32,
    /// From a random source: nonces follow from it.
    pub seed: u64,
    /// First pause before an unanswered packet is sent again, in microseconds; doubled up to `retransmit_most_us`.
    pub retransmit_us: u64,
    /// Longest such pause, in microseconds.
    pub retransmit_most_us: u64,
    /// Slots that are given back so long after one another are each asked about, in microseconds: who gives back seldom
    /// has all of it confirmed as soon as it can be.
    pub seldom_us: u64,
    /// The latest version of packets that it uses, whatever its switch speaks: another one where a test wants an
    /// earlier node.
    pub version: u8,
    /// How long an unknown join is waited for before the controller is asked, in microseconds.
    pub gap_us: u64,
    /// First value of the request counter: 1, or more where a test wants its end to be near.
    pub first_request: u64,
    /// Sequence of the first heartbeat: 1, or more where a test wants the end of 56 bits to be near.
    pub first_beat: u64,
    /// Requests at a time.
    pub requests_most: usize,
    /// Waiters of an agent beyond which more are told BUSY with RETRY: `position` counts them in 16 bits.
    pub waiters_most: usize,
    /// With more requests than these, what a slot's census asks for is not found by looking at all of them.
    pub scanned_most: usize,
    /// Entries of a report's page: as many as fit, or fewer where a test wants many pages.
    pub page_entries: usize,
    /// Retired requests that an agent remembers; a ghost beyond that is granted once more and given back.
    pub retired_most: usize,
    /// Slots that it keeps as agent though nobody holds or awaits anything there, at most: locks that it uses again and
    /// again cost no packet then. 0: none.
    pub kept_most: usize,
    /// How often a waiter is overtaken at most by those who go before it, in the namespace: known once the session has
    /// begun.
    pub overtaken_most: u8,
    /// Who goes first in the namespace: known once the session has begun.
    pub policy: Policy,
    /// [`crate::Shards::fingerprint`] of those that it divides names among, and of the one that it is to have its
    /// session with; 0: there is one.
    pub shards: u32,
    /// Where names are divided: what it asks for, whoever asks it for more. None: for anything.
    pub domain: Option<Domain>,
    /// Where its namespace's locks are queues: it offers itself as their lock server.
    pub lock_server: bool,
    /// As one, it tells so often what it is asked for most. Microseconds.
    pub asked_us: u64,
    /// A lock that was asked for with a priority within this time it does not cede to the switch. Microseconds.
    pub lull_us: u64,
    /// A rule to break, for the simulator's own tests.
    pub mutant: Option<Mutant>,
}

impl NodeConfig {
    /// The defaults, in the namespace `default`. `seed` must differ from that of every other node.
    pub fn new(seed: u64) -> NodeConfig {
        NodeConfig {
            namespace: padded("default").unwrap_or_default(),
            host: [0; 32],
            pid: 0,
            lease_us: 0,
            seed,
            retransmit_us: 5_000,
            retransmit_most_us: 500_000,
            seldom_us: 200,
            version: VERSION,
            gap_us: 20_000,
            first_request: 1,
            first_beat: 1,
            // Each may take two entries of a report, which has 65,535 pages of 31: more could not be told to a census.
            requests_most: 1_015_000,
            waiters_most: 60_000,
            scanned_most: 1_024,
            page_entries: limits::MAX_ENTRIES - 1,
            retired_most: 1_024,
            kept_most: 0,
            overtaken_most: OVERTAKEN_MOST,
            policy: Policy::Fair,
            shards: 0,
            domain: None,
            lock_server: false,
            asked_us: 1_000_000,
            lull_us: LULL,
            mutant: None,
        }
    }

    /// What a node asks for, by a packet or over a secure connection. The same nonce asks for the same session.
    pub fn question(&self, nonce: u64) -> Enrol {
        let NodeConfig { pid, lease_us, namespace, host, .. } = *self;
        Enrol { nonce, pid, lease_us, namespace_name: namespace, host }
    }

    /// By what its agents' lines are ordered.
    pub(crate) fn order(&self) -> Order {
        Order { overtaken_most: self.overtaken_most, policy: self.policy, mutant: self.mutant }
    }

    /// Whether this rule is broken on purpose: never, unless built with the feature `mutants`.
    #[inline]
    pub fn is_broken(&self, mutant: Mutant) -> bool {
        cfg!(feature = "mutants") && self.mutant == Some(mutant)
    }

    /// Whether a grant of this stamp is new to a request with this floor.
    #[inline]
    pub(crate) fn is_above(&self, floor: Stamp, stamp: Stamp) -> bool {
        stamp > floor || self.is_broken(Mutant::IgnoreFloor)
    }
}

/// What a node tells its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The session has begun.
    Enrolled(SessionInfo),
    /// There will be no session, and why.
    Refused(Refusal),
    /// The request holds its name until released, lost, or the session's lease ends.
    Granted {
        /// Which.
        request: RequestId,
        /// Its fencing token.
        token: Token,
        /// Its mode.
        mode: Mode,
        /// Who decided: switch, another node's agent, this node's own.
        path: Path,
    },
    /// A try was refused.
    Busy {
        /// Which.
        request: RequestId,
        /// The node whose agent keeps the slot; 0 if unknown.
        agent: Handle,
    },
    /// The deadline came first.
    TimedOut {
        /// Which.
        request: RequestId,
        /// The namespace's budget has refused it meanwhile.
        over_budget: bool,
    },
    /// The hold is shared now, under the same token.
    Downgraded {
        /// Which.
        request: RequestId,
    },
    /// The request, held or waiting, went down with the session.
    Lost {
        /// Which.
        request: RequestId,
    },
    /// There is something to see of a watch: [`Node::look_at_watch`].
    Watch(crate::chain::WatchId),
    /// Something became of a request for a key.
    Chain {
        /// Which.
        request: RequestId,
        /// What.
        told: Told,
    },
    /// The session is over; every request was lost. A new node must enrol.
    SessionLost,
    /// The session ended as asked.
    Left,
}

/// A hold, for display and for checkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Which request.
    pub request: RequestId,
    /// Name id.
    pub name: u64,
    /// Slot of the name.
    pub slot: u32,
    /// Mode.
    pub mode: Mode,
    /// Token.
    pub token: Token,
    /// Since when.
    pub since: Time,
}

/// A wait, for display and for checkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Which request.
    pub request: RequestId,
    /// Name id.
    pub name: u64,
    /// Slot of the name.
    pub slot: u32,
    /// Mode.
    pub mode: Mode,
    /// How urgent it is.
    pub priority: Priority,
    /// Since when.
    pub since: Time,
}

/// Whom an agent has in its books, for checkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Booked {
    /// Handle of its node.
    pub holder: Handle,
    /// Which request there.
    pub request: RequestId,
    /// Of its grant; None: it waits.
    pub token: Option<Token>,
    /// It does not queue.
    pub tries: bool,
    /// It waits for its place in the line until waiters from a former agent have arrived.
    pub is_late: bool,
    /// Name id.
    pub name: u64,
    /// Mode.
    pub mode: Mode,
    /// If it waits, how urgent it is,
    pub priority: Priority,
    /// and how often it was overtaken.
    pub overtaken: u8,
}

/// One process's session, requests and agents.
pub struct Node {
    config: NodeConfig,
    session: Session,
    /// Signs and opens packets, where the session has a secret.
    sealer: Option<Sealer>,
    /// The latest that was told in this epoch.
    turn: u64,
    /// The change of the namespace's policy that was told last; 0: none since the session began.
    policy_change: u64,
    /// The packet before came from whoever serves now, as far as this node knows.
    called: bool,
    requests: Requests,
    agency: Agency,
    kept: Kept,
    dead: Dead,
    timers: Timers,
    /// Of the call under way: tells timers that are near from those that are not.
    now: Time,
    out: Outbox,
    events: Fifo<Event>,
    local: VecDeque<Party>,
    nonce: u64,
    reports: census::Reports,
    chain: ChainClient,
    queue: Requester,
    fetches: Fetches,
    /// Some session's locks were queues, or somebody has sent a packet of theirs.
    has_had_queues: bool,
    server: Option<LockServer>,
    /// It has left because it could not be sure of what it held.
    is_bereft: bool,
    adoptions: adoption::Adoptions,
    held: held::Held,
    frees: freeing::Frees,
    /// The last acquire, release or packet was of a lock that nobody else wants.
    is_quick: bool,
    dropped: u64,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests: BTreeMap<RequestId, &Request> = self.requests.iter().collect();
        let books: BTreeMap<u32, &Book> = self.agency.books.iter().collect();
        let session = self.session.info();
        f.debug_struct("Node")
            .field("session", &session)
            .field("requests", &requests)
            .field("books", &books)
            .finish_non_exhaustive()
    }
}

/// The header's byte that has the sender's version.
const VERSION_AT: usize = 2;
/// Events and local grants for which there is room from the beginning: they are taken after every call.
const QUEUED: usize = 32;

impl Node {
    /// A node that has not begun to enrol.
    pub fn new(config: NodeConfig) -> Node {
        Node {
            session: Session::new(config.clone()),
            sealer: None,
            turn: 0,
            policy_change: 0,
            called: false,
            chain: ChainClient::new(config.retransmit_us, config.retransmit_most_us),
            nonce: wayside_wire::mix(config.seed),
            requests: Requests::new(config.requests_most),
            queue: Requester::new(&config),
            fetches: Fetches::default(),
            has_had_queues: false,
            server: None,
            is_bereft: false,
            kept: Kept::new(config.kept_most),
            config,
            agency: Agency::default(),
            dead: Dead::default(),
            timers: Timers::default(),
            now: Time(0),
            out: Outbox::new(),
            events: Fifo::with_room(QUEUED),
            local: VecDeque::with_capacity(QUEUED),
            reports: census::Reports::default(),
            adoptions: adoption::Adoptions::default(),
            held: held::Held::default(),
            frees: freeing::Frees::default(),
            is_quick: false,
            dropped: 0,
        }
    }

    /// Begins to enrol, by packets.
    pub fn start(&mut self, now: Time) {
        self.session.start(now, &mut self.out);
    }

    /// Begins the session that a secure connection has brought, in place of [`Node::start`]. The lease runs from
    /// `asked`: the moment before the first question for it went.
    pub fn begin(&mut self, now: Time, asked: Time, enrolment: &Enrolment) {
        let change = self.session.begin(now, asked, enrolment);
        if change.is_some() {
            let sealer = |secret| Sealer::new(secret, enrolment.incarnation, enrolment.epoch);
            self.sealer = enrolment.secret.map(sealer);
        }
        self.on_change(change);
        self.end_if_over(now);
    }

    /// The session, while it lives.
    pub fn session(&self) -> Option<SessionInfo> {
        let info = self.session.info()?;
        Some(SessionInfo { lease_end: info.lease_end.min(self.queue.holds_end()), ..*info })
    }

    /// Until when the session itself lasts: the answer to a heartbeat moves it on, whatever is held.
    pub fn session_end(&self) -> Option<Time> {
        self.session.info().map(|info| info.lease_end)
    }

    /// Ends the session: LEAVE until LEFT. What is still held or awaited is lost at once: the controller gives it to
    /// others when the first LEAVE arrives, whether its answer does or not.
    pub fn leave(&mut self, now: Time) {
        let clean = self.is_idle();
        let change = self.session.leave(now, clean, &mut self.out);
        self.lose_requests();
        self.on_change(change);
    }

    /// Whether nothing is held, awaited or kept for others: a good moment to leave.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.agency.books.is_empty() && self.queue.is_empty()
    }

    /// A UDP payload from the switch, whichever local port it came to.
    pub fn on_packet(&mut self, now: Time, packet: &[u8]) {
        self.end_if_over(now);
        (self.called, self.is_quick) = (false, false);
        if self.handle_packet(now, packet).is_err() {
            self.dropped += 1;
        }
    }

    /// Does what is due, as far as its packets fit into the outbox: when they are sent, [`Node::next_timer`] says at
    /// once that there is more. A process that slept sends its retransmissions in pieces, not all of them under one
    /// lock.
    pub fn on_tick(&mut self, now: Time) {
        self.end_if_over(now);
        if self.chain.next_timer() <= now {
            self.on_chain_tick(now);
        }
        self.on_queue_tick(now);
        while !self.out.is_full() {
            if self.session.due() <= now {
                self.on_session_tick(now);
                continue;
            }
            if self.adoptions.due() <= now {
                self.on_adoptions_tick(now);
                continue;
            }
            if self.kept.due() <= now {
                self.on_kept_tick(now);
                continue;
            }
            match self.timers.due(now) {
                None => return,
                Some((at, Due::Request(RequestId(id)))) => self.on_request_tick(now, at, id),
                Some((at, Due::Slot(slot))) => self.on_slot_tick(now, at, slot),
            }
        }
    }

    /// When [`Node::on_tick`] is wanted. To be asked after every call: this is where timers are forgotten that
    /// something has made needless.
    #[inline]
    pub fn next_timer(&mut self) -> Option<Time> {
        let owners = self.requests.room() + self.agency.books.room();
        if self.timers.is_crowded(owners) {
            self.drop_stale_timers(owners);
        }
        let Node { timers, requests, agency, .. } = self;
        let next = timers.next(|at, due| is_current(requests, &agency.books, at, due));
        let next = next.min(self.session.due()).min(self.adoptions.due()).min(self.chain.next_timer());
        let next = next.min(self.next_queue_timer()).min(self.kept.due());
        (next != Time::NEVER).then_some(next)
    }

    /// Whether the last call, which was [`Node::acquire`], [`Node::release`] or [`Node::on_packet`], was of a lock that
    /// nobody else wants, as nearly all are: what is due because of it [`Node::wants_a_look_before`] knows.
    #[inline]
    pub fn was_quick(&self) -> bool {
        self.is_quick
    }

    /// Whether such calls since [`Node::next_timer`] was asked are a reason to ask it before `time`: a timer was set,
    /// or there are too many that are needless. Who asks by then anyway need not ask now.
    #[inline]
    pub fn wants_a_look_before(&self, time: Time) -> bool {
        self.timers.want_a_look_before(time)
    }

    /// The next packet to send to the switch.
    #[inline]
    pub fn transmit(&mut self) -> Option<Transmit<'_>> {
        self.out.pop(self.sealer.as_ref())
    }

    /// Whether the session's packets are signed: one from whoever can't is refused.
    pub fn signs(&self) -> bool {
        self.sealer.is_some()
    }

    /// The latest turn of the epoch that a switch has told: with the epoch, which switch the session is at.
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// Whether the packet before is one that nobody sends but the switch that serves, by all that this node knows: a
    /// census of everything in its epoch, of which nothing has come yet, or the latest turn of it. Who has followed
    /// somebody else meanwhile is to go where it came from, though it tells nothing new.
    pub fn is_called(&self) -> bool {
        self.called
    }

    /// How often the session's keys have changed in this epoch, as far as this node knows.
    pub fn rotation(&self) -> u32 {
        self.sealer.as_ref().map_or(0, Sealer::rotation)
    }

    /// The next thing to tell the owner.
    #[inline]
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// Packets that were dropped: malformed, stale, or not for this node.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// What is held.
    pub fn holds(&self) -> impl Iterator<Item = Hold> + '_ {
        let held = self.requests.iter().filter_map(|(request, r)| match r.state {
            State::Held { token, .. } => {
                Some(Hold { request, name: r.name, slot: r.slot, mode: r.mode, token, since: r.since })
            }
            _ => None,
        });
        held.chain(self.queue.requests().filter_map(|(request, r)| {
            let token = Token::of_ticket(self.epoch(), r.ticket()?);
            Some(Hold { request, name: r.name, slot: self.slot_of(r.name), mode: r.mode, token, since: r.since })
        }))
    }

    /// What is awaited.
    pub fn waits(&self) -> impl Iterator<Item = Wait> + '_ {
        let waits = self.requests.iter().filter(|(_, r)| r.waits()).map(|(request, r)| Wait {
            request,
            name: r.name,
            slot: r.slot,
            mode: r.mode,
            priority: r.priority,
            since: r.since,
        });
        waits.chain(self.queue.requests().filter(|(_, r)| r.waits()).map(|(request, r)| Wait {
            request,
            name: r.name,
            slot: self.slot_of(r.name),
            mode: r.mode,
            priority: r.priority,
            since: r.since,
        }))
    }

    /// Who holds and who waits by the books of this node's agent of `slot`; None without an agent that may act.
    pub fn books(&self, slot: u32) -> Option<impl Iterator<Item = Booked> + '_> {
        let book = self.agency.books.get(slot)?;
        let agent = book.agent.as_ref().filter(|agent| !agent.suspended);
        if agent.is_none() && book.sole.as_ref().is_none_or(|sole| sole.suspended) {
            return None;
        }
        let booked = |party: &Party, token, is_late| Booked {
            holder: party.holder,
            request: RequestId(party.request),
            token,
            tries: party.tries,
            is_late,
            name: party.name,
            mode: party.mode,
            priority: party.rank.priority,
            overtaken: party.rank.overtaken,
        };
        let sole = book.sole.as_ref().filter(|sole| !sole.suspended).and_then(Sole::party);
        let sole = sole.map(|party| booked(&party, Some(party.token), false));
        let holders = agent.into_iter().flat_map(|agent| agent.holders());
        let waiters = agent.into_iter().flat_map(|agent| agent.line());
        let late = agent.into_iter().flat_map(|agent| agent.late());
        let holders = holders.map(move |party| booked(party, Some(party.token), false));
        let waiters = waiters.map(move |party| booked(party, None, false));
        let late = late.map(move |party| booked(party, None, true));
        Some(sole.into_iter().chain(holders).chain(waiters).chain(late))
    }

    /// Who waits by the books of this node's agents, slot by slot, in the order in which they are served.
    pub fn queues(&self) -> impl Iterator<Item = (u32, Booked)> + '_ {
        let acting = |book: &'_ Book| book.agent.as_ref().is_some_and(|agent| !agent.suspended && agent.has_waiters());
        let slots = self.agency.books.iter().filter(move |(_, book)| acting(book)).map(|(slot, _)| slot);
        slots.flat_map(|slot| {
            let waiting = |booked: &Booked| booked.token.is_none() && !booked.tries;
            self.books(slot).into_iter().flatten().filter(waiting).map(move |booked| (slot, booked))
        })
    }

    // ---- packets ----

    fn handle_packet(&mut self, now: Time, packet: &[u8]) -> Result<(), DropReason> {
        let header = check(packet)?;
        if let Some(sealer) = &mut self.sealer
            && !sealer.open(&header_of(packet)?, packet)
            && !self.config.is_broken(Mutant::AnyTag)
        {
            return Err(DropReason::BadTag);
        }
        if header.service == service::FABRIC {
            return self.on_fabric(now, &header_of(packet)?, packet);
        }
        let info = self.session.info().ok_or(DropReason::SourceNotLive)?;
        if header.destination != info.handle {
            return Err(DropReason::DestinationNotLive);
        }
        if header.namespace != info.namespace {
            return Err(DropReason::UnknownNamespace);
        }
        if header.service == service::CHAIN {
            self.on_chain(now, &header_of(packet)?, packet);
            return Ok(());
        }
        if header.service == service::QUEUE {
            return self.on_queue_packet(now, packet);
        }
        if header.service != service::LOCK {
            return Err(DropReason::UnknownService);
        }
        if header.kind == kind::lock::CENSUS {
            return self.on_census(now, &header_of(packet)?, packet);
        }
        if header.epoch != info.epoch {
            return Err(DropReason::StaleEpoch);
        }
        let slots = info.slots;
        for entry in lock_entries(packet) {
            if entry.slot >= slots {
                return Err(DropReason::BadSlot);
            }
        }
        match header.kind {
            kind::lock::GRANT => self.on_grant(now, packet),
            kind::lock::RETENURED if self.end_alone(header.flags, packet) => {
                self.is_quick = true;
                Ok(())
            }
            _ => self.on_lock(now, &header_of(packet)?, packet),
        }
    }

    fn on_fabric(&mut self, now: Time, header: &Header, packet: &[u8]) -> Result<(), DropReason> {
        let change = match FabricKind::try_from(header.kind).map_err(|_| DropReason::UnknownKind)? {
            FabricKind::Enrolled => self.session.on_enrolled(now, header, &Enrolled::read(packet, BODY)),
            FabricKind::Names => {
                let told = NamesBody::read(packet, BODY);
                self.session.on_names(header.epoch, told.nonce, Names::read(packet, &told));
                None
            }
            FabricKind::HeartbeatAck => {
                let (version, body) = (packet[VERSION_AT], Heartbeat::read(packet, BODY));
                self.session.on_heartbeat_ack(now, version, header, &body)
            }
            FabricKind::Left => self.session.on_left(&Heartbeat::read(packet, BODY)),
            FabricKind::Down => {
                self.on_down(now, header, &Heartbeat::read(packet, BODY));
                None
            }
            FabricKind::Policy => {
                self.on_policy(header, &Heartbeat::read(packet, BODY));
                None
            }
            FabricKind::Turn => {
                self.on_turn(now, header, &Heartbeat::read(packet, BODY));
                None
            }
            // The census that follows a restart brings the new epoch; until then there is nothing to do.
            FabricKind::Stale => None,
            _ => return Err(DropReason::UnknownKind),
        };
        self.on_change(change);
        Ok(())
    }

    fn on_lock(&mut self, now: Time, header: &Header, packet: &[u8]) -> Result<(), DropReason> {
        let first = Entry::read(packet, BODY);
        match LockKind::try_from(header.kind).map_err(|_| DropReason::UnknownKind)? {
            LockKind::Acquire | LockKind::Release | LockKind::Cancel | LockKind::Downgrade | LockKind::Join => {
                self.on_forwarded(now, header, first);
            }
            LockKind::Released => self.on_released(&first),
            LockKind::Retenured => self.on_retenured(now, header, first),
            LockKind::Busy => self.on_busy(now, header, &first),
            LockKind::Recovering => {
                for entry in lock_entries(packet) {
                    self.on_recovering(now, &entry);
                }
            }
            LockKind::Reject => self.on_reject(now, &first),
            LockKind::Freed => self.on_freed(now, header, packet),
            LockKind::Queue => self.on_queue(now, header, packet),
            LockKind::Queued => self.on_queued(now, header, first),
            LockKind::Adopt => self.on_adopt(now, header, packet),
            LockKind::Inspect => {
                for entry in lock_entries(packet) {
                    self.on_inspect(now, entry);
                }
            }
            _ => return Err(DropReason::UnknownKind),
        }
        Ok(())
    }

    // ---- session ----

    fn on_change(&mut self, change: Option<Change>) {
        match change {
            None => {}
            Some(Change::Enrolled) => {
                if let Some(&info) = self.session.info() {
                    self.policy_change = 0;
                    self.decide_by(info.policy, info.patience);
                    self.requests.start(info.incarnation, self.config.first_request);
                    self.chain.start(info.incarnation, self.config.first_request);
                    self.start_queue(self.now, info.incarnation);
                    self.events.push(Event::Enrolled(info));
                }
            }
            Some(Change::Followed(pledge)) => self.follow_to(pledge),
            Some(Change::Refused(refusal)) => self.events.push(Event::Refused(refusal)),
            Some(Change::Lost) => self.lose_everything(Event::SessionLost),
            Some(Change::Left) if self.is_bereft => self.lose_everything(Event::SessionLost),
            Some(Change::Left) => self.lose_everything(Event::Left),
        }
    }

    /// The session is over, and with it every request and every agent.
    fn lose_everything(&mut self, last: Event) {
        self.lose_requests();
        self.out.clear();
        self.events.push(last);
    }

    fn lose_requests(&mut self) {
        let mut lost: alloc::vec::Vec<RequestId> = self
            .requests
            .drain()
            .into_iter()
            .filter(|(_, r)| !matches!(r.state, State::Returning { .. }))
            .map(|(id, _)| id)
            .collect();
        lost.sort_unstable();
        lost.into_iter().for_each(|request| self.events.push(Event::Lost { request }));
        self.chain.lose_everything();
        self.tell_chain();
        self.lose_queue();
        self.agency.clear();
        self.kept.clear();
        self.adoptions = adoption::Adoptions::default();
        self.held.forget();
        self.frees.forget();
        self.dead.clear();
        self.timers.clear();
    }

    /// A process that was stopped may go on after the end of its lease: nothing may be granted or changed before it
    /// knows.
    pub(super) fn end_if_over(&mut self, now: Time) {
        self.now = now;
        if self.session.lease_is_over(now) && self.session.is_live() {
            self.on_session_tick(now);
        } else if self.queue.holds_end() <= now {
            self.lose_session(now);
        }
    }

    fn on_session_tick(&mut self, now: Time) {
        let oldest = self.oldest();
        let change = self.session.on_tick(now, oldest, &mut self.out);
        self.on_change(change);
    }

    /// The oldest request of either kind: one counter gives all their ids.
    fn oldest(&mut self) -> u64 {
        let own = self.requests.oldest();
        let queued = self.queue.oldest().filter(|_| !self.config.is_broken(Mutant::OldestOfOne));
        own.min(queued.unwrap_or(u64::MAX))
    }

    #[cold]
    fn drop_stale_timers(&mut self, owners: usize) {
        let Node { timers, requests, agency, .. } = self;
        timers.drop_stale(owners, |at, due| is_current(requests, &agency.books, at, due));
    }

    // ---- shared by the handlers ----

    #[inline]
    fn handle(&self) -> Handle {
        self.session.info().map_or(0, |info| info.handle)
    }

    fn slot_of(&self, name: u64) -> u32 {
        self.session.info().map_or(0, |info| slot_of(name, info.slots))
    }

    #[inline]
    fn epoch(&self) -> u32 {
        self.session.info().map_or(0, |info| info.epoch)
    }

    /// The slot as a packet shows it.
    fn snapshot(&self, entry: &Entry) -> (Stamp, SlotBits) {
        (Stamp { epoch: self.epoch(), tenure: entry.tenure }, SlotBits::from_u16(entry.slot_bits))
    }

    fn send(&mut self, port: Port, kind: u8, destination: Handle, position: u16, entry: Entry) {
        let header = Header { position, ..self.session.header(service::LOCK, kind, destination) };
        self.out.entry(port, header, &entry);
    }

    /// Lets an agent (or whoever needs the desk) work, then passes on what it granted to this very node.
    fn at_desk<R>(&mut self, now: Time, port: Port, work: impl FnOnce(&mut Agency, &mut Desk) -> R) -> R {
        let mut desk = Desk {
            me: self.session.info().map_or(0, |info| info.handle),
            now,
            port,
            header: self.session.header(service::LOCK, 0, 0),
            config: &self.config,
            dead: &self.dead,
            nonce: &mut self.nonce,
            out: &mut self.out,
            local: &mut self.local,
            kept: &mut self.kept,
        };
        work(&mut self.agency, &mut desk)
    }

    #[inline]
    fn set_request_timer(timers: &mut Timers, now: Time, id: u64, request: &mut Request, at: Time) {
        request.due = if request.waits() { request.deadline.min(at) } else { at };
        timers.set(now, request.due, Due::Request(RequestId(id)));
    }

    /// Sets the slot's timer to its next need, or drops a book that keeps nothing.
    fn settle_book(&mut self, slot: u32) {
        let Some(place) = self.agency.books.find(slot) else { return };
        let book = self.agency.books.at_mut(place);
        if book.is_idle() {
            return self.agency.close(place);
        }
        if book.plain {
            return;
        }
        if self.kept.is_on() {
            self.lay_to_rest(place);
        }
        let book = self.agency.books.at_mut(place);
        let due = book.next_due();
        if due != book.due {
            book.due = due;
            if due != Time::NEVER {
                self.timers.set(self.now, due, Due::Slot(slot));
            }
        }
    }
}

/// Whether this is still the time for which its owner has set its timer.
#[inline]
fn is_current(requests: &Requests, books: &Books, at: Time, due: Due) -> bool {
    match due {
        Due::Request(RequestId(id)) => requests.get(id).is_some_and(|r| r.due == at),
        Due::Slot(slot) => books.get(slot).is_some_and(|b| b.due == at),
    }
}

/// The header of a packet that `check` has passed, for those who want it as a whole. Were it lent to them from where it
/// is read first, it would lie in memory, not in registers, for all the others too.
#[inline]
fn header_of(packet: &[u8]) -> Result<Header, DropReason> {
    Header::read(packet)
}

/// The entries of a lock packet that `check` has passed: there is no other body in that service.
#[inline]
fn lock_entries(packet: &[u8]) -> impl Iterator<Item = Entry> + '_ {
    packet[BODY..].chunks_exact(limits::ENTRY_BYTES).map(|entry| Entry::read(entry, 0))
}

/// Who decided a grant that came in a packet.
fn decider(is_the_switch: bool) -> Path {
    if is_the_switch { Path::Switch } else { Path::Agent }
}

#[cfg(test)]
mod tests;
