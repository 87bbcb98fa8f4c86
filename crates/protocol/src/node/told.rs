//! What the controller tells a node while its session goes on: who serves, and who goes first.
//!
//! Invariant: what is told is numbered, and a late copy of something earlier changes nothing; it is acknowledged.

use super::Node;
use crate::line::patience_from_byte;
use crate::{Mutant, Stamp, Time};
use wayside_wire::{Header, Heartbeat, Policy, kind, service};

impl Node {
    /// TURN: a switch goes on under the epoch, with all that the one before it knew. What was asked meanwhile was lost;
    /// who asks is to go where this came from, if the turn is a later one.
    pub(super) fn on_turn(&mut self, now: Time, header: &Header, body: &Heartbeat) {
        let Some(&info) = self.session.info() else { return };
        let is_meant = header.destination == info.handle && body.incarnation == info.incarnation;
        // 0 asks whether this node knows turns.
        if !is_meant || header.epoch != info.epoch || (body.sequence != 0 && body.sequence < self.turn) {
            return;
        }
        self.called = body.sequence != 0;
        if body.sequence > self.turn {
            self.turn = body.sequence;
            self.frees.are_heard();
            self.session.beat_at_once(now);
            self.raise_floors_of(|_, _| Some(Stamp::default()));
            self.hurry_queue(now);
        }
        self.acknowledge(kind::fabric::TURN_ACK, body.sequence, info.incarnation);
    }

    /// POLICY: lines are decided by another one from now on. Late copies of earlier ones change nothing.
    pub(super) fn on_policy(&mut self, header: &Header, body: &Heartbeat) {
        let Some(&info) = self.session.info() else { return };
        let [policy, patience] = header.position.to_le_bytes();
        let is_meant = header.destination == info.handle && body.incarnation == info.incarnation;
        let Some(policy) = Policy::try_from(policy).ok().filter(|_| is_meant && header.epoch == info.epoch) else {
            return;
        };
        if body.sequence > self.policy_change || self.config.is_broken(Mutant::AnyChange) {
            self.policy_change = body.sequence;
            self.session.set_policy(policy, patience_from_byte(patience));
            if !self.config.is_broken(Mutant::KeepPolicy) {
                self.decide_by(policy, patience_from_byte(patience));
            }
        }
        self.acknowledge(kind::fabric::POLICY_ACK, body.sequence, info.incarnation);
    }

    pub(super) fn decide_by(&mut self, policy: Policy, patience: u8) {
        self.config.policy = policy;
        self.config.overtaken_most = patience;
        if let Some(server) = &mut self.server {
            server.decide_by(&self.config);
        }
    }

    /// To the controller, what it has told in a body like this.
    fn acknowledge(&mut self, kind: u8, sequence: u64, incarnation: u64) {
        let header = self.session.header(service::FABRIC, kind, 0);
        let body = Heartbeat { sequence, incarnation, ..Heartbeat::default() };
        self.out.body(0, header, Heartbeat::BYTES, |packet, at| body.write(packet, at));
    }
}
