//! How long locks are away when something dies, against how many of them are held: a switch that is started again with
//! an empty memory, a standby that takes its place, a switch that ends in order, a node that dies or stops.
//!
//! * `place.rs`: where they are, on loopback or at the hook. `switches.rs`: switches, and their etcd, as processes.
//!   `locks.rs`: who holds locks, who waits for them, and a *bystander*, who acquires and releases names that nobody
//!   else wants and so feels every stall.
//! * This file: what is broken in a trial, and what is looked at. `timeline.rs`: throughput while it happens.
//! * `record.rs`: what comes out; `summary.rs` is the gist of it; `plot.rs` draws.
//!
//! Every trial checks that nothing was lost: each guard of a living session is valid, others are refused what it holds,
//! what waits is served with a higher token, and all that is given back was held to the end.

mod locks;
mod place;
mod plot;
mod record;
pub(crate) mod summary;
pub(crate) mod switches;
mod timeline;

pub use locks::hold;
pub use record::{Fault, Recovery, Timeline, Trial};
pub use summary::put_recovery;

use crate::Error;
use crate::knobs::{self, Machine};
use locks::{Bystander, Granted, Holder, HoldingProcess, Taker, longest_gap, take_all, wait_for};
use place::Place;
use std::io::Write;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
use switches::{Etcd, Switch, await_that};

/// What to measure.
#[derive(Clone, Debug)]
pub struct RecoveryOptions {
    /// The binary `wayside`: its switch, and its `bench hold`.
    pub wayside: PathBuf,
    /// How many locks are held, one after the other.
    pub locks: Vec<u64>,
    /// How often everything is done, but for the most of locks.
    pub rounds: u32,
    /// Leaves out what is much like the rest.
    pub is_short: bool,
    /// Switches at the XDP hook, each on a host of its own behind veth; else in userspace, on loopback.
    pub at_hook: bool,
}

impl RecoveryOptions {
    /// From 1 to 100,000 locks five times, and a million once: several minutes.
    #[must_use]
    pub fn whole(wayside: PathBuf) -> RecoveryOptions {
        let locks = vec![1, 1_000, 10_000, 100_000, 1_000_000];
        RecoveryOptions { wayside, locks, rounds: 5, is_short: false, at_hook: false }
    }

    /// 10,000, once: within 15 s.
    #[must_use]
    pub fn short(wayside: PathBuf) -> RecoveryOptions {
        RecoveryOptions { wayside, locks: vec![10_000], rounds: 1, is_short: true, at_hook: false }
    }

    /// Twice as many as are held at most: the upper half is the bystander's.
    fn slots(&self) -> u64 {
        (2 * self.locks.iter().copied().max().unwrap_or(0)).next_power_of_two().max(65_536)
    }
}

/// More locks than these are held in the first round alone: a round with a million of them takes minutes.
const IN_EVERY_ROUND: u64 = 100_000;
/// Between two acquires of the bystander: it is to feel stalls, not to keep a processor busy that others need.
const PACE: Duration = Duration::from_micros(200);
/// The bystander is alone for so long before anything breaks.
const QUIET: Duration = Duration::from_millis(300);
/// For what is to be noticed in the end; then it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Breaks things, and looks how long it takes.
///
/// # Errors
/// If something does not start. What a trial finds broken is in its record.
pub fn run_recovery(options: &RecoveryOptions) -> Result<Recovery, Error> {
    let place = Place::find(options.at_hook)?;
    place.among_clients(|| run_there(options, &place))
}

fn run_there(options: &RecoveryOptions, place: &Place) -> Result<Recovery, Error> {
    let began = Instant::now();
    let slots = options.slots();
    let etcd = Etcd::version();
    let mut recovery = Recovery::new(Machine::look(), place.name(), slots, options.rounds, etcd.clone());
    for round in 0..options.rounds {
        for &locks in options.locks.iter().filter(|locks| round == 0 || **locks <= IN_EVERY_ROUND) {
            let mut course = Course { options, place, slots, round, locks, trials: Vec::new() };
            course.crashes()?;
            course.restart()?;
            if etcd.is_some() {
                course.standby()?;
            }
            recovery.trials.extend(course.trials);
        }
    }
    let timelines = [Fault::Restart, Fault::Failover, Fault::Drain].into_iter();
    let timelines = timelines.filter(|fault| *fault == Fault::Restart || etcd.is_some() && !options.is_short);
    for fault in timelines {
        recovery.timelines.push(timeline::record(options, place, fault)?);
    }
    if etcd.is_none() {
        recovery.notes.push("Standbys are left out: etcd is not installed.".into());
    }
    recovery.end(began.elapsed());
    Ok(recovery)
}

/// All trials of a round with so many locks.
struct Course<'o> {
    options: &'o RecoveryOptions,
    place: &'o Place,
    slots: u64,
    round: u32,
    locks: u64,
    trials: Vec<Trial>,
}

impl Course<'_> {
    /// Nodes that hold the locks die, or stop; only what they held is away.
    fn crashes(&mut self) -> Result<(), Error> {
        for (fault, lifeline) in [(Fault::Killed, true), (Fault::KilledAway, false), (Fault::Stopped, true)] {
            // Beyond loopback no node is on the switch's host.
            let is_elsewhere = fault == Fault::Killed && self.options.at_hook;
            if is_elsewhere || fault == Fault::KilledAway && self.options.is_short && !self.options.at_hook {
                continue;
            }
            // Another one each time: it would still be at work with what the last trial left.
            let switch = self.switch(0, None, "warn")?;
            let endpoint = switch.address.to_string();
            let mut trial = self.begin(fault);
            let began = Instant::now();
            let mut holding = HoldingProcess::start(&self.options.wayside, &endpoint, self.locks, lifeline)?;
            trial.fill_ms = ms(began.elapsed());
            let outcome = self.crash(&mut trial, &endpoint, &mut holding);
            self.end(trial, outcome);
        }
        Ok(())
    }

    fn crash(&self, trial: &mut Trial, endpoint: &str, holding: &mut HoldingProcess) -> Result<(), Error> {
        let bystander = Bystander::start(endpoint, self.slots, 1, Some(PACE))?;
        let session = locks::connect(endpoint)?;
        let waiter = wait_for(&session, self.locks / 2);
        let began = quiet();
        if trial.fault == Fault::Stopped {
            holding.stop()
        } else {
            holding.kill()
        }
        let waited = waiter.join().unwrap_or_else(|_| Err("who waits panicked".into()))?;
        trial.passed_on_ms = Some(ms(waited - began));
        let all = take_all(session, self.locks)?;
        trial.all_ms = Some(ms(all - began));
        let lost = if trial.fault == Fault::Stopped { holding.go_on()? } else { self.locks };
        gaps(trial, &bystander.end()?, began, waited, all);
        if lost == self.locks {
            Ok(())
        } else {
            Err(format!("{lost} of {} guards knew that they were lost", self.locks))
        }
    }

    /// The switch is killed, and started again at once: in userspace with nothing in its memory. At the hook its
    /// program goes on deciding meanwhile.
    fn restart(&mut self) -> Result<(), Error> {
        let mut switch = self.switch(0, None, "info")?;
        let endpoint = switch.address.to_string();
        let mut trial = self.begin(Fault::Restart);
        let began = Instant::now();
        let mut holder = Holder::fill(&endpoint, self.locks)?;
        trial.fill_ms = ms(began.elapsed());
        let mut at = began;
        let said = switch.said();
        let serves = |began| said.first("serving", began);
        let outcome = self.change_switch(&mut trial, &endpoint, &mut holder, serves, |began| {
            at = began;
            switch.kill();
            switch.restart()
        });
        trial.phases(&switch, at);
        let outcome = outcome.and_then(|()| all_held_to_the_end(holder, self.locks));
        self.end(trial, outcome);
        Ok(())
    }

    /// The switch that serves is killed; then the one that took its place ends in order.
    fn standby(&mut self) -> Result<(), Error> {
        let etcd = self.place.etcd()?;
        let began = Instant::now();
        let mut first = self.switch(0, Some(&etcd), "info")?;
        first.await_saying("serving", began)?;
        let mut second = self.switch(1, Some(&etcd), "info")?;
        let endpoints = format!("{},{}", first.address, second.address);
        let mut trial = self.begin(Fault::Failover);
        let began = Instant::now();
        let mut holder = Holder::fill(&endpoints, self.locks)?;
        trial.fill_ms = ms(began.elapsed());
        let mut at = began;
        let by_epoch = |_| None;
        let outcome = self.change_switch(&mut trial, &endpoints, &mut holder, by_epoch, |began| {
            at = began;
            first.kill();
            Ok(())
        });
        trial.phases(&second, at);
        let failed = outcome.is_err();
        self.end(trial, outcome);
        if failed {
            return Ok(());
        }
        first.restart()?;
        let mut trial = self.begin(Fault::Drain);
        // What is handed over goes on under the epoch that it had.
        let said = first.said();
        let serves = |began| said.first("serving", began);
        let outcome = self.change_switch(&mut trial, &endpoints, &mut holder, serves, |began| {
            at = began;
            second.terminate();
            Ok(())
        });
        trial.phases(&first, at);
        second.await_end()?;
        let outcome = outcome.and_then(|()| all_held_to_the_end(holder, self.locks));
        self.end(trial, outcome);
        Ok(())
    }

    /// Breaks the switch by `fault`, and follows what its successor does. `serves`: when that has begun to, where its
    /// epoch need not tell.
    fn change_switch(
        &self,
        trial: &mut Trial,
        endpoints: &str,
        holder: &mut Holder,
        serves: impl Fn(Instant) -> Option<Instant>,
        fault: impl FnOnce(Instant) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let bystander = Bystander::start(endpoints, self.slots, 1, Some(PACE))?;
        let other = locks::connect(endpoints)?;
        let taker = Taker::start(&other, self.locks);
        let began = quiet();
        let before = bystander.epoch();
        fault(began)?;
        let is_served = || serves(began).is_some_and(|since| bystander.latest() > Some(since));
        await_that("the successor's first grant", PATIENCE, || bystander.epoch() > before || is_served())?;
        let passed_on = holder.pass_on(taker)?;
        trial.passed_on_ms = Some(ms(passed_on - began));
        let lost = holder.lost();
        if lost > 0 {
            return Err(format!("{lost} of {} guards were lost", self.locks));
        }
        holder.refuses(&other)?;
        let grants = bystander.end()?;
        let since = serves(began);
        let is_successors = |(at, epoch): &&Granted| *epoch > before || since.is_some_and(|since| *at > since);
        let first = grants.iter().find(is_successors).ok_or("no grant by the successor")?.0;
        trial.first_grant_ms = Some(ms(first - began));
        gaps(trial, &grants, began, first, passed_on);
        Ok(())
    }

    /// The switch with this number, started.
    fn switch(&self, number: usize, etcd: Option<&Etcd>, log: &'static str) -> Result<Switch, Error> {
        let settings = format!("slots = {}", self.slots);
        Switch::start_at(self.place.seat(number), &self.options.wayside, &settings, etcd, log)
    }

    fn begin(&self, fault: Fault) -> Trial {
        Trial::new(fault, self.round, self.locks)
    }

    fn end(&mut self, mut trial: Trial, outcome: Result<(), Error>) {
        trial.broken = outcome.err();
        trial.load = knobs::load();
        // Whoever closed it does not want to know.
        let _ = writeln!(std::io::stderr(), "{trial}");
        self.trials.push(trial);
    }
}

/// A while in which nothing breaks; its end.
fn quiet() -> Instant {
    thread::sleep(QUIET);
    Instant::now()
}

/// What the bystander felt: in the quiet, until the first that was away was there again, until all was.
fn gaps(trial: &mut Trial, grants: &[Granted], began: Instant, first: Instant, all: Instant) {
    let quiet = began.checked_sub(QUIET / 2).unwrap_or(began);
    trial.quiet_gap_ms = ms(longest_gap(grants, quiet, began.checked_sub(QUIET / 20).unwrap_or(began)));
    trial.gap_ms = ms(longest_gap(grants, began, first));
    trial.gap_to_all_ms = ms(longest_gap(grants, began, all));
}

fn all_held_to_the_end(holder: Holder, count: u64) -> Result<(), Error> {
    let held = holder.release();
    if held == count { Ok(()) } else { Err(format!("{held} of {count} locks were held to the end")) }
}

fn ms(time: Duration) -> f64 {
    // To a microsecond: what comes after it is noise, and ten times the file.
    (time.as_secs_f64() * 1e6).round() / 1e3
}
