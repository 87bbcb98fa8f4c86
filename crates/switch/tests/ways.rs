//! What the XDP program makes of frames that it decides on, and where they go: by which port and to which next hop,
//! alone and as the two of a pair, or up to the daemon.
#![cfg(feature = "xdp")]

mod engine;

use engine::bpf::{Bpf, CLIENT, ENVELOPE, LOOPBACK, SWITCH, Upcall, Way, frame, marked_frame, to_switch};
use engine::random::{self, Random};
use engine::{Engine, Globals, NODES, Node, Region, Slot, State, TO_NODE, TO_SENDER};
use wayside_wire::{Entry, Header, Heartbeat, NodeState, entry_at, entry_flag, header_flag, kind, service};

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
const XDP_REDIRECT: u32 = 4;

/// What a frame's id says while it is one of a pair.
const PAIR: u16 = 0x8000;
const SAME_PORT: u16 = 0x4000;
const NUMBERS: u16 = 0x4000;

/// Whoever asks, and the agent of slot 0.
const HOLDER: u16 = 1;
const AGENT: u16 = 2;
const AGENT_PORT: u16 = 9_000;
const ADDRESS: [u8; 4] = [10, 9, 7, 3];
/// A second port, and the next hop behind it.
const SECOND: u32 = 77;
const SECOND_PORT: [u8; 6] = [0x12, 0x31, 0x32, 0x33, 0x34, 0x35];
const HOP: [u8; 6] = [0x16, 0x41, 0x42, 0x43, 0x44, 0x45];

/// Slot 0 is OPEN with node 2 as its agent. Every packet comes in by port 0, and node 2 is reached by port 0.
fn switch() -> Option<Bpf> {
    if let Some(why) = Bpf::missing() {
        println!("skipped: ways of frames through XDP: {why}");
        return None;
    }
    let mut bpf = Bpf::load(false);
    bpf.set(&open_slot());
    bpf.set_way(AGENT, Some((0, HOP)));
    Some(bpf)
}

fn open_slot() -> State {
    let mut state = State::default();
    for node in &mut state.nodes[1..=2] {
        let address = u32::from_be_bytes(ADDRESS);
        *node = Node { word: (NodeState::Live as u64) << 56, address, agent_port: AGENT_PORT, ..*node };
    }
    state.regions[0] = Region { count: 1, ..Region::default() };
    state.slots[0] = Slot { w0: 1 << 62 | 2 << 44 | 7, w1: 0 };
    state.globals = Globals { epoch: 1, serving: 1, ..Globals::default() };
    state
}

/// Node 2 is behind the second port.
fn move_agent(bpf: &Bpf) {
    bpf.set_port(1, SECOND, SECOND_PORT);
    bpf.set_index(SECOND, 1);
    bpf.set_way(AGENT, Some((1, HOP)));
}

/// From node 1: `EXCLUSIVE` goes to the agent's books; without it the switch grants, and the agent has a copy.
fn acquire(flags: u8) -> Vec<u8> {
    let mut packet = vec![0; entry_at(1)];
    header_of(1).write(&mut packet);
    Entry { holder: HOLDER, flags, ..Entry::default() }.write(&mut packet, entry_at(0));
    frame(&to_switch(20_001), &packet, true)
}

/// Of an ACQUIRE of node 1.
fn header_of(count: u8) -> Header {
    Header { service: service::LOCK, kind: kind::lock::ACQUIRE, count, source: HOLDER, epoch: 1, ..Header::default() }
}

/// How a packet of this frame goes to the agent, from a port of this address.
fn to_agent(from: [u8; 6], out: &[u8], id: u16) -> Vec<u8> {
    let way = Way { macs: [from, HOP], ips: [SWITCH.1, ADDRESS], ports: [7_600, AGENT_PORT] };
    marked_frame(&way, &out[ENVELOPE..], false, id.to_be_bytes())
}

/// And back to node 1.
fn to_holder(out: &[u8], id: u16) -> Vec<u8> {
    let way = Way { macs: [SWITCH.0, CLIENT.0], ips: [SWITCH.1, CLIENT.1], ports: [7_600, 20_001] };
    marked_frame(&way, &out[ENVELOPE..], false, id.to_be_bytes())
}

#[test]
fn a_node_is_reached_by_the_port_of_its_way() {
    let Some(bpf) = switch() else { return };
    let forwarded = acquire(entry_flag::EXCLUSIVE);
    let (code, out) = bpf.run(&forwarded);
    assert_eq!((code, &out), (XDP_TX, &to_agent(SWITCH.0, &out, 0)), "by the port that it came in by");
    move_agent(&bpf);
    assert_eq!(bpf.run(&forwarded).0, XDP_DROP, "nothing leaves by the second port yet");
    bpf.let_out(1);
    let (code, out) = bpf.run(&forwarded);
    assert_eq!((code, &out), (XDP_REDIRECT, &to_agent(SECOND_PORT, &out, 0)), "by the other one");
    bpf.set_port(1, 0, SECOND_PORT);
    let (code, out) = bpf.run(&forwarded);
    assert_eq!(code, XDP_DROP, "a port that is no longer there");
    let handed = Upcall {
        from: CLIENT.1,
        from_port: 20_001,
        action: u16::from(TO_NODE),
        handle: AGENT,
        port: 0,
        copy: 0,
        packet: out[ENVELOPE..].to_vec(),
    };
    assert_eq!(bpf.upcalls(), [handed], "is the daemon's to send");
    assert_eq!(out[..ENVELOPE], forwarded[..ENVELOPE], "and nothing is made of it before");
}

#[test]
fn what_goes_out_has_hops_of_its_own() {
    let Some(bpf) = switch() else { return };
    for hops in [1, 63, 65, 255] {
        let mut sent = acquire(entry_flag::EXCLUSIVE);
        sent[14 + 8] = hops;
        let (code, out) = bpf.run(&sent);
        assert_eq!((code, &out), (XDP_TX, &to_agent(SWITCH.0, &out, 0)), "after {hops}");
    }
}

#[test]
fn what_follows_a_packet_is_none_of_its_entries() {
    let Some(mut bpf) = switch() else { return };
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

/// Whatever the sum: a half of an address goes through all of its values.
#[test]
fn checksums_of_what_goes_out_are_right() {
    let Some(bpf) = switch() else { return };
    for half in 0..=u16::MAX {
        let mut sent = heartbeat(HOP, 0, u64::from(half) + 1);
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

#[test]
fn what_has_no_way_is_handed_up() {
    let Some(bpf) = switch() else { return };
    bpf.forget_ways();
    // A join: the GRANT goes back by itself, the JOIN is the daemon's to send.
    let (code, out) = bpf.run(&acquire(0));
    assert_eq!((code, out[ENVELOPE + 4]), (XDP_TX, kind::lock::GRANT));
    assert_eq!(out[18..20], [0, 0], "no pair");
    let handed = Upcall { from: CLIENT.1, from_port: 20_001, action: 0, handle: 0, port: 0, copy: 0, packet: vec![] };
    // The GRANT that it is a copy of.
    let copy = Upcall { action: u16::from(TO_SENDER), copy: AGENT, packet: out[ENVELOPE..].to_vec(), ..handed.clone() };
    assert_eq!(bpf.upcalls(), [copy], "a copy for node 2");
    // A request for the agent's books.
    let (code, out) = bpf.run(&acquire(entry_flag::EXCLUSIVE));
    assert_eq!(code, XDP_DROP);
    assert_eq!(
        bpf.upcalls(),
        [Upcall { action: u16::from(TO_NODE), handle: AGENT, packet: out[ENVELOPE..].to_vec(), ..handed }]
    );
    assert_eq!(bpf.count("handed_up"), 2);
}

/// The GRANT that came out, which is one of a pair of this kind, and its mark.
fn pair(bpf: &Bpf, kind: u16) -> (Vec<u8>, u16) {
    let (code, out) = bpf.run(&acquire(0));
    let mark = u16::from_be_bytes([out[18], out[19]]);
    assert_eq!((code, mark & (PAIR | SAME_PORT)), (XDP_REDIRECT, kind));
    assert_eq!(out, to_holder(&out, mark));
    assert_eq!(out[ENVELOPE + 4], kind::lock::GRANT);
    (out, mark)
}

fn leaves_as_grant(bpf: &Bpf, of_pair: &[u8]) {
    assert_eq!(bpf.leave(of_pair), (XDP_PASS, to_holder(of_pair, 0)), "a GRANT, finished");
}

fn leaves_as_join(bpf: &Bpf, of_pair: &[u8], from: [u8; 6]) {
    let (code, out) = bpf.leave(of_pair);
    assert_eq!(out[ENVELOPE + 4], kind::lock::JOIN);
    assert_eq!((code, &out), (XDP_PASS, &to_agent(from, &out, 0)), "a JOIN, finished");
    let copy = bpf.copied(&of_pair[ENVELOPE..]).expect("nothing is signed");
    assert_eq!(out[ENVELOPE..], copy, "of the GRANT");
}

#[test]
fn of_a_pair_by_one_port_the_second_to_leave_is_the_join() {
    let Some(mut bpf) = switch() else { return };
    let mut of_number = |number| {
        if number % 256 == 255 {
            bpf.set(&open_slot()); // There are not as many holders of a lock.
        }
        pair(&bpf, PAIR | SAME_PORT)
    };
    let pairs: Vec<(Vec<u8>, u16)> = (0..1_100).map(&mut of_number).collect();
    let numbers: Vec<u16> = pairs.iter().map(|(_, mark)| mark % NUMBERS).collect();
    assert!(numbers.windows(2).all(|two| two[0] + 1 == two[1]), "one after the other: {numbers:?}");
    for (of_pair, _) in &pairs {
        leaves_as_grant(&bpf, of_pair);
    }
    for (of_pair, _) in pairs.iter().rev() {
        leaves_as_join(&bpf, of_pair, SWITCH.0);
    }
    for (of_pair, _) in &pairs {
        leaves_as_grant(&bpf, of_pair);
        leaves_as_join(&bpf, of_pair, SWITCH.0);
    }
}

#[test]
fn numbers_of_pairs_begin_anew() {
    let Some(mut bpf) = switch() else { return };
    let (first, mark) = pair(&bpf, PAIR | SAME_PORT);
    for number in 1..=NUMBERS {
        if number % 256 == 0 {
            bpf.set(&open_slot()); // There are not as many holders of a lock.
        }
        let (next, next_mark) = pair(&bpf, PAIR | SAME_PORT);
        assert_eq!(next_mark % NUMBERS, mark.wrapping_add(number) % NUMBERS);
        leaves_as_grant(&bpf, &next);
        leaves_as_join(&bpf, &next, SWITCH.0);
    }
    leaves_as_grant(&bpf, &first);
}

#[test]
fn of_a_pair_by_two_ports_the_one_by_the_agents_port_is_the_join() {
    let Some(bpf) = switch() else { return };
    move_agent(&bpf);
    bpf.join_ports(0, 1);
    let (of_pair, _) = pair(&bpf, PAIR);
    for _ in 0..2 {
        leaves_as_grant(&bpf, &of_pair);
    }
    // As if the agent's port were the one that it leaves by here.
    bpf.set_port(1, LOOPBACK, SECOND_PORT);
    for _ in 0..2 {
        leaves_as_join(&bpf, &of_pair, SECOND_PORT);
    }
    bpf.set_port(1, 0, SECOND_PORT);
    leaves_as_grant(&bpf, &of_pair);
    bpf.set_way(AGENT, None);
    leaves_as_grant(&bpf, &of_pair);
}

#[test]
fn a_pair_is_of_the_port_that_its_grant_leaves_by() {
    let Some(bpf) = switch() else { return };
    bpf.set_port(1, SECOND, SECOND_PORT);
    bpf.set_index(LOOPBACK, 1);
    bpf.join_ports(1, 0);
    let (of_pair, _) = pair(&bpf, PAIR);
    leaves_as_join(&bpf, &of_pair, SWITCH.0);
}

/// What a queue makes of one packet for two others.
#[test]
fn what_goes_to_two_nodes_without_ways_is_handed_up_twice() {
    let Some(mut bpf) = switch() else { return };
    bpf.forget_ways();
    let mut seen = 0;
    for seed in 0..1_000 {
        let mut random = Random::new(seed);
        let mut state = random::state_of(seed, &mut random);
        bpf.set(&state);
        for _ in 0..100 {
            let (packet, from_port) = random::packet(&mut random, &state);
            // Heartbeats teach some.
            (0..NODES as u16).for_each(|handle| bpf.set_way(handle, None));
            let (code, out) = bpf.run(&frame(&to_switch(from_port), &packet, true));
            let (verdict, upcalls) = (bpf.verdict(), bpf.upcalls());
            state = bpf.get();
            if verdict.action != TO_NODE || verdict.copy == 0 {
                continue;
            }
            seen += 1;
            let packet = Upcall {
                from: CLIENT.1,
                from_port,
                action: u16::from(TO_NODE),
                handle: verdict.handle,
                port: verdict.port,
                copy: 0,
                packet: out[ENVELOPE..ENVELOPE + usize::from(verdict.length)].to_vec(),
            };
            assert_eq!(upcalls, [Upcall { copy: verdict.copy, ..packet.clone() }, packet], "seed {seed}");
            assert_eq!(code, XDP_DROP);
        }
        if seen >= 20 {
            return;
        }
    }
    panic!("{seen} packets for two others");
}

#[test]
fn of_a_pair_by_one_port_no_join_leaves_for_an_agent_that_is_gone() {
    let Some(bpf) = switch() else { return };
    let (of_pair, _) = pair(&bpf, PAIR | SAME_PORT);
    leaves_as_grant(&bpf, &of_pair);
    bpf.set_way(AGENT, None);
    assert_eq!(bpf.leave(&of_pair).0, XDP_DROP);
}

/// In generic mode there are none.
#[test]
fn without_a_pair_of_its_ports_the_join_is_handed_up() {
    let Some(bpf) = switch() else { return };
    move_agent(&bpf);
    let (code, out) = bpf.run(&acquire(0));
    assert_eq!((code, &out), (XDP_TX, &to_holder(&out, 0)));
    let [handed] = &bpf.upcalls()[..] else { panic!("one") };
    assert_eq!((handed.action, handed.copy, handed.packet.as_slice()), (u16::from(TO_SENDER), AGENT, &out[ENVELOPE..]));
    // Nor by a pair of others: there is one at each place where a slip would look.
    bpf.set_index(LOOPBACK, 1);
    bpf.join_ports(0, 15);
    bpf.set_way(AGENT, None);
    assert_eq!(bpf.run(&acquire(0)).0, XDP_TX);
    assert_eq!(bpf.upcalls().len(), 1);
    bpf.set_way(AGENT, Some((0, HOP)));
    assert_eq!(bpf.run(&acquire(0)).0, XDP_TX);
    assert_eq!(bpf.upcalls().len(), 1);
    // Nor from a port that the loader does not know, even where it has a pair.
    bpf.join_ports(0, 1);
    bpf.set_index(LOOPBACK, 16);
    assert_eq!(bpf.run(&acquire(0)).0, XDP_TX);
    assert_eq!(bpf.upcalls().len(), 1);
}

#[test]
fn what_is_not_of_a_pair_leaves_as_it_is() {
    let Some(bpf) = switch() else { return };
    let (of_pair, mark) = pair(&bpf, PAIR | SAME_PORT);
    let mut alone = of_pair.clone();
    alone[18..20].copy_from_slice(&(mark & !PAIR).to_be_bytes());
    for _ in 0..2 {
        assert_eq!(bpf.leave(&alone), (XDP_PASS, alone.clone()));
    }
    let short = &of_pair[..of_pair.len() - 1];
    assert_eq!(bpf.leave(short), (XDP_DROP, short.to_vec()), "no entry's length");
    leaves_as_grant(&bpf, &of_pair);
    leaves_as_join(&bpf, &of_pair, SWITCH.0);
}

/// Of node 2, from a next hop of this address.
fn heartbeat(hop: [u8; 6], incarnation: u64, sequence: u64) -> Vec<u8> {
    let mut packet = vec![0; 64];
    Header { kind: kind::fabric::HEARTBEAT, source: AGENT, epoch: 1, ..Header::default() }.write(&mut packet);
    Heartbeat { sequence, incarnation, ..Heartbeat::default() }.write(&mut packet, 32);
    frame(&Way { macs: [hop, SWITCH.0], ..to_switch(AGENT_PORT) }, &packet, true)
}

#[test]
fn a_way_is_learned_from_heartbeats_that_are_taken() {
    let Some(bpf) = switch() else { return };
    let second = [0x1a, 0x51, 0x52, 0x53, 0x54, 0x55];
    let (code, out) = bpf.run(&heartbeat(second, 0, 1));
    assert_eq!((code, out[ENVELOPE + 4]), (XDP_TX, kind::fabric::HEARTBEAT_ACK));
    assert_eq!(bpf.way(AGENT), Some((0, second)));
    // By another port.
    bpf.set_port(5, LOOPBACK, SECOND_PORT);
    bpf.set_index(LOOPBACK, 5);
    bpf.run(&heartbeat(HOP, 0, 2));
    assert_eq!(bpf.way(AGENT), Some((5, HOP)));
    // A replayed one, and another incarnation's, which is told that its session is over.
    bpf.run(&heartbeat(second, 0, 2));
    let (code, out) = bpf.run(&heartbeat(second, 7, 3));
    let flags = Header::read(&out[ENVELOPE..]).expect("a packet").flags;
    assert_eq!((code, flags & header_flag::EXPIRED), (XDP_TX, header_flag::EXPIRED));
    assert_eq!(bpf.way(AGENT), Some((5, HOP)));
    // By an interface that is no port.
    bpf.set_index(LOOPBACK, 16);
    assert_eq!(bpf.run(&heartbeat(second, 0, 4)).0, XDP_TX);
    assert_eq!(bpf.way(AGENT), Some((5, HOP)));
    // What is no heartbeat teaches nothing: neither an answer of the lock service nor a packet for another node.
    bpf.set_index(LOOPBACK, 5);
    bpf.run(&acquire(entry_flag::EXCLUSIVE));
    assert_eq!((bpf.way(AGENT), bpf.way(HOLDER)), (Some((5, HOP)), Some((0, CLIENT.0))));
}
