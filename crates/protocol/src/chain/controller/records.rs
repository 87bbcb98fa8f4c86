//! What the controller of chains has in its store.
//!
//! | key | record |
//! | --- | --- |
//! | a group's number | epoch, length of the chain, its handles, and handles that owe their leaving |
//! | `SWITCHES` + handle | number of the switch's latest beginning |
//! | `JOINED` | sum of the epochs of all groups, and numbers of those that somebody was to join in their epoch |
//!
//! The sum tells whether whoever wrote a group's record last kept `JOINED` too: epochs only rise, so that any change
//! which one of an earlier version made, or which came into the store without the other, makes it another one.

use super::{Controller, Group, Notice, Stage};
use crate::controller::{Record, Store};
use crate::{Handle, Mutant, Time};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// No group has this number.
const JOINED: u32 = u16::MAX as u32;
const SWITCHES: u32 = 1 << 16;

impl<S: Store> Controller<S> {
    /// Reads what there is. False: it cannot be read, or tells of a switch that is not known yet.
    pub(super) fn begin(&mut self, now: Time) -> bool {
        let Ok(records) = self.store.load() else { return false };
        self.unsaved.clear();
        self.emptied.clear();
        self.save_at = Time(0);
        self.groups.clear();
        self.places = self.config.groups.iter().copied().zip(0..).collect();
        for groups in [&mut self.busy, &mut self.wishing, &mut self.joined] {
            groups.clear();
        }
        self.touched = (0..self.config.groups.len()).collect();
        (self.began, self.attended, self.next) = (now, now, now);
        let longest = self.longest_lease();
        for switch in self.switches.values_mut() {
            (switch.boot, switch.full_until, switch.heard, switch.lease_until) = (0, Time(0), now, now + longest);
            // It may have begun anew since, by another clock.
            switch.asked = 0;
        }
        self.groups.extend(self.config.groups.iter().map(|&number| Group::unbegun(number, now)));
        if !records.iter().all(|(key, value)| self.read(*key, value)) {
            return false;
        }
        self.go_on(&records);
        true
    }

    /// Has every group go on as it is, or take up a new epoch.
    fn go_on(&mut self, records: &[Record]) {
        let joined = records.iter().find(|(key, _)| *key == JOINED).and_then(|(_, value)| value.split_at_checked(8));
        let was_joined: BTreeSet<u16> = joined
            .map(|(_, numbers)| numbers.chunks(2).map(|bytes| number(bytes) as u16).collect())
            .unwrap_or_default();
        let is_known = joined.is_some_and(|(sum, _)| number(sum) == self.sum_of_epochs());
        let keeps_all = cfg!(feature = "mutants") && self.config.mutant == Some(Mutant::KeepEpochs);
        for index in 0..self.groups.len() {
            let group = &mut self.groups[index];
            let keeps = keeps_all || (is_known && !was_joined.contains(&group.number));
            group.stored = (group.epoch, !keeps);
            if group.epoch == 0 {
                continue;
            }
            if group.chain.is_empty() {
                group.stage = Stage::Lost;
            } else if !keeps {
                let chain = group.chain.clone();
                self.configure(index, chain, &[]);
            }
        }
    }

    fn read(&mut self, key: u32, value: &[u8]) -> bool {
        if key >= SWITCHES {
            let Some(switch) = self.switches.get_mut(&(key as u16)) else { return false };
            switch.boot = number(value);
            return true;
        }
        let Some(&index) = u16::try_from(key).ok().and_then(|number| self.places.get(&number)) else { return true };
        let group = &mut self.groups[index];
        let Some((epoch, rest)) = value.split_at_checked(4) else { return true };
        let Some((&length, handles)) = rest.split_first() else { return true };
        let handles: Vec<Handle> = handles.chunks(2).map(|bytes| number(bytes) as Handle).collect();
        let (chain, owing) = handles.split_at(usize::from(length).min(handles.len()));
        group.epoch = number(epoch) as u32;
        (group.chain, group.owing) = (chain.to_vec(), owing.iter().copied().collect());
        group.chain.iter().chain(&group.owing).all(|handle| self.switches.contains_key(handle))
    }

    pub(super) fn write_group(&mut self, index: usize) {
        let group = &self.groups[index];
        let mut value = group.epoch.to_be_bytes().to_vec();
        value.push(group.chain.len() as u8);
        group.chain.iter().chain(&group.owing).for_each(|handle| value.extend(handle.to_be_bytes()));
        self.unsaved.insert(group.number.into(), value);
    }

    pub(super) fn write_switch(&mut self, handle: Handle) {
        let Some(switch) = self.switches.get(&handle) else { return };
        self.unsaved.insert(SWITCHES + u32::from(handle), switch.boot.to_be_bytes().to_vec());
    }

    /// Writes what was decided, as much as is written at a time: groups whose records are there now are touched by
    /// that. False: the store failed. `JOINED` is at any time about what the store has: whoever has the post next goes
    /// on from there.
    pub(super) fn save(&mut self, now: Time) -> bool {
        if self.unsaved.is_empty() {
            return true;
        }
        if now < self.save_at {
            return false;
        }
        // Switches first, which wait for their leases. But one that has lost its memory after all groups, which it is
        // left out of: whoever reads this beginning of it and the chains of before takes it for one that has what they
        // have.
        let is_last = |key: &u32| key.checked_sub(SWITCHES).is_some_and(|of| self.emptied.contains(&(of as Handle)));
        let (first, last) = self.unsaved.range(SWITCHES..).partition::<Vec<_>, _>(|(key, _)| !is_last(key));
        let all = first.into_iter().chain(self.unsaved.range(..SWITCHES)).chain(last);
        let some = all.take(self.config.records_most).map(|(key, value)| (*key, value.clone()));
        let mut batch: Vec<Record> = some.collect();
        let written = batch.iter().filter_map(|(key, _)| self.places.get(&u16::try_from(*key).ok()?).copied());
        let written: BTreeSet<usize> = written.collect();
        let stored: Vec<(u32, bool)> = self.stored_with(&written).collect();
        let sum: u64 = stored.iter().map(|(epoch, _)| u64::from(*epoch)).sum();
        let mut joined = sum.to_be_bytes().to_vec();
        let numbers = self.groups.iter().zip(&stored).filter(|(_, (_, was_joined))| *was_joined);
        numbers.for_each(|(group, _)| joined.extend(group.number.to_be_bytes()));
        batch.push((JOINED, joined));
        if self.store.commit(&batch).is_err() {
            self.notices.push_back(Notice::StoreFailed);
            self.save_at = now + self.config.retransmit;
            return false;
        }
        for (key, _) in &batch {
            self.unsaved.remove(key);
        }
        self.groups.iter_mut().zip(stored).for_each(|(group, stored)| group.stored = stored);
        self.touched.extend(written);
        true
    }

    /// What the store has of each group once it has these too.
    fn stored_with(&self, written: &BTreeSet<usize>) -> impl Iterator<Item = (u32, bool)> {
        let of = |(index, group): (usize, &Group)| {
            if written.contains(&index) { (group.epoch, group.was_joined) } else { group.stored }
        };
        self.groups.iter().enumerate().map(of)
    }

    /// Whether all that was decided of a group is in the store.
    pub(super) fn is_saved(&self, index: usize) -> bool {
        !self.unsaved.contains_key(&self.groups[index].number.into())
    }

    /// Whether a switch's beginning is in the store.
    pub(super) fn is_known_there(&self, handle: Handle) -> bool {
        !self.unsaved.contains_key(&(SWITCHES + u32::from(handle)))
    }

    fn sum_of_epochs(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.epoch)).sum()
    }
}

impl Group {
    fn unbegun(number: u16, now: Time) -> Group {
        Group {
            number,
            epoch: 0,
            chain: Vec::new(),
            owing: BTreeSet::new(),
            stage: Stage::Fence,
            placed: BTreeSet::new(),
            joiner: 0,
            was_joined: false,
            joined_at: Time(0),
            stored: (0, false),
            pass: 0,
            say_at: now,
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
