//! The node in a namespace whose locks are queues: `crate::queue`'s machines with this node's session.
//!
//! Invariant: a hold that its switch or its lock server may take for over before the session's lease is takes the
//! session along: what a node tells of its session says until when all of its holds are safe.

use super::{Booked, Node, header_of};
use crate::lock::{Acquire, AcquireError};
use crate::mutant::Mutant;
use crate::queue::{Link, is_for_server};
use crate::{Handle, RequestId, Time};
use alloc::vec::Vec;
use wayside_wire::{Attempt, BODY, DropReason, Engine, service};

/// Low bits of an incarnation, with which its request ids begin.
const INCARNATION_BITS: u32 = 24;
const COUNTER_BITS: u32 = 40;

impl Node {
    /// Whether the locks of the session's namespace are queues.
    #[inline]
    pub(super) fn is_queued(&self) -> bool {
        self.session.info().is_some_and(|info| info.engine == Engine::Queue)
    }

    /// Whether this node is the lock server of a name of its namespace.
    pub fn serves(&self, name: u64) -> bool {
        self.server.as_ref().is_some_and(|server| server.serves(name))
    }

    /// Who holds and who waits for a lock that is this node's own as lock server, in the order in which they are
    /// served.
    pub fn own_line(&self, name: u64) -> impl Iterator<Item = Booked> + '_ {
        let epoch = self.epoch();
        self.server.iter().flat_map(move |server| server.line(epoch, name))
    }

    pub(super) fn queue_acquire(&mut self, now: Time, want: &Acquire) -> Result<RequestId, AcquireError> {
        self.queue_session(now)?;
        self.at_queue(now, |requester, link| requester.acquire(link, want))
    }

    pub(super) fn queue_acquire_many(
        &mut self,
        now: Time,
        wants: &[Acquire],
        ids: &mut Vec<RequestId>,
    ) -> Result<(), AcquireError> {
        self.queue_session(now)?;
        self.at_queue(now, |requester, link| requester.acquire_many(link, wants, ids))
    }

    /// Nothing is asked for while a hold is over of which nobody has told yet.
    fn queue_session(&self, now: Time) -> Result<(), AcquireError> {
        if now < self.queue.holds_end() { Ok(()) } else { Err(AcquireError::NoSession) }
    }

    pub(super) fn queue_end(&mut self, now: Time, request: RequestId) {
        self.at_queue(now, |requester, link| requester.end(link, request));
    }

    pub(super) fn queue_downgrade(&mut self, now: Time, request: RequestId) {
        self.at_queue(now, |requester, _| requester.downgrade(request));
    }

    pub(super) fn on_queue_packet(&mut self, now: Time, packet: &[u8]) -> Result<(), DropReason> {
        let header = header_of(packet)?;
        if header.epoch != self.epoch() {
            return Err(DropReason::StaleEpoch);
        }
        let attempt = Attempt::read(packet, BODY);
        self.has_had_queues = true;
        if is_for_server(header.kind) {
            self.at_server(now, |server, link| server.on_packet(link, &header, &attempt));
        } else {
            self.at_queue(now, |requester, link| requester.on_packet(link, &header, &attempt));
        }
        if core::mem::take(&mut self.queue.bereft) {
            self.lose_session(now);
        }
        Ok(())
    }

    pub(super) fn on_queue_tick(&mut self, now: Time) {
        if self.queue.next_timer() <= now {
            self.at_queue(now, |requester, link| requester.on_tick(link));
        }
        if self.server.as_ref().is_some_and(|server| server.next_timer() <= now) {
            self.at_server(now, |server, link| server.on_tick(link));
        }
        if self.server.as_ref().is_some_and(|server| server.is_exhausted()) {
            self.lose_session(now);
        }
    }

    /// Asked after every call of every node: one that never had queues has nothing to look at.
    #[inline]
    pub(super) fn next_queue_timer(&mut self) -> Time {
        if self.has_had_queues { self.next_timer_of_queues() } else { Time::NEVER }
    }

    fn next_timer_of_queues(&mut self) -> Time {
        let server = self.server.as_ref().map_or(Time::NEVER, |server| server.next_timer());
        self.queue.next_timer().min(self.queue.holds_end()).min(server)
    }

    /// A session has begun, and has queues or has not.
    pub(super) fn start_queue(&mut self, now: Time, incarnation: u64) {
        self.queue.start(incarnation, self.config.first_request);
        self.has_had_queues |= self.is_queued();
        if self.config.lock_server && self.is_queued() {
            // Of the session before nothing is left, and the namespace may have other rules by now.
            self.server.insert(crate::queue::LockServer::new(&self.config, incarnation)).start(now);
        }
    }

    /// The switch has begun another epoch.
    pub(super) fn begin_queue_epoch(&mut self, now: Time) {
        if !self.queue.begin_epoch() {
            return self.lose_session(now);
        }
        if let Some(server) = &mut self.server {
            server.start(now);
        }
    }

    /// A node's session is over: a lock server need not wait for it.
    pub(super) fn on_queue_down(&mut self, now: Time, dead: Handle, incarnation: u64) {
        let prefix = incarnation & ((1 << INCARNATION_BITS) - 1);
        self.at_server(now, |server, link| server.on_down(link, dead, |request| request >> COUNTER_BITS == prefix));
    }

    pub(super) fn lose_queue(&mut self) {
        self.queue.lose_everything();
        if let Some(server) = &mut self.server {
            server.stop();
        }
        self.tell_queue();
    }

    /// The session ends here, and its owner hears of it at once. Others do only if nothing is held: whoever holds was
    /// told until when that is safe, so the controller counts the lease of one that has become silent.
    pub(super) fn lose_session(&mut self, now: Time) {
        if self.session.info().is_none() {
            return;
        }
        if self.holds().next().is_some() && !self.config.is_broken(Mutant::LeaveHolds) {
            let change = self.session.fall_silent();
            return self.on_change(Some(change));
        }
        self.is_bereft = true;
        self.leave(now);
    }

    fn at_queue<R>(&mut self, now: Time, work: impl FnOnce(&mut crate::queue::Requester, &mut Link<'_>) -> R) -> R {
        let header = self.session.header(service::QUEUE, 0, 0);
        let result = work(&mut self.queue, &mut Link { now, header, out: &mut self.out });
        self.tell_queue();
        result
    }

    fn at_server(&mut self, now: Time, work: impl FnOnce(&mut crate::queue::LockServer, &mut Link<'_>)) {
        let header = self.session.header(service::QUEUE, 0, 0);
        if let Some(server) = &mut self.server {
            work(server, &mut Link { now, header, out: &mut self.out });
        }
    }

    fn tell_queue(&mut self) {
        while let Some(event) = self.queue.told() {
            self.events.push(event);
        }
    }
}
