//! The way of a lock that nobody else wants: granted by the switch with a fresh agency, given back, freed.
//!
//! Each of these does for a plain book what the general handlers would do, and no more. Where anything is different
//! they touch nothing and say so, and the general ones take over.

use super::{Event, Node};
use crate::agent::{Duty, Home, Sole};
use crate::lock::{Path, State};
use crate::timers::Due;
use crate::{Mode, RequestId, Stamp, Time, Token};
use wayside_wire::{BODY, Entry, SlotBits, SlotState, entry_flag, header_flag, kind, service};

impl Node {
    /// GRANT: the only request that waits in its slot, and of which nobody else knows, holds from now on. Then the
    /// request that comes after it, 0 if none does. `turn`: a parked request that may take its grant, too.
    #[inline]
    pub(super) fn hold_alone(&mut self, now: Time, entry: &Entry, turn: u64) -> Option<u64> {
        let info = self.session.info()?;
        let (id, me) = (entry.request, info.handle);
        let stamp = Stamp { epoch: info.epoch, tenure: entry.tenure };
        let request = self.requests.get_mut(id)?;
        let waits = match request.state {
            State::Waiting => true,
            State::Parked => id == turn,
            _ => false,
        };
        let bits = SlotBits::from_u16(entry.slot_bits);
        let fresh = match request.mode {
            Mode::Shared => entry.flags == entry_flag::AGENCY && bits.state == SlotState::Open,
            Mode::Exclusive => {
                entry.flags == entry_flag::AGENCY | entry_flag::EXCLUSIVE && bits.state == SlotState::Managed
            }
        };
        let asked = (request.name, request.slot, me) == (entry.name, entry.slot, entry.holder);
        let above = self.config.is_above(request.floor, stamp);
        if !waits || !fresh || !asked || !above || bits.transferred || entry.sequence != 0 {
            return None;
        }
        let book = self.agency.books.at_mut(request.book);
        // This node's agency of before is over if the slot could be granted anew, whatever it has been told of that.
        let is_fresh = book.sole.as_ref().is_none_or(|sole| sole.gives_way_to(stamp));
        if !book.plain || book.waits != 1 || !is_fresh {
            return None;
        }
        let token = Token::new(stamp, 0);
        request.state = State::Held { token, agent: me, ordinal: None, downgrading: false };
        request.since = now;
        request.due = Time::NEVER;
        self.held.note(request.slot, id);
        book.waits = 0;
        book.due = Time::NEVER;
        book.sole = Some(Sole {
            stamp,
            name: entry.name,
            holder: me,
            port: entry.reply_port,
            mode: request.mode,
            tryable: bits.tryable,
            open: request.mode == Mode::Shared,
            suspended: false,
            confirmed: true,
            sequence: 0,
            home: Home::NEW,
            duty: Duty::Keep { request: id },
        });
        self.events.push(Event::Granted { request: RequestId(id), token, mode: request.mode, path: Path::Switch });
        Some(request.next)
    }

    /// RELEASE: the slot rests, or the switch is asked to free it. False, where anybody else may have to do with it.
    #[inline]
    pub(super) fn free_alone(&mut self, now: Time, id: u64) -> bool {
        let Some(request) = self.requests.get(id) else { return false };
        let State::Held { .. } = request.state else { return false };
        let (slot, port) = (request.slot, request.port);
        let Some(book) = self.agency.books.get_at(request.book) else { return false };
        let Some(sole) = book.sole.as_mut().filter(|sole| sole.keeps(id) && !sole.suspended) else { return false };
        if self.kept.is_on() {
            if !sole.stays() {
                // The switch has to know before that it decides on nothing here any more, or the slot is not kept.
                return false;
            }
            sole.duty = Duty::Rest;
            self.requests.remove(id);
            return true;
        }
        self.nonce += 1;
        let (nonce, pause) = (self.nonce, self.config.retransmit_us);
        let due = now + pause;
        sole.duty = Duty::Free { nonce, pause, due };
        book.due = due;
        let (entry, is_awaited) = (sole.freeing(slot, nonce), book.waits > 0);
        self.requests.remove(id);
        self.timers.set(self.now, due, Due::Slot(slot));
        if self.knows_free() {
            self.free(now, port, &entry, is_awaited);
        } else {
            self.out.entry(port, self.session.header(service::LOCK, kind::lock::RETENURE, 0), &entry);
        }
        true
    }

    /// RETENURED: the slot is free, or in other hands. False, where that is not the answer to what was asked alone.
    #[inline]
    pub(super) fn end_alone(&mut self, flags: u16, packet: &[u8]) -> bool {
        let entry = Entry::read(packet, BODY);
        let stamp = Stamp { epoch: self.epoch(), tenure: entry.tenure };
        let Some(place) = self.agency.books.find(entry.slot) else { return false };
        let applied = flags & (header_flag::APPLIED | header_flag::STALE_TENURE) != 0;
        applied && flags & header_flag::REFUSED == 0 && self.end_sole(place, stamp, entry.request)
    }
}
