//! The papers' headline figures, and what the model gives for each.
//!
//! A headline is measured by a function of the lab, so that the same figures come of other costs: the sensitivity. What
//! `why` says of a difference was written after the figures, which were not changed for it.

use super::costs::Cost;
use super::lab::{CELLS, Lab, Peer, QUEUES, Run, SLOTS, Testbed};
use super::world::Outcome;
use crate::Error;
use std::rc::Rc;

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
    /// Not here: where, or why not.
    Elsewhere(&'static str),
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
    let elsewhere = |id, what, how| Headline { id, what, how: How::Elsewhere(how), why: "", varied: &[] };
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
        simulated("N8", "requests against cells and think time", n8, &[], WHY_N8),
        elsewhere("N9", "service differentiation and isolation", WHERE_N9),
        elsewhere("N10", "switch failure and reactivation", WHERE_RECOVERY),
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
        simulated("F9", "peak of requests over granularities of 10 M objects, over NetLock's", f9, &[], WHY_F9),
        elsewhere("F10", "recovery time of a switch and a server", WHERE_RECOVERY),
        elsewhere("F11", "mobile banking over RedLock", WHERE_F11),
        Headline { id: "C1", what: "queries of 4 clients", how: How::Computed(c1), why: WHY_C1, varied: NETCHAIN },
        Headline {
            id: "C2",
            what: "latency of a read and of a write",
            how: How::Computed(c2),
            why: WHY_C2,
            varied: NETCHAIN,
        },
        elsewhere("C3", "throughput against value size and store size", WHERE_C3),
        elsewhere("C4", "failover and recovery with 1 and 100 virtual groups", WHERE_C4),
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
    let testbed = Testbed::NetLock(hosts, 12 - hosts);
    lab.run(Run {
        testbed,
        peer,
        workload,
        clients: hosts * CLIENTS,
        execution,
        sorted: true,
        moved: false,
        traced: false,
    })
}

/// NetLock's transactions over those of a peer.
fn over(lab: &mut Lab, hosts: usize, peer: Peer, workload: &'static str) -> Result<f64, Error> {
    let ours = netlock(lab, hosts, NETLOCK_PEER, workload, 0)?.transactions_m();
    Ok(ours / netlock(lab, hosts, peer, workload, 0)?.transactions_m())
}

const LOW: &str = "tpcc-low";
const HIGH: &str = "tpcc-high";

fn n1(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    Ok(vec![x("over DSLR", 14.9, over(lab, 10, Peer::Dslr, LOW)?)])
}

fn n2(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    Ok(vec![x("over DrTM", 28.6, over(lab, 10, Peer::Drtm, LOW)?)])
}

fn n3(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    Ok(vec![x("over NetChain", 3.5, over(lab, 10, Peer::NetChain, LOW)?)])
}

fn n4(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    Ok(vec![
        x("over DSLR", 18.4, over(lab, 10, Peer::Dslr, HIGH)?),
        x("over DrTM", 33.5, over(lab, 10, Peer::Drtm, HIGH)?),
        x("over NetChain", 4.4, over(lab, 10, Peer::NetChain, HIGH)?),
    ])
}

fn n5(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let mut best = |peer| Ok::<f64, Error>(over(lab, 6, peer, LOW)?.max(over(lab, 6, peer, HIGH)?));
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
    lab.run(Run {
        testbed: Testbed::FissLock,
        peer,
        workload,
        clients,
        execution,
        sorted: false,
        moved: false,
        traced: false,
    })
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
    let ours = fisslock(lab, Peer::Fission, "tpcc", 1_200, 10_000)?.transactions_m();
    let mut figures = Vec::new();
    for (peer, name, paper) in
        [(Peer::SrvLock, "SrvLock", 2.36), (FISSLOCK_NETLOCK, "NetLock", 2.28), (Peer::ParLock, "ParLock", 1.08)]
    {
        let theirs = fisslock(lab, peer, "tpcc", 1_200, 10_000)?;
        figures.push(x(format!("over {name}"), paper, ours / theirs.transactions_m()));
        if peer == FISSLOCK_NETLOCK {
            let share = 100.0 * theirs.note("granted by the switch");
            figures.push(figure("NetLock's requests at the switch", Some(6.0), share, "%"));
        }
    }
    Ok(figures)
}

fn f7(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let before = micro(lab, FISSLOCK_NETLOCK, "hot-spot", 0)?;
    let moved = lab.run(Run {
        testbed: Testbed::FissLock,
        peer: FISSLOCK_NETLOCK,
        workload: "hot-spot",
        clients: 160,
        execution: 0,
        sorted: false,
        moved: true,
        traced: false,
    })?;
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

const WHY_N: &str = "the order of the peers is the paper's, its distances are not. Our TPC-C has FissLock's \
    121 locks a warehouse (80 warehouses at low contention, 8 at high), where NetLock's \
    traces have rows: far more transactions wait for each other whoever grants, so that \
    one waiting time dominates all services alike, most at high contention. In the \
    programs' own order these locks deadlock all the time; here they are taken in the \
    order of their numbers. The model's NICs do atomics at their published rate and its \
    peers back off as their papers say: nothing in it lets DSLR fall to the 0.1 M \
    transactions/s that the paper's ratios imply, and the sensitivity shows that no \
    constant does. 160 clients are Little's law for the paper's own figures, not told \
    there. Cells are the artifact's 130,000: the switch grants nearly all. At 6 + 6 \
    machines 96 clients are what limits.";
const WHY_N7: &str = "the paper tells neither the cells nor the warehouses' rows. Our lock server has the 16 \
    cores of both machines and answers what the switch does not, so a bad allocation costs \
    less; and a lock of which the run's clients want more than its cells leads requests to \
    the server with the knapsack, too.";
const WHY_N8: &str = "the knee is softer and lower: clients take 9.3 us and 8.6 locks a transaction wait for \
    each other. With 100 us of think time our overflow goes on at the lock server, and 160 \
    transactions under way are what limits; the paper's 0.60 M/s is less than so many \
    clients would make without any switch.";
const WHERE_N9: &str = "priorities are not in our queue engine (docs/queue.md has what is absent). What a \
    flooding tenant does to another one is measured on packets: docs/isolation.md.";
const WHERE_RECOVERY: &str = "the model has no controller and nothing fails in it. Measured on packets: \
    docs/recovery.md.";
const WHY_F1: &str = "the text has no numbers for its figure 3. That the share is large, falls with the \
    execution time and is smaller where the switch grants is as there.";
const WHY_F2: &str = "arithmetic: 8 of 12 stages of 560 KB. 18 bits would give 1.99 M, stages are filled in \
    whole fields, hence 1.68 M. A slot of ours has 128 bits, which hold what the mended \
    protocol needs (tenure, joins, 16 bits of node, hints); it was made for hosts, where a \
    million take 16 MB.";
const WHY_F3: &str = "close. A manager of SrvLock and ParLock has its load from the figure by which its cost \
    was set; medians and tails are the model's own. Fission's p90 is what two clients that \
    share a core do to each other, not the network: it takes 2.8 us alone.";
const WHY_F4: &str = "\"up to\" is over ParLock by Zipf's law with readers, where three quarters of all \
    locks asked for are at one of eight servers (the paper has 57 %; with locks dealt out \
    by number, not in ranges, there would be no such load at all); the others are uniform. \
    Fission is bound by its clients, 5.5 M/s, as SrvLock is by its server, 2.9 M/s: their \
    ratio is that of FissLock's own figures for 7.5, 6 M/s over 3 M/s. What the paper's \
    4.8 over SrvLock rests on its text does not tell. Ours sends an answer to each release \
    and has a lock server's answers, too: one packet more than the papers' protocols. By \
    Zipf's law with half writes the hottest lock is the limit of all services, and \
    NetLock's queue in the switch is the fastest: its hand-over has no node in between.";
const WHY_F5: &str = "ParLock has 43 % of its requests at one server here, since tables are ranges. \
    NetLock's share at the switch is larger than the paper's (10,000 locks where the paper \
    had 0.09 % of them, 600), and so is what it gains by that. Over SrvLock: the two \
    bounds of F4.";
const WHY_F6: &str = "close. Locks of a node's warehouses are at its own ParLock server. Ours is fission \
    without any locality, which the paper has below FissLock-Local; its 1.08 is the \
    latter's.";
const WHY_F7: &str = "close. Fission's 5.5 M/s against 6 is a packet more for each request; that its \
    clients' cost was set by this very figure makes the absolute value no prediction. \
    NetLock's, before and after, are.";
const WHY_F8: &str = "FissLock sends what is beyond its 1.68 M locks to ParLock. Here a slot is a bucket of \
    names: 10 M names over as many slots are granted by the switch like 1 M, two names \
    hardly ever meeting in a slot. So there is nothing that approaches ParLock's.";
const WHY_F9: &str = "with 1,000 or 10,000 locks all of them have a queue in NetLock's switch here, and \
    readers, nine in ten, do not wait for each other long enough: both engines are bound \
    by their clients, NetLock with one decision of an agent less. The paper has it at 5.65 \
    M/s, as we do, and fission at twice that, 11 M/s, which its own figure of 6 M/s for \
    7.5 does not allow with the same clients.";
const WHERE_F11: &str = "not modelled: the figure is Redis' and RedLock's pauses. RedLock beside Wayside on \
    real Redis: docs/figures.md.";
const WHY_C1: &str = "no prediction: the packet's cost comes from this client. The switches are not the \
    limit; 2,000 M/s is what the paper computes from their packet rate.";
const WHY_C2: &str = "a sum of constants without any waiting. The paper's 9.7 us are mostly its client's \
    (DPDK batches), which the model does not have. What our chains take on packets, beside \
    etcd and ZooKeeper: docs/kv.md.";
const WHERE_C3: &str = "a model would give what it assumes. On packets: docs/kv.md.";
const WHERE_C4: &str = "the model has no controller. A switch that dies in a chain, on packets: docs/kv.md.";
