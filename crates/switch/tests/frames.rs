//! What the XDP program leaves to the kernel: everything that is not a Wayside packet in plain Ethernet, IPv4 and UDP.
#![cfg(feature = "xdp")]

mod engine;

use std::time::Duration;

use engine::bpf::{Bpf, CLIENT, ENVELOPE, SWITCH, Upcall, frame, run_on, to_switch};
use engine::{Engine, Globals, Node, Region, Slot, State, TO_CONTROLLER, TO_NODE, TO_SENDER};
use wayside_wire::{Entry, Header, NodeState, entry_at, entry_flag, kind, service};

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;

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

/// Nodes 1 and 2 live, slot 0 OPEN with node 2 as agent.
fn open_slot() -> State {
    let mut state = State::default();
    for node in &mut state.nodes[1..=2] {
        *node = Node { word: (NodeState::Live as u64) << 56, address: 0x0a09_0003, agent_port: 9_000, ..*node };
    }
    state.regions[0] = Region { count: 1, ..Region::default() };
    state.slots[0] = Slot { w0: 1 << 62 | 2 << 44 | 7, w1: 0 };
    state.globals = Globals { epoch: 1, serving: 1, ..Globals::default() };
    state
}

fn acquire(flags: u8) -> Vec<u8> {
    let mut packet = vec![0; entry_at(1)];
    header_of(1).write(&mut packet);
    Entry { holder: 1, flags, ..Entry::default() }.write(&mut packet, entry_at(0));
    packet
}

/// Of an ACQUIRE of node 1.
fn header_of(count: u8) -> Header {
    Header { service: service::LOCK, kind: kind::lock::ACQUIRE, count, source: 1, epoch: 1, ..Header::default() }
}

#[test]
fn what_follows_a_packet_is_none_of_its_entries() {
    if let Some(why) = Bpf::missing() {
        return println!("skipped: frames through XDP: {why}");
    }
    let mut bpf = Bpf::load(false);
    let mut state = open_slot();
    state.regions[0].count = 4;
    state.slots[0] = Slot::default();
    bpf.set(&state);
    let mut packet = vec![0; entry_at(3)];
    header_of(2).write(&mut packet);
    for slot in 0..3 {
        let index = slot as usize;
        Entry { slot, holder: 1, ..Entry::default() }.write(&mut packet, entry_at(index));
    }
    let mut sent = frame(&to_switch(20_001), &packet[..entry_at(2)], true);
    sent.extend(&packet[entry_at(2)..]);
    let (code, out) = bpf.run(&sent);
    assert_eq!((code, out[ENVELOPE + 4]), (XDP_TX, kind::lock::GRANT));
    assert_eq!(out.len(), ENVELOPE + entry_at(2), "it is cut off");
    let after = bpf.get();
    assert!(after.slots[..2].iter().all(|slot| *slot != Slot::default()), "two were asked for: {:?}", after.slots);
    assert_eq!(after.slots[2..], state.slots[2..], "and no more");
}

#[test]
fn what_has_no_way_is_handed_up() {
    if let Some(why) = Bpf::missing() {
        return println!("skipped: frames through XDP: {why}");
    }
    let mut bpf = Bpf::load(false);
    bpf.forget_ways();
    bpf.set(&open_slot());
    // A join: the GRANT goes back by itself, the JOIN is the daemon's to send.
    let (code, out) = bpf.run(&frame(&to_switch(20_001), &acquire(0), true));
    assert_eq!((code, out[ENVELOPE + 4]), (XDP_TX, kind::lock::GRANT));
    assert_eq!(out[18..20], [0, 0], "no pair");
    let handed = Upcall { from: CLIENT.1, from_port: 20_001, action: 0, handle: 0, port: 0, copy: 0, packet: vec![] };
    // The GRANT that it is a copy of.
    let copy = Upcall { action: u16::from(TO_SENDER), copy: 2, packet: out[ENVELOPE..].to_vec(), ..handed.clone() };
    assert_eq!(bpf.upcalls(), [copy], "a copy for node 2");
    // A request for the agent's books.
    let (code, out) = bpf.run(&frame(&to_switch(20_001), &acquire(entry_flag::EXCLUSIVE), true));
    assert_eq!(code, XDP_DROP);
    assert_eq!(
        bpf.upcalls(),
        [Upcall { action: u16::from(TO_NODE), handle: 2, packet: out[ENVELOPE..].to_vec(), ..handed }]
    );
    assert_eq!(bpf.count("handed_up"), 2);
}

#[test]
fn a_full_ring_is_counted() {
    if let Some(why) = Bpf::missing() {
        return println!("skipped: frames through XDP: {why}");
    }
    let mut bpf = Bpf::load(false);
    bpf.set(&State { globals: Globals { epoch: 1, ..Globals::default() }, ..State::default() });
    let mut enrol = vec![0; 32 + 80];
    Header { kind: kind::fabric::ENROL, ..Header::default() }.write(&mut enrol);
    let sent = frame(&to_switch(20_001), &enrol, true);
    while bpf.count("handed_up_lost") == 0 {
        assert_eq!(bpf.run(&sent).0, XDP_DROP);
    }
    assert_eq!(bpf.count("handed_up") + 1, bpf.count("to_controller"));
    let upcalls = bpf.upcalls();
    assert_eq!(upcalls.len() as u64, bpf.count("handed_up"), "none of the others is lost");
    assert!(upcalls.iter().all(|upcall| upcall.action == u16::from(TO_CONTROLLER) && upcall.packet == enrol));
}

/// Whatever the sum: a half of an address goes through all of its values.
#[test]
fn checksums_of_what_goes_out_are_right() {
    if let Some(why) = Bpf::missing() {
        return println!("skipped: frames through XDP: {why}");
    }
    let mut bpf = Bpf::load(false);
    bpf.set(&open_slot());
    for half in 0..=u16::MAX {
        let mut sent = heartbeat(u64::from(half) + 1);
        // The other addresses as high as they can be: nothing of the sum may be left over.
        sent[14 + 12..14 + 20].fill(0xff);
        sent[14 + 14..14 + 16].copy_from_slice(&half.to_be_bytes());
        sent[14 + 6] = if half % 2 == 0 { 0x40 } else { 0 };
        let (code, out) = bpf.run(&sent);
        assert_eq!(code, XDP_TX, "{half:#06x}: it is answered");
        let halves = out[14..14 + 20].chunks(2).map(|half| u32::from(u16::from_be_bytes([half[0], half[1]])));
        let sum: u32 = halves.sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "{half:#06x}");
    }
}

/// A daemon sleeps until there is something.
#[test]
fn who_waits_for_what_is_handed_up_is_woken() {
    if let Some(why) = Bpf::missing() {
        return println!("skipped: frames through XDP: {why}");
    }
    let mut bpf = Bpf::load(false);
    bpf.set(&State { globals: Globals { epoch: 1, ..Globals::default() }, ..State::default() });
    let mut enrol = vec![0; 32 + 80];
    Header { kind: kind::fabric::ENROL, ..Header::default() }.write(&mut enrol);
    let ring = bpf.ring();
    let waiter = std::thread::spawn(move || Bpf::is_woken_for_upcalls(&ring, Duration::from_secs(20)));
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(bpf.run(&frame(&to_switch(20_001), &enrol, true)).0, XDP_DROP);
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

/// Of node 2.
fn heartbeat(sequence: u64) -> Vec<u8> {
    let mut packet = vec![0; 64];
    let header = Header { kind: kind::fabric::HEARTBEAT, source: 2, epoch: 1, ..Header::default() };
    header.write(&mut packet);
    wayside_wire::Heartbeat { sequence, ..Default::default() }.write(&mut packet, 32);
    frame(&to_switch(9_000), &packet, true)
}
