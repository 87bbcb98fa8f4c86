//! What became of the questions at the enrolment port.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What a host may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    Join,
    Enrol,
    Renew,
}

impl Asked {
    pub fn word(self) -> &'static str {
        match self {
            Asked::Join => "join",
            Asked::Enrol => "enrol",
            Asked::Renew => "renew",
        }
    }
}

pub const ACCEPTED: &str = "accepted";

/// Results of each question, since the daemon started.
#[derive(Debug)]
pub struct Tally(Mutex<BTreeMap<(Asked, &'static str), u64>>);

impl Tally {
    /// With a 0 for each of `known`: a rate needs it before the 1.
    pub fn new(known: impl IntoIterator<Item = (Asked, &'static str)>) -> Tally {
        Tally(Mutex::new(known.into_iter().map(|key| (key, 0)).collect()))
    }

    pub fn count(&self, asked: Asked, result: &'static str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((asked, result)).or_default() += 1;
    }

    pub fn all(&self) -> Vec<(Asked, &'static str, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|((asked, result), count)| (*asked, *result, *count)).collect()
    }
}
