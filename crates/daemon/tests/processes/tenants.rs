//! Namespaces that are added while the switch runs: docs/daemon.md, with real daemons and clients.

use crate::support;

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use support::etcd::Etcd;
use support::{Daemon, Ended, Ending, PATIENCE, end, eventually, wayside};
use wayside_client::{Error, Session};

/// What there is from the start.
const ALONE: &str = "[[namespace]]\nname = 'default'\n";
const ADDED: &str = "namespace batch: added, with 4096 slots, read-preferring\n";

/// And the new one.
fn with(batch: &str) -> String {
    format!("{ALONE}{}", batch_with(batch))
}

fn batch_with(more: &str) -> String {
    format!("[[namespace]]\nname = 'batch'\nslots = 4096\nkeys = 0\n{more}")
}

fn reload(daemon: &Daemon) -> Ended {
    end(daemon.command(&["reload"]))
}

fn session_in(address: &str, namespace: &str) -> Result<Session, Error> {
    support::builder().endpoint(address).namespace(namespace).connect()
}

/// Takes one lock after another until it is told to stop: each of them is granted.
fn work(session: &Session, done: &AtomicU64, stop: &AtomicBool) {
    for name in 0u64.. {
        if stop.load(SeqCst) {
            return;
        }
        session.lock(name % 64).wait(PATIENCE).acquire().and_then(|guard| guard.release()).expect("in time");
        done.fetch_add(1, SeqCst);
    }
}

/// While another tenant works, and holds what it holds; and after a restart the file is what there is.
#[test]
fn a_namespace_is_added_under_load() {
    let mut daemon = Daemon::configured(ALONE, &["--lease", "5s"]);
    let address = daemon.address.to_string();
    assert_eq!(session_in(&address, "batch").err(), Some(Error::Refused("it has no namespace \"batch\"".into())));
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let worker = session_in(&address, "default").expect("a session");
    let kept = worker.lock("kept").acquire().expect("nobody has it");
    thread::scope(|scope| {
        let ending = Ending(&stop);
        scope.spawn(|| work(&worker, &done, &stop));
        daemon.configure(&with("policy = 'read-preferring'\nrate = 1000\n"));
        let ended = reload(&daemon);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ADDED), "{ended:?}");
        assert_eq!(reload(&daemon).stdout, "nothing has changed\n");

        let batch = session_in(&address, "batch").expect("there it is");
        let held = batch.lock("kept").acquire().expect("names of another namespace are other locks");
        assert!(session_in(&address, "batch").expect("again").lock("kept").try_lock().is_err(), "it is held");
        let status = daemon.json("status");
        let shown = &status["namespaces"][1];
        assert_eq!((&shown["name"], &shown["slots"], &shown["rate"]), (&"batch".into(), &4096.into(), &1000.into()));
        let locks = daemon.json("locks");
        let locks = locks["locks"].as_array().expect("a list");
        assert!(locks.iter().any(|lock| lock["namespace"] == "batch" && lock["name"] == "kept"), "{locks:?}");
        let text = daemon.scrape();
        for counted in ["over_budget_total{", "recoveries_total{", "slots{", "sessions{"] {
            let of_batch =
                |line: &str| line.starts_with(&format!("wayside_{counted}")) && line.contains("namespace=\"batch\"");
            assert!(text.lines().any(of_batch), "{counted} of batch: {text}");
        }
        let before = done.load(SeqCst);
        eventually("the other tenant goes on", || done.load(SeqCst) > before + 100);
        held.release().expect("still ours");
        drop(ending);
    });
    kept.release().expect("held all the while");
    // What it is like changes as it does for the others.
    daemon.configure(&with("policy = 'read-preferring'\nrate = 2000\n"));
    assert_eq!(
        reload(&daemon).stdout,
        "namespace batch: 2000 requests a second, 32 at once; it was 1000 requests a second, 32 at once\n"
    );
    daemon.kill();
    daemon.restart();
    let batch = session_in(&address, "batch").expect("it has come to stay");
    batch.lock("kept").wait(PATIENCE).acquire().and_then(|guard| guard.release()).expect("nobody has it");
}

/// Its queues have what the switch has left, and its locks all that those of a namespace have that was there before:
/// while it is planned what is where, too.
#[test]
fn one_whose_locks_are_queues_is_added_under_load() {
    let mut daemon = Daemon::configured(ALONE, &["--lease", "5s"]);
    let address = daemon.address.to_string();
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let worker = session_in(&address, "default").expect("a session");
    thread::scope(|scope| {
        let ending = Ending(&stop);
        scope.spawn(|| work(&worker, &done, &stop));
        let queue = "engine = 'queue'\nqueues = ['hot']\ncells = 3\n";
        let hybrid = "[[namespace]]\nname = 'mixed'\nkeys = 0\nengine = 'hybrid'\nqueues = ['hot']\n";
        let planned =
            "[[namespace]]\nname = 'found'\nkeys = 0\nengine = 'queue'\nplan = 'knapsack'\nroom = 8\ncells = 8\n";
        daemon.configure(&format!("{}{hybrid}{planned}", with(queue)));
        let ended = reload(&daemon);
        let added = "namespace batch: added, with 4096 slots, 1 queues of 3 cells, fair\n\
            namespace mixed: added, with 65536 slots, 1 queues of 64 cells, fair\n\
            namespace found: added, with 65536 slots, 8 cells for queues, fair\n";
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), added), "{ended:?}");
        let servers = ["batch", "mixed", "found"].map(|of| daemon.lock_server(&["--namespace", of]));
        for of in ["batch", "mixed", "found"] {
            let sessions = [0; 6].map(|_| session_in(&address, of).expect("there it is"));
            for name in ["hot", "cold"] {
                take_turns(&sessions, name);
            }
            let in_switch = || {
                let status = daemon.json("status");
                let is = status["namespaces"].as_array().expect("a list").iter().find(|is| is["name"] == of);
                is.expect("it is shown")["in_switch"].as_u64().expect("a count")
            };
            match of {
                "found" => eventually("the plan has found those that are asked for", || {
                    take_turns(&sessions, "hot");
                    in_switch() > 0
                }),
                _ => assert_eq!(in_switch(), 1),
            }
        }
        let before = done.load(SeqCst);
        eventually("the other tenant goes on", || done.load(SeqCst) > before + 100);
        drop((servers, ending));
    });
    daemon.kill();
    daemon.restart();
    let batch = session_in(&address, "batch").expect("it has come to stay");
    batch.lock("hot").wait(PATIENCE).acquire().and_then(|guard| guard.release()).expect("nobody has it");
}

/// Each takes a lock a few times, one at a time, under tokens that rise.
fn take_turns(sessions: &[Session], name: &str) {
    let latest = AtomicU64::new(0);
    thread::scope(|scope| {
        for session in sessions {
            scope.spawn(|| {
                for _ in 0..10 {
                    let guard = session.lock(name).wait(PATIENCE).acquire().expect("in time");
                    let token = guard.token().0;
                    let before = latest.swap(token, SeqCst);
                    assert!(before < token, "{name}: {token} after {before}");
                    guard.release().expect("still ours");
                }
            });
        }
    });
}

/// All or nothing, and why.
#[test]
fn what_cannot_be_added_says_why() {
    let daemon = Daemon::configured(&format!("slots = 70000\n{ALONE}"), &[]);
    let refused = |settings: &str, why: &str| {
        daemon.configure(settings);
        let ended = reload(&daemon);
        assert!(ended.code == Some(69) && ended.stderr.contains(why), "{why}: {ended:?}");
        assert!(ended.stderr.contains("nothing has changed"), "{ended:?}");
        assert_eq!(daemon.json("status")["namespaces"].as_array().expect("a list").len(), 1);
    };
    let all = |batch: &str| format!("slots = 70000\n{ALONE}{batch}");
    refused(&all("[[namespace]]\nname = 'batch'\nslots = 4464\n"), "namespace \"batch\" is new and has keys");
    let planned = batch_with("engine = 'queue'\nplan = 'knapsack'\nroom = 16385\n");
    refused(&all(&planned), "its namespaces have 16385 cells of queues, the switch has 16384 (`cells`)");
    refused(&format!("cells = 9\n{}", all(&batch_with(""))), "cells differs, which needs another start");
    // The file itself says that there is no room for them.
    let large = "[[namespace]]\nname = 'batch'\nslots = 4465\nkeys = 0\n";
    refused(&all(large), "slots = 70000 is less than the 70001 that the namespaces have");
    let more = format!("slots = 80000\n{ALONE}{large}");
    refused(&more, "its namespaces have 70001 slots, the switch has 70000 (`slots`)");
    refused(&format!("slots = 80000\n{ALONE}"), "slots differs, which needs another start of the switch");
    refused(
        &format!("slots = 70000\n{}", batch_with("")),
        "namespace \"default\" is gone, which needs another start of the switch",
    );
    daemon.configure(&all("[[namespace]]\nname = 'batch'\nslots = 4464\nkeys = 0\n"));
    let ended = reload(&daemon);
    assert_eq!(ended.stdout, "namespace batch: added, with 4464 slots, fair\n", "the last slot is for use: {ended:?}");
    // Which is in whose place means nothing.
    daemon.configure(&format!("slots = 70000\n[[namespace]]\nname = 'batch'\nslots = 4464\nkeys = 0\n{ALONE}"));
    assert_eq!(reload(&daemon).stdout, "nothing has changed\n");
}

/// A host that may begin sessions in some namespaces is let into the new one by a token that names it; one that may in
/// all needs none.
#[test]
fn where_packets_are_signed_tokens_may_name_the_new_one() {
    let daemon = Daemon::configured(ALONE, &["--authentication", "on", "--enrol-listen", "127.0.0.1:0"]);
    let node = |host: &str, arguments: &[&str]| {
        let mut command = wayside(&[&["node"], arguments].concat());
        command.env("WAYSIDE_STATE_DIR", daemon.directory.path().join("state"));
        end(credentials_of(&daemon, host, command))
    };
    let join = |host: &str, namespaces: &[&str]| {
        let token = node(host, &[&["token"], namespaces].concat());
        assert_eq!(token.code, Some(0), "{token:?}");
        assert_eq!(node(host, &["join", token.stdout.trim()]).code, Some(0));
    };
    let lock = |host: &str, namespace: &str| {
        let command = daemon.command(&["lock", "jobs", "--namespace", namespace, "--", "true"]);
        end(credentials_of(&daemon, host, command)).code
    };
    let unknown = node("some", &["token", "--namespace", "batch"]);
    assert!(unknown.code == Some(64) && unknown.stderr.contains("no namespace \"batch\""), "{unknown:?}");
    join("all", &[]);
    join("some", &["--namespace", "default"]);
    daemon.configure(&with("policy = 'read-preferring'\n"));
    let ended = reload(&daemon);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ADDED), "{ended:?}");
    assert_eq!((lock("all", "batch"), lock("some", "batch")), (Some(0), Some(77)));
    join("some", &["--namespace", "default", "batch"]);
    assert_eq!((lock("some", "batch"), lock("some", "default")), (Some(0), Some(0)));
    let drops = &daemon.json("status")["drops"];
    assert!(drops["bad_tag"].is_null() && drops["no_key"].is_null(), "{drops}");
}

fn credentials_of(daemon: &Daemon, host: &str, mut command: Command) -> Command {
    command.env("WAYSIDE_CREDENTIALS", daemon.directory.path().join(host));
    command
}

/// Each switch of a shard reads a file of its own: the standby, too, knows the new namespace when it serves.
#[test]
fn a_standby_goes_on_with_what_was_added_to_both() {
    let Some(etcd) = Etcd::or_skip("switches that stand by for each other") else { return };
    let begin = || Daemon::configured(ALONE, &["--etcd", &etcd.url]);
    let serving = |daemon: &Daemon| daemon.json("status")["role"] == "serving";
    let mut first = begin();
    eventually("the first serves", || serving(&first));
    let second = begin();
    eventually("the second stands by", || daemon_role(&second).contains(&first.address.to_string()));
    for daemon in [&second, &first] {
        daemon.configure(&with("policy = 'read-preferring'\n"));
        let ended = reload(daemon);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ADDED), "{ended:?}");
    }
    let both = format!("{},{}", first.address, second.address);
    let batch = support::builder().endpoint(both.as_str()).namespace("batch").connect().expect("a session");
    let held = batch.lock("jobs").acquire().expect("nobody has it");
    first.kill();
    eventually("the second serves", || serving(&second));
    let other = session_in(&second.address.to_string(), "batch").expect("it knows the namespace");
    assert!(other.lock("jobs").try_lock().is_err(), "it is held");
    held.release().expect("held all the while");
    other.lock("jobs").wait(PATIENCE).acquire().and_then(|guard| guard.release()).expect("it is free again");
}

fn daemon_role(daemon: &Daemon) -> String {
    daemon.json("status")["role"].to_string()
}

/// At the kernel's hook, where slots are laid out before the program begins.
#[cfg(feature = "xdp")]
mod at_the_hook {
    use super::support::configure;
    use super::support::world::{SWITCH, World};
    use super::*;

    /// Its daemon is killed, and comes back.
    #[test]
    fn an_added_namespace_outlives_the_daemon() {
        let Some(world) = World::or_skip(1) else { return };
        let file = configure(world.directory.path(), ALONE);
        let flags = ["--config", file.as_str()];
        let (daemon, line) = world.daemon_with("native", &flags);
        assert!(line.starts_with("switch: native XDP"), "{line}");
        let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let epoch = || world.status()["epoch"].clone();
        thread::scope(|scope| {
            let ending = Ending(&stop);
            scope.spawn(|| work(&world.session(0), &done, &stop));
            eventually("it works", || done.load(SeqCst) > 100);
            configure(world.directory.path(), &with("policy = 'read-preferring'\n"));
            let ended = end(on_switch(&world, &["reload"]));
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ADDED), "{ended:?}");
            world.clients[1].move_here().expect("whoever made a host may enter it");
            let batch = session_in(SWITCH, "batch").expect("there it is");
            let held = batch.lock("jobs").acquire().expect("nobody has it");
            assert_eq!(world.count("received"), 0, "nothing went by the daemon's socket");
            let epoch_before = epoch();
            daemon.signal(libc::SIGKILL);
            daemon.wait();
            let (daemon, _) = world.daemon_with("native", &flags);
            assert_eq!(daemon.line(), "switch: taken over while it was running, with all its locks");
            assert_eq!(epoch(), epoch_before);
            let other = session_in(SWITCH, "batch").expect("it is there still");
            assert!(other.lock("jobs").try_lock().is_err(), "it is held");
            held.release().expect("held all the while");
            other.lock("jobs").wait(PATIENCE).acquire().and_then(|guard| guard.release()).expect("it is free again");
            let before = done.load(SeqCst);
            eventually("the other tenant goes on", || done.load(SeqCst) > before + 100);
            drop(ending);
        });
    }

    /// Its queues lie in the memory that the program has had from its start.
    #[test]
    fn queues_that_are_added_are_decided_there() {
        let Some(world) = World::or_skip(1) else { return };
        let file = configure(world.directory.path(), ALONE);
        let (_daemon, line) = world.daemon_with("native", &["--config", file.as_str()]);
        assert!(line.starts_with("switch: native XDP"), "{line}");
        configure(world.directory.path(), &with("engine = 'queue'\nqueues = ['hot']\n"));
        let ended = end(on_switch(&world, &["reload"]));
        assert_eq!(ended.stdout, "namespace batch: added, with 4096 slots, 1 queues of 64 cells, fair\n", "{ended:?}");
        let sessions = [0, 1, 1].map(|client| {
            world.clients[client].move_here().expect("whoever made a host may enter it");
            session_in(SWITCH, "batch").expect("there it is")
        });
        take_turns(&sessions, "hot");
        assert_eq!((world.count("queue_granted"), world.count("received")), (30, 0));
    }

    /// A command on the switch's host.
    fn on_switch(world: &World, arguments: &[&str]) -> Command {
        let mut command = wayside(arguments);
        command.env("WAYSIDE_SOCKET", world.directory.path().join("control.sock"));
        world.switch.enter(&mut command);
        command
    }
}
