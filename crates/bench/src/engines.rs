//! Queues in the switch beside lock fission, over one endpoint: a switch with a namespace of each engine, two hosts,
//! and the same names. Acquires take turns, and so do hand-overs; each engine is at each host in half of the turns.

use crate::handover;
use crate::knobs::{self, CLIENT_CORE, TAKES_OVER};
use crate::report::{How, Ratio, Row, bars};
use crate::samples::Samples;
use crate::{Error, Waiting};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use wayside_client::{Guard, Session};

/// Namespaces, and what they are called in a report.
const ENGINES: [&str; 2] = ["fission", "queues"];
const OPERATIONS: [[&str; 4]; 2] = [
    ["fission acquire", "fission acquire, release", "fission hand-over, spinning", "fission hand-over, blocking"],
    ["queued acquire", "queued acquire, release", "queue hand-over, spinning", "queue hand-over, blocking"],
];
/// Locks with a queue in the switch, besides that of hand-overs: more than are held at a time.
const NAMES: usize = 256;
/// Of each queue.
const CELLS: usize = 8;
/// Of a turn.
const ACQUIRES: usize = 200;
const CYCLES: usize = 50;
const WARM_UP: usize = 20;
/// How often each engine hands over, for each way of waiting: sessions of their own each time, whose threads fall into
/// steps of their own, for better or worse.
const HAND_OVER_ROUNDS: u32 = 24;

/// Begins a session at one of the two hosts, of this namespace, whose threads wait so and are bound to this core.
type Connect<'e> = dyn Fn(usize, &str, Waiting, usize) -> Result<Session, Error> + Sync + 'e;

/// Where the two hosts are, and how they reach the switch.
pub(crate) struct Ends<'e> {
    pub(crate) connect: &'e Connect<'e>,
    /// Brings the calling thread there.
    pub(crate) enter: &'e (dyn Fn(usize) + Sync),
    /// Where they run while they hand over.
    pub(crate) cores: [usize; 2],
    /// How clients wait for what they acquire,
    pub(crate) waiting: Waiting,
    /// and how those who hand over do.
    pub(crate) hand_overs: &'e [Waiting],
}

/// The configuration of such a switch.
pub(crate) fn settings() -> String {
    let queues: Vec<String> = names().chain([handover::NAME.to_owned()]).map(|name| format!("{name:?}")).collect();
    format!(
        "[[namespace]]\nname = {:?}\n[[namespace]]\nname = {:?}\nengine = \"queue\"\ncells = {CELLS}\nqueues = [{}]\n",
        ENGINES[0],
        ENGINES[1],
        queues.join(", ")
    )
}

fn names() -> impl Iterator<Item = String> {
    (0..NAMES).map(|index| format!("lock {index}"))
}

/// Of one engine.
struct Side {
    acquires: Samples,
    cycles: Samples,
    spinning: Samples,
    blocking: Samples,
}

impl Side {
    fn new(names: [&'static str; 4]) -> Side {
        let [acquires, cycles, spinning, blocking] = names.map(Samples::new);
        Side { acquires, cycles, spinning, blocking }
    }

    fn hand_overs(&mut self, waiting: Waiting) -> &mut Samples {
        if waiting == Waiting::Spinning { &mut self.spinning } else { &mut self.blocking }
    }
}

/// Measures for about as long as it is told. Rows and ratios of all that was compared.
pub(crate) fn measure(ends: &Ends<'_>, how: &How, how_long: Duration) -> Result<(Vec<Row>, Vec<Ratio>), Error> {
    let mut sides = OPERATIONS.map(Side::new);
    for swapped in [false, true] {
        acquire_in_turns(ends, swapped, how_long / 4, &mut sides)?;
    }
    let each = how_long / (4 * HAND_OVER_ROUNDS * ends.hand_overs.len().max(1) as u32);
    for round in 0..HAND_OVER_ROUNDS {
        for &waiting in ends.hand_overs {
            for turn in 0..ENGINES.len() {
                let engine = (turn + round as usize) % ENGINES.len();
                hand_over(ends, ENGINES[engine], waiting, each, sides[engine].hand_overs(waiting))?;
            }
        }
    }
    let acquires = How { waits: ends.waiting.name().into(), ..how.clone() };
    let handed = |waiting: Waiting| How { waits: waiting.name().into(), ..how.clone() };
    let rows = sides.iter().flat_map(|side| {
        let (spinning, blocking) = (handed(Waiting::Spinning), handed(Waiting::Blocking));
        let own = [side.acquires.row(&acquires), side.cycles.row(&acquires)];
        own.into_iter().chain([side.spinning.row(&spinning), side.blocking.row(&blocking)])
    });
    let rows = rows.flatten().collect();
    let [fission, queue] = &sides;
    let mut ratios = vec![
        queue.acquires.ratio("queued acquire / fission's", &fission.acquires).meant(bars::QUEUE),
        queue.cycles.ratio("queued acquire and release / fission's", &fission.cycles),
    ];
    for waiting in ends.hand_overs {
        let (what, own, other) = match waiting {
            Waiting::Spinning => ("queue hand-over, spinning / fission's", &queue.spinning, &fission.spinning),
            Waiting::Blocking => ("queue hand-over, blocking / fission's", &queue.blocking, &fission.blocking),
        };
        ratios.push(own.ratio(what, other).meant(bars::QUEUE));
    }
    Ok((rows, ratios))
}

/// Both engines' acquires, one turn after the other on one core: who has no turn sleeps.
fn acquire_in_turns(ends: &Ends<'_>, swapped: bool, how_long: Duration, sides: &mut [Side; 2]) -> Result<(), Error> {
    let until = Instant::now() + how_long;
    let (to_one, one) = channel();
    let (to_other, other) = channel();
    // The first turn.
    to_one.send(()).map_err(|error| error.to_string())?;
    let batons = [(one, to_other), (other, to_one)];
    let outcomes = thread::scope(|scope| {
        let threads: Vec<_> = sides
            .iter_mut()
            .zip(batons)
            .enumerate()
            .map(|(engine, (side, (mine, theirs)))| {
                let end = if swapped { 1 - engine } else { engine };
                scope.spawn(move || {
                    (ends.enter)(end);
                    knobs::pin(CLIENT_CORE);
                    let session = (ends.connect)(end, ENGINES[engine], ends.waiting, CLIENT_CORE);
                    // Only the first may end it, so that both have had as many turns.
                    let ends_at = (engine == 0).then_some(until);
                    Client::new(session?).take_turns(side, &mine, &theirs, ends_at)
                })
            })
            .collect();
        let join =
            |thread: thread::ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|_| Err("it panicked".into()));
        threads.into_iter().map(join).collect::<Vec<Result<(), Error>>>()
    });
    outcomes.into_iter().collect()
}

/// A session that acquires.
struct Client {
    session: Session,
    names: Vec<String>,
    next: usize,
    guards: Vec<Guard>,
}

impl Client {
    fn new(session: Session) -> Client {
        Client { session, names: names().collect(), next: 0, guards: Vec::with_capacity(NAMES) }
    }

    /// Until the time is over, or the other one has ended.
    fn take_turns(
        mut self,
        side: &mut Side,
        mine: &Receiver<()>,
        theirs: &Sender<()>,
        until: Option<Instant>,
    ) -> Result<(), Error> {
        let mut is_warm = false;
        while mine.recv().is_ok() {
            if is_warm && until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
            if !is_warm {
                self.warm_up(side)?;
                is_warm = true;
            }
            self.turn(side)?;
            side.acquires.end_round(true);
            side.cycles.end_round(true);
            if theirs.send(()).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Until sockets, buffers and caches are in use, by the transport that was asked for.
    fn warm_up(&mut self, side: &mut Side) -> Result<(), Error> {
        let began = Instant::now();
        for turn in 0.. {
            self.turn(side)?;
            side.acquires.end_round(false);
            side.cycles.end_round(false);
            let ports = self.session.transport().ports;
            if turn > 1 && ports.iter().all(|port| port.queue.is_some()) {
                break;
            }
            if began.elapsed() > TAKES_OVER {
                return Err(format!("AF_XDP did not take over: {}", self.session.transport()));
            }
        }
        Ok(())
    }

    fn turn(&mut self, side: &mut Side) -> Result<(), Error> {
        for _ in 0..WARM_UP {
            self.next()?.release().map_err(|error| error.to_string())?;
        }
        self.settle()?;
        for _ in 0..ACQUIRES {
            let guard = side.acquires.time(|| self.next())?;
            self.guards.push(guard);
        }
        self.guards.clear();
        self.settle()?;
        for _ in 0..CYCLES {
            side.cycles.time(|| self.next()?.release().map_err(|error| error.to_string()))?;
        }
        self.settle()
    }

    /// Acquires the name that was given back longest ago.
    fn next(&mut self) -> Result<Guard, Error> {
        self.next = (self.next + 1) % NAMES;
        self.session.lock(&self.names[self.next]).acquire().map_err(|error| error.to_string())
    }

    fn settle(&self) -> Result<(), Error> {
        crate::wayside::settle(&self.session)
    }
}

/// From release to wake-up.
fn hand_over(
    ends: &Ends<'_>,
    namespace: &str,
    waiting: Waiting,
    how_long: Duration,
    samples: &mut Samples,
) -> Result<(), Error> {
    let connect = |end: usize| (ends.connect)(end, namespace, waiting, ends.cores[end]);
    let enter = |end: usize| {
        (ends.enter)(end);
        knobs::pin(ends.cores[end]);
    };
    let nodes: [(Session, &(dyn Fn() + Sync)); 2] = [(connect(0)?, &|| enter(0)), (connect(1)?, &|| enter(1))];
    handover::between(waiting, nodes, how_long, samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_names_have_a_queue_than_are_held_at_a_time() {
        const { assert!(NAMES > ACQUIRES && NAMES > WARM_UP) };
        let settings = settings();
        assert_eq!(settings.matches("\"lock ").count(), NAMES);
        assert!(settings.contains(&format!("{:?}]", handover::NAME)) && settings.contains("engine = \"queue\""));
    }
}
