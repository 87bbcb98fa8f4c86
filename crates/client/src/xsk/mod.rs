//! AF_XDP: reply ports that bypass the kernel's network stack.
//!
//! ```text
//!   Session ── Reach: an interface (hook.rs) and the first step to the switch (route.rs)
//!                └── Flow, one a reply port ── Xsk: a socket on one queue (rings.rs, frame.rs)
//! ```
//!
//! A port begins with UDP alone. Once the XDP program has seen on which queue its answers come in, its thread binds an
//! AF_XDP socket there, if the queue is free: the network card chooses the queue, and no socket gets what comes in on
//! another one. The port's UDP socket stays: it keeps the number, has the kernel resolve addresses, receives what comes
//! in on other queues, and sends where AF_XDP cannot.

mod device;
mod frame;
mod hook;
mod rings;
mod route;

use crate::socket::Buffer;
use crate::transport::{PortReport, Transport, TransportReport};
use crate::{Error, clock};
use frame::Envelope;
use hook::{Interface, NO_QUEUE, Queue};
use parking_lot::Mutex;
use rings::Xsk;
use route::Hop;
use std::net::SocketAddrV4;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use wayside_protocol::Time;

/// How often the way to the switch is asked for at most: about as long as a router's address is wrong after it moved.
const WAY_REFRESH: Duration = Duration::from_secs(1);
/// While there is none.
const WAY_SOUGHT: Duration = Duration::from_millis(20);
/// How often a port looks whether it can have a socket; a system call.
const QUEUE_SOUGHT: Duration = Duration::from_millis(20);
/// After so many times it is a conflict and no socket of before that the kernel, within half a second, takes down.
const QUEUE_PATIENCE: u32 = 50;
const QUEUE_CONFLICT: Duration = Duration::from_secs(1);
/// Of packets in a row that nothing was received after, every eighth goes by UDP: a way that has died costs
/// retransmissions, not the session.
const BY_UDP: u32 = 8;
/// In copy mode the kernel sends so many packets when it is told to, and leaves the others in the ring.
const KICK_AFTER: u32 = 32;
/// Looks at the ring between two looks at the UDP socket, which cost a system call.
const RING_LOOKS: u32 = 64;

/// How the ports of a session reach the switch by AF_XDP.
pub(crate) struct Reach {
    interface: Arc<Interface>,
    first_queue: u32,
    way: Mutex<Result<Way, String>>,
    /// Rises with every look at the way, from 1: a port that could not send tries again.
    version: AtomicU32,
    looks_at_way: AtomicU64,
}

#[derive(Clone, Copy)]
struct Way {
    mac: [u8; 6],
    hop: Hop,
}

impl Reach {
    /// None: by UDP, as asked for.
    pub(crate) fn open(transport: &Transport) -> Result<Option<Arc<Reach>>, Error> {
        let Transport::AfXdp { interface, first_queue } = transport else { return Ok(None) };
        let interface = Interface::open(interface)?;
        if *first_queue >= interface.queues {
            let Interface { name, queues, .. } = &*interface;
            let why = format!("{name} has no queue {first_queue}: it has {queues}, from 0");
            return Err(Error::Transport(why));
        }
        Ok(Some(Arc::new(Reach {
            interface,
            first_queue: *first_queue,
            way: Mutex::new(Err("the way to the switch is not known yet".into())),
            version: AtomicU32::new(1),
            looks_at_way: AtomicU64::new(0),
        })))
    }

    /// Asks the kernel for the way to the switch, if that was long ago.
    pub(crate) fn refresh(&self, switch: SocketAddrV4) {
        let now = clock::now();
        if now < Time(self.looks_at_way.load(Relaxed)) {
            return;
        }
        let Interface { name, index, .. } = &*self.interface;
        let mac = || device::address(name).ok().flatten().ok_or_else(|| format!("{name} has no Ethernet address"));
        let way = route::hop(*index, *switch.ip()).and_then(|hop| Ok(Way { mac: mac()?, hop }));
        let next = if way.is_ok() { WAY_REFRESH } else { WAY_SOUGHT };
        self.looks_at_way.store(clock::after(now, next).0, Relaxed);
        *self.way.lock() = way;
        self.version.fetch_add(1, Release);
    }

    /// Without the ports.
    pub(crate) fn report(&self, asked: Transport) -> TransportReport {
        let hook = Some(self.interface.mode);
        let remark = self.way.lock().as_ref().err().cloned().or_else(|| self.interface.remark.clone());
        TransportReport { asked, hook, remark, ports: Vec::new() }
    }
}

/// What a reply port has besides its UDP socket.
pub(crate) struct Flow {
    reach: Arc<Reach>,
    /// This host's address and port, and the switch's.
    ends: Mutex<(SocketAddrV4, SocketAddrV4)>,
    number: AtomicU32,
    bound: OnceLock<Bound>,
    /// Why it is not bound.
    remark: Mutex<String>,
    looks_for_queue: AtomicU64,
    tries: AtomicU32,
    looks: AtomicU32,
    unanswered: AtomicU32,
    strays: AtomicU64,
}

struct Bound {
    /// Before the queue: a queue is free when its socket is closed.
    socket: Xsk,
    queue: Queue,
}

impl Flow {
    /// For the UDP port `own`, connected to the switch.
    pub(crate) fn open(reach: &Arc<Reach>, own: SocketAddrV4, switch: SocketAddrV4) -> Flow {
        let flow = Flow {
            reach: reach.clone(),
            ends: Mutex::new((own, switch)),
            number: AtomicU32::new(own.port().into()),
            bound: OnceLock::new(),
            remark: Mutex::new("nothing has come in yet".into()),
            looks_for_queue: AtomicU64::new(0),
            tries: AtomicU32::new(0),
            looks: AtomicU32::new(0),
            unanswered: AtomicU32::new(0),
            strays: AtomicU64::new(0),
        };
        flow.enter(own, switch, NO_QUEUE);
        flow
    }

    /// Makes the port known to the program. Without that it goes by UDP, and so do its answers.
    fn enter(&self, own: SocketAddrV4, switch: SocketAddrV4, queue: u32) {
        if let Err(error) = self.reach.interface.enter(own, switch, queue) {
            *self.remark.lock() = format!("the program takes no more ports: {error}");
            self.looks_for_queue.store(u64::MAX, Relaxed);
        }
    }

    /// The UDP port is another one now, or the switch is.
    pub(crate) fn reopen(&self, own: SocketAddrV4, switch: SocketAddrV4) {
        // Not held on: who sends has the socket first, and asks for these then.
        let former = std::mem::replace(&mut *self.ends.lock(), (own, switch));
        self.reach.interface.remove(former.0.port());
        self.number.store(own.port().into(), Relaxed);
        self.reach.looks_at_way.store(0, Relaxed);
        let queue = self.bound.get().map_or(NO_QUEUE, |bound| bound.queue.number);
        if let Some(bound) = self.bound.get() {
            let mut outgoing = bound.socket.outgoing.lock();
            (outgoing.envelope, outgoing.way) = (None, 0);
        }
        self.enter(own, switch, queue);
    }

    /// Binds a socket if that is possible by now. Only the port's own thread may: another one could be asleep on the
    /// UDP socket alone, while its answer comes to the new one.
    pub(crate) fn settle(&self) {
        if self.bound.get().is_none() && clock::now() >= Time(self.looks_for_queue.load(Relaxed)) {
            self.seek_queue();
        }
    }

    #[cold]
    fn seek_queue(&self) {
        let wait = match self.bind() {
            Ok(bound) => {
                let (own, switch) = *self.ends.lock();
                let number = bound.queue.number;
                if self.bound.set(bound).is_ok() {
                    self.enter(own, switch, number);
                }
                return;
            }
            Err((why, wait)) => {
                *self.remark.lock() = why;
                wait
            }
        };
        self.looks_for_queue.store(clock::after(clock::now(), wait).0, Relaxed);
    }

    /// A socket on the queue that the answers come in on; otherwise why there is none, and when to try again.
    fn bind(&self) -> Result<Bound, (String, Duration)> {
        let Reach { interface, first_queue, .. } = &*self.reach;
        let (own, switch) = *self.ends.lock();
        let Some(number) = interface.seen(own.port()) else {
            return Err((format!("nothing has come in by {} yet", interface.name), QUEUE_SOUGHT));
        };
        let queue = format!("queue {number}, where its answers come in,");
        if number < *first_queue {
            return Err((format!("{queue} is below the first to be used, {first_queue}"), QUEUE_CONFLICT));
        }
        let Some(claimed) = interface.claim(number) else {
            return Err((
                format!("{queue} is another thread's: {} has {}", interface.name, interface.queues),
                QUEUE_CONFLICT,
            ));
        };
        let copy = interface.mode == crate::transport::HookMode::Generic;
        match Xsk::bind(interface.index, number, copy).and_then(|socket| {
            claimed.connect(socket.descriptor())?;
            Ok(socket)
        }) {
            Ok(socket) => {
                self.reach.refresh(switch);
                Ok(Bound { socket, queue: claimed })
            }
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                let conflict = self.tries.fetch_add(1, Relaxed) >= QUEUE_PATIENCE;
                let wait = if conflict { QUEUE_CONFLICT } else { QUEUE_SOUGHT };
                Err((format!("{queue} has the AF_XDP socket of another process, or of one that just ended"), wait))
            }
            Err(error) => {
                let lock =
                    if error.raw_os_error() == Some(libc::ENOBUFS) { " (`ulimit -l`: 512 KiB a thread)" } else { "" };
                Err((format!("{queue} could not be bound: {error}{lock}"), Duration::MAX))
            }
        }
    }

    /// Sends packets, and leaves to UDP those that cannot go this way.
    #[inline]
    pub(crate) fn send<'p>(&self, packets: impl Iterator<Item = &'p [u8]> + Clone, by_udp: impl Fn(&'p [u8])) {
        let Some(bound) = self.bound.get() else { return packets.for_each(by_udp) };
        let mut outgoing = bound.socket.outgoing.lock();
        let version = self.reach.version.load(Acquire);
        if outgoing.way != version {
            (outgoing.envelope, outgoing.way) = (self.envelope(), version);
        }
        let mut kicked = Ok(());
        for packet in packets.clone() {
            // Only a count for a rule of thumb: that another thread's packet may be missed does no harm.
            let unanswered = self.unanswered.load(Relaxed);
            self.unanswered.store(unanswered.wrapping_add(1), Relaxed);
            if unanswered % BY_UDP == BY_UDP - 1 || !outgoing.push(packet) {
                by_udp(packet);
            } else if outgoing.pushed == KICK_AFTER {
                kicked = kicked.and(bound.socket.kick(&mut outgoing));
            }
        }
        if outgoing.pushed > 0 {
            kicked = kicked.and(bound.socket.kick(&mut outgoing));
        }
        if kicked.is_err() {
            // The interface is down, or gone. What did go comes twice, which does no harm.
            outgoing.envelope = None;
            drop(outgoing);
            packets.for_each(by_udp);
        }
    }

    fn envelope(&self) -> Option<Envelope> {
        let way = self.reach.way.lock().clone().ok()?;
        let (own, switch) = *self.ends.lock();
        (*own.ip() == way.hop.own).then(|| Envelope::new([way.mac, way.hop.next], own, switch))
    }

    /// The length of the next packet, if there is one, cut off where `buffer` ends.
    pub(crate) fn receive(&self, buffer: &mut Buffer) -> Option<usize> {
        let socket = &self.bound.get()?.socket;
        if !socket.has_arrivals() {
            return None;
        }
        let number = self.number.load(Relaxed) as u16;
        let mut incoming = socket.incoming.lock();
        loop {
            let copied = incoming.next(|frame| frame::packet_for(number, frame).map(|packet| buffer.fill(packet)))?;
            if copied.is_some() {
                self.is_answered();
                return copied;
            }
        }
    }

    pub(crate) fn has_arrivals(&self) -> bool {
        self.bound.get().is_some_and(|bound| bound.socket.has_arrivals())
    }

    /// Whether a look at the UDP socket can be left out this time.
    pub(crate) fn spares_udp(&self) -> bool {
        let looks = self.looks.load(Relaxed);
        self.looks.store(looks.wrapping_add(1), Relaxed);
        self.bound.get().is_some() && !looks.is_multiple_of(RING_LOOKS)
    }

    /// Counts a packet that came by UDP.
    pub(crate) fn count_stray(&self) {
        self.is_answered();
        if self.bound.get().is_some() {
            self.strays.fetch_add(1, Relaxed);
        }
    }

    fn is_answered(&self) {
        if self.unanswered.load(Relaxed) != 0 {
            self.unanswered.store(0, Relaxed);
        }
    }

    /// What to poll besides the UDP socket; negative while there is nothing.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.bound.get().map_or(-1, |bound| bound.socket.descriptor())
    }

    pub(crate) fn report(&self) -> PortReport {
        let number = self.number.load(Relaxed) as u16;
        let strays = self.strays.load(Relaxed);
        match self.bound.get() {
            Some(Bound { socket, queue }) => PortReport {
                number,
                queue: Some(queue.number),
                zero_copy: socket.zero_copy,
                sent: socket.outgoing.lock().count,
                received: socket.incoming.lock().count,
                strays,
                remark: None,
            },
            None => PortReport { number, remark: Some(self.remark.lock().clone()), ..PortReport::default() },
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.reach.interface.remove(self.ends.get_mut().0.port());
    }
}
