//! What a node may ask its shard for while shards are added and drained: docs/shards.md, "Adding and draining".
//!
//! ```text
//!   map 3 ──close(4)──► map 3, less what 4 gives away ──nothing of that is held or awaited: pledge──►
//!        ◄──reopen────                                   3 and 4 ──the shard counts it under 4──► map 4
//! ```
//!
//! Invariants
//! * A name is asked for only if each of `maps` gives it to the own shard: the one that the shard counts the session
//!   under, those that were pledged, and the one that is being closed for.
//! * What was pledged is not taken back: it goes with the shard's word that it counts the session under a later map.

use crate::shards::ShardMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct Domain {
    own: String,
    /// Of rising versions, at least one.
    maps: Vec<ShardMap>,
    /// The last of several may be taken back.
    is_tentative: bool,
}

impl Domain {
    /// Of a node that is to have its session with this shard, by this map.
    #[must_use]
    pub fn new(own: String, map: ShardMap) -> Domain {
        Domain { own, maps: vec![map], is_tentative: false }
    }

    /// Whether this name may be asked for.
    #[must_use]
    pub fn has(&self, name: u64) -> bool {
        self.maps.iter().all(|map| map.shards.has(&self.own, name))
    }

    /// As if nothing had been pledged or closed.
    pub(crate) fn had(&self, name: u64) -> bool {
        self.maps[0].shards.has(&self.own, name)
    }

    /// The version that the shard counts the session under.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.maps[0].version
    }

    /// Asks for nothing any more that this map gives to another shard; nothing if it is not a later one.
    pub(crate) fn close(&mut self, map: &ShardMap) {
        if self.latest().version >= map.version {
            return;
        }
        self.reopen();
        self.maps.push(map.clone());
        self.is_tentative = true;
    }

    /// Asks again for what it was closed for, unless that was pledged.
    pub(crate) fn reopen(&mut self) {
        if core::mem::take(&mut self.is_tentative) {
            self.maps.pop();
        }
    }

    /// From now on it asks for what the latest map leaves to it: what it says then. None: that leaves nothing.
    pub(crate) fn pledge(&mut self) -> Option<u32> {
        self.is_tentative = false;
        self.latest().pledge(&self.own)
    }

    /// The shard counts the session under the map of which this was said: of one that has been pledged.
    pub(crate) fn follow(&mut self, pledge: u32) {
        let pledged = self.maps.len() - usize::from(self.is_tentative);
        if let Some(place) = self.maps[..pledged].iter().position(|map| map.pledge(&self.own) == Some(pledge)) {
            self.maps.drain(..place);
        }
    }

    fn latest(&self) -> &ShardMap {
        self.maps.last().expect("there is at least one")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shards::Shards;
    use alloc::string::ToString;

    fn map(version: u32, names: &[&str]) -> ShardMap {
        ShardMap { version, shards: Shards::new(names.iter().map(|name| name.to_string())).unwrap() }
    }

    /// A name that `a` has of two, and one that it gives away to `c`.
    fn names() -> (u64, u64) {
        let (two, three) = (map(1, &["a", "b"]), map(2, &["a", "b", "c"]));
        let kept = (0..).find(|name| three.shards.has("a", *name)).unwrap();
        let given = (0..).find(|name| two.shards.has("a", *name) && !three.shards.has("a", *name)).unwrap();
        (kept, given)
    }

    #[test]
    fn what_a_map_gives_away_is_asked_for_again_until_that_is_pledged() {
        let (kept, given) = names();
        let mut domain = Domain::new("a".into(), map(0, &["a", "b"]));
        domain.close(&map(2, &["a", "b", "c"]));
        assert!(domain.has(kept) && !domain.has(given));
        domain.reopen();
        assert!(domain.has(given));
        domain.close(&map(2, &["a", "b", "c"]));
        let pledge = domain.pledge().unwrap();
        domain.reopen();
        assert!(!domain.has(given), "it was pledged");
        // The change is taken back, and the shard has not said yet that it knows.
        domain.close(&map(3, &["a", "b"]));
        let back = domain.pledge().unwrap();
        assert!(!domain.has(given) && domain.version() == 0);
        domain.follow(pledge);
        assert!(!domain.has(given) && domain.version() == 2);
        domain.follow(back);
        assert!(domain.has(given) && domain.version() == 3);
    }

    #[test]
    fn what_was_not_pledged_is_not_followed() {
        let (_, given) = names();
        let mut domain = Domain::new("a".into(), map(0, &["a", "b", "c"]));
        let back = map(2, &["a", "b"]);
        domain.close(&back);
        domain.follow(back.pledge("a").unwrap());
        assert!(!domain.has(given) && domain.version() == 0, "it is closed for it, and no more");
        assert_eq!(domain.pledge(), back.pledge("a"));
        domain.follow(back.pledge("a").unwrap());
        assert!(domain.has(given) && domain.version() == 2);
    }

    #[test]
    fn earlier_maps_and_others_words_change_nothing() {
        let (_, given) = names();
        let mut domain = Domain::new("a".into(), map(3, &["a", "b"]));
        domain.close(&map(3, &["a", "b", "c"]));
        domain.close(&map(2, &["a", "b", "c"]));
        domain.follow(map(4, &["a", "b"]).pledge("a").unwrap());
        assert!(domain.has(given) && domain.version() == 3);
    }

    #[test]
    fn who_is_drained_has_nothing_and_says_nothing() {
        let mut domain = Domain::new("a".into(), map(1, &["a", "b", "c"]));
        domain.close(&map(2, &["b", "c"]));
        assert!((0..100).all(|name| !domain.has(name)));
        assert_eq!(domain.pledge(), None);
    }

    #[test]
    fn of_two_maps_that_it_is_closed_for_the_later_counts_alone() {
        let (kept, given) = names();
        let mut domain = Domain::new("a".into(), map(0, &["a", "b"]));
        domain.close(&map(2, &["a", "b", "c"]));
        assert!(!domain.has(given));
        domain.close(&map(3, &["a", "b"]));
        assert!(domain.has(kept) && domain.has(given), "the change was taken back before it was pledged");
        domain.reopen();
        assert_eq!((domain.has(given), domain.version()), (true, 0));
    }
}
