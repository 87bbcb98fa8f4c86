//! Servers of the tests' own: a directory and a Unix socket each, gone with their test.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than a server takes to start on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// `nobody`: PostgreSQL refuses to run as root.
const NOBODY: u32 = 65_534;

/// A PostgreSQL of the test's own, with a superuser `postgres` who needs no password.
pub struct Postgres {
    server: Server,
}

impl Postgres {
    /// None, and a line that says so, where it is not installed.
    pub fn start() -> Option<Postgres> {
        let Some(programs) = postgres_programs() else {
            println!("skipped: PostgreSQL is not installed");
            return None;
        };
        let directory = directory();
        let user = is_root().then_some(NOBODY);
        if let Some(user) = user {
            chown(directory.path(), Some(user), Some(user)).expect("our directory");
        }
        let data = directory.path().join("data");
        let mut initdb = as_user(user, &programs.join("initdb"));
        initdb
            .args(["--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(&data);
        let made = initdb.output().expect("initdb runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut command = as_user(user, &programs.join("postgres"));
        // The socket alone; what is lost with the machine's power is no concern of these tests.
        command.arg("-D").arg(&data).arg("-k").arg(directory.path()).args(["-c", "listen_addresses=", "-F"]);
        let log = fs::File::create(directory.path().join("log")).expect("our directory");
        command.stderr(log);
        // SIGQUIT: an end at once, which takes its processes along.
        let server = Server::start(command, libc::SIGQUIT, directory);
        let postgres = Postgres { server };
        let ready = || {
            let mut psql = Command::new(programs.join("psql"));
            psql.args(["--no-psqlrc", "-c", "SELECT 1"]).envs(postgres.environment()).stdin(Stdio::null());
            psql.output().is_ok_and(|output| output.status.success())
        };
        postgres.server.await_start(ready);
        Some(postgres)
    }

    /// How its clients find it.
    pub fn environment(&self) -> [(&'static str, String); 3] {
        [
            ("PGHOST", self.path().display().to_string()),
            ("PGUSER", "postgres".into()),
            ("PGDATABASE", "postgres".into()),
        ]
    }

    /// Directory of its socket.
    pub fn path(&self) -> &Path {
        self.server.directory.path()
    }
}

/// The newest that Debian's packages have brought.
fn postgres_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let version = |path: &Path| path.file_name().and_then(OsStr::to_str).and_then(|name| name.parse::<u32>().ok());
    let newest =
        versions.map(|entry| entry.path()).filter(|path| version(path).is_some()).max_by_key(|path| version(path))?;
    Some(newest.join("bin")).filter(|programs| programs.join("initdb").exists())
}

/// A Redis of the test's own.
pub struct Redis {
    server: Server,
}

impl Redis {
    /// None, and a line that says so, where it is not installed.
    pub fn start() -> Option<Redis> {
        if Command::new("redis-server")
            .arg("--version")
            .output()
            .is_err_and(|error| error.kind() == ErrorKind::NotFound)
        {
            println!("skipped: Redis is not installed");
            return None;
        }
        let directory = directory();
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--dir"]).arg(directory.path());
        command.arg("--unixsocket").arg(directory.path().join("socket")).stdout(Stdio::null());
        let redis = Redis { server: Server::start(command, libc::SIGTERM, directory) };
        redis.server.await_start(|| std::os::unix::net::UnixStream::connect(redis.socket()).is_ok());
        Some(redis)
    }

    pub fn socket(&self) -> PathBuf {
        self.server.directory.path().join("socket")
    }
}

struct Server {
    child: Child,
    end: libc::c_int,
    directory: TempDir,
}

impl Server {
    fn start(mut command: Command, end: libc::c_int, directory: TempDir) -> Server {
        command.current_dir(directory.path()).stdin(Stdio::null());
        // SAFETY: a system call, between fork and exec.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, end);
                Ok(())
            })
        };
        Server { child: command.spawn().expect("it starts"), end, directory }
    }

    fn await_start(&self, ready: impl Fn() -> bool) {
        let began = Instant::now();
        while !ready() {
            assert!(began.elapsed() < PATIENCE, "no server: see {}", self.directory.path().display());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: a signal to our child, which nobody has waited for.
        unsafe { libc::kill(self.child.id() as libc::pid_t, self.end) };
        let _ = self.child.wait();
    }
}

/// Short enough for the path of a socket.
fn directory() -> TempDir {
    tempfile::Builder::new().prefix("wf").tempdir().expect("a directory")
}

fn is_root() -> bool {
    // SAFETY: a query of this process.
    unsafe { libc::geteuid() == 0 }
}

fn as_user(user: Option<u32>, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command
}
