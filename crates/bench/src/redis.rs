//! The usual way: a lock in Redis, `SET name token NX PX time` and `DEL name`, on a server of its own, if there is one.
//!
//! It gives less than Wayside does: no queue, no fencing token that rises, no notice of loss.

use crate::Error;
use crate::knobs::{self, SERVER_CORE};
use crate::samples::Samples;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const START_MOST: Duration = Duration::from_secs(5);

/// A Redis that this process started, and a connection to it.
pub(crate) struct Redis {
    child: Child,
    stream: TcpStream,
    next: u64,
    line: Vec<u8>,
}

impl Redis {
    /// None if it is not installed.
    pub(crate) fn start() -> Result<Option<Redis>, Error> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.map_err(|error| format!("no port for Redis: {error}"))?;
        let mut command = Command::new("redis-server");
        command
            .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
            .args(["--save", "", "--appendonly", "no", "--dir", "/"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // SAFETY: system calls only, between fork and exec.
        unsafe {
            command.pre_exec(|| {
                knobs::pin(SERVER_CORE);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("redis-server does not start: {error}")),
        };
        let began = Instant::now();
        loop {
            match TcpStream::connect(address) {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(|error| error.to_string())?;
                    return Ok(Some(Redis { child, stream, next: 0, line: Vec::with_capacity(128) }));
                }
                Err(error) if began.elapsed() > START_MOST => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(format!("redis-server does not answer: {error}"));
                }
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Acquires and gives back `count` fresh names; the acquires are also timed apart.
    pub(crate) fn cycles(&mut self, count: usize, acquires: &mut Samples, cycles: &mut Samples) -> Result<(), Error> {
        for _ in 0..count {
            self.next += 1;
            let name = format!("lock:{:016x}", self.next);
            let began = Instant::now();
            let set = self.ask(&["SET", &name, "0123456789abcdef", "NX", "PX", "10000"], b"+OK\r\n");
            acquires.record(began);
            set?;
            self.ask(&["DEL", &name], b":1\r\n")?;
            cycles.record(began);
        }
        Ok(())
    }

    fn ask(&mut self, words: &[&str], expected: &[u8]) -> Result<(), Error> {
        self.line.clear();
        let failed = |error: std::io::Error| format!("Redis: {error}");
        write!(self.line, "*{}\r\n", words.len()).map_err(failed)?;
        for word in words {
            write!(self.line, "${}\r\n{word}\r\n", word.len()).map_err(failed)?;
        }
        self.stream.write_all(&self.line).map_err(failed)?;
        let mut answer = [0; 16];
        let answer = &mut answer[..expected.len()];
        self.stream.read_exact(answer).map_err(failed)?;
        if answer == expected { Ok(()) } else { Err(format!("Redis answered {:?}", String::from_utf8_lossy(answer))) }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
