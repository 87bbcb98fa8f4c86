//! What the demo and its workers tell each other: JSON lines over the workers' standard input and output.

use crate::bank::Stale;
use serde::{Deserialize, Serialize};

/// To a worker. The end of its input means [`Order::Stop`]: nobody is left to tell it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Stop between the reading and the writing of the next transfer, holding its locks, and say so.
    Hold,
    /// Go on with that transfer.
    Go,
    /// Make a transfer between these two accounts next, however long it takes and often it fails, and say so.
    Want([usize; 2]),
    /// Finish what was begun, report, and end.
    Stop,
}

/// From a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Said {
    /// It has a session, or needs none, and begins. What the switch granted it:
    Ready { lease_us: u64, grace_us: u64 },
    /// As ordered: it holds the locks of these accounts with these tokens, in the session of this incarnation.
    Holding { accounts: [usize; 2], tokens: [u64; 2], incarnation: u64 },
    /// What became of the write for which it was told to go on.
    Wrote(Option<Stale>),
    /// As ordered: it now asks for the locks that it was to want.
    Asking,
    /// As ordered: the transfer that it was to want is made, in the session of this incarnation.
    Moved { incarnation: u64 },
    /// What it did since its last report.
    Report(Report),
}

/// A worker's deeds over some time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    pub counts: Counts,
    /// Histogram of the waits for the locks of a transfer or audit: nanoseconds and how often.
    pub waits: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub transfers: u64,
    pub audits: u64,
    /// Audits whose sum was not what the bank was founded with.
    pub wrong_audits: u64,
    /// Attempts whose locks did not come in time.
    pub timed_out: u64,
    /// Attempts that ended with the session.
    pub lost: u64,
    /// Readings and writes that the bank refused by their token.
    pub refused: u64,
    pub by_switch: u64,
    pub by_agent: u64,
    pub by_local: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.transfers += other.transfers;
        self.audits += other.audits;
        self.wrong_audits += other.wrong_audits;
        self.timed_out += other.timed_out;
        self.lost += other.lost;
        self.refused += other.refused;
        self.by_switch += other.by_switch;
        self.by_agent += other.by_agent;
        self.by_local += other.by_local;
    }
}
