//! Two records side by side: what changed, and whether that is more than the rounds of one record differ by.

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
use serde::Deserialize;
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
    let mut text = format!("before: {}\nafter:  {}\n\n", origin(before), origin(after));
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
    let value: serde_json::Value = serde_json::from_str(record).unwrap_or_default();
    match Machine::deserialize(&value["machine"]) {
        Ok(Machine { commit, date, command, processor, cores, .. }) => {
            format!("{commit}, {date}, `{command}`, {processor}, {cores} cores")
        }
        Err(_) => "nobody knows of what".into(),
    }
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
            percent: 100.0 * (other.median / one.median - 1.0),
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
    let looks: [Look; 4] = [
        ("locks/s", Better::More, Run::grants_a_second),
        ("grant p50, us", Better::Less, |run| run.grant_us(0.5)),
        ("grant p99, us", Better::Less, |run| run.grant_us(0.99)),
        ("CPU us/lock", Better::Less, Run::cpu_us),
    ];
    let mut figures = Vec::new();
    for (index, played) in contest.played.iter().enumerate() {
        for service in &contest.services {
            let runs: Vec<&Run> = contest.runs_of(index, &service.name).filter(|run| run.counts()).collect();
            for (what, better, look) in looks {
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
    fn one_round_tells_nothing_of_the_next() {
        let (before, after) = (record(&[("redis", &[100.0])]), record(&[("redis", &[50.0, 55.0])]));
        let text = compare(&before.to_json(), &after.to_json()).unwrap();
        assert!(text.lines().any(|line| line.contains("redis: locks/s") && line.ends_with(ONCE)), "{text}");
        assert!(text.contains("0 of 4 changed") && text.contains("Of 4 nobody knows"), "{text}");
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
