//! The session's clock: microseconds since boot, time asleep included.
//!
//! CLOCK_BOOTTIME and not `Instant`, whose clock stands still while the host is suspended: after a night in
//! suspension a lease has run out, and the holder must see it.

use std::time::{Duration, Instant};
use wayside_protocol::Time;

/// Now, for the protocol machines.
pub(crate) fn now() -> Time {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `at` outlives the call. It fails only for clocks that do not exist; this one does since Linux 2.6.39.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut at) };
    Time(at.tv_sec as u64 * 1_000_000 + at.tv_nsec as u64 / 1_000)
}

/// `now + wait`, at most the end of time.
pub(crate) fn after(now: Time, wait: Duration) -> Time {
    Time(now.0.saturating_add(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX)))
}

/// From now until `at`; nothing if it is past.
pub(crate) fn until(at: Time) -> Duration {
    Duration::from_micros(at.0.saturating_sub(now().0))
}

/// `at` on the clock that callers compare with. None where it lies beyond what `Instant` can say.
pub(crate) fn instant(at: Time) -> Option<Instant> {
    Instant::now().checked_add(until(at))
}
