//! Copying a group from its tail to a joiner: what both daemons do.
//!
//! A question brings one key, and many are under way: the range of the group's keys is divided into parts, each of
//! which is copied from its first key to its last, with a question at a time. There is one at first; a part that goes
//! on gives its upper half away, as long as the window, which all groups share, has room. Keys are hashes, so halves
//! are of one size.
//!
//! Invariants
//! * A group is copied from its tail, and each pass begins with nothing.
//! * Parts lie side by side: what one does not reach, the next begins with.
//! * A joiner says that it has all of a group only once its source has said of every part that nothing comes after:
//!   every key with its name, its first version and what it has.

use super::memory::{Content, ItemMemory, Owner};
use super::{Key, Member, Version};
use crate::{Handle, Time};
use alloc::vec;
use alloc::vec::Vec;
use wayside_wire::{BODY, Copied, Part, Placement, kind, limits, value_flag};

/// Keys that a part has brought before it is divided: a small group is not worth more questions.
const DIVIDES: u32 = 4;

/// Of the pause before a question is asked again.
const DOUBLED_MOST: u32 = 6;

/// A group that is copied.
pub(super) struct Loading {
    pub(super) told: Placement,
    controller: Handle,
    /// None: all is here, or cannot be.
    stretches: Vec<Stretch>,
}

/// A part of the keys' range.
#[derive(Default)]
struct Stretch {
    /// The key up to which all is here; none: nothing is.
    after: Option<Key>,
    /// High half of the keys that the next part begins with; none: it is the last.
    end: Option<u64>,
    /// Of its question.
    nonce: u64,
    name: Option<(Key, Version, Vec<u8>)>,
    value: Option<(Key, Content)>,
    due: Time,
    /// The pause before it is asked again has been doubled so often. An answer to an earlier asking is of another
    /// moment, and not taken: so a pause that is shorter than the way there and back would go on for ever.
    doubled: u32,
    /// Keys since it was divided.
    brought: u32,
}

impl Loading {
    /// When a question is to be asked again.
    pub(super) fn next_timer(&self) -> Time {
        self.stretches.iter().map(|stretch| stretch.due).min().unwrap_or(Time::NEVER)
    }
}

impl Stretch {
    /// Gives what lies above the middle of what is left away, if it is worth it. `last`: of the group's keys.
    fn divide(&mut self, last: u64) -> Option<Stretch> {
        let from = self.after?.high;
        let middle = from + self.end.unwrap_or(last).saturating_sub(from) / 2;
        if self.brought < DIVIDES || middle == from {
            return None;
        }
        self.brought = 0;
        let before = Key { high: middle - 1, low: u64::MAX, check: u64::MAX };
        let end = self.end.replace(middle);
        Some(Stretch { after: Some(before), end, ..Stretch::default() })
    }
}

impl<M: ItemMemory> Member<M> {
    /// Groups that are being copied to here, and keys that have come with any so far.
    pub fn copying(&self) -> (u64, u64) {
        let under_way = self.follower.loading.values().filter(|loading| !loading.stretches.is_empty());
        (under_way.count() as u64, self.follower.copied)
    }

    // ---- at the joiner ----

    pub(super) fn join(&mut self, now: Time, controller: Handle, told: Placement) {
        let group = told.group;
        let pass = (told.epoch, told.pass);
        match self.follower.loading.get_mut(&group).filter(|loading| (loading.told.epoch, loading.told.pass) >= pass) {
            Some(loading) if (loading.told.epoch, loading.told.pass) > pass => {}
            Some(loading) if loading.stretches.is_empty() => {
                loading.controller = controller;
                self.say_loaded(group);
            }
            Some(_) => {}
            None => {
                // What an earlier pass has brought may be of a source that was no tail any more, and newer than what
                // the tail has.
                self.forget(group);
                let loading = Loading { told, controller, stretches: vec![Stretch::default()] };
                self.follower.loading.insert(group, loading);
                self.fetch_due(now, group);
            }
        }
    }

    fn say_loaded(&mut self, group: u16) {
        let Some(loading) = self.follower.loading.get(&group) else { return };
        let (told, controller) = (loading.told, loading.controller);
        self.say(controller, kind::chain::PLACED, told.epoch, 0, |packet| told.write(packet, BODY));
    }

    /// Asks whatever is due.
    pub(super) fn fetch_due(&mut self, now: Time, group: u16) {
        let Some(loading) = self.follower.loading.get(&group) else { return };
        for index in 0..loading.stretches.len() {
            if self.follower.loading.get(&group).is_some_and(|loading| loading.stretches[index].due <= now) {
                self.fetch(now, group, index);
            }
        }
    }

    /// Asks for what comes after what a part has.
    fn fetch(&mut self, now: Time, group: u16, index: usize) {
        self.follower.nonce += 1;
        let (nonce, retransmit) = (self.follower.nonce, self.follower.config.retransmit);
        let Some(loading) = self.follower.loading.get_mut(&group) else { return };
        let stretch = &mut loading.stretches[index];
        (stretch.nonce, stretch.due) = (nonce, now + (retransmit << stretch.doubled));
        stretch.doubled = (stretch.doubled + 1).min(DOUBLED_MOST);
        (stretch.name, stretch.value) = (None, None);
        let mut question = Copied { nonce, group, ..Copied::default() };
        if let Some(key) = stretch.after {
            // The key, and that there is one.
            (question.key_high, question.key_low, question.length) = (key.high, key.low, 1);
        }
        let source = loading.told.source;
        self.say(source, kind::chain::FETCH, 0, 0, |packet| question.write(packet, BODY));
    }

    pub(super) fn on_copy(&mut self, now: Time, source: Handle, piece: &Copied, content: &[u8]) {
        let group = piece.group;
        let Some(loading) = self.follower.loading.get_mut(&group).filter(|l| l.told.source == source) else { return };
        let Some(index) = loading.stretches.iter().position(|stretch| stretch.nonce == piece.nonce) else { return };
        let stretch = &mut loading.stretches[index];
        let Ok(part) = Part::try_from(piece.part) else { return };
        let version = Version { epoch: piece.epoch, sequence: piece.sequence };
        let key = Key { high: piece.key_high, low: piece.key_low, check: 0 };
        match part {
            Part::Name => {
                let Some(name) = content.get(..usize::from(piece.length)) else { return };
                stretch.name = Some((key, version, name.to_vec()));
            }
            Part::Value => {
                let length = (piece.flags & value_flag::PRESENT != 0).then_some(piece.length);
                let lease = (piece.flags & value_flag::LEASED != 0).then(|| Owner::unpack(piece.owner));
                let mut value = Content { length, lease, ..Content::nothing(version) };
                let Some(bytes) = content.get(..usize::from(piece.length)) else { return };
                let Some(to) = value.bytes.get_mut(..bytes.len()) else { return };
                to.copy_from_slice(bytes);
                stretch.value = Some((key, value));
            }
            Part::End => return self.end_stretch(group, index),
        }
        self.take_key(now, group, index);
    }

    /// Nothing comes any more, or what is the next part's.
    fn end_stretch(&mut self, group: u16, index: usize) {
        let Some(loading) = self.follower.loading.get_mut(&group) else { return };
        loading.stretches.swap_remove(index);
        if self.is_broken(crate::Mutant::HastyLoad)
            && let Some(loading) = self.follower.loading.get_mut(&group)
        {
            loading.stretches.clear();
        }
        if self.follower.loading.get(&group).is_some_and(|loading| loading.stretches.is_empty()) {
            self.say_loaded(group);
        }
    }

    /// Once a key's both pieces are here.
    fn take_key(&mut self, now: Time, group: u16, index: usize) {
        let Some(loading) = self.follower.loading.get_mut(&group) else { return };
        let stretch = &mut loading.stretches[index];
        let (Some((key, ..)), Some((of, _))) = (&stretch.name, &stretch.value) else { return };
        if key != of {
            return;
        }
        let (Some((told, first, name)), Some((_, content))) = (stretch.name.take(), stretch.value.take()) else {
            return;
        };
        if stretch.end.is_some_and(|end| told.high >= end) {
            return self.end_stretch(group, index);
        }
        let Some(groups) = self.namespaces.iter().find(|groups| groups.has(group)) else { return };
        let last = groups.last_of(group);
        let Ok(key) = Key::of(&groups.name, &name) else { return };
        if (key.high, key.low) != (told.high, told.low) {
            return;
        }
        let place = self.memory.place(group);
        if self.insert(group, key, &name, Some(first), place).is_err() {
            // What there is room for is for others.
            self.forget(group);
            let loading = self.follower.loading.get_mut(&group).expect("it was there");
            loading.stretches.clear();
            loading.told.refused = 1;
            return self.say_loaded(group);
        }
        if self.is_broken(crate::Mutant::ForgetNames) {
            self.names.remove(&(group, key));
        }
        self.memory.raise(group, key, &content);
        let under_way: usize = self.follower.loading.values().map(|loading| loading.stretches.len()).sum();
        let has_room = under_way < self.follower.config.window;
        let Some(loading) = self.follower.loading.get_mut(&group) else { return };
        self.follower.copied += 1;
        let stretch = &mut loading.stretches[index];
        stretch.after = Some(key);
        stretch.brought += 1;
        // As long as it took, about, with a try at less.
        stretch.doubled = stretch.doubled.saturating_sub(2);
        let upper = if has_room { stretch.divide(last) } else { None };
        let at = loading.stretches.len();
        let is_divided = upper.is_some();
        loading.stretches.extend(upper);
        self.fetch(now, group, index);
        if is_divided {
            self.fetch(now, group, at);
        }
    }

    // ---- at the source ----

    pub(super) fn on_fetch(&mut self, joiner: Handle, question: &Copied) {
        let group = question.group;
        let place = self.memory.place(group);
        if place.epoch == 0 || place.next != 0 {
            return;
        }
        let after = Key { high: question.key_high, low: question.key_low, check: u64::MAX };
        let start = if question.length == 0 { Key::LEAST } else { after };
        let key = self.names.range((group, start)..=(group, Key::GREATEST)).map(|(&(_, key), _)| key).next();
        if let Some(key) = key {
            return self.copy_key(joiner, question, key);
        }
        let end = Copied { part: Part::End as u8, ..*question };
        self.say(joiner, kind::chain::COPY, 0, 0, |packet| end.write(packet, BODY));
    }

    fn copy_key(&mut self, joiner: Handle, question: &Copied, key: Key) {
        let group = question.group;
        let (Some(named), Some(content)) = (self.names.get(&(group, key)), self.memory.content(group, key)) else {
            return;
        };
        let (first, name) = (named.first, named.name.clone());
        let piece = |part: Part, version: Version, length: usize| Copied {
            key_high: key.high,
            key_low: key.low,
            nonce: question.nonce,
            sequence: version.sequence,
            epoch: version.epoch,
            group,
            length: length as u16,
            part: part as u8,
            ..Copied::default()
        };
        let value = &content.bytes[..usize::from(content.length.unwrap_or(0))];
        let of_value = piece(Part::Value, content.version, value.len());
        let of_value = Copied { flags: content.flags(), owner: Owner::pack(content.lease), ..of_value };
        for (piece, bytes) in [(piece(Part::Name, first, name.len()), &*name), (of_value, value)] {
            let count = bytes.len().div_ceil(limits::BLOCK_BYTES);
            self.say(joiner, kind::chain::COPY, 0, count, |packet| {
                piece.write(packet, BODY);
                packet[BODY + Copied::BYTES..][..bytes.len()].copy_from_slice(bytes);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(high: u64) -> Key {
        Key { high, low: 5, check: 6 }
    }

    fn stretch(after: u64, end: Option<u64>, brought: u32) -> Stretch {
        Stretch { after: Some(key(after)), end, brought, ..Stretch::default() }
    }

    #[test]
    fn two_halves_lie_side_by_side_and_are_of_one_size() {
        for (end, last) in [(Some(200), 900), (None, 200)] {
            let mut lower = stretch(100, end, DIVIDES);
            let upper = lower.divide(last).expect("it is worth it");
            assert_eq!((lower.after, lower.end, lower.brought), (Some(key(100)), Some(150), 0));
            assert_eq!((upper.after, upper.end, upper.brought), (Some(Key { high: 149, ..Key::GREATEST }), end, 0));
            assert!(lower.divide(last).is_none(), "it has brought nothing since");
        }
    }

    #[test]
    fn what_has_brought_little_or_has_little_left_is_not_divided() {
        assert!(stretch(100, Some(200), DIVIDES - 1).divide(900).is_none());
        assert!(Stretch { brought: DIVIDES, ..Stretch::default() }.divide(900).is_none());
        // What comes after the key is of its own high half.
        for end in [100, 101] {
            assert!(stretch(100, Some(end), DIVIDES).divide(900).is_none());
        }
        let mut lower = stretch(100, Some(102), DIVIDES);
        let upper = lower.divide(900).expect("a half each");
        assert_eq!((lower.end, upper.after), (Some(101), Some(Key { high: 100, ..Key::GREATEST })));
    }
}
