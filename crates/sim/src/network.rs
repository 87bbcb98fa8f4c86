//! The network: what happens to a packet between two sockets. Every packet crosses one link, from a host to the switch
//! or back.

use std::net::SocketAddrV4;

use crate::attacker;
use crate::dice::Dice;
use crate::faults::Faults;
use crate::report::Counts;

/// One direction of a host's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the switch.
    Up,
    /// To the host.
    Down,
}

/// A packet on its way.
#[derive(Clone, Debug)]
pub struct Flight {
    /// Which host's link.
    pub host: usize,
    /// Which direction.
    pub way: Way,
    /// The host's socket: the packet's source on the way up, its destination on the way down.
    pub socket: SocketAddrV4,
    /// UDP payload.
    pub packet: Vec<u8>,
    /// It is not what its sender has sent, or not where: nobody may believe it.
    pub is_tampered: bool,
}

impl Flight {
    /// A packet as its sender sends it.
    pub fn new(host: usize, way: Way, socket: SocketAddrV4, packet: Vec<u8>) -> Flight {
        Flight { host, way, socket, packet, is_tampered: false }
    }
}

/// Packets that may come again later, of any age: a new one takes the place of a random one.
const REMEMBERED: usize = 1_024;

/// The links of all hosts.
pub struct Network {
    /// When each host's link carries packets again: up, down.
    cut_until: Vec<[u64; 2]>,
    remembered: Vec<Flight>,
    /// Packets put on the wire.
    pub packets: u64,
}

impl Network {
    /// Links that work.
    pub fn new(hosts: usize) -> Network {
        Network { cut_until: vec![[0; 2]; hosts], remembered: Vec::new(), packets: 0 }
    }

    /// Cuts some directions of a host's link.
    pub fn cut(&mut self, host: usize, ways: [bool; 2], until: u64) {
        for (end, _) in self.cut_until[host].iter_mut().zip(ways).filter(|(_, cut)| *cut) {
            *end = until;
        }
    }

    /// All links work.
    pub fn heal(&mut self) {
        self.cut_until.fill([0; 2]);
    }

    /// Puts a packet on the wire: when, and what, arrives.
    pub fn send(
        &mut self,
        now: u64,
        flight: Flight,
        faults: &Faults,
        dice: &mut Dice,
        fired: &mut Counts,
        mut arrive: impl FnMut(u64, Flight),
    ) {
        self.packets += 1;
        let mut count = |name| *fired.entry(name).or_default() += 1;
        if dice.chance(faults.replay) && !self.remembered.is_empty() {
            let index = dice.below(self.remembered.len() as u64) as usize;
            let old = self.remembered[index].clone();
            count("replayed");
            if now >= self.cut_until[old.host][old.way as usize] {
                arrive(now + delay(faults, dice), old);
            }
        }
        if faults.replay > 0 || faults.forgery > 0 {
            self.remember(&flight, dice);
        }
        if dice.chance(faults.forgery) {
            count("forged");
            let hosts = self.cut_until.len() as u64;
            let forged = attacker::forge(&self.remembered, hosts, dice);
            arrive(now + delay(faults, dice), forged);
        }
        if now < self.cut_until[flight.host][flight.way as usize] {
            return count("cut off");
        }
        let copies = if dice.chance(faults.duplication) { 2 } else { 1 };
        if copies == 2 {
            count("duplicated");
        }
        for _ in 0..copies {
            if dice.chance(faults.loss) {
                count("lost");
                continue;
            }
            let mut at = now + delay(faults, dice);
            if dice.chance(faults.late) {
                count("late");
                at += dice.below(faults.late_by + 1);
            }
            let sent = &flight.packet;
            let mut flight = flight.clone();
            if dice.chance(faults.corruption) {
                count("corrupted");
                corrupt(&mut flight.packet, dice);
            }
            if dice.chance(faults.flips) && !flight.packet.is_empty() {
                count("bits flipped");
                attacker::flip(&mut flight.packet, dice);
            }
            // The one may undo the other.
            flight.is_tampered |= flight.packet != *sent;
            arrive(at, flight);
        }
    }

    fn remember(&mut self, flight: &Flight, dice: &mut Dice) {
        if self.remembered.len() < REMEMBERED {
            self.remembered.push(flight.clone());
        } else if dice.percent(20) {
            let index = dice.below(REMEMBERED as u64) as usize;
            self.remembered[index].clone_from(flight);
        }
    }
}

fn delay(faults: &Faults, dice: &mut Dice) -> u64 {
    faults.delay + dice.below(faults.jitter + 1)
}

/// Breaks a packet in a way that its receiver can see. Other damage is the checksum's, or the tag's, to find.
fn corrupt(packet: &mut Vec<u8>, dice: &mut Dice) {
    match dice.below(5) {
        0 => packet.truncate(dice.below(packet.len() as u64) as usize),
        1 => packet.resize(packet.len() + 1 + dice.below(1_500) as usize, 0x55),
        2 => packet[dice.below(2) as usize] ^= 1 + dice.below(255) as u8,
        3 => packet[2] ^= 0x80 >> dice.below(4),
        _ => packet[3] |= 0x80,
    }
}
