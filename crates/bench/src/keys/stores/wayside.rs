//! Wayside: one switch, or three that form chains and have etcd for their records. A client that is alone blocks; many
//! are tasks.

use super::{About, Conditions, Entry, Store};
use crate::Error;
use crate::keys::driver::{Client, Load, Outcome, Place, VALUE, drive, fill};
use crate::recovery::switches::{Etcd, Switch, await_that, without_settings};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use wayside_client::{Session, Wait};

/// Longer than a busy machine keeps a session's thread from running.
const LEASE: Duration = Duration::from_secs(10);
/// For chains to have all their switches.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
pub(super) const SLOTS: u64 = 1 << 10;

pub(super) fn about(name: String, endpoint: &str, switches: usize) -> About {
    let durability = match switches {
        1 => "none: the switch's memory",
        _ => "none: the memories of three, of which two may fail; epochs and chains in etcd",
    };
    About {
        name,
        version: format!("Wayside {}", env!("CARGO_PKG_VERSION")),
        client: "wayside-client; one client blocks, many are async with a driver on Tokio".into(),
        endpoint: endpoint.into(),
        members: switches as u32,
        durability: durability.into(),
        reads: "linearizable".into(),
        batching: "by system call: those of a thread's tasks go out, and come in, together when they are ready \
                   together; a packet for each request; none of one client"
            .into(),
    }
}

/// A thread's session.
pub(super) struct Keys {
    session: Session,
    names: Vec<String>,
    is_alone: bool,
}

impl Keys {
    /// Within the runtime of its clients.
    pub(super) fn connect(endpoint: &str, keys: usize, is_alone: bool) -> Result<Keys, Error> {
        let session = Session::builder().endpoint(endpoint).namespace("default").wait(Wait::Block).lease(LEASE);
        let session = session.patience(Duration::from_secs(10)).connect().map_err(|error| error.to_string())?;
        if !is_alone {
            tokio::spawn(session.driver());
        }
        Ok(Keys { session, names: (0..keys).map(|key| format!("keys/{key}")).collect(), is_alone })
    }
}

impl Client for Keys {
    async fn read(&self, key: usize) -> Result<(), Error> {
        let (store, name) = (self.session.store(), &self.names[key]);
        let read = if self.is_alone { store.get(name) } else { store.get_async(name).await };
        match read.map_err(|error| error.to_string())? {
            Some(_) => Ok(()),
            None => Err(format!("{name} has no value")),
        }
    }

    async fn write(&self, key: usize, value: &[u8; VALUE]) -> Result<(), Error> {
        let (store, name) = (self.session.store(), &self.names[key]);
        let written = if self.is_alone { store.put(name, value) } else { store.put_async(name, value).await };
        written.map(|_| ()).map_err(|error| error.to_string())
    }
}

/// Waits until every chain has so many switches. `enter`: brings the command to its place.
pub(super) fn await_chains(
    wayside: &Path,
    endpoint: &str,
    switches: usize,
    enter: impl Fn(&mut Command),
) -> Result<(), Error> {
    await_that("all switches are in their chains", PATIENCE, || {
        std::thread::sleep(Duration::from_millis(50));
        are_whole(wayside, endpoint, switches, None, &enter)
    })
}

/// Whether every chain has so many switches, this one not among them, and serves.
pub(in crate::keys) fn are_whole(
    wayside: &Path,
    endpoint: &str,
    switches: usize,
    dead: Option<&str>,
    enter: impl Fn(&mut Command),
) -> bool {
    let mut command = Command::new(wayside);
    command.args(["chain", "status", "-o", "json", "--endpoint", endpoint]);
    enter(without_settings(&mut command));
    let told = command.output().ok().and_then(|output| serde_json::from_slice(&output.stdout).ok());
    let told: serde_json::Value = told.unwrap_or_default();
    let is_whole = |group: &serde_json::Value| {
        let is_right = |chain: &Vec<serde_json::Value>| {
            chain.len() == switches && !chain.iter().any(|switch| switch.as_str() == dead)
        };
        group["state"] == "serving" && group["chain"].as_array().is_some_and(is_right)
    };
    told["groups"].as_array().is_some_and(|groups| !groups.is_empty() && groups.iter().all(is_whole))
}

/// On loopback, without privileges.
struct InUserspace {
    about: About,
    keys: usize,
    switches: Vec<Switch>,
    _etcd: Option<Etcd>,
}

pub(super) fn in_userspace(conditions: &Conditions<'_>, count: usize) -> Result<Entry, Error> {
    if count > 1 && Etcd::version().is_none() {
        return Ok(Entry::LeftOut("etcd is not installed, in which switches of a chain have their records".into()));
    }
    let etcd = if count > 1 { Some(Etcd::start()?) } else { None };
    let mut switches = Vec::new();
    for _ in 0..count {
        switches.push(Switch::start(conditions.wayside, SLOTS, etcd.as_ref(), "error")?);
    }
    if count > 1 {
        await_chains(conditions.wayside, &endpoints(&switches), count, |_| {})?;
    }
    let about = about(format!("wayside-userspace-{count}"), "UDP on loopback, switches in userspace", count);
    Ok(Entry::Runs(Box::new(InUserspace { about, keys: conditions.keys, switches, _etcd: etcd })))
}

pub(in crate::keys) fn endpoints(switches: &[Switch]) -> String {
    switches.iter().map(|switch| switch.address.to_string()).collect::<Vec<_>>().join(",")
}

impl Store for InUserspace {
    fn about(&self) -> &About {
        &self.about
    }

    fn fill(&self, keys: usize) -> Result<(), Error> {
        fill(keys, || {}, async || Keys::connect(&endpoints(&self.switches), keys, false))
    }

    fn run(&self, load: &Load) -> Result<Outcome, Error> {
        let servers: Vec<u32> = self.switches.iter().filter_map(Switch::id).collect();
        let endpoint = endpoints(&self.switches);
        drive(load, &servers, |_| {}, async |place: Place| Keys::connect(&endpoint, self.keys, place.clients == 1))
    }
}
