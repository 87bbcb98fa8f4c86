//! Where the controller's records are: in this host's state directory, or in etcd, where standbys find them.

use super::etcd::Shard;
use super::metrics::Commits;
use super::store::StateDir;
use crate::config::{Division, Namespace};
use crate::failure::Failure;
use wayside_client::Endpoints;
use wayside_protocol::controller::{DIVISION_KEY, Division as Kept, Record, Store};

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
        if known == wanted || self.later_division(&known).is_some_and(|later| later == wanted) {
            return Ok(());
        }
        let shown = |text: &str| if text.is_empty() { "no shards".to_owned() } else { format!("shard {text}") };
        Err(Failure::usage(format!(
            "the records in {whose} are those of {}, not of {}: which shards locks are divided among changes by `wayside \
             shard add` and `drain`, or with other records (an empty --state-dir, or another --shard in etcd) once all that \
             use the locks are stopped",
            shown(&known),
            shown(&wanted)
        )))
    }

    /// Those of the records' map, if there has been another one since they began.
    fn later_division(&mut self, known: &str) -> Option<String> {
        let (own, _) = known.split_once(" of ")?;
        let records = self.load().ok()?;
        let (_, record) = records.into_iter().find(|(key, _)| *key == DIVISION_KEY)?;
        let map = String::from_utf8(Kept::decode(&record)?.map).ok()?;
        let endpoints = Endpoints::parse(&map).ok()?;
        Some(format!("{own} of {}", endpoints.shards()?.names().join(",")))
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
