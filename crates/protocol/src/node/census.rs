//! The node's part in recovery: it reports what it holds, stops acting as agent, and takes over what it is told to.
//!
//! Invariants: once a census of a slot at some stamp was answered, this node takes no grant of that slot at or below
//! the stamp, and its agent of at most that stamp neither grants nor changes anything. An adopted agent acts only after
//! the switch has confirmed it (RENEW), so that a copy of an old ADOPT can do no harm.

use super::{Node, lock_entries};
use crate::agent::{Party, mode_flag};
use crate::books::Book;
use crate::lock::State;
use crate::map::{IdMap, SteadyMap};
use crate::mutant::Mutant;
use crate::{Mode, Stamp, Time, Token};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;
use wayside_wire::{BODY, DropReason, Entry, Header, SlotBits, entry_flag, header_flag, kind, limits, service};

/// Entries of a REPORT after the one that names the census.
const PAGE: usize = limits::MAX_ENTRIES - 1;
/// Reports of several pages that are kept for those who ask again. The controller has fewer censuses under way.
const REPORTS_MOST: usize = 256;

/// Answers that did not fit into one page: they must not change from page to page.
pub struct Reports {
    pages: IdMap<u64, Vec<Entry>>,
    order: VecDeque<u64>,
    /// Adoptions under way: the next page of each.
    adoptions: SteadyMap<u64, u16>,
    /// The last report of one page; its memory serves again.
    short: Vec<Entry>,
}

impl Default for Reports {
    fn default() -> Reports {
        Reports {
            pages: IdMap::default(),
            order: VecDeque::new(),
            adoptions: SteadyMap::with_room(),
            short: Vec::with_capacity(PAGE),
        }
    }
}

impl Reports {
    fn keep(&mut self, id: u64, report: Vec<Entry>) {
        if self.order.len() == REPORTS_MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.pages.remove(&oldest);
        }
        self.order.push_back(id);
        self.pages.insert(id, report);
    }
}

/// Which slots a census asks for, and up to which stamp.
struct Scope {
    /// None: for all of them, and everything of earlier epochs.
    slots: Option<[(u32, Stamp); limits::MAX_ENTRIES]>,
    count: usize,
    epoch: u32,
}

impl Scope {
    fn all(epoch: u32) -> Scope {
        Scope { slots: None, count: 0, epoch }
    }

    fn of(epoch: u32, packet: &[u8]) -> Scope {
        let mut slots = [(0, Stamp::default()); limits::MAX_ENTRIES];
        let mut count = 0;
        for (place, entry) in slots.iter_mut().zip(lock_entries(packet)) {
            *place = (entry.slot, Stamp { epoch, tenure: entry.tenure });
            count += 1;
        }
        Scope { slots: Some(slots), count, epoch }
    }

    fn stamp(&self, slot: u32) -> Option<Stamp> {
        match &self.slots {
            // Slots begin again at tenure 0.
            None => Some(Stamp { epoch: self.epoch.saturating_sub(1), tenure: limits::MAX_TENURE }),
            Some(slots) => slots[..self.count].iter().find(|(of, _)| *of == slot).map(|(_, stamp)| *stamp),
        }
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
            self.session.raise_epoch(header.epoch);
            if let Some(sealer) = &mut self.sealer {
                sealer.raise_epoch(header.epoch);
            }
        }
        let id = first.request;
        if header.position == 0 && !self.reports.pages.contains_key(&id) {
            let scope = if all { Scope::all(header.epoch) } else { Scope::of(header.epoch, packet) };
            self.suspend(now, &scope);
            let mut report = mem::take(&mut self.reports.short);
            self.report(&scope, &mut report);
            if report.len() <= PAGE {
                self.send_report(id, 0, true, &report);
                self.reports.short = report;
                return Ok(());
            }
            self.reports.keep(id, report);
        }
        self.send_kept_page(id, header.position);
        Ok(())
    }

    fn send_kept_page(&mut self, id: u64, page: u16) {
        let Some(report) = self.reports.pages.get(&id) else { return };
        let from = usize::from(page) * PAGE;
        if from >= report.len() {
            return;
        }
        let to = report.len().min(from + PAGE);
        let (entries, last) = (report[from..to].to_vec(), to == report.len());
        self.send_report(id, page, last, &entries);
    }

    fn send_report(&mut self, id: u64, page: u16, last: bool, found: &[Entry]) {
        let mut batch = [Entry::default(); limits::MAX_ENTRIES];
        batch[0] = Entry { request: id, holder: self.handle(), ..Entry::default() };
        batch[1..=found.len()].copy_from_slice(found);
        let flags = if last { header_flag::LAST } else { 0 };
        let header = Header { flags, position: page, ..self.session.header(service::LOCK, kind::lock::REPORT, 0) };
        self.out.entries(0, header, &batch[..=found.len()]);
    }

    /// Agents stop, claims are withdrawn, floors rise.
    fn suspend(&mut self, now: Time, scope: &Scope) {
        let forget = self.session.info().map_or(now, |info| now + 2 * (info.lease + info.grace));
        if let Some(slots) = &scope.slots {
            for &(slot, stamp) in &slots[..scope.count] {
                self.suspend_slot(slot, stamp, forget);
            }
            return;
        }
        let slots = self.agency.slots();
        for &slot in &slots {
            if let Some(stamp) = scope.stamp(slot) {
                self.suspend_slot(slot, stamp, forget);
            }
        }
        self.agency.put_slots_away(slots);
    }

    fn suspend_slot(&mut self, slot: u32, stamp: Stamp, forget: Time) {
        let Some(book) = self.agency.get(slot) else { return };
        if book.agent.as_ref().is_some_and(|agent| agent.stamp > stamp) {
            return;
        }
        book.suspend(forget);
        if !self.config.is_broken(Mutant::CensusKeepsFloors) {
            self.raise_floors(Some(slot), stamp);
        }
        self.settle_book(slot);
    }

    /// Holds and agents of the slots asked for, as entries.
    fn report(&self, scope: &Scope, found: &mut Vec<Entry>) {
        let me = self.handle();
        found.clear();
        found.extend(self.requests.iter().filter_map(|(id, request)| {
            let State::Held { token, downgrading, .. } = request.state else { return None };
            scope.stamp(request.slot)?;
            // The old agent may have admitted readers already.
            let mode = if downgrading { Mode::Shared } else { request.mode };
            Some(Entry {
                name: request.name,
                request: id.0,
                slot: request.slot,
                tenure: token.stamp().tenure,
                holder: me,
                reply_port: request.port,
                slot_bits: 0,
                flags: entry_flag::HELD | mode_flag(mode),
                sequence: token.sequence(),
            })
        }));
        found.sort_unstable_by_key(|entry| (entry.slot, entry.request));
        let agents = found.len();
        found.extend(self.agency.books.iter().filter_map(|(slot, book)| {
            let agent = book.agent.as_ref().filter(|agent| agent.suspended)?;
            scope.stamp(slot).filter(|stamp| agent.stamp <= *stamp)?;
            let flags = entry_flag::AGENCY;
            Some(Entry { slot, tenure: agent.stamp.tenure, holder: me, flags, ..Entry::default() })
        }));
        found[agents..].sort_unstable_by_key(|entry| entry.slot);
    }

    /// ADOPT: be the agent of these slots, with these holders. AGENCY entries name a slot, HELD ones its holders; the
    /// last page makes it true.
    pub(super) fn on_adopt(&mut self, now: Time, header: &Header, packet: &[u8]) {
        let id = Entry::read(packet, BODY).request;
        let next = self.reports.adoptions.get(&id).copied().unwrap_or(0);
        if header.position > next {
            return;
        }
        if header.position == next {
            for entry in lock_entries(packet).skip(1) {
                if entry.flags & entry_flag::AGENCY != 0 {
                    self.prepare_adoption(now, id, &entry);
                } else if let Some(agent) = self.agency.get(entry.slot).and_then(|b| b.agent.as_mut()) {
                    let token = Token::new(Stamp { epoch: header.epoch, tenure: entry.tenure }, entry.sequence);
                    agent.adopt_holder(id, Party { token, tries: false, ..Party::from_entry(&entry) });
                }
            }
            self.reports.adoptions.insert(id, next + 1);
        }
        let about = Entry { request: id, slot: limits::ALL_SLOTS, ..Entry::default() };
        self.send(0, kind::lock::ADOPTED, 0, header.position, about);
        if header.flags & header_flag::LAST != 0 {
            self.reports.adoptions.remove(&id);
            self.finish_adoptions(now, id);
        }
    }

    /// The agent that was suspended, or a new one, waits for its holders. Nothing if this node is past that tenure.
    fn prepare_adoption(&mut self, now: Time, id: u64, entry: &Entry) {
        let (stamp, bits) = self.snapshot(entry);
        let slot = entry.slot;
        let forget = self.session.info().map_or(now, |info| now + 2 * (info.lease + info.grace));
        let kept = self.agency.get(slot).and_then(|book| book.agent.as_ref()).map(|a| (a.suspended, a.stamp));
        match kept {
            Some((_, acting)) if acting >= stamp => return,
            Some((true, _)) => {}
            _ => {
                let mut agent = self.agency.new_agent();
                agent.reset(slot, Stamp::default(), SlotBits::default());
                agent.suspend();
                self.replace_agent(slot, agent);
            }
        }
        let book = self.agency.book(slot);
        book.forget = Some(forget);
        if let Some(agent) = &mut book.agent {
            agent.prepare_adoption(id, stamp, bits);
        }
        self.settle_book(slot);
    }

    fn finish_adoptions(&mut self, now: Time, id: u64) {
        let slots = self.agency.slots();
        let mut first = 0;
        for &slot in &slots {
            let adopts = |book: &Book| book.agent.as_ref().is_some_and(|agent| agent.adopts(id));
            if self.agency.books.get(slot).is_some_and(adopts) {
                self.agency.book(slot).forget = None;
                self.raise_floors_of_adoption(slot);
                self.with_agent(now, slot, 0, |agent, desk| agent.resume(first, desk));
                first += 1;
            }
        }
        self.agency.put_slots_away(slots);
    }

    /// Whatever was granted before the adoption is either among its holders or void.
    fn raise_floors_of_adoption(&mut self, slot: u32) {
        let stamp = self.agency.get(slot).and_then(|b| b.agent.as_ref()).and_then(|a| a.adoption_stamp());
        if let Some(stamp) = stamp {
            self.raise_floors(Some(slot), stamp);
        }
    }
}
