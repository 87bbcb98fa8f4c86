//! What the agent asks the switch for: RETENURE and its outcomes.

use super::{After, Agent, Change, Desk, Pending, fill};
use crate::mutant::Mutant;
use crate::{Mode, Stamp, Time};
use wayside_wire::{Entry, Header, SlotBits, SlotState, header_flag, kind, limits};

/// How long an heir has to confirm a transfer by itself once somebody waits for that, in microseconds: most holders
/// send something before.
const HURRY: u64 = 200;

impl Agent {
    pub(super) fn start(&mut self, change: Change, desk: &mut Desk) {
        debug_assert!(self.joins_are_known(desk), "a new tenure would forget the gap");
        self.ask(change, self.joins.expected, desk);
    }

    /// To be confirmed. With a gap it names fewer joins than there are, and so is told that it is the agent, or that it
    /// is none any more, and never given what it asks for.
    pub(super) fn ask_whether(&mut self, desk: &mut Desk) {
        let idle = self.holders.is_empty() && !self.has_waiters() && self.heir_is_complete();
        let change = if idle { Change::Free } else { Change::Renew { tryable: false } };
        let joins = if self.joins_are_known(desk) { self.joins.expected } else { self.joins.known() };
        self.ask(change, joins, desk);
    }

    fn ask(&mut self, change: Change, joins: u16, desk: &mut Desk) {
        let pause = desk.config.retransmit_us;
        let (nonce, due) = (desk.next_nonce(), desk.now + pause);
        self.pending = Some(Pending { change, nonce, joins, pause, due, again: false });
        self.send_pending(desk);
    }

    /// Somebody waits for the outcome: an heir that has nothing to send is asked for it soon.
    pub fn hurry(&mut self, now: Time) {
        if let Some(Pending { change: Change::Transfer(_), due, again: false, .. }) = &mut self.pending {
            *due = (*due).min(now + HURRY);
        }
    }

    pub(super) fn send_pending(&mut self, desk: &mut Desk) {
        let Some(pending) = &self.pending else { return };
        let mut entries = [Entry::default(); limits::MAX_ENTRIES];
        let (state, tryable, transferred) = match pending.change {
            Change::Free => (SlotState::Unheld, false, false),
            Change::Renew { tryable } => (SlotState::Managed, tryable, false),
            Change::Reopen { tryable } => (SlotState::Open, tryable, false),
            Change::Transfer(to) => {
                let exclusive = to.mode == Mode::Exclusive || self.queue.iter().any(|p| p.mode == Mode::Exclusive);
                (if exclusive { SlotState::Managed } else { SlotState::Open }, true, true)
            }
        };
        let bits = SlotBits { state, transferred, tryable, joins: pending.joins };
        let mut count = 1;
        entries[0] = Entry {
            name: self.name,
            request: pending.nonce,
            slot: self.slot,
            tenure: self.stamp.tenure,
            holder: desk.me,
            slot_bits: bits.to_u16(),
            ..Entry::default()
        };
        if let Change::Transfer(to) = pending.change {
            entries[0] = Entry { slot_bits: bits.to_u16(), tenure: self.stamp.tenure, ..to.to_entry(self.slot) };
            if pending.again {
                // The thread at the reply port may have its lock and read no more; the heir's agent port is read.
                entries[0].reply_port = 0;
            }
            count += fill(&mut entries[1..], self.queue.iter(), self.slot);
        }
        let total = self.queue.len() as u16;
        desk.send(kind::lock::RETENURE, 0, 0, total, &entries[..count]);
    }

    /// RETENURED: what became of the pending change. `now_at`: the slot as it is.
    pub fn on_retenured(
        &mut self,
        header: &Header,
        entry: &Entry,
        now_at: (Stamp, SlotBits),
        desk: &mut Desk,
    ) -> After {
        let Some(pending) = &self.pending else { return After::Goes };
        let asked = match pending.change {
            Change::Transfer(to) => to.request,
            _ => pending.nonce,
        };
        if entry.request != asked {
            return After::Goes;
        }
        let (stamp, bits) = now_at;
        if header.flags & header_flag::REFUSED != 0 {
            let dead = header.flags & header_flag::DEAD != 0;
            if stamp == self.stamp && (dead || bits.joins != pending.joins) {
                self.on_refused(dead, bits, desk);
            }
            return After::Goes;
        }
        let applied = header.flags & (header_flag::APPLIED | header_flag::STALE_TENURE) != 0;
        if !applied || stamp <= self.stamp {
            return After::Goes;
        }
        let still_ours = stamp == self.next_stamp() && entry.holder == desk.me;
        match pending.change {
            Change::Renew { .. } | Change::Reopen { .. } if still_ours => {
                self.pending = None;
                self.confirmed = true;
                self.start_tenure(stamp, bits);
                self.serve(desk);
                After::Goes
            }
            _ => After::Over,
        }
    }

    /// The switch knows joins that we do not, or the heir is dead. Either way it has confirmed that we are the agent.
    pub(super) fn on_refused(&mut self, dead: bool, bits: SlotBits, desk: &mut Desk) {
        let Some(pending) = self.pending.take() else { return };
        self.confirmed = true;
        self.learn_state(bits);
        if let Change::Transfer(to) = pending.change {
            if dead {
                self.queue.retain(|p| !p.is_of_session(&to));
            } else {
                self.queue.push_front(to);
            }
        }
        self.serve(desk);
    }

    /// Sends again what is unanswered.
    pub fn on_tick(&mut self, desk: &mut Desk) {
        let most = desk.config.retransmit_most_us;
        if let Some(pending) = self.pending.as_mut().filter(|p| p.due <= desk.now) {
            pending.again = true;
            pending.pause = (pending.pause * 2).min(most);
            pending.due = desk.now + pending.pause;
            if !desk.config.is_broken(Mutant::ChangeOnce) {
                self.send_pending(desk);
            }
        }
        if self.heir.as_ref().is_some_and(|heir| heir.until <= desk.now) {
            self.give_up_waiters();
            self.serve(desk);
        }
        if let Some((_, pause)) = self.reminder.filter(|(due, _)| *due <= desk.now) {
            if self.is_usable() {
                self.remind(pause, desk);
            } else {
                self.reminder = None;
            }
        }
        if self.gap_due.is_some_and(|due| due <= desk.now) {
            if self.joins.complete() {
                self.gap_due = None;
            } else {
                self.gap_due = Some(desk.now + desk.config.gap_us * 4);
                let entry = Entry { slot: self.slot, tenure: self.stamp.tenure, ..Entry::default() };
                desk.send(kind::lock::GAP, 0, 0, 0, &[entry]);
            }
        }
    }
}
