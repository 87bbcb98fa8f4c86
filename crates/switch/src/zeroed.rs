//! Tables of atomics that start as zeros: allocated; or, if they are large, mapped, so that pages cost something only
//! when they are first touched; or a BPF map's memory, which the kernel's programs share.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use crate::layout::{
    Bucket, Cell, Directory, Globals, Group, Item, Keys, Lane, Node, Own, Queue, Record, Region, Servers, Slot, Traces,
};

/// Types made of atomics alone, for which all zeros is a value.
///
/// # Safety
/// All bytes zero must be a valid value, and the type must need no drop.
pub(crate) unsafe trait Zeroable {}
// SAFETY: they consist of atomic integers.
unsafe impl Zeroable for Slot {}
// SAFETY: as above.
unsafe impl Zeroable for Node {}
// SAFETY: as above.
unsafe impl Zeroable for Region {}
// SAFETY: as above.
unsafe impl Zeroable for Globals {}
// SAFETY: as above.
unsafe impl Zeroable for Keys {}
// SAFETY: as above.
unsafe impl Zeroable for Item {}
// SAFETY: as above.
unsafe impl Zeroable for Bucket {}
// SAFETY: as above.
unsafe impl Zeroable for Group {}
// SAFETY: as above.
unsafe impl Zeroable for Lane {}
// SAFETY: as above.
unsafe impl Zeroable for Own {}
// SAFETY: as above.
unsafe impl Zeroable for Record {}
// SAFETY: as above.
unsafe impl Zeroable for Cell {}
// SAFETY: as above.
unsafe impl Zeroable for Queue {}
// SAFETY: as above.
unsafe impl Zeroable for Servers {}
// SAFETY: as above.
unsafe impl Zeroable for Directory {}
// SAFETY: as above.
unsafe impl Zeroable for Traces {}
// SAFETY: an atomic integer.
unsafe impl Zeroable for AtomicU64 {}

/// Bytes of a cache line.
const LINE: usize = 64;
/// Tables from this size on are mapped. An allocator gives again what was given back, and writes all the zeros then:
/// 20 MB for each switch, of which a simulated one touches 300 kB.
const LARGE: usize = 64 << 10;

/// A table of fixed length. Begins on a cache line.
pub(crate) struct Zeroed<T: Zeroable> {
    start: NonNull<T>,
    count: usize,
    home: Home,
}

/// Whom the memory is to be given back to.
enum Home {
    Heap {
        block: NonNull<u8>,
        layout: Layout,
    },
    Mapping {
        bytes: usize,
    },
    /// The kernel's programs share it.
    #[cfg(feature = "xdp")]
    Map {
        bytes: usize,
    },
}

// SAFETY: it owns its memory, and its elements are atomics.
unsafe impl<T: Zeroable + Send> Send for Zeroed<T> {}
// SAFETY: as above.
unsafe impl<T: Zeroable + Sync> Sync for Zeroed<T> {}

impl<T: Zeroable> Zeroed<T> {
    /// # Panics
    /// If the table would be larger than the address space.
    pub(crate) fn new(count: usize) -> Self {
        // The line's alignment is not asked for but made: for what is aligned to more than its own words the allocator
        // would write the zeros itself.
        let bytes = count.max(1).checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(LINE));
        let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, align_of::<u64>()).ok());
        let layout = layout.expect("a table larger than the address space");
        if layout.size() >= LARGE {
            let bytes = layout.size();
            #[cfg(feature = "spare")]
            if let Some(start) = crate::spare::take(bytes) {
                return Self { start: start.cast(), count, home: Home::Mapping { bytes } };
            }
            let Ok(start) = map(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1) else { handle_alloc_error(layout) };
            return Self { start: start.cast(), count, home: Home::Mapping { bytes } };
        }
        // SAFETY: the layout is not empty.
        let block = unsafe { alloc_zeroed(layout) };
        let Some(block) = NonNull::new(block) else { handle_alloc_error(layout) };
        // SAFETY: less than a line further, and there is a line more than the table needs.
        let start = unsafe { block.add(block.align_offset(LINE)) }.cast();
        Self { start, count, home: Home::Heap { block, layout } }
    }

    /// The memory of a BPF map of `count` values of this type. What is in it stays.
    #[cfg(feature = "xdp")]
    pub(crate) fn map(map_of: std::os::fd::BorrowedFd<'_>, count: usize) -> io::Result<Self> {
        use std::os::fd::AsRawFd;
        let bytes = count * size_of::<T>();
        let start = map(bytes, libc::MAP_SHARED, map_of.as_raw_fd())?.cast();
        Ok(Self { start, count, home: Home::Map { bytes } })
    }

    fn unmap(&self, bytes: usize) {
        // SAFETY: mapped with this length by `map`; this is dropped.
        unsafe { libc::munmap(self.start.as_ptr().cast(), bytes) };
    }
}

/// New memory of so many bytes; `file`: what is in it, or -1.
fn map(bytes: usize, flags: libc::c_int, file: libc::c_int) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, whose length the kernel checks against the file's.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(start.cast()).expect("mmap does not choose address 0"))
}

impl<T: Zeroable> Deref for Zeroed<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `count` elements were allocated or mapped, every value of their integers is one, and they live as
        // long as self.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl<T: Zeroable> Drop for Zeroed<T> {
    fn drop(&mut self) {
        match self.home {
            // SAFETY: allocated with this layout in `new`; the elements need no drop.
            Home::Heap { block, layout } => unsafe { dealloc(block.as_ptr(), layout) },
            Home::Mapping { bytes } => {
                // SAFETY: mapped with this length in `new`, for nobody else; the elements need no drop.
                #[cfg(feature = "spare")]
                if unsafe { crate::spare::keep(self.start.cast(), bytes) } {
                    return;
                }
                self.unmap(bytes);
            }
            #[cfg(feature = "xdp")]
            Home::Map { bytes } => self.unmap(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn tables_of_every_size_begin_as_zeros_on_a_line() {
        let words = LARGE / size_of::<u64>();
        for count in [0, 1, words - LINE, words, 10 * words] {
            for _ in 0..3 {
                let table = Zeroed::<AtomicU64>::new(count);
                assert_eq!((table.len(), table.as_ptr().align_offset(LINE)), (count, 0));
                assert!(table.iter().all(|word| word.load(Relaxed) == 0), "of {count}");
                table.iter().for_each(|word| word.store(u64::MAX, Relaxed));
            }
        }
    }
}
