//! What a lock costs whose queue the switch keeps, natively: each packet finds another queue, far from the one before.

use std::cell::Cell;

use wayside_switch::QueueConfig;
use wayside_wire::{Attempt, BODY, Header, kind, mix, queue_flag, service};

use super::{CHUNK, NAMESPACE, NODE, STRIDE, print, rounds, switch};

pub const SEED: u64 = 7;
/// Of each queue.
pub const CELLS: u32 = 8;

/// Name `index` of a namespace.
pub fn name(index: u32) -> u64 {
    mix(index.into())
}

fn packet(kind: u8, source: u16, index: u32, request: u64, ticket: u64) -> Vec<u8> {
    let header = Header { service: service::QUEUE, kind, source, epoch: 1, namespace: NAMESPACE, ..Header::default() };
    let flags = queue_flag::EXCLUSIVE;
    let attempt = Attempt { name: name(index), request, holder: source, ticket, flags, ..Attempt::default() };
    let mut packet = vec![0; BODY + Attempt::BYTES];
    header.write(&mut packet);
    attempt.write(&mut packet, BODY);
    packet
}

/// Of a node's request, which has no ticket yet.
pub fn acquire(source: u16, index: u32, request: u64) -> Vec<u8> {
    packet(kind::queue::ACQUIRE, source, index, request, 0)
}

/// Of one that has.
pub fn release(source: u16, index: u32, request: u64, ticket: u64) -> Vec<u8> {
    packet(kind::queue::RELEASE, source, index, request, ticket)
}

/// Prints what queues cost.
pub fn measure() {
    println!("{:<40}{:>11}{:>9}{:>11}{:>9}{:>12}", "", "1 k queues", "signed", "1 M queues", "signed", "spread, 1 M");
    let sizes = [1_000, 1_000_000].map(|queues| {
        let memory = QueueConfig { queues, cells: queues * CELLS, seed: SEED };
        let switch = switch(1).with_queues(memory);
        for index in 0..queues {
            switch.add_queue(NAMESPACE, name(index), CELLS, 1).expect("room for each");
        }
        let step = Cell::new(0);
        rounds(&switch, &mut || {
            let pairs = (0..CHUNK / 2).flat_map(|_| {
                let (index, turn) = at(step.replace(step.get() + 1), queues);
                [acquire(NODE, index, turn), release(NODE, index, turn, turn)]
            });
            pairs.collect()
        })
    });
    print("queue: ACQUIRE granted at once, RELEASE", &sizes);
}

/// The queue of a step, and which turn of that queue it is, from 1 on: its request, and its ticket.
pub fn at(step: u64, queues: u32) -> (u32, u64) {
    ((step * STRIDE % u64::from(queues)) as u32, step / u64::from(queues) + 1)
}
