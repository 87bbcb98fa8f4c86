//! The node's part in what follows a census: it becomes the agent of the slots that it is told.
//!
//! Invariants: an adoption is made true by its last page, all of it, and once: a copy of it is acknowledged and does
//! nothing. What was granted before it is among its holders, or void. An adopted agent acts only after the switch has
//! confirmed it (a renew, or the answer to a free), so that an ADOPT that is too late can do no harm either.
//!
//! After a census of all slots one entry may adopt *the rest*: whatever this node has reported and no page names. Each
//! of these slots is held by that one hold alone, so their books stay a few words (`agent/sole.rs`). A page names what
//! is adopted with other holders, or is another node's from now on.

use super::recent::Recent;
use super::{Node, lock_entries};
use crate::agent::{Duty, Home, Party, Sole};
use crate::books::{Book, Books};
use crate::lock::State;
use crate::map::SteadyMap;
use crate::mutant::Mutant;
use crate::{Mode, Stamp, Time, Token};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use wayside_wire::{BODY, Entry, Header, SlotBits, entry_flag, header_flag, kind, limits};

/// Agents that ask to be confirmed though nobody waits for it: so many at a time, which is one batch of a system call,
/// and so long between, in microseconds. All at once, those of 10,000 locks fill every buffer on their way, and the
/// answers to heartbeats are lost with the others.
const CONFIRMED_AT_ONCE: usize = 32;
const CONFIRMATION: u64 = 8_000;

/// What the controller is telling, and what remains to be done of what it told.
pub struct Adoptions {
    under_way: SteadyMap<u64, Adoption>,
    /// Those done, for whoever has not heard of it.
    done: Recent<()>,
    /// Slots whose agents are not confirmed, as far as is known.
    unconfirmed: VecDeque<u32>,
    confirm: Time,
    /// When agents that were suspended together, and adopted by nobody, are forgotten.
    forget: Time,
}

#[derive(Default)]
struct Adoption {
    next: u16,
    adopted: Vec<u32>,
    /// Other nodes have these.
    left: Vec<u32>,
}

impl Default for Adoptions {
    fn default() -> Adoptions {
        Adoptions {
            under_way: SteadyMap::with_room(),
            done: Recent::new(),
            unconfirmed: VecDeque::new(),
            confirm: Time::NEVER,
            forget: Time::NEVER,
        }
    }
}

impl Adoptions {
    /// When [`Node::on_adoptions_tick`] is wanted.
    #[inline]
    pub fn due(&self) -> Time {
        self.confirm.min(self.forget)
    }

    /// Agents have been suspended together.
    pub fn forget_by(&mut self, time: Time) {
        self.forget = time;
    }

    fn end(&mut self, now: Time, remembered: Time, id: u64) -> Adoption {
        self.done.keep(now, remembered, id, ());
        self.under_way.remove(&id).unwrap_or_default()
    }
}

impl Node {
    /// ADOPT: be the agent of these slots, with these holders. AGENCY entries name a slot, HELD ones its holders, and
    /// others a slot that is not this node's; the last page makes it true. The first entry has AGENCY where the rest
    /// is adopted as well.
    pub(super) fn on_adopt(&mut self, now: Time, header: &Header, packet: &[u8]) {
        let about = Entry::read(packet, BODY);
        let id = about.request;
        let rest = about.flags & entry_flag::AGENCY != 0;
        let remembered = self.forgotten_by(now);
        if self.adoptions.done.recall(remembered, id).is_some() {
            return self.confirm_page(id, header.position);
        }
        let next = self.adoptions.under_way.get(&id).map_or(0, |adoption| adoption.next);
        if header.position > next || (rest && !self.reports.awaits_whole(id)) {
            return;
        }
        self.confirm_page(id, header.position);
        if header.position < next {
            return;
        }
        for entry in lock_entries(packet).skip(1) {
            self.take_up(now, header.epoch, id, &entry);
        }
        // No controller has so many pages; whoever forges packets may say that this is the last that there can be.
        self.adoptions.under_way.get_or_default(id).next = next.saturating_add(1);
        if header.flags & header_flag::LAST != 0 {
            self.finish_adoption(now, id, rest.then_some(about));
        }
    }

    /// ADOPTED.
    fn confirm_page(&mut self, id: u64, page: u16) {
        let about = Entry { request: id, slot: limits::ALL_SLOTS, ..Entry::default() };
        self.send(0, kind::lock::ADOPTED, 0, page, about);
    }

    fn take_up(&mut self, now: Time, epoch: u32, id: u64, entry: &Entry) {
        if entry.flags & entry_flag::AGENCY != 0 {
            self.prepare_adoption(now, id, entry);
        } else if entry.flags & entry_flag::HELD == 0 {
            self.adoptions.under_way.get_or_default(id).left.push(entry.slot);
        } else if let Some(agent) = self.agency.get(entry.slot).and_then(|book| book.agent.as_mut()) {
            let token = Token::new(Stamp { epoch, tenure: entry.tenure }, entry.sequence);
            agent.adopt_holder(id, Party { token, tries: false, ..Party::from_entry(entry) });
        }
    }

    /// The agent that was suspended, or a new one, waits for its holders. Nothing if this node is past that tenure.
    fn prepare_adoption(&mut self, now: Time, id: u64, entry: &Entry) {
        let (stamp, bits) = self.snapshot(entry);
        let slot = entry.slot;
        let forget = self.forgotten_by(now);
        let kept = self.agency.get(slot).and_then(|book| book.agent.as_ref()).map(|a| (a.suspended, a.stamp));
        self.adoptions.under_way.get_or_default(id).adopted.push(slot);
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

    fn finish_adoption(&mut self, now: Time, id: u64, rest: Option<Entry>) {
        if let Some(about) = rest {
            self.adopt_the_rest(now, id, &about);
        }
        let remembered = self.forgotten_by(now);
        let Adoption { adopted, left, .. } = self.adoptions.end(now, remembered, id);
        self.reports.forget(id);
        let stamp_of = |books: &Books, slot| {
            let agent = books.get(slot)?.agent.as_ref().filter(|agent| agent.adopts(id))?;
            agent.adoption_stamp()
        };
        if adopted.iter().any(|&slot| self.agency.books.get(slot).is_some_and(|book| book.waits > 0)) {
            self.raise_floors_of(stamp_of);
        }
        for slot in adopted {
            let Some(book) = self.agency.get(slot) else { continue };
            if book.agent.as_ref().is_some_and(|agent| agent.adopts(id)) {
                book.forget = None;
                if self.with_agent(now, slot, 0, |agent, desk| agent.resume(desk)) == Some(true) {
                    self.confirm_later(now, slot);
                }
            }
        }
        for slot in left {
            self.forget_suspended(slot);
            self.settle_book(slot);
        }
    }

    /// What this node reported, and no page has named: held by that alone.
    fn adopt_the_rest(&mut self, now: Time, id: u64, about: &Entry) {
        let Some(report) = self.reports.take_whole(id) else { return };
        let mut named = Vec::new();
        if let Some(adoption) = self.adoptions.under_way.get(&id)
            && !self.config.is_broken(Mutant::AdoptAlone)
        {
            named.extend(adoption.adopted.iter().chain(&adoption.left).copied());
            named.sort_unstable();
        }
        let is_rest = |hold: &&Entry| hold.flags & entry_flag::HELD != 0 && named.binary_search(&hold.slot).is_err();
        for hold in report.iter().filter(is_rest) {
            if !self.adopt_alone(about, hold) {
                // Somebody else has to do with it after all, if only a request of this node's.
                let Entry { tenure, slot_bits, .. } = *about;
                self.prepare_adoption(now, id, &Entry { slot: hold.slot, tenure, slot_bits, ..*hold });
                self.take_up(now, self.epoch(), id, hold);
            }
        }
    }

    /// The slot's books are this hold, in few words. False, where there is more to them: nothing has changed then.
    fn adopt_alone(&mut self, about: &Entry, hold: &Entry) -> bool {
        let me = self.handle();
        let (stamp, _) = self.snapshot(about);
        let Some(request) = self.requests.get_mut(hold.request) else { return false };
        let State::Held { downgrading: false, .. } = request.state else { return false };
        let place = self.agency.open(hold.slot);
        let book = self.agency.books.at(place);
        if book.waits > 0 || !book.is_suspended_alone(me) {
            return false;
        }
        self.agency.empty(place);
        self.agency.books.at_mut(place).sole = Some(Sole {
            stamp,
            name: hold.name,
            holder: me,
            port: hold.reply_port,
            mode: request.mode,
            tryable: false,
            open: false,
            suspended: false,
            confirmed: false,
            sequence: 0,
            home: Home::default(),
            duty: Duty::Keep { request: hold.request },
        });
        request.book = place;
        debug_assert_eq!(request.mode == Mode::Exclusive, hold.flags & entry_flag::EXCLUSIVE != 0);
        true
    }

    // ---- what is left for later ----

    fn confirm_later(&mut self, now: Time, slot: u32) {
        self.adoptions.unconfirmed.push_back(slot);
        self.adoptions.confirm = self.adoptions.confirm.min(now + CONFIRMATION);
    }

    /// Lets the next agents be confirmed; forgets those that nobody has adopted.
    pub(super) fn on_adoptions_tick(&mut self, now: Time) {
        if self.adoptions.forget <= now {
            self.adoptions.forget = Time::NEVER;
            self.forget_all_suspended();
        }
        if self.adoptions.confirm > now {
            return;
        }
        for _ in 0..CONFIRMED_AT_ONCE {
            let Some(slot) = self.adoptions.unconfirmed.pop_front() else { break };
            self.with_agent(now, slot, 0, |agent, desk| agent.confirm(desk));
        }
        let none_left = self.adoptions.unconfirmed.is_empty();
        self.adoptions.confirm = if none_left { Time::NEVER } else { now + CONFIRMATION };
    }

    /// Whatever was suspended with all others, and is not an agent again by now, is one of another node's.
    fn forget_all_suspended(&mut self) {
        let is_suspended = |book: &Book| {
            let agent = book.agent.as_ref().is_some_and(|agent| agent.suspended && book.forget.is_none());
            agent || book.sole.as_ref().is_some_and(|sole| sole.suspended)
        };
        let slots = self.agency.slots_of(is_suspended);
        for &slot in &slots {
            self.forget_suspended(slot);
            self.settle_book(slot);
        }
        self.agency.put_slots_away(slots);
    }
}
