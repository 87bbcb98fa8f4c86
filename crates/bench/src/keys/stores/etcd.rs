//! etcd with three members, over gRPC.

use super::{About, Entry, Store};
use crate::Error;
use crate::keys::driver::{Client, Load, Outcome, Place, VALUE, drive, fill};
use crate::ports::free_address;
use crate::servers::{Server, directory, version};
use std::process::Command;

const MEMBERS: usize = 3;

struct Etcd {
    about: About,
    members: Vec<Server>,
}

pub(super) fn start(is_durable: bool) -> Result<Entry, Error> {
    let Some(said) = version("etcd", &["--version"]) else {
        return Ok(Entry::LeftOut("etcd is not installed".into()));
    };
    let mut addresses = Vec::new();
    for _ in 0..MEMBERS {
        addresses.push((free_address()?, free_address()?));
    }
    let cluster: Vec<String> =
        addresses.iter().enumerate().map(|(member, (_, peers))| format!("m{member}=http://{peers}")).collect();
    let mut commands = Vec::new();
    for (member, (address, peers)) in addresses.iter().enumerate() {
        let directory = directory(is_durable)?;
        let (url, peers) = (format!("http://{address}"), format!("http://{peers}"));
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(directory.path().join("etcd")).args(["--log-level", "error", "--logger", "zap"]);
        command.args(["--name", &format!("m{member}"), "--initial-cluster", &cluster.join(",")]);
        command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--quota-backend-bytes", "8589934592"]);
        commands.push((command, *address, directory));
    }
    let durability = if is_durable { "two of three disks, by fsync before the answer" } else { "files in memory" };
    let about = About {
        name: if is_durable { "etcd-3" } else { "etcd-3-memory" }.into(),
        version: said.replace("etcd Version: ", "etcd "),
        client: "etcd-client 0.21 (gRPC), async, knows all three".into(),
        endpoint: "TCP on loopback, HTTP/2".into(),
        members: MEMBERS as u32,
        durability: durability.into(),
        reads: "linearizable".into(),
        batching: "by the server: it writes what is ready together; none by clients".into(),
    };
    Ok(Entry::Runs(Box::new(Etcd { about, members: Server::start_all(commands)? })))
}

impl Etcd {
    async fn connect(&self) -> Result<Keys, Error> {
        let endpoints: Vec<String> = self.members.iter().map(|member| member.address.to_string()).collect();
        let client = etcd_client::Client::connect(endpoints, None).await.map_err(|error| error.to_string())?;
        Ok(Keys { client })
    }
}

impl Store for Etcd {
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
    client: etcd_client::Client,
}

impl Client for Keys {
    async fn read(&self, key: usize) -> Result<(), Error> {
        let found =
            self.client.kv_client().get(format!("keys/{key}"), None).await.map_err(|error| error.to_string())?;
        if found.kvs().is_empty() { Err(format!("key {key} has no value")) } else { Ok(()) }
    }

    async fn write(&self, key: usize, value: &[u8; VALUE]) -> Result<(), Error> {
        let written = self.client.kv_client().put(format!("keys/{key}"), *value, None).await;
        written.map(|_| ()).map_err(|error| error.to_string())
    }
}
