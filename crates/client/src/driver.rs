//! Who reads what is answered to tasks: the background thread, or a [`Driver`] on the runtime that they run on.
//!
//! The background thread is woken by the packet, and wakes the runtime's thread: two wake-ups a lock. A runtime that
//! reads for itself is woken once if it sleeps, and not at all while it has other tasks to run: then it finds several
//! answers at a time.
//!
//! Invariant: while a driver is at work the background thread does not sleep on the reactor port, but reads it whenever
//! a timer is due. So a runtime that is kept from running costs its own tasks time, and nobody else anything.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Waker;

#[cfg(feature = "tokio")]
mod on_tokio;

#[cfg(feature = "tokio")]
pub use on_tokio::Driver;

/// Whether there is a driver, and how to call it.
#[derive(Default)]
pub(crate) struct Seat {
    taken: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Seat {
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(SeqCst)
    }

    /// Lets a driver know that the session has begun, ended, or goes on from other sockets.
    pub(crate) fn call(&self) {
        let waker = self.waker.lock().clone();
        waker.iter().for_each(Waker::wake_by_ref);
    }
}
