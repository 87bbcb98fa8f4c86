//! Where a port hears of other switches. It is connected to the switch that serves, so that nothing else comes in
//! there. Whoever takes that switch's place announces itself to the agent port, from its own address, and whoever else
//! keeps keys answers to the port that asked: what the connected socket does not take, the kernel gives to this one,
//! which is bound to the same port and not connected.
//!
//! Invariant: the port is the connected socket's own before it is shared. One that the kernel chose for a socket which
//! may share could be another process's of the same user.

use crate::socket::{Buffer, Socket};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
#[cfg(feature = "tokio")]
use std::os::fd::{AsFd, BorrowedFd};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// See the module's documentation.
pub(crate) struct Ears {
    udp: UdpSocket,
    number: AtomicU16,
}

impl Ears {
    /// For packets to the port of this socket that its peer has not sent.
    pub(crate) fn of(socket: &Socket) -> io::Result<Ears> {
        let number = socket.number();
        Ok(Ears { udp: bound_beside(socket, number)?, number: number.into() })
    }

    /// Whether it still has the port of this socket.
    pub(crate) fn is_of(&self, socket: &Socket) -> bool {
        self.number.load(Relaxed) == socket.number()
    }

    /// That socket has another port now. The descriptor stays.
    pub(crate) fn follow(&self, socket: &Socket) -> io::Result<()> {
        let number = socket.number();
        let fresh = bound_beside(socket, number)?;
        // SAFETY: both descriptors are open and owned here; dup3 replaces ours in one step.
        if unsafe { libc::dup3(fresh.as_raw_fd(), self.udp.as_raw_fd(), libc::O_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        self.number.store(number, Relaxed);
        Ok(())
    }

    /// Its local UDP port.
    #[cfg(feature = "tokio")]
    pub(crate) fn number(&self) -> u16 {
        self.number.load(Relaxed)
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.udp.as_raw_fd()
    }

    /// For whoever has it watched, and not read.
    #[cfg(feature = "tokio")]
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.udp.as_fd()
    }

    /// The next packet and who sent it, if there is one.
    pub(crate) fn receive<'b>(&self, buffer: &'b mut Buffer) -> Option<(&'b [u8], SocketAddrV4)> {
        buffer.receive_from(&self.udp)
    }
}

/// A socket that has the port of another one too, and is not connected yet.
pub(crate) fn bound_beside(socket: &Socket, number: u16) -> io::Result<UdpSocket> {
    may_share(socket.descriptor())?;
    // SAFETY: no pointers; the descriptor that comes back is owned by nobody else.
    let udp = unsafe {
        let descriptor = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(descriptor)
    };
    may_share(udp.as_raw_fd())?;
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: number.to_be(),
        sin_addr: libc::in_addr { s_addr: Ipv4Addr::UNSPECIFIED.to_bits() },
        sin_zero: [0; 8],
    };
    let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: the address outlives the call and has that length.
    if unsafe { libc::bind(udp.as_raw_fd(), (&raw const address).cast(), length) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(udp.into())
}

/// Other sockets of the same user may have the same port, if they say so too.
fn may_share(descriptor: RawFd) -> io::Result<()> {
    let yes: libc::c_int = 1;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: as many readable bytes as it is told.
    let set =
        unsafe { libc::setsockopt(descriptor, libc::SOL_SOCKET, libc::SO_REUSEPORT, (&raw const yes).cast(), length) };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> (UdpSocket, SocketAddrV4) {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let std::net::SocketAddr::V4(address) = udp.local_addr().unwrap() else { panic!("bound to IPv4") };
        (udp, address)
    }

    #[test]
    fn strangers_are_heard_beside_the_switch_and_the_switch_by_its_own_socket_alone() {
        let ((switch, address), (stranger, other)) = (peer(), peer());
        let agent = Socket::open(address, None).unwrap();
        let ears = Ears::of(&agent).unwrap();
        let port = (Ipv4Addr::LOCALHOST, agent.number());
        for round in 0..2 {
            switch.send_to(b"switch", port).unwrap();
            stranger.send_to(b"stranger", port).unwrap();
            let (mut buffer, mut packet) = (Buffer::new(), Buffer::new());
            if round == 0 {
                assert_eq!(ears.receive(&mut buffer), Some((&b"stranger"[..], other)));
                let crate::socket::Received::Packet(received) = agent.receive(&mut packet) else { panic!("nothing") };
                assert_eq!(received, b"switch");
                agent.redirect(other).unwrap();
            } else {
                // Now it is the other way round.
                assert_eq!(ears.receive(&mut buffer), Some((&b"switch"[..], address)));
                let crate::socket::Received::Packet(received) = agent.receive(&mut packet) else { panic!("nothing") };
                assert_eq!(received, b"stranger");
            }
            assert_eq!(ears.receive(&mut buffer), None);
        }
    }

    #[test]
    fn they_follow_their_socket_to_another_port() {
        let ((_switch, address), (stranger, other)) = (peer(), peer());
        let socket = Socket::open(address, None).unwrap();
        let ears = Ears::of(&socket).unwrap();
        assert!(ears.is_of(&socket));
        socket.reopen(address).unwrap();
        assert!(!ears.is_of(&socket));
        let descriptor = ears.descriptor();
        ears.follow(&socket).unwrap();
        assert!(ears.is_of(&socket) && ears.descriptor() == descriptor);
        stranger.send_to(b"stranger", (Ipv4Addr::LOCALHOST, socket.number())).unwrap();
        assert_eq!(ears.receive(&mut Buffer::new()), Some((&b"stranger"[..], other)));
    }
}
