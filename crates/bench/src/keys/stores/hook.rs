//! Wayside's switches at the hook: hosts on a bridge of their own, in network namespaces.

use super::wayside::{Keys, PATIENCE, SLOTS, about, await_chains};
use super::{About, Conditions, Entry, Store};
use crate::Error;
use crate::keys::driver::{Load, Outcome, Place, drive, fill};
use crate::recovery::switches::{Directory, Etcd, Process, await_that, without_settings};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Stdio};
use wayside_hosts::{Bridge, Host, Program};

/// Hosts of a bridge: the switches from here on, relays, etcd, and the clients' threads.
const FIRST_SWITCH: u8 = 1;
const FIRST_RELAY: u8 = 51;
const ETCD: u8 = 100;
const FIRST_CLIENT: u8 = 200;

/// Sends packets from host to host and back: a way through several switches that decide nothing.
const RELAY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/relay.bpf.o"));

fn plug_some(bridge: &Bridge, first: u8, count: usize) -> Result<Vec<Host>, Error> {
    let numbers = (first..).take(count);
    numbers.map(|number| bridge.plug(number)).collect::<Result<_, _>>().map_err(|error| format!("no hosts: {error}"))
}

/// Switches that run, and hosts for their clients.
pub(in crate::keys) struct AtHook {
    about: About,
    keys: usize,
    /// Where all of its switches listen: pins are named by that, so no two that run at once may have the same.
    port: u16,
    switches: Vec<Process>,
    /// For a thread each.
    pub(in crate::keys) clients: Vec<Host>,
    _etcd: Option<Process>,
    _hosts: Vec<Host>,
    _passes: Vec<Program>,
    bridge: Bridge,
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

/// A bare way through as many switches, for as long as this is kept.
pub(in crate::keys) struct Relays {
    _hosts: Vec<Host>,
    _programs: Vec<Program>,
}

/// Switches in a chain of so many, that listen at this port, with room for so many keys.
pub(in crate::keys) struct Chain {
    pub(in crate::keys) switches: usize,
    pub(in crate::keys) port: u16,
    pub(in crate::keys) keys: usize,
}

pub(super) fn at_hook(conditions: &Conditions<'_>, switches: usize) -> Result<Entry, Error> {
    let chain = Chain { switches, port: 7600 + 10 * switches as u16, keys: conditions.keys };
    Ok(match AtHook::start(conditions, &chain)? {
        Ok(store) => Entry::Runs(Box::new(store)),
        Err(why) => Entry::LeftOut(why),
    })
}

impl AtHook {
    /// Starts them. `Ok(Err)`: this machine has no such thing, and why.
    pub(in crate::keys) fn start(conditions: &Conditions<'_>, chain: &Chain) -> Result<Result<AtHook, String>, Error> {
        let count = chain.switches;
        if let Some(why) = wayside_hosts::missing() {
            return Ok(Err(why));
        }
        if count > 1 && Etcd::version().is_none() {
            return Ok(Err("etcd is not installed, in which switches of a chain have their records".into()));
        }
        let bridge = match Bridge::new() {
            Ok(bridge) => bridge,
            Err(error) => return Ok(Err(format!("no bridge: {error}"))),
        };
        let mut hosts = plug_some(&bridge, FIRST_SWITCH, count)?;
        let clients = plug_some(&bridge, FIRST_CLIENT, conditions.threads)?;
        let passes = (FIRST_SWITCH..).take(count).map(|number| bridge.pass(number));
        let passes = match passes.collect::<Result<Vec<_>, _>>() {
            Ok(passes) => passes,
            Err(error) => return Ok(Err(format!("no XDP on veth: {error}"))),
        };
        let mut directories = Vec::new();
        let etcd = if count > 1 {
            let host = bridge.plug(ETCD).map_err(|error| format!("no host: {error}"))?;
            let directory = Directory::new()?;
            let etcd = start_etcd(&host, &directory)?;
            hosts.push(host);
            directories.push(directory);
            Some(etcd)
        } else {
            None
        };
        let endpoint = "UDP over veth and a bridge between namespaces, switches at the XDP hook (native)";
        let mut store = AtHook {
            about: about(format!("wayside-hook-{count}"), endpoint, count),
            keys: chain.keys,
            port: chain.port,
            switches: Vec::new(),
            clients,
            _etcd: etcd,
            _hosts: hosts,
            _passes: passes,
            bridge,
            _directories: directories,
        };
        store.start_switches(conditions, chain)?;
        Ok(Ok(store))
    }

    fn start_switches(&mut self, conditions: &Conditions<'_>, chain: &Chain) -> Result<(), Error> {
        for (number, host) in (FIRST_SWITCH..).zip(&self._hosts).take(chain.switches) {
            let directory = Directory::new()?;
            let listens = format!("{}:{}", Bridge::address(number), chain.port);
            self.switches.push(start_switch(conditions, host, &directory, &listens, chain)?);
            self._directories.push(directory);
        }
        if chain.switches == 1 {
            return Ok(());
        }
        // Asked on a switch's own host: others would have to be enrolled.
        let host = &self._hosts[0];
        await_chains(conditions.wayside, &self.endpoints(), chain.switches, |command| host.enter(command))
    }

    pub(in crate::keys) fn endpoints(&self) -> String {
        let endpoint = |number| format!("{}:{}", Bridge::address(number), self.port);
        (FIRST_SWITCH..).take(self.switches.len()).map(endpoint).collect::<Vec<_>>().join(",")
    }

    /// A bare way through `count` hosts on the same bridge, for clients' first host; and where it begins. `which` tells
    /// it from others.
    pub(in crate::keys) fn relays(&self, which: u8, count: usize) -> Result<(Relays, Ipv4Addr), Error> {
        let first = FIRST_RELAY + 10 * which;
        let no_way = |error: std::io::Error| format!("no relays: {error}");
        let hosts = plug_some(&self.bridge, first, count)?;
        let mut programs = Vec::new();
        for (index, (number, host)) in (first..).zip(&hosts).enumerate() {
            let (next, relay) = match index + 1 == count {
                true => (FIRST_CLIENT, [0; 4]),
                false => (number + 1, Bridge::address(number + 1).octets()),
            };
            // As `struct way` in relay.bpf.c has it.
            let way = [&Bridge::mac(number)[..], &Bridge::mac(next), &relay, &Bridge::address(first).octets()].concat();
            programs.push(self.bridge.pass(number).map_err(no_way)?);
            programs.push(host.attach_with(RELAY, &way, "eth0").map_err(no_way)?);
        }
        Ok((Relays { _hosts: hosts, _programs: programs }, Bridge::address(first)))
    }
}

fn start_etcd(host: &Host, directory: &Directory) -> Result<Process, Error> {
    let (url, peers) =
        (format!("http://{}:2379", Bridge::address(ETCD)), format!("http://{}:2380", Bridge::address(ETCD)));
    let mut command = Command::new("etcd");
    command.arg("--data-dir").arg(directory.path().join("etcd")).args(["--log-level", "fatal", "--logger", "zap"]);
    command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
    command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
    command.arg("--initial-cluster").arg(format!("default={peers}"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    host.enter(&mut command);
    let process = Process::start(command)?;
    let answers = || host.within(|| TcpStream::connect((Bridge::address(ETCD), 2379)).is_ok());
    await_that("etcd answers", PATIENCE, answers)?;
    Ok(process)
}

fn start_switch(
    conditions: &Conditions<'_>,
    host: &Host,
    directory: &Directory,
    listens: &str,
    chain: &Chain,
) -> Result<Process, Error> {
    let at = |name: &str| directory.path().join(name);
    let room = format!("[[namespace]]\nname = \"default\"\nslots = {SLOTS}\nkeys = {}\n", room_for(chain.keys));
    fs::write(at("switch.toml"), room).map_err(|error| format!("no settings for the switch: {error}"))?;
    let mut command = Command::new(conditions.wayside);
    without_settings(&mut command);
    command.args(["--log", "error", "switch", "--mode", "native", "--authentication", "off", "--config"]);
    command.arg(at("switch.toml"));
    command.args(["--listen", listens, "--interfaces", "eth0", "--admin-listen", "127.0.0.1:0"]);
    command.arg("--state-dir").arg(at("state")).arg("--control-socket").arg(at("control.sock"));
    if chain.switches > 1 {
        command.args(["--etcd", &format!("http://{}:2379", Bridge::address(ETCD))]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    host.enter(&mut command);
    let mut process = Process::start(command)?;
    let said = process.child().stdout.take().and_then(|out| BufReader::new(out).lines().next());
    let said = said.and_then(Result::ok).unwrap_or_default();
    if said.contains(listens) { Ok(process) } else { Err(format!("the switch did not say where it is, but {said:?}")) }
}

/// A tenth more than there will be: no group has exactly its share.
fn room_for(keys: usize) -> usize {
    (keys + keys / 10).max(16_384)
}

impl Store for AtHook {
    fn about(&self) -> &About {
        &self.about
    }

    fn fill(&self, keys: usize) -> Result<(), Error> {
        let enter = || self.clients[0].move_here().expect("whoever made a host may enter it");
        fill(keys, enter, async || Keys::connect(&self.endpoints(), keys, false))
    }

    fn run(&self, load: &Load) -> Result<Outcome, Error> {
        let servers: Vec<u32> = self.switches.iter().map(Process::id).collect();
        let enter = |place: Place| {
            self.clients[place.thread].move_here().expect("whoever made a host may enter it");
        };
        let endpoint = self.endpoints();
        drive(load, &servers, enter, async |place| Keys::connect(&endpoint, self.keys, place.clients == 1))
    }
}
