//! The daemon's ports: bound, sized, and explained where they can't be had.

use crate::failure::Failure;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use tokio::net::TcpListener;

/// A socket for packets of many nodes, and its address: port 0 becomes whichever the kernel chose; `flag` moves it
/// elsewhere.
pub fn bind_udp(address: SocketAddrV4, flag: &str) -> Result<(Arc<UdpSocket>, SocketAddrV4), Failure> {
    let socket = UdpSocket::bind(address).map_err(|error| unbound("UDP", address, flag, &error))?;
    wayside_udp::make_room(socket.as_fd());
    let listen = local(socket.local_addr())?;
    Ok((Arc::new(socket), listen))
}

/// A listener for other hosts, and its address; `flag` moves it elsewhere.
pub fn bind_tcp(address: SocketAddrV4, flag: &str) -> Result<(TcpListener, SocketAddrV4), Failure> {
    let failed = |error: io::Error| Failure::system("can't listen for connections", &error);
    let listener = std::net::TcpListener::bind(address).map_err(|error| unbound("TCP", address, flag, &error))?;
    listener.set_nonblocking(true).map_err(failed)?;
    let listener = TcpListener::from_std(listener).map_err(failed)?;
    let listen = local(listener.local_addr())?;
    Ok((listener, listen))
}

fn local(address: io::Result<SocketAddr>) -> Result<SocketAddrV4, Failure> {
    match address {
        Ok(SocketAddr::V4(address)) => Ok(address),
        Ok(SocketAddr::V6(_)) => unreachable!("bound to an IPv4 address"),
        Err(error) => Err(Failure::system("can't read a socket's address", &error)),
    }
}

fn unbound(protocol: &str, address: SocketAddrV4, flag: &str, error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::AddrInUse => Failure::unavailable(format!(
            "{protocol} port {address} is in use; end what has it (ss -lnp finds it), or choose another with {flag}"
        )),
        ErrorKind::AddrNotAvailable => Failure::usage(format!(
            "{address} is not an address of this host; choose one that `ip -4 address` lists with {flag}"
        )),
        ErrorKind::PermissionDenied => Failure::denied(format!(
            "no permission to bind {protocol} port {address}; choose one above 1023 with {flag}"
        )),
        _ => Failure::system(format_args!("can't bind {protocol} port {address}"), error),
    }
}

/// Tells systemd (`Type=notify`) how far the daemon is: `READY=1`, `STOPPING=1`. Nothing happens elsewhere.
pub fn notify_supervisor(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else { return };
    let sent = match path.as_encoded_bytes().strip_prefix(b"@") {
        Some(name) => std::os::unix::net::SocketAddr::from_abstract_name(name),
        None => std::os::unix::net::SocketAddr::from_pathname(&path),
    }
    .and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!(%error, "can't reach NOTIFY_SOCKET");
    }
}

/// The daemon has a connection per local node: as many as the host allows.
pub fn raise_open_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives both calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
