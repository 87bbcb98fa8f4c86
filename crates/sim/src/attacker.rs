//! Whoever is on the network and has no key: what he makes of the packets that he has seen.

use wayside_wire::{BODY, Enrol, Header, kind, service};

use crate::dice::Dice;
use crate::host::Host;
use crate::network::{Flight, Way};

/// Changes an odd number of different bits, so that the packet is another one.
pub fn flip(packet: &mut [u8], dice: &mut Dice) {
    let original = packet.to_vec();
    while packet == original {
        for _ in 0..dice.pick(&[1, 1, 1, 2, 5]) {
            let bit = dice.below(packet.len() as u64 * 8) as usize;
            packet[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// A packet of his, for the switch or for a host: one that he has seen, changed, or sent where it does not belong. What
/// is only sent from or to another address is as its sender signed it: answers go astray, and whom it is not meant for
/// knows.
pub fn forge(seen: &[Flight], hosts: u64, dice: &mut Dice) -> Flight {
    let mut flight = seen[dice.below(seen.len() as u64) as usize].clone();
    flight.is_tampered = true;
    let other = |dice: &mut Dice, host: usize| (host as u64 + 1 + dice.below(hosts - 1)) as usize % hosts as usize;
    match dice.below(8) {
        // The kind, flags, source, destination, epoch or position of his choice, under the old tag.
        0 => {
            let at = 4 + dice.below(20) as usize;
            flight.packet[at] = flight.packet[at].wrapping_add(1 + dice.below(255) as u8);
        }
        // What it asks for.
        1 => {
            let behind = flight.packet.len() as u64 - 32;
            let at = 32 + dice.below(behind) as usize;
            flight.packet[at] = flight.packet[at].wrapping_add(1 + dice.below(255) as u8);
        }
        // No tag, or one of chance.
        2 => flight.packet[24..32].fill(0),
        3 => flight.packet[24..32].copy_from_slice(&dice.any().to_be_bytes()),
        // Back to where it came from: what one end signs the other must not take for its own.
        4 => flight.way = if flight.way == Way::Up { Way::Down } else { Way::Up },
        // From another host, or to another one.
        5 => {
            readdress(&mut flight, |host| other(dice, host));
            flight.is_tampered = false;
        }
        // A session of his own, as where nothing is signed.
        6 => {
            flight.way = Way::Up;
            flight.packet = vec![0; BODY + Enrol::BYTES];
            let header = Header { service: service::FABRIC, kind: kind::fabric::ENROL, ..Header::default() };
            header.write(&mut flight.packet);
            Enrol { nonce: dice.any(), ..Enrol::default() }.write(&mut flight.packet, BODY);
        }
        _ => flight.packet[6] ^= 2, // The other key.
    }
    flight
}

fn readdress(flight: &mut Flight, other: impl FnOnce(usize) -> usize) {
    flight.host = other(flight.host);
    flight.socket = Host::socket(flight.host, flight.socket.port());
}
