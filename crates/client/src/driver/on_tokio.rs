//! A driver on Tokio, whose reactor tells when there is something to read.

use crate::ears::Ears;
use crate::engine::Engine;
use std::future::Future;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Packets read of a socket before the other one has its turn, and turns before other tasks have theirs.
const TURN: u32 = 32;
const TURNS: u32 = 4;

/// Reads what is answered to a session's tasks, on the runtime that polls it:
/// [`Session::driver`](crate::Session::driver).
#[must_use = "a driver reads while it is polled: spawn it"]
pub struct Driver {
    /// Of each shard that the session is not over with.
    readers: Vec<Reader>,
}

struct Reader {
    engine: Arc<Engine>,
    is_seated: bool,
    watched: Option<Watched>,
}

/// The reactor port's sockets, known to the runtime: by descriptors of its own, which stay these sockets' when the port
/// gets others.
struct Watched {
    number: u16,
    socket: AsyncFd<OwnedFd>,
    /// With their own number: that of the socket before, for a moment.
    ears: Option<(u16, AsyncFd<OwnedFd>)>,
}

impl Driver {
    pub(crate) fn new(engines: impl Iterator<Item = Arc<Engine>>) -> Driver {
        let reader = |engine| Reader { engine, is_seated: false, watched: None };
        Driver { readers: engines.map(reader).collect() }
    }
}

impl Reader {
    /// Has the runtime watch the sockets that the port has by now.
    fn watched(&mut self) -> io::Result<&Watched> {
        let port = self.engine.reactor();
        let (number, heard_at) = (port.socket.number(), port.ears().map(Ears::number));
        let is_same =
            |known: &Watched| known.number == number && known.ears.as_ref().map(|(heard_at, _)| *heard_at) == heard_at;
        let known = match self.watched.take().filter(is_same) {
            Some(known) => known,
            None => {
                let ears = port.ears().zip(heard_at);
                let ears =
                    ears.map(|(ears, number)| Ok::<_, io::Error>((number, watched(ears.as_fd())?))).transpose()?;
                Watched { number, socket: watched(port.socket.as_fd())?, ears }
            }
        };
        Ok(self.watched.insert(known))
    }
}

fn watched(socket: BorrowedFd<'_>) -> io::Result<AsyncFd<OwnedFd>> {
    let own = socket.try_clone_to_owned()?;
    // SAFETY: the descriptor is open and nobody else's for as long as it is watched.
    Ok(unsafe { AsyncFd::register_with_interest(own, Interest::READABLE) }?)
}

/// Reads what is there, by `read`, which says whether that was all. Pending: nothing is there any more; an error: the
/// runtime is ending.
fn drained(socket: &AsyncFd<OwnedFd>, context: &mut Context<'_>, read: impl FnOnce() -> bool) -> Poll<io::Result<()>> {
    let mut readable = ready!(socket.poll_read_ready(context))?;
    if read() {
        readable.clear_ready();
    }
    Poll::Ready(Ok(()))
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.readers.retain_mut(|reader| reader.poll(context).is_pending());
        if self.readers.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Reader {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let this = self;
        let engine = this.engine.clone();
        if !engine.is_here() {
            return Poll::Ready(());
        }
        let seat = engine.seat();
        if !this.is_seated && seat.taken.swap(true, SeqCst) {
            return Poll::Ready(());
        }
        if !std::mem::replace(&mut this.is_seated, true) {
            // The background thread sleeps on the port.
            engine.agent().alarm.ring();
        }
        // First, so that whatever changes after it was looked at calls this task.
        seat.has_waker(context.waker());
        let port = engine.reactor();
        if seat.send_kept(&port.socket) {
            // A switch at this host's other end of the wire has answered already: within the system call that sent.
            engine.drain(&port.socket, TURN);
        }
        let mut turns = 0;
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
            let answers = drained(&watched.socket, context, || engine.drain(&port.socket, TURN));
            let heard = || engine.listen_at(port, TURN);
            let others = watched.ears.as_ref().map_or(Poll::Pending, |(_, ears)| drained(ears, context, heard));
            match (answers, others) {
                (Poll::Pending, Poll::Pending) => return Poll::Pending,
                (Poll::Ready(Err(_)), _) | (_, Poll::Ready(Err(_))) => return Poll::Ready(()),
                _ if turns == TURNS => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                _ => turns += 1,
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.is_seated && self.engine.is_here() {
            let seat = self.engine.seat();
            seat.waker.lock().take();
            seat.taken.store(false, SeqCst);
            seat.send_kept(&self.engine.reactor().socket);
            self.engine.agent().alarm.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Observer;
    use crate::session::Config;
    use crate::{Endpoint, Transport, Wait};
    use parking_lot::Mutex;
    use std::net::{Ipv4Addr, UdpSocket};
    use std::task::{Wake, Waker};
    use std::time::Duration;

    /// That of a session with a switch that says nothing.
    fn engine(switch: &UdpSocket) -> Arc<Engine> {
        let endpoint = switch.local_addr().unwrap().to_string();
        let config = Config {
            endpoints: vec![Endpoint::parse(&endpoint).unwrap()],
            placed: None,
            namespace: "default".into(),
            lease: None,
            wait: Wait::Block,
            transport: Transport::Udp,
            patience: Duration::from_secs(1),
            credentials: Some("/nonexistent".into()),
            lock_server: false,
            keep: 0,
            observer: Observer::default(),
        };
        Arc::new(Engine::new(config).unwrap())
    }

    /// A driver that is called, and whether the port's ears were those of its socket then.
    struct Called(Arc<Engine>, Mutex<Vec<bool>>);

    impl Wake for Called {
        fn wake(self: Arc<Self>) {
            let port = self.0.reactor();
            self.1.lock().push(port.ears().is_some_and(|ears| ears.is_of(&port.socket)));
        }
    }

    #[test]
    fn who_is_called_after_a_loss_finds_the_new_ears() {
        let switch = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let called = Arc::new(Called(engine(&switch), Mutex::default()));
        let engine = &called.0;
        engine.seat().has_waker(&Waker::from(called.clone()));
        engine.enrol_anew(false);
        assert_eq!(*called.1.lock(), [true]);
    }

    #[test]
    fn ears_that_follow_later_than_their_socket_are_watched_then() {
        let switch = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let engine = engine(&switch);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let _within = runtime.enter();
        let mut reader = Reader { engine: engine.clone(), is_seated: false, watched: None };
        let mut numbers = || {
            let watched = reader.watched().unwrap();
            (watched.number, watched.ears.as_ref().map(|(number, _)| *number))
        };
        let port = engine.reactor();
        let (number, heard_at) = numbers();
        assert_eq!(heard_at, Some(number));
        port.socket.reopen(engine.switch()).unwrap();
        let (fresh, heard_at) = numbers();
        assert!(fresh != number && heard_at == Some(number));
        assert!(port.hear_others());
        assert_eq!(numbers(), (fresh, Some(fresh)));
    }
}
