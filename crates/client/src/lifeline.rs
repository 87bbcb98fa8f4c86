//! The node's end of the control connection: it says which session it belongs to, and lists names when asked.
//!
//! Where the daemon is on this host it is the session's lifeline, over the daemon's Unix socket. Elsewhere it goes over
//! TCP and serves the listing alone. Not having it is fine: then the session ends by its lease, its locks are listed by
//! nobody, and the connection is tried again from time to time.

use crate::clock;
use crate::control::{Greeting, Hello, ListRequest, Listed, Listing, Welcome, lifeline_text};
use crate::endpoint::control_socket;
use crate::socket::start_connecting;
use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wayside_protocol::{SessionInfo, Time};

/// Between attempts to find a daemon here, which may be restarted while the session lives.
const RETRY: Duration = Duration::from_secs(1);
/// Between attempts to connect to another host's, whose port may be closed to us for good.
const REMOTE_RETRY: Duration = Duration::from_secs(10);
/// For that host to accept, and between looks whether it has.
const ACCEPT_MOST: Duration = Duration::from_secs(2);
const ACCEPT_LOOK: Duration = Duration::from_millis(20);
/// Longest line that a daemon may send.
const LINE_MOST: usize = 4_096;
/// For a listing that the daemon does not read; it can ask again.
const WRITE_MOST: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(crate) struct Lifeline {
    stream: Option<Stream>,
    /// A TCP connection that the daemon has not accepted yet, and since when.
    accepting: Option<(TcpStream, Time)>,
    /// Incarnation of the session that the stream belongs to.
    incarnation: u64,
    /// Of the daemon's socket.
    path: PathBuf,
    next_local: Time,
    next_remote: Time,
    line: Vec<u8>,
}

impl Lifeline {
    /// What to poll; -1 without a connection.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.stream.as_ref().map_or(-1, Stream::descriptor)
    }

    /// When [`Lifeline::keep`] wants to be called again.
    pub(crate) fn due(&self) -> Time {
        match (&self.stream, &self.accepting) {
            (Some(_), _) => Time(u64::MAX),
            (None, Some(_)) => clock::after(clock::now(), ACCEPT_LOOK),
            (None, None) if self.incarnation != 0 => self.next_local,
            (None, None) => Time(u64::MAX),
        }
    }

    /// Sees to it that the connection is there, and of this session.
    pub(crate) fn keep(&mut self, session: Option<SessionInfo>, switch: SocketAddrV4) {
        let Some(session) = session else {
            *self = Lifeline::default();
            return;
        };
        if session.incarnation != self.incarnation {
            let path = control_socket(switch);
            *self = Lifeline { incarnation: session.incarnation, path, ..Lifeline::default() };
        }
        if self.stream.is_some() {
            return;
        }
        let now = clock::now();
        self.line.clear();
        if now >= self.next_local {
            self.next_local = clock::after(now, RETRY);
            self.stream = greet_here(&session, &self.path).ok();
        }
        if self.stream.is_none() {
            self.stream = self.connect_elsewhere(now, &session, switch);
        }
    }

    /// Never waits: an attempt is begun, and looked after by later calls.
    fn connect_elsewhere(&mut self, now: Time, session: &SessionInfo, switch: SocketAddrV4) -> Option<Stream> {
        if let Some((stream, since)) = self.accepting.take() {
            if stream.peer_addr().is_ok() {
                let mut stream = Stream::Elsewhere(stream);
                return greet(&mut stream, session, false).is_ok().then_some(stream);
            }
            let refused = !matches!(stream.take_error(), Ok(None));
            self.accepting = (!refused && now < clock::after(since, ACCEPT_MOST)).then_some((stream, since));
        } else if now >= self.next_remote {
            self.next_remote = clock::after(now, REMOTE_RETRY);
            let admin = SocketAddrV4::new(*switch.ip(), switch.port().saturating_add(1));
            self.accepting = start_connecting(admin).ok().map(|stream| (stream, now));
        }
        None
    }

    /// Reads what the daemon asks, and answers.
    pub(crate) fn on_readable(&mut self, list: impl Fn() -> Vec<Listed>) {
        if self.converse(list).is_err() {
            self.stream = None;
        }
    }

    fn converse(&mut self, list: impl Fn() -> Vec<Listed>) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let mut bytes = [0; 1024];
        let count = match stream.read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        self.line.extend_from_slice(&bytes[..count]);
        while let Some(end) = self.line.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            if let Ok(request) = serde_json::from_slice::<ListRequest>(&line) {
                stream.write_line(&Listing { id: request.id, entries: list() })?;
            } else if serde_json::from_slice::<Welcome>(&line).is_ok_and(|welcome| !welcome.ok) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
        }
        if self.line.len() > LINE_MOST { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) }
    }
}

/// A connection to a daemon.
enum Stream {
    Here(UnixStream),
    Elsewhere(TcpStream),
}

impl Stream {
    fn descriptor(&self) -> RawFd {
        match self {
            Stream::Here(stream) => stream.as_raw_fd(),
            Stream::Elsewhere(stream) => stream.as_raw_fd(),
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Here(stream) => stream.read(bytes),
            Stream::Elsewhere(stream) => stream.read(bytes),
        }
    }

    /// Writes a line, waiting a little where the daemon is slow: the background thread has agents to run.
    fn write_line(&mut self, line: &impl serde::Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        match self {
            Stream::Here(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_write_timeout(Some(WRITE_MOST))?;
                stream.write_all(&text)?;
                stream.set_nonblocking(true)
            }
            Stream::Elsewhere(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_write_timeout(Some(WRITE_MOST))?;
                stream.write_all(&text)?;
                stream.set_nonblocking(true)
            }
        }
    }
}

fn greet_here(session: &SessionInfo, path: &Path) -> io::Result<Stream> {
    let mut stream = Stream::Here(UnixStream::connect(path)?);
    greet(&mut stream, session, true)?;
    Ok(stream)
}

fn greet(stream: &mut Stream, session: &SessionInfo, local: bool) -> io::Result<()> {
    let hello = Hello {
        handle: session.handle,
        lifeline: lifeline_text(session.lifeline),
        pid: std::process::id(),
        local,
        version: env!("CARGO_PKG_VERSION").into(),
    };
    stream.write_line(&Greeting { hello })
}
