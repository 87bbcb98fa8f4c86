//! The chain client: reads and writes of one node, from the first packet to the answer.
//!
//! ```text
//!   Parked ──map, lane──► Asked ──ANSWER──► answered
//!                          │ ▲ missing
//!                          ▼ │
//!                        Unnamed ──insert()──► Inserting
//! ```
//!
//! Invariants
//! * A write has a lane from its first packet to its end, and ids of a lane's writes rise: a switch that knows one
//!   drops those before it.
//! * A write ends by an answer that tells its outcome, or without one: then nobody knows, and its late packets may
//!   still have their effect, once.
//! * A write is decided by the chain to which it was first sent, or by none: its packets say under which epoch that
//!   was.
//! * A key that is missing is made and the same request sent again, whatever it is but a READ: if it ended otherwise, a
//!   late copy of it could have its effect after the answer.

use super::watching::Watching;
use super::{Answer, Ask, Condition, Ended, Key, Value, Version, Wish};
use crate::map::IdMap;
use crate::outbox::{Ends, Outbox};
use crate::timers::{Due, Timers};
use crate::{Port, RequestId, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddrV4;
use wayside_wire::{
    BODY, Effect, Header, Operation, Outcome, Route, Routes, Watch, blocks, kind, limits, service, value_flag,
};

/// What a node tells of its chain requests; with it goes the request's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// [`Client::take`] has the answer.
    Answered,
    /// The key has never been made: [`Client::insert`] must be told its name.
    Unnamed,
    /// The deadline came first.
    TimedOut,
    /// The session ended first.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for the map, or for a lane.
    Parked,
    Asked,
    /// Waits for its name.
    Unnamed,
    /// INSERT with this request id.
    Inserting(u64),
}

#[derive(Debug)]
struct Pending {
    kind: u8,
    key: Key,
    condition: Condition,
    value: Value,
    flags: u16,
    lane: Option<u8>,
    state: State,
    /// Kept once the key was found missing.
    name: Box<[u8]>,
    port: Port,
    deadline: Time,
    due: Time,
    pause: u64,
    /// Packets that went unanswered since its chain was known to be this one.
    silent: u32,
    /// Whether a packet was sent.
    is_sent: bool,
    /// Of its group, when the first was.
    first_epoch: u32,
}

/// Where the groups of the namespace are. Asked for page by page.
#[derive(Debug, Default)]
struct Map {
    /// Number of the namespace's first group.
    base: u16,
    /// None before the first page has told how many there are.
    groups: Vec<Group>,
    /// First group of the page that is asked for, while one is.
    asked: Option<u16>,
    due: Time,
    pause: u64,
    /// When it is looked at again for the sake of requests without an answer; 0: there are none.
    look_at: Time,
    /// First group of the page that was told last.
    told: u16,
}

/// A group as clients know it.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// Epoch of its chain; 0: not known.
    epoch: u32,
    /// Where writes go.
    head: SocketAddrV4,
    /// Where reads go.
    tail: SocketAddrV4,
}

/// Reads and writes under way.
pub struct Client {
    map: Map,
    pending: IdMap<u64, Pending>,
    /// INSERTs under way, and whose they are.
    inserting: IdMap<u64, u64>,
    /// Writes that wait for a lane, in order.
    queue: VecDeque<u64>,
    /// Whose write is under way in each; 0: nobody's.
    lanes: [u64; limits::MAX_LANES],
    answers: IdMap<u64, Answer>,
    told: VecDeque<(RequestId, Told)>,
    timers: Timers,
    /// The next request id; 0: there is no session.
    next: u64,
    /// Of the session: low half, as packets tell of a leased version's owner.
    incarnation: u32,
    pub(super) pause_first: u64,
    pause_most: u64,
    pub(super) watching: Watching,
}

/// What the client needs of its node for a call.
pub struct Link<'a> {
    /// Now.
    pub now: Time,
    /// Header of a packet of this session.
    pub header: Header,
    /// Where packets go.
    pub out: &'a mut Outbox,
}

/// Bits of a request id that count; above them the incarnation's low ones.
const COUNTER_BITS: u32 = 40;
/// Packets without an answer after which the map is asked for again: the chain may be another by then.
pub(super) const DOUBTFUL: u32 = 3;
/// Between two looks at the map as long as there are such requests: it will be another at some time. Microseconds.
const LOOK: u64 = 50_000;
/// Routes in a page.
const PAGE: u16 = limits::MAX_BLOCKS as u16;

impl Client {
    /// One that knows no map. Pauses before a packet is sent again, in microseconds.
    pub fn new(pause_first: u64, pause_most: u64) -> Client {
        Client {
            map: Map::default(),
            pending: IdMap::default(),
            inserting: IdMap::default(),
            queue: VecDeque::new(),
            lanes: [0; limits::MAX_LANES],
            answers: IdMap::default(),
            told: VecDeque::new(),
            timers: Timers::default(),
            next: 0,
            incarnation: 0,
            pause_first,
            pause_most,
            watching: Watching::default(),
        }
    }

    /// A session has begun. `first`: of its counter of requests, 1 but where a test wants more.
    pub fn start(&mut self, incarnation: u64, first: u64) {
        self.next = incarnation << COUNTER_BITS | first.max(1);
        self.incarnation = incarnation as u32;
        self.watching.resume();
    }

    /// An id that no request of this handle has had.
    pub(super) fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Begins what is asked for. Its id; the answer follows.
    pub fn ask(&mut self, link: &mut Link<'_>, ask: &Ask) -> RequestId {
        let (kind, value, condition) = match ask.wish {
            Wish::Read => (kind::chain::READ, Value::default(), Condition::Always),
            Wish::Write(value, condition) | Wish::Lease(value, condition) => (kind::chain::WRITE, value, condition),
            Wish::Delete(condition) => (kind::chain::DELETE, Value::default(), condition),
        };
        let id = self.fresh();
        let pending = Pending {
            kind,
            key: ask.key,
            condition,
            value,
            flags: if matches!(ask.wish, Wish::Lease(..)) { value_flag::LEASED } else { 0 },
            lane: None,
            state: State::Parked,
            name: Box::default(),
            port: ask.port,
            deadline: ask.deadline.unwrap_or(Time::NEVER),
            due: Time::NEVER,
            pause: self.pause_first,
            silent: 0,
            is_sent: false,
            first_epoch: 0,
        };
        if pending.deadline != Time::NEVER {
            self.timers.set(link.now, pending.deadline, Due::Request(RequestId(id)));
        }
        self.pending.insert(id, pending);
        if self.map.groups.is_empty() {
            self.ask_map(link, 0);
        }
        if kind == kind::chain::READ {
            self.send(link, id)
        } else {
            self.queue.push_back(id)
        }
        self.fill_lanes(link);
        RequestId(id)
    }

    /// The name of a key that was told to be missing: the key is made, and the request goes on.
    pub fn insert(&mut self, link: &mut Link<'_>, request: RequestId, name: &[u8]) {
        let insert = self.fresh();
        let Some(pending) = self.pending.get_mut(&request.0).filter(|p| p.state == State::Unnamed) else { return };
        pending.name = name.into();
        pending.state = State::Inserting(insert);
        (pending.pause, pending.silent) = (self.pause_first, 0);
        self.inserting.insert(insert, request.0);
        self.send(link, request.0);
    }

    /// Writes that wait for a lane, and some that were given up.
    #[doc(hidden)]
    pub fn waiting_for_lanes(&self) -> usize {
        self.queue.len()
    }

    /// Gives up. Whether a write has its effect is not known.
    pub fn cancel(&mut self, link: &mut Link<'_>, request: RequestId) {
        self.end(request.0);
        self.fill_lanes(link);
    }

    /// The answer to a request that was told to be answered.
    pub fn take(&mut self, request: RequestId) -> Option<Answer> {
        self.answers.remove(&request.0)
    }

    /// The next thing to tell.
    pub fn told(&mut self) -> Option<(RequestId, Told)> {
        self.told.pop_front()
    }

    /// The session is over: nobody knows of the writes under way.
    pub fn lose_everything(&mut self) {
        let mut lost: Vec<u64> = self.pending.drain().map(|(id, _)| id).collect();
        lost.sort_unstable();
        self.told.extend(lost.into_iter().map(|id| (RequestId(id), Told::Lost)));
        self.inserting.clear();
        self.queue.clear();
        self.lanes = [0; limits::MAX_LANES];
        self.map = Map::default();
        self.timers.clear();
        self.next = 0;
        self.watching.pause();
    }

    /// When [`Client::on_tick`] is wanted. Asked after every call of a node, most of which have no keys.
    #[inline]
    pub fn next_timer(&mut self) -> Time {
        // Who is doubtful has a timer.
        let is_quiet = self.timers.is_empty() && self.map.asked.is_none();
        let own = if is_quiet { Time::NEVER } else { self.next_of_its_own() };
        own.min(self.watching.next_timer(self.next != 0))
    }

    /// But for watches.
    fn next_of_its_own(&mut self) -> Time {
        let pending = &self.pending;
        let is_current = |at, due| is_current(pending, at, due);
        if self.timers.is_crowded(pending.len()) {
            self.timers.drop_stale(pending.len(), is_current);
        }
        let map = match self.map.asked {
            Some(_) => self.map.due,
            None if self.map.look_at != Time(0) => self.map.look_at,
            None => Time::NEVER,
        };
        self.timers.next(is_current).min(map)
    }

    /// Does what is due, as far as it fits into the outbox.
    pub fn on_tick(&mut self, link: &mut Link<'_>) {
        if let Some(first) = self.map.asked.filter(|_| self.map.due <= link.now) {
            self.map.pause = (self.map.pause * 2).min(self.pause_most);
            self.send_map(link, first);
        }
        if self.map.look_at != Time(0) && self.map.look_at <= link.now {
            self.map.look_at = Time(0);
            if let Some(group) = self.doubtful_group() {
                self.ask_map(link, group);
            }
        }
        while !link.out.is_full() {
            let Some((at, Due::Request(RequestId(id)))) = self.timers.due(link.now) else { break };
            let Some(pending) = self.pending.get_mut(&id).filter(|p| p.due == at || p.deadline == at) else { continue };
            if pending.deadline <= link.now {
                self.told.push_back((RequestId(id), Told::TimedOut));
                self.end(id);
                continue;
            }
            pending.pause = (pending.pause * 2).min(self.pause_most);
            pending.silent += 1;
            // What is not sent yet waits for the map to know its group.
            if pending.silent >= DOUBTFUL {
                let group = self.map.group_of(pending.key);
                self.ask_map(link, group);
            }
            self.send(link, id);
        }
        self.fill_lanes(link);
        if self.watching.next_timer(self.has_session()) <= link.now {
            self.ask_watches(link);
        }
    }

    /// Whether there is one, and requests have ids.
    pub(super) fn has_session(&self) -> bool {
        self.next != 0
    }

    /// A packet of the chain service, which `check` has passed.
    pub fn on_packet(&mut self, link: &mut Link<'_>, header: &Header, packet: &[u8]) {
        match header.kind {
            kind::chain::ANSWER => self.on_answer(link, header, &Effect::read(packet, BODY), blocks(packet)),
            kind::chain::EVENT => self.on_event(link, &Watch::read(packet, BODY), blocks(packet)),
            kind::chain::ROUTES => self.on_routes(link, &Routes::read(packet, BODY), blocks(packet)),
            _ => {}
        }
        self.fill_lanes(link);
    }

    fn on_answer(&mut self, link: &mut Link<'_>, header: &Header, effect: &Effect, value: &[u8]) {
        let insert = self.inserting.get(&effect.request).copied();
        let id = insert.unwrap_or(effect.request);
        if let Some(group) = self.watching.group_of(id) {
            // Whatever it says, the group may be elsewhere: its timer asks again.
            return self.ask_map(link, group);
        }
        let Some(pending) = self.pending.get_mut(&id) else { return };
        let is_asked = match pending.state {
            State::Asked => insert.is_none(),
            State::Inserting(expected) => expected == effect.request,
            State::Parked | State::Unnamed => false,
        };
        let Ok(outcome) = Outcome::try_from(effect.outcome) else { return };
        if !is_asked {
            return;
        }
        let is_owner = (header.position, effect.owner) == (link.header.source, self.incarnation);
        match outcome {
            Outcome::Done if insert.is_some() => {
                self.inserting.remove(&effect.request);
                pending.state = State::Asked;
                (pending.pause, pending.silent) = (self.pause_first, 0);
                self.send(link, id);
            }
            Outcome::Missing if pending.kind == kind::chain::READ => self.answer(id, Ended::Done, effect, &[], false),
            Outcome::Missing if pending.name.is_empty() => {
                pending.state = State::Unnamed;
                pending.due = Time::NEVER;
                self.told.push_back((RequestId(id), Told::Unnamed));
            }
            Outcome::Missing => {
                pending.state = State::Inserting(self.next);
                self.inserting.insert(self.next, id);
                self.next += 1;
                self.send(link, id);
            }
            Outcome::Done => self.answer(id, Ended::Done, effect, value, is_owner),
            Outcome::Unmet => self.answer(id, Ended::Unmet, effect, value, is_owner),
            Outcome::Full => self.answer(id, Ended::Full, effect, &[], false),
            Outcome::Unsure => self.answer(id, Ended::Unsure, effect, &[], false),
            Outcome::Collision => self.answer(id, Ended::Collision, effect, &[], false),
            // Again, and then with all the room that there is.
            Outcome::NoRoom => self.send(link, id),
            Outcome::Moved => {
                let group = self.map.group_of(pending.key);
                if self.map.groups.get(usize::from(group)).is_none_or(|group| group.epoch != header.epoch) {
                    self.ask_map(link, group);
                }
            }
            // Its timer sends it again. (An EVENT alone says that a position is lost.)
            Outcome::Recovering | Outcome::Reset => {}
        }
    }

    /// `is_owner`: of what is told, if that is leased.
    fn answer(&mut self, id: u64, ended: Ended, effect: &Effect, value: &[u8], is_owner: bool) {
        let Some(pending) = self.pending.get(&id) else { return };
        let version = Version { epoch: effect.own_epoch, sequence: effect.own_sequence };
        // What a condition met may be gone by the time that it is answered again: then there is another value here.
        let is_shown = version == Version { epoch: effect.epoch, sequence: effect.sequence };
        let shows = is_shown && (pending.kind == kind::chain::READ || ended == Ended::Unmet);
        let present = shows && effect.flags & value_flag::PRESENT != 0;
        let value = if present { value.get(..usize::from(effect.length)).and_then(Value::new) } else { None };
        let is_leased = is_shown && effect.flags & value_flag::LEASED != 0;
        let is_own = is_leased && is_owner;
        self.answers.insert(id, Answer { ended, version, value, is_leased, is_own, is_shown });
        self.told.push_back((RequestId(id), Told::Answered));
        self.end(id);
    }

    /// Forgets a request, and makes its lane free.
    fn end(&mut self, id: u64) {
        let Some(pending) = self.pending.remove(&id) else { return };
        if let State::Inserting(insert) = pending.state {
            self.inserting.remove(&insert);
        }
        match pending.lane {
            Some(lane) => self.lanes[usize::from(lane)] = 0,
            // Those that are given up while others wait would stay: forgotten once they are the most.
            None if self.queue.len() > 2 * self.pending.len() + limits::MAX_LANES => {
                self.queue.retain(|id| self.pending.contains_key(id));
            }
            None => {}
        }
    }

    /// Writes that wait take the lanes that are free.
    fn fill_lanes(&mut self, link: &mut Link<'_>) {
        while let Some(free) = self.lanes.iter().position(|&id| id == 0) {
            let Some(id) = self.queue.pop_front() else { return };
            let Some(mut pending) = self.pending.remove(&id) else { continue };
            // A lane's ids rise.
            pending.lane = Some(free as u8);
            self.lanes[free] = id;
            self.pending.insert(id, pending);
            self.send(link, id);
        }
    }

    // ---- packets ----

    /// Sends what a request's state asks for, and sets its timer. Nothing, while the map does not say where to.
    fn send(&mut self, link: &mut Link<'_>, id: u64) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        let number = self.map.group_of(pending.key);
        let waits =
            matches!(pending.state, State::Unnamed) || (pending.kind != kind::chain::READ && pending.lane.is_none());
        let known = self.map.groups.get(usize::from(number)).filter(|group| group.epoch != 0 && !waits);
        if known.is_some() && pending.state == State::Parked {
            // Nobody was asked before: that was no silence.
            (pending.state, pending.pause, pending.silent) = (State::Asked, self.pause_first, 0);
        }
        pending.due = if waits { Time::NEVER } else { link.now + pending.pause };
        if pending.due < pending.deadline {
            self.timers.set(link.now, pending.due, Due::Request(RequestId(id)));
        }
        let Some(group) = known else { return };
        let asked = if pending.kind == kind::chain::READ { group.tail } else { group.head };
        let (to, port) = (Ends { asked, answers: group.tail }, pending.port);
        let (kind, operation, content): (u8, Operation, &[u8]) = match pending.state {
            State::Inserting(insert) => {
                let operation = Operation { request: insert, length: pending.name.len() as u16, ..pending.operation() };
                (kind::chain::INSERT, operation, &pending.name)
            }
            _ => (pending.kind, Operation { request: id, ..pending.operation() }, pending.value.bytes()),
        };
        let operation = Operation { group: self.map.base + number, client: link.header.source, ..operation };
        // A first write goes with its value alone. Whatever may be answered with a value has room for any.
        let is_lean = kind == kind::chain::WRITE && !pending.is_sent && pending.condition == Condition::Always;
        let room = if is_lean || kind == kind::chain::INSERT { 0 } else { limits::MAX_VALUE_BYTES };
        let count = content.len().max(room).div_ceil(limits::BLOCK_BYTES);
        if !pending.is_sent {
            pending.first_epoch = group.epoch;
        }
        let first_epoch = if pending.first_epoch == group.epoch { 0 } else { pending.first_epoch };
        let operation = Operation { first_epoch, ..operation };
        pending.is_sent = true;
        let header = Header { service: service::CHAIN, kind, epoch: group.epoch, count: count as u8, ..link.header };
        let write = |packet: &mut [u8], at| {
            operation.write(packet, at);
            let value = &mut packet[at + Operation::BYTES..];
            value[..content.len()].copy_from_slice(content);
            value[content.len()..].fill(0);
        };
        link.out.body_to(Some(to), port, header, Operation::BYTES + count * limits::BLOCK_BYTES, write);
    }

    // ---- the map ----

    /// How many groups there are; 0: not known.
    pub(super) fn groups(&self) -> u16 {
        self.map.groups.len() as u16
    }

    /// Number, epoch and tail of a group within the namespace, if they are known.
    pub(super) fn route(&self, group: u16) -> Option<(u16, u32, SocketAddrV4)> {
        let known = self.map.groups.get(usize::from(group)).filter(|group| group.epoch != 0)?;
        Some((self.map.base + group, known.epoch, known.tail))
    }

    /// Whether a group is at this switch.
    pub fn knows_switch(&self, address: SocketAddrV4) -> bool {
        self.map.groups.iter().any(|group| group.head == address || group.tail == address)
    }

    /// Asks for the page of this group, unless one is asked for already.
    pub(super) fn ask_map(&mut self, link: &mut Link<'_>, group: u16) {
        if self.map.asked.is_none() {
            let first = group / PAGE * PAGE;
            self.map.asked = Some(first);
            self.map.pause = self.pause_first;
            self.send_map(link, first);
        }
    }

    fn send_map(&mut self, link: &mut Link<'_>, first: u16) {
        self.map.due = link.now + self.map.pause;
        // As long as its answer may be.
        let header = Header { service: service::CHAIN, kind: kind::chain::MAP, count: PAGE as u8, ..link.header };
        let routes = Routes { first, base: 0, groups: 0 };
        link.out.body(0, header, Routes::BYTES + limits::MAX_BLOCKS * limits::BLOCK_BYTES, |packet, at| {
            routes.write(packet, at);
            packet[at + Routes::BYTES..].fill(0);
        });
    }

    fn on_routes(&mut self, link: &mut Link<'_>, page: &Routes, blocks: &[u8]) {
        if self.map.asked != Some(page.first) {
            return;
        }
        self.map.asked = None;
        if page.groups == 0 {
            return self.refuse_all();
        }
        self.map.base = page.base;
        let unknown = Group { epoch: 0, head: NOWHERE, tail: NOWHERE };
        self.map.groups.resize(usize::from(page.groups), unknown);
        self.map.told = page.first;
        let told = self.map.groups[usize::from(page.first).min(usize::from(page.groups))..].iter_mut();
        let mut changed = Vec::new();
        for ((group, block), number) in told.zip(blocks.chunks_exact(limits::BLOCK_BYTES)).zip(page.first..) {
            let route = Route::read(block, 0);
            // Pages may come late.
            if route.epoch >= group.epoch {
                if route.epoch > group.epoch {
                    changed.push(number);
                }
                let head = SocketAddrV4::new(route.head_address.into(), route.head_port);
                let tail = SocketAddrV4::new(route.tail_address.into(), route.tail_port);
                *group = Group { epoch: route.epoch, head, tail };
            }
        }
        let next = page.first.saturating_add(PAGE);
        if self.map.groups.get(usize::from(next)).is_some_and(|group| group.epoch == 0) {
            self.ask_map(link, next);
        }
        // First: what has not been sent yet has not been sent elsewhere.
        self.send_moved(link.now, &changed);
        self.send_parked(link);
        self.watching.ask_again(|group| changed.contains(&group));
        self.ask_watches(link);
        if self.doubtful_group().is_some() {
            self.map.look_at = link.now + LOOK;
        }
    }

    /// The group of a request that is doubtful: one behind the page that was told last, or else any.
    fn doubtful_group(&self) -> Option<u16> {
        let doubtful = self.pending.values().filter(|pending| pending.is_doubtful());
        let behind = self.map.told.saturating_add(PAGE);
        doubtful.map(|pending| self.map.group_of(pending.key)).min_by_key(|group| (*group < behind, *group))
    }

    /// What was asked of chains that are others by now is due at once.
    fn send_moved(&mut self, now: Time, changed: &[u16]) {
        let is_moved = |pending: &Pending| {
            matches!(pending.state, State::Asked | State::Inserting(_))
                && changed.contains(&self.map.group_of(pending.key))
        };
        let moved = self.pending.iter().filter(|(_, pending)| is_moved(pending));
        let mut moved: Vec<u64> = moved.map(|(&id, _)| id).collect();
        moved.sort_unstable();
        for id in moved {
            let Some(pending) = self.pending.get_mut(&id) else { continue };
            (pending.pause, pending.silent, pending.due) = (self.pause_first, 0, now);
            self.timers.set(now, now, Due::Request(RequestId(id)));
        }
    }

    /// There is no group: nobody will ever answer.
    fn refuse_all(&mut self) {
        let mut refused: Vec<u64> = self.pending.keys().copied().collect();
        refused.sort_unstable();
        for id in refused {
            self.answer(id, Ended::NoStore, &Effect::default(), &[], false);
        }
        self.watching.refuse_all();
    }

    /// What has not been sent since nobody knew where to.
    fn send_parked(&mut self, link: &mut Link<'_>) {
        let is_parked = |(_, pending): &(&u64, &Pending)| pending.state == State::Parked;
        let mut parked: Vec<u64> = self.pending.iter().filter(is_parked).map(|(&id, _)| id).collect();
        parked.sort_unstable();
        parked.into_iter().for_each(|id| self.send(link, id));
    }
}

impl Map {
    /// The group of a key within the namespace; 0 as long as nobody knows how many there are.
    fn group_of(&self, key: Key) -> u16 {
        if self.groups.is_empty() { 0 } else { key.group(self.groups.len() as u16) }
    }
}

/// Of a group that no page has told of.
const NOWHERE: SocketAddrV4 = SocketAddrV4::new(core::net::Ipv4Addr::UNSPECIFIED, 0);

impl Pending {
    /// Whether it has gone unanswered so often that its chain may be another.
    fn is_doubtful(&self) -> bool {
        self.silent >= DOUBTFUL && matches!(self.state, State::Asked | State::Inserting(_))
    }

    /// What all of its packets say.
    fn operation(&self) -> Operation {
        let (condition, expected_epoch, expected) = self.condition.parts();
        Operation {
            key_high: self.key.high,
            key_low: self.key.low,
            check: self.key.check,
            expected,
            expected_epoch,
            condition,
            length: self.value.bytes().len() as u16,
            flags: self.flags,
            lane: self.lane.unwrap_or(0),
            reply_port: self.port,
            ..Operation::default()
        }
    }
}

/// Whether this is still the time for which a request has set its timer.
fn is_current(pending: &IdMap<u64, Pending>, at: Time, due: Due) -> bool {
    let Due::Request(RequestId(id)) = due else { return false };
    pending.get(&id).is_some_and(|pending| pending.due == at || pending.deadline == at)
}
