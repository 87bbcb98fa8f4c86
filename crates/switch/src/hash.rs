//! Where a key or a name lies: `ws_key_hash` of `dataplane/items.h`, and the buckets that follow from it.

use crate::layout::BUCKET_PLACES;

/// `ws_key_hash`.
pub(crate) fn of(seed: u64, high: u64, low: u64, group: u16) -> u64 {
    let mut hash = (high ^ seed).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 32 ^ low ^ u64::from(group) << 48).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash = (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash ^ hash >> 32
}

/// `ws_first_bucket` and `ws_second_bucket`.
pub(crate) fn buckets(hash: u64, mask: u32) -> [usize; 2] {
    let first = hash as u32;
    let second = first ^ ((hash >> 32) as u32 | 1).wrapping_mul(0x9e37_79b1);
    [first, second].map(|bucket| (bucket & mask) as usize)
}

/// What a place begins with.
pub(crate) fn tag(hash: u64) -> u64 {
    hash >> 32 << 32
}

/// Buckets for so many keys. A power of two; at most 7 of 10 places are used. With eight places and two buckets to
/// choose from, keys find room up to 9 of 10.
pub(crate) fn buckets_for(keys: u32) -> u32 {
    (u64::from(keys) * 10 / 7).div_ceil(BUCKET_PLACES as u64).next_power_of_two().min(1 << 31) as u32
}
