//! The switch's memory as the controller sees it: words that it loads and compare-and-swaps while the data plane
//! decides on packets. The layouts are those of `docs/protocol.md`, "A slot"; `dataplane/fission.h` has them in C.

use crate::Time;
use crate::seal::Keys;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddrV4;
use wayside_wire::{NodeState, SlotState, limits, name_hash};

/// w0 of a slot, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotWord {
    /// Who decides.
    pub state: SlotState,
    /// The agency was handed over: a claim is not allowed.
    pub transferred: bool,
    /// Every hold of the slot is of the name in w1.
    pub tryable: bool,
    /// Handle of the agent's node; 0 when unheld.
    pub agent: u16,
    /// Shared grants by the switch in this tenure, 0 to 4,095.
    pub joins: u16,
    /// Changes of agency so far.
    pub tenure: u32,
}

impl SlotWord {
    /// An unheld slot of that tenure.
    pub const fn unheld(tenure: u32) -> Self {
        Self { state: SlotState::Unheld, transferred: false, tryable: false, agent: 0, joins: 0, tenure }
    }

    /// The word as the switch stores it: state 63..62, transferred 61, tryable 60, agent 59..44, joins 43..32,
    /// tenure 31..0.
    pub const fn pack(self) -> u64 {
        (self.state as u64) << 62
            | (self.transferred as u64) << 61
            | (self.tryable as u64) << 60
            | (self.agent as u64) << 44
            | ((self.joins & 0xfff) as u64) << 32
            | self.tenure as u64
    }

    /// The reverse of [`SlotWord::pack`].
    pub const fn unpack(word: u64) -> Self {
        Self {
            state: match word >> 62 {
                0 => SlotState::Unheld,
                1 => SlotState::Open,
                2 => SlotState::Managed,
                _ => SlotState::Frozen,
            },
            transferred: word >> 61 & 1 != 0,
            tryable: word >> 60 & 1 != 0,
            agent: (word >> 44) as u16,
            joins: (word >> 32) as u16 & 0xfff,
            tenure: word as u32,
        }
    }

    /// Whether a slot with this word is UNHELD, and not at its last tenure: nobody has anything to do with it.
    #[inline]
    pub const fn rests(word: u64) -> bool {
        word >> 62 == SlotState::Unheld as u64 && word as u32 != limits::MAX_TENURE
    }

    /// Whether some node is its agent: OPEN or MANAGED.
    pub const fn held(self) -> bool {
        matches!(self.state, SlotState::Open | SlotState::Managed)
    }
}

/// A node's word at the switch: state (top 8 bits) and heartbeat sequence (56 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeWord {
    /// Whether the session lives.
    pub state: NodeState,
    /// Highest heartbeat recorded.
    pub sequence: u64,
}

impl NodeWord {
    /// The word as the switch stores it.
    pub const fn pack(self) -> u64 {
        (self.state as u64) << 56 | (self.sequence & 0x00ff_ffff_ffff_ffff)
    }

    /// The reverse of [`NodeWord::pack`]; an unknown state counts as vacant.
    pub const fn unpack(word: u64) -> Self {
        Self {
            state: match word >> 56 {
                1 => NodeState::Live,
                2 => NodeState::Expired,
                3 => NodeState::Dismissed,
                _ => NodeState::Vacant,
            },
            sequence: word & 0x00ff_ffff_ffff_ffff,
        }
    }
}

/// What the switch must know of a node besides its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    /// The agent port.
    pub address: SocketAddrV4,
    /// The namespace of its session: it may touch no other.
    pub namespace: u16,
    /// Count of enrolments; with its low 24 bits every request id of the session begins.
    pub incarnation: u64,
}

/// A node's entry and word, as one switch hands them to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeMemory {
    /// What the switch knows of it.
    pub entry: NodeEntry,
    /// Whether it lives, and its latest heartbeat.
    pub word: NodeWord,
    /// Its oldest outstanding request id.
    pub oldest: u64,
    /// Under whose keys packets to it are signed.
    pub rotation: u32,
}

/// One of the parts that the names of a namespace are divided into: each has a lock server, and terms, of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// From 0.
    pub number: u16,
    /// How many there are: the same as long as the switch's memory lasts.
    pub of: u16,
}

impl Part {
    /// All names.
    pub const WHOLE: Part = Part { number: 0, of: 1 };
    /// There are no more: `WS_SERVERS`.
    pub const MOST: u16 = 14;

    /// That of a name, where there are so many: `ws_server_of`.
    pub const fn of_name(name: u64, of: u16) -> Part {
        let parts = if of == 0 { 1 } else { of };
        Part { number: (name_hash(name) % parts as u64) as u16, of: parts }
    }
}

/// Who has q2 of the queues of a part of a namespace, and that part's other locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockServer {
    /// Handle of the node; 0: there is none, or its handle has another session by now.
    pub handle: u16,
    /// How often the memory was told of one of this part: no two have granted under the same.
    pub term: u16,
}

/// Where a lock is that has a queue in the switch's memory: docs/queue.md, "Moves".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// In the switch.
    Here,
    /// The same, but no request gets a cell any more.
    Drains,
    /// At its lock server, which may not know yet.
    Handed,
    /// At its lock server, which is to cede it.
    Awaited,
}

/// A lock's queue in the switch's memory, for whoever moves locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Name id.
    pub name: u64,
    /// Its region's.
    pub cells: u32,
    /// Where the lock is.
    pub stage: Stage,
    /// The first ticket that is not used yet.
    pub ticket: u64,
    /// Cells that are used: by who holds or waits, or has left behind somebody who stays.
    pub used: u32,
    /// Requests that the lock server was given, and up to which of them it has nothing more.
    pub given: u64,
    /// As said at `given`.
    pub settled: u64,
    /// Requests that it has pushed back.
    pub pushed: u64,
    /// Requests with a priority that it was given, a count that begins with the queue and wraps.
    pub ranked: u32,
}

/// A lock's queue as one switch hands it to the next, with all who hold or wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueMemory {
    /// The queue. Its head is `used` below its `ticket`.
    pub line: Line,
    /// Tickets below this one hold, or are over.
    pub granted: u64,
    /// The cells from the head on: request, and who it is of (`cell_who`).
    pub members: Vec<[u64; 2]>,
}

/// A namespace's queues, and whose the rest of its locks are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuesMemory {
    /// Of each part; none, where no node has been a lock server.
    pub servers: Vec<LockServer>,
    /// By name.
    pub queues: Vec<QueueMemory>,
}

/// A step of a lock's move. Each is one store under the queue's lock: before it or after it, nothing in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// From nowhere to [`Stage::Awaited`], with a region of so many cells.
    Await {
        /// Cells of the region.
        cells: u32,
    },
    /// From there to [`Stage::Here`], empty.
    Open {
        /// Above all tickets that the name has had in this epoch.
        first: u64,
        /// The latest number of a push.
        pushed: u64,
        /// Orders above `pushed` up to this one are of requests that its lock server has.
        given: u64,
    },
    /// To [`Stage::Drains`].
    Drain,
    /// And back.
    Stay,
    /// From [`Stage::Drains`] to [`Stage::Handed`], if nobody holds or waits in the queue.
    Hand,
    /// From there to nowhere: the region is free.
    Remove,
}

/// One instant, by both of the clocks that the data plane's homes read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// By the clock of who told it.
    pub time: Time,
    /// By the kernel's count of ticks, for the core at its hook; 0 where there is none.
    pub tick: u64,
}

/// Shared with the data plane, which changes slots and node words at any time: every change is a compare-and-swap.
pub trait SwitchMemory {
    /// The boot epoch; 0 as long as the memory is empty, before [`SwitchMemory::set_epoch`].
    fn epoch(&self) -> u32;
    /// Takes a new epoch: packets of another one are answered STALE.
    fn set_epoch(&self, epoch: u32);
    /// No epoch has been set since the memory was made, of zeros: every slot is UNHELD at tenure 0. A standby's,
    /// mostly.
    fn is_new(&self) -> bool {
        false
    }
    /// Returns once every decision that had begun before has ended. One that looked at the epoch before the next was
    /// set would take a slot of the next for its own: they begin with the same tenures.
    fn await_decisions(&self) {}
    /// Whether slots are decided on; otherwise the answer is RECOVERING.
    fn serving(&self) -> bool;
    /// Starts or stops decisions on slots.
    fn set_serving(&self, serving: bool);
    /// Now, for [`SwitchMemory::serve_for`].
    fn moment(&self, now: Time) -> Moment;
    /// From `lease` microseconds after `since` on nothing is granted and no heartbeat acknowledged: another switch may
    /// serve. 0: at once.
    fn serve_for(&self, since: Moment, lease: u64);
    /// No other switch ever serves in this one's place.
    fn serve_without_end(&self);
    /// How many slots a namespace has; 0 if the switch does not know it.
    fn slot_count(&self, namespace: u16) -> u32;
    /// w0 of a slot.
    fn load_slot(&self, namespace: u16, slot: u32) -> SlotWord;
    /// The first of these slots that does not [rest](SlotWord::rests); `end`, if all do. Who looks at millions of slots
    /// finds most of them at rest.
    fn next_busy(&self, namespace: u16, from: u32, end: u32) -> u32 {
        let is_busy = |&slot: &u32| !SlotWord::rests(self.load_slot(namespace, slot).pack());
        (from..end).find(is_busy).unwrap_or(end)
    }
    /// w0 := `new` if it is `expected`; whether it was.
    fn cas_slot(&self, namespace: u16, slot: u32, expected: SlotWord, new: SlotWord) -> bool;
    /// Both words of the slots from this one on. They go together once nothing decides on them any more.
    fn read_slots(&self, namespace: u16, from: u32, into: &mut [[u64; 2]]);
    /// Writes both words of the slots from this one on, of a switch that decides on nothing.
    fn write_slots(&self, namespace: u16, from: u32, words: &[[u64; 2]]);
    /// Handles go from 1 to this.
    fn max_handle(&self) -> u16;
    /// A node's word.
    fn node_word(&self, handle: u16) -> NodeWord;
    /// The word := `new` if it is `expected`; whether it was.
    fn cas_node_word(&self, handle: u16, expected: NodeWord, new: NodeWord) -> bool;
    /// Installs a session under a handle that is not LIVE: entry first, then the word (LIVE, sequence 0). `oldest`
    /// becomes the first request id of the incarnation.
    fn set_node(&self, handle: u16, entry: &NodeEntry);
    /// What it knows of a node; `None`: the handle is vacant.
    fn node(&self, handle: u16) -> Option<NodeMemory>;
    /// Goes on with a node where another switch was with it; its keys come by [`SwitchMemory::take_up_keys`].
    fn take_up_node(&self, handle: u16, node: &NodeMemory);
    /// The lock server of a part of a namespace.
    fn lock_server(&self, namespace: u16, part: u16) -> LockServer;
    /// Makes a node the lock server of a part of a namespace, in the part's next term. From here on nothing that
    /// another node says of it is believed.
    fn set_lock_server(&self, namespace: u16, part: Part, handle: u16);
    /// A namespace's locks that have a queue, by name, into a list that is used again and again.
    fn read_lines(&self, namespace: u16, into: &mut Vec<Line>);
    /// The same.
    fn lines(&self, namespace: u16) -> Vec<Line> {
        let mut lines = Vec::new();
        self.read_lines(namespace, &mut lines);
        lines
    }
    /// One of them.
    fn line(&self, namespace: u16, name: u64) -> Option<Line>;
    /// Takes a step of a lock's move. False: it is not at the stage from which this step goes, or there is no room.
    fn step(&self, namespace: u16, name: u64, step: Step) -> bool;
    /// Which namespaces have queues, and how they are configured, leases of lock servers included: a fingerprint; 0:
    /// none. Of another one's memory it is not known who holds what.
    fn queue_shape(&self) -> u64;
    /// How many queues there is memory for, and how many cells.
    fn queue_room(&self) -> [u32; 2];
    /// All of a namespace's queues, and who its lock servers are. They go together once nothing decides on them any
    /// more.
    fn queues_memory(&self, namespace: u16) -> QueuesMemory;
    /// Goes on with these queues of its namespaces, and no others, in the epoch of the memory, of a switch that decides
    /// on nothing. False: there is no room for them, or they are none.
    fn take_up_queues(&self, all: &BTreeMap<u16, QueuesMemory>) -> bool;
    /// The handle's session of this incarnation, and all before it, are over, their leases too; `None`: that of its
    /// entry. Its word is not LIVE any more.
    fn session_over(&self, handle: u16, incarnation: Option<u64>);
    /// Whether packets are signed: then none is decided on, and none sent, without the right tag.
    fn authenticated(&self) -> bool;
    /// Begins or ceases to sign packets. To be said before the first one is decided on.
    fn set_authenticated(&self, authenticated: bool);
    /// Gives a handle the keys of a new session or epoch: those of rotation 0, and no others. `None`: none at all.
    fn set_keys(&self, handle: u16, first: Option<&Keys>);
    /// The rotation under whose keys packets to this handle are signed.
    fn rotation(&self, handle: u16) -> u32;
    /// Whether the node has sent a heartbeat under that rotation's keys.
    fn has_followed(&self, handle: u16) -> bool;
    /// Goes on to the next rotation: puts its keys in the place of the former one's, then signs with them.
    fn rotate(&self, handle: u16, next: &Keys);
    /// Goes on where another switch was with a handle's keys: at this rotation, with the former one's beside it.
    fn take_up_keys(&self, handle: u16, rotation: u32, latest: &Keys, former: Option<&Keys>);
}

/// Shared between threads: the data plane's and the controller's.
impl<M: SwitchMemory> SwitchMemory for Arc<M> {
    fn epoch(&self) -> u32 {
        (**self).epoch()
    }

    fn set_epoch(&self, epoch: u32) {
        (**self).set_epoch(epoch);
    }

    fn is_new(&self) -> bool {
        (**self).is_new()
    }
    fn await_decisions(&self) {
        (**self).await_decisions();
    }

    fn serving(&self) -> bool {
        (**self).serving()
    }

    fn set_serving(&self, serving: bool) {
        (**self).set_serving(serving);
    }

    fn moment(&self, now: Time) -> Moment {
        (**self).moment(now)
    }

    fn serve_for(&self, since: Moment, lease: u64) {
        (**self).serve_for(since, lease);
    }

    fn serve_without_end(&self) {
        (**self).serve_without_end();
    }

    fn slot_count(&self, namespace: u16) -> u32 {
        (**self).slot_count(namespace)
    }

    fn load_slot(&self, namespace: u16, slot: u32) -> SlotWord {
        (**self).load_slot(namespace, slot)
    }

    fn next_busy(&self, namespace: u16, from: u32, end: u32) -> u32 {
        (**self).next_busy(namespace, from, end)
    }

    fn cas_slot(&self, namespace: u16, slot: u32, expected: SlotWord, new: SlotWord) -> bool {
        (**self).cas_slot(namespace, slot, expected, new)
    }

    fn read_slots(&self, namespace: u16, from: u32, into: &mut [[u64; 2]]) {
        (**self).read_slots(namespace, from, into);
    }

    fn write_slots(&self, namespace: u16, from: u32, words: &[[u64; 2]]) {
        (**self).write_slots(namespace, from, words);
    }

    fn max_handle(&self) -> u16 {
        (**self).max_handle()
    }

    fn node_word(&self, handle: u16) -> NodeWord {
        (**self).node_word(handle)
    }

    fn cas_node_word(&self, handle: u16, expected: NodeWord, new: NodeWord) -> bool {
        (**self).cas_node_word(handle, expected, new)
    }

    fn set_node(&self, handle: u16, entry: &NodeEntry) {
        (**self).set_node(handle, entry);
    }

    fn node(&self, handle: u16) -> Option<NodeMemory> {
        (**self).node(handle)
    }

    fn take_up_node(&self, handle: u16, node: &NodeMemory) {
        (**self).take_up_node(handle, node);
    }

    fn lock_server(&self, namespace: u16, part: u16) -> LockServer {
        (**self).lock_server(namespace, part)
    }

    fn set_lock_server(&self, namespace: u16, part: Part, handle: u16) {
        (**self).set_lock_server(namespace, part, handle);
    }

    fn read_lines(&self, namespace: u16, into: &mut Vec<Line>) {
        (**self).read_lines(namespace, into);
    }

    fn lines(&self, namespace: u16) -> Vec<Line> {
        (**self).lines(namespace)
    }

    fn line(&self, namespace: u16, name: u64) -> Option<Line> {
        (**self).line(namespace, name)
    }

    fn step(&self, namespace: u16, name: u64, step: Step) -> bool {
        (**self).step(namespace, name, step)
    }

    fn queue_shape(&self) -> u64 {
        (**self).queue_shape()
    }

    fn queue_room(&self) -> [u32; 2] {
        (**self).queue_room()
    }

    fn queues_memory(&self, namespace: u16) -> QueuesMemory {
        (**self).queues_memory(namespace)
    }

    fn take_up_queues(&self, all: &BTreeMap<u16, QueuesMemory>) -> bool {
        (**self).take_up_queues(all)
    }

    fn session_over(&self, handle: u16, incarnation: Option<u64>) {
        (**self).session_over(handle, incarnation);
    }

    fn authenticated(&self) -> bool {
        (**self).authenticated()
    }

    fn set_authenticated(&self, authenticated: bool) {
        (**self).set_authenticated(authenticated);
    }

    fn set_keys(&self, handle: u16, first: Option<&Keys>) {
        (**self).set_keys(handle, first);
    }

    fn rotation(&self, handle: u16) -> u32 {
        (**self).rotation(handle)
    }

    fn has_followed(&self, handle: u16) -> bool {
        (**self).has_followed(handle)
    }

    fn rotate(&self, handle: u16, next: &Keys) {
        (**self).rotate(handle, next);
    }

    fn take_up_keys(&self, handle: u16, rotation: u32, latest: &Keys, former: Option<&Keys>) {
        (**self).take_up_keys(handle, rotation, latest, former);
    }
}

#[cfg(test)]
mod tests;
