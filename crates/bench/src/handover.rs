//! Two nodes that want one lock: from one's release to the other's grant, through the switch, agency and all.
//!
//! Where both are on one core they wait blocking, whatever the mode: two threads that spin there measure the scheduler.

use crate::knobs::TAKES_OVER;
use crate::samples::Samples;
use crate::{Error, Waiting};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wayside_client::{Guard, Session, Transport, Wait};

/// The lock.
pub(crate) const NAME: &str = "hand-over";
/// How long a lock is held, for the other one's request to reach the agent meanwhile.
const HOLD: Duration = Duration::from_micros(30);

struct Shared<'s> {
    began: Instant,
    /// Nanoseconds after `began`; 0: not yet.
    released: AtomicU64,
    /// The one that released last: its own next grant is no hand-over.
    by: AtomicU64,
    over: AtomicBool,
    /// Both send as they are to.
    ready: Barrier,
    samples: Mutex<&'s mut Samples>,
}

/// Those of threads that spin, and of threads that sleep.
pub(crate) fn samples(waiting: Waiting) -> Samples {
    Samples::new(match waiting {
        Waiting::Spinning => "contended hand-over, spinning",
        Waiting::Blocking => "contended hand-over, blocking",
    })
}

/// Measures for about as long as it is told.
pub(crate) fn run(endpoint: &str, how_long: Duration) -> Result<Samples, Error> {
    let connect = || Session::builder().keep(0).endpoint(endpoint).namespace("default").wait(Wait::Block).connect();
    let connect = || connect().map_err(|error| error.to_string());
    let mut samples = samples(Waiting::Blocking);
    between(Waiting::Blocking, [(connect()?, &|| {}), (connect()?, &|| {})], how_long, &mut samples)?;
    Ok(samples)
}

/// A round between two sessions, each used by a thread that first goes to its place.
pub(crate) fn between(
    waiting: Waiting,
    nodes: [(Session, &(dyn Fn() + Sync)); 2],
    how_long: Duration,
    samples: &mut Samples,
) -> Result<(), Error> {
    let shared = Shared {
        began: Instant::now(),
        released: AtomicU64::new(0),
        by: AtomicU64::new(u64::MAX),
        over: AtomicBool::new(false),
        ready: Barrier::new(3),
        samples: Mutex::new(samples),
    };
    let outcome = thread::scope(|scope| {
        let threads: Vec<_> = (0u64..)
            .zip(nodes)
            .map(|(index, (session, go_to_place))| {
                let shared = &shared;
                scope.spawn(move || {
                    go_to_place();
                    let warm = warm_up(&session);
                    shared.ready.wait();
                    warm.and_then(|()| take_turns(&session, index, waiting, shared))
                })
            })
            .collect();
        shared.ready.wait();
        thread::sleep(how_long);
        shared.over.store(true, SeqCst);
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a node panicked".into())))
    });
    outcome?;
    samples.end_round(true);
    Ok(())
}

/// Takes the lock until the thread sends by what it was told to.
fn warm_up(session: &Session) -> Result<(), Error> {
    let began = Instant::now();
    loop {
        session.lock(NAME).acquire().and_then(Guard::release).map_err(|error| error.to_string())?;
        let transport = session.transport();
        let has_queues = || !transport.ports.is_empty() && transport.ports.iter().all(|port| port.queue.is_some());
        if transport.asked == Transport::Udp || has_queues() {
            return Ok(());
        }
        if began.elapsed() > TAKES_OVER {
            return Err(format!("AF_XDP did not take over: {transport}"));
        }
    }
}

fn take_turns(session: &Session, index: u64, waiting: Waiting, shared: &Shared<'_>) -> Result<(), Error> {
    while !shared.over.load(SeqCst) {
        let guard = session.lock(NAME).acquire().map_err(|error| error.to_string())?;
        let released = shared.released.load(SeqCst);
        if released > 0 && shared.by.load(SeqCst) != index {
            let released = shared.began + Duration::from_nanos(released);
            shared.samples.lock().map_err(|_| "the other node panicked")?.record(released);
        }
        hold(waiting);
        shared.by.store(index, SeqCst);
        shared.released.store(shared.began.elapsed().as_nanos() as u64, SeqCst);
        guard.release().map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Who waits spinning works while it holds, on a warm processor; the session's other threads get their turns on it. Who
/// waits blocking sleeps.
fn hold(waiting: Waiting) {
    if waiting == Waiting::Blocking {
        return thread::sleep(HOLD);
    }
    let until = Instant::now() + HOLD;
    while Instant::now() < until {
        thread::yield_now();
    }
}
