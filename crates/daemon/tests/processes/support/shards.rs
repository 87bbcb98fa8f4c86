//! Switches of several shards, and what an operator tells them.

use super::{Daemon, Ended, Running, end, eventually, free_address, wayside};
use std::path::Path;
use std::process::Command;
use wayside_client::{Name, Shards};

/// A switch of one shard.
pub fn daemon_of(shard: &str, shards: &str, more: &[&str]) -> Daemon {
    Daemon::start(&flags_of(shard, shards, more))
}

/// The same, whose packets are signed, and which this host has joined: what it is to show lies in `credentials`.
pub fn joined_daemon_of(shard: &str, shards: &str, more: &[&str], credentials: &Path) -> Daemon {
    let enrol = free_address();
    let signed = [&["--authentication", "on", "--enrol-listen", &enrol], more].concat();
    let daemon = daemon_of(shard, shards, &signed);
    let node = |arguments: &[&str]| {
        let mut command = wayside(&[&["node"], arguments].concat());
        command.env("WAYSIDE_STATE_DIR", daemon.directory.path().join("state"));
        command.env("WAYSIDE_CREDENTIALS", credentials);
        let ended = end(command);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout.trim().to_owned()
    };
    node(&["join", &node(&["token", "--lifetime", "1h"])]);
    daemon
}

/// What it is started with.
pub fn flags_of<'f>(shard: &'f str, shards: &'f str, more: &[&'f str]) -> Vec<&'f str> {
    [&["--shard", shard, "--shards", shards, "--lease", "2s"], more].concat()
}

/// `wayside shard` with these arguments.
pub fn command(arguments: &[&str], endpoints: &str) -> Command {
    let mut command = wayside(&[&["shard"], arguments].concat());
    command.env("WAYSIDE_ENDPOINTS", endpoints);
    command
}

/// The same, to its end.
pub fn shard(arguments: &[&str], endpoints: &str) -> Ended {
    end(command(arguments, endpoints))
}

/// Begins a change that waits, because a lock of a name that moves is held, and comes back when it does.
pub fn waiting(arguments: &[&str], endpoints: &str, moved: &[&str]) -> Running {
    let running = Running::start(command(&[arguments, &["--within", "60s"]].concat(), endpoints));
    eventually("the change waits", || moved.iter().all(|name| step_of(name, endpoints) == "moved"));
    running
}

/// How far a shard has come.
pub fn step_of(name: &str, endpoints: &str) -> String {
    let status = shard(&["status", "-o", "json"], endpoints);
    let lines = status.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let mut steps = lines.filter(|line| line["shard"] == name);
    steps.next().map_or_else(String::new, |line| line["step"].as_str().expect("a step").to_owned())
}

/// Which of the shards has the lock.
pub fn owner(name: &str, shards: &[&str]) -> String {
    let shards = Shards::new(shards.iter().map(|name| (*name).to_owned())).unwrap();
    shards.names()[shards.owner(Name::from(name).id().unwrap())].clone()
}

/// A name whose lock goes from one of the shards to another, or stays at one.
pub fn name_that_goes(from: (&str, &[&str]), to: (&str, &[&str])) -> String {
    let is_it = |name: &String| owner(name, from.1) == from.0 && owner(name, to.1) == to.0;
    (0..).map(|index| format!("job-{index}")).find(is_it).expect("one of so many")
}
