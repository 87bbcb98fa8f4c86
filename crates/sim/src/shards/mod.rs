//! A world of shards: switches with controllers of their own that divide names among themselves, operators who add,
//! drain and take back while tasks lock, and clients that learn of it late. Packets are lost, doubled and late;
//! processes of all kinds die, stop and start again.
//!
//! ```text
//!   SAFETY: load, changes and mishaps ──► HEALED: load, no mishaps, the last change is ended
//!     ──► CALM: nobody asks for anything new ──► checked: everybody was answered
//! ```

mod checker;
mod clients;
mod operators;
mod sites;

use std::net::SocketAddrV4;

use wayside_protocol::controller::Order;
use wayside_protocol::{ShardMap, Shards};
use wayside_wire::mix;

use crate::agenda::Agenda;
use crate::dice::Dice;
use crate::report::{Failure, Outcome};
use crate::schedule::{Kind, Rate, Schedule};
use crate::tally::Tally;
use crate::world::Phase;
use crate::{Options, ServiceKind};
use checker::Checker;
use clients::Client;
use operators::Operator;
use sites::Site;

/// What is planned.
enum Happening {
    /// A packet arrives at a site's switch.
    Up(usize, SocketAddrV4, Vec<u8>),
    /// A packet arrives at a client's node.
    Down(SocketAddrV4, Vec<u8>),
    /// A site's controller has something to do.
    Control(usize),
    /// A node's timer rings: of a client, for a site.
    Timer(usize, usize),
    /// A client looks after its sessions.
    Look(usize, u32),
    /// A client hears of a map from a site, and whether all have it.
    Told(usize, usize, ShardMap, bool),
    /// A task of a client's process goes on.
    Task(usize, u32, usize),
    /// A client's process starts.
    Start(usize),
    /// An operator goes on.
    Operate(usize, u32),
    /// An order arrives whose operator does not wait for it any more.
    Order(usize, Order),
    /// A site tells a client what it has.
    Announce(usize, usize),
    /// Something breaks.
    Mishap,
}

/// Sites that there may be, and names of locks.
const SITES: usize = 4;
const NAMES: u64 = 12;
/// World time of each phase at most, in microseconds.
const SAFETY: u64 = 2_500_000;
const HEALED: u64 = 1_500_000;
const CALM: u64 = 6_000_000;
/// Whoever waits longer once nothing breaks any more waits in vain.
const PATIENCE: u64 = 4_000_000;
/// Operations that a run needs at least.
const OPERATIONS: u64 = 50;

/// See the module's documentation.
struct World {
    options: Options,
    now: u64,
    phase: Phase,
    phase_ends: u64,
    seed: u64,
    schedule: Schedule,
    /// How long packets take.
    ways: Dice,
    /// When something breaks, and what.
    mishaps: Dice,
    agenda: Agenda<Happening>,
    sites: Vec<Site>,
    clients: Vec<Client>,
    operators: Vec<Operator>,
    /// A site that begins sessions although others have its names.
    open: Option<usize>,
    checker: Checker,
    setup: Setup,
    outcomes: Tally,
    faults: Tally,
    packets: u64,
    operations: u64,
    hash: u64,
    failure: Option<Failure>,
}

/// What a seed decides beforehand.
struct Setup {
    /// Shards at the beginning: the first ones.
    first: Shards,
    /// At a time.
    operators: usize,
    slots: u32,
    lease: u32,
    delay: u64,
    jitter: u64,
    lost_percent: u64,
    doubled_percent: u64,
    late_percent: u64,
    /// Between mishaps.
    mishaps: u64,
    /// Between a change's end and the next one.
    pause: u64,
    hold: u64,
    tasks: usize,
    shared_percent: u32,
}

fn site_name(site: usize) -> String {
    format!("shard{site}")
}

fn site_of(name: &str) -> usize {
    name.trim_start_matches("shard").parse().expect("a site's name")
}

impl Setup {
    fn draw(dice: &mut Dice) -> Setup {
        let count = dice.between(2, SITES as u64 - 1) as usize;
        Setup {
            first: Shards::new((0..count).map(site_name)).expect("two or three names"),
            operators: dice.between(1, 3) as usize,
            slots: dice.magnitude(1, 16) as u32,
            lease: dice.magnitude(40_000, 200_000) as u32,
            delay: dice.magnitude(20, 1_000),
            jitter: dice.magnitude(1, 2_000),
            lost_percent: dice.pick(&[0, 1, 5, 15]),
            doubled_percent: dice.pick(&[0, 1, 10]),
            late_percent: dice.pick(&[0, 1, 5]),
            mishaps: dice.magnitude(30_000, 500_000),
            pause: dice.magnitude(1_000, 200_000),
            hold: dice.magnitude(50, 20_000),
            tasks: dice.between(1, 4) as usize,
            shared_percent: dice.pick(&[0, 30, 60]),
        }
    }
}

/// Runs a seed.
pub fn run(seed: u64, options: &Options) -> Outcome {
    let mut dice = Dice::of(seed, &[SHARDS]);
    let schedule = Schedule::new(seed, options.filter.clone());
    let setup = Setup::draw(&mut dice);
    let clients = dice.between(2, 5) as usize;
    let joiners = setup.first.names().len() as u64..SITES as u64;
    let open = dice.percent(10).then(|| dice.between(joiners.start, joiners.end - 1) as usize);
    let mut world = World {
        options: options.clone(),
        now: 0,
        phase: Phase::Safety,
        phase_ends: SAFETY,
        seed,
        schedule,
        ways: Dice::of(seed, &[SHARDS, WAYS]),
        mishaps: Dice::of(seed, &[SHARDS, MISHAPS]),
        agenda: Agenda::new(),
        sites: Vec::new(),
        clients: Vec::new(),
        operators: (0..setup.operators).map(|seat| Operator::new(seed, seat, 0)).collect(),
        open,
        checker: Checker::default(),
        setup,
        outcomes: Tally::default(),
        faults: Tally::default(),
        packets: 0,
        operations: 0,
        hash: seed,
        failure: None,
    };
    world.sites = (0..SITES).map(|site| world.new_site(site)).collect();
    world.clients = (0..clients).map(|client| Client::new(seed, client)).collect();
    world.rates();
    world.live()
}

impl World {
    /// How often something happens while things break.
    fn rates(&mut self) {
        let Setup { lost_percent, doubled_percent, late_percent, .. } = self.setup;
        let percent = |of: u64| Rate::millionths(10_000 * of);
        for (kind, rate) in [
            (Kind::Ask, Rate::ALWAYS),
            (Kind::Change, Rate::ALWAYS),
            (Kind::Crash, Rate::ALWAYS),
            (Kind::Pause, Rate::ALWAYS),
            (Kind::Controller, Rate::ALWAYS),
            (Kind::Switch, Rate::ALWAYS),
            (Kind::Operator, Rate::ALWAYS),
            (Kind::Suspended, percent(1)),
            (Kind::OrderLost, percent(5)),
            (Kind::OrderLate, percent(5)),
            (Kind::Lost, percent(lost_percent)),
            (Kind::Duplicated, percent(doubled_percent)),
            (Kind::Late, percent(late_percent)),
        ] {
            self.schedule.set_rate(kind, rate);
        }
    }

    /// Nothing breaks any more: what happens is what is asked for.
    fn heal(&mut self) {
        for &kind in Kind::ALL.iter().filter(|kind| **kind != Kind::Ask) {
            self.schedule.set_rate(kind, Rate::NEVER);
        }
    }

    fn live(mut self) -> Outcome {
        (0..self.sites.len()).for_each(|site| self.plan(0, Happening::Control(site)));
        (0..self.clients.len()).for_each(|client| self.plan(0, Happening::Start(client)));
        for client in 0..self.clients.len() {
            (0..self.sites.len()).for_each(|site| self.plan(1_000, Happening::Announce(site, client)));
        }
        (0..self.operators.len()).for_each(|seat| self.plan(self.setup.pause, Happening::Operate(seat, 0)));
        self.plan(self.setup.mishaps, Happening::Mishap);
        while self.failure.is_none() && !self.is_over() {
            let Some((at, happening)) = self.agenda.next() else { break };
            self.now = at;
            self.happen(happening);
        }
        self.conclude()
    }

    fn happen(&mut self, happening: Happening) {
        let client = match &happening {
            Happening::Down(to, _) => Some(clients::address_of(*to).0),
            Happening::Timer(client, _) | Happening::Look(client, _) | Happening::Told(client, ..) => Some(*client),
            Happening::Task(client, ..) => Some(*client),
            _ => None,
        };
        if let Some(until) = client.map(|client| self.clients[client].stopped_until).filter(|until| *until > self.now) {
            return self.agenda.plan(until, happening);
        }
        match happening {
            Happening::Up(site, from, packet) => self.at_switch(site, from, packet),
            Happening::Down(to, packet) => self.at_client(to, &packet),
            Happening::Control(site) => self.control(site),
            Happening::Timer(client, site) => self.ring(client, site),
            Happening::Look(client, generation) => self.look(client, generation),
            Happening::Told(client, site, map, is_settled) => self.told(client, site, map, is_settled),
            Happening::Task(client, generation, task) => self.task(client, generation, task),
            Happening::Start(client) => self.start(client),
            Happening::Operate(seat, number) => self.operate(seat, number),
            Happening::Order(site, order) => self.on_late_order(site, &order),
            Happening::Announce(site, client) => self.announce(site, client),
            Happening::Mishap => self.mishap(),
        }
    }

    /// Moves on to the next phase when it is time. True at the end of the last.
    fn is_over(&mut self) -> bool {
        if self.now < self.phase_ends {
            return self.phase == Phase::Calm && self.clients.iter().all(Client::is_calm) && self.is_settled();
        }
        (self.phase, self.phase_ends) = match self.phase {
            Phase::Safety => {
                self.heal();
                (Phase::Healed, self.now + HEALED)
            }
            Phase::Healed => (Phase::Calm, self.now + CALM),
            Phase::Calm => return true,
        };
        self.note(|_| "---- the next phase ----".into());
        false
    }

    /// One of the things that break.
    fn mishap(&mut self) {
        if self.phase != Phase::Safety {
            return;
        }
        let kind = match self.mishaps.below(10) {
            0..=2 => Kind::Crash,
            3..=5 => Kind::Pause,
            6..=7 => Kind::Controller,
            8 => Kind::Switch,
            _ => Kind::Operator,
        };
        let next = self.now + self.mishaps.magnitude(1_000, 2 * self.setup.mishaps);
        self.plan(next, Happening::Mishap);
        let Some(mut dice) = self.happens(kind) else { return };
        let victims = match kind {
            Kind::Crash | Kind::Pause => self.clients.len(),
            Kind::Operator => self.operators.len(),
            _ => SITES,
        };
        let victim = dice.below(victims as u64) as usize;
        self.note(|_| format!("{} of {victim}", kind.name()));
        match kind {
            Kind::Crash => self.kill(victim),
            Kind::Pause => {
                let lease = u64::from(self.setup.lease);
                self.clients[victim].stopped_until = self.now + dice.magnitude(1_000, 3 * lease);
            }
            Kind::Controller => self.restart_controller(victim),
            Kind::Switch => self.restart_switch(victim),
            _ => self.end_operator(victim),
        }
    }

    fn conclude(mut self) -> Outcome {
        if self.failure.is_none() {
            if let Some(story) = self.clients.iter().find_map(Client::in_vain) {
                self.fail("L1", story);
            } else if !self.is_settled() {
                let steps: Vec<_> = self.sites.iter().map(Site::story).collect();
                self.fail("L4", format!("a change of the shards does not end: {steps:?}"));
            } else if self.operations < OPERATIONS && !self.schedule.is_chosen() {
                self.fail("vacuous", format!("{} operations", self.operations));
            }
        }
        if let Some(failure) = self.failure.clone() {
            self.note(|_| format!("---- {failure} ----"));
        }
        let mut out = Outcome { seed: self.seed, service: ServiceKind::Shards, ..Outcome::default() };
        self.outcomes.add_to(&mut out.outcomes);
        self.faults.add_to(&mut out.faults);
        self.sites.iter().for_each(|site| site.switch.collect(&mut out.verdicts));
        Outcome {
            trace_hash: self.hash,
            packets: self.packets,
            operations: self.operations,
            duration: self.now,
            failure: self.failure,
            happened: self.schedule.into_happened(),
            ..out
        }
    }

    // ---- what all of it needs ----

    fn plan(&mut self, at: u64, happening: Happening) {
        self.agenda.plan(at.max(self.now), happening);
    }

    fn count(&mut self, name: &'static str) {
        self.outcomes.count(name);
    }

    /// An occasion for it: the dice for all else about it, if it happens.
    fn happens(&mut self, kind: Kind) -> Option<Dice> {
        let dice = self.schedule.happens(self.now, kind)?;
        self.faults.count(kind.name());
        Some(dice)
    }

    fn fail(&mut self, invariant: &'static str, story: String) {
        let at = self.now;
        self.failure.get_or_insert(Failure { invariant, story, at });
    }

    /// A line of the story.
    fn note(&self, line: impl FnOnce(&World) -> String) {
        if self.options.chart {
            crate::story::print(&format!("{:>12.6}  {}", self.now as f64 / 1e6, line(self)));
        }
    }

    fn trace(&mut self, what: u64, bytes: &[u8]) {
        let start = mix(self.hash ^ self.now ^ what << 48);
        self.hash = bytes.iter().fold(start, |hash, byte| mix(hash ^ u64::from(*byte)));
    }

    /// Puts a packet on the wire, or several, or none.
    fn send(&mut self, mut arrival: impl FnMut() -> Happening) {
        self.packets += 1;
        if self.happens(Kind::Lost).is_some() {
            return;
        }
        // A second one comes late.
        let second = self.happens(Kind::Duplicated).map(|mut dice| dice.magnitude(1, LATEST));
        let late = self.happens(Kind::Late).map_or(0, |mut dice| dice.magnitude(1, LATEST));
        for late in core::iter::once(late).chain(second) {
            let takes = self.setup.delay + self.ways.below(self.setup.jitter) + late;
            self.plan(self.now + takes, arrival());
        }
    }
}

/// A late packet's delay at most: handles rest longer than that.
const LATEST: u64 = 150_000;
/// Purposes of dice.
const SHARDS: u64 = 43;
const WAYS: u64 = 1;
const MISHAPS: u64 = 2;
const CLIENTS: u64 = 3;
const OPERATORS: u64 = 4;
const ANNOUNCEMENTS: u64 = 5;

/// What a batch must have seen.
pub const FAULTS: &[&str] = &[
    "crash",
    "pause",
    "controller",
    "switch",
    "change",
    "operator",
    "suspended",
    "order-lost",
    "order-late",
    "lost",
    "duplicated",
    "late",
];

/// And what it must have come to.
pub const OUTCOMES: &[&str] = &[
    "shards added",
    "shards drained",
    "change taken back",
    "change gone on with by another",
    "operator refused",
    "operator overtaken",
    "late order refused",
    "late order obeyed",
    "kept: it is decided",
    "open joiner refused",
    "somebody behind",
    "session pledged",
    "pledge counted",
    "pledged again",
    "opened again",
    "elsewhere",
    "refused: other shards",
    "left a drained shard",
    "epoch raised for names",
    "granted by a shard that got the name",
    "granted after the name came back",
];
