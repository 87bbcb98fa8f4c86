//! Judges that know who was told what, and when, and nothing of how it came about: for the simulator's worlds, as they
//! run, and for histories of real processes, afterwards.

pub mod locks;

use std::fmt;

/// One process of a host: what crashes and is started again is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its host.
    pub host: usize,
    /// Processes that the host had before.
    pub generation: u32,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h{}.{}", self.host, self.generation)
    }
}
