//! Runs seeds, prints what they did, and for a failure the command that replays it.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use wayside_sim::{COMMIT, Counts, Options, Outcome, run};

/// Simulates Wayside's own core and protocol under faults. One seed is one run.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Runs these seeds: A..B, without B.
    #[arg(long, value_parser = seeds, default_value = "0..100", conflicts_with = "seed")]
    seeds: Range<u64>,
    /// Runs one seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Prints every packet and event.
    #[arg(long)]
    trace: bool,
    /// Goes on after a failure.
    #[arg(long)]
    keep_going: bool,
    /// Seeds at a time; as many as there are processors without it, and one with --trace.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    jobs: Option<u64>,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("expected A..B")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
    let range = number(from)?..number(to)?;
    if range.is_empty() { Err("no seed between them".to_string()) } else { Ok(range) }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seeds = arguments.seed.map_or(arguments.seeds, |seed| seed..seed + 1);
    let options = Options { chart: arguments.trace, ..Options::default() };
    let processors = thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let most = if arguments.trace { 1 } else { arguments.jobs.unwrap_or(processors) };
    let jobs = most.min(seeds.end - seeds.start);
    let progress = progress(seeds.end - seeds.start, arguments.trace);
    let started = Instant::now();
    let mut total = Outcome::default();
    let (mut ran, mut failures) = (0, BTreeMap::<&str, Vec<u64>>::new());
    run_all(seeds, options, jobs, |outcome| {
        ran += 1;
        total.add(&outcome);
        progress.inc(1);
        if let Some(failure) = &outcome.failure {
            let (seed, replay) = (outcome.seed, outcome.replay());
            progress.suspend(|| println!("seed {seed}: {failure}\n  {replay}   (commit {COMMIT})"));
            failures.entry(failure.invariant).or_default().push(seed);
        }
        outcome.failure.is_none() || arguments.keep_going
    });
    progress.finish_and_clear();
    table(ran, jobs, &total, started.elapsed().as_secs_f64());
    for (invariant, seeds) in &mut failures {
        seeds.sort_unstable();
        println!("{invariant} broke in {} of {ran} seeds: {:?}", seeds.len(), &seeds[..seeds.len().min(20)]);
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs every seed, `jobs` at a time, and shows each outcome when it is there, until `goes_on` says no.
fn run_all(seeds: Range<u64>, options: Options, jobs: u64, mut goes_on: impl FnMut(Outcome) -> bool) {
    let next = AtomicU64::new(seeds.start);
    let (done, outcomes) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs {
            let (next, done) = (&next, done.clone());
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= seeds.end || done.send(run(seed, options)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        // Those who still run a seed after this end with it: nobody listens to them any more.
        for outcome in outcomes {
            if !goes_on(outcome) {
                return;
            }
        }
    });
}

/// A bar on a terminal, nothing in a pipe.
fn progress(seeds: u64, trace: bool) -> ProgressBar {
    if trace || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {eta} left");
    ProgressBar::new(seeds).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn table(ran: u64, jobs: u64, total: &Outcome, seconds: f64) {
    println!("seeds       {ran:>12}");
    let rate = total.packets as f64 / seconds;
    println!("packets     {:>12}   {rate:.0} a second, {jobs} seeds at a time", total.packets);
    println!("operations  {:>12}", total.operations);
    println!("world time  {:>12.1} s in {seconds:.1} s", total.duration as f64 / 1e6);
    for (title, counts) in [("faults", &total.faults), ("outcomes", &total.outcomes), ("verdicts", &total.verdicts)] {
        println!("{title}");
        rows(counts);
    }
    let missing = total.missing();
    if !missing.is_empty() {
        println!("never seen: {}", missing.join(", "));
    }
}

fn rows(counts: &Counts) {
    for (name, count) in counts.iter().filter(|(_, count)| **count > 0) {
        println!("  {name:<24} {count:>12}");
    }
}
