//! A hand-over: a switch that ends gives its memory to its successor, which goes on under the same epoch and asks
//! nobody what it holds. Whoever carries the messages may lose them; then there is none.
//!
//! ```text
//!   who ends                                        its successor, a standby
//!   opening, slots as they are ──────────────────►  written beside: it decides on nothing
//!   lease ended, nothing decides any more
//!   slots that have changed since ────────────────►  the same
//!   queues, with all who hold or wait in them ────►  kept until it serves
//!   memory invalidated
//!   closing: nodes, epoch, revision of the post ──►  all of it has come: takes the post if that is still its revision
//! ```
//!
//! Invariants
//! * What goes last was read when nothing could change it any more: the lease of the switch was over, and whoever had
//!   looked at it before had ended (`Seat::stop`, and then the caller's word for it).
//! * A memory has an epoch only where it may be decided on: the one that goes has none before its closing leaves, the
//!   one that comes none before the post is its switch's. So never two switches, nor one that is started on memory that
//!   it has handed over, go on from the same.
//! * Every slot goes that was ever changed: the tenure of one that is UNHELD is what the next token is above.
//! * Each message says which hand-over it is of, and the how many-th of its messages it is: slots of one that came to
//!   nothing, or an earlier state of a slot, never stand in for a message that is missing.
//! * Queues are written when the memory has its epoch, since that empties them, and before it is decided on.
//! * A memory that was emptied since slots were written into it is not gone on with: it has another word than the
//!   [`Mark`], or the next message is refused for that.

use super::store::Fields;
use super::{Config, Namespace};
use crate::memory::{
    Line, LockServer, NodeEntry, NodeMemory, NodeWord, QueueMemory, QueuesMemory, SlotWord, Stage, SwitchMemory,
};
use crate::{Handle, Time};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::net::{Ipv4Addr, SocketAddrV4};
use wayside_wire::{Engine, SlotState};

/// What is said below, in this layout. A switch that knows another is no successor.
pub const LAYOUT: u8 = 4;

/// Kinds of messages.
const OPENING: u8 = 1;
const SLOTS: u8 = 2;
const CLOSING: u8 = 3;
const QUEUES: u8 = 4;

/// Slots that are compared at a time: of these, the range that has changed goes.
const BLOCK: usize = 512;
/// A message is sent when it has so many bytes. The longest has a block more.
const FULL: usize = 64 << 10;
/// No message is longer: 65,535 nodes in a closing.
pub const LONGEST: usize = 4 << 20;
const NODE_BYTES: usize = 38;
/// What every message begins with: its kind, and which one it is.
pub const HEAD_BYTES: usize = 25;
/// Of a queue, before who holds or waits in it.
const QUEUE_BYTES: usize = 59;
const MEMBER_BYTES: usize = 16;
/// Of a closing, before its nodes.
const CLOSING_BYTES: usize = 16;

/// Why a switch is not, or no more, the successor of one that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It serves, or begins to, or stands by for nobody.
    Serves,
    /// Its namespaces have other slots, another engine or other queues, or its packets are signed and the other's are
    /// not.
    Unlike,
    /// Not all that was sent has come, or in another order.
    Torn,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unfit::Serves => "it does not stand by",
            Unfit::Unlike => "its namespaces, or their queues, are others, or what it signs",
            Unfit::Torn => "not all has come",
        })
    }
}

/// A switch that ends hands nothing over: it does not serve, or is still recovering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotServing;

impl fmt::Display for NotServing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it does not serve")
    }
}

/// What a memory is like, and who decides by it; both ends must agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// By their ids.
    pub namespaces: Vec<NamespaceShape>,
    /// Whether packets are signed.
    pub signed: bool,
    /// As the memory has it.
    pub queue_shape: u64,
}

/// A namespace's part of a [`Shape`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceShape {
    /// Of the namespace.
    pub id: u16,
    /// How many it has.
    pub slots: u32,
    /// Slots that are held by one engine are nothing to another one, which would grant the same names from its queues:
    /// a census tells nodes of the change, and who goes on without one does not (S1).
    pub engine: Engine,
    /// Into how many parts the names of queues are divided.
    pub parts: u16,
}

impl Shape {
    /// Of a memory that is configured so.
    pub fn new<M: SwitchMemory>(memory: &M, config: &Config) -> Shape {
        let shape = |&Namespace { id, engine, servers: parts, .. }: &Namespace| NamespaceShape {
            id,
            slots: memory.slot_count(id),
            engine,
            parts,
        };
        let mut namespaces: Vec<NamespaceShape> = config.namespaces.iter().map(shape).collect();
        // One that was added while the switch ran is anywhere in another one's file.
        namespaces.sort_unstable_by_key(|namespace| namespace.id);
        Shape { namespaces, signed: config.root.is_some(), queue_shape: memory.queue_shape() }
    }
}

impl Shape {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![LAYOUT, self.signed.into()];
        bytes.extend(self.queue_shape.to_be_bytes());
        for namespace in &self.namespaces {
            bytes.extend(namespace.id.to_be_bytes());
            bytes.extend(namespace.slots.to_be_bytes());
            bytes.push(namespace.engine as u8);
            bytes.extend(namespace.parts.to_be_bytes());
        }
        bytes
    }

    /// Into how many parts a namespace is divided whose locks may have queues.
    fn parts_of(&self, namespace: u16) -> Option<u16> {
        let its = |known: &&NamespaceShape| known.id == namespace && known.engine.has_queues();
        self.namespaces.iter().find(its).map(|known| known.parts)
    }
}

/// What a message begins with, after its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    /// The hand-over: the post's revision and the time when it was prepared. One switch has the post at a revision.
    revision: u64,
    begun: Time,
    /// Of the message, from 0.
    number: u64,
}

impl Head {
    fn message(self, kind: u8) -> Vec<u8> {
        let mut bytes = vec![kind];
        bytes.extend([self.revision, self.begun.0, self.number].into_iter().flat_map(u64::to_be_bytes));
        bytes
    }

    /// The message that follows.
    fn next(self) -> Head {
        Head { number: self.number + 1, ..self }
    }

    /// Kind and head of a message, and what follows them.
    fn read(message: &[u8]) -> Option<(u8, Head, &[u8])> {
        let (head, rest) = message.split_at_checked(HEAD_BYTES)?;
        let mut fields = Fields::rest(&head[1..]);
        let mut number = || u64::from_be_bytes(fields.take());
        Some((head[0], Head { revision: number(), begun: Time(number()), number: number() }, rest))
    }
}

/// The end that gives: what has gone so far.
pub struct Copying {
    shape: Shape,
    /// Of each namespace, the slots as they were sent last; what is not, is zeros.
    sent: Vec<Vec<[u64; 2]>>,
    /// Of the next message.
    head: Head,
    /// A rule to break: slots that nobody holds stay behind.
    pub(super) held_alone: bool,
}

impl Copying {
    /// Whether the memory is still like what was told.
    pub(super) fn is_of(&self, shape: &Shape) -> bool {
        self.shape == *shape
    }

    /// Nothing has gone. `revision`: of the post now.
    pub(super) fn new(shape: Shape, revision: u64, now: Time) -> Copying {
        let sent = shape.namespaces.iter().map(|namespace| vec![[0; 2]; namespace.slots as usize]).collect();
        Copying { shape, sent, head: Head { revision, begun: now, number: 1 }, held_alone: false }
    }

    /// The first message.
    pub fn opening(&self) -> Vec<u8> {
        let mut message = Head { number: 0, ..self.head }.message(OPENING);
        message.extend(self.shape.encode());
        message
    }

    /// Sends what has changed since the last time; of what changes meanwhile, either.
    pub fn send<M: SwitchMemory>(&mut self, memory: &M, mut out: impl FnMut(Vec<u8>)) {
        let mut message = self.head.message(SLOTS);
        let mut block = [[0; 2]; BLOCK];
        for (&NamespaceShape { id, slots, .. }, sent) in self.shape.namespaces.iter().zip(&mut self.sent) {
            for (from, sent) in (0..slots).step_by(BLOCK).zip(sent.chunks_mut(BLOCK)) {
                let now = &mut block[..sent.len()];
                memory.read_slots(id, from, now);
                if self.held_alone {
                    let unheld = |words: &&mut [u64; 2]| SlotWord::unpack(words[0]).state == SlotState::Unheld;
                    now.iter_mut().filter(unheld).for_each(|words| *words = [0; 2]);
                }
                if *now == *sent {
                    continue;
                }
                let differs = |index: &usize| now[*index] != sent[*index];
                let first = (0..now.len()).find(differs).unwrap_or(0);
                let end = (0..now.len()).rfind(differs).map_or(0, |last| last + 1);
                message.extend(id.to_be_bytes());
                message.extend((from + first as u32).to_be_bytes());
                message.extend(((end - first) as u16).to_be_bytes());
                now[first..end].iter().flatten().for_each(|word| message.extend(word.to_be_bytes()));
                sent[first..end].copy_from_slice(&now[first..end]);
                if message.len() >= FULL {
                    self.head = self.head.next();
                    out(core::mem::replace(&mut message, self.head.message(SLOTS)));
                }
            }
        }
        if message.len() > HEAD_BYTES {
            self.head = self.head.next();
            out(message);
        }
    }

    /// Sends all queues: they are few, and change with every request. Of a memory that nothing changes any more.
    pub(super) fn send_queues<M: SwitchMemory>(&mut self, memory: &M, mut out: impl FnMut(Vec<u8>)) {
        for namespace in self.shape.namespaces.iter().filter(|namespace| namespace.engine.has_queues()) {
            let QueuesMemory { servers, queues } = memory.queues_memory(namespace.id);
            let mut queues = queues.iter().peekable();
            loop {
                let mut message = self.head.message(QUEUES);
                self.head = self.head.next();
                message.extend(namespace.id.to_be_bytes());
                message.extend((servers.len() as u16).to_be_bytes());
                for LockServer { handle, term } in &servers {
                    message.extend([*handle, *term].into_iter().flat_map(u16::to_be_bytes));
                }
                while let Some(queue) = queues.next_if(|_| message.len() < FULL) {
                    encode_queue(queue, &mut message);
                }
                out(message);
                if queues.peek().is_none() {
                    break;
                }
            }
        }
    }

    /// The last message.
    pub(super) fn closing(&self, epoch: u32, revision: u64, nodes: Vec<(Handle, NodeMemory)>) -> Vec<u8> {
        let mut message = self.head.message(CLOSING);
        Handed { epoch, revision, nodes, queues: BTreeMap::new(), mark: None }.encode(&mut message);
        message
    }
}

/// What a successor goes on with besides the slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    /// Of the memory.
    pub epoch: u32,
    /// The post's, as whoever ends has left it.
    pub revision: u64,
    /// All that the switch knows.
    pub nodes: Vec<(Handle, NodeMemory)>,
    /// Of each namespace that has some; they have come before the closing.
    pub(super) queues: BTreeMap<u16, QueuesMemory>,
    /// Of the slots; not sent.
    mark: Option<Mark>,
}

impl Handed {
    /// Whether the slots that came are still there.
    pub(super) fn is_kept<M: SwitchMemory>(&self, memory: &M) -> bool {
        self.mark.is_none_or(|mark| mark.is_kept(memory))
    }

    /// Writes it behind the head of a closing.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.reserve_exact(CLOSING_BYTES + NODE_BYTES * self.nodes.len());
        bytes.extend(self.epoch.to_be_bytes());
        bytes.extend(self.revision.to_be_bytes());
        bytes.extend((self.nodes.len() as u32).to_be_bytes());
        for (handle, node) in &self.nodes {
            bytes.extend(handle.to_be_bytes());
            bytes.extend(node.word.pack().to_be_bytes());
            bytes.extend(node.oldest.to_be_bytes());
            bytes.extend(node.rotation.to_be_bytes());
            bytes.extend(node.entry.incarnation.to_be_bytes());
            bytes.extend(node.entry.address.ip().octets());
            bytes.extend(node.entry.address.port().to_be_bytes());
            bytes.extend(node.entry.namespace.to_be_bytes());
        }
    }

    /// The reverse of [`Handed::encode`].
    pub fn decode(bytes: &[u8]) -> Option<Handed> {
        if bytes.len() < CLOSING_BYTES {
            return None;
        }
        let mut fields = Fields::rest(bytes);
        let epoch = u32::from_be_bytes(fields.take());
        let revision = u64::from_be_bytes(fields.take());
        let count = u32::from_be_bytes(fields.take()) as usize;
        if bytes.len() - CLOSING_BYTES != count.checked_mul(NODE_BYTES)? {
            return None;
        }
        let mut node = || {
            let handle = u16::from_be_bytes(fields.take());
            let word = NodeWord::unpack(u64::from_be_bytes(fields.take()));
            let oldest = u64::from_be_bytes(fields.take());
            let rotation = u32::from_be_bytes(fields.take());
            let incarnation = u64::from_be_bytes(fields.take());
            let address = SocketAddrV4::new(Ipv4Addr::from(fields.take::<4>()), u16::from_be_bytes(fields.take()));
            let entry = NodeEntry { address, namespace: u16::from_be_bytes(fields.take()), incarnation };
            (handle, NodeMemory { entry, word, oldest, rotation })
        };
        let nodes = (0..count).map(|_| node()).collect();
        Some(Handed { epoch, revision, nodes, queues: BTreeMap::new(), mark: None })
    }
}

/// A slot as it was written last, and not with zeros. Where it is otherwise, the memory has been emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    namespace: u16,
    slot: u32,
    words: [u64; 2],
}

impl Mark {
    fn is_kept<M: SwitchMemory>(&self, memory: &M) -> bool {
        let mut now = [[0; 2]];
        memory.read_slots(self.namespace, self.slot, &mut now);
        now[0] == self.words
    }
}

/// The end that takes: all that has come is of one hand-over, in its order.
pub(super) struct Reception {
    /// Of the message that is next.
    next: Head,
    mark: Option<Mark>,
    queues: BTreeMap<u16, QueuesMemory>,
}

/// What came of a message.
pub(super) enum Came {
    /// All so far, and more is to come.
    More(Reception),
    /// The last: all is there.
    All(Handed),
}

impl Reception {
    /// Takes a message. `torn`: a rule to break, whatever is missing.
    pub fn take<M: SwitchMemory>(
        reception: Option<Reception>,
        memory: &M,
        shape: &Shape,
        message: &[u8],
        torn: bool,
    ) -> Result<Came, Unfit> {
        let (kind, head, rest) = Head::read(message).ok_or(Unfit::Torn)?;
        if kind == OPENING {
            if head.number != 0 {
                return Err(Unfit::Torn);
            }
            if rest != shape.encode() {
                return Err(Unfit::Unlike);
            }
            clear(memory, shape);
            return Ok(Came::More(Reception { next: head.next(), mark: None, queues: BTreeMap::new() }));
        }
        let Reception { next, mut mark, mut queues } = reception.ok_or(Unfit::Torn)?;
        let is_kept = mark.is_none_or(|mark| mark.is_kept(memory));
        if !(next == head && is_kept || torn) {
            return Err(Unfit::Torn);
        }
        match kind {
            SLOTS => {
                write(memory, shape, rest, &mut mark).ok_or(Unfit::Torn)?;
                Ok(Came::More(Reception { next: head.next(), mark, queues }))
            }
            QUEUES => {
                take_queues(memory.queue_room(), shape, rest, &mut queues).ok_or(Unfit::Torn)?;
                Ok(Came::More(Reception { next: head.next(), mark, queues }))
            }
            CLOSING => Ok(Came::All(Handed { mark, queues, ..Handed::decode(rest).ok_or(Unfit::Torn)? })),
            _ => Err(Unfit::Torn),
        }
    }
}

/// Slots of an earlier life, or of a hand-over that came to nothing: where zeros are, nothing is sent.
fn clear<M: SwitchMemory>(memory: &M, shape: &Shape) {
    if memory.is_new() {
        return;
    }
    let mut block = [[0; 2]; BLOCK];
    for &NamespaceShape { id, slots, .. } in &shape.namespaces {
        for from in (0..slots).step_by(BLOCK) {
            let now = &mut block[..BLOCK.min((slots - from) as usize)];
            memory.read_slots(id, from, now);
            if now.iter().any(|words| *words != [0; 2]) {
                now.fill([0; 2]);
                memory.write_slots(id, from, now);
            }
        }
    }
}

fn write<M: SwitchMemory>(memory: &M, shape: &Shape, mut runs: &[u8], mark: &mut Option<Mark>) -> Option<()> {
    let mut words = [[0; 2]; BLOCK];
    while !runs.is_empty() {
        let (head, rest) = runs.split_first_chunk::<8>()?;
        let mut fields = Fields::rest(head);
        let namespace = u16::from_be_bytes(fields.take());
        let from = u32::from_be_bytes(fields.take());
        let count = usize::from(u16::from_be_bytes(fields.take()));
        let slots = shape.namespaces.iter().find(|known| known.id == namespace)?.slots;
        let fits = (1..=BLOCK).contains(&count) && u64::from(from) + count as u64 <= u64::from(slots);
        let (run, rest) = rest.split_at_checked(16 * count).filter(|_| fits)?;
        for (words, bytes) in words.iter_mut().zip(run.chunks_exact(16)) {
            let mut fields = Fields::rest(bytes);
            *words = [u64::from_be_bytes(fields.take()), u64::from_be_bytes(fields.take())];
        }
        memory.write_slots(namespace, from, &words[..count]);
        // A run begins with a slot that has changed, and none changes to zeros.
        *mark = Some(Mark { namespace, slot: from, words: words[0] });
        runs = rest;
    }
    Some(())
}

fn encode_queue(queue: &QueueMemory, bytes: &mut Vec<u8>) {
    let QueueMemory { line, granted, members } = queue;
    bytes.extend([line.name, line.ticket, *granted].into_iter().flat_map(u64::to_be_bytes));
    bytes.extend([line.given, line.settled, line.pushed].into_iter().flat_map(u64::to_be_bytes));
    bytes.extend([line.cells, line.ranked].into_iter().flat_map(u32::to_be_bytes));
    bytes.push(line.stage as u8);
    bytes.extend((line.used as u16).to_be_bytes());
    members.iter().flatten().for_each(|word| bytes.extend(word.to_be_bytes()));
}

/// The reverse, and what follows it.
fn decode_queue(bytes: &[u8]) -> Option<(QueueMemory, &[u8])> {
    let (head, rest) = bytes.split_at_checked(QUEUE_BYTES)?;
    let mut fields = Fields::rest(head);
    let [name, ticket, granted, given, settled, pushed] = [(); 6].map(|()| u64::from_be_bytes(fields.take()));
    let [cells, ranked] = [(); 2].map(|()| u32::from_be_bytes(fields.take()));
    let [stage] = fields.take();
    let stages = [Stage::Here, Stage::Drains, Stage::Handed, Stage::Awaited];
    let stage = stages.into_iter().find(|known| *known as u8 == stage)?;
    let used = u16::from_be_bytes(fields.take());
    let (members, rest) = rest.split_at_checked(MEMBER_BYTES * usize::from(used))?;
    let word = |bytes: &[u8; 8]| u64::from_be_bytes(*bytes);
    let (words, _) = members.as_chunks::<8>();
    let members = words.chunks_exact(2).map(|pair| [word(&pair[0]), word(&pair[1])]).collect();
    let line = Line { name, cells, stage, ticket, used: used.into(), given, settled, pushed, ranked };
    Some((QueueMemory { line, granted, members }, rest))
}

/// Queues of one namespace: by name, behind those that have come. No more than there is room for.
fn take_queues(
    [most, cells]: [u32; 2],
    shape: &Shape,
    bytes: &[u8],
    queues: &mut BTreeMap<u16, QueuesMemory>,
) -> Option<()> {
    let (head, mut rest) = bytes.split_first_chunk::<4>()?;
    let mut fields = Fields::rest(head);
    let [namespace, parts] = [(); 2].map(|()| u16::from_be_bytes(fields.take()));
    // None, as long as there was no lock server.
    if shape.parts_of(namespace).is_none_or(|all| ![0, all].contains(&parts)) {
        return None;
    }
    let goes_on = queues.contains_key(&namespace);
    let known = queues.entry(namespace).or_default();
    known.servers.clear();
    for _ in 0..parts {
        let (server, others) = rest.split_first_chunk::<4>()?;
        let mut fields = Fields::rest(server);
        let [handle, term] = [(); 2].map(|()| u16::from_be_bytes(fields.take()));
        known.servers.push(LockServer { handle, term });
        rest = others;
    }
    if goes_on && rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (queue, others) = decode_queue(rest)?;
        if known.queues.last().is_some_and(|last| last.line.name >= queue.line.name) {
            return None;
        }
        known.queues.push(queue);
        rest = others;
    }
    let all = || queues.values().flat_map(|known| &known.queues);
    let fits = all().count() as u64 <= most.into()
        && all().all(|queue| queue.line.used <= queue.line.cells)
        && all().map(|queue| u64::from(queue.line.cells)).sum::<u64>() <= cells.into();
    fits.then_some(())
}

#[cfg(test)]
mod tests;
