//! RedLock over one Redis, as its authors have it: SET NX with an owner's value, and a script that deletes the key of
//! that value. All locks are exclusive; who is refused tries again after a pause drawn up to 200 ms. Leases outlast
//! every run. One core does everything, one command after the other.

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
    Delete(usize, u64, u64),
    Answer(usize, u64, bool),
    Deleted,
    /// The pause is over.
    Again(usize, u64),
}

/// See the module's documentation.
pub struct Redlock {
    cores: Vec<usize>,
    receivers: Vec<usize>,
    redis: usize,
    owners: HashMap<u64, (usize, u64)>,
    /// Of each client: its latest request's number, and the lock that it waits for.
    asks: Vec<u64>,
    wants: Vec<Option<u64>>,
    held: HashMap<(usize, u64), u64>,
    random: ChaCha8Rng,
    tries: u64,
    refused: u64,
}

impl Redlock {
    /// Redis has the first core of the first host with managers.
    pub fn new(bed: &Bed, seed: u64) -> Redlock {
        Redlock {
            redis: bed.managers[bed.manager_hosts()[0]][0],
            asks: vec![0; bed.clients.len()],
            wants: vec![None; bed.clients.len()],
            cores: bed.clients.clone(),
            receivers: bed.receivers.clone(),
            owners: HashMap::new(),
            held: HashMap::new(),
            random: ChaCha8Rng::seed_from_u64(seed),
            tries: 0,
            refused: 0,
        }
    }

    fn command(&self, fabric: &mut Fabric<Message>, client: usize, message: Message) {
        fabric.send(Place::Core(self.cores[client]), Place::Core(self.redis), message);
    }

    fn attempt(&mut self, fabric: &mut Fabric<Message>, client: usize, lock: u64) {
        self.tries += 1;
        self.command(fabric, client, Message::Set(client, self.asks[client], lock));
    }
}

impl Engine for Redlock {
    type Message = Message;

    fn acquire(&mut self, fabric: &mut Fabric<Message>, client: usize, wanted: Request) {
        self.asks[client] += 1;
        self.wants[client] = Some(wanted.lock);
        self.held.insert((client, wanted.lock), self.asks[client]);
        self.attempt(fabric, client, wanted.lock);
    }

    fn release(&mut self, fabric: &mut Fabric<Message>, client: usize, held: Request) {
        let ask = self.held.remove(&(client, held.lock)).expect("what is given back was asked for");
        self.command(fabric, client, Message::Delete(client, ask, held.lock));
    }

    fn cancel(&mut self, fabric: &mut Fabric<Message>, client: usize, wanted: Request) {
        self.wants[client] = None;
        self.release(fabric, client, wanted);
    }

    fn on_message(&mut self, fabric: &mut Fabric<Message>, at: Place, message: Message) {
        if let Message::Answer(client, ..) = message
            && let Some(core) = at.hands_to(self.cores[client])
        {
            return fabric.hand(core, message);
        }
        match message {
            Message::Set(client, ask, lock) => {
                fabric.work(fabric.costs.get(Cost::Command));
                let is_its = *self.owners.entry(lock).or_insert((client, ask)) == (client, ask);
                fabric.send(at, Place::Core(self.receivers[client]), Message::Answer(client, ask, is_its));
            }
            Message::Delete(client, ask, lock) => {
                fabric.work(fabric.costs.get(Cost::Command));
                if self.owners.get(&lock) == Some(&(client, ask)) {
                    self.owners.remove(&lock);
                }
                fabric.send(at, Place::Core(self.receivers[client]), Message::Deleted);
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
                let pause = self.random.random_range(0..=fabric.costs.get(Cost::RedlockRetry));
                fabric.timer(fabric.now + pause, client, ask);
            }
            Message::Deleted => {}
        }
    }

    fn on_timer(&mut self, fabric: &mut Fabric<Message>, client: usize, ask: u64) {
        fabric.hand(self.cores[client], Message::Again(client, ask));
    }

    fn notes(&self) -> Vec<(&'static str, f64)> {
        vec![("refused", self.refused as f64 / self.tries.max(1) as f64)]
    }
}
