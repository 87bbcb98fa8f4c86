//! What was measured of isolation, as a table and as a record.

use crate::knobs::Machine;
use crate::report::Spread;
use serde::Serialize;
use std::fmt;

/// A flood may at most double another tenant's p99.
const BAR: f64 = 2.0;

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Isolation {
    pub(super) machine: Machine,
    pub(super) load_after: String,
    /// Of the budget, in requests a second.
    pub(super) rate: u32,
    pub(super) latency_held: bool,
    pub(super) homes: Vec<Home>,
}

/// One way to the switch.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Home {
    pub(super) name: String,
    pub(super) conditions: Vec<Condition>,
    /// Packets that the budget refused all in all.
    pub(super) over_budget: u64,
}

/// What B did, and A took.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Condition {
    name: String,
    pub(super) rounds: Vec<Round>,
}

/// One round of it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Round {
    pub(super) median_us: f64,
    pub(super) p99_us: f64,
    pub(super) flood_a_second: f64,
}

impl Condition {
    pub(super) fn new(name: &str) -> Condition {
        Condition { name: name.into(), rounds: Vec::new() }
    }

    fn spread(&self, of: impl Fn(&Round) -> f64) -> Spread {
        spread(self.rounds.iter().map(of).collect())
    }

    /// Of p99s, round by round.
    fn ratio(&self, other: &Condition) -> Spread {
        spread(self.rounds.iter().zip(&other.rounds).map(|(own, other)| own.p99_us / other.p99_us).collect())
    }
}

fn spread(mut values: Vec<f64>) -> Spread {
    values.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| values.get((values.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN);
    Spread { p10: at(0.1), median: at(0.5), p90: at(0.9) }
}

impl Home {
    /// The p99 with a flood within a budget, to the one without a flood, and to that of a flood of nobody.
    fn ratios(&self) -> [Spread; 2] {
        [self.conditions[2].ratio(&self.conditions[0]), self.conditions[2].ratio(&self.conditions[1])]
    }
}

impl Isolation {
    /// As it is kept, in a line.
    ///
    /// # Panics
    /// Never: it has string keys and numbers.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("string keys, and numbers")
    }

    /// Where a flood with a budget, of requests or of releases, more than doubles another tenant's p99, against one
    /// that the switch has nothing to do with.
    pub fn missed(&self) -> Vec<&str> {
        let is_missed = |home: &&Home| {
            let of_nobody = &home.conditions[1];
            home.ratios()[1].median > BAR || home.conditions[4].ratio(of_nobody).median > BAR
        };
        self.homes.iter().filter(is_missed).map(|home| home.name.as_str()).collect()
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = &self.machine;
        let held = if self.latency_held { "held at 0" } else { "not held" };
        writeln!(
            f,
            "{}, {} cores, Linux {}, commit {}, load {} before and {} after, /dev/cpu_dma_latency {held}",
            machine.processor, machine.cores, machine.kernel, machine.commit, machine.load_before, self.load_after
        )?;
        writeln!(f, "A acquires and gives back; p99 of a round, its ratios round by round: median (p10 to p90)")?;
        for home in &self.homes {
            let rounds = home.conditions[0].rounds.len();
            writeln!(
                f,
                "\n{}: {rounds} rounds; a budget of {} requests a second refused {} packets",
                home.name, self.rate, home.over_budget
            )?;
            writeln!(
                f,
                "  {:<48} {:>9} {:>26} {:>22} {:>22} {:>12}",
                "", "median us", "p99 us", "to alone", "to nobody's flood", "B's packets/s"
            )?;
            for condition in &home.conditions {
                let shown = |spread: Spread| format!("{:.2} ({:.2} to {:.2})", spread.median, spread.p10, spread.p90);
                writeln!(
                    f,
                    "  {:<48} {:>9.1} {:>26} {:>22} {:>22} {:>12.0}",
                    condition.name,
                    condition.spread(|round| round.median_us).median,
                    shown(condition.spread(|round| round.p99_us)),
                    shown(condition.ratio(&home.conditions[0])),
                    shown(condition.ratio(&home.conditions[1])),
                    condition.spread(|round| round.flood_a_second).median
                )?;
            }
        }
        match self.missed()[..] {
            [] => writeln!(f, "\nWithin its budget no flood more than doubles the other tenant's p99."),
            ref missed => writeln!(f, "\nMissed: a p99 more than doubled: {}", missed.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn isolation(p99s: [f64; 5]) -> Isolation {
        let condition = |p99_us| {
            let round = Round { median_us: 1.0, p99_us, flood_a_second: 1.0 };
            Condition { rounds: vec![round; 3], ..Condition::new("any") }
        };
        let home = Home { name: "here".into(), conditions: p99s.map(condition).into(), over_budget: 1 };
        let machine = Machine::look();
        Isolation { machine, load_after: String::new(), rate: 1, latency_held: false, homes: vec![home] }
    }

    #[test]
    fn a_p99_that_is_more_than_doubled_is_missed() {
        assert!(isolation([10.0, 20.0, 39.0, 900.0, 30.0]).missed().is_empty(), "1.95 times that of nobody's flood");
        let missed = isolation([10.0, 20.0, 41.0, 900.0, 30.0]);
        assert_eq!(missed.missed(), ["here"]);
        assert_eq!(isolation([10.0, 20.0, 39.0, 30.0, 41.0]).missed(), ["here"], "by releases");
        assert!(missed.to_string().contains("Missed: a p99 more than doubled: here"));
    }
}
