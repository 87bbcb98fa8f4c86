//! `make demo`: a switch and four hosts, processes that move money under locks, and what happens when they are
//! killed, paused and restarted.
//!
//! * [`story`]: what happens, in order; it fails if something did not.
//! * [`teller`]: the work under locks; [`worker`]: the process around it.
//! * [`bank`]: the accounts in a shared file, which check fencing tokens.
//! * [`hosts`]: network namespaces, or loopback.

mod bank;
mod crew;
mod hosts;
mod messages;
mod process;
mod screen;
mod story;
mod switch;
mod system;
mod table;
mod tally;
mod teller;
mod worker;

use clap::{Parser, Subcommand};
use crew::Failure;
use screen::Screen;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use story::Plan;

/// Four hosts move money between accounts under locks, while processes are killed and paused and the switch restarts
#[derive(Debug, Parser)]
#[command(name = "wayside-demo", version, max_term_width = 100, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,

    #[command(flatten)]
    demo: DemoArgs,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// One of the processes that the demo starts
    #[command(hide = true)]
    Worker(worker::WorkerArgs),
}

#[derive(Debug, clap::Args)]
struct DemoArgs {
    /// About how long it takes
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(10..=600))]
    seconds: u64,

    /// Once everything in the fewest seconds, with shorter leases
    #[arg(long, conflicts_with = "seconds")]
    short: bool,

    /// Processes that move money, spread over the hosts
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(4..=64))]
    workers: u64,

    /// All hosts on loopback, even as root
    #[arg(long)]
    loopback: bool,

    /// The accounts take stale tokens: what then goes wrong fails the demo
    #[arg(long)]
    without_fencing: bool,

    /// The program `wayside` [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    wayside: Option<PathBuf>,
}

/// As a shell has it for SIGINT.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(Role::Worker(args)) = cli.role {
        return match worker::run(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("worker {}: {why}", std::process::id());
                ExitCode::FAILURE
            }
        };
    }
    system::note_interrupts();
    let mut screen = Screen::new();
    match plan(&cli.demo).and_then(|plan| story::tell(&plan, &mut screen)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Interrupted) => {
            screen.line("interrupted");
            ExitCode::from(INTERRUPTED)
        }
        Err(Failure::Failed(why)) => {
            screen.line("");
            eprintln!("FAILED: {why}");
            ExitCode::FAILURE
        }
    }
}

fn plan(args: &DemoArgs) -> Result<Plan, Failure> {
    let wayside = match &args.wayside {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("wayside"),
    };
    if !wayside.exists() {
        let path = wayside.display();
        return crew::failed(format!("no program {path}: build it with `cargo build --release -p wayside-daemon`"));
    }
    let (seconds, lease) =
        if args.short { (6, Duration::from_millis(500)) } else { (args.seconds, Duration::from_secs(1)) };
    Ok(Plan {
        seconds: Duration::from_secs(seconds),
        lease,
        workers: args.workers as usize,
        loopback: args.loopback,
        fenced: !args.without_fencing,
        wayside,
    })
}
