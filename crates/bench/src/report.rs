//! What comes out: a table for people, the same as JSON.

use crate::knobs::Machine;
use serde::Serialize;
use std::fmt;

/// Everything that was measured, and under what.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// As people read it.
    pub(crate) machine: Machine,
    /// Clients on core 0, servers on core 1.
    pub(crate) pinned: bool,
    /// Whether idle processors were kept awake.
    pub(crate) cpu_dma_latency_held: bool,
    /// Spinning, blocking.
    pub modes: Vec<Mode>,
    /// What was left out, and why.
    pub(crate) notes: Vec<String>,
}

/// What was measured in one way: by one kind of switch and of socket, with everybody waiting alike.
#[derive(Clone, Debug, Serialize)]
pub struct Mode {
    /// The switch, the sockets, and how all wait, as in `userspace, spinning`.
    pub name: String,
    /// One for each operation.
    pub rows: Vec<Row>,
    /// What is compared with the echo round by round, each with its name.
    pub ratios: Vec<(String, Ratio)>,
    /// Of all acquires of fresh names, those that the switch granted itself.
    pub granted_by_switch: f64,
    /// Allocations of the whole process while it acquired and gave back, after the warm-up; None: not counted.
    pub allocations: Option<u64>,
}

/// One operation.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What.
    pub operation: String,
    /// How often.
    pub count: u64,
    /// Microseconds.
    pub median_us: f64,
    /// Microseconds.
    pub p99_us: f64,
    /// Microseconds.
    pub p999_us: f64,
    /// Median against the faster echo's.
    pub to_echo: Option<f64>,
}

/// One operation against another.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// Median of all samples against median of all samples.
    pub of_medians: f64,
    /// Rounds that were compared one by one.
    pub rounds: usize,
    /// Of the ratios of the rounds' medians.
    pub of_rounds: Spread,
}

/// A median and where four fifths lie.
#[derive(Clone, Debug, Serialize)]
pub struct Spread {
    /// A tenth lies below.
    pub p10: f64,
    /// Half lies below.
    pub median: f64,
    /// A tenth lies above.
    pub p90: f64,
}

impl Report {
    /// As JSON, for other programs.
    ///
    /// # Panics
    /// Never: there is nothing in it that JSON has not.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers, words and lists")
    }

    /// Of the code that was measured, short; empty outside a repository.
    #[must_use]
    pub fn commit(&self) -> &str {
        &self.machine.commit
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mode in &self.modes {
            mode.fmt(f)?;
        }
        let Machine { processor, cores, kernel, commit, load_before } = &self.machine;
        let place = if self.pinned { "client on core 0, server on core 1" } else { "nothing bound to a core" };
        let latency = if self.cpu_dma_latency_held { "held at 0" } else { "not held" };
        writeln!(f, "Knobs: {place}; cpu_dma_latency {latency}; 64-byte packets.")?;
        writeln!(
            f,
            "Machine: {processor}, {cores} cores, Linux {kernel}, load {load_before} before; commit {commit}."
        )?;
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{}, us", self.name);
        writeln!(f, "{name:<34} {:>9} {:>8} {:>8} {:>8} {:>7}", "count", "median", "p99", "p99.9", "x echo")?;
        for row in &self.rows {
            let Row { operation, count, median_us, p99_us, p999_us, to_echo } = row;
            let ratio = to_echo.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
            writeln!(f, "  {operation:<32} {count:>9} {median_us:>8.1} {p99_us:>8.1} {p999_us:>8.1} {ratio:>7}")?;
        }
        for (what, Ratio { of_medians, rounds, of_rounds: Spread { p10, p90, .. } }) in &self.ratios {
            writeln!(f, "  {what} {of_medians:.2} (in 80 % of {rounds} rounds {p10:.2} to {p90:.2})")?;
        }
        let allocations = self.allocations.map_or_else(String::new, |count| format!("; {count} allocations"));
        let share = 100.0 * self.granted_by_switch;
        writeln!(f, "  {share:.3} % of the acquires granted by the switch{allocations}\n")
    }
}
