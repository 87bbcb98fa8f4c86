//! Stores: each as real servers, started by the measurement and ended with it, and its users' client.
//!
//! * `wayside.rs`: one switch, and chains of three, in userspace; `hook.rs`: at the hook, where that was built in.
//! * With the feature `peers`: `etcd.rs`, `zookeeper.rs`, of three members each.

#[cfg(feature = "peers")]
mod etcd;
#[cfg_attr(not(feature = "xdp"), path = "no_hook.rs")]
pub(super) mod hook;
pub(super) mod wayside;
#[cfg(feature = "peers")]
mod zookeeper;

use super::driver::{Load, Outcome};
use crate::Error;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What a reader has to know of a store before its figures are compared with another's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct About {
    /// As on the command line.
    pub(super) name: String,
    pub(super) version: String,
    pub(super) client: String,
    pub(super) endpoint: String,
    /// Servers that keep each value.
    pub(super) members: u32,
    /// What outlives crashes.
    pub(super) durability: String,
    /// What a read may tell.
    pub(super) reads: String,
    /// What goes together; empty in records of before 2026-11-24.
    #[serde(default)]
    pub(super) batching: String,
}

/// A store that runs.
pub(super) trait Store {
    fn about(&self) -> &About;

    /// Gives so many keys a value.
    fn fill(&self, keys: usize) -> Result<(), Error>;

    /// Connects new clients, and runs this.
    fn run(&self, load: &Load) -> Result<Outcome, Error>;
}

/// What becomes of a store that is asked for.
pub(super) enum Entry {
    Runs(Box<dyn Store>),
    /// And why.
    LeftOut(String),
}

/// What a store is started for.
pub(super) struct Conditions<'c> {
    /// The binary `wayside`.
    pub(super) wayside: &'c Path,
    pub(super) keys: usize,
    /// Of clients.
    #[cfg_attr(not(feature = "xdp"), allow(dead_code, reason = "hosts are made for them"))]
    pub(super) threads: usize,
}

type Start = fn(&Conditions<'_>) -> Result<Entry, Error>;

/// Every store by its name, and how it is started.
const ALL: &[(&str, Start)] = &[
    ("wayside-userspace-1", |conditions| wayside::in_userspace(conditions, 1)),
    ("wayside-userspace-3", |conditions| wayside::in_userspace(conditions, 3)),
    ("wayside-hook-1", |conditions| hook::at_hook(conditions, 1)),
    ("wayside-hook-3", |conditions| hook::at_hook(conditions, 3)),
    #[cfg(feature = "peers")]
    ("etcd-3", |_| etcd::start(true)),
    #[cfg(feature = "peers")]
    ("etcd-3-memory", |_| etcd::start(false)),
    #[cfg(feature = "peers")]
    ("zookeeper-3", |_| zookeeper::start(true)),
    #[cfg(feature = "peers")]
    ("zookeeper-3-memory", |_| zookeeper::start(false)),
];

/// Names of the stores that this program can start.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// Starts one, which has a name of [`names`].
pub(super) fn start(name: &str, conditions: &Conditions<'_>) -> Result<Entry, Error> {
    let (_, start) = ALL.iter().find(|(known, _)| *known == name).ok_or_else(|| format!("no store {name:?}"))?;
    start(conditions)
}
