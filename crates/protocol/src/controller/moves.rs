//! Which locks have their queue in the switch, and how one gets there or leaves: docs/queue.md, "Moves".
//!
//! ```text
//!   at its server ──Await──► Awaited ──RECALL, CEDED──► Here ──Drain──► Drains ──nobody left──► Handed ──┐
//!        ▲                                                ▲───too long────┘                            YIELD
//!        └──────────────────────────────────── Remove ◄──TAKEN───────────────────────────────────────────┘
//! ```
//!
//! Invariants
//! * The stage in the switch's memory is the whole truth: what is here says what to repeat, and when. A controller that
//!   starts anew goes on from the stages.
//! * A queue is opened by a CEDED of its own move alone, of the lock server at that moment; a region is freed by a
//!   TAKEN of the lock server at that moment, with the ticket that the queue has come to.
//! * The regions of a namespace that is planned never have more cells than it has room for, whatever moves.
//! * No more moves begin at a time than are allowed; one that takes long keeps no other from beginning.
//! * A lock is handed over only to a term that has tickets above the queue's, or whose successors have.
//! * A lock whose queue gives its server requests with priorities goes there, whoever holds it for however long, and is
//!   not asked back before that has ceased.
//! * Where nothing moves and nothing has to, nothing is looked for: a namespace rests until it looks another way than
//!   when all was found in its place, or others are wanted.

#[cfg(test)]
mod tests;

use super::{Controller, Notice, Store};
use crate::memory::{Line, LockServer, Part, Stage, Step, SwitchMemory};
use crate::queue::{CEDED_ORDERS, TICKET_BITS, first_number};
use crate::{Handle, Mutant, Time};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use wayside_wire::{Attempt, Header, QueueKind, service};

/// Retransmission pauses that a queue may drain for. Then it serves on, so that nobody waits for one holder who stays
/// where others could hold beside him, and rests for so many times as long.
const DRAIN_PAUSES: u64 = 20;
const RESTS: u64 = 5;

/// A move that has lasted for so many retransmission pauses waits for somebody who holds: others may begin meanwhile.
const MOVE_PAUSES: u64 = 2 * DRAIN_PAUSES;

/// RECALLs that are not answered come more and more seldom, so many retransmission pauses apart at most: a lock may be
/// its server's for months because of its priorities.
const RECALL_PAUSES: u64 = 20;

/// Requests with a priority that a queue gave its lock server.
#[derive(Clone, Copy, Debug, Default)]
struct Ranks {
    /// As the queue counts them.
    count: u32,
    /// For so long the lock is its lock server's.
    until: Time,
}

/// A lock's move.
#[derive(Clone, Copy, Debug)]
struct Move {
    /// Of its RECALLs; 0: there was none.
    id: u64,
    since: Time,
    /// When something is said again, or tried again.
    due: Time,
}

#[derive(Default)]
pub(super) struct Moves {
    /// Of a namespace: the names that are to have a queue, and their cells. Without an entry all stays where it is.
    wanted: BTreeMap<u16, BTreeMap<u64, u32>>,
    under_way: BTreeMap<(u16, u64), Move>,
    ranks: BTreeMap<(u16, u64), Ranks>,
    /// Of a namespace in which every lock was found in its place: those that had a queue, by name, with their cells.
    in_place: BTreeMap<u16, Vec<(u64, u32)>>,
    /// What was read last: its memory is used again.
    lines: Vec<Line>,
}

impl Moves {
    /// Every queue begins anew, here.
    pub fn begin_epoch(&mut self) {
        self.under_way.clear();
        self.ranks.clear();
    }

    /// All of a namespace stays where it is.
    pub fn forget_wishes(&mut self, namespace: u16) {
        self.wanted.remove(&namespace);
        self.in_place.remove(&namespace);
    }

    /// Looks for queues that have given their lock server requests with priorities since. Whether there are some.
    fn note_ranks(&mut self, now: Time, lull: u64, namespace: u16, lines: &[Line]) -> bool {
        let mut are_news = false;
        for line in lines.iter().filter(|line| line.ranked != 0) {
            let known = self.ranks.entry((namespace, line.name)).or_default();
            if known.count != line.ranked {
                *known = Ranks { count: line.ranked, until: now + lull };
                are_news = true;
            }
        }
        if are_news {
            self.ranks.retain(|_, ranks| ranks.count != 0 || now < ranks.until);
        }
        are_news
    }

    /// Whether a lock is to be its lock server's because of priorities.
    pub fn is_ranked(&self, now: Time, namespace: u16, name: u64) -> bool {
        self.ranks.get(&(namespace, name)).is_some_and(|ranks| now < ranks.until)
    }

    /// Whether these are the queues that were found in their places, and here still.
    fn rests(&self, namespace: u16, lines: &[Line]) -> bool {
        let is_same =
            |(line, known): (&Line, &(u64, u32))| line.stage == Stage::Here && (line.name, line.cells) == *known;
        let known = self.in_place.get(&namespace);
        known.is_some_and(|known| known.len() == lines.len() && lines.iter().zip(known).all(is_same))
    }

    /// Whether every lock is where it is wanted.
    fn are_in_place(&self, now: Time, namespace: u16, lines: &[Line]) -> bool {
        let wanted = self.wanted.get(&namespace);
        let is_wanted = |line: &Line| {
            let may_stay = !self.is_ranked(now, namespace, line.name);
            may_stay && wanted.is_none_or(|wanted| wanted.get(&line.name) == Some(&line.cells))
        };
        let are_all = wanted.is_none_or(|wanted| wanted.len() == lines.len());
        are_all && lines.iter().all(|line| line.stage == Stage::Here && is_wanted(line))
    }
}

impl<M: SwitchMemory, S: Store> Controller<M, S> {
    /// From now on these names of a namespace are to have their queue in the switch, of so many cells each, and no
    /// others. Those that have to move do so as soon as they can; one that has a queue of another size leaves, and
    /// comes back.
    pub fn place(&mut self, namespace: u16, wanted: impl IntoIterator<Item = (u64, u32)>) {
        let wanted: BTreeMap<u64, u32> = wanted.into_iter().collect();
        if self.moves.wanted.get(&namespace) != Some(&wanted) {
            self.moves.forget_wishes(namespace);
            self.moves.wanted.insert(namespace, wanted);
        }
    }

    /// Does what is due.
    pub(super) fn move_locks(&mut self, now: Time) {
        if !self.memory.serving() {
            return;
        }
        let queued = self.config.namespaces.iter().filter(|namespace| namespace.engine.has_queues());
        for namespace in queued.map(|namespace| namespace.id).collect::<Vec<u16>>() {
            let mut lines = core::mem::take(&mut self.moves.lines);
            self.memory.read_lines(namespace, &mut lines);
            self.measure(now, namespace, &lines);
            let are_ranked = self.moves.note_ranks(now, self.config.lull, namespace, &lines);
            if are_ranked || !self.moves.rests(namespace, &lines) {
                self.move_each(now, namespace, &lines);
            }
            self.moves.lines = lines;
        }
    }

    fn move_each(&mut self, now: Time, namespace: u16, lines: &[Line]) {
        let parts = self.parts_of(namespace);
        let movers: Vec<Option<LockServer>> = (0..parts).map(|part| self.mover(namespace, part)).collect();
        let mover_of = |name: u64| movers[usize::from(Part::of_name(name, parts).number)];
        let mut may_begin = self.may_begin(now, namespace, lines);
        for line in lines {
            self.move_on(now, namespace, line, mover_of(line.name), &mut may_begin);
        }
        self.await_wanted(namespace, lines, may_begin, |name| mover_of(name).is_some());
        if self.moves.are_in_place(now, namespace, lines) {
            let in_place = lines.iter().map(|line| (line.name, line.cells)).collect();
            self.moves.in_place.insert(namespace, in_place);
        } else {
            self.moves.in_place.remove(&namespace);
        }
    }

    /// The lock server of a part, if it lives and moves locks.
    fn mover(&self, namespace: u16, part: u16) -> Option<LockServer> {
        let server = self.memory.lock_server(namespace, part);
        (self.lives(server.handle) && self.offers.can_move(namespace, server.handle)).then_some(server)
    }

    /// How many moves may begin now.
    fn may_begin(&self, now: Time, namespace: u16, lines: &[Line]) -> usize {
        let patience = MOVE_PAUSES * self.config.retransmit;
        let moves = |line: &&Line| {
            if line.stage == Stage::Awaited && self.moves.is_ranked(now, namespace, line.name) {
                return false;
            }
            let known = self.moves.under_way.get(&(namespace, line.name));
            line.stage != Stage::Here && known.is_none_or(|known| now.since(known.since) <= patience)
        };
        self.config.moves_at_once.saturating_sub(lines.iter().filter(moves).count())
    }

    fn await_wanted(&mut self, namespace: u16, lines: &[Line], may_begin: usize, moves: impl Fn(u64) -> bool) {
        let wanted = self.moves.wanted.get(&namespace).into_iter().flatten();
        // They are in order.
        let has_queue = |name: &u64| lines.binary_search_by_key(name, |line| line.name).is_ok();
        let missing = wanted.filter(|(name, _)| !has_queue(name) && moves(**name));
        // Where there is no room yet there will be, once those that leave have left; for more there is none either.
        let mut no_room = u32::MAX;
        let mut left = self.room(namespace).saturating_sub(lines.iter().map(|line| line.cells).sum());
        let begun = missing.filter(|&(&name, &cells)| {
            let fits = cells < no_room && cells <= left;
            let begins = fits && self.memory.step(namespace, name, Step::Await { cells });
            if begins {
                left -= cells;
            } else {
                no_room = no_room.min(cells);
            }
            begins
        });
        begun.take(may_begin).count();
    }

    fn move_on(&mut self, now: Time, namespace: u16, line: &Line, server: Option<LockServer>, may_begin: &mut usize) {
        let wanted = self.moves.wanted.get(&namespace);
        let is_ranked = self.moves.is_ranked(now, namespace, line.name);
        let is_unwanted = is_ranked || wanted.is_some_and(|wanted| wanted.get(&line.name) != Some(&line.cells));
        let key = (namespace, line.name);
        let Some(server) = server else {
            // Nobody would have it: it serves on.
            self.memory.step(namespace, line.name, Step::Stay);
            return;
        };
        let last_term = line.ticket.saturating_sub(1) >> TICKET_BITS;
        let fits = last_term <= u64::from(server.term);
        let known = self.moves.under_way.get(&key).copied();
        match line.stage {
            Stage::Here if !is_unwanted => {
                self.moves.under_way.remove(&key);
            }
            Stage::Here => {
                let may = fits && *may_begin > 0 && known.is_none_or(|known| known.due <= now);
                if may && self.memory.step(namespace, key.1, Step::Drain) {
                    *may_begin -= 1;
                    self.moves.under_way.insert(key, Move { id: 0, since: now, due: now });
                }
            }
            Stage::Drains => {
                let known = *self.moves.under_way.entry(key).or_insert(Move { id: 0, since: now, due: now });
                let patience = DRAIN_PAUSES * self.config.retransmit;
                if fits && self.memory.step(namespace, key.1, Step::Hand) {
                    if let Some(line) = self.memory.line(namespace, key.1) {
                        self.yield_lock(now, namespace, &line, server);
                    }
                } else if !fits
                    || wanted.is_some_and(|_| !is_unwanted)
                    || (now.since(known.since) > patience && !is_ranked)
                {
                    self.memory.step(namespace, key.1, Step::Stay);
                    self.moves.under_way.insert(key, Move { due: now + RESTS * patience, ..known });
                }
            }
            Stage::Handed => self.yield_lock(now, namespace, line, server),
            Stage::Awaited => self.recall(now, namespace, line.name, server),
        }
    }

    /// YIELD, until it is answered.
    fn yield_lock(&mut self, now: Time, namespace: u16, line: &Line, server: LockServer) {
        let known = self.moves.under_way.entry((namespace, line.name)).or_insert(Move { id: 0, since: now, due: now });
        if known.due > now {
            return;
        }
        known.due = now + self.config.retransmit;
        let body = Attempt {
            name: line.name,
            ticket: line.ticket,
            number: line.pushed,
            order: if line.given == line.settled { 0 } else { line.given },
            ..Attempt::default()
        };
        self.tell_server(namespace, server.handle, QueueKind::Yield, &body);
    }

    /// RECALL, until it is answered.
    fn recall(&mut self, now: Time, namespace: u16, name: u64, server: LockServer) {
        if self.moves.is_ranked(now, namespace, name) {
            return;
        }
        let mut known = match self.moves.under_way.get(&(namespace, name)) {
            Some(known) if known.id != 0 => *known,
            _ => Move { id: self.new_id(), since: now, due: now },
        };
        if known.due <= now {
            let pause = self.config.retransmit;
            known.due = now + now.since(known.since).clamp(pause, RECALL_PAUSES * pause);
            let body = Attempt { name, number: known.id, ..Attempt::default() };
            self.tell_server(namespace, server.handle, QueueKind::Recall, &body);
        }
        self.moves.under_way.insert((namespace, name), known);
    }

    /// CEDED: from here on the lock is the switch's.
    pub(super) fn on_ceded(&mut self, header: &Header, attempt: &Attempt) {
        let Attempt { name, ticket: first, number: id, .. } = *attempt;
        let key = (header.namespace, name);
        let is_its = self.config.is_broken(Mutant::AnyCeded)
            || self.moves.under_way.get(&key).is_some_and(|known| known.id != 0 && known.id == id);
        let handle = self.server_of(header.namespace, name).handle;
        if !is_its || handle != header.source {
            return;
        }
        let pushed = first_number(first);
        let given = pushed + CEDED_ORDERS;
        if self.memory.step(header.namespace, name, Step::Open { first, pushed, given }) {
            self.moves.under_way.remove(&key);
            self.note_move(header.namespace, name, true);
            // It would ask by itself, a moment later.
            let room = self.memory.line(header.namespace, name).map_or(0, |line| line.cells as u16);
            let body = Attempt { name, number: pushed, order: given, room, ..Attempt::default() };
            self.tell_server(header.namespace, handle, QueueKind::Pushed, &body);
        }
    }

    /// TAKEN: the lock's server knows all that it has to know of its queue.
    pub(super) fn on_taken(&mut self, header: &Header, attempt: &Attempt) {
        let line = self.memory.line(header.namespace, attempt.name);
        let is_handed = line.is_some_and(|line| (line.ticket, line.stage) == (attempt.ticket, Stage::Handed));
        if is_handed && self.server_of(header.namespace, attempt.name).handle == header.source {
            let key = (header.namespace, attempt.name);
            self.memory.step(key.0, key.1, Step::Remove);
            self.moves.under_way.remove(&key);
            if let Some(ranks) = self.moves.ranks.get_mut(&key) {
                ranks.count = 0; // Its next queue counts anew.
            }
            self.note_move(key.0, key.1, false);
            // Where nobody plans it has left for its priorities alone, and its cells are its own.
            if let Some(line) = line.filter(|_| !self.moves.wanted.contains_key(&key.0)) {
                self.memory.step(key.0, key.1, Step::Await { cells: line.cells });
            }
        }
    }

    fn note_move(&mut self, namespace: u16, name: u64, to_switch: bool) {
        self.popularity.moved(namespace, name);
        self.notices.push_back(Notice::Moved(namespace, name, to_switch));
    }

    pub(super) fn tell_server(&mut self, namespace: u16, handle: Handle, kind: QueueKind, body: &Attempt) {
        let Some(address) = self.sessions.get(handle).map(|session| session.record.address) else { return };
        let body = Attempt { holder: handle, ..*body };
        let header =
            Header { service: service::QUEUE, kind: kind as u8, destination: handle, namespace, ..Header::default() };
        self.send_body(address, header, kind.body().bytes(0), |packet, at| body.write(packet, at));
    }
}
