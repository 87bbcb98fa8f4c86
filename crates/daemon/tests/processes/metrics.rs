//! The admin port's HTTP: what a scrape says, whether it is ready, and strangers there.

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};
use support::{Daemon, PATIENCE, eventually};

/// What the daemon gives a stranger, and slack for a loaded machine.
const STRANGERS_TIME: Duration = Duration::from_secs(10);
const SLACK: Duration = Duration::from_secs(10);

struct Answer {
    code: u16,
    head: String,
    body: String,
}

fn exchange(mut stream: TcpStream, request: &str) -> Answer {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no HTTP: {text:?}"));
    let code = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest[..3].parse().ok()).expect("a status line");
    Answer { code, head: head.to_lowercase(), body: body.into() }
}

fn get(admin: SocketAddrV4, path: &str) -> Answer {
    exchange(TcpStream::connect(admin).unwrap(), &format!("GET {path} HTTP/1.1\r\nHost: wayside\r\n\r\n"))
}

/// A scrape, read strictly: every sample has a family of its kind before it, none is there twice.
struct Scrape {
    text: String,
    samples: BTreeMap<String, f64>,
}

impl Scrape {
    fn of(answer: Answer) -> Scrape {
        assert_eq!(answer.code, 200, "{}", answer.head);
        assert!(answer.head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{}", answer.head);
        let text = answer.body;
        let (mut kinds, mut helped) = (BTreeMap::new(), BTreeSet::new());
        let mut samples = BTreeMap::new();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if line == "# EOF" {
                assert_eq!(lines.peek(), None, "nothing behind the end");
                return Scrape { text, samples };
            }
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (family, kind) = rest.split_once(' ').expect("a kind");
                assert!(kinds.insert(family.to_owned(), kind.to_owned()).is_none(), "twice: {line}");
            } else if let Some(rest) = line.strip_prefix("# HELP ") {
                let (family, help) = rest.split_once(' ').expect("a text");
                assert!(help.len() > 1 && help.ends_with('.') && helped.insert(family.to_owned()), "{line}");
            } else {
                let (series, value) = line.rsplit_once(' ').expect("a value");
                let name = series.split('{').next().unwrap();
                let of_family = |(family, kind): (&String, &String)| {
                    let endings: &[&str] = match kind.as_str() {
                        "counter" => &["_total"],
                        "gauge" => &[""],
                        "info" => &["_info"],
                        "histogram" => &["_sum", "_count", "_bucket"],
                        other => panic!("no kind of ours: {other}"),
                    };
                    helped.contains(family) && endings.iter().any(|ending| *name == format!("{family}{ending}"))
                };
                assert!(kinds.iter().any(of_family), "without a family: {line}");
                assert!(name.starts_with("wayside_"), "{line}");
                let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
                assert!(samples.insert(series.to_owned(), value).is_none(), "twice: {line}");
            }
        }
        panic!("no end: {text}");
    }

    fn get(&self, series: &str) -> f64 {
        *self.samples.get(series).unwrap_or_else(|| panic!("no {series} in\n{}", self.text))
    }

    fn info(&self) -> &str {
        let mut infos = self.samples.keys().filter(|series| series.starts_with("wayside_switch_info"));
        infos.next().expect("there is one")
    }
}

fn scrape(daemon: &Daemon) -> Scrape {
    Scrape::of(get(daemon.admin(), "/metrics"))
}

#[test]
fn a_scrape_tells_what_happened_and_names_no_lock() {
    let daemon = Daemon::start(&["--threads", "2"]);
    let before = scrape(&daemon);
    for series in ["wayside_outcomes_total{outcome=\"granted\"}", "wayside_drops_total{reason=\"too_short\"}"] {
        assert_eq!(before.get(series), 0.0);
    }
    assert_eq!(before.get("wayside_sessions{namespace=\"default\"}"), 0.0);
    assert_eq!(before.get("wayside_serving"), 1.0);
    assert_eq!(before.get("wayside_slots{namespace=\"default\"}"), 65_536.0);
    assert_eq!(before.get("wayside_controller_answers"), 1.0);
    assert_eq!(Some(before.get("wayside_epoch")), daemon.json("status")["epoch"].as_f64());
    let info = before.info();
    assert!(
        info.contains("mode=\"userspace\"") && !info.contains("reason=\"\"") && info.contains("version=\"0."),
        "{info}"
    );

    let mut holder = daemon.hold(&["kept-secret", "--", "sh", "-c", "echo held; exec sleep 60"]);
    assert_eq!(holder.line(), "held");
    assert_eq!(daemon.lock(&["another-secret", "--", "true"]).code, Some(0));
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"short", daemon.address).unwrap();
    let moved = |now: &Scrape, series: &str| now.get(series) - before.get(series);
    let ended =
        |now: &Scrape, ending: &str| moved(now, &format!("wayside_sessions_ended_total{{ending=\"{ending}\"}}"));
    eventually("the second session has ended, the packet is dropped", || {
        let now = scrape(&daemon);
        let left = ended(&now, "left") + ended(&now, "left_clean") + ended(&now, "closed");
        left == 1.0 && moved(&now, "wayside_drops_total{reason=\"too_short\"}") == 1.0
    });
    let now = scrape(&daemon);
    assert_eq!(moved(&now, "wayside_outcomes_total{outcome=\"granted\"}"), 2.0);
    assert!(moved(&now, "wayside_packets_total{verdict=\"to_sender\"}") >= 2.0);
    // ENROL.
    assert!(moved(&now, "wayside_packets_total{verdict=\"to_controller\"}") >= 2.0);
    assert!(moved(&now, "wayside_datagrams_total{what=\"received\"}") >= 5.0);
    assert_eq!(moved(&now, "wayside_sessions_begun_total"), 2.0);
    assert!(moved(&now, "wayside_store_commit_seconds_count") >= 2.0);
    assert!(moved(&now, "wayside_store_commit_seconds_sum") > 0.0);
    assert_eq!(now.get("wayside_sessions{namespace=\"default\"}"), 1.0);
    assert!(now.get("wayside_connections{host=\"here\"}") >= 1.0);
    assert!(!now.text.contains("secret"), "names of locks are nobody's business");

    // Killed: its lifeline says so at once.
    holder.signal(libc::SIGKILL);
    eventually("the killed session has ended", || ended(&scrape(&daemon), "closed") >= 1.0);
    assert!(!holder.is_running());
}

#[test]
fn namespaces_are_labels_whatever_their_names() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wayside.toml");
    std::fs::write(&path, "[[namespace]]\nname = 'a\"b\\c'\nslots = 8\n[[namespace]]\nname = 'other'\nslots = 4\n")
        .unwrap();
    let socket = directory.path().join("control.sock");
    let mut command = support::wayside(&["switch", "--listen", "127.0.0.1:0", "--config"]);
    command.arg(&path).arg("--state-dir").arg(directory.path().join("state")).env("WAYSIDE_SOCKET", &socket);
    let daemon = support::Running::start(command);
    let ready = daemon.line();
    let address = ready.split(' ').find(|word| word.parse::<SocketAddrV4>().is_ok()).expect("the line names it");
    let mut status = support::wayside(&["status", "-o", "json", "--endpoint", address]);
    status.env("WAYSIDE_SOCKET", &socket);
    let status: serde_json::Value = serde_json::from_str(&support::end(status).stdout).unwrap();
    let scrape = Scrape::of(get(status["admin_listen"].as_str().unwrap().parse().unwrap(), "/metrics"));
    assert_eq!(scrape.get(r#"wayside_slots{namespace="a\"b\\c"}"#), 8.0);
    assert_eq!(scrape.get(r#"wayside_sessions{namespace="other"}"#), 0.0);
    assert_eq!(scrape.get(r#"wayside_frozen_slots{namespace="other"}"#), 0.0);
}

#[test]
fn a_switch_that_recovers_lives_and_is_not_ready() {
    let mut daemon = Daemon::start(&["--lease", "3s"]);
    assert_eq!(get(daemon.admin(), "/readyz").code, 200);
    let holder = daemon.hold(&["jobs", "--", "sh", "-c", "echo $PPID; exec sleep 60"]);
    holder.line();
    // Neither it nor its watcher answers the census, until the lease is over.
    holder.signal(libc::SIGSTOP);
    daemon.kill();
    daemon.restart();
    let admin = daemon.admin();
    let ready = get(admin, "/readyz");
    assert_eq!(ready.code, 503, "{}", ready.body);
    assert!(ready.body.contains("[-] serving: the locks of earlier sessions are being recovered"), "{}", ready.body);
    assert!(!ready.body.contains("store"), "only what is wrong: {}", ready.body);
    assert_eq!(get(admin, "/livez").code, 200);
    assert_eq!(Scrape::of(get(admin, "/metrics")).get("wayside_serving"), 0.0);
    eventually("it serves", || get(admin, "/readyz").code == 200);
    let now = Scrape::of(get(admin, "/metrics"));
    assert_eq!(now.get("wayside_serving"), 1.0);
    assert_eq!(now.get("wayside_census_seconds_count{scope=\"switch\"}"), 1.0);
    let ends: f64 = ["expired", "closed"]
        .iter()
        .map(|ending| now.get(&format!("wayside_sessions_ended_total{{ending=\"{ending}\"}}")))
        .sum();
    assert_eq!(ends, 1.0);
    let verbose = get(admin, "/readyz?verbose").body;
    assert_eq!(verbose, "[+] serving: ok\n[+] controller: ok\n[+] store: ok\nok\n");
}

#[test]
fn what_else_is_answered() {
    let daemon = Daemon::start(&[]);
    let admin = daemon.admin();
    let version = get(admin, "/version");
    assert_eq!(version.code, 200);
    let version: serde_json::Value = serde_json::from_str(&version.body).unwrap();
    assert_eq!(version["version"], daemon.json("status")["version"]);
    let protocol = format!("{}.{}", wayside_wire::MAJOR, wayside_wire::MINOR);
    assert_eq!((&version["protocol"], &version["mode"]), (&protocol.into(), &"userspace".into()));
    let nowhere = get(admin, "/");
    assert_eq!(nowhere.code, 404);
    assert!(nowhere.body.contains("/metrics"), "{}", nowhere.body);
    let connect = || TcpStream::connect(admin).unwrap();
    let refused = exchange(connect(), "POST /metrics HTTP/1.1\r\nHost: wayside\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(refused.code, 405);
    assert!(refused.head.contains("allow: get, head"), "{}", refused.head);
    let head = exchange(connect(), "HEAD /livez HTTP/1.1\r\nHost: wayside\r\n\r\n");
    assert_eq!((head.code, head.body.as_str()), (200, ""));
    // An old prober.
    let mut old = connect();
    old.write_all(b"GET /livez HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    old.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.0 200") && text.ends_with("ok\n"), "{text}");
}

#[test]
fn connections_that_say_nothing_keep_nobody_out() {
    let daemon = Daemon::start(&[]);
    let admin = daemon.admin();
    let mut idle: Vec<TcpStream> = (0..256).map(|_| TcpStream::connect(admin).unwrap()).collect();
    assert_eq!(get(admin, "/livez").code, 200);
    idle.extend((0..100).map(|_| TcpStream::connect(admin).unwrap()));
    let scrape = Scrape::of(get(admin, "/metrics"));
    assert_eq!(scrape.get("wayside_connections_refused_total"), 0.0);
    // The oldest made room; the youngest are as good as any.
    let first = &mut idle[0];
    first.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(first.read(&mut [0]).unwrap(), 0, "ended");
    let mut last = idle.pop().unwrap();
    last.write_all(b"{\"query\":\"status\"}\n").unwrap();
    last.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = [0; 10];
    last.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"{\"version\"");
}

/// Whoever gets no answer to a probe has the daemon started again.
#[test]
fn whatever_strangers_hold_open_a_probe_is_answered() {
    let daemon = Daemon::start(&[]);
    let admin = daemon.admin();
    let begun = |what: &[u8]| {
        let mut stream = TcpStream::connect(admin).unwrap();
        stream.write_all(what).unwrap();
        stream
    };
    let _lines: Vec<TcpStream> = (0..256).map(|_| begun(b"{")).collect();
    eventually("all places for lines are taken", || {
        let mut stream = begun(b"{");
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        !matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    });
    let mut requests: Vec<TcpStream> = (0..100).map(|_| begun(b"GET /livez")).collect();
    requests[0].set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(requests[0].read(&mut [0]).unwrap_or(0), 0, "the oldest made room");
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(get(admin, path).code, 200);
    }
    requests.last_mut().unwrap().write_all(b" HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    requests.last_mut().unwrap().read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.0 200"), "{text}");
}

/// Until the daemon has closed it.
fn lives(mut stream: TcpStream) -> Duration {
    let start = Instant::now();
    stream.set_read_timeout(Some(STRANGERS_TIME + SLACK)).unwrap();
    loop {
        match stream.read(&mut [0; 1024]) {
            Ok(1..) => {}
            Ok(0) => return start.elapsed(),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return start.elapsed(),
            Err(error) => panic!("not ended: {error}"),
        }
    }
}

#[test]
fn garbage_and_slow_requests_are_ended() {
    let daemon = Daemon::start(&[]);
    let admin = daemon.admin();
    let connect = || TcpStream::connect(admin).unwrap();
    assert_eq!(exchange(connect(), "GARBAGE\r\n\r\n").code, 400);
    assert_eq!(exchange(connect(), "GET /metrics HTTP/1.1\r\nno colon\r\n\r\n").code, 400);
    let mut lines = connect();
    lines.write_all(b"garbage\n").unwrap();
    let mut answer = String::new();
    lines.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("neither a greeting nor a query"), "{answer}");
    let mut long = connect();
    // It is cut off before it has said everything.
    let _ = long.write_all(format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(1 << 20)).as_bytes());
    assert!(lives(long) < STRANGERS_TIME, "a request without end is ended at once");

    let silent = connect();
    let mut half = connect();
    half.write_all(b"GET /metrics HTTP/1.1\r\nHost:").unwrap();
    let mut trickle = connect();
    let dropwise = {
        let stream = trickle.try_clone().unwrap();
        trickle.write_all(b"GET /").unwrap();
        thread::spawn(move || {
            while trickle.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(100));
            }
        });
        stream
    };
    let all = [silent, half, dropwise].map(|stream| thread::spawn(|| lives(stream)));
    assert_eq!(get(admin, "/livez").code, 200);
    for lived in all {
        let lived = lived.join().unwrap();
        assert!(lived < STRANGERS_TIME + SLACK, "{lived:?}");
    }
    assert_eq!(get(admin, "/readyz").code, 200);
    assert_eq!(daemon.lock(&["jobs", "--", "true"]).code, Some(0));
}

/// The switch at the hook of a veth, and a scrape from the host behind it.
#[cfg(feature = "xdp")]
#[test]
fn at_the_hook_the_mode_is_told_and_its_counters_move() {
    use wayside_hosts::Host;
    if let Some(why) = wayside_hosts::missing() {
        return println!("skipped: XDP in namespaces: {why}");
    }
    let (switch, client) = (Host::new().expect("as above"), Host::new().expect("as above"));
    client.join("eth0", &switch, "port0", 1).expect("veth");
    client.ip("addr add 10.79.0.2/24 dev eth0").expect("an address");
    switch.ip("addr add 10.79.0.1/24 dev port0").expect("an address");
    let _pass = client.pass("eth0").expect("veth has XDP");
    let directory = tempfile::tempdir().unwrap();
    let bpf = format!("/sys/fs/bpf/wayside-metrics-{}", std::process::id());
    let mut command =
        support::wayside(&["switch", "--listen", "10.79.0.1:7600", "--mode", "native", "--authentication", "off"]);
    command.args(["--interfaces", "port0", "--bpf-dir", &bpf, "--state-dir"]).arg(directory.path().join("state"));
    command.arg("--control-socket").arg(directory.path().join("control.sock"));
    switch.enter(&mut command);
    let daemon = support::Running::start(command);
    assert!(daemon.line().starts_with("switch: native XDP"));
    let scrape = || {
        let stream = client.within(|| TcpStream::connect("10.79.0.1:7601")).expect("the admin port");
        Scrape::of(exchange(stream, "GET /metrics HTTP/1.1\r\nHost: wayside\r\n\r\n"))
    };
    let before = scrape();
    let info = before.info();
    assert!(info.contains("mode=\"native XDP\"") && info.contains("ports=\"port0\""), "{info}");
    let mut lock = support::wayside(&["lock", "jobs", "--endpoint", "10.79.0.1:7600", "--", "true"]);
    lock.env("WAYSIDE_SOCKET", directory.path().join("none"));
    client.enter(&mut lock);
    let ended = support::end(lock);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let after = scrape();
    let moved = |series: &str| after.get(series) - before.get(series);
    assert_eq!(moved("wayside_outcomes_total{outcome=\"granted\"}"), 1.0, "by the program at the hook");
    assert!(moved("wayside_packets_total{verdict=\"to_sender\"}") >= 1.0);
    assert!(moved("wayside_handed_up_total") >= 1.0, "ENROL is for the controller");
    assert_eq!(after.get("wayside_handed_up_lost_total"), 0.0);
    daemon.signal(libc::SIGTERM);
    assert_eq!(daemon.wait().code(), Some(0));
    let _ = std::fs::remove_dir(&bpf);
}
