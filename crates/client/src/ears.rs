//! Where a node hears of another switch. Its agent port is connected to the switch that serves, so that nothing else
//! comes in there. Whoever takes that switch's place announces itself to the same port, from its own address: what the
//! connected socket does not take, the kernel gives to this one, which is bound to the same port and not connected.
//!
//! Invariant: the port is the agent socket's own before it is shared. One that the kernel chose for a socket which may
//! share could be another process's of the same user.

use crate::socket::{RECEIVE_BYTES, Socket};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// See the module's documentation.
pub(crate) struct Ears(UdpSocket);

impl Ears {
    /// For packets to the port of this socket that its peer has not sent.
    pub(crate) fn of(agent: &Socket) -> io::Result<Ears> {
        may_share(agent.descriptor())?;
        // SAFETY: no pointers; the descriptor that comes back is owned by nobody else.
        let udp = unsafe {
            let descriptor =
                libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(descriptor)
        };
        may_share(udp.as_raw_fd())?;
        let address = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: agent.number().to_be(),
            sin_addr: libc::in_addr { s_addr: Ipv4Addr::UNSPECIFIED.to_bits() },
            sin_zero: [0; 8],
        };
        let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        // SAFETY: the address outlives the call and has that length.
        if unsafe { libc::bind(udp.as_raw_fd(), (&raw const address).cast(), length) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Ears(udp.into()))
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// The next packet and who sent it, if there is one.
    pub(crate) fn receive<'b>(&self, buffer: &'b mut [u8; RECEIVE_BYTES]) -> Option<(&'b [u8], SocketAddrV4)> {
        match self.0.recv_from(buffer) {
            Ok((bytes, SocketAddr::V4(from))) => Some((&buffer[..bytes], from)),
            _ => None,
        }
    }
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
        let SocketAddr::V4(address) = udp.local_addr().unwrap() else { panic!("bound to IPv4") };
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
            let mut buffer = [0; RECEIVE_BYTES];
            let mut packet = crate::socket::Buffer::new();
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
}
