//! Where the controller's records are: in this host's state directory, or in etcd, where standbys find them.

use super::etcd::Shard;
use super::metrics::Commits;
use super::store::StateDir;
use crate::config::{Division, Namespace};
use crate::failure::Failure;
use wayside_protocol::controller::{Record, Store};

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
        let shown = |text: &str| if text.is_empty() { "no shards".to_owned() } else { format!("shard {text}") };
        Err(Failure::usage(format!(
            "the records in {whose} are those of {}, not of {}: which shards locks are divided among can't change while \
             locks are held; stop all that use them, then begin with other records (an empty --state-dir, or another \
             --shard in etcd)",
            shown(&known),
            shown(&wanted)
        )))
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
