//! Two hosts in network namespaces without names, joined by a veth pair: the kernel removes all of it with the test.
#![allow(dead_code)] // Every user has its own part.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::thread;

pub const CLIENT: &str = "10.77.0.1";
pub const SWITCH: &str = "10.77.0.2";
/// The client's end; the switch's is `switch0`.
pub const INTERFACE: &str = "client0";

/// One of the hosts.
pub struct Host {
    namespace: OwnedFd,
}

pub struct Network {
    pub client: Host,
    pub switch: Host,
}

impl Network {
    /// None, and said, where it cannot be made.
    pub fn or_skip(queues: u32) -> Option<Network> {
        // SAFETY: reads a number.
        if unsafe { libc::geteuid() } != 0 {
            println!("skipped: network namespaces need root");
            return None;
        }
        match Network::new(queues) {
            Ok(network) => Some(network),
            Err(error) => {
                println!("skipped: no network namespaces to be had here: {error}");
                None
            }
        }
    }

    /// Both ends have `queues` queues: XDP on veth needs as many to receive on as the other end sends on.
    pub fn new(queues: u32) -> io::Result<Network> {
        let network = Network { client: Host::new()?, switch: Host::new()? };
        let there = format!("/proc/{}/fd/{}", std::process::id(), network.switch.namespace.as_raw_fd());
        let ends = format!("numrxqueues {queues} numtxqueues {queues}");
        network.client.run(&format!(
            "ip link add {INTERFACE} {ends} type veth peer name switch0 {ends} netns {there} && ip link set lo up &&
             ip addr add {CLIENT}/24 dev {INTERFACE} && ip link set {INTERFACE} up"
        ));
        network.switch.run(&format!("ip addr add {SWITCH}/24 dev switch0 && ip link set switch0 up"));
        Ok(network)
    }
}

impl Host {
    fn new() -> io::Result<Host> {
        // A thread of its own: the one that calls `unshare` moves.
        let made = thread::spawn(|| {
            // SAFETY: it changes the calling thread alone.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            File::open("/proc/thread-self/ns/net").map(OwnedFd::from)
        });
        Ok(Host { namespace: made.join().expect("nothing in it panics")? })
    }

    /// Does `work` on this host, in a thread of its own; the threads that it starts stay there.
    #[track_caller]
    pub fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        let on_host = || {
            // SAFETY: it moves the calling thread alone; the descriptor is open.
            let moved = unsafe { libc::setns(self.namespace.as_raw_fd(), libc::CLONE_NEWNET) };
            assert_eq!(moved, 0, "{}", io::Error::last_os_error());
            work()
        };
        thread::scope(|scope| scope.spawn(on_host).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Runs a shell's command on this host. What it writes.
    #[track_caller]
    pub fn run(&self, command: &str) -> String {
        let output = self.within(|| Command::new("sh").args(["-ec", command]).output().expect("a shell"));
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }
}
