//! Watches of a node: what it wants to hear of keys, and what it has heard.
//!
//! ```text
//!   Strand, one a group:  ──WATCH, no history──► positioned ──WATCH, position──► EVENT: changes, and the next position
//!                                                    ▲  ▲                          │ reset: all may be missing
//!                                                    │  └──────────────────────────┴── WATCH, the next position ...
//!                                                    └── another session, another chain: the same position
//! ```
//!
//! Invariants
//! * A strand has one question under way, with a request id of its own for each position: an EVENT of another is late,
//!   and tells nothing.
//! * What a strand tells follows what it told before, without a gap, or [`Seen::Reread`] comes between.
//! * A strand asks no further while nobody takes what has been seen: it may be told `reset` then, and never loses
//!   anything silently.

use super::client::{Client, DOUBTFUL, Link};
use super::{Key, Value, Version};
use crate::Time;
use crate::map::IdMap;
use crate::outbox::Ends;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use wayside_wire::{
    Change as Told, Header, Outcome, Part, Scope as Kind, Watch as Packet, kind, limits, service, value_flag,
};

/// Longest pause before a question is asked again, in microseconds: a switch forgets one after four of them.
const PAUSE_MOST: u64 = 500_000;
/// In which a switch, that has no room otherwise, forgets a watch that has been ended here: twice what it takes.
const FORGETTING: u64 = 2_000_000;
/// Before a switch is asked again whether it has.
const ROOM_PAUSE: u64 = 100_000;
/// What may wait to be taken before a watch asks no further.
const SEEN_MOST: usize = 1_024;

/// One watch of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(u64);

/// Of what a watch wants to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Of one key.
    Key(Key),
    /// Of all keys whose names begin so.
    Prefix(Box<[u8]>),
}

/// A key has got a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key's name. `None`: that of the key that is watched, or one that its switch does not know any more.
    pub name: Option<Box<[u8]>>,
    /// The version.
    pub version: Version,
    /// The version that it had before.
    pub before: Version,
    /// The value; `None`: it was taken away.
    pub value: Option<Value>,
}

/// What a watch has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A key has got a version.
    Change(Change),
    /// Something may have been missed. What is read from now on, and what is seen after this, leave nothing out.
    Reread,
}

/// A look at a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Glance {
    /// Nothing yet.
    Waiting,
    /// This.
    Seen(Seen),
    /// Nothing came in time.
    TimedOut,
    /// A switch has too many watches of this node, or in all.
    Refused,
    /// The namespace has no groups.
    NoStore,
    /// There is no such watch.
    Ended,
}

/// A group of a watch.
struct Strand {
    /// Within the namespace.
    group: u16,
    /// Position: which history, and where in it. No history: none yet.
    history: u64,
    number: u64,
    /// Question under way; 0: none.
    request: u64,
    due: Time,
    pause: u64,
    /// Questions since the last answer.
    silent: u32,
    /// What has been told of a long name.
    name: Vec<u8>,
}

struct Watch {
    scope: Scope,
    /// Empty, until the map is known.
    strands: Vec<Strand>,
    /// Of the namespace, when they were made.
    groups: u16,
    seen: VecDeque<Seen>,
    /// How long somebody waits for the next thing, and whether that is over.
    until: Time,
    timed_out: bool,
    /// Instead of waiting.
    end: Option<Glance>,
}

/// All watches of a node.
pub struct Watching {
    watches: BTreeMap<WatchId, Watch>,
    /// Questions under way: watch and group.
    asked: IdMap<u64, (WatchId, u16)>,
    last: u64,
    /// When a strand is due, where there is a session.
    due: Time,
    /// When somebody has waited long enough.
    until: Time,
    told: VecDeque<WatchId>,
    /// A watch was ended of which a switch may know.
    has_ended: bool,
    /// By then switches have forgotten those: one that has no room may have some.
    forgotten_at: Time,
}

impl Default for Watching {
    fn default() -> Watching {
        Watching {
            watches: BTreeMap::new(),
            asked: IdMap::default(),
            last: 0,
            due: Time::NEVER,
            until: Time::NEVER,
            told: VecDeque::new(),
            has_ended: false,
            forgotten_at: Time(0),
        }
    }
}

impl Watching {
    fn strand(&mut self, (id, group): (WatchId, u16)) -> Option<&mut Strand> {
        self.watches.get_mut(&id)?.strands.iter_mut().find(|strand| strand.group == group)
    }

    /// There is no session: nobody answers what is under way. Positions stay.
    pub(super) fn pause(&mut self) {
        self.asked.clear();
        for strand in self.watches.values_mut().flat_map(|watch| &mut watch.strands) {
            (strand.request, strand.due, strand.silent) = (0, Time(0), 0);
        }
    }

    /// The chains of these groups may be others by now: their strands are due.
    pub(super) fn ask_again(&mut self, changed: impl Fn(u16) -> bool) {
        let strands = self.watches.values_mut().flat_map(|watch| &mut watch.strands);
        strands.filter(|strand| changed(strand.group)).for_each(|strand| strand.due = Time(0));
    }

    /// The namespace has no groups.
    pub(super) fn refuse_all(&mut self) {
        for (id, watch) in &mut self.watches {
            watch.end = Some(Glance::NoStore);
            self.told.push_back(*id);
        }
    }

    fn note_ended(&mut self, now: Time) {
        if core::mem::take(&mut self.has_ended) {
            self.forgotten_at = now + FORGETTING;
        }
    }

    /// Answers MOVED and the like. Whether the request was one of these.
    pub(super) fn group_of(&self, request: u64) -> Option<u16> {
        self.asked.get(&request).map(|(_, group)| *group)
    }

    fn note_next(&mut self) {
        let open = || self.watches.values().filter(|watch| watch.end.is_none());
        self.due = open().flat_map(|watch| &watch.strands).map(|strand| strand.due).min().unwrap_or(Time::NEVER);
        self.until = open().map(|watch| watch.until).min().unwrap_or(Time::NEVER);
    }

    /// When [`Client::ask_watches`] is wanted.
    pub(super) fn next_timer(&self, has_session: bool) -> Time {
        if has_session { self.due.min(self.until) } else { self.until }
    }

    /// There is a session again, or will be.
    pub(super) fn resume(&mut self) {
        if !self.watches.is_empty() {
            self.due = Time(0);
        }
    }
}

impl Watch {
    fn is_full(&self) -> bool {
        self.seen.len() >= SEEN_MOST
    }

    fn see(&mut self, seen: Seen) {
        // Whoever reads everything again has read it for all, but for what is seen in between.
        if seen != Seen::Reread || self.seen.back() != Some(&Seen::Reread) {
            self.seen.push_back(seen);
        }
    }
}

impl Client {
    /// Begins to watch.
    pub fn watch(&mut self, link: &mut Link<'_>, scope: Scope) -> WatchId {
        self.watching.last += 1;
        let id = WatchId(self.watching.last);
        let watch = Watch {
            scope,
            strands: Vec::new(),
            groups: 0,
            seen: VecDeque::new(),
            until: Time::NEVER,
            timed_out: false,
            end: None,
        };
        self.watching.watches.insert(id, watch);
        self.ask_watches(link);
        id
    }

    /// Whether whatever happens from now on is seen.
    pub fn is_watching(&self, id: WatchId) -> bool {
        let is_so = |watch: &Watch| !watch.strands.is_empty() && watch.strands.iter().all(|strand| strand.history != 0);
        self.watching.watches.get(&id).is_some_and(is_so)
    }

    /// The next thing that a watch has seen.
    pub fn look(&mut self, link: &mut Link<'_>, id: WatchId) -> Glance {
        let Some(watch) = self.watching.watches.get_mut(&id) else { return Glance::Ended };
        let was_full = watch.is_full();
        if let Some(seen) = watch.seen.pop_front() {
            if was_full {
                watch.strands.iter_mut().for_each(|strand| strand.due = Time(0));
                self.ask_watches(link);
            }
            return Glance::Seen(seen);
        }
        match &watch.end {
            Some(end) => end.clone(),
            None if watch.timed_out => Glance::TimedOut,
            None => Glance::Waiting,
        }
    }

    /// Whoever waits for this watch waits until then.
    pub fn await_watch(&mut self, id: WatchId, until: Time) {
        if let Some(watch) = self.watching.watches.get_mut(&id) {
            (watch.until, watch.timed_out) = (until, false);
            self.watching.note_next();
        }
    }

    /// Ends a watch.
    pub fn unwatch(&mut self, id: WatchId) {
        let watch = self.watching.watches.remove(&id);
        self.watching.has_ended |= watch.is_some_and(|watch| !watch.strands.is_empty());
        self.watching.asked.retain(|_, (of, _)| *of != id);
        self.watching.note_next();
    }

    /// Gives them away, with their positions.
    pub fn leave_watches(&mut self) -> Watching {
        let mut watching = core::mem::take(&mut self.watching);
        watching.pause();
        watching
    }

    /// Goes on with these.
    pub fn take_watches(&mut self, watching: Watching) {
        self.watching = watching;
        self.watching.resume();
    }

    /// The next watch of which there is something to see.
    pub fn told_watch(&mut self) -> Option<WatchId> {
        self.watching.told.pop_front()
    }

    /// Asks whatever is due, as far as it fits into the outbox.
    pub(super) fn ask_watches(&mut self, link: &mut Link<'_>) {
        self.watching.note_ended(link.now);
        let groups = self.groups();
        let ids: Vec<WatchId> = self.watching.watches.keys().copied().collect();
        for id in ids {
            let Some(watch) = self.watching.watches.get_mut(&id).filter(|watch| watch.end.is_none()) else { continue };
            if watch.until <= link.now {
                (watch.until, watch.timed_out) = (Time::NEVER, true);
                self.watching.told.push_back(id);
            }
            if watch.groups != groups && groups > 0 {
                if !watch.strands.is_empty() {
                    // Its keys are in other groups now.
                    watch.strands.clear();
                    watch.see(Seen::Reread);
                    self.watching.asked.retain(|_, (of, _)| *of != id);
                    self.watching.told.push_back(id);
                }
                watch.groups = groups;
                let of: Vec<u16> = match &watch.scope {
                    Scope::Key(key) => [key.group(groups)].into(),
                    Scope::Prefix(_) => (0..groups).collect(),
                };
                watch.strands.extend(of.into_iter().map(|group| Strand::new(group, self.pause_first)));
            }
            if !self.has_session() {
                continue;
            }
            let due: Vec<u16> = self.watching.watches[&id]
                .strands
                .iter()
                .filter(|strand| strand.due <= link.now)
                .map(|strand| strand.group)
                .collect();
            for group in due {
                if link.out.is_full() {
                    break;
                }
                self.ask_strand(link, id, group);
            }
        }
        if groups == 0 && self.has_session() && !self.watching.watches.is_empty() {
            self.ask_map(link, 0);
        }
        self.watching.note_next();
    }

    /// WATCH, from where the strand is.
    fn ask_strand(&mut self, link: &mut Link<'_>, id: WatchId, group: u16) {
        let fresh = self.fresh();
        let known = self.route(group);
        let Some(watch) = self.watching.watches.get_mut(&id) else { return };
        let is_full = watch.is_full();
        let Some(strand) = watch.strands.iter_mut().find(|strand| strand.group == group) else { return };
        if is_full {
            strand.due = Time::NEVER;
            return;
        }
        strand.due = link.now + strand.pause;
        strand.pause = (strand.pause * 2).min(PAUSE_MOST);
        strand.silent += 1;
        let is_silent = strand.silent.is_multiple_of(DOUBTFUL);
        if strand.request == 0 {
            strand.request = fresh;
            self.watching.asked.insert(fresh, (id, group));
        }
        let (key, prefix): (Key, &[u8]) = match &watch.scope {
            Scope::Key(key) => (*key, &[]),
            Scope::Prefix(prefix) => (Key::default(), prefix),
        };
        let Some((number, epoch, tail)) = known else { return self.ask_map(link, group) };
        let packet = Packet {
            key_high: key.high,
            key_low: key.low,
            request: strand.request,
            number: strand.number,
            scope: match watch.scope {
                Scope::Key(_) => Kind::Key,
                Scope::Prefix(_) => Kind::Prefix,
            } as u8,
            outcome: 0,
            changes: 0,
            group: number,
            client: link.header.source,
            reply_port: 0,
            length: prefix.len() as u16,
            check: key.check,
            history: strand.history,
        };
        // As long as its answer may be.
        let header = Header {
            service: service::CHAIN,
            kind: kind::chain::WATCH,
            epoch,
            count: limits::MAX_BLOCKS as u8,
            ..link.header
        };
        link.out.body_to(
            Some(Ends { asked: tail, answers: tail }),
            0,
            header,
            Packet::BYTES + limits::MAX_BLOCKS * limits::BLOCK_BYTES,
            |to, at| {
                packet.write(to, at);
                let blocks = &mut to[at + Packet::BYTES..];
                blocks[..prefix.len()].copy_from_slice(prefix);
                blocks[prefix.len()..].fill(0);
            },
        );
        if is_silent {
            self.ask_map(link, group);
        }
    }

    /// EVENT.
    pub(super) fn on_event(&mut self, link: &mut Link<'_>, event: &Packet, blocks: &[u8]) {
        let Some(&of) = self.watching.asked.get(&event.request) else { return };
        self.watching.note_ended(link.now);
        let (pause, forgotten_at) = (self.pause_first, self.watching.forgotten_at);
        let Some(watch) = self.watching.watches.get_mut(&of.0) else { return };
        let Some(strand) = watch.strands.iter_mut().find(|strand| strand.group == of.1) else { return };
        let begins = strand.history == 0;
        strand.silent = 0;
        match Outcome::try_from(event.outcome) {
            Ok(Outcome::Done) if event.history == strand.history || begins => {
                let Some(changes) = read_changes(event.changes, blocks) else { return };
                let (history, number) = (event.history, event.number);
                (strand.history, strand.number) = (history, number);
                let mut name = core::mem::take(&mut strand.name);
                for (told, piece, value) in changes {
                    name.extend_from_slice(piece);
                    if told.part == Part::Name as u8 {
                        continue;
                    }
                    let name = core::mem::take(&mut name);
                    watch.see(Seen::Change(Change {
                        name: (!name.is_empty()).then(|| name.into()),
                        version: Version { epoch: told.epoch, sequence: told.sequence },
                        before: Version { epoch: told.before_epoch, sequence: told.before_sequence },
                        value,
                    }));
                }
                if let Some(strand) = self.watching.strand(of) {
                    strand.name = name;
                }
                if event.changes == 0 && !begins {
                    // It waits there, and has come as far as this.
                    return;
                }
            }
            Ok(Outcome::Reset) => {
                (strand.history, strand.number) = (event.history, event.number);
                strand.name.clear();
                watch.see(Seen::Reread);
            }
            // Those that were ended here may be in the way.
            Ok(Outcome::Full) if link.now < forgotten_at => {
                (strand.request, strand.pause, strand.due) = (0, pause, link.now + ROOM_PAUSE);
                self.watching.asked.remove(&event.request);
                return self.watching.note_next();
            }
            Ok(Outcome::Full) => watch.end = Some(Glance::Refused),
            _ => return,
        }
        self.watching.told.push_back(of.0);
        self.watching.asked.remove(&event.request);
        if let Some(strand) = self.watching.strand(of) {
            (strand.request, strand.pause, strand.due) = (0, pause, Time(0));
        }
        self.ask_watches(link);
    }
}

impl Strand {
    fn new(group: u16, pause: u64) -> Strand {
        Strand { group, history: 0, number: 0, request: 0, due: Time(0), pause, silent: 0, name: Vec::new() }
    }
}

/// A change as a packet has it: with its name, or a piece of that, and its value.
type Piece<'p> = (Told, &'p [u8], Option<Value>);

/// The changes of an EVENT. None: its blocks are not so.
fn read_changes(count: u16, mut blocks: &[u8]) -> Option<Vec<Piece<'_>>> {
    let mut changes = Vec::new();
    for _ in 0..count {
        let (told, rest) = (Told::read(blocks.get(..Told::BYTES)?, 0), &blocks[Told::BYTES..]);
        let whole = |bytes: u16| usize::from(bytes).next_multiple_of(limits::BLOCK_BYTES);
        let (name, rest) = rest.split_at_checked(whole(told.name_length))?;
        let (value, rest) = rest.split_at_checked(whole(told.length))?;
        let value = Value::new(&value[..usize::from(told.length)])?;
        let value = Some(value).filter(|_| told.flags & value_flag::PRESENT != 0);
        changes.push((told, &name[..usize::from(told.name_length)], value));
        blocks = rest;
    }
    Some(changes)
}
