//! What a lock service is to a client of the measurement.

use crate::Error;
use std::time::Instant;
use wayside_client::Mode;

/// Why there is no lock.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Not in time.
    TimedOut,
    /// The service does not work.
    Failed(Error),
}

/// A lock that is held.
pub(crate) struct Grant<H> {
    pub(crate) held: H,
    /// A number that rises with every exclusive grant of the lock, where the service has one.
    pub(crate) token: Option<u64>,
}

/// One node's way to a lock service, for all of its clients: tasks of one thread.
pub(crate) trait LockService {
    /// What a client keeps of a lock, to give it back.
    type Held;

    /// Waits for a lock, until then at most. `client`: which of this node's, from 0.
    async fn acquire(&self, client: usize, lock: u64, mode: Mode, until: Instant)
    -> Result<Grant<Self::Held>, Refusal>;

    /// Whether the switch granted it, and no node, where the service has one.
    fn is_by_switch(&self, _: &Self::Held) -> bool {
        false
    }

    /// Gives a lock back; done when the service's own library says so.
    async fn release(&self, client: usize, held: Self::Held) -> Result<(), Error>;

    /// A client that has waited in vain, and has given back all that it had, makes sure that nothing is left of it.
    async fn forget(&self, _client: usize) -> Result<(), Error> {
        Ok(())
    }

    /// All of the node's clients have given back what they had: waits for what goes on in the background, since the
    /// node's thread ends then, and other nodes' clients still wait for these locks.
    async fn end(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl Refusal {
    /// What a library says.
    pub(crate) fn failed(error: impl ToString) -> Refusal {
        Refusal::Failed(error.to_string())
    }
}
