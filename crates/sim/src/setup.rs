//! Everything that a seed decides beforehand: how large a world is, and what its parts are told when they start.

use wayside_protocol::controller::{Allocation, Config, Counters, LONGEST_LEASE, Namespace as Rules, Room};
use wayside_protocol::seal::Secret;
use wayside_protocol::{LONGEST_PATIENCE, Names, NodeConfig, OVERTAKEN_MOST, Shards};
use wayside_switch::Budget;
use wayside_wire::{Engine, MAJOR, Policy, VERSION, limits, padded};

use crate::dice::Dice;
use crate::faults::Mix;
use crate::schedule::{Kind, Rate, Schedule};
use crate::seat::Namespace;
use crate::{Options, Scale, ServiceKind};

/// What a world is made from.
pub struct Setup {
    /// Hosts; each is of one namespace, in turn.
    pub hosts: usize,
    /// What may go wrong.
    pub mix: Mix,
    /// Namespaces, and their slots.
    pub namespaces: Vec<Namespace>,
    /// Lease of every session, in microseconds.
    pub lease: u64,
    /// Packets are signed.
    pub authenticated: bool,
    /// Handles go from 1 to this.
    pub max_handle: u16,
    /// What a store begins with, if not with nothing.
    pub records: Option<Counters>,
    /// What nodes are told, but for their seed.
    pub node: NodeConfig,
    /// What the controller is told.
    pub config: Config,
    /// Locks that have their queue in the switch: namespace, name, cells. Hosts of their lock servers are the last.
    pub queues: Vec<(u16, u64, u32)>,
    /// Of the hybrid engine: what may be listed instead, when a daemon starts anew.
    pub lists: Vec<Vec<(u16, u64, u32)>>,
    /// Queues of the switch without a name, for locks that move.
    pub spare_queues: u32,
    /// Which locks have one is planned by what is asked for, and that moves.
    pub planned: bool,
    /// Parts of each namespace's names, with a lock server each.
    pub parts: u16,
    /// The first host that is a lock server, where there are queues.
    pub first_server: usize,
    /// Nothing goes wrong: whoever comes first is served first.
    pub calm: bool,
    /// Lease of the post of those who share it; `None`: there is one switch.
    pub standby: Option<u64>,
    /// Names are divided among several shards.
    pub division: Option<Division>,
}

/// Shards that names are divided among. What happens in one has nothing to do with another: the world is one of them,
/// and of the others there are those processes alone that come to the wrong one.
pub struct Division {
    shards: Shards,
    own: usize,
}

impl Division {
    /// In a quarter of the seeds. The world is the one that has the name for which all ask most.
    fn draw(seed: u64) -> Option<Division> {
        let mut dice = Dice::of(seed, &[SHARDS]);
        if !dice.percent(25) {
            return None;
        }
        let names = (0..dice.between(2, 4)).map(|shard| format!("shard{shard}"));
        let shards = Shards::new(names).expect("two to four names");
        Some(Division { own: shards.owner(name_of(0)), shards })
    }

    /// Whether it has this name.
    pub fn has(&self, name: u64) -> bool {
        self.shards.owner(name) == self.own
    }

    /// What a process says that divides names otherwise, or has come to the wrong shard.
    pub fn mistaken(&self, dice: &mut Dice) -> u32 {
        let count = self.shards.names().len();
        let more = Shards::new((0..=count).map(|shard| format!("shard{shard}"))).expect("three to five names");
        dice.pick(&[0, self.shards.fingerprint((self.own + 1) % count), more.fingerprint(self.own)])
    }
}

impl Setup {
    /// A seed's own.
    pub fn draw(seed: u64, options: &Options, schedule: &Schedule) -> Setup {
        let mut dice = Dice::of(seed, &[SETUP]);
        let scale = options.scale;
        let lease = if scale.is_some() { 2_000_000 } else { dice.magnitude(30_000, 400_000) };
        // Every other seed's.
        let authenticated = seed % 2 == 1;
        let mut mix = Mix::draw(&mut dice, lease, authenticated, schedule);
        let mut hosts = scale.map_or(dice.between(2, 7) as usize, |scale| scale.nodes);
        let mut namespaces = namespaces(&mut dice, hosts, scale);
        let has_queues = options.service.has_queues();
        let is_hybrid = options.service == ServiceKind::Hybrid;
        let queue_dice = &mut Dice::of(seed, &[QUEUES]);
        // Sometimes all locks are the lock servers' own.
        let has_some = has_queues && !queue_dice.percent(20);
        let queues = match (is_hybrid, has_some) {
            (true, _) => listed(queue_dice, &namespaces),
            (false, true) => queues(queue_dice, &namespaces),
            (false, false) => Vec::new(),
        };
        let lists = lists(&mut Dice::of(seed, &[LISTS]), is_hybrid, &namespaces, &queues);
        let calm = has_queues && queue_dice.percent(15);
        if calm {
            // Q5 has them served as they come, writers too.
            namespaces.iter_mut().for_each(|namespace| namespace.policy = Policy::Fair);
        }
        let spare_queues = if has_queues { queue_dice.between(1, 6) as u32 } else { 0 };
        let first_server = if has_queues { hosts } else { usize::MAX };
        if has_queues {
            let chosen = mix.chosen;
            mix.for_queues(queue_dice, lease, calm);
            if is_hybrid && !calm && queue_dice.percent(50) {
                mix.chosen = chosen;
            }
            hosts += namespaces.len() * queue_dice.between(1, 2) as usize;
        }
        let part_dice = &mut Dice::of(seed, &[PARTS]);
        let parts = if has_queues && part_dice.percent(65) { part_dice.between(2, 4) as u16 } else { 1 };
        if parts > 1 {
            hosts += namespaces.len() * part_dice.below(3) as usize;
        }
        let plan_dice = &mut Dice::of(seed, &[PLANS]);
        let planned = has_queues && !is_hybrid && scale.is_none() && plan_dice.percent(40);
        let mut plan = (Allocation::Fixed, Room::default());
        if planned {
            plan = draw_plan(plan_dice, &queues, spare_queues, namespaces.len() as u32);
            mix.for_plans(calm);
        }
        // Q5 takes the order in which the switch first hears of requests: who is refused has no place yet.
        if schedule.allows(Kind::Budget) && scale.is_none() && !mix.crowd && !calm {
            let least = if has_queues { least_budget(hosts, lease) } else { 0 };
            limit_one(&mut Dice::of(seed, &[BUDGETS]), least, &mut namespaces, &mut mix);
        }
        let mut mutes = Dice::of(seed, &[MUTES]);
        if mutes.percent(20) && !mix.crowd && scale.is_none() && !calm {
            mix.rates.push((Kind::Mute, Rate::once_in((mix.packets / mutes.magnitude(1, 16)).max(120))));
        }
        let mut changes = Dice::of(seed, &[POLICIES]);
        if changes.percent(15) && !mix.crowd && scale.is_none() && !calm {
            mix.rates.push((Kind::Policy, Rate::once_in((mix.packets / changes.magnitude(1, 40)).max(50))));
        }
        if let Some(scale) = scale {
            mix.packets = scale.packets;
        }
        let condition = |dice: &mut Dice, kind, percent| dice.percent(percent) && schedule.allows(kind);
        // Where nothing is signed, what a handle's former session was sent is believed by the next one: there handles
        // rest longer than packets live.
        let is_old = |kind: Kind| matches!(kind, Kind::Late | Kind::Replayed);
        let ages = authenticated || !mix.rates.iter().any(|(kind, _)| is_old(*kind));
        // Each epoch ends sessions that hold queues: with few handles nobody would have one.
        let epochs = has_queues && mix.rates.iter().any(|(kind, _)| *kind == Kind::Switch);
        let few_handles = condition(&mut dice, Kind::Handles, 40) && ages && scale.is_none() && !epochs;
        let tight = condition(&mut dice, Kind::Tight, 25);
        if tight {
            // Who is told BUSY asks again every few milliseconds: no budget is larger than what that comes to.
            namespaces.iter_mut().for_each(|namespace| namespace.budget = None);
        }
        let aged = mix.tenures_left > 0;
        let max_handle =
            if few_handles { (hosts as u64 + dice.between(1, 4)) as u16 } else { 512.max(hosts as u16 * 4) };
        // Each restart takes an epoch, and some worlds restart every 16 ms for half a minute: of too few epochs none
        // would be left, and no switch would serve any more, whoever is left alone then.
        let records = Counters {
            epoch: limits::MAX_EPOCH - dice.between(20_000, 40_000) as u32,
            starts: u32::MAX - 1_000_000,
            incarnation: (dice.between(1, 1_000) << 24) - dice.between(1, 8),
            handle: max_handle - dice.below(2) as u16,
        };
        // A lock that has left the switch because of priorities is to come back within a run.
        let lull = Dice::of(seed, &[RANKS, LULL]).magnitude(1_000, 300_000);
        let mut patience = Dice::of(seed, &[RANKS]);
        namespaces.iter_mut().for_each(|namespace| namespace.patience = patience.pick(&PATIENCES));
        // Few places, or as many as there are slots.
        let keeps = &mut Dice::of(seed, &[KEPT]);
        let kept_most =
            if (!has_queues || is_hybrid) && keeps.percent(40) { keeps.magnitude(1, 32) as usize } else { 0 };
        let mut frees = Dice::of(seed, &[FREES]);
        let node = NodeConfig {
            kept_most,
            lull_us: lull,
            retransmit_us: dice.between(500, 5_000),
            retransmit_most_us: dice.between(10_000, 100_000).max(longest_within(&namespaces, hosts)),
            gap_us: dice.magnitude(200, 50_000),
            waiters_most: if tight { dice.between(1, 4) as usize } else { NodeConfig::new(0).waiters_most },
            retired_most: if tight { dice.between(1, 8) as usize } else { NodeConfig::new(0).retired_most },
            scanned_most: if tight { dice.below(4) as usize } else { NodeConfig::new(0).scanned_most },
            page_entries: if tight { dice.between(1, 3) as usize } else { NodeConfig::new(0).page_entries },
            seldom_us: frees.pick(&[0, 200, 5_000, 200_000]),
            version: if frees.percent(20) { BEFORE_FREE } else { VERSION },
            requests_most: if tight { dice.between(4, 64) as usize } else { NodeConfig::new(0).requests_most },
            asked_us: if planned { plan_dice.magnitude(5_000, 100_000) } else { NodeConfig::new(0).asked_us },
            mutant: options.mutant,
            ..NodeConfig::new(0)
        };
        let rules = |namespace: &Namespace| Rules {
            id: namespace.id,
            name: name(namespace.id),
            policy: namespace.policy,
            patience: namespace.patience,
            engine: match options.service {
                ServiceKind::Hybrid => Engine::Hybrid,
                ServiceKind::Queue => Engine::Queue,
                _ => Engine::Fission,
            },
            names: names_of(&queues, namespace.id).filter(|_| is_hybrid).unwrap_or_default(),
            allocation: plan.0,
            room: plan.1,
            servers: parts,
            lease: lease as u32,
            longest_lease: LONGEST_LEASE,
        };
        let config = Config {
            namespaces: namespaces.iter().map(rules).collect(),
            drift_ppm: mix.drift_ppm,
            poll_period: dice.between(1_000, 10_000),
            retransmit: dice.between(5_000, 50_000),
            quarantine: if few_handles { dice.magnitude(10_000, 1_000_000) } else { Config::default().quarantine },
            plan_period: if planned { plan_dice.magnitude(20_000, 200_000) } else { Config::default().plan_period },
            lull,
            moves_at_once: if planned { plan_dice.between(1, 4) as usize } else { Config::default().moves_at_once },
            secret: dice.any(),
            root: authenticated.then(|| secret(&mut dice)),
            rotation_period: if authenticated { dice.between(50_000, 600_000) } else { 0 },
            mutant: options.mutant,
            ..Config::default()
        };
        let allowed = schedule.allows(Kind::Shards) && scale.is_none();
        let division = allowed.then(|| Division::draw(seed)).flatten();
        let shards = division.as_ref().map_or(0, |division| division.shards.fingerprint(division.own));
        let (config, node) = (Config { shards, ..config }, NodeConfig { shards, ..node });
        let records = aged.then_some(records);
        let has_standby = condition(&mut dice, Kind::Standby, 30) && scale.is_none() && !mix.crowd;
        let serving = dice.magnitude(40_000, 400_000);
        let standby = has_standby.then_some(serving);
        let hands = &mut Dice::of(seed, &[HANDS]);
        if has_standby && hands.percent(60) {
            mix.rates.push((Kind::Hand, Rate::once_in((mix.packets / hands.magnitude(1, 16)).max(120))));
        }
        Setup {
            queues,
            lists,
            spare_queues,
            planned,
            parts,
            first_server,
            calm,
            standby: standby.filter(|_| !calm),
            division,
            hosts,
            mix,
            namespaces,
            lease,
            authenticated,
            max_handle,
            records,
            node,
            config,
        }
    }

    /// Which conditions hold for a run, but for that which its applications draw.
    pub fn conditions(&self) -> impl Iterator<Item = Kind> + use<> {
        let few_handles = self.config.quarantine != Config::default().quarantine;
        let tight = self.node.waiters_most != NodeConfig::new(0).waiters_most;
        [
            (Kind::Jitter, self.mix.jitter > 0),
            (Kind::Standby, self.standby.is_some()),
            (Kind::Drift, self.mix.drift_ppm > 0),
            (Kind::Budget, self.namespaces.iter().any(|namespace| namespace.budget.is_some())),
            (Kind::Queue, self.mix.packet_time > 0),
            (Kind::Aged, self.records.is_some()),
            (Kind::Handles, few_handles),
            (Kind::Tight, tight),
            (Kind::Shards, self.division.is_some()),
        ]
        .into_iter()
        .filter_map(|(kind, holds)| holds.then_some(kind))
    }

    /// What a host's process is told.
    pub fn node(&self, seed: u64, host: usize, namespace: usize) -> NodeConfig {
        let namespace = padded(&name(self.namespaces[namespace].id)).expect("short, and without zeros");
        NodeConfig { seed, namespace, lock_server: host >= self.first_server, ..self.node.clone() }
    }

    /// What the controller adds to a lease.
    pub fn grace(&self) -> u64 {
        u64::from(self.config.least_grace(self.lease as u32))
    }
}

/// A namespace's.
pub fn name(namespace: u16) -> String {
    format!("space{namespace}")
}

fn namespaces(dice: &mut Dice, hosts: usize, scale: Option<Scale>) -> Vec<Namespace> {
    // Who is alone in a namespace meets nobody.
    let count = if dice.percent(60) || scale.is_some() { 1 } else { dice.between(1, 3).min(hosts as u64 / 2) };
    (1..=count as u16)
        .map(|id| Namespace {
            id,
            slots: scale.map_or(dice.magnitude(1, 24) as u32, |scale| scale.names as u32),
            policy: if scale.is_some() { Policy::Fair } else { dice.pick(&MIXED_POLICIES) },
            patience: OVERTAKEN_MOST,
            budget: None,
        })
        .collect()
}

/// Which names have their queue in the switch, and how many cells: the first, for which all ask most, nearly always.
fn queues(dice: &mut Dice, namespaces: &[Namespace]) -> Vec<(u16, u64, u32)> {
    let mut queues = Vec::new();
    for namespace in namespaces {
        for index in 0..6 {
            let cells = dice.pick(&[1, 1, 2, 2, 3, 4, 8, 32]);
            if dice.percent(if index == 0 { 85 } else { 40 }) {
                queues.push((namespace.id, name_of(index), cells));
            }
        }
    }
    queues
}

/// What is listed of a hybrid namespace: something is.
fn listed(dice: &mut Dice, namespaces: &[Namespace]) -> Vec<(u16, u64, u32)> {
    let mut queues = queues(dice, namespaces);
    for namespace in namespaces {
        if !queues.iter().any(|(space, ..)| *space == namespace.id) {
            queues.push((namespace.id, name_of(dice.below(6)), dice.pick(&[1, 2, 4, 8])));
        }
    }
    queues
}

/// In some seeds the operator changes the list, there and back.
fn lists(dice: &mut Dice, is_hybrid: bool, of: &[Namespace], first: &[(u16, u64, u32)]) -> Vec<Vec<(u16, u64, u32)>> {
    if !is_hybrid {
        return Vec::new();
    }
    let other = if dice.percent(40) { listed(dice, of) } else { first.to_vec() };
    vec![first.to_vec(), other]
}

/// The names of a namespace among these.
pub fn names_of(queues: &[(u16, u64, u32)], namespace: u16) -> Option<Names> {
    Names::new(queues.iter().filter(|(space, ..)| *space == namespace).map(|(_, name, _)| *name))
}

/// By what is planned, and how much of the switch's memory each namespace has for it.
fn draw_plan(dice: &mut Dice, queues: &[(u16, u64, u32)], spare: u32, namespaces: u32) -> (Allocation, Room) {
    let allocation = if dice.percent(80) { Allocation::Knapsack } else { Allocation::Random };
    let cells = queues.iter().map(|(_, _, cells)| cells).sum::<u32>() + SPARE_CELLS * spare;
    // Sometimes less than there is: more has to leave.
    let cells = (cells / namespaces).min(dice.magnitude(2, 256) as u32).max(1);
    let queues = (queues.len() as u32 + spare) / namespaces;
    (allocation, Room { cells, most: dice.pick(&[2, 4, 8, 16]), queues: queues.max(1) })
}

/// Which of a namespace's names are to have their queue in the switch from now on.
pub fn wanted_queues(dice: &mut Dice) -> Vec<(u64, u32)> {
    let names = (0..6).map(name_of).filter(|_| dice.percent(40)).collect::<Vec<u64>>();
    names.into_iter().map(|name| (name, dice.pick(&[1, 2, 3, 4, 8, 16]))).collect()
}

/// A namespace's name of this number: their ids are spread so that they need not follow the slots' order.
pub fn name_of(index: u64) -> u64 {
    1_000 + index * 7
}

/// The last version of packets whose nodes know no FREE.
const BEFORE_FREE: u8 = MAJOR << 4 | 13;
/// Requests that a host has at a time, at most: six tasks, five names each.
const REQUESTS_MOST: u64 = 30;

/// The longest pause of a request that waits, so that all of them, sent again, are within every budget: more than that
/// is no flood but a budget that is too small, which keeps somebody waiting for ever (docs/isolation.md).
fn longest_within(namespaces: &[Namespace], hosts: usize) -> u64 {
    let least = namespaces.iter().filter_map(|space| space.budget).map(|budget| u64::from(budget.rate)).min();
    least.map_or(0, |rate| hosts as u64 * REQUESTS_MOST * 1_000_000 / rate)
}

/// Who waits at a lock server says so four times a lease: a budget is larger than what that comes to, or who has not
/// been heard yet would never be (docs/isolation.md).
fn least_budget(hosts: usize, lease: u64) -> u32 {
    (hosts as u64 * REQUESTS_MOST * 4 * 1_000_000 / lease) as u32
}

/// In a quarter of the seeds a namespace has a budget, and its nodes flood the switch beyond it.
fn limit_one(dice: &mut Dice, least: u32, namespaces: &mut [Namespace], mix: &mut Mix) {
    if dice.percent(25) {
        let limited = dice.below(namespaces.len() as u64) as usize;
        let (rate, burst) = (dice.magnitude(1_000, 10_000) as u32, dice.between(32, 128) as u32);
        namespaces[limited].budget = Some(Budget { rate: rate.max(least), burst });
        mix.rates.push((Kind::Flood, Rate::millionths(dice.magnitude(1_000, 100_000))));
    }
}

/// 32 bytes.
fn secret(dice: &mut Dice) -> Secret {
    let mut bytes = [0; 32];
    bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&dice.any().to_be_bytes()));
    Secret(bytes)
}

/// Cells for each queue that has no name at first.
pub const SPARE_CELLS: u32 = 16;

/// Who goes first in a namespace, one of these, and how often who waits is overtaken at most.
pub const MIXED_POLICIES: [Policy; 5] =
    [Policy::Fair, Policy::Fair, Policy::Fair, Policy::ReadPreferring, Policy::WritePreferring];
/// See [`MIXED_POLICIES`].
pub const PATIENCES: [u8; 5] = [1, 2, 3, 8, LONGEST_PATIENCE];

/// Purposes of dice.
const SETUP: u64 = 3;
const BUDGETS: u64 = 13;
const MUTES: u64 = 17;
const QUEUES: u64 = 19;
const PLANS: u64 = 23;
const PARTS: u64 = 29;
const RANKS: u64 = 31;
const LULL: u64 = 32;
const SHARDS: u64 = 37;
const LISTS: u64 = 53;
const KEPT: u64 = 41;
const POLICIES: u64 = 59;
const HANDS: u64 = 47;
const FREES: u64 = 61;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Filter;

    /// Who is granted something by a late packet of an earlier session is told of no death, and waited for (L1).
    #[test]
    fn where_nothing_is_signed_handles_rest_longer_than_packets_live() {
        let (mut rest_long, mut rest_shortly) = (0, 0);
        for seed in (0..1_000).map(|half| 2 * half) {
            let setup = Setup::draw(seed, &Options::default(), &Schedule::new(seed, Filter::default()));
            let is_old = |kind: Kind| kind == Kind::Late || kind == Kind::Replayed;
            let is_short = setup.config.quarantine < Config::default().quarantine;
            assert!(!setup.authenticated);
            if setup.mix.rates.iter().any(|(kind, _)| is_old(*kind)) {
                assert!(!is_short, "seed {seed}");
                rest_long += 1;
            }
            rest_shortly += usize::from(is_short);
        }
        assert!(rest_long > 100 && rest_shortly > 50, "{rest_long}, {rest_shortly}");
    }
}
