//! Hosts on one network, as many as are wanted.

use crate::Host;
use std::io;
use std::net::Ipv4Addr;

/// A host without a program, to which others are joined: a switch of Ethernet, as it were.
#[derive(Debug)]
pub struct Bridge(Host);

impl Bridge {
    /// One to which nobody is joined.
    ///
    /// # Errors
    /// Without the right to, or where the kernel has no bridges.
    pub fn new() -> io::Result<Bridge> {
        let host = Host::new()?;
        host.ip("link add bridge0 type bridge\nlink set bridge0 up")?;
        Ok(Bridge(host))
    }

    /// The address of the host with this number, on every bridge.
    #[must_use]
    pub fn address(number: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 81, 0, number)
    }

    /// Locally administered, and no two of one bridge alike.
    #[must_use]
    pub fn mac(number: u8) -> [u8; 6] {
        [2, 0, 10, 81, 0, number]
    }

    /// Joins a host of this number, by its interface `eth0`.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn plug(&self, number: u8) -> io::Result<Host> {
        let host = Host::new()?;
        host.join("eth0", &self.0, &port(number), 1)?;
        self.0.ip(&format!("link set {} master bridge0", port(number)))?;
        let mac = Bridge::mac(number).map(|byte| format!("{byte:02x}")).join(":");
        host.ip(&format!("link set eth0 address {mac}\naddr add {}/24 dev eth0", Bridge::address(number)))?;
        Ok(host)
    }

    /// What a native program of this host sends back arrives only where there is another one: at the bridge's end.
    ///
    /// # Errors
    /// What the kernel says.
    #[cfg(feature = "xdp")]
    pub fn pass(&self, number: u8) -> io::Result<crate::Program> {
        self.0.pass(&port(number))
    }
}

/// The bridge's end.
fn port(number: u8) -> String {
    format!("port{number}")
}
