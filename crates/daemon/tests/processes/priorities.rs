//! Who is served before whom, with real processes and either engine (docs/protocol.md, docs/queue.md, "Priorities").

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};
use support::{Daemon, Running, end, eventually};
use tempfile::TempDir;

/// Of the second engine: the lock server's, and the switch's.
const COLD: &str = "cold";
const HOT: &str = "hot";

/// A lock that is held, and a file in which those who get it write who they are.
struct Line<'a> {
    daemon: &'a Daemon,
    name: &'a str,
    holder: Running,
    waiters: Vec<Running>,
    served: PathBuf,
    _directory: TempDir,
}

impl<'a> Line<'a> {
    fn new(daemon: &'a Daemon, name: &'a str) -> Line<'a> {
        let directory = tempfile::tempdir().unwrap();
        let served = directory.path().join("served");
        let holder = daemon.hold(&[name, "--", "sh", "-c", "echo held; exec sleep 600"]);
        assert_eq!(holder.line(), "held");
        Line { daemon, name, holder, waiters: Vec::new(), served, _directory: directory }
    }

    /// Somebody comes, and waits behind those who came before.
    fn comes(&mut self, who: &str, flags: &[&str]) {
        let write = format!("echo {who} >> {}", self.served.display());
        let command = [&[self.name], flags, &["--", "sh", "-c", &write]].concat();
        self.waiters.push(self.daemon.hold(&command));
        eventually("it waits", || self.daemon.count(self.name, "waiting") == self.waiters.len());
    }

    /// The holder leaves: who is served, in which order.
    fn served(self) -> Vec<String> {
        self.holder.signal(libc::SIGTERM);
        for waiter in self.waiters {
            assert!(waiter.wait().success());
        }
        lines(&self.served)
    }
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(String::from).collect()
}

fn with_queues() -> (Daemon, Running) {
    let daemon = Daemon::configured("[[namespace]]\nname = 'default'\nengine = 'queue'\nqueues = ['hot']\n", &[]);
    let server = serve(&daemon);
    (daemon, server)
}

fn serve(daemon: &Daemon) -> Running {
    let server = daemon.lock_server(&[]);
    eventually("it serves", || daemon.json("status")["namespaces"][0]["lock_server"] != 0);
    server
}

/// One that has time, two that say nothing, two in a hurry.
fn all_come(line: &mut Line<'_>) {
    line.comes("patient", &["--priority", "0"]);
    line.comes("first", &[]);
    line.comes("urgent", &["--priority", "7"]);
    line.comes("second", &["--priority", "4"]);
    line.comes("late", &["--priority", "7"]);
}

const BY_PRIORITY: [&str; 5] = ["urgent", "late", "first", "second", "patient"];

#[test]
fn the_urgent_are_served_before_those_who_have_time_whichever_process_keeps_the_line() {
    let daemon = Daemon::start(&[]);
    let mut line = Line::new(&daemon, "jobs");
    all_come(&mut line);
    assert_eq!(line.served(), BY_PRIORITY);
}

#[test]
fn nobody_is_overtaken_for_ever() {
    let daemon = Daemon::start(&[]);
    let mut line = Line::new(&daemon, "jobs");
    line.comes("patient", &["--priority", "0"]);
    for _ in 0..10 {
        line.comes("urgent", &["--priority", "7"]);
    }
    let served = line.served();
    assert_eq!(served.iter().position(|who| who == "patient"), Some(8), "{served:?}");
}

/// At an agent and at a lock server, and where it is shown.
#[test]
fn a_namespace_says_how_often_who_waits_is_overtaken() {
    for engine in ["fission", "queue"] {
        let namespace = format!("[[namespace]]\nname = 'default'\nengine = '{engine}'\npatience = 2\n");
        let daemon = Daemon::configured(&namespace, &[]);
        let _server = (engine == "queue").then(|| serve(&daemon));
        let mut line = Line::new(&daemon, "jobs");
        line.comes("patient", &["--priority", "0"]);
        for _ in 0..4 {
            line.comes("urgent", &["--priority", "7"]);
        }
        let served = line.served();
        assert_eq!(served.iter().position(|who| who == "patient"), Some(2), "{engine}: {served:?}");
        assert_eq!(daemon.json("status")["namespaces"][0]["patience"], 2);
        let shown = end(daemon.command(&["status"])).stdout;
        assert!(shown.contains("namespace: default, 65536 slots, fair, overtaken 2 times at most"), "{shown}");
    }
}

#[test]
fn a_lock_servers_own_locks_are_served_alike() {
    let (daemon, _server) = with_queues();
    let mut line = Line::new(&daemon, COLD);
    all_come(&mut line);
    assert_eq!(line.served(), BY_PRIORITY);
}

fn place(daemon: &Daemon, name: &str) -> String {
    let plan = daemon.json("plan");
    let mut locks = plan["namespaces"][0]["locks"].as_array().expect("a list").iter();
    locks.find(|lock| lock["name"] == name).map_or(String::new(), |lock| lock["place"].as_str().unwrap().into())
}

/// Its server orders them, whoever has it when they come.
#[test]
fn a_lock_with_a_queue_in_the_switch_is_served_alike() {
    let (daemon, _server) = with_queues();
    assert_eq!(daemon.lock(&[HOT, "--priority", "7", "--", "true"]).code, Some(0));
    assert_eq!(place(&daemon, HOT), "switch", "nobody was in its way");
    let mut line = Line::new(&daemon, HOT);
    all_come(&mut line);
    let locks = daemon.json("locks");
    let waiters = locks["locks"].as_array().expect("a list").iter().filter(|lock| lock["state"] == "waiting");
    let mut told: Vec<u64> = waiters.map(|lock| lock["priority"].as_u64().expect("of a wait")).collect();
    told.sort_unstable();
    assert_eq!(told, [0, 4, 4, 7, 7]);
    let shown = end(daemon.command(&["plan"])).stdout;
    assert!(shown.contains("asked for with priorities"), "{shown}");
    assert_eq!(line.served(), BY_PRIORITY);
    assert_eq!(place(&daemon, HOT), "server");
}
