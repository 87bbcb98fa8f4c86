//! Ports for the servers that benchmarks start.

use crate::Error;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// A port that nobody has now: whoever takes it meanwhile makes the start fail. None of those that the kernel gives to
/// whoever connects, of which a loaded machine uses thousands.
pub(crate) fn free_address() -> Result<SocketAddr, Error> {
    free_address_at(Ipv4Addr::LOCALHOST)
}

/// The same at another address of this host.
pub(crate) fn free_address_at(host: Ipv4Addr) -> Result<SocketAddr, Error> {
    static LATEST: AtomicU16 = AtomicU16::new(0);
    // Below those of a switch itself, 7600 and the next two.
    const FIRST: u16 = 4_000;
    const PORTS: u16 = 3_000;
    // Benchmarks that run beside this one begin elsewhere.
    let begin = (std::process::id() * 97 % u32::from(PORTS)) as u16;
    let next = || (host, FIRST + (begin + LATEST.fetch_add(1, Relaxed) % PORTS) % PORTS).into();
    let mut all = std::iter::repeat_with(next).take(PORTS.into());
    all.find(|address: &SocketAddr| TcpListener::bind(address).is_ok()).ok_or_else(|| "no free port".into())
}
