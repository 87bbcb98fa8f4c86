//! Datagrams in batches: the buffers of one worker thread and the two system calls that move them.
//!
//! Invariants
//! * Every buffer, address and header is allocated in `Batch::new` and never moves: headers point to them.
//! * What the kernel gives as one (`wayside_udp`) is taken apart before anybody sees it; what is left of it when the
//!   datagrams are as many as a batch has comes first the next time.
//! * A received datagram is answered in its own buffer; only second copies have buffers of their own.
//! * `outgoing` is made of what is queued when it is sent; `send` leaves nothing queued.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use wayside_udp::{Arrival, Arrivals, Control, TRAIN_MOST};

/// Datagrams that are decided on before any is answered. At 64 what a system call costs by itself (about 200 ns) is
/// 3 ns a packet; a burst of 64 is 128 KiB of buffers, which an L2 cache holds.
pub const BATCH: usize = 64;

/// After a batch of one (or none) so many datagrams are received singly: recvmsg and sendmsg cost 150 ns less each than
/// a batch of one. Then a batch is tried again, so that a backlog waits for 16 datagrams at most before it is batched.
const ALONE: u32 = 16;

/// What one call receives: datagrams, or trains of them.
const ARRIVALS: usize = 16;

/// Bytes of a train that is sent, at most: UDP's limit.
const TRAIN_SENT: usize = 65_507;

/// A datagram longer than this is cut to it, a length that no kind of packet has: the core drops it as `bad_length`.
const BUFFER: usize = 2048;

type Buffer = [u8; BUFFER];

/// One worker's receive and send queues.
pub struct Batch {
    arrivals: Arrivals,
    /// Arrivals that are there, and where what has not been taken apart yet begins: which one, and at which byte.
    arrived: usize,
    next: (usize, usize),

    received: Box<[Buffer]>,
    lengths: Box<[usize]>,
    senders: Box<[SocketAddrV4]>,

    copies: Box<[Buffer]>,
    receivers: Box<[libc::sockaddr_in]>,
    outgoing_vectors: Box<[libc::iovec]>,
    outgoing_controls: Box<[Control]>,
    outgoing: Box<[libc::mmsghdr]>,
    queued: usize,
    copied: usize,
    /// The kernel does not take several datagrams as one.
    has_no_trains: bool,
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
        let nobody = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        // Every received datagram may go out as two.
        let mut receivers = vec![address(nobody); 2 * BATCH].into_boxed_slice();
        let mut outgoing_vectors =
            vec![libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; 2 * BATCH].into_boxed_slice();
        let outgoing = headers(&mut receivers, &mut outgoing_vectors);
        Batch {
            arrivals: Arrivals::new(ARRIVALS),
            arrived: 0,
            next: (0, 0),
            received: vec![[0; BUFFER]; BATCH].into_boxed_slice(),
            lengths: vec![0; BATCH].into_boxed_slice(),
            senders: vec![nobody; BATCH].into_boxed_slice(),
            copies: vec![[0; BUFFER]; BATCH].into_boxed_slice(),
            receivers,
            outgoing_vectors,
            outgoing_controls: vec![Control::default(); 2 * BATCH].into_boxed_slice(),
            outgoing,
            queued: 0,
            copied: 0,
            has_no_trains: false,
            alone: 0,
        }
    }

    /// Waits for the first datagram unless `poll`, takes what else is there without waiting, returns how many.
    /// 0: none, or a signal or a shutdown came in between.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, poll: bool) -> io::Result<usize> {
        debug_assert_eq!(self.queued, 0);
        if self.next.0 < self.arrived {
            return Ok(self.take_apart());
        }
        // Alone it is worth a call of its own, which takes less.
        let (most, waiting) = if self.alone > 0 { (1, 0) } else { (ARRIVALS, libc::MSG_WAITFORONE) };
        match self.arrivals.receive(socket, most, if poll { libc::MSG_DONTWAIT } else { waiting }) {
            Ok(count) => {
                (self.arrived, self.next) = (count, (0, 0));
                let count = self.take_apart();
                self.alone = if count > 1 { 0 } else { self.alone.checked_sub(1).unwrap_or(ALONE) };
                Ok(count)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                self.alone = ALONE;
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes datagrams of what has arrived, as many as there is room for, and says how many.
    fn take_apart(&mut self) -> usize {
        let mut count = 0;
        while self.next.0 < self.arrived && count < BATCH {
            let (origin, from) = self.next;
            let Arrival { bytes, length, from: sender } = self.arrivals.get(origin);
            let packet = &bytes[from..bytes.len().min(from + length)];
            let kept = packet.len().min(BUFFER);
            self.received[count][..kept].copy_from_slice(&packet[..kept]);
            (self.lengths[count], self.senders[count]) = (kept, sender);
            let end = from + packet.len();
            self.next = if end < bytes.len() { (origin, end) } else { (origin + 1, 0) };
            count += 1;
        }
        count
    }

    /// The `index`-th received datagram and its sender.
    pub fn datagram(&mut self, index: usize) -> (&mut [u8], SocketAddrV4) {
        (&mut self.received[index][..self.lengths[index]], self.senders[index])
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

    /// Makes headers of what is queued from `first` on, one for each train: datagrams in a row for one address, of one
    /// length. Says how many headers.
    fn couple(&mut self, first: usize) -> usize {
        let (mut from, mut count) = (first, 0);
        while from < self.queued {
            let (to, length) = (self.receivers[from], self.outgoing_vectors[from].iov_len);
            let is_alike = |at: &usize| {
                let receiver = &self.receivers[*at];
                (receiver.sin_addr.s_addr, receiver.sin_port) == (to.sin_addr.s_addr, to.sin_port)
                    && self.outgoing_vectors[*at].iov_len == length
            };
            let most = if self.has_no_trains { 1 } else { TRAIN_MOST.min(TRAIN_SENT / length.max(1)) };
            let datagrams = (from..self.queued).take(most.max(1)).take_while(is_alike).count();
            let header = &mut self.outgoing[count].msg_hdr;
            header.msg_name = ptr::from_mut(&mut self.receivers[from]).cast();
            (header.msg_iov, header.msg_iovlen) = (&raw mut self.outgoing_vectors[from], datagrams);
            match datagrams {
                1 => wayside_udp::alone(header),
                _ => self.outgoing_controls[count].make_train(header, length as u16),
            }
            (from, count) = (from + datagrams, count + 1);
        }
        count
    }

    fn push(&mut self, base: *mut u8, length: usize, to: SocketAddrV4) {
        self.receivers[self.queued] = address(to);
        self.outgoing_vectors[self.queued] = libc::iovec { iov_base: base.cast(), iov_len: length };
        self.queued += 1;
    }

    /// Sends what is queued. A datagram that the kernel refuses does not hold up those behind it.
    pub fn send(&mut self, socket: BorrowedFd<'_>) -> Sent {
        let mut result = Sent::default();
        let mut count = self.couple(0);
        let mut next = 0;
        while next < count {
            let rest = &mut self.outgoing[next..count];
            let descriptor = socket.as_raw_fd();
            // SAFETY: `rest` are complete headers; `push` set their vectors and addresses, whose memory is `self`'s.
            let sent = unsafe {
                match rest {
                    [one] => i32::from(libc::sendmsg(descriptor, &raw const one.msg_hdr, 0) >= 0),
                    _ => libc::sendmmsg(descriptor, rest.as_mut_ptr(), rest.len() as u32, 0),
                }
            };
            if sent > 0 {
                result.sent += datagrams(&rest[..sent as usize]);
                next += sent as usize;
                continue;
            }
            let (error, refused) = (io::Error::last_os_error(), datagrams(&rest[..1]));
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            if refused > 1 && wayside_udp::refuses_trains(&error) {
                self.has_no_trains = true;
                (count, next) = (self.couple(result.sent + result.failed), 0);
            } else {
                result.failed += refused;
                next += 1;
            }
        }
        self.queued = 0;
        self.copied = 0;
        result
    }
}

/// How many datagrams these headers send.
fn datagrams(headers: &[libc::mmsghdr]) -> usize {
    headers.iter().map(|header| header.msg_hdr.msg_iovlen).sum()
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

    /// What a batch has no room for comes first the next time; what has another length or sender is none of a train.
    #[test]
    fn trains_are_taken_apart_and_answered_by_trains() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        wayside_udp::take_trains(server.as_fd()).unwrap();
        let askers = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        for asker in &askers {
            asker.connect(ipv4(&server)).unwrap();
            let packets: Vec<[u8; 2]> = (0..BATCH as u8).map(|number| [number, 1]).collect();
            let packets: Vec<&[u8]> = packets.iter().map(<[u8; 2]>::as_slice).collect();
            wayside_udp::send_train(asker.as_fd(), &packets[..BATCH / 2]).unwrap();
            asker.send(b"odd").unwrap();
            wayside_udp::send_train(asker.as_fd(), &packets[BATCH / 2..]).unwrap();
        }
        for has_no_trains in [false, true] {
            let mut batch = Batch { has_no_trains, ..Batch::new() };
            let mut total = 0;
            while total < 2 * (BATCH + 1) {
                let count = batch.receive(server.as_fd(), true).unwrap();
                // The second time they come one by one.
                let least = if has_no_trains { 1 } else { BATCH.min(2 * (BATCH + 1) - total) };
                assert!((least..=BATCH).contains(&count), "{count} of a backlog");
                for index in 0..count {
                    let (bytes, from) = batch.datagram(index);
                    let length = bytes.len();
                    batch.queue(index, length, from);
                }
                assert_eq!(batch.send(server.as_fd()), Sent { sent: count, failed: 0 });
                total += count;
            }
            for asker in &askers {
                let mut bytes = [0; 16];
                for number in 0..BATCH as u8 {
                    if number == BATCH as u8 / 2 {
                        assert_eq!((asker.recv(&mut bytes).unwrap(), &bytes[..3]), (3, &b"odd"[..]));
                    }
                    let length = asker.recv(&mut bytes).unwrap();
                    assert_eq!(bytes[..length], [number, 1]);
                    // The same once more.
                    asker.send(&bytes[..length]).unwrap();
                    if number + 1 == BATCH as u8 / 2 {
                        asker.send(b"odd").unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn where_no_train_leaves_datagrams_do() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let asker = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (yes, length): (libc::c_int, _) = (1, size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: as many readable bytes as it is told.
        unsafe {
            libc::setsockopt(server.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, (&raw const yes).cast(), length)
        };
        let mut batch = Batch::new();
        for text in [&b"long"[..], b"one", b"two", b"three"] {
            asker.send_to(text, ipv4(&server)).unwrap();
        }
        assert_eq!(batch.receive(server.as_fd(), false).unwrap(), 4);
        for index in 0..4 {
            let (bytes, from) = batch.datagram(index);
            let length = bytes.len();
            batch.queue(index, length, from);
        }
        assert_eq!(batch.send(server.as_fd()), Sent { sent: 4, failed: 0 });
        for text in [&b"long"[..], b"one", b"two", b"three"] {
            let mut bytes = [0; 16];
            let length = asker.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..length], text);
        }
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
