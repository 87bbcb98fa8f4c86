//! Which requests hold in a slot, for whoever asks again and again: the slots of a dead node are asked about 32 at a
//! time, and a node with a million locks cannot look at all of them every time.
//!
//! Invariant: once [`Held::prepare`] was called, and until it is forgotten, every request that holds is found by its
//! slot. What is found need not hold any more.

use crate::RequestId;
use crate::lock::{Requests, State};
use alloc::vec::Vec;

/// New holds after which it is not worth keeping: nobody has asked for long.
const RECENT_MOST: usize = 65_536;
/// New holds that are looked through one by one.
const FEW: usize = 256;

#[derive(Default)]
pub struct Held {
    is_kept: bool,
    /// Slots and requests, in order.
    sorted: Vec<(u32, u64)>,
    /// The same of those who have come to hold since, as they came.
    recent: Vec<(u32, u64)>,
}

impl Held {
    /// This request holds from now on.
    #[inline]
    pub fn note(&mut self, slot: u32, request: u64) {
        if self.is_kept {
            self.keep(slot, request);
        }
    }

    #[cold]
    fn keep(&mut self, slot: u32, request: u64) {
        self.recent.push((slot, request));
        if self.recent.len() > RECENT_MOST {
            *self = Held::default();
        }
    }

    /// From now on it is known who holds.
    pub fn prepare(&mut self, requests: &Requests) {
        if !self.is_kept {
            self.is_kept = true;
            let held = requests.iter().filter(|(_, request)| matches!(request.state, State::Held { .. }));
            self.sorted.extend(held.map(|(RequestId(id), request)| (request.slot, id)));
            self.sorted.sort_unstable();
        } else if self.recent.len() > FEW.max(self.sorted.len() / 16) {
            self.sorted.append(&mut self.recent);
            self.sorted.retain(|(_, id)| requests.get(*id).is_some_and(|r| matches!(r.state, State::Held { .. })));
            self.sorted.sort_unstable();
        }
    }

    /// Requests that may hold in this slot.
    pub fn in_slot(&self, slot: u32) -> impl Iterator<Item = u64> + '_ {
        let from = self.sorted.partition_point(|(of, _)| *of < slot);
        let sorted = self.sorted[from..].iter().take_while(move |(of, _)| *of == slot);
        sorted.chain(self.recent.iter().filter(move |(of, _)| *of == slot)).map(|(_, id)| *id)
    }

    /// Nothing is known any more.
    pub fn forget(&mut self) {
        *self = Held::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Handle, Stamp, Token};
    use alloc::collections::BTreeSet;

    fn hold(requests: &mut Requests, slot: u32) -> u64 {
        let (id, request) = requests.add().unwrap();
        let token = Token::new(Stamp { epoch: 1, tenure: 1 }, 0);
        (request.slot, request.state) =
            (slot, State::Held { token, agent: 1 as Handle, ordinal: None, downgrading: false });
        id
    }

    #[test]
    fn whoever_holds_is_found_by_its_slot_however_many_come_and_go() {
        let (mut requests, mut held) = (Requests::new(1 << 20), Held::default());
        requests.start(3, 1);
        let (mut known, mut dice): (BTreeSet<(u32, u64)>, u64) = (BTreeSet::new(), 1);
        for round in 0..20_000 {
            dice = wayside_wire::mix(dice + 1);
            let slot = (dice % 40) as u32;
            if dice >> 40 & 3 > 0 {
                let id = hold(&mut requests, slot);
                held.note(slot, id);
                known.insert((slot, id));
            } else if let Some((slot, id)) = known.pop_first() {
                requests.remove(id);
                assert!(round == 0 || !known.contains(&(slot, id)));
            }
            if round % 50 == 49 {
                held.prepare(&requests);
                let found: BTreeSet<u64> =
                    held.in_slot(slot).filter(|id| requests.get(*id).is_some_and(|r| r.slot == slot)).collect();
                let meant: BTreeSet<u64> = known.range((slot, 0)..=(slot, u64::MAX)).map(|(_, id)| *id).collect();
                assert_eq!(found, meant, "round {round}");
            }
        }
    }

    #[test]
    fn what_nobody_asks_for_is_not_kept_for_ever() {
        let (mut requests, mut held) = (Requests::new(1 << 20), Held::default());
        requests.start(3, 1);
        held.prepare(&requests);
        for _ in 0..=RECENT_MOST {
            let id = hold(&mut requests, 1);
            held.note(1, id);
        }
        assert_eq!((held.is_kept, held.recent.capacity()), (false, 0));
        held.prepare(&requests);
        assert_eq!(held.in_slot(1).count(), RECENT_MOST + 1);
    }

    /// Or whoever asks again and again would look through more and more.
    #[test]
    fn new_holds_are_sorted_in_when_they_are_many_and_what_has_ended_is_left_out() {
        let (mut requests, mut held) = (Requests::new(1 << 20), Held::default());
        requests.start(3, 1);
        let before: Vec<u64> = (0..3).map(|slot| hold(&mut requests, slot)).collect();
        held.prepare(&requests);
        for count in 1..=FEW + 1 {
            let id = hold(&mut requests, 9 - (count % 2) as u32);
            held.note(9 - (count % 2) as u32, id);
            held.prepare(&requests);
            let expected = if count <= FEW { (3, count) } else { (3 + count, 0) };
            assert_eq!((held.sorted.len(), held.recent.len()), expected);
        }
        assert!(held.sorted.is_sorted());
        before.iter().for_each(|id| requests.remove(*id));
        let (waiting, request) = requests.add().unwrap();
        (request.slot, request.state) = (1, State::Waiting);
        held.note(1, waiting);
        (0..=FEW).for_each(|_| {
            let id = hold(&mut requests, 7);
            held.note(7, id);
        });
        held.prepare(&requests);
        assert_eq!((held.sorted.len(), held.recent.len()), (2 * (FEW + 1), 0));
        assert_eq!(held.in_slot(1).count(), 0, "it waits, and what held there is gone");
        // With many that are sorted, a sixteenth of them is not worth it.
        (0..FEW * 20).for_each(|_| {
            hold(&mut requests, 3);
        });
        held.forget();
        held.prepare(&requests);
        let many = held.sorted.len() / 16;
        assert!(many > FEW);
        for _ in 0..many {
            let id = hold(&mut requests, 5);
            held.note(5, id);
        }
        held.prepare(&requests);
        assert_eq!(held.recent.len(), many);
        held.forget();
        assert_eq!((held.is_kept, held.in_slot(3).count()), (false, 0));
    }

    #[test]
    fn who_has_never_been_asked_notes_nothing() {
        let mut held = Held::default();
        held.note(1, 1);
        assert_eq!(held.recent.len(), 0);
        let mut requests = Requests::new(16);
        requests.start(3, 1);
        held.prepare(&requests);
        (0..RECENT_MOST).for_each(|_| held.note(1, 1));
        assert!(held.is_kept && held.recent.len() == RECENT_MOST);
    }
}
