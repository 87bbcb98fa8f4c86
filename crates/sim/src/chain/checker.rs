//! What must hold of keys, whatever the switches do: K1, K2, and of what is told of them (K6). It knows who asked what
//! when, and what he was answered; nothing of packets.
//!
//! Versions put all that happens to a key in one order. An order is a linearization if nobody who asks later is put
//! before whom was answered by then: so of every key the highest version that anybody was answered is kept (`floor`),
//! and whoever asks now must be answered at or above it; above it, if he writes. What came of a request without an
//! answer is learned by whoever reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::Excluded;

use wayside_protocol::chain::{Answer, Condition, Ended, Key, Value, Version, Wish};

use crate::host::Process;

/// A request of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Op {
    /// Who asked.
    pub process: Process,
    /// The request's id.
    pub request: u64,
}

struct Asked {
    key: Key,
    wish: Wish,
    /// Of the key, when it was asked.
    floor: Option<Version>,
    /// The version that others have seen of it, or that it was answered.
    effect: Option<Version>,
    /// It was answered, so that it has no effect any more.
    is_settled: bool,
}

#[derive(Default)]
struct Known {
    floor: Option<Version>,
    /// What each version was made by; `None`: by nobody, as the key came to be.
    made: BTreeMap<Version, Option<Op>>,
    /// Conditions that held, and the versions that were made then.
    held: Vec<(Version, Condition)>,
    /// Versions by which a head has ended a lease: whether any switch after it has heard of them is not known.
    ended: BTreeSet<Version>,
    /// What the key was seen to have at an end of its chain.
    taken: BTreeSet<Version>,
    /// The latest version at which some switch has removed the key: who finds none there has found this.
    removed: Version,
}

/// See the module's documentation.
#[derive(Default)]
pub struct Checker {
    asked: BTreeMap<Op, Asked>,
    keys: BTreeMap<Key, Known>,
    /// What made a group's version, as the head that made it knows.
    decided: BTreeMap<(u16, Version), Op>,
}

/// An invariant, and how it broke.
pub type Broken = (&'static str, String);

impl Checker {
    /// A request begins.
    pub fn asked(&mut self, op: Op, key: Key, wish: Wish) {
        let floor = self.keys.entry(key).or_default().floor;
        self.asked.insert(op, Asked { key, wish, floor, effect: None, is_settled: false });
    }

    /// A head has made a version for a request.
    pub fn decided(&mut self, group: u16, version: Version, op: Op) -> Result<(), Broken> {
        match self.decided.insert((group, version), op) {
            Some(other) if other != op => {
                Err(("K1", format!("{version:?} of group {group} was made for {other:?}, and for {op:?}")))
            }
            _ => Ok(()),
        }
    }

    /// A head has ended a lease by this version.
    pub fn ended(&mut self, key: Key, version: Version) {
        self.known(key).ended.insert(version);
    }

    /// The last switch of a chain has this version of a key, of which it is not said which of its names it has.
    pub fn taken(&mut self, key: Key, version: Version) {
        let same = Key { check: 0, ..key }..=Key { check: u64::MAX, ..key };
        if let Some((_, known)) = self.keys.range_mut(same).next() {
            known.taken.insert(version);
        }
    }

    /// Somebody who watches is told of a version: somebody made it, with that value, and who asks now finds no older.
    pub fn told(&mut self, key: Key, group: u16, version: Version, value: Option<Value>) -> Result<(), Broken> {
        self.seen(key, group, version, None)?;
        if !self.is_somebodys(key, group, version) {
            return Err(("K6", format!("{version:?} of {key:?} is told, and nobody has made it")));
        }
        match self.value_of(key, version) {
            Some(known) if known != value => {
                return Err(("K6", format!("{value:?} is told as {version:?} of {key:?}, which is {known:?}")));
            }
            _ => {}
        }
        let known = self.known(key);
        known.floor = known.floor.max(Some(version));
        Ok(())
    }

    /// Whether `through` or a version between the two was somebody's, and could be read: not, where a key was removed
    /// and made again.
    pub fn is_left_out(&self, key: Key, group: u16, after: Version, through: Version) -> bool {
        let Some(known) = self.keys.get(&key) else { return false };
        let between = known.taken.range((Excluded(after), Excluded(through)));
        between.chain([&through]).any(|version| self.is_somebodys(key, group, *version))
    }

    /// Whether the key could be read between these two versions as it was then.
    pub fn was_between(&self, key: Key, before: Version, after: Version) -> Option<Version> {
        self.keys.get(&key)?.taken.range((Excluded(before), Excluded(after))).next().copied()
    }

    fn is_somebodys(&self, key: Key, group: u16, version: Version) -> bool {
        let is_ended = self.keys.get(&key).is_some_and(|known| known.ended.contains(&version));
        is_ended || self.is_written(group, version)
    }

    /// Whether a version of a group was made for somebody's request.
    pub fn is_written(&self, group: u16, version: Version) -> bool {
        self.decided.contains_key(&(group, version))
    }

    /// Who has leased a version of a group, if anybody has.
    pub fn lease_of(&self, group: u16, version: Version) -> Option<Process> {
        let op = self.decided.get(&(group, version))?;
        self.asked.get(op).filter(|asked| matches!(asked.wish, Wish::Lease(..))).map(|_| op.process)
    }

    /// Some switch has removed a key that had no value since this version.
    pub fn removed(&mut self, key: Key, at: Version) {
        let known = self.known(key);
        known.removed = known.removed.max(at);
    }

    /// The latest version at which a key was removed.
    pub fn removed_at(&self, key: Key) -> Version {
        self.keys.get(&key).map_or(Version::default(), |known| known.removed)
    }

    /// A request is answered.
    pub fn answered(&mut self, op: Op, group: u16, answer: &Answer) -> Result<(), Broken> {
        let Some(asked) = self.asked.get_mut(&op) else { return Ok(()) };
        let (key, wish, floor) = (asked.key, asked.wish, asked.floor);
        let missing = answer.version == Version::default();
        let version = if missing { self.removed_at(key) } else { answer.version };
        let Some(asked) = self.asked.get_mut(&op) else { return Ok(()) };
        // What was refused may have its effect yet: where there is room again, or the other name's key has been
        // removed.
        asked.is_settled = matches!(answer.ended, Ended::Done | Ended::Unmet);
        if !asked.is_settled {
            return Ok(());
        }
        let reads = wish == Wish::Read || answer.ended == Ended::Unmet;
        if floor.is_some_and(|floor| version < floor || (!reads && version == floor)) {
            let story = format!("{op:?} is answered {answer:?} to {wish:?}, and {floor:?} was known when it was asked");
            return Err(("K1", story));
        }
        if reads {
            if !missing {
                self.seen(key, group, version, None)?;
            }
            if answer.is_shown {
                self.shows(key, version, answer.value, op)?;
            }
            if answer.ended == Ended::Unmet {
                self.is_unmet(key, version, wish, answer, op)?;
            }
        } else {
            self.seen(key, group, version, Some(op))?;
            let (Wish::Write(_, condition) | Wish::Lease(_, condition) | Wish::Delete(condition)) = wish else {
                return Ok(());
            };
            self.known(key).held.push((version, condition));
        }
        let known = self.known(key);
        known.floor = known.floor.max(Some(version));
        Ok(())
    }

    fn known(&mut self, key: Key) -> &mut Known {
        self.keys.entry(key).or_default()
    }

    /// Somebody was answered this version; `own`: by who made it.
    fn seen(&mut self, key: Key, group: u16, version: Version, own: Option<Op>) -> Result<(), Broken> {
        let by = self.decided.get(&(group, version)).copied();
        if own.is_some() && by != own {
            return Err(("K1", format!("{own:?} is told that it made {version:?}, which is {by:?}'s")));
        }
        self.known(key).made.insert(version, by);
        let Some(op) = by else { return Ok(()) };
        let Some(asked) = self.asked.get_mut(&op) else {
            return Err(("K1", format!("{version:?} was made by {op:?}, which nobody has asked for")));
        };
        if asked.key != key {
            return Err(("K1", format!("{version:?} of {op:?} is shown of another key")));
        }
        if asked.effect.is_some_and(|effect| effect != version) {
            return Err(("K2", format!("{op:?} has two effects: {:?} and {version:?}", asked.effect)));
        }
        if asked.floor.is_some_and(|floor| version <= floor) {
            return Err(("K1", format!("{op:?} made {version:?}, and {:?} was known when it was asked", asked.floor)));
        }
        if asked.is_settled && own.is_none() && asked.effect.is_none() {
            return Err(("K1", format!("{op:?} was answered that it changes nothing, and made {version:?}")));
        }
        asked.effect = Some(version);
        Ok(())
    }

    /// What a version's value is; `None`: nobody knows.
    fn value_of(&self, key: Key, version: Version) -> Option<Option<Value>> {
        if version == Version::default() {
            return Some(None);
        }
        match self.keys.get(&key)?.made.get(&version)? {
            None => Some(None),
            Some(op) => match self.asked.get(op)?.wish {
                Wish::Write(value, _) | Wish::Lease(value, _) => Some(Some(value)),
                Wish::Delete(_) | Wish::Read => Some(None),
            },
        }
    }

    fn shows(&self, key: Key, version: Version, value: Option<Value>, op: Op) -> Result<(), Broken> {
        match self.value_of(key, version) {
            Some(known) if known != value => {
                Err(("K1", format!("{op:?} is shown {value:?} as {version:?}, which is {known:?}")))
            }
            _ => Ok(()),
        }
    }

    /// A condition that was answered to be unmet does not hold of what it met.
    fn is_unmet(&self, key: Key, version: Version, wish: Wish, answer: &Answer, op: Op) -> Result<(), Broken> {
        let (Wish::Write(_, condition) | Wish::Lease(_, condition) | Wish::Delete(condition)) = wish else {
            return Ok(());
        };
        let Some(value) = self.value_of(key, version) else { return Ok(()) };
        if holds(condition, version, value) {
            return Err(("K1", format!("{op:?} is told {answer:?}, of which {condition:?} holds")));
        }
        Ok(())
    }

    /// The end: conditions held of what came before.
    pub fn conclude(&self) -> Result<(), Broken> {
        for (key, known) in &self.keys {
            // What nobody was answered may have been in between.
            let is_open = |asked: &Asked| asked.key == *key && !asked.is_settled && asked.effect.is_none();
            let open = self.asked.values().any(|asked| asked.wish != Wish::Read && is_open(asked));
            for &(version, condition) in &known.held {
                let before = known.made.range(..version).next_back().map_or(Version::default(), |(before, _)| *before);
                let exactly = matches!(condition, Condition::Version(_));
                // The end of a lease may have come in between, or have been lost with its head.
                if known.ended.range(before..version).any(|ended| holds(condition, *ended, None)) {
                    continue;
                }
                let Some(value) = self.value_of(*key, before) else { continue };
                if !holds(condition, before, value) && (exactly && is_between(condition, before) || !open && !exactly) {
                    return Err((
                        "K1",
                        format!("{version:?} of {key:?} was made as of {condition:?}, after {before:?}"),
                    ));
                }
            }
        }
        Ok(())
    }

    /// The highest version of a key that anybody was answered.
    pub fn floors(&self) -> impl Iterator<Item = (Key, Version)> + '_ {
        self.keys.iter().filter_map(|(key, known)| Some((*key, known.floor?)))
    }
}

/// Whether a version comes after the one that was expected.
fn is_between(condition: Condition, before: Version) -> bool {
    matches!(condition, Condition::Version(expected) if before > expected)
}

fn holds(condition: Condition, version: Version, value: Option<Value>) -> bool {
    match condition {
        Condition::Always => true,
        Condition::Version(expected) => value.is_some() && version == expected,
        Condition::Absent => value.is_none(),
        Condition::Word(word) => {
            let mut first = [0; 8];
            if let Some(value) = &value {
                let length = value.bytes().len().min(8);
                first[..length].copy_from_slice(&value.bytes()[..length]);
            }
            u64::from_be_bytes(first) == word
        }
    }
}
