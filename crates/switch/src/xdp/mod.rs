//! The switch at the kernel's XDP hook: the same core, where packets arrive, on memory that it shares with this
//! process.
//!
//! ```text
//!   port ──► wayside (XDP) ──► port            [`Switch`] of this process decides what the program lets pass: packets
//!               │      │ redirect               of this host's own nodes, with IP options, in VLANs
//!               │      └──► wayside_out ──► ports
//!               └── ring ──► [`Upcalls`]: for the controller, and what has no way
//! ```
//!
//! Maps and attachments are pinned under `DIRECTORY/ADDRESS_PORT_NAMESPACE/v12/`: they survive this process, which
//! finds them again. Invariants
//! * All ports have the same mode. Generic XDP corrupts the second of two copies: there JOINs are upcalls.
//! * Pinned memory is taken up only if its layout (the `v12`), its size and its namespaces are what is asked for; what
//!   else is found there is detached and removed.
//! * A program is attached only after every map that it reads has been filled, and replaced in place.

pub mod interfaces;
mod link;
pub mod neighbors;
mod upcalls;

use crate::clock::Ticks;
use crate::counters::{self, Counters};
use crate::layout::{GROUPS, NODES, RECORDS, REGIONS};
use crate::memory::Memory;
use crate::queues::Queues;
use crate::store::Store;
use crate::zeroed::{Zeroable, Zeroed};
use crate::{QueueConfig, StoreConfig, Switch, SwitchConfig};
use interfaces::{Interface, Mode};
use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder};
use link::Link;
use std::fs;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

pub use upcalls::{Upcall, Upcalls};

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/wayside.bpf.o"));

/// Version of everything that is pinned: `dataplane/memory.h`, `items.h`, `cells.h` and `ways.h`. A change of a layout
/// takes the next one.
const LAYOUT: &str = "v12";

/// `WS_PORTS` of `dataplane/ways.h`.
pub const MAX_PORTS: usize = 16;

/// Maps that outlive the process. The others belong to the program and come anew with it.
/// (`ways` too: they number the ports, which may be others then, and the next heartbeats teach them.)
const PINNED: [&str; 18] = [
    "slots",
    "regions",
    "nodes",
    "keys",
    "globals",
    "counters",
    "groups",
    "buckets",
    "items",
    "lanes",
    "journal",
    "store",
    "queues",
    "cells",
    "names",
    "servers",
    "directory",
    "traces",
];

/// What a switch at the hook is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// The switch's own address and port: only packets to them are decided.
    pub listen: SocketAddrV4,
    /// As for a switch in userspace.
    pub config: SwitchConfig,
    /// The chain service's memory.
    pub store: StoreConfig,
    /// The queue service's memory.
    pub queues: QueueConfig,
    /// Where pins lie: a directory of bpffs, which is mounted there if need be.
    pub directory: PathBuf,
}

/// A loaded switch, attached or not. Dropping it detaches nothing: the kernel goes on deciding without this process,
/// until [`Hook::detach`] or the next process that asks for the same address.
pub struct Hook {
    object: Object,
    pins: PathBuf,
    /// Ports, in the order of their numbers.
    links: Vec<(Interface, Link)>,
    mode: Option<Mode>,
    resumed: bool,
}

impl Hook {
    /// Loads the program, on the memory that an earlier process has left (see [`Hook::resumed`]) or on new.
    ///
    /// # Errors
    /// What the kernel or its verifier refuses: no privilege, no bpffs, not enough memory.
    pub fn load(options: &Options) -> io::Result<(Hook, Switch)> {
        let pins = pins_of(&options.directory, options.listen);
        mount_bpffs(&options.directory)?;
        // Of an earlier version: its program would have the hook, and decide about the same locks.
        layouts_of(&options.directory, options.listen)
            .unwrap_or_default()
            .iter()
            .filter(|layout| **layout != pins)
            .for_each(|layout| remove_layout(layout));
        fs::create_dir_all(pins.join("links"))?;
        let resumed = reusable(&pins, options);
        if !resumed {
            PINNED.iter().for_each(|name| remove_file(&pins.join(name)));
        }
        let object = load(options, &pins)?;
        let switch = map_switch(&object, options)?;
        Ok((Hook { object, pins, links: Vec::new(), mode: None, resumed }, switch))
    }

    /// Whether the memory is that of an earlier process, with all locks in it.
    pub fn resumed(&self) -> bool {
        self.resumed
    }

    /// Forgets what an earlier process has left, which does not fit: loads the program on new memory.
    ///
    /// # Errors
    /// As [`Hook::load`].
    pub fn discard(self, options: &Options) -> io::Result<(Hook, Switch)> {
        PINNED.iter().for_each(|name| remove_file(&self.pins.join(name)));
        drop(self);
        Hook::load(options)
    }

    /// Attaches the program to these interfaces in the first of `modes` that all of them take. Which, and why the one
    /// before it was refused.
    ///
    /// # Errors
    /// Why the last mode was refused, and by which interface.
    pub fn attach(&mut self, ports: &[Interface], modes: &[Mode]) -> io::Result<(Mode, Option<io::Error>)> {
        if ports.is_empty() || ports.len() > MAX_PORTS {
            return Err(io::Error::other(format!("a switch has 1 to {MAX_PORTS} ports, not {}", ports.len())));
        }
        self.fill_ports(ports)?;
        // What an earlier process has attached stays in its mode if that is allowed: changing it would drop packets.
        let left = ports.iter().filter(|port| self.pin_of(port).exists()).find_map(|port| port.program);
        let left = left.map(|(_, mode)| mode);
        if left.is_some_and(|mode| !modes.contains(&mode)) {
            self.detach();
        }
        let wanted = left.into_iter().filter(|mode| modes.contains(mode)).chain(modes.iter().copied());
        let mut failure = None;
        for mode in wanted {
            match self.attach_all(ports, mode) {
                Ok(()) => {
                    self.mode = Some(mode);
                    self.detach_others(ports);
                    return Ok((mode, failure));
                }
                Err(error) => failure = Some(error),
            }
            self.detach();
        }
        Err(failure.unwrap_or_else(|| io::Error::other("no mode was asked for")))
    }

    /// How the program is attached.
    pub fn mode(&self) -> Option<Mode> {
        self.mode
    }

    /// The interfaces that it is attached to.
    pub fn ports(&self) -> impl Iterator<Item = &Interface> {
        self.links.iter().map(|(interface, _)| interface)
    }

    /// The end of the ring that the daemon reads.
    ///
    /// # Errors
    /// If there is no descriptor to be had.
    pub fn upcalls(&self) -> io::Result<Upcalls> {
        Ok(Upcalls::new(handle(&self.object, "upcalls")?))
    }

    /// Detaches the program from all ports, an earlier process's too, which would answer from other memory: what
    /// arrives goes the kernel's own way again.
    pub fn detach(&mut self) {
        self.mode = None;
        self.links.clear();
        self.detach_others(&[]);
    }

    /// Detaches the program and leaves nothing behind.
    pub fn remove(mut self) {
        self.detach();
        remove_all(&self.pins);
    }

    fn attach_all(&mut self, ports: &[Interface], mode: Mode) -> io::Result<()> {
        self.fill_redirects(ports, mode)?;
        let program = self.object.progs().find(|program| program.name() == "wayside").expect("the object has it");
        for port in ports {
            let pin = self.pin_of(port);
            let link = match Link::reopen(&pin, port.index) {
                Some(link) => link.update(program.as_fd()).map(|()| link),
                None => Link::attach(program.as_fd(), port.index, mode, &pin),
            }
            .map_err(|error| refused(port, mode, &error))?;
            self.links.push((port.clone(), link));
        }
        Ok(())
    }

    /// From every port but these.
    fn detach_others(&self, ports: &[Interface]) {
        for entry in fs::read_dir(self.pins.join("links")).into_iter().flatten().flatten() {
            if !ports.iter().any(|port| self.pin_of(port) == entry.path()) {
                link::detach_pinned(&entry.path());
            }
        }
    }

    /// By number: a name may have a dot in it, which bpffs refuses.
    fn pin_of(&self, port: &Interface) -> PathBuf {
        self.pins.join("links").join(port.index.to_string())
    }

    fn fill_ports(&self, ports: &[Interface]) -> io::Result<()> {
        for (index, port) in (0u32..).zip(ports) {
            let mut entry = port.index.to_ne_bytes().to_vec();
            entry.extend(port.address);
            entry.extend([0; 2]);
            set(&self.object, "ports", index, &entry)?;
            set(&self.object, "indexes", port.index, &index.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Where frames may leave by another port, and two at a time.
    fn fill_redirects(&self, ports: &[Interface], mode: Mode) -> io::Result<()> {
        let leaving = self.object.progs().find(|program| program.name() == "wayside_out").expect("the object has it");
        // `struct bpf_devmap_val`.
        let entry = |port: &Interface| {
            let mut entry = port.index.to_ne_bytes().to_vec();
            entry.extend(leaving.as_fd().as_raw_fd().to_ne_bytes());
            entry
        };
        for (index, port) in (0u32..).zip(ports) {
            set(&self.object, "out", index, &entry(port))?;
            for (second, other) in (0u32..).zip(ports) {
                let key = index * MAX_PORTS as u32 + second;
                let pairs = handle(&self.object, "pairs")?;
                if mode == Mode::Generic {
                    // May be empty already.
                    let _ = pairs.delete(&key.to_ne_bytes());
                    continue;
                }
                let pair = new_pair()?;
                // Ports send in the reverse order of this (the kernel keeps a stack of them): the GRANT, which somebody
                // waits for, leaves first.
                for (at, of) in [(0u32, other), (1, port)] {
                    pair.update(&at.to_ne_bytes(), &entry(of), MapFlags::ANY).map_err(io::Error::other)?;
                }
                set(&self.object, "pairs", key, &pair.as_fd().as_raw_fd().to_ne_bytes())?;
            }
        }
        Ok(())
    }
}

/// Returns once every run of a program that has begun on any processor has ended: what it has read before is of no use
/// to it any more. Runs are RCU's readers, and this waits for all of them, as the kernel's own tests of BPF do.
///
/// # Errors
/// Where some processors have no ticks (`nohz_full`) the kernel does not wait for them.
pub fn await_decisions() -> io::Result<()> {
    /// `MEMBARRIER_CMD_GLOBAL`.
    const GLOBAL: libc::c_int = 1;
    // SAFETY: no pointers.
    let done = unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What a process has left at the hook for its address, or has there now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// The interfaces and programs that are attached, by their numbers. Those whose interface is gone are left out.
    pub attached: Vec<(u32, u32)>,
    /// How many slots its memory has, if there is memory.
    pub slots: Option<u32>,
}

/// What is pinned for this address, of whichever layout, or None.
///
/// # Errors
/// Without the right to look.
pub fn left(directory: &Path, listen: SocketAddrV4) -> io::Result<Option<Left>> {
    let layouts = match layouts_of(directory, listen) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut left = Left::default();
    for pins in &layouts {
        for entry in fs::read_dir(pins.join("links")).into_iter().flatten() {
            left.attached.extend(link::attachment(&entry?.path())?);
        }
        let slots = pins.join("slots");
        if slots.exists() {
            let map = MapHandle::from_pinned_path(slots).map_err(io::Error::other)?;
            left.slots = Some(left.slots.unwrap_or(0) + map.max_entries());
        }
    }
    left.attached.sort_unstable();
    Ok((!layouts.is_empty()).then_some(left))
}

/// Detaches and removes what an earlier process has left for this address, of whichever layout.
pub fn remove_left(directory: &Path, listen: SocketAddrV4) {
    layouts_of(directory, listen).unwrap_or_default().iter().for_each(|pins| remove_layout(pins));
}

fn remove_layout(pins: &Path) {
    for entry in fs::read_dir(pins.join("links")).into_iter().flatten().flatten() {
        link::detach_pinned(&entry.path());
    }
    remove_all(pins);
}

/// Where processes of this address have their pins, one directory for each layout.
fn layouts_of(directory: &Path, listen: SocketAddrV4) -> io::Result<Vec<PathBuf>> {
    let address = pins_of(directory, listen).parent().expect("it is joined of two").to_owned();
    fs::read_dir(address)?.map(|entry| entry.map(|entry| entry.path())).collect()
}

/// bpffs keeps dots in names for itself.
fn pins_of(directory: &Path, listen: SocketAddrV4) -> PathBuf {
    let [a, b, c, d] = listen.ip().octets();
    directory.join(format!("{a}-{b}-{c}-{d}_{}_{}", listen.port(), network_namespace())).join(LAYOUT)
}

/// The number of the calling thread's network namespace: containers may share bpffs, and have the same addresses.
fn network_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    // Without /proc all of them count as one.
    fs::metadata("/proc/thread-self/ns/net").map_or(0, |namespace| namespace.ino())
}

/// The table that a map of this name holds. Those that are variables of the program are sections of its object, whose
/// names begin so; no pin's may have a dot.
fn table_of(map: &str) -> &str {
    map.strip_prefix(".bss.").unwrap_or(map)
}

/// The object, with sizes, settings and the pinned maps that are to be used again.
fn load(options: &Options, pins: &Path) -> io::Result<Object> {
    let mut object = ObjectBuilder::default().open_memory(PROGRAM).map_err(io::Error::other)?;
    // Tells the kernel what the values of `pairs` are like; to be open until it has been loaded.
    let pair = new_pair()?;
    let listen = options.listen;
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let table = table_of(&name);
        let done = match table {
            "slots" => map.set_max_entries(options.config.slots),
            "buckets" => map.set_max_entries(options.store.buckets()),
            "items" => map.set_max_entries(options.store.items()),
            "lanes" => map.set_max_entries(options.store.lanes()),
            "queues" => map.set_max_entries(options.queues.entries()),
            "cells" => map.set_max_entries(options.queues.cells()),
            "names" => map.set_max_entries(options.queues.buckets()),
            "counters" => map.set_max_entries(lanes()),
            "pairs" => map.set_inner_map_fd(pair.as_fd()),
            _ if name.ends_with(".rodata") => {
                let settings = map.initial_value_mut().expect("it has one");
                settings[..4].copy_from_slice(&u32::from(*listen.ip()).to_ne_bytes());
                settings[4..6].copy_from_slice(&listen.port().to_ne_bytes());
                Ok(())
            }
            _ => Ok(()),
        };
        done.map_err(io::Error::other)?;
        if PINNED.contains(&table) {
            map.set_pin_path(pins.join(table)).map_err(io::Error::other)?;
        }
    }
    object.load().map_err(io::Error::other)
}

/// Whether an earlier process has left memory of this size. Half of it, after a crash in between, is none.
fn reusable(pins: &Path, options: &Options) -> bool {
    let entries = |name: &str| {
        let map = MapHandle::from_pinned_path(pins.join(name)).ok()?;
        Some(map.max_entries())
    };
    PINNED.iter().all(|name| entries(name).is_some())
        && entries("slots") == Some(options.config.slots)
        && entries("items") == Some(options.store.items())
        && entries("queues") == Some(options.queues.entries())
        && entries("cells") == Some(options.queues.cells())
        && entries("counters") == Some(lanes())
}

/// Lanes of counters: threads', then one for every CPU that there may be.
fn lanes() -> u32 {
    let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1) as u32;
    counters::THREAD_LANES as u32 + cpus
}

/// The memory of a loaded program, as this process sees it.
fn map_switch(object: &Object, options: &Options) -> io::Result<Switch> {
    let (config, store, queues) = (options.config, options.store, options.queues);
    let counters = handle(object, "counters")?;
    let memory = Memory::over(
        map(object, "slots", config.slots as usize)?,
        map(object, "regions", REGIONS)?,
        map(object, "nodes", NODES)?,
        map(object, "keys", NODES)?,
        map(object, "globals", 1)?,
        map(object, "ways", NODES)?,
        config.max_handle,
    )
    .with_ticks(ticks(object)?);
    let store = Store::over(
        store,
        map(object, "groups", GROUPS)?,
        map(object, "buckets", store.buckets() as usize)?,
        map(object, "items", store.items() as usize)?,
        map(object, "lanes", store.lanes() as usize)?,
        map(object, "journal", RECORDS)?,
        map(object, "store", 1)?,
    );
    let queues = Queues::over(
        queues,
        map(object, "queues", queues.entries() as usize)?,
        map(object, "cells", queues.cells() as usize)?,
        map(object, "names", queues.buckets() as usize)?,
        map(object, "servers", REGIONS)?,
        map(object, "directory", 1)?,
    );
    let counters = Counters::map(counters.as_fd(), lanes() as usize)?;
    Ok(Switch::of(memory, store, queues, counters, map(object, "traces", 1)?))
}

/// The clock that the program goes by.
fn ticks(object: &Object) -> io::Result<Ticks> {
    let program = object.progs().find(|program| program.name() == "tick").expect("the object has it");
    Ticks::new(program.as_fd())
}

fn map<T: Zeroable>(object: &Object, name: &str, count: usize) -> io::Result<Zeroed<T>> {
    let map = handle(object, name)?;
    let bytes = map.value_size() as usize * map.max_entries() as usize;
    assert_eq!(bytes, count * size_of::<T>(), "dataplane/memory.h and layout.rs differ in {name}");
    Zeroed::map(map.as_fd(), count)
}

fn handle(object: &Object, name: &str) -> io::Result<MapHandle> {
    let is_it = |map: &libbpf_rs::Map<'_>| map.name().to_str().is_some_and(|full| table_of(full) == name);
    let map = object.maps().find(is_it).expect("the object has it");
    MapHandle::try_from(&map).map_err(io::Error::other)
}

fn set(object: &Object, name: &str, key: u32, value: &[u8]) -> io::Result<()> {
    let map = object.maps().find(|map| map.name() == name).expect("the object has it");
    map.update(&key.to_ne_bytes(), value, MapFlags::ANY).map_err(io::Error::other)
}

fn new_pair() -> io::Result<MapHandle> {
    let options = sys::bpf_map_create_opts { sz: size_of::<sys::bpf_map_create_opts>() as _, ..Default::default() };
    MapHandle::create(MapType::Devmap, Some("pair"), 4, 8, 2, &options).map_err(io::Error::other)
}

/// Why an interface does not take the program, with what can be done.
fn refused(port: &Interface, mode: Mode, error: &io::Error) -> io::Error {
    let why = match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => match interfaces::list()
            .ok()
            .and_then(|all| all.into_iter().find(|interface| interface.index == port.index)?.program)
        {
            Some((program, _)) => format!("another XDP program (number {program}) has the hook"),
            None => "another XDP program has the hook".into(),
        },
        Some(libc::EOPNOTSUPP) => "its driver has no XDP".into(),
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), format!("{} XDP on {}: {why}", mode, port.name))
}

/// Makes sure that `directory` lies in bpffs: where it does not, one is mounted on it.
fn mount_bpffs(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory).or_else(|_| {
        // /sys/fs/bpf itself is an empty directory of sysfs until bpffs is mounted on it.
        let parent = directory.parent().unwrap_or(directory);
        if is_bpffs(parent) {
            Err(io::Error::other("can't be made"))
        } else {
            mount(parent)?;
            fs::create_dir_all(directory)
        }
    })?;
    if is_bpffs(directory) { Ok(()) } else { mount(directory) }
}

fn is_bpffs(directory: &Path) -> bool {
    const BPF_FS_MAGIC: i64 = 0xcafe_4a11;
    let Ok(path) = std::ffi::CString::new(directory.as_os_str().as_encoded_bytes()) else { return false };
    // SAFETY: zeros are a value of the structure, which outlives the call, as the path does.
    unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        libc::statfs(path.as_ptr(), &raw mut found) == 0 && found.f_type as i64 == BPF_FS_MAGIC
    }
}

fn mount(directory: &Path) -> io::Result<()> {
    let path = std::ffi::CString::new(directory.as_os_str().as_encoded_bytes()).map_err(io::Error::other)?;
    // SAFETY: three strings that outlive the call, and no data.
    let done = unsafe { libc::mount(c"bpf".as_ptr(), path.as_ptr(), c"bpf".as_ptr(), 0, std::ptr::null()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn remove_file(path: &Path) {
    // It may not be there, and where it can't be removed the next use says why.
    let _ = fs::remove_file(path);
}

/// Removes the pins of one switch, and its directories.
fn remove_all(pins: &Path) {
    PINNED.iter().for_each(|name| remove_file(&pins.join(name)));
    for directory in [Some(pins.join("links").as_path()), Some(pins), pins.parent()].into_iter().flatten() {
        let _ = fs::remove_dir(directory);
    }
}
