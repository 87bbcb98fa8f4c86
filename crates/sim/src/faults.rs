//! The fault mix: what can go wrong in a run, and how often. A seed draws its own (a swarm): most faults are absent
//! from a given run, so that those present can do their worst undisturbed.

use wayside_wire::{kind, service};

use crate::dice::Dice;
use crate::schedule::{Kind, Rate, Schedule};

/// Times in microseconds.
#[derive(Clone, Debug)]
pub struct Mix {
    /// How often what happens.
    pub rates: Vec<(Kind, Rate)>,
    /// The packet that is lost with all its copies: the n-th of a kind of a service.
    pub chosen: (u8, u8, u64),
    /// Every packet takes this long at least.
    pub delay: u64,
    /// On top, evenly up to this: reorders.
    pub jitter: u64,
    /// Late packets take up to this longer: ten times every time-out.
    pub late_by: u64,
    /// A partition lasts so long at most.
    pub partition_for: u64,
    /// A pause does.
    pub pause_for: u64,
    /// The store fails so long at most.
    pub store_for: u64,
    /// A local connection closes: the controller is told of a crash at once.
    pub lifelines: bool,
    /// No clock is wrong by more than this rate, as far as the controller knows.
    pub drift_ppm: u32,
    /// Clocks are wrong by so many times that rate. 1: they keep the bound.
    pub wildness: u32,
    /// Slots start this close to their last tenure; 0: at tenure 0.
    pub tenures_left: u32,
    /// A link takes so long for every packet; 0: no time.
    pub packet_time: u64,
    /// And drops the next when so many wait.
    pub link_queue: u64,
    /// Packets of the safety phase.
    pub packets: u64,
    /// So many readers want one name that a slot's joins come to their end.
    pub crowd: bool,
}

impl Mix {
    /// A seed's own. Which conditions may hold the schedule knows.
    pub fn draw(dice: &mut Dice, lease: u64, authenticated: bool, schedule: &Schedule) -> Mix {
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
        let kinds = [
            kind::lock::ACQUIRE,
            kind::lock::GRANT,
            kind::lock::GRANT,
            kind::lock::JOIN,
            kind::lock::RELEASE,
            kind::lock::RELEASED,
            kind::lock::CANCEL,
            kind::lock::DOWNGRADE,
            kind::lock::RETENURE,
            kind::lock::RETENURED,
            kind::lock::FREE,
            kind::lock::FREED,
            kind::lock::QUEUE,
            kind::lock::QUEUED,
            kind::lock::GAP,
            kind::lock::CENSUS,
            kind::lock::REPORT,
            kind::lock::ADOPT,
            kind::lock::ADOPTED,
        ];
        let mut condition = |kind: Kind, percent: u32| dice.percent(percent) && schedule.allows(kind);
        let (jitters, drifts, ages, queues) = (
            condition(Kind::Jitter, 80),
            condition(Kind::Drift, 60),
            condition(Kind::Aged, 15),
            condition(Kind::Queue, 20),
        );
        let wild = drifts && dice.percent(15);
        Mix {
            rates,
            chosen: (service::LOCK, dice.pick(&kinds), dice.magnitude(1, 100)),
            delay: dice.magnitude(5, 500),
            jitter: dice.magnitude(1, 2_000) * u64::from(jitters),
            late_by: dice.magnitude(1_000, 10 * lease),
            partition_for: dice.magnitude(1_000, 3 * lease),
            pause_for: dice.magnitude(1_000, 3 * lease),
            store_for: dice.magnitude(1_000, lease),
            lifelines: dice.percent(50),
            drift_ppm: dice.magnitude(10, if wild { 20_000 } else { 100_000 }) as u32 * u32::from(drifts),
            wildness: if wild { dice.between(2, 20) as u32 } else { 1 },
            tenures_left: dice.magnitude(2, 64) as u32 * u32::from(ages),
            packet_time: dice.magnitude(1, 40) * u64::from(queues),
            link_queue: dice.magnitude(4, 256),
            packets,
            crowd: false,
        }
        .concentrated(dice, lease)
    }

    /// A third of the seeds concentrates on what a plain mix reaches rarely.
    fn concentrated(mut self, dice: &mut Dice, lease: u64) -> Mix {
        if dice.below(150) == 0 {
            (self.crowd, self.packets, self.packet_time, self.tenures_left) = (true, 40_000, 0, 0);
            self.rates.retain(|(kind, _)| matches!(kind, Kind::Overlap | Kind::Duplicated | Kind::Flipped));
            return self;
        }
        let share = |dice: &mut Dice, low, high| Rate::millionths(dice.between(low, high));
        match dice.below(9) {
            // Leases that end while a late acknowledgement is under way.
            0 => {
                self.set(Kind::Late, share(dice, 20_000, 300_000));
                self.late_by = dice.between(lease / 4, 2 * lease);
                self.set(Kind::Partition, Rate::once_in(dice.between(200, 1_000)));
                self.partition_for = 2 * lease;
                self.set(Kind::Crash, Rate::NEVER);
                if self.drift_ppm > 0 && self.wildness == 1 {
                    self.drift_ppm = dice.pick(&[10, 10_000, 100_000]);
                }
            }
            // Gaps in the joins, and grants that come after the census which settles them.
            1 => {
                self.set(Kind::JoinLost, share(dice, 100_000, 500_000));
                self.set(Kind::Late, share(dice, 20_000, 200_000));
                self.late_by = dice.between(1_000, 50_000);
            }
            // Switches that are cut off from the register, and hosts from one of two switches.
            3 => {
                self.rates.retain(|(kind, _)| matches!(kind, Kind::Overlap | Kind::Late | Kind::Lost));
                self.set(Kind::Register, share(dice, 50_000, 300_000));
                self.set(Kind::Partition, Rate::once_in(dice.between(100, 600)));
                self.partition_for = 4 * lease;
            }
            // Nothing but two processors, and who dies between them.
            2 => {
                self.rates.retain(|(kind, _)| matches!(kind, Kind::Crash | Kind::Pause));
                self.set(Kind::Overlap, share(dice, 100_000, 500_000));
            }
            _ => {}
        }
        self
    }

    /// The same for a world of queues: one of their packets is chosen. `calm`: nothing goes wrong at all.
    pub fn for_queues(&mut self, dice: &mut Dice, lease: u64, calm: bool) {
        let kinds = [
            kind::queue::ACQUIRE,
            kind::queue::GRANT,
            kind::queue::QUEUED,
            kind::queue::RELEASE,
            kind::queue::CANCEL,
            kind::queue::RELEASED,
            kind::queue::NEXT,
            kind::queue::BUSY,
            kind::queue::PUSH,
            kind::queue::SETTLE,
            kind::queue::PUSHED,
            kind::queue::ROOM,
            kind::queue::SERVE,
            kind::queue::SERVING,
            kind::queue::ASKED,
        ];
        self.chosen = (service::QUEUE, dice.pick(&kinds), dice.magnitude(1, 100));
        self.crowd = false;
        if calm {
            (self.chosen, self.tenures_left) = ((0, 0, 0), 0);
            // But for packets that overtake each other by less than anybody waits before he repeats one.
            self.rates.clear();
            (self.jitter, self.packet_time, self.wildness) = (dice.below(2) * dice.below(200), 0, 1);
        } else if dice.percent(30) {
            // Holds that are not renewed in time although their sessions are.
            self.set(Kind::Lost, Rate::millionths(dice.between(150_000, 400_000)));
            self.set(Kind::Pause, Rate::once_in(dice.between(150, 800)));
            self.set(Kind::Late, Rate::millionths(dice.between(20_000, 200_000)));
            (self.pause_for, self.late_by) = (lease * 5 / 4, dice.between(lease / 2, 2 * lease));
        }
        if dice.percent(60) {
            self.set(Kind::Move, Rate::once_in((self.packets / dice.magnitude(2, 40)).max(100)));
            if calm {
                // Who goes before whom is plain at every moment of a move only where nobody overtakes.
                self.jitter = 0;
            }
        }
    }

    /// The same where it is planned which locks move.
    pub fn for_plans(&mut self, calm: bool) {
        self.rates.retain(|(kind, _)| *kind != Kind::Move);
        if calm {
            self.jitter = 0; // As above.
        }
    }

    fn set(&mut self, kind: Kind, rate: Rate) {
        self.rates.retain(|(known, _)| *known != kind);
        self.rates.push((kind, rate));
    }

    /// The schedule has these rates.
    pub fn apply(&self, schedule: &mut Schedule) {
        schedule.set_rate(Kind::Ask, Rate::ALWAYS);
        schedule.set_rate(Kind::Chosen, Rate::ALWAYS);
        for &(kind, rate) in &self.rates {
            schedule.set_rate(kind, rate);
        }
    }

    /// The network heals: what is left is distance and drift, a second processor, and the attacker, who does not give
    /// up.
    pub fn heal(&mut self, schedule: &mut Schedule) {
        for &kind in Kind::ALL {
            if !matches!(kind, Kind::Ask | Kind::Forged | Kind::Overlap) {
                schedule.set_rate(kind, Rate::NEVER);
            }
        }
        schedule.tell(&[]);
        self.packet_time = 0;
    }
}

/// Percent of seeds that have it, and how often then: in a million packets, at least and at most.
const PACKET_FAULTS: &[(Kind, u32, u64, u64)] = &[
    (Kind::Lost, 60, 1_000, 300_000),
    (Kind::JoinLost, 30, 10_000, 500_000),
    (Kind::Duplicated, 50, 1_000, 500_000),
    (Kind::Replayed, 50, 1_000, 300_000),
    (Kind::Corrupted, 30, 1_000, 50_000),
    (Kind::Flipped, 60, 1_000, 50_000),
    (Kind::Forged, 80, 1_000, 200_000),
    (Kind::Late, 50, 500, 50_000),
    (Kind::Overlap, 50, 1_000, 300_000),
    (Kind::Register, 60, 10_000, 300_000),
];

/// Percent of seeds that have it, several times a run.
const MISHAPS: &[(Kind, u32)] = &[
    (Kind::Partition, 50),
    (Kind::Crash, 60),
    (Kind::Pause, 50),
    (Kind::Leave, 30),
    (Kind::Controller, 40),
    (Kind::Switch, 70),
    (Kind::Store, 30),
    (Kind::Stall, 30),
    (Kind::Drain, 30),
];
