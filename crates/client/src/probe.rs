//! The bare way of a packet, without the protocol: what a round trip by a transport takes, for whoever chooses one.

use crate::socket::{RECEIVE_BYTES, Received, Socket, poll};
use crate::transport::{PortReport, Transport};
use crate::xsk::Reach;
use crate::{Error, Wait, clock};
use std::net::SocketAddrV4;
use std::time::{Duration, Instant};
use wayside_protocol::Time;

/// An acquire's length.
const BYTES: usize = 64;
/// Round trips before those that count: AF_XDP takes over within the first ones.
const WARM_UP: Duration = Duration::from_millis(300);
/// A packet that takes longer is lost.
const LOST: Duration = Duration::from_millis(100);
/// So many in a row are no accident.
const MOST_LOST: u32 = 20;

/// Sends packets, one at a time, to a server that sends them back: what each of `count` took, and by which way they
/// went; None: by UDP, as asked for.
///
/// # Errors
/// [`Error::Transport`] if the transport cannot be had, [`Error::System`] without sockets, [`Error::TimedOut`] if nothing
/// comes back.
pub fn round_trips(
    transport: &Transport,
    echo: SocketAddrV4,
    wait: Wait,
    count: usize,
) -> Result<(Vec<Duration>, Option<PortReport>), Error> {
    let system = |error: std::io::Error| Error::System(error.to_string());
    let reach = Reach::open(transport)?;
    let socket = Socket::open(echo, reach.as_ref()).map_err(system)?;
    let warm = Instant::now() + WARM_UP;
    let mut times = Vec::with_capacity(count);
    let (mut sequence, mut lost) = (0u64, 0);
    while times.len() < count {
        socket.settle();
        sequence += 1;
        let began = Instant::now();
        if round_trip(&socket, wait, sequence) {
            lost = 0;
            let ended = Instant::now();
            if began >= warm {
                times.push(ended - began);
            } else if let Some(reach) = &reach {
                reach.refresh(echo);
            }
        } else {
            lost += 1;
            if lost == MOST_LOST {
                return Err(Error::TimedOut);
            }
        }
    }
    Ok((times, socket.report()))
}

/// False: it is lost.
fn round_trip(socket: &Socket, wait: Wait, sequence: u64) -> bool {
    let mut packet = [0; BYTES];
    packet[..8].copy_from_slice(&sequence.to_ne_bytes());
    let spins_until = wait.spins_until();
    let lost_at = clock::after(clock::now(), LOST);
    let mut spins = spins_until > Time(0);
    let mut buffer = [0; RECEIVE_BYTES];
    socket.send(&packet);
    loop {
        if !spins && !socket.has_arrivals() {
            poll([socket.descriptor(), socket.second_descriptor()], clock::until(lost_at));
        }
        match if spins { socket.glance(&mut buffer) } else { socket.receive(&mut buffer) } {
            Received::Packet(answer) if answer == packet => return true,
            // Late ones, and errors of those before.
            Received::Packet(_) | Received::Error(_) => {}
            Received::Nothing => {
                let now = clock::now();
                spins &= now < spins_until;
                if now >= lost_at {
                    return false;
                }
            }
        }
    }
}
