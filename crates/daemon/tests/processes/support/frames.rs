//! Frames as they are, past the kernel's stack: what no socket of UDP sends, and every byte of what comes in.

use super::PATIENCE;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use wayside_hosts::Host;

/// Longer than any frame of an interface with the usual MTU.
const LONGEST: usize = 2_048;

/// The protocols that Ethernet's headers name.
const IPV4: u16 = 0x0800;
pub const VLAN: u16 = 0x8100;
pub const SERVICE_VLAN: u16 = 0x88a8;

/// Sends frames by one interface of a host, and hears those that come in there once XDP has let them pass.
pub struct Tap {
    socket: OwnedFd,
    /// The interface's own.
    pub mac: [u8; 6],
}

impl Tap {
    pub fn on(host: &Host, interface: &str) -> Tap {
        host.within(|| Tap::open(interface)).expect("root may have it")
    }

    fn open(interface: &str) -> io::Result<Tap> {
        let checked = |result: libc::c_int| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) };
        let name = CString::new(interface).map_err(io::Error::other)?;
        let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        let told: libc::c_int = 1;
        let patience = libc::timeval { tv_sec: PATIENCE.as_secs() as _, tv_usec: 0 };
        // SAFETY: a terminated name; an address of zeros with its family, protocol and interface, and values of
        // options, each of the length that is told. The new descriptor is owned by nobody else.
        unsafe {
            let index = libc::if_nametoindex(name.as_ptr());
            if index == 0 {
                return Err(io::Error::last_os_error());
            }
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
            address.sll_ifindex = index as libc::c_int;
            // Of no protocol until it is bound: it would hear all interfaces.
            let descriptor = checked(libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0))?;
            let socket = OwnedFd::from_raw_fd(descriptor);
            let (value, bytes) = ((&raw const told).cast(), size_of::<libc::c_int>() as libc::socklen_t);
            checked(libc::setsockopt(descriptor, libc::SOL_PACKET, libc::PACKET_AUXDATA, value, bytes))?;
            let (value, bytes) = ((&raw const patience).cast(), size_of::<libc::timeval>() as libc::socklen_t);
            checked(libc::setsockopt(descriptor, libc::SOL_SOCKET, libc::SO_RCVTIMEO, value, bytes))?;
            checked(libc::bind(descriptor, (&raw const address).cast(), length))?;
            checked(libc::getsockname(descriptor, (&raw mut address).cast(), &raw mut length))?;
            let [mac @ .., _, _] = address.sll_addr;
            Ok(Tap { socket, mac })
        }
    }

    pub fn send(&self, frame: &[u8]) {
        // SAFETY: bytes that outlive the call, as many as are told.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", io::Error::last_os_error());
    }

    /// The next frame that has come from this address.
    pub fn receive_from(&self, mac: [u8; 6]) -> Vec<u8> {
        loop {
            let frame = self.receive();
            if frame.get(6..12) == Some(&mac[..]) {
                return frame;
            }
        }
    }

    /// The next frame. The kernel takes the outermost tag from it before anybody sees it, and tells it beside: here it
    /// is in its place again.
    fn receive(&self) -> Vec<u8> {
        let mut frame = vec![0; LONGEST];
        // Aligned as a message's header, and longer than the one message that there is.
        let mut control = [0u64; 16];
        let mut vector = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
        // SAFETY: zeros are a header without anything; the vector, its bytes and the room for control data outlive the
        // call, and have the lengths that are told. What is read of the latter the kernel has written, by its length.
        let (length, tag) = unsafe {
            let mut header: libc::msghdr = std::mem::zeroed();
            header.msg_iov = &raw mut vector;
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of_val(&control) as _;
            let length = libc::recvmsg(self.socket.as_raw_fd(), &raw mut header, 0);
            assert!(length >= 0, "no frame in time: {}", io::Error::last_os_error());
            let message = libc::CMSG_FIRSTHDR(&raw const header);
            let is_told = !message.is_null()
                && ((*message).cmsg_level, (*message).cmsg_type) == (libc::SOL_PACKET, libc::PACKET_AUXDATA);
            assert!(is_told, "the kernel tells of every frame's tag whether there was one");
            (length as usize, libc::CMSG_DATA(message).cast::<libc::tpacket_auxdata>().read_unaligned())
        };
        frame.truncate(length);
        if tag.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
            let protocol = if tag.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { tag.tp_vlan_tpid } else { VLAN };
            frame.splice(12..12, [protocol.to_be_bytes(), tag.tp_vlan_tci.to_be_bytes()].concat());
        }
        frame
    }
}

/// UDP over IPv4 from one address and port to another, with the tags of VLANs (protocol and number each, the outermost
/// first) and IPv4's options, in whole words.
pub fn udp_frame(
    [from, to]: [([u8; 6], [u8; 4], u16); 2],
    tags: &[[u16; 2]],
    options: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let words = 5 + options.len() / 4;
    let udp_length = (8 + payload.len()) as u16;
    let ip_length = (4 * words) as u16 + udp_length;
    let fixed = [0x12, 0x34, 0, 0, 64, libc::IPPROTO_UDP as u8, 0, 0];
    let mut ip = [&[0x40 | words as u8, 0][..], &ip_length.to_be_bytes(), &fixed, &from.1, &to.1, options].concat();
    let sum: u32 = ip.chunks(2).map(|half| u32::from(half[0]) << 8 | u32::from(half[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    let mut frame = [to.0, from.0].concat();
    for half in tags.as_flattened().iter().chain([&IPV4]) {
        frame.extend(half.to_be_bytes());
    }
    frame.extend(ip);
    // No checksum, as IPv4 allows.
    for half in [from.2, to.2, udp_length, 0] {
        frame.extend(half.to_be_bytes());
    }
    frame.extend(payload);
    frame
}
