//! Where everything runs: the switch and four hosts in network namespaces of their own, or all of them on loopback.
//!
//! ```text
//!   switch's namespace                         host 1 .. host 4, a namespace each
//!   bridge br0, 10.76.0.1 --- host1 ===veth=== eth0, 10.76.0.11
//!                         --- host2 ===veth=== eth0, 10.76.0.12  ...
//!                             native XDP decides here, on the bridge's ports
//! ```
//!
//! The namespaces have no names: the kernel removes them, with bridge and pairs, when the demo and its children end.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::process::Command;
use wayside_hosts::Host;

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
    /// None on loopback.
    machines: Option<Machines>,
    /// Where the switch listens.
    pub listen: SocketAddrV4,
    pub admin_listen: SocketAddrV4,
    /// For people.
    pub description: String,
}

struct Machines {
    switch: Host,
    hosts: Vec<Host>,
    /// What lets native XDP answer over veth; or why it can't.
    #[cfg(feature = "xdp")]
    passes: io::Result<Vec<wayside_hosts::Program>>,
}

impl Hosts {
    /// Namespaces if that is possible and `loopback` is not asked for.
    pub fn make(loopback: bool) -> io::Result<Hosts> {
        let why = match wayside_hosts::missing() {
            _ if loopback => "as asked".to_owned(),
            Some(why) => why,
            None => match Machines::new() {
                Ok(machines) => return Ok(Hosts::on(machines)),
                Err(error) => format!("no network namespaces to be had here: {error}"),
            },
        };
        // Ports that are free now, and again after the restart.
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        Ok(Hosts {
            machines: None,
            listen: SocketAddrV4::new(Ipv4Addr::LOCALHOST, udp),
            admin_listen: SocketAddrV4::new(Ipv4Addr::LOCALHOST, tcp),
            description: format!("One switch and {HOSTS} hosts, all of them on loopback ({why})."),
        })
    }

    fn on(machines: Machines) -> Hosts {
        Hosts {
            machines: Some(machines),
            listen: SocketAddrV4::new(SWITCH, PORT),
            admin_listen: SocketAddrV4::new(SWITCH, PORT + 1),
            description: format!(
                "One switch and {HOSTS} hosts, each in a network namespace of its own, on one bridge."
            ),
        }
    }

    /// Lets `command` run at a place.
    pub fn enter(&self, command: &mut Command, place: Place) {
        let Some(machines) = &self.machines else { return };
        match place {
            Place::Switch => machines.switch.enter(command),
            Place::Host(host) => machines.hosts[host].enter(command),
        }
    }

    /// Whether what a native XDP program sends reaches the hosts; or why not, if that is worth a line.
    pub fn native(&self) -> Result<bool, String> {
        match &self.machines {
            #[cfg(feature = "xdp")]
            Some(Machines { passes: Err(error), .. }) => {
                Err(format!("No native XDP: the hosts' ends of veth take no program ({error})."))
            }
            Some(_) => Ok(cfg!(feature = "xdp")),
            None => Ok(false),
        }
    }
}

impl Machines {
    fn new() -> io::Result<Machines> {
        let switch = Host::new()?;
        switch.ip(&format!("link add br0 type bridge\naddr add {SWITCH}/24 dev br0\nlink set br0 up"))?;
        let hosts = (0..HOSTS).map(|host| Machines::host(&switch, host)).collect::<io::Result<Vec<_>>>()?;
        #[cfg(feature = "xdp")]
        let passes = hosts.iter().map(|host| host.pass("eth0")).collect();
        Ok(Machines {
            switch,
            hosts,
            #[cfg(feature = "xdp")]
            passes,
        })
    }

    fn host(switch: &Host, number: usize) -> io::Result<Host> {
        let host = Host::new()?;
        let port = format!("host{}", number + 1);
        switch.join(&port, &host, "eth0", 1)?;
        switch.ip(&format!("link set {port} master br0"))?;
        host.ip(&format!("addr add {}/24 dev eth0", Ipv4Addr::new(10, 76, 0, 11 + number as u8)))?;
        Ok(host)
    }
}
