//! The controller's records, as a damaged or foreign store gives them: refused, or worked with.

use crate::bytes::Bytes;
use crate::controller::{Desk, Disk};
use wayside_protocol::controller::{COUNTERS_KEY, Counters, SessionRecord};

pub fn run(input: &[u8]) {
    if let Some(counters) = Counters::decode(input) {
        assert_eq!(Counters::decode(&counters.encode().1), Some(counters));
    }
    if let Some(record) = SessionRecord::decode(input) {
        assert_eq!(SessionRecord::decode(&record.encode(7).1), Some(record));
    }
    let mut input = Bytes(input);
    let signs = input.u8() & 1 != 0;
    let mut records = Vec::new();
    while !input.is_over() && records.len() < 8 {
        // The counters first, then handles.
        let key = if records.is_empty() { COUNTERS_KEY } else { input.u8().into() };
        records.push((key, input.slice()));
    }
    let Some(mut desk) = Desk::open(Disk::of(records), signs) else { return };
    for _ in 0..8 {
        desk.pass(1 + input.pause());
    }
}
