//! What chains over several switches need of etcd: who the switches are, the secret that they sign with to each other,
//! and how the shard's records change, for those that do not write them.
//!
//! ```text
//!   /wayside/SHARD/switch/NUMBER     "HOLDER ADDRESS SHARE": 4 decimal digits; a switch that has been here once
//!   /wayside/SHARD/fabric            the secret, 32 bytes
//!   /wayside/SHARD/rotation/HANDLE   "INCARNATION EPOCH ROTATION": 4 hexadecimal digits; a session's keys now
//! ```

use super::super::gateway::{Compare, Entry, Keys, Outcome, Put};
use super::{BATCH, CHAINS, Error, Latest, PAGE, Shard, holder_of};
use crate::failure::Failure;
use std::net::SocketAddrV4;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wayside_protocol::chain::MOST_SWITCHES;
use wayside_protocol::controller::HAND_OVER_LAYOUT;
use wayside_protocol::controller::Record;
use wayside_protocol::seal::{Period, Secret};

/// Between two questions whether all was told; and before etcd is asked again to tell.
const LOOK: Duration = Duration::from_millis(100);
/// What is known to have changed is told by then, or the connection is none.
pub(super) const SILENCE: Duration = Duration::from_secs(1);

/// To tell of a session's new keys: a minute of them.
const ATTEMPTS: u32 = 600;
/// Of a switch's share: each unit is a ticket in the draw of every group.
pub const MOST_SHARE: u32 = 100;

/// A switch, as etcd has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// From 0 on, for ever; [`wayside_protocol::chain::switch_handle`] has its handle.
    pub number: u16,
    pub address: SocketAddrV4,
    /// Its share of the groups; 0: it is to have none.
    pub share: u32,
}

/// What has changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub records: Vec<Record>,
    pub rotations: Vec<(u16, Period)>,
    pub switches: Vec<Listed>,
    /// Nothing is missing that was written before the post was renewed last.
    pub is_all: bool,
}

impl Shard {
    /// The same, for the records of the controller of chains. One of its commits is one transaction: when that takes
    /// longer than the post's lease, the post is another's, and the thread has better things to do than to wait.
    pub fn chains(&self) -> Shard {
        let latest = Latest { revision: 0, process: self.latest().process.clone(), commits: 0 };
        let patience = self.lease.min(self.patience);
        Shard { shelf: CHAINS, latest: Arc::new(Mutex::new(latest)), patience, ..self.clone() }
    }

    /// This switch's number among the shard's: the one that it has, or the next that is free.
    ///
    /// # Errors
    /// If etcd does not answer, or no number is free.
    pub fn enlist(&self) -> Result<u16, Failure> {
        let shard = self.clone();
        let number = self.within(async move {
            loop {
                let found = shard.etcd.range(&Keys::beginning_with(&shard.key("switch/"))).await?;
                let own = shard.own.split(' ').next().unwrap_or_default();
                let is_own = |entry: &&Entry| entry.value.starts_with(own.as_bytes());
                if let Some(entry) = found.kvs.iter().find(is_own) {
                    return Ok(Some(shard.listed(entry)?.number));
                }
                let taken: Vec<u16> =
                    found.kvs.iter().filter_map(|entry| shard.listed(entry).ok()).map(|listed| listed.number).collect();
                let Some(number) = (0..MOST_SWITCHES).find(|number| !taken.contains(number)) else { return Ok(None) };
                let key = shard.key(&format!("switch/{number:04}"));
                let none = Compare::Version { key: key.clone().into(), version: 0 };
                let put = Put::new(&key, format!("{} 1", shard.own));
                if let Outcome::Done(_) = shard.etcd.write_if(vec![none], vec![put], None).await? {
                    return Ok(Some(number));
                }
            }
        });
        let number = number.map_err(|error| Failure::unavailable(format!("can't list this switch: {error}")))?;
        number.ok_or_else(|| {
            Failure::unavailable(format!("{MOST_SWITCHES} switches have been of this shard: no number is free"))
        })
    }

    /// What the switches sign with to each other; `made` becomes it where there is none.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub fn fabric_secret(&self, made: [u8; 32]) -> Result<Secret, Failure> {
        let shard = self.clone();
        let key = self.key("fabric");
        let secret = self.within(async move {
            let none = Compare::Version { key: key.clone().into(), version: 0 };
            let outcome = shard.etcd.write_if(vec![none], vec![Put::new(&key, made)], Some(Keys::one(&key))).await?;
            let Outcome::Not(found) = outcome else { return Ok(Secret(made)) };
            let value = found.kvs.into_iter().next().and_then(|entry| entry.value.try_into().ok());
            value.map(Secret).ok_or(Error::Damaged(key))
        });
        secret.map_err(|error| Failure::unavailable(format!("can't share a secret with the other switches: {error}")))
    }

    /// Where this switch takes what another one hands over, for the others to know. `number`: its own.
    pub fn note_successor(&self, number: u16, address: SocketAddrV4) {
        let shard = self.clone();
        let (key, value) = (self.key(&format!("successor/{number:04}")), format!("{address} {HAND_OVER_LAYOUT}"));
        self.spawn(async move {
            while let Err(error) = shard.etcd.write(&key, Some(value.clone().into())).await {
                tracing::debug!(%error, "the other switches do not know where this one takes over");
                tokio::time::sleep(LOOK).await;
            }
        });
    }

    /// Where other switches than this one, `number`, take what it would hand over: whether they still do, they say.
    pub async fn successors(&self, number: u16) -> Result<Vec<SocketAddrV4>, Error> {
        let mut found = self.etcd.range(&Keys::beginning_with(&self.key("successor/"))).await?;
        let own = self.key(&format!("successor/{number:04}")).into_bytes();
        found.kvs.retain(|entry| entry.key != own);
        let known = |entry: &Entry| {
            let text = String::from_utf8_lossy(&entry.value).into_owned();
            let (address, layout) = text.split_once(' ')?;
            address.parse().ok().filter(|_| layout == HAND_OVER_LAYOUT.to_string())
        };
        Ok(found.kvs.iter().filter_map(known).collect())
    }

    /// A session's keys have come to this rotation, for the other switches to know. Those of all sessions may do so at
    /// once: one task tells them, many at a time, the latest of each.
    pub fn note_rotation(&self, handle: u16, period: Period) {
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = untold.is_empty();
        untold.insert(handle, period);
        if is_first {
            self.spawn(self.clone().tell_rotations());
        }
    }

    /// What is told stays among the untold until it has been: whoever adds to these while there are some starts
    /// nothing.
    async fn tell_rotations(self) {
        let mut failures = 0;
        loop {
            let batch: Vec<(u16, Period)> = {
                let untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
                untold.iter().take(BATCH).map(|(handle, period)| (*handle, *period)).collect()
            };
            let put = |&(handle, period): &(u16, Period)| {
                let Period { incarnation, epoch, rotation } = period;
                Put::new(&self.key(&format!("rotation/{handle:04x}")), format!("{incarnation} {epoch} {rotation}"))
            };
            let told = self.etcd.write_if(Vec::new(), batch.iter().map(put).collect(), None).await;
            failures = if told.is_ok() { 0 } else { failures + 1 };
            if let Err(error) = &told {
                tracing::debug!(%error, "sessions' new keys were not told");
                if failures == ATTEMPTS {
                    tracing::warn!(sessions = batch.len(), "the other switches do not know new keys of sessions");
                }
                tokio::time::sleep(LOOK).await;
            }
            if told.is_ok() || failures >= ATTEMPTS {
                let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
                for (handle, period) in batch {
                    // Later ones stay.
                    if untold.get(&handle) == Some(&period) {
                        untold.remove(&handle);
                    }
                }
                if untold.is_empty() {
                    return;
                }
            }
        }
    }

    /// A switch's share of the groups from now on.
    pub async fn set_share(&self, listed: &Listed, share: u32) -> Result<(), Error> {
        let key = self.key(&format!("switch/{:04}", listed.number));
        let found = self.etcd.range(&Keys::one(&key)).await?;
        let Some(entry) = found.kvs.first() else { return Err(Error::Damaged(key)) };
        let text = String::from_utf8_lossy(&entry.value).into_owned();
        let (who, _) = text.rsplit_once(' ').ok_or_else(|| Error::Damaged(key.clone()))?;
        Ok(self.etcd.write(&key, Some(format!("{who} {share}").into())).await?)
    }

    /// Tells what changes, from the beginning on. For ever.
    pub async fn watch(self, told: impl Fn(Changes) + Send + Sync + 'static) {
        let mut since = 0;
        loop {
            if let Err(error) = self.follow(&mut since, &told).await {
                tracing::debug!(%error, "what changes at the other switches is not told, and will be read");
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Reads what has changed since a revision, and tells from then on what etcd tells: it reads all that there is for
    /// the one, and nothing for the other.
    ///
    /// A connection that tells nothing may be none. Whoever has the post renews it four times a lease, which is told
    /// like all else: who asks for the post, and has been told of its latest renewal, has been told of all before.
    async fn follow(&self, since: &mut u64, told: &(impl Fn(Changes) + Sync)) -> Result<(), Error> {
        let (changes, revision) = self.changes(*since).await?;
        self.commits.note_read();
        *since = revision;
        told(changes);
        let mut watching = self.etcd.watch(&Keys::beginning_with(&self.prefix), revision + 1).await?;
        // A revision that is still to be told of, and since when.
        let mut awaited: Option<(u64, Instant)> = None;
        let mut look = Box::pin(self.renewed());
        loop {
            let mut changes = Changes::default();
            tokio::select! {
                written = watching.next() => {
                    for entry in written? {
                        // All that one transaction has written comes at once.
                        *since = entry.mod_revision.max(*since);
                        self.sort(&entry, &mut changes);
                    }
                    changes.is_all = awaited.take_if(|(revision, _)| *revision <= *since).is_some();
                }
                renewed = &mut look => {
                    look.set(self.renewed());
                    match renewed {
                        Ok(revision) if revision <= *since => changes.is_all = true,
                        Ok(revision) => {
                            awaited.get_or_insert((revision, Instant::now()));
                        }
                        Err(error) => tracing::debug!(%error, "whether all was told is not known"),
                    }
                    if awaited.is_some_and(|(_, begun)| begun.elapsed() > SILENCE) {
                        return Err(Error::Silent(SILENCE));
                    }
                }
            }
            if changes != Changes::default() {
                told(changes);
            }
        }
    }

    /// At which revision the post was written last, a while from now.
    async fn renewed(&self) -> Result<u64, Error> {
        tokio::time::sleep(LOOK).await;
        let found = self.etcd.range(&Keys::one(&self.key("post"))).await?;
        Ok(found.kvs.first().map_or(0, |entry| entry.mod_revision))
    }

    /// What was written after a revision, and the one until which nothing is missing, nor anything there that came
    /// later: who is told of that goes on from here.
    async fn changes(&self, since: u64) -> Result<(Changes, u64), Error> {
        let all = Keys::beginning_with(&self.prefix);
        let mut page = Keys { limit: PAGE, min_mod_revision: since + 1, ..all };
        let mut changes = Changes { is_all: true, ..Changes::default() };
        loop {
            let found = self.etcd.range(&page).await?;
            if page.revision == 0 {
                page.revision = found.header.revision;
            }
            for entry in found.kvs {
                self.sort(&entry, &mut changes);
                page.key = entry.key;
                page.key.push(0);
            }
            if !found.more {
                return Ok((changes, page.revision));
            }
        }
    }

    fn sort(&self, entry: &Entry, changes: &mut Changes) {
        if let Err(error) = self.try_sort(entry, changes) {
            tracing::warn!(%error, "passed over");
        }
    }

    fn try_sort(&self, entry: &Entry, changes: &mut Changes) -> Result<(), Error> {
        let damaged = || Error::Damaged(String::from_utf8_lossy(&entry.key).into_owned());
        let name = std::str::from_utf8(&entry.key).ok().and_then(|key| key.strip_prefix(&*self.prefix));
        let Some((kind, number)) = name.and_then(|name| name.split_once('/')) else { return Ok(()) };
        match kind {
            "record" => {
                let number = u32::from_str_radix(number, 16).map_err(|_| damaged())?;
                changes.records.push((number, entry.value.clone()));
            }
            "rotation" => {
                let handle = u16::from_str_radix(number, 16).map_err(|_| damaged())?;
                let text = String::from_utf8_lossy(&entry.value);
                let mut words = text.split(' ').map(str::parse::<u64>);
                let (Some(Ok(incarnation)), Some(Ok(epoch)), Some(Ok(rotation))) =
                    (words.next(), words.next(), words.next())
                else {
                    return Err(damaged());
                };
                changes
                    .rotations
                    .push((handle, Period { incarnation, epoch: epoch as u32, rotation: rotation as u32 }));
            }
            "switch" => changes.switches.push(self.listed(entry)?),
            _ => {}
        }
        Ok(())
    }

    fn listed(&self, entry: &Entry) -> Result<Listed, Error> {
        let key = String::from_utf8_lossy(&entry.key).into_owned();
        let value = String::from_utf8_lossy(&entry.value);
        let number = key.rsplit('/').next().and_then(|digits| digits.parse().ok());
        let (who, share) = value.rsplit_once(' ').unzip();
        let address = who.and_then(holder_of).and_then(|(_, address)| address);
        match (number, address, share.and_then(|share| share.parse().ok())) {
            (Some(number), Some(address), Some(share)) if number < MOST_SWITCHES && share <= MOST_SHARE => {
                Ok(Listed { number, address, share })
            }
            _ => Err(Error::Damaged(key)),
        }
    }
}
