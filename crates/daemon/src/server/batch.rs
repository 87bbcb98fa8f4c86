//! Datagrams in batches: the buffers of one worker thread and the two system calls that move them.
//!
//! Invariants
//! * Every buffer, address and header is allocated in `Batch::new` and never moves: headers point to them.
//! * A received datagram is answered in its own buffer; only second copies have buffers of their own.
//! * Outgoing headers `0..outgoing` are complete; `send` leaves none.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Datagrams per system call. At 64 the call's own cost (about 200 ns) is 3 ns a packet; a burst of 64 is 128 KiB
/// of buffers, which an L2 cache holds.
pub const BATCH: usize = 64;

/// After a batch of one (or none) so many datagrams are received singly: recvmsg and sendmsg cost 150 ns less each than
/// a batch of one. Then a batch is tried again, so that a backlog waits for 16 datagrams at most before it is batched.
const ALONE: u32 = 16;

/// A datagram longer than this is cut to it, a length that no kind of packet has: the core drops it as `bad_length`.
const BUFFER: usize = 2048;

type Buffer = [u8; BUFFER];

/// One worker's receive and send queues.
pub struct Batch {
    received: Box<[Buffer]>,
    copies: Box<[Buffer]>,
    senders: Box<[libc::sockaddr_in]>,
    receivers: Box<[libc::sockaddr_in]>,
    /// Referred to by `incoming` and `outgoing` through raw pointers only.
    _incoming_vectors: Box<[libc::iovec]>,
    outgoing_vectors: Box<[libc::iovec]>,
    incoming: Box<[libc::mmsghdr]>,
    outgoing: Box<[libc::mmsghdr]>,
    queued: usize,
    copied: usize,
    /// Datagrams to receive singly before a batch is tried.
    alone: u32,
}

// SAFETY: the raw pointers lead to the heap blocks that this value owns; nothing else refers to them.
unsafe impl Send for Batch {}

/// What `send` did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    pub sent: usize,
    /// Refused by the kernel: no route, a firewall, no memory. Lost like on any network.
    pub failed: usize,
}

impl Batch {
    pub fn new() -> Batch {
        let mut received = vec![[0; BUFFER]; BATCH].into_boxed_slice();
        let copies = vec![[0; BUFFER]; BATCH].into_boxed_slice();
        let mut senders = vec![address(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)); BATCH].into_boxed_slice();
        // Every received datagram may go out as two.
        let mut receivers = vec![senders[0]; 2 * BATCH].into_boxed_slice();
        let mut incoming_vectors: Box<[libc::iovec]> = received
            .iter_mut()
            .map(|buffer| libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: BUFFER })
            .collect();
        let mut outgoing_vectors =
            vec![libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; 2 * BATCH].into_boxed_slice();
        let incoming = headers(&mut senders, &mut incoming_vectors);
        let outgoing = headers(&mut receivers, &mut outgoing_vectors);
        Batch {
            received,
            copies,
            senders,
            receivers,
            _incoming_vectors: incoming_vectors,
            outgoing_vectors,
            incoming,
            outgoing,
            queued: 0,
            copied: 0,
            alone: 0,
        }
    }

    /// Waits for the first datagram unless `poll`, takes what else is there without waiting, returns how many.
    /// 0: none, or a signal or a shutdown came in between.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, poll: bool) -> io::Result<usize> {
        debug_assert_eq!(self.queued, 0);
        let count = if self.alone > 0 { self.receive_one(socket, poll) } else { self.receive_many(socket, poll) };
        if count >= 0 {
            self.alone = if count > 1 { 0 } else { self.alone.checked_sub(1).unwrap_or(ALONE) };
            return Ok(count as usize);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {
                self.alone = ALONE;
                Ok(0)
            }
            _ => Err(error),
        }
    }

    fn receive_many(&mut self, socket: BorrowedFd<'_>, poll: bool) -> i32 {
        let flags = if poll { libc::MSG_DONTWAIT } else { libc::MSG_WAITFORONE };
        // SAFETY: `incoming` has BATCH complete headers whose buffers live as long as `self`.
        unsafe { libc::recvmmsg(socket.as_raw_fd(), self.incoming.as_mut_ptr(), BATCH as u32, flags, ptr::null_mut()) }
    }

    /// 1, or -1. A datagram of no bytes (or the end of a socket that was shut down) counts as one: the core drops it.
    fn receive_one(&mut self, socket: BorrowedFd<'_>, poll: bool) -> i32 {
        let flags = if poll { libc::MSG_DONTWAIT } else { 0 };
        let first = &mut self.incoming[0];
        // SAFETY: the header is complete, and its buffer lives as long as `self`.
        let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut first.msg_hdr, flags) };
        first.msg_len = u32::try_from(length).unwrap_or(0);
        if length < 0 { -1 } else { 1 }
    }

    /// The `index`-th received datagram and its sender.
    pub fn datagram(&mut self, index: usize) -> (&mut [u8], SocketAddrV4) {
        let length = self.incoming[index].msg_len as usize;
        let sender = self.senders[index];
        let from =
            SocketAddrV4::new(Ipv4Addr::from_bits(u32::from_be(sender.sin_addr.s_addr)), u16::from_be(sender.sin_port));
        (&mut self.received[index][..length], from)
    }

    /// Queues the first `length` bytes of the `index`-th received datagram, as they are now, for `to`.
    pub fn queue(&mut self, index: usize, length: usize, to: SocketAddrV4) {
        let base = self.received[index].as_mut_ptr();
        self.push(base, length, to);
    }

    /// Queues a second datagram, which `fill` writes from the `index`-th received one and measures; None: there is
    /// none.
    pub fn queue_copy(&mut self, index: usize, to: SocketAddrV4, fill: impl FnOnce(&[u8], &mut [u8]) -> Option<usize>) {
        let copy = &mut self.copies[self.copied];
        let Some(length) = fill(&self.received[index], copy) else { return };
        self.copied += 1;
        let base = copy.as_mut_ptr();
        self.push(base, length, to);
    }

    fn push(&mut self, base: *mut u8, length: usize, to: SocketAddrV4) {
        self.receivers[self.queued] = address(to);
        self.outgoing_vectors[self.queued] = libc::iovec { iov_base: base.cast(), iov_len: length };
        self.queued += 1;
    }

    /// Sends what is queued. A datagram that the kernel refuses does not hold up those behind it.
    pub fn send(&mut self, socket: BorrowedFd<'_>) -> Sent {
        let mut result = Sent::default();
        let mut next = 0;
        while next < self.queued {
            let rest = &mut self.outgoing[next..self.queued];
            let descriptor = socket.as_raw_fd();
            // SAFETY: `rest` are complete headers; `push` set their vectors and addresses, whose memory is `self`'s.
            let count = unsafe {
                match rest {
                    [one] => i32::from(libc::sendmsg(descriptor, &raw const one.msg_hdr, 0) >= 0),
                    _ => libc::sendmmsg(descriptor, rest.as_mut_ptr(), rest.len() as u32, 0),
                }
            };
            if count > 0 {
                result.sent += count as usize;
                next += count as usize;
            } else if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                result.failed += 1;
                next += 1;
            }
        }
        self.queued = 0;
        self.copied = 0;
        result
    }
}

fn headers(names: &mut [libc::sockaddr_in], vectors: &mut [libc::iovec]) -> Box<[libc::mmsghdr]> {
    names
        .iter_mut()
        .zip(vectors)
        .map(|(name, vector)| {
            // SAFETY: a header of zeros is a valid one: no name, no vectors, no control data.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_name = ptr::from_mut(name).cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header
        })
        .collect()
}

fn address(of: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: of.port().to_be(),
        sin_addr: libc::in_addr { s_addr: of.ip().to_bits().to_be() },
        sin_zero: [0; 8],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    fn ipv4(socket: &UdpSocket) -> SocketAddrV4 {
        match socket.local_addr().unwrap() {
            std::net::SocketAddr::V4(address) => address,
            std::net::SocketAddr::V6(_) => unreachable!("bound to IPv4"),
        }
    }

    #[test]
    fn answers_in_place_and_sends_a_copy_elsewhere() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (asker, agent) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        for text in [&b"one"[..], b"two", b"three"] {
            asker.send_to(text, ipv4(&server)).unwrap();
        }
        let mut batch = Batch::new();
        assert_eq!(batch.receive(server.as_fd(), false).unwrap(), 3);
        for index in 0..3 {
            let (bytes, from) = batch.datagram(index);
            assert_eq!(from, ipv4(&asker));
            bytes[0] = b'T';
            let length = bytes.len();
            batch.queue(index, length, from);
        }
        batch.queue_copy(2, ipv4(&agent), |from, to| {
            to[..5].copy_from_slice(&from[..5]);
            to[0] = b'C';
            Some(5)
        });
        assert_eq!(batch.send(server.as_fd()), Sent { sent: 4, failed: 0 });

        let mut bytes = [0; 16];
        for text in [&b"Tne"[..], b"Two", b"Three"] {
            let length = asker.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..length], text);
        }
        let length = agent.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..length], b"Chree");
        assert_eq!(batch.receive(server.as_fd(), true).unwrap(), 0, "polling an empty socket returns at once");
    }

    #[test]
    fn a_refused_datagram_does_not_hold_up_the_next() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let asker = UdpSocket::bind("127.0.0.1:0").unwrap();
        asker.send_to(b"a", ipv4(&server)).unwrap();
        asker.send_to(b"b", ipv4(&server)).unwrap();
        let mut batch = Batch::new();
        assert_eq!(batch.receive(server.as_fd(), false).unwrap(), 2);
        // A broadcast address without SO_BROADCAST is refused with EACCES.
        batch.queue(0, 1, SocketAddrV4::new(Ipv4Addr::BROADCAST, 9));
        batch.queue(1, 1, ipv4(&asker));
        assert_eq!(batch.send(server.as_fd()), Sent { sent: 1, failed: 1 });
        let mut bytes = [0; 4];
        assert_eq!(asker.recv(&mut bytes).unwrap(), 1);
        assert_eq!(bytes[0], b'b');
    }

    #[test]
    fn a_datagram_longer_than_any_packet_is_cut() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let asker = UdpSocket::bind("127.0.0.1:0").unwrap();
        asker.send_to(&[7; 9000], ipv4(&server)).unwrap();
        let mut batch = Batch::new();
        assert_eq!(batch.receive(server.as_fd(), false).unwrap(), 1);
        assert_eq!(batch.datagram(0).0.len(), BUFFER);
    }
}
