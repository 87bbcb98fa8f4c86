//! Records that are kept in a checkout, in `bench/runs`: their names begin with the day, and end with their kind.

use crate::calibrated::Packets;
use crate::keys::Keys;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Below where a command is run.
const PLACE: &str = "bench/runs";

/// The newest record of keys that was kept here, if there is one of this version.
#[must_use]
pub fn newest_keys() -> Option<Packets> {
    let read = |path: &PathBuf| {
        let keys = Keys::from_json(&std::fs::read_to_string(path).ok()?).ok()?;
        Some(Packets { record: path.display().to_string(), keys })
    };
    of_kind(Path::new(PLACE), "keys").iter().find_map(read)
}

/// The text of the newest one of the papers' headlines, whatever version it is of.
#[must_use]
pub fn newest_headlines() -> Option<String> {
    of_kind(Path::new(PLACE), "calibrated").iter().find_map(|path| std::fs::read_to_string(path).ok())
}

/// Letters of a day: `2026-11-24`.
const DAY: usize = 10;

/// The newest first: by the day, and those of one day by when they were written here, since after the day a name has a
/// commit.
fn of_kind(place: &Path, kind: &str) -> Vec<PathBuf> {
    let end = format!("-{kind}.json");
    let kept = std::fs::read_dir(place).into_iter().flatten().flatten();
    let mut records: Vec<(String, Option<SystemTime>, PathBuf)> = kept
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok().filter(|name| name.ends_with(&end))?;
            let written = entry.metadata().and_then(|about| about.modified()).ok();
            Some((name.chars().take(DAY).collect(), written, entry.path()))
        })
        .collect();
    records.sort_unstable();
    records.into_iter().rev().map(|(.., path)| path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrated::Calibrated;
    use crate::recovery::switches::Directory;
    use std::fs::File;
    use std::time::Duration;

    #[test]
    fn the_newest_comes_first() {
        let directory = Directory::new().unwrap();
        let days = ["2026-11-23-f00-keys.json", "2026-11-24-bad-keys.json", "2026-11-24-a11-keys.json"];
        for (seconds, name) in (1..).zip(days.into_iter().chain(["2026-11-25-abc-held.json"])) {
            let file = File::create(directory.path().join(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 * seconds)).unwrap();
        }
        let names = of_kind(directory.path(), "keys");
        let names: Vec<&str> = names.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, [days[2], days[1], days[0]]);
        assert!(of_kind(Path::new("/nowhere"), "keys").is_empty());
    }

    #[test]
    fn what_is_kept_is_of_its_kind() {
        let place = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/runs"));
        type IsIt = fn(&str) -> bool;
        let kinds: [(&str, IsIt); 2] = [
            ("keys", |text| Keys::from_json(text).is_ok()),
            ("calibrated", |text| Calibrated::from_json(text).is_ok()),
        ];
        for (kind, is_it) in kinds {
            let records = of_kind(place, kind);
            assert!(!records.is_empty(), "{kind}");
            assert!(records.iter().all(|path| is_it(&std::fs::read_to_string(path).unwrap())), "{records:?}");
        }
    }
}
