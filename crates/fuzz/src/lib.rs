//! What strangers may send, as a fuzzer makes it. Each target takes any bytes, and panics where a rule is broken: by
//! the code's own assertions, or by those that stand beside the target.
//!
//! The same targets run in three ways: under libFuzzer, guided by coverage (`src/main.rs`, `scripts/fuzz.sh`); over the
//! committed corpus by `cargo test`; and on one file, by the command that the script names. The data plane's own target
//! is C, for the sanitizers: `native.c`.

mod bytes;
#[allow(dead_code, reason = "the daemon's: only what reads a file is of interest here")]
#[path = "../../daemon/src/config.rs"]
mod config;
mod controller;
#[allow(dead_code, reason = "as above")]
#[path = "../../daemon/src/failure.rs"]
mod failure;
pub mod faults;
mod hand_over;
#[allow(dead_code, reason = "as above")]
#[path = "../../daemon/src/server/hand_over_line.rs"]
mod hand_over_line;
mod lines;
mod node;
mod records;
mod settings;
mod wire;

/// Takes one input.
pub type Target = fn(&[u8]);

/// Every target of this crate, by the name of its corpus.
pub const TARGETS: [(&str, Target); 8] = [
    ("wire", wire::run),
    ("node", node::run),
    ("controller", controller::run),
    ("records", records::run),
    ("settings", settings::run),
    ("lines", lines::run),
    ("hand-over", hand_over::run),
    ("faults", faults::run),
];

/// The target of a name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}
