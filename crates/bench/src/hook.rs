//! The same at the kernel's XDP hook: a switch, two clients and an echo on hosts of their own, in network namespaces.
//!
//! ```text
//!   client                 switch                  client of hand-overs
//!   wayside0 ===veth=== port0, port1 ===veth=== wayside1
//!   echo0    ===veth=== echo (an XDP program that sends back what it gets)
//!   peer0    ===============veth================ peer1 (ping-pongs)
//! ```
//!
//! On veth the switch's program runs within the client's own send: client and switch share core 0, in Wayside's rounds
//! and in the echo's alike. Nothing waits for another core but hand-overs.

use crate::compare::Progress;
use crate::knobs::{self, CLIENT_CORE, SERVER_CORE};
use crate::report::{Mode, Row};
use crate::samples::Samples;
use crate::wayside::{Contestant, Daemon};
use crate::{Error, Options, Waiting, handover};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use wayside_client::probe::Probe;
use wayside_client::{Session, Transport};
use wayside_hosts::Host;

const ECHO: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/echo.bpf.o"));

const SWITCH: &str = "10.78.0.1:7600";
const ADMIN: &str = "10.78.0.1:7601";
const ECHO_ADDRESS: &str = "10.79.0.1:7600";

/// Operations of each kind in a round, and of those that take longer.
const OPERATIONS: usize = 200;
const FEWER: usize = 20;
const WARM_UP_ROUNDS: u32 = 20;
/// An acquire's packet, and one of 32 entries.
const SHORT: usize = 64;
const LONG: usize = 32 + 32 * 32;

struct Hosts {
    switch: Host,
    client: Host,
    other: Host,
    echo: Host,
}

impl Hosts {
    fn new() -> std::io::Result<Hosts> {
        let hosts = Hosts { switch: Host::new()?, client: Host::new()?, other: Host::new()?, echo: Host::new()? };
        hosts.client.join("wayside0", &hosts.switch, "port0", 1)?;
        hosts.other.join("wayside1", &hosts.switch, "port1", 1)?;
        hosts.client.join("echo0", &hosts.echo, "echo", 1)?;
        hosts.client.join("peer0", &hosts.other, "peer1", 1)?;
        hosts.switch.ip("addr add 10.78.0.1/24 dev port0\naddr add 10.78.1.1/24 dev port1")?;
        hosts.client.ip(
            "addr add 10.78.0.2/24 dev wayside0\naddr add 10.79.0.2/24 dev echo0\naddr add 10.77.0.1/24 dev peer0",
        )?;
        hosts.other.ip("addr add 10.78.1.2/24 dev wayside1\naddr add 10.77.0.2/24 dev peer1")?;
        hosts.other.ip("route add 10.78.0.0/24 via 10.78.1.1")?;
        hosts.echo.ip("addr add 10.79.0.1/24 dev echo")?;
        Ok(hosts)
    }
}

/// By UDP and by AF_XDP, one after the other.
pub(crate) fn measure(options: &Options, how_long: Duration, progress: &mut Progress) -> Result<Vec<Mode>, Error> {
    let hosts = Hosts::new().map_err(|error| format!("no hosts: {error}"))?;
    let no_xdp = |error: std::io::Error| format!("no XDP on veth: {error}");
    let _echo = hosts.echo.attach(ECHO, "echo").map_err(no_xdp)?;
    let each = how_long / 2;
    let mut modes = Vec::new();
    for by_afxdp in [false, true] {
        let transport = |interface: &str| match by_afxdp {
            false => Transport::Udp,
            true => Transport::AfXdp { interface: interface.into(), first_queue: 0 },
        };
        // What a native program sends back arrives only where there is another one; AF_XDP brings its own.
        let passes = [(&hosts.client, "wayside0"), (&hosts.client, "echo0"), (&hosts.other, "wayside1")];
        let passes = passes.into_iter().filter(|_| !by_afxdp).map(|(host, interface)| host.pass(interface));
        let _passes = passes.collect::<Result<Vec<_>, _>>().map_err(no_xdp)?;
        let name = format!("XDP switch, {}, spinning", if by_afxdp { "AF_XDP" } else { "UDP" });
        modes.push(hosts.client.within(|| {
            knobs::pin(CLIENT_CORE);
            one_transport(name, options, each, &hosts, &transport, progress)
        })?);
    }
    Ok(modes)
}

fn one_transport(
    name: String,
    options: &Options,
    how_long: Duration,
    hosts: &Hosts,
    transport: &(dyn Fn(&str) -> Transport + Sync),
    progress: &mut Progress,
) -> Result<Mode, Error> {
    // Signed packets are another measurement.
    let place = ["--listen", SWITCH, "--admin-listen", ADMIN, "--authentication", "off"];
    let arguments = [&place[..], &["--mode", "native", "--interfaces", "port0,port1"]].concat();
    let daemon =
        Daemon::start_with(&options.wayside, Waiting::Blocking, &arguments, |command| hosts.switch.enter(command))?;
    let mut field = Field {
        contestant: Contestant::connect(SWITCH, Waiting::Spinning, transport("wayside0"))?,
        probe: Probe::open(&transport("echo0"), ECHO_ADDRESS.parse().expect("an address"), Waiting::Spinning.wait())
            .map_err(|error| error.to_string())?,
        echoes: Samples::new("XDP echo, 64 bytes"),
        acquires: Samples::new("acquire"),
        cycles: Samples::new("acquire and release"),
        long_echoes: Samples::new("XDP echo, 1,056 bytes"),
        batches: Samples::new("32 locks in a packet"),
    };
    for round in 0..WARM_UP_ROUNDS {
        field.round(round, options.allocations)?;
        field.end_round(false);
    }
    let before = field.contestant.session.grants();
    let mut allocations = 0;
    let end = Instant::now() + how_long * 8 / 10;
    let mut round = 0;
    while round == 0 || Instant::now() < end {
        allocations += field.round(round, options.allocations)?;
        field.end_round(true);
        round += 1;
        progress.show(&name);
    }
    let grants = field.contestant.session.grants();
    let by_switch = grants.switch - before.switch;
    let all = by_switch + grants.agent - before.agent + grants.local - before.local;
    let tenth = how_long / 10;
    let spinning = hand_overs(Waiting::Spinning, hosts, transport, tenth)?;
    let blocking = hand_overs(Waiting::Blocking, hosts, transport, tenth)?;
    let ping_pongs = ping_pongs(hosts, tenth)?;
    drop(daemon);
    Ok(field.mode(
        name,
        by_switch as f64 / all as f64,
        options.allocations.map(|_| allocations),
        &[spinning, blocking, ping_pongs],
    ))
}

struct Field {
    contestant: Contestant,
    probe: Probe,
    echoes: Samples,
    acquires: Samples,
    cycles: Samples,
    long_echoes: Samples,
    batches: Samples,
}

impl Field {
    /// Everything once. Says how many allocations Wayside's single locks made.
    fn round(&mut self, round: u32, allocations: Option<fn() -> u64>) -> Result<u64, Error> {
        let count = || allocations.map_or(0, |count| count());
        if round.is_multiple_of(2) {
            self.echo_round()?;
        }
        let before = count();
        self.contestant.warm_up(FEWER)?;
        self.contestant.acquires(OPERATIONS, &mut self.acquires)?;
        self.contestant.cycles(OPERATIONS, &mut self.cycles)?;
        let made = count() - before;
        self.contestant.batches(FEWER, &mut self.batches)?;
        if !round.is_multiple_of(2) {
            self.echo_round()?;
        }
        Ok(made)
    }

    fn echo_round(&mut self) -> Result<(), Error> {
        self.probe.tend();
        for _ in 0..FEWER {
            self.probe.round_trip(SHORT);
        }
        for (bytes, count, samples) in [(SHORT, OPERATIONS, &mut self.echoes), (LONG, FEWER, &mut self.long_echoes)] {
            for _ in 0..count {
                if !samples.time(|| self.probe.round_trip(bytes)) {
                    return Err("the echo does not answer".into());
                }
            }
        }
        Ok(())
    }

    fn end_round(&mut self, counts: bool) {
        let Field { echoes, acquires, cycles, long_echoes, batches, .. } = self;
        for samples in [echoes, acquires, cycles, long_echoes, batches] {
            samples.end_round(counts);
        }
    }

    fn mode(&self, name: String, granted_by_switch: f64, allocations: Option<u64>, others: &[Samples]) -> Mode {
        let echo = self.echoes.median() as f64 / 1_000.0;
        let own = [&self.echoes, &self.acquires, &self.cycles, &self.long_echoes, &self.batches];
        let rows = own.into_iter().chain(others).filter_map(Samples::row);
        let ratio = |what: &str, of: &Samples, to: &Samples| (what.to_owned(), of.ratio(to));
        Mode {
            name,
            rows: rows.map(|row| Row { to_echo: Some(row.median_us / echo), ..row }).collect(),
            ratios: vec![
                ratio("acquire / echo", &self.acquires, &self.echoes),
                ratio("acquire and release / echo", &self.cycles, &self.echoes),
                ratio("32 locks / long echo", &self.batches, &self.long_echoes),
            ],
            granted_by_switch,
            allocations,
        }
    }
}

/// Release to wake-up, between two hosts and two cores.
fn hand_overs(
    waiting: Waiting,
    hosts: &Hosts,
    transport: &(dyn Fn(&str) -> Transport + Sync),
    how_long: Duration,
) -> Result<Samples, Error> {
    let connect = |host: &Host, interface: &str, core: usize| -> Result<Session, Error> {
        host.within(|| {
            knobs::pin(core);
            let builder = Session::builder().endpoint(SWITCH).namespace("default").transport(transport(interface));
            builder.wait(waiting.wait()).connect().map_err(|error| error.to_string())
        })
    };
    let here = connect(&hosts.client, "wayside0", CLIENT_CORE)?;
    let there = connect(&hosts.other, "wayside1", SERVER_CORE)?;
    let places: [(Session, &(dyn Fn() + Sync)); 2] = [
        (here, &|| {
            knobs::pin(CLIENT_CORE);
        }),
        (there, &|| {
            hosts.other.move_here().expect("whoever made a host may enter it");
            knobs::pin(SERVER_CORE);
        }),
    ];
    handover::between(waiting, places, how_long)
}

/// UDP between two hosts and two cores, there and back, both sleeping: what being woken costs.
fn ping_pongs(hosts: &Hosts, how_long: Duration) -> Result<Samples, Error> {
    let mut samples = Samples::new("blocking ping-pong of two hosts");
    let socket = |host: &Host, address: &str, peer: &str| {
        host.within(|| {
            let socket = UdpSocket::bind(address)?;
            socket.connect(peer)?;
            socket.set_read_timeout(Some(Duration::from_millis(200)))?;
            Ok(socket)
        })
        .map_err(|error: std::io::Error| format!("no socket for ping-pongs: {error}"))
    };
    let (one, other) =
        (socket(&hosts.client, "10.77.0.1:9", "10.77.0.2:9")?, socket(&hosts.other, "10.77.0.2:9", "10.77.0.1:9")?);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            knobs::pin(SERVER_CORE);
            let mut bytes = [0; SHORT];
            while !over.load(SeqCst) {
                if other.recv(&mut bytes).is_ok() {
                    let _ = other.send(&bytes);
                }
            }
        });
        let end = Instant::now() + how_long;
        let mut bytes = [0; SHORT];
        while Instant::now() < end {
            let answered = samples.time(|| one.send(&bytes).and_then(|_| one.recv(&mut bytes)));
            if answered.is_err() {
                break;
            }
        }
        over.store(true, SeqCst);
    });
    samples.end_round(true);
    Ok(samples)
}
