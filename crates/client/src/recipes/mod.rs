//! Recipes: what people make of keys, leases and watches ([`crate::Store`]).
//!
//! * [`Semaphore`]: so many at a time.
//! * [`Group`]: who is there.
//! * [`Election`]: who leads. Made of a lock, which has a queue and a fencing token, and a key that says who.
//! * [`Barrier`]: nobody goes on before all are there.
//!
//! What one party has is a key on a lease: it ends with the session of whoever has it, and is the next one's then. All
//! parties must be given the same numbers.

mod barrier;
mod election;
mod group;
mod seats;
mod semaphore;

pub use barrier::Barrier;
pub use election::{Election, Leadership};
pub use group::{Group, Member, Membership};
pub use semaphore::{Permit, Semaphore};
