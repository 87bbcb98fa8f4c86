//! What a node remembers of a census for as long as it may be asked about it, by the census's id.
//!
//! Invariant: nothing is forgotten before its time, however much there is. Who asks again has lost a packet, and takes
//! the silence of who has forgotten for that of one who will never answer.

use crate::Time;
use crate::map::SteadyMap;
use alloc::collections::VecDeque;

pub(super) struct Recent<V> {
    kept: SteadyMap<u64, Kept<V>>,
    /// Every id once, and some that were taken out; before that time there is nothing to be done about it.
    order: VecDeque<(Time, u64)>,
}

struct Kept<V> {
    until: Time,
    value: V,
}

impl<V> Recent<V> {
    pub fn new() -> Recent<V> {
        Recent { kept: SteadyMap::with_room(), order: VecDeque::new() }
    }

    /// Remembers what is new until then, and forgets what is over.
    pub fn keep(&mut self, now: Time, until: Time, id: u64, value: V) {
        while let Some(&(at, id)) = self.order.front()
            && at <= now
        {
            self.order.pop_front();
            match self.kept.get(&id).map(|kept| kept.until) {
                Some(until) if until > now => self.order.push_back((until, id)),
                _ => drop(self.kept.remove(&id)),
            }
        }
        self.kept.insert(id, Kept { until, value });
        self.order.push_back((until, id));
    }

    pub fn has(&self, id: u64) -> bool {
        self.kept.contains_key(&id)
    }

    /// Somebody asks: it is remembered until then, too.
    pub fn recall(&mut self, until: Time, id: u64) -> Option<&mut V> {
        let kept = self.kept.get_mut(&id)?;
        kept.until = kept.until.max(until);
        Some(&mut kept.value)
    }

    /// Nobody asks any more.
    pub fn remove(&mut self, id: u64) {
        self.kept.remove(&id);
    }

    pub fn clear(&mut self) {
        self.kept.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_about_is_remembered_from_then_on_and_the_rest_goes_with_its_time() {
        let mut recent = Recent::new();
        for id in 0..1_000 {
            recent.keep(Time(id), Time(id + 5_000), id, id);
        }
        assert!((0..1_000).all(|id| recent.has(id)), "however many there are");
        assert_eq!(recent.recall(Time(9_000), 7), Some(&mut 7));
        recent.remove(8);
        assert!(!recent.has(8) && recent.recall(Time(9_000), 8).is_none(), "nor what is taken out");
        recent.keep(Time(6_500), Time(11_500), 1_000, 1_000);
        assert_eq!((recent.kept.len(), recent.order.len()), (2, 2));
        assert!(recent.has(7) && recent.has(1_000));
        recent.keep(Time(9_000), Time(14_000), 1_001, 1_001);
        assert!(!recent.has(7) && recent.recall(Time(0), 7).is_none());
        recent.clear();
        assert!(!recent.has(1_001));
        assert_eq!((recent.kept.len(), recent.order.len()), (0, 0), "and all of it goes at once");
    }
}
