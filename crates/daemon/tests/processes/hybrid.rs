//! Namespaces of which some locks are queues in the switch, and all others are not, with real processes: nothing that a
//! client sees is different (docs/queue.md, "Fission with queues for the hottest locks").

use crate::support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use support::{Daemon, PATIENCE, Running, connect, end, eventually, free_address, wayside};
use wayside_client::{Error, Session};

/// Is listed, with few cells; the other is not.
const HOT: &str = "hot";
const COLD: &str = "cold";

fn namespace(queues: &str) -> String {
    format!("lease = '1s'\n[[namespace]]\nname = 'default'\nengine = 'hybrid'\nqueues = {queues}\ncells = 3\n")
}

struct World {
    daemon: Daemon,
}

impl World {
    fn new() -> World {
        World::with(&[])
    }

    fn with(flags: &[&str]) -> World {
        World { daemon: Daemon::configured(&namespace("['hot', 'warm']"), flags) }
    }

    fn namespace(&self) -> serde_json::Value {
        self.daemon.json("status")["namespaces"][0].clone()
    }

    fn serve(&self) -> Running {
        let server = self.daemon.lock_server(&[]);
        eventually("it serves", || self.namespace()["lock_server"] != 0);
        server
    }

    fn session(&self) -> Session {
        connect(self.daemon.address.to_string())
    }

    fn packets(&self, counter: &str) -> u64 {
        self.daemon.json("status")["packets"][counter].as_u64().unwrap_or(0)
    }

    fn run(&self, arguments: &[&str]) -> String {
        let ended = end(self.daemon.command(arguments));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout
    }
}

#[test]
fn held_awaited_tried_and_shared_whichever_kind_a_lock_is() {
    let world = World::new();
    let is_free = |name| world.daemon.is_free(name);
    // The listed ones can be had without a lock server, and those without a queue anyway.
    assert!(is_free(HOT) && is_free(COLD));
    assert!(world.packets("queue_granted") > 0, "one is a queue");
    let _server = world.serve();
    for name in [HOT, COLD] {
        let (holder, first) = world.daemon.hold_with_token(name);
        assert_eq!(world.daemon.lock(&[name, "--try", "--", "true"]).code, Some(75), "{name}");
        assert_eq!(world.daemon.lock(&[name, "--wait", "300ms", "--", "true"]).code, Some(75), "{name}");
        // Of the listed one more than there are cells: some wait at the lock server.
        let waiters: Vec<Running> =
            (0..4).map(|_| world.daemon.hold(&[name, "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN"])).collect();
        eventually("all wait", || world.daemon.count(name, "waiting") == 4);
        assert_eq!(world.daemon.count(name, "held"), 1, "{name}");
        holder.signal(libc::SIGTERM);
        let mut tokens: Vec<u64> = waiters.iter().map(|waiter| waiter.token()).collect();
        tokens.sort_unstable();
        tokens.dedup();
        assert!(tokens.len() == 4 && tokens[0] > first, "{name}: {tokens:?} after {first}");
        let shared = |name| world.daemon.hold(&[name, "--shared", "--", "sh", "-c", "echo shared; exec sleep 600"]);
        let readers = [shared(name), shared(name)];
        readers.iter().for_each(|reader| assert_eq!(reader.line(), "shared"));
        assert!(!is_free(name), "{name}");
        drop(readers);
        eventually("the readers' ends are noticed", || is_free(name));
    }
}

#[test]
fn commands_show_both_kinds() {
    let world = World::new();
    let _server = world.serve();
    let text = world.run(&["status"]);
    assert!(text.contains("namespace: default, 65536 slots, fair, hybrid, 2 queues, lock server"), "{text}");
    let (_hot, _) = world.daemon.hold_with_token(HOT);
    let (_cold, _) = world.daemon.hold_with_token(COLD);
    let _waiters = [HOT, COLD].map(|name| world.daemon.hold(&[name, "--", "true"]));
    for name in [HOT, COLD] {
        eventually("one waits", || world.daemon.count(name, "waiting") == 1);
        assert_eq!(world.daemon.count(name, "held"), 1, "{name}");
    }
    let queue = &world.namespace()["queues"][0];
    assert_eq!((&queue["name"], &queue["holders"], &queue["waiters"]), (&HOT.into(), &1.into(), &1.into()));
    let plan = world.daemon.json("plan")["namespaces"][0].clone();
    assert_eq!(plan["plan"], "fixed");
    let places: Vec<_> = plan["locks"].as_array().unwrap().iter().map(|lock| (&lock["name"], &lock["place"])).collect();
    assert!(places.contains(&(&HOT.into(), &"switch".into())) && places.iter().all(|(name, _)| *name != COLD));
    eventually("those that are asked for are told, and those that are awaited", || {
        assert_eq!(world.daemon.lock(&["warm", "--", "true"]).code, Some(0));
        let hot = world.run(&["locks", "--hot"]);
        hot.contains("warm") && hot.contains(COLD)
    });
}

/// Whoever holds a name of either kind and wants the other is in one circle with who does it the other way round.
#[test]
fn a_deadlock_over_both_kinds_is_found() {
    let world = World::new();
    let program = env!("CARGO_BIN_EXE_wayside");
    let both = [(HOT, COLD), (COLD, HOT)].map(|(first, then)| {
        let script = format!("echo held; sleep 1; exec {program} lock {then} -- true");
        let holder = world.daemon.hold(&[first, "--", "sh", "-c", &script]);
        assert_eq!(holder.line(), "held");
        holder
    });
    eventually("it is found", || {
        let found = world.daemon.json("deadlocks");
        let cycles = found["deadlocks"].as_array().expect("a list").clone();
        cycles.len() == 1 && cycles[0]["cycle"].as_array().is_some_and(|cycle| cycle.len() == 4)
    });
    drop(both);
}

/// Two processes' worth of sessions, and names of both kinds in any order.
#[test]
fn several_locks_of_both_kinds_are_taken_without_a_deadlock() {
    const ROUNDS: u64 = 150;
    let world = World::new();
    let _server = world.serve();
    let counts = [const { AtomicU64::new(0) }; 4];
    let names = [HOT, COLD, "warm", "tepid"];
    thread::scope(|scope| {
        for client in 0..4 {
            let (world, counts) = (&world, &counts);
            scope.spawn(move || {
                let session = world.session();
                for round in 0..ROUNDS {
                    let picked = [0, 1, 2, 3].map(|at| (at + client + round as usize) % 4);
                    let picked = &picked[..2 + (round % 3) as usize];
                    let guards = session.lock_many(picked.iter().map(|at| names[*at])).wait(PATIENCE).acquire();
                    let guards = guards.expect("nobody waits for ever");
                    assert_eq!(guards.each().len(), picked.len());
                    for at in picked {
                        let before = counts[*at].load(SeqCst);
                        thread::yield_now();
                        counts[*at].store(before + 1, SeqCst);
                    }
                    guards.release().expect("they were held until now");
                }
            });
        }
    });
    let all: u64 = counts.iter().map(|count| count.load(SeqCst)).sum();
    assert_eq!(all, 4 * (0..ROUNDS).map(|round| 2 + round % 3).sum::<u64>(), "nobody has counted beside another");
}

/// Slots are found again from what nodes hold; who holds a queue's lock is told that it is lost.
#[test]
fn a_switch_that_begins_anew_finds_slots_again_and_begins_queues_anew() {
    let mut world = World::with(&["--lease", "5s"]);
    let _server = world.serve();
    let (mut cold, before_cold) = world.daemon.hold_with_token(COLD);
    let (hot, before_hot) = world.daemon.hold_with_token(HOT);
    let waiters = [HOT, COLD].map(|name| {
        let tells = "echo $WAYSIDE_LOCK_TOKEN; exec sleep 600";
        world.daemon.hold(&[name, "--wait", "60s", "--", "sh", "-c", tells])
    });
    for name in [HOT, COLD] {
        eventually("one waits", || world.daemon.count(name, "waiting") == 1);
    }
    world.daemon.kill();
    world.daemon.restart();
    assert_eq!(hot.wait().code(), Some(76), "no hold of a queue outlives its epoch");
    assert!(waiters[0].token() > before_hot, "who only waited goes on");
    assert!(cold.is_running(), "it holds what it held");
    assert_eq!(world.daemon.count(COLD, "held"), 1);
    cold.signal(libc::SIGTERM);
    assert!(waiters[1].token() > before_cold);
    eventually("the lock server is back", || world.namespace()["lock_server"] != 0);
}

/// A session ends with its list: what was a slot is a queue now, and the other way round. Tokens rise all the same.
#[test]
fn another_list_ends_the_sessions_of_the_one_before() {
    let mut world = World::new();
    let _server = world.serve();
    let tokens = |world: &World| {
        [HOT, COLD].map(|name| {
            let ended = world.daemon.lock(&[name, "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN"]);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            ended.stdout.trim().parse::<u64>().expect("a token")
        })
    };
    let mut before = tokens(&world);
    for list in ["['cold']", "['hot', 'warm']", "['warm', 'hot']"] {
        let is_the_same = list == "['warm', 'hot']";
        world.daemon.configure(&namespace(list));
        let (mut held, _) = world.daemon.hold_with_token("tepid");
        world.daemon.kill();
        world.daemon.restart();
        let after = tokens(&world);
        if is_the_same {
            assert!(held.is_running(), "the same list in another order is the same");
        } else {
            assert_eq!(held.wait().code(), Some(76), "{list}: lost");
        }
        assert!(after[0] > before[0] && after[1] > before[1], "{list}: {after:?} after {before:?}");
        before = after;
    }
    eventually("the lock server is back", || world.namespace()["lock_server"] != 0);
}

/// Over a secure connection the list comes with the answer, to a node that says that it knows of lists.
#[test]
fn sessions_that_are_signed_know_the_list_too() {
    let enrol = free_address();
    let world = World::with(&["--authentication", "on", "--enrol-listen", &enrol]);
    let credentials = world.daemon.directory.path().join("credentials");
    let node = |arguments: &[&str]| {
        let mut command = wayside(&[&["node"], arguments].concat());
        command.env("WAYSIDE_STATE_DIR", world.daemon.directory.path().join("state"));
        command.env("WAYSIDE_CREDENTIALS", &credentials);
        let ended = end(command);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout.trim().to_owned()
    };
    node(&["join", &node(&["token"])]);
    let builder = support::builder().endpoint(world.daemon.address.to_string()).credentials(&credentials);
    let session = builder.connect().expect("it has joined");
    let guards = session.lock_many([HOT, COLD]).wait(PATIENCE).acquire().expect("both are free");
    assert!(world.packets("queue_granted") == 1 && world.packets("granted") >= 1);
    assert_eq!(guards.release(), Ok(()));
}

#[test]
fn a_configuration_that_cannot_be_is_told() {
    let many: Vec<String> = (0..121).map(|name| format!("'{name}'")).collect();
    let many = format!("queues = [{}]", many.join(", "));
    for (text, wanted) in [
        ("", "must name the locks that are queues: with engine = \"fission\" none is"),
        ("queues = []", "must name the locks that are queues"),
        (many.as_str(), "has 121 names: with engine = \"hybrid\" 120 are listed at most"),
        ("queues = ['a', 'a']", "is there twice"),
        ("queues = ['a']\nplan = 'knapsack'", "goes with engine = \"queue\": what is listed with \"hybrid\" stays so"),
        ("queues = ['a']\nroom = 9", "goes with plan"),
        ("queues = ['a']\nservers = 15", "1 to 14"),
    ] {
        support::refuses_namespace(&format!("engine = 'hybrid'\n{text}"), wanted);
    }
    let text = "[[namespace]]\nname = 'a'\nengine = 'hybrid'\nqueues = ['a', 'b']\nplan = 'fixed'\nservers = 2\n";
    let ended = support::check_config(text);
    assert!(ended.code == Some(0) && ended.stdout.contains("slots, and 2 queues of 64 cells"), "{ended:?}");
}

/// While the daemon dies and comes back: nobody holds beside another, and nobody waits for ever.
#[test]
fn the_daemon_may_die_under_load_of_both_kinds() {
    let mut world = World::new();
    let _server = world.serve();
    let (counts, stop) = ([const { AtomicU64::new(0) }; 2], AtomicBool::new(false));
    let endpoint = world.daemon.address.to_string();
    let done: u64 = thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let (endpoint, counts, stop) = (&endpoint, &counts, &stop);
                scope.spawn(move || work(&connect(endpoint.as_str()), counts, stop))
            })
            .collect();
        let ending = support::Ending(&stop);
        let go_on = || {
            let before = [0, 1].map(|at| counts[at].load(SeqCst));
            eventually("both are locked again", || (0..2).all(|at| counts[at].load(SeqCst) > before[at] + 10));
        };
        go_on();
        for _ in 0..2 {
            world.daemon.kill();
            world.daemon.restart();
            go_on();
        }
        drop(ending);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(counts.iter().map(|count| count.load(SeqCst)).sum::<u64>(), done);
}

/// Takes both at once or one after the other, and counts under what it holds. How often it has counted.
fn work(session: &Session, counts: &[AtomicU64; 2], stop: &AtomicBool) -> u64 {
    let (mut done, mut round) = (0, 0u64);
    while !stop.load(SeqCst) {
        round += 1;
        let picked: &[usize] = [&[0][..], &[1], &[0, 1]][(round % 3) as usize];
        let names = picked.iter().map(|at| [HOT, COLD][*at]);
        let guards = match session.lock_many(names).wait(PATIENCE).acquire() {
            Ok(guards) => guards,
            // A switch that begins anew ends what holds a queue's lock.
            Err(error) if !matches!(error, Error::TimedOut) => continue,
            Err(error) => panic!("{error}"),
        };
        for at in picked {
            // Not one addition: two holders at a time would lose one.
            let before = counts[*at].load(SeqCst);
            thread::yield_now();
            counts[*at].store(before + 1, SeqCst);
            done += 1;
        }
        let _ = guards.release();
    }
    done
}

/// The same decisions in the kernel: hosts that want locks of both kinds, alone and together.
#[cfg(feature = "xdp")]
mod hook {
    use super::{COLD, HOT};
    use crate::support::PATIENCE;
    use crate::support::world::World;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::thread;

    #[test]
    fn locks_of_both_kinds_exclude() {
        const ROUNDS: u64 = 300;
        let Some(world) = World::or_skip(1) else { return };
        let configuration = tempfile::tempdir().unwrap();
        let path = configuration.path().join("wayside.toml");
        std::fs::write(&path, super::namespace("['hot', 'warm']")).unwrap();
        let (_daemon, line) = world.daemon_with("native", &["--config", path.to_str().unwrap()]);
        assert!(line.contains("native XDP"), "{line}");
        let counts = [const { AtomicU64::new(0) }; 2];
        let work = |client: usize| {
            let session = world.session(client);
            for round in 0..ROUNDS {
                let picked: &[usize] = [&[0][..], &[1], &[1, 0]][(round % 3) as usize];
                let names = picked.iter().map(|at| [HOT, COLD][*at]);
                let guards = session.lock_many(names).wait(PATIENCE).acquire().expect("nobody waits for ever");
                for at in picked {
                    let before = counts[*at].load(SeqCst);
                    thread::yield_now();
                    counts[*at].store(before + 1, SeqCst);
                }
                guards.release().expect("they were held until now");
            }
        };
        thread::scope(|scope| {
            for client in 0..2 {
                let work = &work;
                scope.spawn(move || work(client));
            }
        });
        assert_eq!(counts.each_ref().map(|count| count.load(SeqCst)), [2 * 2 * ROUNDS / 3; 2]);
        assert!(world.count("queue_granted") >= ROUNDS && world.count("granted") > 0, "the hook grants both");
    }
}
