//! Wayside's measurements: an acquire through the userspace switch against a bare UDP echo of the same length, on the
//! same cores, in one run; whole cycles, hand-overs between two nodes, and Redis where it is installed.
//!
//! * `compare.rs` is the heart: short rounds of everything in turn, so that whatever disturbs the machine disturbs all.
//! * `hook.rs`: the same at the kernel's XDP hook, by UDP and by AF_XDP, with an echo at the hook as its peer.
//! * `echo.rs`, `wayside.rs`, `redis.rs`: one contestant each, with its server. `handover.rs`: two nodes, one lock.
//! * `knobs.rs`: what a figure depends on besides the code, set and written down.
//!
//! A figure without its peer in the same run means nothing: on virtual machines the same code takes 6 or 60 us,
//! depending on how the host wakes a processor.

mod compare;
mod echo;
mod handover;
#[cfg(feature = "xdp")]
mod hook;
mod knobs;
mod redis;
mod report;
mod samples;
mod wayside;

pub use compare::{Options, run};
pub use report::{Mode, Ratio, Report, Row, Spread};

use wayside_client::Wait;

/// What went wrong, for people.
pub type Error = String;

/// How a thread, or a server, waits for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    Spinning,
    Blocking,
}

impl Waiting {
    pub(crate) fn wait(self) -> Wait {
        match self {
            Waiting::Spinning => Wait::Spin,
            Waiting::Blocking => Wait::Block,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Waiting::Spinning => "spinning",
            Waiting::Blocking => "blocking",
        }
    }
}
