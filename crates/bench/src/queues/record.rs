//! What comes out: every run as it was, and tables of their medians.

use super::contention::{self, ContentionRun};
use super::fetches::{self, FetchRun};
use super::moves::{self, MovesRun};
use super::{Memory, QueuesOptions, Tenants};
use crate::Error;
use crate::contest::driver::{BIN, Outcome};
use crate::contest::{Better, Compared, QUANTILES, quantiles_us};
use crate::figures::put_between;
use crate::knobs::{Machine, load};
use crate::recovery::summary::{Spread, short};
use crate::workloads::{Named, named};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

pub(super) const BIN_MS: f64 = BIN.as_millis() as f64;

/// Everything that was measured, and under what.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Queues {
    machine: Machine,
    /// As `/proc/loadavg` had it at the end.
    load_after: String,
    /// Where the switch and the nodes were.
    pub place: String,
    rounds: u32,
    /// How long it all took.
    seconds: f64,
    /// Of figures 13 and 14, and its clients.
    pub workload: String,
    about: String,
    clients: usize,
    /// Figures 13 and 14.
    pub memory: Vec<MemoryRun>,
    /// Figure 12 (a).
    pub priorities: Vec<TenantRun>,
    /// Figure 12 (b).
    pub isolation: Vec<TenantRun>,
    /// Both engines; none in records of before 2026-11-23.
    #[serde(default)]
    pub contention: Vec<ContentionRun>,
    /// Locks that bring a row along; the same.
    #[serde(default)]
    pub fetches: Vec<FetchRun>,
    /// A hot spot that moves; none in records of before 2026-11-28.
    #[serde(default)]
    pub moves: Vec<MovesRun>,
    pub(super) notes: Vec<String>,
}

/// A run with so much of the switch's memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemoryRun {
    /// `knapsack`, `random`, or `none`: every lock is the lock server's.
    pub plan: String,
    /// Cells of the switch.
    pub cells: u32,
    /// For how long a transaction held its locks besides, at least.
    pub think_ms: u64,
    /// From 0.
    pub round: u32,
    /// How long it was measured; 0: it failed.
    seconds: f64,
    /// Locks that were granted, and how many of them by the switch.
    pub grants: u64,
    /// As said at `grants`.
    pub by_switch: u64,
    /// Transactions that ended.
    pub transactions: u64,
    /// From a request to its grant, microseconds, at each of [`QUANTILES`].
    pub(super) grant_us: Vec<f64>,
    overlaps: u64,
    stale_tokens: u64,
    failed: Option<String>,
}

/// A run of two tenants.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TenantRun {
    /// Who keeps their locks.
    pub engine: String,
    /// Whether priorities, or budgets, differ from none.
    pub differ: bool,
    /// From 0.
    pub round: u32,
    /// Grants of each in bins of [`BIN_MS`].
    pub timelines: [Vec<u32>; 2],
    overlaps: u64,
    stale_tokens: u64,
    failed: Option<String>,
}

impl MemoryRun {
    pub(super) fn of(memory: Memory, round: u32, outcome: Result<Outcome, Error>) -> MemoryRun {
        let Memory { plan, cells, think } = memory;
        let (outcome, failed) = apart(outcome);
        let count = |of: fn(&Outcome) -> u64| outcome.as_ref().map_or(0, of);
        MemoryRun {
            plan: plan.into(),
            cells,
            think_ms: think.as_millis() as u64,
            round,
            seconds: outcome.as_ref().map_or(0.0, |outcome| outcome.times.measured.as_secs_f64()),
            grants: count(|outcome| outcome.grants.len()),
            by_switch: count(|outcome| outcome.by_switch),
            transactions: count(|outcome| outcome.transactions.len()),
            grant_us: outcome.as_ref().map_or_else(Vec::new, |outcome| quantiles_us(&outcome.grants)),
            overlaps: count(|outcome| outcome.overlaps),
            stale_tokens: count(|outcome| outcome.stale_tokens),
            failed,
        }
    }

    fn counts(&self) -> bool {
        self.failed.is_none() && self.overlaps + self.stale_tokens == 0 && self.grants > 0
    }

    /// Locks a second.
    pub(super) fn rate(&self) -> f64 {
        self.grants as f64 / self.seconds
    }

    /// Hundredths of the grants.
    pub(super) fn share_of_switch(&self) -> f64 {
        100.0 * self.by_switch as f64 / self.grants as f64
    }

    fn grant_us(&self, quantile: f64) -> f64 {
        let at = QUANTILES.iter().position(|known| *known >= quantile).unwrap_or(QUANTILES.len() - 1);
        self.grant_us.get(at).copied().unwrap_or(f64::NAN)
    }
}

impl TenantRun {
    pub(super) fn of(engine: &str, differ: bool, round: u32, tenants: Result<Tenants, Error>) -> TenantRun {
        let (tenants, failed) = apart(tenants);
        let count = |of: fn(&Outcome) -> u64| tenants.as_ref().map_or(0, |tenants| of(&tenants.outcome));
        TenantRun {
            engine: engine.into(),
            differ,
            round,
            overlaps: count(|outcome| outcome.overlaps),
            stale_tokens: count(|outcome| outcome.stale_tokens),
            timelines: tenants.map_or_else(Default::default, |tenants| tenants.timelines),
            failed,
        }
    }

    fn counts(&self) -> bool {
        self.failed.is_none() && self.overlaps + self.stale_tokens == 0 && !self.timelines[0].is_empty()
    }

    /// Grants a second of a tenant in a part of the time.
    fn rate(&self, tenant: usize, from: f64, to: f64) -> f64 {
        let bins = &self.timelines[tenant];
        let at = |part: f64| (bins.len() as f64 * part) as usize;
        let part = &bins[at(from)..at(to)];
        part.iter().map(|&count| f64::from(count)).sum::<f64>() * 1e3 / (part.len() as f64 * BIN_MS)
    }

    /// Grants of the tenant that joins over the other one's, once both are there.
    fn second_over_first(&self) -> f64 {
        let (from, to) = TOGETHER;
        self.rate(1, from, to) / self.rate(0, from, to)
    }
}

/// Who kept the tenants' locks.
fn engines(runs: &[TenantRun]) -> Vec<&str> {
    let mut engines: Vec<&str> = runs.iter().map(|run| run.engine.as_str()).collect();
    engines.sort_unstable();
    engines.dedup();
    engines
}

/// Those of this kind that count.
fn counting<'r>(runs: &'r [TenantRun], engine: &str, differ: bool) -> Vec<&'r TenantRun> {
    runs.iter().filter(|run| run.engine == engine && run.differ == differ && run.counts()).collect()
}

pub(super) fn apart<T>(outcome: Result<T, Error>) -> (Option<T>, Option<Error>) {
    match outcome {
        Ok(outcome) => (Some(outcome), None),
        Err(why) => (None, Some(why)),
    }
}

/// A spread of rates: thousands from ten of them on.
pub(super) fn rate(spread: Spread) -> String {
    let short = |value: f64| if value < 10_000.0 { short(value) } else { format!("{:.0} k", value / 1e3) };
    let Spread { least, median, most } = spread;
    let around = if least == most { String::new() } else { format!(" ({} to {})", short(least), short(most)) };
    format!("{}{around}", short(median))
}

/// A spread of ratios.
fn times(spread: Spread) -> String {
    let Spread { least, median, most } = spread;
    let around = if least == most { String::new() } else { format!(" ({least:.2} to {most:.2})") };
    format!("{median:.2}x{around}")
}

pub(super) fn or_failed(cell: Option<String>) -> String {
    cell.unwrap_or_else(|| "failed".into())
}

/// The beginning of the middle: whoever joins then is not there in the first half, and is in the last third.
const ALONE: (f64, f64) = (0.0, 0.45);
const TOGETHER: (f64, f64) = (0.6, 1.0);
/// Of the first tenant and the second one, in runs in which they do not differ and in those in which they do.
const PRIORITIES: [&str; 2] = ["alike", "0 and 7"];

impl Queues {
    pub(super) fn new(machine: Machine, options: &QueuesOptions, workload: &Named, place: &str) -> Queues {
        Queues {
            machine,
            load_after: String::new(),
            place: place.into(),
            rounds: options.rounds,
            seconds: 0.0,
            workload: workload.name.into(),
            about: workload.about.into(),
            clients: options.clients,
            memory: Vec::new(),
            priorities: Vec::new(),
            isolation: Vec::new(),
            contention: Vec::new(),
            fetches: Vec::new(),
            moves: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn end(&mut self, took: Duration) {
        self.seconds = took.as_secs_f64();
        self.load_after = load();
    }

    /// Of the code that was measured, short; empty outside a repository.
    #[must_use]
    pub fn commit(&self) -> &str {
        &self.machine.commit
    }

    /// As JSON, for other programs.
    ///
    /// # Panics
    /// Never: there is nothing in it that JSON has not.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers, words and lists")
    }

    /// A record that was kept.
    ///
    /// # Errors
    /// If it is none, or of another version of this program.
    pub fn from_json(text: &str) -> Result<Queues, Error> {
        serde_json::from_str(text).map_err(|error| format!("no record of this version: {error}"))
    }

    /// Whether it has every part that was measured on packets.
    pub fn is_whole(&self) -> bool {
        let parts = [self.memory.len(), self.priorities.len(), self.isolation.len(), self.moves.len()];
        !parts.contains(&0)
    }

    /// Runs that failed, and those in which two held at once what excludes each other.
    pub fn broken(&self) -> impl Iterator<Item = String> {
        let why = |failed: &Option<String>, overlaps, stale| match failed {
            Some(why) => why.clone(),
            None => format!("{overlaps} grants overlapped, {stale} tokens did not rise"),
        };
        let memory = self.memory.iter().filter(|run| !run.counts()).map(move |run| {
            let MemoryRun { plan, cells, think_ms, round, failed, overlaps, stale_tokens, .. } = run;
            let why = why(failed, overlaps, stale_tokens);
            format!("{plan}, {cells} cells, {think_ms} ms, round {}: {why}", round + 1)
        });
        let tenants = self.priorities.iter().chain(&self.isolation).filter(|run| !run.counts()).map(move |run| {
            let TenantRun { engine, round, failed, overlaps, stale_tokens, .. } = run;
            format!("tenants of {engine}, round {}: {}", round + 1, why(failed, overlaps, stale_tokens))
        });
        let besides = contention::broken(&self.contention).chain(fetches::broken(&self.fetches));
        memory.chain(tenants).chain(moves::broken(&self.moves)).chain(besides)
    }

    /// Those of this kind that count.
    pub(super) fn runs(&self, plan: &str, cells: u32, think_ms: u64) -> impl Iterator<Item = &MemoryRun> {
        let is_it = move |run: &&MemoryRun| (run.plan == plan, run.cells, run.think_ms) == (true, cells, think_ms);
        self.memory.iter().filter(is_it).filter(|run| run.counts())
    }

    pub(super) fn spread(
        &self,
        plan: &str,
        cells: u32,
        think_ms: u64,
        look: impl Fn(&MemoryRun) -> f64,
    ) -> Option<Spread> {
        Spread::of(self.runs(plan, cells, think_ms).map(look).collect())
    }

    /// Figure 12 (a): engine, priorities, and the second tenant's grants over the first's: the median of the rounds.
    pub(crate) fn second_over_first(&self) -> Vec<(&str, &'static str, f64)> {
        let of = |engine, differ| {
            let runs = counting(&self.priorities, engine, differ);
            Spread::of(runs.iter().map(|run| run.second_over_first()).collect()).map(|spread| spread.median)
        };
        let mut ratios = Vec::new();
        for engine in engines(&self.priorities) {
            for (differ, priorities) in [false, true].into_iter().zip(PRIORITIES) {
                let ratio = of(engine, differ).filter(|ratio| ratio.is_finite());
                ratios.extend(ratio.map(|ratio| (engine, priorities, ratio)));
            }
        }
        ratios
    }

    /// One plan against another in the same round, without thinking.
    fn ratio(&self, cells: u32) -> Option<Spread> {
        let pairs = self.runs("knapsack", cells, 0).filter_map(|one| {
            let other = self.runs("random", cells, 0).find(|other| other.round == one.round)?;
            Some(one.rate() / other.rate())
        });
        Spread::of(pairs.collect())
    }

    /// Those that were measured, ascending.
    pub(super) fn cells(&self) -> Vec<u32> {
        let mut cells: Vec<u32> = self.memory.iter().map(|run| run.cells).filter(|&cells| cells > 0).collect();
        cells.sort_unstable();
        cells.dedup();
        cells
    }

    pub(super) fn thinks(&self) -> Vec<u64> {
        let mut thinks: Vec<u64> = self.memory.iter().map(|run| run.think_ms).collect();
        thinks.sort_unstable();
        thinks.dedup();
        thinks
    }

    /// What another record may have, too.
    pub(crate) fn compared(&self) -> Vec<Compared> {
        let mut figures: Vec<Compared> = Vec::new();
        let mut add =
            |name: String, value: f64, better: Better| match figures.iter_mut().find(|known| known.name == name) {
                Some(known) => known.values.push(value),
                None => figures.push(Compared { name, values: vec![value], better }),
            };
        for run in self.memory.iter().filter(|run| run.counts()) {
            let whose = format!("{}, {} clients, {}", self.workload, self.clients, run.plan);
            let of = |what: &str| format!("{whose}, {} cells, {} ms: {what}", run.cells, run.think_ms);
            add(of("locks/s"), run.rate(), Better::More);
            add(of("at the switch, %"), run.share_of_switch(), Better::Neither);
            add(of("grant p50, us"), run.grant_us(0.5), Better::Less);
        }
        for (name, [rate, p50, p99]) in self.contention.iter().filter_map(ContentionRun::figures) {
            add(format!("{name}: locks/s"), rate, Better::More);
            add(format!("{name}: grant p50, us"), p50, Better::Less);
            add(format!("{name}: grant p99, us"), p99, Better::Less);
        }
        for (runs, with) in [(&self.priorities, "priorities"), (&self.isolation, "budgets")] {
            for run in runs.iter().filter(|run| run.counts()) {
                let with = if run.differ { format!("with {with}") } else { format!("without {with}") };
                for (tenant, name) in ["first", "second"].into_iter().enumerate() {
                    let rate = run.rate(tenant, TOGETHER.0, TOGETHER.1);
                    add(format!("{}, {with}: {name} tenant, locks/s", run.engine), rate, Better::Neither);
                }
            }
        }
        figures
    }

    fn circumstances(&self) -> String {
        let Machine { processor, cores, kernel, commit, date, command, load_before, .. } = &self.machine;
        format!(
            "`{command}`: {processor}, {cores} cores that clients, lock servers and switch share; Linux {kernel}; \
             commit {commit}, {date}; load {load_before} before and {} after; {} rounds, {:.0} s in all. Measured at {}",
            self.load_after, self.rounds, self.seconds, self.place
        )
    }

    /// Figure 13, and 14 (b).
    fn allocations(&self) -> String {
        // A record's own words may have been mended since.
        let about = named(&self.workload).map_or(self.about.as_str(), |named| named.about);
        let mut text = format!(
            "{}, {} clients: {about}; no think time.\n\n| cells | knapsack, locks/s | at the switch | random, locks/s | \
             at the switch | knapsack / random | grant p50, us | p99 | random: p50 | p99 |\n|{}\n",
            self.workload,
            self.clients,
            " --- |".repeat(10)
        );
        let none = self.spread("none", 0, 0, MemoryRun::rate).map(rate);
        let at = |plan, cells, look: &dyn Fn(&MemoryRun) -> f64| self.spread(plan, cells, 0, look);
        let latency = |plan, cells, quantile| {
            or_failed(at(plan, cells, &|run| run.grant_us(quantile)).map(|spread| short(spread.median)))
        };
        text += &format!("| none: the lock server alone | {} | | | | | ", or_failed(none));
        text += &format!("{} | {} | | |\n", latency("none", 0, 0.5), latency("none", 0, 0.99));
        for cells in self.cells() {
            let of = |plan| {
                let share = at(plan, cells, &MemoryRun::share_of_switch).map(|share| format!("{:.0} %", share.median));
                let rate = at(plan, cells, &MemoryRun::rate).map(rate);
                format!("{} | {}", or_failed(rate), or_failed(share))
            };
            let latencies = ["knapsack", "random"]
                .map(|plan| format!("{} | {}", latency(plan, cells, 0.5), latency(plan, cells, 0.99)));
            text += &format!(
                "| {cells} | {} | {} | {} | {} |\n",
                of("knapsack"),
                of("random"),
                or_failed(self.ratio(cells).map(times)),
                latencies.join(" | ")
            );
        }
        text
    }

    /// Figure 14 (a).
    fn think_times(&self) -> String {
        let cells = self.cells();
        let heads: String = cells.iter().map(|cells| format!(" {cells} cells |")).collect();
        let mut text = format!("| knapsack, locks/s | no cells |{heads}\n|{}\n", " --- |".repeat(cells.len() + 2));
        for think in self.thinks() {
            let head = if think == 0 { "no think time".into() } else { format!("{think} ms") };
            let cell = |plan, cells| or_failed(self.spread(plan, cells, think, MemoryRun::rate).map(rate));
            text += &format!("| {head} | {} |", cell("none", 0));
            text += &cells.iter().map(|&cells| format!(" {} |", cell("knapsack", cells))).collect::<String>();
            text += "\n";
        }
        text
    }

    /// A table of tenants' runs, a line for each engine and for whether they differ.
    fn tenants(
        &self,
        runs: &[TenantRun],
        heads: &[&str],
        differ: [&str; 2],
        cells: impl Fn(&[&TenantRun]) -> Vec<Option<String>>,
    ) -> String {
        let mut text = format!("| {} |\n|{}\n", heads.join(" | "), " --- |".repeat(heads.len()));
        for engine in engines(runs) {
            for (is, name) in [false, true].into_iter().zip(differ) {
                let cells: Vec<String> = cells(&counting(runs, engine, is)).into_iter().map(or_failed).collect();
                text += &format!("| {engine} | {name} | {} |\n", cells.join(" | "));
            }
        }
        text
    }

    fn body(&self) -> String {
        let spread = |runs: &[&TenantRun], look: &dyn Fn(&TenantRun) -> f64| {
            Spread::of(runs.iter().map(|run| look(run)).collect())
        };
        let priorities = self.tenants(
            &self.priorities,
            &["engine", "priorities", "first alone, locks/s", "first, with the second", "second", "second / first"],
            PRIORITIES,
            |runs| {
                let of = |tenant, (from, to)| spread(runs, &|run| run.rate(tenant, from, to)).map(rate);
                let ratio = spread(runs, &TenantRun::second_over_first).map(times);
                vec![of(0, ALONE), of(0, TOGETHER), of(1, TOGETHER), ratio]
            },
        );
        let isolation = self.tenants(
            &self.isolation,
            &["engine", "budgets", "first, locks/s", "second", "both", "first / second"],
            ["none", "half each"],
            |runs| {
                let of = |tenant| spread(runs, &|run| run.rate(tenant, 0.0, 1.0)).map(rate);
                let both = spread(runs, &|run| run.rate(0, 0.0, 1.0) + run.rate(1, 0.0, 1.0)).map(rate);
                let ratio = spread(runs, &|run| run.rate(0, 0.0, 1.0) / run.rate(1, 0.0, 1.0)).map(times);
                vec![of(0), of(1), both, ratio]
            },
        );
        let mut text =
            moves::table(&self.moves) + &contention::table(&self.contention) + &fetches::table(&self.fetches);
        if self.memory.is_empty() && self.priorities.is_empty() && self.isolation.is_empty() {
            return text + &self.remarks();
        }
        text += &format!(
            "**Memory allocation** (NetLock's figures 13 and 14 b).\n\n{}\n**Think time** (14 a): all locks of a \
             transaction are held for so long and a millisecond or two more, without a processor.\n\n{}\n\
             **Priorities** (12 a): twenty clients each, four locks, held for a millisecond or two; the second tenant \
             joins in the middle.\n\n{priorities}\n**Isolation** (12 b): seven machines of four clients against three, \
             55,000 locks each.\n\n{isolation}",
            self.allocations(),
            self.think_times(),
        );
        text + &self.remarks()
    }

    fn remarks(&self) -> String {
        let notes = self.notes.iter().map(|note| format!("\n* {note}"));
        notes.chain(self.broken().map(|why| format!("\n* BROKEN: {why}."))).collect()
    }
}

/// The page with the figures of `queues`, which is kept as `record`, in the place of those before.
///
/// # Errors
/// If it has no place for them, or the record is not of all parts that the page shows.
pub fn put_queues(page: &str, queues: &Queues, record: &str) -> Result<String, Error> {
    if !queues.is_whole() {
        return Err(format!("{record}: the page shows a run of all parts (`--queues` without one), not of some"));
    }
    let drawing = record.replace(".json", ".svg");
    let text = format!(
        "{}. Medians, and in brackets the least and the most of the rounds. Every run: [{record}](../{record}).\n\n{}\n\
         \n![Locks a second against cells, and over time](../{drawing})\n",
        queues.circumstances(),
        queues.body(),
    );
    put_between(page, &text)
}

impl fmt::Display for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}.\nMedian (least to most) of the rounds.\n\n{}", self.circumstances(), self.body())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn memory_run(plan: &'static str, cells: u32, round: u32, grants: u64) -> MemoryRun {
        let memory = Memory { plan, cells, think: Duration::ZERO };
        let run = MemoryRun::of(memory, round, Err("made up".into()));
        let grant_us = QUANTILES.map(|quantile| 10.0 + 100.0 * quantile).to_vec();
        MemoryRun { failed: None, seconds: 2.0, grants, by_switch: grants / 4, grant_us, ..run }
    }

    fn tenant_run(differ: bool, second: u32) -> TenantRun {
        let run = TenantRun::of("fission", differ, 0, Err("made up".into()));
        let joined: Vec<u32> = (0..100).map(|bin| if bin < 50 { 0 } else { second }).collect();
        TenantRun { failed: None, timelines: [vec![10; 100], joined], ..run }
    }

    pub(in crate::queues) fn record() -> Queues {
        let options = QueuesOptions::short("wayside".into());
        let workload = named("tpcc-low").unwrap();
        let mut queues = Queues::new(Machine::look(), &options, &workload, "the hook");
        queues.memory.push(memory_run("none", 0, 0, 10_000));
        for (round, better) in [(0, 60_000), (1, 80_000)] {
            queues.memory.push(memory_run("knapsack", 64, round, better));
            queues.memory.push(memory_run("random", 64, round, 40_000));
        }
        queues.priorities = vec![tenant_run(false, 10), tenant_run(true, 80)];
        queues.isolation = vec![tenant_run(false, 5), tenant_run(true, 10)];
        queues.moves = vec![moves::tests::run("queues")];
        queues
    }

    #[test]
    fn tables_have_medians_and_ratios_of_the_same_round() {
        let mut queues = record();
        let text = queues.to_string();
        for line in [
            "| 64 | 35 k (30 k to 40 k) | 25 % | 20 k | 25 % | 1.75x (1.50 to 2.00) | 60 | 109 | 60 | 109 |",
            "| no think time | 5000 | 35 k (30 k to 40 k) |",
            "| fission | alike | 500 | 500 | 500 | 1.00x |",
            "| fission | 0 and 7 | 500 | 500 | 4000 | 8.00x |",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert_eq!(queues.broken().count(), 0);
        queues.memory[0].overlaps = 1;
        queues.isolation[1].failed = Some("it ended".into());
        let text = queues.to_string();
        assert!(text.contains("* BROKEN: none, 0 cells, 0 ms, round 1: 1 grants overlapped"), "{text}");
        assert!(
            text.contains("| fission | half each | failed |") && text.contains("fission, round 1: it ended"),
            "{text}"
        );
        assert_eq!(Queues::from_json(&queues.to_json()).unwrap().to_string(), text);
    }
}
