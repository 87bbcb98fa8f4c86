//! What the XDP program hands up to its daemon: packets for the controller, and those that it has no way for.

use crate::verdict::Action;
use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, RawFd};

/// `struct ws_upcall` of `dataplane/ways.h`, before its packet.
const PACKET: usize = 16;

/// A packet that has been decided, and is the daemon's to deliver.
#[derive(Debug)]
pub struct Upcall<'a> {
    /// Who sent what the packet was made of.
    pub from: SocketAddrV4,
    /// [`Action::ToNode`], [`Action::ToController`]; [`Action::Drop`] where only the copy is asked for.
    pub action: Action,
    /// The agent to which a copy goes, after [`Switch::make_copy`](crate::Switch::make_copy).
    pub copy: Option<u16>,
    /// The packet as it is to be sent.
    pub packet: &'a [u8],
}

/// The ring of a loaded program. One thread reads it.
pub struct Upcalls {
    ring: MapHandle,
}

impl Upcalls {
    pub(super) fn new(ring: MapHandle) -> Upcalls {
        Upcalls { ring }
    }

    /// Hands every packet to `take`, until `stop` (a descriptor) can be read.
    ///
    /// # Errors
    /// If the kernel refuses the ring's memory.
    pub fn run(self, stop: RawFd, mut take: impl FnMut(Upcall<'_>)) -> io::Result<()> {
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&self.ring, |bytes| {
                if let Some(upcall) = read(bytes) {
                    take(upcall);
                }
                0
            })
            .map_err(io::Error::other)?;
        let ring: RingBuffer<'_> = builder.build().map_err(io::Error::other)?;
        loop {
            let mut ready = [ring.epoll_fd(), stop].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
            // SAFETY: two entries, which outlive the call.
            unsafe { libc::poll(ready.as_mut_ptr(), 2, -1) };
            if ready[1].revents != 0 {
                return Ok(());
            }
            ring.consume().map_err(io::Error::other)?;
        }
    }
}

impl std::fmt::Debug for Upcalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Upcalls({})", std::os::fd::AsFd::as_fd(&self.ring).as_raw_fd())
    }
}

/// `None`: not as the program writes them, which a program of another version might.
fn read(bytes: &[u8]) -> Option<Upcall<'_>> {
    let half = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let address = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
    let copy = half(12)?;
    let action = match half(6)? {
        _ if copy != 0 => Action::Drop,
        2 => Action::ToNode { handle: half(8)?, port: half(10)? },
        3 => Action::ToController,
        _ => return None,
    };
    Some(Upcall {
        from: SocketAddrV4::new(Ipv4Addr::from(address), half(4)?),
        action,
        copy: (copy != 0).then_some(copy),
        packet: bytes.get(PACKET..PACKET + usize::from(half(14)?))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upcalls_are_read_as_they_are_written() {
        let mut bytes = vec![0; PACKET + 64];
        bytes[..4].copy_from_slice(&0x0a09_0001u32.to_ne_bytes());
        for (at, half) in [(4, 20_001u16), (6, 2), (8, 7), (10, 9), (12, 0), (14, 64)] {
            bytes[at..at + 2].copy_from_slice(&half.to_ne_bytes());
        }
        let upcall = read(&bytes).unwrap();
        assert_eq!(upcall.from, "10.9.0.1:20001".parse().unwrap());
        assert_eq!((upcall.action, upcall.copy), (Action::ToNode { handle: 7, port: 9 }, None));
        assert_eq!(upcall.packet.len(), 64);
        bytes[12..14].copy_from_slice(&5u16.to_ne_bytes());
        assert_eq!(read(&bytes).map(|upcall| (upcall.action, upcall.copy)), Some((Action::Drop, Some(5))));
        assert!(read(&bytes[..60]).is_none(), "cut off");
    }
}
