//! NetLock's headlines (N1 to N10): its transactions beside those of remote memory and of NetChain's locks, its
//! switch's memory, tenants, whose priorities are measured on packets, and a switch that is away.

use super::costs::Cost;
use super::engines::Outage;
use super::headlines::{Figure, Paper, figure, x};
use super::lab::{CELLS, FIRST_TENANT, Lab, MACHINES, Peer, Run, Testbed};
use super::world::Outcome;
use crate::Error;
use crate::queues::Queues;

/// NetLock as it is in 6.3: the artifact's cells.
const NETLOCK_PEER: Peer = Peer::NetLock { cells: CELLS, queues: 55_000, random: false };
/// Clients of a machine: transactions under way by Little's law, 1.4 M/s of 0.12 ms, on ten machines.
const CLIENTS: usize = 16;
/// As many as the artifact's scripts start.
const SCRIPTED: usize = 4;
/// Requests of a run in which transactions that wait in a circle end by their time-out of 2 ms: 18 ms of virtual time.
const SETTLED: u64 = 120_000;

/// Clients of remote memory go from lock to lock, as their papers have it: only NetLock's own ask for all at once, and
/// those of NetChain's locks, which are the same program.
fn netlock(hosts: usize, peer: Peer, workload: &'static str) -> Run {
    Run { at_once: !matches!(peer, Peer::Dslr | Peer::Drtm), ..one_by_one(hosts, peer, workload) }
}

/// Clients of none ask for more than one lock at a time.
fn one_by_one(hosts: usize, peer: Peer, workload: &'static str) -> Run {
    let run = Run::of(Testbed::NetLock(hosts, 12 - hosts), peer, workload, hosts * CLIENTS);
    Run { sorted: true, ..run }
}

fn transactions(lab: &mut Lab, run: Run) -> Result<f64, Error> {
    Ok(lab.run(run)?.transactions_m())
}

/// NetLock's transactions over those of a peer.
fn over(lab: &mut Lab, hosts: usize, peer: Peer, workload: &'static str) -> Result<f64, Error> {
    let ours = transactions(lab, netlock(hosts, NETLOCK_PEER, workload))?;
    Ok(ours / transactions(lab, netlock(hosts, peer, workload))?)
}

/// The same with clients that differ in nothing: what their one difference makes.
fn over_by_one(lab: &mut Lab, peer: Peer, workload: &'static str, name: &str) -> Result<Figure, Error> {
    let ours = transactions(lab, one_by_one(10, NETLOCK_PEER, workload))?;
    let theirs = transactions(lab, one_by_one(10, peer, workload))?;
    Ok(figure(format!("over {name}, if both take one lock after the other"), Paper::Nothing, ours / theirs, "x"))
}

/// Millions of transactions a second, which the paper has drawn.
fn rate(lab: &mut Lab, peer: Peer, workload: &'static str, name: &str) -> Result<Figure, Error> {
    let rate = transactions(lab, netlock(10, peer, workload))?;
    Ok(figure(name, Paper::Drawn, rate, "M/s"))
}

const LOW: &str = "tpcc-rows-low";
const HIGH: &str = "tpcc-rows-high";

pub fn n1(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let dslr = lab.run(netlock(10, Peer::Dslr, LOW))?;
    let locks = dslr.requests as f64 / dslr.transactions as f64;
    let operations = dslr.note("operations a lock");
    // Of two machines, each with one NIC.
    let bound = 2.0 * 1e3 / lab.costs.get(Cost::Atomic) as f64 / (2.0 * locks);
    Ok(vec![
        x("over DSLR", 14.9, over(lab, 10, Peer::Dslr, LOW)?),
        over_by_one(lab, Peer::Dslr, LOW, "DSLR")?,
        rate(lab, NETLOCK_PEER, LOW, "NetLock")?,
        rate(lab, Peer::Dslr, LOW, "DSLR")?,
        figure("locks of a transaction", Paper::Nothing, locks, ""),
        figure("DSLR's operations of a NIC for a lock", Paper::Nothing, operations, ""),
        figure("DSLR at most, by two NICs with two atomics for a lock", Paper::Nothing, bound, "M/s"),
    ])
}

pub fn n2(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let refused = 100.0 * lab.run(netlock(10, Peer::Drtm, LOW))?.note("refused");
    Ok(vec![
        x("over DrTM", 28.6, over(lab, 10, Peer::Drtm, LOW)?),
        over_by_one(lab, Peer::Drtm, LOW, "DrTM")?,
        rate(lab, Peer::Drtm, LOW, "DrTM")?,
        figure("DrTM's tries that were refused", Paper::Nothing, refused, "%"),
    ])
}

/// Transactions that were given up, for each that was done.
fn given_up(outcome: &Outcome) -> f64 {
    outcome.aborts as f64 / outcome.transactions as f64
}

pub fn n3(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let settled = |run: Run| Run { least: SETTLED, ..run };
    let ours = lab.run(settled(netlock(10, NETLOCK_PEER, LOW)))?;
    let theirs = lab.run(settled(netlock(10, Peer::NetChain, LOW)))?;
    let one_ours = lab.run(settled(one_by_one(10, NETLOCK_PEER, LOW)))?;
    let one_theirs = lab.run(settled(one_by_one(10, Peer::NetChain, LOW)))?;
    let by_one = one_ours.transactions_m() / one_theirs.transactions_m();
    Ok(vec![
        x("over NetChain", 3.5, ours.transactions_m() / theirs.transactions_m()),
        figure("over NetChain, if both take one lock after the other", Paper::Nothing, by_one, "x"),
        figure("NetChain", Paper::Drawn, theirs.transactions_m(), "M/s"),
        figure("NetChain, given up for each that is done", Paper::Nothing, given_up(&theirs), ""),
        figure("NetLock, given up for each that is done", Paper::Nothing, given_up(&ours), ""),
        figure("NetChain's tries that were refused", Paper::Nothing, 100.0 * theirs.note("refused"), "%"),
    ])
}

pub fn n4(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let up = given_up(&*lab.run(netlock(10, Peer::NetChain, HIGH))?);
    Ok(vec![
        x("over DSLR", 18.4, over(lab, 10, Peer::Dslr, HIGH)?),
        x("over DrTM", 33.5, over(lab, 10, Peer::Drtm, HIGH)?),
        x("over NetChain", 4.4, over(lab, 10, Peer::NetChain, HIGH)?),
        over_by_one(lab, Peer::Dslr, HIGH, "DSLR")?,
        over_by_one(lab, Peer::Drtm, HIGH, "DrTM")?,
        over_by_one(lab, Peer::NetChain, HIGH, "NetChain")?,
        rate(lab, NETLOCK_PEER, HIGH, "NetLock")?,
        rate(lab, Peer::Dslr, HIGH, "DSLR")?,
        rate(lab, Peer::Drtm, HIGH, "DrTM")?,
        rate(lab, Peer::NetChain, HIGH, "NetChain")?,
        figure("NetChain, given up for each that is done", Paper::Nothing, up, ""),
    ])
}

pub fn n5(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let [low, high] = ["tpcc-rows-low-6", "tpcc-rows-high-6"];
    let mut best = |peer| Ok::<f64, Error>(over(lab, 6, peer, low)?.max(over(lab, 6, peer, high)?));
    Ok(vec![
        x("over DSLR", 17.5, best(Peer::Dslr)?),
        x("over DrTM", 33.1, best(Peer::Drtm)?),
        x("over NetChain", 5.5, best(Peer::NetChain)?),
    ])
}

pub fn n6(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let (mut mean, mut tail) = (0f64, 0f64);
    for workload in [LOW, HIGH] {
        let ours = lab.run(netlock(10, NETLOCK_PEER, workload))?;
        let dslr = lab.run(netlock(10, Peer::Dslr, workload))?;
        mean = mean.max(dslr.latencies.mean() / ours.latencies.mean());
        let p99 = |of: &Outcome| of.latencies.value_at_quantile(0.99) as f64;
        tail = tail.max(p99(&dslr) / p99(&ours));
    }
    Ok(vec![x("mean", 20.3, mean), x("p99", 18.4, tail)])
}

fn with_cells(cells: u32, random: bool, think: u64) -> Run {
    Run { execution: think, ..netlock(10, Peer::NetLock { cells, queues: 55_000, random }, LOW) }
}

pub fn n7(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let knapsack = lab.run(with_cells(3_000, false, 0))?;
    let random = lab.run(with_cells(3_000, true, 0))?;
    let at_switch = |of: &Outcome| 100.0 * of.note("granted by the switch");
    Ok(vec![
        x("requests", 2.95, knapsack.requests_m() / random.requests_m()),
        figure("knapsack", Paper::Number(8.61), knapsack.requests_m(), "M/s"),
        figure("random (the paper's: 8.61 by 2.95)", Paper::Number(8.61 / 2.95), random.requests_m(), "M/s"),
        figure("at the switch, knapsack", Paper::Drawn, at_switch(&knapsack), "%"),
        figure("at the switch, random", Paper::Drawn, at_switch(&random), "%"),
    ])
}

pub fn n8(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    for think in [0, 5, 10, 100] {
        for cells in [500, 1_000, 2_000, 3_000, 5_000] {
            let paper = match (think, cells) {
                (0, 3_000) => Paper::Number(8.61),
                (0, 5_000) => Paper::Number(8.64),
                (100, 3_000) => Paper::Number(0.60),
                _ => Paper::Drawn,
            };
            let name = match (think, cells) {
                (0, 5_000) => "5000 cells, no think time (by which its client's cost was set)".into(),
                (0, _) => format!("{cells} cells, no think time"),
                _ => format!("{cells} cells, {think} us"),
            };
            let ours = lab.run(with_cells(cells, false, think * 1_000))?.requests_m();
            figures.push(figure(name, paper, ours, "M/s"));
        }
    }
    let scripted = Run { clients: 10 * SCRIPTED, ..with_cells(3_000, false, 100_000) };
    let outcome = lab.run(scripted)?;
    figures.push(figure("3000 cells, 100 us, 40 clients", Paper::Nothing, outcome.requests_m(), "M/s"));
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

pub fn n9(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let mut run = |budget| {
        let run = Run::of(Testbed::Tenants, Peer::Tenants(budget), "exclusive-55k", SCRIPTED * MACHINES);
        // Twenty times the shortest pause of who was refused.
        Ok::<_, Error>(of_tenants(&*lab.run(Run { lasts: 100_000_000, ..run })?))
    };
    let (first, second) = run(None)?;
    let half = (first + second) / 2.0;
    let (bounded, freed) = run(Some((half * 1e6) as u32))?;
    let all = (bounded + freed) / (first + second);
    Ok(vec![
        figure("first tenant over second, without budgets", Paper::Drawn, first / second, "x"),
        x("first tenant over second, each with half as its budget", 1.0, bounded / freed),
        figure("second tenant with budgets, over without", Paper::Drawn, freed / second, "x"),
        figure("both with budgets, over without", Paper::Drawn, all, "x"),
    ])
}

/// Service differentiation: figure 12 (a), which is drawn.
pub fn n9_on_packets(queues: &Queues) -> Vec<Figure> {
    let each = |(engine, priorities, ratio): (&str, &str, f64)| {
        let name = format!("on packets, priorities {priorities}: second tenant over first, {engine}");
        figure(name, Paper::Drawn, ratio, "x")
    };
    queues.second_over_first().into_iter().map(each).collect()
}

/// A millisecond of a timeline, in virtual nanoseconds.
pub const MILLISECOND: u64 = 1_000_000;
/// The switch of N10 stops then, so that sessions outlive it: as long as their clients try, and for less than that.
const AWAY: Outage = Outage { from: 60 * MILLISECOND, lasts: 100 * MILLISECOND, lease: 300_000 };
const BLINK: Outage = Outage { lasts: 5 * MILLISECOND, ..AWAY };
/// Of N10.
const FEW: usize = 20;
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

pub fn n10(lab: &mut Lab) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    for (peer, name) in [(NETLOCK_PEER, "queues"), (Peer::FairFission, "fission")] {
        for outage in [AWAY, BLINK] {
            // Leases, where they are waited for, and a while. Measuring begins after a quarter of what is measured.
            let waits = peer == NETLOCK_PEER && outage == BLINK;
            let leases = if waits { u64::from(outage.lease) * 1_000 } else { 0 };
            let until = outage.end() + leases + 120 * MILLISECOND;
            let run = Run::of(Testbed::NetLock(10, 2), peer, LOW, FEW);
            let outcome = lab.run(Run { sorted: true, outage: Some(outage), lasts: until * 4 / 5, ..run })?;
            let (away, after, back) = around(outage, &outcome.timeline)?;
            let name = format!("{name}, {} ms away", outage.lasts / MILLISECOND);
            let paper = |value| if outage == AWAY { Paper::Number(value) } else { Paper::Nothing };
            let lost = outcome.note("holds lost");
            figures.push(figure(format!("{name}: meanwhile, over before"), paper(0.0), away, "x"));
            figures.push(figure(format!("{name}: once it is back, over before"), paper(1.0), after, "x"));
            figures.push(figure(format!("{name}: back so long after the reactivation"), Paper::Drawn, back, "ms"));
            figures.push(figure(format!("{name}: holds lost"), Paper::Nothing, lost, "locks"));
        }
    }
    Ok(figures)
}
