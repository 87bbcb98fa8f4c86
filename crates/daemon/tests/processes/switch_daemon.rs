//! The daemon against bad configuration, occupied ports, restarts, and strangers on its ports.

use crate::support;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::{Duration, Instant};
use support::{Daemon, Ended, PATIENCE, end, eventually, wayside};
use wayside_client::{Error, Session};
use wayside_wire::{Header, kind, service};

fn switch(config: &str, flags: &[&str]) -> Ended {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wayside.toml");
    std::fs::write(&path, config).unwrap();
    let mut command = wayside(&["switch", "--config"]);
    command.arg(&path).args(flags).env("WAYSIDE_SOCKET", directory.path().join("control.sock"));
    end(command)
}

#[test]
fn configuration_is_checked_and_errors_name_key_and_range() {
    let good = "listen = '127.0.0.1:7690'\nlease = '1s'\n[[namespace]]\nname = 'default'\nslots = 1024\n";
    let ended = switch(good, &["--check-config"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("the configuration is in order"), "{ended:?}");
    for (config, flags, expected) in [
        ("treads = 1", &["--check-config"][..], "unknown field `treads`"),
        ("threads = 1000", &[], "threads = 1000 must be 1 to 64"),
        ("lease = '0s'", &[], "must be 20 ms to 3600 s"),
        ("listen = ", &[], "wayside.toml"),
        ("", &["--threads", "-1"], "--threads (or WAYSIDE_THREADS) = -1 must be 1 to 64"),
        ("", &["--grace", "1ms"], "must be at least"),
        ("", &["--listen", "192.0.2.1:7600"], "is not an address of this host"),
        ("listen = '192.0.2.1:7600'", &["--check-config"], "listen = 192.0.2.1:7600: 192.0.2.1 is not an address of"),
        ("admin_listen = '192.0.2.1:7600'", &["--check-config"], "admin_listen = 192.0.2.1:7600: 192.0.2.1 is not"),
        ("state_dir = ''", &["--check-config"], "state_dir = \"\" is no path"),
        ("state_dir = '/etc/passwd'", &["--check-config"], "state_dir = /etc/passwd is not a directory"),
    ] {
        let ended = switch(config, flags);
        assert_eq!(ended.code, Some(64), "{config} {flags:?}: {ended:?}");
        assert!(ended.stderr.starts_with("error: ") && ended.stderr.contains(expected), "{config}: {}", ended.stderr);
    }
    let ended = end(wayside(&["switch", "--config", "/no/such/file.toml"]));
    assert_eq!(ended.code, Some(69), "{ended:?}");
}

#[test]
fn a_configuration_that_is_no_text_makes_no_sense() {
    let directory = tempfile::tempdir().unwrap();
    let binary = directory.path().join("binary.toml");
    std::fs::write(&binary, [0xff, 0xfe, 0]).unwrap();
    for (path, expected) in [(binary.as_path(), "is no text"), (directory.path(), "is a directory")] {
        let ended = end(wayside(&["switch", "--config", path.to_str().unwrap()]));
        assert_eq!(ended.code, Some(64), "{ended:?}");
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
}

#[test]
fn a_daemon_that_hangs_is_said_to_hang() {
    let daemon = Daemon::start(&[]);
    support::signal_process(daemon.pid(), libc::SIGSTOP);
    let start = Instant::now();
    let ended = end(daemon.command(&["status"]));
    assert_eq!(ended.code, Some(69), "{ended:?}");
    let expected = format!("process {}, takes connections and has not answered within 2 s", daemon.pid());
    assert!(ended.stderr.contains(&expected), "{}", ended.stderr);
    assert!(start.elapsed() >= Duration::from_secs(2));
    let ended = end(daemon.command(&["doctor"]));
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.stdout.contains(&expected), "{}", ended.stdout);
    assert!(ended.stdout.contains(&format!("kill -CONT {}", daemon.pid())), "{}", ended.stdout);
    support::signal_process(daemon.pid(), libc::SIGCONT);
    assert_eq!(end(daemon.command(&["status"])).code, Some(0));
}

#[test]
fn a_record_file_of_no_bytes_is_a_new_one_and_said_to_be() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("controller.redb"), "").unwrap();
    let mut command = wayside(&["dev", "--listen", "127.0.0.1:0", "--state-dir"]);
    command.arg(directory.path()).env("WAYSIDE_SOCKET", directory.path().join("s"));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    support::signal_process(child.id() as i32, libc::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(line.contains("WARN") && line.contains("controller.redb was empty"), "{line}");
}

#[test]
fn the_environment_goes_before_the_file_and_flags_before_both() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wayside.toml");
    std::fs::write(&path, "threads = 2\nlease = '3s'").unwrap();
    let mut command = wayside(&["switch", "--check-config", "--threads", "4", "--config"]);
    command.arg(&path).env("WAYSIDE_THREADS", "3").env("WAYSIDE_LEASE", "5s");
    let ended = end(command);
    assert!(ended.stdout.contains("lease 5 s"), "{ended:?}");
    assert!(ended.stdout.contains("threads 4"), "{ended:?}");
}

#[test]
fn what_is_occupied_is_named() {
    let daemon = Daemon::start(&[]);
    let state = tempfile::tempdir().unwrap();
    let dev = |arguments: &[&str]| {
        let mut command = wayside(&["dev"]);
        command.args(arguments).env("WAYSIDE_SOCKET", state.path().join("other.sock"));
        end(command)
    };
    let (address, own) = (daemon.address.to_string(), state.path().to_str().unwrap());
    let ended = dev(&["--listen", &address, "--state-dir", own]);
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.stderr.contains(&format!("UDP port {address} is in use")), "{}", ended.stderr);

    let blocker = TcpListener::bind("127.0.0.1:0").unwrap();
    let blocked = blocker.local_addr().unwrap().to_string();
    let ended = dev(&["--listen", "127.0.0.1:0", "--admin-listen", &blocked, "--state-dir", own]);
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.stderr.contains("TCP port"), "{}", ended.stderr);

    let theirs = daemon.directory.path().join("state");
    let ended = dev(&["--listen", "127.0.0.1:0", "--state-dir", theirs.to_str().unwrap()]);
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.stderr.contains("in use by another Wayside daemon"), "{}", ended.stderr);

    let mut command = wayside(&["dev", "--listen", "127.0.0.1:0", "--state-dir", own]);
    command.env("WAYSIDE_SOCKET", daemon.socket());
    let ended = end(command);
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.stderr.contains("control socket"), "{}", ended.stderr);
    assert!(daemon.socket().exists(), "the other's socket file is left alone");
    assert_eq!(daemon.lock(&["jobs", "--", "true"]).code, Some(0));
}

#[test]
fn no_permission_is_77() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o000)).unwrap();
    let state = directory.path().join("state");
    // Beyond the reach of its permissions only for root, who becomes nobody.
    // SAFETY: a query of this process.
    let root = unsafe { libc::geteuid() } == 0;
    let readable = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(support::copy_program(readable.path()));
    command.args(["dev", "--listen", "127.0.0.1:0", "--state-dir"]).arg(&state);
    if root {
        command.uid(65_534).gid(65_534);
    }
    let ended = end(command);
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o700)).unwrap();
    assert_eq!(ended.code, Some(77), "{ended:?}");
    assert!(ended.stderr.contains("--state-dir"), "{}", ended.stderr);
}

#[test]
fn a_file_that_is_no_socket_is_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("precious");
    std::fs::write(&path, "data").unwrap();
    let mut command = wayside(&["dev", "--listen", "127.0.0.1:0", "--state-dir"]);
    command.arg(directory.path().join("state")).env("WAYSIDE_SOCKET", &path);
    assert_eq!(end(command).code, Some(69));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "data");
}

#[test]
fn a_holder_keeps_its_lock_over_a_restart_of_the_switch() {
    let mut daemon = Daemon::start(&["--lease", "3s"]);
    let mut holder = daemon.hold(&["jobs", "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN; echo $$; exec sleep 5"]);
    let (token, command): (u64, i32) = (holder.line().parse().unwrap(), holder.line().parse().unwrap());
    let waiter = daemon.hold(&["jobs", "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN"]);
    eventually("the waiter queues", || daemon.count("jobs", "waiting") == 1);
    let epoch = daemon.json("status")["epoch"].as_u64().unwrap();
    daemon.kill();
    assert!(daemon.socket().exists(), "kill -9 leaves it behind");
    daemon.restart();
    eventually("the switch serves again", || daemon.json("status")["serving"] == true);
    assert_eq!(daemon.json("status")["epoch"], epoch + 1);
    assert!(holder.is_running());
    eventually("both are connected again", || {
        daemon.count("jobs", "held") == 1 && daemon.count("jobs", "waiting") == 1
    });
    assert_eq!(daemon.lock(&["jobs", "--try", "--", "true"]).code, Some(75));
    let next: u64 = waiter.line().parse().unwrap();
    assert!(!support::is_alive(command));
    assert!(next > token);
    assert_eq!(next >> 40, epoch + 1, "the epoch is the token's highest part");
}

#[test]
fn tokens_rise_over_a_restart_in_good_order_too() {
    let mut daemon = Daemon::start(&[]);
    let token = |daemon: &Daemon| -> u64 {
        daemon.lock(&["jobs", "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN"]).stdout.trim().parse().unwrap()
    };
    let before = token(&daemon);
    daemon.interrupt();
    daemon.restart();
    assert!(token(&daemon) > before);
}

#[test]
fn bad_packets_are_counted_and_leave_the_switch_serving() {
    let daemon = Daemon::start(&["--threads", "2"]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let packet = |header: Header, length: usize| {
        let mut packet = vec![0; length.max(Header::BYTES)];
        header.write(&mut packet);
        packet.truncate(length);
        packet
    };
    let acquire =
        Header { service: service::LOCK, kind: kind::lock::ACQUIRE, count: 1, source: 9, ..Header::default() };
    let foreign = {
        let mut packet = packet(acquire, 64);
        packet[2] = 0x70;
        packet
    };
    let cases: [(&str, Vec<u8>); 9] = [
        ("too_short", vec![]),
        ("too_short", packet(acquire, 31)),
        ("bad_magic", vec![0xff; 64]),
        ("foreign_version", foreign),
        ("unknown_service", packet(Header { service: 99, ..acquire }, 64)),
        ("unknown_kind", packet(Header { kind: 99, ..acquire }, 64)),
        ("bad_count", packet(Header { count: 0, ..acquire }, 32)),
        ("bad_length", packet(acquire, 63)),
        ("bad_length", packet(acquire, 9_000)),
    ];
    for (_, packet) in &cases {
        socket.send_to(packet, daemon.address).unwrap();
    }
    eventually("every reason is counted", || {
        let status = daemon.json("status");
        cases.iter().all(|(reason, _)| {
            let expected = cases.iter().filter(|(other, _)| other == reason).count() as u64;
            status["drops"][reason].as_u64() == Some(expected)
        })
    });
    // Noise: lengths 0 to 1,500, bytes of a fixed generator.
    let mut noise = 1u64;
    for length in 0..1_500 {
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                noise = wayside_wire::mix(noise.wrapping_add(1));
                noise as u8
            })
            .collect();
        let _ = socket.send_to(&bytes, daemon.address);
    }
    assert_eq!(daemon.lock(&["jobs", "--", "true"]).code, Some(0));
    assert_eq!(daemon.json("status")["serving"], true);
}

fn admin(daemon: &Daemon) -> TcpStream {
    let address = SocketAddrV4::new(*daemon.address.ip(), admin_port(daemon));
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The daemon took any port: the kernel knows which.
fn admin_port(daemon: &Daemon) -> u16 {
    let table = std::fs::read_to_string(format!("/proc/{}/net/tcp", daemon.pid())).unwrap();
    let sockets: Vec<String> = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid()))
        .unwrap()
        .filter_map(|entry| Some(std::fs::read_link(entry.ok()?.path()).ok()?.to_str()?.to_owned()))
        .collect();
    let listening = table.lines().filter(|line| line.split_whitespace().nth(3) == Some("0A"));
    let port = listening.filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        sockets.contains(&format!("socket:[{}]", fields[9])).then(|| fields[1].rsplit(':').next())?
    });
    u16::from_str_radix(port.into_iter().next().expect("it listens"), 16).unwrap()
}

#[test]
fn strangers_on_the_control_connection_are_answered_or_dropped() {
    let daemon = Daemon::start(&[]);
    let ask = |line: &[u8]| {
        let mut stream = UnixStream::connect(daemon.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The daemon may close before it has read everything.
        let _ = stream.write_all(line);
        let mut answer = String::new();
        let _ = BufReader::new(stream).read_line(&mut answer);
        answer
    };
    assert!(ask(b"GET / HTTP/1.1\r\n\r\n").contains("error"));
    assert!(ask(b"{\"query\":\"everything\"}\n").contains("error"));
    assert!(ask(b"\xff\xfe\n").contains("error"));
    assert!(ask(&[b'x'; 100_000]).contains("longer than"));
    assert_eq!(
        ask(br#"{"hello":{"handle":1,"lifeline":"00","pid":1,"local":true,"version":"0"}}
"#),
        "{\"ok\":false}\n"
    );
    assert_eq!(ask(b"{\"hold\":{\"handle\":1,\"lifeline\":\"no\"}}\n"), "{\"ok\":false}\n");
    assert!(ask(b"{\"query\":\"node\",\"handle\":7}\n").contains("no session has handle 7"));

    let mut remote = admin(&daemon);
    remote.write_all(b"{\"query\":\"status\"}\n{\"query\":\"locks\"}\n").unwrap();
    let mut lines = BufReader::new(remote).lines();
    assert!(lines.next().unwrap().unwrap().contains("\"epoch\":"));
    assert!(lines.next().unwrap().unwrap().contains("\"locks\":[]"));

    // Half-open connections from elsewhere take up the places of strangers there, and nothing here.
    let idle: Vec<TcpStream> = (0..300).map(|_| admin(&daemon)).collect();
    let holder = daemon.hold(&["jobs", "--", "sh", "-c", "echo held; exec sleep 60"]);
    holder.line();
    assert_eq!(daemon.count("jobs", "held"), 1);
    assert_eq!(daemon.json("status")["sessions"][0]["lifeline"], true);
    drop(idle);
}

#[test]
fn a_remote_command_asks_over_tcp() {
    let daemon = Daemon::start(&["--admin-listen", "127.0.0.1:0"]);
    // As another host would see it: no socket file, and the data port + 1 is the admin port only by default.
    let mut command = wayside(&["status", "--endpoint", &daemon.address.to_string(), "-o", "json"]);
    command.env("WAYSIDE_SOCKET", daemon.directory.path().join("none"));
    let elsewhere = end(command);
    assert_eq!(elsewhere.code, Some(69), "{elsewhere:?}");

    // A pair of neighbouring ports that nobody has.
    let (udp, tcp) = (0..100)
        .find_map(|_| {
            let udp = UdpSocket::bind("127.0.0.1:0").ok()?;
            let port = udp.local_addr().ok()?.port();
            let tcp = TcpListener::bind(("127.0.0.1", port.checked_add(1)?)).ok()?;
            Some((udp, tcp))
        })
        .expect("a free pair");
    let address = udp.local_addr().unwrap().to_string();
    drop((udp, tcp));
    let neighbours = Daemon::start_at(&address, &[]);
    let mut command = wayside(&["status", "--endpoint", &neighbours.address.to_string(), "-o", "json"]);
    command.env("WAYSIDE_SOCKET", daemon.directory.path().join("none"));
    let ended = end(command);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("\"serving\":true"), "{}", ended.stdout);

    // A node elsewhere lists its locks over TCP too, and has no lifeline.
    let mut lock = wayside(&["lock", "far", "--endpoint", &neighbours.address.to_string()]);
    lock.args(["--", "sh", "-c", "echo held; exec sleep 60"])
        .env("WAYSIDE_SOCKET", daemon.directory.path().join("none"));
    let holder = support::Running::start(lock);
    assert_eq!(holder.line(), "held");
    eventually("its lock is listed", || neighbours.count("far", "held") == 1);
    assert_eq!(neighbours.json("status")["sessions"][0]["lifeline"], false);
}

#[test]
fn doctor_says_when_the_transport_can_not_be_had() {
    let daemon = Daemon::start(&[]);
    let mut command = daemon.command(&["doctor", "-o", "json"]);
    command.env("WAYSIDE_TRANSPORT", "afxdp:nowhere");
    let ended = end(command);
    assert_eq!(ended.code, Some(69), "{ended:?}");
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let findings = report["findings"].as_array().expect("a list");
    let finding = findings.iter().find(|finding| finding["check"] == "lifeline").expect("doctor looks");
    assert!(finding["finding"].as_str().unwrap().starts_with("not tried, transport: "), "{finding}");
    assert_eq!(finding["fix"], "mend that, or set WAYSIDE_TRANSPORT=udp");
}

#[test]
fn doctor_finds_a_running_switch_and_misses_an_absent_one() {
    let mut daemon = Daemon::start(&[]);
    let report = daemon.json("doctor");
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["check"] == "switch" && finding["level"] == "ok"), "{report}");
    assert!(findings.iter().any(|finding| finding["check"] == "kernel"));
    assert!(!report["not_checked"].as_array().unwrap().is_empty());
    daemon.interrupt();
    let ended = end(daemon.command(&["doctor"]));
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.stdout.contains("PROBLEM") && ended.stdout.contains("wayside dev"), "{}", ended.stdout);
}

#[test]
fn logs_are_text_or_json_with_times_in_utc() {
    let directory = tempfile::tempdir().unwrap();
    let run = |format: &str| {
        let mut command = wayside(&["dev", "--listen", "127.0.0.1:0", "--log", "info", "--log-format", format]);
        command.arg("--state-dir").arg(directory.path()).env("WAYSIDE_SOCKET", directory.path().join("s"));
        let mut child =
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        support::signal_process(child.id() as i32, libc::SIGTERM);
        assert_eq!(child.wait().unwrap().code(), Some(0));
        line
    };
    let text = run("text");
    let time = text.split(' ').next().unwrap();
    assert!(time.len() >= 20 && time.as_bytes()[10] == b'T' && time.ends_with('Z'), "{text}");
    let json: serde_json::Value = serde_json::from_str(&run("json")).unwrap();
    assert!(json["timestamp"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn a_supervisor_hears_when_it_is_ready_and_when_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let supervisor = UnixDatagram::bind(&path).unwrap();
    supervisor.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = wayside(&["dev", "--listen", "127.0.0.1:0", "--state-dir"]);
    command.arg(directory.path().join("state")).env("WAYSIDE_SOCKET", directory.path().join("s"));
    command.env("NOTIFY_SOCKET", &path);
    let daemon = support::Running::start(command);
    let heard = || {
        let mut bytes = [0; 32];
        let length = supervisor.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    assert_eq!(heard(), "READY=1");
    daemon.signal(libc::SIGTERM);
    assert_eq!(heard(), "STOPPING=1");
    assert_eq!(daemon.wait().code(), Some(0));
}

/// Of the files of this process.
fn limit_files(pid: i32, bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: of a process that the test started; nothing is read back.
    let set = unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, &raw const limit, std::ptr::null_mut()) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// As with a full disk that has room again.
#[test]
fn a_switch_whose_records_could_not_be_written_goes_on_when_they_can() {
    let daemon = Daemon::start(&[]);
    let connect = |patience| {
        let builder = Session::builder().endpoint(daemon.address.to_string());
        builder.patience(patience).connect()
    };
    let guard = connect(PATIENCE).unwrap().lock("jobs").acquire().unwrap();
    limit_files(daemon.pid(), 1);
    assert!(matches!(connect(Duration::from_secs(1)), Err(Error::Unavailable { .. })));
    assert!(!guard.is_lost());
    limit_files(daemon.pid(), libc::RLIM_INFINITY);
    let session = connect(PATIENCE).unwrap();
    assert!(matches!(session.lock("jobs").try_lock(), Err(Error::Busy { .. })));
}
