//! The journal of what keys take in groups that are watched, as the daemon reads it: `dataplane/items.h`.

use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};

use wayside_protocol::chain::memory::{Bytes, Content, JournalMemory, Record, Recorded};
use wayside_protocol::chain::{Key, Version};
use wayside_protocol::memory::SwitchMemory;
use wayside_protocol::{Handle, Time};
use wayside_wire::{NodeState, limits, value_flag};

use super::{ITEM_GROUP, Store};
use crate::Switch;
use crate::layout::{self, Item, RECORDS};
#[cfg(feature = "xdp")]
use crate::locks::is_left;
use crate::locks::{DAEMON, OWNER, take};

#[cfg(feature = "xdp")]
impl Store {
    /// Records of threads that are no more: nobody waits for them, and their places are for others again.
    pub(super) fn settle_journal(&self) {
        for record in self.journal.iter().filter(|record| is_left(&record.lock)) {
            record.lock.fetch_and(!OWNER, SeqCst);
        }
    }
}

impl Store {
    /// Notes what an item, whose lock the caller has, is to have: `ws_note`, for the daemon's own changes. To be told
    /// once the lock is given back.
    pub(super) fn note(&self, group: u16, item: &Item, which: usize) -> Option<&layout::Record> {
        if self.group(group).watched.load(SeqCst) == 0 {
            return None;
        }
        let own = &self.own[0];
        let number = (own.drawn.fetch_add(1, SeqCst) + 1) & !OWNER;
        let record = &self.journal[number as usize % RECORDS];
        let last = record.lock.load(SeqCst);
        let is_free = last & OWNER == 0 && last < number;
        if !is_free || record.lock.compare_exchange(last, DAEMON << 48 | number, SeqCst, SeqCst).is_err() {
            own.torn.fetch_add(1, SeqCst);
            return None;
        }
        let (before, version) = (&item.versions[which ^ 1], &item.versions[which]);
        let pairs = [
            (&record.key_high, &item.key_high),
            (&record.key_low, &item.key_low),
            (&record.name, &item.name),
            (&record.before_sequence, &before.sequence),
            (&record.before_shape, &before.shape),
            (&record.sequence, &version.sequence),
            (&record.shape, &version.shape),
        ];
        let values = record.value.iter().zip(&item.values[which]);
        pairs.into_iter().chain(values).for_each(|(to, from)| to.store(from.load(Acquire), Release));
        Some(record)
    }
}

impl layout::Record {
    /// Its item's lock has been given back.
    pub(super) fn tell(&self) {
        self.lock.fetch_and(!OWNER, SeqCst);
    }

    /// What it has, whole or not. `None`: nothing that has ever been a key's.
    fn load(&self) -> Option<Record> {
        let name = self.name.load(Acquire);
        let group = (name & ITEM_GROUP).checked_sub(1)?;
        let key = Key { high: self.key_high.load(Acquire), low: self.key_low.load(Acquire), check: name >> 17 };
        let version = |sequence: &AtomicU64, shape: u64| Version {
            epoch: (shape >> 32) as u32,
            sequence: sequence.load(Acquire),
        };
        let (before, shape) = (self.before_shape.load(Acquire), self.shape.load(Acquire));
        let (length, flags) = ((shape >> 16) as u16, shape as u16);
        let mut bytes: Bytes = [0; limits::MAX_VALUE_BYTES];
        for (word, bytes) in self.value.iter().zip(bytes.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Acquire).to_be_bytes());
        }
        bytes.get_mut(usize::from(length)..)?.fill(0);
        let length = (flags & value_flag::PRESENT != 0).then_some(length);
        let content = Content { version: version(&self.sequence, shape), length, bytes, lease: None };
        Some(Record { group: group as u16, key, before: version(&self.before_sequence, before), content })
    }
}

impl JournalMemory for Switch {
    fn watch_groups(&self, groups: Range<u16>, watched: bool) {
        for group in &self.store.groups[usize::from(groups.start)..usize::from(groups.end)] {
            group.watched.store(watched.into(), SeqCst);
        }
        if !watched {
            return;
        }
        // Whoever took an item's lock before has not seen it.
        let is_in =
            |name: u64| (name & ITEM_GROUP).checked_sub(1).is_some_and(|group| groups.contains(&(group as u16)));
        for item in self.store.items.iter().filter(|item| is_in(item.name.load(Acquire))) {
            let lock = take(&item.lock);
            item.lock.store(lock, Release);
        }
    }

    fn drawn(&self) -> u64 {
        self.store.own[0].drawn.load(SeqCst)
    }

    fn torn(&self) -> u64 {
        self.store.own[0].torn.load(SeqCst)
    }

    fn record(&self, number: u64) -> Recorded {
        let record = &self.store.journal[number as usize % RECORDS];
        let lock = record.lock.load(SeqCst);
        let current = lock & !OWNER;
        if current > number {
            return Recorded::Overwritten;
        }
        if lock != number {
            return Recorded::Awaited;
        }
        let read = record.load();
        fence(Acquire);
        match read {
            Some(read) if record.lock.load(SeqCst) == lock => Recorded::Record(read),
            _ => Recorded::Overwritten,
        }
    }

    fn serves_places_at(&self, now: Time) -> bool {
        let end = self.store.own[0].lease.end_us.load(SeqCst);
        end == 0 || now.0 < end
    }

    fn live_session(&self, handle: Handle) -> Option<(u16, u64)> {
        (self.node_word(handle).state == NodeState::Live).then(|| self.memory.session(handle))
    }
}
