//! The kernel's count of ticks (jiffies), which the core at the hook reads as its clock: every other clock is a call of
//! 20 to 38 ns there.

/// Without a hook nobody has one.
#[cfg(not(feature = "xdp"))]
pub(crate) enum Ticks {}

#[cfg(not(feature = "xdp"))]
impl Ticks {
    pub(crate) fn now(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn within(&self, _us: u64) -> u64 {
        match *self {}
    }

    pub(crate) fn hertz(&self) -> u64 {
        match *self {}
    }
}

#[cfg(feature = "xdp")]
pub(crate) use at_the_hook::Ticks;

#[cfg(feature = "xdp")]
mod at_the_hook {
    use libbpf_rs::libbpf_sys as sys;
    use std::io;
    use std::os::fd::{AsFd, AsRawFd, OwnedFd};

    /// Read by running the program that does nothing else.
    pub(crate) struct Ticks {
        program: OwnedFd,
        hertz: u64,
    }

    impl Ticks {
        /// `program`: the object's `tick`.
        pub(crate) fn new(program: impl AsFd) -> io::Result<Ticks> {
            let mut tick = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: `tick` outlives the call. A coarse clock's resolution is one tick.
            let known = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut tick) } == 0;
            if !known || tick.tv_nsec <= 0 {
                return Err(io::Error::other("the kernel does not say how long its ticks are"));
            }
            let hertz = 1_000_000_000 / tick.tv_nsec.unsigned_abs();
            let ticks = Ticks { program: program.as_fd().try_clone_to_owned()?, hertz };
            ticks.read()?;
            Ok(ticks)
        }

        /// Ticks since a while before the kernel started; 0 where the kernel will not say, which is long ago.
        pub(crate) fn now(&self) -> u64 {
            self.read().unwrap_or(0)
        }

        /// How many ticks are over within so many microseconds, at the least.
        pub(crate) fn within(&self, us: u64) -> u64 {
            us.saturating_mul(self.hertz) / 1_000_000
        }

        /// How many there are a second.
        pub(crate) fn hertz(&self) -> u64 {
            self.hertz
        }

        fn read(&self) -> io::Result<u64> {
            let mut now = 0u64;
            let mut options = sys::bpf_test_run_opts {
                sz: size_of::<sys::bpf_test_run_opts>() as _,
                ctx_in: (&raw mut now).cast(),
                ctx_size_in: size_of::<u64>() as u32,
                ..Default::default()
            };
            // SAFETY: an open program, and options whose one buffer outlives the call. The kernel writes the context
            // back.
            let ran = unsafe { sys::bpf_prog_test_run_opts(self.program.as_raw_fd(), &raw mut options) };
            if ran < 0 { Err(io::Error::from_raw_os_error(-ran)) } else { Ok(now) }
        }
    }
}
