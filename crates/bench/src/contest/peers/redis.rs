//! Redis: a lock is `SET name token NX PX time`, given back by a script that deletes the name if it still has that
//! token. Over several Redis it is RedLock: the same on each of them at once, held where most have agreed.
//!
//! There is no queue: whoever finds a lock held asks again after a random pause. There are no shared locks.

use super::{About, Conditions, Contestant, Entry, command_line};
use crate::Error;
use crate::contest::driver::{Course, Node, Outcome, drive};
use crate::contest::service::{Grant, LockService, Refusal};
use crate::ports::free_address;
use crate::servers::{Server, directory, version};
use rand::RngExt;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Script};
use rslock::{Lock, LockError, LockManager};
use std::cell::{Cell, RefCell};
use std::process::Command;
use std::time::{Duration, Instant};
use wayside_client::Mode;

/// How long a lock outlives a holder that dies: longer than any is held here.
const LEASE: Duration = Duration::from_secs(10);
/// Deletes a lock if it is still the caller's.
const UNLOCK: &str = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
/// Between two attempts: from the first on, at random, up to the second. Shorter than libraries' 100 to 200 ms, in
/// Redis' favour: few locks are held for longer.
const RETRY_MS: [u64; 2] = [1, 3];
const MODES: &str = "exclusive only, shared requests are made exclusive; no queue, asks again after 1 to 3 ms";
const BATCHING: &str =
    "by connection: a node's commands share one, and go out together when they are ready together; a command a lock";

/// What it calls itself; None where it is not installed.
pub(in super::super) fn installed() -> Option<String> {
    let said = version("redis-server", &["--version"])?;
    let number = said.split(' ').find_map(|word| word.strip_prefix("v=")).unwrap_or("?");
    Some(format!("Redis {number}"))
}

/// Why there is none.
pub(in super::super) const MISSING: &str = "redis-server is not installed";

/// One that keeps nothing on disk, with these settings besides.
pub(in super::super) fn begin(settings: &[&str]) -> Result<Server, Error> {
    let (address, directory) = (free_address()?, directory(false)?);
    Server::start(command(address.port(), settings), address, directory)
}

fn command(port: u16, settings: &[&str]) -> Command {
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
    command.args(["--save", "", "--appendonly", "no"]).args(settings);
    command
}

fn start(count: usize) -> Result<Option<(Vec<Server>, String)>, Error> {
    let Some(version) = installed() else { return Ok(None) };
    let servers = (0..count).map(|_| begin(&[])).collect::<Result<Vec<_>, Error>>()?;
    Ok(Some((servers, version)))
}

fn about(name: &str, version: String, client: &str, servers: &[Server]) -> About {
    let lines = servers.iter().map(|server| command_line(&command(server.address.port(), &[])));
    let lines = lines.collect::<Vec<_>>().join("; ");
    About {
        name: name.into(),
        version,
        client: client.into(),
        endpoint: "TCP on loopback".into(),
        members: servers.len() as u32,
        durability: "none: no persistence".into(),
        batching: BATCHING.into(),
        modes: MODES.into(),
        settings: format!("{lines}; a lock's lease {LEASE:?}"),
    }
}

fn missing() -> Entry {
    Entry::LeftOut(MISSING.into())
}

/// One Redis.
pub(super) fn single(_: &Conditions<'_>) -> Result<Entry, Error> {
    let Some((mut servers, version)) = start(1)? else { return Ok(missing()) };
    let client = "redis 1 (redis-rs), async; release by script, waited for";
    let about = about("redis", version, client, &servers);
    let server = servers.remove(0);
    Ok(Entry::Runs(Box::new(Single { about, server })))
}

struct Single {
    about: About,
    server: Server,
}

impl Contestant for Single {
    fn about(&self) -> &About {
        &self.about
    }

    fn run(&self, course: &Course<'_>) -> Result<Outcome, Error> {
        let url = format!("redis://{}", self.server.address);
        drive(
            course,
            &[self.server.id()],
            |_: Node| {},
            async |node: Node| {
                // Half a second is the library's own, and too short while everything waits.
                let patience = AsyncConnectionConfig::new().set_response_timeout(Some(LEASE));
                let client = Client::open(url.as_str()).map_err(|error| error.to_string())?;
                let connection = client.get_multiplexed_async_connection_with_config(&patience).await;
                let connection = RefCell::new(connection.map_err(|error| error.to_string())?);
                Ok(Commands { connection, unlock: Script::new(UNLOCK), node: node.index, asked: Cell::new(0) })
            },
        )
    }
}

struct Commands {
    connection: RefCell<MultiplexedConnection>,
    unlock: Script,
    node: usize,
    asked: Cell<u64>,
}

impl LockService for Commands {
    type Held = (u64, String);

    async fn acquire(&self, _: usize, lock: u64, _: Mode, until: Instant) -> Result<Grant<Self::Held>, Refusal> {
        self.asked.set(self.asked.get() + 1);
        let token = format!("{}-{}", self.node, self.asked.get());
        let name = name(lock);
        let mut connection = self.connection.borrow().clone();
        retry(until, async || {
            let mut set = redis::cmd("SET");
            set.arg(&name).arg(&token).arg("NX").arg("PX").arg(LEASE.as_millis() as u64);
            let done: Option<String> = set.query_async(&mut connection).await.map_err(Refusal::failed)?;
            Ok(done.is_some().then(|| Grant { held: (lock, token.clone()), token: None }))
        })
        .await
    }

    async fn release(&self, _: usize, (lock, token): Self::Held) -> Result<(), Error> {
        let mut connection = self.connection.borrow().clone();
        let mut unlock = self.unlock.prepare_invoke();
        let deleted = unlock.key(name(lock)).arg(token).invoke_async::<u32>(&mut connection).await;
        match deleted {
            Ok(1) => Ok(()),
            Ok(_) => Err(format!("lock {lock} was not held any more")),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn name(lock: u64) -> String {
    format!("lock:{lock}")
}

/// Attempts, until one succeeds or it is too late for another.
async fn retry<T>(until: Instant, mut attempt: impl AsyncFnMut() -> Result<Option<T>, Refusal>) -> Result<T, Refusal> {
    loop {
        if let Some(done) = attempt().await? {
            return Ok(done);
        }
        let pause = Duration::from_millis(rand::rng().random_range(RETRY_MS[0]..=RETRY_MS[1]));
        if Instant::now() + pause > until {
            return Err(Refusal::TimedOut);
        }
        tokio::time::sleep(pause).await;
    }
}

/// RedLock's algorithm, where it has nothing to agree upon.
pub(super) fn redlock_of_one(_: &Conditions<'_>) -> Result<Entry, Error> {
    redlock("redlock-1", 1)
}

/// Three Redis that know nothing of each other.
pub(super) fn redlock_of_three(_: &Conditions<'_>) -> Result<Entry, Error> {
    redlock("redlock-3", 3)
}

fn redlock(name: &str, count: usize) -> Result<Entry, Error> {
    let Some((servers, version)) = start(count)? else { return Ok(missing()) };
    let client = "rslock 0.10 (RedLock), async; release by script, waited for";
    Ok(Entry::Runs(Box::new(RedLock { about: about(name, version, client, &servers), servers })))
}

struct RedLock {
    about: About,
    servers: Vec<Server>,
}

impl Contestant for RedLock {
    fn about(&self) -> &About {
        &self.about
    }

    fn run(&self, course: &Course<'_>) -> Result<Outcome, Error> {
        let ids: Vec<u32> = self.servers.iter().map(Server::id).collect();
        drive(
            course,
            &ids,
            |_: Node| {},
            async |_| {
                let url = |server: &Server| format!("redis://{}", server.address);
                let mut locks = LockManager::new(self.servers.iter().map(url).collect());
                // One attempt a call; the pauses between them are ours.
                locks.set_retry(1, Duration::from_millis(RETRY_MS[1]));
                Ok(Managed { locks })
            },
        )
    }
}

struct Managed {
    locks: LockManager,
}

impl LockService for Managed {
    type Held = Lock;

    async fn acquire(&self, _: usize, lock: u64, _: Mode, until: Instant) -> Result<Grant<Lock>, Refusal> {
        let name = name(lock);
        retry(until, async || match self.locks.lock(name.as_bytes(), LEASE).await {
            Ok(held) => Ok(Some(Grant { held, token: None })),
            Err(LockError::Unavailable) => Ok(None),
            Err(error) => Err(Refusal::failed(error)),
        })
        .await
    }

    async fn release(&self, _: usize, held: Lock) -> Result<(), Error> {
        held.release().await;
        Ok(())
    }
}
