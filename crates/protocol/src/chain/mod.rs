//! The chain service's words: keys, versions, places in a chain. `docs/chain.md` is the contract.

mod behind;
mod client;
pub mod controller;
mod copying;
mod follow;
mod history;
mod member;
pub mod memory;
mod sweep;
mod watching;

pub use client::{Client, Link, Told};
pub use follow::{Following, Lease};
pub use history::Watched;
pub use member::{Cursor, GroupRoute, Groups, Member, Sent};
pub use sweep::{EndedLease, RemovedKey, Sweeping};
pub use watching::{Change, Glance, Scope, Seen, WatchId, Watching};

use crate::{Handle, Port, Time};
use core::fmt;
use sha2::{Digest, Sha256};
use wayside_wire::{Condition as ConditionKind, kind, limits};

/// Bits of a word that a check does not have: a switch keeps the group's number there.
const CHECK_UNUSED: u32 = 17;

/// Namespace of the switches' own handles, which no client has: `WS_FELLOWS`.
pub const FELLOWS: u16 = u16::MAX;

/// Switches that may know each other.
pub const MOST_SWITCHES: u16 = 64;

/// Sessions have handles up to this one; the rest are the switches'.
pub const LAST_SESSION: Handle = Handle::MAX - MOST_SWITCHES;

/// Whether a packet is what switches and controllers say to each other, for a daemon alone: `ws_is_fellows`, but for
/// the ANSWER.
pub const fn is_between_switches(of: u8) -> bool {
    (of >= kind::chain::PLACE && of <= kind::chain::COPY) || of == kind::chain::REMOVE || of == kind::chain::REMOVED
}

/// The handle of a switch by its number, which is below [`MOST_SWITCHES`].
pub const fn switch_handle(number: u16) -> Handle {
    LAST_SESSION + 1 + number
}

/// 128 bits of the hash of a namespace and a name, and some more to be sure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Bits 127 to 64.
    pub high: u64,
    /// Bits 63 to 0.
    pub low: u64,
    /// 47 bits more, by which a switch tells two names apart that share the others.
    pub check: u64,
}

/// Why a name is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadName {
    /// It has no bytes.
    Empty,
    /// It has this many bytes: more than 960.
    TooLong(usize),
}

impl Key {
    pub(crate) const LEAST: Key = Key { high: 0, low: 0, check: 0 };
    pub(crate) const GREATEST: Key = Key { high: u64::MAX, low: u64::MAX, check: u64::MAX };

    /// The key of a name in a namespace: SHA-256 over both, the namespace's length first.
    ///
    /// # Errors
    /// If the name is empty, or longer than 960 bytes.
    pub fn of(namespace: &[u8], name: &[u8]) -> Result<Key, BadName> {
        match name.len() {
            0 => return Err(BadName::Empty),
            long if long > limits::MAX_KEY_NAME_BYTES => return Err(BadName::TooLong(long)),
            _ => {}
        }
        let hash = Sha256::new().chain_update([namespace.len() as u8]).chain_update(namespace).chain_update(name);
        let hash = hash.finalize();
        let number = |at: usize| hash[at..at + 8].iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
        Ok(Key { high: number(0), low: number(8), check: number(16) >> CHECK_UNUSED })
    }

    /// The group of a key, of `groups` in its namespace: the hash's upper bits choose.
    ///
    /// # Panics
    /// If there are no groups.
    pub fn group(self, groups: u16) -> u16 {
        assert!(groups > 0, "a namespace of no groups has no keys");
        // Less than `groups`, which has 16 bits.
        ((u128::from(self.high) * u128::from(groups)) >> 64) as u16
    }
}

/// When a key got its value: the group's epoch, then the head's count. Ordered as they happened, over a whole group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The group's epoch.
    pub epoch: u32,
    /// Count of the group's versions in it.
    pub sequence: u64,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.sequence)
    }
}

/// A version is two numbers with a point between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadVersion;

impl fmt::Display for BadVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a version; one is written as 7.42")
    }
}

impl core::error::Error for BadVersion {}

impl core::str::FromStr for Version {
    type Err = BadVersion;

    fn from_str(text: &str) -> Result<Version, BadVersion> {
        let (epoch, sequence) = text.split_once('.').ok_or(BadVersion)?;
        let (Ok(epoch), Ok(sequence)) = (epoch.parse(), sequence.parse()) else { return Err(BadVersion) };
        Ok(Version { epoch, sequence })
    }
}

/// A switch's place in a group's chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// Of the group's configuration; 0: the switch has no part in it.
    pub epoch: u32,
    /// The switch before this one; 0: it is the head.
    pub previous: Handle,
    /// The switch after this one; 0: it is the tail.
    pub next: Handle,
}

impl Place {
    /// The word as the switch stores it: epoch 63..32, previous 31..16, next 15..0.
    pub const fn pack(self) -> u64 {
        (self.epoch as u64) << 32 | (self.previous as u64) << 16 | self.next as u64
    }

    /// The reverse of [`Place::pack`].
    pub const fn unpack(word: u64) -> Place {
        Place { epoch: (word >> 32) as u32, previous: (word >> 16) as u16, next: word as u16 }
    }
}

/// Up to 128 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Value {
    length: u8,
    bytes: [u8; limits::MAX_VALUE_BYTES],
}

impl Value {
    /// `None`: it is longer than 128 bytes.
    pub fn new(content: &[u8]) -> Option<Value> {
        let mut value = Value { length: u8::try_from(content.len()).ok()?, ..Value::default() };
        value.bytes.get_mut(..content.len())?.copy_from_slice(content);
        Some(value)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl Default for Value {
    fn default() -> Value {
        Value { length: 0, bytes: [0; limits::MAX_VALUE_BYTES] }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.bytes().escape_ascii())
    }
}

/// On what a write depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// On nothing.
    Always,
    /// The key has a value, of this version.
    Version(Version),
    /// The key has no value.
    Absent,
    /// The first eight bytes of its value, padded with zeros, are this number in network byte order; no value counts as
    /// 0.
    Word(u64),
}

impl Condition {
    /// As packets have it: which, epoch, number.
    fn parts(self) -> (u8, u32, u64) {
        match self {
            Condition::Always => (ConditionKind::None as u8, 0, 0),
            Condition::Version(version) => (ConditionKind::Version as u8, version.epoch, version.sequence),
            Condition::Absent => (ConditionKind::Absent as u8, 0, 0),
            Condition::Word(word) => (ConditionKind::Word as u8, 0, word),
        }
    }
}

/// What is wanted of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// What it has.
    Read,
    /// It is to have this value, if the condition holds.
    Write(Value, Condition),
    /// The same, for as long as this session lives.
    Lease(Value, Condition),
    /// It is to have no value, if the condition holds.
    Delete(Condition),
}

/// One wish of one caller.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Of which key.
    pub key: Key,
    /// What.
    pub wish: Wish,
    /// When to give up; whether a write had its effect is not known then.
    pub deadline: Option<Time>,
    /// Local port to send from and to be answered at.
    pub port: Port,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As wished.
    Done,
    /// The condition did not hold: nothing has changed.
    Unmet,
    /// A switch of the chain has no room for another key. As without an answer, a write may still have its effect: the
    /// switches before that one may have had room.
    Full,
    /// Another name has the key: nothing has changed, and nothing can.
    Collision,
    /// The chain became another one before it answered: a write may have had its effect, once, or not.
    Unsure,
    /// The namespace has no groups.
    NoStore,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How it ended.
    pub ended: Ended,
    /// The version that was read or met, or that a write has made. (0, 0): the key has never been there.
    pub version: Version,
    /// The value that was read, or that a condition met; `None`: there was none.
    pub value: Option<Value>,
    /// Whether that is there as long as a session only.
    pub is_leased: bool,
    /// And that is the session that has asked.
    pub is_own: bool,
    /// Whether `value` is that of `version`. Not, where an answer was lost and the value has gone since.
    pub is_shown: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_keeps_its_fields() {
        let place = Place { epoch: 0xdead_beef, previous: 0x1234, next: 0x5678 };
        assert_eq!(place.pack(), 0xdead_beef_1234_5678);
        assert_eq!(Place::unpack(place.pack()), place);
    }

    #[test]
    fn keys_spread_over_all_groups_and_no_others() {
        let key = |high| Key { high, ..Key::default() };
        assert_eq!(key(0).group(7), 0);
        assert_eq!(key(u64::MAX).group(7), 6);
        assert_eq!(key(u64::MAX).group(u16::MAX), u16::MAX - 1);
        assert_eq!(key(u64::MAX / 2).group(2), 0);
        assert_eq!(key(u64::MAX / 2 + 1).group(2), 1);
    }

    #[test]
    fn versions_are_ordered_by_epoch_and_then_by_sequence() {
        let version = |epoch, sequence| Version { epoch, sequence };
        assert!(version(1, 9) < version(2, 0) && version(2, 0) < version(2, 1));
    }
}
