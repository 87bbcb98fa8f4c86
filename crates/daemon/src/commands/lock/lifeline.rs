//! The session's lifeline, for COMMAND to inherit.

use crate::answers::Hold;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use wayside_client::SessionInfo;
use wayside_client::control::{Welcome, lifeline_text};
use wayside_client::daemon::connect_here;

/// For the daemon to answer; without it COMMAND runs all the same, as on a host without a daemon.
const PATIENCE: Duration = Duration::from_millis(500);

/// A connection to the daemon on this host that keeps the session alive there while any process has it.
pub struct Lifeline(UnixStream);

impl Lifeline {
    /// None where the daemon is on another host.
    pub fn hold(session: &SessionInfo, switch: SocketAddrV4) -> Option<Lifeline> {
        let mut stream = connect_here(switch).ok()?.stream;
        stream.set_nonblocking(false).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        let hold = Hold { handle: session.handle, lifeline: lifeline_text(session.lifeline) };
        let line = serde_json::json!({ "hold": hold });
        writeln!(stream, "{line}").ok()?;
        let mut answer = String::new();
        BufReader::new(&stream).read_line(&mut answer).ok()?;
        serde_json::from_str::<Welcome>(&answer).is_ok_and(|welcome| welcome.ok).then_some(Lifeline(stream))
    }
}

impl AsRawFd for Lifeline {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
