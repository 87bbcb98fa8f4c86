//! The daemon of this host's switch: where it is, and whether what answers there is it.
//!
//! It listens in two places, each for what the other can't reach:
//! * An abstract socket, `@wayside/ADDR:PORT`. Its name is of the network namespace that the switch's address is of
//!   too: who can be on the same host as that switch finds it, whatever its user and its environment. No file is left
//!   behind.
//! * A file, for processes in other network namespaces of this host, such as containers that share a directory.
//!
//! Any user may take a name first, and a session tells its secret to who answers there. So who answers must be root,
//! this user, or the user who has the switch's UDP port; what WAYSIDE_SOCKET names is trusted as it is.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::mem::offset_of;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Overrides the path of the daemon's local socket.
pub const SOCKET_VARIABLE: &str = "WAYSIDE_SOCKET";

/// The runtime directory of root's daemons.
const ROOT_RUNTIME: &str = "/run";

/// A connection to the daemon of this host's switch.
#[derive(Debug)]
pub struct Daemon {
    /// Does not block.
    pub stream: UnixStream,
    /// Where it was found, for people.
    pub place: String,
    /// Its process, as far as this one can see it; 0 in another PID namespace.
    pub pid: i32,
}

/// Why there is no connection: each place, and what was wrong there.
#[derive(Debug)]
pub struct NotHere {
    tried: Vec<(Place, io::Error)>,
}

impl NotHere {
    /// A process that does not belong to the switch has taken the daemon's place; its user, and what it is.
    #[must_use]
    pub fn impostor(&self) -> Option<String> {
        let denied = |(_, error): &&(Place, io::Error)| error.get_ref().is_some_and(|inner| inner.is::<Impostor>());
        self.tried.iter().find(denied).map(|(place, error)| format!("{place}: {error}"))
    }
}

impl fmt::Display for NotHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (place, error)) in self.tried.iter().enumerate() {
            write!(f, "{}{place}: {error}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for NotHere {}

/// Connects to the daemon of the switch at `switch`, where that is on this host. Never waits.
///
/// # Errors
/// [`NotHere`]: on another host or not running, out of reach, or not to be trusted.
pub fn connect_here(switch: SocketAddrV4) -> Result<Daemon, NotHere> {
    let mut tried = Vec::new();
    for place in places(switch) {
        match connect(&place, switch) {
            Ok(daemon) => return Ok(daemon),
            Err(error) => tried.push((place, error)),
        }
    }
    Err(NotHere { tried })
}

/// Name of the daemon's abstract socket, without the zero byte before it.
#[must_use]
pub fn abstract_name(switch: SocketAddrV4) -> String {
    format!("wayside/{switch}")
}

/// Where a daemon of this user puts the file of its socket: what WAYSIDE_SOCKET says, else
/// `<runtime dir>/wayside/<ip>_<port>.sock`.
///
/// The runtime directory is `/run` for root, else XDG_RUNTIME_DIR, else `wayside-<uid>` among the temporary files.
#[must_use]
pub fn own_control_socket(switch: SocketAddrV4) -> PathBuf {
    moved_socket().unwrap_or_else(|| own_runtime().join(socket_file(switch)))
}

fn moved_socket() -> Option<PathBuf> {
    std::env::var_os(SOCKET_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

fn own_runtime() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        _ if own_user() == 0 => PathBuf::from(ROOT_RUNTIME),
        Some(path) => path.into(),
        None => std::env::temp_dir().join(format!("wayside-{}", own_user())),
    }
}

fn socket_file(switch: SocketAddrV4) -> String {
    format!("wayside/{}_{}.sock", switch.ip(), switch.port())
}

fn own_user() -> u32 {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}

#[derive(Debug)]
enum Place {
    /// What WAYSIDE_SOCKET says.
    Told(PathBuf),
    Abstract(String),
    File(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Told(path) => write!(f, "{} ({SOCKET_VARIABLE})", path.display()),
            Place::Abstract(name) => write!(f, "@{name}"),
            Place::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Where to look, in this order.
fn places(switch: SocketAddrV4) -> Vec<Place> {
    if let Some(path) = moved_socket() {
        return vec![Place::Told(path)];
    }
    let own = own_runtime().join(socket_file(switch));
    let roots = Path::new(ROOT_RUNTIME).join(socket_file(switch));
    let mut places = vec![Place::Abstract(abstract_name(switch)), Place::File(own)];
    if own_user() != 0 {
        places.push(Place::File(roots));
    }
    places
}

fn connect(place: &Place, switch: SocketAddrV4) -> io::Result<Daemon> {
    let stream = match place {
        Place::Abstract(name) => start_connecting(&[b"\0", name.as_bytes()].concat())?,
        Place::Told(path) | Place::File(path) => start_connecting(OsStr::new(path).as_bytes())?,
    };
    let peer = peer(&stream)?;
    let trusted = matches!(place, Place::Told(_)) || [0, own_user()].contains(&peer.uid);
    if !trusted && switch_owner(switch) != Some(peer.uid) {
        let impostor = Impostor { user: peer.uid, pid: peer.pid };
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, impostor));
    }
    Ok(Daemon { stream, place: place.to_string(), pid: peer.pid })
}

/// Who listens where the daemon should, and has not the switch's UDP port.
#[derive(Debug)]
struct Impostor {
    user: u32,
    pid: i32,
}

impl fmt::Display for Impostor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} of user {} listens there, who has not the switch's UDP port", self.pid, self.user)
    }
}

impl std::error::Error for Impostor {}

/// A stream to a Unix socket. Where a daemon that hangs has its backlog full, connecting as std does it would wait.
fn start_connecting(path: &[u8]) -> io::Result<UnixStream> {
    // SAFETY: an address of zeros is a valid one.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if path.len() >= address.sun_path.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a socket's path has at most 107 bytes"));
    }
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = *from as libc::c_char;
    }
    let length = (offset_of!(libc::sockaddr_un, sun_path) + path.len()) as libc::socklen_t;
    // SAFETY: the new descriptor is owned by the stream alone; the address outlives the call and has that length.
    unsafe {
        let descriptor = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        let stream = UnixStream::from(OwnedFd::from_raw_fd(descriptor));
        let begun = libc::connect(descriptor, (&raw const address).cast(), length);
        if begun < 0 { Err(io::Error::last_os_error()) } else { Ok(stream) }
    }
}

/// Who listens at the other end.
fn peer(stream: &UnixStream) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` has that length and outlives the call.
    let known = unsafe {
        let peer = (&raw mut peer).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, peer, &raw mut length)
    };
    if known < 0 { Err(io::Error::last_os_error()) } else { Ok(peer) }
}

/// The user who has the switch's UDP port, if that is in this network namespace.
fn switch_owner(switch: SocketAddrV4) -> Option<u32> {
    owner_in(&std::fs::read_to_string("/proc/net/udp").ok()?, switch)
}

/// `table` as `proc_net(5)` has it: addresses as the number that the four bytes are in memory.
fn owner_in(table: &str, address: SocketAddrV4) -> Option<u32> {
    let local = format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port());
    table.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        (fields.nth(1)? == local).then(|| fields.nth(5)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, UdpSocket};
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::UnixListener;

    const NOBODY: u32 = 65_534;

    fn listen(switch: SocketAddrV4) -> UnixListener {
        let name = std::os::unix::net::SocketAddr::from_abstract_name(abstract_name(switch)).unwrap();
        UnixListener::bind_addr(&name).unwrap()
    }

    fn udp() -> (UdpSocket, SocketAddrV4) {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let SocketAddr::V4(address) = udp.local_addr().unwrap() else { panic!("bound to IPv4") };
        (udp, address)
    }

    /// What `work` returns, done by nobody: a thread has its own credentials as far as the kernel is concerned.
    fn as_nobody<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        if own_user() != 0 {
            println!("skipped: only root can be another user");
            return None;
        }
        let work = move || {
            // SAFETY: no pointers; the system call itself, unlike libc's function, leaves the other threads alone.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) }, 0);
            work()
        };
        Some(std::thread::spawn(work).join().unwrap())
    }

    #[test]
    fn the_daemon_of_the_same_user_is_found_by_the_switchs_address_alone() {
        let (_udp, switch) = udp();
        assert!(connect_here(switch).unwrap_err().to_string().contains("@wayside/127.0.0.1:"));
        let _listener = listen(switch);
        let daemon = connect_here(switch).unwrap();
        assert_eq!(daemon.pid, std::process::id() as i32);
        assert_eq!(daemon.place, format!("@wayside/{switch}"));
    }

    #[test]
    fn who_has_the_switchs_port_is_trusted_whoever_it_is() {
        let Some((_udp, switch, _listener)) = as_nobody(|| {
            let (udp, switch) = udp();
            (udp, switch, listen(switch))
        }) else {
            return;
        };
        connect_here(switch).unwrap();
    }

    #[test]
    fn who_has_taken_the_name_of_anothers_switch_is_told_nothing() {
        let (_udp, switch) = udp();
        let Some(_listener) = as_nobody(move || listen(switch)) else { return };
        let refused = connect_here(switch).unwrap_err();
        assert!(refused.impostor().is_some_and(|who| who.contains("of user 65534")), "{refused}");
    }

    #[test]
    fn the_owner_is_read_from_the_kernels_table() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                     \x20 89: 0100007F:1DB0 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 12\n\
                     \x20 90: 0200007F:1DB0 00000000:0000 07 00000000:00000000 00:00000000 00000000     7        0 13\n";
        if cfg!(target_endian = "little") {
            assert_eq!(owner_in(table, "127.0.0.1:7600".parse().unwrap()), Some(1000));
            assert_eq!(owner_in(table, "127.0.0.2:7600".parse().unwrap()), Some(7));
            assert_eq!(owner_in(table, "127.0.0.1:7601".parse().unwrap()), None);
        }
    }

    #[test]
    fn a_path_that_is_too_long_is_an_error_and_no_other_path() {
        assert_eq!(start_connecting(&[b'x'; 108]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
