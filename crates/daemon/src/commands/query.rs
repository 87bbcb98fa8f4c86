//! A command's question to the daemon, over the control connection.

use super::text::say;
use crate::answers::{Query, Refused};
use crate::cli::{Output, QueryArgs};
use crate::failure::Failure;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::time::Duration;
use wayside_client::Endpoint;
use wayside_client::daemon::connect_here;

/// To connect to another host, and for an answer to begin.
const PATIENCE: Duration = Duration::from_secs(2);
/// For the nodes to list their locks the daemon waits a second, and for deadlocks another one.
const LISTING: Duration = Duration::from_secs(5);
/// Room for a million locks.
const LONGEST: u64 = 256 << 20;

/// Why there is no answer.
pub struct Unanswered {
    pub failure: Failure,
    /// There is a daemon, and it hangs; which process it is, as far as that is known.
    pub hangs: Option<Hung>,
}

/// A daemon that hangs.
#[derive(Clone, Copy, Debug)]
pub struct Hung {
    /// 0: on another host, or in another PID namespace.
    pub pid: i32,
}

impl From<Unanswered> for Failure {
    fn from(unanswered: Unanswered) -> Failure {
        unanswered.failure
    }
}

impl From<Failure> for Unanswered {
    fn from(failure: Failure) -> Unanswered {
        Unanswered { failure, hangs: None }
    }
}

/// Asks each shard, and prints what it says: the line as it came, or as a text, under the shard's name if there are
/// several. Whoever does not answer keeps nobody from being shown.
pub fn tell_each<T: DeserializeOwned>(
    args: &QueryArgs,
    query: &Query,
    show: impl Fn(String, T) -> String,
) -> Result<(), Failure> {
    let mut failure = None;
    for (shard, endpoints) in args.endpoint.of_each() {
        match (ask::<T>(endpoints, query), shard) {
            (Ok((line, answer)), Some(shard)) if args.output == Output::Text => {
                say(&format!("shard {shard}\n{}", show(line, answer)));
            }
            (Ok((line, answer)), _) => say(&show(line, answer)),
            (Err(unanswered), None) => return Err(unanswered.into()),
            (Err(unanswered), Some(shard)) => failure = Some(of_shard(shard, unanswered)),
        }
    }
    failure.map_or(Ok(()), Err)
}

/// Why there is no answer of this shard.
pub fn of_shard(shard: &str, unanswered: Unanswered) -> Failure {
    let why = unanswered.failure;
    Failure::new(why.code, format!("shard {shard}: {}", why.reason()))
}

/// Asks the switch at the first endpoint that answers; the line as it came and what it says.
pub fn ask<T: DeserializeOwned>(endpoints: &[Endpoint], query: &Query) -> Result<(String, T), Unanswered> {
    let nowhere = Failure::unavailable("no endpoint: name the switch with --endpoint or WAYSIDE_ENDPOINTS");
    let mut last = Unanswered::from(nowhere);
    for endpoint in endpoints {
        let address = endpoint.resolve().map_err(|error| Failure::usage(error.to_string()))?;
        match exchange(address, query) {
            Ok(line) => return Ok(understand(line)?),
            Err(unanswered) => last = unanswered,
        }
    }
    Err(last)
}

/// Asks the switches in turn until one does not refuse: of several, one may know. Where none does, why that one
/// refused, or else a standby, or why nobody answered.
pub fn ask_who_knows<T: DeserializeOwned>(endpoints: &[Endpoint], query: &Query) -> Result<(String, T), Unanswered> {
    find_who_knows(endpoints, query).map(|(_, line, answer)| (line, answer))
}

/// As [`ask_who_knows`], and which of them it is.
pub fn find_who_knows<'e, T: DeserializeOwned>(
    endpoints: &'e [Endpoint],
    query: &Query,
) -> Result<(&'e Endpoint, String, T), Unanswered> {
    let (mut refused, mut elsewhere, mut absent) = (None, None, None);
    for endpoint in endpoints {
        let address = endpoint.resolve().map_err(|error| Failure::usage(error.to_string()))?;
        match exchange(address, query) {
            Ok(line) if is_standbys(&line) => elsewhere = elsewhere.or(understand::<T>(line).err().map(Into::into)),
            Ok(line) => match understand(line) {
                Ok((line, answer)) => return Ok((endpoint, line, answer)),
                Err(failure) => refused = refused.or(Some(failure.into())),
            },
            Err(unanswered) => absent = Some(unanswered),
        }
    }
    let nowhere = || Failure::unavailable("no endpoint: name the switch with --endpoint or WAYSIDE_ENDPOINTS").into();
    Err(refused.or(elsewhere).or(absent).unwrap_or_else(nowhere))
}

/// Whether it is refused by one that knows that another switch knows.
fn is_standbys(line: &str) -> bool {
    serde_json::from_str(line).is_ok_and(|refused: Refused| refused.elsewhere)
}

/// Asks all switches; what those say that answer, and the last failure if none does.
pub fn ask_each<T: DeserializeOwned>(endpoints: &[Endpoint], query: &Query) -> Result<Vec<T>, Unanswered> {
    let mut answers = Vec::new();
    let mut last = None;
    for endpoint in endpoints {
        match ask(std::slice::from_ref(endpoint), query) {
            Ok((_, answer)) => answers.push(answer),
            Err(unanswered) => last = Some(unanswered),
        }
    }
    match last {
        Some(unanswered) if answers.is_empty() => Err(unanswered),
        _ => Ok(answers),
    }
}

fn understand<T: DeserializeOwned>(line: String) -> Result<(String, T), Failure> {
    if let Ok(Refused { error, .. }) = serde_json::from_str(&line) {
        return Err(Failure::unavailable(error));
    }
    match serde_json::from_str(&line) {
        Ok(answer) => Ok((line, answer)),
        Err(error) => Err(Failure::unavailable(format!(
            "the switch's answer is not understood ({error}); is it of another version?"
        ))),
    }
}

/// One line out, one line back: over a Unix socket of a daemon on this host, otherwise over its admin port.
fn exchange(switch: SocketAddrV4, query: &Query) -> Result<String, Unanswered> {
    let patience = if matches!(query, Query::Locks | Query::Plan | Query::Deadlocks | Query::Listings) {
        LISTING
    } else {
        PATIENCE
    };
    if let Ok(daemon) = connect_here(switch) {
        let prepare = || {
            daemon.stream.set_nonblocking(false)?;
            daemon.stream.set_write_timeout(Some(patience))?;
            daemon.stream.set_read_timeout(Some(patience))
        };
        let answer = prepare().and_then(|()| converse(&daemon.stream, &daemon.stream, query));
        return answer.map_err(|error| unanswered(switch, daemon.pid, patience, &error));
    }
    let admin = SocketAddrV4::new(*switch.ip(), switch.port().saturating_add(1));
    let stream = TcpStream::connect_timeout(&admin.into(), PATIENCE).map_err(|error| absent(switch, &error))?;
    let prepare = || {
        stream.set_write_timeout(Some(patience))?;
        stream.set_read_timeout(Some(patience))
    };
    let answer = prepare().and_then(|()| converse(&stream, &stream, query));
    answer.map_err(|error| unanswered(switch, 0, patience, &error))
}

fn absent(switch: SocketAddrV4, error: &io::Error) -> Unanswered {
    let failure = Failure::system(
        format_args!(
            "no Wayside switch answers at {switch}; start one with `wayside dev`, or name another with --endpoint or \
             WAYSIDE_ENDPOINTS"
        ),
        error,
    );
    failure.into()
}

/// It was there to connect to.
fn unanswered(switch: SocketAddrV4, pid: i32, patience: Duration, error: &io::Error) -> Unanswered {
    if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
        return absent(switch, error);
    }
    let process = if pid == 0 { String::new() } else { format!(", process {pid},") };
    let failure = Failure::unavailable(format!(
        "the switch's daemon at {switch}{process} takes connections and has not answered within {} s: it is stopped or \
         has no processor to run on",
        patience.as_secs()
    ));
    Unanswered { failure, hangs: Some(Hung { pid }) }
}

fn converse(read: impl Read, mut write: impl Write, query: &Query) -> io::Result<String> {
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
