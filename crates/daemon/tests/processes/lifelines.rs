//! The end of a process on the daemon's host is noticed at once, whoever runs it and whatever its environment says.

use crate::support;

use std::future::Future;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddrV4, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};
use support::{Daemon, Ended, Running, connect, end, eventually, wayside};
use tempfile::TempDir;
use wayside_client::Error;
use wayside_client::control::lifeline_text;
use wayside_client::daemon::abstract_name;

/// A death that is noticed by the lease would take all of it.
const LEASE: Duration = Duration::from_secs(10);
const USERS: [u32; 2] = [65_533, 65_534];

fn is_root() -> bool {
    // SAFETY: a query of this process.
    unsafe { libc::geteuid() == 0 }
}

fn may_be_others() -> bool {
    if !is_root() {
        println!("skipped: only root can run processes of several users");
    }
    is_root()
}

/// A place that every user may read and write, with the program in it.
struct Place {
    directory: TempDir,
    program: PathBuf,
}

impl Place {
    fn new() -> Place {
        let directory = tempfile::tempdir().unwrap();
        let program = support::copy_program(directory.path());
        Place { directory, program }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `wayside` as this user, if that is another one, with nothing in its environment that leads to a daemon.
    fn wayside(&self, user: Option<u32>, arguments: &[&str]) -> Command {
        let like = wayside(arguments);
        let mut command = Command::new(&self.program);
        command.args(like.get_args()).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("TMPDIR", self.directory.path()).current_dir("/").stdin(std::process::Stdio::null());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        command
    }

    /// A switch whose admin port is not the next one: nothing but its address leads to its daemon.
    fn switch(&self, user: Option<u32>, prepare: impl FnOnce(&mut Command)) -> (Running, SocketAddrV4) {
        let lease = format!("{}s", LEASE.as_secs());
        let arguments = ["dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--lease", &lease];
        let mut command = self.wayside(user, &arguments);
        command.arg("--state-dir").arg(self.path("state"));
        prepare(&mut command);
        let running = Running::start(command);
        let address = running.line().split(' ').find_map(|word| word.parse().ok()).expect("it names its address");
        (running, address)
    }
}

/// Kills a holder, and waits for its waiter's grant.
fn a_death_is_noticed_at_once(client: impl Fn(&[&str]) -> Command) {
    let holder = Running::start(client(&["lock", "jobs", "--", "sh", "-c", "echo held; exec sleep 600"]));
    assert_eq!(holder.line(), "held");
    let waiter = Running::start(client(&["lock", "jobs", "--", "echo", "mine"]));
    let json = |command| {
        let ended = end(client(&[command, "-o", "json"]));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        serde_json::from_str::<serde_json::Value>(&ended.stdout).unwrap()
    };
    eventually("the waiter queues", || json("locks")["locks"].as_array().unwrap().len() == 2);
    let status = json("status");
    assert!(status["sessions"].as_array().unwrap().iter().all(|session| session["lifeline"] == true), "{status}");
    let doctor = end(client(&["doctor", "-o", "json"]));
    let finding = lifeline_finding(&doctor);
    assert_eq!(finding["level"], "ok", "{finding}");

    let killed = Instant::now();
    holder.signal(libc::SIGKILL);
    assert_eq!(waiter.line(), "mine");
    let took = killed.elapsed();
    assert!(took < LEASE / 2, "{took:?}");
}

fn lifeline_finding(doctor: &Ended) -> serde_json::Value {
    let report: serde_json::Value = serde_json::from_str(&doctor.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["check"] == "lifeline").expect("doctor looks").clone()
}

#[test]
fn of_a_plain_user_under_roots_daemon() {
    if !may_be_others() {
        return;
    }
    let place = Place::new();
    std::fs::create_dir(place.path("run")).unwrap();
    std::fs::set_permissions(place.path("run"), PermissionsExt::from_mode(0o700)).unwrap();
    let (_switch, address) = place.switch(None, |command| {
        command.arg("--control-socket").arg(place.path("run/control.sock"));
    });
    a_death_is_noticed_at_once(|arguments| {
        let mut command = place.wayside(Some(USERS[0]), arguments);
        command.env("WAYSIDE_ENDPOINTS", address.to_string());
        command
    });
}

#[test]
fn of_one_user_under_anothers_daemon() {
    if !may_be_others() {
        return;
    }
    let place = Place::new();
    let (_switch, address) = place.switch(Some(USERS[0]), |_| {});
    a_death_is_noticed_at_once(|arguments| {
        let mut command = place.wayside(Some(USERS[1]), arguments);
        command.env("WAYSIDE_ENDPOINTS", address.to_string());
        command
    });
}

#[test]
fn of_a_process_with_another_runtime_directory() {
    let place = Place::new();
    // Root's is always /run.
    let user = is_root().then_some(USERS[0]);
    let runtime = |name: &str| {
        let path = place.path(name);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
        path
    };
    let (_switch, address) = place.switch(user, |command| {
        command.env("XDG_RUNTIME_DIR", runtime("one"));
    });
    a_death_is_noticed_at_once(|arguments| {
        let mut command = place.wayside(user, arguments);
        command.env("WAYSIDE_ENDPOINTS", address.to_string()).env("XDG_RUNTIME_DIR", runtime("another"));
        command
    });
}

#[test]
fn of_a_process_that_does_not_know_where_the_daemons_socket_was_moved() {
    let place = Place::new();
    let (_switch, address) = place.switch(None, |command| {
        command.arg("--control-socket").arg(place.path("moved.sock"));
    });
    a_death_is_noticed_at_once(|arguments| {
        let mut command = place.wayside(None, arguments);
        command.env("WAYSIDE_ENDPOINTS", address.to_string());
        command
    });
}

#[test]
fn doctor_says_when_there_would_be_no_lifeline_and_how_to_get_it() {
    let daemon = Daemon::start(&[]);
    let mut command = daemon.command(&["doctor", "-o", "json"]);
    let (nowhere, elsewhere) = (daemon.directory.path().join("none"), Daemon::start(&[]));
    command.env("WAYSIDE_SOCKET", elsewhere.socket());
    let finding = lifeline_finding(&end(command));
    assert_eq!(finding["level"], "problem");
    assert!(finding["finding"].as_str().unwrap().contains("after the lease only (2 s)"), "{finding}");
    assert!(finding["fix"].as_str().unwrap().contains("unset WAYSIDE_SOCKET"), "{finding}");

    let session_without = |path: &std::path::Path| {
        let mut command = daemon.command(&["lock", "jobs", "--", "sh", "-c", "echo held; exec sleep 60"]);
        command.env("WAYSIDE_SOCKET", path);
        Running::start(command)
    };
    let holder = session_without(&nowhere);
    assert_eq!(holder.line(), "held");
    assert_eq!(daemon.json("status")["sessions"][0]["lifeline"], false);
}

#[test]
fn a_runtime_directory_that_somebody_else_made_is_refused() {
    if !may_be_others() {
        return;
    }
    let place = Place::new();
    // As another user could have made it in /tmp before this one's first daemon.
    std::fs::create_dir(place.path("wayside-65533")).unwrap();
    std::fs::set_permissions(place.path("wayside-65533"), PermissionsExt::from_mode(0o777)).unwrap();
    let mut command = place.wayside(Some(USERS[0]), &["dev", "--listen", "127.0.0.1:0"]);
    command.arg("--state-dir").arg(place.path("state"));
    let ended = end(command);
    assert_eq!(ended.code, Some(77), "{ended:?}");
    assert!(ended.stderr.contains("wayside-65533 belongs to user 0, not to 65533"), "{}", ended.stderr);
    assert!(ended.stderr.contains("XDG_RUNTIME_DIR"), "{}", ended.stderr);
}

/// A free UDP port, with the TCP port after it.
fn neighbours() -> SocketAddrV4 {
    let pair = (0..100).find_map(|_| {
        let udp = UdpSocket::bind("127.0.0.1:0").ok()?;
        let std::net::SocketAddr::V4(address) = udp.local_addr().ok()? else { return None };
        let _tcp = TcpListener::bind((*address.ip(), address.port().checked_add(1)?)).ok()?;
        Some(address)
    });
    pair.expect("a free pair")
}

#[test]
fn a_user_who_took_the_daemons_name_is_told_nothing_and_is_named() {
    if !may_be_others() {
        return;
    }
    let place = Place::new();
    let listen = neighbours();
    let squatter = std::thread::spawn(move || {
        // SAFETY: no pointers. The system call itself changes this thread alone.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, USERS[0], USERS[0], USERS[0]) }, 0);
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(abstract_name(listen)).unwrap()).unwrap()
    });
    let squatter = squatter.join().unwrap();
    squatter.set_nonblocking(true).unwrap();
    let mut command = place.wayside(None, &["dev", "--listen", &listen.to_string(), "--log", "off"]);
    command.arg("--state-dir").arg(place.path("state")).arg("--control-socket").arg(place.path("control.sock"));
    let switch = Running::start(command);
    switch.line();
    let client = |arguments: &[&str]| {
        let mut command = place.wayside(None, arguments);
        command.env("WAYSIDE_ENDPOINTS", listen.to_string());
        end(command)
    };
    let finding = lifeline_finding(&client(&["doctor", "-o", "json"]));
    assert_eq!(finding["level"], "problem");
    assert!(finding["finding"].as_str().unwrap().contains("of user 65533 listens there"), "{finding}");
    assert_eq!(client(&["lock", "jobs", "--", "true"]).code, Some(0));
    while let Ok((stream, _)) = squatter.accept() {
        stream.set_nonblocking(true).unwrap();
        let mut heard = String::new();
        let _ = BufReader::new(stream).read_line(&mut heard);
        assert_eq!(heard, "", "sessions tell their secrets to the daemon alone");
    }
}

#[test]
fn one_users_idle_connections_leave_room_for_anothers() {
    if !may_be_others() {
        return;
    }
    let place = Place::new();
    let (_switch, address) = place.switch(None, |command| {
        command.arg("--control-socket").arg(place.path("control.sock"));
    });
    let connect = || UnixStream::connect_addr(&SocketAddr::from_abstract_name(abstract_name(address)).unwrap());
    let _idle: Vec<UnixStream> = (0..300).map(|_| connect().unwrap()).collect();
    let status = |user| {
        let mut command = place.wayside(user, &["status", "--endpoint", &address.to_string()]);
        command.env_remove("WAYSIDE_SOCKET");
        end(command).code
    };
    assert_eq!(status(None), Some(69), "root's places are taken");
    assert_eq!(status(Some(USERS[0])), Some(0));
}

#[test]
fn what_a_node_writes_is_no_sign_of_its_death() {
    let daemon = Daemon::start(&[]);
    let session = connect(daemon.address.to_string());
    eventually("the daemon is found by the switch's address", || session.has_lifeline());
    let info = session.info().unwrap();
    let greet = |line: &str| {
        let mut stream = UnixStream::connect(daemon.socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        writeln!(stream, "{line}").unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        let mut answer = String::new();
        lines.read_line(&mut answer).unwrap();
        (stream, lines, answer)
    };
    let secret = lifeline_text(info.lifeline);
    let hello = format!(
        "{{\"hello\":{{\"handle\":{},\"lifeline\":\"{secret}\",\"pid\":1,\"local\":true,\"version\":\"0\"}}}}",
        info.handle
    );
    let hold = format!("{{\"hold\":{{\"handle\":{},\"lifeline\":\"{secret}\"}}}}", info.handle);
    for line in [&hello, &hold] {
        let (mut stream, mut lines, answer) = greet(line);
        assert_eq!(answer, "{\"ok\":true}\n");
        stream.write_all(b"\xff\xfe\nnonsense\n").unwrap();
        let quiet = lines.read_line(&mut String::new()).expect_err("the daemon leaves it open");
        assert_eq!(quiet.kind(), ErrorKind::WouldBlock);
    }
    // A session may have several connections, and not as many as the daemon has descriptors.
    let mut many: Vec<_> = (0..20).map(|_| greet(&hold)).collect();
    let refused = many.iter().filter(|(.., answer)| answer == "{\"ok\":false}\n").count();
    assert!((1..20).contains(&refused), "{refused}");
    many.clear();
    assert!(session.has_lifeline());
}

#[test]
fn a_daemon_that_comes_back_is_found_again() {
    let mut daemon = Daemon::start(&[]);
    let session = connect(daemon.address.to_string());
    eventually("the daemon is found", || session.has_lifeline());
    // kill -9: a successor must get the name, as it gets the file.
    daemon.kill();
    eventually("its end is noticed", || !session.has_lifeline());
    daemon.restart();
    eventually("it is found again", || session.has_lifeline());
    assert!(
        std::fs::read_to_string("/proc/net/unix").unwrap().contains(&format!("@{}", abstract_name(daemon.address)))
    );
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("as it is meant to");
    }
}

/// An application's waker panics in the session's own thread, with which the lifeline ends: the daemon gives the locks
/// away at once.
#[test]
fn a_session_whose_thread_panics_is_over_before_others_are_granted() {
    let place = Place::new();
    let (_switch, address) = place.switch(None, |_| ());
    let sessions = [0, 1].map(|_| support::builder().endpoint(address.to_string()).lease(LEASE).connect().unwrap());
    let [session, other] = &sessions;
    let held = session.lock("held").acquire().unwrap();
    eventually("it has a lifeline", || session.has_lifeline());
    let awaited = other.lock("awaited").acquire().unwrap();
    let waker = Waker::from(Arc::new(Panics));
    let mut wait = Box::pin(session.lock("awaited").acquire_async());
    assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(awaited);
    let began = Instant::now();
    drop(other.lock("held").wait(2 * LEASE).acquire().unwrap());
    assert!(held.is_lost());
    assert!(began.elapsed() < LEASE / 2, "{:?}", began.elapsed());
    assert!(matches!(session.lock("free").acquire(), Err(Error::Closed)));
}
