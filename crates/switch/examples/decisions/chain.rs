//! What reading and writing a key costs, at the head and tail of a chain of one, natively. `WAYSIDE_KEYS=n`: a third
//! size of the store, 340 bytes a key.

use std::cell::Cell;
use std::env;

use wayside_protocol::chain::memory::ItemMemory;
use wayside_protocol::chain::{Key, Place, Version};
use wayside_switch::StoreConfig;
use wayside_wire::{BODY, Header, Operation, blocks, kind, limits, mix, service};

use super::{CHUNK, NAMESPACE, NODE, STRIDE, print, rounds, switch};

pub const GROUP: u16 = 1;
pub const SEED: u64 = 7;
pub const LENGTHS: [usize; 4] = [0, 16, 64, limits::MAX_VALUE_BYTES];
pub const PLACE: Place = Place { epoch: 1, previous: 0, next: 0 };

/// Key `index` of a store.
pub fn key(index: u32) -> Key {
    Key { high: mix(index.into()), low: mix(!u64::from(index)), check: index.into() }
}

fn packet(kind: u8, index: u32, length: usize, request: u64) -> Vec<u8> {
    let count = length.div_ceil(limits::BLOCK_BYTES);
    let header = Header {
        service: service::CHAIN,
        kind,
        count: count as u8,
        source: NODE,
        epoch: PLACE.epoch,
        namespace: NAMESPACE,
        ..Header::default()
    };
    let Key { high, low, check } = key(index);
    let operation = Operation {
        key_high: high,
        key_low: low,
        check,
        request,
        group: GROUP,
        client: NODE,
        length: length as u16,
        lane: (request % limits::MAX_LANES as u64) as u8,
        ..Operation::default()
    };
    let mut packet = vec![0; BODY + Operation::BYTES + count * limits::BLOCK_BYTES];
    header.write(&mut packet);
    operation.write(&mut packet, BODY);
    debug_assert!(blocks(&packet).len() >= length);
    packet
}

/// Of a value of this length.
pub fn write(index: u32, length: usize, request: u64) -> Vec<u8> {
    packet(kind::chain::WRITE, index, length, request)
}

/// With room for the longest value.
pub fn read(index: u32) -> Vec<u8> {
    packet(kind::chain::READ, index, limits::MAX_VALUE_BYTES, 1)
}

/// Prints what keys cost.
pub fn measure() {
    let mut sizes = vec![1_000, 1_000_000];
    sizes.extend(env::var("WAYSIDE_KEYS").ok().map(|keys| keys.parse::<u32>().expect("a number of keys")));
    print!("{:<40}", "");
    sizes.iter().for_each(|keys| print!("{:>11}{:>9}", format!("{keys} keys"), "signed"));
    println!("{:>12}", "spread, last");
    let mut results: Vec<Vec<_>> = LENGTHS.iter().flat_map(|_| [vec![], vec![]]).collect();
    for &keys in &sizes {
        let switch = switch(1).with_store(StoreConfig { keys, seed: SEED });
        switch.set_place(GROUP, NAMESPACE, PLACE);
        for index in 0..keys {
            let version = Version { epoch: PLACE.epoch, sequence: switch.next_sequence(GROUP) };
            assert_eq!(switch.insert(GROUP, key(index), version), Ok(true));
        }
        let step = Cell::new(0);
        let walk = || {
            step.set(step.get() + 1);
            (step.get() * STRIDE % u64::from(keys)) as u32
        };
        let mut request = 0;
        for (results, length) in results.chunks_mut(2).zip(LENGTHS) {
            let (begun, written) = (step.get(), switch.counter("written"));
            results[0].push(rounds(&switch, &mut || {
                let write = |_| {
                    request += 1;
                    write(walk(), length, request)
                };
                (0..CHUNK).map(write).collect()
            }));
            assert!(switch.counter("written") > written, "writes are done");
            step.set(begun); // What is read has been written with this length.
            let read_before = switch.counter("read");
            results[1].push(rounds(&switch, &mut || (0..CHUNK).map(|_| read(walk())).collect()));
            assert!(switch.counter("read") > read_before, "reads are answered");
        }
    }
    for (results, length) in results.chunks(2).zip(LENGTHS) {
        print(&format!("WRITE of {length} bytes"), &results[0]);
        print(&format!("READ of {length} bytes"), &results[1]);
    }
}
