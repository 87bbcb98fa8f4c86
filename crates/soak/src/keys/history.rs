//! What is written down of keys. Values are numbers that no two writes of a run share, so a value tells which write
//! made it; versions are as they are shown.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// About to read.
    Read { key: u64 },
    /// About to write this, or to delete (`None`).
    Write { key: u64, value: Option<u64>, only: Only },
    /// Read, or what a condition met.
    Found { entry: Option<Entry> },
    /// A condition did not hold, and nobody knows what it met.
    Overwritten,
    /// Written, and that is its version.
    Done { version: String },
    /// No answer: a write may have its effect, once, until the run is over.
    Unknown { why: String },
}

/// On what a write depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Only {
    Always,
    IfAbsent,
    /// By its version, or by its first eight bytes.
    IfValue(u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub value: u64,
    pub version: String,
}
