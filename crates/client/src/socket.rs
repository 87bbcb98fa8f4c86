//! Sockets to the switch, and what their readers sleep on.
//!
//! Packets go by system calls of our own: glibc's are cancellation points, which costs each of them two locked
//! instructions in a process of several threads, a twentieth of what the system call takes.

use crate::transport::PortReport;
use crate::xsk::{Flow, Reach};
use parking_lot::Mutex;
use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
#[cfg(feature = "tokio")]
use std::os::fd::BorrowedFd;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;
use wayside_udp::{Arrival, Arrivals};

/// Longest packet and one byte more: a longer datagram arrives cut off at this length, which no kind has.
pub(crate) const RECEIVE_BYTES: usize = wayside_wire::limits::MAX_PACKET_BYTES + 1;

/// Packets to a system call.
const BATCH: usize = 32;
const _: () = assert!(BATCH <= wayside_udp::TRAIN_MOST);

/// Packets, or trains of them, that are received by one call.
pub(crate) const AT_ONCE: usize = 16;

/// Packets that are sent as one: no fewer, for that costs a little by itself.
const TRAIN_LEAST: usize = 3;

/// A UDP socket connected to the switch, never blocking, and an AF_XDP socket besides where a session's threads have
/// that. Any number of threads may use it at once.
pub(crate) struct Socket {
    udp: UdpSocket,
    number: AtomicU16,
    /// The kernel does not take several packets for one.
    has_no_trains: AtomicBool,
    /// Where many packets come at a time: room for them.
    arrivals: Option<Mutex<Arrivals>>,
    flow: Option<Flow>,
}

impl Socket {
    pub(crate) fn open(switch: SocketAddrV4, reach: Option<&Arc<Reach>>) -> io::Result<Socket> {
        let udp = connected(switch)?;
        let own = own_address(&udp)?;
        let flow = reach.map(|reach| Flow::open(reach, own, switch));
        let (number, has_no_trains) = (AtomicU16::new(own.port()), AtomicBool::new(false));
        Ok(Socket { udp, number, has_no_trains, arrivals: None, flow })
    }

    /// For many packets at a time: there is room for them, and what the kernel can, it gives as one.
    pub(crate) fn for_many(self) -> Socket {
        expect_many(&self.udp);
        Socket { arrivals: Some(Mutex::new(Arrivals::new(AT_ONCE))), ..self }
    }

    /// Connects to where the switch is now, from a new local port, so that nothing meant for the session before
    /// arrives. The descriptor stays; a poll under way goes on with the old socket until it is woken.
    pub(crate) fn reopen(&self, switch: SocketAddrV4) -> io::Result<()> {
        let fresh = connected(switch)?;
        if self.arrivals.is_some() {
            expect_many(&fresh);
        }
        // SAFETY: both descriptors are open and owned here; dup3 replaces ours in one step.
        if unsafe { libc::dup3(fresh.as_raw_fd(), self.udp.as_raw_fd(), libc::O_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let own = own_address(&fresh)?;
        self.number.store(own.port(), Ordering::Release);
        if let Some(flow) = &self.flow {
            flow.reopen(own, switch);
        }
        Ok(())
    }

    /// Connects to another switch from the same local port: answers to what went to the former one are lost. A poll
    /// under way sees it at once.
    pub(crate) fn redirect(&self, switch: SocketAddrV4) -> io::Result<()> {
        self.udp.connect(switch)?;
        if let Some(flow) = &self.flow {
            flow.reopen(own_address(&self.udp)?, switch);
        }
        Ok(())
    }

    /// Binds the AF_XDP socket if it is wanted and can be had by now. For the thread that waits here, and no other.
    pub(crate) fn settle(&self) {
        if let Some(flow) = &self.flow {
            flow.settle();
        }
    }

    /// Its local UDP port.
    pub(crate) fn number(&self) -> u16 {
        self.number.load(Ordering::Acquire)
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.udp.as_raw_fd()
    }

    /// For whoever has it watched, and not read.
    #[cfg(feature = "tokio")]
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.udp.as_fd()
    }

    /// What [`poll`] is to wait for besides [`Socket::descriptor`]; negative where there is nothing.
    pub(crate) fn second_descriptor(&self) -> RawFd {
        self.flow.as_ref().map_or(-1, Flow::descriptor)
    }

    /// Whether something is there already. Asks nobody, so False says nothing.
    pub(crate) fn has_arrivals(&self) -> bool {
        self.flow.as_ref().is_some_and(Flow::has_arrivals)
    }

    /// None: by UDP, as asked for.
    pub(crate) fn report(&self) -> Option<PortReport> {
        self.flow.as_ref().map(Flow::report)
    }

    /// Sends, or loses the packet as the network might: the protocol sends it again. An error that an earlier
    /// packet met is reported to the next one, so the first error means nothing.
    #[inline]
    pub(crate) fn send(&self, packet: &[u8]) {
        if let Some(flow) = &self.flow {
            flow.send(std::iter::once(packet), |packet| self.send_by_udp(packet));
        } else {
            self.send_by_udp(packet);
        }
    }

    /// Sends several, by as few system calls as there can be.
    pub(crate) fn send_all<'p>(&self, mut packets: impl Iterator<Item = &'p [u8]> + Clone) {
        if let Some(flow) = &self.flow {
            return flow.send(packets, |packet| self.send_by_udp(packet));
        }
        loop {
            let mut batch = [&[][..]; BATCH];
            let count = batch.iter_mut().zip(&mut packets).map(|(place, packet)| *place = packet).count();
            match count {
                0 => return,
                1 => self.send_by_udp(batch[0]),
                _ => self.send_batch_by_udp(&batch[..count]),
            }
        }
    }

    /// Sends to another switch than that which the socket is connected to: what that one answers comes in where
    /// strangers are heard (`ears.rs`). Lost where it cannot be sent.
    pub(crate) fn send_to(&self, packet: &[u8], to: SocketAddrV4) {
        let _ = self.udp.send_to(packet, to);
    }

    #[inline]
    fn send_by_udp(&self, packet: &[u8]) {
        send(self.descriptor(), packet);
    }

    fn send_batch_by_udp(&self, packets: &[&[u8]]) {
        for alike in packets.chunk_by(|one, next| one.len() == next.len()) {
            if !self.send_train(alike) {
                self.send_each(alike);
            }
        }
    }

    /// False: nothing is sent. It can't be, or a packet before met an error.
    fn send_train(&self, packets: &[&[u8]]) -> bool {
        if packets.len() < TRAIN_LEAST || self.has_no_trains.load(Ordering::Relaxed) {
            return false;
        }
        let sent = wayside_udp::send_train(self.udp.as_fd(), packets);
        let refuses =
            |error: &io::Error| self.has_no_trains.store(wayside_udp::refuses_trains(error), Ordering::Relaxed);
        sent.inspect_err(refuses).is_ok()
    }

    fn send_each(&self, packets: &[&[u8]]) {
        // SAFETY: integers and pointers, of which none is looked at where it is null.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
        for ((message, vector), packet) in messages.iter_mut().zip(&mut vectors).zip(packets) {
            *vector = libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
            (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (vector, 1);
        }
        let mut rest = &mut messages[..packets.len()];
        while !rest.is_empty() {
            let (fd, count) = (self.descriptor(), rest.len() as libc::c_uint);
            // SAFETY: so many messages, each of one part, which is read and not written and outlives the call.
            let sent = unsafe { libc::sendmmsg(fd, rest.as_mut_ptr(), count, libc::MSG_NOSIGNAL) };
            match usize::try_from(sent) {
                Ok(sent) if sent > 0 => rest = &mut rest[sent..],
                _ => {
                    // The first of them met an error, perhaps another's: on its own it is tried again.
                    self.send_by_udp(packets[packets.len() - rest.len()]);
                    rest = &mut rest[1..];
                }
            }
        }
    }

    /// The next packet, if there is one.
    pub(crate) fn receive<'b>(&self, buffer: &'b mut Buffer) -> Received<'b> {
        if let Some(flow) = &self.flow
            && let Some(bytes) = flow.receive(buffer)
        {
            return Received::Packet(buffer.filled(bytes));
        }
        self.receive_by_udp(buffer)
    }

    /// The next packets, by one system call where that can be, for `work`, if there are any. Whether these were all; an
    /// error: something before them has met it. While somebody is at it already there may be more: that may be the
    /// caller itself, called by what was read.
    pub(crate) fn receive_some(&self, work: impl FnOnce(&mut dyn Iterator<Item = &[u8]>)) -> io::Result<bool> {
        let Some(arrivals) = &self.arrivals else { return self.receive_each(work) };
        let Some(mut arrivals) = arrivals.try_lock() else { return Ok(false) };
        match arrivals.receive(self.udp.as_fd(), AT_ONCE, libc::MSG_DONTWAIT) {
            Ok(count) => {
                let packets = |index| {
                    let Arrival { bytes, length, .. } = arrivals.get(index);
                    bytes.chunks(length.max(1))
                };
                work(&mut (0..count).flat_map(packets));
                Ok(count < AT_ONCE)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn receive_each(&self, work: impl FnOnce(&mut dyn Iterator<Item = &[u8]>)) -> io::Result<bool> {
        let mut buffers = [const { Buffer::new() }; AT_ONCE];
        let mut packets = [&[][..]; AT_ONCE];
        let (mut count, mut ended) = (0, Ok(false));
        for (buffer, packet) in buffers.iter_mut().zip(&mut packets) {
            match self.receive(buffer) {
                Received::Packet(received) => *packet = received,
                Received::Nothing => ended = Ok(true),
                Received::Error(error) => ended = Err(error),
            }
            if !matches!(ended, Ok(false)) {
                break;
            }
            count += 1;
        }
        if count > 0 {
            work(&mut packets[..count].iter().copied());
        }
        ended
    }

    /// As [`Socket::receive`], for who looks again and again: where there are two sockets, mostly only at the one that
    /// takes no system call.
    pub(crate) fn glance<'b>(&self, buffer: &'b mut Buffer) -> Received<'b> {
        if let Some(flow) = &self.flow {
            if let Some(bytes) = flow.receive(buffer) {
                return Received::Packet(buffer.filled(bytes));
            }
            if flow.spares_udp() {
                std::hint::spin_loop();
                return Received::Nothing;
            }
        }
        self.receive_by_udp(buffer)
    }

    #[inline]
    fn receive_by_udp<'b>(&self, buffer: &'b mut Buffer) -> Received<'b> {
        debug_assert!(self.arrivals.is_none(), "a train would be cut");
        match buffer.receive(self.descriptor()) {
            Ok(packet) => {
                if let Some(flow) = &self.flow {
                    flow.count_stray();
                }
                Received::Packet(packet)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Received::Nothing,
            Err(error) => Received::Error(error),
        }
    }
}

/// Room for a packet. Not zeroed: that would be a third of what waiting for an answer costs.
pub(crate) struct Buffer([MaybeUninit<u8>; RECEIVE_BYTES]);

impl Buffer {
    #[inline]
    pub(crate) const fn new() -> Buffer {
        Buffer([MaybeUninit::uninit(); RECEIVE_BYTES])
    }

    /// Its first bytes, which were written last.
    #[inline]
    pub(crate) fn filled(&self, bytes: usize) -> &[u8] {
        let filled = &self.0[..bytes];
        // SAFETY: whoever tells a length has written so many bytes: the kernel in `receive`s of all kinds,
        // `Flow::receive` by `fill`.
        unsafe { std::slice::from_raw_parts(filled.as_ptr().cast(), filled.len()) }
    }

    /// The next datagram of a connected socket; an error of kind `WouldBlock`: there is none.
    #[inline]
    pub(crate) fn receive(&mut self, socket: RawFd) -> io::Result<&[u8]> {
        let no_address = (std::ptr::null::<libc::sockaddr>(), std::ptr::null::<libc::socklen_t>());
        // SAFETY: as many writable bytes as it is told; no address is asked for.
        let bytes = unsafe {
            let (start, flags) = (self.0.as_mut_ptr(), libc::MSG_DONTWAIT);
            libc::syscall(libc::SYS_recvfrom, socket, start, RECEIVE_BYTES, flags, no_address.0, no_address.1)
        };
        let bytes = usize::try_from(bytes).map_err(|_| io::Error::last_os_error())?;
        Ok(self.filled(bytes))
    }

    /// The next datagram and who sent it, if there is one.
    pub(crate) fn receive_from(&mut self, udp: &UdpSocket) -> Option<(&[u8], SocketAddrV4)> {
        // SAFETY: zeros are an empty address.
        let mut from: libc::sockaddr_in = unsafe { std::mem::zeroed() };
        let mut length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        // SAFETY: as many writable bytes as it is told, of the packet and of the address.
        let bytes = unsafe {
            let (fd, start, flags) = (udp.as_raw_fd(), self.0.as_mut_ptr(), libc::MSG_DONTWAIT);
            libc::syscall(libc::SYS_recvfrom, fd, start, RECEIVE_BYTES, flags, &raw mut from, &raw mut length)
        };
        let bytes = usize::try_from(bytes).ok()?;
        let from = SocketAddrV4::new(u32::from_be(from.sin_addr.s_addr).into(), u16::from_be(from.sin_port));
        Some((self.filled(bytes), from))
    }

    /// Copies a packet into it, for AF_XDP: cut off where it ends. Its length there.
    #[inline]
    #[cfg(feature = "afxdp")]
    pub(crate) fn fill(&mut self, packet: &[u8]) -> usize {
        let length = packet.len().min(RECEIVE_BYTES);
        self.0[..length].write_copy_of_slice(&packet[..length]);
        length
    }
}

/// Sends by a connected socket, or loses the packet. An error that an earlier one met is told to this one: once more.
#[inline]
pub(crate) fn send(socket: RawFd, packet: &[u8]) {
    let send = || {
        let no_address = (std::ptr::null::<libc::sockaddr>(), 0usize);
        // SAFETY: as many readable bytes as it is told; no address.
        unsafe {
            let (start, flags) = (packet.as_ptr(), libc::MSG_NOSIGNAL);
            libc::syscall(libc::SYS_sendto, socket, start, packet.len(), flags, no_address.0, no_address.1)
        }
    };
    if send() < 0 {
        send();
    }
}

/// What a look into a socket brought.
pub(crate) enum Received<'b> {
    Packet(&'b [u8]),
    Nothing,
    /// Mostly: nobody listens at the switch's port. There may be more to read.
    Error(io::Error),
}

fn connected(switch: SocketAddrV4) -> io::Result<UdpSocket> {
    let udp = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    udp.connect(switch)?;
    udp.set_nonblocking(true)?;
    Ok(udp)
}

fn expect_many(udp: &UdpSocket) {
    wayside_udp::make_room(udp.as_fd());
    // An older kernel gives them one by one.
    let _ = wayside_udp::take_trains(udp.as_fd());
}

fn own_address(udp: &UdpSocket) -> io::Result<SocketAddrV4> {
    match udp.local_addr()? {
        SocketAddr::V4(address) => Ok(address),
        SocketAddr::V6(_) => unreachable!("bound to IPv4"),
    }
}

/// A TCP connection that is being made: it has a peer's address once it is.
pub(crate) fn start_connecting(to: SocketAddrV4) -> io::Result<TcpStream> {
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: to.port().to_be(),
        sin_addr: libc::in_addr { s_addr: to.ip().to_bits().to_be() },
        sin_zero: [0; 8],
    };
    // SAFETY: the new descriptor is owned by the stream alone; the address outlives the call and has that length.
    unsafe {
        let descriptor = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        let stream = TcpStream::from(OwnedFd::from_raw_fd(descriptor));
        let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        let begun = libc::connect(descriptor, (&raw const address).cast(), length);
        let error = io::Error::last_os_error();
        if begun < 0 && error.raw_os_error() != Some(libc::EINPROGRESS) { Err(error) } else { Ok(stream) }
    }
}

/// Wakes a thread that sleeps in [`poll`]: an eventfd.
pub(crate) struct Alarm(OwnedFd);

impl Alarm {
    pub(crate) fn new() -> io::Result<Alarm> {
        // SAFETY: no pointers; the descriptor that comes back is owned by nobody else.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(Alarm(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    pub(crate) fn ring(&self) {
        let one = 1u64;
        // SAFETY: eight readable bytes. It fails only if the count is at its maximum, and then it rings anyway.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    pub(crate) fn silence(&self) {
        let mut count = 0u64;
        // SAFETY: eight writable bytes. It fails if it does not ring, which is what is wanted.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Sleeps until one of `descriptors` can be read, or `most` has passed. Negative descriptors are skipped. Says which.
pub(crate) fn poll<const N: usize>(descriptors: [RawFd; N], most: Duration) -> [bool; N] {
    let mut set = descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let most = libc::timespec {
        tv_sec: most.as_secs().min(LONGEST_SLEEP) as libc::time_t,
        tv_nsec: most.subsec_nanos().into(),
    };
    // SAFETY: `set` has N elements and outlives the call, as `most` does; no signal mask.
    let ready = unsafe { libc::ppoll(set.as_mut_ptr(), N as libc::nfds_t, &most, std::ptr::null()) };
    if ready <= 0 {
        return [false; N];
    }
    set.map(|entry| entry.revents != 0)
}

/// A sleeper looks up at least so often (seconds), if only to keep `timespec` within its range.
const LONGEST_SLEEP: u64 = 3_600;

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> (UdpSocket, SocketAddrV4) {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let std::net::SocketAddr::V4(address) = udp.local_addr().unwrap() else { panic!("bound to IPv4") };
        (udp, address)
    }

    #[test]
    fn a_reopened_socket_speaks_to_the_new_switch_from_a_new_port() {
        let (_, first) = peer();
        let (second, address) = peer();
        let socket = Socket::open(first, None).unwrap();
        let number = socket.number();
        socket.reopen(address).unwrap();
        assert_ne!(socket.number(), number);
        socket.send(b"x");
        let (_, from) = second.recv_from(&mut [0; 8]).unwrap();
        assert_eq!(from.port(), socket.number());
    }

    #[test]
    fn several_packets_leave_in_their_order_whatever_an_earlier_one_met() {
        let (udp, address) = peer();
        let socket = Socket::open(address, None).unwrap();
        drop(udp);
        socket.send(b"lost");
        let udp = UdpSocket::bind(address).unwrap();
        let packets: Vec<[u8; 2]> = (0..2 * BATCH as u16 + 1).map(u16::to_be_bytes).collect();
        socket.send_all(packets.iter().map(<[u8; 2]>::as_slice));
        let received = packets.iter().map(|_| {
            let mut packet = [0; 2];
            udp.recv(&mut packet).unwrap();
            packet
        });
        assert!(received.eq(packets.iter().copied()));
    }

    #[test]
    fn packets_of_any_lengths_leave_together_in_their_order() {
        let (udp, address) = peer();
        let socket = Socket::open(address, None).unwrap();
        // Trains, packets that are alone, and an empty one.
        let lengths = [8, 8, 8, 8, 9, 8, 8, 1_040, 1_040, 1_040, 0, 8, 8, 8, 7, 7];
        let packets: Vec<Vec<u8>> = (0u8..).zip(lengths).map(|(number, length)| vec![number; length]).collect();
        for has_no_trains in [false, true] {
            socket.has_no_trains.store(has_no_trains, Ordering::Relaxed);
            socket.send_all(packets.iter().map(Vec::as_slice));
            for packet in &packets {
                let mut bytes = [0; RECEIVE_BYTES];
                let length = udp.recv(&mut bytes).unwrap();
                assert_eq!(&bytes[..length], packet);
            }
            assert_eq!(socket.has_no_trains.load(Ordering::Relaxed), has_no_trains);
        }
    }

    #[test]
    fn packets_are_received_by_the_handful() {
        let (udp, address) = peer();
        let sockets = [Socket::open(address, None).unwrap(), Socket::open(address, None).unwrap().for_many()];
        for (round, socket) in [(0, &sockets[0]), (1, &sockets[1]), (2, &sockets[1])] {
            if round == 2 {
                socket.reopen(address).unwrap();
            }
            udp.connect((Ipv4Addr::LOCALHOST, socket.number())).unwrap();
            let total = AT_ONCE as u8 + 2;
            (0..total).for_each(|number| assert!(udp.send(&vec![number; usize::from(number) + 1]).is_ok()));
            wayside_udp::send_train(udp.as_fd(), &[b"one", b"two", b"odd"]).unwrap();
            let mut received = Vec::new();
            let mut ends = Vec::new();
            while ends.last() != Some(&true) {
                let work = |packets: &mut dyn Iterator<Item = &[u8]>| received.extend(packets.map(<[u8]>::to_vec));
                ends.push(socket.receive_some(work).unwrap());
            }
            let expected = (0..total).map(|number| vec![number; usize::from(number) + 1]);
            assert!(received[..usize::from(total)].iter().cloned().eq(expected));
            assert_eq!(received[usize::from(total)..], [b"one", b"two", b"odd"]);
            assert_eq!(ends, [false, true], "round {round}");
        }
    }

    /// What is read may end a session, which reads what is left.
    #[test]
    fn who_reads_while_reading_is_not_kept_waiting() {
        let (udp, address) = peer();
        let socket = Socket::open(address, None).unwrap().for_many();
        udp.send_to(b"one", (Ipv4Addr::LOCALHOST, socket.number())).unwrap();
        let mut count = 0;
        let all = socket.receive_some(|packets| {
            assert!(!socket.receive_some(|_| panic!("it has been read")).unwrap());
            count += packets.count();
        });
        assert_eq!((all.unwrap(), count), (true, 1));
    }

    #[test]
    fn a_rung_alarm_ends_a_sleep_once() {
        let alarm = Alarm::new().unwrap();
        alarm.ring();
        assert_eq!(poll([alarm.descriptor(), -1], Duration::from_secs(60)), [true, false]);
        alarm.silence();
        assert_eq!(poll([alarm.descriptor()], Duration::ZERO), [false]);
    }

    #[test]
    fn an_error_of_an_earlier_packet_does_not_cost_the_next_one() {
        let (udp, address) = peer();
        let socket = Socket::open(address, None).unwrap();
        drop(udp);
        socket.send(b"lost");
        let udp = UdpSocket::bind(address).unwrap();
        socket.send(b"kept");
        let mut buffer = [0; 8];
        let bytes = udp.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..bytes], b"kept");
    }
}
