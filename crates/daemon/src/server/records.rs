//! Where the controller's records are: in this host's state directory, or in etcd, where standbys find them.

use super::etcd::Shard;
use super::metrics::Commits;
use super::store::StateDir;
use crate::config::{Division, Namespace};
use crate::failure::Failure;
use wayside_client::Endpoints;
use wayside_protocol::controller::{DIVISION_KEY, Division as Kept, Record, Store};

/// The own name of shards as records have them.
fn own_of(recorded: &str) -> Option<&str> {
    recorded.split_once(" of ").map(|(own, _)| own)
}

/// Clones are the same.
#[derive(Clone)]
pub enum Records {
    Here(StateDir),
    Shared(Box<Shard>),
}

impl Records {
    /// How commits go from now on.
    pub fn commits(&self) -> Commits {
        match self {
            Records::Here(state) => state.commits(),
            Records::Shared(shard) => shard.commits(),
        }
    }

    /// Takes the shards that locks are divided among for those of the records, which keep them as long as they live.
    ///
    /// # Errors
    /// If the records have others: nodes whose sessions go on would go on asking this shard for another one's names.
    pub fn divide(&mut self, division: Option<&Division>) -> Result<(), Failure> {
        let wanted = Division::recorded(division);
        let (known, whose) = match self {
            Records::Here(state) => (state.division(&wanted)?, "this state directory".to_owned()),
            Records::Shared(shard) => (shard.division(&wanted)?, "etcd".to_owned()),
        };
        if known == wanted {
            return Ok(());
        }
        let (own_known, own_wanted) = (own_of(&known), own_of(&wanted));
        // Who has which names the records' latest map says, whatever the configuration has to say of it: one that
        // lags behind by several changes keeps no shard from starting.
        let latest = own_known.and_then(|own| self.latest_maps(own));
        if let Some(latest) = latest.as_deref().filter(|_| own_known == own_wanted) {
            if !latest.contains(&wanted) {
                tracing::warn!(
                    "started as shard {wanted}, while the records have shard {}",
                    latest.join(", before that ")
                );
            }
            return Ok(());
        }
        let shown = |text: &str| if text.is_empty() { "no shards".to_owned() } else { format!("shard {text}") };
        let flags = |text: &str| {
            let flags = text.split_once(" of ").map(|(own, names)| format!("--shard {own} --shards {names}"));
            flags.unwrap_or_else(|| "neither --shard nor --shards".into())
        };
        let starts = latest.as_ref().and_then(|latest| latest.first()).unwrap_or(&known);
        Err(Failure::usage(format!(
            "the records in {whose} are those of {}, not of {}: {} starts it. Which shards locks are divided among \
             changes by `wayside shard add` and `drain`, or with other records (an empty --state-dir, or another --shard \
             in etcd) once all that use the locks are stopped",
            shown(starts),
            shown(&wanted),
            flags(starts)
        )))
    }

    /// The records' map and the one before as a configuration has them, if there has been another one than theirs.
    fn latest_maps(&mut self, own: &str) -> Option<Vec<String>> {
        let records = self.load().ok()?;
        let (_, record) = records.into_iter().find(|(key, _)| *key == DIVISION_KEY)?;
        let Kept { map, former, .. } = Kept::decode(&record)?;
        let text = |map: Vec<u8>| {
            let endpoints = Endpoints::parse(std::str::from_utf8(&map).ok()?).ok()?;
            Some(format!("{own} of {}", endpoints.shards()?.names().join(",")))
        };
        [map, former].into_iter().map(text).collect()
    }

    /// The number of each of `namespaces`, in their order.
    pub fn number(&mut self, namespaces: &[Namespace]) -> Result<Vec<u16>, Failure> {
        match self {
            Records::Here(state) => state.number(namespaces),
            Records::Shared(shard) => shard.number(namespaces),
        }
    }
}

impl Store for Records {
    type Error = String;

    fn load(&mut self) -> Result<Vec<Record>, String> {
        match self {
            Records::Here(state) => state.load().map_err(|error| error.to_string()),
            Records::Shared(shard) => shard.load().map_err(|error| error.to_string()),
        }
    }

    fn commit(&mut self, batch: &[Record]) -> Result<(), String> {
        match self {
            Records::Here(state) => state.commit(batch).map_err(|error| error.to_string()),
            Records::Shared(shard) => shard.commit(batch).map_err(|error| error.to_string()),
        }
    }
}
