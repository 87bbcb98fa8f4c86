//! Sessions against a switch in this process. One program, for each would be linked with all of it; `cargo test -p
//! wayside-client --test sessions tasks` runs the tests of one file. Beside it are those that have a process to
//! themselves: for its environment (`aborts`, `lifeline`), its memory (`allocation`), its children (`fork`), or the
//! whole interface (`afxdp`).

mod bad_input;
mod bypass;
#[cfg(feature = "tokio")]
mod driver;
mod keeping;
mod locks;
mod scripted;
#[path = "../support/mod.rs"]
mod support;
mod tasks;
