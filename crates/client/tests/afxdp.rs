//! AF_XDP between two hosts in network namespaces (docs/endpoints.md): locks by it, and all that must not break it, or
//! be broken by it.
#![cfg(feature = "afxdp")]

#[path = "support/network.rs"]
mod network;
mod support;

use network::{CLIENT, INTERFACE, Network, SWITCH, run};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use support::{TestSwitch, eventually};
use wayside_client::{Error, HookMode, PortReport, Session, Transport, Wait};
use wayside_hosts::Host;

fn start_switch(host: &Host) -> TestSwitch {
    host.within(|| TestSwitch::start_on(UdpSocket::bind((SWITCH, 7600)).expect("a new host's port is free")))
}

fn by_afxdp() -> Transport {
    Transport::parse(&format!("afxdp:{INTERFACE}")).unwrap()
}

fn connect(wait: Wait) -> Result<Session, Error> {
    Session::builder().endpoint(format!("{SWITCH}:7600")).transport(by_afxdp()).wait(wait).connect()
}

/// Names that nobody has held: each lock takes a round trip to the switch.
fn lock_new_names(session: &Session, count: u64) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for _ in 0..count {
        let name = NEXT.fetch_add(1, SeqCst);
        session.lock(name).wait(Duration::from_secs(20)).acquire().expect("a free lock").release().expect("held");
    }
}

/// Locks until the calling thread's port, the session's last, has a queue or will not have one.
#[track_caller]
fn settled(session: &Session) -> PortReport {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        lock_new_names(session, 1);
        let port = session.transport().ports.pop().expect("this thread's");
        if port.queue.is_some() || port.remark.as_deref().is_some_and(|why| why.contains("another thread's")) {
            return port;
        }
        assert!(Instant::now() < end, "{}", session.transport());
    }
}

#[test]
fn locks_are_taken_and_given_back_by_af_xdp_however_threads_wait() {
    let Some(network) = Network::or_skip(1) else { return };
    let _switch = start_switch(&network.switch);
    network.client.within(|| {
        for (wait, count) in [(Wait::Spin, 10_000), (Wait::Block, 3_000), (Wait::Adaptive, 3_000)] {
            let session = connect(wait).unwrap();
            // The queue of the session before is free when the kernel has taken its socket down.
            assert_eq!(settled(&session).queue, Some(0), "{wait:?}");
            let before = session.transport().ports.pop().unwrap();
            lock_new_names(&session, count);
            let report = session.transport();
            let port = &report.ports[0];
            assert_eq!(report.hook, Some(HookMode::Native));
            assert!(!port.zero_copy, "veth has none");
            assert!(report.to_string().contains("queue 0, copied"), "{report}");
            // A request and its release each, and mostly no answer to that; on a busy machine some are sent again.
            assert!(port.sent - before.sent >= 2 * count * 9 / 10, "{port:?}");
            assert!(port.received - before.received >= count * 9 / 10, "{port:?}");
            // What was under way when the socket was bound had gone to the other one already.
            assert!(port.strays - before.strays < count / 100, "{port:?}");
        }
    });
}

#[test]
fn the_data_path_does_not_allocate() {
    let Some(network) = Network::or_skip(1) else { return };
    let _switch = start_switch(&network.switch);
    network.client.within(|| {
        let session = connect(Wait::Adaptive).unwrap();
        assert_eq!(settled(&session).queue, Some(0));
        lock_new_names(&session, 2_000);
        // What is sent again on a busy machine may allocate, and so may the table of a new slot: a few windows must be
        // clean, of which a data path that allocates leaves none.
        let clean = (0..200).filter(|_| {
            let before = ALLOCATIONS.get();
            lock_new_names(&session, 50);
            ALLOCATIONS.get() == before
        });
        assert_eq!(clean.take(10).count(), 10);
    });
}

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn more_threads_than_queues_go_by_udp_and_it_is_said() {
    let Some(network) = Network::or_skip(1) else { return };
    let _switch = start_switch(&network.switch);
    network.client.within(|| {
        let session = connect(Wait::Adaptive).unwrap();
        assert_eq!(settled(&session).queue, Some(0));
        let second = thread::scope(|scope| scope.spawn(|| settled(&session)).join().unwrap());
        assert_eq!(second.queue, None);
        let why = second.remark.unwrap();
        assert!(why.contains("queue 0, where its answers come in, is another thread's"), "{why}");
        assert!(session.transport().to_string().contains(&why));
    });
}

#[test]
fn packets_that_come_in_on_another_queue_are_served_by_udp() {
    let Some(network) = Network::or_skip(2) else { return };
    let _switch = start_switch(&network.switch);
    network.client.within(|| {
        // Its number decides on which queue a port's answers come in; we want one on the second.
        let mut sessions = Vec::new();
        let found = (0..64).find_map(|_| {
            let session = connect(Wait::Spin).unwrap();
            let port = settled(&session);
            sessions.push(session);
            (port.queue == Some(1)).then_some(port)
        });
        let before = found.expect("one of 64 ports");
        // From now on everything comes in on the first.
        run(&network.switch, "ethtool -L switch0 tx 1");
        let session = sessions.last().unwrap();
        lock_new_names(session, 500);
        let port = session.transport().ports.pop().unwrap();
        assert!(port.strays >= before.strays + 500, "{port:?}");
        assert!(port.sent >= before.sent + 500, "it sends by AF_XDP all the same: {port:?}");
    });
}

#[test]
fn queues_below_the_first_are_left_alone() {
    let Some(network) = Network::or_skip(2) else { return };
    let _switch = start_switch(&network.switch);
    // Everything comes in on the first.
    run(&network.switch, "ethtool -L switch0 tx 1");
    network.client.within(|| {
        let transport = Transport::parse(&format!("afxdp:{INTERFACE}:1")).unwrap();
        let session = Session::builder().endpoint(SWITCH).transport(transport).connect().unwrap();
        eventually(|| {
            lock_new_names(&session, 1);
            let port = session.transport().ports.pop().unwrap();
            port.queue.is_none() && port.remark.is_some_and(|why| why.contains("is below the first to be used, 1"))
        });
    });
}

#[test]
fn two_sessions_of_a_process_share_the_program_and_not_the_queues() {
    let Some(network) = Network::or_skip(1) else { return };
    let _switch = start_switch(&network.switch);
    network.client.within(|| {
        let first = connect(Wait::Adaptive).unwrap();
        let second = connect(Wait::Adaptive).unwrap();
        assert_eq!(settled(&first).queue, Some(0));
        assert_eq!(settled(&second).queue, None);
        lock_new_names(&first, 300);
        lock_new_names(&second, 300);
        drop(first);
        // The queue is free again, and the program stays for who is left.
        eventually(|| {
            lock_new_names(&second, 1);
            second.transport().ports[0].queue == Some(0)
        });
        let before = second.transport().ports.pop().unwrap();
        lock_new_names(&second, 300);
        assert!(second.transport().ports[0].received >= before.received + 300);
    });
}

#[test]
fn other_traffic_passes() {
    let Some(network) = Network::or_skip(1) else { return };
    let _switch = start_switch(&network.switch);
    let Network { client, switch } = &network;
    const BYTES: usize = 4 << 20;
    /// More than an MTU: fragments, of which only the first has ports.
    const DATAGRAM: usize = 4_000;
    let (tcp, udp) =
        switch.within(|| (TcpListener::bind((SWITCH, 80)).unwrap(), UdpSocket::bind((SWITCH, 53)).unwrap()));
    let servers = (
        thread::spawn(move || {
            let (mut stream, _) = tcp.accept().unwrap();
            std::io::copy(&mut stream.try_clone().unwrap(), &mut stream).unwrap();
        }),
        thread::spawn(move || {
            let mut buffer = [0; DATAGRAM];
            let (bytes, from) = udp.recv_from(&mut buffer).unwrap();
            udp.send_to(&buffer[..bytes], from).unwrap();
        }),
    );
    client.within(|| {
        let session = connect(Wait::Adaptive).unwrap();
        assert_eq!(settled(&session).queue, Some(0));
        let before = session.transport().ports[0].received;
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut stream = TcpStream::connect((SWITCH, 80)).unwrap();
                let mut back = stream.try_clone().unwrap();
                let sent: Vec<u8> = (0..BYTES).map(|byte| (byte % 251) as u8).collect();
                let mut read = Vec::new();
                thread::scope(|scope| {
                    scope.spawn(|| back.read_to_end(&mut read).unwrap());
                    stream.write_all(&sent).unwrap();
                    stream.shutdown(std::net::Shutdown::Write).unwrap();
                });
                assert!(read == sent, "{} bytes came back", read.len());
            });
            let socket = UdpSocket::bind((CLIENT, 0)).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            socket.send_to(&[7; DATAGRAM], (SWITCH, 53)).unwrap();
            assert_eq!(socket.recv(&mut [0; DATAGRAM + 1]).unwrap(), DATAGRAM);
            lock_new_names(&session, 1_000);
            // Nobody listens there, which ICMP says.
            socket.connect((SWITCH, 9)).unwrap();
            socket.send(b"?").unwrap();
            assert_eq!(socket.recv(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
        });
        assert!(session.transport().ports[0].received >= before + 1_000);
    });
    servers.0.join().unwrap();
    servers.1.join().unwrap();
}

#[test]
fn strangers_and_fragments_are_left_to_the_kernel() {
    let Some(network) = Network::or_skip(1) else { return };
    let switch = start_switch(&network.switch);
    let stranger = network.switch.within(|| UdpSocket::bind((SWITCH, 0)).unwrap());
    stranger.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    network.client.within(|| {
        let session = connect(Wait::Adaptive).unwrap();
        let before = settled(&session);
        assert_eq!(before.queue, Some(0));
        // The port is connected to the switch, so the kernel refuses what another sends.
        stranger.connect((CLIENT, before.number)).unwrap();
        stranger.send(b"lock").unwrap();
        assert_eq!(stranger.recv(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
        switch.send_everywhere(&[7; 4_000]);
        eventually(|| {
            lock_new_names(&session, 1);
            session.transport().ports[0].strays > before.strays
        });
    });
}

#[test]
fn a_next_hop_with_another_address_is_found() {
    let Some(network) = Network::or_skip(1) else { return };
    let _switch = start_switch(&network.switch);
    let Network { client, switch } = &network;
    client.within(|| {
        let session = connect(Wait::Adaptive).unwrap();
        assert_eq!(settled(&session).queue, Some(0));
        run(
            switch,
            "ip link set switch0 down && ip link set switch0 address 02:00:00:00:77:77 && ip link set switch0 up",
        );
        run(client, &format!("ip neigh flush dev {INTERFACE}"));
        eventually(|| {
            let before = session.transport().ports.pop().unwrap();
            lock_new_names(&session, 20);
            let port = session.transport().ports.pop().unwrap();
            // Were all but those sent by UDP lost, an answer would cost seven packets.
            let (sent, received) = (port.sent - before.sent, port.received - before.received);
            received >= 20 && sent <= 2 * received
        });
    });
}

#[test]
fn a_session_that_begins_anew_keeps_its_queue() {
    let Some(network) = Network::or_skip(1) else { return };
    let switch = start_switch(&network.switch);
    network.client.within(|| {
        let session = connect(Wait::Adaptive).unwrap();
        let port = settled(&session);
        let incarnation = session.info().unwrap();
        switch.faults.mute.store(true, SeqCst);
        eventually(|| session.info().is_none());
        switch.faults.mute.store(false, SeqCst);
        eventually(|| session.info().is_some_and(|info| info != incarnation));
        lock_new_names(&session, 200);
        let later = session.transport().ports.pop().unwrap();
        assert_ne!(later.number, port.number);
        assert_eq!(later.queue, Some(0));
        assert!(later.received >= port.received + 200, "{later:?} after {port:?}");
    });
}

#[test]
fn what_cannot_be_had_is_refused_with_the_reason() {
    let Some(network) = Network::or_skip(2) else { return };
    let refusal = |transport: &str| {
        let builder =
            Session::builder().endpoint(format!("{SWITCH}:7600")).transport(Transport::parse(transport).unwrap());
        match network.client.within(|| builder.connect()) {
            Err(Error::Transport(why)) => why,
            other => panic!("{transport}: {other:?}"),
        }
    };
    assert_eq!(refusal("afxdp:nowhere0"), "no interface is named nowhere0");
    assert_eq!(refusal("afxdp:lo"), "lo is no Ethernet interface");
    assert_eq!(refusal("afxdp:client0:2"), "client0 has no queue 2: it has 2, from 0");
    run(&network.client, "ip link set client0 mtu 1000");
    assert_eq!(refusal("afxdp:client0"), "client0 has an MTU of 1000: Wayside's packets take 1084");
    let without_rights = network.client.within(|| {
        keep_capabilities(&[]);
        connect(Wait::Adaptive).unwrap_err().to_string()
    });
    assert!(without_rights.contains("needs CAP_NET_ADMIN and CAP_NET_RAW and CAP_BPF"), "{without_rights}");
}

#[test]
fn three_capabilities_are_enough() {
    let Some(network) = Network::or_skip(1) else { return };
    let _switch = start_switch(&network.switch);
    network.client.within(|| {
        // CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF.
        keep_capabilities(&[12, 13, 39]);
        let session = connect(Wait::Adaptive).unwrap();
        assert_eq!(settled(&session).queue, Some(0));
    });
}

/// Takes all other capabilities from the calling thread.
fn keep_capabilities(kept: &[usize]) {
    let mut sets = [[0u32; 3]; 2];
    for capability in kept {
        let bit = 1 << (capability % 32);
        sets[capability / 32] = sets[capability / 32].map(|set| set | bit);
    }
    // SAFETY: version 3 has two sets of effective, permitted and inheritable ones; of the calling thread alone.
    let done = unsafe { libc::syscall(libc::SYS_capset, [0x2008_0522u32, 0].as_ptr(), sets.as_ptr()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_switch_behind_a_router_is_reached_by_the_router() {
    let Some(network) = Network::or_skip(1) else { return };
    let Network { client, switch } = &network;
    let behind = "10.78.0.1";
    run(switch, &format!("ip link set lo up && ip addr add {behind}/32 dev lo"));
    run(client, &format!("ip route add 10.78.0.0/24 via {SWITCH}"));
    let _switch = switch.within(|| TestSwitch::start_on(UdpSocket::bind((behind, 7600)).unwrap()));
    client.within(|| {
        let session = Session::builder().endpoint(behind).transport(by_afxdp()).connect().unwrap();
        assert_eq!(settled(&session).queue, Some(0));
        let before = session.transport().ports.pop().unwrap();
        lock_new_names(&session, 300);
        let port = session.transport().ports.pop().unwrap();
        assert!(port.sent >= before.sent + 300 && port.received >= before.received + 300, "{}", session.transport());
    });
}

#[test]
fn a_switch_that_is_reached_otherwise_is_reached_by_udp() {
    let Some(network) = Network::or_skip(1) else { return };
    network.client.within(|| {
        let local = TestSwitch::start();
        let session = local.builder().transport(by_afxdp()).connect().unwrap();
        lock_new_names(&session, 300);
        eventually(|| session.transport().remark.as_deref() == Some("127.0.0.1 is no other host"));
        let report = session.transport();
        assert!(report.to_string().contains("UDP, for nothing has come in by client0 yet"), "{report}");
    });
}

#[test]
fn a_driver_that_refuses_gets_the_generic_hook() {
    let Some(network) = Network::or_skip(1) else { return };
    let _switch = start_switch(&network.switch);
    // veth takes no XDP program with frames longer than a page.
    let jumbo = "ip link set switch0 mtu 9000";
    run(&network.switch, jumbo);
    run(&network.client, "ip link set client0 mtu 9000");
    network.client.within(|| {
        let session = connect(Wait::Adaptive).unwrap();
        assert_eq!(settled(&session).queue, Some(0));
        let before = session.transport().ports[0].received;
        lock_new_names(&session, 300);
        let report = session.transport();
        assert_eq!(report.hook, Some(HookMode::Generic));
        assert!(report.to_string().contains("generic XDP (native at an MTU of 9000: "), "{report}");
        assert!(report.ports[0].received >= before + 300, "{report}");
    });
}

/// Set for the process that has the hook.
const BE_THE_OTHER: &str = "WAYSIDE_TEST_BE_THE_OTHER";

/// Ended with the test, however that ends.
struct Ended(Child);

impl Ended {
    fn end(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn a_hook_belongs_to_one_process_until_it_dies() {
    if std::env::var_os(BE_THE_OTHER).is_some() {
        be_the_other();
    }
    let Some(network) = Network::or_skip(1) else { return };
    let _switch = start_switch(&network.switch);
    let has_program = || run(&network.client, &format!("ip link show {INTERFACE}")).contains("xdp");
    network.client.within(|| {
        let mut other = Command::new(std::env::current_exe().unwrap())
            .env(BE_THE_OTHER, "1")
            .args(["a_hook_belongs_to_one_process_until_it_dies", "--exact", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map(Ended)
            .unwrap();
        let mut lines = BufReader::new(other.0.stdout.take().unwrap()).lines();
        let mut count = || lines.find_map(|line| line.unwrap().strip_prefix(COUNT)?.parse::<u64>().ok()).unwrap();
        let before = count();
        assert!(has_program());

        let why = connect(Wait::Adaptive).unwrap_err().to_string();
        assert!(why.contains("the XDP hook of client0 is taken by program"), "{why}");
        let by_udp = Session::builder().endpoint(format!("{SWITCH}:7600")).transport(Transport::Udp);
        lock_new_names_of(&by_udp.connect().unwrap(), OTHER_NAMES, 100);
        other.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        assert!(count() >= before + ROUND, "the first process goes on by AF_XDP");

        other.end();
        assert!(!has_program());
        let session = connect(Wait::Adaptive).unwrap();
        // The kernel may take half a second to free the dead process's queue.
        eventually(|| {
            lock_new_names(&session, 1);
            session.transport().ports[0].queue == Some(0)
        });
    });
}

/// Beyond those of the other process.
const OTHER_NAMES: u64 = 30_000;
const ROUND: u64 = 300;
const COUNT: &str = "received by AF_XDP: ";

fn lock_new_names_of(session: &Session, first: u64, count: u64) {
    for name in first..first + count {
        session.lock(name).wait(Duration::from_secs(20)).acquire().unwrap().release().unwrap();
    }
}

/// Locks by AF_XDP, says how many packets came by it, and does so again when asked to.
fn be_the_other() -> ! {
    let session = connect(Wait::Adaptive).unwrap();
    assert_eq!(settled(&session).queue, Some(0));
    let mut line = String::new();
    for round in 1.. {
        lock_new_names_of(&session, OTHER_NAMES + round * 1_000, ROUND);
        println!("\n{COUNT}{}", session.transport().ports[0].received);
        std::io::stdin().read_line(&mut line).unwrap();
    }
    unreachable!("the numbers do not end")
}
