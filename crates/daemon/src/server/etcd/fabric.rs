//! What chains over several switches need of etcd: who the switches are, the secret that they sign with to each other,
//! and how the shard's records change, for those that do not write them.
//!
//! ```text
//!   /wayside/SHARD/switch/NUMBER     "HOLDER ADDRESS SHARE": 4 decimal digits; a switch that has been here once
//!   /wayside/SHARD/fabric            the secret, 32 bytes
//!   /wayside/SHARD/rotation/HANDLE   "INCARNATION EPOCH ROTATION": 4 hexadecimal digits; a session's keys now
//! ```

use super::super::gateway::{Compare, Entry, Keys, Outcome, Put};
use super::{CHAINS, Error, Latest, PAGE, Shard, holder_of};
use crate::failure::Failure;
use std::net::SocketAddrV4;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wayside_protocol::chain::MOST_SWITCHES;
use wayside_protocol::controller::Record;
use wayside_protocol::seal::{Period, Secret};

/// Between two looks at what has changed: so long a session that has just begun may find a switch that does not know it
/// yet, and one that is over one that still does.
const LOOK: Duration = Duration::from_millis(100);

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

/// What has changed since the last look.
#[derive(Debug, Default)]
pub struct Changes {
    pub records: Vec<Record>,
    pub rotations: Vec<(u16, Period)>,
    pub switches: Vec<Listed>,
}

impl Shard {
    /// The same, for the records of the controller of chains.
    pub fn chains(&self) -> Shard {
        let latest = Latest { revision: 0, process: self.latest().process.clone(), commits: 0 };
        Shard { shelf: CHAINS, latest: Arc::new(Mutex::new(latest)), ..self.clone() }
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

    /// A session's keys have come to this rotation, for the other switches to know.
    pub fn note_rotation(&self, handle: u16, period: Period) {
        let shard = self.clone();
        let key = self.key(&format!("rotation/{handle:04x}"));
        let value = format!("{} {} {}", period.incarnation, period.epoch, period.rotation);
        self.spawn(async move {
            for _ in 0..ATTEMPTS {
                match shard.etcd.write(&key, Some(value.clone().into())).await {
                    Ok(()) => return,
                    Err(error) => tracing::debug!(%error, handle, "a session's new keys were not told"),
                }
                tokio::time::sleep(LOOK).await;
            }
            tracing::warn!(handle, "the other switches do not know a session's new keys");
        });
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
    pub async fn watch(self, told: impl Fn(Changes) + Send + 'static) {
        let mut since = 0;
        loop {
            match self.changes(since).await {
                Ok((changes, revision)) => {
                    since = revision;
                    told(changes);
                }
                Err(error) => tracing::debug!(%error, "what has changed at the other switches is not known"),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// What was written after a revision, and the one until which nothing is missing.
    async fn changes(&self, since: u64) -> Result<(Changes, u64), Error> {
        let all = Keys::beginning_with(&self.prefix);
        let mut page = Keys { limit: PAGE, min_mod_revision: since + 1, ..all };
        let mut changes = Changes::default();
        let mut revision = None;
        loop {
            let found = self.etcd.range(&page).await?;
            let until = *revision.get_or_insert(found.header.revision);
            for entry in found.kvs {
                if let Err(error) = self.sort(&entry, &mut changes) {
                    tracing::warn!(%error, "passed over");
                }
                page.key = entry.key;
                page.key.push(0);
            }
            if !found.more {
                return Ok((changes, until));
            }
        }
    }

    fn sort(&self, entry: &Entry, changes: &mut Changes) -> Result<(), Error> {
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
