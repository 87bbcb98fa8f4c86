//! A switch (the real core) and some nodes on a network that loses nothing unless told to.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use wayside_protocol::memory::{NodeEntry, SlotWord, SwitchMemory};
use wayside_protocol::{Acquire, Event, Mode, Node, NodeConfig, Path, Priority, RequestId, Time, Token};
use wayside_switch::{Action, Switch, SwitchConfig};
use wayside_wire::{
    BODY, Enrolled, Entry, FabricKind, Header, Heartbeat, LockKind, MAJOR, Policy, check, kind, service,
};

pub const SLOTS: u32 = 64;
pub const LEASE: u64 = 1_000_000;
pub const EPOCH: u32 = 7;

/// A packet that may be delayed: from the switch to a node, or to the switch.
pub struct Flying {
    pub to: Option<usize>,
    pub from: SocketAddrV4,
    pub packet: Vec<u8>,
}

pub struct Bench {
    pub now: Time,
    pub switch: Switch,
    pub nodes: Vec<Node>,
    pub flying: VecDeque<Flying>,
    /// Kinds that were delivered, in order: (to node or None, kind).
    pub delivered: Vec<(Option<usize>, u8)>,
    /// Packets for the controller.
    pub to_controller: Vec<Vec<u8>>,
    /// Which version its answers to heartbeats tell from now on.
    pub version: u8,
}

/// The latest that was not told when a session began.
const UNTOLD: u8 = MAJOR << 4 | 13;

pub fn address(node: usize, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, node as u8 + 1), if port == 0 { 9_000 } else { port })
}

pub fn handle(node: usize) -> u16 {
    node as u16 + 1
}

impl Bench {
    pub fn new(nodes: usize) -> Bench {
        Bench::with_lease(nodes, LEASE)
    }

    pub fn with_lease(nodes: usize, lease: u64) -> Bench {
        Bench::with(nodes, lease, Policy::Fair, &NodeConfig::new(1))
    }

    pub fn with(nodes: usize, lease: u64, policy: Policy, config: &NodeConfig) -> Bench {
        let (lease_us, policy) = (lease as u32, policy as u8);
        Bench::enrolled(nodes, config, &Enrolled { lease_us, policy, ..Enrolled::default() })
    }

    /// Its nodes are told that the switch speaks this version of packets; those of other benches, that it is one of
    /// before versions were told.
    pub fn speaking(version: u8, nodes: usize, config: &NodeConfig) -> Bench {
        let (lease_us, policy) = (LEASE as u32, Policy::Fair as u8);
        Bench::enrolled(nodes, config, &Enrolled { lease_us, policy, version, ..Enrolled::default() })
    }

    fn enrolled(nodes: usize, config: &NodeConfig, told: &Enrolled) -> Bench {
        let policy = Policy::try_from(told.policy).expect("a policy");
        let switch = Switch::new(SwitchConfig { slots: SLOTS, max_handle: 100 });
        switch.add_namespace(1, SLOTS, policy).expect("the first namespace fits");
        switch.set_epoch(EPOCH);
        switch.set_serving(true);
        let mut bench = Bench {
            now: Time(1_000),
            switch,
            nodes: Vec::new(),
            flying: VecDeque::new(),
            delivered: Vec::new(),
            to_controller: Vec::new(),
            version: if told.version == 0 { UNTOLD } else { told.version },
        };
        for index in 0..nodes {
            bench.enrol(index, config, told);
        }
        bench.run();
        bench
    }

    /// Plays the controller for one node.
    fn enrol(&mut self, index: usize, config: &NodeConfig, told: &Enrolled) {
        let mut node = Node::new(NodeConfig { seed: 1 + index as u64, ..config.clone() });
        node.start(self.now);
        let enrol = node.transmit().expect("a node enrols").packet.to_vec();
        let nonce = wayside_wire::Enrol::read(&enrol, BODY).nonce;
        let incarnation = 100 + index as u64;
        let entry = NodeEntry { address: address(index, 0), namespace: 1, incarnation };
        self.switch.set_node(handle(index), &entry);
        let header = Header {
            service: service::FABRIC,
            kind: kind::fabric::ENROLLED,
            destination: handle(index),
            epoch: EPOCH,
            namespace: 1,
            ..Header::default()
        };
        let body =
            Enrolled { nonce, incarnation, grace_us: 1, slots: SLOTS, patience: 1 + config.overtaken_most, ..*told };
        let mut packet = vec![0; BODY + FabricKind::Enrolled.body().bytes(0)];
        header.write(&mut packet);
        body.write(&mut packet, BODY);
        node.on_packet(self.now, &packet);
        assert!(matches!(node.event(), Some(Event::Enrolled(_))));
        node.on_tick(self.now);
        self.nodes.push(node);
        self.collect(index);
    }

    pub fn collect(&mut self, index: usize) {
        while let Some(out) = self.nodes[index].transmit() {
            let from = address(index, out.port);
            self.flying.push_back(Flying { to: None, from, packet: out.packet.to_vec() });
        }
    }

    /// A node has a packet of the controller's: of this kind, epoch, position and flags.
    pub fn tell(&mut self, node: usize, header: Header, entries: &[Entry]) {
        let mut packet = vec![0; BODY + entries.len() * Entry::BYTES];
        let (service, namespace, count) = (service::LOCK, 1, entries.len() as u8);
        Header { service, namespace, count, destination: handle(node), ..header }.write(&mut packet);
        for (index, entry) in entries.iter().enumerate() {
            entry.write(&mut packet, BODY + index * Entry::BYTES);
        }
        self.nodes[node].on_packet(self.now, &packet);
        self.collect(node);
    }

    /// Delivers the oldest packet under way.
    pub fn step(&mut self) -> bool {
        let Some(flying) = self.flying.pop_front() else { return false };
        self.deliver(flying);
        true
    }

    pub fn deliver(&mut self, flying: Flying) {
        let Flying { to, from, mut packet } = flying;
        let header = check(&packet).expect("only whole packets fly here");
        if std::env::var_os("BENCH_TRACE").is_some() && header.service == service::LOCK {
            trace(self.now, to, &header, &packet);
        }
        self.delivered.push((to, if header.service == service::LOCK { header.kind } else { 0 }));
        if let Some(index) = to {
            if (header.service, header.kind) == (service::FABRIC, kind::fabric::HEARTBEAT_ACK) {
                packet[2] = self.version;
            }
            self.nodes[index].on_packet(self.now, &packet);
            return self.collect(index);
        }
        let verdict = self.switch.process(self.now, &mut packet, from);
        packet.truncate(verdict.length);
        if let Some(agent) = verdict.copy {
            let mut copy = packet.clone();
            assert!(self.switch.make_copy(&mut copy));
            self.fly_to_node(self.switch.address(agent, 0).expect("agents are known"), copy);
        }
        match verdict.action {
            Action::Drop => {}
            Action::ToSender => self.fly_to_node(from, packet),
            Action::ToNode { handle, port } => {
                self.fly_to_node(self.switch.address(handle, port).expect("receivers are known"), packet);
            }
            Action::ToController => self.to_controller.push(packet),
        }
    }

    fn fly_to_node(&mut self, at: SocketAddrV4, packet: Vec<u8>) {
        let to = usize::from(at.ip().octets()[3]) - 1;
        self.flying.push_back(Flying { to: Some(to), from: at, packet });
    }

    /// Until nothing is under way.
    pub fn run(&mut self) {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < 10_000, "packets go round in circles");
        }
    }

    /// Time passes, timers fire, packets fly.
    pub fn pass(&mut self, micros: u64) {
        let end = self.now + micros;
        loop {
            let due = (0..self.nodes.len()).filter_map(|i| self.nodes[i].next_timer()).min().unwrap_or(end).min(end);
            self.now = self.now.max(due);
            for index in 0..self.nodes.len() {
                self.nodes[index].on_tick(self.now);
                self.collect(index);
            }
            self.run();
            if self.now >= end {
                return;
            }
        }
    }

    /// Time passes for node 0 alone, and nothing that it sends arrives.
    pub fn wait(&mut self, micros: u64) {
        let end = self.now + micros;
        let mut ticks = 0;
        while let Some(due) = self.nodes[0].next_timer().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.nodes[0].on_tick(self.now);
            self.collect(0);
            ticks += 1;
            assert!(ticks < 10_000, "it is never done");
        }
        self.now = end;
    }

    /// Lock packets under way to the switch, each with its first entry. Neither they arrive nor whatever else is under
    /// way.
    pub fn sent(&mut self) -> Vec<(Header, Entry)> {
        let packets = self.flying.drain(..).filter(|flying| flying.to.is_none()).map(|flying| flying.packet);
        let of_locks = |packet: Vec<u8>| {
            let header = check(&packet).expect("only whole packets fly here");
            (header.service == service::LOCK).then(|| (header, Entry::read(&packet, BODY)))
        };
        packets.filter_map(of_locks).collect()
    }

    /// Kinds of what [`Bench::sent`] has.
    pub fn kinds_sent(&mut self) -> Vec<u8> {
        self.sent().iter().map(|(header, _)| header.kind).collect()
    }

    /// Delivers packets until one of this kind is under way to the switch.
    pub fn run_until_sent(&mut self, wanted: u8) {
        let is_it = |flying: &Flying| {
            let header = check(&flying.packet).expect("only whole packets fly here");
            flying.to.is_none() && (header.service, header.kind) == (service::LOCK, wanted)
        };
        while !self.flying.iter().any(is_it) {
            assert!(self.step(), "it is sent");
        }
    }

    /// Node 0 hears that this session of a handle is over.
    pub fn down(&mut self, dead: u16, incarnation: u64) {
        let (service, kind) = (service::FABRIC, kind::fabric::DOWN);
        let header = Header { service, kind, destination: handle(0), position: dead, ..Header::default() };
        self.say(header, Heartbeat { incarnation, sequence: 3, ..Heartbeat::default() });
    }

    /// Node 0 has a packet about a session.
    pub fn say(&mut self, header: Header, body: Heartbeat) {
        let mut packet = vec![0; BODY + Heartbeat::BYTES];
        header.write(&mut packet);
        body.write(&mut packet, BODY);
        self.nodes[0].on_packet(self.now, &packet);
        self.collect(0);
    }

    /// Drops packets of this kind that are under way; how many.
    pub fn lose(&mut self, lost: u8) -> usize {
        let before = self.flying.len();
        self.flying.retain(|f| {
            let header = check(&f.packet).expect("only whole packets fly here");
            !(header.service == service::LOCK && header.kind == lost)
        });
        before - self.flying.len()
    }

    pub fn ask(&mut self, node: usize, name: u64, mode: Mode) -> RequestId {
        self.ask_with(
            node,
            Acquire { name, mode, try_: false, priority: Priority::NORMAL, deadline: None, port: 5_000 },
        )
    }

    pub fn ask_with(&mut self, node: usize, want: Acquire) -> RequestId {
        let id = self.nodes[node].acquire(self.now, want).expect("the session lives");
        self.collect(node);
        id
    }

    pub fn release(&mut self, node: usize, id: RequestId) {
        self.nodes[node].release(self.now, id);
        self.collect(node);
    }

    /// The next event of a node, which must be a grant of this request.
    pub fn granted(&mut self, node: usize, id: RequestId) -> (Token, Path) {
        match self.nodes[node].event() {
            Some(Event::Granted { request, token, path, .. }) if request == id => (token, path),
            other => panic!("node {node} got {other:?}, not the grant of {id:?}"),
        }
    }

    pub fn quiet(&mut self, node: usize) {
        assert_eq!(self.nodes[node].event(), None);
    }

    pub fn slot(&self, name: u64) -> SlotWord {
        self.switch.load_slot(1, (name % u64::from(SLOTS)) as u32)
    }

    /// How often a kind was delivered since the last call.
    pub fn count(&mut self, kind: LockKind) -> usize {
        self.delivered.iter().filter(|(_, delivered)| *delivered == kind as u8).count()
    }
}

/// One line for a packet that arrives, for finding out what happened.
fn trace(now: Time, to: Option<usize>, header: &Header, packet: &[u8]) {
    let kind = LockKind::try_from(header.kind).map_or("?", LockKind::name);
    let at = to.map_or("switch".to_string(), |node| format!("node {node}"));
    for entry in wayside_wire::entries(packet) {
        let bits = wayside_wire::SlotBits::from_u16(entry.slot_bits);
        println!(
            "{:>9} {at:>7} <- {} {kind:10} flags {:#x} pos {} | name {} req {:x} ten {} seq {} holder {} {:?} x{} t{} j{} f{:#x}",
            now.0,
            header.source,
            header.flags,
            header.position,
            entry.name,
            entry.request & 0xff_ffff_ffff,
            entry.tenure,
            entry.sequence,
            entry.holder,
            bits.state,
            u8::from(bits.transferred),
            u8::from(bits.tryable),
            bits.joins,
            entry.flags
        );
    }
}
