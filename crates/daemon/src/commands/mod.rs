//! The commands, one module each.

pub mod doctor;
pub mod lock;
mod query;
pub mod show;
pub mod switch;
mod text;
