//! What was found in all histories together.

use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug, Default, Serialize)]
pub struct Verdict {
    pub histories: usize,
    pub operations: u64,
    /// Granted, or answered.
    pub answered: u64,
    /// Locks that were lost while they were held.
    pub lost: u64,
    /// Cut short by a kill.
    pub unfinished: u64,
    /// What ended otherwise, and why.
    pub denied: BTreeMap<String, u64>,
    pub violations: Vec<String>,
}

/// Violations that are written down: one is enough, and thousands say no more.
const SHOWN: usize = 20;

impl Verdict {
    pub fn complain(&mut self, what: String) {
        if self.violations.len() < SHOWN {
            self.violations.push(what);
        }
    }
}
