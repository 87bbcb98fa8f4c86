//! Which items have no key, and which group the others are of.
//!
//! Invariants
//! * An item is in the ring of its key's group, or has no key and is in none.
//! * Every item below `unused` is in a ring or recycled.

use super::Item;
use crate::layout::GROUPS;
use crate::locks::OWNER;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Release, SeqCst};

/// See the module's documentation.
pub(super) struct Books {
    /// Had one.
    pub(super) recycled: Vec<u32>,
    /// All from here on never had one.
    pub(super) unused: u32,
    pub(super) keys: u32,
    pub(super) groups: Rings,
}

impl Books {
    pub(super) fn empty() -> Books {
        Books { recycled: Vec::new(), unused: 1, keys: 0, groups: Rings::default() }
    }

    /// An item, whose lock the caller has, has no key any more.
    pub(super) fn give_back(&mut self, place: &AtomicU64, item: &Item, lock: u64) {
        let number = place.swap(0, SeqCst) as u32;
        if let Some((group, _)) = item.key() {
            self.groups.leave(number, group);
        }
        item.name.store(0, Release);
        item.lock.store(lock.wrapping_add(2) & !OWNER, SeqCst);
        self.recycled.push(number);
        self.keys -= 1;
    }

    /// An item has a key of this group.
    pub(super) fn note(&mut self, number: u32, group: u16) {
        self.groups.enter(number, group);
        self.keys += 1;
    }

    /// An item without a key, for one of this group.
    pub(super) fn take(&mut self, items: usize, group: u16) -> Option<u32> {
        let number = self.recycled.pop().or_else(|| {
            let number = self.unused;
            ((number as usize) < items).then(|| {
                self.unused += 1;
                number
            })
        })?;
        self.note(number, group);
        Some(number)
    }
}

/// The items of each group, in a ring. A change of a group's place waits for whoever writes one of them, and all items
/// together may be a thousand times as many.
#[derive(Default)]
pub(super) struct Rings {
    /// Of each group one item; 0: it has none.
    first: Vec<u32>,
    /// Of each item those before and after it.
    beside: Vec<[u32; 2]>,
}

impl Rings {
    fn enter(&mut self, number: u32, group: u16) {
        self.first.resize(GROUPS, 0);
        if self.beside.len() <= number as usize {
            self.beside.resize(number as usize + 1, [0; 2]);
        }
        let first = &mut self.first[usize::from(group)];
        if *first == 0 {
            *first = number;
            self.beside[number as usize] = [number; 2];
            return;
        }
        let [last, _] = self.beside[*first as usize];
        self.beside[number as usize] = [last, *first];
        self.beside[last as usize][1] = number;
        self.beside[*first as usize][0] = number;
    }

    fn leave(&mut self, number: u32, group: u16) {
        let [before, after] = self.beside[number as usize];
        self.beside[before as usize][1] = after;
        self.beside[after as usize][0] = before;
        let first = &mut self.first[usize::from(group)];
        if *first == number {
            *first = if after == number { 0 } else { after };
        }
    }

    pub(super) fn of(&self, group: u16) -> impl Iterator<Item = u32> {
        let first = self.first.get(usize::from(group)).copied().filter(|first| *first != 0);
        let after = move |number: &u32| Some(self.beside[*number as usize][1]).filter(|next| Some(*next) != first);
        std::iter::successors(first, after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::take;
    use crate::{StoreConfig, Switch, SwitchConfig};
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Duration;
    use wayside_protocol::chain::memory::ItemMemory;
    use wayside_protocol::chain::{Key, Place, Version};
    use wayside_wire::mix;

    /// Long enough for a change of a place that waits for nobody.
    const MOMENT: Duration = Duration::from_millis(50);

    #[test]
    fn a_place_is_another_once_nobody_writes_a_key_of_its_group() {
        let switch =
            Switch::new(SwitchConfig { slots: 1, max_handle: 10 }).with_store(StoreConfig { keys: 10, seed: 7 });
        let place = |epoch| Place { epoch, previous: 0, next: 0 };
        let key = Key { high: 1, low: 2, check: 3 };
        for group in [1, 2] {
            switch.set_place(group, 1, place(11));
            assert_eq!(switch.insert(group, key, Version { epoch: 11, sequence: 1 }), Ok(true));
        }
        let (_, item) = switch.store.find(1, key).expect("just made");
        let (lock, is_changed) = (take(&item.lock), AtomicBool::new(false));
        // Of another group, it has nothing to wait for.
        switch.set_place(2, 1, place(12));
        thread::scope(|threads| {
            threads.spawn(|| {
                switch.set_place(1, 1, place(12));
                is_changed.store(true, SeqCst);
            });
            thread::sleep(MOMENT);
            assert!(!is_changed.load(SeqCst), "somebody still writes");
            item.lock.store(lock, SeqCst);
        });
        assert!(is_changed.load(SeqCst));
    }

    #[test]
    fn each_group_has_the_items_of_its_keys() {
        let (mut rings, mut expected) = (Rings::default(), BTreeMap::<u16, BTreeSet<u32>>::new());
        let mut group_of = BTreeMap::new();
        for step in 0..5_000 {
            let number = 1 + (mix(step) % 40) as u32;
            match group_of.remove(&number) {
                Some(group) => {
                    rings.leave(number, group);
                    expected.get_mut(&group).expect("it is there").remove(&number);
                }
                None => {
                    let group = [0, 1, u16::MAX][(mix(step) >> 32) as usize % 3];
                    rings.enter(number, group);
                    group_of.insert(number, group);
                    expected.entry(group).or_default().insert(number);
                }
            }
            for (&group, items) in &expected {
                let of: Vec<u32> = rings.of(group).take(41).collect();
                assert_eq!((of.len(), &of.into_iter().collect::<BTreeSet<_>>()), (items.len(), items), "step {step}");
            }
        }
        assert_eq!(rings.of(7).count(), 0);
    }
}
