//! Leases that are over, behind the head of a chain: only a head ends a lease (`sweep.rs`), so who has a leased value
//! whose session is over asks the switch before for what has come after it.
//!
//! ```text
//!   daemon --ANSWER: unmet, this is what I have--> daemon before --APPLY, if it has something newer--> and on
//! ```
//!
//! Invariant: a leased value whose session is over is asked about until it is overtaken here, or the place is another.
//! A later write may have come no further than to some switch before this one, with nobody left who sends it again.
//! That switch has something newer; a head that has not will end the lease once it knows of the end.

use super::memory::{Content, ItemMemory, Seen};
use super::sweep::is_from;
use super::{Key, Member, Version};
use crate::Time;
use alloc::vec::Vec;
use wayside_wire::{BODY, Copied, Effect, Header, Outcome, kind};

/// Of the pauses between two questions of one key, how much longer the longest is than the first.
const SLOWEST: u64 = 64;

const _: () = assert!(Effect::BYTES <= Copied::BYTES, "it is said as what switches say to each other");

/// A leased value whose session is over.
pub(super) struct Behind {
    version: Version,
    pub(super) due: Time,
    pause: u64,
}

impl<M: ItemMemory> Member<M> {
    /// What ends the lease is mostly under way: the switch before is asked later.
    pub(super) fn note_behind(&mut self, now: Time, item: Seen) {
        let place = self.memory.place(item.group);
        let is_over = item.is_present && item.lease.is_some_and(|owner| self.memory.is_over(owner));
        // Who is quiet, or has no part in the group, gets nothing from anybody; and another place later.
        let is_served = place.epoch != 0 && place.previous != self.own;
        if is_over && is_served && !self.is_broken(crate::Mutant::LeaveBehind) {
            let pause = self.sweeper.config.retransmit;
            let behind = Behind { version: item.version, due: now + pause, pause };
            self.sweeper.behind.entry((item.group, item.key)).or_insert(behind);
        }
    }

    pub(super) fn ask_again(&mut self, now: Time) {
        let slowest = self.sweeper.config.retransmit.saturating_mul(SLOWEST);
        let due = self.sweeper.behind.iter().filter(|(_, behind)| behind.due <= now);
        let due: Vec<(u16, Key)> = due.map(|(&key, _)| key).collect();
        for (group, key) in due {
            let content = self.memory.content(group, key).filter(|content| content.length.is_some());
            let lease = content.and_then(|content| content.lease);
            let (Some(content), true) = (content, lease.is_some_and(|owner| self.memory.is_over(owner))) else {
                self.sweeper.behind.remove(&(group, key));
                continue;
            };
            let Some(behind) = self.sweeper.behind.get_mut(&(group, key)) else { continue };
            if behind.version == content.version {
                behind.pause = (2 * behind.pause).min(slowest);
            }
            (behind.version, behind.due) = (content.version, now + behind.pause);
            self.ask_before(group, key, &content);
        }
    }

    /// ANSWER, to the switch before: this is what the key has here, and its lease is over.
    fn ask_before(&mut self, group: u16, key: Key, content: &Content) {
        let place = self.memory.place(group);
        let has = Effect {
            key_high: key.high,
            key_low: key.low,
            sequence: content.version.sequence,
            epoch: content.version.epoch,
            group,
            client: place.previous,
            outcome: Outcome::Unmet as u8,
            ..Effect::default()
        };
        self.say(place.previous, kind::chain::ANSWER, place.epoch, 0, |packet| has.write(packet, BODY));
    }

    /// The switch after this one has a leased value whose session is over.
    pub(super) fn on_behind(&mut self, header: &Header, has: &Effect) {
        let place = self.memory.place(has.group);
        if !is_from(place, place.next, header) {
            return;
        }
        let key = Key { high: has.key_high, low: has.key_low, check: 0 };
        let version = Version { epoch: has.epoch, sequence: has.sequence };
        if self.memory.content(has.group, key).is_some_and(|content| content.version > version) {
            self.apply(has.group, key);
        }
    }
}
