//! What the XDP program leaves to the kernel: everything that is not a Wayside packet in plain Ethernet, IPv4 and UDP.
#![cfg(feature = "bpf")]

mod engine;

use engine::bpf::{Bpf, ENVELOPE, frame, to_switch};

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;

fn wayside_frame() -> Vec<u8> {
    frame(&to_switch(20_001), &[0x57; 64], true)
}

#[test]
fn other_frames_pass_as_they_are() {
    if let Some(why) = Bpf::missing() {
        return println!("skipped: frames through XDP: {why}");
    }
    let bpf = Bpf::load(false);
    let counted = bpf.total();
    let patched: [(&str, usize, &[u8]); 12] = [
        ("IPv6", 12, &[0x86, 0xdd]),
        ("ARP", 12, &[0x08, 0x06]),
        ("a VLAN", 12, &[0x81, 0x00]),
        ("IPv4 with options", 14, &[0x46]),
        ("IP version 5", 14, &[0x55]),
        ("TCP", 14 + 9, &[6]),
        ("a first fragment", 14 + 6, &[0x20, 0x00]),
        ("a later fragment", 14 + 6, &[0x00, 0x08]),
        ("another port", 14 + 20 + 2, &[0x1d, 0xb1]),
        ("IPv4 longer than UDP", 14 + 2, &[0, 20 + 8 + 63]),
        ("a UDP length below its header", 14 + 20 + 4, &[0, 7]),
        ("a UDP length beyond the frame", 14 + 20 + 4, &[0xff, 0xff]),
    ];
    for (what, at, bytes) in patched {
        let mut sent = wayside_frame();
        sent[at..at + bytes.len()].copy_from_slice(bytes);
        assert_eq!(bpf.run(&sent), (XDP_PASS, sent), "{what}");
    }
    // The kernel hands test runs no frame shorter than an Ethernet header.
    for length in [14, 15, 33, 34, 41, ENVELOPE, ENVELOPE + 63] {
        let sent = wayside_frame()[..length].to_vec();
        assert_eq!(bpf.run(&sent), (XDP_PASS, sent), "a frame cut to {length} bytes");
    }
    assert_eq!(bpf.total(), counted, "none of them was decided");
}

#[test]
fn what_is_sent_to_the_port_is_decided() {
    if let Some(why) = Bpf::missing() {
        return println!("skipped: frames through XDP: {why}");
    }
    let bpf = Bpf::load(false);
    let before = bpf.total();
    let mut do_not_fragment = wayside_frame();
    do_not_fragment[14 + 6] = 0x40;
    assert_eq!(bpf.run(&do_not_fragment).0, XDP_DROP, "no Wayside magic");
    assert_eq!(bpf.run(&frame(&to_switch(1), &[], true)).0, XDP_DROP, "an empty packet");
    assert_eq!(bpf.total(), before + 2, "both are counted");
}
