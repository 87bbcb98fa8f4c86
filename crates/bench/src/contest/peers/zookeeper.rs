//! ZooKeeper: its recipe for locks, as Curator has it. A client makes an ephemeral node with a sequence number below
//! the lock's own node; who has the lowest number holds the lock, others watch the next lower one until it goes.
//!
//! A lock's own node is a container, which the server removes some time after its last child: a lock that nobody has
//! used for long costs two writes more.

use super::{About, Conditions, Contestant, Entry};
use crate::Error;
use crate::contest::driver::{Course, Node, Outcome, drive};
use crate::contest::service::{Grant, LockService, Refusal};
use crate::servers::{Server, directory, free_address, zookeeper_jar};
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
    let Some((jar, version)) = zookeeper_jar() else {
        return Ok(Entry::LeftOut("ZooKeeper is not installed".into()));
    };
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
    fs::write(&config, text).map_err(|error| format!("{}: {error}", config.display()))?;
    let mut command = Command::new("java");
    command.args(["-Xms256m", "-Xmx1g", "-Dzookeeper.root.logger=ERROR,CONSOLE"]);
    command.arg(format!("-Dzookeeper.forceSync={forced}"));
    command.arg("-cp").arg(jar).arg("org.apache.zookeeper.server.ZooKeeperServerMain").arg(&config);
    let server = Server::start(command, address, directory)?;
    let durability = if is_durable {
        "every grant and release, by fsync before the answer"
    } else {
        "none: its files are in memory, no fsync"
    };
    let about = About {
        name: name.into(),
        version: format!("ZooKeeper {version}"),
        client: "zookeeper-client 0.11, its recipe as Curator's; release in the background".into(),
        endpoint: "TCP on loopback".into(),
        members: 1,
        durability: durability.into(),
        batching: "none by clients; the server writes what is ready together".into(),
        modes: "exclusive only, shared requests are made exclusive; queued by sequence".into(),
    };
    Ok(Entry::Runs(Box::new(ZooKeeper { about, server })))
}

impl Contestant for ZooKeeper {
    fn about(&self) -> &About {
        &self.about
    }

    fn run(&self, course: &Course<'_>) -> Result<Outcome, Error> {
        let cluster = self.server.address.to_string();
        drive(
            course,
            &[self.server.id()],
            |_: Node| {},
            async |_| {
                let connector = Client::connector().with_session_timeout(SESSION).with_server_version(3, 8, 0);
                let client = connector.connect(&cluster).await.map_err(|error| error.to_string())?;
                Ok(Recipe { client })
            },
        )
    }
}

struct Recipe {
    client: Client,
}

impl LockService for Recipe {
    type Held = OwnedLockClient;

    async fn acquire(&self, _: usize, lock: u64, _: Mode, until: Instant) -> Result<Grant<Self::Held>, Refusal> {
        let parent = format!("/locks/{lock}");
        let prefix = LockPrefix::new_curator(&parent, "lock-").map_err(Refusal::failed)?;
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
}
