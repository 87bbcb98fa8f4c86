//! A hand-over: a switch that ends gives its memory to its successor, which goes on under the same epoch and asks
//! nobody what it holds. Whoever carries the messages may lose them; then there is none.
//!
//! ```text
//!   who ends                                        its successor, a standby
//!   opening, slots as they are ──────────────────►  written beside: it decides on nothing
//!   lease ended, nothing decides any more
//!   slots that have changed since ────────────────►  the same
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
//! * A memory that was emptied since slots were written into it is not gone on with: it has another word than the
//!   [`Mark`], or the next message is refused for that.

use super::store::Fields;
use crate::memory::{NodeEntry, NodeMemory, NodeWord, SlotWord, SwitchMemory};
use crate::{Handle, Time};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::net::{Ipv4Addr, SocketAddrV4};
use wayside_wire::{Engine, SlotState};

/// What is said below, in this layout. A switch that knows another is no successor.
pub const LAYOUT: u8 = 3;

/// Kinds of messages.
const OPENING: u8 = 1;
const SLOTS: u8 = 2;
const CLOSING: u8 = 3;

/// Slots that are compared at a time: of these, the range that has changed goes.
const BLOCK: usize = 512;
/// A message is sent when it has so many bytes. The longest has a block more.
const FULL: usize = 64 << 10;
/// No message is longer: 65,535 nodes in a closing.
pub const LONGEST: usize = 4 << 20;
const NODE_BYTES: usize = 38;
/// What every message begins with: its kind, and which one it is.
pub const HEAD_BYTES: usize = 25;
/// Of a closing, before its nodes.
const CLOSING_BYTES: usize = 16;

/// Why a switch is not, or no more, the successor of one that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It serves, or begins to, or stands by for nobody.
    Serves,
    /// Its namespaces have other slots or another engine, or its packets are signed and the other's are not.
    Unlike,
    /// Not all that was sent has come, or in another order.
    Torn,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unfit::Serves => "it does not stand by",
            Unfit::Unlike => "its namespaces are others, or what it signs",
            Unfit::Torn => "not all has come",
        })
    }
}

/// Why a switch that ends hands nothing over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It does not serve, or is still recovering.
    NotServing,
    /// Locks have their queues in its memory, which nobody else goes on with.
    Queues,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Obstacle::NotServing => "it does not serve",
            Obstacle::Queues => "locks have their queues in its memory",
        })
    }
}

/// What a memory is like, and who decides by it; both ends must agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// By their ids.
    pub namespaces: Vec<NamespaceShape>,
    /// Whether packets are signed.
    pub signed: bool,
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
}

impl Shape {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![LAYOUT, self.signed.into()];
        for namespace in &self.namespaces {
            bytes.extend(namespace.id.to_be_bytes());
            bytes.extend(namespace.slots.to_be_bytes());
            bytes.push(namespace.engine as u8);
        }
        bytes
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

    /// The last message.
    pub(super) fn closing(&self, epoch: u32, revision: u64, nodes: Vec<(Handle, NodeMemory)>) -> Vec<u8> {
        let mut message = self.head.message(CLOSING);
        Handed { epoch, revision, nodes, mark: None }.encode(&mut message);
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
        Some(Handed { epoch, revision, nodes, mark: None })
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
            return Ok(Came::More(Reception { next: head.next(), mark: None }));
        }
        let Reception { next, mut mark } = reception.ok_or(Unfit::Torn)?;
        let is_kept = mark.is_none_or(|mark| mark.is_kept(memory));
        if !(next == head && is_kept || torn) {
            return Err(Unfit::Torn);
        }
        match kind {
            SLOTS => {
                write(memory, shape, rest, &mut mark).ok_or(Unfit::Torn)?;
                Ok(Came::More(Reception { next: head.next(), mark }))
            }
            CLOSING => Ok(Came::All(Handed { mark, ..Handed::decode(rest).ok_or(Unfit::Torn)? })),
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

#[cfg(test)]
mod tests {
    use super::super::tests::Memory;
    use super::*;
    use alloc::rc::Rc;

    fn shape() -> Shape {
        of_engine(Engine::Fission)
    }

    fn of_engine(engine: Engine) -> Shape {
        Shape { namespaces: vec![NamespaceShape { id: 1, slots: 64, engine }], signed: false }
    }

    fn held(slot: u32, memory: &Rc<Memory>, tenure: u32) {
        let word = SlotWord { state: SlotState::Managed, agent: 2, ..SlotWord::unheld(tenure) };
        memory.write_slots(1, slot, &[[word.pack(), 0]]);
    }

    /// The messages of a hand-over between whose two parts a slot is taken.
    fn messages(from: &Rc<Memory>, begun: u64) -> Vec<Vec<u8>> {
        let mut copying = Copying::new(shape(), 3, Time(begun));
        let mut messages = vec![copying.opening()];
        copying.send(from, |message| messages.push(message));
        held(9, from, 4 + begun as u32);
        copying.send(from, |message| messages.push(message));
        messages.push(copying.closing(7, 3, Vec::new()));
        messages
    }

    fn carry<'a>(to: &Rc<Memory>, messages: impl IntoIterator<Item = &'a Vec<u8>>) -> Result<Handed, Unfit> {
        let mut reception = None;
        for message in messages {
            match Reception::take(reception.take(), to, &shape(), message, false)? {
                Came::More(more) => reception = Some(more),
                Came::All(handed) => return Ok(handed),
            }
        }
        Err(Unfit::Torn)
    }

    #[test]
    fn every_slot_that_was_ever_changed_goes_and_nothing_else_stays() {
        let (from, to) = (Rc::new(Memory::default()), Rc::new(Memory::default()));
        held(3, &from, 1);
        from.write_slots(1, 5, &[[SlotWord::unheld(8).pack(), 0]]);
        held(7, &to, 4);
        let handed = carry(&to, &messages(&from, 1)).expect("all has come");
        assert_eq!((handed.epoch, handed.revision), (7, 3));
        for slot in 0..64 {
            assert_eq!(to.load_slot(1, slot), from.load_slot(1, slot), "slot {slot}");
        }
        assert_eq!(to.load_slot(1, 5).tenure, 8, "of one that is unheld");
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        let to = Rc::new(Memory::default());
        for lost in 0..4 {
            let from = Rc::new(Memory::default());
            held(3, &from, 1);
            let mut messages = messages(&from, 1);
            assert_eq!(messages.len(), 4, "an opening, slots twice, a closing");
            messages.remove(lost);
            assert_eq!(carry(&to, &messages), Err(Unfit::Torn), "without message {lost}");
        }
        let of = |id, slots| Shape {
            namespaces: vec![NamespaceShape { id, slots, engine: Engine::Fission }],
            signed: false,
        };
        for unlike in [Shape { signed: true, ..shape() }, of_engine(Engine::Queue), of(2, 64), of(1, 65)] {
            let opening = Copying::new(unlike, 3, Time(1)).opening();
            assert!(matches!(Reception::take(None, &to, &shape(), &opening, false), Err(Unfit::Unlike)));
        }
        let late = Head { revision: 3, begun: Time(1), number: u64::MAX };
        let opening = [late.message(OPENING), shape().encode()].concat();
        assert!(matches!(Reception::take(None, &to, &shape(), &opening, false), Err(Unfit::Torn)), "it is the first");
        let head = Head { number: 1, ..late };
        let with = |kind, rest: &[u8]| [&head.message(kind), rest].concat();
        let run_past_the_end = with(SLOTS, &[&[0, 1, 0, 0, 0, 63, 0, 2][..], &[7; 32]].concat());
        let run_of_nothing = with(SLOTS, &[0, 1, 0, 0, 0, 3, 0, 0]);
        let [too_little, too_much] = [1, 0].map(|nodes| with(CLOSING, &[&[0; 15][..], &[nodes], &[0; 4]].concat()));
        let short = [Vec::new(), vec![SLOTS; HEAD_BYTES - 1], with(SLOTS, &[0]), with(CLOSING, &[1])];
        for bytes in short.into_iter().chain([run_past_the_end, run_of_nothing, too_little, too_much]) {
            let taken = Reception::take(Some(Reception { next: head, mark: None }), &to, &shape(), &bytes, false);
            assert!(matches!(taken, Err(Unfit::Torn)), "{bytes:?}");
        }
    }

    /// A memory of so many slots, of which these are held.
    fn large(slots: u32, held_ones: impl Iterator<Item = u32>) -> (Rc<Memory>, Shape) {
        let memory = Rc::new(Memory::default());
        held_ones.for_each(|slot| held(slot, &memory, 1 + slot));
        (memory, Shape { namespaces: vec![NamespaceShape { id: 1, slots, engine: Engine::Fission }], signed: false })
    }

    /// All that is sent so far goes to a memory.
    fn receive(to: &Rc<Memory>, shape: &Shape, messages: &[Vec<u8>]) {
        let mut reception = None;
        for message in messages {
            match Reception::take(reception.take(), to, shape, message, false).expect("it is whole") {
                Came::More(more) => reception = Some(more),
                Came::All(_) => panic!("there is more to come"),
            }
        }
    }

    #[test]
    fn what_has_not_changed_since_it_was_sent_is_not_sent_again() {
        let (from, shape) = large(1_300, [3, 700].into_iter());
        let mut copying = Copying::new(shape.clone(), 3, Time(1));
        let mut messages = vec![copying.opening()];
        copying.send(&from, |message| messages.push(message));
        copying.send(&from, |message| messages.push(message));
        assert_eq!(messages.len(), 2, "nothing has changed");
        held(1_299, &from, 9);
        copying.send(&from, |message| messages.push(message));
        assert_eq!(messages[2].len(), HEAD_BYTES + 8 + 16, "one slot");
        let to = Rc::new(Memory::default());
        receive(&to, &shape, &messages);
        assert!((0..1_300).all(|slot| to.load_slot(1, slot) == from.load_slot(1, slot)));
    }

    #[test]
    fn many_slots_go_in_messages_of_a_bounded_length() {
        let (from, shape) = large(10_000, 0..10_000);
        let mut copying = Copying::new(shape.clone(), 3, Time(1));
        let mut messages = vec![copying.opening()];
        copying.send(&from, |message| messages.push(message));
        assert_eq!(messages.len(), 1 + (10_000 * 16_usize).div_ceil(FULL));
        assert!(messages.iter().all(|message| message.len() < FULL + 8 + 16 * BLOCK));
        let to = Rc::new(Memory::default());
        receive(&to, &shape, &messages);
        assert!((0..10_000).all(|slot| to.load_slot(1, slot) == from.load_slot(1, slot)));
        // Each that is full goes at once, and none that is empty behind it.
        let full = (FULL / (16 * BLOCK)) as u32 * BLOCK as u32;
        let (from, shape) = large(full, 0..full);
        let mut messages = Vec::new();
        Copying::new(shape, 3, Time(1)).send(&from, |message| messages.push(message));
        assert_eq!(messages.len(), 1);
    }

    /// Slots of an earlier life, in whole blocks and at the end; what is not this memory's stays.
    #[test]
    fn nothing_of_an_earlier_life_is_left_in_the_namespaces_that_are_handed_over() {
        for slots in [64, 600] {
            let (from, shape) = large(slots, [5].into_iter());
            let (to, _) = large(slots, 0..slots);
            held(slots + 70, &to, 4);
            let mut copying = Copying::new(shape.clone(), 3, Time(1));
            let mut messages = vec![copying.opening()];
            copying.send(&from, |message| messages.push(message));
            receive(&to, &shape, &messages);
            assert!((0..slots).all(|slot| to.load_slot(1, slot) == from.load_slot(1, slot)), "of {slots}");
            assert_eq!(to.load_slot(1, slots + 70).tenure, 4);
        }
    }

    /// As much has come of one that came to nothing as is missing of the next, whose tokens are higher.
    #[test]
    fn messages_of_two_hand_overs_are_not_one() {
        let (from, to) = (Rc::new(Memory::default()), Rc::new(Memory::default()));
        held(3, &from, 1);
        let former = messages(&from, 1);
        held(3, &from, 2);
        let latter = messages(&from, 2);
        assert_eq!(carry(&to, former[..3].iter().chain(&latter[3..])), Err(Unfit::Torn));
        assert_eq!(carry(&to, [0, 2, 1, 3].map(|index| &latter[index])), Err(Unfit::Torn), "in another order");
        assert!(carry(&to, &latter).is_ok());
    }

    /// Zeros are slots that nobody has ever had: their tokens would begin anew.
    #[test]
    fn a_memory_that_was_emptied_meanwhile_is_not_gone_on_with() {
        let empty = |memory: &Rc<Memory>| (0..64).for_each(|slot| memory.write_slots(1, slot, &[[0; 2]]));
        let (from, to) = (Rc::new(Memory::default()), Rc::new(Memory::default()));
        held(3, &from, 1);
        let messages = messages(&from, 1);
        let emptied = messages.iter().enumerate().inspect(|(index, _)| {
            if *index == 2 {
                empty(&to)
            }
        });
        assert_eq!(carry(&to, emptied.map(|(_, message)| message)), Err(Unfit::Torn));
        let handed = carry(&to, &messages).expect("all has come");
        assert!(handed.is_kept(&to));
        empty(&to);
        assert!(!handed.is_kept(&to));
    }

    #[test]
    fn nodes_go_as_they_are() {
        let entry = NodeEntry { address: "10.1.2.3:4711".parse().unwrap(), namespace: 9, incarnation: 1 << 40 };
        let word = NodeWord { state: wayside_wire::NodeState::Expired, sequence: 77 };
        let node = NodeMemory { entry, word, oldest: 5, rotation: 6 };
        let handed = Handed { epoch: 1, revision: 2, mark: None, nodes: vec![(4, node), (65_535, node)] };
        let mut bytes = Vec::new();
        handed.encode(&mut bytes);
        assert_eq!(Handed::decode(&bytes), Some(handed));
    }
}
