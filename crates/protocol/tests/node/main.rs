//! Nodes against the real core.

mod bench;
mod chaos;
mod mends;
mod recovery;
mod workflows;
