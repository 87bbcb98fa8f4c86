//! What becomes of agents' books when a node is told something: whoever stood in those of the slot that is spoken of,
//! and does not any more, is put before the checker.
//!
//! Only that slot is looked at, so that this costs a run little. Releases speak of one slot; time alone releases
//! nothing.

use wayside_protocol::{Booked, Handle, Node, RequestId, Stamp, Time, Token};
use wayside_wire::{BODY, Entry, Header, check, kind, service};

use super::World;
use crate::chart;
use crate::checker::{Cause, Owner, Process};
use crate::host::Host;
use crate::network::Flight;

/// Bits of a request id that count within an incarnation.
const COUNTER_BITS: u32 = 40;

impl World {
    /// A packet for the node of a process that runs.
    pub(super) fn deliver(&mut self, index: usize, flight: &Flight) {
        let packet = &flight.packet[..];
        let refused = self.authenticated.then(|| self.refused(index)).flatten();
        match slot_and_cause(packet) {
            Some((slot, cause)) => self.watch(index, slot, cause, |node, now| node.on_packet(now, packet)),
            None => self.with_node(index, |node, now| node.on_packet(now, packet)),
        }
        let is_false = flight.is_tampered || !self.is_meant_for(index, packet);
        if is_false && refused.is_some() && self.refused(index) == refused {
            let process = self.hosts[index].process();
            self.believed(format!("{process:?} believes {}", chart::packet(packet)));
        }
    }

    /// An application gives back what it holds, or stops waiting for it.
    pub(super) fn release(&mut self, index: usize, request: RequestId) {
        let Some(running) = &self.hosts[index].running else { return };
        let Some(handle) = running.node.session().map(|session| session.handle) else { return };
        let held = running.node.holds().find(|hold| hold.request == request).map(|hold| (hold.slot, Some(hold.token)));
        let awaited = || running.node.waits().find(|wait| wait.request == request).map(|wait| (wait.slot, None));
        let Some((slot, token)) = held.or_else(awaited) else { return };
        let cause = Cause::Release { holder: handle, request, token };
        self.watch(index, slot, cause, |node, now| node.release(now, request));
    }

    fn with_node(&mut self, index: usize, work: impl FnOnce(&mut Node, Time)) {
        if let Some(running) = &mut self.hosts[index].running {
            let time = running.time(self.now);
            work(&mut running.node, time);
        }
    }

    fn watch(&mut self, index: usize, slot: u32, cause: Cause, work: impl FnOnce(&mut Node, Time)) {
        let mut before = std::mem::take(&mut self.booked);
        before.clear();
        before.extend(self.books(index, slot).into_iter().flatten());
        self.with_node(index, work);
        #[cfg(feature = "mutants")]
        if self.options.books_unseen {
            before.clear();
        }
        if !before.is_empty() {
            self.compare(index, slot, cause, &before);
        }
        self.booked = before;
    }

    fn books(&self, index: usize, slot: u32) -> Option<impl Iterator<Item = Booked> + '_> {
        self.hosts[index].running.as_ref()?.node.books(slot)
    }

    fn compare(&mut self, index: usize, slot: u32, cause: Cause, before: &[Booked]) {
        let World { hosts, checker, now, .. } = self;
        let (agent, now) = (hosts[index].process(), *now);
        let Some(node) = hosts[index].running.as_ref().map(|running| &running.node) else { return };
        // A session that has just ended takes its agents along, and agents that are gone have handed their waiters on.
        if node.session().is_none() {
            return;
        }
        let is_gone = node.books(slot).is_none();
        for party in before {
            let mut after = node.books(slot).into_iter().flatten();
            let stays = after.any(|p| (p.holder, p.request) == (party.holder, party.request));
            if stays || (is_gone && party.token.is_none()) {
                continue;
            }
            let Some(process) = process_of(hosts, party, now) else { continue };
            // What its own node has ended just now it hears of in a moment.
            if process == agent && !is_open(node, party.request) {
                continue;
            }
            checker.dropped(now, agent, Owner { process, request: party.request }, party, &cause);
        }
    }
}

/// The slot of a packet, and what it may do to the slot's books. None where it is for none, or for all of them: a
/// census stops agents, and what the controller makes of its answers is another rule's.
fn slot_and_cause(packet: &[u8]) -> Option<(u32, Cause)> {
    let header = check(packet).ok().filter(|header| header.service == service::LOCK)?;
    let entry = Entry::read(packet, BODY);
    match header.kind {
        kind::lock::CENSUS | kind::lock::ADOPT => None,
        kind::lock::RELEASE => Some((entry.slot, release(&header, &entry, true))),
        kind::lock::CANCEL => Some((entry.slot, release(&header, &entry, false))),
        _ => Some((entry.slot, Cause::Other(header.kind))),
    }
}

fn release(header: &Header, entry: &Entry, of_grant: bool) -> Cause {
    let stamp = Stamp { epoch: header.epoch, tenure: entry.tenure };
    let token = of_grant.then(|| Token::new(stamp, entry.sequence));
    Cause::Release { holder: entry.holder, request: RequestId(entry.request), token }
}

/// The process whose session has this handle and made this request, if its lease runs.
fn process_of(hosts: &[Host], party: &Booked, now: u64) -> Option<Process> {
    let owns = |handle: Handle, incarnation: u64| {
        handle == party.holder && (incarnation << COUNTER_BITS) >> COUNTER_BITS == party.request.0 >> COUNTER_BITS
    };
    hosts
        .iter()
        .filter(|host| host.running.as_ref().is_some_and(|running| running.believes(now)))
        .find(|host| {
            let session = host.running.as_ref().and_then(|running| running.node.session());
            session.is_some_and(|session| owns(session.handle, session.incarnation))
        })
        .map(Host::process)
}

fn is_open(node: &Node, request: RequestId) -> bool {
    node.holds().any(|hold| hold.request == request) || node.waits().any(|wait| wait.request == request)
}
