//! What a tenant that floods the switch does to another one: A acquires and gives back, one lock after the other, while
//! B sends requests as fast as its host can, with a budget and without.
//!
//! ```text
//!   ports of their own       A ===veth=== port0 switch port1 ===veth=== B
//!   one port for both        A ===veth=== bridge ===veth=== port0 switch         (B likewise at the bridge)
//!   a queue each             as that, and what either sends arrives in a queue of that port of its own
//!   userspace                as the first, without XDP: one thread, one socket
//! ```
//!
//! B has a processor to flood from. At the hook, on veth, the switch decides within the sender's own send, so A and B
//! each pay for their packets, unless they share a port's queue: then either may pay for both. In userspace the switch
//! has a processor of its own: A shares the other one with B, before which it goes whenever an answer comes. What B's
//! packets cost the machine in any case is seen where B sends just as many to a socket that nobody reads, at the
//! switch's host.
//!
//! Every round has all of these in turn, in an order that moves on, so that what disturbs the machine disturbs all.

mod flood;
mod report;

use crate::knobs::{self, CLIENT_CORE, LatencyHeld, Machine, SERVER_CORE};
use crate::samples::Samples;
use crate::wayside::{Contestant, Daemon};
use crate::{Error, Waiting};
use flood::{Flooder, IDLE, Stream, Wish};
pub use report::Isolation;
use report::{Condition, Home, Round};
use std::net::{SocketAddrV4, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use wayside_client::{Guard, Session, Transport};
use wayside_hosts::Host;

const SWITCH: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::new(10, 81, 0, 1), 7600);
const SINK: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::new(10, 81, 0, 1), 7700);

/// Acquires and releases of a round under one condition.
const CYCLES: usize = 1_000;
/// For a queue to fill, or to empty.
const SETTLE: Duration = Duration::from_millis(30);
/// Before whatever else the machine does: a thread's niceness. Where the flooder shares A's processor it comes behind.
const FAVOURED: i32 = -20;
const LESS_FAVOURED: i32 = -10;
/// Names that B uses.
const HELD: u64 = 1;
const UNHELD: u64 = 2;

/// What B does, by its stream.
const CONDITIONS: [(&str, usize); 5] = [
    ("alone", IDLE),
    ("B floods a socket that nobody reads", 0),
    ("B floods, with a budget", 1),
    ("B floods, without a budget", 2),
    ("B floods with releases, with a budget", 3),
];

/// What to measure.
pub struct IsolationOptions {
    /// The switch's binary.
    pub wayside: PathBuf,
    /// How often each condition is measured.
    pub rounds: u32,
    /// Of the budget, in requests a second.
    pub rate: u32,
}

/// How A and B reach the switch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Apart,
    Together,
    Divided,
    Userspace,
}

impl Place {
    const ALL: [Place; 4] = [Place::Apart, Place::Together, Place::Divided, Place::Userspace];

    fn name(self) -> &'static str {
        match self {
            Place::Apart => "XDP hook, ports of their own",
            Place::Together => "XDP hook, one port with one queue for both",
            Place::Divided => "XDP hook, one port with a queue for each",
            Place::Userspace => "userspace",
        }
    }
}

/// Measures all of it.
///
/// # Errors
/// Without root, or where something can't be had.
pub fn run_isolation(options: &IsolationOptions) -> Result<Isolation, Error> {
    if let Some(why) = wayside_hosts::missing() {
        return Err(why);
    }
    let held = LatencyHeld::hold();
    let machine = Machine::look();
    let homes: Result<Vec<Home>, Error> = Place::ALL.into_iter().map(|place| measure(place, options)).collect();
    let load_after = knobs::load();
    Ok(Isolation { machine, load_after, rate: options.rate, latency_held: held.is_some(), homes: homes? })
}

/// Three hosts, and a fourth that joins two of them to one port.
struct Hosts {
    switch: Host,
    a: Host,
    b: Host,
    /// What is attached to the far ends, and the bridge's host: kept.
    _passes: Vec<wayside_hosts::Program>,
    _bridge: Option<Host>,
}

impl Hosts {
    fn new(place: Place) -> std::io::Result<Hosts> {
        let (switch, a, b) = (Host::new()?, Host::new()?, Host::new()?);
        let mut bridge = None;
        let mut passes = Vec::new();
        if let Place::Together | Place::Divided = place {
            let middle = Host::new()?;
            a.join("a0", &middle, "to_a", 1)?;
            b.join("b0", &middle, "to_b", 1)?;
            let queues: &[usize] = if place == Place::Divided { &[CLIENT_CORE, SERVER_CORE] } else { &[CLIENT_CORE] };
            middle.join("to_switch", &switch, "port0", queues.len() as u32)?;
            if place == Place::Divided {
                middle.steer("to_switch", queues)?;
            }
            middle.ip("link add br0 type bridge\nlink set to_a master br0\nlink set to_b master br0\n\
                       link set to_switch master br0\nlink set br0 up")?;
            switch.ip("addr add 10.81.0.1/24 dev port0")?;
            a.ip("addr add 10.81.0.2/24 dev a0")?;
            b.ip("addr add 10.81.0.3/24 dev b0")?;
            passes.push(middle.pass("to_switch")?);
            bridge = Some(middle);
        } else {
            a.join("a0", &switch, "port0", 1)?;
            b.join("b0", &switch, "port1", 1)?;
            switch.ip("addr add 10.81.0.1/24 dev port0\naddr add 10.81.1.1/24 dev port1")?;
            a.ip("addr add 10.81.0.2/24 dev a0")?;
            b.ip("addr add 10.81.1.2/24 dev b0\nroute add 10.81.0.0/24 via 10.81.1.1")?;
            if place == Place::Apart {
                passes.extend([a.pass("a0")?, b.pass("b0")?]);
            }
        }
        Ok(Hosts { switch, a, b, _passes: passes, _bridge: bridge })
    }
}

fn measure(place: Place, options: &IsolationOptions) -> Result<Home, Error> {
    let hosts = Hosts::new(place).map_err(|error| format!("no hosts: {error}"))?;
    let daemon = start(place, &hosts, options)?;
    let waiting = if place == Place::Userspace { Waiting::Blocking } else { Waiting::Spinning };
    let mut contestant = hosts.a.within(|| {
        knobs::pin(CLIENT_CORE);
        knobs::favour(FAVOURED);
        Contestant::connect(&daemon.endpoint, waiting, Transport::Udp, None, None)
    })?;
    let tenants = [tenant(&hosts.b, "limited")?, tenant(&hosts.b, "unlimited")?];
    let sink = hosts.switch.within(|| UdpSocket::bind(SINK)).map_err(|error| format!("no sink: {error}"))?;
    let [(limited, _held), (unlimited, _)] = &tenants;
    let (limited, unlimited) = (info(limited)?, info(unlimited)?);
    let streams = vec![
        Stream::new(&limited, HELD, Wish::Try, SINK),
        Stream::new(&limited, HELD, Wish::Try, SWITCH),
        Stream::new(&unlimited, HELD, Wish::Try, SWITCH),
        Stream::new(&limited, UNHELD, Wish::Release, SWITCH),
    ];
    let (core, nice) = if place == Place::Userspace { (CLIENT_CORE, LESS_FAVOURED) } else { (SERVER_CORE, FAVOURED) };
    let flooder = Flooder::start(&hosts.b, core, nice, streams)?;
    let mut conditions: Vec<Condition> = CONDITIONS.iter().map(|(name, _)| Condition::new(name)).collect();
    hosts.a.within(|| {
        knobs::pin(CLIENT_CORE);
        knobs::favour(FAVOURED);
        for round in 0..=options.rounds as usize {
            for turn in 0..CONDITIONS.len() {
                let at = (round + turn) % CONDITIONS.len();
                let measured = under(&flooder, CONDITIONS[at].1, &mut contestant)?;
                // The first one warms up.
                if round > 0 {
                    conditions[at].rounds.push(measured);
                }
            }
            eprint!("\r{}: round {round} of {}   ", place.name(), options.rounds);
        }
        eprintln!();
        Ok::<(), Error>(())
    })?;
    let over_budget = over_budget(&hosts.switch, &options.wayside, &daemon.endpoint)?;
    drop((flooder, sink, tenants));
    Ok(Home { name: place.name().into(), conditions, over_budget })
}

/// One condition of a round.
fn under(flooder: &Flooder, stream: usize, contestant: &mut Contestant) -> Result<Round, Error> {
    let mut samples = Samples::new("acquire and release");
    flooder.flood(stream);
    std::thread::sleep(SETTLE);
    let (began, before) = (Instant::now(), flooder.sent());
    let outcome = contestant.cycles(CYCLES, &mut samples);
    let floods = (flooder.sent() - before) as f64 / began.elapsed().as_secs_f64();
    flooder.flood(IDLE);
    std::thread::sleep(SETTLE);
    outcome?;
    let micros = |quantile| samples.of_round(quantile) as f64 / 1e3;
    Ok(Round { median_us: micros(0.5), p99_us: micros(0.99), flood_a_second: floods })
}

fn start(place: Place, hosts: &Hosts, options: &IsolationOptions) -> Result<Daemon, Error> {
    let IsolationOptions { wayside, rate, .. } = options;
    let settings = format!(
        "[[namespace]]\nname = 'default'\n[[namespace]]\nname = 'limited'\nrate = {rate}\n[[namespace]]\nname = 'unlimited'\n"
    );
    let listen = SWITCH.to_string();
    let common = ["--listen", &listen, "--authentication", "off"];
    let (how, waiting): (&[&str], _) = match place {
        Place::Apart => (&["--mode", "native", "--interfaces", "port0,port1"], Waiting::Blocking),
        Place::Together | Place::Divided => (&["--mode", "native", "--interfaces", "port0"], Waiting::Blocking),
        Place::Userspace => (&["--mode", "userspace"], Waiting::Spinning),
    };
    let arguments = [&common[..], how].concat();
    Daemon::start_with(&settings, wayside, waiting, SERVER_CORE, &arguments, |command: &mut Command| {
        hosts.switch.enter(command);
        // SAFETY: one system call, between fork and exec.
        unsafe {
            command.pre_exec(|| {
                knobs::favour(FAVOURED);
                Ok(())
            })
        };
    })
}

/// A session of B's in a namespace, which holds the lock that its flood asks for.
fn tenant(host: &Host, namespace: &str) -> Result<(Session, Guard), Error> {
    host.within(|| {
        knobs::pin(SERVER_CORE);
        knobs::favour(FAVOURED);
        let builder =
            Session::builder().endpoint(SWITCH.to_string()).namespace(namespace).wait(Waiting::Blocking.wait());
        let session = builder.lease(Duration::from_secs(10)).connect().map_err(|error| error.to_string())?;
        let guard = session.lock(HELD).acquire().map_err(|error| error.to_string())?;
        Ok((session, guard))
    })
}

fn info(session: &Session) -> Result<wayside_client::SessionInfo, Error> {
    session.info().ok_or_else(|| "a session of the flooder is over".into())
}

/// What the switch says that its budget refused.
fn over_budget(host: &Host, wayside: &Path, endpoint: &str) -> Result<u64, Error> {
    let mut status = Command::new(wayside);
    status.args(["status", "-o", "json"]).env("WAYSIDE_ENDPOINTS", endpoint).env_remove("WAYSIDE_CONFIG");
    host.enter(&mut status);
    let output = status.output().map_err(|error| format!("wayside status does not start: {error}"))?;
    let status: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("wayside status: {error}: {}", String::from_utf8_lossy(&output.stderr)))?;
    let namespaces = status["namespaces"].as_array().into_iter().flatten();
    let limited = namespaces.filter(|namespace| namespace["name"] == "limited");
    Ok(limited.filter_map(|namespace| namespace["over_budget"].as_u64()).sum())
}
