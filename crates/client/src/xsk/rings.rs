//! An AF_XDP socket: memory that it shares with the kernel, in frames, and four rings in which frames change hands.
//!
//! ```text
//!   fill        we -> kernel   empty frames, to receive into      128, all of them given at the start
//!   receive     kernel -> we   frames with a packet
//!   transmit    we -> kernel   frames to send
//!   completion  kernel -> we   frames that have been sent         128, all of them ours at the start
//! ```
//!
//! Invariants
//! * A frame has one owner: it is in one ring, or in `spare`, or in the hands of the one who holds the lock.
//! * `incoming` and `outgoing` are the only producer and the only consumer of their rings, behind a lock each: any
//!   number of threads may send and receive.

use super::frame::{ENVELOPE, Envelope};
use parking_lot::Mutex;
use std::io;
use std::marker::PhantomData;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Room for a full packet (1,056 bytes) with its envelope and the 256 bytes that XDP keeps in front; half a page, as
/// the kernel wants it.
const FRAME: usize = 2_048;
/// Frames to receive into, and as many to send from: more answers than a thread ever waits for at a time. A power of
/// two, as rings are.
const FRAMES: u32 = 128;
const MEMORY: usize = 2 * FRAMES as usize * FRAME;

/// One socket, bound to a queue of an interface.
pub(super) struct Xsk {
    descriptor: OwnedFd,
    pub(super) zero_copy: bool,
    /// The receive ring's indices, to be looked at without the lock.
    arrivals: Indices,
    pub(super) incoming: Mutex<Incoming>,
    pub(super) outgoing: Mutex<Outgoing>,
}

pub(super) struct Incoming {
    descriptor: RawFd,
    zero_copy: bool,
    memory: Arc<Mapping>,
    receive: Ring<libc::xdp_desc>,
    fill: Ring<u64>,
    pub(super) count: u64,
}

pub(super) struct Outgoing {
    memory: Arc<Mapping>,
    transmit: Ring<libc::xdp_desc>,
    completion: Ring<u64>,
    spare: Vec<u64>,
    pub(super) count: u64,
    /// Since the kernel was told last.
    pub(super) pushed: u32,
    /// None: the next hop is not known.
    pub(super) envelope: Option<Envelope>,
    /// Of the way that the envelope is for; 0: none yet.
    pub(super) way: u32,
}

impl Xsk {
    /// A socket bound to a queue: with zero copy where the driver has it, unless `copy` forbids that.
    pub(super) fn bind(interface: u32, queue: u32, copy: bool) -> io::Result<Xsk> {
        // SAFETY: no pointers; the descriptor that comes back is owned by nobody else.
        let descriptor = unsafe {
            let descriptor = libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(descriptor)
        };
        let fd = descriptor.as_raw_fd();
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        let memory = Arc::new(Mapping::new(MEMORY, private, -1, 0)?);
        // SAFETY: integers alone.
        let mut umem: libc::xdp_umem_reg = unsafe { zeroed() };
        umem.addr = memory.start as u64;
        umem.len = MEMORY as u64;
        umem.chunk_size = FRAME as u32;
        set(fd, libc::XDP_UMEM_REG, &umem)?;
        for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING] {
            set(fd, ring, &FRAMES)?;
        }
        // SAFETY: integers alone.
        let mut offsets: libc::xdp_mmap_offsets = unsafe { zeroed() };
        get(fd, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
        let receive = Ring::new(fd, &offsets.rx, libc::XDP_PGOFF_RX_RING)?;
        let transmit = Ring::new(fd, &offsets.tx, libc::XDP_PGOFF_TX_RING)?;
        let mut fill = Ring::new(fd, &offsets.fr, libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t)?;
        let completion = Ring::new(fd, &offsets.cr, libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t)?;
        let address = |frame: u32| u64::from(frame) * FRAME as u64;
        for frame in 0..FRAMES {
            fill.push(address(frame));
        }
        let spare = (FRAMES..2 * FRAMES).map(address).collect();

        let to = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_USE_NEED_WAKEUP | if copy { libc::XDP_COPY } else { 0 },
            sxdp_ifindex: interface,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        // SAFETY: an address of that length, which outlives the call.
        checked(unsafe { libc::bind(fd, (&raw const to).cast(), size_of::<libc::sockaddr_xdp>() as u32) })?;
        let mut options = libc::xdp_options { flags: 0 };
        get(fd, libc::XDP_OPTIONS, &mut options)?;
        let zero_copy = options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0;
        Ok(Xsk {
            zero_copy,
            arrivals: receive.indices,
            incoming: Mutex::new(Incoming {
                descriptor: fd,
                zero_copy,
                memory: memory.clone(),
                receive,
                fill,
                count: 0,
            }),
            outgoing: Mutex::new(Outgoing {
                memory,
                transmit,
                completion,
                spare,
                count: 0,
                pushed: 0,
                envelope: None,
                way: 0,
            }),
            descriptor,
        })
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Whether a frame has arrived that nobody has taken yet. A look at memory: a few nanoseconds.
    pub(super) fn has_arrivals(&self) -> bool {
        self.arrivals.filled() > 0
    }

    /// Has the kernel look at what was pushed, if it wants to be told: in copy mode it always does, and sends here and
    /// now. What it has no room for stays in the ring, for the next time.
    pub(super) fn kick(&self, outgoing: &mut Outgoing) -> io::Result<()> {
        outgoing.pushed = 0;
        if self.zero_copy && !outgoing.transmit.needs_wakeup() {
            return Ok(());
        }
        let no_address = (null_mut::<u8>(), 0usize);
        // SAFETY: no buffer is involved. By `syscall`, as in `socket.rs`.
        let sent = unsafe {
            let (fd, flags) = (self.descriptor(), libc::MSG_DONTWAIT);
            libc::syscall(libc::SYS_sendto, fd, no_address.0, 0usize, flags, no_address.0, no_address.1)
        };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => Ok(()),
            _ => Err(error),
        }
    }
}

impl Incoming {
    /// Has `read` look at the next frame, and gives the frame back to the kernel. None: there is none.
    pub(super) fn next<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let arrived = self.receive.pop()?;
        let (start, length) = (arrived.addr as usize, arrived.len as usize);
        let frame = if start.checked_add(length).is_some_and(|end| end <= MEMORY) {
            // SAFETY: within the mapping; the kernel has handed the frame over and gets it back below.
            unsafe { std::slice::from_raw_parts(self.memory.start.add(start), length) }
        } else {
            &[]
        };
        let result = read(frame);
        self.count += 1;
        self.fill.push(arrived.addr & !(FRAME as u64 - 1));
        if self.zero_copy && self.fill.needs_wakeup() {
            // SAFETY: no buffer is involved. A driver that waits for empty frames looks for them now.
            unsafe { libc::recvfrom(self.descriptor, null_mut(), 0, libc::MSG_DONTWAIT, null_mut(), null_mut()) };
        }
        Some(result)
    }
}

impl Outgoing {
    /// Puts a packet in its envelope among those to be sent. False: no envelope, or no frame is spare.
    #[inline]
    pub(super) fn push(&mut self, packet: &[u8]) -> bool {
        let Some(envelope) = self.envelope.as_ref() else { return false };
        while let Some(sent) = self.completion.pop() {
            self.spare.push(sent & !(FRAME as u64 - 1));
        }
        let Some(&address) = self.spare.last() else { return false };
        // SAFETY: a spare frame is ours, and within the mapping.
        let frame = unsafe { std::slice::from_raw_parts_mut(self.memory.start.add(address as usize), FRAME) };
        let Some(length) = envelope.write(frame, packet) else { return false };
        debug_assert!(length >= ENVELOPE);
        self.spare.pop();
        self.transmit.push(libc::xdp_desc { addr: address, len: length as u32, options: 0 });
        self.count += 1;
        self.pushed += 1;
        true
    }
}

/// Memory mapped from the kernel.
struct Mapping {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: plain memory, not bound to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; it is only touched through the types of this file, which say who may.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(bytes: usize, flags: libc::c_int, fd: RawFd, offset: libc::off_t) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at a place of the kernel's choice.
        let start = unsafe { libc::mmap(null_mut(), bytes, protection, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { start: start.cast(), bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped with this length in `new`, and nothing borrowed from it is left.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// How far the producer and the consumer of a ring are. Valid as long as the ring's mapping is.
#[derive(Clone, Copy)]
struct Indices {
    producer: *const AtomicU32,
    consumer: *const AtomicU32,
}

// SAFETY: atomics, not bound to a thread.
unsafe impl Send for Indices {}
// SAFETY: as above.
unsafe impl Sync for Indices {}

impl Indices {
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: aligned, and mapped as long as the ring's owner lives.
        unsafe { &*self.producer }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { &*self.consumer }
    }

    fn filled(&self) -> u32 {
        self.producer().load(Ordering::Acquire).wrapping_sub(self.consumer().load(Ordering::Relaxed))
    }
}

/// A ring of [`FRAMES`] elements, of which this process is the producer or the consumer.
struct Ring<T> {
    indices: Indices,
    flags: *const AtomicU32,
    elements: *mut T,
    /// What the pointers lead into.
    _mapping: Mapping,
    _elements: PhantomData<T>,
}

// SAFETY: pointers into a mapping of its own.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    fn new(fd: RawFd, offset: &libc::xdp_ring_offset, page: libc::off_t) -> io::Result<Ring<T>> {
        let bytes = offset.desc as usize + FRAMES as usize * size_of::<T>();
        let mapping = Mapping::new(bytes, libc::MAP_SHARED | libc::MAP_POPULATE, fd, page)?;
        // SAFETY: the kernel's own offsets into the ring that it maps.
        let at = |offset: u64| unsafe { mapping.start.add(offset as usize) };
        let indices = Indices { producer: at(offset.producer).cast(), consumer: at(offset.consumer).cast() };
        let (flags, elements) = (at(offset.flags).cast_const().cast(), at(offset.desc).cast());
        Ok(Ring { indices, flags, elements, _mapping: mapping, _elements: PhantomData })
    }

    /// As the producer. There is always room: the ring is as long as there are frames for it, and this one is not in
    /// it. (The consumer's index would not say so: the kernel raises it later than it hands a frame back by the other
    /// ring.)
    fn push(&mut self, element: T) {
        let index = self.indices.producer().load(Ordering::Relaxed);
        // SAFETY: within the ring. The kernel has read what stood there, or the frame would not be ours; it reads this
        // one when the index says so.
        unsafe { self.elements.add((index % FRAMES) as usize).write(element) };
        self.indices.producer().store(index.wrapping_add(1), Ordering::Release);
    }

    /// As the consumer.
    fn pop(&mut self) -> Option<T> {
        let index = self.indices.consumer().load(Ordering::Relaxed);
        if self.indices.producer().load(Ordering::Acquire) == index {
            return None;
        }
        // SAFETY: within the ring, and written before the index rose.
        let element = unsafe { self.elements.add((index % FRAMES) as usize).read() };
        self.indices.consumer().store(index.wrapping_add(1), Ordering::Release);
        Some(element)
    }

    /// Whether the kernel wants to be told of what was pushed. Asked with zero copy alone: a copying kernel always
    /// wants to be told of packets and never of empty frames, and the fence costs 10 ns.
    fn needs_wakeup(&self) -> bool {
        // The driver sets the flag, then looks at the ring once more; we must not look in the other order.
        fence(Ordering::SeqCst);
        // SAFETY: aligned, and mapped as long as the ring lives.
        unsafe { &*self.flags }.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set<T>(fd: RawFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: as many bytes as it is told.
    checked(unsafe { libc::setsockopt(fd, libc::SOL_XDP, option, (value as *const T).cast(), size_of::<T>() as u32) })
}

fn get<T>(fd: RawFd, option: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: as many writable bytes as it is told, of integers alone.
    checked(unsafe { libc::getsockopt(fd, libc::SOL_XDP, option, (value as *mut T).cast(), &mut length) })
}
