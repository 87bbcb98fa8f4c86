//! What queues must do, seen from outside: counters that never fall, pushes in sequence, and, where nothing goes wrong,
//! first come, first served, whether a request waits in the switch or at the lock server.
//!
//! | id | checked |
//! | --- | --- |
//! | Q1, Q2, Q6 | after every packet that a queue decided on |
//! | Q10 | the same: who says a priority and has a lock server gets a cell behind others by a push, and by that only |
//! | | where the lock server had waited in vain for the queue to become empty |
//! | Q5 | the same: while the lock server has something only pushes get tickets. At the end of a run in which nothing |
//! | | went wrong: tokens of a name are in the order in which its requests were taken |
//! | Q12 | at a grant of such a run: a hold by a lock server has most of its time before it |
//!
//! Q3 is S2, and Q4 is S1 and S3: the checker of locks sees them. What comes with a grant is looked at in
//! `locks/rows.rs`: F1, F2, and with them Q11.

use std::collections::{BTreeMap, BTreeSet};

use wayside_protocol::memory::{Part, Stage, SwitchMemory};
use wayside_protocol::{Booked, Handle, RequestId, Token};
use wayside_switch::QueueState;
use wayside_wire::{Attempt, BODY, NodeState, check, kind, limits, queue_flag, service};

use crate::decisions::Asked;
use crate::host::Host;
use crate::report::Counts;
use crate::world::World;

/// A request anywhere: request ids of sessions that live differ.
type Asker = (u16, u64, u64);

/// Since when the lock server of a queue may have had somebody wait for it to become empty.
#[derive(Default)]
struct Withheld {
    /// When its latest push was taken.
    pushed: u64,
    /// The orders of requests with a priority that it was given and has not settled.
    ranked: BTreeSet<u64>,
    /// Since when there are some. Who comes later waits with those who came before him, whatever becomes of them.
    ranked_since: u64,
}

impl Withheld {
    /// Of a queue that has just begun: who waited when it was ceded has the orders up to this one, and may say a
    /// priority.
    fn begin(given: u64) -> Withheld {
        Withheld { pushed: 0, ranked: BTreeSet::from([given]), ranked_since: 0 }
    }

    /// Each push begins it anew, and nobody waits so before there is somebody with a priority. Who was there at the
    /// latest push waits since then, whoever comes later.
    fn since(&self) -> u64 {
        if self.ranked.is_empty() { self.pushed } else { self.pushed.max(self.ranked_since) }
    }
}

/// What was seen of queues.
#[derive(Default)]
pub struct Watch {
    /// Of each switch and queue: when last looked at.
    states: BTreeMap<(usize, u16, u64), QueueState>,
    /// When the switch gave an order of a namespace's name.
    given: BTreeMap<Asker, u64>,
    /// When a switch saw a request last: by namespace, name and id.
    passed: BTreeMap<Asker, u64>,
    /// When it was taken.
    taken: BTreeMap<Asker, u64>,
    /// The tokens of those that were granted.
    tokens: BTreeMap<Asker, Token>,
    withheld: BTreeMap<(usize, u16, u64), Withheld>,
    /// Namespaces of which somebody has said what is to be in the switch.
    pub placed: BTreeSet<u16>,
    /// Packets so far.
    count: u64,
    /// Appointments of lock servers: whoever asked the one before asks the next in another order.
    appointed: usize,
    /// Of each switch, namespace and part: the latest.
    servers: BTreeMap<(usize, u16, u16), Handle>,
    /// Parts of namespaces whose lock server waits until then for those who hold by the one before.
    waiting: BTreeMap<(u16, u16), u64>,
}

impl World {
    /// After a decision on a packet of the queue service.
    pub(crate) fn watch_queue(&mut self, seat: usize, asked: &Asked) {
        self.watch.count += 1;
        let Some(header) = asked.header.filter(|header| header.service == service::QUEUE) else { return };
        let Attempt { name, number, request, .. } = asked.attempt;
        if acquires(header.kind) {
            self.watch.passed.insert((header.namespace, name, request), self.watch.count);
        }
        let key = (seat, header.namespace, name);
        let is_here = |queue: &QueueState| matches!(queue.stage, Stage::Here | Stage::Drains);
        let Some(is) = self.seats[seat].switch.now().queue(header.namespace, name).filter(is_here) else {
            self.watch.states.remove(&key);
            return;
        };
        let was = self.watch.states.insert(key, is);
        let Some(was) = was.filter(|was| (was.epoch, was.begun) == (is.epoch, is.begun)) else {
            self.watch.withheld.insert(key, Withheld::begin(is.given));
            // The first ticket of a queue that nobody has looked at yet.
            if is.tail > is.head && acquires(header.kind) {
                self.watch.taken.entry((header.namespace, name, request)).or_insert(self.watch.count);
            }
            return;
        };
        let rises = |before: u64, after: u64| after >= before;
        let order = is.head <= is.granted && is.granted <= is.tail && is.tail <= is.head + u64::from(is.size);
        let raised = rises(was.head, is.head) && rises(was.granted, is.granted) && rises(was.tail, is.tail);
        let story = |what: &str| format!("{what} in name {name} of space{}: {was:?}, then {is:?}", header.namespace);
        if !order || !raised || is.tail > was.tail + 1 {
            self.fail("Q1", story("tickets"));
        }
        let holders = self.seats[seat].switch.now().queued(header.namespace, name);
        let (holders, alone) = holders
            .iter()
            .filter(|queued| queued.holds)
            .fold((0, false), |(count, alone), queued| (count + 1, alone || queued.exclusive));
        if (alone && holders > 1) || (holders, alone) != (is.holders, is.exclusive) {
            self.fail("Q2", story("holders"));
        }
        let is_push = header.kind == kind::queue::PUSH;
        if is.tail > was.tail && is.given != is.settled && !is_push {
            self.fail("Q5", story("somebody was let in before those at the lock server"));
        }
        let is_in_sequence = is.pushed == was.pushed || (is_push && is.pushed == was.pushed + 1 && number == is.pushed);
        let is_absolute = rises(was.given, is.given) && rises(was.settled, is.settled) && is.settled <= is.given;
        if !is_in_sequence || !is_absolute {
            self.fail("Q6", story("pushes"));
        }
        self.watch_ranks(key, asked, was, is);
        let at = self.watch.count;
        if is.given > was.given {
            self.watch.given.insert((header.namespace, name, is.given), at);
        }
        if is.tail > was.tail && !is_push {
            self.watch.taken.entry((header.namespace, name, request)).or_insert(at);
        }
    }

    /// Q10.
    fn watch_ranks(&mut self, key: (usize, u16, u64), asked: &Asked, was: QueueState, is: QueueState) {
        let (seat, space, name) = key;
        let Some(header) = asked.header else { return };
        let is_ranked = asked.attempt.cause & limits::MAX_PRIORITY != 0;
        let (is_push, acquires) = (header.kind == kind::queue::PUSH, acquires(header.kind));
        let now = self.now;
        let switch = self.seats[seat].switch.now();
        let others = switch.queued(space, name).len() > 1;
        let withheld = self.watch.withheld.entry(key).or_default();
        let since = withheld.since();
        if is.pushed > was.pushed {
            withheld.pushed = now;
        }
        withheld.ranked = withheld.ranked.split_off(&(is.settled + 1));
        if acquires && is_ranked && is.given > was.given {
            if withheld.ranked.is_empty() {
                withheld.ranked_since = now;
            }
            withheld.ranked.insert(is.given);
        }
        if !is_ranked || is.tail == was.tail || !others {
            return;
        }
        let story = |what: &str| format!("name {name} of space{space}: {:?} {what}: {is:?}", asked.attempt);
        let part = Part::of_name(name, self.setup.parts).number;
        let server = switch.lock_server(space, part).handle;
        let lives = server != 0 && switch.node_word(server).state == NodeState::Live;
        // A packet that has granted somebody else leaves whoever is next to another one.
        if acquires && lives && is.granted < is.tail && is.granted == was.granted {
            self.fail("Q10", story("got a cell in which it waits"));
        } else if is_push && now - since < 2 * self.setup.node.retransmit_most_us {
            self.fail("Q10", story("was pushed behind others"));
        } else if is_push {
            self.count("pushed behind others");
        }
    }

    /// A packet for a node that may be a lock server.
    pub(crate) fn watch_lock_server(&mut self, host: usize, packet: &[u8]) {
        let Ok(header) = check(packet) else { return };
        if (header.service, header.kind) == (service::QUEUE, kind::queue::ACQUIRE) {
            let Attempt { name, request, order, flags, ticket, .. } = Attempt::read(packet, BODY);
            let serves = self.hosts[host].running.as_ref().is_some_and(|running| running.node.serves(name));
            if !serves || flags & queue_flag::TRY != 0 || ticket != 0 {
                return; // Who tries does not wait, and may be told to come again. Who names a ticket was taken before.
            }
            let Watch { taken, given, passed, count, .. } = &mut self.watch;
            *count += 1;
            // Where nobody overtakes, whoever the switch has passed on first is first, at whichever end of a move.
            let passed = passed.get(&(header.namespace, name, request)).filter(|_| self.mix.jitter == 0);
            let at = given.get(&(header.namespace, name, order)).or(passed).unwrap_or(count);
            taken.entry((header.namespace, name, request)).or_insert(*at);
        }
    }

    /// A host's request was granted.
    pub(crate) fn watch_grant(&mut self, host: usize, request: RequestId, token: Token) {
        let space = self.setup.namespaces[self.hosts[host].namespace].id;
        let holds = self.hosts[host].running.as_ref().map(|running| running.node.holds());
        let name = holds.into_iter().flatten().find(|hold| hold.request == request).map(|hold| hold.name);
        if let Some(name) = name {
            self.watch.tokens.insert((space, name, request.0), token);
            self.watch_parts(space, name);
            self.watch_time_left(host, name, request);
        }
    }

    /// Q12. Who waits says so again after the longest pause, and a hold lasts from the latest packet that came.
    fn watch_time_left(&mut self, host: usize, name: u64, request: RequestId) {
        let Some(running) = self.hosts[host].running.as_ref().filter(|_| self.setup.calm) else { return };
        let Some((until, length)) = running.node.lease_of(request) else { return };
        let left = until.since(running.time(self.now));
        let late = self.setup.node.retransmit_most_us + 4 * (self.mix.delay + self.mix.jitter);
        if late >= length / 2 || !self.clocks_are_good() {
            return;
        }
        if left < length / 2 {
            let story = format!("h{host} is granted name {name}, {request:?}, for {left} us of {length}");
            return self.fail("Q12", story);
        }
        self.count("granted with time to spare");
    }

    /// Whether a hold of a lock server's own lock is in its line still. What is no queue never was.
    pub(crate) fn is_kept_by_server(&self, host: usize, name: u64, request: RequestId, token: Token) -> bool {
        let handle = |host: usize| self.hosts[host].running.as_ref()?.node.session().map(|session| session.handle);
        let (holder, space) = (handle(host), self.hosts[host].namespace);
        let its = self.hosts.iter().filter(|other| other.namespace == space).filter_map(|other| other.running.as_ref());
        let mut line = its.flat_map(|running| running.node.own_line(name));
        let is_it =
            |party: Booked| (party.request, party.token) == (request, Some(token)) && Some(party.holder) == holder;
        let is_queued = |place: &Host| place.running.as_ref().is_some_and(|running| running.node.is_queued(name));
        self.setup.first_server == usize::MAX || !is_queued(&self.hosts[host]) || line.any(is_it)
    }

    /// Somebody was granted a lock: maybe one of a lock server, while another part's has to wait.
    fn watch_parts(&mut self, space: u16, name: u64) {
        let now = self.now;
        let part = Part::of_name(name, self.setup.parts).number;
        self.watch.waiting.retain(|_, until| *until > now);
        let waits = |(of, _): &&(u16, u16)| *of == space;
        let waiting: Vec<u16> = self.watch.waiting.keys().filter(waits).map(|(_, part)| *part).collect();
        let has_queue = self.seats.iter().any(|seat| seat.switch.now().queue(space, name).is_some());
        if !waiting.is_empty() && !waiting.contains(&part) && !has_queue {
            self.count("granted while another part waited");
        }
    }

    /// A part of a namespace has another lock server.
    pub(crate) fn watch_appointment(&mut self, seat: usize, space: u16, part: Part, handle: Handle) {
        self.watch.appointed += 1;
        self.count("lock server appointed");
        let switch = self.seats[seat].switch.clone();
        let before = self.watch.servers.insert((seat, space, part.number), handle);
        if part.of == 1 || switch.lock_server(space, part.number).term < 2 {
            return;
        }
        let lives = before.is_some_and(|before| switch.node_word(before).state == NodeState::Live);
        self.count(if lives { "part changed hands" } else { "part failed over" });
        let until = self.now + self.setup.lease + self.setup.grace();
        self.watch.waiting.insert((space, part.number), until);
    }

    /// Q5, of a run in which nothing went wrong.
    pub(crate) fn check_order(&mut self) {
        let parts = self.setup.namespaces.len() * usize::from(self.setup.parts);
        if !self.setup.calm || self.watch.appointed > parts {
            return;
        }
        let mut latest: BTreeMap<(u16, u64), (Token, u64)> = BTreeMap::new();
        let mut order: Vec<(u64, Asker)> = self.watch.taken.iter().map(|(asker, at)| (*at, *asker)).collect();
        order.sort_unstable();
        for (_, asker @ (space, name, request)) in order {
            let Some(&token) = self.watch.tokens.get(&asker) else { continue };
            let (before, other) = latest.insert((space, name), (token, request)).unwrap_or_default();
            if token <= before {
                let story = format!("name {name} of space{space}: {request:#x} came after {other:#x}, and went before");
                return self.fail("Q5", story);
            }
        }
        self.count("served in order");
    }
}

/// Whether a node asks for a lock, whichever way the grant is to go.
pub(crate) fn acquires(kind: u8) -> bool {
    matches!(kind, kind::queue::ACQUIRE | kind::queue::FETCH)
}

/// What a batch must have seen: of faults,
pub const FAULTS: &[&str] = &[
    "lost",
    "chosen",
    "join-lost",
    "duplicated",
    "replayed",
    "corrupted",
    "flipped",
    "forged",
    "late",
    "partition",
    "crash",
    "pause",
    "leave",
    "controller",
    "switch",
    "store",
    "stall",
    "drain",
    "hand-over",
    "mute",
    "move",
    "policy",
    "aged",
    "budget",
    "flood",
];

/// of what nodes and applications were told,
pub const OUTCOMES: &[&str] = &[
    "granted by switch",
    "granted by agent",
    "granted with a row",
    "granted alone",
    "granted alone: nobody there",
    "granted alone: refused",
    "granted alone: no answer in time",
    "overtaken",
    "overtaken no more",
    "joined past a waiter",
    "busy",
    "timed out",
    "cancelled",
    "downgraded",
    "several asked",
    "several granted",
    "lost with the session",
    "session lost",
    "left",
    "epoch raised",
    "lock server appointed",
    "part failed over",
    "part changed hands",
    "granted while another part waited",
    "served in order",
    "granted with time to spare",
    "plan moved a lock to the switch",
    "plan moved a lock to its server",
    "left the switch for its priorities",
    "came back to the switch",
    "pushed behind others",
    "promoted",
    "demoted",
    "handed over",
    "took over",
    "followed a turn",
    "over budget",
    "told over budget",
];

/// and of what switches did.
pub const VERDICTS: &[&str] = &[
    "queue_granted",
    "queue_granted_again",
    "queue_waiting",
    "queue_released",
    "queue_overflowed",
    "queue_passed",
    "queue_pushed",
    "copied",
    "no_server",
    "not_its_server",
    "no_queue",
    "lock moved to the switch",
    "lock moved to its server",
    "queue drained in vain",
];

/// Those of all these that a batch has not seen.
pub fn missing(faults: &Counts, outcomes: &Counts, verdicts: &Counts) -> Vec<&'static str> {
    let lists = [(FAULTS, faults), (OUTCOMES, outcomes), (VERDICTS, verdicts)];
    let unseen = lists.into_iter().flat_map(|(names, counts)| {
        names.iter().copied().filter(|name| counts.get(name).is_none_or(|count| *count == 0))
    });
    unseen.collect()
}
