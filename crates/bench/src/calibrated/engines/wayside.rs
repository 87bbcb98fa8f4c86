//! This repository's own protocol: its nodes, and the switch's own core in C, whose packets the fabric carries.
//!
//! Each host is a node, each client one of its reply ports; what comes to port 0, the agent's, is decided on by the
//! host's
//! manager core. A lock server is one more node, whose packets come to its cores by the lock's name. Sessions have
//! begun
//! before the first request, with a lease that outlasts the run: no controller takes part, and no packet for one is let
//! pass, but SERVE, which is answered as the controller does.
//!
//! Beyond the packets themselves, whatever an agent or a lock server decides costs as much as a decision of the papers'
//! lock managers; what a client's end does is a part of the client's own work.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use wayside_protocol::memory::{NodeEntry, SwitchMemory};
use wayside_protocol::seal::Enrolment;
use wayside_protocol::{Acquire, Event, Node, NodeConfig, Path, Priority, RequestId, Time};
use wayside_switch::{Action, QueueConfig, Switch, SwitchConfig};
use wayside_wire::{Attempt, BODY, Header, Policy, QueueKind, kind, service};

use super::{Bed, Engine};
use crate::Error;
use crate::calibrated::costs::Cost;
use crate::calibrated::fabric::{Fabric, Place};
use crate::workloads::Request;

/// Which engine of the switch.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Agents, and the switch as decider, with so many slots.
    Fission(Policy, u32),
    /// The lock server, and these locks' queues in the switch, with their cells. None: the server alone.
    Queue(Vec<(u64, u32)>),
}

/// A packet, and the socket that it comes from or goes to.
pub struct Datagram {
    socket: SocketAddrV4,
    bytes: Vec<u8>,
}

/// See the module's documentation.
pub struct Wayside {
    bed: Bed,
    switch: Switch,
    nodes: Vec<Node>,
    /// When each node's timer is set for.
    due: Vec<u64>,
    /// Of each client: its host. Of each host: its first core.
    hosts: Vec<usize>,
    firsts: Vec<usize>,
    server: Option<usize>,
    requests: HashMap<(usize, RequestId), (usize, u64)>,
    held: HashMap<(usize, u64), RequestId>,
    paths: [u64; 3],
}

const NAMESPACE: u16 = 1;
const EPOCH: u32 = 1;
const AGENT_PORT: u16 = 9_000;
const FIRST_PORT: u16 = 10_000;
/// Microseconds: longer than any run.
const LEASE: u32 = u32::MAX;

fn handle(node: usize) -> u16 {
    node as u16 + 1
}

fn address(node: usize, port: u16) -> SocketAddrV4 {
    let [high, low] = handle(node).to_be_bytes();
    SocketAddrV4::new(Ipv4Addr::new(10, 0, high, low), if port == 0 { AGENT_PORT } else { port })
}

fn node_of(socket: SocketAddrV4) -> usize {
    let [_, _, high, low] = socket.ip().octets();
    usize::from(u16::from_be_bytes([high, low])) - 1
}

impl Wayside {
    /// On these hosts. With queues, the last host's node is the lock server.
    pub fn new(bed: &Bed, which: &Kind) -> Result<Wayside, Error> {
        let nodes = bed.hosts.len();
        let slots = match which {
            Kind::Fission(_, slots) => *slots,
            Kind::Queue(_) => 1,
        };
        let switch = Switch::new(SwitchConfig { slots, max_handle: handle(nodes) });
        let policy = if let Kind::Fission(policy, _) = which { *policy } else { Policy::Fair };
        switch.add_namespace(NAMESPACE, slots, policy).map_err(|error| error.to_string())?;
        switch.set_epoch(EPOCH);
        switch.set_serving(true);
        let mut server = None;
        let mut engine = wayside_wire::Engine::Fission;
        let switch = if let Kind::Queue(queues) = which {
            server = Some(nodes - 1);
            engine = wayside_wire::Engine::Queue;
            let cells = queues.iter().map(|queue| queue.1).sum();
            // A name has two buckets: with twice the room, both are hardly ever full.
            let room = 2 * queues.len() as u32;
            let switch = switch.with_queues(QueueConfig { queues: room, cells, seed: 1 });
            for &(name, cells) in queues {
                switch.add_queue(NAMESPACE, name, cells, 1).map_err(|error| format!("lock {name}: {error}"))?;
            }
            switch
        } else {
            switch
        };
        let mut own = Vec::new();
        for node in 0..nodes {
            let incarnation = node as u64 + 1;
            let entry = NodeEntry { address: address(node, 0), namespace: NAMESPACE, incarnation };
            switch.set_node(handle(node), &entry);
            let mut config = NodeConfig::new(incarnation);
            config.lock_server = server == Some(node);
            let mut one = Node::new(config);
            let enrolment = Enrolment {
                handle: handle(node),
                incarnation,
                epoch: EPOCH,
                namespace: NAMESPACE,
                slots,
                engine,
                lease: LEASE,
                grace: 0,
                lifeline: 0,
                secret: None,
            };
            one.begin(Time(0), Time(0), &enrolment);
            while one.event().is_some() {}
            own.push(one);
        }
        let sum = |first: &mut usize, cores: &usize| {
            *first += cores;
            Some(*first - cores)
        };
        let firsts: Vec<usize> = bed.hosts.iter().scan(0, sum).collect();
        let hosts = bed.clients.iter().map(|core| firsts.partition_point(|first| first <= core) - 1);
        Ok(Wayside {
            hosts: hosts.collect(),
            firsts,
            bed: bed.clone(),
            switch,
            due: vec![u64::MAX; own.len()],
            nodes: own,
            server,
            requests: HashMap::new(),
            held: HashMap::new(),
            paths: [0; 3],
        })
    }

    /// The core of a socket; `bytes`: of the packet for it.
    fn core(&self, socket: SocketAddrV4, bytes: &[u8]) -> usize {
        let node = node_of(socket);
        if let Some(client) = socket.port().checked_sub(FIRST_PORT).map(usize::from) {
            return self.bed.clients[client];
        }
        let cores = &self.bed.managers[node];
        if let [core] = cores[..] {
            return core;
        }
        // By the name that it is about; over the cores of clients, where there are no others.
        let is_long = bytes.len() >= BODY + Attempt::BYTES;
        let any = wayside_wire::mix(if is_long { Attempt::read(bytes, BODY).name } else { 0 });
        let pick = |count: usize| (any % count as u64) as usize;
        if cores.is_empty() { self.firsts[node] + pick(self.bed.hosts[node]) } else { cores[pick(cores.len())] }
    }

    fn deliver(&mut self, fabric: &mut Fabric<Datagram>, socket: SocketAddrV4, bytes: Vec<u8>) {
        let core = self.core(socket, &bytes);
        fabric.send(Place::Switch, Place::Core(core), Datagram { socket, bytes });
    }

    fn at_switch(&mut self, fabric: &mut Fabric<Datagram>, datagram: Datagram) {
        let Datagram { socket, mut bytes } = datagram;
        let source = Header::read(&bytes).map_or(0, |header| header.source);
        let verdict = self.switch.process(Time(fabric.now / 1_000), &mut bytes, socket);
        bytes.truncate(verdict.length);
        if let Some(agent) = verdict.copy {
            let mut copy = bytes.clone();
            if self.switch.make_copy(&mut copy) {
                let socket = self.switch.address(agent, 0).expect("a node that the core knows has an address");
                self.deliver(fabric, socket, copy);
            }
        }
        match verdict.action {
            Action::Drop => {}
            Action::ToSender => self.deliver(fabric, socket, bytes),
            Action::ToNode { handle, port } => {
                let socket = self.switch.address(handle, port).expect("a node that the core knows has an address");
                self.deliver(fabric, socket, bytes);
            }
            Action::ToController => self.serve(fabric, source, &bytes),
        }
    }

    /// What the controller says to who offers itself as a lock server.
    fn serve(&mut self, fabric: &mut Fabric<Datagram>, source: u16, asked: &[u8]) {
        let asked = Header::read(asked).expect("the core has read it");
        assert_eq!(
            (asked.service, asked.kind),
            (service::QUEUE, kind::queue::SERVE),
            "nothing that needs a controller happens here"
        );
        self.switch.set_lock_server(NAMESPACE, source);
        let term = self.switch.lock_server(NAMESPACE).term;
        let lease = u64::from(LEASE);
        let body = Attempt { number: term.into(), order: lease, over: 2 * lease, holder: source, ..Attempt::default() };
        let mut bytes = vec![0; BODY + QueueKind::Serving.body().bytes(0)];
        let header = Header {
            service: service::QUEUE,
            kind: kind::queue::SERVING,
            destination: source,
            epoch: EPOCH,
            namespace: NAMESPACE,
            ..Header::default()
        };
        header.write(&mut bytes);
        body.write(&mut bytes, BODY);
        self.deliver(fabric, address(usize::from(source) - 1, 0), bytes);
    }

    /// Takes out of a node what a call has brought.
    fn settle(&mut self, fabric: &mut Fabric<Datagram>, node: usize, core: usize) {
        while let Some(out) = self.nodes[node].transmit() {
            let datagram = Datagram { socket: address(node, out.port), bytes: out.packet.to_vec() };
            fabric.send(Place::Core(core), Place::Switch, datagram);
        }
        while let Some(event) = self.nodes[node].event() {
            match event {
                Event::Granted { request, path, .. } => {
                    let (client, _) = self.requests[&(node, request)];
                    self.paths[path as usize] += 1;
                    fabric.granted(client);
                }
                other => panic!("node {node} is told {other:?}"),
            }
        }
        if let Some(Time(due)) = self.nodes[node].next_timer() {
            let due = due.saturating_mul(1_000);
            if due < self.due[node] {
                self.due[node] = due;
                fabric.timer(due, node, 0);
            }
        }
    }

    fn end(&mut self, fabric: &mut Fabric<Datagram>, client: usize, lock: u64, is_held: bool) {
        let node = self.hosts[client];
        let request = self.held.remove(&(client, lock)).expect("what is given back was asked for");
        self.requests.remove(&(node, request));
        let now = Time(fabric.now / 1_000);
        let books = self.nodes[node].books(self.slot_of(node, lock)).is_some();
        if is_held {
            self.nodes[node].release(now, request);
        } else {
            self.nodes[node].cancel(now, request);
        }
        self.charge_own(fabric, books);
        self.settle(fabric, node, self.bed.clients[client]);
    }

    fn slot_of(&self, node: usize, lock: u64) -> u32 {
        let slots = self.nodes[node].session().map_or(1, |session| session.slots);
        wayside_wire::slot_of(lock, slots)
    }

    /// A client's own core does the work of its node's agent.
    fn charge_own(&self, fabric: &mut Fabric<Datagram>, has_books: bool) {
        if has_books && self.server.is_none() {
            fabric.work(fabric.costs.get(Cost::Manager));
        }
    }
}

impl Engine for Wayside {
    type Message = Datagram;

    fn start(&mut self, fabric: &mut Fabric<Datagram>) {
        for node in 0..self.nodes.len() {
            self.nodes[node].on_tick(Time(0));
            let core = self.core(address(node, 0), &[]);
            self.settle(fabric, node, core);
        }
        fabric.outside();
    }

    fn acquire(&mut self, fabric: &mut Fabric<Datagram>, client: usize, wanted: Request) {
        let node = self.hosts[client];
        let port = FIRST_PORT + client as u16;
        let want = Acquire {
            name: wanted.lock,
            mode: wanted.mode,
            try_: false,
            priority: Priority::NORMAL,
            deadline: None,
            port,
        };
        let books = self.nodes[node].books(self.slot_of(node, wanted.lock)).is_some();
        let request = self.nodes[node].acquire(Time(fabric.now / 1_000), want).expect("the session outlasts the run");
        self.requests.insert((node, request), (client, wanted.lock));
        self.held.insert((client, wanted.lock), request);
        self.charge_own(fabric, books);
        self.settle(fabric, node, self.bed.clients[client]);
    }

    fn release(&mut self, fabric: &mut Fabric<Datagram>, client: usize, held: Request) {
        self.end(fabric, client, held.lock, true);
    }

    fn cancel(&mut self, fabric: &mut Fabric<Datagram>, client: usize, wanted: Request) {
        self.end(fabric, client, wanted.lock, false);
    }

    fn on_message(&mut self, fabric: &mut Fabric<Datagram>, at: Place, message: Datagram) {
        let Place::Core(core) = at else { return self.at_switch(fabric, message) };
        let node = node_of(message.socket);
        if message.socket.port() == AGENT_PORT {
            fabric.work(fabric.costs.get(Cost::Manager));
        }
        self.nodes[node].on_packet(Time(fabric.now / 1_000), &message.bytes);
        self.settle(fabric, node, core);
    }

    fn on_timer(&mut self, fabric: &mut Fabric<Datagram>, node: usize, _: u64) {
        if self.due[node] > fabric.now {
            return;
        }
        self.due[node] = u64::MAX;
        self.nodes[node].on_tick(Time(fabric.now / 1_000));
        let core = self.core(address(node, 0), &[]);
        self.settle(fabric, node, core);
        fabric.outside();
    }

    fn notes(&self) -> Vec<(&'static str, f64)> {
        let all = self.paths.iter().sum::<u64>().max(1) as f64;
        let share = |path: Path| self.paths[path as usize] as f64 / all;
        vec![
            ("granted by the switch", share(Path::Switch)),
            ("by an agent or server", share(Path::Agent)),
            ("by the own agent", share(Path::Local)),
        ]
    }
}
