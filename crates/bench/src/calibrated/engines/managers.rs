//! Lock managers on servers, each with a part of the locks: SrvLock (one server) and ParLock (every host). As the
//! papers
//! have them: ACQUIRE, GRANT, RELEASE, and no answer to that; first come, first served. Neighbouring locks are at the
//! same manager, which is what makes ParLock's load uneven where neighbours are hot, and TPC-C's warehouses local.
//! Nothing
//! is lost here, so nothing is repeated.

use std::collections::{HashMap, VecDeque};

use wayside_client::Mode;

use super::{Bed, Engine};
use crate::calibrated::costs::Cost;
use crate::calibrated::fabric::{Fabric, Place};
use crate::workloads::Request;

/// To a manager, or from it.
#[derive(Clone, Copy, Debug)]
pub enum Message {
    Acquire(usize, u64, Request),
    /// Gives back, or does not wait any more.
    Release(usize, u64, Request),
    Grant(usize, u64),
}

struct Waiter {
    client: usize,
    ask: u64,
    mode: Mode,
    holds: bool,
}

/// See the module's documentation.
pub struct Managers {
    bed: Bed,
    hosts: Vec<usize>,
    locks: u64,
    /// Holders first, then waiters, in order.
    queues: HashMap<u64, VecDeque<Waiter>>,
    /// Of each client: the number of its latest request, and those of what it holds.
    asks: Vec<u64>,
    waits: Vec<bool>,
    of: HashMap<(usize, u64), u64>,
    local: u64,
    asked: Vec<u64>,
}

impl Managers {
    /// Of locks from 0 to below `locks`, over all hosts with managers.
    pub fn new(bed: &Bed, locks: u64) -> Managers {
        let hosts = bed.manager_hosts();
        let clients = bed.clients.len();
        Managers {
            asked: vec![0; hosts.len()],
            hosts,
            bed: bed.clone(),
            locks,
            queues: HashMap::new(),
            asks: vec![0; clients],
            waits: vec![false; clients],
            of: HashMap::new(),
            local: 0,
        }
    }

    fn part(&self, lock: u64) -> usize {
        (u128::from(lock) * self.hosts.len() as u128 / u128::from(self.locks)) as usize
    }

    /// The core that has a lock: one lock's packets come to one core.
    fn core(&self, lock: u64) -> usize {
        let cores = &self.bed.managers[self.hosts[self.part(lock)]];
        cores[(wayside_wire::mix(lock) % cores.len() as u64) as usize]
    }

    /// Over the network, or within the host.
    fn pass(&mut self, fabric: &mut Fabric<Message>, from: usize, to: usize, message: Message) {
        if fabric.host_of(from) == fabric.host_of(to) {
            fabric.hand(to, message);
        } else {
            fabric.send(Place::Core(from), Place::Core(to), message);
        }
    }

    /// Whoever can hold is told.
    fn serve(&mut self, fabric: &mut Fabric<Message>, core: usize, lock: u64) {
        let Some(queue) = self.queues.get_mut(&lock) else { return };
        if queue.is_empty() {
            self.queues.remove(&lock);
            return;
        }
        let mut told = Vec::new();
        let mut shares = true;
        for (place, waiter) in queue.iter_mut().enumerate() {
            if place > 0 && !(shares && waiter.mode == Mode::Shared) {
                break;
            }
            shares = waiter.mode == Mode::Shared;
            if !waiter.holds {
                waiter.holds = true;
                told.push((waiter.client, waiter.ask));
            }
        }
        for (client, ask) in told {
            self.pass(fabric, core, self.bed.receivers[client], Message::Grant(client, ask));
        }
    }
}

impl Engine for Managers {
    type Message = Message;

    fn acquire(&mut self, fabric: &mut Fabric<Message>, client: usize, wanted: Request) {
        self.asks[client] += 1;
        self.waits[client] = true;
        self.of.insert((client, wanted.lock), self.asks[client]);
        let (from, to) = (self.bed.clients[client], self.core(wanted.lock));
        self.local += u64::from(fabric.host_of(from) == fabric.host_of(to));
        let part = self.part(wanted.lock);
        self.asked[part] += 1;
        self.pass(fabric, from, to, Message::Acquire(client, self.asks[client], wanted));
    }

    fn release(&mut self, fabric: &mut Fabric<Message>, client: usize, held: Request) {
        let ask = self.of.remove(&(client, held.lock)).expect("what is held was asked for");
        self.pass(fabric, self.bed.clients[client], self.core(held.lock), Message::Release(client, ask, held));
    }

    fn cancel(&mut self, fabric: &mut Fabric<Message>, client: usize, wanted: Request) {
        self.waits[client] = false;
        self.release(fabric, client, wanted);
    }

    fn on_message(&mut self, fabric: &mut Fabric<Message>, at: Place, message: Message) {
        let Place::Core(core) = at else { unreachable!("managers are on cores") };
        match message {
            Message::Acquire(client, ask, Request { lock, mode }) => {
                fabric.work(fabric.costs.get(Cost::Manager));
                self.queues.entry(lock).or_default().push_back(Waiter { client, ask, mode, holds: false });
                self.serve(fabric, core, lock);
            }
            Message::Release(client, ask, Request { lock, .. }) => {
                fabric.work(fabric.costs.get(Cost::Manager));
                let queue = self.queues.get_mut(&lock).expect("who gives back is in the queue");
                queue.retain(|waiter| (waiter.client, waiter.ask) != (client, ask));
                self.serve(fabric, core, lock);
            }
            // Who does not wait any more has sent RELEASE already.
            Message::Grant(client, ask) => {
                if self.waits[client] && self.asks[client] == ask {
                    self.waits[client] = false;
                    fabric.granted(client);
                }
            }
        }
    }

    fn notes(&self) -> Vec<(&'static str, f64)> {
        let all = self.asked.iter().sum::<u64>().max(1) as f64;
        let most = self.asked.iter().copied().max().unwrap_or(0);
        vec![("local", self.local as f64 / all), ("at the busiest server", most as f64 / all)]
    }
}
