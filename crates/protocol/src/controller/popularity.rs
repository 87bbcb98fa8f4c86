//! How often each lock of the queue engine is asked for, and by how many at a time; and what follows from that: the
//! plan of what lies in the switch. docs/queue.md, "The plan".
//!
//! ```text
//!   queue in the switch ──tickets, cells used, at every tick──┐
//!                                                             ├──► known ──every period──► plan ──► place
//!   lock server ──ASKED: requests of a window──────────────────┘
//! ```
//!
//! Invariants
//! * All of it may be lost at any time: a lock that is not known stays where it is, and nothing is planned before every
//!   queue in the switch was measured for a whole period.
//! * A rate is of tickets of one stay in the switch: those of the next begin elsewhere.
//! * A window counts once: an ASKED of one that is not later than the last is a copy.
//! * What is not heard of is forgotten by halves, so there are never more locks known than some dozen windows can tell.

use super::config::{Allocation, Room};
use super::plan::{Candidate, LEAST_RATE, cells_for, plan};
use super::{Controller, Store};
use crate::Time;
use crate::memory::{Line, LockServer, Part, Stage, SwitchMemory};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use wayside_wire::{Attempt, Header};

/// Periods.
const REMEMBERED: u8 = 8;

/// What is known of a lock.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Requests in 1,000 seconds.
    rate: u64,
    /// Holders and waiters at a time, the most of the last [`REMEMBERED`] times that it was measured, or of more.
    concurrency: u32,
    /// The same of as many since then, or fewer, and how many.
    latest: (u32, u8),
    /// Of a queue in the switch: those who wait at the lock server.
    behind: u32,
    /// The window in which the lock server was asked for it last.
    window: u64,
    /// Heard of since the last plan.
    is_fresh: bool,
}

impl Known {
    /// As it was measured now: half of it is what was known.
    fn learn(&mut self, rate: u64, concurrency: u32) {
        self.rate = if self.rate == 0 { rate } else { self.rate.midpoint(rate) };
        self.crowd(concurrency);
        self.is_fresh = true;
    }

    /// So many at a time. Who was there is forgotten more slowly than it is learned, since a region that is too small
    /// costs more than one that is too large; and all at once, since what changes with every second has locks move to
    /// and fro.
    fn crowd(&mut self, concurrency: u32) {
        let (most, times) = self.latest;
        let most = most.max(concurrency);
        self.concurrency = self.concurrency.max(most);
        self.latest = (most, times + 1);
        if self.latest.1 == REMEMBERED {
            self.concurrency = most;
            self.latest = (0, 0);
        }
    }
}

/// A queue in the switch, since it was looked at last.
#[derive(Clone, Copy, Debug)]
struct Sample {
    name: u64,
    since: Time,
    /// The first ticket that was not used then.
    ticket: u64,
    /// Cells used at a time, the most so far.
    most: u32,
}

impl Sample {
    fn of(line: &Line, now: Time) -> Sample {
        Sample { name: line.name, since: now, ticket: line.ticket, most: line.used }
    }
}

/// Of a namespace.
#[derive(Default)]
struct Space {
    /// Whose reports are believed: of each part.
    servers: Vec<LockServer>,
    known: BTreeMap<u64, Known>,
    /// By name.
    samples: Vec<Sample>,
    next: Option<Time>,
    /// Of the last plan.
    planned: Option<BTreeMap<u64, u32>>,
}

impl Space {
    /// A tick's look at the queues that are here. Both lists are by name: a step for each, and nothing is looked for.
    fn look<'l>(&mut self, now: Time, here: impl Iterator<Item = &'l Line>) {
        let mut at = 0;
        for line in here {
            while self.samples.get(at).is_some_and(|sample| sample.name < line.name) {
                at += 1;
            }
            match self.samples.get_mut(at).filter(|sample| sample.name == line.name) {
                None => self.samples.insert(at, Sample::of(line, now)),
                Some(sample) if line.ticket < sample.ticket => *sample = Sample::of(line, now),
                Some(sample) => sample.most = sample.most.max(line.used),
            }
        }
    }

    fn place_of(&self, name: u64) -> Option<usize> {
        self.samples.binary_search_by_key(&name, |sample| sample.name).ok()
    }
}

#[derive(Default)]
pub(super) struct Popularity(BTreeMap<u16, Space>);

impl Popularity {
    /// The tickets of a lock's queue begin anew, or are nobody's.
    pub fn moved(&mut self, namespace: u16, name: u64) {
        if let Some(space) = self.0.get_mut(&namespace)
            && let Some(place) = space.place_of(name)
        {
            space.samples.remove(place);
        }
    }
}

/// A namespace's locks, where they lie and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanView {
    /// Its number in packets.
    pub namespace: u16,
    /// Who decides.
    pub allocation: Allocation,
    /// What there is to give.
    pub room: Room,
    /// Cells of all regions now.
    pub used: u32,
    /// Those that have or are to have a queue in the switch, and those that are known to be asked for; first those that
    /// are asked for most.
    pub locks: Vec<LockView>,
}

/// A lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockView {
    /// Name id.
    pub name: u64,
    /// Where its move is; None: it is its lock server's.
    pub stage: Option<Stage>,
    /// Requests in 1,000 seconds.
    pub rate: u64,
    /// Holders and waiters at a time.
    pub concurrency: u32,
    /// Cells of its region; 0: it has none.
    pub cells: u32,
    /// Cells that it would need.
    pub needed: u32,
    /// Cells that it is to have, 0 at its lock server. None: nothing is planned, all stays.
    pub planned: Option<u32>,
    /// It is its lock server's for a while whatever is planned: it was asked for with priorities.
    pub is_ranked: bool,
}

/// Requests in 1,000 seconds.
fn rate_of(requests: u64, micros: u64) -> u64 {
    let rate = u128::from(requests) * 1_000_000_000 / u128::from(micros.max(1));
    rate.min(u64::MAX.into()) as u64
}

impl<M: SwitchMemory, S: Store> Controller<M, S> {
    /// Every queue begins anew, and so does what is known: what was planned is not done before it is planned again.
    pub(super) fn forget_popularity(&mut self) {
        self.popularity.0.clear();
        let planned = self.config.namespaces.iter().filter(|known| known.allocation != Allocation::Fixed);
        planned.for_each(|known| self.moves.forget_wishes(known.id));
    }

    /// Looks at a namespace's queues in the switch; plans if it is time to.
    pub(super) fn measure(&mut self, now: Time, namespace: u16, lines: &[Line]) {
        let parts = self.parts_of(namespace);
        let servers: Vec<LockServer> = (0..parts).map(|part| self.memory.lock_server(namespace, part)).collect();
        let space = self.popularity.0.entry(namespace).or_default();
        if space.servers != servers {
            // Another one counts its windows from the first.
            let is_another = |name: u64| {
                let part = usize::from(Part::of_name(name, parts).number);
                space.servers.get(part) != servers.get(part)
            };
            space.known.iter_mut().filter(|(name, _)| is_another(**name)).for_each(|(_, known)| known.window = 0);
            space.servers = servers;
        }
        let is_here = |line: &&Line| matches!(line.stage, Stage::Here | Stage::Drains);
        space.look(now, lines.iter().filter(is_here));
        let period = self.config.plan_period;
        // The first plan needs a whole period of all queues.
        let next = *space.next.get_or_insert(now + period);
        if now < next {
            return;
        }
        space.next = Some(now + period);
        let here: BTreeMap<u64, &Line> = lines.iter().filter(is_here).map(|line| (line.name, line)).collect();
        space.samples.retain(|sample| here.contains_key(&sample.name));
        for sample in &mut space.samples {
            let line = here[&sample.name];
            let age = now.since(sample.since);
            // One that has just come has a rate from its lock server.
            if age >= period / 2 {
                let known = space.known.entry(sample.name).or_default();
                let behind = known.behind;
                known.learn(rate_of(line.ticket - sample.ticket, age), sample.most.saturating_add(behind));
                known.behind = behind / 2;
                *sample = Sample::of(line, now);
            } else if let Some(known) = space.known.get_mut(&sample.name) {
                known.is_fresh = true;
            }
        }
        space.known.retain(|name, known| {
            if !core::mem::take(&mut known.is_fresh) {
                known.rate /= 2;
                known.crowd(0);
            }
            known.rate > 0 || here.contains_key(name)
        });
        self.plan(namespace, lines);
    }

    /// Cells that a namespace's queues may have in the switch, where they are planned.
    pub(super) fn room(&self, namespace: u16) -> u32 {
        let planned = |known: &&super::Namespace| known.id == namespace && known.allocation != Allocation::Fixed;
        self.config.namespaces.iter().find(planned).map_or(u32::MAX, |known| known.room.cells)
    }

    /// Says what is to be where, by what is known now.
    fn plan(&mut self, namespace: u16, lines: &[Line]) {
        let Some(config) = self.config.namespaces.iter().find(|known| known.id == namespace) else { return };
        let Some(space) = self.popularity.0.get_mut(&namespace) else { return };
        let regions: BTreeMap<u64, u32> = lines.iter().map(|line| (line.name, line.cells)).collect();
        let names: BTreeSet<u64> = regions.keys().chain(space.known.keys()).copied().collect();
        let candidates: Vec<Candidate> = names
            .into_iter()
            .map(|name| {
                let Known { rate, concurrency, .. } = space.known.get(&name).copied().unwrap_or_default();
                Candidate { name, rate, concurrency, region: regions.get(&name).copied() }
            })
            .collect();
        space.planned = plan(config.allocation, &candidates, &config.room, self.config.secret);
        if let Some(wanted) = space.planned.clone() {
            self.place(namespace, wanted);
        }
    }

    /// ASKED: what a lock server was asked for in a window. Of a lock that has its queue in the switch it says who
    /// waits there besides.
    pub(super) fn on_asked(&mut self, header: &Header, attempt: &Attempt) {
        let Attempt { name, number: window, order: requests, over: micros, room: most, .. } = *attempt;
        let server = self.server_of(header.namespace, name);
        let part = Part::of_name(name, self.parts_of(header.namespace)).number;
        if server.handle != header.source || window == 0 || micros == 0 {
            return;
        }
        let is_known = |space: &&mut Space| space.servers.get(usize::from(part)) == Some(&server);
        let Some(space) = self.popularity.0.get_mut(&header.namespace).filter(|space| is_known(space)) else {
            return; // It is known from the next tick on.
        };
        let has_queue = space.place_of(name).is_some();
        if !has_queue && requests == 0 {
            return;
        }
        let known = space.known.entry(name).or_default();
        if window <= known.window {
            return;
        }
        known.window = window;
        if has_queue {
            known.behind = known.behind.max(most.into());
        } else {
            known.learn(rate_of(requests, micros), most.into());
        }
    }

    /// What lies where, and why, of all namespaces whose locks are queues.
    pub fn plans(&self, now: Time) -> Vec<PlanView> {
        let queued = self.config.namespaces.iter().filter(|namespace| namespace.engine.has_queues());
        let view = |config: &super::Namespace| {
            let lines = self.memory.lines(config.id);
            let space = self.popularity.0.get(&config.id);
            let planned = space.and_then(|space| space.planned.as_ref());
            let lines: BTreeMap<u64, Line> = lines.into_iter().map(|line| (line.name, line)).collect();
            let known = space.into_iter().flat_map(|space| space.known.keys());
            let names: BTreeSet<u64> = lines.keys().chain(known).copied().collect();
            let lock = |name| {
                let known = space.and_then(|space| space.known.get(&name)).copied().unwrap_or_default();
                let line = lines.get(&name);
                LockView {
                    name,
                    stage: line.map(|line| line.stage),
                    rate: known.rate,
                    concurrency: known.concurrency,
                    cells: line.map_or(0, |line| line.cells),
                    needed: cells_for(known.concurrency, &config.room),
                    planned: planned.map(|planned| planned.get(&name).copied().unwrap_or(0)),
                    is_ranked: self.moves.is_ranked(now, config.id, name),
                }
            };
            let mut locks: Vec<LockView> = names.into_iter().map(lock).collect();
            locks.sort_by_key(|lock| (core::cmp::Reverse(lock.rate), lock.name));
            PlanView {
                namespace: config.id,
                allocation: config.allocation,
                room: config.room,
                used: lines.values().map(|line| line.cells).sum(),
                locks,
            }
        };
        queued.map(view).collect()
    }
}

impl LockView {
    /// Whether it is asked for often enough to be worth a queue in the switch.
    pub fn is_asked_for(&self) -> bool {
        self.rate >= LEAST_RATE
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use alloc::vec;

    /// Numbers from 0 to below 1.
    fn chance(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state += 1;
            (wayside_wire::mix(state) >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    /// How many of something that comes by chance, so many on average.
    fn poisson(mean: f64, chance: &mut impl FnMut() -> f64) -> u64 {
        let (limit, mut product, mut count) = ((-mean).exp(), chance(), 0);
        while product > limit {
            product *= chance();
            count += 1;
        }
        count
    }

    #[test]
    fn what_is_seen_of_a_queue_is_by_its_name_and_begins_anew_with_its_tickets() {
        let line = |name, ticket, used| Line {
            name,
            cells: 4,
            stage: Stage::Here,
            ticket,
            used,
            given: 0,
            settled: 0,
            pushed: 0,
            ranked: 0,
        };
        let mut space = Space::default();
        let mut look = |now, lines: &[Line]| {
            space.look(Time(now), lines.iter());
            let seen = space.samples.iter().map(|sample| (sample.name, sample.since.0, sample.ticket, sample.most));
            seen.collect::<Vec<_>>()
        };
        assert_eq!(look(5, &[line(2, 10, 1), line(6, 20, 3)]), [(2, 5, 10, 1), (6, 5, 20, 3)]);
        // One is gone, others come before, between and behind.
        let others = [line(1, 1, 0), line(4, 7, 2), line(6, 25, 2), line(9, 3, 3)];
        let seen = [(1, 6, 1, 0), (2, 5, 10, 1), (4, 6, 7, 2), (6, 5, 20, 3), (9, 6, 3, 3)];
        assert_eq!(look(6, &others), seen);
        assert_eq!(look(7, &[line(6, 30, 4)])[3], (6, 5, 20, 4), "the most at a time, since it was seen first");
        assert_eq!(look(8, &[line(6, 19, 2)])[3], (6, 8, 19, 2), "another queue of that name");
    }

    /// Locks that are asked for alike all the time, some more than others: what is measured of them differs all the
    /// same, from second to second.
    #[test]
    fn a_load_that_stays_as_it_is_has_its_locks_stay_where_they_are() {
        let room = Room { cells: 1_024, most: 16, queues: 4_096 };
        let mut chance = chance(1);
        let rates: Vec<f64> = (0..2_000).map(|lock| 400.0 / f64::from(1 + lock).powf(0.5)).collect();
        let mut known = vec![Known::default(); rates.len()];
        let mut regions: BTreeMap<u64, u32> = BTreeMap::new();
        let (mut moves, mut served, mut all) = (0, 0.0, 0.0);
        for second in 0..60 {
            for (known, rate) in known.iter_mut().zip(&rates) {
                let requests = poisson(*rate, &mut chance);
                // Each holds for a millisecond: how many there are at a time, the most of a thousand looks.
                let at_a_time = (0..100).map(|_| poisson(rate / 1_000.0, &mut chance)).max().unwrap_or(0);
                known.learn(requests * 1_000, (1 + at_a_time) as u32);
            }
            let candidates: Vec<Candidate> = (0..)
                .zip(&known)
                .map(|(name, known)| Candidate {
                    name,
                    rate: known.rate,
                    concurrency: known.concurrency,
                    region: regions.get(&name).copied(),
                })
                .collect();
            let given = plan(Allocation::Knapsack, &candidates, &room, 0).unwrap();
            if second >= 20 {
                moves += given.iter().filter(|(name, cells)| regions.get(name) != Some(cells)).count();
                served += given.keys().map(|name| rates[*name as usize]).sum::<f64>();
                all += rates.iter().sum::<f64>();
            }
            regions = given;
        }
        // Of 250 that are there: 2,534 moves where who was there at a time falls by a quarter each second, and a
        // quarter more is all that counts for who stays; 184 without that either.
        assert!(moves < 80, "{moves} moves in 40 seconds");
        assert!(served / all > 0.32, "{:.3} of all requests, and 0.338 by moving all the time", served / all);
    }
}
