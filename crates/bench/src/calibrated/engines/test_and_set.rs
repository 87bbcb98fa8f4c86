//! NetChain's locks: a key of the switch that has an owner or has none, changed by compare-and-swap. All locks are
//! exclusive, nobody waits in a queue: who is refused tries again after a pause. No cores but the clients' take part.
//! Readers take turns, which the world's checker allows: it is told of one at a time.

use std::collections::HashMap;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::{Bed, Engine};
use crate::calibrated::costs::Cost;
use crate::calibrated::fabric::{Fabric, Place};
use crate::workloads::Request;

#[derive(Clone, Copy, Debug)]
pub enum Message {
    Set(usize, u64, u64),
    Clear(u64, usize, u64),
    Answer(usize, u64, bool),
    /// The pause is over.
    Again(usize, u64),
}

/// See the module's documentation.
pub struct TestAndSet {
    cores: Vec<usize>,
    receivers: Vec<usize>,
    owners: HashMap<u64, (usize, u64)>,
    /// Of each client: its latest request's number, and the lock that it waits for.
    asks: Vec<u64>,
    wants: Vec<Option<u64>>,
    random: ChaCha8Rng,
    tries: u64,
    refused: u64,
}

impl TestAndSet {
    pub fn new(bed: &Bed, seed: u64) -> TestAndSet {
        TestAndSet {
            asks: vec![0; bed.clients.len()],
            wants: vec![None; bed.clients.len()],
            cores: bed.clients.clone(),
            receivers: bed.receivers.clone(),
            owners: HashMap::new(),
            random: ChaCha8Rng::seed_from_u64(seed),
            tries: 0,
            refused: 0,
        }
    }

    fn attempt(&mut self, fabric: &mut Fabric<Message>, client: usize, lock: u64) {
        self.tries += 1;
        let set = Message::Set(client, self.asks[client], lock);
        fabric.send(Place::Core(self.cores[client]), Place::Switch, set);
    }
}

impl Engine for TestAndSet {
    type Message = Message;

    fn acquire(&mut self, fabric: &mut Fabric<Message>, client: usize, wanted: Request) {
        self.asks[client] += 1;
        self.wants[client] = Some(wanted.lock);
        self.attempt(fabric, client, wanted.lock);
    }

    fn release(&mut self, fabric: &mut Fabric<Message>, client: usize, held: Request) {
        let clear = Message::Clear(held.lock, client, u64::MAX);
        fabric.send(Place::Core(self.cores[client]), Place::Switch, clear);
    }

    fn cancel(&mut self, fabric: &mut Fabric<Message>, client: usize, wanted: Request) {
        self.wants[client] = None;
        // If its last try succeeds after all: links keep the order, so this comes after it.
        let clear = Message::Clear(wanted.lock, client, self.asks[client]);
        fabric.send(Place::Core(self.cores[client]), Place::Switch, clear);
    }

    fn on_message(&mut self, fabric: &mut Fabric<Message>, at: Place, message: Message) {
        match message {
            Message::Set(client, ask, lock) => {
                let owner = *self.owners.entry(lock).or_insert((client, ask));
                let answer = Message::Answer(client, ask, owner == (client, ask));
                fabric.send(at, Place::Core(self.receivers[client]), answer);
            }
            Message::Clear(lock, client, ask) => {
                if self.owners.get(&lock).is_some_and(|owner| owner.0 == client && owner.1 <= ask) {
                    self.owners.remove(&lock);
                }
            }
            Message::Again(client, ask) => {
                if let Some(lock) = self.wants[client].filter(|_| ask == self.asks[client]) {
                    self.attempt(fabric, client, lock);
                }
            }
            Message::Answer(client, ask, granted) => {
                if ask != self.asks[client] || self.wants[client].is_none() {
                    return;
                }
                if granted {
                    self.wants[client] = None;
                    return fabric.granted(client);
                }
                self.refused += 1;
                let pause = self.random.random_range(0..=fabric.costs.get(Cost::Retry));
                fabric.timer(fabric.now + pause, client, ask);
            }
        }
    }

    fn on_timer(&mut self, fabric: &mut Fabric<Message>, client: usize, ask: u64) {
        fabric.hand(self.cores[client], Message::Again(client, ask));
    }

    fn notes(&self) -> Vec<(&'static str, f64)> {
        vec![("refused", self.refused as f64 / self.tries.max(1) as f64)]
    }
}
