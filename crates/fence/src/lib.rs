//! The resource's side of fencing: what is written under a lock refuses whoever had that lock before.
//!
//! A holder that is paused beyond its lease may wake up and write, although somebody else has the lock by then. No lock
//! service can stop it; what it writes to can, for the next holder's token is higher. `docs/fencing.md` tells the
//! story.
//!
//! The rule, the same for [SQL](sql), [Redis](redis) and [files](mod@file): a resource knows the highest token that it
//! was ever shown. A token below is refused; one that is equal or higher is taken, and is the highest from then on.
//! Check, raise and write are one atomic step. Equal tokens are of one tenure: of a holder that writes more than once,
//! or of shared holders among themselves.
//!
//! This crate depends on no database's client: it has the statements, the script, and files in full.

pub mod file;
pub mod redis;
pub mod sql;
mod token;

pub use file::{FileFence, Pass};
pub use token::{InvalidToken, Token};
