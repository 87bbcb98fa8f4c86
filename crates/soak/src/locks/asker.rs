//! A thread that asks for locks.

use super::history::Event;
use crate::history;
use crate::worker::{Part, WorkerArgs, word_of};
use crate::world::{CLIENTS, WORKERS};
use std::io;
use std::thread;
use std::time::{Duration, Instant};
use wayside_client::{Error, Guard, Guards};

/// Between two looks at a hold.
const LOOK: Duration = Duration::from_millis(5);

/// What is held.
enum Held {
    One(Guard),
    Many(Guards),
}

impl Held {
    fn tokens(&self) -> Vec<u64> {
        match self {
            Held::One(guard) => vec![guard.token().0],
            Held::Many(guards) => guards.each().iter().map(|guard| guard.token().0).collect(),
        }
    }

    fn deadline(&self) -> Instant {
        match self {
            Held::One(guard) => guard.deadline(),
            Held::Many(guards) => guards.deadline().expect("there are some"),
        }
    }
}

/// Asks, holds for a while, gives back.
pub fn one(part: &mut Part<'_>, operation: u64) -> io::Result<()> {
    let several = part.random.u8(..100) < 15;
    let exclusive = part.random.u8(..100) < 65;
    let mut names: Vec<u64> = (0..if several { 3 } else { 1 }).map(|_| name(part)).collect();
    part.history.write(history::now(), operation, Event::Ask { names: names.clone(), exclusive })?;
    let asked = ask(part, &names, several, exclusive);
    let held_at = history::now();
    let mut held = match asked {
        Ok(held) => held,
        Err(error) => return part.history.write(held_at, operation, Event::Denied { why: word_of(&error) }),
    };
    if let Held::Many(guards) = &held {
        // As they were taken: each name once.
        let order: Vec<u64> = guards.each().iter().filter_map(|guard| guard.name().parse().ok()).collect();
        if order != names {
            names = order;
            part.history.write(held_at, operation, Event::Ask { names, exclusive })?;
        }
    }
    let mut until = history::at(held.deadline());
    part.history.write(held_at, operation, Event::Held { tokens: held.tokens(), until })?;
    if !keep(part, &mut until, &held) {
        return part.history.write(history::now(), operation, Event::Lost { until });
    }
    if let Held::One(guard) = &mut held
        && exclusive
        && part.random.u8(..100) < 8
    {
        let at = history::now();
        if at >= history::at(guard.deadline()) {
            return part.history.write(at, operation, Event::Lost { until });
        }
        part.history.write(at, operation, Event::Downgrade)?;
        if guard.downgrade().is_err() || !keep(part, &mut until, &held) {
            return part.history.write(history::now(), operation, Event::Lost { until: until.max(at) });
        }
    }
    let deadline = history::at(held.deadline());
    let at = history::now();
    let event = if at < deadline { Event::GiveBack } else { Event::Lost { until } };
    part.history.write(at, operation, event)?;
    drop(held);
    Ok(())
}

/// One that all ask for, or a worker's favourite: mostly one's own. A worker that keeps locks takes that again and
/// again without a packet, and loses it to whoever else asks.
fn name(part: &mut Part<'_>) -> u64 {
    let WorkerArgs { names, favourite, .. } = *part.args;
    match part.random.u8(..100) {
        ..25 => favourite,
        25..28 => part.random.u64(names + 1..=names + (CLIENTS * WORKERS) as u64),
        _ => part.random.u64(1..=names),
    }
}

fn ask(part: &mut Part<'_>, names: &[u64], several: bool, exclusive: bool) -> Result<Held, Error> {
    let patience = Duration::from_millis(part.random.u64(1..part.args.lease_ms * 3));
    let (tries, waits) = (part.random.u8(..100) < 20, part.random.u8(..100) < 60);
    // As text: a list of queues has no numbers.
    let names: Vec<String> = names.iter().map(u64::to_string).collect();
    if several {
        let mut request = part.session.lock_many(&names);
        if !exclusive {
            request = request.shared();
        }
        return match tries {
            true => request.try_lock(),
            false if waits => request.wait(patience).acquire(),
            false => request.acquire(),
        }
        .map(Held::Many);
    }
    let mut request = part.session.lock(&names[0]);
    if !exclusive {
        request = request.shared();
    }
    match tries {
        true => request.try_lock(),
        false if waits => request.wait(patience).acquire(),
        false => request.acquire(),
    }
    .map(Held::One)
}

/// Holds for a while. False: it is lost, and was held until `until` at least.
fn keep(part: &mut Part<'_>, until: &mut u64, held: &Held) -> bool {
    // Mostly briefly; rarely beyond a lease, which heartbeats then carry.
    let longest = if part.random.u8(..100) < 2 { 2_000 * part.args.lease_ms } else { 8_000 };
    let end = history::now() + part.random.u64(..longest);
    loop {
        let deadline = history::at(held.deadline());
        let now = history::now();
        if now >= deadline {
            return false;
        }
        *until = deadline;
        if now >= end {
            return true;
        }
        thread::sleep(LOOK.min(Duration::from_micros(end - now)));
    }
}
