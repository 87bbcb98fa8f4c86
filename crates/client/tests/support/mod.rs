//! A switch in this process: the real core and the real controller behind one socket, with faults on demand.
#![allow(dead_code)] // Every test file uses its own part.

pub mod control;

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};
use wayside_client::{Builder, Session, Shards};
use wayside_protocol::Time;
use wayside_protocol::controller::{Allocation, Config, Controller, LONGEST_LEASE, Namespace, Record, Room, Store};
use wayside_switch::{Action, Switch, SwitchConfig};
use wayside_wire::{Engine, Policy};

/// Slots of the only namespace, `default`: numbers below it have slots of their own.
pub const SLOTS: u32 = 1 << 16;
pub const LEASE: Duration = Duration::from_millis(500);

#[derive(Default)]
pub struct Faults {
    /// Loses everything, both ways.
    pub mute: AtomicBool,
    /// Loses one packet in so many; 0: none.
    pub loss: AtomicU32,
    /// Every address that has sent something.
    seen: Mutex<HashSet<SocketAddrV4>>,
    stop: AtomicBool,
}

pub struct TestSwitch {
    pub address: SocketAddrV4,
    pub faults: Arc<Faults>,
    socket: UdpSocket,
    thread: Option<JoinHandle<()>>,
}

impl TestSwitch {
    pub fn start() -> TestSwitch {
        TestSwitch::start_on(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"))
    }

    pub fn start_on(socket: UdpSocket) -> TestSwitch {
        TestSwitch::start_as(socket, 0)
    }

    /// One of each of these shards.
    pub fn of_shards(shards: &Shards) -> Vec<TestSwitch> {
        let of = |own| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
            TestSwitch::start_as(socket, shards.fingerprint(own))
        };
        (0..shards.names().len()).map(of).collect()
    }

    /// By which shards names are divided, and which it is; 0: not at all.
    fn start_as(socket: UdpSocket, shards: u32) -> TestSwitch {
        let SocketAddr::V4(address) = socket.local_addr().expect("bound") else { panic!("bound to IPv4") };
        let faults = Arc::new(Faults::default());
        let (ready, is_ready) = std::sync::mpsc::channel();
        let own = socket.try_clone().expect("a descriptor");
        let thread = thread::spawn({
            let faults = faults.clone();
            move || serve(&socket, shards, &faults, &ready)
        });
        is_ready.recv().expect("the switch starts");
        TestSwitch { address, faults, socket: own, thread: Some(thread) }
    }

    /// A builder for sessions of this switch.
    pub fn builder(&self) -> Builder {
        Session::builder().endpoint(self.address.to_string())
    }

    pub fn session(&self) -> Session {
        self.builder().connect().expect("a session")
    }

    /// Sends this to every port that it has heard from.
    pub fn send_everywhere(&self, packet: &[u8]) {
        for to in self.faults.seen.lock().expect("nobody panics with it").iter() {
            drop(self.socket.send_to(packet, to));
        }
    }
}

impl Drop for TestSwitch {
    fn drop(&mut self) {
        self.faults.stop.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the switch ends");
        }
    }
}

fn serve(socket: &UdpSocket, shards: u32, faults: &Faults, ready: &std::sync::mpsc::Sender<()>) {
    let switch = Arc::new(Switch::new(SwitchConfig { slots: SLOTS, max_handle: 1_000 }));
    switch.add_namespace(1, SLOTS, Policy::Fair).expect("a first namespace");
    let lease = LEASE.as_micros() as u32;
    let namespace = Namespace {
        id: 1,
        name: "default".into(),
        policy: Policy::Fair,
        patience: wayside_protocol::OVERTAKEN_MOST,
        names: wayside_protocol::Names::default(),
        engine: Engine::Fission,
        allocation: Allocation::Fixed,
        room: Room::default(),
        servers: 1,
        lease,
        longest_lease: LONGEST_LEASE,
    };
    let config = Config { namespaces: vec![namespace], secret: 5, shards, ..Config::default() };
    let mut controller = Controller::new(config, switch.clone(), Memory::default()).expect("an empty store");
    let begin = Instant::now();
    let now = || Time(begin.elapsed().as_micros() as u64);
    let mut ready = Some(ready);
    let mut random = 1u64;
    socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a positive time-out");
    while !faults.stop.load(SeqCst) {
        let mut buffer = [0; 2048];
        if let Ok((length, SocketAddr::V4(from))) = socket.recv_from(&mut buffer) {
            faults.seen.lock().expect("nobody panics with it").insert(from);
            random = wayside_wire::mix(random + 1);
            let loss = u64::from(faults.loss.load(SeqCst));
            if faults.mute.load(SeqCst) || (loss > 0 && random.is_multiple_of(loss)) {
                continue;
            }
            let packet = &mut buffer[..length];
            let verdict = switch.process(Time(0), packet, from);
            match verdict.action {
                Action::Drop => {}
                Action::ToSender => drop(socket.send_to(&packet[..verdict.length], from)),
                Action::ToNode { handle, port } => {
                    let to = switch.address(handle, port).expect("a live node has an address");
                    drop(socket.send_to(&packet[..verdict.length], to));
                }
                Action::ToController => controller.on_packet(now(), from, &packet[..verdict.length]),
            }
            if let Some(agent) = verdict.copy {
                assert!(switch.make_copy(&mut packet[..verdict.length]), "every node may be sent to");
                drop(socket.send_to(&packet[..verdict.length], switch.address(agent, 0).expect("as above")));
            }
        }
        controller.on_tick(now());
        while let Some((to, packet)) = controller.transmit() {
            drop(socket.send_to(&packet, to));
        }
        if let Some(ready) = ready.take() {
            ready.send(()).expect("the test waits");
        }
    }
}

/// A store that is as durable as the test.
#[derive(Default)]
struct Memory(BTreeMap<u32, Vec<u8>>);

impl Store for Memory {
    type Error = Infallible;

    fn load(&mut self) -> Result<Vec<Record>, Infallible> {
        Ok(self.0.clone().into_iter().collect())
    }

    fn commit(&mut self, batch: &[Record]) -> Result<(), Infallible> {
        self.0.extend(batch.iter().cloned());
        Ok(())
    }
}

/// Waits until `what` is true, at most ten seconds.
#[track_caller]
pub fn eventually(mut what: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !what() {
        assert!(Instant::now() < end, "not within ten seconds");
        thread::sleep(Duration::from_millis(1));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park_timeout(Duration::from_secs(10)),
        }
    }
}
