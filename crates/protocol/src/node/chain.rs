//! The node's reads, writes and watches of keys: `crate::chain::Client` with this node's session.

use super::{Event, Node};
use crate::chain::{Answer, Ask, Glance, Link, Scope, WatchId, Watching};
use crate::{AcquireError, RequestId, Time};
use core::net::SocketAddrV4;
use wayside_wire::{Header, service};

impl Node {
    /// Asks for a key, or for a change of it. The answer is an event: [`Event::Chain`].
    ///
    /// # Errors
    /// Without a session.
    pub fn ask_key(&mut self, now: Time, ask: &Ask) -> Result<RequestId, AcquireError> {
        self.session.info_at(now).ok_or(AcquireError::NoSession)?;
        Ok(self.at_chain(now, |chain, link| chain.ask(link, ask)))
    }

    /// The name of a key that has never been made, as [`crate::chain::Told::Unnamed`] asks for.
    pub fn name_key(&mut self, now: Time, request: RequestId, name: &[u8]) {
        self.at_chain(now, |chain, link| chain.insert(link, request, name));
    }

    /// The answer to a request of [`Node::ask_key`] that was told to be answered.
    pub fn take_answer(&mut self, request: RequestId) -> Option<Answer> {
        self.chain.take(request)
    }

    /// Gives up. Whether a write has its effect is not known.
    pub fn cancel_key(&mut self, now: Time, request: RequestId) {
        self.at_chain(now, |chain, link| chain.cancel(link, request));
    }

    /// Watches keys, with this session and those after it. [`Event::Watch`] tells that there is something to see.
    pub fn watch(&mut self, now: Time, scope: Scope) -> WatchId {
        self.at_chain(now, |chain, link| chain.watch(link, scope))
    }

    /// Whether a watch sees whatever happens from now on.
    pub fn is_watching(&self, id: WatchId) -> bool {
        self.chain.is_watching(id)
    }

    /// The next thing that a watch has seen.
    pub fn look_at_watch(&mut self, now: Time, id: WatchId) -> Glance {
        self.at_chain(now, |chain, link| chain.look(link, id))
    }

    /// Somebody waits until then for a watch to see something.
    pub fn await_watch(&mut self, id: WatchId, until: Time) {
        self.chain.await_watch(id, until);
    }

    /// Gives the watches away, to the node that follows this one.
    pub fn leave_watches(&mut self) -> Watching {
        self.chain.leave_watches()
    }

    /// Goes on with the watches of the node before.
    pub fn take_watches(&mut self, watching: Watching) {
        self.chain.take_watches(watching);
    }

    /// Ends a watch.
    pub fn unwatch(&mut self, id: WatchId) {
        self.chain.unwatch(id);
    }

    /// Whether keys are at this switch, as the session's has told.
    pub fn knows_switch(&self, address: SocketAddrV4) -> bool {
        self.chain.knows_switch(address)
    }

    pub(super) fn on_chain(&mut self, now: Time, header: &Header, packet: &[u8]) {
        self.at_chain(now, |chain, link| chain.on_packet(link, header, packet));
    }

    pub(super) fn on_chain_tick(&mut self, now: Time) {
        self.at_chain(now, |chain, link| chain.on_tick(link));
    }

    /// Lets the chain client work, then tells what it has to tell.
    fn at_chain<R>(&mut self, now: Time, work: impl FnOnce(&mut crate::chain::Client, &mut Link<'_>) -> R) -> R {
        let header = self.session.header(service::CHAIN, 0, 0);
        let result = work(&mut self.chain, &mut Link { now, header, out: &mut self.out });
        self.tell_chain();
        result
    }

    pub(super) fn tell_chain(&mut self) {
        while let Some((request, told)) = self.chain.told() {
            self.events.push(Event::Chain { request, told });
        }
        while let Some(watch) = self.chain.told_watch() {
            self.events.push(Event::Watch(watch));
        }
    }
}
