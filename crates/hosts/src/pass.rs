//! Programs at the other end of veth.

use crate::Host;
use libbpf_rs::{Link, Object, ObjectBuilder, OpenMapMut};
use std::ffi::CString;
use std::io;

const PASS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pass.bpf.o"));

/// An XDP program on an interface, for as long as this is kept.
pub struct Program {
    _link: Link,
    _object: Object,
}

impl Host {
    /// Attaches a program that passes everything: what a native program at the other end of this veth sends back would
    /// be dropped by the kernel otherwise.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn pass(&self, interface: &str) -> io::Result<Program> {
        self.attach(PASS, interface)
    }

    /// Attaches the one XDP program of a compiled object.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn attach(&self, object: &[u8], interface: &str) -> io::Result<Program> {
        self.attach_with(object, &[], interface)
    }

    /// Attaches the one XDP program of a compiled object, whose constants are these bytes; none: as compiled.
    ///
    /// # Errors
    /// If there are other constants in it, and what the kernel says.
    pub fn attach_with(&self, object: &[u8], constants: &[u8], interface: &str) -> io::Result<Program> {
        let name = CString::new(interface).map_err(io::Error::other)?;
        self.within(|| {
            // SAFETY: a terminated string that outlives the call.
            let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
            let mut open = ObjectBuilder::default().open_memory(object).map_err(io::Error::other)?;
            if !constants.is_empty() {
                let is_its = |map: &OpenMapMut<'_>| map.name().to_string_lossy().ends_with(".rodata");
                let mut map = open.maps_mut().find(is_its).ok_or_else(|| io::Error::other("it has no constants"))?;
                map.set_initial_value(constants).map_err(io::Error::other)?;
            }
            let object = open.load().map_err(io::Error::other)?;
            let program = object.progs_mut().next().ok_or_else(|| io::Error::other("no program in the object"))?;
            let link = program.attach_xdp(index as i32).map_err(io::Error::other)?;
            Ok(Program { _link: link, _object: object })
        })
    }
}
