//! The papers' headline figures, and what the model gives for each.
//!
//! A headline is measured by a function of the lab, so that the same figures come of other costs: the sensitivity. What
//! `why` says of a difference was written after the figures, which were not changed for it.

use super::costs::Cost;
use super::engines::Outage;
use super::lab::{CELLS, FIRST_TENANT, Lab, MACHINES, Peer, QUEUES, Run, SLOTS, Testbed};
use super::reasons::*;
use super::rebuild::{LEASE, rebuild};
use super::world::Outcome;
use crate::Error;
use crate::keys::{Failover, Keys, groups as in_words};
use std::rc::Rc;
use wayside_wire::{BODY, ChainKind, limits};

/// One figure of a headline.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Of what.
    pub name: String,
    /// As the paper has it. `None`: its text has no number for it.
    pub paper: Option<f64>,
    /// As the model has it.
    pub ours: f64,
    /// Of both.
    pub unit: &'static str,
}

type Measure = fn(&mut Lab) -> Result<Vec<Figure>, Error>;

/// How a headline's figures come about.
#[derive(Clone, Copy)]
pub enum How {
    /// By the model.
    Simulated(Measure),
    /// By arithmetic with the model's constants.
    Computed(Measure),
    /// On packets, by a record of keys and chains.
    OnPackets(fn(&Keys) -> Vec<Figure>),
}

/// A headline of headlines.csv.
pub struct Headline {
    /// Its id there.
    pub id: &'static str,
    /// What it is.
    pub what: &'static str,
    /// How ours comes about.
    pub how: How,
    /// Why ours differs.
    pub why: &'static str,
    /// Constants on which it may depend: each is halved and doubled.
    pub varied: &'static [Cost],
}

const FISSLOCK: &[Cost] = &[Cost::Hop, Cost::Pipeline, Cost::Packet, Cost::Manager, Cost::FissLockClient];
const NETLOCK: &[Cost] = &[
    Cost::Hop,
    Cost::Packet,
    Cost::Manager,
    Cost::NetLockClient,
    Cost::Atomic,
    Cost::DslrBackoff,
    Cost::DrtmLease,
    Cost::Retry,
];
const NETLOCK_ALONE: &[Cost] = &[Cost::Hop, Cost::Packet, Cost::Manager, Cost::NetLockClient];
/// What the servers, which limit both tenants, and their clients take; such runs are long.
const TENANTS: &[Cost] = &[Cost::Manager, Cost::NetLockClient];
const RECOVERY: &[Cost] = &[Cost::Hop, Cost::Packet, Cost::Manager];
const BANKING: &[Cost] =
    &[Cost::Hop, Cost::Packet, Cost::FissLockClient, Cost::Command, Cost::Pipelined, Cost::RedlockRetry];
const NETCHAIN: &[Cost] = &[Cost::Hop, Cost::Pipeline, Cost::Packet];

fn x(name: impl Into<String>, paper: f64, ours: f64) -> Figure {
    Figure { name: name.into(), paper: Some(paper), ours, unit: "x" }
}

fn figure(name: impl Into<String>, paper: Option<f64>, ours: f64, unit: &'static str) -> Figure {
    Figure { name: name.into(), paper, ours, unit }
}

/// All of NetLock, FissLock and NetChain, in their order.
pub fn all() -> Vec<Headline> {
    let simulated =
        |id, what, measure: Measure, varied, why| Headline { id, what, how: How::Simulated(measure), why, varied };
    vec![
        simulated("N1", "transactions over DSLR, TPC-C, low contention, 10 + 2 machines", n1, NETLOCK, WHY_N),
        simulated("N2", "transactions over DrTM, the same", n2, NETLOCK, WHY_N),
        simulated("N3", "transactions over NetChain's locks, the same", n3, NETLOCK, WHY_N),
        simulated("N4", "transactions, high contention, 10 + 2 machines", n4, NETLOCK, WHY_N),
        simulated("N5", "transactions, 6 + 6 machines, the better of both contentions", n5, NETLOCK, WHY_N),
        simulated(
            "N6",
            "latency of transactions, DSLR's over NetLock's, the better of both contentions",
            n6,
            NETLOCK,
            WHY_N,
        ),
        simulated("N7", "requests, knapsack over random allocation, 3,000 cells", n7, NETLOCK, WHY_N7),
        simulated("N8", "requests against cells and think time", n8, NETLOCK_ALONE, WHY_N8),
        simulated("N9", "isolation of two tenants, seven machines and three", n9, TENANTS, WHY_N9),
        simulated("N10", "switch failure and reactivation", n10, &[], WHY_N10),
        simulated(
            "F1",
            "share of the time to a grant in a transaction's median, read-mostly, uniform",
            f1,
            FISSLOCK,
            WHY_F1,
        ),
        Headline {
            id: "F2",
            what: "locks in the memory of one switch",
            how: How::Computed(f2),
            why: WHY_F2,
            varied: &[],
        },
        simulated("F3", "median time to a grant, up to, of six workloads", f3, FISSLOCK, WHY_F3),
        simulated("F4", "requests, up to, of six workloads", f4, FISSLOCK, WHY_F4),
        simulated("F5", "TATP's transactions", f5, FISSLOCK, WHY_F5),
        simulated("F6", "TPC-C's transactions", f6, FISSLOCK, WHY_F6),
        simulated("F7", "requests to a hot spot that moves", f7, FISSLOCK, WHY_F7),
        simulated("F8", "time to a grant, 10 M locks, under ParLock's", f8, FISSLOCK, WHY_F8),
        simulated("F9", "peak of requests over granularities of 10 M objects, over NetLock's", f9, FISSLOCK, WHY_F9),
        simulated("F10", "recovery time of a switch and a server", f10, RECOVERY, WHY_F10),
        simulated("F11", "mobile banking over RedLock", f11, BANKING, WHY_F11),
        Headline { id: "C1", what: "queries of 4 clients", how: How::Computed(c1), why: WHY_C1, varied: NETCHAIN },
        Headline {
            id: "C2",
            what: "latency of a read and of a write",
            how: How::Computed(c2),
            why: WHY_C2,
            varied: NETCHAIN,
        },
        Headline {
            id: "C3",
            what: "queries of 4 clients against the size of values",
            how: How::Computed(c3),
            why: WHY_C3,
            varied: NETCHAIN,
        },
        Headline {
            id: "C4",
            what: "failover and recovery with 1 and 100 virtual groups",
            how: How::OnPackets(c4),
            why: WHY_C4,
            varied: &[],
        },
    ]
}

// ---- NetLock ----

/// NetLock as it is in 6.3: the artifact's cells.
const NETLOCK_PEER: Peer = Peer::NetLock { cells: CELLS, queues: 55_000, random: false };
/// Clients of a machine: transactions under way by Little's law, 1.4 M/s of 0.12 ms, on ten machines.
const CLIENTS: usize = 16;

fn netlock(
    lab: &mut Lab,
    hosts: usize,
    peer: Peer,
    workload: &'static str,
    execution: u64,
) -> Result<Rc<Outcome>, Error> {
    // Clients of remote memory go from lock to lock, as their papers have it: only NetLock's own ask for all at once,
    // and those of NetChain's locks, which are the same program.
    let at_once = !matches!(peer, Peer::Dslr | Peer::Drtm);
    lab.run(Run { execution, at_once, ..tpcc(hosts, peer, workload) })
}

fn tpcc(hosts: usize, peer: Peer, workload: &'static str) -> Run {
    let run = Run::of(Testbed::NetLock(hosts, 12 - hosts), peer, workload, hosts * CLIENTS);
    Run { sorted: true, ..run }
}

/// NetLock's transactions over those of a peer.
fn over(lab: &mut Lab, hosts: usize, peer: Peer, workload: &'static str) -> Result<f64, Error> {
    let ours = netlock(lab, hosts, NETLOCK_PEER, workload, 0)?.transactions_m();
    Ok(ours / netlock(lab, hosts, peer, workload, 0)?.transactions_m())
}

/// The same, if clients of neither ask for more than one lock at a time: what the one difference of clients makes.
fn over_by_one(lab: &mut Lab, peer: Peer, workload: &'static str, name: &str) -> Result<Figure, Error> {
    let ours = lab.run(tpcc(10, NETLOCK_PEER, workload))?.transactions_m();
    let theirs = lab.run(tpcc(10, peer, workload))?.transactions_m();
    Ok(figure(format!("over {name}, if both take one lock after the other"), None, ours / theirs, "x"))
}

const LOW: &str = "tpcc-rows-low";
const HIGH: &str = "tpcc-rows-high";

fn n1(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    Ok(vec![
        x("over DSLR", 14.9, over(lab, 10, Peer::Dslr, LOW)?),
        over_by_one(lab, Peer::Dslr, LOW, "DSLR")?,
        figure("NetLock", None, netlock(lab, 10, NETLOCK_PEER, LOW, 0)?.transactions_m(), "M/s"),
    ])
}

fn n2(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    Ok(vec![x("over DrTM", 28.6, over(lab, 10, Peer::Drtm, LOW)?), over_by_one(lab, Peer::Drtm, LOW, "DrTM")?])
}

fn n3(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    Ok(vec![
        x("over NetChain", 3.5, over(lab, 10, Peer::NetChain, LOW)?),
        over_by_one(lab, Peer::NetChain, LOW, "NetChain")?,
    ])
}

fn n4(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    Ok(vec![
        x("over DSLR", 18.4, over(lab, 10, Peer::Dslr, HIGH)?),
        x("over DrTM", 33.5, over(lab, 10, Peer::Drtm, HIGH)?),
        x("over NetChain", 4.4, over(lab, 10, Peer::NetChain, HIGH)?),
        over_by_one(lab, Peer::Dslr, HIGH, "DSLR")?,
        over_by_one(lab, Peer::Drtm, HIGH, "DrTM")?,
        over_by_one(lab, Peer::NetChain, HIGH, "NetChain")?,
        figure("NetLock", None, netlock(lab, 10, NETLOCK_PEER, HIGH, 0)?.transactions_m(), "M/s"),
    ])
}

fn n5(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let [low, high] = ["tpcc-rows-low-6", "tpcc-rows-high-6"];
    let mut best = |peer| Ok::<f64, Error>(over(lab, 6, peer, low)?.max(over(lab, 6, peer, high)?));
    Ok(vec![
        x("over DSLR", 17.5, best(Peer::Dslr)?),
        x("over DrTM", 33.1, best(Peer::Drtm)?),
        x("over NetChain", 5.5, best(Peer::NetChain)?),
    ])
}

fn n6(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let (mut mean, mut tail) = (0f64, 0f64);
    for workload in [LOW, HIGH] {
        let ours = netlock(lab, 10, NETLOCK_PEER, workload, 0)?;
        let dslr = netlock(lab, 10, Peer::Dslr, workload, 0)?;
        mean = mean.max(dslr.latencies.mean() / ours.latencies.mean());
        let p99 = |of: &Outcome| of.latencies.value_at_quantile(0.99) as f64;
        tail = tail.max(p99(&dslr) / p99(&ours));
    }
    Ok(vec![x("mean", 20.3, mean), x("p99", 18.4, tail)])
}

fn with_cells(lab: &mut Lab, cells: u32, random: bool, think: u64) -> Result<Rc<Outcome>, Error> {
    netlock(lab, 10, Peer::NetLock { cells, queues: 55_000, random }, LOW, think)
}

fn n7(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let knapsack = with_cells(lab, 3_000, false, 0)?;
    let random = with_cells(lab, 3_000, true, 0)?;
    Ok(vec![
        x("requests", 2.95, knapsack.requests_m() / random.requests_m()),
        figure("at the switch, knapsack", None, 100.0 * knapsack.note("granted by the switch"), "%"),
        figure("at the switch, random", None, 100.0 * random.note("granted by the switch"), "%"),
    ])
}

fn n8(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    for (cells, paper) in [(500, None), (1_000, None), (2_000, None), (3_000, Some(8.61)), (5_000, Some(8.64))] {
        let ours = with_cells(lab, cells, false, 0)?.requests_m();
        figures.push(figure(format!("{cells} cells, no think time"), paper, ours, "M/s"));
    }
    for (think, paper) in [(5, None), (10, None), (100, Some(0.60))] {
        let ours = with_cells(lab, 3_000, false, think * 1_000)?.requests_m();
        figures.push(figure(format!("3000 cells, {think} us"), paper, ours, "M/s"));
    }
    Ok(figures)
}

/// Grants a second of the clients on the first tenant's machines, and on the second's, in millions.
fn of_tenants(outcome: &Outcome) -> (f64, f64) {
    let of = |is_first: bool| {
        let clients = outcome.of_clients.iter().enumerate();
        let ours = clients.filter(|(client, _)| (client % MACHINES < FIRST_TENANT) == is_first);
        ours.map(|(_, requests)| *requests).sum::<u64>() as f64 * 1e3 / outcome.lasted as f64
    };
    (of(true), of(false))
}

fn n9(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let mut run = |budget| {
        let run = Run::of(Testbed::Tenants, Peer::Tenants(budget), "exclusive-55k", 4 * MACHINES);
        // Twenty times the shortest pause of who was refused.
        Ok::<_, Error>(of_tenants(&*lab.run(Run { lasts: 100_000_000, ..run })?))
    };
    let (first, second) = run(None)?;
    let half = (first + second) / 2.0;
    let (bounded, freed) = run(Some((half * 1e6) as u32))?;
    Ok(vec![
        figure("first tenant over second, without budgets", None, first / second, "x"),
        x("first tenant over second, each with half as its budget", 1.0, bounded / freed),
        figure("second tenant with budgets, over without", None, freed / second, "x"),
        figure("both with budgets, over without", None, (bounded + freed) / (first + second), "x"),
    ])
}

/// A millisecond of a timeline, in virtual nanoseconds.
const MILLISECOND: u64 = 1_000_000;
/// The switch of N10 stops then, so that sessions outlive it: as long as their clients try, and for less than that.
const AWAY: Outage = Outage { from: 60 * MILLISECOND, lasts: 100 * MILLISECOND, lease: 300_000 };
const BLINK: Outage = Outage { lasts: 5 * MILLISECOND, ..AWAY };
/// What is looked at before it stops, and once it is back. Milliseconds.
const LOOKED_AT: usize = 30;
/// So many milliseconds in a row, for a throughput that is back.
const IN_A_ROW: usize = 5;

/// Throughput while the switch is away and once it is back, over that before; and how many milliseconds after its
/// reactivation it is back, which is nine tenths of before.
fn around(outage: Outage, timeline: &[u32]) -> Result<(f64, f64, f64), Error> {
    let mean = |part: &[u32]| part.iter().map(|&grants| f64::from(grants)).sum::<f64>() / part.len() as f64;
    let [from, end] = [outage.from, outage.end()].map(|at| (at / MILLISECOND) as usize);
    let before = mean(&timeline[from - LOOKED_AT..from]);
    // What was under way in the last millisecond arrives in the first one without a switch.
    let away = mean(&timeline[from + 1..end]) / before;
    let is_back = |part: &[u32]| mean(part) >= 0.9 * before;
    let later = timeline.get(end..).unwrap_or_default();
    let back = later.windows(IN_A_ROW).position(is_back).ok_or("the throughput of before never came back")?;
    let after = later.get(back..back + LOOKED_AT).ok_or("the run has ended too early")?;
    Ok((away, mean(after) / before, back as f64))
}

fn n10(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    for (peer, name) in [(NETLOCK_PEER, "queues"), (Peer::FairFission, "fission")] {
        for outage in [AWAY, BLINK] {
            // Leases, if they are waited for, and a while. Measuring begins after a quarter of what is measured.
            let until = outage.end() + u64::from(outage.lease) * 1_000 + 80 * MILLISECOND;
            let run = Run::of(Testbed::NetLock(10, 2), peer, LOW, 20);
            let outcome = lab.run(Run { sorted: true, outage: Some(outage), lasts: until * 4 / 5, ..run })?;
            let (away, after, back) = around(outage, &outcome.timeline)?;
            let name = format!("{name}, {} ms away", outage.lasts / MILLISECOND);
            let paper = |value| (outage == AWAY).then_some(value);
            figures.push(figure(format!("{name}: meanwhile, over before"), paper(0.0), away, "x"));
            figures.push(figure(format!("{name}: once it is back, over before"), paper(1.0), after, "x"));
            figures.push(figure(format!("{name}: back so long after the reactivation"), None, back, "ms"));
            figures.push(figure(format!("{name}: holds lost"), None, outcome.note("holds lost"), "locks"));
        }
    }
    Ok(figures)
}

// ---- FissLock ----

const FISSLOCK_NETLOCK: Peer = Peer::NetLock { cells: CELLS, queues: QUEUES, random: false };
const MICRO: [&str; 6] = [
    "update-heavy-uniform",
    "read-mostly-uniform",
    "read-only-uniform",
    "update-heavy-zipf",
    "read-mostly-zipf",
    "read-only-zipf",
];

fn micro(lab: &mut Lab, peer: Peer, workload: &'static str, execution: u64) -> Result<Rc<Outcome>, Error> {
    fisslock(lab, peer, workload, 160, execution)
}

fn fisslock(
    lab: &mut Lab,
    peer: Peer,
    workload: &'static str,
    clients: usize,
    execution: u64,
) -> Result<Rc<Outcome>, Error> {
    lab.run(Run { execution, ..Run::of(Testbed::FissLock, peer, workload, clients) })
}

/// Microseconds until a grant.
fn grant(of: &Outcome, quantile: f64) -> f64 {
    of.grants.value_at_quantile(quantile) as f64 / 1e3
}

fn f1(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    for (peer, name) in [(Peer::SrvLock, "SrvLock"), (Peer::Fission, "fission")] {
        for execution in [1, 10, 20] {
            let outcome = micro(lab, peer, MICRO[1], execution * 1_000)?;
            let median = outcome.latencies.value_at_quantile(0.5) as f64 / 1e3;
            let share = 100.0 * grant(&outcome, 0.5) / median;
            figures.push(figure(format!("{name}, execution {execution} us"), None, share, "%"));
        }
    }
    Ok(figures)
}

fn f2(_: &mut Lab) -> Result<Vec<Figure>, Error> {
    // FissLock 7.2: 8 of 12 stages, 560 KB each, hold mode, machine and incarnation.
    let bits = |locks: f64| 8.0 * 560_000.0 * 8.0 / locks;
    Ok(vec![
        figure("18 bits a lock", Some(f64::from(SLOTS) / 1e6), 8.0 * 560_000.0 * 8.0 / 18.0 / 1e6, "M locks"),
        figure("our 128 bits a slot, in as much memory", None, 8.0 * 560_000.0 / 16.0 / 1e6, "M slots"),
        figure("bits a lock that the paper's layout takes", None, bits(f64::from(SLOTS)), "bits"),
    ])
}

fn f3(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let peers =
        [(Peer::SrvLock, "SrvLock", -79.5), (FISSLOCK_NETLOCK, "NetLock", -79.1), (Peer::ParLock, "ParLock", -96.4)];
    let mut figures = Vec::new();
    for (peer, name, paper) in peers {
        let mut best = 0f64;
        for workload in MICRO {
            let (ours, theirs) = (micro(lab, Peer::Fission, workload, 0)?, micro(lab, peer, workload, 0)?);
            best = best.min(100.0 * (grant(&ours, 0.5) / grant(&theirs, 0.5) - 1.0));
        }
        figures.push(figure(format!("under {name}"), Some(paper), best, "%"));
    }
    let mut most = 0f64;
    for workload in &MICRO[..3] {
        let outcome = micro(lab, Peer::Fission, workload, 0)?;
        most = most.max(grant(&outcome, 0.9));
    }
    figures.push(figure("p90, uniform, fission, at most", Some(9.42), most, "us"));
    for (peer, name, paper) in
        [(Peer::SrvLock, "SrvLock", 84.5), (FISSLOCK_NETLOCK, "NetLock", 76.2), (Peer::ParLock, "ParLock", 54.8)]
    {
        let mut most = 0f64;
        for workload in &MICRO[..3] {
            let outcome = micro(lab, peer, workload, 0)?;
            most = most.max(grant(&outcome, 0.9));
        }
        figures.push(figure(format!("p90, uniform, {name}, up to"), Some(paper), most, "us"));
    }
    Ok(figures)
}

fn f4(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let peers =
        [(Peer::ParLock, "ParLock", 4.08), (Peer::SrvLock, "SrvLock", 4.79), (FISSLOCK_NETLOCK, "NetLock", 4.99)];
    let mut figures = Vec::new();
    for (peer, name, paper) in peers {
        let mut best = (0f64, "");
        for workload in MICRO {
            let ratio =
                micro(lab, Peer::Fission, workload, 0)?.requests_m() / micro(lab, peer, workload, 0)?.requests_m();
            if ratio > best.0 {
                best = (ratio, workload);
            }
        }
        figures.push(x(format!("over {name}"), paper, best.0));
    }
    for workload in MICRO {
        let ours = micro(lab, Peer::Fission, workload, 0)?.requests_m();
        figures.push(figure(format!("{workload}, fission"), None, ours, "M/s"));
        let fair = micro(lab, Peer::FairFission, workload, 0)?.requests_m();
        figures.push(figure(format!("{workload}, fission, our fair default"), None, fair, "M/s"));
    }
    for (peer, name) in
        [(Peer::SrvLock, "SrvLock as modelled"), (Peer::Server, "our own lock server"), (FISSLOCK_NETLOCK, "NetLock")]
    {
        let rate = micro(lab, peer, MICRO[1], 0)?.requests_m();
        figures.push(figure(format!("{}, {name}", MICRO[1]), None, rate, "M/s"));
    }
    Ok(figures)
}

fn f5(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let peers =
        [(Peer::ParLock, "ParLock", 2.93), (Peer::SrvLock, "SrvLock", 2.37), (FISSLOCK_NETLOCK, "NetLock", 1.76)];
    let ours = fisslock(lab, Peer::Fission, "tatp", 160, 2_000)?;
    let mut figures = Vec::new();
    for (peer, name, paper) in peers {
        let theirs = fisslock(lab, peer, "tatp", 160, 2_000)?;
        figures.push(x(format!("over {name}"), paper, ours.transactions_m() / theirs.transactions_m()));
        if peer == FISSLOCK_NETLOCK {
            let share = 100.0 * theirs.note("granted by the switch");
            figures.push(figure("NetLock's requests at the switch", Some(17.0), share, "%"));
        }
    }
    Ok(figures)
}

fn f6(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let plain = fisslock(lab, Peer::Fission, "tpcc", 1_200, 10_000)?;
    let ours = plain.transactions_m();
    let mut figures = Vec::new();
    for (peer, name, paper) in [(Peer::SrvLock, "SrvLock", 2.36), (FISSLOCK_NETLOCK, "NetLock", 2.28)] {
        let theirs = fisslock(lab, peer, "tpcc", 1_200, 10_000)?;
        figures.push(x(format!("over {name}"), paper, ours / theirs.transactions_m()));
        if peer == FISSLOCK_NETLOCK {
            let share = 100.0 * theirs.note("granted by the switch");
            figures.push(figure("NetLock's requests at the switch", Some(6.0), share, "%"));
        }
    }
    let par_lock = fisslock(lab, Peer::ParLock, "tpcc", 1_200, 10_000)?.transactions_m();
    let local = fisslock(lab, Peer::LocalFission, "tpcc", 1_200, 10_000)?;
    figures.push(x("over ParLock, with locality", 1.08, local.transactions_m() / par_lock));
    figures.push(figure("over ParLock, without", None, ours / par_lock, "x"));
    let median = |of: &Outcome| of.latencies.value_at_quantile(0.5) as f64;
    let under = 100.0 * (median(&local) / median(&plain) - 1.0);
    figures.push(figure("median of a transaction with locality, under that without", None, under, "%"));
    let share = 100.0 * local.note("by the own agent");
    figures.push(figure("with locality, requests granted by the own agent", Some(90.0), share, "%"));
    Ok(figures)
}

fn f7(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let before = micro(lab, FISSLOCK_NETLOCK, "hot-spot", 0)?;
    let moved = lab.run(Run { moved: true, ..Run::of(Testbed::FissLock, FISSLOCK_NETLOCK, "hot-spot", 160) })?;
    Ok(vec![
        figure("fission, before and after", Some(6.0), micro(lab, Peer::Fission, "hot-spot", 0)?.requests_m(), "M/s"),
        figure("NetLock, the hot spot in the switch", Some(4.58), before.requests_m(), "M/s"),
        figure("NetLock, once it has moved", Some(3.0), moved.requests_m(), "M/s"),
        figure("SrvLock", Some(3.0), micro(lab, Peer::SrvLock, "hot-spot", 0)?.requests_m(), "M/s"),
    ])
}

fn f8(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let (ours, theirs) = (micro(lab, Peer::Fission, "scale-10m", 0)?, micro(lab, Peer::ParLock, "scale-10m", 0)?);
    let under = |quantile| 100.0 * (grant(&ours, quantile) / grant(&theirs, quantile) - 1.0);
    let few = micro(lab, Peer::Fission, MICRO[1], 0)?;
    Ok(vec![
        figure("p20", Some(-39.9), under(0.2), "%"),
        figure("p90", Some(-9.9), under(0.9), "%"),
        figure("median with 10 M names over that with 1 M, fission", None, grant(&ours, 0.5) / grant(&few, 0.5), "x"),
    ])
}

fn f9(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let uniform = ["granularity-1k", "granularity-10k", "granularity-100k", "granularity-1m"];
    let zipf = ["granularity-1k-zipf", "granularity-1m-zipf"];
    let mut figures = Vec::new();
    for (name, workloads, paper) in [("uniform", &uniform[..], 1.99), ("Zipf", &zipf[..], 1.26)] {
        let mut peak = |peer| {
            let mut peak = (0f64, "");
            for &workload in workloads {
                let one = micro(lab, peer, workload, 0)?.requests_m();
                if one > peak.0 {
                    peak = (one, workload);
                }
            }
            Ok::<f64, Error>(peak.0)
        };
        let (ours, theirs) = (peak(Peer::Fission)?, peak(FISSLOCK_NETLOCK)?);
        figures.push(x(name, paper, ours / theirs));
        figures.push(figure(format!("NetLock's peak, {name}"), (name == "uniform").then_some(5.65), theirs, "M/s"));
    }
    Ok(figures)
}

fn f10(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let milliseconds = |locks, one_dies| Ok::<f64, Error>(rebuild(lab.costs, locks, one_dies)? as f64 / 1e6);
    let [none, tenth, whole] = [8, 10_000, 100_000].map(|locks| milliseconds(locks, false));
    let (none, tenth, whole) = (none?, tenth?, whole?);
    let (few, many) = (tenth - none, whole - none);
    let mut figures = vec![figure("power of the locks by which it grows", Some(1.0), (many / few).log10(), "")];
    for (locks, took) in [("8", none), ("10,000", tenth), ("100,000", whole)] {
        figures.push(figure(format!("the switch alone, {locks} locks held"), None, took, "ms"));
    }
    let dead = milliseconds(10_000, true)? - f64::from(LEASE) / 1e3;
    figures.push(figure("a node dies with it, 10,000 locks, beyond its lease", None, dead, "ms"));
    Ok(figures)
}

fn f11(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let mut of = |peer| {
        let run = Run::of(Testbed::Banking, peer, "banking", 160);
        // In order, as nobody gives up what it waits for.
        lab.run(Run { sorted: true, ..run })
    };
    let (ours, theirs) = (of(Peer::Fission)?, of(Peer::RedLock)?);
    let thousands = |of: &Outcome| of.transactions_m() * 1e3;
    let median = |of: &Outcome| of.latencies.value_at_quantile(0.5) as f64;
    Ok(vec![
        x("operations", 825.4 / 24.8, thousands(&ours) / thousands(&theirs)),
        figure("fission", Some(825.4), thousands(&ours), "k/s"),
        figure("RedLock", Some(24.8), thousands(&theirs), "k/s"),
        figure("RedLock's median over fission's", None, median(&theirs) / median(&ours), "x"),
    ])
}

// ---- NetChain ----

fn c1(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let ours = 4.0 * 16.0 * 1e3 / (2.0 * lab.costs.get(Cost::Packet) as f64);
    Ok(vec![figure("4 clients of 16 cores", Some(82.0), ours, "M/s")])
}

fn c2(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let of = |cost| lab.costs.get(cost) as f64 / 1e3;
    let read = 2.0 * of(Cost::Packet) + 2.0 * of(Cost::Hop) + of(Cost::Pipeline);
    // Two more switches, and a cable to each, which is less than a host's NIC and PCIe.
    let write = read + 2.0 * of(Cost::Pipeline);
    Ok(vec![figure("read, one switch", Some(9.7), read, "us"), figure("write, three switches", Some(9.7), write, "us")])
}

/// Slide 29: the clients' NICs have 25 or 40 Gbit/s, here all have the larger.
const NIC: f64 = 40.0;
/// Of a packet on the wire, around its payload: Ethernet with preamble and gap, IPv4, UDP.
const AROUND: usize = 38 + 20 + 8;

fn c3(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let by_cores = c1(lab)?[0].ours;
    let with = |value: usize| {
        let payload = BODY + ChainKind::Write.body().bytes(value.div_ceil(limits::BLOCK_BYTES) as u8);
        by_cores.min(4.0 * NIC * 1e3 / (8 * (AROUND + payload)) as f64)
    };
    let of = |value| figure(format!("values of {value} bytes"), Some(82.0), with(value), "M/s");
    Ok([32, 64, 96, 128].map(of).to_vec())
}

fn c4(keys: &Keys) -> Vec<Figure> {
    let each = |failover: Failover| {
        let Failover { groups, away_ms, copying_away_ms, copying_share } = failover;
        let of = |what: &str, ours, unit| figure(format!("{}: {what}", in_words(groups)), None, ours, unit);
        [
            of("no write until chains go on without the dead switch", away_ms, "ms"),
            of("no write while another one copies, at most", copying_away_ms, "ms"),
            of("writes meanwhile, over before", copying_share, ""),
        ]
    };
    keys.failovers().flat_map(each).collect()
}
