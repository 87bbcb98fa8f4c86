//! What the session's lock guards: the protocol machine, and who waits for which request.
//!
//! Invariants: in `book`, exactly the requests of this incarnation that wait or hold are not over. Nothing in
//! here makes a system call, wakes anybody or runs a caller's code: that is noted as [`Errands`] and done when the
//! lock is free again, so the lock is held for a microsecond at most.

use crate::book::Book;
use crate::errands::Errands;
use crate::fetch::Server;
use crate::links::Others;
use crate::name::Named;
use crate::observe::{Loss, Observer};
use crate::port::{Numbers, Place};
use crate::questions::Questions;
use crate::request::{Begun, Grant, Standing};
use crate::watch::Watchers;
use crate::{Error, Name, NodeId, clock, task};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddrV4;
use std::task::Waker;
use std::time::Duration;
use wayside_protocol::{Acquire, AcquireError, Event, Mode, Node, Path, Priority, RequestId, SessionInfo, Time, Token};
use wayside_wire::{BODY, Header, Heartbeat, Refusal, kind, service};

/// How far the session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Asking the switch for a session.
    Enrolling,
    Live,
    /// The switch will not have it, for this reason.
    Refused(Refusal),
    /// It is over; the background thread begins another.
    Lost,
    /// This process ended it.
    Closed,
}

/// Grants of a session by who decided, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// By the switch: half a round trip there, half back.
    pub switch: u64,
    /// By the agent of the slot on another node.
    pub agent: u64,
    /// By this node's own agent, without a packet.
    pub local: u64,
}

/// What is wanted, of one lock or of several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) mode: Mode,
    pub(crate) tries: bool,
    /// The level that was asked for, if there is none such.
    pub(crate) priority: Result<Priority, u8>,
    pub(crate) wait: Option<Duration>,
    /// Longest hold, in microseconds from the grant.
    pub(crate) longest: Option<u64>,
}

impl Terms {
    pub(crate) const PLAIN: Terms =
        Terms { mode: Mode::Exclusive, tries: false, priority: Ok(Priority::NORMAL), wait: None, longest: None };

    pub(crate) fn set_priority(&mut self, level: u8) {
        self.priority = Priority::new(level).ok_or(level);
    }

    /// Whether they can be asked for.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.priority.map(|_| ()).map_err(Error::InvalidPriority)
    }

    /// When to give up. A try is answered at once or not at all.
    pub(crate) fn deadline(&self, since: Time, patience: Duration) -> Option<Time> {
        let wait = if self.tries { Some(patience) } else { self.wait };
        wait.map(|wait| clock::after(since, wait))
    }

    /// Each hold ends so long after its grant.
    pub(crate) fn hold_at_most(&mut self, longest: Duration) {
        self.longest = Some(u64::try_from(longest.as_micros()).unwrap_or(u64::MAX));
    }

    #[inline]
    fn acquire(&self, name: u64, deadline: Option<Time>, answer: Answer) -> Acquire {
        let priority = self.priority.unwrap_or_default();
        Acquire { name, mode: self.mode, try_: self.tries, priority, deadline, port: answer.number }
    }
}

/// Where the answer is to arrive: a port and its local UDP number.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) place: Place,
    pub(crate) number: u16,
}

pub(crate) struct Core {
    pub(crate) node: Node,
    /// Of the latest visit: for the node, time does not go back.
    pub(crate) latest: Time,
    pub(crate) phase: Phase,
    /// What was said last to who asks for a session; none since one has begun.
    pub(crate) refused: Option<Refusal>,
    /// The switch's epoch when the latest session began.
    pub(crate) begun_under: u32,
    /// The session's.
    pub(crate) switch: SocketAddrV4,
    /// Where it was before, if it has moved. What that one has said last may have come by the same sockets, and be read
    /// now.
    pub(crate) former: Option<SocketAddrV4>,
    pub(crate) book: Book,
    /// About keys.
    pub(crate) questions: Questions,
    /// Who waits for watches.
    pub(crate) watchers: Watchers,
    /// 0 is the agent's.
    pub(crate) ports: Numbers,
    /// Ends of holds that have one. Stale where the hold is over: `book` knows.
    limits: BinaryHeap<Reverse<(Time, RequestId)>>,
    /// As of the latest heartbeat.
    lease_end: Option<Time>,
    /// Who answers those who are granted locks by way of this session.
    server: Option<Server>,
    /// Tasks that wait for the session to begin.
    pub(crate) newcomers: Vec<Waker>,
    /// How often a hold or a wait ended that nobody here gave up and no answer ended: who waits for several looks at
    /// all of them then.
    pub(crate) upsets: u64,
    /// Tasks that wait for several requests, each by the first of these: to be called when one of them is upset.
    gatherers: HashMap<RequestId, Waker>,
    /// Of the call under way, kept for their room.
    wants: Vec<Acquire>,
    ids: Vec<RequestId>,
    pub(crate) grants: Grants,
    pub(crate) observer: Observer,
}

const HEARTBEAT_BYTES: usize = BODY + Heartbeat::BYTES;
/// Ends of holds that may be stale, at least.
const STALE_LIMITS: usize = 64;

impl Core {
    pub(crate) fn new(node: Node, switch: SocketAddrV4) -> Core {
        Core {
            node,
            latest: Time(0),
            phase: Phase::Enrolling,
            refused: None,
            begun_under: 0,
            switch,
            former: None,
            book: Book::default(),
            questions: Questions::default(),
            watchers: Watchers::default(),
            ports: Numbers::default(),
            limits: BinaryHeap::with_capacity(2 * STALE_LIMITS),
            lease_end: None,
            server: None,
            newcomers: Vec::new(),
            upsets: 0,
            gatherers: HashMap::new(),
            wants: Vec::new(),
            ids: Vec::new(),
            grants: Grants::default(),
            observer: Observer::default(),
        }
    }

    /// Begins a request, which may be granted by way of another node.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        now: Time,
        name: Named<'_>,
        terms: &Terms,
        deadline: Option<Time>,
        answer: Answer,
        fetches: Option<(NodeId, &[u8])>,
    ) -> Result<Begun, AcquireError> {
        if self.phase != Phase::Live {
            return Err(AcquireError::NoSession);
        }
        let want = terms.acquire(name.id, deadline, answer);
        let id = match fetches {
            None => self.node.acquire(now, want)?,
            Some((NodeId(third), ask)) => self.node.acquire_by(now, want, third, ask)?,
        };
        Ok(self.enter(now, id, name, terms, answer))
    }

    /// From now on, in this session and those after it. Who did before is for the caller to drop, without the lock.
    pub(crate) fn serve_fetches(&mut self, server: Server) -> Option<Server> {
        self.node.serve_fetches(true);
        self.server.replace(server)
    }

    /// Nobody's questions are answered any more. Who did is for the caller to drop, without the lock.
    pub(crate) fn serve_no_more(&mut self) -> Option<Server> {
        self.node.serve_fetches(false);
        self.server.take()
    }

    /// The session's machine is a new one.
    pub(crate) fn take_node(&mut self, mut node: Node) {
        node.take_watches(self.node.leave_watches());
        node.serve_fetches(self.server.is_some());
        self.node = node;
    }

    /// Begins requests for several names, to be granted in the order that all nodes have; their list takes the memory
    /// of `room`.
    pub(crate) fn begin_many(
        &mut self,
        now: Time,
        names: &mut Vec<Named<'_>>,
        terms: &Terms,
        deadline: Option<Time>,
        answer: Answer,
        room: &mut Vec<Begun>,
    ) -> Result<Vec<Begun>, AcquireError> {
        self.info().ok_or(AcquireError::NoSession)?;
        // Not by a function of the name: a division for every comparison.
        names.iter_mut().for_each(|name| name.slot = self.node.place_of(name.id));
        names.sort_unstable_by_key(|name| (name.slot, name.id));
        names.dedup_by_key(|name| name.id);
        let (mut wants, mut ids) = (std::mem::take(&mut self.wants), std::mem::take(&mut self.ids));
        wants.extend(names.iter().map(|name| terms.acquire(name.id, deadline, answer)));
        let asked = self.node.acquire_many(now, &wants, &mut ids);
        let mut begun = std::mem::take(room);
        begun.extend(names.iter().zip(ids.drain(..)).map(|(name, id)| self.enter(now, id, *name, terms, answer)));
        wants.clear();
        (self.wants, self.ids) = (wants, ids);
        asked.map(|()| begun)
    }

    #[inline]
    fn enter(&mut self, now: Time, id: RequestId, name: Named<'_>, terms: &Terms, answer: Answer) -> Begun {
        let (begun, request) = self.book.enter(id);
        request.standing = Standing::Waiting;
        request.mode = terms.mode;
        request.name = name.id;
        request.text.clear();
        if let Name::Text(text) = name.name {
            request.text.push_str(text);
        }
        request.since = now;
        request.gathered_by = None;
        request.longest = terms.longest;
        request.tries = terms.tries;
        request.priority = terms.priority.unwrap_or_default();
        request.waiter = Some(answer.place).filter(|&place| place != Place::REACTOR);
        request.task = if request.waiter.is_some() { task::of_thread() } else { task::of_future() };
        begun
    }

    /// Ends what its owner has no use for any more, held or not. False: it was over already.
    #[inline]
    pub(crate) fn give_up(&mut self, now: Time, begun: Begun, errands: &mut Errands) -> bool {
        let request = self.book.of(begun);
        let standing = std::mem::replace(&mut request.standing, Standing::Spare);
        errands.forget(&mut request.listeners);
        match standing {
            Standing::Held => {
                self.node.release(now, begun.id);
                errands.is_quick &= self.node.was_quick();
            }
            Standing::Waiting => {
                self.node.cancel(now, begun.id);
                errands.is_quick = false;
            }
            _ => {}
        }
        self.book.end(begun.id);
        self.book.close(begun);
        matches!(standing, Standing::Held | Standing::Waiting)
    }

    /// When something is due: a timer of the protocol, or the end of a hold.
    #[inline]
    pub(crate) fn next_timer(&mut self) -> Time {
        let node = self.node.next_timer().unwrap_or(Time(u64::MAX));
        if self.limits.is_empty() {
            return node;
        }
        self.drop_stale_limits();
        self.limits.peek().map_or(node, |Reverse((at, _))| node.min(*at))
    }

    /// As [`Core::next_timer`], or `known` if that is as good: after what [`Errands::is_quick`] says, for who looks
    /// again by then.
    #[inline]
    pub(crate) fn next_timer_or(&mut self, known: Time) -> Time {
        let is_sooner = self.node.wants_a_look_before(known) || !self.limits.is_empty();
        if is_sooner { self.next_timer() } else { known }
    }

    /// Whether nothing is held or awaited here, but something is under way to others that was.
    pub(crate) fn hands_over(&self) -> bool {
        self.phase == Phase::Live && self.book.len() == 0 && !self.node.is_idle()
    }

    /// Does what is due.
    pub(crate) fn on_tick(&mut self, now: Time, errands: &mut Errands) {
        self.node.on_tick(now);
        while let Some(&Reverse((at, id))) = self.limits.peek() {
            if at > now {
                return;
            }
            self.limits.pop();
            if self.end(id, Standing::Lost, Loss::Ttl, errands) {
                self.node.release(now, id);
            }
        }
    }

    /// Takes out of the machine what the last call brought.
    #[inline]
    pub(crate) fn settle(&mut self, now: Time, errands: &mut Errands) {
        while let Some(event) = self.node.event() {
            self.on_event(now, event, errands);
        }
        if let Some(server) = &self.server {
            while let Some(question) = self.node.fetch() {
                errands.serve(server, question);
            }
        }
        while let Some(out) = self.node.transmit() {
            let other = |to: SocketAddrV4| Some(to).filter(|to| *to != self.switch);
            let to = out.to.map(|to| Others { asked: other(to.asked), answers: other(to.answers) });
            let to = to.filter(|to| to.asked.is_some() || to.answers.is_some());
            let place = match self.ports.place(out.port) {
                Some(place) => place,
                None => continue,
            };
            self.observer.sent(out.packet);
            if place == Place::AGENT
                && let Ok(packet) = <[u8; HEARTBEAT_BYTES]>::try_from(out.packet)
                && is_heartbeat(&packet)
            {
                let place = self.place_of_heartbeat();
                errands.send(place, to, &packet);
            } else {
                errands.send(place, to, out.packet);
            }
        }
    }

    /// From the agent port, so that whatever is between it and the switch lets that one's packets through. If the
    /// heartbeat before went unanswered, its answer may have found the agent port full of others: then from another.
    fn place_of_heartbeat(&mut self) -> Place {
        let lease_end = self.node.session_end();
        let was_answered = std::mem::replace(&mut self.lease_end, lease_end) != lease_end;
        if was_answered { Place::AGENT } else { Place::PULSE }
    }

    #[inline]
    fn on_event(&mut self, now: Time, event: Event, errands: &mut Errands) {
        match event {
            Event::Granted { request, token, path, .. } => self.on_granted(now, request, token, path, errands),
            Event::Busy { request, agent } => {
                if let Some(request) = self.book.find(request) {
                    request.refuser = agent;
                }
                self.end(request, Standing::Busy, Loss::Session, errands);
            }
            Event::TimedOut { request, over_budget } => {
                let standing = if over_budget { Standing::OverBudget } else { Standing::TimedOut };
                self.end(request, standing, Loss::Session, errands);
            }
            Event::Lost { request } => {
                self.end(request, Standing::Lost, Loss::Session, errands);
            }
            Event::Downgraded { request } => {
                if let Some(request) = self.book.find(request) {
                    request.mode = Mode::Shared;
                    request.tell(errands);
                }
            }
            Event::Chain { request, told } => self.on_told(now, request, told, errands),
            Event::Watch(id) => self.watchers.tell(id, errands),
            Event::Enrolled(info) => {
                self.begun_under = info.epoch;
                self.enter_phase(Phase::Live, errands);
            }
            Event::Refused(reason) => self.enter_phase(Phase::Refused(reason), errands),
            Event::SessionLost => self.lose(Phase::Lost, errands),
            Event::Left => self.lose(Phase::Closed, errands),
        }
    }

    #[inline]
    fn on_granted(&mut self, now: Time, id: RequestId, token: Token, path: Path, errands: &mut Errands) {
        match path {
            Path::Switch => self.grants.switch += 1,
            Path::Agent => self.grants.agent += 1,
            Path::Local => self.grants.local += 1,
        }
        let Some(request) = self.book.find(id) else { return };
        let until = request.longest.map_or(Time(u64::MAX), |longest| now + longest);
        if request.longest.is_some() {
            self.limits.push(Reverse((until, id)));
        }
        request.since = now;
        request.standing = Standing::Held;
        request.grant = Grant { token, path, until };
        request.tell(errands);
    }

    /// Gives up a wait to end this deadlock. Nothing, where it does not wait any more.
    pub(crate) fn abort(&mut self, now: Time, id: RequestId, cycle: String, errands: &mut Errands) {
        let Some(request) = self.book.find(id).filter(|request| request.standing == Standing::Waiting) else { return };
        request.cycle = cycle;
        self.node.cancel(now, id);
        self.end(id, Standing::Deadlock, Loss::Session, errands);
    }

    /// These are one task's, which is called if one of them is upset. What is left of `waker` is for the caller to
    /// drop, without the session's lock.
    pub(crate) fn gather(&mut self, all: &[Begun], waker: &mut Option<Waker>, errands: &mut Errands) {
        let Some(first) = all.first().map(|first| first.id) else { return };
        if self.book.of(all[0]).gathered_by.is_none() {
            all.iter().for_each(|&one| self.book.of(one).gathered_by = Some(first));
        }
        let known = self.gatherers.get(&first);
        let new = waker.take_if(|new| !known.is_some_and(|known| known.will_wake(new)));
        if let Some(former) = new.and_then(|new| self.gatherers.insert(first, new)) {
            errands.forget_one(former);
        }
    }

    /// It does not wait any more.
    pub(crate) fn scatter(&mut self, first: RequestId, errands: &mut Errands) {
        if let Some(waker) = self.gatherers.remove(&first) {
            errands.forget_one(waker);
        }
    }

    /// False: it was over already.
    fn end(&mut self, id: RequestId, standing: Standing, loss: Loss, errands: &mut Errands) -> bool {
        let Some(request) = self.book.end(id) else { return false };
        if request.standing == Standing::Held {
            self.observer.lost(loss);
        }
        request.standing = standing;
        request.tell(errands);
        let gathered_by = request.gathered_by;
        if matches!(standing, Standing::Lost | Standing::Deadlock) {
            self.upsets += 1;
            errands.wake_all(gathered_by.and_then(|first| self.gatherers.remove(&first)).into_iter());
        }
        true
    }

    /// The session is over, and with it every hold and wait.
    pub(crate) fn lose(&mut self, phase: Phase, errands: &mut Errands) {
        for request in self.book.end_all() {
            if request.standing == Standing::Held {
                self.observer.lost(Loss::Session);
            }
            request.standing = Standing::Lost;
            request.tell(errands);
        }
        self.upsets += 1;
        errands.wake_all(self.gatherers.drain().map(|(_, waker)| waker));
        self.limits.clear();
        self.watchers.tell_all(errands);
        self.enter_phase(phase, errands);
    }

    pub(crate) fn enter_phase(&mut self, phase: Phase, errands: &mut Errands) {
        self.phase = phase;
        match phase {
            Phase::Live => self.refused = None,
            Phase::Refused(reason) => {
                self.refused = Some(reason);
                self.watchers.tell_all(errands);
            }
            Phase::Enrolling | Phase::Lost | Phase::Closed => {}
        }
        errands.tell_newcomers(&mut self.newcomers);
    }

    /// Holds that were given back before their end leave entries behind: rebuilt when most are stale.
    fn drop_stale_limits(&mut self) {
        let Core { limits, book, .. } = self;
        if limits.len() > STALE_LIMITS && limits.len() > 2 * book.len() {
            limits.retain(|Reverse((_, id))| book.find(*id).is_some());
        }
        while let Some(Reverse((_, id))) = limits.peek()
            && book.find(*id).is_none()
        {
            limits.pop();
        }
    }

    /// The session, while there is one.
    #[inline]
    pub(crate) fn info(&self) -> Option<SessionInfo> {
        if self.phase == Phase::Live { self.node.session() } else { None }
    }
}

fn is_heartbeat(packet: &[u8]) -> bool {
    let is_its = |header: Header| header.service == service::FABRIC && header.kind == kind::fabric::HEARTBEAT;
    Header::read(packet).is_ok_and(is_its)
}
