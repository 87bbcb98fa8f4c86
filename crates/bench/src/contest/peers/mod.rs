//! Lock services: each a real server, started by the measurement and ended with it, and its users' client.
//!
//! * `wayside.rs`: in userspace, and at the hook where that was built in.
//! * With the feature `peers`: `redis.rs` (and RedLock over several), `etcd.rs`, `zookeeper.rs`, `postgres.rs`.

#[cfg(feature = "peers")]
mod etcd;
#[cfg(feature = "peers")]
mod postgres;
#[cfg(feature = "peers")]
pub(super) mod redis;
mod wayside;
#[cfg(feature = "peers")]
mod zookeeper;

pub(crate) use wayside::{granted, lock_server, settle};

use super::driver::{Course, Outcome};
use crate::Error;
use serde::{Deserialize, Serialize};
#[cfg(feature = "peers")]
use std::ffi::OsStr;
#[cfg(feature = "peers")]
use std::iter::once;
use std::path::Path;
#[cfg(feature = "peers")]
use std::process::Command;
use std::time::Duration;

/// What a reader has to know of a service before its figures are compared with another's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// As on the command line.
    pub name: String,
    /// Program and version.
    pub version: String,
    /// Client library, and how a lock is taken with it.
    pub client: String,
    /// How clients reach it.
    pub endpoint: String,
    /// Servers that decide together.
    pub members: u32,
    /// What outlives a crash of the server, and when it is written.
    pub durability: String,
    /// What goes together.
    pub batching: String,
    /// Whether shared requests are shared, and how a client waits.
    pub modes: String,
    /// What its servers were started with, and for how long its clients' locks outlive them; records of before
    /// 2026-11-25 have none.
    #[serde(default)]
    pub settings: String,
}

/// A command line for people. Of a path only its last part is shown: the rest is a directory of this run, which is gone
/// when this is read.
fn line_of<W: AsRef<str>>(words: impl IntoIterator<Item = W>) -> String {
    let shown = |word: W| match word.as_ref() {
        "" => String::from("\"\""),
        word => match word.split_once('/') {
            Some((before, path)) if before.is_empty() || before.ends_with('=') => {
                format!("{before}{}", path.rsplit('/').next().unwrap_or(path))
            }
            _ => word.to_owned(),
        },
    };
    words.into_iter().map(shown).collect::<Vec<_>>().join(" ")
}

/// With what it starts a server.
#[cfg(feature = "peers")]
fn command_line(command: &Command) -> String {
    line_of(once(command.get_program()).chain(command.get_args()).map(OsStr::to_string_lossy))
}

/// A service that runs.
pub(super) trait Contestant {
    fn about(&self) -> &About;

    /// Connects new clients, and runs this.
    fn run(&self, course: &Course<'_>) -> Result<Outcome, Error>;
}

/// What becomes of a service that is asked for.
pub(super) enum Entry {
    Runs(Box<dyn Contestant>),
    /// And why.
    LeftOut(String),
}

type Start = fn(&Conditions<'_>) -> Result<Entry, Error>;

/// What a service is started for.
#[cfg_attr(not(feature = "peers"), allow(dead_code, reason = "others' servers want to know"))]
pub(super) struct Conditions<'c> {
    /// The binary `wayside`.
    pub(super) wayside: &'c Path,
    #[cfg_attr(not(feature = "xdp"), allow(dead_code, reason = "hosts are made for them"))]
    pub(super) nodes: usize,
    pub(super) clients: usize,
}

/// Every service by its name, and how it is started.
const ALL: &[(&str, Start)] = &[
    ("wayside-userspace", wayside::userspace),
    ("wayside-userspace-threads", wayside::userspace_threads),
    ("wayside-userspace-queues", wayside::userspace_queues),
    ("wayside-userspace-server", wayside::userspace_server),
    ("wayside-userspace-parlock", wayside::userspace_parlock),
    ("wayside-hook", wayside::hook),
    ("wayside-hook-signed", wayside::hook_signed),
    ("wayside-hook-threads", wayside::hook_threads),
    ("wayside-hook-undriven", wayside::hook_undriven),
    ("wayside-hook-queues", wayside::hook_queues),
    ("wayside-hook-server", wayside::hook_server),
    ("wayside-hook-parlock", wayside::hook_parlock),
    #[cfg(feature = "peers")]
    ("redis", redis::single),
    #[cfg(feature = "peers")]
    ("redlock-1", redis::redlock_of_one),
    #[cfg(feature = "peers")]
    ("redlock-3", redis::redlock_of_three),
    #[cfg(feature = "peers")]
    ("etcd", etcd::durable),
    #[cfg(feature = "peers")]
    ("etcd-v3lock", etcd::lock_service),
    #[cfg(feature = "peers")]
    ("etcd-memory", etcd::in_memory),
    #[cfg(feature = "peers")]
    ("zookeeper", zookeeper::durable),
    #[cfg(feature = "peers")]
    ("zookeeper-memory", zookeeper::in_memory),
    #[cfg(feature = "peers")]
    ("postgresql", postgres::advisory),
];

/// Names of the services that this program can start.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// For how long it runs before it counts, where others do so for `usual`.
pub(super) fn warm_up(name: &str, usual: Duration) -> Duration {
    if name.ends_with("-queues") { wayside::LEARNING.max(usual) } else { usual }
}

/// Starts one, which has a name of [`names`].
pub(super) fn start(name: &str, conditions: &Conditions<'_>) -> Result<Entry, Error> {
    let (_, start) = ALL.iter().find(|(known, _)| *known == name).ok_or_else(|| format!("no service {name:?}"))?;
    start(conditions)
}

#[cfg(test)]
mod tests {
    use super::line_of;

    #[test]
    fn a_command_line_is_shown_without_the_directories_of_its_run() {
        let words = [
            "/usr/bin/etcd",
            "--data-dir",
            "/tmp/one-7/etcd",
            "--url",
            "http://127.0.0.1:1",
            "default=http://127.0.0.1:2",
            "dataDir=/tmp/one-7/data",
            "--save",
            "",
        ];
        let line = "etcd --data-dir etcd --url http://127.0.0.1:1 default=http://127.0.0.1:2 dataDir=data --save \"\"";
        assert_eq!(line_of(words), line);
    }
}
