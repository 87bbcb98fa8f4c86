//! What a packet costs a lock server by how many queues in the switch it has had the overflow of:
//! `cargo run --release -p wayside-protocol --example served [PACKETS]`.
//!
//! One node, without sockets; after every packet its owner asks for the next timer and takes what goes out, as a client
//! does. A request overflows, is pushed, and the switch says that it has taken it: three packets, of one queue after
//! the other. Then as many of locks of its own: asked for, given back.

use std::time::Instant;
use wayside_protocol::seal::Enrolment;
use wayside_protocol::{Node, NodeConfig, Time};
use wayside_wire::{Attempt, BODY, Engine, Header, kind, service};

const ME: u16 = 1;
const EPOCH: u32 = 1;
const SPACE: u16 = 1;
const PACKETS: u64 = 30_000;
const QUEUES: [u64; 5] = [1, 16, 256, 2_048, 16_384];

struct Server {
    node: Node,
    now: Time,
}

impl Server {
    fn new() -> Server {
        let mut node = Node::new(NodeConfig { lock_server: true, ..NodeConfig::new(7) });
        let now = Time(1_000);
        let enrolment = Enrolment {
            handle: ME,
            incarnation: 1,
            epoch: EPOCH,
            namespace: SPACE,
            slots: 1,
            engine: Engine::Queue,
            names: wayside_protocol::Names::default(),
            lease: u32::MAX,
            grace: 1,
            lifeline: 1,
            shards: 0,
            policy: wayside_wire::Policy::Fair,
            patience: wayside_protocol::OVERTAKEN_MOST,
            secret: None,
            version: wayside_wire::VERSION,
        };
        node.begin(now, now, &enrolment);
        let mut server = Server { node, now };
        let lease = 1 << 40;
        let serving = Attempt { number: 1, ticket: 1, order: lease, over: lease, holder: ME, ..Attempt::default() };
        server.hear(kind::queue::SERVING, 0, &serving);
        assert!(server.node.serves(1), "the controller has said so");
        server
    }

    fn hear(&mut self, kind: u8, source: u16, attempt: &Attempt) {
        let header = Header {
            service: service::QUEUE,
            kind,
            source,
            destination: ME,
            epoch: EPOCH,
            namespace: SPACE,
            ..Header::default()
        };
        let mut packet = [0; BODY + Attempt::BYTES];
        header.write(&mut packet);
        attempt.write(&mut packet, BODY);
        self.now = self.now + 1;
        self.node.on_packet(self.now, &packet);
        if self.node.next_timer().is_some_and(|at| at <= self.now) {
            self.node.on_tick(self.now);
        }
        while self.node.transmit().is_some() {}
        while self.node.event().is_some() {}
    }

    /// The `round`th overflow of a queue, from ACQUIRE to PUSHED.
    fn overflow(&mut self, name: u64, round: u64, request: u64) {
        let wish = Attempt { name, request, order: round, holder: 2, room: 4, ..Attempt::default() };
        self.hear(kind::queue::ACQUIRE, 2, &wish);
        for number in [round - 1, round] {
            let taken = Attempt { name, number, order: round, room: 4, ..Attempt::default() };
            self.hear(kind::queue::PUSHED, 0, &taken);
        }
    }

    fn own(&mut self, name: u64, request: u64, ticket: u64) {
        let wish = Attempt { name, request, holder: 2, flags: 1, ..Attempt::default() };
        self.hear(kind::queue::ACQUIRE, 2, &wish);
        self.hear(kind::queue::RELEASE, 2, &Attempt { ticket, ..wish });
    }
}

fn nanoseconds(packets: u64, work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_nanos() as f64 / packets as f64
}

fn main() {
    let packets = std::env::args().nth(1).map_or(PACKETS, |packets| packets.parse().expect("a number of packets"));
    println!("{:>8}{:>16}{:>16}   ns a packet", "queues", "of overflows", "of its own");
    for queues in QUEUES {
        let mut server = Server::new();
        let mut rounds = vec![0; queues as usize];
        let mut request = 0;
        let mut one = |server: &mut Server, name: u64| {
            rounds[name as usize] += 1;
            request += 1;
            server.overflow(name + 1, rounds[name as usize], request);
        };
        (0..queues).for_each(|name| one(&mut server, name));
        let overflows = nanoseconds(packets, || {
            (0..packets / 3).for_each(|at| one(&mut server, wayside_wire::mix(at) % queues));
        });
        let term = 1 << 30;
        let own = nanoseconds(packets, || {
            (1..=packets / 2).for_each(|at| server.own(1 << 40 | at, 1 << 39 | at, term | at));
        });
        println!("{queues:>8}{overflows:>16.0}{own:>16.0}");
    }
}
