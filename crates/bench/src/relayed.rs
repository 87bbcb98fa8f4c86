//! What it costs to reach a switch by way of another one (docs/shards.md, "By way of another switch"): the same switch
//! on loopback, asked straight and through a relay, in turns. All processes sleep while they wait.

use crate::report::{How, Ratio, Row};
use crate::samples::Samples;
use crate::wayside::{Contestant, Daemon, IN_USERSPACE};
use crate::{Error, Waiting};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};
use wayside_client::Transport;

/// Of a turn.
const ACQUIRES: usize = 200;
const CYCLES: usize = 50;
const BATCHES: usize = 5;
const WARM_UP: usize = 20;
/// Turns that do not count.
const WARM_UP_TURNS: u32 = 3;

/// One of the two ways.
struct Way {
    contestant: Contestant,
    samples: [Samples; 3],
}

impl Way {
    fn new(endpoint: &str, names: [&'static str; 3]) -> Result<Way, Error> {
        let contestant = Contestant::connect(endpoint, Waiting::Blocking, Transport::Udp, None, None)?;
        Ok(Way { contestant, samples: names.map(Samples::new) })
    }

    fn turn(&mut self, counts: bool) -> Result<(), Error> {
        let [acquires, cycles, batches] = &mut self.samples;
        self.contestant.warm_up(WARM_UP)?;
        self.contestant.acquires(ACQUIRES, acquires)?;
        self.contestant.cycles(CYCLES, cycles)?;
        self.contestant.batches(BATCHES, batches)?;
        self.samples.iter_mut().for_each(|samples| samples.end_round(counts));
        Ok(())
    }
}

/// Measures for about as long as it is told, with both switches on this core.
pub(crate) fn measure(
    wayside: &Path,
    core: usize,
    how: &How,
    how_long: Duration,
) -> Result<(Vec<Row>, Vec<Ratio>), Error> {
    let start = |arguments: &[&str]| Daemon::start(wayside, Waiting::Blocking, core, arguments, |_| {});
    // A relay leads to the two ports behind a switch's as well.
    let (own, relay) = (three_ports(0)?, three_ports(1)?);
    let (listen, admin) = (format!("127.0.0.1:{own}"), format!("127.0.0.1:{}", own + 1));
    let far = start(&["--listen", &listen, "--admin-listen", &admin, "--mode", "userspace"])?;
    let leads = format!("{relay}={}", far.endpoint);
    let _near = start(&[&IN_USERSPACE[..], &["--relays", &leads]].concat())?;
    let straight = ["acquire, straight", "acquire and release, straight", "32 locks, straight"];
    let passed = ["acquire, relayed", "acquire and release, relayed", "32 locks, relayed"];
    // They go before their switches, without which they could not leave.
    let mut ways = [Way::new(&far.endpoint, straight)?, Way::new(&format!("127.0.0.1:{relay}"), passed)?];
    let (began, mut turn) = (Instant::now(), 0);
    while turn <= WARM_UP_TURNS || began.elapsed() < how_long {
        let first = turn as usize % 2;
        for which in [first, 1 - first] {
            ways[which].turn(turn >= WARM_UP_TURNS)?;
        }
        turn += 1;
    }
    let [straight, passed] = &ways;
    let rows = ways.iter().flat_map(|way| &way.samples).filter_map(|samples| samples.row(how)).collect();
    let names =
        ["acquire, relayed / straight", "acquire and release, relayed / straight", "32 locks, relayed / straight"];
    let both = passed.samples.iter().zip(&straight.samples);
    let ratios = names.iter().zip(both).map(|(name, (passed, straight))| passed.ratio(*name, straight)).collect();
    Ok((rows, ratios))
}

/// The first of three ports in a row that nobody uses, other ones for each `which`.
fn three_ports(which: u16) -> Result<u16, Error> {
    let free = |first: &u16| {
        (*first..first + 3)
            .all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok() && UdpSocket::bind(("127.0.0.1", port)).is_ok())
    };
    let from = 17_000 + 1_000 * which;
    (from..from + 999).step_by(3).find(free).ok_or_else(|| "no three ports in a row are free".into())
}
