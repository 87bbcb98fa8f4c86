//! Heartbeats at a switch that answers those which it is told to.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use wayside_client::Session;
use wayside_wire::{BODY, Enrol, Enrolled, FabricKind, Header, Heartbeat, VERSION, kind, service};

const LEASE: Duration = Duration::from_secs(4);

struct Switch(UdpSocket);

impl Switch {
    /// The next packet of this kind, and who sent it.
    fn next(&self, wanted: u8) -> (Vec<u8>, SocketAddr) {
        let mut buffer = [0; 2048];
        loop {
            let (bytes, from) = self.0.recv_from(&mut buffer).expect("it comes within a lease");
            let header = Header::read(&buffer[..bytes]).expect("a node writes packets");
            if (header.service, header.kind) == (service::FABRIC, wanted) {
                return (buffer[..bytes].to_vec(), from);
            }
        }
    }

    fn answer(&self, to: SocketAddr, kind: FabricKind, body: impl FnOnce(&mut [u8])) {
        let mut packet = vec![0; BODY + kind.body().bytes(0)];
        let header = Header { service: service::FABRIC, kind: kind as u8, ..Header::default() };
        Header { destination: 3, epoch: 7, namespace: 1, ..header }.write(&mut packet);
        body(&mut packet);
        self.0.send_to(&packet, to).expect("sent");
    }
}

/// The agent port may be so full of other answers that none to a heartbeat finds room there.
#[test]
fn a_heartbeat_after_one_that_went_unanswered_goes_from_a_port_of_its_own() {
    let switch = Switch(UdpSocket::bind("127.0.0.1:0").expect("a port"));
    switch.0.set_read_timeout(Some(LEASE)).expect("it can wait");
    let endpoint = switch.0.local_addr().expect("bound").to_string();
    let session = Session::builder().endpoint(endpoint).lease(LEASE).begin().expect("sockets and a thread");
    let (asked, agent) = switch.next(kind::fabric::ENROL);
    let nonce = Enrol::read(&asked, BODY).nonce;
    let (lease_us, slots) = (LEASE.as_micros() as u32, 16);
    let body = Enrolled { nonce, incarnation: 9, lease_us, slots, version: VERSION, ..Enrolled::default() };
    switch.answer(agent, FabricKind::Enrolled, |packet| body.write(packet, BODY));
    let beat = || {
        let (packet, from) = switch.next(kind::fabric::HEARTBEAT);
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
