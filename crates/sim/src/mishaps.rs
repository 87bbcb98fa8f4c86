//! What goes wrong besides single packets: between any two of them anything may break. And how it heals.

use crate::dice::Dice;
use crate::run::Run;
use crate::schedule::Kind;
use crate::seat::Trouble;
use crate::service::Service;
use crate::setup::{MIXED_POLICIES, PATIENCES, wanted_queues};
use crate::small::LEASE;
use crate::story::Lane;
use crate::world::{Happening, Phase};

/// Load after the network healed: world time, and packets if they come first.
const HEALED_LOAD: u64 = 300_000;
const HEALED_PACKETS: u64 = 1_500;
/// A host's answers are lost for so long at most: longer than any is waited for.
const MUTE_FOR: u64 = 3_000_000;

impl<S: Service> Run<S> {
    /// Between any two packets anything may break.
    pub(crate) fn draw_mishaps(&mut self) {
        if self.world.phase != Phase::Safety || self.is_stuck() {
            return;
        }
        let now = self.world.now;
        for kind in [
            Kind::Partition,
            Kind::Crash,
            Kind::Pause,
            Kind::Leave,
            Kind::Controller,
            Kind::Switch,
            Kind::Store,
            Kind::Stall,
            Kind::Drain,
            Kind::Mute,
            Kind::Move,
            Kind::Hand,
            Kind::Policy,
        ] {
            let Some(mut dice) = self.world.schedule.happens(now, kind) else { continue };
            let host = dice.below(self.world.hosts.len() as u64) as usize;
            let seat = dice.below(self.world.seats.len() as u64) as usize;
            match kind {
                Kind::Partition => self.cut(host, seat, &mut dice),
                Kind::Crash => self.crash(host, &mut dice),
                Kind::Pause => self.stop(host, &mut dice),
                Kind::Leave => self.leave(host),
                Kind::Controller => self.restart_controller(seat, &mut dice),
                Kind::Switch => self.restart_switch(seat, &mut dice),
                Kind::Store => self.break_store(seat, &mut dice),
                Kind::Stall => self.stall(seat, &mut dice),
                Kind::Mute => self.mute(host, &mut dice),
                Kind::Move => self.replace(seat, &mut dice),
                Kind::Hand => self.world.begin_hand_over(seat),
                Kind::Policy => self.change_policy(&mut dice),
                _ => self.drain(seat),
            }
        }
    }

    fn cut(&mut self, host: usize, seat: usize, dice: &mut Dice) {
        let world = &mut self.world;
        world.fault(Kind::Partition);
        let ways = dice.pick(&[[true, true], [true, false], [false, true]]);
        let until = world.now + dice.below(world.mix.partition_for + 1);
        world.network.cut(host, seat, ways, until);
        let (up, down) = (if ways[0] { "to" } else { "" }, if ways[1] { "from" } else { "" });
        let until = until as f64 / 1e6;
        world.note(Lane::Host(host), |_| format!("h{host} is cut off {up} {down} the switch until {until:.6}"));
    }

    /// Other locks are to have their queue in the switch.
    fn replace(&mut self, seat: usize, dice: &mut Dice) {
        let world = &mut self.world;
        let space = world.setup.namespaces[dice.below(world.setup.namespaces.len() as u64) as usize].id;
        let mut wanted = wanted_queues(dice);
        if !world.setup.lists.is_empty() {
            // What is not listed nobody looks for there.
            let listed = world.seats[seat].switch.listed(space);
            wanted.retain(|(name, _)| listed.has(*name));
        }
        let now = world.now;
        let place = &mut world.seats[seat];
        let is_stopped = place.stopped_until.is_some();
        if let Some(controller) = place.controller(now).filter(|_| !is_stopped) {
            controller.place(space, wanted.iter().copied());
            world.watch.placed.insert(space);
            world.fault(Kind::Move);
            world.note(Lane::Seat(seat), |_| format!("the queues of space{space} are to be {wanted:?}"));
        }
    }

    /// As a daemon does that reads its configuration again: all switches know it, and whoever serves tells the nodes.
    fn change_policy(&mut self, dice: &mut Dice) {
        let world = &mut self.world;
        world.fault(Kind::Policy);
        let index = dice.below(world.setup.namespaces.len() as u64) as usize;
        let (policy, patience) = (dice.pick(&MIXED_POLICIES), dice.pick(&PATIENCES));
        world.set_policy(index, policy, patience);
    }

    fn mute(&mut self, host: usize, dice: &mut Dice) {
        let world = &mut self.world;
        world.fault(Kind::Mute);
        let until = world.now + dice.below(MUTE_FOR + 1);
        world.network.mute(host, until);
        let until = until as f64 / 1e6;
        world.note(Lane::Host(host), |_| format!("no controller hears what h{host} answers until {until:.6}"));
    }

    /// Who died while a switch was deciding.
    pub(crate) fn bury_the_doomed(&mut self) {
        if let Some(host) = self.world.doomed.take() {
            let mut dice = Dice::of(self.world.seed, &[DOOMED, host as u64, self.world.now]);
            self.crash(host, &mut dice);
        }
    }

    /// The process dies, and knows nothing when it starts again at the same address.
    fn crash(&mut self, host: usize, dice: &mut Dice) {
        let world = &mut self.world;
        let process = world.hosts[host].process();
        if world.hosts[host].running.is_none() {
            return;
        }
        world.fault(Kind::Crash);
        world.note(Lane::Host(host), |_| format!("process {process} crashes"));
        let Some(running) = world.hosts[host].running.take() else { return };
        world.trace(4, &[host as u8]);
        world.hosts[host].stopped_until = None;
        self.service.gone(world, process);
        if let Some(session) = running.node.session().filter(|_| world.mix.lifelines) {
            world.close_lifeline(world.hosts[host].seat, &session);
        }
        let at = world.now + dice.magnitude(1, 2 * world.setup.lease);
        world.plan(at, Happening::Start(host));
    }

    fn stop(&mut self, host: usize, dice: &mut Dice) {
        let world = &mut self.world;
        let until = world.now + dice.below(world.mix.pause_for + 1);
        if world.hosts[host].running.is_none() || world.hosts[host].stopped_until.is_some() {
            return;
        }
        world.fault(Kind::Pause);
        world.note(Lane::Host(host), |_| format!("h{host} stops until {:.6}", until as f64 / 1e6));
        world.hosts[host].stopped_until = Some(until);
        world.plan(until, Happening::Resume(host));
    }

    fn leave(&mut self, host: usize) {
        let world = &mut self.world;
        let now = world.now;
        let place = &mut world.hosts[host];
        let process = place.process();
        let Some(running) = place.running.as_mut().filter(|_| place.stopped_until.is_none()) else { return };
        if running.leaving || running.node.session().is_none() {
            return;
        }
        running.leaving = true;
        let time = running.time(now);
        running.node.leave(time);
        self.service.gone(world, process);
        world.fault(Kind::Leave);
        world.note(Lane::Host(host), |_| format!("process {process} leaves"));
        self.settle(host);
    }

    /// Its packets that were not sent yet are lost with it.
    fn restart_controller(&mut self, seat: usize, dice: &mut Dice) {
        let world = &mut self.world;
        if world.seats[seat].office.take().is_none() {
            return;
        }
        world.fault(Kind::Controller);
        world.note(Lane::Seat(seat), |_| "the controller dies".to_string());
        world.trace(5, &[]);
        let at = world.now + dice.magnitude(1, 50_000 + 3 * world.setup.standby.unwrap_or(0));
        world.plan(at, Happening::ControllerStart(seat));
    }

    fn restart_switch(&mut self, seat: usize, dice: &mut Dice) {
        let world = &mut self.world;
        world.fault(Kind::Switch);
        world.note(Lane::Seat(seat), |_| "the switch restarts with an empty memory".to_string());
        world.trace(6, &[]);
        let switch = world.seats[seat].switch.clone();
        // One process in the daemon: usually both start again.
        let both = dice.percent(70) && world.seats[seat].office.take().is_some();
        if both && !world.setup.lists.is_empty() {
            let list = &world.setup.lists[dice.below(2) as usize];
            if *list != world.setup.lists[0] {
                world.outcomes.count("another list");
            }
            switch.relist(list);
        }
        switch.restart(&mut world.counters);
        if both {
            // With their host, whose clock begins anew.
            world.seats[seat].clock = world.new_clock();
            let at = world.now + dice.magnitude(1, 50_000);
            world.plan(at, Happening::ControllerStart(seat));
        }
    }

    fn stall(&mut self, seat: usize, dice: &mut Dice) {
        let world = &mut self.world;
        if world.seats[seat].stopped_until.is_some() {
            return;
        }
        world.fault(Kind::Stall);
        let until = world.now + dice.below(world.mix.pause_for + 1);
        world.note(Lane::Seat(seat), |_| format!("the switch stops until {:.6}", until as f64 / 1e6));
        world.seats[seat].stopped_until = Some(until);
        world.plan(until, Happening::ResumeSeat(seat));
    }

    pub(crate) fn resume_seat(&mut self, seat: usize) {
        let now = self.world.now;
        let place = &mut self.world.seats[seat];
        if place.stopped_until.is_some_and(|until| until > now) {
            return;
        }
        place.stopped_until = None;
        // Whatever was to be answered by it comes late.
        for host in 0..self.world.hosts.len() {
            self.world.network.trouble(host, now);
        }
        for flight in std::mem::take(&mut self.world.seats[seat].inbox) {
            self.world.at_switch(flight);
            self.bury_the_doomed();
        }
        self.world.tick_controller(seat);
        self.bury_the_doomed();
    }

    fn drain(&mut self, seat: usize) {
        // As the daemon does: it ends, and another is started in its place.
        if self.world.make_room(seat) {
            self.world.fault(Kind::Drain);
        }
    }

    fn break_store(&mut self, seat: usize, dice: &mut Dice) {
        let world = &mut self.world;
        world.fault(Kind::Store);
        let trouble = dice.pick(&[Trouble::Fails, Trouble::FailsLate]);
        let until = world.now + dice.below(world.mix.store_for + 1);
        world.note(Lane::Seat(seat), |_| format!("the store {trouble:?} until {:.6}", until as f64 / 1e6));
        world.seats[seat].disk.set_trouble(trouble);
        world.plan(until, Happening::StoreWorks(seat));
    }

    pub(crate) fn heal(&mut self) {
        let world = &mut self.world;
        world.headline(|_| "healed".to_string());
        world.phase = Phase::Healed;
        let mut mix = world.mix.clone();
        mix.heal(&mut world.schedule);
        world.mix = mix;
        world.network.heal();
        let now = world.now;
        for seat in &mut world.seats {
            seat.disk.set_trouble(Trouble::None);
            seat.stopped_until = seat.stopped_until.map(|until| until.min(now));
        }
        world.seats.iter_mut().for_each(|seat| seat.register_cut_until = 0);
        for host in &mut world.hosts {
            if let Some(until) = &mut host.stopped_until {
                *until = now;
            }
        }
        for host in 0..self.world.hosts.len() {
            self.resume(host);
        }
        for seat in 0..self.world.seats.len() {
            self.resume_seat(seat);
        }
        let world = &mut self.world;
        // Whatever the last fault was, its recovery may begin with a lease that runs out.
        // Sometimes nobody asks for anything after the faults: what they left behind must go by itself.
        let idle = Dice::of(world.seed, &[ENDS]).percent(20);
        let load = match world.options.small {
            _ if idle => 0,
            Some(_) => LEASE,
            None => 2 * (world.setup.lease + world.setup.grace()) + HEALED_LOAD,
        };
        self.calm_by = world.now + load;
        self.calm_at = world.network.packets + HEALED_PACKETS + world.mix.packets / 10;
    }
}

/// Purpose of dice.
const ENDS: u64 = 7;
const DOOMED: u64 = 11;
