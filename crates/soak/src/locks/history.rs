//! What is written down of locks.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// About to ask for these names.
    Ask { names: Vec<u64>, exclusive: bool },
    /// Held, under these tokens, until then at least.
    Held { tokens: Vec<u64>, until: u64 },
    /// About to give back what it still believes to hold.
    GiveBack,
    /// Found that it is lost; it was believed to be held until this time.
    Lost { until: u64 },
    /// Exclusive no more, from here on.
    Downgrade,
    /// Not granted, and why.
    Denied { why: String },
}
