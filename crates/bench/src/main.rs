//! `make bench`: measures, prints the table, and with `--record` keeps it in `bench/runs`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;
use wayside_bench::{Options, Recovery, RecoveryOptions, Report};

/// Counts every thread's allocations apart: what a session's background thread needs now and then falls into what
/// another one is timed for by chance alone.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends has no count any more.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const USAGE: &str = "\
usage: wayside-bench [--seconds N] [--idle-latency held|free] [--record]
       wayside-bench --recovery [--short | --locks N] [--rounds N] [--record]
       wayside-bench --figures FILE

  --seconds N                how long to measure all in all; 75 without it
  --idle-latency held|free   keep idle processors awake (/dev/cpu_dma_latency, needs root), or not; held without it
  --recovery                 measure how long locks are away when a switch or a node dies, instead: several minutes
  --short                    with 10,000 locks, once: within 15 s
  --locks N                  with so many locks alone; given several times, with each
  --rounds N                 so often; five times without it
  --record                   keep the report as bench/runs/<date>-<commit>-<held|free|recovery>.json, with its drawings
  --figures FILE             put the figures of such a report into README.md or docs/recovery.md; measures nothing";

struct Arguments {
    seconds: u64,
    hold_latency: bool,
    recovery: bool,
    short: bool,
    locks: Vec<u64>,
    rounds: Option<u32>,
    record: bool,
    figures: Option<PathBuf>,
}

fn main() -> ExitCode {
    let Some(arguments) = arguments(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(64);
    };
    let done = match &arguments.figures {
        Some(record) => show(record),
        None if arguments.recovery => recover(&arguments),
        None => measure(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wayside-bench: {error}");
            ExitCode::from(69)
        }
    }
}

fn arguments(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments {
        seconds: 75,
        hold_latency: true,
        recovery: false,
        short: false,
        locks: Vec::new(),
        rounds: None,
        record: false,
        figures: None,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seconds" => arguments.seconds = words.next()?.parse().ok().filter(|&seconds| seconds > 0)?,
            "--idle-latency" => {
                arguments.hold_latency = match words.next()?.as_str() {
                    "held" => true,
                    "free" => false,
                    _ => return None,
                }
            }
            "--recovery" => arguments.recovery = true,
            "--short" => arguments.short = true,
            "--locks" => arguments.locks.push(words.next()?.parse().ok().filter(|&locks| locks > 0)?),
            "--rounds" => arguments.rounds = Some(words.next()?.parse().ok().filter(|&rounds| rounds > 0)?),
            "--record" => arguments.record = true,
            "--figures" => arguments.figures = Some(words.next()?.into()),
            _ => return None,
        }
    }
    let some = !arguments.locks.is_empty();
    let of_recovery = arguments.short || some || arguments.rounds.is_some();
    (!of_recovery || arguments.recovery && !(arguments.short && some)).then_some(arguments)
}

fn measure(arguments: &Arguments) -> Result<(), String> {
    let report = wayside_bench::run(&Options {
        wayside: build_wayside()?,
        how_long: Duration::from_secs(arguments.seconds),
        hold_latency: arguments.hold_latency,
        allocations: Some(|| ALLOCATIONS.get()),
    })?;
    print!("{report}");
    if arguments.record { record(&report, arguments.hold_latency) } else { Ok(()) }
}

fn recover(arguments: &Arguments) -> Result<(), String> {
    let wayside = build_wayside()?;
    let mut options = if arguments.short { RecoveryOptions::short(wayside) } else { RecoveryOptions::whole(wayside) };
    if !arguments.locks.is_empty() {
        options.locks.clone_from(&arguments.locks);
    }
    options.rounds = arguments.rounds.unwrap_or(options.rounds);
    let recovery = wayside_bench::run_recovery(&options)?;
    print!("{recovery}");
    if arguments.record {
        let stem = stem(recovery.commit(), "recovery")?;
        keep(&stem.with_extension("json"), &(recovery.to_json() + "\n"))?;
        keep(&stem.with_extension("csv"), &recovery.timelines_as_csv())?;
        keep(&stem.with_extension("svg"), &recovery.timelines_as_svg())?;
        keep(&PathBuf::from(format!("{}-growth.svg", stem.display())), &recovery.growth_as_svg())?;
    }
    if recovery.broken().next().is_none() { Ok(()) } else { Err("something was lost: see above".into()) }
}

/// The switch of this very tree, built in the same way, beside this program.
fn build_wayside() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let wayside = own.with_file_name("wayside");
    // Cargo says where it is to what it runs; without it, what is there is taken.
    if let Some(cargo) = std::env::var_os("CARGO") {
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--package", "wayside-daemon", "--bin", "wayside"]);
        if cfg!(feature = "xdp") {
            build.args(["--features", "xdp"]);
        }
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        let status = build.status().map_err(|error| format!("cargo does not start: {error}"))?;
        if !status.success() {
            return Err("wayside does not build".into());
        }
    }
    if wayside.exists() { Ok(wayside) } else { Err(format!("{} is not there: build it first", wayside.display())) }
}

/// Puts a report's figures into the page that has them.
fn show(record: &Path) -> Result<(), String> {
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let (text, name) = (read(record)?, record.display().to_string());
    let (page, text) = match Recovery::from_json(&text) {
        Ok(recovery) => {
            let page = Path::new("docs/recovery.md");
            (page, wayside_bench::put_recovery(&read(page)?, &recovery, &name)?)
        }
        Err(_) => {
            let page = Path::new("README.md");
            (page, wayside_bench::put_figures(&read(page)?, &Report::from_json(&text)?, &name)?)
        }
    };
    std::fs::write(page, text).map_err(|error| format!("{}: {error}", page.display()))
}

fn record(report: &Report, held: bool) -> Result<(), String> {
    let stem = stem(report.commit(), if held { "held" } else { "free" })?;
    keep(&stem.with_extension("json"), &(report.to_json() + "\n"))
}

/// Where a record of today is kept, without its extension.
fn stem(commit: &str, kind: &str) -> Result<PathBuf, String> {
    let date = Command::new("date").args(["-u", "+%Y-%m-%d"]).output().map_err(|error| error.to_string())?;
    let date = String::from_utf8_lossy(&date.stdout).trim().to_owned();
    Ok(PathBuf::from(format!("bench/runs/{date}-{commit}-{kind}")))
}

fn keep(path: &Path, text: &str) -> Result<(), String> {
    std::fs::create_dir_all("bench/runs").map_err(|error| error.to_string())?;
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("Kept as {}.", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_or_refused() {
        let read = |line: &str| arguments(line.split_whitespace().map(str::to_owned));
        let given = read("--seconds 5 --idle-latency free --record").unwrap();
        assert_eq!((given.seconds, given.hold_latency, given.record), (5, false, true));
        let given = read("--recovery --locks 5 --locks 6 --rounds 2").unwrap();
        assert_eq!((given.recovery, given.short, given.rounds), (true, false, Some(2)));
        assert_eq!(given.locks, [5, 6]);
        for line in [
            "--seconds",
            "--seconds 0",
            "--seconds x",
            "--idle-latency maybe",
            "--figures",
            "--unknown",
            "quick",
            "--short",
            "--recovery --locks 0",
            "--recovery --short --locks 5",
        ] {
            assert!(read(line).is_none(), "{line:?}");
        }
    }
}
