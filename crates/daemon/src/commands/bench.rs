//! `wayside bench`.

use super::text::say;
use crate::cli::{HoldArgs, Output, QuickArgs, RecoveryArgs};
use crate::failure::Failure;
use std::path::PathBuf;
use std::time::Duration;
use wayside_bench::{Options, RecoveryOptions};

/// Shorter, and a median would rest on a handful of rounds.
const SHORTEST: Duration = Duration::from_secs(2);

/// `wayside bench quick`: this very program is the switch that is measured.
pub fn quick(args: &QuickArgs) -> Result<(), Failure> {
    if args.time < SHORTEST {
        return Err(Failure::usage(format!(
            "--time {:?} is too short to measure anything; 2s is the least",
            args.time
        )));
    }
    let options =
        Options { wayside: own_file()?, how_long: args.time, hold_latency: !args.let_idle, allocations: None };
    let report = wayside_bench::run(&options).map_err(Failure::unavailable)?;
    match args.output {
        Output::Json => say(&report.to_json()),
        Output::Text => say(&report.to_string()),
    }
    Ok(())
}

/// `wayside bench recovery`: this very program is the switch that is killed.
pub fn recovery(args: &RecoveryArgs) -> Result<(), Failure> {
    let kind = if args.short { RecoveryOptions::short } else { RecoveryOptions::whole };
    let recovery = wayside_bench::run_recovery(&kind(own_file()?)).map_err(Failure::unavailable)?;
    match args.output {
        Output::Json => say(&recovery.to_json()),
        Output::Text => say(&recovery.to_string()),
    }
    match recovery.broken().next() {
        None => Ok(()),
        Some(why) => Err(Failure::unavailable(why)),
    }
}

/// `wayside bench hold`: until its standard input ends.
pub fn hold(args: &HoldArgs) -> Result<(), Failure> {
    wayside_bench::hold(&args.endpoint, args.count).map_err(Failure::unavailable)
}

fn own_file() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::system("can't find this program's own file", &error))
}
