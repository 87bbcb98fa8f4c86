//! Keys: who reads and writes them, what is written down, and the judge.

pub mod asker;
pub mod check;
pub mod history;
