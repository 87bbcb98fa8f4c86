//! Real switches in processes of their own, which can be killed, ended in order and started again; and their etcd.

use super::place::Seat;
use crate::Error;
use crate::ports::free_address_at;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than a switch or etcd takes to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process that ends with this one, and with its owner.
pub(crate) struct Process {
    child: Child,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Result<Process, Error> {
        // SAFETY: a system call only, between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        let program = command.get_program().to_owned();
        let child = command.spawn().map_err(|error| format!("{} does not start: {error}", program.display()))?;
        Ok(Process { child })
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: libc::c_int) {
        // SAFETY: a child that has not been waited for keeps its id.
        unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
    }

    /// kill -9; returns when it is gone.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A directory that goes with its owner.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Result<Directory, Error> {
        Directory::within(&std::env::temp_dir())
    }

    pub(crate) fn within(place: &Path) -> Result<Directory, Error> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Relaxed);
        let path = place.join(format!("wayside-bench-server-{}-{number}", std::process::id()));
        let made =
            fs::create_dir_all(&path).and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o700)));
        made.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Directory(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A real etcd of one member.
pub(crate) struct Etcd {
    _process: Process,
    _directory: Directory,
    pub(super) url: String,
}

impl Etcd {
    /// What it calls itself; None where it is not installed.
    pub(crate) fn version() -> Option<String> {
        let output = Command::new("etcd").arg("--version").output().ok().filter(|output| output.status.success())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().next()?.strip_prefix("etcd Version: ").map(|version| format!("etcd {version}"))
    }

    pub(crate) fn start() -> Result<Etcd, Error> {
        Etcd::start_at(Ipv4Addr::LOCALHOST)
    }

    /// At an address of this host.
    pub(super) fn start_at(address: Ipv4Addr) -> Result<Etcd, Error> {
        let directory = Directory::new()?;
        let (address, peers) = (free_address_at(address)?, free_address_at(address)?);
        let (url, peers) = (format!("http://{address}"), format!("http://{peers}"));
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(directory.path().join("etcd"));
        command.args(["--log-level", "fatal", "--logger", "zap"]);
        command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.arg("--initial-cluster").arg(format!("default={peers}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Process::start(command)?;
        await_that("etcd answers", PATIENCE, || TcpStream::connect(address).is_ok())?;
        Ok(Etcd { _process: process, _directory: directory, url })
    }
}

/// What a switch says of itself, and when.
#[derive(Clone, Default)]
pub(super) struct Said(Arc<Mutex<Vec<(Instant, String)>>>);

impl Said {
    /// Follows it to its end.
    fn read(&self, said: Option<impl Read>) {
        for line in said.into_iter().flat_map(|said| BufReader::new(said).lines()).map_while(Result::ok) {
            let now = Instant::now();
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push((now, line));
        }
    }

    /// When this was first said after that moment.
    pub(super) fn first(&self, what: &str, after: Instant) -> Option<Instant> {
        let what = format!("\"message\":\"{what}\"");
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.iter().find(|(at, line)| *at >= after && line.contains(&what)).map(|(at, _)| *at)
    }
}

/// A switch; it keeps its address and its records when it is started again.
pub(crate) struct Switch {
    program: PathBuf,
    directory: Directory,
    seat: Seat,
    pub(crate) address: SocketAddrV4,
    etcd: Option<String>,
    /// Level of what it says; at `info` it tells of its phases, and of every slot of a dead node.
    log: &'static str,
    said: Said,
    process: Option<Process>,
}

impl Switch {
    /// Started and ready, in userspace on loopback; `etcd`: of the shard that it shares with its standbys.
    pub(crate) fn start(program: &Path, slots: u64, etcd: Option<&Etcd>, log: &'static str) -> Result<Switch, Error> {
        Switch::start_with(program, &format!("slots = {slots}"), etcd, log)
    }

    /// The same, of a namespace with these settings.
    pub(crate) fn start_with(
        program: &Path,
        settings: &str,
        etcd: Option<&Etcd>,
        log: &'static str,
    ) -> Result<Switch, Error> {
        Switch::start_at(Seat::loopback(), program, settings, etcd, log)
    }

    /// The same, there.
    pub(super) fn start_at(
        seat: Seat,
        program: &Path,
        settings: &str,
        etcd: Option<&Etcd>,
        log: &'static str,
    ) -> Result<Switch, Error> {
        let directory = Directory::new()?;
        let config = format!("[[namespace]]\nname = \"default\"\n{settings}\n");
        let file = directory.path().join("switch.toml");
        fs::write(&file, config).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut switch = Switch {
            program: program.to_owned(),
            directory,
            address: seat.address,
            seat,
            etcd: etcd.map(|etcd| etcd.url.clone()),
            log,
            said: Said::default(),
            process: None,
        };
        switch.restart()?;
        Ok(switch)
    }

    /// Starts it at once, where it has ended.
    pub(super) fn restart(&mut self) -> Result<(), Error> {
        let at = |name| self.directory.path().join(name);
        let mut command = self.command();
        command.args(self.seat.arguments).args(["--authentication", "off", "--admin-listen", "127.0.0.1:0"]);
        command.arg("--state-dir").arg(at("state")).arg("--control-socket").arg(at("control.sock"));
        if let Some(url) = &self.etcd {
            command.args(["--etcd", url]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::start(command)?;
        let (out, err) = (process.child().stdout.take(), process.child().stderr.take());
        let said = self.said.clone();
        thread::spawn(move || said.read(err));
        let ready = out.and_then(|out| BufReader::new(out).lines().next()).and_then(Result::ok).unwrap_or_default();
        self.address = ready
            .split([' ', ','])
            .find_map(|word| word.parse().ok())
            .ok_or_else(|| format!("the switch did not say where it is, but {ready:?}"))?;
        self.process = Some(process);
        Ok(())
    }

    /// `wayside switch`, for its place.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--log", self.log, "--log-format", "json", "switch", "--listen", &self.address.to_string()]);
        command.arg("--config").arg(self.directory.path().join("switch.toml"));
        self.seat.enter(without_settings(&mut command));
        command
    }

    /// Its process, while it runs.
    pub(crate) fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// kill -9: what it remembers is gone.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Asks it to end in order, by SIGTERM.
    pub(super) fn terminate(&self) {
        if let Some(process) = &self.process {
            process.signal(libc::SIGTERM);
        }
    }

    /// Its end, after it was asked to.
    pub(super) fn await_end(&mut self) -> Result<(), Error> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        await_that("the switch ends", PATIENCE, || process.child().try_wait().is_ok_and(|status| status.is_some()))
    }

    /// What it says of itself.
    pub(super) fn said(&self) -> Said {
        self.said.clone()
    }

    /// Waits until it has said this.
    pub(super) fn await_saying(&self, what: &str, after: Instant) -> Result<(), Error> {
        await_that(what, PATIENCE, || self.said.first(what, after).is_some())
    }
}

impl Drop for Switch {
    /// At the hook, whoever comes next at the same place is to begin with nothing: it ends in order, and so takes its
    /// program and memory with it; what one that was killed has left there is detached.
    fn drop(&mut self) {
        if !self.seat.is_at_hook() {
            return;
        }
        self.terminate();
        if self.process.is_some() {
            let _ = self.await_end();
        } else {
            let _ = self.command().arg("--detach").stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }
}

/// A command of ours without what this process's environment says to Wayside.
pub(crate) fn without_settings(command: &mut Command) -> &mut Command {
    for (variable, _) in std::env::vars_os() {
        if variable.as_encoded_bytes().starts_with(b"WAYSIDE_") {
            command.env_remove(variable);
        }
    }
    command
}

/// Waits until this is so.
pub(crate) fn await_that(what: &str, patience: Duration, mut is_so: impl FnMut() -> bool) -> Result<(), Error> {
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() > patience {
            return Err(format!("{what:?}: not within {patience:?}"));
        }
        thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}
