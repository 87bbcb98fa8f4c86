//! What applications of a run like to do, and what one of them wants next.

use wayside_protocol::{Acquire, Mode, Priority};
use wayside_wire::{mix, slot_of};

use crate::ServiceKind;
use crate::clock::Clock;
use crate::dice::Dice;
use crate::schedule::Kind;
use crate::setup::name_of;
use crate::world::World;

/// Percentages and microseconds.
#[derive(Clone, Debug)]
pub struct Habits {
    /// Tasks of a process: `setup.rs` counts on six at most, with five names each.
    pub tasks: u64,
    /// Longest hold.
    pub hold: u64,
    /// Longest pause between two operations.
    pub think: u64,
    /// Holds that are as long as several leases.
    pub stuck: u32,
    /// Waits that are cancelled if they last.
    pub cancels: u32,
    /// Exclusive holds that become shared.
    pub downgrades: u32,
    /// Two names of a slot have one hash.
    pub collide: bool,
    names: Names,
    /// After so long another name is the one that half of the requests are for; 0: never.
    hot_for: u64,
    /// Slots of each namespace.
    slots: Vec<u32>,
    shared: u32,
    tries: u32,
    deadlines: u32,
    /// Requests for several names at once.
    many: u32,
    /// Requests that are more or less urgent than others.
    ranked: u32,
}

#[derive(Clone, Debug)]
enum Names {
    /// Of each namespace. Half of the requests go to the first, or to each for a while.
    Few(Vec<Vec<u64>>),
    /// 0 to this, all alike.
    Many(u64),
}

impl Habits {
    /// A seed's own.
    pub fn draw(world: &World) -> Habits {
        let dice = &mut Dice::of(world.seed, &[HABITS]);
        let slots: Vec<u32> = world.setup.namespaces.iter().map(|space| space.slots).collect();
        let mut sometimes = |percent: u32, low: u64, high: u64| {
            let value = dice.between(low, high) as u32;
            if dice.percent(percent) { value } else { 0 }
        };
        let (shared, tries) = (sometimes(80, 5, 95), sometimes(60, 5, 60));
        let (deadlines, cancels) = (sometimes(60, 5, 80), sometimes(60, 5, 60));
        let (downgrades, many, stuck) = (sometimes(50, 5, 50), sometimes(50, 5, 60), sometimes(40, 1, 20));
        let has_slots = world.options.service == ServiceKind::Lock;
        let may_collide = world.schedule.allows(Kind::Collision) && world.setup.division.is_none();
        let collide = dice.percent(20) && may_collide && has_slots;
        let names = match world.options.scale {
            Some(scale) => Names::Many(scale.names),
            None => Names::Few(slots.iter().map(|slots| names(dice, *slots, collide)).collect()),
        };
        let mut habits = Habits {
            tasks: dice.between(1, 6),
            hold: dice.magnitude(1, 10_000),
            think: dice.magnitude(1, 10_000),
            stuck,
            cancels,
            downgrades,
            collide,
            names,
            hot_for: 0,
            slots,
            shared,
            tries,
            deadlines,
            many,
            ranked: draw_ranked(world),
        };
        if world.options.service.has_queues() && dice.percent(50) {
            // Who holds for long has something to lose.
            habits.stuck = habits.stuck.max(10);
        }
        if world.setup.planned {
            habits.hot_for = dice.magnitude(100_000, 1_000_000);
        }
        if world.mix.crowd {
            (habits.shared, habits.many, habits.tries, habits.cancels, habits.stuck) = (100, 0, 0, 0, 5);
            (habits.deadlines, habits.tasks, habits.think, habits.hold) = (0, 6, 10, 500);
            if let Names::Few(names) = &mut habits.names {
                names.iter_mut().for_each(|names| names.truncate(1));
            }
        } else if dice.below(60) == 0 {
            // One node has a name so often that its agent's sequence comes to its end.
            (habits.shared, habits.think, habits.hold, habits.stuck) = (0, 10, 10, 0);
        }
        if world.mix.rates.iter().any(|(kind, _)| *kind == Kind::Partition) && dice.percent(30) {
            // Who is cut off so often should have something to lose.
            habits.stuck = habits.stuck.max(15);
        }
        if world.options.small.is_some() {
            habits.take_time(world.setup.hosts as u64);
        }
        habits
    }

    /// A few dozen operations in the life of a small world, of which some meet.
    fn take_time(&mut self, hosts: u64) {
        self.tasks = self.tasks.div_ceil(3);
        (self.hold, self.think) = (self.hold.clamp(500, 6_000), 5_000 * hosts * self.tasks);
    }

    /// Draws the next wish: one or several names, in an order in which nobody can wait for each other.
    pub fn wishes(&self, dice: &mut Dice, space: usize, port: u16, clock: &Clock, now: u64) -> Vec<Acquire> {
        let count = if dice.percent(self.many) { dice.between(2, 5) } else { 1 };
        let mut names: Vec<u64> = (0..count).map(|_| self.name(dice, space, now)).collect();
        let slots = self.slots[space];
        names.sort_unstable_by_key(|name| (slot_of(*name, slots), *name));
        names.dedup();
        let try_ = names.len() == 1 && dice.percent(self.tries);
        let patience = dice.magnitude(10, 500_000);
        let deadline = dice.percent(self.deadlines).then(|| clock.at(now + patience));
        let mut wish = |name| Acquire {
            name,
            mode: if dice.percent(self.shared) { Mode::Shared } else { Mode::Exclusive },
            try_,
            priority: priority(dice, self.ranked),
            deadline,
            port,
        };
        names.into_iter().map(&mut wish).collect()
    }

    fn name(&self, dice: &mut Dice, space: usize, now: u64) -> u64 {
        match &self.names {
            Names::Many(names) => dice.below(*names),
            Names::Few(names) => {
                let names = &names[space];
                let hot = now.checked_div(self.hot_for).unwrap_or(0) % names.len() as u64;
                let index = if dice.percent(50) { hot } else { dice.below(names.len() as u64) };
                names[index as usize]
            }
        }
    }
}

/// Names of a namespace, a few to a slot or a slot to each. Their ids are spread so that they need not follow the
/// slots' order. `collide`: the switch takes the first two, of one slot, for the same name.
fn names(dice: &mut Dice, slots: u32, collide: bool) -> Vec<u64> {
    let count = dice.between((u64::from(slots) / 2).max(1), (2 * u64::from(slots)).clamp(2, 14));
    let mut names: Vec<u64> = (0..count).map(name_of).collect();
    if collide {
        let hash = dice.any() << 20;
        let first = unmix(hash);
        let is_twin = |name: &u64| slot_of(*name, slots) == slot_of(first, slots);
        let twin = (1..1 << 20).map(|low| unmix(hash | low)).find(is_twin);
        names.insert(0, first);
        names.insert(1, twin.expect("one of a few dozen has the same slot"));
    }
    names
}

/// The reverse of [`mix`]: the switch remembers of a name the high 44 bits of that.
fn unmix(mixed: u64) -> u64 {
    let x = mixed ^ mixed >> 33;
    let x = x.wrapping_mul(0x9cb4_b2f8_1293_37db);
    let x = x ^ x >> 33;
    let x = x.wrapping_mul(0x4f74_430c_22a5_4005);
    let name = x ^ x >> 33;
    debug_assert_eq!(mix(name), mixed);
    name
}

/// In most seeds requests have priorities; not where it is checked that all are served in the order in which they came.
fn draw_ranked(world: &World) -> u32 {
    let mut dice = Dice::of(world.seed, &[HABITS, RANKS]);
    if dice.percent(70) && !world.setup.calm { dice.between(5, 100) as u32 } else { 0 }
}

/// Mostly the lowest or one of the highest, so that many are overtaken, and by many.
fn priority(dice: &mut Dice, ranked: u32) -> Priority {
    if !dice.percent(ranked) {
        return Priority::NORMAL;
    }
    Priority::new(dice.pick(&[0, 0, 1, 3, 5, 6, 7, 7])).unwrap_or_default()
}

/// Purposes of dice.
const HABITS: u64 = 9;
const RANKS: u64 = 29;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_collide_are_two_of_one_slot_and_one_hash() {
        for seed in 0..50 {
            let mut dice = Dice::new(seed);
            let slots = dice.between(1, 24) as u32;
            let names = names(&mut dice, slots, true);
            assert_ne!(names[0], names[1]);
            assert_eq!(slot_of(names[0], slots), slot_of(names[1], slots));
            assert_eq!(mix(names[0]) >> 20, mix(names[1]) >> 20);
        }
    }
}
