//! Where everything runs: the switch and four hosts in network namespaces of their own, or all of them on loopback.
//!
//! ```text
//!   switch's namespace                         host 1 .. host 4, a namespace each
//!   bridge br0, 10.76.0.1 --- host1 ===veth=== eth0, 10.76.0.11
//!                         --- host2 ===veth=== eth0, 10.76.0.12  ...
//! ```
//!
//! The namespaces have no names: the kernel removes them, with bridge and pairs, when the demo and its children end.

use crate::system;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Command, Stdio};

pub const HOSTS: usize = 4;

/// Seen only inside the namespaces, where nobody else has an address.
const SWITCH: Ipv4Addr = Ipv4Addr::new(10, 76, 0, 1);
const PORT: u16 = 7600;

/// One of the machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Switch,
    /// From 0.
    Host(usize),
}

pub struct Hosts {
    /// The switch's, then one for each host; empty on loopback.
    namespaces: Vec<OwnedFd>,
    /// Where the switch listens.
    pub listen: SocketAddrV4,
    pub admin_listen: SocketAddrV4,
    /// For people.
    pub description: String,
}

impl Hosts {
    /// Namespaces if that is possible and `loopback` is not asked for.
    pub fn make(loopback: bool) -> io::Result<Hosts> {
        let why = if loopback {
            "as asked".to_owned()
        } else if !system::is_root() {
            "network namespaces need root".to_owned()
        } else {
            match Hosts::in_namespaces() {
                Ok(hosts) => return Ok(hosts),
                Err(error) => format!("no network namespaces to be had here: {error}"),
            }
        };
        // Ports that are free now, and again after the restart.
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        Ok(Hosts {
            namespaces: Vec::new(),
            listen: SocketAddrV4::new(Ipv4Addr::LOCALHOST, udp),
            admin_listen: SocketAddrV4::new(Ipv4Addr::LOCALHOST, tcp),
            description: format!("One switch and {HOSTS} hosts, all of them on loopback ({why})."),
        })
    }

    fn in_namespaces() -> io::Result<Hosts> {
        let namespaces = (0..=HOSTS).map(|_| system::new_network_namespace()).collect::<io::Result<_>>()?;
        let hosts = Hosts {
            namespaces,
            listen: SocketAddrV4::new(SWITCH, PORT),
            admin_listen: SocketAddrV4::new(SWITCH, PORT + 1),
            description: format!(
                "One switch and {HOSTS} hosts, each in a network namespace of its own, on one bridge."
            ),
        };
        hosts.connect()?;
        Ok(hosts)
    }

    fn connect(&self) -> io::Result<()> {
        let mut switch = format!("link set lo up\nlink add br0 type bridge\naddr add {SWITCH}/24 dev br0\n");
        for (host, namespace) in self.namespaces[1..].iter().enumerate() {
            // The other end is born in the host's namespace, which `ip` finds through this process's descriptor.
            let there = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd());
            switch += &format!("link add host{host} type veth peer name eth0 netns {there}\n");
            switch += &format!("link set host{host} master br0 up\n");
        }
        self.ip(Place::Switch, &(switch + "link set br0 up\n"))?;
        for host in 0..HOSTS {
            let address = Ipv4Addr::new(10, 76, 0, 11 + host as u8);
            let commands = format!("link set lo up\naddr add {address}/24 dev eth0\nlink set eth0 up\n");
            self.ip(Place::Host(host), &commands)?;
        }
        Ok(())
    }

    /// Runs commands of iproute2's `ip` at a place.
    fn ip(&self, place: Place, commands: &str) -> io::Result<()> {
        let mut command = Command::new("ip");
        command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        self.enter(&mut command, place);
        let mut child = command.spawn()?;
        child.stdin.take().expect("piped").write_all(commands.as_bytes())?;
        let output = child.wait_with_output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("ip: {}", said.lines().next().unwrap_or("it gave no reason"))))
    }

    /// Lets `command` run at a place.
    pub fn enter(&self, command: &mut Command, place: Place) {
        let index = match place {
            Place::Switch => 0,
            Place::Host(host) => host + 1,
        };
        if let Some(namespace) = self.namespaces.get(index) {
            system::run_in_namespace(command, namespace.as_fd());
        }
    }
}
