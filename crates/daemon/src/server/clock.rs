//! The daemon's clock: microseconds since boot, time asleep included, so that a suspended host does not stretch leases.

use wayside_protocol::Time;

/// Now, for the controller.
pub fn now() -> Time {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `at` outlives the call; CLOCK_BOOTTIME is there since Linux 2.6.39.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut at) };
    Time(at.tv_sec as u64 * 1_000_000 + at.tv_nsec as u64 / 1_000)
}

/// CLOCK_MONOTONIC, by which the core says when it decided, in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `at` outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut at) };
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}
