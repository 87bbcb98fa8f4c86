//! The guardian: a process that ends COMMAND when `wayside lock` can't, because it was killed, stopped or starved.
//!
//! COMMAND may run only while the lock is held. `wayside lock` sees to that as long as it runs; the guardian is forked
//! from it before anything else and knows one thing: until when COMMAND's process group may live. The deadline is
//! moved on through a pipe, whose end is the end of `wayside lock`.
//!
//! It is a fork without exec of a process that has one thread still; it allocates nothing and takes no locks.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// What the pipe carries: less than PIPE_BUF, so a record comes whole or not at all.
#[repr(C)]
#[derive(Clone, Copy)]
struct Orders {
    /// Process group to end; 0: none.
    group: libc::pid_t,
    /// When to end it at the latest: microseconds since boot, time asleep included.
    deadline: u64,
}

/// `wayside lock`'s end of the pipe.
pub struct Guardian {
    /// There until the end.
    pipe: Option<OwnedFd>,
    process: libc::pid_t,
}

impl Guardian {
    /// Forks the guardian. The process must have a single thread.
    pub fn start() -> io::Result<Guardian> {
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: pipe2 has just made them, nobody else has them.
        let (read, write) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
        // A guardian that is stopped reads nothing, and `wayside lock` is not to stand still, too.
        // SAFETY: a descriptor of our own.
        if unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: there is one thread, so the child finds no lock taken; it only makes system calls.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => guard(read.as_raw_fd()),
            process => Ok(Guardian { pipe: Some(write), process }),
        }
    }

    /// What COMMAND tells the guardian of itself before it begins.
    pub fn first_order(&self, deadline: Instant) -> FirstOrder {
        let pipe = self.pipe.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        FirstOrder { pipe, deadline: since_boot(deadline) }
    }

    /// `group` is COMMAND's and may live until `deadline`.
    pub fn watch(&self, group: libc::pid_t, deadline: Instant) {
        // Without room it is stopped, and finds that once it goes on.
        let _ = self.order(Orders { group, deadline: since_boot(deadline) });
    }

    /// COMMAND has ended: its group's number may soon be another's. Waits until the guardian can hear of it.
    pub fn stand_down(&self) {
        // SAFETY: our child, which has not been waited for.
        let wake = || unsafe { libc::kill(self.process, libc::SIGCONT) };
        while !self.order(Orders { group: 0, deadline: 0 }) {
            wake();
            std::thread::sleep(Duration::from_millis(1));
        }
        // Stopped, it would be waited for in vain.
        wake();
    }

    fn order(&self, orders: Orders) -> bool {
        self.pipe.as_ref().is_none_or(|pipe| send(pipe.as_raw_fd(), orders))
    }
}

/// The order that the child gives between fork and exec. Were it left to `wayside lock`, a COMMAND whose parent is
/// killed right after the fork would run unwatched.
#[derive(Clone, Copy)]
pub struct FirstOrder {
    pipe: RawFd,
    deadline: u64,
}

impl FirstOrder {
    /// Called by the child, which is its group's leader. Makes system calls only.
    pub fn give(self) {
        // SAFETY: a query of this process.
        let _ = send(self.pipe, Orders { group: unsafe { libc::getpid() }, deadline: self.deadline });
    }
}

/// False: there is no room, since the guardian does not read. One that was killed is missed, not mourned:
/// PR_SET_PDEATHSIG and `wayside lock` itself remain.
fn send(pipe: RawFd, orders: Orders) -> bool {
    // SAFETY: `orders` is plain data of that size.
    let sent = unsafe { libc::write(pipe, (&raw const orders).cast(), size_of::<Orders>()) };
    sent >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock
}

/// As the guardian counts: microseconds since boot.
fn since_boot(at: Instant) -> u64 {
    now() + at.saturating_duration_since(Instant::now()).as_micros() as u64
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.stand_down();
        // The end of the pipe is the end of the guardian.
        self.pipe = None;
        // SAFETY: the process is our child and has not been waited for.
        unsafe { libc::waitpid(self.process, std::ptr::null_mut(), 0) };
    }
}

fn now() -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `at` outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut at) };
    at.tv_sec as u64 * 1_000_000 + at.tv_nsec as u64 / 1_000
}

/// The guardian's life.
fn guard(pipe: RawFd) -> ! {
    isolate(pipe);
    let mut orders = Orders { group: 0, deadline: 0 };
    let mut has_read = false;
    loop {
        let mut poll = libc::pollfd { fd: pipe, events: libc::POLLIN, revents: 0 };
        // The last order counts: one that was stopped finds many.
        let most = if has_read { 0 } else { wait(&orders) };
        // SAFETY: one pollfd, which outlives the call.
        has_read = unsafe { libc::poll(&raw mut poll, 1, most) } > 0;
        if has_read {
            // SAFETY: `orders` is plain data of that size, for which every value is valid.
            let got = unsafe { libc::read(pipe, (&raw mut orders).cast(), size_of::<Orders>()) };
            if got != size_of::<Orders>() as isize {
                end(orders.group);
                // SAFETY: nothing needs to be flushed or run at exit.
                unsafe { libc::_exit(0) };
            }
            continue;
        }
        if orders.group != 0 && now() >= orders.deadline {
            end(orders.group);
            orders.group = 0;
        }
    }
}

/// Milliseconds to the deadline, rounded up; for ever without one.
fn wait(orders: &Orders) -> libc::c_int {
    if orders.group == 0 {
        return -1;
    }
    let left = Duration::from_micros(orders.deadline.saturating_sub(now()));
    libc::c_int::try_from(left.as_millis() + 1).unwrap_or(libc::c_int::MAX)
}

fn end(group: libc::pid_t) {
    if group != 0 {
        // SAFETY: a signal to a group that `wayside lock` made and has not let go of.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}

/// Away from the terminal, from its signals, and from the descriptors that others wait for the end of.
fn isolate(pipe: RawFd) {
    // SAFETY: system calls on this process alone, which has one thread.
    unsafe {
        libc::setsid();
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
        libc::prctl(libc::PR_SET_NAME, c"wayside-guard".as_ptr());
        for descriptor in 0..1024 {
            if descriptor != pipe {
                libc::close(descriptor);
            }
        }
    }
}
