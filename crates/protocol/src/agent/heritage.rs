//! Books that change hands: waiters of a former agent, and holders that a census has found.

use super::{Adoption, Agent, Change, Desk, Heir, Party, Pending};
use crate::{Handle, Stamp, Time};
use alloc::vec::Vec;
use wayside_wire::{Entry, SlotBits, kind, limits};

/// Waiters that fit behind the first entry of a packet.
const WAITERS_A_PACKET: usize = limits::MAX_ENTRIES - 1;
/// How long an heir waits for more waiters, in microseconds; the former agent gives up earlier.
const HEIR_PATIENCE: u64 = 4_000_000;

impl Agent {
    /// Waiters came with the agency: `total` in all, these first.
    pub fn inherit(&mut self, now: Time, from: Handle, total: u16, waiters: impl Iterator<Item = Party>) {
        // An acknowledgement says one more than have arrived.
        let total = total.min(u16::MAX - 1);
        self.heir = Some(Heir { from, stamp: self.stamp, total, arrived: 0, until: now + HEIR_PATIENCE });
        self.take_waiters(now, 0, waiters);
    }

    /// Whether the agency of this stamp was handed over to this agent.
    pub fn inherited_at(&self, stamp: Stamp) -> bool {
        self.heir.as_ref().is_some_and(|heir| heir.stamp == stamp)
    }

    /// The waiters, for the one who hands them over in pieces.
    pub fn take_queue(&mut self) -> Vec<Party> {
        self.queue.drain(..).collect()
    }

    /// Number of waiters that go with a transfer.
    pub fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// Takes waiters `position..` from the former agent, if those before them have arrived.
    pub fn take_waiters(&mut self, now: Time, position: u16, waiters: impl Iterator<Item = Party>) {
        // A forged position may be the last that a packet can say.
        for (party, index) in waiters.zip(u32::from(position)..) {
            let Some(heir) = self.heir.as_mut().filter(|h| index == h.arrived.into() && h.arrived < h.total) else {
                continue;
            };
            heir.arrived += 1;
            heir.until = now + HEIR_PATIENCE;
            let gone = self.retired.contains(&(party.holder, party.request)) || self.holds(party.holder, party.request);
            self.late.retain(|p| !p.is(party.holder, party.request));
            if !gone {
                self.queue.push_back(party);
            }
        }
    }

    /// The rest of the waiters will not come: they ask again themselves.
    pub(super) fn give_up_waiters(&mut self) {
        if let Some(heir) = &mut self.heir {
            heir.total = heir.arrived;
        }
    }

    /// Tells the former agent what has arrived; only it may forget. Where nothing more is to come that has time: the
    /// one who waited for the lock runs first, and the former agent asks again (`at_once`) if it wants to know.
    pub fn acknowledge(&self, at_once: bool, desk: &mut Desk) {
        let Some(heir) = &self.heir else { return };
        let entry = Entry { slot: self.slot, tenure: heir.stamp.tenure, ..Entry::default() };
        let (to, position) = (heir.from, heir.arrived + 1);
        if at_once || heir.arrived < heir.total {
            desk.send(kind::lock::QUEUED, to, 0, position, &[entry]);
        } else {
            desk.send_along(kind::lock::QUEUED, to, 0, position, &[entry]);
        }
    }

    /// A census has begun: nothing is granted or changed until the controller says who holds.
    pub fn suspend(&mut self) {
        self.suspended = true;
        self.gap_due = None;
        if let Some(Pending { change: Change::Transfer(to), .. }) = self.pending.take() {
            self.queue.push_front(to);
        }
        self.give_up_waiters();
    }

    /// ADOPT names this slot: its holders follow.
    pub fn prepare_adoption(&mut self, id: u64, stamp: Stamp, bits: SlotBits) {
        self.adopting = Some(Adoption { id, stamp, bits });
        self.holders.clear();
    }

    /// ADOPT: one of the holders that the controller has found.
    pub fn adopt_holder(&mut self, id: u64, party: Party) {
        if self.adopts(id) && !self.holds(party.holder, party.request) {
            self.queue.retain(|p| !p.is(party.holder, party.request));
            self.late.retain(|p| !p.is(party.holder, party.request));
            self.holders.push(party);
        }
    }

    /// Whether this adoption is under way.
    pub fn adopts(&self, id: u64) -> bool {
        self.adopting.as_ref().is_some_and(|adoption| adoption.id == id)
    }

    /// The stamp at which the adopted agent will act.
    pub fn adoption_stamp(&self) -> Option<Stamp> {
        self.adopting.as_ref().map(|adoption| adoption.stamp)
    }

    /// All holders are known: the agent asks the switch to confirm it, then acts. True where nobody waits for that: it
    /// asks once somebody does, or when it is told to ([`Agent::confirm`]).
    pub fn resume(&mut self, desk: &mut Desk) -> bool {
        let Some(Adoption { stamp, bits, .. }) = self.adopting.take() else { return false };
        self.suspended = false;
        self.confirmed = false;
        self.start_tenure(stamp, bits);
        self.bury_the_dead(desk);
        let has_time = !self.holders.is_empty() && !self.has_waiters() && self.joins_are_known(desk);
        if !has_time {
            self.serve(desk);
        }
        has_time
    }

    /// Asks the switch to confirm it, if nobody has wanted that so far.
    pub fn confirm(&mut self, desk: &mut Desk) {
        if !self.confirmed {
            self.serve(desk);
        }
    }
}

/// Writes as many waiters as fit; how many.
pub fn fill<'a>(entries: &mut [Entry], waiters: impl Iterator<Item = &'a Party>, slot: u32) -> usize {
    let mut count = 0;
    for (entry, party) in entries.iter_mut().take(WAITERS_A_PACKET).zip(waiters) {
        *entry = party.to_entry(slot);
        count += 1;
    }
    count
}
