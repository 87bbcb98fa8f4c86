//! What comes out: every trial as it was, and under what.

use super::place::PlaceName;
use super::switches::Switch;
use crate::Error;
use crate::knobs::{self, Machine};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::{Duration, Instant};

/// Everything that was measured, and under what.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recovery {
    pub(super) machine: Machine,
    /// As `/proc/loadavg` had it at the end.
    pub(super) load_after: String,
    /// Of Wayside.
    pub(super) version: String,
    /// Where switches and nodes were.
    #[serde(default)]
    pub(super) place: PlaceName,
    /// What etcd calls itself; None: there was none.
    pub(super) etcd: Option<String>,
    /// Slots of the switch while trials ran.
    pub(super) slots: u64,
    pub(super) rounds: u32,
    /// How long it all took.
    pub(super) seconds: f64,
    /// In the order in which they ran.
    pub trials: Vec<Trial>,
    /// One for each kind of change of the switch.
    pub timelines: Vec<Timeline>,
    pub(super) notes: Vec<String>,
}

/// What breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The switch is killed, and started again at once: its memory is empty.
    Restart,
    /// The switch that serves is killed; a standby takes its place.
    Failover,
    /// The switch that serves ends in order; a standby takes its place.
    Drain,
    /// A node that held the locks is killed, on the switch's host.
    Killed,
    /// The same without a lifeline, as on another host.
    KilledAway,
    /// A node that held the locks is stopped, and goes on after it has lost them.
    Stopped,
}

/// One thing that was broken, and how long what was away. Milliseconds after that.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trial {
    /// What broke.
    pub fault: Fault,
    /// From 0.
    pub round: u32,
    /// How many locks were held.
    pub locks: u64,
    /// How long it took to take them, with its process where it is another one.
    pub(super) fill_ms: f64,
    /// The successor has the post.
    pub(super) promoted_ms: Option<f64>,
    /// The successor has asked all nodes what they hold.
    pub(super) census_ms: Option<f64>,
    /// The successor knows all, and grants.
    pub(super) serving_ms: Option<f64>,
    /// A name that nobody had was granted by the successor.
    pub(super) first_grant_ms: Option<f64>,
    /// Of a switch: the last of those who waited for held locks, that were given back after the first grant, has its
    /// own. Of a node: one who waits for one of its locks has it.
    pub(super) passed_on_ms: Option<f64>,
    /// Of a node: each of its locks was taken by another one.
    pub(super) all_ms: Option<f64>,
    /// The bystander's longest pause before anything broke.
    pub(super) quiet_gap_ms: f64,
    /// Until the first grant, or until the first waiter had its lock.
    pub(super) gap_ms: f64,
    /// Until the end of the trial.
    pub(super) gap_to_all_ms: f64,
    /// As `/proc/loadavg` has it.
    pub(super) load: String,
    /// What was not as it must be.
    pub broken: Option<String>,
}

/// Throughput while a switch was away.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Timeline {
    /// What broke.
    pub fault: Fault,
    pub(super) held: u64,
    pub(super) threads: usize,
    pub(super) bin_ms: u64,
    /// How many of the bins' milliseconds were before it broke.
    pub(super) before_ms: u64,
    /// When the switch was started again.
    pub(super) back_ms: Option<f64>,
    /// The longest time without a grant.
    pub(super) stall_ms: f64,
    /// Acquires, each with its release, in each bin.
    pub operations: Vec<u32>,
}

impl Fault {
    pub(crate) const ALL: [Fault; 6] =
        [Fault::Restart, Fault::Failover, Fault::Drain, Fault::Killed, Fault::KilledAway, Fault::Stopped];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Fault::Restart => "switch killed, started again",
            Fault::Failover => "switch killed, standby takes over",
            Fault::Drain => "switch ends in order, standby takes over",
            Fault::Killed => "node killed, on the switch's host",
            Fault::KilledAway => "node killed, without a lifeline",
            Fault::Stopped => "node stopped",
        }
    }
}

impl Trial {
    pub(super) fn new(fault: Fault, round: u32, locks: u64) -> Trial {
        Trial {
            fault,
            round,
            locks,
            fill_ms: 0.0,
            promoted_ms: None,
            census_ms: None,
            serving_ms: None,
            first_grant_ms: None,
            passed_on_ms: None,
            all_ms: None,
            quiet_gap_ms: 0.0,
            gap_ms: 0.0,
            gap_to_all_ms: 0.0,
            load: String::new(),
            broken: None,
        }
    }

    /// When the successor took the post, began its epoch, and served.
    pub(super) fn phases(&mut self, successor: &Switch, began: Instant) {
        let said = |what| successor.said().first(what, began).map(|at| super::ms(at - began));
        self.promoted_ms = said("serves from now on");
        self.census_ms = said("new boot epoch");
        self.serving_ms = said("serving");
    }

    /// From the first question to the nodes until the switch knows all.
    pub(super) fn rebuild_ms(&self) -> Option<f64> {
        Some(self.serving_ms? - self.census_ms?)
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "round {}, {:>7} locks, {}:", self.round + 1, self.locks, self.fault.name())?;
        let times = [
            ("taken in", Some(self.fill_ms)),
            ("post", self.promoted_ms),
            ("census", self.census_ms),
            ("serving", self.serving_ms),
            ("first grant", self.first_grant_ms),
            ("passed on", self.passed_on_ms),
            ("all", self.all_ms),
            ("gap", Some(self.gap_ms)),
            ("gap to the end", Some(self.gap_to_all_ms)),
            ("gap before", Some(self.quiet_gap_ms)),
        ];
        for (what, ms) in times {
            if let Some(ms) = ms {
                write!(f, " {what} {ms:.1} ms,")?;
            }
        }
        write!(f, " load {}", self.load)?;
        self.broken.iter().try_for_each(|why| write!(f, "\n  BROKEN: {why}"))
    }
}

impl Recovery {
    pub(super) fn new(machine: Machine, place: PlaceName, slots: u64, rounds: u32, etcd: Option<String>) -> Recovery {
        Recovery {
            machine,
            place,
            load_after: String::new(),
            version: env!("CARGO_PKG_VERSION").into(),
            etcd,
            slots,
            rounds,
            seconds: 0.0,
            trials: Vec::new(),
            timelines: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn end(&mut self, after: Duration) {
        self.seconds = after.as_secs_f64();
        self.load_after = knobs::load();
    }

    /// What was not as it must be, of each trial.
    pub fn broken(&self) -> impl Iterator<Item = String> {
        let broken = self.trials.iter().filter_map(|trial| Some((trial, trial.broken.as_ref()?)));
        broken.map(|(trial, why)| format!("{}, {} locks: {why}", trial.fault.name(), trial.locks))
    }

    /// As JSON, for other programs.
    ///
    /// # Panics
    /// Never: there is nothing in it that JSON has not.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers, words and lists")
    }

    /// A record that was kept.
    ///
    /// # Errors
    /// If it is none, or of another version of this program.
    pub fn from_json(text: &str) -> Result<Recovery, Error> {
        serde_json::from_str(text).map_err(|error| format!("no record of recovery of this version: {error}"))
    }

    /// What its files are called, after date and commit.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.place {
            PlaceName::Loopback => "recovery",
            PlaceName::Hook => "recovery-hook",
        }
    }

    /// Of the code that was measured, short; empty outside a repository.
    #[must_use]
    pub fn commit(&self) -> &str {
        &self.machine.commit
    }

    /// The time-lines for other programs: a column each, of operations in a bin that begins at that millisecond.
    #[must_use]
    pub fn timelines_as_csv(&self) -> String {
        let mut text = String::from("ms");
        self.timelines.iter().for_each(|line| text += &format!(",{}", line.fault.name().replace(',', " and")));
        text += "\n";
        let Some(first) = self.timelines.first() else { return text };
        for bin in 0..first.operations.len() {
            text += &format!("{}", bin as i64 * first.bin_ms as i64 - first.before_ms as i64);
            self.timelines.iter().for_each(|line| text += &format!(",{}", line.operations[bin]));
            text += "\n";
        }
        text
    }
}
