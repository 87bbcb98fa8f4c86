//! Ways to those whom the program at the hook does not hear: it learns where a node is from the node's heartbeats, and
//! the other switches of a chain send none, nor do clients whose session is at one of those. What the program has no
//! way for, it hands to the daemon, which sends it by the kernel's routes; and asks here, so that the next one need not
//! go that way.
//!
//! Invariants
//! * A way is written for a handle only while the node that has it is at the address for which the way was found.
//! * What was found here is looked up again every second, as a neighbour may get another card; until a heartbeat
//!   teaches the program another way.

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use wayside_switch::Switch;
use wayside_switch::xdp::interfaces::Interface;
use wayside_switch::xdp::neighbors::way_to;

/// Between two looks at all that were found.
const AGAIN: Duration = Duration::from_secs(1);
/// Between two attempts for a handle whose next hop the kernel does not know.
const PAUSE: Duration = Duration::from_millis(50);
/// Questions that wait. What finds no room is asked again by the next packet.
const WAITING: usize = 256;

/// The thread that looks ways up; it ends with its owner.
pub struct Ways {
    switch: Arc<Switch>,
    asked: SyncSender<u16>,
}

impl Ways {
    /// `ports`: the switch's, in the order of their numbers, once they are known.
    pub fn start(switch: Arc<Switch>, ports: Arc<OnceLock<Vec<Interface>>>) -> io::Result<Ways> {
        let (asked, questions) = sync_channel(WAITING);
        let mut search = Search { switch: Arc::clone(&switch), ports, found: HashMap::new(), tried: HashMap::new() };
        thread::Builder::new().name("ways".into()).spawn(move || search.run(&questions))?;
        Ok(Ways { switch, asked })
    }

    /// A packet to this node was sent by the kernel's routes.
    pub fn ask(&self, handle: u16) {
        if self.switch.way(handle) == Some(0) {
            let _ = self.asked.try_send(handle);
        }
    }
}

struct Search {
    switch: Arc<Switch>,
    ports: Arc<OnceLock<Vec<Interface>>>,
    /// What was found here, and for which address.
    found: HashMap<u16, (Ipv4Addr, u64)>,
    tried: HashMap<u16, Instant>,
}

impl Search {
    fn run(&mut self, questions: &Receiver<u16>) {
        let mut next = Instant::now() + AGAIN;
        loop {
            match questions.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(handle) => self.find(handle),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if Instant::now() >= next {
                self.look_again();
                next = Instant::now() + AGAIN;
            }
        }
    }

    fn find(&mut self, handle: u16) {
        let now = Instant::now();
        if self.switch.way(handle) != Some(0) || self.tried.get(&handle).is_some_and(|tried| now < *tried + PAUSE) {
            return;
        }
        self.tried.insert(handle, now);
        let Some(address) = self.switch.address(handle, 0) else { return };
        let way = self.ports.get().and_then(|ports| way_to(*address.ip(), ports));
        if let Some(way) = way {
            tracing::debug!(handle, %address, way = format!("{way:016x}"), "a way was found in the kernel's tables");
            self.switch.set_way(handle, *address.ip(), way);
            self.found.insert(handle, (*address.ip(), way));
        }
    }

    fn look_again(&mut self) {
        self.tried.clear();
        let (switch, Some(ports)) = (&self.switch, self.ports.get()) else { return };
        self.found.retain(|&handle, (address, way)| {
            let is_there = switch.address(handle, 0).is_some_and(|at| at.ip() == address);
            // Otherwise the handle is another node's by now, or its heartbeats come by here.
            let is_own = is_there && switch.way(handle) == Some(*way);
            if let Some(other) = way_to(*address, ports).filter(|other| is_own && other != way) {
                switch.set_way(handle, *address, other);
                *way = other;
            }
            is_own
        });
    }
}
