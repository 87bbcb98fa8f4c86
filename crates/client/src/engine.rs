//! One session's machine: a protocol node behind a lock, its sockets, and the threads that drive it.
//!
//! ```text
//!  caller's thread ── reply port ──┐                         ┌── agent port (0) ──┐
//!  caller's thread ── reply port ──┤   Engine::visit         │                    background
//!                                  ├──> lock, Core, unlock <─┼── reactor port ────┤  thread
//!  task ──────────────(reactor)────┘    then Errands         └── alarm, lifeline ─┘
//! ```
//!
//! Invariants
//! * Every use of the node is a [`Engine::visit`]: it takes the lock, and leaves no event and no packet behind.
//! * At any time somebody drives the timers: each thread in [`Engine::wait`], and the background thread, which sleeps
//!   no longer than `wakes_at`. Whoever leaves and is not going to wait rings it if something is due before.

use crate::core::{Core, Grants, Phase};
use crate::entry::{Admission, Way};
use crate::errands::{self, Errands};
use crate::port::{CheckedOut, Port, Ports};
use crate::request::{Request, Standing};
use crate::session::Config;
use crate::socket::{RECEIVE_BYTES, Received, Socket, poll};
use crate::transport::TransportReport;
use crate::xsk::Reach;
use crate::{Error, clock};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::Waker;
use std::time::Duration;
use wayside_protocol::{Node, NodeConfig, RequestId, SessionInfo, Time};
use wayside_wire::limits::MAX_HOST_BYTES;
use wayside_wire::padded;

/// Looks into the socket between two looks at the clock, 100 to 200 ns each.
const LOOKS_PER_CLOCK: u32 = 8;
/// What an orderly end may take. The lifeline or the lease ends the session otherwise.
const LEAVE_MOST: Duration = Duration::from_millis(150);

pub(crate) struct Engine {
    pub(crate) config: Config,
    core: Mutex<Core>,
    /// The session's phase has changed.
    phase_changed: Condvar,
    ports: Arc<Ports>,
    /// Of the reply ports, where they use AF_XDP.
    reach: Option<Arc<Reach>>,
    /// Read by the background thread alone; its alarm wakes that thread.
    pub(crate) agent: Arc<Port>,
    /// Answers to tasks.
    pub(crate) reactor: Arc<Port>,
    next_timer: AtomicU64,
    /// When the background thread looks at the timers next; 0 while it is up.
    wakes_at: AtomicU64,
    lease_end: AtomicU64,
    closes_at: AtomicU64,
    /// How it stands with enrolment.
    pub(crate) admission: Admission,
    /// Which of the endpoints is in use, and where it leads.
    switch: Mutex<(usize, SocketAddrV4)>,
    /// What the network said last, for people.
    complaint: Mutex<Option<String>>,
}

impl Engine {
    pub(crate) fn new(config: Config) -> Result<Engine, Error> {
        let switch = config.endpoints[0].resolve()?;
        let reach = Reach::open(&config.transport)?;
        let agent = Arc::new(Port::open(switch, None).map_err(system)?);
        let reactor = Arc::new(Port::open(switch, None).map_err(system)?);
        let mut core = Core::new(Node::new(node_config(&config)));
        core.observer = config.observer.clone();
        core.ports.insert(0, agent.clone());
        core.ports.insert(reactor.socket.number(), reactor.clone());
        Ok(Engine {
            config,
            core: Mutex::new(core),
            phase_changed: Condvar::new(),
            ports: Arc::default(),
            reach,
            agent,
            reactor,
            next_timer: AtomicU64::new(u64::MAX),
            wakes_at: AtomicU64::new(0),
            lease_end: AtomicU64::new(0),
            closes_at: AtomicU64::new(u64::MAX),
            admission: Admission::default(),
            switch: Mutex::new((0, switch)),
            complaint: Mutex::new(None),
        })
    }

    /// Works with the node, then does what follows from it. The timers are the caller's until it waits or calls
    /// [`Engine::entrust_timers`].
    pub(crate) fn visit<R>(&self, work: impl FnOnce(&mut Core, Time, &mut Errands) -> R) -> R {
        let mut errands = errands::take();
        let mut core = self.core.lock();
        let now = clock::now();
        let due = self.next_timer.load(SeqCst);
        let result = work(&mut core, now, &mut errands);
        core.settle(now, &mut errands);
        let mut next = core.next_timer();
        if due > now.0 && next <= now {
            // The work itself made something due at once: the next of several locks.
            core.on_tick(now, &mut errands);
            core.settle(now, &mut errands);
            next = core.next_timer();
        }
        store_new(&self.next_timer, next);
        if let Some(end) = core.lease_end() {
            store_new(&self.lease_end, end);
        }
        drop(core);
        if errands.run() {
            self.phase_changed.notify_all();
            self.agent.alarm.ring();
        }
        errands::put_back(errands);
        result
    }

    /// Leaves the timers to the background thread, and wakes it if it would be late.
    pub(crate) fn entrust_timers(&self) {
        if self.next_timer.load(SeqCst) < self.wakes_at.load(SeqCst) {
            self.agent.alarm.ring();
        }
    }

    /// A visit of the background thread, after which it may sleep until the time that comes back.
    pub(crate) fn next_wake_up(&self) -> Time {
        let mut core = self.core.lock();
        let next = core.next_timer();
        self.wakes_at.store(next.0, SeqCst);
        next
    }

    pub(crate) fn is_up(&self) {
        self.wakes_at.store(0, SeqCst);
    }

    pub(crate) fn timers_are_due(&self) -> bool {
        clock::now().0 >= self.next_timer.load(SeqCst)
    }

    pub(crate) fn tick(&self) {
        self.visit(|core, now, errands| core.on_tick(now, errands));
    }

    /// The calling thread's reply port.
    pub(crate) fn check_out(&self) -> Result<CheckedOut, Error> {
        let open = || {
            // Held until the port is known, so that a switch that moves meanwhile takes it along.
            let switch = self.switch.lock();
            let port = Arc::new(Port::open(switch.1, self.reach.as_ref())?);
            self.core.lock().ports.insert(port.socket.number(), port.clone());
            Ok(port)
        };
        let port = self.ports.check_out(open).map_err(system)?;
        port.socket.settle();
        Ok(port)
    }

    /// Reads what has come to `socket`, at most `most` packets.
    pub(crate) fn drain(&self, socket: &Socket, most: u32) {
        let mut buffer = [0; RECEIVE_BYTES];
        for _ in 0..most {
            match socket.receive(&mut buffer) {
                Received::Packet(packet) => {
                    self.config.observer.received(packet);
                    self.visit(|core, now, _| core.node.on_packet(now, packet));
                }
                Received::Nothing => return,
                Received::Error(error) => self.complain(&error),
            }
        }
    }

    /// Reads the ports that no thread reads now: answers to releases arrive there.
    pub(crate) fn sweep(&self) {
        if let Some(reach) = &self.reach {
            reach.refresh(self.switch());
        }
        self.ports.for_each(|port| {
            if !port.is_taken() {
                self.drain(&port.socket, u32::MAX);
            }
        });
    }

    /// Waits until `done`, reading `socket` and driving the timers. Whoever makes it `done` rings `sleeper`.
    pub(crate) fn wait(&self, sleeper: &Port, socket: &Socket, done: impl Fn() -> bool) {
        let mut buffer = [0; RECEIVE_BYTES];
        let spins_until = self.config.wait.spins_until();
        let mut spins = spins_until > Time(0);
        let mut looks = 0;
        while !done() {
            if !spins {
                self.sleep(sleeper, socket, &done);
            }
            match if spins { socket.glance(&mut buffer) } else { socket.receive(&mut buffer) } {
                Received::Packet(packet) => {
                    self.config.observer.received(packet);
                    self.visit(|core, now, _| core.node.on_packet(now, packet));
                    continue;
                }
                Received::Nothing => {}
                Received::Error(error) => self.complain(&error),
            }
            looks += 1;
            if !spins || looks % LOOKS_PER_CLOCK == 0 {
                spins &= clock::now() < spins_until;
                if self.timers_are_due() {
                    self.tick();
                }
            }
        }
        self.entrust_timers();
    }

    fn sleep(&self, sleeper: &Port, socket: &Socket, done: &impl Fn() -> bool) {
        sleeper.asleep.store(true, SeqCst);
        if !done() && !socket.has_arrivals() {
            let most = clock::until(Time(self.next_timer.load(SeqCst)));
            let sockets = [socket.descriptor(), socket.second_descriptor()];
            let [_, _, rung] = poll([sockets[0], sockets[1], sleeper.alarm.descriptor()], most);
            if rung {
                sleeper.alarm.silence();
            }
        }
        sleeper.asleep.store(false, SeqCst);
    }

    /// Waits for a session, at most for as long as the caller or enrolling may take.
    pub(crate) fn await_session(&self, most: Option<Duration>) -> Result<(), Error> {
        let mut core = self.core.lock();
        let most = most.filter(|&most| most < self.config.patience);
        let end = clock::after(clock::now(), most.unwrap_or(self.config.patience));
        loop {
            if let Some(verdict) = self.verdict(&core) {
                return verdict.map(|_| ());
            }
            let left = clock::until(end);
            if left.is_zero() {
                return Err(if most.is_some() { Error::TimedOut } else { self.unavailable() });
            }
            self.phase_changed.wait_for(&mut core, left);
        }
    }

    /// The session, or why there will be none; None while that is not known.
    pub(crate) fn verdict(&self, core: &Core) -> Option<Result<SessionInfo, Error>> {
        match core.phase {
            Phase::Live => core.info().map(Ok),
            Phase::Enrolling | Phase::Lost => self.denial().map(Err),
            Phase::Refused(reason) => Some(Err(Error::Refused(self.refusal(reason)))),
            Phase::Closed => Some(Err(Error::Closed)),
        }
    }

    fn refusal(&self, reason: wayside_wire::Refusal) -> String {
        use wayside_wire::Refusal;
        match reason {
            Refusal::Version => {
                format!("it speaks another version than {}: update the older side", wayside_wire::MAJOR)
            }
            Refusal::Namespace => format!("it has no namespace {:?}", self.config.namespace),
            Refusal::Full => "all its handles are in use: end some sessions".into(),
            Refusal::None | Refusal::Recovering => "it gave no reason".into(),
        }
    }

    pub(crate) fn unavailable(&self) -> Error {
        let endpoint: Vec<String> = self.config.endpoints.iter().map(ToString::to_string).collect();
        let detail = self.complaint.lock().as_ref().map_or_else(String::new, |said| format!(" ({said})"));
        Error::Unavailable { endpoint: endpoint.join(", "), waited: self.config.patience, detail }
    }

    pub(crate) fn complain(&self, error: &impl std::fmt::Display) {
        *self.complaint.lock() = Some(error.to_string());
    }

    /// Begins the first session.
    pub(crate) fn start(self: &Arc<Self>) {
        let way = self.way_to(self.switch());
        self.visit(|core, now, _| self.set_out(core, now, &way));
        self.go_on(way);
    }

    /// Begins another session after one was lost or none was found: from new sockets, at the next endpoint that
    /// leads anywhere.
    pub(crate) fn enrol_anew(self: &Arc<Self>, next_endpoint: bool) {
        let mut switch = self.switch.lock();
        let silent = switch.1;
        let endpoints = &self.config.endpoints;
        let index = (switch.0 + usize::from(next_endpoint)) % endpoints.len();
        match endpoints[index].resolve() {
            Ok(address) => *switch = (index, address),
            Err(error) => {
                self.complain(&error);
                switch.0 = index;
            }
        }
        let address = switch.1;
        let way = self.way_to(address);
        self.visit(|core, now, errands| {
            core.lose(Phase::Enrolling, errands);
            let ports = std::mem::take(&mut core.ports);
            for (number, port) in ports {
                if let Err(error) = port.socket.reopen(address) {
                    self.complain(&error);
                }
                core.ports.insert(if number == 0 { 0 } else { port.socket.number() }, port);
            }
            core.node = Node::new(node_config(&self.config));
            self.set_out(core, now, &way);
        });
        drop(switch);
        if !next_endpoint {
            self.deny(None);
        } else if let Way::Packets = way {
            self.wonder_about(silent);
        }
        self.go_on(way);
    }

    /// Gives a request up, held or not. False: it was over already.
    pub(crate) fn give_up(&self, id: RequestId, request: Arc<Request>) -> bool {
        let known = self.visit(|core, now, errands| {
            if core.requests.contains_key(&id) {
                match request.standing() {
                    Standing::Held => core.node.release(now, id),
                    Standing::Waiting => core.node.cancel(now, id),
                    _ => {}
                }
            }
            request.end(Standing::Released);
            core.retire(id, request, errands)
        });
        self.entrust_timers();
        known
    }

    pub(crate) fn lease_end(&self) -> Time {
        Time(self.lease_end.load(SeqCst))
    }

    pub(crate) fn session(&self) -> (Phase, Option<SessionInfo>) {
        let core = self.core.lock();
        (core.phase, core.info())
    }

    pub(crate) fn patience(&self) -> Duration {
        self.config.patience
    }

    pub(crate) fn grants(&self) -> Grants {
        self.core.lock().grants
    }

    pub(crate) fn is_idle(&self) -> bool {
        // What was confirmed may lie unread where no thread reads now.
        self.sweep();
        self.core.lock().node.is_idle()
    }

    pub(crate) fn switch(&self) -> SocketAddrV4 {
        self.switch.lock().1
    }

    pub(crate) fn transport(&self) -> TransportReport {
        let asked = self.config.transport.clone();
        let Some(reach) = &self.reach else {
            return TransportReport { asked, hook: None, remark: None, ports: Vec::new() };
        };
        let mut report = reach.report(asked);
        self.ports.for_each(|port| report.ports.extend(port.socket.report()));
        report
    }

    /// Tells all who wait for a session that there is something to know.
    pub(crate) fn wake_newcomers(&self) {
        self.phase_changed.notify_all();
        self.call_newcomers();
    }

    /// Lets the tasks that wait for a session look at their deadlines.
    pub(crate) fn call_newcomers(&self) {
        let newcomers = std::mem::take(&mut self.core.lock().newcomers);
        newcomers.into_iter().for_each(Waker::wake);
    }

    /// Asks for the end of the session; the background thread sees it through.
    pub(crate) fn close(&self) {
        self.closes_at.store(clock::after(clock::now(), LEAVE_MOST).0, SeqCst);
        self.config.observer.closes();
        self.visit(|core, now, _| core.node.leave(now));
        self.agent.alarm.ring();
    }

    /// When the background thread ends, whatever the switch says.
    pub(crate) fn closes_at(&self) -> Time {
        Time(self.closes_at.load(SeqCst))
    }
}

/// A sequentially consistent store costs 5 ns, a look nothing; mostly there is nothing new.
fn store_new(to: &AtomicU64, time: Time) {
    if to.load(SeqCst) != time.0 {
        to.store(time.0, SeqCst);
    }
}

pub(crate) fn node_config(config: &Config) -> NodeConfig {
    NodeConfig {
        namespace: padded(&config.namespace).expect("its length was checked"),
        host: host(),
        pid: std::process::id(),
        lease_us: config.lease.map_or(0, |lease| u32::try_from(lease.as_micros()).unwrap_or(u32::MAX)),
        ..NodeConfig::new(seed())
    }
}

/// Two nodes with one seed would be taken for one.
fn seed() -> u64 {
    let mut seed = 0u64;
    // SAFETY: eight writable bytes.
    let filled = unsafe { libc::getrandom((&raw mut seed).cast(), 8, 0) };
    if filled == 8 { seed } else { wayside_wire::mix(clock::now().0 ^ u64::from(std::process::id()) << 40) }
}

/// The host's name, for people: cut where it is too long.
fn host() -> [u8; MAX_HOST_BYTES] {
    let mut name = [0u8; MAX_HOST_BYTES];
    // SAFETY: as many writable bytes as it is told; cut off without an error that matters.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
    name
}

pub(crate) fn system(error: io::Error) -> Error {
    Error::System(error.to_string())
}
