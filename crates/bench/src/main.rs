//! `make bench`: measures, prints the table, and with `--record` keeps it in `bench/runs`.

mod arguments;

use arguments::{Arguments, What};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;
use wayside_bench::{
    Calibrated, CalibratedOptions, Contest, ContestOptions, Growth, GrowthOptions, Keys, KeysOptions, Options, Queues,
    QueuesOptions, Records, Recovery, RecoveryOptions, Report, Wishes,
};

/// Counts every thread's allocations apart: what a session's background thread needs now and then falls into what
/// another one is timed for by chance alone.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes that the thread has asked for, less those that it has given back.
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    // A thread that ends has no count any more.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
    let _ = BYTES.try_with(|count| count.set(count.get() + bytes as i64));
}

fn count_back(bytes: usize) {
    let _ = BYTES.try_with(|count| count.set(count.get() - bytes as i64));
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        count_back(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count_back(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    let Some(arguments) = Arguments::read(std::env::args().skip(1)) else {
        eprintln!("{}", arguments::USAGE);
        return ExitCode::from(64);
    };
    let done = match (&arguments.figures, arguments.what) {
        (Some(record), _) => show(record),
        (None, What::Echoes) => measure(&arguments),
        (None, What::Recovery) => recover(&arguments),
        (None, What::Services) => contest(&arguments),
        (None, What::Keys) => keys(&arguments),
        (None, What::Queues) => queues(&arguments),
        (None, What::Calibrated) => calibrated(&arguments),
        (None, What::Growth) => growth(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wayside-bench: {error}");
            ExitCode::from(69)
        }
    }
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
    options.at_hook = arguments.hook;
    let recovery = wayside_bench::run_recovery(&options)?;
    print!("{recovery}");
    if arguments.record {
        let stem = stem(recovery.commit(), recovery.name())?;
        keep(&stem.with_extension("json"), &(recovery.to_json() + "\n"))?;
        keep(&stem.with_extension("csv"), &recovery.timelines_as_csv())?;
        keep(&stem.with_extension("svg"), &recovery.timelines_as_svg())?;
        keep(&PathBuf::from(format!("{}-growth.svg", stem.display())), &recovery.growth_as_svg())?;
    }
    if recovery.broken().next().is_none() { Ok(()) } else { Err("something was lost: see above".into()) }
}

fn contest(arguments: &Arguments) -> Result<(), String> {
    let wayside = build_wayside()?;
    let options = if arguments.short { ContestOptions::short(wayside) } else { ContestOptions::whole(wayside) };
    let options = options.with(&Wishes {
        workloads: arguments.workloads.clone(),
        services: arguments.services.clone(),
        clients: arguments.clients,
        rounds: arguments.rounds,
        thinks: arguments.thinks.clone(),
    });
    // Before it begins: whoever has not so much time ends it.
    eprintln!("{}", options.plan());
    let contest = wayside_bench::run_contest(&options)?;
    print!("{contest}");
    if arguments.record {
        let stem = stem(contest.commit(), "services")?;
        keep(&stem.with_extension("json"), &(contest.to_json() + "\n"))?;
        keep(&stem.with_extension("csv"), &contest.to_csv())?;
        let mut records = Records::from(contest);
        // What the papers report belongs beside it; a record that is not of this version is left out.
        if let Some(headlines) = wayside_bench::newest_headlines() {
            let _ = records.add(&headlines);
        }
        keep(&stem.with_extension("html"), &wayside_bench::page(&records))?;
    }
    Ok(())
}

fn keys(arguments: &Arguments) -> Result<(), String> {
    let wayside = build_wayside()?;
    let mut options = match (arguments.short, arguments.brief) {
        (true, _) => KeysOptions::short(wayside),
        (false, true) => KeysOptions::brief(wayside),
        (false, false) => KeysOptions::whole(wayside),
    };
    options.rounds = arguments.rounds.unwrap_or(options.rounds);
    options.clients = arguments.clients.unwrap_or(options.clients);
    options.stores.clone_from(&arguments.services);
    let keys = wayside_bench::run_keys(&options)?;
    print!("{keys}");
    if arguments.record {
        let stem = stem(keys.commit(), "keys")?;
        keep(&stem.with_extension("json"), &(keys.to_json() + "\n"))?;
        keep(&stem.with_extension("svg"), &keys.timelines_as_svg())?;
    }
    if keys.broken().next().is_none() { Ok(()) } else { Err("a run failed: see above".into()) }
}

fn queues(arguments: &Arguments) -> Result<(), String> {
    let wayside = build_wayside()?;
    let mut options = if arguments.short { QueuesOptions::short(wayside) } else { QueuesOptions::whole(wayside) };
    options.rounds = arguments.rounds.unwrap_or(options.rounds);
    options.clients = arguments.clients.unwrap_or(options.clients);
    options.parts.clone_from(&arguments.which);
    if let Some(workload) = arguments.workloads.first() {
        options.workload.clone_from(workload);
    }
    let queues = wayside_bench::run_queues(&options)?;
    print!("{queues}");
    if arguments.record {
        let stem = stem(queues.commit(), "queues")?;
        keep(&stem.with_extension("json"), &(queues.to_json() + "\n"))?;
        keep(&stem.with_extension("svg"), &queues.as_svg())?;
    }
    if queues.broken().next().is_none() { Ok(()) } else { Err("a run failed: see above".into()) }
}

fn calibrated(arguments: &Arguments) -> Result<(), String> {
    let mut options = if arguments.short { CalibratedOptions::short() } else { CalibratedOptions::whole() };
    options.ids.clone_from(&arguments.which);
    options.packets = wayside_bench::newest_packets();
    if let Some(requests) = arguments.requests {
        // As many times fewer with other costs as without the argument.
        options.varied = options.varied * requests / options.requests;
        options.requests = requests;
    }
    let calibrated = wayside_bench::run_calibrated(&options)?;
    print!("{calibrated}");
    if arguments.record {
        let stem = stem(calibrated.commit(), "calibrated")?;
        keep(&stem.with_extension("json"), &(calibrated.to_json() + "\n"))?;
    }
    Ok(())
}

fn growth(arguments: &Arguments) -> Result<(), String> {
    let options = if arguments.short { GrowthOptions::short() } else { GrowthOptions::whole() };
    let options = GrowthOptions { memory: Some(|| BYTES.get()), ..options };
    let growth = wayside_bench::run_growth(&options)?;
    print!("{growth}");
    if arguments.record {
        let stem = stem(growth.commit(), "growth")?;
        keep(&stem.with_extension("json"), &(growth.to_json() + "\n"))?;
        keep(&stem.with_extension("svg"), &growth.to_svg())?;
    }
    Ok(())
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
    let (page, text) = if let Ok(recovery) = Recovery::from_json(&text) {
        let page = Path::new("docs/recovery.md");
        (page, wayside_bench::put_recovery(&read(page)?, &recovery, &name)?)
    } else if let Ok(keys) = Keys::from_json(&text) {
        let page = Path::new("docs/kv.md");
        (page, wayside_bench::put_keys(&read(page)?, &keys, &name)?)
    } else if let Ok(contest) = Contest::from_json(&text) {
        let page = Path::new("docs/figures.md");
        (page, wayside_bench::put_contest(&read(page)?, &contest, &name)?)
    } else if let Ok(queues) = Queues::from_json(&text) {
        let page = Path::new("docs/queue.md");
        (page, wayside_bench::put_queues(&read(page)?, &queues, &name)?)
    } else if let Ok(calibrated) = Calibrated::from_json(&text) {
        let page = Path::new("docs/headlines.md");
        (page, wayside_bench::put_calibrated(&read(page)?, &calibrated, &name)?)
    } else if let Ok(growth) = Growth::from_json(&text) {
        let page = Path::new("docs/growth.md");
        (page, wayside_bench::put_growth(&read(page)?, &growth, &name)?)
    } else {
        let (page, report) = (Path::new("docs/bars.md"), Report::from_json(&text)?);
        let bars = wayside_bench::put_bars(&read(page)?, &report, &name)?;
        std::fs::write(page, bars).map_err(|error| format!("{}: {error}", page.display()))?;
        let page = Path::new("README.md");
        (page, wayside_bench::put_figures(&read(page)?, &report, &name)?)
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
