//! What the kernel tells of this host and its interfaces.

use super::hook::{Bond, Host, Port, Program};
use crate::card::Card;
use crate::card::ethtool::Ethtool;
use std::fs;
use std::net::Ipv4Addr;
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
pub fn likely<'a>(all: &'a [Interface], addresses: &[Ipv4Addr]) -> Vec<&'a Interface> {
    let has = |interface: &Interface| interface.addresses.iter().any(|address| addresses.contains(address));
    let chosen: Vec<&Interface> = match all.iter().find(|interface| has(interface) && !interface.is_loopback()) {
        Some(found) if found.kind.as_deref() == Some("bridge") => members(all, found).collect(),
        Some(found) => vec![found],
        None => all.iter().filter(|one| !one.addresses.is_empty() && !one.is_loopback()).collect(),
    };
    with_members(all, chosen)
}

/// The interfaces with these names, or which is not there.
pub fn named<'a>(all: &'a [Interface], names: &[String]) -> Result<Vec<&'a Interface>, String> {
    let mut chosen = Vec::new();
    for name in names {
        let found = all.iter().find(|interface| interface.name == *name);
        chosen.push(found.ok_or_else(|| format!("--interfaces: there is no {name} here"))?);
    }
    Ok(with_members(all, chosen))
}

fn members<'a>(all: &'a [Interface], of: &Interface) -> impl Iterator<Item = &'a Interface> {
    let index = of.index;
    all.iter().filter(move |port| port.master == Some(index))
}

/// A bond hands the program on to its members: each has to take it.
fn with_members<'a>(all: &'a [Interface], chosen: Vec<&'a Interface>) -> Vec<&'a Interface> {
    let is_bond = |interface: &Interface| interface.kind.as_deref() == Some("bond");
    let its = |interface: &'a Interface| is_bond(interface).then(|| members(all, interface)).into_iter().flatten();
    chosen.into_iter().flat_map(|interface| std::iter::once(interface).chain(its(interface))).collect()
}

/// What is known of one.
pub fn port(interface: &Interface) -> Port {
    let ethtool = Ethtool::new(&interface.name);
    let card = Card::of(interface);
    Port {
        channels: ethtool.as_ref().and_then(Ethtool::channels),
        merges_received: ethtool.as_ref().is_some_and(Ethtool::merges_received),
        mtu: interface.mtu,
        program: interface.program.map(|(number, mode)| Program {
            number,
            name: interfaces::program_name(number),
            native: mode == Mode::Native,
        }),
        bond: (card.kind.as_deref() == Some("bond")).then(|| bond(&interface.name)),
        host_offloads: card.driver.as_deref() == Some("virtio_net") && host_offloads(&interface.name),
        card,
    }
}

/// How a bond spreads packets: words of its files, each with a number behind it.
fn bond(interface: &str) -> Bond {
    let word = |file: &str| {
        let text = fs::read_to_string(format!("/sys/class/net/{interface}/bonding/{file}")).unwrap_or_default();
        text.split_whitespace().next().unwrap_or_default().to_owned()
    };
    Bond { mode: word("mode"), hash: word("xmit_hash_policy") }
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
