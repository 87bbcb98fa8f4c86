//! What the tasks of a process do when they wake up, and when they are answered.

use wayside_protocol::RequestId;

use super::{Happening, Phase, World};
use crate::apps::{self, Stage};
use crate::checker::Process;

impl World {
    pub(super) fn set_alarm(&mut self, index: usize, task: usize, after: u64) {
        let process = self.hosts[index].process();
        let Some(running) = &mut self.hosts[index].running else { return };
        running.tasks[task].alarm += 1;
        let alarm = running.tasks[task].alarm;
        self.plan(self.now + after, Happening::Alarm(process, task, alarm));
    }

    pub(super) fn pause_task(&mut self, index: usize, task: usize) {
        let after = self.dice.below(self.habits.think + 1);
        self.set_alarm(index, task, after);
    }

    pub(super) fn wake(&mut self, process: Process, task: usize, alarm: u64) {
        let index = process.host;
        let host = &self.hosts[index];
        if host.process() != process {
            return;
        }
        if let Some(until) = host.stopped_until {
            return self.plan(until + 1, Happening::Alarm(process, task, alarm));
        }
        let Some(running) = &mut self.hosts[index].running else { return };
        if running.tasks[task].alarm != alarm {
            return;
        }
        match std::mem::take(&mut running.tasks[task].stage) {
            Stage::Idle => self.begin(index, task),
            Stage::Asking(requests) => {
                self.count("cancelled");
                self.give_back(index, task, &requests);
            }
            Stage::Using(requests) => self.finish(index, task, requests),
        }
        self.settle(index);
    }

    pub(super) fn begin(&mut self, index: usize, task: usize) {
        if self.phase == Phase::Calm {
            return;
        }
        let World { hosts, habits, dice, now, .. } = self;
        let Some(running) = &mut hosts[index].running else { return };
        let port = if dice.percent(10) { 0 } else { 8_001 + task as u16 };
        let wishes = apps::wishes(habits, dice, port, &running.clock, *now);
        let time = running.time(*now);
        let mut requests = Vec::new();
        let asked = match wishes[..] {
            [wish] => running.node.acquire(time, wish).map(|request| requests.push(request)),
            _ => running.node.acquire_many(time, &wishes, &mut requests),
        };
        if asked.is_err() {
            self.count("not asked");
            return self.set_alarm(index, task, 10_000);
        }
        self.out.operations += 1;
        for (request, wish) in requests.iter().zip(&wishes) {
            let owner = self.owner(index, *request);
            self.checker.asked(self.now, owner, wish.name);
        }
        let Some(running) = &mut self.hosts[index].running else { return };
        running.askers.extend(requests.iter().map(|request| (*request, task)));
        running.tasks[task].stage = Stage::Asking(requests);
        running.tasks[task].granted = 0;
        running.tasks[task].exclusive = None;
        running.tasks[task].alarm += 1;
        if self.dice.percent(self.habits.cancels) {
            let after = self.dice.magnitude(1, 100_000);
            self.set_alarm(index, task, after);
        }
    }

    pub(super) fn on_granted(&mut self, index: usize, request: RequestId) {
        let Some(running) = &mut self.hosts[index].running else { return };
        let Some(&task) = running.askers.get(&request) else { return };
        let mode = running.node.holds().find(|hold| hold.request == request).map(|hold| hold.mode);
        let state = &mut running.tasks[task];
        state.granted += 1;
        if mode == Some(wayside_protocol::Mode::Exclusive) {
            state.exclusive = Some(request);
        }
        if let Stage::Asking(requests) = &mut state.stage
            && state.granted == requests.len()
        {
            state.stage = Stage::Using(std::mem::take(requests));
            let stuck = self.phase == Phase::Safety && self.dice.percent(self.habits.stuck);
            let longest = if stuck { 3 * self.lease } else { self.habits.hold };
            let after = self.dice.below(longest + 1);
            self.set_alarm(index, task, after);
        }
    }

    pub(super) fn on_refused(&mut self, index: usize, request: RequestId, why: &'static str) {
        self.count(why);
        let owner = self.owner(index, request);
        self.checker.answered(owner);
        let Some(running) = &mut self.hosts[index].running else { return };
        let Some(&task) = running.askers.get(&request) else { return };
        // One of several: the others are of no use.
        match std::mem::take(&mut running.tasks[task].stage) {
            Stage::Idle => {}
            Stage::Asking(requests) | Stage::Using(requests) => self.give_back(index, task, &requests),
        }
    }

    pub(super) fn finish(&mut self, index: usize, task: usize, requests: Vec<RequestId>) {
        let World { hosts, dice, habits, now, .. } = self;
        let Some(running) = &mut hosts[index].running else { return };
        let exclusive = running.tasks[task].exclusive.take();
        if let Some(request) = exclusive.filter(|_| dice.percent(habits.downgrades)) {
            let time = running.time(*now);
            let after = dice.below(habits.hold + 1);
            running.node.downgrade(time, request);
            running.tasks[task].stage = Stage::Using(requests);
            let owner = self.owner(index, request);
            self.checker.downgraded(owner);
            return self.set_alarm(index, task, after);
        }
        self.give_back(index, task, &requests);
    }

    /// Releases what is held of these, cancels the rest; then the task does something else.
    pub(super) fn give_back(&mut self, index: usize, task: usize, requests: &[RequestId]) {
        for &request in requests {
            let owner = self.owner(index, request);
            self.checker.gave_back(owner);
            self.release(index, request);
            let Some(running) = &mut self.hosts[index].running else { return };
            running.askers.remove(&request);
        }
        self.check_accounts(index);
        self.pause_task(index, task);
    }

    pub(super) fn check_accounts(&mut self, index: usize) {
        self.take_events(index);
        let process = self.hosts[index].process();
        if let Some(running) = self.hosts[index].running.as_ref().filter(|running| running.believes(self.now)) {
            let own = running.node.holds().map(|hold| hold.request).collect();
            self.checker.accounts(self.now, process, own);
        }
    }
}
