//! Sockets of a reply port to other switches than the session's: connected, so that the kernel finds the way and the
//! socket once and not for each packet.
//!
//! Whoever is asked need not be who answers: of a chain the head is written to, and the tail answers. So all of them
//! have the port's own number.
//!
//! Invariants
//! * What comes from a switch that there is no link to comes in at the port's ears (`ears.rs`), so links may be opened
//!   and dropped at any time.
//! * Nothing is sent by a link of another number than its port has: the port had it before.

use crate::ears::bound_beside;
use crate::socket::{Buffer, Socket, send};
use parking_lot::RwLock;
use std::io;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Others of a shard, with room for one that takes another's place. What goes elsewhere goes without a link.
pub(crate) const LINKS_MOST: usize = 6;

/// Which switches see to a packet: who is asked, and who is to answer. None: the session's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Others {
    pub(crate) asked: Option<SocketAddrV4>,
    pub(crate) answers: Option<SocketAddrV4>,
}

/// See the module's documentation. Any number of threads may send; one receives at a time.
#[derive(Default)]
pub(crate) struct Links {
    all: RwLock<Vec<Link>>,
    /// By which the answer to what was sent last is to come.
    expected: AtomicUsize,
    looks: AtomicUsize,
}

struct Link {
    to: SocketAddrV4,
    number: u16,
    udp: UdpSocket,
}

/// Place of the session's switch, which there is no link to.
const HOME: usize = LINKS_MOST;

impl Links {
    /// Sends, if all links that this takes are there.
    #[inline]
    pub(crate) fn send(&self, socket: &Socket, packet: &[u8], others: Others) -> bool {
        let all = self.all.read();
        let number = socket.number();
        let place = |to: Option<SocketAddrV4>| match to {
            None => Some(HOME),
            Some(to) => all.iter().position(|link| link.to == to && link.number == number),
        };
        let (Some(asked), Some(answers)) = (place(others.asked), place(others.answers)) else { return false };
        self.expected.store(answers, Relaxed);
        match all.get(asked) {
            Some(link) => send(link.udp.as_raw_fd(), packet),
            None => socket.send(packet),
        }
        true
    }

    /// Has a link to this switch, if there is room for it. Whether there is a new one: the port's thread may sleep on
    /// what there was before.
    pub(crate) fn open(&self, socket: &Socket, to: SocketAddrV4) -> io::Result<bool> {
        let number = socket.number();
        let mut all = self.all.write();
        all.retain(|link| link.number == number);
        if all.len() == LINKS_MOST || all.iter().any(|link| link.to == to) {
            return Ok(false);
        }
        let udp = bound_beside(socket, number)?;
        udp.connect(to)?;
        all.push(Link { to, number, udp });
        Ok(true)
    }

    /// The session goes on at one of them, by the port's own socket.
    pub(crate) fn drop_all(&self) {
        self.all.write().clear();
    }

    /// To sleep on; negative: none.
    pub(crate) fn descriptors(&self) -> [RawFd; LINKS_MOST] {
        let mut descriptors = [-1; LINKS_MOST];
        let all = self.all.read();
        descriptors.iter_mut().zip(all.iter()).for_each(|(place, link)| *place = link.udp.as_raw_fd());
        descriptors
    }

    /// For who looks again and again: a look into one of them, mostly that by which the answer is to come. Length and
    /// sender.
    #[inline]
    pub(crate) fn glance(&self, buffer: &mut Buffer) -> Option<(usize, SocketAddrV4)> {
        let all = self.all.read();
        let look = self.looks.load(Relaxed);
        self.looks.store(look.wrapping_add(1), Relaxed);
        let expected = self.expected.load(Relaxed);
        // Whoever refuses what he is asked is another one.
        let index = if look % 4 == 3 { look / 4 % all.len().max(1) } else { expected };
        let link = all.get(index)?;
        Some((buffer.receive(link.udp.as_raw_fd()).ok()?.len(), link.to))
    }

    /// What has come by any of them, if something has.
    pub(crate) fn receive(&self, buffer: &mut Buffer) -> Option<(usize, SocketAddrV4)> {
        let all = self.all.read();
        all.iter().find_map(|link| Some((buffer.receive(link.udp.as_raw_fd()).ok()?.len(), link.to)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr};

    fn peer() -> (UdpSocket, SocketAddrV4) {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let SocketAddr::V4(address) = udp.local_addr().unwrap() else { panic!("bound to IPv4") };
        (udp, address)
    }

    fn packet_of(udp: &UdpSocket) -> (Vec<u8>, SocketAddr) {
        let mut packet = [0; 16];
        let (bytes, from) = udp.recv_from(&mut packet).unwrap();
        (packet[..bytes].to_vec(), from)
    }

    #[test]
    fn who_is_asked_and_who_answers_have_the_ports_own_number() {
        let ((home, at_home), (head, at_head), (tail, at_tail)) = (peer(), peer(), peer());
        let socket = Socket::open(at_home, None).unwrap();
        let links = Links::default();
        let others = |asked, answers| Others { asked, answers };
        assert!(!links.send(&socket, b"early", others(Some(at_head), Some(at_tail))));
        assert!(links.open(&socket, at_head).unwrap() && links.open(&socket, at_tail).unwrap());
        assert!(!links.open(&socket, at_tail).unwrap(), "there is one");
        let mut buffer = Buffer::new();
        for (asked, asked_at) in [(None, &home), (Some(at_head), &head), (Some(at_tail), &tail)] {
            assert!(links.send(&socket, b"question", others(asked, Some(at_tail))));
            let (question, from) = packet_of(asked_at);
            assert_eq!((&question[..], from.port()), (&b"question"[..], socket.number()));
            tail.send_to(b"answer", from).unwrap();
            let heard = (0..8).find_map(|_| links.glance(&mut buffer));
            assert_eq!(heard, Some((6, at_tail)));
            // Another one than was expected to.
            head.send_to(b"refused", from).unwrap();
            let heard = (0..16).find_map(|_| links.glance(&mut buffer));
            assert_eq!((heard, buffer.filled(7)), (Some((7, at_head)), &b"refused"[..]));
        }
        assert_eq!(links.receive(&mut buffer), None);
    }

    #[test]
    fn a_port_with_another_number_has_other_links() {
        let ((_home, at_home), (_other, at_other)) = (peer(), peer());
        let socket = Socket::open(at_home, None).unwrap();
        let (links, others) = (Links::default(), Others { asked: Some(at_other), answers: None });
        assert!(links.open(&socket, at_other).unwrap());
        assert!(links.send(&socket, b"question", others));
        socket.reopen(at_home).unwrap();
        assert!(!links.send(&socket, b"question", others), "its answer would come to a port that nobody reads");
        assert!(links.open(&socket, at_other).unwrap());
        assert!(links.send(&socket, b"question", others));
        links.drop_all();
        assert!(!links.send(&socket, b"question", others));
    }

    #[test]
    fn there_are_so_many_and_no_more() {
        let (_home, at_home) = peer();
        let socket = Socket::open(at_home, None).unwrap();
        let links = Links::default();
        let peers: Vec<_> = (0..=LINKS_MOST).map(|_| peer()).collect();
        let opened = peers.iter().filter(|(_, address)| links.open(&socket, *address).unwrap());
        assert_eq!(opened.count(), LINKS_MOST);
        assert!(links.descriptors().iter().all(|descriptor| *descriptor >= 0));
    }
}
