//! Locks of a word, as the daemon takes them: `dataplane/take.h`. The upper 16 bits name who has one.

use std::hint;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

/// The owner's bits.
pub(crate) const OWNER: u64 = 0xffff << 48;
/// Owner while the daemon writes: no lane of counters has this number.
pub(crate) const DAEMON: u64 = 0xffff;
/// Looks at a lock before the daemon lets others run: the core holds one for less than a microsecond.
const LOOKS: u32 = 1_000;

/// Takes a lock, however long it takes. What it was, without an owner.
pub(crate) fn take(lock: &AtomicU64) -> u64 {
    let mut looks = 0u32;
    loop {
        let before = lock.load(SeqCst);
        if before & OWNER == 0 && lock.compare_exchange(before, before | DAEMON << 48, SeqCst, SeqCst).is_ok() {
            return before;
        }
        looks += 1;
        if looks.is_multiple_of(LOOKS) { thread::yield_now() } else { hint::spin_loop() }
    }
}

/// Whether a thread of a daemon that is no more has it. What runs at the hook finishes what it begins.
#[cfg(feature = "xdp")]
pub(crate) fn is_left(lock: &AtomicU64) -> bool {
    let owner = lock.load(SeqCst) >> 48;
    (1..=crate::counters::THREAD_LANES as u64).contains(&owner) || owner == DAEMON
}
