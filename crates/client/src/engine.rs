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
//! * What visits publish for those without the lock (`next_timer`, `lease`) is written with the lock
//!   held.
//! * At any time somebody drives the timers: who spins in [`Engine::wait`], and the background thread, which sleeps no
//!   longer than `wakes_at`. Whoever leaves, or sleeps, rings it if something is due before. Threads that sleep drive
//!   the timers only if it does not in time: woken by each other's timers, hundreds of them would do nothing else.

use crate::core::{Core, Grants, Phase};
use crate::driver::Seat;
use crate::ears::Ears;
use crate::endpoint::Endpoint;
use crate::entry::{Admission, Way};
use crate::errands::Errands;
use crate::fork::Origin;
use crate::lease::Lease;
use crate::port::{CheckedOut, Place, Port, Ports};
use crate::request::Begun;
use crate::session::Config;
use crate::socket::{AT_ONCE, Buffer, Received, Socket, poll};
use crate::transport::TransportReport;
use crate::xsk::Reach;
use crate::{Error, clock};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::task::Waker;
use std::time::Duration;
use wayside_protocol::{Node, NodeConfig, RequestId, SessionInfo, Time};
use wayside_wire::limits::MAX_HOST_BYTES;
use wayside_wire::{Header, kind, padded, service};

/// Packets that a sweep reads of a port: a socket with the usual room has 280 of one entry.
const SWEPT: u32 = 512;
/// Packets that are worked on under one lock: a few microseconds of others' time at most.
const WORKED_ON_AT_ONCE: usize = 32;
/// Requests that are given up under one lock: of a million, others and the heartbeats would wait for seconds.
const GIVEN_UP_AT_ONCE: usize = 256;
/// Looks into the socket between two looks at the clock, 100 to 200 ns each.
const LOOKS_PER_CLOCK: u64 = 8;
/// A thread that sleeps looks after timers that are late by so much: the background thread may be looking up names.
const TIMERS_LATE: Duration = Duration::from_millis(50);
/// What an orderly end may take. The lifeline or the lease ends the session otherwise.
const LEAVE_MOST: Duration = Duration::from_millis(150);
/// How long it waits before that for what was given back to be taken over: whoever waits for it would have to ask
/// again, and come into any order.
const LINGER: Duration = Duration::from_millis(100);

pub(crate) struct Engine {
    pub(crate) config: Config,
    /// In any other process nothing is sent, and nobody waits for this lock.
    origin: Origin,
    pub(crate) core: Mutex<Core>,
    /// The session's phase has changed.
    phase_changed: Condvar,
    ports: Arc<Ports>,
    /// Of the reply ports, where they use AF_XDP.
    reach: Option<Arc<Reach>>,
    next_timer: AtomicU64,
    /// When the background thread looks at the timers next; 0 while it is up.
    wakes_at: AtomicU64,
    lease: Lease,
    closes_at: AtomicU64,
    /// Until when a session that is being closed waits for its locks to be taken over; the end of time if it does not.
    lingers_until: AtomicU64,
    /// How it stands with enrolment.
    pub(crate) admission: Admission,
    /// Which of the endpoints is in use, and where it leads. One more than there are: where the session has moved.
    switch: Mutex<(usize, SocketAddrV4)>,
    /// The switch that announced itself last, if one did.
    moved: Mutex<Option<SocketAddrV4>>,
    /// Where the endpoints lead: who announces itself from elsewhere must sign that.
    known: Mutex<Vec<SocketAddrV4>>,
    /// What the network said last, for people.
    pub(crate) complaint: Mutex<Option<String>>,
}

impl Engine {
    pub(crate) fn new(config: Config) -> Result<Engine, Error> {
        let found = resolved(&config.endpoints);
        let (index, switch) = first(&found)?;
        let reach = Reach::open(&config.transport)?;
        let open = || Port::open(switch, None).map_err(system);
        let open_for_many = || Port::open_for_many(switch).map_err(system);
        let ports = Ports::new(open_for_many()?, open_for_many()?, open()?).map_err(system)?;
        let mut core = Core::new(Node::new(node_config(&config)), switch);
        core.observer = config.observer.clone();
        core.ports.insert(0, Place::AGENT);
        for place in [Place::REACTOR, Place::PULSE] {
            core.ports.insert(ports.at(place).socket.number(), place);
        }
        // Where it can't, a switch that takes another one's place is found once the session is lost.
        for place in [Place::AGENT, Place::REACTOR] {
            ports.at(place).hear_others();
        }
        Ok(Engine {
            config,
            origin: Origin::here(),
            known: Mutex::new(addresses(&found)),
            core: Mutex::new(core),
            phase_changed: Condvar::new(),
            ports: Arc::new(ports),
            reach,
            next_timer: AtomicU64::new(u64::MAX),
            wakes_at: AtomicU64::new(0),
            lease: Lease::default(),
            closes_at: AtomicU64::new(u64::MAX),
            lingers_until: AtomicU64::new(u64::MAX),
            admission: Admission::default(),
            switch: Mutex::new((index, switch)),
            moved: Mutex::new(None),
            complaint: Mutex::new(None),
        })
    }

    /// Whether the session is this process's, and not that of one which has forked it.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.origin.is_here()
    }

    pub(crate) fn port(&self, place: Place) -> &Port {
        self.ports.at(place)
    }

    /// What others send to this node's agents arrives there. Read by the background thread alone, which its alarm
    /// wakes.
    pub(crate) fn agent(&self) -> &Port {
        self.ports.at(Place::AGENT)
    }

    /// Answers to tasks arrive there, other switches' by its ears.
    pub(crate) fn reactor(&self) -> &Port {
        self.ports.at(Place::REACTOR)
    }

    /// Of who sends and reads for the tasks.
    pub(crate) fn seat(&self) -> &Seat {
        &self.ports.seat
    }

    /// Answers to heartbeats that had to be repeated arrive there, and nothing else: however much comes to the other
    /// ports, there is room for these.
    pub(crate) fn pulse(&self) -> &Port {
        self.ports.at(Place::PULSE)
    }

    /// Works with the node, then does what follows from it. The timers are the caller's until it waits or calls
    /// [`Engine::entrust_timers`].
    #[inline]
    pub(crate) fn visit<R>(&self, work: impl FnOnce(&mut Core, Time, &mut Errands) -> R) -> R {
        self.visit_and_look(None, work, |_, _, result| result)
    }

    /// As [`Engine::visit`]; once all is settled, and before the lock is free again, `look` sees what came of it. For
    /// the thread of the port `reader`, which is not told what it sees there.
    #[inline]
    pub(crate) fn visit_and_look<R, L>(
        &self,
        reader: Option<Place>,
        work: impl FnOnce(&mut Core, Time, &mut Errands) -> R,
        look: impl FnOnce(&mut Core, &mut Errands, R) -> L,
    ) -> L {
        self.visit_at(None, reader, work, look)
    }

    /// As [`Engine::visit_and_look`], at a time that the caller has just seen.
    #[inline]
    fn visit_at<R, L>(
        &self,
        now: Option<Time>,
        reader: Option<Place>,
        work: impl FnOnce(&mut Core, Time, &mut Errands) -> R,
        look: impl FnOnce(&mut Core, &mut Errands, R) -> L,
    ) -> L {
        let mut errands = Errands::new(reader);
        let seen = self.visit_only(now, &mut errands, work, look);
        self.run(&mut errands);
        seen
    }

    /// As [`Engine::visit_at`], but for what follows from it, which is left to the caller: [`Engine::run`].
    #[inline]
    fn visit_only<R, L>(
        &self,
        now: Option<Time>,
        errands: &mut Errands,
        work: impl FnOnce(&mut Core, Time, &mut Errands) -> R,
        look: impl FnOnce(&mut Core, &mut Errands, R) -> L,
    ) -> L {
        let mut core = self.core.lock();
        let now = core.latest.max(now.unwrap_or_else(clock::now));
        core.latest = now;
        let due = self.next_timer.load(Relaxed);
        let result = work(&mut core, now, errands);
        core.settle(now, errands);
        // The background thread looks at the timers by then, or is up: it finds out which of them are needless by now.
        let is_looked_at = errands.is_quick && self.wakes_at.load(Relaxed) <= due;
        let mut next = if is_looked_at { core.next_timer_or(Time(due)) } else { core.next_timer() };
        if due > now.0 && next <= now {
            // The work itself made something due at once: the next of several locks.
            core.on_tick(now, errands);
            core.settle(now, errands);
            next = core.next_timer();
        }
        let seen = look(&mut core, errands, result);
        if due != next.0 {
            self.next_timer.store(next.0, Relaxed);
        }
        self.publish_lease(&core);
        seen
    }

    /// Does what follows from a visit. Wakers are called, which are the application's: no lock is held.
    #[inline]
    fn run(&self, errands: &mut Errands) {
        if let Some(switch) = errands.moves_to() {
            self.move_to(switch);
        }
        if errands.run(&self.ports) {
            self.phase_changed.notify_all();
            self.agent().alarm.ring();
            self.seat().call();
        }
    }

    #[inline]
    fn publish_lease(&self, core: &Core) {
        let (incarnation, end) = core.info().map_or((0, Time(0)), |info| (info.incarnation, info.lease_end));
        self.lease.publish(incarnation, end);
    }

    /// Leaves the timers to the background thread, and wakes it if it would be late. Both times were written with the
    /// lock held, so of that thread and the caller the later one saw what the other wrote.
    #[inline]
    pub(crate) fn entrust_timers(&self) {
        if self.next_timer.load(Relaxed) < self.wakes_at.load(Relaxed) {
            self.agent().alarm.ring();
        }
    }

    /// A visit of the background thread, after which it may sleep until the time that comes back.
    pub(crate) fn next_wake_up(&self) -> Time {
        let mut core = self.core.lock();
        let next = core.next_timer();
        self.wakes_at.store(next.0, Relaxed);
        next
    }

    pub(crate) fn is_up(&self) {
        self.wakes_at.store(0, Relaxed);
    }

    pub(crate) fn timers_are_due(&self) -> bool {
        clock::now().0 >= self.next_timer.load(Relaxed)
    }

    pub(crate) fn tick(&self) {
        self.visit(|core, now, errands| core.on_tick(now, errands));
    }

    /// The calling thread's reply port. Always in line: handed over as a result, with room for an error's text, it
    /// would cost more than it takes to find.
    #[inline(always)]
    pub(crate) fn check_out(&self) -> Result<CheckedOut<'_>, Error> {
        if !self.is_here() {
            return Err(Error::Closed);
        }
        let port = match self.ports.kept() {
            Some(port) => port,
            None => self.check_out_another()?,
        };
        port.socket.settle();
        Ok(port)
    }

    #[cold]
    fn check_out_another(&self) -> Result<CheckedOut<'_>, Error> {
        let open = || {
            // Held until the port is known, so that a switch that moves meanwhile takes it along.
            let switch = self.switch.lock();
            let port = Port::open_for_thread(switch.1, self.reach.as_ref())?;
            let number = port.socket.number();
            let place = self.ports.add(port)?;
            self.core.lock().ports.insert(number, place);
            Ok(place)
        };
        self.ports.another(open).map_err(system)
    }

    /// Reads what has come to `socket`, at most `most` packets or trains of them. Whether that was all.
    pub(crate) fn drain(&self, socket: &Socket, most: u32) -> bool {
        for _ in 0..most.div_ceil(AT_ONCE as u32) {
            if self.read_some(socket) {
                return true;
            }
        }
        false
    }

    /// Reads a few packets, or trains of them, and works on them in a few visits. Whether there were no more.
    fn read_some(&self, socket: &Socket) -> bool {
        let read = socket.receive_some(|packets| {
            let mut packets = packets.peekable();
            while packets.peek().is_some() {
                self.visit(|core, now, _| {
                    packets.by_ref().take(WORKED_ON_AT_ONCE).for_each(|packet| {
                        self.config.observer.received(packet);
                        core.node.on_packet(now, packet);
                    });
                });
            }
        });
        read.unwrap_or_else(|error| {
            self.complain(&error);
            false
        })
    }

    /// Where AF_XDP finds the switch, if that was long ago.
    pub(crate) fn look_for_the_way(&self) {
        if let Some(reach) = &self.reach {
            reach.refresh(self.switch());
        }
    }

    /// Reads the ports that no thread reads now: answers to releases arrive there. Of each no more than fills it, or
    /// whoever is answered fast enough would keep the caller here.
    pub(crate) fn sweep(&self) {
        self.look_for_the_way();
        if self.seat().is_taken() {
            self.drain(&self.reactor().socket, SWEPT);
            self.listen_at(self.reactor(), SWEPT);
        }
        for port in self.ports.each().filter(|port| !port.is_taken()) {
            self.drain(&port.socket, SWEPT);
            self.listen_at(port, SWEPT);
        }
    }

    /// As [`Engine::wait`], unless what it waits for is `seen` already: then nobody stays who would look after the
    /// timers.
    #[inline]
    pub(crate) fn wait_unless<T>(
        &self,
        seen: Option<T>,
        port: &CheckedOut<'_>,
        socket: &Socket,
        now: Time,
        look: impl FnMut(&mut Core, &mut Errands) -> Option<T>,
    ) -> T {
        match seen {
            Some(seen) => {
                self.entrust_timers();
                seen
            }
            None => self.wait(port, socket, now, look),
        }
    }

    /// Waits until `look` sees something, reading `socket` and driving the timers. It looks whenever something has
    /// changed for the thread of `port` since the visit before, with the lock held.
    ///
    /// `now` is when that visit was. Who spins sees the time at every [`LOOKS_PER_CLOCK`]-th look, and what comes in
    /// between comes at the time that was seen last: a thread may be stopped between any clock and what it does then,
    /// so nothing that others rely on may depend on that being later.
    pub(crate) fn wait<T>(
        &self,
        port: &CheckedOut<'_>,
        socket: &Socket,
        mut now: Time,
        mut look: impl FnMut(&mut Core, &mut Errands) -> Option<T>,
    ) -> T {
        let (mut buffer, mut behind) = (Buffer::new(), Buffer::new());
        let mut spin = self.config.wait.spin(&port.habit);
        let mut looks = 0;
        let reader = Some(port.place);
        let mut look_if_told =
            |core: &mut Core, errands: &mut Errands, ()| errands.told.then(|| look(core, errands)).flatten();
        let seen = loop {
            if port.take_news() {
                let told = self.visit_at(Some(now), reader, |_, _, errands| errands.told = true, &mut look_if_told);
                if let Some(seen) = told {
                    break seen;
                }
            }
            looks += 1;
            if !spin.is_on() {
                self.sleep(port, socket);
                now = clock::now();
            } else if looks % LOOKS_PER_CLOCK == 0 {
                now = clock::now();
                spin.is_on_at(now);
            }
            let spins = spin.is_on();
            let heard = match spins {
                false => port.hear(&mut buffer),
                true if port.has_asked_others() => port.overhear(looks, &mut buffer),
                true => None,
            };
            if let Some((bytes, from)) = heard {
                match self.hear(buffer.filled(bytes), from, Some(now), reader, &mut look_if_told) {
                    Some(seen) => break seen,
                    None => continue,
                }
            }
            match look_into(socket, spins, &mut buffer) {
                Received::Packet(packet) => {
                    self.config.observer.received(packet);
                    // Who gave a lock back before finds that confirmed, and what he waits for behind it: one visit for
                    // both.
                    let next = if confirms(packet) { look_into(socket, spins, &mut behind) } else { Received::Nothing };
                    let next = match next {
                        Received::Packet(next) => Some(next),
                        Received::Nothing => None,
                        Received::Error(error) => {
                            self.complain(&error);
                            None
                        }
                    };
                    next.inspect(|next| self.config.observer.received(next));
                    let work = |core: &mut Core, now, errands: &mut Errands| {
                        core.node.on_packet(now, packet);
                        errands.is_quick = core.node.was_quick();
                        if let Some(next) = next {
                            core.node.on_packet(now, next);
                            errands.is_quick &= core.node.was_quick();
                        }
                    };
                    match self.visit_at(Some(now), reader, work, &mut look_if_told) {
                        Some(seen) => break seen,
                        None => continue,
                    }
                }
                Received::Nothing => {}
                Received::Error(error) => self.complain(&error),
            }
            if now.0 >= self.next_timer.load(Relaxed) {
                let tick = |core: &mut Core, now, errands: &mut _| core.on_tick(now, errands);
                if let Some(seen) = self.visit_at(Some(now), reader, tick, &mut look_if_told) {
                    break seen;
                }
            }
        };
        port.forget_others();
        self.entrust_timers();
        seen
    }

    fn sleep(&self, port: &Port, socket: &Socket) {
        port.asleep.store(true, SeqCst);
        if !port.has_news() && !socket.has_arrivals() {
            self.entrust_timers();
            let most = clock::until(Time(self.next_timer.load(Relaxed))).saturating_add(TIMERS_LATE);
            let ears = port.ears().map_or(-1, Ears::descriptor);
            let [a, b, c, d, e, f] = port.links();
            let own = [port.alarm.descriptor(), socket.descriptor(), socket.second_descriptor(), ears];
            let [rung, ..] = poll([own[0], own[1], own[2], own[3], a, b, c, d, e, f], most);
            if rung {
                port.alarm.silence();
            }
        }
        port.asleep.store(false, Relaxed);
    }

    /// Waits for a session, at most for as long as the caller or enrolling may take.
    pub(crate) fn await_session(&self, most: Option<Duration>) -> Result<(), Error> {
        if !self.is_here() {
            return Err(Error::Closed);
        }
        let mut core = self.core.lock();
        let most = most.filter(|&most| most < self.config.patience);
        let end = clock::after(clock::now(), most.unwrap_or(self.config.patience));
        loop {
            if let Some(verdict) = self.verdict(&core) {
                return verdict.map(|_| ());
            }
            let left = clock::until(end);
            if left.is_zero() {
                return Err(if most.is_some() { Error::TimedOut } else { self.lack(&core) });
            }
            self.phase_changed.wait_for(&mut core, left);
        }
    }

    /// Begins the first session.
    pub(crate) fn start(self: &Arc<Self>) {
        let way = self.way_to(self.switch());
        self.visit(|core, now, _| self.set_out(core, now, &way));
        self.go_on(way);
    }

    /// Begins another session after one was lost or none was found: from new sockets, at the next endpoint that
    /// leads anywhere. Names of hosts are looked up by a thread of their own, however long that takes where the network
    /// is gone: whoever calls this has others to look after.
    pub(crate) fn enrol_anew(self: &Arc<Self>, next_endpoint: bool) {
        let endpoints = &self.config.endpoints;
        if endpoints.iter().all(Endpoint::is_address) {
            return self.enrol_at(&resolved(endpoints), next_endpoint);
        }
        let endpoints = endpoints.clone();
        self.in_thread_of(&self.admission.looking, move || {
            let found = resolved(&endpoints);
            Box::new(move |engine| engine.enrol_at(&found, next_endpoint))
        });
    }

    /// `found`: where each endpoint leads.
    fn enrol_at(self: &Arc<Self>, found: &[Result<SocketAddrV4, Error>], next_endpoint: bool) {
        let (before, silent) = *self.switch.lock();
        let moved = *self.moved.lock();
        let index = (before + usize::from(next_endpoint)) % (found.len() + usize::from(moved.is_some()));
        let address = match found.get(index) {
            Some(Ok(address)) => *address,
            Some(Err(error)) => {
                self.complain(error);
                silent
            }
            None => moved.unwrap_or(silent),
        };
        *self.known.lock() = addresses(found);
        let way = self.way_to(address);
        let mut errands = Errands::new(None);
        let mut switch = self.switch.lock();
        let begins = |core: &mut Core, now, errands: &mut Errands| {
            // An answer that came meanwhile is as good.
            if matches!(core.phase, Phase::Live | Phase::Closed) {
                return false;
            }
            if next_endpoint {
                // Nothing has answered: what was said before is no reason any more.
                core.refused = None;
            }
            core.lose(Phase::Enrolling, errands);
            for (number, place) in core.ports.take() {
                let socket = &self.ports.at(place).socket;
                if let Err(error) = socket.reopen(address) {
                    self.complain(&error);
                }
                core.ports.insert(if number == 0 { 0 } else { socket.number() }, place);
            }
            core.take_node(Node::new(node_config(&self.config)));
            (core.switch, core.former) = (address, None);
            self.set_out(core, now, &way);
            true
        };
        let has_begun = self.visit_only(None, &mut errands, begins, |_, _, has_begun| has_begun);
        if has_begun {
            *switch = (index, address);
            // Before whoever reads for the tasks is called, and looks which sockets there are.
            for port in [self.agent(), self.reactor()] {
                port.hear_others();
            }
        }
        drop(switch);
        self.run(&mut errands);
        if !has_begun {
            return;
        }
        if !next_endpoint {
            self.deny(None);
        } else if let Way::Packets = way {
            self.wonder_about(silent);
        }
        self.go_on(way);
    }

    /// Whether there is more than one switch to ask.
    pub(crate) fn has_choice(&self) -> bool {
        self.config.endpoints.len() > 1 || self.moved.lock().is_some()
    }

    /// Where the endpoints lead.
    pub(crate) fn known(&self) -> Vec<SocketAddrV4> {
        self.known.lock().clone()
    }

    /// Hears what other switches have said to a port, at most `most` packets. Whether that was all.
    pub(crate) fn listen_at(&self, port: &Port, most: u32) -> bool {
        let mut buffer = Buffer::new();
        for _ in 0..most {
            let Some((bytes, from)) = port.hear(&mut buffer) else { return true };
            self.hear(buffer.filled(bytes), from, None, None, |_, _, ()| ());
        }
        false
    }

    /// Another switch than the session's answers about keys, or announces that it serves now: then the session goes on
    /// there, with all that it holds. It is believed if it speaks of a later epoch, or of a later turn of this one, and
    /// either signs that or is known: one of the endpoints, or of those that keys are at. And so is the one before, if
    /// it serves again: its first word was read by sockets that led to another one by then, and tells nothing new when
    /// it comes again. `reader`, `now` and `look` as in [`Engine::visit_at`].
    fn hear<L>(
        &self,
        packet: &[u8],
        from: SocketAddrV4,
        now: Option<Time>,
        reader: Option<Place>,
        look: impl FnOnce(&mut Core, &mut Errands, ()) -> L,
    ) -> L {
        self.config.observer.received(packet);
        let is_endpoint = self.known.lock().contains(&from);
        let work = |core: &mut Core, now, errands: &mut Errands| {
            let turn = |core: &Core| core.info().map(|info| (info.epoch, core.node.turn()));
            let before = turn(core);
            let is_known = is_endpoint || core.node.knows_switch(from);
            if before.is_none() || !is_known && !core.node.signs() {
                return;
            }
            core.node.on_packet(now, packet);
            let after = turn(core);
            let serves_again = after.is_some() && core.node.is_called() && core.former == Some(from);
            if (after > before || serves_again) && core.switch != from {
                core.former = Some(core.switch);
                core.switch = from;
                errands.move_to(from);
            }
        };
        self.visit_at(now, reader, work, look)
    }

    /// All ports go on with this switch, before what it is answered leaves by them: it would take the switch until its
    /// next question. With the core's lock free, and before anybody is told of anything: whoever is may ask for a port
    /// at once, and one that is opened meanwhile is redirected too, or opened there.
    fn move_to(&self, to: SocketAddrV4) {
        let mut switch = self.switch.lock();
        if self.core.lock().switch != to {
            // Another session has begun meanwhile, at its own switch.
            return;
        }
        *switch = (self.config.endpoints.len(), to);
        *self.moved.lock() = Some(to);
        for port in self.ports.each() {
            if let Err(error) = port.redirect(to) {
                self.complain(&error);
            }
        }
    }

    /// Gives requests up, held or not. How many of them were over already, or past the end of their hold.
    #[inline]
    pub(crate) fn give_up(&self, requests: impl Iterator<Item = Begun>) -> usize {
        if !self.is_here() {
            return requests.count();
        }
        let (mut requests, mut lost) = (requests.peekable(), 0);
        while requests.peek().is_some() {
            lost += self.visit(|core, now, errands| {
                let lease_end = core.info().map_or(Time(0), |info| info.lease_end);
                let mut lost = 0;
                errands.is_quick = true;
                for begun in requests.by_ref().take(GIVEN_UP_AT_ONCE) {
                    let end = core.book.of(begun).grant.until.min(lease_end);
                    lost += usize::from(!core.give_up(now, begun, errands) || now >= end);
                }
                lost
            });
        }
        self.entrust_timers();
        lost
    }

    /// Until when the holds of the session that gave out this id are safe; long ago if there is none any more.
    pub(crate) fn lease_end(&self, id: RequestId) -> Time {
        if self.is_here() { self.lease.end_of(id) } else { Time(0) }
    }

    /// See [`Lease::promised`].
    pub(crate) fn promised(&self) -> Time {
        self.lease.promised()
    }

    pub(crate) fn session(&self) -> (Phase, Option<SessionInfo>) {
        if !self.is_here() {
            return (Phase::Closed, None);
        }
        let core = self.core.lock();
        (core.phase, core.info())
    }

    /// The session, while there is one, and under which epoch it began.
    pub(crate) fn standing(&self) -> Option<(SessionInfo, u32)> {
        self.is_here().then_some(())?;
        let core = self.core.lock();
        Some((core.info()?, core.begun_under))
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn is_closed(&self) -> bool {
        !self.is_here() || self.core.lock().phase == Phase::Closed
    }

    pub(crate) fn patience(&self) -> Duration {
        self.config.patience
    }

    pub(crate) fn grants(&self) -> Grants {
        if self.is_here() { self.core.lock().grants } else { Grants::default() }
    }

    pub(crate) fn is_idle(&self) -> bool {
        if !self.is_here() {
            return true;
        }
        // Who asks waits for it, as a rule, and sends nothing that would carry the question along.
        let port = self.ports.kept().map_or(0, |port| port.socket.number());
        self.visit(|core, now, _| core.node.settle_freed(now, port));
        // What was confirmed may lie unread where no thread reads now.
        self.sweep();
        self.core.lock().node.is_idle()
    }

    pub(crate) fn kept(&self) -> usize {
        if self.is_here() { self.core.lock().node.kept() } else { 0 }
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
        report.ports.extend(self.ports.each().filter_map(|port| port.socket.report()));
        report
    }

    /// Tells all who wait for a session that there is something to know: with the lock, or who has just looked and is
    /// about to sleep would miss it.
    pub(crate) fn wake_newcomers(&self) {
        self.visit(|core, _, errands| {
            errands.tell_newcomers(&mut core.newcomers);
            core.watchers.tell_all(errands);
        });
    }

    /// Lets the tasks that wait for a session look at their deadlines.
    pub(crate) fn call_newcomers(&self) {
        let newcomers = std::mem::take(&mut self.core.lock().newcomers);
        newcomers.into_iter().for_each(Waker::wake);
    }

    /// Asks for the end of the session; the background thread sees it through.
    pub(crate) fn close(&self) {
        if !self.is_here() {
            return;
        }
        let lingers_until = clock::after(clock::now(), LINGER);
        self.closes_at.store(clock::after(lingers_until, LEAVE_MOST).0, SeqCst);
        self.lingers_until.store(lingers_until.0, SeqCst);
        self.config.observer.closes();
        self.visit(|core, now, _| {
            core.node.keep_no_more(now);
            core.node.settle_freed(now, 0);
        });
        self.leave_once_settled();
        self.agent().alarm.ring();
    }

    /// Whether the session is being closed, and waits for its locks to be taken over.
    pub(crate) fn lingers(&self) -> bool {
        self.lingers_until.load(SeqCst) != u64::MAX
    }

    /// Leaves, for a session that is being closed, unless what it gave back is still under way.
    pub(crate) fn leave_once_settled(&self) {
        // The runtime that would send for its tasks may be what waits here; confirmations come to ports that nobody
        // reads any more.
        self.seat().send_kept(&self.reactor().socket);
        self.sweep();
        self.visit(|core, now, _| {
            if self.lingers() && (!core.hands_over() || now.0 >= self.lingers_until.load(SeqCst)) {
                self.lingers_until.store(u64::MAX, SeqCst);
                core.node.leave(now);
            }
        });
    }

    /// When the background thread ends, whatever the switch says.
    pub(crate) fn closes_at(&self) -> Time {
        Time(self.closes_at.load(SeqCst))
    }
}

/// Where each endpoint leads now.
fn resolved(endpoints: &[Endpoint]) -> Vec<Result<SocketAddrV4, Error>> {
    endpoints.iter().map(Endpoint::resolve).collect()
}

/// Where those lead that lead anywhere.
fn addresses(found: &[Result<SocketAddrV4, Error>]) -> Vec<SocketAddrV4> {
    found.iter().flatten().copied().collect()
}

/// The first of them; why there is none.
fn first(found: &[Result<SocketAddrV4, Error>]) -> Result<(usize, SocketAddrV4), Error> {
    let index = found.iter().position(Result::is_ok).unwrap_or(0);
    found[index].clone().map(|address| (index, address))
}

fn look_into<'b>(socket: &Socket, spins: bool, buffer: &'b mut Buffer) -> Received<'b> {
    if spins { socket.glance(buffer) } else { socket.receive(buffer) }
}

/// Whether a packet confirms what was given back: nobody waits for it.
#[inline]
fn confirms(packet: &[u8]) -> bool {
    let kinds = [kind::lock::RETENURED, kind::lock::FREED, kind::lock::RELEASED];
    Header::read(packet).is_ok_and(|header| header.service == service::LOCK && kinds.contains(&header.kind))
}

pub(crate) fn node_config(config: &Config) -> NodeConfig {
    let (shards, domain) = config.placed.as_ref().map_or((0, None), |placed| {
        let (shards, domain) = placed.domain();
        (shards, Some(domain))
    });
    NodeConfig {
        namespace: padded(&config.namespace).expect("its length was checked"),
        host: host(),
        pid: std::process::id(),
        lease_us: config.lease.map_or(0, |lease| u32::try_from(lease.as_micros()).unwrap_or(u32::MAX)),
        lock_server: config.lock_server,
        kept_most: config.keep,
        shards,
        domain,
        ..NodeConfig::new(seed())
    }
}

/// Two nodes with one seed would be taken for one.
pub(crate) fn seed() -> u64 {
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

#[cfg(test)]
mod tests;
