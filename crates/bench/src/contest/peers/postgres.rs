//! PostgreSQL's advisory locks, of a session: `pg_advisory_lock` and its shared form. A connection for each client,
//! since a lock is its connection's.

use super::{About, Conditions, Contestant, Entry, command_line};
use crate::Error;
use crate::contest::driver::{Course, Node, Outcome, drive};
use crate::contest::service::{Grant, LockService, Refusal};
use crate::ports::free_address;
use crate::servers::{Server, directory, newest_version, nobody, version};
use futures_util::future::try_join_all;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls, Statement};
use wayside_client::Mode;

struct Postgres {
    about: About,
    server: Server,
}

pub(super) fn advisory(conditions: &Conditions<'_>) -> Result<Entry, Error> {
    let Some(programs) = newest_version(Path::new("/usr/lib/postgresql")).map(|version| version.join("bin")) else {
        return Ok(Entry::LeftOut("postgresql is not installed".into()));
    };
    let (address, directory) = (free_address()?, directory(false)?);
    let as_nobody = |program: &str| {
        let mut command = Command::new(programs.join(program));
        if let Some(user) = nobody() {
            command.uid(user).gid(user);
        }
        command
    };
    if let Some(user) = nobody() {
        chown(directory.path(), Some(user), Some(user)).map_err(|error| error.to_string())?;
    }
    let data = directory.path().join("data");
    let mut initdb = as_nobody("initdb");
    initdb.args(["--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "-D"]).arg(&data);
    initdb.current_dir(directory.path());
    let made = initdb.output().map_err(|error| format!("initdb does not start: {error}"))?;
    if !made.status.success() {
        return Err(format!("initdb: {}", String::from_utf8_lossy(&made.stderr)));
    }
    let mut command = as_nobody("postgres");
    command.arg("-D").arg(&data).arg("-k").arg(directory.path());
    command.args(["-c", "listen_addresses=127.0.0.1", "-p", &address.port().to_string()]);
    // Those of the run before may not have ended yet.
    command.args(["-c", &format!("max_connections={}", 2 * conditions.clients + 20)]);
    let settings = format!("{}; {}", command_line(&initdb), command_line(&command));
    let server = Server::start(command, address, directory)?;
    let said = version(programs.join("postgres"), &["--version"]).unwrap_or_default();
    // `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`
    let number = said.split(' ').nth(2).unwrap_or("?");
    let about = About {
        name: "postgresql".into(),
        version: format!("PostgreSQL {number}"),
        client: "tokio-postgres 0.7, prepared statements; release waited for".into(),
        endpoint: "TCP on loopback, a connection and a server process for each client".into(),
        members: 1,
        durability: "none: advisory locks are in memory alone".into(),
        batching: "none".into(),
        modes: "shared and exclusive; queued, deadlocks are found after 1 s".into(),
        settings,
    };
    Ok(Entry::Runs(Box::new(Postgres { about, server })))
}

impl Contestant for Postgres {
    fn about(&self) -> &About {
        &self.about
    }

    fn run(&self, course: &Course<'_>) -> Result<Outcome, Error> {
        let address = self.server.address;
        let abort = course.abort;
        drive(
            course,
            &[self.server.id()],
            |_: Node| {},
            async |node: Node| {
                let url = format!("host={} port={} user=postgres dbname=postgres", address.ip(), address.port());
                let connect = async || {
                    let connection = Connection::open(&url).await?;
                    if let Some(abort) = abort {
                        let set = format!("SET lock_timeout = '{}ms'", abort.as_millis().max(1));
                        connection.client.batch_execute(&set).await?;
                    }
                    Ok::<_, tokio_postgres::Error>(connection)
                };
                let connections = try_join_all((0..node.clients).map(|_| connect())).await;
                Ok(Connections { of_clients: connections.map_err(|error| error.to_string())? })
            },
        )
    }
}

struct Connections {
    of_clients: Vec<Connection>,
}

struct Connection {
    client: Client,
    /// Acquire and release, exclusive and shared.
    exclusive: [Statement; 2],
    shared: [Statement; 2],
}

impl Connection {
    async fn open(url: &str) -> Result<Connection, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        // It ends with its client.
        tokio::spawn(connection);
        let exclusive = [
            client.prepare("SELECT pg_advisory_lock($1)").await?,
            client.prepare("SELECT pg_advisory_unlock($1)").await?,
        ];
        let shared = [
            client.prepare("SELECT pg_advisory_lock_shared($1)").await?,
            client.prepare("SELECT pg_advisory_unlock_shared($1)").await?,
        ];
        Ok(Connection { client, exclusive, shared })
    }

    fn statements(&self, mode: Mode) -> &[Statement; 2] {
        if mode == Mode::Shared { &self.shared } else { &self.exclusive }
    }
}

impl LockService for Connections {
    type Held = (u64, Mode);

    /// The time-out is the connection's own.
    async fn acquire(&self, client: usize, lock: u64, mode: Mode, _: Instant) -> Result<Grant<Self::Held>, Refusal> {
        let connection = &self.of_clients[client];
        match connection.client.query_one(&connection.statements(mode)[0], &[&(lock as i64)]).await {
            Ok(_) => Ok(Grant { held: (lock, mode), token: None }),
            Err(error) => match error.code() {
                Some(code) if [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED].contains(code) => {
                    Err(Refusal::TimedOut)
                }
                _ => Err(Refusal::failed(error)),
            },
        }
    }

    async fn release(&self, client: usize, (lock, mode): Self::Held) -> Result<(), Error> {
        let connection = &self.of_clients[client];
        let row = connection.client.query_one(&connection.statements(mode)[1], &[&(lock as i64)]).await;
        match row.and_then(|row| row.try_get::<_, bool>(0)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("lock {lock} was not held")),
            Err(error) => Err(error.to_string()),
        }
    }
}
