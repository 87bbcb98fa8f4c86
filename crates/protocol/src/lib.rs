//! Wayside's protocol machines, without a clock, a socket or a random source: time, packets and seeds are handed in,
//! packets and events are taken out. The same code runs in the client, in the daemon and in the simulator.
//!
//! * [`Node`]: what one process is to the cluster: its session, its lock requests and its agents.
//! * [`controller`]: enrolment, leases, recovery.
//! * [`chain`]: the key-value store.
//! * [`redivision`]: how shards are added and drained while locks are held.
//! * `queue`: the second lock engine, of which [`Node`] has both ends.
//! * [`memory`]: what the controller sees of a switch.
//! * [`seal`]: whose packet it is: keys and tags.
//!
//! `docs/protocol.md` is the contract: every handler is named after its message there.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod agency;
mod agent;
mod books;
pub mod chain;
pub mod controller;
mod domain;
mod fifo;
mod joins;
mod kept;
mod line;
mod lock;
pub mod map;
pub mod memory;
mod mutant;
mod names;
mod node;
mod outbox;
mod queue;
pub mod redivision;
pub mod seal;
mod session;
mod shards;
mod timers;
mod types;

pub use domain::Domain;
pub use line::{LONGEST_PATIENCE, OVERTAKEN_MOST, Priority};
pub use lock::{Acquire, AcquireError, Path};
pub use mutant::Mutant;
pub use names::Names;
pub use node::{Booked, Event, Hold, Node, NodeConfig, Wait};
pub use outbox::{Ends, Outbox, Transmit};
pub use queue::{FETCH_BYTES_MOST, Fetch, Fetched, NotFetched, Third};
pub use session::SessionInfo;
pub use shards::{ShardMap, Shards, ShardsError};
pub use types::{Handle, Mode, Port, RequestId, Stamp, Time, Token};
