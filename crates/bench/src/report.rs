//! What comes out: everything that was measured, and under what. `table.rs` shows it to people.

use crate::knobs::Machine;
use serde::{Deserialize, Serialize};

/// Everything that was measured, and under what.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    pub(crate) machine: Machine,
    /// Clients on core 0, servers on core 1 or with them on core 0.
    pub(crate) pinned: bool,
    /// Whether idle processors were kept awake.
    pub(crate) cpu_dma_latency_held: bool,
    /// How long it was meant to measure all in all.
    pub(crate) seconds: f64,
    /// One for each kind of switch, of sockets, and of waiting.
    pub modes: Vec<Mode>,
    /// What was left out and why, and what favours whom.
    pub(crate) notes: Vec<String>,
}

/// What was measured in turns with one another, so that it can be compared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mode {
    /// As in `XDP switch, UDP`.
    pub name: String,
    /// One for each operation.
    pub rows: Vec<Row>,
    /// What is compared round by round.
    pub ratios: Vec<Ratio>,
    /// Operations a second, each with its name: those that are counted rather than timed.
    pub rates: Vec<(String, f64)>,
    /// What was seen of the switch's session; None: none took part.
    pub seen: Option<Seen>,
}

/// How the session of a mode did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Seen {
    /// Of all acquires of fresh names, those that the switch granted itself.
    pub granted_by_switch: f64,
    /// Allocations of the thread that locks while single locks were timed, after the warm-up; None: not counted.
    pub allocations: Option<u64>,
}

/// How an operation's packets go, and who waits how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct How {
    /// `UDP`, `AF_XDP`, `TCP` or `unix`.
    pub transport: String,
    /// Cores that client and server are on together.
    pub cores: u32,
    /// How the client waits: `spin` or `sleep`.
    pub waits: String,
    /// Whether packets are signed: `on` or `off`; `-` where there is no such thing.
    pub signed: String,
}

/// One operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What.
    pub operation: String,
    /// In which way.
    #[serde(flatten)]
    pub how: How,
    /// How often.
    pub count: u64,
    /// Microseconds.
    pub median_us: f64,
    /// Microseconds.
    pub p99_us: f64,
    /// Microseconds.
    pub p999_us: f64,
    /// Median against the echo's.
    pub to_echo: Option<f64>,
}

/// One operation against another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ratio {
    /// As in `acquire / echo`.
    pub what: String,
    /// Median of all samples against median of all samples.
    pub of_medians: f64,
    /// Rounds that were compared one by one.
    pub rounds: usize,
    /// Of the ratios of the rounds' medians.
    pub of_rounds: Spread,
    /// What it is meant to be.
    pub bar: Option<Bar>,
}

/// A median and where four fifths lie.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spread {
    /// A tenth lies below.
    pub p10: f64,
    /// Half lies below.
    pub median: f64,
    /// A tenth lies above.
    pub p90: f64,
}

/// What a ratio is meant to be.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bar {
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
}

impl Bar {
    /// Whether a ratio is as it is meant to be.
    #[must_use]
    pub fn is_met_by(self, ratio: f64) -> bool {
        match self {
            Bar::AtMost(most) => ratio <= most,
            Bar::AtLeast(least) => ratio >= least,
        }
    }
}

/// Of the acquires of fresh names, how many the switch is meant to grant itself.
pub(crate) const GRANTED_BY_SWITCH: f64 = 0.999;

/// What ratios are meant to be.
pub(crate) mod bars {
    use super::Bar;

    /// An acquire against an echo, through the switch in userspace, and at the hook.
    pub(crate) const ACQUIRE_IN_USERSPACE: Bar = Bar::AtMost(1.2);
    #[cfg(feature = "xdp")]
    pub(crate) const ACQUIRE: Bar = Bar::AtMost(1.15);
    /// A queue in the switch against lock fission: an acquire, and a hand-over.
    pub(crate) const QUEUE: Bar = Bar::AtMost(1.3);
    /// An acquire and its release, at the hook.
    #[cfg(feature = "xdp")]
    pub(crate) const CYCLE: Bar = Bar::AtMost(2.2);
    /// A value of 128 bytes read or written at the hook, against an echo as long as the question.
    #[cfg(feature = "xdp")]
    pub(crate) const VALUE: Bar = Bar::AtMost(1.4);
    /// Longer values, and larger stores, against shorter and smaller.
    #[cfg(feature = "xdp")]
    pub(crate) const FLAT: Bar = Bar::AtMost(1.5);
    /// From release to wake-up, against echoes where threads spin, ping-pongs where they sleep.
    #[cfg(feature = "xdp")]
    pub(crate) const HAND_OVER: Bar = Bar::AtMost(2.5);
    #[cfg(feature = "xdp")]
    pub(crate) const WAKING_HAND_OVER: Bar = Bar::AtMost(1.5);
    /// Packets of 32 locks a second against echoes as long.
    #[cfg(feature = "xdp")]
    pub(crate) const RATE: Bar = Bar::AtLeast(0.7);
    /// Redis' median against the XDP switch's.
    #[cfg(feature = "xdp")]
    pub(crate) const REDIS_BY_UDP: Bar = Bar::AtLeast(4.0);
    #[cfg(feature = "xdp")]
    pub(crate) const REDIS_BY_AFXDP: Bar = Bar::AtLeast(8.0);
}

impl Row {
    /// With its median against an echo's.
    #[must_use]
    pub(crate) fn against(self, echo_us: f64) -> Row {
        Row { to_echo: Some(self.median_us / echo_us), ..self }
    }
}

impl Ratio {
    /// With what it is meant to be.
    #[must_use]
    pub(crate) fn meant(self, bar: Bar) -> Ratio {
        Ratio { bar: Some(bar), ..self }
    }
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

    /// A report that was kept.
    ///
    /// # Errors
    /// If it is none, or of another version of this program.
    pub fn from_json(text: &str) -> Result<Report, crate::Error> {
        serde_json::from_str(text).map_err(|error| format!("no report of this version: {error}"))
    }

    /// Of the code that was measured, short; empty outside a repository.
    #[must_use]
    pub fn commit(&self) -> &str {
        &self.machine.commit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_hold_at_their_own_value() {
        assert!(Bar::AtMost(1.15).is_met_by(1.15) && !Bar::AtMost(1.15).is_met_by(1.16));
        assert!(Bar::AtLeast(4.0).is_met_by(4.0) && !Bar::AtLeast(4.0).is_met_by(3.99));
        // What was never measured meets nothing.
        assert!(!Bar::AtMost(1.15).is_met_by(f64::NAN) && !Bar::AtLeast(4.0).is_met_by(f64::NAN));
    }
}
