//! What goes wrong besides single packets: between any two of them anything may break. And how it heals.

use wayside_protocol::memory::{SlotWord, SwitchMemory};
use wayside_wire::limits;

use super::{HEALED_LOAD, Happening, Phase, World};
use crate::host::Running;
use crate::switch::NAMESPACE;

impl World {
    /// Between any two packets anything may break.
    pub(super) fn draw_faults(&mut self) {
        if self.phase != Phase::Safety {
            return;
        }
        let mut every = |packets: u64| packets > 0 && self.dice.below(packets) == 0;
        let faults = &self.faults;
        let [cut, crash, pause, leave, controller, switch] = [
            every(faults.partition_every),
            every(faults.crash_every),
            every(faults.pause_every),
            every(faults.leave_every),
            every(faults.controller_every),
            every(faults.switch_every),
        ];
        let host = self.dice.below(self.hosts.len() as u64) as usize;
        if cut {
            self.cut(host);
        }
        if crash {
            self.crash(host);
        }
        if pause {
            self.stop(host);
        }
        if leave {
            self.leave(host);
        }
        if controller {
            self.restart_controller();
        }
        if switch {
            self.restart_switch();
        }
    }

    pub(super) fn cut(&mut self, host: usize) {
        self.fault("partition");
        let ways = self.dice.pick(&[[true, true], [true, false], [false, true]]);
        let until = self.now + self.dice.below(self.faults.partition_for + 1);
        self.network.cut(host, ways, until);
        self.chart(|_| format!("host {host} is cut off (up, down: {ways:?}) until {until}"));
    }

    /// The process dies, and knows nothing when it starts again at the same address.
    pub(super) fn crash(&mut self, host: usize) {
        let process = self.hosts[host].process();
        let Some(running) = self.hosts[host].running.take() else { return };
        self.fault("crash");
        self.chart(|_| format!("{process:?} crashes"));
        self.trace(4, &[host as u8]);
        self.checker.died(process);
        self.hosts[host].stopped_until = None;
        let handle = running.node.session().map(|session| session.handle);
        if let Some(handle) = handle.filter(|_| self.faults.lifelines) {
            let now = self.controller_clock.at(self.now);
            if let Some(controller) = &mut self.controller {
                controller.closed(now, handle);
                self.settle_controller();
            }
        }
        let at = self.now + self.dice.magnitude(1, 2 * self.lease);
        self.plan(at, Happening::Start(host));
    }

    pub(super) fn stop(&mut self, host: usize) {
        let until = self.now + self.dice.below(self.faults.pause_for + 1);
        if self.hosts[host].running.is_none() || self.hosts[host].stopped_until.is_some() {
            return;
        }
        self.fault("pause");
        self.chart(|_| format!("host {host} stops until {until}"));
        self.hosts[host].stopped_until = Some(until);
        self.plan(until, Happening::Resume(host));
    }

    pub(super) fn leave(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        let process = host.process();
        let Some(running) = host.running.as_mut().filter(|_| host.stopped_until.is_none()) else { return };
        if running.leaving || running.node.session().is_none() {
            return;
        }
        running.leaving = true;
        let time = running.time(self.now);
        running.node.leave(time);
        self.checker.died(process);
        self.fault("leave");
        self.chart(|_| format!("{process:?} leaves"));
        for task in 0..self.habits.tasks as usize {
            self.quiet_task(index, task);
        }
        self.settle(index);
    }

    pub(super) fn quiet_task(&mut self, index: usize, task: usize) {
        if let Some(Running { tasks, .. }) = &mut self.hosts[index].running {
            tasks[task].alarm += 1;
        }
    }

    /// Its packets that were not sent yet are lost with it.
    pub(super) fn restart_controller(&mut self) {
        if self.controller.take().is_none() {
            return;
        }
        self.fault("controller restart");
        self.chart(|_| "the controller dies".to_string());
        self.trace(5, &[]);
        let at = self.now + self.dice.magnitude(1, 50_000);
        self.plan(at, Happening::ControllerStart);
    }

    pub(super) fn restart_switch(&mut self) {
        self.fault("switch restart");
        self.chart(|_| "the switch restarts with an empty memory".to_string());
        self.trace(6, &[]);
        self.switch.restart(&mut self.out.verdicts);
        // One process in the daemon: usually both start again.
        if self.dice.percent(70) && self.controller.take().is_some() {
            let at = self.now + self.dice.magnitude(1, 50_000);
            self.plan(at, Happening::ControllerStart);
        }
    }

    /// Slots near their last tenure, as after billions of hand-overs.
    pub(super) fn age_slots(&mut self) {
        if self.faults.tenures_left == 0 {
            return;
        }
        for slot in 0..self.switch.slots() {
            let left = self.dice.below(u64::from(self.faults.tenures_left) + 1) as u32;
            let word = self.switch.load_slot(NAMESPACE, slot);
            self.switch.cas_slot(NAMESPACE, slot, word, SlotWord::unheld(limits::MAX_TENURE - left));
        }
    }

    pub(super) fn heal(&mut self) {
        self.chart(|_| "---- healed ----".to_string());
        self.phase = Phase::Healed;
        self.faults = self.faults.healed();
        self.network.heal();
        for host in &mut self.hosts {
            if let Some(until) = &mut host.stopped_until {
                *until = self.now;
            }
        }
        for index in 0..self.hosts.len() {
            self.resume(index);
        }
        // Whatever the last fault was, its recovery may begin with a lease that runs out.
        // Sometimes nobody asks for anything after the faults: what they left behind must go by itself.
        let load = if self.dice.percent(20) { 0 } else { 2 * (self.lease + self.grace()) + HEALED_LOAD };
        self.calm_by = self.now + load;
    }
}
