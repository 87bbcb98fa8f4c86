//! A driver on Tokio, whose reactor tells when there is something to read.

use crate::engine::Engine;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Packets read before other tasks have their turn.
const TURN: u32 = 64;

/// Reads what is answered to a session's tasks, on the runtime that polls it: [`Session::driver`](crate::Session::driver).
#[must_use = "a driver reads while it is polled: spawn it"]
pub struct Driver {
    engine: Arc<Engine>,
    is_seated: bool,
    watched: Option<Watched>,
}

/// The reactor port's socket, known to the runtime: by a descriptor of its own, which stays this socket's when the port
/// gets another one.
struct Watched {
    number: u16,
    socket: AsyncFd<OwnedFd>,
}

impl Driver {
    pub(crate) fn new(engine: Arc<Engine>) -> Driver {
        Driver { engine, is_seated: false, watched: None }
    }

    /// Has the runtime watch the socket that the port has by now.
    fn watched(&mut self) -> std::io::Result<&Watched> {
        let socket = &self.engine.reactor().socket;
        let number = socket.number();
        let watched = match self.watched.take().filter(|watched| watched.number == number) {
            Some(watched) => watched,
            None => {
                let own = socket.as_fd().try_clone_to_owned()?;
                // SAFETY: the descriptor is open and nobody else's for as long as it is watched.
                let socket = unsafe { AsyncFd::register_with_interest(own, Interest::READABLE) }?;
                Watched { number, socket }
            }
        };
        Ok(self.watched.insert(watched))
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let engine = this.engine.clone();
        if !this.is_seated && engine.seat.taken.swap(true, SeqCst) {
            return Poll::Ready(());
        }
        if !std::mem::replace(&mut this.is_seated, true) {
            // The background thread sleeps on the port.
            engine.agent().alarm.ring();
        }
        // First, so that whatever changes after it was looked at calls this task.
        engine.seat.waker.lock().replace(context.waker().clone());
        loop {
            if engine.is_closed() {
                return Poll::Ready(());
            }
            let watched = match this.watched() {
                Ok(watched) => watched,
                Err(error) => {
                    engine.complain(&error);
                    return Poll::Ready(());
                }
            };
            // An error: the runtime is ending.
            let Ok(mut readable) = ready!(watched.socket.poll_read_ready(context)) else { return Poll::Ready(()) };
            if !engine.drain(&engine.reactor().socket, TURN) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            readable.clear_ready();
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.is_seated {
            self.engine.seat.waker.lock().take();
            self.engine.seat.taken.store(false, SeqCst);
            self.engine.agent().alarm.ring();
        }
    }
}
