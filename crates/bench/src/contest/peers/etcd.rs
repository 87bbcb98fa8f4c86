//! etcd over gRPC, by its own two ways to a lock:
//!
//! * as the Go client's package `concurrency` does: a key of one's own below the lock's name, made once with a lease;
//!   who has the oldest key holds the lock, others watch the next older one until it is deleted;
//! * as its service `v3lock`, where the server does that.
//!
//! Both are queues of one mode. A key's revision rises with every grant: it is the fencing token.

use super::{About, Conditions, Contestant, Entry};
use crate::Error;
use crate::contest::driver::{Course, Node, Outcome, drive};
use crate::contest::service::{Grant, LockService, Refusal};
use crate::servers::{Server, directory, free_address, version};
use etcd_client::{
    Client, Compare, CompareOp, EventType, GetOptions, LockOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp,
    TxnOpResponse, WatchOptions,
};
use futures_util::future::try_join_all;
use std::process::Command;
use std::time::Instant;
use tokio::time::timeout_at;
use wayside_client::Mode;

/// Of a client's lease, in seconds: longer than a run, so that none has to be kept alive.
const LEASE_S: i64 = 600;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Concurrency,
    Service,
}

struct Etcd {
    about: About,
    server: Server,
    way: Way,
}

/// As the Go client does it; every change is on disk before it is answered.
pub(super) fn durable(_: &Conditions<'_>) -> Result<Entry, Error> {
    start("etcd", Way::Concurrency, true)
}

/// By `v3lock`; on disk likewise.
pub(super) fn lock_service(_: &Conditions<'_>) -> Result<Entry, Error> {
    start("etcd-v3lock", Way::Service, true)
}

/// As the Go client does it, with all files in memory: what remains without a disk.
pub(super) fn in_memory(_: &Conditions<'_>) -> Result<Entry, Error> {
    start("etcd-memory", Way::Concurrency, false)
}

fn start(name: &str, way: Way, is_durable: bool) -> Result<Entry, Error> {
    let Some(said) = version("etcd", &["--version"]) else {
        return Ok(Entry::LeftOut("etcd is not installed".into()));
    };
    let (address, peers, directory) = (free_address()?, free_address()?, directory(is_durable)?);
    let (url, peers) = (format!("http://{address}"), format!("http://{peers}"));
    let mut command = Command::new("etcd");
    command.arg("--data-dir").arg(directory.path().join("etcd")).args(["--log-level", "error", "--logger", "zap"]);
    command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
    command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
    // Runs write millions of keys, each with its history.
    command.args(["--quota-backend-bytes", "8589934592"]);
    command.arg("--initial-cluster").arg(format!("default={peers}"));
    let server = Server::start(command, address, directory)?;
    let ways = match way {
        Way::Concurrency => "as Go's clientv3/concurrency: transaction with a lease, watch; release waited for",
        Way::Service => "v3lock's Lock and Unlock; release waited for",
    };
    let durability = if is_durable {
        "every grant and release, by fsync before the answer"
    } else {
        "none: its files are in memory"
    };
    let about = About {
        name: name.into(),
        version: said.replace("etcd Version: ", "etcd "),
        client: format!("etcd-client 0.21 (gRPC), async; {ways}"),
        endpoint: "TCP on loopback, HTTP/2".into(),
        members: 1,
        durability: durability.into(),
        batching: "none by clients; the server writes what is ready together".into(),
        modes: "exclusive only, shared requests are made exclusive; queued by revision".into(),
    };
    Ok(Entry::Runs(Box::new(Etcd { about, server, way })))
}

impl Contestant for Etcd {
    fn about(&self) -> &About {
        &self.about
    }

    fn run(&self, course: &Course<'_>) -> Result<Outcome, Error> {
        let endpoint = self.server.address.to_string();
        drive(
            course,
            &[self.server.id()],
            |_: Node| {},
            async |node: Node| {
                let text = |error: etcd_client::Error| error.to_string();
                let client = Client::connect([&endpoint], None).await.map_err(text)?;
                let lease = async || {
                    let granted = client.clone().lease_grant(LEASE_S, None).await;
                    granted.map(|granted| granted.id()).map_err(text)
                };
                let leases = try_join_all((0..node.clients).map(|_| lease())).await?;
                Ok(Locks { client, leases, way: self.way })
            },
        )
    }
}

struct Locks {
    client: Client,
    /// Of each client: a key is named by its lease, and two of one name would be one.
    leases: Vec<i64>,
    way: Way,
}

impl LockService for Locks {
    type Held = Vec<u8>;

    async fn acquire(&self, client: usize, lock: u64, _: Mode, until: Instant) -> Result<Grant<Vec<u8>>, Refusal> {
        let lease = self.leases[client];
        match self.way {
            Way::Service => {
                let options = LockOptions::new().with_lease(lease);
                let mut client = self.client.clone();
                let asked = client.lock(format!("locks/{lock}"), Some(options));
                // The server takes its key back when the call is given up.
                let answer = timeout_at(until.into(), asked).await.map_err(|_| Refusal::TimedOut)?;
                let answer = answer.map_err(Refusal::failed)?;
                Ok(Grant { held: answer.key().to_vec(), token: None })
            }
            Way::Concurrency => {
                let key = format!("locks/{lock}/{lease:x}");
                match timeout_at(until.into(), self.queue_up(lock, &key, lease)).await {
                    Ok(granted) => granted.map(|token| Grant { held: key.into_bytes(), token: Some(token) }),
                    Err(_) => {
                        self.client.clone().delete(key, None).await.map_err(Refusal::failed)?;
                        Err(Refusal::TimedOut)
                    }
                }
            }
        }
    }

    async fn release(&self, _: usize, key: Vec<u8>) -> Result<(), Error> {
        let mut client = self.client.clone();
        let released = match self.way {
            Way::Service => client.unlock(key).await.map(|_| ()),
            Way::Concurrency => client.delete(key, None).await.map(|_| ()),
        };
        released.map_err(|error| error.to_string())
    }
}

impl Locks {
    /// Makes the key and waits until all older ones of the lock are gone; the key's revision.
    async fn queue_up(&self, lock: u64, key: &str, lease: i64) -> Result<u64, Refusal> {
        let mut client = self.client.clone();
        let prefix = format!("locks/{lock}/");
        let put = TxnOp::put(key, "", Some(PutOptions::new().with_lease(lease)));
        let oldest = GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend).with_limit(1);
        let owner = TxnOp::get(prefix.as_str(), Some(oldest));
        let is_new = Compare::create_revision(key, CompareOp::Equal, 0);
        let answer = client.txn(Txn::new().when([is_new]).and_then([put, owner])).await.map_err(Refusal::failed)?;
        let (true, Some(header)) = (answer.succeeded(), answer.header()) else {
            return Err(Refusal::Failed(format!("{key} is there already")));
        };
        let own = header.revision();
        let owner = answer.op_responses().into_iter().find_map(|response| match response {
            TxnOpResponse::Get(found) => found.kvs().first().map(etcd_client::KeyValue::create_revision),
            _ => None,
        });
        if owner != Some(own) {
            self.await_older(&prefix, own).await?;
        }
        Ok(own as u64)
    }

    /// Waits for the next older key to be deleted, and then for the one that is next to it.
    async fn await_older(&self, prefix: &str, own: i64) -> Result<(), Refusal> {
        let mut client = self.client.clone();
        loop {
            let options = GetOptions::new().with_prefix().with_max_create_revision(own - 1);
            let newest = options.with_sort(SortTarget::Create, SortOrder::Descend).with_limit(1);
            let found = client.get(prefix, Some(newest)).await.map_err(Refusal::failed)?;
            let (Some(older), Some(header)) = (found.kvs().first(), found.header()) else { return Ok(()) };
            let from = WatchOptions::new().with_start_revision(header.revision() + 1);
            let mut events = client.watch(older.key(), Some(from)).await.map_err(Refusal::failed)?;
            let mut is_deleted = false;
            while !is_deleted {
                let Some(news) = events.message().await.map_err(Refusal::failed)? else {
                    return Err(Refusal::Failed("etcd has ended a watch".into()));
                };
                is_deleted = news.events().iter().any(|event| event.event_type() == EventType::Delete);
            }
        }
    }
}
