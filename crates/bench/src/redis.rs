//! The usual way: a lock in Redis, on servers of its own, if it is installed. Taken with `SET name token NX PX time`,
//! given back by a script that deletes the name if it still has that token.
//!
//! It gives less than Wayside does: no queue, no fencing token that rises, no notice of loss. Its client here does
//! less, too: commands are bytes in which only name and token change, an answer is compared with the one expected.

use crate::Error;
use crate::Waiting;
use crate::knobs;
use crate::ports;
use crate::report::How;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const START_MOST: Duration = Duration::from_secs(5);
/// Deletes a lock if it is still the caller's.
const UNLOCK: &str = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
/// Stands for the sixteen digits of name and token.
const DIGITS: &str = "################";
const OK: &[u8] = b"+OK\r\n";
const ONE: &[u8] = b":1\r\n";

/// A Redis that this process started, without persistence, bound to a core.
pub(crate) struct Server {
    child: Child,
    core: usize,
    tcp: SocketAddr,
    directory: PathBuf,
}

impl Server {
    /// None if it is not installed.
    pub(crate) fn start(core: usize) -> Result<Option<Server>, Error> {
        let tcp = ports::free_address()?;
        let directory = std::env::temp_dir().join(format!("wayside-bench-redis-{}-{core}", std::process::id()));
        fs::create_dir_all(&directory).map_err(|error| format!("no directory for Redis: {error}"))?;
        let mut command = Command::new("redis-server");
        command
            .args(["--bind", "127.0.0.1", "--port", &tcp.port().to_string(), "--dir"])
            .arg(&directory)
            .arg("--unixsocket")
            .arg(directory.join("socket"))
            .args(["--save", "", "--appendonly", "no"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // SAFETY: system calls only, between fork and exec.
        unsafe {
            command.pre_exec(move || {
                knobs::pin(core);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                let _ = fs::remove_dir_all(&directory);
                let missing = error.kind() == ErrorKind::NotFound;
                return if missing { Ok(None) } else { Err(format!("redis-server does not start: {error}")) };
            }
        };
        let server = Server { child, core, tcp, directory };
        let began = Instant::now();
        // It opens the Unix socket after the other one.
        while let Err(error) = UnixStream::connect(server.unix()) {
            if began.elapsed() > START_MOST {
                return Err(format!("redis-server does not answer: {error}"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(Some(server))
    }

    fn unix(&self) -> PathBuf {
        self.directory.join("socket")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// By which way a client reaches its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Tcp,
    Unix,
}

/// The next client's first name.
static NAMES: AtomicU64 = AtomicU64::new(0);

/// One client, one command at a time, or 32 in one write.
pub(crate) struct Client {
    /// A socket, but neither kind of it matters from here on.
    socket: File,
    waiting: Waiting,
    line: Line,
    how: How,
    next: u64,
    set: Template,
    unlock: Template,
    bytes: Vec<u8>,
    answer: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(server: &Server, line: Line, waiting: Waiting) -> Result<Client, Error> {
        let spins = waiting == Waiting::Spinning;
        let connect = || -> std::io::Result<OwnedFd> {
            match line {
                Line::Tcp => {
                    let stream = TcpStream::connect(server.tcp)?;
                    stream.set_nodelay(true)?;
                    stream.set_nonblocking(spins)?;
                    Ok(stream.into())
                }
                Line::Unix => {
                    let stream = UnixStream::connect(server.unix())?;
                    stream.set_nonblocking(spins)?;
                    Ok(stream.into())
                }
            }
        };
        let socket = connect().map_err(|error| format!("redis-server is not reached: {error}"))?;
        let how = How {
            transport: if line == Line::Tcp { "TCP" } else { "unix" }.into(),
            cores: if server.core == knobs::CLIENT_CORE { 1 } else { 2 },
            waits: waiting.name().into(),
            signed: "-".into(),
        };
        let name = format!("lock:{DIGITS}");
        let mut client = Client {
            socket: socket.into(),
            waiting,
            line,
            how,
            // Clients of one server share its names.
            next: NAMES.fetch_add(1 << 40, Relaxed),
            set: Template::new(&["SET", &name, DIGITS, "NX", "PX", "10000"]),
            unlock: Template::new(&[]),
            bytes: Vec::with_capacity(1 << 14),
            answer: vec![0; 1 << 12],
        };
        let script = client.load(UNLOCK)?;
        client.unlock = Template::new(&["EVALSHA", &script, "1", &name, DIGITS]);
        Ok(client)
    }

    pub(crate) fn how(&self) -> &How {
        &self.how
    }

    pub(crate) fn line(&self) -> Line {
        self.line
    }

    pub(crate) fn waiting(&self) -> Waiting {
        self.waiting
    }

    /// Takes that many locks of names that nobody has, by one write; they are the last to be given back.
    pub(crate) fn lock(&mut self, count: usize) -> Result<(), Error> {
        self.next += count as u64;
        self.ask(false, count, OK)
    }

    /// Gives back what the last call took.
    pub(crate) fn unlock(&mut self, count: usize) -> Result<(), Error> {
        self.ask(true, count, ONE)
    }

    fn ask(&mut self, unlock: bool, count: usize, expected: &[u8]) -> Result<(), Error> {
        let template = if unlock { &self.unlock } else { &self.set };
        self.bytes.clear();
        let last = self.next;
        (0..count as u64).for_each(|index| template.write(last - index, &mut self.bytes));
        self.send()?;
        let most = count * expected.len();
        let mut got = 0;
        while got < most {
            got += self.receive(got, most)?;
        }
        let answer = &self.answer[..most];
        if answer.chunks(expected.len()).all(|one| one == expected) {
            return Ok(());
        }
        Err(format!("Redis answered {:?}", String::from_utf8_lossy(answer)))
    }

    fn send(&mut self) -> Result<(), Error> {
        self.socket.write_all(&self.bytes).map_err(|error| format!("Redis takes nothing: {error}"))
    }

    /// What has come of an answer, from `got` to `most`.
    fn receive(&mut self, got: usize, most: usize) -> Result<usize, Error> {
        loop {
            match self.socket.read(&mut self.answer[got..most]) {
                Ok(0) => return Err("Redis has closed the connection".into()),
                Ok(bytes) => return Ok(bytes),
                Err(error) if self.waiting == Waiting::Spinning && error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(format!("Redis: {error}")),
            }
        }
    }

    /// Leaves a script with the server; its name there.
    fn load(&mut self, script: &str) -> Result<String, Error> {
        self.bytes.clear();
        Template::new(&["SCRIPT", "LOAD", script]).write(0, &mut self.bytes);
        self.send()?;
        // A length, 40 digits of SHA-1, and two ends of lines.
        let most = "$40\r\n".len() + 40 + "\r\n".len();
        let mut got = 0;
        while got < most {
            got += self.receive(got, most)?;
        }
        let answer = String::from_utf8_lossy(&self.answer[..most]).into_owned();
        let digits = answer.strip_prefix("$40\r\n").map(str::trim_end);
        digits.map(str::to_owned).ok_or_else(|| format!("Redis does not take the script: {answer:?}"))
    }
}

/// A command as bytes, and where the number goes that names lock and token.
struct Template {
    bytes: Vec<u8>,
    numbers: Vec<usize>,
}

impl Template {
    fn new(words: &[&str]) -> Template {
        let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        let count = words.matches("\r\n").count() / 2;
        let text = format!("*{count}\r\n{words}");
        let numbers = text.match_indices(DIGITS).map(|(at, _)| at).collect();
        Template { bytes: text.into_bytes(), numbers }
    }

    fn write(&self, number: u64, to: &mut Vec<u8>) {
        let at = to.len();
        to.extend_from_slice(&self.bytes);
        for place in &self.numbers {
            let place = at + place;
            for (index, digit) in to[place..place + DIGITS.len()].iter_mut().enumerate() {
                *digit = b"0123456789abcdef"[(number >> (60 - 4 * index) & 15) as usize];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_written_with_their_number() {
        let mut bytes = Vec::new();
        Template::new(&["SET", &format!("lock:{DIGITS}"), DIGITS, "NX"]).write(0xabc, &mut bytes);
        let expected = "*4\r\n$3\r\nSET\r\n$21\r\nlock:0000000000000abc\r\n$16\r\n0000000000000abc\r\n$2\r\nNX\r\n";
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    #[test]
    fn a_lock_is_taken_once_and_given_back_by_its_owner_alone() {
        let Some(server) = Server::start(knobs::CLIENT_CORE).unwrap() else {
            return println!("skipped: Redis: redis-server is not installed");
        };
        for line in [Line::Tcp, Line::Unix] {
            for waiting in [Waiting::Spinning, Waiting::Blocking] {
                let mut client = Client::connect(&server, line, waiting).unwrap();
                for count in [1, 32] {
                    client.lock(count).unwrap();
                    client.next -= count as u64;
                    assert!(client.lock(count).is_err(), "they are held");
                    client.unlock(count).unwrap();
                    assert!(client.unlock(count).is_err(), "they are free");
                }
            }
        }
    }
}
