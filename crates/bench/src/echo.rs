//! The bare peer: a UDP server that sends back what it gets, and a client that sends 64 bytes, as long as an acquire.
//!
//! Two loops, for it is not known beforehand which is faster: `recvfrom` and `sendto`, and the switch's own
//! `recvmmsg` and `sendmmsg` without the switch. The report compares with the faster.

use crate::knobs;
use crate::{Error, Waiting};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle, Thread};

/// Header and one entry.
const BYTES: usize = 64;
/// As the switch's.
const BATCH: usize = 64;
const BUFFER: usize = 2048;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loop {
    Plain,
    Batched,
}

/// A server. A spinning one sleeps until it is resumed: it would take the core from whoever else is measured.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

struct State {
    runs: AtomicBool,
    ends: AtomicBool,
    waiting: Waiting,
}

impl Server {
    pub(crate) fn start(kind: Loop, waiting: Waiting, core: usize) -> Result<Server, Error> {
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(|error| format!("no socket for the echo: {error}"))?;
        let address = socket.local_addr().map_err(|error| error.to_string())?;
        socket.set_nonblocking(waiting == Waiting::Spinning).map_err(|error| error.to_string())?;
        let state = Arc::new(State { runs: (waiting == Waiting::Blocking).into(), ends: false.into(), waiting });
        let thread = thread::spawn({
            let state = state.clone();
            move || {
                knobs::pin(core);
                match kind {
                    Loop::Plain => serve_plain(&socket, &state),
                    Loop::Batched => serve_batched(&socket, &state),
                }
            }
        });
        Ok(Server { address, state, thread: Some(thread) })
    }

    pub(crate) fn resume(&self) {
        self.state.runs.store(true, SeqCst);
        self.thread().unpark();
    }

    pub(crate) fn pause(&self) {
        self.state.runs.store(self.state.waiting == Waiting::Blocking, SeqCst);
    }

    fn thread(&self) -> &Thread {
        self.thread.as_ref().expect("joined when dropped only").thread()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.ends.store(true, SeqCst);
        self.thread().unpark();
        // Out of its sleep, if it blocks. Without a socket to send from it ends with the process.
        let woken = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.send_to(&[], self.address));
        if woken.is_err() {
            return;
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl State {
    /// False: end.
    fn may_go_on(&self) -> bool {
        while !self.runs.load(SeqCst) && !self.ends.load(SeqCst) {
            thread::park();
        }
        !self.ends.load(SeqCst)
    }
}

fn serve_plain(socket: &UdpSocket, state: &State) {
    let mut buffer = [0; BUFFER];
    while state.may_go_on() {
        if let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], from);
        }
    }
}

fn serve_batched(socket: &UdpSocket, state: &State) {
    let mut buffers = vec![[0u8; BUFFER]; BATCH];
    // SAFETY: zeros are an empty address.
    let mut names: Vec<libc::sockaddr_in> = vec![unsafe { std::mem::zeroed() }; BATCH];
    let mut vectors: Vec<libc::iovec> = buffers
        .iter_mut()
        .map(|buffer| libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: BUFFER })
        .collect();
    let mut headers: Vec<libc::mmsghdr> = (0..BATCH)
        .map(|index| {
            // SAFETY: zeros are a header without name, vectors and control data.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_name = (&raw mut names[index]).cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
            header.msg_hdr.msg_iov = &raw mut vectors[index];
            header.msg_hdr.msg_iovlen = 1;
            header
        })
        .collect();
    let flags = if state.waiting == Waiting::Spinning { libc::MSG_DONTWAIT } else { libc::MSG_WAITFORONE };
    while state.may_go_on() {
        // SAFETY: BATCH complete headers whose names, vectors and buffers live as long as this function.
        let count = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), BATCH as u32, flags, std::ptr::null_mut())
        };
        let Ok(count @ 1..) = usize::try_from(count) else { continue };
        for index in 0..count {
            vectors[index].iov_len = headers[index].msg_len as usize;
        }
        // SAFETY: the first `count` of them, whose names are the senders.
        unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count as u32, 0) };
        vectors[..count].iter_mut().for_each(|vector| vector.iov_len = BUFFER);
    }
}

/// The client's end.
pub(crate) struct Client {
    socket: UdpSocket,
    waiting: Waiting,
}

impl Client {
    pub(crate) fn connect(server: SocketAddr, waiting: Waiting) -> Result<Client, Error> {
        let connect = || {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.connect(server)?;
            socket.set_nonblocking(waiting == Waiting::Spinning)?;
            Ok(socket)
        };
        let socket = connect().map_err(|error: io::Error| format!("no socket for the echo: {error}"))?;
        Ok(Client { socket, waiting })
    }

    /// One packet there and back.
    pub(crate) fn round_trip(&self) -> Result<(), Error> {
        let mut buffer = [0; BUFFER];
        self.socket.send(&[0x57; BYTES]).map_err(|error| format!("the echo is not reached: {error}"))?;
        loop {
            match self.socket.recv(&mut buffer) {
                Ok(_) => return Ok(()),
                Err(error) if self.waiting == Waiting::Spinning && error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(format!("the echo does not answer: {error}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_echoes_and_may_be_paused() {
        for kind in [Loop::Plain, Loop::Batched] {
            for waiting in [Waiting::Spinning, Waiting::Blocking] {
                let server = Server::start(kind, waiting, knobs::SERVER_CORE).unwrap();
                let client = Client::connect(server.address, waiting).unwrap();
                for _ in 0..3 {
                    server.resume();
                    (0..100).for_each(|_| client.round_trip().unwrap());
                    server.pause();
                }
            }
        }
    }
}
