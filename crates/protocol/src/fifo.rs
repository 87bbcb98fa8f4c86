//! A queue for what mostly is taken out as soon as it has come.

use alloc::vec::Vec;

/// First in, first out: `items[head..]`. Whenever it is empty it begins anew at the start of its memory, which thus
/// stays in the nearest cache, and neither end ever wraps around.
///
/// Invariant: with room for `n`, it allocates nothing while there are never more than `n`.
pub struct Fifo<T> {
    items: Vec<T>,
    head: usize,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Fifo { items: Vec::new(), head: 0 }
    }
}

impl<T: Copy> Fifo<T> {
    pub fn with_room(room: usize) -> Self {
        let mut fifo = Fifo::default();
        fifo.make_room(room);
        fifo
    }

    /// Makes room for as many in all.
    pub fn make_room(&mut self, room: usize) {
        self.move_up();
        self.items.reserve((2 * room).saturating_sub(self.items.len()));
    }

    #[inline]
    pub fn push(&mut self, item: T) {
        if self.items.len() == self.items.capacity() {
            self.find_room();
        }
        self.items.push(item);
    }

    /// Moves them up if that brings as much room as they take, so that each is moved once for each that is pushed.
    #[cold]
    fn find_room(&mut self) {
        if 2 * self.head >= self.items.len() {
            self.move_up();
        }
    }

    fn move_up(&mut self) {
        self.items.copy_within(self.head.., 0);
        self.items.truncate(self.len());
        self.head = 0;
    }

    #[inline]
    pub fn first(&self) -> Option<&T> {
        self.items.get(self.head)
    }

    #[inline]
    pub fn last(&self) -> Option<&T> {
        self.items.last()
    }

    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let first = *self.items.get(self.head)?;
        self.head += 1;
        if self.head == self.items.len() {
            self.clear();
        }
        Some(first)
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.items.len() - self.head
    }

    pub fn retain(&mut self, keeps: impl FnMut(&T) -> bool) {
        self.move_up();
        self.items.retain(keeps);
    }

    #[inline]
    pub fn clear(&mut self) {
        self.items.clear();
        self.head = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;

    #[test]
    fn keeps_order_and_needs_no_memory_beyond_its_room() {
        const ROOM: usize = 10;
        let (mut fifo, mut model) = (Fifo::with_room(ROOM), VecDeque::new());
        let capacity = fifo.items.capacity();
        for round in 0..10_000u64 {
            if model.len() < ROOM && wayside_wire::mix(round) % 5 < 3 {
                fifo.push(round);
                model.push_back(round);
            } else {
                assert_eq!(fifo.pop(), model.pop_front(), "round {round}");
            }
            if round % 1_000 == 999 {
                fifo.retain(|item| item % 3 > 0);
                model.retain(|item| item % 3 > 0);
            }
            assert_eq!((fifo.first(), fifo.last(), fifo.len()), (model.front(), model.back(), model.len()));
        }
        assert_eq!(fifo.items.capacity(), capacity);
    }
}
