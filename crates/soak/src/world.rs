//! The hosts of a run and what runs on them: switches, one etcd, three hosts of workers, and the hub between them. Each
//! has a port of the hub: the switches first, then etcd, then the workers.

use crate::hub::Hub;
use crate::worker::WorkerArgs;
use crate::{Engine, Service};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use wayside_hosts::Host;

/// Hosts of workers.
pub const CLIENTS: usize = 3;
/// Of each such host.
pub const WORKERS: usize = 2;
/// Locks that every other worker keeps, though it does not hold them.
const KEPT: usize = 8;
/// Lock servers, each on another such host, where locks are queues.
const SERVERS: usize = 2;

const PATIENCE: Duration = Duration::from_secs(30);

pub struct Options {
    pub wayside: PathBuf,
    pub service: Service,
    pub engine: Engine,
    pub seed: u64,
    pub names: u64,
    pub threads: u64,
    pub lease: Duration,
    /// At the XDP hook.
    pub hook: bool,
}

/// A process that is ended with its owner.
pub struct Process {
    child: Child,
}

impl Process {
    fn start(host: &Host, mut command: Command, log: &Path) -> io::Result<Process> {
        let log = fs::OpenOptions::new().create(true).append(true).open(log)?;
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        host.enter(&mut command);
        Ok(Process { child: command.spawn()? })
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a signal to our own child, which has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Ends by itself once its standard input has; how, or None if it does not within a minute.
    pub fn finish(&mut self) -> io::Result<Option<i32>> {
        drop(self.child.stdin.take());
        let begun = Instant::now();
        while begun.elapsed() < 2 * PATIENCE {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.code());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(None)
    }

    /// Whether it goes on; a worker that ended by itself has found something.
    pub fn ended(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// SIGTERM, and its end; SIGKILL if that takes too long.
    pub fn end(mut self) -> io::Result<()> {
        self.signal(libc::SIGTERM);
        let begun = Instant::now();
        while self.child.try_wait()?.is_none() && begun.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(libc::SIGCONT);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub struct World {
    pub switches: Vec<Option<Process>>,
    pub store: Option<Process>,
    pub workers: Vec<Option<Process>>,
    /// Where locks are queues.
    pub servers: Vec<Option<Process>>,
    /// Workers that were started so far.
    pub started: u64,
    pub hub: Hub,
    hosts: Vec<Host>,
    _hub_host: Host,
    pub directory: TempDir,
    options: Options,
    #[cfg(feature = "xdp")]
    _passes: Vec<wayside_hosts::Program>,
}

/// The switches' file.
const CONFIGURATION: &str = "wayside.toml";

/// What it says. Queues are short, so that they overflow.
fn configuration(options: &Options) -> String {
    let engine = match options.engine {
        _ if options.service == Service::Keys => String::new(),
        Engine::Fission => String::new(),
        Engine::Queue => {
            format!(
                "engine = 'queue'\nplan = 'knapsack'\ncells = 3\nroom = {}\nservers = {SERVERS}\n",
                2 * options.names
            )
        }
        Engine::Hybrid => {
            let queues: Vec<String> = (1..=options.names.div_ceil(2)).map(|name| format!("'{name}'")).collect();
            format!("engine = 'hybrid'\nqueues = [{}]\ncells = 3\nservers = {SERVERS}\n", queues.join(", "))
        }
    };
    format!("[[namespace]]\nname = 'default'\n{engine}")
}

/// Of a port of the hub.
fn address(port: usize) -> String {
    format!("10.79.0.{}", port + 1)
}

impl World {
    pub fn make(options: Options) -> io::Result<World> {
        let directory = tempfile::Builder::new().prefix("wayside-soak-").tempdir()?;
        let switches = options.service.switches();
        let ports = switches + 1 + CLIENTS;
        let hub_host = Host::new()?;
        let mut hosts = Vec::new();
        for port in 0..ports {
            let host = Host::new()?;
            host.join("eth0", &hub_host, &format!("port{port}"), 1)?;
            host.ip(&format!("addr add {}/24 dev eth0", address(port)))?;
            // The hub takes frames before a card would have summed and cut them.
            for (host, interface) in [(&host, "eth0".to_owned()), (&hub_host, format!("port{port}"))] {
                let mut command = Command::new("ethtool");
                command.args(["-K", &interface, "tx", "off", "tso", "off", "gso", "off", "gro", "off"]);
                host.enter(&mut command);
                if !command.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success() {
                    return Err(io::Error::other("ethtool can't turn checksums over to this host"));
                }
            }
            hosts.push(host);
        }
        #[cfg(feature = "xdp")]
        let _passes = if options.hook {
            (0..switches).map(|port| hub_host.pass(&format!("port{port}"))).collect::<io::Result<_>>()?
        } else {
            Vec::new()
        };
        let interfaces: Vec<String> = (0..ports).map(|port| format!("port{port}")).collect();
        let hub = Hub::start(&hub_host, &interfaces, options.seed)?;
        fs::create_dir(directory.path().join("histories"))?;
        fs::write(directory.path().join(CONFIGURATION), configuration(&options))?;
        let servers = if options.service == Service::Keys || options.engine == Engine::Fission { 0 } else { SERVERS };
        let mut world = World {
            switches: (0..switches).map(|_| None).collect(),
            store: None,
            workers: (0..CLIENTS * WORKERS).map(|_| None).collect(),
            servers: (0..servers).map(|_| None).collect(),
            started: 0,
            hub,
            hosts,
            _hub_host: hub_host,
            directory,
            options,
            #[cfg(feature = "xdp")]
            _passes,
        };
        world.start_store()?;
        for switch in 0..switches {
            world.start_switch(switch)?;
        }
        world.join_all()?;
        for server in 0..servers {
            world.start_server(server)?;
        }
        for worker in 0..world.workers.len() {
            world.start_worker(worker)?;
        }
        Ok(world)
    }

    pub fn service(&self) -> Service {
        self.options.service
    }

    /// Port of etcd's host.
    fn store_port(&self) -> usize {
        self.switches.len()
    }

    /// Ports of the hub.
    pub fn ports(&self) -> usize {
        self.hosts.len()
    }

    pub fn histories(&self) -> PathBuf {
        self.directory.path().join("histories")
    }

    fn log(&self, of: &str) -> PathBuf {
        self.directory.path().join(format!("{of}.log"))
    }

    pub fn start_store(&mut self) -> io::Result<()> {
        let host = address(self.store_port());
        let (client, peer) = (format!("http://{host}:2379"), format!("http://{host}:2380"));
        let data = self.directory.path().join("etcd");
        fs::create_dir_all(&data)?;
        fs::set_permissions(&data, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(data).args(["--log-level", "error", "--logger", "zap"]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.arg("--initial-cluster").arg(format!("default={peer}"));
        self.store = Some(Process::start(&self.hosts[self.store_port()], command, &self.log("etcd"))?);
        Ok(())
    }

    fn wayside(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.options.wayside);
        for (variable, _) in std::env::vars_os() {
            if variable.as_encoded_bytes().starts_with(b"WAYSIDE_") {
                command.env_remove(variable);
            }
        }
        command.args(arguments);
        command
    }

    fn state_of(&self, switch: usize) -> PathBuf {
        self.directory.path().join(format!("switch{switch}"))
    }

    pub fn start_switch(&mut self, switch: usize) -> io::Result<()> {
        let etcd = format!("http://{}:2379", address(self.store_port()));
        let lease = format!("{}ms", self.options.lease.as_millis());
        let listen = format!("{}:7600", address(switch));
        let mode = if self.options.hook { "native" } else { "userspace" };
        let mut command = self.wayside(&["switch", "--listen", &listen, "--etcd", &etcd, "--mode", mode]);
        command.arg("--config").arg(self.directory.path().join(CONFIGURATION));
        command.args(["--lease", &lease, "--log", "info", "--threads", "1", "--wait", "block"]);
        command.arg("--state-dir").arg(self.state_of(switch));
        command.arg("--control-socket").arg(self.state_of(switch).with_extension("sock"));
        command.arg("--bpf-dir").arg(self.pins());
        let process = Process::start(&self.hosts[switch], command, &self.log(&format!("switch{switch}")))?;
        self.switches[switch] = Some(process);
        Ok(())
    }

    fn pins(&self) -> PathBuf {
        PathBuf::from(format!("/sys/fs/bpf/wayside-soak-{}", std::process::id()))
    }

    /// What a dead daemon has left at the hook goes, with all the switch's memory.
    pub fn wipe(&self, switch: usize) -> io::Result<()> {
        let listen = format!("{}:7600", address(switch));
        let mut command = self.wayside(&["switch", "--detach", "--listen", &listen]);
        command.arg("--bpf-dir").arg(self.pins()).stdout(Stdio::null()).stderr(Stdio::null());
        self.hosts[switch].enter(&mut command);
        // Built without XDP there is nothing to wipe.
        command.status().map(|_| ())
    }

    /// Every host of workers joins, at whichever switch lets it.
    fn join_all(&mut self) -> io::Result<()> {
        for client in 0..CLIENTS {
            let begun = Instant::now();
            loop {
                let mut command = self.wayside(&["node", "token"]);
                command.env("WAYSIDE_STATE_DIR", self.state_of(0));
                let token = String::from_utf8_lossy(&command.output()?.stdout).trim().to_owned();
                let mut command = self.wayside(&["node", "join", &token]);
                command
                    .env("WAYSIDE_CREDENTIALS", self.credentials(client))
                    .stdout(Stdio::null())
                    .stderr(Stdio::null());
                self.hosts[self.store_port() + 1 + client].enter(&mut command);
                if !token.is_empty() && command.status()?.success() {
                    break;
                }
                if begun.elapsed() > PATIENCE {
                    return Err(io::Error::other("no switch lets a host join"));
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        // The other switch knows them half a second later.
        std::thread::sleep(Duration::from_secs(1));
        Ok(())
    }

    fn credentials(&self, client: usize) -> PathBuf {
        self.directory.path().join(format!("credentials{client}"))
    }

    /// A lock server, on the host of the workers with its number.
    pub fn start_server(&mut self, server: usize) -> io::Result<()> {
        let mut command = self.wayside(&["node", "serve-locks"]);
        command.env("WAYSIDE_ENDPOINTS", self.endpoints()).env("WAYSIDE_CREDENTIALS", self.credentials(server));
        let host = &self.hosts[self.store_port() + 1 + server];
        self.servers[server] = Some(Process::start(host, command, &self.log(&format!("server{server}")))?);
        Ok(())
    }

    /// Of all switches.
    fn endpoints(&self) -> String {
        let all: Vec<String> = (0..self.switches.len()).map(|switch| format!("{}:7600", address(switch))).collect();
        all.join(",")
    }

    pub fn start_worker(&mut self, worker: usize) -> io::Result<()> {
        let client = worker / WORKERS;
        self.started += 1;
        let args = WorkerArgs {
            histories: self.histories(),
            name: format!("{worker}.{}", self.started),
            service: self.options.service,
            seed: self.options.seed << 20 | self.started,
            names: self.options.names,
            favourite: self.options.names + 1 + worker as u64,
            keep: if worker.is_multiple_of(2) { KEPT } else { 0 },
            threads: self.options.threads,
            lease_ms: self.options.lease.as_millis() as u64,
        };
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["worker", "--name", &args.name, "--histories"]).arg(&args.histories);
        for (flag, number) in [
            ("--seed", args.seed),
            ("--names", args.names),
            ("--favourite", args.favourite),
            ("--keep", args.keep as u64),
            ("--threads", args.threads),
            ("--lease-ms", args.lease_ms),
        ] {
            command.arg(flag).arg(number.to_string());
        }
        command.args(["--service", self.options.service.name()]);
        command.env("WAYSIDE_ENDPOINTS", self.endpoints());
        command.env("WAYSIDE_CREDENTIALS", self.credentials(client));
        let log = self.log(&format!("worker{worker}"));
        self.workers[worker] = Some(Process::start(&self.hosts[self.store_port() + 1 + client], command, &log)?);
        Ok(())
    }

    /// Takes a host's link down, or up again.
    pub fn set_link(&self, port: usize, up: bool) -> io::Result<()> {
        self.hosts[port].ip(&format!("link set eth0 {}", if up { "up" } else { "down" }))
    }

    /// What a command of `wayside` says of this switch: None if it does not answer.
    pub fn tells(&self, switch: usize, command: &[&str]) -> Option<serde_json::Value> {
        let endpoint = format!("{}:7600", address(switch));
        let mut command = self.wayside(&[command, &["-o", "json", "--endpoint", &endpoint]].concat());
        self.hosts[switch].enter(&mut command);
        command.stderr(Stdio::null());
        serde_json::from_slice(&command.output().ok()?.stdout).ok()
    }

    /// How the chains are, as the first switch has it that knows.
    pub fn chains(&self) -> Option<Chains> {
        (0..self.switches.len()).find_map(|switch| {
            let told = self.tells(switch, &["chain", "status"])?;
            let groups = told["groups"].as_array().filter(|groups| !groups.is_empty())?;
            let is_whole = |group: &serde_json::Value| {
                let length = group["chain"].as_array().map_or(0, Vec::len);
                group["state"] == "serving" && length == self.switches.len()
            };
            let lost = groups.iter().filter(|group| group["state"] == "lost").count();
            Some(Chains { are_whole: groups.iter().all(is_whole), lost })
        })
    }
}

/// The chains of a run.
pub struct Chains {
    /// Every switch is in every group's, and none is about to change.
    pub are_whole: bool,
    /// Groups that have lost what they had.
    pub lost: usize,
}

impl Drop for World {
    fn drop(&mut self) {
        for switch in 0..self.hosts.len() - 1 - CLIENTS {
            // They may have been ended before.
            if let Some(process) = self.switches.get_mut(switch) {
                *process = None;
            }
            if self.options.hook {
                let _ = self.wipe(switch);
            }
        }
        let _ = fs::remove_dir(self.pins());
    }
}
