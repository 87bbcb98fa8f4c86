//! What Linux offers and Rust's standard library does not, each call on its own.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Microseconds since boot: the same clock in all processes of the demo.
pub fn now_us() -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `at` outlives the call, which fails only for clocks that do not exist.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut at) };
    at.tv_sec as u64 * 1_000_000 + at.tv_nsec as u64 / 1_000
}

/// The whole file, for one caller at a time. The kernel gives it back when its holder dies.
pub struct FileLock<'f>(&'f File);

impl FileLock<'_> {
    pub fn take(file: &File) -> io::Result<FileLock<'_>> {
        loop {
            // SAFETY: the descriptor is open as long as `file` is borrowed.
            match checked(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map(|()| FileLock(file)),
            }
        }
    }
}

impl Drop for FileLock<'_> {
    fn drop(&mut self) {
        // SAFETY: as above. Unlocking what is locked does not fail.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

/// A network namespace that lives as long as its descriptor, or a process in it, does: nothing is left to remove,
/// however the demo ends.
pub fn new_network_namespace() -> io::Result<OwnedFd> {
    // A thread of its own: the one that calls `unshare` moves.
    let made = thread::spawn(|| {
        // SAFETY: it changes the calling thread alone.
        checked(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
        File::open("/proc/thread-self/ns/net").map(OwnedFd::from)
    });
    made.join().expect("nothing in it panics")
}

/// Starts `command` in a network namespace.
pub fn run_in_namespace(command: &mut Command, namespace: BorrowedFd<'_>) {
    let descriptor: RawFd = namespace.as_raw_fd();
    // SAFETY: setns is a system call and nothing more: it may be called after fork. The descriptor is closed in the
    // child by exec, not before.
    unsafe { before_exec(command, move || checked(libc::setns(descriptor, libc::CLONE_NEWNET))) };
}

/// Kills the process that `command` becomes if this one dies, even by SIGKILL.
pub fn die_with_parent(command: &mut Command) {
    // SAFETY: prctl is a system call and nothing more.
    unsafe { before_exec(command, || checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))) };
}

/// # Safety
/// `step` runs between fork and exec: it may make system calls, and must not allocate.
unsafe fn before_exec(command: &mut Command, step: impl Fn() -> io::Result<()> + Send + Sync + 'static) {
    use std::os::unix::process::CommandExt;
    // SAFETY: the caller's promise.
    unsafe { command.pre_exec(step) };
}

/// Sends a signal to a child of this process that has not been waited for.
pub fn signal(pid: u32, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: no memory is involved. The pid is a child's that was not reaped, so it is nobody else's.
    checked(unsafe { libc::kill(pid as libc::pid_t, signal) })
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether someone wants the demo to end before its time.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Notes SIGINT, SIGTERM and SIGHUP, for [`is_interrupted`], instead of dying by them: children must be ended first.
/// To be called before other threads exist. Children start without this mask: `Command` clears it.
pub fn note_interrupts() {
    // SAFETY: a zeroed set is storage for sigemptyset, which initialises it; all calls have valid arguments.
    let set = unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaddset(&mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        set
    };
    thread::spawn(move || {
        let mut which = 0;
        // SAFETY: the set was initialised above, `which` outlives the call.
        while unsafe { libc::sigwait(&set, &mut which) } == 0 {
            INTERRUPTED.store(true, Ordering::Relaxed);
        }
    });
}
