//! The node in a namespace of which some or all locks are queues: `crate::queue`'s machines with this node's session.
//!
//! Invariant: a hold that its switch or its lock server may take for over before the session's lease is takes the
//! session along: what a node tells of its session says until when all of its holds are safe.

use super::{Booked, Node, header_of};
use crate::lock::{Acquire, AcquireError};
use crate::mutant::Mutant;
use crate::queue::{Fetch, Fetched, Link, NotFetched, Third, is_about_a_name, is_for_server};
use crate::{Handle, RequestId, Time};
use alloc::vec::Vec;
use wayside_wire::{Attempt, BODY, DropReason, Fetch as Body, Header, blocks, kind, service};

/// Low bits of an incarnation, with which its request ids begin.
const INCARNATION_BITS: u32 = 24;
const COUNTER_BITS: u32 = 40;

impl Node {
    /// Until when a hold of a lock server's own lock lasts if it is not renewed, and how long a whole one does, in
    /// microseconds. None: as long as the session, or not held.
    pub fn lease_of(&self, request: RequestId) -> Option<(Time, u64)> {
        self.queue.lease_of(request)
    }

    /// Whether some locks of the session's namespace are queues.
    #[inline]
    pub(super) fn has_queues(&self) -> bool {
        self.session.info().is_some_and(|info| info.engine.has_queues())
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
        self.enter_queue(now, |requester, link| requester.acquire(link, want))
    }

    pub(super) fn queue_acquire_many(
        &mut self,
        now: Time,
        wants: &[Acquire],
        ids: &mut Vec<RequestId>,
    ) -> Result<(), AcquireError> {
        self.queue_session(now)?;
        self.enter_queue(now, |requester, link| requester.acquire_many(link, wants, ids))
    }

    /// Nothing is asked for while a hold is over of which nobody has told yet.
    pub(super) fn queue_session(&self, now: Time) -> Result<(), AcquireError> {
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
        self.has_had_queues = true;
        if matches!(header.kind, kind::queue::FETCH | kind::queue::FETCHED) {
            return self.on_fetch_packet(now, &header, packet);
        }
        let attempt = Attempt::read(packet, BODY);
        if is_for_server(header.kind) {
            // A lock server has to do with what may be a queue; nobody asks it for anything else.
            if is_about_a_name(header.kind) && !self.is_queued(attempt.name) {
                return Err(DropReason::NoQueue);
            }
            self.at_server(now, |server, link| server.on_packet(link, &header, &attempt));
        } else {
            self.at_queue(now, |requester, link| requester.on_packet(link, &header, &attempt));
        }
        if core::mem::take(&mut self.queue.bereft) {
            self.lose_session(now);
        }
        Ok(())
    }

    fn on_fetch_packet(&mut self, now: Time, header: &Header, packet: &[u8]) -> Result<(), DropReason> {
        let fetch = Body::read(packet, BODY);
        let content = blocks(packet).get(..fetch.length.into()).ok_or(DropReason::BadValue)?;
        if header.kind == kind::queue::FETCHED {
            self.at_queue(now, |requester, link| requester.on_fetched(link, header, &fetch, content));
            return Ok(());
        }
        let incarnation = self.session.info().map_or(0, |info| info.incarnation);
        let own = self.session.header(service::QUEUE, 0, 0);
        let link = &mut Link { now, header: own, out: &mut self.out };
        self.fetches.on_fetch(link, header, incarnation, &fetch, content);
        Ok(())
    }

    /// As [`Node::acquire`], but that the grant, if the switch has it at once, comes by way of a third node, with what
    /// that answers to `ask`, which is no longer than [`crate::FETCH_BYTES_MOST`]: [`Node::take_fetched`]. In a
    /// namespace without queues it is that.
    pub fn acquire_by(
        &mut self,
        now: Time,
        want: Acquire,
        third: Third,
        ask: &[u8],
    ) -> Result<RequestId, AcquireError> {
        if !self.is_queued(want.name) {
            return self.acquire(now, want);
        }
        self.admit(want.name)?;
        self.session.info_at(now).ok_or(AcquireError::NoSession)?;
        self.queue_session(now)?;
        self.enter_queue(now, |requester, link| requester.acquire_by(link, &want, third, ask))
    }

    /// Once, for a request of [`Node::acquire_by`] that was granted: what came with the grant, or why nothing did.
    pub fn take_fetched(&mut self, request: RequestId) -> Fetched {
        self.queue.take_fetched(request).unwrap_or(Err(NotFetched::Direct))
    }

    /// Whether it answers those who are granted locks by way of it. Whoever does takes what [`Node::fetch`] has after
    /// every call.
    pub fn serve_fetches(&mut self, serves: bool) {
        self.fetches.serve(serves);
    }

    /// The next question of somebody who was granted a lock.
    pub fn fetch(&mut self) -> Option<Fetch> {
        self.fetches.take()
    }

    /// Answers it: at most [`crate::FETCH_BYTES_MOST`] bytes, or that there is nothing.
    pub fn answer(&mut self, now: Time, fetch: &Fetch, data: Option<&[u8]>) {
        let Some(incarnation) = self.session.info().map(|info| info.incarnation) else { return };
        let header = self.session.header(service::QUEUE, 0, 0);
        let mutant = self.config.mutant.filter(|_| cfg!(feature = "mutants"));
        self.fetches.answer(&mut Link { now, header, out: &mut self.out }, incarnation, fetch, data, mutant);
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
        self.has_had_queues |= self.has_queues();
        if self.config.lock_server && self.has_queues() {
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

    /// Another switch goes on with all queues.
    pub(super) fn hurry_queue(&mut self, now: Time) {
        self.queue.hurry(now);
        if let Some(server) = &mut self.server {
            server.hurry(now);
        }
    }

    /// A node's session is over: a lock server need not wait for it.
    pub(super) fn on_queue_down(&mut self, now: Time, dead: Handle, incarnation: u64) {
        let prefix = incarnation & ((1 << INCARNATION_BITS) - 1);
        self.at_server(now, |server, link| server.on_down(link, dead, |request| request >> COUNTER_BITS == prefix));
    }

    pub(super) fn lose_queue(&mut self) {
        self.queue.lose_everything();
        self.fetches.forget();
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

    /// New requests: their ids are of the one counter that the node has.
    pub(super) fn enter_queue<R>(
        &mut self,
        now: Time,
        work: impl FnOnce(&mut crate::queue::Requester, &mut Link<'_>) -> R,
    ) -> R {
        let has_own = self.config.is_broken(Mutant::OwnIds);
        if !has_own {
            self.queue.skip_to(self.requests.next_id());
        }
        let result = self.at_queue(now, work);
        if !has_own {
            self.requests.skip_to(self.queue.next_id());
        }
        result
    }

    pub(super) fn at_queue<R>(
        &mut self,
        now: Time,
        work: impl FnOnce(&mut crate::queue::Requester, &mut Link<'_>) -> R,
    ) -> R {
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
