//! The measurement: short rounds of every contestant in turn.
//!
//! A round is some tens of milliseconds, so that what disturbs the machine (another guest, a timer, a clock that slows
//! down) disturbs both sides of a ratio. The order changes from round to round; who is not measured is off its core.

use crate::knobs::{self, CLIENT_CORE, LatencyHeld, Machine, SERVER_CORE};
use crate::report::Report;
use crate::{Error, Waiting, hook, userspace, ways};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The binary `wayside`, whose switch is measured.
    pub wayside: PathBuf,
    /// How long to measure all in all, about.
    pub how_long: Duration,
    /// Keep idle processors awake, where that is allowed.
    pub hold_latency: bool,
    /// Counts the allocations of the calling thread so far, if anything does.
    pub allocations: Option<fn() -> u64>,
}

/// Shares of the time: each of the userspace switch's modes, Redis' ways, all at the hook.
const USERSPACE: u32 = 10;
const REDIS: u32 = 8;
const HOOK: u32 = 62;

/// Measures.
///
/// # Errors
/// If the switch does not start, or somebody does not answer.
pub fn run(options: &Options) -> Result<Report, Error> {
    let machine = Machine::look();
    let pinned = knobs::pin(CLIENT_CORE);
    let held = if options.hold_latency { LatencyHeld::hold() } else { None };
    let mut notes = Vec::new();
    let mut progress = Progress::new(options.how_long);
    let no_hook = hook::missing();
    let mut modes_in_userspace = vec![(Waiting::Blocking, CLIENT_CORE)];
    if pinned {
        modes_in_userspace.extend([(Waiting::Blocking, SERVER_CORE), (Waiting::Spinning, SERVER_CORE)]);
    } else {
        notes.push("Two cores are left out: there is one, or binding to them is not allowed.".into());
    }
    let at_hook = if no_hook.is_some() { 0 } else { HOOK };
    let share = options.how_long / (modes_in_userspace.len() as u32 * USERSPACE + REDIS + at_hook);
    let mut modes = Vec::new();
    let mut redis = None;
    match ways::find(pinned, share * REDIS, &mut progress)? {
        Some((found, mode)) => {
            modes.push(mode);
            redis = Some(found);
        }
        None => notes.push("Redis is left out: redis-server is not installed.".into()),
    }
    let (of_kinds, of_lines) = match &mut redis {
        Some(redis) => (&mut redis.of_kinds[..], &mut redis.of_lines[..]),
        None => Default::default(),
    };
    for (waiting, core) in modes_in_userspace.into_iter().rev() {
        let cores = if core == CLIENT_CORE { 1 } else { 2 };
        let redis = of_kinds.iter_mut().find(|contender| contender.kind() == (cores, waiting));
        modes.push(userspace::measure(waiting, core, options, share * USERSPACE, redis, &mut progress)?);
    }
    match no_hook {
        Some(why) => notes.push(format!("XDP is left out: {why}.")),
        None => {
            if let Err(why) = hook::measure(options, share * HOOK, of_lines, &mut progress, &mut modes) {
                notes.push(format!("XDP is measured no further: {why}."));
            }
        }
    }
    notes.extend(NOTES.map(str::to_owned));
    let seconds = options.how_long.as_secs_f64();
    Ok(Report { machine, pinned, cpu_dma_latency_held: held.is_some(), seconds, modes, notes })
}

/// What to know before figures are believed.
const NOTES: [&str; 6] = [
    "Every block was measured in turns, in rounds of some milliseconds; ratios are of medians, and behind them where \
     those of four fifths of the rounds lie. Blocks are not compared with one another.",
    "For Wayside: on veth the hook runs within the client's own send, so that no process and no card is waited for, \
     neither by the switch nor by the echo, and a second core has nothing to do; Redis and the userspace switch need \
     another process to run. AF_XDP takes root and a queue. A release is sent and not waited for (its packet is, at \
     the hook); Redis' unlock is waited for.",
    "For Redis: its client is a template of bytes without a library around it; no persistence, one client, one \
     connection. Beside the userspace switch it has as many cores, a client that waits alike, and the faster of TCP and \
     Unix sockets; beside the hook it is there by TCP and by a Unix socket, which leads to no other host, each with the \
     cores and the waiting that are best for it in the first block. Its server always sleeps in epoll_wait. It gives no queue, no rising token and no notice of loss.",
    "Redis lock: SET name token NX PX 10000. Unlock: EVALSHA of a script that deletes the name if the token is still \
     there. 32 locks in a write: 32 such SETs, one write, 32 answers.",
    "32 locks and their guards: lock_many, from the call to the guards. Packets of 32 locks, checked: a generator \
     within the session, which writes packet and entries, sends, waits and checks every entry, and does the same with \
     the echo; each is the mean of 20 in a row. Without keys, so for unsigned packets alone.",
    "Signed: enrolled over mTLS after `wayside node token` and `join`; a tag of 64 bits on every packet, both ways. \
     The echo signs nothing.",
];

/// How far it is, on a terminal; nothing anywhere else.
pub(crate) struct Progress {
    began: Instant,
    how_long: Duration,
    shown: Option<u32>,
}

impl Progress {
    fn new(how_long: Duration) -> Progress {
        Progress { began: Instant::now(), how_long, shown: std::io::stderr().is_terminal().then_some(0) }
    }

    pub(crate) fn show(&mut self, what: &str) {
        let percent = (100.0 * self.began.elapsed().as_secs_f64() / self.how_long.as_secs_f64()).min(100.0) as u32;
        if self.shown.is_some_and(|shown| percent > shown) {
            self.shown = Some(percent);
            // Whoever closed it does not want to know.
            let _ = write!(std::io::stderr(), "\r{what:<40} {percent:>3} %");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r{:<48}\r", "");
        }
    }
}
