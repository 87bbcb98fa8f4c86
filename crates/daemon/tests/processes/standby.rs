//! Two switches of one shard with a real etcd: killed, stopped, drained, cut off.

use crate::support;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use support::etcd::{Detour, Etcd};
use support::{Daemon, Ended, PATIENCE, Running, connect, end, eventually, signal_process, three_ports, wayside};
use wayside_client::Session;

/// Two daemons, the first of which serves.
struct Pair {
    first: Daemon,
    second: Daemon,
    /// Last, so that it outlives them.
    etcd: Etcd,
}

impl Pair {
    fn or_skip(flags: &[&str]) -> Option<Pair> {
        let etcd = Etcd::or_skip("switches that stand by for each other")?;
        let flags = [&["--etcd", &etcd.url], flags].concat();
        let first = Daemon::start(&flags);
        eventually("the first serves", || role(&first) == "serving");
        let second = Daemon::start(&flags);
        eventually("the second stands by", || role(&second) == first.address.to_string());
        Some(Pair { first, second, etcd })
    }

    /// A command that knows both.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = wayside(arguments);
        command.env("WAYSIDE_ENDPOINTS", format!("{},{}", self.first.address, self.second.address));
        command
    }

    fn lock(&self, arguments: &[&str]) -> Ended {
        end(self.command(&[&["lock"], arguments].concat()))
    }

    /// That of a lock which is given back at once.
    fn token(&self) -> u64 {
        let ended = self.lock(&["jobs", "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN"]);
        ended.stdout.trim().parse().unwrap_or_else(|_| panic!("{ended:?}"))
    }

    /// Holds a lock until `until` is there; its first line is the token, its last one `done`.
    fn hold(&self, name: &str, until: &Path) -> Running {
        let script =
            format!("echo $WAYSIDE_LOCK_TOKEN; until [ -e {} ]; do sleep 0.02; done; echo done", until.display());
        Running::start(self.command(&["lock", name, "--", "sh", "-c", &script]))
    }
}

/// Lets what [`Pair::hold`] has begun end: it has had its lock all the time.
fn kept_to_the_end(holder: Running, over: &Path) {
    fs::write(over, "").unwrap();
    assert_eq!(holder.line(), "done");
    assert_eq!(holder.wait().code(), Some(0));
}

/// `serving`, or of a standby who serves, or `nobody`.
fn role(daemon: &Daemon) -> String {
    let role = &daemon.json("status")["role"];
    match role.get("standby") {
        Some(standby) => standby["serving"].as_str().unwrap_or("nobody").to_owned(),
        None => role.as_str().unwrap_or("?").to_owned(),
    }
}

#[test]
fn a_standby_takes_the_place_of_a_killed_switch_and_holders_do_not_notice() {
    let Some(mut pair) = Pair::or_skip(&[]) else { return };
    let flags = tempfile::tempdir().unwrap();
    let (over, over_too) = (flags.path().join("first"), flags.path().join("second"));
    let holder = pair.hold("jobs", &over);
    let first = holder.token();
    let waiter = pair.hold("jobs", &over_too);
    eventually("one waits", || pair.first.count("jobs", "waiting") == 1);
    pair.first.kill();
    // Another name is granted as soon as the standby serves, and the held one to nobody.
    assert_eq!(pair.lock(&["other", "--", "true"]).code, Some(0));
    assert_eq!(pair.lock(&["jobs", "--try", "--", "true"]).code, Some(75));
    assert_eq!(role(&pair.second), "serving");
    kept_to_the_end(holder, &over);
    assert!(waiter.token() > first, "who waited was served, with a higher token");
    fs::write(&over_too, "").unwrap();
    assert_eq!(waiter.wait().code(), Some(0));
    // The first one comes back as a standby, and knows better than to serve.
    pair.first.restart();
    eventually("the first stands by", || role(&pair.first) == pair.second.address.to_string());
}

/// What a dead node holds is free its lease later, and who lives keeps what he holds all the time.
#[test]
fn a_node_that_dies_with_its_switch_is_waited_for_until_its_lease_is_over() {
    let Some(mut pair) = Pair::or_skip(&["--lease", "2s"]) else { return };
    let flags = tempfile::tempdir().unwrap();
    let over = flags.path().join("over");
    let (lives, dies) = (pair.hold("kept", &over), pair.hold("jobs", &over));
    lives.token();
    let first = dies.token();
    let waiter = pair.hold("jobs", &over);
    eventually("one waits", || pair.first.count("jobs", "waiting") == 1);
    let since = Instant::now();
    // Or the switch would hear of it by its lifeline.
    pair.first.kill();
    dies.signal(libc::SIGKILL);
    assert!(waiter.token() > first, "who waited is served");
    assert!(since.elapsed() >= Duration::from_secs(2), "but not while it might be held: {:?}", since.elapsed());
    assert_eq!(pair.lock(&["kept", "--try", "--", "true"]).code, Some(75), "who lives was disturbed");
    fs::write(&over, "").unwrap();
    for holder in [lives, waiter] {
        assert_eq!(holder.line(), "done");
        assert_eq!(holder.wait().code(), Some(0));
    }
}

/// Clients reach it all the while, and it reaches them: it stops by itself before its standby serves.
#[test]
fn a_switch_that_is_cut_off_from_etcd_alone_grants_nothing_beside_its_standby() {
    let Some(etcd) = Etcd::or_skip("a switch that is cut off from etcd") else { return };
    let detour = Detour::to(&etcd.url);
    let first = Daemon::start(&["--etcd", &detour.url()]);
    eventually("the first serves", || role(&first) == "serving");
    let second = Daemon::start(&["--etcd", &etcd.url]);
    eventually("the second stands by", || role(&second) == first.address.to_string());
    let pair = Pair { first, second, etcd };
    let flags = tempfile::tempdir().unwrap();
    let over = flags.path().join("over");
    let holder = pair.hold("kept", &over);
    holder.token();
    let before = pair.token();
    detour.close();
    eventually("the second serves", || role(&pair.second) == "serving");
    // Who knows the first alone gets nothing there.
    let mut at_first = wayside(&["lock", "jobs", "--wait", "1s", "--", "true"]);
    at_first.env("WAYSIDE_ENDPOINTS", pair.first.address.to_string());
    let ended = end(at_first);
    assert!(matches!(ended.code, Some(69 | 75)), "{ended:?}");
    assert!(pair.token() > before, "the second has the lock");
    assert_eq!(pair.lock(&["kept", "--try", "--", "true"]).code, Some(75), "who holds was disturbed");
    detour.open();
    eventually("the first stands by", || role(&pair.first) == pair.second.address.to_string());
    kept_to_the_end(holder, &over);
}

/// Each of them, and so the one that leads: killed, or stopped. While they elect another nothing is written there, no
/// switch serves for longer than its lease, and who holds has to have a longer one (docs/availability.md).
#[test]
fn switches_survive_any_one_of_three_members_of_etcd() {
    let Some([one, two, mut three]) = Etcd::three_or_skip("an etcd of three members") else { return };
    let urls = [&one, &two, &three].map(|member| member.url.as_str()).join(",");
    let start = || Daemon::start(&["--etcd", &urls, "--lease", "10s"]);
    let first = start();
    eventually("the first serves", || role(&first) == "serving");
    let second = start();
    eventually("the second stands by", || role(&second) == first.address.to_string());
    let mut pair = Pair { first, second, etcd: one };
    let flags = tempfile::tempdir().unwrap();
    let over = flags.path().join("over");
    let holder = pair.hold("kept", &over);
    holder.token();
    let mut latest = pair.token();
    let mut survives = |pair: &Pair, what: &str| {
        let gone = Instant::now();
        // The lease of before may last for a while.
        std::thread::sleep(Duration::from_millis(400));
        let token = pair.token();
        println!("{what}: a lock was granted {} ms later", gone.elapsed().as_millis());
        assert!(token > latest, "{what}: {token} after {latest}");
        latest = token;
        assert_eq!(pair.lock(&["kept", "--try", "--", "true"]).code, Some(75), "{what}: who holds was disturbed");
    };
    pair.etcd.kill();
    survives(&pair, "the first member killed");
    pair.etcd.start();
    eventually("the first member is back", || pair.etcd.has_leader());
    signal_process(two.pid(), libc::SIGSTOP);
    survives(&pair, "the second one stopped");
    signal_process(two.pid(), libc::SIGCONT);
    eventually("the second member is back", || two.has_leader());
    three.kill();
    survives(&pair, "the third one killed");
    kept_to_the_end(holder, &over);
}

#[test]
fn a_switch_that_ends_in_order_keeps_nobody_waiting() {
    // Longer than this test may take, if somebody had to wait for it.
    let Some(mut pair) = Pair::or_skip(&["--serving-lease", "60s", "--lease", "120s"]) else { return };
    let flags = tempfile::tempdir().unwrap();
    let over = flags.path().join("over");
    let holder = pair.hold("jobs", &over);
    let first = holder.token();
    assert_eq!(pair.first.interrupt().code(), Some(0));
    assert_eq!(pair.lock(&["jobs", "--try", "--", "true"]).code, Some(75));
    kept_to_the_end(holder, &over);
    let ended = pair.lock(&["jobs", "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN"]);
    assert!(ended.stdout.trim().parse::<u64>().unwrap() > first, "{ended:?}");
}

/// The switch of [`sessions`].
const SWITCH: &str = "STANDBY_TEST_SWITCH";

/// Not a test but a process of one: it has many sessions, until it is killed.
#[test]
fn sessions() {
    let Ok(switch) = std::env::var(SWITCH) else { return };
    let sessions: Vec<Session> = (0..24).map(|_| connect(switch.as_str())).collect();
    eventually("all have lifelines", || sessions.iter().all(Session::has_lifeline));
    println!("\nready");
    std::thread::sleep(2 * PATIENCE);
}

/// Each end is to be written to etcd, by the thread that renews the post there.
#[test]
fn a_switch_keeps_its_post_when_many_sessions_end_at_once_and_etcd_is_slow() {
    let Some(etcd) = Etcd::or_skip("switches that stand by for each other") else { return };
    let detour = Detour::to(&etcd.url);
    let first = Daemon::start(&["--etcd", &detour.url(), "--lease", "60s"]);
    eventually("the first serves", || role(&first) == "serving");
    let second = Daemon::start(&["--etcd", &etcd.url, "--lease", "60s"]);
    eventually("the second stands by", || role(&second) == first.address.to_string());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "standby::sessions", "--nocapture"]).env(SWITCH, first.address.to_string());
    let holder = Running::start(command);
    while holder.line() != "ready" {}
    let left = || first.json("status")["sessions"].as_array().map_or(0, Vec::len);
    assert_eq!(left(), 24);
    let epoch = || first.json("status")["epoch"].as_u64().unwrap();
    let before = epoch();
    detour.late.store(60, SeqCst);
    holder.signal(libc::SIGKILL);
    eventually("all are over", || left() == 0);
    detour.late.store(0, SeqCst);
    assert_eq!((role(&first), epoch()), ("serving".to_owned(), before), "nobody has taken its place");
    assert_eq!(role(&second), first.address.to_string());
}

/// Of a token: 23 bits above tenure and sequence.
fn epoch_of(token: u64) -> u64 {
    token >> 40
}

#[test]
fn a_switch_that_ends_in_order_hands_its_locks_over_and_nobody_is_asked() {
    let Some(mut pair) = Pair::or_skip(&["--lease", "60s"]) else { return };
    let flags = tempfile::tempdir().unwrap();
    let (over, over_too) = (flags.path().join("first"), flags.path().join("second"));
    let holder = pair.hold("jobs", &over);
    let first = holder.token();
    let waiter = pair.hold("jobs", &over_too);
    eventually("one waits", || pair.first.count("jobs", "waiting") == 1);
    // There and back: what was handed over once may be handed over again, and to whom it came from.
    assert_eq!(pair.first.interrupt().code(), Some(0));
    assert_eq!(pair.lock(&["jobs", "--try", "--", "true"]).code, Some(75));
    assert_eq!(role(&pair.second), "serving");
    pair.first.restart();
    eventually("the first stands by", || role(&pair.first) == pair.second.address.to_string());
    assert_eq!(pair.second.interrupt().code(), Some(0));
    assert_eq!(pair.lock(&["jobs", "--try", "--", "true"]).code, Some(75));
    assert_eq!(role(&pair.first), "serving");
    kept_to_the_end(holder, &over);
    let second = waiter.token();
    assert!(second > first);
    assert_eq!(epoch_of(second), epoch_of(first), "nobody was asked");
    fs::write(&over_too, "").unwrap();
    assert_eq!(waiter.wait().code(), Some(0));
    // Whoever is killed hands nothing over.
    pair.second.restart();
    eventually("the second stands by", || role(&pair.second) == pair.first.address.to_string());
    pair.first.kill();
    let ended = pair.lock(&["jobs", "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN"]);
    assert_eq!(epoch_of(ended.stdout.trim().parse().unwrap()), epoch_of(first) + 1, "{ended:?}");
}

/// Of a queue in the switch, which has two cells, and of a lock that is its lock server's.
#[test]
fn a_switch_that_ends_in_order_hands_its_queues_over_with_all_who_hold_and_wait() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("queue.toml");
    fs::write(&config, "[[namespace]]\nname = 'default'\nengine = 'queue'\nqueues = ['jobs']\ncells = 2\n").unwrap();
    let flags = ["--config", config.to_str().unwrap(), "--lease", "60s"];
    let Some(mut pair) = Pair::or_skip(&flags) else { return };
    let _server = Running::start(pair.command(&["node", "serve-locks"]));
    eventually("a node serves locks", || pair.first.json("status")["namespaces"][0]["lock_server"] != 0);
    let over = |name: &str| directory.path().join(name);
    let holders = ["jobs", "cold"].map(|name| pair.hold(name, &over(name)));
    let firsts = holders.each_ref().map(Running::token);
    // One in the queue's other cell, and two behind it at the lock server.
    let waiters: Vec<Running> = (0..3).map(|_| pair.hold("jobs", &over("all"))).collect();
    eventually("three wait", || pair.first.count("jobs", "waiting") == 3);
    assert_eq!(pair.first.interrupt().code(), Some(0));
    assert_eq!(role(&pair.second), "serving");
    for name in ["jobs", "cold"] {
        assert_eq!(pair.lock(&[name, "--try", "--", "true"]).code, Some(75), "{name}");
    }
    pair.first.restart();
    eventually("the first stands by", || role(&pair.first) == pair.second.address.to_string());
    assert_eq!(pair.second.interrupt().code(), Some(0));
    assert_eq!(role(&pair.first), "serving");
    for (holder, name) in holders.into_iter().zip(["jobs", "cold"]) {
        fs::write(over(name), "").unwrap();
        assert_eq!(holder.line(), "done", "{name}");
        assert_eq!(holder.wait().code(), Some(0), "it kept {name} all the time");
    }
    fs::write(over("all"), "").unwrap();
    let seconds: Vec<u64> = waiters.iter().map(Running::token).collect();
    assert!(seconds.iter().all(|token| *token > firsts[0] && epoch_of(*token) == epoch_of(firsts[0])), "{seconds:?}");
    waiters.into_iter().for_each(|waiter| assert_eq!(waiter.wait().code(), Some(0)));
}

/// Whether somebody at this port begins as one who takes a hand-over does, with a nonce.
fn takes_hand_overs(address: &str) -> bool {
    TcpStream::connect(address).is_ok_and(|mut stream| {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.read_exact(&mut [0; 16]).is_ok()
    })
}

/// So that a firewall can be told of it. Where somebody else has it, hand-overs find another one by etcd.
#[test]
fn hand_overs_come_to_a_port_that_can_be_named() {
    let Some(etcd) = Etcd::or_skip("where hand-overs come to") else { return };
    let at = |port: u16| format!("127.0.0.1:{port}");
    let (port, other) = (three_ports(52_000), three_ports(55_000));
    let flags = ["--etcd", &etcd.url, "--lease", "60s"];
    let first = Daemon::start_at(&at(port), &[&flags[..], &["--hand-over-listen", &at(port + 2)]].concat());
    eventually("the first serves", || role(&first) == "serving");
    eventually("hand-overs come where it was told", || takes_hand_overs(&at(port + 2)));
    let has = TcpListener::bind(at(other)).unwrap();
    let second = Daemon::start_at(&at(other), &flags);
    eventually("the second stands by", || role(&second) == first.address.to_string());
    let mut pair = Pair { first, second, etcd };
    let before = pair.token();
    assert_eq!(pair.first.interrupt().code(), Some(0));
    assert_eq!(epoch_of(pair.token()), epoch_of(before), "it came to the second all the same");
    drop(has);
    pair.first.restart_with(&["--etcd", &pair.etcd.url, "--lease", "60s"]);
    eventually("by default it has the switch's number", || takes_hand_overs(&at(port)));
}

#[test]
fn a_switch_that_was_stopped_finds_that_another_one_serves_and_grants_nothing() {
    let Some(pair) = Pair::or_skip(&[]) else { return };
    let flags = tempfile::tempdir().unwrap();
    let over = flags.path().join("over");
    let holder = pair.hold("jobs", &over);
    holder.token();
    signal_process(pair.first.pid(), libc::SIGSTOP);
    eventually("the second serves", || role(&pair.second) == "serving");
    assert_eq!(pair.lock(&["jobs", "--try", "--", "true"]).code, Some(75));
    // Requests that waited in its socket are decided now, by its own clock: too late.
    signal_process(pair.first.pid(), libc::SIGCONT);
    let alone = end(pair.first.command(&["lock", "jobs", "--wait", "2s", "--", "true"]));
    assert!(matches!(alone.code, Some(69 | 75)), "{alone:?}");
    eventually("the first stands by", || role(&pair.first) == pair.second.address.to_string());
    kept_to_the_end(holder, &over);
}

#[test]
fn without_etcd_nothing_is_granted_and_with_it_all_goes_on() {
    let Some(mut pair) = Pair::or_skip(&["--lease", "60s"]) else { return };
    let flags = tempfile::tempdir().unwrap();
    let over = flags.path().join("over");
    let holder = pair.hold("jobs", &over);
    holder.token();
    pair.etcd.kill();
    let refused = |pair: &Pair| pair.lock(&["other", "--wait", "300ms", "--", "true"]).code != Some(0);
    eventually("the lease is over", || refused(&pair));
    assert!(refused(&pair), "it stays so");
    pair.etcd.start();
    eventually("locks are granted again", || !refused(&pair));
    // By whichever of the two. The holder had its lease, and has lost nothing.
    assert_eq!(pair.lock(&["jobs", "--try", "--", "true"]).code, Some(75));
    kept_to_the_end(holder, &over);
}

#[test]
fn sessions_outlive_both_switches() {
    let Some(mut pair) = Pair::or_skip(&["--lease", "60s"]) else { return };
    let flags = tempfile::tempdir().unwrap();
    let over = flags.path().join("over");
    let holder = pair.hold("jobs", &over);
    holder.token();
    pair.first.kill();
    pair.second.kill();
    pair.second.restart();
    eventually("it serves", || role(&pair.second) == "serving");
    assert_eq!(pair.lock(&["jobs", "--try", "--", "true"]).code, Some(75));
    kept_to_the_end(holder, &over);
}

#[test]
fn hosts_join_all_switches_at_once_and_leave_them_at_once() {
    let Some(etcd) = Etcd::or_skip("hosts of several switches") else { return };
    let start = |from: u16| Daemon::signing(&etcd.url, from, &[]);
    let mut first = start(31_000);
    eventually("the first serves", || role(&first) == "serving");
    let second = start(34_000);
    let (credentials, over) = (first.directory.path().join("credentials"), first.directory.path().join("over"));
    let node = |of: &Daemon, arguments: &[&str]| {
        let mut command = wayside(&[&["node"], arguments].concat());
        command.env("WAYSIDE_STATE_DIR", of.directory.path().join("state")).env("WAYSIDE_CREDENTIALS", &credentials);
        end(command)
    };
    // At the standby: that is where the token was made.
    let token = node(&second, &["token"]).stdout;
    let joined = node(&second, &["join", token.trim()]);
    assert_eq!(joined.code, Some(0), "{joined:?}");
    eventually("the first knows the host", || node(&first, &["list"]).stdout.lines().count() == 2);
    let endpoints = format!("{},{}", first.address, second.address);
    let lock = |arguments: &[&str]| {
        let mut command = wayside(&[&["lock"], arguments].concat());
        command.env("WAYSIDE_ENDPOINTS", &endpoints).env("WAYSIDE_CREDENTIALS", &credentials);
        command
    };
    let script = format!("echo $WAYSIDE_LOCK_TOKEN; until [ -e {} ]; do sleep 0.02; done; echo done", over.display());
    let holder = Running::start(lock(&["jobs", "--", "sh", "-c", &script]));
    holder.token();
    first.kill();
    // Its packets are signed by the key of the next epoch; whoever comes now enrols at the second one.
    eventually("the second serves", || role(&second) == "serving");
    assert_eq!(end(lock(&["jobs", "--try", "--", "true"])).code, Some(75));
    assert_eq!(end(lock(&["other", "--", "true"])).code, Some(0));
    kept_to_the_end(holder, &over);
    // Removed while the first one is down, it is so there too.
    let list = node(&second, &["list"]).stdout;
    let id = list.lines().nth(1).and_then(|line| line.split(' ').next()).expect("a host");
    assert_eq!(node(&second, &["remove", id]).code, Some(0));
    assert_eq!(end(lock(&["other", "--", "true"])).code, Some(77));
    first.restart();
    eventually("the first has removed it too", || node(&first, &["list"]).stdout.lines().count() < 2);
}

/// A host that is removed where no daemon runs is removed everywhere; one that has joined a switch that dies at once is
/// not forgotten; and an etcd that has lost everything costs nobody his authority.
#[test]
fn who_may_enrol_outlives_switches_and_etcd() {
    let Some(etcd) = Etcd::or_skip("what is known of hosts") else { return };
    let start = |from: u16| Daemon::signing(&etcd.url, from, &[]);
    let (first, mut second) = (start(43_000), start(46_000));
    let node = |of: &Daemon, host: &str, arguments: &[&str]| {
        let mut command = wayside(&[&["node"], arguments].concat());
        command.env("WAYSIDE_STATE_DIR", of.directory.path().join("state"));
        command.env("WAYSIDE_CREDENTIALS", first.directory.path().join(host));
        end(command)
    };
    let hosts = |of: &Daemon| {
        let list = node(of, "", &["list"]).stdout;
        list.lines().skip(1).map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let join = |of: &Daemon, host: &str| {
        let joined = node(of, host, &["join", node(of, "", &["token"]).stdout.trim()]);
        assert_eq!(joined.code, Some(0), "{joined:?}");
    };
    join(&second, "a");
    eventually("the first knows the host", || hosts(&first).len() == 1);
    let id = hosts(&first).remove(0);
    second.kill();
    assert_eq!(node(&second, "", &["remove", &id]).code, Some(0));
    let token = node(&second, "", &["token"]).stdout;
    second.restart();
    eventually("it is removed everywhere", || hosts(&first).is_empty());
    assert!(hosts(&second).is_empty());
    let joined = node(&second, "b", &["join", token.trim()]);
    assert_eq!(joined.code, Some(0), "the token was made while no daemon ran: {joined:?}");
    second.kill();
    second.restart();
    eventually("the first knows of it, before or since", || hosts(&first).len() == 1);
    assert_eq!(hosts(&second), hosts(&first));

    let everything = |order: &str| etcd.ask(order, r#"{"key":"AA==","range_end":"AA=="}"#);
    assert!(everything("deleterange").contains("deleted"));
    // "authority.key", as etcd shows it behind a prefix of a multiple of three bytes.
    eventually("it is told again", || everything("range").contains("YXV0aG9yaXR5Lmtle"));
    let third = start(49_000);
    assert_eq!(hosts(&third), hosts(&first));
    assert_eq!(hosts(&first).len(), 1);
    let authority = |of: &Daemon| fs::read(of.directory.path().join("state/enrolment/authority.key")).unwrap();
    assert!(authority(&first) == authority(&second) && authority(&second) == authority(&third));
}

#[test]
fn two_that_start_at_once_agree() {
    let Some(etcd) = Etcd::or_skip("switches that start at once") else { return };
    let flags = ["--etcd", &etcd.url];
    let daemons: Vec<Daemon> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..4).map(|_| scope.spawn(|| Daemon::start(&flags))).collect();
        started.into_iter().map(|daemon| daemon.join().unwrap()).collect()
    });
    let roles = || -> Vec<String> { daemons.iter().map(role).collect() };
    eventually("one serves", || roles().iter().filter(|role| *role == "serving").count() == 1);
    let serving = daemons.iter().find(|daemon| role(daemon) == "serving").expect("as above").address.to_string();
    eventually("the others know which", || roles().iter().filter(|role| **role == serving).count() == 3);
}

#[test]
fn etcd_keeps_no_more_than_it_is_told_to() {
    // Renewals every 25 ms, of which a second is kept.
    let Some(pair) = Pair::or_skip(&["--etcd-history", "1s", "--serving-lease", "100ms"]) else { return };
    // Of how it was at the beginning.
    let first = || pair.etcd.ask("range", r#"{"key":"AA==","revision":"2"}"#);
    eventually("the beginning is forgotten", || first().contains("compacted"));
    assert_eq!(pair.lock(&["jobs", "--", "true"]).code, Some(0));
}

#[test]
fn etcd_may_ask_for_certificates() {
    let Some(mut etcd) = Etcd::unstarted("an etcd behind certificates").map(Etcd::secure) else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let write = |name: &str, text: String| fs::write(file(name), text).unwrap();
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    write("ca.pem", authority.self_signed(&authority_key).unwrap().pem());
    let issuer = Issuer::new(authority, authority_key);
    for name in ["etcd", "switch"] {
        let mut parameters = CertificateParams::new(["127.0.0.1".into(), "localhost".into()]).unwrap();
        // etcd's gateway is a client of etcd's own.
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        write(&format!("{name}.pem"), parameters.signed_by(&key, &issuer).unwrap().pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
    let (ca, certificate, key) = (file("ca.pem"), file("etcd.pem"), file("etcd.key"));
    etcd.start_with(&["--client-cert-auth", "--trusted-ca-file", &ca, "--cert-file", &certificate, "--key-file", &key]);
    let (certificate, key) = (file("switch.pem"), file("switch.key"));
    let named = ["--etcd", &etcd.url, "--etcd-ca", &ca];
    let shown = [&named[..], &["--etcd-certificate", &certificate, "--etcd-key", &key]].concat();
    let daemon = Daemon::start(&shown);
    eventually("it serves", || role(&daemon) == "serving");
    assert_eq!(daemon.lock(&["jobs", "--", "true"]).code, Some(0));
    // Who shows none, or trusts others, is told why.
    for flags in [&named[..], &["--etcd", &etcd.url]] {
        let refused = end(wayside(&[&["dev", "--listen", "127.0.0.1:0"], flags].concat()));
        assert_eq!(refused.code, Some(69), "{refused:?}");
        assert!(refused.stderr.contains("can't reach etcd: https://"), "{}", refused.stderr);
    }
}

#[test]
fn what_is_wrong_with_etcd_is_said() {
    let start = Instant::now();
    let nowhere = end(wayside(&["dev", "--listen", "127.0.0.1:0", "--etcd", "http://127.0.0.1:1"]));
    assert_eq!(nowhere.code, Some(69), "{nowhere:?}");
    assert!(nowhere.stderr.contains("can't reach etcd: http://127.0.0.1:1: "), "{}", nowhere.stderr);
    assert!(start.elapsed() < Duration::from_secs(20));
    for (flags, expected) in [
        (&["--shard", "a/b"][..], "--shard (or WAYSIDE_SHARD) = \"a/b\" must be a word without a slash"),
        (&["--serving-lease", "1ms"], "must be 100 ms to 60 s"),
        (&["--serving-lease", "2s", "--lease", "3s"], "= 2 s must be at most half of lease = 3 s"),
        (&["--chain-length", "6"], "--chain-length (or WAYSIDE_CHAIN_LENGTH) = 6 must be 1 to 5"),
        (&["--etcd-key", "/k"], "etcd_certificate and etcd_key go together"),
        (&["--etcd-ca", "/no/such/file"], "can't speak to etcd securely: /no/such/file: "),
    ] {
        let ended =
            end(wayside(&[&["dev", "--listen", "127.0.0.1:0", "--etcd", "http://127.0.0.1:1"], flags].concat()));
        assert_eq!(ended.code, Some(64), "{flags:?}: {ended:?}");
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
}

/// They would mean other keys by the same numbers.
#[test]
fn a_switch_with_other_groups_than_its_shard_is_refused() {
    let Some(etcd) = Etcd::or_skip("switches whose groups of keys differ") else { return };
    let directory = tempfile::tempdir().unwrap();
    let start = |name: &str, settings: &str| {
        let config = directory.path().join(name);
        fs::write(&config, format!("[[namespace]]\nname = 'default'\n{settings}\n")).unwrap();
        vec!["--config".to_owned(), config.to_str().unwrap().to_owned(), "--etcd".to_owned(), etcd.url.clone()]
    };
    let sixteen = start("sixteen.toml", "groups = 16");
    let _first = Daemon::start(&sixteen.iter().map(String::as_str).collect::<Vec<_>>());
    for (name, settings, expected) in [
        ("eight.toml", "groups = 8", "namespace \"default\" has 16 groups of keys in shard"),
        ("none.toml", "keys = 0", "not 0: switches of one shard keep the same groups"),
    ] {
        let flags = start(name, settings);
        let mut command = wayside(&["switch", "--listen", "127.0.0.1:0"]);
        command.args(&flags).arg("--state-dir").arg(directory.path().join(name).with_extension("state"));
        let refused = end(command);
        assert_eq!(refused.code, Some(64), "{refused:?}");
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
}
