//! The calibrated simulator: papers' headline figures by a model of what everything costs, in virtual time.
//!
//! * `costs.rs`: the constants, each with its source. `fabric.rs`: cores, NICs and the switch as queues.
//! * `world.rs`: clients with a workload's transactions, and what must hold of every run.
//! * `engines/`: lock services. This repository's own are its nodes and the switch's core themselves, of which no
//!   decision is modelled; peers are modelled after their papers.
//! * `lab.rs`: a run. `headlines.rs`: what each figure is made of. `report.rs`: what comes out.
//!
//! A figure is a ratio of two models, and no better than they are: docs/headlines.md has what each depends on.

mod costs;
mod engines;
mod fabric;
mod headlines;
mod lab;
mod report;
mod world;

use std::io::{IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

pub use report::{Calibrated, put_calibrated};

use costs::{Cost, Costs};
use headlines::{Figure, Headline, How};
use lab::Lab;
use report::{Row, Varied};

use crate::Error;
use crate::knobs::Machine;

/// What to measure.
#[derive(Clone, Debug)]
pub struct CalibratedOptions {
    /// These headlines; all, if there are none.
    pub ids: Vec<String>,
    /// Requests for locks that a run measures, about.
    pub requests: u64,
    /// Requests of runs with other costs. 0: none are made.
    pub varied: u64,
}

impl CalibratedOptions {
    /// Everything, in some minutes.
    #[must_use]
    pub fn whole() -> CalibratedOptions {
        CalibratedOptions { ids: Vec::new(), requests: 60_000, varied: 8_000 }
    }

    /// Figures alone, and of shorter runs.
    #[must_use]
    pub fn short() -> CalibratedOptions {
        CalibratedOptions { ids: Vec::new(), requests: 10_000, varied: 0 }
    }
}

/// With which costs everything is measured: as they are, or one of them halved or doubled.
#[derive(Clone, Copy, PartialEq)]
struct Variant(Option<(Cost, bool)>);

impl Variant {
    fn costs(self) -> Costs {
        match self.0 {
            None => Costs::of_sources(),
            Some((cost, doubled)) => Costs::of_sources().scaled(cost, if doubled { (2, 1) } else { (1, 2) }),
        }
    }

    fn concerns(self, headline: &Headline) -> bool {
        self.0.is_none_or(|(cost, _)| headline.varied.contains(&cost))
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
    let mut variants = vec![Variant(None)];
    if options.varied > 0 {
        let each = |(cost, ..): (Cost, _, _, _)| [false, true].map(|doubled| Variant(Some((cost, doubled))));
        variants.extend(costs::sources().flat_map(each));
        variants.retain(|variant| chosen.iter().any(|headline| variant.concerns(headline)));
    }
    let measured = measure(options, &chosen, &variants)?;
    let mut rows: Vec<Row> =
        chosen.iter().zip(&measured[0]).map(|(headline, figures)| Row::new(headline, figures)).collect();
    for (cost, name, ..) in costs::sources() {
        let of = |doubled| variants.iter().position(|variant| variant.0 == Some((cost, doubled)));
        let (Some(half), Some(double)) = (of(false), of(true)) else { continue };
        for (place, row) in rows.iter_mut().enumerate().filter(|(place, _)| chosen[*place].varied.contains(&cost)) {
            for (index, cell) in row.figures.iter_mut().enumerate() {
                let value = |variant: usize| measured[variant][place][index].ours;
                cell.varied.push(Varied { constant: name.into(), half: value(half), double: value(double) });
            }
        }
    }
    Ok(Calibrated {
        machine,
        requests: [options.requests, options.varied],
        seconds: begun.elapsed().as_secs_f64(),
        constants: report::constants(),
        rows,
    })
}

/// The figures of each headline.
type Measured = Vec<Vec<Figure>>;

/// Of each variant, the figures of each headline; of those that it does not concern, none.
fn measure(options: &CalibratedOptions, chosen: &[Headline], variants: &[Variant]) -> Result<Vec<Measured>, Error> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Vec<OnceLock<Result<Measured, Error>>> = variants.iter().map(|_| OnceLock::new()).collect();
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(&variant) = variants.get(place) else { return };
            let requests = if variant.0.is_none() { options.requests } else { options.varied };
            let mut lab = Lab::new(variant.costs(), requests);
            let figures = chosen.iter().map(|headline| match headline.how {
                How::Simulated(measure) | How::Computed(measure) if variant.concerns(headline) => {
                    measure(&mut lab).map_err(|error| format!("{}: {error}", headline.id))
                }
                _ => Ok(Vec::new()),
            });
            results[place].get_or_init(|| figures.collect());
            show(done.fetch_add(1, Ordering::Relaxed) + 1, variants.len());
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(variants.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    results.into_iter().map(|result| result.into_inner().expect("every variant was measured")).collect()
}

/// On a terminal, how far it is.
fn show(done: usize, all: usize) {
    if all > 1 && std::io::stderr().is_terminal() {
        let end = if done == all { "\r" } else { "" };
        eprint!("\r{done} of {all} sets of costs {end}");
        let _ = std::io::stderr().flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(ids: &[&str], requests: u64, varied: u64) -> Result<Calibrated, Error> {
        let ids = ids.iter().map(|&id| id.to_owned()).collect();
        run_calibrated(&CalibratedOptions { ids, requests, varied })
    }

    #[test]
    fn a_headline_is_measured_and_its_sensitivity() {
        let record = some(&["F5", "C1", "N9"], 3_000, 1_000).unwrap();
        let over = |peer: &str| record.ours("F5", peer).unwrap();
        assert!(over("over SrvLock") > 1.3 && over("over ParLock") > over("over SrvLock"), "{record}");
        // In the order of the table: N9, F5, C1.
        let f5 = &record.rows[1];
        let cell = &f5.figures[0];
        assert_eq!(cell.varied.len(), f5.figures[1].varied.len());
        let manager = cell.varied.iter().find(|one| one.constant == "manager").unwrap();
        assert!(manager.double > manager.half, "who needs a server suffers from a slow one: {record}");
        // What is not measured here says so, and where.
        assert!(record.rows[0].figures.is_empty());
        let again = Calibrated::from_json(&record.to_json()).unwrap();
        assert_eq!(again.to_string(), record.to_string());
        assert!(some(&["F99"], 1, 0).unwrap_err().contains("F11"));
    }

    #[test]
    fn the_same_costs_give_the_same_figures() {
        let figures = || some(&["N3"], 2_000, 0).unwrap().ours("N3", "over NetChain").unwrap();
        assert_eq!(figures().to_bits(), figures().to_bits());
    }

    #[test]
    fn the_page_has_a_place_for_headlines() {
        let page = include_str!("../../../../docs/headlines.md");
        let record = some(&["C1", "C2", "F2"], 0, 0).unwrap();
        let put = put_calibrated(page, &record, "bench/runs/one.json").unwrap();
        assert!(put.contains("| **C1** | **queries of 4 clients** | | | computed |"), "{put}");
        assert_eq!(put_calibrated(&put, &record, "bench/runs/one.json").unwrap(), put);
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
