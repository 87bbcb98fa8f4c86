//! Both ends of the queue service, as docs/queue.md has them: a client with one request at a time, and a lock server
//! that has the overflow of one lock. They know neither time nor network: packets in, packets out, and `again` when
//! somebody thinks that it is time to repeat.

use std::collections::{BTreeMap, VecDeque};

use wayside_wire::{Attempt, BODY, Header, kind, queue_flag, service};

use super::{EPOCH, NAMESPACE, request};

/// A packet of the queue service.
pub fn packet(kind: u8, source: u16, destination: u16, attempt: &Attempt) -> Vec<u8> {
    let header = Header {
        service: service::QUEUE,
        kind,
        source,
        destination,
        epoch: EPOCH,
        namespace: NAMESPACE,
        ..Header::default()
    };
    let mut packet = vec![0; BODY + Attempt::BYTES];
    header.write(&mut packet);
    attempt.write(&mut packet, BODY);
    packet
}

/// What a client's one request has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Idle,
    /// Ticket 0: not known yet.
    Waits {
        request: u64,
        ticket: u64,
        exclusive: bool,
    },
    Holds {
        request: u64,
        ticket: u64,
        exclusive: bool,
    },
    /// Released, or cancelled with ticket 0 or that of a cell that waits.
    Ends {
        request: u64,
        ticket: u64,
        held: bool,
    },
}

pub struct Client {
    pub me: u16,
    pub name: u64,
    pub phase: Phase,
    requests: u64,
    /// Grants that were given back, since nobody waited for them.
    pub given_back: u64,
}

impl Client {
    pub fn new(me: u16, name: u64) -> Client {
        Client { me, name, phase: Phase::Idle, requests: 0, given_back: 0 }
    }

    fn ask(&self, kind: u8, request: u64, ticket: u64, flags: u8) -> Vec<u8> {
        let attempt = Attempt { name: self.name, request, ticket, holder: self.me, flags, ..Attempt::default() };
        packet(kind, self.me, 0, &attempt)
    }

    /// Asks for the lock.
    pub fn acquire(&mut self, exclusive: bool) -> Vec<u8> {
        assert_eq!(self.phase, Phase::Idle);
        self.requests += 1;
        let request = request(self.me, self.requests);
        self.phase = Phase::Waits { request, ticket: 0, exclusive };
        self.again().expect("it waits")
    }

    /// Releases what it holds, or cancels what it waits for.
    pub fn end(&mut self) -> Vec<u8> {
        self.phase = match self.phase {
            Phase::Holds { request, ticket, .. } => Phase::Ends { request, ticket, held: true },
            Phase::Waits { request, ticket, .. } => Phase::Ends { request, ticket, held: false },
            other => panic!("nothing to end: {other:?}"),
        };
        self.again().expect("it ends")
    }

    /// What it has to repeat until it is answered.
    pub fn again(&self) -> Option<Vec<u8>> {
        match self.phase {
            Phase::Waits { request, ticket, exclusive } => {
                let flags = if exclusive { queue_flag::EXCLUSIVE } else { 0 };
                Some(self.ask(kind::queue::ACQUIRE, request, ticket, flags))
            }
            Phase::Ends { request, ticket, held } => {
                let kind = if held { kind::queue::RELEASE } else { kind::queue::CANCEL };
                Some(self.ask(kind, request, ticket, 0))
            }
            Phase::Idle | Phase::Holds { .. } => None,
        }
    }

    /// A packet for this client; what it answers.
    pub fn on_packet(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let header = Header::read(packet).unwrap();
        let attempt = Attempt::read(packet, BODY);
        assert_eq!((header.destination, attempt.name), (self.me, self.name), "somebody else's packet");
        match header.kind {
            kind::queue::GRANT => return self.on_grant(&attempt),
            kind::queue::QUEUED => {
                if let Phase::Waits { request, ticket, .. } = &mut self.phase
                    && *request == attempt.request
                {
                    assert!(*ticket == 0 || *ticket <= attempt.ticket, "a request's first cell is found first");
                    *ticket = attempt.ticket;
                }
            }
            kind::queue::RELEASED => match self.phase {
                Phase::Ends { request, .. } if request == attempt.over => self.phase = Phase::Idle,
                Phase::Waits { request, .. } => assert_ne!(request, attempt.over, "nobody ended it"),
                _ => {}
            },
            kind::queue::BUSY | kind::queue::RECOVERING => {}
            other => panic!("kind {other} for a client"),
        }
        None
    }

    fn on_grant(&mut self, attempt: &Attempt) -> Option<Vec<u8>> {
        let is_exclusive = attempt.flags & queue_flag::EXCLUSIVE != 0;
        match self.phase {
            Phase::Waits { request, exclusive, .. } if request == attempt.request => {
                assert_eq!(exclusive, is_exclusive);
                self.phase = Phase::Holds { request, ticket: attempt.ticket, exclusive };
            }
            Phase::Holds { request, ticket, .. } if (request, ticket) == (attempt.request, attempt.ticket) => {}
            _ => {
                self.given_back += 1;
                return Some(self.ask(kind::queue::RELEASE, attempt.request, attempt.ticket, 0));
            }
        }
        let more = attempt.flags & queue_flag::MORE != 0;
        more.then(|| self.ask(kind::queue::NEXT, attempt.request, attempt.ticket, 0))
    }
}

/// The overflow of one lock.
pub struct LockServer {
    me: u16,
    name: u64,
    /// What waits here, by order.
    waiting: BTreeMap<u64, Attempt>,
    /// Every order up to here has come, or was given up.
    floor: u64,
    /// The highest order that has come.
    seen: u64,
    /// Sent and not acknowledged, the first of them with number `pushed - unacknowledged + 1`.
    unacknowledged: VecDeque<Attempt>,
    pushed: u64,
    room: usize,
    /// What the switch was last told, and given.
    settled: u64,
    pub given: u64,
}

impl LockServer {
    pub fn new(me: u16, name: u64) -> LockServer {
        LockServer {
            me,
            name,
            waiting: BTreeMap::new(),
            floor: 0,
            seen: 0,
            unacknowledged: VecDeque::new(),
            pushed: 0,
            room: 1,
            settled: 0,
            given: 0,
        }
    }

    pub fn on_packet(&mut self, packet: &[u8]) -> Vec<Vec<u8>> {
        let header = Header::read(packet).unwrap();
        let attempt = Attempt::read(packet, BODY);
        assert_eq!((header.destination, attempt.name), (self.me, self.name), "somebody else's packet");
        match header.kind {
            kind::queue::ACQUIRE => self.on_acquire(attempt),
            kind::queue::CANCEL => return vec![self.on_cancel(&attempt)],
            kind::queue::PUSHED | kind::queue::ROOM => self.on_counters(&attempt),
            other => panic!("kind {other} for a lock server"),
        }
        self.push()
    }

    fn on_acquire(&mut self, attempt: Attempt) {
        assert_ne!(attempt.order, 0, "the switch has its queue");
        self.seen = self.seen.max(attempt.order);
        let is_it = |known: &Attempt| (known.holder, known.request) == (attempt.holder, attempt.request);
        let is_known = self.waiting.values().chain(&self.unacknowledged).any(is_it);
        let is_late = attempt.order <= self.floor;
        if !is_late && !is_known {
            self.waiting.insert(attempt.order, attempt);
        }
        if attempt.order == self.floor + 1 {
            self.floor += 1;
        }
        while self.waiting.contains_key(&(self.floor + 1)) {
            self.floor += 1;
        }
    }

    fn on_cancel(&mut self, attempt: &Attempt) -> Vec<u8> {
        let is_it = |known: &Attempt| (known.holder, known.request) == (attempt.holder, attempt.request);
        self.waiting.retain(|_, known| !is_it(known));
        // What has its number keeps it, and is nobody's.
        self.unacknowledged.iter_mut().filter(|known| is_it(known)).for_each(|known| known.holder = 0);
        let over = Attempt { over: attempt.request, ..*attempt };
        packet(kind::queue::RELEASED, self.me, attempt.holder, &over)
    }

    fn on_counters(&mut self, attempt: &Attempt) {
        let first = self.pushed - self.unacknowledged.len() as u64;
        let acknowledged = attempt.number.saturating_sub(first).min(self.unacknowledged.len() as u64);
        self.unacknowledged.drain(..acknowledged as usize);
        self.room = attempt.room.into();
        self.given = self.given.max(attempt.order);
    }

    /// Up to which order nothing is left here.
    fn nothing_up_to(&self) -> u64 {
        self.waiting.first_key_value().map_or(self.floor, |(order, _)| self.floor.min(order - 1))
    }

    /// What may be pushed now.
    fn push(&mut self) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        while self.unacknowledged.len() < self.room.max(1)
            && self.waiting.first_key_value().is_some_and(|(order, _)| *order <= self.floor)
        {
            let (_, mut attempt) = self.waiting.pop_first().expect("just seen");
            self.pushed += 1;
            self.settled = self.nothing_up_to();
            (attempt.number, attempt.order) = (self.pushed, self.settled);
            packets.push(packet(kind::queue::PUSH, self.me, 0, &attempt));
            self.unacknowledged.push_back(attempt);
        }
        packets
    }

    /// After a pause: gaps are given up, what is not acknowledged is sent again, and the switch hears what is settled.
    pub fn again(&mut self) -> Vec<Vec<u8>> {
        self.floor = self.seen;
        let repeated = self.unacknowledged.iter().map(|attempt| packet(kind::queue::PUSH, self.me, 0, attempt));
        let mut packets: Vec<Vec<u8>> = repeated.collect();
        packets.extend(self.push());
        if packets.is_empty() && self.nothing_up_to() > self.settled {
            let attempt =
                Attempt { name: self.name, number: self.pushed, order: self.nothing_up_to(), ..Attempt::default() };
            packets.push(packet(kind::queue::SETTLE, self.me, 0, &attempt));
        }
        packets
    }
}
