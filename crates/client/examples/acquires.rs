//! Locks against a switch that runs already, and what they came to: `cargo run -p wayside-client --example acquires --
//! 1000` with the switch's address in `WAYSIDE_ENDPOINTS`. For trying a driver or a network, not for figures: `make
//! bench` has those. It fails if two holders met, or if something did not go the way that it was to go.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use wayside_client::{Error, Path, Session, Wait};

/// Longer than an emulated switch takes, with losses.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let count = std::env::args().nth(1).map_or(Ok(1_000), |count| count.parse());
    match count
        .map_err(|_| "usage: acquires [COUNT]".to_owned())
        .and_then(|count| run(count).map_err(|e| e.to_string()))
    {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("acquires: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(count: u64) -> Result<bool, Error> {
    let session = || Session::builder().wait(Wait::Block).connect();
    let (one, other) = (session()?, session()?);
    let free = free(&one, count)?;
    again(&one, count)?;
    let alternating = alternating(&one, &other, count)?;
    let joins = joins(&one, &other, count)?;
    for session in [one, other] {
        let transport = session.transport();
        let packets: Vec<_> = transport.ports.iter().map(|port| (port.sent, port.received, port.strays)).collect();
        println!("by {transport}; sent, received, and received by UDP despite a queue: {packets:?}");
    }
    Ok(free && alternating && joins)
}

/// One node, and locks that nobody has: a packet to the switch and one back.
fn free(session: &Session, count: u64) -> Result<bool, Error> {
    let mut times = Vec::with_capacity(count as usize);
    for name in 0..count {
        let began = Instant::now();
        let guard = session.lock(name).wait(PATIENCE).acquire()?;
        times.push(began.elapsed());
        guard.release()?;
    }
    let by_switch = session.grants().switch;
    times.sort_unstable();
    println!(
        "{count} acquires of free locks, {by_switch} granted by the switch: median {:?}, longest {:?}",
        times[times.len() / 2],
        times[times.len() - 1]
    );
    Ok(is_nearly(by_switch, count))
}

/// A packet that is lost, or overtaken by its second copy on a busy machine, may be answered by an agent: one of a
/// hundred. What a driver does not carry is missing more often.
fn is_nearly(by_switch: u64, count: u64) -> bool {
    by_switch >= count - count.div_ceil(100)
}

/// One node, and one lock again and again: where it keeps it (`WAYSIDE_KEEP`), no packet but for the first and every
/// 255th.
fn again(session: &Session, count: u64) -> Result<(), Error> {
    let (before, mut times) = (session.grants(), Vec::with_capacity(count as usize));
    for _ in 0..count {
        let began = Instant::now();
        session.lock("acquires/again").wait(PATIENCE).acquire()?.release()?;
        times.push(began.elapsed());
    }
    let by_switch = session.grants().switch - before.switch;
    times.sort_unstable();
    println!(
        "{count} turns with one lock, {by_switch} granted by the switch: median {:?}, longest {:?}",
        times[times.len() / 2],
        times[times.len() - 1]
    );
    Ok(())
}

/// Two nodes that want one lock: it changes hands, and never has two holders.
fn alternating(one: &Session, other: &Session, count: u64) -> Result<bool, Error> {
    let counter = AtomicU64::new(0);
    let work = |session: &Session| {
        for _ in 0..count {
            let guard = session.lock("acquires/one").wait(PATIENCE).acquire()?;
            // Not one step: a second holder would be seen by a lost addition.
            let before = counter.load(Relaxed);
            thread::yield_now();
            counter.store(before + 1, Relaxed);
            guard.release()?;
        }
        Ok::<(), Error>(())
    };
    thread::scope(|scope| {
        let threads = [scope.spawn(|| work(one)), scope.spawn(|| work(other))];
        threads.into_iter().try_for_each(|thread| thread.join().expect("nothing in it panics"))
    })?;
    let sum = counter.into_inner();
    println!("{} acquires of one lock by two nodes: {sum} counted, exclusively", 2 * count);
    Ok(sum == 2 * count)
}

/// One node holds a lock shared; the other joins: the switch grants, and tells the first in a second packet.
fn joins(one: &Session, other: &Session, count: u64) -> Result<bool, Error> {
    let _held = one.lock("acquires/shared").shared().wait(PATIENCE).acquire()?;
    let mut by_switch = 0;
    for _ in 0..count {
        let guard = other.lock("acquires/shared").shared().wait(PATIENCE).acquire()?;
        by_switch += u64::from(guard.path() == Path::Switch);
        guard.release()?;
    }
    println!("{count} acquires of a shared lock that another node has: {by_switch} granted by the switch");
    Ok(is_nearly(by_switch, count))
}
