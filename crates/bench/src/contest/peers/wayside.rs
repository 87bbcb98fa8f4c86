//! Wayside itself: a switch daemon, and a session for each node. Its clients are tasks, as everybody's, or threads that
//! block, each with a reply port of its own: what a program does that wants the shortest way. Its locks are with
//! agents; or they are queues, the most asked for in the switch by a plan (NetLock) and the rest with one lock server
//! behind it; or all with that lock server (SrvLock), or with several that have a part each (ParLock).

use super::{About, Conditions, Contestant, Entry, line_of};
use crate::Error;
use crate::contest::driver::{Course, Node, Outcome, drive};
use crate::contest::service::{Grant, LockService, Refusal};
use crate::recovery::switches::{Process, Switch, without_settings};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use wayside_client::{Error as LockError, Guard, LockRequest, Mode, Session, Wait};
use wayside_protocol::memory::Part;

/// As many locks of a workload, from the first on, have a slot of their own; others share them.
const SLOTS: u64 = 1 << 21;
/// Longer than a busy machine keeps a session's thread from running.
const LEASE: Duration = Duration::from_secs(10);
/// For the last releases of a run.
const SETTLE_MOST: Duration = Duration::from_secs(5);

/// How Wayside takes part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Variety {
    /// Clients are tasks, whose runtime reads for them.
    Tasks,
    /// Clients are tasks, for whom their session's own thread reads.
    Undriven,
    /// Clients are threads.
    Threads,
    /// Clients are tasks, and locks are queues: in the switch, or with one lock server.
    Queues,
    /// Clients are tasks, and every lock is with one lock server.
    Server,
    /// Clients are tasks, and every lock is with one of several lock servers.
    Parlock,
    /// Clients are tasks of hosts that have enrolled, and every packet is signed: the product's default.
    #[cfg_attr(not(feature = "xdp"), allow(dead_code, reason = "measured at the hook alone"))]
    Signed,
}

/// Of a run whose locks are queues, before it counts: a plan follows what is asked for within some seconds.
pub(super) const LEARNING: Duration = Duration::from_secs(4);

/// Lock servers of [`Variety::Parlock`]: as many as nodes with clients, and as processors.
const PARTS: usize = 2;

impl Variety {
    fn lock_servers(self) -> usize {
        match self {
            Variety::Tasks | Variety::Undriven | Variety::Threads | Variety::Signed => 0,
            Variety::Queues | Variety::Server => 1,
            Variety::Parlock => PARTS,
        }
    }

    /// Of its namespace.
    fn settings(self) -> String {
        match self {
            Variety::Tasks | Variety::Undriven | Variety::Threads | Variety::Signed => format!("slots = {SLOTS}"),
            Variety::Queues => "engine = \"queue\"\nplan = \"knapsack\"\nroom = 65536\ncells = 256".into(),
            // None is popular: the switch sends all of them on.
            Variety::Server => "engine = \"queue\"".into(),
            Variety::Parlock => format!("engine = \"queue\"\nservers = {PARTS}"),
        }
    }
}

/// What a service was started with: its namespace as the switch's file has it, each of its processes as the kernel has
/// it, since others put a part of that together, and for how long clients' locks outlive them.
fn started_with(variety: Variety, processes: impl Iterator<Item = u32>) -> Result<String, Error> {
    let mut parts = vec![format!("namespace: {}", variety.settings().replace('\n', ", "))];
    for id in processes {
        let file = format!("/proc/{id}/cmdline");
        let line = fs::read(&file).map_err(|error| format!("{file}: {error}"))?;
        parts.push(line_of(String::from_utf8_lossy(&line).trim_end_matches('\0').split('\0')));
    }
    parts.push(format!("a session's lease {LEASE:?}"));
    Ok(parts.join("; "))
}

fn about(name: &str, endpoint: &str, variety: Variety, settings: String) -> About {
    let tasks = "wayside-client, async, with a driver on Tokio; release is sent, not waited for";
    let undriven = "wayside-client, async; release is sent, not waited for";
    let threads = "wayside-client, blocking, a thread for each client; release is not waited for";
    let batching = match variety {
        Variety::Threads => "none: a packet for each request, a system call for each packet",
        Variety::Undriven => "none: a packet for each request; answers are taken together",
        _ => {
            "by system call: those of a node's tasks go out, and come in, together when they are ready together; a packet \
             for each request"
        }
    };
    let rebuilt = "none: locks are rebuilt from their holders; epochs and sessions on disk";
    let ends = "none: a lock server's loss ends its holders' sessions";
    let queues = "; queues of what is asked for most in its memory by a plan, 65,536 cells, the rest with one lock server \
                  (NetLock)";
    let server = ", and behind it one lock server that has every lock (SrvLock)";
    let parlock = format!(", and behind it {PARTS} lock servers that have a part of the locks each (ParLock)");
    let (kind, client, behind, durability) = match variety {
        Variety::Tasks => ("", tasks, "", rebuilt),
        Variety::Undriven => ("-undriven", undriven, "", rebuilt),
        Variety::Threads => ("-threads", threads, "", rebuilt),
        Variety::Queues => ("-queues", tasks, queues, ends),
        Variety::Server => ("-server", tasks, server, ends),
        Variety::Parlock => ("-parlock", tasks, parlock.as_str(), ends),
        Variety::Signed => ("-signed", tasks, "", rebuilt),
    };
    let signs = match variety {
        Variety::Signed => {
            "authentication on: hosts enrol over mTLS, every packet has a tag that is checked, both ways"
        }
        _ => "authentication off: packets are not signed",
    };
    About {
        name: format!("{name}{kind}"),
        version: format!("Wayside {}", env!("CARGO_PKG_VERSION")),
        client: format!("{client}; {signs}"),
        endpoint: format!("{endpoint}{behind}"),
        members: 1,
        durability: durability.into(),
        batching: batching.into(),
        modes: "shared and exclusive; queued, first come first served".into(),
        settings,
    }
}

/// `credentials`: of a switch that this host has joined.
fn connect(endpoint: &str, credentials: Option<&Path>) -> Result<Session, Error> {
    let mut session = Session::builder().keep(0).endpoint(endpoint).namespace("default").wait(Wait::Block).lease(LEASE);
    if let Some(directory) = credentials {
        session = session.credentials(directory);
    }
    session.patience(Duration::from_secs(10)).connect().map_err(|error| error.to_string())
}

/// A lock server of the switch that listens there; `enter` brings it to its host.
pub(crate) fn lock_server(program: &Path, endpoint: &str, enter: impl FnOnce(&mut Command)) -> Result<Process, Error> {
    let mut command = Command::new(program);
    command.args(["--log", "error", "node", "serve-locks", "--endpoint", endpoint]);
    without_settings(&mut command).stdin(Stdio::null()).stdout(Stdio::piped());
    enter(&mut command);
    let mut process = Process::start(command)?;
    let said = process.child().stdout.take().and_then(|out| BufReader::new(out).lines().next());
    match said {
        Some(Ok(_)) => Ok(process),
        _ => Err("the lock server did not begin".into()),
    }
}

/// How long until every part has its lock server, at most.
const PARTED: Duration = Duration::from_secs(10);

/// The parts, if there are any, are given away: a lock of each is to be had.
fn await_parts(endpoint: &str, parts: usize) -> Result<(), Error> {
    if parts == 0 {
        return Ok(());
    }
    let session = connect(endpoint, None)?;
    for part in 0..parts as u16 {
        let name = (0..).find(|&name: &u64| Part::of_name(name, parts as u16).number == part).expect("a name of it");
        let guard = request(&session, name, Mode::Exclusive, Instant::now() + PARTED).acquire();
        guard.and_then(Guard::release).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Where its switch is, and what each node needs for it.
struct Way<'w> {
    endpoint: &'w str,
    /// Of each node, where packets are signed.
    credentials: &'w [PathBuf],
}

impl Way<'_> {
    fn connect(&self, node: usize) -> Result<Session, Error> {
        connect(self.endpoint, self.credentials.get(node).map(PathBuf::as_path))
    }
}

/// Runs it; `servers`: processes of the service; `enter` brings the calling thread to a node's place.
fn run(
    variety: Variety,
    way: &Way<'_>,
    course: &Course<'_>,
    servers: &[u32],
    enter: impl Fn(usize) + Sync,
) -> Result<Outcome, Error> {
    match variety {
        Variety::Tasks | Variety::Undriven | Variety::Queues | Variety::Server | Variety::Parlock | Variety::Signed => {
            drive(
                course,
                servers,
                |node| enter(node.index),
                async |node: Node| {
                    let session = way.connect(node.index)?;
                    if variety != Variety::Undriven {
                        tokio::spawn(session.driver());
                    }
                    Ok(Tasks { session })
                },
            )
        }
        Variety::Threads => {
            let at_place = |node: usize| {
                thread::scope(|scope| {
                    let connected = scope.spawn(|| {
                        enter(node);
                        way.connect(node)
                    });
                    connected.join().unwrap_or_else(|_| Err("a node's thread panicked".into()))
                })
            };
            let sessions = (0..course.nodes).map(at_place).collect::<Result<Vec<_>, Error>>()?;
            // A thread for each client is a node to the driver; sessions are dealt out in turn.
            let each = Course { nodes: course.clients, ..*course };
            let of = |node: Node| node.index % sessions.len();
            let outcome = drive(&each, servers, |node| enter(of(node)), async |node| Ok(Blocking(&sessions[of(node)])));
            sessions.iter().for_each(settle);
            outcome
        }
    }
}

/// The next run begins with nothing under way.
pub(crate) fn settle(session: &Session) {
    let began = Instant::now();
    while !session.is_idle() && began.elapsed() < SETTLE_MOST {
        thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn granted(acquired: Result<Guard, LockError>) -> Result<Grant<Guard>, Refusal> {
    match acquired {
        Ok(guard) => {
            let token = (guard.mode() == Mode::Exclusive).then_some(guard.token().0);
            Ok(Grant { held: guard, token })
        }
        Err(LockError::TimedOut | LockError::OverBudget) => Err(Refusal::TimedOut),
        Err(error) => Err(Refusal::failed(error)),
    }
}

fn request(session: &Session, lock: u64, mode: Mode, until: Instant) -> LockRequest<'_, 'static> {
    let request = session.lock(lock).wait(until.saturating_duration_since(Instant::now()));
    if mode == Mode::Shared { request.shared() } else { request }
}

struct Tasks {
    session: Session,
}

/// The only client of its thread, which may wait.
struct Blocking<'s>(&'s Session);

impl LockService for Blocking<'_> {
    type Held = Guard;

    async fn acquire(&self, _: usize, lock: u64, mode: Mode, until: Instant) -> Result<Grant<Guard>, Refusal> {
        granted(request(self.0, lock, mode, until).acquire())
    }

    async fn release(&self, _: usize, guard: Guard) -> Result<(), Error> {
        guard.release().map_err(|error| error.to_string())
    }
}

impl LockService for Tasks {
    type Held = Guard;

    async fn acquire(&self, _: usize, lock: u64, mode: Mode, until: Instant) -> Result<Grant<Guard>, Refusal> {
        granted(request(&self.session, lock, mode, until).acquire_async().await)
    }

    async fn release(&self, _: usize, guard: Guard) -> Result<(), Error> {
        guard.release().map_err(|error| error.to_string())
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        settle(&self.session);
    }
}

/// On loopback, without privileges.
struct Userspace {
    about: About,
    variety: Variety,
    lock_servers: Vec<Process>,
    switch: Switch,
}

pub(super) fn userspace(conditions: &Conditions<'_>) -> Result<Entry, Error> {
    in_userspace(conditions, Variety::Tasks)
}

pub(super) fn userspace_threads(conditions: &Conditions<'_>) -> Result<Entry, Error> {
    in_userspace(conditions, Variety::Threads)
}

pub(super) fn userspace_queues(conditions: &Conditions<'_>) -> Result<Entry, Error> {
    in_userspace(conditions, Variety::Queues)
}

pub(super) fn userspace_server(conditions: &Conditions<'_>) -> Result<Entry, Error> {
    in_userspace(conditions, Variety::Server)
}

pub(super) fn userspace_parlock(conditions: &Conditions<'_>) -> Result<Entry, Error> {
    in_userspace(conditions, Variety::Parlock)
}

fn in_userspace(conditions: &Conditions<'_>, variety: Variety) -> Result<Entry, Error> {
    let switch = Switch::start_with(conditions.wayside, &variety.settings(), None, "error")?;
    let address = switch.address.to_string();
    let serve = |_| lock_server(conditions.wayside, &address, |_| {});
    let lock_servers = (0..variety.lock_servers()).map(serve).collect::<Result<Vec<_>, _>>()?;
    await_parts(&address, lock_servers.len())?;
    let settings = started_with(variety, switch.id().into_iter().chain(lock_servers.iter().map(Process::id)))?;
    let about = about("wayside-userspace", "UDP on loopback, a switch in userspace, one thread", variety, settings);
    Ok(Entry::Runs(Box::new(Userspace { about, variety, lock_servers, switch })))
}

impl Contestant for Userspace {
    fn about(&self) -> &About {
        &self.about
    }

    fn run(&self, course: &Course<'_>) -> Result<Outcome, Error> {
        let servers: Vec<u32> = self.switch.id().into_iter().chain(self.lock_servers.iter().map(Process::id)).collect();
        let way = Way { endpoint: &self.switch.address.to_string(), credentials: &[] };
        run(self.variety, &way, course, &servers, |_| {})
    }
}

#[cfg(not(feature = "xdp"))]
pub(super) fn hook(_: &Conditions<'_>) -> Result<Entry, Error> {
    Ok(Entry::LeftOut("this was built without the feature `xdp`, which needs clang and libelf".into()))
}

#[cfg(not(feature = "xdp"))]
pub(super) use {
    hook as hook_parlock, hook as hook_queues, hook as hook_server, hook as hook_signed, hook as hook_threads,
    hook as hook_undriven,
};

#[cfg(feature = "xdp")]
pub(super) use at_hook::{hook, hook_parlock, hook_queues, hook_server, hook_signed, hook_threads, hook_undriven};

#[cfg(feature = "xdp")]
mod at_hook {
    use super::{
        About, Conditions, Contestant, Course, Entry, Error, Outcome, Variety, Way, about, await_parts, lock_server,
        run, started_with,
    };
    use crate::recovery::switches::{Directory, Process, await_that, without_settings};
    use crate::wayside::join;
    use std::fs;
    use std::io::{BufRead, BufReader};
    use std::iter::once;
    use std::path::PathBuf;
    use std::process::{Command, Stdio};
    use std::time::Duration;
    use wayside_hosts::{Host, Program};

    const PATIENCE: Duration = Duration::from_secs(5);
    /// A switch's pins are named by where it listens: those that run at once need a port each.
    const SWITCH: [&str; 7] = [
        "10.78.0.1:7620",
        "10.78.0.1:7630",
        "10.78.0.1:7640",
        "10.78.0.1:7650",
        "10.78.0.1:7660",
        "10.78.0.1:7670",
        "10.78.0.1:7680",
    ];
    const ADMIN: &str = "10.78.0.1:7601";

    /// A host for the switch, one for each node and one for each lock server, joined by veth. On veth the switch's
    /// program runs within the sender's own call.
    struct AtHook {
        about: About,
        variety: Variety,
        lock_servers: Vec<Process>,
        process: Process,
        nodes: Vec<Host>,
        /// Of each of them, where packets are signed.
        credentials: Vec<PathBuf>,
        _passes: Vec<Program>,
        _switch: Host,
        _directory: Directory,
    }

    impl Drop for AtHook {
        /// In order, so that it takes its pins with it.
        fn drop(&mut self) {
            self.process.signal(libc::SIGTERM);
            let process = &mut self.process;
            let has_ended = || process.child().try_wait().is_ok_and(|end| end.is_some());
            // One that does not is killed.
            let _ = await_that("the switch ends", PATIENCE, has_ended);
        }
    }

    pub(in super::super) fn hook(conditions: &Conditions<'_>) -> Result<Entry, Error> {
        at_hook(conditions, Variety::Tasks)
    }

    pub(in super::super) fn hook_threads(conditions: &Conditions<'_>) -> Result<Entry, Error> {
        at_hook(conditions, Variety::Threads)
    }

    pub(in super::super) fn hook_undriven(conditions: &Conditions<'_>) -> Result<Entry, Error> {
        at_hook(conditions, Variety::Undriven)
    }

    pub(in super::super) fn hook_queues(conditions: &Conditions<'_>) -> Result<Entry, Error> {
        at_hook(conditions, Variety::Queues)
    }

    pub(in super::super) fn hook_server(conditions: &Conditions<'_>) -> Result<Entry, Error> {
        at_hook(conditions, Variety::Server)
    }

    pub(in super::super) fn hook_parlock(conditions: &Conditions<'_>) -> Result<Entry, Error> {
        at_hook(conditions, Variety::Parlock)
    }

    pub(in super::super) fn hook_signed(conditions: &Conditions<'_>) -> Result<Entry, Error> {
        at_hook(conditions, Variety::Signed)
    }

    fn at_hook(conditions: &Conditions<'_>, variety: Variety) -> Result<Entry, Error> {
        if let Some(why) = wayside_hosts::missing() {
            return Ok(Entry::LeftOut(why));
        }
        let (switch, nodes) =
            hosts(conditions.nodes + variety.lock_servers()).map_err(|error| format!("no hosts: {error}"))?;
        // What a native program sends back arrives only where there is another one.
        let passes = nodes.iter().map(|node| node.pass("wayside0")).collect::<Result<Vec<_>, _>>();
        let passes = match passes {
            Ok(passes) => passes,
            Err(error) => return Ok(Entry::LeftOut(format!("no XDP on veth: {error}"))),
        };
        let directory = Directory::new()?;
        let at = |name: &str| directory.path().join(name);
        let config = format!("[[namespace]]\nname = \"default\"\n{}\n", variety.settings());
        fs::write(at("switch.toml"), config).map_err(|error| error.to_string())?;
        let address = SWITCH[variety as usize];
        let interfaces: Vec<String> = (0..nodes.len()).map(|index| format!("port{index}")).collect();
        let mut command = Command::new(conditions.wayside);
        let signs = if variety == Variety::Signed { "on" } else { "off" };
        command.args(["--log", "error", "switch", "--mode", "native", "--authentication", signs]);
        command.args(["--listen", address, "--admin-listen", ADMIN, "--interfaces", &interfaces.join(",")]);
        command.arg("--config").arg(at("switch.toml")).arg("--state-dir").arg(at("state"));
        command.arg("--control-socket").arg(at("control.sock"));
        without_settings(&mut command).stdin(Stdio::null()).stdout(Stdio::piped());
        switch.enter(&mut command);
        let mut process = Process::start(command)?;
        let said = process.child().stdout.take().and_then(|out| BufReader::new(out).lines().next());
        let said = said.and_then(Result::ok).unwrap_or_default();
        if !said.contains(address) {
            return Err(format!("the switch did not say where it is, but {said:?}"));
        }
        let endpoint = "UDP over veth between namespaces, a switch at the XDP hook (native)";
        let hosts = &nodes[conditions.nodes..];
        let serve = |host: &Host| lock_server(conditions.wayside, address, |command| host.enter(command));
        let lock_servers = hosts.iter().map(serve).collect::<Result<Vec<_>, _>>()?;
        nodes[0].within(|| await_parts(address, lock_servers.len()))?;
        let settings = started_with(variety, once(process.id()).chain(lock_servers.iter().map(Process::id)))?;
        let about = about("wayside-hook", endpoint, variety, settings);
        let mut credentials = Vec::new();
        for (index, node) in nodes[..conditions.nodes].iter().enumerate().filter(|_| variety == Variety::Signed) {
            let own = at(&format!("credentials{index}"));
            let place = |command: &mut Command| {
                node.enter(without_settings(command));
            };
            join(conditions.wayside, &at("state"), &own, place)?;
            credentials.push(own);
        }
        Ok(Entry::Runs(Box::new(AtHook {
            about,
            variety,
            lock_servers,
            process,
            nodes,
            credentials,
            _passes: passes,
            _switch: switch,
            _directory: directory,
        })))
    }

    fn hosts(count: usize) -> std::io::Result<(Host, Vec<Host>)> {
        let switch = Host::new()?;
        let mut nodes = Vec::new();
        for index in 0..count {
            let node = Host::new()?;
            node.join("wayside0", &switch, &format!("port{index}"), 1)?;
            switch.ip(&format!("addr add 10.78.{index}.1/24 dev port{index}"))?;
            node.ip(&format!("addr add 10.78.{index}.2/24 dev wayside0"))?;
            if index > 0 {
                node.ip(&format!("route add 10.78.0.0/24 via 10.78.{index}.1"))?;
            }
            nodes.push(node);
        }
        Ok((switch, nodes))
    }

    impl Contestant for AtHook {
        fn about(&self) -> &About {
            &self.about
        }

        fn run(&self, course: &Course<'_>) -> Result<Outcome, Error> {
            let servers: Vec<u32> = once(self.process.id()).chain(self.lock_servers.iter().map(Process::id)).collect();
            let way = Way { endpoint: SWITCH[self.variety as usize], credentials: &self.credentials };
            run(self.variety, &way, course, &servers, |node| {
                self.nodes[node].move_here().expect("whoever made a host may enter it");
            })
        }
    }
}
