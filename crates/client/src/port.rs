//! Ports, and whose they are. A *reply port* is one thread's that waits, read by that thread itself, so that an acquire
//! which nobody disputes is one packet out and one packet in on one core.
//!
//! A thread keeps its port of a session until it ends; then another thread gets it. Ports are never closed before the
//! session is. Reading another thread's port does no harm: packets act through the session, which tells whoever
//! waits. So the background thread may sweep all of them.

use crate::driver::Seat;
use crate::ears::Ears;
use crate::errands;
use crate::fork::Origin;
use crate::links::{LINKS_MOST, Links, Others};
use crate::socket::{Alarm, Buffer, Socket};
use crate::wait::Habit;
use crate::xsk::Reach;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::RawFd;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, OnceLock, Weak};
use wayside_protocol::map::IdMap;

/// Looks of who spins between two at the ears, where only what comes from a switch without a link is heard.
const LOOKS_AT_EARS: u64 = 4;

/// A socket, and the alarm of the thread that waits for it.
pub(crate) struct Port {
    pub(crate) socket: Socket,
    /// From the first packet on that went to another switch than the session's; the agent's from the beginning.
    ears: OnceLock<Ears>,
    /// Of a thread's port.
    links: Option<Links>,
    /// A packet has gone to another switch since its thread waited last.
    has_asked_others: AtomicBool,
    pub(crate) alarm: Alarm,
    /// Something has changed for its thread since that looked: set first, then `asleep` is looked at.
    pub(crate) news: AtomicBool,
    /// Its thread sleeps, or is about to: set first, then `news` is looked at. All four steps are sequentially
    /// consistent, so one of the two sides sees the other.
    pub(crate) asleep: AtomicBool,
    /// Of how its thread waits.
    pub(crate) habit: Habit,
    /// A thread uses it now and reads it. Set and cleared by the thread that keeps it, and by no other.
    taken: AtomicBool,
}

impl Port {
    /// `reach`: by AF_XDP, too.
    pub(crate) fn open(switch: SocketAddrV4, reach: Option<&Arc<Reach>>) -> io::Result<Port> {
        Ok(Port {
            socket: Socket::open(switch, reach)?,
            ears: OnceLock::new(),
            links: None,
            has_asked_others: AtomicBool::new(false),
            alarm: Alarm::new()?,
            news: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            habit: Habit::default(),
            taken: AtomicBool::new(false),
        })
    }

    /// For a thread, which asks other switches too.
    pub(crate) fn open_for_thread(switch: SocketAddrV4, reach: Option<&Arc<Reach>>) -> io::Result<Port> {
        Ok(Port { links: Some(Links::default()), ..Port::open(switch, reach)? })
    }

    /// For tasks, of which many are answered at a time, and for agents and lock servers, whom many ask.
    pub(crate) fn open_for_many(switch: SocketAddrV4) -> io::Result<Port> {
        let port = Port::open(switch, None)?;
        Ok(Port { socket: port.socket.for_many(), ..port })
    }

    /// Hears other switches from now on, if it can. Its reader is woken, which sleeps on what there was before.
    pub(crate) fn hear_others(&self) -> bool {
        let opened = match self.ears.get() {
            Some(ears) if ears.is_of(&self.socket) => return true,
            Some(ears) => ears.follow(&self.socket),
            None => Ears::of(&self.socket).map(|ears| drop(self.ears.set(ears))),
        };
        if opened.is_ok() {
            self.alarm.ring();
        }
        opened.is_ok()
    }

    #[inline]
    pub(crate) fn ears(&self) -> Option<&Ears> {
        self.ears.get()
    }

    /// Sends what other switches than the session's see to. Lost where it cannot be sent.
    pub(crate) fn send_to(&self, packet: &[u8], others: Others) {
        self.has_asked_others.store(true, Relaxed);
        let is_sent = |links: &Links| links.send(&self.socket, packet, others);
        if self.links.as_ref().is_some_and(is_sent) {
            return;
        }
        match others.asked {
            Some(to) => self.socket.send_to(packet, to),
            None => self.socket.send(packet),
        }
        self.link(others);
    }

    /// Has links to these switches from now on, if it can.
    #[cold]
    fn link(&self, others: Others) {
        let Some(links) = &self.links else { return };
        let to = [others.asked, others.answers].into_iter().flatten();
        // Without one it is heard by the ears.
        if to.filter(|to| links.open(&self.socket, *to).unwrap_or(false)).count() > 0 {
            self.alarm.ring();
        }
    }

    /// Goes on at one of the other switches, by its own socket.
    pub(crate) fn redirect(&self, switch: SocketAddrV4) -> io::Result<()> {
        self.links.iter().for_each(Links::drop_all);
        self.socket.redirect(switch)
    }

    /// To sleep on besides its own sockets and its ears.
    pub(crate) fn links(&self) -> [RawFd; LINKS_MOST] {
        self.links.as_ref().map_or([-1; LINKS_MOST], Links::descriptors)
    }

    /// What another switch has said, if it is there: its length, and who.
    pub(crate) fn hear(&self, buffer: &mut Buffer) -> Option<(usize, SocketAddrV4)> {
        let by_link = self.links.as_ref().and_then(|links| links.receive(buffer));
        by_link.or_else(|| self.hear_strangers(buffer))
    }

    /// As [`Port::hear`], for who looks again and again: mostly by one look.
    #[inline]
    pub(crate) fn overhear(&self, look: u64, buffer: &mut Buffer) -> Option<(usize, SocketAddrV4)> {
        match &self.links {
            Some(links) if !look.is_multiple_of(LOOKS_AT_EARS) => links.glance(buffer),
            _ => self.hear_strangers(buffer),
        }
    }

    fn hear_strangers(&self, buffer: &mut Buffer) -> Option<(usize, SocketAddrV4)> {
        self.ears.get()?.receive(buffer).map(|(packet, from)| (packet.len(), from))
    }

    /// For who looks again and again, and has no time for what cannot be: whether something may come by the ears.
    #[inline]
    pub(crate) fn has_asked_others(&self) -> bool {
        self.has_asked_others.load(Relaxed)
    }

    /// For its thread, whose wait is over.
    #[inline]
    pub(crate) fn forget_others(&self) {
        if self.has_asked_others() {
            self.has_asked_others.store(false, Relaxed);
        }
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Relaxed)
    }

    /// For its thread: it reads it no more.
    pub(crate) fn give_back(&self) {
        self.taken.store(false, Relaxed);
    }

    /// For its thread: whether there is news, which it is going to look at.
    #[inline]
    pub(crate) fn take_news(&self) -> bool {
        self.news.load(Relaxed) && self.news.swap(false, SeqCst)
    }

    pub(crate) fn has_news(&self) -> bool {
        self.news.load(SeqCst)
    }
}

/// Which port of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Place {
    /// Opened with the session: what others send to its agents arrives there, and what other switches say.
    pub(crate) const AGENT: Place = Place(0);
    /// Likewise; for answers to tasks.
    pub(crate) const REACTOR: Place = Place(1);
    /// Likewise; for heartbeats after one that went unanswered.
    pub(crate) const PULSE: Place = Place(2);
}

/// The ports of one session: never moved, so that those who are told a place may look there without a lock.
pub(crate) struct Ports {
    /// Of this process; a session's address may be another session's later.
    session: u64,
    /// Block n has 8 * 2^n places: enough for every port number that there is.
    blocks: [OnceLock<Box<[OnceLock<Port>]>>; BLOCKS],
    count: Mutex<u32>,
    /// Of who sends and reads at the reactor port.
    pub(crate) seat: Seat,
    /// Those whose thread has ended.
    spare: Mutex<Vec<Place>>,
    origin: Origin,
}

/// Places by their local UDP number. Most packets go where the one before went.
#[derive(Default)]
pub(crate) struct Numbers {
    all: IdMap<u16, Place>,
    latest: Option<(u16, Place)>,
}

impl Numbers {
    pub(crate) fn insert(&mut self, number: u16, place: Place) {
        self.all.insert(number, place);
    }

    #[inline]
    pub(crate) fn place(&mut self, number: u16) -> Option<Place> {
        match self.latest {
            Some((latest, place)) if latest == number => Some(place),
            _ => {
                let place = *self.all.get(&number)?;
                self.latest = Some((number, place));
                Some(place)
            }
        }
    }

    /// All, which are no more.
    pub(crate) fn take(&mut self) -> IdMap<u16, Place> {
        self.latest = None;
        std::mem::take(&mut self.all)
    }
}

const BLOCKS: usize = 14;
const FIRST_BLOCK: u32 = 8;

impl Ports {
    pub(crate) fn new(agent: Port, reactor: Port, pulse: Port) -> io::Result<Ports> {
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        let ports = Ports {
            session: SESSIONS.fetch_add(1, Relaxed),
            blocks: [const { OnceLock::new() }; BLOCKS],
            count: Mutex::new(0),
            seat: Seat::default(),
            spare: Mutex::default(),
            origin: Origin::here(),
        };
        for port in [agent, reactor, pulse] {
            port.taken.store(true, Relaxed);
            ports.add(port)?;
        }
        Ok(ports)
    }

    /// Block and place within it.
    fn locate(Place(place): Place) -> (usize, usize) {
        let from_first = place + FIRST_BLOCK;
        let block = from_first.ilog2() - FIRST_BLOCK.ilog2();
        (block as usize, (from_first - (FIRST_BLOCK << block)) as usize)
    }

    #[inline]
    pub(crate) fn at(&self, place: Place) -> &Port {
        let (block, within) = Ports::locate(place);
        self.blocks[block].get().and_then(|ports| ports[within].get()).expect("a place is told once its port is there")
    }

    /// Sends to the session's switch. What tasks send may wait for their driver.
    #[inline]
    pub(crate) fn send(&self, place: Place, packet: &[u8]) {
        let socket = &self.at(place).socket;
        if place != Place::REACTOR || !self.seat.keep(socket, std::iter::once(packet)) {
            socket.send(packet);
        }
    }

    /// As [`Ports::send`], several.
    pub(crate) fn send_all<'p>(&self, place: Place, packets: impl Iterator<Item = &'p [u8]> + Clone) {
        let socket = &self.at(place).socket;
        if place != Place::REACTOR || !self.seat.keep(socket, packets.clone()) {
            socket.send_all(packets);
        }
    }

    pub(crate) fn add(&self, port: Port) -> io::Result<Place> {
        let mut count = self.count.lock();
        let place = Place(*count);
        let (block, within) = Ports::locate(place);
        let ports = self.blocks.get(block).ok_or(io::ErrorKind::OutOfMemory)?;
        let ports = ports.get_or_init(|| (0..FIRST_BLOCK << block).map(|_| OnceLock::new()).collect());
        assert!(ports[within].set(port).is_ok(), "the count rises with every port");
        *count += 1;
        Ok(place)
    }

    /// The calling thread's port, if it has one that it does not use.
    #[inline]
    pub(crate) fn kept(&self) -> Option<CheckedOut<'_>> {
        KEPT.try_with(|kept| {
            let kept = kept.borrow();
            let mut own = kept.iter().filter(|own| own.session == self.session);
            own.find_map(|own| {
                let port = self.at(own.place);
                (!port.is_taken()).then(|| CheckedOut::new(port, own.place, None))
            })
        })
        .ok()
        .flatten()
    }

    /// Another port for the calling thread. `open` adds a new one where none is spare.
    #[cold]
    pub(crate) fn another(self: &Arc<Self>, open: impl FnOnce() -> io::Result<Place>) -> io::Result<CheckedOut<'_>> {
        errands::prepare();
        let spare = self.spare.lock().pop();
        let place = spare.map_or_else(open, Ok)?;
        let kept = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            kept.retain(|own| own.ports.strong_count() > 0);
            kept.push(Kept { session: self.session, ports: Arc::downgrade(self), place });
        });
        // A thread that is ending has no storage any more: its port is spare when it is done with it.
        Ok(CheckedOut::new(self.at(place), place, kept.is_err().then_some(&**self)))
    }

    /// All of them.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Port> {
        let count = *self.count.lock();
        (0..count).map(|place| self.at(Place(place)))
    }
}

/// A port in use by the calling thread.
pub(crate) struct CheckedOut<'p> {
    port: &'p Port,
    pub(crate) place: Place,
    /// Where it is spare afterwards, for the thread does not keep it.
    spare_to: Option<&'p Ports>,
}

impl std::ops::Deref for CheckedOut<'_> {
    type Target = Port;

    fn deref(&self) -> &Port {
        self.port
    }
}

impl<'p> CheckedOut<'p> {
    #[inline]
    fn new(port: &'p Port, place: Place, spare_to: Option<&'p Ports>) -> Self {
        port.taken.store(true, Relaxed);
        CheckedOut { port, place, spare_to }
    }

    /// Leaves it in use until [`Port::give_back`].
    pub(crate) fn keep(self) -> Place {
        let place = self.place;
        std::mem::forget(self);
        place
    }
}

impl Drop for CheckedOut<'_> {
    #[inline]
    fn drop(&mut self) {
        self.port.give_back();
        if let Some(ports) = self.spare_to {
            ports.spare.lock().push(self.place);
        }
    }
}

/// A thread's port of one session; weak, for the session's end closes it.
struct Kept {
    session: u64,
    ports: Weak<Ports>,
    place: Place,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(ports) = self.ports.upgrade().filter(|ports| ports.origin.is_here()) {
            ports.spare.lock().push(self.place);
        }
    }
}

thread_local! {
    static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_one_cell_of_one_block() {
        let mut next = (0, 0);
        for place in 0..u32::from(u16::MAX) {
            assert_eq!(Ports::locate(Place(place)), next, "{place}");
            next = if next.1 + 1 == 8 << next.0 { (next.0 + 1, 0) } else { (next.0, next.1 + 1) };
        }
        assert!(next.0 < BLOCKS);
    }
}
