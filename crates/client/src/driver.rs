//! Who reads what is answered to tasks, and sends what they ask: the background thread and they themselves, or a
//! [`Driver`] on the runtime that they run on.
//!
//! The background thread is woken by the packet, and wakes the runtime's thread: two wake-ups a lock. A runtime that
//! reads for itself is woken once if it sleeps, and not at all while it has other tasks to run: then it finds several
//! answers at a time. What tasks send meanwhile leaves together, once the driver has its turn after them.
//!
//! Invariants:
//!
//! * While a driver is at work the background thread does not sleep on the reactor port, but reads it, and asks again,
//!   whenever a timer is due. So a runtime that is kept from running costs its own tasks time, and others what a lost
//!   packet costs them.
//! * What is kept was kept while the seat was taken, and the driver was called after the first of it. Who leaves the
//!   seat sends what is there then.

use crate::socket::Socket;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Waker;

#[cfg(feature = "tokio")]
mod on_tokio;

#[cfg(feature = "tokio")]
pub use on_tokio::Driver;

/// Packets that are kept at most: as many as leave by two system calls. Their answers have to find room at the port.
const KEPT: usize = 64;

/// Whether there is a driver, how to call it, and what is kept for it.
#[derive(Default)]
pub(crate) struct Seat {
    taken: AtomicBool,
    waker: Mutex<Option<Waker>>,
    kept: Mutex<Outbox>,
    /// Empty: takes the place of the other one while that is being sent.
    spare: Mutex<Outbox>,
}

/// Packets, one behind the other.
#[derive(Default)]
struct Outbox {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Seat {
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(SeqCst)
    }

    /// Lets a driver know that the session has begun, ended, or goes on from other sockets, or that something is kept
    /// for it.
    pub(crate) fn call(&self) {
        let waker = self.waker.lock().clone();
        waker.iter().for_each(Waker::wake_by_ref);
    }

    #[cfg(feature = "tokio")]
    fn has_waker(&self, waker: &Waker) {
        let mut own = self.waker.lock();
        if !own.as_ref().is_some_and(|own| own.will_wake(waker)) {
            *own = Some(waker.clone());
        }
    }

    /// Keeps what a task sends by this socket until the driver has its turn. False: there is none, or no task.
    pub(crate) fn keep<'p>(&self, socket: &Socket, mut packets: impl Iterator<Item = &'p [u8]>) -> bool {
        if !self.is_taken() || !is_on_runtime() {
            return false;
        }
        let mut kept = self.kept.lock();
        // Who leaves the seat says so first, and then looks at what is kept.
        if !self.is_taken() {
            return false;
        }
        let was_empty = kept.ends.is_empty();
        packets.by_ref().for_each(|packet| kept.push(packet));
        let is_full = kept.ends.len() >= KEPT;
        drop(kept);
        if is_full {
            self.send_kept(socket);
        } else if was_empty {
            self.call();
        }
        true
    }

    /// Sends what is kept. Whether there was something.
    pub(crate) fn send_kept(&self, socket: &Socket) -> bool {
        let mut kept = self.kept.lock();
        if kept.ends.is_empty() {
            return false;
        }
        let empty = std::mem::take(&mut *self.spare.lock());
        let mut full = std::mem::replace(&mut *kept, empty);
        drop(kept);
        socket.send_all(full.packets());
        full.clear();
        *self.spare.lock() = full;
        true
    }
}

impl Outbox {
    fn push(&mut self, packet: &[u8]) {
        self.bytes.extend_from_slice(packet);
        self.ends.push(self.bytes.len());
    }

    fn packets(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let next = |from: &mut usize, end: &usize| Some(&self.bytes[std::mem::replace(from, *end)..*end]);
        self.ends.iter().scan(0, next)
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Whether the caller may be a task, so that the driver has its turn soon.
fn is_on_runtime() -> bool {
    #[cfg(feature = "tokio")]
    return tokio::runtime::Handle::try_current().is_ok();
    #[cfg(not(feature = "tokio"))]
    false
}

#[cfg(all(test, feature = "tokio"))]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
    use std::time::Duration;

    struct Bench {
        switch: UdpSocket,
        socket: Socket,
        seat: Seat,
    }

    impl Bench {
        fn new() -> Bench {
            let switch = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            switch.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let SocketAddr::V4(address) = switch.local_addr().unwrap() else { panic!("bound to IPv4") };
            let seat = Seat::default();
            seat.taken.store(true, SeqCst);
            Bench { switch, socket: Socket::open(address, None).unwrap(), seat }
        }

        fn keep(&self, number: u8) -> bool {
            self.seat.keep(&self.socket, [&[number, 0][..], &[number]].into_iter())
        }

        /// What has arrived, in pairs as they were kept.
        fn arrives(&self, numbers: std::ops::Range<u8>) {
            for number in numbers {
                for packet in [&[number, 0][..], &[number]] {
                    let mut bytes = [0; 4];
                    let length = self.switch.recv(&mut bytes).unwrap();
                    assert_eq!(&bytes[..length], packet);
                }
            }
            self.switch.set_nonblocking(true).unwrap();
            assert!(self.switch.recv(&mut [0; 4]).is_err(), "nothing else");
            self.switch.set_nonblocking(false).unwrap();
        }
    }

    fn on_runtime(work: impl FnOnce()) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async { work() });
    }

    #[test]
    fn what_tasks_send_waits_for_the_driver() {
        let bench = Bench::new();
        on_runtime(|| assert!((0..5).all(|number| bench.keep(number))));
        bench.arrives(0..0);
        assert!(bench.seat.send_kept(&bench.socket));
        bench.arrives(0..5);
        assert!(!bench.seat.send_kept(&bench.socket), "once");
    }

    #[test]
    fn no_more_waits_than_there_is_room_for_answers() {
        let bench = Bench::new();
        let pairs = (KEPT / 2) as u8;
        on_runtime(|| assert!((0..pairs + 1).all(|number| bench.keep(number))));
        bench.arrives(0..pairs);
    }

    #[test]
    fn nothing_waits_for_nobody() {
        let bench = Bench::new();
        assert!(!bench.keep(0), "no runtime that a driver would be polled on");
        bench.seat.taken.store(false, SeqCst);
        on_runtime(|| assert!(!bench.keep(0), "no driver"));
        assert!(!bench.seat.send_kept(&bench.socket));
    }
}
