//! The measurement: short rounds of every contestant in turn.
//!
//! A round is about 5 ms, so that what disturbs the machine (another guest, a timer, a clock that slows down) disturbs
//! both sides of a ratio. The order changes from round to round; who is not measured is off its core.

use crate::echo::{Client, Loop, Server};
use crate::knobs::{self, CLIENT_CORE, LatencyHeld, Machine};
use crate::redis::Redis;
use crate::report::{Mode, Report, Row};
use crate::samples::Samples;
use crate::wayside::{Contestant, Daemon};
use crate::{Error, Waiting, handover};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wayside_client::Transport;

/// Operations of each kind in a round.
const OPERATIONS: usize = 200;
/// Operations before those, for a server that has just been resumed.
const WARM_UP: usize = 20;
/// Rounds that do not count: sockets, buffers and caches are used for the first times.
const WARM_UP_ROUNDS: u32 = 10;

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The binary `wayside`, whose switch is measured.
    pub wayside: PathBuf,
    /// How long to measure all in all, about.
    pub how_long: Duration,
    /// Keep idle processors awake, where that is allowed.
    pub hold_latency: bool,
    /// Counts the allocations of this process so far, if anything does.
    pub allocations: Option<fn() -> u64>,
}

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
    // With the hook's two ways, four parts.
    let each = options.how_long / if cfg!(feature = "xdp") { 4 } else { 2 };
    let spinning = if pinned {
        Some(measure(Waiting::Spinning, options, each, None, &mut progress)?)
    } else {
        notes.push("Spinning is left out: client and server need a core each.".into());
        None
    };
    let redis = Redis::start()?;
    if redis.is_none() {
        notes.push("Redis is left out: redis-server is not installed.".into());
    }
    let blocking = measure(Waiting::Blocking, options, each, redis, &mut progress)?;
    let mut modes: Vec<Mode> = spinning.into_iter().chain([blocking]).collect();
    match at_hook(options, each * 2, &mut progress) {
        Ok(at_hook) => modes.extend(at_hook),
        Err(why) => notes.push(format!("XDP is left out: {why}.")),
    }
    Ok(Report { machine, pinned, cpu_dma_latency_held: held.is_some(), modes, notes })
}

#[cfg(feature = "xdp")]
fn at_hook(options: &Options, how_long: Duration, progress: &mut Progress) -> Result<Vec<Mode>, Error> {
    crate::hook::measure(options, how_long, progress)
}

#[cfg(not(feature = "xdp"))]
fn at_hook(_: &Options, _: Duration, _: &mut Progress) -> Result<Vec<Mode>, Error> {
    Err("this was built without the feature `xdp`".into())
}

/// Everybody who takes part in a mode, and what they took.
struct Field {
    echoes: [Echo; 2],
    daemon: Daemon,
    contestant: Contestant,
    acquires: Samples,
    cycles: Samples,
    redis: Option<Redis>,
    redis_acquires: Samples,
    redis_cycles: Samples,
}

struct Echo {
    server: Server,
    client: Client,
    samples: Samples,
}

fn measure(
    waiting: Waiting,
    options: &Options,
    how_long: Duration,
    redis: Option<Redis>,
    progress: &mut Progress,
) -> Result<Mode, Error> {
    let mut field = Field::new(waiting, options, redis)?;
    for round in 0..WARM_UP_ROUNDS {
        field.round(round)?;
        field.end_round(false);
    }
    let before = field.contestant.session.grants();
    let mut allocations = 0;
    let end = Instant::now() + how_long * 9 / 10;
    let mut round = 0;
    // One round at least, however short the time and slow the machine.
    while round == 0 || Instant::now() < end {
        allocations += field.round_counting(round, options.allocations)?;
        field.end_round(true);
        round += 1;
        progress.show(waiting.name());
    }
    let grants = field.contestant.session.grants();
    let by_switch = grants.switch - before.switch;
    let all = by_switch + grants.agent - before.agent + grants.local - before.local;
    field.daemon.resume();
    let handovers = handover::run(&field.daemon.endpoint, how_long / 10)?;
    let echo = field.faster_echo();
    Ok(Mode {
        name: format!("userspace, {}", waiting.name()),
        rows: field.rows(&handovers),
        ratios: vec![("acquire / echo".into(), field.acquires.ratio(echo))],
        granted_by_switch: by_switch as f64 / all as f64,
        allocations: options.allocations.map(|_| allocations),
    })
}

impl Field {
    fn new(waiting: Waiting, options: &Options, redis: Option<Redis>) -> Result<Field, Error> {
        let daemon = Daemon::start(&options.wayside, waiting)?;
        let contestant = Contestant::connect(&daemon.endpoint, waiting, Transport::Udp)?;
        daemon.pause();
        let plain = Echo::new("UDP echo, recvfrom and sendto", Loop::Plain, waiting)?;
        let batched = Echo::new("UDP echo, recvmmsg and sendmmsg", Loop::Batched, waiting)?;
        Ok(Field {
            echoes: [plain, batched],
            daemon,
            contestant,
            acquires: Samples::new("acquire"),
            cycles: Samples::new("acquire and release"),
            redis,
            redis_acquires: Samples::new("Redis SET NX PX"),
            redis_cycles: Samples::new("Redis SET NX PX and DEL"),
        })
    }

    fn round(&mut self, round: u32) -> Result<(), Error> {
        self.round_counting(round, None).map(|_| ())
    }

    /// Everything once. Says how many allocations Wayside's part made.
    fn round_counting(&mut self, round: u32, allocations: Option<fn() -> u64>) -> Result<u64, Error> {
        let echo_first = round.is_multiple_of(2);
        if echo_first {
            self.echo_round()?;
        }
        let before = allocations.map_or(0, |count| count());
        self.wayside_round()?;
        let made = allocations.map_or(0, |count| count()) - before;
        if !echo_first {
            self.echo_round()?;
        }
        if let Some(redis) = &mut self.redis {
            redis.cycles(OPERATIONS / 4, &mut self.redis_acquires, &mut self.redis_cycles)?;
        }
        Ok(made)
    }

    fn echo_round(&mut self) -> Result<(), Error> {
        for echo in &mut self.echoes {
            echo.server.resume();
            for _ in 0..WARM_UP {
                echo.client.round_trip()?;
            }
            for _ in 0..OPERATIONS {
                echo.samples.time(|| echo.client.round_trip())?;
            }
            echo.server.pause();
        }
        Ok(())
    }

    fn wayside_round(&mut self) -> Result<(), Error> {
        self.daemon.resume();
        self.contestant.warm_up(WARM_UP)?;
        self.contestant.acquires(OPERATIONS, &mut self.acquires)?;
        self.contestant.cycles(OPERATIONS / 4, &mut self.cycles)?;
        self.daemon.pause();
        Ok(())
    }

    fn end_round(&mut self, counts: bool) {
        let [plain, batched] = &mut self.echoes;
        for samples in [
            &mut plain.samples,
            &mut batched.samples,
            &mut self.acquires,
            &mut self.cycles,
            &mut self.redis_acquires,
            &mut self.redis_cycles,
        ] {
            samples.end_round(counts);
        }
    }

    fn faster_echo(&self) -> &Samples {
        let [plain, batched] = &self.echoes;
        if plain.samples.median() <= batched.samples.median() { &plain.samples } else { &batched.samples }
    }

    fn rows(&self, handovers: &Samples) -> Vec<Row> {
        let [plain, batched] = &self.echoes;
        let all = [
            &plain.samples,
            &batched.samples,
            &self.acquires,
            &self.cycles,
            handovers,
            &self.redis_acquires,
            &self.redis_cycles,
        ];
        let echo = self.faster_echo().median() as f64 / 1_000.0;
        let rows = all.into_iter().filter_map(Samples::row);
        rows.map(|row| Row { to_echo: Some(row.median_us / echo), ..row }).collect()
    }
}

impl Echo {
    fn new(name: &'static str, kind: Loop, waiting: Waiting) -> Result<Echo, Error> {
        let server = Server::start(kind, waiting)?;
        let client = Client::connect(server.address, waiting)?;
        Ok(Echo { server, client, samples: Samples::new(name) })
    }
}

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
            let _ = write!(std::io::stderr(), "\r{what:<32} {percent:>3} %");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r{:<40}\r", "");
        }
    }
}
