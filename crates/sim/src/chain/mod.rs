//! A world of chains: switches that all serve at once, each with its daemon's part and a clock of its own; clients that
//! read and write a few keys; and between all of them the network that loses, repeats, delays and breaks packets.
//!
//! ```text
//!   SAFETY: load and faults, until enough packets ──► HEALED: load without faults
//!     ──► CALM: nobody asks for anything new ──► checked: everybody was answered
//! ```

mod checker;
mod clients;
mod control;
mod lines;
mod mishaps;
mod setup;
mod switches;
#[cfg(feature = "mutants")]
mod tamper;
mod watchers;
mod witness;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use wayside_protocol::Handle;
use wayside_protocol::chain::memory::ItemMemory;
use wayside_protocol::chain::{Key, Version};
use wayside_protocol::seal::{Period, Secret};
use wayside_wire::mix;

use crate::Options;
use crate::agenda::Agenda;
use crate::clock::Clock;
use crate::dice::Dice;
use crate::host::{Host, Process};
use crate::network::{Fate, Flight, Network, Way};
use crate::report::{Counts, Failure, Outcome};
use crate::schedule::Schedule;
use crate::tally::Tally;
use crate::world::Phase;
use checker::{Broken, Checker};
use clients::Crew;
use control::{Office, Shared};
use lines::Lines;
pub use lines::{FAULTS, LINES, OUTCOMES, RARE};
use setup::Setup;
use switches::Seat;

/// What is planned.
pub enum Happening {
    /// A packet arrives.
    Arrival(Flight),
    /// A client's timer rings.
    Timer(usize),
    /// A client's process starts.
    Start(usize),
    /// A stopped client goes on.
    Resume(usize),
    /// A stopped switch goes on.
    ResumeSwitch(usize),
    /// A task of a process goes on.
    Wake(Process, usize),
    /// A process looks at what one of its watches has seen, or begins one.
    Watch(Process, usize),
    /// The other processor of a switch goes on with what it has in hand.
    Decide(usize, u64),
    /// A switch's daemon has something to do.
    Member(usize),
    /// A controller's timer rings.
    Control(usize),
    /// A controller asks for the post.
    Post(usize),
    /// A stopped controller goes on.
    ResumeController(usize),
    /// The controllers' store works again.
    StoreWorks,
}

/// See the module's documentation.
pub struct World {
    options: Options,
    seed: u64,
    now: u64,
    phase: Phase,
    setup: Setup,
    schedule: Schedule,
    /// Clients' hosts.
    hosts: Vec<Host>,
    crews: Vec<Crew>,
    seats: Vec<Seat>,
    /// Controllers, and what they share.
    offices: Vec<Office>,
    shared: Rc<RefCell<Shared>>,
    /// Switches that are to have no groups.
    leaving: BTreeSet<usize>,
    /// The last switch of some chain has lost its memory: nothing more can be asked of this world.
    is_lost: bool,
    network: Network,
    agenda: Agenda<Happening>,
    checker: Checker,
    lines: Lines,
    /// Of switches that have lost their memory.
    counters: Counts,
    faults: Tally,
    outcomes: Tally,
    failure: Option<Failure>,
    hash: u64,
    starts: u64,
    /// Requests that were asked.
    operations: u64,
    /// World time at which the phase ends, whatever happens.
    ends: u64,
    /// And packets, of the healed phase.
    ends_at: u64,
}

/// Number of the clients' namespace, and its name.
const SPACE: (u16, &str) = (1, "space1");
/// Boot epoch of every switch: the chain service asks for none.
const BOOT: u32 = 1;
/// World time after which a run is as long as it will be, however few packets there were.
const LONGEST_SAFETY: u64 = 60_000_000;
/// Load after the network healed, in microseconds.
const HEALED_LOAD: u64 = 300_000;
/// Or packets, if they come first.
const HEALED_PACKETS: u64 = 1_500;
/// Operations that a run needs at least.
const OPERATIONS: u64 = 10;
/// Purposes of dice.
const CLOCKS: u64 = 41;
const SECRETS: u64 = 42;

/// Runs a seed.
pub fn run(seed: u64, options: &Options) -> Outcome {
    World::new(seed, options.clone()).live()
}

impl World {
    fn new(seed: u64, options: Options) -> World {
        let mut schedule = Schedule::new(seed, options.filter.clone());
        let setup = Setup::draw(seed, &schedule);
        setup.mix.apply(&mut schedule);
        let parties = setup.clients + setup.switches + 2;
        let mut world = World {
            seed,
            now: 0,
            phase: Phase::Safety,
            hosts: (0..setup.clients).map(|client| Host::new(client, 0)).collect(),
            crews: (0..setup.clients).map(|_| Crew::default()).collect(),
            seats: Vec::new(),
            offices: Vec::new(),
            shared: Rc::default(),
            leaving: BTreeSet::new(),
            is_lost: false,
            network: Network::new(seed, parties, setup.switches),
            agenda: Agenda::new(),
            checker: Checker::default(),
            lines: Lines::default(),
            counters: Counts::new(),
            faults: Tally::default(),
            outcomes: Tally::default(),
            failure: None,
            hash: seed,
            starts: 0,
            operations: 0,
            ends: LONGEST_SAFETY,
            ends_at: u64::MAX,
            options,
            schedule,
            setup,
        };
        world.make_switches();
        world.make_controllers();
        world
    }

    fn live(mut self) -> Outcome {
        for client in 0..self.hosts.len() {
            self.start_client(client);
        }
        while self.failure.is_none() {
            let Some((at, happening)) = self.agenda.next() else { break };
            self.now = at;
            self.happen(happening);
            if self.is_over() || self.is_lost {
                break;
            }
        }
        self.conclude()
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrival(flight) => self.arrive(flight),
            Happening::Timer(client) => self.ring(client),
            Happening::Start(client) => self.start_client(client),
            Happening::Resume(client) => self.resume_client(client),
            Happening::ResumeSwitch(seat) => self.resume_switch(seat),
            Happening::Wake(process, task) => self.wake(process, task),
            Happening::Watch(process, index) => self.attend(process, index),
            Happening::Decide(seat, number) => self.decide_alone(seat, number),
            Happening::Member(seat) => self.ring_member(seat),
            Happening::Control(index) => self.ring_controller(index),
            Happening::Post(index) => self.ask_post(index),
            Happening::ResumeController(index) => self.resume_controller(index),
            Happening::StoreWorks => self.shared.borrow_mut().is_away = false,
        }
    }

    /// Moves on to the next phase when it is time. True at the end of the last.
    fn is_over(&mut self) -> bool {
        match self.phase {
            Phase::Safety => {
                if self.is_safety_over() {
                    self.heal();
                }
                false
            }
            Phase::Healed => {
                if self.now > self.ends || self.network.packets > self.ends_at {
                    self.phase = Phase::Calm;
                    self.ends = self.now + self.patience();
                    self.note(|_| "---- calm ----".to_string());
                }
                false
            }
            Phase::Calm => {
                self.now > self.ends
                    || (self.crews.iter().all(Crew::is_calm)
                        && self.is_settled()
                        && self.behind().is_none()
                        && self.overdue().is_none())
            }
        }
    }

    fn is_safety_over(&self) -> bool {
        if self.now > LONGEST_SAFETY {
            return true;
        }
        if self.schedule.is_chosen() {
            return self.schedule.is_spent() && self.now > self.schedule.latest_fault() + self.patience()
                || self.network.packets >= 2 * self.setup.mix.packets;
        }
        self.network.packets >= self.setup.mix.packets && self.operations >= OPERATIONS
    }

    /// How long a request may take once nothing is lost any more: what is late arrives, and everybody who waits for a
    /// lane has his turn.
    fn patience(&self) -> u64 {
        let mix = &self.setup.mix;
        let turn = 2 * (self.setup.length as u64 + 1) * (mix.delay + mix.jitter) + self.setup.node.retransmit_most_us;
        let waiting = 2 + self.setup.tasks as u64 / 8;
        let rest = self.setup.keeping.as_ref().map_or(0, |keeping| 20 * keeping.lease + 10_000_000);
        // A watch asks for its group's place by the third question, half a second after each other.
        let watching = u64::from(self.setup.watches > 0) * 3_000_000;
        mix.late_by + mix.pause_for + 12 * turn * waiting + 1_000_000 + rest + watching
    }

    fn conclude(mut self) -> Outcome {
        if self.failure.is_none() && !self.is_lost {
            let checked = self.checker.conclude();
            self.judge(checked);
            self.check_the_end();
        }
        let few = self.setup.mix.packets / 4;
        if self.failure.is_none()
            && !self.schedule.is_chosen()
            && !self.is_lost
            && (self.network.packets < few || self.operations < OPERATIONS)
        {
            let story = format!("{} packets, {} operations", self.network.packets, self.operations);
            self.fail("vacuous", story);
        }
        if let Some(failure) = self.failure.clone() {
            self.note(|_| format!("---- {failure} ----"));
        }
        let mut out = Outcome { seed: self.seed, service: crate::ServiceKind::Chain, ..Outcome::default() };
        let mut verdicts = std::mem::take(&mut self.counters);
        self.seats.iter().for_each(|seat| seat.collect(&mut verdicts));
        self.faults.add_to(&mut out.faults);
        self.outcomes.add_to(&mut out.outcomes);
        self.lines.add_to(&mut out.decisions);
        Outcome {
            trace_hash: self.hash,
            packets: self.network.packets,
            operations: self.operations,
            duration: self.now,
            verdicts,
            failure: self.failure,
            happened: self.schedule.into_happened(),
            ..out
        }
    }

    /// Everybody was answered; and what anybody was answered is at every switch of its chain.
    fn check_the_end(&mut self) {
        let waiting = self.crews.iter().enumerate().find_map(|(client, crew)| Some((client, crew.waiting()?)));
        if let Some((client, (request, since))) = waiting {
            let story =
                format!("client {client} waits for an answer to {request:#x} since {:.6} s", since as f64 / 1e6);
            return self.fail("L1", story);
        }
        if !self.is_settled() {
            return self.fail("L2", "the chains are not what they should be".to_string());
        }
        if let Some(story) = self.behind() {
            return self.fail("L3", story);
        }
        if let Some(story) = self.overdue() {
            return self.fail("K5", story);
        }
        let is_made = |(_, version): &(Key, Version)| *version != Version::default();
        for (key, floor) in self.checker.floors().filter(is_made).collect::<Vec<_>>() {
            let group = self.group_of(key);
            for seat in self.chain_of(group) {
                let has = self.seats[seat].version(group, key);
                if has.is_none() && self.checker.removed_at(key) >= floor {
                    continue;
                }
                if !self.is_taken(key) {
                    self.check_names(group, key, seat);
                }
                if has.is_none_or(|has| has < floor) {
                    return self
                        .fail("K4", format!("switch {seat} has {has:?} of {key:?}, of which {floor:?} is known"));
                }
            }
        }
    }

    /// A leased value whose session is over, at whatever switch of its chain.
    fn overdue(&self) -> Option<String> {
        self.checker.floors().find_map(|(key, _)| {
            let group = self.group_of(key);
            let chain = self.chain_of(group);
            chain.iter().find_map(|&seat| {
                let content = self.seats[seat].switch.content(group, key)?;
                let owner = self.checker.lease_of(group, content.version).filter(|_| content.length.is_some())?;
                (self.hosts[owner.host].process() != owner).then(|| {
                    let has: Vec<_> = chain.iter().map(|seat| (*seat, self.seats[*seat].version(group, key))).collect();
                    format!("switch {seat} has {key:?} of {owner:?}, whose session is over; {has:?}")
                })
            })
        })
    }

    // ---- what all of it needs ----

    fn plan(&mut self, at: u64, happening: Happening) {
        self.agenda.plan(at.max(self.now), happening);
    }

    fn fail(&mut self, invariant: &'static str, story: String) {
        let at = self.now;
        self.failure.get_or_insert(Failure { invariant, story, at });
    }

    fn judge(&mut self, verdict: Result<(), Broken>) {
        if let Err((invariant, story)) = verdict {
            self.fail(invariant, story);
        }
    }

    /// A line of the story.
    fn note(&self, line: impl FnOnce(&World) -> String) {
        if self.options.chart {
            crate::story::print(&format!("{:>12.6}  {}", self.now as f64 / 1e6, line(self)));
        }
    }

    /// Makes something part of the trace.
    fn trace(&mut self, what: u64, bytes: &[u8]) {
        let start = mix(self.hash ^ self.now ^ what << 48);
        self.hash = bytes.chunks(8).fold(start, |hash, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        });
    }

    fn new_clock(&mut self) -> Clock {
        self.starts += 1;
        let mut dice = Dice::of(self.seed, &[CLOCKS, self.starts]);
        let most = i64::from(self.setup.mix.drift_ppm);
        let ppm = dice.below(2 * most as u64 + 1) as i64 - most;
        Clock::new(dice.below(1 << 40), ppm)
    }

    /// A secret that two parties share, by their numbers.
    fn secret(&self, one: u64, other: u64) -> Secret {
        let mut dice = Dice::of(self.seed, &[SECRETS, one, other]);
        let mut bytes = [0; 32];
        bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&dice.any().to_be_bytes()));
        Secret(bytes)
    }

    // ---- who is who: clients are the first of the network's parties, switches follow ----

    fn party(&self, seat: usize) -> usize {
        self.setup.clients + seat
    }

    /// A switch's handle among the others.
    fn handle_of_seat(seat: usize) -> Handle {
        1 + seat as Handle
    }

    fn handle_of_client(&self, client: usize) -> Handle {
        (1 + self.setup.switches + client) as Handle
    }

    /// The client that a handle is of.
    fn client_of(&self, handle: Handle) -> Option<usize> {
        usize::from(handle).checked_sub(1 + self.setup.switches).filter(|client| *client < self.setup.clients)
    }

    fn period(incarnation: u64) -> Period {
        Period { incarnation, epoch: BOOT, rotation: 0 }
    }

    // ---- packets ----

    /// Puts a packet on the wire, from one party's socket to another's.
    fn send(&mut self, from: (usize, u16), to: std::net::SocketAddrV4, packet: Vec<u8>) {
        let clients = self.setup.clients;
        let receiver = Host::of(to);
        let flight = if (clients..clients + self.setup.switches).contains(&receiver) {
            let socket = Host::socket(from.0, from.1);
            Flight { host: from.0, seat: receiver - clients, way: Way::Up, socket, packet, is_tampered: false }
        } else {
            let seat = from.0 - clients;
            Flight { host: receiver, seat, way: Way::Down, socket: to, packet, is_tampered: false }
        };
        let World { network, setup, schedule, faults, agenda, now, options, .. } = self;
        let mut lost = Vec::new();
        network.send(*now, flight, &setup.mix, schedule, faults, |fate| match fate {
            Fate::Arrives(at, flight) => agenda.plan(at, Happening::Arrival(flight)),
            Fate::Lost(flight, why) if options.chart => lost.push((flight.clone(), why)),
            Fate::Lost(..) => {}
        });
        for (flight, why) in lost {
            self.note(|world| format!("{why}: {}", world.tell(&flight)));
        }
    }

    fn tell(&self, flight: &Flight) -> String {
        let name = |party: usize| match party.checked_sub(self.setup.clients) {
            Some(seat) if seat < self.setup.switches => format!("s{seat}"),
            Some(other) => format!("k{}", other - self.setup.switches),
            None => format!("c{party}"),
        };
        let (from, to) = match flight.way {
            Way::Up => (name(flight.host), name(self.party(flight.seat))),
            Way::Down => (name(self.party(flight.seat)), name(flight.host)),
        };
        format!("{from:>3} -> {to:<3} {}", crate::story::packet(&flight.packet))
    }

    fn arrive(&mut self, flight: Flight) {
        self.draw_mishaps();
        self.trace(1, &flight.packet);
        // What is sent back to where it came from may be for a switch.
        match flight.host.checked_sub(self.setup.clients).filter(|_| flight.way == Way::Down) {
            Some(party) if party >= self.setup.switches => {
                let index = party - self.setup.switches;
                if index < self.offices.len() {
                    self.at_controller(index, flight);
                }
            }
            Some(seat) => {
                let socket = Host::socket(self.party(flight.seat), 0);
                self.at_switch(Flight { seat, host: self.party(flight.seat), way: Way::Up, socket, ..flight });
            }
            None if flight.way == Way::Up => self.at_switch(flight),
            None => self.at_client(flight),
        }
    }
}
