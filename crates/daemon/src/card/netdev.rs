//! What a driver says it can do with XDP, by the kernel's generic netlink (linux/netdev.h).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `NETDEV_XDP_ACT_BASIC`: it drops, passes, sends back.
pub const BASIC: u64 = 1;
/// `NETDEV_XDP_ACT_REDIRECT`: it hands to other devices what it has received.
pub const REDIRECT: u64 = 2;
/// `NETDEV_XDP_ACT_NDO_XMIT`: it sends what is handed to it, be it by itself. Many drivers can only while they have a
/// program, and say so only then; the kernel drops what is handed to one that does not say so.
pub const SENDS: u64 = 4;

/// By [`BASIC`], [`REDIRECT`] and [`SENDS`]; None before Linux 6.3.
pub fn xdp_features(interface: u32) -> io::Result<Option<u64>> {
    /// linux/genetlink.h: the family that knows the others, its question for one, and attributes of that.
    const CONTROLLER: u16 = 16;
    const GET_FAMILY: u8 = 3;
    const FAMILY_ID: u16 = 1;
    const FAMILY_NAME: u16 = 2;
    const GET_DEVICE: u8 = 1;
    const INDEX: u16 = 1;
    const FEATURES: u16 = 3;
    let socket = GenericNetlink::new()?;
    let Some(family) = socket.ask(CONTROLLER, GET_FAMILY, FAMILY_NAME, b"netdev\0", FAMILY_ID)? else {
        return Ok(None);
    };
    let family = family.get(..2).map_or(0, |bytes| u16::from_ne_bytes([bytes[0], bytes[1]]));
    let features = socket.ask(family, GET_DEVICE, INDEX, &interface.to_ne_bytes(), FEATURES)?;
    Ok(features.and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes))
}

struct GenericNetlink(OwnedFd);

impl GenericNetlink {
    fn new() -> io::Result<GenericNetlink> {
        // SAFETY: no pointers; the descriptor is new.
        unsafe {
            match libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_GENERIC) {
                made @ 0.. => Ok(GenericNetlink(OwnedFd::from_raw_fd(made))),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }

    /// Asks a family one question with one attribute. The attribute `wanted` of its answer, if it has it.
    fn ask(&self, family: u16, command: u8, attribute: u16, value: &[u8], wanted: u16) -> io::Result<Option<Vec<u8>>> {
        /// Of netlink and of generic netlink.
        const HEADERS: usize = 16 + 4;
        const REQUEST: u16 = 1;
        let length = HEADERS + 4 + value.len().next_multiple_of(4);
        let mut packet = Vec::with_capacity(length);
        packet.extend((length as u32).to_ne_bytes());
        packet.extend(family.to_ne_bytes());
        packet.extend(REQUEST.to_ne_bytes());
        packet.extend([0; 8]); // sequence, port
        packet.extend([command, 1, 0, 0]);
        packet.extend((4 + value.len() as u16).to_ne_bytes());
        packet.extend(attribute.to_ne_bytes());
        packet.extend(value);
        packet.resize(length, 0);
        let mut answer = vec![0; 16 << 10];
        // SAFETY: both buffers have the lengths that are told.
        let got = unsafe {
            let descriptor = self.0.as_raw_fd();
            if libc::send(descriptor, packet.as_ptr().cast(), packet.len(), 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            libc::recv(descriptor, answer.as_mut_ptr().cast(), answer.len(), 0)
        };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        // NLMSG_ERROR: an older kernel has no such family.
        if got < HEADERS || answer[4..6] == 2u16.to_ne_bytes() {
            return Ok(None);
        }
        let mut rest = &answer[HEADERS..got];
        while let [low, high, kind_low, kind_high, ..] = *rest {
            let length = usize::from(u16::from_ne_bytes([low, high]));
            let Some(value) = rest.get(4..length) else { break };
            // The upper two bits are flags.
            if u16::from_ne_bytes([kind_low, kind_high]) & 0x3fff == wanted {
                return Ok(Some(value.to_vec()));
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(None)
    }
}
