//! The network: what happens to a packet between two sockets. Every packet crosses one link, from a host to a switch or
//! back.

use std::net::SocketAddrV4;

use wayside_wire::{Header, kind, mix, service};

use crate::attacker;
use crate::dice::Dice;
use crate::faults::Mix;
use crate::schedule::{Kind, Schedule};
use crate::tally::Tally;

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
    /// Which switch is at the other end.
    pub seat: usize,
    /// Which direction.
    pub way: Way,
    /// The host's socket: the packet's source on the way up, its destination on the way down.
    pub socket: SocketAddrV4,
    /// UDP payload.
    pub packet: Vec<u8>,
    /// It is not what its sender has sent, or not where: nobody may believe it.
    pub is_tampered: bool,
}

/// What became of a packet besides that it arrives in time: for a chart.
pub enum Fate<'a> {
    /// It will arrive.
    Arrives(u64, Flight),
    /// It, or a copy of it, will not: why.
    Lost(&'a Flight, &'static str),
}

/// Packets that may come again later, of any age: a new one takes the place of a random one.
const REMEMBERED: usize = 1_024;

#[derive(Clone, Copy, Default)]
struct Line {
    /// It carries nothing until then.
    cut_until: u64,
    /// Nothing that answers a controller gets through until then.
    mute_until: u64,
    /// It is busy until then.
    busy_until: u64,
    carried: u64,
}

/// The links of all hosts.
pub struct Network {
    seed: u64,
    seats: usize,
    lines: Vec<Line>,
    remembered: Vec<Flight>,
    /// Of each host: when something that a controller asks it, or is answered, last did not go through as it should.
    troubles: Vec<Option<u64>>,
    /// Of the kind of which one is chosen to be lost: seen so far.
    of_kind: u64,
    /// Packets put on the wire.
    pub packets: u64,
}

impl Network {
    /// Links that work, between all hosts and all seats.
    pub fn new(seed: u64, hosts: usize, seats: usize) -> Network {
        let lines = vec![Line::default(); hosts * seats * 2];
        Network { seed, seats, lines, remembered: Vec::new(), troubles: vec![None; hosts], of_kind: 0, packets: 0 }
    }

    fn line(&self, host: usize, seat: usize, way: Way) -> usize {
        (host * self.seats + seat) * 2 + way as usize
    }

    /// Cuts some directions (up, down) of the link between a host and a switch.
    pub fn cut(&mut self, host: usize, seat: usize, ways: [bool; 2], until: u64) {
        for (way, _) in [Way::Up, Way::Down].into_iter().zip(ways).filter(|(_, cut)| *cut) {
            let line = self.line(host, seat, way);
            self.lines[line].cut_until = until;
        }
    }

    /// Of what a host sends nothing gets through that answers a controller.
    pub fn mute(&mut self, host: usize, until: u64) {
        for seat in 0..self.seats {
            let line = self.line(host, seat, Way::Up);
            self.lines[line].mute_until = until;
        }
    }

    /// A host is not to blame for what it has not answered until now.
    pub fn trouble(&mut self, host: usize, now: u64) {
        if let Some(latest) = self.troubles.get_mut(host) {
            *latest = Some(now);
        }
    }

    /// Whether all that a controller has asked a host, and was answered, has gone through since then.
    pub fn has_been_well(&self, host: usize, since: u64) -> bool {
        self.troubles[host].is_none_or(|latest| latest < since)
    }

    fn lose(&mut self, now: u64, flight: &Flight) {
        if asks_node(&flight.packet) || answers_controller(&flight.packet) {
            self.trouble(flight.host, now);
        }
    }

    /// All links work.
    pub fn heal(&mut self) {
        self.lines.iter_mut().for_each(|line| (line.cut_until, line.mute_until) = (0, 0));
    }

    /// Puts a packet on the wire, and says what becomes of it.
    pub fn send(
        &mut self,
        now: u64,
        flight: Flight,
        mix: &Mix,
        schedule: &mut Schedule,
        tally: &mut Tally,
        mut fate: impl FnMut(Fate),
    ) {
        self.packets += 1;
        if let Some(mut dice) = schedule.happens(now, Kind::Replayed)
            && !self.remembered.is_empty()
        {
            let index = dice.below(self.remembered.len() as u64) as usize;
            let old = self.remembered[index].clone();
            if now >= self.lines[self.line(old.host, old.seat, old.way)].cut_until {
                tally.count(Kind::Replayed.name());
                fate(Fate::Arrives(now + mix.delay + dice.below(mix.jitter + 1), old));
            }
        }
        if schedule.may_happen(Kind::Replayed) || schedule.may_happen(Kind::Forged) {
            self.remember(&flight);
        }
        if let Some(mut dice) = schedule.happens(now, Kind::Forged) {
            tally.count(Kind::Forged.name());
            let hosts = (self.lines.len() / 2 / self.seats) as u64;
            let forged = attacker::forge(&self.remembered, hosts, &mut dice);
            fate(Fate::Arrives(now + mix.delay + dice.below(mix.jitter + 1), forged));
        }
        let line = self.line(flight.host, flight.seat, flight.way);
        if now < self.lines[line].cut_until {
            tally.count("cut off");
            self.lose(now, &flight);
            return fate(Fate::Lost(&flight, "cut off"));
        }
        if now < self.lines[line].mute_until && answers_controller(&flight.packet) {
            tally.count("not heard");
            self.lose(now, &flight);
            return fate(Fate::Lost(&flight, "not heard"));
        }
        let Some(departs) = self.queue(now, line, mix) else {
            tally.count("queue full");
            self.lose(now, &flight);
            return fate(Fate::Lost(&flight, "the link's queue is full"));
        };
        if self.is_chosen(&flight, mix) && schedule.happens(now, Kind::Chosen).is_some() {
            tally.count(Kind::Chosen.name());
            self.lose(now, &flight);
            return fate(Fate::Lost(&flight, "chosen"));
        }
        let twice = schedule.happens(now, Kind::Duplicated).is_some();
        if twice {
            tally.count(Kind::Duplicated.name());
            self.carry(now, departs, line, flight.clone(), mix, schedule, tally, &mut fate);
        }
        self.carry(now, departs, line, flight, mix, schedule, tally, &mut fate);
    }

    /// When it leaves the queue of its link; `None` if there is no room.
    fn queue(&mut self, now: u64, line: usize, mix: &Mix) -> Option<u64> {
        if mix.packet_time == 0 {
            return Some(now);
        }
        let line = &mut self.lines[line];
        let begins = line.busy_until.max(now);
        if begins - now > mix.link_queue * mix.packet_time {
            return None;
        }
        line.busy_until = begins + mix.packet_time;
        Some(line.busy_until)
    }

    fn is_chosen(&mut self, flight: &Flight, mix: &Mix) -> bool {
        let (service, kind, number) = mix.chosen;
        let is_of_kind = |header: Header| (header.service, header.kind) == (service, kind);
        if self.of_kind >= number || !Header::read(&flight.packet).is_ok_and(is_of_kind) {
            return false;
        }
        self.of_kind += 1;
        self.of_kind == number
    }

    #[allow(clippy::too_many_arguments)] // one place, called twice
    fn carry(
        &mut self,
        now: u64,
        departs: u64,
        line: usize,
        mut flight: Flight,
        mix: &Mix,
        schedule: &mut Schedule,
        tally: &mut Tally,
        fate: &mut impl FnMut(Fate),
    ) {
        if schedule.happens(now, Kind::Lost).is_some() {
            tally.count(Kind::Lost.name());
            self.lose(now, &flight);
            return fate(Fate::Lost(&flight, "lost"));
        }
        let mut at = departs + mix.delay + self.jitter(line, mix);
        if let Some(mut dice) = schedule.happens(now, Kind::Late) {
            tally.count(Kind::Late.name());
            self.lose(now, &flight);
            at += dice.below(mix.late_by + 1);
        }
        let corrupted = schedule.happens(now, Kind::Corrupted);
        let flipped = schedule.happens(now, Kind::Flipped);
        if corrupted.is_some() || flipped.is_some() {
            self.lose(now, &flight);
            let sent = flight.packet.clone();
            if let Some(mut dice) = corrupted {
                tally.count(Kind::Corrupted.name());
                corrupt(&mut flight.packet, &mut dice);
            }
            if let Some(mut dice) = flipped.filter(|_| !flight.packet.is_empty()) {
                tally.count(Kind::Flipped.name());
                attacker::flip(&mut flight.packet, &mut dice);
            }
            // The one may undo the other.
            flight.is_tampered |= flight.packet != sent;
        }
        fate(Fate::Arrives(at, flight));
    }

    /// The n-th packet of a link takes what the seed says, whatever other packets do.
    fn jitter(&mut self, line: usize, faults: &Mix) -> u64 {
        let carried = &mut self.lines[line].carried;
        *carried += 1;
        let any = mix(mix(self.seed ^ (line as u64) << 40 ^ *carried));
        ((u128::from(any) * u128::from(faults.jitter + 1)) >> 64) as u64
    }

    fn remember(&mut self, flight: &Flight) {
        if self.remembered.len() < REMEMBERED {
            return self.remembered.push(flight.clone());
        }
        let any = mix(self.seed ^ self.packets);
        if any.is_multiple_of(5) {
            self.remembered[(any >> 32) as usize % REMEMBERED].clone_from(flight);
        }
    }
}

/// Whether somebody waits for it before a slot works again.
fn answers_controller(packet: &[u8]) -> bool {
    is_of(packet, [kind::lock::REPORT, kind::lock::ADOPTED])
}

/// Whether it is what that answers.
fn asks_node(packet: &[u8]) -> bool {
    is_of(packet, [kind::lock::CENSUS, kind::lock::ADOPT])
}

fn is_of(packet: &[u8], kinds: [u8; 2]) -> bool {
    Header::read(packet).is_ok_and(|header| header.service == service::LOCK && kinds.contains(&header.kind))
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
