//! Mappings that were given back, for tables of their size to come: to map and unmap a switch's takes 45 us, to empty
//! them a third of that.

use std::cell::RefCell;
use std::ptr::NonNull;

/// Some more than a switch has.
const MOST: usize = 16;

thread_local! {
    static SPARE: RefCell<Spare> = const { RefCell::new(Spare(Vec::new())) };
}

/// Bytes of each, and where it begins.
struct Spare(Vec<(usize, NonNull<u8>)>);

impl Drop for Spare {
    fn drop(&mut self) {
        for (bytes, start) in self.0.drain(..) {
            // SAFETY: a mapping of this length, which nobody uses.
            unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
        }
    }
}

/// One of so many zeros.
pub(crate) fn take(bytes: usize) -> Option<NonNull<u8>> {
    SPARE.with_borrow_mut(|Spare(spare)| {
        let found = spare.iter().rposition(|(size, _)| *size == bytes)?;
        Some(spare.swap_remove(found).1)
    })
}

/// Keeps one that nobody uses any more. False: it is still the caller's.
///
/// # Safety
/// A private mapping of nothing, of this length.
pub(crate) unsafe fn keep(start: NonNull<u8>, bytes: usize) -> bool {
    SPARE.with_borrow_mut(|Spare(spare)| {
        // SAFETY: the caller has it for himself. What is dropped so is zeros when it is next touched.
        let keeps =
            spare.len() < MOST && unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_DONTNEED) } == 0;
        if keeps {
            spare.push((bytes, start));
        }
        keeps
    })
}
