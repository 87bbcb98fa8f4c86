//! Counters of drops, verdicts and outcomes.
//!
//! A thread counts in a lane of its own as long as there are no more threads than lanes, so that counting costs no cache
//! line that another core wants. Reading adds the lanes up.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::layout;
use crate::zeroed::Zeroed;

/// `WS_THREAD_LANES` of `dataplane/memory.h`. In the XDP switch's map the lanes of CPUs follow.
pub(crate) const THREAD_LANES: usize = 16;
/// Counters of a lane, rounded up to whole cache lines of 8: `struct ws_counters`.
pub(crate) const LANE: usize = 64;

pub(crate) struct Counters {
    lanes: Zeroed<AtomicU64>,
}

impl Counters {
    pub(crate) fn new() -> Counters {
        assert!(count() <= LANE, "dataplane/memory.h has more counters than a lane");
        Counters { lanes: Zeroed::new(THREAD_LANES * LANE) }
    }

    /// Those of a BPF map of `lanes` lanes.
    #[cfg(feature = "xdp")]
    pub(crate) fn map(map: std::os::fd::BorrowedFd<'_>, lanes: usize) -> std::io::Result<Counters> {
        Ok(Counters { lanes: Zeroed::map(map, lanes * LANE)? })
    }

    /// Where this thread counts.
    pub(crate) fn lane(&self) -> *const AtomicU64 {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static LANE_OF_THREAD: usize = NEXT.fetch_add(1, Ordering::Relaxed) % THREAD_LANES;
        }
        self.lanes[LANE_OF_THREAD.with(|lane| *lane) * LANE..].as_ptr()
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
