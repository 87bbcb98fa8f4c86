//! A shard: its switch, the controller beside it, and the records of both.

use std::net::SocketAddrV4;

use wayside_protocol::controller::{
    Allocation, Config, Controller, DivisionView, LONGEST_LEASE, Namespace as Rules, Notice, Order, Room, Step,
};
use wayside_protocol::memory::SwitchMemory;
use wayside_protocol::{OVERTAKEN_MOST, ShardMap, Shards, Time};
use wayside_switch::Action;
use wayside_wire::{Engine, Policy};

use super::operators::shards_of;
use super::{ANNOUNCEMENTS, Happening, SHARDS, SITES, World, site_name};
use crate::dice::Dice;
use crate::report::Counts;
use crate::seat::{Disk, Namespace, SharedSwitch};
use crate::world::Phase;

/// See the module's documentation.
pub struct Site {
    pub switch: SharedSwitch,
    disk: Disk,
    config: Config,
    controller: Controller<SharedSwitch, Disk>,
    /// When its timer rings next.
    timer: u64,
    /// When clients hear of it.
    dice: Dice,
}

/// Handles of a switch: more than there are sessions in a run, since a handle rests for long.
const HANDLES: u16 = 600;
/// Number of the one namespace, and its name.
pub const SPACE: (u16, &str) = (1, "space1");
/// Between two announcements to a client, in microseconds.
const ANNOUNCED: u64 = 15_000;

impl Site {
    pub fn view(&self) -> DivisionView {
        self.controller.division()
    }

    pub fn story(&self) -> String {
        let DivisionView { division, behind, epoch } = self.view();
        let map = String::from_utf8_lossy(&division.map).into_owned();
        format!("{map:?} version {} {:?}, {} behind, epoch {epoch}", division.version, division.step, behind.len())
    }
}

impl World {
    pub(super) fn new_site(&mut self, site: usize) -> Site {
        let setup = &self.setup;
        let mut dice = Dice::of(self.seed, &[SHARDS, ANNOUNCEMENTS, site as u64]);
        let space =
            Namespace { id: SPACE.0, slots: setup.slots, policy: Policy::Fair, patience: OVERTAKEN_MOST, budget: None };
        let name = site_name(site);
        let place = setup.first.place(&name);
        // Who is to join has those in its configuration that there will be, as far as anybody knows.
        let known = setup.first.names().iter().cloned().chain(place.is_none().then(|| name.clone()));
        let map = ShardMap { version: 0, shards: Shards::new(known).expect("two to four names") };
        let shards = map.begins(&name).expect("it is of it");
        let config = Config {
            namespaces: vec![Rules {
                id: SPACE.0,
                name: SPACE.1.into(),
                policy: Policy::Fair,
                patience: OVERTAKEN_MOST,
                engine: Engine::Fission,
                names: wayside_protocol::Names::default(),
                allocation: Allocation::Fixed,
                room: Room::default(),
                servers: 1,
                lease: setup.lease,
                longest_lease: LONGEST_LEASE,
            }],
            shards,
            joins: place.is_none() && self.open != Some(site),
            first_epoch: dice.below(4) as u32,
            poll_period: 2_000,
            retransmit: 10_000,
            quarantine: 1_000_000,
            mutant: self.options.mutant,
            ..Config::default()
        };
        let switch = SharedSwitch::new(&[space], &[], HANDLES, false, 0);
        switch.serve_without_end();
        let disk = Disk::new(None);
        let controller = Controller::new(config.clone(), switch.clone(), disk.clone()).expect("an empty disk");
        Site { switch, disk, config, controller, timer: 0, dice }
    }

    /// Whoever started it sees the mistake: it joins as it should, with nothing in its records.
    pub(super) fn close_joiner(&mut self, site: usize) {
        if self.open.take_if(|open| *open == site).is_some() {
            self.sites[site] = self.new_site(site);
            self.plan(self.now, Happening::Control(site));
        }
    }

    pub(super) fn restart_controller(&mut self, site: usize) {
        let place = &mut self.sites[site];
        let controller = Controller::new(place.config.clone(), place.switch.clone(), place.disk.clone());
        place.controller = controller.expect("its own records");
        self.plan(self.now, Happening::Control(site));
    }

    pub(super) fn restart_switch(&mut self, site: usize) {
        self.sites[site].switch.restart(&mut Counts::new());
        self.sites[site].switch.serve_without_end();
        self.restart_controller(site);
    }

    pub(super) fn control(&mut self, site: usize) {
        let now = Time(self.now);
        self.sites[site].controller.on_tick(now);
        self.settle_site(site);
    }

    /// Sends what the controller has to say, and plans its next tick.
    fn settle_site(&mut self, site: usize) {
        while let Some((to, packet)) = self.sites[site].controller.transmit() {
            self.send(|| Happening::Down(to, packet.clone()));
        }
        while let Some(notice) = self.sites[site].controller.notice() {
            self.note(|_| format!("shard{site}: {notice:?}"));
            let above = self.sites[site].view().division.above;
            if matches!(notice, Notice::EpochRaised(epoch) if above > 0 && epoch == above + 1) {
                self.count("epoch raised for names");
            }
        }
        let (now, place) = (self.now, &mut self.sites[site]);
        let next = place.controller.next_timer().0.max(now + 1);
        if place.timer <= now || next < place.timer {
            place.timer = next;
            self.plan(next, Happening::Control(site));
        }
    }

    pub(super) fn at_switch(&mut self, site: usize, from: SocketAddrV4, mut packet: Vec<u8>) {
        self.trace(1, &packet);
        let switch = self.sites[site].switch.now();
        let verdict = switch.process(Time(self.now), &mut packet, from);
        if verdict.action == Action::Drop {
            return;
        }
        packet.truncate(verdict.length);
        if let Some(to) = verdict.copy.and_then(|agent| switch.address(agent, 0)) {
            let mut copy = packet.clone();
            if switch.make_copy(&mut copy) {
                self.send(|| Happening::Down(to, copy.clone()));
            }
        }
        match verdict.action {
            Action::Drop => {}
            Action::ToSender => self.send(|| Happening::Down(from, packet.clone())),
            Action::ToNode { handle, port } => {
                if let Some(to) = switch.address(handle, port) {
                    self.send(|| Happening::Down(to, packet.clone()));
                }
            }
            Action::ToController => {
                self.sites[site].controller.on_packet(Time(self.now), from, &packet);
                self.settle_site(site);
            }
        }
    }

    /// An operator's order arrives.
    pub(super) fn obey(&mut self, site: usize, order: &Order) -> bool {
        let before = self.sites[site].view().division;
        let obeyed = self.sites[site].controller.redivide(order);
        self.note(|_| format!("shard{site} is told {order:?} and says {obeyed:?}"));
        self.settle_site(site);
        self.plan(self.now, Happening::Control(site));
        if obeyed.is_ok() && before.version != order.version {
            // Its clients hear of it soon, those who listen.
            for client in 0..self.clients.len() {
                self.tell(site, client);
            }
        }
        obeyed.is_ok()
    }

    /// A site tells a client what it has, again and again, as it does whoever connects.
    pub(super) fn announce(&mut self, site: usize, client: usize) {
        self.tell(site, client);
        let next = self.now + self.sites[site].dice.magnitude(1_000, 2 * ANNOUNCED);
        self.plan(next, Happening::Announce(site, client));
    }

    fn tell(&mut self, site: usize, client: usize) {
        let division = self.sites[site].view().division;
        let (version, is_settled) = (division.version, division.step == Step::Settled);
        let Some(shards) = shards_of(&division.map).filter(|_| version > 0) else { return };
        if self.phase == Phase::Safety && self.sites[site].dice.percent(30) {
            return;
        }
        let takes = self.sites[site].dice.magnitude(20, 10_000);
        let map = ShardMap { version, shards };
        self.plan(self.now + takes, Happening::Told(client, site, map, is_settled));
    }

    /// The map that all sites have, if they have one.
    pub(super) fn is_settled(&self) -> bool {
        let views: Vec<_> = self.sites.iter().map(|site| site.view().division).collect();
        let Some(latest) = views.iter().max_by_key(|division| division.version) else { return true };
        let shards = shards_of(&latest.map).unwrap_or_else(|| self.setup.first.clone());
        let is_of_it = |site: usize| shards.place(&site_name(site)).is_some();
        (0..SITES)
            .filter(|site| is_of_it(*site))
            .all(|site| views[site].version == latest.version && views[site].step == Step::Settled)
    }

    /// The shards of a map, or those of the beginning.
    pub(super) fn shards_or_first(&self, map: &[u8]) -> Shards {
        shards_of(map).unwrap_or_else(|| self.setup.first.clone())
    }
}
