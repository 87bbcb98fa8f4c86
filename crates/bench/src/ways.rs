//! Redis at its best: every way in which a client can reach it, and the fastest of them.
//!
//! A client that spins on the server's own core would keep it from working; there it sleeps.

use crate::compare::Progress;
use crate::knobs::{CLIENT_CORE, SERVER_CORE};
use crate::redis::{Client, Line, Server};
use crate::report::{How, Mode, Row};
use crate::samples::Samples;
use crate::{Error, Waiting};
use std::time::{Duration, Instant};
use wayside_wire::limits::MAX_ENTRIES;

/// Locks in a round one by one, and by 32 in a write.
const OPERATIONS: usize = 25;
const BATCHES: usize = 4;
/// Before those, for a server that has not worked for a while.
const WARM_UP: usize = 3;

/// A client of Redis, and what it took.
pub(crate) struct Contender {
    client: Client,
    pub(crate) locks: Samples,
    pub(crate) cycles: Samples,
    pub(crate) batches: Samples,
}

impl Contender {
    fn new(server: &Server, line: Line, waiting: Waiting) -> Result<Contender, Error> {
        Ok(Contender {
            client: Client::connect(server, line, waiting)?,
            locks: Samples::new("Redis lock"),
            cycles: Samples::new("Redis lock and unlock"),
            batches: Samples::new("Redis 32 locks in a write"),
        })
    }

    pub(crate) fn round(&mut self) -> Result<(), Error> {
        for _ in 0..WARM_UP {
            self.client.lock(1)?;
            self.client.unlock(1)?;
        }
        for _ in 0..OPERATIONS {
            let began = Instant::now();
            self.client.lock(1)?;
            self.locks.record(began);
            self.client.unlock(1)?;
            self.cycles.record(began);
        }
        for _ in 0..BATCHES {
            self.batches.time(|| self.client.lock(MAX_ENTRIES))?;
            self.client.unlock(MAX_ENTRIES)?;
        }
        Ok(())
    }

    pub(crate) fn end_round(&mut self, counts: bool) {
        self.all().for_each(|samples| samples.end_round(counts));
    }

    pub(crate) fn clear(&mut self) {
        self.all().for_each(Samples::clear);
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> {
        [&self.locks, &self.cycles, &self.batches].into_iter().filter_map(|samples| samples.row(self.client.how()))
    }

    /// On how many cores, and how the client waits.
    pub(crate) fn kind(&self) -> (u32, Waiting) {
        (self.client.how().cores, self.client.waiting())
    }

    /// TCP, as from any host, or a Unix socket, which leads no further than its own.
    pub(crate) fn line(&self) -> Line {
        self.client.line()
    }

    /// For people.
    pub(crate) fn way(&self) -> String {
        let How { transport, cores, waits, .. } = self.client.how();
        format!("Redis ({transport}, {cores} {}, {waits})", if *cores == 1 { "core" } else { "cores" })
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Samples> {
        [&mut self.locks, &mut self.cycles, &mut self.batches].into_iter()
    }
}

/// The fastest clients, and the servers that they need.
pub(crate) struct Redis {
    /// The faster of TCP and Unix sockets, for one core, and where there are two, for a client there that sleeps and
    /// one that spins.
    pub(crate) of_kinds: Vec<Contender>,
    /// By TCP and by a Unix socket, with the cores and the waiting that are best for each.
    pub(crate) of_lines: Vec<Contender>,
    _servers: Vec<Server>,
}

/// Measures every way and keeps the best. None if Redis is not installed.
pub(crate) fn find(
    two_cores: bool,
    how_long: Duration,
    progress: &mut Progress,
) -> Result<Option<(Redis, Mode)>, Error> {
    let cores: &[usize] = if two_cores { &[CLIENT_CORE, SERVER_CORE] } else { &[CLIENT_CORE] };
    let servers = cores.iter().map(|&core| Server::start(core)).collect::<Result<Option<Vec<_>>, _>>()?;
    let Some(servers) = servers else { return Ok(None) };
    let mut contenders = Vec::new();
    for (server, core) in servers.iter().zip(cores) {
        for line in [Line::Tcp, Line::Unix] {
            contenders.push(Contender::new(server, line, Waiting::Blocking)?);
            if *core == SERVER_CORE {
                contenders.push(Contender::new(server, line, Waiting::Spinning)?);
            }
        }
    }
    let began = Instant::now();
    let mut rounds = 0;
    while rounds < 2 || began.elapsed() < how_long {
        let counts = rounds > 0 && began.elapsed() > how_long / 10;
        let order = if rounds % 2 == 0 { 0 } else { contenders.len() / 2 };
        contenders.rotate_left(order);
        contenders.iter_mut().try_for_each(Contender::round)?;
        contenders.rotate_right(order);
        contenders.iter_mut().for_each(|contender| contender.end_round(counts));
        rounds += 1;
        progress.show("Redis");
    }
    let rows = contenders.iter().flat_map(Contender::rows).collect();
    let mut of_lines = Vec::new();
    for line in [Line::Tcp, Line::Unix] {
        let these = contenders.iter().filter(|contender| contender.line() == line);
        if let Some(best) = these.min_by_key(|contender| contender.cycles.median()) {
            let (cores, waiting) = best.kind();
            // The servers are in the order of their cores' number.
            of_lines.push(Contender::new(&servers[cores as usize - 1], line, waiting)?);
        }
    }
    let mut of_kinds = Vec::new();
    for kind in [(1, Waiting::Blocking), (2, Waiting::Blocking), (2, Waiting::Spinning)] {
        let these = contenders.extract_if(.., |contender| contender.kind() == kind);
        of_kinds.extend(these.min_by_key(|contender| contender.cycles.median()));
    }
    let mode = Mode { name: "Redis, every way".into(), rows, ratios: Vec::new(), rates: Vec::new(), seen: None };
    Ok(Some((Redis { of_kinds, of_lines, _servers: servers }, mode)))
}
