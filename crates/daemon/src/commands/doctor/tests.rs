//! From facts to findings: what is said of which host.

use super::super::Level;
use super::*;
use crate::card::netdev::{REDIRECT, SENDS};

fn host() -> Host {
    Host { kernel: (6, 12), root: true, missing: Vec::new(), compiles: Some(true), has_bpffs: true, processors: 4 }
}

fn card(driver: &str) -> Port {
    able(driver, Some(BASIC | REDIRECT))
}

/// One whose driver says that it has these.
fn able(driver: &str, features: Option<u64>) -> Port {
    let card = Card { name: "eth0".into(), driver: Some(driver.into()), features, ..Card::default() };
    Port { card, mtu: 1500, ..Port::default() }
}

fn combined(now: u32, most: u32) -> Option<Channels> {
    Some(Channels { combined: now, most_combined: most, ..Channels::default() })
}

/// The findings of one port: level, what it says, what is to be done.
#[track_caller]
fn expect(host: &Host, port: Port, expected: &[(Level, &str, &str)]) {
    let found = &findings(host, std::slice::from_ref(&port))[1..];
    let matches = |(finding, (level, says, fix)): (&Finding, &(Level, &str, &str))| {
        finding.level == *level && finding.finding.contains(says) && finding.fix.contains(fix)
    };
    let right = found.len() == expected.len() && found.iter().zip(expected).all(matches);
    assert!(right, "{port:?}\n{found:#?}\nexpected {expected:#?}");
}

use Level::{Note, Ok as Fine};

#[test]
fn a_host_that_can_not_load_the_program_says_what_is_missing() {
    let first = |host: &Host| {
        let finding = findings(host, &[]).remove(0);
        (finding.level, format!("{} -> {}", finding.finding, finding.fix))
    };
    assert_eq!(first(&host()).0, Fine);
    for (changed, says) in [
        (Host { kernel: (5, 17), ..host() }, "Linux 5.17: the switch stays in userspace -> use Linux 5.18 or newer"),
        (Host { root: false, missing: vec!["CAP_BPF"], ..host() }, "needs root"),
        (Host { missing: vec!["CAP_BPF"], ..host() }, "root here lacks CAP_BPF"),
    ] {
        let (level, text) = first(&changed);
        assert!(level == Note && text.contains(says), "{text}");
    }
    // An unknown release is no reason to refuse.
    assert_eq!(first(&Host { kernel: (0, 0), ..host() }).0, Fine);
    let slow = findings(&Host { compiles: Some(false), ..host() }, &[]);
    assert_eq!((slow.len(), slow[1].fix.as_str()), (2, "sysctl net.core.bpf_jit_enable=1"));
}

#[test]
fn cards_that_take_the_program_as_they_are() {
    for driver in ["mlx5_core", "i40e", "ice", "ixgbe", "igc", "ena", "gve", "mana", "virtio_net", "hv_netvsc"] {
        let port = Port { channels: combined(4, 8), ..card(driver) };
        expect(&host(), port, &[(Fine, &format!("eth0: {driver}, MTU 1500"), "")]);
    }
    expect(&host(), Port { channels: combined(4, 4), ..card("bnxt_en") }, &[(Fine, "of at most 3502", "")]);
    // One that nobody here has heard of, and that says nothing of itself.
    expect(&host(), able("newnic", None), &[(Fine, "shows when the switch starts", "")]);
}

#[test]
fn an_mtu_that_is_too_large_is_to_be_lowered_to_the_drivers_own() {
    for (driver, most) in [
        ("ena", 3498),
        ("gve", 2032),
        ("mana", 3506),
        ("virtio_net", 3506),
        ("bnxt_en", 3502),
        ("vmxnet3", 3494),
        ("igc", 1500),
    ] {
        let fix = format!("ip link set dev eth0 mtu {most}");
        let port = Port { mtu: 9001, channels: combined(2, 16), ..card(driver) };
        expect(&host(), port.clone(), &[(Note, "MTU 9001", &fix)]);
        expect(&host(), Port { mtu: most, ..port }, &[(Fine, "", "")]);
    }
}

#[test]
fn channels_are_left_for_what_xdp_sends() {
    let half = [(Note, "8 of 8 channels are in use", "ethtool -L eth0 combined 4")];
    expect(&host(), Port { channels: combined(8, 8), ..card("ena") }, &half);
    expect(&host(), Port { channels: combined(1, 1), ..card("ena") }, &[(Note, "1 channel", "a machine with more")]);
    let apart = |receive, send| Channels { receive, send, most_receive: 8, most_send: 8, ..Channels::default() };
    let fix = "ethtool -L eth0 rx 4 tx 4";
    expect(&host(), Port { channels: Some(apart(8, 8)), ..card("gve") }, &[(Note, "8 of 8", fix)]);
    expect(&host(), Port { channels: Some(apart(2, 4)), ..card("gve") }, &[(Note, "4 of 8", fix)]);
    expect(&host(), Port { channels: Some(apart(4, 4)), ..card("gve") }, &[(Fine, "", "")]);
    let locked = "XDP sends under a lock";
    expect(
        &host(),
        Port { channels: combined(4, 6), ..card("virtio_net") },
        &[(Note, locked, "ethtool -L eth0 combined 2")],
    );
    expect(&host(), Port { channels: combined(4, 4), ..card("virtio_net") }, &[(Note, locked, "queues=8")]);
    let fix = "ethtool -L eth0 rx 0 tx 0 combined 4";
    expect(&host(), Port { channels: Some(apart(8, 4)), ..card("bnxt_en") }, &[(Note, "separate channels", fix)]);
}

#[test]
fn a_driver_that_can_not_redirect_gets_generic_xdp() {
    let says = "ixgbevf of eth0 can't redirect with native XDP: auto is generic";
    expect(&host(), able("ixgbevf", Some(BASIC)), &[(Note, says, "a card that redirects")]);
    let old = Host { kernel: (5, 19), ..host() };
    expect(&old, able("mana", None), &[(Note, "can't redirect", "a newer kernel")]);
    expect(&Host { kernel: (6, 0), ..host() }, able("mana", None), &[(Fine, "mana", "")]);
    // What it sends shows once a program is attached.
    let program = || Some(Program { number: 1, name: Some("wayside".into()), native: true });
    expect(&host(), Port { program: program(), ..card("mlx5_core") }, &[(Note, "can't send", "")]);
    let sends = able("mlx5_core", Some(BASIC | REDIRECT | SENDS));
    expect(&host(), Port { program: program(), ..sends }, &[(Fine, "own program", "")]);
    // Without native XDP nothing is lost: generic XDP redirects everywhere.
    expect(&host(), able("e1000e", Some(0)), &[(Note, "no native XDP", "a card with native XDP")]);
    expect(&host(), able("gve", Some(0)), &[(Note, "no native XDP", "GQI_QPL")]);
}

#[test]
fn offloads_that_refuse_xdp_are_to_be_switched_off() {
    for driver in ["mlx5_core", "ixgbe", "gve", "hv_netvsc"] {
        let port = Port { merges_received: true, ..card(driver) };
        expect(&host(), port, &[(Note, "LRO", "ethtool -K eth0 lro off")]);
    }
    expect(&host(), Port { merges_received: true, ..card("ice") }, &[(Fine, "ice", "")]);
    let port = Port { host_offloads: true, channels: combined(1, 1), ..card("virtio_net") };
    expect(&host(), port, &[(Note, "the hypervisor joins received packets", "guest_tso4")]);
}

#[test]
fn a_program_that_has_the_hook_is_told_by_its_name() {
    let with = |name: Option<&str>| Port {
        program: Some(Program { number: 42, name: name.map(String::from), native: true }),
        // As XDP leaves it: what the program took is no complaint.
        channels: combined(8, 8),
        ..able("virtio_net", Some(BASIC | REDIRECT | SENDS))
    };
    expect(&host(), with(Some("wayside")), &[(Fine, "Wayside's own program has the hook (native XDP, number 42)", "")]);
    let fix = "bpftool prog show id 42";
    expect(&host(), with(Some("xdp_dispatcher")), &[(Note, "number 42, xdp_dispatcher", fix)]);
    expect(&host(), with(None), &[(Note, "another program (number 42)", fix)]);
}

#[test]
fn virtual_devices_have_rules_of_their_own() {
    let kind = |kind: &str| {
        let port = able(kind, Some(BASIC | REDIRECT | SENDS));
        Port { card: Card { kind: Some(kind.into()), ..port.card }, ..port }
    };
    expect(&host(), kind("bridge"), &[(Fine, "the program goes on its ports", "")]);
    expect(&host(), kind("vlan"), &[(Note, "no native XDP", "untagged")]);
    expect(&host(), kind("veth"), &[(Note, "only if the other end has a program", "--mode native")]);
    let program = Some(Program { number: 1, name: Some("wayside".into()), native: true });
    expect(&host(), Port { program, ..kind("veth") }, &[(Fine, "own program", "")]);
    let bond =
        |mode: &str, hash: &str| Port { bond: Some(Bond { mode: mode.into(), hash: hash.into() }), ..kind("bond") };
    for mode in ["balance-rr", "active-backup", "balance-xor", "802.3ad"] {
        expect(&host(), bond(mode, "layer2"), &[(Fine, "eth0: bond", "")]);
    }
    expect(&host(), bond("802.3ad", "vlan+srcmac"), &[(Note, "hashes by VLAN and source", "layer3+4")]);
    expect(&host(), bond("balance-alb", "layer2"), &[(Note, "a bond in mode balance-alb", "802.3ad")]);
}
