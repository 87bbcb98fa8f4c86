//! A switch's keys and values as its daemon sees them, while the data plane reads and writes them. The layouts are in
//! `dataplane/items.h`.

use super::{Key, Place, Version};
use crate::memory::Moment;
use crate::{Handle, Time};
use alloc::sync::Arc;
use core::ops::Range;
use wayside_wire::{limits, value_flag};

/// Bytes of a value, padded with zeros to the longest.
pub type Bytes = [u8; limits::MAX_VALUE_BYTES];

/// Whose a leased version is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The session's handle.
    pub handle: Handle,
    /// Low half of its incarnation: two sessions of one handle look alike if 2^32 begin between them.
    pub incarnation: u32,
}

impl Owner {
    /// As a word of the memory; 0: nobody's.
    pub fn pack(owner: Option<Owner>) -> u64 {
        owner.map_or(0, |owner| u64::from(owner.handle) << 32 | u64::from(owner.incarnation))
    }

    /// The reverse of [`Owner::pack`].
    pub fn unpack(word: u64) -> Owner {
        Owner { handle: (word >> 32) as u16, incarnation: word as u32 }
    }
}

/// What a key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// Since when.
    pub version: Version,
    /// The value's length; `None`: the key has none.
    pub length: Option<u16>,
    /// As long as whose session; without a value: whose lease has ended with this version. `None`: it is not leased.
    pub lease: Option<Owner>,
    /// The value; zeros behind its length.
    pub bytes: Bytes,
}

/// What a lane remembers of its latest request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// 0: there was none.
    pub request: u64,
    /// The version that it made, or met.
    pub own: Version,
    /// `outcome` of the packets.
    pub outcome: u8,
}

impl Content {
    /// No value, since this version.
    pub fn nothing(version: Version) -> Content {
        Content { version, length: None, lease: None, bytes: [0; limits::MAX_VALUE_BYTES] }
    }

    /// `WS_VALUE_FLAG_*` of it.
    pub fn flags(&self) -> u16 {
        let present = if self.length.is_some() { value_flag::PRESENT } else { 0 };
        present | if self.lease.is_some() { value_flag::LEASED } else { 0 }
    }
}

/// A key as [`ItemMemory::look`] finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its group.
    pub group: u16,
    /// The key.
    pub key: Key,
    /// The version that it has.
    pub version: Version,
    /// Whether it has a value.
    pub is_present: bool,
    /// As in [`Content`].
    pub lease: Option<Owner>,
}

/// Why a key was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmade {
    /// A key that differs in its check alone is there.
    Collision,
    /// Every item has a key.
    Items,
    /// Some items have none, but the two places where this key may be found are taken.
    Places,
}

/// Shared with the data plane. One daemon alone makes and removes keys, and changes places.
pub trait ItemMemory: JournalMemory {
    /// This switch's handle among the others of its chains; 0: it has no neighbours.
    fn set_own_handle(&self, handle: Handle);
    /// It may answer for all its places for so many microseconds from that moment on, and no longer: another switch may
    /// have them then. The lease of the locks is another one.
    fn serve_places_for(&self, since: Moment, lease: u64);
    /// It has its places for ever.
    fn serve_places_without_end(&self);
    /// Its place in a group.
    fn place(&self, group: u16) -> Place;
    /// Gives it another place in a group, which is of this namespace. Its count of versions goes on: somebody may be
    /// counting one of the epoch before. When this returns, no packet that was checked against the place before writes
    /// any more.
    fn set_place(&self, group: u16, namespace: u16, place: Place);
    /// The next version's sequence, for a head's daemon.
    fn next_sequence(&self, group: u16) -> u64;
    /// Makes a key, without a value. False: it is there, and stays as it is.
    ///
    /// # Errors
    /// If there is no room for it, or another name has it.
    fn insert(&self, group: u16, key: Key, version: Version) -> Result<bool, Unmade>;
    /// Removes a key and what it has. False: it was not there.
    fn remove(&self, group: u16, key: Key) -> bool;
    /// What a key has; `None`: there is no such key.
    fn content(&self, group: u16, key: Key) -> Option<Content>;
    /// Gives a key what another switch has, if that is newer. False: it is not, or there is no such key.
    fn raise(&self, group: u16, key: Key, content: &Content) -> bool;
    /// What a lane remembers.
    fn lane(&self, client: Handle, lane: u8) -> Lane;
    /// Has a lane remember what it remembers at another switch, if that is later.
    fn raise_lane(&self, client: Handle, lane: u8, content: &Lane);
    /// Keys that there are, and that there may be at most.
    fn keys(&self) -> (u32, u32);
    /// Shows keys with a lease or without a value, from this place of the memory on, at most so many places far; and
    /// whoever writes one of them at this moment has ended before it is shown. Where to go on; `None`: that was all.
    fn look(&self, from: u32, most: u32, show: &mut dyn FnMut(Seen)) -> Option<u32>;
    /// Takes the value of a leased version away, if the key still has that. What it has then; the version is the
    /// group's next in this epoch.
    fn end_lease(&self, group: u16, key: Key, leased: Version, epoch: u32) -> Option<Content>;
    /// From now on the data plane takes the key for missing, and nobody writes it. False: it has a value, or another
    /// version.
    fn leave(&self, group: u16, key: Key, at: Version) -> bool;
    /// The key does not leave after all.
    fn stay(&self, group: u16, key: Key);
    /// Removes a key that has no value since this version. False: it is another version, or not there.
    fn remove_at(&self, group: u16, key: Key, at: Version) -> bool;
    /// Whether a session is known to be over: nobody has to be asked any more.
    fn is_over(&self, owner: Owner) -> bool;
    /// Sessions of which that has come to be known.
    fn ends(&self) -> u64;
}

/// A version that a key has taken, as the journal has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Of the key.
    pub group: u16,
    /// The key.
    pub key: Key,
    /// The version that it had.
    pub before: Version,
    /// What it has taken.
    pub content: Content,
}

/// What the journal has under a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart where it is made, and nobody keeps one")]
pub enum Recorded {
    /// This: it can be read by whoever asks for the key now, or something later.
    Record(Record),
    /// Nothing yet: nobody has drawn the number, or whoever has is still writing.
    Awaited,
    /// A later one has its place.
    Overwritten,
}

/// The journal of what keys take in groups that are watched: a ring, written by whoever takes a version. Numbers begin
/// with 1.
pub trait JournalMemory {
    /// Has what keys of these groups take noted, or not any more. When this returns, whoever does not note what he
    /// takes has taken it: a read sees it.
    fn watch_groups(&self, groups: Range<u16>, watched: bool);
    /// The latest number. Whoever has drawn it or one before had the lock of its item then.
    fn drawn(&self) -> u64;
    /// Counts up when a number was drawn whose record is not there, or not whole.
    fn torn(&self) -> u64;
    /// The record of a number.
    fn record(&self, number: u64) -> Recorded;
    /// Whether the lease of this switch's places runs at this time: no other switch answers for them.
    fn serves_places_at(&self, now: Time) -> bool;
    /// Namespace and incarnation of a handle's session, while it lives.
    fn live_session(&self, handle: Handle) -> Option<(u16, u64)>;
}

impl<M: JournalMemory> JournalMemory for Arc<M> {
    fn watch_groups(&self, groups: Range<u16>, watched: bool) {
        (**self).watch_groups(groups, watched);
    }

    fn drawn(&self) -> u64 {
        (**self).drawn()
    }

    fn torn(&self) -> u64 {
        (**self).torn()
    }

    fn record(&self, number: u64) -> Recorded {
        (**self).record(number)
    }

    fn serves_places_at(&self, now: Time) -> bool {
        (**self).serves_places_at(now)
    }

    fn live_session(&self, handle: Handle) -> Option<(u16, u64)> {
        (**self).live_session(handle)
    }
}

/// Shared between threads: the data plane's and the daemon's.
impl<M: ItemMemory> ItemMemory for Arc<M> {
    fn set_own_handle(&self, handle: Handle) {
        (**self).set_own_handle(handle);
    }

    fn serve_places_for(&self, since: Moment, lease: u64) {
        (**self).serve_places_for(since, lease);
    }

    fn serve_places_without_end(&self) {
        (**self).serve_places_without_end();
    }

    fn place(&self, group: u16) -> Place {
        (**self).place(group)
    }

    fn set_place(&self, group: u16, namespace: u16, place: Place) {
        (**self).set_place(group, namespace, place);
    }

    fn next_sequence(&self, group: u16) -> u64 {
        (**self).next_sequence(group)
    }

    fn insert(&self, group: u16, key: Key, version: Version) -> Result<bool, Unmade> {
        (**self).insert(group, key, version)
    }

    fn remove(&self, group: u16, key: Key) -> bool {
        (**self).remove(group, key)
    }

    fn content(&self, group: u16, key: Key) -> Option<Content> {
        (**self).content(group, key)
    }

    fn raise(&self, group: u16, key: Key, content: &Content) -> bool {
        (**self).raise(group, key, content)
    }

    fn lane(&self, client: Handle, lane: u8) -> Lane {
        (**self).lane(client, lane)
    }

    fn raise_lane(&self, client: Handle, lane: u8, content: &Lane) {
        (**self).raise_lane(client, lane, content);
    }

    fn keys(&self) -> (u32, u32) {
        (**self).keys()
    }

    fn look(&self, from: u32, most: u32, show: &mut dyn FnMut(Seen)) -> Option<u32> {
        (**self).look(from, most, show)
    }

    fn end_lease(&self, group: u16, key: Key, leased: Version, epoch: u32) -> Option<Content> {
        (**self).end_lease(group, key, leased, epoch)
    }

    fn leave(&self, group: u16, key: Key, at: Version) -> bool {
        (**self).leave(group, key, at)
    }

    fn stay(&self, group: u16, key: Key) {
        (**self).stay(group, key);
    }

    fn remove_at(&self, group: u16, key: Key, at: Version) -> bool {
        (**self).remove_at(group, key, at)
    }

    fn is_over(&self, owner: Owner) -> bool {
        (**self).is_over(owner)
    }

    fn ends(&self) -> u64 {
        (**self).ends()
    }
}
