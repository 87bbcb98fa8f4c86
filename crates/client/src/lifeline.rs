//! The node's end of the control connection: it says which session it belongs to, and lists names when asked.
//!
//! Not having it is fine: without a daemon on this host the session ends by its lease alone, and the connection is
//! tried again from time to time.

use crate::clock;
use crate::control::{Greeting, Hello, ListRequest, Listed, Listing, Welcome, lifeline_text};
use crate::endpoint::control_socket;
use std::io::{self, Read, Write};
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wayside_protocol::{SessionInfo, Time};

/// Between attempts to find the daemon: it may be restarted while the session lives.
const RETRY: Duration = Duration::from_secs(1);
/// Longest line that a daemon may send.
const LINE_MOST: usize = 4_096;
/// For a listing that the daemon does not read; it can ask again.
const WRITE_MOST: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(crate) struct Lifeline {
    stream: Option<UnixStream>,
    /// Incarnation of the session that the stream belongs to.
    incarnation: u64,
    /// Of the daemon's socket.
    path: PathBuf,
    tried: Option<Time>,
    line: Vec<u8>,
}

impl Lifeline {
    /// What to poll; -1 without a connection.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.stream.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// When [`Lifeline::keep`] wants to be called again.
    pub(crate) fn due(&self) -> Time {
        match (&self.stream, self.tried) {
            (None, Some(tried)) => clock::after(tried, RETRY),
            _ => Time(u64::MAX),
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
        let now = clock::now();
        if self.stream.is_none() && self.tried.is_none_or(|tried| now >= clock::after(tried, RETRY)) {
            self.tried = Some(now);
            self.stream = greet(&session, &self.path).ok();
            self.line.clear();
        }
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
                write_line(stream, &Listing { id: request.id, entries: list() })?;
            } else if serde_json::from_slice::<Welcome>(&line).is_ok_and(|welcome| !welcome.ok) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
        }
        if self.line.len() > LINE_MOST { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) }
    }
}

fn greet(session: &SessionInfo, path: &Path) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_nonblocking(true)?;
    let hello = Hello {
        handle: session.handle,
        lifeline: lifeline_text(session.lifeline),
        pid: std::process::id(),
        local: true,
        version: env!("CARGO_PKG_VERSION").into(),
    };
    write_line(&mut stream, &Greeting { hello })?;
    Ok(stream)
}

/// Writes a line, waiting a little where the daemon is slow: the background thread has agents to run.
fn write_line(stream: &mut UnixStream, line: &impl serde::Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(WRITE_MOST))?;
    let written = stream.write_all(&text);
    stream.set_nonblocking(true)?;
    written
}
