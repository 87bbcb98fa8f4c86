//! Wayside's measurements: acquires, whole cycles and packets of 32 locks against a bare echo of the same length and
//! against Redis where it is installed, by every kind of switch and socket; hand-overs between two nodes.
//!
//! * `compare.rs` is the heart: short rounds of everything in turn, so that whatever disturbs the machine disturbs all.
//!   It has the plan of a run.
//! * `userspace.rs`: the switch in userspace, its rounds.
//! * `hook.rs`: hosts for the switch at the kernel's XDP hook, by UDP and by AF_XDP, signed and not; `hook_rounds.rs`:
//!   who takes turns there.
//! * `echo.rs`, `wayside.rs`, `redis.rs`: one contestant each, with its server. `ways.rs`: by which way Redis is
//!   fastest. `generator.rs`: packets of 32 locks without a client around them. `handover.rs`: two nodes, one lock.
//! * `engines.rs`: queues in the switch beside lock fission.
//! * `knobs.rs`: what a figure depends on besides the code, set and written down. `report.rs`: what comes out, with
//!   what it is meant to be; `table.rs` shows it, `figures.rs` puts the gist of it into the README; `drawing.rs` has
//!   axes and curves.
//! * `contest/` is another measurement: lock services that people use today beside Wayside, with the lock requests of
//!   papers' benchmarks, which `workloads/` makes. It has the report, too.
//! * `recovery/` is a third one: how long locks are away when a switch or a node dies.
//! * `isolation/` is a fourth: what a tenant that floods the switch does to another one.
//! * `keys/` is a fifth: reading and writing keys beside etcd and ZooKeeper.
//! * `queues/` is a sixth: memory of the switch, priorities and budgets, as NetLock's figures 12 to 14.
//! * `phases.rs`: many clients on several threads, from their connections to their end, for `contest/` and `keys/`.
//! * `growth/` is a sixth: what time and memory depend on, without a kernel; `fit.rs`: by which power.
//! * `calibrated/` measures nothing: papers' figures by a model of what everything costs, in virtual time.
//! * `servers.rs`: other projects' servers as processes of this one; `cost.rs`: the processor time of processes.
//!   `kept.rs`: records in `bench/runs`.
//!
//! A figure without its peer in the same run means nothing: on virtual machines the same code takes 6 or 60 us,
//! depending on how the host wakes a processor.

mod calibrated;
mod compare;
mod contest;
mod cost;
mod drawing;
mod echo;
mod engines;
mod figures;
mod fit;
#[cfg(feature = "xdp")]
mod generator;
mod growth;
mod handover;
#[cfg_attr(not(feature = "xdp"), path = "no_hook.rs")]
mod hook;
#[cfg(feature = "xdp")]
mod hook_rounds;
#[cfg(feature = "xdp")]
mod isolation;
mod kept;
mod keys;
mod knobs;
mod phases;
mod ports;
mod queues;
mod recovery;
mod redis;
mod relayed;
mod report;
mod samples;
#[cfg(feature = "peers")]
mod servers;
mod table;
mod userspace;
mod ways;
mod wayside;
pub mod workloads;

pub use calibrated::{Calibrated, CalibratedOptions, Kept, Packets, put_calibrated, run_calibrated};
pub use compare::{Options, run};
pub use contest::{
    About, Contest, ContestOptions, Game, Played, Records, Run, Wishes, compare, page, put_contest, run_contest,
    service_names, workload_list,
};
pub use figures::{put_bars, put_figures};
pub use growth::{Growth, GrowthOptions, put_growth, run_growth};
#[cfg(feature = "xdp")]
pub use isolation::{Isolation, IsolationOptions, run_isolation};
pub use kept::{newest_headlines, newest_packets};
pub use keys::{Keys, KeysOptions, put_keys, run_keys};
pub use queues::{PARTS, Queues, QueuesOptions, put_queues, run_queues};
pub use recovery::{Fault, Recovery, RecoveryOptions, Timeline, Trial, hold, put_recovery, run_recovery};
pub use report::{Bar, How, Mode, Ratio, Report, Row, Seen, Spread};

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
            Waiting::Spinning => "spin",
            Waiting::Blocking => "sleep",
        }
    }
}
