//! The data path: one thread's loop of receive, decide, send. No allocation, no lock, no clock but to stop spinning.

use super::batch::Batch;
use super::controller::Inbox;
use crate::config::Wait;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wayside_switch::{Action, Switch};
use wayside_wire::limits::MAX_PACKET_BYTES;

/// What an adaptive worker spins for after its last packet: about the cost of being woken, so that it never spends
/// more than twice what the better of spinning and sleeping would have cost.
const SPIN: Duration = Duration::from_micros(50);

/// What the workers count besides the switch's own counters.
#[derive(Default)]
pub struct Traffic {
    pub received: AtomicU64,
    pub sent: AtomicU64,
    /// The kernel refused to send them.
    pub unsent: AtomicU64,
}

/// What every worker of a switch shares.
#[derive(Clone)]
pub struct Worker {
    pub switch: Arc<Switch>,
    pub socket: Arc<UdpSocket>,
    pub inbox: Inbox,
    pub wait: Wait,
    pub traffic: Arc<Traffic>,
    pub stop: Arc<AtomicBool>,
}

impl Worker {
    /// Runs until `stop` is set and the socket is shut down, which wakes those that sleep.
    pub fn run(self) -> std::io::Result<()> {
        let socket = self.socket.as_fd();
        let mut batch = Batch::new();
        let mut last = Instant::now();
        let mut poll = self.wait != Wait::Block;
        while !self.stop.load(Ordering::Relaxed) {
            let count = batch.receive(socket, poll)?;
            if self.wait == Wait::Adaptive {
                if count > 0 {
                    last = Instant::now();
                    poll = true;
                } else if poll {
                    poll = last.elapsed() < SPIN;
                }
            }
            if count == 0 {
                continue;
            }
            for index in 0..count {
                self.decide(&mut batch, index);
            }
            let sent = batch.send(socket);
            self.traffic.received.fetch_add(count as u64, Ordering::Relaxed);
            self.traffic.sent.fetch_add(sent.sent as u64, Ordering::Relaxed);
            if sent.failed > 0 {
                self.traffic.unsent.fetch_add(sent.failed as u64, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn decide(&self, batch: &mut Batch, index: usize) {
        let (packet, from) = batch.datagram(index);
        let verdict = self.switch.process(packet, from);
        let to = match verdict.action {
            Action::Drop => return,
            Action::ToSender => Some(from),
            Action::ToNode { handle, port } => self.switch.address(handle, port),
            Action::ToController => {
                self.inbox.packet(from, &packet[..verdict.length.min(MAX_PACKET_BYTES)]);
                None
            }
        };
        if let Some(agent) = verdict.copy.and_then(|agent| self.switch.address(agent, 0)) {
            batch.queue_copy(index, agent, |packet, copy| {
                copy[..verdict.length].copy_from_slice(&packet[..verdict.length]);
                Switch::make_join(copy);
                verdict.length
            });
        }
        if let Some(to) = to {
            batch.queue(index, verdict.length, to);
        }
    }
}
