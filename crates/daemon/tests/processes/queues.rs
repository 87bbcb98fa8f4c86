//! Locks whose queues are in the switch, and those of a lock server, with real processes: nothing that a client sees is
//! different, whichever engine a namespace has (docs/queue.md).

use crate::support;

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
}

#[test]
fn held_awaited_tried_and_shared_as_any_other_lock() {
    let world = World::new();
    assert_eq!((&world.namespace()["engine"], world.serving()), (&"queue".into(), 0));
    let _server = world.server();
    eventually("it serves", || world.serving() != 0);
    for name in [HOT, COLD] {
        let (holder, first) = world.daemon.hold_with_token(name);
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
        let mut tokens: Vec<u64> = waiters.iter().map(|waiter| waiter.token()).collect();
        tokens.sort_unstable();
        tokens.dedup();
        assert!(tokens.len() == 4 && tokens[0] > first, "{name}: {tokens:?} after {first}");
        let shared = |name| world.daemon.hold(&[name, "--shared", "--", "sh", "-c", "echo shared; exec sleep 600"]);
        let readers = [shared(name), shared(name)];
        readers.iter().for_each(|reader| assert_eq!(reader.line(), "shared"));
        assert!(!world.daemon.is_free(name), "{name}");
        drop(readers);
        eventually("the readers' ends are noticed", || world.daemon.is_free(name));
    }
}

#[test]
fn a_holder_that_is_killed_leaves_its_lock_to_the_next_at_once() {
    let world = World::with(&["--lease", "20s"]);
    let _server = world.server();
    eventually("it serves", || world.serving() != 0);
    for name in [HOT, COLD] {
        let (holder, _) = world.daemon.hold_with_token(name);
        let waiter = world.daemon.hold(&[name, "--", "echo", "mine"]);
        eventually("it waits", || world.daemon.count(name, "waiting") == 1);
        let killed = Instant::now();
        holder.signal(libc::SIGKILL);
        assert_eq!(waiter.line(), "mine");
        assert!(killed.elapsed() < Duration::from_secs(10), "{name}: {:?}, which is by the lease", killed.elapsed());
    }
}

/// Its lease ends its hold, wherever that is: the next one has a higher token, and whoever wakes is told.
#[test]
fn a_holder_that_is_paused_beyond_its_lease_has_lost_its_lock() {
    let world = World::new();
    let _server = world.server();
    eventually("it serves", || world.serving() != 0);
    for name in [HOT, COLD] {
        let (holder, before) = world.daemon.hold_with_token(name);
        let waiter = world.daemon.hold(&[name, "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN; exec sleep 600"]);
        eventually("it waits", || world.daemon.count(name, "waiting") == 1);
        holder.signal(libc::SIGSTOP);
        let after = waiter.token();
        assert!(after > before, "{name}: {after} after {before}");
        holder.signal(libc::SIGCONT);
        assert_eq!(holder.wait().code(), Some(76), "{name}: lost");
        assert!(!world.daemon.is_free(name), "{name}: the next one holds it");
    }
}

#[test]
fn a_lock_server_that_is_killed_has_a_successor_and_whoever_holds_goes_on() {
    let world = World::new();
    let server = world.server();
    eventually("it serves", || world.serving() != 0);
    let first = world.serving();
    let _standby = world.server();
    let (mut cold, before) = world.daemon.hold_with_token(COLD);
    let (mut hot, _) = world.daemon.hold_with_token(HOT);
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
    assert!(!world.daemon.is_free(COLD) && !world.daemon.is_free(HOT));

    cold.signal(libc::SIGTERM);
    let after = waiter.token();
    assert!(after > before, "{after} after {before}");
    hot.signal(libc::SIGTERM);
    queued.iter().for_each(|waiter| assert_eq!(waiter.line(), "mine"));
}

#[test]
fn a_hold_that_no_lock_server_renews_ends_with_its_session() {
    let world = World::new();
    let server = world.server();
    eventually("it serves", || world.serving() != 0);
    let (cold, _) = world.daemon.hold_with_token(COLD);
    let (mut hot, _) = world.daemon.hold_with_token(HOT);
    server.signal(libc::SIGKILL);
    assert_eq!(cold.wait().code(), Some(76), "lost");
    assert!(hot.is_running(), "the switch has that one");
}

#[test]
fn a_switch_that_begins_anew_ends_what_is_held_and_serves_on() {
    let mut world = World::new();
    let _server = world.server();
    eventually("it serves", || world.serving() != 0);
    let (cold, before_cold) = world.daemon.hold_with_token(COLD);
    let (hot, before_hot) = world.daemon.hold_with_token(HOT);
    let waiter = world.daemon.hold(&[HOT, "--wait", "60s", "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN"]);
    eventually("it waits", || world.daemon.count(HOT, "waiting") == 1);
    world.daemon.kill();
    world.daemon.restart();
    assert_eq!((cold.wait().code(), hot.wait().code()), (Some(76), Some(76)), "no hold outlives its epoch");
    assert!(waiter.token() > before_hot, "who only waited goes on");
    eventually("the lock server is back", || world.serving() != 0);
    let (_holder, after) = world.daemon.hold_with_token(COLD);
    assert!(after > before_cold, "{after} after {before_cold}");
}

#[test]
fn another_engine_ends_what_is_held_by_the_one_before() {
    let mut world = World::new();
    for text in ["[[namespace]]\nname = 'default'\n", NAMESPACE] {
        world.daemon.begins_anew_with(&format!("lease = '1s'\n{text}"), HOT);
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
        support::refuses_namespace(text, wanted);
    }
}

/// The same decisions in the kernel: hosts that want the same locks, and serve those without a queue.
#[cfg(feature = "xdp")]
mod hook {
    use super::{COLD, HOT, NAMESPACE, Running};
    use crate::support::world::{SWITCH, World};
    use crate::support::{Ending, PATIENCE, eventually, wayside};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
    use std::thread;
    use tempfile::TempDir;
    use wayside_client::Error;

    struct Hook {
        world: World,
        configuration: TempDir,
    }

    impl Hook {
        /// A switch at the hook, its namespace with `more` settings. None, and said, where there can be none.
        fn or_skip(more: &str) -> Option<(Hook, Running)> {
            let world = World::or_skip(1)?;
            let configuration = tempfile::tempdir().unwrap();
            std::fs::write(configuration.path().join("wayside.toml"), format!("{NAMESPACE}{more}")).unwrap();
            let hook = Hook { world, configuration };
            let (daemon, line) = hook.daemon();
            assert!(line.contains("native XDP"), "{line}");
            Some((hook, daemon))
        }

        fn daemon(&self) -> (Running, String) {
            let path = self.configuration.path().join("wayside.toml");
            self.world.daemon_with("native", &["--config", path.to_str().unwrap()])
        }

        /// A process of a client's host that offers itself as lock server.
        fn server(&self, client: usize) -> Running {
            let mut command = wayside(&["node", "serve-locks", "--endpoint", SWITCH]);
            self.world.clients[client].enter(&mut command);
            let server = Running::start(command);
            assert!(server.line().starts_with("lock server: node"));
            server
        }

        /// Handle of the lock server; 0: none.
        fn serving(&self) -> u64 {
            self.world.status()["namespaces"][0]["lock_server"].as_u64().unwrap()
        }
    }

    /// What only who holds the lock of that name may count.
    #[derive(Default)]
    struct Counts([AtomicU64; 2]);

    impl Counts {
        /// Locks one name after the other, and counts under each, as long as `goes_on` says so for what was done. With
        /// what was done.
        fn work(&self, world: &World, client: usize, goes_on: impl Fn(u64) -> bool) -> u64 {
            let session = world.session(client);
            let mut latest = [0; 2];
            let mut done = 0;
            while goes_on(done) {
                let at = (done % 2) as usize;
                let name = [HOT, COLD][at];
                let guard = match session.lock(name).wait(PATIENCE).acquire() {
                    Ok(guard) => guard,
                    // Its session ended while it waited: a daemon that begins anew ends all.
                    Err(error) if !matches!(error, Error::TimedOut) => continue,
                    Err(error) => panic!("{name}: {error}"),
                };
                assert!(guard.token().0 > latest[at], "tokens rise");
                latest[at] = guard.token().0;
                // Not one addition: two holders at a time would lose one.
                let before = self.0[at].load(SeqCst);
                thread::yield_now();
                self.0[at].store(before + 1, SeqCst);
                // Who is told now that its hold was lost has counted before anybody else was granted.
                let _ = guard.release();
                done += 1;
            }
            done
        }

        fn sum(&self) -> u64 {
            self.0.iter().map(|count| count.load(SeqCst)).sum()
        }

        /// Both are counted on.
        fn go_on(&self) {
            let before = [0, 1].map(|at| self.0[at].load(SeqCst));
            eventually("both are locked again", || (0..2).all(|at| self.0[at].load(SeqCst) > before[at] + 10));
        }
    }

    #[test]
    fn locks_with_a_queue_and_without_exclude() {
        const ROUNDS: u64 = 300;
        // One process is the lock server of all parts, which the program tells apart.
        let Some((hook, _daemon)) = Hook::or_skip("servers = 3\n") else { return };
        let _server = hook.server(0);
        eventually("it serves", || hook.serving() != 0);
        let counts = Counts::default();
        thread::scope(|scope| {
            for client in 0..2 {
                let (hook, counts) = (&hook, &counts);
                scope.spawn(move || counts.work(&hook.world, client, |done| done < 2 * ROUNDS));
            }
        });
        assert_eq!(counts.0.map(AtomicU64::into_inner), [2 * ROUNDS; 2]);
        assert!(hook.world.count("queue_granted") >= ROUNDS, "the hook grants");
        assert!(hook.world.count("queue_passed") >= ROUNDS, "and passes on");
    }

    /// By SIGKILL, one after the other, while two hosts ask for both locks: nobody holds beside another, and nobody
    /// waits for ever. What is held when the daemon is back stays held.
    #[test]
    fn lock_servers_and_the_daemon_may_die_under_load() {
        let Some((hook, daemon)) = Hook::or_skip("") else { return };
        let first = hook.server(0);
        eventually("it serves", || hook.serving() != 0);
        let second = hook.server(1);
        let (counts, stop) = (Counts::default(), AtomicBool::new(false));
        let done: u64 = thread::scope(|scope| {
            let ending = Ending(&stop);
            let workers: Vec<_> = (0..4)
                .map(|worker| {
                    let (hook, counts, stop) = (&hook, &counts, &stop);
                    scope.spawn(move || counts.work(&hook.world, worker % 2, |_| !stop.load(SeqCst)))
                })
                .collect();
            counts.go_on();
            let kill = |process: Running| {
                process.signal(libc::SIGKILL);
                process.wait();
            };
            let served = hook.serving();
            kill(first);
            eventually("the other one serves", || ![0, served].contains(&hook.serving()));
            counts.go_on();
            let third = hook.server(0);
            kill(daemon);
            let before = counts.sum();
            eventually("switch and lock server need no daemon", || counts.sum() > before + 10);
            let (_daemon, _) = hook.daemon();
            counts.go_on();
            // Either may serve now: whoever does is killed, at one of the two times.
            let _fourth = hook.server(1);
            for server in [second, third] {
                kill(server);
                counts.go_on();
            }
            drop(ending);
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert_eq!(counts.sum(), done, "nobody has counted beside another");
    }
}
