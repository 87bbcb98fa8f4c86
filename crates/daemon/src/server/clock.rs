//! The daemon's clock: microseconds since boot, time asleep included, so that a suspended host does not stretch leases.

use wayside_protocol::Time;

/// Now, for the controller.
pub fn now() -> Time {
    // There since Linux 2.6.39.
    let at = read(libc::CLOCK_BOOTTIME);
    Time(at.tv_sec as u64 * 1_000_000 + at.tv_nsec as u64 / 1_000)
}

/// CLOCK_MONOTONIC, by which the core says when it decided, in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let at = read(libc::CLOCK_MONOTONIC);
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

fn read(clock: libc::clockid_t) -> libc::timespec {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `at` outlives the call.
    unsafe { libc::clock_gettime(clock, &raw mut at) };
    at
}
