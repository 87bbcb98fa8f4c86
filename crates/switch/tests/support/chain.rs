//! Clients of the chain service that do not trust what they read.

use std::collections::BTreeMap;

use wayside_protocol::chain::{Key, Version};
use wayside_wire::{BODY, Condition, Effect, Header, Operation, Outcome, blocks, kind, limits, service, value_flag};

use super::{NAMESPACE, request};

/// The group of all keys, and its first epoch.
pub const GROUP: u16 = 1;
pub const FIRST_EPOCH: u32 = 11;

/// Key number `number`.
pub fn key(number: u64) -> Key {
    Key { high: number, low: !number, check: number }
}

/// A packet of the chain service about a key, with this value and room for the longest.
pub fn operation_packet(kind: u8, source: u16, epoch: u32, operation: &Operation, value: &[u8]) -> Vec<u8> {
    let count = (limits::MAX_VALUE_BYTES / limits::BLOCK_BYTES) as u8;
    let header =
        Header { service: service::CHAIN, kind, count, source, epoch, namespace: NAMESPACE, ..Header::default() };
    let mut packet = vec![0; BODY + Operation::BYTES + limits::MAX_VALUE_BYTES];
    header.write(&mut packet);
    Operation { length: value.len() as u16, ..*operation }.write(&mut packet, BODY);
    packet[BODY + Operation::BYTES..][..value.len()].copy_from_slice(value);
    packet
}

/// An operation of a client on a key.
pub fn operation(client: u16, number: u64, request: u64) -> Operation {
    let Key { high, low, check } = key(number);
    Operation { key_high: high, key_low: low, check, request, client, group: GROUP, ..Operation::default() }
}

/// A switch's decision: the answer, or nothing for what was dropped.
pub type Decide<'a> = &'a (dyn Fn(Vec<u8>, u16) -> Option<Vec<u8>> + Sync);

/// One client, in one thread.
pub struct Client<'a> {
    me: u16,
    decide: Decide<'a>,
    epoch: u32,
    requests: u64,
    random: u64,
    /// The latest version seen of each key.
    seen: BTreeMap<u64, Version>,
    /// What this client added to each counter.
    pub added: BTreeMap<u64, u64>,
    /// Requests that were sent again after their answer.
    pub repeated: u64,
}

/// What an answer tells.
struct Told {
    outcome: Outcome,
    own: Version,
    /// The item's version, and its value.
    version: Version,
    value: Option<Vec<u8>>,
}

/// Counter and key, so much noise, and a sum over them: a torn value has another.
fn value_of(number: u64, counter: u64, noise: usize, by: u64) -> Vec<u8> {
    let mut value = [counter.to_be_bytes(), number.to_be_bytes()].concat();
    value.extend((0..noise).map(|at| (by >> (at % 8 * 8)) as u8 ^ at as u8));
    value.extend(sum_of(&value).to_be_bytes());
    value
}

fn sum_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The counter of a value, which must be whole and of this key.
pub fn counter_of(number: u64, value: &[u8]) -> u64 {
    let (content, sum) = value.split_at(value.len() - 8);
    assert_eq!(sum_of(content).to_be_bytes(), sum, "a torn value of key {number}: {value:02x?}");
    let word = |at: usize| u64::from_be_bytes(content[at..at + 8].try_into().unwrap());
    assert_eq!(word(8), number, "another key's value");
    word(0)
}

impl<'a> Client<'a> {
    pub fn new(me: u16, decide: Decide<'a>) -> Client<'a> {
        let random = 0x9e37_79b9_7f4a_7c15 ^ u64::from(me);
        let (seen, added) = (BTreeMap::new(), BTreeMap::new());
        Client { me, decide, epoch: FIRST_EPOCH, requests: 0, random, seen, added, repeated: 0 }
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % bound
    }

    /// An operation of its own request, in any lane.
    fn operation(&mut self, number: u64) -> Operation {
        self.requests += 1;
        let lane = self.below(limits::MAX_LANES as u64) as u8;
        Operation { lane, ..operation(self.me, number, request(self.me, self.requests)) }
    }

    /// Sends it until it is answered.
    fn ask(&mut self, kind: u8, number: u64, operation: &Operation, value: &[u8]) -> Told {
        for _ in 0..10_000_000 {
            let packet = operation_packet(kind, self.me, self.epoch, operation, value);
            let Some(answer) = (self.decide)(packet, self.me) else {
                std::thread::yield_now();
                continue;
            };
            let header = Header::read(&answer).unwrap();
            assert_eq!((header.kind, header.destination), (kind::chain::ANSWER, self.me));
            let effect = Effect::read(&answer, BODY);
            let outcome = Outcome::try_from(effect.outcome).unwrap();
            if outcome == Outcome::Moved {
                self.epoch = header.epoch;
                continue;
            }
            assert_eq!(effect.request, operation.request, "somebody else's answer");
            let version = Version { epoch: effect.epoch, sequence: effect.sequence };
            if matches!(outcome, Outcome::Done | Outcome::Unmet) {
                let seen = self.seen.entry(number).or_default();
                assert!(version >= *seen, "key {number} fell from {seen:?} to {version:?}");
                *seen = version;
            }
            let has_value = effect.flags & value_flag::PRESENT != 0 && header.count != 0;
            let value = has_value.then(|| blocks(&answer)[..usize::from(effect.length)].to_vec());
            let own = Version { epoch: effect.own_epoch, sequence: effect.own_sequence };
            return Told { outcome, own, version, value };
        }
        panic!("nobody answers {operation:?}");
    }

    /// Version and counter of a key, if it is there; version alone, if it has no value.
    pub fn read(&mut self, number: u64) -> Option<(Version, Option<u64>)> {
        let operation = self.operation(number);
        let told = self.ask(kind::chain::READ, number, &operation, &[]);
        match told.outcome {
            Outcome::Done => Some((told.version, told.value.map(|value| counter_of(number, &value)))),
            Outcome::Missing => None,
            other => panic!("a read ended with {other:?}"),
        }
    }

    /// Writes, and once in a while sends the same again: whatever happened meanwhile, nothing happens now.
    fn write(&mut self, kind: u8, number: u64, operation: &Operation, value: &[u8]) -> Outcome {
        let before = self.seen.get(&number).copied().unwrap_or_default();
        let told = self.ask(kind, number, operation, value);
        if told.outcome == Outcome::Done {
            assert!(told.own > before, "a write that is not newer than what was there");
        }
        if let Some(value) = &told.value {
            counter_of(number, value);
        }
        if told.outcome != Outcome::Missing && self.below(4) == 0 {
            let again = self.ask(kind, number, operation, value);
            if again.outcome != Outcome::Missing {
                assert_eq!((again.outcome, again.own), (told.outcome, told.own), "of the same request");
                self.repeated += 1;
            }
        }
        told.outcome
    }

    fn new_value(&mut self, number: u64, counter: u64) -> Vec<u8> {
        let noise = self.below(1 + limits::MAX_VALUE_BYTES as u64 - 24) as usize;
        let by = self.random;
        value_of(number, counter, noise, by)
    }

    /// Adds 1 by compare-and-swap, of the version or of the counter. Whether it did.
    pub fn add(&mut self, number: u64) -> bool {
        let Some((version, counter)) = self.read(number) else { return false };
        if self.below(8) == 0 {
            std::thread::yield_now(); // With fewer cores than threads nobody else would come in between.
        }
        let mut operation = self.operation(number);
        operation.condition = match (counter, self.below(2)) {
            (None, 0) => Condition::Absent as u8,
            (Some(_), 0) => Condition::Version as u8,
            _ => Condition::Word as u8,
        };
        let counter = counter.unwrap_or(0);
        let by_version = operation.condition == Condition::Version as u8;
        operation.expected = if by_version { version.sequence } else { counter };
        operation.expected_epoch = version.epoch;
        let value = self.new_value(number, counter + 1);
        let did = self.write(kind::chain::WRITE, number, &operation, &value) == Outcome::Done;
        *self.added.entry(number).or_default() += u64::from(did);
        did
    }

    /// Writes or deletes, whatever is there.
    pub fn overwrite(&mut self, number: u64) {
        let operation = self.operation(number);
        if self.below(4) == 0 {
            self.write(kind::chain::DELETE, number, &operation, &[]);
        } else {
            let value = self.new_value(number, 0);
            self.write(kind::chain::WRITE, number, &operation, &value);
        }
    }
}
