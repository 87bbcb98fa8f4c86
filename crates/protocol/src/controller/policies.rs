//! Who goes first in a namespace, where that changes while sessions live: each is told by POLICY, again and again until
//! it says so.
//!
//! Invariant: numbers of changes rise, also from one controller of a store to the next, so that a late copy of an
//! earlier one changes nothing. What is told is what the configuration has by then.

use super::{Controller, Store};
use crate::line::patience_to_byte;
use crate::memory::SwitchMemory;
use crate::{Handle, Mutant, Time};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use wayside_wire::{Header, Heartbeat, Policy, kind};

/// Each time a session is told again after twice the pause, up to this many doublings: every 6.4 s by default. Nodes of
/// before 1.13 know no POLICY, and keep what they began with.
const DOUBLINGS: u32 = 7;

/// Sessions that may have begun under another policy.
#[derive(Default)]
pub(super) struct Policies {
    untold: BTreeMap<Handle, Untold>,
}

struct Untold {
    number: u64,
    doublings: u32,
    due: Time,
}

impl<M: SwitchMemory, S: Store> Controller<M, S> {
    /// From now on nodes of this namespace decide so, those that have sessions already as soon as they hear of it.
    pub fn set_policy(&mut self, now: Time, namespace: u16, policy: Policy, patience: u8) {
        self.config.set_policy(namespace, policy, patience);
        self.tell_policy(now, |its| its == namespace);
    }

    /// Sessions that the controller before this one has begun may know another, or not have heard of a change.
    pub(super) fn tell_policies(&mut self, now: Time) {
        self.tell_policy(now, |_| true);
    }

    fn tell_policy(&mut self, now: Time, is_meant: impl Fn(u16) -> bool) {
        let number = self.new_id();
        let meant = self.sessions.living().filter(|(_, session)| is_meant(session.record.namespace));
        self.policies.untold.extend(meant.map(|(handle, _)| (handle, Untold { number, doublings: 0, due: now })));
        self.next_tick = self.next_tick.min(now);
    }

    pub(super) fn send_policies(&mut self, now: Time) {
        let once = self.config.is_broken(Mutant::TellPolicyOnce);
        let (pause, sessions) = (self.config.retransmit, &self.sessions);
        self.policies.untold.retain(|handle, _| sessions.is_live(*handle));
        let mut due = Vec::new();
        for (handle, untold) in self.policies.untold.iter_mut().filter(|(_, untold)| untold.due <= now) {
            untold.due = now + (pause << untold.doublings);
            untold.doublings = DOUBLINGS.min(untold.doublings + 1);
            if once {
                untold.due = Time::NEVER;
            }
            due.push((*handle, untold.number));
        }
        for (handle, sequence) in due {
            let Some(record) = self.sessions.get(handle).map(|session| session.record) else { continue };
            let (policy, patience) = (self.policy_of(record.namespace), self.patience_of(record.namespace));
            let position = u16::from_le_bytes([policy as u8, patience_to_byte(patience)]);
            let body = Heartbeat { sequence, incarnation: record.incarnation, ..Heartbeat::default() };
            self.send_beat(handle, kind::fabric::POLICY, position, body);
        }
    }

    pub(super) fn on_policy_ack(&mut self, header: &Header, body: &Heartbeat) {
        let session = self.sessions.get(header.source);
        let is_its = session.is_some_and(|session| session.record.incarnation == body.incarnation);
        if is_its && self.policies.untold.get(&header.source).is_some_and(|untold| untold.number == body.sequence) {
            self.policies.untold.remove(&header.source);
        }
    }
}
