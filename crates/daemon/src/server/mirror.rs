//! The authority, the tokens and the hosts that have joined are the same for every switch of a shard: what one of them
//! has in its directory `enrolment`, all have, by way of etcd (`/wayside/SHARD/enrolment/FILE`).
//!
//! Invariants
//! * At the start etcd is right: a host that was removed while a switch was down does not come back with it.
//! * From then on a file that has changed here since the last look is what all will have; others become what they are
//!   in etcd. Where both have changed, what is here counts: a host's file is
//!   written once, so that brings back nobody.
//! * There is one authority: whoever makes the first one writes it on the condition that there is none.

use super::authority::Authority;
use super::etcd::Shard;
use crate::admission::Admission;
use crate::failure::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

/// Between two looks: how long a token may be spent twice, at two switches; and how long a host that was removed at one
/// may begin sessions at another.
const LOOK: Duration = Duration::from_millis(500);

type Files = BTreeMap<String, Vec<u8>>;

pub struct Mirror {
    shard: Shard,
    admission: Admission,
    /// What both sides had at the last look.
    known: Files,
}

impl Mirror {
    /// Makes the directory what etcd has, and an authority for all if there is none yet.
    ///
    /// # Errors
    /// If one of the two can't be read or written.
    pub fn begin(shard: Shard, admission: Admission) -> Result<Mirror, Failure> {
        let failed =
            |why: String| Failure::unavailable(format!("can't share who may enrol with the other switches: {why}"));
        admission.make().map_err(|error| failed(error.to_string()))?;
        let mut made = false;
        loop {
            let there = shard.files().map_err(|error| failed(error.to_string()))?;
            if there.keys().any(|name| Authority::FILES.contains(&name.as_str())) {
                let here = admission.files().map_err(|error| failed(error.to_string()))?;
                let mut mirror = Mirror { shard, admission, known: here };
                let known = mirror.known.clone();
                mirror.take_over(&known, &there).map_err(|error| failed(error.to_string()))?;
                return Ok(mirror);
            }
            if made {
                return Err(failed("what was written is not there".into()));
            }
            Authority::open(&admission, SystemTime::now())?;
            let here = admission.files().map_err(|error| failed(error.to_string()))?;
            shard.found(Authority::FILES[0], here).map_err(|error| failed(error.to_string()))?;
            made = true;
        }
    }

    /// Looks again and again.
    pub async fn run(mut self) {
        loop {
            tokio::time::sleep(LOOK).await;
            if let Err(why) = self.look().await {
                tracing::debug!(why, "who may enrol could not be compared with the other switches");
            }
        }
    }

    async fn look(&mut self) -> Result<(), String> {
        let here = self.admission.files().map_err(|error| error.to_string())?;
        for (name, bytes) in difference(&here, &self.known) {
            self.shard.write_file(&name, bytes.clone()).await.map_err(|error| error.to_string())?;
            note(&mut self.known, &name, bytes);
        }
        let there = self.shard.files_now().await.map_err(|error| error.to_string())?;
        self.take_over(&here, &there).map_err(|error| error.to_string())
    }

    /// Makes the files here, which are these, what they are there.
    fn take_over(&mut self, here: &Files, there: &Files) -> std::io::Result<()> {
        for (name, bytes) in difference(there, here) {
            match &bytes {
                Some(bytes) => self.admission.write(&name, bytes)?,
                None => self.admission.delete(&name)?,
            }
            note(&mut self.known, &name, bytes);
        }
        Ok(())
    }
}

/// What is to be done to `from` for it to become `to`: each file's new bytes, or None where it goes. Those that go come
/// first.
fn difference(to: &Files, from: &Files) -> Vec<(String, Option<Vec<u8>>)> {
    let names: BTreeSet<&String> = to.keys().chain(from.keys()).collect();
    let changed = names.into_iter().filter(|name| to.get(*name) != from.get(*name));
    let mut changes: Vec<_> = changed.map(|name| (name.clone(), to.get(name).cloned())).collect();
    changes.sort_by_key(|(_, bytes)| bytes.is_some());
    changes
}

fn note(files: &mut Files, name: &str, bytes: Option<Vec<u8>>) {
    match bytes {
        Some(bytes) => files.insert(name.into(), bytes),
        None => files.remove(name),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, &str)]) -> Files {
        all.iter().map(|(name, text)| ((*name).into(), text.as_bytes().to_vec())).collect()
    }

    #[test]
    fn what_goes_comes_first() {
        let (from, to) = (files(&[("a", "1"), ("b", "1"), ("d", "1")]), files(&[("a", "1"), ("b", "2"), ("c", "1")]));
        let changes = difference(&to, &from);
        let named: Vec<_> = changes.iter().map(|(name, bytes)| (name.as_str(), bytes.is_some())).collect();
        assert_eq!(named, [("d", false), ("b", true), ("c", true)]);
        let mut becomes = from;
        changes.into_iter().for_each(|(name, bytes)| note(&mut becomes, &name, bytes));
        assert_eq!(becomes, to);
    }
}
