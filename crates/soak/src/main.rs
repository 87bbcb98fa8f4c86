//! Hours of faults on real processes: two switches with a standby's etcd, hosts of workers, and a network that loses,
//! repeats, delays and changes packets, in network namespaces of this machine. Workers write down who held what and
//! when; at the end the histories are judged, here and by Porcupine.
//!
//! * [`hub`]: the network; [`world`]: hosts and processes; [`mishaps`]: what breaks, and when.
//! * [`worker`]: asks for locks; [`history`]: what it writes; [`check`]: the judge.

mod check;
mod history;
mod hub;
mod mishaps;
mod worker;
mod world;

use check::Verdict;
use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use mishaps::Mishaps;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use world::{Options, World};

/// Runs real processes under faults for a while, then judges what they were told
#[derive(Debug, Parser)]
#[command(name = "wayside-soak", version, max_term_width = 100, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,

    #[command(flatten)]
    soak: SoakArgs,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Judge the histories of a directory
    Check { directory: PathBuf },
    /// One of the processes that the soak starts
    #[command(hide = true)]
    Worker(worker::WorkerArgs),
}

#[derive(Debug, clap::Args)]
struct SoakArgs {
    /// How long things break
    #[arg(long, default_value_t = 60)]
    seconds: u64,

    /// Decides what breaks and when, and what workers ask for [default: any, and printed]
    #[arg(long)]
    seed: Option<u64>,

    /// Names that workers ask for: the fewer, the more they wait for each other
    #[arg(long, default_value_t = 12)]
    names: u64,

    /// Threads of a worker
    #[arg(long, default_value_t = 3)]
    threads: u64,

    /// Lease of sessions, in milliseconds
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(100..))]
    lease_ms: u64,

    /// The switches at the XDP hook
    #[arg(long)]
    hook: bool,

    /// Keep histories and logs in this directory, which must not be there yet
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// The program `wayside` [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    wayside: Option<PathBuf>,
}

/// For the last of what is under way, once nothing breaks any more: leases, time-outs, a promotion.
const HEALING: Duration = Duration::from_secs(40);
/// Grants of every worker's every thread after the network healed.
const GRANTS_AFTER: u64 = 10;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.role {
        Some(Role::Worker(args)) => return worker_ends(worker::run(&args)),
        Some(Role::Check { directory }) => judge(&directory).map(|verdict| verdict.violations),
        None => soak(&cli.soak),
    };
    match done {
        Ok(faults) if faults.is_empty() => ExitCode::SUCCESS,
        Ok(faults) => {
            faults.iter().for_each(|fault| println!("FAULT: {fault}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn worker_ends(done: Result<(), String>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("worker: {why}");
            ExitCode::FAILURE
        }
    }
}

/// What went wrong.
fn soak(args: &SoakArgs) -> io::Result<Vec<String>> {
    if let Some(why) = wayside_hosts::missing() {
        println!("skipped: soak: {why}");
        return Ok(Vec::new());
    }
    if Command::new("etcd").arg("--version").output().is_err() {
        println!("skipped: soak: etcd is not installed (Debian: etcd-server)");
        return Ok(Vec::new());
    }
    if args.hook && !cfg!(feature = "xdp") {
        return Err(io::Error::other("built without XDP: add --features xdp"));
    }
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    let wayside = match &args.wayside {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("wayside"),
    };
    if !wayside.exists() {
        return Err(io::Error::other(format!("no program {}: build wayside-daemon", wayside.display())));
    }
    let lease = Duration::from_millis(args.lease_ms);
    let (names, threads, hook) = (args.names, args.threads, args.hook);
    let mut world = World::make(Options { wayside, seed, names, threads, lease, hook })?;
    let mut mishaps = Mishaps::new(seed, lease);
    println!("seed {seed}, {} s, switches {}", args.seconds, if hook { "at the hook" } else { "in userspace" });
    let progress = progress(args.seconds);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(args.seconds) {
        mishaps.go_on(&mut world)?;
        progress.set_position(begun.elapsed().as_secs());
        std::thread::sleep(Duration::from_millis(5));
    }
    progress.finish_and_clear();
    mishaps.heal(&mut world)?;
    let mut faults = after_healing(&mut world)?;
    faults.extend(end_workers(&mut world)?);
    faults.extend(left_over(&world));
    let verdict = judge(&world.histories())?;
    table(&verdict, &mishaps.counts, &world);
    faults.extend(verdict.violations);
    if verdict.held == 0 {
        faults.push("nothing was granted at all".into());
    }
    if let Some(directory) = &args.keep {
        keep(world, directory)?;
    }
    Ok(faults)
}

/// A bar on a terminal, nothing in a pipe.
fn progress(seconds: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} s, {eta} left");
    ProgressBar::new(seconds).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// L1: everybody who lives gets on.
fn after_healing(world: &mut World) -> io::Result<Vec<String>> {
    for switch in 0..world::SWITCHES {
        if world.switches[switch].as_mut().is_none_or(|process| process.ended().unwrap_or(true)) {
            world.start_switch(switch)?;
        }
    }
    let healed = history::now();
    let begun = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let behind = behind(world, healed)?;
        if behind.is_empty() {
            return Ok(Vec::new());
        }
        if begun.elapsed() > HEALING {
            return Ok(vec![format!(
                "L1: {HEALING:?} after all was well again these had got nowhere: {}",
                behind.join(", ")
            )]);
        }
    }
}

/// Histories of living workers with too few grants since.
fn behind(world: &World, since: u64) -> io::Result<Vec<String>> {
    let mut latest: BTreeMap<usize, u64> = BTreeMap::new();
    let mut grants: BTreeMap<(usize, u64, String), u64> = BTreeMap::new();
    for path in check::histories(&world.histories())? {
        let Some((worker, started, name)) = parts_of(&path) else { continue };
        let newest = latest.entry(worker).or_default();
        *newest = (*newest).max(started);
        let lines = history::read(&path)?;
        let count =
            lines.iter().filter(|line| line.at > since && matches!(line.event, history::Event::Held { .. })).count();
        grants.insert((worker, started, name), count as u64);
    }
    let few = |((worker, started, _), count): &(&(usize, u64, String), &u64)| {
        latest.get(worker) == Some(started) && **count < GRANTS_AFTER
    };
    let mut behind: Vec<String> = grants.iter().filter(few).map(|((.., name), _)| name.clone()).collect();
    let absent = (0..world.workers.len()).filter(|worker| !latest.contains_key(worker));
    behind.extend(absent.map(|worker| format!("worker {worker}, which wrote nothing")));
    Ok(behind)
}

/// `WORKER.STARTED-THREAD`.
fn parts_of(path: &Path) -> Option<(usize, u64, String)> {
    let name = path.file_stem()?.to_str()?;
    let (worker, rest) = name.split_once('.')?;
    let (started, _) = rest.split_once('-')?;
    Some((worker.parse().ok()?, started.parse().ok()?, name.to_owned()))
}

/// They end by themselves; one that fails says why in its log.
fn end_workers(world: &mut World) -> io::Result<Vec<String>> {
    let mut faults = Vec::new();
    for worker in 0..world.workers.len() {
        let Some(mut process) = world.workers[worker].take() else { continue };
        match process.finish()? {
            Some(0) => {}
            Some(code) => faults.push(format!("worker {worker} ended with {code}; its log says why")),
            None => faults.push(format!("L1: worker {worker} waits for something that does not come")),
        }
    }
    Ok(faults)
}

/// L2: what nobody wants becomes free.
fn left_over(world: &World) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let answers: Vec<_> = (0..world::SWITCHES).filter_map(|switch| world.locks(switch)).collect();
        let held: usize = answers.iter().filter_map(|answer| Some(answer["locks"].as_array()?.len())).sum();
        if !answers.is_empty() && held == 0 {
            return Vec::new();
        }
        if begun.elapsed() > HEALING {
            return vec![format!("L2: {held} locks are held or awaited by nobody")];
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn judge(directory: &Path) -> io::Result<Verdict> {
    let (holds, mut verdict) = check::holds(&check::histories(directory)?)?;
    check::judge(&holds, &mut verdict);
    let path = directory.with_extension("operations");
    let mut operations = BufWriter::new(File::create(&path)?);
    check::export(&holds, &mut operations)?;
    operations.flush()?;
    match porcupine(&path) {
        Some(Ok(())) => println!("porcupine: every history is linearizable"),
        Some(Err(why)) => verdict.violations.push(format!("porcupine: {why}")),
        None => {
            println!("skipped: porcupine: no program {PORCUPINE} beside this one (HACKING.md says how to build it)")
        }
    }
    Ok(verdict)
}

/// Built from `crates/soak/porcupine`.
const PORCUPINE: &str = "wayside-porcupine";

fn porcupine(operations: &Path) -> Option<Result<(), String>> {
    let program = std::env::current_exe().ok()?.with_file_name(PORCUPINE);
    let output = Command::new(program).arg(operations).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Some(if output.status.success() { Ok(()) } else { Err(said) })
}

fn table(verdict: &Verdict, mishaps: &BTreeMap<&'static str, u64>, world: &World) {
    println!("histories {}, operations {}, held {}", verdict.histories, verdict.operations, verdict.held);
    println!("lost while held {}, cut short by a kill {}", verdict.lost, verdict.unfinished);
    println!("denied");
    verdict.denied.iter().for_each(|(why, count)| println!("  {why:<40} {count:>9}"));
    println!("mishaps");
    mishaps.iter().for_each(|(name, count)| println!("  {name:<40} {count:>9}"));
    println!("frames");
    let counts = &world.hub.counts;
    for (name, count) in [
        ("passed", &counts.passed),
        ("lost", &counts.lost),
        ("repeated", &counts.repeated),
        ("changed", &counts.changed),
        ("late", &counts.late),
        ("cut off", &counts.cut),
    ] {
        println!("  {name:<40} {:>9}", count.load(Relaxed));
    }
}

/// Histories and logs, once every process has ended.
fn keep(mut world: World, to: &Path) -> io::Result<()> {
    world.switches = [None, None];
    let mut command = Command::new("cp");
    command.arg("-r").arg(world.directory.path()).arg(to);
    if !command.status()?.success() {
        return Err(io::Error::other(format!("can't keep the histories in {}", to.display())));
    }
    println!("histories and logs are in {}", to.display());
    Ok(())
}
