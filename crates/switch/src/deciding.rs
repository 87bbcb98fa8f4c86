//! Who decides right now, so that what decisions rest on can be changed and those that began before be waited for.
//!
//! Invariant: a thread's count is odd exactly while it has a [`Deciding`]. It writes its count before it looks at the
//! switch, and who waits looks at the counts after the switch was changed: either the thread sees the change, or it is
//! seen.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often somebody who waits looks again: a batch of packets takes some microseconds, unless its thread is stopped.
const LOOK: Duration = Duration::from_micros(50);

/// In a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
struct Count(AtomicU64);

/// All threads that decide.
#[derive(Default)]
pub(crate) struct Deciders(Mutex<Vec<Arc<Count>>>);

/// A thread's: it says when it decides.
pub struct Decider<'a> {
    all: &'a Deciders,
    count: Arc<Count>,
}

/// As long as it lives, what its thread decides began before.
pub struct Deciding<'a>(&'a Count);

impl Deciders {
    pub(crate) fn join(&self) -> Decider<'_> {
        let count = Arc::default();
        self.all().push(Arc::clone(&count));
        Decider { all: self, count }
    }

    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Count>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once all who decided when it began have ended that.
    pub(crate) fn await_all(&self) {
        for (count, seen) in self.who_decides() {
            while count.0.load(Acquire) == seen {
                std::thread::sleep(LOOK);
            }
        }
    }

    fn who_decides(&self) -> Vec<(Arc<Count>, u64)> {
        fence(SeqCst);
        let counts = self.all().iter().map(|count| (Arc::clone(count), count.0.load(SeqCst))).collect::<Vec<_>>();
        counts.into_iter().filter(|(_, seen)| seen % 2 == 1).collect()
    }
}

impl Decider<'_> {
    /// Of as many packets as are there: it costs a fence.
    pub fn begin(&mut self) -> Deciding<'_> {
        let before = self.count.0.load(Relaxed);
        self.count.0.store(before + 1, Relaxed);
        fence(SeqCst);
        Deciding(&self.count)
    }
}

impl Drop for Deciding<'_> {
    fn drop(&mut self) {
        let during = self.0.0.load(Relaxed);
        self.0.0.store(during + 1, Release);
    }
}

impl Drop for Decider<'_> {
    fn drop(&mut self) {
        self.all.all().retain(|count| !Arc::ptr_eq(count, &self.count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn who_began_before_is_waited_for() {
        let deciders = Deciders::default();
        let mut decider = deciders.join();
        let deciding = decider.begin();
        let (tell, told) = channel();
        thread::scope(|scope| {
            let deciders = &deciders;
            scope.spawn(move || {
                deciders.await_all();
                tell.send(()).expect("the test waits");
            });
            assert!(told.recv_timeout(200 * LOOK).is_err(), "it waits");
            drop(deciding);
            told.recv().expect("it has ended");
        });
    }

    #[test]
    fn who_begins_later_is_not_waited_for() {
        let deciders = Deciders::default();
        let (mut early, mut late) = (deciders.join(), deciders.join());
        let deciding = early.begin();
        let [(_, seen)] = &deciders.who_decides()[..] else { panic!("one decides") };
        drop(deciding);
        let again = early.begin();
        let _later = late.begin();
        assert_ne!(early_count(&again), *seen, "it has begun anew");
        assert_eq!(deciders.who_decides().len(), 2);
    }

    fn early_count(deciding: &Deciding) -> u64 {
        deciding.0.0.load(SeqCst)
    }

    #[test]
    fn who_is_gone_is_not_waited_for() {
        let deciders = Deciders::default();
        drop(deciders.join());
        assert!(deciders.all().is_empty());
        let mut again = deciders.join();
        drop(again.begin());
        deciders.await_all();
    }
}
