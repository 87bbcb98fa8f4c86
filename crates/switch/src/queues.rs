//! The queue service's memory: which locks have their queue in this switch, and where their cells lie. Allocated here
//! or shared with the core at the hook; `dataplane/cells.h` has the layouts, `docs/queue.md` the contract.
//!
//! Invariants
//! * A name has one queue and one place in one of its two buckets, or neither. The place is written after the queue,
//!   and cleared before it: who finds a place finds the queue behind it, or another name's, which it recognises.
//! * Regions of queues do not overlap, whichever locks move; `Books` know where they lie, and which queues have no
//!   name. Queue 0 is never used: a place of 0 is free.
//! * Whatever changes in a queue or its cells changes under the queue's lock.
//! * A session that begins finds no cell of an earlier one of its handle that is not over.

mod hand_over;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU16, AtomicU64};
use std::sync::{Mutex, MutexGuard};

use wayside_protocol::memory::{Line, LockServer, NodeWord, Part, Stage, Step};
use wayside_protocol::{Handle, RequestId};
use wayside_wire::{NodeState, cell_who, queue_holding};

use crate::Switch;
use crate::hash;
use crate::layout::{Bucket, Cell, Directory, Queue, REGIONS, SERVERS, Servers};
#[cfg(feature = "xdp")]
use crate::locks::is_left;
use crate::locks::take;
use crate::zeroed::Zeroed;

/// `WS_MAX_CELLS`.
const MAX_CELLS: u32 = 1_024;
/// Of the eight places of a bucket. Packets look into a name's first bucket first, so it is taken while it has room;
/// but from here on the other one, if that has more: without this one table in fifty had a name with both of them full.
const CROWDED: usize = 6;
/// `WS_LAST_TICKET`.
const LAST_TICKET: u64 = (1 << 40) - 1;

/// How many queues a switch may have.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueConfig {
    /// Locks that have their queue here, 96 bytes each and some 12 of index. 0: none.
    pub queues: u32,
    /// Cells of all queues together, 16 bytes each.
    pub cells: u32,
    /// A secret: nobody who does not know it can choose names that get into each other's way.
    pub seed: u64,
}

impl QueueConfig {
    /// One more, since none has the number 0.
    pub(crate) fn entries(self) -> u32 {
        self.queues.saturating_add(1)
    }

    /// At least one: no table is empty.
    pub(crate) fn cells(self) -> u32 {
        self.cells.max(1)
    }

    pub(crate) fn buckets(self) -> u32 {
        hash::buckets_for(self.queues)
    }

    /// Once: the seed belongs to what lies in the buckets, and is never 0.
    fn write_to(self, directory: &Directory) {
        if directory.seed.load(Relaxed) == 0 {
            directory.seed.store(self.seed | 1, Relaxed);
            directory.bucket_mask.store(self.buckets() - 1, Relaxed);
        }
    }
}

/// Why a lock got no queue, or kept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueError {
    /// It has one.
    Taken,
    /// It has none.
    Missing,
    /// A queue has 1 to 1,024 cells, and its first ticket has 40 bits and is not 0.
    Size,
    /// No run of free cells is that long.
    Cells,
    /// The switch has no queue left, or both buckets of the name are full.
    Queues,
    /// It is at another stage than that from which this step goes, or somebody holds or waits.
    Stage,
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QueueError::Taken => "the lock has a queue in the switch already",
            QueueError::Missing => "the lock has no queue in the switch",
            QueueError::Size => "a queue has 1 to 1024 cells, and a first ticket from 1 to 2^40 - 1",
            QueueError::Cells => "no run of free cells is that long",
            QueueError::Queues => "the switch has no room for another queue",
            QueueError::Stage => "the lock is at another stage of its move, or somebody holds it or waits for it",
        })
    }
}

impl std::error::Error for QueueError {}

/// Somebody in a lock's queue, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Handle of its node.
    pub holder: Handle,
    /// Which request there.
    pub request: RequestId,
    /// Its number in the queue.
    pub ticket: u64,
    /// Exclusively, or shared.
    pub exclusive: bool,
    /// It holds; otherwise it waits.
    pub holds: bool,
}

/// A lock's queue, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueState {
    /// The epoch that it was begun in: in another one it decides nothing.
    pub epoch: u32,
    /// Cells.
    pub size: u32,
    /// Tickets: below `head` all is over, below `granted` the rest holds, below `tail` it waits.
    pub head: u64,
    /// As said at `head`.
    pub granted: u64,
    /// As said at `head`. The next ticket.
    pub tail: u64,
    /// Holders.
    pub holders: u32,
    /// The one holder is exclusive.
    pub exclusive: bool,
    /// Requests that the lock server was given so far.
    pub given: u64,
    /// Up to which of them it has nothing more.
    pub settled: u64,
    /// Requests that it has pushed back so far.
    pub pushed: u64,
    /// Where the lock is.
    pub stage: Stage,
    /// Begins of queues before this one's, in this memory.
    pub begun: u64,
}

pub(crate) struct Queues {
    pub(crate) queues: Zeroed<Queue>,
    pub(crate) cells: Zeroed<Cell>,
    pub(crate) names: Zeroed<Bucket>,
    pub(crate) servers: Zeroed<Servers>,
    pub(crate) directory: Zeroed<Directory>,
    books: Mutex<Books>,
}

/// What is used.
struct Books {
    /// Queues that have a name: number, and begins of queues before.
    used: BTreeMap<u32, u64>,
    /// The same by namespace and name.
    names: BTreeMap<(u16, u64), u32>,
    begins: u64,
    /// Numbers that had one.
    recycled: Vec<u32>,
    /// All from here on never had one.
    unused: u32,
    /// Regions: where each begins, and its cells.
    regions: BTreeMap<u32, u32>,
}

impl Default for Books {
    fn default() -> Books {
        Books {
            used: BTreeMap::new(),
            names: BTreeMap::new(),
            begins: 0,
            recycled: Vec::new(),
            unused: 1,
            regions: BTreeMap::new(),
        }
    }
}

impl Books {
    /// Where so many cells are free: behind all regions, or in the first gap.
    fn gap(&self, cells: u32, all: u32) -> Option<u32> {
        let end = self.regions.last_key_value().map_or(0, |(left, size)| left + size);
        if all - end >= cells {
            return Some(end);
        }
        let mut from = 0;
        self.regions.iter().find_map(|(&left, &size)| {
            let start = from;
            from = left + size;
            (left - start >= cells).then_some(start)
        })
    }

    /// A queue without a name, of so many; it stays there until it is used.
    fn spare(&self, queues: usize) -> Option<u32> {
        self.recycled.last().copied().or_else(|| ((self.unused as usize) < queues).then_some(self.unused))
    }

    fn enter(&mut self, key: (u16, u64), number: u32, left: u32, size: u32) {
        if self.recycled.last() == Some(&number) {
            self.recycled.pop();
        }
        self.unused = self.unused.max(number + 1);
        self.begins += 1;
        self.used.insert(number, self.begins);
        self.names.insert(key, number);
        self.regions.insert(left, size);
    }

    fn leave(&mut self, key: (u16, u64), number: u32, left: u32) {
        self.used.remove(&number);
        self.names.remove(&key);
        self.recycled.push(number);
        self.regions.remove(&left);
    }
}

/// Nobody finds it any more. Under the queue's lock.
fn remove(place: &AtomicU64, queue: &Queue) {
    place.store(0, SeqCst);
    queue.size.store(0, Release);
}

/// What a queue begins with.
#[derive(Clone, Copy)]
struct Start<'a> {
    /// Tickets of head, granted and tail.
    tickets: [u64; 3],
    given: u64,
    settled: u64,
    pushed: u64,
    ranked: u32,
    stage: Stage,
    /// Request and who of the cells from head to below tail.
    members: &'a [[u64; 2]],
}

impl Start<'_> {
    /// Nobody holds or waits.
    fn empty(first: u64, stage: Stage) -> Start<'static> {
        Start { tickets: [first; 3], given: 0, settled: 0, pushed: 0, ranked: 0, stage, members: &[] }
    }

    /// Here, and its lock server has had nothing.
    fn here(first: u64) -> Start<'static> {
        Start::empty(first, Stage::Here)
    }
}

/// Words of a queue, each as it is when it is read: of what moves none changes but by whoever reads them.
fn line_of(queue: &Queue) -> Line {
    let head = queue.head.load(Acquire);
    let ticket = queue.tail.load(Acquire);
    Line {
        name: queue.name.load(Acquire),
        cells: queue.size.load(Acquire),
        stage: stage_of(queue),
        ticket,
        used: ticket.saturating_sub(head).min(MAX_CELLS.into()) as u32,
        given: queue.given.load(Acquire),
        settled: queue.settled.load(Acquire),
        pushed: queue.pushed.load(Acquire),
        ranked: queue.ranked.load(Acquire),
    }
}

/// Under the queue's lock. True.
fn set_stage(queue: &Queue, stage: Stage) -> bool {
    queue.stage.store(stage as u32, Release);
    true
}

/// `enum ws_stage`.
fn stage_of(queue: &Queue) -> Stage {
    match queue.stage.load(Acquire) {
        0 => Stage::Here,
        1 => Stage::Drains,
        2 => Stage::Handed,
        _ => Stage::Awaited,
    }
}

impl Queues {
    pub(crate) fn new(config: QueueConfig) -> Queues {
        let directory: Zeroed<Directory> = Zeroed::new(1);
        config.write_to(&directory[0]);
        Queues {
            queues: Zeroed::new(config.entries() as usize),
            cells: Zeroed::new(config.cells() as usize),
            names: Zeroed::new(config.buckets() as usize),
            servers: Zeroed::new(REGIONS),
            directory,
            books: Mutex::default(),
        }
    }

    /// Tables that somebody else may have used before: what is in them stays, what a thread of a process that died was
    /// writing is settled.
    #[cfg(feature = "xdp")]
    pub(crate) fn over(
        config: QueueConfig,
        queues: Zeroed<Queue>,
        cells: Zeroed<Cell>,
        names: Zeroed<Bucket>,
        servers: Zeroed<Servers>,
        directory: Zeroed<Directory>,
    ) -> Queues {
        config.write_to(&directory[0]);
        let queues = Queues { queues, cells, names, servers, directory, books: Mutex::default() };
        let mut books = Books::default();
        for number in 1..queues.queues.len() as u32 {
            let queue = &queues.queues[number as usize];
            if is_left(&queue.lock) {
                // One that was being made or removed has no cells.
                if queue.size.load(Acquire) != 0 {
                    queues.count_holders(queue);
                }
                queue.lock.store(0, SeqCst);
            }
            // A daemon that died between the two left one that nobody finds.
            let namespace = queue.namespace.load(Acquire) as u16;
            let name = queue.name.load(Acquire);
            let found = queues.find(namespace, name);
            let is_its = found.is_some_and(|(place, _)| place.load(Relaxed) as u32 == number);
            if queue.size.load(Acquire) != 0 && is_its {
                books.recycled.extend(books.unused..number);
                books.enter((namespace, name), number, queue.left.load(Relaxed), queue.size.load(Relaxed));
            } else {
                queue.size.store(0, SeqCst);
            }
        }
        *queues.books() = books;
        queues
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("nobody panics while holding it")
    }

    fn buckets_of(&self, namespace: u16, name: u64) -> ([&Bucket; 2], u64) {
        let directory = &self.directory[0];
        let hash = hash::of(directory.seed.load(Relaxed), name, 0, namespace);
        let mask = directory.bucket_mask.load(Relaxed);
        (hash::buckets(hash, mask).map(|bucket| &self.names[bucket]), hash::tag(hash))
    }

    /// A name's place and queue.
    fn find(&self, namespace: u16, name: u64) -> Option<(&AtomicU64, &Queue)> {
        let (buckets, tag) = self.buckets_of(namespace, name);
        let places = buckets.into_iter().flat_map(|bucket| &bucket.places);
        places.map(|place| (place, place.load(Acquire))).find_map(|(place, word)| {
            let queue = &self.queues[word as u32 as usize];
            let is_it = word as u32 != 0
                && hash::tag(word) == tag
                && queue.size.load(Acquire) != 0
                && queue.namespace.load(Acquire) == u32::from(namespace)
                && queue.name.load(Acquire) == name;
            is_it.then_some((place, queue))
        })
    }

    fn cell(&self, queue: &Queue, ticket: u64) -> &Cell {
        let (left, size) = (queue.left.load(Acquire), queue.size.load(Acquire));
        &self.cells[(u64::from(left) + ticket % u64::from(size)) as usize]
    }

    /// Tickets from head to below tail whose requests are not over, with their cells. Under the queue's lock.
    fn alive<'a>(&'a self, queue: &'a Queue) -> impl Iterator<Item = (u64, &'a Cell)> + 'a {
        let tickets = queue.head.load(Acquire)..queue.tail.load(Acquire);
        let cells = tickets.map(move |ticket| (ticket, self.cell(queue, ticket)));
        cells.filter(|(_, cell)| cell_who::over(cell.who.load(Acquire)) == 0)
    }

    /// What the cells say of the holders. Under the queue's lock.
    fn count_holders(&self, queue: &Queue) {
        let granted = queue.granted.load(Acquire);
        let mut holding = 0;
        for (_, cell) in self.alive(queue).filter(|(ticket, _)| *ticket < granted) {
            holding = queue_holding::with_holders(holding, queue_holding::holders(holding) + 1);
            holding = queue_holding::with_exclusive(holding, cell_who::exclusive(cell.who.load(Acquire)));
        }
        queue.holding.store(holding, Release);
    }

    /// Under the queue's lock.
    fn begin(&self, queue: &Queue, epoch: u32, start: Start<'_>) {
        let [head, granted, tail] = start.tickets;
        queue.epoch.store(epoch, Release);
        for (ticket, members) in (head..tail).zip(start.members) {
            let cell = self.cell(queue, ticket);
            cell.request.store(members[0], Release);
            cell.who.store(members[1], Release);
        }
        queue.head.store(head, Release);
        queue.granted.store(granted, Release);
        queue.tail.store(tail, Release);
        self.count_holders(queue);
        queue.given.store(start.given, Release);
        queue.settled.store(start.settled, Release);
        queue.pushed.store(start.pushed, Release);
        queue.ranked.store(start.ranked, Release);
        queue.stage.store(start.stage as u32, Release);
    }

    /// Another epoch has begun, in which nobody holds or waits: every queue is empty, and of that epoch. Nothing is
    /// decided on queues meanwhile but what was begun before, under a lock.
    pub(crate) fn begin_epoch(&self, epoch: u32) {
        for &number in self.books().used.keys() {
            let queue = &self.queues[number as usize];
            let lock = take(&queue.lock);
            self.begin(queue, epoch, Start::here(1));
            queue.lock.store(lock, SeqCst);
        }
    }

    /// The lock server of a part of a namespace, and its term; handle 0: it has none.
    pub(crate) fn server(&self, namespace: u16, part: u16) -> LockServer {
        let (servers, at) = (&self.servers[usize::from(namespace)], usize::from(part));
        let word = |words: &[AtomicU16; SERVERS]| words.get(at).map_or(0, |word| word.load(SeqCst));
        LockServer { handle: word(&servers.of), term: word(&servers.term) }
    }

    /// A part has another lock server from here on: the same store ends what is believed of the one before.
    pub(crate) fn set_server(&self, namespace: u16, part: Part, handle: Handle) {
        let (servers, at) = (&self.servers[usize::from(namespace)], usize::from(part.number));
        assert!(part.number < part.of && part.of <= Part::MOST, "{part:?}");
        // First: who dies in between leaves a part without a lock server, not one that no packet finds.
        servers.count.store(part.of, SeqCst);
        servers.term[at].store(servers.term[at].load(SeqCst).saturating_add(1), SeqCst);
        servers.of[at].store(handle, SeqCst);
    }

    /// The locks of a namespace that have a queue, by name. The controller looks at all of them 100 times a second:
    /// nothing is allocated or put in order for it.
    pub(crate) fn read_lines(&self, namespace: u16, into: &mut Vec<Line>) {
        into.clear();
        let books = self.books();
        let its = books.names.range((namespace, 0)..=(namespace, u64::MAX));
        into.extend(its.map(|(_, number)| line_of(&self.queues[*number as usize])));
    }

    /// One of them.
    pub(crate) fn line(&self, namespace: u16, name: u64) -> Option<Line> {
        let books = self.books();
        books.names.get(&(namespace, name)).map(|number| line_of(&self.queues[*number as usize]))
    }

    /// A handle is given to another session: it is no lock server in the namespace that its former one was in.
    pub(crate) fn dismiss_server(&self, handle: Handle, namespace: u16) {
        let its = |of: &&AtomicU16| of.load(SeqCst) == handle;
        self.servers[usize::from(namespace)].of.iter().filter(its).for_each(|of| of.store(0, SeqCst));
    }

    /// The requests of a handle's session, which has ended, are over. The word of the handle is not LIVE any more, so
    /// no queue takes one of them after its lock was given back here.
    pub(crate) fn sweep(&self, handle: Handle) {
        // The books stay: what is removed meanwhile is nobody's.
        for &number in self.books().used.keys() {
            let queue = &self.queues[number as usize];
            let lock = take(&queue.lock);
            let is_its = |cell: &Cell| cell_who::holder(cell.who.load(Acquire)) == handle;
            for (_, cell) in self.alive(queue).filter(|(_, cell)| is_its(cell)) {
                cell.who.store(cell_who::with_over(cell.who.load(Acquire), 1), Release);
            }
            self.count_holders(queue);
            queue.lock.store(lock, SeqCst);
        }
    }
}

impl Switch {
    /// With memory for the queue service.
    #[must_use]
    pub fn with_queues(self, config: QueueConfig) -> Switch {
        Switch::of(self.memory, self.store, Queues::new(config), self.counters, self.traces)
    }

    /// How many parts a namespace's names are divided into; 0: none has had a lock server in this memory.
    pub fn parts(&self, namespace: u16) -> u16 {
        self.queues.servers[usize::from(namespace)].count.load(SeqCst)
    }

    /// Notes beside the queues which namespaces have some, and how; 0: none. Whoever finds the memory later, or is to
    /// take up what is in it, sees whether it is of his own configuration.
    pub fn set_queue_shape(&self, shape: u64) {
        self.queues.directory[0].shape.store(shape, SeqCst);
    }

    /// Gives a lock a queue of so many cells, of the switch's epoch, whose first ticket is `first`: above all that were
    /// granted for this name in the epoch. Nobody may hold the lock. In each epoch to come it begins anew, with
    /// ticket 1.
    ///
    /// # Errors
    /// Why not; nothing has changed then.
    pub fn add_queue(&self, namespace: u16, name: u64, cells: u32, first: u64) -> Result<(), QueueError> {
        if !(1..=LAST_TICKET).contains(&first) {
            return Err(QueueError::Size);
        }
        self.place_queue(namespace, name, cells, Start::here(first))
    }

    fn place_queue(&self, namespace: u16, name: u64, cells: u32, start: Start<'_>) -> Result<(), QueueError> {
        self.place_in(&mut self.queues.books(), namespace, name, cells, start)
    }

    fn place_in(
        &self,
        books: &mut Books,
        namespace: u16,
        name: u64,
        cells: u32,
        start: Start<'_>,
    ) -> Result<(), QueueError> {
        let queues = &self.queues;
        if !(1..=MAX_CELLS).contains(&cells) {
            return Err(QueueError::Size);
        }
        if queues.find(namespace, name).is_some() {
            return Err(QueueError::Taken);
        }
        let all = if queues.queues.len() > 1 { queues.cells.len() as u32 } else { 0 };
        let left = books.gap(cells, all).ok_or(QueueError::Cells)?;
        let number = books.spare(queues.queues.len()).ok_or(QueueError::Queues)?;
        let (buckets, tag) = queues.buckets_of(namespace, name);
        let used = |bucket: &Bucket| bucket.places.iter().filter(|place| place.load(Relaxed) != 0).count();
        let [first, second] = buckets;
        let bucket = if used(first) < CROWDED || used(first) <= used(second) { first } else { second };
        let place = bucket.places.iter().find(|place| place.load(Relaxed) == 0).ok_or(QueueError::Queues)?;
        let queue = &queues.queues[number as usize];
        let lock = take(&queue.lock);
        queue.name.store(name, Release);
        queue.left.store(left, Release);
        queue.namespace.store(namespace.into(), Release);
        queue.size.store(cells, Release);
        queues.begin(queue, self.memory.globals[0].epoch.load(Acquire), start);
        queue.lock.store(lock, SeqCst);
        place.store(tag | u64::from(number), SeqCst);
        books.enter((namespace, name), number, left, cells);
        Ok(())
    }

    /// Takes a step of a lock's move.
    ///
    /// # Errors
    /// Why not; nothing has changed then.
    pub fn move_queue(&self, namespace: u16, name: u64, step: Step) -> Result<(), QueueError> {
        if let Step::Await { cells } = step {
            return self.place_queue(namespace, name, cells, Start::empty(0, Stage::Awaited));
        }
        let queues = &self.queues;
        let mut books = queues.books();
        let (place, queue) = queues.find(namespace, name).ok_or(QueueError::Missing)?;
        let number = place.load(Relaxed) as u32;
        let lock = take(&queue.lock);
        let done = match (stage_of(queue), step) {
            (Stage::Awaited, Step::Open { first, pushed, given }) if (1..=LAST_TICKET).contains(&first) => {
                let start = Start { given, settled: pushed, pushed, ..Start::here(first) };
                queues.begin(queue, queue.epoch.load(Acquire), start);
                true
            }
            (Stage::Here, Step::Drain) => set_stage(queue, Stage::Drains),
            (Stage::Drains, Step::Stay) => set_stage(queue, Stage::Here),
            (Stage::Drains, Step::Hand) => !self.is_used(queue) && set_stage(queue, Stage::Handed),
            (Stage::Handed, Step::Remove) => {
                remove(place, queue);
                true
            }
            _ => false,
        };
        queue.lock.store(lock, SeqCst);
        if !done {
            return Err(QueueError::Stage);
        }
        if step == Step::Remove {
            books.leave((namespace, name), number, queue.left.load(Relaxed));
        }
        Ok(())
    }

    /// Whether anybody holds or waits in a queue. What is left of a session that is over is over: the data plane takes
    /// it for that too. Under the queue's lock.
    fn is_used(&self, queue: &Queue) -> bool {
        let granted = queue.granted.load(Acquire);
        for (ticket, cell) in self.queues.alive(queue) {
            let who = cell.who.load(Acquire);
            let word = self.memory.nodes[usize::from(cell_who::holder(who))].word.load(SeqCst);
            let is_over = match NodeWord::unpack(word).state {
                NodeState::Live => false,
                NodeState::Dismissed => ticket >= granted,
                NodeState::Expired | NodeState::Vacant => true,
            };
            if is_over {
                cell.who.store(cell_who::with_over(who, 1), Release);
            }
        }
        self.queues.count_holders(queue);
        self.queues.alive(queue).next().is_some()
    }

    /// Everybody in a queue is over, whoever they are: the same.
    #[cfg(feature = "meanwhile")]
    pub fn empty_queue(&self, namespace: u16, name: u64) {
        let _books = self.queues.books();
        if let Some((_, queue)) = self.queues.find(namespace, name) {
            let lock = take(&queue.lock);
            for (_, cell) in self.queues.alive(queue) {
                cell.who.store(cell_who::with_over(cell.who.load(Acquire), 1), Release);
            }
            queue.lock.store(lock, SeqCst);
        }
    }

    /// The region of a queue counts as free from now on, while the queue has it: what the simulator's checkers must
    /// notice.
    #[cfg(feature = "meanwhile")]
    pub fn lose_region(&self, namespace: u16, name: u64) {
        let mut books = self.queues.books();
        if let Some((_, queue)) = self.queues.find(namespace, name) {
            books.regions.remove(&queue.left.load(Relaxed));
        }
    }

    /// The namespaces and names that have their queue here, in no order.
    pub fn queues(&self) -> Vec<(u16, u64)> {
        let books = self.queues.books();
        let queues = books.used.keys().map(|number| &self.queues.queues[*number as usize]);
        queues.map(|queue| (queue.namespace.load(Acquire) as u16, queue.name.load(Acquire))).collect()
    }

    /// Who holds and who waits in a lock's queue, in the order in which they came.
    pub fn queued(&self, namespace: u16, name: u64) -> Vec<Queued> {
        let _books = self.queues.books();
        let Some((_, queue)) = self.queues.find(namespace, name) else { return Vec::new() };
        let lock = take(&queue.lock);
        let granted = queue.granted.load(Acquire);
        let queued = |(ticket, cell): (u64, &Cell)| {
            let who = cell.who.load(Acquire);
            Queued {
                holder: cell_who::holder(who),
                request: RequestId(cell.request.load(Acquire)),
                ticket,
                exclusive: cell_who::exclusive(who) != 0,
                holds: ticket < granted,
            }
        };
        let all = self.queues.alive(queue).map(queued).collect();
        queue.lock.store(lock, SeqCst);
        all
    }

    /// A lock's queue as it is, if it has one here.
    pub fn queue(&self, namespace: u16, name: u64) -> Option<QueueState> {
        let books = self.queues.books();
        let (place, queue) = self.queues.find(namespace, name)?;
        let lock = take(&queue.lock);
        let holding = queue.holding.load(Acquire);
        let state = QueueState {
            epoch: queue.epoch.load(Acquire),
            size: queue.size.load(Acquire),
            head: queue.head.load(Acquire),
            granted: queue.granted.load(Acquire),
            tail: queue.tail.load(Acquire),
            holders: queue_holding::holders(holding),
            exclusive: queue_holding::exclusive(holding) != 0,
            given: queue.given.load(Acquire),
            settled: queue.settled.load(Acquire),
            pushed: queue.pushed.load(Acquire),
            stage: stage_of(queue),
            begun: books.used.get(&(place.load(Relaxed) as u32)).copied().unwrap_or(0),
        };
        queue.lock.store(lock, SeqCst);
        Some(state)
    }
}

#[cfg(all(test, feature = "xdp", feature = "race"))]
mod tests;
