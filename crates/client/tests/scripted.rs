//! What a session sends, and where to, at switches that say and answer what they are told to.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use wayside_client::Session;
use wayside_wire::{BODY, Enrol, Enrolled, Entry, FabricKind, Header, Heartbeat, VERSION, kind, limits, service};

const LEASE: Duration = Duration::from_secs(4);

/// The session's handle.
const HANDLE: u16 = 3;

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
        let header = Header { service: service::FABRIC, kind: kind as u8, epoch: 7, ..Header::default() };
        self.send(to, header, kind.body().bytes(0), body);
    }

    /// Lets the session in that asks to be. Its agent port.
    fn enrol(&self) -> SocketAddr {
        let (asked, agent) = self.next(service::FABRIC, kind::fabric::ENROL);
        let nonce = Enrol::read(&asked, BODY).nonce;
        let (lease_us, slots) = (LEASE.as_micros() as u32, 16);
        let body = Enrolled { nonce, incarnation: 9, lease_us, slots, version: VERSION, ..Enrolled::default() };
        self.answer(agent, FabricKind::Enrolled, |packet| body.write(packet, BODY));
        agent
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
    let header = Header { service: service::LOCK, kind: kind::lock::CENSUS, count: 1, epoch: 8, ..Header::default() };
    let everything = Entry { request: 5, slot: limits::ALL_SLOTS, ..Entry::default() };
    second.send(agent, header, Entry::BYTES, |packet| everything.write(packet, BODY));
    let (report, from) = second.next(service::LOCK, kind::lock::REPORT);
    assert_eq!((Entry::read(&report, BODY).request, from), (5, agent));
    second.next(service::FABRIC, kind::fabric::HEARTBEAT);
    assert_eq!(session.switch().to_string(), second.endpoint());
}
