//! Nodes against the real core.

mod bench;
mod budgets;
mod censuses;
mod chaos;
mod keeping;
mod mends;
mod queues;
mod recovery;
mod strangers;
mod workflows;
