//! Servers of other projects, as processes of this one.

use crate::Error;
use crate::recovery::switches::{Directory, Process, await_that};
use std::ffi::OsStr;
use std::fs::File;
use std::net::{SocketAddr, TcpStream};
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
pub(crate) struct Server {
    process: Process,
    program: String,
    pub(crate) address: SocketAddr,
    directory: Directory,
}

impl Server {
    /// Starts it in this directory, and waits until somebody listens at this address.
    pub(crate) fn start(command: Command, address: SocketAddr, directory: Directory) -> Result<Server, Error> {
        let mut server = Server::begin(command, address, directory)?;
        server.await_answer()?;
        Ok(server)
    }

    /// The same of several that wait for each other.
    pub(crate) fn start_all(members: Vec<(Command, SocketAddr, Directory)>) -> Result<Vec<Server>, Error> {
        let begun = members.into_iter().map(|(command, address, directory)| Server::begin(command, address, directory));
        let mut servers = begun.collect::<Result<Vec<_>, _>>()?;
        servers.iter_mut().try_for_each(Server::await_answer)?;
        Ok(servers)
    }

    fn begin(mut command: Command, address: SocketAddr, directory: Directory) -> Result<Server, Error> {
        let program = command.get_program().to_string_lossy().into_owned();
        let log = directory.path().join("log");
        let file = File::create(&log).and_then(|file| Ok((file.try_clone()?, file)));
        let (out, err) = file.map_err(|error| format!("{}: {error}", log.display()))?;
        command.current_dir(directory.path()).stdin(Stdio::null()).stdout(out).stderr(err);
        Ok(Server { process: Process::start(command)?, program, address, directory })
    }

    fn await_answer(&mut self) -> Result<(), Error> {
        let Server { process, program, address, directory } = self;
        let is_up =
            || TcpStream::connect(*address).is_ok() || process.child().try_wait().is_ok_and(|end| end.is_some());
        await_that(&format!("{program} answers"), PATIENCE, is_up)?;
        if process.child().try_wait().is_ok_and(|end| end.is_some()) {
            let said = std::fs::read_to_string(directory.path().join("log")).unwrap_or_default();
            let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
            return Err(format!("{program} has ended; the last that it said: {last}"));
        }
        Ok(())
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Where it runs, and has its files.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// The directory for a server's files: where a write reaches a disk, or not.
pub(crate) fn directory(is_durable: bool) -> Result<Directory, Error> {
    if is_durable { Directory::new() } else { Directory::within(Path::new(MEMORY)) }
}

/// What a program prints first, of its version; None where it is not installed.
pub(crate) fn version(program: impl AsRef<OsStr>, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().trim().to_owned())
}

/// A user that is not root, for programs that refuse to run as root; None: this process is none.
pub(crate) fn nobody() -> Option<u32> {
    // SAFETY: reads a number.
    (unsafe { libc::geteuid() } == 0).then_some(NOBODY)
}

/// The newest of the versions that Debian's packages have brought to this directory.
pub(crate) fn newest_version(of: &Path) -> Option<PathBuf> {
    let versions = std::fs::read_dir(of).ok()?.flatten();
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    versions.map(|entry| entry.path()).filter(|path| version(path).is_some()).max_by_key(|path| version(path))
}

/// ZooKeeper where Debian's package has it, and its version: that of the link `zookeeper-3.8.0.jar` beside it.
pub(crate) fn zookeeper_jar() -> Option<(PathBuf, String)> {
    let jar = PathBuf::from("/usr/share/java/zookeeper.jar");
    let beside =
        std::fs::read_dir(jar.parent()?).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let version = |name: String| Some(name.strip_prefix("zookeeper-")?.strip_suffix(".jar")?.to_owned());
    let is_version = |version: &String| version.starts_with(|first: char| first.is_ascii_digit());
    let version = beside.filter_map(version).find(is_version).unwrap_or_else(|| "?".into());
    jar.exists().then_some((jar, version))
}
