//! The sessions at a switch that has not the post: clients ask it for keys, and it must know them. It takes them from
//! the records of whoever has the post, some time after that one.
//!
//! Invariants
//! * A session that is over in the records is over here once the record is here; nobody begins or ends one here.
//! * Keys are those of the epoch and rotation that the records told last. Until the next ones are here, packets that
//!   are signed with them are dropped, and sent again.
//! * What the memory knows of a session of the records stays. The memory may be one that goes on, as at a hook whose
//!   daemon was restarted and has the post still: an entry that is written anew lets late requests in that were too
//!   old, and keys that are given anew are not those that the node signs with.

use super::store::{COUNTERS_KEY, Counters, SessionRecord, Stage};
use super::{Record, SwitchMemory};
use crate::Handle;
use crate::memory::NodeWord;
use crate::seal::Period;
use alloc::collections::BTreeMap;
use wayside_wire::NodeState;

/// Of a session in one epoch: ten years of one a second would be more.
const ROTATIONS: u32 = 1 << 20;

/// See the module's documentation.
#[derive(Default)]
pub struct Roster {
    /// Boot epoch of who has the post.
    epoch: u32,
    /// Those that live, by handle.
    living: BTreeMap<Handle, Known>,
    /// As last told, with the period that they are of.
    rotations: BTreeMap<Handle, Period>,
}

struct Known {
    record: SessionRecord,
    /// Of the keys that it has here.
    period: Option<Period>,
}

impl Roster {
    /// A record as it is now. False: it is none.
    pub fn take<M: SwitchMemory>(&mut self, memory: &M, (key, bytes): &Record) -> bool {
        if *key == COUNTERS_KEY {
            let Some(counters) = Counters::decode(bytes) else { return false };
            if counters.epoch != self.epoch {
                self.epoch = counters.epoch;
                let handles: alloc::vec::Vec<Handle> = self.living.keys().copied().collect();
                handles.into_iter().for_each(|handle| self.give_keys(memory, handle));
            }
            return true;
        }
        let (Ok(handle), Some(record)) = (Handle::try_from(*key), SessionRecord::decode(bytes)) else { return false };
        if handle > memory.max_handle() {
            return false;
        }
        if record.stage == Stage::Live {
            let is_known = memory.node(handle).is_some_and(|node| {
                (node.entry.namespace, node.entry.incarnation) == (record.namespace, record.incarnation)
            });
            // Under this epoch nobody but a controller here can have given it keys.
            let goes_on =
                is_known && self.epoch != 0 && memory.epoch() == self.epoch && !self.living.contains_key(&handle);
            let incarnation = record.incarnation;
            let as_it_is = || Period { incarnation, epoch: self.epoch, rotation: memory.rotation(handle) };
            let period = goes_on.then(as_it_is);
            self.living.insert(handle, Known { record, period });
            self.give_keys(memory, handle);
            if is_known {
                let word = memory.node_word(handle);
                // It was expired here, and lives by the records.
                memory.cas_node_word(handle, word, NodeWord { state: NodeState::Live, ..word });
            } else {
                memory.set_node(handle, &record.entry());
            }
        } else {
            self.living.remove(&handle);
            let word = memory.node_word(handle);
            // Nobody else writes it here: the node's heartbeats go to whoever has the post.
            memory.cas_node_word(handle, word, NodeWord { state: NodeState::Expired, ..word });
            memory.session_over(handle, Some(record.incarnation));
        }
        true
    }

    /// A session has come to this rotation of its keys.
    pub fn rotate<M: SwitchMemory>(&mut self, memory: &M, handle: Handle, period: Period) {
        // Each is derived on the way: nobody comes so far.
        if period.rotation > ROTATIONS {
            return;
        }
        self.rotations.insert(handle, period);
        self.give_keys(memory, handle);
    }

    /// Its keys as they are by now, if it lives.
    fn give_keys<M: SwitchMemory>(&mut self, memory: &M, handle: Handle) {
        let Some(known) = self.living.get_mut(&handle) else { return };
        let first = Period { incarnation: known.record.incarnation, epoch: self.epoch, rotation: 0 };
        let is_its = |period: &&Period| Period { rotation: 0, ..**period } == first;
        let period = self.rotations.get(&handle).filter(is_its).copied().unwrap_or(first);
        let Some(secret) = known.record.secret else { return memory.set_keys(handle, None) };
        if known.period.is_none_or(|before| Period { rotation: 0, ..before } != first) {
            memory.set_keys(handle, Some(&secret.keys(first)));
        }
        for rotation in memory.rotation(handle) + 1..=period.rotation {
            memory.rotate(handle, &secret.keys(Period { rotation, ..period }));
        }
        known.period = Some(period);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Memory;
    use super::*;
    use crate::seal::Secret;
    use alloc::rc::Rc;
    use wayside_wire::limits;

    const SECRET: Secret = Secret([9; 32]);

    fn record(incarnation: u64, stage: Stage) -> Record {
        let address = "10.0.0.1:7000".parse().unwrap();
        let host = [0; limits::MAX_HOST_BYTES];
        let times = (1_000_000, 100_000);
        SessionRecord {
            incarnation,
            nonce: 1,
            lifeline: 2,
            address,
            namespace: 1,
            lease: times.0,
            grace: times.1,
            pid: 3,
            host,
            stage,
            secret: Some(SECRET),
            admission: 0,
        }
        .encode(2)
    }

    fn keys(incarnation: u64, epoch: u32, rotation: u32) -> Option<crate::seal::Keys> {
        Some(SECRET.keys(Period { incarnation, epoch, rotation }))
    }

    /// At a hook whose daemon begins anew and is to find its post its own still.
    #[test]
    fn a_memory_that_goes_on_keeps_what_it_knows_of_those_who_live() {
        let memory = Rc::new(Memory::default());
        let mut before = Roster::default();
        let counters = Counters { epoch: 5, ..Counters::default() }.encode();
        before.take(&memory, &counters);
        before.take(&memory, &record(7, Stage::Live));
        before.rotate(&memory, 2, Period { incarnation: 7, epoch: 5, rotation: 2 });
        let word = NodeWord { state: NodeState::Live, sequence: 40 };
        for (epoch, seen, rotation) in [(5, word, 2), (0, NodeWord { state: NodeState::Expired, ..word }, 0)] {
            memory.set_epoch(epoch);
            assert!(memory.cas_node_word(2, memory.node_word(2), seen));
            let mut roster = Roster::default();
            roster.take(&memory, &counters);
            roster.take(&memory, &record(7, Stage::Live));
            assert_eq!(memory.node_word(2), word, "it was not written anew");
            assert_eq!((memory.keys_of(2), memory.rotation(2)), (keys(7, 5, rotation), rotation));
        }
        Roster::default().take(&memory, &record(8, Stage::Live));
        assert_eq!(memory.node_word(2), NodeWord { sequence: 0, ..word }, "another session");
    }

    #[test]
    fn sessions_live_here_as_long_as_in_the_records_and_with_the_same_keys() {
        let memory = Rc::new(Memory::default());
        let mut roster = Roster::default();
        let counters = |epoch| Counters { epoch, ..Counters::default() }.encode();
        assert!(roster.take(&memory, &counters(5)));
        assert!(!roster.take(&memory, &(2, alloc::vec![99])), "no record");
        assert!(roster.take(&memory, &record(7, Stage::Live)));
        assert_eq!(memory.node_word(2).state, NodeState::Live);
        assert_eq!(memory.keys_of(2), keys(7, 5, 0));

        // Told before or after: a rotation is of one session in one epoch.
        roster.rotate(&memory, 2, Period { incarnation: 7, epoch: 5, rotation: 2 });
        assert_eq!((memory.keys_of(2), memory.rotation(2)), (keys(7, 5, 2), 2));
        roster.take(&memory, &record(7, Stage::Live));
        assert_eq!(memory.rotation(2), 2, "what is known changes nothing");
        roster.rotate(&memory, 2, Period { incarnation: 6, epoch: 5, rotation: 9 });
        roster.take(&memory, &counters(6));
        assert_eq!((memory.keys_of(2), memory.rotation(2)), (keys(7, 6, 0), 0));
        roster.rotate(&memory, 2, Period { incarnation: 8, epoch: 6, rotation: 1 });
        assert_eq!(memory.keys_of(2), keys(7, 6, 0));

        roster.take(&memory, &record(7, Stage::Mourned));
        assert_eq!(memory.node_word(2).state, NodeState::Expired);
        roster.take(&memory, &record(7, Stage::AtRest));
        roster.take(&memory, &record(8, Stage::Live));
        assert_eq!(memory.node_word(2).state, NodeState::Live);
        assert_eq!((memory.keys_of(2), memory.rotation(2)), (keys(8, 6, 1), 1));
    }
}
