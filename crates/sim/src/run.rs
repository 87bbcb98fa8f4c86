//! A run: a world, the service whose applications live in it, and their way through the phases.
//!
//! ```text
//!   SAFETY: load and faults, until enough packets ──► HEALED: load without faults
//!     ──► CALM: nobody asks for anything new, whoever holds gives back ──► checked: nobody waits, all slots UNHELD
//! ```

use crate::network::{Flight, Way};
use crate::report::Outcome;
use crate::seat::Trouble;
use crate::service::Service;
use crate::story::{Lane, Story};
use crate::world::{Happening, Phase, World};

/// Operations that a run needs at least.
const OPERATIONS: u64 = 10;
/// A run that has not got so far by then never will. World time.
const LONGEST_SAFETY: u64 = 60_000_000;
/// Events between two looks at whether all is calm, where there are many hosts.
const LOOKS: u64 = 64;
/// The same in a small world, which is calm after some dozens.
const SMALL_LOOKS: u64 = 8;
/// Pauses after which who has not heard of a policy is told again, twice.
const POLICY_TOLD: u64 = 256;

/// See the module's documentation.
pub struct Run<S> {
    pub(crate) world: World,
    pub(crate) service: S,
    /// When the load ends: world time, and packets if they come first. Then: when patience does.
    pub(crate) calm_by: u64,
    pub(crate) calm_at: u64,
    events: u64,
}

impl<S: Service> Run<S> {
    /// Nothing has happened yet.
    pub fn new(world: World, service: S) -> Run<S> {
        Run { world, service, calm_by: u64::MAX, calm_at: u64::MAX, events: 0 }
    }

    /// Lives through all phases.
    pub fn live(mut self) -> Outcome {
        if self.world.options.chart {
            Story::of(&self.world).begin();
        }
        for seat in 0..self.world.seats.len() {
            self.world.start_controller(seat);
        }
        self.world.age_slots();
        for host in 0..self.world.hosts.len() {
            self.start_process(host);
        }
        let until = self.world.options.until.unwrap_or(u64::MAX);
        while self.world.failure().is_none() {
            let Some((at, happening)) = self.world.agenda.next().filter(|(at, _)| *at <= until) else { break };
            self.world.now = at;
            self.happen(happening);
            self.events += 1;
            if self.is_over() {
                break;
            }
        }
        self.conclude()
    }

    /// Moves on to the next phase when it is time. True at the end of the last.
    fn is_over(&mut self) -> bool {
        match self.world.phase {
            Phase::Safety => {
                if self.is_safety_over() {
                    self.heal();
                }
                false
            }
            Phase::Healed => {
                if self.world.now > self.calm_by || self.world.network.packets > self.calm_at {
                    self.world.phase = Phase::Calm;
                    self.keep_no_more();
                    self.calm_by = self.world.now + self.patience();
                    self.world.headline(|_| "calm".to_string());
                }
                false
            }
            Phase::Calm => {
                let looks = if self.world.options.small.is_some() { SMALL_LOOKS } else { LOOKS };
                self.world.now > self.calm_by || (self.events.is_multiple_of(looks) && self.is_calm())
            }
        }
    }

    /// Switches and controllers that restart again and again let nobody do anything: after half of the time for it they
    /// are left alone, so that what single packets suffer is tried at least.
    pub(crate) fn is_stuck(&self) -> bool {
        self.world.now > LONGEST_SAFETY / 2 && self.service.operations() < OPERATIONS
    }

    /// What nobody wants is to become free, where nodes would keep it.
    fn keep_no_more(&mut self) {
        for host in 0..self.world.hosts.len() {
            let now = self.world.now;
            if let Some(running) = &mut self.world.hosts[host].running {
                let time = running.time(now);
                running.node.keep_no_more(time);
                self.settle(host);
            }
        }
    }

    fn is_safety_over(&mut self) -> bool {
        let world = &self.world;
        if world.now > LONGEST_SAFETY {
            return true;
        }
        if let Some(small) = &world.options.small {
            return world.now > small.heals_at();
        }
        // A run of chosen happenings goes on for a lease behind the last.
        if world.schedule.is_chosen() {
            return world.schedule.is_spent() && world.now > world.schedule.latest_fault() + 2 * world.setup.lease
                || world.network.packets >= 2 * world.mix.packets;
        }
        world.network.packets >= world.mix.packets && self.service.operations() >= OPERATIONS
    }

    /// Lease + grace, a switch's whole recovery, and retransmissions of everybody who waits in the longest queue.
    fn patience(&self) -> u64 {
        let setup = &self.world.setup;
        let handles = if setup.config.quarantine < 10_000_000 { 3 * setup.config.quarantine } else { 0 };
        3 * (setup.lease + setup.grace())
            + 50 * setup.config.retransmit
            + if self.world.has_changed_policy { POLICY_TOLD * setup.config.retransmit } else { 0 }
            + handles
            + self.service.patience(&self.world)
            + 1_000_000
    }

    fn is_calm(&self) -> bool {
        let world = &self.world;
        self.service.is_calm(world)
            && world.hosts.iter().all(|host| host.running.as_ref().is_some_and(|running| running.node.is_idle()))
            && world.is_serving()
            && world.wrong_policy().is_none()
            && world.held_slots().next().is_none()
    }

    fn conclude(mut self) -> Outcome {
        let (seed, service) = (self.world.seed, self.world.options.service);
        let mut out = Outcome { seed, service, ..Outcome::default() };
        self.service.conclude(&mut self.world, &mut out);
        let Run { mut world, service, .. } = self;
        if world.failure().is_none() {
            world.check_order();
            if let Some(story) = world.wrong_policy() {
                world.fail("P4", story);
            }
            let held = world.held_slots().next();
            if let Some((space, slot, word)) = held {
                world.fail("L2", format!("slot {slot} of space{space} is {word:?} though nobody wants it"));
            }
            let (packets, operations) = (world.network.packets, service.operations());
            // A world in which hardly anything gets through is told apart from one in which nothing does; and one whose
            // agents do nearly all by themselves, from both.
            let few = world.mix.packets / 4;
            let is_quiet = packets < few && operations < few;
            let is_told = world.schedule.is_chosen() || world.options.small.is_some();
            if !is_told && (is_quiet || operations < OPERATIONS) {
                world.fail("vacuous", format!("{packets} packets, {operations} operations"));
            }
        }
        if let Some(failure) = world.failure().filter(|_| world.options.chart) {
            world.headline(|_| failure.to_string());
            world.headline(state);
        }
        let mut verdicts = std::mem::take(&mut world.counters);
        for seat in &world.seats {
            seat.switch.collect(&mut verdicts);
        }
        world.faults.add_to(&mut out.faults);
        world.outcomes.add_to(&mut out.outcomes);
        world.decisions.add_to(&mut out.decisions);
        Outcome {
            trace_hash: world.hash,
            packets: world.network.packets,
            operations: service.operations(),
            duration: world.now,
            verdicts,
            failure: world.failure().cloned(),
            happened: world.schedule.into_happened(),
            ..out
        }
    }

    // ---- events ----

    fn happen(&mut self, happening: Happening) {
        let world = &mut self.world;
        match happening {
            Happening::Arrival(flight) => self.arrive(flight),
            Happening::Timer(host) => self.ring(host),
            Happening::Controller(seat) => {
                world.ring_controller(seat);
                self.bury_the_doomed();
            }
            Happening::Alarm(process, task, alarm) => {
                let host = &world.hosts[process.host];
                if host.process() != process || host.running.is_none() {
                    return;
                }
                if let Some(until) = host.stopped_until {
                    return world.plan(until + 1, Happening::Alarm(process, task, alarm));
                }
                self.service.woken(world, process.host, task, alarm);
                self.settle(process.host);
            }
            Happening::Resume(host) => self.resume(host),
            Happening::Start(host) => self.start_process(host),
            Happening::Ask(asking) => self.ask(*asking),
            Happening::Told(told) => self.answered(told),
            Happening::ControllerStart(seat) => world.start_controller(seat),
            Happening::StoreWorks(seat) => {
                world.seats[seat].disk.set_trouble(Trouble::None);
                world.note(Lane::Seat(seat), |_| "the store works again".to_string());
            }
            Happening::Question(seat, generation, inquiry) => world.at_register(seat, generation, inquiry),
            Happening::Answer(seat, generation, inquiry, answer) => {
                world.answered_by_register(seat, generation, inquiry, answer);
            }
            Happening::ResumeSeat(seat) => self.resume_seat(seat),
            Happening::HandOver(hand_over) => {
                world.go_on_with_hand_over(*hand_over);
                self.bury_the_doomed();
            }
            Happening::Ended(seat) => {
                world.seats[seat].office = None;
                world.plan(world.now + 1, Happening::ControllerStart(seat));
            }
            Happening::Decide(seat, number) => {
                world.decide_alone(seat, number);
                self.bury_the_doomed();
            }
        }
    }

    fn arrive(&mut self, flight: Flight) {
        self.draw_mishaps();
        if flight.way == Way::Up {
            self.world.at_switch(flight);
            return self.bury_the_doomed();
        }
        let world = &mut self.world;
        if world.options.chart {
            Story::of(world).arrives(&flight);
        }
        world.trace(1, &flight.packet);
        let host = flight.host;
        if world.hosts[host].stopped_until.is_some() {
            return world.hosts[host].keep(flight);
        }
        if world.hosts[host].running.is_some() {
            self.deliver(host, &flight);
            self.settle(host);
        }
    }

    /// A packet for the node of a process that runs.
    pub(crate) fn deliver(&mut self, host: usize, flight: &Flight) {
        let Run { world, service, .. } = self;
        let refused = world.setup.authenticated.then(|| world.refused(host)).flatten();
        world.watch_lock_server(host, &flight.packet);
        let turn = |world: &World| {
            let node = &world.hosts[host].running.as_ref()?.node;
            Some((node.session()?.epoch, node.turn()))
        };
        let before = turn(world);
        service.deliver(world, host, flight);
        // The census of a new epoch comes from the switch that serves now; so does a new turn of an epoch.
        if let (Some(before), Some(after)) = (before, turn(world))
            && flight.seat != world.hosts[host].seat
            && (after > before || world.hosts[host].running.as_ref().is_some_and(|running| running.node.is_called()))
        {
            world.hosts[host].seat = flight.seat;
            world.network.trouble(host, world.now);
            world.count(if after.1 == 0 { "moved to another switch" } else { "followed a turn" });
        }
        let is_false = flight.is_tampered || !world.is_meant_for(host, &flight.packet);
        if is_false && refused.is_some() && world.refused(host) == refused {
            let process = world.hosts[host].process();
            world.believed(format!("process {process} believes {}", crate::story::packet(&flight.packet)));
        }
    }
}

/// What everybody knows, for the end of a chart.
fn state(world: &World) -> String {
    let mut text = String::from("in the end");
    for (space, slot, word) in world.held_slots() {
        text += &format!("\nspace{space} slot {slot}: {word:?}");
    }
    for host in &world.hosts {
        let node = host.running.as_ref().map(|running| &running.node);
        text += &format!("\n{}: {node:#?}", host.process());
    }
    text
}
