//! What the XDP hook would be like here: from facts about the host and its ports to findings. [`super::facts`] gathers
//! them, [`crate::card`] knows the drivers.

use super::{Finding, note, ok};
use crate::card::Card;
use crate::card::drivers::{Limits, Queues, limits};
use crate::card::ethtool::Channels;
use crate::card::netdev::BASIC;

/// The first with `bpf_xdp_load_bytes`, by which the program hands packets to the daemon.
const LEAST_KERNEL: (u32, u32) = (5, 18);
const CHECK: &str = "XDP";

/// What the host says.
#[derive(Clone, Debug)]
pub struct Host {
    /// Of the kernel's release; (0, 0) if it is not known.
    pub kernel: (u32, u32),
    pub root: bool,
    /// Capabilities that the program needs and this process lacks.
    pub missing: Vec<&'static str>,
    /// Whether BPF programs are compiled; None if it is not told.
    pub compiles: Option<bool>,
    /// Whether /sys/fs/bpf is bpffs.
    pub has_bpffs: bool,
    pub processors: u32,
}

/// One network interface, as the kernel tells it.
#[derive(Clone, Debug, Default)]
pub struct Port {
    pub card: Card,
    pub mtu: u32,
    pub channels: Option<Channels>,
    pub merges_received: bool,
    pub program: Option<Program>,
    pub bond: Option<Bond>,
    /// A virtio card whose host may join or not checksum what it delivers, and can't be told not to.
    pub host_offloads: bool,
}

/// How a bond spreads packets over its members, in the kernel's words; empty where they are not told.
#[derive(Clone, Debug, Default)]
pub struct Bond {
    pub mode: String,
    pub hash: String,
}

/// What has the hook already.
#[derive(Clone, Debug)]
pub struct Program {
    pub number: u32,
    /// If this process may know it.
    pub name: Option<String>,
    pub native: bool,
}

/// What is to be said of the hook on this host.
pub fn findings(host: &Host, ports: &[Port]) -> Vec<Finding> {
    let mut findings = vec![may_load(host)];
    if host.compiles == Some(false) {
        findings.push(note(
            CHECK,
            "BPF programs are interpreted: the switch's takes many times as long",
            "sysctl net.core.bpf_jit_enable=1",
        ));
    }
    for port in ports {
        findings.extend(of_port(host, port));
    }
    findings
}

fn may_load(host: &Host) -> Finding {
    let Host { kernel: (major, minor), missing, .. } = host;
    if host.kernel != (0, 0) && host.kernel < LEAST_KERNEL {
        return note(
            CHECK,
            format!("Linux {major}.{minor}: the switch stays in userspace"),
            format!("use Linux {}.{} or newer", LEAST_KERNEL.0, LEAST_KERNEL.1),
        );
    }
    if !host.root {
        return note(CHECK, "needs root: the switch stays in userspace", "run `wayside switch` as root");
    }
    if !missing.is_empty() {
        return note(
            CHECK,
            format!("root here lacks {}: the switch stays in userspace", missing.join(", ")),
            "give the container these capabilities",
        );
    }
    let place = if host.has_bpffs { "/sys/fs/bpf is there" } else { "/sys/fs/bpf will be mounted" };
    ok(CHECK, format!("the kernel loads the program; {place}"))
}

/// The complaints about a port; if there are none, what it is.
fn of_port(host: &Host, port: &Port) -> Vec<Finding> {
    let name = &port.card.name;
    match port.card.kind.as_deref() {
        Some("bridge") => {
            return vec![ok(CHECK, format!("{name} is a bridge: the program goes on its ports, which a switch finds"))];
        }
        Some("vlan") => {
            return vec![note(
                CHECK,
                format!("{name} is a VLAN: no native XDP, and the program of the card below passes tagged packets on"),
                "give the switch an untagged address for the hook",
            )];
        }
        _ => {}
    }
    let limits = limits(port.card.driver.as_deref().unwrap_or_default());
    let mut complaints: Vec<Finding> =
        [taken(port), bonded(port), ability(host, port, &limits)].into_iter().flatten().collect();
    // A program that runs has passed these, and what it took is in the counts.
    if port.program.is_none() {
        complaints.extend(mtu(port, &limits));
        // Without native XDP nothing is sent by queues of its own.
        let queues = || queues(host, port, &limits);
        complaints.extend(host_offloads(port).or_else(|| merging(port, &limits)).or_else(queues));
    }
    if complaints.is_empty() { vec![ok(CHECK, described(port, &limits))] } else { complaints }
}

fn described(port: &Port, limits: &Limits) -> String {
    let driver = port.card.driver.as_deref().unwrap_or("no driver known");
    let mut text = format!("{}: {driver}, MTU {}", port.card.name, port.mtu);
    if let Some(most) = limits.mtu.filter(|_| !port.card.is_veth()) {
        text.push_str(&format!(" of at most {most}"));
    }
    if let Some(Program { number, native, .. }) = port.program {
        let how = if native { "native" } else { "generic" };
        text.push_str(&format!("; Wayside's own program has the hook ({how} XDP, number {number})"));
    } else if port.card.features.is_none() && !limits.known {
        text.push_str("; whether it has native XDP shows when the switch starts");
    }
    text
}

/// Another program has the hook.
fn taken(port: &Port) -> Option<Finding> {
    let Program { number, name, .. } = port.program.as_ref()?;
    // As BPF cuts names: 15 bytes of `wayside`.
    if name.as_deref() == Some("wayside") {
        return None;
    }
    let name = name.as_deref().map_or_else(String::new, |name| format!(", {name}"));
    Some(note(
        CHECK,
        format!(
            "{}: another program (number {number}{name}) has the hook: the switch stays in userspace",
            port.card.name
        ),
        format!("`bpftool prog show id {number}` tells whose it is; end it, or choose other --interfaces"),
    ))
}

/// A bond that spreads packets in a way that the kernel does not for XDP: `bond_xdp_check` in its driver.
fn bonded(port: &Port) -> Option<Finding> {
    let Bond { mode, hash } = port.bond.as_ref()?;
    let name = &port.card.name;
    let (how, fix) = match (mode.as_str(), hash.as_str()) {
        ("balance-xor" | "802.3ad", "vlan+srcmac") => (
            "that hashes by VLAN and source".to_owned(),
            format!("ip link set dev {name} type bond xmit_hash_policy layer3+4"),
        ),
        ("balance-rr" | "active-backup" | "balance-xor" | "802.3ad" | "", _) => return None,
        (mode, _) => (format!("in mode {mode}"), "make it one of mode 802.3ad or active-backup".to_owned()),
    };
    Some(note(CHECK, format!("{name}: a bond {how}, for which there is no native XDP: generic XDP"), fix))
}

/// What the driver can do at all: by its own word, or by what is known of it.
fn ability(host: &Host, port: &Port, limits: &Limits) -> Option<Finding> {
    let Card { name, kind, driver, features } = &port.card;
    let driver = driver.as_deref().unwrap_or("its driver");
    if kind.as_deref() == Some("veth") {
        return (!port.program.as_ref().is_some_and(|program| program.native)).then(|| {
            note(
                CHECK,
                format!("{name}: veth, where native XDP answers only if the other end has a program: auto is generic"),
                "attach any XDP program at the other end, then use --mode native",
            )
        });
    }
    if features.is_some_and(|features| features & BASIC == 0) {
        return Some(note(
            CHECK,
            format!(
                "{name}: {driver} has no native XDP as it is set up: generic XDP, for the price of the kernel's stack"
            ),
            limits.remedy.unwrap_or("none is needed; a card with native XDP is faster"),
        ));
    }
    let attached = port.program.as_ref().is_some_and(|program| program.native);
    port.card.loses(host.kernel, attached).map(|why| {
        note(
            CHECK,
            format!("{why}: auto is generic, for the price of the kernel's stack"),
            "none is needed; a card that redirects is faster, and a newer kernel may make this one do so",
        )
    })
}

fn mtu(port: &Port, limits: &Limits) -> Option<Finding> {
    let most = limits.mtu.filter(|most| port.mtu > *most)?;
    let Card { name, driver, .. } = &port.card;
    let driver = driver.as_deref().unwrap_or_default();
    let fix = format!("ip link set dev {name} mtu {most}, at both ends");
    if port.card.is_veth() {
        // That end may be in a network namespace where nobody looks; mostly both have the same.
        let text =
            format!("{name}: MTU {}: if the other end's is above {most} too, veth takes no native XDP here", port.mtu);
        return Some(note(CHECK, text, fix));
    }
    Some(note(CHECK, format!("{name}: MTU {}, with XDP {driver} takes at most {most}", port.mtu), fix))
}

fn queues(host: &Host, port: &Port, limits: &Limits) -> Option<Finding> {
    let (name, channels) = (&port.card.name, port.channels?);
    let cpus = host.processors;
    match limits.queues {
        Queues::Any => None,
        Queues::Half => {
            let combined = channels.most_combined > 0;
            let (have, most) = if combined {
                (channels.combined, channels.most_combined)
            } else {
                (channels.receive.max(channels.send), channels.most_receive.min(channels.most_send))
            };
            let half = most / 2;
            let set = if combined { format!("combined {half}") } else { format!("rx {half} tx {half}") };
            let uneven = !combined && channels.receive != channels.send;
            if half == 0 {
                let finding = format!("{name}: {most} channel, and XDP wants as many again to send by");
                return Some(note(CHECK, finding, "use a machine with more of them; until then it is generic XDP"));
            }
            (have > half || uneven).then(|| {
                note(
                    CHECK,
                    format!("{name}: {have} of {most} channels are in use, and XDP wants as many again to send by"),
                    format!("ethtool -L {name} {set}"),
                )
            })
        }
        Queues::OneMoreForEachProcessor => {
            let (have, most) = (channels.combined, channels.most_combined);
            (have + cpus > most).then(|| {
                let fix = match most.checked_sub(cpus) {
                    Some(rest @ 1..) => format!("ethtool -L {name} combined {rest}"),
                    _ => format!("give the machine's card {} queues (QEMU: queues={0} for its netdev)", 2 * cpus),
                };
                let finding =
                    format!("{name}: {have} of {most} queues are in use, none left for each of {cpus} processors: XDP sends under a lock");
                note(CHECK, finding, fix)
            })
        }
        Queues::Combined => (channels.combined == 0).then(|| {
            let count = channels.receive.min(channels.send).max(1);
            note(
                CHECK,
                format!("{name}: receives and sends by separate channels, its driver wants combined ones for XDP"),
                format!("ethtool -L {name} rx 0 tx 0 combined {count}"),
            )
        }),
    }
}

fn merging(port: &Port, limits: &Limits) -> Option<Finding> {
    (limits.refuses_merging && port.merges_received).then(|| {
        let finding = format!("{}: joins received packets (LRO), with which its driver refuses XDP", port.card.name);
        note(CHECK, finding, format!("ethtool -K {} lro off", port.card.name))
    })
}

fn host_offloads(port: &Port) -> Option<Finding> {
    port.host_offloads.then(|| {
        note(
            CHECK,
            format!(
                "{}: the hypervisor joins received packets, and its card can't be told not to: no native XDP",
                port.card.name
            ),
            "switch guest_tso4, guest_tso6, guest_ecn, guest_ufo and guest_csum off for the machine's card, or \
             ctrl_guest_offloads on",
        )
    })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
