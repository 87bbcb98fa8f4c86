//! Throughput while a switch is away: acquires and releases of fresh names, counted in short bins.

use super::locks::{Bystander, Holder, longest_gap};
use super::place::Place;
use super::record::{Fault, Timeline};
use super::switches::Switch;
use super::{RecoveryOptions, all_held_to_the_end};
use crate::Error;
use std::thread;
use std::time::{Duration, Instant};

/// A bin.
const BIN: Duration = Duration::from_millis(10);
/// Before the switch goes, and from then on.
const BEFORE: Duration = Duration::from_millis(500);
const AFTER: Duration = Duration::from_millis(2_500);
/// How long the switch that is started again stays away: long enough to be seen.
const AWAY: Duration = Duration::from_millis(500);
/// Threads that acquire and release as fast as they can.
const THREADS: usize = 2;
/// Locks that are held all the time.
const HELD: u64 = 10_000;

pub(super) fn record(options: &RecoveryOptions, place: &Place, fault: Fault) -> Result<Timeline, Error> {
    let slots = 65_536;
    let settings = format!("slots = {slots}");
    let etcd = if fault == Fault::Restart { None } else { Some(place.etcd()?) };
    let start = |number| Switch::start_at(place.seat(number), &options.wayside, &settings, etcd.as_ref(), "info");
    let began = Instant::now();
    let mut first = start(0)?;
    first.await_saying("serving", began)?;
    let second = if etcd.is_some() { Some(start(1)?) } else { None };
    let addresses = [Some(&first), second.as_ref()].into_iter().flatten().map(|switch| switch.address.to_string());
    let endpoints = addresses.collect::<Vec<_>>().join(",");
    let holder = Holder::fill(&endpoints, HELD)?;
    let bystander = Bystander::start(&endpoints, slots, THREADS, None)?;
    // The first of them are slower.
    thread::sleep(BEFORE + Duration::from_millis(300));
    let began = Instant::now();
    let mut back = None;
    match fault {
        Fault::Restart => {
            first.kill();
            thread::sleep(AWAY);
            back = Some(began.elapsed());
            first.restart()?;
        }
        Fault::Failover => first.kill(),
        _ => first.terminate(),
    }
    thread::sleep(AFTER.saturating_sub(began.elapsed()) + BIN);
    let grants = bystander.end()?;
    let lost = holder.lost();
    all_held_to_the_end(holder, HELD)?;
    if lost > 0 {
        return Err(format!("{lost} of {HELD} guards were lost"));
    }
    let from = began.checked_sub(BEFORE).ok_or("a clock that has just begun")?;
    let count = ((BEFORE + AFTER).as_micros() / BIN.as_micros()) as usize;
    let mut bins = vec![0u32; count];
    for (at, _) in &grants {
        let bin = at.checked_duration_since(from).map(|since| (since.as_micros() / BIN.as_micros()) as usize);
        if let Some(bin) = bin.and_then(|bin| bins.get_mut(bin)) {
            *bin += 1;
        }
    }
    let stall_ms = super::ms(longest_gap(&grants, began, began + AFTER));
    Ok(Timeline {
        fault,
        held: HELD,
        threads: THREADS,
        bin_ms: BIN.as_millis() as u64,
        before_ms: BEFORE.as_millis() as u64,
        back_ms: back.map(super::ms),
        stall_ms,
        operations: bins,
    })
}
