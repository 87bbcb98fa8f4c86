//! A lock and the row that it protects, which another host has: in one round trip, by way of that host, against the
//! lock and then the row, asked for by a datagram over a cable of its own. Both in turn, by the same threads, which all
//! sleep until something comes. Whatever comes alone is fetched by the datagram, and counts with that.

use super::Bench;
use crate::Error;
use crate::recovery::summary::Spread;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};
use wayside_client::{NodeId, Session, Wait};

/// Locks that have a queue in the switch: none is asked for again before its release is long done.
const LOCKS: usize = 64;
const ROWS: usize = 1_000;
const ROW_BYTES: usize = 64;
/// Of each kind, in a run; and before it.
const COUNT: usize = 5_000;
const WARM_UP: usize = 500;
/// Longer than a busy machine keeps a session's thread from running.
const LEASE: Duration = Duration::from_secs(10);
/// A datagram that is not answered by then is lost.
const DATAGRAM: Duration = Duration::from_secs(1);
/// Who serves looks so often whether it is over.
const LOOK: Duration = Duration::from_millis(100);
/// Nodes.
const CLIENT: usize = 0;
const SERVER: usize = 1;

/// A run. Microseconds from the question to lock and row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FetchRun {
    round: u32,
    /// Median, and 99th of a hundred.
    one_trip_us: [f64; 2],
    two_trips_us: [f64; 2],
    /// Grants of one trip that came without their row, of so many.
    alone: usize,
    count: usize,
    failed: Option<String>,
}

impl FetchRun {
    fn of(round: u32, came: Result<(Vec<u64>, Vec<u64>, usize), Error>) -> FetchRun {
        let (came, failed) = match came {
            Ok(came) => (came, None),
            Err(why) => (Default::default(), Some(why)),
        };
        let (one, two, alone) = came;
        let count = one.len();
        FetchRun { round, one_trip_us: quantiles(one), two_trips_us: quantiles(two), alone, count, failed }
    }
}

/// Of nanoseconds.
fn quantiles(mut all: Vec<u64>) -> [f64; 2] {
    all.sort_unstable();
    [50, 99].map(|hundredths| all.get(all.len() * hundredths / 100).map_or(0.0, |nanos| *nanos as f64 / 1e3))
}

fn row(item: usize) -> [u8; ROW_BYTES] {
    let mut row = [item as u8; ROW_BYTES];
    row[..8].copy_from_slice(&(item as u64).to_be_bytes());
    row
}

/// The row that is asked for; none of a question that is none.
fn answer<'r>(rows: &'r [[u8; ROW_BYTES]], ask: &[u8]) -> Option<&'r [u8; ROW_BYTES]> {
    rows.get(usize::try_from(u64::from_be_bytes(ask.try_into().ok()?)).ok()?)
}

fn name(at: usize) -> String {
    format!("row{at}")
}

impl Bench<'_> {
    pub(super) fn fetch(&self, round: u32) -> FetchRun {
        FetchRun::of(round, self.try_fetch())
    }

    fn try_fetch(&self) -> Result<(Vec<u64>, Vec<u64>, usize), Error> {
        let names: Vec<String> = (0..LOCKS).map(|at| format!("\"{}\"", name(at))).collect();
        let settings = format!("engine = \"queue\"\ncells = 4\nqueues = [{}]\n", names.join(", "));
        let running = self.place.start(&self.options.wayside, &settings, &[])?;
        let endpoint = running.endpoint();
        let connect = || {
            let session = Session::builder().endpoint(endpoint.clone()).wait(Wait::Block).lease(LEASE).connect();
            session.map_err(|error| error.to_string())
        };
        let address = self.place.address_beside(SERVER);
        let (ends, (sender, receiver)) = (AtomicBool::new(false), sync_channel(1));
        let (running, ends, address, connect) = (&running, &ends, &address, &connect);
        thread::scope(|scope| {
            let server = scope.spawn(move || {
                running.enter(SERVER);
                serve(&connect()?, address, ends, |id, port| {
                    // Nobody waits for it if the client could not begin.
                    let _ = sender.send((id, port));
                })
            });
            let client = scope.spawn(move || {
                running.enter(CLIENT);
                let (server, port) = receiver.recv_timeout(LEASE).map_err(|_| "the server did not begin")?;
                let came = connect().and_then(|session| ask(&session, server, &format!("{address}:{port}")));
                ends.store(true, Relaxed);
                came
            });
            let came = client.join().expect("it has no reason to panic");
            ends.store(true, Relaxed);
            server.join().expect("it has no reason to panic")?;
            came
        })
    }
}

/// Answers by both ways.
fn serve(session: &Session, address: &str, ends: &AtomicBool, begun: impl FnOnce(NodeId, u16)) -> Result<(), Error> {
    let rows: Vec<[u8; ROW_BYTES]> = (0..ROWS).map(row).collect();
    let own = rows.clone();
    session.serve_fetches(move |fetch| {
        // Without an answer the asker hears so.
        let _ = answer(&own, fetch.ask()).map(|row| fetch.answer(row));
    });
    let socket = UdpSocket::bind((address, 0)).map_err(|error| error.to_string())?;
    socket.set_read_timeout(Some(LOOK)).map_err(|error| error.to_string())?;
    let port = socket.local_addr().map_err(|error| error.to_string())?.port();
    begun(session.id().ok_or("the server has no session")?, port);
    let mut buffer = [0; ROW_BYTES];
    while !ends.load(Relaxed) {
        match socket.recv_from(&mut buffer) {
            Ok((bytes, from)) => {
                if let Some(row) = answer(&rows, &buffer[..bytes]) {
                    socket.send_to(row, from).map_err(|error| error.to_string())?;
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// Asks in both ways, in turn. Nanoseconds of each, and how many locks came alone.
fn ask(session: &Session, server: NodeId, address: &str) -> Result<(Vec<u64>, Vec<u64>, usize), Error> {
    let text = |error: std::io::Error| error.to_string();
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(text)?;
    socket.connect(address).map_err(text)?;
    socket.set_read_timeout(Some(DATAGRAM)).map_err(text)?;
    let by_datagram = |ask: &[u8]| {
        let mut row = [0; ROW_BYTES];
        socket.send(ask).and_then(|_| socket.recv(&mut row)).map_err(text)?;
        Ok::<_, Error>(row.to_vec())
    };
    let (mut one, mut two, mut alone) = (Vec::with_capacity(COUNT), Vec::with_capacity(COUNT), 0);
    for at in 0..WARM_UP + COUNT {
        let item = at % ROWS;
        let question = (item as u64).to_be_bytes();
        let names = [name(2 * at % LOCKS), name((2 * at + 1) % LOCKS)];
        let mut came_alone = false;
        let began = Instant::now();
        let mut guard = session.lock(&*names[0]).fetch(server, &question).acquire().map_err(|e| e.to_string())?;
        let data = match guard.fetched() {
            Ok(data) => data,
            Err(_) => {
                came_alone = true;
                by_datagram(&question)?
            }
        };
        let took = began.elapsed();
        check(&data, item)?;
        guard.release().map_err(|error| error.to_string())?;
        let began = Instant::now();
        let guard = session.lock(&*names[1]).acquire().map_err(|error| error.to_string())?;
        let data = by_datagram(&question)?;
        let took_twice = began.elapsed();
        check(&data, item)?;
        guard.release().map_err(|error| error.to_string())?;
        if at >= WARM_UP {
            one.push(took.as_nanos() as u64);
            two.push(took_twice.as_nanos() as u64);
            alone += usize::from(came_alone);
        }
    }
    Ok((one, two, alone))
}

fn check(data: &[u8], item: usize) -> Result<(), Error> {
    if data == row(item) { Ok(()) } else { Err("a row is not the one that was asked for".into()) }
}

/// The table, or nothing where nothing of it was measured.
pub(super) fn table(runs: &[FetchRun]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let good: Vec<&FetchRun> = runs.iter().filter(|run| run.failed.is_none()).collect();
    let spread = |look: &dyn Fn(&FetchRun) -> f64| Spread::of(good.iter().map(|run| look(run)).collect());
    let cell =
        |look: &dyn Fn(&FetchRun) -> f64| spread(look).map_or_else(|| "failed".into(), |spread| spread.to_string());
    let mut text = format!(
        "**Lock and row** of {ROW_BYTES} bytes, of another host, us.\n\n| | p50 | p99 |\n|{}\n",
        " --- |".repeat(3)
    );
    let _ = writeln!(
        text,
        "| by way of that host, one round trip | {} | {} |",
        cell(&|run| run.one_trip_us[0]),
        cell(&|run| run.one_trip_us[1])
    );
    let _ = writeln!(
        text,
        "| the lock, then the row by a datagram, two | {} | {} |",
        cell(&|run| run.two_trips_us[0]),
        cell(&|run| run.two_trips_us[1])
    );
    let ratio = spread(&|run| run.two_trips_us[0] / run.one_trip_us[0]);
    let ratio = ratio.map_or_else(
        || "failed".into(),
        |ratio| format!("{:.2}x ({:.2} to {:.2})", ratio.median, ratio.least, ratio.most),
    );
    let (alone, count) = good.iter().fold((0, 0), |(alone, count), run| (alone + run.alone, count + run.count));
    let _ = writeln!(text, "| two / one | {ratio} | |\n\nLocks that came without their row: {alone} of {count}.\n");
    text
}

/// Why those that failed did.
pub(super) fn broken(runs: &[FetchRun]) -> impl Iterator<Item = String> {
    runs.iter().filter_map(|run| Some(format!("lock and row, round {}: {}", run.round + 1, run.failed.as_ref()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_medians_and_says_what_failed() {
        let all = |each: u64| vec![each * 1_000; 200];
        let mut runs: Vec<FetchRun> =
            [(0, 10, 20), (1, 12, 18)].map(|(round, one, two)| FetchRun::of(round, Ok((all(one), all(two), 3)))).into();
        runs.push(FetchRun::of(2, Err("it ended".into())));
        let text = table(&runs);
        assert!(text.contains("| by way of that host, one round trip | 11 (10 to 12) | 11 (10 to 12) |"), "{text}");
        assert!(text.contains("| two / one | 1.75x (1.50 to 2.00) | |"), "{text}");
        assert!(text.contains("came without their row: 6 of 400."), "{text}");
        assert_eq!(broken(&runs).collect::<Vec<_>>(), ["lock and row, round 3: it ended"]);
        assert_eq!(table(&[]), "");
    }

    #[test]
    fn a_row_is_found_by_its_number_alone() {
        let rows: Vec<[u8; ROW_BYTES]> = (0..4).map(row).collect();
        assert_eq!(answer(&rows, &3_u64.to_be_bytes()), Some(&row(3)));
        assert_eq!((answer(&rows, &4_u64.to_be_bytes()), answer(&rows, b"3"), answer(&rows, b"")), (None, None, None));
        assert!(check(&row(3), 3).is_ok() && check(&row(3), 2).is_err());
    }
}
