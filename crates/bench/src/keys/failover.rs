//! Throughput over time while a switch of all chains dies, and while another one takes its place and copies what the
//! others have: with few groups, and with many.

use super::driver::VALUE;
use super::stores::wayside::{are_whole, endpoints};
use crate::Error;
use crate::recovery::switches::{Etcd, Switch, await_that};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use wayside_client::{Error as StoreError, Session, Wait};

/// One more than a chain has, which takes the dead one's place.
const SWITCHES: usize = 4;
const CHAIN: usize = 3;
/// A bin.
const BIN: Duration = Duration::from_millis(20);
/// For a chain that changes.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long it is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// Before the switch dies.
    pub(super) before: Duration,
    /// From then on.
    pub(super) after: Duration,
}

/// Answers in each bin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Timeline {
    pub(super) groups: u16,
    pub(super) keys: usize,
    pub(super) bin_ms: u64,
    pub(super) before_ms: u64,
    pub(super) reads: Vec<u32>,
    pub(super) writes: Vec<u32>,
    /// Longest time without an answer, from the death on.
    pub(super) reads_gap_ms: f64,
    pub(super) writes_gap_ms: f64,
    /// From the death until every chain had all its switches again; None: not within the time.
    pub(super) whole_ms: Option<f64>,
    /// Writes of which nobody knows, since their chain became another meanwhile.
    pub(super) unsure: u64,
}

/// What became of writes, from a switch's death on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Failover {
    pub(crate) groups: u16,
    /// Without any, until chains go on without the dead one.
    pub(crate) away_ms: f64,
    /// Without any later on, until all chains are whole again: the longest time, of whole bins.
    pub(crate) copying_away_ms: f64,
    /// In that time, over those in as long a time before the death.
    pub(crate) copying_share: f64,
}

impl Timeline {
    /// None: chains were not whole again in time, or none was away.
    pub(super) fn failover(&self) -> Option<Failover> {
        let bin = |ms: f64| (ms / self.bin_ms as f64) as usize;
        let death = bin(self.before_ms as f64);
        let whole = death + bin(self.whole_ms?);
        let (before, after) = (self.writes.get(..death)?, self.writes.get(death..whole)?);
        let begins = after.iter().position(|&writes| writes == 0)?;
        let lasts = after[begins..].iter().position(|&writes| writes > 0)?;
        let copying = &after[begins + lasts..];
        let longest = copying.split(|&writes| writes > 0).map(<[u32]>::len).max()?;
        let mean = |bins: &[u32]| bins.iter().map(|&writes| f64::from(writes)).sum::<f64>() / bins.len() as f64;
        Some(Failover {
            groups: self.groups,
            away_ms: lasts as f64 * self.bin_ms as f64,
            copying_away_ms: longest as f64 * self.bin_ms as f64,
            copying_share: mean(copying) / mean(before),
        })
    }
}

/// A thread that reads, and one that writes, as fast as each gets answers.
pub(super) fn record(wayside: &Path, groups: u16, keys: usize, span: Span) -> Result<Timeline, Error> {
    let etcd = Etcd::start()?;
    let settings = format!("slots = 1024\ngroups = {groups}\nkeys = {}", 2 * keys);
    let mut switches = Vec::new();
    for _ in 0..SWITCHES {
        switches.push(Switch::start_with(wayside, &settings, Some(&etcd), "error")?);
    }
    let all = endpoints(&switches);
    await_that("all chains have their switches", PATIENCE, || are_whole(wayside, &all, CHAIN, None, |_| {}))?;
    let connect = || {
        let session = Session::builder().endpoint(&*all).namespace("default").wait(Wait::Block).patience(PATIENCE);
        session.connect().map_err(|error| error.to_string())
    };
    let (reader, writer) = (connect()?, connect()?);
    for key in 0..keys {
        // Chains may still be taking the last switch.
        while let Err(error) = writer.store().wait(PATIENCE).put(name(key), [b'.'; VALUE]) {
            if error != StoreError::Unsure {
                return Err(error.to_string());
            }
        }
    }
    let over = AtomicBool::new(false);
    let (reads, writes, unsure, died, whole) = thread::scope(|scope| {
        let reading =
            scope.spawn(|| until(&over, |count| reader.store().wait(PATIENCE).get(name(count % keys)).map(|_| true)));
        let writing = scope.spawn(|| {
            until(&over, |count| match writer.store().wait(PATIENCE).put(name(count * 7 % keys), [b'x'; VALUE]) {
                Err(StoreError::Unsure) => Ok(false),
                written => written.map(|_| true),
            })
        });
        // The first answers are slower.
        thread::sleep(span.before + Duration::from_millis(300));
        let died = Instant::now();
        // Not the first that was started, which has the post.
        let mut dead = switches.pop().expect("there are some");
        dead.kill();
        let (gone, rest) = (dead.address.to_string(), endpoints(&switches));
        let mut whole = None;
        while died.elapsed() < span.after {
            if whole.is_none() && are_whole(wayside, &rest, CHAIN, Some(&gone), |_| {}) {
                whole = Some(died.elapsed());
            }
            thread::sleep(Duration::from_millis(20));
        }
        over.store(true, Relaxed);
        let ended = |thread: thread::ScopedJoinHandle<'_, Result<Answers, Error>>| {
            thread.join().unwrap_or_else(|_| Err("a client panicked".into()))
        };
        let (reads, writes) = (ended(reading)?, ended(writing)?);
        Ok::<_, Error>((reads.at, writes.at, writes.unsure, died, whole))
    })?;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Ok(Timeline {
        groups,
        keys,
        bin_ms: BIN.as_millis() as u64,
        before_ms: span.before.as_millis() as u64,
        reads: bins(&reads, died, span),
        writes: bins(&writes, died, span),
        reads_gap_ms: ms(gap(&reads, died, span)),
        writes_gap_ms: ms(gap(&writes, died, span)),
        whole_ms: whole.filter(|whole| *whole <= span.after).map(ms),
        unsure,
    })
}

fn name(key: usize) -> String {
    format!("keys/{key}")
}

/// When a client was answered.
struct Answers {
    at: Vec<Instant>,
    unsure: u64,
}

/// Asks again and again. `ask`: with a number that counts up; false if nobody knows what became of it.
fn until(over: &AtomicBool, ask: impl Fn(usize) -> Result<bool, StoreError>) -> Result<Answers, Error> {
    let mut answers = Answers { at: Vec::with_capacity(1 << 20), unsure: 0 };
    for count in 0.. {
        if over.load(Relaxed) {
            break;
        }
        match ask(count).map_err(|error| error.to_string())? {
            true => answers.at.push(Instant::now()),
            false => answers.unsure += 1,
        }
    }
    Ok(answers)
}

fn bins(answers: &[Instant], died: Instant, span: Span) -> Vec<u32> {
    let mut bins = vec![0; ((span.before + span.after).as_micros() / BIN.as_micros()) as usize];
    for at in answers {
        // Counted from the beginning of the span, which may be before this machine's clock began.
        let since = (*at + span.before).checked_duration_since(died);
        if let Some(bin) = since.and_then(|since| bins.get_mut((since.as_micros() / BIN.as_micros()) as usize)) {
            *bin += 1;
        }
    }
    bins
}

fn gap(answers: &[Instant], died: Instant, span: Span) -> Duration {
    let inside = answers.iter().copied().filter(|at| *at > died && *at < died + span.after);
    let ends: Vec<Instant> = std::iter::once(died).chain(inside).chain([died + span.after]).collect();
    ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failover_is_what_comes_first_and_copying_what_comes_then() {
        let timeline = |writes: &[u32], whole_ms| Timeline {
            groups: 1,
            keys: 9,
            bin_ms: 20,
            before_ms: 60,
            reads: Vec::new(),
            writes: writes.to_vec(),
            reads_gap_ms: 0.0,
            writes_gap_ms: 0.0,
            whole_ms,
            unsure: 0,
        };
        // Of the bin of the death something is left.
        let writes = [9, 10, 11, 3, 0, 0, 0, 8, 0, 0, 5, 0, 7, 20, 20, 0, 0, 0, 0];
        let seen = Failover { groups: 1, away_ms: 60.0, copying_away_ms: 40.0, copying_share: 0.0 };
        assert_eq!(
            timeline(&writes, Some(190.0)).failover(),
            Some(Failover { copying_share: 13.0 / 5.0 / 10.0, ..seen })
        );
        assert_eq!(
            timeline(&writes, Some(200.0)).failover(),
            Some(Failover { copying_share: 20.0 / 6.0 / 10.0, ..seen })
        );
        assert_eq!(timeline(&writes, None).failover(), None);
        assert_eq!(timeline(&[9; 20], Some(200.0)).failover(), None, "nobody was away");
        assert_eq!(timeline(&[9, 9, 9, 0, 0, 0], Some(60.0)).failover(), None, "nobody came back");
    }

    #[test]
    fn answers_fall_into_bins_and_leave_gaps() {
        let died = Instant::now() + Duration::from_secs(10);
        let span = Span { before: Duration::from_millis(40), after: Duration::from_millis(100) };
        let at = |ms: i64| {
            if ms < 0 { died - Duration::from_millis(-ms as u64) } else { died + Duration::from_millis(ms as u64) }
        };
        let answers: Vec<Instant> = [-90, -35, -30, -1, 5, 70, 99, 130].map(at).into();
        assert_eq!(bins(&answers, died, span), [2, 1, 1, 0, 0, 1, 1]);
        assert_eq!(gap(&answers, died, span), Duration::from_millis(65));
    }
}
