//! Reply ports: one per thread that waits, read by that thread itself, so that an acquire which nobody disputes is one
//! packet out and one packet in on one core.
//!
//! A thread keeps its port of a session until it ends; then another thread gets it. Ports are never closed before the
//! session is. Reading another thread's port does no harm: packets act through the session, which wakes whoever
//! waits. So the background thread may sweep all of them.

use crate::socket::{Alarm, Socket};
use crate::xsk::Reach;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::io;
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};

/// A socket, and the alarm of the thread that waits for it.
pub(crate) struct Port {
    pub(crate) socket: Socket,
    pub(crate) alarm: Alarm,
    /// Its thread sleeps, or is about to and will look once more before: ring after a change.
    pub(crate) asleep: AtomicBool,
    /// A thread uses it now and reads it.
    taken: AtomicBool,
}

impl Port {
    /// `reach`: by AF_XDP, too.
    pub(crate) fn open(switch: SocketAddrV4, reach: Option<&Arc<Reach>>) -> io::Result<Port> {
        Ok(Port {
            socket: Socket::open(switch, reach)?,
            alarm: Alarm::new()?,
            asleep: AtomicBool::new(false),
            taken: AtomicBool::new(false),
        })
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(SeqCst)
    }
}

/// The reply ports of one session.
#[derive(Default)]
pub(crate) struct Ports {
    all: Mutex<Vec<Arc<Port>>>,
    /// Those whose thread has ended.
    spare: Mutex<Vec<Arc<Port>>>,
}

impl Ports {
    /// The calling thread's port. `open` makes a new one where it has none and none is spare.
    pub(crate) fn check_out(self: &Arc<Self>, open: impl FnOnce() -> io::Result<Arc<Port>>) -> io::Result<CheckedOut> {
        let kept = KEPT.try_with(|kept| {
            let kept = kept.borrow();
            let own = kept.iter().find(|own| std::ptr::eq(own.ports.as_ptr(), Arc::as_ptr(self)))?;
            own.port.upgrade()
        });
        if let Ok(Some(port)) = kept
            && !port.taken.swap(true, SeqCst)
        {
            return Ok(CheckedOut { port });
        }
        self.check_out_another(open)
    }

    #[cold]
    fn check_out_another(self: &Arc<Self>, open: impl FnOnce() -> io::Result<Arc<Port>>) -> io::Result<CheckedOut> {
        let spare = self.spare.lock().pop();
        let port = match spare {
            Some(port) => port,
            None => {
                let port = open()?;
                self.all.lock().push(port.clone());
                port
            }
        };
        port.taken.store(true, SeqCst);
        let own = Kept { ports: Arc::downgrade(self), port: Arc::downgrade(&port) };
        // A thread that is ending has no storage any more: its port is spare at once.
        let _ = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            kept.retain(|own| own.ports.strong_count() > 0);
            kept.push(own);
        });
        Ok(CheckedOut { port })
    }

    /// Calls `each` for every port.
    pub(crate) fn for_each(&self, each: impl FnMut(&Arc<Port>)) {
        self.all.lock().iter().for_each(each);
    }
}

/// A port in use by the calling thread.
pub(crate) struct CheckedOut {
    port: Arc<Port>,
}

impl std::ops::Deref for CheckedOut {
    type Target = Arc<Port>;

    fn deref(&self) -> &Arc<Port> {
        &self.port
    }
}

impl Drop for CheckedOut {
    fn drop(&mut self) {
        self.port.taken.store(false, SeqCst);
    }
}

/// A thread's port of one session; weak, for the session's end closes it.
struct Kept {
    ports: Weak<Ports>,
    port: Weak<Port>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let (Some(ports), Some(port)) = (self.ports.upgrade(), self.port.upgrade()) {
            ports.spare.lock().push(port);
        }
    }
}

thread_local! {
    static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}
