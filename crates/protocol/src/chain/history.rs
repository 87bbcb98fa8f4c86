//! What a switch's daemon tells of keys that are watched: it takes the journal, keeps the latest changes of each
//! group, and answers WATCH by EVENT, at once or when there is something to tell.
//!
//! Invariants
//! * A position is (history, number). A history is of one group, one epoch of it and one life of this daemon: it begins
//!   where the journal was taken to, and no change after that is left out of it. Where one may have been, the history
//!   is another one, and whoever asks with a position of the old one is told `reset`.
//! * A position is told only once all that came before it can be read here: so whoever reads after he has been told it
//!   misses nothing.
//! * What is told holds as an answer to a READ does: the group's place is the history's, at the end of the chain, and
//!   the places' lease runs.
//! * A watch is answered to the session that asked, and to no later one of its handle.
//! * Watches that wait are bounded, of a node and in all, and so are the changes that are kept.

use super::member::Groups;
use super::memory::{ItemMemory, Record, Recorded};
use super::{Key, Member, Sent};
use crate::{Handle, Port, Time};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use wayside_wire::{BODY, Change, Header, Outcome, Part, Scope, Watch, blocks, kind, limits, service, value_flag};

/// Between two looks into the journal while somebody watches, in microseconds.
const LOOK: u64 = 1_000;
/// For which a watch that nobody repeats waits. Clients repeat theirs four times as often.
const PATIENCE: u64 = 2_000_000;
/// For which it has not been repeated, twice as long as they take for that, before it is taken to be given up where
/// there is no room otherwise.
const FORGOTTEN: u64 = 1_000_000;
/// After the last watch of a namespace, before nothing is kept for it.
const IDLE: u64 = 10_000_000;
/// Before a journal that went round is begun anew: whoever writes so fast will overtake it again.
const REST: u64 = 20_000;
/// Watches that wait: of a node, and in all.
const WAITING_OF_NODE: usize = 256;
const WAITING: usize = 4_096;
/// Numbers of a change: one whose name has no room beside its value is told in pieces.
const PIECES: u64 = 4;
/// Bytes of a name's piece: with what goes before it, it fits into any question of 16 blocks.
const PIECE: usize = 480;
/// Changes that are kept: of all groups together, and of a group at least and at most.
const KEPT: usize = 65_536;
const KEPT_OF_GROUP: (usize, usize) = (64, 4_096);

/// What was taken from the journal.
struct Told {
    record: Record,
    /// None: the daemon that knew it is no more.
    name: Option<Arc<[u8]>>,
}

/// A name, and the journal's latest number when its key was removed.
type Gone = (Arc<[u8]>, u64);

/// The changes of a group since it is watched.
struct History {
    id: u64,
    /// Of the group.
    epoch: u32,
    /// Number of the first that is kept.
    first: u64,
    kept: VecDeque<Told>,
}

impl History {
    /// Number of the next change.
    fn end(&self) -> u64 {
        self.first + self.kept.len() as u64
    }
}

/// What a client wants to hear.
enum Filter {
    Key(Key),
    Prefix(Box<[u8]>),
}

/// A watch that waits for something to tell.
struct Waiting {
    client: Handle,
    /// Of its session.
    incarnation: u64,
    port: Port,
    request: u64,
    filter: Filter,
    /// What the question was, but for what it asks for.
    asked: Watch,
    /// As it is to begin.
    header: Header,
    /// Blocks in the question: an answer has no more.
    room: usize,
    until: Time,
    /// It was there before, and is asked again: whoever asks wants to know whether it still waits.
    repeated: bool,
}

/// See the module's documentation.
pub(super) struct Histories {
    /// Id of the latest history; before the first, where they begin.
    latest: u64,
    /// Number in the journal up to which all has been taken.
    taken: u64,
    torn: u64,
    of_group: BTreeMap<u16, History>,
    /// Names of keys that have been removed, of whose changes some may be in the journal yet: until it is taken to
    /// there.
    gone: BTreeMap<(u16, Key), Gone>,
    /// Namespaces whose keys are noted, and until when without another watch.
    noted: BTreeMap<u16, Time>,
    waiting: BTreeMap<u16, Vec<Waiting>>,
    /// How many those are, of each node.
    of_node: BTreeMap<Handle, usize>,
    look_at: Time,
    rests_until: Time,
    so_far: Watched,
}

/// What a daemon has done for those who watch, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Watches that wait now.
    pub waiting: u64,
    /// Changes that were told, to each watch that wanted them.
    pub told: u64,
    /// Positions of which was said that something may be missing.
    pub resets: u64,
    /// Times that the journal went round before it was taken.
    pub overruns: u64,
    /// Records that were missing, or not whole.
    pub torn: u64,
}

impl Histories {
    pub(super) fn new(seed: u64) -> Histories {
        Histories {
            latest: wayside_wire::mix(seed),
            taken: 0,
            torn: 0,
            of_group: BTreeMap::new(),
            gone: BTreeMap::new(),
            noted: BTreeMap::new(),
            waiting: BTreeMap::new(),
            of_node: BTreeMap::new(),
            look_at: Time::NEVER,
            rests_until: Time(0),
            so_far: Watched::default(),
        }
    }

    pub(super) fn next_timer(&self) -> Time {
        self.look_at
    }

    /// 0 is no history's.
    fn fresh(&mut self) -> u64 {
        self.latest = self.latest.wrapping_add(1).max(1);
        self.latest
    }

    /// A key is removed, with all that it was given up to this number.
    pub(super) fn outlive(&mut self, key: (u16, Key), name: Arc<[u8]>, drawn: u64) {
        if !self.noted.is_empty() {
            self.gone.insert(key, (name, drawn));
        }
    }

    /// Adds a change to its group's history, if anybody wants it.
    fn keep(&mut self, record: Record, name: Option<Arc<[u8]>>) {
        let most = (KEPT / self.of_group.len().max(1)).clamp(KEPT_OF_GROUP.0, KEPT_OF_GROUP.1);
        let Some(history) = self.of_group.get_mut(&record.group) else { return };
        while history.kept.len() >= most {
            history.kept.pop_front();
            history.first += 1;
        }
        history.kept.push_back(Told { record, name });
    }

    /// A watch waits from now on.
    fn enter(&mut self, group: u16, waiting: Waiting) {
        *self.of_node.entry(waiting.client).or_default() += 1;
        self.waiting.entry(group).or_default().push(waiting);
    }

    /// A watch does not wait any more, or is asked again.
    fn leave(&mut self, group: u16, index: usize) -> Option<Waiting> {
        let waiting = self.waiting.get_mut(&group)?.swap_remove(index);
        if let Some(count) = self.of_node.get_mut(&waiting.client) {
            *count -= 1;
        }
        Some(waiting)
    }

    /// Whether another watch of this client may wait: if need be in the place of one that nobody seems to want.
    fn makes_room(&mut self, now: Time, client: Handle, incarnation: u64) -> bool {
        // Nodes, not watches: they are fewer.
        let has_room = |this: &Histories| {
            let of_node = this.of_node.get(&client).copied().unwrap_or(0);
            of_node < WAITING_OF_NODE && this.of_node.values().sum::<usize>() < WAITING
        };
        if has_room(self) {
            return true;
        }
        let all =
            self.waiting.iter().flat_map(|(&group, all)| (0..).zip(all).map(move |(index, of)| (group, index, of)));
        let is_given_up = |of: &Waiting| of.incarnation != incarnation || of.until <= now + (PATIENCE - FORGOTTEN);
        let given_up = all.filter(|(_, _, of)| of.client == client && is_given_up(of));
        let oldest = given_up.min_by_key(|(_, _, of)| (of.incarnation == incarnation, of.until));
        let Some((group, index)) = oldest.map(|(group, index, _)| (group, index)) else { return false };
        self.leave(group, index);
        has_room(self)
    }
}

impl<M: ItemMemory> Member<M> {
    /// What has been done for those who watch.
    pub fn watched(&self) -> Watched {
        let waiting = self.histories.waiting.values().map(Vec::len).sum::<usize>();
        Watched { waiting: waiting as u64, torn: self.memory.torn(), ..self.histories.so_far }
    }

    /// WATCH: at the tail, as the data plane has checked.
    pub(super) fn on_watch(&mut self, now: Time, header: &Header, packet: &[u8]) {
        let asked = Watch::read(packet, BODY);
        let is_its = |groups: &&Groups| groups.namespace == header.namespace && groups.has(asked.group);
        if !self.namespaces.iter().any(|groups| is_its(&groups)) {
            return;
        }
        let Some(incarnation) = self.session_of(asked.client, header.namespace) else { return };
        let filter = match Scope::try_from(asked.scope) {
            Ok(Scope::Key) => Filter::Key(Key { high: asked.key_high, low: asked.key_low, check: asked.check }),
            Ok(Scope::Prefix) => match blocks(packet).get(..usize::from(asked.length)) {
                Some(prefix) => Filter::Prefix(prefix.into()),
                None => return,
            },
            Err(_) => return,
        };
        let mut waiting = Waiting {
            client: asked.client,
            incarnation,
            port: asked.reply_port,
            request: asked.request,
            filter,
            asked,
            header: Header {
                kind: kind::chain::EVENT,
                source: 0,
                destination: asked.client,
                tag: 0,
                flags: 0,
                ..*header
            },
            room: usize::from(header.count),
            until: now + PATIENCE,
            repeated: false,
        };
        let is_same = |other: &Waiting| (other.client, other.request) == (waiting.client, waiting.request);
        let known = self.histories.waiting.get(&asked.group).and_then(|all| all.iter().position(is_same));
        if let Some(Waiting { asked: known, .. }) = known.and_then(|index| self.histories.leave(asked.group, index)) {
            // Nothing up to where it has come was for it.
            (waiting.asked.history, waiting.asked.number) = (known.history, known.number);
            waiting.repeated = true;
        } else if !self.histories.makes_room(now, asked.client, incarnation) {
            let refused = Watch { outcome: Outcome::Full as u8, ..asked };
            return self.say_event(&waiting, refused, &[]);
        }
        self.histories.look_at = self.histories.look_at.min(now + LOOK);
        self.take_journal(now);
        if let Some(waiting) = self.answer_watch(now, waiting) {
            self.histories.enter(asked.group, waiting);
        }
    }

    /// Takes what is new, and tells it to whoever waits.
    pub(super) fn tell_watches(&mut self, now: Time) {
        self.take_journal(now);
        // Counted anew.
        self.histories.of_node.clear();
        for (group, all) in core::mem::take(&mut self.histories.waiting) {
            let Some(namespace) = all.first().map(|waiting| waiting.header.namespace) else { continue };
            // Most of them have nothing to hear, most of the time.
            let id = self.history_of(now, namespace, group);
            let end = self.histories.of_group.get(&group).map_or(0, History::end);
            let is_idle =
                |of: &Waiting| Some(of.asked.history) == id && of.asked.number == end * PIECES && !of.repeated;
            let mut still = Vec::with_capacity(all.len());
            for waiting in all.into_iter().filter(|waiting| waiting.until > now) {
                still.extend(if is_idle(&waiting) { Some(waiting) } else { self.answer_watch(now, waiting) });
            }
            still.iter().for_each(|of: &Waiting| *self.histories.of_node.entry(of.client).or_default() += 1);
            if !still.is_empty() {
                self.histories.waiting.insert(group, still);
            }
        }
        let over = |(_, until): &(&u16, &Time)| **until <= now;
        let over: Vec<u16> = self.histories.noted.iter().filter(over).map(|(&namespace, _)| namespace).collect();
        over.into_iter().for_each(|namespace| self.stop_noting(namespace));
        let is_idle = self.histories.noted.is_empty() && self.histories.waiting.is_empty();
        self.histories.look_at = if is_idle { Time::NEVER } else { now + LOOK };
    }

    /// Incarnation of the handle's session, if it lives and is of this namespace.
    fn session_of(&self, client: Handle, namespace: u16) -> Option<u64> {
        self.memory.live_session(client).filter(|(its, _)| *its == namespace).map(|(_, incarnation)| incarnation)
    }

    /// Something may be missing: no position of before is good any more.
    fn lose_histories(&mut self, now: Time) {
        let noted: Vec<u16> = self.histories.noted.keys().copied().collect();
        // Perhaps for good: nobody may ask again. Their groups' histories go with them.
        noted.into_iter().for_each(|namespace| self.stop_noting(namespace));
        self.histories.rests_until = now + REST;
    }

    fn stop_noting(&mut self, namespace: u16) {
        self.histories.noted.remove(&namespace);
        let Some(groups) = self.namespaces.iter().find(|groups| groups.namespace == namespace) else { return };
        self.memory.watch_groups(groups.range(), false);
        let range = groups.range();
        self.histories.of_group.retain(|group, _| !range.contains(group));
    }

    /// Has all that keys of a namespace take noted, from now on.
    fn note(&mut self, now: Time, namespace: u16) {
        if self.histories.noted.is_empty() {
            // First: what is torn from here on is noticed, though its number be drawn before the next line.
            self.histories.torn = self.memory.torn();
            // Whoever has drawn one of these has the lock of its item, until what he writes can be read: all locks are
            // taken once below.
            self.histories.taken = self.memory.drawn();
        }
        let is_new = self.histories.noted.insert(namespace, now + IDLE).is_none();
        if is_new != self.is_broken(crate::Mutant::HastyWatch)
            && let Some(groups) = self.namespaces.iter().find(|groups| groups.namespace == namespace)
        {
            self.memory.watch_groups(groups.range(), true);
            self.take_journal(now);
        }
    }

    /// Takes what the journal has that can be read by now.
    fn take_journal(&mut self, now: Time) {
        if self.histories.noted.is_empty() {
            return;
        }
        let drawn = self.memory.drawn();
        while self.histories.taken < drawn {
            match self.memory.record(self.histories.taken + 1) {
                Recorded::Record(record) => {
                    let key = (record.group, record.key);
                    let name = self.names.get(&key).map(|named| &named.name);
                    let name = name.or_else(|| self.histories.gone.get(&key).map(|(name, _)| name)).cloned();
                    self.histories.taken += 1;
                    self.histories.keep(record, name);
                }
                Recorded::Awaited => break,
                Recorded::Overwritten if self.is_broken(crate::Mutant::SkipOverrun) => self.histories.taken += 1,
                Recorded::Overwritten => {
                    self.histories.so_far.overruns += 1;
                    return self.lose_histories(now);
                }
            }
        }
        let taken = self.histories.taken;
        self.histories.gone.retain(|_, (_, drawn)| *drawn > taken);
        if self.memory.torn() != self.histories.torn {
            self.lose_histories(now);
        }
    }

    /// The history of a group at its present epoch: begun, unless there is one. None: this switch tells nothing of it.
    fn history_of(&mut self, now: Time, namespace: u16, group: u16) -> Option<u64> {
        let place = self.memory.place(group);
        if place.epoch == 0 || place.next != 0 || now < self.histories.rests_until {
            return None;
        }
        self.note(now, namespace);
        if !self.histories.noted.contains_key(&namespace) {
            return None;
        }
        let known = self.histories.of_group.get(&group).filter(|history| history.epoch == place.epoch);
        if let Some(history) = known {
            return Some(history.id);
        }
        let id = self.histories.fresh();
        let history = History { id, epoch: place.epoch, first: 1, kept: VecDeque::new() };
        self.histories.of_group.insert(group, history);
        Some(id)
    }

    /// Answers a watch, if there is something to say. It comes back as long as it waits.
    fn answer_watch(&mut self, now: Time, mut waiting: Waiting) -> Option<Waiting> {
        let namespace = waiting.header.namespace;
        // Another session of the handle may be another tenant's.
        if self.session_of(waiting.client, namespace) != Some(waiting.incarnation) {
            return None;
        }
        let Some(mut id) = self.history_of(now, namespace, waiting.asked.group) else { return Some(waiting) };
        let history = self.histories.of_group.get(&waiting.asked.group)?;
        if self.is_broken(crate::Mutant::AnyHistory) && waiting.asked.history != 0 {
            id = waiting.asked.history;
            waiting.asked.number = waiting.asked.number.clamp(history.first * PIECES, history.end() * PIECES);
        }
        let (index, first) = (waiting.asked.number / PIECES, history.first);
        let is_known = waiting.asked.history == id && (first..=history.end()).contains(&index);
        let outcome = if is_known || waiting.asked.history == 0 { Outcome::Done } else { Outcome::Reset };
        let epoch = history.epoch;
        let mut page = Page { room: waiting.room * limits::BLOCK_BYTES, bytes: Vec::new(), changes: 0, told: 0 };
        let number =
            if is_known { page.fill(history, waiting.asked.number, &waiting.filter) } else { history.end() * PIECES };
        // As an answer to a READ: after what it tells has been read. What is not told now is told later.
        let place = self.memory.place(waiting.asked.group);
        if place.epoch != epoch || place.next != 0 || !self.memory.serves_places_at(now) {
            return Some(waiting);
        }
        (waiting.asked.history, waiting.asked.number) = (id, number);
        let waits = is_known && page.changes == 0;
        if !waits || waiting.repeated {
            self.histories.so_far.told += u64::from(page.told);
            self.histories.so_far.resets += u64::from(outcome == Outcome::Reset);
            let answer = Watch { outcome: outcome as u8, changes: page.changes, ..waiting.asked };
            waiting.header.epoch = epoch;
            self.say_event(&waiting, answer, &page.bytes);
            waiting.repeated = false;
        }
        waits.then_some(waiting)
    }

    fn say_event(&mut self, waiting: &Waiting, answer: Watch, content: &[u8]) {
        let mut packet = alloc::vec![0; BODY + Watch::BYTES];
        let count = (content.len() / limits::BLOCK_BYTES) as u8;
        Header { service: service::CHAIN, count, ..waiting.header }.write(&mut packet);
        answer.write(&mut packet, BODY);
        packet.extend_from_slice(content);
        self.out.push_back(Sent { to: waiting.client, port: waiting.port, packet });
    }
}

impl Filter {
    fn takes(&self, told: &Told) -> bool {
        match (self, &told.name) {
            (Filter::Key(key), _) => told.record.key == *key,
            (Filter::Prefix(prefix), Some(name)) => name.starts_with(prefix),
            // It may be one of them.
            (Filter::Prefix(_), None) => true,
        }
    }
}

/// The blocks of an EVENT.
struct Page {
    room: usize,
    bytes: Vec<u8>,
    changes: u16,
    /// Those of them that are no piece of a name.
    told: u16,
}

impl Page {
    /// Adds what is from this position on, as much as there is room for. The position after it.
    fn fill(&mut self, history: &History, number: u64, filter: &Filter) -> u64 {
        let (mut index, mut piece) = (number / PIECES, (number % PIECES) as usize);
        while let Some(told) = history.kept.get((index - history.first) as usize) {
            if filter.takes(told) {
                let name = match (filter, &told.name) {
                    (Filter::Prefix(_), Some(name)) => name.get(piece * PIECE..).unwrap_or_default(),
                    _ => &[],
                };
                if !self.add(told, Part::Value, name, told.value()) {
                    // Without a piece there is nothing to begin with: it waits for a question with room for the value.
                    let begun = self.changes == 0
                        && !name.is_empty()
                        && self.add(told, Part::Name, &name[..name.len().min(PIECE)], &[]);
                    return index * PIECES + (piece + usize::from(begun)) as u64;
                }
            }
            (index, piece) = (index + 1, 0);
        }
        index * PIECES
    }

    /// False: there is no room.
    fn add(&mut self, told: &Told, part: Part, name: &[u8], value: &[u8]) -> bool {
        let whole = |bytes: &[u8]| bytes.len().next_multiple_of(limits::BLOCK_BYTES);
        let at = self.bytes.len();
        let size = Change::BYTES + whole(name) + whole(value);
        if at + size > self.room {
            return false;
        }
        self.bytes.resize(at + size, 0);
        let Record { before, content, .. } = &told.record;
        let change = Change {
            sequence: content.version.sequence,
            before_sequence: before.sequence,
            epoch: content.version.epoch,
            before_epoch: before.epoch,
            length: value.len() as u16,
            name_length: name.len() as u16,
            flags: content.length.map_or(0, |_| value_flag::PRESENT),
            part: part as u8,
        };
        change.write(&mut self.bytes, at);
        let at = at + Change::BYTES;
        self.bytes[at..at + name.len()].copy_from_slice(name);
        let at = at + whole(name);
        self.bytes[at..at + value.len()].copy_from_slice(value);
        self.changes += 1;
        self.told += u16::from(part == Part::Value);
        true
    }
}

impl Told {
    fn value(&self) -> &[u8] {
        &self.record.content.bytes[..usize::from(self.record.content.length.unwrap_or(0))]
    }
}
