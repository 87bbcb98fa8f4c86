//! Everything that a seed decides beforehand about a world of chains.

use wayside_protocol::NodeConfig;
use wayside_protocol::chain::Sweeping;
use wayside_wire::{kind, limits, service};

use super::control::Keeping;
use crate::dice::Dice;
use crate::faults::Mix;
use crate::schedule::{Kind, Rate, Schedule};

/// What a world is made from.
pub struct Setup {
    /// Hosts of clients.
    pub clients: usize,
    /// Switches, all of which serve.
    pub switches: usize,
    /// What may go wrong.
    pub mix: Mix,
    /// The namespace's groups.
    pub groups: u16,
    /// Number of the first.
    pub base: u16,
    /// Switches of a chain.
    pub length: usize,
    /// Keys that are asked for.
    pub keys: u64,
    /// Keys that a switch has room for.
    pub room: u32,
    /// Of every so many keys another name has the key already; 0: of none.
    pub collides: u64,
    /// Requests of a client at a time.
    pub tasks: usize,
    /// Pause between two of a task's, in microseconds at most.
    pub think: u64,
    /// How controllers keep the chains; `None`: there are none, and chains stay as they are.
    pub keeping: Option<Keeping>,
    /// How heads look after their keys.
    pub sweeping: Sweeping,
    /// Percent of writes that are on a lease.
    pub leases: u64,
    /// Watches of a client's process.
    pub watches: usize,
    /// There may be too little room for a group to be copied.
    pub is_tight: bool,
    /// Packets are signed.
    pub authenticated: bool,
    /// Versions that every group had before.
    pub versions: u64,
    /// Counter of a client's first request.
    pub first_request: u64,
    /// First incarnation of a client's session.
    pub incarnation: u64,
    /// What nodes are told, but for their seed.
    pub node: NodeConfig,
}

/// Purposes of dice.
const SETUP: u64 = 40;
const CONCENTRATES: u64 = 47;

impl Setup {
    /// A seed's own.
    pub fn draw(seed: u64, schedule: &Schedule) -> Setup {
        let mut dice = Dice::of(seed, &[SETUP]);
        let authenticated = seed % 2 == 1;
        let mix = draw_mix(&mut dice, authenticated, schedule);
        let switches = dice.between(1, 7) as usize;
        let length = dice.between(1, 5).min(switches as u64) as usize;
        let condition = |dice: &mut Dice, kind, percent| dice.percent(percent) && schedule.allows(kind);
        let keys = dice.magnitude(1, KEYS);
        let tight = condition(&mut dice, Kind::Tight, 20);
        let aged = mix.tenures_left > 0;
        // A key of another name is copied by nobody who keeps names.
        let collides = if condition(&mut dice, Kind::Collision, 15) { dice.between(2, 6) } else { 0 };
        let node = NodeConfig {
            retransmit_us: dice.between(500, 5_000),
            retransmit_most_us: dice.between(10_000, 100_000),
            ..NodeConfig::new(0)
        };
        let keeps = dice.percent(60) && schedule.allows(Kind::Standby);
        let collects = dice.percent(60);
        let mut mix = mix;
        // A third of the seeds concentrates on switches that are left out while clients still reach them.
        if keeps && dice.percent(33) {
            mix.rates.retain(|(kind, _)| matches!(kind, Kind::Overlap | Kind::Lost | Kind::Crash));
            mix.rates.push((Kind::Partition, Rate::once_in(dice.between(150, 800))));
            mix.partition_for = 8 * WHILE;
            mix.drift_ppm = mix.drift_ppm.min(10_000);
        }
        Setup {
            keeping: keeps.then(|| Keeping::draw(&mut dice)),
            sweeping: Sweeping {
                collect_after: u64::from(collects) * dice.magnitude(2_000, 500_000),
                looks: dice.magnitude(1, 64) as u32,
                retransmit: dice.between(1_000, 10_000),
                look_again: WHILE,
            },
            leases: u64::from(dice.percent(60)) * dice.between(1, 60),
            watches: (u64::from(dice.percent(70)) * dice.between(1, 3)) as usize,
            is_tight: tight,
            clients: dice.between(2, 6) as usize,
            switches,
            groups: dice.between(1, 6) as u16,
            base: dice.pick(&[0, 1, 700, u16::MAX - 8]),
            length,
            keys,
            room: if tight { dice.between(1, keys.max(2)) as u32 } else { 64 },
            collides,
            tasks: dice.magnitude(1, 40) as usize,
            think: dice.magnitude(1, 20_000),
            authenticated,
            // A sequence of 16 bits would come to its end.
            versions: if aged { (1 << 16) - dice.between(1, 64) } else { 0 },
            first_request: if aged { (1 << 40) - 1_000_000 } else { 1 },
            incarnation: if aged { (dice.between(1, 1_000) << 24) - dice.between(1, 3) } else { 1 },
            node,
            mix,
        }
        .concentrated(&mut Dice::of(seed, &[CONCENTRATES]))
    }

    /// Of the seeds with controllers a third concentrates on what a plain mix reaches rarely.
    fn concentrated(mut self, dice: &mut Dice) -> Setup {
        let Some(keeping) = &mut self.keeping else { return self };
        let mix = &mut self.mix;
        match dice.below(6) {
            // Packets of former chains, which arrive when the switches of a group are others, and in another order.
            0 => {
                keeping.hurry(dice);
                mix.rates.retain(|(kind, _)| matches!(kind, Kind::Overlap | Kind::Lost));
                mix.rates.push((Kind::Late, Rate::millionths(dice.between(50_000, 300_000))));
                mix.late_by = dice.between(2, 10) * keeping.lease;
                for kind in [Kind::Switch, Kind::Drain] {
                    mix.rates.push((kind, Rate::once_in(dice.between(100, 400))));
                }
            }
            // Sessions that end while the head of their keys stands still, until it is left out. There are many keys,
            // little is asked, and nothing else looks for leases: what the next head leaves stays to the end.
            1 => {
                keeping.hurry(dice);
                mix.rates.retain(|(kind, _)| matches!(kind, Kind::Overlap | Kind::Lost));
                mix.rates.push((Kind::Crash, Rate::once_in(dice.between(200, 1_000))));
                mix.rates.push((Kind::Stall, Rate::once_in(dice.between(100, 500))));
                mix.pause_for = 8 * keeping.lease;
                (self.clients, self.tasks, self.think) = (2, 1, 20_000);
                (self.keys, self.leases, self.sweeping.collect_after) = (KEYS, 60, 0);
            }
            _ => {}
        }
        self
    }

    /// The switches of a group's first chain.
    pub fn first_chain(&self, group: u16) -> Vec<usize> {
        let first = usize::from(group) * 3 % self.switches;
        (0..self.length).map(|place| (first + place) % self.switches).collect()
    }
}

/// Keys that are asked for at most.
const KEYS: u64 = 40;

/// Percent of seeds that have it, and how often then: in a million packets, at least and at most.
const PACKET_FAULTS: &[(Kind, u32, u64, u64)] = &[
    (Kind::Lost, 60, 1_000, 300_000),
    (Kind::Duplicated, 50, 1_000, 500_000),
    (Kind::Replayed, 50, 1_000, 300_000),
    (Kind::Corrupted, 30, 1_000, 50_000),
    (Kind::Flipped, 60, 1_000, 50_000),
    (Kind::Forged, 80, 1_000, 200_000),
    (Kind::Late, 50, 500, 50_000),
    (Kind::Overlap, 50, 1_000, 300_000),
];

/// Percent of seeds that have it, several times a run.
const MISHAPS: &[(Kind, u32)] = &[
    (Kind::Partition, 50),
    (Kind::Crash, 60),
    (Kind::Pause, 50),
    (Kind::Stall, 50),
    (Kind::Controller, 50),
    (Kind::Switch, 50),
    (Kind::Store, 30),
    (Kind::Drain, 40),
    (Kind::Flood, 30),
];

/// A while that everything else is measured by: as long as a lease would be.
const WHILE: u64 = 100_000;

fn draw_mix(dice: &mut Dice, authenticated: bool, schedule: &Schedule) -> Mix {
    let packets = dice.magnitude(1_000, 12_000);
    let mut rates = Vec::new();
    for &(kind, percent, low, high) in PACKET_FAULTS {
        let rate = Rate::millionths(dice.magnitude(low, high));
        let is_signed_only = matches!(kind, Kind::Flipped | Kind::Forged);
        if dice.percent(percent) && (authenticated || !is_signed_only) {
            rates.push((kind, rate));
        }
    }
    for &(kind, percent) in MISHAPS {
        let times = dice.magnitude(1, 16);
        if dice.percent(percent) {
            rates.push((kind, Rate::once_in((packets / times).max(120))));
        }
    }
    let kinds = [kind::chain::READ, kind::chain::WRITE, kind::chain::APPLY, kind::chain::ANSWER, kind::chain::INSERT];
    let kinds = [kinds.as_slice(), &[kind::chain::INSTALL, kind::chain::MAP, kind::chain::ROUTES]].concat();
    let mut condition = |kind: Kind, percent: u32| dice.percent(percent) && schedule.allows(kind);
    let (jitters, drifts) = (condition(Kind::Jitter, 80), condition(Kind::Drift, 60));
    let (ages, queues) = (condition(Kind::Aged, 20), condition(Kind::Queue, 20));
    Mix {
        rates,
        chosen: (service::CHAIN, dice.pick(&kinds), dice.magnitude(1, 100)),
        delay: dice.magnitude(5, 500),
        jitter: dice.magnitude(1, 2_000) * u64::from(jitters),
        late_by: dice.magnitude(1_000, 10 * WHILE),
        partition_for: dice.magnitude(1_000, 3 * WHILE),
        pause_for: dice.magnitude(1_000, 3 * WHILE),
        store_for: dice.magnitude(1_000, WHILE),
        lifelines: false,
        drift_ppm: dice.magnitude(10, 100_000) as u32 * u32::from(drifts),
        wildness: 1,
        tenures_left: u32::from(ages),
        packet_time: dice.magnitude(1, 40) * u64::from(queues),
        link_queue: dice.magnitude(4, 256),
        packets,
        crowd: false,
    }
}

const _: () = assert!(limits::MAX_CHAIN == 5);
