//! A host: one process with its clock, its tasks and its sockets.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use wayside_protocol::{Node, NodeConfig, RequestId, Time};

use crate::apps::Task;
use crate::checker::Process;
use crate::clock::Clock;
use crate::network::Flight;

/// Packets that a stopped process's sockets keep.
const SOCKET_QUEUE: usize = 256;
/// UDP port of every host's agent.
const AGENT_PORT: u16 = 7_600;

/// A process that runs, or is stopped.
pub struct Running {
    /// Its session, requests and agents.
    pub node: Node,
    /// What it reads as the time.
    pub clock: Clock,
    /// Its application's threads.
    pub tasks: Vec<Task>,
    /// Which task asked.
    pub askers: BTreeMap<RequestId, usize>,
    /// World time at which its timer rings.
    pub timer: Option<u64>,
    /// Its lease was over when last looked at.
    pub lapsed: bool,
    /// It asked to leave.
    pub leaving: bool,
}

/// A place where one process at a time lives.
pub struct Host {
    /// Which.
    pub index: usize,
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
    pub fn new(index: usize) -> Host {
        Host { index, generation: 0, running: None, stopped_until: None, inbox: Vec::new() }
    }

    /// Which process lives here.
    pub fn process(&self) -> Process {
        Process { host: self.index, generation: self.generation }
    }

    /// Its socket: agents are reached at one port, threads at others.
    pub fn socket(&self, port: u16) -> SocketAddrV4 {
        let port = if port == 0 { AGENT_PORT } else { port };
        SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, self.index as u8 + 1), port)
    }

    /// The host that has this address.
    pub fn of(socket: SocketAddrV4) -> usize {
        usize::from(socket.ip().octets()[3]) - 1
    }

    /// Starts a process, which enrols by packets or waits for somebody to bring it a session.
    pub fn start(&mut self, config: NodeConfig, by_packets: bool, clock: Clock, tasks: u64, now: u64) {
        let mut node = Node::new(config);
        if by_packets {
            node.start(clock.at(now));
        }
        self.inbox.clear();
        self.running = Some(Running {
            node,
            clock,
            tasks: (0..tasks).map(|_| Task::default()).collect(),
            askers: BTreeMap::new(),
            timer: None,
            lapsed: false,
            leaving: false,
        });
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

    /// Its time.
    pub fn time(&self, now: u64) -> Time {
        self.clock.at(now)
    }
}
