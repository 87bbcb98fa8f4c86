//! Nodes and the switch's own core in one process, without sockets, threads or a clock: packets go from one to the
//! other until there are none.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};

use wayside_protocol::memory::{NodeEntry, SwitchMemory};
use wayside_protocol::seal::Enrolment;
use wayside_protocol::{Acquire, Event, Mode, Node, NodeConfig, Priority, RequestId, Time};
use wayside_switch::{Action, Switch, SwitchConfig};
use wayside_wire::{Engine, Policy};

const NAMESPACE: u16 = 1;
const EPOCH: u32 = 1;
/// Nodes there can be.
pub(super) const MOST_NODES: u16 = 1_024;
/// Slots, of which names have one each as long as they are fewer.
pub(super) const SLOTS: u32 = 1 << 21;
const AGENT_PORT: u16 = 9_000;
const PORT: u16 = 5_000;

/// See the module's documentation.
pub(super) struct World {
    switch: Switch,
    nodes: Vec<Node>,
    now: Time,
    /// To the switch, from these sockets.
    packets: VecDeque<(SocketAddrV4, Vec<u8>)>,
    /// What was granted, and not taken yet: node and request.
    granted: VecDeque<(usize, RequestId)>,
}

fn address(node: usize, port: u16) -> SocketAddrV4 {
    let [high, low] = (node as u16).to_be_bytes();
    SocketAddrV4::new(Ipv4Addr::new(10, 0, high, low), if port == 0 { AGENT_PORT } else { port })
}

fn handle(node: usize) -> u16 {
    node as u16 + 1
}

impl World {
    /// A switch, and nobody.
    pub(super) fn new() -> World {
        let switch = Switch::new(SwitchConfig { slots: SLOTS, max_handle: MOST_NODES });
        switch.add_namespace(NAMESPACE, SLOTS, Policy::Fair).expect("the first namespace fits");
        switch.set_epoch(EPOCH);
        switch.set_serving(true);
        World { switch, nodes: Vec::new(), now: Time(1_000), packets: VecDeque::new(), granted: VecDeque::new() }
    }

    /// So many nodes more, with a session each that outlasts every run.
    pub(super) fn with_nodes(mut self, count: usize) -> World {
        for _ in 0..count {
            let node = self.nodes.len();
            let incarnation = node as u64 + 1;
            let entry = NodeEntry { address: address(node, 0), namespace: NAMESPACE, incarnation };
            self.switch.set_node(handle(node), &entry);
            let mut one = Node::new(NodeConfig::new(incarnation));
            let enrolment = Enrolment {
                handle: handle(node),
                incarnation,
                epoch: EPOCH,
                namespace: NAMESPACE,
                slots: SLOTS,
                engine: Engine::Fission,
                names: wayside_protocol::Names::default(),
                lease: u32::MAX,
                grace: 0,
                lifeline: 0,
                shards: 0,
                policy: wayside_wire::Policy::Fair,
                patience: wayside_protocol::OVERTAKEN_MOST,
                secret: None,
                version: wayside_wire::VERSION,
            };
            one.begin(self.now, self.now, &enrolment);
            assert!(matches!(one.event(), Some(Event::Enrolled(_))), "the session begins");
            one.on_tick(self.now);
            while one.transmit().is_some() {}
            self.nodes.push(one);
        }
        self
    }

    pub(super) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    fn want(name: u64) -> Acquire {
        Acquire { name, mode: Mode::Exclusive, try_: false, priority: Priority::NORMAL, deadline: None, port: PORT }
    }

    /// Asks, and has all happen that follows.
    pub(super) fn acquire(&mut self, node: usize, name: u64) -> RequestId {
        self.now = self.now + 1;
        let request = self.nodes[node].acquire(self.now, World::want(name)).expect("the session lives");
        self.run(node);
        request
    }

    /// Several, which go out together; their slots are in order.
    pub(super) fn acquire_many(&mut self, node: usize, names: &[u64], requests: &mut Vec<RequestId>) {
        self.now = self.now + 1;
        let wants: Vec<Acquire> = names.iter().map(|&name| World::want(name)).collect();
        self.nodes[node].acquire_many(self.now, &wants, requests).expect("the session lives");
        self.run(node);
    }

    pub(super) fn release(&mut self, node: usize, request: RequestId) {
        self.now = self.now + 1;
        self.nodes[node].release(self.now, request);
        self.run(node);
    }

    /// Several, whose packets go out together.
    pub(super) fn release_many(&mut self, node: usize, requests: &mut Vec<RequestId>) {
        self.now = self.now + 1;
        requests.drain(..).for_each(|request| self.nodes[node].release(self.now, request));
        self.run(node);
    }

    /// The earliest grant that nobody has taken note of.
    pub(super) fn granted(&mut self) -> Option<(usize, RequestId)> {
        self.granted.pop_front()
    }

    /// Everything that follows from what a node has been told.
    fn run(&mut self, node: usize) {
        self.settle(node);
        while let Some((from, mut bytes)) = self.packets.pop_front() {
            let verdict = self.switch.process(self.now, &mut bytes, from);
            bytes.truncate(verdict.length);
            if let Some(agent) = verdict.copy {
                let mut copy = bytes.clone();
                if self.switch.make_copy(&mut copy) {
                    self.hear(usize::from(agent) - 1, &copy);
                }
            }
            match verdict.action {
                Action::ToSender => {
                    let [_, _, high, low] = from.ip().octets();
                    self.hear(usize::from(u16::from_be_bytes([high, low])), &bytes);
                }
                Action::ToNode { handle, .. } => self.hear(usize::from(handle) - 1, &bytes),
                // There is no controller, and nothing here needs one.
                Action::Drop | Action::ToController => {}
            }
        }
    }

    fn hear(&mut self, node: usize, packet: &[u8]) {
        self.nodes[node].on_packet(self.now, packet);
        self.settle(node);
    }

    /// What a node has to say.
    fn settle(&mut self, node: usize) {
        while let Some(event) = self.nodes[node].event() {
            match event {
                Event::Granted { request, .. } => self.granted.push_back((node, request)),
                other => panic!("nothing but grants may come, not {other:?}"),
            }
        }
        while let Some(out) = self.nodes[node].transmit() {
            self.packets.push_back((address(node, out.port), out.packet.to_vec()));
        }
    }
}
