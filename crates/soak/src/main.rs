//! Hours of faults on real processes: switches that share etcd, hosts of workers, and a network that loses, repeats,
//! delays and changes packets, in network namespaces of this machine. Workers write down what they asked for, what they
//! were told and when; at the end the histories are judged, here and by Porcupine.
//!
//! * [`hub`]: the network; [`world`]: hosts and processes; [`mishaps`]: what breaks, and when.
//! * [`worker`]: a process that asks; [`history`]: what it writes; [`verdict`]: what is found in that.
//! * [`locks`], [`keys`]: the services: each with who asks, what is written, and its judge.

mod history;
mod hub;
mod keys;
mod locks;
mod mishaps;
mod verdict;
mod worker;
mod world;

use clap::{Parser, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use mishaps::Mishaps;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use verdict::Verdict;
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
    Check {
        directory: PathBuf,
        /// Of what they are
        #[arg(long, default_value = "locks")]
        service: Service,
    },
    /// One of the processes that the soak starts
    #[command(hide = true)]
    Worker(worker::WorkerArgs),
}

/// What workers ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Service {
    /// Locks, of two switches, one of which serves
    Locks,
    /// Keys, of chains of three switches
    Keys,
}

impl Service {
    fn name(self) -> &'static str {
        match self {
            Service::Locks => "locks",
            Service::Keys => "keys",
        }
    }

    /// Switches of a run.
    fn switches(self) -> usize {
        match self {
            Service::Locks => 2,
            Service::Keys => 3,
        }
    }
}

/// Who decides on locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Agents
    Fission,
    /// Queues in the switch for those that are asked for most, as they change, and two lock servers for the others
    Queue,
    /// Queues in the switch for half of the names, with two lock servers for what overflows, and agents for the others
    Hybrid,
}

#[derive(Debug, clap::Args)]
struct SoakArgs {
    /// What workers ask for
    #[arg(long, default_value = "locks")]
    service: Service,

    /// Who decides on locks
    #[arg(long, default_value = "fission")]
    engine: Engine,

    /// How long things break
    #[arg(long, default_value_t = 60)]
    seconds: u64,

    /// Decides what breaks and when, and what workers ask for [default: any, and printed]
    #[arg(long)]
    seed: Option<u64>,

    /// Names that workers ask for: the fewer, the more they come across each other
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

    /// Say what is missing and do without it, where otherwise nothing begins: root, etcd, Porcupine
    #[arg(long)]
    skip_missing: bool,

    /// The program `wayside` [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    wayside: Option<PathBuf>,
}

/// For the last of what is under way, once nothing breaks any more: leases, time-outs, a promotion.
const HEALING: Duration = Duration::from_secs(40);
/// Grants or answers of every worker's every thread after the network healed.
const ANSWERS_AFTER: u64 = 10;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.role {
        Some(Role::Worker(args)) => return worker_ends(worker::run(&args)),
        Some(Role::Check { directory, service }) => judge(service, &directory).map(|verdict| verdict.violations),
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
    if let Some(why) = missing() {
        if !args.skip_missing {
            return Err(io::Error::other(why));
        }
        println!("skipped: soak: {why}");
        return Ok(Vec::new());
    }
    if !args.skip_missing && !beside(PORCUPINE)?.exists() {
        return Err(io::Error::other(format!(
            "no program {PORCUPINE} beside this one to judge the histories by: scripts/soak.sh builds it, with Go; \
             --skip-missing does without"
        )));
    }
    if args.hook && !cfg!(feature = "xdp") {
        return Err(io::Error::other("built without XDP: add --features xdp"));
    }
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    let wayside = match &args.wayside {
        Some(path) => path.clone(),
        None => beside("wayside")?,
    };
    if !wayside.exists() {
        return Err(io::Error::other(format!("no program {}: build wayside-daemon", wayside.display())));
    }
    let lease = Duration::from_millis(args.lease_ms);
    let SoakArgs { service, engine, names, threads, hook, .. } = *args;
    let mut world = World::make(Options { wayside, service, engine, seed, names, threads, lease, hook })?;
    let mut mishaps = Mishaps::new(seed, lease);
    let place = if hook { "at the hook" } else { "in userspace" };
    let by = match (service, engine) {
        (Service::Keys, _) | (_, Engine::Fission) => "",
        (_, Engine::Queue) => " in queues",
        (_, Engine::Hybrid) => " in slots and queues",
    };
    println!("{}{by}, seed {seed}, {} s, switches {place}", service.name(), args.seconds);
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
    let kept = kept(&world);
    faults.extend(end_workers(&mut world)?);
    faults.extend(match service {
        Service::Locks => left_over(&world),
        Service::Keys => missing_from_chains(&world),
    });
    let verdict = judge(service, &world.histories())?;
    table(&verdict, &mishaps.counts, &world);
    if service == Service::Locks {
        println!("kept by workers in the end, held by nobody: {kept}");
    }
    faults.extend(verdict.violations);
    if verdict.answered == 0 {
        faults.push("nothing was answered at all".into());
    }
    if let Some(directory) = &args.keep {
        keep(world, directory)?;
    }
    Ok(faults)
}

/// Without which nothing runs.
fn missing() -> Option<String> {
    let has_etcd = Command::new("etcd").arg("--version").output().is_ok();
    wayside_hosts::missing().or((!has_etcd).then(|| "etcd is not installed (Debian: etcd-server)".into()))
}

/// A program that is built into the same directory as this one.
fn beside(name: &str) -> io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(name))
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
    for switch in 0..world.switches.len() {
        if world.switches[switch].as_mut().is_none_or(|process| process.ended().unwrap_or(true)) {
            world.start_switch(switch)?;
        }
    }
    for server in 0..world.servers.len() {
        if world.servers[server].as_mut().is_none_or(|process| process.ended().unwrap_or(true)) {
            world.start_server(server)?;
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

/// Histories of living workers with too few answers since.
fn behind(world: &World, since: u64) -> io::Result<Vec<String>> {
    let mut latest: BTreeMap<usize, u64> = BTreeMap::new();
    let mut answers: BTreeMap<(usize, u64, String), u64> = BTreeMap::new();
    for path in history::all(&world.histories())? {
        let Some((worker, started, name)) = parts_of(&path) else { continue };
        let newest = latest.entry(worker).or_default();
        *newest = (*newest).max(started);
        answers.insert((worker, started, name), answers_since(world.service(), &path, since)?);
    }
    let few = |((worker, started, _), count): &(&(usize, u64, String), &u64)| {
        latest.get(worker) == Some(started) && **count < ANSWERS_AFTER
    };
    let mut behind: Vec<String> = answers.iter().filter(few).map(|((.., name), _)| name.clone()).collect();
    let absent = (0..world.workers.len()).filter(|worker| !latest.contains_key(worker));
    behind.extend(absent.map(|worker| format!("worker {worker}, which wrote nothing")));
    Ok(behind)
}

fn answers_since(service: Service, path: &Path, since: u64) -> io::Result<u64> {
    use keys::history::Event as Key;
    use locks::history::Event as Lock;
    let count = match service {
        Service::Locks => {
            let lines = history::read::<Lock>(path)?;
            lines.iter().filter(|line| line.at > since && matches!(line.event, Lock::Held { .. })).count()
        }
        Service::Keys => {
            let lines = history::read::<Key>(path)?;
            let is_answer = |event: &Key| matches!(event, Key::Found { .. } | Key::Overwritten | Key::Done { .. });
            lines.iter().filter(|line| line.at > since && is_answer(&line.event)).count()
        }
    };
    Ok(count as u64)
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

/// Locks that workers keep though they do not hold them, as the switch that serves is told.
fn kept(world: &World) -> u64 {
    let answers = (0..world.switches.len()).filter_map(|switch| world.tells(switch, &["locks"]));
    let of_each = |answer: serde_json::Value| {
        let keepers = answer["keepers"].as_array().into_iter().flatten();
        keepers.filter_map(|keeper| keeper["kept"].as_u64()).sum::<u64>()
    };
    answers.map(of_each).sum()
}

/// L2: what nobody wants becomes free.
fn left_over(world: &World) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let answers: Vec<_> = (0..world.switches.len()).filter_map(|switch| world.tells(switch, &["locks"])).collect();
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

/// Every switch is in its chains again, and no group has lost what it had: of a chain's switches one was always left.
fn missing_from_chains(world: &World) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let why = match world.chains() {
            None => "no switch tells of its chains",
            Some(chains) if chains.lost > 0 => return vec![format!("K4: {} groups lost all they had", chains.lost)],
            Some(chains) if chains.are_whole => return Vec::new(),
            Some(_) => "chains are not whole again",
        };
        if begun.elapsed() > HEALING {
            return vec![format!("{HEALING:?} after all was well again {why}")];
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn judge(service: Service, directory: &Path) -> io::Result<Verdict> {
    let paths = history::all(directory)?;
    let mut verdict = Verdict { histories: paths.len(), ..Verdict::default() };
    // Among the histories, of whom it is no one: what is kept or removed with them.
    let path = directory.join("operations.json");
    let mut operations = BufWriter::new(File::create(&path)?);
    match service {
        Service::Locks => locks::check::export(&locks::check::judge(&paths, &mut verdict)?, &mut operations)?,
        Service::Keys => keys::check::export(&keys::check::judge(&paths, &mut verdict)?, &mut operations)?,
    }
    operations.flush()?;
    match porcupine(service, &path) {
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

fn porcupine(service: Service, operations: &Path) -> Option<Result<(), String>> {
    let program = beside(PORCUPINE).ok()?;
    let output = Command::new(program).arg(service.name()).arg(operations).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Some(if output.status.success() { Ok(()) } else { Err(said) })
}

fn table(verdict: &Verdict, mishaps: &BTreeMap<&'static str, u64>, world: &World) {
    println!("histories {}, operations {}, answered {}", verdict.histories, verdict.operations, verdict.answered);
    println!("lost while held {}, cut short by a kill {}", verdict.lost, verdict.unfinished);
    println!("ended otherwise");
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
    world.switches.clear();
    let mut command = Command::new("cp");
    command.arg("-r").arg(world.directory.path()).arg(to);
    if !command.status()?.success() {
        return Err(io::Error::other(format!("can't keep the histories in {}", to.display())));
    }
    println!("histories and logs are in {}", to.display());
    Ok(())
}
