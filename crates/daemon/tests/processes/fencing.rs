//! The story of `docs/fencing.md` with real processes, and its commands as they are written there.

#[path = "../../../fence/tests/support/mod.rs"]
mod servers;
use crate::support;

use servers::{Postgres, Redis};
use std::future::Future;
use std::io::{PipeWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::process::Command;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;
use support::{Daemon, Running, end};
use wayside_client::Acquiring;
use wayside_fence::{FileFence, Token};

/// What the holders of the lock `orders` write to: told by the environment of a process.
#[derive(Clone)]
enum Resource {
    File(PathBuf),
    /// By the directory of its socket.
    Sql(PathBuf),
    Redis(PathBuf),
}

const RESOURCE: &str = "FENCING_RESOURCE";

impl Resource {
    fn text(&self) -> String {
        match self {
            Resource::File(directory) => format!("file {}", directory.display()),
            Resource::Sql(directory) => format!("sql {}", directory.display()),
            Resource::Redis(socket) => format!("redis {}", socket.display()),
        }
    }

    fn of_environment() -> Option<Resource> {
        let text = std::env::var(RESOURCE).ok()?;
        let (kind, path) = text.split_once(' ')?;
        match kind {
            "file" => Some(Resource::File(path.into())),
            "sql" => Some(Resource::Sql(path.into())),
            "redis" => Some(Resource::Redis(path.into())),
            _ => None,
        }
    }

    /// Shows the token, and writes if there is something to write. False: refused.
    fn show(&self, token: u64, write: Option<&str>) -> bool {
        match self {
            Resource::File(directory) => {
                let pass = FileFence::new(directory.join("orders.fence")).pass(Token::new(token).unwrap());
                let Ok(pass) = pass else { return false };
                write.is_none_or(|text| pass.replace(directory.join("orders"), text.as_bytes()).is_ok())
            }
            Resource::Sql(directory) => {
                let set = write.map_or(String::new(), |text| format!(", content = '{text}'"));
                let update = format!("UPDATE orders SET fence = {token}{set} WHERE fence <= {token} RETURNING fence");
                psql(directory, &update) == token.to_string()
            }
            Resource::Redis(socket) => {
                let mut command = Command::new("redis-cli");
                command.args(["-e", "-s"]).arg(socket).args(["EVAL", wayside_fence::redis::SCRIPT]);
                command.args(["2", "orders:fence", "orders"]).arg(token.to_string());
                command.args(write.map(|text| ["SET", "orders", text]).iter().flatten());
                let ended = end(command);
                assert!(ended.code == Some(0) || ended.stderr.contains("FENCED"), "{ended:?}");
                ended.code == Some(0)
            }
        }
    }

    fn content(&self) -> String {
        match self {
            Resource::File(directory) => std::fs::read_to_string(directory.join("orders")).unwrap(),
            Resource::Sql(directory) => psql(directory, "SELECT content FROM orders"),
            Resource::Redis(socket) => {
                let mut command = Command::new("redis-cli");
                command.arg("-s").arg(socket).args(["GET", "orders"]);
                end(command).stdout.trim_end().into()
            }
        }
    }
}

fn psql(directory: &Path, statement: &str) -> String {
    let mut command = Command::new("psql");
    command.arg("--host").arg(directory).args(["--username=postgres", "--no-psqlrc", "-qAtc", statement]);
    let ended = end(command);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.stdout.trim_end().into()
}

/// Not a test but the holder of one: it takes the lock, reads, and writes when it is told to, without another look at
/// its guard, as who was paused just before the system call.
#[test]
fn holder() {
    let Some(resource) = Resource::of_environment() else { return };
    let session = support::builder().connect().unwrap();
    let guard = session.lock("orders").acquire().unwrap();
    let token = guard.token().0;
    assert!(resource.show(token, None));
    println!("\nread with {token}");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let taken = resource.show(token, Some(&format!("by {token}")));
    println!("\n{} {}", if taken { "taken" } else { "refused" }, if guard.is_lost() { "lost" } else { "held" });
}

struct Holder {
    running: Running,
    stdin: PipeWriter,
}

impl Holder {
    fn start(daemon: &Daemon, resource: &Resource) -> Holder {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "fencing::holder", "--nocapture"]).env(RESOURCE, resource.text());
        command.env("WAYSIDE_ENDPOINTS", daemon.address.to_string()).env("WAYSIDE_SOCKET", daemon.socket());
        let (theirs, stdin) = std::io::pipe().unwrap();
        command.stdin(theirs);
        Holder { running: Running::start(command), stdin }
    }

    /// What it says next, among the lines of the test harness.
    fn says(&self, word: &str) -> String {
        loop {
            let line = self.running.line();
            if line.starts_with(word) {
                return line;
            }
        }
    }

    fn token(&self) -> u64 {
        self.says("read with ").rsplit(' ').next().unwrap().parse().unwrap()
    }

    fn go_on(&mut self) {
        self.stdin.write_all(b"\n").unwrap();
    }
}

/// A is stopped beyond its lease, B writes, A wakes up and writes.
fn who_was_paused_is_refused(resource: &Resource) {
    let daemon = Daemon::start(&["--lease", "300ms"]);
    let mut a = Holder::start(&daemon, resource);
    let first = a.token();
    a.running.signal(libc::SIGSTOP);

    let mut b = Holder::start(&daemon, resource);
    let second = b.token();
    assert!(second > first);
    b.go_on();
    assert_eq!(b.says("taken"), "taken held");

    a.go_on();
    a.running.signal(libc::SIGCONT);
    assert_eq!(a.says("refused"), "refused lost");
    assert_eq!(resource.content(), format!("by {second}"));

    // Whoever comes next is not kept out.
    let mut c = Holder::start(&daemon, resource);
    let third = c.token();
    c.go_on();
    assert_eq!(c.says("taken"), "taken held");
    assert_eq!(resource.content(), format!("by {third}"));
}

#[test]
fn a_paused_holders_write_to_a_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    who_was_paused_is_refused(&Resource::File(directory.path().into()));
}

#[test]
fn a_paused_holders_write_to_postgresql_is_refused() {
    let Some(postgres) = Postgres::start() else { return };
    psql(postgres.path(), "CREATE TABLE orders (content text, fence bigint); INSERT INTO orders VALUES ('', 0)");
    who_was_paused_is_refused(&Resource::Sql(postgres.path().into()));
}

#[test]
fn a_paused_holders_write_to_redis_is_refused() {
    let Some(redis) = Redis::start() else { return };
    who_was_paused_is_refused(&Resource::Redis(redis.socket()));
}

/// Why `Token::of_reader` is needed, and that it suffices.
#[test]
fn a_reader_may_have_the_token_of_the_writer_before_and_the_next_writer_has_more() {
    let daemon = Daemon::start(&[]);
    let session = support::builder().endpoint(daemon.address.to_string()).connect().unwrap();
    let token = |guard: &wayside_client::Guard| Token::new(guard.token().0).unwrap();
    let context = &mut Context::from_waker(Waker::noop());
    let first = session.lock("orders").acquire().unwrap();
    let mut writer = pin!(session.lock("orders").acquire_async());
    let mut reader = pin!(session.lock("orders").shared().acquire_async());
    let mut next = pin!(session.lock("orders").acquire_async());
    assert!(writer.as_mut().poll(context).is_pending() && reader.as_mut().poll(context).is_pending());
    assert!(next.as_mut().poll(context).is_pending());
    drop(first);
    let mut granted = |mut future: Pin<&mut Acquiring<'_>>| loop {
        match future.as_mut().poll(context) {
            Poll::Ready(guard) => break guard.unwrap(),
            Poll::Pending => thread::sleep(Duration::from_millis(1)),
        }
    };
    let writer = token(&granted(writer));
    let reader = token(&granted(reader));
    let next = token(&granted(next));
    assert_eq!(reader, writer);
    assert!(writer < reader.of_reader() && reader.of_reader() <= next);
}

/// The commands of the documentation's sessions, each with what it is said to print.
fn documented() -> Vec<(String, String)> {
    let text = include_str!("../../../../docs/fencing.md");
    let sessions = text.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut steps = Vec::new();
    for line in sessions.flat_map(str::lines) {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push((command.to_owned(), String::new()));
        } else {
            let (command, output) = steps.last_mut().expect("a session begins with a command");
            // A command goes on in the next line, indented.
            let part = if line.starts_with("    ") { command } else { output };
            part.push_str(line);
            part.push('\n');
        }
    }
    steps
}

#[test]
fn the_documented_commands_do_what_is_said() {
    let (Some(postgres), Some(redis)) = (Postgres::start(), Redis::start()) else { return };
    let daemon = Daemon::start(&[]);
    // `redis-cli` takes its server from nothing but its flags.
    let programs = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_wayside"), programs.path().join("wayside")).unwrap();
    let wrapper = programs.path().join("redis-cli");
    let path = std::env::var("PATH").unwrap();
    let mut places = std::env::split_paths(&path).map(|path| path.join("redis-cli"));
    let real = places.find(|path| path.exists()).expect("it comes with the server");
    let script = format!("#!/bin/sh\nexec {} -s {} \"$@\"\n", real.display(), redis.socket().display());
    std::fs::write(&wrapper, script).unwrap();
    std::fs::set_permissions(&wrapper, PermissionsExt::from_mode(0o755)).unwrap();

    let steps = documented();
    assert!(steps.len() >= 8, "{steps:?}");
    // In one shell, since they use its variables; a mark ends each one's output.
    let text: String = steps.iter().map(|(command, _)| format!("{command}\necho =====\n")).collect();
    let like = daemon.command(&[]);
    let mut shell = Command::new("sh");
    shell.args(["-c", &text]).envs(like.get_envs().filter_map(|(key, value)| Some((key, value?))));
    shell.envs(postgres.environment()).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    shell.env("PATH", format!("{}:{path}", programs.path().display()));
    let ended = end(shell);
    let outputs: Vec<&str> = ended.stdout.split("=====\n").collect();
    for ((command, expected), output) in steps.iter().zip(outputs) {
        assert_eq!(output, expected, "{command}\n{ended:?}");
    }
}
