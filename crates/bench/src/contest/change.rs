//! Two records side by side: what changed, and whether that is more than the rounds of one record differ by; and what
//! else is not the same, so that the change may be of that.

use super::record::{Contest, Run};
use crate::Error;
use crate::calibrated::Calibrated;
use crate::growth::Growth;
use crate::keys::Keys;
use crate::knobs::Machine;
use crate::queues::Queues;
use crate::recovery::Recovery;
use crate::recovery::summary::{Spread, short};
use crate::report::Report;
use serde_json::Value;
use std::fmt::Write;

/// One thing that was measured.
pub(crate) struct Compared {
    pub(crate) name: String,
    /// In every round, or whatever else tells how it varies: its middle is the median.
    pub(crate) values: Vec<f64>,
    pub(crate) better: Better,
}

/// What of a figure is good.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    More,
    Less,
    /// Neither by itself.
    Neither,
}

/// What two records of the same kind have in common, line by line.
///
/// # Errors
/// If they are of different kinds, or have nothing in common.
pub fn compare(before: &str, after: &str) -> Result<String, Error> {
    let mut text = format!("before: {}\nafter:  {}\n", origin(before), origin(after));
    for difference in differences(before, after) {
        let _ = writeln!(text, "NOT THE SAME: {difference}");
    }
    text.push('\n');
    let (before, after) = (figures(before)?, figures(after)?);
    let pairs = before.iter().filter_map(|one| Some((one, after.iter().find(|other| other.name == one.name)?)));
    let rows: Vec<Row> = pairs.filter_map(|(one, other)| Row::of(one, other)).collect();
    if rows.is_empty() {
        return Err("the two records have nothing in common".into());
    }
    let width = |look: fn(&Row) -> &String| rows.iter().map(|row| look(row).chars().count()).max().unwrap_or(0);
    let (name, before, after) = (width(|row| &row.name), width(|row| &row.before), width(|row| &row.after));
    let _ = writeln!(text, "{:<name$}  {:>before$}  {:>after$}   change", "median (least to most)", "before", "after");
    for row in &rows {
        let _ = writeln!(
            text,
            "{:<name$}  {:>before$}  {:>after$}  {:>+6.1} %  {}",
            row.name, row.before, row.after, row.percent, row.verdict
        );
    }
    let of = |verdicts: &[&str]| rows.iter().filter(|row| verdicts.contains(&row.verdict)).count();
    let clear = rows.len() - of(&[WITHIN, ONCE]);
    let _ = writeln!(text, "{clear} of {} changed by more than their rounds differ.", rows.len());
    if of(&[ONCE]) > 0 {
        let _ = writeln!(text, "Of {} nobody knows: a record has a single round of them.", of(&[ONCE]));
    }
    Ok(text)
}

const WITHIN: &str = "within the spread";
/// One round does not tell what the next one would be.
const ONCE: &str = "measured once";

/// What a record was measured with.
fn origin(record: &str) -> String {
    match Machine::of_record(record) {
        Some(Machine { commit, date, command, processor, cores, .. }) => {
            format!("{commit}, {date}, `{command}`, {processor}, {cores} cores")
        }
        None => "nobody knows of what".into(),
    }
}

/// Loads of a machine that differ by more than this are not the same: half a processor's work.
const LOAD: f64 = 0.5;
/// What says of a record, whichever kind it is, how much was measured of what. `seconds` is not among it: mostly that
/// is how long it came to take.
const MEASURED: [&str; 13] = [
    "rounds",
    "measured_ms",
    "requests",
    "seeds",
    "seed",
    "nodes",
    "clients",
    "workload",
    "place",
    "keys",
    "value_bytes",
    "pinned",
    "cpu_dma_latency_held",
];

/// Whatever else than the code may have changed a figure: the machine, what it did besides, how long was measured.
fn differences(before: &str, after: &str) -> Vec<String> {
    let mut all = Vec::new();
    if let (Some(one), Some(other)) = (Machine::of_record(before), Machine::of_record(after)) {
        let cores = |machine: &Machine| machine.cores.to_string();
        let pairs = [
            ("processor", one.processor.clone(), other.processor.clone()),
            ("cores", cores(&one), cores(&other)),
            ("memory", one.memory.clone(), other.memory.clone()),
            ("kernel", one.kernel.clone(), other.kernel.clone()),
            ("compiler", one.rustc.clone(), other.rustc.clone()),
            ("build", one.build.clone(), other.build.clone()),
        ];
        // An old record does not say all of it.
        let differ = pairs.into_iter().filter(|(_, one, other)| !one.is_empty() && !other.is_empty() && one != other);
        all.extend(differ.map(|(what, one, other)| format!("{what}: {one} before, {other} after")));
        let loads = [&one, &other].map(|machine| machine.load_before.parse::<f64>());
        if let [Ok(one), Ok(other)] = loads
            && (one - other).abs() > LOAD
        {
            all.push(format!("load when it began: {one} before, {other} after"));
        }
    }
    let read = |record: &str| serde_json::from_str::<Value>(record).unwrap_or_default();
    let (one, other) = (read(before), read(after));
    for what in MEASURED {
        let (one, other) = (&one[what], &other[what]);
        if !one.is_null() && !other.is_null() && one != other {
            all.push(format!("{what}: {one} before, {other} after"));
        }
    }
    let (one, other) = (measured_ms(&one), measured_ms(&other));
    if !one.is_empty() && !other.is_empty() && one != other {
        all.push(format!("measured ms of a run: {one:?} before, {other:?} after"));
    }
    all
}

/// Of a record of services, of all its workloads, each time once.
fn measured_ms(record: &Value) -> Vec<u64> {
    let played = record["played"].as_array().into_iter().flatten();
    let mut all: Vec<u64> = played.filter_map(|played| played["measured_ms"].as_u64()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

struct Row {
    name: String,
    before: String,
    after: String,
    percent: f64,
    verdict: &'static str,
}

impl Row {
    fn of(before: &Compared, after: &Compared) -> Option<Row> {
        let (one, other) = (Spread::of(before.values.clone())?, Spread::of(after.values.clone())?);
        let is_once = before.values.len() < 2 || after.values.len() < 2;
        let (rises, falls) = (other.least > one.most, other.most < one.least);
        let verdict = match before.better {
            _ if one == other => WITHIN,
            _ if is_once => ONCE,
            _ if !rises && !falls => WITHIN,
            Better::Neither => "changed",
            better if rises == (better == Better::More) => "better",
            _ => "worse",
        };
        Some(Row {
            name: before.name.clone(),
            before: shown(one),
            after: shown(other),
            // Nothing is aborted before, and nothing after: no change.
            percent: if one == other { 0.0 } else { 100.0 * (other.median / one.median - 1.0) },
            verdict,
        })
    }
}

fn shown(spread: Spread) -> String {
    format!("{} ({} to {})", short(spread.median), short(spread.least), short(spread.most))
}

/// All of a record, whichever kind it is.
fn figures(record: &str) -> Result<Vec<Compared>, Error> {
    if let Ok(contest) = Contest::from_json(record) {
        return Ok(of_contest(&contest));
    }
    if let Ok(recovery) = Recovery::from_json(record) {
        return Ok(of_recovery(&recovery));
    }
    if let Ok(keys) = Keys::from_json(record) {
        return Ok(keys.compared());
    }
    if let Ok(queues) = Queues::from_json(record) {
        return Ok(queues.compared());
    }
    if let Ok(calibrated) = Calibrated::from_json(record) {
        return Ok(calibrated.compared());
    }
    if let Ok(growth) = Growth::from_json(record) {
        return Ok(growth.compared());
    }
    let report = Report::from_json(record).map_err(|_| "a record that no kind of measurement of this version wrote")?;
    Ok(of_report(&report))
}

fn of_contest(contest: &Contest) -> Vec<Compared> {
    type Look = (&'static str, Better, fn(&Run) -> Option<f64>);
    let looks: [Look; 8] = [
        ("locks/s", Better::More, Run::grants_a_second),
        ("transactions/s", Better::More, Run::transactions_a_second),
        ("grant p50, us", Better::Less, |run| run.grant_us(0.5)),
        ("grant p99, us", Better::Less, |run| run.grant_us(0.99)),
        ("transaction p50, us", Better::Less, |run| run.transaction_us(0.5)),
        ("transaction p99, us", Better::Less, |run| run.transaction_us(0.99)),
        ("aborted, %", Better::Less, |run| run.aborted().map(|part| 100.0 * part)),
        ("CPU us/lock", Better::Less, Run::cpu_us),
    ];
    let mut figures = Vec::new();
    for (index, played) in contest.played.iter().enumerate() {
        for service in &contest.services {
            let runs: Vec<&Run> = contest.runs_of(index, &service.name).filter(|run| run.counts()).collect();
            for (what, better, look) in looks {
                // Where nothing is ever aborted there is nothing to compare.
                if what.starts_with("aborted") && played.abort_ms.is_none() {
                    continue;
                }
                let values = runs.iter().filter_map(|run| look(run)).collect();
                figures.push(Compared {
                    name: format!("{}: {}: {what}", played.title(), service.name),
                    values,
                    better,
                });
            }
        }
    }
    figures
}

fn of_recovery(recovery: &Recovery) -> Vec<Compared> {
    let mut figures = Vec::new();
    for fault in crate::recovery::Fault::ALL {
        for locks in recovery.locks() {
            for (what, look) in crate::recovery::summary::looks(fault) {
                let values = recovery.values(fault, locks, look);
                let name = format!("{}, {locks} locks: {what}, ms", fault.name());
                figures.push(Compared { name, values, better: Better::Less });
            }
        }
    }
    figures
}

/// Its ratios, since they are what it compares round by round: from where a tenth lies below to where a tenth lies
/// above.
fn of_report(report: &Report) -> Vec<Compared> {
    let ratios = report.modes.iter().flat_map(|mode| mode.ratios.iter().map(move |ratio| (mode, ratio)));
    ratios
        .map(|(mode, ratio)| {
            let around = &ratio.of_rounds;
            // `Redis / acquire` is how much faster Wayside is.
            let better = if ratio.what.starts_with("Redis") { Better::More } else { Better::Less };
            let values = vec![around.p10, ratio.of_medians, around.p90];
            Compared { name: format!("{}: {}", mode.name, ratio.what), values, better }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;
    use super::*;

    #[test]
    fn what_changed_is_told_from_what_only_varies() {
        let before = record(&[("redis", &[100.0, 110.0, 120.0]), ("etcd", &[9_000.0, 9_500.0])]);
        let after = record(&[("redis", &[50.0, 55.0, 60.0]), ("etcd", &[9_100.0, 9_400.0])]);
        let text = compare(&before.to_json(), &after.to_json()).unwrap();
        let line = |what: &str| text.lines().find(|line| line.contains(what)).unwrap().to_owned();
        assert!(line("redis: locks/s").ends_with("better") && line("redis: locks/s").contains("+100.0 %"), "{text}");
        assert!(line("redis: grant p50").ends_with("better") && line("redis: grant p50").contains("-50.0 %"), "{text}");
        assert!(line("etcd: grant p50").ends_with(WITHIN), "{text}");
        let back = compare(&after.to_json(), &before.to_json()).unwrap();
        assert!(back.lines().any(|line| line.contains("redis: locks/s") && line.ends_with("worse")), "{back}");
        assert!(compare("{}", &before.to_json()).is_err());
        assert!(text.starts_with("before: ") && text.contains("after:  "), "{text}");
    }

    #[test]
    fn transactions_and_what_was_aborted_are_compared() {
        let before = record(&[("redis", &[100.0, 110.0])]);
        let mut after = before.clone();
        after.runs.iter_mut().for_each(|run| {
            run.transactions /= 2;
            run.aborts *= 50;
            run.transaction_us.iter_mut().for_each(|us| *us *= 3.0);
        });
        let text = compare(&before.to_json(), &after.to_json()).unwrap();
        for what in ["transactions/s", "transaction p50, us", "transaction p99, us", "aborted, %"] {
            let line = text.lines().find(|line| line.contains(&format!("redis: {what}"))).unwrap();
            assert!(line.ends_with("worse"), "{line}");
        }
        let mut never = before.clone();
        never.played[0].abort_ms = None;
        let text = compare(&never.to_json(), &never.to_json()).unwrap();
        assert!(!text.contains("aborted") && !text.contains("NaN"), "{text}");
    }

    #[test]
    fn whatever_else_than_the_code_was_not_the_same_is_told() {
        let before = record(&[("redis", &[100.0, 110.0])]);
        let same = compare(&before.to_json(), &before.to_json()).unwrap();
        assert!(!same.contains("NOT THE SAME"), "{same}");
        let mut after = before.clone();
        let load: f64 = after.machine.load_before.parse().unwrap();
        after.machine.load_before = (load + 3.0).to_string();
        (after.machine.kernel, after.machine.rustc) = ("other".into(), "rustc 1.0.0".into());
        (after.rounds, after.played[0].measured_ms) = (9, 77);
        let text = compare(&before.to_json(), &after.to_json()).unwrap();
        let told =
            ["kernel: ", "compiler: ", "load when it began: ", "rounds: 1 before, 9 after", "[1000] before, [77]"];
        for what in told {
            let is_told = text.lines().any(|line| line.starts_with("NOT THE SAME: ") && line.contains(what));
            assert!(is_told, "{what}\n{text}");
        }
        // Whoever did not say it is not another one.
        after.machine = Machine { rustc: String::new(), ..before.machine.clone() };
        assert!(!compare(&before.to_json(), &after.to_json()).unwrap().contains("compiler"));
    }

    #[test]
    fn one_round_tells_nothing_of_the_next() {
        let (before, after) = (record(&[("redis", &[100.0])]), record(&[("redis", &[50.0, 55.0])]));
        let text = compare(&before.to_json(), &after.to_json()).unwrap();
        assert!(text.lines().any(|line| line.contains("redis: locks/s") && line.ends_with(ONCE)), "{text}");
        assert!(text.contains("0 of 8 changed") && text.contains("Of 8 nobody knows"), "{text}");
        let same = compare(&before.to_json(), &before.to_json()).unwrap();
        assert!(same.lines().any(|line| line.contains("redis: locks/s") && line.ends_with(WITHIN)), "{same}");
    }

    /// Of every kind that is kept, and each of this version: what can be read can be compared.
    #[test]
    fn every_record_that_is_kept_can_be_compared() {
        let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/runs");
        let records = std::fs::read_dir(kept).unwrap().flatten().map(|entry| entry.path());
        let mut count = 0;
        for path in records.filter(|path| path.extension().is_some_and(|extension| extension == "json")) {
            let record = std::fs::read_to_string(&path).unwrap();
            let text = compare(&record, &record).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
            assert!(text.contains(WITHIN) && text.contains("\n0 of "), "{}: {text}", path.display());
            assert!(!text.contains("nobody knows of what"), "{}: {text}", path.display());
            count += 1;
        }
        assert!(count > 0);
    }
}
