//! Relays: what hosts send that can reach this switch alone is passed on to another rack's switch, and its answers come
//! back the same way (docs/shards.md, "By way of another switch").
//!
//! A relay is a UDP port here that stands for one switch elsewhere, and the two TCP ports behind it, for that switch's
//! admin and enrolment ports. Each (address, port) of a client gets a port of this host's own. What the client sends to
//! a relay leaves by that port; what any relay's switch sends to it goes to the client, from the relay that stands for
//! that switch. So both know each other by addresses of this host, which neither of them need know.
//!
//! Invariants:
//! * One packet for one, its bytes unchanged: out to the one switch of the relay that it came to, back to the one
//!   client whose port it came to. What comes to such a port from anybody else is dropped and counted.
//! * Nothing is relayed twice, however relays are set up: what is relayed leaves with a time to live of [`HOPS`], and a
//!   relay takes what has more left.
//! * A client keeps its port as long as it is used, and for [`QUIET`] at least: a session's switch knows it by that.

use super::control::rest;
use super::sockets::{bind_tcp, bind_udp};
use crate::config;
use crate::failure::Failure;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::pending;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, copy_bidirectional};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{AbortHandle, LocalSet, spawn_local, yield_now};
use tokio::time::timeout;
use wayside_wire::{Header, limits::MAX_PACKET_BYTES};

/// Where they are moved elsewhere.
const FLAG: &str = "--relays";
/// What is relayed may pass so many routers, half of what hosts give theirs. A data centre has fewer than ten.
const HOPS: libc::c_int = 32;
/// Clients' ports: each costs a descriptor. A process has one, and one for each thread that asks.
const PORTS_MOST: usize = 8192;
/// Of one address: one rack's host keeps no other out.
const OF_ADDRESS_MOST: usize = 2048;
/// A port that nobody has used for so long makes room where there is none left. Heartbeats come more often.
const QUIET: Duration = Duration::from_secs(60);
/// And goes by itself after this: more than the longest lease, at which heartbeats may come once in a quarter of an
/// hour.
const FORGOTTEN: Duration = Duration::from_secs(2 * 3600);
/// Connections of each of a relay's TCP ports: a lifeline for each process.
const CONNECTIONS_MOST: usize = 1024;
const CONNECT_MOST: Duration = Duration::from_secs(3);
/// Packets that are taken from one port before others have their turn.
const BATCH: usize = 32;
/// How long a host that is gone keeps its connection, in seconds: before it is asked, between questions, and how many.
const KEEPALIVE: [libc::c_int; 3] = [60, 10, 3];

/// Those of a switch, and what they count.
#[derive(Default)]
pub struct Relays {
    each: Vec<Relay>,
    ports: AtomicU64,
    strangers: AtomicU64,
}

/// One of them.
pub struct Relay {
    pub place: config::Relay,
    passed_on: AtomicU64,
    passed_back: AtomicU64,
    malformed: AtomicU64,
    no_port: AtomicU64,
    unsent: AtomicU64,
    connections: AtomicU64,
}

/// How many packets each relay has passed on and back, and what it has dropped, by why.
pub struct Count {
    pub place: config::Relay,
    pub passed_on: u64,
    pub passed_back: u64,
    pub dropped: [(&'static str, u64); 3],
    pub connections: u64,
}

/// A socket that is waited for to read, and written to at once: what does not fit is dropped, as by any switch.
type Socket = AsyncFd<UdpSocket>;

/// A relay's ports, bound.
struct Door {
    clients: Socket,
    admin: TcpListener,
    enrol: TcpListener,
}

/// The thread's work. Dropped, it ends.
pub struct Running {
    _end: oneshot::Sender<()>,
}

impl Relays {
    /// Binds all ports of these relays at `address`, and begins to relay, in a thread that `spawn` makes of the work.
    pub fn start(
        places: &[config::Relay],
        address: Ipv4Addr,
        spawn: impl FnOnce(Box<dyn FnOnce() + Send>) -> Result<(), Failure>,
    ) -> Result<(Arc<Relays>, Option<Running>), Failure> {
        let each = places.iter().map(|&place| Relay::new(place)).collect();
        let relays = Arc::new(Relays { each, ..Relays::default() });
        if places.is_empty() {
            return Ok((relays, None));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::system("can't start to relay", &error))?;
        let doors: Result<Vec<Door>, Failure> = {
            let _context = runtime.enter();
            places.iter().map(|place| Door::open(place, address)).collect()
        };
        let doors = doors?;
        let (end, ended) = oneshot::channel();
        let shared = Arc::clone(&relays);
        spawn(Box::new(move || {
            let local = LocalSet::new();
            local.block_on(&runtime, async {
                tokio::select! {
                    () = Exchange::run(shared, doors, address) => {}
                    _ = ended => {}
                }
            });
        }))?;
        Ok((relays, Some(Running { _end: end })))
    }

    pub fn counts(&self) -> impl Iterator<Item = Count> + '_ {
        self.each.iter().map(|relay| Count {
            place: relay.place,
            passed_on: relay.passed_on.load(Relaxed),
            passed_back: relay.passed_back.load(Relaxed),
            dropped: [
                ("malformed", relay.malformed.load(Relaxed)),
                ("no_port", relay.no_port.load(Relaxed)),
                ("unsent", relay.unsent.load(Relaxed)),
            ],
            connections: relay.connections.load(Relaxed),
        })
    }

    /// Ports that clients have now.
    pub fn ports(&self) -> u64 {
        self.ports.load(Relaxed)
    }

    /// Packets to a client's port that came from none of the switches.
    pub fn strangers(&self) -> u64 {
        self.strangers.load(Relaxed)
    }
}

impl Relay {
    fn new(place: config::Relay) -> Relay {
        let zero = AtomicU64::default;
        Relay {
            place,
            passed_on: zero(),
            passed_back: zero(),
            malformed: zero(),
            no_port: zero(),
            unsent: zero(),
            connections: zero(),
        }
    }
}

impl Door {
    fn open(place: &config::Relay, address: Ipv4Addr) -> Result<Door, Failure> {
        let [clients, admin, enrol] = place.ports().map(|port| SocketAddrV4::new(address, port));
        let (udp, _) = bind_udp(clients, FLAG)?;
        let udp = Arc::into_inner(udp).expect("it is new");
        let listen = |address| bind_tcp(address, FLAG).map(|(listener, _)| listener);
        let (admin, enrol) = (listen(admin)?, listen(enrol)?);
        let failed = |error: io::Error| Failure::system("can't relay", &error);
        udp.set_nonblocking(true).map_err(failed)?;
        for socket in [udp.as_raw_fd(), admin.as_raw_fd(), enrol.as_raw_fd()] {
            refuse_relayed(socket).map_err(failed)?;
        }
        Ok(Door { clients: readable(udp).map_err(failed)?, admin, enrol })
    }
}

/// A client's port.
struct Port {
    socket: Socket,
    used: Cell<Instant>,
}

struct Ports {
    /// In all, and of one address.
    most: [usize; 2],
    of_client: HashMap<SocketAddrV4, (Rc<Port>, AbortHandle)>,
    of_address: HashMap<Ipv4Addr, usize>,
    /// No port was quiet for long enough; none will be before this.
    full_until: Option<Instant>,
}

/// What the thread has.
struct Exchange {
    relays: Arc<Relays>,
    /// Where clients send to, by relay.
    doors: Vec<Socket>,
    of_switch: HashMap<SocketAddrV4, usize>,
    address: Ipv4Addr,
    ports: RefCell<Ports>,
}

impl Exchange {
    /// For ever.
    async fn run(relays: Arc<Relays>, doors: Vec<Door>, address: Ipv4Addr) {
        let of_switch = relays.each.iter().enumerate().map(|(index, relay)| (relay.place.to, index)).collect();
        let (mut clients, mut listeners) = (Vec::new(), Vec::new());
        for (index, Door { clients: udp, admin, enrol }) in doors.into_iter().enumerate() {
            clients.push(udp);
            listeners.extend([(index, 1, admin), (index, 2, enrol)]);
        }
        let ports = RefCell::new(Ports::new([PORTS_MOST, OF_ADDRESS_MOST]));
        let exchange = Rc::new(Exchange { relays, doors: clients, of_switch, address, ports });
        for index in 0..exchange.doors.len() {
            spawn_local(Rc::clone(&exchange).hear_clients(index));
        }
        for (index, which, listener) in listeners {
            spawn_local(Rc::clone(&exchange).accept(index, which, listener));
        }
        spawn_local(exchange.forget());
        pending().await
    }

    async fn hear_clients(self: Rc<Exchange>, index: usize) {
        let (door, relay) = (&self.doors[index], &self.relays.each[index]);
        let mut packet = [0; MAX_PACKET_BYTES + 1];
        loop {
            hear(door, &mut packet, |from, packet| self.pass_on(relay, from, packet)).await;
        }
    }

    fn pass_on(self: &Rc<Exchange>, relay: &Relay, from: SocketAddrV4, packet: &[u8]) {
        if packet.len() > MAX_PACKET_BYTES || Header::read(packet).is_err() {
            return count(&relay.malformed);
        }
        let now = Instant::now();
        let Some(port) = self.port_of(now, from) else { return count(&relay.no_port) };
        port.used.set(now);
        let sent = port.socket.get_ref().send_to(packet, relay.place.to);
        count(if sent.is_ok() { &relay.passed_on } else { &relay.unsent });
    }

    /// The client's, which it gets with its first packet. None: there is no room.
    fn port_of(self: &Rc<Exchange>, now: Instant, client: SocketAddrV4) -> Option<Rc<Port>> {
        let mut ports = self.ports.borrow_mut();
        if let Some((port, _)) = ports.of_client.get(&client) {
            return Some(Rc::clone(port));
        }
        if !ports.make_room(now, *client.ip()) {
            return None;
        }
        let socket =
            Self::open(self.address).inspect_err(|error| tracing::warn!(%error, "no port for a client")).ok()?;
        let port = Rc::new(Port { socket, used: Cell::new(now) });
        let task = spawn_local(Rc::clone(self).hear_switches(client, Rc::clone(&port))).abort_handle();
        ports.keep(client, Rc::clone(&port), task);
        self.relays.ports.store(ports.of_client.len() as u64, Relaxed);
        Some(port)
    }

    fn open(address: Ipv4Addr) -> io::Result<Socket> {
        let socket = UdpSocket::bind((address, 0))?;
        socket.set_nonblocking(true)?;
        set(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_TTL, HOPS)?;
        readable(socket)
    }

    async fn hear_switches(self: Rc<Exchange>, client: SocketAddrV4, port: Rc<Port>) {
        let mut packet = [0; MAX_PACKET_BYTES];
        loop {
            hear(&port.socket, &mut packet, |from, packet| self.pass_back(from, client, packet)).await;
            port.used.set(Instant::now());
        }
    }

    fn pass_back(&self, from: SocketAddrV4, client: SocketAddrV4, packet: &[u8]) {
        let Some(&index) = self.of_switch.get(&from) else { return count(&self.relays.strangers) };
        let relay = &self.relays.each[index];
        let sent = self.doors[index].get_ref().send_to(packet, client);
        count(if sent.is_ok() { &relay.passed_back } else { &relay.unsent });
    }

    /// Closes ports that nobody uses.
    async fn forget(self: Rc<Exchange>) {
        loop {
            tokio::time::sleep(FORGOTTEN / 8).await;
            let mut ports = self.ports.borrow_mut();
            let is_over = |port: &Port| port.used.get().elapsed() >= FORGOTTEN;
            let over: Vec<SocketAddrV4> =
                ports.of_client.iter().filter(|(_, (port, _))| is_over(port)).map(|(client, _)| *client).collect();
            over.into_iter().for_each(|client| ports.close(client));
            self.relays.ports.store(ports.of_client.len() as u64, Relaxed);
        }
    }

    /// Connections to the relay's port behind its UDP port at this distance go to the switch's at the same distance.
    async fn accept(self: Rc<Exchange>, index: usize, distance: usize, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MOST));
        let to = self.relays.each[index].place.switch_ports()[distance];
        let to = SocketAddrV4::new(*self.relays.each[index].place.to.ip(), to);
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    rest(&error).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
            let exchange = Rc::clone(&self);
            spawn_local(async move {
                let connections = &exchange.relays.each[index].connections;
                connections.fetch_add(1, Relaxed);
                if let Err(error) = connect(stream, to).await {
                    tracing::debug!(%error, %to, "a relayed connection ended");
                }
                connections.fetch_sub(1, Relaxed);
                drop(place);
            });
        }
    }
}

impl Ports {
    fn new(most: [usize; 2]) -> Ports {
        Ports { most, of_client: HashMap::new(), of_address: HashMap::new(), full_until: None }
    }

    fn keep(&mut self, client: SocketAddrV4, port: Rc<Port>, task: AbortHandle) {
        self.of_client.insert(client, (port, task));
        *self.of_address.entry(*client.ip()).or_default() += 1;
    }

    /// Whether another port may be opened for this address; one that is quiet makes room for it.
    fn make_room(&mut self, now: Instant, address: Ipv4Addr) -> bool {
        let of_address = self.of_address.get(&address).copied().unwrap_or(0);
        let [most, of_address_most] = self.most;
        if of_address < of_address_most && self.of_client.len() < most {
            return true;
        }
        if self.full_until.is_some_and(|until| now < until) {
            return false;
        }
        let is_of_it = |client: &SocketAddrV4| of_address < of_address_most || *client.ip() == address;
        let clients = self.of_client.iter().filter(|(client, _)| is_of_it(client));
        let oldest = clients.map(|(client, (port, _))| (port.used.get(), *client)).min();
        let Some((used, client)) = oldest else { return false };
        if now < used + QUIET {
            // Of another address there may be one sooner: it waits for a second at most.
            self.full_until = Some((used + QUIET).min(now + Duration::from_secs(1)));
            return false;
        }
        self.close(client);
        true
    }

    fn close(&mut self, client: SocketAddrV4) {
        let Some((_, task)) = self.of_client.remove(&client) else { return };
        task.abort();
        if let Some(count) = self.of_address.get_mut(client.ip()) {
            *count -= 1;
            if *count == 0 {
                self.of_address.remove(client.ip());
            }
        }
    }
}

/// Joins a client's connection with one to the switch, until both have said all.
async fn connect(mut client: TcpStream, to: SocketAddrV4) -> io::Result<()> {
    let socket = TcpSocket::new_v4()?;
    set(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_TTL, HOPS)?;
    let [idle, pause, count] = KEEPALIVE;
    for (option, value) in [(libc::TCP_KEEPIDLE, idle), (libc::TCP_KEEPINTVL, pause), (libc::TCP_KEEPCNT, count)] {
        set(client.as_raw_fd(), libc::IPPROTO_TCP, option, value)?;
        set(socket.as_raw_fd(), libc::IPPROTO_TCP, option, value)?;
    }
    set(client.as_raw_fd(), libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    socket.set_keepalive(true)?;
    let mut switch = timeout(CONNECT_MOST, socket.connect(to.into())).await.map_err(|_| ErrorKind::TimedOut)??;
    copy_bidirectional(&mut client, &mut switch).await.map(|_| ())
}

fn readable(socket: UdpSocket) -> io::Result<Socket> {
    // SAFETY: a UdpSocket has one descriptor, which is open as long as it lives.
    unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }.map_err(io::Error::from)
}

/// Waits for packets, and takes some of them.
async fn hear(socket: &Socket, packet: &mut [u8], mut take: impl FnMut(SocketAddrV4, &[u8])) {
    if let Ok(mut ready) = socket.readable().await {
        for _ in 0..BATCH {
            match socket.get_ref().recv_from(packet) {
                Ok((length, SocketAddr::V4(from))) => take(from, &packet[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ready.clear_ready();
                    break;
                }
                // Of a packet that was sent: nobody was there.
                Ok(_) | Err(_) => {}
            }
        }
    }
    yield_now().await;
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Has the kernel drop what comes to this socket with no more time to live than what is relayed: IP_MINTTL, but for
/// UDP as well.
fn refuse_relayed(socket: libc::c_int) -> io::Result<()> {
    // Offset of the time to live in the IP header, from which SKF_NET_OFF counts.
    const TIME_TO_LIVE: i32 = libc::SKF_NET_OFF + 8;
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, TIME_TO_LIVE as u32),
        step(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, 0, 1, HOPS as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    let length = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the kernel copies the steps, which outlive the call.
    let outcome = unsafe {
        libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, (&raw const program).cast(), length)
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set(socket: libc::c_int, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the option's value is an int that outlives the call.
    let outcome = unsafe { libc::setsockopt(socket, level, option, (&raw const value).cast(), length) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ports of clients by the last byte of their address and their port, and how long each has been silent.
    fn ports(most: [usize; 2], silent: &[(u8, u16, u64)]) -> (Ports, Instant) {
        let now = Instant::now() + FORGOTTEN;
        let mut ports = Ports::new(most);
        for &(host, port, seconds) in silent {
            let socket = Exchange::open(Ipv4Addr::LOCALHOST).unwrap();
            let port_of_ours = Port { socket, used: Cell::new(now - Duration::from_secs(seconds)) };
            ports.keep(client(host, port), Rc::new(port_of_ours), tokio::spawn(pending::<()>()).abort_handle());
        }
        (ports, now)
    }

    fn client(host: u8, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), port)
    }

    fn kept(ports: &Ports) -> Vec<u16> {
        let mut kept: Vec<u16> = ports.of_client.keys().map(SocketAddrV4::port).collect();
        kept.sort_unstable();
        kept
    }

    #[tokio::test]
    async fn whoever_is_silent_for_longest_makes_room_but_not_within_a_minute() {
        let address = |host| *client(host, 0).ip();
        let (mut all, now) = ports([3, 3], &[(1, 1, 5), (1, 2, 61), (2, 3, 70)]);
        assert!(all.make_room(now, address(3)));
        assert_eq!(kept(&all), [1, 2]);
        assert!(all.make_room(now, address(3)), "there is room now");
        assert_eq!(kept(&all), [1, 2]);
        // An address that has its share makes room for itself alone.
        let (mut of_one, now) = ports([9, 2], &[(1, 1, 80), (1, 2, 90), (2, 3, 100)]);
        assert!(of_one.make_room(now, address(1)));
        assert_eq!(kept(&of_one), [1, 3]);
        assert_eq!(of_one.of_address, HashMap::from([(address(1), 1), (address(2), 1)]));
        // Nobody is silent for long enough: neither now nor when it is asked again at once, but then.
        let (mut full, now) = ports([2, 2], &[(1, 1, 59), (2, 2, 3)]);
        assert!(!full.make_room(now, address(3)));
        assert!(!full.make_room(now, address(3)));
        assert_eq!(kept(&full), [1, 2]);
        assert!(full.make_room(now + Duration::from_secs(1), address(3)));
        assert_eq!(kept(&full), [2]);
    }
}
