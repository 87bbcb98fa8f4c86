//! The commands, one module each.

pub mod bench;
pub mod chain;
pub mod doctor;
pub mod kv;
pub mod lock;
pub mod node;
pub mod plan;
mod query;
pub mod recipes;
pub mod shard;
pub mod show;
mod signals;
pub mod sim;
pub mod switch;
pub mod text;
