//! Locks: what the tasks of a process do with them, and the checkers that watch. Each task is one thread of one
//! application.
//!
//! ```text
//!   Idle ──acquire, try, acquire_many──► Asking ──all granted──► Using ──(downgrade)──► released ──► Idle
//!                                          └── busy, timed out, cancelled, lost ────────────────────► Idle
//! ```

mod books;
mod lines;
mod rows;
mod tasks;
mod wishes;

use std::collections::BTreeMap;

use wayside_protocol::{Booked, Event, Path, RequestId};

use crate::host::Process;
use crate::network::Flight;
use crate::report::Outcome;
use crate::schedule::Kind;
use crate::service::Service;
use crate::world::World;
use checker::{Checker, Owner, Verdict};
use rows::{ANSWERER, Rows};
use tasks::Task;
use wayside_judge::locks as checker;
use wishes::Habits;

/// The applications of one process.
#[derive(Default)]
struct Crew {
    process: Option<Process>,
    tasks: Vec<Task>,
    /// Which task asked.
    askers: BTreeMap<RequestId, usize>,
}

/// The lock service.
pub struct Locks {
    habits: Habits,
    checker: Checker,
    crews: Vec<Crew>,
    /// What they protect.
    rows: Rows,
    operations: u64,
    /// Somebody gave something back.
    to_account: bool,
    /// Who stood in the books that are looked at; used again.
    booked: Vec<Booked>,
    /// And who does afterwards.
    booked_after: Vec<Booked>,
}

impl Locks {
    /// What a seed's applications like to do.
    pub fn new(world: &mut World) -> Locks {
        let habits = Habits::draw(world);
        if habits.collide {
            world.fault(Kind::Collision);
        }
        Locks {
            habits,
            checker: Checker::default(),
            crews: (0..world.hosts.len()).map(|_| Crew::default()).collect(),
            rows: Rows::default(),
            operations: 0,
            to_account: false,
            booked: Vec::new(),
            booked_after: Vec::new(),
        }
    }

    /// The crew of the process that lives on a host now.
    fn crew(&mut self, world: &World, host: usize) -> &mut Crew {
        let process = world.hosts[host].process();
        let crew = &mut self.crews[host];
        if crew.process != Some(process) {
            let tasks = (0..self.habits.tasks).map(|_| Task::default()).collect();
            *crew = Crew { process: Some(process), tasks, askers: BTreeMap::new() };
        }
        crew
    }

    fn owner(world: &World, host: usize, request: RequestId) -> Owner {
        Owner { process: world.hosts[host].process(), request }
    }

    /// What the checker has to object to ends the run.
    fn judge(world: &mut World, verdict: Verdict) {
        if let Err((invariant, story)) = verdict {
            world.fail(invariant, story);
        }
    }
}

impl Service for Locks {
    fn told(&mut self, world: &mut World, host: usize, event: Event) {
        match event {
            Event::Enrolled(_) => {
                self.serve_rows(world, host);
                for task in 0..self.habits.tasks as usize {
                    self.pause_task(world, host, task);
                }
            }
            // Given back between the grant and this event.
            Event::Granted { request, .. } if !self.crew(world, host).askers.contains_key(&request) => {
                world.count("granted too late");
            }
            Event::Granted { request, token, mode, path } => {
                world.trace(3, &token.0.to_le_bytes());
                world.count(match path {
                    Path::Switch => "granted by switch",
                    Path::Agent => "granted by agent",
                    Path::Local => "granted locally",
                });
                world.watch_grant(host, request, token);
                if let Some(name) = self.checker.asked_for(Self::owner(world, host, request))
                    && world.setup.division.as_ref().is_some_and(|division| !division.has(name.1))
                {
                    world.fail("M1", format!("h{host} is granted name {}, which is another shard's", name.1));
                }
                let (owner, now) = (Self::owner(world, host, request), world.now);
                let name = self.checker.asked_for(owner).map(|(_, name)| name);
                let hosts = &world.hosts;
                let bound = world.clocks_are_good();
                let believes = |process: Process| bound && hosts[process.host].believes(process, now);
                // The clock that ends a hold by a lock server is the server's.
                let is_kept = |name| path != Path::Agent || world.is_kept_by_server(host, name, request, token);
                let lives = || world.lives_on_record(host) && (bound || name.is_some_and(is_kept));
                let verdict = self.checker.granted(now, owner, mode, token, believes, lives);
                Self::judge(world, verdict);
                self.check_row(world, host, owner);
                self.on_granted(world, host, request, token);
            }
            Event::Busy { request, .. } => self.on_refused(world, host, request, "busy"),
            Event::TimedOut { request, over_budget } => {
                if over_budget && world.setup.namespaces[world.hosts[host].namespace].budget.is_none() {
                    world.fail("B1", format!("a budget that there is not is said to have refused {request:?}"));
                }
                self.on_refused(world, host, request, "timed out");
            }
            Event::Lost { request } => self.on_refused(world, host, request, "lost with the session"),
            Event::Downgraded { .. } => world.count("downgraded"),
            // Nobody here asks for keys; the others are the world's.
            Event::Chain { .. } | Event::Watch(_) | Event::Refused(_) | Event::SessionLost | Event::Left => {}
        }
    }

    fn woken(&mut self, world: &mut World, host: usize, task: usize, alarm: u64) {
        if task == ANSWERER {
            return self.answer_late(world, host, alarm);
        }
        self.wake(world, host, task, alarm);
    }

    fn gone(&mut self, _: &mut World, process: Process) {
        self.checker.died(process);
        let crew = &mut self.crews[process.host];
        if crew.process == Some(process) {
            crew.tasks.iter_mut().for_each(|task| task.alarm += 1);
            crew.askers.clear();
        }
    }

    fn deliver(&mut self, world: &mut World, host: usize, flight: &Flight) {
        self.watch_delivery(world, host, &flight.packet);
    }

    fn settled(&mut self, world: &mut World, host: usize) {
        self.take_questions(world, host);
        if std::mem::take(&mut self.to_account) {
            self.check_accounts(world, host);
        }
    }

    fn is_calm(&self, _: &World) -> bool {
        self.checker.waits() == 0
    }

    fn operations(&self) -> u64 {
        self.operations
    }

    fn conclude(&mut self, world: &mut World, _: &mut Outcome) {
        if world.failure().is_none() {
            Self::judge(world, self.checker.nobody_waits());
        }
    }

    fn patience(&self, world: &World) -> u64 {
        let holders = world.hosts.len() as u64 * self.habits.tasks * 5;
        let turn =
            self.habits.hold + world.setup.node.retransmit_most_us * 2 + 10 * (world.mix.delay + world.mix.jitter);
        holders * turn
    }
}
