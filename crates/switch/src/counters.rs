//! Counters of drops, verdicts and outcomes.
//!
//! The first threads count in lanes of their own, so that counting costs neither a cache line that another core wants
//! nor a locked instruction. All later ones share the last lane. Reading adds the lanes up.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::layout;
use crate::zeroed::Zeroed;

/// `WS_THREAD_LANES` of `dataplane/memory.h`. In the XDP switch's map the lanes of CPUs follow.
pub(crate) const THREAD_LANES: usize = 16;
/// Counters of a lane, rounded up to whole cache lines of 8, and the word that its owner follows: `struct ws_counters`.
pub(crate) const LANE: usize = 128;

pub(crate) struct Counters {
    lanes: Zeroed<AtomicU64>,
}

impl Counters {
    pub(crate) fn new() -> Counters {
        assert!(count() < LANE, "dataplane/memory.h has more counters than a lane");
        Counters { lanes: Zeroed::new(THREAD_LANES * LANE) }
    }

    /// Those of a BPF map of `lanes` lanes.
    #[cfg(feature = "xdp")]
    pub(crate) fn map(map: std::os::fd::BorrowedFd<'_>, lanes: usize) -> std::io::Result<Counters> {
        Ok(Counters { lanes: Zeroed::map(map, lanes * LANE)? })
    }

    /// Where this thread counts, whether it is the only one, and the lane's number.
    pub(crate) fn lane(&self) -> (*const AtomicU64, bool, u32) {
        const NONE: usize = usize::MAX;
        const SHARED: usize = THREAD_LANES - 1;
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static LANE_OF_THREAD: Cell<usize> = const { Cell::new(NONE) };
        }
        let mut lane = LANE_OF_THREAD.get();
        if lane == NONE {
            lane = NEXT.fetch_add(1, Ordering::Relaxed).min(SHARED);
            LANE_OF_THREAD.set(lane);
        }
        (self.lanes[lane * LANE..].as_ptr(), lane != SHARED, lane as u32)
    }

    /// No lane's owner follows anything: `WS_FOLLOWS`.
    pub(crate) fn follow_nothing(&self) {
        self.lanes.iter().skip(LANE - 1).step_by(LANE).for_each(|word| word.store(0, Ordering::SeqCst));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        (0..count()).map(|counter| {
            let lanes = self.lanes.iter().skip(counter).step_by(LANE);
            (name(counter), lanes.map(|lane| lane.load(Ordering::Relaxed)).sum())
        })
    }
}

fn count() -> usize {
    // SAFETY: returns a constant.
    unsafe { layout::ws_counter_count() as usize }
}

fn name(counter: usize) -> &'static str {
    let counter = u32::try_from(counter).expect("few counters");
    // SAFETY: the core answers every number with a string constant.
    let name = unsafe { CStr::from_ptr(layout::ws_counter_name(counter)) };
    name.to_str().expect("names are ASCII")
}
