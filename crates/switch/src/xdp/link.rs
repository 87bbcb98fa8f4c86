//! A program's attachment to an interface: pinned, so that it outlives the process that made it, until it is detached.

use super::interfaces::Mode;
use libbpf_rs::libbpf_sys as sys;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const DRIVER: u32 = 1 << 2; // XDP_FLAGS_DRV_MODE
const STACK: u32 = 1 << 1; // XDP_FLAGS_SKB_MODE

/// An attachment, and where it is pinned.
pub(super) struct Link {
    descriptor: OwnedFd,
    pin: PathBuf,
}

impl Link {
    /// Attaches a program. EBUSY: another one has the hook.
    pub(super) fn attach(program: BorrowedFd<'_>, interface: u32, mode: Mode, pin: &Path) -> io::Result<Link> {
        let flags = match mode {
            Mode::Native => DRIVER,
            Mode::Generic => STACK,
        };
        let options =
            sys::bpf_link_create_opts { sz: size_of::<sys::bpf_link_create_opts>() as _, flags, ..Default::default() };
        // SAFETY: descriptor and options are valid for the call, which makes a new descriptor or fails.
        let descriptor = unsafe {
            let made = sys::bpf_link_create(program.as_raw_fd(), interface as i32, sys::BPF_XDP, &options);
            OwnedFd::from_raw_fd(checked(made)?)
        };
        let path = c_path(pin)?;
        // SAFETY: a descriptor and a path that live through the call.
        checked(unsafe { sys::bpf_obj_pin(descriptor.as_raw_fd(), path.as_ptr()) })?;
        Ok(Link { descriptor, pin: pin.into() })
    }

    /// The attachment that an earlier process has pinned, if its interface is still this one.
    pub(super) fn reopen(pin: &Path, interface: u32) -> Option<Link> {
        let descriptor = open(pin).ok()?;
        let known = look(&descriptor).is_ok_and(|(attached_to, _)| attached_to == interface);
        let link = Link { descriptor, pin: pin.into() };
        if known {
            return Some(link);
        }
        // Its interface is gone, and with it the attachment; another one may have its name now.
        let _ = link.detach();
        None
    }

    /// Puts another program in the place of the one that runs: no packet finds none.
    pub(super) fn update(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: two open descriptors, and no options.
        let done = unsafe { sys::bpf_link_update(self.descriptor.as_raw_fd(), program.as_raw_fd(), std::ptr::null()) };
        checked(done).map(drop)
    }

    /// Detaches the program and removes the pin.
    pub(super) fn detach(self) -> io::Result<()> {
        // SAFETY: an open descriptor. It fails where the interface is gone, and nothing is attached any more.
        let _ = unsafe { sys::bpf_link_detach(self.descriptor.as_raw_fd()) };
        std::fs::remove_file(&self.pin)
    }
}

/// Detaches what is pinned there, at once: without its pin alone it would be attached until the kernel gets to it, or
/// for as long as a process that is just starting has it open.
pub(super) fn detach_pinned(pin: &Path) {
    match open(pin) {
        Ok(descriptor) => drop(Link { descriptor, pin: pin.into() }.detach()),
        // No link: whatever it is, it goes.
        Err(_) => drop(std::fs::remove_file(pin)),
    }
}

/// The interface and the program of a pinned attachment, by their numbers; None if the interface is gone.
pub(super) fn attachment(pin: &Path) -> io::Result<Option<(u32, u32)>> {
    let (interface, program) = look(&open(pin)?)?;
    Ok((interface != 0).then_some((interface, program)))
}

fn open(pin: &Path) -> io::Result<OwnedFd> {
    let path = c_path(pin)?;
    // SAFETY: a path that lives through the call; the descriptor is new.
    unsafe { Ok(OwnedFd::from_raw_fd(checked(sys::bpf_obj_get(path.as_ptr()))?)) }
}

/// Number of the interface, 0 if it is gone, and of the program.
fn look(link: &OwnedFd) -> io::Result<(u32, u32)> {
    let mut info = sys::bpf_link_info::default();
    let mut length = size_of_val(&info) as u32;
    // SAFETY: `info` has the length that is told; only links of XDP are pinned here, so it is that part which is
    // filled.
    unsafe {
        checked(sys::bpf_obj_get_info_by_fd(link.as_raw_fd(), (&raw mut info).cast(), &raw mut length))?;
        Ok((info.__bindgen_anon_1.xdp.ifindex, info.prog_id))
    }
}

/// libbpf answers with a descriptor or 0, or a negative error number.
fn checked(answer: i32) -> io::Result<i32> {
    if answer < 0 { Err(io::Error::from_raw_os_error(-answer)) } else { Ok(answer) }
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}
