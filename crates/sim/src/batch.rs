//! Many seeds at a time: each is a world of its own.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;

use crate::{Options, Outcome, run};

/// Seeds that this machine runs at a time: one on each processor.
pub fn processors() -> u64 {
    thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

/// Runs every seed, `jobs` at a time, and shows each outcome when it is there, until `goes_on` says no.
pub fn run_all(seeds: Range<u64>, options: &Options, jobs: u64, mut goes_on: impl FnMut(Outcome) -> bool) {
    let next = AtomicU64::new(seeds.start);
    let (done, outcomes) = mpsc::sync_channel(64);
    thread::scope(|scope| {
        for _ in 0..jobs {
            let (next, done) = (&next, done.clone());
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= seeds.end || done.send(run(seed, options)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        // Those who still run a seed after this end with it: nobody listens to them any more.
        for outcome in outcomes {
            if !goes_on(outcome) {
                next.store(u64::MAX / 2, Relaxed);
                return;
            }
        }
    });
}
