//! What the queues of one part had no room for: by name, and in the order in which something is due.
//!
//! Invariant: `due` has every overflow once that is due at some time and does not rest, at the time that it says
//! itself. So a packet costs the lock server no more where thousands of queues have had one.

use super::overflow::Overflow;
use crate::Time;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

struct Entry {
    overflow: Overflow,
    /// As `due` has it.
    due: Time,
    /// Its lock is being taken over: it pushes nothing.
    rests: bool,
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Overflows {
    all: BTreeMap<u64, Entry>,
    due: BTreeSet<(Time, u64)>,
}

fn note(due: &mut BTreeSet<(Time, u64)>, name: u64, entry: &mut Entry) {
    let at = if entry.rests { Time::NEVER } else { entry.overflow.due() };
    if at != entry.due {
        due.remove(&(entry.due, name));
        if at != Time::NEVER {
            due.insert((at, name));
        }
        entry.due = at;
    }
}

impl Overflows {
    pub fn get(&self, name: u64) -> Option<&Overflow> {
        self.all.get(&name).map(|entry| &entry.overflow)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, &Overflow)> {
        self.all.iter().map(|(name, entry)| (*name, &entry.overflow))
    }

    pub fn insert(&mut self, name: u64, overflow: Overflow) {
        self.put(name, overflow, false);
    }

    /// One whose lock is being taken over.
    pub fn insert_resting(&mut self, name: u64, overflow: Overflow) {
        self.put(name, overflow, true);
    }

    fn put(&mut self, name: u64, overflow: Overflow, rests: bool) {
        self.remove(name);
        let mut entry = Entry { overflow, due: Time::NEVER, rests };
        note(&mut self.due, name, &mut entry);
        self.all.insert(name, entry);
    }

    pub fn remove(&mut self, name: u64) -> Option<Overflow> {
        let entry = self.all.remove(&name)?;
        self.due.remove(&(entry.due, name));
        Some(entry.overflow)
    }

    /// Has something happen to one. `rests` comes with it.
    pub fn change<R>(&mut self, name: u64, change: impl FnOnce(&mut Overflow, bool) -> R) -> Option<R> {
        let entry = self.all.get_mut(&name)?;
        let result = change(&mut entry.overflow, entry.rests);
        note(&mut self.due, name, entry);
        Some(result)
    }

    /// The same, to each.
    pub fn change_all(&mut self, mut change: impl FnMut(&mut Overflow, bool)) {
        for (name, entry) in &mut self.all {
            change(&mut entry.overflow, entry.rests);
            note(&mut self.due, *name, entry);
        }
    }

    pub fn next_due(&self) -> Time {
        self.due.first().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// Those for which something is due, the longest overdue first.
    pub fn due_by(&self, now: Time) -> Vec<u64> {
        self.due.iter().take_while(|(at, _)| *at <= now).map(|(_, name)| *name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::Outbox;
    use crate::queue::Link;
    use wayside_wire::{Attempt, Header, service};

    const PAUSES: (u64, u64) = (1_000, 8_000);

    /// Against looking at all of them.
    #[test]
    fn what_is_due_first_is_found_whatever_comes_and_goes() {
        let mut overflows = Overflows::default();
        let mut dice = 5u64;
        let mut resting = BTreeSet::new();
        let mut seen = 0;
        for at in 0..4_000 {
            dice = wayside_wire::mix(dice + 1);
            let (name, now) = (dice % 40, Time(at * 100));
            let mut out = Outbox::new();
            let header = Header { service: service::QUEUE, source: 5, ..Header::default() };
            let mut link = Link { now, header, out: &mut out };
            let attempt =
                Attempt { name, order: 1 + dice % 7, request: dice, holder: 1, number: dice % 3, ..Attempt::default() };
            match dice >> 32 & 7 {
                0 => {
                    resting.remove(&name);
                    overflows.insert(name, Overflow::new(name, PAUSES, None));
                }
                1 if overflows.remove(name).is_some() => {
                    resting.insert(name);
                    overflows.insert_resting(name, Overflow::new(name, PAUSES, None));
                }
                2 => drop(overflows.remove(name)),
                3 => drop(overflows.change(name, |overflow, _| overflow.on_counters(&mut link, &attempt, true))),
                4 => overflows.change_all(|overflow, rests| overflow.on_down(&mut link, 1, |id| id % 5 == 0, !rests)),
                5 => {
                    for due in overflows.due_by(now) {
                        overflows.change(due, |overflow, _| overflow.on_tick(&mut link));
                    }
                    assert!(overflows.next_due() > now, "what was done is not due any more");
                }
                _ => drop(overflows.change(name, |overflow, _| overflow.on_acquire(&mut link, &attempt))),
            }
            let rests = |name: &u64| overflows.all[name].rests;
            let due = |(name, overflow): (u64, &Overflow)| if rests(&name) { Time::NEVER } else { overflow.due() };
            let first = overflows.iter().map(due).min().unwrap_or(Time::NEVER);
            assert_eq!(overflows.next_due(), first);
            assert!(overflows.due_by(now).iter().all(|name| !rests(name)));
            seen += usize::from(first != Time::NEVER);
        }
        assert!(seen > 1_000 && !resting.is_empty());
    }
}
