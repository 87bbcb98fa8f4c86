//! Queues as one switch hands them to the next: `controller/hand_over.rs` of the protocol.
//!
//! Invariant: what is taken up is found under its name when all of it is there, and a table that has no room for all
//! has the queues that it had before, empty.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use wayside_protocol::memory::{LockServer, Part, QueueMemory, QueuesMemory, SwitchMemory};
use wayside_wire::cell_who;

use super::{Books, LAST_TICKET, MAX_CELLS, Queues, SERVERS, Start, line_of, remove};
use crate::Switch;
use crate::locks::take;

impl Queues {
    pub(crate) fn room(&self) -> [u32; 2] {
        [self.queues.len() as u32 - 1, self.cells.len() as u32]
    }

    pub(crate) fn memory_of(&self, namespace: u16) -> QueuesMemory {
        let parts = self.servers[usize::from(namespace)].count.load(SeqCst).min(Part::MOST);
        let books = self.books();
        let its = books.names.range((namespace, 0)..=(namespace, u64::MAX));
        let queue = |(_, number): (_, &u32)| {
            let queue = &self.queues[*number as usize];
            let lock = take(&queue.lock);
            let line = line_of(queue);
            let cells = (line.ticket - u64::from(line.used)..line.ticket).map(|ticket| self.cell(queue, ticket));
            let members = cells.map(|cell| [cell.request.load(Acquire), cell.who.load(Acquire)]).collect();
            let granted = queue.granted.load(Acquire);
            queue.lock.store(lock, SeqCst);
            QueueMemory { line, granted, members }
        };
        QueuesMemory {
            servers: (0..parts).map(|part| self.server(namespace, part)).collect(),
            queues: its.map(queue).collect(),
        }
    }

    fn take_up_servers(&self, namespace: u16, known: &[LockServer]) {
        let servers = &self.servers[usize::from(namespace)];
        for part in 0..SERVERS {
            let LockServer { handle, term } = known.get(part).copied().unwrap_or_default();
            servers.term[part].store(term, SeqCst);
            servers.of[part].store(handle, SeqCst);
        }
        servers.count.store(known.len() as u16, SeqCst);
    }

    /// Takes the names from all queues, which are nobody's any more.
    fn remove_all(&self, books: &mut Books) {
        for (key, number) in std::mem::take(&mut books.names) {
            let queue = &self.queues[number as usize];
            if let Some((place, _)) = self.find(key.0, key.1) {
                let lock = take(&queue.lock);
                remove(place, queue);
                queue.lock.store(lock, SeqCst);
            }
            books.leave(key, number, queue.left.load(Relaxed));
        }
    }
}

/// Whether it is one of a switch with so many handles.
fn is_queue(queue: &QueueMemory, handles: u16) -> bool {
    let QueueMemory { line, granted, members } = queue;
    let head = line.ticket.checked_sub(line.used.into());
    (1..=MAX_CELLS).contains(&line.cells)
        && line.used <= line.cells
        && members.len() == line.used as usize
        && line.ticket <= LAST_TICKET + 1
        && head.is_some_and(|head| (head..=line.ticket).contains(granted))
        && line.settled <= line.given
        && members.iter().all(|[_, who]| (1..=handles).contains(&cell_who::holder(*who)))
}

fn start(queue: &QueueMemory) -> Start<'_> {
    let QueueMemory { line, granted, members } = queue;
    Start {
        tickets: [line.ticket - u64::from(line.used), *granted, line.ticket],
        given: line.given,
        settled: line.settled,
        pushed: line.pushed,
        ranked: line.ranked,
        stage: line.stage,
        members,
    }
}

impl Switch {
    pub(crate) fn take_up_all_queues(&self, all: &BTreeMap<u16, QueuesMemory>) -> bool {
        let each = || all.iter().flat_map(|(namespace, known)| known.queues.iter().map(|queue| (*namespace, queue)));
        let handles = self.max_handle();
        let are_some = |known: &QueuesMemory| {
            known.servers.len() <= SERVERS && known.servers.iter().all(|server| server.handle <= handles)
        };
        if !all.values().all(are_some) || !each().all(|(_, queue)| is_queue(queue, handles)) {
            return false;
        }
        let mut books = self.queues.books();
        let size = |number: &u32| self.queues.queues[*number as usize].size.load(Relaxed);
        let former: Vec<((u16, u64), u32)> = books.names.iter().map(|(key, number)| (*key, size(number))).collect();
        self.queues.remove_all(&mut books);
        let place = |books: &mut Books, (namespace, name), cells, start| {
            self.place_in(books, namespace, name, cells, start).is_ok()
        };
        if !each()
            .all(|(namespace, queue)| place(&mut books, (namespace, queue.line.name), queue.line.cells, start(queue)))
        {
            self.queues.remove_all(&mut books);
            former.into_iter().for_each(|(key, cells)| {
                place(&mut books, key, cells, Start::here(1));
            });
            return false;
        }
        all.iter().for_each(|(namespace, known)| self.queues.take_up_servers(*namespace, &known.servers));
        true
    }
}
