//! Which way the kernel would send to the switch: asked over netlink, so that its routes and neighbours hold for
//! AF_XDP.
//!
//! Packets of AF_XDP do not tell the kernel that a neighbour is alive. The session's heartbeats do, which go by UDP.

use super::device;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The first step to the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    /// Address that packets to the switch come from.
    pub(super) own: Ipv4Addr,
    /// Ethernet address of the next hop.
    pub(super) next: [u8; 6],
}

const HEADER: usize = 16;
/// Length of `struct rtmsg` and of `struct ndmsg`.
const MESSAGE: usize = 12;
const ERROR: u16 = libc::NLMSG_ERROR as u16;
/// States of a neighbour whose address is good for sending; the kernel probes it in some of them.
const USABLE: u16 =
    libc::NUD_PERMANENT | libc::NUD_NOARP | libc::NUD_REACHABLE | libc::NUD_PROBE | libc::NUD_STALE | libc::NUD_DELAY;

/// The first step to `to`, if it leads over `interface`; otherwise why that cannot be used.
pub(super) fn hop(interface: u32, to: Ipv4Addr) -> Result<Hop, String> {
    let mut route = [0; MESSAGE];
    (route[0], route[1]) = (libc::AF_INET as u8, 32);
    let answer =
        ask(libc::RTM_GETROUTE, &route, libc::RTA_DST, to).map_err(|error| format!("no route to {to}: {error}"))?;
    if answer.get(7) != Some(&libc::RTN_UNICAST) {
        return Err(format!("{to} is no other host"));
    }
    let over = word(&answer, libc::RTA_OIF).map_or(0, u32::from_ne_bytes);
    if over != interface {
        return Err(format!("the way to {to} leads over {}", device::name(over)));
    }
    if attribute(&answer, libc::RTA_VIA).is_some() {
        return Err(format!("the gateway to {to} has no IPv4 address"));
    }
    let own = word(&answer, libc::RTA_PREFSRC).map(Ipv4Addr::from).ok_or("this host has no address there")?;
    let gateway = word(&answer, libc::RTA_GATEWAY).map_or(to, Ipv4Addr::from);

    let mut neighbour = [0; MESSAGE];
    neighbour[0] = libc::AF_INET as u8;
    neighbour[4..8].copy_from_slice(&interface.to_ne_bytes());
    let unknown = || format!("the Ethernet address of {gateway} is not known yet");
    let answer = ask(libc::RTM_GETNEIGH, &neighbour, libc::NDA_DST, gateway).map_err(|_| unknown())?;
    let state = u16::from_ne_bytes([answer[8], answer[9]]);
    let next = attribute(&answer, libc::NDA_LLADDR).and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
    next.filter(|_| state & USABLE != 0).map(|next| Hop { own, next }).ok_or_else(unknown)
}

/// Sends a request with one attribute. The answer: its message and attributes.
fn ask(kind: u16, message: &[u8; MESSAGE], attribute: u16, address: Ipv4Addr) -> io::Result<Vec<u8>> {
    let mut request = Vec::with_capacity(HEADER + MESSAGE + 8);
    request.extend(((HEADER + MESSAGE + 8) as u32).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    request.extend([0; 8]);
    request.extend(message);
    request.extend(8u16.to_ne_bytes());
    request.extend(attribute.to_ne_bytes());
    request.extend(address.octets());

    // SAFETY: no pointers; the descriptor that comes back is owned by nobody else.
    let socket = unsafe {
        let socket = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(socket)
    };
    let mut answer = vec![0; 4_096];
    // SAFETY: as many bytes as they are told. The kernel answers before `send` returns, so nothing blocks.
    let bytes = unsafe {
        if libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), libc::MSG_DONTWAIT)
    };
    let Ok(bytes) = usize::try_from(bytes) else { return Err(io::Error::last_os_error()) };
    answer.truncate(bytes);
    if bytes < HEADER + 4 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if u16::from_ne_bytes([answer[4], answer[5]]) == ERROR {
        let error = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
        return Err(io::Error::from_raw_os_error(-error));
    }
    if bytes < HEADER + MESSAGE {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer.split_off(HEADER))
}

/// What an answer says under `kind`.
fn attribute(answer: &[u8], kind: u16) -> Option<&[u8]> {
    let mut rest = answer.get(MESSAGE..)?;
    while rest.len() >= 4 {
        let length = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
        let body = rest.get(4..length)?;
        if u16::from_ne_bytes([rest[2], rest[3]]) == kind {
            return Some(body);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
    None
}

fn word(answer: &[u8], kind: u16) -> Option<[u8; 4]> {
    attribute(answer, kind)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_not_reached_over_an_interface() {
        assert_eq!(hop(1, Ipv4Addr::LOCALHOST), Err("127.0.0.1 is no other host".into()));
    }

    #[test]
    fn attributes_that_lie_about_their_length_end_the_search() {
        for length in [0u16, 3, 9] {
            let mut answer = vec![0; MESSAGE];
            answer.extend(length.to_ne_bytes());
            answer.extend([5, 0, 1, 2, 3, 4]);
            assert_eq!(attribute(&answer, 5), None, "{length}");
        }
    }
}
