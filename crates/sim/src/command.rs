//! The command `wayside sim`: runs seeds, prints what they did, and for a failure what it takes and how to see it
//! again.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::ops::Range;
use std::time::Instant;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use crate::shrink::{Shrunk, shrink};
use crate::{BATCH, COMMIT, Counts, Filter, Marks, Options, Outcome, Scale, ServiceKind, processors, run_all};

/// Arguments of `wayside sim`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Sim {
    #[command(subcommand)]
    what: Option<What>,

    #[command(flatten)]
    seeds: Seeds,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Break rules of the protocol on purpose, one at a time, and show how many seeds it takes to notice: needs a build
    /// with the feature `mutants`
    Mutants(Mutants),
}

#[derive(Debug, Args)]
struct Mutants {
    /// Break these alone [default: all]
    #[arg(value_name = "RULE")]
    rules: Vec<String>,

    /// Seeds to try at most
    #[arg(long, value_name = "COUNT", default_value_t = 30_000)]
    seeds: u64,
}

#[derive(Debug, Args)]
struct Seeds {
    /// Run these seeds, without the last
    #[arg(long, value_name = "A..B", value_parser = seeds, default_value = "0..1000", conflicts_with = "seed")]
    seeds: Range<u64>,

    /// Run one seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// What the worlds do
    #[arg(long, value_enum, default_value_t)]
    service: ServiceKind,

    /// Print every packet and event, in columns
    #[arg(long, requires = "seed")]
    trace: bool,

    /// Let nothing happen to the seed but these, as a failure names them: crash:3,lost:17+20-40
    #[arg(long, value_name = "HAPPENINGS", value_parser = Marks::parse, requires = "seed")]
    only: Option<Marks>,

    /// Leave these out; a kind without numbers means all of it: jitter,late,lost:17
    #[arg(long, value_name = "HAPPENINGS", value_parser = Marks::parse)]
    without: Option<Marks>,

    /// Go on after a failure
    #[arg(long)]
    keep_going: bool,

    /// Do not look for the fewest happenings that a failure takes
    #[arg(long)]
    no_shrink: bool,

    /// Seeds at a time [default: one on each processor]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1_024))]
    jobs: Option<u64>,

    /// A world of so many nodes, instead of one that the seed draws
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(2..=16_000))]
    nodes: Option<u64>,

    /// With so many names, each of which has a slot
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=16_000_000))]
    names: Option<u64>,

    /// That lives for so many packets before it heals
    #[arg(long, value_name = "COUNT")]
    packets: Option<u64>,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("expected A..B")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
    let range = number(from)?..number(to)?;
    if range.is_empty() { Err("no seed between them".to_string()) } else { Ok(range) }
}

/// Does what the arguments say. Whether all was well.
///
/// # Errors
/// What this build can't do.
pub fn sim(arguments: &Sim) -> Result<bool, String> {
    match &arguments.what {
        None => Ok(run_seeds(&arguments.seeds)),
        #[cfg(feature = "mutants")]
        Some(What::Mutants(mutants)) => Ok(crate::mutants::table(mutants.seeds, &mutants.rules)),
        #[cfg(not(feature = "mutants"))]
        Some(What::Mutants(_)) => Err("this build keeps every rule of the protocol: rules that can be broken are in \
             `cargo run --profile simulation -p wayside-sim --features mutants -- mutants`"
            .to_string()),
    }
}

impl Seeds {
    fn options(&self) -> Options {
        let scale = (self.nodes.is_some() || self.names.is_some()).then(|| Scale {
            nodes: self.nodes.unwrap_or(1_000) as usize,
            names: self.names.unwrap_or(1_000_000),
            packets: self.packets.unwrap_or(1_000_000),
        });
        let filter = Filter { only: self.only.clone(), without: self.without.clone().unwrap_or_default() };
        Options { chart: self.trace, service: self.service, filter, scale, ..Options::default() }
    }
}

fn run_seeds(arguments: &Seeds) -> bool {
    let seeds = arguments.seed.map_or(arguments.seeds.clone(), |seed| seed..seed + 1);
    let options = arguments.options();
    let is_large = options.scale.is_some();
    let count = seeds.end - seeds.start;
    let jobs = if arguments.trace { 1 } else { arguments.jobs.unwrap_or_else(processors) }.min(count);
    let progress = bar(count, arguments.trace, "{bar:40} {pos}/{len} seeds, {eta} left{msg}");
    let started = Instant::now();
    let mut total = Outcome { service: options.service, ..Outcome::default() };
    let (mut ran, mut failures) = (0, BTreeMap::<&str, Vec<u64>>::new());
    run_all(seeds, &options, jobs, |outcome| {
        ran += 1;
        total.add(&outcome);
        progress.inc(1);
        if let Some(failure) = &outcome.failure {
            let only = options.filter.only.is_some();
            let story = format!(
                "seed {}: {failure}\n  commit {COMMIT}; to see it: {}",
                outcome.seed,
                options.replay(outcome.seed)
            );
            progress.suspend(|| say(&story));
            if !arguments.no_shrink && !only && !arguments.keep_going {
                let bar = bar(0, false, "shrinking: {msg} happenings left");
                let shrunk = shrink(&outcome, &options, &|left| bar.set_message(left.to_string()));
                bar.finish_and_clear();
                shrunk.iter().for_each(|shrunk| say(&told(outcome.seed, &options, shrunk)));
            }
            failures.entry(failure.invariant).or_default().push(outcome.seed);
        }
        outcome.failure.is_none() || arguments.keep_going
    });
    progress.finish_and_clear();
    say(&table(ran, jobs, &total, started.elapsed().as_secs_f64(), is_large));
    for (invariant, seeds) in &mut failures {
        seeds.sort_unstable();
        say(&format!("{invariant} broke in {} of {ran} seeds: {:?}", seeds.len(), &seeds[..seeds.len().min(20)]));
    }
    let missing = if is_large || count < MEANINGFUL { Vec::new() } else { total.missing(ran) };
    if !missing.is_empty() {
        say(&format!("never seen:\n  {}", missing.join("\n  ")));
    }
    // A smaller batch says what it has not seen, and proves that much less.
    failures.is_empty() && (missing.is_empty() || ran < BATCH)
}

/// Seeds below which nobody wonders what was not seen.
const MEANINGFUL: u64 = 100;

/// Nobody may be reading.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// What a failure takes, and how to see it.
fn told(seed: u64, options: &Options, shrunk: &Shrunk) -> String {
    let Shrunk { filter, happened, failure, before, runs } = shrunk;
    let mut text = format!("  shrunk from {before} happenings to {}, in {runs} runs:\n", happened.len());
    for (at, mark) in happened {
        text += &format!("    {:>12.6} s  {}:{}\n", *at as f64 / 1e6, mark.kind.name(), mark.occasion);
    }
    let replay = Options { filter: filter.clone(), ..options.clone() }.replay(seed);
    text + &format!("  {failure}\n  to see it: {replay}")
}

/// A bar on a terminal, nothing in a pipe.
pub(crate) fn bar(length: u64, hidden: bool, template: &str) -> ProgressBar {
    if hidden || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template);
    ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn table(ran: u64, jobs: u64, total: &Outcome, seconds: f64, is_large: bool) -> String {
    let rate = |count: u64| format!("{:.0} a second", count as f64 / seconds);
    let at_a_time = if jobs == 1 { "one seed at a time".to_string() } else { format!("{jobs} seeds at a time") };
    let mut text = format!("seeds       {ran:>12}   {}, {at_a_time}\n", rate(ran));
    text += &format!("packets     {:>12}   {}\n", total.packets, rate(total.packets));
    text += &format!("operations  {:>12}\n", total.operations);
    text += &format!("world time  {:>12.1} s in {seconds:.1} s\n", total.duration as f64 / 1e6);
    text += &format!("histories   {:016x}", total.trace_hash);
    if is_large && let Some(peak) = peak_memory() {
        text += &format!("\nmemory      {peak:>12} kB at most");
    }
    for (title, counts) in [
        ("faults", &total.faults),
        ("outcomes", &total.outcomes),
        ("decisions of the switch", &total.decisions),
        ("counters of the switch", &total.verdicts),
    ] {
        text += &format!("\n{title}{}", rows(counts));
    }
    text
}

fn rows(counts: &Counts) -> String {
    let seen = counts.iter().filter(|(_, count)| **count > 0);
    seen.map(|(name, count)| format!("\n  {name:<72} {count:>12}")).collect()
}

/// Of this process, in kB, where the system says so.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        seeds: Seeds,
    }

    /// Whatever a seed was run with is in the command that shows it again.
    #[test]
    fn the_command_of_a_failure_runs_the_same() {
        for text in [
            "wayside sim --seed 7 --trace",
            "wayside sim --service hybrid --seed 7 --trace",
            "wayside sim --seed 0 --nodes 30 --names 500 --packets 20000 --without lost:17,late,jitter --trace",
            "wayside sim --service shards --seed 4 --without drift --only lost:17+20-40,crash:3 --trace",
        ] {
            let seeds = Command::parse_from(text.split(' ').skip(1)).seeds;
            assert_eq!(seeds.options().replay(seeds.seed.expect("one")), text);
        }
    }
}
