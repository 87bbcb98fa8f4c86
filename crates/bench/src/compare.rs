//! The measurement: short rounds of every contestant in turn.
//!
//! A round is about 5 ms, so that what disturbs the machine (another guest, a timer, a clock that slows down) disturbs
//! both sides of a ratio. The order changes from round to round; who is not measured is off its core.

use crate::echo::{Client, Loop, Server};
use crate::knobs::{self, CLIENT_CORE, LatencyHeld, Machine, SERVER_CORE};
use crate::report::{How, Mode, Report, Row};
use crate::samples::Samples;
use crate::ways::{self, Contender};
use crate::wayside::{Contestant, Daemon};
use crate::{Error, Waiting, handover};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wayside_client::Transport;

/// Operations of each kind in a round, and packets of 32.
const OPERATIONS: usize = 200;
const BATCHES: usize = 5;
/// Operations before those, for a server that has just been resumed.
const WARM_UP: usize = 20;
/// Rounds that do not count, at least: sockets, buffers and caches are used for the first times.
const WARM_UP_ROUNDS: u32 = 3;

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
    let no_hook = why_no_hook();
    let mut modes_in_userspace = vec![(Waiting::Blocking, CLIENT_CORE)];
    if pinned {
        modes_in_userspace.extend([(Waiting::Blocking, SERVER_CORE), (Waiting::Spinning, SERVER_CORE)]);
    } else {
        notes.push("Two cores are left out: there is one, or binding to them is not allowed.".into());
    }
    let hook = if no_hook.is_some() { 0 } else { HOOK };
    let share = options.how_long / (modes_in_userspace.len() as u32 * USERSPACE + REDIS + hook);
    let mut modes = Vec::new();
    let mut redis = None;
    match ways::find(pinned, share * REDIS, &mut progress)? {
        Some((found, mode)) => {
            modes.push(mode);
            redis = Some(found);
        }
        None => notes.push("Redis is left out: redis-server is not installed.".into()),
    }
    let contenders = redis.as_mut().map_or(&mut [][..], |redis| &mut redis.best[..]);
    for (waiting, core) in modes_in_userspace.into_iter().rev() {
        let cores = if core == CLIENT_CORE { 1 } else { 2 };
        let redis = contenders.iter_mut().find(|contender| contender.kind() == (cores, waiting));
        modes.push(measure(waiting, core, options, share * USERSPACE, redis, &mut progress)?);
    }
    let at_hook = match no_hook {
        Some(why) => Err(why),
        None => at_hook(options, share * HOOK, contenders, &mut progress),
    };
    match at_hook {
        Ok(at_hook) => modes.extend(at_hook),
        Err(why) => notes.push(format!("XDP is left out: {why}.")),
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
     neither by the switch nor by the echo; Redis and the userspace switch need another process to run. AF_XDP takes \
     root and a queue. A release is sent and not waited for (its packet is, at the hook); Redis' unlock is waited for.",
    "For Redis: its client is a template of bytes without a library around it; no persistence, one client, one \
     connection; the faster of TCP and Unix sockets, as the first block has it. Beside the userspace switch it has as \
     many cores and a client that waits alike; beside the hook it is there in three ways, and ratios are with the \
     fastest. Its server always sleeps in epoll_wait. It gives no queue, no rising token and no notice of loss.",
    "Redis lock: SET name token NX PX 10000. Unlock: EVALSHA of a script that deletes the name if the token is still \
     there. 32 locks in a write: 32 such SETs, one write, 32 answers.",
    "32 locks and their guards: lock_many, from the call to the guards. Packets of 32 locks, checked: a generator within \
     the session, which writes packet and entries, sends, waits and checks every entry, and does the same with the \
     echo; each is the mean of 20 in a row. Without keys, so for unsigned packets alone.",
    "Signed: enrolled over mTLS after `wayside node token` and `join`; a tag of 64 bits on every packet, both ways. The \
     echo signs nothing.",
];

#[cfg(feature = "xdp")]
fn why_no_hook() -> Option<String> {
    wayside_hosts::missing()
}

#[cfg(not(feature = "xdp"))]
fn why_no_hook() -> Option<String> {
    Some("this was built without the feature `xdp`, which needs clang and libelf".into())
}

#[cfg(feature = "xdp")]
fn at_hook(
    options: &Options,
    how_long: Duration,
    redis: &mut [Contender],
    progress: &mut Progress,
) -> Result<Vec<Mode>, Error> {
    crate::hook::measure(options, how_long, redis, progress)
}

#[cfg(not(feature = "xdp"))]
fn at_hook(_: &Options, _: Duration, _: &mut [Contender], _: &mut Progress) -> Result<Vec<Mode>, Error> {
    Ok(Vec::new())
}

/// Everybody who takes part in a mode, and what they took.
struct Field<'r> {
    how: How,
    echoes: [Echo; 2],
    daemon: Daemon,
    contestant: Contestant,
    acquires: Samples,
    cycles: Samples,
    batches: Samples,
    redis: Option<&'r mut Contender>,
}

struct Echo {
    server: Server,
    client: Client,
    samples: Samples,
}

/// The switch in userspace, on this core.
fn measure(
    waiting: Waiting,
    core: usize,
    options: &Options,
    how_long: Duration,
    redis: Option<&mut Contender>,
    progress: &mut Progress,
) -> Result<Mode, Error> {
    let began = Instant::now();
    let mut field = Field::new(waiting, core, options, redis)?;
    let cores = if field.how.cores == 1 { "one core" } else { "two cores" };
    let name =
        format!("Userspace switch, {}, {cores}", if waiting == Waiting::Spinning { "spinning" } else { "sleeping" });
    let mut round = 0;
    while round < WARM_UP_ROUNDS || began.elapsed() < how_long / 20 {
        field.round(round)?;
        field.end_round(false);
        round += 1;
    }
    field.contestant.begin();
    let mut counted = false;
    // One round at least, however short the time and slow the machine.
    while !counted || began.elapsed() < how_long * 9 / 10 {
        field.round(round)?;
        field.end_round(true);
        (round, counted) = (round + 1, true);
        progress.show(&name);
    }
    field.daemon.resume();
    // Whatever the mode, both nodes sleep while they wait.
    let hand_overs = handover::run(&field.daemon.endpoint, how_long / 10)?;
    let hand_overs = hand_overs.row(&How { waits: Waiting::Blocking.name().into(), ..field.how.clone() });
    Ok(field.mode(name, hand_overs))
}

impl<'r> Field<'r> {
    fn new(
        waiting: Waiting,
        core: usize,
        options: &Options,
        mut redis: Option<&'r mut Contender>,
    ) -> Result<Field<'r>, Error> {
        let daemon = Daemon::in_userspace(&options.wayside, waiting, core, |_| {})?;
        let contestant = Contestant::connect(&daemon.endpoint, waiting, Transport::Udp, None, options.allocations)?;
        daemon.pause();
        let plain = Echo::new("UDP echo, recvfrom and sendto", Loop::Plain, waiting, core)?;
        let batched = Echo::new("UDP echo, recvmmsg and sendmmsg", Loop::Batched, waiting, core)?;
        if let Some(contender) = &mut redis {
            contender.clear();
        }
        Ok(Field {
            how: How {
                transport: "UDP".into(),
                cores: if core == CLIENT_CORE { 1 } else { 2 },
                waits: waiting.name().into(),
                signed: "off".into(),
            },
            echoes: [plain, batched],
            daemon,
            contestant,
            acquires: Samples::new("acquire"),
            cycles: Samples::new("acquire and release"),
            batches: Samples::new("32 locks and their guards"),
            redis,
        })
    }

    /// Everything once.
    fn round(&mut self, round: u32) -> Result<(), Error> {
        let echo_first = round.is_multiple_of(2);
        if echo_first {
            self.echo_round()?;
        }
        self.wayside_round()?;
        if !echo_first {
            self.echo_round()?;
        }
        match &mut self.redis {
            Some(contender) => contender.round(),
            None => Ok(()),
        }
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
        self.contestant.batches(BATCHES, &mut self.batches)?;
        self.daemon.pause();
        Ok(())
    }

    fn end_round(&mut self, counts: bool) {
        let [plain, batched] = &mut self.echoes;
        for samples in
            [&mut plain.samples, &mut batched.samples, &mut self.acquires, &mut self.cycles, &mut self.batches]
        {
            samples.end_round(counts);
        }
        if let Some(contender) = &mut self.redis {
            contender.end_round(counts);
        }
    }

    fn faster_echo(&self) -> &Samples {
        let [plain, batched] = &self.echoes;
        if plain.samples.median() <= batched.samples.median() { &plain.samples } else { &batched.samples }
    }

    fn mode(&self, name: String, hand_overs: Option<Row>) -> Mode {
        let Field { how, acquires, cycles, batches, .. } = self;
        let [plain, batched] = &self.echoes;
        let own = [&plain.samples, &batched.samples, acquires, cycles, batches];
        let mut rows: Vec<Row> = own.into_iter().filter_map(|samples| samples.row(how)).collect();
        let echo = self.faster_echo();
        let mut ratios = vec![
            acquires.ratio("acquire / faster echo", echo),
            cycles.ratio("acquire and release / faster echo", echo),
        ];
        if let Some(redis) = &self.redis {
            rows.extend(redis.rows());
            let way = redis.way();
            ratios.push(redis.locks.ratio(format!("{way} / acquire"), acquires));
            ratios.push(redis.cycles.ratio(format!("{way} / acquire and release"), cycles));
            ratios.push(redis.batches.ratio(format!("{way} / 32 locks and guards"), batches));
        }
        rows.extend(hand_overs);
        let echo = echo.median() as f64 / 1_000.0;
        let rows = rows.into_iter().map(|row| Row { to_echo: Some(row.median_us / echo), ..row }).collect();
        Mode { name, rows, ratios, rates: Vec::new(), seen: Some(self.contestant.seen()) }
    }
}

impl Echo {
    fn new(name: &'static str, kind: Loop, waiting: Waiting, core: usize) -> Result<Echo, Error> {
        let server = Server::start(kind, waiting, core)?;
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
