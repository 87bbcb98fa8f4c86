//! The simulator by itself: `wayside sim`, for builds that the daemon is not made for.

use std::process::ExitCode;

use clap::Parser;
use wayside_sim::command::{Sim, sim};

/// Simulates Wayside's own core and protocol under faults: one seed is one run
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    sim: Sim,
}

fn main() -> ExitCode {
    match sim(&Arguments::parse().sim) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(64)
        }
    }
}
