//! What a watcher knows by what it reads and what it is told, and whether anything is left out of that (K6).
//!
//! Of each key it knows all up to a version, `through`: what it read after it began or was told to read once more, and
//! what was told since, each change after the one before.

use std::collections::BTreeMap;

use wayside_protocol::RequestId;
use wayside_protocol::chain::{Change, Key, Version};

use super::checker::{Broken, Checker};

#[derive(Default)]
struct Known {
    through: Version,
    /// The latest version that was told.
    told: Version,
    /// It is read once more, and these were told meanwhile: each with the version before.
    reading: Option<RequestId>,
    kept: Vec<(Version, Version)>,
}

/// What one watcher knows, by key.
#[derive(Default)]
pub struct Witness(BTreeMap<Key, Known>);

impl Witness {
    /// The key is read: what was not told before may be missing.
    pub fn asks(&mut self, key: Key, request: RequestId) {
        self.0.entry(key).or_default().reading = Some(request);
    }

    /// The key was read.
    pub fn reads(
        &mut self,
        (key, group): (Key, u16),
        request: RequestId,
        version: Version,
        checker: &Checker,
    ) -> Result<(), Broken> {
        let known = self.0.entry(key).or_default();
        if known.reading != Some(request) {
            return Ok(());
        }
        known.reading = None;
        known.through = known.through.max(version);
        std::mem::take(&mut known.kept).into_iter().try_for_each(|change| known.follow((key, group), change, checker))
    }

    /// A change was told.
    pub fn hears(&mut self, (key, group): (Key, u16), change: &Change, checker: &mut Checker) -> Result<(), Broken> {
        let known = self.0.entry(key).or_default();
        if change.version <= known.told || change.before >= change.version {
            return Err(("K6", format!("{change:?} of {key:?} is told after {:?}", known.told)));
        }
        checker.told(key, group, change.version, change.value)?;
        known.told = change.version;
        if known.reading.is_some() {
            known.kept.push((change.before, change.version));
            return Ok(());
        }
        known.follow((key, group), (change.before, change.version), checker)
    }

    /// Whether the watcher should know more of a key than it does, which has this version.
    pub fn is_behind(&self, (key, group): (Key, u16), has: Version, checker: &Checker) -> bool {
        let through = self.0.get(&key).map_or(Version::default(), |known| known.through);
        has > through && checker.is_left_out(key, group, through, has)
    }
}

impl Known {
    fn follow(
        &mut self,
        (key, group): (Key, u16),
        (before, version): (Version, Version),
        checker: &Checker,
    ) -> Result<(), Broken> {
        let through = self.through;
        if before > through && checker.is_left_out(key, group, through, before) {
            let story = format!("of {key:?} {version:?} is told after {before:?}, and {through:?} is known");
            return Err(("K6", story));
        }
        if let Some(between) = checker.was_between(key, before, version) {
            let story = format!("of {key:?} {version:?} is told after {before:?}, and {between:?} was between them");
            return Err(("K6", story));
        }
        self.through = through.max(version);
        Ok(())
    }
}
