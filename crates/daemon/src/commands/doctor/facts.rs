//! What the kernel tells of this host and its interfaces: capabilities, ethtool's old system calls, netlink.

use super::hook::{Channels, Host, Port, Program};
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use wayside_switch::xdp::interfaces::{self, Interface, Mode};

/// The host's part.
pub fn host(kernel: (u32, u32)) -> Host {
    /// linux/capability.h.
    const SYS_ADMIN: u32 = 21;
    const NEEDED: [(u32, &str); 3] = [(12, "CAP_NET_ADMIN"), (38, "CAP_PERFMON"), (39, "CAP_BPF")];
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    let has = |bit: u32| effective.is_none_or(|set| set >> bit & 1 == 1);
    // It stands for all of them.
    let missing = NEEDED.iter().filter(|(bit, _)| !has(*bit) && !has(SYS_ADMIN));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    Host {
        kernel,
        // SAFETY: geteuid has no preconditions and cannot fail.
        root: unsafe { libc::geteuid() } == 0,
        missing: missing.map(|(_, name)| *name).collect(),
        // Only root may read it.
        compiles: fs::read_to_string("/proc/sys/net/core/bpf_jit_enable").ok().map(|text| text.trim() != "0"),
        has_bpffs: mounts.lines().any(|line| line.split(' ').skip(1).take(2).eq(["/sys/fs/bpf", "bpf"])),
        processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
    }
}

/// The interfaces that a switch at one of `addresses` would use; those with an address, if none of them is here.
pub fn ports(addresses: &[Ipv4Addr]) -> io::Result<Vec<Port>> {
    let all = interfaces::list()?;
    let has = |interface: &Interface| interface.addresses.iter().any(|address| addresses.contains(address));
    let chosen: Vec<&Interface> = match all.iter().find(|interface| has(interface) && !interface.is_loopback()) {
        Some(found) if found.kind.as_deref() == Some("bridge") => {
            all.iter().filter(|port| port.master == Some(found.index)).collect()
        }
        Some(found) => vec![found],
        None => all.iter().filter(|one| !one.addresses.is_empty() && !one.is_loopback()).collect(),
    };
    Ok(chosen.into_iter().map(port).collect())
}

fn port(interface: &Interface) -> Port {
    let ethtool = Ethtool::new(&interface.name);
    let driver = ethtool.as_ref().and_then(Ethtool::driver);
    Port {
        name: interface.name.clone(),
        kind: interface.kind.clone(),
        channels: ethtool.as_ref().and_then(Ethtool::channels),
        merges_received: ethtool.as_ref().is_some_and(Ethtool::merges_received),
        mtu: interface.mtu,
        features: xdp_features(interface.index).ok().flatten(),
        program: interface.program.map(|(number, mode)| Program {
            number,
            name: interfaces::program_name(number),
            native: mode == Mode::Native,
        }),
        host_offloads: driver.as_deref() == Some("virtio_net") && host_offloads(&interface.name),
        driver,
    }
}

/// Whether the hypervisor may join packets or leave their checksums out, and can't be told to stop: linux/virtio_net.h.
fn host_offloads(interface: &str) -> bool {
    const CONTROL: usize = 2;
    /// Checksum, TSO for IPv4 and IPv6, ECN, UFO, and USO for both.
    const OFFLOADS: [usize; 7] = [1, 7, 8, 9, 10, 54, 55];
    // One character for each feature, from the first: what both sides agreed on.
    let features = fs::read(format!("/sys/class/net/{interface}/device/features")).unwrap_or_default();
    let has = |bit: usize| features.get(bit) == Some(&b'1');
    !has(CONTROL) && OFFLOADS.iter().any(|bit| has(*bit))
}

/// One interface, for linux/ethtool.h.
struct Ethtool {
    socket: OwnedFd,
    name: [u8; 16],
}

impl Ethtool {
    fn new(interface: &str) -> Option<Ethtool> {
        let mut name = [0; 16];
        // The kernel's names have 15 bytes at most.
        name.get_mut(..interface.len())?.copy_from_slice(interface.as_bytes());
        // SAFETY: no pointers; the descriptor is new.
        let socket = unsafe {
            let made = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
            (made >= 0).then(|| OwnedFd::from_raw_fd(made))?
        };
        Some(Ethtool { socket, name })
    }

    /// Fills `data`, whose first word is the question.
    fn ask<const N: usize>(&self, question: u32) -> Option<[u32; N]> {
        /// `struct ifreq` of 40 bytes.
        #[repr(C)]
        struct Request {
            name: [u8; 16],
            data: *mut u32,
            rest: [u64; 2],
        }
        let mut data = [0; N];
        data[0] = question;
        let mut request = Request { name: self.name, data: data.as_mut_ptr(), rest: [0; 2] };
        // SAFETY: the kernel writes as much as the structure of this question has, which is what callers ask room for.
        let done = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        (done == 0).then_some(data)
    }

    fn driver(&self) -> Option<String> {
        /// ETHTOOL_GDRVINFO, a structure of 196 bytes: the name is the first text.
        const QUESTION: u32 = 3;
        let answer = self.ask::<49>(QUESTION)?;
        let bytes: Vec<u8> = answer[1..9].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(String::from_utf8_lossy(name).into_owned()).filter(|name| !name.is_empty())
    }

    fn channels(&self) -> Option<Channels> {
        /// ETHTOOL_GCHANNELS.
        const QUESTION: u32 = 0x3c;
        let [_, most_receive, most_send, _, most_combined, receive, send, _, combined] = self.ask(QUESTION)?;
        Some(Channels { receive, send, combined, most_receive, most_send, most_combined })
    }

    fn merges_received(&self) -> bool {
        /// ETHTOOL_GFLAGS, and ETH_FLAG_LRO of its answer.
        const QUESTION: u32 = 0x25;
        const LRO: u32 = 1 << 15;
        self.ask::<2>(QUESTION).is_some_and(|[_, flags]| flags & LRO != 0)
    }
}

/// What the driver says it can do with XDP (linux/netdev.h); None before Linux 6.3.
fn xdp_features(interface: u32) -> io::Result<Option<u64>> {
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
