//! Where a key lies: `ws_key_hash` and what follows from it, once more.

use wayside_protocol::chain::Key;

/// `ws_key_hash`.
pub fn hash(seed: u64, group: u16, key: Key) -> u64 {
    let mut hash = (key.high ^ seed).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 32 ^ key.low ^ u64::from(group) << 48).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash = (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash ^ hash >> 32
}

/// `ws_first_bucket` and `ws_second_bucket`.
pub fn buckets_of(hash: u64, mask: u32) -> [u32; 2] {
    let first = hash as u32;
    let second = first ^ ((hash >> 32) as u32 | 1).wrapping_mul(0x9e37_79b1);
    [first & mask, second & mask]
}
