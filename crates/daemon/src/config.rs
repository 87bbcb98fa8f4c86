//! The switch daemon's configuration: flags over `WAYSIDE_*` over the file over defaults, checked in one place.
//!
//! `Settings` is what someone wrote, `Config` is what the daemon runs with. Every value that can't work ends in an
//! error with its origin, its key and what is allowed.

// Named, since the fuzzer reads this file from elsewhere.
#[path = "config/changes.rs"]
mod changes;
#[path = "config/namespaces.rs"]
mod namespaces;
#[path = "config/relays.rs"]
mod relays;
#[path = "config/sharing.rs"]
mod sharing;
#[path = "config/traces.rs"]
mod traces;

use crate::failure::Failure;
use serde::Deserialize;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use wayside_protocol::{Shards, controller};
use wayside_wire::PORT;

pub use namespaces::Namespace;
use namespaces::NamespaceSettings;
pub use relays::Relay;
pub use sharing::Sharing;

/// Data ports from 1 to 65,534: the admin port is the next one by default.
const DEFAULT_LISTEN: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT);

/// One receive queue feeds all workers: beyond 4 they mostly wait for its lock.
const DEFAULT_MAX_THREADS: usize = 4;

/// A pause of a second (garbage collection, a burst of other work) must not cost a session its locks.
const DEFAULT_LEASE: Duration = Duration::from_secs(2);
/// Twice the controller's poll period.
pub const SHORTEST_LEASE: Duration = Duration::from_millis(20);
pub const LONGEST_LEASE: Duration = Duration::from_secs(3600);

const DEFAULT_KEY_LIFETIME: Duration = Duration::from_secs(3600);
/// Keys change only after a heartbeat under the last ones: more often than heartbeats come makes no difference.
const SHORTEST_KEY_LIFETIME: Duration = Duration::from_millis(100);
/// Long enough for whoever deletes a key to write it again, which costs the daemon's time once it is gone.
const DEFAULT_COLLECT_AFTER: Duration = Duration::from_secs(60);
/// Whoever reads several keys twice, to have them of one instant, takes half a second for it at most.
const SHORTEST_COLLECT_AFTER: Duration = Duration::from_secs(1);
const LONGEST_COLLECT_AFTER: Duration = Duration::from_secs(24 * 3600);
const LONGEST_KEY_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Long enough for a host that is away for a holiday, short enough that one that was forgotten is out by itself.
const DEFAULT_CERTIFICATE_LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);
/// Hosts ask for the next certificate at most once a second.
const SHORTEST_CERTIFICATE_LIFETIME: Duration = Duration::from_secs(3);
const LONGEST_CERTIFICATE_LIFETIME: Duration = Duration::from_secs(3652 * 24 * 3600);

const DEFAULT_SHARD: &str = "main";

/// The kernel's limits.
const LONGEST_PATH: usize = libc::PATH_MAX as usize - 1;
const LONGEST_SOCKET_PATH: usize = 107;

/// Settings as flags, environment variables and the file give them.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// IPv4 address and UDP port that nodes send to [default: 127.0.0.1:7600]
    #[arg(long, env = "WAYSIDE_LISTEN", value_name = "ADDR:PORT")]
    listen: Option<String>,

    /// Address and TCP port for commands from other hosts [default: that of --listen, the next port]
    #[arg(long, env = "WAYSIDE_ADMIN_LISTEN", value_name = "ADDR:PORT")]
    admin_listen: Option<String>,

    /// Whether packets are signed, so that only hosts that have joined (`wayside node`) can lock: on, off, or auto (on
    /// unless --listen is on loopback) [default: auto]
    #[arg(long, env = "WAYSIDE_AUTHENTICATION", value_name = "WHETHER")]
    authentication: Option<String>,

    /// Address and TCP port where hosts join and enrol [default: that of --admin-listen, the next port]
    #[arg(long, env = "WAYSIDE_ENROL_LISTEN", value_name = "ADDR:PORT")]
    enrol_listen: Option<String>,

    /// How long the keys last that sign a session's packets [default: 1h]
    #[arg(long, env = "WAYSIDE_KEY_LIFETIME", value_name = "TIME")]
    key_lifetime: Option<String>,

    /// How long a host's certificate is good; its processes renew it when a third of that is left [default: 90d]
    #[arg(long, env = "WAYSIDE_CERTIFICATE_LIFETIME", value_name = "TIME")]
    certificate_lifetime: Option<String>,

    /// Slots of all namespaces, with those that `wayside reload` may add; 16 bytes each, at the XDP hook from the start
    /// [default: what the namespaces have, rounded up to the next 262,144]
    #[arg(long, env = "WAYSIDE_SLOTS", value_name = "COUNT", allow_negative_numbers = true)]
    slots: Option<i64>,

    /// Cells of all queues, with those that `wayside reload` may add; 16 bytes each, at the XDP hook from the start
    /// [default: what the namespaces have, rounded up to the next 16,384]
    #[arg(long, env = "WAYSIDE_CELLS", value_name = "COUNT", allow_negative_numbers = true)]
    cells: Option<i64>,

    /// How long a key of the store keeps its place without a value; 0s: for ever [default: 60s]
    #[arg(long, env = "WAYSIDE_COLLECT_AFTER", value_name = "TIME")]
    collect_after: Option<String>,

    /// Threads that decide on packets [default: half the processors, 1 to 4]
    #[arg(long, env = "WAYSIDE_THREADS", value_name = "COUNT", allow_negative_numbers = true)]
    threads: Option<i64>,

    /// How they wait for packets: spin, block, or adaptive (spin for 50 us, then block) [default: adaptive]
    #[arg(long, env = "WAYSIDE_WAIT", value_name = "HOW")]
    wait: Option<String>,

    /// Where epochs and sessions are kept over restarts [default: $XDG_STATE_HOME/wayside, /var/lib/wayside as root]
    #[arg(long, env = "WAYSIDE_STATE_DIR", value_name = "DIR")]
    state_dir: Option<PathBuf>,

    /// Unix socket for nodes and commands on this host [default: wayside/ADDR_PORT.sock in the runtime directory]
    #[arg(long, env = "WAYSIDE_SOCKET", value_name = "PATH")]
    control_socket: Option<PathBuf>,

    /// How long a session lives without an acknowledged heartbeat, unless it asks for another time [default: 2s]
    #[arg(long, env = "WAYSIDE_LEASE", value_name = "TIME")]
    lease: Option<String>,

    /// What to do about deadlocks: off, report (log and count them), or abort-youngest (end them, too, by giving up the
    /// wait in them that began last) [default: report]
    #[arg(long, env = "WAYSIDE_DEADLOCKS", value_name = "WHAT")]
    deadlocks: Option<String>,

    /// How often to look for them, if any wait has lasted as long [default: 10s]
    #[arg(long, env = "WAYSIDE_DEADLOCK_PERIOD", value_name = "TIME")]
    deadlock_period: Option<String>,

    /// What the switch adds before it gives a silent node's locks away [default: by the rule for clock drift]
    #[arg(long, env = "WAYSIDE_GRACE", value_name = "TIME")]
    grace: Option<String>,

    /// Where packets are decided: auto (XDP if it can be had), native or generic (XDP of that mode or an error), or
    /// userspace [default: auto]
    #[arg(long, env = "WAYSIDE_MODE", value_name = "WHERE")]
    mode: Option<String>,

    /// Interfaces for XDP, separated by commas [default: the one that has the address of --listen, or a bridge's ports]
    #[arg(long, env = "WAYSIDE_INTERFACES", value_name = "NAMES", value_delimiter = ',')]
    interfaces: Option<Vec<String>>,

    /// Where XDP programs and their memory are pinned, so that they outlive the daemon [default: /sys/fs/bpf/wayside]
    #[arg(long, env = "WAYSIDE_BPF_DIR", value_name = "DIR")]
    bpf_dir: Option<PathBuf>,

    /// Leave XDP deciding when the daemon ends, for the next one to take over [default: false]
    #[arg(long, env = "WAYSIDE_KEEP_ATTACHED", value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    keep_attached: Option<bool>,

    /// etcd's endpoints, separated by commas, where this switch and its standbys keep what they share: one of them
    /// serves, another takes its place when it is silent [default: none, this switch is alone]
    #[arg(long, env = "WAYSIDE_ETCD", value_name = "URLS", value_delimiter = ',')]
    etcd: Option<Vec<String>>,

    /// Name of this switch's shard: under it the switches that share one find each other in etcd [default: main]
    #[arg(long, env = "WAYSIDE_SHARD", value_name = "NAME")]
    shard: Option<String>,

    /// Names of the shards that locks are divided among, separated by commas; --shard is this switch's. The same at all
    /// of their switches when they are started first; `wayside shard` changes them then [default: none, this shard has
    /// all locks]
    #[arg(long, env = "WAYSIDE_SHARDS", value_name = "NAMES", value_delimiter = ',')]
    shards: Option<Vec<String>>,

    /// The other --shards have this one's locks: it begins no session before `wayside shard add` [default: it has its
    /// own from the beginning]
    #[arg(long, env = "WAYSIDE_SHARD_JOINS", value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    shard_joins: Option<bool>,

    /// Ports here that stand for other racks' switches, PORT=ADDR:PORT, separated by commas: for hosts that can reach
    /// this switch alone. Each takes the next two ports as well [default: none]
    #[arg(long, env = "WAYSIDE_RELAYS", value_name = "RELAYS", value_delimiter = ',')]
    relays: Option<Vec<String>>,

    /// After this time without contact to etcd a switch serves no more, and a standby takes its place [default: 300ms]
    #[arg(long, env = "WAYSIDE_SERVING_LEASE", value_name = "TIME")]
    serving_lease: Option<String>,

    /// Switches that keep each key's value, 1 to 5, of those that share etcd: what is written survives all of them but
    /// one [default: 3]
    #[arg(long, env = "WAYSIDE_CHAIN_LENGTH", value_name = "COUNT", allow_negative_numbers = true)]
    chain_length: Option<i64>,

    /// For how long etcd keeps what was overwritten, of all its users; 0s: leave that to others [default: 1h]
    #[arg(long, env = "WAYSIDE_ETCD_HISTORY", value_name = "TIME")]
    etcd_history: Option<String>,

    /// Certificate (PEM) of who signs for etcd [default: none, the connection is in clear]
    #[arg(long, env = "WAYSIDE_ETCD_CA", value_name = "FILE")]
    etcd_ca: Option<PathBuf>,

    /// Certificate (PEM) by which etcd knows this switch, with --etcd-key
    #[arg(long, env = "WAYSIDE_ETCD_CERTIFICATE", value_name = "FILE")]
    etcd_certificate: Option<PathBuf>,

    /// Key (PEM) of that certificate
    #[arg(long, env = "WAYSIDE_ETCD_KEY", value_name = "FILE")]
    etcd_key: Option<PathBuf>,

    /// Address and TCP port where a switch with standbys takes what another one hands over when it ends [default: that
    /// of --listen, the same number]
    #[arg(long, env = "WAYSIDE_HAND_OVER_LISTEN", value_name = "ADDR:PORT")]
    hand_over_listen: Option<String>,

    /// Of so many requests for locks one is followed through the switch, for a collector of OpenTelemetry; 0: none
    /// [default: 0]
    #[arg(long, env = "WAYSIDE_TRACE_ONE_IN", value_name = "COUNT", allow_negative_numbers = true)]
    trace_one_in: Option<i64>,

    /// Where that collector takes OTLP over HTTP [default: http://127.0.0.1:4318/v1/traces]
    #[arg(long, env = "WAYSIDE_TRACE_COLLECTOR", value_name = "URL")]
    trace_collector: Option<String>,

    #[arg(skip)]
    #[serde(rename = "namespace")]
    namespaces: Option<Vec<NamespaceSettings>>,
}

/// How a worker waits for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Never sleeps: the lowest latency, a processor each.
    Spin,
    /// Sleeps in the kernel at once: no processor while idle, a wake-up (5 to 50 us) per packet.
    Block,
    /// Spins for as long as a wake-up costs, then sleeps.
    Adaptive,
}

const WAITS: [(&str, Wait); 3] = [("spin", Wait::Spin), ("block", Wait::Block), ("adaptive", Wait::Adaptive)];

impl std::fmt::Display for Wait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(word_of(&WAITS, *self))
    }
}

/// Whether packets are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Authentication {
    /// On unless the switch is on loopback, where other processes are no strangers.
    Auto,
    On,
    Off,
}

const AUTHENTICATIONS: [(&str, Authentication); 3] =
    [("auto", Authentication::Auto), ("on", Authentication::On), ("off", Authentication::Off)];

/// Where packets are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// At the XDP hook if it can be had, else in this process.
    Auto,
    /// At the hook, in the drivers.
    Native,
    /// At the hook, in the kernel's stack.
    Generic,
    /// In this process.
    Userspace,
}

impl Mode {
    /// Whether this process alone may do where XDP can't be had.
    pub fn may_be_userspace(self) -> bool {
        matches!(self, Mode::Auto | Mode::Userspace)
    }
}

const MODES: [(&str, Mode); 4] =
    [("auto", Mode::Auto), ("native", Mode::Native), ("generic", Mode::Generic), ("userspace", Mode::Userspace)];

/// What to do about deadlocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadlocks {
    /// Nothing, unless somebody asks.
    Off,
    /// Log them and count them.
    Report,
    /// And give up the wait in them that began last.
    AbortYoungest,
}

const DEADLOCKS: [(&str, Deadlocks); 3] =
    [("off", Deadlocks::Off), ("report", Deadlocks::Report), ("abort-youngest", Deadlocks::AbortYoungest)];

impl std::fmt::Display for Deadlocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(word_of(&DEADLOCKS, *self))
    }
}

/// Looking costs each node a line that says how few of its waits are old, and where some are a listing of its locks.
const DEFAULT_DEADLOCK_PERIOD: Duration = Duration::from_secs(10);
const SHORTEST_DEADLOCK_PERIOD: Duration = Duration::from_millis(100);
const LONGEST_DEADLOCK_PERIOD: Duration = Duration::from_secs(3600);

/// The root of bpffs, where Linux distributions mount it, and a directory of our own.
pub const DEFAULT_BPF_DIR: &str = "/sys/fs/bpf/wayside";

/// As a file has them; `Policy`'s own names have underscores.
/// What is written for a value.
fn word_of<T: Copy + PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, of)| *of == value).map_or("?", |(word, _)| word)
}

/// What a written word stands for, or the words that may be written.
fn value_of<T: Copy>(words: &[(&'static str, T)], written: &str) -> Result<T, String> {
    words.iter().find(|(word, _)| *word == written).map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("must be {}", words.join(", "))
    })
}

/// What the daemon runs with. Every value is possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub listen: SocketAddrV4,
    pub admin_listen: SocketAddrV4,
    /// Where hosts join and enrol. None: packets are not signed.
    pub enrol_listen: Option<SocketAddrV4>,
    /// Why they are, or are not.
    pub authentication_reason: &'static str,
    pub key_lifetime: Duration,
    pub certificate_lifetime: Duration,
    /// Zero: keys stay.
    pub collect_after: Duration,
    pub threads: usize,
    pub wait: Wait,
    pub state_dir: Option<PathBuf>,
    pub control_socket: Option<PathBuf>,
    pub mode: Mode,
    /// Empty: found by the address.
    pub interfaces: Vec<String>,
    pub bpf_dir: PathBuf,
    pub keep_attached: bool,
    pub lease: Duration,
    pub grace: Duration,
    pub deadlocks: Deadlocks,
    pub deadlock_period: Duration,
    /// Of so many requests one is followed; 0: none.
    pub trace_one_in: u32,
    /// URL of who is told.
    pub trace_collector: String,
    pub namespaces: Vec<Namespace>,
    /// Of all namespaces, those that are added while the switch runs included.
    pub slots: u32,
    /// Of all their queues, likewise,
    pub cells: u32,
    /// and how many queues these may be.
    pub queues: u32,
    /// None: there is no standby.
    pub sharing: Option<Sharing>,
    /// None: this shard has all locks.
    pub division: Option<Division>,
    /// Others have its locks until it is added.
    pub joins: bool,
    pub relays: Vec<Relay>,
}

/// The shards that locks are divided among.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    pub shards: Shards,
    /// This switch's place among them.
    pub own: usize,
}

impl Division {
    /// Their names, its own first.
    pub fn own_first(&self) -> Vec<String> {
        let names = self.shards.names();
        let others = names.iter().enumerate().filter(|(place, _)| *place != self.own).map(|(_, name)| name);
        std::iter::once(&names[self.own]).chain(others).cloned().collect()
    }

    /// As records have them; empty where there is none.
    pub fn recorded(division: Option<&Division>) -> String {
        division.map_or_else(String::new, |division| {
            format!("{} of {}", division.shards.names()[division.own], division.shards.names().join(","))
        })
    }
}

impl Settings {
    /// Reads a file of settings.
    pub fn read(path: &Path) -> Result<Settings, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            ErrorKind::InvalidData => Failure::usage(format!("configuration {} is no text", path.display())),
            ErrorKind::IsADirectory => Failure::usage(format!("configuration {} is a directory", path.display())),
            _ => Failure::system(format_args!("can't read configuration {}", path.display()), &error),
        })?;
        toml::from_str(&text)
            .map_err(|error| Failure::usage(format!("{}: {}", path.display(), error.to_string().trim())))
    }

    /// The configuration of these flags over `file`, which was read from `path`.
    pub fn over(self, file: Settings, path: Option<&Path>) -> Result<Config, Failure> {
        let layers = Layers { flags: self, file, path };
        layers.config()
    }
}

/// Two layers of settings, and how to name where a value came from.
struct Layers<'a> {
    flags: Settings,
    file: Settings,
    path: Option<&'a Path>,
}

impl Layers<'_> {
    fn config(self) -> Result<Config, Failure> {
        let listen = match self.pick(|s| s.listen.as_ref()) {
            Some((text, flag)) => self.address("listen", text, flag)?,
            None => DEFAULT_LISTEN,
        };
        let admin_listen = match self.pick(|s| s.admin_listen.as_ref()) {
            Some((text, flag)) => self.address("admin_listen", text, flag)?,
            None => next_port(listen).ok_or_else(|| {
                self.wrong(
                    "listen",
                    &listen,
                    self.flags.listen.is_some(),
                    "port 65535 leaves none for admin_listen; name that too",
                )
            })?,
        };
        let (enrol_listen, authentication_reason) = self.enrol_listen(listen, admin_listen)?;
        let key_lifetime = match self.pick(|s| s.key_lifetime.as_ref()) {
            Some((text, flag)) => {
                self.duration("key_lifetime", text, flag, SHORTEST_KEY_LIFETIME, LONGEST_KEY_LIFETIME)?
            }
            None => DEFAULT_KEY_LIFETIME,
        };
        let collect_after = match self.pick(|s| s.collect_after.as_ref()) {
            Some((text, _)) if humantime::parse_duration(text).is_ok_and(|time| time.is_zero()) => Duration::ZERO,
            Some((text, flag)) => {
                self.duration("collect_after", text, flag, SHORTEST_COLLECT_AFTER, LONGEST_COLLECT_AFTER)?
            }
            None => DEFAULT_COLLECT_AFTER,
        };
        let certificate_lifetime = match self.pick(|s| s.certificate_lifetime.as_ref()) {
            Some((text, flag)) => {
                let (least, most) = (SHORTEST_CERTIFICATE_LIFETIME, LONGEST_CERTIFICATE_LIFETIME);
                self.duration("certificate_lifetime", text, flag, least, most)?
            }
            None => DEFAULT_CERTIFICATE_LIFETIME,
        };
        let threads = match self.pick(|s| s.threads.as_ref()) {
            Some((&count, flag)) => self.number("threads", count, flag, 1, 64)? as usize,
            None => default_threads(),
        };
        let wait = match self.pick(|s| s.wait.as_ref()) {
            Some((text, flag)) => value_of(&WAITS, text).map_err(|rule| self.wrong("wait", text, flag, &rule))?,
            None => Wait::Adaptive,
        };
        let mode = match self.pick(|s| s.mode.as_ref()) {
            Some((text, flag)) => value_of(&MODES, text).map_err(|rule| self.wrong("mode", text, flag, &rule))?,
            None => Mode::Auto,
        };
        let deadlocks = match self.pick(|s| s.deadlocks.as_ref()) {
            Some((text, flag)) => {
                value_of(&DEADLOCKS, text).map_err(|rule| self.wrong("deadlocks", text, flag, &rule))?
            }
            None => Deadlocks::Report,
        };
        let deadlock_period = match self.pick(|s| s.deadlock_period.as_ref()) {
            Some((text, flag)) => {
                let (least, most) = (SHORTEST_DEADLOCK_PERIOD, LONGEST_DEADLOCK_PERIOD);
                self.duration("deadlock_period", text, flag, least, most)?
            }
            None => DEFAULT_DEADLOCK_PERIOD,
        };
        let lease = match self.pick(|s| s.lease.as_ref()) {
            Some((text, flag)) => self.duration("lease", text, flag, SHORTEST_LEASE, LONGEST_LEASE)?,
            None => DEFAULT_LEASE,
        };
        let grace = match self.pick(|s| s.grace.as_ref()) {
            Some((text, flag)) => {
                let grace = self.duration("grace", text, flag, Duration::ZERO, Duration::from_secs(3600))?;
                if grace < least_grace(lease) {
                    let rule = format!(
                        "must be at least {} with a lease of {}: that is how far clocks may drift apart, and the poll period",
                        Shown(least_grace(lease)),
                        Shown(lease)
                    );
                    return Err(self.wrong("grace", text, flag, &rule));
                }
                grace
            }
            // Twice the least: scheduling delays of the daemon's own are not the node's fault.
            None => least_grace(lease) * 2,
        };
        let namespaces = self.namespaces(lease)?;
        let (slots, cells) = (self.slots(&namespaces)?, self.cells(&namespaces)?);
        let queues = namespaces::at_once(namespaces.iter().map(|namespace| namespace.room.queues).sum());
        let division = self.division()?;
        let joins = match self.pick(|s| s.shard_joins.as_ref()) {
            Some((true, flag)) if division.is_none() => {
                return Err(self.wrong(
                    "shard_joins",
                    &true,
                    flag,
                    "goes with shards = the names of all, this one's too",
                ));
            }
            joins => joins.is_some_and(|(joins, _)| *joins),
        };
        let sharing = self.sharing(lease, &[("admin_listen", Some(admin_listen)), ("enrol_listen", enrol_listen)])?;
        let hand_over = sharing.as_ref().and_then(|sharing| sharing.hand_over_listen);
        let relays = self.relays(listen, &[Some(admin_listen), enrol_listen, hand_over])?;
        Ok(Config {
            listen,
            admin_listen,
            enrol_listen,
            authentication_reason,
            key_lifetime,
            certificate_lifetime,
            collect_after,
            threads,
            wait,
            mode,
            interfaces: self.pick(|s| s.interfaces.as_ref()).map(|(names, _)| names.clone()).unwrap_or_default(),
            bpf_dir: self.pick(|s| s.bpf_dir.as_ref()).map_or_else(|| DEFAULT_BPF_DIR.into(), |(path, _)| path.clone()),
            keep_attached: self.pick(|s| s.keep_attached.as_ref()).is_some_and(|(keep, _)| *keep),
            lease,
            grace,
            deadlocks,
            deadlock_period,
            trace_one_in: self.trace_one_in()?,
            trace_collector: self.trace_collector()?,
            namespaces,
            slots,
            cells,
            queues,
            sharing,
            division,
            joins,
            relays,
            state_dir: self.path("state_dir", |s| s.state_dir.as_ref(), LONGEST_PATH)?,
            control_socket: self.path("control_socket", |s| s.control_socket.as_ref(), LONGEST_SOCKET_PATH)?,
        })
    }

    /// A setting and whether a flag or the environment gave it.
    fn pick<'s, T>(&'s self, of: impl Fn(&'s Settings) -> Option<&'s T>) -> Option<(&'s T, bool)> {
        of(&self.flags).map(|value| (value, true)).or_else(|| of(&self.file).map(|value| (value, false)))
    }

    fn wrong(&self, key: &str, value: &dyn std::fmt::Display, flag: bool, rule: &str) -> Failure {
        let origin = match self.path {
            Some(path) if !flag => format!("{}: {key}", path.display()),
            _ => format!("--{} (or WAYSIDE_{})", key.replace('_', "-"), key.to_uppercase()),
        };
        Failure::usage(format!("{origin} = {value} {rule}"))
    }

    fn address(&self, key: &str, text: &str, flag: bool) -> Result<SocketAddrV4, Failure> {
        let Ok(address) = SocketAddrV4::from_str(text) else {
            return Err(self.wrong(key, &text, flag, "is not an IPv4 address and port such as 127.0.0.1:7600"));
        };
        if address.ip().is_unspecified() {
            return Err(self.wrong(
                key,
                &text,
                flag,
                "must name one address of this host: nodes know the switch by it",
            ));
        }
        if address.ip().is_multicast() || address.ip().is_broadcast() {
            return Err(self.wrong(key, &text, flag, "must be the address of one host"));
        }
        Ok(address)
    }

    /// Where hosts enrol, if packets are signed, and why they are or are not.
    fn enrol_listen(
        &self,
        listen: SocketAddrV4,
        admin: SocketAddrV4,
    ) -> Result<(Option<SocketAddrV4>, &'static str), Failure> {
        let authentication = match self.pick(|s| s.authentication.as_ref()) {
            Some((text, flag)) => {
                value_of(&AUTHENTICATIONS, text).map_err(|rule| self.wrong("authentication", text, flag, &rule))?
            }
            None => Authentication::Auto,
        };
        let told = match self.pick(|s| s.enrol_listen.as_ref()) {
            Some((text, flag)) => Some(self.address("enrol_listen", text, flag)?),
            None => None,
        };
        let reason = match authentication {
            Authentication::Off => return Ok((None, "as configured")),
            Authentication::Auto if listen.ip().is_loopback() => return Ok((None, "auto: listens on loopback")),
            Authentication::Auto => "auto: listens off loopback",
            Authentication::On => "as configured",
        };
        let next = || {
            let flag = self.flags.admin_listen.is_some();
            let rule = "leaves no port for enrol_listen; name that too";
            next_port(admin).ok_or_else(|| self.wrong("admin_listen", &admin, flag, rule))
        };
        Ok((Some(told.map_or_else(next, Ok)?), reason))
    }

    /// The name of this shard, and whether a flag or the environment gave it.
    fn shard(&self) -> Result<(String, bool), Failure> {
        match self.pick(|s| s.shard.as_ref()) {
            Some((name, flag)) if name.is_empty() || name.contains('/') => {
                Err(self.wrong("shard", &format_args!("{name:?}"), flag, "must be a word without a slash"))
            }
            Some((name, flag)) => Ok((name.clone(), flag)),
            None => Ok((DEFAULT_SHARD.into(), false)),
        }
    }

    fn division(&self) -> Result<Option<Division>, Failure> {
        let (own, own_flag) = self.shard()?;
        let Some((names, flag)) = self.pick(|s| s.shards.as_ref()).filter(|(names, _)| !names.is_empty()) else {
            return Ok(None);
        };
        let listed = names.join(",");
        let shards = Shards::new(names.iter().map(|name| name.trim().to_owned()))
            .map_err(|error| self.wrong("shards", &listed, flag, &format!("can't be: {error}")))?;
        let place = shards.place(&own);
        let own =
            place.ok_or_else(|| self.wrong("shard", &own, own_flag, &format!("is not one of shards = {listed}")))?;
        Ok(Some(Division { shards, own }))
    }

    fn number(&self, key: &str, value: i64, flag: bool, least: i64, most: i64) -> Result<i64, Failure> {
        if (least..=most).contains(&value) {
            return Ok(value);
        }
        Err(self.wrong(key, &value, flag, &format!("must be {least} to {most}")))
    }

    fn duration(
        &self,
        key: &str,
        text: &str,
        flag: bool,
        least: Duration,
        most: Duration,
    ) -> Result<Duration, Failure> {
        match humantime::parse_duration(text) {
            Ok(duration) if (least..=most).contains(&duration) => Ok(duration),
            Ok(_) => Err(self.wrong(key, &text, flag, &format!("must be {} to {}", Shown(least), Shown(most)))),
            Err(_) => Err(self.wrong(key, &text, flag, "is not a time such as 250ms, 2s or 1m")),
        }
    }

    fn path(
        &self,
        key: &str,
        of: impl Fn(&Settings) -> Option<&PathBuf>,
        longest: usize,
    ) -> Result<Option<PathBuf>, Failure> {
        let Some((path, flag)) = self.pick(of) else { return Ok(None) };
        match path.as_os_str().len() {
            0 => Err(self.wrong(key, &"\"\"", flag, "is no path; leave it out for the default")),
            length if length > longest => {
                Err(self.wrong(key, &path.display(), flag, &format!("has {length} bytes; {longest} is the most")))
            }
            _ => Ok(Some(path.clone())),
        }
    }
}

/// Port 0 asks the kernel for any port; so do the ports that follow from it then.
fn next_port(listen: SocketAddrV4) -> Option<SocketAddrV4> {
    let port = if listen.port() == 0 { 0 } else { listen.port().checked_add(1)? };
    Some(SocketAddrV4::new(*listen.ip(), port))
}

fn default_threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).clamp(1, DEFAULT_MAX_THREADS)
}

/// `docs/protocol.md`, Sessions: grace covers the drift of both clocks over a lease, and the poll.
fn least_grace(lease: Duration) -> Duration {
    let rule = controller::Config::default();
    Duration::from_micros(rule.least_grace(lease.as_micros() as u32).into())
}

/// A duration as people read it, without loss: `2 s`, `250 ms`, `14.004 ms`.
pub struct Shown(pub Duration);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let micros = self.0.as_micros();
        match micros {
            _ if micros.is_multiple_of(1_000_000) => write!(f, "{} s", micros / 1_000_000),
            _ => write!(f, "{} ms", micros as f64 / 1e3),
        }
    }
}

/// Of a file, without flags.
#[cfg(test)]
pub fn read(text: &str) -> Result<Config, Failure> {
    let settings = toml::from_str(text).map_err(|error| Failure::usage(error.to_string()))?;
    Settings::default().over(settings, Some(Path::new("w.toml")))
}

#[cfg(test)]
mod tests {
    use super::read as file;
    use super::*;
    use wayside_wire::Policy;

    #[test]
    fn defaults_are_possible() {
        let config = file("").unwrap();
        assert_eq!(config.listen.to_string(), "127.0.0.1:7600");
        assert_eq!(config.admin_listen.to_string(), "127.0.0.1:7601");
        assert!(config.grace >= least_grace(config.lease));
        assert_eq!(config.namespaces.len(), 1);
    }

    #[test]
    fn a_path_that_the_kernel_would_cut_is_refused() {
        let longest = "s".repeat(LONGEST_SOCKET_PATH);
        file(&format!("control_socket = '{longest}'")).unwrap();
        let failure = file(&format!("control_socket = '{longest}s'")).unwrap_err();
        assert!(failure.message.ends_with("has 108 bytes; 107 is the most"), "{failure}");
    }

    #[test]
    fn durations_are_shown_in_milliseconds_and_seconds() {
        let shown = |micros| Shown(Duration::from_micros(micros)).to_string();
        assert_eq!([2_000_000, 250_000, 14_004].map(shown), ["2 s", "250 ms", "14.004 ms"]);
    }

    #[test]
    fn flags_go_before_the_file() {
        let flags = Settings { listen: Some("127.0.0.1:9000".into()), ..Settings::default() };
        let settings: Settings = toml::from_str("listen = '127.0.0.1:8000'\nthreads = 3").unwrap();
        let config = flags.over(settings, None).unwrap();
        assert_eq!(config.listen.port(), 9000);
        assert_eq!(config.admin_listen.port(), 9001);
        assert_eq!(config.threads, 3);
    }

    #[test]
    fn packets_are_signed_off_loopback_unless_told_otherwise() {
        let enrols = |text: &str| file(text).unwrap().enrol_listen.map(|address| address.to_string());
        let next = Some("10.0.0.1:7602".to_owned());
        assert_eq!(enrols("listen = '10.0.0.1:7600'"), next);
        assert_eq!(enrols("listen = '10.0.0.1:7600'\nauthentication = 'auto'"), next);
        assert_eq!(enrols("listen = '10.0.0.1:7600'\nauthentication = 'off'"), None);
        assert_eq!(enrols(""), None);
        assert_eq!(enrols("listen = '127.0.0.2:7600'"), None);
        assert_eq!(enrols("authentication = 'on'").unwrap(), "127.0.0.1:7602");
        assert_eq!(enrols("authentication = 'on'\nenrol_listen = '10.0.0.1:9'").unwrap(), "10.0.0.1:9");
    }

    #[test]
    fn every_key_is_read() {
        let config = file(
            "listen = '10.0.0.1:1'\nadmin_listen = '10.0.0.1:2'\nthreads = 2\nwait = 'spin'\nstate_dir = '/s'\n\
             control_socket = '/c'\nlease = '1s'\ngrace = '300ms'\ndeadlocks = 'off'\ndeadlock_period = '1s'\n[[namespace]]\nname = 'a'\n[[namespace]]\nname = 'b'\n\
             slots = 7\npolicy = 'read-preferring'\npatience = 0\nlongest_lease = '5m'\nkeys = 9\ngroups = 3",
        )
        .unwrap();
        assert_eq!(config.wait, Wait::Spin);
        assert_eq!(config.state_dir.as_deref(), Some(Path::new("/s")));
        assert_eq!(config.control_socket.as_deref(), Some(Path::new("/c")));
        assert_eq!((config.lease, config.grace), (Duration::from_secs(1), Duration::from_millis(300)));
        assert_eq!((config.deadlocks, config.deadlock_period), (Deadlocks::Off, Duration::from_secs(1)));
        let b = &config.namespaces[1];
        assert_eq!((config.namespaces[0].patience, b.patience), (8, 0));
        let longest = [config.namespaces[0].longest_lease, b.longest_lease];
        assert_eq!(longest, [Duration::from_secs(60), Duration::from_secs(300)]);
        assert_eq!((b.name.as_str(), b.slots, b.policy, b.keys, b.groups), ("b", 7, Policy::ReadPreferring, 9, 3));
    }

    #[test]
    fn a_budget_is_a_rate_and_by_default_a_hundredth_of_it_at_once() {
        let budget = |text: &str| {
            let namespace = &file(&format!("[[namespace]]\nname = 'a'\n{text}")).unwrap().namespaces[0];
            namespace.budget.map(|budget| (budget.rate, budget.burst))
        };
        assert_eq!(budget(""), None);
        assert_eq!(budget("rate = 500000"), Some((500_000, 5_000)));
        assert_eq!(budget("rate = 100"), Some((100, 32)));
        assert_eq!(budget("rate = 100\nburst = 4000"), Some((100, 4_000)));
        assert_eq!(budget("rate = 10000000"), Some((10_000_000, 100_000)));
    }

    #[test]
    fn impossible_values_name_their_key_and_what_is_allowed() {
        for (text, expected) in [
            ("treads = 1", "unknown field `treads`"),
            ("shards = ['main']", "w.toml: shards = main can't be: locks are divided among 2 to 64 shards, not 1"),
            ("shards = ['main', 'a b']", "\"a b\" is no name of a shard"),
            ("shards = ['main', 'a', 'a']", "two shards are called \"a\""),
            ("shards = ['a', 'b']", "shard = main is not one of shards = a,b"),
            ("shard = 'c'\nshards = ['a', 'b']", "w.toml: shard = c is not one of shards = a,b"),
            ("shard = 'a/b'", "must be a word without a slash"),
            ("threads = 'two'", "expected i64"),
            ("threads = 0", "w.toml: threads = 0 must be 1 to 64"),
            ("threads = 65", "must be 1 to 64"),
            ("wait = 'nap'", "w.toml: wait = nap must be spin, block, adaptive"),
            ("deadlocks = 'abort'", "deadlocks = abort must be off, report, abort-youngest"),
            ("deadlock_period = '1ms'", "deadlock_period = 1ms must be 100 ms to 3600 s"),
            ("listen = 'localhost'", "is not an IPv4 address and port"),
            ("listen = '[::1]:7600'", "is not an IPv4 address and port"),
            ("listen = '0.0.0.0:7600'", "must name one address"),
            ("listen = '224.0.0.1:7600'", "must be the address of one host"),
            ("listen = '127.0.0.1:65535'", "leaves none for admin_listen"),
            ("listen = '127.0.0.1:99999'", "is not an IPv4 address and port"),
            ("authentication = 'yes'", "w.toml: authentication = yes must be auto, on, off"),
            ("authentication = 'on'\nadmin_listen = '127.0.0.1:65535'", "leaves no port for enrol_listen"),
            ("enrol_listen = '0.0.0.0:1'", "must name one address"),
            (
                "etcd = ['http://e']\nhand_over_listen = '0.0.0.0:1'",
                "hand_over_listen = 0.0.0.0:1 must name one address",
            ),
            ("key_lifetime = '1ms'", "w.toml: key_lifetime = 1ms must be 100 ms to 86400 s"),
            ("certificate_lifetime = '1s'", "certificate_lifetime = 1s must be 3 s to 315532800 s"),
            ("collect_after = '2 days'", "collect_after = 2 days must be 1 s to 86400 s"),
            ("lease = '1ms'", "w.toml: lease = 1ms must be 20 ms to 3600 s"),
            ("lease = 'long'", "is not a time"),
            ("state_dir = ''", "w.toml: state_dir = \"\" is no path"),
            ("control_socket = ''", "w.toml: control_socket = \"\" is no path"),
            ("lease = '10s'\ngrace = '1ms'", "grace = 1ms must be at least 30"),
            ("namespace = []", "at least one entry"),
            ("[[namespace]]\nname = ''", "must have 1 to 24 bytes"),
            ("[[namespace]]\nname = 'abcdefghijklmnopqrstuvwxy'", "must have 1 to 24 bytes"),
            ("[[namespace]]\nname = 'a'\n[[namespace]]\nname = 'a'", "is there twice"),
            ("[[namespace]]\nname = 'a'\nslots = 0", "namespace.slots = 0 must be 1 to 67108864"),
            ("[[namespace]]\nname = 'a'\nslots = 67108864\n[[namespace]]\nname = 'b'", "of all namespaces"),
            ("[[namespace]]\nname = 'a'\npolicy = 'first'", "must be fair, read-preferring, write-preferring"),
            ("[[namespace]]\nname = 'a'\npatience = 32", "w.toml: namespace.patience = 32 must be 0 to 31"),
            ("[[namespace]]\nname = 'a'\npatience = -1", "namespace.patience = -1 must be 0 to 31"),
            (
                "[[namespace]]\nname = 'a'\npatience = 0\npolicy = 'write-preferring'",
                "namespace.patience = 0 must be at least 1 with policy = \"write-preferring\": with 0 nobody ever goes",
            ),
            (
                "lease = '3s'\n[[namespace]]\nname = 'a'\nlongest_lease = '2s'",
                "w.toml: namespace.longest_lease = 2s must be 3 s to 3600 s",
            ),
            ("[[namespace]]\nname = 'a'\nkeys = -1", "namespace.keys = -1 must be 0 to 16777216"),
            (
                "[[namespace]]\nname = 'a'\nkeys = 16777216\n[[namespace]]\nname = 'b'",
                "namespace.keys of all namespaces",
            ),
            ("[[namespace]]\nname = 'a'\ngroups = 0", "namespace.groups = 0 must be 1 to 4096"),
            ("[[namespace]]\nslots = 1", "missing field `name`"),
            (
                "[[namespace]]\nname = 'a'\nrate = 0",
                "namespace.rate = 0 must be 1 to 10000000 requests a second; leave",
            ),
            ("[[namespace]]\nname = 'a'\nrate = 10000001", "namespace.rate = 10000001 must be 1 to 10000000"),
            ("[[namespace]]\nname = 'a'\nrate = '1k'", "expected i64"),
            ("[[namespace]]\nname = 'a'\nburst = 100", "namespace.burst = 100 goes with a rate"),
            (
                "[[namespace]]\nname = 'a'\nrate = 1\nburst = 31",
                "namespace.burst = 31 must be 32 to 16777216: a packet",
            ),
            (
                "[[namespace]]\nname = 'a'\nrate = 500000\nburst = 4999",
                "burst = 4999 must be 5000 to 16777216: a packet",
            ),
            ("[[namespace]]\nname = 'a'\nrate = 1\nburst = 16777217", "burst = 16777217 must be 32 to 16777216"),
        ] {
            let failure = file(text).expect_err(text);
            assert!(failure.message.contains(expected), "{text}: {failure}");
            assert_eq!(failure.code, crate::failure::exit::USAGE);
        }
        let flags = Settings { threads: Some(0), ..Settings::default() };
        let failure = flags.over(Settings::default(), None).unwrap_err();
        assert_eq!(failure.message, "error: --threads (or WAYSIDE_THREADS) = 0 must be 1 to 64");
    }
}
