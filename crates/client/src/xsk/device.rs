//! What is to be known of an interface, and of this process's rights, before anything is tried.

use std::ffi::CString;
use std::io;
use std::mem::zeroed;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// The index of the interface of that name, if there is one.
pub(super) fn index(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: a terminated string that outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => None,
        index => Some(index),
    }
}

/// For people: the interface of that index.
pub(super) fn name(index: u32) -> String {
    let mut name = [0u8; libc::IF_NAMESIZE];
    // SAFETY: as many writable bytes as it asks for.
    if unsafe { libc::if_indextoname(index, name.as_mut_ptr().cast()) }.is_null() {
        return format!("interface {index}");
    }
    String::from_utf8_lossy(name.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}

pub(super) fn mtu(name: &str) -> io::Result<u32> {
    let request = control(name, libc::SIOCGIFMTU as libc::Ioctl, |_| {})?;
    // SAFETY: the call has filled in this member of the union.
    Ok(unsafe { request.ifr_ifru.ifru_mtu } as u32)
}

/// The interface's Ethernet address; None where it is of another kind.
pub(super) fn address(name: &str) -> io::Result<Option<[u8; 6]>> {
    let request = control(name, libc::SIOCGIFHWADDR as libc::Ioctl, |_| {})?;
    // SAFETY: the call has filled in this member of the union.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    let bytes = std::array::from_fn(|index| address.sa_data[index] as u8);
    Ok((address.sa_family == libc::ARPHRD_ETHER).then_some(bytes))
}

/// How many queues it receives on. A driver that can't say has one.
pub(super) fn queues(name: &str) -> io::Result<u32> {
    let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
    let fill = |request: &mut libc::ifreq| request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    match control(name, SIOCETHTOOL as libc::Ioctl, fill) {
        Ok(_) => Ok((channels.receive + channels.combined).max(1)),
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(1),
        Err(error) => Err(error),
    }
}

const SIOCETHTOOL: u32 = 0x8946;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    /// Of receive, transmit, other and combined channels.
    most: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

fn control(name: &str, call: libc::Ioctl, fill: impl FnOnce(&mut libc::ifreq)) -> io::Result<libc::ifreq> {
    let socket = UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
    // SAFETY: integers and a null pointer.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name[..libc::IF_NAMESIZE - 1].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    fill(&mut request);
    // SAFETY: a request of the kind that `call` asks for; what it may point to outlives the call, as the caller's.
    if unsafe { libc::ioctl(socket.as_raw_fd(), call, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(request)
}

/// Those of the capabilities that AF_XDP takes which this thread lacks.
pub(super) fn missing_capabilities() -> Vec<&'static str> {
    /// Number, name. CAP_SYS_ADMIN stands for CAP_BPF where that is not known yet, before Linux 5.8.
    const NEEDED: [(u32, &str); 3] = [(12, "CAP_NET_ADMIN"), (13, "CAP_NET_RAW"), (39, "CAP_BPF")];
    const SYS_ADMIN: u32 = 21;
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    // Effective, permitted, inheritable; twice, 32 capabilities each.
    let mut sets = [[0u32; 3]; 2];
    // SAFETY: a header and two sets, as version 3 has them.
    if unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) } < 0 {
        return Vec::new();
    }
    let has = |number: u32| sets[number as usize / 32][0] & 1 << (number % 32) != 0;
    let lacks = |&&(number, _): &&(u32, &str)| !(has(number) || number == 39 && has(SYS_ADMIN));
    NEEDED.iter().filter(lacks).map(|&(_, name)| name).collect()
}
