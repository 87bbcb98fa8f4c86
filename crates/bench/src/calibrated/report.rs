//! What comes out: the table of headlines, the sensitivity of each, and the constants that both rest on.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use super::Packets;
use super::costs::sources;
use super::headlines::{Figure, Headline, How};
use crate::Error;
use crate::contest::{Better, Compared};
use crate::figures::put_between;
use crate::keys::Keys;
use crate::knobs::Machine;
use crate::recovery::summary::Spread;

/// All that a run of the model has given.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calibrated {
    pub(super) machine: Machine,
    /// Requests that each run has measured, about; and each with other costs.
    pub(super) requests: [u64; 2],
    /// Runs of each figure.
    pub(super) seeds: u64,
    /// Real time.
    pub(super) seconds: f64,
    pub(super) constants: Vec<Constant>,
    pub(super) rows: Vec<Row>,
}

/// A constant of the model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Constant {
    name: String,
    nanoseconds: u64,
    source: String,
}

pub(super) fn constants() -> Vec<Constant> {
    let constant = |(_, name, nanoseconds, source): (_, &str, u64, &str)| Constant {
        name: name.into(),
        nanoseconds,
        source: source.into(),
    };
    sources().map(constant).collect()
}

/// A headline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) what: String,
    /// `simulated`, `computed` or `on packets`; nothing, of which records have more: on packets, too.
    how: String,
    pub(super) figures: Vec<Cell>,
    why: String,
}

const ON_PACKETS: &str = "on packets";

impl Row {
    /// How it came about, for people.
    pub(super) fn how(&self) -> &str {
        if self.how.is_empty() { ON_PACKETS } else { &self.how }
    }
}

/// One figure of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Cell {
    pub(super) name: String,
    pub(super) paper: Option<f64>,
    /// Of every seed.
    pub(super) ours: Vec<f64>,
    pub(super) unit: String,
    /// The same in runs that are as short as those with other costs. None: there are no such.
    pub(super) short: Vec<f64>,
    /// With a constant halved, and doubled: the first seed.
    pub(super) varied: Vec<Varied>,
}

/// A figure with another cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Varied {
    pub(super) constant: String,
    pub(super) half: f64,
    pub(super) double: f64,
}

/// Figure `index` of every seed.
fn of_seeds(seeds: &[Vec<Figure>], index: usize) -> Vec<f64> {
    seeds.iter().map(|figures| figures[index].ours).collect()
}

pub(super) fn spread(values: &[f64]) -> Spread {
    Spread::of(values.to_vec()).expect("every figure is of a seed at least")
}

impl Row {
    /// `seeds`: of each, the figures.
    pub(super) fn new(headline: &Headline, seeds: &[Vec<Figure>]) -> Row {
        let cell = |(index, figure): (usize, &Figure)| Cell {
            name: figure.name.clone(),
            paper: figure.paper,
            ours: of_seeds(seeds, index),
            unit: figure.unit.into(),
            short: Vec::new(),
            varied: Vec::new(),
        };
        let how = match headline.how {
            How::Simulated(_) => "simulated",
            How::Computed(_) => "computed",
            How::OnPackets(_) => ON_PACKETS,
        };
        Row {
            id: headline.id.into(),
            what: headline.what.into(),
            how: how.into(),
            figures: seeds.first().into_iter().flatten().enumerate().map(cell).collect(),
            why: headline.why.into(),
        }
    }

    /// Of a record, which is named; without one it has no figures.
    pub(super) fn on_packets(headline: &Headline, packets: Option<&Packets>, look: fn(&Keys) -> Vec<Figure>) -> Row {
        let figures = packets.map(|packets| look(&packets.keys));
        let row = Row::new(headline, figures.as_slice());
        let of = packets.map_or_else(String::new, |packets| format!(" The record: [{0}](../{0}).", packets.record));
        Row { why: row.why + &of, ..row }
    }

    /// What runs with other costs are to be compared with: of each seed, the figures.
    pub(super) fn compare_with(&mut self, seeds: &[Vec<Figure>]) {
        let cells = self.figures.iter_mut().enumerate();
        cells.for_each(|(index, cell)| cell.short = of_seeds(seeds, index));
    }

    /// The figures with another cost.
    pub(super) fn vary(&mut self, constant: &str, half: &[Figure], double: &[Figure]) {
        for (index, cell) in self.figures.iter_mut().enumerate() {
            let (half, double) = (half[index].ours, double[index].ours);
            cell.varied.push(Varied { constant: constant.into(), half, double });
        }
    }
}

impl Cell {
    /// Median, and least to most of all seeds.
    fn shown(&self) -> String {
        shown(&self.ours, &self.unit)
    }

    /// The constants that matter: with which the figure is further by a twentieth than any seed without them.
    fn matters(&self) -> impl Iterator<Item = &Varied> {
        let Spread { least, median, most } = spread(&self.short);
        let far = 0.05 * median.abs();
        let is_far = move |value: f64| value < least - far || value > most + far;
        self.varied.iter().filter(move |one| is_far(one.half) || is_far(one.double))
    }
}

/// Three digits, or the whole number.
pub(super) fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.5 => format!("{value:.0}"),
        size if size >= 9.95 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

pub(super) fn with_unit(value: f64, unit: &str) -> String {
    let space = if matches!(unit, "" | "x" | "%") { "" } else { " " };
    format!("{}{space}{unit}", digits(value))
}

fn in_unit(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(", {unit}") }
}

/// Median, and least to most where they differ in what is shown.
pub(super) fn shown(values: &[f64], unit: &str) -> String {
    let Spread { least, median, most } = spread(values);
    let [least, most] = [least, most].map(digits);
    let range = if least == most { String::new() } else { format!(" ({least} to {most})") };
    format!("{}{range}", with_unit(median, unit))
}

impl fmt::Display for Calibrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            writeln!(f, "{:<4}{} ({})", row.id, row.what, row.how())?;
            for cell in &row.figures {
                let paper = cell.paper.map_or_else(|| "-".into(), |paper| with_unit(paper, &cell.unit));
                writeln!(f, "      {:<52} paper {paper:>11}   ours {}", cell.name, cell.shown())?;
            }
        }
        writeln!(f, "{:.0} s; about {} requests a run, {} seeds", self.seconds, self.requests[0], self.seeds)
    }
}

impl Calibrated {
    /// What it was measured with.
    pub fn commit(&self) -> &str {
        &self.machine.commit
    }

    /// For `bench/runs`.
    ///
    /// # Panics
    /// Never: a record is numbers, words and lists.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers, words and lists")
    }

    /// A record that was kept.
    ///
    /// # Errors
    /// If it is none, or of another version of this program.
    pub fn from_json(text: &str) -> Result<Calibrated, Error> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// Ours of a headline's figure: the median of all seeds.
    pub fn ours(&self, id: &str, name: &str) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.id == id)?;
        row.figures.iter().find(|cell| cell.name == name).map(|cell| spread(&cell.ours).median)
    }

    /// What another record may have, too.
    pub(crate) fn compared(&self) -> Vec<Compared> {
        let of = |row: &Row, cell: &Cell| Compared {
            name: format!("{}: {}{}", row.id, cell.name, in_unit(&cell.unit)),
            values: cell.ours.clone(),
            better: Better::Neither,
        };
        self.rows.iter().flat_map(|row| row.figures.iter().map(move |cell| of(row, cell))).collect()
    }

    fn table(&self) -> String {
        let mut text = String::from("| id | figure | paper | ours | |\n| --- | --- | --- | --- | --- |\n");
        for row in &self.rows {
            let _ = writeln!(text, "| **{}** | **{}** | | | {} |", row.id, row.what, row.how());
            for cell in &row.figures {
                let paper = cell.paper.map_or_else(String::new, |paper| with_unit(paper, &cell.unit));
                let _ = writeln!(text, "| | {} | {paper} | {} | |", cell.name, cell.shown());
            }
        }
        text
    }

    /// What is to be said of each, once for those of which the same is to be said.
    fn reasons(&self) -> String {
        let mut said: Vec<(&str, Vec<&str>)> = Vec::new();
        for row in &self.rows {
            match said.iter_mut().find(|(why, _)| *why == row.why) {
                Some((_, ids)) => ids.push(&row.id),
                None => said.push((&row.why, vec![&row.id])),
            }
        }
        said.iter().map(|(why, ids)| format!("* **{}**: {why}\n", ids.join(", "))).collect()
    }

    /// Figures of which a paper has a number, with each constant halved and doubled, beside runs as short as those.
    fn sensitivity(&self) -> String {
        let mut text =
            String::from("| id | figure | as short | constant: halved, doubled |\n| --- | --- | --- | --- |\n");
        for row in &self.rows {
            for cell in row.figures.iter().filter(|cell| cell.paper.is_some() && !cell.varied.is_empty()) {
                let one = |one: &Varied| format!("{}: {}, {}", one.constant, digits(one.half), digits(one.double));
                let varied: Vec<String> = cell.matters().map(one).collect();
                let varied = if varied.is_empty() { "none".into() } else { varied.join("; ") };
                let short = shown(&cell.short, &cell.unit);
                let _ = writeln!(text, "| {} | {} | {short} | {varied} |", row.id, cell.name);
            }
        }
        text
    }

    fn constants(&self) -> String {
        let mut text = String::from("| constant | ns | source |\n| --- | --- | --- |\n");
        for constant in &self.constants {
            let _ = writeln!(text, "| {} | {} | {} |", constant.name, constant.nanoseconds, constant.source);
        }
        text
    }
}

/// The page with these headlines in the place of those before.
///
/// # Errors
/// If it has no place for them.
pub fn put_calibrated(page: &str, record: &Calibrated, name: &str) -> Result<String, Error> {
    let Machine { command, date, commit, .. } = &record.machine;
    let [base, varied] = record.requests;
    let figures = format!(
        "`{command}`, {date}, commit {commit}, {} seeds, about {base} requests a run ({varied} with other costs), {:.0} s \
         in all:\n\
         [{name}](../{name}). Medians of the seeds, and in brackets the least and the most.\n\n{}\n\
         ## Why they differ\n\n{}\n## What they depend on\n\n\
         Each constant halved and doubled, in runs of {varied} requests; *as short* is what such runs give with the \
         constants as they are.\nA constant is named where the figure with it is further by a twentieth than that of any \
         seed without it.\n\n{}\n\
         ## The constants\n\n{}",
        record.seeds,
        record.seconds,
        record.table(),
        record.reasons(),
        record.sensitivity(),
        record.constants(),
    );
    put_between(page, &figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_matters_that_changes_more_than_seeds_do() {
        let varied = |constant: &str, half, double| Varied { constant: constant.into(), half, double };
        let cell = Cell {
            name: "one".into(),
            paper: Some(1.0),
            ours: vec![5.0, 7.0, 6.0],
            unit: "x".into(),
            short: vec![2.0, 2.4, 2.2],
            varied: vec![varied("within the seeds", 2.0, 2.4), varied("far", 2.2, 2.6), varied("near", 1.9, 2.5)],
        };
        let names: Vec<&str> = cell.matters().map(|one| one.constant.as_str()).collect();
        assert_eq!(names, ["far"]);
        assert_eq!(cell.shown(), "6.00x (5.00 to 7.00)");
    }
}
