//! Two records side by side: what changed, and whether that is more than the rounds of one record differ by.

use super::record::{Contest, Run};
use crate::Error;
use crate::recovery::Recovery;
use crate::recovery::summary::{Spread, short};
use crate::report::Report;
use std::fmt::Write;

/// One thing that was measured.
struct Figure {
    name: String,
    spread: Spread,
    /// More of it is better.
    is_rate: bool,
}

/// What two records of the same kind have in common, line by line.
///
/// # Errors
/// If they are of different kinds, or have nothing in common.
pub fn compare(before: &str, after: &str) -> Result<String, Error> {
    let (before, after) = (figures(before)?, figures(after)?);
    let pairs = before.iter().filter_map(|one| Some((one, after.iter().find(|other| other.name == one.name)?)));
    let rows: Vec<Row> = pairs.map(|(one, other)| Row::of(one, other)).collect();
    if rows.is_empty() {
        return Err("the two records have nothing in common".into());
    }
    let width = |look: fn(&Row) -> &String| rows.iter().map(|row| look(row).chars().count()).max().unwrap_or(0);
    let (name, before, after) = (width(|row| &row.name), width(|row| &row.before), width(|row| &row.after));
    let mut text =
        format!("{:<name$}  {:>before$}  {:>after$}   change\n", "median (least to most)", "before", "after");
    for row in &rows {
        let _ = writeln!(
            text,
            "{:<name$}  {:>before$}  {:>after$}  {:>+6.1} %  {}",
            row.name, row.before, row.after, row.percent, row.verdict
        );
    }
    let clear = rows.iter().filter(|row| row.verdict != WITHIN).count();
    let _ = writeln!(text, "{clear} of {} changed by more than their rounds differ.", rows.len());
    Ok(text)
}

const WITHIN: &str = "within the spread";

struct Row {
    name: String,
    before: String,
    after: String,
    percent: f64,
    verdict: &'static str,
}

impl Row {
    fn of(before: &Figure, after: &Figure) -> Row {
        let (one, other) = (before.spread, after.spread);
        let rises = other.least > one.most;
        let verdict = match (rises, other.most < one.least) {
            (false, false) => WITHIN,
            _ if rises == before.is_rate => "better",
            _ => "worse",
        };
        Row {
            name: before.name.clone(),
            before: shown(one),
            after: shown(other),
            percent: 100.0 * (other.median / one.median - 1.0),
            verdict,
        }
    }
}

fn shown(spread: Spread) -> String {
    format!("{} ({} to {})", short(spread.median), short(spread.least), short(spread.most))
}

/// All of a record, whichever kind it is.
fn figures(record: &str) -> Result<Vec<Figure>, Error> {
    if let Ok(contest) = Contest::from_json(record) {
        return Ok(of_contest(&contest));
    }
    if let Ok(recovery) = Recovery::from_json(record) {
        return Ok(of_recovery(&recovery));
    }
    let report = Report::from_json(record).map_err(|_| "a record that no kind of measurement of this version wrote")?;
    Ok(of_report(&report))
}

fn of_contest(contest: &Contest) -> Vec<Figure> {
    type Look = (&'static str, bool, fn(&Run) -> Option<f64>);
    let looks: [Look; 4] = [
        ("locks/s", true, Run::grants_a_second),
        ("grant p50, us", false, |run| run.grant_us(0.5)),
        ("grant p99, us", false, |run| run.grant_us(0.99)),
        ("CPU us/lock", false, Run::cpu_us),
    ];
    let mut figures = Vec::new();
    for (index, played) in contest.played.iter().enumerate() {
        for service in &contest.services {
            for (what, is_rate, look) in looks {
                let Some(spread) = contest.spread(index, &service.name, look) else { continue };
                figures.push(Figure { name: format!("{}: {}: {what}", played.title(), service.name), spread, is_rate });
            }
        }
    }
    figures
}

fn of_recovery(recovery: &Recovery) -> Vec<Figure> {
    let mut figures = Vec::new();
    for fault in crate::recovery::Fault::ALL {
        for locks in recovery.locks() {
            for (what, look) in crate::recovery::summary::looks(fault) {
                let Some(spread) = recovery.spread(fault, locks, look) else { continue };
                let name = format!("{}, {locks} locks: {what}, ms", fault.name());
                figures.push(Figure { name, spread, is_rate: false });
            }
        }
    }
    figures
}

/// Its ratios, since they are what it compares round by round: from where a tenth lies below to where a tenth lies
/// above.
fn of_report(report: &Report) -> Vec<Figure> {
    let ratios = report.modes.iter().flat_map(|mode| mode.ratios.iter().map(move |ratio| (mode, ratio)));
    ratios
        .map(|(mode, ratio)| {
            let around = &ratio.of_rounds;
            let spread = Spread { least: around.p10, median: ratio.of_medians, most: around.p90 };
            // `Redis / acquire` is how much faster Wayside is.
            Figure { name: format!("{}: {}", mode.name, ratio.what), spread, is_rate: ratio.what.starts_with("Redis") }
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
    }
}
