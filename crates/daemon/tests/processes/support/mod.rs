//! Real processes on loopback, each with a directory and ports of its own, none of which outlives its test.

pub mod etcd;
#[cfg(feature = "xdp")]
pub mod frames;
pub mod shards;
#[cfg(feature = "xdp")]
pub mod world;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use wayside_client::{Builder, Session};

/// Longer than anything here takes on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Of a session that waits for its beginning as long as that.
pub fn builder() -> Builder {
    Session::builder().patience(PATIENCE)
}

pub fn connect(endpoints: impl Into<String>) -> Session {
    let endpoints = endpoints.into();
    builder().endpoint(endpoints.as_str()).connect().unwrap_or_else(|error| panic!("{endpoints}: {error}"))
}

/// `wayside`, without what the environment of the test may say.
pub fn wayside(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wayside"));
    for (variable, _) in std::env::vars_os() {
        if variable.as_encoded_bytes().starts_with(b"WAYSIDE_") {
            command.env_remove(variable);
        }
    }
    command.args(arguments).stdin(Stdio::null());
    // As from a terminal: whoever runs the tests in the background may have them ignore it, and it would be inherited.
    // SAFETY: a system call only, between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        })
    };
    command
}

/// A copy of `wayside` for other users, who may not reach where it was built. `cp` makes it: while this process had it
/// open to write, a child that another test forks would too, and nobody could run it then.
pub fn copy_program(directory: &Path) -> PathBuf {
    std::fs::set_permissions(directory, PermissionsExt::from_mode(0o777)).expect("our directory");
    let program = directory.join("wayside");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_wayside")).arg(&program).status();
    assert!(copied.expect("cp runs").success());
    program
}

/// A process that is ended with its owner.
pub struct Running {
    child: Child,
    /// Lines of its standard output.
    lines: Mutex<Receiver<String>>,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("it starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Running { child, lines: Mutex::new(lines) }
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn line(&self) -> String {
        let line = self.lines.lock().expect("one reader").recv_timeout(PATIENCE);
        line.unwrap_or_else(|why| panic!("no line in time: {why}; {}", self.fate()))
    }

    /// For whoever reads why a test failed.
    fn fate(&self) -> String {
        // SAFETY: a siginfo of zeros is valid, and outlives the call, which leaves our child to be reaped.
        let (is_over, code, status) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            libc::waitid(libc::P_PID, self.child.id(), &raw mut info, options);
            (info.si_pid() != 0, info.si_code, info.si_status())
        };
        match (is_over, code) {
            (false, _) => "it runs on".into(),
            (true, libc::CLD_EXITED) => format!("it ended with exit code {status}"),
            (true, _) => format!("signal {status} ended it"),
        }
    }

    /// Its next line, which is a lock's token.
    pub fn token(&self) -> u64 {
        let line = self.line();
        line.parse().unwrap_or_else(|_| panic!("{line:?} is no token"))
    }

    pub fn signal(&self, signal: i32) {
        signal_process(self.pid(), signal);
    }

    pub fn wait(mut self) -> ExitStatus {
        wait(&mut self.child)
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("our child").is_none()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn signal_process(pid: i32, signal: i32) {
    // SAFETY: a signal to a process that the test started.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "signal {signal} to {pid}");
}

/// Whether a process exists and is more than a zombie.
pub fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

fn wait(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("our child") {
            return status;
        }
        assert!(start.elapsed() < PATIENCE, "it did not end in time");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until `condition` holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}: not in time");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Free for TCP, for who is to have the same one after a restart. Not one of those that the kernel gives to whoever
/// connects, of which a loaded machine uses thousands.
pub fn free_address() -> String {
    static LATEST: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 8_000;
    const PORTS: u16 = 3_000;
    // Tests that run beside these begin elsewhere.
    let begin = (std::process::id() * 97 % u32::from(PORTS)) as u16;
    let next = || format!("127.0.0.1:{}", FIRST + (begin + LATEST.fetch_add(1, SeqCst) % PORTS) % PORTS);
    std::iter::repeat_with(next).take(PORTS.into()).find(|address| TcpListener::bind(address).is_ok()).expect("a port")
}

/// Three ports in a row, where a switch, its admin port and its enrolment port go by default.
pub fn three_ports(from: u16) -> u16 {
    let free = |first: &u16| (*first..first + 3).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    (from..from + 3_000).step_by(3).find(free).expect("three ports in a row")
}

/// Says that it is over however a scope of threads ends: a check that failed would wait for them for ever.
pub struct Ending<'s>(pub &'s AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// How a command ended, and what it wrote.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command to its end.
pub fn end(mut command: Command) -> Ended {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let (mut stdout, mut stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let out = thread::spawn(move || text(&mut stdout));
    let err = thread::spawn(move || text(&mut stderr));
    let status = wait(&mut child);
    Ended { code: status.code(), stdout: out.join().expect("read"), stderr: err.join().expect("read") }
}

fn text(from: &mut impl Read) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).expect("UTF-8");
    text
}

/// A `wayside dev` of the test's own; with the flag `--config` a `wayside switch`.
pub struct Daemon {
    pub directory: TempDir,
    pub address: SocketAddrV4,
    pub ready: String,
    flags: Vec<String>,
    running: Option<Running>,
}

impl Daemon {
    pub fn start(flags: &[&str]) -> Daemon {
        Daemon::start_at("127.0.0.1:0", flags)
    }

    pub fn start_at(listen: &str, flags: &[&str]) -> Daemon {
        Daemon::start_in(tempfile::tempdir().expect("a directory"), listen, flags)
    }

    /// One of the switches that share this etcd, to which hosts join. Tests that run at once look for ports from
    /// different numbers on, 3,000 away from each other.
    pub fn signing(etcd: &str, from: u16, flags: &[&str]) -> Daemon {
        let port = three_ports(from);
        let (listen, enrol) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{}", port + 2));
        let own = ["--etcd", etcd, "--authentication", "on", "--enrol-listen", &enrol];
        Daemon::start_at(&listen, &[&own, flags].concat())
    }

    /// With this configuration, and an admin port that the kernel chooses.
    pub fn configured(text: &str, flags: &[&str]) -> Daemon {
        let directory = tempfile::tempdir().expect("a directory");
        let file = configure(directory.path(), text);
        Daemon::start_in(directory, "127.0.0.1:0", &[&["--config", &file], flags].concat())
    }

    /// Another one, for when it reads it again.
    pub fn configure(&self, text: &str) {
        configure(self.directory.path(), text);
    }

    fn start_in(directory: TempDir, listen: &str, flags: &[&str]) -> Daemon {
        let flags: Vec<String> = flags.iter().map(|flag| flag.to_string()).collect();
        let (running, ready) = launch(directory.path(), listen, &flags);
        let address = ready.split(' ').find_map(|word| word.parse().ok()).expect("the line names the address");
        Daemon { directory, address, ready, flags, running: Some(running) }
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("control.sock")
    }

    pub fn pid(&self) -> i32 {
        self.running.as_ref().expect("it runs").pid()
    }

    /// kill -9.
    pub fn kill(&mut self) {
        drop(self.running.take());
    }

    /// Starts it again at the same address with the same state. The admin port may be another: its number may have
    /// been taken meanwhile.
    pub fn restart(&mut self) {
        let flags = [&self.flags[..], &["--admin-listen".into(), "127.0.0.1:0".into()]].concat();
        let mut launched = None;
        // So may have been that of its address, for as long as somebody else's socket lives.
        eventually("it begins again", || {
            launched = try_launch(self.directory.path(), &self.address.to_string(), &flags);
            launched.is_some()
        });
        let (running, ready) = launched.expect("it has begun");
        (self.running, self.ready) = (Some(running), ready);
    }

    /// As [`Daemon::restart`], with other flags from now on.
    pub fn restart_with(&mut self, flags: &[&str]) {
        self.flags = flags.iter().map(|flag| flag.to_string()).collect();
        self.restart();
    }

    /// SIGINT, and its end.
    pub fn interrupt(&mut self) -> ExitStatus {
        let running = self.running.take().expect("it runs");
        running.signal(libc::SIGINT);
        running.wait()
    }

    /// A command that talks to this switch.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = wayside(arguments);
        command.env("WAYSIDE_ENDPOINTS", self.address.to_string()).env("WAYSIDE_SOCKET", self.socket());
        command
    }

    /// A process that has offered itself as lock server.
    pub fn lock_server(&self, flags: &[&str]) -> Running {
        let server = Running::start(self.command(&[&["node", "serve-locks"], flags].concat()));
        let line = server.line();
        assert!(line.starts_with("lock server: node"), "{line}");
        server
    }

    /// `wayside lock` with these arguments, to its end.
    pub fn lock(&self, arguments: &[&str]) -> Ended {
        end(self.command(&[&["lock"], arguments].concat()))
    }

    /// `wayside lock` in the background.
    pub fn hold(&self, arguments: &[&str]) -> Running {
        Running::start(self.command(&[&["lock"], arguments].concat()))
    }

    /// Holds a lock until it is told otherwise. With its token.
    pub fn hold_with_token(&self, name: &str) -> (Running, u64) {
        let holder = self.hold(&[name, "--", "sh", "-c", "echo $WAYSIDE_LOCK_TOKEN; exec sleep 600"]);
        let token = holder.token();
        (holder, token)
    }

    pub fn is_free(&self, name: &str) -> bool {
        self.lock(&[name, "--try", "--", "true"]).code == Some(0)
    }

    /// With another configuration it begins an epoch: who holds a lock loses it, and the next one has a higher token.
    pub fn begins_anew_with(&mut self, text: &str, name: &str) {
        let (held, before) = self.hold_with_token(name);
        self.configure(text);
        self.kill();
        self.restart();
        assert_eq!(held.wait().code(), Some(76));
        let (holder, after) = self.hold_with_token(name);
        assert!(after > before, "{after} after {before}");
        holder.signal(libc::SIGTERM);
        holder.wait();
    }

    /// An answer of `-o json`.
    pub fn json(&self, command: &str) -> serde_json::Value {
        let ended = end(self.command(&[command, "-o", "json"]));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        serde_json::from_str(&ended.stdout).expect("JSON")
    }

    /// Where its admin port is: the kernel chose the number.
    pub fn admin(&self) -> SocketAddrV4 {
        let status = self.json("status");
        status["admin_listen"].as_str().and_then(|address| address.parse().ok()).expect("an address")
    }

    /// What `/metrics` says.
    pub fn scrape(&self) -> String {
        scrape(self.admin())
    }

    /// How many hold or await this lock.
    pub fn count(&self, name: &str, state: &str) -> usize {
        let locks = self.json("locks");
        let locks = locks["locks"].as_array().expect("a list").iter();
        locks.filter(|lock| lock["name"] == name && lock["state"] == state).count()
    }
}

/// Writes it there, and says where that is.
pub fn configure(directory: &Path, text: &str) -> String {
    let file = directory.join("wayside.toml");
    std::fs::write(&file, format!("admin_listen = '127.0.0.1:0'\n{text}")).expect("the test's own directory");
    file.display().to_string()
}

/// What `--check-config` says of it.
pub fn check_config(text: &str) -> Ended {
    let directory = tempfile::tempdir().expect("a directory");
    end(wayside(&["switch", "--check-config", "--config", &configure(directory.path(), text)]))
}

/// A namespace with these settings is none, and this is said of it.
pub fn refuses_namespace(settings: &str, wanted: &str) {
    let ended = check_config(&format!("[[namespace]]\nname = 'a'\n{settings}\n"));
    assert!(ended.code == Some(64) && ended.stderr.contains(wanted), "{settings}: {ended:?}");
}

fn launch(directory: &Path, listen: &str, flags: &[String]) -> (Running, String) {
    try_launch(directory, listen, flags).expect("it begins")
}

/// None: it has ended instead.
fn try_launch(directory: &Path, listen: &str, flags: &[String]) -> Option<(Running, String)> {
    let configured = flags.iter().any(|flag| flag == "--config");
    let mut command = wayside(&[if configured { "switch" } else { "dev" }, "--listen", listen]);
    command.args(flags).arg("--state-dir").arg(directory.join("state"));
    command.env("WAYSIDE_SOCKET", directory.join("control.sock"));
    let running = Running::start(command);
    let ready = running.lines.lock().expect("one reader").recv_timeout(PATIENCE).ok()?;
    Some((running, ready))
}

/// While this is there the daemon does nothing: what is sent to it lies in its socket, and has its effect afterwards.
pub struct Stopped(i32);

impl Stopped {
    pub fn stop(daemon: &Daemon) -> Stopped {
        let stopped = Stopped(daemon.pid());
        signal_process(daemon.pid(), libc::SIGSTOP);
        // Each of its threads, not at once.
        let is_stopped = |task: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default();
            stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
        };
        let tasks = format!("/proc/{}/task", daemon.pid());
        eventually("it is stopped", || std::fs::read_dir(&tasks).unwrap().all(is_stopped));
        stopped
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal_process(self.0, libc::SIGCONT);
    }
}

/// What `/metrics` says at this admin port.
pub fn scrape(admin: SocketAddrV4) -> String {
    let mut stream = TcpStream::connect(admin).expect("the daemon listens");
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    text
}
