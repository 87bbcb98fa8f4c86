//! The chain client against a map and switches of the test's own making: which packets it sends, when and where to, and
//! what it tells of the answers (docs/chain.md).

mod bench;
mod lanes;
mod maps;
mod memory;
mod moving;
mod requests;
mod sessions;
mod watches;
mod words;
