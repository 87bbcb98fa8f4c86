//! A node's part as its namespace's lock server. The controller says which node is it.
//!
//! Invariants: it answers nobody and pushes nothing before the controller has told it its term, and nothing of one
//! epoch or term counts in another.

use super::Link;
use super::overflow::Overflow;
use super::own::{Claim, Own, Terms, tell_released};
use crate::mutant::Mutant;
use crate::node::NodeConfig;
use crate::{Handle, Time};
use alloc::collections::BTreeMap;
use wayside_wire::{Attempt, Header, kind};

/// See the module's documentation.
pub(crate) struct LockServer {
    overflows: BTreeMap<u64, Overflow>,
    /// None: somebody else is the lock server, or nobody.
    own: Option<Own>,
    /// When the controller is asked again.
    due: Time,
    /// Pauses between two questions: without an answer, and with one.
    pauses: (u64, u64),
    mutant: Option<Mutant>,
}

/// The controller is asked so often in a lease, by whoever is a lock server or would be one.
const QUESTIONS: u64 = 4;

impl LockServer {
    pub fn new(config: &NodeConfig) -> LockServer {
        LockServer {
            overflows: BTreeMap::new(),
            own: None,
            due: Time::NEVER,
            pauses: (config.retransmit_us, config.retransmit_most_us),
            mutant: config.mutant.filter(|_| cfg!(feature = "mutants")),
        }
    }

    /// A session has begun, or another epoch.
    pub fn start(&mut self, now: Time) {
        self.stop();
        self.due = now;
    }

    /// The session is over.
    pub fn stop(&mut self) {
        self.overflows.clear();
        self.own = None;
        self.due = Time::NEVER;
    }

    /// Whether this node is the lock server.
    pub fn serves(&self) -> bool {
        self.own.is_some()
    }

    /// Its term has no tickets left: another one has to follow.
    pub fn is_exhausted(&self) -> bool {
        self.own.as_ref().is_some_and(Own::is_exhausted)
    }

    /// Who waits for a lock that has its queue in the switch: name, holder, request, flags.
    pub fn overflowed(&self) -> impl Iterator<Item = &Attempt> {
        self.overflows.values().flat_map(Overflow::waiting)
    }

    /// Who holds or waits for locks that are the server's own.
    pub fn claims(&self) -> impl Iterator<Item = (u64, &Claim)> {
        self.own.iter().flat_map(Own::lines).flat_map(|(name, line)| line.iter().map(move |c| (name, c)))
    }

    pub fn next_timer(&self) -> Time {
        let own = self.own.as_ref().map_or(Time::NEVER, Own::due);
        self.overflows.values().map(Overflow::due).min().unwrap_or(Time::NEVER).min(own).min(self.due)
    }

    pub fn on_tick(&mut self, link: &mut Link<'_>) {
        if self.due <= link.now {
            let attempt = Attempt { holder: link.me(), ..Attempt::default() };
            link.send(0, kind::queue::SERVE, 0, &attempt);
            self.due = link.now + self.pauses.0.max(1);
        }
        if let Some(own) = &mut self.own {
            own.on_tick(link);
        }
        for overflow in self.overflows.values_mut() {
            if link.out.is_full() {
                return;
            }
            overflow.on_tick(link);
        }
    }

    /// A session is over.
    pub fn on_down(&mut self, link: &mut Link<'_>, dead: Handle, is_its: impl Fn(u64) -> bool) {
        if let Some(own) = &mut self.own {
            own.on_down(link, dead, is_its);
        }
    }

    pub fn on_packet(&mut self, link: &mut Link<'_>, header: &Header, attempt: &Attempt) {
        if header.kind == kind::queue::SERVING {
            return self.on_serving(link, header, attempt);
        }
        let Some(own) = &mut self.own else { return };
        let overflow = self.overflows.get_mut(&attempt.name);
        match header.kind {
            kind::queue::ACQUIRE if attempt.order == 0 => own.on_acquire(link, attempt),
            kind::queue::ACQUIRE => {
                let (pauses, mutant) = (self.pauses, self.mutant);
                let overflow = self.overflows.entry(attempt.name);
                let overflow = overflow.or_insert_with(|| Overflow::new(attempt.name, pauses, mutant));
                if overflow.on_acquire(link, attempt) {
                    link.tell(kind::queue::QUEUED, &Attempt { ticket: 0, order: 0, ..*attempt });
                }
            }
            kind::queue::RELEASE => own.on_release(link, attempt, false),
            kind::queue::CANCEL => match overflow {
                Some(overflow) => {
                    overflow.on_cancel(link, attempt.holder, attempt.request);
                    tell_released(link, attempt);
                }
                None => own.on_release(link, attempt, true),
            },
            kind::queue::PUSHED | kind::queue::ROOM => {
                if let Some(overflow) = overflow {
                    overflow.on_counters(link, attempt, header.kind == kind::queue::PUSHED);
                }
            }
            _ => {}
        }
    }

    /// SERVING, from the controller.
    fn on_serving(&mut self, link: &mut Link<'_>, header: &Header, attempt: &Attempt) {
        if header.source != 0 || attempt.holder != link.me() || self.due == Time::NEVER {
            return;
        }
        let terms = Terms { term: attempt.number as u16, lease: attempt.order, patience: attempt.over };
        self.due = link.now + (terms.lease / QUESTIONS).max(self.pauses.0);
        // Once it is, it is until its session or the epoch is over: whatever says otherwise is older.
        if terms.term != 0 && self.own.is_none() {
            self.own = Some(Own::new(link.now, terms, self.pauses.1, self.mutant));
        }
    }
}
