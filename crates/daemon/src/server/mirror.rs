//! The authority, the tokens and the hosts that have joined are the same for every switch of a shard: what one of them
//! has in its directory `enrolment`, all have, by way of etcd (`/wayside/SHARD/enrolment/FILE`).
//!
//! Invariants
//! * At the start etcd is right, but for what has happened here since all had the same ([`unheard`]): a host that was
//!   removed while a switch was down does not come back with it, wherever it was removed.
//! * From then on a file that has changed here since the last look is what all will have; others become what they are
//!   in etcd. Where both have changed, what is here counts: a host's file is written once, so that brings back nobody.
//! * There is one authority: whoever makes the first one writes it on the condition that there is none, and last: where
//!   it is, all that was here is. Where it is not, etcd has lost what it had: nothing is taken over, and who runs says
//!   it again. Nobody who has been one of these switches takes another one for it: what hosts have of the first would
//!   be worth nothing, and its key is nowhere else.
//! * A file that can't be read has not changed.
//! * `shared` names what etcd has, or had: a file is named before it is written here, and after it is removed.
//!
//! Files are read and written by other threads than those that ask etcd: one of these renews the post.

use super::authority::Authority;
use super::etcd::Shard;
use crate::admission::{Admission, Files, file_of_host, unheard};
use crate::failure::Failure;
use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, SystemTime};
use tokio::task::spawn_blocking;

/// Between two looks: how long a token may be spent twice, at two switches; and how long a host that was removed at one
/// may begin sessions at another.
const LOOK: Duration = Duration::from_millis(500);
/// Who may enrol is out of step for so many looks before that is said: etcd may have been restarted.
const COMPLAINT: u32 = 20;

const ANOTHER: &str = "etcd has the authority of other switches: not the one that hosts have joined here";

/// By its name a file's new bytes, or None where it goes.
type Changes = Vec<(String, Option<Vec<u8>>)>;

pub struct Mirror {
    shard: Shard,
    admission: Admission,
    /// What both sides had at the last look.
    known: Files,
    /// What `shared` names; None: that is not known.
    named: Option<BTreeSet<String>>,
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
            if has_authority(&there) {
                let mut mirror = Mirror { shard, admission, known: Files::new(), named: None };
                mirror.join(there).map_err(failed)?;
                return Ok(mirror);
            }
            if made {
                return Err(failed("what was written is not there".into()));
            }
            Authority::open(&admission, SystemTime::now())?;
            let (here, _) = read(&admission, &Files::new()).map_err(failed)?;
            shard.found(Authority::FILES.as_slice(), here).map_err(|error| failed(error.to_string()))?;
            made = true;
        }
    }

    fn join(&mut self, mut there: Files) -> Result<(), String> {
        let (here, unreadable) = read(&self.admission, &there)?;
        complain(&unreadable);
        let failed = |error: io::Error| error.to_string();
        let removed = self.admission.removed().map_err(failed)?;
        if let Some(shared) = self.admission.shared().map_err(failed)? {
            if is_another(&there, &here) {
                return Err(format!(
                    "{ANOTHER}: delete {} there, with the daemons stopped that follow it, and start this one first; or \
                     have all hosts join anew, and remove `enrolment` from this state directory",
                    self.shard.enrolment_prefix()
                ));
            }
            for (name, bytes) in unheard(&here, &there, &shared, &removed) {
                tracing::info!(name, goes = bytes.is_none(), "the other switches had not heard of it");
                self.shard.tell_file(&name, bytes.clone()).map_err(|error| error.to_string())?;
                note(&mut there, &name, bytes);
            }
        }
        let (done, result) = take_over(&self.admission, &difference(&there, &here), &there);
        self.known = here;
        done.into_iter().for_each(|(name, bytes)| note(&mut self.known, &name, bytes));
        result?;
        self.named = Some(there.keys().cloned().collect());
        removed.iter().try_for_each(|id| self.admission.forget_removed(id)).map_err(failed)
    }

    /// Looks again and again.
    pub async fn run(mut self) {
        let (mut failures, mut unread) = (0u32, Vec::new());
        loop {
            tokio::time::sleep(LOOK).await;
            match self.look().await {
                Ok(unreadable) => {
                    failures = 0;
                    if unreadable != unread {
                        complain(&unreadable);
                        unread = unreadable;
                    }
                }
                Err(why) => {
                    failures = failures.saturating_add(1);
                    if failures == COMPLAINT {
                        tracing::warn!(why, "who may enrol can't be compared with the other switches");
                    }
                }
            }
        }
    }

    /// The files that can't be read.
    pub(super) async fn look(&mut self) -> Result<Vec<String>, String> {
        let (admission, known) = (self.admission.clone(), self.known.clone());
        let (removed, (here, unreadable)) = elsewhere(move || {
            // In this order: what is said to be removed is not among the files.
            let removed = admission.removed().map_err(|error| error.to_string())?;
            Ok((removed, read(&admission, &known)?))
        })
        .await?;
        let mut there = self.shard.files_now().await.map_err(|error| error.to_string())?;
        if !has_authority(&there) {
            tracing::warn!("etcd has lost who may enrol: it is told again");
            let founded = self.shard.found_now(Authority::FILES.as_slice(), here).await;
            return founded.map(|()| unreadable).map_err(|error| error.to_string());
        }
        if is_another(&there, &here) {
            return Err(ANOTHER.into());
        }
        // Who has joined again since is not.
        let removed: Vec<String> = removed.into_iter().filter(|id| !here.contains_key(&file_of_host(id))).collect();
        let gone = unheard(&Files::new(), &there, &BTreeSet::new(), &removed);
        for (name, bytes) in gone.into_iter().chain(difference(&here, &self.known)) {
            self.shard.write_file(&name, bytes.clone()).await.map_err(|error| error.to_string())?;
            note(&mut self.known, &name, bytes.clone());
            note(&mut there, &name, bytes);
        }
        let changes = difference(&there, &here);
        let is_named = self.named.as_ref().is_some_and(|named| named.iter().eq(there.keys()));
        if is_named && changes.is_empty() && removed.is_empty() {
            return Ok(unreadable);
        }
        let (admission, names) = (self.admission.clone(), there.keys().cloned().collect());
        self.named = None;
        let (done, result) = elsewhere(move || {
            let (done, mut result) = take_over(&admission, &changes, &there);
            for id in removed {
                result = result.and_then(|()| admission.forget_removed(&id).map_err(|error| error.to_string()));
            }
            Ok((done, result))
        })
        .await?;
        done.into_iter().for_each(|(name, bytes)| note(&mut self.known, &name, bytes));
        result?;
        self.named = Some(names);
        Ok(unreadable)
    }
}

/// On a thread that may wait for a disk.
async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()))
}

/// The files here, of which those that can't be read are as they were `known`; and which these are.
fn read(admission: &Admission, known: &Files) -> Result<(Files, Vec<String>), String> {
    let (mut here, unreadable) = admission.files().map_err(|error| error.to_string())?;
    for name in &unreadable {
        if let Some(bytes) = known.get(name) {
            here.insert(name.clone(), bytes.clone());
        }
    }
    Ok((here, unreadable))
}

/// Changes the files here so that they become what they are `there`. What was done, and what came of it.
fn take_over(admission: &Admission, changes: &Changes, there: &Files) -> (Changes, Result<(), String>) {
    let (gone, new): (Changes, Changes) = changes.iter().cloned().partition(|(_, bytes)| bytes.is_none());
    let mut done = Changes::new();
    let mut change = |(name, bytes): (String, Option<Vec<u8>>)| {
        let failed = |error: io::Error| format!("{name}: {error}");
        match &bytes {
            Some(bytes) => admission.write(&name, bytes).map_err(failed)?,
            None => admission.delete(&name).map_err(failed)?,
        }
        done.push((name, bytes));
        Ok(())
    };
    let mut result = gone.into_iter().try_for_each(&mut change);
    result =
        result.and_then(|()| admission.set_shared(there.keys().map(String::as_str)).map_err(|error| error.to_string()));
    result = result.and_then(|()| new.into_iter().try_for_each(&mut change));
    (done, result)
}

fn complain(unreadable: &[String]) {
    if !unreadable.is_empty() {
        tracing::warn!(
            files = unreadable.join(", "),
            "can't be read in the state directory's `enrolment`: other switches do not have them"
        );
    }
}

fn has_authority(files: &Files) -> bool {
    Authority::FILES.iter().any(|name| files.contains_key(*name))
}

/// Whether another authority is there than here, where there is one: with another key. A certificate may be made anew.
fn is_another(there: &Files, here: &Files) -> bool {
    let key = Authority::FILES[0];
    here.get(key).is_some_and(|here| there.get(key) != Some(here))
}

/// What is to be done to `from` for it to become `to`.
fn difference(to: &Files, from: &Files) -> Changes {
    let names: BTreeSet<&String> = to.keys().chain(from.keys()).collect();
    let changed = names.into_iter().filter(|name| to.get(*name) != from.get(*name));
    changed.map(|name| (name.clone(), to.get(name).cloned())).collect()
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
    fn a_difference_makes_one_of_the_other() {
        let (from, to) = (files(&[("a", "1"), ("b", "1"), ("d", "1")]), files(&[("a", "1"), ("b", "2"), ("c", "1")]));
        let mut becomes = from.clone();
        difference(&to, &from).into_iter().for_each(|(name, bytes)| note(&mut becomes, &name, bytes));
        assert_eq!(becomes, to);
    }

    /// Who dies in between leaves no file that is not named, or he would tell it as news at his next start; and what
    /// was not done is not known as done.
    #[test]
    fn what_goes_goes_before_the_names_are_written_and_what_comes_comes_after() {
        let directory = tempfile::tempdir().unwrap();
        let admission = Admission::of(directory.path());
        admission.make().unwrap();
        let enrolment = directory.path().join("enrolment");
        for name in ["hosts/a", "hosts/c"] {
            admission.write(name, b"1").unwrap();
        }
        // A directory can't be replaced by a file.
        std::fs::create_dir(enrolment.join("hosts/b")).unwrap();
        let (here, there) =
            (files(&[("hosts/a", "1"), ("hosts/c", "1")]), files(&[("hosts/b", "1"), ("hosts/c", "1")]));
        let (done, result) = take_over(&admission, &difference(&there, &here), &there);
        assert_eq!(done, [("hosts/a".to_owned(), None)]);
        assert!(result.is_err_and(|why| why.starts_with("hosts/b: ")));
        assert_eq!(admission.shared().unwrap(), Some(there.keys().cloned().collect()));
        std::fs::remove_dir(enrolment.join("hosts/b")).unwrap();
        let (done, result) = take_over(&admission, &difference(&there, &files(&[("hosts/c", "1")])), &there);
        assert_eq!((done.len(), result), (1, Ok(())));
        assert_eq!(admission.files().unwrap(), (there, vec![]));
    }
}
