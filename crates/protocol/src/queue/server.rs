//! A node as its namespace's lock server: of all of its names, or of some of the parts that they are divided into. The
//! controller says which.
//!
//! Invariants
//! * It answers nobody and pushes nothing of a part before the controller has told it its term of that part, and
//!   nothing of one epoch or term counts in another.
//! * Of a part what was said in the highest term holds, whichever packet comes last.

use super::own::Terms;
use super::served::Served;
use super::{CAN_MOVE, CAN_SHARE, COUNTER_BITS, Link};
use crate::memory::Part;
use crate::mutant::Mutant;
use crate::node::{Booked, NodeConfig};
use crate::{Handle, Time};
use alloc::collections::BTreeMap;
use wayside_wire::{Attempt, Header, kind};

/// See the module's documentation.
pub(crate) struct LockServer {
    config: NodeConfig,
    /// What ids of its session's requests begin with.
    base: u64,
    /// How many parts there are.
    of: u16,
    /// Those that are this node's.
    served: BTreeMap<u16, Served>,
    /// The highest term that was heard of each.
    terms: BTreeMap<u16, u16>,
    /// When the controller is asked again.
    due: Time,
}

/// The controller is asked so often in a lease, by whoever is a lock server or would be one.
pub(crate) const QUESTIONS: u64 = 4;

impl LockServer {
    /// Of a session of this incarnation.
    pub fn new(config: &NodeConfig, incarnation: u64) -> LockServer {
        let (served, terms) = (BTreeMap::new(), BTreeMap::new());
        let base = incarnation << COUNTER_BITS;
        LockServer { config: config.clone(), base, of: 1, served, terms, due: Time::NEVER }
    }

    /// A session has begun, or another epoch.
    pub fn start(&mut self, now: Time) {
        self.stop();
        self.due = now;
    }

    /// The session is over.
    pub fn stop(&mut self) {
        self.served.clear();
        self.terms.clear();
        self.due = Time::NEVER;
    }

    /// Another switch goes on with the parts as they are. Its controller has not heard yet who offers itself.
    pub fn hurry(&mut self, now: Time) {
        self.due = if self.due == Time::NEVER { self.due } else { now };
    }

    /// The namespace has another policy.
    pub fn decide_by(&mut self, config: &NodeConfig) {
        self.config = config.clone();
        self.served.values_mut().for_each(|served| served.decide_by(config));
    }

    /// Whether this node is the lock server of a name.
    pub fn serves(&self, name: u64) -> bool {
        self.served.contains_key(&Part::of_name(name, self.of).number)
    }

    /// Of a lock of its own: who holds it, and who waits.
    pub fn line(&self, epoch: u32, name: u64) -> impl Iterator<Item = Booked> + '_ {
        let served = self.served.get(&Part::of_name(name, self.of).number);
        served.into_iter().flat_map(move |served| served.line(epoch, name))
    }

    /// Names of which a move is known.
    #[cfg(test)]
    pub fn moves_known(&self) -> usize {
        self.served.values().map(Served::moves_known).sum()
    }

    /// A term of its has no tickets left: another one has to follow.
    pub fn is_exhausted(&self) -> bool {
        self.served.values().any(Served::is_exhausted)
    }

    pub fn next_timer(&self) -> Time {
        self.served.values().map(Served::next_timer).min().unwrap_or(Time::NEVER).min(self.due)
    }

    pub fn on_tick(&mut self, link: &mut Link<'_>) {
        if self.due <= link.now {
            let can = CAN_MOVE | CAN_SHARE;
            let attempt = Attempt { holder: link.me(), request: self.base, number: can, ..Attempt::default() };
            link.send(0, kind::queue::SERVE, 0, &attempt);
            self.due = link.now + self.config.retransmit_us.max(1);
        }
        self.served.values_mut().for_each(|served| served.on_tick(link));
    }

    /// A session is over.
    pub fn on_down(&mut self, link: &mut Link<'_>, dead: Handle, is_its: impl Fn(u64) -> bool) {
        self.served.values_mut().for_each(|served| served.on_down(link, dead, &is_its));
    }

    pub fn on_packet(&mut self, link: &mut Link<'_>, header: &Header, attempt: &Attempt) {
        if header.kind == kind::queue::SERVING {
            return self.on_serving(link, header, attempt);
        }
        if let Some(served) = self.served.get_mut(&Part::of_name(attempt.name, self.of).number) {
            served.on_packet(link, header, attempt);
        }
    }

    /// SERVING, from the controller: of one part, who has it in which term.
    fn on_serving(&mut self, link: &mut Link<'_>, header: &Header, attempt: &Attempt) {
        if header.source != 0 || attempt.holder != link.me() || self.due == Time::NEVER {
            return;
        }
        let terms = Terms { term: attempt.number as u16, lease: attempt.order, patience: attempt.over };
        self.due = link.now + (terms.lease / QUESTIONS).max(self.config.retransmit_us);
        // Earlier switches know of no parts, nor do they tell the term of another's.
        let part = Part { number: attempt.room, of: u16::from(attempt.cause).max(1) };
        if part.of != self.of {
            // In one epoch there is but one division, and what is said of none is older than what was said of it.
            if !self.served.is_empty() {
                return;
            }
            self.of = part.of;
        }
        let known = self.terms.entry(part.number).or_default();
        let term = terms.term.max(attempt.ticket as u16);
        if term <= *known {
            return;
        }
        *known = term;
        if self.served.contains_key(&part.number) && self.is_broken(Mutant::KeepPart) {
            return;
        }
        self.served.remove(&part.number);
        if terms.term != 0 {
            self.served.insert(part.number, Served::new(link.now, terms, &self.config));
        }
    }

    fn is_broken(&self, mutant: Mutant) -> bool {
        cfg!(feature = "mutants") && self.config.mutant == Some(mutant)
    }
}
