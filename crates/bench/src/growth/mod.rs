//! How cost grows with the work: time and memory against locks that are held, names, nodes, waiters, and locks in a
//! packet. `world.rs` is nodes and the switch's core in one process: so what is measured is what they decide and keep,
//! and nothing of a kernel. `record.rs`: what comes out.

mod record;
mod world;

pub use record::{Growth, put_growth};

use std::time::Duration;

use record::Curve;
use wayside_protocol::RequestId;
use wayside_wire::limits::MAX_ENTRIES;
use wayside_wire::slot_of;

use crate::Error;
use crate::knobs::Machine;
use world::{MOST_NODES, SLOTS, World};

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct GrowthOptions {
    /// The largest number of locks and of names; of waiters a hundredth.
    pub most: u64,
    /// How often each size is measured.
    pub rounds: usize,
    /// Bytes that the calling thread has from the allocator, if somebody counts them.
    pub memory: Option<fn() -> i64>,
}

impl GrowthOptions {
    /// A million locks.
    #[must_use]
    pub fn whole() -> GrowthOptions {
        GrowthOptions { most: 1_000_000, rounds: 5, memory: None }
    }

    /// A second or two.
    #[must_use]
    pub fn short() -> GrowthOptions {
        GrowthOptions { most: 10_000, rounds: 3, memory: None }
    }
}

/// Locks that are timed together: a look at the clock is nothing beside them.
const TIMED: u64 = 2_000;
/// From name to name: odd, so that names that follow each other are far apart and none comes twice.
const STRIDE: u64 = 611_953;
/// Nodes whose clients wait.
const WAITING: usize = 8;

/// Measures all of it.
///
/// # Errors
/// None that is known.
pub fn run_growth(options: &GrowthOptions) -> Result<Growth, Error> {
    let machine = Machine::look();
    let powers =
        |from: u64, to: u64| (0..).map(move |power| from * 10u64.pow(power)).take_while(move |size| *size <= to);
    let lab = Lab { options: *options };
    let curves = vec![
        lab.curve("locks held", "acquire and release of another lock", powers(100, options.most), Lab::held),
        lab.curve("names, one after the other", "acquire and release", powers(100, options.most), Lab::names),
        lab.curve("nodes", "acquire and release, each in turn", (0..=9).map(|power| 1 << power), Lab::nodes),
        lab.curve("waiters", "release, and the next one's grant", powers(1, options.most / 100), Lab::waiters),
        lab.curve(
            "locks in a packet",
            "acquire and release of all of them",
            (0..=5).map(|power| 1 << power),
            Lab::batch,
        ),
    ];
    Ok(Growth { machine, rounds: options.rounds, curves })
}

/// Processor time of the calling thread: others may run meanwhile.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it outlives the call. The clock is one that every thread has.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Nanoseconds that each of so many operations took.
fn each(begun: Duration, count: u64) -> f64 {
    (processor_time() - begun).as_nanos() as f64 / count as f64
}

/// Nanoseconds of each operation, and bytes that came with the size.
struct Measured {
    nanos: f64,
    bytes: f64,
}

struct Lab {
    options: GrowthOptions,
}

impl Lab {
    fn curve(
        &self,
        of: &str,
        operation: &str,
        sizes: impl Iterator<Item = u64>,
        measure: fn(&Lab, u64) -> Measured,
    ) -> Curve {
        let mut curve = Curve { of: of.into(), operation: operation.into(), points: Vec::new() };
        for size in sizes {
            let rounds: Vec<Measured> = (0..self.options.rounds).map(|_| measure(self, size)).collect();
            let nanos = rounds.iter().map(|round| round.nanos).collect();
            let bytes = self.options.memory.is_some().then(|| rounds[0].bytes);
            curve.points.push(record::Point { size, nanos, bytes });
        }
        curve
    }

    fn bytes(&self) -> f64 {
        self.options.memory.map_or(0.0, |memory| memory() as f64)
    }

    /// Locks of this node alone, each taken and given back.
    fn cycles(world: &mut World, names: impl Iterator<Item = (usize, u64)>) -> f64 {
        let begun = processor_time();
        let mut count = 0;
        for (node, name) in names {
            let request = world.acquire(node, name);
            assert_eq!(world.granted(), Some((node, request)), "nobody else wants it");
            world.release(node, request);
            count += 1;
        }
        each(begun, count)
    }

    /// Names that nobody has asked for: the first of `of` are others'.
    fn fresh(of: u64) -> impl Iterator<Item = (usize, u64)> {
        (of..of + TIMED).map(|number| (0, number * STRIDE))
    }

    fn held(&self, size: u64) -> Measured {
        let mut world = World::new().with_nodes(1);
        let before = self.bytes();
        for number in 0..size {
            let request = world.acquire(0, number * STRIDE);
            assert_eq!(world.granted(), Some((0, request)), "nobody else wants it");
        }
        let bytes = self.bytes() - before;
        Measured { nanos: Lab::cycles(&mut world, Lab::fresh(size)), bytes }
    }

    fn names(&self, size: u64) -> Measured {
        let mut world = World::new().with_nodes(1);
        let before = self.bytes();
        let all = |count: u64| (0..count).map(|number| (0, number * STRIDE));
        // Once over all of them, then as many as are timed.
        Lab::cycles(&mut world, all(size));
        let bytes = self.bytes() - before;
        Measured { nanos: Lab::cycles(&mut world, all(size).cycle().take(size.max(TIMED) as usize)), bytes }
    }

    fn nodes(&self, size: u64) -> Measured {
        let world = World::new();
        let before = self.bytes();
        let mut world = world.with_nodes(size.min(MOST_NODES.into()) as usize);
        let bytes = self.bytes() - before;
        let nodes = world.nodes() as u64;
        let names = (0..TIMED.max(nodes)).map(|number| ((number % nodes) as usize, number * STRIDE));
        Measured { nanos: Lab::cycles(&mut world, names), bytes }
    }

    /// Of one lock, which is handed on and on: whoever had it waits again.
    fn waiters(&self, size: u64) -> Measured {
        let mut world = World::new().with_nodes(WAITING);
        let before = self.bytes();
        for number in 0..=size {
            world.acquire(number as usize % WAITING, STRIDE);
        }
        let bytes = self.bytes() - before;
        let mut holder = world.granted().expect("the first one has it");
        let turns = TIMED / 10;
        let begun = processor_time();
        for _ in 0..turns {
            world.release(holder.0, holder.1);
            let next = world.granted().expect("the next one has it");
            world.acquire(holder.0, STRIDE);
            holder = next;
        }
        Measured { nanos: each(begun, turns), bytes }
    }

    fn batch(&self, size: u64) -> Measured {
        let mut world = World::new().with_nodes(1);
        let size = (size as usize).min(MAX_ENTRIES);
        let before = self.bytes();
        let mut requests: Vec<RequestId> = Vec::with_capacity(size);
        let mut name = 0;
        let packets = TIMED / size as u64;
        let begun = processor_time();
        let mut bytes = 0.0;
        for _ in 0..packets {
            let mut names: Vec<u64> = (0..size as u64).map(|number| (name + number) * STRIDE).collect();
            name += size as u64;
            names.sort_unstable_by_key(|name| slot_of(*name, SLOTS));
            world.acquire_many(0, &names, &mut requests);
            while world.granted().is_some() {}
            if name == size as u64 {
                // Of the first packet alone: what is left of names of before is another curve.
                bytes = self.bytes() - before;
            }
            world.release_many(0, &mut requests);
        }
        Measured { nanos: each(begun, packets), bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_measured_and_a_fit_is_told() {
        let growth = run_growth(&GrowthOptions { most: 1_000, rounds: 1, memory: Some(|| 1) }).unwrap();
        let of: Vec<&str> = growth.curves.iter().map(|curve| curve.of.as_str()).collect();
        assert_eq!(of, ["locks held", "names, one after the other", "nodes", "waiters", "locks in a packet"]);
        for curve in &growth.curves {
            assert!(curve.points.len() > 1 && curve.points.iter().all(|point| point.nanos[0] > 0.0), "{growth}");
        }
        let again = Growth::from_json(&growth.to_json()).unwrap();
        assert_eq!(again.to_string(), growth.to_string());
        let svg = growth.to_svg();
        assert!(svg.contains("waiters") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
