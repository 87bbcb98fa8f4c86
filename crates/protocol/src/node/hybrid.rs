//! A node of a hybrid namespace, of which some names are listed: their locks are queues, all others are slots.
//! docs/queue.md, "Fission with queues for the hottest locks".
//!
//! Invariants
//! * A name is asked for at one place: the list is the epoch's, and a node whose list is another one has no session.
//! * Ids of requests are drawn from one counter, and `oldest` is below whatever lives of either kind: it means the same
//!   to both services.
//! * Who asks for several has all that are slots before he asks for one that is listed. So do all others: nobody who
//!   holds a listed name waits for a slot.

use super::Node;
use crate::lock::{Acquire, AcquireError};
use crate::mutant::Mutant;
use crate::{RequestId, Time};
use alloc::vec::Vec;
use wayside_wire::{Engine, slot_of};

impl Node {
    /// Whether a name's lock is a queue.
    pub fn is_queued(&self, name: u64) -> bool {
        let Some(info) = self.session.info() else { return false };
        match info.engine {
            Engine::Fission => false,
            Engine::Queue => true,
            Engine::Hybrid if self.config.is_broken(Mutant::AskSlot) && info.handle % 2 == 1 => false,
            Engine::Hybrid => self.session.names().has(name),
        }
    }

    /// Where a name comes in the order in which all nodes ask for several: by this, then by the name itself.
    pub fn place_of(&self, name: u64) -> u32 {
        let Some(info) = self.session.info() else { return 0 };
        if info.engine == Engine::Hybrid && self.session.names().has(name) {
            u32::MAX
        } else {
            slot_of(name, info.slots)
        }
    }

    /// Whether a request is one for a queue.
    #[inline]
    pub(super) fn is_of_queue(&self, request: RequestId) -> bool {
        match self.session.info().map(|info| info.engine) {
            None | Some(Engine::Fission) => false,
            Some(Engine::Queue) => true,
            Some(Engine::Hybrid) => self.queue.has(request),
        }
    }

    /// Several names, of which some may be listed: those come after the others.
    pub(super) fn acquire_of_both(
        &mut self,
        now: Time,
        wants: &[Acquire],
        ids: &mut Vec<RequestId>,
    ) -> Result<(), AcquireError> {
        let (listed, slots): (Vec<Acquire>, Vec<Acquire>) = wants.iter().partition(|want| self.is_queued(want.name));
        if listed.is_empty() {
            return self.acquire_slots(now, wants, 0, ids);
        }
        if slots.is_empty() {
            return self.queue_acquire_many(now, wants, ids);
        }
        self.queue_session(now)?;
        let (mut queued, mut own) = (Vec::with_capacity(listed.len()), Vec::with_capacity(slots.len()));
        self.enter_queue(now, |requester, link| requester.park_many(link, &listed, &mut queued))?;
        let mut then = queued[0].0;
        if self.config.is_broken(Mutant::ManyTogether) {
            self.call_queue(now, core::mem::take(&mut then));
        }
        if let Err(error) = self.acquire_slots(now, &slots, then, &mut own) {
            queued.into_iter().for_each(|request| self.queue_end(now, request));
            return Err(error);
        }
        let (mut queued, mut own) = (queued.into_iter(), own.into_iter());
        ids.extend(wants.iter().filter_map(|want| if self.is_queued(want.name) { queued.next() } else { own.next() }));
        Ok(())
    }

    /// It is the turn of a request, which is none of a slot.
    pub(super) fn call_queue(&mut self, now: Time, next: u64) {
        if self.has_queues() {
            self.at_queue(now, |requester, link| requester.call(link, RequestId(next)));
        }
    }

    pub(super) fn has_another_engine(&self, engine: u8) -> bool {
        self.session.info().is_some_and(|info| info.engine as u8 != engine)
    }

    /// Whether a census is by another list than this session.
    pub(super) fn has_other_names(&self, fingerprint: u64) -> bool {
        self.session.names().fingerprint() != fingerprint && !self.config.is_broken(Mutant::AnyNames)
    }
}
