//! An engine without its threads: what has come is read when the test says so, and in its order.

use super::*;
use crate::observe::Observer;
use crate::transport::Transport;
use crate::wait::Wait;
use std::net::{SocketAddr, UdpSocket};
use wayside_protocol::{Acquire, Mode, Priority};
use wayside_wire::{
    BODY, Enrol, Enrolled, Entry, FabricKind, Heartbeat, SlotBits, SlotState, VERSION, entry_flag, limits,
};

const HANDLE: u16 = 3;
const INCARNATION: u64 = 9;

/// A switch that says what it is told to.
struct Switch(UdpSocket);

impl Switch {
    fn start() -> Switch {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("it can wait");
        Switch(socket)
    }

    fn address(&self) -> SocketAddrV4 {
        match self.0.local_addr() {
            Ok(SocketAddr::V4(address)) => address,
            other => panic!("{other:?}"),
        }
    }

    /// The next packet of this kind, and who sent it.
    fn next(&self, service: u8, kind: u8) -> (Vec<u8>, SocketAddr) {
        let mut buffer = [0; 2048];
        loop {
            let (bytes, from) = self.0.recv_from(&mut buffer).expect("it comes");
            let header = Header::read(&buffer[..bytes]).expect("a node writes packets");
            if (header.service, header.kind) == (service, kind) {
                return (buffer[..bytes].to_vec(), from);
            }
        }
    }

    fn send(&self, to: SocketAddr, header: Header, bytes: usize, body: impl FnOnce(&mut [u8])) {
        let mut packet = vec![0; BODY + bytes];
        Header { destination: HANDLE, namespace: 1, ..header }.write(&mut packet);
        body(&mut packet);
        self.0.send_to(&packet, to).expect("sent");
    }

    fn say(&self, to: SocketAddr, epoch: u32, kind: FabricKind, body: impl FnOnce(&mut [u8])) {
        let header = Header { service: service::FABRIC, kind: kind as u8, epoch, ..Header::default() };
        self.send(to, header, kind.body().bytes(0), body);
    }

    /// Asks for everything that is held, under a new epoch.
    fn ask_everyone(&self, to: SocketAddr, epoch: u32) {
        let header = Header { service: service::LOCK, kind: kind::lock::CENSUS, count: 1, epoch, ..Header::default() };
        let everything = Entry { request: epoch.into(), slot: limits::ALL_SLOTS, ..Entry::default() };
        self.send(to, header, Entry::BYTES, |packet| everything.write(packet, BODY));
    }

    fn turn(&self, to: SocketAddr, epoch: u32, sequence: u64) {
        let body = Heartbeat { incarnation: INCARNATION, sequence, ..Heartbeat::default() };
        self.say(to, epoch, FabricKind::Turn, |packet| body.write(packet, BODY));
    }
}

/// An engine with a session under epoch 7 at the first of the switches, and its agent port.
fn engine(switches: [&Switch; 2]) -> (Arc<Engine>, SocketAddr) {
    crate::errands::prepare();
    let endpoint = |switch: &Switch| Endpoint::parse(&switch.address().to_string()).expect("an address");
    let config = Config {
        endpoints: switches.map(endpoint).to_vec(),
        placed: None,
        namespace: "default".into(),
        lease: None,
        wait: Wait::default(),
        transport: Transport::default(),
        patience: Duration::from_secs(10),
        credentials: None,
        lock_server: false,
        keep: 0,
        observer: Observer::default(),
    };
    let engine = Arc::new(Engine::new(config).expect("sockets"));
    engine.start();
    let (asked, agent) = switches[0].next(service::FABRIC, kind::fabric::ENROL);
    let body = Enrolled {
        nonce: Enrol::read(&asked, BODY).nonce,
        incarnation: INCARNATION,
        lease_us: 60_000_000,
        slots: 16,
        version: VERSION,
        ..Enrolled::default()
    };
    switches[0].say(agent, 7, FabricKind::Enrolled, |packet| body.write(packet, BODY));
    read(&engine);
    assert_eq!(epoch(&engine), 7);
    (engine, agent)
}

/// Reads what has come from the session's switch.
fn read(engine: &Engine) {
    engine.drain(&engine.agent().socket, 64);
}

/// Reads what has come from others.
fn hear(engine: &Engine) {
    engine.listen_at(engine.agent(), 64);
}

fn epoch(engine: &Engine) -> u32 {
    engine.core.lock().info().expect("it lives").epoch
}

/// Another switch takes the post, and the one before takes it back at once: what that one says is there already when
/// the session goes on at the other one, and is read afterwards.
#[test]
fn a_switch_that_serves_again_is_gone_back_to_though_its_first_word_came_by_the_way_to_another() {
    let (first, second) = (Switch::start(), Switch::start());
    let (engine, agent) = engine([&first, &second]);
    second.ask_everyone(agent, 8);
    first.ask_everyone(agent, 9);
    hear(&engine);
    assert_eq!((engine.switch(), epoch(&engine)), (second.address(), 8));
    read(&engine);
    assert_eq!((engine.switch(), epoch(&engine)), (second.address(), 9), "nobody told who said that");
    first.ask_everyone(agent, 9);
    hear(&engine);
    assert_eq!((engine.switch(), epoch(&engine)), (first.address(), 9));
    first.next(service::LOCK, kind::lock::REPORT);
    // What is late of the one in between is of an epoch that is over.
    second.ask_everyone(agent, 8);
    hear(&engine);
    assert_eq!(engine.switch(), first.address());
}

#[test]
fn who_has_followed_a_turn_goes_back_for_no_late_census_but_for_the_turn_of_who_serves() {
    let (first, second) = (Switch::start(), Switch::start());
    let (engine, agent) = engine([&first, &second]);
    first.ask_everyone(agent, 8);
    read(&engine);
    second.turn(agent, 8, 20);
    hear(&engine);
    assert_eq!((engine.switch(), epoch(&engine)), (second.address(), 8));
    first.ask_everyone(agent, 8);
    hear(&engine);
    assert_eq!(engine.switch(), second.address(), "it was sent before the turn");
    // It is handed back: as above, what is read by the way to the one is of the other.
    second.turn(agent, 8, 20);
    first.turn(agent, 8, 30);
    engine.visit(|core, now, _| {
        let mut packet = vec![0; BODY + Heartbeat::BYTES];
        let (service, kind) = (service::FABRIC, FabricKind::Turn as u8);
        Header { service, kind, epoch: 8, destination: HANDLE, namespace: 1, ..Header::default() }.write(&mut packet);
        Heartbeat { incarnation: INCARNATION, sequence: 30, ..Heartbeat::default() }.write(&mut packet, BODY);
        core.node.on_packet(now, &packet);
    });
    assert_eq!(engine.switch(), second.address(), "nobody told who said that");
    hear(&engine);
    assert_eq!(engine.switch(), first.address());
}

/// What the switch has granted of a slot that nobody had.
fn granted(core: &mut Core, now: Time, errands: &mut Errands, RequestId(request): RequestId, name: u64) {
    let bits = SlotBits { state: SlotState::Managed, tryable: true, ..SlotBits::default() };
    let flags = entry_flag::AGENCY | entry_flag::EXCLUSIVE;
    let entry = Entry { name, request, slot: name as u32, tenure: 1, holder: HANDLE, ..Entry::default() };
    let header = Header { service: service::LOCK, kind: kind::lock::GRANT, count: 1, epoch: 7, ..Header::default() };
    let mut packet = vec![0; BODY + Entry::BYTES];
    Header { destination: HANDLE, namespace: 1, ..header }.write(&mut packet);
    Entry { flags, slot_bits: bits.to_u16(), ..entry }.write(&mut packet, BODY);
    core.node.on_packet(now, &packet);
    assert!(core.node.was_quick());
    errands.is_quick = true;
}

#[test]
fn what_is_due_sooner_is_known_at_once_and_what_is_needless_by_now_is_left_to_who_looks_by_then() {
    let (first, second) = (Switch::start(), Switch::start());
    let (engine, _) = engine([&first, &second]);
    let published = || engine.next_timer.load(Relaxed);
    let ask = |name| {
        engine.visit(|core, now, errands| {
            let (mode, priority) = (Mode::Exclusive, Priority::default());
            let want = Acquire { name, mode, try_: false, priority, deadline: None, port: 0 };
            let id = core.node.acquire(now, want).expect("the session lives");
            errands.is_quick = core.node.was_quick();
            id
        })
    };
    // On a busy machine it has asked for its session more than once, and something is due of that.
    while published() < clock::after(clock::now(), Duration::from_secs(1)).0 {
        std::thread::sleep(Duration::from_millis(1));
        engine.tick();
    }
    let beat = published();
    let id = ask(1);
    let asked = published();
    assert!(asked < beat, "a packet may be lost");
    engine.visit(|core, now, errands| granted(core, now, errands, id, 1));
    assert_eq!(published(), asked, "the background thread is up");
    engine.wakes_at.store(u64::MAX, Relaxed);
    let id = ask(2);
    assert!(published() > asked, "it would come too late to find out");
    engine.visit(|core, now, errands| granted(core, now, errands, id, 2));
    assert!(published() > asked + 1_000_000, "heartbeats alone");
}
