//! Deadlocks of real processes: found, named, counted and ended; and what looks like one and is none
//! (docs/deadlocks.md).

use crate::support;

use std::collections::HashSet;
use std::io::{BufRead, BufReader, PipeWriter, Read, Write};
use std::net::{Shutdown, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};
use support::{Daemon, PATIENCE, Running, end, eventually, wayside};
use wayside_client::control::{
    Abort, Greeting, Hello, ListRequest, Listed, Listing, Welcome, lifeline_text, request_text,
};
use wayside_client::{Error, Guard, Name, Session, Shards};
use wayside_hosts::Host;
use wayside_protocol::{Node, NodeConfig, SessionInfo, Time};

/// What a process of [`worker`] is to do.
const WORK: &str = "DEADLOCKS_TEST_WORK";

/// Not a test but a process of one. `steps a ~b`: it takes each lock, `~` shared, when it is told to. `gate`, `order`:
/// it takes locks until it is told to stop, in ways that never deadlock.
#[test]
fn worker() {
    let Ok(work) = std::env::var(WORK) else { return };
    let session = support::builder().connect().unwrap();
    if let Some(names) = work.strip_prefix("steps ") {
        return steps(&session, names);
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (session, stop) = (&session, &stop);
        for thread in 0..2 {
            let gate = work == "gate";
            scope.spawn(move || churn(session, gate, stop, thread));
        }
        std::io::stdin().read_line(&mut String::new()).unwrap();
        stop.store(true, Relaxed);
    });
    println!("\ndone");
}

fn steps(session: &Session, names: &str) {
    let mut guards: Vec<Guard> = Vec::new();
    for name in names.split(' ') {
        std::io::stdin().read_line(&mut String::new()).unwrap();
        let request = match name.strip_prefix('~') {
            Some(name) => session.lock(name).shared(),
            None => session.lock(name),
        };
        match request.acquire() {
            Ok(guard) => {
                println!("\ngot {name}");
                guards.push(guard);
            }
            Err(Error::Deadlock { cycle }) => return println!("\ngave up {name}: {cycle}"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Takes two locks, and gives them back one after the other. With a gate: in any order, and who awaits one of them has
/// the gate, so it waits for somebody who awaits nothing. Without: in the same order always.
fn churn(session: &Session, gate: bool, stop: &AtomicBool, seed: u64) {
    const PAUSE: Duration = Duration::from_micros(400);
    let mut random = wayside_wire::mix(u64::from(std::process::id()) << 8 | seed);
    let mut rounds = 0;
    while !stop.load(Relaxed) {
        random = wayside_wire::mix(random.wrapping_add(1));
        let names = match (gate, random & 1) {
            (true, 0) => ["gated/a", "gated/b"],
            (true, _) => ["gated/b", "gated/a"],
            (false, _) => ["ordered/a", "ordered/b"],
        };
        let opened = gate.then(|| session.lock("gate").acquire().unwrap());
        let [one, other] = names.map(|name| session.lock(name).acquire().unwrap());
        drop(opened);
        let (first, second) = if random & 2 == 0 { (one, other) } else { (other, one) };
        thread::sleep(PAUSE);
        first.release().unwrap();
        thread::sleep(PAUSE);
        second.release().unwrap();
        rounds += 1;
    }
    assert!(rounds > 10, "{rounds} rounds");
}

struct Worker {
    running: Running,
    stdin: PipeWriter,
}

impl Worker {
    fn start(work: &str, prepare: impl FnOnce(&mut Command)) -> Worker {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "deadlocks::worker", "--nocapture"]).env(WORK, work);
        prepare(&mut command);
        let (theirs, stdin) = std::io::pipe().unwrap();
        command.stdin(theirs);
        Worker { running: Running::start(command), stdin }
    }

    fn of(daemon: &Daemon, work: &str) -> Worker {
        let (address, socket) = (daemon.address.to_string(), daemon.socket());
        Worker::start(work, |command| {
            command.env("WAYSIDE_ENDPOINTS", address).env("WAYSIDE_SOCKET", socket);
        })
    }

    fn step(&mut self) {
        self.stdin.write_all(b"\n").unwrap();
    }

    /// What it says next, among the lines of the test harness.
    fn says(&self) -> String {
        loop {
            let line = self.running.line();
            if ["got ", "gave up ", "done"].iter().any(|word| line.starts_with(word)) {
                return line;
            }
        }
    }

    fn gets(&mut self, name: &str) {
        self.step();
        assert_eq!(self.says(), format!("got {name}"));
    }

    fn pid(&self) -> u64 {
        self.running.pid() as u64
    }
}

/// Reported, or ended; since the daemon started.
fn counted(daemon: &Daemon, result: &str) -> u64 {
    let text = daemon.scrape();
    let metric = format!("wayside_deadlocks_total{{result=\"{result}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&metric)?.parse().ok()).expect("it is counted")
}

fn pids(deadlock: &serde_json::Value) -> HashSet<u64> {
    deadlock["cycle"].as_array().unwrap().iter().map(|step| step["owner"]["pid"].as_u64().unwrap()).collect()
}

#[test]
fn two_processes_in_a_circle_are_named_and_counted_once() {
    let daemon = Daemon::start(&["--deadlock-period", "100ms"]);
    let mut workers = ["a b", "b a"].map(|names| Worker::of(&daemon, &format!("steps {names}")));
    workers[0].gets("a");
    workers[1].gets("b");
    assert_eq!(end(daemon.command(&["deadlocks"])).stdout, "no deadlock\n");
    workers.iter_mut().for_each(Worker::step);
    eventually("both wait", || daemon.count("a", "waiting") + daemon.count("b", "waiting") == 2);

    let answer = daemon.json("deadlocks");
    assert_eq!(answer["deadlocks"].as_array().unwrap().len(), 1, "{answer}");
    let deadlock = &answer["deadlocks"][0];
    assert_eq!(pids(deadlock), workers.iter().map(Worker::pid).collect());
    for step in deadlock["cycle"].as_array().unwrap() {
        let waits_for = if step["owner"]["pid"] == workers[0].pid() { "b" } else { "a" };
        assert_eq!((step["name"].as_str(), step["because"].as_str()), (Some(waits_for), Some("held")));
        assert!(step["task"].as_str().unwrap().starts_with("thread/"), "{step}");
        let token = step["token"].as_str().unwrap();
        let locks = daemon.json("locks");
        let is_it = |lock: &serde_json::Value| lock["token"] == token && lock["name"] == waits_for;
        assert!(locks["locks"].as_array().unwrap().iter().any(is_it), "{locks}");
    }
    let text = end(daemon.command(&["deadlocks"])).stdout;
    assert!(
        text.starts_with("deadlock of 2 tasks, each waiting for the next, the last for the first\nOWNER "),
        "{text}"
    );
    assert!(workers.iter().all(|worker| text.contains(&format!("/{}  thread/", worker.pid()))), "{text}");

    eventually("it is counted", || counted(&daemon, "reported") == 1);
    thread::sleep(Duration::from_secs(1));
    assert_eq!((counted(&daemon, "reported"), counted(&daemon, "aborted")), (1, 0), "ten periods later");
    drop(workers);
    eventually("it is over", || daemon.json("deadlocks")["deadlocks"].as_array().unwrap().is_empty());
}

/// Each of these processes gets its first lock; then they go on, one after the other, and wait. One gives up, and the
/// others get what they want. Which one that was.
fn one_gives_up(daemon: &Daemon, workers: &mut [Worker], firsts: &[&str], order: &[usize]) -> usize {
    for (worker, first) in workers.iter_mut().zip(firsts).filter(|(_, first)| !first.is_empty()) {
        worker.gets(first);
    }
    for (waits, &next) in order.iter().enumerate() {
        workers[next].step();
        let waiting = || {
            let locks = daemon.json("locks");
            locks["locks"].as_array().unwrap().iter().filter(|lock| lock["state"] == "waiting").count()
        };
        // The last one closes the circle, and may have given up before anybody looks.
        eventually("it waits", || waiting() == waits + 1 || waits + 1 == order.len());
    }
    let said: Vec<String> = workers.iter().map(Worker::says).collect();
    let gave_up: Vec<usize> = (0..said.len()).filter(|&worker| said[worker].starts_with("gave up ")).collect();
    let [one] = gave_up[..] else { panic!("{said:?}") };
    assert!(said[one].contains(&format!("/{}/", workers[one].pid())), "{said:?}");
    assert!(said[one].contains(" held by "), "{said:?}");
    eventually("all is over", || daemon.json("locks")["locks"].as_array().unwrap().is_empty());
    assert_eq!((counted(daemon, "aborted"), counted(daemon, "reported")), (1, 0));
    one
}

fn ending_daemon() -> Daemon {
    Daemon::start(&["--deadlocks", "abort-youngest", "--deadlock-period", "200ms"])
}

#[test]
fn of_two_processes_the_one_that_waited_last_gives_up() {
    let daemon = ending_daemon();
    let mut workers = ["a b", "b a"].map(|names| Worker::of(&daemon, &format!("steps {names}")));
    assert_eq!(one_gives_up(&daemon, &mut workers, &["a", "b"], &[1, 0]), 0);
}

#[test]
fn of_three_processes_one_gives_up_and_the_others_get_their_locks() {
    let daemon = ending_daemon();
    let mut workers = ["a b", "b c", "c a"].map(|names| Worker::of(&daemon, &format!("steps {names}")));
    assert_eq!(one_gives_up(&daemon, &mut workers, &["a", "b", "c"], &[0, 2, 1]), 1);
}

#[test]
fn a_reader_behind_a_writer_behind_a_reader_is_a_circle() {
    let daemon = ending_daemon();
    // 0 reads a and wants b, which 1 has; 2 wants to write a; 1 wants to read a, behind 2.
    let mut workers = ["~a b", "b ~a", "a"].map(|names| Worker::of(&daemon, &format!("steps {names}")));
    assert_eq!(one_gives_up(&daemon, &mut workers, &["~a", "b", ""], &[0, 2, 1]), 1);
}

#[test]
fn commands_under_locks_that_ask_for_each_others() {
    let daemon = ending_daemon();
    let program = env!("CARGO_BIN_EXE_wayside");
    let ready = |name: &str| daemon.directory.path().join(name).display().to_string();
    let nested = |outer: &str, inner: &str| {
        let (mine, theirs) = (ready(outer), ready(inner));
        let script = format!(
            "touch {mine}; until [ -e {theirs} ]; do sleep 0.01; done; {program} lock {inner} -- true; echo $?"
        );
        Running::start(daemon.command(&["lock", outer, "--", "sh", "-c", &script]))
    };
    let (one, another) = (nested("a", "b"), nested("b", "a"));
    let mut codes = [one.line(), another.line()];
    codes.sort();
    assert_eq!(codes, ["0", "75"]);
    assert_eq!(counted(&daemon, "aborted"), 1);
}

#[test]
fn processes_on_two_hosts_in_a_circle() {
    if let Some(why) = wayside_hosts::missing() {
        return println!("skipped: deadlocks of two hosts: {why}");
    }
    const SWITCH: &str = "10.78.0.1:7600";
    let host = || Host::new().expect("the caller has asked");
    let (switch, clients) = (host(), [host(), host()]);
    for (index, client) in clients.iter().enumerate() {
        client.join("eth0", &switch, &format!("port{index}"), 1).expect("veth");
        client.ip(&format!("addr add 10.78.{index}.2/24 dev eth0")).expect("an address");
        client.ip(&format!("route add default via 10.78.{index}.1")).expect("a route");
        switch.ip(&format!("addr add 10.78.{index}.1/24 dev port{index}")).expect("an address");
    }
    let directory = tempfile::tempdir().unwrap();
    let mut command = wayside(&["switch", "--listen", SWITCH, "--mode", "userspace", "--authentication", "off"]);
    command.args(["--deadlocks", "abort-youngest", "--deadlock-period", "200ms"]);
    command.arg("--state-dir").arg(directory.path()).arg("--control-socket").arg(directory.path().join("s"));
    switch.enter(&mut command);
    let daemon = Running::start(command);
    assert!(daemon.line().starts_with("switch: userspace on 10.78.0.1:7600"));

    let mut workers: Vec<Worker> = clients
        .iter()
        .zip(["a b", "b a"])
        .map(|(client, names)| {
            Worker::start(&format!("steps {names}"), |command| {
                command.env("WAYSIDE_ENDPOINTS", SWITCH);
                client.enter(command);
            })
        })
        .collect();
    workers[0].gets("a");
    workers[1].gets("b");
    workers.iter_mut().for_each(Worker::step);
    let mut said: Vec<String> = workers.iter().map(|worker| worker.says()).collect();
    said.sort();
    assert!(said[0].starts_with("gave up ") && said[1].starts_with("got "), "{said:?}");
}

/// The first of a shard's names. 0 is east.
fn name_in(shards: &Shards, shard: usize) -> String {
    let is_its = |name: &String| shards.owner(Name::from(name.as_str()).id().unwrap()) == shard;
    (0..).map(|number| format!("job-{number}")).find(is_its).unwrap()
}

#[test]
fn a_circle_over_two_shards_is_found_by_who_asks_both() {
    let daemons = ["east", "west"].map(|shard| {
        Daemon::start(&["--shard", shard, "--shards", "east,west", "--deadlock-period", "100ms", "--lease", "1s"])
    });
    let [east, west] = &daemons;
    let endpoints = format!("east={};west={}", east.address, west.address);
    let shards = Shards::new(["east", "west"].map(String::from)).unwrap();
    let [a, b] = [0, 1].map(|shard| name_in(&shards, shard));
    let mut workers = [[&a, &b], [&b, &a]].map(|[first, second]| {
        Worker::start(&format!("steps {first} {second}"), |command| {
            command.env("WAYSIDE_ENDPOINTS", &endpoints);
        })
    });
    let ask = |arguments: &[&str]| {
        let mut command = wayside(&[&["deadlocks"], arguments].concat());
        command.env("WAYSIDE_ENDPOINTS", &endpoints);
        end(command)
    };
    workers[0].gets(&a);
    workers[1].gets(&b);
    assert_eq!(ask(&[]).stdout, "no deadlock\n");
    workers.iter_mut().for_each(Worker::step);
    eventually("both wait", || east.count(&a, "waiting") + west.count(&b, "waiting") == 2);

    let answer: serde_json::Value = serde_json::from_str(&ask(&["-o", "json"]).stdout).unwrap();
    let [deadlock] = &answer["deadlocks"].as_array().unwrap()[..] else { panic!("{answer}") };
    assert_eq!(pids(deadlock), workers.iter().map(Worker::pid).collect());
    for step in deadlock["cycle"].as_array().unwrap() {
        let is_east = step["name"] == a;
        assert!(is_east || step["name"] == b, "{step}");
        assert_eq!(step["owner"]["shard"], if is_east { "east" } else { "west" }, "whose handle it is");
    }
    let text = ask(&[]);
    assert!(text.code == Some(0) && text.stdout.starts_with("deadlock of 2 tasks, "), "{text:?}");
    for daemon in &daemons {
        let own = daemon.json("deadlocks");
        assert!(own["deadlocks"].as_array().unwrap().is_empty() && own["unconfirmed"] == 0, "{own}");
        assert_eq!(counted(daemon, "reported"), 0, "neither sees the other's half");
    }

    let stream = UnixStream::connect(east.socket()).unwrap();
    say(&stream, &serde_json::json!({ "query": "listings" }));
    let listings = BufReader::new(stream).lines().next().unwrap().unwrap();
    let step = &deadlock["cycle"][0];
    assert!(listings.contains(step["task"].as_str().unwrap()) && !listings.contains("task/"), "{listings}");

    // Of a shard that is away nothing is known; what is at the other one is told.
    let [_, west] = daemons;
    drop(west);
    let text = ask(&[]);
    assert!(text.code == Some(69) && text.stdout.starts_with("no deadlock\n"), "{text:?}");
    assert!(text.stderr.contains("shard west: "), "{text:?}");
}

/// A node that says it holds and awaits whatever the test has it say.
struct Liar {
    session: SessionInfo,
    stream: UnixStream,
    orders: Receiver<Abort>,
}

impl Liar {
    /// `listings`: what it answers, the last one for ever: lines such as `holds a, awaits b`.
    fn start(daemon: &Daemon, listings: &'static [&'static str]) -> Liar {
        let session = enrolled(daemon);
        let stream = UnixStream::connect(daemon.socket()).unwrap();
        let hello = Hello {
            handle: session.handle,
            lifeline: lifeline_text(session.lifeline),
            pid: 1,
            local: true,
            version: "0.1.0".into(),
        };
        say(&stream, &Greeting { hello });
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        assert!(serde_json::from_str::<Welcome>(&lines.next().unwrap()).unwrap().ok);
        let (order, orders) = channel();
        let answers = stream.try_clone().unwrap();
        thread::spawn(move || {
            let mut said = 0;
            for line in lines {
                if let Ok(asked) = serde_json::from_str::<ListRequest>(&line) {
                    let entries = entries(listings[said.min(listings.len() - 1)]);
                    let process = format!("of {}", session.handle);
                    say(&answers, &Listing { id: asked.id, process, entries, queues: Vec::new(), kept: 0 });
                    said += 1;
                } else if let Ok(abort) = serde_json::from_str(&line)
                    && order.send(abort).is_err()
                {
                    return;
                }
            }
        });
        Liar { session, stream, orders }
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn say(mut stream: &UnixStream, line: &impl serde::Serialize) {
    let _ = writeln!(stream, "{}", serde_json::to_string(line).unwrap());
}

fn entries(text: &str) -> Vec<Listed> {
    let listed = |(line, number): (&str, u64)| {
        let (state, name) = line.split_once(' ').unwrap();
        Listed {
            name: name.into(),
            name_id: name.into(),
            slot: 0,
            mode: "exclusive".into(),
            state: if state == "holds" { "held" } else { "waiting" }.into(),
            since_us: 60_000_000,
            token: String::new(),
            request: request_text(number),
            priority: None,
            task: "thread/1".into(),
            parent: String::new(),
        }
    };
    text.split(", ").filter(|line| !line.is_empty()).zip(1..).map(listed).collect()
}

/// A session that only has begun: its lease must be long.
fn enrolled(daemon: &Daemon) -> SessionInfo {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(daemon.address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let random = socket.local_addr().unwrap().port().into();
    let mut node =
        Node::new(NodeConfig { namespace: wayside_wire::padded("default").unwrap(), ..NodeConfig::new(random) });
    let (began, mut buffer) = (Instant::now(), [0; 2_048]);
    let now = || Time(1 + began.elapsed().as_micros() as u64);
    node.start(now());
    loop {
        if let Some(session) = node.session() {
            return session;
        }
        while let Some(out) = node.transmit() {
            socket.send(out.packet).unwrap();
        }
        let length = socket.recv(&mut buffer).unwrap();
        node.on_packet(now(), &buffer[..length]);
    }
}

#[test]
fn a_circle_in_one_round_of_listings_alone_is_no_deadlock() {
    // Off: every listing is one that this test has asked for.
    let daemon = Daemon::start(&["--lease", "10m", "--deadlocks", "off"]);
    let b_waits = &["holds b, awaits a"];
    let phantom = Liar::start(&daemon, &["holds a, awaits b", ""]);
    let other = Liar::start(&daemon, b_waits);
    let answer = daemon.json("deadlocks");
    assert_eq!(
        (answer["deadlocks"].as_array().unwrap().len(), answer["unconfirmed"].as_u64()),
        (0, Some(1)),
        "{answer}"
    );
    let answer = daemon.json("deadlocks");
    assert_eq!(
        (answer["deadlocks"].as_array().unwrap().len(), answer["unconfirmed"].as_u64()),
        (0, Some(0)),
        "{answer}"
    );
    drop(phantom);
    // The same hands and locks, by other requests.
    let again = Liar::start(&daemon, &["holds a, awaits b", "holds z, holds a, awaits b"]);
    assert_eq!(daemon.json("deadlocks")["unconfirmed"], 1);
    drop(again);
    let stays = Liar::start(&daemon, &["holds a, awaits b"]);
    let answer = daemon.json("deadlocks");
    assert_eq!(
        (answer["deadlocks"].as_array().unwrap().len(), answer["unconfirmed"].as_u64()),
        (1, Some(0)),
        "{answer}"
    );
    drop((stays, other));
}

#[test]
fn a_wait_in_a_circle_is_given_up_until_it_is_and_counted_once() {
    let daemon = Daemon::start(&["--lease", "10m", "--deadlocks", "abort-youngest", "--deadlock-period", "100ms"]);
    let (one, another) = (Liar::start(&daemon, &["holds a, awaits b"]), Liar::start(&daemon, &["holds b, awaits a"]));
    // As old as the other one: the later request, then the later session, gives up.
    let victim = if one.session.handle > another.session.handle { &one } else { &another };
    for _ in 0..3 {
        let order = victim.orders.recv_timeout(PATIENCE).unwrap();
        assert_eq!(order.abort, request_text(2));
        assert_eq!(order.cycle.matches("waits for").count(), 2, "{}", order.cycle);
    }
    assert_eq!(counted(&daemon, "aborted"), 1);
}

/// A way to the daemon by which nodes hear what it asks up to 2 ms later: then their listings are of different moments
/// always, and not only on large clusters.
fn slow_way(daemon: &Daemon, number: usize) -> PathBuf {
    let (path, socket) = (daemon.directory.path().join(format!("slow{number}.sock")), daemon.socket());
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        // Until its end, which is the node's.
        let (mut node, _) = listener.accept().unwrap();
        let mut daemon = UnixStream::connect(socket).unwrap();
        let (mut from_node, mut to_daemon) = (node.try_clone().unwrap(), daemon.try_clone().unwrap());
        thread::spawn(move || {
            let _ = std::io::copy(&mut from_node, &mut to_daemon);
            let _ = to_daemon.shutdown(Shutdown::Both);
        });
        let (mut bytes, mut random) = ([0; 4_096], number as u64);
        while let Ok(length @ 1..) = daemon.read(&mut bytes) {
            random = wayside_wire::mix(random + 1);
            thread::sleep(Duration::from_micros(random % 2_000));
            if node.write_all(&bytes[..length]).is_err() {
                return;
            }
        }
    });
    path
}

#[test]
fn no_deadlock_is_seen_where_locks_change_hands_all_the_time() {
    let daemon = Daemon::start(&["--deadlocks", "abort-youngest", "--deadlock-period", "100ms"]);
    let work = ["gate", "gate", "gate", "order", "order"];
    let mut workers: Vec<Worker> = Vec::new();
    for (number, kind) in work.iter().enumerate() {
        let (address, way) = (daemon.address.to_string(), slow_way(&daemon, number));
        workers.push(Worker::start(kind, |command| {
            command.env("WAYSIDE_ENDPOINTS", address).env("WAYSIDE_SOCKET", way);
        }));
    }
    let stream = UnixStream::connect(daemon.socket()).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let (mut looks, mut unconfirmed) = (0, 0);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) || unconfirmed == 0 {
        say(&stream, &serde_json::json!({ "query": "deadlocks" }));
        let answer: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert!(answer["deadlocks"].as_array().unwrap().is_empty(), "{answer}");
        unconfirmed += answer["unconfirmed"].as_u64().unwrap();
        looks += 1;
        assert!(began.elapsed() < PATIENCE, "vacuous: no circle in one round alone, in {looks} looks");
    }
    println!("{looks} looks, {unconfirmed} circles in one round alone");
    for mut worker in workers {
        worker.step();
        assert_eq!(worker.says(), "done", "no wait was given up");
        assert_eq!(worker.running.wait().code(), Some(0));
    }
    assert_eq!((counted(&daemon, "reported"), counted(&daemon, "aborted")), (0, 0));
}
