//! Signals as something to wait for: blocked in every thread, taken one at a time by the main thread.

use std::time::Duration;

/// Some signals that this thread takes when it looks.
pub struct Signals {
    set: libc::sigset_t,
    before: libc::sigset_t,
}

impl Signals {
    /// Blocks these in this thread, and in the threads that it starts from now on.
    pub fn block(signals: impl IntoIterator<Item = libc::c_int>) -> Signals {
        // SAFETY: both sets are initialised before they are used.
        unsafe {
            let (mut set, mut before): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&raw mut set);
            for signal in signals {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            Signals { set, before }
        }
    }

    /// Runs `work` with this thread's signals as they were: Ctrl-C ends the process.
    pub fn unblocked<T>(&self, work: impl FnOnce() -> T) -> T {
        // SAFETY: the sets are initialised.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
        let result = work();
        // SAFETY: as above.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const self.set, std::ptr::null_mut()) };
        result
    }

    /// Waits for the next one, at most `most`.
    pub fn next(&self, most: Duration) -> Option<libc::c_int> {
        let most = libc::timespec { tv_sec: most.as_secs() as libc::time_t, tv_nsec: most.subsec_nanos().into() };
        // SAFETY: the set is initialised, `most` outlives the call.
        let signal = unsafe { libc::sigtimedwait(&raw const self.set, std::ptr::null_mut(), &raw const most) };
        (signal > 0).then_some(signal)
    }
}
