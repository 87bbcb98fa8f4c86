//! Nothing but one kind of work, again and again, for a tool that counts instructions: what the library itself costs,
//! without the noise of a clock.
//!
//! ```text
//! cargo build --release -p wayside-client --example instructions
//! valgrind --tool=callgrind --separate-threads=yes target/release/examples/instructions acquire 3000
//! ```
//!
//! with the switch's address in `WAYSIDE_ENDPOINTS`. Locks are numbers, from 0, that nobody has had since the switch
//! began. The difference of two runs of different lengths, in the file of the first thread, is what the work costs. A
//! thread that waits sleeps here, so nothing counts how often it would have looked. `acquire` gives back a hundred at a
//! time, `cycle` at once, and `many` takes and gives back a packet of them.

use std::process::ExitCode;
use wayside_client::{Error, Guard, Session, Wait};

/// Guards at a time.
const HELD: u64 = 100;
/// Locks in a packet.
const PACKET: u64 = 32;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let count = arguments.get(1).and_then(|count| count.parse::<u64>().ok());
    let outcome = match (arguments.first().map(String::as_str), count) {
        (Some("acquire"), Some(count)) => run(count, acquire),
        (Some("cycle"), Some(count)) => run(count, cycle),
        (Some("many"), Some(count)) => run(count, many),
        _ => {
            eprintln!("usage: instructions acquire|cycle|many COUNT");
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = outcome {
        eprintln!("instructions: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn run(count: u64, work: fn(&Session, u64) -> Result<(), Error>) -> Result<(), Error> {
    let session = Session::builder().wait(Wait::Block).connect()?;
    work(&session, count)?;
    while !session.is_idle() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Ok(())
}

/// Acquires, and gives back a hundred at a time.
fn acquire(session: &Session, count: u64) -> Result<(), Error> {
    let mut guards = Vec::with_capacity(HELD as usize);
    for name in 0..count {
        guards.push(session.lock(name).acquire()?);
        if guards.len() as u64 == HELD {
            guards.drain(..).try_for_each(Guard::release)?;
        }
    }
    Ok(())
}

/// Acquires and gives back at once.
fn cycle(session: &Session, count: u64) -> Result<(), Error> {
    (0..count).try_for_each(|name| session.lock(name).acquire()?.release())
}

/// Acquires and gives back a packet of locks at a time.
fn many(session: &Session, count: u64) -> Result<(), Error> {
    (0..count / PACKET).try_for_each(|packet| {
        let first = packet * PACKET;
        session.lock_many(first..first + PACKET).acquire()?.release()
    })
}
