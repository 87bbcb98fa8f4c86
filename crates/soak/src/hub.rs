//! The network between the hosts: a hub of our own, since the kernel of many a test machine has no netem. It takes
//! every frame from the ports and hands it on after a while, sometimes twice, sometimes changed, sometimes never.
//!
//! Invariants
//! * A seed decides what happens to the n-th frame; when frames come is the processes' own affair.
//! * TCP is cut with the rest, but neither lost nor changed otherwise: it would only be slower.

use fastrand::Rng;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wayside_hosts::Host;

/// What happens to datagrams. Chances are in millionths.
#[derive(Clone, Debug, Default)]
pub struct Weather {
    pub loss: u32,
    pub duplication: u32,
    pub corruption: u32,
    /// Each takes up to so long: reorders.
    pub jitter: Duration,
    /// Some take up to so long.
    pub late: (u32, Duration),
}

/// Frames by what became of them.
#[derive(Default)]
pub struct Counts {
    pub passed: AtomicU64,
    pub lost: AtomicU64,
    pub repeated: AtomicU64,
    pub changed: AtomicU64,
    pub late: AtomicU64,
    pub cut: AtomicU64,
}

#[derive(Default)]
struct State {
    weather: Weather,
    /// From the first of these ports to the second nothing passes.
    cuts: Vec<(usize, usize)>,
}

/// A running hub.
pub struct Hub {
    state: Arc<Mutex<State>>,
    pub counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// A frame under way: when, in the order of their coming, to which port.
type Flight = Reverse<(Instant, u64, usize, Vec<u8>)>;

const LONGEST_FRAME: usize = 2_048;
const IPV4: [u8; 2] = [8, 0];
const UDP: u8 = 17;
/// Of a frame: Ethernet's and IPv4's headers, and UDP's.
const PAYLOAD: usize = 14 + 20 + 8;

impl Hub {
    /// Joins these interfaces of a host of its own.
    pub fn start(host: &Host, interfaces: &[String], seed: u64) -> io::Result<Hub> {
        let sockets: io::Result<Vec<OwnedFd>> =
            host.within(|| interfaces.iter().map(|interface| packet_socket(interface)).collect());
        let (state, counts, stop) = <(Arc<Mutex<State>>, Arc<Counts>, Arc<AtomicBool>)>::default();
        let work = Work {
            sockets: sockets?,
            state: state.clone(),
            counts: counts.clone(),
            stop: stop.clone(),
            random: Rng::with_seed(seed),
            places: HashMap::new(),
            under_way: BinaryHeap::new(),
            taken: 0,
        };
        let thread = std::thread::Builder::new().name("hub".into()).spawn(move || work.run())?;
        Ok(Hub { state, counts, stop, thread: Some(thread) })
    }

    pub fn set_weather(&self, weather: Weather) {
        self.state.lock().expect("nobody panics with it").weather = weather;
    }

    /// Nothing passes from port `from` to port `to` any more.
    pub fn cut(&self, from: usize, to: usize) {
        self.state.lock().expect("nobody panics with it").cuts.push((from, to));
    }

    /// Everything passes again.
    pub fn mend(&self) {
        self.state.lock().expect("nobody panics with it").cuts.clear();
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(Ok(Err(error))) = self.thread.take().map(JoinHandle::join) {
            eprintln!("the hub ended: {error}");
        }
    }
}

struct Work {
    sockets: Vec<OwnedFd>,
    state: Arc<Mutex<State>>,
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
    random: Rng,
    /// At which port an address was seen last.
    places: HashMap<[u8; 6], usize>,
    under_way: BinaryHeap<Flight>,
    taken: u64,
}

impl Work {
    fn run(mut self) -> io::Result<()> {
        let mut frame = [0; LONGEST_FRAME];
        while !self.stop.load(Relaxed) {
            self.sleep();
            for port in 0..self.sockets.len() {
                while let Some(bytes) = receive(&self.sockets[port], &mut frame) {
                    self.take(port, &frame[..bytes]);
                }
            }
            self.deliver();
        }
        Ok(())
    }

    /// Until a frame comes, or one under way arrives.
    fn sleep(&self) {
        let next = self.under_way.peek().map(|Reverse((at, ..))| at.saturating_duration_since(Instant::now()));
        let most = next.unwrap_or(Duration::from_millis(20)).min(Duration::from_millis(20));
        let mut set: Vec<libc::pollfd> = self
            .sockets
            .iter()
            .map(|socket| libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 })
            .collect();
        let most = libc::timespec { tv_sec: 0, tv_nsec: most.subsec_nanos().into() };
        // SAFETY: the set has that many elements, and both outlive the call; no signal mask.
        unsafe { libc::ppoll(set.as_mut_ptr(), set.len() as libc::nfds_t, &most, std::ptr::null()) };
    }

    fn take(&mut self, from: usize, frame: &[u8]) {
        let (Some(to), Some(source)) = (address(frame, 0), address(frame, 6)) else { return };
        self.places.insert(source, from);
        let everywhere = to[0] & 1 != 0;
        let ports: Vec<usize> = match self.places.get(&to) {
            Some(&port) if !everywhere => vec![port],
            _ => (0..self.sockets.len()).collect(),
        };
        for to in ports.into_iter().filter(|port| *port != from) {
            self.send_later(from, to, frame);
        }
    }

    fn send_later(&mut self, from: usize, to: usize, frame: &[u8]) {
        let (weather, cut) = {
            let state = self.state.lock().expect("nobody panics with it");
            (state.weather.clone(), state.cuts.contains(&(from, to)))
        };
        let count = |counter: &AtomicU64| counter.fetch_add(1, Relaxed);
        if cut {
            count(&self.counts.cut);
            return;
        }
        let mut frame = frame.to_vec();
        let is_datagram = frame.get(12..14) == Some(&IPV4) && frame.get(23) == Some(&UDP);
        let mut times = 1;
        let mut after = Duration::ZERO;
        if is_datagram {
            let mut happens = |chance: u32| self.random.u32(..1_000_000) < chance;
            if happens(weather.loss) {
                count(&self.counts.lost);
                return;
            }
            if happens(weather.duplication) {
                count(&self.counts.repeated);
                times = 2;
            }
            if happens(weather.corruption) && frame.len() > PAYLOAD {
                count(&self.counts.changed);
                // Behind UDP's header, whose checksum goes: what the sum catches never arrives.
                let at = self.random.usize(PAYLOAD..frame.len());
                frame[at] ^= 1 << self.random.u8(..8);
                frame[PAYLOAD - 2..PAYLOAD].fill(0);
            }
            if self.random.u32(..1_000_000) < weather.late.0 {
                count(&self.counts.late);
                after = weather.late.1.mul_f64(self.random.f64());
            }
        }
        for _ in 0..times {
            count(&self.counts.passed);
            let jitter = if is_datagram { weather.jitter.mul_f64(self.random.f64()) } else { Duration::ZERO };
            self.taken += 1;
            self.under_way.push(Reverse((Instant::now() + after + jitter, self.taken, to, frame.clone())));
        }
    }

    fn deliver(&mut self) {
        while let Some(Reverse((at, ..))) = self.under_way.peek() {
            if *at > Instant::now() {
                return;
            }
            let Some(Reverse((_, _, port, frame))) = self.under_way.pop() else { return };
            // SAFETY: as many readable bytes as it is told. A frame that is not sent is lost, as on any network.
            unsafe { libc::send(self.sockets[port].as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        }
    }
}

fn address(frame: &[u8], at: usize) -> Option<[u8; 6]> {
    frame.get(at..at + 6)?.try_into().ok()
}

/// A whole frame, if there is one that came in. What this host itself sends is seen here, too, and is none.
fn receive(socket: &OwnedFd, frame: &mut [u8; LONGEST_FRAME]) -> Option<usize> {
    loop {
        // SAFETY: zeros are an address; it and the bytes outlive the call, and have the lengths that it is told.
        unsafe {
            let mut from: libc::sockaddr_ll = std::mem::zeroed();
            let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            let (bytes, most) = (frame.as_mut_ptr().cast(), LONGEST_FRAME);
            let address = (&raw mut from).cast();
            let got = libc::recvfrom(socket.as_raw_fd(), bytes, most, libc::MSG_DONTWAIT, address, &raw mut length);
            if got < 0 {
                return None;
            }
            if from.sll_pkttype != libc::PACKET_OUTGOING {
                return Some(got as usize);
            }
        }
    }
}

/// Of this interface of the calling thread's host.
fn packet_socket(interface: &str) -> io::Result<OwnedFd> {
    let name = std::ffi::CString::new(interface).map_err(io::Error::other)?;
    let all = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: a terminated name; an address of zeros with its family, protocol and interface, of the length that is
    // told; an int. The new descriptor is owned by nobody else.
    unsafe {
        let index = libc::if_nametoindex(name.as_ptr());
        let descriptor = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, all.into());
        if index == 0 || descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(descriptor);
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = all;
        address.sll_ifindex = index as i32;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        if libc::bind(descriptor, (&raw const address).cast(), length) < 0 {
            return Err(io::Error::last_os_error());
        }
        let room: libc::c_int = 8 << 20;
        libc::setsockopt(descriptor, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, (&raw const room).cast(), 4);
        Ok(socket)
    }
}
