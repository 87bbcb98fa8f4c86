//! The node's end of the control connection: it says which session it belongs to, and lists names when asked.
//!
//! Where the daemon is on this host it is the session's lifeline, over one of the daemon's Unix sockets. Elsewhere it
//! goes over TCP and serves the listing alone, and what a daemon tells its nodes. There anybody may have the port: a
//! session whose packets are signed shows no secret, and believes what is proven to come from who knows it. Not having
//! the connection is fine: then the session ends by its lease, its locks are listed by nobody, and it is tried again
//! from time to time.
//!
//! Invariant: a lifeline is closed only when its session is over here and no guard was told to be safe for longer, or
//! by the daemon. The daemon takes its end for the end of the process and gives the session's locks away at once, long
//! before the guards know. So nothing that a daemon writes, or does not read, makes this side close it.

use crate::clock;
use crate::control::{
    Abort, DAEMON_LINE, Divided, Greeting, Hello, ListRequest, Listing, PROVEN_LINE, Proven, Welcome, lifeline_text,
    veiled,
};
use crate::daemon::connect_here;
use crate::socket::start_connecting;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use wayside_protocol::{SessionInfo, Time};

/// Between attempts to find a daemon here, which may be restarted while the session lives.
const RETRY: Duration = Duration::from_secs(1);
/// Between attempts to connect to another host's, whose port may be closed to us for good; and to find one here when
/// that one was reached, or when the one here would not have the session.
const REMOTE_RETRY: Duration = Duration::from_secs(10);
/// For another host to accept.
const ACCEPT_MOST: Duration = Duration::from_secs(2);
/// Between looks whether it has, or whether the daemon reads again.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) struct Lifeline {
    /// Told whether the session has a lifeline.
    held: Arc<AtomicBool>,
    stream: Option<Stream>,
    /// Of sessions that are lost, each until the end that its guards were told last; and of the session that lives, to
    /// the daemons of switches where it was before, with [`Time::NEVER`]: one of them may be its switch again. Nothing
    /// is said there any more.
    former: Vec<(Stream, Time)>,
    /// A TCP connection that the daemon has not accepted yet, and since when.
    accepting: Option<(TcpStream, Time)>,
    /// Incarnation of the session that the stream belongs to; 0 without one.
    incarnation: u64,
    /// And where that was then.
    switch: SocketAddrV4,
    /// The lifeline, where lines are to be proven by it.
    proven_by: Option<u64>,
    next_local: Time,
    next_remote: Time,
    /// Read, and not a whole line yet.
    line: Vec<u8>,
    /// Not written yet: the daemon does not read at the moment.
    outgoing: Vec<u8>,
}

impl Lifeline {
    pub(crate) fn new(held: Arc<AtomicBool>) -> Lifeline {
        let (line, outgoing) = (Vec::new(), Vec::new());
        let never = Time(0);
        Lifeline {
            held,
            stream: None,
            former: Vec::new(),
            accepting: None,
            incarnation: 0,
            switch: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
            proven_by: None,
            next_local: never,
            next_remote: never,
            line,
            outgoing,
        }
    }

    /// What to poll; -1 without a connection.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.stream.as_ref().map_or(-1, Stream::descriptor)
    }

    /// When [`Lifeline::keep`] wants to be called again.
    pub(crate) fn due(&self) -> Time {
        let waits = self.accepting.is_some() || !self.outgoing.is_empty();
        let due = match &self.stream {
            _ if waits => clock::after(clock::now(), LOOK),
            Some(Stream::Here(_)) => Time(u64::MAX),
            _ if self.incarnation != 0 => self.next_local,
            _ => Time(u64::MAX),
        };
        self.former.iter().map(|(_, until)| *until).fold(due, Time::min)
    }

    /// The session is over, and so is whatever its guards were told.
    pub(crate) fn end(&mut self) {
        self.let_go(Time(0));
    }

    /// The session is lost, and its guards were told that they are safe until then.
    pub(crate) fn let_go(&mut self, until: Time) {
        self.leave();
        for (_, end) in self.former.iter_mut().filter(|(_, end)| *end == Time::NEVER) {
            *end = until;
        }
        self.incarnation = 0;
        self.close_former(clock::now());
    }

    /// The session's switch is another one, or it has none any more.
    fn leave(&mut self) {
        self.former.retain(|(stream, _)| !stream.has_ended());
        let former = std::mem::take(&mut self.former);
        let left = self.stream.take().map(|stream| (stream, Time::NEVER));
        let incarnation = self.incarnation;
        *self = Lifeline { former, incarnation, ..Lifeline::new(self.held.clone()) };
        self.former.extend(left);
        self.held.store(false, Relaxed);
    }

    /// Closes those whose time is over.
    pub(crate) fn close_former(&mut self, now: Time) {
        self.former.retain(|(_, until)| now < *until);
    }

    /// Sees to it that the connection is there, and of this session.
    pub(crate) fn keep(&mut self, session: Option<SessionInfo>, switch: SocketAddrV4) {
        let Some(session) = session else { return self.end() };
        if session.incarnation != self.incarnation {
            self.end();
        } else if switch != self.switch {
            self.leave();
        }
        (self.incarnation, self.switch) = (session.incarnation, switch);
        self.flush();
        let now = clock::now();
        if !matches!(self.stream, Some(Stream::Here(_))) && now >= self.next_local {
            self.next_local = clock::after(now, if self.stream.is_some() { REMOTE_RETRY } else { RETRY });
            if let Ok(daemon) = connect_here(switch) {
                self.greet(Stream::Here(daemon.stream), &session);
            }
        }
        if self.stream.is_none() {
            self.connect_elsewhere(now, &session, switch);
        }
    }

    /// Never waits: an attempt is begun, and looked after by later calls.
    fn connect_elsewhere(&mut self, now: Time, session: &SessionInfo, switch: SocketAddrV4) {
        if let Some((stream, since)) = self.accepting.take() {
            if stream.peer_addr().is_ok() {
                return self.greet(Stream::Elsewhere(stream), session);
            }
            let refused = !matches!(stream.take_error(), Ok(None));
            self.accepting = (!refused && now < clock::after(since, ACCEPT_MOST)).then_some((stream, since));
        } else if now >= self.next_remote {
            self.next_remote = clock::after(now, REMOTE_RETRY);
            let admin = SocketAddrV4::new(*switch.ip(), switch.port().saturating_add(1));
            self.accepting = start_connecting(admin).ok().map(|stream| (stream, now));
        }
    }

    fn greet(&mut self, stream: Stream, session: &SessionInfo) {
        let local = matches!(stream, Stream::Here(_));
        self.proven_by = (session.signed && !local).then_some(session.lifeline);
        let hello = Hello {
            handle: session.handle,
            lifeline: lifeline_text(self.proven_by.map_or(session.lifeline, veiled)),
            pid: std::process::id(),
            local,
            version: env!("CARGO_PKG_VERSION").into(),
        };
        self.accepting = None;
        self.stream = Some(stream);
        self.line.clear();
        self.outgoing.clear();
        self.write(&Greeting { hello });
    }

    /// Reads what the daemon asks, and answers; and what it wants given up.
    /// And which shards there are.
    pub(crate) fn on_readable(
        &mut self,
        list: impl Fn(&ListRequest) -> Listing,
        abort: impl Fn(Abort),
        divide: impl Fn(Divided),
    ) {
        if self.converse(list, abort, divide).is_err() {
            self.lose_stream();
        }
    }

    fn converse(
        &mut self,
        list: impl Fn(&ListRequest) -> Listing,
        abort: impl Fn(Abort),
        divide: impl Fn(Divided),
    ) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let mut bytes = [0; 1024];
        let count = match stream.read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if is_temporary(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.line.extend_from_slice(&bytes[..count]);
        while let Some(end) = self.line.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            if let Ok(welcome) = serde_json::from_slice::<Welcome>(&line) {
                if !welcome.ok {
                    self.next_local = clock::after(clock::now(), REMOTE_RETRY);
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
                self.held.store(matches!(self.stream, Some(Stream::Here(_))), Relaxed);
                continue;
            }
            let Some(line) = self.believed(line) else { continue };
            if let Ok(request) = serde_json::from_slice::<ListRequest>(&line) {
                // Asked again before it has read the answer: it has one coming.
                if self.outgoing.is_empty() {
                    self.write(&list(&request));
                }
            } else if let Ok(order) = serde_json::from_slice::<Abort>(&line) {
                abort(order);
            } else if let Ok(divided) = serde_json::from_slice::<Divided>(&line) {
                divide(divided);
            }
        }
        if self.line.len() > self.proven_by.map_or(DAEMON_LINE, |_| PROVEN_LINE) {
            // What comes of the rest is no line that is known.
            self.line.clear();
        }
        Ok(())
    }

    fn believed(&self, line: Vec<u8>) -> Option<Vec<u8>> {
        let Some(lifeline) = self.proven_by else { return Some(line) };
        serde_json::from_slice::<Proven>(&line).ok()?.line(lifeline).map(String::into_bytes)
    }

    fn write(&mut self, line: &impl serde::Serialize) {
        serde_json::to_writer(&mut self.outgoing, line).expect("a line has string keys, and a Vec takes everything");
        self.outgoing.push(b'\n');
        self.flush();
    }

    /// Writes what the daemon will take now: this thread has agents to run, and cannot wait for it.
    fn flush(&mut self) {
        while !self.outgoing.is_empty()
            && let Some(stream) = &mut self.stream
        {
            match stream.write(&self.outgoing) {
                Ok(count) => drop(self.outgoing.drain(..count)),
                Err(error) if is_temporary(&error) => return,
                Err(_) => self.lose_stream(),
            }
        }
    }

    /// The daemon has closed it.
    fn lose_stream(&mut self) {
        self.stream = None;
        self.line.clear();
        self.outgoing.clear();
        self.held.store(false, Relaxed);
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// A connection to a daemon, which never blocks.
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

    /// Whether the daemon has closed it.
    fn has_ended(&self) -> bool {
        let (mut byte, flags) = ([0_u8; 1], libc::MSG_PEEK | libc::MSG_DONTWAIT);
        // SAFETY: a byte of this frame, and a descriptor that is open.
        unsafe { libc::recv(self.descriptor(), byte.as_mut_ptr().cast(), 1, flags) == 0 }
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Here(stream) => stream.read(bytes),
            Stream::Elsewhere(stream) => stream.read(bytes),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Here(stream) => stream.write(bytes),
            Stream::Elsewhere(stream) => stream.write(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use wayside_wire::{Engine, Policy};

    fn session(incarnation: u64) -> SessionInfo {
        SessionInfo {
            handle: 1,
            incarnation,
            epoch: 1,
            namespace: 1,
            slots: 1,
            engine: Engine::Fission,
            policy: Policy::Fair,
            patience: 8,
            lease: 1,
            grace: 1,
            lease_end: Time::NEVER,
            lifeline: 1,
            signed: false,
            version: wayside_wire::VERSION,
        }
    }

    /// Whoever has the port may be no daemon at all.
    #[test]
    fn on_another_host_a_signed_session_shows_no_secret_and_believes_who_knows_it() {
        for signed in [false, true] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            stream.set_nonblocking(true).unwrap();
            let (mut daemon, _) = listener.accept().unwrap();
            let mut written = BufReader::new(daemon.try_clone().unwrap()).lines();
            let mut lifeline = Lifeline::new(Arc::new(AtomicBool::new(false)));
            lifeline.greet(Stream::Elsewhere(stream), &SessionInfo { signed, ..session(7) });
            let Greeting { hello } = serde_json::from_str(&written.next().unwrap().unwrap()).unwrap();
            assert_eq!(hello.lifeline, lifeline_text(if signed { veiled(1) } else { 1 }));

            let plain = |id| serde_json::to_string(&ListRequest { id, list: true, waiting_us: None }).unwrap();
            let abort = serde_json::to_string(&Abort { abort: "5".into(), cycle: String::new() }).unwrap();
            let proven = |line| serde_json::to_string(&Proven::new(1, line)).unwrap();
            let forged = serde_json::to_string(&Proven::new(2, abort.clone())).unwrap();
            for line in [plain(1), abort.clone(), forged, proven(plain(2)), proven(abort)] {
                writeln!(daemon, "{line}").unwrap();
            }
            let (asked, aborted) = (RefCell::new(Vec::new()), Cell::new(0));
            let listing = |request: &ListRequest| {
                asked.borrow_mut().push(request.id);
                let (process, entries, queues) = (String::new(), Vec::new(), Vec::new());
                Listing { id: request.id, process, entries, queues, kept: 0 }
            };
            let since = std::time::Instant::now();
            while asked.borrow().is_empty() || aborted.get() == 0 {
                lifeline.on_readable(listing, |_| aborted.set(aborted.get() + 1), |_| ());
                assert!(since.elapsed() < Duration::from_secs(10));
            }
            assert_eq!((asked.take(), aborted.get()), (vec![if signed { 2 } else { 1 }], 1), "signed: {signed}");
        }
    }

    #[test]
    fn a_lost_sessions_lifeline_is_kept_until_the_end_that_its_guards_were_told() {
        let held = Arc::new(AtomicBool::new(true));
        let mut lifeline = Lifeline::new(held.clone());
        let (here, mut daemons) = UnixStream::pair().unwrap();
        daemons.set_nonblocking(true).unwrap();
        lifeline.stream = Some(Stream::Here(here));
        let until = clock::after(clock::now(), Duration::from_secs(60));
        lifeline.let_go(until);
        assert!(!held.load(Relaxed) && lifeline.descriptor() == -1, "the next session's is another one");
        lifeline.end();
        assert_eq!(daemons.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock, "it is open");
        assert_eq!(lifeline.due(), until);
        lifeline.close_former(until);
        assert_eq!(daemons.read(&mut [0]).unwrap(), 0);
    }

    /// The switch before may be the session's again, and its daemon would take the end for the process's.
    #[test]
    fn a_session_that_goes_on_at_another_switch_keeps_its_lifeline_to_the_one_before() {
        let mut lifeline = Lifeline::new(Arc::new(AtomicBool::new(true)));
        let switch = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        lifeline.keep(Some(session(7)), switch(1));
        let (here, mut daemons) = UnixStream::pair().unwrap();
        daemons.set_nonblocking(true).unwrap();
        lifeline.stream = Some(Stream::Here(here));
        for port in [2, 1, 2] {
            lifeline.keep(Some(session(7)), switch(port));
            lifeline.close_former(clock::now());
            assert_eq!(daemons.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock, "it is open");
        }
        lifeline.keep(Some(session(8)), switch(2));
        assert_eq!(daemons.read(&mut [0]).unwrap(), 0, "that session is over");
    }

    #[test]
    fn what_a_daemon_has_closed_is_not_kept() {
        let mut lifeline = Lifeline::new(Arc::new(AtomicBool::new(true)));
        for _ in 0..3 {
            lifeline.stream = Some(Stream::Here(UnixStream::pair().unwrap().0));
            lifeline.leave();
        }
        assert_eq!(lifeline.former.len(), 1, "the last one's end is noticed by the next");
    }
}
