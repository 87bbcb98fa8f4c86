//! Who is granted when.

use super::{Agent, Change, Desk, Party, mode_flag};
use crate::line::Priority;
use crate::mutant::Mutant;
use crate::{Mode, Token};
use core::mem;
use wayside_wire::{Entry, entry_flag, kind, limits};

/// Longest pause between reminders, in longest pauses of a retransmission.
const REMINDER_MOST: u64 = 16;

impl Agent {
    /// Does whatever can be done now: grants, then one change if one is due.
    pub fn serve(&mut self, desk: &mut Desk) {
        if self.suspended && !desk.config.is_broken(Mutant::IgnoreSuspension) || self.pending.is_some() {
            return;
        }
        self.bury_the_dead(desk);
        self.admit_late(desk);
        if !self.confirmed && !desk.config.is_broken(Mutant::ServeUnconfirmed) {
            return self.ask_whether(desk);
        }
        if self.has_to_close() {
            if !self.joins_are_known(desk) {
                return self.note_gap(desk);
            }
            return self.start(Change::Renew { tryable: self.is_of_one_name() }, desk);
        }
        if self.first_takes_over(desk) && !self.lends(desk.kept) {
            return self.hand_over(desk);
        }
        self.grant_queue(desk);
        if self.pending.is_some() {
            return;
        }
        while let Some(index) = self.queue.iter().position(|p| p.tries) {
            if let Some(party) = self.queue.remove(index) {
                self.refuse(party, 0, desk);
            }
        }
        self.settle(desk);
        self.set_reminder(desk);
    }

    /// The dead come in late, too: with an inherited queue, a refused transfer, an adoption.
    pub(super) fn bury_the_dead(&mut self, desk: &Desk) {
        if desk.dead.is_empty() || desk.config.is_broken(Mutant::BelieveTheDead) {
            return;
        }
        let lives = |p: &Party| !desk.dead.has(p.holder, p.request, desk.config);
        self.holders.retain(lives);
        self.queue.retain(lives);
        self.late.retain(lives);
    }

    /// Among those who wait for its name. Who does not stay if it is not granted at once overtakes nobody: it would
    /// each time that it comes again.
    pub(super) fn line_up(&mut self, party: Party, is_full: bool, desk: &Desk) {
        if (is_full || party.tries) && !self.may_be_next(&party, desk) {
            return self.queue.push_back(party);
        }
        desk.config.order().line_up(&mut self.queue, party, |other| other.waits_beside(&party));
    }

    /// Whether nobody holds or waits that it would have to wait for.
    fn may_be_next(&self, party: &Party, desk: &Desk) -> bool {
        let conflicts = |held: &Party| held.mode == Mode::Exclusive || party.mode == Mode::Exclusive;
        !self.holders.iter().any(|held| held.name == party.name && conflicts(held))
            && desk.config.order().would_lead(&self.queue, party, |other| other.waits_beside(party))
    }

    /// All who waited with the former agent are here, or given up: whoever came meanwhile lines up behind them.
    pub(super) fn admit_late(&mut self, desk: &Desk) {
        if self.heir_is_complete() {
            while let Some(party) = self.late.pop_front() {
                self.line_up(party, false, desk);
            }
        }
    }

    pub(super) fn heir_is_complete(&self) -> bool {
        self.heir.as_ref().is_none_or(|heir| heir.arrived == heir.total)
    }

    /// What `tryable` promises of the slot. Who has joined by another name has cleared it at the switch.
    fn is_of_one_name(&self) -> bool {
        self.tryable && self.holders.iter().all(|party| party.name == self.name)
    }

    pub(super) fn joins_are_known(&self, desk: &Desk) -> bool {
        self.joins.complete() || desk.config.is_broken(Mutant::IgnoreGaps)
    }

    /// Nobody holds, all wait for one name, the first of them elsewhere: the agency goes there.
    pub(super) fn first_takes_over(&self, desk: &Desk) -> bool {
        let Some(first) = self.queue.front() else { return false };
        let is_idle = match desk.config.is_broken(Mutant::TransferUnderOthers) {
            false => self.holders.is_empty(),
            true => self.holders.iter().all(|p| p.name != first.name),
        };
        first.holder != desk.me
            && !self.open
            && is_idle
            && self.joins.complete()
            && self.heir_is_complete()
            && self.queue.iter().all(|p| p.name == first.name)
    }

    /// Readers go first here, and none of them has the name that somebody wants alone, or he is more urgent than most:
    /// from now on the agent decides.
    fn has_to_close(&self) -> bool {
        let is_held = |name| self.holders.iter().any(|p| p.name == name);
        let has_to_wait = |p: &Party| p.rank.priority <= Priority::NORMAL && is_held(p.name);
        self.open && self.queue.iter().any(|p| p.mode == Mode::Exclusive && !has_to_wait(p))
    }

    pub(super) fn hand_over(&mut self, desk: &mut Desk) {
        let Some(first) = self.queue.pop_front() else { return };
        while let Some(index) = self.queue.iter().position(|p| p.tries) {
            if let Some(party) = self.queue.remove(index) {
                self.refuse(party, 0, desk);
            }
        }
        self.start(Change::Transfer(first), desk);
    }

    /// Grants in the order of the queue, each name on its own.
    pub(super) fn grant_queue(&mut self, desk: &mut Desk) {
        let mut blocked = mem::take(&mut self.blocked);
        blocked.clear();
        let mut index = 0;
        while let Some(&party) = self.queue.get(index) {
            if blocked.contains(&party.name) || !self.can_grant(&party, desk) {
                blocked.push(party.name);
                index += 1;
                continue;
            }
            if self.tryable && party.name != self.name {
                if self.joins_are_known(desk) {
                    self.start(Change::Renew { tryable: false }, desk);
                } else {
                    self.note_gap(desk);
                }
                break;
            }
            let wraps = desk.config.is_broken(Mutant::SequenceWraps);
            if party.mode == Mode::Exclusive && self.sequence == limits::MAX_SEQUENCE && !wraps {
                self.start(Change::Renew { tryable: self.is_of_one_name() }, desk);
                break;
            }
            self.queue.remove(index);
            self.grant(party, desk);
        }
        self.blocked = blocked;
    }

    /// Waiters have come from the former agent, and more are to come: those from `first` on. Who stood before them was
    /// looked at when it came, and nothing has ended since; to look at all of a long line again with each of its
    /// packets would take a time that grows with its square.
    pub fn serve_arrivals(&mut self, first: usize, desk: &mut Desk) {
        if self.heir_is_complete() || !self.is_usable() || self.open {
            return self.serve(desk);
        }
        let mut index = first;
        while let Some(&party) = self.queue.get(index) {
            if desk.dead.has(party.holder, party.request, desk.config) && !desk.config.is_broken(Mutant::BelieveTheDead)
            {
                self.queue.remove(index);
            } else if self.queue.range(..index).any(|p| p.name == party.name) || !self.can_grant(&party, desk) {
                index += 1;
            } else {
                // The first of its name that waits: whatever else its grant takes, the whole line is looked at for.
                return self.serve(desk);
            }
        }
    }

    pub(super) fn can_grant(&mut self, party: &Party, desk: &Desk) -> bool {
        let mut of_name = self.holders.iter().filter(|p| p.name == party.name);
        match party.mode {
            Mode::Shared => !of_name.any(|p| p.mode == Mode::Exclusive),
            Mode::Exclusive if self.open || of_name.next().is_some() => false,
            Mode::Exclusive if self.joins_are_known(desk) => true,
            Mode::Exclusive => {
                self.note_gap(desk);
                false
            }
        }
    }

    pub(super) fn grant(&mut self, party: Party, desk: &mut Desk) {
        if party.mode == Mode::Exclusive && !desk.config.is_broken(Mutant::SameSequence) {
            self.sequence = self.sequence.wrapping_add(1);
        }
        let party = Party { token: Token::new(self.stamp, self.sequence), tries: false, ..party };
        self.count_use(party.holder, desk);
        self.holders.push(party);
        self.deliver(party, desk);
    }

    /// Tells the holder of its grant, for the first time or again.
    pub(super) fn deliver(&self, party: Party, desk: &mut Desk) {
        if party.holder == desk.me {
            desk.local.push_back(party);
        } else {
            desk.send(kind::lock::GRANT, party.holder, 0, 0, &[party.to_entry(self.slot)]);
        }
    }

    /// A grant may be lost on its way to a request that nobody waits for any more: told again, its node gives it back.
    pub(super) fn set_reminder(&mut self, desk: &Desk) {
        let pause = desk.config.retransmit_most_us;
        match self.reminder {
            _ if self.holders.is_empty() => self.reminder = None,
            None => self.reminder = Some((desk.now + pause, pause)),
            Some(_) => {}
        }
    }

    /// Somebody new waits. However many come, each holder is told in time: one of them may be a ghost that all wait
    /// for.
    pub(super) fn hasten_reminder(&mut self, desk: &Desk) {
        let pause = desk.config.retransmit_most_us;
        if let Some((due, between)) = &mut self.reminder {
            (*due, *between) = ((*due).min(desk.now + pause), pause);
        }
    }

    pub(super) fn remind(&mut self, pause: u64, desk: &mut Desk) {
        let pause = (pause * 2).min(desk.config.retransmit_most_us * REMINDER_MOST);
        self.reminder = Some((desk.now + pause, pause));
        for &party in &self.holders {
            self.deliver(party, desk);
        }
    }

    pub(super) fn refuse(&self, party: Party, flags: u16, desk: &mut Desk) {
        if party.holder == desk.me && party.tries {
            return desk.local.push_back(party);
        }
        let entry = Entry { flags: entry_flag::TRY | mode_flag(party.mode), ..party.to_entry(self.slot) };
        desk.send(kind::lock::BUSY, party.holder, flags, 0, &[entry]);
    }

    /// Nobody is left, or only readers: the switch may decide again.
    pub(super) fn settle(&mut self, desk: &mut Desk) {
        if !self.queue.is_empty() || !self.heir_is_complete() {
            return;
        }
        let shared_only = self.holders.iter().all(|p| p.mode == Mode::Shared);
        let saturated = self.open && self.joins.expected == limits::MAX_JOINS;
        let frees_by_name = desk.config.is_broken(Mutant::FreeUnderOthers);
        let is_idle = |p: &Party| frees_by_name && p.name != self.name;
        let (idle, stays) = (self.holders.iter().all(is_idle), self.stays(desk));
        // Readers of its own node alone need no switch that lets others in: it would have to hear of the next writer.
        // Nor may it refuse others' tries: a reader is let in here.
        let at_home = shared_only && !self.open && stays;
        if !idle && !(shared_only && (!self.open && !stays || saturated)) && !(at_home && self.tryable) {
            return;
        }
        if !self.joins_are_known(desk) {
            return self.note_gap(desk);
        }
        self.gap_due = None;
        if !idle && at_home {
            return self.start(Change::Renew { tryable: false }, desk);
        }
        if idle && stays && self.come_to_rest(desk) {
            return;
        }
        if idle {
            return self.start(Change::Free, desk);
        }
        self.name = self.holders[0].name;
        let tryable = self.holders.iter().all(|p| p.name == self.name);
        self.start(Change::Reopen { tryable }, desk);
    }

    pub(super) fn note_gap(&mut self, desk: &Desk) {
        self.gap_due.get_or_insert(desk.now + desk.config.gap_us);
    }
}
