//! Nodes against the real core.

mod bench;
mod chaos;
mod workflows;
