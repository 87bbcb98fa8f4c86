//! What workers write down: every question, answer and end, one line each, at once, so that whoever is killed has said
//! what there was to say. Times are of the machine's one monotonic clock: all hosts of a run are on it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// One line, of what is written of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line<Event> {
    /// When, in microseconds.
    pub at: u64,
    /// Which operation of this history.
    pub operation: u64,
    pub event: Event,
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
    pub fn write<Event: Serialize>(&mut self, at: u64, operation: u64, event: Event) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Line { at, operation, event })?;
        line.push(b'\n');
        self.0.write_all(&line)
    }
}

/// What a thread has written. A last line that is not whole was being written when its process was killed.
pub fn read<Event: DeserializeOwned>(path: &Path) -> io::Result<Vec<Line<Event>>> {
    let lines = BufReader::new(File::open(path)?).lines();
    Ok(lines.map_while(Result::ok).map_while(|line| serde_json::from_str(&line).ok()).collect())
}

/// All histories of a directory.
pub fn all(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(directory)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    found.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    found.sort();
    Ok(found)
}
