//! The chain service's memory: keys and values, allocated here or shared with the core at the hook, as the daemon makes
//! and removes keys while the core reads and writes values. `dataplane/items.h` has the layouts.
//!
//! Invariants
//! * A key has one item and one place in one of its two buckets, or neither. The place is written after the item, and
//!   cleared before it: who finds a place finds the item behind it, or another key in it, which it recognises.
//! * `Books` know every item without a key, and the group of every other. Item 0 is never used: a place of 0 is free.
//! * Whatever changes in an item changes under its lock (`dataplane/chain.h`).

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::{Mutex, MutexGuard};

use wayside_protocol::Handle;
use wayside_protocol::chain::memory::{Bytes, Content, ItemMemory, Lane as LaneContent, Owner, Seen, Unmade};
use wayside_protocol::chain::{Key, Place, Version};
use wayside_protocol::memory::{Moment, SwitchMemory};
use wayside_wire::{limits, request_id, value_flag};

use crate::Switch;
use crate::hash;
use crate::layout::{Bucket, GROUPS, Group, Item, Lane, NODES, Own, RECORDS, Record, VALUE_WORDS};
#[cfg(feature = "xdp")]
use crate::locks::is_left;
use crate::locks::{OWNER, take};
use crate::zeroed::Zeroed;
use books::Books;

/// How large a switch's store is.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreConfig {
    /// Keys of all namespaces together, 336 bytes each and some 20 of index. 0: no chain service.
    pub keys: u32,
    /// A secret: nobody who does not know it can choose keys that get into each other's way.
    pub seed: u64,
}

impl StoreConfig {
    /// Items: one more than keys, since none has the number 0.
    pub(crate) fn items(self) -> u32 {
        self.keys.saturating_add(1)
    }

    pub(crate) fn buckets(self) -> u32 {
        hash::buckets_for(self.keys)
    }

    pub(crate) fn lanes(self) -> u32 {
        if self.keys == 0 { 1 } else { (NODES * limits::MAX_LANES) as u32 }
    }

    /// Once: the seed belongs to what lies in the buckets, and is never 0.
    fn write_to(self, own: &Own) {
        if own.seed.load(Relaxed) == 0 {
            own.seed.store(self.seed | 1, Relaxed);
            own.bucket_mask.store(self.buckets() - 1, Relaxed);
        }
    }
}

pub(crate) struct Store {
    pub(crate) groups: Zeroed<Group>,
    pub(crate) buckets: Zeroed<Bucket>,
    pub(crate) items: Zeroed<Item>,
    pub(crate) lanes: Zeroed<Lane>,
    pub(crate) journal: Zeroed<Record>,
    pub(crate) own: Zeroed<Own>,
    books: Mutex<Books>,
}

impl Store {
    pub(crate) fn new(config: StoreConfig) -> Store {
        let own: Zeroed<Own> = Zeroed::new(1);
        config.write_to(&own[0]);
        Store {
            groups: Zeroed::new(GROUPS),
            buckets: Zeroed::new(config.buckets() as usize),
            items: Zeroed::new(config.items() as usize),
            lanes: Zeroed::new(config.lanes() as usize),
            journal: Zeroed::new(RECORDS),
            own,
            books: Mutex::new(Books::empty()),
        }
    }

    /// Tables that somebody else may have used before: what is in them stays, what a thread of a process that died was
    /// writing is settled. The core at the hook finishes what it begins.
    #[cfg(feature = "xdp")]
    pub(crate) fn over(
        config: StoreConfig,
        groups: Zeroed<Group>,
        buckets: Zeroed<Bucket>,
        items: Zeroed<Item>,
        lanes: Zeroed<Lane>,
        journal: Zeroed<Record>,
        own: Zeroed<Own>,
    ) -> Store {
        config.write_to(&own[0]);
        let store = Store { groups, buckets, items, lanes, journal, own, books: Mutex::new(Books::empty()) };
        store.settle();
        let last = (1..store.items.len()).rfind(|number| store.is_placed(*number)).unwrap_or(0);
        let mut books = Books { unused: last as u32 + 1, ..Books::empty() };
        for number in 1..=last {
            match store.items[number].key().filter(|_| store.is_placed(number)) {
                Some((group, _)) => books.note(number as u32, group),
                None => books.recycled.push(number as u32),
            }
        }
        *store.books() = books;
        store
    }

    /// Gives back the locks of threads that are no more. What one of them had written counts if its lane says so.
    #[cfg(feature = "xdp")]
    fn settle(&self) {
        let owner = |lock: &AtomicU64| lock.load(SeqCst) >> 48;
        // Few, or none: a thread has one item and one lane at a time.
        let lanes: Vec<&Lane> = self.lanes.iter().filter(|lane| is_left(&lane.lock)).collect();
        for item in self.items.iter().filter(|item| is_left(&item.lock)) {
            let mut lock = item.lock.load(SeqCst) & !OWNER;
            let other = (lock & 1 ^ 1) as usize;
            let written = item.version(other).0;
            let is_of_it = |lane: &&Lane| {
                owner(&lane.lock) == owner(&item.lock) && lane.read().own == written && lane.is_remembered()
            };
            // It may have met this version, a condition unmet: then it counts already, and is not the other one.
            if lanes.iter().any(is_of_it) && written > item.version((lock & 1) as usize).0 {
                lock = (lock & !1).wrapping_add(2) & !OWNER | other as u64;
            } else {
                // What never counted is not to be taken for what a later writer wrote, should that one die as well.
                item.versions[other].sequence.store(0, SeqCst);
                item.versions[other].shape.store(0, SeqCst);
                item.versions[other].owner.store(0, SeqCst);
            }
            item.lock.store(lock, SeqCst);
        }
        lanes.iter().for_each(|lane| lane.lock.store(0, SeqCst));
        self.settle_journal();
        // Nobody is left who would remove what was leaving.
        self.items.iter().for_each(|item| item.mark(item.lock.load(SeqCst), false));
    }

    /// A session begins, where one of incarnation `before` was: what its lanes remember of others' requests is
    /// older than all of its own. Without this, memory that outlived the controller's records would take new
    /// requests for old ones.
    pub(crate) fn begin_lanes(&self, handle: Handle, before: u64, incarnation: u64) {
        let of = |incarnation: u64| request_id::with_incarnation(0, incarnation as u32 & 0xff_ffff);
        let oldest = of(incarnation);
        // Both look alike to whoever sees their requests alone.
        let is_alike = before != incarnation && of(before) == oldest;
        let first = usize::from(handle) * limits::MAX_LANES;
        for lane in self.lanes.get(first..first + limits::MAX_LANES).into_iter().flatten() {
            let lock = take(&lane.lock);
            // Requests of this very session stay: the switch before this one in a chain may have been told first.
            let remembered = request_id::incarnation(lane.request.load(Acquire));
            if is_alike || remembered != request_id::incarnation(oldest) {
                // The id before all of its own. 0 would be none, and let a late request of the session before in.
                lane.request.store(oldest.wrapping_sub(1), Release);
            }
            lane.lock.store(lock, SeqCst);
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("nobody panics while holding it")
    }

    fn group(&self, group: u16) -> &Group {
        &self.groups[usize::from(group)]
    }

    /// The two buckets of a key, and what its place begins with.
    fn buckets_of(&self, group: u16, key: Key) -> ([&Bucket; 2], u64) {
        let hash = hash::of(self.own[0].seed.load(Relaxed), key.high, key.low, group);
        let mask = self.own[0].bucket_mask.load(Relaxed);
        (hash::buckets(hash, mask).map(|bucket| &self.buckets[bucket]), hash::tag(hash))
    }

    /// Whether an item has a key, which is found at it. A daemon that died between the two left one that is not.
    #[cfg(feature = "xdp")]
    fn is_placed(&self, number: usize) -> bool {
        let Some((group, key)) = self.items[number].key() else { return false };
        self.find(group, key).is_some_and(|(place, _)| place.load(Relaxed) as u32 as usize == number)
    }

    /// A key's place and item.
    fn find(&self, group: u16, key: Key) -> Option<(&AtomicU64, &Item)> {
        let (buckets, tag) = self.buckets_of(group, key);
        let places = buckets.into_iter().flat_map(|bucket| &bucket.places);
        places.map(|place| (place, place.load(Acquire))).find_map(|(place, word)| {
            let item = &self.items[word as u32 as usize];
            let is_it = word as u32 != 0 && word >> 32 << 32 == tag && item.is_of(group, key);
            is_it.then_some((place, item))
        })
    }
}

/// What of an item's name is its group: `WS_ITEM_GROUP`.
const ITEM_GROUP: u64 = 0x1_ffff;

fn item_name(group: u16, key: Key) -> u64 {
    key.check << 17 | (1 + u64::from(group))
}

impl Item {
    fn is_in(&self, group: u16) -> bool {
        self.name.load(Acquire) & ITEM_GROUP == 1 + u64::from(group)
    }

    /// Whatever its check says: of two names with one key, one has it.
    fn is_of(&self, group: u16, key: Key) -> bool {
        self.is_in(group) && self.key_high.load(Acquire) == key.high && self.key_low.load(Acquire) == key.low
    }

    fn version(&self, which: usize) -> (Version, u16, u16) {
        let shape = self.versions[which].shape.load(Acquire);
        let sequence = self.versions[which].sequence.load(Acquire);
        (Version { epoch: (shape >> 32) as u32, sequence }, (shape >> 16) as u16, shape as u16)
    }

    /// Fills the version that does not count. The lock, which the caller has, as it is to be given back.
    fn fill(&self, lock: u64, content: &Content) -> u64 {
        let other = (lock & 1 ^ 1) as usize;
        for (word, bytes) in self.values[other].iter().zip(content.bytes.chunks_exact(8)) {
            word.store(u64::from_be_bytes(bytes.try_into().expect("eight bytes")), Release);
        }
        let length = content.length.unwrap_or(0);
        let shape = u64::from(content.version.epoch) << 32 | u64::from(length) << 16 | u64::from(content.flags());
        self.versions[other].sequence.store(content.version.sequence, Release);
        self.versions[other].shape.store(shape, Release);
        self.versions[other].owner.store(Owner::pack(content.lease), Release);
        (lock & !1).wrapping_add(2) & !OWNER | other as u64
    }

    /// What the item has, under its lock or not: together with the lock, if that stays the same.
    fn read(&self, lock: u64) -> Content {
        let which = (lock & 1) as usize;
        let (version, length, flags) = self.version(which);
        let mut bytes: Bytes = [0; limits::MAX_VALUE_BYTES];
        for (word, bytes) in self.values[which].iter().zip(bytes.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Acquire).to_be_bytes());
        }
        bytes[usize::from(length).min(limits::MAX_VALUE_BYTES)..].fill(0);
        let is = |flag| flags & flag != 0;
        let lease = is(value_flag::LEASED).then(|| Owner::unpack(self.versions[which].owner.load(Acquire)));
        Content { version, length: is(value_flag::PRESENT).then_some(length), lease, bytes }
    }

    /// Says of the version that counts, under its lock, whether the key is leaving.
    fn mark(&self, lock: u64, leaves: bool) {
        let shape = &self.versions[(lock & 1) as usize].shape;
        let without = shape.load(Acquire) & !u64::from(value_flag::LEAVING);
        shape.store(without | if leaves { u64::from(value_flag::LEAVING) } else { 0 }, SeqCst);
    }

    /// Whether it is a key's, which has no value since this version. Under its lock.
    fn is_empty_at(&self, lock: u64, group: u16, key: Key, at: Version) -> bool {
        let (version, _, flags) = self.version((lock & 1) as usize);
        self.is_of(group, key) && version == at && flags & value_flag::PRESENT == 0
    }

    /// The key that it has, and the key's group.
    fn key(&self) -> Option<(u16, Key)> {
        let name = self.name.load(Acquire);
        let group = (name & ITEM_GROUP).checked_sub(1)? as u16;
        Some((group, Key { high: self.key_high.load(Acquire), low: self.key_low.load(Acquire), check: name >> 17 }))
    }
}

impl Switch {
    /// Whether every group that has a place here is of the namespace that it has to be of.
    pub fn has_groups_of(&self, namespace_of: impl Fn(u16) -> Option<u16>) -> bool {
        (0u16..=u16::MAX).zip(self.store.groups.iter()).all(|(number, group)| {
            let namespace = group.namespace.load(Acquire);
            group.place.load(Acquire) == 0 || namespace_of(number).is_some_and(|wanted| u32::from(wanted) == namespace)
        })
    }

    /// With a store for the chain service.
    #[must_use]
    pub fn with_store(self, config: StoreConfig) -> Switch {
        Switch::of(self.memory, Store::new(config), self.queues, self.counters, self.traces)
    }
}

impl Switch {
    /// Forgets every place and every key, as if the memory were new. The counts of versions go on. When this returns,
    /// no packet that was checked before writes any more.
    pub fn empty_store(&self) {
        let mut books = self.store.books();
        for group in self.store.groups.iter().filter(|group| group.place.load(Relaxed) != 0) {
            group.place.store(0, SeqCst);
        }
        for place in self.store.buckets.iter().flat_map(|bucket| &bucket.places) {
            place.store(0, SeqCst);
        }
        // Item 0 is nobody's.
        for item in &self.store.items[1..] {
            let lock = take(&item.lock);
            item.name.store(0, Release);
            item.lock.store(lock.wrapping_add(2) & !OWNER, SeqCst);
        }
        for lane in self.store.lanes.iter().filter(|lane| lane.request.load(Relaxed) != 0) {
            let lock = take(&lane.lock);
            lane.request.store(0, Release);
            lane.lock.store(lock, SeqCst);
        }
        // Those of sessions that are known go on as the first time: see `begin_lanes`.
        for handle in 1..=self.max_handle() {
            let (_, incarnation) = self.memory.session(handle);
            if incarnation != 0 {
                self.store.begin_lanes(handle, incarnation, incarnation);
            }
        }
        *books = Books::empty();
    }
}

impl ItemMemory for Switch {
    fn set_own_handle(&self, handle: Handle) {
        self.store.own[0].handle.store(handle.into(), Release);
    }

    fn serve_places_for(&self, since: Moment, lease: u64) {
        self.store.own[0].lease.run_for(since, lease, self.ticks_within(lease));
    }

    fn serve_places_without_end(&self) {
        self.store.own[0].lease.run_without_end();
    }

    fn place(&self, group: u16) -> Place {
        Place::unpack(self.store.group(group).place.load(SeqCst))
    }

    fn set_place(&self, group: u16, namespace: u16, place: Place) {
        let to = self.store.group(group);
        let before = Place::unpack(to.place.load(SeqCst));
        if before.epoch == 0 {
            to.namespace.store(namespace.into(), Release);
        }
        // The count of versions goes on: somebody may be counting one in the epoch before, at this moment.
        to.place.store(place.pack(), SeqCst);
        if before.epoch == 0 || before == place {
            return;
        }
        for number in self.store.books().groups.of(group) {
            let item = &self.store.items[number as usize];
            let lock = take(&item.lock);
            item.lock.store(lock, Release);
        }
    }

    fn next_sequence(&self, group: u16) -> u64 {
        self.store.group(group).sequence.fetch_add(1, SeqCst) + 1
    }

    fn insert(&self, group: u16, key: Key, version: Version) -> Result<bool, Unmade> {
        let mut books = self.store.books();
        if let Some((_, item)) = self.store.find(group, key) {
            let same = item.name.load(Acquire) == item_name(group, key);
            return if same { Ok(false) } else { Err(Unmade::Collision) };
        }
        let (buckets, tag) = self.store.buckets_of(group, key);
        let free = |bucket: &&Bucket| bucket.places.iter().filter(|place| place.load(Relaxed) == 0).count();
        // The emptier one, so that few keys ever find both full.
        let bucket = buckets.into_iter().max_by_key(free).expect("there are two");
        let place = bucket.places.iter().find(|place| place.load(Relaxed) == 0).ok_or(Unmade::Places)?;
        let number = books.take(self.store.items.len(), group).ok_or(Unmade::Items)?;
        let item = &self.store.items[number as usize];
        let lock = take(&item.lock);
        let lock = item.fill(lock, &Content::nothing(version));
        item.key_high.store(key.high, Release);
        item.key_low.store(key.low, Release);
        item.name.store(item_name(group, key), Release);
        item.lock.store(lock, SeqCst);
        place.store(tag | u64::from(number), SeqCst);
        Ok(true)
    }

    fn remove(&self, group: u16, key: Key) -> bool {
        let mut books = self.store.books();
        let Some((place, item)) = self.store.find(group, key) else { return false };
        books.give_back(place, item, take(&item.lock));
        true
    }

    fn content(&self, group: u16, key: Key) -> Option<Content> {
        let (_, item) = self.store.find(group, key)?;
        let lock = take(&item.lock);
        let content = item.is_of(group, key).then(|| item.read(lock));
        item.lock.store(lock, Release);
        content
    }

    fn raise(&self, group: u16, key: Key, content: &Content) -> bool {
        let Some((_, item)) = self.store.find(group, key) else { return false };
        let lock = take(&item.lock);
        let newer = item.is_of(group, key) && content.version > item.version((lock & 1) as usize).0;
        item.lock.store(if newer { item.fill(lock, content) } else { lock }, SeqCst);
        newer
    }

    fn lane(&self, client: Handle, lane: u8) -> LaneContent {
        let lane = self.store.lane(client, lane);
        let lock = take(&lane.lock);
        let content = lane.read();
        lane.lock.store(lock, Release);
        content
    }

    fn raise_lane(&self, client: Handle, lane: u8, content: &LaneContent) {
        let lane = self.store.lane(client, lane);
        let lock = take(&lane.lock);
        let remembered = lane.request.load(Acquire);
        let later = content.request.wrapping_sub(remembered).wrapping_sub(1) < 1 << 63;
        if content.request != 0 && (remembered == 0 || later) {
            lane.own_sequence.store(content.own.sequence, Release);
            lane.own_epoch.store(content.own.epoch, Release);
            lane.outcome.store(content.outcome.into(), Release);
            lane.request.store(content.request, Release);
        }
        lane.lock.store(lock, SeqCst);
    }

    fn keys(&self) -> (u32, u32) {
        (self.store.books().keys, self.store.items.len() as u32 - 1)
    }

    fn look(&self, from: u32, most: u32, show: &mut dyn FnMut(Seen)) -> Option<u32> {
        let used = self.store.books().unused;
        let (from, end) = (from.max(1), from.saturating_add(most).min(used));
        for item in self.store.items.get(from as usize..end as usize).into_iter().flatten() {
            let before = item.lock.load(SeqCst);
            let flags = item.version((before & 1) as usize).2 & (value_flag::PRESENT | value_flag::LEASED);
            // Nobody writes it, and whoever does after this sees what the caller has heard.
            if before & OWNER == 0 && flags == value_flag::PRESENT {
                continue;
            }
            let lock = take(&item.lock);
            let (key, content) = (item.key(), item.read(lock));
            item.lock.store(lock, Release);
            let Content { version, length, lease, .. } = content;
            if let Some((group, key)) = key.filter(|_| length.is_none() || lease.is_some()) {
                show(Seen { group, key, version, is_present: length.is_some(), lease });
            }
        }
        (end < used).then_some(end)
    }

    fn end_lease(&self, group: u16, key: Key, leased: Version, epoch: u32) -> Option<Content> {
        let (_, item) = self.store.find(group, key)?;
        let lock = take(&item.lock);
        let before = item.read(lock);
        if !item.is_of(group, key) || before.version != leased || before.lease.is_none() || before.length.is_none() {
            item.lock.store(lock, Release);
            return None;
        }
        let version = Version { epoch, sequence: self.next_sequence(group) };
        let ended = Content { lease: before.lease, ..Content::nothing(version) };
        let filled = item.fill(lock, &ended);
        let record = self.store.note(group, item, (filled & 1) as usize);
        item.lock.store(filled, SeqCst);
        record.inspect(|record| record.tell());
        Some(ended)
    }

    fn leave(&self, group: u16, key: Key, at: Version) -> bool {
        let Some((_, item)) = self.store.find(group, key) else { return false };
        let lock = take(&item.lock);
        let leaves = item.is_empty_at(lock, group, key, at);
        if leaves {
            item.mark(lock, true);
        }
        item.lock.store(lock, SeqCst);
        leaves
    }

    fn stay(&self, group: u16, key: Key) {
        let Some((_, item)) = self.store.find(group, key) else { return };
        let lock = take(&item.lock);
        item.mark(lock, false);
        item.lock.store(lock, SeqCst);
    }

    fn remove_at(&self, group: u16, key: Key, at: Version) -> bool {
        let mut books = self.store.books();
        let Some((place, item)) = self.store.find(group, key) else { return false };
        let lock = take(&item.lock);
        if !item.is_empty_at(lock, group, key, at) {
            item.lock.store(lock, Release);
            return false;
        }
        books.give_back(place, item, lock);
        true
    }

    fn is_over(&self, owner: Owner) -> bool {
        let over = self.memory.overs[usize::from(owner.handle)].load(SeqCst);
        let latest = self.memory.nodes[usize::from(owner.handle)].incarnation.load(Acquire);
        // What it has of them are low halves: they rise, and begin anew.
        let since = |incarnation: u64| (incarnation as u32).wrapping_sub(owner.incarnation) as i32;
        (over != 0 && since(over) >= 0) || (latest != 0 && since(latest) > 0)
    }

    fn ends(&self) -> u64 {
        self.memory.ends.load(SeqCst)
    }
}

impl Store {
    /// # Panics
    /// If there is no chain service, or no such lane.
    fn lane(&self, client: Handle, lane: u8) -> &Lane {
        assert!(usize::from(lane) < limits::MAX_LANES, "no lane {lane}");
        &self.lanes[usize::from(client) * limits::MAX_LANES + usize::from(lane)]
    }
}

impl Lane {
    /// Whether it remembers the request that its lock, which somebody has, says it is to remember.
    #[cfg(feature = "xdp")]
    fn is_remembered(&self) -> bool {
        (self.lock.load(SeqCst) ^ self.request.load(SeqCst)) & !OWNER == 0
    }

    fn read(&self) -> LaneContent {
        LaneContent {
            request: self.request.load(Acquire),
            own: Version { epoch: self.own_epoch.load(Acquire), sequence: self.own_sequence.load(Acquire) },
            outcome: self.outcome.load(Acquire) as u8,
        }
    }
}

const _: () = assert!(VALUE_WORDS * 8 == limits::MAX_VALUE_BYTES);

mod books;
mod journal;
#[cfg(all(test, feature = "xdp", feature = "race"))]
mod tests;
