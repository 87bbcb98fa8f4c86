//! Servers of other projects, as processes of this one.

use crate::Error;
use crate::recovery::switches::{Directory, Process, await_that};
use std::ffi::OsStr;
use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Longer than a server takes to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// `nobody`: PostgreSQL refuses to run as root.
const NOBODY: u32 = 65_534;
/// Where there are no disks behind files, in Debian and elsewhere.
const MEMORY: &str = "/dev/shm";

/// A server that runs, and what it wrote.
pub(super) struct Server {
    process: Process,
    pub(super) address: SocketAddr,
    _directory: Directory,
}

impl Server {
    /// Starts it in this directory, and waits until somebody listens at this address.
    pub(super) fn start(mut command: Command, address: SocketAddr, directory: Directory) -> Result<Server, Error> {
        let program = command.get_program().to_string_lossy().into_owned();
        let log = directory.path().join("log");
        let file = File::create(&log).and_then(|file| Ok((file.try_clone()?, file)));
        let (out, err) = file.map_err(|error| format!("{}: {error}", log.display()))?;
        command.current_dir(directory.path()).stdin(Stdio::null()).stdout(out).stderr(err);
        let mut process = Process::start(command)?;
        let is_up = || TcpStream::connect(address).is_ok() || process.child().try_wait().is_ok_and(|end| end.is_some());
        await_that(&format!("{program} answers"), PATIENCE, is_up)?;
        if process.child().try_wait().is_ok_and(|end| end.is_some()) {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
            return Err(format!("{program} has ended; the last that it said: {last}"));
        }
        Ok(Server { process, address, _directory: directory })
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }
}

/// A port that nobody has now: whoever takes it meanwhile makes the start fail.
pub(super) fn free_address() -> Result<SocketAddr, Error> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.map_err(|error| format!("no free port: {error}"))
}

/// The directory for a server's files: where a write reaches a disk, or not.
pub(super) fn directory(is_durable: bool) -> Result<Directory, Error> {
    if is_durable { Directory::new() } else { Directory::within(Path::new(MEMORY)) }
}

/// What a program prints first, of its version; None where it is not installed.
pub(super) fn version(program: impl AsRef<OsStr>, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().trim().to_owned())
}

/// A user that is not root, for programs that refuse to run as root; None: this process is none.
pub(super) fn nobody() -> Option<u32> {
    // SAFETY: reads a number.
    (unsafe { libc::geteuid() } == 0).then_some(NOBODY)
}

/// The newest of the versions that Debian's packages have brought to this directory.
pub(super) fn newest_version(of: &Path) -> Option<PathBuf> {
    let versions = std::fs::read_dir(of).ok()?.flatten();
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    versions.map(|entry| entry.path()).filter(|path| version(path).is_some()).max_by_key(|path| version(path))
}
