//! Programs at the other end of veth.

use crate::Host;
use libbpf_rs::{Link, Object, ObjectBuilder};
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
        let name = CString::new(interface).map_err(io::Error::other)?;
        self.within(|| {
            // SAFETY: a terminated string that outlives the call.
            let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
            let object = ObjectBuilder::default().open_memory(object).and_then(|open| open.load());
            let object = object.map_err(io::Error::other)?;
            let program = object.progs_mut().next().ok_or_else(|| io::Error::other("no program in the object"))?;
            let link = program.attach_xdp(index as i32).map_err(io::Error::other)?;
            Ok(Program { _link: link, _object: object })
        })
    }
}
