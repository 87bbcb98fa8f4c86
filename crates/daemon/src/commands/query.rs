//! A command's question to the daemon, over the control connection.

use crate::answers::{Query, Refused};
use crate::cli::EndpointArgs;
use crate::failure::Failure;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// To connect; and then, because listing locks takes the daemon up to a second, twice as long to answer.
const CONNECT: Duration = Duration::from_secs(2);
const ANSWER: Duration = Duration::from_secs(10);
/// Room for a million locks.
const LONGEST: u64 = 256 << 20;

/// Asks the switch at the first endpoint that answers; the line as it came and what it says.
pub fn ask<T: DeserializeOwned>(endpoints: &EndpointArgs, query: &Query) -> Result<(String, T), Failure> {
    let mut last = Failure::unavailable("no endpoint: name the switch with --endpoint or WAYSIDE_ENDPOINTS");
    for endpoint in &endpoints.endpoints {
        let address = endpoint.resolve().map_err(|error| Failure::usage(error.to_string()))?;
        match exchange(address, query) {
            Ok(line) => return understand(line),
            Err(error) => {
                last = Failure::system(
                    format_args!(
                        "no Wayside switch answers at {address}; start one with `wayside dev`, or name another with \
                         --endpoint or WAYSIDE_ENDPOINTS"
                    ),
                    &error,
                );
            }
        }
    }
    Err(last)
}

fn understand<T: DeserializeOwned>(line: String) -> Result<(String, T), Failure> {
    if let Ok(Refused { error }) = serde_json::from_str(&line) {
        return Err(Failure::unavailable(error));
    }
    match serde_json::from_str(&line) {
        Ok(answer) => Ok((line, answer)),
        Err(error) => Err(Failure::unavailable(format!(
            "the switch's answer is not understood ({error}); is it of another version?"
        ))),
    }
}

/// One line out, one line back: over the Unix socket of a daemon on this host, otherwise over its admin port.
fn exchange(switch: SocketAddrV4, query: &Query) -> std::io::Result<String> {
    if let Ok(stream) = UnixStream::connect(wayside_client::control_socket(switch)) {
        stream.set_read_timeout(Some(ANSWER))?;
        return converse(&stream, &stream, query);
    }
    let admin = SocketAddrV4::new(*switch.ip(), switch.port().saturating_add(1));
    let stream = TcpStream::connect_timeout(&admin.into(), CONNECT)?;
    stream.set_read_timeout(Some(ANSWER))?;
    converse(&stream, &stream, query)
}

fn converse(read: impl Read, mut write: impl Write, query: &Query) -> std::io::Result<String> {
    let mut line = serde_json::to_string(query)?;
    line.push('\n');
    write.write_all(line.as_bytes())?;
    line.clear();
    BufReader::new(read.take(LONGEST)).read_line(&mut line)?;
    if line.is_empty() {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().into())
}
