//! Hash maps whose order depends on their keys alone, so that a simulated run can be repeated.

use core::hash::{BuildHasherDefault, Hasher};
use wayside_wire::mix;

/// Map from ids that Wayside gives out (request ids, slots): nobody can choose them to collide.
pub type IdMap<K, V> = hashbrown::HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// One multiplication-and-shift finalizer per id.
#[derive(Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u16(&mut self, id: u16) {
        self.write_u64(u64::from(id));
    }

    fn write_u32(&mut self, id: u32) {
        self.write_u64(u64::from(id));
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = mix(self.0 ^ id);
    }
}
