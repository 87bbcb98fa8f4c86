//! Keys of sessions at the switch, and the controller's own signatures.
//!
//! ```text
//!   enrolment, new epoch ──► rotation 0 ──period over, node has followed──► rotation 1 ──► ...
//! ```
//!
//! Invariants: a rotation begins only once a heartbeat under the last was taken, so that no node is ever two behind.
//! Which rotation a session is at stands in the switch's memory alone: it is 0 after whatever loses that memory.

use super::sessions::Session;
use super::{Controller, Notice, Store};
use crate::memory::{NodeMemory, SwitchMemory};
use crate::seal::{Direction, Period};
use crate::{Handle, Mutant, Time};
use alloc::vec::Vec;
use core::net::SocketAddrV4;
use wayside_wire::Header;

impl<M: SwitchMemory, S: Store> Controller<M, S> {
    /// The session's first keys in this epoch. A session without a secret gets none, and nobody else's either.
    pub(super) fn install_keys(&mut self, now: Time, handle: Handle) {
        let Some(session) = self.sessions.get(handle) else { return };
        let first = Period { incarnation: session.record.incarnation, epoch: self.counters.epoch, rotation: 0 };
        let keys = session.record.secret.map(|secret| secret.keys(first));
        self.memory.set_keys(handle, keys.as_ref());
        self.sessions.rotated(now, handle);
    }

    /// The session's keys as another switch had them; its first ones, if that did not know it.
    pub(super) fn take_up_keys(&mut self, handle: Handle, node: Option<&NodeMemory>) {
        let Some(record) = self.sessions.get(handle).map(|session| session.record) else { return };
        let node = node.filter(|node| node.entry.incarnation == record.incarnation);
        let (Some(secret), Some(&NodeMemory { rotation, .. })) = (record.secret, node) else {
            return self.install_keys(Time(0), handle);
        };
        let keys = |rotation| {
            let (incarnation, epoch) = (record.incarnation, self.counters.epoch);
            secret.keys(Period { incarnation, epoch, rotation })
        };
        let former = rotation.checked_sub(1).map(keys);
        self.memory.take_up_keys(handle, rotation, &keys(rotation), former.as_ref());
    }

    /// Goes on to the next keys where the time of these is over.
    pub(super) fn rotate_keys(&mut self, now: Time) {
        if self.config.root.is_none() || self.config.rotation_period == 0 {
            return;
        }
        let hasty = self.config.is_broken(Mutant::HastyRotation);
        for (handle, record, since) in self.sessions.living_rotated() {
            if now.since(*since) < self.config.rotation_period || !(hasty || self.memory.has_followed(handle)) {
                continue;
            }
            let Some(secret) = record.secret else { continue };
            let rotation = self.memory.rotation(handle).wrapping_add(1);
            let next = Period { incarnation: record.incarnation, epoch: self.counters.epoch, rotation };
            self.memory.rotate(handle, &secret.keys(next));
            *since = now;
            self.notices.push_back(Notice::Rotated(handle));
        }
    }

    /// Sessions of hosts that are let in no more: their keys are wiped, here, in the store and at the switch, so that
    /// nothing is believed of them or said to them from now on, no lease is extended, and none of them is given a lock.
    /// What they hold goes to others when their leases are over, as if the host had been unplugged: their nodes may
    /// live, and know of no other end. Safe to call again.
    pub fn cut_off(&mut self, now: Time, is_admitted: impl Fn(u64) -> bool) {
        let out = |session: &Session| session.record.secret.is_some() && !is_admitted(session.record.admission);
        let handles: Vec<Handle> =
            self.sessions.living().filter(|(_, session)| out(session)).map(|(handle, _)| handle).collect();
        let mut batch = Vec::new();
        for &handle in &handles {
            self.memory.set_keys(handle, None);
            batch.extend(self.sessions.forget_secret(handle).map(|record| record.encode(handle)));
            self.notices.push_back(Notice::CutOff(handle));
        }
        // Whoever starts before that is done has their secrets still, and calls this again.
        if !batch.is_empty() {
            self.write_down(now, batch);
        }
    }

    /// Puts a packet on its way, signed for whom it is meant: everything that the controller sends goes by here.
    pub(super) fn post(&mut self, to: SocketAddrV4, mut packet: Vec<u8>) {
        if self.config.root.is_some() {
            let Ok(Header { destination, .. }) = Header::read(&packet) else { return };
            let record = self.sessions.get(destination).map(|session| session.record);
            // Whoever has no key would not believe it.
            let Some((record, secret)) = record.and_then(|record| Some((record, record.secret?))) else { return };
            let rotation = self.memory.rotation(destination);
            let period = Period { incarnation: record.incarnation, epoch: self.counters.epoch, rotation };
            secret.key(Direction::Down, period).sign(rotation, &mut packet);
        }
        self.outbox.push_back((to, packet));
    }
}
