//! The queue service's part of a test's switch: queues where the core looks for them, cells as it fills them.

use wayside_protocol::chain::Key;
use wayside_wire::{Attempt, cell_who, queue_flag, queue_holding};

use super::cases::Words;
use super::hash::{buckets_of, hash};
use super::{Bucket, Cell, Queue, State};

impl State {
    /// Queue `number` becomes this name's, without anybody in it, and is found.
    pub fn put_queue(&mut self, number: usize, queue: Queue) {
        let is_its = |place: &&mut u64| **place as u32 as usize == number;
        self.names.iter_mut().flat_map(|bucket| &mut bucket.places).filter(is_its).for_each(|place| *place = 0);
        self.queues[number] = queue;
        let hash = hash(
            self.directory.seed,
            queue.namespace as u16,
            Key { high: queue.name, ..Key { high: 0, low: 0, check: 0 } },
        );
        let free = |bucket: &Bucket| bucket.places.iter().position(|place| *place == 0);
        let choices = buckets_of(hash, self.directory.bucket_mask).map(|bucket| bucket as usize);
        let bucket = choices.into_iter().find(|&bucket| free(&self.names[bucket]).is_some()).expect("few queues");
        let place = free(&self.names[bucket]).expect("just seen");
        self.names[bucket].places[place] = hash >> 32 << 32 | number as u64;
    }

    /// The cell of a ticket.
    pub fn cell_of(&mut self, number: usize, ticket: u64) -> &mut Cell {
        let queue = self.queues[number];
        &mut self.cells[queue.left as usize + (ticket % u64::from(queue.size)) as usize]
    }

    /// A request at the tail.
    pub fn line_up(&mut self, number: usize, cell: Cell) {
        let tail = self.queues[number].tail;
        *self.cell_of(number, tail) = cell;
        self.queues[number].tail += 1;
    }

    /// The next one is granted.
    pub fn grant_next(&mut self, number: usize) {
        let granted = self.queues[number].granted;
        let exclusive = cell_who::exclusive(self.cell_of(number, granted).who);
        let queue = &mut self.queues[number];
        queue.granted += 1;
        let holders = queue_holding::holders(queue.holding) + 1;
        queue.holding = queue_holding::with_exclusive(queue_holding::with_holders(0, holders), exclusive);
    }

    /// A request is over.
    pub fn end(&mut self, number: usize, ticket: u64) {
        let cell = self.cell_of(number, ticket);
        cell.who = cell_who::with_over(cell.who, 1);
        let queue = &mut self.queues[number];
        if ticket < queue.granted {
            let others = queue_holding::holders(queue.holding) - 1;
            queue.holding = if others == 0 { 0 } else { queue_holding::with_holders(queue.holding, others) };
        }
    }
}

/// Whose request.
pub fn who(holder: u16, port: u16, exclusive: bool) -> u64 {
    let who = cell_who::with_reply_port(cell_who::with_holder(0, holder), port);
    cell_who::with_exclusive(who, exclusive.into())
}

pub(super) fn set_attempt(attempt: &mut Attempt, words: &mut Words) {
    words.take_into("name", &mut attempt.name);
    words.take_into("request", &mut attempt.request);
    words.take_into("ticket", &mut attempt.ticket);
    words.take_into("over", &mut attempt.over);
    words.take_into("number", &mut attempt.number);
    words.take_into("order", &mut attempt.order);
    words.take_into("holder", &mut attempt.holder);
    words.take_into("reply_port", &mut attempt.reply_port);
    words.take_into("room", &mut attempt.room);
    words.take_into("cause", &mut attempt.cause);
    let flags =
        [("exclusive", queue_flag::EXCLUSIVE), ("try", queue_flag::TRY), ("more", queue_flag::MORE), ("shared", 0)];
    let named: Vec<u8> = flags.into_iter().filter(|(name, _)| words.flag(name)).map(|(_, flag)| flag).collect();
    if !named.is_empty() {
        attempt.flags = named.iter().sum();
    }
    words.take_into("flags", &mut attempt.flags);
}

fn set_queue(state: &mut State, words: &mut Words) {
    let number = words.index();
    if let Some(first) = words.maybe("first") {
        let (name, namespace) = (words.take("name"), words.take("namespace"));
        let (left, size) = (words.take("left"), words.take("size"));
        let queue = Queue { name, namespace, left, size, head: first, granted: first, tail: first, ..Queue::default() };
        state.put_queue(number, queue);
    }
    let queue = &mut state.queues[number];
    words.take_into("epoch", &mut queue.epoch);
    words.take_into("head", &mut queue.head);
    words.take_into("granted", &mut queue.granted);
    words.take_into("given", &mut queue.given);
    words.take_into("settled", &mut queue.settled);
    words.take_into("pushed", &mut queue.pushed);
    words.take_into("holding", &mut queue.holding);
    words.take_into("ranked", &mut queue.ranked);
    for (stage, word) in (1..).zip(["draining", "handed", "awaited"]) {
        if words.flag(word) {
            queue.stage = stage;
        }
    }
    if words.flag("gone") {
        queue.size = 0;
    }
    if let Some(owner) = words.maybe::<u16>("owner") {
        queue.lock |= u64::from(owner) << 48;
    }
}

/// A line about queues. False: it is about something else.
pub(super) fn set_queues(state: &mut State, word: &str, words: &mut Words) -> bool {
    match word {
        "directory" => {
            words.take_into("seed", &mut state.directory.seed);
            words.take_into("mask", &mut state.directory.bucket_mask);
        }
        "servers" => {
            let servers = &mut state.servers[words.index()];
            servers.count = words.take("count");
            for at in 0..servers.count.min(14) as usize {
                words.take_into(&format!("of{at}"), &mut servers.of[at]);
            }
        }
        "queue" => set_queue(state, words),
        "waits" | "holds" => {
            let number = words.index();
            let who = who(words.take("holder"), words.take("port"), words.flag("exclusive"));
            state.line_up(number, Cell { request: words.take("request"), who });
            if word == "holds" {
                state.grant_next(number);
            }
        }
        "grants" => state.grant_next(words.index()),
        "ends" => {
            let number = words.index();
            state.end(number, words.take("ticket"));
        }
        "port" => {
            let number = words.index();
            let cell = state.cell_of(number, words.take("ticket"));
            cell.who = cell_who::with_reply_port(cell.who, words.take("is"));
        }
        _ => return false,
    }
    true
}
