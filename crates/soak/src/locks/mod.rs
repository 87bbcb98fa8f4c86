//! Locks: who asks for them, what is written down, and the judge.

pub mod asker;
pub mod check;
pub mod history;
