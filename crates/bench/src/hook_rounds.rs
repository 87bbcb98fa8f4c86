//! One way to the switch at the hook, signed or not, and everybody it is compared with, in turns.

use crate::generator::Generator;
use crate::knobs::TAKES_OVER;
use crate::redis::Line;
use crate::report::{How, Mode, Ratio, Row, bars};
use crate::samples::Samples;
use crate::ways::Contender;
use crate::wayside::{Contestant, Daemon};
use crate::{Error, Waiting};
use std::time::{Duration, Instant};
use wayside_client::probe::Probe;
use wayside_wire::limits::{MAX_ENTRIES, MAX_PACKET_BYTES};

/// Operations of each kind in a round, and of those that take longer.
const OPERATIONS: usize = 200;
const FEWER: usize = 20;
/// An acquire's packet.
const SHORT: usize = 64;
/// A packet with a value of 128 bytes, or with room for one.
const VALUE: usize = 224;
const WARM_UP_ROUNDS: u32 = 4;
/// Of so many rounds one has the others in it, which take ten times as long: the userspace switch and Redis.
const OTHERS: u32 = 4;

/// A switch in userspace, beside the one at the hook.
pub(crate) struct Userspace {
    daemon: Daemon,
    contestant: Contestant,
    acquires: Samples,
    cycles: Samples,
}

impl Userspace {
    pub(crate) fn new(daemon: Daemon, contestant: Contestant) -> Userspace {
        daemon.pause();
        let (acquires, cycles) = (Samples::new("userspace acquire"), Samples::new("userspace acquire, release"));
        Userspace { daemon, contestant, acquires, cycles }
    }

    fn round(&mut self) -> Result<(), Error> {
        self.daemon.resume();
        self.contestant.warm_up(FEWER)?;
        self.contestant.acquires(OPERATIONS / 4, &mut self.acquires)?;
        self.contestant.cycles(OPERATIONS / 4, &mut self.cycles)?;
        self.daemon.pause();
        Ok(())
    }
}

/// Everybody who takes part, and what they took.
pub(crate) struct Field<'r> {
    how: How,
    contestant: Contestant,
    probe: Probe,
    echoes: Samples,
    acquires: Samples,
    cycles: Samples,
    long_echoes: Samples,
    batches: Samples,
    value_echoes: Samples,
    writes: Samples,
    reads: Samples,
    /// Only where packets are not signed: the generator has no keys.
    generator: Option<Generator>,
    userspace: Option<Userspace>,
    redis: &'r mut [Contender],
}

impl<'r> Field<'r> {
    pub(crate) fn new(
        transport: &str,
        signed: bool,
        contestant: Contestant,
        probe: Probe,
        userspace: Option<Userspace>,
        redis: &'r mut [Contender],
    ) -> Field<'r> {
        redis.iter_mut().for_each(Contender::clear);
        Field {
            how: How {
                transport: transport.into(),
                cores: 1,
                waits: Waiting::Spinning.name().into(),
                signed: if signed { "on" } else { "off" }.into(),
            },
            contestant,
            probe,
            echoes: Samples::new("XDP echo, 64 bytes"),
            acquires: Samples::new("acquire"),
            cycles: Samples::new("acquire and release"),
            long_echoes: Samples::new("XDP echo, 1,056 bytes"),
            batches: Samples::new("32 locks and their guards"),
            value_echoes: Samples::new("XDP echo, 224 bytes"),
            writes: Samples::new("write of 128 bytes"),
            reads: Samples::new("read of 128 bytes"),
            generator: (!signed).then(Generator::new),
            userspace,
            redis,
        }
    }

    /// Rounds for about that long, after some that do not count.
    pub(crate) fn measure(&mut self, how_long: Duration, mut shown: impl FnMut()) -> Result<(), Error> {
        let began = Instant::now();
        let mut round = 0;
        while round < WARM_UP_ROUNDS || began.elapsed() < how_long / 20 || !self.is_by_its_transport() {
            if round >= WARM_UP_ROUNDS && began.elapsed() > TAKES_OVER.max(how_long / 20) {
                return Err(format!("AF_XDP did not take over: {}", self.contestant.session.transport()));
            }
            self.round(round)?;
            self.end_round(false);
            round += 1;
        }
        self.contestant.begin();
        // One round at least, with everybody in it.
        let mut counted = 0;
        while counted < OTHERS || began.elapsed() < how_long {
            self.round(round)?;
            self.end_round(true);
            (round, counted) = (round + 1, counted + 1);
            shown();
        }
        Ok(())
    }

    /// Whether contestant and echo go the way that was asked for, and not by UDP for want of it.
    fn is_by_its_transport(&self) -> bool {
        let ports = self.contestant.session.transport().ports;
        ports.iter().all(|port| port.queue.is_some()) && self.probe.report().is_none_or(|port| port.queue.is_some())
    }

    /// Everything once.
    fn round(&mut self, round: u32) -> Result<(), Error> {
        if round.is_multiple_of(2) {
            self.echo_round()?;
        }
        self.contestant.warm_up(FEWER)?;
        self.contestant.acquires(OPERATIONS, &mut self.acquires)?;
        self.contestant.cycles(OPERATIONS, &mut self.cycles)?;
        self.contestant.batches(FEWER, &mut self.batches)?;
        self.contestant.values(OPERATIONS / 2, &mut self.writes, &mut self.reads)?;
        if let Some(generator) = &mut self.generator {
            generator.acquire(&self.contestant)?;
        }
        if !round.is_multiple_of(2) {
            self.echo_round()?;
        }
        if !round.is_multiple_of(OTHERS) {
            return Ok(());
        }
        if let Some(userspace) = &mut self.userspace {
            userspace.round()?;
        }
        self.redis.iter_mut().try_for_each(Contender::round)
    }

    fn echo_round(&mut self) -> Result<(), Error> {
        self.probe.tend();
        for _ in 0..FEWER {
            self.probe.round_trip(SHORT);
        }
        let echoes = [
            (SHORT, OPERATIONS, &mut self.echoes),
            (VALUE, OPERATIONS / 2, &mut self.value_echoes),
            (MAX_PACKET_BYTES, FEWER, &mut self.long_echoes),
        ];
        for (bytes, count, samples) in echoes {
            for _ in 0..count {
                if !samples.time(|| self.probe.round_trip(bytes)) {
                    return Err("the echo does not answer".into());
                }
            }
        }
        match &mut self.generator {
            Some(generator) => generator.echo(&self.contestant.session, &self.probe),
            None => Ok(()),
        }
    }

    fn end_round(&mut self, counts: bool) {
        let Field { echoes, acquires, cycles, long_echoes, batches, generator, userspace, redis, .. } = self;
        let values = [&mut self.value_echoes, &mut self.writes, &mut self.reads];
        let generated = generator.iter_mut().flat_map(|generator| [&mut generator.grants, &mut generator.echoes]);
        let in_userspace = userspace.iter_mut().flat_map(|userspace| [&mut userspace.acquires, &mut userspace.cycles]);
        let own = [echoes, acquires, cycles, long_echoes, batches].into_iter();
        own.chain(values).chain(generated).chain(in_userspace).for_each(|samples| samples.end_round(counts));
        redis.iter_mut().for_each(|contender| contender.end_round(counts));
    }

    pub(crate) fn mode(&self, name: String) -> Mode {
        let Field { how, echoes, acquires, cycles, long_echoes, batches, value_echoes, writes, reads, .. } = self;
        // Whatever the switch does, the echo signs nothing.
        let unsigned = How { signed: "off".into(), ..how.clone() };
        let own =
            [echoes.row(&unsigned), acquires.row(how), cycles.row(how), long_echoes.row(&unsigned), batches.row(how)];
        let values = [value_echoes.row(&unsigned), writes.row(how), reads.row(how)];
        let mut rows: Vec<Row> = own.into_iter().chain(values).flatten().collect();
        let mut ratios = vec![
            acquires.ratio("acquire / echo", echoes).meant(bars::ACQUIRE),
            cycles.ratio("acquire and release / echo", echoes).meant(bars::CYCLE),
            writes.ratio("write of 128 bytes / echo of 224", value_echoes).meant(bars::VALUE),
            reads.ratio("read of 128 bytes / echo of 224", value_echoes).meant(bars::VALUE),
            long_echoes.ratio("rate of 32 locks and their guards / of long echoes", batches),
        ];
        let mut rates = Vec::new();
        if let Some(Generator { grants, echoes, .. }) = &self.generator {
            rows.extend([echoes, grants].into_iter().filter_map(|samples| samples.row(how)));
            ratios.push(echoes.ratio("rate of packets of 32 locks / of their echoes", grants).meant(bars::RATE));
            let a_second = |samples: &Samples| MAX_ENTRIES as f64 * 1e9 / samples.median() as f64;
            rates.push(("locks by packets of 32, each checked".into(), a_second(grants)));
            rates.push(("entries echoed in such packets, each checked".into(), a_second(echoes)));
        }
        if let Some(userspace) = &self.userspace {
            let how = How { transport: "UDP".into(), cores: 2, ..how.clone() };
            rows.extend([&userspace.acquires, &userspace.cycles].into_iter().filter_map(|samples| samples.row(&how)));
            ratios.push(userspace.acquires.ratio("acquire in userspace / at the hook", acquires));
            ratios.push(userspace.cycles.ratio("acquire and release in userspace / at the hook", cycles));
        }
        rows.extend(self.redis.iter().flat_map(Contender::rows));
        ratios.extend(self.against_redis());
        let rows = rows.into_iter().map(|row| row.against(self.echo_us())).collect();
        Mode { name, rows, ratios, rates, seen: Some(self.contestant.seen()) }
    }

    pub(crate) fn echo_us(&self) -> f64 {
        self.echoes.median() as f64 / 1_000.0
    }

    /// The bars are for what reaches another host, as Wayside does: TCP.
    fn against_redis(&self) -> Vec<Ratio> {
        let bar = if self.how.transport == "UDP" { bars::REDIS_BY_UDP } else { bars::REDIS_BY_AFXDP };
        let mut ratios = Vec::new();
        for redis in &self.redis[..] {
            let way = redis.way();
            let meant = |ratio: Ratio| if redis.line() == Line::Tcp { ratio.meant(bar) } else { ratio };
            ratios.push(meant(redis.locks.ratio(format!("{way} / acquire"), &self.acquires)));
            ratios.push(meant(redis.cycles.ratio(format!("{way} / acquire and release"), &self.cycles)));
            ratios.push(redis.batches.ratio(format!("{way} / 32 locks and guards"), &self.batches));
        }
        ratios
    }
}
