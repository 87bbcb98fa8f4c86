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
//! and in the echo's alike. Nothing waits for another core but hand-overs, and whom it is compared with: a switch in
//! userspace, on the client's host so that it is reached by loopback, and Redis, whose sockets were made elsewhere.

use crate::compare::Progress;
use crate::engines::{self, Ends};
use crate::hook_rounds::{Field, Userspace};
use crate::knobs::{self, CLIENT_CORE, SERVER_CORE, TAKES_OVER};
use crate::report::{How, Mode, Ratio, Row, bars};
use crate::samples::Samples;
use crate::ways::Contender;
use crate::wayside::{Contestant, Daemon};
use crate::{Error, Options, Waiting, handover};
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use wayside_client::probe::Probe;
use wayside_client::{Session, Transport};
use wayside_hosts::Host;

pub(crate) use wayside_hosts::missing;

const ECHO: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/echo.bpf.o"));

const SWITCH: &str = "10.78.0.1:7600";
const ADMIN: &str = "10.78.0.1:7601";
const ECHO_ADDRESS: &str = "10.79.0.1:7600";

/// How often hand-overs take turns with what they are compared with, and echoes of such a turn.
const HAND_OVER_ROUNDS: u32 = 8;
const ECHOES: usize = 400;
/// Before those of a turn that count.
const UNTIMED_ECHOES: usize = 100;
/// An acquire's packet.
const SHORT: usize = 64;

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

    /// The two that have a port of the switch, each with its interface.
    fn end(&self, end: usize) -> (&Host, &'static str) {
        if end == 0 { (&self.client, "wayside0") } else { (&self.other, "wayside1") }
    }
}

/// By UDP and by AF_XDP, one after the other; unsigned, then signed. Appends to `modes`; on an error, those before it.
pub(crate) fn measure(
    options: &Options,
    how_long: Duration,
    redis: &mut [Contender],
    progress: &mut Progress,
    modes: &mut Vec<Mode>,
) -> Result<(), Error> {
    let hosts = Hosts::new().map_err(|error| format!("no hosts: {error}"))?;
    let _echo = hosts.echo.attach(ECHO, "echo").map_err(no_xdp)?;
    // Twice as long without signatures: there more is compared.
    for (signed, share) in [(false, how_long / 3), (true, how_long / 6)] {
        for by_afxdp in [false, true] {
            let way = Way { by_afxdp, signed };
            // What a native program sends back arrives only where there is another one; AF_XDP brings its own.
            let passes = [(&hosts.client, "wayside0"), (&hosts.client, "echo0"), (&hosts.other, "wayside1")];
            let passes = passes.into_iter().filter(|_| !by_afxdp).map(|(host, interface)| host.pass(interface));
            let _passes = passes.collect::<Result<Vec<_>, _>>().map_err(no_xdp)?;
            modes.push(hosts.client.within(|| {
                knobs::pin(CLIENT_CORE);
                one_way(way, options, share, &hosts, redis, progress)
            })?);
        }
    }
    Ok(())
}

fn no_xdp(error: std::io::Error) -> Error {
    format!("no XDP on veth: {error}")
}

#[derive(Clone, Copy)]
struct Way {
    by_afxdp: bool,
    signed: bool,
}

impl Way {
    fn transport(self, interface: &str) -> Transport {
        match self.by_afxdp {
            false => Transport::Udp,
            true => Transport::AfXdp { interface: interface.into(), first_queue: 0 },
        }
    }

    fn by(self) -> &'static str {
        if self.by_afxdp { "AF_XDP" } else { "UDP" }
    }
}

fn one_way(
    way: Way,
    options: &Options,
    how_long: Duration,
    hosts: &Hosts,
    redis: &mut [Contender],
    progress: &mut Progress,
) -> Result<Mode, Error> {
    let signs = if way.signed { "on" } else { "off" };
    let place = ["--listen", SWITCH, "--admin-listen", ADMIN, "--authentication", signs];
    let arguments = [&place[..], &["--mode", "native", "--interfaces", "port0,port1"]].concat();
    let wayside = &options.wayside;
    let daemon =
        Daemon::start(wayside, Waiting::Blocking, SERVER_CORE, &arguments, |command| hosts.switch.enter(command))?;
    let joined = way.signed.then(|| daemon.let_join(wayside, |command| hosts.client.enter(command))).transpose()?;
    let contestant = |endpoint: &str, transport, credentials: Option<&Path>| {
        Contestant::connect(endpoint, Waiting::Spinning, transport, credentials, options.allocations)
    };
    let own = contestant(SWITCH, way.transport("wayside0"), joined.as_deref())?;
    let probe = echo_probe(way)?;
    // Signed packets are compared with the echo alone: the other ratios are the unsigned ones'.
    let userspace = || -> Result<Userspace, Error> {
        let here = |command: &mut Command| hosts.client.enter(command);
        let daemon = Daemon::in_userspace(wayside, Waiting::Spinning, SERVER_CORE, here)?;
        let other = contestant(&daemon.endpoint, Transport::Udp, None)?;
        Ok(Userspace::new(daemon, other))
    };
    let userspace = (!way.signed).then(userspace).transpose()?;
    let redis = if way.signed { &mut [] } else { redis };
    let mut field = Field::new(way.by(), way.signed, own, probe, userspace, redis);
    let name = format!("XDP switch, {}{}", way.by(), if way.signed { ", signed" } else { "" });
    let rounds = if way.signed { how_long } else { how_long * 13 / 20 };
    field.measure(rounds, || progress.show(&name))?;
    let mut mode = field.mode(name);
    // Its thread's port has the interface's only queue, which whoever hands locks over needs by AF_XDP. And the switch
    // goes last: without it no session could leave.
    let echo_us = field.echo_us();
    drop(field);
    let mut others = Vec::new();
    if !way.signed {
        others.push(between_hosts(way, hosts, how_long * 3 / 20)?);
    }
    drop(daemon);
    if !way.signed {
        others.push(between_engines(way, wayside, &arguments, hosts, how_long / 5)?);
    }
    for (rows, ratios) in others {
        mode.rows.extend(rows.into_iter().map(|row| row.against(echo_us)));
        mode.ratios.extend(ratios);
    }
    Ok(mode)
}

/// Queues in the switch beside fission, at a switch with these arguments that has both.
fn between_engines(
    way: Way,
    wayside: &Path,
    arguments: &[&str],
    hosts: &Hosts,
    how_long: Duration,
) -> Result<(Vec<Row>, Vec<Ratio>), Error> {
    let (settings, place) = (engines::settings(), |command: &mut Command| hosts.switch.enter(command));
    let _daemon = Daemon::start_with(&settings, wayside, Waiting::Blocking, SERVER_CORE, arguments, place)?;
    let ends = Ends {
        connect: &|end, namespace, waiting, core| connect(way, hosts, end, namespace, waiting, core),
        enter: &|end| hosts.end(end).0.move_here().expect("whoever made a host may enter it"),
        cores: [CLIENT_CORE, SERVER_CORE],
        waiting: Waiting::Spinning,
        hand_overs: &[Waiting::Spinning, Waiting::Blocking],
    };
    let how =
        How { transport: way.by().into(), cores: 2, waits: Waiting::Spinning.name().into(), signed: "off".into() };
    engines::measure(&ends, &how, how_long)
}

/// A session of one of the two hosts that have a port of the switch.
fn connect(
    way: Way,
    hosts: &Hosts,
    end: usize,
    namespace: &str,
    waiting: Waiting,
    core: usize,
) -> Result<Session, Error> {
    let (host, interface) = hosts.end(end);
    host.within(|| {
        knobs::pin(core);
        let builder =
            Session::builder().keep(0).endpoint(SWITCH).namespace(namespace).transport(way.transport(interface));
        builder.wait(waiting.wait()).connect().map_err(|error| error.to_string())
    })
}

/// Hand-overs between two nodes in turns with what they are compared with: echoes where threads spin, where they sleep
/// what being woken costs.
fn between_hosts(way: Way, hosts: &Hosts, how_long: Duration) -> Result<(Vec<Row>, Vec<Ratio>), Error> {
    let mut probe = echo_probe(way)?;
    let each = how_long / (3 * HAND_OVER_ROUNDS);
    let began = Instant::now();
    // Its port has sockets until AF_XDP takes over.
    while probe.report().is_some_and(|port| port.queue.is_none()) {
        if began.elapsed() > TAKES_OVER {
            return Err("AF_XDP did not take over for the echo".into());
        }
        probe.tend();
        // What is on its way meanwhile may be lost.
        probe.round_trip(SHORT);
    }
    let mut echoes = Samples::new("XDP echo between hand-overs");
    let (mut spinning, mut blocking) = (handover::samples(Waiting::Spinning), handover::samples(Waiting::Blocking));
    let mut ping_pongs = Samples::new("blocking ping-pong of two hosts");
    for _ in 0..HAND_OVER_ROUNDS {
        hand_overs(Waiting::Spinning, way, hosts, each, &mut spinning)?;
        probe.tend();
        for _ in 0..UNTIMED_ECHOES {
            probe.round_trip(SHORT);
        }
        for _ in 0..ECHOES {
            if !echoes.time(|| probe.round_trip(SHORT)) {
                return Err("the echo does not answer".into());
            }
        }
        echoes.end_round(true);
        hand_overs(Waiting::Blocking, way, hosts, each, &mut blocking)?;
        ping_pong(hosts, each, &mut ping_pongs)?;
    }
    let how = |by: &str, waiting: Waiting| How {
        transport: by.into(),
        cores: 2,
        waits: waiting.name().into(),
        signed: "off".into(),
    };
    let rows = [
        echoes.row(&How { cores: 1, ..how(way.by(), Waiting::Spinning) }),
        spinning.row(&how(way.by(), Waiting::Spinning)),
        blocking.row(&how(way.by(), Waiting::Blocking)),
        ping_pongs.row(&How { signed: "-".into(), ..how("UDP", Waiting::Blocking) }),
    ];
    let ratios = vec![
        spinning.ratio("contended hand-over, spinning / echo", &echoes).meant(bars::HAND_OVER),
        blocking.ratio("contended hand-over, blocking / ping-pong", &ping_pongs).meant(bars::WAKING_HAND_OVER),
    ];
    Ok((rows.into_iter().flatten().collect(), ratios))
}

fn echo_probe(way: Way) -> Result<Probe, Error> {
    let echo = ECHO_ADDRESS.parse().expect("an address");
    Probe::open(&way.transport("echo0"), echo, Waiting::Spinning.wait()).map_err(|error| error.to_string())
}

/// Release to wake-up, between two hosts and two cores.
fn hand_overs(
    waiting: Waiting,
    way: Way,
    hosts: &Hosts,
    how_long: Duration,
    samples: &mut Samples,
) -> Result<(), Error> {
    let here = connect(way, hosts, 0, "default", waiting, CLIENT_CORE)?;
    let there = connect(way, hosts, 1, "default", waiting, SERVER_CORE)?;
    let places: [(Session, &(dyn Fn() + Sync)); 2] = [
        (here, &|| {
            knobs::pin(CLIENT_CORE);
        }),
        (there, &|| {
            hosts.other.move_here().expect("whoever made a host may enter it");
            knobs::pin(SERVER_CORE);
        }),
    ];
    handover::between(waiting, places, how_long, samples)
}

/// UDP between two hosts and two cores, there and back, both sleeping: what being woken costs.
fn ping_pong(hosts: &Hosts, how_long: Duration, samples: &mut Samples) -> Result<(), Error> {
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
    Ok(())
}
