//! Recovery, the one procedure for everything that breaks a slot: freeze, census, adopt, unfreeze.
//!
//! ```text
//!            queue ──freeze──► ASKING every live node ──all answered or dead──► ADOPTING by the heirs ──► unfrozen
//!   (namespace, slot)          up to 32 slots a census     (nobody holds: UNHELD at once)    │ heir dies
//!       ▲                                                                                    ▼
//!       └──────────────────────────────────────────────────────────────────── back to the queue, frozen
//!   all slots: the same; instead of unfreezing, every slot is WRITTEN when all heirs are done, then the switch serves
//! ```
//!
//! Invariants: a slot is at most at one census (`at`), and FROZEN as long as it is. A freeze raises the tenure to F,
//! which is the census's stamp; the heir is agent at F + 1. So a later freeze (F + 1 or more) covers an heir that
//! took office before its controller died. All slots are recovered only while the switch does not serve, under a
//! fresh epoch; their heirs are agents at tenure 1 of it.

use super::{Controller, Notice, Store};
use crate::memory::{SlotWord, SwitchMemory};
use crate::{Handle, Mutant, Time};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use wayside_wire::{Entry, Header, SlotBits, SlotState, entry_flag, header_flag, kind, limits, request_id};

/// Censuses at a time, each of up to 32 slots: 2,048 slots under way, and a packet per node and census.
const MAX_CENSUSES: usize = 64;
/// Entries of a REPORT or ADOPT after the one that names the census.
const PAGE: usize = limits::MAX_ENTRIES - 1;
/// So many times what a tick looks at while the switch serves, it writes before that.
const REBUILT_AT_ONCE: u32 = 16;
/// Tenure of an heir after all slots were recovered; everybody else starts at 0.
const FIRST_HEIR: u32 = 1;

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

struct Census {
    namespace: u16,
    scope: Scope,
    /// Nodes whose report is not complete.
    asked: BTreeMap<Handle, Asked>,
    holds: Vec<Entry>,
    /// Agents that nodes reported: (slot, tenure, node).
    agents: Vec<(u32, u32, Handle)>,
    heirs: BTreeMap<Handle, Heir>,
    phase: Phase,
}

enum Scope {
    /// Frozen slots, and the tenure that they were frozen at.
    Slots(BTreeMap<u32, u32>),
    All(Rebuilt),
}

/// What becomes of all slots: those not mentioned are unheld.
#[derive(Default)]
struct Rebuilt {
    agents: BTreeMap<u32, Handle>,
    /// Their heir died before it was told everything: they stay frozen, for a census of their own.
    orphaned: BTreeSet<u32>,
    next: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Asking,
    Adopting,
    Writing,
}

pub(super) struct Asked {
    pub page: u16,
    pub due: Time,
}

/// A node that becomes the agent of slots.
struct Heir {
    slots: Vec<u32>,
    /// Per slot one entry for the agency, then its holds.
    entries: Vec<Entry>,
    page: u16,
    due: Time,
}

impl Heir {
    fn pages(&self) -> usize {
        self.entries.len().div_ceil(PAGE)
    }
}

/// What the reports say of a slot.
#[derive(Default)]
struct Books {
    /// Tenure and node of the youngest agent.
    agent: Option<(u32, Handle)>,
    holds: Vec<Entry>,
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

    /// Every slot of every namespace at once. The switch does not serve.
    pub(super) fn recover_everything(&mut self, now: Time) {
        for index in 0..self.config.namespaces.len() {
            let namespace = self.config.namespaces[index].id;
            self.ask_everyone(now, namespace, Scope::All(Rebuilt::default()));
        }
        self.recovery.all_due = false;
        self.advance(now);
    }

    /// Sends again what is due, goes on with what can go on.
    pub(super) fn recover(&mut self, now: Time) {
        let mut questions = Vec::new();
        let mut pages = Vec::new();
        for (&id, census) in &mut self.recovery.censuses {
            for (&handle, asked) in census.asked.iter_mut().filter(|(_, asked)| now >= asked.due) {
                asked.due = now + self.config.retransmit;
                questions.push((id, handle));
            }
            for (&handle, heir) in census.heirs.iter_mut().filter(|(_, heir)| now >= heir.due) {
                heir.due = now + self.config.retransmit;
                pages.push((id, handle));
            }
        }
        for (id, handle) in questions {
            self.send_census(id, handle);
        }
        for (id, handle) in pages {
            self.send_adopt(id, handle);
        }
        self.advance(now);
    }

    /// Freezes slots from the queue, 32 to a census, as long as there may be more censuses.
    pub(super) fn start_censuses(&mut self, now: Time) {
        while self.recovery.censuses.len() < MAX_CENSUSES && self.memory.serving() {
            let Some(&(namespace, _)) = self.recovery.queue.first() else { break };
            let mut frozen = BTreeMap::new();
            while frozen.len() < limits::MAX_ENTRIES {
                let Some(&next) = self.recovery.queue.first().filter(|next| next.0 == namespace) else { break };
                self.recovery.queue.remove(&next);
                if let Some(tenure) = self.freeze(namespace, next.1) {
                    frozen.insert(next.1, tenure);
                    self.recovery.at.insert(next);
                    self.notices.push_back(Notice::Frozen(namespace, next.1));
                }
            }
            if !frozen.is_empty() {
                self.ask_everyone(now, namespace, Scope::Slots(frozen));
            }
        }
        self.advance(now);
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
        let census = Census {
            namespace,
            scope,
            asked: nodes.iter().map(|&handle| (handle, Asked { page: 0, due })).collect(),
            holds: Vec::new(),
            agents: Vec::new(),
            heirs: BTreeMap::new(),
            phase: Phase::Asking,
        };
        self.recovery.censuses.insert(id, census);
        for handle in nodes {
            self.send_census(id, handle);
        }
    }

    fn send_census(&mut self, id: u64, to: Handle) {
        let Some(census) = self.recovery.censuses.get(&id) else { return };
        let Some(asked) = census.asked.get(&to) else { return };
        let header = Header { kind: kind::lock::CENSUS, position: asked.page, ..Header::default() };
        let about = |slot, tenure| Entry { request: id, slot, tenure, ..Entry::default() };
        let questions: Vec<Entry> = match &census.scope {
            Scope::Slots(frozen) => frozen.iter().map(|(&slot, &tenure)| about(slot, tenure)).collect(),
            Scope::All(_) => Vec::from([about(limits::ALL_SLOTS, 0)]),
        };
        self.send_entries(to, header, questions.into_iter());
    }

    /// A page of what a node holds, asked for by its number: pages come in order, and each once.
    pub(super) fn on_report(&mut self, now: Time, header: &Header, mut entries: impl Iterator<Item = Entry>) {
        let Some(Entry { request: id, .. }) = entries.next() else { return };
        let Some(census) = self.recovery.censuses.get_mut(&id) else { return };
        let Some(asked) = census.asked.get_mut(&header.source).filter(|asked| asked.page == header.position) else {
            return;
        };
        for entry in entries {
            if entry.flags & entry_flag::HELD != 0 {
                census.holds.push(Entry { holder: header.source, ..entry });
            } else if entry.flags & entry_flag::AGENCY != 0 {
                census.agents.push((entry.slot, entry.tenure, header.source));
            }
        }
        if header.flags & header_flag::LAST != 0 || asked.page == u16::MAX {
            census.asked.remove(&header.source);
            self.advance(now);
        } else {
            asked.page += 1;
            asked.due = now + self.config.retransmit;
            self.send_census(id, header.source);
        }
    }

    /// These nodes are dead: nobody waits for their reports; what they were to inherit is orphaned.
    pub(super) fn recover_without(&mut self, now: Time, dead: &[Handle]) {
        for census in self.recovery.censuses.values_mut() {
            for handle in dead {
                census.asked.remove(handle);
                let Some(heir) = census.heirs.remove(handle) else { continue };
                match &mut census.scope {
                    Scope::All(rebuilt) => {
                        rebuilt.agents.retain(|_, agent| agent != handle);
                        rebuilt.orphaned.extend(heir.slots);
                    }
                    Scope::Slots(_) => {
                        for slot in heir.slots {
                            self.recovery.at.remove(&(census.namespace, slot));
                            self.recovery.queue.insert((census.namespace, slot));
                        }
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
            let Some(mut census) = self.recovery.censuses.remove(&id) else { continue };
            let hasty = self.config.is_broken(Mutant::HastyCensus) && census.asked.len() <= 1;
            if census.phase == Phase::Asking && (census.asked.is_empty() || hasty) {
                census.phase = Phase::Adopting;
                self.decide(now, &mut census);
            }
            let heirs: Vec<Handle> = census.heirs.keys().copied().collect();
            let fresh = census.phase == Phase::Adopting;
            if fresh && census.heirs.is_empty() {
                census.phase = Phase::Writing;
            }
            let done = census.phase == Phase::Writing && self.write(&mut census);
            if !done {
                self.recovery.censuses.insert(id, census);
                for heir in heirs {
                    self.send_first_page(now, id, heir);
                }
            }
        }
        self.serve_if_recovered();
    }

    /// All have answered: who inherits what.
    fn decide(&mut self, now: Time, census: &mut Census) {
        let mut slots: BTreeMap<u32, Books> = BTreeMap::new();
        for hold in census.holds.drain(..) {
            if self.is_alive(&hold) && !self.config.is_broken(Mutant::ForgetHolds) {
                slots.entry(hold.slot).or_default().holds.push(hold);
            }
        }
        for (slot, tenure, handle) in census.agents.drain(..) {
            if self.sessions.is_live(handle) {
                let books = slots.entry(slot).or_default();
                books.agent = books.agent.max(Some((tenure, handle)));
            }
        }
        if let Scope::Slots(frozen) = &census.scope {
            slots.retain(|slot, _| frozen.contains_key(slot));
            for (&slot, &tenure) in frozen.iter().filter(|(slot, _)| !slots.contains_key(slot)) {
                self.unfreeze(census.namespace, slot, tenure, None);
            }
        }
        for (slot, books) in slots {
            self.bequeath(now, census, slot, &books);
        }
    }

    /// Whether the holder still lives, in the incarnation that it was granted to.
    fn is_alive(&self, hold: &Entry) -> bool {
        self.sessions.is_live(hold.holder)
            && self.sessions.get(hold.holder).is_some_and(|session| {
                request_id::incarnation(hold.request) == session.record.incarnation as u32 & 0xff_ffff
            })
    }

    fn bequeath(&mut self, now: Time, census: &mut Census, slot: u32, books: &Books) {
        let first_holder = books.holds.first().map(|hold| hold.holder);
        let Some(handle) = books.agent.map(|(_, handle)| handle).or(first_holder) else { return };
        let tenure = match &mut census.scope {
            Scope::Slots(frozen) => frozen[&slot] + 1,
            Scope::All(rebuilt) => {
                rebuilt.agents.insert(slot, handle);
                FIRST_HEIR
            }
        };
        let word = SlotBits { state: SlotState::Managed, transferred: true, ..SlotBits::default() };
        let agency = Entry {
            slot,
            tenure,
            holder: handle,
            slot_bits: word.to_u16(),
            flags: entry_flag::AGENCY,
            ..Entry::default()
        };
        // A page has a number of 16 bits: what is beyond waits, frozen, for a census of its own.
        let has = census.heirs.get(&handle).map_or(0, |heir| heir.entries.len());
        if let Scope::All(rebuilt) = &mut census.scope
            && has + 1 + books.holds.len() > PAGE * usize::from(u16::MAX)
        {
            rebuilt.agents.remove(&slot);
            rebuilt.orphaned.insert(slot);
            return;
        }
        let heir = census.heirs.entry(handle).or_insert_with(|| Heir {
            slots: Vec::new(),
            entries: Vec::new(),
            page: 0,
            due: now,
        });
        heir.slots.push(slot);
        heir.entries.push(agency);
        heir.entries.extend(&books.holds);
    }

    fn send_first_page(&mut self, now: Time, id: u64, to: Handle) {
        let heir = self.recovery.censuses.get_mut(&id).and_then(|census| census.heirs.get_mut(&to));
        if let Some(heir) = heir.filter(|heir| heir.page == 0 && heir.due <= now) {
            heir.due = now + self.config.retransmit;
            self.send_adopt(id, to);
        }
    }

    fn send_adopt(&mut self, id: u64, to: Handle) {
        let heir = self.recovery.censuses.get(&id).and_then(|census| census.heirs.get(&to));
        let Some(heir) = heir else { return };
        let last = usize::from(heir.page) + 1 == heir.pages();
        let header = Header {
            kind: kind::lock::ADOPT,
            position: heir.page,
            flags: if last { header_flag::LAST } else { 0 },
            ..Header::default()
        };
        let about = Entry { request: id, ..Entry::default() };
        let page = heir.entries.iter().skip(usize::from(heir.page) * PAGE).take(PAGE).copied();
        let entries: Vec<Entry> = core::iter::once(about).chain(page).collect();
        self.send_entries(to, header, entries.into_iter());
    }

    pub(super) fn on_adopted(&mut self, now: Time, header: &Header, mut entries: impl Iterator<Item = Entry>) {
        let Some(Entry { request: id, .. }) = entries.next() else { return };
        let Some(census) = self.recovery.censuses.get_mut(&id) else { return };
        let Some(heir) = census.heirs.get_mut(&header.source).filter(|heir| heir.page == header.position) else {
            return;
        };
        if usize::from(heir.page) + 1 < heir.pages() {
            heir.page += 1;
            heir.due = now + self.config.retransmit;
            return self.send_adopt(id, header.source);
        }
        let Some(heir) = census.heirs.remove(&header.source) else { return };
        let namespace = census.namespace;
        let unfrozen: Vec<(u32, u32)> = match &census.scope {
            Scope::Slots(frozen) => heir.slots.iter().map(|slot| (*slot, frozen[slot])).collect(),
            Scope::All(_) => Vec::new(),
        };
        for (slot, tenure) in unfrozen {
            self.unfreeze(namespace, slot, tenure, Some(header.source));
        }
        let holders: BTreeSet<Handle> = heir.entries.iter().map(|entry| entry.holder).collect();
        self.announce_again(now, header.source, &holders);
        self.advance(now);
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

    /// All slots: writes the next ones, as many as a tick may. True when none is left.
    fn write(&mut self, census: &mut Census) -> bool {
        let Scope::All(rebuilt) = &mut census.scope else { return true };
        let count = self.memory.slot_count(census.namespace);
        // Everybody waits for this, and there is nothing else to do.
        let budget = self.config.slots_per_tick.saturating_mul(REBUILT_AT_ONCE);
        let end = count.min(rebuilt.next.saturating_add(budget));
        for slot in rebuilt.next..end {
            let word = if rebuilt.orphaned.contains(&slot) {
                self.recovery.queue.insert((census.namespace, slot));
                SlotWord { state: SlotState::Frozen, transferred: true, ..SlotWord::unheld(FIRST_HEIR) }
            } else if let Some(&agent) = rebuilt.agents.get(&slot) {
                recovered(Some(agent), FIRST_HEIR)
            } else {
                SlotWord::unheld(0)
            };
            loop {
                let former = self.memory.load_slot(census.namespace, slot);
                if former == word || self.memory.cas_slot(census.namespace, slot, former, word) {
                    break;
                }
            }
        }
        rebuilt.next = end;
        end == count
    }

    fn serve_if_recovered(&mut self) {
        let rebuilding = self.recovery.censuses.values().any(|census| matches!(census.scope, Scope::All(_)));
        let is_due = (rebuilding || self.recovery.all_due) && !self.config.is_broken(Mutant::HastyServing);
        if !is_due && !self.memory.serving() && self.memory.epoch() == self.counters.epoch {
            self.memory.set_serving(true);
            self.patrol.hurry();
            self.notices.push_back(Notice::Serving(self.counters.epoch));
        }
    }
}

/// A slot after its recovery.
fn recovered(agent: Option<Handle>, tenure: u32) -> SlotWord {
    match agent {
        Some(agent) => SlotWord { state: SlotState::Managed, transferred: true, agent, ..SlotWord::unheld(tenure) },
        None => SlotWord::unheld(tenure),
    }
}
