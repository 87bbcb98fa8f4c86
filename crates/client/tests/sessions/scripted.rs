//! What a session sends, and where to, at switches that say and answer what they are told to.

use crate::support::{block_on, eventually};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};
use wayside_client::{Condition, Error, LeasedKey, Session};
use wayside_wire::{
    BODY, Effect, Enrol, Enrolled, Entry, FabricKind, Header, Heartbeat, Operation, Outcome, Refusal, Route, Routes,
    VERSION, header_flag, kind, limits, service, value_flag,
};

const LEASE: Duration = Duration::from_secs(4);

/// The session's handle and incarnation, and the epoch under which it begins.
const HANDLE: u16 = 3;
const INCARNATION: u64 = 9;
const EPOCH: u32 = 7;

struct Switch(UdpSocket);

impl Switch {
    fn start() -> Switch {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.set_read_timeout(Some(LEASE)).expect("it can wait");
        Switch(socket)
    }

    fn endpoint(&self) -> String {
        self.0.local_addr().expect("bound").to_string()
    }

    /// The next packet of this kind, and who sent it.
    fn next(&self, service: u8, kind: u8) -> (Vec<u8>, SocketAddr) {
        let mut buffer = [0; 2048];
        let since = Instant::now();
        loop {
            assert!(since.elapsed() < LEASE, "nothing of kind {kind} of service {service} comes");
            let (bytes, from) = self.0.recv_from(&mut buffer).expect("it comes within a lease");
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

    fn answer(&self, to: SocketAddr, kind: FabricKind, body: impl FnOnce(&mut [u8])) {
        let header = Header { service: service::FABRIC, kind: kind as u8, epoch: EPOCH, ..Header::default() };
        self.send(to, header, kind.body().bytes(0), body);
    }

    /// Lets the session in that asks to be. Its agent port.
    fn enrol(&self) -> SocketAddr {
        let (asked, agent) = self.next(service::FABRIC, kind::fabric::ENROL);
        let nonce = Enrol::read(&asked, BODY).nonce;
        let (lease_us, slots) = (LEASE.as_micros() as u32, 16);
        let incarnation = INCARNATION;
        let body = Enrolled { nonce, incarnation, lease_us, slots, version: VERSION, ..Enrolled::default() };
        self.answer(agent, FabricKind::Enrolled, |packet| body.write(packet, BODY));
        agent
    }

    /// Answers this ENROL that there will be no session.
    fn refuse(&self, (asked, agent): &(Vec<u8>, SocketAddr), reason: Refusal) {
        let nonce = Enrol::read(asked, BODY).nonce;
        let (kind, flags) = (kind::fabric::ENROLLED, header_flag::REFUSED);
        let header = Header { service: service::FABRIC, kind, flags, epoch: EPOCH, ..Header::default() };
        let body = Enrolled { nonce, reason: reason as u8, version: VERSION, ..Enrolled::default() };
        self.send(*agent, header, Enrolled::BYTES, |packet| body.write(packet, BODY));
    }

    /// Asks for everything that is held, under this epoch: the switch has begun anew.
    fn census(&self, agent: SocketAddr, epoch: u32) {
        let header = Header { service: service::LOCK, kind: kind::lock::CENSUS, count: 1, epoch, ..Header::default() };
        let everything = Entry { request: u64::from(epoch), slot: limits::ALL_SLOTS, ..Entry::default() };
        self.send(agent, header, Entry::BYTES, |packet| everything.write(packet, BODY));
    }
}

/// The agent port may be so full of other answers that none to a heartbeat finds room there.
#[test]
fn a_heartbeat_after_one_that_went_unanswered_goes_from_a_port_of_its_own() {
    let switch = Switch::start();
    let session = Session::builder().endpoint(switch.endpoint()).lease(LEASE).begin().expect("sockets and a thread");
    let agent = switch.enrol();
    let beat = || {
        let (packet, from) = switch.next(service::FABRIC, kind::fabric::HEARTBEAT);
        (Heartbeat::read(&packet, BODY), from)
    };
    let (_, first) = beat();
    assert_eq!(first, agent, "what is between the two must let the agent port's packets through");
    let (_, pulse) = beat();
    assert_ne!(pulse, agent);
    let (third, again) = beat();
    assert_eq!(again, pulse);
    let before = session.lease_end().expect("it lives");
    switch.answer(pulse, FabricKind::HeartbeatAck, |packet| third.write(packet, BODY));
    let (fourth, answered) = beat();
    assert_eq!(answered, agent, "it was answered");
    let gained = session.lease_end().expect("it lives").duration_since(before);
    assert!(gained >= LEASE / 8, "from when the third went: {gained:?}");
    switch.answer(agent, FabricKind::HeartbeatAck, |packet| fourth.write(packet, BODY));
    assert_eq!(beat().1, agent);
}

/// A report that went to the switch before would be waited for until the next question, and all that while nobody is
/// granted anything.
#[test]
fn a_switch_that_serves_now_has_its_first_question_answered() {
    let (first, second) = (Switch::start(), Switch::start());
    let endpoints = format!("{},{}", first.endpoint(), second.endpoint());
    let session = Session::builder().endpoint(endpoints).lease(LEASE).begin().expect("sockets and a thread");
    let agent = first.enrol();
    let (_, heard_at) = first.next(service::FABRIC, kind::fabric::HEARTBEAT);
    assert_eq!(heard_at, agent, "it is enrolled");
    second.census(agent, EPOCH + 1);
    let (report, from) = second.next(service::LOCK, kind::lock::REPORT);
    assert_eq!((Entry::read(&report, BODY).request, from), (u64::from(EPOCH) + 1, agent));
    second.next(service::FABRIC, kind::fabric::HEARTBEAT);
    assert_eq!(session.switch().to_string(), second.endpoint());
}

/// It goes on with the next session, which may be refused for good: the namespace was removed.
#[test]
fn who_watches_is_told_that_the_next_session_is_refused() {
    let switch = Switch::start();
    let session = Session::builder().endpoint(switch.endpoint()).lease(LEASE).begin().expect("sockets and a thread");
    switch.enrol();
    let (told, is_told) = channel();
    thread::spawn(move || drop(told.send(session.store().watch("k").map(|_| ()))));
    switch.next(service::CHAIN, kind::chain::MAP);
    let (packet, agent) = switch.next(service::FABRIC, kind::fabric::HEARTBEAT);
    let beat = Heartbeat::read(&packet, BODY);
    let (kind, flags) = (kind::fabric::HEARTBEAT_ACK, header_flag::EXPIRED);
    let header = Header { service: service::FABRIC, kind, flags, epoch: EPOCH, ..Header::default() };
    switch.send(agent, header, Heartbeat::BYTES, |packet| beat.write(packet, BODY));
    switch.refuse(&switch.next(service::FABRIC, kind::fabric::ENROL), Refusal::Namespace);
    let outcome = is_told.recv_timeout(Duration::from_secs(10)).expect("within ten seconds");
    assert!(matches!(outcome, Err(Error::Refused(_))), "{outcome:?}");
}

/// Whoever waits meanwhile is not told that there is no switch.
#[test]
fn a_refusal_is_the_reason_also_while_the_switch_is_asked_again() {
    let switch = Switch::start();
    let builder = Session::builder().endpoint(switch.endpoint()).lease(LEASE).patience(Duration::from_millis(100));
    let session = builder.begin().expect("sockets and a thread");
    let first = switch.next(service::FABRIC, kind::fabric::ENROL);
    switch.refuse(&first, Refusal::Full);
    let nonce = |asked: &[u8]| Enrol::read(asked, BODY).nonce;
    while nonce(&switch.next(service::FABRIC, kind::fabric::ENROL).0) == nonce(&first.0) {}
    let outcome = session.lock("jobs").acquire().map(|_| ());
    assert!(matches!(&outcome, Err(Error::Refused(why)) if why.contains("handles")), "{outcome:?}");
}

/// A switch with one key, as far as one session asks about it.
struct Store {
    switch: Switch,
    /// Of the group's chain.
    epoch: u32,
    /// The value's version, and bytes.
    content: Mutex<Option<(u32, u64, u8)>>,
    is_write_answered: AtomicBool,
    /// It answers who reads, so many milliseconds after it was asked first.
    is_read: AtomicBool,
    slow: AtomicU32,
    asked: Mutex<BTreeMap<u64, Instant>>,
    reads: AtomicU32,
    is_deleting: AtomicBool,
    is_left: AtomicBool,
    is_over: AtomicBool,
}

impl Store {
    fn new(epoch: u32) -> Store {
        Store {
            switch: Switch::start(),
            epoch,
            content: Mutex::default(),
            is_write_answered: AtomicBool::new(true),
            is_read: AtomicBool::new(true),
            slow: AtomicU32::new(0),
            asked: Mutex::default(),
            reads: AtomicU32::new(0),
            is_deleting: AtomicBool::new(false),
            is_left: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    /// A session, and its agent's port. It lives: whoever writes a leased key before does so twice.
    fn begin(&self) -> (Session, SocketAddr) {
        let session = Session::builder().endpoint(self.switch.endpoint()).lease(LEASE).begin();
        let session = session.expect("sockets and a thread");
        let agent = self.switch.enrol();
        eventually(|| session.info().is_some());
        self.switch.0.set_read_timeout(Some(Duration::from_millis(1))).expect("it can wait");
        (session, agent)
    }

    /// Answers until it is over.
    fn serve(&self) {
        let mut buffer = [0; 2048];
        while !self.is_over.load(SeqCst) {
            let Ok((bytes, from)) = self.switch.0.recv_from(&mut buffer) else { continue };
            let packet = &buffer[..bytes];
            let header = Header::read(packet).expect("a node writes packets");
            match (header.service, header.kind) {
                (service::FABRIC, kind::fabric::HEARTBEAT) => {
                    let beat = Heartbeat::read(packet, BODY);
                    let (service, kind, epoch) = (service::FABRIC, kind::fabric::HEARTBEAT_ACK, header.epoch);
                    let header = Header { service, kind, epoch, ..Header::default() };
                    self.switch.send(from, header, Heartbeat::BYTES, |packet| beat.write(packet, BODY));
                }
                (service::FABRIC, kind::fabric::LEAVE) => self.is_left.store(true, SeqCst),
                (service::CHAIN, kind::chain::MAP) => self.tell_route(from),
                (service::CHAIN, kind::chain::WRITE) => {
                    let operation = Operation::read(packet, BODY);
                    let value = packet[BODY + Operation::BYTES];
                    *self.content.lock().unwrap() = Some((self.epoch, operation.request, value));
                    if self.is_write_answered.load(SeqCst) {
                        self.tell(from, &operation);
                    }
                }
                (service::CHAIN, kind::chain::DELETE) => self.is_deleting.store(true, SeqCst),
                (service::CHAIN, kind::chain::READ) if self.is_read.load(SeqCst) => {
                    let operation = Operation::read(packet, BODY);
                    let since = *self.asked.lock().unwrap().entry(operation.request).or_insert_with(Instant::now);
                    if since.elapsed() >= Duration::from_millis(self.slow.load(SeqCst).into()) {
                        self.tell(from, &operation);
                        self.reads.fetch_add(1, SeqCst);
                    }
                }
                _ => {}
            }
        }
    }

    /// It is here, in the only group.
    fn tell_route(&self, to: SocketAddr) {
        let SocketAddr::V4(own) = self.switch.0.local_addr().expect("bound") else { panic!("bound to IPv4") };
        let (address, port) = (u32::from(*own.ip()), own.port());
        let (head_address, tail_address, head_port, tail_port) = (address, address, port, port);
        let route = Route { epoch: self.epoch, head_address, tail_address, head_port, tail_port };
        let header = Header { service: service::CHAIN, kind: kind::chain::ROUTES, count: 1, ..Header::default() };
        self.switch.send(to, header, Routes::BYTES + limits::BLOCK_BYTES, |packet| {
            Routes { first: 0, base: 0, groups: 1 }.write(packet, BODY);
            route.write(packet, BODY + Routes::BYTES);
        });
    }

    /// What the key has.
    fn tell(&self, to: SocketAddr, operation: &Operation) {
        let content = *self.content.lock().unwrap();
        let (epoch, sequence, value) = content.unwrap_or_default();
        let flags = if content.is_some() { value_flag::PRESENT | value_flag::LEASED } else { 0 };
        let effect = Effect {
            request: operation.request,
            client: HANDLE,
            outcome: Outcome::Done as u8,
            length: 1,
            flags,
            epoch,
            sequence,
            own_epoch: epoch,
            own_sequence: sequence,
            owner: INCARNATION as u32,
            ..Effect::default()
        };
        let (service, kind, position) = (service::CHAIN, kind::chain::ANSWER, HANDLE);
        let header = Header { service, kind, count: 1, position, epoch: self.epoch, ..Header::default() };
        self.switch.send(to, header, Effect::BYTES + limits::BLOCK_BYTES, |packet| {
            effect.write(packet, BODY);
            packet[BODY + Effect::BYTES] = value;
        });
    }
}

/// Ends it however the test ends, or its thread would be waited for.
struct Over<'s>(&'s AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Has a session hold the key at a switch of which its group has this epoch. `work` has both, and the agent's port.
fn with_key(epoch: u32, work: impl FnOnce(&Store, &Session, &mut LeasedKey, SocketAddr)) {
    let store = Store::new(epoch);
    let (session, agent) = store.begin();
    thread::scope(|scope| {
        let over = Over(&store.is_over);
        scope.spawn(|| store.serve());
        let mut key = session.store().hold("k", "1", Condition::Absent).unwrap().expect("it is written");
        assert!(!key.is_lost());
        work(&store, &session, &mut key, agent);
        // Nobody answers its deletion.
        std::mem::forget(key);
        drop(over);
    });
}

fn is_under(session: &Session, epoch: u32) -> bool {
    session.info().expect("it lives").epoch == epoch
}

/// docs/kv.md, "What holds".
#[test]
fn a_key_of_a_switch_that_is_alone_and_begins_an_epoch_is_lost_until_it_has_been_read() {
    with_key(EPOCH, |store, session, key, agent| {
        store.is_read.store(false, SeqCst);
        store.switch.census(agent, EPOCH + 1);
        eventually(|| is_under(session, EPOCH + 1));
        assert!(key.is_lost());
        store.is_read.store(true, SeqCst);
        eventually(|| !key.is_lost());
        store.content.lock().unwrap().take();
        let reads = store.reads.load(SeqCst);
        store.switch.census(agent, EPOCH + 2);
        eventually(|| is_under(session, EPOCH + 2));
        assert!(key.is_lost());
        eventually(|| store.reads.load(SeqCst) > reads);
        thread::sleep(Duration::from_millis(50));
        assert!(key.is_lost() && session.info().expect("it lives").incarnation == INCARNATION);
    });
}

/// What was written without an answer is its owner's, too.
#[test]
fn a_key_whose_update_went_unanswered_is_there_with_its_new_value() {
    with_key(EPOCH, |store, session, key, agent| {
        store.is_write_answered.store(false, SeqCst);
        {
            let mut updates = pin!(key.update_async("2"));
            assert!(updates.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            eventually(|| store.content.lock().unwrap().is_some_and(|(_, _, value)| value == b'2'));
        }
        store.is_read.store(false, SeqCst);
        store.switch.census(agent, EPOCH + 1);
        eventually(|| is_under(session, EPOCH + 1));
        assert!(key.is_lost());
        store.is_read.store(true, SeqCst);
        eventually(|| !key.is_lost());
    });
}

#[test]
fn a_key_of_several_switches_is_lost_once_it_is_not_read_there_any_more() {
    with_key(1, |store, session, key, agent| {
        store.is_read.store(false, SeqCst);
        store.switch.census(agent, EPOCH + 1);
        eventually(|| is_under(session, EPOCH + 1));
        thread::sleep(Duration::from_millis(50));
        assert!(!key.is_lost(), "another switch serves locks now");
        store.content.lock().unwrap().take();
        store.is_read.store(true, SeqCst);
        eventually(|| key.is_lost());
    });
}

/// Two readings of keys that are there may take as long as they like: their versions never come again.
#[test]
fn what_several_keys_have_is_also_told_over_a_long_way() {
    with_key(EPOCH, |store, session, _, _| {
        store.slow.store(500, SeqCst);
        let snapshot = || {
            let (session, (told, is_told)) = (session.clone(), channel());
            thread::spawn(move || drop(told.send(session.store().snapshot(&["k"]))));
            is_told.recv_timeout(Duration::from_secs(60)).expect("it comes to an end")
        };
        let entry = snapshot().unwrap()[0].expect("it is there");
        assert_eq!(entry.value.bytes(), b"1");
        store.content.lock().unwrap().take();
        assert_eq!(snapshot(), Err(Error::TimedOut));
        store.slow.store(0, SeqCst);
        assert_eq!(snapshot(), Ok(vec![None]));
    });
}

#[test]
fn a_session_ends_though_something_is_asked_for_it_that_nobody_answers() {
    let store = Store::new(EPOCH);
    let (session, _) = store.begin();
    thread::scope(|scope| {
        let _over = Over(&store.is_over);
        scope.spawn(|| store.serve());
        let held = block_on(session.store().hold_async("k", "1", Condition::Absent));
        // Its deletion is asked for, by a thread of the library's, for a second at least.
        drop(held.unwrap().expect("it is written"));
        eventually(|| store.is_deleting.load(SeqCst));
        let dropped = Instant::now();
        drop(session);
        eventually(|| store.is_left.load(SeqCst));
        assert!(dropped.elapsed() < Duration::from_millis(900), "{:?}", dropped.elapsed());
    });
}
