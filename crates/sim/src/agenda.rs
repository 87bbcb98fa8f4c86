//! What is planned, in the order of a virtual time; at the same time, in the order of planning.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Plans of any kind.
pub struct Agenda<T> {
    /// Time, order of planning, place in `plans`.
    queue: BinaryHeap<Reverse<(u64, u64, u32)>>,
    plans: Vec<Option<T>>,
    vacant: Vec<u32>,
    planned: u64,
}

impl<T> Agenda<T> {
    /// Nothing is planned.
    pub fn new() -> Agenda<T> {
        Agenda { queue: BinaryHeap::new(), plans: Vec::new(), vacant: Vec::new(), planned: 0 }
    }

    /// For that time.
    pub fn plan(&mut self, at: u64, plan: T) {
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.plans.push(None);
            (self.plans.len() - 1) as u32
        });
        self.plans[place as usize] = Some(plan);
        self.planned += 1;
        self.queue.push(Reverse((at, self.planned, place)));
    }

    /// What comes next, and when.
    pub fn next(&mut self) -> Option<(u64, T)> {
        let Reverse((at, _, place)) = self.queue.pop()?;
        self.vacant.push(place);
        let plan = self.plans[place as usize].take().expect("planned once, happens once");
        Some((at, plan))
    }
}
