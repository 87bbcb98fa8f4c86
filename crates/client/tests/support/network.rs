//! Two hosts, joined by a veth pair: a client's and the switch's.
#![allow(dead_code)] // Every user has its own part.

use std::io;
use std::process::Command;
use wayside_hosts::Host;

pub const CLIENT: &str = "10.77.0.1";
pub const SWITCH: &str = "10.77.0.2";
/// The client's end; the switch's is `switch0`.
pub const INTERFACE: &str = "client0";

pub struct Network {
    pub client: Host,
    pub switch: Host,
}

impl Network {
    /// None, and said, where it cannot be made.
    pub fn or_skip(queues: u32) -> Option<Network> {
        if let Some(why) = wayside_hosts::missing() {
            println!("skipped: AF_XDP: {why}");
            return None;
        }
        Some(Network::new(queues).expect("hosts can be made here"))
    }

    pub fn new(queues: u32) -> io::Result<Network> {
        let network = Network { client: Host::new()?, switch: Host::new()? };
        network.client.join(INTERFACE, &network.switch, "switch0", queues)?;
        network.client.ip(&format!("addr add {CLIENT}/24 dev {INTERFACE}"))?;
        network.switch.ip(&format!("addr add {SWITCH}/24 dev switch0"))?;
        Ok(network)
    }
}

/// Runs a shell's command on a host. What it writes.
#[track_caller]
pub fn run(host: &Host, command: &str) -> String {
    let mut shell = Command::new("sh");
    host.enter(shell.args(["-ec", command]));
    let output = shell.output().expect("a shell");
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
