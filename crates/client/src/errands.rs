//! What is to be done once the session's lock is free again: packets to send, threads and tasks to wake, questions to
//! answer.
//!
//! Mostly that is nothing, or one packet of one entry, which is kept here. The rest is in lists, one set of them per
//! thread, made before that thread works with a session and used again, so that none of this allocates after the first
//! times. A task that is woken may run at once, in
//! [`Errands::run`], and call Wayside again: then that call gets lists of its own.

use crate::fetch::Server;
use crate::links::Others;
use crate::port::{Place, Ports};
use std::cell::Cell;
use std::net::SocketAddrV4;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::task::Waker;
use wayside_protocol::Fetch;

pub(crate) struct Errands {
    /// Port of the thread whose errands these are, where it waits: it looks for itself.
    reader: Option<Place>,
    /// Something has changed for that thread.
    pub(crate) told: bool,
    /// All that was done is of locks that nobody else wants ([`wayside_protocol::Node::was_quick`]).
    pub(crate) is_quick: bool,
    /// The first packet, if it is short and for the session's switch: where it goes from, its length and its bytes.
    first: Option<(Place, usize)>,
    short: [u8; SHORT],
    rest: Option<Box<Rest>>,
}

struct Rest {
    /// The session's switch is this one now: ports are to lead there before anything is sent.
    moves_to: Option<SocketAddrV4>,
    bytes: Vec<u8>,
    packets: Vec<Packet>,
    /// Threads that something has changed for.
    told: Vec<Place>,
    wakers: Vec<Waker>,
    /// Written by a caller: dropped without the lock.
    forgotten: Vec<Waker>,
    /// What others ask of this process.
    fetches: Vec<(Server, Fetch)>,
    phase_changed: bool,
}

/// A packet in `Rest::bytes`.
#[derive(Clone, Copy)]
struct Packet {
    /// To send it from.
    port: Place,
    /// The switch, where that or the one that answers is not the session's.
    to: Option<Others>,
    end: usize,
}

/// A packet of one entry.
const SHORT: usize = wayside_wire::entry_at(1);
/// Room for two full packets, or some thirty of one entry.
const BYTES: usize = 2 * wayside_wire::limits::MAX_PACKET_BYTES;

impl Errands {
    #[inline]
    pub(crate) fn new(reader: Option<Place>) -> Errands {
        Errands { reader, told: false, is_quick: false, first: None, short: [0; SHORT], rest: None }
    }

    /// The session goes on at this switch, where what it sends from now on is to arrive.
    pub(crate) fn move_to(&mut self, switch: SocketAddrV4) {
        self.rest().moves_to = Some(switch);
    }

    /// Where the session has moved to. To be seen to before the rest.
    #[inline]
    pub(crate) fn moves_to(&mut self) -> Option<SocketAddrV4> {
        self.rest.as_mut().and_then(|rest| rest.moves_to.take())
    }

    /// `to`: a switch, where that or the one that answers is not the session's.
    #[inline]
    pub(crate) fn send(&mut self, port: Place, to: Option<Others>, packet: &[u8]) {
        if self.first.is_none()
            && self.rest.is_none()
            && to.is_none()
            && let Some(short) = self.short.get_mut(..packet.len())
        {
            short.copy_from_slice(packet);
            self.first = Some((port, packet.len()));
        } else {
            let rest = self.rest();
            rest.bytes.extend_from_slice(packet);
            rest.packets.push(Packet { port, to, end: rest.bytes.len() });
        }
    }

    /// Tells the port's thread that something has changed for it.
    #[inline]
    pub(crate) fn tell(&mut self, port: Place) {
        if self.reader == Some(port) {
            self.told = true;
        } else {
            self.rest().told.push(port);
        }
    }

    /// Calls these tasks.
    pub(crate) fn wake(&mut self, wakers: &mut Vec<Waker>) {
        self.rest().wakers.append(wakers);
    }

    /// The same.
    pub(crate) fn wake_all(&mut self, wakers: impl Iterator<Item = Waker>) {
        self.rest().wakers.extend(wakers);
    }

    /// Has somebody's question answered.
    pub(crate) fn serve(&mut self, server: &Server, question: Fetch) {
        self.rest().fetches.push((server.clone(), question));
    }

    /// Drops what a caller wrote.
    pub(crate) fn forget(&mut self, wakers: &mut Vec<Waker>) {
        if !wakers.is_empty() {
            self.rest().forgotten.append(wakers);
        }
    }

    /// The same.
    pub(crate) fn forget_one(&mut self, waker: Waker) {
        self.rest().forgotten.push(waker);
    }

    /// The session has begun or ended.
    pub(crate) fn tell_newcomers(&mut self, newcomers: &mut Vec<Waker>) {
        self.wake(newcomers);
        self.rest().phase_changed = true;
    }

    #[cold]
    fn rest(&mut self) -> &mut Rest {
        self.rest.get_or_insert_with(Rest::take)
    }

    /// Does everything. True: the session has begun or ended.
    #[inline]
    pub(crate) fn run(&mut self, ports: &Ports) -> bool {
        (self.first.is_some() || self.rest.is_some()) && self.run_all(ports)
    }

    fn run_all(&mut self, ports: &Ports) -> bool {
        if let Some((port, bytes)) = self.first {
            ports.send(port, &self.short[..bytes]);
        }
        self.rest.take().is_some_and(|rest| rest.run(ports))
    }
}

/// Makes the calling thread's lists.
pub(crate) fn prepare() {
    Rest::take().put_back();
}

impl Rest {
    fn new() -> Box<Rest> {
        Box::new(Rest {
            moves_to: None,
            bytes: Vec::with_capacity(BYTES),
            packets: Vec::with_capacity(32),
            told: Vec::with_capacity(8),
            wakers: Vec::with_capacity(8),
            forgotten: Vec::with_capacity(8),
            fetches: Vec::new(),
            phase_changed: false,
        })
    }

    /// The calling thread's, empty; a new one while that is in use, or when the thread is ending.
    fn take() -> Box<Rest> {
        OWN.try_with(Cell::take).ok().flatten().unwrap_or_else(Rest::new)
    }

    fn run(mut self: Box<Rest>, ports: &Ports) -> bool {
        let mut from = 0;
        for run in self.packets.chunk_by(|one, next| (one.port, one.to) == (next.port, next.to)) {
            let packet =
                |from: &mut usize, packet: &Packet| Some(&self.bytes[std::mem::replace(from, packet.end)..packet.end]);
            let (packets, place) = (run.iter().scan(from, packet), run[0].port);
            match run[0].to {
                None => ports.send_all(place, packets),
                Some(to) => {
                    let port = ports.at(place);
                    // Where it could not hear the answer, the agent port does.
                    let port = if port.hear_others() { port } else { ports.at(Place::AGENT) };
                    packets.for_each(|packet| port.send_to(packet, to));
                }
            }
            from = run[run.len() - 1].end;
        }
        self.packets.clear();
        self.bytes.clear();
        for place in self.told.drain(..) {
            let port = ports.at(place);
            port.news.store(true, SeqCst);
            if port.asleep.load(SeqCst) {
                port.alarm.ring();
            }
        }
        self.forgotten.clear();
        self.wakers.drain(..).for_each(Waker::wake);
        for (server, question) in self.fetches.drain(..) {
            // It is the application's, and this thread is the session's own. Who asked hears that there is nothing,
            // since the question is dropped; whoever runs the application, what its panic hook says.
            let _ = catch_unwind(AssertUnwindSafe(|| server(question)));
        }
        let phase_changed = std::mem::take(&mut self.phase_changed);
        self.put_back();
        phase_changed
    }

    /// It is empty.
    fn put_back(self: Box<Rest>) {
        let _ = OWN.try_with(|own| own.set(Some(self)));
    }
}

thread_local! {
    static OWN: Cell<Option<Box<Rest>>> = const { Cell::new(None) };
}
