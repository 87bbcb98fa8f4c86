//! What breaks, and when: a seed's own series of mishaps, each of which has a beginning and an end, many at a time.

use crate::Service;
use crate::hub::Weather;
use crate::world::{CLIENTS, WORKERS, World};
use fastrand::Rng;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::time::{Duration, Instant};

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mishap {
    Weather,
    KillWorker,
    PauseWorker,
    KillServer,
    PauseServer,
    KillSwitch,
    WipeSwitch,
    PauseSwitch,
    DrainSwitch,
    CutOneWay,
    CutOff,
    LinkDown,
    KillStore,
}

impl Mishap {
    /// A switch loses the values that it keeps.
    fn takes_memory(self) -> bool {
        matches!(self, Mishap::KillSwitch | Mishap::WipeSwitch | Mishap::DrainSwitch)
    }
}

const ALL: [(Mishap, &str); 13] = [
    (Mishap::Weather, "weather"),
    (Mishap::KillWorker, "worker killed"),
    (Mishap::PauseWorker, "worker paused"),
    (Mishap::KillServer, "lock server killed"),
    (Mishap::PauseServer, "lock server paused"),
    (Mishap::KillSwitch, "switch killed"),
    (Mishap::WipeSwitch, "switch killed and its memory wiped"),
    (Mishap::PauseSwitch, "switch paused"),
    (Mishap::DrainSwitch, "switch ended in order"),
    (Mishap::CutOneWay, "cut off one way"),
    (Mishap::CutOff, "cut off"),
    (Mishap::LinkDown, "link down and up"),
    (Mishap::KillStore, "etcd killed"),
];

/// How a mishap ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Clear,
    StartWorker(usize),
    ResumeWorker(usize),
    StartServer(usize),
    ResumeServer(usize),
    StartSwitch(usize),
    ResumeSwitch(usize),
    Mend,
    LinkUp(usize),
    StartStore,
}

/// Mishaps under way and to come.
pub struct Mishaps {
    random: Rng,
    ends: BinaryHeap<Reverse<(Instant, End)>>,
    next: Instant,
    lease: Duration,
    pub counts: BTreeMap<&'static str, u64>,
}

impl Mishaps {
    pub fn new(seed: u64, lease: Duration) -> Mishaps {
        Mishaps {
            random: Rng::with_seed(seed ^ 0x5eed),
            ends: BinaryHeap::new(),
            next: Instant::now() + Duration::from_secs(1),
            lease,
            counts: ALL.iter().map(|(_, name)| (*name, 0)).collect(),
        }
    }

    /// Lets happen what is due.
    pub fn go_on(&mut self, world: &mut World) -> io::Result<()> {
        let now = Instant::now();
        while self.ends.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Some(Reverse((_, end))) = self.ends.pop() else { break };
            finish(world, end)?;
        }
        // One that was started while etcd was away gave up: as an init system would.
        for switch in 0..world.switches.len() {
            if let Some(process) = &mut world.switches[switch]
                && process.ended()?
            {
                world.switches[switch] = None;
                self.later(Duration::from_millis(100), Duration::from_millis(300), End::StartSwitch(switch));
            }
        }
        // So does one whose session is over.
        for server in 0..world.servers.len() {
            if let Some(process) = &mut world.servers[server]
                && process.ended()?
            {
                world.servers[server] = None;
                self.later(Duration::from_millis(100), Duration::from_millis(300), End::StartServer(server));
            }
        }
        if now >= self.next {
            self.next = now + Duration::from_millis(self.random.u64(100..2_000));
            let (mishap, name) = ALL[self.random.usize(..ALL.len())];
            if self.begin(world, mishap)? {
                *self.counts.entry(name).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Ends all that is under way.
    pub fn heal(&mut self, world: &mut World) -> io::Result<()> {
        while let Some(Reverse((_, end))) = self.ends.pop() {
            finish(world, end)?;
        }
        finish(world, End::Clear)?;
        finish(world, End::Mend)
    }

    /// Values live as long as one switch of a chain does. So one is taken at a time, while nothing else is amiss that
    /// could have left another out of its chains; what comes after may.
    fn may_take_memory(&self, world: &World) -> bool {
        let is_harmless = |Reverse((_, end)): &Reverse<(Instant, End)>| matches!(end, End::StartWorker(_));
        world.service() == Service::Locks
            || (self.ends.iter().all(is_harmless) && world.chains().is_some_and(|chains| chains.are_whole))
    }

    fn later(&mut self, least: Duration, most: Duration, end: End) {
        let span = (most - least).mul_f64(self.random.f64());
        self.ends.push(Reverse((Instant::now() + least + span, end)));
    }

    /// False: it can't be now.
    fn begin(&mut self, world: &mut World, mishap: Mishap) -> io::Result<bool> {
        let (lease, moment) = (self.lease, Duration::from_millis(50));
        let ports = world.ports();
        let worker = self.random.usize(..CLIENTS * WORKERS);
        let switch = self.random.usize(..world.switches.len());
        let port = self.random.usize(..ports);
        let server = self.random.usize(..world.servers.len().max(1));
        if mishap.takes_memory() && !self.may_take_memory(world) {
            return Ok(false);
        }
        match mishap {
            Mishap::Weather => {
                let weather = self.weather();
                world.hub.set_weather(weather);
                self.later(lease, 4 * lease, End::Clear);
            }
            Mishap::KillWorker => {
                if world.workers[worker].take().is_none() {
                    return Ok(false);
                }
                self.later(Duration::ZERO, lease, End::StartWorker(worker));
            }
            Mishap::PauseWorker => {
                let Some(process) = &world.workers[worker] else { return Ok(false) };
                process.signal(libc::SIGSTOP);
                self.later(moment, 3 * lease, End::ResumeWorker(worker));
            }
            Mishap::KillServer => {
                if world.servers.get_mut(server).and_then(Option::take).is_none() {
                    return Ok(false);
                }
                self.later(Duration::ZERO, 2 * lease, End::StartServer(server));
            }
            Mishap::PauseServer => {
                let Some(Some(process)) = world.servers.get(server) else { return Ok(false) };
                process.signal(libc::SIGSTOP);
                self.later(moment, 3 * lease, End::ResumeServer(server));
            }
            Mishap::KillSwitch | Mishap::WipeSwitch => {
                if world.switches[switch].take().is_none() {
                    return Ok(false);
                }
                if mishap == Mishap::WipeSwitch {
                    world.wipe(switch)?;
                }
                self.later(moment, 2 * lease, End::StartSwitch(switch));
            }
            Mishap::PauseSwitch => {
                let Some(process) = &world.switches[switch] else { return Ok(false) };
                process.signal(libc::SIGSTOP);
                self.later(moment, 2 * lease, End::ResumeSwitch(switch));
            }
            Mishap::DrainSwitch => {
                let Some(process) = world.switches[switch].take() else { return Ok(false) };
                process.signal(libc::SIGCONT);
                process.end()?;
                self.later(moment, lease, End::StartSwitch(switch));
            }
            Mishap::CutOneWay => {
                let outward = self.random.bool();
                for other in (0..ports).filter(|other| *other != port) {
                    let (from, to) = if outward { (port, other) } else { (other, port) };
                    world.hub.cut(from, to);
                }
                self.later(moment, 2 * lease, End::Mend);
            }
            Mishap::CutOff => {
                for other in (0..ports).filter(|other| *other != port) {
                    world.hub.cut(port, other);
                    world.hub.cut(other, port);
                }
                self.later(moment, 2 * lease, End::Mend);
            }
            Mishap::LinkDown => {
                world.set_link(port, false)?;
                self.later(moment, lease, End::LinkUp(port));
            }
            Mishap::KillStore => {
                if world.store.take().is_none() {
                    return Ok(false);
                }
                self.later(moment, lease, End::StartStore);
            }
        }
        Ok(true)
    }

    fn weather(&mut self) -> Weather {
        let random = &mut self.random;
        let mut sometimes = |most: u32| if random.bool() { random.u32(..most) } else { 0 };
        Weather {
            loss: sometimes(300_000),
            duplication: sometimes(500_000),
            corruption: sometimes(50_000),
            jitter: Duration::from_micros(sometimes(5_000).into()),
            late: (sometimes(30_000), self.lease.mul_f64(2.0)),
        }
    }
}

fn finish(world: &mut World, end: End) -> io::Result<()> {
    match end {
        End::Clear => world.hub.set_weather(Weather::default()),
        End::StartWorker(worker) => world.start_worker(worker)?,
        // It may have been killed meanwhile.
        End::ResumeWorker(worker) => world.workers[worker].iter().for_each(|process| process.signal(libc::SIGCONT)),
        End::StartServer(server) => world.start_server(server)?,
        End::ResumeServer(server) => world.servers[server].iter().for_each(|process| process.signal(libc::SIGCONT)),
        End::StartSwitch(switch) => world.start_switch(switch)?,
        End::ResumeSwitch(switch) => world.switches[switch].iter().for_each(|process| process.signal(libc::SIGCONT)),
        End::Mend => world.hub.mend(),
        End::LinkUp(port) => world.set_link(port, true)?,
        End::StartStore => world.start_store()?,
    }
    Ok(())
}
