//! This repository's own protocol: its nodes, and the switch's own core in C, whose packets the fabric carries.
//!
//! Each host is a node, each client one of its reply ports; what comes to port 0, the agent's, is decided on by the
//! host's
//! manager core. A lock server is one more node, whose packets come to its cores by the lock's name. Sessions have
//! begun
//! before the first request, with a lease that outlasts the run: no controller takes part, and no packet for one is let
//! pass, but SERVE, which is answered as the controller does. Where something is to fail there is one: `office.rs`.
//!
//! Beyond the packets themselves, whatever an agent or a lock server decides costs as much as a decision of the papers'
//! lock managers; what a client's end does is a part of the client's own work.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use wayside_protocol::memory::{NodeEntry, Part, SwitchMemory};
use wayside_protocol::seal::Enrolment;
use wayside_protocol::{Acquire, Event, Names, Node, NodeConfig, Path, Priority, RequestId, Time};
use wayside_switch::{Action, Budget, QueueConfig, Switch, SwitchConfig};
use wayside_wire::{Attempt, BODY, Header, Policy, QueueKind, kind, service};

use super::office::{Office, Outage};
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
    /// The same, and nodes keep what they use: each has had its part of so many locks, neighbours, for long.
    Local(Policy, u32, u64),
    /// The first, but that these locks, with their cells, have their queues in the switch. There is no lock server.
    Hybrid(Policy, u32, Vec<(u64, u32)>),
    /// The lock server, and these locks' queues in the switch, with their cells. None: the server alone.
    Queue(Vec<(u64, u32)>),
    /// Two tenants, each with a lock server of its own, the last two hosts: the first so many hosts are the one's. Each
    /// has this budget.
    Tenants(usize, Option<Budget>),
}

/// A packet, and the socket that it comes from or goes to.
pub struct Datagram {
    socket: SocketAddrV4,
    bytes: Vec<u8>,
}

/// What a client has asked for.
struct Asked {
    client: usize,
    wanted: Request,
    granted: bool,
}

/// See the module's documentation.
pub struct Wayside {
    bed: Bed,
    which: Kind,
    switch: Arc<Switch>,
    office: Option<Office>,
    nodes: Vec<Node>,
    /// Sessions that were begun anew.
    anew: u64,
    /// When each node's timer is set for.
    due: Vec<u64>,
    /// Of each client: its host.
    hosts: Vec<usize>,
    requests: HashMap<(usize, RequestId), Asked>,
    held: HashMap<(usize, u64), RequestId>,
    /// What clients want whose node has no session.
    parked: Vec<(usize, Request)>,
    /// A node whose process has ended.
    dead: Option<usize>,
    paths: [u64; 3],
    lost: u64,
    /// GAPs.
    gaps: u64,
}

const NAMESPACE: u16 = 1;
/// Of the second tenant.
const OTHER: u16 = 2;
const EPOCH: u32 = 1;
const AGENT_PORT: u16 = 9_000;
const FIRST_PORT: u16 = 10_000;
/// Microseconds: longer than any run.
const LEASE: u32 = u32::MAX;
/// Handles that sessions may have, where some begin anew.
const HANDLES: u16 = 1_024;
/// Who a timer is for that is not a node.
const CONTROLLER: usize = usize::MAX;
const SWITCH: usize = usize::MAX - 1;

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

impl Kind {
    fn engine(&self) -> wayside_wire::Engine {
        match self {
            Kind::Fission(..) | Kind::Local(..) => wayside_wire::Engine::Fission,
            Kind::Hybrid(..) => wayside_wire::Engine::Hybrid,
            Kind::Queue(_) | Kind::Tenants(..) => wayside_wire::Engine::Queue,
        }
    }

    /// Whether nodes have agents.
    fn is_fission(&self) -> bool {
        matches!(self, Kind::Fission(..) | Kind::Local(..) | Kind::Hybrid(..))
    }

    /// Locks that have their queue in the switch, with their cells.
    fn queues(&self) -> &[(u64, u32)] {
        if let Kind::Queue(queues) | Kind::Hybrid(_, _, queues) = self { queues } else { &[] }
    }

    fn names(&self) -> Names {
        let listed = self.queues().iter().filter(|_| matches!(self, Kind::Hybrid(..)));
        Names::new(listed.map(|(name, _)| *name)).expect("as few as a packet tells")
    }

    fn policy(&self) -> Policy {
        if let Kind::Fission(policy, _) | Kind::Local(policy, ..) | Kind::Hybrid(policy, ..) = self {
            *policy
        } else {
            Policy::Fair
        }
    }

    fn slots(&self) -> u32 {
        if let Kind::Fission(_, slots) | Kind::Local(_, slots, _) | Kind::Hybrid(_, slots, _) = self {
            *slots
        } else {
            1
        }
    }

    /// Whether a node, of so many, keeps locks for others.
    fn is_server(&self, node: usize, nodes: usize) -> bool {
        match self {
            Kind::Fission(..) | Kind::Local(..) | Kind::Hybrid(..) => false,
            Kind::Queue(_) => node + 1 == nodes,
            Kind::Tenants(..) => node + 2 >= nodes,
        }
    }

    /// The namespace of a node, of so many.
    fn namespace(&self, node: usize, nodes: usize) -> u16 {
        match self {
            Kind::Tenants(first, _) if node + 1 == nodes || (*first..nodes - 2).contains(&node) => OTHER,
            _ => NAMESPACE,
        }
    }

    /// A switch with nothing in its memory.
    fn switch(&self, max_handle: u16) -> Result<Switch, Error> {
        let namespaces: &[u16] = if let Kind::Tenants(..) = self { &[NAMESPACE, OTHER] } else { &[NAMESPACE] };
        let slots = self.slots() * namespaces.len() as u32;
        let mut switch = Switch::new(SwitchConfig { slots, max_handle });
        let queues = self.queues();
        if !queues.is_empty() {
            let cells = queues.iter().map(|queue| queue.1).sum();
            // A name has two buckets: with twice the room, both are hardly ever full.
            let room = 2 * queues.len() as u32;
            switch = switch.with_queues(QueueConfig { queues: room, cells, seed: 1 });
        }
        for &namespace in namespaces {
            switch.add_namespace(namespace, self.slots(), self.policy()).map_err(|error| error.to_string())?;
            if let Kind::Tenants(_, budget) = self {
                switch.set_budget(namespace, *budget);
            }
        }
        // Of no epoch yet: each begins them anew.
        for &(name, cells) in queues {
            switch.add_queue(NAMESPACE, name, cells, 1).map_err(|error| format!("lock {name}: {error}"))?;
        }
        Ok(switch)
    }
}

impl Wayside {
    /// On these hosts. With queues, the last host's node is the lock server. With an outage a controller has the
    /// bed's office, and sessions begin by packets.
    pub fn new(bed: &Bed, which: &Kind, outage: Option<Outage>) -> Result<Wayside, Error> {
        let nodes = bed.hosts.len() - usize::from(bed.office.is_some());
        let max_handle = if outage.is_some() { HANDLES } else { handle(nodes) };
        let switch = Arc::new(which.switch(max_handle)?);
        let office = outage
            .zip(bed.office)
            .map(|(outage, core)| Office::new(outage, core, NAMESPACE, which.policy(), which.engine()));
        let sum = |first: &mut usize, cores: &usize| {
            *first += cores;
            Some(*first - cores)
        };
        let firsts: Vec<usize> = bed.hosts.iter().scan(0, sum).collect();
        let hosts = bed.clients.iter().map(|core| firsts.partition_point(|first| first <= core) - 1);
        let mut wayside = Wayside {
            hosts: hosts.collect(),
            bed: bed.clone(),
            which: which.clone(),
            switch,
            office,
            nodes: Vec::new(),
            anew: 0,
            due: vec![u64::MAX; nodes],
            requests: HashMap::new(),
            held: HashMap::new(),
            parked: Vec::new(),
            dead: None,
            paths: [0; 3],
            lost: 0,
            gaps: 0,
        };
        wayside.nodes = (0..nodes).map(|node| wayside.node(node, nodes, node as u64 + 1)).collect();
        if wayside.office.is_none() {
            wayside.begin_sessions();
        }
        if let Kind::Local(_, _, locks) = *which {
            (0..locks).for_each(|lock| wayside.settle_down(lock, locks));
        }
        Ok(wayside)
    }

    fn node(&self, node: usize, nodes: usize, seed: u64) -> Node {
        let mut config = NodeConfig::new(seed);
        config.lock_server = self.which.is_server(node, nodes);
        config.kept_most = if let Kind::Local(_, slots, _) = self.which { slots as usize } else { 0 };
        Node::new(config)
    }

    /// As a controller would, for the whole run.
    fn begin_sessions(&mut self) {
        self.switch.set_epoch(EPOCH);
        self.switch.set_serving(true);
        let nodes = self.nodes.len();
        for (node, one) in self.nodes.iter_mut().enumerate() {
            let (incarnation, namespace) = (node as u64 + 1, self.which.namespace(node, nodes));
            let entry = NodeEntry { address: address(node, 0), namespace, incarnation };
            self.switch.set_node(handle(node), &entry);
            let enrolment = Enrolment {
                names: self.which.names(),
                handle: handle(node),
                incarnation,
                epoch: EPOCH,
                namespace,
                slots: self.which.slots(),
                engine: self.which.engine(),
                lease: LEASE,
                grace: 0,
                lifeline: 0,
                shards: 0,
                policy: wayside_wire::Policy::Fair,
                patience: wayside_protocol::OVERTAKEN_MOST,
                secret: None,
                version: wayside_wire::VERSION,
            };
            one.begin(Time(0), Time(0), &enrolment);
            while one.event().is_some() {}
        }
    }

    /// The node of whose warehouses a lock is has had it again and again before the run: the agency stays there through
    /// three requests of others in a row.
    fn settle_down(&mut self, lock: u64, locks: u64) {
        const TURNS: usize = 4;
        let node = (u128::from(lock) * self.nodes.len() as u128 / u128::from(locks)) as usize;
        let (mode, priority) = (wayside_protocol::Mode::Exclusive, Priority::NORMAL);
        let want = Acquire { name: lock, mode, try_: false, priority, deadline: None, port: FIRST_PORT };
        for _ in 0..TURNS {
            let request = self.nodes[node].acquire(Time(0), want).expect("there is a session, and room");
            self.exchange(node);
            self.nodes[node].release(Time(0), request);
            self.exchange(node);
        }
        while self.nodes[node].event().is_some() {}
    }

    /// What a node and the switch have to say to each other at once, where nobody else has to do with it.
    fn exchange(&mut self, node: usize) {
        while let Some(out) = self.nodes[node].transmit() {
            let (socket, mut bytes) = (address(node, out.port), out.packet.to_vec());
            let verdict = self.switch.process(Time(0), &mut bytes, socket);
            assert!(matches!(verdict.action, Action::ToSender), "nobody else has to do with it");
            self.nodes[node].on_packet(Time(0), &bytes[..verdict.length]);
        }
    }

    /// The core of a socket; `bytes`: of the packet for it.
    fn core(&self, socket: SocketAddrV4, bytes: &[u8]) -> usize {
        let node = node_of(socket);
        if let Some(client) = socket.port().checked_sub(FIRST_PORT).map(usize::from) {
            return self.bed.receivers[client];
        }
        let cores = &self.bed.managers[node];
        if let [core] = cores[..] {
            return core;
        }
        // By the name that it is about; over the cores that receive for clients, where there are no others.
        let is_long = bytes.len() >= BODY + Attempt::BYTES;
        let any = wayside_wire::mix(if is_long { Attempt::read(bytes, BODY).name } else { 0 });
        let cores = if cores.is_empty() { &self.bed.receiving[node] } else { cores };
        cores[(any % cores.len() as u64) as usize]
    }

    fn deliver(&mut self, fabric: &mut Fabric<Datagram>, socket: SocketAddrV4, bytes: Vec<u8>) {
        let core = self.core(socket, &bytes);
        fabric.send(Place::Switch, Place::Core(core), Datagram { socket, bytes });
    }

    fn at_switch(&mut self, fabric: &mut Fabric<Datagram>, datagram: Datagram) {
        if self.office.as_ref().is_some_and(|office| !office.is_open()) {
            return; // It is away.
        }
        let Datagram { socket, mut bytes } = datagram;
        let verdict = self.switch.process(Time(fabric.now / 1_000), &mut bytes, socket);
        bytes.truncate(verdict.length);
        if let Some(agent) = verdict.copy {
            let mut copy = bytes.clone();
            if self.switch.make_copy(&mut copy) {
                self.deliver_to(fabric, agent, 0, copy);
            }
        }
        match verdict.action {
            Action::Drop => {}
            Action::ToSender => self.deliver(fabric, socket, bytes),
            Action::ToNode { handle, port } => self.deliver_to(fabric, handle, port, bytes),
            Action::ToController => match &self.office {
                Some(office) => fabric.send(Place::Switch, Place::Core(office.core), Datagram { socket, bytes }),
                None => self.serve(fabric, &bytes),
            },
        }
    }

    /// To a node that the switch knows; where sessions end it may have forgotten it.
    fn deliver_to(&mut self, fabric: &mut Fabric<Datagram>, handle: u16, port: u16, bytes: Vec<u8>) {
        match self.switch.address(handle, port) {
            Some(socket) => self.deliver(fabric, socket, bytes),
            None => assert!(self.office.is_some(), "a node that the core knows has an address"),
        }
    }

    /// What the controller says to who offers itself as a lock server. A node to which something took very long asks
    /// for a census: nothing is lost here, and there is none.
    fn serve(&mut self, fabric: &mut Fabric<Datagram>, asked: &[u8]) {
        let asked = Header::read(asked).expect("the core has read it");
        if (asked.service, asked.kind) == (service::LOCK, kind::lock::GAP) {
            self.gaps += 1;
            return;
        }
        assert_eq!(
            (asked.service, asked.kind),
            (service::QUEUE, kind::queue::SERVE),
            "nothing that needs a controller happens here"
        );
        let Header { source, namespace, .. } = asked;
        self.switch.set_lock_server(namespace, Part::WHOLE, source);
        let term = self.switch.lock_server(namespace, 0).term;
        let lease = u64::from(LEASE);
        let body = Attempt { number: term.into(), order: lease, over: 2 * lease, holder: source, ..Attempt::default() };
        let mut bytes = vec![0; BODY + QueueKind::Serving.body().bytes(0)];
        let header = Header {
            service: service::QUEUE,
            kind: kind::queue::SERVING,
            destination: source,
            epoch: EPOCH,
            namespace,
            ..Header::default()
        };
        header.write(&mut bytes);
        body.write(&mut bytes, BODY);
        self.deliver(fabric, address(usize::from(source) - 1, 0), bytes);
    }

    /// Takes out of a node what a call has brought.
    fn settle(&mut self, fabric: &mut Fabric<Datagram>, node: usize, core: usize) {
        loop {
            while let Some(out) = self.nodes[node].transmit() {
                let datagram = Datagram { socket: address(node, out.port), bytes: out.packet.to_vec() };
                fabric.send(Place::Core(core), Place::Switch, datagram);
            }
            let Some(event) = self.nodes[node].event() else { break };
            self.hear(fabric, node, event);
        }
        if let Some(Time(due)) = self.nodes[node].next_timer() {
            let due = due.saturating_mul(1_000);
            if due < self.due[node] {
                self.due[node] = due;
                fabric.timer(due, node, 0);
            }
        }
    }

    fn hear(&mut self, fabric: &mut Fabric<Datagram>, node: usize, event: Event) {
        match event {
            Event::Granted { request, path, .. } => {
                let asked = self.requests.get_mut(&(node, request)).expect("what is granted was asked for");
                asked.granted = true;
                self.paths[path as usize] += 1;
                fabric.granted(asked.client);
            }
            Event::Enrolled(_) if self.office.is_some() => {
                let hosts = &self.hosts;
                let ours = self.parked.extract_if(.., |(client, _)| hosts[*client] == node).collect::<Vec<_>>();
                ours.into_iter().for_each(|(client, wanted)| self.ask(fabric, client, wanted));
            }
            // It is granted to nobody else before that; who waits asks again in the next session.
            Event::Lost { request } if self.office.is_some() => {
                let Some(Asked { client, wanted, granted }) = self.requests.remove(&(node, request)) else { return };
                self.held.remove(&(client, wanted.lock));
                if granted {
                    self.lost += 1;
                    fabric.expired.push((client, wanted.lock));
                } else {
                    self.parked.push((client, wanted));
                }
            }
            Event::SessionLost if self.office.is_some() => {
                self.anew += 1;
                let nodes = self.nodes.len();
                self.nodes[node] = self.node(node, nodes, self.anew * u64::from(HANDLES) + node as u64 + 1);
                self.nodes[node].start(Time(fabric.now / 1_000));
            }
            other => panic!("node {node} is told {other:?}"),
        }
    }

    fn ask(&mut self, fabric: &mut Fabric<Datagram>, client: usize, wanted: Request) {
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
        match self.nodes[node].acquire(Time(fabric.now / 1_000), want) {
            Ok(request) => {
                self.requests.insert((node, request), Asked { client, wanted, granted: false });
                self.held.insert((client, wanted.lock), request);
            }
            Err(error) => {
                assert!(self.office.is_some(), "the session outlasts the run: {error:?}");
                self.parked.push((client, wanted));
            }
        }
    }

    fn end(&mut self, fabric: &mut Fabric<Datagram>, client: usize, lock: u64, is_held: bool) {
        let node = self.hosts[client];
        let Some(request) = self.held.remove(&(client, lock)) else {
            // It was lost, or is not asked for while there is no session.
            assert!(self.office.is_some(), "what is given back was asked for");
            return self.parked.retain(|(parked, wanted)| (*parked, wanted.lock) != (client, lock));
        };
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
        if self.which.is_fission() && has_books {
            fabric.work(fabric.costs.get(Cost::Manager));
        }
    }

    // ---- the switch's end and its next beginning ----

    /// Whether the switch decides on locks.
    pub fn serves(&self) -> bool {
        self.switch.serving()
    }

    /// A node's process ends: it neither sends nor hears anything from now on.
    pub fn kill(&mut self, node: usize) {
        self.dead = Some(node);
    }

    fn open(&mut self, fabric: &mut Fabric<Datagram>) {
        let Some(office) = &mut self.office else { return };
        office.open(&self.switch).expect("what was written down can be read");
        office.due = fabric.now;
        fabric.timer(fabric.now, CONTROLLER, 0);
    }

    /// First it stops, then it begins anew.
    fn on_outage(&mut self, fabric: &mut Fabric<Datagram>) {
        let Some(office) = &mut self.office else { return };
        if office.is_open() {
            office.close();
            return fabric.timer(office.outage.end(), SWITCH, 0);
        }
        self.switch = Arc::new(self.which.switch(HANDLES).expect("it was made before"));
        self.open(fabric);
    }

    /// On the controller's core; nothing in a datagram: it is woken.
    fn at_controller(&mut self, fabric: &mut Fabric<Datagram>, datagram: &Datagram) {
        let now = Time(fabric.now / 1_000);
        let Some(office) = &mut self.office else { return };
        if datagram.bytes.is_empty() {
            office.on_tick(now);
        } else {
            fabric.work(fabric.costs.get(Cost::Manager));
            office.on_packet(now, datagram.socket, &datagram.bytes);
        }
        let core = office.core;
        while let Some((socket, bytes)) = self.office.as_mut().and_then(Office::transmit) {
            let to = self.core(socket, &bytes);
            fabric.send(Place::Core(core), Place::Core(to), Datagram { socket, bytes });
        }
        if let Some(at) = self.office.as_mut().and_then(Office::alarm) {
            fabric.timer(at, CONTROLLER, 0);
        }
    }
}

impl Engine for Wayside {
    type Message = Datagram;

    fn start(&mut self, fabric: &mut Fabric<Datagram>) {
        self.open(fabric);
        if let Some(office) = &self.office {
            fabric.timer(office.outage.from, SWITCH, 0);
        }
        for node in 0..self.nodes.len() {
            if self.office.is_some() {
                self.nodes[node].start(Time(0));
            } else {
                self.nodes[node].on_tick(Time(0));
            }
            let core = self.core(address(node, 0), &[]);
            self.settle(fabric, node, core);
        }
        fabric.outside();
    }

    fn acquire(&mut self, fabric: &mut Fabric<Datagram>, client: usize, wanted: Request) {
        let node = self.hosts[client];
        let books = self.nodes[node].books(self.slot_of(node, wanted.lock)).is_some();
        self.ask(fabric, client, wanted);
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
        if Some(core) == self.bed.office {
            return self.at_controller(fabric, &message);
        }
        let node = node_of(message.socket);
        if self.dead == Some(node) {
            return;
        }
        if message.socket.port() == AGENT_PORT {
            fabric.work(fabric.costs.get(Cost::Manager));
        }
        self.nodes[node].on_packet(Time(fabric.now / 1_000), &message.bytes);
        self.settle(fabric, node, core);
    }

    fn on_timer(&mut self, fabric: &mut Fabric<Datagram>, who: usize, _: u64) {
        match who {
            SWITCH => self.on_outage(fabric),
            CONTROLLER => {
                if let Some(office) = self.office.as_mut().filter(|office| office.due <= fabric.now) {
                    office.due = u64::MAX;
                    let core = office.core;
                    // Nobody has sent it: the address means nothing.
                    fabric.hand(core, Datagram { socket: address(0, 0), bytes: Vec::new() });
                }
            }
            node if self.due[node] <= fabric.now && self.dead != Some(node) => {
                self.due[node] = u64::MAX;
                self.nodes[node].on_tick(Time(fabric.now / 1_000));
                let core = self.core(address(node, 0), &[]);
                self.settle(fabric, node, core);
                fabric.outside();
            }
            _ => {}
        }
    }

    fn notes(&self) -> Vec<(&'static str, f64)> {
        let all = self.paths.iter().sum::<u64>().max(1) as f64;
        let share = |path: Path| self.paths[path as usize] as f64 / all;
        vec![
            ("granted by the switch", share(Path::Switch)),
            ("by an agent or server", share(Path::Agent)),
            ("by the own agent", share(Path::Local)),
            ("holds lost", self.lost as f64),
            ("censuses asked for", self.gaps as f64),
            ("sessions begun anew", self.anew as f64),
        ]
    }
}
