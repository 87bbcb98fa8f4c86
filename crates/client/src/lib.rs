//! Wayside for applications: locks that travel.
//!
//! A [`Session`] is a process's standing with the switch; [`Session::lock`] asks for a lock, exclusive or shared,
//! blocking or as a future on any executor; a [`Guard`] holds it, knows its fencing token and until when it is safe,
//! and gives it back when dropped.
//!
//! ```no_run
//! use std::time::Duration;
//! use wayside_client::{Error, Session};
//!
//! let session = Session::builder().connect()?; // WAYSIDE_ENDPOINTS, or 127.0.0.1:7600
//! match session.lock("orders/42").wait(Duration::from_secs(5)).acquire() {
//!     Ok(guard) => println!("mine until {:?}, token {}", guard.deadline(), guard.token()),
//!     Err(Error::TimedOut) => println!("somebody else is at it"),
//!     Err(error) => return Err(error),
//! }
//! # Ok::<(), Error>(())
//! ```
//!
//! As a future:
//!
//! ```no_run
//! # async fn example() -> Result<(), wayside_client::Error> {
//! # let session = wayside_client::Session::builder().begin()?;
//! let mut guard = session.lock("orders/42").await?;
//! guard.downgrade_async().await?;
//! guard.release()
//! # }
//! ```
//!
//! Inside: `session.rs` and `lock.rs` are the calls; `engine.rs` is the protocol node with its sockets and the lock
//! around it; `background.rs` is the one thread of its own, `driver.rs` reads for tasks instead of it, with the feature
//! `tokio`; `xsk/` is AF_XDP, with the feature `afxdp`; `entry.rs` decides how a session begins, `secure.rs` is TLS,
//! with the feature `tls`. The protocol itself is `wayside-protocol`.

mod background;
mod book;
mod clock;
pub mod control;
mod core;
pub mod credentials;
pub mod daemon;
mod division;
mod driver;
mod ears;
mod endpoint;
mod engine;
pub mod enrolment;
mod entry;
mod errands;
mod error;
mod fetch;
mod fork;
mod guard;
mod lease;
mod leased;
mod leases;
mod lifeline;
mod links;
mod listing;
mod lock;
mod many;
mod name;
mod observe;
mod port;
pub mod probe;
mod questions;
pub mod recipes;
mod request;
#[cfg_attr(not(feature = "tls"), path = "insecure.rs")]
mod secure;
mod session;
mod snapshot;
mod socket;
mod spread;
mod store;
mod task;
mod transport;
mod verdict;
mod wait;
mod watch;
#[cfg_attr(not(feature = "afxdp"), path = "xsk/absent.rs")]
mod xsk;

pub use crate::core::Grants;
pub use daemon::SOCKET_VARIABLE;
#[cfg(feature = "tokio")]
pub use driver::Driver;
pub use endpoint::{ENDPOINTS_VARIABLE, Endpoint, Endpoints};
pub use entry::renew;
pub use error::Error;
pub use fetch::{Fetch, InvalidNodeId, NodeId};
pub use guard::Guard;
pub use leased::LeasedKey;
pub use lock::{Acquiring, LockRequest};
pub use many::{AcquiringMany, Guards, ManyRequest};
pub use name::Name;
pub use secure::join;
#[cfg(feature = "otel")]
pub use session::TRACE_VARIABLE;
pub use session::{Builder, KEEP_VARIABLE, NAMESPACE_VARIABLE, Session};
pub use store::{Entry, Held, Overwritten, Store, Written};
pub use task::{TASK_VARIABLE, Task, Working};
pub use transport::{HookMode, PortReport, TRANSPORT_VARIABLE, Transport, TransportReport};
pub use wait::Wait;
pub use watch::{Event, Watch};
pub use wayside_protocol::chain::{Condition, Value, Version};
pub use wayside_protocol::{Fetched, Mode, NotFetched, Path, SessionInfo, Shards, Token};
pub use wayside_wire::Engine;
