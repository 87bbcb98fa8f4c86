//! What becomes of agents' books when a node is told something: whoever stood in those of the slot that is spoken of,
//! and does not any more, is put before the checker.
//!
//! Only that slot is looked at, so that this costs a run little. Releases speak of one slot; time alone releases
//! nothing.

use wayside_protocol::{Booked, Node, RequestId, Stamp, Token};
use wayside_wire::{BODY, Entry, Header, check, kind, service};

use super::Locks;
use super::checker::{Cause, Owner};
use crate::host::Process;
use crate::world::World;

/// Bits of a request id that count within an incarnation.
const COUNTER_BITS: u32 = 40;

impl Locks {
    /// A packet for the node of a process that runs.
    pub(super) fn watch_delivery(&mut self, world: &mut World, host: usize, packet: &[u8]) {
        match slot_and_cause(packet) {
            Some((slot, cause)) => self.watch(world, host, slot, cause, |world| world.hand(host, packet)),
            None => world.hand(host, packet),
        }
    }

    /// An application gives back what it holds, or stops waiting for it.
    pub(super) fn release(&mut self, world: &mut World, host: usize, request: RequestId) {
        let Some(running) = &world.hosts[host].running else { return };
        let Some(handle) = running.node.session().map(|session| session.handle) else { return };
        let held = running.node.holds().find(|hold| hold.request == request).map(|hold| (hold.slot, Some(hold.token)));
        let awaited = || running.node.waits().find(|wait| wait.request == request).map(|wait| (wait.slot, None));
        let Some((slot, token)) = held.or_else(awaited) else { return };
        let cause = Cause::Release { holder: handle, request, token };
        self.watch(world, host, slot, cause, |world| {
            let now = world.now;
            if let Some(running) = &mut world.hosts[host].running {
                let time = running.time(now);
                running.node.release(time, request);
            }
        });
    }

    fn watch(&mut self, world: &mut World, host: usize, slot: u32, cause: Cause, work: impl FnOnce(&mut World)) {
        let mut before = std::mem::take(&mut self.booked);
        before.clear();
        before.extend(books(world, host, slot).into_iter().flatten());
        work(world);
        #[cfg(feature = "mutants")]
        if world.options.books_unseen {
            before.clear();
        }
        // Whose lease runs by a clock that is beyond its bound may be dead by all others' account.
        if !before.is_empty() && world.clocks_are_good() {
            self.compare(world, host, slot, cause, &before);
        }
        self.booked = before;
    }

    fn compare(&self, world: &mut World, host: usize, slot: u32, cause: Cause, before: &[Booked]) {
        let agent = world.hosts[host].process();
        let Some(node) = world.hosts[host].running.as_ref().map(|running| &running.node) else { return };
        // A session that has just ended takes its agents along, and agents that are gone have handed their waiters on.
        if node.session().is_none() {
            return;
        }
        let is_gone = node.books(slot).is_none();
        let mut verdict = Ok(());
        for party in before {
            let mut after = node.books(slot).into_iter().flatten();
            let stays = after.any(|p| (p.holder, p.request) == (party.holder, party.request));
            if stays || (is_gone && party.token.is_none()) {
                continue;
            }
            let Some(process) = process_of(world, party) else { continue };
            // What its own node has ended just now it hears of in a moment.
            if process == agent && !is_open(node, party.request) {
                continue;
            }
            verdict = self.checker.dropped(agent, Owner { process, request: party.request }, party, &cause);
            if verdict.is_err() {
                break;
            }
        }
        Self::judge(world, verdict);
    }
}

fn books(world: &World, host: usize, slot: u32) -> Option<impl Iterator<Item = Booked> + '_> {
    world.hosts[host].running.as_ref()?.node.books(slot)
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
fn process_of(world: &World, party: &Booked) -> Option<Process> {
    let host = &world.hosts[world.host_of(party.holder)?];
    let running = host.running.as_ref().filter(|running| running.believes(world.now))?;
    let session = running.node.session()?;
    let incarnation = (session.incarnation << COUNTER_BITS) >> COUNTER_BITS;
    let owns = session.handle == party.holder && incarnation == party.request.0 >> COUNTER_BITS;
    owns.then(|| host.process())
}

fn is_open(node: &Node, request: RequestId) -> bool {
    node.holds().any(|hold| hold.request == request) || node.waits().any(|wait| wait.request == request)
}
