//! Three hosts in network namespaces: a switch at the kernel's XDP hook, and two clients.

use super::{Running, wayside};
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;
use wayside_client::Session;
use wayside_hosts::{Host, Program};

pub const SWITCH: &str = "10.78.0.1:7600";
const ADMIN: &str = "10.78.0.1:7601";

/// A switch and two clients, each with a port of its own: `10.78.0.2` by `port0`, `10.78.1.2` by `port1`.
pub struct World {
    pub switch: Host,
    pub clients: [Host; 2],
    pub directory: TempDir,
    pub bpf: PathBuf,
    _passes: Vec<Program>,
}

impl World {
    /// None, and said, where it cannot be made.
    pub fn or_skip(queues: u32) -> Option<World> {
        if let Some(why) = wayside_hosts::missing() {
            println!("skipped: XDP in namespaces: {why}");
            return None;
        }
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let host = || Host::new().expect("as above");
        let (switch, clients) = (host(), [host(), host()]);
        for (index, client) in clients.iter().enumerate() {
            client.join("eth0", &switch, &format!("port{index}"), queues).expect("veth");
            client.ip(&format!("addr add 10.78.{index}.2/24 dev eth0")).expect("an address");
            client.ip(&format!("addr add fd78:{index}::2/64 dev eth0 nodad")).expect("an IPv6 address");
            client.ip(&format!("route add default via 10.78.{index}.1")).expect("a route");
            switch.ip(&format!("addr add 10.78.{index}.1/24 dev port{index}")).expect("an address");
            switch.ip(&format!("addr add fd78:{index}::1/64 dev port{index} nodad")).expect("an IPv6 address");
        }
        let _passes = clients.iter().map(|client| client.pass("eth0").expect("veth has XDP")).collect();
        Some(World {
            switch,
            clients,
            directory: TempDir::new().expect("a directory"),
            bpf: format!("/sys/fs/bpf/wayside-test-{}-{number}", std::process::id()).into(),
            _passes,
        })
    }

    /// The daemon, ready, and what it said.
    pub fn daemon(&self, mode: &str) -> (Running, String) {
        self.daemon_with(mode, &[])
    }

    pub fn daemon_with(&self, mode: &str, flags: &[&str]) -> (Running, String) {
        let mut command = wayside(&["switch", "--listen", SWITCH, "--mode", mode, "--interfaces", "port0,port1"]);
        // By hand these tests write packets that nobody signs; tests/enrolment.rs has the signed ones.
        command
            .args(["--authentication", "off", "--lease", "1s", "--state-dir"])
            .arg(self.directory.path().join("state"));
        command.arg("--control-socket").arg(self.directory.path().join("control.sock"));
        command.arg("--bpf-dir").arg(&self.bpf).args(flags);
        self.switch.enter(&mut command);
        let daemon = Running::start(command);
        let line = daemon.line();
        (daemon, line)
    }

    /// Moves the calling thread to a client: a session's sockets belong to the host of the thread that opens them.
    pub fn session(&self, client: usize) -> Session {
        self.clients[client].move_here().expect("whoever made a host may enter it");
        super::builder().endpoint(SWITCH).connect().expect("a session")
    }

    /// A counter of the switch: of packets or of drops.
    pub fn count(&self, name: &str) -> u64 {
        let status = self.status();
        status["packets"][name].as_u64().or_else(|| status["drops"][name].as_u64()).unwrap_or(0)
    }

    /// What `/metrics` says.
    pub fn scrape(&self) -> String {
        self.switch.within(|| super::scrape(ADMIN.parse().expect("an address")))
    }

    pub fn status(&self) -> serde_json::Value {
        let mut command = wayside(&["status", "--endpoint", SWITCH, "-o", "json"]);
        self.switch.enter(&mut command);
        let output = command.stdout(Stdio::piped()).output().expect("it runs");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// The program that each port has.
    pub fn programs(&self) -> Vec<Option<u32>> {
        let all = self.switch.within(|| wayside_switch::xdp::interfaces::list().expect("the kernel answers"));
        let of = |name: &str| all.iter().find(|port| port.name == name).and_then(|port| port.program.map(|(id, _)| id));
        vec![of("port0"), of("port1")]
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // A daemon that was killed leaves its pins.
        self.switch.within(|| wayside_switch::xdp::remove_left(&self.bpf, SWITCH.parse().expect("an address")));
        let _ = fs::remove_dir(&self.bpf);
    }
}
