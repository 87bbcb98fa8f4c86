//! Hash maps whose order depends on their keys and their history alone, so that a simulated run can be repeated.

use core::hash::{BuildHasherDefault, Hash, Hasher};
use core::ops::Deref;
use wayside_wire::mix;

/// Map from ids that Wayside or the kernel gives out (request ids, slots, ports): nobody can choose them to collide.
pub type IdMap<K, V> = hashbrown::HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Entries for which a [`SteadyMap`] has room at first.
const ROOM: usize = 16;

/// An [`IdMap`] in which entries come and go, and which allocates only when it has more than ever before.
///
/// Invariant: there is room for `2 * room` entries and there are never more than `room`. A table whose places have all
/// been used is then cleaned up where it is: it moves to a larger one only if it is more than half full.
pub struct SteadyMap<K, V> {
    map: IdMap<K, V>,
    room: usize,
}

impl<K: Eq + Hash, V> SteadyMap<K, V> {
    /// An empty one that has room for the first entries.
    #[must_use]
    pub fn with_room() -> Self {
        let mut map = SteadyMap::default();
        map.make_room();
        map
    }

    /// Adds or replaces.
    pub fn insert(&mut self, key: K, value: V) {
        self.make_room();
        self.map.insert(key, value);
    }

    /// The key's value; made, if there is none.
    pub fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.make_room();
        self.map.entry(key).or_default()
    }

    /// The key's value.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.map.get_mut(key)
    }

    /// Takes out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.map.remove(key)
    }

    /// As many entries as it may have before it needs more memory.
    #[must_use]
    pub fn room(&self) -> usize {
        self.room
    }

    /// Keys and values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.map.iter_mut()
    }

    /// Takes everything out, and keeps the room.
    pub fn drain(&mut self) -> impl Iterator<Item = (K, V)> + '_ {
        self.map.drain()
    }

    /// Forgets everything, and keeps the room.
    pub fn clear(&mut self) {
        self.map.clear();
    }

    fn make_room(&mut self) {
        if self.map.len() >= self.room {
            self.room = (2 * self.map.len()).max(ROOM);
            self.map.reserve(2 * self.room - self.map.len());
        }
    }
}

impl<K, V> Default for SteadyMap<K, V> {
    fn default() -> Self {
        SteadyMap { map: IdMap::default(), room: 0 }
    }
}

impl<K, V> Deref for SteadyMap<K, V> {
    type Target = IdMap<K, V>;

    fn deref(&self) -> &IdMap<K, V> {
        &self.map
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_map_keeps_its_memory_while_entries_come_and_go() {
        const MOST: u64 = 100;
        let mut map = SteadyMap::<u64, u64>::default();
        (0..MOST).for_each(|key| map.insert(key, key));
        let bytes = map.allocation_size();
        for key in MOST..100_000 {
            map.remove(&(key - MOST));
            map.insert(key, key);
            assert_eq!((map.allocation_size(), map.len()), (bytes, MOST as usize), "after {key}");
        }
        assert!((100_000 - MOST..100_000).all(|key| map.get(&key) == Some(&key)));
    }
}
