//! What becomes of all slots under a new epoch: from what the nodes report, one word for each.
//!
//! Invariants: `first` has for every slot where its latest finding is, plus 1, and each finding where the one before it
//! is: so a page is filed in no more time than it takes to copy it, and no slot is looked for. Who is told to adopt
//! *the rest* of what it reported is told of every slot that it reported and does not have for itself alone. Nobody who
//! is dead is to be told anything: that would be waited for.
//!
//! A slot whose heir dies before the switch serves is one whose agent is dead: the patrol finds it, as any other.

use super::pages::Pages;
use super::recovery::{Books, Census, Heir, PAGE, Scope, recovered};
use super::{Controller, Store};
use crate::memory::{SlotWord, SwitchMemory};
use crate::{Handle, Mutant, Time};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use wayside_wire::{Entry, SlotBits, SlotState, entry_flag};

/// Tenure of an heir after all slots were recovered; everybody else starts at 0.
const FIRST_HEIR: u32 = 1;
/// So many times what a tick looks at while the switch serves, it writes at once: 262,144 slots, all of them held, take
/// 20 ms, in which the post of a switch with standbys is not renewed.
const WRITTEN_AT_ONCE: u32 = 4;
/// So many slots that nobody speaks of are passed by in the time that one takes to write, where that is all.
const PASSED_BY: u64 = 64;

/// The findings of a census of all slots.
pub(super) struct Rebuilt {
    first: Vec<u32>,
    found: Vec<Found>,
    /// Who can be told to adopt the rest.
    takes_rest: BTreeSet<Handle>,
    /// The next slot to write.
    next: u32,
    /// The memory is [new](SwitchMemory::is_new): of what nobody speaks nothing is to be written.
    is_new: bool,
}

/// A hold, or an agent, and where the finding before it in this slot is, plus 1.
struct Found {
    entry: Entry,
    before: u32,
}

impl Rebuilt {
    pub fn of(slots: u32, is_new: bool) -> Rebuilt {
        Rebuilt { first: vec![0; slots as usize], found: Vec::new(), takes_rest: BTreeSet::new(), next: 0, is_new }
    }

    /// How many slots from this one on, up to `most`, have nothing to be written: nobody speaks of them, and they are
    /// as they were made.
    fn passed_by(&self, slot: u32, most: u64) -> u32 {
        let most = if self.is_new { most as usize } else { 0 };
        self.first[slot as usize..].iter().take(most).take_while(|first| **first == 0).count() as u32
    }

    /// A page of what this node has; `about` is its first entry.
    pub fn file(&mut self, node: Handle, about: &Entry, entries: impl Iterator<Item = Entry>) {
        for entry in entries {
            if about.flags & entry_flag::AGENCY != 0 {
                self.takes_rest.insert(node);
            }
            let Some(first) = self.first.get_mut(entry.slot as usize) else { continue };
            self.found.push(Found { entry: Entry { holder: node, ..entry }, before: *first });
            *first = self.found.len() as u32;
        }
    }

    /// What was found in this slot, the latest first.
    fn of_slot(&self, slot: u32) -> impl Iterator<Item = &Entry> {
        let at = |place: u32| place.checked_sub(1).map(|index| &self.found[index as usize]);
        core::iter::successors(at(self.first[slot as usize]), move |found| at(found.before)).map(|found| &found.entry)
    }

    /// The only finding, if it is a hold.
    fn alone(&self, slot: u32, everybody: bool) -> Option<&Entry> {
        let mut found = self.of_slot(slot);
        let hold = found.next().filter(|entry| entry.flags & entry_flag::HELD != 0)?;
        (found.next().is_none() || everybody).then_some(hold)
    }
}

impl<M: SwitchMemory, S: Store> Controller<M, S> {
    /// Judges and writes the next slots. True when none is left.
    pub(super) fn write(&mut self, now: Time, census: &mut Census) -> bool {
        let Scope::All(rebuilt) = &census.scope else { return true };
        let count = rebuilt.first.len() as u32;
        let mut left = u64::from(self.config.slots_per_tick.saturating_mul(WRITTEN_AT_ONCE)) * PASSED_BY;
        let mut slot = rebuilt.next;
        let mut living = Living::default();
        loop {
            let Scope::All(rebuilt) = &census.scope else { return true };
            let passed = rebuilt.passed_by(slot, left);
            (slot, left) = (slot + passed, left.saturating_sub(passed.into()));
            if slot == count || left == 0 {
                break;
            }
            let word = self.judge(now, census, slot, &mut living);
            loop {
                let former = self.memory.load_slot(census.namespace, slot);
                if former == word || self.memory.cas_slot(census.namespace, slot, former, word) {
                    break;
                }
            }
            (slot, left) = (slot + 1, left.saturating_sub(PASSED_BY));
        }
        if let Scope::All(rebuilt) = &mut census.scope {
            rebuilt.next = slot;
            if slot == count {
                self.tell_the_rest(now, census);
            }
        }
        slot == count
    }

    /// Who has this slot from now on; whoever is to be told of it is.
    fn judge(&self, now: Time, census: &mut Census, slot: u32, living: &mut Living) -> SlotWord {
        let Scope::All(rebuilt) = &census.scope else { return SlotWord::unheld(0) };
        if rebuilt.first[slot as usize] == 0 || self.config.is_broken(Mutant::ForgetHolds) {
            return SlotWord::unheld(0);
        }
        let alone = rebuilt.alone(slot, self.config.is_broken(Mutant::AloneTogether));
        if let Some(hold) = alone.filter(|hold| rebuilt.takes_rest.contains(&hold.holder)) {
            let lives = living.has(hold, |hold| self.is_alive(hold));
            return if lives { recovered(Some(hold.holder), FIRST_HEIR) } else { SlotWord::unheld(0) };
        }
        let mut books = Books::default();
        let mut reported = BTreeSet::new();
        for entry in rebuilt.of_slot(slot) {
            if entry.flags & entry_flag::HELD != 0 {
                reported.extend(rebuilt.takes_rest.get(&entry.holder));
                books.holds.extend(self.is_alive(entry).then_some(*entry));
            } else if entry.flags & entry_flag::AGENCY != 0 && self.sessions.is_live(entry.holder) {
                books.agent = books.agent.max(Some((entry.tenure, entry.holder)));
            }
        }
        books.holds.reverse();
        let heir = books.heir();
        for &node in reported.iter().filter(|node| heir != Some(**node) && self.sessions.is_live(**node)) {
            // Another one has it: not part of the rest.
            heir_of(census, node, now).entries.push(Entry { slot, ..Entry::default() });
        }
        let Some(handle) = heir else { return SlotWord::unheld(0) };
        let heir = heir_of(census, handle, now);
        // A page has a number of 16 bits: what is beyond waits, frozen, for a census of its own.
        if heir.entries.len() + 1 + books.holds.len() > PAGE * usize::from(u16::MAX) {
            return SlotWord { state: SlotState::Frozen, transferred: true, ..SlotWord::unheld(FIRST_HEIR) };
        }
        heir.adopt(slot, FIRST_HEIR, handle, &books);
        recovered(Some(handle), FIRST_HEIR)
    }

    /// Whoever has reported anything adopts what is not spoken of.
    fn tell_the_rest(&mut self, now: Time, census: &mut Census) {
        let Scope::All(rebuilt) = &mut census.scope else { return };
        for node in core::mem::take(&mut rebuilt.takes_rest) {
            if self.sessions.is_live(node) {
                let word = SlotBits { state: SlotState::Managed, transferred: true, ..SlotBits::default() };
                let (flags, slot_bits) = (entry_flag::AGENCY, word.to_u16());
                let about = Entry { flags, slot_bits, tenure: FIRST_HEIR, ..Entry::default() };
                heir_of(census, node, now).about = about;
            }
        }
        for heir in census.heirs.values_mut() {
            heir.pages = Pages::new(Some(heir.count()), now);
        }
        let Scope::All(rebuilt) = &mut census.scope else { return };
        (rebuilt.first, rebuilt.found) = (Vec::new(), Vec::new());
    }
}

fn heir_of(census: &mut Census, handle: Handle, now: Time) -> &mut Heir {
    let heirs: &mut BTreeMap<Handle, Heir> = &mut census.heirs;
    heirs.entry(handle).or_insert_with(|| Heir::new(now))
}

/// Whether whoever was asked about last lives: neighbours are mostly of one node.
#[derive(Default)]
struct Living(Option<(Handle, u64, bool)>);

impl Living {
    /// Bits of a request id below those that name its session.
    const COUNTER_BITS: u32 = 40;

    fn has(&mut self, hold: &Entry, look: impl FnOnce(&Entry) -> bool) -> bool {
        let session = hold.request >> Self::COUNTER_BITS;
        match self.0 {
            Some((handle, of, lives)) if (handle, of) == (hold.holder, session) => lives,
            _ => {
                let lives = look(hold);
                self.0 = Some((hold.holder, session, lives));
                lives
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::enrolment::tests::applicant;
    use super::super::tests::{Disk, Memory, config};
    use super::*;
    use alloc::boxed::Box;
    use alloc::rc::Rc;
    use wayside_wire::{Enrol, padded};

    /// A slot that two nodes hold takes three entries of who is to keep its books.
    #[test]
    fn a_slot_that_an_heir_has_no_page_for_is_left_to_a_census_of_its_own() {
        const MOST: usize = PAGE * 65_535;
        let mut controller = Controller::new(config(), Rc::new(Memory::default()), Disk::default()).expect("it loads");
        controller.on_tick(Time(0));
        for nonce in [1, 2] {
            let body = Enrol { nonce, namespace_name: padded("default").expect("short"), ..Enrol::default() };
            controller.enrol(Time(0), applicant(0), 0, &body).expect("there is room");
        }
        for (before, fits) in [(MOST - 3, true), (MOST - 2, false)] {
            let mut rebuilt = Rebuilt::of(64, false);
            for node in [1, 2] {
                let hold =
                    Entry { request: u64::from(node) << 40 | 1, slot: 9, flags: entry_flag::HELD, ..Entry::default() };
                rebuilt.file(node, &Entry::default(), [hold].into_iter());
            }
            let mut census = Census::of(1, Scope::All(Box::new(rebuilt)));
            let mut entries = Vec::with_capacity(MOST);
            entries.resize(before, Entry::default());
            heir_of(&mut census, 1, Time(0)).entries = entries;
            let word = controller.judge(Time(0), &mut census, 9, &mut Living::default());
            let state = if fits { SlotState::Managed } else { SlotState::Frozen };
            assert_eq!((word.state, word.tenure), (state, FIRST_HEIR));
            assert_eq!(census.heirs[&1].entries.len() - before, if fits { 3 } else { 0 });
        }
    }

    #[test]
    fn who_was_asked_about_is_asked_about_again_where_the_session_is_another() {
        let hold =
            |session: u64, count: u64, holder| Entry { request: session << 40 | count, holder, ..Entry::default() };
        let mut living = Living::default();
        assert!(living.has(&hold(1, 9, 2), |_| true));
        assert!(living.has(&hold(1, 10, 2), |_| panic!("it is the same session")));
        assert!(!living.has(&hold(7, 10, 2), |_| false), "an earlier process of that node");
        assert!(living.has(&hold(7, 10, 3), |_| true));
    }
}
