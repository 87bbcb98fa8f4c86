//! COMMAND as a process group of its own, which gets the signals meant for it and ends with its parent.

use super::guardian::FirstOrder;
use crate::failure::{Failure, exit};
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use wayside_client::{TASK_VARIABLE, Task};

/// Signals that `wayside lock` hands on instead of obeying.
pub const FORWARDED: [libc::c_int; 7] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGWINCH];

/// What became of COMMAND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Running,
    /// Stopped from the terminal or by another process.
    Stopped,
    /// Ended, with its exit code or 128 + signal. Not reaped yet: its number is still its own.
    Ended(u8),
}

/// The exit code of what has ended, and nobody knows how.
const UNKNOWN: u8 = 255;

/// A running COMMAND.
pub struct Child {
    /// Its process, and its group.
    pub group: libc::pid_t,
    /// Whether the terminal is the group's, as it was ours.
    terminal: bool,
}

impl Child {
    /// Starts COMMAND with this in its environment, and with the session's lifelines: while it lives, no shard's switch
    /// takes the death of `wayside lock` for the end of the hold.
    pub fn start(
        command: &[OsString],
        told: (&str, String),
        lifelines: Vec<RawFd>,
        watched: FirstOrder,
    ) -> Result<Child, Failure> {
        let (program, arguments) = command.split_first().expect("the command line asks for one");
        // SAFETY: queries of this process.
        let (parent, terminal) = unsafe { (libc::getpid(), libc::tcgetpgrp(0) == libc::getpgrp()) };
        let mut child = Command::new(program);
        child.args(arguments).env(told.0, told.1);
        // What COMMAND waits for, this process waits for.
        child.env(TASK_VARIABLE, Task::of_main_thread().to_string());
        // SAFETY: the closure only makes system calls.
        unsafe { child.pre_exec(move || prepare(parent, terminal, &lifelines, watched)) };
        let child = child.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                Failure::new(exit::NOT_FOUND, format!("{}: no such command; is it in PATH?", program.to_string_lossy()))
            }
            _ => Failure::new(exit::NOT_EXECUTABLE, format!("{}: {error}", program.to_string_lossy())),
        })?;
        let group = child.id() as libc::pid_t;
        let child = Child { group, terminal };
        // Whoever is first, parent or child: both do it.
        // SAFETY: `group` is our child.
        unsafe { libc::setpgid(group, group) };
        child.give_terminal();
        Ok(child)
    }

    /// Sends a signal to the whole group. False: nobody in it may be sent one by this user.
    pub fn signal(&self, signal: libc::c_int) -> bool {
        // SAFETY: the group is ours until it is reaped.
        let sent = unsafe { libc::kill(-self.group, signal) } == 0;
        sent || io::Error::last_os_error().raw_os_error() != Some(libc::EPERM)
    }

    /// Looks without waiting.
    pub fn state(&self) -> State {
        // SAFETY: a siginfo of zeros is valid, and outlives the call.
        let (waited, info) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let events = libc::WEXITED | libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT;
            (libc::waitid(libc::P_PID, self.group as libc::id_t, &raw mut info, events), info)
        };
        if waited < 0 {
            return State::Ended(UNKNOWN); // Somebody else has reaped it.
        }
        // SAFETY: waitid has filled these fields, or left them zero.
        let (process, status) = unsafe { (info.si_pid(), info.si_status()) };
        match info.si_code {
            _ if process == 0 => State::Running,
            libc::CLD_EXITED => State::Ended(status as u8),
            libc::CLD_STOPPED => State::Stopped,
            _ => State::Ended(128 + status as u8),
        }
    }

    /// Does as COMMAND did when it was stopped from our terminal: stops, and both go on together. Elsewhere whoever
    /// stopped COMMAND will continue it.
    pub fn stop_along(&self) {
        // SAFETY: takes note of the stop, so that it is not reported again.
        unsafe {
            libc::waitid(libc::P_PID, self.group as libc::id_t, std::ptr::null_mut(), libc::WSTOPPED | libc::WNOHANG)
        };
        if !self.terminal {
            return;
        }
        self.take_terminal();
        // SAFETY: stops this process until somebody continues it.
        unsafe { libc::raise(libc::SIGSTOP) };
        self.give_terminal();
        self.signal(libc::SIGCONT);
    }

    /// Lets the kernel forget COMMAND, and takes the terminal back.
    pub fn reap(self) {
        // SAFETY: our child, which has ended.
        unsafe { libc::waitpid(self.group, std::ptr::null_mut(), 0) };
        self.take_terminal();
    }

    /// Takes the terminal back from what runs on.
    pub fn leave(self) {
        self.take_terminal();
    }

    fn give_terminal(&self) {
        if self.terminal {
            set_terminal(self.group);
        }
    }

    fn take_terminal(&self) {
        if self.terminal {
            // SAFETY: a query of this process.
            set_terminal(unsafe { libc::getpgrp() });
        }
    }
}

/// In the child, between fork and exec.
fn prepare(parent: libc::pid_t, terminal: bool, lifelines: &[RawFd], watched: FirstOrder) -> io::Result<()> {
    // SAFETY: system calls on this process, which has one thread.
    unsafe {
        libc::setpgid(0, 0);
        watched.give();
        if terminal {
            set_terminal(libc::getpid());
        }
        // Ends with the thread that started it, which is the main thread of `wayside lock`.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            return Err(ErrorKind::BrokenPipe.into());
        }
        for lifeline in lifelines {
            libc::fcntl(*lifeline, libc::F_SETFD, 0);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
    Ok(())
}

/// Makes `group` the terminal's foreground group. A background process that does so would be stopped by SIGTTOU.
fn set_terminal(group: libc::pid_t) {
    // SAFETY: the signal set is initialised before it is used, and the mask is put back.
    unsafe {
        let (mut stop, mut before): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&raw mut stop);
        libc::sigaddset(&raw mut stop, libc::SIGTTOU);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const stop, &raw mut before);
        libc::tcsetpgrp(0, group);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
}
