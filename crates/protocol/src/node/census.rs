//! The node's part in a census: it stops acting as agent, and reports what it holds.
//!
//! Invariants: once a census of a slot at some stamp was answered, this node takes no grant of that slot at or below
//! the stamp, and its agent of at most that stamp neither grants nor changes anything. What was reported does not
//! change from page to page, whichever are asked for, and how often. Every hold is in it; an agent only if it keeps
//! more than its node's own hold, which says as much: whoever reports the only hold of a slot becomes its agent.

use super::recent::Recent;
use super::{Node, lock_entries};
use crate::agent::{Duty, mode_flag};
use crate::books::Books;
use crate::lock::{Request, State};
use crate::mutant::Mutant;
use crate::{Mode, RequestId, Stamp, Time};
use alloc::vec::Vec;
use core::mem;
use wayside_wire::{BODY, DropReason, Entry, Header, entry_flag, header_flag, kind, limits, service};

/// Entries of a REPORT after the one that names the census.
const PAGE: usize = limits::MAX_ENTRIES - 1;

/// Answers that did not fit into one page.
pub struct Reports {
    /// For whoever asks for a page of them: while one of a census is under way again and again, thousands of others
    /// begin and end.
    pages: Recent<Vec<Entry>>,
    /// To the census of all slots.
    whole: Option<Whole>,
    /// The last report of one page; its memory serves again.
    short: Vec<Entry>,
}

/// The answer to a census of all slots.
struct Whole {
    id: u64,
    report: Vec<Entry>,
    /// What was reported has been adopted, or left to others: nobody asks again.
    over: bool,
}

impl Default for Reports {
    fn default() -> Reports {
        Reports { pages: Recent::new(), whole: None, short: Vec::with_capacity(PAGE) }
    }
}

impl Reports {
    /// All nodes have answered this census: what follows from it is told already.
    pub fn forget(&mut self, id: u64) {
        self.pages.remove(id);
    }

    /// What was told this census of all slots, if nothing has come of it yet. It is over then.
    pub fn take_whole(&mut self, id: u64) -> Option<Vec<Entry>> {
        let whole = self.whole.as_mut().filter(|whole| whole.id == id && !whole.over)?;
        whole.over = true;
        Some(mem::take(&mut whole.report))
    }

    /// Whether this census of all slots was answered, and nothing has come of it yet.
    pub fn awaits_whole(&self, id: u64) -> bool {
        self.whole.as_ref().is_some_and(|whole| whole.id == id && !whole.over)
    }
}

/// Which slots a census asks for, and up to which stamp.
struct Scope {
    slots: [(u32, Stamp); limits::MAX_ENTRIES],
    count: usize,
}

impl Scope {
    fn of(epoch: u32, packet: &[u8]) -> Scope {
        let mut scope = Scope { slots: [(0, Stamp::default()); limits::MAX_ENTRIES], count: 0 };
        for (place, entry) in scope.slots.iter_mut().zip(lock_entries(packet)) {
            *place = (entry.slot, Stamp { epoch, tenure: entry.tenure });
            scope.count += 1;
        }
        scope
    }

    fn slots(&self) -> &[(u32, Stamp)] {
        &self.slots[..self.count]
    }

    fn stamp(&self, slot: u32) -> Option<Stamp> {
        self.slots().iter().find(|(of, _)| *of == slot).map(|(_, stamp)| *stamp)
    }
}

impl Node {
    /// CENSUS: what do you hold in these slots? From the answer on, nothing of their past counts.
    pub(super) fn on_census(&mut self, now: Time, header: &Header, packet: &[u8]) -> Result<(), DropReason> {
        let first = Entry::read(packet, BODY);
        let all = first.slot == limits::ALL_SLOTS;
        if header.epoch < self.epoch() || (!all && header.epoch != self.epoch()) {
            return Err(DropReason::StaleEpoch);
        }
        if header.epoch > self.epoch() {
            self.session.raise_epoch(now, header.epoch);
            self.frees.are_heard();
            self.turn = 0;
            if let Some(sealer) = &mut self.sealer {
                sealer.raise_epoch(header.epoch);
            }
            // The operator has given the namespace another engine, which knows nothing of what is held by this one; or
            // other names have their queue in the switch, of which this node would ask in the wrong place.
            if all && (self.has_another_engine(first.sequence) || self.has_other_names(first.name)) {
                self.lose_session(now);
                return Ok(());
            }
            if self.has_queues() {
                self.begin_queue_epoch(now);
                // Who held something has become silent: an answer would say that nobody relies on it any more.
                if !self.session.is_live() {
                    return Ok(());
                }
            }
        }
        if all {
            self.on_census_of_all(now, first.request, header.position);
            // After a turn of this epoch only turns tell who serves: this may be of the one before, and late.
            self.called = self.turn == 0 && self.reports.awaits_whole(first.request);
        } else {
            self.on_census_of_some(now, first.request, header.position, &Scope::of(header.epoch, packet));
        }
        Ok(())
    }

    fn on_census_of_some(&mut self, now: Time, id: u64, page: u16, scope: &Scope) {
        let until = self.forgotten_by(now);
        if page == 0 && !self.reports.pages.has(id) {
            if self.config.is_broken(Mutant::ForgetReports) {
                self.reports.pages.clear();
            }
            self.suspend(now, scope);
            let mut report = mem::take(&mut self.reports.short);
            self.report_some(scope, &mut report);
            if report.len() <= self.page_entries() {
                self.send_page(id, 0, 0, &report);
                self.reports.short = report;
                return;
            }
            self.reports.pages.keep(now, until, id, report);
        }
        if let Some(report) = self.reports.pages.recall(until, id).map(mem::take) {
            self.send_page(id, page, 0, &report);
            if let Some(kept) = self.reports.pages.recall(until, id) {
                *kept = report;
            }
        }
    }

    fn on_census_of_all(&mut self, now: Time, id: u64, page: u16) {
        let known = self.reports.whole.as_ref().map(|whole| whole.id);
        if page == 0 && known.is_none_or(|known| known < id) {
            self.suspend_all(now);
            // Those before it are of an earlier epoch.
            self.reports.pages.clear();
            let report = self.report_all();
            self.reports.whole = Some(Whole { id, report, over: false });
        }
        if let Some(whole) = self.reports.whole.take() {
            if whole.id == id && !whole.over {
                // That this node may be told what it adopts in one entry.
                self.send_page(id, page, entry_flag::AGENCY, &whole.report);
            }
            self.reports.whole = Some(whole);
        }
    }

    /// REPORT: a page of it, if there is one of that number.
    fn send_page(&mut self, id: u64, page: u16, flags: u8, report: &[Entry]) {
        let from = usize::from(page) * self.page_entries();
        if from >= report.len() && page > 0 {
            return;
        }
        let found = &report[from..report.len().min(from + self.page_entries())];
        let last = from + found.len() == report.len();
        let mut batch = [Entry::default(); limits::MAX_ENTRIES];
        batch[0] = Entry { request: id, holder: self.handle(), flags, ..Entry::default() };
        batch[1..=found.len()].copy_from_slice(found);
        let flags = if last { header_flag::LAST } else { 0 };
        let header = Header { flags, position: page, ..self.session.header(service::LOCK, kind::lock::REPORT, 0) };
        self.out.entries(0, header, &batch[..=found.len()]);
    }

    fn page_entries(&self) -> usize {
        self.config.page_entries.clamp(1, PAGE)
    }

    /// When a suspended agent that nobody adopts is forgotten, and what was told of a census that nobody asks about any
    /// more. A controller that waits for this node would have given up long before.
    pub(super) fn forgotten_by(&self, now: Time) -> Time {
        self.session.info().map_or(now, |info| now + 2 * (info.lease + info.grace))
    }

    // ---- agents stop, claims are withdrawn, floors rise ----

    fn suspend(&mut self, now: Time, scope: &Scope) {
        let forget = self.forgotten_by(now);
        let mut some_wait = false;
        for &(slot, stamp) in scope.slots() {
            some_wait |= self.agency.books.get(slot).is_some_and(|book| book.waits > 0);
            self.suspend_slot(slot, stamp, forget);
        }
        if some_wait {
            self.raise_floors_at_census(|_, slot| scope.stamp(slot));
        }
        for &(slot, _) in scope.slots() {
            self.settle_book(slot);
        }
    }

    /// Of all slots: whatever is of an earlier epoch. Slots begin again at tenure 0.
    fn suspend_all(&mut self, now: Time) {
        let past = Stamp { epoch: self.epoch().saturating_sub(1), tenure: limits::MAX_TENURE };
        let forget = self.forgotten_by(now);
        let slots = self.agency.slots_of(|book| !book.plain);
        for &slot in &slots {
            self.suspend_slot(slot, past, forget);
        }
        let mut some_wait = false;
        for place in self.agency.books.places() {
            let book = self.agency.books.at_mut(place);
            some_wait |= book.waits > 0;
            let Some(sole) = book.sole.as_mut().filter(|sole| sole.stamp <= past) else { continue };
            if let Duty::Keep { .. } = sole.duty {
                sole.suspended = true;
                continue;
            }
            if matches!(sole.duty, Duty::Rest) && self.config.is_broken(Mutant::RestThroughCensus) {
                continue;
            }
            // Nobody holds: to be told of by nobody, the slot is free.
            book.sole = None;
            book.due = Time::NEVER;
            if book.waits == 0 {
                self.agency.close(place);
            }
        }
        if some_wait {
            self.raise_floors_at_census(|_, _| Some(past));
        }
        for &slot in &slots {
            self.settle_book(slot);
        }
        self.agency.put_slots_away(slots);
        self.adoptions.forget_by(forget);
    }

    fn suspend_slot(&mut self, slot: u32, stamp: Stamp, forget: Time) {
        let Some(book) = self.agency.get(slot) else { return };
        if book.agent.as_ref().is_none_or(|agent| agent.stamp <= stamp) {
            book.suspend(forget);
        }
    }

    fn raise_floors_at_census(&mut self, stamp_of: impl Fn(&Books, u32) -> Option<Stamp>) {
        if !self.config.is_broken(Mutant::CensusKeepsFloors) {
            self.raise_floors_of(stamp_of);
        }
    }

    // ---- what is held ----

    /// Holds and agents of the slots asked for.
    fn report_some(&mut self, scope: &Scope, found: &mut Vec<Entry>) {
        found.clear();
        if self.requests.len() > self.config.scanned_most {
            self.held.prepare(&self.requests);
            let ids = scope.slots().iter().flat_map(|(slot, _)| self.held.in_slot(*slot));
            found.extend(ids.filter_map(|id| as_entry(id, self.requests.get(id)?, self.handle())));
        } else {
            found.extend(self.everything_held().filter(|hold| scope.stamp(hold.slot).is_some()));
        }
        found.sort_unstable_by_key(|hold| (hold.slot, hold.request));
        found.extend(scope.slots().iter().filter_map(|&(slot, stamp)| self.suspended_agent(slot, stamp)));
    }

    /// Holds and agents of all slots.
    fn report_all(&mut self) -> Vec<Entry> {
        let mut found = Vec::with_capacity(self.requests.len());
        found.extend(self.everything_held());
        let latest = Stamp { epoch: self.epoch(), tenure: limits::MAX_TENURE };
        let slots = self.agency.slots_of(|book| !book.plain);
        found.extend(slots.iter().filter_map(|&slot| self.suspended_agent(slot, latest)));
        self.agency.put_slots_away(slots);
        found
    }

    fn everything_held(&self) -> impl Iterator<Item = Entry> + '_ {
        let me = self.handle();
        self.requests.iter().filter_map(move |(RequestId(id), request)| as_entry(id, request, me))
    }

    /// The agent of this slot, if it is of at most this stamp, and more is to be known of it than the hold of its own
    /// node that is reported anyway.
    fn suspended_agent(&self, slot: u32, most: Stamp) -> Option<Entry> {
        let me = self.handle();
        let agent = self.agency.books.get(slot)?.agent.as_ref()?;
        let is_meant = agent.suspended && agent.stamp <= most && !agent.is_alone(me);
        let (flags, tenure) = (entry_flag::AGENCY, agent.stamp.tenure);
        is_meant.then(|| Entry { slot, tenure, holder: me, flags, ..Entry::default() })
    }
}

/// A hold as its node reports it.
fn as_entry(id: u64, request: &Request, me: u16) -> Option<Entry> {
    let State::Held { token, downgrading, .. } = request.state else { return None };
    // The old agent may have admitted readers already.
    let mode = if downgrading { Mode::Shared } else { request.mode };
    Some(Entry {
        name: request.name,
        request: id,
        slot: request.slot,
        tenure: token.stamp().tenure,
        holder: me,
        reply_port: request.port,
        slot_bits: 0,
        flags: entry_flag::HELD | mode_flag(mode),
        sequence: token.sequence(),
    })
}
