//! What every service stands on: switches with their controllers, hosts with processes, a network, and one agenda in
//! the order of a virtual time. Nothing here reads a clock, a file or a random source: a seed decides everything.

mod at_switch;
mod hand_over;
mod secrets;

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use wayside_protocol::controller::{Answer, Inquiry, Notice, ServingConfig};
use wayside_protocol::memory::{SlotWord, SwitchMemory};
use wayside_protocol::seal::Enrolment;
use wayside_protocol::{Handle, SessionInfo};
use wayside_wire::{Engine, Policy, SlotState, limits, mix};

use crate::agenda::Agenda;
use crate::clock::Clock;
use crate::decisions::Decisions;
use crate::dice::Dice;
use crate::faults::Mix;
use crate::host::{Host, Process};
use crate::network::{Fate, Flight, Network, Way};
use crate::queues::Watch;
use crate::report::{Counts, Failure};
use crate::schedule::{Kind, Schedule};
use crate::seat::{Disk, Office, Register, Seat, SharedSwitch};
use crate::setup::Setup;
use crate::small::Small;
use crate::story::{Lane, Story};
use crate::tally::Tally;
use crate::{Options, ServiceKind};
pub use hand_over::HandOver;
use secrets::Keys;
pub use secrets::{Asked as AskedFor, Asking, destination_of};

/// What is planned. Every packet is one: what is rare and large is boxed.
pub enum Happening {
    /// A packet arrives.
    Arrival(Flight),
    /// A host's timer rings.
    Timer(usize),
    /// A controller's timer rings.
    Controller(usize),
    /// A task of a process wakes up: process, task, alarm.
    Alarm(Process, usize, u64),
    /// A stopped host goes on.
    Resume(usize),
    /// A process starts.
    Start(usize),
    /// A process asks for a session over a secure connection.
    Ask(Box<Asking>),
    /// What it is answered there.
    Told(Box<(Asking, Enrolment)>),
    /// A controller starts.
    ControllerStart(usize),
    /// A store works again.
    StoreWorks(usize),
    /// The other processor goes on with what it has in hand.
    Decide(usize, u64),
    /// A question arrives at the register: of which process of which seat.
    Question(usize, u32, Inquiry),
    /// Its answer arrives.
    Answer(usize, u32, Inquiry, Answer),
    /// A switch and its controller go on.
    ResumeSeat(usize),
    /// A hand-over goes on.
    HandOver(Box<HandOver>),
    /// A daemon that was drained ends; another one starts in its place.
    Ended(usize),
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Load and faults.
    Safety,
    /// Load without faults.
    Healed,
    /// Nobody asks for anything new.
    Calm,
}

/// See the module's documentation.
pub struct World {
    /// How it is run.
    pub options: Options,
    /// Decides everything.
    pub seed: u64,
    /// Microseconds since the beginning.
    pub now: u64,
    /// How far it has come.
    pub phase: Phase,
    /// What it was made from.
    pub setup: Setup,
    /// A namespace has got another policy.
    pub has_changed_policy: bool,
    /// What goes wrong now.
    pub mix: Mix,
    /// And when.
    pub schedule: Schedule,
    /// Switches and controllers.
    pub seats: Vec<Seat>,
    /// Hosts and processes.
    pub hosts: Vec<Host>,
    /// Links.
    pub network: Network,
    /// Faults that fired.
    pub faults: Tally,
    /// What nodes and applications were told.
    pub outcomes: Tally,
    /// Lines of the core's decision table.
    pub decisions: Decisions,
    /// Of switches that have lost their memory.
    pub counters: Counts,
    /// Over every event in order.
    pub hash: u64,
    pub(crate) agenda: Agenda<Happening>,
    failure: Option<Failure>,
    /// What queues have done, where there are any.
    pub(crate) watch: Watch,
    /// Host of a handle's latest session.
    hosts_of: Vec<u32>,
    starts: u64,
    register: Register,
    keys: Keys,
    /// Of the keys of a session (its incarnation) in an epoch: the latest rotation.
    rotations: BTreeMap<(u64, u32), u32>,
    /// A process that has just died, of which only the controller knows.
    pub(crate) doomed: Option<usize>,
    /// Another processor has done something between two steps of what is being decided.
    between: bool,
}

impl World {
    /// Everything that the seed decides beforehand.
    pub fn new(seed: u64, options: Options) -> World {
        let mut schedule = Schedule::new(seed, options.filter.clone());
        let setup = match &options.small {
            Some(small) => small.setup(options.mutant),
            None => Setup::draw(seed, &options, &schedule),
        };
        setup.mix.apply(&mut schedule);
        schedule.tell(options.small.as_ref().map_or(&[], Small::faults));
        let spaces = setup.namespaces.len();
        let (seats, register) = (if setup.standby.is_some() { 2 } else { 1 }, Register::default());
        let mut world = World {
            seed,
            now: 0,
            phase: Phase::Safety,
            has_changed_policy: false,
            seats: Vec::new(),
            register: register.clone(),
            hosts: (0..setup.hosts).map(|host| Host::new(host, host % spaces)).collect(),
            network: Network::new(seed, setup.hosts, seats),
            faults: Tally::default(),
            outcomes: Tally::default(),
            decisions: Decisions::default(),
            counters: Counts::new(),
            hash: seed,
            agenda: Agenda::new(),
            failure: None,
            watch: Watch::default(),
            hosts_of: vec![u32::MAX; usize::from(setup.max_handle) + 1],
            starts: 0,
            keys: Keys::new(),
            rotations: BTreeMap::new(),
            doomed: None,
            between: false,
            mix: setup.mix.clone(),
            options,
            schedule,
            setup,
        };
        world.setup.conditions().for_each(|kind| world.faults.count(kind.name()));
        let disk = Disk::new(world.setup.records);
        for seat in 0..seats {
            let Setup { namespaces, queues, max_handle, authenticated, .. } = &world.setup;
            #[cfg_attr(not(feature = "mutants"), expect(unused_mut))]
            let mut switch =
                SharedSwitch::new(namespaces, queues, *max_handle, *authenticated, world.setup.spare_queues);
            #[cfg(feature = "mutants")]
            {
                switch.hands_held = world.options.core == Some(crate::CoreMutant::HandHeld);
                switch.reuses_regions = world.options.core == Some(crate::CoreMutant::ReuseRegion);
                switch.overstays = world.options.core == Some(crate::CoreMutant::NoServingLease);
            }
            let disk = if seats > 1 { disk.shared(own(seat), &register) } else { disk.clone() };
            let clock = world.new_clock();
            world.seats.push(Seat::new(switch, disk, clock));
        }
        world
    }

    /// The seat whose switch serves; the first where none does.
    pub fn serving_seat(&self) -> usize {
        let serves = |seat: &&Seat| seat.switch.serving() && seat.records().is_some();
        let latest = self.seats.iter().enumerate().filter(|(_, seat)| serves(seat));
        latest.max_by_key(|(_, seat)| seat.switch.epoch()).map_or(0, |(index, _)| index)
    }

    /// For that time, or for now if that is over.
    pub fn plan(&mut self, at: u64, happening: Happening) {
        self.agenda.plan(at.max(self.now), happening);
    }

    /// Wakes a task of a host's process after a while.
    pub fn set_alarm(&mut self, host: usize, task: usize, alarm: u64, after: u64) {
        let process = self.hosts[host].process();
        self.plan(self.now + after, Happening::Alarm(process, task, alarm));
    }

    /// Keeps the first failure.
    pub fn fail(&mut self, invariant: &'static str, story: String) {
        let at = self.now;
        self.failure.get_or_insert(Failure { invariant, story, at });
    }

    /// The first failure.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Something that is to be reached by every batch was.
    pub fn count(&mut self, name: &'static str) {
        self.outcomes.count(name);
    }

    /// A clock of its own for whoever starts: as wrong as it may be, and in some seeds more.
    pub fn new_clock(&mut self) -> Clock {
        self.starts += 1;
        let mut dice = Dice::of(self.seed, &[CLOCKS, self.starts]);
        let most = i64::from(self.mix.drift_ppm) * i64::from(self.mix.wildness);
        let ppm = match dice.below(3) {
            0 => most,
            1 => -most,
            _ => dice.below(2 * most as u64 + 1) as i64 - most,
        };
        Clock::new(dice.below(1 << 40), ppm)
    }

    /// Whether clocks keep the bound that the controller counts on.
    pub fn clocks_are_good(&self) -> bool {
        self.mix.wildness == 1
    }

    /// The host whose process has this session.
    pub fn host_of(&self, handle: Handle) -> Option<usize> {
        let host = *self.hosts_of.get(usize::from(handle))?;
        self.hosts.get(host as usize).map(|host| host.index)
    }

    /// A session of this host has begun.
    pub fn has_begun(&mut self, host: usize, handle: Handle) {
        if let Some(place) = self.hosts_of.get_mut(usize::from(handle)) {
            *place = host as u32;
        }
    }

    /// Whether the controller's records know the session of a host's process to live.
    pub fn lives_on_record(&self, host: usize) -> bool {
        let host = &self.hosts[host];
        let session = host.running.as_ref().and_then(|running| running.node.session());
        session.is_some_and(|session| {
            self.seats[host.seat].disk.session(session.handle).is_some_and(|record| {
                record.incarnation == session.incarnation && record.stage == wayside_protocol::controller::Stage::Live
            })
        })
    }

    /// Slots that somebody holds.
    pub fn held_slots(&self) -> impl Iterator<Item = (u16, u32, SlotWord)> + '_ {
        let switch = &self.seats[self.serving_seat()].switch;
        let slots = switch.namespaces().iter().flat_map(|space| (0..space.slots).map(|slot| (space.id, slot)));
        slots
            .map(|(space, slot)| (space, slot, switch.load_slot(space, slot)))
            .filter(|(_, _, word)| word.state != SlotState::Unheld)
    }

    /// Slots near their last tenure, as after billions of hand-overs.
    pub fn age_slots(&mut self) {
        if self.mix.tenures_left == 0 {
            return;
        }
        let mut dice = Dice::of(self.seed, &[AGES]);
        let switch = self.seats[0].switch.clone();
        for space in switch.namespaces() {
            for slot in 0..space.slots {
                let left = dice.below(u64::from(self.mix.tenures_left) + 1) as u32;
                let word = switch.load_slot(space.id, slot);
                switch.cas_slot(space.id, slot, word, SlotWord::unheld(limits::MAX_TENURE - left));
            }
        }
    }

    // ---- the story ----

    /// A line of the chart about one of those in it.
    pub fn note(&self, lane: Lane, line: impl FnOnce(&World) -> String) {
        if self.options.chart {
            Story::of(self).note(lane, &line(self));
        }
    }

    /// A line about all of them.
    pub fn headline(&self, line: impl FnOnce(&World) -> String) {
        if self.options.chart {
            Story::of(self).headline(&line(self));
        }
    }

    /// Makes something part of the trace.
    pub fn trace(&mut self, what: u64, bytes: &[u8]) {
        let mut hash = mix(self.hash ^ self.now ^ what << 48);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        for byte in rest {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        self.hash = hash;
    }

    // ---- packets ----

    /// Puts a packet on the wire.
    pub fn send(&mut self, flight: Flight) {
        let World { network, mix, schedule, faults, agenda, now, options, .. } = self;
        let mut lost = Vec::new();
        network.send(*now, flight, mix, schedule, faults, |fate| match fate {
            Fate::Arrives(at, flight) => agenda.plan(at, Happening::Arrival(flight)),
            Fate::Lost(flight, why) if options.chart => lost.push((flight.clone(), why)),
            Fate::Lost(..) => {}
        });
        for (flight, why) in lost {
            Story::of(self).lost(&flight, why);
        }
    }

    /// From a switch or its controller to a socket of a host.
    pub fn send_down(&mut self, seat: usize, socket: SocketAddrV4, packet: Vec<u8>) {
        let host = Host::of(socket);
        self.send(Flight { host, seat, way: Way::Down, socket, packet, is_tampered: false });
    }

    /// From a host to the switch that its process believes in.
    pub fn send_up(&mut self, host: usize, port: u16, packet: Vec<u8>) {
        let (socket, seat) = (Host::socket(host, port), self.hosts[host].seat);
        self.send(Flight { host, seat, way: Way::Up, socket, packet, is_tampered: false });
    }

    /// Lets the node of a process that runs have a packet.
    pub fn hand(&mut self, host: usize, packet: &[u8]) {
        let now = self.now;
        if let Some(running) = &mut self.hosts[host].running {
            let time = running.time(now);
            running.node.on_packet(time, packet);
        }
    }

    // ---- controllers ----

    /// A namespace has another policy from now on, by the configuration of all switches.
    pub fn set_policy(&mut self, index: usize, policy: Policy, patience: u8) {
        let now = self.now;
        let own = &mut self.setup.namespaces[index];
        (own.policy, own.patience) = (policy, patience);
        let id = own.id;
        for rules in self.setup.config.namespaces.iter_mut().filter(|rules| rules.id == id) {
            (rules.policy, rules.patience) = (policy, patience);
        }
        for seat in &mut self.seats {
            seat.switch.set_policy(id, policy);
            let time = seat.clock.at(now);
            if let Some(office) = &mut seat.office {
                office.set_policy(time, id, policy, patience);
            }
        }
        self.has_changed_policy = true;
        self.headline(|_| format!("space{id} is {policy:?} now, of patience {patience}"));
    }

    /// P4: once nothing goes wrong any more, whoever has a session lives by what its namespace's configuration says.
    /// Somebody who does not.
    pub fn wrong_policy(&self) -> Option<String> {
        self.hosts.iter().find_map(|place| {
            let namespace = &self.setup.namespaces[place.namespace];
            let info = place.running.as_ref().and_then(|running| running.node.session())?;
            let (told, is) = ((info.policy, info.patience), (namespace.policy, namespace.patience));
            (told != is).then(|| format!("{} decides by {told:?}, and {is:?} is meant", place.process()))
        })
    }

    /// Starts a controller on its records, if the disk works.
    pub fn start_controller(&mut self, seat: usize) {
        let (now, mut config) = (self.now, self.setup.config.clone());
        let place = &mut self.seats[seat];
        if place.office.is_some() {
            return;
        }
        // As daemons do it reads the list of which it has made the queues.
        for space in config.namespaces.iter_mut().filter(|space| space.engine == Engine::Hybrid) {
            space.names = place.switch.listed(space.id);
        }
        let (switch, disk, time) = (place.switch.clone(), place.disk.clone(), place.clock.at(now));
        let office = match self.setup.standby {
            None => Office::alone(config, switch, disk),
            Some(lease) => {
                let serving = ServingConfig { own: own(seat), lease, drift_ppm: config.drift_ppm };
                Ok(Office::sharing(time, config, switch, disk, serving))
            }
        };
        match office {
            Ok(office) => {
                (place.office, place.timer) = (Some(office), None);
                place.generation += 1;
                self.note(Lane::Seat(seat), |_| "the controller starts".to_string());
                self.tick_controller(seat);
            }
            Err(_) => {
                self.count("controller not started");
                self.plan(self.now + 1_000, Happening::ControllerStart(seat));
            }
        }
    }

    /// A controller's timer rings.
    pub fn ring_controller(&mut self, seat: usize) {
        let place = &mut self.seats[seat];
        if place.timer == Some(self.now) {
            place.timer = None;
            match place.stopped_until {
                Some(until) => self.plan(until + 1, Happening::ResumeSeat(seat)),
                None => self.tick_controller(seat),
            }
        }
    }

    /// Whatever a controller is late with.
    pub fn tick_controller(&mut self, seat: usize) {
        let place = &mut self.seats[seat];
        let now = place.clock.at(self.now);
        if place.office.is_none() {
            return;
        }
        // The other processor has read a word by now, and will swap it.
        let in_hand = place.in_hand.take_if(|held| !held.last);
        let tick = |world: &mut World| {
            if let Some(office) = &mut world.seats[seat].office {
                office.on_tick(now);
            }
        };
        match in_hand {
            Some(held) => self.decide_while(seat, held, tick),
            None => tick(self),
        }
        self.settle_controller(seat);
    }

    /// A packet for the controller.
    pub fn at_controller(&mut self, seat: usize, from: SocketAddrV4, packet: &[u8]) {
        let place = &mut self.seats[seat];
        let now = place.clock.at(self.now);
        match place.controller(self.now) {
            Some(controller) => {
                controller.on_packet(now, from, packet);
                self.settle_controller(seat);
            }
            // Nobody hears it.
            None => self.network.trouble(Host::of(from), self.now),
        }
    }

    /// D1: whoever is asked answers. It is dismissed for what the network did, or whoever has stopped it, and for
    /// nothing else. Of a switch where it is not, and of one that does not serve any more, it hears nothing.
    fn check_dismissal(&mut self, seat: usize, handle: Handle) {
        let Some(host) = self.host_of(handle).filter(|_| self.options.service == ServiceKind::Lock) else { return };
        let place = &self.hosts[host];
        let Some(running) = place.running.as_ref().filter(|_| place.seat == seat && place.stopped_until.is_none())
        else {
            return;
        };
        let Some(session) = running.node.session().filter(|_| !running.leaving) else { return };
        let is_its = self.seats[seat].disk.session(handle).is_some_and(|it| it.incarnation == session.incarnation);
        let is_asked = session.handle == handle && session.epoch <= self.seats[seat].switch.epoch();
        // The answer to the last question but one may be under way still.
        let since = self.now.saturating_sub(4 * self.setup.config.retransmit + ROUND_TRIPS);
        if is_its && is_asked && self.network.has_been_well(host, since) {
            let process = place.process();
            self.fail("D1", format!("process {process} is dismissed though nothing has kept it from answering"));
        }
    }

    /// Sends what the controller says and asks, and sets its timer.
    pub fn settle_controller(&mut self, seat: usize) {
        let (now, time) = (self.now, self.seats[seat].clock.at(self.now));
        while let Some((address, packet)) = self.seats[seat].controller(now).and_then(|c| c.transmit()) {
            self.check_signed(seat, destination_of(&packet), &packet);
            self.send_down(seat, address, packet);
        }
        while let Some(notice) = self.seats[seat].office.as_mut().and_then(Office::notice) {
            self.note(Lane::Seat(seat), |_| format!("controller: {notice:?}"));
            match notice {
                Notice::EpochRaised(_) => self.count("epoch raised"),
                Notice::Serving(_) => self.count("serving"),
                Notice::Enrolled(_) => self.count("enrolled"),
                Notice::Ended(..) => self.count("session ended"),
                Notice::Rotated(handle) => self.on_rotated(seat, handle),
                Notice::Serves(space, part, handle) => self.watch_appointment(seat, space, part, handle),
                Notice::Moved(_, _, true) if self.setup.planned => self.count("plan moved a lock to the switch"),
                Notice::Moved(_, _, false) if self.setup.planned => self.count("plan moved a lock to its server"),
                // Nobody wants these elsewhere: they move because of priorities alone.
                Notice::Moved(space, ..) if self.watch.placed.contains(&space) => {}
                Notice::Moved(_, _, true) => self.count("came back to the switch"),
                Notice::Moved(_, _, false) => self.count("left the switch for its priorities"),
                Notice::CutOff(_) => self.count("cut off"),
                Notice::Dismissed(handle) => {
                    self.count("dismissed");
                    self.check_dismissal(seat, handle);
                }
                Notice::Frozen(..) => self.count("slot frozen"),
                Notice::Recovered(_, _, Some(_)) => self.count("slot adopted"),
                Notice::Recovered(_, _, None) => self.count("slot recovered unheld"),
                Notice::StoreFailed(_) => self.count("store failed"),
                Notice::Promoted => self.count("promoted"),
                Notice::Demoted => self.count("demoted"),
                Notice::TookOver(..) => self.count("took over"),
            }
        }
        while let Some(inquiry) = self.seats[seat].office.as_mut().and_then(|office| office.ask(time)) {
            self.inquire(seat, inquiry);
        }
        let place = &mut self.seats[seat];
        let timer = place.office.as_ref().and_then(|office| place.clock.world(office.next_timer(time)));
        if let Some(at) = timer.map(|at| at.max(now)).filter(|at| place.timer.is_none_or(|t| *at < t)) {
            place.timer = Some(at);
            self.plan(at, Happening::Controller(seat));
        }
    }

    /// A question to the register takes its time there and back, and may be lost either way, or late.
    fn inquire(&mut self, seat: usize, inquiry: Inquiry) {
        let generation = self.seats[seat].generation;
        self.starts += 1;
        let mut dice = Dice::of(self.seed, &[QUESTIONS, self.starts]);
        let mut at = self.now + dice.magnitude(50, 5_000);
        if let Some(mut dice) = self.schedule.happens(self.now, Kind::Register) {
            self.fault(Kind::Register);
            match dice.below(4) {
                // Lost on the way there, or (it is done all the same, after nobody waits for it any more) back.
                0 => return,
                // With all that follow for a while.
                3 => {
                    let lease = self.setup.standby.unwrap_or(0);
                    self.seats[seat].register_cut_until = self.now + dice.below(3 * lease + 1);
                }
                1 => {
                    let lease = self.setup.standby.unwrap_or(0);
                    at += dice.below(2 * lease + 1);
                }
                _ => return self.plan(at, Happening::Question(seat, u32::MAX, inquiry)),
            }
        }
        if at >= self.seats[seat].register_cut_until {
            self.plan(at, Happening::Question(seat, generation, inquiry));
        }
    }

    /// At the register.
    pub fn at_register(&mut self, seat: usize, generation: u32, inquiry: Inquiry) {
        let answer = self.register.answer(own(seat), inquiry.question);
        self.note(Lane::Seat(seat), |_| format!("the register, asked {:?}: {answer:?}", inquiry.question));
        self.starts += 1;
        let after = Dice::of(self.seed, &[QUESTIONS, self.starts]).magnitude(50, 5_000);
        self.plan(self.now + after, Happening::Answer(seat, generation, inquiry, answer));
    }

    /// Back from the register.
    pub fn answered_by_register(&mut self, seat: usize, generation: u32, inquiry: Inquiry, answer: Answer) {
        let place = &mut self.seats[seat];
        if place.generation != generation {
            return;
        }
        if let Some(until) = place.stopped_until {
            return self.plan(until + 1, Happening::Answer(seat, generation, inquiry, answer));
        }
        let time = place.clock.at(self.now);
        if let Some(office) = &mut place.office {
            office.on_answer(time, inquiry, answer);
            self.settle_controller(seat);
        }
    }

    /// A local connection closes: the controller is told of a crash at once. Who was paused may have died without
    /// having heard that its session is over, and that another one has its handle.
    pub fn close_lifeline(&mut self, seat: usize, session: &SessionInfo) {
        let place = &mut self.seats[seat];
        let now = place.clock.at(self.now);
        let is_own = |known: Option<u64>| known == Some(session.lifeline);
        if let Some(controller) = place.controller(self.now).filter(|each| is_own(each.lifeline_of(session.handle))) {
            controller.closed(now, session.handle);
            self.settle_controller(seat);
        }
    }

    /// A fault has fired.
    pub fn fault(&mut self, kind: Kind) {
        self.faults.count(kind.name());
    }
}

/// Who a seat is to the register.
fn own(seat: usize) -> u64 {
    seat as u64 + 1
}

/// Longer than a question and its answer take, where nothing goes wrong. Microseconds.
const ROUND_TRIPS: u64 = 100_000;

/// Purposes of dice.
const QUESTIONS: u64 = 12;
const CLOCKS: u64 = 4;
const AGES: u64 = 5;
