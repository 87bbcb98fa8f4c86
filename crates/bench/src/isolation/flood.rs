//! A tenant that floods: packets of a real session, by a bare socket, as many as the kernel takes.

use crate::{Error, knobs};
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use wayside_client::SessionInfo;
use wayside_hosts::Host;
use wayside_wire::{BODY, Entry, Header, entry_at, entry_flag, kind, service, slot_of};

/// Packets of a system call.
const BURST: usize = 64;
/// A request and its header.
const BYTES: usize = 64;
/// Above the session's own request ids.
const REQUEST: u64 = 1 << 39;
/// What no packet of a flood asks for.
pub(super) const IDLE: usize = usize::MAX;

/// What it asks for, over and over.
#[derive(Clone, Copy)]
pub(super) enum Wish {
    /// A lock that its own session holds, and not to wait for it: the switch answers each, by BUSY.
    Try,
    /// To give back what nobody holds: the switch answers each, by RELEASED, up to what a budget lets it send.
    Release,
}

/// Packets to one place.
pub(super) struct Stream {
    packets: Vec<[u8; BYTES]>,
    to: SocketAddrV4,
}

impl Stream {
    pub(super) fn new(info: &SessionInfo, name: u64, wish: Wish, to: SocketAddrV4) -> Stream {
        let (kind, flags) = match wish {
            Wish::Try => (kind::lock::ACQUIRE, entry_flag::EXCLUSIVE | entry_flag::TRY),
            Wish::Release => (kind::lock::RELEASE, entry_flag::EXCLUSIVE),
        };
        let packets = (0..BURST as u64).map(|index| {
            let mut packet = [0; BYTES];
            let header = Header {
                service: service::LOCK,
                kind,
                count: 1,
                source: info.handle,
                namespace: info.namespace,
                epoch: info.epoch,
                ..Header::default()
            };
            header.write(&mut packet);
            let entry = Entry {
                name,
                request: info.incarnation << 40 | (REQUEST + index),
                slot: slot_of(name, info.slots),
                holder: info.handle,
                flags,
                ..Entry::default()
            };
            entry.write(&mut packet, BODY);
            packet
        });
        const { assert!(BYTES == entry_at(1)) };
        Stream { packets: packets.collect(), to }
    }
}

/// A thread that floods from a host and a core of its own.
pub(super) struct Flooder {
    /// Which of its streams; [`IDLE`]: none.
    stream: Arc<AtomicUsize>,
    sent: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flooder {
    /// Its session is another's: what comes back to this socket nobody reads.
    pub(super) fn start(host: &Host, core: usize, nice: i32, streams: Vec<Stream>) -> Result<Flooder, Error> {
        let sockets: Result<Vec<UdpSocket>, _> = host.within(|| streams.iter().map(socket_to).collect());
        let sockets = sockets.map_err(|error| format!("no socket to flood from: {error}"))?;
        let (stream, sent, over) =
            (Arc::new(AtomicUsize::new(IDLE)), Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (which, count, ends) = (Arc::clone(&stream), Arc::clone(&sent), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            knobs::pin(core);
            knobs::favour(nice);
            let mut bursts: Vec<Burst> = streams.into_iter().map(Burst::new).collect();
            while !ends.load(Relaxed) {
                let at = which.load(Relaxed);
                match sockets.get(at) {
                    Some(socket) => count.fetch_add(bursts[at].send(socket), Relaxed),
                    None => {
                        std::thread::sleep(Duration::from_millis(1));
                        0
                    }
                };
            }
        });
        Ok(Flooder { stream, sent, over, thread: Some(thread) })
    }

    /// Floods with this one of its streams from now on.
    pub(super) fn flood(&self, stream: usize) {
        self.stream.store(stream, Relaxed);
    }

    /// Packets so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }
}

impl Drop for Flooder {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed.
            let _ = thread.join();
        }
    }
}

fn socket_to(stream: &Stream) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(stream.to)?;
    let least: libc::c_int = 1;
    // SAFETY: an open socket, and a number that outlives the call.
    unsafe {
        let (at, size) = ((&raw const least).cast(), size_of_val(&least) as libc::socklen_t);
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, at, size);
    }
    Ok(socket)
}

/// The packets of a stream, and where the kernel finds them.
struct Burst {
    /// Referred to by `messages` through raw pointers alone.
    _packets: Vec<[u8; BYTES]>,
    _vectors: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
}

impl Burst {
    fn new(stream: Stream) -> Burst {
        let mut packets = stream.packets;
        let vector = |packet: &mut [u8; BYTES]| libc::iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: BYTES };
        let mut vectors: Vec<libc::iovec> = packets.iter_mut().map(vector).collect();
        let message = |vector: &mut libc::iovec| {
            // SAFETY: zeros are a value of it.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
            message
        };
        let messages = vectors.iter_mut().map(message).collect();
        Burst { _packets: packets, _vectors: vectors, messages }
    }

    /// How many the kernel took.
    fn send(&mut self, socket: &UdpSocket) -> u64 {
        // SAFETY: complete headers, whose vectors and packets lie on the heap for as long as `self`.
        let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), self.messages.as_mut_ptr(), BURST as u32, 0) };
        u64::try_from(sent).unwrap_or(0)
    }
}
