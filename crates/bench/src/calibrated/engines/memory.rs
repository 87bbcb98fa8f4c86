//! Locks that are words of servers' memory, which clients change by RDMA: no core of a server takes part, but every
//! attempt is an operation of its NIC.
//!
//! * DSLR (Yoon et al., SIGMOD 2018): a bakery. A fetch-and-add draws a ticket from `max`; who reads that all before it
//!   are through holds; a fetch-and-add to `next` gives back. Who waits looks again after 20 us for each exclusive one
//!   ahead. Counters have no end here, so there is no reset.
//! * DrTM (Wei et al., SOSP 2015): a compare-and-swap writes an owner, or the end of a lease that readers share and
//!   never give back: who writes waits until it is over. Who is refused tries again, blindly. Whose lease ends
//!   before its transaction does cannot commit, and begins again.

use std::collections::HashMap;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use wayside_client::Mode;

use super::{Bed, Engine};
use crate::calibrated::costs::Cost;
use crate::calibrated::fabric::{Fabric, Place};
use crate::workloads::Request;

/// Where clients are, where their answers come in, and where words are.
struct Wires {
    cores: Vec<usize>,
    receivers: Vec<usize>,
    hosts: Vec<usize>,
}

impl Wires {
    fn new(bed: &Bed) -> Wires {
        Wires { cores: bed.clients.clone(), receivers: bed.receivers.clone(), hosts: bed.manager_hosts() }
    }

    fn host(&self, lock: u64) -> usize {
        self.hosts[(wayside_wire::mix(lock) % self.hosts.len() as u64) as usize]
    }
}

// ---- DSLR ----

#[derive(Clone, Copy, Debug, Default)]
pub struct Tickets {
    next: [u32; 2],
    max: [u32; 2],
}

/// Place of a mode's counters.
const EXCLUSIVE: usize = 0;
const SHARED: usize = 1;

#[derive(Clone, Copy, Debug)]
pub enum DslrMessage {
    /// A ticket: fetch-and-add to `max`.
    Draw(u64, Request),
    /// Fetch-and-add to `next`.
    Leave(Request),
    Look(usize, u64),
    Drawn(u64, Tickets),
    Seen(u64, Tickets),
    /// The pause is over.
    Again(usize, u64),
}

struct Ticket {
    client: usize,
    wanted: Request,
    drawn: Tickets,
    cancelled: bool,
}

/// See the module's documentation.
pub struct Dslr {
    wires: Wires,
    words: HashMap<u64, Tickets>,
    tickets: HashMap<u64, Ticket>,
    last: u64,
    operations: u64,
    asked: u64,
}

impl Dslr {
    pub fn new(bed: &Bed) -> Dslr {
        Dslr {
            wires: Wires::new(bed),
            words: HashMap::new(),
            tickets: HashMap::new(),
            last: 0,
            operations: 0,
            asked: 0,
        }
    }

    fn operate(&mut self, fabric: &mut Fabric<DslrMessage>, cost: Cost, lock: u64, message: DslrMessage) {
        self.operations += 1;
        fabric.send_to_memory(self.wires.host(lock), fabric.costs.get(cost), message);
    }

    /// Whoever has drawn this ticket sees this: it holds, or looks again later.
    fn judge(&mut self, fabric: &mut Fabric<DslrMessage>, number: u64, word: Tickets) {
        let Some(ticket) = self.tickets.get(&number) else { return };
        let (client, wanted, drawn) = (ticket.client, ticket.wanted, ticket.drawn);
        let writers_through = word.next[EXCLUSIVE] == drawn.max[EXCLUSIVE];
        let readers_through = word.next[SHARED] == drawn.max[SHARED];
        if writers_through && (wanted.mode == Mode::Shared || readers_through) {
            let cancelled = ticket.cancelled;
            self.tickets.remove(&number);
            if cancelled {
                return self.operate(fabric, Cost::Atomic, wanted.lock, DslrMessage::Leave(wanted));
            }
            return fabric.granted(client);
        }
        let ahead = u64::from(drawn.max[EXCLUSIVE] - word.next[EXCLUSIVE].min(drawn.max[EXCLUSIVE]));
        let pause = ahead * fabric.costs.get(Cost::DslrBackoff);
        fabric.timer(fabric.now + pause, client, number);
    }
}

fn counter(mode: Mode) -> usize {
    if mode == Mode::Exclusive { EXCLUSIVE } else { SHARED }
}

impl Engine for Dslr {
    type Message = DslrMessage;

    fn acquire(&mut self, fabric: &mut Fabric<DslrMessage>, client: usize, wanted: Request) {
        self.asked += 1;
        self.last += 1;
        let ticket = Ticket { client, wanted, drawn: Tickets::default(), cancelled: false };
        self.tickets.insert(self.last, ticket);
        self.operate(fabric, Cost::Atomic, wanted.lock, DslrMessage::Draw(self.last, wanted));
    }

    fn release(&mut self, fabric: &mut Fabric<DslrMessage>, _: usize, held: Request) {
        self.operate(fabric, Cost::Atomic, held.lock, DslrMessage::Leave(held));
    }

    /// A ticket cannot be given back before its turn: it passes by itself then.
    fn cancel(&mut self, _: &mut Fabric<DslrMessage>, client: usize, wanted: Request) {
        let waiting = self.tickets.values_mut().filter(|ticket| ticket.client == client && ticket.wanted == wanted);
        waiting.for_each(|ticket| ticket.cancelled = true);
    }

    fn on_message(&mut self, fabric: &mut Fabric<DslrMessage>, at: Place, message: DslrMessage) {
        if let DslrMessage::Drawn(number, _) | DslrMessage::Seen(number, _) = message
            && let Some(client) = self.tickets.get(&number).map(|ticket| ticket.client)
            && let Some(core) = at.hands_to(self.wires.cores[client])
        {
            return fabric.hand(core, message);
        }
        match message {
            DslrMessage::Draw(number, wanted) => {
                let word = self.words.entry(wanted.lock).or_default();
                let drawn = *word;
                word.max[counter(wanted.mode)] += 1;
                let client = self.tickets[&number].client;
                fabric.send(at, Place::Core(self.wires.receivers[client]), DslrMessage::Drawn(number, drawn));
            }
            DslrMessage::Leave(held) => self.words.entry(held.lock).or_default().next[counter(held.mode)] += 1,
            DslrMessage::Look(client, number) => {
                let lock = self.tickets[&number].wanted.lock;
                let seen = DslrMessage::Seen(number, self.words[&lock]);
                fabric.send(at, Place::Core(self.wires.receivers[client]), seen);
            }
            DslrMessage::Drawn(number, drawn) => {
                self.tickets.get_mut(&number).expect("it has just been drawn").drawn = drawn;
                self.judge(fabric, number, drawn);
            }
            DslrMessage::Seen(number, word) => self.judge(fabric, number, word),
            DslrMessage::Again(client, number) => {
                let lock = self.tickets[&number].wanted.lock;
                self.operate(fabric, Cost::Read, lock, DslrMessage::Look(client, number));
            }
        }
    }

    fn on_timer(&mut self, fabric: &mut Fabric<DslrMessage>, client: usize, number: u64) {
        fabric.hand(self.wires.cores[client], DslrMessage::Again(client, number));
    }

    fn notes(&self) -> Vec<(&'static str, f64)> {
        vec![("operations a lock", self.operations as f64 / self.asked.max(1) as f64)]
    }
}

// ---- DrTM ----

/// Nobody's, an owner's, or readers' until then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Word {
    #[default]
    Clear,
    Owner(usize, u64),
    Lease(u64),
}

#[derive(Clone, Copy, Debug)]
pub enum DrtmMessage {
    Swap {
        client: usize,
        ask: u64,
        lock: u64,
        expected: Word,
        new: Word,
    },
    Swapped {
        client: usize,
        ask: u64,
        expected: Word,
        new: Word,
        was: Word,
    },
    /// Writes nobody's, where it is still this owner's.
    Clear(u64, Word),
    /// The pause is over.
    Again(usize, u64, Word),
}

/// See the module's documentation.
pub struct Drtm {
    wires: Wires,
    words: HashMap<u64, Word>,
    asks: Vec<u64>,
    wants: Vec<Option<Request>>,
    /// Shared holds, by client and lock: the end of each one's lease. Exclusive ones: the request's number.
    holds: HashMap<(usize, u64), u64>,
    /// Ends of leases that are waited for: client, lock, end.
    ends: Vec<(usize, u64, u64)>,
    random: ChaCha8Rng,
    tries: u64,
    refused: u64,
}

/// A timer that is the end of a lease, by its place in `ends`; others are pauses.
const LEASE_END: u64 = 1 << 63;

impl Drtm {
    pub fn new(bed: &Bed, seed: u64) -> Drtm {
        Drtm {
            wires: Wires::new(bed),
            words: HashMap::new(),
            asks: vec![0; bed.clients.len()],
            wants: vec![None; bed.clients.len()],
            holds: HashMap::new(),
            ends: Vec::new(),
            random: ChaCha8Rng::seed_from_u64(seed),
            tries: 0,
            refused: 0,
        }
    }

    fn attempt(&mut self, fabric: &mut Fabric<DrtmMessage>, client: usize, expected: Word) {
        let Some(Request { lock, mode }) = self.wants[client] else { return };
        self.tries += 1;
        let ask = self.asks[client];
        let lease = fabric.now + fabric.costs.get(Cost::DrtmLease);
        let new = if mode == Mode::Exclusive { Word::Owner(client, ask) } else { Word::Lease(lease) };
        let swap = DrtmMessage::Swap { client, ask, lock, expected, new };
        fabric.send_to_memory(self.wires.host(lock), fabric.costs.get(Cost::Atomic), swap);
    }

    fn hold_until(&mut self, fabric: &mut Fabric<DrtmMessage>, client: usize, lock: u64, end: u64) {
        self.wants[client] = None;
        self.holds.insert((client, lock), end);
        self.ends.push((client, lock, end));
        fabric.timer(end, client, LEASE_END | (self.ends.len() - 1) as u64);
        fabric.granted(client);
    }

    fn on_swapped(
        &mut self,
        fabric: &mut Fabric<DrtmMessage>,
        (client, ask): (usize, u64),
        expected: Word,
        new: Word,
        was: Word,
    ) {
        let Some(Request { lock, mode }) = self.wants[client].filter(|_| self.asks[client] == ask) else {
            return;
        };
        let now = fabric.now;
        match (was == expected, new, was) {
            (true, Word::Lease(end), _) if end > now => return self.hold_until(fabric, client, lock, end),
            (true, Word::Owner(..), _) => {
                self.wants[client] = None;
                self.holds.insert((client, lock), ask);
                return fabric.granted(client);
            }
            // Readers share what is left of a lease.
            (false, _, Word::Lease(end)) if mode == Mode::Shared && end > now => {
                return self.hold_until(fabric, client, lock, end);
            }
            (_, _, Word::Lease(end)) if end <= now => return self.attempt(fabric, client, was),
            _ => {}
        }
        self.refused += 1;
        let pause = self.random.random_range(0..=fabric.costs.get(Cost::Retry));
        fabric.timer(now + pause, client, ask);
    }
}

impl Engine for Drtm {
    type Message = DrtmMessage;

    fn acquire(&mut self, fabric: &mut Fabric<DrtmMessage>, client: usize, wanted: Request) {
        self.asks[client] += 1;
        self.wants[client] = Some(wanted);
        self.attempt(fabric, client, Word::Clear);
    }

    /// A shared hold ends with its lease.
    fn release(&mut self, fabric: &mut Fabric<DrtmMessage>, client: usize, held: Request) {
        let hold = self.holds.remove(&(client, held.lock)).expect("what is given back is held");
        if held.mode == Mode::Exclusive {
            let host = self.wires.host(held.lock);
            let clear = DrtmMessage::Clear(held.lock, Word::Owner(client, hold));
            fabric.send_to_memory(host, fabric.costs.get(Cost::Read), clear);
        }
    }

    fn cancel(&mut self, fabric: &mut Fabric<DrtmMessage>, client: usize, wanted: Request) {
        self.wants[client] = None;
        if wanted.mode == Mode::Exclusive {
            let host = self.wires.host(wanted.lock);
            // If its last try succeeds after all: this comes behind it.
            let clear = DrtmMessage::Clear(wanted.lock, Word::Owner(client, self.asks[client]));
            fabric.send_to_memory(host, fabric.costs.get(Cost::Read), clear);
        }
    }

    fn on_message(&mut self, fabric: &mut Fabric<DrtmMessage>, at: Place, message: DrtmMessage) {
        if let DrtmMessage::Swapped { client, .. } = message
            && let Some(core) = at.hands_to(self.wires.cores[client])
        {
            return fabric.hand(core, message);
        }
        match message {
            DrtmMessage::Swap { client, ask, lock, expected, new } => {
                let word = self.words.entry(lock).or_default();
                let was = *word;
                if was == expected {
                    *word = new;
                }
                let swapped = DrtmMessage::Swapped { client, ask, expected, new, was };
                fabric.send(at, Place::Core(self.wires.receivers[client]), swapped);
            }
            DrtmMessage::Swapped { client, ask, expected, new, was } => {
                self.on_swapped(fabric, (client, ask), expected, new, was);
            }
            DrtmMessage::Clear(lock, owner) => {
                let word = self.words.entry(lock).or_default();
                if *word == owner {
                    *word = Word::Clear;
                }
            }
            DrtmMessage::Again(client, ask, expected) if self.asks[client] == ask => {
                self.attempt(fabric, client, expected);
            }
            DrtmMessage::Again(..) => {}
        }
    }

    fn on_timer(&mut self, fabric: &mut Fabric<DrtmMessage>, client: usize, number: u64) {
        if number & LEASE_END == 0 {
            let again = DrtmMessage::Again(client, number, Word::Clear);
            return fabric.hand(self.wires.cores[client], again);
        }
        let (client, lock, end) = self.ends[(number ^ LEASE_END) as usize];
        if self.holds.get(&(client, lock)) == Some(&end) {
            self.holds.remove(&(client, lock));
            fabric.expired.push((client, lock));
        }
    }

    fn notes(&self) -> Vec<(&'static str, f64)> {
        vec![("refused", self.refused as f64 / self.tries.max(1) as f64)]
    }
}
