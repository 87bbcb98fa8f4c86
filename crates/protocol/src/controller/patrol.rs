//! The patrol walks over all slots, round after round, and finds what needs a census: slots whose agent is not LIVE,
//! frozen slots that nobody works at (a controller died over them), and slots at the last tenure.
//!
//! A slot that has been held for long without a change may be held by nobody: a late copy of an ACQUIRE seized it, and
//! the GRANT was lost. Its agent is asked (INSPECT): a node that has no such agent claims the slot, and frees it.
//!
//! A dead node's sweep is the next whole pass. Whoever wins a slot for a node reads the node's word after winning: so
//! a slot that the pass found unheld is not won for the dead one afterwards, or is undone by the winner.

use super::{Controller, Store};
use crate::map::IdMap;
use crate::memory::{SlotWord, SwitchMemory};
use crate::{Handle, Mutant, Time};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use wayside_wire::{Entry, Header, NodeState, SlotBits, SlotState, kind, limits};

/// Held slots that are watched at a time. Each is one entry of an INSPECT once in [`PATIENCE`]: 128 packets.
const WATCHED_MOST: usize = 4_096;
/// A slot that has not moved for so many retransmission pauses is asked about.
const PATIENCE: u64 = 20;

#[derive(Default)]
pub(super) struct Patrol {
    /// Whole passes so far.
    passes: u64,
    /// Index of the namespace, and the slot, to look at next.
    namespace: usize,
    slot: u32,
    /// Somebody waits for this pass.
    hurry_to: u64,
    /// Held slots: some at a time, each in its turn. By namespace and slot, in one number: every held slot is looked
    /// for in every pass.
    watched: IdMap<u64, Watched>,
}

/// A held slot.
struct Watched {
    word: SlotWord,
    /// Since when it is so.
    since: Time,
    /// The pass that saw it last.
    pass: u64,
}

impl Patrol {
    pub fn passes(&self) -> u64 {
        self.passes
    }

    /// The number that `passes` has when every slot has been looked at from now on.
    pub fn next_full_pass(&self) -> u64 {
        let underway = (self.namespace, self.slot) != (0, 0);
        self.passes + 1 + u64::from(underway)
    }

    pub fn hurry(&mut self) {
        self.hurry_to = self.next_full_pass();
    }

    pub fn is_urgent(&self) -> bool {
        self.passes < self.hurry_to
    }

    pub fn restart(&mut self) {
        (self.namespace, self.slot) = (0, 0);
    }

    /// True once a held slot has stayed as it is for `patience`. Then it makes room for another.
    #[inline]
    fn watch(&mut self, now: Time, namespace: u16, slot: u32, word: SlotWord, patience: u64) -> bool {
        word.held() && self.watch_held(now, u64::from(namespace) << 32 | u64::from(slot), word, patience)
    }

    fn watch_held(&mut self, now: Time, key: u64, word: SlotWord, patience: u64) -> bool {
        let pass = self.passes;
        match self.watched.get_mut(&key) {
            Some(watched) if watched.word == word => {
                watched.pass = pass;
                let is_due = now.since(watched.since) >= patience;
                is_due && self.watched.remove(&key).is_some()
            }
            // One that is busy makes room: there may be more of them than are watched.
            Some(_) => {
                self.watched.remove(&key);
                false
            }
            None => {
                if self.watched.len() < WATCHED_MOST {
                    self.watched.insert(key, Watched { word, since: now, pass });
                }
                false
            }
        }
    }

    /// Every slot has been looked at.
    fn end_pass(&mut self) {
        let pass = self.passes;
        self.watched.retain(|_, watched| watched.pass == pass);
        self.passes += 1;
        self.restart();
    }
}

impl<M: SwitchMemory, S: Store> Controller<M, S> {
    /// Looks at the next slots, at most to the end of the pass.
    pub(super) fn patrol(&mut self, now: Time) {
        if !self.memory.serving() {
            return;
        }
        let mut budget = self.config.slots_per_tick;
        let mut idle: BTreeMap<(u16, Handle), Vec<Entry>> = BTreeMap::new();
        while budget > 0 {
            let Some(namespace) = self.config.namespaces.get(self.patrol.namespace) else {
                self.patrol.end_pass();
                break;
            };
            let id = namespace.id;
            let end = self.memory.slot_count(id);
            let last = end.min(self.patrol.slot.saturating_add(budget));
            let mut next = self.patrol.slot;
            loop {
                let slot = self.memory.next_busy(id, next, last);
                if slot >= last {
                    break;
                }
                next = slot + 1;
                let word = self.memory.load_slot(id, slot);
                if self.needs_census(id, slot, word) {
                    self.recovery.queue(id, slot);
                } else if self.patrol.watch(now, id, slot, word, PATIENCE * self.config.retransmit) {
                    idle.entry((id, word.agent)).or_default().push(question(slot, word));
                }
            }
            budget -= last - self.patrol.slot;
            self.patrol.slot = last;
            if last == end {
                self.patrol.namespace += 1;
                self.patrol.slot = 0;
            }
        }
        for ((_, agent), questions) in idle {
            for page in questions.chunks(limits::MAX_ENTRIES) {
                let header = Header { kind: kind::lock::INSPECT, ..Header::default() };
                self.send_entries(agent, header, page.iter().copied());
            }
        }
        self.start_censuses(now);
    }

    fn needs_census(&self, namespace: u16, slot: u32, word: SlotWord) -> bool {
        match word.state {
            _ if word.tenure == limits::MAX_TENURE => true,
            SlotState::Unheld => false,
            SlotState::Frozen => !self.recovery.is_at(namespace, slot),
            SlotState::Open | SlotState::Managed => {
                self.memory.node_word(word.agent).state != NodeState::Live && !self.config.is_broken(Mutant::NoSweep)
            }
        }
    }
}

/// The slot as the switch shows it, to the node that it names as agent.
fn question(slot: u32, word: SlotWord) -> Entry {
    let SlotWord { state, transferred, tryable, agent, joins, tenure } = word;
    let bits = SlotBits { state, transferred, tryable, joins };
    Entry { slot, tenure, holder: agent, slot_bits: bits.to_u16(), ..Entry::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_that_change_leave_room_for_one_that_does_not() {
        let mut patrol = Patrol::default();
        let word = |tenure| SlotWord { state: SlotState::Managed, agent: 1, ..SlotWord::unheld(tenure) };
        let busy = WATCHED_MOST as u32 + 100;
        let mut asked = Vec::new();
        for pass in 0..10 {
            let now = Time(u64::from(pass) * 1_000);
            for slot in 0..busy {
                assert!(!patrol.watch(now, 1, slot, word(pass), 5_000));
            }
            asked.extend(patrol.watch(now, 1, busy, word(0), 5_000).then_some(pass));
            patrol.end_pass();
        }
        assert_eq!(asked, [6], "watched from the second pass on");
    }

    #[test]
    fn slots_of_several_namespaces_are_watched_each_for_itself() {
        let mut patrol = Patrol::default();
        let word = |tenure| SlotWord { state: SlotState::Managed, agent: 1, ..SlotWord::unheld(tenure) };
        let mut watch =
            |now| [1, 2, 3].map(|namespace| patrol.watch(Time(now), namespace, 9, word(namespace.into()), 50));
        assert_eq!([watch(0), watch(49), watch(50), watch(51)], [[false; 3], [false; 3], [true; 3], [false; 3]]);
    }
}
