//! What the session's lock guards: the protocol machine, and who waits for which request.
//!
//! Invariants: `requests` has exactly the requests of this incarnation whose owner has not given them up. Nothing in
//! here makes a system call, wakes anybody or runs a caller's code: that is noted as [`Errands`] and done when the
//! lock is free again, so the lock is held for a microsecond at most.

use crate::errands::Errands;
use crate::name::Named;
use crate::observe::{Loss, Observer};
use crate::port::Port;
use crate::request::{Request, Standing};
use crate::{Error, clock};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use wayside_protocol::map::{IdMap, SteadyMap};
use wayside_protocol::{Acquire, AcquireError, Event, Mode, Node, Path, RequestId, SessionInfo, Time};
use wayside_wire::{Refusal, slot_of};

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
    pub(crate) wait: Option<Duration>,
    pub(crate) longest: Option<Duration>,
}

impl Terms {
    pub(crate) const PLAIN: Terms = Terms { mode: Mode::Exclusive, tries: false, wait: None, longest: None };

    /// When to give up. A try is answered at once or not at all.
    pub(crate) fn deadline(&self, since: Time, patience: Duration) -> Option<Time> {
        let wait = if self.tries { Some(patience) } else { self.wait };
        wait.map(|wait| clock::after(since, wait))
    }
}

/// Where the answer is to arrive.
#[derive(Clone, Copy)]
pub(crate) enum Answer<'p> {
    /// At the port of the thread that will wait for it.
    Thread(&'p Arc<Port>),
    /// At the reactor port, whose reader wakes tasks.
    Task(&'p Arc<Port>),
}

/// A request under way or held.
pub(crate) struct Begun {
    pub(crate) id: RequestId,
    pub(crate) request: Arc<Request>,
}

pub(crate) struct Entry {
    pub(crate) request: Arc<Request>,
    /// Whose thread to wake.
    pub(crate) waiter: Option<Arc<Port>>,
    /// Longest hold, in microseconds from the grant.
    pub(crate) longest: Option<u64>,
}

pub(crate) struct Core {
    pub(crate) node: Node,
    pub(crate) phase: Phase,
    pub(crate) requests: SteadyMap<RequestId, Entry>,
    /// Reply sockets by their local UDP port; 0 is the agent's.
    pub(crate) ports: IdMap<u16, Arc<Port>>,
    /// Ends of holds that have one. Stale where the hold is over: `requests` knows.
    limits: BinaryHeap<Reverse<(Time, RequestId)>>,
    /// Tasks that wait for the session to begin.
    pub(crate) newcomers: Vec<Waker>,
    spare: Vec<Arc<Request>>,
    pub(crate) grants: Grants,
    pub(crate) observer: Observer,
}

/// Records kept for later requests.
const SPARE: usize = 1024;
/// Records made at first.
const SPARE_FIRST: usize = 16;
/// Ends of holds that may be stale, at least.
const STALE_LIMITS: usize = 64;

impl Core {
    pub(crate) fn new(node: Node) -> Core {
        Core {
            node,
            phase: Phase::Enrolling,
            requests: SteadyMap::default(),
            ports: IdMap::default(),
            limits: BinaryHeap::with_capacity(2 * STALE_LIMITS),
            newcomers: Vec::new(),
            spare: Vec::new(),
            grants: Grants::default(),
            observer: Observer::default(),
        }
    }

    /// Begins a request. None: there is no session to begin it in.
    pub(crate) fn begin(
        &mut self,
        now: Time,
        name: Named<'_>,
        terms: &Terms,
        deadline: Option<Time>,
        answer: Answer<'_>,
    ) -> Result<Option<Begun>, Error> {
        let Some(info) = self.info() else { return Ok(None) };
        match self.node.acquire(now, acquire(name, terms, deadline, answer)) {
            Ok(id) => Ok(Some(self.enter_book(now, id, name, info.slots, terms, answer))),
            Err(error) => Self::refused(error),
        }
    }

    /// Begins requests for several names, to be granted in the order of their slots. None as above.
    pub(crate) fn begin_many(
        &mut self,
        now: Time,
        names: &mut Vec<Named<'_>>,
        terms: &Terms,
        deadline: Option<Time>,
        answer: Answer<'_>,
    ) -> Result<Option<Vec<Begun>>, Error> {
        let Some(info) = self.info() else { return Ok(None) };
        names.sort_unstable_by_key(|name| (slot_of(name.id, info.slots), name.id));
        names.dedup_by_key(|name| name.id);
        let wants: Vec<Acquire> = names.iter().map(|name| acquire(*name, terms, deadline, answer)).collect();
        let mut ids = Vec::with_capacity(wants.len());
        if let Err(error) = self.node.acquire_many(now, &wants, &mut ids) {
            return Self::refused(error);
        }
        let mut book = |(name, id): (&Named<'_>, RequestId)| self.enter_book(now, id, *name, info.slots, terms, answer);
        Ok(Some(names.iter().zip(ids).map(&mut book).collect()))
    }

    fn refused<T>(error: AcquireError) -> Result<Option<T>, Error> {
        match error {
            AcquireError::NoSession => Ok(None),
            AcquireError::TooMany | AcquireError::Exhausted => Err(Error::TooMany),
        }
    }

    fn enter_book(
        &mut self,
        now: Time,
        id: RequestId,
        name: Named<'_>,
        slots: u32,
        terms: &Terms,
        answer: Answer<'_>,
    ) -> Begun {
        if self.spare.is_empty() {
            self.make_records();
        }
        let mut request = self.spare.pop().unwrap_or_else(|| Arc::new(Request::new()));
        let record = Arc::get_mut(&mut request).expect("a spare record has no other owner");
        record.begin(name, slot_of(name.id, slots), terms.mode, now);
        let waiter = match answer {
            Answer::Thread(port) => Some(port.clone()),
            Answer::Task(_) => None,
        };
        let longest = terms.longest.map(|longest| u64::try_from(longest.as_micros()).unwrap_or(u64::MAX));
        self.requests.insert(id, Entry { request: request.clone(), waiter, longest });
        Begun { id, request }
    }

    /// Makes as many records again as are in use: how many there are follows from the most requests at a time.
    #[cold]
    fn make_records(&mut self) {
        let used = self.requests.len();
        let more = used.max(SPARE_FIRST).min(SPARE.saturating_sub(used));
        self.spare.reserve(used + more);
        self.spare.extend((0..more).map(|_| Arc::new(Request::new())));
    }

    /// Takes a request out of the books; its record may serve again unless somebody still looks at it.
    pub(crate) fn retire(&mut self, id: RequestId, mut last: Arc<Request>, errands: &mut Errands) -> bool {
        let known = self.requests.remove(&id).is_some();
        if self.spare.len() < SPARE && Arc::get_mut(&mut last).is_some() {
            self.spare.push(last);
        } else {
            errands.bury(last);
        }
        known
    }

    /// When something is due: a timer of the protocol, or the end of a hold.
    pub(crate) fn next_timer(&mut self) -> Time {
        let node = self.node.next_timer().unwrap_or(Time(u64::MAX));
        self.drop_stale_limits();
        self.limits.peek().map_or(node, |Reverse((at, _))| node.min(*at))
    }

    /// Does what is due.
    pub(crate) fn on_tick(&mut self, now: Time, errands: &mut Errands) {
        self.node.on_tick(now);
        while let Some(&Reverse((at, id))) = self.limits.peek() {
            if at > now {
                return;
            }
            self.limits.pop();
            if let Some(entry) = self.requests.remove(&id) {
                self.observer.lost(&entry.request, Loss::Ttl);
                end(&entry, Standing::Lost, errands);
                errands.bury(entry.request);
                self.node.release(now, id);
            }
        }
    }

    /// Takes out of the machine what the last call brought.
    pub(crate) fn settle(&mut self, now: Time, errands: &mut Errands) {
        while let Some(event) = self.node.event() {
            self.on_event(now, event, errands);
        }
        while let Some(out) = self.node.transmit() {
            if let Some(port) = self.ports.get(&out.port) {
                self.observer.sent(out.packet);
                errands.send(port, out.packet);
            }
        }
    }

    fn on_event(&mut self, now: Time, event: Event, errands: &mut Errands) {
        match event {
            Event::Granted { request, token, path, .. } => {
                match path {
                    Path::Switch => self.grants.switch += 1,
                    Path::Agent => self.grants.agent += 1,
                    Path::Local => self.grants.local += 1,
                }
                let Some(entry) = self.requests.get(&request) else { return };
                if let Some(longest) = entry.longest {
                    let until = now + longest;
                    entry.request.limit(until);
                    self.limits.push(Reverse((until, request)));
                }
                entry.request.hold(now, token, path);
                tell(entry, errands);
            }
            Event::Busy { request, agent } => {
                if let Some(entry) = self.requests.get(&request) {
                    entry.request.refuse(agent);
                    tell(entry, errands);
                }
            }
            Event::TimedOut { request } => self.end(request, Standing::TimedOut, errands),
            Event::Lost { request } => self.end(request, Standing::Lost, errands),
            Event::Downgraded { request } => {
                if let Some(entry) = self.requests.get(&request) {
                    entry.request.share();
                    tell(entry, errands);
                }
            }
            Event::Enrolled(_) => self.enter(Phase::Live, errands),
            Event::Refused(reason) => self.enter(Phase::Refused(reason), errands),
            Event::SessionLost => self.lose(Phase::Lost, errands),
            Event::Left => self.lose(Phase::Closed, errands),
        }
    }

    fn end(&mut self, id: RequestId, standing: Standing, errands: &mut Errands) {
        if let Some(entry) = self.requests.remove(&id) {
            self.observer.lost(&entry.request, Loss::Session);
            end(&entry, standing, errands);
            errands.bury(entry.request);
        }
    }

    /// The session is over, and with it every hold and wait.
    pub(crate) fn lose(&mut self, phase: Phase, errands: &mut Errands) {
        for (_, entry) in self.requests.drain() {
            self.observer.lost(&entry.request, Loss::Session);
            end(&entry, Standing::Lost, errands);
            errands.bury(entry.request);
        }
        self.limits.clear();
        self.enter(phase, errands);
    }

    pub(crate) fn enter(&mut self, phase: Phase, errands: &mut Errands) {
        self.phase = phase;
        errands.tell_newcomers(&mut self.newcomers);
    }

    /// Holds that were given back before their end leave entries behind: rebuilt when most are stale.
    fn drop_stale_limits(&mut self) {
        if self.limits.len() > STALE_LIMITS && self.limits.len() > 2 * self.requests.len() {
            self.limits.retain(|Reverse((_, id))| self.requests.contains_key(id));
        }
        while let Some(Reverse((_, id))) = self.limits.peek()
            && !self.requests.contains_key(id)
        {
            self.limits.pop();
        }
    }

    /// Until when its holds are safe.
    pub(crate) fn lease_end(&self) -> Option<Time> {
        self.info().map(|info| info.lease_end)
    }

    /// The session, while there is one.
    pub(crate) fn info(&self) -> Option<SessionInfo> {
        if self.phase == Phase::Live { self.node.session() } else { None }
    }
}

fn end(entry: &Entry, standing: Standing, errands: &mut Errands) {
    entry.request.end(standing);
    tell(entry, errands);
}

fn tell(entry: &Entry, errands: &mut Errands) {
    entry.request.tell(errands.wakers());
    if let Some(port) = &entry.waiter {
        errands.ring(port);
    }
}

fn acquire(name: Named<'_>, terms: &Terms, deadline: Option<Time>, answer: Answer<'_>) -> Acquire {
    let (Answer::Thread(port) | Answer::Task(port)) = answer;
    Acquire { name: name.id, mode: terms.mode, try_: terms.tries, deadline, port: port.socket.number() }
}
