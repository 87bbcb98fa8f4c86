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
const PATIENCE: Duration = Duration::from_secs(30);
const SLOTS: u64 = 1 << 10;

fn about(name: String, endpoint: &str, switches: usize) -> About {
    let durability = match switches {
        1 => "none: the switch's memory",
        _ => "none: the memories of three, of which two may fail; epochs and chains in etcd",
    };
    About {
        name,
        version: format!("Wayside {}", env!("CARGO_PKG_VERSION")),
        client: "wayside-client; one client blocks, many are async".into(),
        endpoint: endpoint.into(),
        members: switches as u32,
        durability: durability.into(),
        reads: "linearizable".into(),
    }
}

/// A thread's session.
struct Keys {
    session: Session,
    names: Vec<String>,
    is_alone: bool,
}

impl Keys {
    fn connect(endpoint: &str, keys: usize, is_alone: bool) -> Result<Keys, Error> {
        let session = Session::builder().endpoint(endpoint).namespace("default").wait(Wait::Block).lease(LEASE);
        let session = session.patience(Duration::from_secs(10)).connect().map_err(|error| error.to_string())?;
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
fn await_chains(wayside: &Path, endpoint: &str, switches: usize, enter: impl Fn(&mut Command)) -> Result<(), Error> {
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

#[cfg(not(feature = "xdp"))]
pub(super) fn at_hook(_: &Conditions<'_>, _: usize) -> Result<Entry, Error> {
    Ok(Entry::LeftOut("this was built without the feature `xdp`, which needs clang and libelf".into()))
}

#[cfg(feature = "xdp")]
pub(super) use hook::at_hook;

#[cfg(feature = "xdp")]
mod hook {
    use super::{
        About, Conditions, Entry, Error, Etcd, Keys, Load, Outcome, PATIENCE, Place, Store, about, await_chains, drive,
        fill,
    };
    use crate::recovery::switches::{Directory, Process, await_that, without_settings};
    use std::io::{BufRead, BufReader};
    use std::net::TcpStream;
    use std::process::{Command, Stdio};
    use wayside_hosts::{Host, Program};

    /// Hosts on one bridge: the switches from here on, etcd, and the clients' threads.
    const FIRST_SWITCH: usize = 1;
    const ETCD: usize = 100;
    const FIRST_CLIENT: usize = 200;

    fn address(host: usize) -> String {
        format!("10.81.0.{host}")
    }

    /// Pins are named by where a switch listens: those of a chain of one and of three at once need two ports.
    fn listens(switch: usize, count: usize) -> String {
        format!("{}:{}", address(FIRST_SWITCH + switch), 7600 + 10 * count)
    }

    struct AtHook {
        about: About,
        count: usize,
        keys: usize,
        switches: Vec<Process>,
        clients: Vec<Host>,
        _etcd: Option<Process>,
        _hosts: Vec<Host>,
        _passes: Vec<Program>,
        _bridge: Host,
        _directories: Vec<Directory>,
    }

    impl Drop for AtHook {
        /// In order, so that they take their pins with them.
        fn drop(&mut self) {
            for process in &mut self.switches {
                process.signal(libc::SIGTERM);
            }
            for process in &mut self.switches {
                let has_ended = || process.child().try_wait().is_ok_and(|end| end.is_some());
                // One that does not is killed.
                let _ = await_that("the switch ends", PATIENCE, has_ended);
            }
        }
    }

    /// Joins a host to the bridge.
    fn plug(bridge: &Host, number: usize) -> std::io::Result<Host> {
        let host = Host::new()?;
        host.join("eth0", bridge, &format!("port{number}"), 1)?;
        bridge.ip(&format!("link set port{number} master bridge0"))?;
        host.ip(&format!("addr add {}/24 dev eth0", address(number)))?;
        Ok(host)
    }

    pub(in super::super) fn at_hook(conditions: &Conditions<'_>, count: usize) -> Result<Entry, Error> {
        if let Some(why) = wayside_hosts::missing() {
            return Ok(Entry::LeftOut(why));
        }
        if count > 1 && Etcd::version().is_none() {
            return Ok(Entry::LeftOut("etcd is not installed, in which switches of a chain have their records".into()));
        }
        let no_hosts = |error: std::io::Error| format!("no hosts: {error}");
        let bridge = Host::new().map_err(no_hosts)?;
        if let Err(error) = bridge.ip("link add bridge0 type bridge\nlink set bridge0 up") {
            return Ok(Entry::LeftOut(format!("no bridge: {error}")));
        }
        let plugged = |from: usize, many: usize| {
            (from..from + many).map(|number| plug(&bridge, number)).collect::<Result<Vec<_>, _>>().map_err(no_hosts)
        };
        let mut hosts = plugged(FIRST_SWITCH, count)?;
        let clients = plugged(FIRST_CLIENT, conditions.threads)?;
        // What a native program sends back arrives only where there is another one: at the bridge's end.
        let passes = (FIRST_SWITCH..FIRST_SWITCH + count).map(|number| bridge.pass(&format!("port{number}")));
        let passes = match passes.collect::<Result<Vec<_>, _>>() {
            Ok(passes) => passes,
            Err(error) => return Ok(Entry::LeftOut(format!("no XDP on veth: {error}"))),
        };
        let mut directories = Vec::new();
        let etcd = if count > 1 {
            let host = plug(&bridge, ETCD).map_err(no_hosts)?;
            let directory = Directory::new()?;
            let etcd = start_etcd(&host, &directory)?;
            hosts.push(host);
            directories.push(directory);
            Some(etcd)
        } else {
            None
        };
        let mut switches = Vec::new();
        for (switch, host) in hosts.iter().take(count).enumerate() {
            let directory = Directory::new()?;
            switches.push(start_switch(conditions, host, &directory, &listens(switch, count), etcd.is_some())?);
            directories.push(directory);
        }
        if count > 1 {
            // Asked on a switch's own host: others would have to be enrolled.
            await_chains(conditions.wayside, &listens(0, count), count, |command| hosts[0].enter(command))?;
        }
        let endpoint = "UDP over veth and a bridge between namespaces, switches at the XDP hook (native)";
        let about = about(format!("wayside-hook-{count}"), endpoint, count);
        Ok(Entry::Runs(Box::new(AtHook {
            about,
            count,
            keys: conditions.keys,
            switches,
            clients,
            _etcd: etcd,
            _hosts: hosts,
            _passes: passes,
            _bridge: bridge,
            _directories: directories,
        })))
    }

    fn start_etcd(host: &Host, directory: &Directory) -> Result<Process, Error> {
        let (url, peers) = (format!("http://{}:2379", address(ETCD)), format!("http://{}:2380", address(ETCD)));
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(directory.path().join("etcd")).args(["--log-level", "fatal", "--logger", "zap"]);
        command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.arg("--initial-cluster").arg(format!("default={peers}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        host.enter(&mut command);
        let process = Process::start(command)?;
        let answers = || host.within(|| TcpStream::connect((address(ETCD), 2379)).is_ok());
        await_that("etcd answers", PATIENCE, answers)?;
        Ok(process)
    }

    fn start_switch(
        conditions: &Conditions<'_>,
        host: &Host,
        directory: &Directory,
        listens: &str,
        is_of_chain: bool,
    ) -> Result<Process, Error> {
        let at = |name: &str| directory.path().join(name);
        let mut command = Command::new(conditions.wayside);
        command.args(["--log", "error", "switch", "--mode", "native", "--authentication", "off"]);
        command.args(["--listen", listens, "--interfaces", "eth0", "--admin-listen", "127.0.0.1:0"]);
        command.arg("--state-dir").arg(at("state")).arg("--control-socket").arg(at("control.sock"));
        if is_of_chain {
            command.args(["--etcd", &format!("http://{}:2379", address(ETCD))]);
        }
        without_settings(&mut command).stdin(Stdio::null()).stdout(Stdio::piped());
        host.enter(&mut command);
        let mut process = Process::start(command)?;
        let said = process.child().stdout.take().and_then(|out| BufReader::new(out).lines().next());
        let said = said.and_then(Result::ok).unwrap_or_default();
        if said.contains(listens) {
            Ok(process)
        } else {
            Err(format!("the switch did not say where it is, but {said:?}"))
        }
    }

    fn endpoints(count: usize) -> String {
        (0..count).map(|switch| listens(switch, count)).collect::<Vec<_>>().join(",")
    }

    impl Store for AtHook {
        fn about(&self) -> &About {
            &self.about
        }

        fn fill(&self, keys: usize) -> Result<(), Error> {
            let enter = || self.clients[0].move_here().expect("whoever made a host may enter it");
            fill(keys, enter, async || Keys::connect(&endpoints(self.count), keys, false))
        }

        fn run(&self, load: &Load) -> Result<Outcome, Error> {
            let servers: Vec<u32> = self.switches.iter().map(Process::id).collect();
            let enter = |place: Place| {
                self.clients[place.thread].move_here().expect("whoever made a host may enter it");
            };
            let endpoint = endpoints(self.count);
            drive(load, &servers, enter, async |place| Keys::connect(&endpoint, self.keys, place.clients == 1))
        }
    }
}
