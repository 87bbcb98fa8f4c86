//! The requests of a session: their records, and which of them has which id.
//!
//! Invariants
//! * A record is one owner's (a guard, a call that acquires) from [`Book::enter`] until [`Book::close`], whatever
//!   becomes of its request; then it serves another one.
//! * `index` has exactly the requests that wait or hold, each in the one cell that its id's low bits name. The node has
//!   a table of this kind too and gives out no id whose place there is taken, so this index never becomes longer than
//!   that.
//! * Memory follows from the most requests at a time: then nothing here allocates.

use crate::request::{Begun, Request};
use std::mem;
use wayside_protocol::RequestId;

/// Cells at first: a power of two.
const CELLS_FIRST: usize = 64;

/// `id` 0: empty.
#[derive(Clone, Copy)]
struct Cell {
    id: u64,
    record: u32,
}

const EMPTY: Cell = Cell { id: 0, record: 0 };

pub(crate) struct Book {
    records: Vec<Request>,
    /// The one that was used last is still in the processor's cache: it comes first.
    spare: Vec<u32>,
    index: Vec<Cell>,
    open: usize,
}

impl Default for Book {
    fn default() -> Self {
        Book { records: Vec::new(), spare: Vec::new(), index: vec![EMPTY; CELLS_FIRST], open: 0 }
    }
}

impl Book {
    /// A record for a new request, with whatever it had of the one before but the id.
    #[inline]
    pub(crate) fn enter(&mut self, id: RequestId) -> (Begun, &mut Request) {
        if self.spare.is_empty() {
            self.make_records();
        }
        let record = self.spare.pop().expect("made above");
        while self.cell(id).id != 0 {
            self.grow_index();
        }
        *self.cell(id) = Cell { id: id.0, record };
        self.open += 1;
        let request = &mut self.records[record as usize];
        request.id = id;
        (Begun { id, record }, request)
    }

    /// The record of a request, over or not, that its owner has not given up.
    #[inline]
    pub(crate) fn of(&mut self, begun: Begun) -> &mut Request {
        let request = &mut self.records[begun.record as usize];
        debug_assert_eq!(request.id, begun.id);
        request
    }

    /// The request of this id, unless it is over.
    #[inline]
    pub(crate) fn find(&mut self, id: RequestId) -> Option<&mut Request> {
        let cell = *self.cell(id);
        if cell.id == id.0 { Some(&mut self.records[cell.record as usize]) } else { None }
    }

    /// The request of this id is over from now on.
    #[inline]
    pub(crate) fn end(&mut self, id: RequestId) -> Option<&mut Request> {
        let cell = self.cell(id);
        if cell.id != id.0 {
            return None;
        }
        let record = mem::replace(cell, EMPTY).record;
        self.open -= 1;
        Some(&mut self.records[record as usize])
    }

    /// All that were not over are now.
    pub(crate) fn end_all(&mut self) -> impl Iterator<Item = &mut Request> {
        self.index.fill(EMPTY);
        self.open = 0;
        self.records.iter_mut().filter(|request| request.is_open())
    }

    /// Its owner has no more use for the record of a request that is over.
    #[inline]
    pub(crate) fn close(&mut self, begun: Begun) {
        self.spare.push(begun.record);
    }

    /// Requests that wait or hold.
    pub(crate) fn len(&self) -> usize {
        self.open
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Request> {
        self.records.iter().filter(|request| request.is_open())
    }

    #[inline]
    fn cell(&mut self, RequestId(id): RequestId) -> &mut Cell {
        let place = id as usize & (self.index.len() - 1);
        &mut self.index[place]
    }

    /// Twice as many cells: ids that had different ones have different ones again.
    #[cold]
    fn grow_index(&mut self) {
        let cells = vec![EMPTY; 2 * self.index.len()];
        for cell in mem::replace(&mut self.index, cells) {
            if cell.id != 0 {
                *self.cell(RequestId(cell.id)) = cell;
            }
        }
    }

    /// Twice as many.
    #[cold]
    fn make_records(&mut self) {
        let (from, more) = (self.records.len(), self.records.len().max(CELLS_FIRST / 2));
        self.records.extend((0..more).map(|_| Request::spare()));
        self.spare.reserve(from + more);
        self.spare.extend((from as u32..(from + more) as u32).rev());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Standing;
    use std::collections::HashMap;

    /// Of the node's table.
    const PLACES: u64 = 2_048;

    #[test]
    fn requests_are_found_by_their_ids_as_long_as_they_are_not_over() {
        let mut book = Book::default();
        let mut known = HashMap::new();
        let mut random = 7;
        for id in (3 << 40 | 1)..(3 << 40 | 20_000u64) {
            if known.keys().any(|known| (known ^ id) % PLACES == 0) {
                continue;
            }
            let (begun, request) = book.enter(RequestId(id));
            request.standing = Standing::Held;
            request.name = id;
            known.insert(id, begun);
            while known.len() > 700 {
                random = wayside_wire::mix(random);
                let (&gone, &begun) = known.iter().nth(random as usize % known.len()).unwrap();
                known.remove(&gone);
                book.end(RequestId(gone)).unwrap().standing = Standing::Lost;
                book.close(begun);
                assert!(book.find(RequestId(gone)).is_none() && book.end(RequestId(gone)).is_none());
            }
            if id % 512 == 0 {
                assert!(known.iter().all(|(&id, &begun)| book.of(begun).name == id));
                assert!(known.keys().all(|&id| book.find(RequestId(id)).is_some_and(|request| request.name == id)));
                assert_eq!((book.len(), book.iter().count()), (known.len(), known.len()));
            }
        }
        assert!(book.index.len() as u64 <= PLACES, "{}", book.index.len());
        assert_eq!(book.end_all().count(), known.len());
        assert_eq!(book.len(), 0);
    }
}
