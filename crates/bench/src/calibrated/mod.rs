//! The calibrated simulator: papers' headline figures by a model of what everything costs, in virtual time.
//!
//! * `costs.rs`: the constants, each with its source. `fabric.rs`: cores, NICs and the switch as queues.
//! * `world.rs`: clients with a workload's transactions, and what must hold of every run.
//! * `engines/`: lock services. This repository's own are its nodes and the switch's core themselves, of which no
//!   decision is modelled; peers are modelled after their papers.
//! * `lab.rs`: a run. `rebuild.rs`: one without a workload, after a switch's end. `rivals.rs`: both engines under
//!   contention, for `queues/`.
//! * `headlines.rs`: which figures there are; `netlock.rs`, `fisslock.rs`, `netchain.rs`: what each is made of.
//!   `reasons.rs`: why ours differs. `report.rs`: what comes out; `page.rs`: in the report; `csv.rs`: for programs.
//!
//! A figure is a ratio of two models, and no better than they are: docs/headlines.md has what each depends on.

mod costs;
mod csv;
mod engines;
mod fabric;
mod fisslock;
mod headlines;
mod lab;
mod netchain;
mod netlock;
mod page;
mod reasons;
mod rebuild;
mod report;
mod rivals;
mod world;

use std::io::{IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

pub(crate) use lab::{Apart, FIRST_TENANT, MACHINES};
pub use report::{Calibrated, put_calibrated};
pub(crate) use rivals::{Keeper, RIVALS, Rivals};

use costs::{Cost, Costs};
use headlines::{Figure, Headline};
use lab::Lab;
use report::Row;

use crate::Error;
use crate::keys::Keys;
use crate::knobs::Machine;
use crate::queues::Queues;

/// What to measure.
#[derive(Clone, Debug)]
pub struct CalibratedOptions {
    /// These headlines; all, if there are none.
    pub ids: Vec<String>,
    /// Requests for locks that a run measures, about.
    pub requests: u64,
    /// Requests of runs with other costs, and of those that they are compared with. 0: none are made.
    pub varied: u64,
    /// Each figure so often, with other requests and other pauses.
    pub seeds: u64,
    /// What the model does not have.
    pub packets: Packets,
}

/// Records of what was measured on packets. Where there is none, what is taken out of it has no figures.
#[derive(Clone, Debug, Default)]
pub struct Packets {
    /// Of keys and chains.
    pub keys: Option<Kept<Keys>>,
    /// Of queues, priorities and budgets.
    pub queues: Option<Kept<Queues>>,
}

/// A record that is kept.
#[derive(Clone, Debug)]
pub struct Kept<T> {
    /// Where.
    pub record: String,
    /// What is in it.
    pub content: T,
}

impl CalibratedOptions {
    /// Everything, in nine minutes on two cores.
    #[must_use]
    pub fn whole() -> CalibratedOptions {
        CalibratedOptions { ids: Vec::new(), requests: 60_000, varied: 8_000, seeds: 3, packets: Packets::default() }
    }

    /// Figures alone, once, and of shorter runs.
    #[must_use]
    pub fn short() -> CalibratedOptions {
        CalibratedOptions { ids: Vec::new(), requests: 10_000, varied: 0, seeds: 1, packets: Packets::default() }
    }
}

/// What all headlines are measured for.
#[derive(Clone, Copy, PartialEq)]
enum Purpose {
    /// The table.
    Table,
    /// What runs with other costs are compared with: as short as they are.
    Short,
    /// One of the costs halved, or doubled.
    Varied(Cost, bool),
}

/// All headlines once, with the same costs.
#[derive(Clone, Copy)]
struct Pass {
    purpose: Purpose,
    seed: u64,
}

impl Pass {
    /// The longest first, so that no thread is left alone with one.
    fn all(options: &CalibratedOptions, chosen: &[Headline]) -> Vec<Pass> {
        let seeds = |purpose| (1..=options.seeds).map(move |seed| Pass { purpose, seed });
        let mut passes: Vec<Pass> = seeds(Purpose::Table).collect();
        if options.varied > 0 {
            passes.extend(seeds(Purpose::Short));
            let each = |(cost, ..): (Cost, _, _, _)| [false, true].map(|doubled| Purpose::Varied(cost, doubled));
            passes.extend(costs::sources().flat_map(each).map(|purpose| Pass { purpose, seed: 1 }));
        }
        passes.retain(|pass| chosen.iter().any(|headline| pass.concerns(headline)));
        passes
    }

    fn costs(self) -> Costs {
        match self.purpose {
            Purpose::Table | Purpose::Short => Costs::of_sources(),
            Purpose::Varied(cost, doubled) => Costs::of_sources().scaled(cost, if doubled { (2, 1) } else { (1, 2) }),
        }
    }

    fn concerns(self, headline: &Headline) -> bool {
        match self.purpose {
            Purpose::Table => true,
            Purpose::Short => !headline.varied.is_empty(),
            Purpose::Varied(cost, _) => headline.varied.contains(&cost),
        }
    }
}

/// Runs the model.
///
/// # Errors
/// If there is no such headline, or a run breaks a rule: two holders of a lock, a client that waits for ever.
///
/// # Panics
/// If a thread has.
pub fn run_calibrated(options: &CalibratedOptions) -> Result<Calibrated, Error> {
    let machine = Machine::look();
    let begun = Instant::now();
    let known = headlines::all();
    if let Some(id) = options.ids.iter().find(|id| known.iter().all(|headline| headline.id != **id)) {
        let ids: Vec<&str> = known.iter().map(|headline| headline.id).collect();
        return Err(format!("there is no headline {id}; there are {}", ids.join(", ")));
    }
    let is_chosen = |headline: &Headline| options.ids.is_empty() || options.ids.iter().any(|id| id == headline.id);
    let chosen: Vec<Headline> = known.into_iter().filter(is_chosen).collect();
    let passes = Pass::all(options, &chosen);
    let measured = measure(options, &chosen, &passes)?;
    let of = |place: usize, purpose: Purpose| -> Vec<Vec<Figure>> {
        let concerned = passes.iter().zip(&measured).filter(|(pass, _)| pass.purpose == purpose);
        concerned.map(|(_, figures)| figures[place].clone()).collect()
    };
    let rows = chosen.iter().enumerate().map(|(place, headline)| {
        let modelled = if headline.how.measure().is_some() { of(place, Purpose::Table) } else { Vec::new() };
        let mut row = Row::new(headline, &modelled);
        if options.varied > 0 && !headline.varied.is_empty() {
            row.compare_with(&of(place, Purpose::Short));
            for (cost, name, ..) in costs::sources().filter(|(cost, ..)| headline.varied.contains(cost)) {
                let [half, double] = [false, true].map(|doubled| of(place, Purpose::Varied(cost, doubled)));
                row.vary(name, &half[0], &double[0]);
            }
        }
        if let Some(look) = headline.how.look() {
            row.add_packets(&options.packets, look);
        }
        row
    });
    Ok(Calibrated {
        machine,
        requests: [options.requests, options.varied],
        seeds: options.seeds,
        seconds: begun.elapsed().as_secs_f64(),
        constants: report::constants(),
        rows: rows.collect(),
    })
}

/// The figures of each headline.
type Measured = Vec<Vec<Figure>>;

/// Of each pass, the figures of each headline; of those that it does not concern, none.
fn measure(options: &CalibratedOptions, chosen: &[Headline], passes: &[Pass]) -> Result<Vec<Measured>, Error> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Vec<OnceLock<Result<Measured, Error>>> = passes.iter().map(|_| OnceLock::new()).collect();
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(&pass) = passes.get(place) else { return };
            let requests = if pass.purpose == Purpose::Table { options.requests } else { options.varied };
            let mut lab = Lab::new(pass.costs(), requests, pass.seed);
            let figures = chosen.iter().map(|headline| match headline.how.measure() {
                Some(measure) if pass.concerns(headline) => {
                    measure(&mut lab).map_err(|error| format!("{}, seed {}: {error}", headline.id, pass.seed))
                }
                _ => Ok(Vec::new()),
            });
            results[place].get_or_init(|| figures.collect());
            show(done.fetch_add(1, Ordering::Relaxed) + 1, passes.len());
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(passes.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    results.into_iter().map(|result| result.into_inner().expect("every pass was made")).collect()
}

/// On a terminal, how far it is.
fn show(done: usize, all: usize) {
    if all > 1 && std::io::stderr().is_terminal() {
        let end = if done == all { "\r" } else { "" };
        eprint!("\r{done} of {all} passes {end}");
        let _ = std::io::stderr().flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn some(ids: &[&str], requests: u64, varied: u64, seeds: u64) -> Result<Calibrated, Error> {
        let ids = ids.iter().map(|&id| id.to_owned()).collect();
        run_calibrated(&CalibratedOptions { ids, requests, varied, seeds, packets: Packets::default() })
    }

    /// A record of keys, by its text.
    fn of_keys(record: &str, keys: &serde_json::Value) -> Packets {
        let content = Keys::from_json(&keys.to_string()).unwrap();
        Packets { keys: Some(Kept { record: record.into(), content }), ..Packets::default() }
    }

    #[test]
    fn a_headline_is_measured_and_its_sensitivity() {
        let record = some(&["F5", "C1", "C4"], 3_000, 1_000, 2).unwrap();
        let over = |peer: &str| record.ours("F5", peer).unwrap();
        assert!(over("over SrvLock") > 1.3 && over("over ParLock") > over("over SrvLock"), "{record}");
        // In the order of the table: F5, C1, C4.
        let f5 = &record.rows[0];
        let cell = &f5.figures[0];
        assert_eq!(cell.varied.len(), f5.figures[1].varied.len());
        let manager = cell.varied.iter().find(|one| one.constant == "manager").unwrap();
        assert!(manager.double > manager.half, "who needs a server suffers from a slow one: {record}");
        // What is not measured here says so, and where.
        assert!(record.rows[2].figures.is_empty());
        let again = Calibrated::from_json(&record.to_json()).unwrap();
        assert_eq!(again.to_string(), record.to_string());
        let html = record.to_html();
        assert!(html.contains("over SrvLock") && html.contains("manager doubled") && !html.contains("NaN"), "{html}");
        // Why ours differs is in the page, and each constant with its source.
        for row in &record.rows {
            assert!(html.contains(&crate::contest::escaped(&row.why)), "{}: {html}", row.id);
        }
        for constant in &record.constants {
            assert!(html.contains(&format!("<td>{}</td>", constant.name)) && html.contains(&constant.source[..10]));
        }
        assert!(some(&["F99"], 1, 0, 1).unwrap_err().contains("F11"));
    }

    /// A chain's figures are those of a record, and say which.
    #[test]
    fn what_is_measured_on_packets_is_in_the_table_beside_what_is_modelled() {
        let record = "bench/runs/one.json";
        let timeline = |groups: u32, writes: &[u32]| {
            json!({ "groups": groups, "keys": 9, "bin_ms": 20, "before_ms": 40, "reads": [], "writes": writes,
                    "reads_gap_ms": 0.0, "writes_gap_ms": 0.0, "whole_ms": 140.0, "unsure": 0 })
        };
        let keys = json!({
            "machine": Machine::look(), "load_after": "", "rounds": 1, "keys": 9, "value_bytes": 1, "measured_ms": 1,
            "seconds": 1.0, "stores": [], "runs": [], "failures": [], "notes": [],
            "timelines": [timeline(1, &[8, 8, 0, 0, 9, 0, 0, 0, 9]), timeline(100, &[8, 8, 0, 0, 9, 0, 1, 1, 9])],
        });
        let packets = of_keys(record, &keys);
        let options = CalibratedOptions { ids: vec!["C4".into()], packets, ..CalibratedOptions::short() };
        let of = run_calibrated(&options).unwrap();
        let away =
            |groups: &str| of.ours("C4", &format!("{groups}: no write while another one copies, at most")).unwrap();
        assert_eq!((away("one group"), away("100 groups")), (60.0, 20.0), "{of}");
        let page = include_str!("../../../../docs/headlines.md");
        let put = put_calibrated(page, &of, "bench/runs/two.json").unwrap();
        assert!(put.contains("| on packets |") && put.contains(record), "{put}");
    }

    /// What has no chains in it stands beside what was measured of chains, and only what is modelled has other costs.
    #[test]
    fn what_is_computed_of_chains_is_beside_what_packets_took() {
        let run = |store: &str, does: &str, clients: u32, answered: u32, median_us: f64| {
            json!({ "store": store, "does": does, "clients": clients, "round": 0, "load": "", "seconds": 1.0,
                    "answered": answered, "median_us": median_us, "p99_us": 1.0, "p999_us": 1.0,
                    "client_cpu_s": 0.0, "server_cpu_s": 0.0, "failed": null })
        };
        let store = |name: &str| {
            json!({ "name": name, "version": "", "client": "", "endpoint": "", "members": 3, "durability": "",
                    "reads": "" })
        };
        let row = |operation: &str, median_us: f64| {
            json!({ "operation": operation, "transport": "", "cores": 1, "waits": "", "signed": "", "count": 1,
                    "median_us": median_us, "p99_us": 1.0, "p999_us": 1.0, "to_echo": null })
        };
        let mode = |name: &str, rows: &[serde_json::Value]| json!({ "name": name, "rows": rows, "ratios": [], "rates": [], "seen": null });
        let keys = json!({
            "machine": Machine::look(), "load_after": "", "rounds": 1, "keys": 9, "value_bytes": 1, "measured_ms": 1,
            "seconds": 1.0, "failures": [], "notes": [], "timelines": [],
            "stores": [store("wayside-hook-3"), store("zookeeper-3")],
            "runs": [
                run("wayside-hook-3", "read", 1, 9, 10.0), run("zookeeper-3", "read", 1, 9, 150.0),
                run("wayside-hook-3", "read", 64, 200_000, 1.0), run("zookeeper-3", "read", 64, 20_000, 1.0),
            ],
            "modes": [
                mode("a store of 1000 keys", &[row("read of 128 bytes", 8.0)]),
                mode("a store of 100000 keys", &[row("read of 128 bytes", 10.0)]),
                mode("values of several lengths", &[row("read of 0 bytes", 8.0), row("read of 128 bytes", 9.0)]),
            ],
        });
        let packets = of_keys("one.json", &keys);
        let ids = ["C1", "C2", "C3"].map(String::from).to_vec();
        let options = CalibratedOptions { ids, packets, varied: 100, ..CalibratedOptions::short() };
        let of = run_calibrated(&options).unwrap();
        let found = |id: &str, name: &str| of.ours(id, name).unwrap_or_else(|| panic!("{id}, {name}: {of}"));
        assert_eq!(found("C1", "on packets, reads of many clients: over ZooKeeper").to_bits(), 10f64.to_bits());
        assert_eq!(found("C2", "on packets, read: ZooKeeper's over ours").to_bits(), 15f64.to_bits());
        assert_eq!(found("C3", "on packets, read of 128 bytes over one of none").to_bits(), 1.125f64.to_bits());
        let stores = "on packets, read in a store of 100000 keys over one of 1000";
        assert_eq!(found("C3", stores).to_bits(), 1.25f64.to_bits());
        assert!(of.ours("C1", "on packets, writes of many clients: over ZooKeeper").is_none(), "nobody measured it");
        for row in &of.rows {
            assert_eq!(row.how(), "computed, and on packets");
            for cell in &row.figures {
                assert_eq!(cell.varied.is_empty(), cell.name.starts_with("on packets"), "{}", cell.name);
            }
        }
    }

    /// Service differentiation is of priorities, which are not in the model, and isolation is of the model.
    #[test]
    fn tenants_are_told_apart_on_packets_and_kept_apart_by_the_model() {
        let record = "bench/runs/one.json";
        // Of ten bins the second tenant is there in the last five, of which the last four count.
        let run = |engine: &str, round: u32, differ: bool, [first, second]: [u32; 2]| {
            let there = vec![first; 10];
            let joined: Vec<u32> = (0..10).map(|bin| if bin < 5 { 0 } else { second }).collect();
            json!({ "engine": engine, "differ": differ, "round": round, "timelines": [there, joined],
                    "overlaps": 0, "stale_tokens": 0, "failed": null })
        };
        let mut broken = run("lock server", 0, true, [1, 9]);
        broken["overlaps"] = json!(1);
        let queues = json!({
            "machine": Machine::look(), "load_after": "", "place": "", "rounds": 3, "seconds": 1.0, "workload": "",
            "about": "", "clients": 1, "memory": [], "isolation": [], "notes": [],
            "priorities": [
                run("fission", 0, false, [8, 8]), run("fission", 0, true, [8, 24]), run("fission", 1, true, [8, 16]),
                run("fission", 2, true, [8, 8]), run("lock server", 0, false, [8, 4]), broken,
            ],
        });
        let kept = Kept { record: record.into(), content: Queues::from_json(&queues.to_string()).unwrap() };
        let packets = Packets { queues: Some(kept), ..Packets::default() };
        let options = CalibratedOptions { ids: vec!["N9".into()], requests: 1, packets, ..CalibratedOptions::short() };
        let of = run_calibrated(&options).unwrap();
        let found = |priorities: &str, engine: &str| {
            of.ours("N9", &format!("on packets, priorities {priorities}: second tenant over first, {engine}"))
        };
        assert_eq!((found("alike", "fission"), found("0 and 7", "fission")), (Some(1.0), Some(2.0)), "{of}");
        assert_eq!(found("alike", "lock server"), Some(0.5), "{of}");
        assert_eq!(found("0 and 7", "lock server"), None, "a run in which two held at once does not count: {of}");
        assert!(of.ours("N9", "first tenant over second, without budgets").is_some(), "{of}");
        let row = &of.rows[0];
        assert_eq!(row.how(), "simulated, and on packets");
        assert!(row.figures.iter().all(|cell| !cell.name.starts_with("on packets") || cell.papers() == "drawn"));
        assert!(row.why.ends_with(&format!("On packets: [{record}](../{record}).")), "{}", row.why);
    }

    #[test]
    fn every_seed_is_another_run_and_is_kept() {
        let record = some(&["F5"], 2_000, 0, 3).unwrap();
        for cell in record.rows[0].figures.iter().filter(|cell| cell.is_papers()) {
            let [one, two, three] = cell.ours[..] else { panic!("three seeds: {record}") };
            assert!(one != two && two != three && one != three, "{record}");
            let middle = one.max(two).min(one.min(two).max(three));
            assert_eq!(record.ours("F5", &cell.name).unwrap().to_bits(), middle.to_bits(), "{record}");
        }
    }

    /// What a timeline is for: NetLock falls in the millisecond in which its hot locks are others, fission does not.
    #[test]
    fn a_hot_spot_that_moves_costs_netlock_what_its_switch_had_won() {
        let record = some(&["F7"], 5_000, 0, 1).unwrap();
        let of = |name: &str| record.ours("F7", name).unwrap_or_else(|| panic!("{name}: {record}"));
        let before = of("NetLock, the least millisecond of five before");
        assert!(of("NetLock, the least of five after") < 0.8 * before, "{record}");
        assert!(of("NetLock, the most of them") < of("timeline, from 0 to 1 ms of the move: fission"), "{record}");
        let least = of("fission, the least millisecond of ten around the move");
        assert!(least > 0.9 * of("timeline, from -5 to -4 ms of the move: fission"), "{record}");
    }

    /// The explanation of N1 and N2 is that two NICs' atomics are what DSLR waits for.
    #[test]
    fn remote_memory_is_as_fast_as_two_nics_do_its_atomics() {
        let record = some(&["N1"], 8_000, 0, 1).unwrap();
        let of = |name: &str| record.ours("N1", name).unwrap_or_else(|| panic!("{name}: {record}"));
        let share = of("DSLR") / of("DSLR at most, by two NICs with two atomics for a lock");
        assert!((0.8..1.05).contains(&share), "{share}: {record}");
    }

    /// What another cost changes is not what a shorter run changes.
    #[test]
    fn other_costs_are_compared_with_runs_that_are_as_short() {
        let record = some(&["F5"], 4_000, 1_000, 2).unwrap();
        let short = some(&["F5"], 1_000, 0, 2).unwrap();
        for (cell, as_short) in record.rows[0].figures.iter().zip(&short.rows[0].figures) {
            assert_eq!(cell.short, as_short.ours);
            assert!(cell.short != cell.ours || !cell.is_papers(), "{record}");
        }
        // A constant on which nothing depends in it changes nothing.
        let varied = |name: &str| record.rows[0].figures[0].varied.iter().find(|one| one.constant == name);
        assert!(varied("atomic").is_none() && varied("manager").is_some());
    }

    #[test]
    fn the_same_costs_give_the_same_figures() {
        let figures = || some(&["N1"], 2_000, 0, 1).unwrap().ours("N1", "over DSLR").unwrap();
        assert_eq!(figures().to_bits(), figures().to_bits());
    }

    #[test]
    fn the_page_has_a_place_for_headlines() {
        let page = include_str!("../../../../docs/headlines.md");
        let record = some(&["C1", "C2", "F2"], 0, 0, 1).unwrap();
        let put = put_calibrated(page, &record, "bench/runs/one.json").unwrap();
        assert!(put.contains("| **F2** | **locks in the memory of one switch** | | | computed |"), "{put}");
        assert_eq!(put_calibrated(&put, &record, "bench/runs/one.json").unwrap(), put);
    }

    #[test]
    fn tenants_with_budgets_do_not_take_each_others_share() {
        let record = some(&["N9"], 1, 0, 1).unwrap();
        let free = record.ours("N9", "first tenant over second, without budgets").unwrap();
        let bounded = record.ours("N9", "first tenant over second, each with half as its budget").unwrap();
        // Seven machines to three; then nearly the same, though not for lack of asking.
        assert!((2.0..2.7).contains(&free) && (0.95..1.35).contains(&bounded), "{record}");
        assert_eq!(record.rows[0].how(), "simulated", "there is no record of priorities: {record}");
    }

    #[test]
    fn a_switch_that_is_back_grants_as_before_and_nobody_loses_what_fission_keeps() {
        let record = some(&["N10"], 1_000, 0, 1).unwrap();
        let of = |name: &str| record.ours("N10", name).unwrap_or_else(|| panic!("{name}: {record}"));
        for peer in ["queues, 100 ms", "fission, 100 ms", "queues, 5 ms", "fission, 5 ms"] {
            // But for what a node's own agent can pass on.
            assert!(of(&format!("{peer} away: meanwhile, over before")) < 0.01, "{record}");
            assert!((0.9..1.1).contains(&of(&format!("{peer} away: once it is back, over before"))), "{record}");
        }
        assert_eq!(of("fission, 5 ms away: holds lost"), 0.0, "agents tell what is held: {record}");
        // The queues were in the switch. Whoever held a lock of them is waited for.
        assert!(of("queues, 5 ms away: holds lost") > 0.0, "{record}");
        assert!(of("queues, 5 ms away: back so long after the reactivation") > 300.0, "{record}");
        assert!(of("fission, 5 ms away: back so long after the reactivation") < 30.0, "{record}");
    }

    #[test]
    fn a_bank_is_as_fast_as_the_redis_that_it_waits_for() {
        let record = some(&["F11"], 10_000, 0, 1).unwrap();
        let of = |name: &str| record.ours("F11", name).unwrap();
        let constants = Costs::of_sources();
        let commands = |count: f64, cost| 1e6 / (count * constants.get(cost) as f64);
        // A look is one command, a transfer four; a lock is taken and given back, a transfer has two.
        let store = commands(0.9 + 0.1 * 4.0, Cost::Pipelined);
        let locks = commands(2.0 * 1.1, Cost::Command);
        assert!((0.9..1.02).contains(&(of("fission") / store)), "{store}: {record}");
        assert!((0.8..1.02).contains(&(of("RedLock") / locks)), "{locks}: {record}");
    }

    /// Each headline of the papers that are modelled here is in the table, once.
    #[test]
    fn every_headline_is_there() {
        let ids: Vec<&str> = headlines::all().iter().map(|headline| headline.id).collect();
        let numbered = |letter: char, last: u32| (1..=last).map(move |number| format!("{letter}{number}"));
        let all: Vec<String> = numbered('N', 10).chain(numbered('F', 11)).chain(numbered('C', 4)).collect();
        assert_eq!(ids, all);
    }
}
