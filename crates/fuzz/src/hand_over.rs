//! A standby, and what comes to it over the connection by which a switch hands its memory over: genuine messages,
//! others of their kinds, bytes in between. What is refused changes nothing that anybody relies on; what is taken is
//! gone on with, once the post is the standby's.

use crate::bytes::Bytes;
use crate::controller::{self, Disk, MAX_HANDLE, SLOTS};
use crate::hand_over_line::{Line, NONCE_BYTES};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::runtime::{Builder, Runtime};
use wayside_protocol::Time;
use wayside_protocol::controller::{
    Answer, Applicant, Config, Handed, MESSAGE_HEAD, Namespace, Post, Question, Seat, ServingConfig,
};
use wayside_protocol::memory::{self, Part, QueueMemory, SlotWord, Stage, SwitchMemory};
use wayside_protocol::seal::Secret;
use wayside_switch::{QueueConfig, Switch, SwitchConfig};
use wayside_wire::{Engine, Enrol, Policy, SlotState, VERSION, cell_who, check, padded};

const GIVER: u64 = 1;
const STANDBY: u64 = 2;
const LEASE: u64 = 300_000;
/// The namespace with queues.
const QUEUED: u16 = 2;
/// Of both ends, which no matter of theirs depends on.
const NONCES: [[u8; NONCE_BYTES]; 2] = [[1; NONCE_BYTES], [2; NONCE_BYTES]];

type Place = Seat<Arc<Switch>, Disk>;

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().enable_time().build().expect("a clock alone");
    /// Where packets are not signed, and where they are: to make them takes longer than an input.
    static HANDED_OVER: [HandedOver; 2] = [HandedOver::make(false), HandedOver::make(true)];
}

/// What a switch has handed over, and left behind.
struct HandedOver {
    messages: Vec<Vec<u8>>,
    disk: Disk,
    post: Post,
    now: Time,
}

impl HandedOver {
    /// Two sessions, slots that are held and that were, and a queue in which one holds and one waits.
    fn make(signs: bool) -> HandedOver {
        let (switch, disk) = (switch(), Disk::default());
        let mut post = Post::default();
        let mut now = Time(1_000_000);
        let mut giver = place(GIVER, now, signs, &switch, &disk);
        while giver.controller(now).is_none() {
            now.0 += 1_000;
            ask(&mut giver, GIVER, now, &mut post);
        }
        for number in 1..3 {
            let body = Enrol {
                nonce: number,
                pid: 1,
                lease_us: 100_000,
                namespace_name: padded("default").expect("it is short"),
                host: [0; 32],
            };
            let address = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, number as u8), 9_000);
            let who = Applicant { address, admission: 1, version: VERSION };
            let controller = giver.controller(now).expect("the post is its own");
            controller.enrol(now, who, 0, &body).expect("there is room");
        }
        let held = SlotWord { state: SlotState::Managed, agent: 2, ..SlotWord::unheld(4) };
        switch.write_slots(1, 3, &[[held.pack(), 7], [SlotWord::unheld(9).pack(), 0]]);
        switch.set_lock_server(QUEUED, Part { number: 1, of: 2 }, 2);
        let line = memory::Line {
            name: 7,
            cells: 3,
            stage: Stage::Here,
            ticket: 6,
            used: 2,
            given: 2,
            settled: 1,
            pushed: 1,
            ranked: 0,
        };
        let who = cell_who::with_exclusive(cell_who::with_holder(0, 1), 1);
        let queue = QueueMemory { line, granted: 5, members: vec![[1, who], [2, who]] };
        let mut queues = switch.queues_memory(QUEUED);
        queues.queues.push(queue);
        assert!(switch.take_up_queues(&BTreeMap::from([(QUEUED, queues)])));
        let mut copying = giver.prepare(now).expect("it serves");
        let mut messages = vec![copying.opening()];
        copying.send(&switch, |message| messages.push(message));
        switch.write_slots(1, 9, &[[held.pack(), 1]]);
        // Both nodes have been silent for long enough that nobody waits for what they say.
        now.0 += 30_000;
        assert!(giver.is_prepared(now) && giver.stop(now));
        assert!(giver.hand_over(copying, |message| messages.push(message)));
        HandedOver { messages, disk, post, now }
    }
}

/// Of slots, and of queues.
fn switch() -> Arc<Switch> {
    let switch = Switch::new(SwitchConfig { slots: 2 * SLOTS, max_handle: MAX_HANDLE });
    for namespace in [1, QUEUED] {
        switch.add_namespace(namespace, SLOTS, Policy::Fair).expect("there is room for both");
    }
    let switch = switch.with_queues(QueueConfig { queues: 2, cells: 8, seed: 5 });
    switch.add_queue(QUEUED, 5, 4, 1).expect("it is the first");
    Arc::new(switch)
}

fn config(signs: bool) -> Config {
    let mut config = controller::config(signs);
    let [slots] = &config.namespaces[..] else { unreachable!("it has one") };
    let queued = Namespace { id: QUEUED, name: "queued".into(), engine: Engine::Queue, servers: 2, ..slots.clone() };
    config.namespaces.push(queued);
    config
}

fn place(own: u64, now: Time, signs: bool, switch: &Arc<Switch>, disk: &Disk) -> Place {
    let serving = ServingConfig { own, lease: LEASE, drift_ppm: 0 };
    Seat::sharing(now, config(signs), switch.clone(), disk.clone(), serving)
}

/// The register, asked whatever somebody has to ask it.
fn ask(place: &mut Place, own: u64, now: Time, post: &mut Post) {
    while let Some(inquiry) = place.ask(now) {
        let holder = match inquiry.question {
            Question::Take(revision) if revision == post.revision => Some(own),
            Question::Renew if post.holder == own => Some(own),
            Question::Resign(revision) if revision == post.revision => Some(0),
            _ => None,
        };
        let answer = match holder {
            Some(holder) => {
                *post = Post { holder, revision: post.revision + 1 };
                Answer::Done(*post)
            }
            None => Answer::Is(*post),
        };
        place.on_answer(now, inquiry, answer);
    }
}

/// Bytes that have come, and then the end.
#[derive(Clone, Default)]
struct Pipe(Rc<RefCell<VecDeque<u8>>>);

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut bytes = self.0.borrow_mut();
        let count = into.remaining().min(bytes.len());
        bytes.drain(..count).for_each(|byte| into.put_slice(&[byte]));
        Poll::Ready(Ok(()))
    }
}

/// Both ends of a connection.
struct Connection {
    pipe: Pipe,
    from: Line<Pipe>,
    to: Line<Pipe>,
}

impl Connection {
    fn new(signs: bool) -> Connection {
        let (pipe, secret) = (Pipe::default(), signs.then_some(Secret([3; 32])));
        let line = || Line::new(pipe.clone(), secret, NONCES);
        Connection { from: line(), to: line(), pipe }
    }
}

struct World<'a> {
    handed_over: &'a HandedOver,
    standby: Place,
    switch: Arc<Switch>,
    connection: Connection,
    post: Post,
    now: Time,
    signs: bool,
    /// Genuine messages that have come in their order.
    next: usize,
}

impl World<'_> {
    fn new(handed_over: &HandedOver, signs: bool) -> World<'_> {
        let (switch, now) = (switch(), handed_over.now);
        let standby = place(STANDBY, now, signs, &switch, &handed_over.disk.copied());
        let (connection, post) = (Connection::new(signs), handed_over.post);
        let mut world = World { handed_over, standby, switch, connection, post, now, signs, next: 0 };
        world.pass(0);
        world
    }

    fn step(&mut self, input: &mut Bytes) {
        match input.u8() & 7 {
            0 => {
                let message = self.genuine(self.next);
                self.next += 1;
                self.say(&message);
            }
            1 => {
                let (mut message, to) = (self.genuine(input.u8().into()), input.u16());
                message.truncate(to.into());
                self.say(&message);
            }
            2 | 3 => {
                let mut message = self.genuine(input.u8().into());
                for _ in 0..=input.u8() & 3 {
                    let at = usize::from(input.u16()) % message.len();
                    message[at] = input.u8();
                }
                self.say(&message);
            }
            4 => {
                // Of the same hand-over, but for its kind, its number and what it says.
                let mut message = self.genuine(0)[..MESSAGE_HEAD].to_vec();
                (message[0], message[MESSAGE_HEAD - 1]) = (input.u8() % 5, input.u8());
                message.extend(input.slice());
                self.say(&message);
            }
            5 => self.send(&input.slice()),
            6 => self.pass(input.pause()),
            _ => {
                // Who ends renews its post all the same, or vacates it.
                let holder = if input.u8() & 1 == 0 { GIVER } else { 0 };
                self.post = Post { holder, revision: self.post.revision + 1 };
            }
        }
        self.look();
    }

    fn genuine(&self, number: usize) -> Vec<u8> {
        let messages = &self.handed_over.messages;
        messages[number % messages.len()].clone()
    }

    /// A message of who ends, or of somebody who knows what it knows.
    fn say(&mut self, message: &[u8]) {
        let tag = self.connection.from.tag(message);
        let length = (message.len() as u32).to_be_bytes();
        self.connection.pipe.0.borrow_mut().extend([&length[..], message, &tag].concat());
        let came = self.receive();
        assert_eq!(came.as_deref(), Ok(message), "what was sent has come");
        self.take(message);
    }

    /// Bytes of a stranger.
    fn send(&mut self, bytes: &[u8]) {
        self.connection.pipe.0.borrow_mut().extend(bytes);
        while !self.connection.pipe.0.borrow().is_empty() {
            match self.receive() {
                Ok(message) => {
                    assert!(!self.signs, "nobody signed it");
                    self.take(&message);
                }
                Err(_) => self.connection = Connection::new(self.signs),
            }
        }
    }

    fn receive(&mut self) -> Result<Vec<u8>, String> {
        RUNTIME.with(|runtime| runtime.block_on(self.connection.to.receive()))
    }

    fn take(&mut self, message: &[u8]) {
        if let Some(handed) = message.get(MESSAGE_HEAD..).and_then(Handed::decode) {
            let mut bytes = Vec::new();
            handed.encode(&mut bytes);
            assert_eq!(Handed::decode(&bytes), Some(handed), "read back as written");
        }
        match self.standby.receive(self.now, message) {
            Ok(false) => {}
            Ok(true) => self.pass(0),
            // As the daemon does, it closes the connection.
            Err(_) => self.connection = Connection::new(self.signs),
        }
    }

    fn pass(&mut self, micros: u64) {
        self.now.0 += micros;
        self.standby.on_tick(self.now);
        ask(&mut self.standby, STANDBY, self.now, &mut self.post);
    }

    fn look(&mut self) {
        let serves = self.standby.records().is_some();
        assert!(serves || self.switch.epoch() == 0, "a memory has an epoch only where it may be decided on");
        while let Some((_, packet)) = self.standby.controller(self.now).and_then(|controller| controller.transmit()) {
            check(&packet).expect("a controller sends packets alone");
        }
        while self.standby.notice().is_some() {}
    }
}

pub fn run(input: &[u8]) {
    let mut input = Bytes(input);
    let signs = input.u8() & 1 != 0;
    HANDED_OVER.with(|both| {
        let mut world = World::new(&both[usize::from(signs)], signs);
        while !input.is_over() {
            world.step(&mut input);
        }
        // Whatever it goes on with, it finds out who is dead of the nodes that it was told.
        for _ in 0..8 {
            world.pass(60_000);
            world.look();
        }
    });
}
