//! `wayside bench`.

use super::text::say;
use crate::cli::{Output, QuickArgs};
use crate::failure::Failure;
use std::time::Duration;
use wayside_bench::Options;

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
    let wayside =
        std::env::current_exe().map_err(|error| Failure::system("can't find this program's own file", &error))?;
    let options = Options { wayside, how_long: args.time, hold_latency: !args.let_idle, allocations: None };
    let report = wayside_bench::run(&options).map_err(Failure::unavailable)?;
    match args.output {
        Output::Json => say(&report.to_json()),
        Output::Text => say(&report.to_string()),
    }
    Ok(())
}
