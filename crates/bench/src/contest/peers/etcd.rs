//! etcd over gRPC, by its own two ways to a lock:
//!
//! * as the Go client's package `concurrency` does: a key of one's own below the lock's name, made once with a lease;
//!   who has the oldest key holds the lock, others watch the next older one until it is deleted;
//! * as its service `v3lock`, where the server does that.
//!
//! Both are queues of one mode. A key's revision rises with every grant: it is the fencing token. `v3lock` does not
//! tell it, but the revision at which it saw that nobody is before: after the release of the one before, whose own was
//! earlier still, so that it rises as well.

use super::{About, Conditions, Contestant, Entry, command_line};
use crate::Error;
use crate::contest::driver::{Course, Node, Outcome, drive};
use crate::contest::service::{Grant, LockService, Refusal};
use crate::ports::free_address;
use crate::servers::{Server, directory, version};
use etcd_client::{
    Client, Compare, CompareOp, EventType, GetOptions, LockOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp,
    TxnOpResponse, WatchOptions,
};
use futures_util::future::try_join_all;
use std::cell::RefCell;
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
    Ok(match launch(name, way, is_durable)? {
        Some(etcd) => Entry::Runs(Box::new(etcd)),
        None => Entry::LeftOut("etcd is not installed".into()),
    })
}

/// None: it is not installed.
fn launch(name: &str, way: Way, is_durable: bool) -> Result<Option<Etcd>, Error> {
    let Some(said) = version("etcd", &["--version"]) else { return Ok(None) };
    let (address, peers, directory) = (free_address()?, free_address()?, directory(is_durable)?);
    let (url, peers) = (format!("http://{address}"), format!("http://{peers}"));
    let mut command = Command::new("etcd");
    command.arg("--data-dir").arg(directory.path().join("etcd")).args(["--log-level", "error", "--logger", "zap"]);
    command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
    command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
    // Runs write millions of keys, each with its history.
    command.args(["--quota-backend-bytes", "8589934592"]);
    command.arg("--initial-cluster").arg(format!("default={peers}"));
    let line = command_line(&command);
    let server = Server::start(command, address, directory)?;
    let ways = match way {
        Way::Concurrency => "as Go's clientv3/concurrency: transaction with a lease, watch; release waited for",
        Way::Service => {
            "v3lock's Lock and Unlock; release waited for; who has waited in vain revokes its lease, since v3lock may \
             leave a key behind"
        }
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
        batching: "by the server: it writes what is ready together; none by clients".into(),
        modes: "exclusive only, shared requests are made exclusive; queued by revision".into(),
        settings: format!("{line}; a client's lease {LEASE_S} s"),
    };
    Ok(Some(Etcd { about, server, way }))
}

impl Etcd {
    /// One connection for so many clients.
    async fn connect(&self, clients: usize) -> Result<Locks, Error> {
        let connected = Client::connect([self.server.address.to_string()], None).await;
        let client = connected.map_err(|error| error.to_string())?;
        let leases = RefCell::new(try_join_all((0..clients).map(|_| Lease::grant(&client))).await?);
        Ok(Locks { client, leases, way: self.way })
    }
}

impl Contestant for Etcd {
    fn about(&self) -> &About {
        &self.about
    }

    fn run(&self, course: &Course<'_>) -> Result<Outcome, Error> {
        drive(course, &[self.server.id()], |_: Node| {}, async |node: Node| self.connect(node.clients).await)
    }
}

struct Locks {
    client: Client,
    /// Of each client: a key is named by its lease, and two of one name would be one.
    leases: RefCell<Vec<Lease>>,
    way: Way,
}

#[derive(Clone, Copy)]
struct Lease {
    id: i64,
    /// A call with it was given up: the server may still be about to write its key, which nobody would take back.
    is_given_up: bool,
}

impl Lease {
    async fn grant(client: &Client) -> Result<Lease, Error> {
        let granted = client.clone().lease_grant(LEASE_S, None).await.map_err(|error| error.to_string())?;
        Ok(Lease { id: granted.id(), is_given_up: false })
    }
}

impl LockService for Locks {
    type Held = Vec<u8>;

    async fn acquire(&self, number: usize, lock: u64, _: Mode, until: Instant) -> Result<Grant<Vec<u8>>, Refusal> {
        let lease = self.leases.borrow()[number].id;
        match self.way {
            Way::Service => {
                let options = LockOptions::new().with_lease(lease);
                let mut client = self.client.clone();
                let asked = client.lock(format!("locks/{lock}"), Some(options));
                let Ok(answer) = timeout_at(until.into(), asked).await else {
                    self.leases.borrow_mut()[number].is_given_up = true;
                    return Err(Refusal::TimedOut);
                };
                let answer = answer.map_err(Refusal::failed)?;
                let token = answer.header().map(|header| header.revision() as u64);
                Ok(Grant { held: answer.key().to_vec(), token })
            }
            Way::Concurrency => {
                let key = format!("locks/{lock}/{lease:x}");
                // Whoever gave this up would leave a key behind, which may be made after it was deleted.
                let (own, is_granted) = self.queue_up(lock, &key, lease).await?;
                let prefix = format!("locks/{lock}/");
                let older = async { if is_granted { Ok(()) } else { self.await_older(&prefix, own).await } };
                match timeout_at(until.into(), older).await {
                    Ok(waited) => waited.map(|()| Grant { held: key.into_bytes(), token: Some(own as u64) }),
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

    /// With a lease go all its keys, and none is written with it any more.
    async fn forget(&self, client: usize) -> Result<(), Error> {
        let Lease { id, is_given_up } = self.leases.borrow()[client];
        if is_given_up {
            self.client.clone().lease_revoke(id).await.map_err(|error| error.to_string())?;
            let lease = Lease::grant(&self.client).await?;
            self.leases.borrow_mut()[client] = lease;
        }
        Ok(())
    }
}

impl Locks {
    /// Makes the key: its revision, and whether it is the oldest of the lock.
    async fn queue_up(&self, lock: u64, key: &str, lease: i64) -> Result<(i64, bool), Refusal> {
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
        Ok((own, owner == Some(own)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::sleep;

    /// A transaction with a time-out gives up at any moment, and what it leaves behind nobody else would ever be
    /// granted: not the key that is being written, not the one that waits, not the one that has just got the lock.
    #[test]
    fn whoever_gives_up_at_any_moment_leaves_no_key_behind() {
        give_up(Way::Concurrency);
    }

    #[test]
    fn whoever_gives_up_with_v3lock_leaves_no_key_behind() {
        give_up(Way::Service);
    }

    fn give_up(way: Way) {
        let Some(etcd) = launch("etcd", way, true).unwrap() else {
            println!("skipped: etcd is not installed");
            return;
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(ask_and_give_up(&etcd));
    }

    async fn ask_and_give_up(etcd: &Etcd) {
        const LOCK: u64 = 7;
        let locks = etcd.connect(2).await.unwrap();
        let (mut granted, mut given_up) = (0, 0);
        for turn in 0..300 {
            // Every other time somebody holds it meanwhile.
            let holder =
                if turn % 2 == 0 { Some(ask(&locks, 1, Duration::from_secs(20)).await.unwrap()) } else { None };
            match ask(&locks, 0, Duration::from_micros(turn * 50)).await {
                Ok(grant) => {
                    granted += 1;
                    locks.release(0, grant.held).await.unwrap();
                }
                Err(Refusal::TimedOut) => {
                    given_up += 1;
                    locks.forget(0).await.unwrap();
                }
                Err(Refusal::Failed(why)) => panic!("turn {turn}: {why}"),
            }
            if let Some(holder) = holder {
                locks.release(1, holder.held).await.unwrap();
            }
        }
        assert!(given_up >= 150 && granted > 0, "{given_up} given up, {granted} granted");
        // What the server still does by itself.
        sleep(Duration::from_millis(200)).await;
        let left = locks.client.clone().get("locks/", Some(GetOptions::new().with_prefix())).await.unwrap();
        assert!(left.kvs().is_empty(), "{:?}", left.kvs());

        async fn ask(locks: &Locks, client: usize, patience: Duration) -> Result<Grant<Vec<u8>>, Refusal> {
            locks.acquire(client, LOCK, Mode::Exclusive, Instant::now() + patience).await
        }
    }
}
