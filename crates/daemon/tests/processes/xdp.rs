//! The switch at the kernel's XDP hook, with real processes and real packets: three hosts in network namespaces.
#![cfg(feature = "xdp")]

use crate::support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::etcd::Etcd;
use support::frames::{SERVICE_VLAN, Tap, VLAN, udp_frame};
use support::world::{SWITCH, World};
use support::{Ending, PATIENCE, Running, end, eventually, wayside};
use tempfile::TempDir;
use wayside_client::Session;
use wayside_hosts::Host;
use wayside_wire::{
    BODY, Enrol, Enrolled, Entry, Header, Heartbeat, SlotBits, check, entry_at, entry_flag, kind, padded, service,
};

/// A node by hand: what a client sends and hears, packet by packet.
struct RawNode {
    socket: UdpSocket,
    handle: u16,
    incarnation: u64,
    epoch: u32,
    namespace: u16,
    requests: u64,
}

impl RawNode {
    fn enrol(host: &Host) -> RawNode {
        let mut node = RawNode::enrol_silently(host);
        node.beat(1);
        node
    }

    /// Without a heartbeat, so that the switch does not know where it is.
    fn enrol_silently(host: &Host) -> RawNode {
        let socket = host.within(|| UdpSocket::bind("0.0.0.0:0").expect("a socket"));
        host.within(|| socket.connect(SWITCH).expect("a route"));
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let size: libc::c_int = 8 << 20;
        // SAFETY: an int that outlives the call.
        unsafe {
            let value = (&raw const size).cast();
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value, 4);
        }
        let mut packet = vec![0; BODY + Enrol::BYTES];
        Header { kind: kind::fabric::ENROL, ..Header::default() }.write(&mut packet);
        let nonce = u64::from(std::process::id()) | u64::from(socket.local_addr().unwrap().port()) << 32;
        let enrol = Enrol {
            nonce,
            pid: 1,
            lease_us: 60_000_000,
            namespace_name: padded("default").expect("short"),
            host: padded("raw").expect("short"),
        };
        enrol.write(&mut packet, BODY);
        socket.send(&packet).expect("sent");
        let answer = receive(&socket);
        let header = check(&answer).expect("a packet");
        assert_eq!(header.kind, kind::fabric::ENROLLED, "{header:?}");
        let enrolled = Enrolled::read(&answer, BODY);
        RawNode {
            socket,
            handle: header.destination,
            incarnation: enrolled.incarnation,
            epoch: header.epoch,
            namespace: header.namespace,
            requests: 0,
        }
    }

    /// Tells the switch where it is.
    fn beat(&mut self, sequence: u64) {
        assert!(self.beats(sequence), "an answer in time");
    }

    /// Whether this heartbeat is acknowledged in time.
    fn beats(&mut self, sequence: u64) -> bool {
        let mut packet = vec![0; BODY + Heartbeat::BYTES];
        let header =
            Header { kind: kind::fabric::HEARTBEAT, source: self.handle, epoch: self.epoch, ..Header::default() };
        header.write(&mut packet);
        let oldest = self.incarnation << 40;
        Heartbeat { sequence, oldest, incarnation: self.incarnation, ..Heartbeat::default() }.write(&mut packet, BODY);
        self.socket.send(&packet).expect("sent");
        let mut answer = [0; 2048];
        loop {
            let Ok(length) = self.socket.recv(&mut answer) else { return false };
            match check(&answer[..length]).expect("a packet").kind {
                kind::fabric::HEARTBEAT_ACK => return true,
                // A daemon that begins again says that its switch serves, and who goes first.
                kind::fabric::TURN | kind::fabric::POLICY => {}
                other => panic!("kind {other}"),
            }
        }
    }

    fn acquire(&mut self, slot: u32, flags: u8) -> Vec<u8> {
        self.requests += 1;
        let mut packet = vec![0; entry_at(1)];
        let header = Header {
            service: service::LOCK,
            kind: kind::lock::ACQUIRE,
            count: 1,
            source: self.handle,
            epoch: self.epoch,
            namespace: self.namespace,
            ..Header::default()
        };
        header.write(&mut packet);
        let request = self.incarnation << 40 | self.requests;
        Entry { request, slot, name: slot.into(), holder: self.handle, flags, ..Entry::default() }
            .write(&mut packet, entry_at(0));
        packet
    }
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut bytes = vec![0; 2048];
    let length = socket.recv(&mut bytes).expect("an answer in time");
    bytes.truncate(length);
    bytes
}

/// Packets of one length, as one that the kernel cuts into them behind the last lock on the way: what is at the other
/// end of a veth gets all of them in one NAPI cycle. Sent one by one, even by one system call, each has its own.
fn burst_in_a_cycle(socket: &UdpSocket, packets: &[Vec<u8>]) {
    let size = libc::c_int::try_from(packets[0].len()).expect("short");
    // SAFETY: an int that outlives the call.
    let set =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, (&raw const size).cast(), 4) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    socket.send(&packets.concat()).expect("sent");
}

/// Sends all of them by as few system calls as it takes.
fn burst(socket: &UdpSocket, packets: &mut [Vec<u8>]) {
    let mut vectors: Vec<libc::iovec> = packets
        .iter_mut()
        .map(|packet| libc::iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: packet.len() })
        .collect();
    let mut headers: Vec<libc::mmsghdr> = vectors
        .iter_mut()
        .map(|vector| {
            // SAFETY: zeros are a header without name, vectors and control data.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header
        })
        .collect();
    let mut sent = 0;
    while sent < headers.len() {
        let rest = &mut headers[sent..];
        // SAFETY: complete headers, whose vectors and packets outlive the call.
        let count = unsafe { libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), rest.len() as u32, 0) };
        assert!(count > 0, "{}", std::io::Error::last_os_error());
        sent += count as usize;
    }
}

fn header_of(packet: &[u8]) -> (Header, Entry) {
    (check(packet).expect("a packet"), Entry::read(packet, BODY))
}

fn ordinal(entry: &Entry) -> u16 {
    SlotBits::from_u16(entry.slot_bits).joins
}

/// Joins in bursts: every GRANT reaches its reader and every JOIN the agent, each ordinal once. The kernel keeps one
/// program per device and NAPI cycle for what is redirected, so that copies told apart by program come out alike.
fn copies_in_bursts(mode: &str) {
    const EACH: u16 = 1_000;
    let Some(world) = World::or_skip(1) else { return };
    let (_daemon, line) = world.daemon(mode);
    assert!(line.starts_with(&format!("switch: {mode} XDP on 10.78.0.1:7600 (port0, port1)")), "{line}");
    // One agent on the reader's own port (one-armed), and one on the other: requests for both take turns in a burst.
    let mut agents: Vec<_> = [(7, 0), (8, 1)]
        .into_iter()
        .map(|(slot, host)| {
            let mut agent = RawNode::enrol(&world.clients[host]);
            let first = agent.acquire(slot, 0);
            agent.socket.send(&first).unwrap();
            let (header, entry) = header_of(&receive(&agent.socket));
            assert_eq!((header.kind, entry.flags & entry_flag::AGENCY), (kind::lock::GRANT, entry_flag::AGENCY));
            (slot, agent, BTreeSet::new(), BTreeSet::new())
        })
        .collect();
    let mut reader = RawNode::enrol(&world.clients[0]);
    for _ in 0..EACH / 20 {
        let mut packets: Vec<_> = (0..20).flat_map(|_| [7, 8]).map(|slot| reader.acquire(slot, 0)).collect();
        // Before generic XDP nobody cuts what a veth hands on.
        if mode == "native" {
            burst_in_a_cycle(&reader.socket, &packets);
        } else {
            burst(&reader.socket, &mut packets);
        }
        for _ in &packets {
            let (header, entry) = header_of(&receive(&reader.socket));
            assert_eq!((header.kind, header.destination), (kind::lock::GRANT, reader.handle), "at the reader");
            let (.., granted, _) = agents.iter_mut().find(|(slot, ..)| *slot == entry.slot).expect("one of both");
            assert!(granted.insert(ordinal(&entry)));
        }
        for (slot, agent, _, told) in &mut agents {
            for _ in 0..20 {
                let (header, entry) = header_of(&receive(&agent.socket));
                assert_eq!((header.kind, header.destination), (kind::lock::JOIN, agent.handle), "at the agent");
                assert_eq!((header.source, entry.holder, entry.slot), (reader.handle, reader.handle, *slot));
                assert!(told.insert(ordinal(&entry)));
            }
        }
    }
    for (slot, _, granted, told) in agents {
        assert_eq!(granted, (1..=EACH).collect(), "slot {slot}");
        assert_eq!(told, granted);
    }
    assert_eq!(world.count("handed_up_lost"), 0);
}

#[test]
fn copies_in_bursts_come_out_each_as_its_own() {
    copies_in_bursts("native");
}

/// Where two copies would leave as one packet, the daemon sends the JOINs.
#[test]
fn copies_in_bursts_come_out_each_as_its_own_by_generic_xdp_too() {
    copies_in_bursts("generic");
}

/// A handle's next node may be elsewhere: until its first heartbeat, its packets go by the kernel's routes.
#[test]
fn a_new_node_is_reached_before_its_first_heartbeat() {
    let Some(world) = World::or_skip(1) else { return };
    let (_daemon, _) = world.daemon("native");
    let mut reader = RawNode::enrol(&world.clients[0]);
    let before = world.count("handed_up");
    let mut agent = RawNode::enrol_silently(&world.clients[1]);
    let first = agent.acquire(5, 0);
    agent.socket.send(&first).unwrap();
    receive(&agent.socket);
    let join = reader.acquire(5, 0);
    reader.socket.send(&join).unwrap();
    assert_eq!(header_of(&receive(&reader.socket)).0.kind, kind::lock::GRANT);
    assert_eq!(header_of(&receive(&agent.socket)).0.kind, kind::lock::JOIN, "by the daemon");
    assert_eq!(world.count("handed_up"), before + 2, "its ENROL and the JOIN");
    agent.beat(1);
    let join = reader.acquire(5, 0);
    reader.socket.send(&join).unwrap();
    receive(&reader.socket);
    assert_eq!(header_of(&receive(&agent.socket)).0.kind, kind::lock::JOIN, "by the program");
    assert_eq!(world.count("handed_up"), before + 2);
}

/// Two CPUs in one slot: as many ordinals as grants, none twice, none missing.
#[test]
fn two_processors_in_one_slot_are_exact() {
    const EACH: u16 = 2_000;
    if thread::available_parallelism().is_ok_and(|processors| processors.get() < 2) {
        return println!("skipped: two processors in one slot: there is one");
    }
    let Some(world) = World::or_skip(1) else { return };
    let (_daemon, _) = world.daemon("native");
    let mut agent = RawNode::enrol(&world.clients[0]);
    let first = agent.acquire(5, 0);
    agent.socket.send(&first).unwrap();
    receive(&agent.socket);
    let readers: Vec<RawNode> = world.clients.iter().map(RawNode::enrol).collect();
    let granted: Vec<BTreeSet<u16>> = thread::scope(|scope| {
        let threads: Vec<_> = readers
            .into_iter()
            .enumerate()
            .map(|(cpu, mut reader)| {
                scope.spawn(move || {
                    run_on(cpu);
                    let mut granted = BTreeSet::new();
                    for _ in 0..EACH / 50 {
                        let mut packets: Vec<_> = (0..50).map(|_| reader.acquire(5, 0)).collect();
                        burst(&reader.socket, &mut packets);
                        granted.extend((0..50).map(|_| ordinal(&header_of(&receive(&reader.socket)).1)));
                    }
                    granted
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut all: Vec<u16> = granted.iter().flatten().copied().collect();
    all.sort_unstable();
    // The slot saturates at 4,095 joins: all of these were granted by it.
    assert_eq!(all, (1..=2 * EACH).collect::<Vec<_>>());
    assert_eq!(world.count("joined"), u64::from(2 * EACH));
}

fn run_on(cpu: usize) {
    // SAFETY: a set of our own, of the size that is told.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    assert_eq!(set, 0, "there is a processor {cpu}");
}

/// Unsynchronized but for Wayside's locks: a lost update shows in the sum.
struct Counters {
    of: Vec<AtomicU64>,
}

impl Counters {
    fn new(count: usize) -> Counters {
        Counters { of: (0..count).map(|_| AtomicU64::new(0)).collect() }
    }

    fn add(&self, which: usize) {
        let before = self.of[which].load(Ordering::Relaxed);
        thread::yield_now();
        self.of[which].store(before + 1, Ordering::Relaxed);
    }

    fn sum(&self) -> u64 {
        self.of.iter().map(|counter| counter.load(Ordering::Relaxed)).sum()
    }
}

/// 24 sessions on two hosts, 5 names, both modes.
#[test]
fn twenty_four_clients_exclude_each_other() {
    const CLIENTS: usize = 24;
    const ROUNDS: usize = 100;
    let Some(world) = World::or_skip(1) else { return };
    let (_daemon, _) = world.daemon("native");
    let counters = Counters::new(5);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (world, counters) = (&world, &counters);
            scope.spawn(move || {
                let session = world.session(client % 2);
                for round in 0..ROUNDS {
                    let which = (client + round) % 5;
                    let guard = session.lock(which as u64 + 1).wait(PATIENCE).acquire().expect("a lock");
                    counters.add(which);
                    guard.release().expect("still ours");
                    let _shared = session.lock(which as u64 + 1).shared().wait(PATIENCE).acquire().expect("a lock");
                }
            });
        }
    });
    assert_eq!(counters.sum(), (CLIENTS * ROUNDS) as u64);
    assert!(world.count("transferred") > 0 && world.count("joined") > 0);
    assert_eq!(world.count("received"), 0, "nothing went by the daemon's socket");
}

/// Locks fresh names and a shared counter until told to stop. What it managed, and the longest time that one took.
fn work(session: &Session, client: u64, counters: &Counters, stop: &AtomicBool) -> (u64, Duration) {
    let (mut done, mut longest) = (0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let fresh = session.lock(client << 32 | done).wait(PATIENCE).acquire().expect("a fresh name");
        longest = longest.max(began.elapsed());
        let guard = session.lock("shared").wait(PATIENCE).acquire().expect("the shared one");
        counters.add(0);
        done += 1;
        guard.release().expect("still ours");
        fresh.release().expect("still ours");
    }
    (done, longest)
}

/// The daemon dies by SIGKILL under load and comes back: the switch has gone on meanwhile, with all its locks.
#[test]
fn the_switch_survives_its_daemon() {
    let Some(world) = World::or_skip(1) else { return };
    let (daemon, _) = world.daemon("native");
    let programs = world.programs();
    let counters = Counters::new(1);
    let stop = AtomicBool::new(false);
    let done: u64 = thread::scope(|scope| {
        let ending = Ending(&stop);
        let workers: Vec<_> = (0..4u64)
            .map(|client| {
                let (world, counters, stop) = (&world, &counters, &stop);
                scope.spawn(move || work(&world.session(client as usize % 2), client + 1, counters, stop))
            })
            .collect();
        let keeper = world.session(0);
        let kept = keeper.lock("kept").acquire().expect("a lock");
        thread::sleep(Duration::from_millis(300));
        daemon.signal(libc::SIGKILL);
        daemon.wait();
        assert_eq!(world.programs(), programs, "the program stays");
        let before = counters.sum();
        thread::sleep(Duration::from_millis(700));
        assert!(counters.sum() > before + 10, "the switch decides without its daemon");

        let (daemon, line) = world.daemon("native");
        assert!(line.starts_with("switch: native XDP"), "{line}");
        assert_eq!(daemon.line(), "switch: taken over while it was running, with all its locks");
        thread::sleep(Duration::from_millis(300));
        let other = world.session(1);
        assert!(other.lock("kept").try_lock().is_err(), "held since before");
        assert!(!kept.is_lost());
        kept.release().expect("still ours");
        let again = other.lock("kept").wait(PATIENCE).acquire().expect("it is free again");
        again.release().expect("ours");
        drop(ending);
        workers.into_iter().map(|worker| worker.join().unwrap().0).sum()
    });
    assert_eq!(counters.sum(), done);
}

/// The same of locks whose queues are in the switch: who holds goes on, and who waits is next. What another
/// configuration has otherwise begins anew.
#[test]
fn the_switch_survives_its_daemon_with_all_its_queues() {
    let Some(world) = World::or_skip(1) else { return };
    let file = world.directory.path().join("queues.toml");
    let configure = |cells: u32| {
        let text = format!("[[namespace]]\nname = 'default'\nengine = 'queue'\nqueues = ['kept']\ncells = {cells}\n");
        fs::write(&file, text).expect("a file");
    };
    let flags = ["--config", file.to_str().expect("a path in UTF-8")];
    let start = || world.daemon_with("native", &flags).0;
    let kill = |daemon: Running| {
        daemon.signal(libc::SIGKILL);
        daemon.wait();
    };
    configure(4);
    let daemon = start();
    let (one, other) = (world.session(0), world.session(1));
    let kept = one.lock("kept").acquire().expect("a lock");
    let token = kept.token();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| other.lock("kept").wait(PATIENCE).acquire().expect("it is next").token());
        eventually("one waits", || world.status()["namespaces"][0]["queues"][0]["waiters"] == 1);
        kill(daemon);
        let daemon = start();
        assert_eq!(daemon.line(), "switch: taken over while it was running, with all its locks");
        eventually("one waits still", || world.status()["namespaces"][0]["queues"][0]["waiters"] == 1);
        assert!(!kept.is_lost());
        kept.release().expect("still ours");
        let next = waiter.join().expect("it has it");
        assert!(next > token && next.stamp().epoch == token.stamp().epoch, "{token:?}, then {next:?}");
        let again = one.lock("kept").wait(PATIENCE).acquire().expect("it is free");
        kill(daemon);
        configure(5);
        let _daemon = start();
        eventually("it is lost with its epoch", || again.is_lost());
    });
}

/// The other way round where another switch may take its place: without its daemon, which renews the serving lease, the
/// program stops by itself, and goes on when the daemon is back.
#[test]
fn a_switch_that_may_be_replaced_stops_when_its_daemon_is_dead() {
    let Some(world) = World::or_skip(1) else { return };
    let Some(etcd) = Etcd::unstarted("a serving lease at the hook") else { return };
    let mut command = etcd.command();
    world.switch.enter(&mut command);
    let _etcd = Running::start(command);
    let flags = ["--etcd", &etcd.url, "--serving-lease", "500ms"];
    let (daemon, _) = world.daemon_with("native", &flags);
    eventually("it serves", || world.status()["serving"] == true);
    let mut node = RawNode::enrol(&world.clients[0]);
    drop(daemon);
    // Within the lease the program goes on, then it acknowledges nothing more.
    node.socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut sequence = 1;
    eventually("no heartbeat is acknowledged", || {
        sequence += 1;
        !node.beats(sequence)
    });
    let request = node.acquire(7, entry_flag::EXCLUSIVE);
    node.socket.send(&request).unwrap();
    let (header, _) = header_of(&receive(&node.socket));
    assert_eq!(header.kind, kind::lock::RECOVERING, "nor is anything granted");
    let (_daemon, _) = world.daemon_with("native", &flags);
    eventually("it goes on", || {
        sequence += 1;
        node.beats(sequence)
    });
    eventually("the same request is granted", || {
        node.socket.send(&request).unwrap();
        let mut bytes = [0; 2048];
        node.socket.recv(&mut bytes).is_ok_and(|length| header_of(&bytes[..length]).0.kind == kind::lock::GRANT)
    });
}

/// The program comes and goes under load: native, userspace, generic, native. Nothing is lost, nothing held twice.
#[test]
fn attaching_and_detaching_under_load_loses_nothing() {
    let Some(world) = World::or_skip(1) else { return };
    let (mut daemon, _) = world.daemon("native");
    let counters = Counters::new(1);
    let stop = AtomicBool::new(false);
    let done: u64 = thread::scope(|scope| {
        let ending = Ending(&stop);
        let workers: Vec<_> = [0, 1, 0, 1]
            .map(|client| {
                let (world, counters, stop) = (&world, &counters, &stop);
                scope.spawn(move || {
                    let session = world.session(client);
                    let mut done = 0;
                    while !stop.load(Ordering::Relaxed) {
                        // A switch whose memory is gone may take a lease to find out who holds what.
                        let Ok(guard) = session.lock("shared").wait(PATIENCE).acquire() else { continue };
                        counters.add(0);
                        done += 1;
                        let _ = guard.release();
                    }
                    done
                })
            })
            .into();
        for mode in ["userspace", "generic", "native"] {
            thread::sleep(Duration::from_millis(300));
            daemon.signal(libc::SIGTERM);
            assert!(daemon.wait().success());
            assert_eq!(world.programs(), [None, None], "a clean exit detaches");
            let line;
            (daemon, line) = world.daemon(mode);
            let expected = if mode == "userspace" { "switch: userspace on" } else { &format!("switch: {mode} XDP on") };
            assert!(line.starts_with(expected), "{line}");
            let before = counters.sum();
            let began = Instant::now();
            while counters.sum() < before + 20 {
                assert!(began.elapsed() < PATIENCE, "nothing is granted in mode {mode}");
                thread::sleep(Duration::from_millis(20));
            }
        }
        drop(ending);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(counters.sum(), done);
}

/// What is not Wayside's passes as if there were no program: TCP to the same host, IPv6, other ports, fragments, IPv4
/// of another address, and the port's own number over TCP.
#[test]
fn other_traffic_passes() {
    let Some(world) = World::or_skip(1) else { return };
    let (_daemon, _) = world.daemon("native");
    let [client, _] = &world.clients;
    // Not every kernel has them.
    let has_vlans = [(client, "eth0", 2), (&world.switch, "port0", 1)].into_iter().all(|(host, link, last)| {
        let made = host.ip(&format!("link add link {link} name vlan9 type vlan id 9\nlink set vlan9 up"));
        made.as_ref().err().inspect(|why| println!("skipped: traffic in a VLAN: {why}"));
        made.is_ok() && host.ip(&format!("addr add 10.78.9.{last}/24 dev vlan9")).is_ok()
    });
    let is_there = |address: &&str| has_vlans || !address.starts_with("10.78.9.");
    // Each its own port: a process that another test is about to start may have the one before for a moment still.
    for (address, bytes) in [
        ("10.78.0.1:9000", 100),
        ("10.78.0.1:9001", 30_000), // in fragments
        ("[fd78:0::1]:7600", 700),
        ("10.78.1.1:7600", 700), // the switch has another address
        ("10.78.9.1:7600", 700), // in a VLAN
        ("10.78.9.1:9000", 30_000),
    ]
    .into_iter()
    .filter(|(address, _)| is_there(address))
    {
        let server = world.switch.within(|| UdpSocket::bind(address).expect("free"));
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        let local = if address.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
        let sender = client.within(|| UdpSocket::bind(local).unwrap());
        let sent: Vec<u8> = (0..bytes).map(|index| index as u8).collect();
        client.within(|| sender.send_to(&sent, address).unwrap());
        let mut got = vec![0; 1 << 16];
        let (length, from) = server.recv_from(&mut got).expect(address);
        assert_eq!(got[..length], sent, "{address}");
        world.switch.within(|| server.send_to(&got[..length], from).unwrap());
        sender.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = sender.recv(&mut got).expect(address);
        assert_eq!(got[..length], sent, "{address}, back");
    }
    for address in ["10.78.0.1:7600", "[fd78:0::1]:9001", "10.78.9.1:7600"].into_iter().filter(is_there) {
        let listener = world.switch.within(|| TcpListener::bind(address).expect("free"));
        let address: SocketAddr = address.parse().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).unwrap();
                stream.write_all(&bytes).unwrap();
            });
            client.within(|| {
                let mut stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
                let sent: Vec<u8> = (0..1_000_000u32).map(|index| (index * 7) as u8).collect();
                let mut got = Vec::new();
                thread::scope(|scope| {
                    let mut writer = stream.try_clone().unwrap();
                    let sent = &sent;
                    scope.spawn(move || {
                        writer.write_all(sent).unwrap();
                        writer.shutdown(std::net::Shutdown::Write).unwrap();
                    });
                    stream.read_to_end(&mut got).unwrap();
                });
                assert!(got == sent, "{address}: a megabyte came back otherwise");
            });
        });
    }
}

/// What is addressed to the switch, but tagged or with options, passes as it is, whatever is in it. The daemon decides
/// on what its socket gets of it. No kernel needs VLANs for that: these are bytes.
#[test]
fn tagged_frames_and_options_pass_byte_for_byte() {
    const STRANGER: [u8; 6] = [2, 0, 0, 0, 0, 0x77];
    const CLIENT: [u8; 4] = [10, 78, 0, 2];
    const ADDRESS: [u8; 4] = [10, 78, 0, 1];
    let Some(world) = World::or_skip(1) else { return };
    let (_daemon, _) = world.daemon("native");
    let [client, _] = &world.clients;
    let mut node = RawNode::enrol(client);
    let port = node.socket.local_addr().unwrap().port();
    let (sender, receiver) = (Tap::on(client, "eth0"), Tap::on(&world.switch, "port0"));
    let ends = [(STRANGER, CLIENT, port), (receiver.mac, ADDRESS, wayside_wire::PORT)];
    let long: Vec<u8> = (0..1_300u32).map(|index| (index * 7) as u8).collect();
    let granted = world.count("granted");
    // Priorities are in a tag's upper bits.
    let all_tags: [&[[u16; 2]]; 4] = [&[], &[[VLAN, 77]], &[[VLAN, 7 << 13 | 77]], &[[SERVICE_VLAN, 77], [VLAN, 78]]];
    // None, one that does nothing in a word of them, a router's alert, as many as there may be.
    let all_options: [&[u8]; 4] = [&[], &[1; 4], &[0x94, 4, 0, 0], &[1; 40]];
    let mut slot = 0;
    for tags in all_tags {
        for options in all_options.into_iter().filter(|options| !tags.is_empty() || !options.is_empty()) {
            slot += 1;
            let acquire = node.acquire(slot, entry_flag::EXCLUSIVE);
            for payload in [&acquire, &long] {
                let frame = udp_frame(ends, tags, options, payload);
                sender.send(&frame);
                assert_eq!(receiver.receive_from(STRANGER), frame, "tags {tags:x?}, options {options:x?}");
            }
            if tags.is_empty() {
                let (header, entry) = header_of(&receive(&node.socket));
                assert_eq!((header.kind, entry.slot), (kind::lock::GRANT, slot), "options {options:x?}");
            }
        }
    }
    assert_eq!(world.count("granted"), granted + 3, "those with options alone, by the daemon");
}

/// What a switch at the hook can't have is said, and something else taken where that is allowed.
#[test]
fn it_falls_back_and_says_so() {
    let Some(world) = World::or_skip(1) else { return };
    let taken = world.switch.pass("port1").expect("veth has XDP");
    let (daemon, line) = world.daemon("auto");
    // What the ready line says in brackets, after the ports, is what `status` and a scrape say.
    let said_alike = |line: &str, brackets: &str| {
        let status = world.status();
        let reason = status["mode_reason"].as_str().expect("a reason").to_owned();
        assert!(line.contains(&format!("({brackets}{reason}), ready in ")), "{line}: {reason}");
        let scrape = world.scrape();
        assert!(scrape.contains(&format!("reason=\"{reason}\"")), "{scrape}");
        reason
    };
    // veth gets generic XDP by itself; a port that has another program gets none.
    assert!(line.starts_with("switch: userspace on 10.78.0.1:7600 ("), "{line}");
    let reason = said_alike(&line, "");
    assert!(reason.contains("another XDP program") && reason.contains("port1"), "{reason}");
    assert_eq!(world.programs()[0], None, "not on half of the ports");
    daemon.signal(libc::SIGTERM);
    daemon.wait();
    drop(taken);
    let (daemon, line) = world.daemon("auto");
    assert!(line.starts_with("switch: generic XDP on 10.78.0.1:7600 (port0, port1; "), "{line}");
    assert!(said_alike(&line, "port0, port1; ").starts_with("port0 is a veth"), "{line}");
    thread::scope(|scope| {
        scope.spawn(|| {
            world.session(1).lock("a").acquire().expect("a lock").release().expect("ours");
        });
    });
    daemon.signal(libc::SIGTERM);
    daemon.wait();
    let mut command = wayside(&["switch", "--listen", SWITCH, "--mode", "native", "--interfaces", "port9"]);
    command.arg("--state-dir").arg(world.directory.path().join("state")).arg("--bpf-dir").arg(&world.bpf);
    world.switch.enter(&mut command);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("there is no interface port9; there are lo, port0, port1"), "{said}");
}

/// What the kernel says of the ports' drivers is asked for, and what would be lost is said where the switch can't know
/// better: at the other end of a veth a program may come any moment.
#[test]
fn ports_that_lose_packets_are_told() {
    if let Some(why) = wayside_hosts::missing() {
        return println!("skipped: XDP in namespaces: {why}");
    }
    let (switch, client) = (Host::new().expect("as above"), Host::new().expect("as above"));
    client.join("eth0", &switch, "port0", 1).expect("veth");
    switch.ip("addr add 10.78.0.1/24 dev port0").expect("an address");
    let directory = TempDir::new().expect("a directory");
    let bpf = format!("/sys/fs/bpf/wayside-loses-{}", std::process::id());
    let run = || {
        let mut command = wayside(&["switch", "--listen", SWITCH, "--mode", "native", "--bpf-dir", &bpf]);
        command.args(["--authentication", "off", "--state-dir"]).arg(directory.path().join("state"));
        command.arg("--control-socket").arg(directory.path().join("control.sock"));
        switch.enter(&mut command);
        let daemon = Running::start(command);
        let line = daemon.line();
        let mut status = wayside(&["status", "--endpoint", SWITCH, "-o", "json"]);
        switch.enter(&mut status);
        let status: serde_json::Value = serde_json::from_str(&end(status).stdout).expect("JSON");
        daemon.signal(libc::SIGTERM);
        assert!(daemon.wait().success());
        (line, status["mode_reason"].clone())
    };
    let lost = "the other end of port0 has no XDP program: what is sent there is lost";
    let (line, reason) = run();
    assert!(line.starts_with(&format!("switch: native XDP on {SWITCH} (port0; {lost}), ready in ")), "{line}");
    assert_eq!(reason, lost);
    let _pass = client.pass("eth0").expect("veth has XDP");
    let (line, reason) = run();
    assert!(line.starts_with(&format!("switch: native XDP on {SWITCH} (port0), ready in ")), "{line}");
    assert_eq!(reason, serde_json::Value::Null);
    let _ = fs::remove_dir(&bpf);
}

/// Commands take their transport from the environment, like any program with the client in it.
#[test]
fn a_command_may_use_af_xdp_and_says_why_where_it_can_not() {
    if let Some(why) = wayside_hosts::missing() {
        return println!("skipped: AF_XDP in namespaces: {why}");
    }
    let (switch, client) = (Host::new().expect("as above"), Host::new().expect("as above"));
    client.join("eth0", &switch, "port0", 1).expect("veth");
    client.ip("addr add 10.78.0.2/24 dev eth0").expect("an address");
    switch.ip("addr add 10.78.0.1/24 dev port0").expect("an address");
    let directory = TempDir::new().expect("a directory");
    let mut command = wayside(&["switch", "--listen", SWITCH, "--mode", "userspace", "--authentication", "off"]);
    command.arg("--state-dir").arg(directory.path().join("state"));
    switch.enter(command.arg("--control-socket").arg(directory.path().join("control.sock")));
    let daemon = Running::start(command);
    assert!(daemon.line().starts_with("switch: userspace on"));
    let lock = |transport: &str, run: &[&str]| {
        let mut command = wayside(&[&["lock", "jobs", "--endpoint", SWITCH, "--"], run].concat());
        command.env("WAYSIDE_TRANSPORT", transport).env("WAYSIDE_SOCKET", directory.path().join("none"));
        client.enter(&mut command);
        command
    };
    let program = || {
        let all = client.within(|| wayside_switch::xdp::interfaces::list().expect("the kernel answers"));
        all.iter().find(|port| port.name == "eth0").and_then(|port| port.program)
    };
    let holder = Running::start(lock("afxdp:eth0", &["sh", "-c", "echo held; exec sleep 60"]));
    assert_eq!(holder.line(), "held");
    assert!(program().is_some(), "it has the hook while it runs");
    let ended = end(lock("afxdp:eth0", &["true"]));
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.stderr.contains("transport: ") && ended.stderr.contains("eth0"), "{ended:?}");
    holder.signal(libc::SIGTERM);
    holder.wait();
    support::eventually("the hook is free again", || program().is_none());
    let ended = end(lock("afxdp:eth0", &["true"]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = end(lock("afxdp:nowhere", &["true"]));
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.stderr.contains("nowhere"), "{ended:?}");
}

/// What a killed daemon has left does not decide beside its successor: not in another mode than the one asked for, and
/// not where the successor has new memory and can't have the hook.
#[test]
fn what_was_left_never_decides_on_its_own() {
    let Some(world) = World::or_skip(1) else { return };
    let (daemon, _) = world.daemon("native");
    daemon.signal(libc::SIGKILL);
    daemon.wait();
    let (daemon, line) = world.daemon("generic");
    assert!(line.starts_with("switch: generic XDP on"), "{line}");
    let all = world.switch.within(|| wayside_switch::xdp::interfaces::list().expect("the kernel answers"));
    let modes: Vec<_> = all.iter().filter_map(|port| port.program.map(|(_, mode)| mode)).collect();
    assert_eq!(modes, [wayside_switch::xdp::interfaces::Mode::Generic; 2], "as asked, and as told");
    daemon.signal(libc::SIGKILL);
    daemon.wait();
    // Its memory is gone, and one of its ports has been taken by another program meanwhile.
    for memory in fs::read_dir(&world.bpf).expect("bpffs").flatten() {
        for layout in fs::read_dir(memory.path()).expect("bpffs").flatten() {
            fs::remove_file(layout.path().join("slots")).expect("its slots");
            let links = fs::read_dir(layout.path().join("links")).expect("bpffs");
            let port1 = all.iter().find(|port| port.name == "port1").expect("it is there").index.to_string();
            let link = links.flatten().find(|link| link.file_name() == *port1).expect("of port1");
            fs::remove_file(link.path()).expect("its pin");
        }
    }
    support::eventually("the kernel lets port1 go", || world.programs()[1].is_none());
    let _taken = world.switch.pass("port1").expect("veth has XDP");
    let (_daemon, line) = world.daemon("auto");
    assert!(line.starts_with("switch: userspace on"), "{line}");
    assert_eq!(world.programs()[0], None, "nothing answers before the daemon does");
    thread::scope(|scope| {
        scope.spawn(|| {
            world.session(0).lock("a").acquire().expect("a lock").release().expect("ours");
        });
    });
}

/// `--detach`: what a dead daemon has left goes, and is told; a daemon that lives keeps what it has.
#[test]
fn what_a_dead_daemon_has_left_can_be_detached() {
    let Some(world) = World::or_skip(1) else { return };
    let detach = |host: &Host| {
        let mut command = wayside(&["switch", "--detach", "--listen", SWITCH, "--bpf-dir"]);
        host.enter(command.arg(&world.bpf));
        end(command)
    };
    let ended = detach(&world.switch);
    assert_eq!((ended.code, ended.stdout.starts_with("nothing of 10.78.0.1:7600 is left in ")), (Some(0), true));
    let (daemon, _) = world.daemon("native");
    let ended = detach(&world.switch);
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.stderr.contains("UDP port 10.78.0.1:7600 is in use"), "{ended:?}");
    assert!(world.programs().iter().all(Option::is_some), "the daemon still has it");
    // In another network namespace, as containers have, the same address is another switch's.
    let ended = detach(&world.clients[0]);
    assert_eq!((ended.code, ended.stdout.starts_with("nothing of 10.78.0.1:7600 is left in ")), (Some(0), true));
    assert!(world.programs().iter().all(Option::is_some), "the daemon still has it");
    daemon.signal(libc::SIGKILL);
    daemon.wait();
    assert!(world.programs().iter().all(Option::is_some), "it outlives the daemon");
    let told = || {
        let mut command = wayside(&["doctor", "--endpoint", SWITCH]);
        world.switch.enter(command.env("WAYSIDE_BPF_DIR", &world.bpf));
        end(command).stdout
    };
    let left = "10.78.0.1:7600 has no daemon, and its program is attached (2 of the interfaces)";
    let fix = "`wayside switch --detach --listen 10.78.0.1:7600`";
    let text = told();
    assert!(text.contains(left) && text.contains(fix), "{text}");
    let ended = detach(&world.switch);
    assert!(!told().contains("has no daemon"), "it is gone");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let expected = "the program is detached from port0, port1, the memory of 262144 slots removed\n";
    assert_eq!(ended.stdout, expected);
    assert_eq!(world.programs(), [None, None]);
    assert_eq!(fs::read_dir(&world.bpf).expect("bpffs").count(), 0, "nothing is left behind");
    let ended = detach(&world.switch);
    assert!(ended.stdout.starts_with("nothing of"), "{ended:?}");

    // Of another version, with another layout of its memory: that is detached as well, and a daemon takes its place.
    for replaced in [false, true] {
        let (daemon, _) = world.daemon("native");
        daemon.signal(libc::SIGKILL);
        daemon.wait();
        let pins = fs::read_dir(&world.bpf).expect("bpffs").next().expect("of this address").expect("read").path();
        let layout = fs::read_dir(&pins).expect("bpffs").next().expect("the one layout").expect("read").path();
        fs::rename(layout, pins.join("v0")).expect("bpffs renames");
        if replaced {
            let (daemon, line) = world.daemon("native");
            assert!(line.starts_with("switch: native XDP on 10.78.0.1:7600 (port0, port1)"), "{line}");
            daemon.signal(libc::SIGTERM);
            daemon.wait();
        } else {
            assert_eq!(detach(&world.switch).stdout, expected);
        }
        assert_eq!(world.programs(), [None, None]);
        assert_eq!(fs::read_dir(&world.bpf).expect("bpffs").count(), 0, "nothing is left behind");
    }
}
