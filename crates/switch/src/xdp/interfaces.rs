//! The network interfaces of this namespace, as the kernel tells them over netlink.

use libbpf_rs::libbpf_sys as sys;
use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkInfo, LinkMessage, LinkXdp, XdpAttached};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// How a program is attached to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By the driver: before the kernel makes a packet of what the device received.
    Native,
    /// By the kernel's stack: works with every device, for the price of that stack.
    Generic,
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mode::Native => "native",
            Mode::Generic => "generic",
        })
    }
}

/// One network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number in this namespace.
    pub index: u32,
    /// Its name, for people.
    pub name: String,
    /// Its MAC address; zeros if it has none.
    pub address: [u8; 6],
    /// Longest packet that it sends, in bytes.
    pub mtu: u32,
    /// What kind of virtual device it is ("bridge", "veth", "vlan"), if it is one.
    pub kind: Option<String>,
    /// The bridge or bond that it is a port of.
    pub master: Option<u32>,
    /// The XDP program that it has, by number, and how.
    pub program: Option<(u32, Mode)>,
    /// Its IPv4 addresses.
    pub addresses: Vec<Ipv4Addr>,
}

impl Interface {
    /// Whether it is the loopback interface, whose packets never meet a driver.
    pub fn is_loopback(&self) -> bool {
        self.addresses.iter().any(Ipv4Addr::is_loopback)
    }

    fn read(message: &LinkMessage) -> Interface {
        let mut interface = Interface {
            index: message.header.index,
            name: String::new(),
            address: [0; 6],
            mtu: 0,
            kind: None,
            master: None,
            program: None,
            addresses: Vec::new(),
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => interface.name.clone_from(name),
                LinkAttribute::Address(bytes) => interface.address = bytes.as_slice().try_into().unwrap_or_default(),
                LinkAttribute::Mtu(mtu) => interface.mtu = *mtu,
                LinkAttribute::Controller(master) => interface.master = Some(*master),
                LinkAttribute::LinkInfo(infos) => {
                    interface.kind = infos.iter().find_map(|info| match info {
                        LinkInfo::Kind(kind) => Some(kind.to_string()),
                        _ => None,
                    });
                }
                LinkAttribute::Xdp(xdp) => interface.program = read_program(xdp),
                _ => {}
            }
        }
        interface
    }
}

/// The program of an interface. One that has several (native and generic at once) counts as native.
fn read_program(attributes: &[LinkXdp]) -> Option<(u32, Mode)> {
    let mode = attributes.iter().find_map(|attribute| match attribute {
        LinkXdp::Attached(XdpAttached::None) => None,
        LinkXdp::Attached(XdpAttached::SocketBuffer) => Some(Mode::Generic),
        LinkXdp::Attached(_) => Some(Mode::Native),
        _ => None,
    })?;
    let number = attributes.iter().find_map(|attribute| match attribute {
        LinkXdp::ProgId(number) | LinkXdp::DrvProgId(number) | LinkXdp::SkbProgId(number) => Some(*number),
        _ => None,
    });
    Some((number.unwrap_or(0), mode))
}

/// All interfaces of this process's network namespace.
///
/// # Errors
/// If the kernel does not answer.
pub fn list() -> io::Result<Vec<Interface>> {
    let mut interfaces = Vec::new();
    dump(RouteNetlinkMessage::GetLink(LinkMessage::default()), |message| {
        if let RouteNetlinkMessage::NewLink(link) = message {
            interfaces.push(Interface::read(&link));
        }
    })?;
    dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()), |message| {
        let RouteNetlinkMessage::NewAddress(message) = message else { return };
        let Some(interface) = interfaces.iter_mut().find(|known| known.index == message.header.index) else { return };
        // IFA_LOCAL is the own address; on point-to-point links IFA_ADDRESS is the peer's.
        let local = message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(IpAddr::V4(address)) => Some(*address),
            _ => None,
        });
        interface.addresses.extend(local);
    })?;
    Ok(interfaces)
}

/// The name of a loaded program, of which the kernel keeps 15 bytes; None if it is gone, or not for this process to
/// know.
pub fn program_name(number: u32) -> Option<String> {
    // SAFETY: the descriptor that comes back, if one does, is new; the structure has the length that is told, and its
    // name ends with a zero.
    unsafe {
        let descriptor = sys::bpf_prog_get_fd_by_id(number);
        let descriptor = (descriptor >= 0).then(|| OwnedFd::from_raw_fd(descriptor))?;
        let mut info = sys::bpf_prog_info::default();
        let mut length = size_of_val(&info) as u32;
        let done = sys::bpf_obj_get_info_by_fd(descriptor.as_raw_fd(), (&raw mut info).cast(), &raw mut length);
        (done == 0).then(|| CStr::from_ptr(info.name.as_ptr()).to_string_lossy().into_owned())
    }
}

/// Asks for a list, and hands every part of the answer to `take`.
fn dump(question: RouteNetlinkMessage, mut take: impl FnMut(RouteNetlinkMessage)) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut packet = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(question));
    packet.header.flags = NLM_F_DUMP | NLM_F_REQUEST;
    packet.finalize();
    let mut bytes = vec![0; packet.buffer_len()];
    packet.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    loop {
        let (answer, _) = socket.recv_from_full()?;
        let mut rest = &answer[..];
        while !rest.is_empty() {
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(io::Error::other)?;
            // Messages begin at multiples of 4.
            rest = rest.get((message.header.length as usize).next_multiple_of(4)..).unwrap_or_default();
            match message.payload {
                NetlinkPayload::Done(_) => return Ok(()),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                NetlinkPayload::InnerMessage(message) => take(message),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_listed() {
        let interfaces = list().unwrap();
        let loopback = interfaces.iter().find(|interface| interface.name == "lo").unwrap();
        assert!(loopback.index > 0 && loopback.mtu >= 1500, "{loopback:?}");
    }
}
