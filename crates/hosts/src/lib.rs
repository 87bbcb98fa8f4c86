//! Hosts for tests, measurements and the demo: network namespaces without names, joined by veth pairs. The kernel
//! removes them, with everything in them, when the last descriptor and process are gone: nothing is left behind,
//! however a run ends.

mod bridge;
#[cfg(feature = "xdp")]
mod pass;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;

pub use bridge::Bridge;
#[cfg(feature = "xdp")]
pub use pass::Program;

/// One host.
#[derive(Debug)]
pub struct Host {
    namespace: OwnedFd,
}

/// Why no host can be made here, if so: for tests that then skip themselves.
pub fn missing() -> Option<String> {
    // SAFETY: reads a number.
    if unsafe { libc::geteuid() } != 0 {
        return Some("network namespaces need root".into());
    }
    Host::new().err().map(|error| format!("no network namespaces to be had here: {error}"))
}

impl Host {
    /// A host with a loopback interface and nothing else.
    ///
    /// # Errors
    /// Without the right to, or without `ip`.
    pub fn new() -> io::Result<Host> {
        // A thread of its own: the one that calls `unshare` moves.
        let made = thread::spawn(|| {
            // SAFETY: it changes the calling thread alone.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            File::open("/proc/thread-self/ns/net").map(OwnedFd::from)
        });
        let host = Host { namespace: made.join().expect("nothing in it panics")? };
        host.ip("link set lo up")?;
        Ok(host)
    }

    /// Joins two hosts by a veth pair, interface `here` of this one and `there` of the other, with `queues` queues at
    /// both ends: XDP on veth needs as many to receive on as the other end sends on.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn join(&self, here: &str, other: &Host, there: &str, queues: u32) -> io::Result<()> {
        let ends = format!("numrxqueues {queues} numtxqueues {queues}");
        // `ip` finds the other namespace through this process's descriptor.
        let namespace = format!("/proc/{}/fd/{}", std::process::id(), other.namespace.as_raw_fd());
        self.ip(&format!("link add {here} {ends} type veth peer name {there} {ends} netns {namespace}"))?;
        self.ip(&format!("link set {here} up"))?;
        other.ip(&format!("link set {there} up"))
    }

    /// Runs commands of iproute2's `ip`, one a line.
    ///
    /// # Errors
    /// What it says of the first that fails.
    pub fn ip(&self, commands: &str) -> io::Result<()> {
        let mut command = Command::new("ip");
        command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        self.enter(&mut command);
        let mut child = command.spawn()?;
        child.stdin.take().expect("piped").write_all(commands.as_bytes())?;
        let output = child.wait_with_output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("ip: {}", said.lines().next().unwrap_or("it gave no reason"))))
    }

    /// Has the queue `n` of an interface take what the processor `processors[n]` sends, as a card's own filters would
    /// part what it receives: the far end of a veth receives it in its queue `n`.
    ///
    /// # Errors
    /// Without util-linux's `unshare`, or in a kernel without XPS.
    pub fn steer(&self, interface: &str, processors: &[usize]) -> io::Result<()> {
        let mut script = String::from("mount -t sysfs sysfs /sys");
        for (queue, processor) in processors.iter().enumerate() {
            let mask = 1_u64 << processor;
            script.push_str(&format!(" && echo {mask:x} >/sys/class/net/{interface}/queues/tx-{queue}/xps_cpus"));
        }
        let mut command = Command::new("unshare");
        // A /sys is of the network namespace that it was mounted in: so this needs one of its own.
        command.args(["--mount", "sh", "-c", &script]).stdin(Stdio::null());
        self.enter(&mut command);
        let output = command.output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("steer: {}", said.lines().next().unwrap_or("it gave no reason"))))
    }

    /// Lets `command` run on this host.
    pub fn enter(&self, command: &mut Command) {
        let namespace = self.namespace.as_raw_fd();
        // SAFETY: setns is a system call and nothing more. The descriptor is closed in the child by exec, not before.
        unsafe { command.pre_exec(move || set_namespace(namespace)) };
    }

    /// Moves the calling thread here, for good, and the threads and processes that it starts.
    ///
    /// # Errors
    /// Without the right to.
    pub fn move_here(&self) -> io::Result<()> {
        set_namespace(self.namespace.as_raw_fd())
    }

    /// Does `work` on this host, in a thread of its own; the threads that it starts stay there.
    ///
    /// # Panics
    /// As `work` does, or without the right to.
    #[track_caller]
    pub fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        let on_host = || {
            self.move_here().expect("whoever made a host may enter it");
            work()
        };
        thread::scope(|scope| scope.spawn(on_host).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn set_namespace(namespace: RawFd) -> io::Result<()> {
    // SAFETY: it moves the calling thread alone; the descriptor is open.
    if unsafe { libc::setns(namespace, libc::CLONE_NEWNET) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn joined_hosts_reach_each_other() {
        if let Some(why) = missing() {
            return println!("skipped: hosts: {why}");
        }
        let (one, other) = (Host::new().unwrap(), Host::new().unwrap());
        one.join("left", &other, "right", 1).unwrap();
        one.ip("addr add 10.80.0.1/24 dev left").unwrap();
        other.ip("addr add 10.80.0.2/24 dev right").unwrap();
        let server = other.within(|| UdpSocket::bind("10.80.0.2:9").unwrap());
        one.within(|| UdpSocket::bind("10.80.0.1:0").unwrap().send_to(b"hello", "10.80.0.2:9").unwrap());
        assert_eq!(server.recv(&mut [0; 8]).unwrap(), 5);
    }
}
