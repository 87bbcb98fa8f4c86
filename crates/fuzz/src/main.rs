//! libFuzzer's way to the targets: one program for all of them, `WAYSIDE_FUZZ` says which one it is.

#![no_main]

use std::ffi::c_int;
use std::sync::OnceLock;
use wayside_fuzz::Target;

static TARGET: OnceLock<Target> = OnceLock::new();

/// One input.
///
/// # Safety
/// There are `size` bytes at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn LLVMFuzzerTestOneInput(data: *const u8, size: usize) -> c_int {
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("WAYSIDE_FUZZ").unwrap_or_default();
        wayside_fuzz::target(&name).unwrap_or_else(|| panic!("WAYSIDE_FUZZ={name:?} is no target"))
    });
    // SAFETY: libFuzzer gives that many bytes; of none it may give no address.
    let input = if size == 0 { &[] } else { unsafe { std::slice::from_raw_parts(data, size) } };
    target(input);
    0
}
