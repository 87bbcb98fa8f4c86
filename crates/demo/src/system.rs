//! What Linux offers and Rust's standard library does not, each call on its own.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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

/// Kills the process that `command` becomes if this one dies, even by SIGKILL, and lets it hear the signals that this
/// one keeps for [`is_interrupted`]: a mask is inherited.
pub fn prepare_child(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    let prepare = || {
        // SAFETY: system calls and nothing more, which may be made between fork and exec; a zeroed set is storage for
        // sigemptyset, which initialises it.
        unsafe {
            let mut none = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
            checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))
        }
    };
    // SAFETY: as above.
    unsafe { command.pre_exec(prepare) };
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
/// To be called before other threads exist.
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
