//! The contestant: a real switch daemon in a process of its own, and a session.

use crate::knobs;
use crate::report::Seen;
use crate::samples::Samples;
use crate::{Error, Waiting};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use wayside_client::{Grants, Guard, Session, Transport};
use wayside_wire::limits::MAX_ENTRIES;
#[cfg(feature = "xdp")]
use wayside_wire::limits::MAX_VALUE_BYTES;

/// What is written and read.
#[cfg(feature = "xdp")]
const KEY: &str = "bench/value";

/// Arguments of a switch in userspace on loopback.
pub(crate) const IN_USERSPACE: [&str; 6] =
    ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--mode", "userspace"];

/// A daemon that this process started, in a directory that goes with it.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) endpoint: String,
    directory: PathBuf,
}

impl Daemon {
    /// A switch in userspace on loopback, of the host where `place` has it run.
    pub(crate) fn in_userspace(
        binary: &Path,
        waiting: Waiting,
        core: usize,
        place: impl FnOnce(&mut Command),
    ) -> Result<Daemon, Error> {
        Daemon::start(binary, waiting, core, &IN_USERSPACE, place)
    }

    /// A switch with these arguments, started as `place` has it.
    pub(crate) fn start(
        binary: &Path,
        waiting: Waiting,
        core: usize,
        arguments: &[&str],
        place: impl FnOnce(&mut Command),
    ) -> Result<Daemon, Error> {
        Daemon::start_with("", binary, waiting, core, arguments, place)
    }

    /// The same with a configuration file, of this text.
    pub(crate) fn start_with(
        settings: &str,
        binary: &Path,
        waiting: Waiting,
        core: usize,
        arguments: &[&str],
        place: impl FnOnce(&mut Command),
    ) -> Result<Daemon, Error> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Relaxed);
        let directory = std::env::temp_dir().join(format!("wayside-bench-{}-{number}", std::process::id()));
        fs::create_dir_all(&directory).map_err(|error| format!("no directory for the switch: {error}"))?;
        let how = if waiting == Waiting::Spinning { "spin" } else { "block" };
        let mut command = Command::new(binary);
        command
            .args(["switch", "--threads", "1"])
            .args(arguments)
            .args(["--wait", how, "--log", "error", "--state-dir"])
            .arg(directory.join("state"))
            .arg("--control-socket")
            .arg(directory.join("control.sock"))
            .env_remove("WAYSIDE_CONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if !settings.is_empty() {
            let file = directory.join("switch.toml");
            fs::write(&file, settings).map_err(|error| format!("no configuration for the switch: {error}"))?;
            command.arg("--config").arg(file);
        }
        place(&mut command);
        // SAFETY: system calls only, between fork and exec.
        unsafe {
            command.pre_exec(move || {
                knobs::pin(core);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        let mut child = command.spawn().map_err(|error| format!("{} does not start: {error}", binary.display()))?;
        let said = child.stdout.take().and_then(|out| BufReader::new(out).lines().next()).and_then(Result::ok);
        let address = said.as_deref().and_then(|line| line.split_once(" on ")?.1.split([' ', ',']).next());
        let endpoint = address.unwrap_or_default().to_owned();
        let daemon = Daemon { child, endpoint, directory };
        if daemon.endpoint.is_empty() {
            return Err(format!("the switch did not say where it is, but {:?}", said.unwrap_or_default()));
        }
        Ok(daemon)
    }

    /// Lets a host join, which runs commands as `place` has it; where its credentials are.
    #[cfg(feature = "xdp")]
    pub(crate) fn let_join(&self, binary: &Path, place: impl FnOnce(&mut Command)) -> Result<PathBuf, Error> {
        let credentials = self.directory.join("credentials");
        join(binary, &self.directory.join("state"), &credentials, place)?;
        Ok(credentials)
    }

    /// Takes it off its core, for as long as others are measured.
    pub(crate) fn pause(&self) {
        self.signal(libc::SIGSTOP);
    }

    pub(crate) fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: a child that has not been waited for keeps its id.
        unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
    }
}

/// Lets a host join the switch that has its state there, which runs commands as `place` has it, and keeps its
/// credentials in a directory.
#[cfg(feature = "xdp")]
pub(crate) fn join(
    binary: &Path,
    state: &Path,
    credentials: &Path,
    place: impl FnOnce(&mut Command),
) -> Result<(), Error> {
    let said = |mut command: Command| {
        let output = command.output().map_err(|error| format!("wayside node does not start: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    };
    let mut token = Command::new(binary);
    token.env_remove("WAYSIDE_CONFIG").args(["node", "token", "--state-dir"]).arg(state);
    let mut join = Command::new(binary);
    join.args(["node", "join", &said(token)?, "--credentials"]).arg(credentials);
    place(&mut join);
    said(join).map(drop)
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A session, and names that nobody has used.
pub(crate) struct Contestant {
    pub(crate) session: Session,
    next: u64,
    guards: Vec<Guard>,
    /// Counts the allocations of the calling thread so far, if anything does.
    count: Option<fn() -> u64>,
    allocations: u64,
    before: Grants,
}

/// While the daemon is paused the session is not heard: rounds are thousandths of this.
const LEASE: Duration = Duration::from_secs(10);
/// For what is given back to be confirmed.
const SETTLE_MOST: Duration = Duration::from_secs(2);

impl Contestant {
    /// `credentials`: of a switch that this host has joined.
    pub(crate) fn connect(
        endpoint: &str,
        waiting: Waiting,
        transport: Transport,
        credentials: Option<&Path>,
        count: Option<fn() -> u64>,
    ) -> Result<Contestant, Error> {
        // Without what the environment says for applications: nothing else is compared with locks that stay.
        let mut builder = Session::builder()
            .keep(0)
            .endpoint(endpoint)
            .namespace("default")
            .transport(transport)
            .wait(waiting.wait())
            .lease(LEASE);
        if let Some(directory) = credentials {
            builder = builder.credentials(directory);
        }
        let session = builder.connect().map_err(|error| error.to_string())?;
        let guards = Vec::with_capacity(1 << 12);
        Ok(Contestant { session, next: 0, guards, count, allocations: 0, before: Grants::default() })
    }

    /// What was seen so far is of the warm-up.
    pub(crate) fn begin(&mut self) {
        self.before = self.session.grants();
        self.allocations = 0;
    }

    /// What was seen since.
    pub(crate) fn seen(&self) -> Seen {
        let (now, before) = (self.session.grants(), self.before);
        let by_switch = now.switch - before.switch;
        let all = by_switch + now.agent - before.agent + now.local - before.local;
        Seen { granted_by_switch: by_switch as f64 / all as f64, allocations: self.count.map(|_| self.allocations) }
    }

    fn allocations_so_far(&self) -> u64 {
        self.count.map_or(0, |count| count())
    }

    fn fresh_name(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Acquires and gives back `count` fresh names.
    pub(crate) fn warm_up(&mut self, count: usize) -> Result<(), Error> {
        for _ in 0..count {
            let name = self.fresh_name();
            let outcome = self.session.lock(name).acquire().and_then(Guard::release);
            outcome.map_err(|error| error.to_string())?;
        }
        self.settle()
    }

    /// Acquires `count` fresh names, one after the other, each timed; then gives all back, which is not.
    pub(crate) fn acquires(&mut self, count: usize, samples: &mut Samples) -> Result<(), Error> {
        let before = self.allocations_so_far();
        for _ in 0..count {
            let name = self.fresh_name();
            let guard = samples.time(|| self.session.lock(name).acquire());
            self.guards.push(guard.map_err(|error| error.to_string())?);
        }
        self.allocations += self.allocations_so_far() - before;
        self.guards.clear();
        self.settle()
    }

    /// Acquires and gives back, `count` fresh names; timed from the one to the next.
    pub(crate) fn cycles(&mut self, count: usize, samples: &mut Samples) -> Result<(), Error> {
        let before = self.allocations_so_far();
        for _ in 0..count {
            let name = self.fresh_name();
            let outcome = samples.time(|| self.session.lock(name).acquire()?.release());
            outcome.map_err(|error| error.to_string())?;
        }
        self.allocations += self.allocations_so_far() - before;
        self.settle()
    }

    /// Acquires `count` times as many fresh names as a packet holds, a packet at a time, and checks every grant.
    pub(crate) fn batches(&mut self, count: usize, samples: &mut Samples) -> Result<(), Error> {
        for _ in 0..count {
            let names: [u64; MAX_ENTRIES] = std::array::from_fn(|_| self.fresh_name());
            let guard = samples.time(|| self.session.lock_many(names).acquire()).map_err(|error| error.to_string())?;
            if guard.each().len() != MAX_ENTRIES || guard.is_lost() {
                return Err("not every lock of a packet was granted".into());
            }
            drop(guard);
            self.settle()?;
        }
        Ok(())
    }

    /// Writes a key `count` times, and reads it as often, a value of the longest kind each.
    #[cfg(feature = "xdp")]
    pub(crate) fn values(&self, count: usize, writes: &mut Samples, reads: &mut Samples) -> Result<(), Error> {
        let store = self.session.store();
        let mut value = [0xab; MAX_VALUE_BYTES];
        for round in 0..count {
            value[..8].copy_from_slice(&(round as u64).to_be_bytes());
            writes.time(|| store.put(KEY, value)).map_err(|error| error.to_string())?;
            let read = reads.time(|| store.get(KEY)).map_err(|error| error.to_string())?;
            if read.is_none_or(|entry| entry.value.bytes() != value) {
                return Err("a value is not what was written".into());
            }
        }
        Ok(())
    }

    pub(crate) fn settle(&self) -> Result<(), Error> {
        settle(&self.session)
    }
}

/// Waits until everything given back is confirmed: the next round begins with nothing under way.
pub(crate) fn settle(session: &Session) -> Result<(), Error> {
    let began = Instant::now();
    while !session.is_idle() {
        if began.elapsed() > SETTLE_MOST {
            return Err("locks that were given back are not confirmed".into());
        }
        thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}
