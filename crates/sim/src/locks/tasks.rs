//! What the tasks of a process do when they wake up, and when they are answered.

use wayside_protocol::{AcquireError, Mode, RequestId, Token};
use wayside_wire::{limits, slot_of};

use super::{Crew, Locks};
use crate::ServiceKind;
use crate::dice::Dice;
use crate::host::Running;
use crate::schedule::Kind;
use crate::world::{Phase, World};

/// Where a task is.
#[derive(Debug, Default)]
pub enum Stage {
    /// Does something else.
    #[default]
    Idle,
    /// Waits for the rest of these; cancels when it is woken before.
    Asking(Vec<RequestId>),
    /// Holds all of these.
    Using(Vec<RequestId>),
}

/// One thread of an application.
#[derive(Default)]
pub struct Task {
    stage: Stage,
    /// How many of its requests are granted.
    granted: usize,
    /// One of them is exclusive, and may be downgraded.
    exclusive: Option<RequestId>,
    /// Counts its wake-ups: an earlier one is void.
    pub alarm: u64,
    /// Of what it is at.
    dice: Option<Dice>,
    /// Pauses so far.
    pauses: u64,
}

impl Task {
    fn draw(&mut self, below: u64) -> u64 {
        self.dice.as_mut().map_or(0, |dice| dice.below(below))
    }

    fn percent(&mut self, percent: u32) -> bool {
        self.dice.as_mut().is_some_and(|dice| dice.percent(percent))
    }
}

impl Locks {
    fn set_alarm(&mut self, world: &mut World, host: usize, task: usize, after: u64) {
        let state = &mut self.crew(world, host).tasks[task];
        state.alarm += 1;
        let alarm = state.alarm;
        world.set_alarm(host, task, alarm, after);
    }

    pub(super) fn pause_task(&mut self, world: &mut World, host: usize, task: usize) {
        let think = self.habits.think;
        let generation = world.hosts[host].generation;
        let state = &mut self.crew(world, host).tasks[task];
        state.pauses += 1;
        let purpose = [PAUSES, host as u64, generation.into(), task as u64, state.pauses];
        let after = Dice::of(world.seed, &purpose).below(think + 1);
        self.set_alarm(world, host, task, after);
    }

    pub(super) fn wake(&mut self, world: &mut World, host: usize, task: usize, alarm: u64) {
        let state = &mut self.crew(world, host).tasks[task];
        if state.alarm != alarm {
            return;
        }
        match std::mem::take(&mut state.stage) {
            Stage::Idle => self.begin(world, host, task),
            Stage::Asking(requests) => {
                world.count("cancelled");
                self.give_back(world, host, task, &requests);
            }
            Stage::Using(requests) => self.finish(world, host, task, requests),
        }
    }

    fn begin(&mut self, world: &mut World, host: usize, task: usize) {
        if world.phase == Phase::Calm {
            return;
        }
        let now = world.now;
        let Some(mut dice) = world.schedule.happens(now, Kind::Ask) else {
            return self.pause_task(world, host, task);
        };
        let space = world.hosts[host].namespace;
        let Some(running) = &mut world.hosts[host].running else { return };
        let port = if dice.percent(10) { 0 } else { 8_001 + task as u16 };
        let mut wishes = self.habits.wishes(&mut dice, space, port, &running.clock, now);
        if let Some(division) = world.setup.division.as_ref().filter(|_| !running.mistaken) {
            wishes.retain(|wish| division.has(wish.name));
            if wishes.is_empty() {
                return self.pause_task(world, host, task);
            }
        }
        if world.options.service == ServiceKind::Hybrid {
            wishes.sort_by_key(|wish| (running.node.place_of(wish.name), wish.name));
        }
        let time = running.time(now);
        let mut requests = Vec::new();
        let slot = slot_of(wishes[0].name, world.setup.namespaces[space].slots);
        let question = self.draw_question(world, host, wishes[0].name).filter(|_| wishes.len() == 1);
        let asked = self.ask(world, host, slot, |world| match (&mut world.hosts[host].running, &wishes[..]) {
            (None, _) => Err(AcquireError::NoSession),
            (Some(running), [wish]) => {
                let asked = match &question {
                    None => running.node.acquire(time, *wish),
                    Some((third, question)) => running.node.acquire_by(time, *wish, *third, question),
                };
                asked.map(|request| requests.push(request))
            }
            (Some(running), _) => running.node.acquire_many(time, &wishes, &mut requests),
        });
        if let Err(error) = asked {
            world.count(match error {
                AcquireError::NoSession | AcquireError::Elsewhere => "not asked: no session",
                AcquireError::TooMany => "not asked: too many",
                AcquireError::Exhausted => "not asked: out of ids",
            });
            return self.set_alarm(world, host, task, 10_000);
        }
        self.operations += 1;
        if wishes.len() > 1 {
            world.count("several asked");
            let node = world.hosts[host].running.as_ref().map(|running| &running.node);
            let listed = wishes.iter().filter(|wish| node.is_some_and(|node| node.is_queued(wish.name))).count();
            if (1..wishes.len()).contains(&listed) {
                world.count("several of both asked");
            }
        }
        if let Some((_, question)) = question {
            self.asked_for_row(world, Self::owner(world, host, requests[0]), wishes[0].name, question);
        }
        for (request, wish) in requests.iter().zip(&wishes) {
            self.checker.asked(now, Self::owner(world, host, *request), (space, wish.name), wish.priority);
        }
        let cancels = dice.percent(self.habits.cancels).then(|| dice.magnitude(1, 100_000));
        let Crew { askers, tasks, .. } = self.crew(world, host);
        askers.extend(requests.iter().map(|request| (*request, task)));
        let state = &mut tasks[task];
        state.stage = Stage::Asking(requests);
        state.granted = 0;
        state.exclusive = None;
        state.alarm += 1;
        state.dice = Some(dice);
        if let Some(after) = cancels {
            self.set_alarm(world, host, task, after);
        }
    }

    pub(super) fn on_granted(&mut self, world: &mut World, host: usize, request: RequestId, token: Token) {
        let crew = self.crew(world, host);
        let Some(&task) = crew.askers.get(&request) else { return };
        let Some(running) = &world.hosts[host].running else { return };
        let mode = running.node.holds().find(|hold| hold.request == request).map(|hold| hold.mode);
        let state = &mut crew.tasks[task];
        state.granted += 1;
        if mode == Some(Mode::Exclusive) {
            state.exclusive = Some(request);
            if token.sequence() == limits::MAX_SEQUENCE {
                world.count("last sequence of a tenure");
            }
        }
        if let Stage::Asking(requests) = &mut state.stage
            && state.granted == requests.len()
        {
            if requests.len() > 1 {
                world.count("several granted");
            }
            state.stage = Stage::Using(std::mem::take(requests));
            let (stuck, hold) = (self.habits.stuck, self.habits.hold);
            let state = &mut self.crews[host].tasks[task];
            let stuck = world.phase == Phase::Safety && state.percent(stuck);
            let longest = if stuck { 3 * world.setup.lease } else { hold };
            let after = state.draw(longest + 1);
            self.set_alarm(world, host, task, after);
        }
    }

    pub(super) fn on_refused(&mut self, world: &mut World, host: usize, request: RequestId, why: &'static str) {
        world.count(why);
        self.checker.answered(Self::owner(world, host, request));
        let crew = self.crew(world, host);
        let Some(&task) = crew.askers.get(&request) else { return };
        // One of several: the others are of no use.
        match std::mem::take(&mut crew.tasks[task].stage) {
            Stage::Idle => {}
            Stage::Asking(requests) | Stage::Using(requests) => self.give_back(world, host, task, &requests),
        }
    }

    fn finish(&mut self, world: &mut World, host: usize, task: usize, requests: Vec<RequestId>) {
        let (downgrades, hold) = (self.habits.downgrades, self.habits.hold);
        let state = &mut self.crew(world, host).tasks[task];
        let exclusive = state.exclusive.take();
        if let Some(request) = exclusive.filter(|_| state.percent(downgrades)) {
            let after = state.draw(hold + 1);
            state.stage = Stage::Using(requests);
            let now = world.now;
            let Some(running) = &mut world.hosts[host].running else { return };
            let time = running.time(now);
            running.node.downgrade(time, request);
            self.checker.downgraded(Self::owner(world, host, request));
            return self.set_alarm(world, host, task, after);
        }
        self.give_back(world, host, task, &requests);
    }

    /// Releases what is held of these, cancels the rest; then the task does something else.
    fn give_back(&mut self, world: &mut World, host: usize, task: usize, requests: &[RequestId]) {
        let running = world.hosts[host].running.as_ref();
        let is_lost = running.is_some_and(|running| running.node.session().is_none() && !running.leaving);
        let until = running.map_or(0, Running::promised);
        for &request in requests {
            let owner = Self::owner(world, host, request);
            self.write_row(world, host, owner);
            if is_lost && world.clocks_are_good() {
                self.checker.lost(world.now, owner, until);
            } else {
                self.checker.gave_back(owner);
            }
            self.release(world, host, request);
            self.crew(world, host).askers.remove(&request);
        }
        self.pause_task(world, host, task);
        self.to_account = true;
    }

    /// S3, once the node has told what else has happened to its holds.
    pub(super) fn check_accounts(&mut self, world: &mut World, host: usize) {
        let process = world.hosts[host].process();
        let now = world.now;
        if let Some(running) = world.hosts[host].running.as_ref().filter(|running| running.believes(now)) {
            let own = running.node.holds().map(|hold| hold.request);
            let verdict = self.checker.accounts(process, own);
            Self::judge(world, verdict);
        }
    }
}

/// Purpose of dice.
const PAUSES: u64 = 10;
