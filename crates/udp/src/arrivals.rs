//! What one call receives.

use crate::{Control, TRAIN_BYTES, length};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Two lines of cache more than a train has at most, so that not all begin in one set of a cache.
const ROOM: usize = TRAIN_BYTES + 1 + 2 * 64;

/// Room for packets, or trains of them: 64 KiB each, of which what is never written takes no memory. Allocated once,
/// and never moved: headers point to all of it.
pub struct Arrivals {
    rooms: Box<[[u8; ROOM]]>,
    names: Box<[libc::sockaddr_in]>,
    controls: Box<[Control]>,
    /// Referred to by `headers` through raw pointers only, as the others are.
    _vectors: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
    /// How many the latest call received.
    count: usize,
}

// SAFETY: the raw pointers lead to the heap blocks that this value owns; nothing else refers to them.
unsafe impl Send for Arrivals {}

/// A packet, or a train of packets of one length, of which the last may be shorter.
pub struct Arrival<'a> {
    /// All of it.
    pub bytes: &'a [u8],
    /// Bytes of each packet.
    pub length: usize,
    /// Who sent it.
    pub from: SocketAddrV4,
}

impl Arrivals {
    /// For so many in one call.
    #[must_use]
    pub fn new(most: usize) -> Arrivals {
        let mut rooms = vec![[0; ROOM]; most].into_boxed_slice();
        // SAFETY: integers and pointers, of which none is looked at where it is null.
        let (name, header): (libc::sockaddr_in, libc::mmsghdr) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let mut names = vec![name; most].into_boxed_slice();
        let vector = |room: &mut [u8; ROOM]| libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: TRAIN_BYTES };
        let mut vectors: Box<[libc::iovec]> = rooms.iter_mut().map(vector).collect();
        let mut headers = vec![header; most].into_boxed_slice();
        for ((header, name), vector) in headers.iter_mut().zip(&mut names).zip(&mut vectors) {
            header.msg_hdr.msg_name = ptr::from_mut(name).cast();
            (header.msg_hdr.msg_iov, header.msg_hdr.msg_iovlen) = (vector, 1);
        }
        let controls = vec![Control::default(); most].into_boxed_slice();
        Arrivals { rooms, names, controls, _vectors: vectors, headers, count: 0 }
    }

    /// Receives `most` at most, as many as there is room for, by one call with these flags; how many.
    ///
    /// # Errors
    /// The kernel's; there is nothing then. `WouldBlock`: nothing has come.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, most: usize, flags: libc::c_int) -> io::Result<usize> {
        self.count = 0;
        let most = most.min(self.headers.len());
        for (header, control) in self.headers.iter_mut().zip(&mut self.controls).take(most) {
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
            control.ask(&mut header.msg_hdr);
        }
        let (fd, first) = (socket.as_raw_fd(), self.headers.as_mut_ptr());
        // SAFETY: so many complete headers, whose memory lives as long as `self`. Of one, recvmsg takes less.
        let count = unsafe {
            if most == 1 {
                let bytes = libc::recvmsg(fd, &raw mut (*first).msg_hdr, flags);
                (*first).msg_len = u32::try_from(bytes).unwrap_or(0);
                if bytes < 0 { -1 } else { 1 }
            } else {
                libc::recvmmsg(fd, first, most as libc::c_uint, flags, ptr::null_mut())
            }
        };
        self.count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        Ok(self.count)
    }

    /// One that the latest call received. A packet of no bytes (or the end of a socket that was shut down) is one, too.
    ///
    /// # Panics
    /// If it received fewer.
    #[must_use]
    pub fn get(&self, index: usize) -> Arrival<'_> {
        assert!(index < self.count, "{index} of {}", self.count);
        let (header, name) = (&self.headers[index], &self.names[index]);
        let bytes = &self.rooms[index][..header.msg_len as usize];
        // SAFETY: the kernel has received it after `ask`, in `receive`.
        let length = unsafe { length(&header.msg_hdr) }.unwrap_or(bytes.len());
        let from =
            SocketAddrV4::new(Ipv4Addr::from_bits(u32::from_be(name.sin_addr.s_addr)), u16::from_be(name.sin_port));
        Arrival { bytes, length, from }
    }
}
