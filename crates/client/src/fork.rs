//! Which process something is of. A process that was forked and has not called exec has a copy of all that its parent
//! has: the sockets, the session's keys, the guards. Were it to use them, it would speak as its parent, and give back
//! what that still relies on; locks of threads that it does not have may be taken for ever. So there nothing of its
//! parent's is used, or given back.

use crate::{task, wait};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Forks that led to this process since one of its ancestors used this library.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process in which something began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin(u32);

impl Origin {
    /// This one.
    pub(crate) fn here() -> Origin {
        static WATCHED: Once = Once::new();
        WATCHED.call_once(|| {
            // SAFETY: the handler is there as long as the process, takes no lock and allocates nothing: it runs between
            // fork and whatever the child does.
            let watched = unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
            assert_eq!(watched, 0, "there is memory for a few words");
        });
        Origin(FORKS.load(Relaxed))
    }

    /// Whether that is this one.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        self.0 == FORKS.load(Relaxed)
    }
}

/// Runs in the child, which has one thread.
unsafe extern "C" fn count_fork() {
    FORKS.fetch_add(1, Relaxed);
    task::forked();
    wait::forked();
}
