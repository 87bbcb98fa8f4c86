//! The patrol walks over all slots, round after round, and finds what needs a census: slots whose agent is not LIVE,
//! frozen slots that nobody works at (a controller died over them), and slots at the last tenure.
//!
//! A dead node's sweep is the next whole pass. Whoever wins a slot for a node reads the node's word after winning: so
//! a slot that the pass found unheld is not won for the dead one afterwards, or is undone by the winner.

use super::{Controller, Store};
use crate::memory::SwitchMemory;
use crate::{Mutant, Time};
use wayside_wire::{NodeState, SlotState, limits};

#[derive(Default)]
pub(super) struct Patrol {
    /// Whole passes so far.
    passes: u64,
    /// Index of the namespace, and the slot, to look at next.
    namespace: usize,
    slot: u32,
    /// Somebody waits for this pass.
    hurry_to: u64,
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
}

impl<M: SwitchMemory, S: Store> Controller<M, S> {
    /// Looks at the next slots, at most to the end of the pass.
    pub(super) fn patrol(&mut self, now: Time) {
        if !self.memory.serving() {
            return;
        }
        let mut budget = self.config.slots_per_tick;
        while budget > 0 {
            let Some(namespace) = self.config.namespaces.get(self.patrol.namespace) else {
                self.patrol.restart();
                self.patrol.passes += 1;
                break;
            };
            let id = namespace.id;
            let end = self.memory.slot_count(id);
            let last = end.min(self.patrol.slot.saturating_add(budget));
            for slot in self.patrol.slot..last {
                if self.needs_census(id, slot) {
                    self.recovery.queue(id, slot);
                }
            }
            budget -= last - self.patrol.slot;
            self.patrol.slot = last;
            if last == end {
                self.patrol.namespace += 1;
                self.patrol.slot = 0;
            }
        }
        self.start_censuses(now);
    }

    fn needs_census(&self, namespace: u16, slot: u32) -> bool {
        let word = self.memory.load_slot(namespace, slot);
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
