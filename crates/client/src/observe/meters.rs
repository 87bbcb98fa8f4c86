//! Metrics by the facade `metrics`: whoever embeds the client chooses where they go, before the session begins.

use super::{Failure, Loss, word_of_mode, word_of_path};
use metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;
use wayside_protocol::{Mode, Path};

const ACQUIRE: &str = "wayside_lock_acquire_seconds";
const LOST: &str = "wayside_lock_lost_total";
const HELD: &str = "wayside_locks_held";
const WAITERS: &str = "wayside_lock_waiters";

const PATHS: [Path; 3] = [Path::Switch, Path::Agent, Path::Local];

/// Handles of one session.
pub(super) struct Meters {
    /// By mode: exclusive, shared.
    acquire: [Acquires; 2],
    lost_session: Counter,
    lost_ttl: Counter,
    lost_closed: Counter,
    closing: AtomicBool,
    held: Gauge,
    waiters: Gauge,
}

struct Acquires {
    granted: [Histogram; PATHS.len()],
    failed: [Histogram; Failure::ALL.len()],
}

impl fmt::Debug for Meters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meters")
    }
}

impl Meters {
    pub(super) fn new(namespace: &str) -> Meters {
        describe_histogram!(ACQUIRE, metrics::Unit::Seconds, "From the call to its guard, or to why there is none");
        describe_counter!(LOST, "Guards that were lost");
        describe_gauge!(HELD, "Guards that exist");
        describe_gauge!(WAITERS, "Calls that acquire now");
        let acquire = |mode: Mode, path: &'static str, result: &'static str| {
            let namespace = namespace.to_owned();
            histogram!(ACQUIRE, "namespace" => namespace, "mode" => word_of_mode(mode), "path" => path, "result" => result)
        };
        let acquires = |mode| Acquires {
            granted: PATHS.map(|path| acquire(mode, word_of_path(path), "granted")),
            failed: Failure::ALL.map(|failure| acquire(mode, "none", failure.word())),
        };
        let lost = |reason: &'static str| counter!(LOST, "namespace" => namespace.to_owned(), "reason" => reason);
        Meters {
            acquire: [acquires(Mode::Exclusive), acquires(Mode::Shared)],
            lost_session: lost("session"),
            lost_ttl: lost("ttl"),
            lost_closed: lost("closed"),
            closing: AtomicBool::new(false),
            held: gauge!(HELD, "namespace" => namespace.to_owned()),
            waiters: gauge!(WAITERS, "namespace" => namespace.to_owned()),
        }
    }

    pub(super) fn gave_back(&self) {
        self.held.decrement(1.0);
    }

    pub(super) fn lost(&self, loss: Loss) {
        let counter = match loss {
            Loss::Ttl => &self.lost_ttl,
            Loss::Session if self.closing.load(Relaxed) => &self.lost_closed,
            Loss::Session => &self.lost_session,
        };
        counter.increment(1);
    }

    pub(super) fn closes(&self) {
        self.closing.store(true, Relaxed);
    }

    fn acquires(&self, mode: Mode) -> &Acquires {
        &self.acquire[usize::from(mode == Mode::Shared)]
    }
}

/// One call.
#[derive(Debug)]
pub(super) struct Call {
    meters: Arc<Meters>,
    mode: Mode,
    began: Instant,
    over: bool,
}

impl Call {
    pub(super) fn new(meters: &Arc<Meters>, mode: Mode) -> Call {
        meters.waiters.increment(1.0);
        Call { meters: Arc::clone(meters), mode, began: Instant::now(), over: false }
    }

    /// Once for each guard.
    pub(super) fn granted(&mut self, path: Path) {
        self.over = true;
        self.meters.held.increment(1.0);
        let known = PATHS.iter().position(|known| *known == path);
        let granted = &self.meters.acquires(self.mode).granted;
        granted[known.expect("all paths are in the table")].record(self.began.elapsed());
    }

    pub(super) fn failed(&mut self, failure: Failure) {
        self.over = true;
        let known = Failure::ALL.iter().position(|known| *known == failure);
        let failed = &self.meters.acquires(self.mode).failed;
        failed[known.expect("all failures are in the table")].record(self.began.elapsed());
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.meters.waiters.decrement(1.0);
        if !self.over {
            self.failed(Failure::GivenUp);
        }
    }
}
