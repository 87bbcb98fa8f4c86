//! Recovery, the one procedure for everything that breaks a slot: freeze, census, adopt, unfreeze.
//!
//! ```text
//!            queue ──freeze──► ASKING every live node ──all answered or dead──► ADOPTING by the heirs ──► unfrozen
//!   (namespace, slot)          up to 32 slots a census     (nobody holds: UNHELD at once)    │ heir dies
//!       ▲                                                                                    ▼
//!       └──────────────────────────────────────────────────────────────────── back to the queue, frozen
//!   all slots: ASKING, then every slot is WRITTEN (`rebuild.rs`), then ADOPTING; then the switch serves
//! ```
//!
//! What nodes report and what they are to adopt comes in pages, several under way at a time (`pages.rs`).
//!
//! A node whose heartbeats come and whose answers do not is dismissed after lease + grace without a page that counts:
//! its word is expired, and it ends when its lease is over. Else one process could keep everybody from every lock. So
//! is one that lets each page be asked for again and again, or that reports more than it can hold.
//!
//! Invariants: a slot is at most at one census (`at`), and FROZEN as long as it is. A freeze raises the tenure to F,
//! which is the census's stamp; the heir is agent at F + 1. So a later freeze (F + 1 or more) covers an heir that
//! took office before its controller died. What a session has reported is forgotten when it ends: who is given its
//! handle while the census goes on would be told to adopt what it knows nothing of. All slots are recovered only while
//! the switch does not serve, under a fresh epoch; their heirs are agents at tenure 1 of it. No handle is given again
//! meanwhile, as nothing is swept.

use super::pages::{Pages, window};
use super::rebuild::Rebuilt;
use super::{Controller, Notice, SessionRecord, Store};
use crate::memory::{SlotWord, SwitchMemory};
use crate::{Handle, Mutant, Time};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use wayside_wire::{Entry, Header, SlotBits, SlotState, entry_flag, header_flag, kind, limits, request_id};

/// Censuses of a namespace at a time, each of up to 32 slots: 2,048 slots under way, and a packet per node and census.
/// Each has its own, so that one whose nodes do not report, or ask for ever more of them, keeps no other from its turn.
const MAX_CENSUSES: usize = 64;
/// So often they begin in one go: 16,384 slots take 10 ms, in which the post of a switch with standbys is not renewed.
const ROUNDS: u32 = 8;
/// So often a node is asked in vain, however short its lease, before it is taken for one that will never answer: with
/// a third of all packets lost each way, that is one in 100,000 that would.
const QUESTIONS: u64 = 20;
/// Of a node's entries so many are kept for all censuses of single slots: it has 1,015,000 requests at most, each in
/// one slot, and is the agent of no more than 2,048 of the slots under way.
pub(super) const REPORTED_MOST: usize = 1 << 20;
/// Entries of a REPORT or ADOPT after the one that names the census.
pub(super) const PAGE: usize = limits::MAX_ENTRIES - 1;

#[derive(Default)]
pub(super) struct Recovery {
    queue: BTreeSet<(u16, u32)>,
    /// Slots at a census of their own.
    at: BTreeSet<(u16, u32)>,
    censuses: BTreeMap<u64, Census>,
    /// A slot has no tenures left: only another epoch helps.
    exhausted: bool,
    /// The epoch is new: all slots have to be recovered, and nobody has been asked yet.
    all_due: bool,
}

pub(super) struct Census {
    pub namespace: u16,
    pub scope: Scope,
    /// Nodes whose report is not complete.
    asked: BTreeMap<Handle, Pages>,
    pub heirs: BTreeMap<Handle, Heir>,
    phase: Phase,
}

#[cfg(test)]
impl Census {
    /// One in which nobody is asked.
    pub fn of(namespace: u16, scope: Scope) -> Census {
        Census { namespace, scope, asked: BTreeMap::new(), heirs: BTreeMap::new(), phase: Phase::Asking }
    }
}

pub(super) enum Scope {
    Slots(Frozen),
    All(Box<Rebuilt>),
}

/// Up to 32 slots.
#[derive(Default)]
pub(super) struct Frozen {
    /// The tenure that each was frozen at.
    tenures: BTreeMap<u32, u32>,
    /// What nodes that live have reported of these, and how much each.
    found: Vec<Entry>,
    reported: BTreeMap<Handle, usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Asking,
    Writing,
    Adopting,
}

/// A node that becomes the agent of slots.
pub(super) struct Heir {
    slots: Vec<u32>,
    /// The first entry of every page, but for the census.
    pub about: Entry,
    /// Per slot one entry for the agency, then its holds.
    pub entries: Vec<Entry>,
    pub pages: Pages,
}

impl Frozen {
    /// What these have reported makes nobody an heir.
    fn forget(&mut self, dead: &[Handle]) {
        let count = self.reported.len();
        for handle in dead {
            self.reported.remove(handle);
        }
        if self.reported.len() < count {
            self.found.retain(|entry| self.reported.contains_key(&entry.holder));
        }
    }
}

impl Heir {
    pub fn new(now: Time) -> Heir {
        Heir { slots: Vec::new(), about: Entry::default(), entries: Vec::new(), pages: Pages::new(Some(1), now) }
    }

    /// Pages, of which there is one at least.
    pub fn count(&self) -> u32 {
        (self.entries.len().div_ceil(PAGE) as u32).max(1)
    }

    pub fn adopt(&mut self, slot: u32, tenure: u32, holder: Handle, books: &Books) {
        let word = SlotBits { state: SlotState::Managed, transferred: true, ..SlotBits::default() };
        let (slot_bits, flags) = (word.to_u16(), entry_flag::AGENCY);
        self.slots.push(slot);
        self.entries.push(Entry { slot, tenure, holder, slot_bits, flags, ..Entry::default() });
        self.entries.extend(&books.holds);
    }
}

/// What the reports say of a slot.
#[derive(Default)]
pub(super) struct Books {
    /// Tenure and node of the youngest agent.
    pub agent: Option<(u32, Handle)>,
    pub holds: Vec<Entry>,
}

impl Books {
    /// Who is to keep them.
    pub fn heir(&self) -> Option<Handle> {
        let first_holder = self.holds.first().map(|hold| hold.holder);
        self.agent.map(|(_, handle)| handle).or(first_holder)
    }
}

impl Recovery {
    /// Of an epoch that has just begun.
    pub fn of_everything() -> Recovery {
        Recovery { all_due: true, ..Recovery::default() }
    }

    /// This slot needs a census, unless it is at one.
    pub fn queue(&mut self, namespace: u16, slot: u32) {
        if !self.is_at(namespace, slot) {
            self.queue.insert((namespace, slot));
        }
    }

    pub fn is_at(&self, namespace: u16, slot: u32) -> bool {
        self.at.contains(&(namespace, slot))
    }

    /// The first namespace with a slot in the queue that may have another census.
    fn next_namespace(&self) -> Option<u16> {
        let mut from = 0;
        loop {
            let &(namespace, _) = self.queue.range((from, 0)..).next()?;
            let own = self.censuses.values().filter(|census| census.namespace == namespace).count();
            if own < MAX_CENSUSES {
                return Some(namespace);
            }
            from = namespace.checked_add(1)?;
        }
    }

    /// Entries of this node that are kept.
    pub fn reported_by(&self, node: Handle) -> usize {
        let of = |census: &Census| match &census.scope {
            Scope::Slots(frozen) => frozen.reported.get(&node).copied(),
            Scope::All(_) => None,
        };
        self.censuses.values().filter_map(of).sum()
    }

    pub fn is_writing(&self) -> bool {
        self.censuses.values().any(|census| census.phase == Phase::Writing)
    }
}

impl<M: SwitchMemory, S: Store> Controller<M, S> {
    /// Slots at a census, and slots that wait for one.
    pub fn recovering(&self) -> (usize, usize) {
        (self.recovery.at.len(), self.recovery.queue.len())
    }

    /// Somebody misses something in this slot. A late copy speaks of a tenure that is over.
    pub(super) fn on_gap(&mut self, now: Time, header: &Header, gaps: impl Iterator<Item = Entry>) {
        for gap in gaps.filter(|gap| gap.slot < self.memory.slot_count(header.namespace)) {
            let word = self.memory.load_slot(header.namespace, gap.slot);
            let stuck = word.held() || word.tenure == limits::MAX_TENURE;
            // Who is named as agent and is not one may know no tenure: a RELEASE in its limbo speaks of its own grant.
            let current = word.tenure == gap.tenure || (word.transferred && word.agent == header.source);
            if stuck && current && self.memory.serving() {
                self.recovery.queue(header.namespace, gap.slot);
            }
        }
        self.start_censuses(now);
    }

    /// Every slot of every namespace at once. The switch does not serve. `is_new`: its memory was before this epoch.
    pub(super) fn recover_everything(&mut self, now: Time, is_new: bool) {
        for index in 0..self.config.namespaces.len() {
            let namespace = self.config.namespaces[index].id;
            let rebuilt = Rebuilt::of(self.memory.slot_count(namespace), is_new);
            self.ask_everyone(now, namespace, Scope::All(Box::new(rebuilt)));
        }
        self.recovery.all_due = false;
        self.advance(now);
    }

    /// Sends again what is due, goes on with what can go on. A node that lives and does not answer is dismissed: others
    /// wait for it.
    pub(super) fn recover(&mut self, now: Time) {
        let mut questions = Vec::new();
        let mut pages = Vec::new();
        let mut mute = Vec::new();
        let pause = self.config.retransmit;
        for (&id, census) in &mut self.recovery.censuses {
            let most = |handle| questions_most(self.sessions.get(handle).map(|session| &session.record), pause);
            for (&handle, asked) in census.asked.iter_mut().filter(|(_, asked)| now >= asked.due) {
                mute.extend((!asked.ask_again(now, pause, most(handle))).then_some(handle));
                questions.extend(asked.missing().map(|page| (id, handle, page)));
            }
            if census.phase == Phase::Adopting {
                for (&handle, heir) in census.heirs.iter_mut().filter(|(_, heir)| now >= heir.pages.due) {
                    mute.extend((!heir.pages.ask_again(now, pause, most(handle))).then_some(handle));
                    pages.extend(heir.pages.missing().map(|page| (id, handle, page)));
                }
            }
        }
        for handle in mute {
            self.dismiss(handle);
        }
        for (id, handle, page) in questions {
            self.send_census(id, handle, page);
        }
        for (id, handle, page) in pages {
            self.send_adopt(id, handle, page);
        }
        self.advance(now);
    }

    /// Freezes slots from the queue, 32 to a census, as long as there may be more censuses. Where nobody has to be
    /// asked they are over at once, and others take their place.
    pub(super) fn start_censuses(&mut self, now: Time) {
        for _ in 0..ROUNDS {
            self.fill_up(now);
            self.advance(now);
            if self.recovery.queue.is_empty() || !self.recovery.censuses.is_empty() {
                return;
            }
        }
    }

    fn fill_up(&mut self, now: Time) {
        while let Some(namespace) = self.recovery.next_namespace().filter(|_| self.memory.serving()) {
            let mut frozen = Frozen::default();
            while frozen.tenures.len() < limits::MAX_ENTRIES {
                let Some(&next) = self.recovery.queue.range((namespace, 0)..=(namespace, u32::MAX)).next() else {
                    break;
                };
                self.recovery.queue.remove(&next);
                if let Some(tenure) = self.freeze(namespace, next.1) {
                    frozen.tenures.insert(next.1, tenure);
                    self.recovery.at.insert(next);
                    self.notices.push_back(Notice::Frozen(namespace, next.1));
                }
            }
            if !frozen.tenures.is_empty() {
                self.ask_everyone(now, namespace, Scope::Slots(frozen));
            }
        }
    }

    /// FROZEN, one tenure later; none if nobody has the slot any more.
    fn freeze(&mut self, namespace: u16, slot: u32) -> Option<u32> {
        loop {
            let word = self.memory.load_slot(namespace, slot);
            if word.state == SlotState::Unheld && word.tenure < limits::MAX_TENURE {
                return None;
            }
            // The heir needs a tenure that is not the last.
            if word.tenure >= limits::MAX_TENURE - 2 {
                self.recovery.exhausted = true;
                return None;
            }
            let tenure = word.tenure + 1;
            let frozen = SlotWord { state: SlotState::Frozen, agent: 0, transferred: true, ..SlotWord::unheld(tenure) };
            if self.memory.cas_slot(namespace, slot, word, frozen) {
                return Some(tenure);
            }
        }
    }

    fn ask_everyone(&mut self, now: Time, namespace: u16, scope: Scope) {
        let id = self.new_id();
        let nodes: Vec<Handle> = self.sessions.living_in(namespace).collect();
        let due = now + self.config.retransmit;
        let asked = nodes.iter().map(|&handle| (handle, Pages::new(None, due))).collect();
        let census = Census { namespace, scope, asked, heirs: BTreeMap::new(), phase: Phase::Asking };
        self.recovery.censuses.insert(id, census);
        for handle in nodes {
            self.ask_for_more(now, id, handle);
        }
    }

    /// Asks for pages as long as more may be under way.
    fn ask_for_more(&mut self, now: Time, id: u64, node: Handle) {
        let Some(census) = self.recovery.censuses.get_mut(&id) else { return };
        let window = window(census.asked.len());
        let Some(asked) = census.asked.get_mut(&node) else { return };
        asked.due = now + self.config.retransmit;
        let mut wanted: Vec<u16> = asked.overtaken().into_iter().collect();
        wanted.extend(core::iter::from_fn(|| asked.ask(window)));
        for page in wanted {
            self.send_census(id, node, page);
        }
    }

    fn send_census(&mut self, id: u64, to: Handle, page: u16) {
        let Some(census) = self.recovery.censuses.get(&id) else { return };
        let header = Header { kind: kind::lock::CENSUS, position: page, ..Header::default() };
        let about = |slot, tenure| Entry { request: id, slot, tenure, ..Entry::default() };
        let questions: Vec<Entry> = match &census.scope {
            Scope::Slots(frozen) => frozen.tenures.iter().map(|(&slot, &tenure)| about(slot, tenure)).collect(),
            Scope::All(_) => {
                let sequence = self.engine_of(census.namespace) as u8;
                let name = self.fingerprint_of(census.namespace);
                Vec::from([Entry { sequence, name, ..about(limits::ALL_SLOTS, 0) }])
            }
        };
        self.send_entries(to, header, questions.into_iter());
    }

    /// A page of what a node holds, asked for by its number.
    pub(super) fn on_report(&mut self, now: Time, header: &Header, mut entries: impl Iterator<Item = Entry>) {
        let (from, last) = (header.source, header.flags & header_flag::LAST != 0);
        let Some(about) = entries.next() else { return };
        let id = about.request;
        let Some(census) = self.recovery.censuses.get_mut(&id) else { return };
        let Some(pages) = census.asked.get_mut(&from) else { return };
        if !pages.take(header.position, last, &self.config) {
            return;
        }
        let is_complete = pages.are_complete(&self.config);
        match &mut census.scope {
            Scope::All(rebuilt) => rebuilt.file(from, &about, entries),
            Scope::Slots(Frozen { tenures, found, reported }) => {
                let before = found.len();
                let asked = entries.filter(|entry| tenures.contains_key(&entry.slot));
                found.extend(asked.map(|entry| Entry { holder: from, ..entry }));
                *reported.entry(from).or_default() += found.len() - before;
            }
        }
        // No node can hold so much.
        if header.position > 0 && self.recovery.reported_by(from) > REPORTED_MOST {
            return self.dismiss(from);
        }
        if is_complete {
            if let Some(census) = self.recovery.censuses.get_mut(&id) {
                census.asked.remove(&from);
            }
            self.go_on_and_start(now, id);
        } else {
            self.ask_for_more(now, id, from);
        }
    }

    /// These nodes are dead: nobody waits for their reports, or goes by them; what they were to inherit is orphaned.
    pub(super) fn recover_without(&mut self, now: Time, dead: &[Handle]) {
        for census in self.recovery.censuses.values_mut() {
            if let Scope::Slots(frozen) = &mut census.scope {
                frozen.forget(dead);
            }
            for handle in dead {
                census.asked.remove(handle);
                let Some(heir) = census.heirs.remove(handle) else { continue };
                if let Scope::Slots(_) = &census.scope {
                    for slot in heir.slots {
                        self.recovery.at.remove(&(census.namespace, slot));
                        self.recovery.queue.insert((census.namespace, slot));
                    }
                }
            }
        }
        self.start_censuses(now);
    }

    /// Takes every census as far as it goes.
    fn advance(&mut self, now: Time) {
        if core::mem::take(&mut self.recovery.exhausted) {
            self.raise_epoch(now);
            return;
        }
        let ids: Vec<u64> = self.recovery.censuses.keys().copied().collect();
        for id in ids {
            self.go_on(now, id);
        }
        self.serve_if_recovered();
    }

    /// Takes a census as far as it goes. When it is over the switch may serve.
    fn go_on(&mut self, now: Time, id: u64) {
        let Some(mut census) = self.recovery.censuses.remove(&id) else { return };
        let hasty = self.config.is_broken(Mutant::HastyCensus) && census.asked.len() <= 1;
        if census.phase == Phase::Asking && (census.asked.is_empty() || hasty) {
            census.phase = Phase::Writing;
        }
        if census.phase == Phase::Writing {
            if self.decide(now, &mut census) {
                census.phase = Phase::Adopting;
            } else {
                self.next_tick = now;
            }
        }
        if census.phase == Phase::Adopting && census.heirs.is_empty() {
            return self.serve_if_recovered();
        }
        let adopting = census.phase == Phase::Adopting;
        let heirs: Vec<Handle> = census.heirs.keys().copied().filter(|_| adopting).collect();
        self.recovery.censuses.insert(id, census);
        for heir in heirs {
            self.send_more(now, id, heir);
        }
    }

    /// The same; when it is over others begin in its place.
    fn go_on_and_start(&mut self, now: Time, id: u64) {
        self.go_on(now, id);
        if !self.recovery.queue.is_empty() && !self.recovery.censuses.contains_key(&id) {
            self.start_censuses(now);
        }
    }

    /// All have answered: who inherits what. False: there is more to be done.
    fn decide(&mut self, now: Time, census: &mut Census) -> bool {
        let Scope::Slots(frozen) = &mut census.scope else { return self.write(now, census) };
        let mut slots: BTreeMap<u32, Books> = frozen.tenures.keys().map(|slot| (*slot, Books::default())).collect();
        frozen.reported.clear();
        for entry in frozen.found.drain(..) {
            let Some(books) = slots.get_mut(&entry.slot) else { continue };
            if entry.flags & entry_flag::HELD != 0 {
                let is_meant = self.is_alive(&entry) && !self.config.is_broken(Mutant::ForgetHolds);
                books.holds.extend(is_meant.then_some(entry));
            } else if entry.flags & entry_flag::AGENCY != 0 {
                books.agent = books.agent.max(Some((entry.tenure, entry.holder)));
            }
        }
        let mut unheld = Vec::new();
        for (slot, books) in slots {
            let tenure = frozen.tenures[&slot];
            match books.heir() {
                Some(handle) => {
                    let heir = census.heirs.entry(handle).or_insert_with(|| Heir::new(now));
                    heir.adopt(slot, tenure + 1, handle, &books);
                }
                None => unheld.push((slot, tenure)),
            }
        }
        for heir in census.heirs.values_mut() {
            heir.pages = Pages::new(Some(heir.count()), now);
        }
        for (slot, tenure) in unheld {
            self.unfreeze(census.namespace, slot, tenure, None);
        }
        true
    }

    /// Whether the holder still lives, in the incarnation that it was granted to.
    pub(super) fn is_alive(&self, hold: &Entry) -> bool {
        self.sessions.is_live(hold.holder)
            && self.sessions.get(hold.holder).is_some_and(|session| {
                request_id::incarnation(hold.request) == session.record.incarnation as u32 & 0xff_ffff
            })
    }

    /// Sends pages as long as more may be under way.
    fn send_more(&mut self, now: Time, id: u64, to: Handle) {
        let Some(census) = self.recovery.censuses.get_mut(&id) else { return };
        let window = window(census.heirs.len());
        let Some(heir) = census.heirs.get_mut(&to) else { return };
        let mut pages: Vec<u16> = heir.pages.overtaken().into_iter().collect();
        pages.extend(core::iter::from_fn(|| heir.pages.ask(window)));
        if !pages.is_empty() {
            heir.pages.due = now + self.config.retransmit;
        }
        for page in pages {
            self.send_adopt(id, to, page);
        }
    }

    fn send_adopt(&mut self, id: u64, to: Handle, page: u16) {
        let heir = self.recovery.censuses.get(&id).and_then(|census| census.heirs.get(&to));
        let Some(heir) = heir else { return };
        let last = u32::from(page) + 1 == heir.count();
        let flags = if last { header_flag::LAST } else { 0 };
        let header = Header { kind: kind::lock::ADOPT, position: page, flags, ..Header::default() };
        let about = Entry { request: id, ..heir.about };
        let entries = heir.entries.iter().skip(usize::from(page) * PAGE).take(PAGE).copied();
        let entries: Vec<Entry> = core::iter::once(about).chain(entries).collect();
        self.send_entries(to, header, entries.into_iter());
    }

    pub(super) fn on_adopted(&mut self, now: Time, header: &Header, mut entries: impl Iterator<Item = Entry>) {
        let Some(Entry { request: id, .. }) = entries.next() else { return };
        let Some(census) = self.recovery.censuses.get_mut(&id).filter(|census| census.phase == Phase::Adopting) else {
            return;
        };
        let Some(heir) = census.heirs.get_mut(&header.source) else { return };
        if !heir.pages.take(header.position, false, &self.config) {
            return;
        }
        if !heir.pages.are_complete(&self.config) {
            return self.send_more(now, id, header.source);
        }
        let Some(heir) = census.heirs.remove(&header.source) else { return };
        let namespace = census.namespace;
        let unfrozen: Vec<(u32, u32)> = match &census.scope {
            Scope::Slots(frozen) => heir.slots.iter().map(|slot| (*slot, frozen.tenures[slot])).collect(),
            Scope::All(_) => Vec::new(),
        };
        for (slot, tenure) in unfrozen {
            self.unfreeze(namespace, slot, tenure, Some(header.source));
        }
        let holders: BTreeSet<Handle> = heir.entries.iter().map(|entry| entry.holder).collect();
        self.announce_again(now, header.source, &holders);
        self.go_on_and_start(now, id);
    }

    fn unfreeze(&mut self, namespace: u16, slot: u32, frozen_at: u32, agent: Option<Handle>) {
        let frozen = self.memory.load_slot(namespace, slot);
        debug_assert_eq!((frozen.state, frozen.tenure), (SlotState::Frozen, frozen_at));
        let word = recovered(agent, frozen_at + 1);
        let unfrozen = self.memory.cas_slot(namespace, slot, frozen, word);
        debug_assert!(unfrozen, "nobody else changes a frozen slot");
        self.recovery.at.remove(&(namespace, slot));
        self.notices.push_back(Notice::Recovered(namespace, slot, agent));
    }

    fn serve_if_recovered(&mut self) {
        let rebuilding = self.recovery.censuses.values().any(|census| matches!(census.scope, Scope::All(_)));
        let is_due = (rebuilding || self.recovery.all_due) && !self.config.is_broken(Mutant::HastyServing);
        // Before it has looked at the switch, a controller does not know what is due there: the one before it may have
        // died over an epoch that it had just begun.
        if !is_due && !self.memory.serving() && self.is_booted() {
            self.memory.set_serving(true);
            self.patrol.hurry();
            self.notices.push_back(Notice::Serving(self.counters.epoch));
        }
    }
}

/// How often a node is asked in vain: for its lease and grace.
pub(super) fn questions_most(record: Option<&SessionRecord>, pause: u64) -> u32 {
    let patience = record.map_or(0, |record| u64::from(record.lease) + u64::from(record.grace));
    u32::try_from(patience.div_ceil(pause).max(QUESTIONS)).unwrap_or(u32::MAX)
}

/// A slot after its recovery.
pub(super) fn recovered(agent: Option<Handle>, tenure: u32) -> SlotWord {
    match agent {
        Some(agent) => SlotWord { state: SlotState::Managed, transferred: true, agent, ..SlotWord::unheld(tenure) },
        None => SlotWord::unheld(tenure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_is_at_a_census_waits_for_no_other() {
        let mut recovery = Recovery { at: BTreeSet::from([(1, 5)]), ..Recovery::default() };
        for (namespace, slot) in [(1, 5), (1, 6), (2, 5)] {
            recovery.queue(namespace, slot);
        }
        assert_eq!(recovery.queue, BTreeSet::from([(1, 6), (2, 5)]));
    }

    #[test]
    fn a_namespace_whose_censuses_never_end_keeps_no_other_from_its_own() {
        let mut recovery = Recovery::default();
        let census = |namespace| Census::of(namespace, Scope::Slots(Frozen::default()));
        (0..100).for_each(|slot| recovery.queue(1, slot));
        recovery.queue(2, 7);
        for id in 0..MAX_CENSUSES as u64 {
            assert_eq!(recovery.next_namespace(), Some(1));
            recovery.censuses.insert(id, census(1));
        }
        assert_eq!(recovery.next_namespace(), Some(2), "the first has its share");
        recovery.queue.remove(&(2, 7));
        assert_eq!(recovery.next_namespace(), None);
        recovery.censuses.remove(&0);
        assert_eq!(recovery.next_namespace(), Some(1));
    }
}
