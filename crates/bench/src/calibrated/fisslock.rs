//! FissLock's headlines (F1 to F11). Fission has readers first there, as the paper; beside it, where there is a
//! difference to be seen, is our default, first come, first served.

use std::rc::Rc;

use super::costs::Cost;
use super::headlines::{Figure, Paper, figure, x};
use super::lab::{CELLS, Lab, Peer, QUEUES, Run, SLOTS, Testbed};
use super::netlock::MILLISECOND;
use super::rebuild::{LEASE, rebuild};
use super::world::Outcome;
use crate::Error;
use crate::fit::exponent;

const NETLOCK: Peer = Peer::NetLock { cells: CELLS, queues: QUEUES, random: false };
const MICRO: [&str; 6] = [
    "update-heavy-uniform",
    "read-mostly-uniform",
    "read-only-uniform",
    "update-heavy-zipf",
    "read-mostly-zipf",
    "read-only-zipf",
];
const READ_MOSTLY: &str = MICRO[1];
const OUR_DEFAULT: &str = "our fair default";

fn fisslock(peer: Peer, workload: &'static str, clients: usize, execution: u64) -> Run {
    Run { execution, ..Run::of(Testbed::FissLock, peer, workload, clients) }
}

fn micro(lab: &mut Lab, peer: Peer, workload: &'static str, execution: u64) -> Result<Rc<Outcome>, Error> {
    lab.run(fisslock(peer, workload, 160, execution))
}

fn rate(lab: &mut Lab, peer: Peer, workload: &'static str) -> Result<f64, Error> {
    Ok(micro(lab, peer, workload, 0)?.requests_m())
}

/// Microseconds until a grant.
fn grant(of: &Outcome, quantile: f64) -> f64 {
    of.grants.value_at_quantile(quantile) as f64 / 1e3
}

/// Microseconds of a transaction.
fn latency(of: &Outcome, quantile: f64) -> f64 {
    of.latencies.value_at_quantile(quantile) as f64 / 1e3
}

/// How much less the one is than the other.
fn under(ours: f64, theirs: f64) -> f64 {
    100.0 * (ours / theirs - 1.0)
}

/// NetLock's share of grants by its switch.
fn at_switch(of: &Outcome) -> f64 {
    100.0 * of.note("granted by the switch")
}

// ---- grants ----

const SERVICES: [(Peer, &str); 4] =
    [(Peer::SrvLock, "SrvLock"), (NETLOCK, "NetLock"), (Peer::ParLock, "ParLock"), (Peer::Fission, "fission")];

pub fn f1(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    let fair = (Peer::FairFission, OUR_DEFAULT);
    for (workload, name, executions) in
        [(READ_MOSTLY, "read-mostly", &[1, 10, 20][..]), (MICRO[0], "update-heavy", &[10][..])]
    {
        for (peer, service) in SERVICES.into_iter().chain([fair]) {
            let paper = if peer == fair.0 { Paper::Nothing } else { Paper::Drawn };
            for &execution in executions {
                let outcome = micro(lab, peer, workload, execution * 1_000)?;
                for (quantile, which) in [(0.5, "median"), (0.9, "p90")] {
                    let share = 100.0 * grant(&outcome, quantile) / latency(&outcome, quantile);
                    let name = format!("{name}, execution {execution} us: {service}, {which}");
                    figures.push(figure(name, paper, share, "%"));
                }
            }
        }
    }
    for (workload, name) in [(READ_MOSTLY, "uniform"), (MICRO[4], "Zipf")] {
        for (peer, service) in SERVICES {
            let outcome = micro(lab, peer, workload, 0)?;
            for (quantile, which) in [(0.5, "median"), (0.9, "p90"), (0.99, "p99")] {
                let name = format!("time to a grant, read-mostly, {name}: {service}, {which}");
                figures.push(figure(name, Paper::Drawn, grant(&outcome, quantile), "us"));
            }
        }
        let share = if name == "Zipf" { 27.0 } else { 1.0 };
        let switch = at_switch(&*micro(lab, NETLOCK, workload, 0)?);
        figures.push(figure(format!("granted by NetLock's switch, {name}"), Paper::Number(share), switch, "%"));
    }
    let [uniform, zipf] = [READ_MOSTLY, MICRO[4]].map(|workload| micro(lab, Peer::ParLock, workload, 0));
    let (local, busiest) = (uniform?.note("local"), zipf?.note("at the busiest server"));
    figures.push(figure("ParLock's requests to the own server, uniform", Paper::Number(12.5), 100.0 * local, "%"));
    figures.push(figure("ParLock's requests to the busiest server, Zipf", Paper::Number(56.7), 100.0 * busiest, "%"));
    Ok(figures)
}

pub fn f2(_: &mut Lab) -> Result<Vec<Figure>, Error> {
    // FissLock 7.2: 8 of 12 stages, 560 KB each, hold mode, machine and incarnation.
    let bits = |locks: f64| 8.0 * 560_000.0 * 8.0 / locks;
    let paper = Paper::Number(f64::from(SLOTS) / 1e6);
    let slots = 8.0 * 560_000.0 / 16.0 / 1e6;
    Ok(vec![
        figure("18 bits a lock", paper, 8.0 * 560_000.0 * 8.0 / 18.0 / 1e6, "M locks"),
        figure("our 128 bits a slot, in as much memory", Paper::Nothing, slots, "M slots"),
        figure("bits a lock that the paper's layout takes", Paper::Nothing, bits(f64::from(SLOTS)), "bits"),
    ])
}

/// By how much a quantile of fission's is under that of a peer, at the most of all six.
fn most_under(lab: &mut Lab, fission: Peer, peer: Peer, quantile: f64) -> Result<f64, Error> {
    let mut best = 0f64;
    for workload in MICRO {
        let (ours, theirs) = (micro(lab, fission, workload, 0)?, micro(lab, peer, workload, 0)?);
        best = best.min(under(grant(&ours, quantile), grant(&theirs, quantile)));
    }
    Ok(best)
}

pub fn f3(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let peers = [
        (Peer::SrvLock, "SrvLock", -79.5, -89.7),
        (NETLOCK, "NetLock", -79.1, -88.9),
        (Peer::ParLock, "ParLock", -96.4, -96.5),
    ];
    let mut figures = Vec::new();
    for (peer, name, median, p90) in peers {
        for (quantile, which, paper) in [(0.5, "median", median), (0.9, "p90", p90)] {
            let best = most_under(lab, Peer::Fission, peer, quantile)?;
            figures.push(figure(format!("{which}, under {name}"), Paper::Number(paper), best, "%"));
            let fair = most_under(lab, Peer::FairFission, peer, quantile)?;
            figures.push(figure(format!("{which}, under {name}, {OUR_DEFAULT}"), Paper::Nothing, fair, "%"));
        }
    }
    let peers = [
        (Peer::Fission, "fission, at most", Paper::Number(9.42)),
        (Peer::FairFission, OUR_DEFAULT, Paper::Nothing),
        (Peer::SrvLock, "SrvLock, up to", Paper::Number(84.5)),
        (NETLOCK, "NetLock, up to", Paper::Number(76.2)),
        (Peer::ParLock, "ParLock, up to", Paper::Number(54.8)),
    ];
    for (peer, name, paper) in peers {
        let mut most = 0f64;
        for workload in &MICRO[..3] {
            let outcome = micro(lab, peer, workload, 0)?;
            most = most.max(grant(&outcome, 0.9));
        }
        figures.push(figure(format!("p90, uniform, {name}"), paper, most, "us"));
    }
    Ok(figures)
}

pub fn f4(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let peers = [(Peer::ParLock, "ParLock", 4.08), (Peer::SrvLock, "SrvLock", 4.79), (NETLOCK, "NetLock", 4.99)];
    let mut figures = Vec::new();
    for (peer, name, paper) in peers {
        let mut best = |fission| {
            let ratios =
                MICRO.map(|workload| Ok::<f64, Error>(rate(lab, fission, workload)? / rate(lab, peer, workload)?));
            ratios.into_iter().try_fold(0f64, |best, ratio| Ok::<f64, Error>(best.max(ratio?)))
        };
        figures.push(x(format!("over {name}"), paper, best(Peer::Fission)?));
        let fair = best(Peer::FairFission)?;
        figures.push(figure(format!("over {name}, {OUR_DEFAULT}"), Paper::Nothing, fair, "x"));
    }
    for workload in MICRO {
        let ours = rate(lab, Peer::Fission, workload)?;
        figures.push(figure(format!("{workload}, fission"), Paper::Drawn, ours, "M/s"));
        let fair = rate(lab, Peer::FairFission, workload)?;
        figures.push(figure(format!("{workload}, {OUR_DEFAULT}"), Paper::Nothing, fair, "M/s"));
    }
    for (peer, name, paper) in [
        (Peer::SrvLock, "SrvLock as modelled", Paper::Drawn),
        (Peer::Server, "our own lock server", Paper::Nothing),
        (NETLOCK, "NetLock", Paper::Drawn),
    ] {
        let ours = rate(lab, peer, READ_MOSTLY)?;
        figures.push(figure(format!("{READ_MOSTLY}, {name}"), paper, ours, "M/s"));
    }
    Ok(figures)
}

// ---- transactions ----

/// FissLock 7.4: of TATP's locks 0.09 % are in NetLock's switch.
const TATP_QUEUES: (u64, u64) = (9, 10_000);

pub fn f5(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let few = (lab.locks("tatp")? * TATP_QUEUES.0 / TATP_QUEUES.1) as usize;
    let netlock = |queues| Peer::NetLock { cells: CELLS, queues, random: false };
    let tatp = |peer| fisslock(peer, "tatp", 160, 2_000);
    let ours = lab.run(tatp(Peer::Fission))?.transactions_m();
    let fair = lab.run(tatp(Peer::FairFission))?.transactions_m();
    let as_paper = format!("NetLock with 0.09 % of the locks in its switch, {few}");
    let peers = [
        (Peer::ParLock, "ParLock", Paper::Number(2.93)),
        (Peer::SrvLock, "SrvLock", Paper::Number(2.37)),
        (netlock(few), as_paper.as_str(), Paper::Number(1.76)),
        (NETLOCK, "NetLock with 10,000, as elsewhere", Paper::Nothing),
    ];
    let mut figures = Vec::new();
    for (peer, name, paper) in peers {
        let theirs = lab.run(tatp(peer))?;
        figures.push(figure(format!("over {name}"), paper, ours / theirs.transactions_m(), "x"));
        if let Peer::NetLock { .. } = peer {
            let paper = if paper == Paper::Nothing { paper } else { Paper::Number(17.0) };
            figures.push(figure(format!("granted by the switch of {name}"), paper, at_switch(&theirs), "%"));
        }
    }
    figures.push(figure(format!("{OUR_DEFAULT}, over readers first"), Paper::Nothing, fair / ours, "x"));
    Ok(figures)
}

/// Requests of a run in which each of TPC-C's 1,200 clients makes ten transactions.
const SETTLED: u64 = 120_000;
/// FissLock 7.4 has 0.3 % of TPC-C's locks in NetLock's switch.
const TPCC_QUEUES: (u64, u64) = (3, 1_000);

pub fn f6(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let few = (lab.locks("tpcc")? * TPCC_QUEUES.0 / TPCC_QUEUES.1) as usize;
    let few = Peer::NetLock { cells: CELLS, queues: few, random: false };
    let mut run = |peer| lab.run(Run { least: SETTLED, ..fisslock(peer, "tpcc", 1_200, 10_000) });
    let (plain, local, fair) = (run(Peer::Fission)?, run(Peer::LocalFission)?, run(Peer::FairFission)?);
    let (par_lock, server) = (run(Peer::ParLock)?, run(Peer::SrvLock)?);
    let (netlock, restricted) = (run(NETLOCK)?, run(few)?);
    let over = |ours: &Outcome, theirs: &Outcome| ours.transactions_m() / theirs.transactions_m();
    let mut figures = vec![
        x("over SrvLock", 2.36, over(&plain, &server)),
        x("over NetLock with 10,000 locks in its switch, as elsewhere", 2.28, over(&plain, &netlock)),
        figure("granted by the switch of that NetLock", Paper::Number(6.0), at_switch(&netlock), "%"),
        figure("over NetLock with 0.3 % of the locks, as 7.4", Paper::Number(2.28), over(&plain, &restricted), "x"),
        figure("granted by the switch of that one", Paper::Number(6.0), at_switch(&restricted), "%"),
        x("over ParLock, with locality", 1.08, over(&local, &par_lock)),
        figure("over ParLock, without", Paper::Drawn, over(&plain, &par_lock), "x"),
        figure(format!("{OUR_DEFAULT}, over readers first"), Paper::Nothing, over(&fair, &plain), "x"),
    ];
    for kind in ["new order", "payment"] {
        let median = |of: &Outcome| of.of_kinds.get(kind).map_or(f64::NAN, |took| took.value_at_quantile(0.5) as f64);
        let paper = Paper::Range(-40.0, -60.0);
        for (name, other) in [("with locality", &local), ("ParLock's", &par_lock)] {
            let less = under(median(other), median(&plain));
            figures.push(figure(format!("{kind}, median {name}, under fission's without"), paper, less, "%"));
        }
        let us = median(&plain) / 1e3;
        figures.push(figure(format!("{kind}, median, fission"), Paper::Drawn, us, "us"));
    }
    let less = under(grant(&local, 0.5), grant(&plain, 0.5));
    figures.push(figure("median time to a grant with locality, under that without", Paper::Nothing, less, "%"));
    figures.push(figure("fission", Paper::Drawn, plain.transactions_m(), "M/s"));
    let share = 100.0 * local.note("by the own agent");
    figures.push(figure("with locality, requests granted by the own agent", Paper::Number(90.0), share, "%"));
    Ok(figures)
}

// ---- hot spots, scales, granularity ----

/// FissLock's hot spot moves each 300 ms.
const MOVES: u64 = 300 * MILLISECOND;
/// A timeline has so many milliseconds before it moves, and after.
const AROUND: usize = 5;

/// Requests in each millisecond, in millions a second: the hot spot moves between the two halves.
fn timeline(lab: &mut Lab, peer: Peer) -> Result<Vec<f64>, Error> {
    // The first millisecond is that in which clients begin.
    let later = MOVES - (AROUND as u64 + 1) * MILLISECOND;
    // A quarter as long again goes before what is measured.
    let lasts = (2 * AROUND as u64 + 2) * MILLISECOND * 4 / 5;
    let run = Run { later, lasts, ..fisslock(peer, "hot-spot", 160, 0) };
    let outcome = lab.run(run)?;
    let around = outcome.timeline.get(1..=2 * AROUND).ok_or("the run has ended too early")?;
    Ok(around.iter().map(|&grants| f64::from(grants) / 1e3).collect())
}

pub fn f7(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let hot = |lab: &mut Lab, peer| rate(lab, peer, "hot-spot");
    let moved = lab.run(Run { later: MOVES + MOVES / 3, ..fisslock(NETLOCK, "hot-spot", 160, 0) })?;
    let (ours, theirs) = (timeline(lab, Peer::Fission)?, timeline(lab, NETLOCK)?);
    let least = |part: &[f64]| part.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |part: &[f64]| part.iter().copied().fold(0.0, f64::max);
    let (before, after) = theirs.split_at(AROUND);
    let by_this = "by which its clients' cost was set";
    let mut figures = vec![
        figure(format!("fission ({by_this})"), Paper::Number(6.0), hot(lab, Peer::Fission)?, "M/s"),
        figure(OUR_DEFAULT, Paper::Nothing, hot(lab, Peer::FairFission)?, "M/s"),
        figure("NetLock, the hot spot in the switch", Paper::Range(3.44, 4.58), hot(lab, NETLOCK)?, "M/s"),
        figure("NetLock, once it has moved", Paper::Number(3.0), moved.requests_m(), "M/s"),
        figure("SrvLock (by which a manager's cost was set)", Paper::Number(3.0), hot(lab, Peer::SrvLock)?, "M/s"),
        figure("fission, the least millisecond of ten around the move", Paper::Number(6.0), least(&ours), "M/s"),
        figure("NetLock, the least millisecond of five before", Paper::Number(3.44), least(before), "M/s"),
        figure("NetLock, the most of them", Paper::Number(4.58), most(before), "M/s"),
        figure("NetLock, the first millisecond after", Paper::Number(3.0), after[0], "M/s"),
        figure("NetLock, the least of five after", Paper::Number(3.0), least(after), "M/s"),
    ];
    for (place, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        let from = place as i64 - AROUND as i64;
        let when = format!("from {from} to {} ms of the move", from + 1);
        figures.push(figure(format!("timeline, {when}: fission"), Paper::Drawn, *ours, "M/s"));
        figures.push(figure(format!("timeline, {when}: NetLock"), Paper::Drawn, *theirs, "M/s"));
    }
    Ok(figures)
}

pub fn f8(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let scale = "scale-10m";
    let (ours, theirs) = (micro(lab, Peer::Fission, scale, 0)?, micro(lab, Peer::ParLock, scale, 0)?);
    let fair = micro(lab, Peer::FairFission, scale, 0)?;
    let few = micro(lab, Peer::Fission, READ_MOSTLY, 0)?;
    let less = |of: &Outcome, quantile| under(grant(of, quantile), grant(&theirs, quantile));
    let more = grant(&ours, 0.5) / grant(&few, 0.5);
    // What FissLock's switch has room for, of 10 M.
    let room = 100.0 * f64::from(SLOTS) / 10e6;
    Ok(vec![
        figure("p20", Paper::Number(-39.9), less(&ours, 0.2), "%"),
        figure("p90", Paper::Number(-9.9), less(&ours, 0.9), "%"),
        figure(format!("p20, {OUR_DEFAULT}"), Paper::Nothing, less(&fair, 0.2), "%"),
        figure(format!("p90, {OUR_DEFAULT}"), Paper::Nothing, less(&fair, 0.9), "%"),
        figure("median with 10 M names over that with 1 M, fission", Paper::Drawn, more, "x"),
        figure("granted by our switch", Paper::Number(10.0), at_switch(&ours), "%"),
        figure("names that a switch of 1.68 M locks has room for", Paper::Nothing, room, "%"),
    ])
}

pub fn f9(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    const UNIFORM: [(&str, &str); 4] = [
        ("granularity-1k", "1,000 locks"),
        ("granularity-10k", "10,000 locks"),
        ("granularity-100k", "100,000 locks"),
        ("granularity-1m", "1 M locks"),
    ];
    const ZIPF: [(&str, &str); 2] = [("granularity-1k-zipf", "1,000 locks"), ("granularity-1m-zipf", "1 M locks")];
    let mut figures = Vec::new();
    for (name, workloads, paper) in [("uniform", &UNIFORM[..], 1.99), ("Zipf", &ZIPF[..], 1.26)] {
        let (mut peaks, mut curves) = ([0f64; 3], Vec::new());
        let peers = [(Peer::Fission, "fission"), (Peer::FairFission, OUR_DEFAULT), (NETLOCK, "NetLock")];
        for (index, (peer, service)) in peers.into_iter().enumerate() {
            for &(workload, locks) in workloads {
                let one = rate(lab, peer, workload)?;
                peaks[index] = peaks[index].max(one);
                let paper = if peer == Peer::FairFission { Paper::Nothing } else { Paper::Drawn };
                curves.push(figure(format!("{name}, {locks}: {service}"), paper, one, "M/s"));
            }
        }
        let [ours, fair, theirs] = peaks;
        let of_netlock = if name == "uniform" { Paper::Number(5.65) } else { Paper::Drawn };
        figures.push(x(name, paper, ours / theirs));
        figures.push(figure(format!("{name}, {OUR_DEFAULT}"), Paper::Nothing, fair / theirs, "x"));
        figures.push(figure(format!("NetLock's peak, {name}"), of_netlock, theirs, "M/s"));
        figures.append(&mut curves);
    }
    Ok(figures)
}

// ---- recovery, and a bank ----

/// Locks that are held, and how that is written.
const HELD: [(u64, &str); 5] =
    [(1_000, "1,000"), (3_000, "3,000"), (10_000, "10,000"), (30_000, "30,000"), (100_000, "100,000")];

pub fn f10(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let costs = lab.costs;
    let milliseconds = |locks, one_dies| Ok::<f64, Error>(rebuild(costs, locks, one_dies)? as f64 / 1e6);
    // A lock of each node: what does not depend on how many there are.
    let none = milliseconds(8, false)?;
    let mut took = Vec::new();
    for (locks, name) in HELD {
        took.push((locks as f64, name, milliseconds(locks, false)?));
    }
    let grows: Vec<(f64, f64)> = took.iter().map(|(locks, _, ms)| (*locks, ms - none)).collect();
    let power = |points: &[(f64, f64)]| exponent(points).ok_or("nothing grows");
    let (all, most) = (power(&grows)?, power(&grows[grows.len() - 3..])?);
    let mut figures = vec![
        figure("power of the locks by which it grows, five sizes", Paper::Number(1.0), all, ""),
        figure("the same, the three largest", Paper::Number(1.0), most, ""),
        figure("the switch alone, 8 locks held", Paper::Nothing, none, "ms"),
    ];
    for (_, name, ms) in took {
        figures.push(figure(format!("the switch alone, {name} locks held"), Paper::Drawn, ms, "ms"));
    }
    let dead = milliseconds(10_000, true)? - f64::from(LEASE) / 1e3;
    figures.push(figure("a node dies with it, 10,000 locks, beyond its lease", Paper::Drawn, dead, "ms"));
    Ok(figures)
}

pub fn f11(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    // In order, as nobody gives up what it waits for.
    let bank = |peer| Run { sorted: true, ..Run::of(Testbed::Banking, peer, "banking", 160) };
    let (ours, theirs) = (lab.run(bank(Peer::Fission))?, lab.run(bank(Peer::RedLock))?);
    let fair = lab.run(bank(Peer::FairFission))?;
    // As if RedLock's commands came together, too, at the price of those of the accounts.
    let price = lab.costs.get(Cost::Pipelined).saturating_sub(2 * lab.costs.get(Cost::Packet));
    let mut other = Lab::new(lab.costs.with(Cost::Command, price), lab.requests, lab.seed);
    let alike = other.run(bank(Peer::RedLock))?;
    let thousands = |of: &Outcome| of.transactions_m() * 1e3;
    Ok(vec![
        x("operations", 825.4 / 24.8, thousands(&ours) / thousands(&theirs)),
        figure("operations, our fair default", Paper::Nothing, thousands(&fair) / thousands(&theirs), "x"),
        figure("fission", Paper::Number(825.4), thousands(&ours), "k/s"),
        figure("RedLock", Paper::Number(24.8), thousands(&theirs), "k/s"),
        figure("RedLock's median over fission's", Paper::Drawn, latency(&theirs, 0.5) / latency(&ours, 0.5), "x"),
        figure("RedLock, were its commands as cheap as the accounts'", Paper::Nothing, thousands(&alike), "k/s"),
        figure("operations then", Paper::Nothing, thousands(&ours) / thousands(&alike), "x"),
    ])
}
