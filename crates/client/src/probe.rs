//! The bare way of a packet, without the protocol: what a round trip by a transport takes, for whoever chooses one.

use crate::port::Place;
use crate::session::Connection;
use crate::socket::{Buffer, RECEIVE_BYTES, Received, Socket, poll};
use crate::transport::{PortReport, Transport};
use crate::wait::{Habit, Spin};
use crate::xsk::Reach;
use crate::{Error, Session, Wait, clock};
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An acquire's length.
const BYTES: usize = 64;
/// Round trips before those that count: AF_XDP takes over within the first ones.
const WARM_UP: Duration = Duration::from_millis(300);
/// A packet that takes longer is lost.
const LOST: Duration = Duration::from_millis(100);
/// So many in a row are no accident.
const MOST_LOST: u32 = 20;

/// A way to a server that sends back what it gets.
pub struct Probe {
    reach: Option<Arc<Reach>>,
    socket: Socket,
    echo: SocketAddrV4,
    wait: Wait,
    habit: Habit,
    sequence: u64,
    tended: Option<Instant>,
}

impl Probe {
    /// Opens it. The first packets may go another way: [`Probe::tend`].
    ///
    /// # Errors
    /// [`Error::Transport`] if the transport cannot be had, [`Error::System`] without sockets.
    pub fn open(transport: &Transport, echo: SocketAddrV4, wait: Wait) -> Result<Probe, Error> {
        let reach = Reach::open(transport)?;
        let socket = Socket::open(echo, reach.as_ref()).map_err(|error| Error::System(error.to_string()))?;
        Ok(Probe { reach, socket, echo, wait, habit: Habit::default(), sequence: 0, tended: None })
    }

    /// Keeps the way: takes over from UDP once packets have shown where they come in, and asks for the route once a
    /// second. To be called now and then, apart from what is timed.
    pub fn tend(&mut self) {
        self.socket.settle();
        let Some(reach) = &self.reach else { return };
        if self.tended.is_none_or(|at| at.elapsed() > Duration::from_secs(1)) {
            reach.refresh(self.echo);
            self.tended = Some(Instant::now());
        }
    }

    /// One packet of `bytes` bytes (8 to the longest that there is) there and back. False: it is lost.
    pub fn round_trip(&mut self, bytes: usize) -> bool {
        self.sequence += 1;
        let mut packet = [0; RECEIVE_BYTES];
        let packet = &mut packet[..bytes.clamp(8, RECEIVE_BYTES - 1)];
        packet[..8].copy_from_slice(&self.sequence.to_ne_bytes());
        let packet = &*packet;
        self.exchange(packet, |answer| answer == packet)
    }

    /// One packet there, and an answer that is `accepted`; any other is ignored. False: it is lost.
    pub fn exchange(&self, packet: &[u8], accepted: impl FnMut(&[u8]) -> bool) -> bool {
        exchange(&self.socket, self.wait.spin(&self.habit), packet, accepted)
    }

    /// Which way packets go; None: by UDP, as asked for.
    pub fn report(&self) -> Option<PortReport> {
        self.socket.report()
    }
}

/// The calling thread's way to the switch within a session, without the session's requests: what is asked for here, its
/// node knows nothing of. For measurements of the switch. Where packets are signed it is of no use: these are not.
#[doc(hidden)]
pub struct Bypass {
    connection: Arc<Connection>,
    place: Place,
}

impl Bypass {
    /// Takes the thread's port of this session until dropped: an acquire meanwhile would open another one.
    ///
    /// # Errors
    /// [`Error::System`] without sockets.
    pub fn of(session: &Session) -> Result<Bypass, Error> {
        let connection = session.connection.clone();
        let place = connection.engine.check_out()?.keep();
        Ok(Bypass { connection, place })
    }

    /// One packet there, and an answer that is `accepted`; any other is the session's. False: it is lost.
    pub fn exchange(&self, packet: &[u8], mut accepted: impl FnMut(&[u8]) -> bool) -> bool {
        let engine = &self.connection.engine;
        let port = engine.port(self.place);
        exchange(&port.socket, engine.config.wait.spin(&port.habit), packet, |answer| {
            let taken = accepted(answer);
            if !taken {
                self.hand_in(answer);
            }
            taken
        })
    }

    /// Gives the session an answer that was accepted here. What it grants no request waits for, so the node gives it
    /// back.
    pub fn hand_in(&self, answer: &[u8]) {
        self.connection.engine.visit(|core, now, _| core.node.on_packet(now, answer));
        self.connection.engine.entrust_timers();
    }
}

impl Drop for Bypass {
    fn drop(&mut self) {
        self.connection.engine.port(self.place).give_back();
    }
}

/// Sends packets, one at a time, to a server that sends them back: what each of `count` took, and by which way they
/// went; None: by UDP, as asked for.
///
/// # Errors
/// [`Error::Transport`] if the transport cannot be had, [`Error::System`] without sockets, [`Error::TimedOut`] if
/// nothing comes back.
pub fn round_trips(
    transport: &Transport,
    echo: SocketAddrV4,
    wait: Wait,
    count: usize,
) -> Result<(Vec<Duration>, Option<PortReport>), Error> {
    let mut probe = Probe::open(transport, echo, wait)?;
    let warm = Instant::now() + WARM_UP;
    let mut times = Vec::with_capacity(count);
    let mut lost = 0;
    while times.len() < count {
        if Instant::now() < warm {
            probe.tended = None;
        }
        probe.tend();
        let began = Instant::now();
        if probe.round_trip(BYTES) {
            lost = 0;
            let ended = Instant::now();
            if began >= warm {
                times.push(ended - began);
            }
        } else {
            lost += 1;
            if lost == MOST_LOST {
                return Err(Error::TimedOut);
            }
        }
    }
    Ok((times, probe.report()))
}

/// False: it is lost.
fn exchange(socket: &Socket, mut spin: Spin<'_>, packet: &[u8], mut accepted: impl FnMut(&[u8]) -> bool) -> bool {
    let lost_at = clock::after(clock::now(), LOST);
    let mut buffer = Buffer::new();
    socket.send(packet);
    loop {
        if !spin.is_on() && !socket.has_arrivals() {
            poll([socket.descriptor(), socket.second_descriptor()], clock::until(lost_at));
        }
        match if spin.is_on() { socket.glance(&mut buffer) } else { socket.receive(&mut buffer) } {
            Received::Packet(answer) if accepted(answer) => return true,
            // Late ones, and errors of those before.
            Received::Packet(_) | Received::Error(_) => {}
            Received::Nothing => {
                let now = clock::now();
                spin.is_on_at(now);
                if now >= lost_at {
                    return false;
                }
            }
        }
    }
}
