//! `make bench`: measures, prints the table, and with `--record` keeps it in `bench/runs`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;
use wayside_bench::{Options, Report};

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
       wayside-bench --figures FILE

  --seconds N                how long to measure all in all; 75 without it
  --idle-latency held|free   keep idle processors awake (/dev/cpu_dma_latency, needs root), or not; held without it
  --record                   keep the report as bench/runs/<date>-<commit>-<held|free>.json
  --figures FILE             put the figures of such a report into README.md; measures nothing";

struct Arguments {
    seconds: u64,
    hold_latency: bool,
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
    let mut arguments = Arguments { seconds: 75, hold_latency: true, record: false, figures: None };
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
            "--record" => arguments.record = true,
            "--figures" => arguments.figures = Some(words.next()?.into()),
            _ => return None,
        }
    }
    Some(arguments)
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

/// Puts a report's figures into the README.
fn show(record: &Path) -> Result<(), String> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| format!("{path}: {error}")
    };
    let readme = Path::new("README.md");
    let report = Report::from_json(&std::fs::read_to_string(record).map_err(failed(record))?)?;
    let text = std::fs::read_to_string(readme).map_err(failed(readme))?;
    let text = wayside_bench::put_figures(&text, &report, &record.display().to_string())?;
    std::fs::write(readme, text).map_err(failed(readme))
}

fn record(report: &Report, held: bool) -> Result<(), String> {
    let date = Command::new("date").args(["-u", "+%Y-%m-%d"]).output().map_err(|error| error.to_string())?;
    let date = String::from_utf8_lossy(&date.stdout).trim().to_owned();
    let latency = if held { "held" } else { "free" };
    let path = PathBuf::from(format!("bench/runs/{date}-{}-{latency}.json", report.commit()));
    std::fs::create_dir_all("bench/runs").map_err(|error| error.to_string())?;
    std::fs::write(&path, report.to_json() + "\n").map_err(|error| error.to_string())?;
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
        for line in
            ["--seconds", "--seconds 0", "--seconds x", "--idle-latency maybe", "--figures", "--unknown", "quick"]
        {
            assert!(read(line).is_none(), "{line:?}");
        }
    }
}
