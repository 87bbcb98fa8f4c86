//! The node's reads and writes of keys: `crate::chain::Client` with this node's session.

use super::{Event, Node};
use crate::chain::{Answer, Ask, Link};
use crate::{AcquireError, RequestId, Time};
use core::net::SocketAddrV4;
use wayside_wire::{Header, service};

impl Node {
    /// Asks for a key, or for a change of it. The answer is an event: [`Event::Chain`].
    ///
    /// # Errors
    /// Without a session.
    pub fn ask_key(&mut self, now: Time, ask: &Ask) -> Result<RequestId, AcquireError> {
        self.now = now;
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
    }
}
