//! Wayside itself: a switch daemon, and a session for each node. Its clients are tasks, as everybody's, or threads that
//! block, each with a reply port of its own: what a program does that wants the shortest way.

use super::{About, Conditions, Contestant, Entry};
use crate::Error;
use crate::contest::driver::{Course, Node, Outcome, drive};
use crate::contest::service::{Grant, LockService, Refusal};
use crate::recovery::switches::Switch;
use std::thread;
use std::time::{Duration, Instant};
use wayside_client::{Error as LockError, Guard, LockRequest, Mode, Session, Wait};

/// As many locks of a workload, from the first on, have a slot of their own; others share them.
const SLOTS: u64 = 1 << 21;
/// Longer than a busy machine keeps a session's thread from running.
const LEASE: Duration = Duration::from_secs(10);
/// For the last releases of a run.
const SETTLE_MOST: Duration = Duration::from_secs(5);

/// What clients are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clients {
    Tasks,
    Threads,
}

fn about(name: &str, endpoint: &str, clients: Clients) -> About {
    let (name, client) = match clients {
        Clients::Tasks => (name.into(), "wayside-client, async; release is sent, not waited for"),
        Clients::Threads => {
            (format!("{name}-threads"), "wayside-client, blocking, a thread for each client; release is not waited for")
        }
    };
    About {
        name,
        version: format!("Wayside {}", env!("CARGO_PKG_VERSION")),
        client: client.into(),
        endpoint: endpoint.into(),
        members: 1,
        durability: "none: locks are rebuilt from their holders; epochs and sessions on disk".into(),
        batching: "none: a packet for each request".into(),
        modes: "shared and exclusive; queued, first come first served".into(),
    }
}

fn connect(endpoint: &str) -> Result<Session, Error> {
    let session = Session::builder().endpoint(endpoint).namespace("default").wait(Wait::Block).lease(LEASE);
    session.patience(Duration::from_secs(10)).connect().map_err(|error| error.to_string())
}

/// Runs it with clients of this kind; `enter` brings the calling thread to a node's place.
fn run(
    clients: Clients,
    endpoint: &str,
    course: &Course<'_>,
    server: Option<u32>,
    enter: impl Fn(usize) + Sync,
) -> Result<Outcome, Error> {
    let servers: Vec<u32> = server.into_iter().collect();
    match clients {
        Clients::Tasks => {
            drive(course, &servers, |node| enter(node.index), async |_| Ok(Tasks { session: connect(endpoint)? }))
        }
        Clients::Threads => {
            let at_place = |node: usize| {
                thread::scope(|scope| {
                    let connected = scope.spawn(|| {
                        enter(node);
                        connect(endpoint)
                    });
                    connected.join().unwrap_or_else(|_| Err("a node's thread panicked".into()))
                })
            };
            let sessions = (0..course.nodes).map(at_place).collect::<Result<Vec<_>, Error>>()?;
            // A thread for each client is a node to the driver; sessions are dealt out in turn.
            let each = Course { nodes: course.clients, ..*course };
            let of = |node: Node| node.index % sessions.len();
            let outcome =
                drive(&each, &servers, |node| enter(of(node)), async |node| Ok(Blocking(&sessions[of(node)])));
            sessions.iter().for_each(settle);
            outcome
        }
    }
}

/// The next run begins with nothing under way.
fn settle(session: &Session) {
    let began = Instant::now();
    while !session.is_idle() && began.elapsed() < SETTLE_MOST {
        thread::sleep(Duration::from_millis(1));
    }
}

fn granted(acquired: Result<Guard, LockError>) -> Result<Grant<Guard>, Refusal> {
    match acquired {
        Ok(guard) => {
            let token = (guard.mode() == Mode::Exclusive).then_some(guard.token().0);
            Ok(Grant { held: guard, token })
        }
        Err(LockError::TimedOut) => Err(Refusal::TimedOut),
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
    clients: Clients,
    switch: Switch,
}

pub(super) fn userspace(conditions: &Conditions<'_>) -> Result<Entry, Error> {
    in_userspace(conditions, Clients::Tasks)
}

pub(super) fn userspace_threads(conditions: &Conditions<'_>) -> Result<Entry, Error> {
    in_userspace(conditions, Clients::Threads)
}

fn in_userspace(conditions: &Conditions<'_>, clients: Clients) -> Result<Entry, Error> {
    let switch = Switch::start(conditions.wayside, SLOTS, None, "error")?;
    let about = about("wayside-userspace", "UDP on loopback, a switch in userspace, one thread", clients);
    Ok(Entry::Runs(Box::new(Userspace { about, clients, switch })))
}

impl Contestant for Userspace {
    fn about(&self) -> &About {
        &self.about
    }

    fn run(&self, course: &Course<'_>) -> Result<Outcome, Error> {
        run(self.clients, &self.switch.address.to_string(), course, self.switch.id(), |_| {})
    }
}

#[cfg(not(feature = "xdp"))]
pub(super) fn hook(_: &Conditions<'_>) -> Result<Entry, Error> {
    Ok(Entry::LeftOut("this was built without the feature `xdp`, which needs clang and libelf".into()))
}

#[cfg(not(feature = "xdp"))]
pub(super) use hook as hook_threads;

#[cfg(feature = "xdp")]
pub(super) use at_hook::{hook, hook_threads};

#[cfg(feature = "xdp")]
mod at_hook {
    use super::{About, Clients, Conditions, Contestant, Course, Entry, Error, Outcome, SLOTS, about, run};
    use crate::recovery::switches::{Directory, Process, await_that, without_settings};
    use std::fs;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use std::time::Duration;
    use wayside_hosts::{Host, Program};

    const PATIENCE: Duration = Duration::from_secs(5);
    /// A switch's pins are named by where it listens: two that run at once need two ports.
    const SWITCH: [&str; 2] = ["10.78.0.1:7620", "10.78.0.1:7630"];
    const ADMIN: &str = "10.78.0.1:7601";

    /// A host for the switch and one for each node, joined by veth. On veth the switch's program runs within the
    /// sender's own call.
    struct AtHook {
        about: About,
        clients: Clients,
        process: Process,
        nodes: Vec<Host>,
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
        at_hook(conditions, Clients::Tasks)
    }

    pub(in super::super) fn hook_threads(conditions: &Conditions<'_>) -> Result<Entry, Error> {
        at_hook(conditions, Clients::Threads)
    }

    fn at_hook(conditions: &Conditions<'_>, clients: Clients) -> Result<Entry, Error> {
        if let Some(why) = wayside_hosts::missing() {
            return Ok(Entry::LeftOut(why));
        }
        let (switch, nodes) = hosts(conditions.nodes).map_err(|error| format!("no hosts: {error}"))?;
        // What a native program sends back arrives only where there is another one.
        let passes = nodes.iter().map(|node| node.pass("wayside0")).collect::<Result<Vec<_>, _>>();
        let passes = match passes {
            Ok(passes) => passes,
            Err(error) => return Ok(Entry::LeftOut(format!("no XDP on veth: {error}"))),
        };
        let directory = Directory::new()?;
        let at = |name: &str| directory.path().join(name);
        let config = format!("[[namespace]]\nname = \"default\"\nslots = {SLOTS}\n");
        fs::write(at("switch.toml"), config).map_err(|error| error.to_string())?;
        let address = SWITCH[clients as usize];
        let interfaces: Vec<String> = (0..nodes.len()).map(|index| format!("port{index}")).collect();
        let mut command = Command::new(conditions.wayside);
        command.args(["--log", "error", "switch", "--mode", "native", "--authentication", "off"]);
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
        let about = about("wayside-hook", endpoint, clients);
        let runs = AtHook { about, clients, process, nodes, _passes: passes, _switch: switch, _directory: directory };
        Ok(Entry::Runs(Box::new(runs)))
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
            run(self.clients, SWITCH[self.clients as usize], course, Some(self.process.id()), |node| {
                self.nodes[node].move_here().expect("whoever made a host may enter it");
            })
        }
    }
}
