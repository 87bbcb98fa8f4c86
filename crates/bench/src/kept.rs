//! Records that are kept in a checkout, in `bench/runs`: their names begin with the day, and end with their kind. Of
//! what was measured on packets the newest ones are compiled in, for a program that runs elsewhere.

use crate::Error;
use crate::calibrated::{Kept, Packets};
use crate::keys::Keys;
use crate::queues::Queues;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Below where a command is run.
const PLACE: &str = "bench/runs";

/// Name and text of a record in [`PLACE`].
macro_rules! compiled_in {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../bench/runs/", $name)))
    };
}

/// The newest of their kinds.
const KEYS: (&str, &str) = compiled_in!("2026-11-23-c9d2d17-keys.json");
const QUEUES: (&str, &str) = compiled_in!("2026-11-28-c7f418d2-queues.json");

/// The newest records that were kept here of what was measured on packets; of a kind of which there is none of this
/// version, the one of this program's own commit.
#[must_use]
pub fn newest_packets() -> Packets {
    let place = Path::new(PLACE);
    Packets {
        keys: newest(place, "keys", Keys::from_json, KEYS),
        queues: newest(place, "queues", whole_queues, QUEUES),
    }
}

/// Of all parts that were measured on packets: there are records of some.
fn whole_queues(text: &str) -> Result<Queues, Error> {
    let queues = Queues::from_json(text)?;
    if queues.is_whole() { Ok(queues) } else { Err("of some parts alone".into()) }
}

fn newest<T>(
    place: &Path,
    kind: &str,
    parse: fn(&str) -> Result<T, Error>,
    (name, text): (&str, &str),
) -> Option<Kept<T>> {
    let read = |path: &PathBuf| {
        let content = parse(&std::fs::read_to_string(path).ok()?).ok()?;
        Some(Kept { record: path.display().to_string(), content })
    };
    let own = || Some(Kept { record: format!("{PLACE}/{name}"), content: parse(text).ok()? });
    of_kind(place, kind).iter().find_map(read).or_else(own)
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

    /// Where records are kept, seen from where tests run.
    const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/runs");

    fn day(name: &str) -> String {
        name.chars().take(DAY).collect()
    }

    /// By their days: which of one day is newer a clone of the repository does not tell.
    #[test]
    fn what_is_compiled_in_is_the_newest_that_is_kept() {
        for (constant, kind, (name, _)) in [("KEYS", "keys", KEYS), ("QUEUES", "queues", QUEUES)] {
            let records = of_kind(Path::new(KEPT), kind);
            let newest = records[0].file_name().unwrap().to_str().unwrap();
            let change = format!("write {newest} in the place of {name} at `{constant}` in crates/bench/src/kept.rs");
            assert_eq!(day(name), day(newest), "{change}");
        }
    }

    #[test]
    fn where_nothing_is_kept_the_own_records_are_taken_and_otherwise_what_is_kept() {
        let of = |place: &Path| {
            let keys = newest(place, "keys", Keys::from_json, KEYS).unwrap().record;
            (keys, newest(place, "queues", whole_queues, QUEUES).unwrap().record)
        };
        let own = (format!("{PLACE}/{}", KEYS.0), format!("{PLACE}/{}", QUEUES.0));
        assert_eq!(of(Path::new("/nowhere")), own);
        let directory = Directory::new().unwrap();
        // One that can be read, and one that is of no version.
        let kept = directory.path().join("2026-11-22-f00-keys.json");
        std::fs::write(&kept, KEYS.1).unwrap();
        std::fs::write(directory.path().join("2026-11-22-f00-queues.json"), "{}").unwrap();
        let mut part: serde_json::Value = serde_json::from_str(QUEUES.1).unwrap();
        part["priorities"] = serde_json::json!([]);
        std::fs::write(directory.path().join("2026-11-22-f01-queues.json"), part.to_string()).unwrap();
        assert_eq!(of(directory.path()), (kept.display().to_string(), own.1));
    }

    #[test]
    fn what_is_kept_is_of_its_kind() {
        let place = Path::new(KEPT);
        type IsIt = fn(&str) -> bool;
        let kinds: [(&str, IsIt); 3] = [
            ("keys", |text| Keys::from_json(text).is_ok()),
            ("queues", |text| Queues::from_json(text).is_ok()),
            ("calibrated", |text| Calibrated::from_json(text).is_ok()),
        ];
        for (kind, is_it) in kinds {
            let records = of_kind(place, kind);
            assert!(!records.is_empty(), "{kind}");
            assert!(records.iter().all(|path| is_it(&std::fs::read_to_string(path).unwrap())), "{records:?}");
        }
    }
}
