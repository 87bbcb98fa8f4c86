//! How long a switch that has begun with an empty memory takes until it serves, against the locks that are held
//! meanwhile. Here nobody runs a workload: nodes take their locks, one after the other, and keep them.

use wayside_client::Mode;
use wayside_wire::Policy;

use super::costs::Costs;
use super::engines::{Bed, Engine, Kind, Outage, Wayside};
use super::fabric::{Event, Fabric, Job, Place};
use crate::Error;
use crate::workloads::Request;

/// FissLock 7.1: logical nodes, each with ten cores, half of which receive, and one of an agent.
const NODES: usize = 8;
/// Slots of the switch: 7.6's locks.
const SLOTS: u32 = 1_000_000;
/// Of sessions. Microseconds.
pub const LEASE: u32 = 1_000_000;
/// Sessions have begun and the first epoch serves by then. Nanoseconds.
const BEGINNING: u64 = 20_000_000;
/// A lock is taken in less than that by each node. Nanoseconds.
const TAKEN_IN: u64 = 20_000;
/// How long the switch is away: what is on its way to it is lost.
const AWAY: u64 = 10_000_000;
/// Ten leases, in nanoseconds: what does not serve by then never does, though nodes go on asking.
const PATIENCE: u64 = 10 * LEASE as u64 * 1_000;

/// Nanoseconds from the switch's beginning until it serves, with so many locks held; one of the nodes may die with it.
pub fn rebuild(costs: Costs, locks: u64, one_dies: bool) -> Result<u64, Error> {
    let bed = Bed::new(&[5; NODES], NODES, 1, &[]).with_office();
    let of_one = locks.div_ceil(NODES as u64);
    let outage = Outage { from: BEGINNING + of_one * TAKEN_IN, lasts: AWAY, lease: LEASE };
    let mut engine = Wayside::new(&bed, &Kind::Fission(Policy::Fair, SLOTS), Some(outage))?;
    let mut fabric = Fabric::new(costs, &bed.hosts);
    engine.start(&mut fabric);
    let want =
        |client: usize, taken: u64| Request { lock: client as u64 + taken * NODES as u64, mode: Mode::Exclusive };
    let mut taken = [0; NODES];
    for client in 0..NODES {
        engine.acquire(&mut fabric, client, want(client, 0));
        fabric.outside();
    }
    let mut killed = false;
    let all = of_one * NODES as u64;
    while let Some(event) = fabric.next() {
        fabric.outside();
        match event {
            Event::AtSwitch(message) => engine.on_message(&mut fabric, Place::Switch, message),
            Event::AtCore(core, nanos, job) => fabric.at_core(core, nanos, job),
            Event::Free(core) => fabric.free(core),
            Event::Timer(who, number) => engine.on_timer(&mut fabric, who, number),
            Event::Done(core) => {
                if let Some(Job::Message(message)) = fabric.take(core) {
                    engine.on_message(&mut fabric, Place::Core(core), message);
                }
                while let Some((client, _)) = fabric.grants.pop_front() {
                    taken[client] += 1;
                    if taken[client] < of_one {
                        engine.acquire(&mut fabric, client, want(client, taken[client]));
                    }
                }
                fabric.finish(core);
            }
            Event::AtNic(..) | Event::NicDone(..) | Event::Alarm(..) => return Err("nobody has planned that".into()),
        }
        if fabric.now >= outage.from && !killed && one_dies {
            killed = true;
            engine.kill(NODES - 1);
        }
        if fabric.now > outage.end() + PATIENCE {
            break;
        }
        if fabric.now > outage.end() && engine.serves() {
            return match (taken.iter().sum::<u64>() == all, fabric.expired.is_empty()) {
                (true, true) => Ok(fabric.now - outage.end()),
                (false, _) => Err("not all locks were taken before the switch stopped".into()),
                (_, false) => Err("a lock was lost".into()),
            };
        }
    }
    Err("the switch never serves again".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(locks: u64, one_dies: bool) -> f64 {
        rebuild(Costs::of_sources(), locks, one_dies).expect("it serves again") as f64 / 1e6
    }

    #[test]
    fn who_is_dead_is_waited_for_and_nobody_else() {
        let (alive, dead) = (milliseconds(1_000, false), milliseconds(1_000, true));
        assert!(alive < 50.0, "{alive} ms");
        assert!((1_000.0..1_200.0).contains(&dead), "its lease is a second: {dead} ms");
    }

    #[test]
    fn what_is_held_is_told_before_the_switch_serves() {
        let (few, many) = (milliseconds(1_000, false), milliseconds(64_000, false));
        assert!(many > few + 0.5, "{few} and {many} ms");
    }
}
