//! ZooKeeper: its recipe for locks. A client makes an ephemeral node with a sequence number below
//! the lock's own node; who has the lowest number holds the lock, others watch the next lower one until it goes.
//!
//! A lock's own node is a container, which the server removes some time after its last child: a lock that nobody has
//! used for long costs two writes more.
//!
//! Names are not as Curator's, `_c_UUID-lock-SEQUENCE`: of a call that is given up while its node is being made the
//! library deletes none of these, since it forgets the lock's own node before the name (zookeeper-client 0.11). Of
//! other names it does, by the session that made them.

use super::{About, Conditions, Contestant, Entry, command_line, line_of};
use crate::Error;
use crate::contest::driver::{Course, Node, Outcome, drive};
use crate::contest::service::{Grant, LockService, Refusal};
use crate::ports::free_address;
use crate::servers::{Server, directory, zookeeper_jar};
use std::cell::Cell;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::time::timeout_at;
use wayside_client::Mode;
use zookeeper_client::{Acls, Client, CreateMode, LockOptions, LockPrefix, OwnedLockClient};

const SESSION: Duration = Duration::from_secs(30);

struct ZooKeeper {
    about: About,
    server: Server,
}

/// Every change is on disk before it is answered.
pub(super) fn durable(_: &Conditions<'_>) -> Result<Entry, Error> {
    start("zookeeper", true)
}

/// All files in memory, and no fsync.
pub(super) fn in_memory(_: &Conditions<'_>) -> Result<Entry, Error> {
    start("zookeeper-memory", false)
}

fn start(name: &str, is_durable: bool) -> Result<Entry, Error> {
    Ok(match launch(name, is_durable)? {
        Some(zookeeper) => Entry::Runs(Box::new(zookeeper)),
        None => Entry::LeftOut("ZooKeeper is not installed".into()),
    })
}

/// None: it is not installed.
fn launch(name: &str, is_durable: bool) -> Result<Option<ZooKeeper>, Error> {
    let Some((jar, version)) = zookeeper_jar() else { return Ok(None) };
    let (address, directory) = (free_address()?, directory(is_durable)?);
    let data = directory.path().join("data");
    let config = directory.path().join("zoo.cfg");
    let forced = if is_durable { "yes" } else { "no" };
    let text = format!(
        "dataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n\
         forceSync={forced}\ntickTime=2000\n",
        data.display(),
        address.port()
    );
    fs::write(&config, &text).map_err(|error| format!("{}: {error}", config.display()))?;
    let mut command = Command::new("java");
    command.args(["-Xms256m", "-Xmx1g", "-Dzookeeper.root.logger=ERROR,CONSOLE"]);
    command.arg(format!("-Dzookeeper.forceSync={forced}"));
    command.arg("-cp").arg(jar).arg("org.apache.zookeeper.server.ZooKeeperServerMain").arg(&config);
    let (line, file) = (command_line(&command), line_of(text.lines()));
    let server = Server::start(command, address, directory)?;
    let durability = if is_durable {
        "every grant and release, by fsync before the answer"
    } else {
        "none: its files are in memory, no fsync"
    };
    let about = About {
        name: name.into(),
        version: format!("ZooKeeper {version}"),
        client: "zookeeper-client 0.11, its recipe for locks; release in the background".into(),
        endpoint: "TCP on loopback".into(),
        members: 1,
        durability: durability.into(),
        batching: "by the server: it writes what is ready together; none by clients".into(),
        modes: "exclusive only, shared requests are made exclusive; queued by sequence".into(),
        settings: format!("{line}; zoo.cfg: {file}; a session's time-out {SESSION:?}"),
    };
    Ok(Some(ZooKeeper { about, server }))
}

impl Contestant for ZooKeeper {
    fn about(&self) -> &About {
        &self.about
    }

    fn run(&self, course: &Course<'_>) -> Result<Outcome, Error> {
        drive(course, &[self.server.id()], |_: Node| {}, async |_| self.connect().await)
    }
}

impl ZooKeeper {
    async fn connect(&self) -> Result<Recipe, Error> {
        let connector = Client::connector().with_session_timeout(SESSION).with_server_version(3, 8, 0);
        let client = connector.connect(&self.server.address.to_string()).await.map_err(|error| error.to_string())?;
        Ok(Recipe { client, calls: Cell::new(0) })
    }
}

struct Recipe {
    client: Client,
    /// So many calls were made: each has a name of its own, by which what is left of it is found.
    calls: Cell<u64>,
}

impl LockService for Recipe {
    type Held = OwnedLockClient;

    async fn acquire(&self, _: usize, lock: u64, _: Mode, until: Instant) -> Result<Grant<Self::Held>, Refusal> {
        let parent = format!("/locks/{lock}");
        let call = self.calls.replace(self.calls.get() + 1);
        let prefix = LockPrefix::new_custom(format!("{parent}/{call}-lock-"), "lock-").map_err(Refusal::failed)?;
        let container = CreateMode::Container.with_acls(Acls::anyone_all());
        let options = LockOptions::new(Acls::anyone_all()).with_ancestor_options(container).map_err(Refusal::failed)?;
        // A call that is given up takes its node back.
        let granted = timeout_at(until.into(), self.client.lock(prefix, b"", options)).await;
        match granted {
            Ok(Ok(held)) => Ok(Grant { held: held.into_owned(), token: None }),
            Ok(Err(error)) => Err(Refusal::failed(error)),
            Err(_) => Err(Refusal::TimedOut),
        }
    }

    async fn release(&self, _: usize, held: Self::Held) -> Result<(), Error> {
        drop(held);
        Ok(())
    }

    /// While the first answer is waited for deletions are sent, and the second comes after theirs.
    async fn end(&self) -> Result<(), Error> {
        for _ in 0..2 {
            self.client.check_stat("/").await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launched() -> Option<ZooKeeper> {
        let zookeeper = launch("zookeeper", true).unwrap();
        if zookeeper.is_none() {
            println!("skipped: ZooKeeper is not installed");
        }
        zookeeper
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    async fn ask(recipe: &Recipe, patience: Duration) -> Result<Grant<OwnedLockClient>, Refusal> {
        recipe.acquire(0, 7, Mode::Exclusive, Instant::now() + patience).await
    }

    /// A node's thread ends with its last release, and with it whatever goes on in the background; its session goes on
    /// for half a minute. Whoever waits for that lock elsewhere is not to wait so long.
    #[test]
    fn a_node_that_ends_has_given_back_its_last_lock() {
        let Some(zookeeper) = launched() else { return };
        block_on(async {
            let recipe = zookeeper.connect().await.unwrap();
            let grant = ask(&recipe, SESSION).await.unwrap();
            recipe.release(0, grant.held).await.unwrap();
            recipe.end().await.unwrap();
        });
        block_on(async {
            let recipe = zookeeper.connect().await.unwrap();
            assert!(ask(&recipe, SESSION / 3).await.is_ok(), "still held");
        });
    }

    #[test]
    fn whoever_gives_up_at_any_moment_leaves_no_node_behind() {
        let Some(zookeeper) = launched() else { return };
        block_on(async {
            let (holder, other) = (zookeeper.connect().await.unwrap(), zookeeper.connect().await.unwrap());
            let mut given_up = 0;
            for turn in 0..200 {
                let held = if turn % 2 == 0 { Some(ask(&holder, SESSION / 3).await.unwrap().held) } else { None };
                match ask(&other, Duration::from_micros(turn * 50)).await {
                    Ok(grant) => other.release(0, grant.held).await.unwrap(),
                    Err(Refusal::TimedOut) => given_up += 1,
                    Err(Refusal::Failed(why)) => panic!("turn {turn}: {why}"),
                }
                if let Some(held) = held {
                    holder.release(0, held).await.unwrap();
                }
            }
            assert!(given_up >= 100, "{given_up}");
            // What is left of a call is looked for in the background, in several round trips.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let left = holder.client.list_children("/locks/7").await.unwrap();
            assert!(left.is_empty(), "{left:?}");
        });
    }
}
