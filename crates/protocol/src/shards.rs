//! Which of several shards has a lock: a shard is a switch and those that stand by for it, with sessions and a
//! controller of its own, and nothing goes from one to the other.
//!
//! Rendezvous hashing (highest random weight): each shard has a number for each name, and who has the highest has the
//! name. All have the same weight. Nobody keeps a table, and of `n` shards one more takes a share of `1/(n + 1)` from
//! all alike.
//!
//! Invariants
//! * Who is told the same names of shards divides alike, in whatever order they were told, and on every machine.
//! * Two nodes agree on who has a name if they are enrolled under the same fingerprints: a controller begins no session
//!   for another one than its own, and no node takes a session of a controller that does not say it.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use wayside_wire::mix;

/// Several shards, in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shards {
    names: Vec<String>,
    /// Of each name.
    keys: Vec<u64>,
}

/// Why names of shards are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardsError {
    /// One shard is a switch as it always was; more than [`Shards::MOST`] make every request slower than it need be.
    Count(usize),
    /// Two have this name.
    Twice(String),
    /// No name: empty, too long, or with characters that configurations need for themselves.
    Name(String),
}

impl fmt::Display for ShardsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShardsError::Count(count) => {
                write!(f, "locks are divided among 2 to {} shards, not {count}", Shards::MOST)
            }
            ShardsError::Twice(name) => write!(f, "two shards are called {name:?}"),
            ShardsError::Name(name) => write!(
                f,
                "{name:?} is no name of a shard: write 1 to {} of a to z, A to Z, 0 to 9, - and _",
                Shards::LONGEST_NAME
            ),
        }
    }
}

impl core::error::Error for ShardsError {}

impl Shards {
    /// A request looks at all of them, for a nanosecond or two each.
    pub const MOST: usize = 64;
    /// Bytes of a shard's name.
    pub const LONGEST_NAME: usize = 64;

    /// Those of these names, in whatever order they are told.
    ///
    /// # Errors
    /// [`ShardsError`].
    pub fn new(names: impl IntoIterator<Item = String>) -> Result<Shards, ShardsError> {
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort_unstable();
        if let Some(name) = names.iter().find(|name| !is_name(name)) {
            return Err(ShardsError::Name(name.to_string()));
        }
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ShardsError::Twice(pair[0].clone()));
        }
        if !(2..=Self::MOST).contains(&names.len()) {
            return Err(ShardsError::Count(names.len()));
        }
        let keys = names.iter().map(|name| key_of(name)).collect();
        Ok(Shards { names, keys })
    }

    /// In order.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The place of the shard of this name.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// The place of the shard that has this name's lock.
    #[must_use]
    pub fn owner(&self, name: u64) -> usize {
        // Ids that users choose are small numbers: mixed before, too, or those of two shards would be related.
        let name = mix(name);
        let mut best = (mix(name ^ self.keys[0]), 0);
        for (place, key) in self.keys.iter().enumerate().skip(1) {
            let score = mix(name ^ key);
            // Of two that are equal the first has it, everywhere.
            if score > best.0 {
                best = (score, place);
            }
        }
        best.1
    }

    /// Whether the shard of this name has this name's lock.
    #[must_use]
    pub fn has(&self, shard: &str, name: u64) -> bool {
        self.names[self.owner(name)] == shard
    }

    /// What these shards are known by, and which of them is asked: by a node to a controller, and back. Never 0, which
    /// stands for a switch whose locks are divided among no shards. Two of different shards are the same once in 2^32.
    #[must_use]
    pub fn fingerprint(&self, own: usize) -> u32 {
        let all = self.keys.iter().fold(self.keys.len() as u64, |all, key| mix(all.rotate_left(1) ^ key));
        let print = mix(all ^ self.keys[own]);
        ((print >> 32) as u32).max(1)
    }
}

/// One version of who has which names: shards are added and drained by the next one (`redivision.rs`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardMap {
    /// Rises with every change; 0: of a configuration, whose version nobody has told.
    pub version: u32,
    /// Who divides names among themselves.
    pub shards: Shards,
}

impl ShardMap {
    /// What a session with this shard says that begins; None: it is none of them.
    #[must_use]
    pub fn begins(&self, shard: &str) -> Option<u32> {
        self.shards.place(shard).map(|place| self.shards.fingerprint(place))
    }

    /// What a session says that lives, and asks this shard from now on for what it has by this map alone.
    #[must_use]
    pub fn pledge(&self, shard: &str) -> Option<u32> {
        self.begins(shard).map(|print| pledge_of(print, self.version))
    }
}

/// As [`ShardMap::pledge`], of a fingerprint. Of each version another one: what was said of shards that were these once
/// says nothing of those that are these again.
pub(crate) fn pledge_of(print: u32, version: u32) -> u32 {
    ((mix(u64::from(print) << 32 | u64::from(version)) >> 32) as u32).max(1)
}

fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=Shards::LONGEST_NAME).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// 64 bits that depend on every byte. Not for names that somebody chooses so that two have the same.
fn key_of(name: &str) -> u64 {
    name.bytes().fold(name.len() as u64, |key, byte| mix(key.rotate_left(8) ^ u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(names: &[&str]) -> Shards {
        Shards::new(names.iter().map(|name| (*name).to_string())).expect("names of shards")
    }

    #[test]
    fn all_divide_alike_in_whatever_order_they_are_told() {
        let (one, other) = (shards(&["east", "west", "north"]), shards(&["north", "east", "west"]));
        assert_eq!(one, other);
        assert!((0..1_000).all(|name| one.owner(name) == other.owner(name)));
    }

    /// Other machines, languages and versions have to divide so as well: these stay.
    #[test]
    fn owners_are_those_that_every_version_computes() {
        let shards = shards(&["east", "west", "north"]);
        let owners: Vec<usize> =
            (0..16).chain((0..8).map(|name| name << 60 | 7)).map(|name| shards.owner(name)).collect();
        assert_eq!(owners, OWNERS);
        assert_eq!([shards.fingerprint(0), shards.fingerprint(2)], FINGERPRINTS);
    }

    const OWNERS: [usize; 24] = [2, 0, 2, 1, 1, 2, 0, 0, 2, 1, 2, 1, 2, 1, 0, 1, 0, 1, 0, 0, 0, 2, 1, 0];
    const FINGERPRINTS: [u32; 2] = [785_507_016, 2_946_324_036];

    #[test]
    fn each_has_its_share() {
        for count in [2, 3, 8, 64] {
            let names: Vec<String> = (0..count).map(|shard| alloc::format!("shard-{shard}")).collect();
            let shards = Shards::new(names).expect("names of shards");
            for ids in [0..20_000u64 * count, 1 << 63..(1 << 63) + 20_000 * count] {
                let mut has = alloc::vec![0u64; count as usize];
                ids.for_each(|name| has[shards.owner(name)] += 1);
                assert!(has.iter().all(|has| (19_200..20_800).contains(has)), "{has:?}");
            }
        }
    }

    #[test]
    fn one_more_takes_names_from_the_others_and_moves_no_other() {
        let (before, after) = (shards(&["a", "b", "c"]), shards(&["a", "b", "c", "d"]));
        let moved = (0..40_000u64).filter(|name| before.owner(*name) != after.owner(*name));
        let moved: Vec<u64> = moved.collect();
        assert!(moved.iter().all(|name| after.owner(*name) == 3), "only to the new one");
        assert!((9_400..10_600).contains(&moved.len()), "a quarter: {}", moved.len());
    }

    #[test]
    fn a_fingerprint_tells_which_shards_and_which_of_them() {
        let pair = shards(&["a", "b"]);
        let prints = [pair.fingerprint(0), pair.fingerprint(1), shards(&["a", "c"]).fingerprint(0)];
        let more = [shards(&["a", "b", "c"]).fingerprint(0), shards(&["b", "c"]).fingerprint(0)];
        let mut all: Vec<u32> = prints.into_iter().chain(more).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 5);
        assert!(!all.contains(&0));
    }

    #[test]
    fn a_pledge_is_of_one_version_of_one_shard() {
        let map = |version| ShardMap { version, shards: shards(&["a", "b"]) };
        let pledges = [map(1).pledge("a"), map(2).pledge("a"), map(1).pledge("b"), map(1).begins("a")];
        assert!((0..4).all(|one| (0..one).all(|other| pledges[one] != pledges[other])), "{pledges:?}");
        assert_eq!(map(1).pledge("c"), None);
    }

    #[test]
    fn what_is_no_set_of_shards_is_refused() {
        let new = |names: &[&str]| Shards::new(names.iter().map(|name| (*name).to_string())).unwrap_err().to_string();
        assert!(new(&["a"]).contains("2 to 64 shards, not 1"));
        assert!(new(&["b", "a", "b"]).contains("two shards are called \"b\""));
        for name in ["", "a b", "a=b", "a/b", "é", "a;b"] {
            assert!(new(&["a", name]).contains("is no name of a shard"), "{name}");
        }
        let many: Vec<String> = (0..65).map(|shard| alloc::format!("{shard}")).collect();
        assert_eq!(Shards::new(many), Err(ShardsError::Count(65)));
    }

    #[test]
    fn of_shards_with_equal_scores_the_first_has_the_name() {
        let twins = Shards { keys: alloc::vec![5; 3], ..shards(&["a", "b", "c"]) };
        assert!((0..100).all(|name| twins.owner(name) == 0));
    }
}
