//! What goes wrong in a world of chains besides single packets, and how it heals.

use super::{HEALED_LOAD, HEALED_PACKETS, Happening, World};
use crate::dice::Dice;
use crate::schedule::Kind;
use crate::world::Phase;

impl World {
    /// Between any two packets anything may break.
    pub(super) fn draw_mishaps(&mut self) {
        if self.phase != Phase::Safety {
            return;
        }
        for kind in [
            Kind::Partition,
            Kind::Crash,
            Kind::Pause,
            Kind::Stall,
            Kind::Controller,
            Kind::Switch,
            Kind::Store,
            Kind::Drain,
            Kind::Flood,
        ] {
            let Some(mut dice) = self.schedule.happens(self.now, kind) else { continue };
            let client = dice.below(self.setup.clients as u64) as usize;
            let seat = dice.below(self.setup.switches as u64) as usize;
            match kind {
                Kind::Partition => self.cut(seat, &mut dice),
                Kind::Crash => self.crash(client, &mut dice),
                Kind::Pause => self.pause_client(client, &mut dice),
                Kind::Controller => self.stop_controller(&mut dice),
                Kind::Switch => self.restart_switch(seat),
                Kind::Store => self.break_store(&mut dice),
                Kind::Drain => self.drain(seat),
                Kind::Flood => self.flood(seat),
                _ => self.pause_switch(seat, &mut dice),
            }
        }
    }

    /// A switch cannot hear some party, or is not heard by it, or neither.
    fn cut(&mut self, seat: usize, dice: &mut Dice) {
        self.faults.count(Kind::Partition.name());
        let parties = (self.setup.clients + self.setup.switches + self.offices.len()) as u64;
        let party = dice.below(parties) as usize;
        let ways = dice.pick(&[[true, true], [true, false], [false, true]]);
        let until = self.now + dice.below(self.setup.mix.partition_for + 1);
        if !self.offices.is_empty() && dice.percent(50) {
            return self.cut_from_controllers(seat, until);
        }
        self.network.cut(party, seat, ways, until);
        self.note(|_| format!(" s{seat}: cut off from party {party} {ways:?} until {:.6}", until as f64 / 1e6));
    }

    /// A switch that clients still reach is left out.
    fn cut_from_controllers(&mut self, seat: usize, until: u64) {
        let first = self.setup.clients + self.setup.switches;
        for party in first..first + self.offices.len() {
            self.network.cut(party, seat, [true, true], until);
        }
        self.note(|_| format!(" s{seat}: cut off from controllers until {:.6}", until as f64 / 1e6));
    }

    fn pause_client(&mut self, client: usize, dice: &mut Dice) {
        let until = self.now + dice.below(self.setup.mix.pause_for + 1);
        let host = &mut self.hosts[client];
        if host.running.is_none() || host.stopped_until.is_some() {
            return;
        }
        host.stopped_until = Some(until);
        self.faults.count(Kind::Pause.name());
        self.note(|_| format!(" c{client}: stops until {:.6}", until as f64 / 1e6));
        self.plan(until, Happening::Resume(client));
    }

    fn pause_switch(&mut self, seat: usize, dice: &mut Dice) {
        let until = self.now + dice.below(self.setup.mix.pause_for + 1);
        if self.seats[seat].stopped_until.is_some() {
            return;
        }
        self.seats[seat].stopped_until = Some(until);
        self.faults.count(Kind::Stall.name());
        self.note(|_| format!(" s{seat}: stops until {:.6}", until as f64 / 1e6));
        self.plan(until, Happening::ResumeSwitch(seat));
    }

    /// A stopped switch goes on with what its card has kept.
    pub(super) fn resume_switch(&mut self, seat: usize) {
        if self.seats[seat].stopped_until.is_none_or(|until| until > self.now) {
            return;
        }
        self.seats[seat].stopped_until = None;
        self.note(|_| format!(" s{seat}: goes on"));
        for flight in std::mem::take(&mut self.seats[seat].inbox) {
            self.at_switch(flight);
        }
        self.seats[seat].timer = None;
        self.obey(seat);
    }

    /// Nothing goes wrong any more, but for who forges packets, and a second processor.
    pub(super) fn heal(&mut self) {
        self.phase = Phase::Healed;
        self.setup.mix.heal(&mut self.schedule);
        self.network.heal();
        self.ends = self.now + HEALED_LOAD;
        self.ends_at = self.network.packets + HEALED_PACKETS;
        self.note(|_| "---- healed ----".to_string());
        self.shared.borrow_mut().is_away = false;
        self.leaving.clear();
        (0..self.setup.switches).for_each(|seat| self.share(seat));
        for index in 0..self.offices.len() {
            if self.offices[index].stopped_until.is_some() {
                self.offices[index].stopped_until = Some(self.now);
                self.resume_controller(index);
            }
        }
        for client in 0..self.setup.clients {
            if self.hosts[client].stopped_until.is_some() {
                self.hosts[client].stopped_until = Some(self.now);
                self.resume_client(client);
            }
        }
        for seat in 0..self.setup.switches {
            if self.seats[seat].stopped_until.is_some() {
                self.seats[seat].stopped_until = Some(self.now);
                self.resume_switch(seat);
            }
        }
    }
}
