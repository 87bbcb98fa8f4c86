//! The daemon's end of a session's control connection, spoken by a test.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

pub struct Daemon {
    pub stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Daemon {
    pub fn accept(listener: &UnixListener) -> Daemon {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap());
        Daemon { stream, lines }
    }

    pub fn read<T: serde::de::DeserializeOwned>(&mut self) -> T {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    pub fn write(&mut self, line: &impl serde::Serialize) {
        writeln!(self.stream, "{}", serde_json::to_string(line).unwrap()).unwrap();
    }

    pub fn is_closed(&mut self) -> bool {
        self.lines.read_line(&mut String::new()).unwrap() == 0
    }
}
