//! docs/security.md: whoever has no key changes nothing, by whatever packet. Genuine packets go through, forged ones
//! among them do not: in the end the switch is what the genuine ones alone have made of another one.

mod engine;

use engine::random::{self, Random};
use engine::{DROP, Engine, Keys, Native, State};
use wayside_wire::{DropReason, Header, header_flag};

const FORGED: u64 = 1_000_000;
/// Forged packets to one switch, which changes meanwhile by genuine ones.
const OF_A_SEED: u64 = 1_000;

/// A packet that the network's attacker makes of genuine ones: he has seen `seen`, and knows no node's key. He may know
/// one's former key.
fn forge(random: &mut Random, seen: &[Vec<u8>], state: &State) -> Vec<u8> {
    let mut packet = seen[random.below(seen.len() as u64) as usize].clone();
    let genuine = packet.clone();
    while packet == genuine {
        match random.below(7) {
            // One bit, anywhere.
            0 => flip(random, &mut packet, 0),
            // Several fields at once, under the old tag.
            1 => (0..1 + random.below(8)).for_each(|_| flip(random, &mut packet, 4)),
            // A packet of his own, under a tag of chance or none.
            2 => {
                packet = random::packet(random, state).0;
                packet.resize(packet.len().max(64), 0);
                let tag = if random.once_in(2) { random.next() } else { 0 };
                packet[24..32].copy_from_slice(&tag.to_be_bytes());
            }
            // Under another's key: of a node that he is, but not here, or of none.
            3 => {
                let stranger = 1_000 + random.below(100) as u16;
                Keys::of_handle(stranger).sign_up(random.below(2) as usize, &mut packet);
            }
            // What the switch itself signed, sent back to it.
            4 => Keys::of_handle(source_of(&packet)).sign_down(&mut packet),
            // Another tag, another packet's.
            5 => {
                let other = &seen[random.below(seen.len() as u64) as usize];
                packet[24..32].copy_from_slice(&other[24..32]);
            }
            // The same tag said to be the other key's.
            _ => {
                let flags = flags_of(&packet) ^ header_flag::KEY;
                packet[6..8].copy_from_slice(&flags.to_be_bytes());
            }
        }
    }
    packet
}

fn flip(random: &mut Random, packet: &mut [u8], from: usize) {
    let at = from + random.below((packet.len() - from) as u64) as usize;
    packet[at] ^= 1 << random.below(8);
}

fn source_of(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[8], packet[9]])
}

fn flags_of(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[6], packet[7]])
}

/// A packet that its source has signed, and so whole that nothing but its tag is looked at first.
fn genuine(random: &mut Random, state: &State) -> (Vec<u8>, u16) {
    loop {
        let (mut packet, port) = random::packet(random, state);
        if Header::read(&packet).is_ok_and(|header| wayside_wire::check(&packet) == Ok(header))
            && packet.len() % 32 == 0
        {
            Keys::of_handle(source_of(&packet)).sign_up(random.below(2) as usize, &mut packet);
            return (packet, port);
        }
    }
}

#[test]
fn a_million_forged_packets_change_nothing() {
    let (mut attacked, mut alone) = (Native::new(), Native::new());
    let mut changes = 0;
    for seed in 0..FORGED / OF_A_SEED {
        // Seeds whose switches have authentication on.
        let mut random = Random::new(seed);
        let mut state = random::state_of(seed * 8 + 4, &mut random);
        for (handle, keys) in state.keys.iter_mut().enumerate().skip(1) {
            *keys = Keys::of_handle(handle as u16);
        }
        attacked.set(&state);
        alone.set(&state);
        let mut seen = vec![];
        for _ in 0..OF_A_SEED {
            if random.once_in(4) || seen.is_empty() {
                let (packet, port) = genuine(&mut random, &state);
                let before = alone.get();
                assert_eq!(attacked.process(&packet, port, None), alone.process(&packet, port, None));
                changes += u64::from(before != alone.get());
                seen.push(packet);
            }
            let packet = forge(&mut random, &seen, &state);
            let (verdict, _) = attacked.process(&packet, 20_001, None);
            assert_eq!(verdict.action, DROP, "seed {seed}: {packet:02x?}");
            assert_ne!(verdict.reason, DropReason::None as u8);
            let after = attacked.get();
            assert_eq!(after, alone.get(), "seed {seed}: {packet:02x?}");
            state = after;
        }
    }
    assert!(changes > FORGED / 100, "hardly any genuine packet did anything: {changes}");
}

/// A packet that was recorded comes again, later, as it was: its tag is right. What it may change is what the protocol
/// lets any late copy change, and a heartbeat's sequence is over.
#[test]
fn a_recorded_heartbeat_is_over() {
    let mut random = Random::new(4);
    let mut state = random::state_of(4, &mut random);
    state.keys[1] = Keys::of_handle(1);
    state.globals = engine::Globals { epoch: 7, serving: 1, authenticated: 1, ..state.globals };
    state.nodes[1] = engine::Node { word: 1 << 56 | 5, incarnation: 101, oldest: 101 << 40, ..state.nodes[1] };
    let mut native = Native::new();
    native.set(&state);
    let mut packet = vec![0; 64];
    let header = Header { kind: wayside_wire::kind::fabric::HEARTBEAT, source: 1, epoch: 7, ..Header::default() };
    header.write(&mut packet);
    let beat = wayside_wire::Heartbeat { sequence: 6, incarnation: 101, oldest: 101 << 40, sent_us: 9 };
    beat.write(&mut packet, 32);
    Keys::of_handle(1).sign_up(0, &mut packet);
    assert_ne!(native.process(&packet, 1, None).0.action, DROP);
    let after = native.get();
    for _ in 0..1_000 {
        let (verdict, _) = native.process(&packet, 1, None);
        assert_eq!((verdict.action, verdict.reason), (DROP, DropReason::StaleHeartbeat as u8));
    }
    assert_eq!(native.get(), after);
}
