//! Hosts that join, nodes that enrol over TLS, and packets that are signed: docs/security.md, with real processes.

use crate::support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};
use support::etcd::{Detour, Etcd};
use support::{Daemon, Ended, PATIENCE, Running, end, eventually, free_address, wayside};
use tempfile::TempDir;
use wayside_client::control::{lifeline_text, veiled};
use wayside_client::{Error, Session};
use wayside_hosts::Host;
use wayside_wire::{BODY, Enrol, Entry, Header, Heartbeat, entry_at, kind, padded, service};

/// A switch on loopback whose packets are signed, and a directory for credentials.
struct Place {
    daemon: Daemon,
    credentials: PathBuf,
}

impl Place {
    fn new(flags: &[&str]) -> Place {
        // Kept over restarts: hosts know it.
        let enrol = free_address();
        let signed = ["--authentication", "on", "--enrol-listen", &enrol];
        let daemon = Daemon::start(&[&signed, flags].concat());
        let credentials = daemon.directory.path().join("credentials");
        Place { daemon, credentials }
    }

    fn node(&self, arguments: &[&str]) -> Ended {
        let mut command = wayside(&[&["node"], arguments].concat());
        command.env("WAYSIDE_STATE_DIR", self.daemon.directory.path().join("state"));
        command.env("WAYSIDE_CREDENTIALS", &self.credentials);
        end(command)
    }

    fn token(&self, lifetime: &str) -> String {
        let ended = self.node(&["token", "--lifetime", lifetime]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout.trim().to_owned()
    }

    fn join(&self) {
        let ended = self.node(&["join", &self.token("1h")]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let expected = format!("joined: sessions with the switch at {} begin with ", self.daemon.address);
        assert!(ended.stdout.starts_with(&expected), "{ended:?}");
    }

    fn session(&self) -> Result<Session, Error> {
        Session::builder().endpoint(self.daemon.address.to_string()).credentials(&self.credentials).connect()
    }

    fn lock(&self) -> Ended {
        let mut command = self.daemon.command(&["lock", "jobs", "--", "true"]);
        command.env("WAYSIDE_CREDENTIALS", &self.credentials);
        end(command)
    }

    fn session_in(&self, namespace: &str) -> Result<Session, Error> {
        let builder = Session::builder().endpoint(self.daemon.address.to_string()).credentials(&self.credentials);
        builder.namespace(namespace).connect()
    }

    /// Of the one host that has joined.
    fn id(&self) -> String {
        let list = self.node(&["list"]).stdout;
        list.lines().nth(1).and_then(|line| line.split(' ').next()).expect("a host").to_owned()
    }

    fn scrape(&self) -> String {
        self.daemon.scrape()
    }

    fn drops(&self, reason: &str) -> u64 {
        self.daemon.json("status")["drops"][reason].as_u64().unwrap_or(0)
    }
}

#[test]
fn a_host_locks_once_it_has_joined() {
    let place = Place::new(&[]);
    place.join();
    let ended = place.lock();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    // Whoever reads the key may begin sessions.
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&place.credentials), 0o700);
    let files: Vec<_> = std::fs::read_dir(&place.credentials).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!((files.len(), mode(&files[0])), (1, 0o600), "{files:?}");
    let key = place.daemon.directory.path().join("state/enrolment/authority.key");
    assert_eq!(mode(&key), 0o600);
    assert_eq!(place.drops("bad_tag") + place.drops("enrol_in_clear"), 0);
}

/// Packets of all kinds, and keys that change meanwhile.
#[test]
fn values_are_signed_too() {
    let place = Place::new(&["--key-lifetime", "100ms"]);
    place.join();
    let session = place.session().unwrap();
    let store = session.store();
    for round in 0..400u32 {
        store.put("signed", round.to_be_bytes()).unwrap();
        assert_eq!(store.get("signed").unwrap().unwrap().value.bytes(), round.to_be_bytes());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(place.daemon.json("status")["authentication"]["key_rotations"].as_u64().unwrap() > 0);
    assert_eq!(place.drops("bad_tag") + place.drops("no_key"), 0);
}

#[test]
fn a_host_that_has_not_joined_is_told_how() {
    // At the ports by which a client that was told nothing looks: one after the other.
    let ports = |first: u16| (first..first + 3).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    let first = (20_000..30_000).step_by(3).find(|first| ports(*first)).expect("three ports in a row");
    let daemon = Daemon::start_at(&format!("127.0.0.1:{first}"), &["--authentication", "on"]);
    let mut command = daemon.command(&["lock", "jobs", "--", "true"]);
    command.env("WAYSIDE_CREDENTIALS", daemon.directory.path().join("none"));
    let ended = end(command);
    assert_eq!(ended.code, Some(77), "{ended:?}");
    let expected =
        "takes enrolled hosts only: run `wayside node token` on its host, then `wayside node join TOKEN` here";
    assert!(ended.stderr.contains(expected), "{ended:?}");
    assert!(daemon.json("status")["drops"]["enrol_in_clear"].as_u64().unwrap() > 0);
}

#[test]
fn a_token_lets_one_host_in_once_and_not_too_late() {
    let place = Place::new(&[]);
    let token = place.token("1h");
    let refused = |token: &str, code: i32, expected: &str| {
        let ended = place.node(&["join", token]);
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.stderr.contains(expected), "{ended:?}");
        assert!(!ended.stderr.contains(token.rsplit('/').next().unwrap()), "no secret is repeated: {ended:?}");
    };
    let other = |at: usize| {
        let mut parts: Vec<String> = token.split('/').map(String::from).collect();
        parts[at] = parts[at].chars().rev().collect();
        parts.join("/")
    };
    refused(&other(1), 69, "the switch that answers is not the one that wrote the token");
    refused(&other(2), 77, "the switch knows no such token");
    assert_eq!(place.node(&["join", &token]).code, Some(0), "none of that has used it");
    refused(&token, 77, "this token was used already");
    let short = place.token("1ms");
    refused(&short, 77, "this token has expired");
    refused(&token[..token.len() - 1], 64, "this is no token");
    // As a script would hand it over: arguments are for every user of the host to see.
    let mut command = wayside(&["node", "join", "-"]);
    let mut child = command.env("WAYSIDE_CREDENTIALS", &place.credentials).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(place.token("1h").as_bytes()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn of_many_hosts_with_one_token_one_is_let_in() {
    let place = Place::new(&[]);
    let token = place.token("1h");
    let ends: Vec<i32> = thread::scope(|scope| {
        let join = || place.node(&["join", &token]).code.unwrap();
        let joins: Vec<_> = (0..8).map(|_| scope.spawn(join)).collect();
        joins.into_iter().map(|join| join.join().unwrap()).collect()
    });
    assert_eq!(ends.iter().filter(|code| **code == 0).count(), 1, "{ends:?}");
    assert!(ends.iter().all(|code| matches!(code, 0 | 77)), "{ends:?}");
}

#[test]
fn a_host_that_was_removed_begins_no_session() {
    let place = Place::new(&[]);
    place.join();
    let id = place.id();
    assert_eq!(place.lock().code, Some(0));
    assert_eq!(place.node(&["remove", &id]).code, Some(0));
    assert_eq!(place.node(&["remove", &id]).code, Some(64));
    assert_eq!(place.node(&["list"]).stdout, "no host has joined\n");
    let ended = place.lock();
    assert_eq!(ended.code, Some(77), "{ended:?}");
    assert!(ended.stderr.contains("this host was removed"), "{ended:?}");
    place.join();
    assert_eq!(place.lock().code, Some(0));
}

/// What changes the keys' chains and the shards is for root and the daemon's user, as is to have its file read again.
#[test]
fn of_whoever_reaches_a_switch_that_signs_its_own_user_alone_is_obeyed() {
    let place = Place::new(&[]);
    for order in [
        r#"{"query":"share","switch":"127.0.0.1:1","share":0}"#,
        r#"{"query":"recover"}"#,
        r#"{"query":"divide","version":1,"step":"announced","begins":null,"above":0,"map":"","former":""}"#,
        r#"{"query":"reload"}"#,
    ] {
        let refusal = "that is for root and the daemon's own user";
        let stranger = told(TcpStream::connect(place.daemon.admin()).unwrap(), order);
        assert!(stranger.contains(refusal), "{order}: {stranger}");
        let own = told(UnixStream::connect(place.daemon.socket()).unwrap(), order);
        assert!(own.contains("error") && !own.contains(refusal), "{order}: {own}");
    }
}

/// What a node shows on the network ends no session on the switch's host.
#[test]
fn a_lifeline_is_not_known_by_what_is_shown_of_it_elsewhere() {
    let place = Place::new(&[]);
    place.join();
    let session = place.session().unwrap();
    let info = session.info().unwrap();
    let hello = |shown: u64| {
        let (handle, lifeline) = (info.handle, lifeline_text(shown));
        format!(r#"{{"hello":{{"handle":{handle},"lifeline":"{lifeline}","pid":1,"local":true,"version":"0"}}}}"#)
    };
    let here = |shown| told(UnixStream::connect(place.daemon.socket()).unwrap(), &hello(shown));
    let elsewhere = |shown| told(TcpStream::connect(place.daemon.admin()).unwrap(), &hello(shown));
    let (accepted, refused) = ("{\"ok\":true}\n", "{\"ok\":false}\n");
    let secret = info.lifeline;
    assert_eq!([here(veiled(secret)), here(secret ^ 1)], [refused, refused]);
    // Earlier nodes show the secret.
    assert_eq!([elsewhere(veiled(secret)), elsewhere(secret), elsewhere(secret ^ 1)], [accepted, accepted, refused]);
    // Nor does whoever has read it answer in the node's place, though it came last.
    let mut eavesdropper = TcpStream::connect(place.daemon.admin()).unwrap();
    writeln!(eavesdropper, "{}", hello(veiled(secret))).unwrap();
    BufReader::new(&eavesdropper).read_line(&mut String::new()).unwrap();
    let _held = session.lock("listed").wait(PATIENCE).acquire().unwrap();
    eventually("the node itself is asked", || place.daemon.json("locks")["locks"][0]["name"] == "listed");
}

fn told(mut stream: impl Read + Write, line: &str) -> String {
    writeln!(stream, "{line}").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer
}

#[test]
fn what_hosts_asked_is_counted_and_told() {
    let place = Place::new(&["--key-lifetime", "100ms"]);
    let token = place.token("1h");
    for code in [0, 77] {
        assert_eq!(place.node(&["join", &token]).code, Some(code));
    }
    let session = place.session().unwrap();
    assert!(matches!(place.session_in("nowhere"), Err(Error::Refused(_))));
    let authentication = || place.daemon.json("status")["authentication"].clone();
    eventually("keys change", || authentication()["key_rotations"].as_u64().unwrap() > 0);
    let told = authentication();
    assert_eq!((&told["on"], &told["reason"], &told["hosts"]), (&true.into(), &"as configured".into(), &1.into()));
    let (joins, enrolments) = (&told["answers"]["join"], &told["answers"]["enrol"]);
    assert_eq!((&joins["accepted"], &joins["token_used"], &joins["token_expired"]), (&1.into(), &1.into(), &0.into()));
    assert_eq!(enrolments["accepted"], 1);
    assert!(enrolments["no_such_namespace"].as_u64().unwrap() > 0, "{told}");
    assert_eq!(place.daemon.json("status")["sessions"][0]["signed"], true);

    assert!(place.scrape().contains("\nwayside_signed_sessions 1\n"), "{}", place.scrape());

    let id = place.id();
    assert_eq!(place.node(&["remove", &id]).code, Some(0));
    assert_eq!(place.lock().code, Some(77));
    let scrape = place.scrape();
    for line in [
        "wayside_authentication{reason=\"as configured\"} 1",
        "wayside_joined_hosts 0",
        "wayside_enrolment_answers_total{question=\"join\",result=\"token_used\"} 1",
        "wayside_enrolment_answers_total{question=\"enrol\",result=\"accepted\"} 1",
        "wayside_enrolment_answers_total{question=\"enrol\",result=\"no_certificate\"} 0",
    ] {
        assert!(scrape.lines().any(|found| found == line), "no {line} in\n{scrape}");
    }
    let removed = "wayside_enrolment_answers_total{question=\"enrol\",result=\"removed\"} ";
    let count = |prefix: &str| scrape.lines().find_map(|line| line.strip_prefix(prefix)?.parse::<u64>().ok());
    assert!(count(removed) > Some(0) && count("wayside_key_rotations_total ") > Some(0), "{scrape}");
    drop(session);

    let unsigned = Daemon::start(&[]);
    let told = unsigned.json("status")["authentication"].clone();
    assert_eq!((&told["on"], &told["reason"]), (&false.into(), &"auto: listens on loopback".into()));
    assert_eq!(told["hosts"], serde_json::Value::Null);
    let scrape = unsigned.scrape();
    assert!(scrape.contains("\nwayside_authentication{reason=\"auto: listens on loopback\"} 0\n"), "{scrape}");
    assert!(!scrape.contains("wayside_joined_hosts"), "{scrape}");
}

/// An unsigned switch off loopback believes whoever reaches it, which nobody may overlook.
#[test]
fn doctor_warns_of_a_switch_that_believes_everybody() {
    if let Some(why) = wayside_hosts::missing() {
        return println!("skipped: a switch off loopback: {why}");
    }
    let host = Host::new().expect("the caller has asked");
    host.ip("addr add 10.79.9.1/32 dev lo").expect("an address");
    for (authentication, level, says) in [
        ("off", "warning", "ANY PROCESS OF ANY HOST THAT REACHES IT CAN SPEAK FOR ANY SESSION"),
        ("auto", "ok", "on (auto: listens off loopback): packets are signed"),
    ] {
        let directory = TempDir::new().expect("a directory");
        let socket = directory.path().join("s");
        let mut command = wayside(&["switch", "--listen", "10.79.9.1:7600", "--mode", "userspace"]);
        command.args(["--authentication", authentication, "--state-dir"]).arg(directory.path().join("state"));
        host.enter(command.arg("--control-socket").arg(&socket));
        let daemon = Running::start(command);
        assert!(daemon.line().contains("10.79.9.1:7600"));
        let mut doctor = wayside(&["doctor", "--endpoint", "10.79.9.1:7600", "-o", "json"]);
        host.enter(doctor.env("WAYSIDE_SOCKET", &socket));
        let ended = end(doctor);
        let report: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
        let findings = report["findings"].as_array().expect("a list");
        let finding = findings.iter().find(|finding| finding["check"] == "authentication").expect("doctor looks");
        assert_eq!(finding["level"], level, "{finding}");
        assert!(finding["finding"].as_str().unwrap().contains(says), "{finding}");
    }
    let here = Daemon::start(&[]).json("doctor");
    let findings = here["findings"].as_array().expect("a list");
    let finding = findings.iter().find(|finding| finding["check"] == "authentication").expect("doctor looks");
    let says = "off (auto: listens on loopback): any process of this host can speak for any session";
    assert!(finding["level"] == "note" && finding["finding"].as_str().unwrap().starts_with(says), "{finding}");
}

/// At once it can neither lock nor stay; what it holds is nobody else's before it knows that it has lost it. So too
/// where no daemon ran when it was removed.
#[test]
fn sessions_of_a_host_that_is_removed_are_cut_off() {
    for while_it_runs in [true, false] {
        let mut place = Place::new(&["--lease", "3s"]);
        place.join();
        let id = place.id();
        let removed = place.session().unwrap();
        let guard = removed.lock("jobs").wait(PATIENCE).acquire().unwrap();
        // Another host.
        place.credentials = place.daemon.directory.path().join("other");
        place.join();
        let stays = place.session().unwrap();
        if while_it_runs {
            let ended = place.node(&["remove", &id]);
            assert!(ended.stdout.contains("are cut off"), "{ended:?}");
        } else {
            place.daemon.kill();
            assert_eq!(place.node(&["remove", &id]).code, Some(0));
            place.daemon.restart();
        }
        let signed = || {
            let status = place.daemon.json("status");
            let sessions = status["sessions"].as_array().unwrap();
            sessions.iter().filter(|session| session["signed"] == true).count()
        };
        eventually("it is cut off", || signed() == 1);
        let outcome = removed.lock("fresh").wait(Duration::from_millis(300)).acquire();
        assert!(outcome.is_err(), "it is given nothing more");
        let token = guard.token();
        let next = stays.lock("jobs").wait(PATIENCE).acquire().unwrap();
        assert!(guard.is_lost(), "whoever had it has known that before");
        assert!(next.token() > token);
        eventually("it hears why", || matches!(removed.lock("x").try_lock(), Err(Error::NotJoined(_))));
        assert!(place.scrape().contains("\nwayside_sessions_cut_off_total 1\n"), "{}", place.scrape());
        assert!(!next.is_lost(), "the other host stays");
    }
}

/// A process with a session keeps its host's certificate from ending; without one it ends.
#[test]
fn certificates_are_renewed_by_whoever_has_a_session() {
    let mut place = Place::new(&["--certificate-lifetime", "9s"]);
    place.join();
    let file = |place: &Place| std::fs::read_dir(&place.credentials).unwrap().next().unwrap().unwrap().path();
    let kept = file(&place);
    let first = std::fs::read_to_string(&kept).unwrap();
    let session = place.session().unwrap();
    // Of another host, none of whose processes has a session.
    let with_session = place.credentials.clone();
    place.credentials = place.daemon.directory.path().join("other");
    place.join();
    let list = place.node(&["list"]).stdout;
    assert!(list.lines().skip(1).all(|line| line.contains("  ends in ")), "{list}");
    let file = file(&place);
    let credentials = std::fs::read_to_string(&file).unwrap();
    eventually("the one is renewed", || std::fs::read_to_string(&kept).unwrap() != first);
    eventually("the other ends", || place.node(&["list"]).stdout.contains("  expired "));
    let ended = place.lock();
    assert_eq!(ended.code, Some(77), "{ended:?}");
    assert!(ended.stderr.contains("this host's certificate has expired"), "{ended:?}");
    assert!(ended.stderr.contains("`wayside node token` on the switch's host writes a token"), "{ended:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), credentials);
    place.join();
    assert_eq!(place.lock().code, Some(0));
    place.credentials = with_session;
    assert_eq!(place.lock().code, Some(0));
    let ended = place.node(&["renew", "--endpoint", &place.daemon.address.to_string()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    drop(session);
}

/// Where a host has joined, who stops the enrolment port can't make it do without signatures.
#[test]
fn a_host_that_has_joined_never_enrols_in_the_clear() {
    let mut place = Place::new(&[]);
    place.join();
    place.daemon.kill();
    // At the same address, and no packet of it is signed.
    let unsigned = Daemon::start_at(&place.daemon.address.to_string(), &["--admin-listen", "127.0.0.1:0"]);
    let error = place.session().expect_err("no session");
    assert!(matches!(&error, Error::Unavailable { detail, .. } if detail.contains("enrolment at")), "{error}");
    assert!(unsigned.json("status")["sessions"].as_array().unwrap().is_empty());
}

/// Each end looks at the other's certificate: credentials of one switch are of no use with another.
#[test]
fn a_host_of_one_switch_is_none_of_another() {
    let (one, other) = (Place::new(&[]), Place::new(&[]));
    let file = |place: &Place| {
        place.join();
        let address = place.daemon.address;
        place.credentials.join(format!("{}_{}.json", address.ip(), address.port()))
    };
    let (mine, theirs) = (file(&one), file(&other));
    let read = |path: &Path| serde_json::from_slice::<serde_json::Value>(&std::fs::read(path).unwrap()).unwrap();
    let (genuine, foreign) = (read(&mine), read(&theirs));
    // The switch is another than the host knows; the host is another than the switch knows.
    for (keys, expected) in
        [(&["authority"][..], "invalid peer certificate"), (&["certificate", "key"], "enrolment at")]
    {
        let mut mixed = genuine.clone();
        keys.iter().for_each(|key| mixed[key] = foreign[key].clone());
        std::fs::write(&mine, mixed.to_string()).unwrap();
        let error = one.session().expect_err("no session");
        assert!(matches!(&error, Error::Unavailable { detail, .. } if detail.contains(expected)), "{error}");
    }
    assert!(one.daemon.json("status")["sessions"].as_array().unwrap().is_empty());
    std::fs::write(&mine, genuine.to_string()).unwrap();
    one.session().unwrap();
}

#[test]
fn a_host_may_be_let_into_some_namespaces() {
    let directory = TempDir::new().unwrap();
    let configuration = directory.path().join("wayside.toml");
    std::fs::write(&configuration, "[[namespace]]\nname = 'a'\n[[namespace]]\nname = 'b'\n[[namespace]]\nname = 'c'\n")
        .unwrap();
    let place = Place::new(&["--config", configuration.to_str().unwrap()]);
    let ended = place.node(&["token", "--namespace", "a", "nowhere"]);
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert!(ended.stderr.contains("the switch has no namespace \"nowhere\"; it has a, b, c"), "{ended:?}");
    let token = place.node(&["token", "--namespace", "a", "b"]).stdout;
    assert_eq!(place.node(&["join", token.trim()]).code, Some(0));
    for namespace in ["a", "b"] {
        place.session_in(namespace).unwrap();
    }
    let error = place.session_in("c").expect_err("its token was for others");
    let says = "this host may begin sessions in namespace a, b alone, not in \"c\"";
    assert!(matches!(&error, Error::NotJoined(why) if why.starts_with(says)), "{error}");
    let list = place.node(&["list"]).stdout;
    assert!(list.lines().nth(1).is_some_and(|line| line.ends_with("  a, b")), "{list}");
    // It joins again, for all.
    place.join();
    place.session_in("c").unwrap();
    let list = place.node(&["list"]).stdout;
    assert!(list.lines().any(|line| line.ends_with("  all")), "{list}");
    let status = place.daemon.json("status");
    assert!(status["authentication"]["answers"]["enrol"]["namespace"].as_u64().unwrap() > 0, "{status}");
}

#[test]
fn a_namespace_that_is_not_there_is_refused_as_without_tls() {
    let place = Place::new(&[]);
    place.join();
    let error = place.session_in("nowhere").expect_err("no session");
    assert_eq!(error, Error::Refused("it has no namespace \"nowhere\"".into()));
}

#[test]
fn sessions_outlive_a_switch_that_is_killed() {
    let mut place = Place::new(&["--lease", "5s"]);
    place.join();
    let session = place.session().unwrap();
    let before = session.info().unwrap();
    let guard = session.lock("jobs").wait(PATIENCE).acquire().unwrap();
    place.daemon.kill();
    place.daemon.restart();
    let other = place.session().unwrap();
    // Under the new epoch's keys, from the same secret.
    eventually("the census reaches the session", || session.info().is_some_and(|info| info.epoch > before.epoch));
    assert_eq!(session.info().unwrap().incarnation, before.incarnation);
    assert!(other.lock("jobs").try_lock().is_err(), "it is still held");
    let token = guard.token();
    guard.release().unwrap();
    assert!(other.lock("jobs").wait(PATIENCE).acquire().unwrap().token() > token);
    assert_eq!(place.drops("bad_tag"), 0);
}

/// One after the other they would wait for etcd 24 times.
#[test]
fn signed_sessions_that_begin_together_are_written_down_together() {
    let Some(etcd) = Etcd::or_skip("enrolments that wait for etcd") else { return };
    let detour = Detour::to(&etcd.url);
    let place = Place::new(&["--etcd", &detour.url(), "--serving-lease", "1s", "--lease", "40s"]);
    place.join();
    let commits = || {
        let text = place.daemon.scrape();
        let count = text.lines().find_map(|line| line.strip_prefix("wayside_store_commit_seconds_count "));
        count.and_then(|count| count.parse::<u32>().ok()).expect("a count")
    };
    let before = commits();
    detour.late.store(60, SeqCst);
    let begin = || Session::builder().endpoint(place.daemon.address.to_string()).credentials(&place.credentials);
    let begun: Vec<Session> = (0..24).map(|_| begin().begin().expect("it begins")).collect();
    eventually("all have their sessions", || begun.iter().all(|session| session.info().is_some()));
    let commits = commits() - before;
    // A handful, and more where the machine is so busy that handshakes come to their end one by one.
    assert!((1..20).contains(&commits), "{commits} commits");
}

/// Keys change as often as heartbeats allow, under load, and nobody notices.
#[test]
fn keys_change_under_load() {
    let directory = TempDir::new().unwrap();
    let (log, credentials) = (directory.path().join("log"), directory.path().join("credentials"));
    let state = directory.path().join("state").display().to_string();
    // The log says when keys change.
    let mut command = Command::new("sh");
    command.args(["-c", r#"exec "$0" "$@" 2>"$LOG""#, env!("CARGO_BIN_EXE_wayside"), "dev", "--log", "debug"]);
    command.args(["--authentication", "on", "--listen", "127.0.0.1:0", "--state-dir", &state]);
    command.args(["--lease", "800ms", "--key-lifetime", "100ms"]);
    command.env("LOG", &log).env("WAYSIDE_SOCKET", directory.path().join("s")).stdin(Stdio::null());
    let daemon = Running::start(command);
    let address = daemon.line().split(' ').find_map(|word| word.parse::<SocketAddrV4>().ok()).expect("an address");
    let token = end(wayside(&["node", "token", "--state-dir", &state])).stdout;
    let mut join = wayside(&["node", "join", token.trim()]);
    join.env("WAYSIDE_CREDENTIALS", &credentials);
    assert_eq!(end(join).code, Some(0));

    let session =
        || Session::builder().endpoint(address.to_string()).credentials(&credentials).connect().expect("it has joined");
    let sessions = [session(), session()];
    let first = sessions.each_ref().map(|session| session.info().unwrap().incarnation);
    let until = Instant::now() + Duration::from_secs(3);
    thread::scope(|scope| {
        for session in &sessions {
            scope.spawn(move || {
                let mut rounds = 0;
                while Instant::now() < until {
                    // One lock of its own, one that both want.
                    drop(session.lock(format!("own-{rounds}").as_str()).wait(PATIENCE).acquire().expect("a lock"));
                    drop(session.lock("both").wait(PATIENCE).acquire().expect("a lock"));
                    rounds += 1;
                }
                assert!(rounds > 10, "it was vacuous");
            });
        }
    });
    assert_eq!(sessions.each_ref().map(|session| session.info().unwrap().incarnation), first, "none was lost");
    let mut status = wayside(&["status", "-o", "json", "--endpoint", &address.to_string()]);
    status.env("WAYSIDE_SOCKET", directory.path().join("s"));
    let status: serde_json::Value = serde_json::from_str(&end(status).stdout).expect("JSON");
    assert_eq!(status["drops"]["bad_tag"].as_u64(), None, "{status}");
    let changes = std::fs::read_to_string(&log).unwrap().matches("new keys").count();
    assert!(changes >= 10, "{changes} changes of keys");
}

const SWITCH: &str = "10.79.0.1:7600";
const ADMIN: &str = "10.79.0.1:7601";

/// A switch and two clients, each at a port of its own: `10.79.0.2` by `port0`, `10.79.1.2` by `port1`.
struct World {
    switch: Host,
    clients: [Host; 2],
    directory: TempDir,
    #[cfg(feature = "xdp")]
    _passes: Vec<wayside_hosts::Program>,
}

impl World {
    fn new() -> World {
        let host = || Host::new().expect("the caller has asked");
        let (switch, clients) = (host(), [host(), host()]);
        for (index, client) in clients.iter().enumerate() {
            client.join("eth0", &switch, &format!("port{index}"), 1).expect("veth");
            client.ip(&format!("addr add 10.79.{index}.2/24 dev eth0")).expect("an address");
            client.ip(&format!("route add default via 10.79.{index}.1")).expect("a route");
            switch.ip(&format!("addr add 10.79.{index}.1/24 dev port{index}")).expect("an address");
        }
        World {
            #[cfg(feature = "xdp")]
            _passes: clients.iter().map(|client| client.pass("eth0").expect("veth has XDP")).collect(),
            switch,
            clients,
            directory: TempDir::new().expect("a directory"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn on(&self, host: &Host, arguments: &[&str]) -> Ended {
        let mut command = wayside(arguments);
        host.enter(&mut command);
        end(command)
    }

    fn session(&self, client: usize, credentials: &str) -> Result<Session, Error> {
        let path = self.path(credentials);
        self.clients[client].within(move || Session::builder().endpoint(SWITCH).credentials(path).connect())
    }

    fn drops(&self, reason: &str) -> u64 {
        self.status()["drops"][reason].as_u64().unwrap_or(0)
    }

    fn status(&self) -> serde_json::Value {
        let ended = self.on(&self.switch, &["status", "--endpoint", SWITCH, "-o", "json"]);
        serde_json::from_str(&ended.stdout).expect("JSON")
    }

    /// A counter of `/metrics`.
    fn counter(&self, series: &str) -> u64 {
        let text = self.switch.within(|| support::scrape(ADMIN.parse().expect("an address")));
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {series} in {text}")).parse().expect("a count")
    }
}

fn on_the_network(mode: &str) {
    if let Some(why) = wayside_hosts::missing() {
        return println!("skipped: enrolment in namespaces: {why}");
    }
    let world = World::new();
    let bpf = format!("/sys/fs/bpf/wayside-enrolment-{mode}-{}", std::process::id());
    let state = world.path("state").display().to_string();
    let mut command = wayside(&["switch", "--listen", SWITCH, "--mode", mode, "--state-dir", &state]);
    command.args(["--interfaces", "port0,port1", "--bpf-dir", &bpf]).arg("--control-socket").arg(world.path("s"));
    // Keys change as often as heartbeats allow.
    command.args(["--lease", "800ms", "--key-lifetime", "100ms"]);
    world.switch.enter(&mut command);
    let daemon = Running::start(command);
    let ready = daemon.line();
    let expected = if mode == "native" { "switch: native XDP on 10.79.0.1:7600" } else { "switch: userspace on" };
    assert!(ready.starts_with(expected), "{ready}");
    // By default, off loopback.
    let line = daemon.line();
    assert!(line.starts_with("switch: takes enrolled hosts only, at 10.79.0.1:7602; `wayside node token`"), "{line}");

    let stranger = world.session(0, "none").expect_err("it has not joined");
    assert!(matches!(&stranger, Error::NotJoined(why) if why.contains("`wayside node join TOKEN`")), "{stranger}");
    for (client, credentials) in world.clients.iter().zip(["first", "second"]) {
        let token = world.on(&world.switch, &["node", "token", "--state-dir", &state]).stdout;
        let directory = world.path(credentials).display().to_string();
        let joined = world.on(client, &["node", "join", token.trim(), "--credentials", &directory]);
        assert_eq!(joined.code, Some(0), "{joined:?}");
    }
    let [one, other] = [(0, "first"), (1, "second")].map(|(client, name)| world.session(client, name).expect("joined"));
    let (mine, theirs) = (one.info().unwrap(), other.info().unwrap());
    assert_ne!(mine.handle, theirs.handle);

    let names = ["a", "b", "c", "d"];
    world.clients[0].within(|| drop(one.lock_many(names).wait(PATIENCE).acquire().expect("all of them")));
    world.clients[1].within(|| drop(other.lock_many(names).wait(PATIENCE).acquire().expect("all of them")));

    let ended = world.on(&world.switch, &["status", "--endpoint", SWITCH]);
    let expected = "\nauthentication: on (auto: listens off loopback), hosts join at 10.79.0.1:7602\nhosts: 2 joined; \
                    signed sessions: 2 of 2; ";
    assert!(ended.stdout.contains(expected), "{ended:?}");

    // Asked over TCP, and answered to whom they believe.
    let held = world.clients[0].within(|| one.lock("listed").wait(PATIENCE).acquire().expect("a lock"));
    eventually("both nodes list what they hold", || {
        let ended = world.on(&world.switch, &["locks", "--endpoint", SWITCH, "-o", "json"]);
        let locks: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
        let list = |field: &str| locks[field].as_array().expect("a list").clone();
        list("silent").is_empty() && list("locks").iter().any(|lock| lock["name"] == "listed")
    });
    drop(held);

    // From one host to the other and back: forwarded requests, transfers and books, signed hop by hop.
    let guard = world.clients[0].within(|| one.lock("jobs").wait(PATIENCE).acquire().expect("a lock"));
    let mut token = guard.token();
    let mut held = Some(guard);
    for round in 0..20 {
        let (client, session) = if round % 2 == 0 { (1, &other) } else { (0, &one) };
        let (tell, told) = channel();
        held = thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                world.clients[client].within(|| {
                    let request = session.lock("jobs").wait(PATIENCE);
                    tell.send(()).expect("the test waits");
                    request.acquire().expect("a lock")
                })
            });
            told.recv().expect("it waits");
            thread::sleep(Duration::from_millis(5));
            held.take().expect("held").release().expect("still ours");
            Some(waiter.join().expect("granted"))
        });
        let next = held.as_ref().expect("held").token();
        assert!(next > token, "round {round}");
        token = next;
    }
    join_while_keys_change(&world, &one, &other);
    assert_eq!(world.drops("bad_tag"), 0, "all that was sent was signed");

    // What anybody can write: as a live session, from the host of that session, and without a signature.
    let before = world.drops("enrol_in_clear");
    world.clients[0].within(|| forge(mine.handle, mine.epoch, mine.incarnation));
    eventually("forged packets are dropped as such", || {
        world.drops("bad_tag") == 2 && world.drops("enrol_in_clear") == before + 1
    });
    let still = held.expect("held");
    assert!(!still.is_lost(), "a forged LEAVE ends nothing");
    drop(still);
    daemon.signal(libc::SIGTERM);
    daemon.wait();
    let _ = std::fs::remove_dir(&bpf);
}

/// Readers of both hosts join each other's locks: the GRANT is signed for the reader, its copy, the JOIN, for the
/// agent. Of an agent that did not believe one, the writer after it would wait for a census; but so it does if a busy
/// machine delivers one 20 ms late.
fn join_while_keys_change(world: &World, one: &Session, other: &Session) {
    let before = [world.counter("wayside_key_rotations_total"), joins(world)];
    let mut rounds: u64 = 0;
    while rounds < 50 || world.counter("wayside_key_rotations_total") < before[0] + 10 {
        for (client, agent, reader) in [(0, one, other), (1, other, one)] {
            let name = format!("read-{rounds}-{client}");
            let shared = |host: usize, session: &Session| {
                let guard =
                    world.clients[host].within(|| session.lock(name.as_str()).shared().wait(PATIENCE).acquire());
                guard.expect("a lock")
            };
            let read = [shared(client, agent), shared(1 - client, reader)];
            for guard in read {
                guard.release().expect("still ours");
            }
            let written = world.clients[client].within(|| agent.lock(name.as_str()).wait(PATIENCE).acquire());
            written.expect("a lock").release().expect("still ours");
        }
        rounds += 1;
    }
    assert!(joins(world) >= before[1] + 2 * rounds, "each round two readers join");
    let lost = world.counter("wayside_recoveries_total{namespace=\"default\",result=\"agent\"}");
    let rotations = world.counter("wayside_key_rotations_total") - before[0];
    assert!(lost * 4 <= rotations, "{lost} JOINs were lost in {rounds} rounds, with {rotations} rotations");
    assert_eq!(world.drops("no_key"), 0);
}

fn joins(world: &World) -> u64 {
    world.status()["packets"]["joined"].as_u64().unwrap_or(0)
}

/// An ACQUIRE, a LEAVE and an ENROL.
fn forge(source: u16, epoch: u32, incarnation: u64) {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let mut acquire = vec![0; entry_at(1)];
    Header { service: service::LOCK, kind: kind::lock::ACQUIRE, count: 1, source, epoch, ..Header::default() }
        .write(&mut acquire);
    Entry { request: incarnation << 40 | 1_000_000, holder: source, ..Entry::default() }
        .write(&mut acquire, entry_at(0));
    let mut leave = vec![0; BODY + Heartbeat::BYTES];
    Header { kind: kind::fabric::LEAVE, source, epoch, ..Header::default() }.write(&mut leave);
    Heartbeat { sequence: u64::MAX >> 8, incarnation, ..Heartbeat::default() }.write(&mut leave, BODY);
    let mut enrol = vec![0; BODY + Enrol::BYTES];
    Header { kind: kind::fabric::ENROL, ..Header::default() }.write(&mut enrol);
    let namespace_name = padded("default").expect("short");
    Enrol { nonce: 1, namespace_name, ..Enrol::default() }.write(&mut enrol, BODY);
    for packet in [acquire, leave, enrol] {
        socket.send_to(&packet, SWITCH).expect("sent");
    }
}

#[test]
fn two_hosts_lock_through_a_userspace_switch() {
    on_the_network("userspace");
}

#[cfg(feature = "xdp")]
#[test]
fn two_hosts_lock_through_a_switch_at_the_hook() {
    on_the_network("native");
}
