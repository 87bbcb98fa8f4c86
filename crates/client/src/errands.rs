//! What is to be done once the session's lock is free again: packets to send, threads and tasks to wake.
//!
//! One per thread, used again, so that none of this allocates after the first times. A task that is woken may run at
//! once, here, and call Wayside again: then that call gets an `Errands` of its own.

use crate::port::Port;
use crate::request::Request;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Waker;

pub(crate) struct Errands {
    bytes: Vec<u8>,
    /// Port to send from, and the end of its packet in `bytes`.
    packets: Vec<(Arc<Port>, usize)>,
    sleepers: Vec<Arc<Port>>,
    wakers: Vec<Waker>,
    /// Records whose wakers a caller wrote: dropped without the lock.
    buried: Vec<Arc<Request>>,
    phase_changed: bool,
}

/// Room for two full packets, or some thirty of one entry.
const BYTES: usize = 2 * wayside_wire::limits::MAX_PACKET_BYTES;

impl Errands {
    fn new() -> Errands {
        Errands {
            bytes: Vec::with_capacity(BYTES),
            packets: Vec::with_capacity(32),
            sleepers: Vec::with_capacity(8),
            wakers: Vec::with_capacity(8),
            buried: Vec::with_capacity(8),
            phase_changed: false,
        }
    }

    pub(crate) fn send(&mut self, port: &Arc<Port>, packet: &[u8]) {
        self.bytes.extend_from_slice(packet);
        self.packets.push((port.clone(), self.bytes.len()));
    }

    /// Wakes the port's thread if it sleeps.
    pub(crate) fn ring(&mut self, port: &Arc<Port>) {
        if port.asleep.load(SeqCst) {
            self.sleepers.push(port.clone());
        }
    }

    pub(crate) fn wakers(&mut self) -> &mut Vec<Waker> {
        &mut self.wakers
    }

    pub(crate) fn bury(&mut self, request: Arc<Request>) {
        self.buried.push(request);
    }

    /// The session has begun or ended.
    pub(crate) fn tell_newcomers(&mut self, newcomers: &mut Vec<Waker>) {
        self.wakers.append(newcomers);
        self.phase_changed = true;
    }

    /// Does everything. True: the session has begun or ended.
    pub(crate) fn run(&mut self) -> bool {
        let mut from = 0;
        for (port, to) in self.packets.drain(..) {
            port.socket.send(&self.bytes[from..to]);
            from = to;
        }
        self.bytes.clear();
        if !self.sleepers.is_empty() {
            self.sleepers.drain(..).for_each(|port| port.alarm.ring());
        }
        self.buried.clear();
        if !self.wakers.is_empty() {
            self.wakers.drain(..).for_each(Waker::wake);
        }
        std::mem::take(&mut self.phase_changed)
    }
}

thread_local! {
    /// Boxed, for it is taken and put back twice in every acquire.
    static OWN: Cell<Option<Box<Errands>>> = const { Cell::new(None) };
}

/// The calling thread's, empty; a new one while that is in use, or when the thread is ending.
pub(crate) fn take() -> Box<Errands> {
    OWN.try_with(Cell::take).ok().flatten().unwrap_or_else(|| Box::new(Errands::new()))
}

/// Puts it back, empty.
pub(crate) fn put_back(errands: Box<Errands>) {
    let _ = OWN.try_with(|own| own.set(Some(errands)));
}
