//! The switch in userspace on loopback, and everybody it is compared with, in turns: echoes that wait as it does, and
//! Redis.

use crate::compare::{Options, Progress};
use crate::echo::{Client, Loop, Server};
use crate::engines::{self, Ends};
use crate::knobs::{self, CLIENT_CORE};
use crate::report::{How, Mode, Ratio, Row, bars};
use crate::samples::Samples;
use crate::ways::Contender;
use crate::wayside::{Contestant, Daemon, IN_USERSPACE};
use crate::{Error, Waiting, handover, relayed};
use std::thread;
use std::time::{Duration, Instant};
use wayside_client::{Session, Transport};

/// Operations of each kind in a round, and packets of 32.
const OPERATIONS: usize = 200;
const BATCHES: usize = 5;
/// Operations before those, for a server that has just been resumed.
const WARM_UP: usize = 20;
/// Rounds that do not count, at least: sockets, buffers and caches are used for the first times.
const WARM_UP_ROUNDS: u32 = 3;

/// Everybody who takes part in a mode, and what they took.
struct Field<'r> {
    how: How,
    echoes: [Echo; 2],
    /// Before the switch, without which its session could not leave.
    contestant: Contestant,
    daemon: Daemon,
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

/// With the servers on this core.
pub(crate) fn measure(
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
    while !counted || began.elapsed() < how_long * 8 / 10 {
        field.round(round)?;
        field.end_round(true);
        (round, counted) = (round + 1, true);
        progress.show(&name);
    }
    field.daemon.resume();
    // Whatever the mode, both nodes sleep while they wait.
    let hand_overs = handover::run(&field.daemon.endpoint, how_long / 10)?;
    let hand_overs = hand_overs.row(&How { waits: Waiting::Blocking.name().into(), ..field.how.clone() });
    field.daemon.pause();
    let engines = engines(waiting, core, options, &field.how, how_long / 10);
    // Who relays could not work beside one that spins on its core.
    let relayed = match waiting {
        Waiting::Blocking => relayed::measure(&options.wayside, core, &field.how, how_long / 10),
        Waiting::Spinning => Ok(Default::default()),
    };
    field.daemon.resume();
    let ((rows, ratios), (relayed_rows, relayed_ratios)) = (engines?, relayed?);
    let mut mode = field.mode(name, hand_overs.into_iter().chain(rows).chain(relayed_rows));
    mode.ratios.extend(ratios.into_iter().chain(relayed_ratios));
    Ok(mode)
}

/// Queues in the switch beside fission.
fn engines(
    waiting: Waiting,
    core: usize,
    options: &Options,
    how: &How,
    how_long: Duration,
) -> Result<(Vec<Row>, Vec<Ratio>), Error> {
    let settings = engines::settings();
    let daemon = Daemon::start_with(&settings, &options.wayside, waiting, core, &IN_USERSPACE, |_| {})?;
    let connect = |_, namespace: &str, waiting: Waiting, core| {
        let connect = || {
            knobs::pin(core);
            let builder =
                Session::builder().keep(0).endpoint(&daemon.endpoint).namespace(namespace).wait(waiting.wait());
            builder.connect().map_err(|error| error.to_string())
        };
        // Whoever asks is bound elsewhere already.
        thread::scope(|scope| scope.spawn(connect).join()).unwrap_or_else(|_| Err("connecting panicked".into()))
    };
    // Whatever the mode, who hands over sleeps while it waits; each on a core of its own, as hosts are, where there are
    // two: on one core the next one is woken before whoever releases by way of another core's switch sleeps.
    let cores = [CLIENT_CORE, core];
    let ends = Ends { connect: &connect, enter: &|_| {}, cores, waiting, hand_overs: &[Waiting::Blocking] };
    engines::measure(&ends, how, how_long)
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

    fn mode(&self, name: String, others: impl Iterator<Item = Row>) -> Mode {
        let Field { how, acquires, cycles, batches, .. } = self;
        let [plain, batched] = &self.echoes;
        let own = [&plain.samples, &batched.samples, acquires, cycles, batches];
        let mut rows: Vec<Row> = own.into_iter().filter_map(|samples| samples.row(how)).collect();
        let echo = self.faster_echo();
        let mut ratios = vec![
            acquires.ratio("acquire / faster echo", echo).meant(bars::ACQUIRE_IN_USERSPACE),
            cycles.ratio("acquire and release / faster echo", echo),
        ];
        if let Some(redis) = &self.redis {
            rows.extend(redis.rows());
            let way = redis.way();
            ratios.push(redis.locks.ratio(format!("{way} / acquire"), acquires));
            ratios.push(redis.cycles.ratio(format!("{way} / acquire and release"), cycles));
            ratios.push(redis.batches.ratio(format!("{way} / 32 locks and guards"), batches));
        }
        rows.extend(others);
        let echo = echo.median() as f64 / 1_000.0;
        let rows = rows.into_iter().map(|row| row.against(echo)).collect();
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
