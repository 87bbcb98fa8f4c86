//! The chain service's part of a test's switch: keys where the core looks for them, versions as it writes them.

use wayside_protocol::chain::Key;
use wayside_wire::{limits, value_flag};

use super::hash::{buckets_of, hash};
use super::{Bucket, State};

/// The key of tests that need but one.
pub const KEY: Key = Key { high: 0xaaaa_0000_0000_00aa, low: 0xbbbb_0000_0000_00bb, check: 5 };

/// Lane `lane` of a client, among all lanes.
pub fn lane_index(client: u16, lane: u8) -> usize {
    usize::from(client) * limits::MAX_LANES + usize::from(lane)
}

/// Bytes of the blocks that a value takes.
pub fn padded(value: &[u8]) -> Vec<u8> {
    let mut blocks = value.to_vec();
    blocks.resize(value.len().next_multiple_of(limits::BLOCK_BYTES), 0);
    blocks
}

impl State {
    /// Item `number` becomes this key's, and is found. What it has stays.
    pub fn put_key(&mut self, number: usize, group: u16, key: Key) {
        let is_its = |place: &&mut u64| **place as u32 as usize == number;
        self.buckets.iter_mut().flat_map(|bucket| &mut bucket.places).filter(is_its).for_each(|place| *place = 0);
        let item = &mut self.items[number];
        (item.key_high, item.key_low) = (key.high, key.low);
        item.name = key.check << 17 | (1 + u64::from(group));
        let hash = hash(self.store.seed, group, key);
        let free = |bucket: &Bucket| bucket.places.iter().position(|place| *place == 0);
        let choices = buckets_of(hash, self.store.bucket_mask).map(|bucket| bucket as usize);
        let bucket = choices.into_iter().find(|&bucket| free(&self.buckets[bucket]).is_some()).expect("few keys");
        let place = free(&self.buckets[bucket]).expect("just seen");
        self.buckets[bucket].places[place] = hash >> 32 << 32 | number as u64;
    }

    /// Item `number` has another version from now on, in the place of the one before the latest.
    pub fn write_item(&mut self, number: usize, (epoch, sequence): (u32, u64), value: Option<&[u8]>) {
        let item = &mut self.items[number];
        let other = (item.lock & 1 ^ 1) as usize;
        let bytes = padded(value.unwrap_or_default());
        for (word, bytes) in item.values[other].iter_mut().zip(bytes.chunks(8)) {
            *word = u64::from_be_bytes(bytes.try_into().expect("whole blocks"));
        }
        let length = value.map_or(0, <[u8]>::len) as u64;
        let flags = value.map_or(0, |_| u64::from(value_flag::PRESENT));
        item.versions[other].sequence = sequence;
        item.versions[other].shape = u64::from(epoch) << 32 | length << 16 | flags;
        item.versions[other].owner = 0;
        self.turn_item(number);
    }

    /// The version of item `number` is leased to this session.
    pub fn lease_item(&mut self, number: usize, handle: u16, incarnation: u32) {
        let item = &mut self.items[number];
        let version = &mut item.versions[(item.lock & 1) as usize];
        version.shape |= u64::from(value_flag::LEASED);
        version.owner = u64::from(handle) << 32 | u64::from(incarnation);
    }

    /// The other version of item `number` is its version.
    pub fn turn_item(&mut self, number: usize) {
        let item = &mut self.items[number];
        item.lock = (item.lock + 2) ^ 1;
    }
}
