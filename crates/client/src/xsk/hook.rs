//! An interface with the client's XDP program attached, shared by all sessions of this process.
//!
//! The program (`dataplane/endpoint.bpf.c`) hangs on a link, which the kernel takes down with this process, however
//! that ends. An interface has room for one program: another process is told that the hook is taken, and changes
//! nothing.

use super::device;
use crate::Error;
use crate::transport::HookMode;
use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{Map, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, set_print};
use parking_lot::Mutex;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Weak};
use std::time::Duration;

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/endpoint.bpf.o"));
/// A full packet with IPv4 and UDP around it.
const LEAST_MTU: u32 = 20 + 8 + wayside_wire::limits::MAX_PACKET_BYTES as u32;
pub(super) const NO_QUEUE: u32 = u32::MAX;
/// Between two tries to have the hook, and how many: 0.2 s in all.
const PAUSE: Duration = Duration::from_millis(10);
const PATIENCE: u32 = 20;

pub(super) struct Interface {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) queues: u32,
    pub(super) mode: HookMode,
    /// Why the program is not in the driver.
    pub(super) remark: Option<String>,
    flows: MapHandle,
    sockets: MapHandle,
    /// Which queues have a socket of this process.
    taken: Mutex<Vec<bool>>,
    link: OwnedFd,
}

/// Interfaces in use, each with the network namespace that its index counts in.
static OPEN: Mutex<Vec<(u64, u32, Weak<Interface>)>> = Mutex::new(Vec::new());

impl Interface {
    /// The interface with its program, attached by now if it was not.
    pub(super) fn open(name: &str) -> Result<Arc<Interface>, Error> {
        let missing = device::missing_capabilities();
        if !missing.is_empty() {
            return Err(Error::Transport(format!(
                "AF_XDP on {name} needs {}: run as root, or `setcap cap_net_admin,cap_net_raw,cap_bpf=ep PROGRAM`",
                missing.join(" and ")
            )));
        }
        let index = device::index(name).ok_or_else(|| Error::Transport(format!("no interface is named {name}")))?;
        let namespace = std::fs::metadata("/proc/thread-self/ns/net").map(|file| file.ino()).unwrap_or(0);
        let mut open = OPEN.lock();
        open.retain(|(_, _, interface)| interface.strong_count() > 0);
        let same = |known: &&(u64, u32, Weak<Interface>)| (known.0, known.1) == (namespace, index);
        if let Some(interface) = open.iter().find(same).and_then(|known| known.2.upgrade()) {
            return Ok(interface);
        }
        let interface = Arc::new(Interface::attach(name, index)?);
        open.push((namespace, index, Arc::downgrade(&interface)));
        Ok(interface)
    }

    fn attach(name: &str, index: u32) -> Result<Interface, Error> {
        let failed = |what: &str, error: &dyn std::fmt::Display| Error::Transport(format!("{what} {name}: {error}"));
        let mtu = device::mtu(name).map_err(|error| failed("asking for the MTU of", &error))?;
        if mtu < LEAST_MTU {
            let why = format!("{name} has an MTU of {mtu}: Wayside's packets take {LEAST_MTU}");
            return Err(Error::Transport(why));
        }
        if device::address(name).map_err(|error| failed("asking for the address of", &error))?.is_none() {
            return Err(Error::Transport(format!("{name} is no Ethernet interface")));
        }
        let queues = device::queues(name).map_err(|error| failed("asking for the queues of", &error))?;
        let object = load(queues).map_err(|error| failed("loading the XDP program for", &error))?;
        let program = object.progs().next().expect("the object has one program").as_fd().as_raw_fd();
        let (link, mode, remark) = match link_patiently(program, index, sys::XDP_FLAGS_DRV_MODE) {
            Ok(link) => (link, HookMode::Native, None),
            Err(error) if is_taken(&error) => return Err(taken(name, index)),
            Err(native) => match link_patiently(program, index, sys::XDP_FLAGS_SKB_MODE) {
                Ok(link) => (link, HookMode::Generic, Some(format!("native at an MTU of {mtu}: {native}"))),
                Err(error) if is_taken(&error) => return Err(taken(name, index)),
                Err(error) => return Err(failed("attaching the XDP program to", &error)),
            },
        };
        let map = |name: &str| {
            let map = object.maps().find(|map| map.name() == name).expect("the object has this map");
            // The object goes, its maps are kept by their descriptors, and the program by its link.
            MapHandle::try_from(&map as &Map<'_>).map_err(|error| failed("keeping the maps of", &error))
        };
        Ok(Interface {
            name: name.into(),
            index,
            queues,
            mode,
            remark,
            flows: map("flows")?,
            sockets: map("sockets")?,
            taken: Mutex::new(vec![false; queues as usize]),
            link,
        })
    }

    /// Takes a queue, for one socket of this process.
    pub(super) fn claim(self: &Arc<Self>, number: u32) -> Option<Queue> {
        let mut taken = self.taken.lock();
        let free = taken.get_mut(number as usize).filter(|taken| !**taken)?;
        *free = true;
        Some(Queue { number, interface: self.clone() })
    }

    /// Enters a port, or changes what is known of it.
    pub(super) fn enter(&self, own: SocketAddrV4, peer: SocketAddrV4, queue: u32) -> io::Result<()> {
        let mut flow = Vec::with_capacity(FLOW);
        flow.extend(own.ip().octets());
        flow.extend(peer.ip().octets());
        flow.extend(peer.port().to_be_bytes());
        flow.extend([0; 2]);
        flow.extend(queue.to_ne_bytes());
        flow.extend(NO_QUEUE.to_ne_bytes());
        self.flows.update(&own.port().to_be_bytes(), &flow, MapFlags::ANY).map_err(io::Error::other)
    }

    pub(super) fn remove(&self, number: u16) {
        // It fails if the port was never entered, and then nothing is to be removed.
        let _ = self.flows.delete(&number.to_be_bytes());
    }

    /// On which queue the last packet for a port came in that went by UDP.
    pub(super) fn seen(&self, number: u16) -> Option<u32> {
        let flow = self.flows.lookup(&number.to_be_bytes(), MapFlags::ANY).ok()??;
        let seen = u32::from_ne_bytes(flow.get(FLOW - 4..FLOW)?.try_into().ok()?);
        (seen != NO_QUEUE).then_some(seen)
    }
}

impl Drop for Interface {
    fn drop(&mut self) {
        // Closing it would not do: a child between fork and exec has it open, too.
        // SAFETY: no pointers. It fails if the interface is gone, and the program with it.
        unsafe { sys::bpf_link_detach(self.link.as_raw_fd()) };
    }
}

/// Length of `struct flow` of the program.
const FLOW: usize = 20;

/// A queue that no other socket of this process uses.
pub(super) struct Queue {
    pub(super) number: u32,
    interface: Arc<Interface>,
}

impl Queue {
    /// Has the program send what is for this queue to the socket.
    pub(super) fn connect(&self, socket: RawFd) -> io::Result<()> {
        let update = |map: &MapHandle| map.update(&self.number.to_ne_bytes(), &socket.to_ne_bytes(), MapFlags::ANY);
        update(&self.interface.sockets).map_err(io::Error::other)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // It fails if the queue was never connected, or its socket is closed: the kernel has removed it then.
        let _ = self.interface.sockets.delete(&self.number.to_ne_bytes());
        self.interface.taken.lock()[self.number as usize] = false;
    }
}

fn load(queues: u32) -> libbpf_rs::Result<Object> {
    // libbpf would write to the application's stderr what comes back as an error anyway.
    let before = set_print(None);
    let loaded = ObjectBuilder::default().open_memory(PROGRAM).and_then(|mut open| {
        let mut sockets = open.maps_mut().find(|map| map.name() == "sockets").expect("the object has this map");
        sockets.set_max_entries(queues)?;
        open.load()
    });
    set_print(before);
    loaded
}

/// A session that just ended, here or in another process, may be about to leave the hook.
fn link_patiently(program: RawFd, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    for _ in 0..PATIENCE {
        match link(program, interface, flags) {
            Err(error) if is_taken(&error) => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
    link(program, interface, flags)
}

fn link(program: RawFd, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    let size = size_of::<sys::bpf_link_create_opts>();
    let options = sys::bpf_link_create_opts { sz: size as sys::size_t, flags, ..Default::default() };
    // SAFETY: options of the size that they tell, which outlive the call. What comes back is owned by nobody else.
    unsafe {
        let descriptor = sys::bpf_link_create(program, interface as i32, sys::BPF_XDP, &options);
        if descriptor < 0 {
            Err(io::Error::from_raw_os_error(-descriptor))
        } else {
            Ok(OwnedFd::from_raw_fd(descriptor))
        }
    }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

fn taken(name: &str, index: u32) -> Error {
    let mut program = 0;
    // SAFETY: a number to write to.
    let known = unsafe { sys::bpf_xdp_query_id(index as i32, 0, &mut program) } == 0 && program != 0;
    let whose = if known { format!(" by program {program}") } else { String::new() };
    Error::Transport(format!(
        "the XDP hook of {name} is taken{whose}, of another process: `ip link show {name}` shows it; use another \
         interface, or udp"
    ))
}
