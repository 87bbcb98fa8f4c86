//! The controllers of a world of chains: two that share a post and a store, of which one is active at a time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use wayside_protocol::chain::controller::{Config, Controller, Fellow, Notice};
use wayside_protocol::chain::memory::ItemMemory;
use wayside_protocol::chain::{FELLOWS, Following, Lease};
use wayside_protocol::controller::{Record, Store};
use wayside_protocol::memory::{Moment, NodeEntry, SwitchMemory};
use wayside_protocol::seal::Keys;
use wayside_protocol::{Handle, Time};
use wayside_wire::Header;

use super::{Happening, SPACE, World};
use crate::clock::Clock;
use crate::dice::Dice;
use crate::host::Host;
use crate::network::Flight;
use crate::schedule::Kind;
use crate::world::Phase;

/// How controllers of a world keep chains, in microseconds.
#[derive(Clone, Debug)]
pub struct Keeping {
    pub(super) lease: u64,
    patience: u64,
    retransmit: u64,
    full_pause: u64,
    loads_least: usize,
    window: usize,
    /// Of the post.
    post: u64,
}

/// A controller's place.
pub struct Office {
    controller: Option<Controller<Disk>>,
    clock: Clock,
    timer: Option<u64>,
    pub(super) stopped_until: Option<u64>,
    inbox: Vec<Flight>,
}

/// What controllers share.
#[derive(Default)]
pub struct Shared {
    records: BTreeMap<u32, Vec<u8>>,
    /// Who has the post, and until when, in world time.
    holder: usize,
    until: u64,
    /// It takes nothing.
    pub(super) is_away: bool,
    now: u64,
}

/// The store as one of them sees it: it takes what comes from who has the post.
pub struct Disk {
    own: usize,
    shared: Rc<RefCell<Shared>>,
}

impl Store for Disk {
    type Error = &'static str;

    fn load(&mut self) -> Result<Vec<Record>, &'static str> {
        let shared = self.shared.borrow();
        if shared.is_away {
            return Err("away");
        }
        Ok(shared.records.iter().map(|(key, value)| (*key, value.clone())).collect())
    }

    fn commit(&mut self, batch: &[Record]) -> Result<(), &'static str> {
        let mut shared = self.shared.borrow_mut();
        if shared.is_away || shared.holder != self.own || shared.now >= shared.until {
            return Err("away, or not for this one");
        }
        shared.records.extend(batch.iter().cloned());
        Ok(())
    }
}

impl Keeping {
    pub(super) fn draw(dice: &mut Dice) -> Keeping {
        let lease = dice.magnitude(20_000, 200_000);
        Keeping {
            lease,
            patience: dice.between(lease / 3, lease),
            retransmit: dice.between(1_000, 10_000),
            full_pause: 5_000_000,
            loads_least: dice.between(1, 3) as usize,
            post: dice.magnitude(20_000, 200_000),
            window: dice.between(1, 8) as usize,
        }
    }

    /// Chains change as fast as they can.
    pub(super) fn hurry(&mut self, dice: &mut Dice) {
        self.lease = dice.between(20_000, 50_000);
        self.patience = dice.between(self.lease / 3, self.lease);
    }
}

/// Controllers of a world that has any.
const CONTROLLERS: usize = 2;
/// Number of a controller where secrets are drawn; switches have lower ones.
const CONTROLLER: u64 = 500;

impl World {
    pub(super) fn make_controllers(&mut self) {
        if self.setup.keeping.is_none() {
            return;
        }
        for index in 0..CONTROLLERS {
            let clock = self.new_clock();
            let office = Office { controller: None, clock, timer: None, stopped_until: None, inbox: Vec::new() };
            self.offices.push(office);
            self.start_controller(index);
            self.plan(index as u64, Happening::Post(index));
        }
    }

    pub(super) fn start_controller(&mut self, index: usize) {
        let Some(keeping) = self.setup.keeping.clone() else { return };
        let config = Config {
            own: self.handle_of_controller(index),
            groups: (self.setup.base..=u16::MAX).take(self.setup.groups.into()).collect(),
            length: self.setup.length,
            lease: keeping.lease,
            drift_ppm: self.setup.mix.drift_ppm,
            patience: keeping.patience,
            retransmit: keeping.retransmit,
            full_pause: keeping.full_pause,
            loads_least: keeping.loads_least,
            loads_most: 4 * keeping.loads_least,
            // One more draw would make all seeds other ones.
            records_most: 1 + keeping.retransmit as usize % 4,
            mutant: self.options.mutant,
        };
        let fellow = |seat: usize| Fellow {
            handle: World::handle_of_seat(seat),
            address: Host::socket(self.party(seat), 0),
            weight: u32::from(!self.leaving.contains(&seat)),
        };
        let fellows: Vec<Fellow> = (0..self.setup.switches).map(fellow).collect();
        let disk = Disk { own: index, shared: self.shared.clone() };
        self.offices[index].controller = Some(Controller::new(config, &fellows, disk));
        self.note(|_| format!(" k{index}: a controller starts"));
    }

    /// A switch has a new, empty memory: it knows nobody's places, and everybody's keys.
    pub(super) fn follow(&self, seat: usize) -> Following {
        let mutant = self.options.mutant;
        let Some(keeping) = &self.setup.keeping else { return Following { mutant, ..Following::default() } };
        Following {
            boot: self.seats.get(seat).map_or(0, |seat| seat.boot) + 1,
            controllers: (0..CONTROLLERS).map(|index| self.handle_of_controller(index)).collect(),
            renewal: keeping.lease / 5,
            retransmit: keeping.retransmit,
            window: keeping.window,
            mutant,
        }
    }

    pub(super) fn introduce_controllers(&self, seat: usize) {
        for index in 0..self.offices_wanted() {
            let handle = self.handle_of_controller(index);
            let keys = self.controller_keys(seat, index);
            let switch = &self.seats[seat].switch;
            switch.set_keys(handle, self.setup.authenticated.then_some(&keys));
            let address = Host::socket(self.party(self.setup.switches) + index, 0);
            switch.set_node(handle, &NodeEntry { address, namespace: FELLOWS, incarnation: 1 });
        }
    }

    pub(super) fn offices_wanted(&self) -> usize {
        if self.setup.keeping.is_some() { CONTROLLERS } else { 0 }
    }

    pub(super) fn controller_keys(&self, seat: usize, index: usize) -> Keys {
        self.secret(seat as u64, CONTROLLER + index as u64).keys(World::period(0))
    }

    pub(super) fn handle_of_controller(&self, index: usize) -> Handle {
        (1 + self.setup.switches + self.setup.clients + index) as Handle
    }

    // ---- the post ----

    /// A controller asks for the post, which is given for a while.
    pub(super) fn ask_post(&mut self, index: usize) {
        let Some(keeping) = self.setup.keeping.clone() else { return };
        self.plan(self.now + keeping.post / 4, Happening::Post(index));
        let office = &mut self.offices[index];
        if office.stopped_until.is_some() || office.controller.is_none() {
            return;
        }
        let time = office.clock.at(self.now);
        {
            let mut shared = self.shared.borrow_mut();
            shared.now = self.now;
            if shared.holder != index && self.now < shared.until {
                return;
            }
            // A clock that is slow shows less than this for as long as it takes.
            let drift = u64::from(self.setup.mix.drift_ppm);
            (shared.holder, shared.until) = (index, self.now + keeping.post + keeping.post * 3 * drift / 1_000_000 + 2);
        }
        if let Some(controller) = &mut office.controller {
            controller.take_post(time, time + keeping.post);
        }
        self.settle_controller(index);
    }

    /// A packet arrives at a controller.
    pub(super) fn at_controller(&mut self, index: usize, flight: Flight) {
        self.note(|world| world.tell(&flight));
        if self.offices[index].stopped_until.is_some() {
            return self.offices[index].inbox.push(flight);
        }
        let keys = self.controller_keys(flight.seat, index);
        let is_its = Header::read(&flight.packet).is_ok_and(|h| h.source == World::handle_of_seat(flight.seat));
        if self.setup.authenticated && (flight.packet.len() < 64 || !keys.down.made_tag(&flight.packet)) || !is_its {
            return;
        }
        self.shared.borrow_mut().now = self.now;
        let office = &mut self.offices[index];
        let time = office.clock.at(self.now);
        if let Some(controller) = &mut office.controller {
            controller.on_packet(time, &flight.packet);
        }
        self.settle_controller(index);
    }

    pub(super) fn ring_controller(&mut self, index: usize) {
        let now = self.now;
        let office = &mut self.offices[index];
        if office.timer != Some(now) || office.stopped_until.is_some() {
            return;
        }
        office.timer = None;
        self.shared.borrow_mut().now = now;
        let time = office.clock.at(now);
        if let Some(controller) = &mut office.controller {
            controller.on_tick(time);
        }
        self.settle_controller(index);
    }

    fn settle_controller(&mut self, index: usize) {
        let now = self.now;
        while let Some(mut sent) = self.offices[index].controller.as_mut().and_then(Controller::transmit) {
            let seat = usize::from(sent.to) - 1;
            if self.setup.authenticated {
                self.controller_keys(seat, index).up.sign(0, &mut sent.packet);
            }
            let party = self.party(self.setup.switches) + index;
            self.send((party, 0), Host::socket(self.party(seat), 0), sent.packet);
        }
        while let Some(notice) = self.offices[index].controller.as_mut().and_then(Controller::notice) {
            self.note(|_| format!(" k{index}: {notice:?}"));
            match notice {
                Notice::Active(..) => self.outcomes.count("chain active"),
                Notice::Excluded(..) => self.outcomes.count("switch left out"),
                Notice::Joining(..) => self.outcomes.count("switch joins"),
                Notice::Full(..) => self.outcomes.count("no room for a group"),
                Notice::StoreFailed => self.outcomes.count("store failed"),
                Notice::Lost(_) => {
                    self.outcomes.count("chain lost");
                    self.is_lost = true;
                }
            }
        }
        let office = &mut self.offices[index];
        let next = office.controller.as_ref().and_then(|controller| office.clock.world(controller.next_timer()));
        if let Some(at) = next.map(|at| at.max(now + 1)).filter(|at| office.timer.is_none_or(|t| t <= now || *at < t)) {
            office.timer = Some(at);
            self.plan(at, Happening::Control(index));
        }
    }

    pub(super) fn resume_controller(&mut self, index: usize) {
        if self.offices[index].stopped_until.is_none_or(|until| until > self.now) {
            return;
        }
        self.offices[index].stopped_until = None;
        self.offices[index].timer = None;
        for flight in std::mem::take(&mut self.offices[index].inbox) {
            self.at_controller(index, flight);
        }
        self.settle_controller(index);
    }

    /// Whoever has the post says that all chains are as they should be.
    pub(super) fn is_settled(&self) -> bool {
        if !self.seats.iter().all(|seat| seat.member.is_swept()) {
            return false;
        }
        let Some(_) = self.setup.keeping else { return true };
        let office = &self.offices[self.shared.borrow().holder];
        let time = office.clock.at(self.now);
        self.setup.is_tight || office.controller.as_ref().is_some_and(|controller| controller.is_settled(time))
    }

    // ---- what goes wrong ----

    pub(super) fn stop_controller(&mut self, dice: &mut Dice) {
        let index = dice.below(CONTROLLERS as u64) as usize;
        if self.offices.is_empty() || self.offices[index].stopped_until.is_some() {
            return;
        }
        let until = self.now + dice.below(self.setup.mix.pause_for + 1);
        self.faults.count(Kind::Controller.name());
        if dice.percent(50) {
            self.note(|_| format!(" k{index}: dies"));
            self.start_controller(index);
            return;
        }
        self.note(|_| format!(" k{index}: stops until {:.6}", until as f64 / 1e6));
        self.offices[index].stopped_until = Some(until);
        self.plan(until, Happening::ResumeController(index));
    }

    pub(super) fn break_store(&mut self, dice: &mut Dice) {
        if self.offices.is_empty() {
            return;
        }
        self.faults.count(Kind::Store.name());
        self.shared.borrow_mut().is_away = true;
        self.plan(self.now + dice.below(self.setup.mix.store_for + 1), Happening::StoreWorks);
    }

    /// A switch is to have no groups, or some again.
    pub(super) fn drain(&mut self, seat: usize) {
        if self.offices.is_empty() {
            return;
        }
        self.faults.count(Kind::Drain.name());
        let weight = u32::from(self.leaving.remove(&seat));
        if weight == 0 && self.leaving.len() + 1 < self.setup.switches {
            self.leaving.insert(seat);
        }
        self.note(|_| format!(" s{seat}: has a share of {weight}"));
        self.share(seat);
    }

    pub(super) fn share(&mut self, seat: usize) {
        let weight = u32::from(!self.leaving.contains(&seat));
        for office in &mut self.offices {
            if let Some(controller) = &mut office.controller {
                controller.set_weight(World::handle_of_seat(seat), weight);
            }
        }
    }

    /// A switch restarts with an empty memory, where every chain has somebody else who has what it had.
    pub(super) fn restart_switch(&mut self, seat: usize) {
        if self.offices.is_empty() || self.phase != Phase::Safety {
            return;
        }
        let holder = self.shared.borrow().holder;
        let Some(controller) = &self.offices[holder].controller else { return };
        let mut groups = self.setup.base..self.setup.base + self.setup.groups;
        let handle = World::handle_of_seat(seat);
        let keeps = |chain: &[Handle]| {
            !chain.contains(&handle)
                || chain.iter().any(|h| *h != handle && self.seats[usize::from(*h) - 1].stopped_until.is_none())
        };
        if !groups.all(|group| controller.chain(group).is_some_and(keeps)) {
            return;
        }
        self.faults.count(Kind::Switch.name());
        self.begin_anew(seat);
    }

    /// What a member was told for its switch.
    pub(super) fn obey(&mut self, seat: usize) {
        while let Some(Lease { since, lasts }) = self.seats[seat].member.lease() {
            self.seats[seat].switch.serve_places_for(Moment { time: since, tick: 0 }, lasts);
        }
        let now = self.now;
        let place = &mut self.seats[seat];
        let next = place.clock.world(place.member.next_timer()).map(|at| at.max(now + 1));
        if let Some(at) = next.filter(|at| place.timer.is_none_or(|t| t <= now || *at < t)) {
            place.timer = Some(at);
            self.plan(at, Happening::Member(seat));
        }
    }

    pub(super) fn ring_member(&mut self, seat: usize) {
        let now = self.now;
        let place = &mut self.seats[seat];
        if place.timer != Some(now) || place.stopped_until.is_some() {
            return;
        }
        place.timer = None;
        let time: Time = place.clock.at(now);
        place.member.on_tick(time);
        self.settle_member(seat);
    }

    /// Whatever is asked of a key is named where it lies.
    pub(super) fn check_names(&mut self, group: u16, key: wayside_protocol::chain::Key, seat: usize) {
        let place = &self.seats[seat];
        if place.switch.content(group, key).is_some() && !place.member.is_named(group, key) {
            self.fail("K4", format!("switch {seat} has {key:?} of {} and not its name", SPACE.1));
        }
    }
}
