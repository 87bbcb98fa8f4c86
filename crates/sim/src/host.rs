//! A host: one process with its clock and its sockets. What its applications do is a service's.

use std::net::{Ipv4Addr, SocketAddrV4};

pub use wayside_judge::Process;
use wayside_protocol::{Node, NodeConfig, Time};

use crate::clock::Clock;
use crate::network::Flight;

/// Packets that a stopped process's sockets keep.
const SOCKET_QUEUE: usize = 256;
/// UDP port of every host's agent.
const AGENT_PORT: u16 = 7_600;
/// Host 0's; the others' follow.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// A process that runs, or is stopped.
pub struct Running {
    /// Its session, requests and agents.
    pub node: Node,
    /// What it reads as the time.
    pub clock: Clock,
    /// World time at which its timer rings.
    pub timer: Option<u64>,
    /// Its lease was over when last looked at.
    pub lapsed: bool,
    /// The end of its holds that its applications were told last, by its own clock.
    pub promised: Time,
    /// It asked to leave.
    pub leaving: bool,
    /// How often it has asked for a session.
    pub questions: usize,
    /// It divides names otherwise than the shard whose switch it asks.
    pub mistaken: bool,
}

/// A place where one process at a time lives.
pub struct Host {
    /// Which.
    pub index: usize,
    /// Index of the namespace of its sessions.
    pub namespace: usize,
    /// The switch that its process believes to be the one.
    pub seat: usize,
    /// Processes before this one.
    pub generation: u32,
    /// The process, unless it crashed and none has been started yet.
    pub running: Option<Running>,
    /// It is stopped until then.
    pub stopped_until: Option<u64>,
    /// What arrived while it was stopped.
    pub inbox: Vec<Flight>,
}

impl Host {
    /// A host without a process.
    pub fn new(index: usize, namespace: usize) -> Host {
        Host { index, namespace, seat: 0, generation: 0, running: None, stopped_until: None, inbox: Vec::new() }
    }

    /// Which process lives here.
    pub fn process(&self) -> Process {
        Process { host: self.index, generation: self.generation }
    }

    /// A socket of a host: agents are reached at one port, threads at others.
    pub fn socket(index: usize, port: u16) -> SocketAddrV4 {
        let port = if port == 0 { AGENT_PORT } else { port };
        SocketAddrV4::new(Ipv4Addr::from(u32::from(FIRST_ADDRESS) + index as u32), port)
    }

    /// The host that has this address.
    pub fn of(socket: SocketAddrV4) -> usize {
        (u32::from(*socket.ip()) - u32::from(FIRST_ADDRESS)) as usize
    }

    /// Starts a process, which enrols by packets or waits for somebody to bring it a session.
    pub fn start(&mut self, config: NodeConfig, mistaken: bool, by_packets: bool, clock: Clock, now: u64) {
        let mut node = Node::new(config);
        if by_packets {
            node.start(clock.at(now));
        }
        self.inbox.clear();
        self.generation += 1;
        let promised = Time(0);
        self.running =
            Some(Running { node, clock, timer: None, lapsed: false, promised, leaving: false, questions: 0, mistaken });
    }

    /// Keeps a packet for a stopped process, as far as its sockets can.
    pub fn keep(&mut self, flight: Flight) {
        if self.inbox.len() < SOCKET_QUEUE {
            self.inbox.push(flight);
        }
    }

    /// Whether this very process lives and its lease runs, by its own clock.
    pub fn believes(&self, process: Process, now: u64) -> bool {
        self.generation == process.generation && self.running.as_ref().is_some_and(|running| running.believes(now))
    }
}

impl Running {
    /// Whether the lease runs, by its own clock.
    pub fn believes(&self, now: u64) -> bool {
        self.node.session().is_some_and(|session| self.clock.at(now) < session.lease_end)
    }

    /// When what it told its applications last to be safe ends, by its own clock. World time.
    pub fn promised(&self) -> u64 {
        self.clock.world(self.promised).unwrap_or(u64::MAX)
    }

    /// Its time.
    pub fn time(&self, now: u64) -> Time {
        self.clock.at(now)
    }
}
