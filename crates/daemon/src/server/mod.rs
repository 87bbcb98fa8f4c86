//! The userspace switch: the core behind one UDP socket, its controller, and the control connection.
//!
//! ```text
//!   UDP ──► workers (Switch::process) ──► UDP        workers ──packets for it──► controller thread ──► UDP
//!                        │ shared memory ▲                                           ▲     │
//!                        └───────────────┴───────────── SwitchMemory ────────────────┼─────┤
//!   Unix sockets ──────► control (main thread) ──greetings, lifelines, questions ────┘     └──► state directory
//!   TCP: JSON lines ────────┘ ▲ status, numbers
//!        HTTP ──────────► admin (main thread): metrics, readiness
//! ```
//!
//! One socket for all workers, not one each with SO_REUSEPORT: a second daemon of the same user could then bind the
//! same port unnoticed, and two switches would decide on the same locks.

mod admin;
mod authority;
mod batch;
mod chains;
mod clock;
mod control;
mod controller;
mod deadlocks;
mod divisions;
mod enrolment;
mod etcd;
mod gateway;
mod hand_over;
mod hand_over_line;
mod home;
mod keys;
mod local;
mod metrics;
mod mirror;
mod names;
mod namespaces;
mod node_lines;
mod plans;
mod questions;
mod records;
mod relays;
mod reload;
mod sockets;
mod status;
mod store;
mod traces;
mod worker;

use crate::admission::Admission;
use crate::answers::Role;
use crate::config::{Config, Deadlocks, Shown};
use crate::failure::Failure;
use admin::Admin;
use control::Control;
use controller::{Desk, Inbox};
use enrolment::Door;
use etcd::Shard;
use home::Home;
pub use home::aside;
use keys::Keys;
use local::{LocalSockets, SocketFile};
use metrics::Ledger;
use mirror::Mirror;
use namespaces::Namespaces;
use records::Records;
use relays::Relays;
use reload::Reload;
pub use reload::Reread;
use ring::rand::{SecureRandom, SystemRandom};
use sockets::{bind_tcp, bind_udp, notify_supervisor, raise_open_files};
use status::Facts;
use std::collections::HashSet;
use std::io::{self, Write};
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use store::StateDir;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use traces::{Spans, Teller};
use wayside_protocol::controller::{Seat, ServingConfig};
use wayside_protocol::memory::SwitchMemory;
use wayside_protocol::seal::Secret;
use wayside_switch::Switch;
use worker::{Traffic, Worker};

/// For etcd to note that this switch serves no more.
const DRAIN_MOST: Duration = Duration::from_secs(1);

/// What etcd's members may take to elect a leader in the place of one that died, as they come: one to two seconds.
const ELECTION: Duration = Duration::from_secs(3);

/// A bound, stated and running switch.
struct Server {
    listen: SocketAddrV4,
    started: Instant,
    switch: Arc<Switch>,
    socket: Arc<UdpSocket>,
    inbox: Inbox,
    stop: Arc<AtomicBool>,
    controller: JoinHandle<()>,
    workers: Vec<JoinHandle<()>>,
    /// The shard, unless this switch is alone, and what its switches sign with to each other.
    sharing: Option<(Shard, u16, Option<Secret>)>,
    /// Tasks that accept connections, and the one that looks for deadlocks.
    accepting: Vec<tokio::task::JoinHandle<()>>,
    /// Where hosts join and enrol, if packets are signed.
    enrols: Option<SocketAddrV4>,
    _relaying: Option<relays::Running>,
    /// A thread that ends before it is told to says so here.
    ended: mpsc::UnboundedReceiver<&'static str>,
    socket_file: SocketFile,
    home: Home,
    reload: Arc<Reload>,
}

/// Runs a switch until SIGINT, SIGTERM or, where there is no file to read again, SIGHUP. `state_dir` is asked where the
/// state lies, once the address is known.
pub fn run(
    config: &Config,
    reread: Option<Reread>,
    state_dir: impl FnOnce(SocketAddrV4) -> Result<PathBuf, Failure>,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system("can't start the control connection", &error))?;
    let outcome = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let mut server = Server::start(config, reread, state_dir)?;
        server.say_ready(config);
        notify_supervisor("READY=1");
        let outcome = loop {
            tokio::select! {
                name = signals.next() => {
                    if name == HANGUP && server.reload.has_file() {
                        server.read_again().await;
                        continue;
                    }
                    tracing::info!(signal = name, "ending");
                    break Ok(());
                }
                Some(thread) = server.ended.recv() => {
                    break Err(Failure::unavailable(format!("the {thread} thread failed; see the log")));
                }
            }
        };
        notify_supervisor("STOPPING=1");
        if server.inbox.role() == Role::Serving
            && let Err(why) = server.hand_over().await
        {
            tracing::info!(why, "locks are not handed over: who serves next asks all nodes");
        }
        // A standby need not find out by itself.
        if tokio::time::timeout(DRAIN_MOST, server.inbox.drain()).await.is_err() {
            tracing::warn!("etcd does not answer: a standby will wait for the serving lease");
        }
        server.end();
        outcome
    });
    // Whoever still looks a name up, of etcd or of a collector, keeps nobody.
    runtime.shutdown_background();
    outcome
}

const HANGUP: &str = "SIGHUP";

struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Signals, Failure> {
        let on = |kind| signal(kind).map_err(|error| Failure::system("can't wait for signals", &error));
        Ok(Signals {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hangup: on(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hangup.recv() => HANGUP,
        }
    }
}

impl Server {
    fn start(
        config: &Config,
        reread: Option<Reread>,
        state_dir: impl FnOnce(SocketAddrV4) -> Result<PathBuf, Failure>,
    ) -> Result<Server, Failure> {
        let started = Instant::now();
        raise_open_files();
        let (socket, listen) = bind_udp(config.listen, "--listen")?;
        let (tcp, admin_listen) = bind_tcp(config.admin_listen, "--admin-listen")?;
        let state_dir = state_dir(listen)?;
        let mut state = StateDir::open(&state_dir)?;
        let mut shard = None;
        let mut records = Records::Here(state.clone());
        if let Some(sharing) = &config.sharing {
            if sharing.etcd.len() > 1 && config.lease < ELECTION {
                tracing::warn!(
                    "sessions' leases are shorter than etcd's members may take to elect another leader: who holds then may \
                     lose its session (lease = \"5s\", or etcd's --election-timeout)"
                );
            }
            let found = Shard::connect(sharing, state.own_number(random_number()?)?, random_number()?, listen)?;
            if !sharing.history.is_zero() {
                found.spawn(found.clone().compact(sharing.history));
            }
            records = Records::Shared(Box::new(found.clone()));
            shard = Some((found, sharing));
        }
        let mut door = None;
        if let Some(address) = config.enrol_listen {
            if let Some((shard, _)) = &shard {
                let mirror = Mirror::begin(shard.clone(), Admission::of(&state_dir))?;
                shard.spawn(mirror.run());
            }
            let (listener, address) = bind_tcp(address, "--enrol-listen")?;
            door = Some((Door::open(&state_dir, listen, address, config)?, listener, address));
        }
        records.divide(config.division.as_ref())?;
        let numbers = records.number(&config.namespaces)?;
        let (socket_file, local) = LocalSockets::bind(config, listen)?;
        tracing::info!(%listen, %admin_listen, "listening");

        let (mut home, switch) = Home::find(config, listen, &numbers)?;
        let switch = Arc::new(switch);
        let namespaces = Namespaces::of(config, &numbers);
        let ledger = Ledger::new(Arc::clone(&namespaces), records.commits());
        let kept = records.clone();
        let control_of = controller_config(config, &numbers)?;
        let memory = Arc::clone(&switch);
        let (mut joining, mut sharing_with) = (None, None);
        let (seat, shard) = match shard {
            None => {
                let seat = Seat::alone(control_of, memory, records);
                (seat.map_err(|error| Failure::unavailable(error.to_string()))?, None)
            }
            Some((shard, sharing)) => {
                let lease = sharing.serving_lease.as_micros() as u64;
                let number = shard.enlist()?;
                let root = config.enrol_listen.map(|_| shard.fabric_secret(random_bytes()?)).transpose()?;
                let hand_over_listen = sharing.hand_over_listen.unwrap_or(listen);
                sharing_with = Some((shard.clone(), root, number, hand_over_listen));
                joining = Some(chains::Joining {
                    number,
                    root,
                    shard: shard.clone(),
                    length: sharing.chain_length,
                    lease: sharing.serving_lease,
                    drift_ppm: control_of.drift_ppm,
                });
                let serving = ServingConfig { own: shard.holder(), lease, drift_ppm: control_of.drift_ppm };
                (Seat::sharing(clock::now(), control_of, memory, records, serving), Some(shard))
            }
        };
        let mut keys = Keys::new(Arc::clone(&switch), config, &numbers, listen, joining, random_number()?);
        if home.is_at_hook() {
            keys.keep_names(&state_dir);
        }
        let watched = shard.clone();
        let (mut desk, inbox) =
            Desk::new(seat, keys, shard, Arc::clone(&namespaces), Arc::clone(&socket), Arc::clone(&ledger));
        if let Some(shard) = watched {
            let inbox = inbox.clone();
            shard.spawn(shard.clone().watch(move |changes| inbox.changes(changes)));
        }
        let admission = Admission::of(&state_dir);
        let mut hosts = HashSet::new();
        if door.is_some() {
            // Some may have been removed while no daemon ran.
            hosts = admission.numbers().map_err(|error| Failure::system("can't read the state directory", &error))?;
            desk.admission = Some(admission.clone());
            desk.admit_only(hosts.clone());
        }
        // The first tick takes an epoch: nothing is answered before it is on disk.
        desk.settle();

        let traffic = Arc::new(Traffic::default());
        let stop = Arc::new(AtomicBool::new(false));
        let worker = Worker {
            switch: Arc::clone(&switch),
            socket: Arc::clone(&socket),
            inbox: inbox.clone(),
            wait: config.wait,
            traffic: Arc::clone(&traffic),
            stop: Arc::clone(&stop),
        };
        let (end, ended) = mpsc::unbounded_channel();
        let controller = spawn("controller", end.clone(), move || desk.run())?;
        let mut workers = Vec::new();
        for _ in 0..config.threads {
            let worker = worker.clone();
            workers.push(spawn("switch", end.clone(), move || {
                if let Err(error) = worker.run() {
                    tracing::error!(%error, "can't receive");
                }
            })?);
        }
        let relay = |work| spawn("relay", end.clone(), work).map(|_| ());
        let (relays, relaying) = Relays::start(&config.relays, *listen.ip(), relay)?;
        home.enter(config, &switch, &socket, &inbox, listen)?;
        let residence = home.residence();
        let spans = Arc::new(Spans::default());
        let (trace_one_in, followed) = watch::channel(config.trace_one_in);
        let teller = Teller {
            switch: Arc::clone(&switch),
            namespaces: Arc::clone(&namespaces),
            spans: Arc::clone(&spans),
            collector: config.trace_collector.clone(),
            listen,
            mode: residence.mode.clone(),
        };
        let reload = Arc::new(Reload {
            read: reread,
            running: tokio::sync::Mutex::new(config.clone()),
            namespaces: Arc::clone(&namespaces),
            switch: Arc::clone(&switch),
            inbox: inbox.clone(),
            ledger: Arc::clone(&ledger),
            records: kept,
            admission: door.is_some().then(|| admission.clone()),
            trace_one_in,
        });
        let config = config.clone();
        let enrols = door.as_ref().map(|(_, _, address)| *address);
        let tally = Arc::new(enrolment::tally());
        let facts = Facts {
            config,
            reload: Arc::clone(&reload),
            namespaces,
            listen,
            admin_listen,
            enrols,
            admission: admission.clone(),
            tally: Arc::clone(&tally),
            ledger: Arc::clone(&ledger),
            started,
            residence,
            switch: Arc::clone(&switch),
            traffic,
            relays,
            spans,
        };
        let control = Control::new(inbox.clone(), facts);
        let admin = Admin::new(Arc::clone(&control), ledger);
        let Config { deadlocks: policy, deadlock_period, .. } = control.facts().config;
        let watch = (policy != Deadlocks::Off).then(|| deadlocks::watch(Arc::clone(&control), policy, deadlock_period));
        let (told, control_divides) = (Arc::clone(&control), control.facts().config.division.is_some());
        let mut accepting = vec![tokio::spawn(control.serve(local)), tokio::spawn(admin.serve(tcp))];
        accepting.extend(watch.map(tokio::spawn));
        accepting.push(tokio::spawn(teller.run(followed)));
        if control_divides {
            accepting.push(tokio::spawn(divisions::tell_nodes(told)));
        }
        let sharing = sharing_with.map(|(shard, root, number, at)| {
            accepting.push(tokio::spawn(hand_over::take_part(shard.clone(), number, at, root, inbox.clone())));
            (shard, number, root)
        });
        if let Some((door, listener, _)) = door {
            accepting.push(tokio::spawn(Door::watch(admission, hosts, inbox.clone())));
            accepting.push(tokio::spawn(door.serve(listener, inbox.clone(), tally)));
        }
        Ok(Server {
            listen,
            started,
            switch,
            socket,
            inbox,
            stop,
            controller,
            workers,
            sharing,
            accepting,
            enrols,
            _relaying: relaying,
            ended,
            socket_file,
            home,
            reload,
        })
    }

    /// SIGHUP: nobody waits for the answer, so it is in the log.
    async fn read_again(&self) {
        match self.reload.reload().await {
            Ok(changes) => changes.iter().for_each(|change| tracing::warn!("{change}")),
            Err(why) => tracing::error!("{why}"),
        }
    }

    /// The line that says which home the core has found, and that it answers.
    fn say_ready(&self, config: &Config) {
        let seconds = self.started.elapsed().as_secs_f64();
        let residence = self.home.residence();
        let mut out = io::stdout().lock();
        // Nobody may be reading: the switch is as good without.
        let _ = writeln!(out, "switch: {residence} on {}{}, ready in {seconds:.1} s", self.listen, residence.aside());
        if self.home.resumed() {
            let _ = writeln!(out, "switch: taken over while it was running, with all its locks");
        }
        if let Some(enrols) = self.enrols {
            let _ = writeln!(out, "switch: takes enrolled hosts only, at {enrols}; `wayside node token` lets one join");
        } else if !self.listen.ip().is_loopback() {
            let _ = writeln!(
                out,
                "switch: WARNING: packets are not signed: whoever reaches {} can take and free every lock",
                self.listen
            );
        }
        if self.inbox.role() != Role::Alone {
            let _ = writeln!(out, "switch: one of several; the one that serves is in etcd, `wayside status` tells");
        } else if !self.switch.serving() {
            let most = Shown(config.lease + config.grace);
            let _ = writeln!(out, "switch: recovering the locks of earlier sessions, at most about {most}");
        }
        let _ = out.flush();
    }

    /// Packets are decided on no more, but at the hook.
    fn end_workers(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the workers that sleep. Linux says ENOTCONN and does it.
        // SAFETY: shuts down a descriptor that `self` owns.
        unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RD) };
        for thread in self.workers.drain(..) {
            // Its panic has been printed.
            let _ = thread.join();
        }
    }

    fn end(mut self) {
        self.accepting.iter().for_each(|task| task.abort());
        self.end_workers();
        self.home.end();
        // First the file, then the port: a successor binds the port first, so it never loses its own file.
        drop(self.socket_file);
        self.inbox.stop();
        // As above.
        let _ = self.controller.join();
    }
}

fn spawn(
    name: &'static str,
    ended: mpsc::UnboundedSender<&'static str>,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, Failure> {
    /// Says so when the thread returns or panics.
    struct Ended(&'static str, mpsc::UnboundedSender<&'static str>);
    impl Drop for Ended {
        fn drop(&mut self) {
            // The daemon is ending if nobody listens.
            let _ = self.1.send(self.0);
        }
    }
    let guard = Ended(name, ended);
    std::thread::Builder::new()
        .name(name.into())
        .spawn(move || {
            let _guard = guard;
            run();
        })
        .map_err(|error| Failure::system(format_args!("can't start the {name} thread"), &error))
}

/// What a new state directory's epochs and incarnations begin at, so that tokens go on rising, and sessions
/// differ, even if the old directory was lost. Epochs: minutes since the beginning of 2026. Their 23 bits last
/// until 2041, if the switch restarts less than once a minute. Incarnations: microseconds, if no more sessions
/// begin.
fn firsts() -> (u32, u64) {
    const BEGINNING_OF_2026: Duration = Duration::from_secs(1_767_225_600);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(BEGINNING_OF_2026);
    let minutes = (now.as_secs() / 60).min(u64::from(wayside_wire::limits::MAX_EPOCH / 2)) as u32;
    (minutes, now.as_micros().min(1 << 62) as u64)
}

/// Not 0, and nobody else's.
fn random_number() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Failure::unavailable("the system has no random numbers"))?;
    Ok(u64::from_ne_bytes(bytes).max(1))
}

fn random_bytes() -> Result<[u8; 32], Failure> {
    let mut bytes = [0; 32];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Failure::unavailable("the system has no random numbers"))?;
    Ok(bytes)
}

fn controller_config(config: &Config, numbers: &[u16]) -> Result<wayside_protocol::controller::Config, Failure> {
    let pairs = config.namespaces.iter().zip(numbers);
    let namespaces = pairs.map(|(namespace, &number)| namespace.controlled(number, config.lease));
    let (first_epoch, first_incarnation) = firsts();
    Ok(wayside_protocol::controller::Config {
        namespaces: namespaces.collect(),
        shortest_grace: config.grace.as_micros() as u32,
        secret: random_number()?,
        root: config.enrol_listen.map(|_| random_bytes().map(Secret)).transpose()?,
        rotation_period: config.key_lifetime.as_micros() as u64,
        first_epoch,
        first_incarnation,
        shards: config.division.as_ref().map_or(0, |division| division.shards.fingerprint(division.own)),
        joins: config.joins,
        ..Default::default()
    })
}
