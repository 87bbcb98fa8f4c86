//! What workers write down: every question, grant and end, one line each, at once, so that whoever is killed has said
//! what there was to say. Times are of the machine's one monotonic clock: all hosts of a run are on it.

use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::time::Instant;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When, in microseconds.
    pub at: u64,
    /// Which operation of this history.
    pub operation: u64,
    pub event: Event,
}

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

/// Now, by the clock of histories.
pub fn now() -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `at` outlives the call; the clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut at) };
    at.tv_sec as u64 * 1_000_000 + at.tv_nsec as u64 / 1_000
}

/// The same of an instant.
pub fn at(instant: Instant) -> u64 {
    let (now_us, now) = (now(), Instant::now());
    match instant.checked_duration_since(now) {
        Some(ahead) => now_us + ahead.as_micros() as u64,
        None => now_us.saturating_sub(now.duration_since(instant).as_micros() as u64),
    }
}

/// One thread's.
pub struct Writer(File);

impl Writer {
    pub fn new(path: &Path) -> io::Result<Writer> {
        Ok(Writer(OpenOptions::new().create(true).append(true).open(path)?))
    }

    /// In one system call: a line is there or not.
    pub fn write(&mut self, at: u64, operation: u64, event: Event) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Line { at, operation, event })?;
        line.push(b'\n');
        self.0.write_all(&line)
    }
}

/// What a thread has written. A last line that is not whole was being written when its process was killed.
pub fn read(path: &Path) -> io::Result<Vec<Line>> {
    let lines = BufReader::new(File::open(path)?).lines();
    Ok(lines.map_while(Result::ok).map_while(|line| serde_json::from_str(&line).ok()).collect())
}
