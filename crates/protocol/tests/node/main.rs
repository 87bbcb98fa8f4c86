//! Nodes against the real core.

mod adopting;
mod alone;
mod asking;
mod bench;
mod budgets;
mod censuses;
mod chaos;
mod deaths;
mod fetching;
mod freeing;
mod handing;
mod hybrid;
mod keeping;
mod keys;
mod limbo;
mod mends;
mod moving;
mod queues;
mod recovery;
mod sessions;
mod strangers;
mod strays;
mod suspended;
mod unheard;
mod wishes;
mod workflows;
