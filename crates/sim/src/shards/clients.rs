//! Clients: processes whose tasks lock, with a session with each shard, that learn of other maps late and follow them.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use wayside_protocol::{
    Acquire, AcquireError, Domain, Event, Mode, Node, NodeConfig, Priority, RequestId, ShardMap, Time,
};
use wayside_wire::{Refusal, padded};

use super::checker::{Moved, Owner};
use super::sites::SPACE;
use super::{CLIENTS, Happening, NAMES, PATIENCE, SHARDS, SITES, World, site_name, site_of};
use crate::dice::Dice;
use crate::host::Host;
use crate::schedule::Kind;
use crate::world::Phase;

/// A client's process.
pub struct Client {
    /// What its tasks do next, and when.
    dice: Dice,
    generation: u32,
    pub stopped_until: u64,
    /// By site.
    sessions: BTreeMap<usize, Session>,
    /// The latest map that it has heard of, and the one before.
    maps: Vec<ShardMap>,
    tasks: Vec<Task>,
    is_running: bool,
}

struct Session {
    node: Node,
    timer: u64,
    /// Since when it asks for nothing that the latest map gives away; and from when on it may.
    closed_since: Option<u64>,
    closes: u64,
    is_leaving: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum Task {
    #[default]
    Idle,
    /// It asks as long as nobody takes its request.
    Wishing {
        name: u64,
        mode: Mode,
        since: u64,
    },
    Waiting {
        name: u64,
        mode: Mode,
        since: u64,
        site: usize,
        request: RequestId,
    },
    Holding {
        name: u64,
        site: usize,
        request: RequestId,
    },
}

/// For so long a session asks for nothing that will be another shard's; then it does again, for four times as long.
const CLOSED: u64 = 40_000;
/// Between two looks of a client after its sessions.
const LOOK: u64 = 2_000;

/// The client and the site that an address is of.
pub fn address_of(address: SocketAddrV4) -> (usize, usize) {
    let index = Host::of(address);
    (index / SITES, index % SITES)
}

fn socket(client: usize, site: usize) -> SocketAddrV4 {
    Host::socket(client * SITES + site, 0)
}

impl Client {
    /// A client whose process has not started.
    pub fn new(seed: u64, client: usize) -> Client {
        Client {
            dice: Dice::of(seed, &[SHARDS, CLIENTS, client as u64]),
            generation: 0,
            stopped_until: 0,
            sessions: BTreeMap::new(),
            maps: Vec::new(),
            tasks: Vec::new(),
            is_running: false,
        }
    }

    /// Nobody asks for anything.
    pub fn is_calm(&self) -> bool {
        self.tasks.iter().all(|task| matches!(task, Task::Idle))
    }

    /// Who waits still.
    pub fn in_vain(&self) -> Option<String> {
        self.tasks.iter().find(|task| !matches!(task, Task::Idle)).map(|task| format!("{task:?} at the end"))
    }
}

impl World {
    /// The process is gone, with all that it holds.
    pub(super) fn kill(&mut self, client: usize) {
        let place = &mut self.clients[client];
        place.sessions.clear();
        place.tasks.clear();
        place.is_running = false;
        place.generation += 1;
        let after = self.clients[client].dice.magnitude(100, 50_000);
        self.plan(self.now + after, Happening::Start(client));
    }

    /// A process starts, by the map of its configuration, which may be an old one.
    pub(super) fn start(&mut self, client: usize) {
        if self.clients[client].is_running {
            return;
        }
        let first = ShardMap { version: 0, shards: self.setup.first.clone() };
        let tasks = self.setup.tasks;
        let place = &mut self.clients[client];
        place.is_running = true;
        place.maps = vec![first];
        place.tasks = vec![Task::Idle; tasks];
        let generation = place.generation;
        self.plan(self.now, Happening::Look(client, generation));
        for task in 0..tasks {
            let at = self.now + self.clients[client].dice.magnitude(1, 5_000);
            self.plan(at, Happening::Task(client, generation, task));
        }
    }

    /// A site has told it of a map.
    pub(super) fn told(&mut self, client: usize, site: usize, map: ShardMap, is_settled: bool) {
        let now = Time(self.now);
        let place = &mut self.clients[client];
        if !place.is_running {
            return;
        }
        let latest = place.maps.last().expect("there is one").version;
        if map.version > latest {
            place.maps.push(map);
            if place.maps.len() > 2 {
                place.maps.remove(0);
            }
        } else if map.version == latest && !is_settled {
            // Its controller may have forgotten what it was told.
            let session = place.sessions.get_mut(&site);
            if let Some(session) = session.filter(|session| session.node.map_version() == Some(latest)) {
                session.node.follow(now);
                self.count("pledged again");
                self.settle(client, site);
            }
        }
    }

    /// A client looks after its sessions: those that it lacks, and those that have to follow.
    pub(super) fn look(&mut self, client: usize, generation: u32) {
        if self.clients[client].generation != generation {
            return;
        }
        let latest = self.clients[client].maps.last().expect("there is one").clone();
        for name in latest.shards.names() {
            if !self.clients[client].sessions.contains_key(&site_of(name)) {
                self.begin(client, site_of(name));
            }
        }
        let sites: Vec<usize> = self.clients[client].sessions.keys().copied().collect();
        for site in sites {
            self.follow(client, site, &latest);
            self.settle(client, site);
        }
        let next = self.now + self.clients[client].dice.magnitude(100, 2 * LOOK);
        self.plan(next, Happening::Look(client, generation));
    }

    fn follow(&mut self, client: usize, site: usize, latest: &ShardMap) {
        let now = self.now;
        let Some(session) = self.clients[client].sessions.get_mut(&site) else { return };
        let is_drained = latest.shards.place(&site_name(site)).is_none();
        if session.node.session().is_none() || session.is_leaving {
            if is_drained && session.node.session().is_none() {
                self.clients[client].sessions.remove(&site);
            }
            return;
        }
        if session.node.map_version() >= Some(latest.version) || now < session.closes {
            return;
        }
        session.node.close_for(latest);
        let since = *session.closed_since.get_or_insert(now);
        if session.node.follow(Time(now)).is_some() {
            session.closed_since = None;
            self.count("session pledged");
        } else if is_drained && session.node.in_the_way().is_none() {
            session.node.leave(Time(now));
            session.is_leaving = true;
            self.count("left a drained shard");
        } else if now > since + CLOSED {
            session.node.reopen();
            session.closed_since = None;
            session.closes = now + 4 * CLOSED;
            self.count("opened again");
        }
    }

    /// Asks a site for a session, by the latest map or by the one before: the site may not have come so far.
    fn begin(&mut self, client: usize, site: usize) {
        let (name, Client { maps, dice, .. }) = (site_name(site), &mut self.clients[client]);
        let able: Vec<&ShardMap> = maps.iter().filter(|map| map.shards.place(&name).is_some()).collect();
        let map = able[dice.below(able.len() as u64) as usize].clone();
        let config = NodeConfig {
            namespace: padded(SPACE.1).expect("short"),
            seed: dice.any(),
            shards: map.begins(&name).expect("it is of this map"),
            domain: Some(Domain::new(name, map)),
            retransmit_us: 2_000,
            retransmit_most_us: 50_000,
            mutant: self.options.mutant,
            ..NodeConfig::new(0)
        };
        let mut node = Node::new(config);
        node.start(Time(self.now));
        let session = Session { node, timer: 0, closed_since: None, closes: 0, is_leaving: false };
        self.clients[client].sessions.insert(site, session);
        self.settle(client, site);
    }

    pub(super) fn at_client(&mut self, to: SocketAddrV4, packet: &[u8]) {
        let (client, site) = address_of(to);
        self.trace(2, packet);
        let now = Time(self.now);
        let Some(session) = self.clients[client].sessions.get_mut(&site) else { return };
        let before = session.node.map_version();
        session.node.on_packet(now, packet);
        if session.node.map_version() > before {
            self.count("pledge counted");
        }
        self.settle(client, site);
    }

    pub(super) fn ring(&mut self, client: usize, site: usize) {
        let now = Time(self.now);
        let Some(session) = self.clients[client].sessions.get_mut(&site) else { return };
        session.timer = 0;
        session.node.on_tick(now);
        self.settle(client, site);
    }

    /// Sends what a node has to say, hears what it has seen, and plans its next tick.
    fn settle(&mut self, client: usize, site: usize) {
        loop {
            let Some(session) = self.clients[client].sessions.get_mut(&site) else { return };
            let Some(transmit) = session.node.transmit() else { break };
            let (from, packet) = (socket(client, site), transmit.packet.to_vec());
            self.send(|| Happening::Up(site, from, packet.clone()));
        }
        while let Some(event) = self.clients[client].sessions.get_mut(&site).and_then(|session| session.node.event()) {
            self.hear(client, site, event);
        }
        let now = self.now;
        let Some(session) = self.clients[client].sessions.get_mut(&site) else { return };
        let Some(next) = session.node.next_timer().map(|next| next.0.max(now + 1)) else { return };
        if session.timer == 0 || next < session.timer {
            session.timer = next;
            self.plan(next, Happening::Timer(client, site));
        }
    }

    fn hear(&mut self, client: usize, site: usize, event: Event) {
        self.note(|_| format!("client {client} at shard{site}: {event:?}"));
        match event {
            Event::Granted { request, token, mode, .. } => {
                let owner = self.owner(client, site, request);
                let asked = |task: &Task| match task {
                    Task::Waiting { name, site: at, request: id, .. } if *at == site && *id == request => Some(*name),
                    _ => None,
                };
                let tasks = &self.clients[client].tasks;
                let Some((task, name)) = tasks.iter().enumerate().find_map(|(task, state)| Some((task, asked(state)?)))
                else {
                    return;
                };
                let (clients, now) = (&self.clients, self.now);
                let believes = |owner: Owner| {
                    let place = &clients[owner.client];
                    let session = place.sessions.get(&owner.site).and_then(|session| session.node.session());
                    place.generation == owner.generation && session.is_some_and(|session| now < session.lease_end.0)
                };
                match self.checker.granted(owner, name, mode, token, believes) {
                    Ok(Moved::No) => {}
                    Ok(Moved::Here) => self.count("granted by a shard that got the name"),
                    Ok(Moved::Back) => self.count("granted after the name came back"),
                    Err((invariant, story)) => self.fail(invariant, story),
                }
                self.clients[client].tasks[task] = Task::Holding { name, site, request };
                let hold = self.clients[client].dice.magnitude(10, 2 * self.setup.hold);
                let generation = self.clients[client].generation;
                self.plan(self.now + hold, Happening::Task(client, generation, task));
            }
            Event::Lost { request } | Event::TimedOut { request, .. } | Event::Busy { request, .. } => {
                self.lose(client, site, |id| id == request);
            }
            Event::SessionLost | Event::Left => {
                self.lose(client, site, |_| true);
                self.clients[client].sessions.remove(&site);
            }
            Event::Refused(reason) => {
                if reason == Refusal::Shards {
                    self.count("refused: other shards");
                }
                self.clients[client].sessions.remove(&site);
            }
            _ => {}
        }
    }

    fn owner(&self, client: usize, site: usize, request: RequestId) -> Owner {
        Owner { client, generation: self.clients[client].generation, site, request }
    }

    /// What these tasks asked of a site is over; those that waited ask again.
    fn lose(&mut self, client: usize, site: usize, is_meant: impl Fn(RequestId) -> bool) {
        for task in 0..self.clients[client].tasks.len() {
            let (name, request, next) = match self.clients[client].tasks[task] {
                Task::Waiting { name, mode, since, site: at, request } if at == site && is_meant(request) => {
                    (name, request, Task::Wishing { name, mode, since })
                }
                Task::Holding { name, site: at, request } if at == site && is_meant(request) => {
                    (name, request, Task::Idle)
                }
                _ => continue,
            };
            let owner = self.owner(client, site, request);
            self.checker.released(owner, name);
            self.clients[client].tasks[task] = next;
            if matches!(next, Task::Wishing { .. }) {
                let generation = self.clients[client].generation;
                self.plan(self.now + 500, Happening::Task(client, generation, task));
            }
        }
    }

    /// A task goes on.
    pub(super) fn task(&mut self, client: usize, generation: u32, task: usize) {
        if self.clients[client].generation != generation {
            return;
        }
        match self.clients[client].tasks[task] {
            Task::Idle => {
                if self.phase == Phase::Calm {
                    return;
                }
                let Some(mut dice) = self.schedule.happens(self.now, Kind::Ask) else {
                    let after = self.now + self.clients[client].dice.magnitude(10, 5_000);
                    return self.plan(after, Happening::Task(client, generation, task));
                };
                let shared = dice.percent(self.setup.shared_percent);
                let mode = if shared { Mode::Shared } else { Mode::Exclusive };
                let name = 1_000 + 7 * dice.below(NAMES);
                self.clients[client].tasks[task] = Task::Wishing { name, mode, since: self.now };
                self.wish(client, task);
            }
            Task::Wishing { .. } => self.wish(client, task),
            Task::Waiting { since, .. } => self.check_patience(since),
            Task::Holding { name, site, request } => {
                let owner = self.owner(client, site, request);
                self.checker.released(owner, name);
                let now = Time(self.now);
                self.clients[client].tasks[task] = Task::Idle;
                if let Some(session) = self.clients[client].sessions.get_mut(&site) {
                    session.node.release(now, request);
                }
                self.settle(client, site);
                let after = self.now + self.clients[client].dice.magnitude(10, 5_000);
                self.plan(after, Happening::Task(client, generation, task));
            }
        }
    }

    /// Asks whichever shard takes the wish.
    fn wish(&mut self, client: usize, task: usize) {
        let Task::Wishing { name, mode, since } = self.clients[client].tasks[task] else { return };
        let (now, generation) = (Time(self.now), self.clients[client].generation);
        let first = self.clients[client].dice.below(SITES as u64) as usize;
        for site in (0..SITES).map(|step| (first + step) % SITES) {
            let Some(session) = self.clients[client].sessions.get_mut(&site) else { continue };
            let want = Acquire { name, mode, try_: false, priority: Priority::NORMAL, deadline: None, port: 0 };
            match session.node.acquire(now, want) {
                Ok(request) => {
                    self.operations += 1;
                    self.clients[client].tasks[task] = Task::Waiting { name, mode, since, site, request };
                    self.settle(client, site);
                    return self.plan(self.now + PATIENCE, Happening::Task(client, generation, task));
                }
                Err(AcquireError::Elsewhere) => self.count("elsewhere"),
                Err(_) => {}
            }
        }
        self.check_patience(since);
        let after = self.now + self.clients[client].dice.magnitude(100, 3_000);
        self.plan(after, Happening::Task(client, generation, task));
    }

    fn check_patience(&mut self, since: u64) {
        if self.phase == Phase::Calm && self.now > since + PATIENCE + super::HEALED {
            self.fail("L1", format!("somebody waits since {:.6} s", since as f64 / 1e6));
        }
    }
}
