//! What the switches of a shard share, in etcd: the post that says which of them serves, the controller's records, the
//! numbers of the namespaces.
//!
//! ```text
//!   /wayside/SHARD/post             "HOLDER ADDRESS": 16 hexadecimal digits, and where that switch is; or all zeros
//!   /wayside/SHARD/record/KEY       a record of the controller: 8 hexadecimal digits
//!   /wayside/SHARD/records          which commit was the latest: "PROCESS COUNT"
//!   /wayside/SHARD/chain/KEY        a record of the controller of chains
//!   /wayside/SHARD/chains           which commit of those was the latest
//!   /wayside/SHARD/shards           "SHARD of NAME,NAME": what locks are divided among; empty: they are not
//!   /wayside/SHARD/namespace/NAME   "NUMBER SLOTS GROUPS"; GROUPS 0: it has no keys
//!   /wayside/SHARD/successor/NUMBER where a switch takes what another one hands over: "ADDRESS LAYOUT"
//!   /wayside/SHARD/enrolment/FILE   who may enrol (`mirror.rs`)
//! ```
//!
//! Invariants
//! * Records are written on the condition that the post is the writer's own, and that nobody has written since it read
//!   them or wrote last: whoever was deposed writes nothing more, and a commit that a paused member of etcd applies
//!   late, after others, is refused. (It would take epochs back: spec/README.md, RecordsInOrder.)
//! * Every question waits for its answer no longer than it is of use; what becomes of it after that does no harm
//!   (`serving.rs` of the protocol). A commit leaves of the post's lease what it takes to renew it: one that etcd keeps
//!   waiting is made again, a lease that is over is not.

pub mod fabric;

use super::clock;
use super::gateway::{Compare, Gateway, Keys, Outcome, Put, Range};
use super::metrics::Commits;
use crate::admission::{Files, numbers_in};
use crate::config::{Namespace, Sharing};
use crate::failure::Failure;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt;
use std::future::Future;
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::time::timeout;
use wayside_protocol::Time;
use wayside_protocol::controller::{Answer, Inquiry, Post, Question, Record, Store};
use wayside_protocol::seal::Period;
use wayside_wire::mix;

/// Records in one transaction: etcd takes 128 operations by default. A larger batch is several transactions, of which
/// a crash may leave the last undone: only ends of sessions come in such batches, each of which stands for itself.
pub const BATCH: usize = 100;
/// Records in one answer: 2,000 of 200 bytes are far below the 4 MiB that a message may have.
const PAGE: u32 = 2_000;
/// For a commit, and for anything else that the controller waits for.
const PATIENCE: Duration = Duration::from_secs(2);
/// However little is left of the post's lease, a commit has this part of a whole one: a switch that took longer than
/// that to read its records has to begin all the same.
const LEAST: u32 = 4;
/// Where records are: before their keys, and the key of the latest commit.
#[derive(Clone, Copy)]
struct Shelf {
    records: &'static str,
    order: &'static str,
}

const SESSIONS: Shelf = Shelf { records: "record/", order: "records" };
const CHAINS: Shelf = Shelf { records: "chain/", order: "chains" };

/// Into so many steps what etcd keeps is divided.
const STEPS: usize = 12;
/// At the start, to find etcd at all.
const CONNECTING: Duration = Duration::from_secs(5);
const ANOTHER_ATTEMPT: Duration = Duration::from_millis(50);

/// Why etcd did not do what it was asked to.
#[derive(Debug)]
pub enum Error {
    /// It says so, or can't be reached.
    Etcd(String),
    /// No answer in time.
    Silent(Duration),
    /// The post is another's: this switch has been deposed.
    Deposed,
    /// A key has a value that this version does not write.
    Damaged(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Etcd(error) => write!(f, "etcd: {error}"),
            Error::Silent(time) => write!(f, "etcd did not answer within {time:?}"),
            Error::Deposed => write!(f, "another switch serves"),
            Error::Damaged(key) => write!(f, "etcd: {key} has a value that is none of ours"),
        }
    }
}

impl From<String> for Error {
    fn from(why: String) -> Error {
        Error::Etcd(why)
    }
}

/// The shard's part of etcd, for one switch. Clones are the same.
#[derive(Clone)]
pub struct Shard {
    etcd: Gateway,
    runtime: Arc<Background>,
    prefix: Arc<str>,
    /// The post's value while this switch serves.
    own: Arc<str>,
    lease: Duration,
    shelf: Shelf,
    commits: Commits,
    latest: Arc<Mutex<Latest>>,
    /// For a commit, at most.
    patience: Duration,
    /// Sessions' keys that the other switches have not been told of.
    untold: Arc<Mutex<BTreeMap<u16, Period>>>,
    /// Until when the post is this switch's, as far as it has heard, on the daemon's clock; 0: it was never told.
    until: Arc<AtomicU64>,
}

/// Commits of this process, which come in an order.
struct Latest {
    /// Of the latest commit that is known, anybody's.
    revision: u64,
    /// What no other process calls itself.
    process: String,
    commits: u64,
}

/// The connection's own thread. (Dropped within another runtime, a `Runtime` would panic.)
struct Background(Option<Runtime>);

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Shard {
    /// Connects. `number`: this switch's own; `process`: a random one; `listen`: where it is.
    ///
    /// # Errors
    /// If etcd is not there, or the files of its certificates are not.
    pub fn connect(sharing: &Sharing, number: u64, process: u64, listen: SocketAddrV4) -> Result<Shard, Failure> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("etcd").enable_all().build();
        let runtime = runtime.map_err(|error| Failure::system("can't start a thread for etcd", &error))?;
        let background = Arc::new(Background(Some(runtime)));
        let etcd = Gateway::new(sharing)?;
        let prefix = format!("/wayside/{}/", sharing.shard);
        let (asked, post) = (etcd.clone(), Keys::one(&format!("{prefix}post")));
        let answered = wait(&background, async move {
            // One that has just been started answers once its members have agreed.
            let begun = Instant::now();
            loop {
                match asked.range(&post).await {
                    Err(_) if begun.elapsed() < CONNECTING => tokio::time::sleep(ANOTHER_ATTEMPT).await,
                    answer => return answer,
                }
            }
        });
        answered.map_err(|why| Failure::unavailable(format!("can't reach etcd: {why}")))?;
        Ok(Shard {
            etcd,
            runtime: background,
            prefix: prefix.into(),
            own: format!("{:016x} {listen}", holder_at(number, listen)).into(),
            lease: sharing.serving_lease,
            shelf: SESSIONS,
            commits: Commits::default(),
            latest: Arc::new(Mutex::new(Latest { revision: 0, process: format!("{process:016x}"), commits: 0 })),
            patience: PATIENCE,
            untold: Arc::default(),
            until: Arc::default(),
        })
    }

    /// Who this switch is at the post.
    pub fn holder(&self) -> u64 {
        holder_of(&self.own).map_or(0, |(holder, _)| holder)
    }

    /// Lets etcd forget what was overwritten longer ago than `history`, while this switch serves. For ever.
    pub async fn compact(self, history: Duration) {
        let mut past = VecDeque::with_capacity(STEPS + 1);
        loop {
            tokio::time::sleep(history / STEPS as u32).await;
            let Ok(found) = self.etcd.range(&Keys::one(&self.key("post"))).await else { continue };
            let Ok((post, _)) = self.post_of(&found) else { continue };
            past.push_back(post.revision);
            if past.len() <= STEPS {
                continue;
            }
            if let Some(revision) = past.pop_front().filter(|_| post.holder == self.holder())
                && let Err(error) = self.etcd.compact(revision).await
            {
                tracing::debug!(%error, "etcd's history was not shortened");
            }
        }
    }

    /// How its commits go from now on.
    pub fn commits(&self) -> Commits {
        self.commits.clone()
    }

    /// Asks the post, and hands the answer over when it is there.
    pub fn ask(&self, inquiry: Inquiry, answered: impl FnOnce(Inquiry, Answer, Option<SocketAddrV4>) + Send + 'static) {
        let shard = self.clone();
        self.spawn(async move {
            let answer = timeout(shard.lease, shard.asked(inquiry.question)).await;
            let (answer, holder) = match answer {
                Ok(Ok(answer)) => answer,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "the post could not be asked");
                    (Answer::Unknown, None)
                }
                Err(_) => (Answer::Unknown, None),
            };
            answered(inquiry, answer, holder);
        });
    }

    /// This answer is taken for true now.
    pub fn heard(&self, inquiry: &Inquiry, answer: Answer) {
        if let (Question::Take(_) | Question::Renew, Answer::Done(_)) = (inquiry.question, answer) {
            let until = inquiry.since.time + self.lease.as_micros() as u64;
            self.until.fetch_max(until.0, Ordering::Relaxed);
        }
    }

    /// How long the next commit may take: the controller's thread waits for it, and renews nothing meanwhile.
    fn patience_now(&self) -> Duration {
        let until = Time(self.until.load(Ordering::Relaxed));
        if until == Time(0) {
            return self.patience;
        }
        let rest = Duration::from_micros(until.since(clock::now()));
        (rest * 3 / 4).max(self.lease / LEAST).min(self.patience)
    }

    async fn asked(&self, question: Question) -> Result<(Answer, Option<SocketAddrV4>), Error> {
        let post = self.key("post");
        let (condition, value) = match question {
            Question::Look => {
                let (post, holder) = self.post_of(&self.etcd.range(&Keys::one(&post)).await?)?;
                return Ok((Answer::Is(post), holder));
            }
            Question::Take(seen) => (at_revision(&post, seen), &*self.own),
            Question::Renew => (self.is_own(), &*self.own),
            Question::Resign(seen) => (at_revision(&post, seen), VACANT),
        };
        match self.etcd.write_if(vec![condition], vec![Put::new(&post, value)], Some(Keys::one(&post))).await? {
            Outcome::Done(revision) => {
                let (holder, address) = holder_of(value).ok_or(Error::Damaged(post))?;
                Ok((Answer::Done(Post { holder, revision }), address))
            }
            Outcome::Not(found) => {
                let (post, holder) = self.post_of(&found)?;
                Ok((Answer::Is(post), holder))
            }
        }
    }

    /// The post is this switch's.
    fn is_own(&self) -> Compare {
        Compare::Value { key: self.key("post").into(), value: self.own.as_bytes().into() }
    }

    fn post_of(&self, found: &Range) -> Result<(Post, Option<SocketAddrV4>), Error> {
        let Some(entry) = found.kvs.first() else { return Ok((Post::default(), None)) };
        let damaged = || Error::Damaged(self.key("post"));
        let (holder, address) = std::str::from_utf8(&entry.value).ok().and_then(holder_of).ok_or_else(damaged)?;
        Ok((Post { holder, revision: entry.mod_revision }, address))
    }

    /// The shards that the records are those of: `wanted` from now on, if they are new.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub fn division(&self, wanted: &str) -> Result<String, Failure> {
        let (shard, wanted) = (self.clone(), wanted.to_owned());
        let division = self.within(async move { shard.division_or(&wanted).await });
        division.map_err(|error| Failure::unavailable(format!("can't read which shards there are: {error}")))
    }

    async fn division_or(&self, wanted: &str) -> Result<String, Error> {
        let own = self.key("shards");
        loop {
            let found = self.etcd.range(&Keys::one(&own)).await?;
            if let Some(entry) = found.kvs.into_iter().next() {
                return String::from_utf8(entry.value).map_err(|_| Error::Damaged(own.clone()));
            }
            // None may begin its namespaces meanwhile without having said.
            let guard = self.key("namespaces");
            let is_new = self.etcd.range(&Keys::one(&guard)).await?.kvs.is_empty();
            let division = if is_new { wanted } else { "" };
            let as_found = Compare::Version { key: guard.into(), version: 0 };
            let none = Compare::Version { key: own.clone().into(), version: 0 };
            let conditions = if is_new { vec![none, as_found] } else { vec![none] };
            self.etcd.write_if(conditions, vec![Put::new(&own, division)], None).await?;
        }
    }

    /// The number of each of `namespaces`, in their order: the same for every switch of the shard, for ever.
    ///
    /// # Errors
    /// If one is known with another count of slots, or of groups of keys, or etcd does not answer.
    pub fn number(&self, namespaces: &[Namespace]) -> Result<Vec<u16>, Failure> {
        let mut numbers = Vec::with_capacity(namespaces.len());
        for namespace in namespaces {
            let (shard, wanted) = (self.clone(), namespace.clone());
            let (number, slots, groups) = self
                .within(async move { shard.number_of(&wanted).await })
                .map_err(|error| Failure::unavailable(format!("can't number the namespaces: {error}")))?;
            if slots != namespace.slots {
                return Err(Failure::usage(format!(
                    "namespace {:?} has {slots} slots in shard {}, not {}: nodes that still know the old count would hold \
                     the same locks; give it a new name",
                    namespace.name, self.prefix, namespace.slots
                )));
            }
            // One of before there were any is as it was.
            if groups.is_some_and(|groups| groups != groups_of(namespace)) {
                return Err(Failure::usage(format!(
                    "namespace {:?} has {} groups of keys in shard {}, not {}: switches of one shard keep the same groups; \
                     `groups` and whether there are `keys` are for the life of a namespace: give it a new name",
                    namespace.name,
                    groups.unwrap_or(0),
                    self.prefix,
                    groups_of(namespace)
                )));
            }
            numbers.push(number);
        }
        Ok(numbers)
    }

    async fn number_of(&self, namespace: &Namespace) -> Result<(u16, u32, Option<u16>), Error> {
        let all = self.key("namespace/");
        let own = format!("{all}{}", namespace.name);
        loop {
            let found = self.etcd.range(&Keys::beginning_with(&all)).await?;
            if let Some(entry) = found.kvs.iter().find(|entry| entry.key == own.as_bytes()) {
                let text = String::from_utf8_lossy(&entry.value).into_owned();
                let mut words = text.split(' ');
                let number = words.next().and_then(|word| word.parse().ok());
                let slots = words.next().and_then(|word| word.parse().ok());
                let groups = words.next().map(str::parse).transpose().ok();
                let numbers = number.zip(slots).zip(groups).map(|((number, slots), groups)| (number, slots, groups));
                return numbers.ok_or_else(|| Error::Damaged(own.clone()));
            }
            // None may have been added meanwhile: its number would be the same.
            let number = found.kvs.len();
            let guard = self.key("namespaces");
            let unchanged = Compare::Version { key: guard.clone().into(), version: number as u64 };
            let value = format!("{number} {} {}", namespace.slots, groups_of(namespace));
            self.etcd.write_if(vec![unchanged], vec![Put::new(&own, value), Put::new(&guard, "")], None).await?;
        }
    }

    async fn read(&self) -> Result<Vec<Record>, Error> {
        // First: another process's commit that comes late, while the rest is read, makes the next one fail, and all is
        // read again. One of this process was given up: what it says nobody relies on.
        let (order, _) = self.order_now().await?;
        self.latest().revision = order;
        let mut page = Keys { limit: PAGE, ..Keys::beginning_with(&self.key(self.shelf.records)) };
        let mut records = Vec::new();
        loop {
            let found = self.etcd.range(&page).await?;
            for entry in found.kvs {
                let text = String::from_utf8_lossy(&entry.key).into_owned();
                let number = text.rsplit('/').next().and_then(|digits| u32::from_str_radix(digits, 16).ok());
                records.push((number.ok_or(Error::Damaged(text))?, entry.value));
                // The next key after it.
                page.key = entry.key;
                page.key.push(0);
            }
            if !found.more {
                return Ok(records);
            }
        }
    }

    async fn write(&self, batch: Vec<Record>) -> Result<(), Error> {
        for some in batch.chunks(BATCH) {
            let (revision, own) = {
                let mut latest = self.latest();
                latest.commits += 1;
                (latest.revision, format!("{} {}", latest.process, latest.commits))
            };
            let put =
                |(key, value): &Record| Put::new(&self.key(&format!("{}{key:08x}", self.shelf.records)), value.clone());
            let puts: Vec<Put> =
                some.iter().map(put).chain([Put::new(&self.key(self.shelf.order), own.clone())]).collect();
            let revision = self.write_after(revision, &own, puts).await?;
            self.latest().revision = revision;
        }
        Ok(())
    }

    /// Writes if nothing was written after `revision`, but by commits of this process that were given up. The revision
    /// now.
    async fn write_after(&self, mut revision: u64, own: &str, puts: Vec<Put>) -> Result<u64, Error> {
        let order = self.key(self.shelf.order);
        loop {
            let conditions = vec![self.is_own(), at_revision(&order, revision)];
            if let Outcome::Done(revision) = self.etcd.write_if(conditions, puts.clone(), None).await? {
                return Ok(revision);
            }
            let (now, by) = self.order_now().await?;
            if by == own {
                // Done at an endpoint whose answer did not come.
                return Ok(now);
            }
            let is_of_this_process = by.split(' ').next() == own.split(' ').next();
            if now == revision || !is_of_this_process {
                return Err(Error::Deposed);
            }
            revision = now;
            // If this one is given up, too, the next begins here.
            self.latest().revision = now;
        }
    }

    /// The latest commit: its revision, and which it was.
    async fn order_now(&self) -> Result<(u64, String), Error> {
        let found = self.etcd.range(&Keys::one(&self.key(self.shelf.order))).await?;
        let entry = found.kvs.into_iter().next().unwrap_or_default();
        Ok((entry.mod_revision, String::from_utf8_lossy(&entry.value).into_owned()))
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files that the switches have in common.
    pub async fn files_now(&self) -> Result<Files, Error> {
        let prefix = self.key("enrolment/");
        let found = self.etcd.range(&Keys::beginning_with(&prefix)).await?;
        let name = |key: &[u8]| String::from_utf8_lossy(&key[prefix.len().min(key.len())..]).into_owned();
        Ok(found.kvs.into_iter().map(|entry| (name(&entry.key), entry.value)).collect())
    }

    /// As [`Shard::files_now`], for who has no runtime.
    pub fn files(&self) -> Result<Files, Error> {
        let shard = self.clone();
        self.within(async move { shard.files_now().await })
    }

    /// The numbers of the hosts that may enrol. For who has just got the post, and is to renew it: he waits for a part
    /// of its lease.
    pub fn hosts(&self) -> Result<HashSet<u64>, Error> {
        let (shard, patience) = (self.clone(), self.lease / LEAST);
        let files = wait(&self.runtime, async move {
            timeout(patience, shard.files_now()).await.unwrap_or(Err(Error::Silent(patience)))
        });
        Ok(numbers_in(files?.keys().map(String::as_str)))
    }

    /// The same as soon as etcd tells them.
    pub async fn await_hosts(self, told: impl FnOnce(HashSet<u64>) + Send) {
        loop {
            match self.files_now().await {
                Ok(files) => return told(numbers_in(files.keys().map(String::as_str))),
                Err(_) => tokio::time::sleep(ANOTHER_ATTEMPT).await,
            }
        }
    }

    /// Writes one of these files, or (None) removes it.
    pub async fn write_file(&self, name: &str, bytes: Option<Vec<u8>>) -> Result<(), Error> {
        Ok(self.etcd.write(&self.key(&format!("enrolment/{name}")), bytes).await?)
    }

    /// As [`Shard::write_file`], for who has no runtime.
    pub fn tell_file(&self, name: &str, bytes: Option<Vec<u8>>) -> Result<(), Error> {
        let (shard, name) = (self.clone(), name.to_owned());
        self.within(async move { shard.write_file(&name, bytes).await })
    }

    /// Writes all of these files, as long as there is none of the `last` ones: these go last, all at once.
    pub async fn found_now(&self, last: &[&str], files: Files) -> Result<(), Error> {
        let key = |name: &str| self.key(&format!("enrolment/{name}"));
        let (ends, begins): (Vec<_>, Vec<_>) = files.into_iter().partition(|(name, _)| last.contains(&name.as_str()));
        for batch in begins.chunks(BATCH).chain([ends.as_slice()]) {
            let none = last.iter().map(|name| Compare::Version { key: key(name).into(), version: 0 }).collect();
            let puts = batch.iter().map(|(name, bytes)| Put::new(&key(name), bytes.clone())).collect();
            if let Outcome::Not(_) = self.etcd.write_if(none, puts, None).await? {
                break;
            }
        }
        Ok(())
    }

    /// As [`Shard::found_now`], for who has no runtime.
    pub fn found(&self, last: &'static [&str], files: Files) -> Result<(), Error> {
        let shard = self.clone();
        // However long it takes: each transaction has its own time.
        wait(&self.runtime, async move { shard.found_now(last, files).await })
    }

    /// Where they are.
    pub fn enrolment_prefix(&self) -> String {
        self.key("enrolment/")
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn within<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        wait(&self.runtime, async move { timeout(PATIENCE, work).await.unwrap_or(Err(Error::Silent(PATIENCE))) })
    }

    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime.0 {
            runtime.spawn(work);
        }
    }
}

impl Store for Shard {
    type Error = Error;

    fn load(&mut self) -> Result<Vec<Record>, Error> {
        let shard = self.clone();
        self.within(async move { shard.read().await })
    }

    fn commit(&mut self, batch: &[Record]) -> Result<(), Error> {
        let begun = Instant::now();
        let (shard, batch) = (self.clone(), batch.to_vec());
        let most = self.patience_now();
        let outcome =
            self.within(async move { timeout(most, shard.write(batch)).await.unwrap_or(Err(Error::Silent(most))) });
        self.commits.note(begun.elapsed(), outcome.is_ok());
        outcome
    }
}

/// Groups of a namespace's keys; 0: it has none.
fn groups_of(namespace: &Namespace) -> u16 {
    if namespace.keys == 0 { 0 } else { namespace.groups }
}

/// Who a switch is at the post: another one for every number, and for a copy of it at another address.
fn holder_at(number: u64, listen: SocketAddrV4) -> u64 {
    let address = u64::from(listen.ip().to_bits()) << 16 | u64::from(listen.port());
    mix(number ^ mix(address)).max(1)
}

/// The post's value while nobody serves.
const VACANT: &str = "0000000000000000";

/// Number and address of who has the post, by its value.
fn holder_of(value: &str) -> Option<(u64, Option<SocketAddrV4>)> {
    let mut words = value.split(' ');
    let holder = u64::from_str_radix(words.next()?, 16).ok()?;
    Some((holder, words.next().and_then(|address| address.parse().ok())))
}

/// 0: it was never written.
fn at_revision(key: &str, revision: u64) -> Compare {
    Compare::Mod { key: key.into(), mod_revision: revision }
}

/// Does `work` in the background and waits for it: in a runtime's own thread, nothing else may.
fn wait<T: Send + 'static>(background: &Background, work: impl Future<Output = T> + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    let runtime = background.0.as_ref().expect("it ends with its last user");
    runtime.spawn(async move {
        // Whoever asked waits.
        let _ = done.send(work.await);
    });
    result.recv().expect("the work ends, by its own patience")
}

#[cfg(test)]
mod tests;
