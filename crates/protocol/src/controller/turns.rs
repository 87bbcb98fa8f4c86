//! Who serves after a hand-over: the nodes hear of it by TURN, which comes from their new switch under the epoch that
//! they know. A *turn* has the number of the write that gave the post to its switch, so that a late one is known as
//! such.
//!
//! Invariant: a turn that is told is of the switch's own post: nobody goes back to a switch that has handed over.

use super::{Controller, SessionView, Store};
use crate::memory::SwitchMemory;
use crate::{Handle, Time};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use wayside_wire::{Header, Heartbeat, kind};

/// No turn: whether a node knows them is all that is asked.
const QUESTION: u64 = 0;

#[derive(Default)]
pub(super) struct Turns {
    /// Of the post; 0: this switch stands by for nobody.
    own: u64,
    /// The turn that is being told, or the question.
    told: u64,
    /// Who has not answered, and the heartbeat that he had sent before.
    untold: BTreeMap<Handle, u64>,
    /// Who was asked.
    asked: BTreeSet<Handle>,
    due: Time,
}

impl<M: SwitchMemory, S: Store> Controller<M, S> {
    /// The write that gave this switch its post.
    pub(super) fn has_turn(&mut self, own: u64) {
        self.turns.own = own;
    }

    /// The switch goes on under the epoch that nodes know: those that were elsewhere are to come here.
    pub(super) fn tell_turn(&mut self, now: Time) {
        if self.turns.own != 0 {
            self.begin_turns(now, self.turns.own);
        }
    }

    /// Asks every node whether it would follow.
    pub fn ask_for_turns(&mut self, now: Time) {
        self.begin_turns(now, QUESTION);
    }

    /// Whether all nodes that live have said that they would. Who has sent no heartbeat for twice as long as he should
    /// is not waited for: he is dead, mostly, and a census would have to wait until his lease is over.
    pub fn all_know_turns(&self, now: Time) -> bool {
        let Turns { told, untold, asked, .. } = &self.turns;
        let knows = |view: SessionView<'_>| {
            let is_silent = |seen| now.since(seen) >= u64::from(view.record.lease) / 4;
            let has_answered = asked.contains(&view.handle) && !untold.contains_key(&view.handle);
            has_answered || view.seen.is_none_or(is_silent)
        };
        *told == QUESTION && self.sessions().all(knows)
    }

    fn begin_turns(&mut self, now: Time, number: u64) {
        self.turns = Turns { own: self.turns.own, told: number, due: now, ..Turns::default() };
        self.meet_newcomers();
        self.send_turns(now);
    }

    /// Who has not been asked yet.
    fn meet_newcomers(&mut self) {
        let Controller { turns, sessions, memory, .. } = self;
        for (handle, _) in sessions.living() {
            if turns.asked.insert(handle) {
                turns.untold.insert(handle, memory.node_word(handle).sequence);
                turns.due = Time(0);
            }
        }
    }

    /// Tells it again. Whose heartbeat has come is here; and whoever begins a session here is.
    pub(super) fn send_turns(&mut self, now: Time) {
        if self.turns.told == QUESTION && !self.turns.asked.is_empty() {
            self.meet_newcomers();
        }
        if self.turns.untold.is_empty() || now < self.turns.due {
            return;
        }
        self.turns.due = now + self.config.retransmit;
        let Controller { turns, sessions, memory, .. } = self;
        let is_question = turns.told == QUESTION;
        turns.untold.retain(|handle, sequence| {
            sessions.is_live(*handle) && (is_question || memory.node_word(*handle).sequence == *sequence)
        });
        let (sequence, untold): (u64, Vec<Handle>) = (turns.told, turns.untold.keys().copied().collect());
        for handle in untold {
            let Some(session) = self.sessions.get(handle) else { continue };
            let body = Heartbeat { sequence, incarnation: session.record.incarnation, ..Heartbeat::default() };
            self.send_beat(handle, kind::fabric::TURN, 0, body);
        }
    }

    pub(super) fn on_turn_ack(&mut self, header: &Header, body: &Heartbeat) {
        let is_its = |incarnation| {
            self.sessions.get(header.source).is_some_and(|session| session.record.incarnation == incarnation)
        };
        if body.sequence == self.turns.told && is_its(body.incarnation) {
            self.turns.untold.remove(&header.source);
        }
    }
}
