//! Trains: packets of one length for one address, which the kernel is given, or gives, as one. It takes them apart, or
//! puts them together, after most of what a packet costs it: sockets, routes, queues.
//!
//! Sending takes Linux 4.18 (UDP_SEGMENT), receiving 5.0 (UDP_GRO); without it packets come one by one.

mod arrivals;

pub use arrivals::{Arrival, Arrivals};

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Packets of a train that is sent, at most: what every kernel takes.
pub const TRAIN_MOST: usize = 64;

/// The longest train, of which a receiver has to take all.
pub const TRAIN_BYTES: usize = 65_535;

// SAFETY: arithmetic.
const BYTES: usize = unsafe { libc::CMSG_SPACE(size_of::<libc::c_int>() as u32) } as usize;

/// Room for the control message that says how long a train's packets are, aligned as the kernel wants it.
#[repr(align(8))]
#[derive(Clone, Copy)]
pub struct Control([u8; BYTES]);

impl Default for Control {
    fn default() -> Control {
        Control([0; BYTES])
    }
}

impl Control {
    /// Says that what `message` is about to send is a train of packets of this length. The message refers to the
    /// control message from then on, until [`alone`].
    pub fn make_train(&mut self, message: &mut libc::msghdr, length: u16) {
        // SAFETY: as much as it is told, aligned: room for the head and what follows.
        unsafe {
            (message.msg_control, message.msg_controllen) =
                (self.0.as_mut_ptr().cast(), libc::CMSG_SPACE(size_of::<u16>() as u32) as usize);
            let segment = libc::CMSG_FIRSTHDR(message);
            (*segment).cmsg_level = libc::SOL_UDP;
            (*segment).cmsg_type = libc::UDP_SEGMENT;
            (*segment).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as usize;
            libc::CMSG_DATA(segment).cast::<u16>().write_unaligned(length);
        }
    }

    /// Has the kernel say, once `message` has been received, how long its packets are. To be done before every call,
    /// for the kernel writes there.
    fn ask(&mut self, message: &mut libc::msghdr) {
        (message.msg_control, message.msg_controllen) = (self.0.as_mut_ptr().cast(), BYTES);
    }
}

/// What `message` sends is one packet.
pub fn alone(message: &mut libc::msghdr) {
    (message.msg_control, message.msg_controllen) = (std::ptr::null_mut(), 0);
}

/// The length of all packets but the last, where what was received is a train.
///
/// # Safety
/// The kernel has received `message` after [`Control::ask`], and that control message has not moved since.
unsafe fn length(message: &libc::msghdr) -> Option<usize> {
    // SAFETY: the kernel has written whole control messages, within the room that it was told.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(message);
        while let Some(control) = next.as_ref() {
            if (control.cmsg_level, control.cmsg_type) == (libc::SOL_UDP, libc::UDP_GRO) {
                let length = libc::CMSG_DATA(next).cast::<libc::c_int>().read_unaligned();
                return usize::try_from(length).ok().filter(|length| *length > 0);
            }
            next = libc::CMSG_NXTHDR(message, next);
        }
    }
    None
}

/// Trains come in whole at this socket from now on. Whoever reads there has room for [`TRAIN_BYTES`], and asks for the
/// length of their packets.
///
/// # Errors
/// The kernel is too old: packets come one by one, as ever.
pub fn take_trains(socket: BorrowedFd<'_>) -> io::Result<()> {
    let yes: libc::c_int = 1;
    let (fd, length) = (socket.as_raw_fd(), size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: as many readable bytes as it is told.
    let set = unsafe { libc::setsockopt(fd, libc::SOL_UDP, libc::UDP_GRO, (&raw const yes).cast(), length) };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Room for 2,000 packets at the kernel's accounting of about 2 KiB each (4 KiB behind a veth with an XDP program): a
/// burst of 32 from each of 60 hosts.
pub const ROOM_BYTES: usize = 4 << 20;

/// Makes room for what many send at a time. Without it a socket has room for a few hundred packets, and behind a veth
/// with an XDP program for 52: a burst of more loses the rest.
///
/// A process with CAP_NET_ADMIN may go beyond `net.core.rmem_max`; anybody else gets as much of it as there is.
pub fn make_room(socket: BorrowedFd<'_>) {
    let bytes = ROOM_BYTES as libc::c_int;
    for option in [libc::SO_RCVBUF, libc::SO_RCVBUFFORCE] {
        let (size, length) = (&raw const bytes, size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: the option's value is an int that outlives the call.
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, size.cast(), length) };
    }
}

/// Whether this error says that no train leaves by this socket, whatever is in it: an old kernel, an MTU that is too
/// small for the packet, an interface that leaves checksums to the kernel.
#[must_use]
pub fn refuses_trains(error: &io::Error) -> bool {
    let errors = [libc::EINVAL, libc::EIO, libc::EOPNOTSUPP, libc::ENOPROTOOPT];
    error.raw_os_error().is_some_and(|error| errors.contains(&error))
}

/// Sends packets of one length by a connected socket, as one.
///
/// # Errors
/// Nothing is sent. [`refuses_trains`], or a packet before met an error.
pub fn send_train(socket: BorrowedFd<'_>, packets: &[&[u8]]) -> io::Result<()> {
    assert!(packets.len() <= TRAIN_MOST, "a train has its packets at most");
    debug_assert!(packets.iter().all(|packet| packet.len() == packets[0].len()));
    let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; TRAIN_MOST];
    for (vector, packet) in vectors.iter_mut().zip(packets) {
        *vector = libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
    }
    let mut control = Control::default();
    // SAFETY: integers and pointers, of which none is looked at where it is null.
    let mut message: libc::msghdr = unsafe { zeroed() };
    (message.msg_iov, message.msg_iovlen) = (vectors.as_mut_ptr(), packets.len());
    control.make_train(&mut message, packets.first().map_or(0, |packet| packet.len() as u16));
    // SAFETY: all that the message points to is read and not written, and outlives the call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    fn pair() -> (UdpSocket, UdpSocket) {
        let (one, two) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        one.connect(two.local_addr().unwrap()).unwrap();
        two.connect(one.local_addr().unwrap()).unwrap();
        (one, two)
    }

    /// What one call brings: its bytes, and how long its packets are.
    fn receive(socket: &UdpSocket) -> (Vec<u8>, usize) {
        let mut arrivals = Arrivals::new(1);
        assert_eq!(arrivals.receive(socket.as_fd(), 1, 0).unwrap(), 1);
        let Arrival { bytes, length, .. } = arrivals.get(0);
        (bytes.to_vec(), length)
    }

    #[test]
    fn a_train_comes_apart_where_it_is_not_taken() {
        let (one, two) = pair();
        let packets: Vec<[u8; 3]> = (0..TRAIN_MOST as u8).map(|number| [number; 3]).collect();
        let all: Vec<&[u8]> = packets.iter().map(<[u8; 3]>::as_slice).collect();
        send_train(one.as_fd(), &all).unwrap();
        for packet in packets {
            assert_eq!(receive(&two), (packet.to_vec(), 3));
        }
    }

    #[test]
    fn a_train_comes_whole_where_it_is_taken_and_a_packet_alone() {
        let (one, two) = pair();
        take_trains(two.as_fd()).unwrap();
        send_train(one.as_fd(), &[b"abc", b"def", b"ghi"]).unwrap();
        one.send(b"alone").unwrap();
        assert_eq!(receive(&two), (b"abcdefghi".to_vec(), 3));
        assert_eq!(receive(&two), (b"alone".to_vec(), 5));
    }

    #[test]
    fn an_error_of_a_packet_before_is_none_of_trains() {
        let (one, two) = pair();
        drop(two);
        one.send(b"lost").unwrap();
        let error = send_train(one.as_fd(), &[b"abc", b"def"]).unwrap_err();
        assert!(!refuses_trains(&error), "{error}");
    }

    #[test]
    fn what_can_never_leave_as_a_train_is_told_apart() {
        let (one, _two) = pair();
        let (yes, length): (libc::c_int, _) = (1, size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: as many readable bytes as it is told.
        unsafe {
            libc::setsockopt(one.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, (&raw const yes).cast(), length)
        };
        assert!(refuses_trains(&send_train(one.as_fd(), &[b"abc", b"def"]).unwrap_err()), "none without checksums");
    }
}
