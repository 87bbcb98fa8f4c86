//! `wayside`: the switch daemon and the commands around it.
//!
//! * [`server`]: the userspace switch, its controller, the control connection.
//! * [`commands`]: one module for each; [`cli`] says what may be written.
//! * [`config`]: what the daemon runs with; [`admission`]: who may enrol; [`answers`]: what it answers;
//!   [`deadlocks`]: what they are; [`failure`]: how commands end.
//! * `card`, with XDP: what network cards can do with XDP; [`kernel`]: which Linux this is.

mod admission;
mod answers;
#[cfg(feature = "xdp")]
mod card;
mod cli;
mod commands;
mod config;
mod deadlocks;
mod failure;
mod kernel;
mod server;

use clap::Parser;
use cli::{Bench, Cli, Command, LogFormat};
use failure::{Failure, exit};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody may be reading.
            let _ = error.print();
            // Help and version are asked for: no failure.
            return ExitCode::from(if error.use_stderr() { exit::USAGE } else { 0 });
        }
    };
    log_to_stderr(&cli);
    match run(cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            // Whoever closed stderr does not want to know.
            let _ = writeln!(std::io::stderr(), "{failure}");
            ExitCode::from(failure.code)
        }
    }
}

fn run(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Dev(settings) => commands::switch::dev(*settings).map(|()| 0),
        Command::Switch(args) => commands::switch::switch(*args).map(|()| 0),
        Command::Lock(args) => commands::lock::lock(&args),
        Command::Locks(args) => commands::show::locks(&args).map(|()| 0),
        Command::Plan(args) => commands::plan::plan(&args).map(|()| 0),
        Command::Deadlocks(args) => commands::show::deadlocks(&args).map(|()| 0),
        Command::Status(args) => commands::show::status(&args).map(|()| 0),
        Command::Reload(args) => commands::switch::reload(&args).map(|()| 0),
        Command::Doctor(args) => commands::doctor::doctor(&args).map(|()| 0),
        Command::Shard(command) => commands::shard::shard(&command).map(|()| 0),
        Command::Chain(command) => commands::chain::chain(&command).map(|()| 0),
        Command::Kv(command) => commands::kv::kv(&command),
        Command::Semaphore(args) => commands::recipes::semaphore(&args),
        Command::Election(command) => commands::recipes::election(&command),
        Command::Group(command) => commands::recipes::group(&command),
        Command::Barrier(args) => commands::recipes::barrier(&args).map(|()| 0),
        Command::Node(node) => commands::node::node(&node).map(|()| 0),
        Command::Bench(Bench::Quick(args)) => commands::bench::quick(&args).map(|()| 0),
        Command::Bench(Bench::Recovery(args)) => commands::bench::recovery(&args).map(|()| 0),
        Command::Bench(Bench::Keys(args)) => commands::bench::keys(&args).map(|()| 0),
        Command::Bench(Bench::Report(args)) => commands::bench::report(&args).map(|()| 0),
        Command::Bench(Bench::Compare(args)) => commands::bench::compare(&args).map(|()| 0),
        Command::Bench(Bench::Hold(args)) => commands::bench::hold(&args).map(|()| 0),
        Command::Sim(args) => commands::sim::sim(&args),
    }
}

fn log_to_stderr(cli: &Cli) {
    let log = tracing_subscriber::fmt()
        .with_max_level(cli.log)
        .with_writer(std::io::stderr)
        .with_target(false)
        // A closed stderr is no reason to panic.
        .log_internal_errors(false);
    match cli.log_format {
        LogFormat::Text => log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init(),
        LogFormat::Json => log.json().init(),
    }
}
