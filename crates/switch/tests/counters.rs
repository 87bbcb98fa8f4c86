//! Counters of a switch that many threads use.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Barrier;
use std::thread;

use wayside_protocol::Time;
use wayside_switch::{Switch, SwitchConfig};

/// More than there are lanes to count in: some count alone, others together.
#[test]
fn every_packet_is_counted_however_many_threads_there_are() {
    const THREADS: usize = 40;
    const PACKETS: u64 = 200_000;
    let switch = Switch::new(SwitchConfig { slots: 1, max_handle: 1 });
    let ready = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                ready.wait();
                for _ in 0..PACKETS {
                    switch.process(Time(0), &mut [0; 64], SocketAddrV4::new(Ipv4Addr::LOCALHOST, 20_001));
                }
            });
        }
    });
    assert_eq!(switch.counter("bad_magic"), THREADS as u64 * PACKETS);
}
