//! A session with each of several shards, and which of them has a lock.
//!
//! Invariants
//! * Connections are in the order of the shards. In this order several locks are taken, everywhere, so that two callers
//!   never wait for each other in a circle.
//! * There is no connection with shards that the session is not for: what they have is not asked for elsewhere.
//! * A session with a shard began under the fingerprint of all of them ([`Shards`]): whoever may grant a name is one.

use crate::Error;
use crate::name::Named;
use crate::session::Connection;
use std::sync::Arc;
use wayside_protocol::Shards;

pub(crate) struct Spread {
    shards: Shards,
    connections: Vec<Option<Arc<Connection>>>,
}

/// Names of one shard, and the connection with it.
pub(crate) type OfShard<'n> = (Arc<Connection>, Vec<Named<'n>>);

impl Spread {
    pub(crate) fn new(shards: Shards, connections: Vec<Option<Arc<Connection>>>) -> Spread {
        debug_assert_eq!(shards.names().len(), connections.len());
        Spread { shards, connections }
    }

    /// In the order of the shards, with each that the session is for.
    pub(crate) fn connections(&self) -> impl Iterator<Item = (&str, &Arc<Connection>)> {
        let named = self.shards.names().iter().zip(&self.connections);
        named.filter_map(|(name, connection)| Some((name.as_str(), connection.as_ref()?)))
    }

    /// With the shard that has the lock of this name.
    ///
    /// # Errors
    /// [`Error::InvalidName`]: the session is not for that shard.
    pub(crate) fn of(&self, name: u64) -> Result<&Arc<Connection>, Error> {
        let owner = self.shards.owner(name);
        let elsewhere = || {
            let shard = &self.shards.names()[owner];
            Error::InvalidName(format!("its lock is shard {shard}'s, which this session is not for"))
        };
        self.connections[owner].as_ref().ok_or_else(elsewhere)
    }

    /// Names by the shards that have their locks, in order; none of a shard that has none of them.
    ///
    /// # Errors
    /// As [`Spread::of`].
    pub(crate) fn divide<'n>(&self, mut names: Vec<Named<'n>>) -> Result<Vec<OfShard<'n>>, Error> {
        names.sort_by_cached_key(|name| self.shards.owner(name.id));
        let of_each = names.chunk_by(|one, next| self.shards.owner(one.id) == self.shards.owner(next.id));
        of_each.map(|names| Ok((self.of(names[0].id)?.clone(), names.to_vec()))).collect()
    }
}
