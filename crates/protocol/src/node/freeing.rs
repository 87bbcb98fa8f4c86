//! Slots that nobody else wants are given back by FREE, of which the switch tells as little as it can.
//!
//! ```text
//!   released ── FREE QUIET ──────────────────────────> freed, and nobody is told
//!      ...      at most 31 in a row, none long after the one before
//!   released ── FREE, of it and of all those ────────> FREED: each slot as it is
//! ```
//!
//! The answer is to make good for lost packets, and for joins that were on their way: it can come for many at once. Who
//! takes and gives back one lock after another sends and gets three packets for each instead of four. Until it is
//! told, a book is as one whose RETENURE *free* is not answered yet. What comes for the slot meanwhile, because it has
//! crossed the FREE or that was lost, is kept, and the switch is asked at once.
//!
//! Invariants
//! * Of what went quietly and is not known to be free each is in `quiet`, or has been asked about since; the timer of
//!   its slot asks in any case.
//! * A packet of several slots is never quiet, nor is one of a slot that somebody of this node waits for.
//! * Who hears of no FREE for 127 times the first pause (the switch is of before 1.14) asks by RETENURE, of one slot at
//!   a time. Until then slots that are asked about again at the same time share a packet: of 100,000 that were given
//!   back, each asked about for itself, a switch that has much to do is asked faster than it answers.

use super::{Node, lock_entries};
use crate::agent::{Duty, Sole};
use crate::books::Place;
use crate::mutant::Mutant;
use crate::timers::Due;
use crate::{Port, Stamp, Time};
use wayside_wire::{Entry, Header, MAJOR, header_flag, kind, limits, service};

/// Slots that were freed quietly, at most: with one more they fill a packet.
const QUIET_MOST: usize = limits::MAX_ENTRIES - 1;
/// Pauses in a row with questions that nobody answers, each twice as long as the one before, after which it is by
/// RETENURE alone: a switch of an earlier version serves. Of those that give back thousands at once, and read nothing
/// meanwhile, it is one.
const UNHEARD_MOST: u8 = 8;
/// The first minor version of [`MAJOR`] whose switches know FREE.
const KNOWN_SINCE: u8 = 14;

/// What has been freed and not been heard of.
pub(super) struct Frees {
    /// Slots, each with the nonce of its change.
    quiet: [(u32, u64); QUIET_MOST],
    count: usize,
    /// When the last one was freed.
    last: Time,
    /// Pauses in which something was asked since the last answer, and when the latest of them began.
    unheard: u8,
    asked: Time,
}

impl Default for Frees {
    fn default() -> Frees {
        Frees { quiet: [(0, 0); QUIET_MOST], count: 0, last: Time(0), unheard: 0, asked: Time(0) }
    }
}

impl Frees {
    /// Of a session that is over nothing is to be asked any more.
    pub(super) fn forget(&mut self) {
        (self.count, self.unheard) = (0, 0);
    }

    /// The switch is asked: another pause, if the one before is over. `first`: as long as that was.
    fn are_asked_about(&mut self, now: Time, first: u64) {
        let pause = first << self.unheard.saturating_sub(1).min(UNHEARD_MOST);
        if self.unheard == 0 || now.since(self.asked) >= pause {
            (self.unheard, self.asked) = (self.unheard.saturating_add(1), now);
        }
    }

    /// The switch has answered, or is another one: it may know FREE.
    pub(super) fn are_heard(&mut self) {
        self.unheard = 0;
    }

    fn has(&self, slot: u32, nonce: u64) -> bool {
        self.quiet[..self.count].contains(&(slot, nonce))
    }
}

impl Node {
    /// Whether the switch is asked by FREE at all.
    #[inline]
    pub(super) fn knows_free(&self) -> bool {
        let version = self.session.info().map_or(0, |info| info.version).min(self.config.version);
        version >= MAJOR << 4 | KNOWN_SINCE && self.frees.unheard < UNHEARD_MOST
    }

    /// Asks the switch to free a slot, whose book says so. `is_awaited`: somebody of this node waits for it already.
    #[inline]
    pub(super) fn free(&mut self, now: Time, port: Port, entry: &Entry, is_awaited: bool) {
        let is_seldom = now.since(self.frees.last) >= self.config.seldom_us;
        self.frees.last = now;
        if self.goes_along(now, port, entry) {
            return;
        }
        if is_seldom || is_awaited || self.frees.count == QUIET_MOST {
            return self.ask_for_freed(now, port, Some(entry));
        }
        self.frees.quiet[self.frees.count] = (entry.slot, entry.request);
        self.frees.count += 1;
        let header = Header { flags: header_flag::QUIET, ..self.session.header(service::LOCK, kind::lock::FREE, 0) };
        self.out.entry(port, header, entry);
        if self.config.is_broken(Mutant::FreeUnheard)
            && let Some(place) = self.agency.books.find(entry.slot)
        {
            let next = Stamp { epoch: self.epoch(), tenure: entry.tenure + 1 };
            self.end_sole(place, next, entry.request);
        }
    }

    /// Frees a slot by the packet that frees another one and has not left yet, if there is one with room.
    #[inline]
    fn goes_along(&mut self, now: Time, port: Port, entry: &Entry) -> bool {
        let of = (service::LOCK, kind::lock::FREE);
        let Some(flags) = self.out.join(port, of, header_flag::QUIET, entry) else { return false };
        // The one before was the last that went quietly: both are asked about now.
        if flags & header_flag::QUIET != 0 {
            self.frees.count = self.frees.count.saturating_sub(1);
            self.frees.are_asked_about(now, self.config.retransmit_us);
        }
        true
    }

    /// Nobody has said what became of a slot: it is asked about again, with others whose turn it is. False: it has
    /// nothing to do with FREE, or not any more.
    pub(super) fn frees_again(&mut self, now: Time, slot: u32) -> bool {
        if !self.knows_free() {
            return false;
        }
        let Some(place) = self.agency.books.find(slot) else { return false };
        let book = self.agency.books.at_mut(place);
        let Some(sole) = book.sole.as_mut().filter(|sole| !sole.suspended) else { return false };
        let Duty::Free { nonce, pause, due } = &mut sole.duty else { return false };
        if *due > now {
            return false;
        }
        *pause = (*pause * 2).min(self.config.retransmit_most_us);
        *due = now + *pause;
        let (nonce, due) = (*nonce, *due);
        let entry = sole.freeing(slot, nonce);
        book.due = due;
        self.timers.set(now, due, Due::Slot(slot));
        if !self.goes_along(now, 0, &entry) {
            self.out.entry(0, self.session.header(service::LOCK, kind::lock::FREE, 0), &entry);
            self.frees.are_asked_about(now, self.config.retransmit_us);
        }
        true
    }

    /// Asks what became of all slots that were freed quietly, and frees `another` besides.
    fn ask_for_freed(&mut self, now: Time, port: Port, another: Option<&Entry>) {
        let header = self.session.header(service::LOCK, kind::lock::FREE, 0);
        let due = now + self.config.retransmit_us;
        let Node { frees, agency, out, timers, config, .. } = self;
        let mut draft = out.draft();
        if let Some(entry) = another {
            draft.add(entry);
        }
        for &(slot, nonce) in &frees.quiet[..frees.count] {
            let Some(place) = agency.books.find(slot) else { continue };
            let book = agency.books.at_mut(place);
            let is_its = |sole: &&mut Sole| sole.frees_as(nonce) && !sole.suspended;
            let Some(sole) = book.sole.as_mut().filter(is_its) else { continue };
            sole.ask_again_at(due);
            book.due = due;
            timers.set(now, due, Due::Slot(slot));
            draft.add(&sole.freeing(slot, nonce));
        }
        frees.count = 0;
        if draft.count() > 0 {
            draft.send(port, header);
            frees.are_asked_about(now, config.retransmit_us);
        }
    }

    /// Asks about what was freed quietly: somebody waits until all of it is known. He reads the answer at that port.
    pub fn settle_freed(&mut self, now: Time, port: Port) {
        if self.frees.count > 0 {
            self.ask_for_freed(now, port, None);
        }
    }

    /// Something has to be known of a slot that was freed quietly: it and all others are asked about. False, where it
    /// was not.
    pub(super) fn asks_for_freed(&mut self, now: Time, slot: u32) -> bool {
        let Some(sole) = self.agency.books.get(slot).and_then(|book| book.sole.as_ref()) else { return false };
        let Duty::Free { nonce, .. } = sole.duty else { return false };
        if sole.suspended || !self.frees.has(slot, nonce) {
            return false;
        }
        self.ask_for_freed(now, 0, None);
        true
    }

    /// FREED: what became of slots, each as it is now.
    pub(super) fn on_freed(&mut self, now: Time, header: &Header, packet: &[u8]) {
        self.frees.are_heard();
        self.is_quick = true;
        for entry in lock_entries(packet) {
            let stamp = Stamp { epoch: self.epoch(), tenure: entry.tenure };
            let Some(place) = self.agency.books.find(entry.slot) else { continue };
            let is_another =
                self.agency.books.at(place).sole.as_ref().is_some_and(|sole| !sole.frees_as(entry.request));
            if is_another || self.end_sole(place, stamp, entry.request) {
                continue;
            }
            // Somebody had to do with the slot meanwhile: it is as if RETENURE had been asked.
            self.is_quick = false;
            let is_over = stamp > self.agency.books.at(place).floor();
            let flags = if is_over { header_flag::STALE_TENURE } else { header_flag::REFUSED };
            self.on_retenured(now, &Header { flags, ..*header }, entry);
        }
    }

    /// The agency of a slot that only its own node had to do with, and that was to be freed by the change of this
    /// nonce, is over: the slot is at this stamp now. False, where it is not so.
    #[inline]
    pub(super) fn end_sole(&mut self, place: Place, stamp: Stamp, nonce: u64) -> bool {
        let book = self.agency.books.at_mut(place);
        let Some(sole) = &book.sole else { return false };
        if !sole.frees_as(nonce) || stamp <= sole.stamp {
            return false;
        }
        // Who waits here by now was told of the agent's stamp when he came, and needs no other floor.
        book.sole = None;
        book.due = Time::NEVER;
        if book.waits == 0 {
            self.agency.close(place);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who is not heard asks for as long as ever, in pauses that double.
    #[test]
    fn pauses_in_which_nothing_is_heard_double() {
        const FIRST: u64 = 1_000;
        let mut frees = Frees::default();
        let mut now = 0;
        for unheard in 1..=UNHEARD_MOST + 3 {
            frees.are_asked_about(Time(now), FIRST);
            assert_eq!(frees.unheard, unheard);
            let pause = FIRST << (unheard - 1).min(UNHEARD_MOST);
            frees.are_asked_about(Time(now + pause - 1), FIRST);
            assert_eq!(frees.unheard, unheard, "the pause is not over");
            now += pause;
        }
        frees.are_heard();
        frees.are_asked_about(Time(now), FIRST);
        assert_eq!(frees.unheard, 1);
    }
}
