//! What the XDP program leaves to the kernel, everything that is not a Wayside packet in plain Ethernet, IPv4 and UDP;
//! and that the daemon hears of what is handed up to it. Where decided frames go: `ways.rs`.
#![cfg(feature = "xdp")]

mod engine;

use std::time::Duration;

use engine::bpf::{Bpf, ENVELOPE, SWITCH, frame, run_on, to_switch};
use engine::{Engine, Globals, State, TO_CONTROLLER};
use wayside_wire::{Header, kind};

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
fn what_is_sent_to_another_address_passes_where_the_switch_has_one() {
    if let Some(why) = Bpf::missing() {
        return println!("skipped: frames through XDP: {why}");
    }
    let bpf = Bpf::load_for(false, SWITCH.1);
    assert_eq!(bpf.run(&wayside_frame()).0, XDP_DROP, "its own: no Wayside magic");
    for at in 0..4 {
        let mut sent = wayside_frame();
        sent[14 + 16 + at] ^= 1;
        assert_eq!(bpf.run(&sent), (XDP_PASS, sent.clone()), "{:?}", &sent[30..34]);
    }
}

#[test]
fn what_is_sent_to_the_port_is_decided() {
    if let Some(why) = Bpf::missing() {
        return println!("skipped: frames through XDP: {why}");
    }
    // Of this thread, before it stays on one of them.
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let bpf = Bpf::load(false);
    let mut do_not_fragment = wayside_frame();
    do_not_fragment[14 + 6] = 0x40;
    for cpu in 0..cpus.min(2) {
        run_on(cpu);
        assert_eq!(bpf.run(&do_not_fragment).0, XDP_DROP, "no Wayside magic");
        assert_eq!(bpf.run(&frame(&to_switch(1), &[], true)).0, XDP_DROP, "an empty packet");
        assert_eq!(bpf.total_of_this_cpu(), 2, "both are counted, where neither a thread nor another CPU counts");
    }
}

/// A switch, and the frame of a packet that is the daemon's to answer.
fn enrolling() -> Option<(Bpf, Vec<u8>)> {
    if let Some(why) = Bpf::missing() {
        println!("skipped: frames through XDP: {why}");
        return None;
    }
    let mut bpf = Bpf::load(false);
    bpf.set(&State { globals: Globals { epoch: 1, ..Globals::default() }, ..State::default() });
    let mut enrol = vec![0; 32 + 80];
    Header { kind: kind::fabric::ENROL, ..Header::default() }.write(&mut enrol);
    Some((bpf, frame(&to_switch(20_001), &enrol, true)))
}

#[test]
fn a_full_ring_is_counted() {
    let Some((bpf, enrol)) = enrolling() else { return };
    while bpf.count("handed_up_lost") == 0 {
        assert_eq!(bpf.run(&enrol).0, XDP_DROP);
    }
    assert_eq!(bpf.count("handed_up") + 1, bpf.count("to_controller"));
    let upcalls = bpf.upcalls();
    assert_eq!(upcalls.len() as u64, bpf.count("handed_up"), "none of the others is lost");
    assert!(
        upcalls.iter().all(|upcall| upcall.action == u16::from(TO_CONTROLLER) && upcall.packet == enrol[ENVELOPE..])
    );
}

/// A daemon sleeps until there is something.
#[test]
fn who_waits_for_what_is_handed_up_is_woken() {
    let Some((bpf, enrol)) = enrolling() else { return };
    let ring = bpf.ring();
    let waiter = std::thread::spawn(move || Bpf::is_woken_for_upcalls(&ring, Duration::from_secs(20)));
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(bpf.run(&enrol).0, XDP_DROP);
    assert!(waiter.join().unwrap());
}

#[test]
fn ticks_go_on() {
    if let Some(why) = Bpf::missing() {
        return println!("skipped: frames through XDP: {why}");
    }
    let bpf = Bpf::load(false);
    let before = bpf.tick();
    std::thread::sleep(Duration::from_millis(50));
    assert!(bpf.tick() > before && before > 0);
}
