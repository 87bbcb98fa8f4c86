//! ZooKeeper with three members.

use super::{About, Entry, Store};
use crate::Error;
use crate::keys::driver::{Client, Load, Outcome, Place, VALUE, drive, fill};
use crate::ports::free_address;
use crate::servers::{Server, directory, zookeeper_jar};
use std::fs;
use std::process::Command;
use std::time::Duration;
use zookeeper_client::{Acls, CreateMode, Error as Refused};

const MEMBERS: usize = 3;
const SESSION: Duration = Duration::from_secs(30);

struct ZooKeeper {
    about: About,
    members: Vec<Server>,
}

pub(super) fn start(is_durable: bool) -> Result<Entry, Error> {
    let Some((jar, version)) = zookeeper_jar() else {
        return Ok(Entry::LeftOut("ZooKeeper is not installed".into()));
    };
    let mut members = Vec::new();
    for _ in 0..MEMBERS {
        members.push((free_address()?, free_address()?, free_address()?));
    }
    let ensemble = members.iter().enumerate().map(|(member, (_, follow, elect))| {
        format!("server.{}=127.0.0.1:{}:{}\n", member + 1, follow.port(), elect.port())
    });
    let ensemble: String = ensemble.collect();
    let forced = if is_durable { "yes" } else { "no" };
    let mut commands = Vec::new();
    for (member, (address, ..)) in members.iter().enumerate() {
        let directory = directory(is_durable)?;
        let (data, config) = (directory.path().join("data"), directory.path().join("zoo.cfg"));
        let text = format!(
            "dataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n\
             forceSync={forced}\ntickTime=2000\ninitLimit=30\nsyncLimit=10\n{ensemble}",
            data.display(),
            address.port()
        );
        let written = fs::create_dir_all(&data)
            .and_then(|()| fs::write(data.join("myid"), format!("{}\n", member + 1)))
            .and_then(|()| fs::write(&config, text));
        written.map_err(|error| format!("{}: {error}", config.display()))?;
        let mut command = Command::new("java");
        command.args(["-Xms256m", "-Xmx1g", "-Dzookeeper.root.logger=ERROR,CONSOLE"]);
        command.arg(format!("-Dzookeeper.forceSync={forced}"));
        command.arg("-cp").arg(&jar).arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(&config);
        commands.push((command, *address, directory));
    }
    let durability = if is_durable { "two of three disks, by fsync before the answer" } else { "files in memory" };
    let about = About {
        name: if is_durable { "zookeeper-3" } else { "zookeeper-3-memory" }.into(),
        version: format!("ZooKeeper {version}"),
        client: "zookeeper-client 0.11, async, connected to one member".into(),
        endpoint: "TCP on loopback".into(),
        members: MEMBERS as u32,
        durability: durability.into(),
        reads: "what the member has: may be old".into(),
        batching: "by the server: it writes what is ready together; none by clients".into(),
    };
    Ok(Entry::Runs(Box::new(ZooKeeper { about, members: Server::start_all(commands)? })))
}

impl ZooKeeper {
    async fn connect(&self) -> Result<Keys, Error> {
        let cluster: Vec<String> = self.members.iter().map(|member| member.address.to_string()).collect();
        let connector =
            zookeeper_client::Client::connector().with_session_timeout(SESSION).with_server_version(3, 8, 0);
        let client = connector.connect(&cluster.join(",")).await.map_err(|error| error.to_string())?;
        Ok(Keys { client })
    }
}

impl Store for ZooKeeper {
    fn about(&self) -> &About {
        &self.about
    }

    fn fill(&self, keys: usize) -> Result<(), Error> {
        fill(keys, || {}, async || self.connect().await)
    }

    fn run(&self, load: &Load) -> Result<Outcome, Error> {
        let servers: Vec<u32> = self.members.iter().map(Server::id).collect();
        drive(load, &servers, |_: Place| {}, async |_| self.connect().await)
    }
}

struct Keys {
    client: zookeeper_client::Client,
}

impl Client for Keys {
    async fn read(&self, key: usize) -> Result<(), Error> {
        self.client.get_data(&format!("/key-{key}")).await.map(|_| ()).map_err(|error| error.to_string())
    }

    async fn write(&self, key: usize, value: &[u8; VALUE]) -> Result<(), Error> {
        let path = format!("/key-{key}");
        match self.client.set_data(&path, value, None).await {
            Err(Refused::NoNode) => {
                let made =
                    self.client.create(&path, value, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await;
                made.map(|_| ()).map_err(|error| error.to_string())
            }
            other => other.map(|_| ()).map_err(|error| error.to_string()),
        }
    }
}
