//! What becomes of agents' books when a node is told something: whoever stood in those of the slot that is spoken of,
//! and does not any more, is put before the checker.
//!
//! Only that slot is looked at, so that this costs a run little. Releases speak of one slot; time alone releases
//! nothing.

use wayside_protocol::memory::SwitchMemory;
use wayside_protocol::{Booked, Node, RequestId, Stamp, Token};
use wayside_wire::{Attempt, BODY, Entry, Header, Policy, check, kind, service};

use super::Locks;
use super::checker::{Cause, Owner};
use super::lines::{Lines, check_handed_over};
use crate::host::Process;
use crate::world::World;

/// Bits of a request id that count within an incarnation.
const COUNTER_BITS: u32 = 40;

/// Whose line it is.
#[derive(Clone, Copy)]
enum Keeper {
    Agent,
    LockServer,
}

impl Locks {
    /// A packet for the node of a process that runs.
    pub(super) fn watch_delivery(&mut self, world: &mut World, host: usize, packet: &[u8]) {
        match slot_and_cause(packet) {
            Some((slot, cause)) => self.watch(world, host, slot, cause, packet, |world| world.hand(host, packet)),
            None => match name_and_kind(packet) {
                Some((name, kind)) => self.watch_server(world, host, name, kind, packet),
                None => world.hand(host, packet),
            },
        }
    }

    /// What a lock server does with a lock of its own.
    fn watch_server(&mut self, world: &mut World, host: usize, name: u64, kind: u8, packet: &[u8]) {
        let line = |world: &World, line: &mut Vec<Booked>| {
            line.clear();
            let own = world.hosts[host].running.iter().flat_map(|running| running.node.own_line(name));
            own.for_each(|party| line.push(party));
        };
        let (mut before, mut after) = (std::mem::take(&mut self.booked), std::mem::take(&mut self.booked_after));
        line(world, &mut before);
        world.hand(host, packet);
        line(world, &mut after);
        self.compare_lines(world, host, (kind, Keeper::LockServer), &[], &before, &after);
        (self.booked, self.booked_after) = (before, after);
    }

    /// An application gives back what it holds, or stops waiting for it.
    pub(super) fn release(&mut self, world: &mut World, host: usize, request: RequestId) {
        let Some(running) = &world.hosts[host].running else { return };
        let Some(handle) = running.node.session().map(|session| session.handle) else { return };
        let held = running.node.holds().find(|hold| hold.request == request).map(|hold| (hold.slot, Some(hold.token)));
        let awaited = || running.node.waits().find(|wait| wait.request == request).map(|wait| (wait.slot, None));
        let Some((slot, token)) = held.or_else(awaited) else { return };
        let cause = Cause::Release { holder: handle, request, token };
        self.watch(world, host, slot, cause, &[], |world| {
            let now = world.now;
            if let Some(running) = &mut world.hosts[host].running {
                let time = running.time(now);
                running.node.release(time, request);
            }
        });
    }

    /// An application asks for a name of this slot.
    pub(super) fn ask<R>(&mut self, world: &mut World, host: usize, slot: u32, ask: impl FnOnce(&mut World) -> R) -> R {
        self.watch(world, host, slot, Cause::Other(kind::lock::ACQUIRE), &[], ask)
    }

    /// Lets something happen to a node, and looks at what that does to the books of a slot. `packet`: if it is one.
    fn watch<R>(
        &mut self,
        world: &mut World,
        host: usize,
        slot: u32,
        cause: Cause,
        packet: &[u8],
        work: impl FnOnce(&mut World) -> R,
    ) -> R {
        let (mut before, mut after) = (std::mem::take(&mut self.booked), std::mem::take(&mut self.booked_after));
        read_books(world, host, slot, &mut before);
        let rested = rests(world, host, slot);
        let result = work(world);
        #[cfg(feature = "mutants")]
        if world.options.books_unseen {
            (self.booked, self.booked_after) = (before, after);
            return result;
        }
        read_books(world, host, slot, &mut after);
        if rested {
            count_kept(world, host, &after);
        }
        // Whose lease runs by a clock that is beyond its bound may be dead by all others' account.
        if before != after && world.clocks_are_good() {
            self.compare(world, host, slot, cause, &before, &after);
        }
        let kind = match cause {
            Cause::Release { .. } => kind::lock::RELEASE,
            Cause::Other(kind) => kind,
        };
        self.compare_lines(world, host, (kind, Keeper::Agent), packet, &before, &after);
        (self.booked, self.booked_after) = (before, after);
        result
    }

    /// P1 to P3.
    fn compare_lines(
        &self,
        world: &mut World,
        host: usize,
        (kind, keeper): (u8, Keeper),
        packet: &[u8],
        before: &[Booked],
        after: &[Booked],
    ) {
        // An agent that has just come begins with another's line, and what the switch says of a change lets in whatever
        // was kept meanwhile: one that was taken out, as its node is dead, may stand there again.
        let answers = [kind::lock::GRANT, kind::lock::RETENURED, kind::lock::FREED, kind::lock::QUEUED];
        let is_one_thing = !answers.contains(&kind);
        // By what it was told last: that others are to go first may not have come to it yet.
        let node = world.hosts[host].running.as_ref().map(|running| &running.node);
        let Some(info) = node.and_then(|node| node.session()) else { return };
        let policy = match (keeper, info.policy) {
            (Keeper::Agent, Policy::ReadPreferring) => Policy::Fair,
            (_, policy) => policy,
        };
        let most = info.patience;
        // Most packets change no line: then nobody has overtaken anybody, and was told nothing of it.
        let is_same = before == after && after.iter().all(|party| party.overtaken <= most);
        if is_one_thing && !is_same && !before.is_empty() && !after.is_empty() {
            match (Lines { before, after, kind, most, policy }).check() {
                Ok(seen) => {
                    if seen.overtook {
                        world.count("overtaken");
                    }
                    if seen.joined {
                        world.count("joined past a waiter");
                    }
                    if seen.was_stopped {
                        world.count("overtaken no more");
                    }
                }
                Err(broken) => Self::judge(world, Err(broken)),
            }
        }
        if !is_same && let Ok(header) = check(packet) {
            let owner = |party: &Booked| Some(Owner { process: process_of(world, party)?, request: party.request });
            let waits = |party: &Booked| owner(party).is_some_and(|owner| self.checker.asked_for(owner).is_some());
            match check_handed_over(packet, &header, before, after, waits) {
                Ok(true) => world.count("rank handed over"),
                Ok(false) => {}
                Err(broken) => Self::judge(world, Err(broken)),
            }
        }
        for party in after.iter().filter(|party| party.token.is_none()) {
            if let Some(process) = process_of(world, party) {
                let verdict = self.checker.booked(Owner { process, request: party.request }, party);
                Self::judge(world, verdict);
            }
        }
    }

    fn compare(&self, world: &mut World, host: usize, slot: u32, cause: Cause, before: &[Booked], after: &[Booked]) {
        let agent = world.hosts[host].process();
        let Some(node) = world.hosts[host].running.as_ref().map(|running| &running.node) else { return };
        // A session that has just ended takes its agents along, and agents that are gone have handed their waiters on.
        if node.session().is_none() {
            return;
        }
        let is_gone = node.books(slot).is_none();
        let mut superseded = false;
        let mut verdict = Ok(());
        for party in before {
            let stays = after.iter().any(|p| (p.holder, p.request) == (party.holder, party.request));
            if stays || (is_gone && party.token.is_none()) {
                continue;
            }
            let Some(process) = process_of(world, party) else { continue };
            // An adoption may be told so late that another agent has adopted the same meanwhile: this one never acted,
            // and goes when the switch does not confirm it.
            if is_gone && named_agent_keeps(world, host, slot, party) {
                superseded = true;
                continue;
            }
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
        if superseded {
            world.count("superseded with holders");
        }
    }
}

/// Whether another agent, to which the slot belongs by the switch's word, has this party in its books.
fn named_agent_keeps(world: &World, host: usize, slot: u32, party: &Booked) -> bool {
    let switch = &world.seats[world.serving_seat()].switch;
    let named = switch.load_slot(world.setup.namespaces[world.hosts[host].namespace].id, slot).agent;
    let agent = world.host_of(named).filter(|&agent| agent != host);
    let running = agent.and_then(|agent| world.hosts[agent].running.as_ref());
    let mut kept = running.and_then(|running| running.node.books(slot)).into_iter().flatten();
    kept.any(|other| (other.holder, other.request) == (party.holder, party.request))
}

fn read_books(world: &World, host: usize, slot: u32, into: &mut Vec<Booked>) {
    into.clear();
    let running = world.hosts[host].running.as_ref();
    // Not `extend`: a chain of iterators is several times as quick when it drives.
    running.and_then(|running| running.node.books(slot)).into_iter().flatten().for_each(|party| into.push(party));
}

/// Whether a node keeps a slot that nobody holds or awaits.
fn rests(world: &World, host: usize, slot: u32) -> bool {
    world.setup.node.kept_most > 0 && world.hosts[host].running.as_ref().is_some_and(|running| running.node.keeps(slot))
}

/// What became of such a slot.
fn count_kept(world: &mut World, host: usize, after: &[Booked]) {
    let own = world.hosts[host].running.as_ref().and_then(|running| running.node.session()).map(|own| own.handle);
    match after.first() {
        Some(party) if party.token.is_none() => world.count("taken along"),
        Some(party) if Some(party.holder) == own => world.count("held at home"),
        Some(_) => world.count("lent"),
        None => {}
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

/// The same of a lock server's own lock, in the words of the lock service. Who says a ticket asks for nothing new.
fn name_and_kind(packet: &[u8]) -> Option<(u64, u8)> {
    let header = check(packet).ok().filter(|header| header.service == service::QUEUE)?;
    let Attempt { name, ticket, order, .. } = Attempt::read(packet, BODY);
    match header.kind {
        kind::queue::ACQUIRE if ticket == 0 && order == 0 => Some((name, kind::lock::ACQUIRE)),
        kind::queue::RELEASE => Some((name, kind::lock::RELEASE)),
        kind::queue::CANCEL => Some((name, kind::lock::CANCEL)),
        _ => None,
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
