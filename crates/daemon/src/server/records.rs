//! Where the controller's records are: in this host's state directory, or in etcd, where standbys find them.

use super::etcd::Shard;
use super::metrics::Commits;
use super::store::StateDir;
use crate::config::Namespace;
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
