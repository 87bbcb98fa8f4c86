//! The fault mix: what can go wrong in a run, and how often. A seed draws its own (a swarm): most faults are absent
//! from a given run, so that those present can do their worst undisturbed.

use crate::dice::Dice;

/// Chances are in millionths per packet; `…_every` in packets on average, 0: never. Times in microseconds.
#[derive(Clone, Debug)]
pub struct Faults {
    /// A packet, or one copy of it, is lost.
    pub loss: u32,
    /// Of a join's two packets, the agent's JOIN is lost.
    pub copy_loss: u32,
    /// A packet arrives twice.
    pub duplication: u32,
    /// A packet of any age, from any time of the run, arrives again.
    pub replay: u32,
    /// A packet arrives truncated, padded or with a broken header. (What UDP's checksum catches never arrives.)
    pub corruption: u32,
    /// With authentication on: a packet arrives with some bits changed, anywhere.
    pub flips: u32,
    /// With authentication on: an attacker without a key sends something.
    pub forgery: u32,
    /// Every packet takes this long at least.
    pub delay: u64,
    /// On top, evenly up to this: reorders.
    pub jitter: u64,
    /// A packet takes up to `late_by` longer.
    pub late: u32,
    /// Up to ten times every time-out.
    pub late_by: u64,
    /// One direction of a host's link, or both, stops.
    pub partition_every: u64,
    /// For so long at most.
    pub partition_for: u64,
    /// A process dies; another one starts in its place, at the same address.
    pub crash_every: u64,
    /// A process stops and goes on, maybe after its lease.
    pub pause_every: u64,
    /// For so long at most.
    pub pause_for: u64,
    /// A session leaves and comes back.
    pub leave_every: u64,
    /// A local connection closes: the controller is told of a crash at once.
    pub lifelines: bool,
    /// The controller restarts from its store.
    pub controller_every: u64,
    /// The switch restarts with an empty memory.
    pub switch_every: u64,
    /// No clock is wrong by more than this rate.
    pub drift_ppm: u32,
    /// Slots start this close to their last tenure; 0: at tenure 0.
    pub tenures_left: u32,
}

impl Faults {
    /// A seed's own mix.
    pub fn draw(dice: &mut Dice, lease: u64) -> Faults {
        let mut sometimes = |percent: u32, low: u64, high: u64| {
            let value = dice.magnitude(low, high);
            if dice.percent(percent) { value } else { 0 }
        };
        Faults {
            loss: sometimes(60, 1_000, 300_000) as u32,
            copy_loss: sometimes(30, 10_000, 500_000) as u32,
            duplication: sometimes(50, 1_000, 500_000) as u32,
            replay: sometimes(50, 1_000, 100_000) as u32,
            corruption: sometimes(30, 1_000, 50_000) as u32,
            flips: 0,
            forgery: 0,
            delay: sometimes(100, 5, 500),
            jitter: sometimes(80, 1, 2_000),
            late: sometimes(50, 500, 50_000) as u32,
            late_by: sometimes(100, 1_000, 10 * lease),
            partition_every: sometimes(50, 500, 8_000),
            partition_for: sometimes(100, 1_000, 3 * lease),
            crash_every: sometimes(60, 500, 8_000),
            pause_every: sometimes(50, 500, 8_000),
            pause_for: sometimes(100, 1_000, 3 * lease),
            leave_every: sometimes(30, 1_000, 8_000),
            lifelines: sometimes(50, 1, 1) == 1,
            controller_every: sometimes(40, 500, 8_000),
            // Every run has one.
            switch_every: sometimes(100, 600, 12_000),
            drift_ppm: sometimes(60, 10, 100_000) as u32,
            tenures_left: sometimes(15, 2, 64) as u32,
        }
    }

    /// A third of the seeds concentrates on what a plain mix reaches rarely.
    pub fn concentrate(mut self, dice: &mut Dice, lease: u64) -> Faults {
        match dice.below(6) {
            // Leases that end while a late acknowledgement is under way.
            0 => {
                self.late = dice.between(20_000, 300_000) as u32;
                self.late_by = dice.between(lease / 4, 2 * lease);
                self.partition_every = dice.between(200, 1_000);
                self.partition_for = 2 * lease;
                self.crash_every = 0;
                self.drift_ppm = dice.pick(&[0, 10_000, 100_000]);
                self.switch_every = 6_000;
            }
            // Gaps in the joins, and grants that come after the census which settles them.
            1 => {
                self.copy_loss = dice.between(100_000, 500_000) as u32;
                self.late = dice.between(20_000, 200_000) as u32;
                self.late_by = dice.between(1_000, 50_000);
                self.switch_every = 6_000;
            }
            _ => {}
        }
        self
    }

    /// With authentication on there is somebody to keep out.
    pub fn with_attacker(mut self, dice: &mut Dice) -> Faults {
        self.flips = if dice.percent(60) { dice.magnitude(1_000, 50_000) as u32 } else { 0 };
        self.forgery = if dice.percent(80) { dice.magnitude(1_000, 200_000) as u32 } else { 0 };
        // He does not give up when the network is well otherwise: see `healed`.
        self
    }

    /// What is left once the network heals: distance and drift, and the attacker.
    pub fn healed(&self) -> Faults {
        Faults {
            loss: 0,
            copy_loss: 0,
            duplication: 0,
            replay: 0,
            corruption: 0,
            flips: 0,
            late: 0,
            partition_every: 0,
            crash_every: 0,
            pause_every: 0,
            leave_every: 0,
            controller_every: 0,
            switch_every: 0,
            ..self.clone()
        }
    }
}
