//! What can go wrong, each kind apart: a caller treats a lock that is busy otherwise than a switch that is gone.

use std::time::Duration;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The hold, or the wait for it, ended with the session, with its deadline, or by force. The lock may be
    /// somebody else's already: stop what it protects. The session enrols anew by itself; try again if you like.
    #[error("lost: the session or the hold's own time ended, and the lock may be held by another now")]
    Lost,
    /// A try met a lock that is held, or awaited, by others.
    #[error("busy: the lock is held by node {holder}")]
    Busy {
        /// Handle of the node that keeps the lock's books, usually that of the holder; 0 where it is not known.
        holder: u16,
    },
    /// The wait's deadline passed. The request is taken back; if a grant was on its way, it is returned.
    #[error("timed out")]
    TimedOut,
    /// The wait's deadline passed, and the switch had refused the request meanwhile, since the namespace had asked for
    /// more than its budget admits. As [`Error::TimedOut`] otherwise: who asks again adds to what is too much.
    #[error(
        "over budget: the wait is over, and the namespace has asked for more than it may: `rate` and `burst` in the \
         switch's configuration say how much"
    )]
    OverBudget,
    /// The lock was awaited in a circle, which would have gone on for ever; this wait was chosen to end it. Give back
    /// what the task holds, and begin anew. Only a switch with `deadlocks = "abort-youngest"` does this.
    #[error("deadlock: {cycle}; this wait was given up to end it")]
    Deadlock {
        /// Who waited for whom.
        cycle: String,
    },
    /// No switch answered in time.
    #[error(
        "unavailable: no Wayside switch answered at {endpoint} within {waited:?}{detail}; start one there with \
         `wayside dev` or `wayside switch`, or set WAYSIDE_ENDPOINTS to where one runs"
    )]
    Unavailable {
        /// Where it was sought.
        endpoint: String,
        /// For how long.
        waited: Duration,
        /// What the network said, if it said anything.
        detail: String,
    },
    /// The switch answered, and refused the session.
    #[error("refused by the switch: {0}")]
    Refused(String),
    /// The switch takes enrolled hosts only, and this host is none, or not any more; or this process can't read its
    /// credentials. The session goes on asking, so that it begins when the host is let in.
    #[error("not joined: {0}")]
    NotJoined(String),
    /// The name is no lock's name.
    #[error("invalid name: {0}")]
    InvalidName(String),
    /// There is no such priority.
    #[error("invalid priority: {0}; it is 0 to 7, and the higher is served earlier")]
    InvalidPriority(u8),
    /// The value is longer than switches keep. Put it where large data belong, and its address and version here.
    #[error("too large: the value has {bytes} bytes, and a key keeps at most {limit}")]
    TooLarge {
        /// Bytes of the value.
        bytes: usize,
        /// Bytes that there may be.
        limit: usize,
    },
    /// What a server is asked, or answers, is longer than a packet takes beside a grant. Ask for where large data are.
    #[error("too large: what is asked or answered with a grant has {bytes} bytes, and there is room for {limit}")]
    FetchTooLarge {
        /// Bytes of it.
        bytes: usize,
        /// Bytes that there may be.
        limit: usize,
    },
    /// A switch has no room for another key. Keys without a value make room after a while.
    #[error(
        "full: a switch of the key's chain has no room for another key; `keys` in its configuration says for how many"
    )]
    StoreFull,
    /// The switches of the key's chain became others while the write was under way: nobody knows whether it had its
    /// effect, and it will have none later. Read the key, or write it again, with a condition if it matters.
    #[error("unsure: the key's switches became others meanwhile; it may have been written, or not")]
    Unsure,
    /// Another name has this key: so the hash of two names is the same in 128 bits, and only one of them can be used.
    #[error("collision: another name has the same key of 128 bits; use another name")]
    Collision,
    /// The switch keeps no keys for this namespace.
    #[error(
        "no store: the switch keeps no keys for this namespace; `keys` in its configuration says how many it is to keep"
    )]
    NoStore,
    /// A switch has as many watches as it keeps: 256 groups of a session, 4,096 in all. A watch of a prefix takes one
    /// for each group of the namespace.
    #[error("too many watches: a switch keeps 256 groups watched for a session, and 4096 in all")]
    TooManyWatches,
    /// The endpoint is no host and port, or leads to no address.
    #[error("invalid endpoint: {0}")]
    InvalidEndpoint(String),
    /// AF_XDP was asked for and cannot be had, or what was asked for is no transport.
    #[error("transport: {0}")]
    Transport(String),
    /// The namespace's name cannot be one.
    #[error("invalid namespace: {0}")]
    InvalidNamespace(String),
    /// So many locks cannot be kept.
    #[error("invalid number of locks to keep: {0:?}; write 0 to 1000000")]
    InvalidKeep(String),
    /// This session holds and awaits as much as it may: a million locks. Or, after days of a million a second, it has
    /// made 2^40 requests: begin another one.
    #[error("too many requests: this session has a million under way")]
    TooMany,
    /// The operating system refused a socket or a thread.
    #[error("{0}")]
    System(String),
    /// No shard has the lock at the moment. Never told to callers, who wait.
    #[doc(hidden)]
    #[error("its lock is no shard's at the moment")]
    Elsewhere,
    /// The session was closed by this process, or is that of the process which has forked this one: begin another.
    #[error("closed: this session was closed, or is that of the process which has forked this one")]
    Closed,
}
