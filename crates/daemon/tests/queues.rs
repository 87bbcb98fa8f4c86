//! Locks whose queues are in the switch, and those of a lock server, with real processes: nothing that a client sees is
//! different, whichever engine a namespace has (docs/queue.md).

mod support;

use std::time::{Duration, Instant};
use support::{Daemon, Running, eventually};

const NAMESPACE: &str = "[[namespace]]\nname = 'default'\nengine = 'queue'\nqueues = ['hot']\ncells = 3\n";
/// Has a queue in the switch, of few cells; the other is the lock server's.
const HOT: &str = "hot";
const COLD: &str = "cold";
const LEASE: Duration = Duration::from_secs(1);

struct World {
    daemon: Daemon,
}

impl World {
    fn new() -> World {
        World::with(&[])
    }

    fn with(flags: &[&str]) -> World {
        World { daemon: Daemon::configured(&format!("lease = '1s'\n{NAMESPACE}"), flags) }
    }

    /// A process that offers itself as lock server.
    fn server(&self) -> Running {
        self.daemon.lock_server(&[])
    }

    /// Handle of the lock server; 0: none.
    fn serving(&self) -> u64 {
        self.namespace()["lock_server"].as_u64().unwrap()
    }

    fn namespace(&self) -> serde_json::Value {
        self.daemon.json("status")["namespaces"][0].clone()
    }

    /// Holds a lock until it is told otherwise. With its token.
    fn hold(&self, name: &str) -> (Running, u64) {
        let holder = self.daemon.hold(&[name, "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN; exec sleep 600"]);
        let token = token(&holder.line());
        (holder, token)
    }

    fn is_free(&self, name: &str) -> bool {
        self.daemon.lock(&[name, "--try", "--", "true"]).code == Some(0)
    }
}

fn token(line: &str) -> u64 {
    line.parse().unwrap_or_else(|_| panic!("{line:?} is no token"))
}

#[test]
fn held_awaited_tried_and_shared_as_any_other_lock() {
    let world = World::new();
    assert_eq!((&world.namespace()["engine"], world.serving()), (&"queue".into(), 0));
    let _server = world.server();
    eventually("it serves", || world.serving() != 0);
    for name in [HOT, COLD] {
        let (holder, first) = world.hold(name);
        assert_eq!(world.daemon.lock(&[name, "--try", "--", "true"]).code, Some(75), "{name}");
        assert_eq!(world.daemon.lock(&[name, "--wait", "300ms", "--", "true"]).code, Some(75), "{name}");
        // More than there are cells: some wait at the lock server.
        let waiters: Vec<Running> =
            (0..4).map(|_| world.daemon.hold(&[name, "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN"])).collect();
        eventually("all wait", || world.daemon.count(name, "waiting") == 4);
        assert_eq!(world.daemon.count(name, "held"), 1, "{name}");
        if name == HOT {
            // Who gave up has a cell until the holder before it is done.
            eventually("status shows the queue", || {
                let queue = &world.namespace()["queues"][0];
                (&queue["name"], &queue["holders"], &queue["waiters"]) == (&HOT.into(), &1.into(), &1.into())
                    && queue["has_more"] == true
            });
        }
        holder.signal(libc::SIGTERM);
        let mut tokens: Vec<u64> = waiters.iter().map(|waiter| token(&waiter.line())).collect();
        tokens.sort_unstable();
        tokens.dedup();
        assert!(tokens.len() == 4 && tokens[0] > first, "{name}: {tokens:?} after {first}");
        let shared = |name| world.daemon.hold(&[name, "--shared", "--", "sh", "-c", "echo shared; exec sleep 600"]);
        let readers = [shared(name), shared(name)];
        readers.iter().for_each(|reader| assert_eq!(reader.line(), "shared"));
        assert!(!world.is_free(name), "{name}");
        drop(readers);
        eventually("the readers' ends are noticed", || world.is_free(name));
    }
}

#[test]
fn a_holder_that_is_killed_leaves_its_lock_to_the_next_at_once() {
    let world = World::with(&["--lease", "20s"]);
    let _server = world.server();
    eventually("it serves", || world.serving() != 0);
    for name in [HOT, COLD] {
        let (holder, _) = world.hold(name);
        let waiter = world.daemon.hold(&[name, "--", "echo", "mine"]);
        eventually("it waits", || world.daemon.count(name, "waiting") == 1);
        let killed = Instant::now();
        holder.signal(libc::SIGKILL);
        assert_eq!(waiter.line(), "mine");
        assert!(killed.elapsed() < Duration::from_secs(10), "{name}: {:?}, which is by the lease", killed.elapsed());
    }
}

#[test]
fn a_lock_server_that_is_killed_has_a_successor_and_whoever_holds_goes_on() {
    let world = World::new();
    let server = world.server();
    eventually("it serves", || world.serving() != 0);
    let first = world.serving();
    let _standby = world.server();
    let (mut cold, before) = world.hold(COLD);
    let (mut hot, _) = world.hold(HOT);
    let waiter = world.daemon.hold(&[COLD, "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN"]);
    // In the second cell, and where there is none: what waits with the server is asked for again.
    let queued: Vec<Running> = (0..3).map(|_| world.daemon.hold(&[HOT, "--", "echo", "mine"])).collect();
    eventually("all wait", || world.daemon.count(HOT, "waiting") == 3 && world.daemon.count(COLD, "waiting") == 1);

    server.signal(libc::SIGKILL);
    eventually("another one serves", || ![0, first].contains(&world.serving()));
    // Longer than the successor waits for those who hold.
    std::thread::sleep(3 * LEASE);
    assert!(cold.is_running() && hot.is_running(), "they hold what they held");
    assert_eq!(world.daemon.count(COLD, "held"), 1);
    assert!(!world.is_free(COLD) && !world.is_free(HOT));

    cold.signal(libc::SIGTERM);
    let after = token(&waiter.line());
    assert!(after > before, "{after} after {before}");
    hot.signal(libc::SIGTERM);
    queued.iter().for_each(|waiter| assert_eq!(waiter.line(), "mine"));
}

#[test]
fn a_hold_that_no_lock_server_renews_ends_with_its_session() {
    let world = World::new();
    let server = world.server();
    eventually("it serves", || world.serving() != 0);
    let (cold, _) = world.hold(COLD);
    let (mut hot, _) = world.hold(HOT);
    server.signal(libc::SIGKILL);
    assert_eq!(cold.wait().code(), Some(76), "lost");
    assert!(hot.is_running(), "the switch has that one");
}

#[test]
fn a_switch_that_begins_anew_ends_what_is_held_and_serves_on() {
    let mut world = World::new();
    let _server = world.server();
    eventually("it serves", || world.serving() != 0);
    let (cold, before_cold) = world.hold(COLD);
    let (hot, before_hot) = world.hold(HOT);
    let waiter = world.daemon.hold(&[HOT, "--wait", "60s", "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN"]);
    eventually("it waits", || world.daemon.count(HOT, "waiting") == 1);
    world.daemon.kill();
    world.daemon.restart();
    assert_eq!((cold.wait().code(), hot.wait().code()), (Some(76), Some(76)), "no hold outlives its epoch");
    assert!(token(&waiter.line()) > before_hot, "who only waited goes on");
    eventually("the lock server is back", || world.serving() != 0);
    let (_holder, after) = world.hold(COLD);
    assert!(after > before_cold, "{after} after {before_cold}");
}

#[test]
fn another_engine_ends_what_is_held_by_the_one_before() {
    let mut world = World::new();
    for text in ["[[namespace]]\nname = 'default'\n", NAMESPACE] {
        world.daemon.configure(&format!("lease = '1s'\n{text}"));
        let (held, before) = world.hold(HOT);
        world.daemon.kill();
        world.daemon.restart();
        assert_eq!(held.wait().code(), Some(76));
        let (holder, after) = world.hold(HOT);
        assert!(after > before, "{after} after {before}");
        holder.signal(libc::SIGTERM);
        holder.wait();
    }
}

#[test]
fn a_configuration_that_cannot_be_is_told() {
    for (text, wanted) in [
        ("queues = ['a']", "goes with engine"),
        ("engine = 'queues'", "must be fission, queue"),
        ("engine = 'queue'\nqueues = ['a', 'a']", "is there twice"),
        ("engine = 'queue'\nqueues = ['']", "it is empty"),
        ("engine = 'queue'\nqueues = ['a']\ncells = 1025", "1024"),
    ] {
        let ended = support::check_config(&format!("[[namespace]]\nname = 'a'\n{text}\n"));
        assert!(ended.code == Some(64) && ended.stderr.contains(wanted), "{text}: {ended:?}");
    }
}

/// The same decisions in the kernel: two hosts that want the same locks, and one of them serves those without a queue.
#[cfg(feature = "xdp")]
#[test]
fn at_the_hook() {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use support::world::SWITCH;

    const ROUNDS: u64 = 300;
    let Some(world) = support::world::World::or_skip(1) else { return };
    let directory = tempfile::tempdir().unwrap();
    let configuration = directory.path().join("wayside.toml");
    // One process is the lock server of all parts, which the program tells apart.
    std::fs::write(&configuration, format!("{NAMESPACE}servers = 3\n")).unwrap();
    let (_daemon, line) = world.daemon_with("native", &["--config", configuration.to_str().unwrap()]);
    assert!(line.contains("native XDP"), "{line}");
    let mut command = support::wayside(&["node", "serve-locks", "--endpoint", SWITCH]);
    world.clients[0].enter(&mut command);
    let server = Running::start(command);
    assert!(server.line().starts_with("lock server: node"));
    eventually("it serves", || world.status()["namespaces"][0]["lock_server"] != 0);
    let counts: [AtomicU64; 2] = Default::default();
    std::thread::scope(|scope| {
        for client in 0..2 {
            let (world, counts) = (&world, &counts);
            scope.spawn(move || {
                let session = world.session(client);
                let mut latest = [0; 2];
                for round in 0..ROUNDS {
                    let at = (round % 2) as usize;
                    let guard = session.lock([HOT, COLD][at]).acquire().expect("a grant");
                    assert!(guard.token().0 > latest[at], "tokens rise");
                    latest[at] = guard.token().0;
                    // Not one addition: two holders at a time would lose one.
                    let before = counts[at].load(SeqCst);
                    std::thread::yield_now();
                    counts[at].store(before + 1, SeqCst);
                }
            });
        }
    });
    assert_eq!(counts.map(AtomicU64::into_inner), [ROUNDS; 2]);
    assert!(world.count("queue_granted") >= ROUNDS, "the hook grants");
    assert!(world.count("queue_passed") >= ROUNDS, "and passes on");
}
