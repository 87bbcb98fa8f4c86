//! What a bare round trip takes by UDP and by AF_XDP: 64 bytes to another host and back, between two network
//! namespaces.
//!
//! `cargo run --release -p wayside-client --features afxdp --example round_trip`, as root. Ways take turns in rounds,
//! so that a busy moment of the machine meets all of them. Nothing holds /dev/cpu_dma_latency.

#[path = "../tests/support/network.rs"]
mod network;

use libbpf_rs::{Link, Object, ObjectBuilder};
use network::{INTERFACE, Network, SWITCH};
use std::net::{SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use wayside_client::{Transport, Wait, probe};

const ECHO: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/echo.bpf.o"));
/// Passes everything, as it knows no port here.
const PASS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/endpoint.bpf.o"));
const ROUNDS: usize = 7;
const COUNT: usize = 20_000;
const PORT: u16 = 7600;

/// An XDP program on an interface of the calling thread's host, for as long as it is kept.
struct Attached {
    _link: Link,
    _object: Object,
}

fn attach(program: &[u8], interface: &str) -> Attached {
    let index = std::ffi::CString::new(interface).expect("no zero in it");
    // SAFETY: a terminated string that outlives the call.
    let index = unsafe { libc::if_nametoindex(index.as_ptr()) };
    let object = ObjectBuilder::default().open_memory(program).and_then(|open| open.load()).expect("it loads");
    let link = object.progs_mut().next().expect("one program").attach_xdp(index as i32).expect("veth takes XDP");
    Attached { _link: link, _object: object }
}

/// Keeps this thread on a processor.
fn run_on(cpu: usize) {
    // SAFETY: a set of our own, of the size that is told.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set), 0);
    }
}

/// Of all rounds of one way.
struct Row {
    name: String,
    medians: Vec<Duration>,
    all: Vec<Duration>,
}

impl Row {
    fn print(&mut self) {
        self.medians.sort_unstable();
        self.all.sort_unstable();
        let micros = |time: Duration| time.as_nanos() as f64 / 1_000.0;
        let at = |share: f64| micros(self.all[(self.all.len() as f64 * share) as usize]);
        let (low, high) = (micros(self.medians[0]), micros(self.medians[self.medians.len() - 1]));
        let (median, p99) = (at(0.5), at(0.99));
        println!("{:<42} {median:>8.2} {low:>8.2} {high:>8.2} {p99:>8.2}", self.name);
    }
}

fn measure(network: &Network, echo: SocketAddrV4, peer: &str) {
    let by_afxdp = Transport::AfXdp { interface: INTERFACE.into(), first_queue: 0 };
    let mut rows: Vec<(Transport, Wait, Row)> = [Transport::Udp, by_afxdp]
        .into_iter()
        .flat_map(|transport| [Wait::Spin, Wait::Block].map(|wait| (transport.clone(), wait)))
        .map(|(transport, wait)| {
            let way = if transport == Transport::Udp { "UDP" } else { "AF_XDP" };
            let name = format!("{way} -> {peer}, {wait:?}");
            (transport, wait, Row { name, medians: Vec::new(), all: Vec::new() })
        })
        .collect();
    for _ in 0..ROUNDS {
        for (transport, wait, row) in &mut rows {
            let mut times = network.client.within(|| {
                run_on(0);
                // An echo by XDP answers only an interface that has a program itself: with AF_XDP it has.
                let _pass = (*transport == Transport::Udp).then(|| attach(PASS, INTERFACE));
                let (times, port) = probe::round_trips(transport, echo, *wait, COUNT).expect("echoes");
                assert!(port.as_ref().is_none_or(|port| port.queue.is_some()), "not by AF_XDP: {port:?}");
                times
            });
            times.sort_unstable();
            row.medians.push(times[times.len() / 2]);
            row.all.append(&mut times);
        }
    }
    rows.iter_mut().for_each(|(_, _, row)| row.print());
}

fn main() {
    let Some(network) = Network::or_skip(1) else { return };
    let echo = format!("{SWITCH}:{PORT}").parse().expect("an address");
    println!("{COUNT} round trips of 64 bytes a way and round, {ROUNDS} rounds; microseconds");
    println!("{:<42} {:>8} {:>8} {:>8} {:>8}", "", "median", "lowest", "highest", "p99");
    println!("{:<42} {:>8} {:>8} {:>8}", "", "", "round", "round");
    {
        let _echo = network.switch.within(|| attach(ECHO, "switch0"));
        measure(&network, echo, "XDP echo, same core");
    }
    let socket = network.switch.within(|| UdpSocket::bind((SWITCH, PORT)).expect("a new host's port is free"));
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a positive time-out");
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            run_on(1);
            let mut buffer = [0; 2_048];
            while !ends.load(SeqCst) {
                if let Ok((bytes, from)) = socket.recv_from(&mut buffer) {
                    socket.send_to(&buffer[..bytes], from).expect("it answers");
                }
            }
        });
        measure(&network, echo, "UDP server, other core, blocking");
        ends.store(true, SeqCst);
    });
}
